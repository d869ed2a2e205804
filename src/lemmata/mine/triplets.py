"""Training triplets from a graph embedding (SciNCL), from citations (SPECTER) and for generated queries.

As in `pairs`, a miner sees one TrainingView, and ids decide what is sampled, in which order. Passages with
the same text count as one, so that none can be a positive and a negative. Each positive goes with one negative, as in
both papers, so there are as many negatives as positives.
"""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from lemmata.core.errors import ConfigError, InputError, LeakageError
from lemmata.core.types import Floats, Index, Integers, Negative, Pair, Triplet, Vectors
from lemmata.mine.adjacency import adjacency, both_ways, edges_of
from lemmata.mine.material import TrainingView
from lemmata.mine.pairs import PassageTable, linked_rows, read_table
from lemmata.vectors.ann import AnnIndex
from lemmata.vectors.exact import ExactIndex

_BLOCK = 512  # anchors searched at once
# Every row is an anchor once. At 60,000 x 64, comparing all pairs costs 0.5 ms of CPU time per anchor for 51 neighbours
# and 1.3 ms for 1001; a walk in the index costs 0.5 and 10 ms, after 0.4 ms per node to build it.
_EXACT_ANCHORS = 150_000
_ANN_RANKS = 200
CITED = 5  # positives of a passage that cites, and its negatives
CITED_HARD = 2  # of these negatives; the others are easy ones


# ---------------------------------------------------------------- neighbours in a graph embedding


@dataclass(frozen=True, slots=True)
class GraphTripletOptions:
    """Which neighbours are taken; the defaults are those of the process-industry paper.

    Rank 1 is the nearest neighbour. Each band ends at its rank and is as wide as the number taken from it.
    """

    SMALLEST: ClassVar = {"positives": 1, "positive_rank": 1, "hard": 0, "hard_rank": 1, "shortest": 0}
    positives: int = 2  # per anchor (c+ of the paper)
    positive_rank: int = 2  # nearest neighbours from which positives are taken (k+)
    hard: int = 1  # hard negatives per anchor; the others are random
    hard_rank: int = 50  # rank of the neighbours from which hard negatives are taken (k- hard)
    shortest: int = 100  # characters; shorter passages shape the embedding, but are not sampled

    @property
    def easy(self) -> int:
        return max(0, self.positives - self.hard)


SCINCL = GraphTripletOptions(positives=5, positive_rank=25, hard=2, hard_rank=4000)


def graph_triplets(
    view: TrainingView,
    vectors: Vectors,
    options: GraphTripletOptions | None = None,
    *,
    texts: Mapping[str, str] | None = None,
) -> Iterator[Triplet]:
    """Triplets by cosine in a graph embedding, one vector per node of the view's graph (Ostendorff et al. 2022).

    Positives are the neighbours of the ranks (k+ - c+, k+], hard negatives those of (k- - c-, k-]; easy ones are
    drawn from all passages beyond the larger rank. A negative has no edge with its anchor. A node without a vector
    (zeros) is left out. Vectors trained on more than the view's edges know of other parts: embed
    `view.graph`. A location with a text in `texts` is an anchor as well: its text, with its nearest passages.
    """
    options = options or GraphTripletOptions()
    _check_bands(options)
    if len(vectors.matrix) != len(view.graph.nodes):
        raise InputError(
            f"the embedding has {len(vectors.matrix)} vectors, the graph {len(view.graph.nodes)} nodes: "
            "run 'lemmata graph embed' again"
        )
    table = read_table(view)
    rows, matrix = _embedded(view, vectors, options.shortest, table)
    last = max(options.positive_rank, options.hard_rank if options.hard else 0)
    if len(rows) <= last + options.easy:
        raise InputError(
            f"neighbours up to rank {last} and {options.easy} easy negatives need {last + options.easy + 1} different "
            f"passages of {options.shortest} characters in the graph; there are {len(rows)}"
        )
    anchors = itertools.chain(
        _location_anchors(view, vectors, texts or {}, rows), _passage_anchors(view, table, rows, matrix)
    )
    with tempfile.TemporaryDirectory() as folder:
        index: Index = ExactIndex(matrix)
        if len(rows) > _EXACT_ANCHORS and last <= _ANN_RANKS:
            index = AnnIndex.build(matrix, Path(folder) / "neighbours", threads=1)  # more are not repeatable
        while block := list(itertools.islice(anchors, _BLOCK)):
            nearest, scores = index.search(np.stack([anchor.point for anchor in block]), last + 1)
            for anchor, near, cosines in zip(block, nearest, scores, strict=True):
                others = np.flatnonzero(near != anchor.place)[:last]
                yield from _neighbour_triplets(options, anchor, near[others], cosines[others], rows)


class _Anchor(NamedTuple):
    """What gets neighbours: a passage, or the text of a location."""

    name: int | str  # row, or text
    place: int  # in the rows that can be sampled; -1 for a location
    point: Floats  # (dim,) its unit vector
    linked: Integers  # places that have an edge with it
    key: int  # the hash of its id, which decides what is drawn for it


def _neighbour_triplets(
    options: GraphTripletOptions, anchor: _Anchor, ranked: Integers, cosines: Floats, rows: Integers
) -> Iterator[Triplet]:
    """The triplets of one anchor; `ranked` are the places of its neighbours in `rows`, nearest first."""
    positives = [
        Pair(anchor.name, int(rows[ranked[n]]), "graph_triplets", "neighbour", f"rank {n + 1}, cosine {cosines[n]:.2f}")
        for n in range(options.positive_rank - options.positives, options.positive_rank)
    ]
    hard = [
        Negative(int(rows[ranked[n]]), "graph", f"rank {n + 1}", float(cosines[n]))
        for n in range(options.hard_rank - options.hard, options.hard_rank)
        if ranked[n] not in anchor.linked
    ]
    taken = np.union1d(ranked if anchor.place < 0 else np.append(ranked, anchor.place), anchor.linked)
    drawn = _draw(np.random.default_rng((0, anchor.key)), len(rows), taken, options.easy)
    easy = [Negative(int(rows[other]), "random", f"beyond rank {len(ranked)}") for other in drawn]
    yield from _combined(positives, hard + easy)


def _passage_anchors(view: TrainingView, table: PassageTable, rows: Integers, matrix: Floats) -> Iterator[_Anchor]:
    """All rows that can be sampled. Linked are those with an edge or a link with each other, in either direction."""
    place_of = _places(view, rows)
    relations = {*view.graph.relations, *table.links}
    sources, targets = (place_of[end] for end in linked_rows(view, table, relations))
    inside = (sources >= 0) & (targets >= 0)
    linked = both_ways(sources[inside], targets[inside], len(rows))
    for place, row in enumerate(rows.tolist()):
        yield _Anchor(row, place, matrix[place], linked.of(np.array([place])), int(table.names[row]))


def _location_anchors(
    view: TrainingView, vectors: Vectors, texts: Mapping[str, str], rows: Integers
) -> Iterator[_Anchor]:
    """The texts of locations that logs report about, by the order of their ids; nothing else is known of the others."""
    graph, place_of = view.graph, _places(view, rows)
    about = edges_of(graph, ("reports_about",)) & (view.node_rows[graph.sources()] >= 0)
    logs = place_of[view.node_rows[graph.sources()[about]]]
    linked = adjacency(graph.indices[about][logs >= 0], logs[logs >= 0], len(graph.nodes))
    named = ((name, node) for node, name in enumerate(graph.nodes) if graph.kinds[node] == "location")
    for name, node in sorted(named):
        vector, reports = np.asarray(vectors.matrix[node], np.float32), linked.of(np.array([node]))
        length = np.linalg.norm(vector)
        if texts.get(name) and length > 0 and len(reports):
            key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
            yield _Anchor(texts[name], -1, vector / length, reports, key)


def _places(view: TrainingView, rows: Integers) -> Integers:
    """The place of each row of the corpus in `rows`, else -1."""
    place_of = np.full(len(view.allowed), -1, np.int64)
    place_of[rows] = np.arange(len(rows))
    return place_of


def _check_bands(options: GraphTripletOptions) -> None:
    for count, rank in (("positives", "positive_rank"), ("hard", "hard_rank")):
        if getattr(options, count) > getattr(options, rank):
            raise ConfigError(f"{count} = {getattr(options, count)} do not fit up to {rank} = {getattr(options, rank)}")
    if options.hard and options.hard_rank - options.hard < options.positive_rank:
        raise ConfigError(
            f"hard negatives from rank {options.hard_rank - options.hard + 1} on collide with positives up to "
            f"rank {options.positive_rank}: choose a larger hard_rank"
        )


def _embedded(view: TrainingView, vectors: Vectors, shortest: int, table: PassageTable) -> tuple[Integers, Floats]:
    """Rows that can be sampled, by id, and their unit vectors."""
    nodes = np.flatnonzero(view.node_rows >= 0)
    nodes = nodes[np.argsort(table.place[view.node_rows[nodes]])]
    nodes = nodes[table.lengths[view.node_rows[nodes]] >= shortest]
    matrix = np.asarray(vectors.matrix[nodes], np.float32)
    norms = np.linalg.norm(matrix, axis=1)
    usable = (norms > 0) & np.isfinite(norms)
    nodes, matrix = nodes[usable], matrix[usable] / norms[usable, None]
    first = np.sort(np.unique(table.whole[view.node_rows[nodes]], return_index=True)[1])
    return np.asarray(view.node_rows[nodes[first]], np.int64), np.ascontiguousarray(matrix[first], np.float32)


def _combined(pairs: Sequence[Pair], negatives: Sequence[Negative]) -> Iterator[Triplet]:
    """Each positive with one negative; the shorter list is repeated."""
    for number in range(max(len(pairs), len(negatives)) if pairs and negatives else 0):
        yield Triplet(pairs[number % len(pairs)], (negatives[number % len(negatives)],))


def _draw(generator: np.random.Generator, size: int, excluded: Integers, count: int) -> list[int]:
    """Different random numbers below `size` that are not excluded; fewer where there are fewer."""
    free = size - len(excluded)
    drawn = generator.choice(free, min(count, free), replace=False)
    # the i-th free number comes after as many excluded ones as have at most i free numbers before them
    moved = drawn + np.searchsorted(excluded - np.arange(len(excluded)), drawn, side="right")
    return [int(number) for number in moved]


# ---------------------------------------------------------------- citations


@dataclass(frozen=True, slots=True)
class CitationTripletOptions:
    """What counts as a citation; how many are drawn for an anchor is SPECTER's choice."""

    relations: str = "cites"  # relations that count as citing, comma-separated: refers_to,proof_uses


def citation_triplets(view: TrainingView, options: CitationTripletOptions | None = None) -> Iterator[Triplet]:
    """Triplets from who cites whom (Cohan et al. 2020).

    A positive is cited by the anchor. A hard negative is cited by what the anchor cites, and neither cites the
    anchor nor is cited by it. Easy ones are drawn from all others. Documents are represented by their abstracts.
    """
    options = options or CitationTripletOptions()
    table = read_table(view)
    rows = table.order
    _, first, group = np.unique(table.whole[rows], return_index=True, return_inverse=True)
    representatives = np.sort(first)  # of passages with the same text, the first by id represents all
    place_of = np.full(len(table.place), -1, np.int64)
    place_of[rows] = np.searchsorted(representatives, first[group])
    rows = rows[representatives]
    relations = {relation.strip() for relation in options.relations.split(",")}
    anchors, targets = (place_of[end] for end in linked_rows(view, table, relations))
    anchors, targets = anchors[anchors != targets], targets[anchors != targets]
    cites, cited_by = adjacency(anchors, targets, len(rows)), adjacency(targets, anchors, len(rows))
    for anchor in np.flatnonzero(np.diff(cites.starts)).tolist():
        # a generator for each anchor, so that what it draws does not depend on the others
        generator = np.random.default_rng((0, int(table.names[rows[anchor]])))
        cited = cites.of(np.array([anchor]))
        linked_places = np.union1d(np.append(cited, anchor), cited_by.of(np.array([anchor])))
        second = np.setdiff1d(cites.of(cited), linked_places)
        reason = "cited by the anchor"
        pairs = [
            Pair(int(rows[anchor]), int(rows[cited[drawn]]), "citation_triplets", options.relations, reason)
            for drawn in _draw(generator, len(cited), cited[:0], CITED)
        ]
        hard = [
            Negative(int(rows[second[drawn]]), "citations", "cited by what the anchor cites, but not linked with it")
            for drawn in _draw(generator, len(second), second[:0], CITED_HARD)
        ]
        easy = [
            Negative(int(rows[drawn]), "random", "neither cited nor cited by what the anchor cites")
            for drawn in _draw(generator, len(rows), np.union1d(linked_places, second), CITED - CITED_HARD)
        ]
        yield from _combined(pairs, hard + easy)


# ---------------------------------------------------------------- generated queries


def query_triplets(queries: Iterable[Pair], neighbours: Iterable[Triplet], view: TrainingView) -> Iterator[Triplet]:
    """Generated queries with their document as the positive and its neighbours as hard negatives.

    `queries` pairs texts with the rows they were written for; `neighbours` are triplets with those rows as
    anchors. What is near the document does not answer its query, so the positives of these triplets become
    negatives too, and come first. A query whose document has no neighbours gives nothing. Whether a former
    positive answers the query after all is for a cross-encoder to decide.
    """
    table = read_table(view)
    former: dict[int, dict[int, Negative]] = {}
    others: dict[int, dict[int, Negative]] = {}
    for pair, negatives in neighbours:
        if not isinstance(pair.anchor, str):
            former_positive = Negative(pair.positive, pair.source, f"a positive of the document, {pair.reason}")
            former.setdefault(pair.anchor, {}).setdefault(pair.positive, former_positive)
            for negative in negatives:
                others.setdefault(pair.anchor, {}).setdefault(negative.row, negative)
    for query in queries:
        if not isinstance(query.anchor, str):
            raise InputError(f"a query is a text; the pair for row {query.positive} has row {query.anchor} instead")
        retrieved = dict(former.get(query.positive, {}))
        for row, negative in others.get(query.positive, {}).items():
            retrieved.setdefault(row, negative)
        for row in (query.positive, *retrieved):
            if not view.allowed[row]:
                raise LeakageError(f"row {row} belongs to another part of the split")
        by_text: dict[int, Negative] = {}
        for row, negative in retrieved.items():
            by_text.setdefault(int(table.whole[row]), negative)
        by_text.pop(int(table.whole[query.positive]), None)
        if by_text:
            reason = f"{query.source}: {query.reason}" if query.reason else query.source
            yield Triplet(query._replace(source="query_triplets", reason=reason), tuple(by_text.values()))
