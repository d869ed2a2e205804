"""Train on all plants but one, measure on that one; the macro mean over the plants, with BM25 and the base beside it.

    python bench/held_out_plants.py OUT --base NAME=MODEL_FOLDER [--plants 5] [--logs 3000] [--triplets]
    python bench/held_out_plants.py OUT --base NAME=MODEL_FOLDER --steps train   # where the GPU is; needs OUT/jobs only
    python bench/held_out_plants.py OUT --steps report [--json FILE]

`prepare` generates the plants (examples/plant), mines each one's training part, and writes one job for each held-out
plant to OUT/jobs. `train` is that of learning_tables.py and leaves rankings in OUT/models. `report` prints the measures
of every plant and their macro mean. Its interval comes from drawing the questions of each plant again; it says nothing
about other plants, of which there are few. `--triplets` also mines graph-embedding triplets, which needs an index.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.learning_tables import prepare_jobs, read_declarations, train_runs

from lemmata.project import Project
from lemmata.train.job import open_job

ROOT = Path(__file__).parents[1]
MEASURES = ("MRR@10", "nDCG@10", "MAP@10")
OPTIONS = {"batch": 128, "epochs": 5, "rate": 5e-5}
LEXICAL = "BM25"
SAMPLES = 2000


# ---------------------------------------------------------------- prepare


def make_workspaces(work: Path, plants: int, logs: int, *, triplets: bool) -> list[str]:
    """A workspace for each plant with its training sets; returns the names of the sets."""
    sets = ["pairs", "queries", *(["triplets", "query-triplets"] if triplets else [])]
    for number in range(1, plants + 1):
        source, folder = work / "sources" / f"plant-{number}", work / f"plant-{number}"
        if all((folder / "training" / name).is_dir() for name in sets):
            continue
        print(f"plant {number}", flush=True)
        script = ROOT / "examples" / "plant" / "generate.py"
        command = [sys.executable, script, source, "--plant", number, "--logs", logs]
        subprocess.run(list(map(str, command)), check=True)
        project = Project.init(folder)
        project.ingest([source / "hierarchy.csv", source / "logs.csv"])
        project.build_graph()
        project.index(dense=triplets)
        project.split(settings={"method": "time"})
        project.mine("pairs")
        project.mine("queries")
        if triplets:
            project.mine("triplets")
            project.mine("triplets", name="query-triplets", kind="queries")
    return sets


def declare(plants: int, sets: list[str], options: dict[str, Any]) -> str:
    """Jobs and runs as learning_tables.py reads them: for each plant the base, the other plants, and its own logs."""

    def table(names: list[str]) -> str:
        return "{ " + ", ".join(f'"{name}" = 1' for name in names) + " }"

    lines: list[str] = []
    for held_out in range(1, plants + 1):
        others = [f"../plant-{n}/{name}" for n in range(1, plants + 1) if n != held_out for name in sets]
        workspace = f'workspace = "plant-{held_out}"'
        lines += [f"[jobs.without-{held_out}]", workspace, f"sets = {json.dumps(others)}", ""]
        lines += [f"[jobs.own-{held_out}]", workspace, f"sets = {json.dumps(sets)}", ""]
        lines += [f"[jobs.test-{held_out}]", workspace, f'tasks = {{ "../sources/plant-{held_out}" = "MRR@10" }}', ""]
        lines += [f"[tables.plant-{held_out}]", f'job = "without-{held_out}"', f'test = "test-{held_out}"']
        lines += [f'measures = "{",".join(MEASURES)}"', f"[tables.plant-{held_out}.options]"]
        lines += [f"{key} = {value}" for key, value in options.items()]
        lines += [f"[tables.plant-{held_out}.runs]", '"base" = {}', f'"other plants" = {{ sets = {table(others)} }}']
        lines += [f'"its own logs" = {{ job = "own-{held_out}", sets = {table(sets)} }}', ""]
    return "\n".join(lines)


def rank_by_words(work: Path, jobs: Path, plants: int) -> None:
    """BM25's rankings of the test questions: in a test job the place of a passage is its row."""
    from lemmata.ingest.beir import read_judged
    from lemmata.search import Retriever

    for number in range(1, plants + 1):
        queries, qrels = read_judged(work / "sources" / f"plant-{number}")
        with Retriever.open(work / f"plant-{number}") as retriever:
            ranked, _ = retriever.search_rows([queries[query] for query in qrels], 100, "lexical")
        np.save(jobs / f"{LEXICAL}-{number}.npy", ranked.astype(np.int32))


# ---------------------------------------------------------------- report


def macro_mean(values: list[np.ndarray], generator: np.random.Generator) -> tuple[float, float, float]:
    """The mean over plants of the mean over queries, with the interval of drawing each plant's queries again."""
    drawn = [own[generator.integers(0, len(own), (SAMPLES, len(own)))].mean(axis=1) for own in values]
    low, high = np.quantile(np.mean(drawn, axis=0), [0.025, 0.975])
    return float(np.mean([own.mean() for own in values])), float(low), float(high)


def report(jobs: Path, models: Path, declarations: dict[str, Any], file: Path | None) -> dict[str, Any]:
    plants = [int(name.partition("-")[2]) for name in declarations["tables"]]
    scores: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for plant in plants:
        task = open_job(jobs / f"test-{plant}").validations[0]
        rankings = {LEXICAL: np.load(jobs / f"{LEXICAL}-{plant}.npy")}
        for run in declarations["tables"][f"plant-{plant}"]["runs"]:
            path = models / f"plant-{plant}" / f"{run}.npz"
            if path.is_file():
                rankings[run] = next(iter(np.load(path).values()))
        for run, places in rankings.items():
            scores.setdefault(run, {})[plant] = task.scores(places.astype(np.int64), MEASURES)
    figures: dict[str, Any] = {}
    for measure in MEASURES:
        heading = [measure, *(f"plant {plant}" for plant in plants), "macro mean", "against the base"]
        print("\n| " + " | ".join(heading) + " |\n|" + "---|" * len(heading))
        for run, by_plant in scores.items():
            if set(by_plant) != set(plants):
                print(f"| {run} | not trained for every plant |")
                continue
            values = [by_plant[plant][measure] for plant in plants]
            mean = macro_mean(values, np.random.default_rng(0))
            cells = [f"{own.mean():.3f}" for own in values] + ["{:.3f} [{:.3f}, {:.3f}]".format(*mean)]
            entry: dict[str, Any] = {"plants": [round(float(own.mean()), 4) for own in values], "macro": mean}
            if "base" in scores and run != "base":
                gains = [own - scores["base"][plant][measure] for plant, own in zip(plants, values, strict=True)]
                entry["gain"] = macro_mean(gains, np.random.default_rng(0))
                cells.append("{:+.3f} [{:+.3f}, {:+.3f}]".format(*entry["gain"]))
            figures.setdefault(measure, {})[run] = entry
            print("| " + " | ".join([run, *cells]) + " |")
    if file:
        file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--base", action="append", default=[], metavar="NAME=MODEL_FOLDER")
    parser.add_argument("--steps", nargs="+", default=["prepare", "train", "report"])
    parser.add_argument("--plants", type=int, default=5)
    parser.add_argument("--logs", type=int, default=3000)
    parser.add_argument("--triplets", action="store_true")
    parser.add_argument("--epochs", type=int, default=OPTIONS["epochs"])
    parser.add_argument("--side-by-side", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    place = parser.parse_args()
    work, jobs, models = place.out / "work", place.out / "jobs", place.out / "models"
    tables = jobs / "tables.toml"
    if set(place.steps) & {"prepare", "train"} and not place.base:
        parser.error("prepare and train need --base")
    if "prepare" in place.steps:
        sets = make_workspaces(work, place.plants, place.logs, triplets=place.triplets)
        jobs.mkdir(parents=True, exist_ok=True)
        tables.write_text(declare(place.plants, sets, {**OPTIONS, "epochs": place.epochs}), encoding="utf-8")
        folder = Path(place.base[0].partition("=")[2])
        prepare_jobs(read_declarations([], tables), work, jobs, folder)
        rank_by_words(work, jobs, place.plants)
    declarations = read_declarations([], tables)
    if "train" in place.steps:
        bases = {"base": place.base, "side_by_side": place.side_by_side, "seconds": 1e9, "tables": tables}
        train_runs(declarations, argparse.Namespace(jobs=jobs, models=models, **bases))
    if "report" in place.steps:
        report(jobs, models, declarations, place.json)


if __name__ == "__main__":
    main()
