"""Commands: train pretrain, finetune, reranker, static, metric, prepare, models; run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lemmata.cli.output import (
    HERE,
    AsJson,
    On,
    WorkspaceDir,
    given,
    log,
    open_console,
    print_json,
    progress_display,
    showing_progress,
    styled,
)
from lemmata.core.errors import LemmataError
from lemmata.train.ranks import is_first_process, refuse_several

Base = Annotated[str, typer.Option(help="A packaged model, a model of the workspace, or a folder.", metavar="MODEL")]
Epochs = Annotated[float, typer.Option(help="Number of epochs; 0: as configured.", min=0)]
Rate = Annotated[float, typer.Option(help="Learning rate; 0: as configured.", min=0)]
Batch = Annotated[int, typer.Option(help="Batch size; 0: as configured.", min=0)]
UP_TO_DATE = "up to date: made before from the same data and options"


def pretrain(
    name: Annotated[str, typer.Argument(help="Table [pretrain.NAME], and name of the model.", metavar="NAME")] = (
        "pretrained"
    ),
    workspace: WorkspaceDir = HERE,
    base: Base = "",
    epochs: Epochs = 0.0,
    rate: Rate = 0.0,
    as_json: AsJson = False,
) -> None:
    """Pretrain an encoder on the text of the corpus."""
    from lemmata.project import Project

    settings = given(base=base or None, epochs=epochs or None, rate=rate or None)
    with showing_progress(Project(workspace)) as project:
        report = project.pretrain(name, settings=settings)
    if not is_first_process():
        return
    if as_json:
        print_json(report)
        return
    console = open_console()
    if report.get("done_before"):
        console.print(UP_TO_DATE, style="dim")
    perplexity = report["perplexity"].items()
    summary = ", ".join(f"{name} {value:,.1f}" for name, value in perplexity if value is not None)
    windows = f"{report['windows']['trained']:,} windows of {report['window']:,} tokens"
    console.print(
        f"{windows}, {report['tokens']:,} tokens in all; held-out perplexity: {summary or 'nothing held out'}"
    )
    for name_of_start, row in report.get("gate", {}).items():
        console.print(f"after fine-tuning the {name_of_start}: {row['domain']:.4f} on validation")
    console.print(f"kept as models/{name}" if report["kept"] else "not kept: the base is better on validation")


def finetune(
    name: Annotated[
        str, typer.Argument(help="Table [finetune.NAME], and name of the model.", metavar="NAME")
    ] = "tuned",
    workspace: WorkspaceDir = HERE,
    base: Base = "",
    epochs: Epochs = 0.0,
    rate: Rate = 0.0,
    batch: Batch = 0,
    job: Annotated[
        Path | None, typer.Option(help="Train what 'train prepare' wrote; no workspace.", metavar="DIR")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --job: folder of the model.", metavar="DIR")] = None,
    teacher: Annotated[
        str,
        typer.Option(
            help="A model to stay close to, or several to learn from; default: as configured.", metavar="NAMES"
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Fine-tune an encoder on mined data.

    Resumes from the last checkpoint.
    """
    settings = given(
        base=base or None, epochs=epochs or None, rate=rate or None, batch=batch or None, teacher=teacher or None
    )
    if (job is None) != (out is None):
        raise LemmataError("--job and --out go together: the job, and the folder of the model")
    if job is not None and out is not None:
        with progress_display() as progress:
            report = _train_job(job, out, settings, progress)
    else:
        from lemmata.project import Project

        with showing_progress(Project(workspace)) as project:
            report = project.finetune(name, settings=settings)
    _print_encoder(report, name, as_json=as_json, out=out)


def reranker(
    name: Annotated[
        str, typer.Argument(help="Table [reranker.NAME], and name of the model.", metavar="NAME")
    ] = "reranker",
    workspace: WorkspaceDir = HERE,
    base: Annotated[str, typer.Option(help="An encoder or a cross-encoder to start from.", metavar="MODEL")] = "",
    records: Annotated[int, typer.Option(help="Training records to show; 0: as configured.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Train a cross-encoder that reranks hits and checks training data.

    Resumes from the last checkpoint.
    """
    from lemmata.project import Project

    settings = given(base=base or None, records=records or None)
    with showing_progress(Project(workspace)) as project:
        report = project.train_reranker(name, settings=settings)
    if not is_first_process():
        return
    if as_json:
        print_json(report)
        return
    console = open_console()
    if report.get("done_before"):
        console.print(UP_TO_DATE, style="dim")
    _print_notes(report)
    for measure, value in report["before"].items():
        console.print(
            f"{report['held_out']:,} held-out pairs, {measure}: {value:.3f} -> {report['after'][measure]:.3f}"
        )
    weight = report["weight"]
    if weight is not None:
        values = {row["weight"]: row[weight["measure"]] for row in weight["tried"]}
        best = values[weight["weight"]]
        console.print(
            f"weight {weight['weight']} beside {weight['retriever']}: {weight['measure']} {best:.3f},"
            f" without it {values[0.0]:.3f}, alone {values[1.0]:.3f} ({weight['queries']:,} held-out pairs)"
        )
    else:
        console.print(f"its weight in search is the default: {report.get('not_weighed', 'no held-out pairs')}")
    console.print(f"{report['pairs_per_second']:,.0f} pairs/s, {report['seconds']:.0f} s")
    if "not_exported" in report:
        console.print(f"not exported, so reranking needs torch: {report['not_exported']}")
    console.print(f"model: models/{name}; next: lemmata search TEXT --rerank 20")


def static(
    name: Annotated[str, typer.Argument(help="Table [static.NAME], and name of the model.", metavar="NAME")] = "static",
    workspace: WorkspaceDir = HERE,
    base: Annotated[str, typer.Option(help="A static encoder, or any other to take token vectors from.")] = "",
    as_json: AsJson = False,
) -> None:
    """Train a static encoder: token vectors without a model, for encoding in seconds.

    Resumes from the last checkpoint.
    """
    from lemmata.project import Project

    refuse_several("'lemmata train static' works")
    with showing_progress(Project(workspace)) as project:
        report = project.train_static(name, settings=given(base=base or None))
    _print_encoder(report, name, as_json=as_json)


def metric(
    workspace: WorkspaceDir = HERE,
    encoder: Annotated[str, typer.Option(help="Whose vectors to learn from; by default those of search.")] = "",
    epochs: Annotated[int, typer.Option(help="Largest number of epochs; 0: as configured.", min=0)] = 0,
    seed: Annotated[int | None, typer.Option(help="Random seed.", min=0)] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from links what is near; the retriever geodesic uses it if it helps.

    Resumes from the last checkpoint.
    """
    from lemmata.project import Project

    settings = given(epochs=epochs or None, seed=seed)
    with showing_progress(Project(workspace)) as project:
        report = project.train_metric(encoder=encoder, settings=settings)
    if not is_first_process():
        return
    if as_json:
        print_json(report)
        return
    console = open_console()
    if report.get("done_before"):
        console.print(UP_TO_DATE, style="dim")
    console.print(
        f"{report['links']:,} links, {report['epochs']} epochs, {report['seconds']:.0f} s; {report['measure']} of"
        f" {report['queries']:,} validation passages: {report['by_text']:.3f} by text, {report['by_metric']:.3f} by the"
        f" metric, p {report['p']:.4f}"
    )
    console.print(
        "kept: the retriever geodesic uses it, and 'lemmata evaluate --tune' fits its weight in auto"
        if report["kept"]
        else "not kept: it does not help here, and the retriever geodesic stays with lengths by text"
    )


def _print_encoder(report: dict[str, Any], name: str, *, as_json: bool, out: Path | None = None) -> None:
    """The report of an encoder's training, and where the model is: in the workspace, or in the folder `out`."""
    if not is_first_process():
        return
    if as_json:
        print_json(report)
        return
    _print_training(report)
    place = f"model: {out}" if out is not None else f"model: models/{name}; next: lemmata index --encoder {name}"
    open_console().print(place)


def _print_notes(report: dict[str, Any]) -> None:
    for note in report.get("notes", ()):
        open_console().print(f"out of date: {note}", style="yellow")


def _train_job(job: Path, out: Path, settings: dict[str, Any], progress: Any) -> dict[str, Any]:
    from lemmata.core.config import build, merged
    from lemmata.encode.load import AUTO, DEFAULT
    from lemmata.train.finetune import FinetuneOptions
    from lemmata.train.job import open_job
    from lemmata.train.train import train_job

    prepared = open_job(job).facts.get("options", {})
    options = build(FinetuneOptions, merged(prepared, settings), f"{job}")
    base = DEFAULT if options.base == AUTO else options.base  # a job of a workspace says which
    return train_job(job, base, out, options, progress)


def _print_training(report: dict[str, Any]) -> None:
    from rich.table import Table

    console = open_console()
    if report.get("done_before"):
        console.print(UP_TO_DATE, style="dim")
    _print_notes(report)
    table = Table(box=None, header_style="bold")
    for column in ("validation", "before", "after"):
        table.add_column(column, justify="left" if column == "validation" else "right")
    for measure, value in report["before"].items():
        table.add_row(measure, f"{value:.4f}", f"{report['after'].get(measure, float('nan')):.4f}")
    if report["before"]:
        console.print(table)
    step = f"best step {report['best_step']:,}" if report["best_step"] else "last step"
    console.print(
        f"{step}, {report['share']:.0%} of the tuned weights kept;"
        f" {report['records_per_second']:,.0f} records/s, {report['seconds']:.0f} s"
    )
    if "not_exported" in report:
        console.print(f"not exported, so searching needs torch: {report['not_exported']}")


def prepare(
    name: Annotated[str, typer.Argument(help="The table [finetune.NAME].", metavar="NAME")],
    folder: Annotated[Path, typer.Argument(help="The folder to write.", metavar="DIR")],
    workspace: WorkspaceDir = HERE,
    as_json: AsJson = False,
) -> None:
    """Write a training job that another machine can train."""
    from lemmata.project import Project

    refuse_several("'lemmata train prepare' works")
    with showing_progress(Project(workspace)) as project:
        report = project.prepare(name, folder)
    if as_json:
        print_json(report)
        return
    console = open_console()
    _print_notes(report)
    console.print(f"{report['texts']:,} texts, {report['tokens']:,} tokens")
    for kind in ("sets", "validations"):
        for name_of_part, number in report[kind].items():
            console.print(styled((kind, "dim"), f" {name_of_part}: {number:,}"))
    console.print(f"train it with: lemmata train finetune --job {folder} --out MODEL --base BASE")


def models(workspace: WorkspaceDir = HERE, as_json: AsJson = False) -> None:
    """List the trained models."""
    from lemmata.core.artefacts import models as model_artefacts
    from lemmata.core.artefacts import problems
    from lemmata.project import Project

    project = Project(workspace)
    manifests = project.models()
    damaged = list(problems(project, model_artefacts(project)))
    if as_json:
        print_json(manifests)
    else:
        _print_models(manifests, "" if damaged else "no models yet: lemmata train finetune")
    if damaged:
        raise LemmataError("; ".join(damaged))


def _print_models(manifests: dict[str, dict[str, Any]], if_none: str) -> None:
    console = open_console()
    for name, manifest in manifests.items():
        kept = "" if manifest["report"].get("kept", True) else " (not kept: worse than its base)"
        console.print(styled((name, "bold"), f" {manifest['verb']} of {manifest['options']['base']}", (kept, "dim")))
    if not manifests and if_none:
        console.print(if_none)


def run(
    workspace: WorkspaceDir = HERE,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show seconds, CPU seconds and peak memory of each stage.")
    ] = False,
    on: On = "",
    as_json: AsJson = False,
) -> None:
    """Run all stages of [run]: from sources to a measured model."""
    from lemmata.cli.profile import Profiler, profile_table
    from lemmata.core.workers import computing_on
    from lemmata.evaluate.report import as_json as report_as_json
    from lemmata.evaluate.report import terminal_table
    from lemmata.project import Project
    from lemmata.run import run as execute
    from lemmata.run import stage_table

    console = open_console()
    stages: dict[str, bool] = {}
    profiler = Profiler()

    def announce(stage: str, done: bool) -> None:
        stages[stage] = done
        profiler.begin(stage)
        if log.is_json:
            log.stage = f"run: {stage}"
            log.write("up to date" if done else "started")
        elif not as_json:
            console.print(f"{stage}{': up to date' if done else ' …'}", style="dim")

    project = Project(workspace)
    with showing_progress(project), computing_on(on, project.progress):
        reports = execute(project, announce=announce)
    profiled = profiler.end()
    log.stage = "run"
    if as_json:
        records = [report_as_json(report) for report in reports]
        measured = [stage._asdict() for stage in profiled]
        print_json({"reports": records, "profile": measured} if profile else records)
        return
    did = stage_table(project)
    for stage, done in stages.items():
        if did.get(stage):
            console.print(f"{stage:<{max(map(len, stages))}}  {'up to date' if done else 'done':<10}  {did[stage]}")
    for report in reports:
        console.print(terminal_table(report))
    console.print(f"results per query: {workspace / 'run'}/report-0.html")
    if profile:
        console.print(profile_table(profiled))
