"""Command: inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lemmata.cli.output import HERE, AsJson, WorkspaceDir, counted, open_console, print_json, showing_progress

_DIGITS = {"effective_rank": 1}  # of the other rows 3, as in the report
_ROWS = ("mean_cosine", "isotropy", "effective_rank", "uniformity", "alignment", "separation", "purity@10")


def inspect(
    encoders: Annotated[
        list[str] | None,
        typer.Argument(
            help="Encoders, the first one compared with the others; default: that of the index and its base.",
            metavar="[ENCODERS...]",
            show_default=False,
        ),
    ] = None,
    workspace: WorkspaceDir = HERE,
    out: Annotated[
        Path | None, typer.Option(help="Output folder; default: inspect in the workspace.", metavar="DIR")
    ] = None,
    document: Annotated[
        list[str] | None, typer.Option(help="Document on the map; repeat for more.", metavar="ID")
    ] = None,
    passage: Annotated[
        list[str] | None, typer.Option(help="Passage for cosines and attention; repeat for more.", metavar="ID")
    ] = None,
    sample: Annotated[int, typer.Option(help="Passages to sample.", min=10)] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Look inside encoders: tokens, norms, attention, space, and what training changed."""
    from lemmata.project import Project

    with showing_progress(Project(workspace)) as project:
        report = project.inspect(
            encoders or (),
            out,
            documents=tuple(document or ()),
            passages=tuple(passage or ()),
            sample=sample,
            seed=seed,
        )
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: dict[str, Any]) -> None:
    from rich.table import Table

    from lemmata.evaluate.charts import number

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in report["encoders"]:
        table.add_column(name, justify="right", overflow="fold")
    for row in _ROWS:
        values = [encoder[row] for encoder in report["encoders"].values()]
        if any(value is not None for value in values):
            cells = (number(value, _DIGITS.get(row, 3)) for value in values)
            table.add_row(row.replace("_", " "), *cells)
    console = open_console()
    console.print(table)
    for change in report["changes"]:
        [overlap] = [key for key in change if key.startswith("overlap@")]
        console.print(f"{change['before']} → {change['after']}: {overlap} {change[overlap]:.3f}")
    for note in (*report["notes"], *(note for encoder in report["encoders"].values() for note in encoder["notes"])):
        console.print(note, style="yellow")
    console.print(
        f"{report['report']}: {counted(report['sampled'], 'passage')}, {counted(len(report['figures']), 'figure')}",
        soft_wrap=True,
    )
