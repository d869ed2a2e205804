"""Command: adapt."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Option

from lemmata.cli.output import (
    Budget,
    counted,
    line,
    open_console,
    opened,
    print_report,
    read_budget,
    showing_progress,
    table,
)


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
