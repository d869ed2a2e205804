"""What each step costs from a thousand passages to a million: time, CPU time, peak memory, bytes on disk; and a chart.

    python -m bench.scale FOLDER --sizes 1000 10000 100000 1000000 --out bench/scale.json --chart docs/scale.svg

Every step runs in a process of its own on the same synthetic corpus (bench/synthetic.py). Steps whose results are in
`--out` are not measured again. On a busy machine, compare CPU times.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench.synthetic import queries, write_passages

from lemmata.core.workspace import Workspace, set_default_encoder
from lemmata.encode.load import NANO, encoder_id, load_encoder
from lemmata.evaluate.charts import Curve, LineChart, line_chart, svg_file
from lemmata.project import Project
from lemmata.search.index import index_ann, index_vectors
from lemmata.search.retriever import Retriever
from lemmata.vectors.exact import ExactIndex

QUERIES = 100
ADDED = 100
SEARCH = "search "
RETRIEVERS = tuple(f"{SEARCH}{name}" for name in ("lexical", "dense", "hybrid", "auto", "diffusion", "geodesic"))
STEPS = ("ingest", "lexical", "vectors", "neighbours", "graph", "mine", "update")
ORDER = (*STEPS[:4], *RETRIEVERS[:3], "graph", *RETRIEVERS[3:], "mine", "update")


# ---------------------------------------------------------------- the steps


def run_step(name: str, folder: Path) -> dict[str, Any]:
    """One step on the workspace; what it tells about itself."""
    layout = Workspace(folder)
    if name == "ingest":
        Project.init(folder).ingest([folder.with_suffix(".jsonl")], workers=1)
        return {}
    project = Project(folder)
    if name == "lexical":
        project.index(dense=False)
    elif name == "vectors":
        encoder, spec = load_encoder(NANO), encoder_id(NANO, layout.models_folder)
        with contextlib.closing(project.corpus) as corpus:
            index_vectors(layout, corpus, encoder, spec)
        set_default_encoder(layout, spec)
    elif name == "neighbours":
        return {"index": index_ann(layout)}
    elif name == "graph":
        project.build_graph()  # and measures its edges
    elif name == "mine":
        project.split()
        project.mine("pairs")
    elif name == "update":
        more = folder.with_suffix(".more.jsonl")
        with contextlib.closing(project.corpus) as corpus:
            write_passages(more, ADDED, len(corpus))
        project.ingest([more], workers=1)
        ingested = time.perf_counter()
        project.index(settings={"encoder": NANO})
        return {"index_s": time.perf_counter() - ingested}
    else:
        return search(name.removeprefix(SEARCH), folder)
    return {}


def search(name: str, folder: Path) -> dict[str, Any]:
    """Latency and memory of one retriever over different queries; of the vectors also the recall against exact ones."""
    with Retriever.open(folder) as retriever:
        texts = queries(QUERIES, len(retriever.corpus))
        begin = time.perf_counter()
        retriever.search(texts[0], 10, retriever=name)
        result: dict[str, Any] = {"first_s": time.perf_counter() - begin}
        wall, cpu = [], []
        for text in texts:
            begin, used = time.perf_counter(), time.process_time()
            retriever.search(text, 10, retriever=name)
            wall.append(1000 * (time.perf_counter() - begin))
            cpu.append(1000 * (time.process_time() - used))
        for label, values in (("ms", wall), ("cpu_ms", cpu)):
            result |= {f"p50_{label}": float(np.median(values)), f"p90_{label}": float(np.quantile(values, 0.9))}
        status = Path("/proc/self/status")
        lines = status.read_text("ascii").splitlines() if status.exists() else []
        held = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith("Rss")}
        result |= {f"{kind}_mb": round(size) for kind, size in held.items()}
        if name == "dense":
            vectors = retriever.encoder.encode(texts, role="query")
            exact = ExactIndex(retriever.vectors.matrix).search(vectors, 10)[0]
            rows = retriever.dense().index.search(vectors, 10)[0]
            shared = [np.isin(one, other).mean() for one, other in zip(exact, rows, strict=True)]
            result["recall@10"] = float(np.mean(shared))
    return result


# ---------------------------------------------------------------- measuring


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Run a step in a process of its own."""
    before = _bytes(folder)
    begin = time.perf_counter()
    command = [sys.executable, "-m", "bench.scale", str(folder), "--step", name]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    output, errors = child.stdout.read(), child.stderr.read()
    _, code, usage = os.wait4(child.pid, 0)
    child.returncode = code  # already waited for
    if code:
        return {"failed": errors.decode()[-300:]}
    return {
        "seconds": time.perf_counter() - begin,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,
        "bytes": _bytes(folder) - before,
        **json.loads(output.splitlines()[-1]),
    }


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure_size(folder: Path, count: int, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The results at one size after each step that was not known."""
    workspace = folder / str(count)
    source = workspace.with_suffix(".jsonl")
    if not source.exists():
        write_passages(source, count)
    if not known:
        shutil.rmtree(workspace, ignore_errors=True)
        known = {"source_bytes": source.stat().st_size, "load": os.getloadavg()[0]}
    for name in ORDER:
        if name not in known:
            known[name] = measure(name, workspace)
            print(count, name, known[name], file=sys.stderr, flush=True)
            yield known


def curves(results: dict[str, Any], names: Sequence[str], value: str) -> list[Curve]:
    """A value of some steps by the number of passages, both as powers of ten."""
    sizes = sorted(results, key=int)
    drawn = []
    for colour, name in enumerate(names):
        known = [size for size in sizes if value in results[size].get(name, {})]
        points = [(math.log10(int(size)), math.log10(max(results[size][name][value], 1e-3))) for size in known]
        drawn.append(Curve(points, name.removeprefix(SEARCH), colour=colour))
    return [curve for curve in drawn if curve.points]


def write_charts(results: dict[str, Any], steps: Path) -> None:
    """CPU time of the steps as SVG, and beside it, with `-search` in its name, that of the searches."""
    for path, title, drawn in (
        (steps, "CPU seconds of a step", curves(results, STEPS, "cpu_s")),
        (
            steps.with_stem(f"{steps.stem}-search"),
            "CPU milliseconds of a query",
            curves(results, RETRIEVERS, "p50_cpu_ms"),
        ),
    ):
        if drawn:  # at first no search is measured
            chart = LineChart(f"{title} (powers of ten)", "passages: 10 to the power of", "10 to the power of", drawn)
            path.write_text(svg_file(line_chart(chart)), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--out", type=Path, default=Path("bench/scale.json"))
    parser.add_argument("--chart", type=Path, help="an SVG file; that of the searches is written beside it")
    parser.add_argument("--step", help="only this step, on the workspace FOLDER")
    options = parser.parse_args()
    if options.step:
        print(json.dumps(run_step(options.step, options.folder)))
        return
    for folder in (options.folder, options.out.parent, *([options.chart.parent] if options.chart else [])):
        folder.mkdir(parents=True, exist_ok=True)
    results = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    for count in options.sizes:
        for known in measure_size(options.folder, count, results.get(str(count), {})):
            results[str(count)] = known
            options.out.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
            if options.chart:
                write_charts(results, options.chart)


if __name__ == "__main__":
    main()
