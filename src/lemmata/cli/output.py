"""Shared by all commands: common options, output and progress."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

from typer import Option

from lemmata.core.errors import ConfigError
from lemmata.core.records import as_json
from lemmata.train.ranks import is_first_process, is_first_to_fail

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from lemmata.core.types import Progress
    from lemmata.core.workspace import Settings, Workspace
    from lemmata.llm.chat import Preview


Assigned = Annotated[
    list[str] | None,
    Option("-o", help="A setting for this call: its key in lemmata.toml, or table.key.", metavar="KEY=VALUE"),
]
On = Annotated[
    str,
    Option("--on", help="Compute on a Ray cluster: ray://HOST:PORT; local: one on this machine.", metavar="CLUSTER"),
]
Model = Annotated[str, Option(help="Name of the language model; its server: -o llm.url=URL.", metavar="NAME")]
Budget = Annotated[
    str,
    Option(
        help="Maximum of all runs: calls=N,tokens=N,cost=X, and seconds=N of this run; or unlimited.", metavar="LIMITS"
    ),
]
EncoderBudget = Annotated[
    str,
    Option("--budget", help="Maximum for remote encoders: tokens=N, cost=X by the price in [index].", metavar="LIMITS"),
]
MISUSED = 2  # the exit code of typer where it cannot read the command line
_UNWRAPPED = 100_000  # columns
_PADDING = re.compile(r" +(?=\n)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(slots=True)
class Invocation:
    """What the options say that every command has."""

    folder: Path = Path()  # -w: the workspace
    is_json: bool = False  # --json


invocation = Invocation()


def _printable(text: str) -> str:
    """Text without control characters: a file name or a document must not drive the terminal."""
    return _CONTROL.sub("\ufffd", text)


def _is_unicode(stream: TextIO) -> bool:
    """False where a stream cannot show every character; JSON must then write them as escapes, or they are lost."""
    return (stream.encoding or "utf").lower().startswith("utf")


@dataclass(slots=True)
class Log:
    """How messages and progress are written to standard error: as text or, with `--log json`, a JSON object a line."""

    is_json: bool = False
    stage: str = ""  # the command, or the stage of a run

    def write(self, message: str, *, level: str = "info", **counts: float | None) -> None:
        """Write a message with the numbers that belong to it; of several processes, only the first informs."""
        if level == "info" and not is_first_process():
            return
        text = f"lemmata: {_printable(message)}"
        if self.is_json:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
            record = {"time": now, "level": level, "stage": self.stage, "message": message}
            known = {name: number for name, number in counts.items() if number is not None}
            text = json.dumps({**record, **known}, ensure_ascii=not _is_unicode(sys.stderr))
        print(text, file=sys.stderr, flush=True)  # noqa: T201


log = Log()


def say(message: str) -> None:
    """Print a sentence on standard error."""
    log.write(message)


def fail(message: str, code: int = 1) -> NoReturn:
    if is_first_to_fail():
        log.write(message, level="error")
    sys.exit(code)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=not _is_unicode(sys.stdout), indent=1))  # noqa: T201


def open_console() -> Console:
    """Standard output. It takes no markup: a `[pdf]` in an id, a file name or LaTeX is printed as it is.

    Lines wrap on a terminal only; in a pipe or a file they stay whole, and end without blanks.
    """
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
            for segment in super().render(*args, **kwargs):
                yield segment if segment.control else segment._replace(text=_printable(segment.text))

        def print(self, *args: Any, **kwargs: Any) -> None:
            if sys.stdout.isatty():
                super().print(*args, **kwargs)
                return
            with self.capture() as captured:
                super().print(*args, **kwargs)
            self.file.write(_PADDING.sub("", captured.get()))
            self.file.flush()

    wrapped = sys.stdout.isatty() or "COLUMNS" in os.environ
    return SafeConsole(highlight=False, markup=False, width=None if wrapped else _UNWRAPPED)


def styled(*parts: str | tuple[str, str]) -> Text:
    """A line of texts and of (text, style) pairs."""
    from rich.text import Text

    return Text.assemble(*parts)


def line(*parts: str | tuple[str, str], style: str = "") -> None:
    """Print a line of texts and of (text, style) pairs."""
    open_console().print(styled(*parts), style=style, soft_wrap=True)


def table(heads: Sequence[str], rows: Iterable[Sequence[str | Text]], **layout: Any) -> Table:
    """A table without lines; a column whose head begins with > is aligned to the right."""
    from rich.table import Table

    result = Table(box=None, pad_edge=False, header_style="bold", show_header=any(heads), **layout)
    for head in heads:
        result.add_column(head.removeprefix(">"), justify="right" if head.startswith(">") else "left", overflow="fold")
    for row in rows:
        result.add_row(*row)
    return result


def print_report(
    report: Any,
    show: Callable[[Any], None] | None = None,
    *,
    record: Any = None,
    shown: Sequence[str] = (),
    empty: str = "nothing",
    advice: str = "",
) -> None:
    """Print what a verb returned: with --json as it is, or its `record`; else by `show`, or as every record is.

    `shown` names what people see of it, `empty` says that there is nothing in it, `advice` what to do next.
    """
    if not is_first_process():
        return
    if invocation.is_json:
        print_json(as_json(report if record is None else record))
        return
    if show is None:
        from lemmata.cli.printer import print_record

        print_record(as_json(report), shown, empty)
    else:
        show(report)
    if advice:
        line(advice, style="bold")


def perform(
    verb: Callable[..., Any],
    table: str = "",
    assignments: Sequence[str] | None = None,
    *,
    on: str = "",
    shown: Sequence[str] = (),
    advice: str = "",
    **arguments: Any,
) -> None:
    """Call a verb of the workspace, with the settings of its `table` where it has one, and print its report."""
    others: dict[str, Any] = {}
    if table:
        arguments["settings"], others = assigned(assignments, table)
    addresses = [arguments.get("encoder", ""), *arguments.get("encoders", ())]
    with working(others, on, addresses=addresses) as workspace:
        report = verb(workspace, **arguments)
    print_report(report, shown=shown, advice=advice)


def _log_progress() -> Progress:
    """Log what begins, and how far it is every second."""
    written: dict[str, float] = {}

    def write(what: str, done: int, total: int | None) -> None:
        if time.monotonic() - written.get(_task(what), -1.0) >= 1 or done == total:
            written[_task(what)] = time.monotonic()
            log.write(what, done=done, total=total)

    return write


def _task(what: str) -> str:
    """Its name; what follows a comma changes on the way: `training, loss 3.491`."""
    return what.partition(",")[0]


def _rate(done: int, seconds: float) -> str:
    if done <= 0 or seconds <= 0:
        return ""
    rate = done / seconds
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s" if rate >= 1 else f"{1 / rate:.1f} s each"


def opened(settings: Settings | None = None, folder: Path | None = None, *, addresses: Iterable[str] = ()) -> Workspace:
    """The workspace of -w, or in `folder`; `settings` override tables of its `lemmata.toml`.

    `addresses` of encoders and servers are typed by the user, as are those in the settings, and so trusted.
    """
    from lemmata.core.config import merged
    from lemmata.core.workspace import Workspace

    workspace = Workspace.at(folder or invocation.folder).check()
    named = {table: keys for table, keys in (settings or {}).items() if keys}
    workspace.config = merged(workspace.config, named)
    workspace.name_addresses(named.get("llm", {}).get("url", ""), named.get("index", {}).get("encoder", ""), *addresses)
    return workspace


@contextmanager
def showing_progress(workspace: Workspace, on: str = "") -> Iterator[None]:
    """Show on standard error how far the verbs of a workspace are; they compute on a cluster if `on` names one."""
    from lemmata.core.workers import computing_on

    with progress_display() as progress, workspace.reporting_to(progress), computing_on(on, progress):
        yield


@contextmanager
def working(settings: Settings | None = None, on: str = "", *, addresses: Iterable[str] = ()) -> Iterator[Workspace]:
    """The workspace of -w, for one verb that shows its progress."""
    workspace = opened(settings, addresses=addresses)
    with showing_progress(workspace, on):
        yield workspace


@contextmanager
def progress_display() -> Iterator[Progress]:
    """A progress bar with rate and remaining time on a terminal, elsewhere a line at once and every ten seconds."""
    from rich.console import Console

    if not is_first_process():
        yield lambda *_: None
        return
    if log.is_json:
        yield _log_progress()
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        last = time.monotonic()
        begins: dict[str, tuple[float, int]] = {}  # when, and how many were done already
        lines: dict[str, str] = {}  # of what has moved since the last lines

        def write(what: str, done: int, total: int | None) -> None:
            nonlocal last
            now = time.monotonic()
            begin, before = begins.setdefault(_task(what), (now, done))
            rate = _rate(done - before, now - begin)
            line = f"{what}: {done:,}" + (f" of {total:,}" if total else "")
            lines[_task(what)] = f"{line} ({rate})" if rate else line
            if now - last > (10 if begin < now else 1):
                last = now
                print("\n".join(lines.values()), file=sys.stderr)  # noqa: T201
                lines.clear()

        yield write
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
        started: dict[str, tuple[float, int]] = {}

        def show(what: str, done: int, total: int | None) -> None:
            task = _task(what)
            if task not in tasks:
                tasks[task] = bars.add_task(what, total=total, rate="")
                started[task] = time.monotonic(), done
            begin, before = started[task]
            rate = _rate(done - before, time.monotonic() - begin)
            bars.update(tasks[task], description=what, completed=done, total=total, rate=rate)

        yield show


def assigned(words: Sequence[str] | None, table: str, **flags: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a verb's own table that -o and flags name, and the other tables that -o names.

    A flag that is None was not given.
    """
    if not words:
        return given(**flags), {}
    from lemmata.core.config import merged, read_assignments

    own, others = read_assignments(words, table)
    return merged(own, given(**flags)), others


def counted(number: int, noun: str) -> str:
    """A number with its noun in singular or plural: 1 query, 2 queries."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def megabytes(size: int) -> str:
    """A number of bytes in MB."""
    return f"{size / 1e6:,.0f} MB" if size >= 10_000_000 else f"{size / 1e6:.2g} MB"


def given(**settings: Any) -> dict[str, Any]:
    """The settings that were given on the command line; the others stay as configured."""
    return {key: value for key, value in settings.items() if value is not None}


def read_budget(text: str, names: Sequence[str] = ("calls", "tokens", "cost", "seconds")) -> dict[str, Any]:
    """The limits that --budget names; none for `unlimited`."""
    limits: dict[str, float] = {}
    for part in text.split(",") if text not in ("", "unlimited") else ():
        name, _, value = part.partition("=")
        try:
            limits[name.strip()] = int(value) if name.strip() in ("calls", "tokens") else float(value)
        except ValueError:
            limits[""] = 0.0
    if not limits.keys() <= set(names) or any(not 0 < limit < math.inf for limit in limits.values()):
        shown = ",".join(f"{name}=100" for name in names)
        raise ConfigError(f"--budget {text}: it needs limits above 0, as in {shown}, or unlimited")
    return limits


def confirm_limits(preview: Preview, limited: bool) -> bool:
    """Print what a run of a language model would cost; True where a limit allows it to start."""
    summary = (
        f"{counted(preview.calls, 'call')} ({preview.cached:,} already answered),"
        f" about {preview.tokens_in:,} tokens in and {preview.tokens_out:,} out, cost {preview.cost:.2f},"
        f" {preview.seconds / 60:.0f} minutes"
    )
    if limited and log.is_json:
        log.write(summary)
    elif limited:
        print(summary, file=sys.stderr)  # noqa: T201
    elif invocation.is_json:
        print_json({"preview": preview._asdict()})
    else:
        line(summary)
        line("nothing was sent: set a limit to start, such as --budget calls=100,cost=1, or --budget unlimited")
    return limited
