"""Edges, neighbours and connected components, as arrays."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from lemmata.core.types import Graph, Integers, Mask
from lemmata.corpus.leakage import ranges


class Adjacency(NamedTuple):
    """The neighbours of number i are `members[starts[i] : starts[i + 1]]`, ascending."""

    starts: Integers  # (count + 1,)
    members: Integers

    def sizes(self, numbers: Integers) -> Integers:
        return np.asarray(self.starts[numbers + 1] - self.starts[numbers])

    def of(self, numbers: Integers) -> Integers:
        """The neighbours of some numbers, concatenated."""
        return self.members[ranges(self.starts[numbers], self.sizes(numbers))]


def adjacency(numbers: Integers, members: Integers, count: int) -> Adjacency:
    """From pairs of a number below `count` and a neighbour; repeated pairs count once."""
    span = int(members.max(initial=0)) + 1
    keys = np.unique(numbers * span + members)
    return Adjacency(np.searchsorted(keys, np.arange(count + 1) * span), keys % span)


def both_ways(sources: Integers, targets: Integers, count: int) -> Adjacency:
    """The neighbours of each number below `count` over edges, in either direction."""
    return adjacency(np.concatenate((sources, targets)), np.concatenate((targets, sources)), count)


def components(count: int, sources: Integers, targets: Integers) -> Integers:
    """For each number below `count` the smallest one that pairs connect it with, over any number of steps."""
    smallest = np.arange(count, dtype=np.int64)
    while True:
        before = smallest.copy()
        np.minimum.at(smallest, sources, before[targets])
        np.minimum.at(smallest, targets, before[sources])
        if np.array_equal(smallest, before):
            return smallest


def edges_of(graph: Graph, relations: Collection[str]) -> Mask:
    """Which edges have one of the relations."""
    return np.isin(graph.relation, [number for number, name in enumerate(graph.relations) if name in relations])
