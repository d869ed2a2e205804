"""The thesis' table: questions to statements of the Stacks project, at three levels, by one command.

    python bench/thesis_table.py DATA WORK [--share 0.25] [--encoders minilm lemmata-mini] [--json FILE]

DATA holds the folders stacks and stacks-questions. WORK gets the corpus, its statements as JSON lines (`lemmata export
corpus`), and an index of them for each encoder. Finished steps are skipped. `--share` takes a random share of the
chapters and their queries only, where encoding is slow.

Queries: 100 written ones and 200 summaries (validation of lemmata-mini), and generated questions about statements of
its test part. *Seen*: other statements of the chapter were in lemmata-mini's training; *unseen*: none was. What was
held out when it was trained stands in lemmata_mini_test.tsv, so that no workspace of the recipe is needed here.
Below each table stand the differences to the first encoder with intervals and corrected p.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import lzma
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.evaluate.significance import bootstrap, compare
from lemmata.ingest.beir import read_table
from lemmata.measures import Judged, Measure, evaluate, evaluate_whole_documents, judged, parse_measure
from lemmata.search import Retriever
from lemmata.store.layout import Layout
from lemmata.types import Integers

ROOT = Path(__file__).parents[1]
MEASURES = "Success@1,Success@3,Success@5,P@3,P@5,P@10,R@30,nDCG@10,MRR@10,MAP@100"
LEVELS = ("whole-document", "document", "passage")
DEPTH = 1000
PROSE = ("chunk", "abstract")


def lemmata(*words: object) -> None:
    print("$ lemmata", *words, file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "lemmata", *map(str, words)], check=True, stdout=sys.stderr)


def make_corpus(data: Path, work: Path) -> Path:
    folder = work / "stacks"
    if (folder / "corpus" / "manifest.json").exists():
        return folder
    source = work / "sources" / "stacks"
    if not source.exists():
        part = source.with_suffix(".part")
        with tarfile.open(data / "stacks" / "stacks.tar.xz") as archive:
            archive.extractall(part, filter="data")
        part.rename(source)
    lemmata("init", folder)
    lemmata("ingest", source, "-w", folder)
    return folder


def make_statements(folder: Path, work: Path, share: float) -> Path:
    """The statements of the chosen chapters."""
    out = work / f"statements-{share:g}.jsonl"
    if out.exists():
        return out
    lemmata("export", "corpus", work / "corpus.jsonl", "-w", folder)
    with (work / "corpus.jsonl").open(encoding="utf-8") as lines:
        records = [record for record in map(json.loads, lines) if record["kind"] not in PROSE]
    chapters = sorted({record["document"] for record in records})
    order = np.random.default_rng(0).permutation(len(chapters))
    chosen = {chapters[number] for number in order[: max(1, round(share * len(chapters)))].tolist()}
    kept = [json.dumps(record, ensure_ascii=False) + "\n" for record in records if record["document"] in chosen]
    out.with_suffix(".part").write_text("".join(kept), encoding="utf-8")
    out.with_suffix(".part").rename(out)
    return out


def read_queries(data: Path) -> dict[str, tuple[dict[str, str], dict[str, dict[str, int]], set[str]]]:
    """For each table: queries, judgments, and the queries about chapters that were held out as a whole."""
    table = (ROOT / "bench" / "lemmata_mini_test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    held_out = {(kind, identity) for kind, _, identity in (line.partition("\t") for line in table)}
    tables = {name: read_table(ROOT / "bench" / f"stacks_{name}.tsv") for name in ("queries", "summaries")}
    questions: dict[str, str] = {}
    answers: dict[str, dict[str, int]] = {}
    with lzma.open(data / "stacks-questions" / "questions.jsonl.xz", "rt", encoding="utf-8") as lines:
        for number, record in enumerate(map(json.loads, lines)):
            if record["style"] == "question" and ("statement", record["id"]) in held_out:
                questions[str(number)], answers[str(number)] = " ".join(record["text"].split()), {record["id"]: 1}
    tables["questions"] = (questions, answers)
    return {
        name: (
            queries,
            qrels,
            {q for q, grades in qrels.items() if any(("chapter", i.split("#")[0]) in held_out for i in grades)},
        )
        for name, (queries, qrels) in tables.items()
    }


def measured(ranked: Integers, judgments: Judged, documents: Integers) -> dict[str, dict[str, Any]]:
    """Every measure at every level."""
    measures: list[Measure] = [parse_measure(name) for name in MEASURES.split(",")]
    return {
        "whole-document": evaluate_whole_documents(ranked, judgments, measures, documents=documents),
        "document": evaluate(ranked, judgments, measures, documents=documents),
        "passage": evaluate(ranked, judgments, measures),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--encoders", nargs="+", default=["minilm", "lemmata-mini"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    work: Path = arguments.work
    folder = make_corpus(arguments.data, work)
    statements = make_statements(folder, work, arguments.share)
    workspaces = {name: work / f"{name.replace('/', '-')}-{arguments.share:g}" for name in arguments.encoders}
    for encoder, workspace in workspaces.items():
        lemmata("init", workspace)
        lemmata("ingest", statements, "-w", workspace)
        lemmata("index", "--encoder", encoder, "-w", workspace)
    results: dict[str, Any] = {}
    for table, (queries, qrels, unseen) in read_queries(arguments.data).items():
        values: dict[str, dict[str, dict[str, Any]]] = {level: {} for level in LEVELS}
        for encoder, workspace in workspaces.items():
            with contextlib.closing(Retriever(Layout(workspace))) as retriever:
                row_of = {identity: row for row, identity in enumerate(retriever.corpus.ids())}
                kept = {query: grades for query, grades in qrels.items() if grades.keys() <= row_of.keys()}
                documents = retriever.corpus.document_numbers()
                depth = min(DEPTH, len(row_of))
                for name in ["lexical", "dense"] if encoder == arguments.encoders[0] else ["dense", "hybrid"]:
                    ranked, _ = retriever.search_rows([queries[query] for query in kept], depth, name)
                    found = measured(ranked, judged(kept, row_of.__getitem__), documents)
                    label = {"lexical": "BM25", "dense": encoder, "hybrid": f"{encoder} and BM25"}[name]
                    for level in LEVELS:
                        values[level][label] = found[level]
        if not kept:
            print(f"\n{table}: no query about the chosen chapters")
            continue
        groups = {"all": np.ones(len(kept), bool), "unseen": np.array([query in unseen for query in kept], bool)}
        groups["seen"] = ~groups["unseen"]
        results[table] = {"queries": len(kept), "passages": len(row_of), "levels": {}}
        for level in LEVELS:
            results[table]["levels"][level] = show(table, level, values[level], groups, arguments.encoders[0])
    if arguments.json:
        arguments.json.write_text(json.dumps({"share": arguments.share, "tables": results}, indent=1) + "\n", "utf-8")


def show(table: str, level: str, values: dict[str, Any], groups: dict[str, Any], baseline: str) -> dict[str, Any]:
    """Print one table, and return it."""
    names = MEASURES.split(",")
    report: dict[str, Any] = {"retrievers": {}}
    for group, mask in groups.items():
        if not mask.any():
            continue
        print(f"\n{table}, {level} level, {group}: {int(mask.sum())} queries")
        print("| retriever |", " | ".join(names), "|\n|---|" + "---|" * len(names))
        for retriever, by_name in values.items():
            means = {name: float(by_name[name][mask].mean()) for name in names}
            interval = bootstrap(by_name["MRR@10"][mask], generator=np.random.default_rng(0))
            cells = [f"{means[name]:.3f}" for name in names]
            cells[names.index("MRR@10")] += f" [{interval[0]:.3f}, {interval[1]:.3f}]"
            print(f"| {retriever} |", " | ".join(cells), "|")
            report["retrievers"].setdefault(retriever, {})[group] = {
                "measures": means,
                "MRR@10 interval": list(interval),
            }
    report["comparisons"] = [
        comparison._asdict() for comparison in compare(values, "MRR@10", baseline, np.random.default_rng(0))
    ]
    for pair in report["comparisons"]:
        print(
            f"MRR@10, {pair['first']} - {pair['second']}: {pair['difference']:+.3f}"
            f" [{pair['low']:+.3f}, {pair['high']:+.3f}], corrected p {pair['p_corrected']:.4f}"
        )
    return report


if __name__ == "__main__":
    main()
