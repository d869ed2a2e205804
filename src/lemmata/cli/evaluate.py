"""Commands that measure: evaluate, export-encoder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemmata.cli.output import HERE, AsJson, Workspace, open_console, print_json, showing_progress
from lemmata.errors import LemmataError

if TYPE_CHECKING:
    from lemmata.evaluate.tasks import Task
    from lemmata.leakage import Example
    from lemmata.project import Project


__all__ = ["evaluate", "export_encoder"]


def evaluate(
    workspace: Workspace = HERE,
    queries: Annotated[
        Path | None,
        typer.Option(help="JSON lines with _id and text; or a table .tsv of queries and ids.", metavar="FILE"),
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="Judgments, BEIR or TREC.", metavar="FILE")] = None,
    beir: Annotated[Path | None, typer.Option(help="Folder with queries and qrels/test.tsv.", metavar="DIR")] = None,
    task: Annotated[str, typer.Option(help="references, documents, concepts, descriptions.", metavar="NAME")] = "",
    part: Annotated[str, typer.Option(help="validation or test of the split, for --task.", metavar="PART")] = "",
    share: Annotated[float, typer.Option(help="Share of documents or concepts held out.", min=0, max=1)] = 0.2,
    protocol: Annotated[str, typer.Option(help="passage or seed, for concepts.", metavar="NAME")] = "passage",
    limit: Annotated[int, typer.Option(help="At most so many queries for --task; 0: all.", min=0)] = 0,
    retriever: Annotated[str, typer.Option(help="Names, parted by commas.", metavar="NAMES")] = "lexical,dense,hybrid",
    measures: Annotated[str, typer.Option(help="Names, parted by commas.", metavar="NAMES")] = "",
    level: Annotated[str, typer.Option(help="passage or document.", metavar="LEVEL")] = "",
    train_queries: Annotated[Path | None, typer.Option(help="Queries that were trained on.", metavar="FILE")] = None,
    train_qrels: Annotated[Path | None, typer.Option(help="Judgments that were trained on.", metavar="FILE")] = None,
    allow_leakage: Annotated[bool, typer.Option("--allow-leakage", help="Go on when test data is known.")] = False,
    tune: Annotated[bool, typer.Option("--tune", help="Choose the fusion on this, as validation data.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a report for the browser.", metavar="FILE")] = None,
    seed: Annotated[int, typer.Option(help="For samples and intervals.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure retrievers on queries with known answers."""
    from lemmata.config import build, merged
    from lemmata.evaluate.report import as_html, terminal_table
    from lemmata.evaluate.report import as_json as report_as_json
    from lemmata.files import write_atomically
    from lemmata.project import EvaluateOptions, Project

    project = Project(workspace)
    given = {"measures": measures, "level": level}
    settings: dict[str, Any] = {key: value for key, value in given.items() if value}
    settings |= {"seed": seed, "command": " ".join(["lemmata", *sys.argv[1:]])}
    options = build(EvaluateOptions, merged(project.config.get("evaluate", {}), settings), "[evaluate]")
    chosen = _task(project, queries, qrels, beir, task, part, share, limit, seed, protocol)
    with showing_progress() as progress:
        if tune:
            result = project.tune(chosen, measure=options.measures.split(",")[0], progress=progress)
            if as_json:
                print_json(result)
            else:
                best = result["fusion"]
                open_console().print(
                    f"fusion by {best['method']}, weight {best['weight']} for the dense side, from now on"
                )
            return
        report = project.evaluate(
            chosen,
            retrievers=[name.strip() for name in retriever.split(",")],
            options=options,
            train=_examples(train_queries, train_qrels),
            allow_leakage=allow_leakage,
            progress=progress,
        )
    if html is not None:
        write_atomically(html, as_html(report).encode())
    if as_json:
        print_json(report_as_json(report))
    else:
        open_console().print(terminal_table(report))


def _task(
    project: Project,
    queries: Path | None,
    qrels: Path | None,
    beir: Path | None,
    name: str,
    part: str,
    share: float,
    limit: int,
    seed: int,
    protocol: str,
) -> Task:
    from lemmata.evaluate.tasks import task_from
    from lemmata.ingest.beir import read_judged, read_qrels, read_queries, read_table
    from lemmata.stages.evaluate import table_task

    if sum((bool(queries or qrels), beir is not None, bool(name))) != 1:
        raise LemmataError("evaluate needs one of --queries with --qrels, --beir, or --task")
    if name:
        return project.task(name, part=part, share=share, limit=limit, seed=seed, protocol=protocol)
    if beir is not None:
        return task_from(str(beir), *read_judged(beir))
    if queries is not None and qrels is None and queries.suffix == ".tsv":
        return table_task(project.layout, str(queries), *read_table(queries), file=queries)
    if queries is None or qrels is None:
        raise LemmataError("--queries and --qrels go together, unless the queries are a table (.tsv) with ids")
    return task_from(str(queries), read_queries(queries), read_qrels(qrels))


def _examples(queries: Path | None, qrels: Path | None) -> list[Example]:
    from lemmata.ingest.beir import read_qrels, read_queries
    from lemmata.leakage import examples

    if queries is None and qrels is None:
        return []
    if queries is None or qrels is None:
        raise LemmataError("--train-queries and --train-qrels go together")
    return examples(read_queries(queries), read_qrels(qrels))


def export_encoder(
    source: Annotated[str, typer.Argument(help="A sentence-transformers folder.", metavar="MODEL")],
    out: Annotated[Path, typer.Argument(help="The folder to write.", metavar="OUT")],
    precision: Annotated[
        str, typer.Option(help="fp32, fp16, int8, int8-blocks or int8-weights.", metavar="NAME")
    ] = "fp32",
    workspace: Workspace = HERE,
    force: Annotated[bool, typer.Option("--force", help="Write it even if it drifts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a model into ONNX and measure its drift on the corpus."""
    from itertools import islice

    from lemmata.encode.export import export_encoder as export
    from lemmata.project import Project

    corpus = Project(workspace).corpus
    texts = list(islice(corpus.contents(), 2000))
    corpus.close()
    drift = export(source, out, precision, texts=texts, force=force)
    if as_json:
        print_json(drift._asdict())
    else:
        open_console().print(
            f"{out}: mean cosine {drift.mean_cosine:.5f}, smallest {drift.least_cosine:.5f},"
            f" top-10 overlap {drift.overlap:.3f}"
        )
