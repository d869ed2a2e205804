"""Query sets cut or made small, so that two cores encode them in minutes, for `bench.auto`.

    python -m bench.small_sets DATA SETS
    python -m bench.auto SETS OUT --only scifact scifact-test npl mathlib planetmath titles citing orders

Cut to the answers of some queries and others at random: scifact (300 training claims), scifact-test, npl, mathlib,
planetmath. Made, and used for no choice: titles of 250 mathematics papers, whose abstracts are to be found; titles of
150 papers, to find those that cite them; 200 work orders as a person normalised them, to find what was written.
"""

from __future__ import annotations

import json
import lzma
import random
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from bench.gate.cases import work_orders
from bench.shared import ROOT, unpacked

from lemmata.ingest.beir import read_table

Pairs = Iterable[tuple[str, str]]  # of queries and passages


def write_set(folder: Path, corpus: Iterable[Mapping[str, Any]], queries: Mapping[str, str], **judged: Pairs) -> None:
    """A BEIR folder; each part of the judgments by its name."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    (folder / "corpus.jsonl").write_text("".join(json.dumps(each) + "\n" for each in corpus), "utf-8")
    asked = ({"_id": name, "text": text} for name, text in queries.items())
    (folder / "queries.jsonl").write_text("".join(json.dumps(each) + "\n" for each in asked), "utf-8")
    for part, pairs in judged.items():
        lines = "".join(f"{query}\t{passage}\t1\n" for query, passage in pairs)
        (folder / "qrels" / f"{part}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}", "utf-8")


def records(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def shuffled(items: Iterable[Any], seed: int = 0) -> list[Any]:
    result = list(items)
    random.Random(seed).shuffle(result)
    return result


def judged_pairs(path: Path) -> list[tuple[str, str]]:
    rows = (line.split("\t") for line in path.read_text("utf-8").splitlines()[1:])
    return [(row[0], row[1]) for row in rows if len(row) < 3 or float(row[2]) > 0]


def cut(data: Path, answers: set[str], size: int) -> list[dict[str, Any]]:
    """The answers of a set, and others at random up to a size."""
    corpus = list(records(data / "corpus.jsonl.xz"))
    kept = [each for each in corpus if each["_id"] in answers]
    return kept + shuffled(each for each in corpus if each["_id"] not in answers)[: max(0, size - len(kept))]


def cut_sets(data: Path, out: Path) -> None:
    queries = {name: {each["_id"]: each["text"] for each in records(data / name / "queries.jsonl")} for name in CUT}
    train, test = (judged_pairs(data / "scifact" / "qrels" / f"{part}.tsv") for part in ("train", "test"))
    chosen = set(shuffled(sorted({query for query, _ in train}))[:300])
    train = [pair for pair in train if pair[0] in chosen]
    corpus = cut(data / "scifact", {passage for _, passage in train + test}, 1600)
    write_set(out / "scifact", corpus, queries["scifact"], train=train)
    write_set(out / "scifact-test", corpus, queries["scifact"], test=test)
    for name, asked, others in (("npl", 60, 495), ("mathlib", 250, 1100)):
        pairs = judged_pairs(data / name / "qrels" / "test.tsv")
        chosen = set(shuffled(sorted({query for query, _ in pairs}))[:asked])
        pairs = [pair for pair in pairs if pair[0] in chosen]
        answers = {passage for _, passage in pairs}
        write_set(out / name, cut(data / name, answers, len(answers) + others), queries[name], test=pairs)


CUT = ("scifact", "npl", "mathlib")


def cut_planetmath(data: Path, out: Path) -> None:
    """The files that hold answers, and 250 others."""
    files = sorted(unpacked(data / "planetmath" / "planetmath.tar.xz", out / "planetmath-data").rglob("*.tex"))
    grades = read_table(ROOT / "bench" / "planetmath_queries.tsv")[1]
    documents = {passage.partition("#")[0] for judged in grades.values() for passage in dict(judged)}
    kept = [path for path in files if any(name.endswith(path.stem) for name in documents)]
    kept += shuffled(path for path in files if path not in kept)[:250]
    (out / "planetmath").mkdir(exist_ok=True)
    with tarfile.open(out / "planetmath" / "planetmath.tar.xz", "w:xz") as archive:
        for path in kept:
            archive.add(path, path.relative_to(out / "planetmath-data"))


def titles(data: Path, out: Path) -> None:
    papers = shuffled(islice(records(data / "arxiv-math" / "abstracts.jsonl.xz"), 20_001), 1)[:1300]
    corpus = [{"_id": paper["id"], "title": "", "text": paper["abstract"]} for paper in papers]
    asked = {paper["id"]: paper["title"] for paper in papers[:250]}
    write_set(out / "titles", corpus, asked, test=[(name, name) for name in asked])


def citing(data: Path, out: Path) -> None:
    papers = {paper["id"]: paper for paper in records(data / "arxiv-citations" / "nodes.jsonl.xz")}
    cited_by: dict[str, list[str]] = defaultdict(list)
    with lzma.open(data / "arxiv-citations" / "edges.tsv.xz", "rt", encoding="utf-8") as stream:
        for source, target in (line.split()[:2] for line in stream):
            if source in papers and target in papers:
                cited_by[target].append(source)
    cited = shuffled(sorted(name for name, sources in cited_by.items() if 3 <= len(sources) <= 12), 1)[:150]
    answers = {source for name in cited for source in cited_by[name]} - set(cited)
    others = shuffled(sorted(papers.keys() - answers - set(cited)), 2)[: max(0, 1500 - len(answers))]
    corpus = [
        {"_id": name, "title": papers[name]["title"], "text": papers[name]["abstract"]}
        for name in sorted(answers) + others
    ]
    pairs = [(name, source) for name in cited for source in cited_by[name] if source in answers]
    write_set(out / "citing", corpus, {name: papers[name]["title"] for name in cited}, test=pairs)


def orders(data: Path, out: Path) -> None:
    texts, normal, answers = work_orders(data)
    asked = {name: normal[name] for name in shuffled(sorted(answers))[:200]}
    passages = [{"_id": name, "title": "", "text": raw} for name, raw in texts.items()]
    write_set(out / "orders", passages, asked, test=[(name, answers[name]) for name in asked])


def main() -> None:
    data, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    for make in (cut_sets, cut_planetmath, titles, citing, orders):
        make(data, out)


if __name__ == "__main__":
    main()
