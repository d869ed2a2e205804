r"""The counters of LaTeX: what begins again with what, and how each is printed (`\thesection.\arabic{theorem}`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from lemmata.latex.clean import plain
from lemmata.latex.lists import roman

SECTIONS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph", "subparagraph")
LEVELS = {name: level for level, name in enumerate(SECTIONS, -1)}
BOOKS = frozenset("book report amsbook memoir scrbook scrreprt extbook extreport svmono cambridge7A octavo".split())
_MOST_FORMATS = 30  # formats inside formats
LONGEST_FORMAT = 500  # characters
_LARGEST = 100_000  # of a counter that is printed in letters
_NOT_TEXT = re.compile(r"[\\{}$~]")


def letter(value: int) -> str:
    return chr(96 + value) if 0 < value <= 26 else ""


_STYLES: dict[str, Callable[[int], str]] = {
    "arabic": str,
    "alph": letter,
    "Alph": lambda value: letter(value).upper(),
    "roman": lambda value: roman(value) if 0 < value < _LARGEST else "",
    "Roman": lambda value: roman(value).upper() if 0 < value < _LARGEST else "",
    "fnsymbol": lambda value: ("", *"∗†‡§¶‖")[value] if 0 <= value < 7 else "",
}
_PRINTED = re.compile(
    r"\\@?(arabic|alph|Alph|roman|Roman|fnsymbol|value|number)\s*(?:\{\s*([a-zA-Z@][\w@*-]*)\s*\}|\\c@([a-zA-Z@]+))"
    r"|\\(the(?!\\)[a-zA-Z@]+)|\\number\s*\\value\s*\{([\w@]+)\}|\\the\s*\\(?:value\s*\{([\w@]+)\}|c@([a-zA-Z@]+))"
)
# What the classes with chapters say: no chapter in front of a number before the first one.
_IN_CHAPTER = re.compile(r"\\ifnum\s*\\(?:c@|value\s*\{)(\w+)\}?\s*>\s*(?:\\z@|0)\s*(.*?)\\fi", re.S)
_EXPRESSION = re.compile(r"\s*([+-]?)\s*(?:(\d{1,9})|\\(?:value\s*\{\s*([\w@]+)\s*\}|c@([a-zA-Z@]+)))")


class Counters:
    """The counters of a paper, as its class and its declarations make them."""

    def __init__(self, document_class: str) -> None:
        self.values: dict[str, int] = {}
        self.within: dict[str, list[str]] = {}  # the counters that begin again when a counter is stepped
        self.formats: dict[str, str] = {}  # the LaTeX that prints a counter
        self.aliases: dict[str, str] = {}  # names of the same counter
        is_book = document_class in BOOKS
        self.top = "chapter" if is_book else "section"
        is_ams = document_class.startswith("ams")
        for name in ("equation", "figure", "table"):
            self.new(name, "chapter" if is_book and not (is_ams and name == "equation") else "")
            if is_book and not is_ams:
                self.formats[name] = rf"\ifnum\c@chapter>0 \thechapter.\fi\arabic{{{name}}}"
        self.new("part")
        self.formats["part"] = r"\arabic{part}" if is_ams else r"\Roman{part}"
        self.new("chapter")
        for outer, name in pairwise(SECTIONS[1:]):
            self.new(name, outer)
            self.formats[name] = rf"\the{outer}.\arabic{{{name}}}"
        if not is_book or document_class == "amsbook":
            self.formats["section"] = r"\arabic{section}"
        if document_class.startswith(("revtex", "IEEE")):
            self.formats["section"] = r"\Roman{section}"
            self.formats["subsection"] = (
                r"\Alph{subsection}" if document_class[0] == "r" else r"\thesection-\Alph{subsection}"
            )
        self.new("footnote", "chapter" if is_book else "")
        for name, style in (("i", "arabic"), ("ii", "alph"), ("iii", "roman"), ("iv", "Alph")):
            self.new(f"enum{name}")
            self.formats[f"enum{name}"] = rf"\{style}{{enum{name}}}"
        self.values["secnumdepth"] = 1 if document_class == "memoir" else 2 if is_book and not is_ams else 3

    def name(self, name: str) -> str:
        for _ in range(_MOST_FORMATS):
            if name not in self.aliases:
                break
            name = self.aliases[name]
        return name

    def new(self, name: str, outer: str = "") -> None:
        self.values[name] = 0
        self.formats[name] = rf"\arabic{{{name}}}"
        if outer:
            self.within.setdefault(self.name(outer), []).append(name)

    def number_within(self, name: str, outer: str, *, prints: bool = True) -> None:
        self.values.setdefault(name, 0)
        self.within.setdefault(self.name(outer), []).append(self.name(name))
        if prints:
            self.formats[name] = rf"\the{outer}.\arabic{{{name}}}"

    def free(self, name: str, outer: str, *, prints: bool = True) -> None:
        inner = self.within.get(self.name(outer), [])
        self.within[self.name(outer)] = [each for each in inner if each != self.name(name)]
        if prints:
            self.formats[name] = rf"\arabic{{{name}}}"

    def set(self, name: str, value: int) -> None:
        self.values[self.name(name)] = max(-_LARGEST, min(_LARGEST, value))

    def step(self, name: str) -> None:
        name = self.name(name)
        self.set(name, self.values.get(name, 0) + 1)
        waiting, seen = list(self.within.get(name, ())), {name}
        while waiting:
            inner = waiting.pop()
            if inner not in seen:
                seen.add(inner)
                self.values[inner] = 0
                waiting += self.within.get(inner, ())

    def value(self, expression: str) -> int | None:
        """The value of a number, of `\\value{…}`, or of a sum of these; None for anything else."""
        total = at = 0
        expression = re.sub(r"\\(?:numexpr|relax)(?![a-zA-Z])", " ", expression).strip()
        while at < len(expression):
            term = _EXPRESSION.match(expression, at)
            if term is None:
                return None
            counter = term[3] or term[4]
            value = int(term[2]) if term[2] else self.values.get(self.name(counter), 0)
            total += -value if term[1] == "-" else value
            at = term.end()
            at += len(expression[at:]) - len(expression[at:].lstrip())
        return total

    def printed(self, name: str) -> str:
        r"""What `\the` and the name of a counter print; empty for a counter that is not known."""
        name = name if name in self.formats else self.name(name)
        return self.show(self.formats.get(name, ""))

    def show(self, form: str) -> str:
        r"""A text with its counters printed, however they are nested; empty where it grows too long."""

        def insert(match: re.Match[str]) -> str:
            style, braced, plain_name, the, *values = match.groups()
            if the:
                return self.formats.get(the[3:], match[0])
            counter = next(filter(None, (braced, plain_name, *values)))
            return _STYLES.get(style, str)(self.values.get(self.name(counter), 0))

        for _ in range(_MOST_FORMATS):
            if len(form) > LONGEST_FORMAT:
                return ""
            if "\\ifnum" in form:
                form = _IN_CHAPTER.sub(lambda m: m[2] if self.values.get(self.name(m[1]), 0) > 0 else "", form)
            shown = _PRINTED.sub(insert, form)
            if shown == form:
                break
            form = shown
        return plain(form.replace("\\protect", "")) if _NOT_TEXT.search(form) else form
