"""Search by words and by vectors at a million passages, apart from everything else: CPU time, exactness, memory.

    python bench/million_search.py FOLDER --vectors real.npy [more.npy] --rows 1000000 --out bench/million_search.json

Words: passages of about 73 words with titles, drawn by the Zipf-Mandelbrot law that arXiv abstracts follow without stop
words; a tenth of the passages is made, and indexed ten times. Queries are 5 to 8 words of a passage. The search that
leaves out what cannot win is compared with one that adds every posting, which must give the same rows and scores.
Vectors: real ones, each moved towards one of its 16 nearest neighbours and by noise until there are enough. The queries
are 1000 real ones that are held out. What is in FOLDER already is not made again; the graph takes the longest.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.files import create_array
from lemmata.index import lexical
from lemmata.index.ann import AnnIndex
from lemmata.index.exact import ExactIndex
from lemmata.index.lexical import LexicalIndex
from lemmata.types import Floats

VOCABULARY = 1_000_000
COPIES = 10
BLOCK = 10_000
NOISE = 0.35  # of the spread in each principal direction; local dimension 18, that of the real vectors is 14
HEADING_WEIGHT = 1.5


# ---------------------------------------------------------------- words


def texts(count: int, seed: int, mean: int, spread: int) -> Iterator[str]:
    """Random words; lengths are log-normal."""
    generator = np.random.default_rng(seed)
    weights = 1 / (np.arange(VOCABULARY) + 47) ** 1.4
    shares = np.cumsum(weights / weights.sum())
    deviation = np.sqrt(np.log(1 + (spread / mean) ** 2))
    for start in range(0, count, BLOCK):
        drawn = generator.lognormal(np.log(mean) - deviation**2 / 2, deviation, min(BLOCK, count - start))
        lengths = np.maximum(4, drawn).astype(np.int64)
        ranks = np.searchsorted(shares, generator.random(int(lengths.sum())))
        for words in np.split(ranks, np.cumsum(lengths)[:-1]):
            yield " ".join(f"w{rank}" for rank in words.tolist())


def make_index(folder: Path, count: int) -> LexicalIndex:
    if not (folder / "index.json").exists():
        part = folder.with_name("tenth")
        LexicalIndex.build(texts(count // COPIES, 0, 73, 39), part, headings=texts(count // COPIES, 1, 8, 3))
        content = json.loads((part / "index.json").read_text("utf-8"))
        folder.mkdir(parents=True)
        lexical._merge([part / content["segments"][0]] * COPIES, folder / "segment-0")
        (folder / "index.json").write_text(json.dumps({**content, "segments": ["segment-0"]}), "utf-8")
    return LexicalIndex.open(folder)


def make_queries(count: int) -> list[str]:
    generator = np.random.default_rng(5)
    passages = texts(20 * count, 0, 73, 39)
    chosen = [text.split() for number, text in enumerate(passages) if number % 20 == 0]
    return [" ".join(generator.choice(words, min(len(words), int(generator.integers(5, 9))))) for words in chosen]


def measure_words(folder: Path, count: int, queries: int) -> dict[str, Any]:
    index = make_index(folder, count)
    results: dict[str, Any] = {"passages": len(index), "megabytes": _megabytes(folder)}
    limit = lexical._EXHAUSTIVE
    for k, weight in ((50, HEADING_WEIGHT), (200, HEADING_WEIGHT), (10, 0.0)):
        pruned, exhaustive = [], []
        for query in make_queries(queries):
            times = []
            found = []
            for lexical._EXHAUSTIVE in (limit, 10**12):
                best, answer = _best_of(3, partial(index.search, [query], k, heading_weight=weight))
                times.append(best)
                found.append(answer)
            assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True)), query
            pruned.append(times[0])
            exhaustive.append(times[1])
        lexical._EXHAUSTIVE = limit
        name = f"{k} hits" + ("" if weight else ", without headings")
        results[name] = {"cpu_ms": _quantiles(pruned), "every_posting_cpu_ms": _quantiles(exhaustive)}
    return {**results, "resident_mb": _resident()}


# ---------------------------------------------------------------- vectors


def make_vectors(folder: Path, sources: list[Path], count: int) -> tuple[Floats, Floats]:
    """The rows to search, memory-mapped, and the queries."""
    matrix, queries = folder / "vectors.npy", folder / "queries.npy"
    if not queries.exists():
        generator = np.random.default_rng(0)
        real = _unit(np.concatenate([np.load(path) for path in sources]).astype(np.float32))
        order = generator.permutation(len(real))
        base = real[order[1000:]]
        near = ExactIndex(base).search(base, 17)[0]
        _, spreads, directions = np.linalg.svd(base - base.mean(axis=0), full_matrices=False)
        spreads = (NOISE * spreads / np.sqrt(len(base))).astype(np.float32)
        rows = create_array(matrix, np.dtype(np.float32), (count, base.shape[1]))
        for start in range(0, count, BLOCK):
            size = min(BLOCK, count - start)
            chosen = generator.integers(0, len(base), size)
            other = near[chosen, generator.integers(1, 17, size)]
            share = generator.random((size, 1), np.float32) / 2
            noise = (generator.standard_normal((size, len(spreads)), np.float32) * spreads) @ directions
            rows[start : start + size] = _unit(base[chosen] * (1 - share) + base[other] * share + noise)
        rows.flush()
        np.save(queries, real[order[:1000]])
    return np.load(matrix, mmap_mode="r"), np.load(queries)


def measure_vectors(folder: Path, sources: list[Path], count: int, number: int) -> dict[str, Any]:
    matrix, queries = make_vectors(folder, sources, count)
    path = folder / "graph.faiss"
    results: dict[str, Any] = {"rows": len(matrix), "dimension": matrix.shape[1]}
    if not path.exists():
        begin, used = time.perf_counter(), time.process_time()
        AnnIndex.build(matrix, path)
        results |= {"build_s": time.perf_counter() - begin, "build_cpu_s": time.process_time() - used}
    results["graph_megabytes"] = path.stat().st_size / 1e6
    index = AnnIndex.open(path, matrix)
    for k in (50, 200):
        answers = [_best_of(1, partial(index.search, query[None], k)) for query in queries[:number]]
        results[f"{k} hits"] = {"cpu_ms": _quantiles([spent for spent, _ in answers])}
    results["resident_mb"] = _resident()
    exact, _ = ExactIndex(matrix).search(queries[:number], 200)
    for depth in (10, 200):
        found = [rows[0, :depth] for _, (rows, _) in answers]
        shared = [np.isin(true[:depth], rows).mean() for true, rows in zip(exact, found, strict=True)]
        results[f"recall@{depth}"] = float(np.mean(shared))
    return results


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


# ---------------------------------------------------------------- measuring


def _best_of(times: int, call: Callable[[], Any]) -> tuple[float, Any]:
    """The least CPU time of some calls in milliseconds, and what they give."""
    least = float("inf")
    for _ in range(times):
        begin = time.process_time()
        result = call()
        least = min(least, 1000 * (time.process_time() - begin))
    return least, result


def _quantiles(values: list[float]) -> dict[str, float]:
    return {f"p{share}": round(float(np.quantile(values, share / 100)), 2) for share in (50, 90, 99)}


def _megabytes(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 1)


def _resident() -> dict[str, int]:
    status = Path("/proc/self/status")
    lines = status.read_text("ascii").splitlines() if status.exists() else []
    return {line.split(":")[0]: int(line.split()[1]) // 1024 for line in lines if line.startswith("Rss")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vectors", type=Path, nargs="+", default=[])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"load": os.getloadavg()[0]}
    if options.vectors:
        results["vectors"] = measure_vectors(options.folder, options.vectors, options.rows, options.queries)
    results["words"] = measure_words(options.folder / "lexical", options.rows, options.queries)
    text = json.dumps(results, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
