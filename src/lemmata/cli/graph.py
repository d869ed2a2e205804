"""Commands: graph build, extract, import, export, link, embed, merges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from lemmata.cli.output import (
    Assigned,
    Budget,
    Model,
    On,
    assigned,
    confirm_limits,
    opened,
    perform,
    print_report,
    read_budget,
    showing_progress,
)
from lemmata.cli.printer import print_record
from lemmata.core.errors import LemmataError
from lemmata.core.records import as_json

Pair = tuple[str, str] | None


def build(on: On = "") -> None:
    """Build the graph by rules: links, concepts, relations."""
    from lemmata.graph.build import build_graph

    perform(build_graph, on=on)


def extract(model: Model = "", o: Assigned = None, budget: Budget = "") -> None:
    """Extract concepts with a language model.

    Without a limit, only print what it would cost.
    """
    from lemmata.graph.extract import extract_graph, preview_extraction
    from lemmata.llm.endpoint import Limits

    settings, others = assigned(o, "extract")
    endpoint = {"model": model} if model else {}
    workspace = opened(others)
    limits = Limits(**read_budget(budget))
    preview = preview_extraction(workspace, settings=settings, model=endpoint)
    if not confirm_limits(preview, bool(budget)):
        return
    with showing_progress(workspace):
        report = extract_graph(workspace, limits, settings=settings, model=endpoint)
    print_report(report)
    if report["documents"] and not report["extracted"]:
        cause = report["cause"] or "they have no text"
        raise LemmataError(f"none of {report['documents']:,} documents could be extracted: {cause}")


def import_(
    path: Annotated[Path | None, Argument(help="A file, or a folder of OGB.", metavar="PATH")] = None,
    name: Annotated[str, Option(help="Name of the import; importing it again replaces it.", metavar="NAME")] = "",
    lenient: Annotated[bool, Option("--lenient", help="Skip records that cannot be used.")] = False,
    remove: Annotated[str, Option(help="Remove the import with this name instead.", metavar="NAME")] = "",
) -> None:
    """Import a graph: GraphML, JSON lines, JSON or OGB."""
    from lemmata.graph.build import import_graph, remove_import

    if bool(path) == bool(remove):
        raise LemmataError("name the file of a graph, or an import with --remove")
    if path:
        perform(import_graph, path=path, name=name, strict=not lenient)
    else:
        perform(remove_import, name=remove)


def export(
    path: Annotated[Path, Argument(help="A file, or a folder for ogb.", metavar="PATH")],
    format: Annotated[  # noqa: A002 - the word that users know
        str, Option("--format", help="auto (by the ending), graphml, jsonl or ogb.", metavar="NAME")
    ] = "auto",
) -> None:
    """Export the graph to a file or folder."""
    from lemmata.graph.build import export_graph

    print_report(export_graph(opened(), path, format=format))


def link(
    withheld: Annotated[
        Path | None, Option(help="True links that are not in the corpus, to measure the result.", metavar="FILE")
    ] = None,
) -> None:
    """Predict links of logs to locations and to earlier logs."""
    from lemmata.plant.link import link_graph

    perform(link_graph, withheld=withheld)


def embed(o: Assigned = None) -> None:
    """Learn a vector for every node of the graph."""
    from lemmata.mine.embedding import embed_graph

    perform(embed_graph, "embed", o)


def merges(
    status: Annotated[
        str, Option(help="Only this status: accepted, apart, candidate or rejected.", metavar="STATUS")
    ] = "",
    accept: Annotated[Pair, Option(help="Merge the second concept into the first.", metavar="KEPT GONE")] = None,
    reject: Annotated[Pair, Option(help="Keep the two concepts apart.", metavar="KEPT GONE")] = None,
    undo: Annotated[Pair, Option(help="Withdraw a verdict.", metavar="KEPT GONE")] = None,
    k: Annotated[int, Option("-k", help="Number of merges to show; 0: all.", min=0)] = 50,
) -> None:
    """Review merged concepts: list, accept, reject or undo."""
    from lemmata.graph.build import decide_merge, merges
    from lemmata.graph.concepts.merge import STATUSES

    verdicts = (("accept", accept), ("reject", reject), (None, undo))
    decisions = [(verdict, pair) for verdict, pair in verdicts if pair is not None]
    if len(decisions) > 1:
        raise LemmataError("one verdict at a time: --accept, --reject or --undo")
    if decisions:
        verdict, (kept, gone) = decisions[0]
        perform(decide_merge, kept=kept, gone=gone, verdict=verdict)
        return
    if status not in ("", *STATUSES):
        raise LemmataError(f"there is no status {status!r} (there are: {', '.join(STATUSES)})")
    proposals = [merge for merge in merges(opened()) if status in ("", merge.status)]
    shown = proposals[: k or None]
    more = len(proposals) - len(shown)
    listed = {"merges": shown, "notes": [f"and {more:,} more: -k 0 shows all"] if more else []}
    print_report(shown, lambda _: print_record(as_json(listed), empty="no merges"))
