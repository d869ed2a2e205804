"""What marks are worth: simulated users mark the answers of queries, and `lemmata adapt` learns from them.

    python -m bench.adapt qseries DATA OUT [--marks 0 10 30 100 300] [--finetune 0.2] [--json bench/adapt.json]
    python -m bench.adapt stacks DATA OUT [--chapters morphisms] …

On q-series users ask the 553 queries that are there for training, and the 64 test questions are the test. On chapters
of the Stacks project they ask generated slogans and questions about half of the statements; 200 about the other half
are the test. Nothing of a test is learned or fitted. Prints MRR@10 on the test for each number of marks as JSON lines,
and adds them to the file, where those that are there already stay. Workspaces are made in OUT, copied for each number.

`--finetune` also fine-tunes lemmata-mini, on so many passes over what there is: short ones, with 48 tokens of each text
and the last layer, as a processor needs hours for more.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.auto import workspace as made_workspace
from bench.shared import EXAMPLE, unpacked

from lemmata.adapt import choose, divide, measure, train
from lemmata.core.workspace import Workspace, default_encoder
from lemmata.evaluate.judgments import JudgmentLog, judgments
from lemmata.evaluate.tasks import Task
from lemmata.evaluate.workspace_tasks import beir_task, read_asked, table_task
from lemmata.search.index import packaged_encoder

TESTED = 200  # queries about statements of the Stacks project
SMALL = """
[finetune.adapted-finetune-1]
epochs = {}
batch = 32
tokens = 48
freeze = 5
rate = 1e-4
"""

Asked = list[tuple[str, dict[str, int]]]  # queries with their answers


def qseries(out: Path) -> tuple[Workspace, Asked, Task]:
    project = made_workspace(out, "qseries", [EXAMPLE], "")
    queries, qrels = read_asked(EXAMPLE / "queries-train.jsonl")
    asked = [(queries[name], dict(qrels[name])) for name in sorted(queries)]
    return project, asked, beir_task(project, EXAMPLE, name="test")


def stacks(data: Path, out: Path, chapters: list[str]) -> tuple[Workspace, Asked, Task]:
    name = f"stacks-{'-'.join(chapters)}"
    sources = unpacked(data / "stacks" / "stacks.tar.xz", out / f"{name}-data", set(chapters))
    project = made_workspace(out, name, [sources], "")
    with lzma.open(data / "stacks-questions" / "questions.jsonl.xz", "rt", encoding="utf-8") as stream:
        records = [json.loads(line) for line in stream]
    known = set(project.corpus.ids())
    records = [each for each in records if each["id"] in known]
    statements = sorted({each["id"] for each in records})
    random.Random(0).shuffle(statements)
    tested = set(statements[::2])
    asked = [(each["text"], {each["id"]: 1}) for each in records if each["id"] not in tested]
    others = [each for each in records if each["id"] in tested]
    random.Random(0).shuffle(others)
    queries = {str(number): each["text"] for number, each in enumerate(others[:TESTED])}
    qrels = {str(number): {each["id"]: 1} for number, each in enumerate(others[:TESTED])}
    return project, asked, table_task(project, "test", queries, qrels, file=data)


def adapted(workspace: Workspace, asked: Asked, test: Task, finetune: float) -> dict[str, Any]:
    """MRR@10 on the test with everything that can be adopted, and what is."""
    with JudgmentLog(workspace) as log:
        for text, answers in asked:
            for passage in answers:
                log.mark(text, passage, "answer")
    marks, tasks = divide(workspace)
    tasks["test"] = test
    before, nano = default_encoder(workspace), packaged_encoder(workspace, static=True)
    rows = [measure(workspace, "today", before, tasks), measure(workspace, nano, nano, tasks)]
    rows.append(measure(workspace, "auto", before, tasks, marks.learned))
    for kind in ("static", "finetune")[: 1 + bool(finetune)]:
        trained = train(workspace, kind, judgments(workspace), marks.training, None, [])
        rows.append(measure(workspace, kind, trained, tasks, marks.fitting))
    hidden = [each._replace(values={k: v for k, v in each.values.items() if k != "test"}) for each in rows]
    best = choose(hidden[0], hidden[2:])
    means = {row.name: round(float(row.values["test"].mean()), 4) for row in rows}
    fits = {row.name: row.fusion.formula for row in rows[2:]}
    return {**means, "adopted": best.name if best else "today", "fits": fits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", choices=("qseries", "stacks"))
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--chapters", nargs="+", default=["morphisms"])
    parser.add_argument("--marks", type=int, nargs="+", default=[0, 10, 30, 100, 300])
    parser.add_argument("--finetune", type=float, default=0.0, help="passes over the training sets; 0: not at all")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.corpus == "qseries":
        made, asked, test = qseries(options.out)
    else:
        made, asked, test = stacks(options.data, options.out, options.chapters)
    random.Random(0).shuffle(asked)
    records = json.loads(options.json.read_text("utf-8")) if options.json and options.json.exists() else []
    done = {(each["corpus"], each["marks"]) for each in records}
    for number in options.marks:
        if (options.corpus, number) in done:
            continue
        began = time.process_time()
        with tempfile.TemporaryDirectory() as scratch:
            workspace = Workspace(shutil.copytree(made.root, Path(scratch) / "workspace"))
            if options.finetune:
                with (workspace.root / "lemmata.toml").open("a", encoding="utf-8") as stream:
                    stream.write(SMALL.format(options.finetune))
                workspace = Workspace(workspace.root)
            record = {
                "corpus": options.corpus,
                "marks": number,
                "passes": options.finetune,
                "queries": len(test.qrels),
            }
            record |= adapted(workspace, asked[:number], test, options.finetune)
        records.append(record | {"cpu_s": round(time.process_time() - began)})
        print(json.dumps(records[-1]), flush=True)
        if options.json:
            lines = ",\n ".join(json.dumps(each, ensure_ascii=False) for each in records)
            options.json.write_text(f"[{lines}]\n", "utf-8")


if __name__ == "__main__":
    main()
