"""Commands on a workspace: init, ingest, info, config, doctor, verify, gc."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemmata.cli.output import (
    HERE,
    AsJson,
    On,
    WorkspaceDir,
    counted,
    fail,
    megabytes,
    open_console,
    print_json,
    say,
    showing_progress,
    styled,
)
from lemmata.core.errors import LemmataError

if TYPE_CHECKING:
    from lemmata.core.types import Skip


_SHOWN_PLACES = 3  # of each kind of note
_RUN_BY_REPAIR = (
    "lemmata graph",
    "lemmata index",
    "lemmata mine ",
    "lemmata split",
)  # no training, no task
_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d,.]*")  # what differs between notes of one kind


def init(
    folder: Annotated[Path | None, typer.Argument(help="The same as -w.", metavar="DIR")] = None,
    workspace: WorkspaceDir = HERE,
    as_json: AsJson = False,
) -> None:
    """Create a workspace."""
    from lemmata.core.workspace import Workspace
    from lemmata.project import Project

    if folder is not None and workspace != HERE:
        raise LemmataError("one folder at a time: DIR or -w DIR")
    place = workspace if folder is None else folder
    existing = Workspace(place).exists
    layout = Project.init(place)
    if as_json:
        print_json({"workspace": str(layout.root), "config": str(layout.config_file)})
    else:
        state = " exists already and stays as it is" if existing else ""
        open_console().print(
            styled("workspace ", (str(layout.root), "bold"), f"{state}, settings in {layout.config_file}")
        )


def ingest(
    paths: Annotated[
        list[str],
        typer.Argument(help="Files, folders, archives, or URLs such as s3://bucket/papers.", metavar="PATHS..."),
    ],
    workspace: WorkspaceDir = HERE,
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
        str, typer.Option("--related", help="... the id of an earlier log.", metavar="COLUMN")
    ] = "",
    workers: Annotated[int | None, typer.Option(help="Number of processes; default: one per core.", min=1)] = None,
    on: On = "",
    again: Annotated[bool, typer.Option("--again", help="Read unchanged sources too.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove these sources from the corpus.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read sources into the corpus: add, update, remove."""
    from dataclasses import asdict

    from lemmata.core.errors import ConfigError, near
    from lemmata.core.workers import computing_on
    from lemmata.ingest.readers import READERS
    from lemmata.project import Project

    if on and (workers or remove):
        raise ConfigError(
            "--on reads sources on a cluster: it goes without --remove, and --workers counts processes here"
        )
    if reader and reader not in READERS:
        meant = "; did you mean papers?" if reader.lower() in ("latex", "tex") else near(reader, READERS)
        raise ConfigError(f"--as {reader}: there is no such reader{meant or '.'} The readers are {', '.join(READERS)}")
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
    with showing_progress(project), computing_on(on, project.progress):
        if remove:
            report = project.remove(paths)
        else:
            report = project.ingest(paths, settings=settings, workers=workers, again=again)
    if as_json:
        content = asdict(report)
        content["renamed"] = [rename._asdict() for rename in report.renamed]
        print_json(content)
        if report.failures:
            fail("; ".join(f"{name}: {cause}" for name, cause in list(report.failures.items())[:10]))
        return
    console = open_console()
    changes = f"{report.added:,} added, {report.changed:,} changed, {report.removed:,} removed"
    failed = f", {report.failed:,} failed" if report.failed else ""
    more = f", {report.unchanged:,} unchanged"
    console.print(styled((changes, "bold"), more, (failed, "red"), f", in {report.seconds:.1f} s"))
    locations = f" and {counted(report.locations, 'location')}" if report.locations else ""
    console.print(
        f"{counted(report.passages, 'passage')} in {counted(report.documents, 'document')}{locations};"
        f" {report.resolved:,} of {counted(report.links, 'link')} resolved"
    )
    renamed = [styled(("renamed ", "yellow"), str(rename)) for rename in report.renamed]
    failures = [styled(("could not be read ", "red"), f"{n}: {cause}") for n, cause in report.failures.items()]
    before = [styled(("not read ", "yellow"), f"{name}: {cause}") for name, cause in report.read_before.items()]
    lost = [styled((f"{name}: ", "yellow"), _lost_columns(c)) for name, c in report.no_longer_read.items()]
    for lines in (renamed, before, lost, failures):
        for line in lines[:10]:
            console.print(line, soft_wrap=True)
        if len(lines) > 10:
            console.print(f"... and {len(lines) - 10:,} more")
    if report.skips:
        console.print(f"{counted(report.skips, 'note')} on the input: lemmata info --skips")
    if report.failed:
        raise typer.Exit(1)


def _lost_columns(columns: dict[str, str]) -> str:
    """The columns of a source that were named before and are not now, and how to name them again."""
    import shlex

    words = {"id": "ids", "text": "texts", "title": "titles", "date": "dates", "location": "locations"}
    what = " and ".join(words.get(option, "related logs") for option in columns)
    options = " ".join(f"--{option} {shlex.quote(column)}" for option, column in columns.items())
    them = f"the column of {what} is no longer read: name it"
    if len(columns) > 1:
        them = f"the columns of {what} are no longer read: name them"
    return f"{them} again with {options}"


def info(
    workspace: WorkspaceDir = HERE,
    skips: Annotated[bool, typer.Option("--skips", help="List skipped input with its cause.")] = False,
    documents: Annotated[bool, typer.Option("--documents", help="Statistics of each document.")] = False,
    k: Annotated[int, typer.Option("-k", help="With --documents: number of documents to print; 0: all.", min=0)] = 50,
    as_json: AsJson = False,
) -> None:
    """Show what the workspace holds."""
    from lemmata.project import Project

    project = Project(workspace)
    if documents:
        with showing_progress(project):
            statistics = project.document_statistics()
        if as_json:
            print_json(statistics)
        else:
            _print_statistics(statistics["documents"], statistics["summary"], k)
        return
    if skips:
        notes = project.skips()
        if as_json:
            print_json([skip._asdict() for skip in notes])
        else:
            _print_skips(notes)
        return
    content = project.info()
    if as_json:
        print_json(content)
        return
    from rich.table import Table
    from rich.text import Text

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
    if "graph" in content:
        for title in ("concepts", "edges"):
            table.add_row(title if title == "concepts" else "edges of the graph", f"{sum(content[title].values()):,}")
            for name, number in sorted(content[title].items(), key=lambda item: -item[1]):
                table.add_row(f"  {name}", f"{number:,}")
    bibliography = content["bibliography"]
    table.add_row("bibliography", f"{bibliography['in_corpus']:,} of {bibliography['entries']:,} entries in the corpus")
    table.add_row("skipped", counted(content["skips"], "note"))
    if content["vectors"]:
        table.add_row("vectors", megabytes(sum(vectors["bytes"] for vectors in content["vectors"])))
    for vectors in content["vectors"]:
        default = " (default)" if vectors["default"] else ""
        state = "up to date" if vectors["up_to_date"] else "out of date"
        details = f"{vectors['dimension']} numbers, {megabytes(vectors['bytes'])}, {state}"
        table.add_row(Text(f"  {vectors['encoder']}{default}", overflow="fold"), details)
        if vectors["milvus"]:
            table.add_row("    searched by", Text(f"Milvus at {vectors['milvus']}", overflow="fold"))
        summaries = vectors["summaries"]
        if summaries["summaries"]:
            size = megabytes(summaries["bytes"])
            about = f"{summaries['summaries']:,} of {counted(summaries['passages'], 'passage')}, {size}"
            table.add_row("    summaries", about)
        for source in summaries["sources"]:
            table.add_row(
                Text(f"      {source['name']} ({source['author']})", overflow="fold"), f"{source['summaries']:,}"
            )
        fusion = vectors["fusion"]
        by = "default weights" if fusion["fitted"] is None else _fitted(fusion["fitted"])
        table.add_row("    auto", Text(f"{fusion['formula']} ({by})", overflow="fold"))
        if vectors["metric"]:
            table.add_row("    learned metric", Text(_metric(vectors["metric"], fusion["weights"]), overflow="fold"))
    open_console().print(table)
    for problem in content["problems"]:
        open_console().print(problem, style="yellow")


def _fitted(facts: dict[str, Any]) -> str:
    """What the weights of `auto` were fitted to."""
    return f"fitted to {counted(facts['queries'], 'query')} of {facts['task']} by {facts['measure']}"


def _metric(report: dict[str, Any], weights: dict[str, Any]) -> str:
    """Which retrievers use the learned metric, and why."""
    values = f"{report['measure']} {report['by_metric']:.3f}, by text {report['by_text']:.3f}, p {report['p']:.4f}"
    if not report["kept"]:
        return f"not used, since it does not help on validation ({values})"
    if not report["up_to_date"]:
        return f"not used, since it is out of date: run 'lemmata train metric' again ({values})"
    parts = ["used by auto" if weights["learned"] else "auto gives it no weight"]
    parts.insert(0, "used by geodesic" if report["geodesic"] else "the graph has changed, so geodesic goes by text")
    if report["from_text"]:
        parts.append(f"{counted(report['from_text'], 'passage')} by text alone")
    return f"{', '.join(parts)} ({values})"


def _print_statistics(documents: Sequence[dict[str, Any]], summary: dict[str, dict[str, float]], k: int) -> None:
    """Print a row for each document, then the summary of all."""
    from rich.table import Table

    console = open_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("document", "date", "passages", "kinds", "characters", "words", "links", "out", "in", "references"):
        table.add_column(name, justify="left" if name in ("document", "date", "kinds") else "right", overflow="fold")
    for record in documents[: k or None]:
        links, bibliography = record["links"], record["bibliography"]
        table.add_row(
            record["id"],
            record["date"] or "",
            f"{record['passages']:,}",
            ", ".join(f"{number:,} {kind}" for kind, number in record["kinds"].items()),
            f"{record['characters']:,}",
            f"{record['words']:,}",
            f"{links['resolved']:,} of {links['all']:,}",
            f"{links['out']:,}",
            f"{links['in']:,}",
            f"{bibliography['in_corpus']:,} of {bibliography['entries']:,}",
        )
    console.print(table)
    if k and len(documents) > k:
        console.print(f"and {len(documents) - k:,} more: -k 0 prints all, --json too")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(f"of {counted(len(documents), 'document')}")
    for name in ("sum", "mean", "median", "largest"):
        table.add_column(name, justify="right")
    for name, values in summary.items():
        table.add_row(name, *(f"{value:,.1f}".removesuffix(".0") for value in values.values()))
    console.print()
    console.print(table)


def _print_skips(notes: Sequence[Skip]) -> None:
    """Print the notes by cause, the most frequent first, each with some of its places."""
    groups: dict[str, list[Skip]] = {}
    for note in notes:
        groups.setdefault(_VALUE.sub("…", note.cause), []).append(note)
    console = open_console()
    if not notes:
        console.print("nothing was skipped")
    for group in sorted(groups.values(), key=len, reverse=True):
        cause = group[0].cause if len(group) == 1 else _VALUE.sub("…", group[0].cause)
        console.print(styled((f"{len(group):,} × ", "bold"), cause))
        for note in group[:_SHOWN_PLACES]:
            place = f"{note.file}:{note.line}" if note.line else note.file
            console.print(f"    {place}" + (f": {note.cause}" if note.cause != cause else ""))
        if len(group) > _SHOWN_PLACES:
            console.print(f"    and {len(group) - _SHOWN_PLACES:,} more (--json lists all)", style="dim")


def config(
    table: Annotated[str, typer.Argument(help="Only this table, for example mine.", metavar="TABLE")] = "",
    workspace: WorkspaceDir = HERE,
    as_json: AsJson = False,
) -> None:
    """List every setting with its default and its value."""
    from lemmata.core.config import all_options
    from lemmata.core.errors import near
    from lemmata.core.workspace import Workspace

    tables = Workspace(workspace).config
    listed = [pair for pair in all_options(tables) if not table or f"{pair[0].table}.".startswith(f"{table}.")]
    if not listed:
        known = dict.fromkeys(option.table.removesuffix(".*") for option, _ in all_options(tables))
        hint = near(table, known) or ": 'lemmata config' lists all"
        raise LemmataError(f"there is no table [{table}]{hint}")
    if as_json:
        print_json([{**option._asdict(), "value": value} for option, value in listed])
        return
    current = ""
    for option, value in listed:
        if option.table != current:
            current = option.table
            print(f"\n[{current.replace('*', 'NAME')}]")  # noqa: T201
        changed = f"(default {_toml(option.default)}) " if value != option.default else ""
        print(f"{f'{option.key} = {_toml(value)}':32}  # {changed}{option.description}")  # noqa: T201


def _toml(value: Any) -> str:
    """A setting as TOML writes it."""
    import json

    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def doctor(
    workspace: WorkspaceDir = HERE,
    repair: Annotated[bool, typer.Option("--repair", help="Make damaged artefacts again, except models.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check the installation and every file of the workspace."""
    from lemmata.maintain.info import doctor as run_checks

    made_again = _repair(workspace) if repair else []
    checks = run_checks(workspace)
    if as_json:
        records = [check._asdict() for check in checks]
        print_json({"checks": records, "repairs": made_again} if repair else records)
    else:
        console = open_console()
        for check in checks:
            mark = ("ok", "green") if check.fine else ("!!", "red") if check.damaged else ("--", "yellow")
            console.print(styled(mark, f"  {check.name}: {check.finding}"))
    if any(check.damaged for check in checks):
        raise typer.Exit(1)


def _repair(workspace: Path) -> list[dict[str, Any]]:
    """Remove what is damaged and run the commands that make it again, where they need nothing from the user."""
    import shlex
    import subprocess
    import sys

    from lemmata.project import Project

    with showing_progress(Project(workspace)) as project:
        repairs = project.repair()
    for item in repairs:
        say(f"{'removed' if item.removed else 'kept'} the damaged {item.name} ({item.path})")
    records = []
    for command in dict.fromkeys(item.command for item in repairs):
        runs = command.startswith(_RUN_BY_REPAIR) and "NAME" not in command
        say(f"running '{command}'" if runs else f"run '{command}' yourself")
        arguments = [sys.executable, "-m", "lemmata", *shlex.split(command)[1:], "-w", str(workspace)]
        done = runs and not subprocess.run(arguments, stdout=sys.stderr, check=False).returncode  # noqa: S603
        records.append({"command": command, "done": done})
    return records


def verify(workspace: WorkspaceDir = HERE, as_json: AsJson = False) -> None:
    """Read every file of the workspace and compare it with its checksum."""
    from lemmata.project import Project

    with showing_progress(Project(workspace)) as project:
        report = project.verify()
    if as_json:
        problems = [{**problem._asdict(), "path": str(problem.path)} for problem in report.problems]
        print_json({**report._asdict(), "problems": problems})
    else:
        console = open_console()
        for problem in report.problems:
            style = "yellow" if problem.what == "foreign" else "red"
            console.print(styled((problem.what, style), f"  {problem.sentence}"), soft_wrap=True)
        rate = f"{report.bytes / 1e6 / max(report.seconds, 1e-9):,.0f} MB/s"
        read = f"{counted(report.files, 'file')}, {megabytes(report.bytes)} in {report.seconds:.1f} s ({rate})"
        state = "all as they were written" if report.is_whole else counted(len(report.damage), "problem")
        console.print(f"{read}: {state}")
    if not report.is_whole:
        raise typer.Exit(1)


def gc(
    workspace: WorkspaceDir = HERE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be removed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove what killed commands left and what nothing can use any more."""
    from lemmata.project import Project

    garbage = Project(workspace).collect_garbage(dry_run=dry_run)
    if as_json:
        print_json({"removed": not dry_run, "garbage": [item._asdict() for item in garbage]})
        return
    console = open_console()
    for item in garbage:
        console.print(f"{item.path}  {megabytes(item.bytes)}, {item.why}")
    size = megabytes(sum(item.bytes for item in garbage))
    done = "could be" if dry_run else "were"
    console.print(f"{size} in {counted(len(garbage), 'place')} {done} removed" if garbage else "nothing to remove")
