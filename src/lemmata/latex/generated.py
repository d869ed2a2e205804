r"""Definitions that a paper makes by program: names that `\csname` puts together, loops over letters.

Both are rewritten as plain definitions and calls, within limits; what is not understood stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import chain, islice
from string import ascii_lowercase

from lemmata.latex.arguments import read_token, split
from lemmata.latex.expand import DEFINERS, WORD, Definitions, Macro
from lemmata.latex.source import SHORT, read_argument, skip_blanks

_MOST_LOOPS = 100
_MOST_LETTERS = 5  # that a loop names before it uses them
_MOST_VALUES = 300  # of one loop
_LONGEST_BODY = 10_000  # characters of what a loop repeats
_GROWTH = 1_000_000  # characters that the loops of a text may write
_NAME = r"[^\\{}]{1,80}"
_BY_NAME = re.compile(
    rf"\\expandafter\s*(?:\\(?:global|long|protected)\s*\\expandafter\s*)?\\(?P<definer>{DEFINERS})(?P<star>\*?)\s*"
    rf"(?:\\expandafter\s*)?(?P<brace>\{{\s*)?(?:\\expandafter\s*)?"
    rf"\\csname(?![a-zA-Z@])(?P<name>{_NAME})\\endcsname(?(brace)\s*\}})"
    rf"|\\(?:@namedef|cs(?P<short>[gex]?def|let))\s*\{{(?P<short_name>{_NAME})\}}"
)
_NAMING = ("\\cs", "\\@namedef")  # how commands begin that name others; quick to look for
_DEFINES_ARGUMENT = re.compile(rf"\\(?:{DEFINERS})(?![a-zA-Z@])\*?\s*\{{?\s*(?:#[1-9]|\\csname(?![a-zA-Z@]))")
_LOOP = re.compile(r"\\(forcsvlist|docsvlist|@t?for|foreach|forLoop)(?![a-zA-Z@])")
_LOOPING = ("csvlist", "\\@", "\\foreach", "\\forLoop")
_EACH = re.compile(r"\s*\\([a-zA-Z@]+)\s*(?::=|in(?![a-zA-Z]))\s*")
_NUMBER = re.compile(r"\s*\{\s*(\d{1,3})\s*\}")
_EVALUATES = re.compile(r"\\(?:expandafter|noexpand)(?![a-zA-Z@])\s*")
_SET_LETTER = re.compile(r"\\[ex]def\s*(\\[a-zA-Z@]+)\s*\{\s*(\w+)\s*\}")
# \def\all#1{\ifx#1\all\else\make#1\expandafter\all\fi} takes one token after the other, up to itself.
_RECURSION = re.compile(
    r"\\def\s*\\(?P<name>[a-zA-Z@]+)\s*#1\s*\{\s*\\ifx\s*(?:#1\s*(?P<stop>\\[a-zA-Z@]+)|(?P<first>\\[a-zA-Z@]+)\s*#1)"
    r"\s*\\else(?![a-zA-Z])(?P<body>(?:(?!\\fi(?![a-zA-Z])).){1,500}?)\\expandafter\s*\\(?P=name)\s*\\fi\s*\}",
    re.DOTALL,
)

_TOKEN = re.compile(r"\{#1\}|#1")

Edit = tuple[int, int, str]


def plain_names(text: str) -> list[Edit]:
    r"""Definitions of a name in `\csname` as those of `{\name}`; a name with parameters stays in `{\csname…}`."""
    if not _has(_NAMING, text):
        return []
    return [(*match.span(), _plainly(match)) for match in _BY_NAME.finditer(text)]


def _plainly(match: re.Match[str]) -> str:
    name = (match["name"] or match["short_name"]).strip()
    control = f"\\{name}" if name.isalpha() and name.isascii() else f"\\csname {name}\\endcsname"
    return f"\\{match['definer'] or match['short'] or 'def'}{match['star'] or ''}{{{control}}}"


def _has(commands: Sequence[str], text: str) -> bool:
    return any(command in text for command in commands)


def generators(macros: Definitions) -> dict[str, Macro]:
    """The macros that define what their arguments name, and those that call them."""
    chosen = {name: macro for name, macro in macros.setters.items() if _DEFINES_ARGUMENT.search(macro.body)}
    for _ in range(3 if chosen else 0):
        for _, name, macro, _ in macros.entries:
            if macro and name not in chosen and not chosen.keys().isdisjoint(WORD.findall(macro.body)):
                chosen[name] = macro
    return chosen


def written_loops(text: str, names: Set[str]) -> list[Edit]:
    """Loops that define macros or call one of `names`, with their bodies written once for each value."""
    edits: list[Edit] = []
    growth = at = 0
    for begin, end, bodies in sorted(chain(_loops(text), _recursions(text))):
        written = "".join(bodies)
        growth += len(written)
        defines = _has(_NAMING, text[begin:end]) or not names.isdisjoint(WORD.findall(written))
        if begin >= at and growth < _GROWTH and defines:
            edits.append((begin, end, written))
            at = end
    return edits


def _loops(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """Where loops begin and end, with what each value makes of their bodies."""
    if not _has(_LOOPING, text):
        return
    for loop in islice(_LOOP.finditer(text), _MOST_LOOPS):
        name, at = loop[1], loop.end()
        if name == "forLoop":
            yield from _counted(text, loop.start(), at)
            continue
        if name.endswith("csvlist"):
            body = read_token(text, at, SHORT) if name == "forcsvlist" else ("\\do", at)
            values = read_argument(text, body[1], SHORT) if body else None
            if body and values:
                yield loop.start(), values[1], [f"{body[0]}{{{value}}}" for value in _listed(values[0])]
            continue
        each = _EACH.match(text, at)
        if each is None:
            continue
        if name == "foreach":
            values = read_argument(text, each.end(), SHORT)
        else:
            do = text.find("\\do", each.end(), each.end() + SHORT)
            values = (text[each.end() : do].strip().strip("{}"), do + 3) if do >= 0 else None
        body = read_argument(text, skip_blanks(text, values[1]), _LONGEST_BODY) if values else None
        if values and body:
            listed = split(values[0])[:_MOST_VALUES] if name == "@tfor" else _listed(values[0])
            variable = re.compile(rf"(\\[a-zA-Z@]+)?\\{each[1]}(?![a-zA-Z@])")  # what was apart stays apart
            yield loop.start(), body[1], [_evaluated(variable.sub(_after_word(v), body[0])) for v in listed]


def _counted(text: str, begin: int, at: int) -> Iterator[tuple[int, int, list[str]]]:
    r"""`\forLoop{1}{26}{counter}{… \Alph{counter} …}`."""
    first = _NUMBER.match(text, at)
    last = _NUMBER.match(text, first.end()) if first else None
    counter = read_argument(text, last.end(), SHORT) if last else None
    body = read_argument(text, counter[1], _LONGEST_BODY) if counter else None
    if not (first and last and counter and body):
        return
    named = rf"\s*{re.escape(counter[0])}\s*\}}"
    shown = re.compile(rf"\\([aA]lph|arabic)(?:[aA]lph)?\s*\{{(?:\s*\\value\s*\{{{named}\s*\}}|{named})")
    numbers = range(int(first[1]), min(int(last[1]), int(first[1]) + _MOST_VALUES) + 1)
    yield begin, body[1], [_evaluated(shown.sub(_shape_of(number), body[0])) for number in numbers]


def _shape_of(number: int) -> Callable[[re.Match[str]], str]:
    letter = ascii_lowercase[number - 1] if 0 < number <= 26 else str(number)
    shapes = {"alph": letter, "Alph": letter.upper(), "arabic": str(number)}
    return lambda match: shapes[match[1]]


def _recursions(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """Calls of macros that take one token after the other."""
    if "\\ifx" not in text:
        return
    for recursion in islice(_RECURSION.finditer(text), _MOST_LOOPS):
        stop = recursion["stop"] or recursion["first"]
        call = re.compile(rf"\\{recursion['name']}(?![a-zA-Z@])([^\\#]{{1,{SHORT}}}?){re.escape(stop)}(?![a-zA-Z@])")
        for called in islice(call.finditer(text, recursion.end()), _MOST_LOOPS):
            values = split(called[1])[:_MOST_VALUES]
            yield (
                *called.span(),
                [_evaluated(_TOKEN.sub(_literally(f"{{{value}}}"), recursion["body"])) for value in values],
            )


def _listed(values: str) -> list[str]:
    """The values of a comma-separated list, ranges such as `A,...,Z` filled in."""
    listed: list[str] = []
    items = [item.strip() for item in values.split(",")][:_MOST_VALUES]
    for place, item in enumerate(items):
        if item in ("...", "\\ldots", "\\dots") and listed and place + 1 < len(items):
            first, last = listed[-1], items[place + 1]
            if len(first) == len(last) == 1:
                listed += map(chr, range(ord(first) + 1, min(ord(last), ord(first) + _MOST_VALUES)))
        elif item:
            listed.append(item)
    return listed


def _evaluated(body: str) -> str:
    r"""A body without what evaluates later: `\edef\letter{A}\expandafter\make\letter` is `\make{A}`."""
    body = _EVALUATES.sub("", _BY_NAME.sub(_plainly, body))
    for _ in range(_MOST_LETTERS):
        letter = _SET_LETTER.search(body)
        if letter is None:
            break
        used = re.compile(rf"{re.escape(letter[1])}(?![a-zA-Z@])")
        body = body[: letter.start()] + used.sub(_literally(f"{{{letter[2]}}}"), body[letter.end() :])
    return body


def _literally(value: str) -> Callable[[re.Match[str]], str]:
    return lambda _: value


def _after_word(value: str) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{match[1]} {value}" if match[1] else value
