"""Blocks of Markdown, reStructuredText and plain text: headings, prose, code, lists and tables, in order.

Knows lines, not sentences. Every block is a span of the source; blank lines lie between blocks or inside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple


class Block(NamedTuple):
    """A span of whole lines of the source."""

    kind: str  # heading, prose, code, list, table
    begin: int
    end: int
    level: int = 0  # of a heading, from 1
    title: str = ""  # of a heading


class _Line(NamedTuple):
    begin: int
    end: int  # without the line end
    text: str  # with tabs as four blanks

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def _lines(text: str, start: int) -> list[_Line]:
    lines = []
    at = start
    for line in text[start:].splitlines(keepends=True):
        content = line.rstrip("\r\n")
        lines.append(_Line(at, at + len(content), content.expandtabs(4)))
        at += len(line)
    return lines


def _span(lines: Sequence[_Line], first: int, after: int) -> tuple[int, int]:
    """Offsets of the lines, without blank ones at the end."""
    while after > first + 1 and lines[after - 1].is_blank:
        after -= 1
    return lines[first].begin, lines[after - 1].end


def _while(lines: Sequence[_Line], at: int, goes_on: Callable[[_Line], bool]) -> int:
    """The number of the first line from `at` on for which `goes_on` is false."""
    while at < len(lines) and goes_on(lines[at]):
        at += 1
    return at


def plain_blocks(text: str, start: int = 0) -> Iterator[Block]:
    """Paragraphs, separated by blank lines."""
    lines = _lines(text, start)
    at = 0
    while at < len(lines):
        after = _while(lines, at, lambda line: not line.is_blank)
        if after > at:
            yield Block("prose", *_span(lines, at, after))
        at = max(after, at + 1)


# ---------------------------------------------------------------- Markdown

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r" {0,3}(#{1,6})(?: |$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,}) *$")
_ITEM = re.compile(r" *(?:[-*+]|\d{1,9}[.)])(?: +\S|$)")
_SEPARATOR = re.compile(r"(?=.*\|) *\|?[ :]*-[-:| ]*$")  # the line below the header of a table


def markdown_blocks(text: str, start: int = 0) -> Iterator[Block]:
    """The blocks of Markdown. A fence that is never closed is prose, so that it hides no headings."""
    lines = _lines(text, start)
    unclosed: set[str] = set()  # fences without an end, so that each end is searched for once
    at = 0
    kind = ""  # of the block before
    while at < len(lines):
        line = lines[at]
        after_blank = at == 0 or lines[at - 1].is_blank or kind == "heading"
        after = at + 1
        if line.is_blank:
            at += 1
            continue
        fence = _FENCE.match(line.text)
        if fence and (close := _closing(lines, at, fence[1], unclosed)):
            kind, after = "code", close + 1
        elif line.indent >= 4 and after_blank and kind != "list":
            kind, after = "code", _end_of_indented(lines, at, 3)
        elif heading := _HEADING.match(line.text):
            kind = "heading"
            title = re.sub(r"(?:^| )#++$", "", line.text[heading.end() :].strip())
            yield Block(kind, line.begin, line.end, len(heading[1]), title.strip())
            at = after
            continue
        elif _ITEM.match(line.text):
            kind, after = "list", _end_of_list(lines, at)
        elif "|" in line.text and after < len(lines) and _SEPARATOR.match(lines[after].text):
            kind, after = "table", _while(lines, at, lambda line: "|" in line.text)
        elif after < len(lines) and (underline := _UNDERLINE.match(lines[after].text)):
            kind = "heading"
            level = 1 if underline[1][0] == "=" else 2
            yield Block(kind, line.begin, lines[after].end, level, line.text.strip())
            at = after + 1
            continue
        else:
            kind, after = "prose", _end_of_paragraph(lines, at)
        yield Block(kind, *_span(lines, at, after))
        at = after


def _closing(lines: Sequence[_Line], at: int, fence: str, unclosed: set[str]) -> int:
    """The number of the line that closes a fence; 0 where there is none."""
    if fence in unclosed:
        return 0
    closing = re.compile(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}} *$")
    for number in range(at + 1, len(lines)):
        if closing.match(lines[number].text):
            return number
    unclosed.add(fence)
    return 0


def _end_of_list(lines: Sequence[_Line], at: int) -> int:
    """The line after a list. An item goes on in indented lines, and in other lines up to the next blank one."""
    number = at + 1
    while number < len(lines):
        line = lines[number]
        continued = line.indent >= 2 or bool(_ITEM.match(line.text))
        if not line.is_blank and not continued and (lines[number - 1].is_blank or _starts_block(line)):
            break
        number += 1
    return number


def _end_of_paragraph(lines: Sequence[_Line], at: int) -> int:
    number = at + 1
    while number < len(lines) and not lines[number].is_blank and not _starts_block(lines[number]):
        if number + 1 < len(lines) and _UNDERLINE.match(lines[number + 1].text):
            break  # a heading without a blank line before it
        number += 1
    return number


def _starts_block(line: _Line) -> bool:
    bullet = re.match(r" {0,3}[-*+] +\S", line.text)  # not a number: prose may break before one
    return bool(_FENCE.match(line.text) or _HEADING.match(line.text) or bullet)


# ---------------------------------------------------------------- reStructuredText

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,} *$")
_CODE_DIRECTIVE = re.compile(r" *\.\. +(?:code-block|code|sourcecode|math|parsed-literal|prompt|highlight)::")
_GRID = re.compile(r" *(?:\+[-=+]{3,}\+|={2,}(?: +={2,})+) *$")


def rest_blocks(text: str, start: int = 0) -> Iterator[Block]:
    """The blocks of reStructuredText; the levels of headings are in the order in which their styles appear."""
    lines = _lines(text, start)
    styles: list[str] = []
    at = 0
    literal = False  # the paragraph before ended in `::`
    while at < len(lines):
        line = lines[at]
        if line.is_blank:
            at += 1
            continue
        heading = _rest_heading(lines, at)
        if heading is not None:
            style, title, after = heading
            if style not in styles:
                styles.append(style)
            yield Block("heading", line.begin, lines[after - 1].end, styles.index(style) + 1, title)
            literal = False
        elif _CODE_DIRECTIVE.match(line.text) or (literal and line.indent):
            outer = line.indent if _CODE_DIRECTIVE.match(line.text) else line.indent - 1
            after = _end_of_indented(lines, at + 1, outer)
            yield Block("code", *_span(lines, at, after))
            literal = False
        elif _GRID.match(line.text):
            after = _while(lines, at, lambda line: not line.is_blank)
            yield Block("code", *_span(lines, at, after))
        elif _ITEM.match(line.text):
            after = _end_of_list(lines, at)
            yield Block("list", *_span(lines, at, after))
        else:
            after = at + 1
            while after < len(lines) and not lines[after].is_blank and _rest_heading(lines, after) is None:
                after += 1
            yield Block("prose", *_span(lines, at, after))
            literal = lines[after - 1].text.rstrip().endswith("::")
        at = after


def _end_of_indented(lines: Sequence[_Line], at: int, outer: int) -> int:
    """The line after those that are blank or indented by more than `outer`."""
    return _while(lines, at, lambda line: line.is_blank or line.indent > outer)


def _rest_heading(lines: Sequence[_Line], at: int) -> tuple[str, str, int] | None:
    """Style, text and the line after a heading, which is underlined and may be overlined."""

    def underlined(number: int) -> str:
        """The character below a line of text; empty where there is none."""
        if number + 1 >= len(lines) or lines[number].is_blank or _ADORNMENT.match(lines[number].text):
            return ""
        below = lines[number + 1].text.rstrip()
        return below[0] if _ADORNMENT.match(below) and len(below) >= len(lines[number].text.strip()) else ""

    over = _ADORNMENT.match(lines[at].text)
    if over and at + 1 < len(lines) and underlined(at + 1) == over[1]:
        return over[1] * 2, lines[at + 1].text.strip(), at + 3
    if not lines[at].indent and (style := underlined(at)):
        return style, lines[at].text.strip(), at + 2
    return None
