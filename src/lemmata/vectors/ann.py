"""Approximate search over vectors: an HNSW graph (Malkov and Yashunin 2018) through faiss, opened memory-mapped.

The graph only proposes rows, by vectors of 8 bits a dimension. Their scores are computed from the matrix, so they are
those of ExactIndex. A graph can grow: its nodes stay in the order in which they came, and a file beside it tells their
rows; nodes whose rows are gone only lead to others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import WorkspaceError, require
from lemmata.core.files import read_array, writing
from lemmata.core.types import Floats, Integers, Mask, Ranking
from lemmata.vectors.exact import FEW, ExactIndex, Matrix, check_allowed, check_queries

# rows; 50,000 x 384 take 4.8 ms of CPU time on one core, about what encoding the query takes; the graph
# alone is faster from about 10,000 rows on, but must be built
EXACT_UP_TO = 50_000
_LINKS = 16  # per node and layer; twice as many in the lowest
_BUILD_WIDTH = 200  # candidates kept while a node is linked; recall on real vectors: 0.976 at 100, 0.9997 at 200
_SEARCH_WIDTH = 256  # candidates kept while a query walks; recall of titles, a static encoder: 0.985 at 128, 0.995 here
_BLOCK_ROWS = 1 << 16  # rows added at once, or sampled for the range of each dimension
_CURE = "run 'lemmata index' again"


class AnnIndex:
    """Nearly the rows of ExactIndex, in a fraction of the time."""

    def __init__(self, graph: Any, matrix: Matrix, rows: Integers | None, width: int) -> None:
        self._graph = graph
        self._matrix = matrix
        self._rows = rows  # (nodes,), -1 where a row is gone; None: each node is its row
        self._exact = ExactIndex(matrix)
        self._width = width

    @classmethod
    def build(cls, matrix: Matrix, path: Path, *, threads: int | None = None, width: int = _SEARCH_WIDTH) -> AnnIndex:
        """Link all rows and write the graph atomically.

        faiss uses a fixed seed, so a build with one thread always writes the same file. With several threads the
        links depend on timing, and results can differ in the last ranks.
        """
        faiss = require("faiss", "ann")
        graph = faiss.IndexHNSWSQ(matrix.shape[1], faiss.ScalarQuantizer.QT_8bit, _LINKS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = _BUILD_WIDTH
        if len(matrix):
            sample = np.unique(np.linspace(0, len(matrix) - 1, min(len(matrix), _BLOCK_ROWS)).astype(np.int64))
            graph.train(np.ascontiguousarray(matrix[sample], np.float32))
        with writing(path) as temporary:
            _link(graph, matrix, np.arange(len(matrix)), temporary, threads)
        _rows_file(path).unlink(missing_ok=True)
        return cls.open(path, matrix, width=width)

    @classmethod
    def grow(
        cls, old: Path, rows: Integers, matrix: Matrix, path: Path, *, threads: int | None = None
    ) -> tuple[AnnIndex, Integers]:
        """Link the rows that an older graph lacks, and write it to another path; also returns the row of each node.

        `rows` are those of its nodes in the new matrix, where they have the same vectors; -1 for those that are gone.
        """
        graph = require("faiss", "ann").read_index(str(old))
        new = np.setdiff1d(np.arange(len(matrix)), rows)
        rows = np.concatenate([rows, new])
        with writing(path) as temporary:
            _link(graph, matrix, new, temporary, threads)
        with writing(_rows_file(path)) as temporary, temporary.open("wb") as file:
            np.save(file, rows)
        return cls.open(path, matrix), rows

    @classmethod
    def open(cls, path: Path, matrix: Matrix, *, width: int = _SEARCH_WIDTH) -> AnnIndex:
        """Map a graph that `build` wrote for this matrix; only the pages that queries touch are read."""
        faiss = require("faiss", "ann")
        try:
            graph = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:  # faiss raises nothing more specific
            raise WorkspaceError(f"{path} cannot be read: {_CURE}") from error
        rows = np.asarray(read_array(_rows_file(path), _CURE)) if _rows_file(path).exists() else None
        count = graph.ntotal if rows is None else int(np.count_nonzero(rows >= 0))
        if (count, graph.d) != matrix.shape or (rows is not None and len(rows) != graph.ntotal):
            raise WorkspaceError(
                f"{path} was made for {count} vectors of {graph.d} dimensions, "
                f"the matrix has {len(matrix)} of {matrix.shape[1]}: {_CURE}"
            )
        return cls(graph, matrix, rows, width)

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> Ranking:
        """The k nearest rows, as in lemmata.core.types.Index.

        Few allowed rows are searched exactly, and so is a query for which the graph cannot reach k allowed rows.
        """
        queries = check_queries(queries, self._matrix.shape[1])
        check_allowed(allowed, len(self._matrix))
        reachable = len(self._matrix) if allowed is None else int(np.count_nonzero(allowed))
        # a walk visits about rows / allowed nodes for each one it may keep: exact search over the few costs less
        if k < 1 or reachable <= k or (allowed is not None and reachable <= FEW):
            return self._exact.search(queries, k, allowed)
        nodes = self._usable_nodes(allowed)
        bits = None if nodes is None else np.packbits(nodes, bitorder="little")
        return self._exact.search_proposed(queries, k, (self._walk(query, k, bits) for query in queries), allowed)

    def _usable_nodes(self, allowed: Mask | None) -> Mask | None:
        """The nodes whose rows are there, and allowed; None: all."""
        if self._rows is None:
            return allowed
        there = self._rows >= 0
        if allowed is not None:
            there &= allowed[self._rows]
        return None if there.all() else there

    def _walk(self, query: Floats, k: int, bits: npt.NDArray[np.uint8] | None) -> Integers:
        """Rows near the query in ascending order, about 2 k; fewer where the graph does not reach them."""
        faiss = require("faiss", "ann")
        selector = None if bits is None else faiss.IDSelectorBitmap(bits)
        depth = min(2 * k, len(self._matrix))
        width = max(self._width, depth)
        while True:
            parameters = faiss.SearchParametersHNSW(sel=selector, efSearch=width)
            _, neighbours = self._graph.search(query[None], depth, params=parameters)
            nodes = neighbours[0][neighbours[0] >= 0]
            rows = np.sort(nodes if self._rows is None else self._rows[nodes])
            if len(rows) >= k or width >= len(self._matrix):
                return rows
            width *= 4


def _link(graph: Any, matrix: Matrix, rows: Integers, path: Path, threads: int | None) -> None:
    """Add rows of the matrix to a graph and write it."""
    faiss = require("faiss", "ann")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads or before)
    try:
        for start in range(0, len(rows), _BLOCK_ROWS):
            graph.add(np.ascontiguousarray(matrix[rows[start : start + _BLOCK_ROWS]], np.float32))
    finally:
        faiss.omp_set_num_threads(before)
    faiss.write_index(graph, str(path))


def _rows_file(path: Path) -> Path:
    """The row of each node; missing where they are the same."""
    return path.with_suffix(".rows.npy")
