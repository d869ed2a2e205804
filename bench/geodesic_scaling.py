"""How geodesic search grows with the graph: time of a query, given its seeds, and memory, over the number of nodes.

    python -m bench.geodesic_scaling FOLDER [--nodes 10000 100000 1000000] [--json OUT] [--chart OUT.svg]

The graphs are those of `bench/geodesic_speed.py`, with seven citations a node and vectors of 32 numbers. The seeds of a
query are its five nearest nodes by comparing all, which is not timed: an index finds them in a millisecond. Timed are
the 20 nearest nodes along the graph with the path to each, as `lemmata search --retriever geodesic` finds them, and the
search of the graph alone, settling 20 and 10,000 nodes. Each size runs in a process of its own, CPU milliseconds of one
thread. The chart has the times over the logarithm of the number of nodes.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench.geodesic_speed import _by_numba, _memory, _start, _times, make, measure

from lemmata.charts import Curve, LineChart, line_chart, svg_file
from lemmata.geometry.geodesic import compiled_trees
from lemmata.geometry.lengths import distance
from lemmata.index.exact import ExactIndex
from lemmata.paths import QUERY_WEIGHT, SEEDS, PathSearch
from lemmata.store.graph import StoredGraph
from lemmata.types import MeasuredGraph

K, FAR = 20, 10_000
CITATIONS, DIMENSION = 7, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--chart", type=Path)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run(options.folder, options.nodes[0], options.queries)))
        return
    rows = []
    for nodes in options.nodes:
        given = ["--nodes", str(nodes), "--queries", str(options.queries), "--one"]
        command = [sys.executable, "-m", "bench.geodesic_scaling", str(options.folder), *given]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(json.dumps(rows[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    if options.chart:
        options.chart.write_text(svg_file(line_chart(chart(rows))), "utf-8")


def run(parent: Path, nodes: int, queries: int) -> dict[str, Any]:
    folder = parent / f"{nodes}-{CITATIONS * nodes}-{DIMENSION}"
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    graph, matrix = make(folder, nodes, CITATIONS * nodes, DIMENSION, generator)
    report: dict[str, Any] = {"nodes": nodes, "edges": len(graph.indices)}
    if (folder / "along.npy").exists() or not (folder / "lengths.npy").exists():
        measure(folder, graph, matrix)
    both = MeasuredGraph(
        *(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("both_indptr", "targets", "lengths", "edges"))
    )
    near = matrix[np.sort(generator.choice(nodes, queries, replace=False))]
    vectors = near + generator.normal(scale=0.5 / np.sqrt(DIMENSION), size=near.shape).astype(np.float32)
    found = ExactIndex(matrix).search(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), SEEDS + 1)
    seeds = [(rows[None], similarities[None]) for rows, similarities in zip(*found, strict=True)]
    starts = [_start(r[0, :SEEDS], QUERY_WEIGHT * distance(s[0, :SEEDS]).astype(np.float64)) for r, s in seeds]
    begin = time.process_time()
    search = PathSearch(StoredGraph(graph, np.arange(nodes), {}, {}, ""), both, nodes)
    report["opening_ms"] = round(1000 * (time.process_time() - begin), 1)
    compiled_trees(both, starts[:1], 1)  # loads numba

    def answer(near: Any) -> None:
        hits, _ = search.nearest([near], K)
        assert all(search.paths([near], hits[0].tolist()))

    report["with_paths"] = _times(answer, seeds)
    report["settling_20"] = _times(lambda start: _by_numba(both, K, start), starts)
    report["settling_10000"] = _times(lambda start: _by_numba(both, FAR, start), starts[:20])
    report["anonymous_megabytes"], report["resident_megabytes"] = _memory("RssAnon"), _memory("VmRSS")
    return report


def chart(rows: list[dict[str, Any]]) -> LineChart:
    names = {"with_paths": "20 hits with paths", "settling_20": "settling 20", "settling_10000": "settling 10,000"}
    curves = [
        Curve([(math.log10(row["nodes"]), row[key]["cpu_p50"]) for row in rows], name, colour=number)
        for number, (key, name) in enumerate(names.items())
    ]
    return LineChart("Geodesic search over the size of the graph", "log₁₀ of nodes", "CPU ms (median)", curves)


if __name__ == "__main__":
    main()
