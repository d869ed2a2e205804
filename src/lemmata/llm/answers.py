"""JSON in what models write: located among other text, read with its LaTeX intact, checked against a schema."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from lemmata.errors import InputError

__all__ = ["Parsed", "complaints", "read_json", "to_json_text"]

_DEEPEST = 100
_OPENING = re.compile(r"[{\[]")
_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*+")|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,)|(?P<colon>:)'
    r"|(?P<word>true|false|null)|(?P<number>-?(?:0|[1-9][0-9]{0,999})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?))",
    re.DOTALL,
)
# the end of a text that breaks off within a string, a number or a word
_CUT = re.compile(r'\s*("(?:[^"\\]|\\.)*+\\?|[-+.0-9eE]*|t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?)\Z', re.DOTALL)
_VALUES = ("open", "string", "word", "number")
_PAIRS = {"[": "]", "{": "}"}


class Parsed(NamedTuple):
    """A JSON value in a text."""

    value: Any
    truncated: bool  # the text breaks off; the value holds what is complete


def to_json_text(value: Any) -> str:
    """JSON with every backslash doubled and all letters as they are; `read_json` reads it back."""
    return json.dumps(value, ensure_ascii=False)


def read_json(text: str) -> Parsed:
    r"""The JSON value in a model's answer; InputError where there is none.

    Chatter, thoughts and code fences around it, trailing commas and bare line ends in strings are tolerated; of
    several values the longest is taken. Where the text breaks off, the complete items are kept.

    Backslashes: proper JSON is read as such. Where a string has single backslashes that JSON does not allow
    (`\alpha`), all LaTeX commands of that string are taken literally, so that `\beta`, `\frac`, `\nu` and `\theta`
    do not become control characters. A string without such evidence follows the others; without any, `\times` is a
    command and `\n` a line end, and an ambiguous one (`\nu`) is a command only between dollars.
    """
    text = text.strip().removeprefix("\ufeff")
    try:
        whole, end = _read_at(text, 0)
        if end == len(text) and not whole.truncated:
            return whole
    except _SyntaxFailure:
        pass
    text = re.sub(r"\s*```\s*$", "", text.rpartition("</think>")[2])
    values: list[tuple[int, Parsed]] = []  # with their lengths
    failures: list[tuple[int, _SyntaxFailure]] = []
    position = 0
    while opening := _OPENING.search(text, position):
        start = opening.start()
        try:
            value, position = _read_at(text, start)
            values.append((position - start, value))
        except _SyntaxFailure as failure:
            failures.append((failure.position - start, failure))
            position = max(start + 1, failure.position)
    longest = max(values, key=itemgetter(0), default=None)
    failed = max(failures, key=itemgetter(0), default=None)
    if longest and not (failed and failed[0] > longest[0]):  # a part of a broken value is not the answer
        return longest[1]
    if failed is None:
        raise InputError("the text is not JSON: there is no JSON object in it")
    near = text[max(0, failed[1].position - 20) : failed[1].position + 20]
    raise InputError(f"the text is not JSON: {failed[1]} near {near!r}")


class _SyntaxFailure(Exception):  # noqa: N818 - of one candidate among several
    def __init__(self, position: int, cause: str) -> None:
        super().__init__(cause)
        self.position = position


@dataclass(slots=True)
class _Container:
    """An open object or list."""

    bracket: str
    complete: int = 0  # tokens up to the end of its last complete item; 0 before the first


def _read_at(text: str, start: int) -> tuple[Parsed, int]:
    """The value that starts there and its end. Its tokens are repaired, then parsed by the standard library."""
    tokens, end, still_open = _tokens(text, start)
    style = _common_style([token[1:-1] for token in tokens if token[0] == '"'])
    if still_open:
        tokens = _close(tokens, still_open, end)
    repaired = [json.dumps(_unescape(token[1:-1], style)) if token[0] == '"' else token for token in tokens]
    return Parsed(json.loads("".join(repaired)), bool(still_open)), end


def _tokens(text: str, start: int) -> tuple[list[str], int, list[_Container]]:
    """The tokens of one value without trailing commas, the end of it, and what is still open where the text ends."""
    tokens: list[str] = []
    containers: list[_Container] = []
    position, expected = start, "value"
    while True:
        rest = _CUT.match(text, position) if containers else None
        if rest and (not rest[1] or expected == "value" or (expected == "string" and rest[1][0] == '"')):
            return tokens, len(text), containers
        match = _TOKEN.match(text, position)
        kind = match.lastgroup if match else None
        if match is None or kind is None:
            raise _SyntaxFailure(len(text) - len(text[position:].lstrip()), f"a {expected} is expected")
        token, position = match[kind], match.end()
        closes = kind == "close" and bool(containers) and _PAIRS[containers[-1].bracket] == token
        fits = kind in _VALUES if expected == "value" else kind == expected
        if not fits and not (closes and (expected == "comma" or tokens[-1] in "{[,")):
            raise _SyntaxFailure(match.start(kind), f"a {expected} is expected")
        if closes and tokens[-1] == ",":
            tokens.pop()
        tokens.append(token)
        if kind == "open":
            if len(containers) == _DEEPEST:
                raise _SyntaxFailure(position, f"it is nested more than {_DEEPEST} deep")
            containers.append(_Container(token))
        elif closes:
            containers.pop()
        if not containers:
            return tokens, position, []
        if kind in ("open", "comma"):
            expected = "string" if containers[-1].bracket == "{" else "value"
        elif kind == "colon":
            expected = "value"
        elif expected == "string" and not closes:
            expected = "colon"
        else:
            expected, containers[-1].complete = "comma", len(tokens)


def _close(tokens: list[str], containers: list[_Container], end: int) -> list[str]:
    """Cut a value that breaks off to its complete items; of a list, an item that breaks off is dropped whole."""
    depth = next((d for d, container in enumerate(containers) if container.bracket == "["), len(containers) - 1)
    while depth >= 0 and not containers[depth].complete:
        depth -= 1
    if depth < 0:
        raise _SyntaxFailure(end, "it breaks off before its first complete item")
    closing = [_PAIRS[container.bracket] for container in reversed(containers[: depth + 1])]
    return tokens[: containers[depth].complete] + closing


# ---------------------------------------------------------------- backslashes

_RUN = re.compile(r"(\\+)([A-Za-z]*)")
_HEXADECIMAL = re.compile("[0-9A-Fa-f]{4}")
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_COMMANDS = frozenset(  # of LaTeX, whose first letter makes a control character in JSON
    """
    fbox flat footnote footnotesize forall frac frak framebox frown
    nabla natural ncong ne nearrow neg neq newcommand newline nexists ngeq ngtr ni nleftarrow nleq nless nmid
    nobreak noindent nolimits nonumber norm normalfont normalsize not notag notin nparallel nprec nrightarrow nsim
    nsubseteq nsucc nsupseteq nu nvdash nwarrow
    rangle rank rbrace rbrack rceil re ref renewcommand rfloor rho right rightarrow rightharpoonup
    rightleftharpoons rightsquigarrow rm root rtimes rule rvert
    tag tan tanh tau tbinom tensor text textbf textit textnormal textrm textsc textsf textstyle texttt textup tfrac
    therefore theta thetasymbol thickapprox thicksim thinspace tilde times tiny to top tr triangle triangledown
    triangleleft trianglelefteq triangleq triangleright twoheadrightarrow
    """.split()
)
_ALSO_WORDS = frozenset("ne ni nu re rm tag tan tau to top tr".split())  # "\n" and "u", "\t" and "an" make sense too


def _evidence(string: str) -> tuple[bool, bool]:
    """Whether it has doubled backslashes before commands, and single ones that no JSON writer would make."""
    runs = list(_RUN.finditer(string))
    doubled = any(run[2] for run in runs if len(run[1]) % 2 == 0)
    single = any(_is_not_json(string, run.end(1), run[2]) for run in runs if len(run[1]) % 2)
    return doubled, single


def _is_not_json(string: str, position: int, letters: str) -> bool:
    """Whether no JSON writer would put a single backslash before `position`."""
    character = string[position : position + 1]
    if character == "'":
        return _is_accent(string, position)
    if character == "b":
        return len(letters) > 1
    if character == "f":
        return letters in _COMMANDS
    if character == "u":
        return _HEXADECIMAL.match(string, position + 1) is None
    return character not in '"/nrt'


def _common_style(strings: Sequence[str]) -> str:
    evidence = [_evidence(string) for string in strings if "\\" in string]
    doubled, single = any(pair[0] for pair in evidence), any(pair[1] for pair in evidence)
    return "unknown" if doubled == single else "doubled" if doubled else "single"


def _unescape(string: str, common: str) -> str:
    if "\\" not in string:
        return string
    doubled, single = _evidence(string)
    style = common if not (doubled or single) else "mixed" if doubled and single else "single" if single else "doubled"
    pieces: list[str] = []
    position = 0
    while run := _RUN.search(string, position):
        pieces.append(string[position : run.start()])
        count, position = len(run[1]), run.end(1)
        if count == 2 and style in ("single", "mixed"):
            pieces.append(_pair(string, position, run[2], style))
        elif count == 3 and style in ("single", "mixed") and string[position] != '"':
            pieces.append("\\\\")  # the end of a line, and a command after it
        else:
            pieces.append("\\" * (count // 2))
        if count % 2:
            piece, position = _escape(string, position, run[2], style)
            pieces.append(piece)
    pieces.append(string[position:])
    # \ud83d\ude00 is one letter; half of such a pair is none
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _pair(string: str, position: int, letters: str, style: str) -> str:
    r"""Two backslashes among single ones: the end of a line, or one command that was escaped properly."""
    if style == "mixed":
        return "\\\\" if string[position : position + 1] in ("", " ", "\n", "&") else "\\"
    return "\\" if len(letters) > 1 else "\\\\"


def _escape(string: str, position: int, letters: str, style: str) -> tuple[str, int]:
    """What a single backslash before `position` means, and where to continue."""
    character = string[position]
    if character == "u" and _HEXADECIMAL.match(string, position + 1):
        return chr(int(string[position + 1 : position + 5], 16)), position + 5
    if character == '"':
        umlaut = style in ("single", "mixed") and _is_accent(string, position)
        return ('\\"' if umlaut else '"'), position + 1
    if character == "'":
        return ("\\'" if _is_accent(string, position) else "'"), position + 1
    if character == "/":
        return "/", position + 1
    if character in _CONTROLS and not _is_command(string, position, letters, style):
        return _CONTROLS[character], position + 1
    return "\\" + character, position + 1


def _is_accent(string: str, position: int) -> bool:
    r"""`Poincar\'e` and `K\"ahler`, not `isn\'t` and `so-called \"open\" sets`."""
    before, after = string[max(0, position - 2) : position - 1], string[position + 1 : position + 2]
    return after == "{" or (
        bool(after) and after in "aeiouyAEIOUYcnz" and (before.isalpha() or string[position] == "'")
    )


def _is_command(string: str, position: int, letters: str, style: str) -> bool:
    if style == "doubled" or len(letters) < 2:
        return False
    initial = letters[0]
    if initial == "b":
        return True  # nobody means a backspace
    in_math = string.replace("\\$", "  ").count("$", 0, position) % 2 == 1
    if style in ("single", "mixed"):
        return letters in _COMMANDS or initial in "fr" or (initial == "t" and in_math)
    return letters in _COMMANDS and (in_math or letters not in _ALSO_WORDS)


# ---------------------------------------------------------------- schemas

_TYPES: Mapping[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


def complaints(value: Any, schema: Mapping[str, Any], place: str = "the answer") -> list[str]:
    """What is wrong with a value, in words for the model; empty where it satisfies the schema.

    Reads type, enum, properties, required, additionalProperties, items, and the lengths of strings and lists; other
    keywords of JSON schema are ignored.
    """
    types = schema.get("type") or []
    types = [types] if isinstance(types, str) else types
    if types and not any(_has_type(value, name) for name in types):
        return [f"{place} must be of type {' or '.join(types)}"]
    wrong = []
    if "enum" in schema and value not in schema["enum"]:
        wrong.append(f"{place} must be one of {to_json_text(schema['enum'])}, not {to_json_text(value)[:60]}")
    if isinstance(value, str | list):
        unit, suffix = ("characters", "Length") if isinstance(value, str) else ("items", "Items")
        least, most = schema.get(f"min{suffix}", 0), schema.get(f"max{suffix}", math.inf)
        if len(value) < least:
            wrong.append(f"{place} must have at least {least} {unit}, not {len(value)}")
        if len(value) > most:
            wrong.append(f"{place} must have at most {most} {unit}, not {len(value)}")
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            wrong += complaints(item, schema["items"], f"{place}[{number}]")
    if isinstance(value, dict):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties", True)
        wrong += [f"{place} lacks {name!r}" for name in schema.get("required", ()) if name not in value]
        for name, member in value.items():
            if name in properties:
                wrong += complaints(member, properties[name], f"{place}.{name}")
            elif additional is False:
                wrong.append(f"{place} must not have {name!r}")
            elif isinstance(additional, Mapping):
                wrong += complaints(member, additional, f"{place}.{name}")
    return wrong


def _has_type(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
