"""The HTML report of an inspection: one page that loads nothing from outside, with all figures inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

import numpy as np

from lemmata.evaluate.charts import COLOURS, number, page, table
from lemmata.inspect.figures import file_stem
from lemmata.inspect.inspection import Changed, Comparison, EncoderView, Inspection, Shown
from lemmata.inspect.tokens import Tokenisation, pieces

_FREQUENT = 20  # tokens in the table
_NAMED_NORMS = 8  # tokens with the longest and shortest vectors
# what a measure means, in one sentence, and its digits
_MEASURES: dict[str, tuple[str, Callable[[EncoderView], float | None], int]] = {
    "mean cosine": ("of random pairs: 0 where all directions are used alike", lambda v: v.space.mean_cosine, 3),
    "isotropy": (
        "smallest over largest partition sum: 1 where no direction is preferred",
        lambda v: v.space.isotropy,
        3,
    ),
    "effective rank": ("dimensions that are used", lambda v: v.space.effective_rank, 1),
    "uniformity": ("lower is more evenly spread; about −4 at best", lambda v: v.space.uniformity, 3),
    "alignment": ("mean squared distance of linked passages; lower is nearer", lambda v: v.space.alignment, 3),
    "separation": (
        "probability that a linked pair is nearer than a random one; 0.5 is chance",
        lambda v: v.space.separation,
        3,
    ),
    "purity@10": ("share of the ten nearest that are of the same document", lambda v: v.purity, 3),
    "agreement": (
        "length of the mean token vector over the mean length: 1 where all tokens point the same way",
        lambda v: v.pooled.agreement if v.pooled else None,
        3,
    ),
}


def as_html(inspection: Inspection, figures: Mapping[str, str]) -> str:
    """The report; `figures` are those of `figures.draw`."""
    names = ", ".join(view.label for view in inspection.encoders)
    body = [_header(inspection, names), *_overview(inspection)]
    for comparison_number, comparison in enumerate(inspection.comparisons, 1):
        body += _changes(comparison, figures[f"neighbours-{comparison_number}"])
    body += _cosines(inspection, figures)
    body += _map(figures)
    body += _space(inspection, figures)
    body += _tokens(inspection, figures)
    body += _norms(inspection, figures)
    body += _attention(inspection, figures)
    body += _pooling(figures)
    return page(f"Inspection of {names}", body)


def _section(title: str, meaning: str, parts: Iterable[str]) -> list[str]:
    return [f"<h2>{title}</h2>", f'<p class="quiet">{meaning}</p>', *parts]


def _heading(html: str) -> str:
    return f'<h3 class="later">{html}</h3>'


def _figure(svg: str) -> str:
    return f'<figure class="drawn">{svg}</figure>'


def _grid(figures: Iterable[str]) -> str:
    return f'<div class="maps">{"".join(map(_figure, figures))}</div>'


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


def _overview(inspection: Inspection) -> list[str]:
    views = inspection.encoders
    kinds = {"onnx": "transformer (ONNX)", "static": "token vectors"}
    rows: list[tuple[str, list[str]]] = [
        ("", ["kind", *(escape(kinds.get(view.kind, view.kind)) for view in views), ""]),
        ("", ["dimension", *(str(view.dimension) for view in views), ""]),
    ]
    if any(view.layers for view in views):
        shapes = (f"{view.layers} × {view.heads}" if view.layers else "–" for view in views)
        rows.append(("", ["layers × heads", *shapes, ""]))
    for name, (meaning, value, digits) in _MEASURES.items():
        values = [value(view) for view in views]
        if any(item is not None for item in values):
            cells = [number(item, digits).replace("-", "−") for item in values]
            rows.append(("", [name, *cells, f'<span class="quiet">{meaning}</span>']))
    heads = ["", *(_named(view, views) for view in views), ""]
    columns = range(1, len(views) + 1)
    return ["<h2>At a glance</h2>", table(heads, rows, numeric=columns, text={len(views) + 1})]


# ---------------------------------------------------------------- what changed


def _changes(comparison: Comparison, figure: str) -> list[str]:
    before, after = escape(comparison.before), escape(comparison.after)
    meaning = (
        f"Of the {comparison.k} nearest sampled passages of each passage by {before}, {after} keeps"
        f" {comparison.overlaps.mean():.0%} (overlap@{comparison.k}). Below: the passages with the fewest in common."
    )
    rows = [("start", _changed(changed)) for changed in comparison.most_changed]
    heads = ["passage", "kept", f"near by {before} only", f"near by {after} only"]
    shown = table(heads, rows, numeric={1}, text={0, 2, 3})
    heading = (
        f"What training changed from {before} to {after}"
        if comparison.is_training
        else f"Neighbours by {before} and by {after}"
    )
    return _section(heading, meaning, [_figure(figure), shown])


def _changed(changed: Changed) -> list[str]:
    return [
        _passage(changed.passage),
        f"{changed.overlap:.0%}",
        "".join(map(_passage, changed.left)) or "–",
        "".join(map(_passage, changed.entered)) or "–",
    ]


def _passage(passage: Shown) -> str:
    title = f"<b>{escape(passage.title)}</b> " if passage.title else ""
    return f'<p class="small-text">{title}{escape(passage.text)}<br><code>{escape(passage.id)}</code></p>'


# ---------------------------------------------------------------- the space


def _cosines(inspection: Inspection, figures: Mapping[str, str]) -> list[str]:
    meaning = "The cosine of each pair of these passages, on one scale for all encoders."
    if inspection.linked:
        meaning += (
            " A frame marks two passages that the graph links; a good encoder colours them more strongly than the rest."
        )
    maps = _grid(figures[f"cosines-{file_stem(view, inspection.encoders)}"] for view in inspection.encoders)
    rows = [("", [str(place), _passage(passage)]) for place, passage in enumerate(inspection.chosen, 1)]
    texts = f"<details><summary>The passages</summary>{table(['', 'passage'], rows, text={1})}</details>"
    return _section("Chosen passages, pair by pair", meaning, [maps, texts])


def _map(figures: Mapping[str, str]) -> list[str]:
    if "map" not in figures:
        return []
    meaning = (
        "Passages of some documents in two dimensions by t-SNE: near points are near passages, distances between"
        " clusters mean little. Each map starts from the one before it, so that what an encoder does not move stays."
    )
    return _section("Documents on a map", meaning, [_figure(figures["map"])])


def _space(inspection: Inspection, figures: Mapping[str, str]) -> list[str]:
    views = inspection.encoders
    meaning = (
        "How alike two passages are that the graph links, and two random ones. The less the two curves overlap, the"
        " better links can be told from chance."
    )
    parts = [_figure(figures[f"pairs-{file_stem(view, views)}"]) for view in views]
    spread = (
        '<p class="quiet">How much of the variance the first principal components hold: a curve that rises steeply'
        " uses few dimensions.</p>"
    )
    return _section("Linked and random pairs", meaning, [*parts, spread, _figure(figures["spectrum"])])


# ---------------------------------------------------------------- tokens


def _tokens(inspection: Inspection, figures: Mapping[str, str]) -> list[str]:
    groups = _same_tokenizers(inspection.encoders)
    if not groups:
        return []
    heads = [" ".join(_named(view, inspection.encoders) for view in group) for group in groups]
    first = [group[0] for group in groups]
    cuts = [view.tokenisation for view in first if view.tokenisation is not None]
    measures: list[tuple[str, Callable[[Tokenisation], str], str]] = [
        ("vocabulary", lambda cut: f"{cut.vocabulary:,}", "tokens that it has"),
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
    rows = [
        ("", [name, *(value(cut) for cut in cuts), f'<span class="quiet">{meaning}</span>'])
        for name, value, meaning in measures
    ]
    parts = [
        table(["", *heads, ""], rows, numeric=range(1, len(groups) + 1), text={len(groups) + 1}),
        _figure(figures["token-lengths"]),
        _overlap_table(inspection) if inspection.overlaps else "",
        _command_table(inspection, first, heads),
        _example(inspection, first, heads),
        _frequent_table(first, heads),
    ]
    return _section("Tokens", "How each tokenizer cuts the passages, and LaTeX in them.", parts)


def _same_tokenizers(views: Sequence[EncoderView]) -> list[list[EncoderView]]:
    """The encoders that have tokens, those with the same vocabulary and the same cuts together."""
    groups: list[list[EncoderView]] = []
    for view in views:
        if view.tokens is None or view.tokenisation is None:
            continue
        for group in groups:
            other = group[0]
            assert other.tokens is not None
            assert other.tokenisation is not None
            same = other.tokenisation.counts == view.tokenisation.counts
            if same and other.tokens.vocabulary == view.tokens.vocabulary:
                group.append(view)
                break
        else:
            groups.append([view])
    return groups


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{share:.0%}"


def _overlap_table(inspection: Inspection) -> str:
    rows = [
        (
            "",
            [
                f"{escape(first)} and {escape(second)}",
                f"{overlap.shared:,}",
                f"{overlap.jaccard:.0%}",
                f"{overlap.text:.0%}",
            ],
        )
        for first, second, overlap in inspection.overlaps
    ]
    heads = ["vocabularies of", "tokens in both", "of all tokens", "of the first one's tokens in the text"]
    return _heading("Vocabulary overlap") + table(heads, rows, numeric={1, 2, 3})


def _command_table(inspection: Inspection, views: Sequence[EncoderView], heads: Sequence[str]) -> str:
    if not inspection.commands:
        return ""
    tokenizers = [view.tokens for view in views if view.tokens is not None]
    rows = [
        (
            "",
            [
                f"<code>{escape(command)}</code>",
                f"{count:,}",
                *(_pieces(pieces(tokens, command)) for tokens in tokenizers),
            ],
        )
        for command, count in inspection.commands
    ]
    shown = table(["command", "count", *heads], rows, numeric={1})
    return _heading("The most frequent LaTeX commands in pieces") + shown


def _pieces(tokens: Iterable[str]) -> str:
    return "".join(f'<span class="piece">{escape(token)}</span>' for token in tokens)


def _example(inspection: Inspection, views: Sequence[EncoderView], heads: Sequence[str]) -> str:
    if not inspection.read:
        return ""
    text = inspection.read[0].text
    rows = []
    for view, head in zip(views, heads, strict=True):
        if view.tokens is not None:
            cut = pieces(view.tokens, text)
            rows.append(("", [head, str(len(cut)), _pieces(cut)]))
    shown = table(["", "tokens", "pieces"], rows, numeric={1}, text={2})
    return _heading("One passage, side by side") + shown


def _frequent_table(views: Sequence[EncoderView], heads: Sequence[str]) -> str:
    columns = [
        [
            f'<span class="piece">{escape(token)}</span> <span class="quiet">{count / cut.counts.total():.1%}</span>'
            for token, count in cut.counts.most_common(_FREQUENT)
        ]
        for view in views
        if (cut := view.tokenisation) is not None
    ]
    longest = max(map(len, columns))
    filled = [column + [""] * (longest - len(column)) for column in columns]
    rows = [("", [str(place), *cells]) for place, cells in enumerate(zip(*filled, strict=True), 1)]
    shown = table(["", *heads], rows, numeric={0})
    return _heading("The most frequent tokens, with their share of all") + shown


def _norms(inspection: Inspection, figures: Mapping[str, str]) -> list[str]:
    views = [view for view in inspection.encoders if view.norms]
    if not views:
        return []
    meaning = (
        "The lengths of the token vectors before the first layer. In a static encoder the length is the weight of a"
        " token in the mean; in a transformer rare tokens often keep the length that they had before training."
    )
    rows = []
    for view in views:
        used = view.tokenisation.counts if view.tokenisation else view.norms
        ranked = sorted((token for token in used if token in view.norms), key=lambda token: (view.norms[token], token))
        longest = _pieces(reversed(ranked[-_NAMED_NORMS:]))
        median = f"{np.median(list(view.norms.values())):.2f}"
        rows.append(("", [_named(view, inspection.encoders), median, longest, _pieces(ranked[:_NAMED_NORMS])]))
    shown = table(["", "median length", "longest in the sample", "shortest"], rows, numeric={1}, text={2, 3})
    drawn = [_figure(figures[name]) for name in ("token-norms", "norms-by-frequency")]
    return _section("Lengths of token vectors", meaning, [*drawn, shown])


# ---------------------------------------------------------------- inside the layers


def _attention(inspection: Inspection, figures: Mapping[str, str]) -> list[str]:
    parts: list[str] = []
    for view in inspection.encoders:
        if view.attention is None:
            continue
        stem = file_stem(view, inspection.encoders)
        maps = [svg for name, svg in figures.items() if name.startswith(f"attention-{stem}-layer-")]
        firsts = [svg for name, svg in figures.items() if name.startswith(f"cls-{stem}-")]
        parts += [
            _heading(_named(view, inspection.encoders)),
            _figure(figures[f"attention-{stem}"]),
            _grid(maps),
        ]
        parts += map(_figure, firsts)
    if not parts:
        return []
    meaning = (
        "Where the attention of a token goes, layer by layer, as a mean over heads and passages; entropy is 1 where it"
        " goes to all tokens alike. The maps show the last layers for one passage, and what the first token looks at."
    )
    return _section("Attention", meaning, parts)


def _pooling(figures: Mapping[str, str]) -> list[str]:
    if "pooling" not in figures:
        return []
    meaning = (
        "Each point is a passage: the mean length of its token vectors after the last layer, and the length of the"
        " vector that pooling makes of them, before it is normalised. The lower a point, the less its tokens agree."
    )
    return _section("Pooled against token vectors", meaning, [_figure(figures["pooling"])])
