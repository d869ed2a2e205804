"""Whether a hierarchy of coarser graphs makes geodesic search faster, and what it loses.

    python -m bench.geodesic_levels FOLDER [--nodes 169343] [--edges 1166243] [--out FILE]

FOLDER is that of bench/geodesic_speed.py, which makes the graph. Every level has a tenth of the nodes of the one below:
k-means on the vectors, with the mean vector of a cluster and the mean length of the edges between two. A search begins
at the coarsest level, and goes down into the nearest clusters only, as often as there are levels. Flat search is the
exact one; `nodes` are those settled at all levels, `kept` is the share of the 20 exact results that are found. Once as
lemmata searches, which ends with the 20th result, and once through everything that is allowed, as without that stop.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.errors import require
from lemmata.geometry.geodesic import Start, compiled_trees
from lemmata.geometry.lengths import distance
from lemmata.index.exact import ExactIndex
from lemmata.paths import QUERY_WEIGHT, SEEDS
from lemmata.types import Floats, Integers, MeasuredGraph

K = 20
WIDTH = 40  # clusters that are searched at the next level


class Level(NamedTuple):
    """A graph, and the cluster of each of its nodes one level up."""

    graph: MeasuredGraph
    cluster: Integers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=169_343)
    parser.add_argument("--edges", type=int, default=1_166_243)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = options.folder / f"{options.nodes}-{options.edges}-{options.dimension}"
    names = ("matrix", "both_indptr", "targets", "lengths", "edges")
    matrix, *parts = (np.load(folder / f"{name}.npy") for name in names)
    graph = MeasuredGraph(*parts)
    generator = np.random.default_rng(0)
    near = matrix[np.sort(generator.choice(len(matrix), options.queries, replace=False))]
    vectors = near + generator.normal(scale=0.5 / np.sqrt(matrix.shape[1]), size=near.shape).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    seeds, similarities = ExactIndex(matrix).search(vectors, SEEDS)
    starts = [(rows, QUERY_WEIGHT * distance(cosines)) for rows, cosines in zip(seeds, similarities, strict=True)]
    levels = [Level(graph, np.empty(0, np.int64))]
    report: dict[str, Any] = {}
    for number in range(1, 5):
        for stops, k in (("stopping early", K), ("without", len(matrix))):
            figures = [_search(levels, rows, lengths, k) for rows, lengths in starts]
            exact = [_settle(graph, rows, lengths, K)[0] for rows, lengths in starts]
            kept = [np.isin(best, found[:K]).mean() for best, (found, _, _) in zip(exact, figures, strict=True)]
            name = f"{number} level{'s' * (number > 1)}, {stops}"
            report[name] = {
                "ms": round(1000 * float(np.median([seconds for _, _, seconds in figures])), 3),
                "nodes": round(float(np.mean([settled for _, settled, _ in figures]))),
                "kept": round(float(np.mean(kept)), 3),
            }
            print(name, report[name], flush=True)
        if number < 4:
            matrix = _coarsen(levels, matrix)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


def _coarsen(levels: list[Level], matrix: Floats) -> Floats:
    """Add a level with a tenth of the nodes; returns its vectors."""
    faiss = require("faiss", "ann")
    graph = levels[-1].graph
    count = max(20, len(matrix) // 10)
    sample = min(len(matrix), 20 * count)  # vectors that k-means reads
    kmeans = faiss.Kmeans(
        matrix.shape[1], count, niter=5, seed=0, max_points_per_centroid=20, min_points_per_centroid=1
    )
    kmeans.train(np.ascontiguousarray(matrix[np.random.default_rng(0).permutation(len(matrix))[:sample]]))
    cluster = kmeans.index.search(matrix, 1)[1][:, 0].astype(np.int64)
    levels[-1] = Level(graph, cluster)
    sources = cluster[np.repeat(np.arange(len(matrix)), np.diff(graph.indptr))]
    targets = cluster[graph.targets]
    between = sources != targets
    pairs, places = np.unique(sources[between] * count + targets[between], return_inverse=True)
    lengths = (np.bincount(places, graph.lengths[between]) / np.bincount(places)).astype(np.float32)
    order = np.lexsort((lengths, pairs // count))
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(pairs // count, minlength=count), out=indptr[1:])
    coarse = MeasuredGraph(
        indptr, (pairs % count)[order].astype(np.int32), lengths[order], np.zeros(len(pairs), np.int64)
    )
    levels.append(Level(coarse, np.empty(0, np.int64)))
    means = np.zeros((count, matrix.shape[1]), np.float32)
    np.add.at(means, cluster, matrix)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    return means


def _search(levels: list[Level], seeds: Integers, lengths: Floats, k: int) -> tuple[Integers, int, float]:
    """The nearest nodes of the finest level, how many were settled at all levels, and the seconds that it took."""
    members = [seeds]
    for level in levels[:-1]:
        members.append(level.cluster[members[-1]])
    settled, seconds = 0, 0.0
    closed: Integers = np.empty(0, np.int64)
    for depth in range(len(levels) - 1, -1, -1):
        width = k if depth == 0 or k > K else WIDTH
        found, spent = _settle(levels[depth].graph, members[depth], lengths, width, closed)
        settled, seconds = settled + len(found), seconds + spent
        if depth:
            chosen = np.zeros(len(levels[depth].graph.indptr) - 1, bool)
            chosen[found[:WIDTH]] = True
            closed = np.flatnonzero(~chosen[levels[depth - 1].cluster])
    return found, settled, seconds


def _settle(graph: MeasuredGraph, seeds: Integers, lengths: Floats, k: int, closed: Integers | None = None) -> Any:
    blocked = np.empty(0, np.int64) if closed is None else closed
    start = Start(np.asarray(seeds, np.int64), np.asarray(lengths, np.float64), blocked)
    begin = time.thread_time()
    tree = compiled_trees(graph, [start], k, threads=1)[0]
    return tree.nodes, time.thread_time() - begin


if __name__ == "__main__":
    main()
