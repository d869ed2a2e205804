"""The verbs of mining on a workspace: split, mine, mix, audit; what they make lies in `training/NAME`.

Every set passes the leakage audit before it is put in place; one that does not is never seen by a trainer.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from lemmata.encode.load import load_encoder
from lemmata.errors import ConfigError, InputError, LemmataError, WorkspaceError
from lemmata.files import replace_folder, write_atomically
from lemmata.graph.embed import EmbedOptions, train_embedding
from lemmata.index.ann import AnnIndex
from lemmata.index.exact import ExactIndex
from lemmata.index.lexical import OrderedLexical
from lemmata.leakage import Audit, Example
from lemmata.llm.chat import Preview, Spent
from lemmata.llm.endpoint import EndpointOptions, Limits, open_chat
from lemmata.mine.audit import inspect_mined, refuse
from lemmata.mine.export import Contribution, Recipe, mix, read_training, text_columns, write_training
from lemmata.mine.imported import ImportedQuery, ImportReport, imported_pairs
from lemmata.mine.material import Material, material
from lemmata.mine.negatives import NegativeOptions, NegativeReport, known_answers, mine_negatives
from lemmata.mine.pairs import (
    PairOptions,
    Survey,
    mine_pairs,
    survey,
)
from lemmata.mine.queries.filter import RoundTrip, round_trip
from lemmata.mine.queries.model import ModelOptions as WrittenOptions
from lemmata.mine.queries.model import model_queries, query_requests
from lemmata.mine.queries.rules import QueryOptions, rule_queries
from lemmata.mine.triplets import (
    PRESETS,
    CitationTripletOptions,
    GraphTripletOptions,
    citation_triplets,
    graph_triplets,
    query_triplets,
)
from lemmata.store.corpus import Corpus
from lemmata.store.graph import GraphRecordStore, StoredGraph, open_graph_if_built
from lemmata.store.layout import Layout, read_manifest, write_manifest
from lemmata.store.split import LEFT_OUT, PARTS, Split, open_split
from lemmata.store.vectors import open_vectors
from lemmata.types import Edge, Encoder, Floats, Index, Integers, Mask, Negative, Pair, Progress, Triplet, Vectors

__all__ = [
    "AuditOptions",
    "Gate",
    "MineOptions",
    "audit",
    "export",
    "mine_imported_set",
    "mine_negative_set",
    "mine_pair_set",
    "mine_query_set",
    "mine_triplet_set",
    "mine_written_set",
    "mix_sets",
    "preview_queries",
    "sets",
]

Record = Pair | Triplet
Queries = TypeVar("Queries")
TRIPLETS = ("embedding", "scincl", "citations", "queries")


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What the audit looks for beside the held-out rows of the split."""

    SMALLEST: ClassVar = {"hops": 0}
    queries: str = ""  # a file of test queries; with their judgments they may not be known either
    qrels: str = ""
    hops: int = 0  # in the graph around held-out passages; 0: neighbours are allowed
    similarity: float = 0.7  # of word shingles, from which on two texts are nearly equal


@dataclass(frozen=True, slots=True)
class MineOptions:
    """All miners' options; in `lemmata.toml` a table below [mine] for each."""

    pairs: PairOptions = field(default_factory=PairOptions)
    queries: QueryOptions = field(default_factory=QueryOptions)
    written: WrittenOptions = field(default_factory=WrittenOptions)
    triplets: GraphTripletOptions = field(default_factory=GraphTripletOptions)
    citations: CitationTripletOptions = field(default_factory=CitationTripletOptions)
    negatives: NegativeOptions = field(default_factory=NegativeOptions)


class Gate(NamedTuple):
    """What every set has to pass."""

    options: AuditOptions = AuditOptions()
    test: Sequence[Example] = ()  # queries that a user keeps outside the workspace


class Opened(NamedTuple):
    """What the verbs work on."""

    corpus: Corpus
    split: Split
    stored: StoredGraph | None
    material: Material


# ---------------------------------------------------------------- the training part


def _told(layout: Layout, stored: StoredGraph) -> Iterator[Edge]:
    """The records of the graph, which know their evidence."""
    with GraphRecordStore(layout) as kept:
        yield from kept.merged_edges(stored.merged)


@contextlib.contextmanager
def _opened(layout: Layout) -> Iterator[Opened]:
    with layout.hold(), contextlib.closing(Corpus(layout)) as corpus:
        parted = open_split(layout, corpus.inputs)
        stored = open_graph_if_built(layout)
        part = material(
            corpus,
            parted,
            "train",
            graph=stored.graph if stored else None,
            concepts=stored.concepts if stored else None,
            edges=_told(layout, stored) if stored else None,
        )
        yield Opened(corpus, parted, stored, part)


# ---------------------------------------------------------------- sets on disk


def sets(layout: Layout) -> dict[str, dict[str, Any]]:
    """Every mined set with its manifest, by name."""
    folders = sorted(layout.training("any").parent.glob("*")) if layout.training("any").parent.is_dir() else []
    found = {folder.name: read_manifest(layout.manifest(folder)) for folder in folders}
    return {name: manifest for name, manifest in found.items() if manifest is not None}


def _file(layout: Layout, name: str) -> Path:
    path = layout.training_file(name)
    if not path.exists():
        known = ", ".join(sets(layout)) or "none yet"
        raise WorkspaceError(f"there is no training set {name!r} (there are: {known})")
    return path


def records(
    layout: Layout, name: str, row_of: Mapping[str, int], answer_of: Mapping[str, int] | None = None
) -> Iterator[Record]:
    """The records of a mined set, in rows; a positive may be one of `answer_of` as well."""
    path = _file(layout, name)
    answers = answer_of or {}
    for number, line in enumerate(read_training(path)):
        try:
            anchor = line["anchor"] if line["anchor_id"] is None else row_of[line["anchor_id"]]
            identity = line["positive_id"]
            positive = answers[identity] if identity in answers else row_of[identity]
            pair = Pair(anchor, positive, line["source"], line["relation"], line["reason"], line["weight"])
            columns = ("negative_ids", "negative_proposers", "negative_reasons", "negative_scores")
            negatives = tuple(
                Negative(row_of[negative], *rest)
                for negative, *rest in zip(*(line[column] for column in columns), strict=True)
            )
        except KeyError as error:
            cause = f"record {number} names {error}, which is no passage of the training part"
            raise InputError(f"{cause}: mine {name!r} again", file=str(path)) from error
        yield Triplet(pair, negatives) if negatives else pair


def _own_records(layout: Layout, name: str, part: Material) -> Iterator[Record]:
    """The records of a set that was mined from a material."""
    return records(layout, name, part.row_of, part.answer_of)


def _put(
    layout: Layout,
    name: str,
    opened: Opened,
    made: Iterable[Record],
    options: Mapping[str, Any],
    gate: Gate,
    progress: Progress,
    *,
    negatives: int = 0,
    after: Callable[[], Mapping[str, Any]] = dict,
) -> dict[str, Any]:
    """Write records to a set under another name, audit what was written, and put it in place."""
    if not re.fullmatch(r"[\w-]+(?:\.[\w-]+)*", name):
        raise ConfigError(f"a training set is named with letters, digits, - and _, not {name!r}")
    begin = time.perf_counter()
    counts: Counter[str] = Counter()

    def counted() -> Iterator[Record]:
        for number, record in enumerate(made):
            pair = _pair(record)
            if isinstance(pair.anchor, str) and not opened.material.may_query(pair.anchor):
                counts["left out: asks about a held-out concept"] += 1
                continue
            counts[f"{pair.source}/{pair.relation}" if pair.relation else pair.source] += 1
            if number % 1000 == 0:
                progress(f"mining {name}", number, None)
            yield record

    waiting = f".{name}"
    shutil.rmtree(layout.training(waiting), ignore_errors=True)
    try:
        number = write_training(counted(), opened.material, layout.training_file(waiting), negatives=negatives)
        mined = time.perf_counter() - begin
        if not number:
            raise LemmataError(f"the training part has nothing to mine for {name!r}: no such links, concepts or titles")
        progress("auditing", 0, None)
        found, likenesses = _without_likenesses(layout, waiting, opened, gate, negatives)
        if likenesses:
            counts["left out: nearly equal to held-out text"] = likenesses
            number -= likenesses
        report: dict[str, Any] = {
            "name": name,
            "records": number,
            "by_source": dict(sorted(counts.items())),
            "audit": found.sentence(),
            **after(),
        }
        content = {"verb": "mine", "inputs": opened.corpus.inputs, "options": dict(options), "report": report}
        write_manifest(layout.manifest(layout.training(waiting)), content)
        replace_folder(layout.training(waiting), layout.training(name))
    finally:
        shutil.rmtree(layout.training(waiting), ignore_errors=True)
    return {**report, "seconds": {"mining": mined, "all": time.perf_counter() - begin}}


# ---------------------------------------------------------------- audit


def audit(layout: Layout, names: Sequence[str], gate: Gate, progress: Progress) -> Audit:
    """Look for held-out data in mined sets, all of them if none is named; LeakageError where there is some."""
    with _opened(layout) as opened:
        progress("auditing", 0, None)
        return _audited(layout, names or list(sets(layout)), opened, gate)


def _audited(layout: Layout, names: Sequence[str], opened: Opened, gate: Gate) -> Audit:
    found = _inspected(layout, names, opened, gate)
    refuse(found)
    return found


def _inspected(layout: Layout, names: Sequence[str], opened: Opened, gate: Gate) -> Audit:
    # all rows, not only those of training: the audit is to find what should not be there
    row_of = {identity: row for row, identity in enumerate(opened.corpus.ids())}
    return inspect_mined(
        (record for name in names for record in records(layout, name, row_of)),
        opened.split,
        opened.corpus,
        test=gate.test,
        concepts=opened.stored.concepts if opened.stored else None,
        hops=gate.options.hops,
        graph=opened.stored.graph if opened.stored else None,
        similarity=gate.options.similarity,
    )


def _without_likenesses(layout: Layout, name: str, opened: Opened, gate: Gate, negatives: int) -> tuple[Audit, int]:
    """Audit a set; records that are only nearly like held-out text are taken out of it, anything worse is refused.

    A sentence of one paper can stand in a paper that is held out, and then a description made of it is nearly
    that paper's abstract: nobody's mistake, and no reason to refuse the other records.
    """
    taken = 0
    while True:
        found = _inspected(layout, [name], opened, gate)
        if found.clean or set(found.counts) - {"near_anchor", "near_passage"}:
            refuse(found)
            return found, taken
        alike = {int(offence.train) for offence in found.offences}
        pairs = [_pair(record) for record in _own_records(layout, name, opened.material)]
        asked = {pairs[number].anchor for number in alike if isinstance(pairs[number].anchor, str)}
        kept = (
            record
            for number, record in enumerate(_own_records(layout, name, opened.material))
            if number not in alike and _pair(record).anchor not in asked
        )
        taken += len(pairs) - write_training(kept, opened.material, layout.training_file(name), negatives=negatives)


def _pair(record: Record) -> Pair:
    return record if isinstance(record, Pair) else record.pair


# ---------------------------------------------------------------- miners


def mine_pair_set(layout: Layout, name: str, options: MineOptions, gate: Gate, progress: Progress) -> dict[str, Any]:
    """Pairs from concepts, structure and citations."""
    with _opened(layout) as opened:
        made = all_pairs(opened.material, options.pairs)
        return _put(layout, name, opened, made, asdict(options.pairs), gate, progress)


def all_pairs(part: Material, options: PairOptions) -> Iterator[Pair]:
    """The pairs of all miners; where the split has answers, links lead to them as well."""
    if not part.answers.any():
        yield from mine_pairs(part, options)
        return
    found = survey(part)
    answered = _with_answers(found, part)
    yield from mine_pairs(part, options, surveyed=answered)


def _with_answers(found: Survey, part: Material) -> Survey:
    """A survey with the links to answers, and what is asked of the ends of a link.

    Titles, notes, sections, heads and the order stay those of the part: what has an answer as its positive has
    a row of the part as its anchor.
    """
    told = survey(replace(part, rows=np.flatnonzero(part.answers), row_of=part.answer_of))
    ends: dict[str, tuple[list[int], list[int]]] = {}
    for row, relation, target in part.answer_links():
        answer = part.answer_of.get(target, -1 if target in found.heads else told.heads.get(target, -1))
        if answer >= 0:
            anchors, answers = ends.setdefault(relation, ([], []))
            anchors.append(row)
            answers.append(answer)
    none = np.empty(0, np.int64)
    return found._replace(
        place=np.where(part.answers, len(found.order) + told.place, found.place),
        names=np.where(part.answers, told.names, found.names),
        whole=np.where(part.answers, told.whole, found.whole),
        bare=np.where(part.answers, told.bare, found.bare),
        prose=np.where(part.answers, told.prose, found.prose),
        links={
            relation: _joined(found.links.get(relation, (none, none)), ends.get(relation, ([], [])))
            for relation in sorted({*found.links, *ends})
        },
    )


def _joined(one: tuple[Integers, Integers], more: tuple[list[int], list[int]]) -> tuple[Integers, Integers]:
    anchors, targets = (np.concatenate((own, np.array(other, np.int64))) for own, other in zip(one, more, strict=True))
    return anchors, targets


def mine_query_set(
    layout: Layout,
    name: str,
    options: MineOptions,
    gate: Gate,
    progress: Progress,
    *,
    found_within: int = 0,
    key: str = "",
) -> dict[str, Any]:
    """Queries by rules; with `found_within` only those that find their passage among so many hits."""
    with _opened(layout) as opened:
        made: Iterable[Pair] = rule_queries(opened.material, options.queries)
        if not found_within:
            return _put(layout, name, opened, made, asdict(options.queries), gate, progress)
        search = _search(layout, opened.material.allowed, key)
        kept = round_trip(made, search, found_within)

        return _put(
            layout, name, opened, kept, asdict(options.queries), gate, progress, after=lambda: _found_again(kept)
        )


def _found_again(kept: RoundTrip | None) -> dict[str, Any]:
    return {"round_trip": {style: share._asdict() for style, share in kept.by_style.items()} if kept else {}}


def preview_queries(layout: Layout, options: MineOptions, endpoint: EndpointOptions, key: str) -> Preview:
    """What it would take to let a model write queries; nothing is sent."""
    with _opened(layout) as opened, contextlib.closing(open_chat(endpoint, layout.answers, key)) as chat:
        return chat.preview(query_requests(opened.material, options.written))


def mine_written_set(
    layout: Layout,
    name: str,
    options: MineOptions,
    endpoint: EndpointOptions,
    limits: Limits,
    gate: Gate,
    progress: Progress,
    *,
    found_within: int = 0,
    key: str = "",
) -> dict[str, Any]:
    """Queries by a language model, within limits that hold over all runs until every passage is answered.

    What was answered before is not asked again. Passages without an answer are told of, and asked in the next run.
    """
    with _opened(layout) as opened, contextlib.closing(open_chat(endpoint, layout.answers, key)) as chat:
        begun = layout.training(f".{name}.begun")
        if not begun.exists():
            write_atomically(begun, json.dumps(chat.spent()).encode())
        before = Spent(*json.loads(begun.read_bytes()))
        budget = limits.budget(chat.spent(), before)
        unanswered: list[str] = []

        def made() -> Iterator[Pair]:
            for written in model_queries(
                opened.material, lambda requests: chat.run(requests, budget=budget), options.written
            ):
                if not written.complete:
                    unanswered.extend(skip.cause for skip in written.skips)
                yield from written.pairs
                if chat.down:
                    raise LemmataError(f"{chat.down}; what was answered is kept, the same command goes on")

        kept = round_trip(made(), _search(layout, opened.material.allowed, key), found_within) if found_within else None

        def told() -> Mapping[str, Any]:
            return {
                **_found_again(kept),
                "unanswered": len(unanswered),
                "spent": chat.spent().without(before)._asdict(),
            }

        used = {"model": endpoint.model, **asdict(options.written)}
        report = _put(layout, name, opened, kept or made(), used, gate, progress, after=told)
        if not unanswered:
            begun.unlink()
        return report


def mine_imported_set(
    layout: Layout,
    name: str,
    queries: Iterable[ImportedQuery],
    gate: Gate,
    progress: Progress,
    *,
    file: str,
    whole: bool = False,
    found_within: int = 0,
    key: str = "",
) -> dict[str, Any]:
    """Queries that somebody else wrote, those of training passages only; what was left out is told by reason."""
    with _opened(layout) as opened:
        told = ImportReport()
        part_of = _parts(opened)
        made = imported_pairs(queries, opened.material.row_of, part_of, file=file, whole=whole, report=told)
        kept = round_trip(made, _search(layout, opened.material.allowed, key), found_within) if found_within else None

        def found() -> Mapping[str, Any]:
            imported = {"read": told.read, "left_out": told.left_out(), "first_unknown": told.first_unknown}
            return {**(_found_again(kept) if kept else {}), "imported": imported}

        used = {"file": file, "whole": whole, "found_within": found_within}
        return _put(layout, name, opened, kept or made, used, gate, progress, after=found)


def _parts(opened: Opened) -> Callable[[str], str]:
    """The part of any passage by its id, "" where there is none."""
    row_of = {identity: row for row, identity in enumerate(opened.corpus.ids())}

    def part_of(identity: str) -> str:
        row = row_of.get(identity)
        if row is None:
            return ""
        return "no part" if opened.split.part[row] == LEFT_OUT else PARTS[opened.split.part[row]]

    return part_of


def mine_triplet_set(
    layout: Layout,
    name: str,
    options: MineOptions,
    gate: Gate,
    progress: Progress,
    *,
    kind: str = "embedding",
    of: str = "",
) -> dict[str, Any]:
    """Triplets from a graph embedding (`embedding`, `scincl`), from citations, or for the queries of the set `of`."""
    if kind not in TRIPLETS:
        raise ConfigError(f"triplets come from {', '.join(TRIPLETS)}, not {kind!r}")
    with _opened(layout) as opened:
        chosen = PRESETS["scincl"] if kind == "scincl" else options.triplets
        made: Iterable[Triplet]
        if kind == "citations":
            made = citation_triplets(opened.material, options.citations)
            most = max(1, options.citations.hard + options.citations.easy)
            used: Mapping[str, Any] = asdict(options.citations)
        else:
            vectors = _training_embedding(layout, opened, progress)
            made = graph_triplets(opened.material, vectors, chosen)
            most, used = chosen.hard + chosen.easy, asdict(chosen)
            if kind == "queries":
                asked = (one for one in _own_records(layout, of or "queries", opened.material))
                made = query_triplets((one for one in asked if isinstance(one, Pair)), made, opened.material)
                most = 10
        return _put(layout, name, opened, made, used, gate, progress, negatives=most)


def _training_embedding(layout: Layout, opened: Opened, progress: Progress) -> Vectors:
    """An embedding of the training part alone: one of the whole graph has seen the edges of the test part."""
    if opened.stored is None:
        raise WorkspaceError("there is no graph to embed: run 'lemmata graph build'")
    vectors = open_vectors(layout)
    initial = np.zeros((len(opened.material.graph.nodes), vectors.matrix.shape[1]), np.float32)
    inside = np.flatnonzero(opened.material.node_rows >= 0)
    initial[inside] = vectors.matrix[opened.material.node_rows[inside]]
    trained = train_embedding(opened.material.graph, EmbedOptions(epochs=20), initial=initial, progress=progress)
    return Vectors(trained.vectors, "graph embedding of the training part")


def mine_negative_set(
    layout: Layout, name: str, of: str, options: MineOptions, gate: Gate, progress: Progress, *, key: str = ""
) -> dict[str, Any]:
    """The pairs of a set, each with hard negatives."""
    with _opened(layout) as opened:
        part = opened.material
        vectors = open_vectors(layout)
        encoder = _encoder(layout, key)
        lexical = OrderedLexical.open(layout.lexical) if read_manifest(layout.manifest(layout.lexical)) else None
        told = NegativeReport()
        pairs = [_pair(one) for one in _own_records(layout, of, part)]
        made = mine_negatives(
            pairs,
            replace(part, allowed=part.allowed | part.answers),  # which a pair may have as its positive
            vectors=vectors.matrix,
            lexical=_Within(lexical.search, part.allowed) if lexical else None,
            nearest=_Within((_nearest(layout, vectors.matrix) or ExactIndex(vectors.matrix)).search, part.allowed),
            encode=lambda texts: encoder.encode(texts, role="query"),
            answers=known_answers(pairs, part),
            options=options.negatives,
            report=told,
        )
        used = {"of": of, **asdict(options.negatives)}

        def found() -> Mapping[str, Any]:
            return {
                "left_out": told.left_out,
                "short": told.short,
                "kept": dict(told.kept),
                "dropped": dict(told.dropped),
            }

        return _put(layout, name, opened, made, used, gate, progress, negatives=options.negatives.number, after=found)


def mix_sets(
    layout: Layout, name: str, recipe: Recipe, gate: Gate, progress: Progress
) -> tuple[dict[str, Any], Sequence[Contribution]]:
    """One training set from several, by a recipe; and what each contributed."""
    with _opened(layout) as opened:
        names = list(recipe.weights) or [one for one in sets(layout) if one != name]
        streams = {one: _own_records(layout, one, opened.material) for one in names}
        most = max((_negatives(layout, one) for one in names), default=0)
        with mix(streams, recipe, opened.material) as mixture:
            report = _put(layout, name, opened, mixture.records, asdict(recipe), gate, progress, negatives=most)
            return report, mixture.table


def _negatives(layout: Layout, name: str) -> int:
    return len(text_columns(_file(layout, name))) - 2


def export(layout: Layout, name: str, path: Path, file_format: str) -> int:
    """Write a mined set in a format that other trainers read; returns the number of records."""
    with _opened(layout) as opened:
        made = _own_records(layout, name, opened.material)
        return write_training(made, opened.material, path, file_format=file_format, negatives=_negatives(layout, name))


# ---------------------------------------------------------------- what finds passages


def _encoder(layout: Layout, key: str) -> Encoder:
    vectors = open_vectors(layout)
    return load_encoder(
        vectors.encoder, dimension=vectors.cut or None, key=key, cache=layout.encodings, models=layout.models
    )


class _Within(Generic[Queries]):
    """An index that proposes some rows only, whatever else may be read."""

    def __init__(self, search: Callable[[Queries, int, Mask], tuple[Integers, Floats]], rows: Mask) -> None:
        self._search = search
        self._rows = rows

    def search(self, queries: Queries, k: int, allowed: Mask | None = None) -> tuple[Integers, Floats]:
        return self._search(queries, k, self._rows if allowed is None else self._rows & allowed)


def _nearest(layout: Layout, matrix: Floats) -> Index | None:
    if read_manifest(layout.manifest(layout.ann)) is None:
        return None
    return AnnIndex.open(layout.ann_graph(layout.ann), matrix)


def _search(layout: Layout, allowed: Mask, key: str) -> Callable[[Sequence[str], int], Integers]:
    """Rows by words and by meaning, in turn, among those allowed."""
    lexical = OrderedLexical.open(layout.lexical)
    vectors = open_vectors(layout)
    encoder = _encoder(layout, key)
    index: Index = _nearest(layout, vectors.matrix) or ExactIndex(vectors.matrix)

    def search(texts: Sequence[str], k: int) -> Integers:
        words, _ = lexical.search(texts, k, allowed)
        points, _ = index.search(encoder.encode(list(texts), role="query"), k, allowed)
        # one after the other, for the filter looks at the first k only
        return np.stack((words, points), axis=2).reshape(len(texts), -1)

    return search
