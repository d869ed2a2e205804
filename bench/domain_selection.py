"""In-domain passages from a general corpus: PlanetMath picks abstracts out of arXiv's (`lemmata mine domain`).

    python bench/domain_selection.py DATA OUT --base NAME=MODEL_FOLDER [--general 20000] [--share 0.1] [--encoder NAME]
    python bench/domain_selection.py DATA OUT --base NAME=MODEL_FOLDER --steps train     # needs OUT/jobs only
    python bench/domain_selection.py DATA OUT --steps report [--json FILE]

DATA holds the folders planetmath and arxiv-math. `select` takes a random sample of the abstracts and prints precision
and recall of the selection; an abstract is of the field if one of its categories belongs to one of PlanetMath's seven
classes. `prepare`, `train` and `report` fine-tune on PlanetMath alone, with title and abstract of the selected ones,
and with those of as many random ones. Start from minilm: lemmata-mini was trained on these abstracts.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.learning_tables import prepare_jobs, read_declarations, report_tables, train_runs

from lemmata.project import Project

CLASSES = {  # of PlanetMath: category of arXiv
    "03": "math.LO",
    "05": "math.CO",
    "11": "math.NT",
    "15": "math.RA",  # which includes linear algebra
    "20": "math.GR",
    "26": "math.CA",
    "54": "math.GN",
}
NOTHING_HELD_OUT = {"validation": 0.0, "test": 0.0, "concept_validation": 0.0, "concept_test": 0.0}
QUERIES = Path(__file__).with_name("planetmath_queries.tsv")
OWN = ("pairs:concepts/name", "pairs:concepts/description", "pairs:structure/title")


def of_the_field(row: dict[str, Any]) -> bool:
    return not set(CLASSES.values()).isdisjoint(row["categories"].split())


def sample_abstracts(data: Path, out: Path, number: int, seed: int) -> list[dict[str, Any]]:
    with lzma.open(data / "arxiv-math" / "abstracts.jsonl.xz", "rt", encoding="utf-8") as lines:
        rows = random.Random(seed).sample([json.loads(line) for line in lines], number)
    write_rows(out / "general.jsonl", rows)
    return rows


def write_rows(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def planetmath(data: Path, work: Path) -> Project:
    source, folder = work / "sources", work / "planetmath"
    if not (folder / "split").is_dir():
        with tarfile.open(data / "planetmath" / "planetmath.tar.xz") as archive:
            archive.extractall(source, filter="data")
        project = Project.init(folder)
        project.ingest([source])
        project.build_graph()
        project.split()
    return Project(folder)


def select(project: Project, work: Path, rows: list[dict[str, Any]], share: float, encoder: str) -> dict[str, Any]:
    """Select, draw as many at random, and compare both with the categories."""
    report = project.select_domain(work / "general.jsonl", work / "selected.jsonl", share=share, encoder=encoder)
    selected = [json.loads(line) for line in (work / "selected.jsonl").read_text(encoding="utf-8").splitlines()]
    write_rows(work / "random.jsonl", random.Random(1).sample(rows, len(selected)))
    right, wanted = sum(map(of_the_field, selected)), sum(map(of_the_field, rows))
    report |= {"precision": right / max(1, len(selected)), "recall": right / wanted, "of_the_field": wanted / len(rows)}
    by_class = {name: sum(name in row["categories"].split() for row in selected) for name in CLASSES.values()}
    print(json.dumps({**report, "by_class": by_class}, indent=1))
    return report


def declare(options: dict[str, Any]) -> str:
    def table(*names: str) -> str:
        return "{ " + ", ".join(f'"{name}" = 1' for name in (*OWN, *names)) + " }"

    more = {name: f"../{name}/pairs:structure/title" for name in ("selected", "random")}
    return "\n".join(
        [
            "[jobs.domain]",
            'workspace = "planetmath"',
            f"sets = {json.dumps([*OWN, *more.values()])}",
            "[jobs.domain-test]",
            'workspace = "planetmath"',
            f'tasks = {{ concepts = "nDCG@10", "../{QUERIES.name}" = "MRR@10" }}',
            "[tables.domain]",
            'title = "PlanetMath with abstracts from arXiv"',
            'job = "domain"',
            'test = "domain-test"',
            'measures = "nDCG@10,MRR@10,R@20"',
            "[tables.domain.options]",
            *(f"{key} = {value}" for key, value in options.items()),
            "[tables.domain.runs]",
            '"base" = {}',
            f'"PlanetMath alone" = {{ sets = {table()} }}',
            f'"with random abstracts" = {{ sets = {table(more["random"])} }}',
            f'"with selected abstracts" = {{ sets = {table(more["selected"])} }}',
        ]
    )


def prepare(work: Path, jobs: Path, base: Path, options: dict[str, Any]) -> None:
    project = Project(work / "planetmath")
    if "pairs" not in project.training_sets():
        project.mine("pairs")
    for name in ("selected", "random"):
        other = Project.init(work / name)
        other.ingest([work / f"{name}.jsonl"])
        other.split(settings=NOTHING_HELD_OUT)
        other.mine("pairs")
    shutil.copy(QUERIES, work)
    jobs.mkdir(parents=True, exist_ok=True)
    (jobs / "tables.toml").write_text(declare(options), encoding="utf-8")
    prepare_jobs(read_declarations([], jobs / "tables.toml"), work, jobs, base)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--base", action="append", default=[], metavar="NAME=MODEL_FOLDER")
    parser.add_argument("--steps", nargs="+", default=["select", "prepare", "train", "report"])
    parser.add_argument("--general", type=int, default=20_000)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--side-by-side", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    place = parser.parse_args()
    work, jobs, models = place.out / "work", place.out / "jobs", place.out / "models"
    work.mkdir(parents=True, exist_ok=True)
    if set(place.steps) & {"prepare", "train"} and not place.base:
        parser.error("prepare and train need --base")
    if "select" in place.steps:
        rows = sample_abstracts(place.data, work, place.general, place.seed)
        select(planetmath(place.data, work), work, rows, place.share, place.encoder)
    if "prepare" in place.steps:
        base = Path(place.base[0].partition("=")[2])
        prepare(work, jobs, base, {"batch": 256, "epochs": 3, "rate": 1e-4})
    tables = jobs / "tables.toml"
    if "train" in place.steps:
        options = {"base": place.base, "side_by_side": place.side_by_side, "seconds": 1e9, "tables": tables}
        train_runs(read_declarations([], tables), argparse.Namespace(jobs=jobs, models=models, **options))
    if "report" in place.steps:
        report_tables(read_declarations([], tables), jobs, models, "passage", place.json)


if __name__ == "__main__":
    main()
