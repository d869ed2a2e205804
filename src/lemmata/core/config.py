"""Settings files to option records, and back to a list of every key; an unknown key is an error with a suggestion.

An option record is a frozen dataclass with a default for every field; `core.records` reads its description and checks
the values.
"""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lemmata.core import records
from lemmata.core.errors import ConfigError, suggest

Options = TypeVar("Options")


# every table of a settings file and the record that checks it, loaded only where the file has keys for it
TABLES = {
    "ingest": "lemmata.ingest.readers:IngestOptions",
    "index": "lemmata.search.index:IndexOptions",
    "extract": "lemmata.graph.extract:ExtractOptions",
    "embed": "lemmata.mine.embedding:EmbedStageOptions",
    "llm": "lemmata.llm.endpoint:EndpointOptions",
    "ask": "lemmata.search.ask:AnswerOptions",
    "split": "lemmata.mine.splits:SplitOptions",
    "mine": "lemmata.mine.mine:MineOptions",
    "audit": "lemmata.mine.training_sets:AuditOptions",
    "mixtures.*": "lemmata.mine.export:Mixture",
    "pretrain.*": "lemmata.train.pretrain:PretrainOptions",
    "finetune.*": "lemmata.train.finetune:FinetuneOptions",
    "reranker.*": "lemmata.train.reranker:RerankerOptions",
    "static.*": "lemmata.train.static:StaticOptions",
    "metric": "lemmata.train.learn_metric:MetricStageOptions",
    "geodesic": "lemmata.search.paths:GeodesicOptions",
    "evaluate": "lemmata.evaluate.evaluate:EvaluateOptions",
    "judgments": "lemmata.evaluate.judgments:JudgmentOptions",
    "run": "lemmata.run:RunOptions",
}


# settings of papers, by the name that `recipe` at the top of a settings file gives
RECIPES = {file.stem: file for file in sorted((Path(__file__).parent / "recipes").glob("*.toml"))}


class Option(NamedTuple):
    """One key of a settings file."""

    table: str  # "mine.pairs"
    key: str
    default: Any
    description: str


def load_options(path: str) -> type[Any]:
    """The option record that `module:class` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def read_toml(path: Path, tables: Mapping[str, str] = TABLES) -> dict[str, Any]:
    """The tables of a settings file, each checked against its option record.

    `tables` maps a table to `module:class`, loaded only where the file has keys for it. `name.*` allows any number
    of tables [name.…] with the same record. Where the file names a `recipe`, its own keys go over those of the recipe.
    """
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    recipe = config.pop("recipe", None)
    _check_tables(config, str(path), tables)
    if recipe is None:
        return config
    if recipe not in RECIPES:
        raise ConfigError(f"{path}: there is no recipe {recipe!r}{suggest(str(recipe), list(RECIPES))}")
    return merged(read_toml(RECIPES[recipe], tables), config)


def read_assignments(words: Iterable[str], table: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of a command line, `KEY=VALUE` each: those of the verb's own table, and other tables of them.

    KEY is a key of `table`, or one of another table: `llm.url`. VALUE is TOML; anything else is a text. A key that is
    given again is a list of all its values. They are checked like those of a settings file.
    """
    record = load_options(TABLES.get(table) or TABLES[f"{table.partition('.')[0]}.*"])
    values: dict[tuple[str, ...], Any] = {}
    for word in words:
        key, sign, text = word.partition("=")
        names = [name.strip() for name in key.split(".")]
        if not sign or not all(names):
            on = f": write -o {word}=true" if getattr(record(), key, None) is False else ""
            raise ConfigError(f"-o needs KEY=VALUE, not {word!r}{on}")
        value, before = _value_of(text.strip()), values.get(tuple(names))
        values[tuple(names)] = value if before is None else [*_as_list(before), *_as_list(value)]
    own_table: dict[str, Any] = {}
    other_tables: dict[str, Any] = {}
    for path, value in values.items():
        for name in reversed(path):
            value = {name: value}
        part = getattr(record(), path[0], None)
        if len(path) == 1 or isinstance(part, dict) or is_dataclass(part):  # `pairs.seed` is a key of [mine]
            own_table = merged(own_table, value)
        else:
            other_tables = merged(other_tables, value)
    build(record, own_table, f"-o: {table}")
    _check_tables(other_tables, "-o", TABLES)
    return own_table, other_tables


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _value_of(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _check_tables(config: Mapping[str, Any], where: str, tables: Mapping[str, str]) -> None:
    for table, values in config.items():
        repeated = tables.get(f"{table}.*", "")
        if table not in tables and not repeated:
            names = [name.removesuffix(".*") for name in tables]
            raise ConfigError(f"{where}: there is no table [{table}]{suggest(table, names)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{where}: {table} should be a table: [{table}]")
        contents = {f"{table}.{name}": values[name] for name in values} if repeated else {table: values}
        for name, content in contents.items():
            if not isinstance(content, dict):
                raise ConfigError(f"{where}: {name} should be a table: [{name}]")
            if _has_keys(content):
                build(load_options(repeated or tables[table]), content, f"{where}: {name}")


def _has_keys(values: Mapping[str, Any]) -> bool:
    return any(_has_keys(value) if isinstance(value, dict) else True for value in values.values())


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Settings overridden by others, table by table."""
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def build(kind: type[Options], values: Mapping[str, Any], where: str) -> Options:
    """An option record from a table; a field that is itself a record is a table of its own name, unless it is flat."""
    return records.build(kind, values, where, ConfigError)


def options_of(kind: Any, table: str) -> Iterator[Option]:
    """Every key of an option record, with its default and its description; nested records follow as tables."""
    nested = []
    for name, hint, default, description in records.members_of(kind):
        if not is_dataclass(default):
            yield Option(table, name, default, description)
        elif records.is_flat(hint):
            yield from options_of(type(default), table)
        else:
            nested.append((type(default), f"{table}.{name}"))
    for record, name in nested:
        yield from options_of(record, name)


def all_options(config: Mapping[str, Any] | None = None) -> list[tuple[Option, Any]]:
    """Every key that `lemmata.toml` may have, with its value in `config`.

    A table NAME.* is listed once for each table of that kind in `config`, or as it is where there is none.
    """
    config = config or {}
    listed = []
    for table, path in TABLES.items():
        group, _, repeated = table.partition(".")
        names = [f"{group}.{name}" for name in config.get(group, {})] if repeated else []
        for name in names or [table]:
            for option in options_of(load_options(path), name):
                values: Any = config
                for part in option.table.split("."):
                    values = values.get(part, {})
                listed.append((option, values.get(option.key, option.default)))
    return listed
