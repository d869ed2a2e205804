"""Bridges: several different paths between two ends of a graph, and how many such paths chance would give.

Works on arrays; knows neither texts nor files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lemmata.core.types import MeasuredGraph
from lemmata.graph.geodesic import search_trees

_SHARED = 16  # nodes that are tried as the one that two paths share


class End(NamedTuple):
    """Where a path begins or ends: a node of the graph, or a text with the nodes nearest to it."""

    nodes: tuple[int, ...]
    distances: tuple[float, ...] = ()  # of each node from the text; empty: the end is the node itself

    @property
    def node(self) -> int:
        """The node that it is; -1 for a text."""
        return -1 if self.distances else self.nodes[0]


class Route(NamedTuple):
    """A path; a text is no node of it."""

    nodes: tuple[int, ...]
    entries: tuple[int, ...]  # (nodes - 1,) its edges: places in the targets of the MeasuredGraph
    length: float  # with the distances from texts

    def inner(self, first: End, last: End) -> tuple[int, ...]:
        """The nodes between the ends."""
        return self.nodes[first.node >= 0 : len(self.nodes) - (last.node >= 0)]


def diverse_routes(graph: MeasuredGraph, first: End, last: End, k: int) -> list[Route]:
    """At most k paths between two ends, shortest first; none between a node and itself.

    The first one is the shortest of all. Each further one is the shortest that avoids all inner nodes of those before
    it. Where there is none, it may share one of them, but not the only one of another path: a detour is no new path.
    Ends that are neighbours have a path without inner nodes, too.
    """
    if first.node >= 0 and first.node == last.node:
        return []
    routes: list[Route] = []
    used: set[int] = set()
    while len(routes) < k:
        route = _shortest(graph, first, last, [used], 1)
        if route is None:
            inner = [each.inner(first, last) for each in routes]
            route = _shortest(graph, first, last, [used - {node} for node in _shareable(inner)], 2)
        if route is None:
            break
        routes.append(route)
        used |= {*route.inner(first, last)}
    return sorted([*_direct(graph, first, last), *routes], key=lambda route: route.length)[:k]


def _shareable(paths: Sequence[tuple[int, ...]]) -> list[int]:
    """Inner nodes that a further path may share, those next to an end first: there the graph is often narrow."""
    alone = {path[0] for path in paths if len(path) == 1}
    places = [(min(place, len(path) - 1 - place), node) for path in paths for place, node in enumerate(path)]
    return list(dict.fromkeys(node for _, node in sorted(places) if node not in alone))[:_SHARED]


def _direct(graph: MeasuredGraph, first: End, last: End) -> list[Route]:
    for text, node in ((first, last.node), (last, first.node)):
        if text.node < 0 and node in text.nodes:
            return [Route((node,), (), text.distances[text.nodes.index(node)])]
    if first.node < 0 or last.node < 0 or (entry := _edges(graph, first.node).get(last.node)) is None:
        return []
    return [Route((first.node, last.node), (entry,), float(graph.lengths[entry]))]


def _edges(graph: MeasuredGraph, node: int) -> dict[int, int]:
    """The shortest edge to each neighbour of a node; edges are sorted by length."""
    begin, end = int(graph.indptr[node]), int(graph.indptr[node + 1])
    edges: dict[int, int] = {}
    for entry, target in enumerate(graph.targets[begin:end].tolist(), begin):
        edges.setdefault(target, entry)
    return edges


def _shortest(graph: MeasuredGraph, first: End, last: End, blocked: Sequence[set[int]], fewest: int) -> Route | None:
    """The shortest path that avoids all nodes of a set, for the best of some sets; it has an inner node.

    If it has less than `fewest`, the set is not used.
    """
    edges: dict[int, int] = {}
    if first.node >= 0:
        edges = _edges(graph, first.node)
        starts = {node: float(graph.lengths[entry]) for node, entry in edges.items()}
    else:
        starts = dict(zip(first.nodes, first.distances, strict=True))
    ends = dict(zip(last.nodes, last.distances or (0.0,), strict=True))
    starts.pop(last.node, None)
    ends.pop(first.node, None)
    if not starts or not ends:
        return None
    counted = np.zeros(len(graph.indptr) - 1, bool)
    counted[list(ends)] = True
    own_node = {first.node} - {-1}
    count = len(blocked)
    trees = search_trees(
        graph,
        [list(starts)] * count,
        [list(starts.values())] * count,
        len(ends),
        counted=counted,
        blocked=[sorted(nodes | own_node) for nodes in blocked],
    )
    routes = []
    for tree in trees:
        reached = {place: ends[int(tree.nodes[place])] for place in np.flatnonzero(counted[tree.nodes]).tolist()}
        if not reached:
            continue
        place = min(reached, key=lambda place: tree.distances[place] + reached[place])
        places = tree.path(place)
        nodes, entries = tree.nodes[places].tolist(), tree.entries[places[1:]].tolist()
        if first.node >= 0:
            nodes, entries = [first.node, *nodes], [edges[nodes[0]], *entries]
        routes.append(Route((*nodes,), (*entries,), float(tree.distances[place] + reached[place])))
    usable = [route for route in routes if len(route.inner(first, last)) >= fewest]
    return min(usable, key=lambda route: route.length, default=None)


def expected_routes(graph: MeasuredGraph, first: End, last: End, route: Route) -> float:
    """How many such paths a random graph with the same degrees has, on average: small is unusual.

    Such a path has at most as many edges as this one, and no inner node with more edges than its largest. In the
    configuration model (stubs of edges, paired at random) with n stubs, nodes i and j share d_i d_j / n edges on
    average, so E = Σ_{h = 1 … edges} (d_A d_B / n) (Σ_v d_v (d_v - 1) / n)^(h - 1) with v over possible inner nodes. A
    text counts as one node with all edges of its nearest nodes. Where the path has no edge, since a node is near to
    both ends, E is the mean number of nodes that random sets of their sizes share. Lengths and relations play no part.
    Where a long path through a hub gives more than a float holds, E is the largest one: JSON has no infinity.
    """
    degrees = np.diff(graph.indptr).astype(np.float64)
    if not route.entries:
        return len(first.nodes) * len(last.nodes) / len(degrees)
    stubs = degrees.sum()
    ends = [*first.nodes, *last.nodes]
    between = degrees[list(route.nodes[1:-1])]
    usable = degrees <= between.max(initial=0)
    usable[ends] = False
    growth = float((degrees * (degrees - 1))[usable].sum() / stubs)
    edges = float(degrees[list(first.nodes)].sum() * degrees[list(last.nodes)].sum() / stubs)
    with np.errstate(over="ignore"):
        expected = edges * np.power(growth, np.arange(len(route.entries))).sum()
    return min(float(expected), sys.float_info.max)
