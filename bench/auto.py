"""BM25, vectors, both with equal weights, and `auto`, on every public validation set, with intervals.

    python -m bench.auto DATA OUT [--only NAME …] [--encoder NAME] [--chapters N] [--fewer N] [--json FILE]
    python -m bench.auto DATA OUT --confidence [--only NAME …] [--json FILE]

DATA holds the folders cisi, cranfield, mathlib, npl, planetmath, scifact and stacks, or the smaller ones of
`bench.small_sets`; the other sets are in this repository, and `plant-N` is generated from the seed N.
Workspaces are made in OUT and used again; a second `--encoder` (a name or a folder) adds its vectors to
them. `auto` is cross-fitted: its weights for one half of the queries are fitted to the other half (to `--fewer` queries
of it), for ten random halves, and a query counts with the mean. `--chapters` takes only the chapters of the Stacks
project with most queries, and the queries that they answer.

`--confidence` measures how well the confidence of a query tells real queries from nonsense (random letters), from
shuffled ones (the words of all queries, dealt out anew) and from foreign ones (those of sets of other fields).

docs/RESULTS.md says which sets chose the default weights.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench.shared import EXAMPLE, ROOT, asked_task, generate_plant, plant_task, unpacked, write_json

from lemmata.encode.load import is_static_encoder
from lemmata.evaluate.significance import bootstrap
from lemmata.evaluate.task_search import TaskSearch
from lemmata.evaluate.tasks import Task, restricted, task_from
from lemmata.evaluate.tuning import fusion_values
from lemmata.evaluate.workspace_tasks import table_task
from lemmata.ingest.beir import read_judged, read_table
from lemmata.project import Project
from lemmata.search.confidence import LEAST, confidence_of
from lemmata.search.fusion import DENSE, EQUAL, LEXICAL, Fusion, default_fusion, fit_fusion
from lemmata.search.retriever import Retriever

BEIR = ("cisi", "cranfield", "mathlib", "npl", "scifact")
SMALL = ("scifact-test", "titles", "citing", "orders")  # of `bench.small_sets`
SETS = ("qseries", *BEIR, "plant-11", "plant-12", "plant-13", "planetmath", "stacks")
TABLES = {"stacks": ("stacks_queries", "stacks_summaries"), "planetmath": ("planetmath_queries",)}
FIELDS = {"qseries": "mathematics", "mathlib": "mathematics", "planetmath": "mathematics", "stacks": "mathematics"}
ASKED = 200  # queries of each kind whose confidence is measured
REPEATS = 10  # random halves
GRID, CROWDINGS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8), (0.1, 0.2, 0.3)  # default weights that are compared
# many answers; MRR@10 elsewhere
GRADED = dict.fromkeys(("cisi", "cranfield", "npl", "scifact", "scifact-test", "citing"), "nDCG@10")


# ---------------------------------------------------------------- workspaces


def workspace(out: Path, name: str, sources: list[Path], encoder: str) -> Project:
    """The workspace of a set with corpus, graph and vectors; made where it is not there yet."""
    folder = out / name
    project = Project(folder) if (folder / "lemmata.toml").exists() else Project.init(folder)
    layout = project
    if not layout.manifest(layout.corpus_folder).exists():
        project.ingest(sources)
    if not layout.manifest(layout.graph_folder).exists():
        project.build_graph()
    begin = time.perf_counter()
    encoded = project.index(settings={"encoder": encoder} if encoder else {}).get("encoded", 0)
    print(f"{name}: {encoded:,} passages encoded, {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    return project


def task_of(name: str, data: Path, out: Path, encoder: str, chapters: int) -> tuple[Project, Task]:
    """The workspace of a set, and its validation queries."""
    if name in (*BEIR, *SMALL):
        project = workspace(out, name, [data / name], encoder)
        texts, judged = read_judged(data / name, "train" if name == "scifact" else "test")
        with contextlib.closing(project.corpus) as corpus:
            ids = set(corpus.ids())  # cranfield judges two abstracts without text
        held = {
            query: {each: grade for each, grade in grades.items() if each in ids} for query, grades in judged.items()
        }
        return project, task_from(name, texts, {query: grades for query, grades in held.items() if grades})
    if name == "qseries":
        return workspace(out, name, [EXAMPLE], encoder), replace(asked_task(), name=name)
    if name.startswith("plant-"):
        plant = out / f"{name}-data"
        if not plant.is_dir():
            generate_plant(plant, 3000, int(name.removeprefix("plant-")))
        project = workspace(out, name, [plant / "logs.csv", plant / "hierarchy.csv"], encoder)
        return project, replace(plant_task(plant), name=name)
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for table in TABLES[name]:
        asked_here, grades = read_table(ROOT / "bench" / f"{table}.tsv")
        queries |= {f"{table} {query}": text for query, text in asked_here.items()}
        qrels |= {f"{table} {query}": dict(judged) for query, judged in grades.items()}
    asked = Counter(answer.partition("#")[0] for judged in qrels.values() for answer in judged)
    only = {chapter for chapter, _ in asked.most_common(chapters)} if chapters and name == "stacks" else None
    project = workspace(out, name, [unpacked(data / name / f"{name}.tar.xz", out / f"{name}-data", only)], encoder)
    task = table_task(project, name, queries, qrels, file=ROOT / "bench", allow_missing=True)
    with contextlib.closing(project.corpus) as corpus:
        ids = set(corpus.ids())
    return project, restricted(task, [query for query, judged in task.qrels.items() if ids >= judged.keys()])


# ---------------------------------------------------------------- measuring


def on_some(values: Callable[[Fusion], Any], chosen: Any, fusion: Fusion) -> Any:
    return values(fusion)[chosen]


def cross_fitted(
    values: Callable[[Fusion], Any], count: int, graph: bool, fewer: int, start: Fusion
) -> tuple[Any, list[str]]:
    """The mean value of each query under weights that were fitted without it, and the most frequent weights."""
    random = np.random.default_rng(0)
    result, fits = np.zeros(count), Counter[str]()
    for _ in range(REPEATS):
        order = random.permutation(count)
        halves = order[: count // 2], order[count // 2 :]
        for fitted, others in (halves, halves[::-1]):
            chosen = fitted[: fewer or None]
            fusion = fit_fusion(partial(on_some, values, chosen), start, graph=graph).fusion
            result[others] += values(fusion)[others] / REPEATS
            fits[fusion.formula] += 1
    return result, [f"{formula} ({number} of {2 * REPEATS})" for formula, number in fits.most_common(2)]


class Measured(NamedTuple):
    """What each way to search is worth, per query."""

    systems: dict[str, Any]
    fits: list[str]  # the most frequent weights of `auto`
    graph: bool
    passages: int
    grid: dict[str, Any]  # what other weights would be worth as the default: dense and crowding


def systems_of(project: Project, task: Task, fewer: int = 0) -> Measured:
    """Everything with the encoder of the workspace, in which nothing is fitted."""
    with contextlib.closing(Retriever(project)) as retriever:
        passages = len(retriever.corpus)
        values, graph = fusion_values(TaskSearch(retriever, task), GRADED.get(task.name, "MRR@10"))
        default, static = retriever.dense().fusion, is_static_encoder(retriever.vectors.encoder, project.models_folder)
    auto, fits = cross_fitted(values, len(task.qrels), graph, fewer, default_fusion(static=static))
    plain = {"BM25": LEXICAL, "dense": DENSE, "hybrid ½": EQUAL, "default": default}
    systems = {name: values(fusion) for name, fusion in plain.items()} | {"auto": auto}
    others = [replace(default, weight=weight, crowding=crowding) for weight in GRID for crowding in CROWDINGS]
    grid = {f"{each.weight:g} {each.crowding:g}": values(each) for each in others}
    return Measured(systems, fits, graph, passages, grid)


def measured(project: Project, task: Task, fewer: int) -> dict[str, Any]:
    name, measure = task.name, GRADED.get(task.name, "MRR@10")
    systems, fits, graph, passages, grid = systems_of(project, task, fewer)
    auto = systems["auto"]
    single = max(("BM25", "dense"), key=lambda system: systems[system].mean())
    random = np.random.default_rng(0)
    table = {
        system: [round(float(each.mean()), 3), *(round(end, 3) for end in bootstrap(each, generator=random))]
        for system, each in systems.items()
    }
    gain = [round(end, 3) for end in bootstrap(auto - systems[single], generator=random)]
    ratio = float(auto.mean() / systems[single].mean())
    record = {"set": name, "passages": passages, "queries": len(task.qrels), "measure": measure, "graph": graph}
    best = systems[single].mean()
    ratios = {name: round(float(values.mean() / best), 3) for name, values in grid.items()}
    ratios["default"] = round(float(systems["default"].mean() / best), 3)
    record |= {"systems": table, "fits": fits, "best single": single, "ratio": round(ratio, 3), "gain": gain}
    return record | {"default weights": ratios}


# ---------------------------------------------------------------- confidence


def area(real: Any, other: Any) -> float:
    """How often a real query is surer than another one; equal ones count half."""
    return float(np.mean((real[:, None] > other) + 0.5 * (real[:, None] == other)))


def nonsense(queries: list[str], random: Any) -> list[str]:
    """Random letters in words as long as those of queries."""
    letters = list("abcdefghijklmnopqrstuvwxyz")
    return [" ".join("".join(random.choice(letters, len(word))) for word in query.split()) for query in queries]


def shuffled(queries: list[str], random: Any) -> list[str]:
    """Queries with the words of others."""
    words = iter(random.permutation([word for query in queries for word in query.split()]).tolist())
    return [" ".join(next(words) for _ in query.split()) for query in queries]


def field_of(name: str) -> str:
    return FIELDS.get(name, name.partition("-")[0])


def confidences(project: Project, name: str, asked: dict[str, list[str]]) -> dict[str, Any]:
    """What the confidence of the queries of a set tells, by vectors and words and by words alone."""
    random = np.random.default_rng(0)
    real = random.permutation(asked[name])[:ASKED].tolist()
    others = [text for other, texts in asked.items() if field_of(other) != field_of(name) for text in texts]
    kinds = {
        "real": real,
        "nonsense": nonsense(real, random),
        "shuffled": shuffled(real, random),
        "foreign": random.permutation(others)[:ASKED].tolist(),
    }
    record: dict[str, Any] = {"set": name, "queries": len(real)}
    with contextlib.closing(Retriever(project)) as retriever:
        for system in ("auto", "lexical"):
            values = {
                kind: np.array([confidence_of(retriever.search(text, retriever=system)) for text in texts], float)
                for kind, texts in kinds.items()
            }
            areas = {kind: round(area(values["real"], other), 3) for kind, other in values.items() if kind != "real"}
            kept = {kind: round(float((each >= LEAST).mean()), 3) for kind, each in values.items()}
            record[system] = {"area": areas, "confident": kept}
    return record


def measure_confidences(options: argparse.Namespace) -> list[dict[str, Any]]:
    tasks = {name: task_of(name, options.data, options.out, options.encoder, options.chapters) for name in options.only}
    asked = {name: [task.queries[query] for query in task.qrels] for name, (_, task) in tasks.items()}
    records = []
    for name, (project, _) in tasks.items():
        records.append(confidences(project, name, asked))
        print(json.dumps(records[-1]), flush=True)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", default=list(SETS), metavar="NAME")
    parser.add_argument("--encoder", default="", help="name or folder; default: the packaged one for the language")
    parser.add_argument("--chapters", type=int, default=0, help="of the Stacks project; 0: all")
    parser.add_argument("--fewer", type=int, default=0, help="queries to fit to; 0: half of the set")
    parser.add_argument("--confidence", action="store_true", help="measure the confidence of queries instead")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.confidence:
        write_json(measure_confidences(options), options.json)
        return
    records = []
    for name in options.only:
        record = measured(*task_of(name, options.data, options.out, options.encoder, options.chapters), options.fewer)
        records.append(record)
        cells = [
            f"{system} {mean:.3f} ({low:.3f}–{high:.3f})" for system, (mean, low, high) in record["systems"].items()
        ]
        print(f"{name} ({record['queries']} queries, {record['measure']}):", ", ".join(cells))
        print(f"    auto / {record['best single']} {record['ratio']:.3f}; {'; '.join(record['fits'])}", flush=True)
    ratios = [record["ratio"] for record in records]
    print(f"auto / best single retriever: mean {np.mean(ratios):.3f}, smallest {min(ratios):.3f}")
    if options.json:
        result = {"encoder": options.encoder or "packaged", "fewer": options.fewer, "sets": records}
        options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
