"""The command line: parse, call, print. Everything heavy is imported inside the command that needs it."""

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
    from lemmata.store import Corpus
    from lemmata.types import Passage

__all__ = ["app", "main"]

app = typer.Typer(
    name="lemmata",
    help="Turn a corpus and its graph into a search engine that speaks its language.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Workspace = Annotated[Path, typer.Option("-w", "--workspace", help="The workspace folder.", metavar="DIR")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
HERE = Path()


def main() -> None:
    """Run the command line; a user's error is one sentence and exit code 1."""
    try:
        app(standalone_mode=True)
    except LemmataError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away; that is not an error
        sys.exit(0)
    except KeyboardInterrupt:
        _fail("stopped; nothing done so far is lost, the same command goes on from here", 130)


def _fail(message: str, code: int = 1) -> NoReturn:
    print(f"lemmata: {message}", file=sys.stderr)  # noqa: T201
    sys.exit(code)


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))  # noqa: T201


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


@contextmanager
def _progress() -> Iterator[Progress]:
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


# ---------------------------------------------------------------- workspace


@app.command()
def init(
    workspace: Annotated[Path, typer.Argument(help="The folder to make a workspace.", metavar="[DIR]")] = HERE,
) -> None:
    """Make a folder a workspace."""
    from lemmata.project import Project

    project = Project.init(workspace)
    _console().print(f"workspace [bold]{project.layout.root}[/], settings in {project.layout.config}")


@app.command()
def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders or archives.", metavar="PATHS...")],
    workspace: Workspace = HERE,
    reader: Annotated[
        str,
        typer.Option("--as", help="auto, papers, logs, hierarchy, passages, text or pdf.", metavar="READER"),
    ] = "",
    id_column: Annotated[str, typer.Option("--id", help="Column of a table that holds the id.", metavar="COLUMN")] = "",
    text_column: Annotated[str, typer.Option("--text", help="... the text.", metavar="COLUMN")] = "",
    title_column: Annotated[str, typer.Option("--title", help="... a title.", metavar="COLUMN")] = "",
    date_column: Annotated[str, typer.Option("--date", help="... the date.", metavar="COLUMN")] = "",
    location_column: Annotated[str, typer.Option("--location", help="... the location.", metavar="COLUMN")] = "",
    related_column: Annotated[
        str, typer.Option("--related", help="... the log that it follows up.", metavar="COLUMN")
    ] = "",
    workers: Annotated[int | None, typer.Option(help="Processes; default: one per core.", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Read sources into the corpus; again: add, update, remove."""
    from dataclasses import asdict

    from lemmata.project import Project

    columns = {
        "id": id_column,
        "text": text_column,
        "title": title_column,
        "date": date_column,
        "location": location_column,
        "related": related_column,
    }
    settings: dict[str, Any] = {"reader": reader} if reader else {}
    if any(columns.values()):
        settings["columns"] = {name: column for name, column in columns.items() if column}
    project = Project(workspace)
    with _progress() as progress:
        report = project.ingest(paths, settings=settings, workers=workers, progress=progress)
    if as_json:
        _print_json(asdict(report))
        return
    console = _console()
    changes = [
        f"{len(report.added):,} added",
        f"{len(report.updated):,} updated",
        f"{len(report.removed):,} removed",
    ]
    console.print(f"[bold]{', '.join(changes)}[/], {report.unchanged:,} unchanged, in {report.seconds:.1f} s")
    console.print(
        f"{report.passages:,} passages in {report.documents:,} documents;"
        f" {report.resolved:,} of {report.links:,} links lead somewhere"
    )
    for name, cause in list(report.failed.items())[:10]:
        console.print(f"[red]could not be read[/] {name}: {cause}", markup=True)
    if len(report.failed) > 10:
        console.print(f"... and {len(report.failed) - 10:,} more")
    if report.skips:
        console.print(f"{report.skips:,} notes on what was left out: lemmata info --skips")


@app.command()
def info(
    workspace: Workspace = HERE,
    skips: Annotated[bool, typer.Option("--skips", help="List what was left out, and why.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the workspace holds."""
    from lemmata.project import Project

    project = Project(workspace)
    if skips:
        corpus = project.corpus
        found = corpus.skips()
        corpus.close()
        if as_json:
            _print_json([skip._asdict() for skip in found])
            return
        for skip in found:
            place = f"{skip.file}:{skip.line}" if skip.line else skip.file
            print(f"{place}: {skip.cause}")  # noqa: T201
        return
    content = project.info()
    if as_json:
        _print_json(content)
        return
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("documents", f"{content['documents']:,}")
    table.add_row("passages", f"{content['passages_in_all']:,}")
    for kind, number in content["passages"].items():
        table.add_row(f"  {kind}", f"{number:,}")
    table.add_row("links", f"{sum(link['all'] for link in content['links'].values()):,}")
    for relation, number in content["links"].items():
        table.add_row(f"  {relation}", f"{number['resolved']:,} of {number['all']:,} resolved")
    bibliography = content["bibliography"]
    table.add_row("bibliography", f"{bibliography['in_corpus']:,} of {bibliography['entries']:,} entries in the corpus")
    table.add_row("left out", f"{content['skips']:,} notes")
    _console().print(table)


@app.command()
def show(
    identity: Annotated[str, typer.Argument(help="Id of a passage or document.", metavar="ID")],
    workspace: Workspace = HERE,
    as_json: AsJson = False,
) -> None:
    """Show one passage with its proof, its place and its links."""
    from lemmata.project import Project

    corpus = Project(workspace).corpus
    try:
        passage = corpus[corpus.row(identity)]
    except KeyError:
        import difflib

        near = difflib.get_close_matches(identity, corpus.ids(), 3, 0.6)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise LemmataError(f"there is no passage {identity!r}{hint}") from None
    if as_json:
        from dataclasses import asdict

        content = asdict(passage)
        content["links"] = [link._asdict() for link in passage.links]
        content["referred_by"] = [{"source": s, "relation": r} for s, r in corpus.referring(identity)]
        _print_json(content)
    else:
        _show(_console(), corpus, passage)
    corpus.close()


def _show(console: Console, corpus: Corpus, passage: Passage) -> None:
    from rich.markup import escape

    title = f" ({escape(passage.title)})" if passage.title else ""
    console.print(f"[bold cyan]{escape(passage.id)}[/]  {passage.kind}{title}")
    document = corpus.document(passage.document)
    lines = f":{passage.first_line}-{passage.last_line}" if passage.first_line else ""
    where = " / ".join(filter(None, (document.title, passage.section)))
    console.print(f"[dim]{escape(where)}  {escape(passage.file)}{lines}[/]\n")
    console.print(escape(passage.text))
    if passage.proof:
        console.print(f"\n[bold]Proof.[/] {escape(passage.proof)}")
    links = [(link.relation, link.target or f"{link.label} (not in the corpus)") for link in passage.links]
    links += [(f"{relation} from", source) for source, relation in corpus.referring(passage.id)]
    if links:
        console.print()
    for relation, target in links:
        console.print(f"  [green]{relation}[/] {escape(target)}")


@app.command()
def doctor(workspace: Workspace = HERE, as_json: AsJson = False) -> None:
    """Check the installation and the workspace."""
    from lemmata.project import doctor as examine

    checks = examine(workspace)
    if as_json:
        _print_json([check._asdict() for check in checks])
        return
    console = _console()
    for check in checks:
        mark = "[green]ok[/]" if check.fine else "[yellow]--[/]"
        console.print(f"{mark}  {check.name}: {check.finding}")


# ---------------------------------------------------------------- demo


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="A new folder for the demo's workspace.", metavar="[DIR]")] = Path(
        "demo"
    ),
) -> None:
    """The whole story on the bundled example, offline, in minutes."""
    from lemmata.project import Project

    console = _console()

    def step(text: str, command: str) -> None:
        console.print(f"\n[bold]{text}[/]\n[dim]$ lemmata {command}[/]")

    step(
        "Make a workspace and read the example: LaTeX notes on q-series.",
        f"ingest {'examples/qseries'} -w {folder}",
    )
    project = Project.init(folder)
    with _progress() as progress:
        report = project.ingest([example("qseries")], progress=progress)
    console.print(
        f"{report.passages:,} passages in {report.documents:,} documents, {report.resolved:,} of {report.links:,}"
        f" links resolved, in {report.seconds:.1f} s"
    )
    step("What was found?", f"info -w {folder}")
    info(folder)
    corpus = project.corpus
    chosen = max(corpus, key=lambda p: (bool(p.title and p.proof), len(p.links) + len(corpus.referring(p.id))))
    step("One statement with its proof and its links.", f"show '{chosen.id}' -w {folder}")
    _show(console, corpus, chosen)
    corpus.close()


def example(name: str) -> Path:
    """The folder of a bundled example, in an installation or in a checkout."""
    installed = Path(__file__).parent / "examples" / name
    checkout = Path(__file__).parents[2] / "examples" / name
    for folder in (installed, checkout):
        if folder.is_dir():
            return folder
    raise LemmataError(f"the example {name!r} is not part of this installation")
