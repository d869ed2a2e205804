"""Graphs as the CSV tables that Neo4j imports."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lemmata.core.errors import InputError
from lemmata.graph.formats.shared import (
    NODE_FIELDS,
    Collector,
    GraphRecords,
    csv_rows,
    edge_cells,
    head,
    lines,
    node_rows,
    write_csv,
)

_FIELD = re.compile(r"(?P<name>.*?)(?::(?P<type>[A-Za-z_]+(?:\[\])?)(?:\((?P<space>[^)]*)\))?(?:\{.*\})?)?")
_NODES = re.compile(r':ID(?:\([^)]*\))?(?:\{[^}]*\})?"?(?:[,;\t|]|$)')
_EDGES = re.compile(r":(?:START|END)_ID\b")
_TYPED = {"ID": "id", "LABEL": "kind", "START_ID": "source", "END_ID": "target", "TYPE": "relation", "IGNORE": "unread"}


def write_neo4j(folder: Path, records: GraphRecords) -> None:
    """`nodes.csv` and `edges.csv`, as `neo4j-admin database import` takes them; lists are JSON.

    Texts with line ends need the option `--multiline-fields=true` of that command.
    """
    header = ["id:ID", ":LABEL", *NODE_FIELDS[2:]]
    write_csv(folder / "nodes.csv", itertools.chain([header], (row.values() for row in node_rows(records))))
    header = [":START_ID", ":TYPE", ":END_ID", "weight:double", "evidence", "maker"]
    write_csv(folder / "edges.csv", itertools.chain([header], map(edge_cells, records.edges)))


def table_files(folder: Path) -> list[Path]:
    return sorted((*folder.glob("*.csv"), *folder.glob("*.csv.gz")))


def table_kind(path: Path) -> str:
    """`nodes` or `edges` if the file begins with the header of such a table, else nothing."""
    header = head(path).partition("\n")[0].rstrip("\r")
    return "edges" if _EDGES.search(header) else "nodes" if _NODES.search(header) else ""


def read_neo4j(paths: Sequence[Path], collector: Collector) -> None:
    """Tables of nodes (`:ID`, `:LABEL`) and of edges (`:START_ID`, `:END_ID`, `:TYPE`): files, or folders of them.

    A file without a header continues the file before it. The delimiter is that of the header: comma, semicolon,
    tab or bar. An id that occurs in several id spaces becomes `space:id`.
    """
    tables: dict[str, list[Path]] = {"nodes": [], "edges": []}
    kind = "nodes"
    for file in itertools.chain.from_iterable(table_files(path) if path.is_dir() else [path] for path in paths):
        kind = table_kind(file) or kind
        tables[kind].append(file)
    if not tables["nodes"]:
        raise InputError("there is no table of nodes, with :ID in its header", file=str(paths[0]))
    ids: dict[tuple[str, str], str] = {}
    for line, row, spaces in _rows(collector, tables["nodes"], ("id",)):
        identity, space = row.get("id", ""), spaces.get("id", "")
        if space and identity in collector.records.kinds and (space, identity) not in ids:
            row["id"] = f"{space}:{identity}"
        if collector.node(line, row):
            ids[space, identity] = row["id"]
    for line, row, spaces in _rows(collector, tables["edges"], ("source", "target")):
        for end in ("source", "target"):
            row[end] = ids.get((spaces.get(end, ""), row[end]), row[end])
        collector.edge(line, row)


def _rows(
    collector: Collector, paths: Sequence[Path], required: Sequence[str]
) -> Iterator[tuple[int, dict[str, str], dict[str, str]]]:
    """Line, cells by field and id spaces by field, of all rows of all tables."""
    fields: list[str] = []
    spaces: dict[str, str] = {}
    delimiter = ","
    for path in paths:
        first_line = next(lines(collector, path), "")
        separator = max(",;\t|", key=first_line.count)
        try:
            header = next(csv.reader([first_line], delimiter=separator), [])
        except csv.Error as error:  # a stray carriage return, an unclosed quote
            raise InputError(f"the header is not a row of a table: {error}", file=str(path), line=1) from error
        matches = [match for cell in header if (match := _FIELD.fullmatch(cell.strip()))]
        typed = [_TYPED.get(match["type"] or "") for match in matches]
        plain = [match["name"].lower() for match in matches]  # an edge may well have a property `source`
        names = [t or (f"property {p}" if p in typed else p) for t, p in zip(typed, plain, strict=True)]
        has_header = set(required) <= set(typed)
        if has_header:
            fields, delimiter = names, separator
            spaces = {name: match["space"] or "" for name, match in zip(names, matches, strict=True)}
        elif not fields:
            missing = " and ".join(f":{key}" for key, name in _TYPED.items() if name in required)
            raise InputError(f"the header has no {missing}", file=str(path), line=1)
        for number, (line, cells) in enumerate(csv_rows(collector, path, delimiter)):
            if has_header and not number:
                continue
            if len(cells) == len(fields):
                yield line, dict(zip(fields, cells, strict=True)), spaces
            else:
                collector.skip(line, f"the row has {len(cells)} cells, the header {len(fields)}")
