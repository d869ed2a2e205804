"""What all commands share: common options, output and progress."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from lemmata.errors import LemmataError

if TYPE_CHECKING:
    from rich.console import Console

    from lemmata.project import Progress
    from lemmata.store.corpus import Corpus

__all__ = ["HERE", "AsJson", "Workspace", "fail", "open_console", "print_json", "row_of", "showing_progress"]


Workspace = Annotated[Path, typer.Option("-w", "--workspace", help="The workspace folder.", metavar="DIR")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
HERE = Path()


def fail(message: str, code: int = 1) -> NoReturn:
    print(f"lemmata: {message}", file=sys.stderr)  # noqa: T201
    sys.exit(code)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))  # noqa: T201


def open_console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


@contextmanager
def showing_progress() -> Iterator[Progress]:
    """A progress line with rate and time left on a terminal, a word every ten seconds elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        last = time.monotonic()

        def tell(what: str, done: int, total: int | None) -> None:
            nonlocal last
            if time.monotonic() - last > 10:
                last = time.monotonic()
                print(f"{what}: {done:,}" + (f" of {total:,}" if total else ""), file=sys.stderr)  # noqa: T201

        yield tell
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}
        begun: dict[str, float] = {}

        def show(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total, rate="")
                begun[what] = time.monotonic()
            passed = time.monotonic() - begun[what]
            rate = f"{done / passed:,.0f}/s" if done and passed > 0.2 else ""
            bars.update(tasks[what], completed=done, total=total, rate=rate)

        yield show


def row_of(corpus: Corpus, identity: str) -> int:
    try:
        return corpus.row(identity)
    except KeyError:
        import difflib

        near = difflib.get_close_matches(identity, corpus.ids(), 3, 0.6)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise LemmataError(f"there is no passage {identity!r}{hint}") from None
