"""One definition per record: its hints, defaults and comments make its JSON schema, its check and its help.

A record is a dataclass, a NamedTuple, a TypedDict or the signature of a function; the comment behind a field is its
description. Settings, the command line, REST, OpenAPI, MCP and the answers of language models all come from here.
By hand, because msgspec ignores unknown keys of a dataclass and neither it nor pydantic says which key was meant.
"""

from __future__ import annotations

import ast
import functools
import inspect
import io
import math
import re
import sys
import tokenize
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from lemmata.core.errors import LemmataError, suggest

Record = TypeVar("Record")
Schema = Mapping[str, Any]  # of JSON Schema 2020-12
FLAT = "flat"  # Annotated[Record, FLAT]: its fields stand among those of the record around it
REQUIRED = inspect.Parameter.empty


class Described(NamedTuple):
    """What a hint says beyond its type: `Annotated[int, Described("Number of hits.", least=1)]`."""

    description: str = ""
    least: float | None = None  # a number, or the length of a text, list or object
    most: float | None = None
    pattern: str | None = None  # of a whole text


class Member(NamedTuple):
    """A field of a record, or a parameter of a function."""

    name: str
    hint: Any
    default: Any  # REQUIRED without one
    description: str


# ---------------------------------------------------------------- reading a definition


@functools.cache
def members_of(record: Any) -> tuple[Member, ...]:
    """The fields of a record or the parameters of a function, in order."""
    hints = get_type_hints(record, include_extras=True)
    if inspect.isfunction(record):
        parameters = inspect.signature(record).parameters.values()
        return tuple(Member(p.name, hints[p.name], p.default, "") for p in parameters if p.name != "self")
    if is_dataclass(record):
        defaults = {
            f.name: f.default if f.default_factory is MISSING else f.default_factory()
            for f in fields(record)
            if f.default is not MISSING or f.default_factory is not MISSING
        }
        hints = {f.name: hints[f.name] for f in fields(record)}
    else:  # a NamedTuple or TypedDict, which is written whole
        defaults = {}
    comments = _comments(record)
    return tuple(
        Member(name, hint, defaults.get(name, REQUIRED), comments.get(name, "")) for name, hint in hints.items()
    )


def _comments(record: Any) -> dict[str, str]:
    """The comment behind each field in the source of a record and of those that it extends."""
    comments: dict[str, str] = {}
    for parent in getattr(record, "__orig_bases__", record.__bases__):
        if isinstance(parent, type):
            comments |= _comments(parent)
    return comments | _own_comments(record)


def _own_comments(record: Any) -> dict[str, str]:
    """The comment behind each field that a record declares itself.

    Only its own lines are parsed: settings are checked whenever a workspace is opened, and modules are long.
    """
    try:
        module = inspect.getsource(sys.modules[record.__module__])
    except (OSError, TypeError):
        return {}
    class_text = re.search(rf"^class {record.__name__}\b.*\n(?:(?:[ \t].*)?\n)*", f"{module}\n", re.MULTILINE)
    if class_text is None:
        return {}
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(class_text[0]).readline)
        if token.type == tokenize.COMMENT
    }
    (definition,) = ast.parse(class_text[0]).body
    assert isinstance(definition, ast.ClassDef)
    return {
        node.target.id: comments[node.end_lineno]
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno in comments
    }


def bare(hint: Any) -> Any:
    """A hint without what is said about it, and without None."""
    if get_origin(hint) in (Annotated, NotRequired):
        return bare(get_args(hint)[0])
    given = _given(hint)
    return hint if given is hint else bare(given)


def _given(hint: Any) -> Any:
    """The type of a value that is not None."""
    others = [argument for argument in get_args(hint) if argument is not NoneType]
    return others[0] if get_origin(hint) in (Union, UnionType) and len(others) == 1 else hint


def is_flat(hint: Any) -> bool:
    """Whether the fields of a record stand among those of the record around it."""
    return get_origin(hint) is Annotated and FLAT in get_args(hint)[1:]


# ---------------------------------------------------------------- JSON schemas

_TYPES: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    NoneType: "null",
}
_BOUNDS = {
    "string": ("minLength", "maxLength", "characters"),
    "integer": ("minimum", "maximum", ""),
    "number": ("minimum", "maximum", ""),
    "array": ("minItems", "maxItems", "items"),
    "object": ("minProperties", "maxProperties", "entries"),
}


def schema_of(hint: Any) -> dict[str, Any]:
    """The JSON schema of a type. Pairs of texts (`tuple[tuple[str, str], ...]`) are an object."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        notes = (note for note in arguments[1:] if isinstance(note, Described))
        return functools.reduce(_described, notes, schema_of(arguments[0]))
    if origin is NotRequired:
        return schema_of(arguments[0])
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, UnionType):
        return _any_of([schema_of(argument) for argument in arguments])
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if origin in (list, tuple, Sequence):
        if get_origin(arguments[0]) is tuple:
            return {"type": "object", "additionalProperties": schema_of(get_args(arguments[0])[1])}
        return {"type": "array", "items": schema_of(arguments[0])}
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    return {} if hint is Any else schema_of_members(members_of(hint), hint)


def _described(schema: dict[str, Any], note: Described) -> dict[str, Any]:
    kind = schema["type"][0] if isinstance(schema.get("type"), list) else schema.get("type", "")
    least, most, _ = _BOUNDS.get(kind, ("", "", ""))
    said = {"description": note.description or None, least: note.least, most: note.most, "pattern": note.pattern}
    return schema | {key: value for key, value in said.items() if value is not None}


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    null = {"type": "null"}
    others = [schema for schema in schemas if schema != null]
    if len(others) > 1:
        return {"oneOf": schemas}
    return others[0] | {"type": [others[0]["type"], "null"]} if null in schemas else others[0]


def schema_of_members(members: Collection[Member], record: Any = None) -> dict[str, Any]:
    """The JSON schema of an object with these members and no others.

    `CHOICES` of the record hold for each entry of a list and each key of an object, `SMALLEST` for a number.
    """
    choices, smallest = getattr(record, "CHOICES", {}), getattr(record, "SMALLEST", {})
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, hint, default, description in members:
        if is_flat(hint):
            inner = schema_of(hint)
            properties |= inner["properties"]
            required += inner.get("required", [])
            continue
        schema = schema_of(_given(hint) if default is None else hint)  # None stands for an argument that is not given
        if name in choices:
            place = {"array": "items", "object": "propertyNames"}.get(schema["type"])
            schema |= {place: {**schema.get(place, {}), "enum": choices[name]}} if place else {"enum": choices[name]}
        schema |= {"minimum": smallest[name]} if name in smallest else {}
        schema |= {"description": description} if description else {}
        schema |= {"default": default} if isinstance(default, str | int | float) and default != "" else {}
        properties[name] = schema
        if default is REQUIRED and get_origin(hint) is not NotRequired:
            required.append(name)
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


@functools.cache
def parameters_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON schema of the arguments of a function."""
    return schema_of_members(members_of(function))


# ---------------------------------------------------------------- checking a value

_NAMES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}
_PYTHON: Mapping[str, Any] = {name: kind for kind, name in _TYPES.items()} | {"number": (int, float)}


class Unfit(Exception):  # noqa: N818 - of one value, which a caller may leave out
    """What is wrong with a value, one sentence for each part."""

    def __init__(self, *complaints: str) -> None:
        super().__init__("; ".join(complaints[:5]))
        self.complaints = complaints


class Checker:
    """Walks a value along its schema; a subclass may take for what is meant what this one refuses."""

    def value(self, value: Any, schema: Schema, place: str) -> Any:
        """The value; Unfit with all that is wrong in it. `place` is empty for a whole request."""
        if "oneOf" in schema:
            return self._one_of(value, schema["oneOf"], place)
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        value = self.converted(value, schema, kinds)
        if kinds and not any(has_type(value, kind) for kind in kinds):
            raise Unfit(f"{place or 'the request'}{_shown(value)} should be {' or '.join(map(_NAMES.get, kinds))}")  # type: ignore[arg-type]
        if "enum" in schema:
            value = self.choice(value, schema["enum"], place)
        if isinstance(value, str):
            _check_text(value, schema, place)
        elif isinstance(value, dict):
            value = self.members(value, schema, place)
        elif isinstance(value, list) and "items" in schema:
            value = self.items(value, schema["items"], place)
        _check_size(value, schema, place)
        return value

    def converted(self, value: Any, _schema: Schema, kinds: Sequence[str]) -> Any:
        """A value of another type that can mean only one value of this type; a whole number may be written as 2.0."""
        is_whole = isinstance(value, float) and value.is_integer()
        return int(value) if is_whole and "integer" in kinds and "number" not in kinds else value

    def choice(self, value: Any, choices: Sequence[Any], place: str) -> Any:
        if value in choices:
            return value
        raise Unfit(f"{place}{_shown(value)}{suggest(str(value), list(map(str, choices)))}")

    def items(self, values: Sequence[Any], schema: Schema, place: str) -> list[Any]:
        return _all(lambda number: self.value(values[number], schema, f"{place}[{number}]"), range(len(values)))

    def members(self, value: Mapping[str, Any], schema: Schema, place: str) -> dict[str, Any]:
        properties, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
        missing = [name for name in schema.get("required", ()) if name not in value]

        def member(name: str) -> Any:
            if name in missing:
                raise Unfit(f"{place or 'the request'} lacks {name!r}")
            if name not in properties and rest is False:
                raise Unfit(f"{place or 'the request'} has no key {name!r}{suggest(name, list(properties))}")
            self.value(name, schema.get("propertyNames", {}), place)
            return self.value(value[name], properties.get(name, rest), f"{place}.{name}" if place else name)

        names = [*missing, *value]
        return dict(zip(names, _all(member, names), strict=True))

    def _one_of(self, value: Any, schemas: Sequence[Schema], place: str) -> Any:
        fitting = [schema for schema in schemas if has_type(value, schema["type"])]
        if len(fitting) == 1:
            return self.value(value, fitting[0], place)
        names = " or ".join(_NAMES[schema["type"]] for schema in schemas)
        raise Unfit(f"{place}{_shown(value)} should be {names}")


def _all(check: Callable[[Any], Any], parts: Collection[Any]) -> list[Any]:
    """The results of a check of all parts; Unfit with the complaints of all of them."""
    results: list[Any] = []
    complaints: list[str] = []
    for part in parts:
        try:
            results.append(check(part))
        except Unfit as unfit:
            complaints += unfit.complaints
    if complaints:
        raise Unfit(*complaints)
    return results


def has_type(value: Any, kind: str) -> bool:
    """Whether a value is of a type of JSON, for which true is no number, and infinity neither."""
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, _PYTHON[kind]) and not (isinstance(value, float) and not math.isfinite(value))


def _shown(value: Any) -> str:
    shown = repr(value)
    return f" = {shown}" if len(shown) <= 60 else ""


def _check_text(value: str, schema: Schema, place: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unfit(f"{place} is no valid text: it holds half a character (a lone surrogate)") from None
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise Unfit(f"{place}{_shown(value)} should look like {schema['pattern']}")


def _check_size(value: Any, schema: Schema, place: str) -> None:
    kind = "string" if isinstance(value, str) else _TYPES.get(type(value), "null")
    least, most, unit = _BOUNDS.get(kind, ("", "", ""))
    if not (least in schema or most in schema):
        return
    size, unit = (len(value), f" {unit}") if unit else (value, "")
    if size < schema.get(least, -math.inf):
        raise Unfit(f"{place}{_shown(value)} is too small: at least {schema[least]:g}{unit}")
    if size > schema.get(most, math.inf):
        raise Unfit(f"{place}{_shown(value)} is too large: at most {schema[most]:g}{unit}")


# ---------------------------------------------------------------- making records


def build(record: type[Record], values: Any, place: str, error: type[LemmataError]) -> Record:
    """A dataclass from the values of a table or an object; `error` names the place of what does not fit."""
    return _made(record, check(schema_of(record), values, place, error))  # type: ignore[no-any-return]


def check(schema: Schema, value: Any, place: str, error: type[LemmataError]) -> Any:
    """The value, which must fit a schema; `error` names what does not."""
    try:
        return Checker().value(value, schema, place)
    except Unfit as unfit:
        raise error(str(unfit)) from None


def arguments_of(function: Callable[..., Any], values: Any, error: type[LemmataError]) -> dict[str, Any]:
    """The arguments of a function from a request; without those that it leaves to their defaults."""
    checked = check(parameters_of(function), values, "", error)
    return dict(_arguments(members_of(function), checked))


def _arguments(members: Collection[Member], values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, hint, *_ in members:
        if is_flat(hint):
            record = bare(hint)
            yield name, _made(record, {key: value for key, value in values.items() if key in _keys(record)})
        elif name in values:
            yield name, _made(hint, values[name])


def _keys(record: Any) -> set[str]:
    return {member.name for member in members_of(record)}


def _made(hint: Any, value: Any) -> Any:
    """A checked value as the type of its hint has it."""
    hint = bare(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return hint(**dict(_arguments(members_of(hint), value)))
    if get_origin(hint) is tuple:
        return tuple(value.items() if isinstance(value, dict) else value)
    return float(value) if hint is float else value


def as_json(value: Any) -> Any:
    """A value with its records as objects, its tuples as lists and its paths as texts."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return as_json(value._asdict())
    if is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: as_json(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return str(value) if isinstance(value, Path) else value
