"""The inner loop of geodesic search, for numba to compile (extra `geometry`).

The machine code is stored beside this file, or in the user's cache where that is read-only: only the first process
after an installation compiles, in two seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import require
from lemmata.core.types import Floats, Integers, Mask

Floats64 = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Settled = tuple[int, Int32s, Floats64, Int32s, Integers]


@cache
def compiled_settle() -> Callable[..., Settled]:
    """`settle` as machine code; releases the interpreter lock."""
    numba = require("numba", "geometry")
    types = numba.types

    def stored(item: Any) -> Any:
        return types.Array(item, 1, "C", readonly=True)  # also what is memory-mapped

    integers, floats = types.int64, types.float64
    result = types.Tuple((integers, types.int32[::1], floats[::1], types.int32[::1], integers[::1]))
    graph = stored(integers), stored(types.int32), stored(types.float32)
    start = stored(integers), stored(floats), stored(integers)
    signature = result(*graph, *start, stored(types.boolean), integers, integers, types.boolean[::1])
    compiled: Callable[..., Settled] = numba.njit(signature, cache=True, nogil=True)(settle)
    return compiled


def settle(
    indptr: Integers,
    targets: Int32s,
    lengths: Floats,
    seeds: Integers,
    from_query: Floats64,
    blocked: Integers,
    counted: Mask,
    k: int,
    limit: int,
    closed: Mask,
) -> Settled:
    """How many nodes were settled, and nodes, distances, parents and entries of the tree of `geodesic.search_tree`.

    The first places of the tree stand for the query, once for each seed, so that an item of the heap is a place: that
    of the node whose next edge waits. `counted` may be empty: all nodes count. `closed` (nodes,) is all False, before
    and after. Ties are broken as in a heap of Python tuples (distance, node, entry).
    """
    first = len(seeds)
    room = first + len(indptr) - 1  # memory that nobody writes to is not taken from the system
    tree_nodes, distances = np.empty(room, np.int32), np.empty(room, np.float64)
    parents, entries = np.empty(room, np.int32), np.empty(room, np.int64)
    next_node, next_entry = np.empty(room, np.int32), np.empty(room, np.int64)  # by place: the edge that waits
    keys, places = np.empty(room, np.float64), np.empty(room, np.int32)  # the heap
    size = 0
    settled = first
    missing = k
    for node in blocked:
        closed[node] = True
    waiting = 0  # seeds that are not in the heap yet
    key, place = 0.0, np.int32(-1)
    while True:
        # ------------------------------------------------ put the item (key, place) into the heap, if there is one
        if place >= 0:
            hole = size
            size += 1
            while hole > 0:
                above = (hole - 1) >> 1
                other = places[above]
                if keys[above] < key or (
                    keys[above] == key
                    and (
                        next_node[other] < next_node[place]
                        or (next_node[other] == next_node[place] and next_entry[other] <= next_entry[place])
                    )
                ):
                    break
                keys[hole], places[hole] = keys[above], other
                hole = above
            keys[hole], places[hole] = key, place
        if waiting < first:
            key, place = from_query[waiting], np.int32(waiting)
            next_node[place], next_entry[place] = seeds[waiting], -1
            waiting += 1
            continue
        # ------------------------------------------------ settle the nearest node
        if size == 0 or missing <= 0 or settled - first >= limit:
            break
        key, place = keys[0], places[0]
        node, entry = next_node[place], next_entry[place]
        is_new = not closed[node]
        if is_new:
            closed[node] = True
            tree_nodes[settled], distances[settled] = node, key
            parents[settled], entries[settled] = place, entry
            settled += 1
            if len(counted) == 0 or counted[node]:
                missing -= 1
        nearest, nearest_key = node, key
        # ------------------------------------------------ the next edge of the parent takes its place in the heap
        is_waiting = False
        if entry >= 0:
            stop = indptr[tree_nodes[place] + 1]
            entry += 1
            while entry < stop and closed[targets[entry]]:
                entry += 1
            if entry < stop:
                is_waiting = True
                key = distances[place] + lengths[entry]
                next_node[place], next_entry[place] = targets[entry], entry
        if not is_waiting:
            size -= 1
            key, place = keys[size], places[size]
        if size:
            hole = 0
            while True:
                child = 2 * hole + 1
                if child >= size:
                    break
                one = places[child]
                if child + 1 < size:
                    other = places[child + 1]
                    if keys[child + 1] < keys[child] or (
                        keys[child + 1] == keys[child]
                        and (
                            next_node[other] < next_node[one]
                            or (next_node[other] == next_node[one] and next_entry[other] < next_entry[one])
                        )
                    ):
                        child += 1
                        one = other
                if key < keys[child] or (
                    key == keys[child]
                    and (
                        next_node[place] < next_node[one]
                        or (next_node[place] == next_node[one] and next_entry[place] <= next_entry[one])
                    )
                ):
                    break
                keys[hole], places[hole] = keys[child], one
                hole = child
            keys[hole], places[hole] = key, place
        # ------------------------------------------------ the first edge of the new node goes into the heap
        place = np.int32(-1)
        if is_new:
            entry, stop = indptr[nearest], indptr[nearest + 1]
            while entry < stop and closed[targets[entry]]:
                entry += 1
            if entry < stop:
                place = np.int32(settled - 1)
                key = nearest_key + lengths[entry]
                next_node[place], next_entry[place] = targets[entry], entry
    for number in range(first, settled):
        closed[tree_nodes[number]] = False
    for node in blocked:
        closed[node] = False
    return settled, tree_nodes, distances, parents, entries
