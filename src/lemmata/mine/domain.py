"""Which passages of a general corpus are about the field of a corpus: a classifier on vectors, trained without labels.

A classifier between the two corpora would learn how they are written (an encyclopedia, abstracts) rather than what they
are about. So it is trained on general passages alone: those nearest to the corpus, against all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lemmata.errors import InputError
from lemmata.types import Floats, Mask

__all__ = ["DomainClassifier", "train_domain_classifier"]

_NEIGHBOURS = 10
_GENERAL_WEIGHT = 0.5  # of the nearness to other general passages, which is subtracted
_HELD_OUT = 0.2  # share of the general sample that the threshold is chosen on
_FEWEST = 50  # passages of each corpus
_STEPS = 300  # of gradient descent
_RATE = 0.05
_PENALTY = 1e-4  # on the squared length of the weights
_BLOCK = 1000


class DomainClassifier(NamedTuple):
    """Logistic regression on scaled vectors."""

    scale: Floats  # (dim,)
    weights: Floats  # (dim,)
    bias: float
    threshold: float  # scores from here on are in the domain
    agreement: float  # area under the ROC curve, against nearness to the corpus, on held-out general passages

    def scores(self, vectors: Floats) -> Floats:
        """The probability of being in the domain, for vectors (n, dim)."""
        return _sigmoid(_scaled(vectors, self.scale) @ self.weights + np.float32(self.bias))


def train_domain_classifier(
    corpus: Floats, general: Floats, share: float, generator: np.random.Generator
) -> DomainClassifier:
    """A classifier that selects about `share` of the general passages, from samples (n, dim) of both corpora.

    1. Every dimension is scaled by its spread, which for hashed words does what inverse document frequency does.
    2. A general passage's nearness is its mean cosine to the ten nearest passages of the corpus, less half of the
       mean cosine to the ten nearest other general passages.
    3. Logistic regression separates the nearest `share` of the general passages from the others, with equal weight
       for both, on four fifths of them.
    4. The threshold is the score that the best `share` of the last fifth reach.
    """
    if not 0 < share < 1:
        raise InputError(f"a share of the general corpus lies between 0 and 1, not at {share}")
    if min(len(corpus), len(general)) < _FEWEST:
        fewer = f"the corpus has {len(corpus)} and the general one {len(general)}"
        raise InputError(f"a classifier needs {_FEWEST} passages of each corpus: {fewer}")
    spread = np.concatenate((corpus, general)).std(axis=0)
    scale = np.where(spread > 0, 1 / np.maximum(spread, 1e-6), 0).astype(np.float32)
    own, other = _scaled(corpus, scale), _scaled(general, scale)
    nearness = _mean_cosine(other, own) - _GENERAL_WEIGHT * _mean_cosine(other, other, itself=True)
    near = nearness >= np.quantile(nearness, 1 - share)
    held_out = np.zeros(len(other), bool)
    held_out[generator.permutation(len(other))[: max(1, round(_HELD_OUT * len(other)))]] = True
    weights, bias = _logistic_regression(other[~held_out], near[~held_out])
    scores = _sigmoid(other[held_out] @ weights + np.float32(bias))
    threshold = float(np.quantile(scores, 1 - share))
    return DomainClassifier(scale, weights, bias, threshold, _area(scores, near[held_out]))


def _scaled(vectors: Floats, scale: Floats) -> Floats:
    scaled = vectors * scale
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(lengths > 0, lengths, 1), np.float32)


def _mean_cosine(vectors: Floats, others: Floats, *, itself: bool = False) -> Floats:
    """The mean cosine of each vector to its nearest others; with `itself`, the others are the vectors themselves."""
    means: list[Floats] = []
    number = min(_NEIGHBOURS, len(others) - itself)
    for start in range(0, len(vectors), _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ others.T
        if itself:
            cosines[np.arange(len(cosines)), start + np.arange(len(cosines))] = -np.inf
        nearest = np.partition(cosines, len(others) - number, axis=1)[:, len(others) - number :]
        means.append(nearest.mean(axis=1))
    return np.concatenate(means)


def _logistic_regression(vectors: Floats, labels: Mask) -> tuple[Floats, float]:
    """Weights (dim,) and bias of the smallest mean loss, in which both classes have the same weight (Adam)."""
    positive = max(1, int(labels.sum()))
    importance = np.where(labels, 0.5 / positive, 0.5 / max(1, len(labels) - positive)).astype(np.float32)
    parameters = np.zeros(vectors.shape[1] + 1, np.float32)
    first, second = np.zeros_like(parameters), np.zeros_like(parameters)
    for step in range(1, _STEPS + 1):
        error = (_sigmoid(vectors @ parameters[:-1] + parameters[-1]) - labels) * importance
        gradient = np.append(error @ vectors + _PENALTY * parameters[:-1], error.sum())
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        parameters -= _RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return parameters[:-1].astype(np.float32), float(parameters[-1])


def _sigmoid(values: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -60, 60))), np.float32)


def _area(scores: Floats, labels: Mask) -> float:
    """The area under the ROC curve; ties count half. 0.5 where there is one class only."""
    positive = int(labels.sum())
    if positive in (0, len(labels)):
        return 0.5
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return float((ranks[labels].sum() - positive * (positive + 1) / 2) / (positive * (len(labels) - positive)))
