"""The look of the HTML reports: page, tables and charts as inline SVG; pictures as files need matplotlib."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from lemmata.core.errors import require
from lemmata.core.files import writing

COLOURS = 6  # CSS classes c0 to c5
_COLOUR_STYLE = """
:root{color-scheme:light dark;--paper:#fdfdfb;--ink:#22262b;--quiet:#6b7280;--line:#e3e4e0;--note:#fff6dc;
--edge:#d9a400;--c0:#2f6db3;--c1:#c8641b;--c2:#2f8f6b;--c3:#9a4fa3;--c4:#a08400;--c5:#5b6b7a}
@media (prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e4e6e9;--quiet:#949ca8;--line:#2c3138;
--note:#2c2612;--edge:#b98f12;--c0:#6ea8ea;--c1:#f0955a;--c2:#63c7a0;--c3:#cf8fd8;--c4:#d8bd4a;--c5:#a3b1c0}}
"""
_SVG_STYLE = """
.grid,.axis,.mark,.curve,.outline{fill:none}
.grid{stroke:var(--line)}
.axis{stroke:var(--quiet)}
.mark{stroke:var(--edge);stroke-dasharray:4 3}
.outline{stroke:var(--ink);stroke-width:1.4}
.curve{stroke:currentColor;stroke-width:2;stroke-linejoin:round}
.band{fill:currentColor;opacity:.07}
.area{fill:currentColor;opacity:.12}
.bars{fill:currentColor;opacity:.8}
.dot,.cell{fill:currentColor}
.points{fill:currentColor;fill-opacity:.6;stroke:currentColor;stroke-opacity:.6}
.tick{fill:var(--quiet);font-size:11px}
.label{fill:var(--ink);font-size:11px}
.small,.inverse{fill:var(--ink);font-size:9.5px}
.inverse{fill:var(--paper)}
.head{fill:var(--ink);font-size:13px;font-weight:600}
.name{fill:currentColor;font-size:12.5px;font-weight:500}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}
.c5{color:var(--c5)}
"""
_STYLE = (
    _COLOUR_STYLE
    + _SVG_STYLE
    + """
*{box-sizing:border-box}
body{margin:0 auto;max-width:64rem;padding:3rem 1.5rem 5rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
h1{font-size:1.6rem;font-weight:600;margin:0}
h2{font-size:1.05rem;font-weight:600;margin:3rem 0 .75rem}
h3{font-size:.9rem;font-weight:600;margin:0 0 .25rem}
p{margin:.25rem 0}
figure{margin:0}
code{font:.8125rem/1.6 ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.quiet{color:var(--quiet);font-size:.875rem}
.note{background:var(--note);border-left:3px solid var(--edge);padding:.6rem .9rem;margin:1rem 0 0;
border-radius:0 4px 4px 0}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.35rem 1.5rem .35rem 0;text-align:left;vertical-align:top;white-space:nowrap}
th{font-weight:500;color:var(--quiet);border-bottom:1px solid var(--line)}
.n{text-align:right}
td.text{white-space:normal;overflow-wrap:anywhere}
.start:not(:first-child) td{border-top:1px solid var(--line)}
.best td,b{font-weight:650}
svg{display:block;width:100%;height:auto}
.interval{display:inline-block;width:140px;height:16px;vertical-align:-3px}
.key{display:inline-block;width:.6rem;height:.6rem;border-radius:50%;margin-right:.5rem;background:currentColor}
.pairs{display:grid;grid-template-columns:repeat(auto-fill,minmax(18rem,1fr));gap:2rem}
.pairs .tick{font-size:13px}
.drawn{margin:1rem 0}
.later{margin:2rem 0 .5rem}
.small-text{font-size:.8125rem;margin:0 0 .5rem}
.small-text code{font-size:.6875rem;color:var(--quiet)}
.maps{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:2rem}
.piece{display:inline-block;border:1px solid var(--line);border-radius:3px;padding:0 .25rem;margin:0 .15rem .15rem 0;
font:.8125rem/1.6 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
#queries{width:100%}
#queries td{border-bottom:1px solid var(--line)}
#queries td:nth-child(1){min-width:8rem;max-width:14rem}
#queries td:nth-child(2){min-width:14rem;max-width:28rem}
#queries button{all:unset;cursor:pointer}
#queries button:hover,#queries button:focus-visible{color:var(--ink);text-decoration:underline}
th[aria-sort=ascending] button:after{content:" ↑"}
th[aria-sort=descending] button:after{content:" ↓"}
@media print{body{max-width:none;padding:0}}
"""
)


# ---------------------------------------------------------------- page, tables, numbers


def number(value: float | None, digits: int) -> str:
    """A dash for no value, infinity and NaN."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def signed(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−") if math.isfinite(value) else "–"


def page(title: str, body: Iterable[str], script: str = "") -> str:
    """An HTML page that loads nothing from outside and follows the reader's light or dark mode."""
    policy = "default-src 'none'; style-src 'unsafe-inline'" + ("; script-src 'unsafe-inline'" if script else "")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(body)}"
        f"{f'<script>{script}</script>' if script else ''}</body></html>\n"
    )


def table(
    heads: Sequence[str],
    rows: Iterable[tuple[str, Sequence[str]]],
    *,
    numeric: Collection[int] = (),
    text: Collection[int] = (),
    name: str = "",
) -> str:
    """An HTML table; a row is its CSS class and its cells as HTML.

    Columns in `numeric` are right-aligned, those in `text` break into lines.
    """
    looks = dict.fromkeys(numeric, ' class="n"') | dict.fromkeys(text, ' class="text"')
    classes = [looks.get(column, "") for column in range(len(heads))]

    def line(tag: str, cells: Sequence[str], row_class: str = "") -> str:
        written = "".join(f"<{tag}{look}>{cell}</{tag}>" for look, cell in zip(classes, cells, strict=True))
        return f'<tr class="{row_class}">{written}</tr>' if row_class else f"<tr>{written}</tr>"

    body = "".join(line("td", cells, row_class) for row_class, cells in rows)
    identity = f' id="{name}"' if name else ""
    return f'<div class="wide"><table{identity}><thead>{line("th", heads)}</thead><tbody>{body}</tbody></table></div>'


# ---------------------------------------------------------------- line charts


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a chart; its numbers are finite."""

    points: Sequence[tuple[float, float]]
    name: str = ""  # written at the end of the curve, with the last value
    band: Sequence[float] = ()  # half the height of a shaded band at each point, or none
    colour: int = 0


@dataclass(frozen=True, slots=True)
class LineChart:
    """Curves over common axes; at least one curve has a point."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    x_range: tuple[float, float] | None = None  # None: from the points
    y_range: tuple[float, float] | None = None
    mark: tuple[float, str] | None = None  # x and label of a vertical line
    histogram: bool = False  # curves are shares of values: their areas are filled, and the last value says nothing


_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 760, 280, 56, 30, 232
_MOST_DOTS = 60  # points of a longer curve get no dots
_NAME_LENGTH = 18  # characters of a curve's name that fit beside the chart


def line_chart(chart: LineChart) -> str:
    """The chart as SVG."""
    points = [point for curve in chart.curves for point in curve.points]
    x_low, x_high = chart.x_range or _padded([x for x, _ in points])
    if x_low == x_high:
        x_low, x_high = _padded([x_low])
    y_low, y_high = chart.y_range or _padded([y for _, y in points])
    if y_low < 0 <= min(y for _, y in points):
        y_low = 0.0  # padding must not suggest that a loss can be negative
    right = 570 if any(curve.name for curve in chart.curves) else _WIDTH - 24

    def x_of(value: float) -> float:
        return _LEFT + (value - x_low) / (x_high - x_low) * (right - _LEFT)

    def y_of(value: float) -> float:
        return _BOTTOM - (min(max(value, y_low), y_high) - y_low) / (y_high - y_low) * (_BOTTOM - _TOP)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(chart.title)}">']
    for tick in _ticks(y_low, y_high):
        parts.append(_polyline([(_LEFT, y_of(tick)), (right, y_of(tick))], "grid"))
        parts.append(_text(_LEFT - 8, y_of(tick) + 4, _tick_label(tick), anchor="end"))
    for tick in _ticks(x_low, x_high):
        parts.append(_polyline([(x_of(tick), _BOTTOM), (x_of(tick), _BOTTOM + 4)], "axis"))
        parts.append(_text(x_of(tick), _BOTTOM + 18, _tick_label(tick), anchor="middle"))
    parts.append(_polyline([(_LEFT, _BOTTOM), (right, _BOTTOM)], "axis"))
    parts.append(_text((_LEFT + right) / 2, _BOTTOM + 38, chart.x_label, anchor="middle"))
    parts.append(_text(_LEFT, 12, chart.y_label))
    if chart.mark:
        x = x_of(chart.mark[0])
        parts.append(_polyline([(x, _BOTTOM), (x, _TOP)], "mark"))
        label_x, anchor = (x - 6, "end") if x > (_LEFT + right) / 2 else (x + 6, "start")
        parts.append(_text(label_x, _TOP - 4, chart.mark[1], anchor=anchor))
    curves = [curve for curve in chart.curves if curve.points]
    for curve in curves:
        parts += _curve_parts(curve, x_of, y_of, filled=chart.histogram)
    named = [curve for curve in curves if curve.name]
    heights = _spread([y_of(curve.points[-1][1]) for curve in named], min(16.0, (_BOTTOM - _TOP) / max(len(named), 1)))
    for curve, y in zip(named, heights, strict=True):
        name = curve.name if len(curve.name) <= _NAME_LENGTH else f"{curve.name[: _NAME_LENGTH - 1]}…"
        name += f" {curve.points[-1][1]:.3f}" if not chart.histogram else ""
        parts.append(_text(right + 10, y + 4, name, f"name c{curve.colour}"))
    return "".join([*parts, "</svg>"])


def _curve_parts(
    curve: Curve, x_of: Callable[[float], float], y_of: Callable[[float], float], *, filled: bool
) -> list[str]:
    parts = []
    if curve.band:
        upper = [(x_of(x), y_of(y + half)) for (x, y), half in zip(curve.points, curve.band, strict=True)]
        lower = [(x_of(x), y_of(y - half)) for (x, y), half in zip(curve.points, curve.band, strict=True)]
        parts.append(f'<polygon class="band c{curve.colour}" points="{_points([*upper, *reversed(lower)])}"/>')
    drawn = [(x_of(x), y_of(y)) for x, y in curve.points]
    if filled:
        area = [(drawn[0][0], _BOTTOM), *drawn, (drawn[-1][0], _BOTTOM)]
        parts.append(f'<polygon class="area c{curve.colour}" points="{_points(area)}"/>')
    parts.append(_polyline(drawn, f"curve c{curve.colour}"))
    if len(drawn) <= _MOST_DOTS and not filled:
        parts += [f'<circle class="dot c{curve.colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in drawn]
    return parts


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _polyline(points: Iterable[tuple[float, float]], look: str) -> str:
    return f'<polyline class="{look}" points="{_points(points)}"/>'


def _text(x: float, y: float, text: str, look: str = "tick", anchor: str = "start") -> str:
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _padded(values: Sequence[float]) -> tuple[float, float]:
    """The range of the values with 8 % on both sides; never empty."""
    low, high = min(values), max(values)
    padding = (high - low) * 0.08 or abs(low) * 0.1 or 1.0
    return low - padding, high + padding


def _ticks(low: float, high: float) -> list[float]:
    """Round values within the range, three to seven of them."""
    rough = (high - low) / 6
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    return [step * multiple for multiple in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _tick_label(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value + 0.0:.4g}"  # + 0.0 turns -0.0 into 0


def _spread(heights: Sequence[float], distance: float) -> list[float]:
    """Heights of labels, moved so that neighbours keep a distance and none falls below the axis."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    moved = list(heights)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + distance)
    limit = float(_BOTTOM)
    for label in reversed(order):
        moved[label] = min(moved[label], limit)
        limit = moved[label] - distance
    return moved


# ---------------------------------------------------------------- bars and intervals


def bar_chart(values: Sequence[float], label: str, positive: int, negative: int) -> str:
    """Bars around zero without gaps as SVG, in the order given; two colours by sign."""
    width, height = 360, 150
    reach = max(map(abs, values)) or 1.0
    middle, step = height / 2, width / len(values)
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">']
    for colour, bars in ((positive, [max(value, 0) for value in values]), (negative, [min(v, 0) for v in values])):
        path = "".join(
            f"V{middle - value / reach * (middle - 14):.1f}H{position * step:.1f}"
            for position, value in enumerate(bars, 1)
        )
        parts.append(f'<path class="bars c{colour}" d="M0 {middle}{path}V{middle}Z"/>')
    parts.append(_polyline([(0, middle), (width, middle)], "axis"))
    parts.append(_text(width, 11, f"+{reach:.2f}", anchor="end"))
    parts.append(_text(0, height - 3, f"−{reach:.2f}"))
    return "".join([*parts, "</svg>"])


def interval_mark(mean: float, interval: Sequence[float], scale: tuple[float, float], colour: int) -> str:
    """A small SVG for a table cell: the interval as a line and the mean as a dot, on a common scale."""
    start, end = scale
    low, centre, high = (
        6 + 128 * (value - start) / ((end - start) or 1.0) for value in (interval[0], mean, interval[1])
    )
    return (
        '<svg class="interval" viewBox="0 0 140 16" aria-hidden="true">'
        f"{_polyline([(6, 8), (134, 8)], 'grid')}{_polyline([(low, 8), (high, 8)], f'curve c{colour}')}"
        f'<circle class="dot c{colour}" cx="{centre:.1f}" cy="8" r="4"/></svg>'
    )


# ---------------------------------------------------------------- points


@dataclass(frozen=True, slots=True)
class Points:
    """One group of points; each group of a chart has a shape of its own beside its colour."""

    points: Sequence[tuple[float, float]]  # finite
    name: str = ""
    colour: int = 0


@dataclass(frozen=True, slots=True)
class ScatterChart:
    """Groups of points over common axes; at least one group has a point."""

    title: str
    groups: Sequence[Points]
    x_label: str = ""  # without labels there are no axes: only who is near whom can be read
    y_label: str = ""


_PANEL, _GAP, _LEGEND_LINE = 366, 28, 20
_MARKERS = (
    "m-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0-{d} 0z",  # disc
    "m-{r}-{r}h{d}v{d}h-{d}z",  # square
    "m0-{d}l{d} {s}h-{e}z",  # triangle
    "m0-{d}l{d} {d}l-{d} {d}l-{d}-{d}z",  # diamond
    "m-{d} 0h{e}m-{d}-{d}v{e}",  # plus
    "m-{r}-{r}l{d} {d}m0-{d}l-{d} {d}",  # cross
)


def scatter_charts(charts: Sequence[ScatterChart]) -> str:
    """The charts as one SVG, two in a row, over the legend of the groups of all."""
    columns = min(2, len(charts))
    rows = -(-len(charts) // columns)
    labelled = any(chart.x_label for chart in charts)
    left, height = (48 if labelled else 0), _PANEL * 3 // 4
    panel_width, panel_height = _PANEL + left, height + (72 if labelled else 34)
    width = columns * panel_width + (columns - 1) * _GAP
    names = {group.name: (index, group.colour) for chart in charts for index, group in enumerate(chart.groups)}
    names.pop("", None)
    per_line = max(1, width // 240)
    legend = -(-len(names) // per_line) * _LEGEND_LINE + 8
    total = rows * panel_height + legend
    titles = escape(", ".join(chart.title for chart in charts))
    parts = [_svg(width, total, titles)]
    for place, chart in enumerate(charts):
        corner = place % columns * (panel_width + _GAP) + left, place // columns * panel_height
        parts += [f'<g transform="translate({corner[0]},{corner[1]})">', *_panel_parts(chart, left, height), "</g>"]
    for place, (name, (index, colour)) in enumerate(names.items()):
        x, y = place % per_line * width / per_line + 8, rows * panel_height + place // per_line * _LEGEND_LINE + 12
        parts.append(_marks([(x, y)], index, colour, 3.2))
        parts.append(_text(x + 12, y + 4, _cut(name, 34), "label"))
    return "".join([*parts, "</svg>"])


def _panel_parts(chart: ScatterChart, left: int, height: int) -> list[str]:
    every = [point for group in chart.groups for point in group.points]
    x_low, x_high = _padded([x for x, _ in every])
    y_low, y_high = _padded([y for _, y in every])
    top = 26

    def x_of(value: float) -> float:
        return (value - x_low) / (x_high - x_low) * _PANEL

    def y_of(value: float) -> float:
        return top + height - (value - y_low) / (y_high - y_low) * height

    parts = [_text(0, 14, chart.title, "head")]
    if chart.x_label:
        for tick in _ticks(y_low, y_high):
            parts.append(_polyline([(0, y_of(tick)), (_PANEL, y_of(tick))], "grid"))
            parts.append(_text(-8, y_of(tick) + 4, _tick_label(tick), anchor="end"))
        for tick in _ticks(x_low, x_high):
            parts.append(_polyline([(x_of(tick), top + height), (x_of(tick), top + height + 4)], "axis"))
            parts.append(_text(x_of(tick), top + height + 17, _tick_label(tick), anchor="middle"))
        parts.append(_polyline([(0, top + height), (_PANEL, top + height)], "axis"))
        parts.append(_text(_PANEL / 2, top + height + 35, chart.x_label, anchor="middle"))
        parts.append(
            f'<text class="tick" transform="translate({12 - left},{top + height / 2}) rotate(-90)"'
            f' text-anchor="middle">{escape(chart.y_label)}</text>'
        )
    else:
        parts.append(f'<rect class="grid" x="0.5" y="{top}" width="{_PANEL - 1}" height="{height}" rx="4"/>')
    size = 3.4 if len(every) <= 150 else 2.6 if len(every) <= 800 else 1.8
    parts += [
        _marks([(x_of(x), y_of(y)) for x, y in group.points], index, group.colour, size)
        for index, group in enumerate(chart.groups)
        if group.points
    ]
    return parts


def _marks(points: Iterable[tuple[float, float]], shape: int, colour: int, size: float) -> str:
    """All points of a group as one path."""
    sizes = {"r": size, "d": 2 * size if shape % len(_MARKERS) in (0, 1, 5) else size * 1.3}
    sizes |= {"e": 2 * sizes["d"], "s": 1.75 * sizes["d"]}
    marker = _MARKERS[shape % len(_MARKERS)].format(**{name: f"{value:.2f}" for name, value in sizes.items()})
    path = "".join(f"M{x:.1f} {y:.1f}{marker}" for x, y in points)
    return f'<path class="points c{colour % COLOURS}" d="{path}"/>'


# ---------------------------------------------------------------- heat maps


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A matrix as colours: from the paper's at the lowest value to full at the highest."""

    title: str
    values: Sequence[Sequence[float]]  # row by row, finite; not empty
    rows: Sequence[str]  # labels
    columns: Sequence[str]
    scale: tuple[float, float]  # values below and above it have the colours of its ends
    scale_label: str = ""
    outlined: Collection[tuple[int, int]] = ()  # cells (row, column) with a frame
    colour: int = 0
    numbers: bool = False  # write each value into its cell, without the zero in front


_LEVELS = 24  # of colour
_LABEL_LENGTH = 44  # characters of a label


def heat_map(chart: HeatMap) -> str:
    """The heat map as SVG; cells of one colour are one path."""
    rows, columns = len(chart.values), len(chart.values[0])
    cell = 26 if chart.numbers else max(9, min(18, 640 // max(columns, 1)))
    row_labels = [_cut(label, _LABEL_LENGTH) for label in chart.rows]
    column_labels = [_cut(label, _LABEL_LENGTH // 2) for label in chart.columns]
    left = 12 + 6.2 * max(map(len, row_labels), default=0)
    upright = max(map(len, column_labels), default=0) > 2
    top = 30 + (6.2 * max(map(len, column_labels)) if upright else 16)
    width = max(left + columns * cell + 8, left + 140 + 6 * len(chart.scale_label), 7.5 * len(chart.title))
    height = top + rows * cell + 44
    low, high = chart.scale
    levels: dict[int, list[str]] = {}
    for row, values in enumerate(chart.values):
        for column, value in enumerate(values):
            share = (min(max(value, low), high) - low) / ((high - low) or 1.0)
            place = f"M{left + column * cell:.1f} {top + row * cell:.1f}h{cell}v{cell}h-{cell}z"
            levels.setdefault(round(share * _LEVELS), []).append(place)
    parts = [_svg(width, height, escape(chart.title)), _text(0, 14, chart.title, "head")]
    for level, places in sorted(levels.items()):
        look = f'class="cell c{chart.colour}" fill-opacity="{level / _LEVELS:.3f}"'
        parts.append(f'<path {look} d="{"".join(places)}"/>')
    edge = f'width="{columns * cell}" height="{rows * cell}"'
    parts.append(f'<rect class="grid" x="{left:.1f}" y="{top:.1f}" {edge}/>')
    for row, label in enumerate(row_labels):
        parts.append(_text(left - 6, top + (row + 0.5) * cell + 4, label, "label", "end"))
    for column, label in enumerate(column_labels):
        x = left + (column + 0.5) * cell
        if upright:
            place = f"translate({x + 4:.1f},{top - 6:.1f}) rotate(-90)"
            parts.append(f'<text class="label" transform="{place}">{escape(label)}</text>')
        else:
            parts.append(_text(x, top - 6, label, "label", "middle"))
    for row, column in chart.outlined:
        place = f'x="{left + column * cell + 0.7:.1f}" y="{top + row * cell + 0.7:.1f}"'
        parts.append(f'<rect class="outline" {place} width="{cell - 1.4:.1f}" height="{cell - 1.4:.1f}"/>')
    if chart.numbers:
        parts += _cell_numbers(chart, left, top, cell)
    return "".join([*parts, *_scale_parts(chart, left, top + rows * cell + 14), "</svg>"])


def _cell_numbers(chart: HeatMap, left: float, top: float, cell: float) -> list[str]:
    low, high = chart.scale
    return [
        _text(
            left + (column + 0.5) * cell,
            top + (row + 0.5) * cell + 3.5,
            f"{value:.2f}".replace("-", "−").replace("0.", ".").replace("1.00", "1"),
            "inverse" if value > low + 0.78 * (high - low) else "small",
            "middle",
        )
        for row, values in enumerate(chart.values)
        for column, value in enumerate(values)
    ]


def _scale_parts(chart: HeatMap, left: float, top: float) -> list[str]:
    """The key of the colours, below the matrix."""
    width, steps = 120.0, 12
    step = width / steps
    parts = [
        f'<rect class="cell c{chart.colour}" fill-opacity="{place / (steps - 1):.3f}" x="{left + place * step:.1f}"'
        f' y="{top:.1f}" width="{step + 0.2:.1f}" height="8"/>'
        for place in range(steps)
    ]
    parts.append(f'<rect class="grid" x="{left:.1f}" y="{top:.1f}" width="{width:.0f}" height="8"/>')
    parts.append(_text(left, top + 22, _tick_label(round(chart.scale[0], 2))))
    parts.append(_text(left + width, top + 22, _tick_label(round(chart.scale[1], 2)), anchor="end"))
    return [*parts, _text(left + width + 10, top + 8, chart.scale_label)]


def _svg(width: float, height: float, label: str) -> str:
    """The opening tag; drawn a little larger than its units, and never wider than the page. `label` is escaped."""
    style = f"max-width:{width * 1.15:.0f}px"
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" style="{style}" role="img" aria-label="{label}">'


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def svg_file(svg: str) -> str:
    """A chart as a file of its own, with the fonts and colours of the reports, light or dark as the reader's screen."""
    look = f'{_COLOUR_STYLE}{_SVG_STYLE}svg{{background:var(--paper);font-family:system-ui,"Segoe UI",sans-serif}}'
    opening, rest = _NOT_XML.sub("\ufffd", svg).split(">", 1)
    return f"{opening.replace('<svg ', _NAMESPACE, 1)}><style>{look}</style>{rest}\n"


_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # characters that XML forbids
_NAMESPACE = '<svg xmlns="http://www.w3.org/2000/svg" '


# ---------------------------------------------------------------- pictures


def write_picture(path: Path, charts: Sequence[LineChart]) -> None:
    """Write the charts below one another as PNG or SVG, by the suffix of the file; needs matplotlib."""
    figure = require("matplotlib.figure", "charts").Figure(
        figsize=(7.6, 2.8 * len(charts)), dpi=200, layout="constrained"
    )
    for axes, chart in zip(figure.subplots(len(charts), squeeze=False)[:, 0], charts, strict=True):
        for curve in chart.curves:
            xs, ys = [x for x, _ in curve.points], [y for _, y in curve.points]
            marker = "o" if len(xs) <= _MOST_DOTS else ""
            axes.plot(xs, ys, label=curve.name, color=f"C{curve.colour}", marker=marker, markersize=3)
        if chart.mark:
            axes.axvline(chart.mark[0], label=chart.mark[1], color="grey", linestyle="--", linewidth=1)
        axes.set_title(chart.title, loc="left", fontsize=10)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        axes.grid(axis="y", alpha=0.4)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=8, frameon=False)
    with writing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.removeprefix("."))
