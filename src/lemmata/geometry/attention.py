"""Graph attention over all nodes in little memory, for numba to compile (extra `geometry`).

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

from lemmata.errors import require
from lemmata.types import Floats, Integers

__all__ = ["Incoming", "Layer", "attend", "by_receiver", "incoming"]

_NODES = 4096  # that receive at once: 17 MB at four heads of 256 numbers
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
    wide, step = (inputs, 0) if layer.average else (width, width)
    result = np.empty((len(hidden), width if layer.average else heads * width), np.float32)
    after = by_head.transpose(1, 0, 2).reshape(heads * inputs, width) / np.float32(heads)
    gather = compiled_gather()
    for start in range(0, len(hidden), _NODES):
        gathered = np.zeros((min(_NODES, len(hidden) - start), heads, wide), np.float32)
        gather(*received, sending, receiving, layer.kinds, values, step, start, gathered)
        block = gathered.reshape(len(gathered), heads * wide)
        result[start : start + _NODES] = block @ after if layer.average else _elu(block)
    return result


def _elu(values: Floats) -> Floats:
    return np.asarray(np.maximum(values, 0) + (np.exp(np.minimum(values, 0)) - 1), np.float32)


@cache
def compiled_gather() -> Callable[..., None]:
    """`_gather` as machine code; releases the interpreter lock."""
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
    """Fill in `result` (block, heads, width), zeros before: the sums of values, weighted by attention.

    Head h reads width numbers from place h · step of the values of a sender.
    """
    nodes, heads, width = result.shape
    highest, total = np.empty(heads, np.float64), np.empty(heads, np.float64)
    for place in range(nodes):
        node = start + place
        highest[:] = -np.inf
        total[:] = 0
        for message in range(indptr[node], indptr[node + 1]):
            for head in range(heads):
                score = sending[sources[message], head] + receiving[node, head] + bias[kinds[message], head]
                highest[head] = max(highest[head], score if score > 0 else _SLOPE * score)
        for message in range(indptr[node], indptr[node + 1]):
            source = sources[message]
            for head in range(heads):
                score = sending[source, head] + receiving[node, head] + bias[kinds[message], head]
                weight = math.exp((score if score > 0 else _SLOPE * score) - highest[head])
                total[head] += weight
                share = np.float32(weight)
                own, sent = result[place, head], values[source, head * step : head * step + width]
                for number in range(width):
                    own[number] += share * sent[number]
        for head in range(heads):
            if total[head] > 0:
                result[place, head] *= np.float32(1 / total[head])
