"""Leakage between training and test data: texts that are equal, near-duplicates, or neighbours in the graph.

Knows texts, ids and neighbours, not where they come from. The caller decides what follows from an offence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.types import Integers, Mask

Hashes = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
SIMILARITY = 0.7  # Jaccard similarity of word shingles from which on two texts are near-duplicates
SAME_WORDS = 0.8  # Jaccard similarity of words from which on two short texts say the same


class Example(NamedTuple):
    """One query with its passages, for training or for test."""

    id: str
    anchor: str  # text
    passages: tuple[str, ...]  # ids


def examples(queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]]) -> list[Example]:
    """Every judged query with the passages that answer it."""
    return [
        Example(query, queries.get(query, ""), tuple(passage for passage, grade in grades.items() if grade > 0))
        for query, grades in qrels.items()
    ]


class Offence(NamedTuple):
    """One way in which a test example is known from training."""

    kind: str  # same_anchor, near_anchor, same_passage, near_passage, neighbour
    test: str  # id of the test example
    what: str  # the passage or anchor
    train: str  # id of the training example


@dataclass(slots=True)
class Audit:
    """What an audit looked for, and what it found: all offences are counted, the first thousand are kept."""

    MOST: ClassVar = 1000
    looked_for: list[str] = field(
        default_factory=lambda: ["same anchor", "near anchor", "same passage", "near passage"]
    )
    offences: list[Offence] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    answers: int = 0  # records whose positive is outside training, as the split allows
    sets: list[str] = field(default_factory=list)  # names of what was audited, where it has names

    def add(self, kind: str, test: str, what: str, train: str) -> None:
        self.counts[kind] += 1
        if len(self.offences) < self.MOST:
            self.offences.append(Offence(kind, test, what[:200], train))

    @property
    def clean(self) -> bool:
        return not self.offences

    def sentence(self) -> str:
        """The result in one sentence."""
        if self.clean:
            sentence = "no leakage found (checked: " + ", ".join(self.looked_for) + ")"
            answers = f"; held-out passages occur as answers ({self.answers} records), as the split allows"
            return sentence + answers if self.answers else sentence
        counts = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in self.counts.items())
        first = self.offences[0]
        return f"test data is known from training: {counts}; for example {first.test!r} ({first.what!r})"


# ---------------------------------------------------------------- texts as shingles and band keys

_PERMUTATIONS = 64
_BANDS = 16
_WIDTH = 4  # words of a shingle
_BATCH = 1 << 20  # bytes of text hashed at once: intermediate arrays stay in the cache
_WORD = re.compile(r"\w+|[^\w\s]")
_HALF = np.uint64(32)


class Sketches(NamedTuple):
    """What is needed to find near-duplicates among texts; the texts themselves are not stored."""

    shingles: npt.NDArray[np.uint32]  # hashes of runs of words, sorted within a text
    starts: Integers  # (n + 1,) where the shingles of each text begin
    keys: Hashes  # (n, bands) near-duplicates probably share one
    set_hashes: Hashes  # (n,) equal for equal sets of shingles

    def __len__(self) -> int:
        return len(self.keys)

    def sizes(self) -> Integers:
        return np.diff(self.starts)


def normalise(text: str) -> str:
    """A text in lower case with one space between words and signs."""
    return " ".join(_WORD.findall(text.lower()))


def _mix(values: Hashes) -> Hashes:
    values = (values ^ (values >> _HALF)) * np.uint64(0xD6E8FEB86659FD93)
    return np.asarray((values ^ (values >> _HALF)) * np.uint64(0xD6E8FEB86659FD93))


def _odd_constants(seed: int, count: int) -> Hashes:
    """Odd, so that multiplication by them is invertible modulo 2^64."""
    return np.random.default_rng(seed).integers(0, 1 << 64, count, dtype=np.uint64) | np.uint64(1)


_BYTE_VALUES = _odd_constants(1, 256)
_PLACE_VALUES = _odd_constants(2, _WIDTH)
_BASE = 0x9E3779B97F4A7C15
_SPACE, _LETTER, _SIGN = 0, 1, 2
_CLASS = np.full(256, _SIGN, np.uint8)
_CLASS[:33] = _CLASS[127] = _SPACE
_CLASS[128:] = _CLASS[[n for n in range(128) if chr(n).isalnum() or chr(n) == "_"]] = _LETTER


def _batches(texts: Iterable[str]) -> Iterator[tuple[Bytes, Integers]]:
    """Bytes of several texts, a space after each, and where each text ends."""
    pieces: list[bytes] = []
    size = 0
    for text in texts:
        lower = text.lower()
        # in other scripts a word ends where _WORD says, not where a byte is below 128
        piece = (lower if lower.isascii() else " ".join(_WORD.findall(lower))).encode("utf-8", "replace") + b" "
        pieces.append(piece)
        size += len(piece)
        if size >= _BATCH:
            yield np.frombuffer(b"".join(pieces), np.uint8), np.cumsum([len(piece) for piece in pieces])
            pieces, size = [], 0
    if pieces:
        yield np.frombuffer(b"".join(pieces), np.uint8), np.cumsum([len(piece) for piece in pieces])


def _hash_words(data: Bytes, ends: Integers) -> tuple[Hashes, Integers]:
    """A hash of each word and sign, and the number of its text.

    The hash of a word is the sum over its bytes of value(byte) · base^place modulo 2^64: a difference of
    running sums, divided by the power of the place where the word begins.
    """
    kind = _CLASS[data]
    before = np.concatenate(([_SPACE], kind[:-1]))
    first = np.flatnonzero((kind == _SIGN) | ((kind == _LETTER) & (before != _LETTER)))
    last = first + 1
    last[kind[first] == _LETTER] = np.flatnonzero((before == _LETTER) & (kind != _LETTER))  # a space ends every text
    powers = np.full(len(data) + 1, _BASE, np.uint64)
    inverse = np.full(len(data) + 1, pow(_BASE, -1, 1 << 64), np.uint64)
    powers[0] = inverse[0] = 1
    np.cumprod(powers, out=powers)
    np.cumprod(inverse, out=inverse)
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum(_BYTE_VALUES[data] * powers[:-1], out=sums[1:])
    return _mix((sums[last] - sums[first]) * inverse[first]), np.searchsorted(ends, first, side="right")


def _hash_shingles(data: Bytes, ends: Integers) -> Hashes:
    """Text number · 2^32 + hash of each run of words, ascending and distinct; a short text is one run."""
    words, text = _hash_words(data, ends)
    count = np.bincount(text, minlength=len(ends))
    begin = np.concatenate(([0], np.cumsum(count)[:-1]))
    short = np.flatnonzero(count < _WIDTH)
    short_runs = np.zeros(len(short), np.uint64)
    for place in range(_WIDTH - 1):
        reaches = count[short] > place
        short_runs[reaches] += words[begin[short[reaches]] + place] * _PLACE_VALUES[place]
    number = max(0, len(words) - _WIDTH + 1)
    inside = text[:number] == text[_WIDTH - 1 :][:number]
    runs = np.zeros(number, np.uint64)
    for place in range(_WIDTH):
        runs += words[place : place + number] * _PLACE_VALUES[place]
    hashes = _mix(np.concatenate((runs[inside], short_runs))) >> _HALF
    texts = np.concatenate((text[:number][inside], short)).astype(np.uint64)
    return _sorted_distinct((texts << _HALF) | hashes)


def _sorted_distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """As `np.unique`, in a tenth of its time."""
    values = np.sort(values)
    return np.asarray(values[np.concatenate((values[:1] == values[:1], values[1:] != values[:-1]))])


def sketch(texts: Iterable[str]) -> Sketches:
    """Sketches of texts, which are read once; about 8 bytes for each word."""
    a, b = _odd_constants(3, _PERMUTATIONS), _odd_constants(4, _PERMUTATIONS)
    rows = _PERMUTATIONS // _BANDS
    weights = _odd_constants(5, rows)
    shingles: list[npt.NDArray[np.uint32]] = [np.zeros(0, np.uint32)]
    lengths: list[Integers] = [np.zeros(1, np.int64)]
    keys: list[Hashes] = [np.zeros((0, _BANDS), np.uint64)]
    set_hashes: list[Hashes] = [np.zeros(0, np.uint64)]
    for data, ends in _batches(texts):
        numbered = _hash_shingles(data, ends)
        hashes = numbered & np.uint64(0xFFFFFFFF)
        length = np.bincount((numbered >> _HALF).astype(np.int64), minlength=len(ends))
        starts = np.concatenate(([0], np.cumsum(length)[:-1]))
        signature = np.empty((len(ends), _PERMUTATIONS), np.uint64)
        for number in range(_PERMUTATIONS):
            # multiply-shift: the upper half of a · x + b modulo 2^64, with odd a
            signature[:, number] = np.minimum.reduceat((hashes * a[number] + b[number]) >> _HALF, starts)
        shingles.append(hashes.astype(np.uint32))
        lengths.append(length)
        keys.append(_mix((signature.reshape(len(ends), _BANDS, rows) * weights).sum(axis=2)))
        set_hashes.append(np.add.reduceat(_mix(hashes), starts))
    starts = np.cumsum(np.concatenate(lengths))
    return Sketches(np.concatenate(shingles), starts, np.concatenate(keys), np.concatenate(set_hashes))


def select(sketches: Sketches, texts: Integers) -> Sketches:
    """The sketches of some texts, in the given order."""
    sizes = sketches.sizes()[texts]
    shingles = sketches.shingles[ranges(sketches.starts[texts], sizes)]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    return Sketches(shingles, starts, sketches.keys[texts], sketches.set_hashes[texts])


def distinct(sketches: Sketches) -> tuple[Integers, Integers]:
    """The first text of each set of shingles, and for each text the position of its set among these."""
    _, first, position = np.unique(sketches.set_hashes, return_index=True, return_inverse=True)
    return first.astype(np.int64), position.astype(np.int64)


def ranges(begin: Integers, count: Integers) -> Integers:
    """begin, begin + 1, … for each count, concatenated."""
    shift = np.repeat(begin - (np.cumsum(count) - count), count)
    return np.asarray(np.arange(len(shift)) + shift)


# ---------------------------------------------------------------- near-duplicates

_CANDIDATES = 1 << 20  # looked up at once
_COMPARED = 1 << 22  # shingles compared at once


class _Buckets(NamedTuple):
    """For each band, the candidates of each text as a range of the others in the order of their keys."""

    orders: Integers  # (bands, n others)
    low: Integers  # (bands, n)
    counts: Integers  # (bands, n)

    def candidates(self, band: int, texts: Integers, skip: int, most: int) -> Integers:
        """Pairs (m, 2) of some texts with their candidates in one band, from the `skip`th on."""
        count = np.clip(self.counts[band, texts] - skip, 0, most)
        others = self.orders[band, ranges(self.low[band, texts] + skip, count)]
        return np.column_stack((np.repeat(texts, count), others))


def _buckets(texts: Sketches, others: Sketches) -> _Buckets:
    orders = np.empty((_BANDS, len(others)), np.int64)
    low, high = np.empty((2, _BANDS, len(texts)), np.int64)
    for band in range(_BANDS):
        keys = np.ascontiguousarray(others.keys[:, band])
        orders[band] = np.argsort(keys, kind="stable")
        keys = keys[orders[band]]
        lookups = np.ascontiguousarray(texts.keys[:, band])
        ascending = np.argsort(lookups)  # each search then begins near the last one
        low[band, ascending] = np.searchsorted(keys, lookups[ascending], side="left")
        high[band, ascending] = np.searchsorted(keys, lookups[ascending], side="right")
    return _Buckets(orders, low, high - low)


def near_pairs(
    texts: Sketches, others: Sketches, *, similarity: float = SIMILARITY, most: int = 1 << 62
) -> Iterator[Integers]:
    """Blocks (m, 2) of near-duplicates: text and other text, ascending by text.

    MinHash with banding proposes candidates, which are compared exactly. At a similarity of 0.7 about one pair
    in a hundred is missed, at 0.8 one in five thousand. The time grows with the number of pairs; `most` bounds
    the candidates of a text in each band.
    """
    buckets = _buckets(texts, others)
    for block in _blocks(np.arange(len(texts)), np.minimum(buckets.counts, most).sum(axis=0), _CANDIDATES):
        candidates = np.concatenate([buckets.candidates(band, block, 0, most) for band in range(_BANDS)])
        keys = _sorted_distinct(candidates[:, 0] * max(1, len(others)) + candidates[:, 1])
        pairs = np.column_stack(np.divmod(keys, max(1, len(others))))
        yield pairs[_similar(texts, others, pairs, similarity)]


def near_duplicate_of(texts: Sketches, others: Sketches, *, similarity: float = SIMILARITY) -> Integers:
    """For each text one of its near-duplicates among the others, else -1.

    Much faster than `near_pairs` where there are many. Of a text's candidates in a band, about the first
    4,700 are looked at.
    """
    match = np.full(len(texts), -1, np.int64)
    buckets = _buckets(texts, others)
    for band in range(_BANDS):
        skip, size = 0, 8  # most matches are among the first candidates
        open_texts = np.flatnonzero((match < 0) & (buckets.counts[band] > 0))
        while len(open_texts) and skip < 4096:
            for block in _blocks(open_texts, np.minimum(buckets.counts[band, open_texts] - skip, size), _CANDIDATES):
                pairs = buckets.candidates(band, block, skip, size)
                pairs = pairs[_similar(texts, others, pairs, similarity)]
                match[pairs[:, 0]] = pairs[:, 1]
            skip, size = skip + size, size * 8
            open_texts = open_texts[(match[open_texts] < 0) & (buckets.counts[band, open_texts] > skip)]
    return match


def repeats(texts: Sequence[str], others: Sequence[str]) -> Mask:
    """Which short texts (n,) equal one of the others, or nearly: by runs of words, or by the words in any order.

    One changed word of ten destroys four of seven runs, so texts of this length are near-duplicates too where the
    Jaccard similarity of their words is at least SAME_WORDS.
    """
    if not len(texts) or not len(others):
        return np.zeros(len(texts), bool)
    repeated = near_duplicate_of(sketch(texts), sketch(others)) >= 0
    words = [set(normalise(text).split()) for text in texts]
    sizes = np.array([len(text) for text in words], np.int64)
    asked = [set(normalise(other).split()) for other in others]
    holding: dict[str, list[int]] = {word: [] for other in asked for word in other}
    for number, text in enumerate(words):
        for word in text & holding.keys():
            holding[word].append(number)
    postings = {word: np.array(numbers, np.int64) for word, numbers in holding.items()}
    for other in asked:
        shared = np.bincount(np.concatenate([postings[word] for word in other]), minlength=len(texts)) if other else 0
        repeated |= shared >= SAME_WORDS * np.maximum(sizes + len(other) - shared, 1)
    return repeated


def _blocks(items: Integers, sizes: Integers, capacity: int) -> Iterator[Integers]:
    """Consecutive items whose sizes sum up to at most the capacity; a larger item comes alone."""
    total = np.cumsum(sizes)
    start = 0
    while start < len(items):
        before = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, before + capacity, side="right")))
        yield items[start:stop]
        start = stop


def _similar(texts: Sketches, others: Sketches, pairs: Integers, similarity: float) -> Mask:
    """Which pairs have a Jaccard similarity of at least `similarity`."""
    first, second = pairs[:, 0], pairs[:, 1]
    sizes, other_sizes = texts.sizes()[first], others.sizes()[second]
    similar = texts.set_hashes[first] == others.set_hashes[second]
    # sets of very different size cannot be similar, whatever they hold
    comparable = np.minimum(sizes, other_sizes) >= similarity * np.maximum(sizes, other_sizes)
    undecided = np.flatnonzero(~similar & comparable)
    for block in _blocks(undecided, (sizes + other_sizes)[undecided], _COMPARED):
        numbered = []
        for sketches, rows, size in ((texts, first[block], sizes[block]), (others, second[block], other_sizes[block])):
            hashes = sketches.shingles[ranges(sketches.starts[rows], size)].astype(np.uint64)
            numbered.append((np.repeat(np.arange(len(block), dtype=np.uint64), size) << _HALF) | hashes)
        both = np.sort(np.concatenate(numbered))
        twice = both[1:][both[1:] == both[:-1]] >> _HALF
        shared = np.bincount(twice.astype(np.int64), minlength=len(block))
        similar[block] = shared >= similarity * (sizes[block] + other_sizes[block] - shared)
    return np.asarray(similar)


def near_duplicates(train: Iterable[str], test: Iterable[str]) -> list[tuple[int, int]]:
    """Pairs (test, train) of texts that are equal or near-duplicates; see `near_pairs`."""
    return [(int(one), int(other)) for block in near_pairs(sketch(test), sketch(train)) for one, other in block]


# ---------------------------------------------------------------- the audit


def audit(
    train: Sequence[Example],
    test: Sequence[Example],
    *,
    text: Callable[[str], str],
    neighbours: Callable[[str], Iterable[str]] | None = None,
) -> Audit:
    """Everything by which test examples could be known from training.

    `text` gives the text of a passage by id. With `neighbours`, a test passage next to a training passage is
    an offence as well.
    """
    result = Audit()
    anchors = {normalise(example.anchor): example.id for example in train}
    fresh = []
    for example in test:
        if (same := anchors.get(normalise(example.anchor))) is not None:
            result.add("same_anchor", example.id, example.anchor, same)
        else:
            fresh.append(example)
    for number, other in near_duplicates([e.anchor for e in train], [e.anchor for e in fresh]):
        result.add("near_anchor", fresh[number].id, fresh[number].anchor, train[other].id)

    trained = {passage: example.id for example in train for passage in example.passages}
    tested = {passage: example.id for example in test for passage in example.passages}
    for passage in tested:
        if passage in trained:
            result.add("same_passage", tested[passage], passage, trained[passage])
    train_ids = list(trained)
    test_ids = [passage for passage in tested if passage not in trained]
    for number, other in near_duplicates(map(text, train_ids), map(text, test_ids)):
        result.add("near_passage", tested[test_ids[number]], test_ids[number], trained[train_ids[other]])
    if neighbours is not None:
        result.looked_for.append("neighbour")
        for passage in test_ids:
            neighbour = next((other for other in neighbours(passage) if other in trained), None)
            if neighbour is not None:
                result.add("neighbour", tested[passage], passage, trained[neighbour])
    return result
