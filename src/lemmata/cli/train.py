"""Commands: train pretrain, finetune, reranker, static, metric, prepare, models; run, adapt."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from lemmata.cli.output import (
    Assigned,
    Budget,
    On,
    assigned,
    counted,
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
    table,
    working,
)
from lemmata.core.errors import LemmataError
from lemmata.train.ranks import refuse_several


def pretrain(
    name: Annotated[str, Argument(help="Table [pretrain.NAME], and name of the model.", metavar="NAME")] = (
        "pretrained"
    ),
    o: Assigned = None,
) -> None:
    """Pretrain an encoder on the text of the corpus."""
    from lemmata.train.train import pretrain_model

    perform(pretrain_model, partial(_print_pretrained, name), f"pretrain.{name}", o, name=name)


def _print_pretrained(name: str, report: dict[str, Any]) -> None:
    _print_notes(report)
    perplexity = report["perplexity"].items()
    summary = ", ".join(f"{part} {value:,.1f}" for part, value in perplexity if value is not None)
    windows = f"{report['windows']['trained']:,} windows of {report['window']:,} tokens"
    line(f"{windows}, {report['tokens']:,} tokens in all; held-out perplexity: {summary or 'nothing held out'}")
    for start, row in report.get("gate", {}).items():
        line(f"after fine-tuning the {start}: {row['domain']:.4f} on validation")
    line(f"kept as models/{name}" if report["kept"] else "not kept: the base is better on validation")


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
        perform(finetune_model, partial(_print_encoder, _next_step(name)), f"finetune.{name}", o, name=name)
        return
    settings, _ = assigned(o, f"finetune.{name}")
    with progress_display() as progress:
        report = _train_job(job, out, settings, progress)
    print_report(report, partial(_print_encoder, f"model: {out}"))


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

    perform(reranker_model, partial(_print_reranker, name), f"reranker.{name}", o, name=name)


def _print_reranker(name: str, report: dict[str, Any]) -> None:
    _print_notes(report)
    for measure, value in report["before"].items():
        line(f"{report['held_out']:,} held-out pairs, {measure}: {value:.3f} -> {report['after'][measure]:.3f}")
    weight = report["weight"]
    if weight is not None:
        values = {row["weight"]: row[weight["measure"]] for row in weight["tried"]}
        line(
            f"weight {weight['weight']} beside {weight['retriever']}: {weight['measure']}"
            f" {values[weight['weight']]:.3f},"
            f" without it {values[0.0]:.3f}, alone {values[1.0]:.3f} ({weight['queries']:,} held-out pairs)"
        )
    else:
        line(f"its weight in search is the default: {report.get('not_weighed', 'no held-out pairs')}")
    line(f"{report['pairs_per_second']:,.0f} pairs/s, {report['seconds']:.0f} s")
    if "not_exported" in report:
        line(f"not exported, so reranking needs torch: {report['not_exported']}")
    line(f"model: models/{name}; next: lemmata search TEXT --retriever auto+rerank20")


def static(
    name: Annotated[str, Argument(help="Table [static.NAME], and name of the model.", metavar="NAME")] = "static",
    o: Assigned = None,
) -> None:
    """Train a static encoder: token vectors without a model, for encoding in seconds.

    Resumes from the last checkpoint.
    """
    from lemmata.train.train import static_model

    refuse_several("'lemmata train static' works")
    perform(static_model, partial(_print_encoder, _next_step(name)), f"static.{name}", o, name=name)


def metric(
    encoder: Annotated[str, Option(help="Whose vectors to learn from; by default those of search.")] = "",
    o: Assigned = None,
) -> None:
    """Learn from links what is near; the retriever geodesic uses it if it helps.

    Resumes from the last checkpoint.
    """
    from lemmata.train.learn_metric import learn_metric

    perform(learn_metric, _print_metric, "metric", o, encoder=encoder)


def _print_metric(report: dict[str, Any]) -> None:
    _print_notes(report)
    values = {
        "dense": report["by_dense"],
        "diffusion": report["by_diffusion"],
        "geodesic by text": report["by_text"],
        "geodesic by the metric": report["by_metric"],
    }
    line(
        f"{report['links']:,} links, {report['epochs']} epochs, {report['seconds']:.0f} s; {report['measure']} of"
        f" {report['queries']:,} validation passages: "
        + ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        + f"; p {report['p']:.4f} against the best other one"
    )
    if not report["best_epoch"]:
        line("no epoch of the training found more than the network did before it")
    line(
        "kept: the retriever geodesic uses it, and 'lemmata evaluate --tune' fits its weight in auto"
        if report["helps"]
        else "kept as [metric] always says, though it does not help here"
        if report["kept"]
        else "not kept: it does not help here, and the retriever geodesic stays with lengths by text"
    )


def _print_notes(report: dict[str, Any]) -> None:
    if report.get("done_before"):
        line("up to date: made before from the same data and options", style="dim")
    for note in report.get("notes", ()):
        line(f"out of date: {note}", style="yellow")


def _train_job(job: Path, out: Path, settings: dict[str, Any], progress: Any) -> dict[str, Any]:
    from lemmata.core.config import build, merged
    from lemmata.encode.load import AUTO, DEFAULT
    from lemmata.train.finetune import FinetuneOptions
    from lemmata.train.job import open_job
    from lemmata.train.train import train_job

    options = build(FinetuneOptions, merged(open_job(job).facts.get("options", {}), settings), f"{job}")
    base = DEFAULT if options.base == AUTO else options.base  # a job of a workspace says which
    return train_job(job, base, out, options, progress)


def _print_encoder(place: str, report: dict[str, Any]) -> None:
    """The report of an encoder's training, and the place of the model."""
    _print_notes(report)
    if report["before"]:
        after = report["after"]
        rows = [(name, f"{value:.4f}", f"{after.get(name, math.nan):.4f}") for name, value in report["before"].items()]
        open_console().print(table(("validation", ">before", ">after"), rows))
    step = f"best step {report['best_step']:,}" if report["best_step"] else "last step"
    line(
        f"{step}, {report['share']:.0%} of the tuned weights kept;"
        f" {report['records_per_second']:,.0f} records/s, {report['seconds']:.0f} s"
    )
    if "not_exported" in report:
        line(f"not exported, so searching needs torch: {report['not_exported']}")
    line(place)


def prepare(
    name: Annotated[str, Argument(help="The table [finetune.NAME].", metavar="NAME")],
    folder: Annotated[Path, Argument(help="The folder to write.", metavar="DIR")],
    o: Assigned = None,
) -> None:
    """Write a training job that another machine can train."""
    from lemmata.train.train import prepare_job

    refuse_several("'lemmata train prepare' works")
    perform(prepare_job, partial(_print_prepared, folder), f"finetune.{name}", o, name=name, folder=folder)


def _print_prepared(folder: Path, report: dict[str, Any]) -> None:
    _print_notes(report)
    line(f"{report['texts']:,} texts, {report['tokens']:,} tokens")
    for kind in ("sets", "validations"):
        for part, number in report[kind].items():
            line((kind, "dim"), f" {part}: {number:,}")
    line(f"train it with: lemmata train finetune --job {folder} --out MODEL -o base=BASE")


def models() -> None:
    """List the trained models."""
    from lemmata.core.artefacts import models as model_artefacts
    from lemmata.core.artefacts import problems
    from lemmata.core.workspace import read_manifests

    workspace = opened()
    damaged = list(problems(workspace, model_artefacts(workspace)))
    print_report(read_manifests(workspace.models_folder), lambda manifests: _print_models(manifests, bool(damaged)))
    if damaged:
        raise LemmataError("; ".join(damaged))


def _print_models(manifests: dict[str, dict[str, Any]], are_damaged: bool) -> None:
    for name, manifest in manifests.items():
        kept = "" if manifest["report"].get("kept", True) else " (not kept: worse than its base)"
        line((name, "bold"), f" {manifest['verb']} of {manifest['options']['base']}", (kept, "dim"))
    if not manifests and not are_damaged:
        line("no models yet: lemmata train finetune")


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
        print_report(undo_adapt(workspace), lambda report: line(f"search uses {report['encoder']} as before"))
        return
    with showing_progress(workspace):
        report = adapt(workspace, finetune=finetune, limits=Limits(**read_budget(budget)) if budget else None)
    print_report(report, _print_adapted)


def _print_adapted(report: dict[str, Any]) -> None:
    tasks = report["queries"]
    heads = (
        "",
        "encoder",
        *(f">{report['measure']}, {counted(n, 'query')} {task}" for task, n in tasks.items()),
        "auto",
    )
    rows = [
        (row["name"], row["encoder"], *(f"{row[task]:.3f}" for task in tasks), row["auto"]) for row in report["rows"]
    ]
    open_console().print(table(heads, rows, padding=(0, 2, 0, 0)))
    for note in report["notes"]:
        line(note, style="dim")
    if report.get("done_before"):
        line("nothing is new since this was measured")
    elif report["adopted"]:
        line(f"adopted: {report['adopted']}; 'lemmata adapt --undo' takes it back", style="bold")
    else:
        line("search stays as it is: nothing is clearly better", style="bold")
