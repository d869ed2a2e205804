"""How well synthetic judgments rank retrievers: `lemmata judge` on the invented plant, where the truth is known.

    python bench/judgments.py WORK --by CROSS_ENCODER [--plant 1] [--logs 1500] [--encoder NAME …] [--json FILE]

Generates a plant, indexes it with several encoders, makes a test collection of the newest logs (`lemmata judge`), and
compares it with the truth that the generator knows: a log about the same fault is relevant, in the same section highly
relevant. Prints the agreement of single judgments, the measures of every retriever under both, and Kendall's tau of the
two orders. The plant's own 40 questions, with their true judgments, are a third order. Finished steps are skipped.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from lemmata.evaluate.significance import bootstrap
from lemmata.evaluate.tasks import task_from
from lemmata.ingest.beir import read_judged
from lemmata.project import Project
from lemmata.stages.evaluate import EvaluateOptions

ROOT = Path(__file__).parents[1]
MEASURES = ("nDCG@10", "MRR@10", "MAP@10")


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plant_generate", ROOT / "examples" / "plant" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["plant_generate"] = module
    spec.loader.exec_module(module)
    return module


def lemmata(*words: object) -> None:
    print("$ lemmata", *words, flush=True)
    subprocess.run([sys.executable, "-m", "lemmata", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def prepare(work: Path, plant: int, logs: int, encoders: Sequence[str]) -> Path:
    source, folder = work / f"source-{plant}", work / f"plant-{plant}"
    if not (source / "queries.jsonl").is_file():
        load_generator().generate(source, logs=logs, plant=plant)
    if not (folder / "split").is_dir():
        lemmata("init", folder)
        lemmata("ingest", source / "hierarchy.csv", source / "logs.csv", "-w", folder)
        lemmata("split", "--method", "time", "--test", 0.3, "-w", folder)
    for encoder in encoders:
        lemmata("index", "--encoder", encoder, "-w", folder)
    return folder


Grades = dict[str, dict[str, int]]  # query: {passage: grade}


def true_grades(sources: Mapping[str, Sequence[str]], plant: int, logs: int) -> Grades:
    """The true grades for queries made from logs about a fault; the sources themselves have grade 2."""
    generator = load_generator()
    written, _ = generator.make_logs(generator.site(plant), logs, generator.random_of(7, plant))
    by_id = {log.id: log for log in written}
    grades: Grades = {}
    for query, own in sources.items():
        about = by_id[own[0]]
        if about.fault is None:
            continue
        grades[query] = {
            log.id: 2 if log.place.section == about.place.section or log.id in own else 1
            for log in written
            if log.fault is about.fault or log.id in own
        }
    return grades


def agreement(pool: Path, truth: Grades) -> dict[str, float]:
    """Agreement of judgments within the pool; the sources, which both call highly relevant, count too."""
    with pool.open(encoding="utf-8") as stream:
        lines = [line for line in csv.DictReader(stream, delimiter="\t") if line["query-id"] in truth]
    grades = np.array([(int(line["grade"]), truth[line["query-id"]].get(line["corpus-id"], 0)) for line in lines])
    judged, true = grades.T > 0
    both = float((judged & true).sum())
    observed = float((judged == true).mean())
    chance = judged.mean() * true.mean() + (1 - judged.mean()) * (1 - true.mean())
    in_pool = sum(value > 0 for query in truth.values() for value in query.values())
    return {
        "judged": len(lines),
        "relevant_judged": int(judged.sum()),
        "relevant_true": int(true.sum()),
        "precision": both / max(1, judged.sum()),
        "recall": both / max(1, true.sum()),
        "kappa": (observed - chance) / (1 - chance),
        "true_in_pool": float(true.sum()) / max(1, in_pool),
    }


def kendall(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau-a of two lists of values of the same things."""
    signs = [
        np.sign(first[i] - first[j]) * np.sign(second[i] - second[j]) for i, j in combinations(range(len(first)), 2)
    ]
    return float(np.mean(signs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--by", required=True, metavar="CROSS_ENCODER")
    parser.add_argument("--plant", type=int, default=1)
    parser.add_argument("--logs", type=int, default=1500)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--encoder", nargs="+", default=["hashing", "minilm", "lemmata-mini"], metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    place = parser.parse_args()
    folder = prepare(place.work, place.plant, place.logs, place.encoder)
    systems = ["lexical", *(f"{kind}:{encoder}" for kind in ("dense", "hybrid") for encoder in place.encoder)]
    out = place.work / f"judged-{place.plant}-{Path(place.by).name}"
    project = Project(folder)
    options: dict[str, Any] = {"limit": place.limit, "depth": place.depth, "retrievers": tuple(systems)}
    report = project.judge(out, place.by, **options)
    queries, judged = read_judged(out)
    lines = (out / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    sources = {record["_id"]: record["metadata"]["sources"] for record in map(json.loads, lines)}
    truth = true_grades(sources, place.plant, place.logs)
    source = place.work / f"source-{place.plant}"
    questions, answers = read_judged(source)
    tasks = {
        "synthetic": task_from("synthetic", queries, {query: judged[query] for query in truth}),
        "true": task_from("true", queries, truth),
        "questions": task_from("questions", questions, answers),
    }
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, task in tasks.items():
        done = project.evaluate(task, retrievers=systems, options=EvaluateOptions(measures=",".join(MEASURES)))
        generator = np.random.default_rng(0)
        values[name] = {
            system: {
                m: [float(v.mean()), *bootstrap(v, generator=generator)] for m, v in done.retrievers[system].items()
            }
            for system in systems
        }
    figures: dict[str, Any] = {"judge": report, "agreement": agreement(out / "pool.tsv", truth), "tau": {}}
    print(f"\n{len(truth)} queries about faults, judged by {report['judge']}, thresholds {report['thresholds']}")
    print(", ".join(f"{name} {value:.3f}" for name, value in figures["agreement"].items()))
    for measure in MEASURES:
        print(f"\n| {measure} | " + " | ".join(tasks) + " |\n|---" * 1 + "|---" * len(tasks) + "|")
        for system in systems:
            cells = ["{:.3f} [{:.3f}, {:.3f}]".format(*values[name][system][measure]) for name in tasks]
            print(f"| {system} | " + " | ".join(cells) + " |")
        orders = {name: [values[name][system][measure][0] for system in systems] for name in tasks}
        for one, other in (("synthetic", "true"), ("synthetic", "questions"), ("true", "questions")):
            tau = kendall(orders[one], orders[other])
            figures["tau"][f"{measure}: {one}, {other}"] = tau
            print(f"Kendall's tau of {one} and {other}, {len(systems)} retrievers: {tau:.2f}")
    for name, numbers in report["retrievers"].items():
        print(f"{name}: {numbers}")
    if place.json:
        figures["measures"] = values
        place.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
