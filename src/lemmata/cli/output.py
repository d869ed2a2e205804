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

    from lemmata.llm.chat import Preview
    from lemmata.project import Progress
    from lemmata.store.corpus import Corpus

__all__ = [
    "HERE",
    "AsJson",
    "Calls",
    "Concurrency",
    "Cost",
    "Model",
    "Price",
    "Seconds",
    "Tokens",
    "Unlimited",
    "Url",
    "Workspace",
    "endpoint",
    "fail",
    "may_go_on",
    "open_console",
    "print_json",
    "row_of",
    "showing_progress",
]


Workspace = Annotated[Path, typer.Option("-w", "--workspace", help="The workspace folder.", metavar="DIR")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
HERE = Path()

Url = Annotated[str, typer.Option(help="An OpenAI-compatible address.", metavar="URL")]
Model = Annotated[str, typer.Option(help="The model's name there.", metavar="NAME")]
Calls = Annotated[int, typer.Option(help="At most so many calls, over all runs.", min=0)]
Tokens = Annotated[int, typer.Option(help="At most so many tokens, over all runs.", min=0)]
Cost = Annotated[float, typer.Option(help="At most this cost, over all runs.", min=0)]
Seconds = Annotated[float, typer.Option(help="At most so many seconds, this run.", min=0)]
Unlimited = Annotated[bool, typer.Option("--unlimited", help="Without any limit.")]
Price = Annotated[tuple[float, float], typer.Option(help="Of a million tokens in and out.", metavar="IN OUT")]
Concurrency = Annotated[int, typer.Option(help="Calls at a time.", min=0)]


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


def endpoint(url: str, model: str, price: tuple[float, float], concurrency: int) -> dict[str, Any]:
    """Settings of a language model, those that were given."""
    given = {"url": url, "model": model, "concurrency": concurrency, "price_in": price[0], "price_out": price[1]}
    return {key: value for key, value in given.items() if value}


def may_go_on(preview: Preview, limited: bool, as_json: bool) -> bool:
    """Say what a run of a language model would take; whether to go on, which needs a limit."""
    told = (
        f"{preview.calls:,} calls ({preview.cached:,} answered before), about {preview.tokens_in:,} tokens in and"
        f" {preview.tokens_out:,} out, cost {preview.cost:.2f}, {preview.seconds / 60:.0f} minutes"
    )
    if limited:
        print(told, file=sys.stderr)  # noqa: T201
    elif as_json:
        print_json({"preview": preview._asdict()})
    else:
        console = open_console()
        console.print(told)
        console.print("nothing was sent: give a limit (--calls, --tokens, --cost, --seconds) or --unlimited to go on")
    return limited
