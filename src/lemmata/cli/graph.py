"""Commands: graph build, extract, import, export, link, embed, merges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from lemmata.cli.output import (
    Assigned,
    Budget,
    Model,
    On,
    assigned,
    confirm_limits,
    counted,
    line,
    open_console,
    opened,
    perform,
    print_report,
    read_budget,
    showing_progress,
    styled,
    table,
)
from lemmata.core.errors import LemmataError

if TYPE_CHECKING:
    from lemmata.graph.concepts.merge import Merge

Pair = tuple[str, str] | None


def build(on: On = "") -> None:
    """Build the graph by rules: links, concepts, relations."""
    from lemmata.graph.build import build_graph

    perform(build_graph, _print_graph, on=on)


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
    print_report(report, _print_extracted)
    if report["documents"] and not report["extracted"]:
        cause = report["cause"] or "they have no text"
        raise LemmataError(f"none of {report['documents']:,} documents could be extracted: {cause}")


def _print_extracted(report: dict[str, Any]) -> None:
    spent = report["spent"]
    line(
        f"{report['extracted']:,} of {report['documents']:,} documents extracted with {spent['calls']:,} calls and"
        f" {spent['tokens']:,} tokens so far, cost {spent['cost']:.2f}"
    )
    kept, dropped = sum(report["kept"].values()), sum(report["dropped"].values())
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in report["kept"].items())
    line(f"{kept:,} of {kept + dropped:,} records kept: {kinds}")
    for reason, number in report["dropped"].items():
        line(f"  {number:,} dropped: {reason}", style="dim")
    if report["json_mode"] != "json_schema":
        line(f"answers were asked for with json_mode {report['json_mode']}", style="dim")
    for cause in report["unanswered"][:5]:
        line(cause, style="yellow")
    if (more := len(report["unanswered"]) - 5) > 0:
        line(f"and {more:,} more", style="yellow")
    _print_graph(report)


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
        perform(import_graph, _print_imported, path=path, name=name, strict=not lenient)
    else:
        perform(remove_import, _print_graph, name=remove)


def _print_imported(report: dict[str, Any]) -> None:
    imported = report["imported"]
    line(
        f"{counted(imported['concepts'], 'concept')}, {counted(imported['edges'], 'edge')} and"
        f" {counted(imported['nodes'], 'node')} imported, {imported['skips']:,} skipped; found in the corpus:"
        f" {counted(imported['nodes_in_corpus'], 'node')}, among its concepts: {imported['known_concepts']:,}"
    )
    if unknown := imported["unknown"]:
        number = f"{unknown:,} nodes are" if unknown > 1 else "1 node is"
        examples = ", ".join(imported["first_unknown"])
        more = ", …" if unknown > len(imported["first_unknown"]) else ""
        line(f"{number} neither in the corpus nor a known concept: {examples}{more}", style="yellow")
    _print_graph(report)


def export(
    path: Annotated[Path, Argument(help="A file, or a folder for ogb.", metavar="PATH")],
    format: Annotated[  # noqa: A002 - the word that users know
        str, Option("--format", help="auto (by the ending), graphml, jsonl or ogb.", metavar="NAME")
    ] = "auto",
) -> None:
    """Export the graph to a file or folder."""
    from lemmata.graph.build import export_graph

    report = export_graph(opened(), path, format=format)
    counts = f"{report['concepts']:,} concepts, {report['nodes']:,} nodes, {report['edges']:,} edges"
    print_report(report, lambda _: line(f"{path}: {counts}"))


def link(
    withheld: Annotated[
        Path | None, Option(help="True links that are not in the corpus, to measure the result.", metavar="FILE")
    ] = None,
) -> None:
    """Predict links of logs to locations and to earlier logs."""
    from lemmata.plant.link import link_graph

    perform(link_graph, _print_linked, withheld=withheld)


def _print_linked(report: dict[str, Any]) -> None:
    for relation, added in report["restored"].items():
        line(f"{relation}: {added['edges']:,} new edges, {added['nodes']:,} nodes that had none")
    for relation, measured in report.get("withheld", {}).items():
        line(
            f"{relation}: {measured['right']:,} of {measured['wanted']:,} withheld links recovered,"
            f" recall {measured['recall']:.3f}"
        )
    for relation, measured in report["held_out"].items():
        line(
            f"{relation}: {measured['wanted']:,} links of held-out logs, which nothing was learned from: precision"
            f" {measured['precision']:.3f}, recall {measured['recall']:.3f}"
        )
    for cause in report["hierarchy"][:5]:
        line(f"hierarchy: {cause}", style="yellow")
    _print_graph(report)


def embed(o: Assigned = None) -> None:
    """Learn a vector for every node of the graph."""
    from lemmata.mine.embedding import embed_graph

    perform(embed_graph, _print_embedded, "embed", o)


def _print_embedded(report: dict[str, Any]) -> None:
    line(
        f"{report['nodes']:,} nodes, {report['edges']:,} edges, {report['epochs']} epochs,"
        f" {report['edges_per_second']:,.0f} edges/s, in {report['seconds']:.1f} s"
    )
    if measures := report.get("measures"):
        line(
            f"{report['held_out']:,} held-out edges: MRR {measures['mrr']:.3f}, Hits@1 {measures['hits_at_1']:.3f},"
            f" Hits@10 {measures['hits_at_10']:.3f}, mean rank {measures['mean_rank']:.0f}, AUC {measures['auc']:.3f}"
        )


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
        perform(decide_merge, _print_graph, kept=kept, gone=gone, verdict=verdict)
        return
    if status not in ("", *STATUSES):
        raise LemmataError(f"there is no status {status!r} (there are: {', '.join(STATUSES)})")
    proposals = [merge for merge in merges(opened()) if status in ("", merge.status)]
    shown = proposals[: k or None]
    more = len(proposals) - len(shown)
    print_report(shown, lambda _: _print_merges(shown, more))


def _print_merges(merges: list[Merge], more: int) -> None:
    if not merges:
        line("no merges")
    for merge in merges:
        line((f"{merge.status:9}", "green"), f" {merge.gone} → {merge.kept}  ", (merge.reason, "dim"))
    if more:
        line(f"and {more:,} more: -k 0 shows all")


def _print_graph(report: dict[str, Any]) -> None:
    """The counts of a graph; also of one that a verb has changed."""
    rows = []
    for title in ("nodes", "edges", "concepts", "merges"):
        counts: dict[str, int] = report[title]
        parts = [f"{number:,} {name}" for name, number in sorted(counts.items(), key=lambda item: -item[1])]
        rows.append((styled((title, "bold")), f"{sum(counts.values()):,}", ", ".join(parts)))
    listed = table(("", "", ""), rows)
    listed.columns[1].justify = "right"
    open_console().print(listed)
    if "seconds" in report:
        line(f"in {report['seconds']:.1f} s")
