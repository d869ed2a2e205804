"""Top-10 search in Milvus against the exact index and the graph of lemmata, in one run, with filters and without.

    python bench/milvus.py --out bench/milvus.json                       # a file of milvus-lite
    python bench/milvus.py --uri http://localhost:19530 --out FILE      # a server; token in $MILVUS_TOKEN

Vectors are unit vectors around centres. Times are medians in milliseconds of one query after the other, as wall time
and as CPU time of this process (milvus-lite is a part of it), since other processes may share the machine.
"""

from __future__ import annotations

import argparse
import json
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.index.ann import AnnIndex
from lemmata.index.exact import ExactIndex
from lemmata.index.milvus import Batch, MilvusIndex, drop_collections, replace_collection, update_collection
from lemmata.types import Floats, Index, Integers, Mask

K = 10
KINDS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uri", default="", help="of a server; a new file of milvus-lite if left out")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    generator = np.random.default_rng(options.seed)
    both = mixture(options.rows + options.queries, options.dimension, generator)
    matrix, queries = both[: options.rows], both[options.rows :]
    kinds = generator.integers(KINDS, size=options.rows)
    with tempfile.TemporaryDirectory() as folder:
        results = compare(matrix, queries, kinds, options.uri or str(Path(folder) / "vectors.db"), Path(folder))
    results = {"rows": options.rows, "dimension": options.dimension, "queries": options.queries, **results}
    text = json.dumps(results, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", "utf-8")


def mixture(count: int, dimension: int, generator: np.random.Generator) -> Floats:
    """Unit vectors around a thousand centres that mostly vary in 24 directions."""
    centres = generator.standard_normal((1000, dimension), np.float32)
    directions = generator.standard_normal((24, dimension), np.float32)
    vectors = 0.7 * centres[generator.integers(1000, size=count)]
    vectors += 0.1 * generator.standard_normal((count, 24), np.float32) @ directions
    vectors += 0.1 * generator.standard_normal((count, dimension), np.float32)
    lengths: Floats = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / lengths).astype(np.float32)


def masks(kinds: Integers) -> dict[str, Mask | None]:
    """The filters, each with another way to Milvus."""
    count = len(kinds)
    generator = np.random.default_rng(1)
    document = (np.arange(count) >= count // 2) & (np.arange(count) < count // 2 + count // 100)
    return {
        "no filter": None,
        "one of four kinds": kinds == 1,
        "one per cent of the rows, in one range": document,
        "one kind in this range": document & (kinds == 1),
        "five per cent of the rows, scattered": generator.random(count) < 0.05,
        "half of the rows, scattered (searched here)": generator.random(count) < 0.5,
    }


def compare(matrix: Floats, queries: Floats, kinds: Integers, uri: str, folder: Path) -> dict[str, Any]:
    """Build all indexes, then ask each one the same."""
    results: dict[str, Any] = {"pymilvus": version("pymilvus"), "milvus_lite": version("milvus-lite")}
    slots = np.arange(len(matrix))
    alias = f"bench_{secrets.token_hex(4)}"

    def batches(rows: Integers) -> Iterator[Batch]:
        for start in range(0, len(rows), 2000):
            part = rows[start : start + 2000]
            yield Batch(slots[part], kinds[part], matrix[part])

    results["built"] = {
        "graph of lemmata": timed(lambda: AnnIndex.build(matrix, folder / "graph.faiss")),
        "milvus": timed(
            lambda: replace_collection(uri, alias, batches(slots), matrix.shape[1], graph=True),
        ),
    }
    indexes: dict[str, Index] = {
        "exact": ExactIndex(matrix),
        "graph of lemmata": AnnIndex.open(folder / "graph.faiss", matrix),
        "milvus": MilvusIndex(uri, alias, matrix, slots, kinds),
    }
    results["searched"] = {}
    for name, mask in masks(kinds).items():
        truth, _ = indexes["exact"].search(queries, K, mask)
        results["searched"][name] = {
            "rows": len(matrix) if mask is None else int(mask.sum()),
            **{other: ask(index, queries, mask, truth) for other, index in indexes.items()},
        }
    few = np.arange(len(matrix) - 100, len(matrix))
    results["update of 100 vectors"] = timed(lambda: update_collection(uri, alias, batches(few), few[:0], int(few[0])))
    drop_collections(uri, alias)
    return results


def timed(work: Callable[[], object]) -> dict[str, float]:
    begin, cpu = time.perf_counter(), time.process_time()
    work()
    return {"seconds": round(time.perf_counter() - begin, 3), "cpu_seconds": round(time.process_time() - cpu, 3)}


def ask(index: Index, queries: Floats, mask: Mask | None, truth: Integers) -> dict[str, float]:
    """Median times of a query, and the share of the true hits that it finds."""
    index.search(queries[:1], K, mask)  # opens what is opened at the first use
    times, cpu_times, hits = [], [], 0
    for query, true in zip(queries, truth, strict=True):
        begin, cpu = time.perf_counter(), time.process_time()
        rows, _ = index.search(query[None], K, mask)
        times.append(time.perf_counter() - begin)
        cpu_times.append(time.process_time() - cpu)
        hits += len(np.intersect1d(rows[0], true))
    return {
        "p50_ms": round(1e3 * float(np.median(times)), 3),
        "p50_cpu_ms": round(1e3 * float(np.median(cpu_times)), 3),
        "recall@10": round(hits / truth.size, 4),
    }


if __name__ == "__main__":
    main()
