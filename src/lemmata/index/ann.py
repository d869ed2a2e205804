"""Approximate search over vectors: an HNSW graph (Malkov and Yashunin 2018) through faiss, opened memory-mapped.

The graph only proposes rows. Their scores are computed from the matrix, so they are those of ExactIndex.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lemmata.errors import WorkspaceError, require
from lemmata.files import writing
from lemmata.index.exact import ExactIndex, Matrix, best, check_allowed, check_queries
from lemmata.types import Floats, Integers, Mask

__all__ = ["EXACT_UP_TO", "AnnIndex"]

# rows; 50,000 x 384 take 4.8 ms of CPU time on one core, about what encoding the query takes; the graph
# alone is faster from about 10,000 rows on, but must be built
EXACT_UP_TO = 50_000

_LINKS = 16  # per node and layer; twice as many in the lowest
_BUILD_WIDTH = 200  # candidates kept while a node is linked; recall on real vectors: 0.976 at 100, 0.9997 at 200
_SEARCH_WIDTH = 128  # candidates kept while a query walks
_FEW = 20_000  # allowed rows that are searched exactly
_BLOCK_ROWS = 1 << 16  # rows added at once; bounds the float32 copy of a float16 matrix


class AnnIndex:
    """Nearly the rows of ExactIndex, in a fraction of the time."""

    def __init__(self, graph: Any, matrix: Matrix, width: int) -> None:
        self._graph = graph
        self._matrix = matrix
        self._exact = ExactIndex(matrix)
        self._width = width

    @classmethod
    def build(cls, matrix: Matrix, path: Path, *, threads: int | None = None, width: int = _SEARCH_WIDTH) -> AnnIndex:
        """Link all rows and write the graph atomically.

        faiss uses a fixed seed, so a build with one thread always writes the same file. With several threads the
        links depend on timing, and results can differ in the last ranks.
        """
        faiss = require("faiss", "ann")
        graph = faiss.IndexHNSWSQ(matrix.shape[1], faiss.ScalarQuantizer.QT_fp16, _LINKS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = _BUILD_WIDTH
        graph.is_trained = True  # 16-bit floats have no parameters to learn
        before = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(threads or before)
        try:
            for start in range(0, len(matrix), _BLOCK_ROWS):
                graph.add(np.ascontiguousarray(matrix[start : start + _BLOCK_ROWS], np.float32))
        finally:
            faiss.omp_set_num_threads(before)
        with writing(path) as temporary:
            faiss.write_index(graph, str(temporary))
        return cls.open(path, matrix, width=width)

    @classmethod
    def open(cls, path: Path, matrix: Matrix, *, width: int = _SEARCH_WIDTH) -> AnnIndex:
        """Map a graph that `build` wrote for this matrix; only the pages that queries touch are read."""
        faiss = require("faiss", "ann")
        try:
            graph = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:  # faiss raises nothing more specific
            raise WorkspaceError(f"{path} cannot be read: run 'lemmata index' again") from error
        if (graph.ntotal, graph.d) != matrix.shape:
            raise WorkspaceError(
                f"{path} was made for {graph.ntotal} vectors of {graph.d} dimensions, "
                f"the matrix has {len(matrix)} of {matrix.shape[1]}: run 'lemmata index' again"
            )
        return cls(graph, matrix, width)

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> tuple[Integers, Floats]:
        """The k nearest rows, as in lemmata.types.Index.

        Few allowed rows are searched exactly, and so is a query for which the graph cannot reach k allowed rows.
        """
        queries = check_queries(queries, self._matrix.shape[1])
        check_allowed(allowed, len(self._matrix))
        reachable = len(self._matrix) if allowed is None else int(np.count_nonzero(allowed))
        # a walk visits about rows / allowed nodes for each one it may keep: exact search over the few costs less
        if k < 1 or reachable <= k or (allowed is not None and reachable <= _FEW):
            return self._exact.search(queries, k, allowed)
        bits = None if allowed is None else np.packbits(allowed, bitorder="little")
        rows = np.full((len(queries), k), -1, np.int64)
        scores = np.full((len(queries), k), -np.inf, np.float32)
        for number, query in enumerate(queries):
            candidates = self._walk(query, k, bits)
            if len(candidates) < k:
                rows[number], scores[number] = (part[0] for part in self._exact.search(query[None], k, allowed))
                continue
            products = self._matrix[candidates].astype(np.float32, copy=False) @ query
            winners = best(products, k)
            rows[number], scores[number] = candidates[winners], products[winners]
        return rows, scores

    def _walk(self, query: Floats, k: int, bits: npt.NDArray[np.uint8] | None) -> Integers:
        """Rows near the query in ascending order, about 2 k; fewer where the graph does not reach them."""
        faiss = require("faiss", "ann")
        selector = None if bits is None else faiss.IDSelectorBitmap(bits)
        depth = min(2 * k, len(self._matrix))
        width = max(self._width, depth)
        while True:
            parameters = faiss.SearchParametersHNSW(sel=selector, efSearch=width)
            _, neighbours = self._graph.search(query[None], depth, params=parameters)
            rows = np.sort(neighbours[0][neighbours[0] >= 0])
            if len(rows) >= k or width >= len(self._matrix):
                return rows
            width *= 4
