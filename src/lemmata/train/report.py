"""How a training run went: its history on disk, one HTML page that needs nothing from outside, and its curves as PNG.

The charts are drawn once, on a surface that is either SVG or an image. Text in an image needs a font, so the image is
only drawn where Pillow is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from lemmata.files import write_atomically
from lemmata.pages import STYLE

__all__ = ["History", "Point", "plain", "training_report", "write_history"]

_POINTS = 400  # of one curve; more are averaged, since a page is no wider


@dataclass(frozen=True, slots=True)
class Point:
    """One mixture of the trained weights with the base's: how good it is at home and elsewhere."""

    share: float  # of the trained weights, 0 to 1
    domain: float
    general: float


@dataclass(slots=True)
class History:
    """What happened in a run so far; a trainer appends to it, and a resumed one goes on with it."""

    losses: list[tuple[int, float]] = field(default_factory=list)  # (step, loss)
    rates: list[tuple[int, float]] = field(default_factory=list)  # (step, learning rate)
    validations: list[tuple[int, dict[str, float]]] = field(default_factory=list)  # (step, {measure: value})
    best_step: int | None = None  # whose weights were kept
    sweep: list[Point] = field(default_factory=list)
    share: float | None = None  # the one that was chosen from the sweep
    options: dict[str, Any] = field(default_factory=dict)
    sets: dict[str, int] = field(default_factory=dict)  # name: records
    seconds: float = 0.0
    pairs_per_second: float = 0.0
    name: str = ""

    @classmethod
    def from_log(cls, entries: Iterable[Mapping[str, Any]]) -> History:
        """What the trainer of transformers noted (`log_history`); of a step noted twice, the later entry."""
        parts: dict[str, dict[int, Any]] = {"loss": {}, "learning_rate": {}, "eval": {}}
        for entry in entries:
            step = int(entry.get("step", 0))
            for name in ("loss", "learning_rate"):
                if name in entry:
                    parts[name][step] = float(entry[name])
            values = {
                name.removeprefix("eval_"): float(value)
                for name, value in entry.items()
                if name.startswith("eval_") and not name.endswith(("_runtime", "_per_second"))
            }
            if values:
                parts["eval"][step] = values
        losses, rates, validations = (sorted(part.items(), key=lambda item: item[0]) for part in parts.values())
        return cls(losses=losses, rates=rates, validations=validations)


# ---------------------------------------------------------------- disk


def plain(value: Any) -> Any:
    """JSON values: records as objects, numbers that are not finite as null."""
    if hasattr(value, "__dataclass_fields__"):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def write_history(path: Path, history: History) -> None:
    write_atomically(path, (json.dumps(plain(history), ensure_ascii=False, indent=1) + "\n").encode())


# ---------------------------------------------------------------- charts


@dataclass(frozen=True, slots=True)
class _Curve:
    name: str
    points: Sequence[tuple[float, float]]
    labels: Sequence[str] = ()  # one for each point, or none


@dataclass(frozen=True, slots=True)
class _Chart:
    title: str
    across: str  # what the axes say
    up: str
    curves: Sequence[_Curve]
    span: tuple[float, float] | None = None  # of the axis across; None: as the points are
    mark: tuple[float, str] | None = None  # an upright line, and what it says
    chosen: int | None = None  # point that stands out


class _Surface(Protocol):
    """What a chart is drawn on; units are those of the page, y grows downwards."""

    def line(self, points: Sequence[tuple[float, float]], look: str) -> None: ...
    def dot(self, x: float, y: float, radius: float, look: str) -> None: ...
    def text(self, x: float, y: float, words: str, look: str, anchor: str = "start") -> None: ...


_WIDTH, _HEIGHT, _LEFT, _RIGHT, _LOW, _HIGH = 760, 280, 56, 560, 232, 30
_LETTERS = 18  # of a curve's name that fit beside it with a value


def _charts(history: History) -> list[_Chart]:
    """Those for which there is something to draw."""
    steps = [step for step, _ in [*history.losses, *history.rates, *history.validations]]
    span = (float(min(steps)), float(max(steps))) if steps else None
    mark = None if history.best_step is None else (float(history.best_step), f"chosen: step {history.best_step:,}")
    measures = dict.fromkeys(name for _, values in history.validations for name in values)
    validations = [
        _Curve(name, [(step, values[name]) for step, values in history.validations if name in values])
        for name in measures
    ]
    sweep = sorted(history.sweep, key=lambda point: point.share)
    sweep = [point for point in sweep if math.isfinite(point.domain) and math.isfinite(point.general)]
    chosen = next((place for place, point in enumerate(sweep) if point.share == history.share), None)
    labels = [f"{point.share:g}" for point in sweep]
    trade = _Curve("", [(point.domain, point.general) for point in sweep], labels)
    charts = [
        _Chart("Loss", "step", "loss", [_Curve("", history.losses)], span, mark),
        _Chart("Learning rate", "step", "rate", [_Curve("", history.rates)], span, mark),
        _Chart("Validation", "step", "measure", validations, span, mark),
        _Chart("Averaging", "domain", "general, by share of the trained weights", [trade], chosen=chosen),
    ]
    return [chart for chart in charts if any(_finite(curve) for curve in chart.curves)]


def _finite(curve: _Curve) -> list[tuple[float, float]]:
    return [(x, y) for x, y in curve.points if math.isfinite(x) and math.isfinite(y)]


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `_POINTS` points, each the mean of as many neighbours."""
    size = math.ceil(len(points) / _POINTS)
    groups = [points[start : start + size] for start in range(0, len(points), max(size, 1))]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]


def _range(values: Sequence[float], room: float) -> tuple[float, float]:
    """From the least to the greatest, with room on both sides; never without width."""
    low, high = min(values), max(values)
    reach = (high - low) * room or abs(low) * 0.1 or 1.0
    return low - reach, high + reach


def _ticks(low: float, high: float) -> list[float]:
    """Round values within the range, three to seven of them."""
    rough = (high - low) / 6
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    return [step * place for place in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _tick(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value + 0.0:.4g}"  # + 0.0: no tick is called -0


def _apart(places: Sequence[float], distance: float) -> list[float]:
    """Places of labels, moved so that neighbours keep a distance and none sinks below the axis."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + distance)
    limit = float(_LOW)
    for place in reversed(order):
        moved[place] = min(moved[place], limit)
        limit = moved[place] - distance
    return moved


def _draw(surface: _Surface, chart: _Chart) -> None:
    curves = [_finite(curve) if curve.labels else _thinned(_finite(curve)) for curve in chart.curves]
    points = [point for curve in curves for point in curve]
    left, right = chart.span or _range([x for x, _ in points], 0.08)
    if left == right:
        left, right = _range([left], 0)
    low, high = _range([y for _, y in points], 0.08)
    if low < 0 <= min(y for _, y in points):
        low = 0.0  # room below must not suggest that a loss can be negative

    def place(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + (x - left) / (right - left) * (_RIGHT - _LEFT)
        return across, _LOW - (y - low) / (high - low) * (_LOW - _HIGH)

    for tick in _ticks(low, high):
        _, y = place(left, tick)
        surface.line([(_LEFT, y), (_RIGHT, y)], "grid")
        surface.text(_LEFT - 8, y + 4, _tick(tick), "tick", "end")
    for tick in _ticks(left, right):
        x, _ = place(tick, low)
        surface.line([(x, _LOW), (x, _LOW + 4)], "axis")
        surface.text(x, _LOW + 18, _tick(tick), "tick", "middle")
    surface.line([(_LEFT, _LOW), (_RIGHT, _LOW)], "axis")
    surface.text((_LEFT + _RIGHT) / 2, _LOW + 38, chart.across, "tick", "middle")
    surface.text(_LEFT, 12, chart.up, "tick")
    if chart.mark:
        x, _ = place(chart.mark[0], low)
        surface.line([(x, _LOW), (x, _HIGH)], "mark")
        late = x > (_LEFT + _RIGHT) / 2
        surface.text(x - 6 if late else x + 6, _HIGH - 4, chart.mark[1], "tick", "end" if late else "start")
    ends = []
    for number, (curve, shown) in enumerate(zip(chart.curves, curves, strict=True)):
        if not shown:
            continue
        look = f"c{number % 6}"
        drawn = [place(x, y) for x, y in shown]
        surface.line(drawn, look)
        for position, (x, y) in enumerate(drawn if len(drawn) <= 60 else ()):
            surface.dot(x, y, 6 if position == chart.chosen else 3, look)
            if curve.labels:
                surface.text(x, y - 9, curve.labels[position], "tick", "middle")
        name = curve.name if len(curve.name) <= _LETTERS else f"{curve.name[: _LETTERS - 1]}…"
        if name:
            ends.append((drawn[-1][1], f"{name} {shown[-1][1]:.3f}", look))
    distance = min(16.0, (_LOW - _HIGH) / max(len(ends), 1))
    for y, (_, name, look) in zip(_apart([y for y, _, _ in ends], distance), ends, strict=True):
        surface.text(_RIGHT + 10, y + 4, name, f"name {look}")


# ---------------------------------------------------------------- two surfaces


class _Svg:
    def __init__(self, label: str) -> None:
        self._parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">']

    def line(self, points: Sequence[tuple[float, float]], look: str) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        look = f"curve {look}" if look.startswith("c") else look
        self._parts.append(f'<polyline class="{look}" points="{path}"/>')

    def dot(self, x: float, y: float, radius: float, look: str) -> None:
        self._parts.append(f'<circle class="dot {look}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>')

    def text(self, x: float, y: float, words: str, look: str, anchor: str = "start") -> None:
        self._parts.append(
            f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def finish(self) -> str:
        return "".join([*self._parts, "</svg>"])


_COLOURS = {  # the page's, in its light form
    "grid": "#e3e4e0",
    "axis": "#6b7280",
    "tick": "#6b7280",
    "mark": "#d9a400",
    "title": "#22262b",
    "c0": "#2f6db3",
    "c1": "#c8641b",
    "c2": "#2f8f6b",
    "c3": "#9a4fa3",
    "c4": "#a08400",
    "c5": "#5b6b7a",
}
_SCALE = 2  # pixels for one unit of the page


class _Picture:
    """A part of an image, as high as one chart."""

    def __init__(self, drawing: Any, fonts: Mapping[str, Any], top: float) -> None:
        self._drawing, self._fonts, self._top = drawing, fonts, top

    def line(self, points: Sequence[tuple[float, float]], look: str) -> None:
        thick = _SCALE * (2 if look.startswith("c") else 1)
        self._drawing.line([self._pixel(x, y) for x, y in points], fill=_COLOURS[look], width=thick, joint="curve")

    def dot(self, x: float, y: float, radius: float, look: str) -> None:
        corners = [self._pixel(x - radius, y - radius), self._pixel(x + radius, y + radius)]
        self._drawing.ellipse(corners, fill=_COLOURS[look])

    def text(self, x: float, y: float, words: str, look: str, anchor: str = "start") -> None:
        kind, colour = look.split()[0], look.split()[-1]
        side = {"start": "ls", "middle": "ms", "end": "rs"}[anchor]  # on the base line, as in SVG
        self._drawing.text(self._pixel(x, y), words, fill=_COLOURS[colour], font=self._fonts[kind], anchor=side)

    def _pixel(self, x: float, y: float) -> tuple[float, float]:
        return x * _SCALE, (y + self._top) * _SCALE


def _png(charts: Sequence[_Chart]) -> bytes:
    image_module, draw_module, font_module = (
        importlib.import_module(f"PIL.{name}") for name in ("Image", "ImageDraw", "ImageFont")
    )
    sizes = {"tick": 11.0, "name": 12.5, "title": 14.0}
    fonts = {look: font_module.load_default(size * _SCALE) for look, size in sizes.items()}
    margin, head = 16, 28  # above each chart its title
    size = (_WIDTH * _SCALE, (2 * margin + len(charts) * (_HEIGHT + head)) * _SCALE)
    image = image_module.new("RGB", size, "#fdfdfb")
    drawing = draw_module.Draw(image)
    for number, chart in enumerate(charts):
        top = margin + number * (_HEIGHT + head) + head
        surface = _Picture(drawing, fonts, top)
        surface.text(_LEFT, -10, chart.title, "title")
        _draw(surface, chart)
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True)
    return stream.getvalue()


# ---------------------------------------------------------------- the page

_STYLE = (
    STYLE
    + """\
p{margin:.25rem 0}.quiet{color:var(--quiet);font-size:.875rem}
.note{background:var(--note);border-left:3px solid var(--edge);padding:.6rem .9rem;margin:1rem 0 0;
border-radius:0 4px 4px 0}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.35rem 1.5rem .35rem 0;text-align:left;vertical-align:top;overflow-wrap:anywhere}
th{font-weight:500;color:var(--quiet);border-bottom:1px solid var(--line)}.n{text-align:right}
tr.best td{font-weight:650}svg{display:block;width:100%;height:auto}
.grid,.axis,.mark{fill:none}.grid{stroke:var(--line)}.axis{stroke:var(--quiet)}
.mark{stroke:var(--edge);stroke-dasharray:4 3}.tick{fill:var(--quiet);font-size:11px}
.name{font-size:12.5px;fill:currentColor;font-weight:500}.dot{fill:currentColor}
.curve{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}
.c5{color:var(--c5)}
@media print{body{max-width:none;padding:0}}
"""
)


def training_report(history: History, out: Path) -> None:
    """Write `out`/report.html, and `out`/curves.png where Pillow is installed; the page says where it is not."""
    charts = _charts(history)
    drawable = importlib.util.find_spec("PIL") is not None
    (out / "curves.png").unlink(missing_ok=True)  # one of an earlier run would tell of another history
    if drawable and charts:
        write_atomically(out / "curves.png", _png(charts))
    write_atomically(out / "report.html", _page(history, charts, drawable).encode("utf-8", "replace"))


def _page(history: History, charts: Sequence[_Chart], drawable: bool) -> str:
    notes = _notes(history) + ([] if drawable else ["curves.png was not drawn: it needs Pillow (pip install pillow)."])
    title = f"Training of {history.name}" if history.name else "Training"
    body = [f"<header><h1>{escape(title)}</h1>", f'<p class="quiet">{escape(_summary(history))}</p>']
    body += [f'<p class="note">{escape(note)}</p>' for note in notes]
    body.append("</header>")
    for chart in charts:
        surface = _Svg(chart.title)
        _draw(surface, chart)
        body += [f"<h2>{escape(chart.title)}</h2>", surface.finish()]
        if chart.title == "Validation":
            body.append(_validation_table(history))
        if chart.title == "Averaging":
            body.append(_sweep_table(history))
    if history.sets:
        rows = [([name, f"{records:,}"], False) for name, records in history.sets.items()]
        body += ["<h2>Training sets</h2>", _table(["set", "records"], rows)]
    if history.options:
        rows = [
            ([name, json.dumps(plain(value), ensure_ascii=False)], False) for name, value in history.options.items()
        ]
        body += ["<h2>Options</h2>", _table(["option", "value"], rows, numbers=False)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _summary(history: History) -> str:
    steps = max((step for step, _ in [*history.losses, *history.validations]), default=0)
    told = [f"{steps:,} steps"]
    if history.seconds:
        minutes, seconds = divmod(round(history.seconds), 60)
        hours, minutes = divmod(minutes, 60)
        told.append(
            f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        )
    if history.pairs_per_second:
        told.append(f"{history.pairs_per_second:,.0f} pairs a second")
    if history.best_step is not None:
        told.append(f"weights of step {history.best_step:,}")
    if history.share is not None:
        told.append(f"averaged with the base, {history.share:g} of them trained")
    return " · ".join(told)


def _notes(history: History) -> list[str]:
    lost = [step for step, loss in history.losses if not math.isfinite(loss)]
    found = []
    if lost:
        found.append(
            f"The loss was not finite at {len(lost):,} of {len(history.losses):,} steps, first at {lost[0]:,};"
            " those are not drawn."
        )
    if history.best_step == 0:
        found.append("No step was better than the base on validation, so the weights are the base's.")
    return found


def _validation_table(history: History) -> str:
    names = list(dict.fromkeys(name for _, values in history.validations for name in values))
    rows = [
        ([f"{step:,}", *(_shown(values.get(name)) for name in names)], step == history.best_step)
        for step, values in history.validations
    ]
    return _table(["step", *names], rows)


def _sweep_table(history: History) -> str:
    rows = [
        ([f"{point.share:g}", _shown(point.domain), _shown(point.general)], point.share == history.share)
        for point in sorted(history.sweep, key=lambda point: point.share)
    ]
    return _table(["share", "domain", "general"], rows)


def _shown(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:.4f}"


def _table(heads: Sequence[str], rows: Sequence[tuple[Sequence[str], bool]], numbers: bool = True) -> str:
    """`rows` with whether they stand out; all columns but the first hold numbers, or none does."""
    looks = ["", *(' class="n"' if numbers else "" for _ in heads[1:])]
    head = "".join(f"<th{look}>{escape(name)}</th>" for look, name in zip(looks, heads, strict=True))
    lines = "".join(
        ('<tr class="best">' if best else "<tr>")
        + "".join(f"<td{look}>{escape(cell)}</td>" for look, cell in zip(looks, cells, strict=True))
        + "</tr>"
        for cells, best in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
