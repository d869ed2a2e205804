"""Commands: train pretrain, finetune, reranker, static, metric, prepare, models; run, adapt."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from lemmata.cli.output import (
    Assigned,
    Budget,
    On,
    assigned,
    invocation,
    line,
    log,
    open_console,
    opened,
    perform,
    print_report,
    progress_display,
    read_budget,
    showing_progress,
    working,
)
from lemmata.cli.printer import print_record
from lemmata.core.errors import LemmataError
from lemmata.core.records import as_json
from lemmata.train.ranks import refuse_several

_OF_PRETRAINING = ("windows", "window", "tokens", "perplexity", "gate", "kept", "done_before", "notes")
_OF_TRAINING = (
    *("before", "after", "best_step", "share", "records_per_second", "seconds", "not_exported", "done_before"),
    "notes",
)
_OF_RERANKER = (
    *("held_out", "before", "after", "weight", "not_weighed", "pairs_per_second", "seconds", "not_exported"),
    *("done_before", "notes"),
)
_OF_METRIC = (
    *("links", "epochs", "best_epoch", "seconds", "queries", "measure", "by_dense", "by_diffusion", "by_text"),
    *("by_metric", "p", "helps", "kept", "done_before", "notes"),
)


def pretrain(
    name: Annotated[str, Argument(help="Table [pretrain.NAME], and name of the model.", metavar="NAME")] = (
        "pretrained"
    ),
    o: Assigned = None,
) -> None:
    """Pretrain an encoder on the text of the corpus."""
    from lemmata.train.train import pretrain_model

    perform(pretrain_model, f"pretrain.{name}", o, shown=_OF_PRETRAINING, name=name)


def finetune(
    name: Annotated[str, Argument(help="Table [finetune.NAME], and name of the model.", metavar="NAME")] = "tuned",
    o: Assigned = None,
    job: Annotated[Path | None, Option(help="Train what 'train prepare' wrote; no workspace.", metavar="DIR")] = None,
    out: Annotated[Path | None, Option(help="With --job: folder of the model.", metavar="DIR")] = None,
) -> None:
    """Fine-tune an encoder on mined data.

    Resumes from the last checkpoint.
    """
    from lemmata.train.train import finetune_model

    if (job is None) != (out is None):
        raise LemmataError("--job and --out go together: the job, and the folder of the model")
    if job is None or out is None:
        perform(finetune_model, f"finetune.{name}", o, shown=_OF_TRAINING, advice=_next_step(name), name=name)
        return
    settings, _ = assigned(o, f"finetune.{name}")
    with progress_display() as progress:
        report = _train_job(job, out, settings, progress)
    print_report(report, shown=_OF_TRAINING, advice=f"model: {out}")


def _next_step(name: str) -> str:
    return f"model: models/{name}; next: lemmata index --encoder {name}"


def reranker(
    name: Annotated[str, Argument(help="Table [reranker.NAME], and name of the model.", metavar="NAME")] = "reranker",
    o: Assigned = None,
) -> None:
    """Train a cross-encoder that reranks hits and checks training data.

    Resumes from the last checkpoint.
    """
    from lemmata.train.reranker import reranker_model

    advice = f"model: models/{name}; next: lemmata search TEXT --retriever auto+rerank20"
    perform(reranker_model, f"reranker.{name}", o, shown=_OF_RERANKER, advice=advice, name=name)


def static(
    name: Annotated[str, Argument(help="Table [static.NAME], and name of the model.", metavar="NAME")] = "static",
    o: Assigned = None,
) -> None:
    """Train a static encoder: token vectors without a model, for encoding in seconds.

    Resumes from the last checkpoint.
    """
    from lemmata.train.train import static_model

    refuse_several("'lemmata train static' works")
    perform(static_model, f"static.{name}", o, shown=_OF_TRAINING, advice=_next_step(name), name=name)


def metric(
    encoder: Annotated[str, Option(help="Whose vectors to learn from; by default those of search.")] = "",
    o: Assigned = None,
) -> None:
    """Learn from links what is near; the retriever geodesic uses it if it helps.

    Resumes from the last checkpoint.
    """
    from lemmata.train.learn_metric import learn_metric

    perform(learn_metric, "metric", o, shown=_OF_METRIC, encoder=encoder)


def _train_job(job: Path, out: Path, settings: dict[str, Any], progress: Any) -> dict[str, Any]:
    from lemmata.core.config import build, merged
    from lemmata.encode.load import AUTO, DEFAULT
    from lemmata.train.finetune import FinetuneOptions
    from lemmata.train.job import open_job
    from lemmata.train.train import train_job

    options = build(FinetuneOptions, merged(open_job(job).facts.get("options", {}), settings), f"{job}")
    base = DEFAULT if options.base == AUTO else options.base  # a job of a workspace says which
    return train_job(job, base, out, options, progress)


def prepare(
    name: Annotated[str, Argument(help="The table [finetune.NAME].", metavar="NAME")],
    folder: Annotated[Path, Argument(help="The folder to write.", metavar="DIR")],
    o: Assigned = None,
) -> None:
    """Write a training job that another machine can train."""
    from lemmata.train.train import prepare_job

    refuse_several("'lemmata train prepare' works")
    advice = f"train it with: lemmata train finetune --job {folder} --out MODEL -o base=BASE"
    perform(prepare_job, f"finetune.{name}", o, advice=advice, name=name, folder=folder)


def models() -> None:
    """List the trained models."""
    from lemmata.core.artefacts import models as model_artefacts
    from lemmata.core.artefacts import problems
    from lemmata.core.workspace import read_manifests

    workspace = opened()
    damaged = list(problems(workspace, model_artefacts(workspace)))
    manifests = read_manifests(workspace.models_folder)
    rows = [
        {"model": name, "from": each["options"]["base"], "by": each["verb"], "kept": each["report"].get("kept", True)}
        for name, each in manifests.items()
    ]
    if manifests or not damaged:
        print_report(manifests, lambda _: print_record(rows, empty="no models yet: lemmata train finetune"))
    if damaged:
        raise LemmataError("; ".join(damaged))


def run(
    profile: Annotated[
        bool, Option("--profile", help="Show seconds, CPU seconds and peak memory of each stage.")
    ] = False,
    o: Assigned = None,
    on: On = "",
) -> None:
    """Run all stages of [run]: from sources to a measured model."""
    from lemmata.cli.profile import Profiler, profile_table
    from lemmata.evaluate.report import as_json as report_as_json
    from lemmata.evaluate.report import terminal_table
    from lemmata.run import run as execute
    from lemmata.run import stage_table

    settings, others = assigned(o, "run")
    stages: dict[str, bool] = {}
    profiler = Profiler()

    def announce(stage: str, done: bool) -> None:
        stages[stage] = done
        profiler.begin(stage)
        if log.is_json:
            log.stage = f"run: {stage}"
            log.write("up to date" if done else "started")
        elif not invocation.is_json:
            line(f"{stage}{': up to date' if done else ' …'}", style="dim")

    with working({**others, "run": settings}, on) as workspace:
        reports = execute(workspace, announce=announce)
    profiled = profiler.end()
    log.stage = "run"

    def show(_: object) -> None:
        summaries = stage_table(workspace)
        for stage, done in stages.items():
            if summaries.get(stage):
                state = f"{stage:<{max(map(len, stages))}}  {'up to date' if done else 'done':<10}"
                line(f"{state}  {summaries[stage]}")
        for report in reports:
            open_console().print(terminal_table(report))
        line(f"results per query: {workspace.run_folder}/report-0.html")
        if profile:
            open_console().print(profile_table(profiled))

    records = [report_as_json(report) for report in reports]
    print_report(reports, show, record={"reports": records, "profile": profiled} if profile else records)


def adapt(
    finetune: Annotated[bool, Option("--finetune", help="Also fine-tune a transformer: hours without a GPU.")] = False,
    undo: Annotated[bool, Option("--undo", help="Search as before the last adoption.")] = False,
    budget: Budget = "",
) -> None:
    """Learn from marks, queries, links and summaries; adopt only what finds more.

    With --budget, the language model of [llm] writes queries, too.
    """
    from lemmata.adapt import adapt, undo_adapt
    from lemmata.llm.endpoint import Limits

    workspace = opened()
    if undo:
        print_report(undo_adapt(workspace))
        return
    with showing_progress(workspace):
        report = adapt(workspace, finetune=finetune, limits=Limits(**read_budget(budget)) if budget else None)
    adopted = f"{report['adopted']}; 'lemmata adapt --undo' takes it back" if report["adopted"] else ""
    told = {"adopted": adopted or "nothing: search stays as it is, nothing is clearly better"}
    if report.get("done_before"):
        told = {"adopted": "nothing is new since this was measured"}
    told |= {name: report[name] for name in ("measure", "queries", "rows", "notes")}
    print_report(report, lambda _: print_record(as_json(told)))
