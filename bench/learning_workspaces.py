"""The workspaces that learning_tables.toml names, from sources to training sets, with lemmata's own commands.

    python bench/learning_workspaces.py DATA WORK [--only NAME …]

DATA holds the folders stacks, stacks-questions, planetmath, arxiv-math, arxiv-citations, scifact and maintenance. The
four large ones are those of lemmata-mini (recipes/lemmata_mini/make.py). Finished steps are skipped.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTHING_HELD_OUT = "\n[split]\nvalidation = 0.0\ntest = 0.0\nconcept_validation = 0.0\nconcept_test = 0.0\n"
STATEMENTS_ONLY = """
[split]                      # a random tenth of the statements are queries; their texts may be answers in training
method = "stratified"
answers = true
unseen = 0.0
validation = 0.03
test = 0.1
concept_validation = 0.0
concept_test = 0.0

[mine.pairs]                 # links alone, and all of them
most_per_target = 100000
weights = { section = 0.0, note = 0.0, title = 0.0, name = 0.0, description = 0.0, edge = 0.0 }
"""
HALF_OF_THE_CONCEPTS = """
[split]                      # 551 passages have few concepts: more of them are held out than elsewhere
validation = 0.05
test = 0.05
concept_validation = 0.1
concept_test = 0.4
"""


def lemmata(*words: object) -> None:
    print("$ lemmata", *words, flush=True)
    subprocess.run([sys.executable, "-m", "lemmata", *map(str, words)], check=True)


def built(folder: Path, sources: Iterable[Path], settings: str = "") -> None:
    """A workspace with its graph."""
    lemmata("init", folder)
    with (folder / "lemmata.toml").open("a", encoding="utf-8") as stream:
        stream.write(settings)
    for source in sources:
        lemmata("ingest", source, "-w", folder)
    lemmata("graph", "build", "-w", folder)


def copied(old: Path, new: Path, settings: str) -> None:
    """Another split of an ingested corpus."""
    lemmata("init", new)
    with (new / "lemmata.toml").open("a", encoding="utf-8") as stream:
        stream.write(settings)
    for part in ("corpus", "graph"):
        shutil.copytree(old / part, new / part, dirs_exist_ok=True)


def large(data: Path, work: Path) -> None:
    make = ROOT / "recipes" / "lemmata_mini" / "make.py"
    subprocess.run(list(map(str, (sys.executable, make, data, work))), check=True)
    if not (work / "planetmath" / "training" / "queries").is_dir():  # only an older mixture has them
        lemmata("mine", "queries", "-w", work / "planetmath")


def stacks_references(_data: Path, work: Path) -> None:
    folder = work / "stacks-references"
    copied(work / "stacks", folder, STATEMENTS_ONLY)
    lemmata("split", "-w", folder)
    lemmata("mine", "pairs", "--name", "links", "-w", folder)


def leaking(name: str, work: Path) -> None:
    folder = work / f"{name}-leaking"
    copied(work / name, folder, NOTHING_HELD_OUT)
    lemmata("split", "-w", folder)
    lemmata("mine", "pairs", "-w", folder)


def qseries(_data: Path, work: Path) -> None:
    built(work / "qseries", [ROOT / "examples" / "qseries"], HALF_OF_THE_CONCEPTS)
    lemmata("split", "-w", work / "qseries")
    lemmata("mine", "pairs", "-w", work / "qseries")


def plant(_data: Path, work: Path) -> None:
    source, folder = work / "sources" / "plant", work / "plant"
    generate = [sys.executable, ROOT / "examples" / "plant" / "generate.py", source, "--logs", "3000", "--seed", "7"]
    subprocess.run(list(map(str, generate)), check=True)
    built(folder, [source / "hierarchy.csv", source / "logs.csv"])
    lemmata("graph", "link", "-w", folder)
    with_triplets(folder)
    lemmata("mine", "triplets", "--from", "queries", "--name", "query-triplets", "-w", folder)


def work_orders(data: Path, work: Path) -> None:
    """Short texts with an asset and a functional location; queries are failure mode and part."""
    source, folder = work / "sources" / "work-orders", work / "work-orders"
    (source / "labels" / "qrels").mkdir(parents=True, exist_ok=True)
    tree: dict[str, tuple[str, str]] = {}
    orders: list[tuple[str, str, str, str]] = []
    labelled: dict[tuple[str, str], list[str]] = defaultdict(list)
    with (data / "maintenance" / "work_orders.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            asset, place = row["Asset"], f"{row['Asset']}/{row['FuncLocation'].strip()}"
            tree[asset] = ("", f"machine {asset}")
            tree[place] = (asset, row["FuncLocation"].strip())
            orders.append((f"wo{row['id']}", row["OriginalShorttext"], row["BscStartDate"], place))
            if row["FM"] and row["Part"]:
                labelled[row["FM"], row["Part"]].append(f"wo{row['id']}")
    table(
        source / "hierarchy.csv", ("id", "parent", "description"), [(key, *location) for key, location in tree.items()]
    )
    table(source / "work_orders.csv", ("id", "text", "date", "location"), orders)
    with (source / "labels" / "queries.jsonl").open("w", encoding="utf-8") as stream:
        queries = {key: ids for key, ids in sorted(labelled.items()) if len(ids) >= 3}
        for number, (mode, part) in enumerate(queries):
            text = f"{mode}, {part}".replace("_", " ").lower()
            stream.write(json.dumps({"_id": f"q{number}", "text": text}) + "\n")
    with (source / "labels" / "qrels" / "test.tsv").open("w", encoding="utf-8") as stream:
        stream.write("query-id\tcorpus-id\tscore\n")
        for number, ids in enumerate(queries.values()):
            stream.writelines(f"q{number}\t{identity}\t1\n" for identity in ids)
    # these orders are shorter than the hundred characters that triplets need by default
    settings = "\n[mine.triplets]\nshortest = 0\n"
    built(folder, [source / "hierarchy.csv", source / "work_orders.csv"], settings)
    with_triplets(folder)


def with_triplets(folder: Path) -> None:
    lemmata("index", "--encoder", "minilm", "-w", folder)
    lemmata("split", "--method", "time", "-w", folder)
    lemmata("mine", "pairs", "-w", folder)
    lemmata("mine", "queries", "-w", folder)
    lemmata("mine", "triplets", "--from", "embedding", "-w", folder)


def table(file: Path, heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([heading, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    arguments = parser.parse_args()
    data, work = arguments.data.resolve(), arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[], object]] = {
        "lemmata-mini": lambda: large(data, work),
        "stacks-references": lambda: stacks_references(data, work),
        "planetmath-leaking": lambda: leaking("planetmath", work),
        "qseries": lambda: qseries(data, work),
        "qseries-leaking": lambda: leaking("qseries", work),
        "plant": lambda: plant(data, work),
        "work-orders": lambda: work_orders(data, work),
    }
    for name, make in makers.items():
        done = (work / name / "training").is_dir()
        if (not arguments.only or name in arguments.only) and not done:
            make()


if __name__ == "__main__":
    main()
