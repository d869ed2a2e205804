"""Graphs from lines of source, relation and target parted by tabs, and to such lines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from lemmata.errors import InputError
from lemmata.graph.formats.shared import (
    EDGE_FIELDS,
    NODE_FIELDS,
    Gathering,
    GraphRecords,
    check,
    edge_cells,
    node_rows,
    tsv_rows,
    writing,
)
from lemmata.types import Skip

__all__ = ["nodes_beside", "read_triples", "write_triples"]

_TSV = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_UNESCAPED = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}
_HEADERS = (
    {"source", "head", "subject", "from", "h", "s"},
    {"relation", "predicate", "type", "r", "p", "rel"},
    {"target", "tail", "object", "to", "t", "o"},
)


def write_triples(path: Path, records: GraphRecords) -> None:
    """Edges as lines of six cells parted by tabs, under a header; the nodes beside them in `NAME.nodes.tsv`.

    A backslash is written `\\\\`, a tab `\\t`, a line feed `\\n`, a carriage return `\\r`. The header tells a
    reader that this was done.
    """
    check(records)
    with writing(nodes_beside(path)) as out:
        out.write("\t".join(NODE_FIELDS) + "\n")
        for row in node_rows(records):
            out.write("\t".join(row[field].translate(_TSV) for field in NODE_FIELDS) + "\n")
    with writing(path) as out:
        out.write("\t".join(EDGE_FIELDS) + "\n")
        for edge in records.edges:
            out.write("\t".join(cell.translate(_TSV) for cell in edge_cells(edge)) + "\n")


def nodes_beside(path: Path) -> Path:
    """`graph.tsv.gz` has its nodes in `graph.nodes.tsv.gz`."""
    base = path.name.removesuffix(".gz")
    ending = Path(base).suffix + path.name[len(base) :]
    return path.with_name(base.removesuffix(Path(base).suffix) + ".nodes" + ending)


def read_triples(path: Path, *, strict: bool = True) -> tuple[GraphRecords, list[Skip]]:
    """Lines of source, relation, target and, where there are more cells, weight, evidence and maker.

    Under our own header cells are escaped and the nodes are read from beside the file. In any other file
    (with or without a header) a backslash is a backslash, and every end of an edge is a node of unknown kind.
    """
    gathering = Gathering(path)
    rows = tsv_rows(gathering, path)
    first = next(rows, (0, []))
    ours = first[1] == list(EDGE_FIELDS)
    nodes = nodes_beside(path)
    known = ours and nodes.is_file()
    if known:
        table = tsv_rows(gathering, nodes)
        if next(table, (0, []))[1] != list(NODE_FIELDS):
            raise InputError(f"the header must be {' '.join(NODE_FIELDS)}, parted by tabs", file=str(nodes), line=1)
        for line, cells in table:
            if row := _cells(gathering, line, cells, NODE_FIELDS, escaped=True):
                gathering.node(line, row)
        gathering.file = str(path)
    headed = len(first[1]) >= 3 and all(cell.lower() in one for cell, one in zip(first[1], _HEADERS, strict=False))
    for line, cells in rows if headed or not first[1] else itertools.chain([first], rows):
        row = _cells(gathering, line, cells, EDGE_FIELDS, escaped=ours)
        if row and gathering.edge(line, row) and not known:
            gathering.records.kinds.setdefault(row["source"], "unknown")
            gathering.records.kinds.setdefault(row["target"], "unknown")
    return gathering.finish(strict)


def _cells(
    gathering: Gathering, line: int, cells: list[str], fields: Sequence[str], *, escaped: bool
) -> dict[str, str]:
    """The cells by name; empty, and recorded, where they are too few or too many. Ours are never too few."""
    if not (len(fields) if escaped else 3) <= len(cells) <= len(fields):
        needed = len(fields) if escaped else f"3 to {len(fields)}"
        gathering.skip(line, f"the line has {len(cells)} cells parted by tabs, not {needed}")
        return {}
    row = dict(zip(fields, cells, strict=False))
    try:
        return {field: _unescaped(cell) for field, cell in row.items()} if escaped else row
    except ValueError as error:
        gathering.skip(line, str(error))
        return {}


def _unescaped(cell: str) -> str:
    def meant(found: re.Match[str]) -> str:
        if found[1] not in _UNESCAPED:
            raise ValueError(f"{found[0]!r} stands for nothing; a backslash is written twice")
        return _UNESCAPED[found[1]]

    return re.sub(r"\\(.?)", meant, cell, flags=re.DOTALL) if "\\" in cell else cell
