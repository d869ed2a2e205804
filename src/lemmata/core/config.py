"""Settings files to option records, and back to a list of every key; an unknown key is an error with a suggestion.

An option record is a frozen dataclass with a default for every field. The comment behind a field is its description:
`options_of` reads it from the source, so that a key is documented in one place.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lemmata.core.errors import ConfigError, suggest

Options = TypeVar("Options")


# every table of a settings file and the record that checks it, loaded only where the file has keys for it
TABLES = {
    "ingest": "lemmata.ingest.readers:IngestOptions",
    "index": "lemmata.search.index:IndexOptions",
    "graph": "lemmata.graph.build:GraphOptions",
    "extract": "lemmata.graph.extract:ExtractOptions",
    "link": "lemmata.plant.link:LinkOptions",
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
    "evaluate": "lemmata.evaluate.evaluate:EvaluateOptions",
    "run": "lemmata.run:RunOptions",
}


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
    of tables [name.…] with the same record.
    """
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    for table, values in config.items():
        repeated = tables.get(f"{table}.*", "")
        if table not in tables and not repeated:
            names = [name.removesuffix(".*") for name in tables]
            raise ConfigError(f"{path}: there is no table [{table}]{suggest(table, names)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: {table} should be a table: [{table}]")
        contents = {f"{table}.{name}": values[name] for name in values} if repeated else {table: values}
        for name, content in contents.items():
            if not isinstance(content, dict):
                raise ConfigError(f"{path}: {name} should be a table: [{name}]")
            if _has_keys(content):
                build(load_options(repeated or tables[table]), content, f"{path}: [{name}]")
    return config


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
    """An option record from a table.

    A field that is itself a record takes its keys from a table of its own name or, where its class says `FLAT = True`,
    from this table. `CHOICES` of the class are checked, for each entry of a list and each key of a table, and so are
    the values in `SMALLEST`.
    """
    defaults = kind()
    parts = {f.name: getattr(defaults, f.name) for f in fields(kind)}  # type: ignore[arg-type]
    flat = {name: value for name, value in parts.items() if is_dataclass(value) and getattr(value, "FLAT", False)}
    keys = [name for name in parts if name not in flat]
    keys += [f.name for value in flat.values() for f in fields(value)]
    for key in values:
        if key not in keys:
            raise ConfigError(f"{where} has no key {key!r}{suggest(key, keys)}")
    arguments: dict[str, Any] = {}
    for name, default in parts.items():
        if name in flat:
            own = {f.name for f in fields(default)}
            arguments[name] = build(type(default), {key: values[key] for key in values if key in own}, where)
        elif is_dataclass(default) and not isinstance(default, type):
            arguments[name] = build(type(default), values.get(name, {}), f"{where.removesuffix(']')}.{name}]")
        elif name in values:
            arguments[name] = _checked(kind, name, values[name], default, where)
    return kind(**arguments)


def _checked(kind: type[Any], name: str, value: Any, default: Any, where: str) -> Any:
    expected = type(default)
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not expected:
        article = "an" if expected.__name__[0] in "aeiou" else "a"
        raise ConfigError(f"{where}: {name} = {value!r} should be {article} {expected.__name__}")
    choices = getattr(kind, "CHOICES", {}).get(name, ())
    for word in (value if isinstance(value, list | dict) else [value]) if choices else ():
        if word not in choices:
            raise ConfigError(f"{where}: {name} = {word!r}{suggest(str(word), choices)}")
    smallest = getattr(kind, "SMALLEST", {}).get(name)
    if smallest is not None and value < smallest:
        raise ConfigError(f"{where}: {name} = {value!r} is too small; {smallest} is the least")
    return value


def options_of(kind: type[Any], table: str) -> Iterator[Option]:
    """Every key of an option record, with its default and its description; nested records follow as tables."""
    defaults = kind()
    comments = _field_comments(kind)
    nested = []
    for f in fields(kind):
        default = getattr(defaults, f.name)
        if not is_dataclass(default):
            yield Option(table, f.name, default, comments.get(f.name, ""))
        elif getattr(default, "FLAT", False):
            yield from options_of(type(default), table)
        else:
            nested.append((type(default), f"{table}.{f.name}"))
    for record, name in nested:
        yield from options_of(record, name)


def _field_comments(kind: type[Any]) -> dict[str, str]:
    """The comment behind each field in the source of a dataclass."""
    source = inspect.cleandoc("\n" + inspect.getsource(kind))
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    record = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    return {
        node.target.id: comments[node.end_lineno]
        for node in record.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno in comments
    }


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
