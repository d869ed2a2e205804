"""Open a workspace of many synthetic passages and answer the first query; what time and memory that takes.

    python bench/million.py FOLDER [--passages 1000000]

Makes the workspace where it is not there yet: short texts with three references each, random unit vectors around
centres, the lexical index, the graph of the references, and weights of `auto` that use it. Then a fresh process opens
it and searches, once with files in the page cache. CPU times are the fairer measure on a busy machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from lemmata.encode.load import load_encoder
from lemmata.fusion import Fusion
from lemmata.project import Project
from lemmata.stages.graph import compress
from lemmata.stages.index import index_ann, index_lexical
from lemmata.stages.summaries import content_hashes
from lemmata.store.graph import GraphRecordStore
from lemmata.store.layout import write_manifest
from lemmata.store.vector_sets import set_default_encoder, vector_set
from lemmata.store.vectors import VectorWriter

DIMENSION = 384
PROBE = """
import json, sys, time
start = time.perf_counter()
from lemmata.search import Retriever
retriever = Retriever.open(sys.argv[1])
opened = time.perf_counter()
hits = retriever.search(sys.argv[3], 10, retriever=sys.argv[2])
first = time.perf_counter()
times, cpu_times = [], []
for n in range(20):
    begin, cpu = time.perf_counter(), time.process_time()
    retriever.search(f"{sys.argv[3]} {n}", 10, retriever=sys.argv[2])
    times.append(time.perf_counter() - begin)
    cpu_times.append(time.process_time() - cpu)
status = open("/proc/self/status").read() if sys.platform == "linux" else ""
held = {line.split(":")[0]: int(line.split()[1]) // 1024
    for line in status.splitlines() if line.startswith(("Rss", "VmHWM"))}
print(json.dumps({"open_s": opened - start, "first_answer_s": first - start, "then_p50_ms": 1000 * sorted(times)[10],
    "then_cpu_p50_ms": 1000 * sorted(cpu_times)[10],
    "memory_mb": held, "hits": len(hits)}))
"""


def make(folder: Path, count: int) -> None:
    """A workspace with `count` passages and everything that a search needs."""
    generator = np.random.default_rng(0)
    words = np.array([f"w{n}" for n in range(50_000)])
    project = Project.init(folder)
    source = folder.with_suffix(".jsonl")
    with source.open("w") as stream:
        for number in range(count):
            chosen = words[(generator.pareto(1.2, 20) * 20).astype(np.int64) % len(words)]
            cited = (count * generator.random(3) ** 4).astype(int).tolist()  # a few passages very often
            links = [f"p{row}" for row in cited]
            stream.write(json.dumps({"id": f"p{number}", "text": " ".join(chosen), "links": links}) + "\n")
    project.ingest([source])
    corpus = project.corpus
    hashes = content_hashes(corpus, lambda *_: None)
    index_lexical(project.layout, corpus, lambda *_: None)
    writer = VectorWriter(project.layout, "minilm", DIMENSION, hashes)
    centres = generator.standard_normal((2000, DIMENSION)).astype(np.float32)
    for start in range(0, count, 20_000):
        rows = np.arange(start, min(count, start + 20_000))
        vectors = centres[generator.integers(0, len(centres), len(rows))]
        vectors = vectors + 0.7 * generator.standard_normal(vectors.shape).astype(np.float32)
        writer.write(rows, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    name = load_encoder("minilm").name  # searching checks that it is the encoder of the vectors
    writer.finish({"verb": "index", "corpus": corpus.inputs, "dimension": DIMENSION, "made_by": name})
    set_default_encoder(project.layout, "minilm")
    with GraphRecordStore(project.layout) as records:
        compress(project.layout, corpus, records, lambda *_: None)
    places = vector_set(project.layout, "minilm")
    assert places is not None
    write_manifest(places.fusion, {"fusion": asdict(Fusion(weight=0.8, citations=0.02, citing=0.1))})
    corpus.close()


def graph(folder: Path) -> float:
    """Build the neighbour graph; returns the seconds it took."""
    project = Project(folder)
    begin = time.perf_counter()
    with contextlib.closing(project.corpus) as corpus:
        index_ann(project.layout, corpus, lambda *_: None)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--graph", action="store_true", help="also build the neighbour graph (long)")
    options = parser.parse_args()
    result: dict[str, object] = {"passages": options.passages}
    if not (options.folder / "lemmata.toml").exists():
        begin = time.perf_counter()
        make(options.folder, options.passages)
        result["made_in_s"] = time.perf_counter() - begin
    if options.graph:
        result["graph_s"] = graph(options.folder)
    for name in ("lexical", "dense", "hybrid", "auto"):
        command = [sys.executable, "-c", PROBE, str(options.folder), name, "w3 w14 w159"]
        runs = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(3)]
        result[name] = min(runs, key=lambda run: float(run["first_answer_s"]))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
