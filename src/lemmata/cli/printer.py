"""The one printer: what a verb returned, for people.

A record is printed as a line for each of its values, then its tables, then its notes. `--json` has everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lemmata.cli.output import line, open_console, table

_LONGEST = 100  # characters of a text in a table
_PLAIN = ("year", "line")  # numbers that are not counts
_UNSAID: tuple[Any, ...] = ("", None, [], {})


def print_record(record: Any, shown: Sequence[str] = (), empty: str = "nothing") -> None:
    """Print a record as JSON has it, or a list of records.

    `shown` names the values that people see, in this order; by default all. `empty` says that there are none.
    """
    if isinstance(record, list):
        _print_table("", [_chosen(row, shown) for row in record]) if record else line(empty)
        return
    values = {key: value for key, value in _chosen(record, shown).items() if value not in _UNSAID}
    notes = values.pop("notes", ())
    tables = {key: rows for key, value in values.items() if (rows := _rows_of(value))}
    facts = [(_words(key), _shown(value)) for key, value in values.items() if key not in tables]
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:  # a path or a command stays whole, to be copied
        line((f"{name:<{width}}", "bold"), f"  {value}")
    for key, rows in tables.items():
        _print_table(_words(key), rows)
    for note in notes.values() if isinstance(notes, Mapping) else notes:
        line(str(note), style="yellow")
    if not (values or notes):
        line(empty)


def _chosen(record: Any, shown: Sequence[str]) -> Any:
    """A record with the values that are shown; `a.b` is the value b of a record a."""
    if not shown or not isinstance(record, Mapping):
        return record
    chosen = {}
    for name in shown:
        outer, _, inner = name.partition(".")
        value = record.get(outer)
        chosen[inner or outer] = value.get(inner) if inner and isinstance(value, Mapping) else value
    return chosen


def _rows_of(value: Any) -> list[dict[str, Any]]:
    """The rows of a table: a list of records, or records by name; empty for anything else."""
    if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
        return [dict(row) for row in value]
    if isinstance(value, Mapping) and value and all(isinstance(row, Mapping) for row in value.values()):
        return [{"": name, **row} for name, row in value.items()]
    return []


def _print_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table of records; a column that is empty in all of them is left out."""
    if not isinstance(rows[0], Mapping):
        for row in rows:
            line(_shown(row))
        return
    columns = [name for name in dict.fromkeys(key for row in rows for key in row) if _is_said(name, rows)]
    heads = [name and _words(name) for name in columns]
    heads[0] = heads[0] or title
    cells = [[_cell(name, row.get(name)) for name in columns] for row in rows]
    numeric = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in columns]
    heads = [f">{head}" if right else head for head, right in zip(heads, numeric, strict=True)]
    open_console().print(table(heads, cells, padding=(0, 2, 0, 0)))


def _cell(name: str, value: Any) -> str:
    text = str(value) if name in _PLAIN and value is not None else " ".join(_shown(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _is_said(name: str, rows: Iterable[Mapping[str, Any]]) -> bool:
    return any(row.get(name) not in _UNSAID for row in rows)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _shown(value: Any) -> str:
    """A value in words: counts with the largest first, a list with commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if 0 < abs(value) < 0.01:
            return f"{value:.2g}"
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        entries = list(value.items())
        if all(isinstance(number, int) for _, number in entries):
            entries.sort(key=lambda entry: -entry[1])
            return ", ".join(f"{number:,} {_words(name)}" for name, number in entries)
        return ", ".join(f"{_words(name)} {_shown(each)}" for name, each in entries if each not in _UNSAID)
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return "" if value is None else str(value)
