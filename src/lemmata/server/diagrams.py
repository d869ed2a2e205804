r"""Commutative diagrams as SVG: the common part of `\xymatrix` and `tikzcd`; whatever else is in one leaves it undrawn.

A diagram is rows of objects and arrows between them. Sizes are estimated from the characters of a formula; formulas
themselves are drawn by the page, in `foreignObject`. Nothing but numbers and what `formula` makes is written.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from lemmata.latex.readable import readable
from lemmata.latex.source import match_brace

DIAGRAM = re.compile(r"\\xymatrix(?![a-zA-Z])|\\begin\s*\{tikzcd\}")
_XY = re.compile(r"\s*\\xymatrix\s*(?:@[!RC]?(?:[=+-]{0,2}[\d.]*\s*(?:pc|pt|em|ex|cm|mm|in)?)?|@1|\s)*(?=\{)")
_TIKZ = re.compile(r"\s*\\begin\s*\{tikzcd\}\s*(?:\[[^\[\]]*\])?(.*)\\end\s*\{tikzcd\}\s*", re.DOTALL)
_WRAPPED = re.compile(r"\s*\\(?:vcenter|hbox|vbox|centerline|ensuremath)\s*(?=\{)")
_ENDING = re.compile(r"[\s.,;:]*|\\(?:quad|qquad|,|;)\s*[.,;]?")
_LEVEL = re.compile(r"\\begin\s*\{[a-zA-Z]+\*?\}|\\end\s*\{[a-zA-Z]+\*?\}|\\\\|\\.|[{}&]", re.DOTALL)
_ARROW = re.compile(r"\\ar(?:row)?(?![a-zA-Z])\s*")
_FOREIGN = re.compile(
    r"\\(?:entrymodifiers|save|restore|POS|txt|composite|drop|[a-z]*twocell|[udlr]{1,4}ar)(?![a-zA-Z])"
)
_XY_STYLE = re.compile(r"@\s*(?:\{|([=.~-]+>*|[<>|]*[=.-]+[<>|]*))")
_XY_SHIFT = re.compile(r"@\s*<\s*(-?[\d.]+)\s*(?:ex|pt|em|pc|mm)\s*>")
_XY_CURVE = re.compile(r"@\s*/\s*([\^_])?\s*(-?[\d.]*)\s*(?:pc|pt|em|ex|cm|mm)?\s*/")
_TARGET = re.compile(r"\[\s*([udlr\s]*)\s*\]")
_XY_LABEL = re.compile(r"\s*([\^_|])\s*(?:[<>!-]+|\(\s*[\d.]+\s*\))*\s*")
_PLACE = re.compile(r"(\d+)-(\d+)")
_MOST_CELLS = 144
_LETTER, _LINE = 9.5, 22.0  # pixels of a character of an object and of its line
_SMALL = 0.72  # size of a label beside that of an object


class _Label(NamedTuple):
    formula: str
    side: int  # 1 on the left of who walks along the arrow, -1 on the right, 0 on it


@dataclass
class _Arrow:
    start: tuple[int, int]  # row and column
    end: tuple[int, int]
    style: set[str] = field(default_factory=set)
    labels: list[_Label] = field(default_factory=list)
    bend: float = 0.0  # to the left, as a share of the length
    shift: float = 0.0  # to the left, in pixels


class _NotDrawn(Exception):  # noqa: N818 - says what happens
    """A diagram has something that is not known here."""


def diagram_html(formula: str, to_html: Callable[[str], str]) -> str:
    """A diagram as `<svg>`; "" for one that cannot be drawn. `to_html` makes HTML of the formula of an object."""
    try:
        return _drawn(*_read(formula), to_html)
    except _NotDrawn:
        return ""


# ---------------------------------------------------------------- reading


def _read(formula: str) -> tuple[list[list[str]], list[_Arrow]]:
    """The objects of each row, and the arrows."""
    while wrapped := _WRAPPED.match(formula):
        end = _closing(formula, wrapped.end())
        if not _ENDING.fullmatch(formula[end:]):
            raise _NotDrawn
        formula = formula[wrapped.end() + 1 : end - 1]
    if match := _TIKZ.match(formula):
        body, read_arrow, rest = match[1], _tikz_arrow, formula[match.end() :]
        if "ampersand replacement" in formula[: match.start(1)]:
            body = body.replace(r"\&", "&")
    elif match := _XY.match(formula):
        end = _closing(formula, match.end())
        body, read_arrow, rest = formula[match.end() + 1 : end - 1], _xy_arrow, formula[end:]
    else:
        raise _NotDrawn
    if not _ENDING.fullmatch(rest) or _FOREIGN.search(body) or DIAGRAM.search(body):
        raise _NotDrawn
    rows: list[list[str]] = []
    arrows: list[_Arrow] = []
    for row, cells in enumerate(_cells(body)):
        rows.append([])
        for column, cell in enumerate(cells):
            at, kept = 0, []
            while command := _ARROW.search(cell, at):
                kept.append(cell[at : command.start()])
                arrow, at = read_arrow(cell, command.end(), (row, column))
                arrows.append(arrow)
            rows[-1].append("".join([*kept, cell[at:]]).strip())
    while rows and not any(rows[-1]):
        rows.pop()
    for arrow in arrows:
        for place in (arrow.start, arrow.end):
            if not (0 <= place[0] < len(rows) and 0 <= place[1] < max(map(len, rows))):
                raise _NotDrawn
    if not arrows or sum(map(len, rows)) > _MOST_CELLS:
        raise _NotDrawn
    return rows, arrows


def _cells(body: str) -> Iterator[list[str]]:
    """The rows of a matrix as lists of cells."""
    depth = at = 0
    cells: list[str] = []
    for token in _LEVEL.finditer(body):
        depth += token[0].startswith(("{", r"\begin")) - token[0].startswith(("}", r"\end"))
        if depth or token[0] not in ("&", r"\\"):
            continue
        cells.append(body[at : token.start()])
        at = token.end()
        if token[0] == r"\\":
            yield cells
            cells = []
            if space := re.match(r"\s*\[[^\]]*\]", body[at:]):
                at += space.end()
    yield [*cells, body[at:]]


def _closing(text: str, start: int) -> int:
    end = match_brace(text, start)
    if end < 0:
        raise _NotDrawn
    return end


def _argument(text: str, at: int) -> tuple[str, int]:
    """A group in braces, a command or one character."""
    if at >= len(text):
        raise _NotDrawn
    if text[at] == "{":
        end = _closing(text, at)
        return text[at + 1 : end - 1], end
    match = re.compile(r"\\[a-zA-Z]+(?:\s*\{[^{}]*\})?|\\.|[^\s\\]").match(text, at)
    if not match:
        raise _NotDrawn
    return match[0], match.end()


def _moved(start: tuple[int, int], letters: str) -> tuple[int, int]:
    row = start[0] + letters.count("d") - letters.count("u")
    return row, start[1] + letters.count("r") - letters.count("l")


_XY_STYLES = {
    "->": (), "-->": ("dashed",), "..>": ("dotted",), ".>": ("dotted",), "->>": ("onto",), "-->>": ("dashed", "onto"),
    "=": ("double",), "==": ("double",), "=>": ("double", "head"), "-": ("headless",), "--": ("dashed", "headless"),
    "..": ("dotted", "headless"), ".": ("dotted", "headless"), ">->": ("tail",), "|->": ("maps",), "^{(}->": ("hook",),
    "_{(}->": ("hook",), "^(->": ("hook",), "_(->": ("hook",), "(->": ("hook",), "": ("unseen",), "<-": ("back",),
    "<->": ("both",), "<=>": ("double", "both"), "~>": ("dashed",),
}  # fmt: skip


def _xy_arrow(cell: str, at: int, start: tuple[int, int]) -> tuple[_Arrow, int]:
    r"""`@{-->}@<1ex>[rd]^f_g` after `\ar`."""
    arrow = _Arrow(start, start)
    while at < len(cell) and cell[at] == "@":
        if shift := _XY_SHIFT.match(cell, at):
            arrow.shift, at = math.copysign(5, float(shift[1])), shift.end()
        elif curve := _XY_CURVE.match(cell, at):
            arrow.bend, at = (-0.28 if curve[1] == "_" else 0.28), curve.end()
        elif style := _XY_STYLE.match(cell, at):
            end = style.end() if style[1] else _closing(cell, style.end() - 1)
            words = _XY_STYLES.get(re.sub(r"\s", "", style[1] or cell[style.end() : end - 1]))
            if words is None:
                raise _NotDrawn
            arrow.style.update(words)
            at = end
        else:
            raise _NotDrawn
        at += len(cell[at:]) - len(cell[at:].lstrip())
    target = _TARGET.match(cell, at)
    if not target or not target[1].strip():
        raise _NotDrawn
    arrow.end, at = _moved(start, target[1]), target.end()
    while label := _XY_LABEL.match(cell, at):
        text, at = _argument(cell, label.end())
        arrow.labels.append(_Label(text, {"^": 1, "_": -1, "|": 0}[label[1]]))
    return arrow, at


_TIKZ_STYLES = {
    "hook": "hook", "hook'": "hook", "hookrightarrow": "hook", "two heads": "onto", "twoheadrightarrow": "onto",
    "->>": "onto", "dashed": "dashed", "dashrightarrow": "dashed", "dotted": "dotted", "equal": "double",
    "equals": "double", "Rightarrow": "double", "no head": "headless", "dash": "headless", "-": "headless",
    "tail": "tail", "rightarrowtail": "tail", "maps to": "maps", "mapsto": "maps", "phantom": "unseen",
    "leftarrow": "back", "<-": "back", "leftrightarrow": "both", "<->": "both", "rightarrow": "", "->": "", "swap": "",
    "crossing over": "", "near start": "", "near end": "", "very near start": "", "very near end": "",
}  # fmt: skip


def _tikz_arrow(cell: str, at: int, start: tuple[int, int]) -> tuple[_Arrow, int]:
    r"""`[rd, "f"', hook]` after `\arrow`."""
    end = _bracket(cell, at)
    arrow = _Arrow(start, start)
    swapped = False
    for option in _options(cell[at + 1 : end - 1]):
        name, _, value = (part.strip() for part in option.partition("="))
        if option.startswith('"'):
            text, _, about = option[1:].rpartition('"')
            side = 0 if "description" in about else -1 if "'" in about or "swap" in about else 1
            arrow.labels.append(_Label(re.sub(r"^\{(.*)\}$", r"\1", text, flags=re.DOTALL), side))
        elif re.fullmatch(r"[udlr]+", option):
            arrow.end = _moved(start, option)
        elif name in ("from", "to") and (place := _PLACE.fullmatch(value)):
            setattr(arrow, "start" if name == "from" else "end", (int(place[1]) - 1, int(place[2]) - 1))
        elif name in ("from", "to") and re.fullmatch(r"[udlr]+", value):
            setattr(arrow, "start" if name == "from" else "end", _moved(start, value))
        elif name in ("bend left", "bend right", "curve"):
            arrow.bend = -0.28 if name == "bend right" or "height=-" in value else 0.28
        elif name in ("shift left", "shift right", "yshift", "xshift"):
            arrow.shift = -5.0 if name == "shift right" or value.startswith("-") else 5.0
        elif option in _TIKZ_STYLES:
            arrow.style.add(_TIKZ_STYLES[option])
            swapped = swapped or option == "swap"
        else:
            raise _NotDrawn
    if swapped:
        arrow.labels = [_Label(text, -side) for text, side in arrow.labels]
    return arrow, end


def _bracket(cell: str, at: int) -> int:
    """Where `[…]` ends; brackets in quotes and braces do not count."""
    quoted = depth = 0
    for place in range(at, len(cell)):
        sign = cell[place]
        quoted ^= sign == '"'
        depth += (sign == "{") - (sign == "}")
        if sign == "]" and not quoted and not depth and cell[at] == "[":
            return place + 1
    raise _NotDrawn


def _options(text: str) -> Iterator[str]:
    """Options, separated by commas outside of quotes and braces."""
    quoted = depth = begin = 0
    for place, sign in enumerate(f"{text},"):
        quoted ^= sign == '"'
        depth += (sign == "{") - (sign == "}")
        if sign == "," and not quoted and not depth:
            if option := text[begin:place].strip():
                yield option
            begin = place + 1


# ---------------------------------------------------------------- drawing


class _Box(NamedTuple):
    x: float  # of the middle
    y: float
    width: float
    height: float


def _size(formula: str, scale: float = 1.0) -> tuple[float, float]:
    """Width and height of a formula, estimated."""
    shown = readable(f"${formula}$").strip("$ ")
    tall = 1.7 if re.search(r"\\(?:d?frac|sum|prod|coprod|begin|bigoplus|colim|lim)", formula) else 1.0
    scripts = 0.8 if re.search(r"[_^]", formula) else 1.0
    return scale * (_LETTER * max(1, len(shown)) * scripts + 6), scale * _LINE * tall


def _drawn(rows: list[list[str]], arrows: list[_Arrow], to_html: Callable[[str], str]) -> str:
    columns = max(map(len, rows))
    widths, gaps = [0.0] * columns, [54.0] * columns  # `gaps` are behind columns
    heights = [_LINE] * len(rows)
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            width, height = _size(cell) if cell else (12.0, _LINE)
            widths[column], heights[row] = max(widths[column], width), max(heights[row], height)
    for arrow in arrows:
        (_, first), (_, last) = sorted((arrow.start, arrow.end), key=lambda place: place[1])
        wanted = max((_size(label.formula, _SMALL)[0] for label in arrow.labels), default=0.0) + 34
        for column in range(first, last):
            gaps[column] = max(gaps[column], wanted / (last - first))
    xs, x = [], 0.0
    for width, gap in zip(widths, gaps, strict=True):
        xs.append(x + width / 2)
        x += width + gap
    ys, y = [], 0.0
    for height in heights:
        ys.append(y + height / 2)
        y += height + 46
    boxes: dict[tuple[int, int], _Box] = {}
    pieces: list[str] = []
    for row, cells in enumerate(rows):
        for column in range(columns):
            cell = cells[column] if column < len(cells) else ""
            width, height = _size(cell) if cell else (0.0, 0.0)
            boxes[row, column] = _Box(xs[column], ys[row], width, height)
            if cell:
                pieces.append(_formula(cell, boxes[row, column], to_html, "cell"))
    margin = 14.0 + max((60.0 for arrow in arrows if arrow.bend), default=0.0)
    for arrow in arrows:
        pieces += _arrow(arrow, boxes, to_html)
    left, top = -margin, -margin
    width, height = xs[-1] + widths[-1] / 2 + 2 * margin, ys[-1] + heights[-1] / 2 + 2 * margin
    view = f"{left:.0f} {top:.0f} {width:.0f} {height:.0f}"
    size = f'viewBox="{view}" width="{width:.0f}" height="{height:.0f}"'
    return f'<svg class="diagram" role="img" aria-label="Commutative diagram" {size}>{"".join(pieces)}</svg>'


def _formula(formula: str, box: _Box, to_html: Callable[[str], str], name: str) -> str:
    width, height = box.width + 60, box.height + 12  # estimates may be too small
    place = f'x="{box.x - width / 2:.1f}" y="{box.y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<foreignObject {place}><div class="{name}">{to_html(formula)}</div></foreignObject>'


def _arrow(arrow: _Arrow, boxes: dict[tuple[int, int], _Box], to_html: Callable[[str], str]) -> Iterator[str]:
    """The line of an arrow, its ends and its labels."""
    first, last = boxes[arrow.start], boxes[arrow.end]
    length = math.hypot(last.x - first.x, last.y - first.y)
    if not length:
        raise _NotDrawn  # a loop
    ux, uy = (last.x - first.x) / length, (last.y - first.y) / length
    nx, ny = uy, -ux  # to the left of who walks along it; y grows downwards
    bow = arrow.bend * length
    middle = ((first.x + last.x) / 2 + nx * (arrow.shift + bow), (first.y + last.y) / 2 + ny * (arrow.shift + bow))
    control = (middle[0] + nx * bow, middle[1] + ny * bow)  # of the curve whose middle is there
    begin = _edge(first, control if bow else (last.x, last.y))
    end = _edge(last, control if bow else (first.x, first.y))
    sx, sy = nx * arrow.shift, ny * arrow.shift
    begin, end = (begin[0] + sx, begin[1] + sy), (end[0] + sx, end[1] + sy)
    if "back" in arrow.style:
        begin, end, ux, uy = end, begin, -ux, -uy
    if "unseen" not in arrow.style:
        yield from _line(arrow.style, begin, end, control if bow else None)
    if not bow:
        middle = ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
    for formula, side in arrow.labels:
        if not formula.strip():
            continue
        width, height = _size(formula, _SMALL)
        away = side * (5 + abs(nx) * width / 2 + abs(ny) * height / 2)
        box = _Box(middle[0] + nx * away, middle[1] + ny * away, width, height)
        if not side and "unseen" not in arrow.style:
            corner = f'x="{box.x - width / 2:.1f}" y="{box.y - height / 2:.1f}"'
            yield f'<rect class="ground" {corner} width="{width:.1f}" height="{height:.1f}"/>'
        yield _formula(formula, box, to_html, "label")


def _edge(box: _Box, to: tuple[float, float]) -> tuple[float, float]:
    """Where the line from the middle of a box to a point leaves it."""
    dx, dy = to[0] - box.x, to[1] - box.y
    reach = math.hypot(dx, dy) or 1.0
    wide, high = box.width / 2 + 5, box.height / 2 + 4
    share = min(wide / abs(dx) if dx else math.inf, high / abs(dy) if dy else math.inf, 0.45 * 2)
    share = max(share, 4 / reach)
    return box.x + dx * share, box.y + dy * share


def _line(
    style: set[str], begin: tuple[float, float], end: tuple[float, float], control: tuple[float, float] | None
) -> Iterator[str]:
    (bx, by), (ex, ey) = begin, end
    cx, cy = control or ((bx + ex) / 2, (by + ey) / 2)
    dash = " dashed" if "dashed" in style else " dotted" if "dotted" in style else ""
    at_end = math.degrees(math.atan2(ey - cy, ex - cx))
    at_begin = math.degrees(math.atan2(cy - by, cx - bx))
    curve = f"M{bx:.1f} {by:.1f}Q{cx:.1f} {cy:.1f} {ex:.1f} {ey:.1f}"
    if "double" in style:
        angle = math.atan2(ey - by, ex - bx)
        dx, dy = 2 * math.sin(angle), -2 * math.cos(angle)
        for sign in (-1, 1):
            ends = f"M{bx + sign * dx:.1f} {by + sign * dy:.1f}L{ex + sign * dx:.1f} {ey + sign * dy:.1f}"
            yield f'<path class="arrow{dash}" d="{ends}"/>'
    else:
        yield f'<path class="arrow{dash}" d="{curve}"/>'
    if "headless" not in style and ("double" not in style or "head" in style):
        yield _sign("M-7 -4Q-3 -1 0 0Q-3 1 -7 4", ex, ey, at_end)
    if "onto" in style:
        yield _sign("M-12 -4Q-8 -1 -5 0Q-8 1 -12 4", ex, ey, at_end)
    if "both" in style:
        yield _sign("M7 -4Q3 -1 0 0Q3 1 7 4", bx, by, at_begin)
    if "hook" in style:
        yield _sign("M0 0A3.5 3.5 0 0 1 0 -7L3 -7", bx, by, at_begin)
    if "tail" in style:
        yield _sign("M-1 -4Q3 -1 6 0Q3 1 -1 4", bx, by, at_begin)
    if "maps" in style:
        yield _sign("M0 -4L0 4", bx, by, at_begin)


def _sign(path: str, x: float, y: float, angle: float) -> str:
    return f'<path class="arrow" d="{path}" transform="translate({x:.1f} {y:.1f}) rotate({angle:.1f})"/>'


def as_diagram(formula: str, to_html: Callable[[str], str], *, block: bool) -> str:
    """A diagram with its LaTeX, to be copied; in a line of text only a word for it. "" where it cannot be drawn."""
    drawn = diagram_html(formula, to_html)
    kept = html.escape(formula.strip())
    return (
        f'<span class="{"drawn" if block else "undrawn"}" data-latex="{kept}">{drawn if block else "diagram"}</span>'
        if drawn
        else ""
    )
