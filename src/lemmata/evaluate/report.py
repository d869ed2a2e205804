"""One evaluation for people and programs: a table for the terminal, JSON, and one HTML file with plots.

Intervals are drawn with a generator of fixed seed: a report is a function of its values, and its three forms agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lemmata.evaluate.significance import Comparison, bootstrap
from lemmata.pages import STYLE
from lemmata.types import Mask

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Report", "as_html", "as_json", "terminal_table"]

Floats64 = npt.NDArray[np.float64]

_TEXT = 300  # characters of a query that the page shows


@dataclass(frozen=True)
class Report:
    """Everything that was measured in one evaluation; arrays follow the order of `queries`."""

    task: str
    queries: Sequence[str]  # ids
    texts: Mapping[str, str]  # of the queries, by id; may lack some
    retrievers: Mapping[str, Mapping[str, Floats64]]  # retriever: measure: (n,)
    groups: Mapping[str, Mask]  # "seen": (n,), ...; may be empty
    comparisons: Sequence[Comparison]
    recall: Mapping[str, Floats64]  # retriever: (n, depth), at each cut-off from 1; may be empty
    notes: Sequence[str]  # what a reader must know before the numbers
    command: str


def _mean(values: Floats64) -> float | None:
    return float(values.mean()) if len(values) else None


def _interval(values: Floats64) -> list[float] | None:
    return list(bootstrap(values, generator=np.random.default_rng(0))) if len(values) else None


def as_json(report: Report) -> dict[str, Any]:
    """The report as JSON values; a mean over no queries is null."""
    return {
        "task": report.task,
        "queries": len(report.queries),
        "retrievers": {
            retriever: {
                "measures": {name: _mean(values) for name, values in measures.items()},
                "ci": {name: _interval(values) for name, values in measures.items()},
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
        "notes": list(report.notes),
    }


# ---------------------------------------------------------------- words and numbers


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _range(interval: Sequence[float] | None) -> str:
    return "–" if interval is None else f"{interval[0]:.3f} – {interval[1]:.3f}"


def _measures(report: Report) -> list[str]:
    """Every measure that some retriever has, in the order of their first mention."""
    return list(dict.fromkeys(name for measures in report.retrievers.values() for name in measures))


def _best(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


# ---------------------------------------------------------------- the terminal


def terminal_table(report: Report) -> Table:
    """One block per measure, one line per retriever; notes stand above, comparisons below."""
    from rich.table import Table
    from rich.text import Text

    content = as_json(report)
    queries = f"{len(report.queries):,} {'query' if len(report.queries) == 1 else 'queries'}"
    title = Text(f"{report.task}, {queries}", style="bold")
    for note in report.notes:
        title.append(f"\n{note}", style="yellow")
    caption = Text("\n").join(
        Text(
            f"{one.first} − {one.second}, {one.measure}: {_signed(one.difference)} "
            f"({_signed(one.low)} to {_signed(one.high)}), p {_p(one.p)}, corrected {_p(one.p_corrected)}; "
            f"{one.wins} better, {one.ties} equal, {one.losses} worse"
        )
        for one in report.comparisons
    )
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    for name in ("measure", "retriever"):
        table.add_column(name)
    table.add_column("mean", justify="right")
    table.add_column("95 % interval", justify="right")
    for group, mask in report.groups.items():
        table.add_column(Text(f"{group} ({int(mask.sum()):,})"), justify="right")
    for measure in _measures(report):
        table.add_section()
        lines = {name: found for name, found in content["retrievers"].items() if measure in found["measures"]}
        best = _best(found["measures"][measure] for found in lines.values())
        for place, (name, found) in enumerate(lines.items()):
            mean = found["measures"][measure]
            table.add_row(
                measure if place == 0 else "",
                Text(name),
                Text(_number(mean), style="bold" if mean == best and len(lines) > 1 else ""),
                _range(found["ci"][measure]),
                *(_number(group["measures"][measure]) for group in found["groups"].values()),
            )
    return table


# ---------------------------------------------------------------- plots


def _points(xs: Iterable[float], ys: Iterable[float]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))


def _ticks(top: float) -> list[float]:
    """Round values from 0 to `top`, at most seven of them."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2):
        if top / step <= 6:
            break
    return [step * n for n in range(int(top / step + 1e-9) + 1)]


def _apart(places: Sequence[float], distance: float, floor: float) -> list[float]:
    """The places of labels, moved so that neighbours keep a distance and none sinks below the floor."""
    order = np.argsort(places)
    moved = [float(place) for place in places]
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + distance)
    limit = floor
    for place in reversed(order):
        moved[place] = min(moved[place], limit)
        limit = moved[place] - distance
    return moved


def _recall_plot(recall: Mapping[str, Floats64], colours: Mapping[str, int]) -> str:
    """Mean recall at every cut-off, with a band of 1.96 standard errors, each curve named at its end."""
    width, height, left, right, low, high = 760, 320, 44, 630, 280, 14
    depth = max(curves.shape[1] for curves in recall.values())
    means = {name: curves.mean(axis=0) for name, curves in recall.items()}
    errors = {name: 1.96 * curves.std(axis=0) / np.sqrt(len(curves)) for name, curves in recall.items()}
    top = min(1.0, max(0.05, *(float((means[name] + errors[name]).max()) for name in recall)))

    def across(cutoffs: Floats64) -> Floats64:
        return np.interp(cutoffs, [1, max(depth, 2)], [left, right])

    def up(values: Floats64) -> Floats64:
        return np.interp(values, [0, top], [low, high])

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Recall at each cut-off">']
    for tick in _ticks(top):
        y = low - tick / top * (low - high)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.2f}</text>')
    for cutoff in sorted({1, *(round(depth * part / 4) for part in range(1, 5))} - {0}):
        x = left + (cutoff - 1) / max(depth - 1, 1) * (right - left)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{low + 18}" text-anchor="middle">{cutoff}</text>')
    parts.append(f'<text class="tick" x="{(left + right) / 2}" y="{height - 6}" text-anchor="middle">results</text>')
    for name, mean in means.items():
        xs = across(np.arange(1, len(mean) + 1, dtype=np.float64))
        edge = _points([*xs, *xs[::-1]], [*up(mean + errors[name]), *up(mean - errors[name])[::-1]])
        parts.append(f'<polygon class="band c{colours[name]}" points="{edge}"/>')
        parts.append(f'<polyline class="curve c{colours[name]}" points="{_points(xs, up(mean))}"/>')
    ends = _apart([float(up(mean[-1:])[0]) for mean in means.values()], 16, low)
    for (name, mean), y in zip(means.items(), ends, strict=True):
        parts.append(
            f'<text class="name c{colours[name]}" x="{right + 8}" y="{y + 4:.1f}">{escape(name)} {mean[-1]:.2f}</text>'
        )
    return "".join([*parts, "</svg>"])


def _difference_plot(differences: Floats64, first: int, second: int, label: str) -> str:
    """Differences per query from the largest to the smallest; past 600 queries, evenly chosen ones."""
    width, height = 360, 150
    ordered = np.sort(differences)[::-1]
    if len(ordered) > 600:
        ordered = ordered[np.linspace(0, len(ordered) - 1, 600).round().astype(np.int64)]
    reach = float(np.abs(ordered).max()) or 1.0
    middle, step = height / 2, width / len(ordered)
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">']
    for colour, side in ((first, np.maximum(ordered, 0)), (second, np.minimum(ordered, 0))):
        path = "".join(
            f"V{middle - value / reach * (middle - 14):.1f}H{(place + 1) * step:.1f}"
            for place, value in enumerate(side)
        )
        parts.append(f'<path class="area c{colour}" d="M0 {middle}{path}V{middle}Z"/>')
    parts.append(f'<line class="axis" x1="0" x2="{width}" y1="{middle}" y2="{middle}"/>')
    parts.append(f'<text class="tick" x="{width}" y="11" text-anchor="end">+{reach:.2f}</text>')
    parts.append(f'<text class="tick" x="0" y="{height - 3}">−{reach:.2f}</text>')
    return "".join([*parts, "</svg>"])


def _whisker(mean: float, interval: Sequence[float], scale: tuple[float, float], colour: int) -> str:
    """The interval as a line and the mean as a dot, on the scale of the whole measure."""
    start, end = scale
    low, centre, high = (
        6 + 128 * (value - start) / ((end - start) or 1.0) for value in (interval[0], mean, interval[1])
    )
    return (
        '<svg class="whisker" viewBox="0 0 140 16" aria-hidden="true">'
        '<line class="grid" x1="6" x2="134" y1="8" y2="8"/>'
        f'<line class="curve c{colour}" x1="{low:.1f}" x2="{high:.1f}" y1="8" y2="8"/>'
        f'<circle class="dot c{colour}" cx="{centre:.1f}" cy="8" r="4"/></svg>'
    )


# ---------------------------------------------------------------- the page

_STYLE = (
    STYLE
    + """\
h3{font-size:.9rem;font-weight:600;margin:0 0 .25rem}p{margin:.25rem 0}.quiet,caption{color:var(--quiet);
font-size:.875rem}code{font:.8125rem/1.6 ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.note{background:var(--note);border-left:3px solid var(--edge);padding:.6rem .9rem;margin:1rem 0 0;
border-radius:0 4px 4px 0}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.35rem .75rem .35rem 0;text-align:left;vertical-align:top;white-space:nowrap}
th{font-weight:500;color:var(--quiet);border-bottom:1px solid var(--line)}
tbody tr.start td{border-top:1px solid var(--line)}tbody:first-of-type tr.start:first-child td{border-top:0}
.n{text-align:right;padding-right:1.25rem}
.best{font-weight:650}
.whisker{width:140px;height:16px;vertical-align:-3px}.key{display:inline-block;width:.6rem;height:.6rem;
border-radius:50%;margin-right:.5rem;background:currentColor}
svg{display:block;width:100%;height:auto}svg.whisker{display:inline-block}
.grid{stroke:var(--line)}.axis{stroke:var(--quiet)}.tick{fill:var(--quiet);font-size:11px}.name{font-size:12.5px;
fill:currentColor;font-weight:500}.curve{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}
.band{fill:currentColor;opacity:.07}.area,.dot{fill:currentColor}.area{opacity:.8}
.pairs .tick{font-size:13px}.pairs{display:grid;grid-template-columns:repeat(auto-fill,minmax(18rem,1fr));gap:2rem}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}
.c5{color:var(--c5)}
#each td{border-bottom:1px solid var(--line)}#each td.text{min-width:14rem;max-width:28rem}
#each td.id{max-width:14rem}#each .id,#each .text{white-space:normal;overflow-wrap:anywhere}
#each button{all:unset;cursor:pointer}#each button:hover,#each button:focus-visible{color:var(--ink);
text-decoration:underline}th[aria-sort=ascending] button:after{content:" ↑"}
th[aria-sort=descending] button:after{content:" ↓"}
@media print{body{max-width:none;padding:0}}
"""
)

_METHOD = (
    "Paired randomisation test, p corrected after Bonferroni; intervals from a bootstrap over the queries. "
    "Bold: below 0.05 after correction."
)

_SCRIPT = """
document.querySelectorAll('#each th').forEach((head, column) => {
  head.firstElementChild.addEventListener('click', () => {
    const down = head.getAttribute('aria-sort') !== 'descending', body = document.querySelector('#each tbody');
    document.querySelectorAll('#each th').forEach(other => other.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const key = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
    const compare = (a, b) => key(a).localeCompare(key(b), undefined, {numeric: true});
    const number = (a, b) => key(a) - key(b);
    const order = head.className === 'n' ? number : compare;
    body.append(...[...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)));
  });
});
"""


def _measure_table(report: Report, content: Mapping[str, Any], colours: Mapping[str, int]) -> str:
    heads = '<th>measure</th><th>retriever</th><th class="n">mean</th><th>95 % interval</th><th></th>'
    heads += "".join(
        f'<th class="n">{escape(group)} ({int(mask.sum()):,})</th>' for group, mask in report.groups.items()
    )
    rows = []
    for measure in _measures(report):
        lines = {name: one for name, one in content["retrievers"].items() if measure in one["measures"]}
        best = _best(one["measures"][measure] for one in lines.values())
        intervals = [one["ci"][measure] for one in lines.values() if one["ci"][measure]]
        scale = (min(low for low, _ in intervals), max(high for _, high in intervals)) if intervals else (0, 1)
        for place, (name, one) in enumerate(lines.items()):
            mean, interval = one["measures"][measure], one["ci"][measure]
            mark = " best" if mean == best and len(lines) > 1 else ""
            drawn = _whisker(mean, interval, scale, colours[name]) if interval else ""
            cells = "".join(
                f'<td class="n">{_number(group["measures"][measure])}</td>' for group in one["groups"].values()
            )
            start = '<tr class="start">' if place == 0 else "<tr>"
            rows.append(
                f"{start}<td>{escape(measure) if place == 0 else ''}</td>"
                f'<td><span class="key c{colours[name]}"></span>{escape(name)}</td>'
                f'<td class="n{mark}">{_number(mean)}</td><td>{_range(interval)}</td><td>{drawn}</td>{cells}</tr>'
            )
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _comparison_table(comparisons: Sequence[Comparison]) -> str:
    heads = (
        '<th>difference</th><th>measure</th><th class="n">mean</th><th>95 % interval</th><th class="n">p</th>'
        '<th class="n">p, corrected</th><th class="n">better</th><th class="n">equal</th><th class="n">worse</th>'
    )
    rows = "".join(
        f"<tr><td>{escape(one.first)} − {escape(one.second)}</td><td>{escape(one.measure)}</td>"
        f'<td class="n">{_signed(one.difference)}</td><td>{_signed(one.low)} to {_signed(one.high)}</td>'
        f'<td class="n">{_p(one.p)}</td>'
        f'<td class="n{" best" if one.p_corrected < 0.05 else ""}">{_p(one.p_corrected)}</td>'
        f'<td class="n">{one.wins:,}</td><td class="n">{one.ties:,}</td><td class="n">{one.losses:,}</td></tr>'
        for one in comparisons
    )
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _pair_plots(report: Report, colours: Mapping[str, int]) -> str:
    parts = []
    for one in report.comparisons:
        differences = report.retrievers[one.first][one.measure] - report.retrievers[one.second][one.measure]
        if not len(differences):
            continue
        label = f"{one.first} − {one.second}, {one.measure}"
        drawn = _difference_plot(differences, colours[one.first], colours[one.second], label)
        parts.append(
            f'<figure style="margin:0"><h3>{escape(label)}</h3>{drawn}<p class="quiet">{one.wins:,} better · '
            f"{one.ties:,} equal · {one.losses:,} worse</p></figure>"
        )
    return f'<div class="pairs">{"".join(parts)}</div>'


def _query_table(report: Report, measure: str) -> str:
    names = [name for name, measures in report.retrievers.items() if measure in measures]
    heads = '<th><button type="button">query</button></th><th><button type="button">text</button></th>'
    heads += "".join(f'<th class="n"><button type="button">{escape(name)}</button></th>' for name in names)
    heads += "".join(f'<th><button type="button">{escape(group)}</button></th>' for group in report.groups)
    columns = [report.retrievers[name][measure] for name in names]
    rows = []
    for place, query in enumerate(report.queries):
        cells = "".join(
            f'<td class="n" data-v="{float(column[place])!r}">{_number(float(column[place]))}</td>'
            for column in columns
        )
        cells += "".join(f"<td>{'yes' if mask[place] else ''}</td>" for mask in report.groups.values())
        text = report.texts.get(query, "")
        text = text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
        rows.append(f'<tr><td class="id">{escape(query)}</td><td class="text">{escape(text)}</td>{cells}</tr>')
    return (
        f'<div class="wide"><table id="each"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def as_html(report: Report) -> str:
    """One page that needs nothing from outside, in the colours that the reader's system prefers."""
    content = as_json(report)
    colours = {name: place % 6 for place, name in enumerate(dict.fromkeys([*report.retrievers, *report.recall]))}
    measures = _measures(report)
    main = report.comparisons[0].measure if report.comparisons else (measures[0] if measures else "")
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in report.notes)
    header = (
        f'<header><h1>{escape(report.task)}</h1><p class="quiet">{len(report.queries):,} queries · '
        f"{len(report.retrievers):,} retrievers</p><p><code>{escape(report.command)}</code></p>{notes}</header>"
    )
    body = [
        header,
        "<h2>Measures</h2>",
        _measure_table(report, content, colours),
    ]
    if report.comparisons:
        body += [
            "<h2>Comparisons</h2>",
            _comparison_table(report.comparisons),
            f'<p class="quiet">{_METHOD}</p>',
            "<h2>Differences per query</h2>",
            _pair_plots(report, colours),
        ]
    curves = {name: values for name, values in report.recall.items() if values.size}
    if curves:
        body += ["<h2>Recall</h2>", _recall_plot(curves, colours)]
    if main:
        body += [f"<h2>Every query, {escape(main)}</h2>", _query_table(report, main)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
        f"<title>{escape(report.task)}</title><style>{_STYLE}</style></head><body>{''.join(body)}"
        f"<script>{_SCRIPT}</script></body></html>\n"
    )
