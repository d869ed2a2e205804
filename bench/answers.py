"""Answers of a language model to questions about a workspace, and how many sentences cite what supports them.

    python bench/llm_server.py MODEL.gguf --port 8193 --engine openvino &
    python bench/answers.py WORKSPACE --url http://127.0.0.1:8193/v1 --model NAME --out bench/answers.json

writes the shares as JSON and every sentence as a line of `bench/answers.tsv`, whose column `by_eye` is for a reader: 1
where the cited passages say all that the sentence says, else 0; of a sentence without citations, 1 where some passage
says it. What was filled in before is kept, and is counted beside the measure. The questions of `--part choose` serve to
choose the threshold of the measure; the shares to quote are those of the part `report`.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

from lemmata.answer import SUPPORTS, AnswerOptions, Support, pack
from lemmata.project import Project

COLUMNS = ("question", "sentence", "citations", "flags", "support", "words", "cosine", "by_eye", "text")


def ask(arguments: argparse.Namespace, url: str, question: dict[str, str]) -> dict[str, Any]:
    """The events of one answer, gathered, with both parts of the measure for every citation."""
    project = Project(arguments.workspace)
    settings = {"passages": arguments.passages, "context": arguments.context}
    limits = {"answer_tokens": arguments.tokens, "timeout": arguments.timeout, "retries": 0}
    model = {"url": url, "model": arguments.model, **limits}
    begin = time.monotonic()
    record: dict[str, Any] = {**question, "sentences": []}
    for event in project.ask(question["text"], settings=settings, model=model):
        if event.name == "sentence":
            record["sentences"].append(event.data)
        elif event.name != "text":
            record[event.name] = event.data
    record["seconds"] = time.monotonic() - begin
    with project.retriever() as retriever:
        options = AnswerOptions(**settings)
        sources = pack(retriever.search(question["text"], 2 * options.passages), options)
        support = Support([source.text for source in sources], retriever.encoder, retriever.lexical.tokenizer)
        for sentence in record["sentences"]:
            numbers = [citation["number"] for citation in sentence["citations"] if citation["id"]]
            sentence["parts"] = max((support.parts(sentence["text"], number - 1) for number in numbers), default=None)
    outcome = record.get("done", record.get("error"))
    sys.stderr.write(f"{question['_id']}: {record['seconds']:.0f} s, {outcome}\n")
    return record


def shares(records: Iterable[dict[str, Any]], eye: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Of all complete sentences: those with a citation, with existing ones, supported by the measure, and by eye."""
    answered = [record for record in records if "done" in record]
    counts = {
        name: sum(record["done"][name] for record in answered)
        for name in ("sentences", "cited", "existing", "supported")
    }
    marks: dict[bool, list[tuple[bool, bool]]] = {True: [], False: []}  # by eye and by measure; cited or not
    for record in answered:
        for sentence in record["sentences"]:
            mark = eye.get((record["_id"], " ".join(sentence["text"].split())), "")
            if "incomplete" not in sentence["flags"] and mark in ("0", "1"):
                marks[bool(sentence["citations"])].append((mark == "1", not sentence["flags"]))
    return {
        "questions": len(answered),
        "refused": sum(record["done"]["refused"] for record in answered),
        **counts,
        "share_cited": round(counts["cited"] / max(1, counts["sentences"]), 3),
        "share_existing": round(counts["existing"] / max(1, counts["sentences"]), 3),
        "share_supported": round(counts["supported"] / max(1, counts["sentences"]), 3),
        "cited_and_read_by_eye": len(marks[True]),
        "supported_by_eye": sum(by_eye for by_eye, _ in marks[True]),
        "eye_and_measure_agree": sum(by_eye == measured for by_eye, measured in marks[True]),
        "uncited_and_read_by_eye": len(marks[False]),
        "uncited_but_said_by_a_passage": sum(by_eye for by_eye, _ in marks[False]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--questions", type=Path, default=Path(__file__).with_name("qseries_questions.jsonl"))
    parser.add_argument("--part", choices=("choose", "report"), default="report")
    parser.add_argument("--url", nargs="+", default=["http://127.0.0.1:8193/v1"], help="servers, asked in turn")
    parser.add_argument("--model", required=True)
    parser.add_argument("--passages", type=int, default=3)
    parser.add_argument("--context", type=int, default=1200, help="characters")
    parser.add_argument("--tokens", type=int, default=120, help="of an answer")
    parser.add_argument("--timeout", type=float, default=3600.0)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    lines = arguments.questions.read_text(encoding="utf-8").splitlines()
    questions = [question for question in map(json.loads, lines) if question["part"] == arguments.part]
    with ThreadPoolExecutor(arguments.at_once) as pool:
        records = list(pool.map(ask, repeat(arguments), cycle(arguments.url), questions))
    table = arguments.out.with_suffix(".tsv")
    eye: dict[tuple[str, str], str] = {}
    if table.exists():
        with table.open(encoding="utf-8", newline="") as file:
            eye = {(row["question"], row["text"]): row["by_eye"] for row in csv.DictReader(file, delimiter="\t")}
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(COLUMNS)
        for record in records:
            for number, sentence in enumerate(record["sentences"], 1):
                citations = " ".join(f"{cited['number']}={cited['id']}" for cited in sentence["citations"])
                best = max((cited["support"] or 0.0 for cited in sentence["citations"]), default="")
                words, cosine = (round(part, 3) for part in sentence["parts"]) if sentence["parts"] else ("", "")
                text = " ".join(sentence["text"].split())
                mark = eye.get((record["_id"], text), "")
                flags = ",".join(sentence["flags"])
                writer.writerow((record["_id"], number, citations, flags, best, words, cosine, mark, text))
    settings = ("part", "model", "passages", "context", "tokens")
    result = {
        "command": "python bench/answers.py WORKSPACE --model NAME",
        "settings": {name: getattr(arguments, name) for name in settings},
        "threshold": SUPPORTS,
        "shares": shares(records, eye),
        "errors": {record["_id"]: record["error"]["code"] for record in records if "error" in record},
        "answers": {record["_id"]: record["done"]["answer"] for record in records if "done" in record},
    }
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(result["shares"], indent=1) + "\n")


if __name__ == "__main__":
    main()
