"""A hierarchy of coarser graphs, in which a search goes from coarse to fine: off by default, since it finds less.

Clusters are those of k-means on the vectors of nodes, each level with a tenth of the nodes of the one below; two
clusters are as far apart as the edges between them are long on average. Exact search in the whole graph ends with its
k-th result and is faster (docs/RESULTS.md, "Speed of geodesic search"). Works on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lemmata.core.types import Floats, Integers, Mask, MeasuredGraph
from lemmata.graph.geodesic import search_tree

RATIO = 10  # nodes of a cluster, on average
_ROUNDS = 5  # of k-means
_MOST = 2000  # clusters that k-means makes at once; more are made by dividing these
_ROWS = 1 << 12  # vectors that are compared with all centres at once


class Level(NamedTuple):
    """A coarser graph, and the cluster that each node of the graph itself is in."""

    graph: MeasuredGraph
    cluster: Integers  # (nodes,); -1 for a node without a vector, which every search may pass


def coarser_levels(graph: MeasuredGraph, rows: Integers, vectors: Floats, levels: int) -> list[Level]:
    """The graphs above a graph, coarsest first; none for one level, the graph itself.

    `rows` (nodes,) are those of the nodes in `vectors` (n, dim), -1 where one has none.
    """
    generator = np.random.default_rng(0)
    nodes = np.flatnonzero(rows >= 0)
    wanted = levels - 1
    while wanted and len(nodes) // RATIO**wanted > _MOST:
        wanted += 1
    labels: list[Integers] = []  # coarse to fine, of `nodes`
    for power in range(wanted, 0, -1):
        number = max(1, len(nodes) // RATIO**power)
        if not labels:
            labels.append(_k_means(np.asarray(vectors[rows[nodes]], np.float32), number, generator))
            continue
        finer, free = np.empty(len(nodes), np.int64), 0
        order = np.argsort(labels[-1], kind="stable")
        for members in np.split(order, np.flatnonzero(np.diff(labels[-1][order])) + 1):
            parts = max(1, round(number * len(members) / len(nodes)))
            finer[members] = free + _k_means(np.asarray(vectors[rows[nodes[members]]], np.float32), parts, generator)
            free += parts
        labels.append(finer)
    result = []
    for label in labels[len(labels) - levels + 1 :]:
        cluster = np.full(len(rows), -1, np.int64)
        cluster[nodes] = label
        result.append(Level(_coarse(graph, cluster), cluster))
    return result


def open_nodes(levels: Sequence[Level], starts: Integers, distances: Floats, k: int) -> Mask:
    """Which nodes a search may visit: at each level, those in the k clusters that are nearest to the starts.

    The next level is searched inside these clusters only.
    """
    is_open = np.ones(len(levels[0].cluster), bool)
    for graph, cluster in levels:
        clustered = cluster[starts] >= 0
        closed = np.ones(len(graph.indptr) - 1, bool)
        closed[cluster[is_open & (cluster >= 0)]] = False
        nearest = cluster[starts[clustered]], np.asarray(distances)[clustered]
        tree = search_tree(graph, *nearest, k, blocked=np.flatnonzero(closed).tolist())
        chosen = np.zeros(len(closed) + 1, bool)
        chosen[np.append(tree.nodes, -1)] = True  # the last one: nodes without a cluster
        is_open &= chosen[cluster]
    return is_open


def _coarse(graph: MeasuredGraph, cluster: Integers) -> MeasuredGraph:
    count = int(cluster.max(initial=-1)) + 1
    sources, targets = cluster[np.repeat(np.arange(len(cluster)), np.diff(graph.indptr))], cluster[graph.targets]
    between = (sources != targets) & (sources >= 0) & (targets >= 0)
    pairs, places = np.unique(sources[between] * count + targets[between], return_inverse=True)
    lengths = (np.bincount(places, graph.lengths[between]) / np.maximum(np.bincount(places), 1)).astype(np.float32)
    order = np.lexsort((lengths, pairs // count))
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(pairs // count, minlength=count), out=indptr[1:])
    return MeasuredGraph(indptr, (pairs % count)[order].astype(np.int32), lengths[order], np.arange(len(pairs)))


def _k_means(vectors: Floats, count: int, generator: np.random.Generator) -> Integers:
    """The cluster of each vector (Lloyd 1982), numbered from 0; some may be empty."""
    if count <= 1 or len(vectors) <= count:
        return np.arange(len(vectors)) if len(vectors) <= count else np.zeros(len(vectors), np.int64)
    centres = vectors[generator.choice(len(vectors), count, replace=False)]
    for _ in range(_ROUNDS):
        squares = np.square(centres).sum(axis=1)
        blocks = (vectors[start : start + _ROWS] for start in range(0, len(vectors), _ROWS))
        label = np.concatenate([(squares - 2 * block @ centres.T).argmin(axis=1) for block in blocks])
        sums = np.zeros_like(centres)
        np.add.at(sums, label, vectors)
        sizes = np.bincount(label, minlength=count)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres).astype(np.float32)
    return np.asarray(label, np.int64)
