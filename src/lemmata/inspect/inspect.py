"""Look inside encoders on a sample of the corpus, and write figures and a report into a folder."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.artefacts import write_hashed_manifest
from lemmata.core.errors import ConfigError, LemmataError, MissingExtra, WorkspaceError, near, require
from lemmata.core.files import check_replaceable, writing
from lemmata.core.types import Encoder, Floats, Integers, Passage
from lemmata.core.workers import one_torch_thread
from lemmata.core.workspace import Workspace, default_encoder, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.encode.bert import max_tokens, read_architecture, read_json
from lemmata.encode.load import encoder_id, encoder_kind, model_folder, open_encoder
from lemmata.encode.static import read_static
from lemmata.evaluate.charts import svg_file
from lemmata.graph.store import Citations, open_citations
from lemmata.inspect.figures import draw
from lemmata.inspect.inspection import Changed, Comparison, EncoderView, Inspection, Shown, to_json
from lemmata.inspect.layers import (
    Weights,
    describe_modules,
    moved,
    open_layers,
    part_weights,
    pool_static,
    read_text,
    summarise_readings,
)
from lemmata.inspect.report import as_html
from lemmata.inspect.space import compare_neighbours, measure_space, nearest, neighbour_purity, random_pairs, tsne_maps
from lemmata.inspect.tokens import common_commands, read_tokenizer, token_norms, tokenise, vocabulary_overlap
from lemmata.latex.readable import readable
from lemmata.train.bases import base_folder
from lemmata.vectors.store import open_vectors, vectors_manifest

_FEWEST = 10  # passages of a corpus
_LINKS = 500  # linked pairs
_PAIRS = 50_000  # random pairs
_DOCUMENTS = 6  # on the map, as many as there are shapes
_OF_DOCUMENT = 60  # passages on the map
_SMALLEST_DOCUMENT = 5  # passages of a document that is chosen for the map
_WITHOUT_DOCUMENTS = 400  # passages on the map where no document has several
_CHOSEN = 12  # passages whose cosines are drawn
_MOST_CHOSEN = 30
_READ = 48  # passages whose attention is averaged
_DRAWN = 2  # passages whose attention is drawn
_DRAWN_LENGTH = 70  # characters of a passage that is good to draw
_NEIGHBOURS = 10
_CHANGED = 6  # passages that are shown with the neighbours that they lost and won
_NAMED = 3  # of these neighbours
_COMMANDS = 15
_EXCERPT = 120  # characters
_BATCH = 64  # texts encoded between two reports of progress


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """What an inspection looks at."""

    documents: Sequence[str] = ()  # ids for the map; none: those with the most passages
    passages: Sequence[str] = ()  # ids for the cosines; none: some that the graph links
    sample: int = 1000  # passages
    seed: int = 0


def inspect(
    workspace: Workspace, encoders: Sequence[str] = (), out: str | Path | None = None, **settings: Any
) -> dict[str, Any]:
    """Look inside encoders on a sample of the corpus; returns the numbers of the report.

    Writes `report.html`, `numbers.json` and `figures/` to the folder `out`, by default `inspect` in the workspace.
    `settings` are the fields of InspectOptions. The first encoder is compared with each other one. Without names, it is
    the one of the index, after the model that it was trained from where it is one of the workspace. What cannot be seen
    of an encoder is a note in the report.
    """
    options = InspectOptions(**settings)
    out = Path(out) if out is not None else workspace.inspection
    is_inspection = (read_manifest(out / "manifest.json") or {}).get("verb") == "inspect"
    check_replaceable(out, "inspection", is_inspection)
    names = list(encoders) or _default_encoders(workspace)
    if len(set(names)) < len(names):
        raise LemmataError("each encoder can be named once only")
    kinds = [encoder_kind(name, workspace.models_folder) for name in names]
    if options.sample < _FEWEST:
        raise ConfigError(f"a sample has {_FEWEST} passages or more, not {options.sample}")
    with contextlib.closing(Corpus(workspace)) as corpus:
        chosen = _choose(workspace, corpus, options)
        labels = _distinct([name.rstrip("/").rsplit("/", 1)[-1] for name in names], names)
        with tempfile.TemporaryDirectory() as scratch:
            inspector = _Inspector(workspace, chosen, options.seed, Path(scratch))
            looked = [inspector.look(*named) for named in zip(names, labels, kinds, strict=True)]
        views, vectors = [view for view, _ in looked], [matrix for _, matrix in looked]
        inspection = _compared(len(corpus), chosen, views, vectors, options.seed)
    workspace.progress("t-SNE", 0, None)
    try:
        inspection.maps = tsne_maps([matrix[chosen.points] for matrix in vectors], options.seed)
    except MissingExtra as error:
        inspection.notes.append(f"The map of documents is not drawn: {error}.")
    workspace.progress("drawing", 0, None)
    figures = draw(inspection)
    numbers = to_json(inspection)
    with writing(out) as folder:
        (folder / "figures").mkdir(parents=True)
        for name, svg in figures.items():
            (folder / "figures" / f"{name}.svg").write_text(svg_file(svg), "utf-8")
        (folder / "report.html").write_bytes(as_html(inspection, figures).encode("utf-8", "replace"))
        (folder / "numbers.json").write_text(json.dumps(numbers, ensure_ascii=True, indent=1) + "\n", "utf-8")
        write_hashed_manifest(
            folder, {"verb": "inspect", "encoders": names, "corpus": chosen.corpus, "seed": options.seed}
        )
    return {"report": str(out / "report.html"), "figures": [f"{name}.svg" for name in figures], **numbers}


def _default_encoders(workspace: Workspace) -> list[str]:
    """The encoder of the index; before it, the base of a model that was trained here."""
    encoder = default_encoder(workspace)
    if not encoder:
        raise WorkspaceError("there is no index yet: name an encoder, such as lemmata-mini, or run 'lemmata index'")
    base = _base(workspace, encoder)
    return [base, encoder] if base and base != encoder else [encoder]


def _base(workspace: Workspace, encoder: str) -> str:
    """The encoder that one was trained from here; "" where it was not."""
    manifest = None if "/" in encoder else read_manifest(workspace.manifest(workspace.model(encoder)))
    return str((manifest or {}).get("options", {}).get("base", ""))


def _distinct(labels: Sequence[str], names: Sequence[str]) -> list[str]:
    """The labels; the name itself where several share its label."""
    return [label if labels.count(label) == 1 else name for label, name in zip(labels, names, strict=True)]


# ---------------------------------------------------------------- what is looked at


class _Chosen(NamedTuple):
    """The passages of an inspection, as positions in `passages`."""

    corpus: str  # its state
    rows: Integers  # (passages,) ascending
    passages: Sequence[Passage]
    texts: Sequence[str]
    sample: Integers  # positions
    links: Integers  # (2, links) positions
    cosines: Integers  # positions
    linked: Sequence[tuple[int, int]]  # numbers of two of `cosines`
    drawn: Integers  # positions
    groups: Sequence[str]
    points: Integers  # positions
    group_of: Integers  # (points,)
    notes: Sequence[str]

    def sampled_texts(self) -> list[str]:
        return [self.texts[position] for position in self.sample.tolist()]


def _choose(workspace: Workspace, corpus: Corpus, options: InspectOptions) -> _Chosen:
    """Draw passages, links and documents; only the passages that were drawn are read."""
    if len(corpus) < _FEWEST:
        raise LemmataError(f"an inspection needs {_FEWEST} passages or more, and the corpus has {len(corpus)}")
    generator = np.random.default_rng(options.seed)
    sample = np.sort(generator.choice(len(corpus), min(options.sample, len(corpus)), replace=False))
    citations = open_citations(workspace, corpus.digest)
    links = _draw_links(citations, generator)
    groups, points, group_of = _draw_documents(corpus, options.documents, sample, generator)
    given = _rows_of(corpus, options.passages)
    cosines = given if len(given) else _draw_statements(corpus, links, sample)
    rows = np.unique(np.concatenate([sample, links.ravel(), points, cosines]))
    passages = list(corpus.in_rows(rows.tolist()))
    texts = [passage.content for passage in passages]

    def positions(chosen: Integers) -> Integers:
        return np.asarray(np.searchsorted(rows, chosen), np.int64)

    written = np.array([bool(text.strip()) for text in texts])
    notes = []
    if citations is None:
        notes.append("There is no graph of this corpus, so no linked pairs: run 'lemmata graph build'.")
    elif not links.size:
        notes.append("The graph links no passage to another one, so there are no linked pairs.")
    readable = positions(cosines) if len(given) else positions(sample)
    length = np.array([abs(len(texts[position]) - _DRAWN_LENGTH) for position in readable.tolist()])
    return _Chosen(
        corpus=corpus.digest,
        rows=rows,
        passages=passages,
        texts=texts,
        sample=positions(sample)[written[positions(sample)]],
        links=positions(links)[:, written[positions(links)].all(axis=0)],
        cosines=positions(cosines),
        linked=_linked_among(citations, cosines),
        drawn=readable[np.argsort(length, kind="stable")[:_DRAWN]],
        groups=groups,
        points=positions(points),
        group_of=group_of,
        notes=notes,
    )


def _draw_links(citations: Citations | None, generator: np.random.Generator) -> Integers:
    """Both ends (2, links) of some links between passages."""
    total = len(citations.indices) if citations is not None else 0
    if citations is None or not total:
        return np.zeros((2, 0), np.int64)
    edges = np.sort(generator.choice(total, min(_LINKS, total), replace=False))
    sources = np.searchsorted(citations.indptr, edges, side="right") - 1
    return np.array([sources, citations.indices[edges]], np.int64)


def _draw_documents(
    corpus: Corpus, names: Sequence[str], sample: Integers, generator: np.random.Generator
) -> tuple[list[str], Integers, Integers]:
    """The titles of the documents on the map, rows of their passages, and the document of each."""
    known = corpus.document_ids()
    unknown = [name for name in names if name not in set(known)]
    if unknown:
        raise LemmataError(f"there is no document {unknown[0]!r} with passages{near(unknown[0], known)}")
    if len(names) > _DOCUMENTS:
        raise LemmataError(f"a map shows {_DOCUMENTS} documents at most, not {len(names)}")
    numbers = corpus.document_numbers()
    sizes = np.bincount(numbers, minlength=len(known))
    largest = np.argsort(-sizes, kind="stable")[:_DOCUMENTS]
    chosen = [known.index(name) for name in names] or largest[sizes[largest] >= _SMALLEST_DOCUMENT].tolist()
    if len(chosen) < 2 and not names:
        return ["passages"], sample[:_WITHOUT_DOCUMENTS], np.zeros(min(len(sample), _WITHOUT_DOCUMENTS), np.int64)
    rows = []
    for number in chosen:
        passages = np.flatnonzero(numbers == number)
        rows.append(np.sort(generator.choice(passages, min(len(passages), _OF_DOCUMENT), replace=False)))
    ids = [known[number] for number in chosen]
    titles = _distinct([_title(corpus, document) for document in ids], ids)
    return titles, np.concatenate(rows), np.repeat(np.arange(len(rows)), [len(part) for part in rows])


def _title(corpus: Corpus, document: str) -> str:
    try:
        return corpus.document(document).title or document
    except KeyError:
        return document


def _rows_of(corpus: Corpus, names: Sequence[str]) -> Integers:
    """The rows of passages that were named."""
    if len(names) == 1 or len(names) > _MOST_CHOSEN:
        raise LemmataError(f"cosines need 2 to {_MOST_CHOSEN} passages, not {len(names)}")
    rows = []
    for name in names:
        try:
            rows.append(corpus.row(name))
        except KeyError:
            raise LemmataError(f"there is no passage {name!r}{near(name, corpus.ids())}") from None
    return np.array(list(dict.fromkeys(rows)), np.int64)


def _draw_statements(corpus: Corpus, links: Integers, sample: Integers) -> Integers:
    """Some linked pairs, side by side, those with titles first; without links the first of the sample."""
    pairs: list[tuple[int, int]] = []
    seen: set[int] = set()
    for source, target in links.T.tolist():
        if not {source, target} & seen:
            seen |= {source, target}
            pairs.append((source, target))
    if not pairs:
        return sample[:_CHOSEN]
    pairs = pairs[: 10 * _CHOSEN]
    titled = {row for row in (row for pair in pairs for row in pair) if corpus[row].title}
    pairs.sort(key=lambda pair: -sum(row in titled for row in pair))
    return np.array(pairs[: _CHOSEN // 2], np.int64).ravel()


def _linked_among(citations: Citations | None, rows: Integers) -> list[tuple[int, int]]:
    """The pairs of some rows, by their numbers, that a link joins."""
    if citations is None:
        return []
    numbers = {row: number for number, row in enumerate(rows.tolist())}
    pairs = {
        tuple(sorted((number, numbers[target])))
        for row, number in numbers.items()
        for target in citations.indices[citations.indptr[row] : citations.indptr[row + 1]].tolist()
        if target in numbers
    }
    return sorted((first, second) for first, second in pairs)


# ---------------------------------------------------------------- one encoder


class _Inspector:
    """Looks at encoders one after another; `scratch` is a folder for restored weights."""

    def __init__(self, workspace: Workspace, chosen: _Chosen, seed: int, scratch: Path) -> None:
        self._workspace, self._chosen, self._scratch = workspace, chosen, scratch
        self._first: Weights | None = None  # of the first encoder that has any
        self._pairs = random_pairs(len(chosen.sample), _PAIRS, np.random.default_rng(seed))

    def look(self, name: str, label: str, kind: str) -> tuple[EncoderView, Floats]:
        """What can be seen of an encoder, and its vectors of all passages (passages, dim)."""
        chosen = self._chosen
        vectors = self._vectors(name, label)
        view = EncoderView(
            name,
            label,
            kind,
            dimension=vectors.shape[1],
            space=measure_space(
                vectors[chosen.sample], self._pairs, (vectors[chosen.links[0]], vectors[chosen.links[1]])
            ),
            base=_base(self._workspace, name),
        )
        if len(chosen.groups) > 1:
            view.purity = neighbour_purity(nearest(vectors[chosen.points], _NEIGHBOURS), chosen.group_of)
        if kind in ("remote", "hashing"):
            cause = "runs elsewhere" if kind == "remote" else "hashes words"
            view.notes.append(f"{label} {cause}: it has no tokens, layers or attention to look at.")
            return view, vectors
        try:
            self._tokenise(view)
        except LemmataError as error:
            view.notes.append(f"{label}: its tokens cannot be shown: {error}")
        try:
            self._look_inside(view)
        except MissingExtra as error:
            view.notes.append(f"{label}: attention and norms are not shown, {error}.")
        except LemmataError as error:
            view.notes.append(f"{label}: its layers cannot be shown: {error}")
        return view, vectors

    def _vectors(self, name: str, label: str) -> Floats:
        """The vectors of all passages, from the index where it has those of this encoder."""
        encoder = open_encoder(self._workspace, name)
        if (stored := self._stored(name, encoder)) is not None:
            return stored
        texts = self._chosen.texts
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))  # equal lengths need no padding
        vectors = np.empty((len(texts), encoder.dimension), np.float32)
        for start in range(0, len(order), _BATCH):
            self._workspace.progress(f"encoding ({label})", start, len(order))
            batch = order[start : start + _BATCH]
            vectors[batch] = encoder.encode([texts[position] for position in batch])
        self._workspace.progress(f"encoding ({label})", len(order), len(order))
        return vectors

    def _stored(self, name: str, encoder: Encoder) -> Floats | None:
        """The vectors of the index, if they are those of the bare texts by this very encoder."""
        chosen, stored_name = self._chosen, encoder_id(name, self._workspace.models_folder)
        manifest = vectors_manifest(self._workspace, stored_name)
        if manifest is None or manifest["made_by"] != encoder.name or manifest["cut"] or manifest["expansion"]:
            return None
        try:
            return np.asarray(open_vectors(self._workspace, chosen.corpus, stored_name).matrix[chosen.rows], np.float32)
        except WorkspaceError:
            return None  # of an older corpus, or damaged

    def _tokenise(self, view: EncoderView) -> None:
        folder = model_folder(view.name, self._workspace.models_folder)
        if view.kind == "transformer":
            folder = self._weights(view.name)
            if not (folder / "tokenizer.json").is_file():
                view.notes.append(f"{view.label} has no tokenizer.json, so its tokens are not shown.")
                return
            longest = max_tokens(folder)
        else:
            longest = int(read_json(folder / "encoder.json").get("max_tokens") or max_tokens(folder))
        texts = self._chosen.sampled_texts()
        what, progress = f"tokenising ({view.label})", self._workspace.progress
        tokens = read_tokenizer(folder / "tokenizer.json")
        view.tokenisation = tokenise(tokens, texts, longest, lambda done: progress(what, done, len(texts)))

    def _look_inside(self, view: EncoderView) -> None:
        """Norms of token vectors, attention and pooling; a static encoder has no layers."""
        texts = self._chosen.sampled_texts()[:_READ]
        tokens = view.tokenisation.tokens if view.tokenisation is not None else None
        if view.kind == "static":
            vectors = read_static(model_folder(view.name, self._workspace.models_folder))
            if tokens is not None:
                encodings = tokens.tokenizer.encode_batch(texts, add_special_tokens=False)
                view.norms = token_norms(vectors, tokens)
                view.pooled = pool_static(vectors, [encoding.ids for encoding in encodings])
            return
        progress = self._workspace.progress
        progress(f"loading the weights ({view.label})", 0, None)
        folder = self._weights(view.name)
        layers = open_layers(folder)
        what = f"reading the layers ({view.label})"
        with one_torch_thread(require("torch", "train")):  # texts are read one by one, too short for several
            view.attention, view.pooled = summarise_readings(
                lambda text: read_text(layers, text), texts, lambda done: progress(what, done, len(texts))
            )
            view.readings = [read_text(layers, self._chosen.texts[place]) for place in self._chosen.drawn.tolist()]
        view.layers, view.heads = layers.depth, layers.heads
        view.modules, weights = describe_modules(layers, read_architecture(folder)), part_weights(layers)
        view.moved = moved(self._first, weights) if self._first is not None else {}
        self._first = weights if self._first is None else self._first
        if tokens is not None:
            view.norms = token_norms(layers.token_vectors, tokens)

    def _weights(self, name: str) -> Path:
        return base_folder(self._workspace, encoder_id(name, self._workspace.models_folder), self._scratch)


# ---------------------------------------------------------------- encoders side by side


def _compared(
    passages: int, chosen: _Chosen, views: Sequence[EncoderView], vectors: Sequence[Floats], seed: int
) -> Inspection:
    """The inspection but for the maps."""
    shown = [_shown(passage) for passage in chosen.passages]
    sampled = [shown[place] for place in chosen.sample.tolist()]
    notes = list(chosen.notes)
    if static := [view.label for view in views if view.kind == "static"]:
        notes.append(f"{', '.join(static)}: token vectors without layers, so there is no attention to look at.")
    return Inspection(
        passages=passages,
        sampled=len(chosen.sample),
        links=chosen.links.shape[1],
        seed=seed,
        encoders=views,
        overlaps=[
            (one.name, two.name, vocabulary_overlap(cut.tokens, other.tokens, cut.counts))
            for one, two in combinations(views, 2)
            if (cut := one.tokenisation) is not None and (other := two.tokenisation) is not None
        ],
        commands=common_commands(chosen.sampled_texts(), _COMMANDS),
        read=[_whole(chosen.passages[place]) for place in chosen.drawn.tolist()],
        chosen=[shown[place] for place in chosen.cosines.tolist()],
        cosines=[matrix[chosen.cosines] @ matrix[chosen.cosines].T for matrix in vectors],
        linked=chosen.linked,
        groups=chosen.groups,
        group_of=chosen.group_of,
        comparisons=[
            _comparison(views[0], view, vectors[0][chosen.sample], matrix[chosen.sample], sampled)
            for view, matrix in zip(views[1:], vectors[1:], strict=True)
        ],
        notes=notes,
    )


def _comparison(
    first: EncoderView, second: EncoderView, before: Floats, after: Floats, shown: Sequence[Shown]
) -> Comparison:
    changes = compare_neighbours(before, after, _NEIGHBOURS)
    most = []
    for place in changes.most_changed(_CHANGED).tolist():
        old, new = changes.before[place].tolist(), changes.after[place].tolist()
        left = [shown[other] for other in old if other not in new][:_NAMED]
        entered = [shown[other] for other in new if other not in old][:_NAMED]
        most.append(Changed(shown[place], float(changes.overlaps[place]), left, entered))
    is_training = second.base == first.name
    return Comparison(first.name, second.name, changes.before.shape[1], changes.overlaps, most, is_training)


def _shown(passage: Passage) -> Shown:
    """The start of a passage, with formulas as characters; one that stays LaTeX is not cut."""
    text = " ".join(readable(passage.text).split())
    if len(text) > _EXCERPT:
        start = text[: _EXCERPT - 1]
        start = start[: start.rindex("$")] if start.count("$") % 2 else start
        text = f"{start.rstrip()}…"
    return Shown(passage.id, readable(passage.title), text)


def _whole(passage: Passage) -> Shown:
    return Shown(passage.id, passage.title, passage.content)
