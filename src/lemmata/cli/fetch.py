"""The command fetch: sources from the web into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from lemmata.cli.output import counted, line, print_report, progress_display
from lemmata.core.errors import LemmataError

if TYPE_CHECKING:
    from lemmata.ingest.arxiv import Fetched


def fetch(
    source: Annotated[str, Argument(help="arxiv.", metavar="arxiv")],
    ids: Annotated[
        list[str] | None, Argument(help="Papers: 2004.14974, 2004.14974v2, math/0211159 …", metavar="[ID...]")
    ] = None,
    category: Annotated[str, Option(help="Papers of this category instead: math.CO.", metavar="NAME")] = "",
    month: Annotated[str, Option(help="First submitted in this month.", metavar="YYYY-MM")] = "",
    to: Annotated[Path, Option(help="The folder.", metavar="DIR")] = Path("arxiv"),
    url: Annotated[str, Option(help="A mirror of export.arxiv.org.", metavar="URL")] = "",
    contact: Annotated[str, Option(help="Who asks: your mail address or page.", metavar="TEXT")] = "",
) -> None:
    """Fetch source packages of arXiv into a folder, one request every three seconds.

    The same command resumes a stopped run, and skips what is there. 'lemmata ingest DIR' reads the folder.
    """
    from lemmata.ingest.arxiv import URL, fetch_arxiv

    if source != "arxiv":
        raise LemmataError(f"cannot fetch from {source!r}: lemmata fetch arxiv ID…")
    with progress_display() as progress:
        report = fetch_arxiv(
            to, ids or (), category=category, month=month, url=url or URL, contact=contact, progress=progress
        )
    print_report(report, _print_fetched)


def _print_fetched(report: Fetched) -> None:
    line((f"{counted(len(report.fetched), 'package')} fetched", "bold"), f", {report.present:,} there already")
    for identity, cause in report.notes.items():
        line((f"{identity}: ", "yellow"), cause)
    if report.fetched or report.present:
        line(f"read them with 'lemmata ingest {report.folder}'")
