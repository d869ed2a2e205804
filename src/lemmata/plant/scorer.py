"""A logistic regression over a few dozen features, its threshold, and how links are measured.

Knows neither logs nor locations; a group is what one log has as candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.types import Edge

__all__ = [
    "Measures",
    "Restored",
    "Scorer",
    "Split",
    "choose_threshold",
    "cross_fit",
    "fit",
    "measure",
    "restored",
    "split",
]

Doubles = npt.NDArray[np.float64]


# ---------------------------------------------------------------- who may see what


class Split(NamedTuple):
    """Names in two parts that share none."""

    known: frozenset[str]
    withheld: frozenset[str]


def split(names: Iterable[str], rng: np.random.Generator, withheld: float = 0.2) -> Split:
    """By name, not by link: two links of one log never stand on both sides."""
    ordered = sorted(set(names))
    shuffled = [ordered[at] for at in rng.permutation(len(ordered))]
    first = round(len(ordered) * withheld)
    return Split(frozenset(shuffled[first:]), frozenset(shuffled[:first]))


# ---------------------------------------------------------------- the scorer


@dataclass(frozen=True, slots=True)
class Scorer:
    """Probability of a candidate: 1 / (1 + exp(-(x - mean) / scale · weights - bias))."""

    mean: Doubles  # (features,)
    scale: Doubles  # (features,)
    weights: Doubles  # (features,)
    bias: float

    def probabilities(self, features: Doubles) -> Doubles:
        """(candidates, features) to (candidates,)."""
        scores = ((features - self.mean) / self.scale) @ self.weights + self.bias
        return np.asarray(1 / (1 + np.exp(-np.clip(scores, -30, 30))), np.float64)


def fit(features: Doubles, labels: npt.NDArray[np.bool_], penalty: float = 1.0, steps: int = 30) -> Scorer:
    """Newton's method on the logistic loss with `penalty` / 2 · |weights|² over standardised features.

    With labels of one sort only, or none at all, every candidate gets their smoothed share.
    """
    count, width = features.shape
    if not labels.any() or labels.all():
        share = (labels.sum() + 0.5) / (count + 1)
        return Scorer(np.zeros(width), np.ones(width), np.zeros(width), float(np.log(share / (1 - share))))
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    inputs = np.hstack([(features - mean) / scale, np.ones((count, 1))])
    ridge = np.full(width + 1, penalty)
    ridge[-1] = 1e-6  # the bias is free, but the matrix must have an inverse
    weights = np.zeros(width + 1)
    share = labels.mean()
    weights[-1] = np.log(share / (1 - share))
    loss = _loss(inputs, labels, ridge, weights)
    for _ in range(steps):
        chance = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        slope = inputs.T @ (chance - labels) + ridge * weights
        curvature = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + np.diag(ridge)
        step = np.linalg.solve(curvature, slope)
        while (reached := _loss(inputs, labels, ridge, weights - step)) > loss and np.abs(step).max() > 1e-9:
            step /= 2  # far from the minimum a full step may overshoot
        weights -= step
        gained, loss = loss - reached, reached
        if gained < 1e-6 * loss:
            break
    return Scorer(mean, scale, weights[:-1], float(weights[-1]))


def cross_fit(
    groups: Sequence[tuple[Doubles, npt.NDArray[np.int8]]], width: int, rng: np.random.Generator, folds: int = 5
) -> tuple[Scorer, list[Doubles]]:
    """A scorer of all groups, and for each group the probabilities by one that never saw it.

    A group is what one log has: features (candidates, width) and 1 right, 0 wrong or -1 not to learn from.
    """
    fold = rng.integers(folds, size=len(groups))
    chances: list[Doubles] = [np.zeros(0)] * len(groups)
    for number in range(folds):
        scorer = _fit_groups([group for group, own in zip(groups, fold, strict=True) if own != number], width)
        for at in np.flatnonzero(fold == number).tolist():
            chances[at] = scorer.probabilities(groups[at][0])
    return _fit_groups(groups, width), chances


def _fit_groups(groups: Sequence[tuple[Doubles, npt.NDArray[np.int8]]], width: int) -> Scorer:
    labels = np.concatenate([np.zeros(0, np.int8), *(judged for _, judged in groups)])
    features = np.vstack([np.zeros((0, width)), *(values for values, _ in groups)])
    return fit(features[labels >= 0], labels[labels >= 0] == 1)


def _loss(inputs: Doubles, labels: npt.NDArray[np.bool_], ridge: Doubles, weights: Doubles) -> float:
    scores = inputs @ weights
    return float(np.logaddexp(0, np.where(labels, -scores, scores)).sum() + (ridge * weights**2).sum() / 2)


def choose_threshold(chances: Sequence[float], right: Sequence[bool], wanted: int, *, complete: bool = True) -> float:
    """The least probability to accept so that F1 is best, `wanted` being all links there are to find.

    Where the known links are not `complete`, what is not known to be right is not known to be wrong either.
    Then recall² / number accepted is best, which grows with precision · recall and needs no sure negatives
    (Lee and Liu, Learning with positive and unlabeled examples using weighted logistic regression, 2003).
    1.0 where no candidate is right. The threshold lies midway to the next candidate below.
    """
    order = sorted(range(len(chances)), key=lambda at: -chances[at])
    best, threshold, hits = 0.0, 1.0, 0
    for number, at in enumerate(order, 1):
        hits += right[at]
        following = chances[order[number]] if number < len(order) else 0.0
        if following == chances[at]:
            continue
        score = 2 * hits / (number + wanted) if complete else hits**2 / number
        if score > best:
            best, threshold = score, (chances[at] + following) / 2
    return threshold


# ---------------------------------------------------------------- measures


class Measures(NamedTuple):
    """How a set of predicted links meets the true ones."""

    predicted: int
    wanted: int
    right: int
    precision: float  # 0 where nothing is predicted
    recall: float  # 0 where nothing is wanted
    f1: float


def measure(predicted: Collection[Hashable], wanted: Collection[Hashable]) -> Measures:
    """Both without doubles."""
    told, true = set(predicted), set(wanted)
    right = len(told & true)
    return Measures(
        len(told),
        len(true),
        right,
        right / len(told) if told else 0.0,
        right / len(true) if true else 0.0,
        2 * right / (len(told) + len(true)) if told or true else 0.0,
    )


class Restored(NamedTuple):
    """What predicted edges add to a graph."""

    edges: int  # that were not there
    nodes: int  # that had no edge at all and now have one


def restored(predicted: Iterable[Edge], known: Iterable[Edge]) -> Restored:
    """Edges alike in source, relation and target are one."""
    before = {edge[:3] for edge in known}
    after = {edge[:3] for edge in predicted} - before
    linked = {node for source, _, target in before for node in (source, target)}
    return Restored(len(after), len({node for source, _, target in after for node in (source, target)} - linked))
