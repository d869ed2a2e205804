"""Write what distil.py trains on and measures: texts, pairs of them, and tasks.

    python -m recipes.lemmata_mini.arrays DATA WORK OUT

WORK is as make.py leaves it. OUT gets texts.txt (one a line), domains.npy (of each text: 0 mathematics, 1 science,
2 general English, 3 papers, -1 for texts of tasks, which nothing is trained on), pairs.npy (query, passage, set:
numbers of texts and sets), sets.json (names and weights) and tasks.json. Pairs whose query is equal to one of a task
are dropped, and so are titles that nearly are; their texts stay, without a query. A sentence of an abstract is a query
for that abstract.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench.shared import EXAMPLE, generate_plant, plant_task
from recipes.lemmata_mini.make import HERE, lemmata, repeated

from lemmata.core.types import titled
from lemmata.core.workspace import Workspace
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import normalise
from lemmata.evaluate.tasks import Task, task_from
from lemmata.evaluate.workspace_tasks import corpus_task, read_asked, table_task
from lemmata.ingest.beir import read_corpus, read_judged
from lemmata.train.prepare import is_of, resolve_workspace

MATHEMATICS, SCIENCE, ENGLISH, PAPERS, OF_TASK = 0, 1, 2, 3, -1
ABSTRACTS = ("../arxiv-math/", "../arxiv-citations/")  # sets whose texts are papers
DOMAINS = {"libraries": MATHEMATICS, "formal": MATHEMATICS, "english": ENGLISH, "science": SCIENCE}  # of titles
DICTIONARIES = ("gcide", "jargon", "naics")  # of science.jsonl, but general English
SCIENCE_WEIGHT = 0.4
SENTENCES, SENTENCE_WEIGHT = 50_000, 0.7
NAMES = 3  # queries of a text besides its title
LONGEST = 1500  # characters of a text


class Posed(NamedTuple):
    """A task with the passages that it is posed on."""

    name: str
    group: str  # of tasks that count as one in the mean
    measure: str
    part: str
    task: Task
    corpus: Path  # workspace or folder in the format of BEIR
    ids: list[str]
    texts: list[str]


def on_workspace(name: str, group: str, measure: str, part: str, folder: Path, task: Task) -> Posed:
    with contextlib.closing(Corpus(Workspace(folder))) as corpus:
        return Posed(name, group, measure, part, task, folder, list(corpus.ids()), list(corpus.contents()))


def on_folder(name: str, group: str, measure: str, part: str, folder: Path, judgments: str) -> Posed:
    passages = list(read_corpus(folder))
    texts = [titled(passage["title"], passage["text"]) for passage in passages]
    task = task_from(name, *read_judged(folder, judgments))
    return Posed(name, group, measure, part, task, folder, [passage["id"] for passage in passages], texts)


def tasks(data: Path, work: Path) -> Iterator[Posed]:
    stacks, planetmath = work / "stacks", work / "planetmath"

    def from_table(table: str, part: str, folder: Path = stacks) -> Posed:
        file = work / f"{table}.tsv"
        task = table_task(Workspace(folder), table, *read_asked(file), file=file, allow_missing=True)
        return on_workspace(table, "mathematics", "MRR@10", part, folder, task)

    for table in ("stacks_queries", "stacks_summaries", "stacks_generated"):
        yield from_table(table, "validation")
    yield from_table("planetmath_queries", "validation", planetmath)
    for part in ("validation", "test"):
        for name, folder, kind, measure in (
            ("stacks-references", stacks, "references", "R@20"),
            ("planetmath-names", planetmath, "concepts", "nDCG@10"),
        ):
            task = corpus_task(Workspace(folder), kind, part=part)
            yield on_workspace(name, "mathematics", measure, part, folder, task)
    yield on_folder("mathlib", "mathlib", "MRR@10", "validation", data / "mathlib", "test")
    yield on_folder("scifact-train", "science", "nDCG@10", "validation", data / "scifact", "train")
    for name in ("cisi", "cranfield", "npl"):
        yield on_folder(name, "science", "nDCG@10", "validation", data / name, "test")
    for seed in (11, 12, 13):
        folder, generated = work / f"plant-{seed}", work / f"plant-{seed}-data"
        if not generated.is_dir():
            generate_plant(generated, 3000, seed)
        ingested(folder, generated / "logs.csv", generated / "hierarchy.csv")
        yield on_workspace(f"plant-{seed}", "plants", "MRR@10", "validation", folder, plant_task(generated))
    yield on_folder("scifact-test", "science", "nDCG@10", "test", data / "scifact", "test")
    for file in sorted(work.glob("stacks_test_*.tsv")):
        yield from_table(file.stem, "test")
    ingested(work / "qseries", EXAMPLE)
    task = task_from("qseries", *read_judged(EXAMPLE))
    yield on_workspace("qseries", "mathematics", "nDCG@10", "test", work / "qseries", task)


def ingested(folder: Path, *sources: Path) -> None:
    if not (folder / "lemmata.toml").exists():
        lemmata("init", folder)
        lemmata("ingest", *sources, "-w", folder)


class Arrays:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.domains: list[int] = []
        self.pairs: list[tuple[int, int, int]] = []
        self.sets: dict[str, float] = {}
        self._numbers: dict[str, int] = {}

    def add(self, text: str, domain: int) -> int:
        """The number of a text; one that two domains have is of the first."""
        text = " ".join(text.split())[:LONGEST]
        number = len(self.texts) if domain == OF_TASK else self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
            self.domains.append(domain)
        self.domains[number] = min(self.domains[number], domain)
        return number

    def add_set(self, name: str, weight: float) -> int:
        self.sets[name] = weight
        return len(self.sets) - 1

    def write(self, out: Path, tasks: list[dict[str, Any]]) -> None:
        out.mkdir(parents=True, exist_ok=True)
        for old in (*out.glob("tokens-*"), *out.glob("starts-*"), *out.glob("vectors-*")):
            old.unlink()  # of the texts before
        (out / "texts.txt").write_text("\n".join(self.texts), encoding="utf-8")
        np.save(out / "domains.npy", np.array(self.domains, np.int8))
        np.save(out / "pairs.npy", np.array(self.pairs, np.int64).reshape(-1, 3))
        facts = {"names": list(self.sets), "weights": list(self.sets.values())}
        (out / "sets.json").write_text(json.dumps(facts), encoding="utf-8")
        (out / "tasks.json").write_text(json.dumps(tasks), encoding="utf-8")


def add_mined(arrays: Arrays, work: Path, sets: dict[str, float], held_out: set[str]) -> None:
    """The pairs of the training sets of the workspaces."""
    import pyarrow.parquet as parquet

    columns = ["anchor", "positive", "source", "relation"]
    for spec, weight in sets.items():
        name, _, restriction = spec.partition(":")
        workspace, kind = resolve_workspace(Workspace(work / "stacks"), name)
        file = workspace.root / "training" / kind / "data.parquet"
        records = [row for row in parquet.read_table(file, columns=columns).to_pylist() if is_of(row, restriction)]
        kept = [record for record in records if normalise(record["anchor"]) not in held_out]
        number = arrays.add_set(spec, weight)
        domain = PAPERS if spec.startswith(ABSTRACTS) else MATHEMATICS
        for record in kept:
            query, passage = (arrays.add(record[side], domain) for side in ("anchor", "positive"))
            arrays.pairs.append((query, passage, number))
        print(f"{spec}: {len(kept)} pairs, {len(records) - len(kept)} dropped: equal to a held-out query", flush=True)


def add_titles(arrays: Arrays, file: Path, weight: float, held_out: list[str]) -> None:
    """Titles and other names, each with its text."""
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    twins = repeated([record["title"] for record in records], held_out)
    equal = {normalise(query) for query in held_out}
    number = arrays.add_set(file.stem, weight)
    for place, record in enumerate(records):
        domain = ENGLISH if record.get("source") in DICTIONARIES else DOMAINS[file.stem]
        passage = arrays.add(record["abstract"], domain)
        names = [] if place in twins else [record["title"], *record.get("queries", [])[:NAMES]]
        for name in names:
            if len(name) >= 3 and normalise(name) not in equal:
                arrays.pairs.append((arrays.add(name, domain), passage, number))
    print(f"{file.stem}: {len(records)} texts, {len(twins)} titles dropped: near a held-out query", flush=True)


def add_sentences(arrays: Arrays, held_out: set[str]) -> None:
    """A sentence of a paper's abstract, not the first, as a query for it: claims ask like that, and titles do not."""
    generator = np.random.default_rng(17)
    passages = sorted({passage for _, passage, _ in arrays.pairs if arrays.domains[passage] == PAPERS})
    number, count = arrays.add_set("sentences", SENTENCE_WEIGHT), 0
    for passage in generator.permutation(passages).tolist():
        sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", arrays.texts[passage])
        usable = [text for text in sentences[1:] if 60 <= len(text) <= 260 and normalise(text) not in held_out]
        if len(sentences) < 4 or not usable or count == SENTENCES:
            continue
        arrays.pairs.append((arrays.add(usable[generator.integers(len(usable))], PAPERS), passage, number))
        count += 1
    print(f"sentences: {count} pairs", flush=True)


def task_arrays(arrays: Arrays, posed: list[Posed], out: Path) -> list[dict[str, Any]]:
    """Tasks by the numbers of their texts. Phrases of mathlib that a pair has as its query measure nothing new."""
    asked = {normalise(arrays.texts[query]) for query, _, _ in arrays.pairs}
    spans: dict[Path, tuple[int, int]] = {}
    result = []
    for name, group, measure, part, task, corpus, ids, texts in posed:
        if corpus not in spans:
            begin = len(arrays.texts)
            for text in texts:
                arrays.add(text, OF_TASK)
            spans[corpus] = begin, len(arrays.texts)
        places = {identity: place for place, identity in enumerate(ids)}
        queries, grades, itself = [], [], []
        for query, judgments in task.qrels.items():
            answers = {
                places[passage]: grade for passage, grade in judgments.items() if passage in places and grade > 0
            }
            if not answers or (name == "mathlib" and normalise(task.queries[query]) in asked):
                continue
            queries.append(arrays.add(task.queries[query], OF_TASK))
            grades.append(answers)
            itself.append(places.get(task.itself.get(query, ""), -1))
        print(f"{name}, {part}: {len(queries)} of {len(task.qrels)} queries", flush=True)
        candidates = ""
        if task.candidates is not None:
            candidates = f"candidates-{name}-{part}.npy"
            np.save(out / candidates, np.asarray(task.candidates, bool))
        facts = {"name": name, "group": group, "measure": measure, "part": part, "passages": spans[corpus]}
        result.append({**facts, "queries": queries, "grades": grades, "itself": itself, "candidates": candidates})
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    work, out = arguments.work, arguments.out
    out.mkdir(parents=True, exist_ok=True)
    posed = list(tasks(arguments.data, work))
    # a passage that asks for its neighbours is no query that was kept back
    held_out = [task.queries[query] for *_, task, _, _, _ in posed for query in task.qrels if query not in task.itself]
    sets = tomllib.loads((HERE / "stacks.toml").read_text(encoding="utf-8"))["finetune"]["lemmata-mini"]["sets"]
    weights = {name: sets.pop(f"../{name}/pairs:structure/title", SCIENCE_WEIGHT) for name in DOMAINS}
    arrays = Arrays()
    add_mined(arrays, work, sets, {normalise(query) for query in held_out})
    for name in ("arxiv-math", "arxiv-citations"):  # abstracts without a pair, too
        with contextlib.closing(Corpus(Workspace(work / name))) as corpus:
            for text in corpus.contents():
                arrays.add(text, PAPERS)
    add_sentences(arrays, {normalise(query) for query in held_out})
    for name, weight in weights.items():
        folder = work / ("general" if name == "science" else "sources")
        add_titles(arrays, folder / f"{name}.jsonl", weight, held_out)
    arrays.write(out, task_arrays(arrays, posed, out))
    print(f"{len(arrays.texts)} texts, {len(arrays.pairs)} pairs of {len(arrays.sets)} sets, {len(posed)} tasks")


if __name__ == "__main__":
    main()
