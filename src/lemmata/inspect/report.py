"""The HTML report of an inspection: one page that loads nothing from outside, with all figures inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from itertools import zip_longest

import numpy as np

from lemmata.evaluate.charts import COLOURS, number, page, table
from lemmata.inspect.figures import file_stem
from lemmata.inspect.inspection import Comparison, EncoderView, Inspection, Shown
from lemmata.inspect.tokens import Tokenisation, pieces

_FREQUENT = 20  # tokens in the table
_NAMED_NORMS = 8  # tokens with the longest and shortest vectors
Row = tuple[str, list[str]]  # of a table: CSS class and cells
# measures of an encoder: name, value, digits, and what it means
_MEASURES: list[tuple[str, Callable[[EncoderView], float | None], int, str]] = [
    ("mean cosine", lambda view: view.space.mean_cosine, 3, "of random pairs: 0 where all directions are used alike"),
    ("isotropy", lambda view: view.space.isotropy, 3,
     "smallest over largest partition sum: 1 where no direction is preferred"),
    ("effective rank", lambda view: view.space.effective_rank, 1, "dimensions that are used"),
    ("uniformity", lambda view: view.space.uniformity, 3, "lower is more evenly spread; about −4 at best"),
    ("alignment", lambda view: view.space.alignment, 3, "mean squared distance of linked passages; lower is nearer"),
    ("separation", lambda view: view.space.separation, 3,
     "probability that a linked pair is nearer than a random one; 0.5 is chance"),
    ("purity@10", lambda view: view.purity, 3, "share of the ten nearest that are of the same document"),
    ("agreement", lambda view: view.pooled.agreement if view.pooled else None, 3,
     "length of the mean token vector over the mean length: 1 where all tokens point the same way"),
]  # fmt: skip
# of a tokenizer: name, value, and what it means
_TOKEN_MEASURES: list[tuple[str, Callable[[Tokenisation], str], str]] = [
    ("vocabulary", lambda cut: f"{len(cut.tokens.vocabulary):,}", "tokens that it has"),
    ("used", lambda cut: f"{cut.used:,}", "different tokens in the sample"),
    ("median", lambda cut: f"{np.median(cut.lengths):.0f}", "tokens of a passage"),
    ("95 %", lambda cut: f"{np.percentile(cut.lengths, 95):.0f}", "of the passages have at most so many"),
    ("cut off", lambda cut: f"{cut.cut_off:.1%}", "passages longer than the encoder reads"),
    ("per word", lambda cut: number(cut.words.pieces, 2), "pieces of a word of prose"),
    ("per command", lambda cut: number(cut.commands.pieces, 2), "pieces of the name of a LaTeX command"),
    ("commands whole", lambda cut: _percent(cut.commands.whole), "names of commands that are one token"),
    ("in formulas", lambda cut: f"{cut.in_formulas:.0%}", "of all tokens"),
    ("unknown", lambda cut: f"{cut.unknown:.2%}", "of all tokens"),
]


_CHOSEN = "Chosen passages, pair by pair"
_FRAMED = " A frame marks two passages that the graph links; a good encoder colours them more strongly than the rest."
_MEANINGS = {  # of the sections
    _CHOSEN: "The cosine of each pair of these passages, on one scale for all encoders.",
    "Documents on a map": (
        "Passages of some documents in two dimensions by t-SNE: near points are near passages, distances between"
        " clusters mean little. Each map starts from the one before it, so that what an encoder does not move stays."
    ),
    "Linked and random pairs": (
        "How alike two passages are that the graph links, and two random ones. The less the two curves overlap, the"
        " better links can be told from chance."
    ),
    "Tokens": "How each tokenizer cuts the passages, and LaTeX in them.",
    "Lengths of token vectors": (
        "The lengths of the token vectors before the first layer. In a static encoder the length is the weight of a"
        " token in the mean; in a transformer rare tokens often keep the length that they had before training."
    ),
    "Attention": (
        "Where the attention of a token goes, layer by layer, as a mean over heads and passages; entropy is 1 where it"
        " goes to all tokens alike. The maps show the last layers for one passage, and what the first token looks at."
    ),
    "Modules": "What each transformer consists of, component by component.",
    "Pooled against token vectors": (
        "Each point is a passage: the mean length of its token vectors after the last layer, and the length of the"
        " vector that pooling makes of them, before it is normalised. The lower a point, the less its tokens agree."
    ),
}


def as_html(inspection: Inspection, figures: Mapping[str, str]) -> str:
    """The report; `figures` are those of `figures.draw`."""
    names = ", ".join(view.label for view in inspection.encoders)
    drawn = {name: f'<figure class="drawn">{svg}</figure>' for name, svg in figures.items()}
    body = [_header(inspection, names), "<h2>At a glance</h2>", _overview(inspection.encoders)]
    for place, comparison in enumerate(inspection.comparisons, 1):
        body += _changes(comparison, drawn[f"neighbours-{place}"])
    for title, parts in {
        _CHOSEN: _cosines(inspection, drawn),
        "Documents on a map": [drawn["map"]] if "map" in drawn else [],
        "Linked and random pairs": _space(inspection.encoders, drawn),
        "Modules": _modules(inspection.encoders),
        "Tokens": _tokens(inspection, drawn),
        "Lengths of token vectors": _norms(inspection.encoders, drawn),
        "Attention": _attention(inspection.encoders, drawn),
        "Pooled against token vectors": [drawn["pooling"]] if "pooling" in drawn else [],
    }.items():
        meaning = _MEANINGS[title] + (_FRAMED if title == _CHOSEN and inspection.linked else "")
        body += _section(title, meaning, parts) if parts else []
    return page(f"Inspection of {names}", body)


def _section(title: str, meaning: str, parts: Iterable[str]) -> list[str]:
    return [f"<h2>{title}</h2>", f'<p class="quiet">{meaning}</p>', *parts]


def _heading(html: str) -> str:
    return f'<h3 class="later">{html}</h3>'


def _grid(figures: Iterable[str]) -> str:
    return f'<div class="maps">{"".join(figures)}</div>'


def _quiet(text: str) -> str:
    return f'<span class="quiet">{text}</span>'


def _named(view: EncoderView, views: Sequence[EncoderView]) -> str:
    """The name of an encoder beside the dot of its colour."""
    colour = next(place for place, other in enumerate(views) if other is view) % COLOURS
    return f'<span class="key c{colour}"></span>{escape(view.label)}'


def _header(inspection: Inspection, names: str) -> str:
    facts = f"{inspection.sampled:,} of {inspection.passages:,} passages · seed {inspection.seed}"
    if inspection.links:
        facts += f" · {inspection.links:,} linked pairs"
    notes = [*inspection.notes, *(note for view in inspection.encoders for note in view.notes)]
    return (
        f'<header><h1>{escape(names)}</h1><p class="quiet">What these encoders see: {facts}</p>'
        + "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
        + "</header>"
    )


def _overview(views: Sequence[EncoderView]) -> str:
    kinds = {"onnx": "transformer (ONNX)", "static": "token vectors"}
    rows: list[Row] = [
        ("", ["kind", *(escape(kinds.get(view.kind, view.kind)) for view in views), ""]),
        ("", ["dimension", *(str(view.dimension) for view in views), ""]),
    ]
    if any(view.layers for view in views):
        shapes = (f"{view.layers} × {view.heads}" if view.layers else "–" for view in views)
        rows.append(("", ["layers × heads", *shapes, ""]))
    for name, value, digits, meaning in _MEASURES:
        values = [value(view) for view in views]
        if any(item is not None for item in values):
            cells = [number(item, digits).replace("-", "−") for item in values]
            rows.append(("", [name, *cells, _quiet(meaning)]))
    heads = ["", *(_named(view, views) for view in views), ""]
    return table(heads, rows, numeric=range(1, len(views) + 1), text={len(views) + 1})


# ---------------------------------------------------------------- what changed, and the space


def _changes(comparison: Comparison, figure: str) -> list[str]:
    before, after = escape(comparison.before), escape(comparison.after)
    meaning = (
        f"Of the {comparison.k} nearest sampled passages of each passage by {before}, {after} keeps"
        f" {comparison.overlaps.mean():.0%} (overlap@{comparison.k}). Below: the passages with the fewest in common."
    )
    rows: list[Row] = []
    for changed in comparison.most_changed:
        left, entered = ("".join(map(_passage, passages)) or "–" for passages in (changed.left, changed.entered))
        rows.append(("start", [_passage(changed.passage), f"{changed.overlap:.0%}", left, entered]))
    heads = ["passage", "kept", f"near by {before} only", f"near by {after} only"]
    heading = f"What training changed from {before} to {after}"
    if not comparison.is_training:
        heading = f"Neighbours by {before} and by {after}"
    return _section(heading, meaning, [figure, table(heads, rows, numeric={1}, text={0, 2, 3})])


def _passage(passage: Shown) -> str:
    title = f"<b>{escape(passage.title)}</b> " if passage.title else ""
    return f'<p class="small-text">{title}{escape(passage.text)}<br><code>{escape(passage.id)}</code></p>'


def _cosines(inspection: Inspection, drawn: Mapping[str, str]) -> list[str]:
    maps = _grid(drawn[f"cosines-{file_stem(view, inspection.encoders)}"] for view in inspection.encoders)
    rows = [("", [str(place), _passage(passage)]) for place, passage in enumerate(inspection.chosen, 1)]
    return [maps, f"<details><summary>The passages</summary>{table(['', 'passage'], rows, text={1})}</details>"]


def _space(views: Sequence[EncoderView], drawn: Mapping[str, str]) -> list[str]:
    spread = (
        '<p class="quiet">How much of the variance the first principal components hold: a curve that rises steeply'
        " uses few dimensions.</p>"
    )
    return [*(drawn[f"pairs-{file_stem(view, views)}"] for view in views), spread, drawn["spectrum"]]


# ---------------------------------------------------------------- tokens


def _tokens(inspection: Inspection, drawn: Mapping[str, str]) -> list[str]:
    groups = _same_tokenizers(inspection.encoders)
    if not groups:
        return []
    heads = [" ".join(_named(view, inspection.encoders) for view in views) for _, views in groups]
    cuts = [cut for cut, _ in groups]
    rows = [("", [name, *map(value, cuts), _quiet(meaning)]) for name, value, meaning in _TOKEN_MEASURES]
    return [
        table(["", *heads, ""], rows, numeric=range(1, len(cuts) + 1), text={len(cuts) + 1}),
        drawn["token-lengths"],
        *_overlap_table(inspection),
        *_command_table(inspection, cuts, heads),
        *_example(inspection, cuts, heads),
        *_frequent_table(cuts, heads),
    ]


def _same_tokenizers(views: Sequence[EncoderView]) -> list[tuple[Tokenisation, list[EncoderView]]]:
    """The encoders that have tokens, those with the same vocabulary and the same cuts together."""
    groups: list[tuple[Tokenisation, list[EncoderView]]] = []
    for view in views:
        if (cut := view.tokenisation) is None:
            continue
        for other, same in groups:
            if other.counts == cut.counts and other.tokens.vocabulary == cut.tokens.vocabulary:
                same.append(view)
                break
        else:
            groups.append((cut, [view]))
    return groups


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{share:.0%}"


def _overlap_table(inspection: Inspection) -> list[str]:
    rows = []
    for first, second, overlap in inspection.overlaps:
        shares = [f"{overlap.shared:,}", f"{overlap.jaccard:.0%}", f"{overlap.text:.0%}"]
        rows.append(("", [f"{escape(first)} and {escape(second)}", *shares]))
    heads = ["vocabularies of", "tokens in both", "of all tokens", "of the first one's tokens in the text"]
    return [_heading("Vocabulary overlap"), table(heads, rows, numeric={1, 2, 3})] if rows else []


def _command_table(inspection: Inspection, cuts: Sequence[Tokenisation], heads: Sequence[str]) -> list[str]:
    rows = []
    for command, count in inspection.commands:
        shown = [_pieces(pieces(cut.tokens, command)) for cut in cuts]
        rows.append(("", [f"<code>{escape(command)}</code>", f"{count:,}", *shown]))
    heading = _heading("The most frequent LaTeX commands in pieces")
    return [heading, table(["command", "count", *heads], rows, numeric={1})] if rows else []


def _pieces(tokens: Iterable[str]) -> str:
    return "".join(f'<span class="piece">{escape(token)}</span>' for token in tokens)


def _example(inspection: Inspection, cuts: Sequence[Tokenisation], heads: Sequence[str]) -> list[str]:
    if not inspection.read:
        return []
    rows = []
    for cut, head in zip(cuts, heads, strict=True):
        tokens = pieces(cut.tokens, inspection.read[0].text)
        rows.append(("", [head, str(len(tokens)), _pieces(tokens)]))
    shown = table(["", "tokens", "pieces"], rows, numeric={1}, text={2})
    return [_heading("One passage, side by side"), shown]


def _frequent_table(cuts: Sequence[Tokenisation], heads: Sequence[str]) -> list[str]:
    columns = [
        [
            f"{_pieces([token])} {_quiet(f'{count / cut.counts.total():.1%}')}"
            for token, count in cut.counts.most_common(_FREQUENT)
        ]
        for cut in cuts
    ]
    rows = [("", [str(place), *cells]) for place, cells in enumerate(zip_longest(*columns, fillvalue=""), 1)]
    return [_heading("The most frequent tokens, with their share of all"), table(["", *heads], rows, numeric={0})]


def _norms(views: Sequence[EncoderView], drawn: Mapping[str, str]) -> list[str]:
    rows = []
    for view in views:
        if not view.norms:
            continue
        used = view.tokenisation.counts if view.tokenisation else view.norms
        ranked = sorted((token for token in used if token in view.norms), key=lambda token: (view.norms[token], token))
        longest = _pieces(reversed(ranked[-_NAMED_NORMS:]))
        median = f"{np.median(list(view.norms.values())):.2f}"
        rows.append(("", [_named(view, views), median, longest, _pieces(ranked[:_NAMED_NORMS])]))
    heads = ["", "median length", "longest in the sample", "shortest"]
    shown = table(heads, rows, numeric={1}, text={2, 3})
    return [drawn["token-norms"], drawn["norms-by-frequency"], shown] if rows else []


# ---------------------------------------------------------------- inside the layers


def _modules(views: Sequence[EncoderView]) -> list[str]:
    """The table of components, and the changes of the weights where two encoders have the same shape."""
    shown = [view for view in views if view.modules]
    rows = [
        ("", [name, *(escape(view.modules[name]) for view in shown)]) for name in (shown[0].modules if shown else ())
    ]
    heads = ["", *(_named(view, views) for view in shown)]
    parts = [table(heads, rows, text=range(1, len(heads)))] if rows else []
    trained = [view for view in shown if view.moved]
    if trained:
        changes = [("", [name, *(f"{view.moved[name]:.2%}" for view in trained)]) for name in trained[0].moved]
        meaning = f"‖W′ − W‖ / ‖W‖ of the weights of each part, against {escape(shown[0].label)}."
        numeric = range(1, len(trained) + 1)
        parts += [_heading("How far the weights moved"), f'<p class="quiet">{meaning}</p>']
        parts += [table(["", *(_named(view, views) for view in trained)], changes, numeric=numeric)]
    return parts


def _attention(views: Sequence[EncoderView], drawn: Mapping[str, str]) -> list[str]:
    parts: list[str] = []
    for view in views:
        if view.attention is not None:
            stem = file_stem(view, views)
            maps = [figure for name, figure in drawn.items() if name.startswith(f"attention-{stem}-layer-")]
            firsts = [figure for name, figure in drawn.items() if name.startswith(f"cls-{stem}-")]
            parts += [_heading(_named(view, views)), drawn[f"attention-{stem}"], _grid(maps), *firsts]
    return parts
