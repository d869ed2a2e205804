"""Commands of the group export: corpus, beir."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from lemmata.cli.evaluate import Limit, Part, TaskName, chosen_task
from lemmata.cli.output import opened, perform, print_report, showing_progress


def corpus(
    path: Annotated[
        str, Argument(help="File to write, .jsonl; or a URL such as s3://bucket/corpus.jsonl.", metavar="PATH")
    ],
) -> None:
    """Write the cleaned passages as JSON lines, which `ingest` reads back."""
    from lemmata.evaluate.export import export_corpus

    perform(export_corpus, path=path)


def beir(
    folder: Annotated[Path, Argument(help="Folder to write.", metavar="DIR")],
    task: TaskName = "",
    part: Part = "",
    queries: Annotated[
        Path | None, Option(help="Instead of --task: JSON lines, or a .tsv table with ids.", metavar="FILE")
    ] = None,
    qrels: Annotated[Path | None, Option(help="Judgments of these queries.", metavar="FILE")] = None,
    limit: Limit = 0,
) -> None:
    """Write a task as a BEIR folder: corpus, queries, judgments."""
    from lemmata.evaluate.evaluate import evaluate_options
    from lemmata.evaluate.export import export_beir

    workspace = opened()
    options = evaluate_options(workspace)
    chosen = chosen_task(workspace, options.seed, queries, qrels, None, task, part, limit)
    with showing_progress(workspace):
        report = export_beir(workspace, chosen, folder)
    print_report(report)
