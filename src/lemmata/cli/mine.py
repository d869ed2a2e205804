"""Commands that make training data: split, mine, audit."""

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
from lemmata.core.errors import ConfigError

Name = Annotated[str, typer.Option(help="Name of the training set.", metavar="NAME")]
FoundWithin = Annotated[
    int, typer.Option(help="Keep only queries that find their passage among so many hits; 0: keep all.", min=0)
]
Gate = Annotated[
    str, typer.Option(help="Cross-encoder that positives and negatives have to pass, or none.", metavar="MODEL")
]


def split(
    workspace: WorkspaceDir = HERE,
    method: Annotated[str, typer.Option(help="document, concept, time or stratified.", metavar="NAME")] = "",
    validation: Annotated[
        float | None, typer.Option(help="Share for validation.", show_default="0.1", min=0, max=1)
    ] = None,
    test: Annotated[float | None, typer.Option(help="Share for test.", show_default="0.1", min=0, max=1)] = None,
    answers: Annotated[
        bool, typer.Option("--answers", help="Held-out passages may be positives in training, never queries.")
    ] = False,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Split the corpus into train, validation and test."""
    from lemmata.project import Project

    settings = given(method=method or None, validation=validation, test=test, answers=answers or None, seed=seed)
    with showing_progress(Project(workspace)) as project:
        report = project.split(settings=settings)
    if as_json:
        print_json(report)
        return
    console = open_console()
    for part, counts in report["counts"].items():
        summary = ", ".join(f"{number:,} {name}" for name, number in counts.items())
        console.print(styled((f"{part:10}", "bold"), f" {summary}"))
    for note in report["notes"]:
        console.print(note, style="dim")


def pairs(
    workspace: WorkspaceDir = HERE,
    name: Name = "pairs",
    gate: Gate = "",
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Mine pairs from concepts, structure and citations."""
    from lemmata.project import Project

    settings = {"pairs": given(seed=seed), **given(gate=gate or None)}
    with showing_progress(Project(workspace)) as project:
        report = project.mine("pairs", name=name, settings=settings)
    _print_report(report, as_json)


def queries(
    workspace: WorkspaceDir = HERE,
    name: Annotated[
        str, typer.Option(help="Name of the training set; default: queries, or written.", metavar="NAME")
    ] = "",
    found_within: FoundWithin = 0,
    part: Annotated[
        str, typer.Option(help="train, or all: about held-out passages too, for search only.", metavar="PART")
    ] = "train",
    gate: Gate = "",
    url: Url = "",
    model: Model = "",
    calls: Calls = 0,
    tokens: Tokens = 0,
    cost: Cost = 0.0,
    seconds: Seconds = 0.0,
    unlimited: Unlimited = False,
    price: Price = (0.0, 0.0),
    concurrency: Concurrency = 0,
    on: On = "",
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Write queries by rules, or by a --model."""
    from lemmata.core.workers import computing_on
    from lemmata.llm.endpoint import Limits
    from lemmata.project import Project

    if model and on:
        raise ConfigError("a --model writes on its own server: leave out --on")
    if model and seed is not None:
        raise ConfigError("nothing is drawn for a --model: leave out --seed")
    project = Project(workspace)
    if model:
        limits = Limits(calls, tokens, cost, seconds)
        endpoint_settings = endpoint(url, model, price, concurrency)
        preview = project.preview_queries(model=endpoint_settings, part=part)
        if not confirm_limits(preview, any(limits) or unlimited, as_json):
            return
        with showing_progress(project):
            report = project.write_queries(
                limits,
                name=name or "written",
                model=endpoint_settings,
                found_within=found_within,
                gate=gate,
                part=part,
            )
    else:
        settings = {"queries": given(seed=seed), **given(gate=gate or None)}
        with showing_progress(project), computing_on(on, project.progress):
            report = project.mine("queries", name=name, found_within=found_within, part=part, settings=settings)
    _print_report(report, as_json)


def import_(
    path: Annotated[Path | None, typer.Argument(help="JSON lines with id and text.", metavar="FILE")] = None,
    workspace: WorkspaceDir = HERE,
    name: Name = "imported",
    queries: Annotated[Path | None, typer.Option(help="JSON lines with _id and text.", metavar="FILE")] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="Relevance judgments, BEIR or TREC format.", metavar="FILE")
    ] = None,
    complete: Annotated[bool, typer.Option("--complete", help="Drop queries that do not end in punctuation.")] = False,
    found_within: FoundWithin = 0,
    gate: Gate = "",
    as_json: AsJson = False,
) -> None:
    """Import existing queries for passages."""
    from lemmata.project import Project

    with showing_progress(Project(workspace)) as project:
        report = project.import_queries(
            path,
            queries=queries,
            qrels=qrels,
            name=name,
            complete=complete,
            found_within=found_within,
            gate=gate,
        )
    _print_report(report, as_json)


def triplets(
    workspace: WorkspaceDir = HERE,
    name: Name = "triplets",
    kind: Annotated[
        str, typer.Option("--from", help="embedding, scincl, citations or queries.", metavar="WHERE")
    ] = "embedding",
    of: Annotated[str, typer.Option(help="With --from queries: the set of queries.", metavar="NAME")] = "",
    relations: Annotated[
        str,
        typer.Option(help="With --from citations: comma-separated relations.", metavar="NAMES"),
    ] = "",
    gate: Gate = "",
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Mine triplets from embeddings, citations or queries."""
    from lemmata.project import Project

    seeds = given(seed=seed)
    settings = {"triplets": seeds, "citations": seeds | ({"relations": relations} if relations else {})}
    settings |= given(gate=gate or None)
    with showing_progress(Project(workspace)) as project:
        report = project.mine("triplets", name=name, kind=kind, of=of, settings=settings)
    _print_report(report, as_json)


def negatives(
    of: Annotated[str, typer.Argument(help="Training set to add them to.", metavar="SET")] = "pairs",
    workspace: WorkspaceDir = HERE,
    name: Annotated[str, typer.Option(help="Name of the result; default: SET-hard.", metavar="NAME")] = "",
    number: Annotated[int, typer.Option(help="Negatives per pair; 0: as configured.", min=0)] = 0,
    gate: Gate = "",
    as_json: AsJson = False,
) -> None:
    """Add hard negatives to the pairs of a set."""
    from lemmata.project import Project

    settings: dict[str, Any] = {"negatives": {"number": number}} if number else {}
    settings |= given(gate=gate or None)
    with showing_progress(Project(workspace)) as project:
        report = project.mine("negatives", name=name or f"{of}-hard", of=of, settings=settings)
    _print_report(report, as_json)


def domain(
    general: Annotated[Path, typer.Argument(help="A general corpus, JSON lines.", metavar="GENERAL")],
    out: Annotated[Path, typer.Argument(help="Output file, JSON lines.", metavar="OUT")],
    workspace: WorkspaceDir = HERE,
    share: Annotated[float, typer.Option(help="Share of the general corpus to select.", min=0, max=1)] = 0.1,
    encoder: Annotated[str, typer.Option(help="Encoder; default: that of the index.", metavar="NAME")] = "",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Select passages of this field from a general corpus."""
    from lemmata.project import Project

    with showing_progress(Project(workspace)) as project:
        report = project.select_domain(general, out, share=share, encoder=encoder, seed=seed)
    if as_json:
        print_json(report)
        return
    console = open_console()
    console.print(
        f"{out}: {report['selected']:,} of {counted(report['read'], 'passage')},"
        f" with a score from {report['threshold']:.3f} on"
    )
    for number, cause in (
        (report["skipped"], "lines without a text were skipped"),
        (report["nearly_held_out"], "passages were dropped: nearly equal to held-out text"),
    ):
        if number:
            console.print(f"  {number:,} {cause}")


def mix(
    mixture: Annotated[str, typer.Argument(help="A table [mixtures.NAME] of lemmata.toml.", metavar="NAME")],
    workspace: WorkspaceDir = HERE,
    name: Annotated[str, typer.Option(help="Name of the result; default: that of the mixture.", metavar="NAME")] = "",
    as_json: AsJson = False,
) -> None:
    """Mix several training sets into one."""
    from lemmata.project import Project

    with showing_progress(Project(workspace)) as project:
        report = project.mix(mixture, name=name)
    if not as_json:
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for column in ("source", "offered", "duplicates", "capped", "kept"):
            table.add_column(column, justify="left" if column == "source" else "right")
        for row in report["table"]:
            table.add_row(row["source"], *(f"{row[key]:,}" for key in ("offered", "duplicates", "capped", "kept")))
        open_console().print(table)
    _print_report(report, as_json)


def sets(workspace: WorkspaceDir = HERE, as_json: AsJson = False) -> None:
    """List the training sets."""
    from lemmata.project import Project

    manifests = Project(workspace).training_sets()
    if as_json:
        print_json(manifests)
        return
    console = open_console()
    for name, manifest in manifests.items():
        console.print(styled((name, "bold"), f"  {counted(manifest['report']['records'], 'record')}"))
        if manifest["out_of_date"]:
            console.print(f"  out of date: {manifest['out_of_date']}", style="yellow")
    if not manifests:
        console.print("no training sets yet: lemmata mine pairs")


def export(
    name: Annotated[str, typer.Argument(help="A training set.", metavar="SET")],
    path: Annotated[Path, typer.Argument(help="Output file.", metavar="PATH")],
    workspace: WorkspaceDir = HERE,
    format: Annotated[  # noqa: A002 - the word that users know
        str, typer.Option("--format", help="parquet, tevatron, flagembedding or tsv.", metavar="NAME")
    ] = "parquet",
) -> None:
    """Export a training set for other trainers."""
    from lemmata.project import Project

    project = Project(workspace)
    number = project.export_training(name, path, file_format=format)
    open_console().print(f"{path}: {counted(number, 'record')}")
    if older := project.training_sets()[name]["out_of_date"]:
        open_console().print(f"out of date: {older}", style="yellow")


def audit(
    names: Annotated[list[str] | None, typer.Argument(help="Training sets; default: all.", metavar="SETS")] = None,
    workspace: WorkspaceDir = HERE,
    as_json: AsJson = False,
) -> None:
    """Check training sets for held-out data."""
    from lemmata.project import Project

    with showing_progress(Project(workspace)) as project:
        result = project.audit(names or ())
    if as_json:
        summary = {"clean": result.clean, "looked_for": list(result.looked_for), "sentence": result.sentence()}
        print_json({"sets": result.sets, **summary})
    else:
        open_console().print(f"{', '.join(result.sets) or 'no training sets'}: {result.sentence()}", markup=False)


_CAUSES = {
    "of no passage": "the passage is not in the corpus",
    "of validation": "the passage is in the validation part",
    "of test": "the passage is in the test part",
    "of no part": "the passage is in no part",
    "empty": "the query is empty",
    "cut": "no punctuation at the end",
}


def _print_report(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    console = open_console()
    seconds = report["seconds"]
    console.print(
        styled(
            (report["name"], "bold"),
            f": {counted(report['records'], 'record')} in {seconds['mining']:.1f} s;"
            f" audited in {seconds['all'] - seconds['mining']:.1f} s: {report['audit']}",
        )
    )
    if report["replaced"]:
        console.print("  replaced the set of this name")
    for note in report["notes"]:
        console.print(f"  out of date: {note}", style="yellow")
    for source, number in sorted(report["by_source"].items(), key=lambda item: -item[1]):
        console.print(f"  {number:>9,}  {source}")
    for style, share in report.get("round_trip", {}).items():
        console.print(f"  {share['kept']:,} of {share['asked']:,} queries find their passage {style and f'({style})'}")
    imported = report.get("imported", {"left_out": {}})
    for cause, number in imported["left_out"].items():
        example = f", the first for {imported['first_unknown']}" if cause == "of no passage" else ""
        console.print(f"  {number:>9,}  skipped: {_CAUSES.get(cause, cause)}{example}")
    if report.get("unanswered"):
        how = f": {report['limit']}" if report["limit"] else "; the same command continues"
        console.print(f"  {report['unanswered']:,} passages have no answer yet{how}", markup=False)
    if report.get("json_mode", "json_schema") != "json_schema":
        console.print(f"  answers were asked for with json_mode {report['json_mode']}")
    for rule, number in sorted(report.get("dropped", {}).items(), key=lambda item: -item[1]):
        console.print(f"  {number:>9,}  dropped: {rule}")
    if gate := report.get("gate"):
        console.print(f"  gate {gate['model']}: {gate['kept']:,} of {gate['offered']:,} records kept", markup=False)
        for rule, number in sorted(gate["dropped"].items(), key=lambda item: -item[1]):
            console.print(f"  {number:>9,}  dropped by the gate: {rule}")
