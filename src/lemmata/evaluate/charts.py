"""The look of the HTML reports: page, tables and charts as SVG, inline or as files."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

COLOURS = 6  # CSS classes c0 to c5
_LOOK = Path(__file__).with_name("charts.css")
_PAGE_LOOK = Path(__file__).with_name("report.css")


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
        f"<title>{escape(title)}</title><style>{_LOOK.read_text()}{_PAGE_LOOK.read_text()}</style></head><body>{''.join(body)}"
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


class _Axes(NamedTuple):
    """A rectangle in an SVG, and the values at its edges."""

    left: float
    right: float
    top: float
    bottom: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (self.right - self.left)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.bottom - (min(max(value, low), high) - low) / (high - low) * (self.bottom - self.top)

    def places(self, points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(self.x(x), self.y(y)) for x, y in points]

    def parts(self, x_label: str, y_label: str) -> list[str]:
        """Ticks and labels."""
        parts = [_text(self.left, self.top - 18, y_label)]
        for tick in _ticks(*self.y_range):
            parts.append(_polyline([(self.left, self.y(tick)), (self.right, self.y(tick))], "grid"))
            parts.append(_text(self.left - 8, self.y(tick) + 4, _tick_label(tick), anchor="end"))
        for tick in _ticks(*self.x_range):
            parts.append(_polyline([(self.x(tick), self.bottom), (self.x(tick), self.bottom + 4)], "axis"))
            parts.append(_text(self.x(tick), self.bottom + 18, _tick_label(tick), anchor="middle"))
        parts.append(_polyline([(self.left, self.bottom), (self.right, self.bottom)], "axis"))
        return [*parts, _text((self.left + self.right) / 2, self.bottom + 38, x_label, anchor="middle")]


def line_chart(chart: LineChart) -> str:
    """The chart as SVG."""
    points = [point for curve in chart.curves for point in curve.points]
    x_low, x_high = chart.x_range or _padded([x for x, _ in points])
    x_range = (x_low, x_high) if x_low < x_high else _padded([x_low])
    y_low, y_high = chart.y_range or _padded([y for _, y in points])
    if y_low < 0 <= min(y for _, y in points):
        y_low = 0.0  # padding must not suggest that a loss can be negative
    right = 570 if any(curve.name for curve in chart.curves) else _WIDTH - 24
    axes = _Axes(_LEFT, right, _TOP, _BOTTOM, x_range, (y_low, y_high))
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(chart.title)}">']
    parts += axes.parts(chart.x_label, chart.y_label)
    if chart.mark:
        x = axes.x(chart.mark[0])
        parts.append(_polyline([(x, _BOTTOM), (x, _TOP)], "mark"))
        label_x, anchor = (x - 6, "end") if x > (_LEFT + right) / 2 else (x + 6, "start")
        parts.append(_text(label_x, _TOP - 4, chart.mark[1], anchor=anchor))
    curves = [curve for curve in chart.curves if curve.points]
    for curve in curves:
        look, drawn = f"c{curve.colour}", axes.places(curve.points)
        if curve.band:
            band = list(zip(curve.points, curve.band, strict=True))
            upper = axes.places((x, y + half) for (x, y), half in band)
            lower = axes.places((x, y - half) for (x, y), half in reversed(band))
            parts.append(f'<polygon class="band {look}" points="{_points([*upper, *lower])}"/>')
        if chart.histogram:
            area = [(drawn[0][0], _BOTTOM), *drawn, (drawn[-1][0], _BOTTOM)]
            parts.append(f'<polygon class="area {look}" points="{_points(area)}"/>')
        parts.append(_polyline(drawn, f"curve {look}"))
        if len(drawn) <= _MOST_DOTS and not chart.histogram:
            parts += [f'<circle class="dot {look}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in drawn]
    named = [curve for curve in curves if curve.name]
    heights = _spread([axes.y(curve.points[-1][1]) for curve in named], min(16.0, (_BOTTOM - _TOP) / (len(named) or 1)))
    for curve, y in zip(named, heights, strict=True):
        last = "" if chart.histogram else f" {curve.points[-1][1]:.3f}"
        parts.append(_text(right + 10, y + 4, _cut(curve.name, _NAME_LENGTH) + last, f"name c{curve.colour}"))
    return "".join([*parts, "</svg>"])


def chart_column(charts: Sequence[LineChart]) -> str:
    """Charts below one another as one SVG."""
    places = (f'<svg y="{number * _HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" ' for number in range(len(charts)))
    drawn = [line_chart(chart).replace("<svg ", place, 1) for chart, place in zip(charts, places, strict=True)]
    label = ", ".join(chart.title for chart in charts)
    return "".join([_svg(_WIDTH, len(charts) * _HEIGHT, label), *drawn, "</svg>"])


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
    left, top = (48, 44) if labelled else (0, 26)
    panel_width, panel_height = _PANEL + left, _PANEL * 3 // 4 + top + (46 if labelled else 8)
    width = columns * panel_width + (columns - 1) * _GAP
    names = {group.name: (index, group.colour) for chart in charts for index, group in enumerate(chart.groups)}
    names.pop("", None)
    per_line = max(1, width // 240)
    total = rows * panel_height + -(-len(names) // per_line) * _LEGEND_LINE + 8
    parts = [_svg(width, total, ", ".join(chart.title for chart in charts))]
    for place, chart in enumerate(charts):
        x, y = place % columns * (panel_width + _GAP) + left, place // columns * panel_height
        points = [point for group in chart.groups for point in group.points]
        ranges = _padded([x for x, _ in points]), _padded([y for _, y in points])
        axes = _Axes(x, x + _PANEL, y + top, y + top + _PANEL * 3 // 4, *ranges)
        parts.append(_text(x, y + 14, chart.title, "head"))
        if chart.x_label:
            parts += axes.parts(chart.x_label, chart.y_label)
        else:
            parts.append(_rect("grid", x + 0.5, axes.top, _PANEL - 1, axes.bottom - axes.top, ' rx="4"'))
        size = 3.4 if len(points) <= 150 else 2.6 if len(points) <= 800 else 1.8
        for index, group in enumerate(chart.groups):
            if group.points:
                parts.append(_marks(axes.places(group.points), index, group.colour, size))
    for place, (name, (index, colour)) in enumerate(names.items()):
        x, y = place % per_line * width // per_line + 8, rows * panel_height + place // per_line * _LEGEND_LINE + 12
        parts.append(_marks([(x, y)], index, colour, 3.2))
        parts.append(_text(x + 12, y + 4, _cut(name, 34), "label"))
    return "".join([*parts, "</svg>"])


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
_KEY_STEPS = 12  # of colour, in its key
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
    low, high = chart.scale
    levels: dict[int, list[str]] = {}
    numbers: list[str] = []
    for row, values in enumerate(chart.values):
        for column, value in enumerate(values):
            share = (min(max(value, low), high) - low) / ((high - low) or 1.0)
            x, y = left + column * cell, top + row * cell
            levels.setdefault(round(share * _LEVELS), []).append(f"M{x:.1f} {y:.1f}h{cell}v{cell}h-{cell}z")
            if chart.numbers:
                written = f"{value:.2f}".replace("-", "−").replace("0.", ".").replace("1.00", "1")
                look = "inverse" if share > 0.78 else "small"
                numbers.append(_text(x + cell / 2, y + cell / 2 + 3.5, written, look, "middle"))
    parts = [_svg(width, top + rows * cell + 44, chart.title), _text(0, 14, chart.title, "head")]
    for level, places in sorted(levels.items()):
        look = f'class="cell c{chart.colour}" fill-opacity="{level / _LEVELS:.3f}"'
        parts.append(f'<path {look} d="{"".join(places)}"/>')
    parts.append(_rect("grid", left, top, columns * cell, rows * cell))
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
        parts.append(_rect("outline", left + column * cell + 0.7, top + row * cell + 0.7, cell - 1.4, cell - 1.4))
    key = top + rows * cell + 14  # of the colours, below the matrix
    for step in range(_KEY_STEPS):
        share = step / (_KEY_STEPS - 1)
        parts.append(_rect(f"cell c{chart.colour}", left + 10 * step, key, 10.2, 8, f' fill-opacity="{share:.3f}"'))
    key_width = 10 * _KEY_STEPS
    parts.append(_rect("grid", left, key, key_width, 8))
    parts.append(_text(left, key + 22, _tick_label(round(low, 2))))
    parts.append(_text(left + key_width, key + 22, _tick_label(round(high, 2)), anchor="end"))
    parts.append(_text(left + key_width + 10, key + 8, chart.scale_label))
    return "".join([*parts, *numbers, "</svg>"])


def _rect(look: str, x: float, y: float, width: float, height: float, more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{look}" {place}{more}/>'


def _svg(width: float, height: float, label: str) -> str:
    """The opening tag; drawn a little larger than its units, and never wider than the page."""
    style = f"max-width:{width * 1.15:.0f}px"
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" style="{style}" role="img" aria-label="{escape(label)}">'


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def svg_file(svg: str) -> str:
    """A chart as a file of its own, with the fonts and colours of the reports, light or dark as the reader's screen."""
    look = f'{_LOOK.read_text()}svg{{background:var(--paper);font-family:system-ui,"Segoe UI",sans-serif}}'
    opening, rest = _NOT_XML.sub("\ufffd", svg).split(">", 1)
    return f"{opening.replace('<svg ', _NAMESPACE, 1)}><style>{look}</style>{rest}\n"


_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # characters that XML forbids
_NAMESPACE = '<svg xmlns="http://www.w3.org/2000/svg" '
