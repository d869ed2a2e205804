"""What people type, in parts: words to rank by, "quoted phrases", -excluded words and field:value.

A minus sign or a colon in a formula is none of this: `a -b`, `f: X \\to Y`, and whatever stands between dollars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lemmata.core.errors import LemmataError
from lemmata.core.records import members_of, schema_of
from lemmata.core.words import fold
from lemmata.search.filter import Filter, singular
from lemmata.search.tokens import one_form

SYNTAX = 'Also "a phrase", -word, and fields: kind:theorem, author:NAME, since:2020, section:"A HEADING".'  # for a help
_FIELDS = {singular(member): member for member in members_of(Filter) if member.name != "ids"}  # `id: X \to X` is a map
_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”|„([^“]*)“')
# a formula between dollars is one part, whatever it holds
_PART = re.compile(rf"(?P<minus>-)?(?:(?P<field>[A-Za-z]+):)?(?:{_QUOTED.pattern})(?=[\s.,;:!?)]|$)|(?:\$[^$]*\$|\S)+")
_FIELD = re.compile(r"([A-Za-z]+):([^\s\\$^{}\"]+?)[,;]?")
_EXCLUDED = re.compile(r"-([^\W\d_][\w'’-]*[^\W_])[.,;]?")
# formulas: their signs, a number, a letter alone, a function of something
_FORMULA = re.compile(r"[\\$^{}=+*<>|]|\w\(|(?<![^\W_])[^\W\d_]_|^\W*(?:[^\W\d_]|[\d.,]+)\W*$")
_SIGNS = re.compile(r"[^\w\s]+|[^\W\d_]")
_COMPARED = re.compile(r"[^\W_]+|[+=<>^_*/]")


@dataclass(frozen=True, slots=True)
class Query:
    """A query in parts; `phrases` and `excluded` are compared by `folded`."""

    text: str  # to rank by, with the words of the phrases
    filter: Filter | None = None
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    is_dated: bool = False  # its words name the dates of the filter

    @property
    def reads_texts(self) -> bool:
        return bool(self.phrases or self.excluded)

    def admits(self, text: str, proof: str = "") -> bool:
        """Whether a text or its proof has all phrases, and the text no excluded word or phrase."""
        if not self.reads_texts:
            return True
        text = folded(text)
        missing = [phrase for phrase in self.phrases if phrase not in text]
        proof = folded(proof) if missing else ""
        return all(phrase in proof for phrase in missing) and not any(each in text for each in self.excluded)


def folded(text: str) -> str:
    """The words and signs of a text, each between blanks; without case, accents, dollars, braces and punctuation."""
    return f" {' '.join(_COMPARED.findall(fold(one_form(text))))} "


def parse_query(text: str) -> Query:
    """The parts of a query; LemmataError where a field has no value, or nothing says what to search for.

    >>> parse_query('crank -rank "Hall algebra"')
    Query(text='crank Hall algebra', filter=None, phrases=(' hall algebra ',), excluded=(' rank ',))
    >>> parse_query("a -b f: X").text
    'a -b f: X'
    """
    parts = list(_PART.finditer(text))
    words: list[str] = []
    phrases: list[str] = []
    excluded: list[str] = []
    values: dict[str, list[str]] = {}
    before = ""  # the part before, where it is a word
    for number, part in enumerate(parts):
        written = part[0]
        quoted = next((group for group in part.groups()[2:] if group is not None), None)
        after = parts[number + 1][0] if number + 1 < len(parts) else ""
        plain = _FIELD.fullmatch(written)
        name, value = (part["field"], quoted) if part["field"] else plain.groups() if plain else ("", "")
        if name and name.casefold() in _FIELDS and not part["minus"]:
            values.setdefault(name.casefold(), []).append((value or "").strip())
        elif quoted is not None and not name:
            (excluded if part["minus"] else phrases).append(quoted)
            words += [] if part["minus"] else [quoted]
        elif (minus := _EXCLUDED.fullmatch(written)) and not (_FORMULA.search(before) or _SIGNS.fullmatch(after)):
            excluded.append(minus[1])
        else:
            words.append(written)
            before = written.rpartition("$-")[2]  # `$p$-adic` is a word
            continue
        before = ""
    if not (values or phrases or excluded):
        return Query(text)
    if not any(map(_COMPARED.search, words)) and not values:
        raise LemmataError(f"{text.strip()!r} only says what to leave out: write what to search for, too")
    return Query(" ".join(words), _filter(values) if values else None, _compared(phrases), _compared(excluded))


def _compared(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(text for text in map(folded, texts) if text.strip())


def _filter(values: dict[str, list[str]]) -> Filter:
    chosen: dict[str, Any] = {}
    for name, given in values.items():
        if "" in given:
            raise LemmataError(f"{name}: has no value: write {name}:VALUE, or leave it out")
        member = _FIELDS[name]
        form = schema_of(member.hint)["type"]
        if form == "string" and len(given) > 1:
            raise LemmataError(f"{name}: stands {len(given)} times: write it once")
        if form == "object":
            cells = [cell.partition("=") for cell in given]
            if wrong := next((cell for cell, sign, _ in cells if not sign), ""):
                raise LemmataError(f"{name}:{wrong} names no value: write {name}:COLUMN=VALUE")
            chosen[member.name] = tuple((column, value) for column, _, value in cells)
        else:
            chosen[member.name] = given[0] if form == "string" else tuple(given)
    return Filter(**chosen)
