"""Commands on a workspace: init, fetch, ingest, info, config, verify."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from lemmata.cli.output import (
    Assigned,
    On,
    assigned,
    counted,
    fail,
    invocation,
    line,
    megabytes,
    opened,
    print_report,
    progress_display,
    working,
)
from lemmata.cli.printer import print_record
from lemmata.core.errors import ConfigError, LemmataError, near

if TYPE_CHECKING:
    from lemmata.core.config import Option as Setting
    from lemmata.core.types import Skip
    from lemmata.ingest.ingest import IngestReport
    from lemmata.maintain.verify import Verification


_SHOWN_PLACES = 3  # of each kind of note
_UNRESOLVED = re.compile(r"(\\\w+): ([\d,]+) references? without a target")
_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d,.]*")  # what differs between notes of one kind


def init(folder: Annotated[Path, Argument(help="The workspace folder.", metavar="DIR")] = Path()) -> None:
    """Create a workspace."""
    from lemmata.core.workspace import Workspace

    state = " exists already and stays as it is" if Workspace(folder).exists else ""
    workspace = Workspace.init(folder)
    print_report(
        {"workspace": str(workspace.root), "config": str(workspace.config_file)},
        lambda made: line("workspace ", (made["workspace"], "bold"), f"{state}, settings in {made['config']}"),
    )


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
    is_there = report.fetched or report.present
    print_report(report, advice=f"read them with 'lemmata ingest {report.folder}'" if is_there else "")


def ingest(
    paths: Annotated[
        list[str], Argument(help="Files, folders, archives, or URLs such as s3://bucket/papers.", metavar="PATHS...")
    ],
    reader: Annotated[
        str, Option("--as", help="auto, papers, logs, hierarchy, passages, text or pdf.", metavar="READER")
    ] = "",
    o: Assigned = None,
    workers: Annotated[int | None, Option(help="Number of processes; default: one per core.", min=1)] = None,
    on: On = "",
    again: Annotated[bool, Option("--again", help="Read unchanged sources too.")] = False,
    quick: Annotated[bool, Option("--quick", help="Leave large files for the next call without it.")] = False,
    remove: Annotated[bool, Option("--remove", help="Remove these sources from the corpus.")] = False,
) -> None:
    """Read sources into the corpus: add, update, remove.

    Columns of a table that have other names: -o columns.id=COLUMN, and so text, title, date, location, related. Several
    columns of text are joined: -o columns.text=PROBLEM -o columns.text=ACTION.
    """
    from lemmata.ingest.ingest import ingest
    from lemmata.ingest.ingest import remove as remove_sources
    from lemmata.ingest.readers import READERS

    if on and (workers or remove):
        raise ConfigError(
            "--on reads sources on a cluster: it goes without --remove, and --workers counts processes here"
        )
    if reader and reader not in READERS:
        meant = "; did you mean papers?" if reader.lower() in ("latex", "tex") else near(reader, READERS)
        raise ConfigError(f"--as {reader}: there is no such reader{meant or '.'} The readers are {', '.join(READERS)}")
    settings, others = assigned(o, "ingest", reader=reader or None)
    with working(others, on) as workspace:
        if remove:
            report = remove_sources(workspace, paths)
        else:
            report = ingest(workspace, paths, settings=settings, workers=workers, again=again, quick=quick)
    print_report(report, lambda _: print_record(_ingested(report)))
    if invocation.is_json and report.failures:
        fail("; ".join(f"{name}: {cause}" for name, cause in list(report.failures.items())[:10]))
    if not invocation.is_json and report.failed:
        raise typer.Exit(1)


def _ingested(report: IngestReport) -> dict[str, Any]:
    """What people see of a report: its counts, and a note on whatever needs one, ten of each kind."""
    kinds = (
        [f"renamed {rename}" for rename in report.renamed],
        [f"not read {name}: {cause}" for name, cause in report.read_before.items()],
        [f"{name}: {_lost_columns(columns)}" for name, columns in report.no_longer_read.items()],
        [f"could not be read {name}: {cause}" for name, cause in report.failures.items()],
    )
    notes = [
        note for kind in kinds for note in (*kind[:10], *([f"... and {len(kind) - 10:,} more"] if kind[10:] else []))
    ]
    if report.left:
        notes.append(f"{counted(report.left, 'file')} left for the next 'lemmata ingest' without --quick")
    if report.skips:
        notes.append(f"{counted(report.skips, 'note')} on the input: lemmata info --skips")
    sources = {name: getattr(report, name) for name in ("added", "changed", "removed", "unchanged", "failed")}
    return {
        "sources": {name: number for name, number in sources.items() if number},
        **{name: getattr(report, name) for name in ("documents", "passages", "locations")},
        "links": f"{report.resolved:,} of {report.links:,} resolved",
        "seconds": report.seconds,
        "notes": notes,
    }


def _lost_columns(columns: dict[str, Any]) -> str:
    """The columns of a source that were named before and are not now, and how to name them again."""
    import shlex

    from lemmata.ingest.logs import column_names

    words = {"id": "ids", "text": "texts", "title": "titles", "date": "dates", "location": "locations"}
    what = " and ".join(words.get(option, "related logs") for option in columns)
    named = [f"columns.{option}={name}" for option, column in columns.items() for name in column_names(column)]
    options = " ".join(f"-o {shlex.quote(word)}" for word in named)
    them = f"the column of {what} is no longer read: name it"
    if len(columns) > 1:
        them = f"the columns of {what} are no longer read: name them"
    return f"{them} again with {options}"


def info(
    skips: Annotated[bool, Option("--skips", help="List skipped input with its cause.")] = False,
    documents: Annotated[bool, Option("--documents", help="Statistics of each document.")] = False,
    k: Annotated[int, Option("-k", help="With --documents: number of documents to print; 0: all.", min=0)] = 50,
) -> None:
    """Show what the workspace holds."""
    from lemmata.corpus.corpus import skips as list_skips
    from lemmata.maintain.info import document_statistics, info

    if documents:
        with working() as workspace:
            report = document_statistics(workspace)
        print_report(report, lambda _: print_record({**report, "documents": report["documents"][: k or None]}))
    elif skips:
        print_report(list_skips(opened()), _print_skips)
    else:
        content = info(opened())
        print_report(content, lambda _: print_record(_held(content)))


def _held(content: dict[str, Any]) -> dict[str, Any]:
    """What people see of the contents of a workspace."""
    bibliography = content["bibliography"]
    shown = {name: content.get(name) for name in ("documents", "passages_in_all", "passages", "parts")}
    shown |= {"links": {name: f"{each['resolved']:,} of {each['all']:,}" for name, each in content["links"].items()}}
    if "graph" in content:
        shown |= {"concepts": content["concepts"], "edges": content["edges"]}
    shown |= {"bibliography": f"{bibliography['in_corpus']:,} of {bibliography['entries']:,} entries in the corpus"}
    shown |= {"notes_on_the_input": content["skips"], "made": content["artefacts"]}
    shown["vectors"] = [
        {
            "encoder": vectors["encoder"],
            "default": vectors["default"],
            "dimension": vectors["dimension"],
            "size": megabytes(vectors["bytes"]),
            "state": "up to date" if vectors["up_to_date"] else "out of date",
            "milvus": vectors["milvus"],
            "summaries": vectors["summaries"]["summaries"],
            "auto": f"{vectors['fusion']['formula']} ({_fitted(vectors['fusion']['fitted'])})",
        }
        for vectors in content["vectors"]
    ]
    metrics = [_metric(each["metric"], each["fusion"]["weights"]) for each in content["vectors"] if each["metric"]]
    return {**shown, "notes": [*(f"learned metric: {metric}" for metric in metrics), *content["problems"]]}


def _fitted(facts: dict[str, Any] | None) -> str:
    """What the weights of `auto` were fitted to."""
    if facts is None:
        return "default weights"
    return f"fitted to {counted(facts['queries'], 'query')} of {facts['task']} by {facts['measure']}"


def _metric(report: dict[str, Any], weights: dict[str, Any]) -> str:
    """Which retrievers use the learned metric, and why."""
    rival = report["rival"]
    values = (
        f"{report['measure']} {report['by_metric']:.3f}, by {rival} {report[f'by_{rival}']:.3f}, p {report['p']:.4f}"
    )
    if not report["kept"]:
        return f"not used, since it does not help on validation ({values})"
    if not report["up_to_date"]:
        return f"not used, since it is out of date: run 'lemmata train metric' again ({values})"
    parts = ["used by auto" if weights["learned"] else "auto gives it no weight"]
    parts.insert(0, "used by geodesic" if report["geodesic"] else "the graph has changed, so geodesic goes by text")
    if report["from_text"]:
        parts.append(f"{counted(report['from_text'], 'passage')} by text alone")
    return f"{', '.join(parts)} ({values})"


def _print_skips(notes: Sequence[Skip]) -> None:
    """Print the notes by cause, the most frequent first, each with some of its places."""
    groups: dict[str, list[Skip]] = {}
    macros: dict[str, list[tuple[int, Skip]]] = {}
    for note in notes:
        if reference := _UNRESOLVED.match(note.cause):
            macros.setdefault(reference[1], []).append((int(reference[2].replace(",", "")), note))
        else:
            groups.setdefault(_VALUE.sub("…", note.cause), []).append(note)
    if not notes:
        line("nothing was skipped")
    for group in sorted(groups.values(), key=len, reverse=True):
        cause = group[0].cause if len(group) == 1 else _VALUE.sub("…", group[0].cause)
        line((f"{len(group):,} × ", "bold"), cause)
        for note in group[:_SHOWN_PLACES]:
            line(f"    {_place(note)}" + (f": {note.cause}" if note.cause != cause else ""))
        if len(group) > _SHOWN_PLACES:
            line(f"    and {len(group) - _SHOWN_PLACES:,} more (--json lists all)", style="dim")
    for macro, counts in sorted(macros.items(), key=lambda item: -sum(count for count, _ in item[1])):
        counts.sort(key=lambda count: -count[0])
        number = counted(sum(count for count, _ in counts), "reference")
        places = ", ".join(_place(note) for _, note in counts[:_SHOWN_PLACES])
        more = f" and {len(counts) - _SHOWN_PLACES:,} more" if len(counts) > _SHOWN_PLACES else ""
        line((macro, "bold"), f": {number} without a target, from {places}{more}")


def _place(note: Skip) -> str:
    return f"{note.file}:{note.line}" if note.line else note.file


def config(
    name: Annotated[str, Argument(help="Only this table, for example mine.", metavar="TABLE")] = "",
    trust: Annotated[
        str, Option(help="Let workspaces use this server, or model of the hub, on this machine.", metavar="ADDRESS")
    ] = "",
) -> None:
    """List every setting with its default and its value, or trust an address that workspaces name."""
    from lemmata.core.config import all_options
    from lemmata.core.trust import trust as trust_address
    from lemmata.core.trust import trusted_file
    from lemmata.core.workspace import Workspace

    if trust:
        print_report({"trusted": trust_address(trust), "file": str(trusted_file())})
        return
    tables = Workspace.at(invocation.folder).config
    listed = [pair for pair in all_options(tables) if not name or f"{pair[0].table}.".startswith(f"{name}.")]
    if not listed:
        known = dict.fromkeys(option.table.removesuffix(".*") for option, _ in all_options(tables))
        hint = near(name, known) or ": 'lemmata config' lists all"
        raise LemmataError(f"there is no table [{name}]{hint}")
    print_report(listed, _print_config, record=[{**option._asdict(), "value": value} for option, value in listed])


def _print_config(listed: Sequence[tuple[Setting, Any]]) -> None:
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


def verify() -> None:
    """Read every file of the workspace and compare it with its checksum."""
    from lemmata.maintain.verify import verify

    with working() as workspace:
        report = verify(workspace)
    print_report(report, _print_verified)
    if not report.is_whole:
        raise typer.Exit(1)


def _print_verified(report: Verification) -> None:
    for problem in report.problems:
        line((problem.what, "yellow" if problem.what == "foreign" else "red"), f"  {problem.sentence}")
    rate = f"{report.bytes / 1e6 / max(report.seconds, 1e-9):,.0f} MB/s"
    read = f"{counted(report.files, 'file')}, {megabytes(report.bytes)} in {report.seconds:.1f} s ({rate})"
    line(f"{read}: {'all as they were written' if report.is_whole else counted(len(report.damage), 'problem')}")
