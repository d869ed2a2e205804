r"""The macros that a paper defines, and their expansion within limits.

Not a TeX engine: macros that compute (`\csname`, `\ifx`, category codes, …) are left where they stand and
reported, and so is what grows or recurses past the limits.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from lemmata.latex.source import SHORT, match_brace, match_bracket, read_argument

__all__ = ["Definitions", "Macro", "expand", "read_definitions", "read_environments"]

_DEPTH = 40  # macros inside macros
_GROWTH = 200_000  # characters that one text may gain
_STEPS = 20_000  # expansions in one text


class Macro(NamedTuple):
    """What a control word stands for."""

    body: str
    arguments: int = 0
    default: str | None = None  # of the first argument, when that is optional
    template: tuple[str, ...] = ()  # delimiters of a \def: what stands before #1, between #1 and #2, ...
    star: bool = False  # whether a star may follow the name


# commands that the cleaner and the structure reader understand themselves: a paper that redefines one
# changes its looks, not its meaning
PROTECTED = frozenset(
    """
    begin end item label ref eqref cref Cref autoref pageref nameref hyperref vref cite citep citet nocite
    section subsection subsubsection paragraph subparagraph chapter part caption footnote emph textbf textit
    textrm textsf texttt textsc textup textsl underline mbox text title author date maketitle abstract input
    include bibitem bibliography bibliographystyle newblock documentclass documentstyle usepackage newtheorem
    newcommand renewcommand providecommand def let par left right frac sqrt sum int prod lim mathbb mathcal
    mathfrak mathrm mathbf mathit mathsf mathscr operatorname it bf rm em sl sc tt verb thanks appendix
    textcolor color href url noindent centering proof qed qedhere index keywords subjclass address email item
    """.split()
)
_COMPUTES = re.compile(
    r"\\(?:csname|expandafter|futurelet|catcode|if[a-zA-Z@]*|loop|@ifnextchar|@ifstar|afterassignment"
    r"|@for|numexpr|the|number|read|write|openout|special|directlua|let|[gex]?def)(?![a-zA-Z])"
)
# a symbol pieced together from others says more by its name than by its pieces
_DRAWS = re.compile(r"\\(?:mathchoice|kern|raise|lower|ooalign|halign|vcenter|setbox|special)(?![a-zA-Z])")
_DEFINING = re.compile(
    r"\\(?P<how>(?:re)?newcommand|providecommand|DeclareRobustCommand|(?:New|Renew|Provide|Declare)DocumentCommand"
    r"|DeclareMathOperator|DeclarePairedDelimiter|[gex]?def|let)(?![a-zA-Z@])(?P<star>\*?)"
)
_CONTROL_NAME = re.compile(r"\s*(?:\{\s*\\([a-zA-Z@]+|.)\s*\}|\\([a-zA-Z@]+|.))", re.DOTALL)
_COUNT = re.compile(r"\s*\[\s*(\d)\s*\]")
_LET = re.compile(r"\s*=?\s?(\\(?:[a-zA-Z@]+|.)|[^\s\\])", re.DOTALL)
_PARAMETERS = re.compile(r"[^{}\\]*(?:\\[a-zA-Z@]+|\\.)?[^{}\\]*", re.DOTALL)
_OPERATOR = re.compile(
    r"\\mathop\s*\{\s*\\(?:mathrm|rm|mathit|operatorname)\s*\{?\s*([a-zA-Z]+)\s*\}?\s*\}\s*(?:\\(?:no)?limits)?"
)
WORD = re.compile(r"\\([a-zA-Z@]+)")


@dataclass(slots=True)
class Definitions:
    """All definitions of a paper in order; `at` gives those in force at an offset."""

    entries: list[tuple[int, str, Macro | None, bool]] = field(default_factory=list)  # offset, name, macro, keep
    spans: list[tuple[int, int]] = field(default_factory=list)  # what they occupy in the text
    problems: dict[str, str] = field(default_factory=dict)  # name: why it is not expanded
    states: list[tuple[int, dict[str, Macro]]] = field(default_factory=list)

    def settle(self, body: int) -> None:
        """Fix what is in force where: one state for the preamble, one more after each change behind it."""
        current: dict[str, Macro] = {}
        self.states = [(0, current)]
        for offset, name, macro, keep in self.entries:
            if macro is None or (keep and name in current):
                continue
            if (alias := WORD.fullmatch(macro.body)) and not (macro.arguments or macro.template):
                target = current.get(alias[1])
                if target is not None and (target.arguments or target.template):
                    macro = target  # only so can it take arguments
            if current.get(name) == macro:
                continue
            if offset > body and len(self.states) < 500:
                current = dict(current)
                self.states.append((offset, current))
            current[name] = macro

    def at(self, offset: int) -> dict[str, Macro]:
        """The macros that are in force at an offset."""
        if not self.states:
            return {}
        return self.states[max(0, bisect_right(self.states, offset, key=lambda state: state[0]) - 1)][1]


def _mandatory(text: str, start: int) -> tuple[str, int] | None:
    """A braced argument, or the one token that stands for it."""
    found = read_argument(text, start)
    if found is not None:
        return found
    token = re.compile(r"\s*(\\(?:[a-zA-Z@]+|.)|[^\s{}\\])", re.DOTALL).match(text, start)
    return (token[1], token.end()) if token else None


def _document_command(spec: str, body: str) -> Macro | None:
    """A macro from the argument specification of xparse; only the simple kinds."""
    kinds = re.findall(r"[a-zA-Z](?:\{[^{}]*\})?", spec.replace("+", "").replace(" ", ""))
    star = bool(kinds) and kinds[0] == "s"
    if star:
        kinds = kinds[1:]
        shifted = re.sub(r"#([2-9])", lambda m: f"#{int(m[1]) - 1}", body)
        body = re.sub(r"\\IfBooleanTF\s*#1|\\IfBooleanT\s*#1|\\IfBooleanF\s*#1", "", shifted)
    default: str | None = None
    if kinds and kinds[0][0] in "oO":
        default = kinds[0][2:-1] if kinds[0][0] == "O" else ""
    if any(kind[0] != "m" for kind in kinds[1 if default is not None else 0 :]):
        return None
    return Macro(body, len(kinds), default, star=star)


def _simplify(body: str) -> str:
    body = body.replace("\\xspace}", "}")  # inside a group it does nothing
    return _OPERATOR.sub(r"\\operatorname{\1}", body) if "\\mathop" in body else body


def read_definitions(text: str) -> Definitions:
    r"""Every `\newcommand`, `\def`, `\let`, `\DeclareMathOperator`, … of a text, in order."""
    found = Definitions()
    failures = scan = 0
    while failures < 50:  # a definition that never closes costs a look to the end; hostile text has many
        match = _DEFINING.search(text, scan)
        if match is None:
            break
        begin, scan = match.span()
        named = _CONTROL_NAME.match(text, scan)
        if named is None:
            continue
        name, end = named[1] or named[2], named.end()
        how = match["how"]
        macro, end, problem = _read_macro(text, how, end)
        if how.startswith("DeclareMathOperator") and macro is not None:
            macro = Macro(("\\operatorname*{" if match["star"] else "\\operatorname{") + macro.body + "}")
        if end < 0:
            failures += 1
            found.problems.setdefault(name, problem or "its definition never ends")
            continue
        scan = end
        found.spans.append((begin, end))
        if name in PROTECTED or not name[0].isalpha():
            continue
        if macro is not None and _COMPUTES.search(macro.body):
            macro, problem = None, "it computes"
        elif macro is not None and _DRAWS.search(macro.body):
            macro, problem = None, "it draws a symbol"
        if problem:
            found.problems.setdefault(name, problem)
        found.entries.append((begin, name, macro, how.startswith(("provide", "Provide"))))
    return found


def _read_macro(text: str, how: str, end: int) -> tuple[Macro | None, int, str]:
    """The macro whose name ends at `end`, the offset behind its definition (-1: none), and what is wrong."""
    if how == "let":
        target = _LET.match(text, end)
        if target is None:
            return None, -1, ""
        return Macro(target[1]), target.end(), ""
    if how == "DeclarePairedDelimiter":  # \name{...}, \name*{...} and \name[\big]{...}
        left = _mandatory(text, end)
        right = _mandatory(text, left[1]) if left else None
        if left is None or right is None:
            return None, -1, ""
        return Macro(f"{left[0]} #2 {right[0]}", 2, "", star=True), right[1], ""
    if how.endswith("DocumentCommand"):
        spec = read_argument(text, end)
        body = read_argument(text, spec[1]) if spec else None
        if spec is None or body is None:
            return None, -1, ""
        macro = _document_command(spec[0], _simplify(body[0]))
        return macro, body[1], "" if macro else "its arguments are of an unknown kind"
    if how.endswith("def"):
        parameters = _PARAMETERS.match(text, end)
        assert parameters is not None  # it matches the empty string
        body = read_argument(text, parameters.end())
        if body is None:
            return None, -1, ""
        signature = parameters[0]
        count = len(re.findall(r"#\d", signature))
        plain = re.sub(r"\s", "", signature) == "".join(f"#{n + 1}" for n in range(count))
        template = () if plain else tuple(re.split(r"#\d", signature))
        return Macro(_simplify(body[0]), count, None, template), body[1], ""
    arguments = _COUNT.match(text, end)
    default = None
    if arguments:
        end = arguments.end()
        blank = re.compile(r"\s*").match(text, end)
        at = blank.end() if blank else end
        if text[at : at + 1] == "[":
            close = match_bracket(text, at)
            if close < 0:
                return None, -1, ""
            default, end = text[at + 1 : close - 1], close
    body = _mandatory(text, end)
    if body is None:
        return None, -1, ""
    return Macro(_simplify(body[0]), int(arguments[1]) if arguments else 0, default), body[1], ""


_ENVIRONMENT = re.compile(r"\\(?:re)?newenvironment\*?(?![a-zA-Z])")


def read_environments(text: str) -> tuple[dict[str, str], list[tuple[int, int]]]:
    r"""What each `\newenvironment` puts at its beginning, by name, and the spans of the definitions."""
    opening: dict[str, str] = {}
    spans: list[tuple[int, int]] = []
    failures = 0
    for match in _ENVIRONMENT.finditer(text):
        if failures == 50 or len(spans) == 2000:
            break
        named = read_argument(text, match.end(), SHORT)
        if named is None:
            continue
        end = named[1]
        for _ in range(2):
            blank = re.compile(r"\s*").match(text, end)
            at = blank.end() if blank else end
            if text[at : at + 1] == "[" and (close := match_bracket(text, at)) > 0:
                end = close
        begin = read_argument(text, end)
        finish = read_argument(text, begin[1]) if begin else None
        if begin is not None and finish is not None:
            opening[named[0].strip()] = begin[0]
            spans.append((match.start(), finish[1]))
        else:
            failures += 1
    return opening, spans


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _argument(text: str, at: int) -> tuple[str, int] | None:
    at = _skip_blanks(text, at)
    if at >= len(text):
        return None
    if text[at] == "{":
        end = match_brace(text, at, at + 20_000)
        return None if end < 0 else (text[at + 1 : end - 1], end)
    if text[at] == "\\":
        word = re.compile(r"\\(?:[a-zA-Z@]+|.)", re.DOTALL).match(text, at)
        return (word[0], word.end()) if word else None
    return None if text[at] == "}" else (text[at], at + 1)


def _arguments(macro: Macro, text: str, at: int) -> tuple[list[str], int] | None:
    """The arguments of a call whose name ends at `at`, and the offset behind them."""
    values: list[str] = []
    if macro.star and text[at : at + 1] == "*":
        at += 1
    if macro.template:
        lead = macro.template[0]
        if not lead[:1].isspace():
            at = _skip_blanks(text, at)
        if not text.startswith(lead, at):
            return None
        at += len(lead)
        for delimiter in macro.template[1:]:
            if delimiter.strip():
                end = text.find(delimiter, at, at + 20_000)
                if end < 0:
                    return None
                values.append(text[at:end])
                at = end + len(delimiter)
            else:
                argument = _argument(text, at)
                if argument is None:
                    return None
                values.append(argument[0])
                at = argument[1]
        return values, at
    if macro.default is not None:
        blank = _skip_blanks(text, at)
        close = match_bracket(text, blank) if text[blank : blank + 1] == "[" else -1
        values.append(macro.default if close < 0 else text[blank + 1 : close - 1])
        at = at if close < 0 else close
    while len(values) < macro.arguments:
        argument = _argument(text, at)
        if argument is None:
            return None
        values.append(argument[0])
        at = argument[1]
    return values, at


_ENDS_IN_WORD = re.compile(r"\\[a-zA-Z@]+$")


def _join(pieces: Iterable[str]) -> str:
    """The pieces in one, with a blank where a control word would run into the letters behind it."""
    joined: list[str] = []
    for piece in filter(None, pieces):
        if joined and piece[0].isalpha() and _ENDS_IN_WORD.search(joined[-1][-60:]):
            joined.append(" ")
        joined.append(piece)
    return "".join(joined)


def _substitute(body: str, values: Sequence[str]) -> str:
    """A macro's body with its arguments in place."""
    parts = re.split(r"#([1-9])", body)
    parts[1::2] = (values[int(n) - 1] if int(n) <= len(values) else "" for n in parts[1::2])
    return _join(parts)


@lru_cache(maxsize=64)
def _calls(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile(r"\\(" + "|".join(map(re.escape, sorted(names))) + r")(?![a-zA-Z@])")


class _Expansion:
    def __init__(self, macros: Mapping[str, Macro], problems: dict[str, str], room: int) -> None:
        self.macros = macros
        # few names are looked for themselves, many among all control words: whichever is faster
        self.calls = _calls(frozenset(macros)) if len(macros) < 60 else WORD
        self.problems = problems
        self.room = room
        self.steps = _STEPS
        self.active: list[str] = []

    def inner(self, name: str, value: str) -> str:
        """An argument of `name`; calls in it of what is being expanded are no recursion, and come first."""
        if "\\" in value and any(word == name or word in self.active for word in WORD.findall(value)):
            return self.run(value)
        return value

    def run(self, text: str) -> str:
        pieces: list[str] = []
        position = 0
        for found in self.calls.finditer(text):
            begin, end = found.span()
            name = found[1]
            macro = self.macros.get(name)
            if macro is None or begin < position:
                continue
            if name in self.active or len(self.active) >= _DEPTH:
                self.problems.setdefault(name, "it calls itself")
                continue
            if self.steps <= 0 or self.room <= 0:
                self.problems.setdefault(name, "it grows past the limit")
                continue
            self.steps -= 1
            if macro.arguments or macro.template or macro.star:
                call = _arguments(macro, text, end)
                if call is None:
                    self.problems.setdefault(name, "its arguments could not be found")
                    self.steps -= 100  # the look for them may have been long
                    continue
                values, end = call
                values = [self.inner(name, value) for value in values]
                body = _substitute(macro.body, values)
            else:
                body = macro.body
                while end < len(text) and text[end] in " \t":  # TeX swallows blanks behind a control word
                    end += 1
            self.room -= len(body)
            if self.room <= 0:
                self.problems.setdefault(name, "it grows past the limit")
                continue
            if "\\" in body:
                self.active.append(name)
                body = self.run(body)
                self.active.pop()
            if body.endswith("\\xspace") and end < len(text):  # else who called decides
                body = body[:-7] + ("" if text[end : end + 1] in ".,;:!?)'-/~}" else " ")
            pieces += (text[position:begin], body)
            position = end
        if not pieces:
            return text
        pieces.append(text[position:])
        return _join(pieces)


def expand(text: str, macros: Mapping[str, Macro], problems: dict[str, str] | None = None) -> str:
    """A text with all calls of `macros` replaced; what can not be is left, its name goes into `problems`.

    The result has at most 200,000 characters more than the text.
    """
    if not macros or "\\" not in text:
        return text
    return _Expansion(macros, {} if problems is None else problems, _GROWTH).run(text)


_CARRIES = re.compile(r"\\(?:begin|end)\s*\{([^{}]*)\}|\\(?:sub)*section(?![a-zA-Z])|\\label\s*\{")


def structural(macros: Mapping[str, Macro], names: Collection[str]) -> dict[str, Macro]:
    r"""The macros that open or close environments, sections or labels, such as `\def\bthm{\begin{theorem}}`.

    They must be replaced before the structure is read; `names` are the environments that matter.
    """
    chosen = {
        name: macro
        for name, macro in macros.items()
        if any(found[1] is None or found[1] in names for found in _CARRIES.finditer(macro.body))
    }
    for _ in range(3 if chosen else 0):  # and those that call them
        for name, macro in macros.items():
            if name not in chosen and any(word in chosen for word in WORD.findall(macro.body)):
                chosen[name] = macro
    return chosen
