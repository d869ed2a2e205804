"""What known links teach about words: which go with which class, and which logs are alike.

One's own link can be left out of every count, so that a log never confirms itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from lemmata.types import Integers

__all__ = ["Association", "Neighbours", "associate", "associations", "index_neighbours", "nearest"]

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
class Neighbours:
    """Known logs as an inverted index with tf-idf weights of unit length."""

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
            postings[word].append((row, rarity[word] / length))
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
    weights = np.concatenate([known.postings[word][1] * (known.rarity[word] / length) for word in shared])
    found, places = np.unique(rows, return_inverse=True)
    scores = np.bincount(places, weights)
    order = np.lexsort((found, -scores))[: count + 1]
    return [(int(found[at]), float(scores[at])) for at in order if found[at] != leave_out][:count]
