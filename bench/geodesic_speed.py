"""How fast geodesic search is on a synthetic citation graph, against the same search with heapq in the same run.

    python bench/geodesic_speed.py FOLDER [--nodes 169343] [--edges 1166243] [--out geodesic_speed.json]
    python bench/geodesic_speed.py FOLDER --nodes 2000000 --edges 20000000 --lengths

Papers lie around centres, and cite older ones, mostly of their own centre and mostly those that are cited already. A
query is a vector near a paper. Given the vector, one search finds the seeds (HNSW), the 20 nearest papers along the
graph, and the path to each. Times are CPU milliseconds of one thread, and wall-clock ones beside them: other processes
may share the machine. `--lengths` only measures the edges, and the memory that this takes. FOLDER keeps what was made.
"""

from __future__ import annotations

import argparse
import heapq
import json
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.geometry.geodesic import Start, Tree, compiled_trees, python_tree
from lemmata.geometry.lengths import distance, measure_by_text, sort_edges
from lemmata.index.ann import AnnIndex
from lemmata.paths import QUERY_WEIGHT, SEEDS, PathSearch
from lemmata.store.graph import StoredGraph
from lemmata.types import Floats, Graph, Integers, MeasuredGraph

K = 20
FAR = 11_287  # settled nodes of the longer comparison


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=169_343)
    parser.add_argument("--edges", type=int, default=1_166_243)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--lengths", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = options.folder / f"{options.nodes}-{options.edges}-{options.dimension}"
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    graph, matrix = make(folder, options.nodes, options.edges, options.dimension, generator)
    report: dict[str, Any] = {"nodes": options.nodes, "edges": len(graph.indices), "dimension": options.dimension}
    if options.lengths or (folder / "along.npy").exists() or not (folder / "lengths.npy").exists():
        report["lengths"] = measure(folder, graph, matrix)
    if not options.lengths:
        report |= compare(folder, graph, matrix, options.queries, generator)
    text = json.dumps(report, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", "utf-8")


# ---------------------------------------------------------------- the graph


def make(folder: Path, nodes: int, edges: int, dimension: int, generator: np.random.Generator) -> tuple[Graph, Floats]:
    """The graph and the vectors of its nodes, both memory-mapped."""
    centres = max(1, nodes // 500)
    if not (folder / "matrix.npy").exists():
        pairs = np.empty(0, np.int64)
        while len(pairs) < edges:
            source = generator.integers(centres, nodes, edges // 2)
            target = (source * generator.random(len(source)) ** 2).astype(np.int64)  # the oldest are cited most
            near = target - target % centres + source % centres  # of the same centre
            target = np.where(generator.random(len(source)) < 0.8, np.where(near < source, near, target), target)
            pairs = np.unique(np.concatenate([pairs, source * nodes + target]))
        pairs = np.sort(generator.choice(pairs, edges, replace=False))
        indptr = np.zeros(nodes + 1, np.int64)
        np.cumsum(np.bincount(pairs // nodes, minlength=nodes), out=indptr[1:])
        np.save(folder / "indptr.npy", indptr)
        np.save(folder / "indices.npy", pairs % nodes)
        middle = generator.normal(size=(centres, dimension)).astype(np.float32)
        matrix = np.lib.format.open_memmap(folder / "new.npy", "w+", np.float32, (nodes, dimension))
        for start in range(0, nodes, 50_000):
            rows = np.arange(start, min(start + 50_000, nodes))
            vectors = middle[rows % centres] + generator.normal(size=(len(rows), dimension)).astype(np.float32)
            matrix[rows] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        matrix.flush()
        (folder / "new.npy").replace(folder / "matrix.npy")
    indptr, indices, matrix = (
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices", "matrix")
    )
    names = range(nodes)  # of no use here
    relation = np.broadcast_to(np.int16(0), len(indices))
    weight = np.broadcast_to(np.float32(1), len(indices))
    return Graph(names, names, ["cites"], indptr, indices, relation, weight), matrix  # type: ignore[arg-type]


def measure(folder: Path, graph: Graph, matrix: Floats) -> dict[str, Any]:
    """Measure and sort all edges, on the disk; seconds, and the most memory beyond what is mapped from files."""
    entries = 2 * len(graph.indices)
    kinds: dict[str, tuple[Any, int]] = {
        "both_indptr": (np.int64, len(graph.nodes) + 1),
        "targets": (np.int32, entries),
    }
    kinds |= {"lengths": (np.float32, entries), "edges": (np.int32, entries)}
    arrays = (
        np.lib.format.open_memmap(folder / f"{name}.npy", "w+", kind, (size,)) for name, (kind, size) in kinds.items()
    )
    both = MeasuredGraph(*arrays)
    along = np.lib.format.open_memmap(folder / "along.npy", "w+", np.float32, (len(graph.indices),))
    rows = np.arange(len(graph.nodes))
    before = _memory("RssAnon")
    peak, done = [before], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], _memory("RssAnon"))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    begin, cpu = time.perf_counter(), time.process_time()
    measure_by_text(graph, rows, matrix, along, lambda *_: None)
    sort_edges(graph, along, along, both)
    seconds = {"seconds": round(time.perf_counter() - begin, 1), "cpu_seconds": round(time.process_time() - cpu, 1)}
    done.set()
    watcher.join()
    (folder / "along.npy").unlink()
    return {**seconds, "megabytes_used": peak[0] - before, "megabytes_of_vectors": matrix.nbytes >> 20}


def _memory(name: str) -> int:
    """Megabytes of this process, as Linux counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith(name))


# ---------------------------------------------------------------- searching


def compare(folder: Path, graph: Graph, matrix: Floats, queries: int, generator: np.random.Generator) -> dict[str, Any]:
    """Whole queries, and the search of the graph alone against heapq."""
    both = MeasuredGraph(
        *(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("both_indptr", "targets", "lengths", "edges"))
    )
    path = folder / "graph.faiss"
    begin = time.process_time()
    index = AnnIndex.open(path, matrix) if path.exists() else AnnIndex.build(matrix, path, threads=1)
    report: dict[str, Any] = {"index_cpu_seconds": round(time.process_time() - begin, 1)}
    near = matrix[np.sort(generator.choice(len(matrix), queries, replace=False))]
    vectors = near + generator.normal(scale=0.5 / np.sqrt(matrix.shape[1]), size=near.shape).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    search = PathSearch(StoredGraph(graph, np.arange(len(matrix)), {}, {}, ""), both, len(matrix))
    steps: list[int] = []

    def answer(vector: Floats) -> None:
        near = [index.search(vector[None], K)]
        hits, _ = search.nearest(near, K)
        paths = search.paths(near, hits[0].tolist())
        assert all(paths)
        steps.extend(len(path) for path in paths)

    compiled_trees(both, [_start(np.array([0]), np.array([0.0]))], 1)  # loads numba
    report["whole_query"] = {**_times(answer, list(vectors)), "mean_steps": round(float(np.mean(steps)), 2)}
    report["reached_through_edges"] = round(float(np.mean(np.array(steps) > 1)), 3)
    report["resident_megabytes"] = _memory("VmRSS")
    starts = []
    for vector in vectors:
        rows, similarities = index.search(vector[None], SEEDS)
        starts.append(_start(rows[0], QUERY_WEIGHT * distance(similarities[0]).astype(np.float64)))
    read: list[Any] = [np.array(part) for part in both]
    in_memory, lists = MeasuredGraph(*read), MeasuredGraph(*(part.tolist() for part in read))
    for k in (K, FAR):
        some = starts if k == K else starts[:20]
        searches: dict[str, Callable[[Start], Any]] = {
            "numba": partial(_by_numba, in_memory, k),
            "heapq": partial(eager, lists, k),
            "heapq, lazy": partial(_by_python, in_memory, k),
        }
        times = {name: _times(function, some) for name, function in searches.items()}
        ratio = times["heapq"]["cpu_p50"] / times["numba"]["cpu_p50"]
        report[f"settling {k:,}"] = {**times, "heapq / numba": round(ratio, 1)}
        for start in some[:5]:
            expected, found = eager(lists, k, start), _by_numba(in_memory, k, start)
            np.testing.assert_allclose(found.distances, [d for d, _ in expected], rtol=1e-6)
    return report


def _start(rows: Integers, distances: Any) -> Start:
    return Start(np.asarray(rows, np.int64), np.asarray(distances, np.float64), np.empty(0, np.int64))


def _by_numba(graph: MeasuredGraph, k: int, start: Start) -> Tree:
    return compiled_trees(graph, [start], k, threads=1)[0]


def _by_python(graph: MeasuredGraph, k: int, start: Start) -> Tree | None:
    return python_tree(graph, start, k)


def eager(graph: MeasuredGraph, k: int, start: Start) -> list[tuple[float, int]]:
    """Dijkstra's algorithm as in a textbook, on Python lists: the k nearest nodes with their distances."""
    indptr, targets, lengths, _ = graph
    best = dict(zip(start.seeds.tolist(), start.distances.tolist(), strict=True))
    parents = dict.fromkeys(best, -1)
    heap = [(distance, node) for node, distance in best.items()]
    heapq.heapify(heap)
    settled: set[int] = set()
    order: list[tuple[float, int]] = []
    while heap and len(order) < k:
        length, node = heapq.heappop(heap)
        if node in settled:
            continue
        settled.add(node)
        order.append((length, node))
        for entry in range(indptr[node], indptr[node + 1]):
            target = targets[entry]
            longer = length + lengths[entry]
            if target not in settled and longer < best.get(target, np.inf):
                best[target] = longer
                parents[target] = node
                heapq.heappush(heap, (longer, target))
    return order


def _times(function: Callable[[Any], object], items: list[Any]) -> dict[str, float]:
    """Milliseconds per call, after one that does not count."""
    function(items[0])
    wall, cpu = [], []
    for item in items:
        begin, used = time.perf_counter(), time.thread_time()
        function(item)
        wall.append(1000 * (time.perf_counter() - begin))
        cpu.append(1000 * (time.thread_time() - used))
    figures = {"cpu": cpu, "wall": wall}
    return {
        f"{name}_p{share}": round(float(np.percentile(values, share)), 3)
        for name, values in figures.items()
        for share in (50, 95)
    }


if __name__ == "__main__":
    main()
