"""Points in the plane for vectors, so that what is near in all dimensions is near on a map.

The layout is that of UMAP (McInnes, Healy and Melville 2018): each vector is tied to its nearest ones by weights in
(0, 1]; tied points attract each other, random ones repel. It starts from the two principal components. Large sets
place a random part this way and every other point among its nearest ones of that part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lemmata.core.errors import require
from lemmata.core.types import Floats, Integers, Progress

_NEIGHBOURS = 15
_EPOCHS = 200
_REPELLING = 5  # random points for each pair that attracts
_A, _B = 1.577, 0.895  # 1 / (1 + a d^2b) is near 1 for points closer than 0.1, and falls off like exp(-d)
_DIMENSIONS = 64  # principal components that neighbours are found in
_LANDMARKS = 50_000  # points that are placed by attraction; the others follow them
_BLOCK = 2048


def place(matrix: Floats, method: str, rng: np.random.Generator, progress: Progress) -> Floats:
    """A place (n, 2) for each row of `matrix` (n, dim); the same for the same generator."""
    components = _principal_components(matrix, _DIMENSIONS)
    start = _spread(components[:, :2])
    if method == "pca" or len(matrix) <= 3:
        return start
    count = len(matrix)
    landmarks = np.arange(count)
    if count > _LANDMARKS:
        landmarks = np.sort(rng.choice(count, _LANDMARKS, replace=False))
    chosen = components[landmarks]
    rows, similarities = _nearest(chosen, chosen, min(_NEIGHBOURS, len(chosen) - 1), progress, without_itself=True)
    heads, tails, weights = _ties(rows, similarities)
    placed = (start[landmarks] * 10).astype(np.float32)
    progress("placing points", 0, None)
    _attract()(placed, heads, tails, weights, _EPOCHS, int(rng.integers(1, 2**62)))
    if count == len(landmarks):
        return _spread(placed)
    places = np.empty((count, 2), np.float32)
    rows, similarities = _nearest(components, chosen, 3, progress)
    share = np.maximum(similarities, 1e-3)[:, :, None] ** 4
    places[:] = (placed[rows] * share).sum(axis=1) / share.sum(axis=1)
    places[landmarks] = placed
    return _spread(places)


def _principal_components(matrix: Floats, number: int) -> Floats:
    """The first principal components (n, number), each with a sign that does not depend on the machine."""
    mean = np.zeros(matrix.shape[1])
    covariance = np.zeros((matrix.shape[1], matrix.shape[1]))
    for begin in range(0, len(matrix), _BLOCK):
        part = np.asarray(matrix[begin : begin + _BLOCK], np.float64)
        mean += part.sum(axis=0)
        covariance += part.T @ part
    mean /= max(1, len(matrix))
    covariance -= len(matrix) * np.outer(mean, mean)
    _, axes = np.linalg.eigh(covariance)
    axes = axes[:, ::-1][:, :number]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)
    components = np.zeros((len(matrix), number), np.float32)
    for begin in range(0, len(matrix), _BLOCK):
        part = np.asarray(matrix[begin : begin + _BLOCK], np.float64)
        components[begin : begin + _BLOCK, : axes.shape[1]] = (part - mean) @ axes
    return components


def _spread(places: Floats) -> Floats:
    """All points within [-1, 1], with the proportions kept; what lies far outside moves towards the others."""
    if not len(places):
        return places.astype(np.float32)
    low, high = np.quantile(places, [0.02, 0.98], axis=0)
    reach = max(float((high - low).max()) / 2, 1e-9)
    scaled = (places - (low + high) / 2) / reach
    beyond = np.abs(scaled)
    scaled = np.where(beyond > 1, np.sign(scaled) * (1 + np.log(np.maximum(beyond, 1)) / 2), scaled)
    scaled -= (scaled.min(axis=0) + scaled.max(axis=0)) / 2
    return np.asarray(scaled / max(float(np.abs(scaled).max()), 1e-9), np.float32)


def _nearest(
    queries: Floats, points: Floats, k: int, progress: Progress, *, without_itself: bool = False
) -> tuple[Integers, Floats]:
    """Rows and similarities (n, k) of the points with the largest cosine, nearest first."""
    lengths = [np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-9) for side in (queries, points)]
    queries, points = queries / lengths[0], points / lengths[1]
    rows = np.empty((len(queries), k), np.int64)
    similarities = np.empty((len(queries), k), np.float32)
    for begin in range(0, len(queries), _BLOCK):
        progress("finding neighbours", begin, len(queries))
        block = queries[begin : begin + _BLOCK] @ points.T
        if without_itself:
            block[np.arange(len(block)), np.arange(begin, begin + len(block))] = -np.inf
        best = np.argpartition(block, -k, axis=1)[:, -k:]
        values = np.take_along_axis(block, best, 1)
        order = np.lexsort((best, -values))
        rows[begin : begin + len(block)] = np.take_along_axis(best, order, 1)
        similarities[begin : begin + len(block)] = np.take_along_axis(values, order, 1)
    return rows, similarities


def _ties(rows: Integers, similarities: Floats) -> tuple[Integers, Integers, Floats]:
    """Pairs of points and their weights: w = a + b - ab, where a and b are the weights in the two directions.

    In one direction the weight of a neighbour at distance d is exp(-(d - nearest) / s), and s is such that the weights
    of all neighbours sum to log2(k).
    """
    distances = np.maximum(1 - similarities, 0).astype(np.float64)
    beyond = distances - distances[:, :1]
    target = np.log2(max(2, rows.shape[1]))
    low, high = np.full(len(rows), 1e-6), np.full(len(rows), 10.0)
    for _ in range(40):
        middle = (low + high) / 2
        is_wide = np.exp(-beyond / middle[:, None]).sum(axis=1) > target
        high, low = np.where(is_wide, middle, high), np.where(is_wide, low, middle)
    weights = np.exp(-beyond / middle[:, None]).ravel()
    sources, targets = np.repeat(np.arange(len(rows)), rows.shape[1]), rows.ravel()
    first, second = np.minimum(sources, targets), np.maximum(sources, targets)
    pairs, number = np.unique(first * len(rows) + second, return_inverse=True)
    sums = np.bincount(number, weights)
    products = np.ones(len(pairs))
    np.multiply.at(products, number, weights)
    both = np.bincount(number) > 1
    combined = np.where(both, sums - products, sums)
    return pairs // len(rows), pairs % len(rows), combined.astype(np.float32)


@cache
def _attract() -> Callable[..., None]:
    """`attract` as machine code."""
    numba = require("numba", "geometry")
    types = numba.types
    integers = types.Array(types.int64, 1, "C", readonly=True)
    floats = types.Array(types.float32, 1, "C", readonly=True)
    signature = types.void(types.float32[:, ::1], integers, integers, floats, types.int64, types.int64)
    compiled: Callable[..., None] = numba.njit(signature, cache=True, nogil=True)(attract)
    return compiled


def attract(places: Any, heads: Any, tails: Any, weights: Any, epochs: int, seed: int) -> None:
    """Move the points by stochastic gradient descent; a pair is drawn as often as its weight says."""
    count, state = len(places), np.uint64(seed)
    due = np.zeros(len(weights))
    heaviest = weights.max()
    for epoch in range(epochs):
        rate = np.float32(1.0 - epoch / epochs)
        for edge in range(len(weights)):
            due[edge] += weights[edge] / heaviest
            if due[edge] < 1:
                continue
            due[edge] -= 1
            for side in range(2):
                here = heads[edge] if side == 0 else tails[edge]
                far_end = tails[edge] if side == 0 else heads[edge]
                across, down = places[here, 0] - places[far_end, 0], places[here, 1] - places[far_end, 1]
                square = across * across + down * down
                if square > 0:
                    power = square**_B
                    pull = -2 * _A * _B * power / square / (1 + _A * power)
                    moved_x = min(4.0, max(-4.0, pull * across)) * rate
                    moved_y = min(4.0, max(-4.0, pull * down)) * rate
                    places[here, 0] += moved_x
                    places[here, 1] += moved_y
                    places[far_end, 0] -= moved_x
                    places[far_end, 1] -= moved_y
                for _ in range(_REPELLING):
                    state ^= state << np.uint64(13)
                    state ^= state >> np.uint64(7)
                    state ^= state << np.uint64(17)
                    other = np.int64(state % np.uint64(count))
                    if other == here:
                        continue
                    across, down = places[here, 0] - places[other, 0], places[here, 1] - places[other, 1]
                    square = across * across + down * down
                    push = 2 * _B / ((0.001 + square) * (1 + _A * square**_B))
                    if square > 0:
                        places[here, 0] += min(4.0, max(-4.0, push * across)) * rate
                        places[here, 1] += min(4.0, max(-4.0, push * down)) * rate
                    else:
                        places[here, 0] += np.float32(0.01) * rate
                        places[here, 1] -= np.float32(0.01) * rate
