"""Geodesic search: shortest paths from the nearest passages of a query along the edges of a graph.

Works on arrays; knows neither texts nor files. Lengths come from anywhere: one per edge and direction, not negative.
"""

from __future__ import annotations

import heapq
import importlib.util
import math
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import require
from lemmata.core.types import Floats, Integers, Mask, MeasuredGraph
from lemmata.core.workers import available_cores

Floats64 = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int32] | Integers
# edges that plain Python looks at before the compiled search takes over: 0.1 s, less than loading numba takes (0.4 s)
_PYTHON_EDGES = 30_000
_FEW = 8  # queries that are not worth loading numba for


class Tree(NamedTuple):
    """Nodes in the order of their distance from the query, each with the node that it was reached from."""

    nodes: Numbers  # (m,)
    distances: Floats64  # (m,)
    parents: Numbers  # (m,) places in this tree; -1 for a start
    entries: Integers  # (m,) places in the targets of the MeasuredGraph; -1 for a start

    def path(self, place: int) -> list[int]:
        """Places from the start to a place, both included."""
        places = [place]
        while self.parents[places[-1]] >= 0:
            places.append(int(self.parents[places[-1]]))
        return places[::-1]


def search_tree(
    graph: MeasuredGraph,
    starts: Sequence[int] | Integers,
    distances: Sequence[float] | Floats,
    k: int,
    *,
    counted: Mask | None = None,
    blocked: Sequence[int] = (),
    limit: int = sys.maxsize,
) -> Tree:
    """The shortest paths from the nodes `starts`, at their `distances` from the query, to the k nearest nodes.

    d(v) = min over starts s and paths γ from s to v of d(s) + Σ length of the edges of γ. Nodes are settled in order
    of d (Dijkstra 1959), since lengths are not negative: whatever is not settled is at least as far as the last node
    that is. So the search ends with the k-th node that counts, and no other node can be nearer: stopping early
    changes nothing. Nodes of equal distance come in a fixed order.

    Only the shortest edge of a settled node that was not tried yet waits in the heap, which works because its edges
    are sorted by length; of a hub with a thousand edges mostly few are looked at.

    `counted` (nodes,) says which nodes count, by default all. No path goes through `blocked` nodes. A tree with fewer
    than k nodes that count holds everything that can be reached, or the `limit` nearest nodes.
    """
    return search_trees(graph, [starts], [distances], k, counted=counted, blocked=[blocked], limit=limit)[0]


def search_trees(
    graph: MeasuredGraph,
    starts: Sequence[Sequence[int] | Integers],
    distances: Sequence[Sequence[float] | Floats],
    k: int,
    *,
    counted: Mask | None = None,
    blocked: Sequence[Sequence[int]] | None = None,
    limit: int = sys.maxsize,
    threads: int | None = None,
) -> list[Tree]:
    """The trees of many queries, as `search_tree` gives them, in order; `threads` are by default as many as cores.

    Few queries are answered in plain Python, unless they lead far: that takes less time than loading numba. Many need
    numba (extra `geometry`) to be fast; without it they are answered, too.
    """
    searches = [
        Start(np.asarray(nodes, np.int64), np.asarray(from_query, np.float64), np.asarray(closed, np.int64))
        for nodes, from_query, closed in zip(starts, distances, blocked or [()] * len(starts), strict=True)
    ]
    for start in searches:
        _check(graph, start)
    is_installed = "numba" in sys.modules or importlib.util.find_spec("numba") is not None
    if is_installed and ("numba" in sys.modules or len(searches) > _FEW):
        return compiled_trees(graph, searches, k, counted, limit=limit, threads=threads)
    trees: list[Tree] = []
    budget = _PYTHON_EDGES if is_installed else sys.maxsize
    for start in searches:
        tree = python_tree(graph, start, k, counted, limit=limit, budget=budget)
        if tree is None:
            return trees + compiled_trees(graph, searches[len(trees) :], k, counted, limit=limit, threads=threads)
        trees.append(tree)
    return trees


class Start(NamedTuple):
    """Where a search begins, and where it may not go."""

    nodes: Integers  # that paths may begin with
    distances: Floats64
    blocked: Integers


def _check(graph: MeasuredGraph, start: Start) -> None:
    """The compiled search reads memory without looking: nodes must exist, and a distance be a number."""
    for nodes in (start.nodes, start.blocked):
        if len(nodes) and not (nodes.min() >= 0 and nodes.max() < len(graph.indptr) - 1):
            raise IndexError(
                f"nodes are numbered from 0 to {len(graph.indptr) - 2}, not {nodes.min()} to {nodes.max()}"
            )
    if len(start.nodes) != len(start.distances) or not (start.distances >= 0).all():
        raise ValueError("every start needs a distance of 0 or more")


def coherence(lengths: Sequence[float]) -> float:
    """The smallest cosine of two neighbours on a path whose lengths are Euclidean: 1 - longest² / 2."""
    return 1 - max(lengths, default=0.0) ** 2 / 2


# ---------------------------------------------------------------- in plain Python


def python_tree(
    graph: MeasuredGraph,
    start: Start,
    k: int,
    counted: Mask | None = None,
    *,
    limit: int = sys.maxsize,
    budget: int = sys.maxsize,
) -> Tree | None:
    """`search_tree` with Python's heap; None where more than `budget` edges had to be looked at."""
    indptr, targets, lengths, _ = graph
    closed = set(start.blocked.tolist())
    heap = [(float(d), int(node), -1, -1) for node, d in zip(start.nodes, start.distances, strict=True)]
    heapq.heapify(heap)
    nodes: list[int] = []
    distances: list[float] = []
    parents: list[int] = []
    entries: list[int] = []
    missing, looked_at = k, 0
    while heap and missing > 0 and len(nodes) < limit:
        distance, node, entry, parent = heap[0]
        is_new = node not in closed
        if is_new:
            closed.add(node)
            nodes.append(node)
            distances.append(distance)
            parents.append(parent)
            entries.append(entry)
            missing -= counted is None or bool(counted[node])
        following, stop = (entry + 1, indptr[nodes[parent] + 1]) if parent >= 0 else (0, 0)
        while following < stop and int(targets[following]) in closed:
            following += 1
        if following < stop:  # the next edge of the parent takes the place of this one
            longer = distances[parent] + float(lengths[following])
            heapq.heapreplace(heap, (longer, int(targets[following]), following, parent))
            looked_at += following - entry
        else:
            heapq.heappop(heap)
        if is_new:
            first, stop = int(indptr[node]), int(indptr[node + 1])
            looked_at -= first
            while first < stop and int(targets[first]) in closed:
                first += 1
            looked_at += first + 1
            if first < stop:
                longer = distance + float(lengths[first])
                heapq.heappush(heap, (longer, int(targets[first]), first, len(nodes) - 1))
        if looked_at > budget:
            return None
    return Tree(
        np.array(nodes, np.int64),
        np.array(distances, np.float64),
        np.array(parents, np.int64),
        np.array(entries, np.int64),
    )


# ---------------------------------------------------------------- compiled


def compiled_trees(
    graph: MeasuredGraph,
    searches: Sequence[Start],
    k: int,
    counted: Mask | None = None,
    *,
    limit: int = sys.maxsize,
    threads: int | None = None,
) -> list[Tree]:
    """`search_trees` by numba; each thread has one byte per node."""
    require("numba", "geometry")
    from lemmata.graph.compiled import settle

    arrays = (
        np.ascontiguousarray(graph.indptr, np.int64),
        np.ascontiguousarray(graph.targets, np.int32),
        np.ascontiguousarray(graph.lengths, np.float32),
    )
    counted = np.zeros(0, bool) if counted is None else np.ascontiguousarray(counted)

    def answer(part: Sequence[Start]) -> list[Tree]:
        closed = np.zeros(len(graph.indptr) - 1, bool)
        return [settled(start, closed) for start in part]

    def settled(start: Start, closed: Mask) -> Tree:
        first = len(start.nodes)
        count, nodes, distances, parents, entries = settle(*arrays, *start, counted, k, limit, closed)
        part = slice(first, count)  # copied: the arrays have room for all nodes
        parents = np.maximum(parents[part] - first, -1)
        return Tree(nodes[part].copy(), distances[part].copy(), parents, entries[part].copy())

    threads = min(threads or available_cores(), len(searches))
    if threads <= 1:
        return answer(searches)
    step = math.ceil(len(searches) / threads)
    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(answer, (searches[first : first + step] for first in range(0, len(searches), step)))
        return [tree for part in parts for tree in part]
