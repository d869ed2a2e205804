"""Commands of the group export: corpus, beir."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lemmata.cli.evaluate import Limit, Part, Protocol, Share, TaskName, chosen_task
from lemmata.cli.output import (
    HERE,
    AsJson,
    Seed,
    WorkspaceDir,
    counted,
    given,
    open_console,
    print_json,
    showing_progress,
)

_COUNTED = {"passages": "passage", "queries": "query", "judgments": "judgment"}


def corpus(
    path: Annotated[
        str, typer.Argument(help="File to write, .jsonl; or a URL such as s3://bucket/corpus.jsonl.", metavar="FILE")
    ],
    workspace: WorkspaceDir = HERE,
    as_json: AsJson = False,
) -> None:
    """Write the cleaned passages as JSON lines, which `ingest` reads back."""
    from lemmata.project import Project

    with showing_progress(Project(workspace)) as project:
        report = project.export_corpus(path)
    if as_json:
        print_json(report)
    else:
        open_console().print(
            f"{path}: {counted(report['passages'], 'passage')} of {counted(report['documents'], 'document')}"
        )


def beir(
    folder: Annotated[Path, typer.Argument(help="Folder to write.", metavar="DIR")],
    workspace: WorkspaceDir = HERE,
    task: TaskName = "",
    part: Part = "",
    share: Share = 0.2,
    protocol: Protocol = "passage",
    queries: Annotated[
        Path | None, typer.Option(help="Instead of --task: JSON lines, or a .tsv table with ids.", metavar="FILE")
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="Judgments of these queries.", metavar="FILE")] = None,
    limit: Limit = 0,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Write a task as a BEIR folder: corpus, queries, judgments."""
    from lemmata.project import Project

    project = Project(workspace)
    seed = project.evaluate_options(given(seed=seed)).seed
    chosen = chosen_task(project, queries, qrels, None, task, part, share, limit, seed, protocol)
    with showing_progress(project):
        report = project.export_beir(chosen, folder)
    if as_json:
        print_json(report)
        return
    console = open_console()
    counts = ", ".join(counted(report[name], one) for name, one in _COUNTED.items())
    console.print(f"{folder}: {counts}")
    if "missing" in report:
        console.print(f"{report['missing']:,} judgments name passages that are no candidates", style="yellow")
    for note in report["notes"]:
        console.print(note, style="dim")
