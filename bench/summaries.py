"""Summaries in the index: what they gain, by author, on Stacks, PlanetMath and the bundled example.

    python -m bench.summaries DATA OUT [--encoder NAME] [--corpora stacks,planetmath,qseries] [--chapters a,b,c]
        [--queries CORPUS=FILE.tsv] [--summaries CORPUS=FILE.jsonl] [--json FILE]

DATA holds the folders stacks, stacks-questions and planetmath. Each corpus becomes a workspace OUT/CORPUS, encoded
once; a second run goes on from there. Authors: `written` are queries that a capable language model wrote for training
passages (`recipes/lemmata_mini/written`), `qwen` those of a model of 1.5 billion parameters for all statements, `rules`
those of `lemmata mine queries --part all`. The bundled example has `summaries` by a capable model, a sentence and a
question for each passage, written with its surroundings in view; `--summaries` adds files of other authors. The queries
of `bench/*.tsv` are about passages that `written` leaves out: there it shows what summaries of other passages cost;
`--queries stacks=FILE.tsv` adds a table of queries and ids. The example's training queries are measured as queries
(`asked`), and as the summaries `written` for its test questions. `--chapters` takes only these files of Stacks. An
encoder may be a folder, which runs with torch on a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench.shared import EXAMPLE, ROOT, asked_task, unpacked

from lemmata.evaluate.evaluate import EvaluateOptions
from lemmata.evaluate.significance import bootstrap, compare
from lemmata.evaluate.tasks import Task, task_from
from lemmata.evaluate.workspace_tasks import table_task
from lemmata.ingest.beir import read_judged, read_table
from lemmata.project import Project

BENCH, WRITTEN = ROOT / "bench", ROOT / "recipes" / "lemmata_mini" / "written"
MEASURES = ("MRR@10", "R@20")
RETRIEVERS = ("lexical", "dense", "hybrid", "auto")
RULES = "asked"  # the name of the set


def say(what: str, done: int, total: int | None) -> None:
    if total and (done == total or not done):
        print(f"  {what}: {done:,} of {total:,}", file=sys.stderr)


def workspace(data: Path, out: Path, corpus: str, chapters: Sequence[str]) -> Project:
    """The workspace of a corpus, made where there is none."""
    if (out / corpus / "lemmata.toml").exists():
        return Project(out / corpus)
    source = EXAMPLE
    if corpus != "qseries":
        archive = data / corpus / f"{corpus}.tar.xz"
        source = unpacked(archive, out / "sources" / corpus, set(chapters) or None)
    project = Project.init(out / corpus)
    project.ingest([source])
    return project


def tasks(project: Project, corpus: str, more: Sequence[tuple[str, Path]]) -> dict[str, Task]:
    """The queries for a corpus, those with an answer in it."""
    if corpus == "qseries":
        return {"questions": task_from("questions", *read_judged(EXAMPLE)), "asked": asked_task()}
    tables = {
        "stacks": {"own queries": "stacks_queries", "own summaries": "stacks_summaries"},
        "planetmath": {"own paraphrases": "planetmath_queries"},
    }
    files = {name: BENCH / f"{table}.tsv" for name, table in tables[corpus].items()}
    files |= {file.stem: file for of, file in more if of == corpus}
    opened = project.corpus
    known = set(opened.ids())
    opened.close()
    found = {}
    for name, file in files.items():
        queries, judged = read_table(file)
        qrels = {query: grades for query, grades in judged.items() if known.issuperset(grades)}
        if qrels:
            found[name] = table_task(project, name, {q: queries[q] for q in qrels}, qrels, file=file)
    return found


def sources(data: Path, project: Project, corpus: str, more: Sequence[tuple[str, Path]]) -> dict[str, str]:
    """The summaries of each author, as `lemmata index --summaries` takes them."""
    if RULES not in project.training_sets():
        project.mine("queries", name=RULES, part="all")
    others = {file.stem: str(file) for of, file in more if of == corpus}
    if corpus == "qseries":
        files = {"written": EXAMPLE / "queries-train.jsonl", "summaries": EXAMPLE / "summaries.jsonl"}
        return {"rules": RULES, **{author: str(file) for author, file in files.items()}, **others}
    found = {"rules": RULES, "written": str(WRITTEN / f"{corpus}.jsonl"), **others}
    if corpus == "stacks":
        found["qwen"] = str(data / "stacks-questions" / "questions.jsonl.xz")
        found["written + qwen"] = f"{found['written']},{found['qwen']}"
    return found


def measure(project: Project, found: Mapping[str, Task]) -> dict[str, dict[str, Any]]:
    """Values per query and notes, by task."""
    options = EvaluateOptions(measures=",".join(MEASURES))
    measured = {}
    for name, task in found.items():
        report = project.evaluate(task, retrievers=RETRIEVERS, options=options)
        notes = [note for note in report.notes if "summaries" in note]
        measured[name] = {"values": report.retrievers, "notes": notes}
    return measured


def compared(results: Mapping[str, Mapping[str, Any]], task: str, retriever: str) -> list[dict[str, Any]]:
    """A row for each author: mean, interval, and the difference to the index without summaries."""
    values = {author: of_tasks[task]["values"][retriever] for author, of_tasks in results.items()}
    rows = []
    for author, measures in values.items():
        row: dict[str, Any] = {"task": task, "retriever": retriever, "author": author}
        for name in MEASURES:
            generator = np.random.default_rng(0)
            low, high = bootstrap(measures[name], generator=generator)
            row[name] = {"mean": float(measures[name].mean()), "ci": [low, high]}
            if author != "none":
                pair = {author: measures, "none": values["none"]}
                (difference,) = compare(pair, name, "none", generator)
                row[name] |= {"gain": difference.difference, "gain_ci": [difference.low, difference.high]}
        row["queries"] = len(measures[MEASURES[0]])
        row["notes"] = results[author][task]["notes"]
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--encoder", default="lemmata-mini")
    parser.add_argument("--corpora", default="stacks,planetmath,qseries")
    parser.add_argument("--chapters", default="")
    parser.add_argument("--queries", action="append", default=[])
    parser.add_argument("--summaries", action="append", default=[])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    more, authors = (
        [(corpus, Path(file)) for corpus, _, file in (entry.partition("=") for entry in entries)]
        for entries in (arguments.queries, arguments.summaries)
    )
    chapters = [chapter for chapter in arguments.chapters.split(",") if chapter]
    rows = []
    for corpus in arguments.corpora.split(","):
        project = workspace(arguments.data, arguments.out, corpus, chapters)
        settings = {"encoder": arguments.encoder, "summaries": "none"}
        counts: dict[str, Any] = {"none": {"passages": project.index(settings=settings)["passages"]}}
        found = tasks(project, corpus, more)
        results = {"none": measure(project, found)}
        for author, names in sources(arguments.data, project, corpus, authors).items():
            counts[author] = project.index(settings={**settings, "summaries": names})["summaries"]
            results[author] = measure(project, found)
        for task in found:
            for retriever in RETRIEVERS:
                rows += [{"corpus": corpus, **row} for row in compared(results, task, retriever)]
        for author, numbers in counts.items():
            about = f"{numbers['summaries']:,} of {numbers['passages']:,} passages" if author != "none" else ""
            print(f"{corpus}: {author} {about or numbers['passages']}")
    print("\n| corpus | queries | retriever | summaries | MRR@10 | gain | R@20 |\n|---|---|---|---|---|---|---|")
    for row in rows:
        first, second = (row[name] for name in MEASURES)
        interval = "[{:.3f}, {:.3f}]".format(*first["ci"])
        gain = "{:+.3f} [{:+.3f}, {:+.3f}]".format(first["gain"], *first["gain_ci"]) if "gain" in first else ""
        cells = [row["corpus"], f"{row['queries']} {row['task']}", row["retriever"], row["author"]]
        print("| " + " | ".join([*cells, f"{first['mean']:.3f} {interval}", gain, f"{second['mean']:.3f}"]) + " |")
    if arguments.json:
        content = {"encoder": arguments.encoder, "chapters": chapters, "rows": rows}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
