r"""Read the macros that a paper defines, and expand them within limits.

Not a TeX engine: macros that compute (`\ifx`, `\numexpr`, category codes, …) and macros that grow or recurse past
the limits are left in the text and reported. Tests on the own arguments of a macro are decided, and a macro that ends
in another one finds its arguments in the text after it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lemmata.latex.arguments import (
    CONDITION,
    NO_VALUE,
    Argument,
    choose,
    read_specification,
    read_token,
    read_values,
    spell_out,
)
from lemmata.latex.readable import is_symbol
from lemmata.latex.source import SHORT, read_argument, read_optional, runs_into, skip, skip_blanks

_DEPTH = 40  # macros inside macros
_GROWTH = 200_000  # characters that a text may gain
_EXPANSIONS = 20_000  # in one text
_REACH = 20_000  # characters to search for the end of an argument of a call
_BODY_REACH = 100_000  # the same for the body of a definition
_INDEPENDENT = re.compile(r"\\mathpalette\s*\{?\s*(?:\\protect\s*)?\\[a-zA-Z@]+\s*\}?\s*\{\\perp\s*\}")
_TAIL = 500  # characters of a call whose arguments are in the text after the macro that made it


class Macro(NamedTuple):
    """The definition of a control word."""

    body: str
    arguments: tuple[Argument, ...] = ()
    template: tuple[str, ...] = ()  # delimiters of a \def: the text before #1, between #1 and #2, ...
    is_symbol: bool = False  # what \let made of a symbol: it means the symbol, whatever that becomes later

    @property
    def takes_arguments(self) -> bool:
        return bool(self.arguments or self.template)


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
    tiny scriptsize footnotesize small normalsize large Large LARGE huge Huge
    @ifstar @ifnextchar @dblarg @for @tfor @namedef @nameuse @empty @title @author @date
    """.split()
)
_XSPACE = Macro("\\xspace")
_BUILT_IN = {"xspace": _XSPACE, **dict.fromkeys(("empty", "@empty", "pause"), Macro(""))}
_COMPUTES = re.compile(
    r"\\(?:expandafter|futurelet|catcode|if[a-zA-Z@]*|loop|@ifnextchar|@ifstar|afterassignment"
    r"|@for|numexpr|the|number|read|write|openout|special|directlua)(?![a-zA-Z])"
)
# The name of a symbol that is drawn from others says more than its pieces.
_DRAWS = re.compile(r"\\(?:mathchoice|kern|raise|lower|ooalign|halign|vcenter|setbox|special)(?![a-zA-Z])")
DEFINERS = (
    r"(?:re)?newcommand|providecommand|DeclareRobustCommand|(?:New|Renew|Provide|Declare)DocumentCommand"
    r"|DeclareMathOperator|DeclarePairedDelimiterX?|[gex]?def|let"
)
_DEFINING = re.compile(rf"\\(?P<command>{DEFINERS})(?![a-zA-Z@])(?P<star>\*?)")
_ASSIGNS = re.compile(r"\\(?:(?:re)?newcommand|providecommand|[gex]?def|let|externaldocument)(?![a-zA-Z@])")
_CONTROL_NAME = re.compile(r"\s*(?:\{\s*\\([a-zA-Z@]+|.)\s*\}|\\([a-zA-Z@]+|.))", re.DOTALL)
_WITH_SUFFIX = re.compile(r"\\WithSuffix\s*$")
_SUFFIX = re.compile(r"\s*([^\s\w{}\[\]\\])")
_COUNT = re.compile(r"\s*\[\s*(\d)\s*\]")
_LET = re.compile(r"\s*=?\s?(\\(?:[a-zA-Z@]+|.)|[^\s\\])", re.DOTALL)
_PARAMETERS = re.compile(r"[^{}\\]*(?:\\[a-zA-Z@]+|\\.)?[^{}\\]*", re.DOTALL)
_OPERATOR = re.compile(
    r"\\mathop\s*\{\s*(?:\\newmcodes@\s*)?(?:\\kern\s*\\z@\s*)?"
    r"(?:(#1)|\\(?:mathrm|rm|mathit|operatorname)\s*\{?\s*([a-zA-Z]+)\s*\}?)\s*\}\s*(?:\\(?:no)?limits@?)?"
)
# The whole of a macro that looks for a star or another character after its name.
_LOOKS_AHEAD = re.compile(r"\s*\\(?:@ifstar|@ifnextchar\s*(\S))(?![a-zA-Z])\s*")
_LITERAL = re.compile(r"\\pdfliteral\s*\{[^{}]*\}")
_CHARACTER = re.compile(r"\\mathchar\s*`\\?([^a-zA-Z\s\\{}])")
# One formula above another, and a symbol in a box that is as high above the line as below.
_STACK = re.compile(
    r"\\vbox\s*\{\s*\\offinterlineskip\s*\\ialign\s*\{[^{}$]{0,40}\\cr\s*\$([^$]{1,80})\$\s*\\cr\s*\$([^$]{1,80})\$\s*\\cr\s*\}\s*\}"
)
_BOX = re.compile(
    r"\\vcenter\s*\{\s*\\hbox\s*\{\s*(?:\\(?:tiny|scriptsize|footnotesize|small)(?![a-zA-Z])\s*)?"
    r"(?:\$(?=[^$]*\$))?(\\[a-zA-Z]+)\$?\s*\}\s*\}"
)
_MOST_CHOICES = 10
_DOUBLES = re.compile(
    r"\s*\\@dblarg\s*\{?\s*\\([a-zA-Z@]+)\s*\}?\s*"
)  # an optional argument is by default the one after
WORD = re.compile(r"\\([a-zA-Z@]+)")
_CALL = re.compile(r"\\([a-zA-Z@]+)(\*?)")
_NAMED_WORD = re.compile(r"\\(?:csname\s*|(?:csuse|@nameuse)\s*\{\s*)(\\?[a-zA-Z@]+)\s*(?:\\endcsname|\})")
_UNNAMED_WORD = re.compile(r"\\(?:csname(?![^\\{}]{0,80}#)|csuse|@nameuse)(?![a-zA-Z@])")  # or known when it is called
_MOST_STATES = 5_000
_MOST_CHANGING = 200  # names that are defined again in the body


@dataclass(slots=True)
class Definitions:
    """All definitions of a paper in order; `at` gives those that are valid at an offset."""

    entries: list[tuple[int, str, Macro | None, bool]] = field(default_factory=list)  # offset, name, macro, keep older
    spans: list[tuple[int, int]] = field(default_factory=list)  # of the definitions in the text
    problems: dict[str, str] = field(default_factory=dict)  # name: why it is not expanded
    setters: dict[str, Macro] = field(default_factory=dict)  # macros that define others when they are called
    preamble: dict[str, Macro] = field(default_factory=dict)
    changes: list[int] = field(default_factory=list)  # offsets in the body from which a macro is another one
    states: list[dict[str, Macro]] = field(default_factory=list)  # from each of them on: macros of the body
    last: tuple[int, dict[str, Macro]] | None = None  # number of the state that was asked for last, with its macros

    def settle(self, body: int) -> None:
        """Compute the states: one for the preamble, and one more after each change in the body."""
        self.preamble = dict(_BUILT_IN)
        self.changes, self.states, self.last = [], [], None
        changed: dict[str, Macro] = {}
        for offset, name, macro, keep in self.entries:
            known = changed.get(name) or self.preamble.get(name)
            if macro is None or (keep and known):
                continue
            if (alias := WORD.fullmatch(macro.body)) and not macro.takes_arguments:
                target = changed.get(alias[1]) or self.preamble.get(alias[1])
                if target is not None and (target.takes_arguments or macro.is_symbol):
                    macro = target  # it takes the arguments of its target, or means what the symbol means by now
            if known == macro:
                continue
            if offset <= body:
                self.preamble[name] = macro
                continue
            if len(self.states) < _MOST_STATES and len(changed) < _MOST_CHANGING:
                changed = dict(changed)
                self.changes.append(offset)
                self.states.append(changed)
            changed[name] = macro

    def at(self, offset: int) -> dict[str, Macro]:
        """The macros that are valid at an offset."""
        number = bisect_right(self.changes, offset) - 1
        if number < 0:
            return self.preamble
        if self.last is None or self.last[0] != number:
            self.last = number, self.preamble | self.states[number]
        return self.last[1]

    def everything(self) -> dict[str, Macro]:
        """All macros, those of the preamble first."""
        return self.preamble | {name: macro for state in self.states for name, macro in state.items()}

    def expand(self, text: str, begin: int, end: int) -> str:
        """A span of the text with all macros expanded, each as it is defined where it is called."""
        inside = self.changes[bisect_right(self.changes, begin) : bisect_left(self.changes, end)][:_MOST_CHANGING]
        changes = [(offset - begin, self.at(offset)) for offset in inside]
        return expand(text[begin:end], self.at(begin), self.problems, changes)


def _simplify(body: str) -> str:
    body = spell_out(body.replace("\\xspace}", "}"))  # inside a group it does nothing
    body = _LITERAL.sub("", body) if "\\pdfliteral" in body else body
    if "\\vbox" in body or "\\vcenter" in body or "\\mathchar" in body:
        body = _BOX.sub(r"\1", _STACK.sub(r"\\overset{\1}{\2}", _CHARACTER.sub(r"\1", body)))
    return _OPERATOR.sub(r"\\operatorname{\1\2}", body) if "\\mathop" in body else body


def _in_text_style(body: str) -> str:
    r"""A body with the form in running text of what `\mathchoice` draws in four sizes."""
    for _ in range(_MOST_CHOICES):
        at = body.find("\\mathchoice")
        values, end = read_values(body, at + 11, (("m", ""),) * 4, _BODY_REACH) if at >= 0 else ([], 0)
        if len(values) < 4:
            break
        body = f"{body[:at]}{{{values[1]}}}{body[end:]}"
    return _simplify(body)


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
        name, command, end = control[1] or control[2], match["command"], control.end()
        if name == "csname":  # of something that is known only when it is called
            continue
        before = text[max(0, begin - 30) : begin]
        if (variant := _WITH_SUFFIX.search(before)) and (suffix := _SUFFIX.match(text, end)):
            begin -= len(before) - variant.start()
            name, end = name + suffix[1], suffix.end()
        definition = read_macro(text, command, end)
        if definition is None:
            failures += 1
            definitions.problems.setdefault(name, "its definition never ends")
            continue
        macro, scan = definition
        if command == "DeclareMathOperator" and macro is not None:
            macro = Macro(f"\\operatorname{match['star']}{{{macro.body}}}")
        definitions.spans.append((begin, scan))
        if name.rstrip("*") in PROTECTED or not (name[0].isalpha() or len(name) > 1):
            continue
        if (
            command == "let"
            and macro == Macro("\\relax")
            and not any(name == other for _, other, *_ in definitions.entries)
        ):
            continue  # makes room for a better drawing of a built-in symbol
        if macro and "\\mathchoice" in macro.body and not is_symbol(name):
            macro = macro._replace(body=_in_text_style(macro.body))
        elif macro and _INDEPENDENT.search(macro.body):
            macro = Macro(r"\perp\!\!\!\perp")  # which it draws: independent
        problem = _problem_of(macro)
        if problem == "it defines" and macro is not None:
            definitions.setters[name] = macro
        elif problem:
            definitions.problems.setdefault(name, problem)
        definitions.entries.append((begin, name, None if problem else macro, command[0] in "pP"))
    return definitions


def _problem_of(macro: Macro | None) -> str:
    """Why a macro cannot be expanded where it is called."""
    if macro is None:
        return "its arguments are of an unknown kind"
    if not macro.takes_arguments and (ahead := _LOOKS_AHEAD.match(macro.body)) and _branches(macro.body, ahead.end()):
        return ""
    body = CONDITION.sub("", macro.body) if "\\if" in macro.body else macro.body
    if _COMPUTES.search(body):
        return "it computes"
    if _ASSIGNS.search(body):
        return "it defines"
    return "it draws a symbol" if _DRAWS.search(body) else ""


def _branches(text: str, at: int) -> list[str]:
    """The two arguments after `at`, if there are no others."""
    values, end = read_values(text, at, (("m", ""),) * 2, _BODY_REACH)
    return [] if len(values) < 2 or text[end:].strip() else values


def read_macro(text: str, command: str, end: int) -> tuple[Macro | None, int] | None:
    """The macro whose name ends at `end`, and the offset after its definition; None where that never ends.

    The macro is None where its arguments are of an unknown kind.
    """
    if command == "let":
        target = _LET.match(text, end)
        return (Macro(target[1], is_symbol=is_symbol(target[1][1:])), target.end()) if target else None
    if command.startswith("DeclarePairedDelimiter"):  # \name{...}, \name*{...} and \name[\big]{...}
        inside, end, _ = _counted_arguments(text, end) if command.endswith("X") else ((("m", ""),), end, True)
        left = read_token(text, end, _BODY_REACH)
        right = read_token(text, left[1], _BODY_REACH) if left else None
        middle = (
            read_argument(text, right[1]) if right and command.endswith("X") else ("#1", right[1] if right else end)
        )
        if left is None or right is None or middle is None:
            return None
        shown = re.sub(r"#([1-7])", lambda parameter: f"#{int(parameter[1]) + 2}", middle[0].replace("\\delimsize", ""))
        return Macro(f"{left[0]} {shown} {right[0]}", (("t*", ""), ("o", ""), *inside)), middle[1]
    if command.endswith("DocumentCommand"):
        spec = read_argument(text, end)
        body = read_argument(text, spec[1]) if spec else None
        if spec is None or body is None:
            return None
        specified = read_specification(spec[0])
        return (Macro(_simplify(body[0]), specified) if specified is not None else None), body[1]
    arguments: tuple[Argument, ...] = ()
    template: tuple[str, ...] = ()
    if command.endswith("def"):
        signature = text[end : skip(_PARAMETERS, text, end)]
        arguments = (("m", ""),) * len(re.findall(r"#\d", signature))
        simple = re.sub(r"\s", "", signature) == "".join(f"#{n + 1}" for n in range(len(arguments)))
        template = () if simple else tuple(re.split(r"#\d", signature))
        body = read_argument(text, end + len(signature))
    else:
        arguments, end, is_closed = _counted_arguments(text, end)
        body = read_token(text, end, _BODY_REACH) if is_closed else None
    if body and not arguments and not template and (doubled := _DOUBLES.fullmatch(body[0])):
        branches = f"{{\\{doubled[1]}[#2]{{#2}}}}{{\\{doubled[1]}[#1]{{#2}}}}"
        return Macro(f"\\IfNoValueTF{{#1}}{branches}", (("o", NO_VALUE), ("m", ""))), body[1]
    return (Macro(_simplify(body[0]), arguments, template), body[1]) if body else None


def _counted_arguments(text: str, at: int) -> tuple[tuple[Argument, ...], int, bool]:
    """The arguments that `[2][default]` declares, the offset after it, and whether its bracket is closed."""
    count = _COUNT.match(text, at)
    if count is None:
        return (), at, True
    arguments: tuple[Argument, ...] = (("m", ""),) * int(count[1])
    if not text.startswith("[", skip_blanks(text, count.end())):
        return arguments, count.end(), True
    default = read_optional(text, count.end())
    return ((("o", default[0]), *arguments[1:]), default[1], True) if default else (arguments, count.end(), False)


class Opening(NamedTuple):
    r"""What an environment puts at its beginning, with the arguments of its `\begin`."""

    text: str
    arguments: tuple[Argument, ...] = ()


_ENVIRONMENT = re.compile(
    r"\\(?=[DNPRnpr])(?:(?P<plain>(?:(?:re)?new|provide)environment\*?)|(?P<xparse>(?:New|Renew|Provide|Declare)DocumentEnvironment)"
    r"|(?P<box>(?:re)?newtcolorbox|newtcbox)|(?P<xparsebox>(?:New|Renew|Provide|Declare)TColorBox))(?![a-zA-Z])"
)


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
        if match.lastgroup in ("xparse", "xparsebox"):
            spec = read_argument(text, name[1], SHORT)
            arguments, end = (read_specification(spec[0]) or (), spec[1]) if spec else ((), name[1])
        else:
            arguments, end, _ = _counted_arguments(text, name[1])
        opening = read_argument(text, end)
        closing = read_argument(text, opening[1]) if opening and not is_box else opening
        if opening is not None and closing is not None:
            content = f"\\begin{{tcolorbox}}[{opening[0]}]" if is_box else spell_out(opening[0])
            openings[name[0].strip()] = Opening(content, arguments)
            spans.append((match.start(), closing[1]))
        else:
            failures += 1
    return openings, spans


def read_call(macro: Macro, text: str, at: int) -> tuple[list[str], int] | None:
    """The arguments of a call whose name ends at `at`, and the offset after them; None where one is missing."""
    if not macro.template:
        values, end = read_values(text, at, macro.arguments, _REACH)
        return (values, end) if len(values) == len(macro.arguments) else None
    lead, *delimiters = macro.template
    if not lead[:1].isspace():
        at = skip_blanks(text, at)
    if not text.startswith(lead, at):
        return None
    at += len(lead)
    values = []
    for delimiter in delimiters:
        if delimiter.strip():
            end = text.find(delimiter, at, at + _REACH)
            argument = (text[at:end], end + len(delimiter)) if end >= 0 else None
        else:
            argument = read_token(text, at, _REACH)
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


_PARAMETER = re.compile(r"##|#([1-9])")


def substitute(macro: Macro, values: Sequence[str]) -> str:
    """The body of a macro with its arguments inserted, and the branches for them chosen."""
    pieces: list[str] = []
    at = 0
    for parameter in _PARAMETER.finditer(macro.body):
        number = parameter[1]
        value = "#" if number is None else values[int(number) - 1] if int(number) <= len(values) else ""
        pieces += (macro.body[at : parameter.start()], value)
        at = parameter.end()
    body = _join((*pieces, macro.body[at:]))
    if CONDITION.search(macro.body):
        body = choose(body)
    return body.replace(NO_VALUE, "") if NO_VALUE in body else body


class _Expansion:
    def __init__(
        self, macros: Mapping[str, Macro], problems: dict[str, str], changes: Sequence[tuple[int, Mapping[str, Macro]]]
    ) -> None:
        self.macros = macros
        self.changes = list(reversed(changes))
        self.problems = problems
        self.growth_left = _GROWTH
        self.expansions_left = _EXPANSIONS
        self.active: list[str] = []
        self.problem = ""  # of the call that failed last

    def run(self, text: str, *, outermost: bool = False) -> str:
        """The text with its calls expanded."""
        output, tail = self.split(text, outermost=outermost)
        if tail:
            self.problems.setdefault(tail[1:].split("{")[0], _MISSING)
        return _join((output, tail))

    def split(self, text: str, *, outermost: bool = False) -> tuple[str, str]:
        """The text with its calls expanded, and apart a call at its end whose arguments are not there."""
        pieces: list[str] = []
        position = 0
        find = self.macros.get
        for match in _CALL.finditer(text):
            name, star = match.groups()
            while outermost and self.changes and self.changes[-1][0] <= match.start():
                self.macros = self.changes.pop()[1]
                find = self.macros.get
            macro = find(name)
            if (macro is None and not star) or (begin := match.start()) < position:
                continue
            end = match.end(1)
            if star and (starred := find(name + "*")):
                name, end, macro = name + "*", end + 1, starred
            if macro is None:
                continue
            if macro is _XSPACE:
                if end < len(text) or not self.active:  # else the caller decides
                    start, position = position, skip_blanks(text, end)
                    pieces += (text[start:begin], _space_before(text, position))
                continue
            expansion = self.call(name, macro, text, end)
            if expansion is None:
                if self.problem == _MISSING and self.active and len(text) - begin < _TAIL:
                    return _join((*pieces, text[position:begin])), text[begin:]
                self.problems.setdefault(name, self.problem)
                continue
            body, end, tail = expansion
            if body.endswith("\\xspace") and end < len(text):  # else the caller decides
                body = body[:-7] + _space_before(text, end)
            pieces += (text[position:begin], body)
            position = end
            if tail:
                return _join(pieces), tail
        return _join((*pieces, text[position:])) if pieces else text, ""

    def call(self, name: str, macro: Macro, text: str, end: int) -> tuple[str, int, str] | None:
        """What a call whose name ends at `end` stands for, the offset after it, and a call that needs more text.

        None where it stays as it is.
        """
        if name in self.active or len(self.active) >= _DEPTH:
            self.problem = "it calls itself"
            return None
        if self.expansions_left <= 0 or self.growth_left <= 0:
            self.problem = "it grows past the limit"
            return None
        self.expansions_left -= 1
        if macro.takes_arguments:
            arguments = read_call(macro, text, end)
            if arguments is None:
                self.problem = _MISSING
                self.expansions_left -= 100  # the search for them may have been long
                return None
            values, end = arguments
            # An argument that calls an active macro is expanded first: that is no recursion.
            active = {name, *self.active}
            values = [self.run(v) if not active.isdisjoint(WORD.findall(v)) else v for v in values]
            body = substitute(macro, values)
        else:
            body = macro.body
            while end < len(text) and text[end] in " \t":  # TeX ignores blanks after a control word
                end += 1
            if ahead := _LOOKS_AHEAD.match(body) if "\\@if" in body[:20] else None:
                if end == len(text) and self.active:
                    self.problem = _MISSING
                    return None
                wanted = ahead[1] or "*"
                present = text.startswith(wanted, skip_blanks(text, end))
                body = _branches(body, ahead.end())[not present]
                end += present and not ahead[1]
        if _UNNAMED_WORD.search(body):
            body = _NAMED_WORD.sub(self.named_word, body)
            if _UNNAMED_WORD.search(body):
                self.problem = "it computes"
                return None
        self.growth_left -= len(body)
        if self.growth_left <= 0:
            self.problem = "it grows past the limit"
            return None
        if "\\" not in body or macro.is_symbol:
            return body, end, ""
        self.active.append(name)
        body, tail = self.split(body)
        rest = text[end : end + _REACH] if tail else ""
        if rest.strip():
            word = WORD.match(tail)
            assert word is not None  # a tail begins with its name
            expansion = self.call(word[1], self.macros[word[1]], tail + rest, word.end())
            if expansion is None:
                self.problems.setdefault(word[1], self.problem)
                body, tail = _join((body, tail)), ""
            else:
                end += max(0, expansion[1] - len(tail))
                body, tail = _join((body, expansion[0])), expansion[2]
        self.active.pop()
        return body, end, tail

    def named_word(self, call: re.Match[str]) -> str:
        r"""The control word that `\csname` or `\csuse` names, by its letters or by a macro that means them."""
        name = call[1]
        if name[0] == "\\":
            macro = self.macros.get(name[1:])
            name = macro.body if macro else ""
        return "\\" + name if name.isalpha() else call[0]


_LONGEST_FORMULA = 2000
_MISSING = "its arguments could not be found"


def _space_before(text: str, at: int) -> str:
    r"""The blank that `\xspace` leaves: also before a formula, but not before the dollar that ends one."""
    following = text[at : at + 1]
    if following == "$":
        begin = max(text.rfind("\n\n", 0, at), at - _LONGEST_FORMULA, 0)
        return "" if (text.count("$", begin, at) - text.count("\\$", begin, at)) % 2 else " "
    return "" if following in ".,;:!?)'-/~}" else " "


def expand(
    text: str,
    macros: Mapping[str, Macro],
    problems: dict[str, str] | None = None,
    changes: Sequence[tuple[int, Mapping[str, Macro]]] = (),
) -> str:
    """A text with all calls of `macros` expanded; the names of those that cannot be go into `problems`.

    `changes` are other macros, each with the offset from which on they count. The result has at most 200,000
    characters more than the text.
    """
    if "\\" not in text or (not changes and "*" not in text and macros.keys().isdisjoint(WORD.findall(text))):
        return text
    return _Expansion(macros, {} if problems is None else problems, changes).run(text, outermost=True)


_CARRIES = re.compile(
    r"\\(?:begin|end)\s*\{([^{}]*)\}|\\(?:(?:sub)*section|chapter|part|tag|no(?:tag|number)|(?:ref)?stepcounter"
    r"|(?:set|addto)counter)(?![a-zA-Z])|\\label\s*\{"
)


def structural(macros: Mapping[str, Macro], names: Collection[str]) -> dict[str, Macro]:
    r"""The macros that open or close environments, sections or labels, such as `\def\bthm{\begin{theorem}}`.

    They must be expanded before the structure is read; `names` are the environments that matter. So must those that
    leave out their argument, which may be several paragraphs.
    """
    chosen = {
        name: macro
        for name, macro in macros.items()
        if any(match[1] is None or match[1] in names for match in _CARRIES.finditer(macro.body))
        or (macro.arguments and not macro.body.strip())
    }
    for _ in range(3 if chosen else 0):  # also the macros that call them
        for name, macro in macros.items():
            if name not in chosen and any(word in chosen for word in WORD.findall(macro.body)):
                chosen[name] = macro
    return chosen
