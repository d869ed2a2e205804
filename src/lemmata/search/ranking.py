"""Rankings as arrays: reranked, made more varied, or without the passage that a query is.

Works on arrays; knows neither texts nor files.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lemmata.core.types import Floats, Integers, Mask, Ranking, no_hits


def rerank(rows: Integers, scores: Floats, cross: Floats, weight: float) -> Ranking:
    """Sort the first hits of rankings (n, k) again, by their scores `cross` (n, first) of a cross-encoder.

    The new score is (1 - w) · old + w · cross, each standardised within the query's first hits; with w = 1 the
    cross-encoder alone decides. The hits after them keep their order, and stay behind.
    """
    first = cross.shape[1]
    if not first:
        return rows, scores
    is_hit = rows[:, :first] >= 0
    old, new = _standardised(scores[:, :first], is_hit), _standardised(cross, is_hit)
    combined = np.where(is_hit, (1 - weight) * old + weight * new, -np.inf)
    order = np.argsort(-combined, axis=1, kind="stable")
    low = np.min(np.where(is_hit, combined, np.inf), axis=1, keepdims=True)
    last = np.min(np.where(is_hit, scores[:, :first], np.inf), axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        behind = np.where(rows[:, first:] >= 0, low + scores[:, first:] - last, -np.inf)
    head = np.take_along_axis(rows[:, :first], order, 1), np.take_along_axis(combined, order, 1)
    return (
        np.concatenate([head[0], rows[:, first:]], axis=1),
        np.concatenate([head[1], behind], axis=1).astype(np.float32),
    )


def _standardised(scores: Floats, is_hit: Mask) -> Floats:
    """Mean 0 and standard deviation 1 in each row, over the hits; 0 where all are equal."""
    count = np.maximum(is_hit.sum(axis=1, keepdims=True), 1)
    filled = np.where(is_hit, scores, 0).astype(np.float64)
    centred = np.where(is_hit, filled - filled.sum(axis=1, keepdims=True) / count, 0)
    spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / count)
    return np.where(spread > 1e-6, centred / np.maximum(spread, 1e-6), 0).astype(np.float32)


def without_itself(rows: Integers, scores: Floats, itself: Integers) -> Ranking:
    """Rankings (n, k) without the passage that each query is (n,), as (n, k - 1); without its last where it is none."""
    columns = np.arange(rows.shape[1] - 1)[None, :]
    is_own = rows == itself[:, None]
    own = np.where(is_own.any(axis=1), is_own.argmax(axis=1), rows.shape[1])[:, None]
    columns = columns + (columns >= own)
    return np.take_along_axis(rows, columns, 1), np.take_along_axis(scores, columns, 1)


def place_by_words(dense: Ranking, lexical: Ranking, is_new: Mask) -> Ranking:
    """A ranking by vectors with passages that have none yet: as far from the best one as they are by words."""
    rows, scores = dense[0].copy(), dense[1].copy()
    scores[(rows >= 0) & is_new[rows]] = -np.inf
    for number, (by_words, words) in enumerate(zip(*lexical, strict=True)):
        new = np.flatnonzero((by_words >= 0) & is_new[by_words])
        known = scores[number][np.isfinite(scores[number])]
        best, least = (known.max(), known.min()) if len(known) else (1, 0)
        placed = least + (best - least) * words[new] / max(float(words[0]), 1e-9)
        together = np.concatenate([scores[number], placed])
        order = np.argsort(-together, kind="stable")[: len(known) + len(new)][: rows.shape[1]]
        ordered = np.concatenate([rows[number], by_words[new]])[order], together[order]
        rows[number], scores[number] = -1, -np.inf
        rows[number, : len(order)], scores[number, : len(order)] = ordered
    return rows, scores


def fold_parts(rows: Integers, scores: Floats, whole: Integers, k: int) -> Ranking:
    """The k best passages of rankings (n, depth) of passages and their parts, each by its best row.

    `whole` (passages,) has the passage of each row: itself, or the one that it is a part of.
    """
    folded, best = no_hits(len(rows), k)
    for number, row in enumerate(rows):
        passages, places = np.unique(whole[row[row >= 0]], return_index=True)
        order = np.argsort(places)[:k]  # a ranking has the best first
        folded[number, : len(order)] = passages[order]
        best[number, : len(order)] = scores[number][places[order]]
    return folded, best


def diversify(relevance: Floats, vectors: Floats, k: int, weight: float) -> Integers:
    """Positions of `k` candidates by maximal marginal relevance (Carbonell and Goldstein 1998).

    Each step takes the candidate with the largest (1 - w) · relevance - w · (similarity to the nearest chosen one);
    relevance (n,) is scaled to [0, 1], vectors (n, dim) have length 1.
    """
    spread = float(relevance.max() - relevance.min()) if len(relevance) else 0.0
    scaled = (relevance - relevance.min()) / spread if spread > 0 else np.ones_like(relevance)
    nearest = np.zeros(len(relevance), dtype=np.float32)
    free = np.ones(len(relevance), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < min(k, len(relevance)):
        value = np.where(free, (1 - weight) * scaled - weight * nearest, -np.inf)
        position = int(np.argmax(value))
        chosen.append(position)
        free[position] = False
        nearest = np.maximum(nearest, vectors @ vectors[position])
    return np.array(chosen, dtype=np.int64)


def choose_rerank_weight(
    objective: Callable[[Integers], float], ranking: Ranking, cross: Floats
) -> tuple[float, list[tuple[float, float]]]:
    """The weight of a cross-encoder with the highest value on validation rankings, and all tried with their values.

    Of equal values the smaller weight is taken.
    """
    tried = [
        (weight, objective(rerank(*ranking, cross, weight)[0]))
        for weight in (round(float(step), 2) for step in np.linspace(0, 1, 11))
    ]
    return max(tried, key=lambda pair: (pair[1], -pair[0]))[0], tried
