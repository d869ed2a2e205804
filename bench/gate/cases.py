"""What both versions read: the sources of each workspace, and the queries that it is asked.

Everything is written below one folder, the same for both versions. Large sets stand there twice: whole, with the static
encoder, and cut to some queries, their answers and other passages at random, with the encoder that suits the corpus.
"""

from __future__ import annotations

import csv
import json
import lzma
import random
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.gate.checkout import GateError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "qseries"
STATIC, SUITED = "lemmata-nano", ""  # the second: what `lemmata index` takes by itself
QUERIES = 400  # of a task, at most
_BLANK = re.compile(rb"\\label\s*\{[^}]*\s[^}]*\}")
Qrels = dict[str, dict[str, int]]


class Task(NamedTuple):
    """Queries with their answers, or the name of a task that lemmata makes from the corpus."""

    name: str
    queries: Mapping[str, str]
    qrels: Qrels
    made: tuple[str, ...] = ()  # arguments of `evaluate` that make the queries


class Case(NamedTuple):
    """A workspace and what is compared in it."""

    name: str
    sources: list[Path]
    ingest: tuple[str, ...] = ()  # options
    reading: bool = False  # whether all that was read is compared
    linked: bool = False  # whether links of logs are predicted
    referring: bool = True  # whether its passages refer to others, which diffusion needs
    split: str = ""  # method, where a task needs a split
    tasks: list[Task] = []  # noqa: RUF012
    encoders: tuple[str, ...] = ()


# ---------------------------------------------------------------- files of sets


def _records(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    return [json.loads(line) for line in text.split("\n") if line]


def _judged(path: Path) -> Qrels:
    qrels: Qrels = {}
    for line in path.read_text("utf-8").splitlines()[1:]:
        query, passage, grade = line.split("\t")
        if int(grade) > 0:
            qrels.setdefault(query, {})[passage] = int(grade)
    return qrels


def _sample(items: Iterable[Any], count: int, seed: int = 0) -> list[Any]:
    """Items at random, the same at every call."""
    drawn = list(items)
    random.Random(seed).shuffle(drawn)
    return drawn[:count]


def _task(name: str, queries: Mapping[str, str], qrels: Qrels, count: int = QUERIES) -> Task:
    """The task of some of the queries that have answers."""
    asked = sorted(_sample(sorted(qrels.keys() & queries.keys()), count))
    return Task(name, {query: queries[query] for query in asked}, {query: qrels[query] for query in asked})


def _write_corpus(path: Path, corpus: Iterable[Mapping[str, Any]]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in corpus)
    (path / "corpus.jsonl").write_text("".join(lines), "utf-8")
    return path


def _unpack(archive: Path, out: Path, keep: Callable[[str], bool] = lambda _name: True) -> Path:
    if not out.is_dir():
        partial = out.with_name(f"{out.name}.partial")
        with tarfile.open(archive) as tar:
            tar.extractall(partial, members=[each for each in tar if keep(each.name)], filter="data")
        partial.rename(out)
    return out


def _table(name: str) -> tuple[dict[str, str], Qrels]:
    """The queries of a table of this folder's parent: `query`, `id`."""
    with (ROOT / "bench" / f"{name}.tsv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    numbered = {f"{name}-{number}": row for number, row in enumerate(rows)}
    queries = {query: row["query"] for query, row in numbered.items()}
    return queries, {query: {row["id"]: 1} for query, row in numbered.items()}


# ---------------------------------------------------------------- sets of abstracts


def _beir(name: str, data: Path, out: Path, part: str = "test", cut: int = 0, asked: int = QUERIES) -> Case:
    """A BEIR folder; cut to the answers of its queries and others up to a number of passages."""
    folder = data / name
    corpus = _records(folder / "corpus.jsonl.xz")
    ids = {record["_id"] for record in corpus if record["text"].strip() or record.get("title", "").strip()}
    queries = {record["_id"]: record["text"] for record in _records(folder / "queries.jsonl")}
    qrels = {
        query: held
        for query, grades in _judged(folder / "qrels" / f"{part}.tsv").items()
        if (held := {passage: grade for passage, grade in grades.items() if passage in ids})
    }
    task = _task(part, queries, qrels, asked)
    if cut:
        answers = {passage for grades in task.qrels.values() for passage in grades}
        others = sorted(ids - answers)
        kept = answers | set(_sample(others, max(0, cut - len(answers))))
        corpus = [record for record in corpus if record["_id"] in kept]
    links = _cocited(folder / "links.tsv")
    linked = ({**record, "links": links.get(record["_id"], [])} for record in corpus) if links else corpus
    title = f"{name}-cut" if cut else name
    return Case(title, [_write_corpus(out / title, linked)], referring=bool(links), tasks=[task])


def _cocited(path: Path) -> dict[str, list[dict[str, str]]]:
    """The links of CISI between abstracts that are cited together at least twice; none where there is no such file."""
    links: dict[str, list[dict[str, str]]] = {}
    for line in path.read_text("utf-8").splitlines()[1:] if path.exists() else ():
        source, target, weight = line.split("\t")
        if int(weight) > 1:
            links.setdefault(source, []).append({"relation": "cites", "target": target})
    return links


def _arxiv(data: Path, out: Path, cut: int = 0) -> Case:
    """Abstracts that cite each other, split by time: whom a later paper cites."""
    folder = data / "arxiv-citations"
    papers = _records(folder / "nodes.jsonl.xz")
    with lzma.open(folder / "edges.tsv.xz", "rt", encoding="utf-8") as stream:
        edges = [(row[0], row[1]) for row in (line.rstrip("\n").split("\t") for line in stream)]
    degrees = Counter(node for edge in edges for node in edge)
    kept = {paper["id"] for paper in papers}
    kept = {node for node, _ in degrees.most_common(cut or len(degrees)) if node in kept}
    name = "arxiv-citations-cut" if cut else "arxiv-citations"
    target = out / name
    target.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(paper) + "\n" for paper in papers if paper["id"] in kept)
    (target / "nodes.jsonl").write_text("".join(lines), "utf-8")
    held = (f"{source}\t{cited}\n" for source, cited in edges if source in kept and cited in kept)
    (target / "edges.tsv").write_text("".join(held), "utf-8")
    made = ("--task", "references", "--part", "test", "--limit", str(QUERIES))
    return Case(name, [target], split="time", tasks=[Task("references", {}, {}, made)])


def work_orders(data: Path) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Short texts by passage, their normal forms by query, and the passage of each query that differs from it."""
    texts = (data / "maintenance" / "maintnorm" / "test.norm").read_text("utf-8").rstrip("\n").split("\n\n")
    split = ([line.partition("\t") for line in text.splitlines()] for text in texts)
    tokens = [each for each in split if len(each) >= 4]
    written = [" ".join(token for token, _, _ in each) for each in tokens]
    normal = {str(number): " ".join(form for _, _, form in each if form) for number, each in enumerate(tokens)}
    first: dict[str, str] = {}
    answers: dict[str, str] = {}
    for raw, (name, clean) in zip(written, normal.items(), strict=True):
        passage = first.setdefault(raw, name)
        if raw.lower() != clean.lower():
            answers[name] = passage
    return {name: raw for raw, name in first.items()}, normal, answers


def _orders(data: Path, out: Path) -> Case:
    """Work orders as a person normalised them, to find what was written."""
    passages, normal, answers = work_orders(data)
    corpus = ({"_id": name, "title": "", "text": raw} for name, raw in passages.items())
    task = _task("normalised", normal, {query: {passage: 1} for query, passage in answers.items()})
    return Case("work-orders", [_write_corpus(out / "work-orders", corpus)], referring=False, tasks=[task])


# ---------------------------------------------------------------- LaTeX


def _stacks(data: Path, out: Path, chapters: int = 0) -> Case:
    """The Stacks Project; with a number of chapters, those that most summaries and queries are about."""
    tables = [_table("stacks_queries"), _table("stacks_summaries")]
    generated = _records(data / "stacks-questions" / "questions.jsonl.xz")
    asked = _sample([record for record in generated if record["text"].rstrip().endswith((".", "?"))], 4 * QUERIES)
    questions = {f"question-{number}": record["text"] for number, record in enumerate(asked)}
    of_questions: Qrels = {f"question-{number}": {record["id"]: 1} for number, record in enumerate(asked)}
    frequency = Counter(passage.partition("#")[0] for _, qrels in tables for held in qrels.values() for passage in held)
    kept = {chapter for chapter, _ in frequency.most_common(chapters or len(frequency))}

    def within(qrels: Qrels) -> Qrels:
        if not chapters:
            return qrels
        return {query: held for query, held in qrels.items() if all(each.partition("#")[0] in kept for each in held)}

    name = "stacks-cut" if chapters else "stacks"
    archive = data / "stacks" / "stacks.tar.xz"
    folder = _unpack(archive, out / name, lambda file: not chapters or Path(file).stem in kept)
    queries = {query: text for each, _ in tables for query, text in each.items()}
    summaries: Qrels = {query: held for _, qrels in tables for query, held in qrels.items()}
    tasks = [_task("summaries", queries, within(summaries)), _task("questions", questions, within(of_questions))]
    return Case(name, [folder], reading=not chapters, tasks=tasks)


def _planetmath(data: Path, out: Path) -> Case:
    return Case("planetmath", [_unpack(data / "planetmath" / "planetmath.tar.xz", out / "planetmath")], reading=True)


def _planetmath_cut(data: Path, out: Path) -> Case:
    """The articles that are asked for, and others at random; none with a blank in a label, which TREC cannot write."""
    queries, qrels = _table("planetmath_queries")
    archive = data / "planetmath" / "planetmath.tar.xz"
    asked = {passage.partition("#")[0] for held in qrels.values() for passage in held}
    with tarfile.open(archive) as tar:
        members = [each for each in tar if each.name.endswith(".tex")]
        plain = sorted(each.name for each in members if not _BLANK.search(tar.extractfile(each).read()))  # type: ignore[union-attr]
    chosen = {file for file in plain if any(file.endswith(f"{document}.tex") for document in asked)}
    chosen |= set(_sample([file for file in plain if file not in chosen], 800))
    folder = _unpack(archive, out / "planetmath-cut", lambda file: file in chosen)
    concepts = Task("concepts", {}, {}, ("--task", "concepts", "--limit", str(QUERIES)))
    return Case("planetmath-cut", [folder], tasks=[_task("descriptions", queries, qrels), concepts])


def _example(_data: Path, _out: Path) -> Case:
    queries = {record["_id"]: record["text"] for record in _records(EXAMPLE / "queries.jsonl")}
    trained = {f"asked-{number}": each for number, each in enumerate(_records(EXAMPLE / "queries-train.jsonl"))}
    asked: Qrels = {query: {record["passage"]: 1} for query, record in trained.items()}
    tasks = [
        _task("test", queries, _judged(EXAMPLE / "qrels" / "test.tsv")),
        _task("asked", {query: record["query"] for query, record in trained.items()}, asked),
    ]
    return Case("qseries", [EXAMPLE], reading=True, tasks=tasks)


def _book(name: str, archive: str) -> Callable[[Path, Path], Case]:
    def case(data: Path, out: Path) -> Case:
        return Case(name, [_unpack(data / "books" / archive, out / name)], reading=True)

    return case


def _boxes(_data: Path, out: Path) -> Case:
    """A generated book whose definitions are boxes that take their label as an argument."""
    if not (out / "boxes").is_dir():
        words = [sys.executable, "-m", "bench.latex_counts", "--generate", str(out / "boxes")]
        subprocess.run(words, check=True, capture_output=True, cwd=ROOT)
    return Case("boxes", [out / "boxes"], reading=True)


# ---------------------------------------------------------------- plants


def _plant(_data: Path, out: Path) -> Case:
    """The generated plant: logs in German and English, a tree, withheld links."""
    folder = out / "plant"
    if not folder.is_dir():
        script = ROOT / "examples" / "plant" / "generate.py"
        words = [sys.executable, str(script), str(folder), "--logs", "1500", "--seed", "23"]
        subprocess.run(words, check=True, capture_output=True)
    queries = {record["_id"]: record["text"] for record in _records(folder / "queries.jsonl")}
    task = _task("questions", queries, _judged(folder / "qrels" / "test.tsv"))
    sources = [folder / "logs.csv", folder / "hierarchy.csv"]
    return Case("plant", sources, reading=True, linked=True, tasks=[task])


def _maintenance(data: Path, _out: Path) -> Case:
    """Real work orders of five machines."""
    columns = {"id": "id", "text": "OriginalShorttext", "date": "BscStartDate", "location": "FuncLocation"}
    options = tuple(word for key, column in columns.items() for word in ("-o", f"columns.{key}={column}"))
    source = data / "maintenance" / "work_orders.csv"
    return Case("maintenance", [source], ingest=(*options, "--as", "logs"), reading=True)


# ---------------------------------------------------------------- all

BOTH = (SUITED, STATIC)
_CASES: dict[str, tuple[Callable[[Path, Path], Case], tuple[str, ...]]] = {
    "stacks": (_stacks, (STATIC,)),
    "planetmath": (_planetmath, ()),
    "openlogic": (_book("openlogic", "openlogic.tar.xz"), ()),
    "arxiv-citations": (_arxiv, (STATIC,)),
    "stacks-cut": (lambda data, out: _stacks(data, out, chapters=6), BOTH),
    "npl": (lambda data, out: _beir("npl", data, out), (STATIC,)),
    "mathlib": (lambda data, out: _beir("mathlib", data, out), (STATIC,)),
    "scifact": (lambda data, out: _beir("scifact", data, out, "train"), (STATIC,)),
    "scifact-cut": (lambda data, out: _beir("scifact", data, out, "train", cut=1500, asked=300), BOTH),
    "arxiv-citations-cut": (lambda data, out: _arxiv(data, out, cut=1800), BOTH),
    "mathlib-cut": (lambda data, out: _beir("mathlib", data, out, cut=1500), BOTH),
    "npl-cut": (lambda data, out: _beir("npl", data, out, cut=2500), BOTH),
    "cisi": (lambda data, out: _beir("cisi", data, out), BOTH),
    "cranfield": (lambda data, out: _beir("cranfield", data, out), BOTH),
    "planetmath-cut": (_planetmath_cut, BOTH),
    "plant": (_plant, BOTH),
    "work-orders": (_orders, BOTH),
    "qseries": (_example, BOTH),
    "symmetry": (_book("symmetry", "symmetry-book.tar.xz"), ()),
    "hott": (_book("hott", "hott-book.tar.xz"), ()),
    "openintro": (_book("openintro", "openintro-statistics.tar.xz"), ()),
    "maintenance": (_maintenance, ()),
    "boxes": (_boxes, ()),
    "arxiv-sources": (
        lambda data, _out: Case("arxiv-sources", sorted((data / "arxiv-sources").glob("*.gz")), reading=True),
        (),
    ),
}
NAMES = tuple(_CASES)  # those that take longest first
EXAMPLES = ("qseries", "plant", "boxes")  # which need no data


def make_case(name: str, data: Path | None, out: Path) -> Case:
    """The sources and tasks of a case; GateError where its data are not there."""
    make, encoders = _CASES[name]
    if data is None and name not in EXAMPLES:
        raise GateError(f"{name} needs --data")
    try:
        return make(data or Path(), out)._replace(encoders=encoders)
    except FileNotFoundError as error:
        raise GateError(f"{name}: {error.filename} is not there") from error
