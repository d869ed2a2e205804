"""Leakage between training and test data: what is the same, nearly the same, or too close in the graph.

Knows texts, ids and neighbours, not where they come from; who finds offenders decides what follows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Audit", "Example", "Offence", "audit", "near_duplicates"]


class Example(NamedTuple):
    """One query with its passages, for training or for test."""

    id: str
    anchor: str  # text
    passages: tuple[str, ...]  # ids


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


# ---------------------------------------------------------------- near duplicates

_PERMUTATIONS = 64
_BANDS = 16
_WORD = re.compile(r"\w+|[^\w\s]")


def _normal(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))


def _shingles(text: str, width: int = 4) -> npt.NDArray[np.uint64]:
    """Hashes of the runs of `width` words; of the whole text where it is shorter."""
    words = _WORD.findall(text.lower())
    runs = {" ".join(words[n : n + width]) for n in range(max(1, len(words) - width + 1))}
    digests = [hashlib.blake2b(run.encode(), digest_size=4).digest() for run in runs]
    return np.unique(np.frombuffer(b"".join(digests), dtype=np.uint32)).astype(np.uint64)


def _signature(
    shingles: npt.NDArray[np.uint64], a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    # multiply-shift: the upper half of a · x + b modulo 2^64, with odd a
    mixed = (a[:, None] * shingles[None, :] + b[:, None]) >> np.uint64(32)
    return np.asarray(mixed.min(axis=1), dtype=np.uint64)


def near_duplicates(
    train: Sequence[str], test: Sequence[str], *, similarity: float = 0.7, seed: int = 0
) -> list[tuple[int, int]]:
    """Pairs (test, train) of texts whose word shingles have a Jaccard similarity of at least `similarity`.

    MinHash with banding finds candidates, which are then compared exactly. At 0.7, about one pair in a
    hundred is missed, at 0.8 one in ten thousand.
    """
    generator = np.random.default_rng(seed)
    a, b = generator.integers(0, 1 << 64, (2, _PERMUTATIONS), dtype=np.uint64)
    a |= np.uint64(1)
    rows = _PERMUTATIONS // _BANDS
    buckets: dict[tuple[int, bytes], list[int]] = {}
    for number, text in enumerate(test):
        signature = _signature(_shingles(text), a, b)
        for band in range(_BANDS):
            buckets.setdefault((band, signature[band * rows : (band + 1) * rows].tobytes()), []).append(number)
    found: list[tuple[int, int]] = []
    for other, text in enumerate(train):
        shingles = _shingles(text)
        signature = _signature(shingles, a, b)
        candidates: set[int] = set()
        for band in range(_BANDS):
            candidates.update(buckets.get((band, signature[band * rows : (band + 1) * rows].tobytes()), ()))
        for number in sorted(candidates):
            mine = _shingles(test[number])
            shared = len(np.intersect1d(mine, shingles, assume_unique=True))
            if shared >= similarity * (len(mine) + len(shingles) - shared):
                found.append((number, other))
    return found


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

    anchors = {_normal(example.anchor): example.id for example in train}
    for example in test:
        if (same := anchors.get(_normal(example.anchor))) is not None:
            report("same_anchor", example.id, example.anchor, same)
    fresh = [example for example in test if _normal(example.anchor) not in anchors]
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
