"""Command: map."""

from __future__ import annotations

from typing import Annotated

import typer

from lemmata.cli.output import HERE, AsJson, WorkspaceDir, counted, open_console, print_json, showing_progress


def map_(
    workspace: WorkspaceDir = HERE,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Place all passages in the plane, for the map of the web page."""
    from lemmata.project import Project

    with showing_progress(Project(workspace)) as project:
        report = project.map(seed=seed)
    if as_json:
        print_json(report)
        return
    console = open_console()
    number = counted(report["passages"], "passage")
    if not report["placed"]:
        console.print(f"the map of {number} is up to date")
        return
    console.print(f"{number} placed by the vectors of {report['encoder']}, in {report['seconds']:.1f} s")
    if report["method"] == "pca":
        console.print("by their two main directions only: pip install 'lemmata[geometry]' for a better map")
