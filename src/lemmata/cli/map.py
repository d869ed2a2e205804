"""Command: map."""

from __future__ import annotations

from typing import Any

from lemmata.cli.output import counted, line, perform


def map_() -> None:
    """Place all passages in the plane, for the map of the web page."""
    from lemmata.search.map import build_map

    perform(build_map, _print_map)


def _print_map(report: dict[str, Any]) -> None:
    number = counted(report["passages"], "passage")
    if not report["placed"]:
        line(f"the map of {number} is up to date")
        return
    line(f"{number} placed by the vectors of {report['encoder']}, in {report['seconds']:.1f} s")
    if report["method"] == "pca":
        line("by their two main directions only: pip install 'lemmata[geometry]' for a better map")
