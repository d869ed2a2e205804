r"""Statements that are written as calls of a macro: `\exercise{…}`, where the macro steps a counter.

They are rewritten as environments, `\begin{exercise}…\end{exercise}`, that open with what the macro prints before its
last argument. Structure and numbers are then read as those of any other environment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from lemmata.latex.arguments import Argument, read_values
from lemmata.latex.clean import plain
from lemmata.latex.commands import BEGIN, MOST_FAILURES
from lemmata.latex.expand import WORD, Definitions, Macro, Opening, expand
from lemmata.latex.kinds import (
    COMPUTED_REFERENCE,
    LONGEST_OPENING,
    STATEMENTS,
    Kind,
    kind_of_environment,
    kind_of_wrapper,
)
from lemmata.latex.source import SHORT, read_argument, skip

_LONG = 100  # characters that no title has
_SENTENCE_END = re.compile(r"[.?!][^\w]{0,10}$")
_REACH = 300  # characters before a call that may announce it: "Exercises"
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_LONGEST_HEADING = 4  # words
_MOST_CALLS = 100  # of a macro that are judged
_MOST_MACROS = 100
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_STEPS = re.compile(r"\\(?:ref)?stepcounter\s*\{[^{}]*\}(?:\s*\\label\s*\{(?:[^{}]|\{[^{}]*\})*\})?")
_LABELS = re.compile(r"(?:[ \t]*\n?[ \t]*\\label\s*\{[^{}\n]{0,200}\})+")
_NEAR = 40  # characters before a brace that may be a command
_COMMAND_END = re.compile(r"[a-zA-Z*\]}]\s*\Z")
_FONT = re.compile(r"\{\s*\\(?:normalsize|small|footnotesize|normalfont|rm|it|sl|itshape|slshape)(?![a-zA-Z])")


class _Call(NamedTuple):
    begin: int
    name_end: int
    argument: str  # the last one
    end: int


def _calls(text: str, start: int, name: str, arguments: tuple[Argument, ...]) -> Iterator[_Call]:
    """The calls of a macro, none inside another one; those with a missing argument are left out."""
    pattern = re.compile(rf"\\{name}(?![a-zA-Z@])")
    failures, at = 0, start
    while failures < MOST_FAILURES and (call := pattern.search(text, at)):
        values, at = read_values(text, call.end(), arguments[:-1], SHORT)
        last = read_argument(text, at) if len(values) == len(arguments) - 1 else None
        if last is None:
            failures, at = failures + 1, call.end()
        else:
            at = last[1]
            yield _Call(call.start(), call.end(), *last)


def _opening(name: str, macro: Macro, stepping: Mapping[str, Macro]) -> str:
    """What a macro prints before its last argument; empty unless it steps a counter there, or is a solution."""
    before, parameter, after = macro.body.partition(f"#{len(macro.arguments)}")
    is_simple = parameter and not macro.template and macro.arguments[-1][0] == "m" and len(before) <= LONGEST_OPENING
    if not is_simple or any(kind not in ("m", "o") for kind, _ in macro.arguments) or "#" in after:
        return ""
    is_stepping = "stepcounter" in before or not stepping.keys().isdisjoint(WORD.findall(before))
    if not is_stepping and not (before.strip() and kind_of_environment(name) == "solution"):
        return ""
    return "" if _is_in_argument(before) else before.replace("\\stepcounter", "\\refstepcounter")


def _is_in_argument(before: str) -> bool:
    r"""Whether what follows is an argument, as after `\textbf{`; text may stand in a group: `\textbf{1} {\small `."""
    groups: list[int] = []
    for brace in _BRACE.finditer(before):
        if brace[0] == "{":
            groups.append(brace.start())
        elif brace[0] == "}" and groups:
            groups.pop()
    ends = ((_COMMAND_END.search(before, max(0, at - _NEAR), at), _FONT.match(before, at)) for at in groups)
    return any(end and not (font and end[0][0] == "}") for end, font in ends)


def read_calls_of_statements(
    text: str, body: int, definitions: Definitions, environments: Mapping[str, Opening], kinds: Mapping[str, Kind]
) -> dict[str, Kind]:
    r"""The macros whose calls are statements, by name; also environments that are only called as `\name{…}`.

    Their last argument is text, not a title, and the kind is that which the macro names or prints, or which stands
    before the calls ("Exercises").
    """
    macros = definitions.everything()
    stepping = {name: macro for name, macro in macros.items() if "stepcounter" in macro.body}
    solving = {name: macro for name, macro in macros.items() if kind_of_environment(name) == "solution"}
    callable_macros = {**solving, **stepping, **{name: Macro(*opening) for name, opening in environments.items()}}
    if stepping:
        callable_macros |= {
            name: m for name, m in macros.items() if not stepping.keys().isdisjoint(WORD.findall(m.body))
        }
    openings = {
        name: (_opening(name, macro, stepping), macro)
        for name, macro in callable_macros.items()
        if macro.arguments and name.isalpha() and text.find(f"\\{name}", body) >= 0
    }
    chosen: dict[str, Kind] = {}
    for name, (opening, macro) in islice(((n, o) for n, o in openings.items() if o[0]), _MOST_MACROS):
        begun = BEGIN.findall(macro.body)
        if not kinds.keys().isdisjoint(begun) or re.compile(rf"\\begin\s*\{{{name}\}}").search(text, body):
            continue
        calls = list(islice(_calls(text, body, name, macro.arguments), _MOST_CALLS))
        is_text = [len(call.argument) > _LONG or _SENTENCE_END.search(call.argument.strip()) for call in calls]
        if not calls or 2 * sum(map(bool, is_text)) < len(calls):
            continue
        kind = kind_of_wrapper(name, expand(opening, macros), kinds)
        if kind != "solution":
            kind = kind if kind in STATEMENTS else _announced(text, body, calls, definitions)
        if not kind and COMPUTED_REFERENCE.search(opening):
            kind = "solution"  # it opens with the number of an exercise
        if kind:
            closing = "".join(_STEPS.findall(macro.body.rpartition(f"#{len(macro.arguments)}")[2]))
            chosen[name] = Kind(kind, "call", opening=Opening(opening, macro.arguments[:-1]), closing=closing)
    return chosen


def _announced(text: str, body: int, calls: list[_Call], definitions: Definitions) -> str:
    """The kind that short paragraphs before the calls name at their end, where half of the paragraphs agree."""
    announced: Counter[str] = Counter()
    previous = body
    for call in calls:
        before = _PARAGRAPH.split(text[max(previous, call.begin - _REACH) : call.begin].rstrip())[-1]
        words = re.findall(r"[^\W\d_]+", plain(expand(before, definitions.at(call.begin))[-SHORT:])) if before else []
        announced.update(kind_of_environment(word) if len(words) <= _LONGEST_HEADING else "" for word in words[-1:])
        previous = call.end
    kind, count = max(announced.items(), key=lambda item: item[1], default=("", 0))
    return kind if kind in STATEMENTS and 2 * count >= announced.total() else ""


def calls_as_environments(text: str, body: int, chosen: Mapping[str, Kind]) -> list[tuple[int, int, str]]:
    r"""Edits that write `\name[…]{text}` as `\begin{name}[…]text\end{name}`, in any order.

    A text that begins with a bracket gets an empty group in front, so that it is not taken for an option. Labels
    right after the call have its number, and go into the environment.
    """
    edits: list[tuple[int, int, str]] = []
    for name, kind in chosen.items():
        for call in _calls(text, body, name, (*kind.opening.arguments, ("m", ""))):
            brace = call.end - 2 - len(call.argument)
            end = skip(_LABELS, text, call.end)
            edits += (
                (call.begin, call.name_end, f"\\begin{{{name}}}"),
                (brace, brace + 1, "{}" if call.argument.lstrip().startswith("[") else ""),
                (call.end - 1, end, f"{text[call.end : end]}\\end{{{name}}}{kind.closing}"),
            )
    return edits
