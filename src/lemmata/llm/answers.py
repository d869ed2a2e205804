"""JSON in what models write: located among other text, read with its LaTeX intact, fitted to a schema.

What is unambiguous is tolerated, what is valid is kept, and the rest is noted. By hand, because json_repair reads the
`\\beta` of LaTeX as a backspace and letters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import itemgetter
from typing import Any, NamedTuple

from lemmata.core.errors import InputError
from lemmata.core.records import Checker, Schema, Unfit, has_type
from lemmata.core.words import singular

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

_INTEGER = re.compile(r"[\s\[(#]*([+-]?[0-9]{1,15})(?:\.0*)?[\s\]).:]*")  # of [3] is 3 the number, too
_LEAST_ALIKE = 0.8  # of a misspelt word and the one that was meant, by difflib


class Fitted(NamedTuple):
    """A value as far as it satisfies a schema."""

    value: Any  # None where there is a complaint
    complaint: str = ""  # why nothing of it can be used, in words for the model
    notes: tuple[str, ...] = ()  # the entries that were dropped, and texts that were replaced
    truncated: bool = False  # the text breaks off; `value` holds its complete items


def read_answer(
    text: str,
    schema: Schema,
    defaults: Mapping[str, Any] | None = None,
    check: Callable[[Any], str] | None = None,
    *,
    cut: bool = False,
) -> Fitted:
    """The value of an answer; never raises. `check` may complain about a value that satisfies the schema."""
    try:
        value, truncated = read_json(text)
    except InputError as error:
        return Fitted(None, str(error) + ("; it also breaks off before its end" if cut else ""))
    fitted = fit(value, schema, defaults)._replace(truncated=truncated)
    complaint = fitted.complaint or (check(fitted.value) if check else "")
    return Fitted(None, complaint, fitted.notes, truncated) if complaint else fitted


def fit(value: Any, schema: Schema, defaults: Mapping[str, Any] | None = None) -> Fitted:
    """The part of a value that satisfies the schema, where its meaning is beyond doubt.

    Numbers may be written as text, keys and choices in another case, a list of one as its only item, an object with
    a single list as that list, of several lists the one whose required keys the items have, a list as an object with
    the numbers of its items as keys, an object inside another one under a name of its own; further keys are ignored.
    Invalid items of a list are dropped and noted, a missing list is empty. A property that is missing or
    invalid has the value that `defaults` has for its name. A value of which nothing is left gets a complaint.

    Reads type, enum, properties, required, additionalProperties, items, and the lengths of strings and lists; other
    keywords of JSON schema are ignored.
    """
    notes: list[str] = []
    try:
        fitted = _Fit(defaults or {}, notes).value(value, schema, "the answer")
    except Unfit as unfit:
        return Fitted(None, str(unfit))
    lists = [member for member in fitted.values() if isinstance(member, list)] if isinstance(fitted, dict) else []
    if notes and lists and not any(lists):
        return Fitted(None, "; ".join(notes[:5]))
    return Fitted(fitted, notes=tuple(notes))


class _Fit(Checker):
    """The fitting of one answer: what is meant beyond doubt is taken, what does not fit is left out and noted."""

    def __init__(self, defaults: Mapping[str, Any], notes: list[str]) -> None:
        self.defaults, self.notes = defaults, notes

    def value(self, value: Any, schema: Schema, place: str) -> Any:
        fitted = super().value(value, {key: part for key, part in schema.items() if key != "maxItems"}, place)
        most = schema.get("maxItems", math.inf)
        if isinstance(fitted, list) and len(fitted) > most:
            self.notes.append(f"{place} is too large: at most {most} items")
            return fitted[:most]
        return fitted

    def converted(self, value: Any, schema: Schema, kinds: Sequence[str]) -> Any:
        return _as_type(value, kinds[0], schema, self.defaults) if len(kinds) == 1 else value

    def choice(self, value: Any, choices: Sequence[Any], place: str) -> Any:
        alike = [choice for choice in choices if isinstance(value, str) and _folded(str(choice)) == _folded(value)]
        return alike[0] if len(alike) == 1 and value not in choices else super().choice(value, choices, place)

    def items(self, values: Sequence[Any], schema: Schema, place: str) -> list[Any]:
        fitting: list[Any] = []
        for number, item in enumerate(values):
            try:
                fitting.append(self.value(item, schema, f"{place}[{number}]"))
            except Unfit as unfit:
                self.notes.extend(unfit.complaints)
        return fitting

    def members(self, value: Mapping[str, Any], schema: Schema, place: str) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        written = _by_property(value, properties)
        fitted = {} if schema.get("additionalProperties") is False else dict(value)
        complaints: list[str] = []
        for name, inner in properties.items():
            try:
                if name in written:
                    fitted[name] = self.member(written[name], inner, f"{place}.{name}", name)
                elif name in self.defaults:
                    fitted[name] = self.defaults[name]
                elif name in required and inner.get("type") != "array":
                    raise Unfit(f"{place} lacks {name!r}")
                elif name in required:
                    self.notes.append(f"{place} lacks {name!r}")
                    fitted[name] = []
            except Unfit as unfit:
                complaints += unfit.complaints
        if complaints:
            raise Unfit(*complaints)
        return fitted

    def member(self, value: Any, schema: Schema, place: str, name: str) -> Any:
        """The value of a property, or its default."""
        if name not in self.defaults:
            return self.value(value, schema, place)
        if value is None:
            return self.defaults[name]
        try:
            return self.value(value, schema, place)
        except Unfit as unfit:
            if "enum" in schema and (nearest := _nearest(value, schema["enum"])):
                return nearest
            self.notes.append(f"{unfit.complaints[0]}; {self.defaults[name]!r} is used")
            return self.defaults[name]


def _as_type(value: Any, name: str, schema: Schema, defaults: Mapping[str, Any]) -> Any:
    """A value of another type that can mean only one value of this one; else the value unchanged."""
    if name == "object":
        return _as_object(value, schema.get("properties", {}), defaults)
    if has_type(value, name):
        return value
    if name == "array":
        inner = schema.get("items", {}).get("type")
        if inner in ("object", "string") and (numbered := _numbered(value, inner)):
            return [_with_number(item, number, schema["items"]) for number, item in numbered]
        return [value] if inner in ("object", "string") and has_type(value, inner) else value
    if name == "integer":
        match = _INTEGER.fullmatch(value) if isinstance(value, str) else None
        return int(match[1]) if match else int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(value, str) and name in ("number", "boolean"):
        try:
            parsed = json.loads(value.strip().lower())
        except ValueError:
            return value
        return parsed if has_type(parsed, name) else value
    return value


def _numbered(value: Any, item_type: str) -> list[tuple[int, Any]]:
    """The members of an object by number, in order; empty where a key is no number or a member of another type."""
    members = [(_INTEGER.fullmatch(key), item) for key, item in value.items()] if isinstance(value, dict) else []
    numbered = [(int(match[1]), item) for match, item in members if match and has_type(item, item_type)]
    return sorted(numbered, key=lambda member: member[0]) if len(numbered) == len(members) else []


def _with_number(item: Any, number: int, schema: Schema) -> Any:
    """An item with its number in the one integer property that it may lack."""
    properties = schema.get("properties", {})
    integers = [name for name, inner in properties.items() if inner.get("type") == "integer"]
    if not isinstance(item, dict) or len(integers) != 1 or integers[0] in _by_property(item, properties):
        return item
    return {**item, integers[0]: number}


def _as_object(value: Any, properties: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
    """An object where only one of its lists was written, only one item of its list, or that object in another one."""
    wrapped = isinstance(value, dict) and len(value) == 1 and not _by_property(value, properties)
    inside = next(iter(value.values())) if wrapped else value
    objects = [item for item in (inside if isinstance(inside, list) else [inside] * wrapped) if isinstance(item, dict)]
    if len(objects) == 1 and _by_property(objects[0], properties):
        return objects[0]
    if len(properties) != 1:
        lists = _lists_with_keys_of(value, properties, defaults) if isinstance(value, list) else []
        return {lists[0]: value} if len(lists) == 1 else value
    [(name, inner)] = properties.items()
    if inner.get("type") != "array":
        return value
    if isinstance(value, list):
        return {name: value}
    item_properties = inner.get("items", {}).get("properties", {})
    if isinstance(value, dict) and not _by_property(value, properties) and _by_property(value, item_properties):
        return {name: [value]}
    return value


def _lists_with_keys_of(items: Sequence[Any], properties: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """The list properties of which an item has all required keys, except those with a default."""
    names = []
    for name, inner in properties.items():
        entry = inner.get("items", {}) if inner.get("type") == "array" else {}
        required = {*entry.get("required", ())} - {*defaults}
        members = (_by_property(item, entry.get("properties", {})) for item in items if isinstance(item, dict))
        if required and any(required <= {*written} for written in members):
            names.append(name)
    return names


def _by_property(value: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """The members by the names of the schema, also those in another case; of two that could be meant, none."""
    written: dict[str, list[Any]] = {}
    for key, member in value.items():
        written.setdefault(_folded(key), []).append(member)
    by_name = {name: value[name] for name in properties if name in value}
    for name in properties:
        members = written.get(_folded(name), [])
        if name not in value and len(members) == 1:
            by_name[name] = members[0]
    return by_name


def _folded(text: str) -> str:
    return re.sub(r"[\W_]+", "_", text.casefold()).strip("_")


def _nearest(value: Any, choices: Sequence[Any]) -> Any:
    """The one choice that a text names among other words, in the plural or misspelt; None where it is not clear."""
    words = [singular(word) for word in _folded(value[:200]).split("_")] if isinstance(value, str) else []
    named = [choice for choice in choices if choice in words]
    alike = named or [match for word in words[:9] for match in get_close_matches(word, choices, 2, _LEAST_ALIKE)]
    return alike[0] if len(set(alike)) == 1 else None
