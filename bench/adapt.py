"""What marks are worth: simulated users mark the answers of queries, and `lemmata adapt` learns from them.

    python -m bench.adapt WORKSPACE POOL TEST [NUMBERS]

POOL is a file of queries with their passages, of which users ask some at random; TEST is another such file or a BEIR
folder, of which nothing is learned. Prints MRR@10 on TEST for each number of marks, as JSON lines. The workspace, which
has vectors, is copied.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from lemmata.adapt import choose, divide, measure, train
from lemmata.core.workspace import Workspace, default_encoder
from lemmata.evaluate.judgments import JudgmentLog, judgments
from lemmata.evaluate.tasks import Task
from lemmata.evaluate.workspace_tasks import beir_task, read_asked, table_task
from lemmata.mine.splits import split
from lemmata.search.index import packaged_encoder

NUMBERS = "0,10,30,100,300"


def read_test(workspace: Workspace, path: Path) -> Task:
    if path.is_dir():
        return beir_task(workspace, path, name="test")
    return table_task(workspace, "test", *read_asked(path), file=path)


def main(folder: Path, pool: Path, test: Path, numbers: str = NUMBERS) -> None:
    queries, qrels = read_asked(pool)
    asked = sorted(queries)
    random.Random(0).shuffle(asked)
    for number in map(int, numbers.split(",")):
        with tempfile.TemporaryDirectory() as scratch:
            began = time.perf_counter()
            workspace = Workspace(shutil.copytree(folder, Path(scratch) / "workspace"))
            if not workspace.manifest(workspace.split_folder).exists():
                split(workspace)
            with JudgmentLog(workspace) as log:
                for query in asked[:number]:
                    for passage in qrels[query]:
                        log.mark(queries[query], passage, "answer")
            marks, tasks = divide(workspace)
            tasks["test"] = read_test(workspace, test)
            before, nano = default_encoder(workspace), packaged_encoder(workspace, static=True)
            today = measure(workspace, "today", before, tasks)
            candidates = [measure(workspace, "auto", before, tasks, marks.learned)]
            trained = train(workspace, "static", judgments(workspace), marks.training, None, [])
            candidates.append(measure(workspace, "static", trained, tasks, marks.fitting))
            rows = [today, measure(workspace, nano, nano, tasks), *candidates]
            hidden = [each._replace(values={k: v for k, v in each.values.items() if k != "test"}) for each in rows]
            best = choose(hidden[0], hidden[2:])
            means = {row.name: round(float(row.values["test"].mean()), 4) for row in rows}
            adopted = best.name if best else "today"
            record = {"marks": number, **means, "adopted": adopted, "seconds": round(time.perf_counter() - began)}
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:5])
