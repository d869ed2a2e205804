"""What is found: measures of each query from TREC runs, and their paired differences between two versions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench.gate.cases import Case, Qrels, Task
from bench.gate.checkout import Checkout

RETRIEVERS = ("lexical", "dense", "hybrid", "auto", "diffusion", "geodesic")
FALL = 0.01  # of a mean, at most
MEASURE = "nDCG@10"  # which decides; the others are there to be read
Values = dict[str, list[float]]  # by query: nDCG@10, MRR@10, R@20
NAMES = (MEASURE, "MRR@10", "R@20")


class Comparison(NamedTuple):
    """One retriever on the queries of one task that both versions were asked."""

    case: str
    task: str
    retriever: str
    queries: int
    other_queries: int  # that only one version was asked
    before: dict[str, float]  # means
    after: dict[str, float]
    interval: tuple[float, float]  # 95 %, of the mean difference of MEASURE
    better: int
    worse: int

    @property
    def difference(self) -> float:
        return self.after[MEASURE] - self.before[MEASURE]

    @property
    def passes(self) -> bool:
        asked = self.other_queries <= 0.01 * self.queries
        return asked and self.interval[1] >= 0 and self.difference >= -FALL


# ---------------------------------------------------------------- measuring one version


def measure(checkout: Checkout, case: Case, workspace: Path, folder: Path) -> dict[str, Values]:
    """Index a workspace; the values of each retriever on each task, by `task retriever`."""
    first = case.encoders[0]  # the one that search uses; vectors of the others are made when they are measured
    checkout.run("index", *(("--encoder", first) if first else ()), "-w", workspace)
    if case.split:
        checkout.run("split", "-o", f"method={case.split}", "-w", workspace)
    usable = [name for name in RETRIEVERS if name != "diffusion" or case.referring]
    others = [f"{retriever}:{encoder}" for encoder in case.encoders[1:] for retriever in usable[1:]]
    retrievers = [*usable, *others]
    results: dict[str, Values] = {}
    for task in case.tasks:
        for name, values in _evaluate(checkout, workspace, task, retrievers, folder).items():
            results[f"{task.name} {name}"] = values
    fitted = next((task for task in case.tasks if not task.made), None)
    if fitted:
        results[f"{fitted.name} auto fitted"] = _fitted(checkout, fitted, workspace, folder)
    return results


def _evaluate(
    checkout: Checkout, workspace: Path, task: Task, retrievers: Iterable[str], folder: Path
) -> dict[str, Values]:
    """The values of the queries of a task, by retriever."""
    names = list(retrievers)
    runs = folder / f"{task.name}.trec"
    checkout.run("evaluate", "-w", workspace, *_asked(task, folder), "--retriever", ",".join(names), "--trec", runs)
    qrels = task.qrels or _read_qrels(folder / f"{task.name}.qrels")
    if len(names) == 1:
        return {names[0]: values_of(runs, qrels)}
    written = {_written(path, task.name): path for path in folder.glob(f"{task.name}.*.trec")}
    return {name: values_of(written[_plain(name)], qrels) for name in names}


def _plain(name: str) -> str:
    return "".join(letter for letter in name if letter.isalnum())


def _written(path: Path, task: str) -> str:
    """The retriever that a file of a run names, which has no colons."""
    return _plain(path.name.removeprefix(f"{task}.").removesuffix(".trec"))


def _asked(task: Task, folder: Path) -> tuple[object, ...]:
    """The arguments of `evaluate` for a task."""
    if task.made:
        return task.made
    queries, qrels = folder / f"{task.name}.queries.jsonl", folder / f"{task.name}.qrels.tsv"
    lines = (json.dumps({"_id": name, "text": text}) + "\n" for name, text in task.queries.items())
    queries.write_text("".join(lines), "utf-8")
    rows = (f"{name}\t{passage}\t{grade}\n" for name, held in task.qrels.items() for passage, grade in held.items())
    qrels.write_text("query-id\tcorpus-id\tscore\n" + "".join(rows), "utf-8")
    return "--queries", queries, "--qrels", qrels, "--allow-missing"


def _fitted(checkout: Checkout, task: Task, workspace: Path, folder: Path) -> Values:
    """`auto` with weights that are fitted to one half of the queries, on the other half, both ways round."""
    copy = folder / "fitted"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(workspace, copy)
    names = sorted(task.qrels)
    halves = [set(names[::2]), set(names[1::2])]
    results: Values = {}
    for number, (fitted, measured) in enumerate((halves, halves[::-1])):
        tune, test = (
            Task(
                f"{task.name}-{kind}-{number}",
                {name: task.queries[name] for name in names if name in half},
                {name: task.qrels[name] for name in names if name in half},
            )
            for kind, half in (("tune", fitted), ("test", measured))
        )
        checkout.run("evaluate", "-w", copy, *_asked(tune, folder), "--retriever", "auto", "--tune")
        results |= _evaluate(checkout, copy, test, ["auto"], folder)["auto"]
    shutil.rmtree(copy)
    return results


# ---------------------------------------------------------------- measures


def _read_qrels(path: Path) -> Qrels:
    qrels: Qrels = {}
    for line in path.read_text("utf-8").splitlines():
        query, _, rest = line.partition(" ")
        passage, _, grade = rest.partition(" ")[2].rpartition(" ")
        if int(grade) > 0:
            qrels.setdefault(query, {})[passage] = int(grade)
    return qrels


def _ranked(path: Path) -> Iterator[tuple[str, str]]:
    """The queries and passages of a run, best first within a query."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            query, _, rest = line.partition(" Q0 ")
            yield query, rest.rsplit(" ", 3)[0]


def values_of(path: Path, qrels: Qrels) -> Values:
    """nDCG@10 (linear gain), MRR@10 and R@20 of each query of the judgments; 0 where nothing was found."""
    rankings: dict[str, list[str]] = {query: [] for query in qrels}
    for query, passage in _ranked(path):
        if query in rankings and len(rankings[query]) < 20:
            rankings[query].append(passage)
    results: Values = {}
    for query, ranking in rankings.items():
        grades = qrels[query]
        gains = [grades.get(passage, 0) for passage in ranking]
        ideal = sum(grade / np.log2(rank + 2) for rank, grade in enumerate(sorted(grades.values(), reverse=True)[:10]))
        gained = sum(grade / np.log2(rank + 2) for rank, grade in enumerate(gains[:10]))
        first = next((rank for rank, grade in enumerate(gains[:10], 1) if grade), 0)
        recalled = sum(grade > 0 for grade in gains) / len(grades)
        results[query] = [round(float(value), 6) for value in (gained / ideal, 1 / first if first else 0.0, recalled)]
    return results


# ---------------------------------------------------------------- comparing


def compare(case: str, before: Mapping[str, Values], after: Mapping[str, Values]) -> list[Comparison]:
    """Every retriever that both versions have, on every task; one that only one has fails by its queries."""
    comparisons = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, {}), after.get(name, {})
        shared = sorted(old.keys() & new.keys())
        task, _, retriever = name.partition(" ")
        first, second = (np.array([held[query] for query in shared]).reshape(-1, 3) for held in (old, new))
        differences = (second - first)[:, 0]
        comparisons.append(
            Comparison(
                case,
                task,
                retriever,
                len(shared),
                len(old.keys() ^ new.keys()),
                _means(first),
                _means(second),
                interval_of(differences),
                int((differences > 0).sum()),
                int((differences < 0).sum()),
            )
        )
    return comparisons


def _means(values: Any) -> dict[str, float]:
    return {name: float(values[:, column].mean()) if len(values) else 0.0 for column, name in enumerate(NAMES)}


def interval_of(differences: Any, resamples: int = 2000) -> tuple[float, float]:
    """The 95 % bootstrap interval of a mean."""
    if not len(differences) or not differences.any():
        return 0.0, 0.0
    random = np.random.default_rng(0)
    rows = random.integers(0, len(differences), (resamples, len(differences)))
    low, high = np.quantile(differences[rows].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)
