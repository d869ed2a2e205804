"""What several benchmarks need."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np

from lemmata.core.types import Floats, Graph, Integers, MeasuredGraph
from lemmata.core.words import language_of
from lemmata.evaluate.tasks import Task, task_from
from lemmata.graph.lengths import sort_edges
from lemmata.ingest.beir import read_qrels, read_queries

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "qseries"


def generate_plant(folder: Path, logs: int, seed: int) -> Path:
    """The example plant of examples/plant, written to `folder`."""
    script = ROOT / "examples" / "plant" / "generate.py"
    command = [sys.executable, str(script), str(folder), "--logs", str(logs), "--seed", str(seed)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def unpacked(archive: Path, out: Path, only: set[str] | None = None) -> Path:
    """The files of an archive in a folder; with `only`, those of these stems. What is there already stays."""
    if not out.is_dir():
        with tarfile.open(archive) as tar:
            members = [member for member in tar if only is None or Path(member.name).stem in only]
            tar.extractall(out, members=members, filter="data")
    return out


def asked_task() -> Task:
    """The queries of examples/qseries that are there for training: none is a test query."""
    lines = (EXAMPLE / "queries-train.jsonl").read_text(encoding="utf-8").splitlines()
    records = {str(number): json.loads(line) for number, line in enumerate(lines)}
    queries = {number: record["query"] for number, record in records.items()}
    return task_from("asked", queries, {number: {record["passage"]: 1} for number, record in records.items()})


def plant_task(folder: Path, language: str = "") -> Task:
    """The questions of a generated plant; with a language, those that are in it."""
    queries, qrels = read_queries(folder / "queries.jsonl"), read_qrels(folder / "qrels" / "test.tsv")
    asked = {name: text for name, text in queries.items() if not language or language_of(text) == language}
    return task_from("plant", asked, {name: qrels[name] for name in asked})


def write_json(result: object, path: Path | None) -> None:
    """Print a result, and write it to a file where one is named."""
    text = json.dumps(result, indent=1, ensure_ascii=False)
    print(text)
    if path:
        path.write_text(text + "\n", "utf-8")


def sorted_edges(graph: Graph, forward: Floats, backward: Floats) -> MeasuredGraph:
    """A graph for the search of paths, from the length of each edge along it and against it."""
    entries = 2 * len(graph.indices)
    result = MeasuredGraph(
        np.empty(len(graph.nodes) + 1, np.int64),
        np.empty(entries, np.int32),
        np.empty(entries, np.float32),
        np.empty(entries, np.int64),
    )
    sort_edges(graph, forward, backward, result)
    return result


def link_graph(links: Integers, forward: Floats, backward: Floats, count: int) -> tuple[Graph, MeasuredGraph]:
    """The graph of links (m, 2) between `count` passages, which are its nodes, and with the lengths of these links."""
    order = np.argsort(links[:, 0], kind="stable")
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(links[:, 0], minlength=count), out=indptr[1:])
    names, relation = [str(row) for row in range(count)], np.zeros(len(links), np.int16)
    graph = Graph(names, names, ["cites"], indptr, links[order, 1], relation, np.ones(len(links), np.float32))
    return graph, sorted_edges(graph, forward[order], backward[order])
