"""Training triplets from a graph embedding (SciNCL), from citations (SPECTER) and for generated queries.

As in `pairs`, a miner sees one Material, and ids and a seed decide what is drawn and in which order. Passages
with the same text count as one, so that none can be a positive and a negative.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from lemmata.errors import ConfigError, InputError, LeakageError
from lemmata.index.ann import AnnIndex
from lemmata.index.exact import ExactIndex
from lemmata.mine.material import Material
from lemmata.mine.pairs import Survey, linked_rows, survey
from lemmata.types import Floats, Index, Integers, Negative, Pair, Triplet, Vectors

__all__ = [
    "PRESETS",
    "CitationTripletOptions",
    "GraphTripletOptions",
    "citation_triplets",
    "graph_triplets",
    "query_triplets",
]

_BLOCK = 512  # anchors whose neighbours are held at once
# every row is an anchor once, in blocks: at 60,000 x 64, all pairs cost 0.5 ms of CPU time an anchor for 51 neighbours
# and 1.3 ms for 1001; a walk costs 0.5 and 10 ms, and 0.4 ms before for linking the node
_EXACT_ANCHORS = 150_000
_ANN_RANKS = 200


# ---------------------------------------------------------------- neighbours in a graph embedding


@dataclass(frozen=True, slots=True)
class GraphTripletOptions:
    """Which neighbours are taken; the defaults are those of the process-industry paper.

    Rank 1 is the nearest neighbour. The bands end at a rank and are as wide as the number taken from them.
    """

    CHOICES: ClassVar = {"pairing": ("one", "all")}
    SMALLEST: ClassVar = {
        "positives": 1, "positive_rank": 1, "hard": 0, "hard_rank": 1, "easy": 0, "shortest": 0, "seed": 0,
    }  # fmt: skip
    positives: int = 2  # c+
    positive_rank: int = 2  # k+
    hard: int = 1  # c- hard
    hard_rank: int = 50  # k- hard
    easy: int = 1  # c- easy
    shortest: int = 100  # characters; shorter passages shape the embedding, but are not sampled
    pairing: str = "one"  # each positive with one negative, as in both papers, or with "all" of them
    linked: bool = False  # whether a negative may have an edge with its anchor
    seed: int = 0


PRESETS: Mapping[str, GraphTripletOptions] = {
    "process_industry": GraphTripletOptions(),
    "scincl": GraphTripletOptions(positives=5, positive_rank=25, hard=2, hard_rank=4000, easy=3),
}


def graph_triplets(
    material: Material,
    vectors: Vectors,
    options: GraphTripletOptions | None = None,
    *,
    found: Survey | None = None,
) -> Iterator[Triplet]:
    """Triplets by cosine in a graph embedding, one vector per node of the material's graph (Ostendorff et al. 2022).

    Positives are the neighbours of the ranks (k+ - c+, k+], hard negatives those of (k- - c-, k-]; easy ones are
    drawn from all that are no neighbours up to the larger rank. A node without a vector (zeros) is left out.
    Vectors that were trained on more than the material's edges know of other parts: embed `material.graph`.
    """
    options = options or GraphTripletOptions()
    _check_bands(options)
    if len(vectors.matrix) != len(material.graph.nodes):
        raise InputError(
            f"the embedding has {len(vectors.matrix)} vectors, the graph {len(material.graph.nodes)} nodes: "
            "run 'lemmata graph embed' again"
        )
    found = found or survey(material)
    rows, matrix = _embedded(material, vectors, options.shortest, found)
    last = max(options.positive_rank, options.hard_rank if options.hard else 0)
    if len(rows) <= last + options.easy:
        raise InputError(
            f"neighbours up to rank {last} and {options.easy} easy negatives need {last + options.easy + 1} different "
            f"passages of {options.shortest} characters in the graph; there are {len(rows)}"
        )
    links = _link_keys(material, found) if not options.linked else rows[:0]
    place_of = np.full(len(material.allowed), -1, np.int64)
    place_of[rows] = np.arange(len(rows))
    with tempfile.TemporaryDirectory() as folder:
        index: Index = ExactIndex(matrix)
        if len(rows) > _EXACT_ANCHORS and last <= _ANN_RANKS:
            index = AnnIndex.build(matrix, Path(folder) / "neighbours", threads=1)  # several would not be repeatable
        for start in range(0, len(rows), _BLOCK):
            nearest, scores = index.search(matrix[start : start + _BLOCK], last + 1)
            for place, (near, score) in enumerate(zip(nearest, scores, strict=True), start):
                others = near != place
                near, score = near[others][:last], score[others][:last]
                linked = _linked(links, int(rows[place]), place_of)
                yield from _from_bands(place, near, score, rows, linked, found, options)


def _check_bands(options: GraphTripletOptions) -> None:
    for count, rank in (("positives", "positive_rank"), ("hard", "hard_rank")):
        if getattr(options, count) > getattr(options, rank):
            raise ConfigError(f"{count} = {getattr(options, count)} do not fit up to {rank} = {getattr(options, rank)}")
    if options.hard and options.hard_rank - options.hard < options.positive_rank:
        raise ConfigError(
            f"hard negatives from rank {options.hard_rank - options.hard + 1} on collide with positives up to "
            f"rank {options.positive_rank}: choose a larger hard_rank"
        )
    if not options.hard and not options.easy:
        raise ConfigError("a triplet needs a negative: hard and easy are both 0")


def _embedded(material: Material, vectors: Vectors, shortest: int, found: Survey) -> tuple[Integers, Floats]:
    """Rows that can be sampled, by id, and their vectors of length 1."""
    nodes = np.flatnonzero(material.node_rows >= 0)
    nodes = nodes[np.argsort(found.place[material.node_rows[nodes]])]
    nodes = nodes[found.lengths[material.node_rows[nodes]] >= shortest]
    matrix = np.asarray(vectors.matrix[nodes], np.float32)
    lengths = np.linalg.norm(matrix, axis=1)
    usable = (lengths > 0) & np.isfinite(lengths)
    nodes, matrix = nodes[usable], matrix[usable] / lengths[usable, None]
    first = np.sort(np.unique(found.whole[material.node_rows[nodes]], return_index=True)[1])
    return np.asarray(material.node_rows[nodes[first]], np.int64), np.ascontiguousarray(matrix[first], np.float32)


def _link_keys(material: Material, found: Survey) -> Integers:
    """Every two rows with an edge between them, in both directions, as one sorted number each."""
    relations = {*material.graph.relations, *found.links}
    anchors, targets = linked_rows(material, found, relations)
    size = len(material.allowed)
    return np.unique(np.concatenate((anchors * size + targets, targets * size + anchors)))


def _linked(links: Integers, row: int, place_of: Integers) -> Integers:
    """The places of what a row has an edge with."""
    begin, end = np.searchsorted(links, (row * len(place_of), (row + 1) * len(place_of)))
    places = place_of[links[begin:end] % len(place_of)]
    return places[places >= 0]


def _from_bands(
    place: int,
    near: Integers,
    scores: Floats,
    rows: Integers,
    linked: Integers,
    found: Survey,
    options: GraphTripletOptions,
) -> Iterator[Triplet]:
    """The triplets of one anchor; `place`, `near` and `linked` count in `rows`."""
    anchor = int(rows[place])
    positives = [
        Pair(
            anchor,
            int(rows[near[rank - 1]]),
            "graph_triplets",
            "neighbour",
            f"rank {rank}, cosine {scores[rank - 1]:.2f}",
        )
        for rank in range(options.positive_rank - options.positives + 1, options.positive_rank + 1)
    ]
    hard = [
        Negative(int(rows[near[rank - 1]]), "graph", f"rank {rank}", float(scores[rank - 1]))
        for rank in range(options.hard_rank - options.hard + 1, options.hard_rank + 1)
        if near[rank - 1] not in linked
    ]
    excluded = np.union1d(np.append(near, place), linked)
    easy = [
        Negative(int(rows[drawn]), "random", f"beyond rank {len(near)}")
        for drawn in _draw(_generator(options.seed, found, anchor), len(rows), excluded, options.easy)
    ]
    yield from _combined(positives, hard + easy, options.pairing)


def _combined(pairs: Sequence[Pair], negatives: Sequence[Negative], pairing: str) -> Iterator[Triplet]:
    if not pairs or not negatives:
        return
    if pairing == "all":
        yield from (Triplet(pair, tuple(negatives)) for pair in pairs)
    else:
        for number in range(max(len(pairs), len(negatives))):
            yield Triplet(pairs[number % len(pairs)], (negatives[number % len(negatives)],))


def _generator(seed: int, found: Survey, anchor: int) -> np.random.Generator:
    """One of its own for every anchor, so that no anchor's draw depends on the others."""
    return np.random.default_rng((seed, int(found.names[anchor])))


def _draw(generator: np.random.Generator, size: int, excluded: Integers, count: int) -> list[int]:
    """Different numbers below `size` that are not excluded, as they were drawn; fewer where there are fewer."""
    free = size - len(excluded)
    drawn = generator.choice(free, min(count, free), replace=False)
    # of the free numbers, the i-th comes after as many excluded ones as have at most i free numbers before them
    moved = drawn + np.searchsorted(excluded - np.arange(len(excluded)), drawn, side="right")
    return [int(number) for number in moved]


# ---------------------------------------------------------------- citations


@dataclass(frozen=True, slots=True)
class CitationTripletOptions:
    """How many of each are drawn for an anchor; the defaults are SPECTER's."""

    CHOICES: ClassVar = {"pairing": ("one", "all")}
    SMALLEST: ClassVar = {"positives": 1, "hard": 0, "easy": 0, "shortest": 0, "seed": 0}
    relations: str = "cites"  # what counts as citing; several with commas between them: refers_to,proof_uses
    positives: int = 5
    hard: int = 2
    easy: int = 3
    shortest: int = 0  # characters
    pairing: str = "one"
    seed: int = 0


def citation_triplets(
    material: Material, options: CitationTripletOptions | None = None, *, found: Survey | None = None
) -> Iterator[Triplet]:
    """Triplets from who cites whom (Cohan et al. 2020).

    A positive is cited by the anchor. A hard negative is cited by what the anchor cites, and neither cites the
    anchor nor is cited by it. Easy ones are drawn from all others. Documents speak through their abstracts.
    """
    options = options or CitationTripletOptions()
    found = found or survey(material)
    rows = found.order[found.lengths[found.order] >= options.shortest]
    _, first, group = np.unique(found.whole[rows], return_index=True, return_inverse=True)
    kept = np.sort(first)  # of passages with the same text, the first by id stands for all
    standing = np.full(len(found.place), -1, np.int64)
    standing[rows] = np.searchsorted(kept, first[group])
    rows = rows[kept]
    relations = {relation.strip() for relation in options.relations.split(",")}
    anchors, targets = (standing[end] for end in linked_rows(material, found, relations))
    known = (anchors >= 0) & (targets >= 0) & (anchors != targets)
    cites = _Adjacency(anchors[known], targets[known], len(rows))
    cited_by = _Adjacency(targets[known], anchors[known], len(rows))
    for anchor in np.flatnonzero(np.diff(cites.starts)).tolist():
        generator = _generator(options.seed, found, int(rows[anchor]))
        cited = cites.of(anchor)
        near = np.union1d(np.append(cited, anchor), cited_by.of(anchor))
        second = np.setdiff1d(np.concatenate([cites.of(one) for one in cited.tolist()]), near)
        pairs = [
            Pair(
                int(rows[anchor]), int(rows[cited[one]]), "citation_triplets", options.relations, "cited by the anchor"
            )
            for one in _draw(generator, len(cited), cited[:0], options.positives)
        ]
        hard = [
            Negative(int(rows[second[one]]), "citations", "cited by what the anchor cites, but not linked with it")
            for one in _draw(generator, len(second), second[:0], options.hard)
        ]
        easy = [
            Negative(int(rows[one]), "random", "neither cited nor cited by what the anchor cites")
            for one in _draw(generator, len(rows), np.union1d(near, second), options.easy)
        ]
        yield from _combined(pairs, hard + easy, options.pairing)


class _Adjacency:
    """Distinct edges by their source."""

    def __init__(self, sources: Integers, targets: Integers, size: int) -> None:
        keys = np.unique(sources * size + targets)
        self.targets = keys % max(size, 1)
        self.starts = np.searchsorted(keys, np.arange(size + 1) * size)

    def of(self, source: int) -> Integers:
        """Ascending."""
        return self.targets[self.starts[source] : self.starts[source + 1]]


# ---------------------------------------------------------------- generated queries


def query_triplets(
    queries: Iterable[Pair], neighbours: Iterable[Triplet], material: Material, *, found: Survey | None = None
) -> Iterator[Triplet]:
    """Generated queries with their document as the positive and all that was retrieved for it as hard negatives.

    `queries` pairs texts with the rows that they were written for, `neighbours` are triplets whose anchors are those
    rows: what was near the document is not what its query asks for, so their positives become negatives too, and
    come first. A query whose document has no neighbours gives nothing. Whether a former positive answers the query
    after all is for a cross-encoder to say.
    """
    found = found or survey(material)
    former: dict[int, dict[int, Negative]] = {}
    others: dict[int, dict[int, Negative]] = {}
    for pair, negatives in neighbours:
        if not isinstance(pair.anchor, str):
            once = Negative(pair.positive, pair.source, f"a positive of the document, {pair.reason}")
            former.setdefault(pair.anchor, {}).setdefault(pair.positive, once)
            for negative in negatives:
                others.setdefault(pair.anchor, {}).setdefault(negative.row, negative)
    for query in queries:
        if not isinstance(query.anchor, str):
            raise InputError(f"a query is a text; the pair for row {query.positive} has row {query.anchor} instead")
        retrieved = dict(former.get(query.positive, {}))
        for row, negative in others.get(query.positive, {}).items():
            retrieved.setdefault(row, negative)
        for row in (query.positive, *retrieved):
            if not material.allowed[row]:
                raise LeakageError(f"row {row} belongs to another part of the split")
        texts = {int(found.whole[query.positive])}
        kept: list[Negative] = []
        for row, negative in retrieved.items():
            if int(found.whole[row]) not in texts:
                texts.add(int(found.whole[row]))
                kept.append(negative)
        if kept:
            reason = f"{query.source}: {query.reason}" if query.reason else query.source
            yield Triplet(query._replace(source="query_triplets", reason=reason), tuple(kept))
