r"""Statements that are written as calls of a macro: `\exercise{…}`, where the macro steps a counter.

They are rewritten as environments, `\begin{exercise}…\end{exercise}`, that open with what the macro prints before its
last argument. Structure and numbers are then read as those of any other environment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lemmata.latex.arguments import Argument, read_values
from lemmata.latex.clean import plain
from lemmata.latex.commands import BEGIN, MOST_FAILURES
from lemmata.latex.expand import WORD, Definitions, Macro, Opening, expand
from lemmata.latex.kinds import LONGEST_OPENING, STATEMENTS, Kind, kind_of_environment, kind_of_wrapper
from lemmata.latex.source import SHORT, read_argument

_LONG = 100  # characters that no title has
_SENTENCE_END = re.compile(r"[.?!][^\w]{0,10}$")
_REACH = 300  # characters before a call that may announce it: "Exercises"
_MOST_CALLS = 500  # that are judged
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


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


def _opening(macro: Macro, stepping: Mapping[str, Macro]) -> str:
    """What a macro prints before its last argument; empty unless it steps a counter there and ends in that text."""
    before, parameter, after = macro.body.partition(f"#{len(macro.arguments)}")
    is_simple = parameter and not macro.template and macro.arguments[-1][0] == "m" and len(before) <= LONGEST_OPENING
    if not is_simple or any(kind not in ("m", "o") for kind, _ in macro.arguments) or "#" in after:
        return ""
    if "stepcounter" in after or ("stepcounter" not in before and stepping.keys().isdisjoint(WORD.findall(before))):
        return ""
    groups: list[int] = []
    for brace in _BRACE.finditer(before):
        if brace[0] == "{":
            groups.append(brace.start())
        elif brace[0] == "}" and groups:
            groups.pop()
    is_argument = any(
        (before[:at].rstrip()[-1:] or " ") in "*]}" or before[:at].rstrip()[-1:].isalpha() for at in groups
    )
    return "" if is_argument else before.replace("\\stepcounter", "\\refstepcounter")


def read_calls_of_statements(
    text: str, body: int, definitions: Definitions, environments: Mapping[str, Opening], kinds: Mapping[str, Kind]
) -> dict[str, Kind]:
    r"""The macros whose calls are statements, by name; also environments that are only called as `\name{…}`.

    Their last argument is text, not a title, and the kind is that which the macro names or prints, or which stands
    before the calls ("Exercises").
    """
    macros = definitions.everything()
    stepping = {name: macro for name, macro in macros.items() if "stepcounter" in macro.body}
    callable_macros = {**stepping, **{name: Macro(*opening) for name, opening in environments.items()}}
    if stepping:
        callable_macros |= {
            name: m for name, m in macros.items() if not stepping.keys().isdisjoint(WORD.findall(m.body))
        }
    chosen: dict[str, Kind] = {}
    for name, macro in callable_macros.items():
        opening = _opening(macro, stepping) if macro.arguments and name.isalpha() else ""
        if not opening or any(begun in kinds for begun in BEGIN.findall(macro.body)):
            continue
        if re.search(rf"\\begin\s*\{{{name}\}}", text[body:]):
            continue
        calls = [call for call, _ in zip(_calls(text, body, name, macro.arguments), range(_MOST_CALLS), strict=False)]
        is_text = [len(call.argument) > _LONG or _SENTENCE_END.search(call.argument.strip()) for call in calls]
        if not calls or 2 * sum(map(bool, is_text)) < len(calls):
            continue
        kind = kind_of_wrapper(name, expand(opening, macros), kinds)
        kind = kind if kind in STATEMENTS else _announced(text, body, calls, definitions)
        if kind:
            chosen[name] = Kind(kind, "call", opening=Opening(opening, macro.arguments[:-1]))
    return chosen


def _announced(text: str, body: int, calls: list[_Call], definitions: Definitions) -> str:
    """The kind that the words before the calls name, where half of those that follow words agree."""
    announced: Counter[str] = Counter()
    previous = body
    for call in calls:
        before = text[max(previous, call.begin - _REACH) : call.begin].strip()
        words = re.findall(r"[^\W\d_]+", plain(expand(before, definitions.at(call.begin)))) if before else []
        announced.update(kind_of_environment(word) for word in words[-1:])
        previous = call.end
    kind, count = max(announced.items(), key=lambda item: item[1], default=("", 0))
    return kind if kind in STATEMENTS and 2 * count >= announced.total() else ""


def calls_as_environments(text: str, body: int, chosen: Mapping[str, Kind]) -> list[tuple[int, int, str]]:
    r"""Edits that write `\name[…]{text}` as `\begin{name}[…]text\end{name}`, in any order.

    A text that begins with a bracket gets an empty group in front, so that it is not taken for an option.
    """
    edits = []
    for name, kind in chosen.items():
        for call in _calls(text, body, name, (*kind.opening.arguments, ("m", ""))):
            brace = call.end - 2 - len(call.argument)
            edits += (
                (call.begin, call.name_end, f"\\begin{{{name}}}"),
                (brace, brace + 1, "{}" if call.argument.lstrip().startswith("[") else ""),
                (call.end - 1, call.end, f"\\end{{{name}}}"),
            )
    return edits
