"""Commands: evaluate, mteb, export-encoder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lemmata.cli.output import (
    HERE,
    AsJson,
    Calls,
    Concurrency,
    Cost,
    Model,
    MostCost,
    MostTokens,
    Price,
    Seconds,
    Seed,
    TokenPrice,
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
    say,
    showing_progress,
)
from lemmata.core.errors import InputError, LemmataError

if TYPE_CHECKING:
    from lemmata.corpus.leakage import Example
    from lemmata.evaluate.tasks import Task
    from lemmata.project import Project


# which task is asked; also the options of `export beir`
TaskName = Annotated[
    str, typer.Option(help="Task from the corpus: references, documents, concepts or descriptions.", metavar="NAME")
]
Part = Annotated[str, typer.Option(help="With --task: part of the split, validation or test.", metavar="PART")]
Share = Annotated[float, typer.Option(help="With --task and no part: share of the corpus to query from.", min=0, max=1)]
Protocol = Annotated[str, typer.Option(help="With --task concepts: passage or seed.", metavar="NAME")]
Limit = Annotated[int, typer.Option(help="Maximum number of queries, a random sample; 0: all.", min=0)]


def evaluate(
    workspace: WorkspaceDir = HERE,
    queries: Annotated[
        Path | None,
        typer.Option(
            help="JSON lines with _id and text, or with query and passage; or a .tsv table.",
            metavar="FILE",
        ),
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="Relevance judgments, BEIR or TREC format.", metavar="FILE")
    ] = None,
    beir: Annotated[
        Path | None,
        typer.Option(help="BEIR folder: queries.jsonl and qrels/test.tsv; DIR#train: qrels/train.tsv.", metavar="DIR"),
    ] = None,
    task: TaskName = "",
    part: Part = "",
    share: Share = 0.2,
    protocol: Protocol = "passage",
    limit: Limit = 0,
    retriever: Annotated[
        str,
        typer.Option(
            help="Comma-separated: lexical, dense, hybrid, auto, diffusion, geodesic; NAME:ENCODER,"
            " NAME+rerank[N][:MODEL].",
            metavar="NAMES",
            show_default="lexical,dense,hybrid,auto",
        ),
    ] = "",
    measures: Annotated[str, typer.Option(help="Comma-separated names.", metavar="NAMES")] = "",
    level: Annotated[str, typer.Option(help="passage, document or whole-document.", metavar="LEVEL")] = "",
    train_queries: Annotated[Path | None, typer.Option(help="Queries used for training.", metavar="FILE")] = None,
    train_qrels: Annotated[Path | None, typer.Option(help="Judgments used for training.", metavar="FILE")] = None,
    allow_leakage: Annotated[
        bool, typer.Option("--allow-leakage", help="Evaluate even if test data leaked into training.")
    ] = False,
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow-missing",
            help="Go on when judgments name passages that are not in the corpus; they count as not found.",
        ),
    ] = False,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune", help="Fit the weights of auto, or that of a NAME+rerank, to these queries, as validation data."
        ),
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML report.", metavar="FILE")] = None,
    trec: Annotated[
        Path | None, typer.Option(help="Also write TREC files: runs by retriever, judgments.", metavar="FILE")
    ] = None,
    tokens: MostTokens = 0,
    cost: MostCost = 0.0,
    price: TokenPrice = 0.0,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Measure retrievers on queries with known answers.

    dense:ENCODER, auto:ENCODER and so on compare encoders; their vectors are made where they are missing.
    """
    from lemmata.core.files import write_atomically
    from lemmata.evaluate.report import as_html, terminal_table
    from lemmata.evaluate.report import as_json as report_as_json
    from lemmata.project import Project

    project = Project(workspace)
    options = project.evaluate_options(given(measures=measures or None, level=level or None, seed=seed))
    chosen = chosen_task(project, queries, qrels, beir, task, part, share, limit, options.seed, protocol)
    retrievers = _names(retriever) if retriever else ["auto"] if tune else _default_retrievers(project)
    if tune:
        ignored = {"html": html, "trec": trec, "level": level, "allow_leakage": allow_leakage}
        ignored |= {"train_queries": train_queries, "train_qrels": train_qrels}
        _check_tuned(_names(retriever) if retriever else [], beir, ignored)
    allowance = project.allowance(tokens=tokens, cost=cost, price=price)
    with showing_progress(project):
        if tune:
            measure = options.measures.split(",")[0]
            reranking = [name for name in retrievers if "+rerank" in name]
            if reranking:
                _print_weights(
                    [
                        project.tune_rerank(
                            chosen,
                            name,
                            measure=measure,
                            allow_missing=allow_missing,
                            allowance=allowance,
                        )
                        for name in reranking
                    ],
                    as_json,
                )
                return
            result = project.tune(
                chosen,
                measure=measure,
                encoder=_tuned_encoder(retrievers),
                allow_missing=allow_missing,
                allowance=allowance,
            )
            if as_json:
                print_json(result)
            else:
                from lemmata.search.fusion import Fusion

                values = result["values"]
                open_console().print(
                    f"auto now ranks by {Fusion(**result['fusion']).formula}: {measure} {values['auto']:.3f} on"
                    f" {counted(result['queries'], 'query')}; with the default weights {values['default']:.3f}, equal"
                    f" weights {values['equal']:.3f}, dense alone {values['dense']:.3f}, lexical alone"
                    f" {values['lexical']:.3f}",
                    markup=False,
                )
            return
        report = project.evaluate(
            chosen,
            retrievers=retrievers,
            options=options,
            train=_examples(train_queries, train_qrels),
            allow_leakage=allow_leakage,
            allow_missing=allow_missing,
            trec=trec,
            allowance=allowance,
            command=" ".join(["lemmata", *sys.argv[1:]]),
        )
    if html is not None:
        write_atomically(html, as_html(report).encode())
        typer.echo(f"report: {html}", err=True)
    if as_json:
        print_json(report_as_json(report))
    else:
        open_console().print(terminal_table(report))


def _default_retrievers(project: Project) -> list[str]:
    """All of the usual ones, or just lexical where there are no vectors yet."""
    from lemmata.core.workspace import vector_set
    from lemmata.vectors.store import unfinished

    vectors = vector_set(project)
    if vectors is not None and vectors.manifest.exists():
        return ["lexical", "dense", "hybrid", "auto"]
    reason = unfinished(project) or "there are no vectors yet, 'lemmata index' makes them"
    say(f"only --retriever lexical is evaluated: {reason}")
    return ["lexical"]


def _names(text: str) -> list[str]:
    """Comma-separated retrievers, each once."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if names.count(name) > 1:
            raise LemmataError(f"the retriever {name!r} is named twice")
    return names


def _check_tuned(named: list[str], beir: Path | None, ignored: dict[str, Any]) -> None:
    """Refuse options that --tune would ignore, and test judgments."""
    from lemmata.evaluate.evaluate import judgments_of
    from lemmata.search.retriever import parse_retriever

    if beir is not None and judgments_of(beir)[1] == "test":
        raise LemmataError(f"--tune would fit weights to test judgments: name {beir}#train or {beir}#dev, or --queries")
    for option, value in ignored.items():
        if value:
            raise LemmataError(f"--tune measures nothing but its choices: leave out --{option.replace('_', '-')}")
    reranking = [name for name in named if "+rerank" in name]
    for name in named:
        kind, encoder = parse_retriever(name)
        if name not in reranking and (reranking or (kind not in ("auto", "hybrid") and not encoder)):
            possible = "auto, auto:ENCODER or NAME+rerank"
            raise LemmataError(f"--tune chooses the weights of {possible}; it has none to choose for {name!r}")


def _tuned_encoder(retrievers: list[str]) -> str:
    """The encoder whose fusion is tuned: the one that the retrievers name, or the default."""
    from lemmata.search.retriever import parse_retriever

    encoders = dict.fromkeys(encoder for name in retrievers if (encoder := parse_retriever(name)[1]))
    if len(encoders) > 1:
        raise LemmataError(f"--tune chooses the fusion of one encoder at a time, not of {', '.join(encoders)}")
    return next(iter(encoders), "")


def _print_weights(reports: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(reports)
        return
    for report in reports:
        values = {row["weight"]: row[report["measure"]] for row in report["tried"]}
        open_console().print(
            f"{report['reranker']} now has weight {report['weight']} in reranking: {report['measure']}"
            f" {values[report['weight']]:.3f}, with equal weights {values[0.5]:.3f}, alone {values[1.0]:.3f},"
            f" without it {values[0.0]:.3f}",
            markup=False,
        )


def chosen_task(
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
    """The task that the options of a command describe: made from the corpus, or from files."""
    import numpy as np

    from lemmata.evaluate.evaluate import beir_task, read_asked, table_task
    from lemmata.evaluate.tasks import sampled, task_from
    from lemmata.ingest.beir import check_judgments, read_qrels, read_queries

    if sum((bool(queries or qrels), beir is not None, bool(name))) != 1:
        raise LemmataError("a task needs exactly one of --queries with --qrels, --beir, or --task")
    if name:
        return project.task(name, part=part, share=share, limit=limit, seed=seed, protocol=protocol)
    if part:
        raise LemmataError("--part goes with --task: queries from a file belong to no part of the split")
    if beir is not None:
        chosen = beir_task(project, beir, name=str(beir))
    elif queries is not None and qrels is None:
        asked, answers = read_asked(queries)
        if not asked:
            raise InputError("there are no queries in it", file=str(queries))
        # missing passages are for evaluate to count
        chosen = table_task(project, str(queries), asked, answers, file=queries, allow_missing=True)
    elif queries is None or qrels is None:
        raise LemmataError("--qrels needs --queries")
    else:
        asked, answers = read_queries(queries), read_qrels(qrels)
        check_judgments(asked, answers, queries_file=queries, qrels_file=qrels)
        chosen = task_from(str(queries), asked, answers)
    return sampled(chosen, limit, np.random.default_rng(seed)) if limit else chosen


def _examples(queries: Path | None, qrels: Path | None) -> list[Example]:
    from lemmata.corpus.leakage import examples
    from lemmata.ingest.beir import read_qrels, read_queries

    if queries is None and qrels is None:
        return []
    if queries is None or qrels is None:
        raise LemmataError("--train-queries and --train-qrels go together")
    return examples(read_queries(queries), read_qrels(qrels))


def mteb(
    tasks: Annotated[
        list[str], typer.Argument(help="Names of mteb tasks, BEIR folders, or NAME=DIR.", metavar="TASKS...")
    ],
    workspace: WorkspaceDir = HERE,
    encoder: Annotated[str, typer.Option(help="Encoder; default: that of the index.", metavar="NAME")] = "",
    retriever: Annotated[str, typer.Option(help="dense, lexical or both.", metavar="NAMES")] = "dense",
    as_json: AsJson = False,
) -> None:
    """Run tasks of mteb on an encoder and on BM25."""
    from lemmata.project import Project

    names = [name.strip() for name in retriever.split(",")]
    with showing_progress(Project(workspace)) as project:
        records = project.mteb(tasks, encoder=encoder, retrievers=names)
    if as_json:
        print_json(records)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("task", "part", "measure", "retriever", "value"):
        table.add_column(head, justify="right" if head == "value" else "left", overflow="fold")
    for record in records:
        cells = (str(record[name]) for name in ("task", "part", "measure", "retriever"))
        table.add_row(*cells, f"{record['value']:.4f}")
    open_console().print(table)


def judge(
    out: Annotated[Path, typer.Argument(help="Output folder, as BEIR has them.", metavar="OUT")],
    by: Annotated[str, typer.Option("--by", help="A cross-encoder: model, folder or hub name.", metavar="MODEL")],
    workspace: WorkspaceDir = HERE,
    part: Annotated[
        str, typer.Option(help="Where queries come from: test or validation.", show_default="test", metavar="PART")
    ] = "",
    queries: Annotated[
        Path | None, typer.Option(help="Judge these queries instead: JSON lines with _id and text.", metavar="FILE")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Maximum number of queries; 0: all.", show_default="200", min=0)
    ] = None,
    retriever: Annotated[str, typer.Option(help="Comma-separated names.", metavar="NAMES")] = "lexical,dense,hybrid",
    depth: Annotated[int, typer.Option(help="Candidates of each retriever.", min=1)] = 20,
    thresholds: Annotated[
        str,
        typer.Option(
            help="Scores for grade 1 and 2, comma-separated; default: by the scores of sources and random passages.",
            metavar="A,B",
        ),
    ] = "",
    url: Url = "",
    model: Model = "",
    calls: Calls = 0,
    tokens: Tokens = 0,
    cost: Cost = 0.0,
    seconds: Seconds = 0.0,
    unlimited: Unlimited = False,
    price: Price = (0.0, 0.0),
    concurrency: Concurrency = 0,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Make a test collection: queries by rules or a --model, judged by a cross-encoder."""
    from lemmata.evaluate.pooling import Thresholds
    from lemmata.llm.endpoint import Limits
    from lemmata.project import Project

    if queries is not None and model:
        raise LemmataError("--queries are judged as they are: leave out --model")
    if queries is not None and limit is not None:
        raise LemmataError("all --queries are judged: leave out --limit")
    if queries is not None and part:
        raise LemmataError("--queries are of no part: leave out --part")
    limit, part = 200 if limit is None else limit, part or "test"
    project = Project(workspace)
    chosen = None
    if thresholds:
        try:
            chosen = Thresholds(*map(float, thresholds.split(",")))
        except (TypeError, ValueError):
            raise LemmataError(f"--thresholds needs two numbers such as 3,5, not {thresholds!r}") from None
    limits, settings = None, None
    if model:
        limits = Limits(calls, tokens, cost, seconds)
        settings = endpoint(url, model, price, concurrency)
        preview = project.preview_judged_queries(part=part, limit=limit, model=settings)
        if not confirm_limits(preview, any(limits) or unlimited, as_json):
            return
    with showing_progress(project):
        report = project.judge(
            out,
            by,
            queries=queries,
            model=settings,
            limits=limits,
            part=part,
            limit=limit,
            depth=depth,
            retrievers=tuple(name.strip() for name in retriever.split(",")),
            thresholds=chosen,
            seed=seed,
        )
    if as_json:
        print_json(report)
        return
    console = open_console()
    grades, limits_shown = report["grades"], report["thresholds"]
    console.print(
        f"{out}: {counted(report['queries'], 'query')}, {counted(report['judged'], 'candidate')}"
        f" judged by {report['judge']}: {grades['2']:,} highly relevant, {grades['1']:,} relevant"
        f" (from {limits_shown['relevant']:.2f} and {limits_shown['highly']:.2f} on)"
    )
    for name, numbers in report["retrievers"].items():
        console.print(
            f"  {name}: {numbers['relevant']:,} relevant of {numbers['candidates']:,},"
            f" {numbers['relevant_alone']:,} that no other found"
        )
    if sources := report["sources"]["passages"]:
        agreed = report["sources"]["relevant_by_judge"]
        console.print(f"  the judge finds {agreed:,} of {sources + report['sources']['repeats']:,} sources relevant")
    console.print(report["note"], style="dim")


def export_encoder(
    source: Annotated[str, typer.Argument(help="A sentence-transformers folder.", metavar="MODEL")],
    out: Annotated[Path, typer.Argument(help="Output folder.", metavar="OUT")],
    precision: Annotated[str, typer.Option(help="fp32 or int8.", metavar="NAME")] = "fp32",
    workspace: WorkspaceDir = HERE,
    force: Annotated[bool, typer.Option("--force", help="Write it even if its vectors drift.")] = False,
    as_json: AsJson = False,
) -> None:
    """Export a model to ONNX and measure its drift."""
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
