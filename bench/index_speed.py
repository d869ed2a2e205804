"""How fast the indexes are, against their peers in the same run.

    python bench/index_speed.py --texts abstracts.jsonl.xz --rows 100000 --out index_speed.json

Times are medians in milliseconds, per query; builds are CPU seconds, since other processes may share the
machine. The peers (usearch, hnswlib, bm25s) are used where they are installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import lzma
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.index.ann import AnnIndex
from lemmata.index.exact import ExactIndex
from lemmata.index.lexical import LexicalIndex
from lemmata.index.tokens import tokenize
from lemmata.types import Floats, Integers

K = 10
WIDTHS = (16, 32, 64, 128, 256, 512)
LINKS, BUILD_WIDTH = 16, 200  # as in lemmata.index.ann; the committed vector_speed.json was made when both were 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, help="JSON lines with title and abstract, or text; .xz is fine")
    parser.add_argument("--vectors", type=Path, help="a .npy matrix of unit rows; made from a mixture if left out")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["lexical", "vectors"])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    if options.only != "lexical":
        results["vectors"] = compare_vectors(*_vectors(options))
    if options.texts and options.only != "vectors":
        results["lexical"] = compare_lexical(list(_texts(options.texts, options.rows)), options.queries)
    text = json.dumps(results, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", "utf-8")


def _vectors(options: argparse.Namespace) -> tuple[Floats, Floats]:
    """The rows to search and the queries."""
    generator = np.random.default_rng(options.seed)
    if options.vectors:
        matrix = np.load(options.vectors)[: options.rows].astype(np.float32)
        queries = matrix[generator.choice(len(matrix), options.queries)]
        queries = _unit(queries + 0.02 * generator.standard_normal(queries.shape, np.float32))
    else:
        both = mixture(options.rows + options.queries, options.dimension, generator)
        matrix, queries = both[: options.rows], both[options.rows :]
    return matrix, queries


def mixture(count: int, dimension: int, generator: np.random.Generator) -> Floats:
    """Unit vectors around a thousand centres that mostly vary in 24 directions.

    How wide a walk must be depends strongly on these spreads: judge recall on real vectors (--vectors).
    """
    centres = generator.standard_normal((1000, dimension), np.float32)
    directions = generator.standard_normal((24, dimension), np.float32)
    vectors = 0.7 * centres[generator.integers(1000, size=count)]
    vectors += 0.1 * generator.standard_normal((count, 24), np.float32) @ directions
    vectors += 0.1 * generator.standard_normal((count, dimension), np.float32)
    return _unit(vectors)


def _unit(vectors: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / lengths).astype(np.float32)


# ---------------------------------------------------------------- vectors

Walk = Callable[[Floats, int], Integers]  # queries and width -> rows


def compare_vectors(matrix: Floats, queries: Floats) -> dict[str, Any]:
    """The exact search at growing sizes, then every graph at the width that reaches recall 0.99."""
    results: dict[str, Any] = {"rows": len(matrix), "dimension": matrix.shape[1], "exact_ms": {}}
    for count in (1000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000):
        if count <= len(matrix):
            search = partial(ExactIndex(matrix[:count]).search, k=K)
            results["exact_ms"][count] = _median(search, queries[:100])
    truth, _ = ExactIndex(matrix).search(queries, K)
    makers = {"lemmata": _ours, "faiss": _faiss, "usearch": _usearch, "hnswlib": _hnswlib}
    for name, make in makers.items():
        if importlib.util.find_spec("faiss" if name == "lemmata" else name) is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph"
            begin = time.process_time()
            open_again, walk = make(matrix, path)
            cpu = time.process_time() - begin
            opening = [_timed(open_again) for _ in range(5)]
            results[name] = {
                "build_cpu_s": cpu,
                "file_mb": path.stat().st_size / 1e6,
                "open_ms": 1e3 * float(np.median(opening)),
                **_at_recall(walk, queries, truth),
            }
    return results


def _at_recall(walk: Walk, queries: Floats, truth: Integers, wanted: float = 0.99) -> dict[str, float]:
    for width in WIDTHS:
        found = walk(queries, width)
        hits = sum(len(np.intersect1d(own, true)) for own, true in zip(found, truth, strict=True))
        recall = hits / truth.size
        if recall >= wanted or width == WIDTHS[-1]:
            break
    return {
        "width": width,
        "recall@10": recall,
        "query_ms": _median(lambda query: walk(query, width), queries),
    }


def _ours(matrix: Floats, path: Path) -> tuple[Callable[[], object], Walk]:
    AnnIndex.build(matrix, path)

    opened = {width: AnnIndex.open(path, matrix, width=width) for width in WIDTHS}

    def walk(queries: Floats, width: int) -> Integers:
        return opened[width].search(queries, K)[0]

    return lambda: AnnIndex.open(path, matrix), walk


def _faiss(matrix: Floats, path: Path) -> tuple[Callable[[], object], Walk]:
    import faiss

    graph = faiss.IndexHNSWFlat(matrix.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = BUILD_WIDTH
    graph.add(matrix)
    faiss.write_index(graph, str(path))

    def walk(queries: Floats, width: int) -> Integers:
        graph.hnsw.efSearch = width
        return graph.search(queries, K)[1]

    return lambda: faiss.read_index(str(path)), walk


def _usearch(matrix: Floats, path: Path) -> tuple[Callable[[], object], Walk]:
    from usearch.index import Index

    graph: Any = Index(ndim=matrix.shape[1], metric="ip", dtype="f16", connectivity=LINKS, expansion_add=BUILD_WIDTH)
    graph.add(np.arange(len(matrix)), matrix, threads=os.cpu_count() or 1)
    graph.save(str(path))

    def walk(queries: Floats, width: int) -> Integers:
        graph.expansion_search = width
        return np.asarray(graph.search(queries, K, threads=1).keys).reshape(len(queries), -1).astype(np.int64)

    return lambda: Index.restore(str(path), view=True), walk


def _hnswlib(matrix: Floats, path: Path) -> tuple[Callable[[], object], Walk]:
    import hnswlib

    graph: Any = hnswlib.Index("ip", matrix.shape[1])
    graph.init_index(len(matrix), M=LINKS, ef_construction=BUILD_WIDTH, random_seed=0)
    graph.add_items(matrix, np.arange(len(matrix)))
    graph.save_index(str(path))

    def walk(queries: Floats, width: int) -> Integers:
        graph.set_ef(width)
        return np.asarray(graph.knn_query(queries, K, num_threads=1)[0], dtype=np.int64)

    def open_again() -> object:
        other = hnswlib.Index("ip", matrix.shape[1])
        other.load_index(str(path))
        return other

    return open_again, walk


# ---------------------------------------------------------------- words


def compare_lexical(texts: list[str], count: int) -> dict[str, Any]:
    """Tokens per second, building, opening and searching; the beginnings of texts are the queries."""
    queries = [text[:80] for text in texts[:: max(1, len(texts) // count)]][:count]
    begin = time.process_time()
    tokens = [tokenize(text) for text in texts]
    seconds = time.process_time() - begin
    results: dict[str, Any] = {
        "passages": len(texts),
        "tokenize_mb_per_s": sum(map(len, texts)) / seconds / 1e6,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lexical"
        begin = time.process_time()
        index = LexicalIndex.build(texts, path)
        results["build_cpu_s"] = time.process_time() - begin
        results["open_ms"] = 1e3 * float(np.median([_timed(lambda: LexicalIndex.open(path)) for _ in range(5)]))
        results["query_ms"] = _median(lambda query: index.search([query], K), queries)
        begin = time.process_time()
        index.add(texts[:100])
        results["add_100_cpu_s"] = time.process_time() - begin
    results["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    if importlib.util.find_spec("bm25s"):
        import bm25s

        begin = time.process_time()
        peer = bm25s.BM25(k1=1.2, b=0.8, method="lucene")
        peer.index(tokens, show_progress=False)
        results["bm25s_build_cpu_s_without_tokenizing"] = time.process_time() - begin
        results["bm25s_query_ms"] = _median(
            lambda query: peer.retrieve([list(dict.fromkeys(tokenize(query)))], k=K, show_progress=False), queries
        )
        results["bm25s_over_ours"] = results["bm25s_query_ms"] / results["query_ms"]
    return results


def _texts(path: Path, count: int) -> Iterator[str]:
    """`count` texts; a shorter file is read again from its beginning."""
    while count > 0:
        with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                yield " ".join(filter(None, (record.get("title"), record.get("abstract") or record.get("text"))))
                count -= 1
                if count <= 0:
                    return


def _timed(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def _median(function: Callable[[Any], object], queries: Iterable[Any]) -> float:
    """Milliseconds for one query; arrays of queries are handed over row by row, as (1, dim)."""
    single = [query[None] if isinstance(query, np.ndarray) else query for query in queries]
    times = [_timed(partial(function, query)) for _ in range(3) for query in single]
    return 1e3 * float(np.median(times))


if __name__ == "__main__":
    main()
