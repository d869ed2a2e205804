"""Commands on a workspace in an object store: push, pull."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from lemmata.cli.output import counted, line, megabytes, print_report, progress_display, say, working

if TYPE_CHECKING:
    from lemmata.maintain.publish import PushReport

Place = Annotated[str, Argument(help="For example s3://bucket/name, or a folder.", metavar="URL")]


def push(
    url: Place, replace: Annotated[bool, Option("--replace", help="Replace what was pushed from elsewhere.")] = False
) -> None:
    """Copy the workspace to an object store: only what changed."""
    from lemmata.maintain.publish import push

    with working() as workspace:
        report = push(workspace, url, replace=replace)
    for sentence in report.out_of_date:
        say(f"pushed as it is: {sentence}")
    print_report(report, _print_pushed)


def _print_pushed(report: PushReport) -> None:
    sent = f"{megabytes(report.sent)} sent" if report.changed or report.sent else "nothing has changed"
    removed = f", {counted(report.removed, 'old object')} removed" if report.removed else ""
    size = f"{counted(report.files, 'file')}, {megabytes(report.bytes)}"
    line(f"{report.url}, generation {report.generation}: {size}; {sent}{removed}")


def pull(url: Place, folder: Annotated[Path, Argument(help="The workspace to write.", metavar="DIR")]) -> None:
    """Copy a workspace from an object store: only what changed."""
    from lemmata.core.workspace import Workspace
    from lemmata.maintain.publish import pull

    with progress_display() as progress:
        report = pull(Workspace(folder, progress), url)
    received = f"{megabytes(report.received)} received, {counted(report.changed, 'file')} changed"
    size = f"{counted(report.files, 'file')}, {megabytes(report.bytes)}"
    shown = f"{folder}, generation {report.generation}: {size}; {received}"
    print_report(report, lambda _: line(shown))
