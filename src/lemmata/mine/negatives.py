"""Hard negatives for pairs: passages that look like an answer to the anchor but are none.

Words (BM25) and vectors propose candidates, and the vectors rank them. Rules drop what may be an answer after all:
what the graph or a rare concept ties to the positive or the anchor, and near-duplicates of the positive. Pairs are
read in blocks, so memory does not grow with anchors times passages.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import InputError, LeakageError
from lemmata.core.types import Floats, Index, Integers, Mask, Negative, Pair, Triplet
from lemmata.mine.adjacency import Adjacency, adjacency, both_ways, components, edges_of
from lemmata.mine.material import TrainingView
from lemmata.vectors.exact import ExactIndex, Matrix

Encode = Callable[[Sequence[str]], Floats]
Answers = Mapping[int | str, Collection[int]]
PROPOSERS = ("lexical", "dense")
# Edges that tie an answer to its neighbours. Structure alone (part_of, reports_about) ties too much together.
RELATIONS = frozenset(("refers_to", "proof_uses", "cites", "related_to", "equivalent_to", "next"))
WIDEST_NODE = 30  # neighbours of a node that is walked through: what everything refers to ties nothing together
HOPS = 2  # edges from either end within which nothing is a negative; without, 2.5 % were linked (docs/history.md)
RATIO = 0.95  # of the positive's cosine: from here on a candidate may be an answer
RARE_CONCEPT = 20  # passages that mention a concept which relates them; a common concept relates nothing
SAME_COSINE = 0.95  # to the positive: from here on a candidate says the same
SAME_WORDS = 0.7  # Jaccard similarity to the positive, of runs of four words: likewise
CATEGORY_PARTS = 2  # of a category that count: math.CO has two
RARE_CATEGORY = 100  # passages; smaller categories are pooled, for they have too few candidates
_MOST_CATEGORIES = 62  # that fit beside the pool into the bits of an integer
DEPTH = 300  # candidates from words, and as many from vectors
_BLOCK = 1024  # pairs that are worked on together; their candidates take a few megabytes
_CACHED_TEXTS = 1 << 15  # a candidate comes with many pairs
_CACHED_NEIGHBOURS = 1 << 12  # a positive comes with many anchors
_WORD = re.compile(r"\w+|[^\w\s]")


class TextIndex(Protocol):
    """Finds passages by words, as `lemmata.search.lexical.LexicalIndex` does."""

    def search(self, queries: Sequence[str], k: int, allowed: Mask | None = None) -> tuple[Integers, Floats]: ...


@dataclass(frozen=True, slots=True)
class NegativeOptions:
    """How many negatives there are, and where they may come from."""

    SMALLEST: ClassVar = {"number": 1}
    number: int = 4  # negatives for a pair
    other_document: bool = True  # negatives come from other documents; of logs, from other threads and locations


@dataclass(slots=True)
class NegativeReport:
    """Counts of pairs and candidates; a candidate is counted under the first rule that drops it."""

    pairs: int = 0
    left_out: int = 0  # pairs without any negative
    short: int = 0  # pairs with fewer negatives than the number
    kept: Counter[str] = field(default_factory=Counter)  # by proposer
    dropped: Counter[str] = field(default_factory=Counter)  # by rule


class _Candidates(NamedTuple):
    """The candidates of one anchor: those of each proposer nearest first, one proposer after the other."""

    rows: Integers
    cosines: Floats
    ranks: Integers  # from 1
    proposers: Integers  # position in PROPOSERS


def known_answers(pairs: Iterable[Pair], view: TrainingView | None = None) -> dict[int | str, set[int]]:
    """All positives of each anchor; with `view`, every passage that mentions a concept answers its name,
    aliases and description."""
    answers: dict[int | str, set[int]] = {}
    for pair in pairs:
        answers.setdefault(pair.anchor, set()).add(pair.positive)
    if view is None:
        return answers
    concept_of = {
        text: concept.id
        for concept in view.concepts.values()
        for text in (concept.name, *concept.aliases, concept.description)
        if text in answers
    }
    anchors_of: dict[str, list[str]] = {}
    for text, concept_id in concept_of.items():
        anchors_of.setdefault(concept_id, []).append(text)
    graph = view.graph
    rows = view.node_rows[graph.sources()]
    edges = np.flatnonzero(edges_of(graph, ("mentions", "defines")) & (rows >= 0))
    for row, target in zip(rows[edges].tolist(), graph.indices[edges].tolist(), strict=True):
        for anchor in anchors_of.get(graph.nodes[target], ()):
            answers[anchor].add(row)
    return answers


def mine_negatives(
    pairs: Iterable[Pair],
    view: TrainingView,
    *,
    vectors: Matrix,
    lexical: TextIndex | None = None,
    nearest: Index | None = None,
    encode: Encode | None = None,
    answers: Answers | None = None,
    options: NegativeOptions | None = None,
    report: NegativeReport | None = None,
    depth: int = DEPTH,
) -> Iterator[Triplet]:
    """Each pair with up to `number` negatives, in the order of the pairs, read lazily in blocks.

    `vectors` (rows of the corpus, dim) are unit vectors of the model that is trained: they rank. An anchor that
    is a row has its vector there; `encode` gives those of anchors that are texts. `lexical` and `nearest`
    propose `depth` candidates each; without `nearest` all rows are compared, without `lexical` only vectors
    propose. Negatives are taken alternately from both. Where the pairs of one anchor are not consecutive, `answers`
    holds its other positives (see `known_answers`). `report` is added to. A pair without any negative is left out. A
    row of another part of the split raises LeakageError; where the split allows answers, they may be positives.
    """
    options = options or NegativeOptions()
    report = report if report is not None else NegativeReport()
    vectors = vectors.view(np.ndarray)  # still memory-mapped, but slicing numpy's memmap class is slow
    index = nearest if nearest is not None else ExactIndex(vectors)
    sampler = _NegativeSampler(view, vectors, options, report)
    for block in _blocks(pairs):
        _check(block, view, encode)
        anchors = list(dict.fromkeys(pair.anchor for pair in block))
        points = dict(zip(anchors, _anchor_vectors(anchors, vectors, encode), strict=True))
        candidates = _propose(points, view, vectors, lexical, index, depth)
        positives = known_answers(block)
        for pair in block:
            excluded = positives[pair.anchor].union((answers or {}).get(pair.anchor, ()))
            cosine = float(sampler.vector(pair.positive) @ points[pair.anchor])
            negatives = sampler.sample(pair, cosine, candidates[pair.anchor], excluded)
            report.pairs += 1
            report.short += len(negatives) < options.number
            report.left_out += not negatives
            report.kept.update(negative.proposer for negative in negatives)
            if negatives:
                yield Triplet(pair, tuple(sorted(negatives, key=lambda one: (-one.score, one.row))))


def _blocks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Consecutive pairs; those of one anchor stay together."""
    block: list[Pair] = []
    for _, same_anchor in itertools.groupby(pairs, key=lambda pair: pair.anchor):
        block += same_anchor
        if len(block) >= _BLOCK:
            yield block
            block = []
    if block:
        yield block


def _check(block: Sequence[Pair], view: TrainingView, encode: Encode | None) -> None:
    def outside(rows: Iterable[int], mask: Mask) -> set[int]:
        return {row for row in rows if not (0 <= row < len(mask) and mask[row])}

    foreign = outside((pair.anchor for pair in block if isinstance(pair.anchor, int)), view.allowed)
    foreign |= outside((pair.positive for pair in block), view.allowed | view.answers)
    if foreign:
        raise LeakageError(f"rows {sorted(foreign)[:5]} of the pairs belong to another part of the split")
    if encode is None and any(isinstance(pair.anchor, str) for pair in block):
        raise InputError("some anchors are texts: negatives for them need an encoder")


def _anchor_vectors(anchors: Sequence[int | str], vectors: Matrix, encode: Encode | None) -> Floats:
    """The vectors of anchors (n, dim)."""
    points = np.empty((len(anchors), vectors.shape[1]), np.float32)
    is_text = np.array([isinstance(anchor, str) for anchor in anchors])
    points[~is_text] = vectors[[anchor for anchor in anchors if isinstance(anchor, int)]]
    if encode is not None and is_text.any():
        points[is_text] = encode([anchor for anchor in anchors if isinstance(anchor, str)])
    return points


def _propose(
    points: Mapping[int | str, Floats],
    view: TrainingView,
    vectors: Matrix,
    lexical: TextIndex | None,
    nearest: Index,
    depth: int,
) -> dict[int | str, _Candidates]:
    """The candidates of each anchor; those found by words are ranked by the vectors."""
    allowed = None if view.allowed.all() else view.allowed
    dense, cosines = nearest.search(np.stack(list(points.values())), depth, allowed)
    by_words = np.full((len(points), 0), -1, np.int64)
    if lexical:
        texts = iter(view.texts(anchor for anchor in points if isinstance(anchor, int)))
        queries = [anchor if isinstance(anchor, str) else next(texts) for anchor in points]
        by_words, _ = lexical.search(queries, depth, allowed)
    proposed: dict[int | str, _Candidates] = {}
    for place, (anchor, point) in enumerate(points.items()):
        matches = by_words[place][by_words[place] >= 0]
        products = vectors[matches].astype(np.float32, copy=False) @ point
        order = np.lexsort((matches, -products))
        close = dense[place] >= 0
        sizes = len(matches), int(close.sum())
        proposed[anchor] = _Candidates(
            np.concatenate((matches[order], dense[place][close])),
            np.concatenate((products[order], cosines[place][close])),
            np.concatenate([np.arange(1, size + 1) for size in sizes]),
            np.repeat((0, 1), sizes),
        )
    return proposed


# ---------------------------------------------------------------- what cannot be a negative


class _NegativeSampler:
    """Takes the first candidates that no rule drops, with what the rules need to know about the whole part."""

    def __init__(self, view: TrainingView, vectors: Matrix, options: NegativeOptions, report: NegativeReport) -> None:
        self.view = view
        self.vectors = vectors
        self.options = options
        self.report = report
        self._marked = np.zeros(len(view.allowed), dtype=bool)
        self._documents = _documents(view)
        self._places, self._rows_of_place = _places(view)
        self._categories = _categories(view)
        self._node_of = np.full(len(view.allowed), -1, np.int64)
        inside = np.flatnonzero(view.node_rows >= 0)
        self._node_of[view.node_rows[inside]] = inside
        edges = edges_of(view.graph, RELATIONS)
        self._edges = both_ways(view.graph.sources()[edges], view.graph.indices[edges], len(view.graph.nodes))
        self._topics, self._rows_of_topic = _topics(view)
        self._linked = lru_cache(_CACHED_NEIGHBOURS)(self._neighbours)
        self._runs = lru_cache(_CACHED_TEXTS)(self._read_runs)

    def vector(self, row: int) -> Floats:
        return np.asarray(self.vectors[row], np.float32)

    def sample(
        self, pair: Pair, cosine: float, candidates: _Candidates, answers: Collection[int]
    ) -> list[Negative]:  # fmt: skip
        """Negatives from the proposers alternately; `cosine` is the positive's."""
        rows = candidates.rows
        ends = [pair.positive] if isinstance(pair.anchor, str) else [pair.positive, pair.anchor]
        alive = self.view.allowed[rows]
        most = cosine - (1 - RATIO) * abs(cosine)
        for rule, masked in (
            ("itself", self._among(rows, [np.array(ends)])),
            ("answer", self._among(rows, [np.fromiter(answers, np.int64, len(answers))])),
            ("document", self._same_document(rows, ends)),
            ("category", (self._categories[rows] & self._categories[pair.positive]) == 0),
            ("linked", self._among(rows, [self._linked(end) for end in ends])),
            # share a rare concept, or define what the other defines
            ("concept", self._among(rows, [self._rows_of_topic.of(self._topics.of(np.array(ends, np.int64)))])),
            ("margin", candidates.cosines > most),
        ):
            self.report.dropped[rule] += int(np.count_nonzero(alive & masked))
            alive &= ~masked
        return self._first(pair.positive, cosine, candidates, np.flatnonzero(alive))

    def _first(self, positive: int, cosine: float, candidates: _Candidates, places: Integers) -> list[Negative]:
        """The first candidates that do not say the same as the positive; no more texts are read than needed."""
        number = self.options.number
        turns = np.concatenate([np.arange(np.count_nonzero(candidates.proposers[places] == n)) for n in (0, 1)])
        places = places[np.argsort(turns, kind="stable")]
        negatives: list[Negative] = []
        seen: set[int] = set()
        for start in range(0, len(places), 2 * number):
            block = places[start : start + 2 * number]
            rows = candidates.rows[block]
            to_positive = self.vectors[rows].astype(np.float32, copy=False) @ self.vector(positive)
            for place, row, similarity in zip(block.tolist(), rows.tolist(), to_positive.tolist(), strict=True):
                if row in seen:
                    continue  # proposed by both
                seen.add(row)
                if similarity >= SAME_COSINE or self._same_words(row, positive):
                    self.report.dropped["duplicate"] += 1
                    continue
                score = float(candidates.cosines[place])
                reason = f"rank {candidates.ranks[place]}, cosine {score:.3f}, {cosine - score:.3f} below the positive"
                negatives.append(Negative(row, PROPOSERS[int(candidates.proposers[place])], reason, score))
                if len(negatives) == number:
                    return negatives
        return negatives

    def _among(self, rows: Integers, groups: Iterable[Integers]) -> Mask:
        """Which rows are in one of the groups."""
        members = np.concatenate(list(groups))
        self._marked[members] = True
        among = self._marked[rows]
        self._marked[members] = False
        return among

    def _same_document(self, rows: Integers, ends: Sequence[int]) -> Mask:
        if not self.options.other_document:
            return np.zeros(len(rows), dtype=bool)
        same_place = self._rows_of_place.of(self._places.of(np.array(ends, np.int64)))
        same = (self._documents[rows, None] == self._documents[ends]).any(axis=1)
        return np.asarray(same | self._among(rows, [same_place]))

    def _neighbours(self, row: int) -> Integers:
        """Rows within the hops, over edges in either direction; wide nodes are reached, but not walked through."""
        node = int(self._node_of[row])
        if node < 0:
            return np.empty(0, np.int64)
        reached = frontier = np.array([node], np.int64)
        is_wide = self._edges.sizes(frontier)[0] > WIDEST_NODE
        for _ in range(1 if is_wide else HOPS):
            frontier = np.setdiff1d(self._edges.of(frontier), reached)
            reached = np.concatenate((reached, frontier))
            frontier = frontier[self._edges.sizes(frontier) <= WIDEST_NODE]
        rows = self.view.node_rows[reached]
        return rows[rows >= 0]

    def _same_words(self, row: int, positive: int) -> bool:
        one, other = self._runs(row), self._runs(positive)
        shared = len(one & other)
        return shared >= SAME_WORDS * (len(one) + len(other) - shared)

    def _read_runs(self, row: int) -> frozenset[int]:
        words = _WORD.findall(self.view.texts([row])[0].lower())
        if len(words) < 4:
            return frozenset([hash(tuple(words))])
        return frozenset(map(hash, zip(words, words[1:], words[2:], words[3:], strict=False)))


def _documents(view: TrainingView) -> Integers:
    """The document of each row, as a number; a log's is the thread of its follow-ups, not the table that it is in.

    All logs of a plant may be rows of one table, which says nothing about any two of them.
    """
    numbers = view.document_numbers.copy()
    if not any(document.kind == "table" for document in view.documents.values()):
        return numbers
    _, first = np.unique(numbers[view.rows], return_index=True)
    tables = [
        numbers[row]
        for row, passage in view.read(view.rows[first].tolist())
        if view.documents[passage.document].kind == "table"
    ]
    graph = view.graph
    related = edges_of(graph, ("related_to",))
    thread = components(len(graph.nodes), graph.sources()[related], graph.indices[related])
    beyond = int(numbers.max(initial=0)) + 1
    own = beyond + len(graph.nodes) + np.arange(len(numbers))  # of a log that the graph does not know
    nodes = np.flatnonzero(view.node_rows >= 0)
    own[view.node_rows[nodes]] = beyond + thread[nodes]
    is_log = np.isin(numbers, tables)
    numbers[is_log] = own[is_log]
    return numbers


def _places(view: TrainingView) -> tuple[Adjacency, Adjacency]:
    """Locations of each row, and rows of each location; those with many logs tie nothing together."""
    graph = view.graph
    rows = view.node_rows[graph.sources()]
    about = edges_of(graph, ("reports_about",)) & (rows >= 0)
    logs = np.bincount(graph.indices[about], minlength=len(graph.nodes))
    about &= (logs <= WIDEST_NODE)[graph.indices]
    places, members = graph.indices[about], rows[about]
    return adjacency(members, places, len(view.allowed)), adjacency(places, members, len(graph.nodes))


def _topics(view: TrainingView) -> tuple[Adjacency, Adjacency]:
    """Topics of each row, and rows of each topic: rare concepts that a row mentions, and all that it defines.

    Concepts that are `equivalent_to` each other are one.
    """
    graph = view.graph
    count = len(graph.nodes)
    rows = view.node_rows[graph.sources()]
    equivalent = edges_of(graph, ("equivalent_to",))
    concept = components(count, graph.sources()[equivalent], graph.indices[equivalent])[graph.indices]
    to_concept = (rows >= 0) & (view.node_rows[graph.indices] < 0)
    mentioned = to_concept & edges_of(graph, ("mentions", "defines"))
    defined = to_concept & edges_of(graph, ("defines",))
    mentions = adjacency(concept[mentioned], rows[mentioned], count)
    rare = mentioned & (np.diff(mentions.starts) <= RARE_CONCEPT)[concept]
    topics = np.concatenate((concept[rare], concept[defined] + count))  # a concept as mentioned, and as defined
    members = np.concatenate((rows[rare], rows[defined]))
    return adjacency(members, topics, len(view.allowed)), adjacency(topics, members, 2 * count)


def _categories(view: TrainingView) -> npt.NDArray[np.uint64]:
    """For each row the top-level categories of its document, one bit each; rare ones, and none, share a bit.

    A negative shares a category with the positive: one from another field is too easy.
    """
    numbers = view.document_numbers
    bits = np.ones(int(numbers.max(initial=0)) + 1, np.uint64)
    if not any(document.categories for document in view.documents.values()):
        return np.asarray(bits[numbers])
    sizes = np.bincount(numbers[view.rows])
    _, first = np.unique(numbers[view.rows], return_index=True)
    names: dict[int, set[str]] = {}  # by number of a document
    for row, passage in view.read(view.rows[first].tolist()):
        every = view.documents[passage.document].categories
        names[numbers[row]] = {".".join(re.split(r"[.:]", name)[:CATEGORY_PARTS]) for name in every}
    counts: Counter[str] = Counter()
    for number, categories in names.items():
        counts.update(dict.fromkeys(categories, int(sizes[number])))
    frequent = sorted((-count, name) for name, count in counts.items() if count >= RARE_CATEGORY)
    bit = {name: 1 << n for n, (_, name) in enumerate(frequent[:_MOST_CATEGORIES], 1)}
    for number, categories in names.items():
        bits[number] = sum({bit.get(name, 1) for name in categories} or {1})
    return np.asarray(bits[numbers])
