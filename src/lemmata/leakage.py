"""Leakage between training and test data: what is the same, nearly the same, or too close in the graph.

Knows texts, ids and neighbours, not where they come from; who finds offenders decides what follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "Audit",
    "Example",
    "Offence",
    "Sketches",
    "audit",
    "chosen",
    "distinct",
    "examples",
    "find_twins",
    "near_duplicates",
    "near_pairs",
    "normal",
    "sketch",
]


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

    kind: str  # same_anchor, near_anchor, same_passage, near_passage, same_document, neighbour
    test: str  # id of the test example
    what: str  # the passage or anchor
    train: str  # id of the training example


@dataclass(frozen=True, slots=True)
class Audit:
    """What was looked for and what was found."""

    offences: tuple[Offence, ...] = ()
    looked_for: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        return not self.offences

    def sentence(self) -> str:
        """The finding in one sentence."""
        if self.clean:
            return "no leakage found (" + ", ".join(self.looked_for) + ")"
        found = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in self.counts.items())
        first = self.offences[0]
        return f"test data is known from training: {found}; for example {first.test!r} ({first.what!r})"


# ---------------------------------------------------------------- texts as shingles and keys

_PERMUTATIONS = 64
_BANDS = 16
_WIDTH = 4  # words of a shingle
_BATCH = 1 << 20  # bytes of text hashed at a time: what is computed from them stays in the cache
_WORD = re.compile(r"\w+|[^\w\s]")
_HALF = np.uint64(32)


class Sketches(NamedTuple):
    """Texts as what is needed to find those alike; the texts themselves are not kept."""

    shingles: npt.NDArray[np.uint32]  # hashes of runs of words, sorted within a text
    starts: npt.NDArray[np.int64]  # (n + 1,) where each text's shingles begin
    keys: npt.NDArray[np.uint64]  # (n, bands); texts alike probably share one
    numbers: npt.NDArray[np.uint64]  # (n,) equal for equal sets of shingles

    def __len__(self) -> int:
        return len(self.keys)


def normal(text: str) -> str:
    """A text without what makes no difference: case and the space between words."""
    return " ".join(_WORD.findall(text.lower()))


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = (values ^ (values >> _HALF)) * np.uint64(0xD6E8FEB86659FD93)
    return np.asarray((values ^ (values >> _HALF)) * np.uint64(0xD6E8FEB86659FD93))


def _constants(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """Odd numbers, so that multiplying by them can be undone."""
    return np.random.default_rng(seed).integers(0, 1 << 64, count, dtype=np.uint64) | np.uint64(1)


_BYTES = _constants(1, 256)
_PLACES = _constants(2, _WIDTH)
_BASE = 0x9E3779B97F4A7C15
_SPACE, _LETTER, _SIGN = 0, 1, 2
_CLASS = np.full(256, _SIGN, np.uint8)
_CLASS[:33] = _CLASS[127] = _SPACE
_CLASS[128:] = _CLASS[[n for n in range(128) if chr(n).isalnum() or chr(n) == "_"]] = _LETTER


def _batches(texts: Iterable[str]) -> Iterator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
    """Bytes of some texts, a space behind each, and where each ends."""
    pieces: list[bytes] = []
    size = 0
    for text in texts:
        lower = text.lower()
        # a word of other letters must end where the rule above says, not where a byte is below 128
        piece = (lower if lower.isascii() else " ".join(_WORD.findall(lower))).encode("utf-8", "replace") + b" "
        pieces.append(piece)
        size += len(piece)
        if size >= _BATCH:
            yield np.frombuffer(b"".join(pieces), np.uint8), np.cumsum([len(piece) for piece in pieces])
            pieces, size = [], 0
    if pieces:
        yield np.frombuffer(b"".join(pieces), np.uint8), np.cumsum([len(piece) for piece in pieces])


def _words(
    data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """A hash of each word and sign, and the number of its text.

    A word's hash is the sum over its bytes of value(byte) · base^place modulo 2^64: a difference of running
    sums, divided by the power of the place where the word begins.
    """
    kind = _CLASS[data]
    before = np.concatenate(([_SPACE], kind[:-1]))
    first = np.flatnonzero((kind == _SIGN) | ((kind == _LETTER) & (before != _LETTER)))
    breaks = np.flatnonzero((before == _LETTER) & (kind != _LETTER))
    last = first + 1
    is_word = kind[first] == _LETTER
    last[is_word] = breaks  # every word ends before a space or sign: a space stands behind every text
    powers = np.full(len(data) + 1, _BASE, np.uint64)
    inverse = np.full(len(data) + 1, pow(_BASE, -1, 1 << 64), np.uint64)
    powers[0] = inverse[0] = 1
    np.cumprod(powers, out=powers)
    np.cumprod(inverse, out=inverse)
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum(_BYTES[data] * powers[:-1], out=sums[1:])
    hashes = _mixed((sums[last] - sums[first]) * inverse[first])
    return hashes, np.searchsorted(ends, first, side="right")


def _shingles(data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Text number · 2^32 + hash of each run of words, ascending, each once; a short text is one run."""
    words, text = _words(data, ends)
    count = np.bincount(text, minlength=len(ends))
    begin = np.concatenate(([0], np.cumsum(count)[:-1]))
    short = np.flatnonzero(count < _WIDTH)
    whole = np.zeros(len(short), np.uint64)
    for place in range(_WIDTH - 1):
        there = count[short] > place
        whole[there] += words[begin[short[there]] + place] * _PLACES[place]
    runs = max(0, len(words) - _WIDTH + 1)
    inside = text[:runs] == text[_WIDTH - 1 :][:runs]
    many = np.zeros(runs, np.uint64)
    for place in range(_WIDTH):
        many += words[place : place + runs] * _PLACES[place]
    hashes = _mixed(np.concatenate((many[inside], whole))) >> _HALF
    texts = np.concatenate((text[:runs][inside], short)).astype(np.uint64)
    return _once((texts << _HALF) | hashes)


def _once(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Ascending, each once; `np.unique` takes ten times as long."""
    values = np.sort(values)
    return np.asarray(values[np.concatenate((values[:1] == values[:1], values[1:] != values[:-1]))])


def sketch(texts: Iterable[str]) -> Sketches:
    """What `near_pairs` compares, read once; about 8 bytes for each word of the texts."""
    a, b = _constants(3, _PERMUTATIONS), _constants(4, _PERMUTATIONS)
    rows = _PERMUTATIONS // _BANDS
    weights = _constants(5, rows)
    shingles: list[npt.NDArray[np.uint32]] = [np.zeros(0, np.uint32)]
    lengths: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    keys: list[npt.NDArray[np.uint64]] = [np.zeros((0, _BANDS), np.uint64)]
    numbers: list[npt.NDArray[np.uint64]] = [np.zeros(0, np.uint64)]
    for data, ends in _batches(texts):
        found = _shingles(data, ends)
        hashes = found & np.uint64(0xFFFFFFFF)
        length = np.bincount((found >> _HALF).astype(np.int64), minlength=len(ends))
        starts = np.concatenate(([0], np.cumsum(length)[:-1]))
        signature = np.empty((len(ends), _PERMUTATIONS), np.uint64)
        for number in range(_PERMUTATIONS):
            # multiply-shift: the upper half of a · x + b modulo 2^64, with odd a
            signature[:, number] = np.minimum.reduceat((hashes * a[number] + b[number]) >> _HALF, starts)
        shingles.append(hashes.astype(np.uint32))
        lengths.append(length)
        keys.append(_mixed((signature.reshape(len(ends), _BANDS, rows) * weights).sum(axis=2)))
        numbers.append(np.add.reduceat(_mixed(hashes), starts))
    starts = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
    return Sketches(np.concatenate(shingles), starts, np.concatenate(keys), np.concatenate(numbers))


# ---------------------------------------------------------------- near duplicates

_CANDIDATES = 1 << 20  # looked up at a time
_COMPARED = 1 << 22  # shingles compared at a time


class _Buckets(NamedTuple):
    """For each band, where in the order of the others the candidates of each text stand."""

    orders: npt.NDArray[np.int64]  # (bands, n others)
    low: npt.NDArray[np.int64]  # (bands, n)
    many: npt.NDArray[np.int64]  # (bands, n)

    def candidates(self, band: int, texts: npt.NDArray[np.int64], skip: int, most: int) -> npt.NDArray[np.int64]:
        """Pairs (m, 2) of some texts with their candidates of one band, from the `skip`th on."""
        times = np.clip(self.many[band, texts] - skip, 0, most)
        others = self.orders[band, _ranges(self.low[band, texts] + skip, times)]
        return np.column_stack((np.repeat(texts, times), others))


def _buckets(one: Sketches, other: Sketches) -> _Buckets:
    orders = np.empty((_BANDS, len(other)), np.int64)
    low = np.empty((_BANDS, len(one)), np.int64)
    count = np.empty((_BANDS, len(one)), np.int64)
    for band in range(_BANDS):
        keys = np.ascontiguousarray(other.keys[:, band])
        orders[band] = np.argsort(keys, kind="stable")
        keys = keys[orders[band]]
        wanted = np.ascontiguousarray(one.keys[:, band])
        sought = np.argsort(wanted)  # in order, each search begins near the last
        low[band, sought] = np.searchsorted(keys, wanted[sought], side="left")
        count[band, sought] = np.searchsorted(keys, wanted[sought], side="right")
    return _Buckets(orders, low, count - low)


def near_pairs(
    one: Sketches, other: Sketches, *, similarity: float = 0.7, most: int = 1 << 62
) -> Iterator[npt.NDArray[np.int64]]:
    """Blocks (m, 2) of pairs whose word shingles have a Jaccard similarity of at least `similarity`.

    Ascending by the first. MinHash with banding finds candidates, which are then compared exactly. At 0.7,
    about one pair in a hundred is missed, at 0.8 one in five thousand. The time grows with the number of
    pairs; with `most`, only so many candidates of a text and band are looked at.
    """
    buckets = _buckets(one, other)
    for texts in _blocks(np.arange(len(one)), np.minimum(buckets.many, most).sum(axis=0), _CANDIDATES):
        found = np.concatenate([buckets.candidates(band, texts, 0, most) for band in range(_BANDS)])
        keys = _once(found[:, 0] * max(1, len(other)) + found[:, 1])
        pairs = np.column_stack(np.divmod(keys, max(1, len(other))))
        yield pairs[_alike(one, other, pairs, similarity)]


def find_twins(one: Sketches, other: Sketches, *, similarity: float = 0.7, most: int = 4096) -> npt.NDArray[np.int64]:
    """For each text of `one` some text of `other` that is alike, as `near_pairs` says; -1 where there is none.

    Much faster than all pairs where many are alike. Of more than `most` candidates of a text in a band, the
    rest are not looked at.
    """
    twin = np.full(len(one), -1, np.int64)
    buckets = _buckets(one, other)
    for band in range(_BANDS):
        skip, size = 0, 8  # who has a twin has it mostly among the first candidates
        texts = np.flatnonzero((twin < 0) & (buckets.many[band] > 0))
        while len(texts) and skip < most:
            for part in _blocks(texts, np.minimum(buckets.many[band, texts] - skip, size), _CANDIDATES):
                pairs = buckets.candidates(band, part, skip, size)
                pairs = pairs[_alike(one, other, pairs, similarity)]
                twin[pairs[:, 0]] = pairs[:, 1]
            skip, size = skip + size, size * 8
            texts = texts[(twin[texts] < 0) & (buckets.many[band, texts] > skip)]
    return twin


def _blocks(items: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], room: int) -> Iterator[npt.NDArray[np.int64]]:
    """Consecutive items whose sizes together stay within the room; one that is larger comes alone."""
    many = np.cumsum(sizes)
    start = 0
    while start < len(items):
        told = many[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(many, told + room, side="right")))
        yield items[start:stop]
        start = stop


def _ranges(begin: npt.NDArray[np.int64], count: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """begin, begin + 1, … for each count, one behind the other."""
    total = int(count.sum())
    shift = np.repeat(begin - (np.cumsum(count) - count), count)
    return np.asarray(np.arange(total) + shift)


def _alike(one: Sketches, other: Sketches, pairs: npt.NDArray[np.int64], similarity: float) -> npt.NDArray[np.bool_]:
    first, second = pairs[:, 0], pairs[:, 1]
    sizes = one.starts[first + 1] - one.starts[first], other.starts[second + 1] - other.starts[second]
    result = one.numbers[first] == other.numbers[second]
    # sets of very different size can not be alike, whatever they hold
    open_ = np.flatnonzero(~result & (np.minimum(*sizes) >= similarity * np.maximum(*sizes)))
    for part in _blocks(open_, (sizes[0] + sizes[1])[open_], _COMPARED):
        held = []
        for sketches, texts, size in ((one, first[part], sizes[0][part]), (other, second[part], sizes[1][part])):
            hashes = sketches.shingles[_ranges(sketches.starts[texts], size)].astype(np.uint64)
            held.append((np.repeat(np.arange(len(part), dtype=np.uint64), size) << _HALF) | hashes)
        both = np.sort(np.concatenate(held))
        twice = both[1:][both[1:] == both[:-1]] >> _HALF
        shared = np.bincount(twice.astype(np.int64), minlength=len(part))
        result[part] = shared >= similarity * (sizes[0][part] + sizes[1][part] - shared)
    return np.asarray(result)


def near_duplicates(train: Iterable[str], test: Iterable[str], *, similarity: float = 0.7) -> list[tuple[int, int]]:
    """Pairs (test, train) of texts that are alike; see `near_pairs`."""
    found: list[tuple[int, int]] = []
    for block in near_pairs(sketch(test), sketch(train), similarity=similarity):
        found += (tuple(pair) for pair in block.tolist())
    return found


def chosen(sketches: Sketches, texts: npt.NDArray[np.int64]) -> Sketches:
    """The sketches of some texts, in the order asked for."""
    size = (sketches.starts[1:] - sketches.starts[:-1])[texts]
    starts = np.concatenate(([0], np.cumsum(size)))
    shingles = sketches.shingles[_ranges(sketches.starts[texts], size)]
    return Sketches(shingles, starts, sketches.keys[texts], sketches.numbers[texts])


def distinct(sketches: Sketches) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first of all texts with the same shingles, and for each text the place of its own among these."""
    _, first, place = np.unique(sketches.numbers, return_index=True, return_inverse=True)
    return first.astype(np.int64), place.astype(np.int64)


# ---------------------------------------------------------------- the audit


def audit(
    train: Sequence[Example],
    test: Sequence[Example],
    *,
    text: Callable[[str], str],
    document: Callable[[str], str] | None = None,
    neighbours: Callable[[str], Iterable[str]] | None = None,
    similarity: float = 0.7,
    most: int = 1000,
) -> Audit:
    """Everything by which test examples could be known from training.

    `text` gives a passage's text by id. With `document`, passages of one document on both sides are an
    offence; with `neighbours`, test passages next to training passages are.
    """
    offences: list[Offence] = []
    counts: dict[str, int] = {}

    def report(kind: str, test_id: str, what: str, train_id: str) -> None:
        counts[kind] = counts.get(kind, 0) + 1
        if len(offences) < most:
            offences.append(Offence(kind, test_id, what[:200], train_id))

    anchors = {normal(example.anchor): example.id for example in train}
    for example in test:
        if (same := anchors.get(normal(example.anchor))) is not None:
            report("same_anchor", example.id, example.anchor, same)
    fresh = [example for example in test if normal(example.anchor) not in anchors]
    for number, other in near_duplicates([e.anchor for e in train], [e.anchor for e in fresh], similarity=similarity):
        report("near_anchor", fresh[number].id, fresh[number].anchor, train[other].id)

    owners = {passage: example.id for example in train for passage in example.passages}
    tested = {passage: example.id for example in test for passage in example.passages}
    for passage in tested:
        if passage in owners:
            report("same_passage", tested[passage], passage, owners[passage])
    apart = [passage for passage in tested if passage not in owners]
    known = list(owners)
    for number, other in near_duplicates([text(p) for p in known], [text(p) for p in apart], similarity=similarity):
        report("near_passage", tested[apart[number]], apart[number], owners[known[other]])
    looked_for = ["same anchor", "near anchor", "same passage", "near passage"]
    if document is not None:
        looked_for.append("same document")
        trained = {document(passage): passage for passage in owners}
        for passage in apart:
            if (twin := trained.get(document(passage))) is not None:
                report("same_document", tested[passage], passage, owners[twin])
    if neighbours is not None:
        looked_for.append("neighbour")
        for passage in apart:
            for other_passage in neighbours(passage):
                if other_passage in owners:
                    report("neighbour", tested[passage], passage, owners[other_passage])
                    break
    return Audit(tuple(offences), tuple(looked_for), counts)
