"""Commands that make training data: split, mine, audit."""

from __future__ import annotations

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
    opened,
    perform,
    print_report,
    read_budget,
    showing_progress,
    working,
)
from lemmata.cli.printer import print_record
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

    perform(split, "split", o)


def pairs(name: Name = "pairs", o: Assigned = None) -> None:
    """Mine pairs from concepts, structure and citations."""
    _mine("pairs", o, name=name)


def _mine(what: str, o: list[str] | None, *, on: str = "", **arguments: Any) -> None:
    from lemmata.mine.mine import mine

    perform(mine, "mine", o, on=on, what=what, **arguments)


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
    print_report(report)


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
    print_report(report)


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

    perform(select_domain, general=general, out=out, share=share, encoder=encoder)


def mix(
    name: Annotated[str, Argument(help="A table [mixtures.NAME], and name of the result.", metavar="NAME")],
) -> None:
    """Mix several training sets into one."""
    from lemmata.mine.mine import mix

    perform(mix, name=name)


def sets() -> None:
    """List the training sets."""
    from lemmata.mine.training_sets import training_sets

    manifests = training_sets(opened())
    rows = [{"name": name, "records": manifest["report"]["records"]} for name, manifest in manifests.items()]
    notes = [f"out of date: {older}" for manifest in manifests.values() if (older := manifest["out_of_date"])]
    listed = {"sets": rows, "notes": notes}
    print_report(manifests, lambda _: print_record(listed, empty="no training sets yet: lemmata mine pairs"))


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
    older = training_sets(workspace)[name]["out_of_date"]
    print_report({"path": path, "records": number, "notes": [f"out of date: {older}"] if older else []})


def audit(
    names: Annotated[list[str] | None, Argument(help="Training sets; default: all.", metavar="SETS")] = None,
) -> None:
    """Check training sets for held-out data."""
    from lemmata.mine.training_sets import audit

    with working() as workspace:
        result = audit(workspace, names or ())
    summary = {"clean": result.clean, "looked_for": list(result.looked_for), "sentence": result.sentence()}
    print_report({"sets": result.sets, **summary}, shown=("sets", "sentence"))
