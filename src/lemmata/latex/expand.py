r"""Read the macros that a paper defines, and expand them within limits.

Not a TeX engine: macros that compute (`\csname`, `\ifx`, category codes, …) and macros that grow or recurse past
the limits are left in the text and reported.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lemmata.latex.source import SHORT, read_argument, read_optional, runs_into, skip, skip_blanks

_DEPTH = 40  # macros inside macros
_GROWTH = 200_000  # characters that a text may gain
_EXPANSIONS = 20_000  # in one text
_REACH = 20_000  # characters to search for the end of an argument of a call
_BODY_REACH = 100_000  # the same for the body of a definition


class Macro(NamedTuple):
    """The definition of a control word."""

    body: str
    arguments: int = 0
    default: str | None = None  # of the first argument, where that is optional
    template: tuple[str, ...] = ()  # delimiters of a \def: the text before #1, between #1 and #2, ...
    star: bool = False  # whether a star may follow the name


# Commands that the cleaner and the structure reader understand: a paper that redefines one changes its looks, not
# its meaning.
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
# The name of a symbol that is drawn from others says more than its pieces.
_DRAWS = re.compile(r"\\(?:mathchoice|kern|raise|lower|ooalign|halign|vcenter|setbox|special)(?![a-zA-Z])")
_DEFINING = re.compile(
    r"\\(?P<command>(?:re)?newcommand|providecommand|DeclareRobustCommand|(?:New|Renew|Provide|Declare)DocumentCommand"
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
    """All definitions of a paper in order; `at` gives those that are valid at an offset."""

    entries: list[tuple[int, str, Macro | None, bool]] = field(default_factory=list)  # offset, name, macro, keep older
    spans: list[tuple[int, int]] = field(default_factory=list)  # of the definitions in the text
    problems: dict[str, str] = field(default_factory=dict)  # name: why it is not expanded
    states: list[tuple[int, dict[str, Macro]]] = field(default_factory=lambda: [(0, {})])

    def settle(self, body: int) -> None:
        """Compute the states: one for the preamble, and one more after each change in the body."""
        current: dict[str, Macro] = {}
        self.states = [(0, current)]
        for offset, name, macro, keep in self.entries:
            if macro is None or (keep and name in current):
                continue
            if (alias := WORD.fullmatch(macro.body)) and not (macro.arguments or macro.template):
                target = current.get(alias[1])
                if target is not None and (target.arguments or target.template):
                    macro = target  # it takes the arguments of its target
            if current.get(name) == macro:
                continue
            if offset > body and len(self.states) < 500:
                current = dict(current)
                self.states.append((offset, current))
            current[name] = macro

    def at(self, offset: int) -> dict[str, Macro]:
        """The macros that are valid at an offset."""
        return self.states[bisect_right(self.states, offset, key=lambda state: state[0]) - 1][1]


_ONE_TOKEN = re.compile(r"\s*(\\(?:[a-zA-Z@]+|.)|[^\s{}\\])", re.DOTALL)


def _argument(text: str, at: int, reach: int = _BODY_REACH) -> tuple[str, int] | None:
    """A braced argument or the single token in its place, and the offset after it."""
    at = skip_blanks(text, at)
    if argument := read_argument(text, at, reach):
        return argument
    token = _ONE_TOKEN.match(text, at)
    return (token[1], token.end()) if token else None


def _document_command(spec: str, body: str) -> Macro | None:
    """A macro from an argument specification of xparse; None where it has other than simple arguments."""
    kinds = re.findall(r"[a-zA-Z](?:\{[^{}]*\})?", spec.replace("+", "").replace(" ", ""))
    star = kinds[:1] == ["s"]
    if star:
        kinds = kinds[1:]
        shifted = re.sub(r"#([2-9])", lambda m: f"#{int(m[1]) - 1}", body)
        body = re.sub(r"\\IfBoolean(?:TF|T|F)\s*#1", "", shifted)
    default: str | None = None
    if kinds and kinds[0][0] in "oO":
        default = kinds[0][2:-1] if kinds[0][0] == "O" else ""
    if any(kind[0] != "m" for kind in kinds[default is not None :]):
        return None
    return Macro(body, len(kinds), default, star=star)


def _simplify(body: str) -> str:
    body = body.replace("\\xspace}", "}")  # inside a group it does nothing
    return _OPERATOR.sub(r"\\operatorname{\1}", body) if "\\mathop" in body else body


def read_definitions(text: str) -> Definitions:
    r"""Every `\newcommand`, `\def`, `\let`, `\DeclareMathOperator`, … of a text, in order."""
    definitions = Definitions()
    failures = scan = 0
    # A definition that never closes costs a search to the end; hostile text has many.
    while failures < 50 and (match := _DEFINING.search(text, scan)):
        begin, scan = match.span()
        control = _CONTROL_NAME.match(text, scan)
        if control is None:
            continue
        name, command = control[1] or control[2], match["command"]
        definition = _read_macro(text, command, control.end())
        if definition is None:
            failures += 1
            definitions.problems.setdefault(name, "its definition never ends")
            continue
        macro, scan = definition
        problem = "" if macro else "its arguments are of an unknown kind"
        if command == "DeclareMathOperator" and macro is not None:
            macro = Macro(f"\\operatorname{match['star']}{{{macro.body}}}")
        definitions.spans.append((begin, scan))
        if name in PROTECTED or not name[0].isalpha():
            continue
        if macro is not None and _COMPUTES.search(macro.body):
            macro, problem = None, "it computes"
        elif macro is not None and _DRAWS.search(macro.body):
            macro, problem = None, "it draws a symbol"
        if problem:
            definitions.problems.setdefault(name, problem)
        definitions.entries.append((begin, name, macro, command.startswith(("provide", "Provide"))))
    return definitions


def _read_macro(text: str, command: str, end: int) -> tuple[Macro | None, int] | None:
    """The macro whose name ends at `end`, and the offset after its definition; None where that never ends.

    The macro is None where its arguments are of an unknown kind.
    """
    if command == "let":
        target = _LET.match(text, end)
        return (Macro(target[1]), target.end()) if target else None
    if command == "DeclarePairedDelimiter":  # \name{...}, \name*{...} and \name[\big]{...}
        left = _argument(text, end)
        right = _argument(text, left[1]) if left else None
        return (Macro(f"{left[0]} #2 {right[0]}", 2, "", star=True), right[1]) if left and right else None
    if command.endswith("DocumentCommand"):
        spec = read_argument(text, end)
        body = read_argument(text, spec[1]) if spec else None
        return (_document_command(spec[0], _simplify(body[0])), body[1]) if spec and body else None
    count = 0
    default: str | None = None
    template: tuple[str, ...] = ()
    if command.endswith("def"):
        signature = text[end : skip(_PARAMETERS, text, end)]
        count = len(re.findall(r"#\d", signature))
        simple = re.sub(r"\s", "", signature) == "".join(f"#{n + 1}" for n in range(count))
        template = () if simple else tuple(re.split(r"#\d", signature))
        body = read_argument(text, end + len(signature))
    else:
        if arguments := _COUNT.match(text, end):
            count, end = int(arguments[1]), arguments.end()
            if text.startswith("[", skip_blanks(text, end)):
                optional = read_optional(text, end)
                if optional is None:
                    return None
                default, end = optional
        body = _argument(text, end)
    return (Macro(_simplify(body[0]), count, default, template), body[1]) if body else None


class Opening(NamedTuple):
    r"""What an environment puts at its beginning, with the arguments of its `\begin`."""

    text: str
    arguments: tuple[tuple[str, str], ...] = ()  # type as in xparse (m, o, g, t* or d()), default


NO_VALUE = "-NoValue-"  # an optional argument without default that is not given
_ENVIRONMENT = re.compile(
    r"\\(?:(?P<plain>(?:(?:re)?new|provide)environment\*?)|(?P<xparse>(?:New|Renew|Provide|Declare)DocumentEnvironment)"
    r"|(?P<box>(?:re)?newtcolorbox|newtcbox)|(?P<xparsebox>(?:New|Renew|Provide|Declare)TColorBox))(?![a-zA-Z])"
)
_XPARSE_ARGUMENT = re.compile(
    r"(?:[+!]|>\s*\{[^{}]*\}|\s)*+(?:(?P<delimited>[dDrR])\s*(?P<delimiters>\S\s*\S)|t\s*(?P<token>\S)|(?P<simple>[a-zA-Z]))"
    r"(?:\s*\{(?P<default>[^{}]*)\})?"
)


def _xparse_arguments(spec: str) -> tuple[tuple[str, str], ...]:
    """The arguments of a specification; none where it has embellishments or other rare ones."""
    arguments = []
    for match in _XPARSE_ARGUMENT.finditer(spec):
        kind = match["simple"] or match["delimited"] or "t"
        default = (match["default"] or "") if kind.isupper() else NO_VALUE
        if match["delimited"]:
            arguments.append(("d" + "".join(match["delimiters"].split()), default))
        elif kind in "oOgG":
            arguments.append((kind.lower(), default))
        elif kind in "ts":
            arguments.append(("t" + (match["token"] or "*"), ""))
        elif kind == "m":
            arguments.append((kind, ""))
        elif kind != "b":  # the body is not an argument of \begin
            return ()
    return tuple(arguments[:9])


def read_environments(text: str) -> tuple[dict[str, Opening], list[tuple[int, int]]]:
    r"""The openings of the environments that a text defines, by name, and the spans of the definitions.

    A coloured box opens a `tcolorbox` with its options.
    """
    openings: dict[str, Opening] = {}
    spans: list[tuple[int, int]] = []
    failures = 0
    for match in _ENVIRONMENT.finditer(text):
        if failures == 50 or len(spans) == 2000:
            break
        is_box = match.lastgroup in ("box", "xparsebox")
        _, end = read_optional(text, match.end()) or ("", match.end()) if is_box else ("", match.end())
        name = read_argument(text, end, SHORT)
        if name is None:
            continue
        end = name[1]
        arguments: tuple[tuple[str, str], ...] = ()
        if match.lastgroup in ("xparse", "xparsebox"):
            spec = read_argument(text, end, SHORT)
            arguments, end = (_xparse_arguments(spec[0]), spec[1]) if spec else ((), end)
        else:
            count = _COUNT.match(text, end)
            default = read_optional(text, count.end()) if count else None
            if count:
                end = default[1] if default else count.end()
                arguments = (("m", ""),) * int(count[1])
                arguments = (("o", default[0]), *arguments[1:]) if default else arguments
        opening = read_argument(text, end)
        closing = read_argument(text, opening[1]) if opening and not is_box else opening
        if opening is not None and closing is not None:
            content = f"\\begin{{tcolorbox}}[{opening[0]}]" if is_box else opening[0]
            openings[name[0].strip()] = Opening(content, arguments)
            spans.append((match.start(), closing[1]))
        else:
            failures += 1
    return openings, spans


def _arguments(macro: Macro, text: str, at: int) -> tuple[list[str], int] | None:
    """The arguments of a call whose name ends at `at`, and the offset after them."""
    values: list[str] = []
    if macro.star and text[at : at + 1] == "*":
        at += 1
    delimiters = macro.template[1:] or ("",) * macro.arguments
    if macro.template:
        lead = macro.template[0]
        if not lead[:1].isspace():
            at = skip_blanks(text, at)
        if not text.startswith(lead, at):
            return None
        at += len(lead)
    elif macro.default is not None:
        value, at = read_optional(text, at) or (macro.default, at)
        values.append(value)
        delimiters = delimiters[1:]
    for delimiter in delimiters:
        if delimiter.strip():
            end = text.find(delimiter, at, at + _REACH)
            argument = (text[at:end], end + len(delimiter)) if end >= 0 else None
        else:
            argument = _argument(text, at, _REACH)
        if argument is None:
            return None
        values.append(argument[0])
        at = argument[1]
    return values, at


def _join(pieces: Iterable[str]) -> str:
    """The pieces as one text, with a blank where a control word would run into the letters after it."""
    joined: list[str] = []
    for piece in filter(None, pieces):
        if joined and runs_into(joined[-1], piece):
            joined.append(" ")
        joined.append(piece)
    return "".join(joined)


def _substitute(body: str, values: Sequence[str]) -> str:
    """The body of a macro with its arguments inserted."""
    parts = re.split(r"#([1-9])", body)
    parts[1::2] = (values[int(n) - 1] if int(n) <= len(values) else "" for n in parts[1::2])
    return _join(parts)


class _Expansion:
    def __init__(self, macros: Mapping[str, Macro], problems: dict[str, str]) -> None:
        self.macros = macros
        self.problems = problems
        self.growth_left = _GROWTH
        self.expansions_left = _EXPANSIONS
        self.active: list[str] = []

    def run(self, text: str) -> str:
        pieces: list[str] = []
        position = 0
        for match in WORD.finditer(text):
            begin, end = match.span()
            name = match[1]
            macro = self.macros.get(name)
            if macro is None or begin < position:
                continue
            if name in self.active or len(self.active) >= _DEPTH:
                self.problems.setdefault(name, "it calls itself")
                continue
            if self.expansions_left <= 0 or self.growth_left <= 0:
                self.problems.setdefault(name, "it grows past the limit")
                continue
            self.expansions_left -= 1
            if macro.arguments or macro.template or macro.star:
                call = _arguments(macro, text, end)
                if call is None:
                    self.problems.setdefault(name, "its arguments could not be found")
                    self.expansions_left -= 100  # the search for them may have been long
                    continue
                values, end = call
                # An argument that calls an active macro is expanded first: that is no recursion.
                active = {name, *self.active}
                values = [self.run(v) if not active.isdisjoint(WORD.findall(v)) else v for v in values]
                body = _substitute(macro.body, values)
            else:
                body = macro.body
                while end < len(text) and text[end] in " \t":  # TeX ignores blanks after a control word
                    end += 1
            self.growth_left -= len(body)
            if self.growth_left <= 0:
                self.problems.setdefault(name, "it grows past the limit")
                continue
            if "\\" in body:
                self.active.append(name)
                body = self.run(body)
                self.active.pop()
            if body.endswith("\\xspace") and end < len(text):  # else the caller decides
                body = body[:-7] + ("" if text[end : end + 1] in ".,;:!?)'-/~}" else " ")
            pieces += (text[position:begin], body)
            position = end
        if not pieces:
            return text
        pieces.append(text[position:])
        return _join(pieces)


def expand(text: str, macros: Mapping[str, Macro], problems: dict[str, str] | None = None) -> str:
    """A text with all calls of `macros` expanded; the names of those that cannot be go into `problems`.

    The result has at most 200,000 characters more than the text.
    """
    if not macros or "\\" not in text:
        return text
    return _Expansion(macros, {} if problems is None else problems).run(text)


_CARRIES = re.compile(r"\\(?:begin|end)\s*\{([^{}]*)\}|\\(?:sub)*section(?![a-zA-Z])|\\label\s*\{")


def structural(macros: Mapping[str, Macro], names: Collection[str]) -> dict[str, Macro]:
    r"""The macros that open or close environments, sections or labels, such as `\def\bthm{\begin{theorem}}`.

    They must be expanded before the structure is read; `names` are the environments that matter.
    """
    chosen = {
        name: macro
        for name, macro in macros.items()
        if any(match[1] is None or match[1] in names for match in _CARRIES.finditer(macro.body))
    }
    for _ in range(3 if chosen else 0):  # also the macros that call them
        for name, macro in macros.items():
            if name not in chosen and any(word in chosen for word in WORD.findall(macro.body)):
                chosen[name] = macro
    return chosen
