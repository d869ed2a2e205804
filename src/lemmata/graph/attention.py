"""Graph attention over all nodes in little memory, and samples of large graphs, compiled by numba (extra `geometry`).

What a node receives is summed up at once, block by block: messages are never stored, which is what makes attention over
a large graph expensive elsewhere. Works on arrays; needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import require
from lemmata.core.types import Floats, Integers, Mask

_NODES = 512  # that receive at once: 2 MB at four heads of 256 numbers, so they stay in the cache
_SLOPE = 0.2  # of the leaky rectifier


class Incoming(NamedTuple):
    """The messages of a graph, by the node that receives them."""

    indptr: Integers  # (nodes + 1,)
    sources: Integers  # (messages,)
    kinds: npt.NDArray[np.int8]  # (messages,)


class Layer(NamedTuple):
    """The weights of one layer (Veličković and others 2018), with a bias per kind of message."""

    weight: Floats  # (inputs, heads · width)
    sending: Floats  # (heads, width)
    receiving: Floats  # (heads, width)
    kinds: Floats  # (kinds, heads)
    average: bool  # over the heads; otherwise they are concatenated, and negative numbers bent (ELU)


def incoming(sources: Integers, targets: Integers, kinds: Integers, nodes: int) -> Incoming:
    """Messages (m,) sorted by the node that receives them."""
    order, indptr = by_receiver(targets, nodes)
    return Incoming(indptr, np.asarray(sources)[order].astype(np.int64), np.asarray(kinds)[order].astype(np.int8))


def by_receiver(targets: Integers, nodes: int) -> tuple[Integers, Integers]:
    """Numbers of messages (m,) sorted by the node that receives them, and where those of each begin (nodes + 1,)."""
    indptr = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(targets, minlength=nodes), out=indptr[1:])
    return np.argsort(targets, kind="stable"), indptr


def attend(received: Incoming, hidden: Floats, layer: Layer) -> Floats:
    """What the nodes (n, inputs) become by one layer: (n, width) or, concatenated, (n, heads · width).

    Heads that are averaged gather the inputs of their senders, and are multiplied by their weights afterwards: the
    same sum, but (nodes, heads · width) numbers are never in memory.
    """
    heads, width = layer.sending.shape
    inputs = hidden.shape[1]
    by_head = layer.weight.reshape(inputs, heads, width)
    sending, receiving = (
        np.ascontiguousarray(hidden @ np.einsum("dhw,hw->dh", by_head, part))
        for part in (layer.sending, layer.receiving)
    )
    values = np.ascontiguousarray(hidden if layer.average else hidden @ layer.weight)
    step = 0 if layer.average else width
    result = np.empty((len(hidden), width if layer.average else heads * width), np.float32)
    after = by_head.transpose(1, 0, 2).reshape(heads * inputs, width) / np.float32(heads)
    gathered = np.empty((_NODES, heads, inputs) if layer.average else 0, np.float32)
    gather = compiled_gather()
    for start in range(0, len(hidden), _NODES):
        rows = result[start : start + _NODES]
        block = gathered[: len(rows)] if layer.average else rows.reshape(len(rows), heads, width)
        gather(*received, sending, receiving, layer.kinds, values, step, start, block)
        if layer.average:
            np.matmul(block.reshape(len(rows), heads * inputs), after, out=rows)
        else:
            _elu(rows)
    return result


def _elu(values: Floats) -> None:
    """In place."""
    negative = np.minimum(values, 0)
    np.exp(negative, out=negative)
    negative -= 1
    np.maximum(values, 0, out=values)
    values += negative


@cache
def compiled_gather() -> Callable[..., None]:
    numba = require("numba", "geometry")
    compiled: Callable[..., None] = numba.njit(cache=True, nogil=True, fastmath={"contract"})(_gather)
    return compiled


def _gather(
    indptr: Integers,
    sources: Integers,
    kinds: Any,
    sending: Floats,
    receiving: Floats,
    bias: Floats,
    values: Floats,
    step: int,
    start: int,
    result: Floats,
) -> None:
    """Fill in `result` (block, heads, width): the sums of values, weighted by attention.

    Head h reads width numbers from place h · step of the values of a sender.
    """
    nodes, heads, width = result.shape
    most = np.max(indptr[start + 1 : start + nodes + 1] - indptr[start : start + nodes])
    weights = np.empty((most, heads), np.float32)
    for place in range(nodes):
        node = start + place
        first, count = indptr[node], indptr[node + 1] - indptr[node]
        for head in range(heads):
            highest, total = np.float32(-np.inf), np.float32(0)
            for number in range(count):
                source, kind = sources[first + number], kinds[first + number]
                score = sending[source, head] + receiving[node, head] + bias[kind, head]
                score = max(score, np.float32(_SLOPE) * score)
                weights[number, head] = score
                highest = max(highest, score)
            for number in range(count):
                weights[number, head] = math.exp(weights[number, head] - highest)
                total += weights[number, head]
            for number in range(count):
                weights[number, head] /= total
        result[place] = 0
        for number in range(count):
            source = sources[first + number]
            for head in range(heads):
                weight = weights[number, head]
                own, sent = result[place, head], values[source, head * step : head * step + width]
                for column in range(width):
                    own[column] += weight * sent[column]


# ---------------------------------------------------------------- a part of the graph


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
