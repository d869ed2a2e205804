"""Commands on a workspace in an object store: push, pull."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lemmata.cli.output import (
    HERE,
    AsJson,
    WorkspaceDir,
    counted,
    megabytes,
    open_console,
    print_json,
    progress_display,
    say,
    showing_progress,
)

Place = Annotated[str, typer.Argument(help="For example s3://bucket/name, or a folder.", metavar="URL")]


def push(
    url: Place,
    workspace: WorkspaceDir = HERE,
    replace: Annotated[bool, typer.Option("--replace", help="Replace what was pushed from elsewhere.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the workspace to an object store: only what changed."""
    from lemmata.project import Project

    with showing_progress(Project(workspace)) as project:
        report = project.push(url, replace=replace)
    for sentence in report.out_of_date:
        say(f"pushed as it is: {sentence}")
    if as_json:
        print_json(report._asdict())
        return
    sent = f"{megabytes(report.sent)} sent" if report.changed or report.sent else "nothing has changed"
    removed = f", {counted(report.removed, 'old object')} removed" if report.removed else ""
    size = f"{counted(report.files, 'file')}, {megabytes(report.bytes)}"
    open_console().print(f"{report.url}, generation {report.generation}: {size}; {sent}{removed}")


def pull(
    url: Place,
    folder: Annotated[Path, typer.Argument(help="The workspace to write.", metavar="DIR")],
    as_json: AsJson = False,
) -> None:
    """Copy a workspace from an object store: only what changed."""
    from lemmata.core.workspace import Workspace
    from lemmata.maintain.publish import pull

    with progress_display() as progress:
        report = pull(Workspace(folder, progress), url)
    if as_json:
        print_json(report._asdict())
        return
    received = f"{megabytes(report.received)} received, {counted(report.changed, 'file')} changed"
    size = f"{counted(report.files, 'file')}, {megabytes(report.bytes)}"
    open_console().print(f"{folder}, generation {report.generation}: {size}; {received}")
