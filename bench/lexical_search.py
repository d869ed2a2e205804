"""Lexical search on validation sets: BM25 alone, with intervals, and around the chosen weights.

    python -m bench.lexical_search DATA [--choose] [--out FILE]

DATA holds the folders stacks, planetmath, mathlib, scifact and cisi; qseries and plants come with lemmata. Everything
was chosen on the sets that are not called test; with `--choose` the weights and parameters are measured around the
chosen ones.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from bench.shared import EXAMPLE, ROOT, asked_task, generate_plant, plant_task, write_json

from lemmata.corpus.corpus import Corpus
from lemmata.evaluate.measures import evaluate, judged, parse_measure
from lemmata.evaluate.significance import Floats64, bootstrap
from lemmata.evaluate.tasks import Task, held_out, references_task, task_from
from lemmata.evaluate.workspace_tasks import table_task
from lemmata.ingest.beir import read_judged, read_table
from lemmata.project import Project
from lemmata.search import lexical
from lemmata.search.encoder_index import LONGEST_QUERY
from lemmata.search.lexical import LexicalIndex
from lemmata.search.retriever import HEADING_WEIGHT
from lemmata.search.tokens import Tokenizer, learn_parts

MEASURES = ("MRR@10", "nDCG@10")
PLANTS = range(11, 21)  # seeds on which the reading of German was chosen
DEPTH = 10


# ---------------------------------------------------------------- sets


@dataclass(frozen=True)
class Indexed:
    """The index of a corpus with the tasks on it."""

    index: LexicalIndex
    row_of: Mapping[str, int]
    tasks: Mapping[str, Task]


def references(corpus: Corpus, limit: int) -> Task:
    """The references of statements of a third of the documents."""
    generator = np.random.default_rng(5)
    documents = held_out([document.id for document in corpus.documents()], 1 / 3, generator)
    return references_task(list(corpus), documents, limit=limit, generator=generator)


def synonyms(archive: Path, corpus: Corpus) -> Task:
    """Other names of PlanetMath articles, as their heads give them; all passages of the article are relevant."""
    passages_of: dict[str, list[str]] = {}
    for identity, document in corpus.table("id", "document"):
        passages_of.setdefault(document, []).append(identity)
    qrels: dict[str, dict[str, int]] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.name.endswith(".tex") else None
            for phrase in re.findall(r"\\pmsynonym\{([^{}]*)\}", file.read().decode("latin-1") if file else ""):
                document = member.name.removesuffix(".tex")
                qrels.setdefault(phrase, {}).update(dict.fromkeys(passages_of.get(document, ()), 1))
    qrels = {phrase: grades for phrase, grades in qrels.items() if grades}
    return task_from("synonyms", {phrase: phrase for phrase in qrels}, qrels)


def tasks_of(name: str, data: Path, plant: Path, project: Project, corpus: Corpus) -> dict[str, Task]:
    def table(file: str) -> Task:
        path = ROOT / "bench" / f"{file}.tsv"
        return table_task(project, file, *read_table(path), file=path, allow_missing=True)

    def beir(folder: Path, part: str = "test") -> Task:
        return task_from(folder.name, *read_judged(folder, part))

    if name == "stacks":
        own = {"Stacks queries": table("stacks_queries"), "Stacks summaries": table("stacks_summaries")}
        return own | {"Stacks references": references(corpus, 500)}
    if name == "planetmath":
        others = synonyms(data / name / "planetmath.tar.xz", corpus)
        return {"PlanetMath queries": table("planetmath_queries"), "PlanetMath synonyms": others}
    if name == "scifact":
        return {"SciFact train": beir(data / name, "train"), "SciFact test": beir(data / name)}
    if name == "qseries":
        return {"qseries train": asked_task(), "qseries test": beir(EXAMPLE)}
    if name in ("mathlib", "cisi"):
        return {{"mathlib": "mathlib phrases", "cisi": "CISI"}[name]: beir(data / name)}
    return {"plant, German": plant_task(plant, "de"), "plant, English": plant_task(plant, "en")}


def sets(data: Path, work: Path) -> Iterator[tuple[str, Indexed]]:
    """Each corpus, one after the other."""
    for name in ("stacks", "planetmath", "mathlib", "scifact", "cisi", "qseries", *(f"plant-{n}" for n in PLANTS)):
        plant, language = work / f"generated-{name}", "en"
        sources = [data / name / f"{name}.tar.xz"] if name in ("stacks", "planetmath") else [data / name]
        if name == "qseries":
            sources = [EXAMPLE]
        elif name.startswith("plant-"):
            generate_plant(plant, 3000, int(name.removeprefix("plant-")))
            sources, language = [plant / "logs.csv", plant / "hierarchy.csv"], "de+en"
        project = Project.init(work / name)
        project.ingest(sources)
        with contextlib.closing(project.corpus) as corpus:
            texts, headings = list(corpus.contents()), list(corpus.headings())
            tokenizer = Tokenizer(language, learn_parts(texts, language))
            index = LexicalIndex.build(texts, work / f"{name}-index", headings=headings, tokenizer=tokenizer)
            row_of = {identity: row for row, identity in enumerate(corpus.ids())}
            yield name, Indexed(index, row_of, tasks_of(name, data, plant, project, corpus))


# ---------------------------------------------------------------- measuring


def values(indexed: Indexed, task: Task, weight: float = HEADING_WEIGHT) -> dict[str, Floats64]:
    """The measures of each query; one that is a passage does not find itself."""
    row_of = indexed.row_of
    queries = [text[:LONGEST_QUERY] for text in task.queries.values()]
    rows, _ = indexed.index.search(queries, DEPTH + 1, task.candidates, heading_weight=weight)
    own = np.array([row_of[task.itself[name]] if name in task.itself else -2 for name in task.queries])
    ranked = np.stack([found[found != itself][:DEPTH] for found, itself in zip(rows, own, strict=True)])
    grades = {
        name: {identity: grade for identity, grade in task.qrels[name].items() if identity in row_of}
        for name in task.queries
    }
    measured = evaluate(ranked, judged(grades, row_of.__getitem__), [parse_measure(name) for name in MEASURES])
    return {str(name): numbers for name, numbers in measured.items()}


def choices(indexed: Indexed) -> Iterator[tuple[str, str, Floats64]]:
    """nDCG@10 of each query with other weights and parameters than the chosen ones, one or two at a time."""
    index = indexed.index
    path = index._folder / "index.json"
    stored = path.read_bytes()
    k1, b, k3 = index._k1, index._b, lexical.K3
    tried = {f"heading weight {weight}": (k1, b, k3, weight) for weight in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)}
    tried |= {f"k3 {value}": (k1, b, value, HEADING_WEIGHT) for value in (0.0, 4.0, 8.0, 20.0, 1e9)}
    tried |= {
        f"k1 {one}, b {other}": (one, other, k3, HEADING_WEIGHT) for one in (0.9, 1.2, 1.5) for other in (0.7, 0.8)
    }
    for name, (one, other, third, weight) in tried.items():
        path.write_text(json.dumps({**json.loads(stored), "k1": one, "b": other}))
        index._load()
        lexical.K3 = third
        for title, task in indexed.tasks.items():
            if "test" not in title:
                yield name, title, values(indexed, shortened(task), weight)["nDCG@10"]
    path.write_bytes(stored)
    index._load()
    lexical.K3 = k3


def shortened(task: Task, most: int = 100) -> Task:
    """References have long queries: fewer of them; other tasks stay as they are."""
    names = list(task.queries)[: most if task.name == "references" else None]
    return replace(task, queries={name: task.queries[name] for name in names})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results: dict[str, dict[str, list[Floats64]]] = {}  # set: measure: a part for each corpus
    tried: dict[str, dict[str, list[Floats64]]] = {}  # choice: set
    with tempfile.TemporaryDirectory() as temporary:
        for corpus, indexed in sets(arguments.data, Path(temporary)):
            for name, task in indexed.tasks.items():
                for measure, numbers in values(indexed, task).items():
                    results.setdefault(name, {}).setdefault(measure, []).append(numbers)
            for choice, name, numbers in choices(indexed) if arguments.choose else ():
                tried.setdefault(choice, {}).setdefault(name, []).append(numbers)
            print(f"{corpus} done", flush=True)
    generator = np.random.default_rng(0)
    content: dict[str, Any] = {}
    for name, measured in results.items():
        joined = {measure: np.concatenate(parts) for measure, parts in measured.items()}
        content[name] = {"queries": len(joined[MEASURES[0]])}
        for measure, numbers in joined.items():
            interval = bootstrap(numbers, generator=generator)
            content[name][measure] = [round(float(value), 4) for value in (numbers.mean(), *interval)]
    if tried:
        content["nDCG@10 by choice"] = by_choice = {
            choice: {name: round(float(np.concatenate(parts).mean()), 4) for name, parts in measured.items()}
            for choice, measured in tried.items()
        }
        for means in by_choice.values():
            means["mean"] = round(float(np.mean(list(means.values()))), 4)
    write_json(content, arguments.out)


if __name__ == "__main__":
    main()
