"""The schemas of requests and answers: one source for checking a request and for the OpenAPI document.

A schema is that of JSON Schema 2020-12, of which `checked` knows what is used here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lemmata.core.errors import InputError

Schema = Mapping[str, Any]


# ---------------------------------------------------------------- writing schemas


def string(description: str = "", *, longest: int | None = None, shortest: int | None = None, **more: Any) -> Schema:
    bounds = {"minLength": shortest, "maxLength": longest}
    return _schema("string", description, {**bounds, **more})


def integer(description: str = "", *, least: int | None = None, most: int | None = None, **more: Any) -> Schema:
    return _schema("integer", description, {"minimum": least, "maximum": most, **more})


def number(description: str = "", *, least: float | None = None, most: float | None = None, **more: Any) -> Schema:
    return _schema("number", description, {"minimum": least, "maximum": most, **more})


def array_of(items: Schema, description: str = "", *, most: int | None = None, **more: Any) -> Schema:
    return _schema("array", description, {"items": items, "maxItems": most, **more})


def object_of(
    properties: Mapping[str, Schema], description: str = "", *, required: Sequence[str] | None = None, **more: Any
) -> Schema:
    """An object with these properties and no others; all of them are required unless `required` names some."""
    names = list(properties) if required is None else list(required)
    keys = {"properties": properties, "required": names or None, "additionalProperties": False}
    return _schema("object", description, {**keys, **more})


def nullable(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _schema(kind: str, description: str, keys: Mapping[str, Any]) -> Schema:
    described = {"description": description} if description else {}
    return {"type": kind, **described, **{key: value for key, value in keys.items() if value is not None}}


# ---------------------------------------------------------------- checking requests


def parsed(schema: Schema, text: str, where: str) -> Any:
    """The value of a query parameter."""
    kind = schema["type"]
    if kind == "integer":
        try:
            return checked(schema, int(text) if text.isascii() and "_" not in text else text, where)
        except ValueError:
            return checked(schema, text, where)
    if kind == "boolean":
        return checked(schema, {"true": True, "false": False}.get(text, text), where)
    return checked(schema, text, where)


def checked(schema: Schema, value: Any, where: str = "the body") -> Any:
    """The value with defaults filled in; InputError that names the place for one that does not fit."""
    if "oneOf" in schema:
        return _one_of(schema, value, where)
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if value is None and "null" in kinds:
        return None
    value = _typed(kinds[0], value, where)
    if "enum" in schema and value not in schema["enum"]:
        raise InputError(f"{where} is {value!r}: possible are {', '.join(map(repr, schema['enum']))}")
    if kinds[0] == "string":
        _check_size(where, "characters", len(value), schema.get("minLength"), schema.get("maxLength"))
    elif kinds[0] in ("integer", "number"):
        _check_size(where, "", value, schema.get("minimum"), schema.get("maximum"))
    elif kinds[0] == "array":
        _check_size(where, "items", len(value), schema.get("minItems"), schema.get("maxItems"))
        return [checked(schema["items"], item, f"{where}[{place}]") for place, item in enumerate(value)]
    elif kinds[0] == "object":
        return _checked_object(schema, value, where)
    return value


def _one_of(schema: Schema, value: Any, where: str) -> Any:
    problems = []
    of_its_type = [choice for choice in schema["oneOf"] if _is_of(choice["type"], value)]
    for choice in of_its_type or schema["oneOf"]:
        try:
            return checked(choice, value, where)
        except InputError as error:
            problems.append(str(error))
    raise InputError("; or ".join(dict.fromkeys(problems)))


_NAMES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _typed(kind: str, value: Any, where: str) -> Any:
    """The value, which must be of a type of JSON; a whole number may be written as 2.0."""
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if not _is_of(kind, value):
        raise InputError(f"{where} should be {_NAMES[kind]}")
    if kind == "string" and not _is_text(value):
        raise InputError(f"{where} is no valid text: it holds half a character (a lone surrogate)")
    return value


def _is_of(kind: str, value: Any) -> bool:
    if isinstance(value, bool) and kind != "boolean":  # which Python takes for a number
        return False
    return isinstance(value, _TYPES[kind]) and not (isinstance(value, float) and not math.isfinite(value))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_size(where: str, unit: str, size: float, least: float | None, most: float | None) -> None:
    unit = f" {unit}" if unit else ""
    if least is not None and size < least:
        raise InputError(f"{where} is too small: at least {least:g}{unit}")
    if most is not None and size > most:
        raise InputError(f"{where} is too large: at most {most:g}{unit}")


def _checked_object(schema: Schema, value: Mapping[str, Any], where: str) -> dict[str, Any]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    rest = schema.get("additionalProperties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        raise InputError(f"{where} lacks {', '.join(missing)}")
    if "maxProperties" in schema:
        _check_size(where, "entries", len(value), None, schema["maxProperties"])
    result: dict[str, Any] = {}
    for name, item in value.items():
        if name not in properties and rest is False:
            known = ", ".join(properties)
            raise InputError(f"{where} has no key {name!r} (there are: {known})")
        _typed("string", name, f"a key of {where}")
        place = f"{where}.{name}" if where != "the body" else name
        result[name] = checked(properties.get(name, rest), item, place) if properties.get(name, rest) else item
    for name, described in properties.items():
        if name not in result and "default" in described:
            result[name] = described["default"]
    return result
