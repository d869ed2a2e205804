"""JSON in what models write: found among chatter, read with its LaTeX intact, checked against a schema.

Nothing here asks a model anything.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lemmata.errors import InputError

__all__ = ["Parsed", "complaints", "excerpt", "parse_json", "read_json", "to_json_text"]


class Parsed(NamedTuple):
    """A JSON value found in a text."""

    value: Any
    truncated: bool  # the text breaks off; the value holds what is complete


def to_json_text(value: Any) -> str:
    """JSON with every backslash doubled and all letters as they are; `parse_json` reads it back."""
    return json.dumps(value, ensure_ascii=False)


def parse_json(text: str) -> Any:
    """The value of `read_json`, where it does not matter whether the text breaks off."""
    return read_json(text).value


def read_json(text: str) -> Parsed:
    r"""The JSON value in a model's answer; InputError where there is none.

    Chatter, thoughts and code fences around it, trailing commas and bare line ends in strings are
    tolerated; of several values the longest is meant. In a text that breaks off, the complete items are kept.

    Backslashes: JSON as it should be is read as such. Where a string has single backslashes that JSON does
    not know (`\alpha`), all LaTeX commands of that string are taken as written, so that `\beta`, `\frac`,
    `\nu` and `\theta` do not become control characters. A string without such evidence is judged by the
    others; without any, `\times` is a command and `\n` a line end, and what could be both (`\nu`) is a
    command inside of dollars only.
    """
    text = text.strip().removeprefix("\ufeff")
    whole = _read_at(text, 0)
    if isinstance(whole, _Found) and whole.end == len(text) and not whole.truncated:
        return Parsed(whole.value, False)
    text = re.sub(r"\s*```\s*$", "", text.rpartition("</think>")[2])
    best: _Found | None = None
    longest, syntax = 0, _Syntax(0, "there is no JSON object in it")
    position = 0
    while opening := _OPENING.search(text, position):
        found = _read_at(text, opening.start())
        if isinstance(found, _Syntax):
            position = max(opening.end(), found.position)
            if found.position - opening.start() > longest:
                longest, syntax = found.position - opening.start(), found
            continue
        position = found.end
        if best is None or found.end - found.start > best.end - best.start:
            best = found
    if best is not None and best.truncated and not best.value:
        raise InputError("the text is not JSON: it breaks off before its first complete item")
    if best is None or longest > best.end - best.start:  # a part of a broken value is not what was meant
        where = f" near {text[max(0, syntax.position - 20) : syntax.position + 20]!r}" if longest else ""
        raise InputError(f"the text is not JSON: {syntax.cause}{where}")
    return Parsed(best.value, best.truncated)


class _Found(NamedTuple):
    value: Any
    start: int
    end: int
    truncated: bool


class _Syntax(Exception):  # noqa: N818 - one candidate of several
    def __init__(self, position: int, cause: str) -> None:
        super().__init__(cause)
        self.position = position
        self.cause = cause


def _read_at(text: str, start: int) -> _Found | _Syntax:
    """The value that starts there; read twice, because all strings together decide about the backslashes of each."""
    first = _Reader(text, start, None)
    try:
        first.value(0)
        second = _Reader(text, start, _common_style(first.strings))
        value = second.value(0)
    except _Syntax as syntax:
        return syntax
    if value is _NOTHING:
        return _Syntax(start, "it is cut off")
    return _Found(value, start, second.position, second.cut)


_NOTHING = object()  # in place of a value that breaks off
_OPENING = re.compile(r"[{\[]")
_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,999})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_CUT = re.compile(r"[-+.0-9eE]*\Z")
_WORDS = {"true": True, "false": False, "null": None}
_DEEPEST = 100


class _Reader:
    """A JSON parser that knows where it broke off."""

    def __init__(self, text: str, start: int, style: str | None) -> None:
        self.text, self.position = text, start
        self.cut = False
        self.strings: list[str] = []  # as they stand between their quotes
        self._style = style

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise _Syntax(self.position, f"it is nested more than {_DEEPEST} deep")
        character = self._next()
        if character == "{":
            return self._object(depth)
        if character == "[":
            return self._list(depth)
        if character == '"':
            return self._string()
        rest = self.text[self.position : self.position + 5]
        for word, value in _WORDS.items():
            if rest.startswith(word):
                self.position += len(word)
                return value
            if word.startswith(rest) and depth:
                return self._broken()
        if depth and _NUMBER_CUT.match(self.text, self.position):
            return self._broken()  # more digits may have been to come
        number = _NUMBER.match(self.text, self.position)
        if number is None:
            raise _Syntax(self.position, "a value is expected")
        self.position = number.end()
        digits = number.group()
        return float(digits) if set(digits) & set(".eE") else int(digits)

    def _object(self, depth: int) -> Any:
        members: dict[str, Any] = {}
        self.position += 1
        while True:
            character = self._next()
            if character == "}":
                self.position += 1
                return members
            if character and character != '"':
                raise _Syntax(self.position, "a name in double quotes is expected")
            name = self._string() if character else self._broken()
            if name is _NOTHING:
                return members
            character = self._next()
            if character and character != ":":
                raise _Syntax(self.position, "a colon is expected")
            self.position += 1
            value = self.value(depth + 1) if character else self._broken()
            if value is not _NOTHING and (not self.cut or value):
                members[name] = value
            if self.cut or self._comma("}"):
                return members

    def _list(self, depth: int) -> Any:
        items: list[Any] = []
        self.position += 1
        while True:
            if self._next() == "]":
                self.position += 1
                return items
            item = self.value(depth + 1)
            if self.cut:
                return items  # without the item that breaks off
            items.append(item)
            if self._comma("]"):
                return items

    def _comma(self, end: str) -> bool:
        """Go on to the next item; True where there can be none."""
        character = self._next()
        if not character:
            self._broken()
            return True
        if character == ",":
            self.position += 1
        elif character != end:
            raise _Syntax(self.position, f"a comma or {end} is expected")
        return False

    def _string(self) -> Any:
        found = _STRING.match(self.text, self.position)
        if found is None:
            return self._broken()
        self.position = found.end()
        self.strings.append(found[1])
        return found[1] if self._style is None else _unescape(found[1], self._style)

    def _next(self) -> str:
        space = _SPACE.match(self.text, self.position)
        self.position = space.end() if space else self.position
        return self.text[self.position : self.position + 1]

    def _broken(self) -> Any:
        self.cut = True
        self.position = len(self.text)
        return _NOTHING


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
    doubled = single = False
    for run in _RUN.finditer(string):
        letters = run[2]
        if len(run[1]) % 2 == 0:
            doubled |= bool(letters)
            continue
        following = string[run.end(1) : run.end(1) + 1]
        if following in ('"', "/", ""):
            continue
        if following == "'":
            single |= _is_accent(string, run.end(1))
        elif following in "nrt":
            continue
        elif following == "b":
            single |= len(letters) > 1
        elif following == "f":
            single |= letters in _COMMANDS
        elif following == "u":
            single |= _HEXADECIMAL.match(string, run.end(1) + 1) is None
        else:
            single = True
    return doubled, single


def _common_style(strings: Sequence[str]) -> str:
    found = [_evidence(string) for string in strings if "\\" in string]
    doubled, single = any(pair[0] for pair in found), any(pair[1] for pair in found)
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
        if count == 1 or style in ("doubled", "unknown"):
            pieces.append("\\" * (count // 2))
        elif count == 2:
            pieces.append(_pair(string, position, run[2], style))
        elif count == 3 and string[position] != '"':
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
    """What a single backslash before `position` means, and where to read on."""
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

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def complaints(value: Any, schema: Mapping[str, Any], place: str = "the answer") -> list[str]:
    """What is wrong with a value, in words for the model; empty where it satisfies the schema.

    Knows type, enum, properties, required, additionalProperties, items, and the least and greatest length
    of strings and lists; other words of JSON schema are ignored.
    """
    wanted = schema.get("type")
    types = [wanted] if isinstance(wanted, str) else list(wanted or ())
    if types and not any(_TYPES[name](value) for name in types):
        return [f"{place} must be of type {' or '.join(types)}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place} must be one of {to_json_text(schema['enum'])}, not {excerpt(to_json_text(value), 60)}")
    if isinstance(value, str | list):
        least, most = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
        unit = "characters" if isinstance(value, str) else "items"
        if len(value) < schema.get(least, 0):
            found.append(f"{place} must have at least {schema[least]} {unit}, not {len(value)}")
        if len(value) > schema.get(most, math.inf):
            found.append(f"{place} must have at most {schema[most]} {unit}, not {len(value)}")
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            found += complaints(item, schema["items"], f"{place}[{number}]")
    if isinstance(value, dict):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{place} lacks {name!r}" for name in schema.get("required", ()) if name not in value]
        for name, member in value.items():
            if name in properties:
                found += complaints(member, properties[name], f"{place}.{name}")
            elif additional is False:
                found.append(f"{place} must not have {name!r}")
            elif isinstance(additional, Mapping):
                found += complaints(member, additional, f"{place}.{name}")
    return found


def excerpt(text: str, longest: int) -> str:
    """A text on one line, cut where it is longer than `longest` characters."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
