"""Tables of settings to option records; an unknown key is an error that names the closest known one."""

from __future__ import annotations

import difflib
import importlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from lemmata.errors import ConfigError

__all__ = ["build", "merged", "read_toml", "suggest"]

Options = TypeVar("Options")


def read_toml(path: Path, tables: Mapping[str, str]) -> dict[str, Any]:
    """The tables of a settings file, each checked against the options it is for.

    Those are named as `module:class` and loaded only where a table says something: most verbs need one of them.
    `name.*` stands for any number of tables [name.…], all of the same kind.
    """
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    for table, values in config.items():
        several = tables.get(f"{table}.*", "")
        if table not in tables and not several:
            known = [name.removesuffix(".*") for name in tables]
            raise ConfigError(f"{path}: there is no table [{table}]{suggest(table, known)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: {table} should be a table: [{table}]")
        for where, content in ((f"{table}.{name}", values[name]) for name in values) if several else [(table, values)]:
            if not isinstance(content, dict):
                raise ConfigError(f"{path}: {where} should be a table: [{where}]")
            if _says_something(content):
                module, _, name = (several or tables[table]).partition(":")
                build(getattr(importlib.import_module(module), name), content, f"{path}: [{where}]")
    return config


def _says_something(values: Mapping[str, Any]) -> bool:
    return any(_says_something(value) if isinstance(value, dict) else True for value in values.values())


def suggest(word: str, known: Sequence[str]) -> str:
    """The end of a sentence on a word that is not known."""
    close = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {close[0]!r}?" if close else f" (there are: {', '.join(known)})"


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others put over them, table by table."""
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def build(kind: type[Options], values: Mapping[str, Any], where: str) -> Options:
    """Options from a table. A field that is itself a record takes its keys from a table of its own name, or,
    where its class says `FLAT = True`, from this table. `CHOICES` and `SMALLEST` of the class are checked."""
    defaults = kind()
    parts = {f.name: getattr(defaults, f.name) for f in fields(kind)}  # type: ignore[arg-type]
    flat = {name: value for name, value in parts.items() if is_dataclass(value) and getattr(value, "FLAT", False)}
    known = [name for name in parts if name not in flat]
    known += [f.name for value in flat.values() for f in fields(value)]
    for key in values:
        if key not in known:
            raise ConfigError(f"{where} has no key {key!r}{suggest(key, known)}")
    built: dict[str, Any] = {}
    for name, default in parts.items():
        if name in flat:
            own = {f.name for f in fields(default)}
            built[name] = build(type(default), {key: values[key] for key in values if key in own}, where)
        elif is_dataclass(default) and not isinstance(default, type):
            built[name] = build(type(default), values.get(name, {}), f"{where.removesuffix(']')}.{name}]")
        elif name in values:
            built[name] = _checked(kind, name, values[name], default, where)
    return kind(**built)


def _checked(kind: type[Any], name: str, value: Any, default: Any, where: str) -> Any:
    wanted = type(default)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not wanted:
        article = "an" if wanted.__name__[0] in "aeiou" else "a"
        raise ConfigError(f"{where}: {name} = {value!r} should be {article} {wanted.__name__}")
    choices = getattr(kind, "CHOICES", {}).get(name)
    if choices and value not in choices:
        raise ConfigError(f"{where}: {name} = {value!r}{suggest(value, choices)}")
    smallest = getattr(kind, "SMALLEST", {}).get(name)
    if smallest is not None and value < smallest:
        raise ConfigError(f"{where}: {name} = {value!r} is too small; {smallest} is the least")
    return value
