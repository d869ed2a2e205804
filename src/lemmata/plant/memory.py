"""What known links teach about words: which go with which class, and which logs are alike.

One's own link can be left out of every count, so that a log never confirms itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
import numpy.typing as npt

from lemmata.types import Integers

__all__ = [
    "Association",
    "Neighbours",
    "Turned",
    "all_associations",
    "associate",
    "associations",
    "index_neighbours",
    "nearest",
    "turn",
]

Doubles = npt.NDArray[np.float64]

LONGEST_POSTINGS = 5000  # logs that share a word; of a more frequent word only the latest are read
SMOOTHING = 4.0  # pseudo-counts of the general share of a word


@dataclass(frozen=True, slots=True)
class Association:
    """How often words and classes stood together."""

    together: Mapping[Hashable, Counter[Hashable]]  # class: word: count
    classes: Counter[Hashable]
    words: Counter[Hashable]
    total: int


def associate(known: Iterable[tuple[Collection[Hashable], Collection[Hashable]]]) -> Association:
    """From the words of each log and the classes it is known to have; both without doubles."""
    together: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)
    classes: Counter[Hashable] = Counter()
    words: Counter[Hashable] = Counter()
    total = 0
    for said, meant in known:
        total += 1
        words.update(said)
        classes.update(meant)
        for one in meant:
            together[one].update(said)
    return Association(dict(together), classes, words, total)


def associations(
    known: Association,
    said: Collection[Hashable],
    classes: Iterable[Hashable],
    *,
    counted: bool,
    members: Collection[Hashable],
) -> dict[Hashable, float]:
    """For each class the sum over words of log P(word | class) / P(word), over the root of their number.

    0 for a new class. `counted` says that this very text is among the counts, `members` are the classes it
    counts for. Both are left out again: else a word that stands nowhere else would speak against every
    class but the known one.
    """
    familiar = {word for word in said if known.words[word] > counted}
    everywhere = known.total - counted
    scores: dict[Hashable, float] = {}
    for one in classes:
        own = one in members
        count = known.classes[one] - own
        if count <= 0 or not familiar:
            scores[one] = 0.0
            continue
        beside = known.together[one]
        shared = familiar & beside.keys()
        total = (len(familiar) - len(shared)) * log(SMOOTHING / (count + SMOOTHING))
        for word in sorted(shared, key=str):  # sums must not depend on the hash seed
            share = (known.words[word] - counted) / everywhere
            total += log((beside[word] - own + SMOOTHING * share) / (count + SMOOTHING) / share)
        scores[one] = total / sqrt(len(said))
    return scores


@dataclass(frozen=True, slots=True)
class Turned:
    """An association ordered by word, so that one text is compared with all classes at once."""

    known: Association
    columns: Mapping[Hashable, int]  # of each class; one more, the last, stands for every new class
    floor: Doubles  # (classes,): what each word adds that never stood beside the class
    words: Mapping[Hashable, int]
    starts: Sequence[int]  # (words + 1,)
    beside: Integers  # (pairs,): columns of the classes that a word stood beside
    gains: tuple[Doubles, Doubles]  # (pairs,): what the word adds to the floor; the same for a text that is counted


def turn(known: Association) -> Turned:
    columns = {one: column for column, one in enumerate(known.classes)}
    words = {word: number for number, word in enumerate(known.words)}
    size = sum(map(len, known.together.values()))
    pairs = (
        (words[word], columns[one], count) for one, counts in known.together.items() for word, count in counts.items()
    )
    said, beside, count = np.fromiter(pairs, np.dtype((np.int64, 3)), size).T
    order = np.argsort(said, kind="stable")
    said, beside, count = said[order], beside[order], count[order]
    often = np.fromiter(known.words.values(), np.float64, len(words))

    def gains(counted: int) -> Doubles:
        # a word of the counted text only is never asked for, but must not divide by zero
        share = np.maximum(often - counted, 1) / max(known.total - counted, 1)
        return np.asarray(np.log1p(count / (SMOOTHING * share[said])), np.float64)

    members = np.fromiter(known.classes.values(), np.float64, len(columns))
    return Turned(
        known=known,
        columns=columns,
        floor=np.log(SMOOTHING / (members + SMOOTHING)),
        words=words,
        starts=np.searchsorted(said, np.arange(len(words) + 1)).tolist(),
        beside=beside.copy(),
        gains=(gains(0), gains(1)),
    )


def all_associations(turned: Turned, said: Collection[str], *, counted: bool, members: Collection[Hashable]) -> Doubles:
    """What `associations` says of every class: (classes + 1,), with 0 for the new class at the end."""
    known = turned.known
    scores = np.zeros(len(turned.columns) + 1)
    familiar = sorted(word for word in said if known.words.get(word, 0) > counted)  # as sums depend on the order
    if not familiar:
        return scores
    starts, gains = turned.starts, turned.gains[counted]
    spans = [slice(starts[number], starts[number + 1]) for number in map(turned.words.__getitem__, familiar)]
    beside = np.concatenate([turned.beside[span] for span in spans])
    gained = np.bincount(beside, np.concatenate([gains[span] for span in spans]), len(turned.columns))
    scores[:-1] = (gained + len(familiar) * turned.floor) / sqrt(len(said))
    own = [one for one in members if one in turned.columns]
    for one, score in associations(known, said, own, counted=counted, members=members).items():
        scores[turned.columns[one]] = score
    return scores


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Known logs as an inverted index with tf-idf weights of unit length, times the rarity in the text asked for."""

    rarity: Mapping[str, float]
    postings: Mapping[str, tuple[Integers, np.ndarray]]  # word: rows, weights
    size: int


def index_neighbours(texts: Sequence[Collection[str]]) -> Neighbours:
    """From the words of each known log; its place is its row."""
    count = Counter(word for words in texts for word in words)
    rarity = {word: log(1 + len(texts) / number) for word, number in count.items()}
    postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row, words in enumerate(texts):
        length = sqrt(sum(rarity[word] ** 2 for word in sorted(words))) or 1.0
        for word in words:
            postings[word].append((row, rarity[word] ** 2 / length))
    packed = {
        word: (
            np.fromiter((row for row, _ in pairs[-LONGEST_POSTINGS:]), np.int64),
            np.fromiter((weight for _, weight in pairs[-LONGEST_POSTINGS:]), np.float64),
        )
        for word, pairs in postings.items()
    }
    return Neighbours(rarity, packed, len(texts))


def nearest(known: Neighbours, words: Collection[str], leave_out: int, count: int = 10) -> list[tuple[int, float]]:
    """Rows and cosines of the most similar known logs, best first; row `leave_out` is never among them."""
    shared = sorted(word for word in words if word in known.postings)
    if not shared:
        return []
    length = sqrt(sum(known.rarity.get(word, log(1 + known.size)) ** 2 for word in sorted(words)))
    rows = np.concatenate([known.postings[word][0] for word in shared])
    weights = np.concatenate([known.postings[word][1] for word in shared])
    scores = np.bincount(rows, weights, known.size)
    if leave_out >= 0:
        scores[leave_out] = 0.0
    # sorting all that share a word is what would take time, so only the upper part is sorted
    least = float(scores.max()) / 2
    found = np.flatnonzero(scores > least)
    while len(found) < count and least > 1e-3 * length:
        least /= 2
        found = np.flatnonzero(scores > least)
    if len(found) < count:
        found = np.flatnonzero(scores)
    order = found[np.lexsort((found, -scores[found]))][:count]
    return list(zip(order.tolist(), (scores[order] / length).tolist(), strict=True))
