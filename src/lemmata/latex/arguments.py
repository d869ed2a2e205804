r"""The arguments of macros and environments: their kinds as in xparse, how a call gives them, and tests on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from lemmata.latex.source import SHORT, read_argument, read_optional, skip_blanks

# Kind and default. Kinds are m (in braces, or one token), o (in brackets), g (in braces, optional), v (verbatim),
# l (up to a brace), and with their tokens t* (a star or another token), d() (between delimiters), e^ (after a token),
# u; (up to a token).
Argument = tuple[str, str]
NO_VALUE = "-NoValue-"  # an optional argument without default that is not given
GIVEN = "*"  # any token of an argument of kind t, see `choose`
_TOKEN = re.compile(r"\s*(\\(?:[a-zA-Z@]+|.)|[^\s{}\\])", re.DOTALL)
_TOKENS_OF_KIND = {"t": 1, "d": 2, "D": 2, "r": 2, "R": 2, "u": 1, "e": 1, "E": 1}


def read_token(text: str, at: int, reach: int) -> tuple[str, int] | None:
    """A braced argument or the single token in its place, and the offset after it."""
    at = skip_blanks(text, at)
    if argument := read_argument(text, at, reach):
        return argument
    token = _TOKEN.match(text, at)
    return (token[1], token.end()) if token else None


def read_specification(spec: str) -> tuple[Argument, ...] | None:
    """The arguments of a specification of xparse; None where it has one of an unknown kind."""
    arguments: list[Argument] = []
    at = 0
    while (at := skip_blanks(spec, at)) < len(spec):
        kind = spec[at]
        at += 1
        parts: list[str] = []  # the tokens of the kind, the default, or what processes the argument
        wanted = 1 if kind in ">=" else _TOKENS_OF_KIND.get(kind, 0) + (kind in "ODREG")
        for _ in range(wanted):
            part = read_token(spec, at, SHORT)
            if part is None:
                return None
            parts.append(part[0])
            at = part[1]
        default = parts.pop() if kind in "ODREG" else NO_VALUE
        tokens = "".join(parts)
        if kind in "dDrR" and len(tokens) == 2:
            arguments.append(("d" + tokens, default))
        elif kind in "eE":
            defaults = split(default) if kind == "E" else []
            marks = [mark for mark in tokens if not mark.isspace()]
            arguments += (("e" + m, d) for m, d in zip(marks, [*defaults, *[NO_VALUE] * len(marks)], strict=False))
        elif kind in "tu" and len(tokens) == 1:
            arguments.append((kind + tokens, ""))
        elif kind in "oOgG":
            arguments.append((kind.lower(), default))
        elif kind in "msvl":
            arguments.append(("t*" if kind == "s" else kind, ""))
        elif kind not in "b+!>=":  # a body is no argument of \begin
            return None
    return tuple(arguments[:9])


def split(groups: str) -> list[str]:
    """The braced groups or tokens of a text."""
    parts: list[str] = []
    at = 0
    while part := read_token(groups, at, SHORT):
        parts.append(part[0])
        at = part[1]
    return parts


def read_delimited(text: str, at: int, opening: str, closing: str, reach: int) -> tuple[str, int] | None:
    """The text between two delimiters after `at`; those inside braces or nested pairs do not close it."""
    begin = skip_blanks(text, at)
    if not text.startswith(opening, begin):
        return None
    depth, braces = 1, 0
    tokens = re.compile(rf"\\.|[{{}}]|{re.escape(closing)}|{re.escape(opening)}", re.S)
    for token in tokens.finditer(text, begin + 1, begin + reach):
        if token[0] in "{}":
            braces += 1 if token[0] == "{" else -1
        elif braces == 0 and len(token[0]) == 1:
            depth += -1 if token[0] == closing else 1
        if depth == 0:
            return text[begin + 1 : token.start()], token.end()
    return None


def read_values(text: str, at: int, arguments: Sequence[Argument], reach: int) -> tuple[list[str], int]:
    """The values of the arguments after `at`, up to the first that is needed and missing, and the offset after them."""
    values: list[str] = []
    while len(values) < len(arguments):
        kind, default = arguments[len(values)]
        value: tuple[str, int] | None = None
        if kind == "m":
            value = read_token(text, at, reach)
        elif kind == "o":
            value = read_optional(text, at)
        elif kind == "g":
            value = read_argument(text, at, reach)
        elif kind[0] == "t":
            given = text.startswith(kind[1], at)
            value = (GIVEN if given else "", at + given)
        elif kind[0] == "d":
            value = read_delimited(text, at, kind[1], kind[2], reach)
        elif kind[0] == "e":  # in any order
            run = list(takewhile(lambda argument: argument[0][0] == "e", arguments[len(values) :]))
            embellishments, at = _embellishments(text, at, run, reach)
            values += embellishments
            continue
        elif kind == "v" and not text.startswith("{", at):
            value = _until(text, at + 1, text[at : at + 1], reach)
        elif kind == "v":
            value = read_argument(text, at, reach)
        else:
            value = _until(text, skip_blanks(text, at), kind[1:] or "{", reach)
            value = (value[0], value[1] - (kind == "l")) if value else None
        if value is None and kind[0] not in "ogd":
            break
        content, at = value or (default, at)
        values.append(content)
    return values, at


def _until(text: str, at: int, mark: str, reach: int) -> tuple[str, int] | None:
    end = text.find(mark, at, at + reach) if mark else -1
    return (text[at:end], end + len(mark)) if end >= 0 else None


def _embellishments(text: str, at: int, run: Sequence[Argument], reach: int) -> tuple[list[str], int]:
    values: dict[str, str] = {}
    marks = {kind[1] for kind, _ in run}
    while text[(begin := skip_blanks(text, at)) : begin + 1] in marks - values.keys():
        value = read_token(text, begin + 1, reach)
        if value is None:
            break
        values[text[begin]], at = value
    return [values.get(kind[1], default) for kind, default in run], at


_PARAMETER = re.compile(r"#([1-9])")


def fill(text: str, values: Sequence[str]) -> str:
    """The text with values in the place of `#1`, `#2`, …; nothing where there are fewer."""
    return _PARAMETER.sub(lambda m: values[int(m[1]) - 1] if int(m[1]) <= len(values) else "", text)


# ---------------------------------------------------------------- tests

CONDITION = re.compile(
    r"\\(?:(?P<test>If(?:No)?Value|IfBoolean|IfBlank)(?P<branches>TF|T|F)"
    r"|(?P<other>ifblank|ifstrempty|notblank|ifstrequal|ifthenelse|ifinteger))(?![a-zA-Z@])"
)
_BARE_TEST = re.compile(CONDITION.pattern + r"\s*(?P<parameter>#[1-9])")
# \ifx\relax#1\relax … \else … \fi and its like ask whether an argument is empty.
_BRANCH = r"((?:(?!\\(?:if|else|fi))[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)"
_IS_EMPTY = re.compile(
    r"\\ifx?\s*(\\[a-zA-Z@]+|\\.|[^\s#\\])\s*(?:#([1-9])|\\detokenize\s*\{\s*#([1-9])\s*\})\s*\1"
    rf"(?![a-zA-Z@])\s*{_BRANCH}(?:\\else(?![a-zA-Z@])\s*{_BRANCH})?\\fi(?![a-zA-Z@])\s*",
    re.DOTALL,
)
# \if!\ifnum9<1#1!\else_\fi … \else … \fi asks whether it is a number.
_IS_INTEGER = re.compile(
    rf"\\if\s*!\s*\\ifnum\s*9<1#([1-9])!\s*\\else\s*_\s*\\fi(?![a-zA-Z@])\s*{_BRANCH}\\else(?![a-zA-Z@])\s*{_BRANCH}"
    r"\\fi(?![a-zA-Z@])\s*"
)
_COMPARES = re.compile(r"\s*\\(?:(equal)|isempty)\s*(?=\{)")
_MOST_CONDITIONS = 50


def spell_out(body: str) -> str:
    r"""A body with its tests on arguments in one form: `\ifblank{#1}{…}{…}`."""
    if "\\if" in body:
        body = _IS_INTEGER.sub(r"\\ifinteger{#\1}{\2}{\3}", body) if "\\ifnum" in body else body
        body = _IS_EMPTY.sub(lambda m: f"\\ifblank{{#{m[2] or m[3]}}}{{{m[4]}}}{{{m[5] or ''}}}", body)
    if "\\if" in body or "\\If" in body:
        body = _BARE_TEST.sub(lambda m: f"{m[0][: -len(m['parameter'])].rstrip()}{{{m['parameter']}}}", body)
    return body


def choose(text: str) -> str:
    r"""A text with the branches for its arguments chosen (`\IfNoValueTF`, `\ifblank`, `\ifthenelse{\equal…}`)."""
    at = 0
    for _ in range(_MOST_CONDITIONS):
        condition = CONDITION.search(text, at)
        if condition is None:
            break
        test, branches = condition["test"] or condition["other"], condition["branches"] or "TF"
        parts: list[str] = []
        end = condition.end()
        for _ in range(1 + (test == "ifstrequal") + len(branches)):
            part = read_argument(text, end)
            parts.append(part[0] if part else "")
            end = part[1] if part else end
        holds = _holds(test, parts)
        if holds is None:
            at = condition.end()
            continue
        chosen = dict(zip(branches, parts[-len(branches) :], strict=True)).get("T" if holds else "F", "")
        text = text[: condition.start()] + chosen + text[end:]
        at = condition.start()
    return text


def _holds(test: str, parts: Sequence[str]) -> bool | None:
    """Whether a test holds; None where it compares other things than texts."""
    value = parts[0].strip()
    if test == "ifthenelse":
        comparison = _COMPARES.match(value)
        if comparison is None:
            return None
        compared = split(value[comparison.end() :])
        return compared[0].strip() == (compared[1].strip() if comparison[1] and len(compared) > 1 else "")
    return {
        "IfNoValue": value == NO_VALUE,
        "IfValue": value != NO_VALUE,
        "IfBoolean": value == GIVEN,
        "notblank": bool(value),
        "ifinteger": value.isdecimal(),
        "ifstrequal": value == parts[1].strip(),
    }.get(test, value in ("", NO_VALUE))
