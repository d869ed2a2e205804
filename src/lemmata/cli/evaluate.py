"""Commands: evaluate, judge, judgments, mteb, export-encoder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from lemmata.cli.output import (
    Assigned,
    Budget,
    EncoderBudget,
    Model,
    assigned,
    confirm_limits,
    counted,
    given,
    invocation,
    open_console,
    opened,
    perform,
    print_report,
    read_budget,
    say,
    showing_progress,
)
from lemmata.core.errors import InputError, LemmataError
from lemmata.search.names import NAMES, USUAL

if TYPE_CHECKING:
    from lemmata.core.workspace import Workspace
    from lemmata.corpus.leakage import Example
    from lemmata.evaluate.pooling import Thresholds
    from lemmata.evaluate.tasks import Task


# which task is asked; also the options of `export beir`
TaskName = Annotated[
    str,
    Option(
        help="Task from the corpus: references, documents, descriptions, concepts, concepts:seed or questions.",
        metavar="NAME",
    ),
]
Part = Annotated[
    str,
    Option(
        help="With --task: queries of validation or test, or of a share of the corpus, 0.2 by default.", metavar="PART"
    ),
]
Limit = Annotated[int, Option(help="Maximum number of queries, a random sample; 0: all.", min=0)]


def evaluate(
    workspaces: Annotated[
        list[Path] | None,
        Argument(help="Several workspaces in one table, each counting alike; default: that of -w.", metavar="[DIR]..."),
    ] = None,
    queries: Annotated[
        Path | None,
        Option(help="JSON lines with _id and text, or with query and passage; or a .tsv table.", metavar="FILE"),
    ] = None,
    qrels: Annotated[Path | None, Option(help="Relevance judgments, BEIR or TREC format.", metavar="FILE")] = None,
    beir: Annotated[
        Path | None,
        Option(help="BEIR folder: queries.jsonl and qrels/test.tsv; DIR#train: qrels/train.tsv.", metavar="DIR"),
    ] = None,
    task: TaskName = "",
    part: Part = "",
    limit: Limit = 0,
    retriever: Annotated[
        str, Option(help=f"Comma-separated: {NAMES}.", metavar="NAMES", show_default=",".join(USUAL))
    ] = "",
    o: Assigned = None,
    train_queries: Annotated[Path | None, Option(help="Queries used for training.", metavar="FILE")] = None,
    train_qrels: Annotated[Path | None, Option(help="Judgments used for training.", metavar="FILE")] = None,
    allow_leakage: Annotated[
        bool, Option("--allow-leakage", help="Evaluate even if test data leaked into training.")
    ] = False,
    allow_missing: Annotated[
        bool,
        Option(
            "--allow-missing",
            help="Go on when judgments name passages that are not in the corpus; they count as not found.",
        ),
    ] = False,
    tune: Annotated[
        bool,
        Option(
            "--tune", help="Fit the weights of auto, or that of a NAME+rerank, to these queries, as validation data."
        ),
    ] = False,
    html: Annotated[Path | None, Option(help="Also write an HTML report.", metavar="FILE")] = None,
    trec: Annotated[
        Path | None, Option(help="Also write TREC files: runs by retriever, judgments.", metavar="FILE")
    ] = None,
    budget: EncoderBudget = "",
) -> None:
    """Measure retrievers on queries with known answers.

    dense:ENCODER, auto:ENCODER and so on compare encoders; their vectors are made where they are missing. By -o:
    measures and level (passage, document, whole-document), comma-separated; seed. Files of queries are looked for
    below each of several workspaces first.
    """
    from lemmata.core.files import write_atomically
    from lemmata.evaluate.evaluate import evaluate, evaluate_options
    from lemmata.evaluate.report import as_html, pooled, terminal_table
    from lemmata.evaluate.report import as_json as report_as_json
    from lemmata.search.index import make_allowance
    from lemmata.search.names import parse_retriever

    settings, others = assigned(o, "evaluate")
    names = _names(retriever)
    folders = workspaces or [invocation.folder]
    if len(folders) > 1 and (tune or trec):
        raise LemmataError(f"{'--tune' if tune else '--trec'} is for one workspace at a time")
    reports = {}
    for folder in folders:
        workspace = opened(others, folder, addresses=[parse_retriever(name)[1] for name in names])
        options = evaluate_options(workspace, settings)
        asked, judged, judged_folder = (
            _below(folder, path) if workspaces and path else path for path in (queries, qrels, beir)
        )
        chosen = chosen_task(workspace, options.seed, asked, judged, judged_folder, task, part, limit)
        allowance = make_allowance(workspace, **read_budget(budget, ("tokens", "cost")))
        if tune:
            ignored = {"--html": html, "--trec": trec, "-o level": "level" in settings}
            ignored |= {"--train-queries": train_queries, "--train-qrels": train_qrels}
            _check_tuned(names, beir, ignored | {"--allow-leakage": allow_leakage})
            fit = {"measure": options.measures.split(",")[0], "allow_missing": allow_missing, "allowance": allowance}
            _tune(workspace, chosen, names, fit)
            return
        with showing_progress(workspace):
            reports[str(folder)] = report = evaluate(
                workspace,
                chosen,
                retrievers=names or _default_retrievers(workspace),
                options=options,
                train=_examples(train_queries, train_qrels),
                allow_leakage=allow_leakage,
                allow_missing=allow_missing,
                trec=trec,
                allowance=allowance,
                command=" ".join(["lemmata", *sys.argv[1:]]),
            )
    if len(reports) > 1:
        report = pooled(reports, options.seed)
    if html is not None:
        write_atomically(html, as_html(report).encode())
        typer.echo(f"report: {html}", err=True)
    print_report(report, lambda _: open_console().print(terminal_table(report)), record=report_as_json(report))


def _below(folder: Path, path: Path) -> Path:
    """A path below a workspace where there is such a file or folder, else as it is."""
    return folder / path if (folder / str(path).partition("#")[0]).exists() else path


def _tune(workspace: Workspace, task: Task, names: list[str], fit: dict[str, Any]) -> None:
    """Fit the weights of the rerankers among the retrievers, or else of the fusion of their encoder."""
    from lemmata.evaluate.tuning import tune

    reranking = [name for name in names if "+rerank" in name]
    encoder = "" if reranking else _tuned_encoder(names)
    with showing_progress(workspace):
        results = [
            tune(workspace, task, name, **fit) for name in reranking or [f"auto:{encoder}" if encoder else "auto"]
        ]
    if reranking:
        print_report(results, shown=("reranker", "weight", "measure"))
    else:
        print_report(results[0], shown=("task", "queries", "measure", "fusion", "values"))


def _default_retrievers(workspace: Workspace) -> list[str]:
    """All of the usual ones, or just lexical where there are no vectors yet."""
    from lemmata.core.workspace import vector_set
    from lemmata.vectors.store import unfinished

    vectors = vector_set(workspace)
    if vectors is not None and vectors.manifest.exists():
        return list(USUAL)
    reason = unfinished(workspace) or "there are no vectors yet, 'lemmata index' makes them"
    say(f"only --retriever lexical is evaluated: {reason}")
    return ["lexical"]


def _names(text: str) -> list[str]:
    """Comma-separated retrievers, each once."""
    names = [name.strip() for name in text.split(",")] if text else []
    for name in names:
        if names.count(name) > 1:
            raise LemmataError(f"the retriever {name!r} is named twice")
    return names


def _check_tuned(named: list[str], beir: Path | None, ignored: dict[str, Any]) -> None:
    """Refuse options that --tune would ignore, and test judgments."""
    from lemmata.evaluate.workspace_tasks import judgments_of
    from lemmata.search.names import parse_retriever

    if beir is not None and judgments_of(beir)[1] == "test":
        raise LemmataError(f"--tune would fit weights to test judgments: name {beir}#train or {beir}#dev, or --queries")
    for option, value in ignored.items():
        if value:
            raise LemmataError(f"--tune measures nothing but its choices: leave out {option}")
    reranking = [name for name in named if "+rerank" in name]
    for name in named:
        kind, encoder = parse_retriever(name)
        if name not in reranking and (reranking or (kind not in ("auto", "hybrid") and not encoder)):
            possible = "auto, auto:ENCODER or NAME+rerank"
            raise LemmataError(f"--tune chooses the weights of {possible}; it has none to choose for {name!r}")


def _tuned_encoder(retrievers: list[str]) -> str:
    """The encoder whose fusion is tuned: the one that the retrievers name, or the default."""
    from lemmata.search.names import parse_retriever

    encoders = dict.fromkeys(encoder for name in retrievers if (encoder := parse_retriever(name)[1]))
    if len(encoders) > 1:
        raise LemmataError(f"--tune chooses the fusion of one encoder at a time, not of {', '.join(encoders)}")
    return next(iter(encoders), "")


def chosen_task(
    workspace: Workspace,
    seed: int,
    queries: Path | None,
    qrels: Path | None,
    beir: Path | None,
    name: str,
    part: str,
    limit: int,
) -> Task:
    """The task that the options of a command describe: made from the corpus, or from files."""
    import numpy as np

    from lemmata.evaluate.tasks import sampled, task_from
    from lemmata.evaluate.workspace_tasks import beir_task, corpus_task, read_asked, table_task
    from lemmata.ingest.beir import check_judgments, read_qrels, read_queries

    if sum((bool(queries or qrels), beir is not None, bool(name))) != 1:
        raise LemmataError("a task needs exactly one of --queries with --qrels, --beir, or --task")
    if name:
        kind, _, protocol = name.partition(":")
        return corpus_task(
            workspace, kind, protocol=protocol or "passage", limit=limit, seed=seed, **_part_or_share(part)
        )
    if part:
        raise LemmataError("--part goes with --task: queries from a file belong to no part of the split")
    if beir is not None:
        chosen = beir_task(workspace, beir, name=str(beir))
    elif queries is not None and qrels is None:
        asked, answers = read_asked(queries)
        if not asked:
            raise InputError("there are no queries in it", file=str(queries))
        # missing passages are for evaluate to count
        chosen = table_task(workspace, str(queries), asked, answers, file=queries, allow_missing=True)
    elif queries is None or qrels is None:
        raise LemmataError("--qrels needs --queries")
    else:
        asked, answers = read_queries(queries), read_qrels(qrels)
        check_judgments(asked, answers, queries_file=queries, qrels_file=qrels)
        chosen = task_from(str(queries), asked, answers)
    return sampled(chosen, limit, np.random.default_rng(seed)) if limit else chosen


def _part_or_share(part: str) -> dict[str, Any]:
    """A part of the split by its name, or a share of the corpus by its number."""
    try:
        share = float(part)
    except ValueError:
        return {"part": part}
    if not 0 <= share <= 1:
        raise LemmataError(f"--part {part}: a share of the corpus is a number from 0 to 1")
    return {"share": share}


def _examples(queries: Path | None, qrels: Path | None) -> list[Example]:
    from lemmata.corpus.leakage import examples
    from lemmata.ingest.beir import read_qrels, read_queries

    if queries is None and qrels is None:
        return []
    if queries is None or qrels is None:
        raise LemmataError("--train-queries and --train-qrels go together")
    return examples(read_queries(queries), read_qrels(qrels))


def mteb(
    tasks: Annotated[list[str], Argument(help="Names of mteb tasks, BEIR folders, or NAME=DIR.", metavar="TASKS...")],
    encoder: Annotated[str, Option(help="Encoder; default: that of the index.", metavar="NAME")] = "",
    retriever: Annotated[str, Option(help="dense, lexical or both.", metavar="NAMES")] = "dense",
) -> None:
    """Run tasks of mteb on an encoder and on BM25."""
    from lemmata.evaluate.mteb import run_mteb

    retrievers = [name.strip() for name in retriever.split(",")]
    perform(run_mteb, tasks=tasks, encoder=encoder, retrievers=retrievers)


def judge(
    out: Annotated[Path, Argument(help="Output folder, as BEIR has them.", metavar="OUT")],
    by: Annotated[str, Option("--by", help="A cross-encoder: model, folder or hub name.", metavar="MODEL")],
    part: Annotated[
        str, Option(help="Where queries come from: test or validation.", show_default="test", metavar="PART")
    ] = "",
    queries: Annotated[
        Path | None, Option(help="Judge these queries instead: JSON lines with _id and text.", metavar="FILE")
    ] = None,
    limit: Annotated[int | None, Option(help="Maximum number of queries; 0: all.", show_default="200", min=0)] = None,
    retriever: Annotated[str, Option(help="Comma-separated names.", metavar="NAMES")] = "lexical,dense,hybrid",
    depth: Annotated[int, Option(help="Candidates of each retriever.", min=1)] = 20,
    thresholds: Annotated[
        str,
        Option(
            help="Scores for grade 1 and 2, comma-separated; default: by the scores of sources and random passages.",
            metavar="A,B",
        ),
    ] = "",
    model: Model = "",
    o: Assigned = None,
    budget: Budget = "",
) -> None:
    """Make a test collection: queries by rules or a --model, judged by a cross-encoder."""
    from lemmata.evaluate.judge import judge, preview_judged_queries
    from lemmata.llm.endpoint import Limits

    if queries is not None and (ignored := given(model=model or None, limit=limit, part=part or None)):
        raise LemmataError(f"all --queries are judged as they are: leave out --{next(iter(ignored))}")
    pool: dict[str, Any] = {"part": part or "test", "limit": 200 if limit is None else limit}
    settings, others = assigned(o, "mine")
    workspace = opened({**others, "mine": settings})
    limits = Limits(**read_budget(budget)) if model else None
    endpoint = {"model": model}
    if limits is not None:
        preview = preview_judged_queries(workspace, **pool, model=endpoint)
        if not confirm_limits(preview, bool(budget)):
            return
    pool |= {"depth": depth, "retrievers": tuple(_names(retriever)), "thresholds": _thresholds(thresholds)}
    with showing_progress(workspace):
        report = judge(workspace, out, by, queries=queries, model=endpoint, limits=limits, **pool)
    print_report(report)


def judgments(
    export: Annotated[
        Path | None, Option(help="Write the marked queries to this folder, as BEIR and TREC.", metavar="DIR")
    ] = None,
    clear: Annotated[bool, Option("--clear", help="Delete the log.")] = False,
) -> None:
    """List, export or delete the queries that were asked here, with the hits that people marked."""
    from lemmata.evaluate.judgments import clear_judgments, export_judgments, judgments

    workspace = opened()
    if export:
        print_report(export_judgments(workspace, export))
    if clear and sys.stdin.isatty():  # a script means it
        asked = judgments(workspace)
        marked = sum(bool(query.answers or query.wrong) for query in asked)
        typer.confirm(f"delete {counted(len(asked), 'query')}, {marked:,} with marks?", abort=True, err=True)
    if clear:
        number = clear_judgments(workspace)
        print_report({"cleared": number})
    if not (export or clear):
        print_report(
            judgments(workspace),
            shown=("text", "times", "answers", "wrong", "opened"),
            empty="nobody asked anything yet: the page, the API and agents write to the log",
        )


def _thresholds(text: str) -> Thresholds | None:
    from lemmata.evaluate.pooling import Thresholds

    try:
        return Thresholds(*map(float, text.split(","))) if text else None
    except (TypeError, ValueError):
        raise LemmataError(f"--thresholds needs two numbers such as 3,5, not {text!r}") from None


def export_encoder(
    source: Annotated[str, Argument(help="A sentence-transformers folder.", metavar="MODEL")],
    out: Annotated[Path, Argument(help="Output folder.", metavar="OUT")],
    precision: Annotated[str, Option(help="fp32 or int8.", metavar="NAME")] = "fp32",
    force: Annotated[bool, Option("--force", help="Write it even if its vectors drift.")] = False,
) -> None:
    """Export a model to ONNX and measure its drift."""
    from contextlib import closing
    from itertools import islice

    from lemmata.corpus.corpus import Corpus
    from lemmata.encode.export import export_encoder as export

    with closing(Corpus(opened())) as corpus:
        texts = list(islice(corpus.contents(), 2000))
    drift = export(source, out, precision, texts=texts, force=force)
    print_report(drift)
