"""Hard negatives for pairs: passages that look like an answer to the anchor and are none.

Words (BM25) and vectors propose, the vectors rank, and a guard drops what may be an answer after all: what the
graph or a rare concept ties to the positive or the anchor, and what says nearly the same as the positive.
Pairs are read in blocks, so nothing here ever is as large as anchors times passages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from lemmata.errors import InputError, LeakageError
from lemmata.index.exact import ExactIndex, Matrix
from lemmata.mine.material import Material
from lemmata.types import Document, Floats, Graph, Index, Integers, Mask, Negative, Pair, Triplet

__all__ = ["NegativeOptions", "NegativeReport", "TextIndex", "known_answers", "mine_negatives"]

Encode = Callable[[Sequence[str]], Floats]
Score = Callable[[list[tuple[str, str]]], Sequence[float]]
Answers = Mapping[int | str, Collection[int]]

_PROPOSERS = ("lexical", "dense")
_BLOCK = 1024  # pairs that are worked on together; their candidates take a few megabytes
_TEXTS = 1 << 15  # passages whose words are remembered
_REACHES = 1 << 12  # passages whose neighbours are remembered
_WORD = re.compile(r"\w+|[^\w\s]")
_CATEGORY_MARK = re.compile(r"[.:]")
_MOST_CATEGORIES = 62  # what fits beside the pool into the bits of an integer


class TextIndex(Protocol):
    """What finds passages by words, as `lemmata.index.lexical.LexicalIndex` does."""

    def search(self, queries: Sequence[str], k: int, allowed: Mask | None = None) -> tuple[Integers, Floats]: ...


@dataclass(frozen=True, slots=True)
class NegativeOptions:
    """Where negatives come from, how close they may be, and what can not be one."""

    SMALLEST: ClassVar = {
        "number": 1, "least": 0, "depth": 1, "skip": 0, "category_parts": 1, "hops": 0, "through": 0, "rare_concept": 0,
    }  # fmt: skip
    number: int = 4  # negatives for a pair
    least: int = 1  # a pair with fewer of them is left out
    depth: int = 300  # candidates of each proposer
    skip: int = 0  # the nearest of them that are passed over
    margin: float = 0.0  # cosine by which a negative stays below the positive
    ratio: float = 0.95  # of the positive's cosine, the most that a negative may have
    other_document: bool = True  # than those of the positive and of the anchor
    same_category: bool = True  # as the document of the positive, where documents have any
    category_parts: int = 2  # that make it top-level: math.CO has two
    rare_category: int = 100  # a category with fewer passages is one with all such
    hops: int = 2  # of the graph, around the positive and the anchor; 0: the graph is not asked
    relations: str = "refers_to,proof_uses,cites,related_to,equivalent_to,next"
    through: int = 30  # neighbours of a node that is still walked through: what all refer to ties nothing together
    rare_concept: int = 20  # passages that speak of a concept which makes them kin; 0: no concept does
    near_cosine: float = 0.95  # to the positive: from here on it says the same
    near_words: float = 0.7  # Jaccard similarity to the positive, of runs of four words: likewise
    positive_score: float = 5.0  # of the cross-encoder: a pair below is left out
    score_gap: float = 3.0  # of the cross-encoder, between the positive and a negative


@dataclass(slots=True)
class NegativeReport:
    """What became of pairs and candidates; each candidate is counted once, under the first rule that met it."""

    pairs: int = 0
    left_out: int = 0  # pairs with fewer negatives than the least, or that the cross-encoder doubts
    short: int = 0  # pairs with fewer negatives than asked for
    kept: Counter[str] = field(default_factory=Counter)  # by proposer
    dropped: Counter[str] = field(default_factory=Counter)  # by rule


class _Candidates(NamedTuple):
    """What was proposed for one anchor: of each proposer the nearest first, one proposer after the other."""

    rows: Integers
    cosines: Floats
    ranks: Integers  # from 1
    proposers: Integers  # place in _PROPOSERS


class _Choice(NamedTuple):
    row: int
    cosine: float
    rank: int
    proposer: str


def known_answers(pairs: Iterable[Pair], material: Material | None = None) -> dict[int | str, set[int]]:
    """All positives of each anchor; with `material`, an anchor that is the name or the description of a concept is
    answered by every passage that speaks of it."""
    answers: dict[int | str, set[int]] = {}
    for pair in pairs:
        answers.setdefault(pair.anchor, set()).add(pair.positive)
    if material is None or not material.concepts:
        return answers
    asked = {
        text: concept.id
        for concept in material.concepts.values()
        for text in (concept.name, *concept.aliases, concept.description)
        if text in answers
    }
    spoken = _speaking(material, set(asked.values()))
    for text, concept in asked.items():
        answers[text].update(spoken.get(concept, ()))
    return answers


def _speaking(material: Material, concepts: set[str]) -> dict[str, set[int]]:
    """For each of these concepts the rows that mention or define it."""
    graph = material.graph
    kinds = [number for number, name in enumerate(graph.relations) if name in ("mentions", "defines")]
    rows = material.node_rows[graph.sources()]
    edges = np.flatnonzero(np.isin(graph.relation, kinds) & (rows >= 0))
    found: dict[str, set[int]] = {}
    for row, target in zip(rows[edges].tolist(), graph.indices[edges].tolist(), strict=True):
        if (concept := graph.nodes[target]) in concepts:
            found.setdefault(concept, set()).add(row)
    return found


def mine_negatives(
    pairs: Iterable[Pair],
    material: Material,
    *,
    vectors: Matrix,
    lexical: TextIndex | None = None,
    nearest: Index | None = None,
    encode: Encode | None = None,
    answers: Answers | None = None,
    score: Score | None = None,
    options: NegativeOptions | None = None,
    report: NegativeReport | None = None,
) -> Iterator[Triplet]:
    """Each pair with up to `number` negatives, in the order of the pairs; lazily, a block at a time.

    `vectors` (rows of the corpus, dim) are unit vectors of the model that is trained: they rank. An anchor that
    is a row has its vector there; `encode` gives those of anchors that are texts. `lexical` and `nearest`
    propose; without `nearest` all rows are compared, without `lexical` only vectors propose. Survivors are
    taken from the proposers in turn. Where pairs of one anchor do not follow each other, `answers` tells its
    other positives (see `known_answers`). `score` is a cross-encoder over (anchor, passage) texts. `report` is
    added to. A row of another part of the split raises LeakageError.
    """
    chosen = options or NegativeOptions()
    told = report if report is not None else NegativeReport()
    vectors = vectors.view(np.ndarray)  # still mapped, but sliced without the cost of numpy's memmap class
    index = nearest if nearest is not None else ExactIndex(vectors)
    guard = _Guard(material, vectors, chosen)
    for block in _blocks(pairs):
        _check(block, material, encode)
        anchors = list(dict.fromkeys(pair.anchor for pair in block))
        texts = _texts(anchors, material)
        points = _points(anchors, vectors, encode)
        candidates = _propose(anchors, texts, points, material, vectors, lexical, index, chosen)
        own = known_answers(block)
        point_of = dict(zip(anchors, points, strict=True))
        found: list[tuple[Pair, float, list[_Choice]]] = []
        for pair in block:
            known = own[pair.anchor].union((answers or {}).get(pair.anchor, ()))
            cosine = float(guard.vector(pair.positive) @ point_of[pair.anchor])
            wanted = chosen.number * (2 if score else 1)  # a second choice for those that the cross-encoder refuses
            kept = guard.choose(pair, cosine, candidates[pair.anchor], known, wanted, told)
            found.append((pair, cosine, kept))
        reasons = _vetoed(found, dict(zip(anchors, texts, strict=True)), material, score, chosen, told)
        for (pair, cosine, kept), reason in zip(found, reasons, strict=True):
            told.pairs += 1
            taken = [(choice, more) for choice, more in zip(kept, reason, strict=True) if more is not None]
            taken = sorted(taken[: chosen.number], key=lambda one: (-one[0].cosine, one[0].row))
            told.short += len(taken) < chosen.number
            if len(taken) < chosen.least or (score and not taken):
                told.left_out += 1
                continue
            told.kept.update(choice.proposer for choice, _ in taken)
            yield Triplet(pair, tuple(_negative(choice, cosine, more) for choice, more in taken))


def _blocks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Consecutive pairs; those of one anchor stay together."""
    block: list[Pair] = []
    for pair in pairs:
        if len(block) >= _BLOCK and pair.anchor != block[-1].anchor:
            yield block
            block = []
        block.append(pair)
    if block:
        yield block


def _check(block: Sequence[Pair], material: Material, encode: Encode | None) -> None:
    rows = {pair.positive for pair in block} | {pair.anchor for pair in block if isinstance(pair.anchor, int)}
    foreign = sorted(row for row in rows if not (0 <= row < len(material.allowed) and material.allowed[row]))
    if foreign:
        raise LeakageError(f"rows {foreign[:5]} of the pairs belong to another part of the split")
    if encode is None and any(isinstance(pair.anchor, str) for pair in block):
        raise InputError("some anchors are texts: negatives for them need an encoder")


def _texts(anchors: Sequence[int | str], material: Material) -> list[str]:
    rows = [anchor for anchor in anchors if isinstance(anchor, int)]
    known = dict(zip(rows, material.texts(rows), strict=True))
    return [known[anchor] if isinstance(anchor, int) else anchor for anchor in anchors]


def _points(anchors: Sequence[int | str], vectors: Matrix, encode: Encode | None) -> Floats:
    """The vectors of anchors (n, dim)."""
    points = np.empty((len(anchors), vectors.shape[1]), np.float32)
    stored = [place for place, anchor in enumerate(anchors) if isinstance(anchor, int)]
    points[stored] = vectors[[anchor for anchor in anchors if isinstance(anchor, int)]]
    written = [place for place, anchor in enumerate(anchors) if isinstance(anchor, str)]
    if written and encode is not None:
        points[written] = encode([anchor for anchor in anchors if isinstance(anchor, str)])
    return points


def _propose(
    anchors: Sequence[int | str],
    texts: Sequence[str],
    points: Floats,
    material: Material,
    vectors: Matrix,
    lexical: TextIndex | None,
    nearest: Index,
    options: NegativeOptions,
) -> dict[int | str, _Candidates]:
    """The candidates of each anchor, those of the words ranked again by the vectors."""
    allowed = None if material.allowed.all() else material.allowed
    dense, cosines = nearest.search(points, options.depth, allowed)
    worded = lexical.search(texts, options.depth, allowed)[0] if lexical else np.full((len(anchors), 0), -1, np.int64)
    proposed: dict[int | str, _Candidates] = {}
    for place, anchor in enumerate(anchors):
        named = worded[place][worded[place] >= 0]
        products = vectors[named].astype(np.float32, copy=False) @ points[place]
        order = np.lexsort((named, -products))
        close = dense[place] >= 0
        parts = [(named[order], products[order]), (dense[place][close], cosines[place][close])]
        proposed[anchor] = _Candidates(
            np.concatenate([rows for rows, _ in parts]),
            np.concatenate([values for _, values in parts]),
            np.concatenate([np.arange(1, len(rows) + 1) for rows, _ in parts]),
            np.repeat(np.arange(len(parts)), [len(rows) for rows, _ in parts]),
        )
    return proposed


def _negative(choice: _Choice, positive: float, more: str) -> Negative:
    reason = f"rank {choice.rank}, cosine {choice.cosine:.3f}, {positive - choice.cosine:.3f} below the positive{more}"
    return Negative(choice.row, choice.proposer, reason, choice.cosine)


def _vetoed(
    found: Sequence[tuple[Pair, float, Sequence[_Choice]]],
    text_of: Mapping[int | str, str],
    material: Material,
    score: Score | None,
    options: NegativeOptions,
    report: NegativeReport,
) -> list[list[str | None]]:
    """For each choice what the cross-encoder adds to its reason, or None where it refuses it."""
    if score is None:
        return [["" for _ in kept] for _, _, kept in found]
    rows = sorted({row for pair, _, kept in found for row in (pair.positive, *(choice.row for choice in kept))})
    passages = dict(zip(rows, material.texts(rows), strict=True))
    asked = [
        (text_of[pair.anchor], passages[row])
        for pair, _, kept in found
        for row in (pair.positive, *(choice.row for choice in kept))
    ]
    scores = iter(score(asked))
    verdicts: list[list[str | None]] = []
    for _, _, kept in found:
        positive = next(scores)
        verdict: list[str | None] = []
        for _ in kept:
            own = next(scores)
            fine = positive >= options.positive_score and positive - own >= options.score_gap
            verdict.append(f", cross-encoder {own:.2f} against {positive:.2f}" if fine else None)
        report.dropped["veto"] += verdict.count(None)
        verdicts.append(verdict)
    return verdicts


# ---------------------------------------------------------------- what can not be a negative


class _Guard:
    """The rules by which candidates are dropped, with what they need to know of the whole part."""

    def __init__(self, material: Material, vectors: Matrix, options: NegativeOptions) -> None:
        self.material = material
        self.vectors = vectors
        self.options = options
        self._marked = np.zeros(len(material.allowed), dtype=bool)
        self._documents = material.document_numbers
        self._categories = _categories(material, options)
        self._node_of = np.full(len(material.allowed), -1, np.int64)
        inside = np.flatnonzero(material.node_rows >= 0)
        self._node_of[material.node_rows[inside]] = inside
        self._edges = _both_ways(material.graph, options.relations.split(",") if options.hops else ())
        self._topics, self._speakers = _kinships(material, options.rare_concept)
        # remembered, because a positive comes with many anchors and a candidate with many pairs
        self._linked = lru_cache(_REACHES)(self._reach)
        self._runs = lru_cache(_TEXTS)(self._read_runs)

    def vector(self, row: int) -> Floats:
        return np.asarray(self.vectors[row], np.float32)

    def choose(
        self,
        pair: Pair,
        cosine: float,
        candidates: _Candidates,
        known: Collection[int],
        wanted: int,
        report: NegativeReport,
    ) -> list[_Choice]:
        """The first candidates that no rule drops, from the proposers in turn; `cosine` is the positive's."""
        rows = candidates.rows
        ends = [pair.positive] if isinstance(pair.anchor, str) else [pair.positive, pair.anchor]
        alive = self.material.allowed[rows]
        most = min(cosine - self.options.margin, cosine - (1 - self.options.ratio) * abs(cosine))
        for rule, hit in (
            ("itself", self._among(rows, [np.array(ends)])),
            ("answer", self._among(rows, [np.fromiter(known, np.int64, len(known))])),
            ("document", self._same_document(rows, ends)),
            ("category", (self._categories[rows] & self._categories[pair.positive]) == 0),
            ("linked", self._among(rows, [self._linked(end) for end in ends])),
            ("concept", self._among(rows, [self._kin(end) for end in ends])),
            ("rank", candidates.ranks <= self.options.skip),
            ("margin", candidates.cosines > most),
        ):
            met = alive & hit
            report.dropped[rule] += int(np.count_nonzero(met))
            alive &= ~hit
        return self._first(pair.positive, candidates, np.flatnonzero(alive), wanted, report)

    def _first(
        self, positive: int, candidates: _Candidates, places: Integers, wanted: int, report: NegativeReport
    ) -> list[_Choice]:
        """The first places that do not say the same as the positive; only as many texts are read as it takes."""
        turns = np.concatenate([np.arange(np.count_nonzero(candidates.proposers[places] == n)) for n in (0, 1)])
        places = places[np.argsort(turns, kind="stable")]
        choices: list[_Choice] = []
        taken: set[int] = set()
        for start in range(0, len(places), 2 * wanted):
            some = places[start : start + 2 * wanted]
            rows = candidates.rows[some]
            close = self.vectors[rows].astype(np.float32, copy=False) @ self.vector(positive)
            for place, row, likeness in zip(some.tolist(), rows.tolist(), close.tolist(), strict=True):
                if row in taken:
                    continue  # both proposed it
                taken.add(row)
                if likeness >= self.options.near_cosine or self._same_words(row, positive):
                    report.dropped["duplicate"] += 1
                    continue
                proposer = _PROPOSERS[int(candidates.proposers[place])]
                choices.append(_Choice(row, float(candidates.cosines[place]), int(candidates.ranks[place]), proposer))
                if len(choices) == wanted:
                    return choices
        return choices

    def _among(self, rows: Integers, groups: Iterable[Integers]) -> Mask:
        """Which rows are in one of the groups."""
        told = np.concatenate(list(groups))
        self._marked[told] = True
        hit = self._marked[rows]
        self._marked[told] = False
        return hit

    def _same_document(self, rows: Integers, ends: Sequence[int]) -> Mask:
        if not self.options.other_document:
            return np.zeros(len(rows), dtype=bool)
        return np.asarray((self._documents[rows, None] == self._documents[ends]).any(axis=1))

    def _reach(self, row: int) -> Integers:
        """Rows within the hops, over edges in either direction; of a node with too many neighbours only those."""
        node = int(self._node_of[row])
        if node < 0:
            return np.empty(0, np.int64)
        found = frontier = np.array([node], np.int64)
        narrow = self._edges.sizes(frontier)[0] <= self.options.through
        for _ in range(self.options.hops if narrow else min(1, self.options.hops)):
            frontier = np.setdiff1d(self._edges.of(frontier), found)
            found = np.concatenate((found, frontier))
            frontier = frontier[self._edges.sizes(frontier) <= self.options.through]
        rows = self.material.node_rows[found]
        return rows[rows >= 0]

    def _kin(self, row: int) -> Integers:
        """Rows that share a rare concept with this one, or define what it defines."""
        return self._speakers.of(self._topics.of(np.array([row], np.int64)))

    def _same_words(self, row: int, positive: int) -> bool:
        one, other = self._runs(row), self._runs(positive)
        shared = len(one & other)
        return shared >= self.options.near_words * (len(one) + len(other) - shared)

    def _read_runs(self, row: int) -> frozenset[int]:
        words = _WORD.findall(self.material.texts([row])[0].lower())
        if len(words) < 4:
            return frozenset([hash(tuple(words))])
        return frozenset(map(hash, zip(words, words[1:], words[2:], words[3:], strict=False)))


class _Lists(NamedTuple):
    """Members of numbered lists: those of list i are `members[starts[i] : starts[i + 1]]`."""

    starts: Integers  # (lists + 1,)
    members: Integers

    def sizes(self, numbers: Integers) -> Integers:
        return np.asarray(self.starts[numbers + 1] - self.starts[numbers])

    def of(self, numbers: Integers) -> Integers:
        """The members of some lists, one list after the other."""
        sizes = self.sizes(numbers)
        shift = np.repeat(self.starts[numbers] - (np.cumsum(sizes) - sizes), sizes)
        return self.members[shift + np.arange(len(shift))]


def _lists(numbers: Integers, members: Integers, count: int) -> _Lists:
    """`count` lists without doubles, from pairs of a list's number and a member."""
    pairs = np.unique(np.stack((numbers, members)), axis=1)
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(pairs[0], minlength=count), out=starts[1:])
    return _Lists(starts, pairs[1])


def _over(graph: Graph, relations: Iterable[str]) -> Mask:
    """Which edges are of these relations."""
    wanted = {name.strip() for name in relations}
    return np.isin(graph.relation, [number for number, name in enumerate(graph.relations) if name in wanted])


def _both_ways(graph: Graph, relations: Iterable[str]) -> _Lists:
    """The neighbours of each node over some relations, whichever way the edge points."""
    chosen = _over(graph, relations)
    sources, targets = graph.sources()[chosen], graph.indices[chosen]
    return _lists(np.concatenate((sources, targets)), np.concatenate((targets, sources)), len(graph.nodes))


def _kinships(material: Material, rare: int) -> tuple[_Lists, _Lists]:
    """Topics of each row, and rows of each topic: concepts that at most `rare` passages speak of, and what is
    defined, however many speak of it. Concepts that are `equivalent_to` each other are one."""
    graph = material.graph
    count = len(graph.nodes)
    sources = graph.sources()
    rows = material.node_rows[sources]
    one = _merged(graph)[graph.indices]
    told = (rows >= 0) & (material.node_rows[graph.indices] < 0)
    spoken = told & _over(graph, ("mentions", "defines"))
    speakers = _lists(one[spoken], rows[spoken], count)
    defined = told & _over(graph, ("defines",))
    few = speakers.sizes(np.arange(count, dtype=np.int64)) <= rare
    kept = spoken & few[one]
    if not rare:
        kept, defined = np.zeros_like(kept), np.zeros_like(defined)
    topics = np.concatenate((one[kept], one[defined] + count))  # a concept as spoken of, and as defined
    members = np.concatenate((rows[kept], rows[defined]))
    return _lists(members, topics, len(material.allowed)), _lists(topics, members, 2 * count)


def _merged(graph: Graph) -> Integers:
    """For each node the smallest one that is equivalent to it, over however many steps."""
    chosen = _over(graph, ("equivalent_to",))
    sources, targets = graph.sources()[chosen], graph.indices[chosen]
    one = np.arange(len(graph.nodes), dtype=np.int64)
    while True:
        before = one.copy()
        np.minimum.at(one, sources, before[targets])
        np.minimum.at(one, targets, before[sources])
        if np.array_equal(one, before):
            return one


def _categories(material: Material, options: NegativeOptions) -> npt.NDArray[np.uint64]:
    """For each row the top-level categories of its document, one bit each; rare ones, and none, share a bit."""
    numbers = material.document_numbers
    if not options.same_category or not any(document.categories for document in material.documents.values()):
        return np.ones(len(numbers), np.uint64)
    sizes = np.bincount(numbers[material.rows])
    places, first = np.unique(numbers[material.rows], return_index=True)
    names: list[list[str]] = [[] for _ in sizes]
    for start in range(0, len(first), _BLOCK):
        some = material.passages(material.rows[first[start : start + _BLOCK]].tolist())
        for place, passage in zip(places[start : start + _BLOCK].tolist(), some, strict=True):
            names[place] = _top_level(material.documents[passage.document], options.category_parts)
    counts: Counter[str] = Counter()
    for own, size in zip(names, sizes.tolist(), strict=True):
        counts.update(dict.fromkeys(own, size))
    frequent = sorted((-count, name) for name, count in counts.items() if count >= options.rare_category)
    bit = {name: 1 << n for n, (_, name) in enumerate(frequent[:_MOST_CATEGORIES], 1)}
    bits = np.zeros(int(numbers.max()) + 1, np.uint64)
    for place, own in enumerate(names):
        for name in own or [""]:
            bits[place] |= np.uint64(bit.get(name, 1))
    return np.asarray(bits[numbers])


def _top_level(document: Document, parts: int) -> list[str]:
    return sorted({".".join(_CATEGORY_MARK.split(name)[:parts]) for name in document.categories})
