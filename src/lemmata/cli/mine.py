"""Commands that make training data: split, mine, audit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

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
    table,
    working,
)
from lemmata.core.errors import ConfigError

Name = Annotated[str, Option(help="Name of the training set.", metavar="NAME")]
FoundWithin = Annotated[
    int, Option(help="Keep only queries that find their passage among so many hits; 0: keep all.", min=0)
]


def split(o: Assigned = None) -> None:
    """Split the corpus into train, validation and test.

    By -o: method (document, concept, time or stratified), the shares validation and test, answers, and seed.
    """
    from lemmata.mine.splits import split

    perform(split, _print_split, "split", o)


def _print_split(report: dict[str, Any]) -> None:
    for part, counts in report["counts"].items():
        summary = ", ".join(f"{number:,} {name}" for name, number in counts.items())
        line((f"{part:10}", "bold"), f" {summary}")
    for note in report["notes"]:
        line(note, style="dim")


def pairs(name: Name = "pairs", o: Assigned = None) -> None:
    """Mine pairs from concepts, structure and citations."""
    _mine("pairs", o, name=name)


def _mine(what: str, o: list[str] | None, *, on: str = "", **arguments: Any) -> None:
    from lemmata.mine.mine import mine

    perform(mine, _print_set, "mine", o, on=on, what=what, **arguments)


def queries(
    name: Annotated[str, Option(help="Name of the set; default: queries, written, or questions.", metavar="NAME")] = "",
    found_within: FoundWithin = 0,
    part: Annotated[
        str,
        Option(help="train; all: held-out passages too, for search only; test: for evaluation only.", metavar="PART"),
    ] = "train",
    model: Model = "",
    o: Assigned = None,
    budget: Budget = "",
    on: On = "",
) -> None:
    """Write queries by rules, or by a --model."""
    from lemmata.llm.endpoint import Limits
    from lemmata.mine.mine import preview_queries, write_queries

    if not model:
        _mine("queries", o, on=on, name=name, found_within=found_within, part=part)
        return
    if on:
        raise ConfigError("a --model writes on its own server: leave out --on")
    settings, others = assigned(o, "mine")
    limits = Limits(**read_budget(budget))
    workspace = opened({**others, "mine": settings})
    preview = preview_queries(workspace, model={"model": model}, part=part)
    if not confirm_limits(preview, bool(budget)):
        return
    with showing_progress(workspace):
        report = write_queries(
            workspace, limits, name=name, model={"model": model}, found_within=found_within, part=part
        )
    print_report(report, _print_set)


def import_(
    path: Annotated[Path, Argument(help="JSON lines with query and passage, or with --qrels.", metavar="FILE")],
    name: Name = "imported",
    qrels: Annotated[
        Path | None, Option(help="Relevance judgments, BEIR or TREC format, of queries with _id.", metavar="FILE")
    ] = None,
    complete: Annotated[bool, Option("--complete", help="Drop queries that do not end in punctuation.")] = False,
    found_within: FoundWithin = 0,
    o: Assigned = None,
) -> None:
    """Import existing queries for passages."""
    from lemmata.mine.mine import import_queries

    settings, others = assigned(o, "mine")
    with working({**others, "mine": settings}) as workspace:
        report = import_queries(workspace, path, qrels=qrels, name=name, complete=complete, found_within=found_within)
    print_report(report, _print_set)


def triplets(
    name: Name = "triplets",
    kind: Annotated[
        str, Option("--from", help="embedding, scincl, citations or queries.", metavar="WHERE")
    ] = "embedding",
    of: Annotated[str, Option(help="With --from queries: the set of queries.", metavar="NAME")] = "",
    o: Assigned = None,
) -> None:
    """Mine triplets from embeddings, citations or queries."""
    _mine("triplets", o, name=name, kind=kind, of=of)


def negatives(
    of: Annotated[str, Argument(help="Training set to add them to.", metavar="SET")] = "pairs",
    name: Annotated[str, Option(help="Name of the result; default: SET-hard.", metavar="NAME")] = "",
    o: Assigned = None,
) -> None:
    """Add hard negatives to the pairs of a set."""
    _mine("negatives", o, name=name or f"{of}-hard", of=of)


def domain(
    general: Annotated[Path, Argument(help="A general corpus, JSON lines.", metavar="GENERAL")],
    out: Annotated[Path, Argument(help="Output file, JSON lines.", metavar="OUT")],
    share: Annotated[float, Option(help="Share of the general corpus to select.", min=0, max=1)] = 0.1,
    encoder: Annotated[str, Option(help="Encoder; default: that of the index.", metavar="NAME")] = "",
) -> None:
    """Select passages of this field from a general corpus."""
    from lemmata.mine.domain import select_domain

    show = partial(_print_domain, out)
    perform(select_domain, show, general=general, out=out, share=share, encoder=encoder)


def _print_domain(out: Path, report: dict[str, Any]) -> None:
    passages = f"{report['selected']:,} of {counted(report['read'], 'passage')}"
    line(f"{out}: {passages}, with a score from {report['threshold']:.3f} on")
    if report["skipped"]:
        line(f"  {report['skipped']:,} lines without a text were skipped")
    if report["nearly_held_out"]:
        line(f"  {report['nearly_held_out']:,} passages were dropped: nearly equal to held-out text")


def mix(
    name: Annotated[str, Argument(help="A table [mixtures.NAME], and name of the result.", metavar="NAME")],
) -> None:
    """Mix several training sets into one."""
    from lemmata.mine.mine import mix

    perform(mix, _print_mix, name=name)


def _print_mix(report: dict[str, Any]) -> None:
    numbers = ("offered", "duplicates", "capped", "kept")
    rows = [(row["source"], *(f"{row[number]:,}" for number in numbers)) for row in report["table"]]
    open_console().print(table(("source", *(f">{number}" for number in numbers)), rows))
    _print_set(report)


def sets() -> None:
    """List the training sets."""
    from lemmata.mine.training_sets import training_sets

    print_report(training_sets(opened()), _print_sets)


def _print_sets(manifests: dict[str, dict[str, Any]]) -> None:
    for name, manifest in manifests.items():
        line((name, "bold"), f"  {counted(manifest['report']['records'], 'record')}")
        if manifest["out_of_date"]:
            line(f"  out of date: {manifest['out_of_date']}", style="yellow")
    if not manifests:
        line("no training sets yet: lemmata mine pairs")


def export(
    name: Annotated[str, Argument(help="A training set.", metavar="SET")],
    path: Annotated[Path, Argument(help="Output file.", metavar="PATH")],
    format: Annotated[  # noqa: A002 - the word that users know
        str, Option("--format", help="parquet, tevatron, flagembedding or tsv.", metavar="NAME")
    ] = "parquet",
) -> None:
    """Export a training set for other trainers."""
    from lemmata.mine.mine import export_training
    from lemmata.mine.training_sets import training_sets

    workspace = opened()
    number = export_training(workspace, name, path, file_format=format)
    line(f"{path}: {counted(number, 'record')}")
    if older := training_sets(workspace)[name]["out_of_date"]:
        line(f"out of date: {older}", style="yellow")


def audit(
    names: Annotated[list[str] | None, Argument(help="Training sets; default: all.", metavar="SETS")] = None,
) -> None:
    """Check training sets for held-out data."""
    from lemmata.mine.training_sets import audit

    with working() as workspace:
        result = audit(workspace, names or ())
    summary = {"clean": result.clean, "looked_for": list(result.looked_for), "sentence": result.sentence()}
    shown = f"{', '.join(result.sets) or 'no training sets'}: {result.sentence()}"
    print_report(result, lambda _: line(shown), record={"sets": result.sets, **summary})


_CAUSES = {
    "of no passage": "the passage is not in the corpus",
    "of validation": "the passage is in the validation part",
    "of test": "the passage is in the test part",
    "of no part": "the passage is in no part",
    "empty": "the query is empty",
    "cut": "no punctuation at the end",
}


def _print_set(report: dict[str, Any]) -> None:
    line(
        (report["name"], "bold"),
        f": {counted(report['records'], 'record')} in {report['seconds']['all']:.1f} s; {report['audit']}",
    )
    if report["replaced"]:
        line("  replaced the set of this name")
    for note in report["notes"]:
        line(f"  out of date: {note}", style="yellow")
    _print_counts(report["by_source"], "")
    for style, share in report.get("round_trip", {}).items():
        line(f"  {share['kept']:,} of {share['asked']:,} queries find their passage {style and f'({style})'}")
    imported = report.get("imported", {"left_out": {}})
    for cause, number in imported["left_out"].items():
        example = f", the first for {imported['first_unknown']}" if cause == "of no passage" else ""
        line(f"  {number:>9,}  skipped: {_CAUSES.get(cause, cause)}{example}")
    if report.get("unanswered"):
        how = f": {report['limit']}" if report["limit"] else "; the same command continues"
        line(f"  {report['unanswered']:,} passages have no answer yet{how}")
    if report.get("json_mode", "json_schema") != "json_schema":
        line(f"  answers were asked for with json_mode {report['json_mode']}")
    _print_counts(report.get("dropped", {}), "dropped: ")
    if gate := report.get("gate"):
        line(f"  gate {gate['model']}: {gate['kept']:,} of {gate['offered']:,} records kept")
        _print_counts(gate["dropped"], "dropped by the gate: ")


def _print_counts(counts: dict[str, int], prefix: str) -> None:
    for name, number in sorted(counts.items(), key=lambda item: -item[1]):
        line(f"  {number:>9,}  {prefix}{name}")
