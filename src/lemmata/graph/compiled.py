"""The inner loop of geodesic search, compiled by numba (extra `geometry`): importing this module loads numba.

The machine code is stored beside this file, or in the user's cache where that is read-only: only the first process
after an installation compiles, in a few seconds.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from lemmata.core.types import Floats, Integers, Mask

Floats64 = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]


def _stored(item: Any) -> Any:
    return numba.types.Array(item, 1, "C", readonly=True)  # also what is memory-mapped


_INT, _FLOAT, _BOOL = numba.types.int64, numba.types.float64, numba.types.boolean
_GRAPH = _stored(_INT), _stored(numba.types.int32), _stored(numba.types.float32)
_SIGNATURE = (*_GRAPH, _stored(_INT), _stored(_FLOAT), _stored(_INT), _stored(_BOOL), _INT, _INT, _BOOL[::1])


# An item of the heap is a place in the tree, with the distance of the node that its next edge leads to as its key; ties
# go by that node, then by that edge. Whether the first of two items with equal keys comes first:
@numba.njit(inline="always")
def _wins_tie(one: int, other: int, next_node: Int32s, next_entry: Integers) -> bool:
    if next_node[one] != next_node[other]:
        return bool(next_node[one] < next_node[other])
    return bool(next_entry[one] < next_entry[other])


@numba.njit(inline="always")
def _first_open(entry: int, stop: int, targets: Int32s, closed: Mask) -> int:
    """The first edge from `entry` that leads to a node which is not settled, or `stop`."""
    while entry < stop and closed[targets[entry]]:
        entry += 1
    return entry


@numba.njit(inline="always")
def _rise(
    keys: Floats64, places: Int32s, hole: int, key: float, place: int, next_node: Int32s, next_entry: Integers
) -> None:
    """Put an item into the heap, whose last place `hole` is free."""
    while hole > 0:
        above = (hole - 1) >> 1
        if keys[above] < key or (keys[above] == key and not _wins_tie(place, places[above], next_node, next_entry)):
            break
        keys[hole], places[hole] = keys[above], places[above]
        hole = above
    keys[hole], places[hole] = key, place


@numba.njit(inline="always")
def _sink(
    keys: Floats64, places: Int32s, size: int, key: float, place: int, next_node: Int32s, next_entry: Integers
) -> None:
    """Put an item into the heap, whose first place is free."""
    hole, child = 0, 1
    while child < size:
        right = child + 1
        if right < size and (
            keys[right] < keys[child]
            or (keys[right] == keys[child] and _wins_tie(places[right], places[child], next_node, next_entry))
        ):
            child = right
        if key < keys[child] or (key == keys[child] and not _wins_tie(places[child], place, next_node, next_entry)):
            break
        keys[hole], places[hole] = keys[child], places[child]
        hole, child = child, 2 * child + 1
    keys[hole], places[hole] = key, place


@numba.njit(_SIGNATURE, cache=True, nogil=True)
def settle(
    indptr: Integers,
    targets: Int32s,
    lengths: Floats,
    starts: Integers,
    from_query: Floats64,
    blocked: Integers,
    counted: Mask,
    k: int,
    limit: int,
    closed: Mask,
) -> tuple[int, Int32s, Floats64, Int32s, Integers]:
    """How many nodes were settled, and nodes, distances, parents and entries of the tree of `geodesic.search_tree`.

    The first places of the tree stand for the query, once for each start. `counted` may be empty: all nodes count.
    `closed` (nodes,) is all False, before and after.
    """
    first = len(starts)
    room = first + len(indptr) - 1  # memory that nobody writes to is not taken from the system
    nodes, distances = np.empty(room, np.int32), np.empty(room, np.float64)
    parents, entries = np.empty(room, np.int32), np.empty(room, np.int64)
    next_node, next_entry = np.empty(room, np.int32), np.empty(room, np.int64)  # by place: the edge that waits
    keys, places = np.empty(room, np.float64), np.empty(room, np.int32)  # the heap
    for node in blocked:
        closed[node] = True
    for place in range(first):
        next_node[place], next_entry[place] = starts[place], -1
        _rise(keys, places, place, from_query[place], place, next_node, next_entry)
    size, settled, missing = first, first, k
    while size > 0 and missing > 0 and settled - first < limit:
        distance, place = keys[0], places[0]
        node, entry = next_node[place], next_entry[place]
        is_new = not closed[node]
        if is_new:
            closed[node] = True
            nodes[settled], distances[settled], parents[settled], entries[settled] = node, distance, place, entry
            settled += 1
            if len(counted) == 0 or counted[node]:
                missing -= 1
        # the next edge of the parent takes the place of this one
        stop = indptr[nodes[place] + 1] if entry >= 0 else 0
        entry = _first_open(entry + 1, stop, targets, closed)
        if entry < stop:
            next_node[place], next_entry[place] = targets[entry], entry
            _sink(keys, places, size, distances[place] + lengths[entry], place, next_node, next_entry)
        else:
            size -= 1
            _sink(keys, places, size, keys[size], places[size], next_node, next_entry)
        if is_new:
            entry = _first_open(indptr[node], indptr[node + 1], targets, closed)
            if entry < indptr[node + 1]:
                next_node[settled - 1], next_entry[settled - 1] = targets[entry], entry
                _rise(keys, places, size, distance + lengths[entry], settled - 1, next_node, next_entry)
                size += 1
    for number in range(first, settled):
        closed[nodes[number]] = False
    for node in blocked:
        closed[node] = False
    return settled, nodes, distances, parents, entries
