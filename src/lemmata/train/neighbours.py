"""Neighbour sampling: the part of a graph that some nodes hear from, with a limited number of messages to each node.

Works on arrays; the inner loop is compiled by numba (extra `geometry`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from lemmata.core.errors import require
from lemmata.core.types import Integers, Mask
from lemmata.graph.attention import by_receiver


class Part(NamedTuple):
    """Some nodes of a graph, and messages between them."""

    nodes: Integers  # (p,) in the whole graph
    messages: Integers  # (m,) their numbers in the whole graph
    sources: Integers  # (m,) places among the nodes
    targets: Integers  # (m,)


class NeighbourSampler:
    """Messages (m,) of a graph by the node that receives them; holds (nodes,) numbers between calls."""

    def __init__(self, sources: Integers, targets: Integers, nodes: int) -> None:
        self._sources, self._targets = np.ascontiguousarray(sources), targets
        self._numbers, self._indptr = by_receiver(targets, nodes)
        self._place = np.full(nodes, -1, np.int64)

    def sample(self, wanted: Integers, hops: int, fan_out: int, kept: Mask, generator: np.random.Generator) -> Part:
        """The part that `wanted` nodes hear from over `hops` layers.

        Every node gets at most `fan_out` messages of those that are `kept` (m,), drawn without replacement. Where none
        has more, the layers give the wanted nodes exactly what they give over the whole graph. Nodes that only the
        last hop reaches get no messages: they are read before the first layer.
        """
        draw = compiled_draw()
        frontier = np.unique(wanted)
        nodes, chosen = [frontier], []
        self._place[frontier] = np.arange(len(frontier))
        count = len(frontier)
        for _ in range(hops):
            messages = draw(self._indptr, self._numbers, kept, frontier, fan_out, generator)
            senders = self._sources[messages]
            frontier = np.unique(senders[self._place[senders] < 0])
            self._place[frontier] = np.arange(count, count + len(frontier))
            count += len(frontier)
            nodes.append(frontier)
            chosen.append(messages)
        all_nodes, numbers = np.concatenate(nodes), np.concatenate(chosen)
        part = Part(all_nodes, numbers, self._place[self._sources[numbers]], self._place[self._targets[numbers]])
        self._place[all_nodes] = -1
        return part


@cache
def compiled_draw() -> Callable[..., Integers]:
    """`_draw` as machine code."""
    numba = require("numba", "geometry")
    compiled: Callable[..., Integers] = numba.njit(cache=True)(_draw)
    return compiled


def _draw(
    indptr: Integers, numbers: Integers, kept: Mask, nodes: Integers, fan_out: int, generator: np.random.Generator
) -> Integers:
    """At most `fan_out` kept messages to each of some nodes, by reservoir sampling (Vitter 1985)."""
    result = np.empty(len(nodes) * fan_out, np.int64)
    end = 0
    for node in nodes:
        begin, seen = end, 0
        for place in range(indptr[node], indptr[node + 1]):
            message = numbers[place]
            if not kept[message]:
                continue
            seen += 1
            if seen <= fan_out:
                result[end] = message
                end += 1
            else:
                chosen = int(generator.random() * seen)
                if chosen < fan_out:
                    result[begin + chosen] = message
    return result[:end].copy()
