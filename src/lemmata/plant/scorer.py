"""A logistic regression over a few dozen features, its threshold, and the measures of predicted links.

Knows neither logs nor locations; a group is the candidates of one log.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.types import Edge

Doubles = npt.NDArray[np.float64]
Group = tuple[Doubles, npt.NDArray[np.int8]]  # features (candidates, width); 1 right, 0 wrong, -1 unknown
PENALTY = 1.0
MOST_STEPS = 30


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


def fit(features: Doubles, labels: npt.NDArray[np.bool_]) -> Scorer:
    """Newton's method on the logistic loss with PENALTY / 2 · |weights|² over standardised features.

    If all labels are the same, or there are none, every candidate gets their smoothed share.
    """
    count, width = features.shape
    if not labels.any() or labels.all():
        share = (labels.sum() + 0.5) / (count + 1)
        return Scorer(np.zeros(width), np.ones(width), np.zeros(width), float(np.log(share / (1 - share))))
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    inputs = np.hstack([(features - mean) / scale, np.ones((count, 1))])
    ridge = np.full(width + 1, PENALTY)
    ridge[-1] = 1e-6  # the bias is free, but the matrix must have an inverse
    weights = np.zeros(width + 1)
    share = labels.mean()
    weights[-1] = np.log(share / (1 - share))
    loss = _loss(inputs, labels, ridge, weights)
    for _ in range(MOST_STEPS):
        probability = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        slope = inputs.T @ (probability - labels) + ridge * weights
        curvature = (inputs * (probability * (1 - probability))[:, None]).T @ inputs + np.diag(ridge)
        step = np.linalg.solve(curvature, slope)
        while (reached := _loss(inputs, labels, ridge, weights - step)) > loss and np.abs(step).max() > 1e-9:
            step /= 2  # far from the minimum a full step may overshoot
        weights -= step
        gained, loss = loss - reached, reached
        if gained < 1e-6 * loss:
            break
    return Scorer(mean, scale, weights[:-1], float(weights[-1]))


def cross_fit(
    groups: Sequence[Group], width: int, rng: np.random.Generator, folds: int = 5
) -> tuple[Scorer, list[Doubles]]:
    """A scorer trained on all groups, and for each group the probabilities of a scorer that never saw it."""
    fold = rng.integers(folds, size=len(groups))
    probabilities: list[Doubles] = [np.zeros(0)] * len(groups)
    for number in range(folds):
        scorer = _fit_groups([group for group, f in zip(groups, fold, strict=True) if f != number], width)
        for position in np.flatnonzero(fold == number).tolist():
            probabilities[position] = scorer.probabilities(groups[position][0])
    return _fit_groups(groups, width), probabilities


def _fit_groups(groups: Sequence[Group], width: int) -> Scorer:
    labels = np.concatenate([np.zeros(0, np.int8), *(labels for _, labels in groups)])
    features = np.vstack([np.zeros((0, width)), *(values for values, _ in groups)])
    return fit(features[labels >= 0], labels[labels >= 0] == 1)


def _loss(inputs: Doubles, labels: npt.NDArray[np.bool_], ridge: Doubles, weights: Doubles) -> float:
    scores = inputs @ weights
    return float(np.logaddexp(0, np.where(labels, -scores, scores)).sum() + (ridge * weights**2).sum() / 2)


def choose_threshold(
    probabilities: Sequence[float], right: Sequence[bool], true_links: int, *, complete: bool = True
) -> float:
    """The least probability to accept so that F1 is best; `true_links` is the number of links to find.

    If the known links are not `complete`, a candidate that is not known to be right may still be right.
    Then recall² / number accepted is best, which grows with precision · recall and needs no sure negatives
    (Lee and Liu, Learning with positive and unlabeled examples using weighted logistic regression, 2003).
    1.0 if no candidate is right. The threshold lies midway to the next candidate below.
    """
    order = sorted(range(len(probabilities)), key=lambda position: -probabilities[position])
    best, threshold, hits = 0.0, 1.0, 0
    for number, position in enumerate(order, 1):
        hits += right[position]
        following = probabilities[order[number]] if number < len(order) else 0.0
        if following == probabilities[position]:
            continue
        score = 2 * hits / (number + true_links) if complete else hits**2 / number
        if score > best:
            best, threshold = score, (probabilities[position] + following) / 2
    return threshold


# ---------------------------------------------------------------- measures


class Measures(NamedTuple):
    predicted: int
    wanted: int
    right: int
    precision: float  # 0 if nothing is predicted
    recall: float  # 0 if there is nothing to find
    f1: float


def measure(predicted: Collection[Hashable], true: Collection[Hashable]) -> Measures:
    """Duplicates count once."""
    predicted, true = set(predicted), set(true)
    right = len(predicted & true)
    return Measures(
        len(predicted),
        len(true),
        right,
        right / len(predicted) if predicted else 0.0,
        right / len(true) if true else 0.0,
        2 * right / (len(predicted) + len(true)) if predicted or true else 0.0,
    )


class Restored(NamedTuple):
    """What predicted edges add to a graph."""

    edges: int  # new ones
    nodes: int  # that had no edge before


def restored(predicted: Iterable[Edge], known: Iterable[Edge]) -> Restored:
    """Edges are the same if source, relation and target are."""
    before = {edge[:3] for edge in known}
    new = {edge[:3] for edge in predicted} - before
    linked = {node for source, _, target in before for node in (source, target)}
    return Restored(len(new), len({node for source, _, target in new for node in (source, target)} - linked))
