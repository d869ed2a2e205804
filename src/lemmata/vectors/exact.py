"""Exact search over vectors in numpy: the reference for every other index."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import InputError
from lemmata.core.files import release_pages
from lemmata.core.types import Floats, Integers, Mask, Ranking, no_hits

FEW = 20_000  # allowed rows that every index searches exactly: a graph of all rows finds them slowly or badly
_CELLS = 1 << 23  # scores held at once (32 MB as float32), for all queries together
_BLOCK_ROWS = 1 << 16  # rows multiplied at once; bounds the float32 copy of a float16 matrix
_STRIDE = 256  # scores that share one maximum in `best`
Matrix = npt.NDArray[np.float32] | npt.NDArray[np.float16]


class ExactIndex:
    """Inner products of queries with all rows; memory-mapped matrices stay on disk.

    Ties are broken by row, so the same search gives the same result everywhere.
    """

    def __init__(self, matrix: Matrix) -> None:
        if matrix.ndim != 2:
            raise InputError(f"an index needs a matrix of one vector per row, not an array of shape {matrix.shape}")
        self.matrix = matrix  # (n, dim)

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> Ranking:
        """The k rows with the largest inner product, as in lemmata.core.types.Index."""
        queries = check_queries(queries, self.matrix.shape[1])

        def products(queries: Floats, rows: slice | Integers) -> Floats:
            return np.asarray(queries @ self.matrix[rows].astype(np.float32, copy=False).T)

        return rank_rows(queries, k, len(self.matrix), products, allowed)

    def search_proposed(
        self, queries: Floats, k: int, proposals: Iterable[Integers], allowed: Mask | None = None
    ) -> Ranking:
        """The same for what another index proposes: of each query some rows, ascending; fewer than k are not enough,
        and all rows are searched."""
        rows, scores = no_hits(len(queries), k)
        for number, (query, proposed) in enumerate(zip(queries, proposals, strict=True)):
            if len(proposed) < k:
                rows[number], scores[number] = (part[0] for part in self.search(query[None], k, allowed))
                continue
            products = self.matrix[proposed].astype(np.float32, copy=False) @ query
            winners = best(products, k)
            rows[number], scores[number] = proposed[winners], products[winners]
        release_pages(self.matrix)
        return rows, scores


def rank_rows(
    queries: Floats,
    k: int,
    count: int,
    score: Callable[[Floats, slice | Integers], Floats],
    allowed: Mask | None = None,
    *,
    block_rows: int = _BLOCK_ROWS,
) -> Ranking:
    """The k best of `count` rows for each query, ties by row; `score` gives those of some queries with some rows."""
    check_allowed(allowed, count)
    rows, scores = no_hits(len(queries), k)
    if k < 1 or not len(queries):
        return rows, scores
    selected = None if allowed is None else np.flatnonzero(allowed)
    total = count if selected is None else len(selected)
    group = max(1, _CELLS // _BLOCK_ROWS)
    for first in range(0, len(queries), group):
        part = queries[first : first + group]
        candidates: list[list[Ranking]] = [[] for _ in part]  # of each query, block by block
        for start in range(0, total, block_rows):
            stop = min(start + block_rows, total)
            chosen = slice(start, stop) if selected is None else selected[start:stop]
            for of_query, values in zip(candidates, score(part, chosen), strict=True):
                winners = best(values, k)
                winning_rows = winners + start if selected is None else selected[start + winners]
                of_query.append((winning_rows, values[winners]))
        for query, of_query in enumerate(candidates, first):
            merged_rows = np.concatenate([of_block for of_block, _ in of_query] or [rows[0, :0]])
            merged = np.concatenate([values for _, values in of_query] or [scores[0, :0]])
            winners = best(merged, k)
            rows[query, : len(winners)] = merged_rows[winners]
            scores[query, : len(winners)] = merged[winners]
    return rows, scores


def best(scores: Floats, k: int) -> Integers:
    """Positions of the k largest scores, best first, ties by position; fewer if there are fewer.

    The k-th largest of the stride maxima cannot exceed the k-th largest score, so one comparison drops everything
    below it. This is several times faster than argpartition over all scores.
    """
    k = min(k, len(scores))
    if k < 1:
        return np.empty(0, np.int64)
    strides = len(scores) // _STRIDE
    if strides >= 2 * k:
        tops = scores[: strides * _STRIDE].reshape(strides, _STRIDE).max(axis=1)
        candidates = np.flatnonzero(scores >= np.partition(tops, strides - k)[strides - k])
    else:
        candidates = np.arange(len(scores))
    values = scores[candidates]
    if len(values) > 4 * k:
        candidates = candidates[values >= np.partition(values, len(values) - k)[len(values) - k]]
        values = scores[candidates]
    return candidates[np.argsort(-values, kind="stable")[:k]]


def check_queries(queries: Floats, dimension: int) -> Floats:
    """Queries as float32 rows; InputError where their dimension is not that of the index."""
    if queries.ndim != 2 or queries.shape[1] != dimension:
        raise InputError(
            f"the queries have {queries.shape[-1] if queries.ndim else 0} dimensions and the index has {dimension}: "
            "search with the encoder that made the index, or encode again with 'lemmata index'"
        )
    return queries.astype(np.float32, copy=False)


def check_allowed(allowed: Mask | None, count: int) -> None:
    """Refuse a mask of another length."""
    if allowed is not None and allowed.shape != (count,):
        raise InputError(f"the mask of allowed rows has shape {allowed.shape}, the index has {count} rows")
