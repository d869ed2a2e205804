"""Graphs as tab-separated lines of source, relation and target."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from lemmata.core.errors import InputError
from lemmata.graph.formats.shared import (
    EDGE_FIELDS,
    NODE_FIELDS,
    Collector,
    GraphRecords,
    edge_cells,
    node_rows,
    text_file,
    tsv_rows,
)

_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_UNESCAPED = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}
_HEADERS = (
    {"source", "head", "subject", "from", "h", "s"},
    {"relation", "predicate", "type", "r", "p", "rel"},
    {"target", "tail", "object", "to", "t", "o"},
)
_PAIRS = ("source", "target", "weight")  # of a table without relations
_WEIGHTS = {"weight", "count", "score", "similarity"}


def write_triples(path: Path, records: GraphRecords) -> None:
    """Edges as tab-separated lines of six cells under a header; the nodes beside them in `NAME.nodes.tsv`.

    A backslash is written `\\\\`, a tab `\\t`, a line feed `\\n`, a carriage return `\\r`; our header tells the
    reader so.
    """
    nodes = (row.values() for row in node_rows(records))
    edges = map(edge_cells, records.edges)
    for file, header, rows in ((nodes_beside(path), NODE_FIELDS, nodes), (path, EDGE_FIELDS, edges)):
        with text_file(file) as out:
            for cells in itertools.chain([header], rows):
                out.write("\t".join(cell.translate(_ESCAPES) for cell in cells) + "\n")


def nodes_beside(path: Path) -> Path:
    """`graph.tsv.gz` has its nodes in `graph.nodes.tsv.gz`."""
    base = path.name.removesuffix(".gz")
    ending = Path(base).suffix + path.name[len(base) :]
    return path.with_name(base.removesuffix(Path(base).suffix) + ".nodes" + ending)


def read_triples(path: Path, collector: Collector) -> None:
    """Lines of source, relation, target and, if there are more cells, weight, evidence and maker.

    Under our own header, cells are escaped and the nodes are read from the file beside. In any other file, with or
    without a header, a backslash is a backslash, and both ends of an edge are nodes of unknown kind. A table of source
    and target, or of source, target and weight with a header that says so, has the relation `related_to`.
    """
    rows = tsv_rows(collector, path)
    first = next(rows, (0, []))
    ours = first[1] == list(EDGE_FIELDS)
    nodes = nodes_beside(path)
    has_nodes = ours and nodes.is_file()
    if has_nodes:
        table = tsv_rows(collector, nodes)
        if next(table, (0, []))[1] != list(NODE_FIELDS):
            raise InputError(f"the tab-separated header must be {' '.join(NODE_FIELDS)}", file=str(nodes), line=1)
        for line, cells in table:
            if row := _row(collector, line, cells, NODE_FIELDS, escaped=True):
                collector.node(line, row)
        collector.file = str(path)
    pairs = len(first[1]) == 2
    headers = _HEADERS[::2] if pairs else _HEADERS
    header = len(first[1]) >= 2 and all(cell.lower() in names for cell, names in zip(first[1], headers, strict=False))
    second = next(rows, (0, []))
    weighted = _has_weights(first[1], second[1])
    fields = _PAIRS[:2] if pairs else _PAIRS if weighted else EDGE_FIELDS
    for line, cells in itertools.chain([] if header or weighted else [first], [second], rows):
        row = _row(collector, line, cells, fields, escaped=ours) if cells else {}
        if row and collector.edge(line, row) and not has_nodes:
            collector.records.kinds.setdefault(row["source"], "unknown")
            collector.records.kinds.setdefault(row["target"], "unknown")


def _has_weights(header: list[str], line: list[str]) -> bool:
    """Whether a table has weights in its third column; a triple may lead to a node called weight."""
    if not len(header) == len(line) == 3 or header[2].strip().lower() not in _WEIGHTS:
        return False
    return re.fullmatch(r"\s*-?\d+(\.\d+)?([eE][+-]?\d+)?\s*", line[2]) is not None


def _row(collector: Collector, line: int, cells: list[str], fields: Sequence[str], *, escaped: bool) -> dict[str, str]:
    """The cells by field; empty, with a skip, if there are too few or too many. Our own lines have all fields."""
    if not (len(fields) if escaped else min(3, len(fields))) <= len(cells) <= len(fields):
        expected = len(fields) if escaped or len(fields) <= 3 else f"3 to {len(fields)}"
        collector.skip(line, f"the line has {len(cells)} tab-separated cells, not {expected}")
        return {}
    row = dict(zip(fields, cells, strict=False))
    try:
        return {field: _unescaped(cell) for field, cell in row.items()} if escaped else row
    except ValueError as error:
        collector.skip(line, str(error))
        return {}


def _unescaped(cell: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1] not in _UNESCAPED:
            raise ValueError(f"{match[0]!r} is not an escape; a backslash is written twice")
        return _UNESCAPED[match[1]]

    return re.sub(r"\\(.?)", character, cell, flags=re.DOTALL) if "\\" in cell else cell
