"""The report of one evaluation: a table for the terminal, JSON, and an HTML page with charts.

Intervals use a fixed random seed, so the three forms agree and a report depends on its values only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import LemmataError
from lemmata.core.types import Mask
from lemmata.evaluate.charts import (
    COLOURS,
    Curve,
    LineChart,
    bar_chart,
    interval_mark,
    line_chart,
    number,
    page,
    signed,
    table,
)
from lemmata.evaluate.significance import Comparison, bootstrap, compare

if TYPE_CHECKING:
    from rich.console import Group


Floats64 = npt.NDArray[np.float64]
_TEXT_LENGTH = 300  # characters of a query on the page
_MOST_BARS = 600
_MOST_COMPARED = 6  # measures whose comparisons a terminal shows


@dataclass(frozen=True)
class Report:
    """All results of one evaluation; arrays follow the order of `queries`."""

    task: str
    queries: Sequence[str]  # ids
    texts: Mapping[str, str]  # query id: text; may lack some
    retrievers: Mapping[str, Mapping[str, Floats64]]  # retriever: measure: (n,)
    groups: Mapping[str, Mask]  # "seen": (n,), ...; may be empty
    comparisons: Sequence[Comparison]
    recall: Mapping[str, Floats64]  # retriever: (n, depth), at each cut-off from 1; may be empty
    notes: Sequence[str]  # shown above the numbers
    command: str
    missing: Mapping[str, int] = field(default_factory=dict)  # judged passages, judgments, queries not in the corpus
    encoder: str = ""  # of the dense retrievers
    trained_on: Mapping[str, int] = field(default_factory=dict)  # queries that the encoder knows from another split
    weights: Floats64 | None = None  # (n,) of the queries in means over all of them, 1 on average; None: all alike

    def weighed(self, values: Floats64) -> Floats64:
        """Values whose plain mean is the mean over all queries."""
        return values if self.weights is None else values * self.weights


def pooled(reports: Mapping[str, Report], seed: int = 0) -> Report:
    """One report of the same retrievers in several workspaces, by name: the mean is that over the workspaces (macro),
    whose own means are its groups."""
    several = list(reports.values())
    first = several[0]
    for name, report in reports.items():
        if list(report.retrievers) != list(first.retrievers):
            raise LemmataError(
                f"{name} has other retrievers ({', '.join(report.retrievers)}): name them by --retriever"
            )
    sizes = [len(report.queries) for report in several]
    owner = np.repeat(np.arange(len(several)), sizes)
    weights = np.repeat(sum(sizes) / (len(sizes) * np.maximum(sizes, 1)), sizes)
    results = {
        retriever: {name: np.concatenate([each.retrievers[retriever][name] for each in several]) for name in measures}
        for retriever, measures in first.retrievers.items()
    }
    weighed = {who: {name: values * weights for name, values in row.items()} for who, row in results.items()}
    depth = min((curves.shape[1] for report in several for curves in report.recall.values()), default=0)
    generator = np.random.default_rng(seed)
    compared = _measures(first) if len(results) > 1 else []
    notes = {f"{name}: {note}": None for name, report in reports.items() for note in report.notes}
    return Report(
        task=", ".join(dict.fromkeys(report.task for report in several)),
        queries=[f"{name}: {query}" for name, report in reports.items() for query in report.queries],
        texts={f"{name}: {query}": text for name, report in reports.items() for query, text in report.texts.items()},
        retrievers=results,
        groups={name: owner == number for number, name in enumerate(reports)},
        comparisons=[pair for name in compared for pair in compare(weighed, name, next(iter(results)), generator)],
        recall={name: np.concatenate([report.recall[name][:, :depth] for report in several]) for name in first.recall},
        notes=["the mean is that of the workspaces, whatever their number of queries", *notes],
        command=first.command,
        encoder=" / ".join(dict.fromkeys(report.encoder for report in several if report.encoder)),
        weights=weights,
    )


def _mean(values: Floats64) -> float | None:
    return float(values.mean()) if len(values) else None


def _interval(values: Floats64) -> list[float] | None:
    return list(bootstrap(values, generator=np.random.default_rng(0))) if len(values) else None


def as_json(report: Report) -> dict[str, Any]:
    """The report as JSON values; a mean over no queries is null."""
    return {
        "task": report.task,
        "encoder": report.encoder,
        "queries": len(report.queries),
        "retrievers": {
            retriever: {
                "measures": {name: _mean(report.weighed(values)) for name, values in measures.items()},
                "ci": {name: _interval(report.weighed(values)) for name, values in measures.items()},
                "groups": {
                    group: {
                        "queries": int(mask.sum()),
                        "measures": {name: _mean(values[mask]) for name, values in measures.items()},
                    }
                    for group, mask in report.groups.items()
                },
            }
            for retriever, measures in report.retrievers.items()
        },
        "comparisons": [comparison._asdict() for comparison in report.comparisons],
        "missing": dict(report.missing),
        "notes": list(report.notes),
        "trained_on": dict(report.trained_on),
    }


# ---------------------------------------------------------------- rows of both tables


class _Row(NamedTuple):
    """One retriever by one measure."""

    measure: str
    retriever: str
    mean: float | None
    interval: list[float] | None
    groups: list[float | None]
    first: bool  # of its measure
    best: bool  # of at least two


def _measures(report: Report) -> list[str]:
    return list(dict.fromkeys(name for measures in report.retrievers.values() for name in measures))


def _rows(report: Report) -> list[_Row]:
    """A block of rows for each measure; a retriever without the measure has no row."""
    rows = []
    for measure in _measures(report):
        results = {name: values[measure] for name, values in report.retrievers.items() if measure in values}
        means = {name: _mean(report.weighed(values)) for name, values in results.items()}
        best = max((mean for mean in means.values() if mean is not None), default=None)
        for position, (name, values) in enumerate(results.items()):
            groups = [_mean(values[mask]) for mask in report.groups.values()]
            is_best = means[name] == best and len(results) > 1
            interval = _interval(report.weighed(values))
            rows.append(_Row(measure, name, means[name], interval, groups, position == 0, is_best))
    return rows


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _range(interval: Sequence[float] | None) -> str:
    return "–" if interval is None else f"{interval[0]:.3f} – {interval[1]:.3f}"


def _group_heads(report: Report) -> list[str]:
    return [f"{group} ({int(mask.sum()):,})" for group, mask in report.groups.items()]


def terminal_table(report: Report) -> Group:
    """A block per measure and a row per retriever; notes above, comparisons below."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    queries = f"{len(report.queries):,} {'query' if len(report.queries) == 1 else 'queries'}"
    encoder = f", encoder {report.encoder}" if report.encoder else ""
    heading = [Text(f"{report.task}, {queries}{encoder}", style="bold")]
    heading += [Text(note, style="yellow") for note in report.notes]
    table = Table()
    table.add_column("measure")
    table.add_column("retriever")
    for head in ("mean", "95 % interval", *_group_heads(report)):
        table.add_column(Text(head), justify="right")
    for row in _rows(report):
        if row.first:
            table.add_section()
        table.add_row(
            row.measure if row.first else "",
            Text(row.retriever),
            Text(number(row.mean, 3), style="bold" if row.best else ""),
            _range(row.interval),
            *(number(mean, 3) for mean in row.groups),
        )
    measures = _measures(report)
    if len(measures) > _MOST_COMPARED:  # those of the first one of each level, then; the other forms have all
        measures = list({name.partition(" (")[2]: name for name in reversed(measures)}.values())
    comparisons = [
        Text(
            f"{pair.measure}, {pair.first} − {pair.second}: {signed(pair.difference, 3)} "
            f"[{signed(pair.low, 3)}, {signed(pair.high, 3)}], corrected p {_p(pair.p_corrected)}; "
            f"{pair.wins} better, {pair.ties} equal, {pair.losses} worse"
        )
        for pair in report.comparisons
        if pair.measure in measures
    ]
    return Group(*heading, table, *comparisons)


# ---------------------------------------------------------------- HTML

_METHOD = (
    "Paired randomisation test, p-values with Bonferroni correction; intervals by bootstrap over the queries. "
    "Bold: corrected p below 0.05."
)

_SORT_ON_CLICK = """
document.querySelectorAll('#queries th').forEach((head, column) => {
  head.firstElementChild.addEventListener('click', () => {
    const down = head.getAttribute('aria-sort') !== 'descending', body = document.querySelector('#queries tbody');
    document.querySelectorAll('#queries th').forEach(other => other.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const key = row => row.cells[column].querySelector('data')?.value ?? row.cells[column].textContent;
    const words = (a, b) => key(a).localeCompare(key(b), undefined, {numeric: true});
    const numbers = (a, b) => key(a) - key(b);
    const order = head.className === 'n' ? numbers : words;
    body.append(...[...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)));
  });
});
"""


def as_html(report: Report) -> str:
    """One page that loads nothing from outside."""
    names = dict.fromkeys([*report.retrievers, *report.recall])
    colours = {name: position % COLOURS for position, name in enumerate(names)}
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in report.notes)
    header = (
        f'<header><h1>{escape(report.task)}</h1><p class="quiet">{len(report.queries):,} queries · '
        f"{len(report.retrievers):,} retrievers{f' · encoder {escape(report.encoder)}' if report.encoder else ''}</p>"
        f"<p><code>{escape(report.command)}</code></p>{notes}</header>"
    )
    body = [header, "<h2>Measures</h2>", _measure_table(report, colours)]
    if report.comparisons:
        body += ["<h2>Comparisons</h2>", _comparison_table(report.comparisons), f'<p class="quiet">{_METHOD}</p>']
        body += ["<h2>Differences per query</h2>", _difference_charts(report, colours)]
    if any(curves.size for curves in report.recall.values()):
        body += ["<h2>Recall by number of results</h2>", line_chart(_recall_chart(report.recall, colours))]
    measures = [pair.measure for pair in report.comparisons[:1]] or _measures(report)
    if measures:
        body += [f"<h2>All queries, {escape(measures[0])}</h2>", _query_table(report, measures[0])]
    return page(report.task, body, _SORT_ON_CLICK)


def _measure_table(report: Report, colours: Mapping[str, int]) -> str:
    rows = _rows(report)
    limits: dict[str, list[float]] = {}  # of the intervals of each measure
    for row in rows:
        limits.setdefault(row.measure, []).extend(row.interval or [])
    lines = []
    for row in rows:
        drawn = ""
        if row.mean is not None and row.interval is not None:
            scale = (min(limits[row.measure]), max(limits[row.measure]))
            drawn = interval_mark(row.mean, row.interval, scale, colours[row.retriever])
        cells = [
            escape(row.measure) if row.first else "",
            f'<span class="key c{colours[row.retriever]}"></span>{escape(row.retriever)}',
            f"<b>{number(row.mean, 3)}</b>" if row.best else number(row.mean, 3),
            _range(row.interval),
            drawn,
            *(number(mean, 3) for mean in row.groups),
        ]
        lines.append(("start" if row.first else "", cells))
    heads = ["measure", "retriever", "mean", "95 % interval", "", *map(escape, _group_heads(report))]
    return table(heads, lines, numeric={2, *range(5, len(heads))})


def _comparison_table(comparisons: Sequence[Comparison]) -> str:
    heads = ["difference", "measure", "mean", "95 % interval", "p", "corrected p", "better", "equal", "worse"]
    rows = []
    for pair in comparisons:
        corrected = escape(_p(pair.p_corrected))
        cells = [
            f"{escape(pair.first)} − {escape(pair.second)}",
            escape(pair.measure),
            signed(pair.difference, 3),
            f"{signed(pair.low, 3)} to {signed(pair.high, 3)}",
            escape(_p(pair.p)),
            f"<b>{corrected}</b>" if pair.p_corrected < 0.05 else corrected,
            *(f"{count:,}" for count in (pair.wins, pair.ties, pair.losses)),
        ]
        rows.append(("", cells))
    return table(heads, rows, numeric={2, *range(4, len(heads))})


def _difference_charts(report: Report, colours: Mapping[str, int]) -> str:
    """For each comparison of the first two measures the differences, the largest first; evenly sampled if many."""
    figures = []
    drawn = list(dict.fromkeys(pair.measure for pair in report.comparisons))[:2]
    for pair in (pair for pair in report.comparisons if pair.measure in drawn):
        differences = report.retrievers[pair.first][pair.measure] - report.retrievers[pair.second][pair.measure]
        ordered = np.sort(differences)[::-1]
        if len(ordered) > _MOST_BARS:
            ordered = ordered[np.linspace(0, len(ordered) - 1, _MOST_BARS).round().astype(np.int64)]
        label = f"{pair.first} − {pair.second}, {pair.measure}"
        figures.append(
            f"<figure><h3>{escape(label)}</h3>"
            f"{bar_chart(ordered.tolist(), label, colours[pair.first], colours[pair.second])}"
            f'<p class="quiet">{pair.wins:,} better · {pair.ties:,} equal · {pair.losses:,} worse</p></figure>'
        )
    return f'<div class="pairs">{"".join(figures)}</div>'


def _recall_chart(recall: Mapping[str, Floats64], colours: Mapping[str, int]) -> LineChart:
    """Mean recall at each cut-off, with a band of 1.96 standard errors."""
    curves = []
    for name, values in recall.items():
        means = values.mean(axis=0).tolist()
        errors = (1.96 * values.std(axis=0) / np.sqrt(len(values))).tolist()
        curves.append(Curve(list(enumerate(means, 1)), name, errors, colours[name]))
    depth = max(len(curve.points) for curve in curves)
    top = max(mean + error for curve in curves for (_, mean), error in zip(curve.points, curve.band, strict=True))
    y_range = (0.0, min(1.0, max(0.05, top)))
    return LineChart("Recall by number of results", "results", "recall", curves, (1.0, depth), y_range)


def _query_table(report: Report, measure: str) -> str:
    columns = {name: values[measure] for name, values in report.retrievers.items() if measure in values}
    heads = [f'<button type="button">{escape(head)}</button>' for head in ("query", "text", *columns, *report.groups)]
    rows = []
    for position, query in enumerate(report.queries):
        text = report.texts.get(query, "")
        values = [float(column[position]) for column in columns.values()]
        cells = [
            escape(query),
            escape(text if len(text) <= _TEXT_LENGTH else f"{text[:_TEXT_LENGTH]}…"),
            *(f'<data value="{value!r}">{number(value, 3)}</data>' for value in values),
            *("yes" if mask[position] else "" for mask in report.groups.values()),
        ]
        rows.append(("", cells))
    return table(heads, rows, numeric=range(2, 2 + len(columns)), text={0, 1}, name="queries")
