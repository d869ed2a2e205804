"""Graphs from the tables that Neo4j imports, and to such tables."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lemmata.errors import InputError
from lemmata.graph.formats.shared import (
    NODE_FIELDS,
    Gathering,
    GraphRecords,
    check,
    csv_rows,
    edge_cells,
    lines,
    node_rows,
    writing,
)
from lemmata.types import Skip

__all__ = ["read_neo4j", "write_neo4j"]

_FIELD = re.compile(r"(?P<name>.*?)(?::(?P<type>[A-Za-z_]+(?:\[\])?)(?:\((?P<space>[^)]*)\))?(?:\{.*\})?)?")
_TYPED = {
    "ID": "id",
    "LABEL": "kind",
    "START_ID": "source",
    "END_ID": "target",
    "TYPE": "relation",
    "IGNORE": "ignored",
}


def write_neo4j(folder: Path, records: GraphRecords) -> None:
    """`nodes.csv` and `edges.csv`, as `neo4j-admin database import` takes them; lists are JSON.

    A text with line ends in it needs that command's option `--multiline-fields=true`.
    """
    check(records)
    with writing(folder / "nodes.csv") as out:
        table = csv.writer(out)
        table.writerow(["id:ID", ":LABEL", *NODE_FIELDS[2:]])
        table.writerows([row[field] for field in NODE_FIELDS] for row in node_rows(records))
    with writing(folder / "edges.csv") as out:
        table = csv.writer(out)
        table.writerow([":START_ID", ":TYPE", ":END_ID", "weight:double", "evidence", "maker"])
        table.writerows(edge_cells(edge) for edge in records.edges)


def read_neo4j(nodes: Sequence[Path], edges: Sequence[Path], *, strict: bool = True) -> tuple[GraphRecords, list[Skip]]:
    """Tables of nodes (`:ID`, `:LABEL`) and of edges (`:START_ID`, `:END_ID`, `:TYPE`), in any number.

    A file without a header of its own goes on under that of the file before it. Cells are parted by what
    parts the header: comma, semicolon, tab or bar. Ids of different id spaces stay apart: an id that
    another space has too is called `space:id`.
    """
    if not nodes:
        raise InputError("no table of nodes is given")
    gathering = Gathering(nodes[0])
    ids: dict[tuple[str, str], str] = {}
    for line, row, spaces in _neo4j_rows(gathering, nodes, ("id",)):
        identity, space = row.get("id", ""), spaces.get("id", "")
        if space and identity in gathering.records.kinds and (space, identity) not in ids:
            row["id"] = f"{space}:{identity}"
        if gathering.node(line, row):
            ids[space, identity] = row["id"]
    for line, row, spaces in _neo4j_rows(gathering, edges, ("source", "target")):
        for end in ("source", "target"):
            row[end] = ids.get((spaces.get(end, ""), row[end]), row[end])
        gathering.edge(line, row)
    return gathering.finish(strict)


def _neo4j_rows(
    gathering: Gathering, paths: Sequence[Path], wanted: Sequence[str]
) -> Iterator[tuple[int, dict[str, str], dict[str, str]]]:
    """Line, cells by name and id spaces by name, of all rows of all tables."""
    fields: list[str] = []
    spaces: dict[str, str] = {}
    delimiter = ","
    for path in paths:
        head = next(lines(gathering, path), "")
        parting = max(",;\t|", key=head.count)
        try:
            header = next(csv.reader([head], delimiter=parting), [])
        except csv.Error as error:  # a stray carriage return, a quote left open
            raise InputError(f"the header is no row of a table: {error}", file=str(path), line=1) from error
        matches = [found for cell in header if (found := _FIELD.fullmatch(cell.strip()))]
        typed = [_TYPED.get(found["type"] or "") for found in matches]
        plain = [found["name"].lower() for found in matches]  # an edge may well have a property `source`
        names = [t or (f"property {p}" if p in typed else p) for t, p in zip(typed, plain, strict=True)]
        own = set(wanted) <= set(typed)
        if own:
            fields, delimiter = names, parting
            spaces = {name: found["space"] or "" for name, found in zip(names, matches, strict=True)}
        elif not fields:
            missing = " and ".join(f":{key}" for key, name in _TYPED.items() if name in wanted)
            raise InputError(f"the header has no {missing}", file=str(path), line=1)
        for number, (line, cells) in enumerate(csv_rows(gathering, path, delimiter)):
            if own and not number:
                continue
            if len(cells) != len(fields):
                gathering.skip(line, f"the row has {len(cells)} cells, the header {len(fields)}")
                continue
            yield line, dict(zip(fields, cells, strict=True)), spaces
