"""lemmata-nano beside lemmata-mini: alone, with BM25 at equal weights, and with fitted weights, on validation sets.

    python -m bench.static_search DATA OUT [--encoders lemmata-nano lemmata-mini] [--only NAME …] [--json FILE]

DATA, OUT and the workspaces in it are those of bench/auto.py, and so is `auto` (cross-fitted); each encoder (a name or
a folder) adds its vectors. Where DATA has stacks-questions, the Stacks project is measured once more with summaries in
the index. Intervals are 95 %, differences are per query. lemmata-nano was chosen on the sets of Stacks and PlanetMath,
with SciFact as its guard; mathlib, CISI and qseries chose nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from bench.auto import GRADED, TABLES, systems_of, task_of

from lemmata.evaluate.significance import Floats64, bootstrap
from lemmata.evaluate.tasks import Task, restricted

SETS = ("qseries", "cisi", "mathlib", "scifact", "planetmath", "stacks")


def tables_of(task: Task) -> dict[str, Task]:
    """The queries of each table of a set; the task itself where it has none."""
    queries = {table: [query for query in task.qrels if query.startswith(f"{table} ")] for table in TABLES[task.name]}
    return {table: restricted(task, chosen) for table, chosen in queries.items()}


def estimate(values: Floats64) -> list[float]:
    low, high = bootstrap(values, generator=np.random.default_rng(0))
    return [round(float(number), 3) for number in (values.mean(), low, high)]


def measured(name: str, data: Path, out: Path, encoders: list[str]) -> list[dict[str, Any]]:
    """A record for each table of queries of a set, and for each with summaries."""
    found: dict[str, dict[str, dict[str, Floats64]]] = {}  # table: encoder: way to search: values per query
    questions = data / "stacks-questions" / "questions.jsonl.xz"
    variants = {"": "none"}
    if name == "stacks" and questions.is_file():
        variants[", summaries"] = str(questions)
    counts = {}
    for variant, summaries in variants.items():  # all encoders without, then all with: a choice holds for all of them
        for encoder in encoders:
            project, task = task_of(name, data, out, encoder, 0)
            project.index(settings={"encoder": encoder, "summaries": summaries})
            for table, part in (tables_of(task) if name in TABLES else {name: task}).items():
                found.setdefault(table + variant, {})[Path(encoder).name] = systems_of(project, part).systems
                counts[table + variant] = len(part.qrels)
    records = []
    for table, by_encoder in found.items():
        record: dict[str, Any] = {"set": table, "queries": counts[table], "measure": GRADED.get(name, "MRR@10")}
        record["BM25"] = estimate(next(iter(by_encoder.values()))["BM25"])
        for encoder, values in by_encoder.items():
            record[encoder] = {system: estimate(each) for system, each in values.items() if system != "BM25"}
            record[encoder]["auto − BM25"] = estimate(values["auto"] - values["BM25"])
        if len(by_encoder) == 2:
            first, second = by_encoder.values()
            record["difference"] = {system: estimate(first[system] - second[system]) for system in ("dense", "auto")}
        records.append(record)
    return records


def show(record: dict[str, Any]) -> None:
    def cell(numbers: list[float]) -> str:
        return "{:.3f} ({:.3f}–{:.3f})".format(*numbers)

    print(f"{record['set']} ({record['queries']} queries, {record['measure']}): BM25 {cell(record['BM25'])}")
    for name, systems in record.items():
        if isinstance(systems, dict):
            print(f"    {name}: " + ", ".join(f"{system} {cell(numbers)}" for system, numbers in systems.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--encoders", nargs="+", default=["lemmata-nano", "lemmata-mini"], metavar="NAME")
    parser.add_argument("--only", nargs="+", default=list(SETS), metavar="NAME")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    records = []
    for name in options.only:
        for record in measured(name, options.data, options.out, options.encoders):
            show(record)
            records.append(record)
    if options.json:
        options.json.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
