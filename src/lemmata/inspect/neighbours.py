"""What training changed: the nearest neighbours of passages in the vectors of two encoders."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lemmata.core.types import Floats, Integers
from lemmata.vectors.exact import ExactIndex


class Changes(NamedTuple):
    """The nearest neighbours of each passage in two spaces."""

    overlaps: Floats  # (n,) share of the k nearest that stayed
    before: Integers  # (n, k) positions, nearest first
    after: Integers  # (n, k)

    def most_changed(self, most: int) -> Integers:
        """Positions with the smallest overlap, those first whose nearest neighbours before fell furthest."""
        ranks = (self.after[:, None, :] == self.before[:, :, None]).any(axis=2)  # (n, k): whether it stayed
        weights = 1.0 / np.arange(1, ranks.shape[1] + 1)
        return np.lexsort((np.arange(len(ranks)), ranks @ weights, self.overlaps))[:most]


def nearest(vectors: Floats, k: int) -> Integers:
    """The k nearest others (n, k) of each vector by cosine, nearest first; fewer where there are fewer."""
    k = min(k, len(vectors) - 1)
    if k < 1:
        return np.zeros((len(vectors), 0), np.int64)
    rows, _ = ExactIndex(vectors).search(vectors, k + 1)
    others = rows != np.arange(len(rows))[:, None]
    others[others.all(axis=1), -1] = False  # among equal vectors, a passage may not be its own nearest
    return np.asarray(rows[others].reshape(len(rows), k), np.int64)


def compare_neighbours(before: Floats, after: Floats, k: int) -> Changes:
    """Compare the k nearest neighbours of the same passages by two encoders: vectors (n, dim) each."""
    first, second = nearest(before, k), nearest(after, k)
    stayed = (first[:, :, None] == second[:, None, :]).any(axis=2)
    return Changes(stayed.mean(axis=1, dtype=np.float32), first, second)
