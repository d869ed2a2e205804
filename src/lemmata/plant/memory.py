"""What known links teach about words: which words go with which class, and which logs are similar.

A log can be left out of every count, so that it never confirms its own link.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from lemmata.core.types import Integers
from lemmata.plant.scorer import Doubles

LONGEST_POSTINGS = 5000  # logs that share a word; of a more frequent word only the latest are read
SMOOTHING = 4.0  # pseudo-counts with the overall frequency of a word


@dataclass(frozen=True, slots=True)
class Association:
    """How often words and classes occur together."""

    together: Mapping[Hashable, Counter[Hashable]]  # class: word: count
    classes: Counter[Hashable]
    words: Counter[Hashable]
    total: int


def count_associations(logs: Iterable[tuple[Collection[Hashable], Collection[Hashable]]]) -> Association:
    """From the words and the known classes of each log; neither has duplicates."""
    together: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)
    class_counts: Counter[Hashable] = Counter()
    word_counts: Counter[Hashable] = Counter()
    total = 0
    for words, classes in logs:
        total += 1
        word_counts.update(words)
        class_counts.update(classes)
        for name in classes:
            together[name].update(words)
    return Association(dict(together), class_counts, word_counts, total)


def association_scores(
    counts: Association,
    words: Collection[Hashable],
    classes: Iterable[Hashable],
    *,
    counted: bool,
    members: Collection[Hashable],
) -> dict[Hashable, float]:
    """For each class the sum over words of log P(word | class) / P(word), divided by the root of their number.

    0 for a new class. `counted` says that this text is one of those counted, and `members` are its classes.
    Its own counts are subtracted; otherwise a word that occurs nowhere else would count against every class
    but the known one.
    """
    familiar = {word for word in words if counts.words[word] > counted}
    texts = counts.total - counted
    scores: dict[Hashable, float] = {}
    for name in classes:
        member = name in members
        size = counts.classes[name] - member
        if size <= 0 or not familiar:
            scores[name] = 0.0
            continue
        of_class = counts.together[name]
        shared = familiar & of_class.keys()
        total = (len(familiar) - len(shared)) * log(SMOOTHING / (size + SMOOTHING))
        for word in sorted(shared, key=str):  # sums must not depend on the hash seed
            share = (counts.words[word] - counted) / texts
            total += log((of_class[word] - member + SMOOTHING * share) / (size + SMOOTHING) / share)
        scores[name] = total / sqrt(len(words))
    return scores


@dataclass(frozen=True, slots=True)
class AssociationIndex:
    """Counts by word, so that one text is compared with all classes at once."""

    counts: Association
    columns: Mapping[Hashable, int]  # of each class
    sizes: Doubles  # (classes,): counted logs
    floor: Doubles  # (classes,): score of a word that never occurred with the class
    words: Mapping[Hashable, int]
    starts: Sequence[int]  # (words + 1,)
    classes: Integers  # (pairs,): columns of the classes that a word occurred with
    gains: tuple[Doubles, Doubles]  # (pairs,): score of the word above the floor; the same for a counted text


def index_associations(counts: Association, classes: Iterable[Hashable]) -> AssociationIndex:
    """`classes` are all that were counted, and others that may be asked for; their order is that of the columns."""
    columns = {name: column for column, name in enumerate(classes)}
    words = {word: number for number, word in enumerate(counts.words)}
    size = sum(map(len, counts.together.values()))
    triples = (
        (words[word], columns[name], count) for name, row in counts.together.items() for word, count in row.items()
    )
    word, column, count = np.fromiter(triples, np.dtype((np.int64, 3)), size).T
    order = np.argsort(word, kind="stable")
    word, column, count = word[order], column[order], count[order]
    word_counts = np.fromiter(counts.words.values(), np.float64, len(words))

    def gains(counted: int) -> Doubles:
        # a word that only the counted text has is never looked up, but must not divide by zero
        share = np.maximum(word_counts - counted, 1) / max(counts.total - counted, 1)
        return np.asarray(np.log1p(count / (SMOOTHING * share[word])), np.float64)

    sizes = np.array([counts.classes[name] for name in columns], np.float64)
    return AssociationIndex(
        counts=counts,
        columns=columns,
        sizes=sizes,
        floor=np.log(SMOOTHING / (sizes + SMOOTHING)),
        words=words,
        starts=np.searchsorted(word, np.arange(len(words) + 1)).tolist(),
        classes=column.copy(),
        gains=(gains(0), gains(1)),
    )


def all_association_scores(
    index: AssociationIndex, words: Collection[str], *, counted: bool, members: Collection[Hashable]
) -> Doubles:
    """`association_scores` of every class: (classes + 1,), with a 0 at the end for whoever has no class."""
    counts = index.counts
    scores = np.zeros(len(index.columns) + 1)
    familiar = sorted(word for word in words if counts.words.get(word, 0) > counted)  # as sums depend on the order
    if not familiar:
        return scores
    starts, gains = index.starts, index.gains[counted]
    spans = [slice(starts[number], starts[number + 1]) for number in map(index.words.__getitem__, familiar)]
    classes = np.concatenate([index.classes[span] for span in spans])
    gained = np.bincount(classes, np.concatenate([gains[span] for span in spans]), len(index.columns))
    scores[:-1] = (gained + len(familiar) * index.floor) / sqrt(len(words))
    for name, score in association_scores(counts, words, members, counted=counted, members=members).items():
        scores[index.columns[name]] = score
    return scores


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Known logs as an inverted index; a weight is the idf in the query times the normalised idf in the log."""

    rarity: Mapping[str, float]  # idf
    postings: Mapping[str, tuple[Integers, np.ndarray]]  # word: rows, weights
    size: int


def index_neighbours(texts: Sequence[Collection[str]]) -> Neighbours:
    """From the words of each known log; its position is its row."""
    count = Counter(word for words in texts for word in words)
    rarity = {word: log(1 + len(texts) / number) for word, number in count.items()}
    postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row, words in enumerate(texts):
        length = sqrt(sum(rarity[word] ** 2 for word in sorted(words))) or 1.0
        for word in words:
            postings[word].append((row, rarity[word] ** 2 / length))
    packed = {}
    for word, pairs in postings.items():
        rows, weights = zip(*pairs[-LONGEST_POSTINGS:], strict=True)
        packed[word] = np.array(rows, np.int64), np.array(weights, np.float64)
    return Neighbours(rarity, packed, len(texts))


def nearest(index: Neighbours, words: Collection[str], leave_out: int, count: int = 10) -> list[tuple[int, float]]:
    """Rows and cosines of the most similar known logs, best first, without the row `leave_out`."""
    shared = sorted(word for word in words if word in index.postings)
    if not shared:
        return []
    length = sqrt(sum(index.rarity.get(word, log(1 + index.size)) ** 2 for word in sorted(words)))
    rows = np.concatenate([index.postings[word][0] for word in shared])
    weights = np.concatenate([index.postings[word][1] for word in shared])
    scores = np.bincount(rows, weights, index.size)
    if leave_out >= 0:
        scores[leave_out] = 0.0
    # sorting every log that shares a word would be slow, so only the best are sorted
    candidates = np.flatnonzero(scores)
    least = np.partition(scores[candidates], -count)[-count] if len(candidates) > count else 0.0
    best = candidates[scores[candidates] >= least]
    order = best[np.lexsort((best, -scores[best]))][:count]
    return list(zip(order.tolist(), (scores[order] / length).tolist(), strict=True))
