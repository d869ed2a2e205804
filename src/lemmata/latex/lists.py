r"""The lists of a paper and the labels of their items: (1), (a), (i), bullets, or what the options of a list say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lemmata.latex.commands import BEGIN
from lemmata.latex.expand import Opening
from lemmata.latex.source import read_optional

_INLINE = frozenset("inparaenum inparaitem inparadesc enumerate* itemize* description*".split())
_NUMBERED = frozenset("enumerate compactenum inparaenum asparaenum enumerate*".split())
_UNLABELLED = frozenset("description compactdesc inparadesc description* list trivlist".split())
LISTS = _INLINE | _NUMBERED | _UNLABELLED | frozenset("itemize compactitem inparaitem asparaitem itemize*".split())
_DEFAULTS = "1aiA"  # the numbering of lists inside lists
_NAMES = {"arabic": "1", "alph": "a", "Alph": "A", "roman": "i", "Roman": "I"}
_COUNTER = re.compile(r"\\(arabic|alph|Alph|roman|Roman)\s*\*")
_SHORT = re.compile(r"(?<![a-zA-Z\\])[1aAiI](?![a-zA-Z])")  # of enumerate: [(a)], [1.]
_LABEL = re.compile(r"label\s*=\s*(\{(?:[^{}]|\{[^{}]*\})*\}|[^,]*)")
_START = re.compile(r"start\s*=\s*(\d{1,6})")
_MARKUP = re.compile(r"\\[a-zA-Z]+\s*|[{}$]")
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
          (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
_NEW = re.compile(r"\\newlist\s*\{([^{}]{1,80})\}\s*\{([a-z]+\*?)\}")
_SET = re.compile(r"\\setlist\*?\s*\[([a-zA-Z]{1,80})[^\]]{0,80}\]\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\}){0,500})\}")


class ListStyle(NamedTuple):
    """An environment that is a list: which one it opens, and with which options."""

    name: str
    options: str = ""


@dataclass(slots=True)
class OpenList:
    """A list that has begun; `count` items of it have been read."""

    before: str = ""
    numbering: str = ""  # 1, a, A, i or I; "" where all labels are `before`
    after: str = ""
    inline: bool = False
    count: int = 0

    def next_label(self) -> str:
        """The label of the next item."""
        self.count += 1
        return f"{self.before}{_number(self.count, self.numbering)}{self.after}"


@dataclass(slots=True)
class Lists:
    """The lists around a place of the source."""

    styles: Mapping[str, ListStyle] = field(default_factory=dict)  # of the paper's own lists, by environment
    stack: list[OpenList] = field(default_factory=list)

    def is_list(self, name: str) -> bool:
        return name in LISTS or name in self.styles

    def open(self, name: str, options: str) -> None:
        style = self.styles.get(name, ListStyle(name))
        depth = sum(bool(outer.numbering) for outer in self.stack)
        opened = _read_label(f"{style.options},{options}".strip(","))
        if opened is None and style.name in _NUMBERED:
            opened = OpenList("(", _DEFAULTS[min(depth, len(_DEFAULTS) - 1)], ")")
        opened = opened or OpenList("" if style.name in _UNLABELLED else "•")
        opened.inline = style.name in _INLINE
        if start := _START.search(options):
            opened.count = int(start[1]) - 1
        self.stack.append(opened)


def roman(value: int) -> str:
    digits = ""
    for size, digit in _ROMAN:
        digits += digit * (value // size)
        value %= size
    return digits


def _number(count: int, numbering: str) -> str:
    if numbering in ("a", "A"):
        letters = ""
        while count > 0:
            count, rest = divmod(count - 1, 26)
            letters = chr(ord(numbering) + rest) + letters
        return letters
    if numbering in ("i", "I"):
        written = roman(min(count, 9999))
        return written if numbering == "i" else written.upper()
    return str(count) if numbering else ""


def _read_label(options: str) -> OpenList | None:
    """The labels that the options of a list ask for; None where they do not."""
    given = _LABEL.search(options)
    label = given[1].strip() if given else "" if "=" in options else options
    counter = _COUNTER.search(label)
    short = None if given or counter else _SHORT.search(label)
    if place := counter or short:
        before, after = (_MARKUP.sub("", part) for part in (label[: place.start()], label[place.end() :]))
        return OpenList(before.lstrip(), _NAMES[counter[1]] if counter else place[0], after.strip(", "))
    plain = _MARKUP.sub("", label).strip()
    return OpenList(plain) if given and 0 < len(plain) <= 10 else None


def read_lists(text: str, environments: Mapping[str, Opening], statements: Iterable[str]) -> dict[str, ListStyle]:
    r"""The lists that a paper defines, by environment: wrappers of lists that are no statements, and `\newlist`."""
    styles = {name: ListStyle(base) for name, base in _NEW.findall(text) if base in LISTS}
    for name, options in _SET.findall(text) if styles else ():
        if name in styles:
            styles[name] = styles[name]._replace(options=options)
    for name in environments.keys() - set(statements) - LISTS:
        opening = environments[name].text
        for begin in BEGIN.finditer(opening):
            if begin[1].strip() in LISTS:
                options = (read_optional(opening, begin.end()) or ("", 0))[0]
                styles[name] = ListStyle(begin[1].strip(), options)
    return styles
