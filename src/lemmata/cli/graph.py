"""Commands: graph build, extract, import, export, link, embed, merges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lemmata.cli.output import (
    HERE,
    AsJson,
    Calls,
    Concurrency,
    Cost,
    Model,
    On,
    Price,
    Seconds,
    Seed,
    Tokens,
    Unlimited,
    Url,
    WorkspaceDir,
    confirm_limits,
    counted,
    endpoint,
    given,
    open_console,
    print_json,
    showing_progress,
    styled,
)
from lemmata.core.errors import LemmataError

Format = Annotated[str, typer.Option("--format", help="auto, graphml, triples, neo4j, json or ogb.", metavar="NAME")]


def build(
    workspace: WorkspaceDir = HERE,
    metadata: Annotated[
        bool | None, typer.Option("--metadata/--no-metadata", help="Use keywords and synonyms that documents declare.")
    ] = None,
    on: On = "",
    as_json: AsJson = False,
) -> None:
    """Build the graph by rules: links, concepts, relations."""
    from lemmata.core.workers import computing_on
    from lemmata.project import Project

    settings = {"concepts": given(metadata=metadata)}
    with showing_progress(Project(workspace)) as project, computing_on(on, project.progress):
        report = project.build_graph(settings=settings)
    _print_report(report, as_json)


def extract(
    workspace: WorkspaceDir = HERE,
    url: Url = "",
    model: Model = "",
    chunks: Annotated[str, typer.Option(help="ends (first and last passages) or all.", metavar="WHICH")] = "",
    calls: Calls = 0,
    tokens: Tokens = 0,
    cost: Cost = 0.0,
    seconds: Seconds = 0.0,
    unlimited: Unlimited = False,
    price: Price = (0.0, 0.0),
    concurrency: Concurrency = 0,
    as_json: AsJson = False,
) -> None:
    """Extract concepts with a language model.

    Without a limit, only print what it would cost.
    """
    from lemmata.llm.endpoint import Limits
    from lemmata.project import Project

    project = Project(workspace)
    endpoint_settings = endpoint(url, model, price, concurrency)
    settings = {"chunks": chunks} if chunks else {}
    limits = Limits(calls, tokens, cost, seconds)
    preview = project.preview_extraction(settings=settings, model=endpoint_settings)
    if not confirm_limits(preview, any(limits) or unlimited, as_json):
        return
    with showing_progress(project):
        report = project.extract_graph(limits, settings=settings, model=endpoint_settings)
    if not as_json:
        spent = report["spent"]
        console = open_console()
        console.print(
            f"{report['extracted']:,} of {report['documents']:,} documents extracted with {spent['calls']:,} calls and"
            f" {spent['tokens']:,} tokens so far, cost {spent['cost']:.2f}"
        )
        kept, dropped = sum(report["kept"].values()), sum(report["dropped"].values())
        console.print(f"{kept:,} of {kept + dropped:,} records kept")
        for reason, number in report["dropped"].items():
            console.print(f"  {number:,} dropped: {reason}", style="dim")
        if report["json_mode"] != "json_schema":
            console.print(f"answers were asked for with json_mode {report['json_mode']}", style="dim")
        for cause in report["unanswered"][:5]:
            console.print(cause, style="yellow", markup=False)
        if (more := len(report["unanswered"]) - 5) > 0:
            console.print(f"and {more:,} more", style="yellow")
    _print_report(report, as_json)
    if report["documents"] and not report["extracted"]:
        cause = report["cause"] or "they have no text"
        raise LemmataError(f"none of {report['documents']:,} documents could be extracted: {cause}")


def import_(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files or a folder of one graph.", metavar="PATHS...")
    ] = None,
    workspace: WorkspaceDir = HERE,
    format: Format = "auto",  # noqa: A002 - the word that users know
    name: Annotated[str, typer.Option(help="Name of the import; importing it again replaces it.", metavar="NAME")] = "",
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip records that cannot be used.")] = False,
    remove: Annotated[str, typer.Option(help="Remove the import with this name instead.", metavar="NAME")] = "",
    as_json: AsJson = False,
) -> None:
    """Import a graph: GraphML, triples, Neo4j CSV, JSON or OGB."""
    from lemmata.project import Project

    if bool(paths) == bool(remove):
        raise LemmataError("name the files of one graph, or an import with --remove")
    project = Project(workspace)
    with showing_progress(project):
        if not paths:
            _print_report(project.remove_import(remove), as_json)
            return
        report = project.import_graph(paths, format=format, name=name, strict=not lenient)
    if not as_json:
        imported = report["imported"]
        console = open_console()
        console.print(
            f"{counted(imported['concepts'], 'concept')}, {counted(imported['edges'], 'edge')} and"
            f" {counted(imported['nodes'], 'node')} imported, {imported['skips']:,} skipped; found in the corpus:"
            f" {counted(imported['nodes_in_corpus'], 'node')}, among its concepts: {imported['known_concepts']:,}"
        )
        if unknown := imported["unknown"]:
            number = f"{unknown:,} nodes are" if unknown > 1 else "1 node is"
            examples = ", ".join(imported["first_unknown"])
            more = ", …" if unknown > len(imported["first_unknown"]) else ""
            console.print(f"{number} neither in the corpus nor a known concept: {examples}{more}", style="yellow")
    _print_report(report, as_json)


def export(
    path: Annotated[Path, typer.Argument(help="A file, or a folder for neo4j and ogb.", metavar="PATH")],
    workspace: WorkspaceDir = HERE,
    format: Format = "auto",  # noqa: A002
    as_json: AsJson = False,
) -> None:
    """Export the graph to a file or folder."""
    from lemmata.project import Project

    report = Project(workspace).export_graph(path, format=format)
    if as_json:
        print_json(report)
    else:
        open_console().print(
            f"{path}: {report['concepts']:,} concepts, {report['nodes']:,} nodes, {report['edges']:,} edges"
        )


def link(
    workspace: WorkspaceDir = HERE,
    withheld: Annotated[
        Path | None, typer.Option(help="True links that are not in the corpus, to measure the result.", metavar="FILE")
    ] = None,
    days: Annotated[
        float, typer.Option(help="Days within which a log follows up another; 0: as configured.", min=0)
    ] = 0.0,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Predict links of logs to locations and to earlier logs."""
    from lemmata.project import Project

    settings = given(seed=seed, window_days=days or None)
    with showing_progress(Project(workspace)) as project:
        report = project.link_graph(withheld=withheld, settings=settings)
    if not as_json:
        console = open_console()
        for relation, added in report["restored"].items():
            console.print(f"{relation}: {added['edges']:,} new edges, {added['nodes']:,} nodes that had none")
        for relation, measured in report.get("withheld", {}).items():
            console.print(
                f"{relation}: {measured['right']:,} of {measured['wanted']:,} withheld links recovered,"
                f" recall {measured['recall']:.3f}"
            )
        for relation, measured in report["held_out"].items():
            console.print(
                f"{relation}: {measured['wanted']:,} links of held-out logs, which nothing was learned from: precision"
                f" {measured['precision']:.3f}, recall {measured['recall']:.3f}"
            )
        for cause in report["hierarchy"][:5]:
            console.print(f"hierarchy: {cause}", style="yellow")
    _print_report(report, as_json)


def embed(
    workspace: WorkspaceDir = HERE,
    start: Annotated[
        str, typer.Option(help="Initialise from text vectors or at random: text, random.", metavar="HOW")
    ] = "",
    dimension: Annotated[int, typer.Option(help="Dimension of the vectors; 0: as configured.", min=0)] = 0,
    operator: Annotated[str, typer.Option(help="identity, translation, diagonal or complex.", metavar="NAME")] = "",
    epochs: Annotated[int, typer.Option(help="Maximum number of epochs; 0: as configured.", min=0)] = 0,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Learn a vector for every node of the graph."""
    from lemmata.project import Project

    settings = given(
        start=start or None, dimension=dimension or None, operator=operator or None, epochs=epochs or None, seed=seed
    )
    with showing_progress(Project(workspace)) as project:
        report = project.embed_graph(settings=settings)
    if as_json:
        print_json(report)
        return
    console = open_console()
    console.print(
        f"{report['nodes']:,} nodes, {report['edges']:,} edges, {report['epochs']} epochs,"
        f" {report['edges_per_second']:,.0f} edges/s, in {report['seconds']:.1f} s"
    )
    if "measures" in report:
        measures = report["measures"]
        console.print(
            f"{report['held_out']:,} held-out edges: MRR {measures['mrr']:.3f}, Hits@1 {measures['hits_at_1']:.3f},"
            f" Hits@10 {measures['hits_at_10']:.3f}, mean rank {measures['mean_rank']:.0f}, AUC {measures['auc']:.3f}"
        )


def merges(
    workspace: WorkspaceDir = HERE,
    status: Annotated[
        str, typer.Option(help="Only this status: accepted, apart, candidate or rejected.", metavar="STATUS")
    ] = "",
    similar: Annotated[
        bool, typer.Option("--similar", help="Also propose names that the encoder finds similar.")
    ] = False,
    accept: Annotated[
        tuple[str, str] | None, typer.Option(help="Merge the second concept into the first.", metavar="KEPT GONE")
    ] = None,
    reject: Annotated[
        tuple[str, str] | None, typer.Option(help="Keep the two concepts apart.", metavar="KEPT GONE")
    ] = None,
    undo: Annotated[tuple[str, str] | None, typer.Option(help="Withdraw a verdict.", metavar="KEPT GONE")] = None,
    k: Annotated[int, typer.Option("-k", help="Number of merges to show; 0: all.", min=0)] = 50,
    as_json: AsJson = False,
) -> None:
    """Review merged concepts: list, accept, reject or undo."""
    from lemmata.graph.concepts.merge import STATUSES
    from lemmata.project import Project

    project = Project(workspace)
    verdicts = (("accept", accept), ("reject", reject), (None, undo))
    decisions = [(verdict, pair) for verdict, pair in verdicts if pair is not None]
    if len(decisions) > 1:
        raise LemmataError("one verdict at a time: --accept, --reject or --undo")
    if decisions:
        verdict, (kept, gone) = decisions[0]
        with showing_progress(project):
            report = project.decide_merge(kept, gone, verdict)
        _print_report(report, as_json)
        return
    if status not in ("", *STATUSES):
        raise LemmataError(f"there is no status {status!r} (there are: {', '.join(STATUSES)})")
    proposals = [merge for merge in project.merges(similar=similar) if status in ("", merge.status)]
    shown = proposals[:k] if k else proposals
    if as_json:
        print_json([merge._asdict() for merge in shown])
        return
    console = open_console()
    if not shown:
        console.print("no merges")
    for merge in shown:
        console.print(styled((f"{merge.status:9}", "green"), f" {merge.gone} → {merge.kept}  ", (merge.reason, "dim")))
    if len(shown) < len(proposals):
        console.print(f"and {len(proposals) - len(shown):,} more: -k 0 shows all")


def _print_report(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for title in ("nodes", "edges", "concepts", "merges"):
        counts: dict[str, int] = report[title]
        parts = [f"{number:,} {name}" for name, number in sorted(counts.items(), key=lambda item: -item[1])]
        table.add_row(title, f"{sum(counts.values()):,}", ", ".join(parts))
    console = open_console()
    console.print(table)
    if "seconds" in report:
        console.print(f"in {report['seconds']:.1f} s")
