"""The report of a training run: its history on disk, an HTML page, and the curves as a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from html import escape
from pathlib import Path
from typing import Any

from lemmata.core.files import write_atomically
from lemmata.evaluate.charts import COLOURS, Curve, LineChart, chart_column, line_chart, number, page, svg_file, table

CURVES = "curves.svg"  # beside the report
_MOST_POINTS = 400  # of one curve; more are averaged


@dataclass(frozen=True, slots=True)
class Point:
    """Scores of one average of the trained weights and the base weights."""

    share: float  # of the trained weights, 0 to 1
    domain: float
    general: float


@dataclass(slots=True)
class History:
    """The record of a training run."""

    losses: list[tuple[int, float]] = field(default_factory=list)  # (step, loss)
    rates: list[tuple[int, float]] = field(default_factory=list)  # (step, learning rate)
    validations: list[tuple[int, dict[str, float]]] = field(default_factory=list)  # (step, {measure: value})
    best_step: int | None = None  # the step whose weights were chosen
    sweep: list[Point] = field(default_factory=list)
    share: float | None = None  # chosen from the sweep
    options: dict[str, Any] = field(default_factory=dict)
    sets: dict[str, int] = field(default_factory=dict)  # name: records
    seconds: float = 0.0
    pairs_per_second: float = 0.0
    name: str = ""

    @classmethod
    def from_log(cls, records: Sequence[Mapping[str, Any]]) -> History:
        """Losses, learning rates and validations from the log of a training loop."""
        trained = [record for record in records if "loss" in record]
        measured = [
            (record["step"], {name.removeprefix("eval_"): record[name] for name in record if name.startswith("eval_")})
            for record in records
        ]
        return cls(
            [(record["step"], record["loss"]) for record in trained],
            [(record["step"], record["learning_rate"]) for record in trained],
            [(step, values) for step, values in measured if values],
        )


def json_value(value: Any) -> Any:
    """`value` as JSON allows it: records become objects, infinity and NaN become null."""
    if hasattr(value, "__dataclass_fields__"):
        return json_value(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def write_history(path: Path, history: History) -> None:
    write_atomically(path, (json.dumps(json_value(history), ensure_ascii=False, indent=1) + "\n").encode())


def training_report(history: History, folder: Path) -> None:
    """Write report.html, and curves.svg if there are any, into a folder."""
    charts = _charts(history)
    (folder / CURVES).unlink(missing_ok=True)  # it may show an earlier run
    if charts:
        write_atomically(folder / CURVES, svg_file(chart_column(charts)).encode("utf-8", "replace"))
    write_atomically(folder / "report.html", _page(history, charts).encode("utf-8", "replace"))


# ---------------------------------------------------------------- charts


def _charts(history: History) -> list[LineChart]:
    """The charts that have at least one point."""
    steps = [step for step, _ in [*history.losses, *history.rates, *history.validations]]
    x_range = (float(min(steps)), float(max(steps))) if steps else None
    mark = None if history.best_step is None else (float(history.best_step), f"chosen: step {history.best_step:,}")
    validations = [
        Curve(
            _drawable([(step, values[measure]) for step, values in history.validations if measure in values]),
            measure,
            colour=index % COLOURS,
        )
        for index, measure in enumerate(_measures(history))
    ]
    charts = [
        LineChart("Loss", "step", "loss", [Curve(_drawable(history.losses))], x_range, mark=mark),
        LineChart("Learning rate", "step", "learning rate", [Curve(_drawable(history.rates))], x_range, mark=mark),
        LineChart("Validation", "step", "value", validations, x_range, mark=mark),
    ]
    return [chart for chart in charts if any(curve.points for curve in chart.curves)]


def _measures(history: History) -> list[str]:
    return list(dict.fromkeys(measure for _, values in history.validations for measure in values))


def _drawable(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The finite points; if there are more than `_MOST_POINTS`, means of as many neighbours each."""
    finite = [(x, y) for x, y in points if math.isfinite(y)]
    size = max(1, math.ceil(len(finite) / _MOST_POINTS))
    groups = [finite[start : start + size] for start in range(0, len(finite), size)]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]


# ---------------------------------------------------------------- page


def _page(history: History, charts: Sequence[LineChart]) -> str:
    title = f"Training of {history.name}" if history.name else "Training"
    body = [f'<header><h1>{escape(title)}</h1><p class="quiet">{_summary(history)}</p>']
    body += [f'<p class="note">{note}</p>' for note in _notes(history)]
    body.append("</header>")
    for chart in charts:
        body += [f"<h2>{chart.title}</h2>", line_chart(chart)]
    if history.validations:
        measures = _measures(history)
        rows = [
            (
                "best" if step == history.best_step else "",
                [f"{step:,}", *(number(values.get(measure), 4) for measure in measures)],
            )
            for step, values in history.validations
        ]
        body.append(table(["step", *map(escape, measures)], rows, numeric=range(1, len(measures) + 1)))
    if history.sweep:
        rows = [
            (
                "best" if point.share == history.share else "",
                [f"{point.share:g}", number(point.domain, 4), number(point.general, 4)],
            )
            for point in sorted(history.sweep, key=lambda point: point.share)
        ]
        heads = ["share of the trained weights", "domain", "general"]
        body += ["<h2>Average with the base weights</h2>", table(heads, rows, numeric={1, 2})]
    if history.sets:
        rows = [("", [escape(name), f"{records:,}"]) for name, records in history.sets.items()]
        body += ["<h2>Training sets</h2>", table(["set", "records"], rows, numeric={1})]
    if history.options:
        options = json_value(history.options)
        rows = [("", [escape(key), escape(json.dumps(options[key], ensure_ascii=False))]) for key in options]
        body += ["<h2>Options</h2>", table(["option", "value"], rows, text={1})]
    return page(title, body)


def _summary(history: History) -> str:
    steps = max((step for step, _ in [*history.losses, *history.validations]), default=0)
    parts = [f"{steps:,} steps"]
    if history.seconds:
        parts.append(str(timedelta(seconds=round(history.seconds))))
    if history.pairs_per_second:
        parts.append(f"{history.pairs_per_second:,.0f} pairs per second")
    if history.best_step is not None:
        parts.append(f"weights of step {history.best_step:,}")
    if history.share is not None:
        parts.append(f"averaged: {history.share:g} trained, {1 - history.share:g} base")
    return " · ".join(parts)


def _notes(history: History) -> list[str]:
    not_finite = [step for step, loss in history.losses if not math.isfinite(loss)]
    notes = []
    if not_finite:
        notes.append(
            f"The loss was not finite at {len(not_finite):,} of {len(history.losses):,} steps, first at step"
            f" {not_finite[0]:,}. These steps are not drawn."
        )
    if history.best_step == 0:
        notes.append("No step was better than the base model on validation, so the model has the base weights.")
    return notes
