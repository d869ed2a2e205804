"""Use of a learned metric without torch: distances from a query to passages, and one length per edge and direction.

Every node has an embedding h and a low-rank factor L of its metric G = L Lᵀ + εI. Factors are made where they are
needed, a block at a time: all of them would be (nodes, dimension, rank) numbers. Works on arrays, which may be
memory-mapped; knows no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from lemmata.types import Floats, Integers, Mask, Progress

__all__ = ["Head", "LearnedMetric", "local_distances", "measure_by_metric"]

# vectors of texts (n, inputs) to their embeddings (n, dimension) and factors (n, dimension, rank)
Head = Callable[[Floats], Sequence[Floats]]
Factors = Callable[[Integers], Floats]  # nodes (n,) to factors (n, dimension, rank)

_ROWS = 1 << 14  # embeddings in memory at once: 17 MB at dimension 256
_ALL = 1 << 15  # passages all of which a query is compared with
_QUERIES = 256  # whose factors are in memory at once: 8 MB at dimension 256 and rank 32
_EDGES = 512  # measured at once: 17 MB of factors at dimension 256 and rank 32


def local_distances(own: Floats, factor: Floats, others: Floats, epsilon: float) -> Floats:
    """The distances from one node (dimension,) to others (n, dimension) by its metric.

    d² = |Lᵀ(h_j - h_i)|² + ε |h_j - h_i|², which needs dimension · rank steps instead of dimension².
    """
    differences = np.asarray(others, np.float32) - own
    squared = np.square(differences @ factor).sum(axis=1) + epsilon * np.einsum("ij,ij->i", differences, differences)
    return np.asarray(np.sqrt(squared), np.float32)


class LearnedMetric:
    """The embeddings of all passages, and the head that gives a text its embedding and metric."""

    def __init__(self, h: Floats, epsilon: float, head: Head) -> None:
        self.h, self.epsilon, self.head = h, epsilon, head  # h (passages, dimension)

    @cached_property
    def _squares(self) -> Floats:
        """|h|² of all passages (passages,)."""
        blocks = [np.asarray(self.h[start : start + _ROWS]) for start in range(0, len(self.h), _ROWS)]
        return np.concatenate([np.einsum("ij,ij->i", block, block) for block in blocks])

    def search(self, vectors: Floats, k: int, allowed: Mask | None = None) -> tuple[Integers, Floats]:
        """The k nearest passages of each query, by its own metric: rows and similarities (n, k), best first.

        The similarity is 1 - d² / 2, the cosine of unit vectors at distance d. -1 and -inf where there are fewer.
        Reads all embeddings: passages · dimension · rank steps, some milliseconds for 20,000 passages.
        """
        found, similarities = _nothing(len(vectors), k)
        for query, (own, factor) in enumerate(self._headed(vectors)):
            product = self.h @ np.concatenate([factor, own[:, None]], axis=1)
            seen = product[:, :-1] - own @ factor
            squared = np.einsum("ij,ij->i", seen, seen)
            squared += self.epsilon * (self._squares - 2 * product[:, -1] + own @ own)
            if allowed is not None:
                squared[~allowed] = np.inf
            best = _smallest(squared, k)
            best = best[np.isfinite(squared[best])]
            found[query, : len(best)] = best
            similarities[query, : len(best)] = 1 - squared[best] / 2
        return found, similarities

    def search_among(
        self, vectors: Floats, k: int, rows: Integers, allowed: Mask | None = None
    ) -> tuple[Integers, Floats]:
        """As `search`, but of a large corpus only the passages in `rows` (n, m; -1 is none) are compared."""
        if len(self.h) <= _ALL:
            return self.search(vectors, k, allowed)
        found, similarities = _nothing(len(vectors), k)
        for query, (own, factor) in enumerate(self._headed(vectors)):
            among = np.unique(rows[query][rows[query] >= 0])
            among = among if allowed is None else among[allowed[among]]
            distances = local_distances(own, factor, self.h[among], self.epsilon)
            best = _smallest(distances, k)
            found[query, : len(best)] = among[best]
            similarities[query, : len(best)] = 1 - np.square(distances[best]) / 2
        return found, similarities

    def _headed(self, vectors: Floats) -> Iterator[tuple[Floats, Floats]]:
        """Embedding and factor of each query, some at a time."""
        for start in range(0, len(vectors), _QUERIES):
            yield from zip(*self.head(np.asarray(vectors[start : start + _QUERIES], np.float32)), strict=True)


def _nothing(queries: int, k: int) -> tuple[Integers, Floats]:
    return np.full((queries, k), -1, np.int64), np.full((queries, k), -np.inf, np.float32)


def _smallest(values: Floats, k: int) -> Integers:
    """The places of the k smallest values, in order."""
    places = np.sort(np.argpartition(values, k)[:k]) if len(values) > k else np.arange(len(values))
    return np.asarray(places[np.argsort(values[places], kind="stable")], np.int64)


def measure_by_metric(
    sources: Integers,
    targets: Integers,
    h: Floats,
    factors: Factors,
    epsilon: float,
    forward: Floats,
    backward: Floats,
    progress: Progress,
) -> None:
    """Fill in `forward` and `backward` (edges,): lengths along the edges and against them, by the metric of the end
    that is left.

    `h` (nodes, dimension) are the embeddings of the ends. Edges are taken by the end that is left, so that the factor
    of one with many edges is made once or twice.
    """
    edges = len(targets)
    for number, (left, reached, lengths) in enumerate(((sources, targets, forward), (targets, sources, backward))):
        order = np.argsort(left, kind="stable")
        for start in range(0, edges, _EDGES):
            progress("measuring edges", number * edges + start, 2 * edges)
            block = order[start : start + _EDGES]
            nodes, places = np.unique(left[block], return_inverse=True)
            differences = h[reached[block]] - h[left[block]]
            seen = np.einsum("ed,edr->er", differences, factors(nodes)[places])
            squared = np.square(seen).sum(axis=1) + epsilon * np.square(differences).sum(axis=1)
            lengths[block] = np.sqrt(squared)
