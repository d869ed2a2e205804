"""Workspaces that are trained on, runs of them, and small models that they start from."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.small_bert import VOCABULARY, bare_base, sayings

from lemmata.core.types import Floats
from lemmata.encode.static import plain_tokenizer, read_static, write_static
from lemmata.evaluate.report import Report
from lemmata.project import Project
from lemmata.run import run

QUICK = """
base = "{base}"
sets = {{ pairs = 1.0 }}
validation = {{ references = "MRR@10" }}
epochs = 4
batch = 20
rate = 1e-2
"""


def write_notes(file: Path, documents: int = 30) -> Path:
    """Documents with five remarks in one kind of words, each of which refers to the same said with the other kind."""
    lines = []
    for document in range(documents):
        for number, (asked, told) in enumerate(sayings(5, 100 + document)):
            home = {"document": f"d{document}", "kind": "remark"}
            lines.append({"_id": f"a{document}-{number}", "text": asked, "links": [f"b{document}-{number}"], **home})
            lines.append({"_id": f"b{document}-{number}", "text": told, **home})
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return file


def some_papers(folder: Path) -> Path:
    """Half of the bundled notes."""
    folder.mkdir()
    for path in sorted((Path(__file__).parents[1] / "examples" / "qseries").glob("*.tex"))[::2]:
        shutil.copy(path, folder)
    return folder


def say_more(folder: Path, text: str) -> Project:
    """A workspace whose settings say something more."""
    config = folder / "lemmata.toml"
    config.write_text(f"{config.read_text(encoding='utf-8')}\n{text}", encoding="utf-8")
    return Project(folder)


def times(folder: Path) -> dict[str, int]:
    """When each file was written; the lock is opened by everyone."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in files}


class Stopped(BaseException):
    """As if the power had gone."""


RECIPE = """
[split]
method = "stratified"
validation = 0.2
test = 0.2

[mine.negatives]
number = 1

[finetune.tuned]{quick}

[evaluate]
measures = "MRR@10,R@20"

[run]
sources = ["../notes.jsonl"]
mine = ["pairs"]
imports = {{ asked = "../asked.jsonl" }}
negatives = ["pairs"]
base = "hashing"
tasks = ["references", "../riddles"]
"""


def write_recipe(folder: Path, base: Path, text: str = RECIPE) -> Path:
    """A workspace with nothing but settings, and beside it notes, queries to import and a task."""
    write_notes(folder / "notes.jsonl")
    asked = [json.dumps({"passage": f"b{n}-0", "query": sayings(5, 100 + n)[0][0]}) for n in range(20)]
    (folder / "asked.jsonl").write_text("\n".join(asked), encoding="utf-8")
    riddles = folder / "riddles"
    (riddles / "qrels").mkdir(parents=True)
    queries = [json.dumps({"_id": f"q{n}", "text": f"ask {sayings(5, 100 + n)[1][0]}"}) for n in range(8)]
    (riddles / "queries.jsonl").write_text("\n".join(queries), encoding="utf-8")
    judged = "".join(f"q{n}\tb{n}-1\t1\n" for n in range(8))
    (riddles / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", encoding="utf-8")
    (folder / "notes").mkdir()
    config = text.format(quick=QUICK.format(base=base).replace("pairs = 1.0", "pairs = 1.0, pairs-hard = 0.5"))
    (folder / "notes" / "lemmata.toml").write_text(config, encoding="utf-8")
    return folder / "notes"


def run_all(folder: Path) -> tuple[list[Report], dict[str, bool]]:
    """The reports of a run, and for each stage whether it was already done."""
    stages: dict[str, bool] = {}
    reports = run(Project(folder), announce=stages.__setitem__)
    return reports, stages


def run_until(folder: Path, last: str) -> dict[str, bool]:
    """The stages of a run that is stopped when it reaches `last`."""
    stages: dict[str, bool] = {}

    def announce(stage: str, done: bool) -> None:
        stages[stage] = done
        if stage == last:
            raise Stopped

    with pytest.raises(Stopped):
        run(Project(folder), announce=announce)
    return stages


def change(folder: Path, old: str, new: str) -> None:
    config = folder / "lemmata.toml"
    text = config.read_text(encoding="utf-8")
    assert old in text
    config.write_text(text.replace(old, new), encoding="utf-8")


def values(report: Report, retriever: str) -> list[float]:
    return [float(value) for value in report.retrievers[retriever]["MRR@10"]]


def write_times(folder: Path) -> dict[str, int]:
    """When each file was written, except the corpus: every ingest rewrites its skips."""
    return {name: when for name, when in times(folder).items() if not name.startswith("corpus/")}


WORDS = ("[PAD]", "[UNK]", *VOCABULARY)


def write_small(folder: Path, dimension: int = 8) -> Floats:
    """A static encoder with random vectors, one token a word; returns them as they are stored."""
    base = bare_base(folder.parent / f"{folder.name}-base", special=("[PAD]", "[UNK]", "", "", ""))
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), dimension)).astype(np.float32)
    write_static(folder, "small", vectors, plain_tokenizer(base / "tokenizer.json"), max_tokens=16)
    return read_static(folder)


def workspace(folder: Path) -> Project:
    """Notes of four topics that refer to notes of the next topic."""
    generator = random.Random(0)
    words = [[f"{chr(97 + topic)}{chr(97 + number)}word" for number in range(12)] for topic in range(4)]
    rows = []
    for number in range(160):
        topic = number % 4
        targets = [f"n{4 * generator.randrange(40) + (topic + 1) % 4}" for _ in range(2)]
        text = " ".join(generator.sample(words[topic], 5)) + f" note {number}"
        rows.append({"id": f"n{number}", "text": text, "links": {"cites": targets}})
    folder.mkdir(exist_ok=True)
    (folder / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    project = Project.init(folder / "w")
    project.ingest([folder / "notes.jsonl"])
    project.build_graph()
    project.split(settings={"validation": 0.4, "test": 0.1})
    project.index(settings={"encoder": "hashing"})
    return project
