"""Graphs in the raw layout of OGB datasets."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lemmata.core.errors import InputError
from lemmata.core.types import Edge
from lemmata.graph.formats.shared import (
    NODE_FIELDS,
    Collector,
    GraphRecords,
    free_id,
    is_text,
    lines,
    node_rows,
    text_file,
)

_LONGEST_CELL = 10_000_000  # characters; anything longer is an unclosed quote
_SEVERAL = "a folder with several graphs cannot be read"


def write_ogb(folder: Path, records: GraphRecords) -> None:
    """The heterogeneous layout of ogbn-mag: nodes by kind, edges by the kinds of their ends and relation.

    The mapping of a kind has our own fields as further columns; `edge_weight` and `edge_evidence` (with the
    maker) are files beside each `edge`. Order is kept only inside each file. In file names, odd characters are
    written with `%` as in a web address, and a name that is too long or taken becomes a number.
    """
    raw = folder / "raw"
    members: dict[str, list[dict[str, str]]] = {}
    numbers: dict[str, int] = {}
    for row in node_rows(records):
        of_kind = members.setdefault(row["kind"], [])
        numbers[row["id"]] = len(of_kind)
        of_kind.append(row)
    kinds = sorted(members)
    for kind, name in zip(kinds, _file_names([(kind,) for kind in kinds]), strict=True):
        header = ["ent idx", "ent name", *NODE_FIELDS[2:]]
        rows = ([n, row["id"], *(row[field] for field in NODE_FIELDS[2:])] for n, row in enumerate(members[kind]))
        _write_csv(folder / "mapping" / f"{name}_entidx2name.csv.gz", itertools.chain([header], rows))
    _write_csv(raw / "num-node-dict.csv.gz", [kinds, [len(members[kind]) for kind in kinds]])
    grouped: dict[tuple[str, str, str], list[Edge]] = {}
    for edge in records.edges:
        triplet = (records.kinds[edge.source], edge.relation, records.kinds[edge.target])
        grouped.setdefault(triplet, []).append(edge)
    triplets = sorted(grouped)
    for triplet, name in zip(triplets, _file_names(triplets), strict=True):
        edges, subfolder = grouped[triplet], raw / "relations" / name
        _write_csv(subfolder / "edge.csv.gz", ([numbers[edge.source], numbers[edge.target]] for edge in edges))
        _write_csv(subfolder / "num-edge-list.csv.gz", [[len(edges)]])
        _write_csv(subfolder / "edge_weight.csv.gz", ([repr(float(edge.weight))] for edge in edges))
        _write_csv(subfolder / "edge_evidence.csv.gz", ([edge.evidence, edge.maker] for edge in edges))
    _write_csv(raw / "triplet-type-list.csv.gz", triplets)  # last: without it the folder is no graph


def _file_names(titles: Sequence[Sequence[str]]) -> list[str]:
    """`author___writes___paper` as in OGB, or `=n` if that is too long or taken, regardless of case."""
    names: list[str] = []
    taken: set[str] = set()
    for number, title in enumerate(titles):
        name = "___".join(quote(part, safe=" ") for part in title)
        if len(name) > 200 or name.lower() in taken:
            name = f"={number}"
        taken.add(name.lower())
        names.append(name)
    return names


def read_ogb(folder: Path, collector: Collector) -> None:
    """One graph in the layout of ogbn-arxiv and ogbl-citation2 (`raw/edge`) or of ogbn-mag (`raw/triplet-type-list`).

    Nodes have the ids of their mapping, or `kind:number`. A single kind is named by its mapping
    (`nodeidx2paperid`: paper), and papers cite; relations by number (`edge_reltype`) are named by the mapping
    too. Features, labels and years are not read.
    """
    raw, mapping = folder / "raw", folder / "mapping"
    if (triplets := _find(raw / "triplet-type-list.csv")) is not None:
        table = [cells for _, cells in _csv_rows(collector, _required(raw / "num-node-dict.csv"))]
        if len(table) > 2:
            raise InputError(_SEVERAL, file=collector.file)
        kinds, sizes = (table[0], _integers(collector, table[1])) if len(table) == 2 else ([], [])
        if len(sizes) != len(kinds):
            raise InputError(f"{len(kinds)} kinds of nodes, but {len(sizes)} numbers", file=collector.file)
        ids = {}
        for kind, size, name in zip(kinds, sizes, _file_names([(kind,) for kind in kinds]), strict=True):
            ids[kind] = _read_nodes(collector, kind, size, _find(mapping / f"{name}_entidx2name.csv"))
        rows = list(_csv_rows(collector, triplets))
        for (line, cells), name in zip(rows, _file_names([cells for _, cells in rows]), strict=True):
            collector.file = str(triplets)
            if len(cells) != 3 or cells[0] not in ids or cells[2] not in ids:
                collector.skip(line, f"{cells} is not kind, relation and kind")
            else:
                _read_edges(collector, raw / "relations" / name, cells[1], ids[cells[0]], ids[cells[2]], {})
    else:
        sizes = _integers_of(collector, _required(raw / "num-node-list.csv"))
        if len(sizes) != 1:
            raise InputError(_SEVERAL if sizes else "the number of nodes is missing", file=collector.file)
        names = next(iter(sorted(mapping.glob("nodeidx2*.csv*"))), None)
        match = re.match(r"nodeidx2(.+?)_?(?:id)?\.csv", names.name) if names else None
        kind = match[1] if match else "unknown"
        nodes = _read_nodes(collector, kind, sizes[0], names)
        relations = _read_relations(collector, mapping)
        _read_edges(collector, raw, "cites" if kind == "paper" else "related_to", nodes, nodes, relations)


def _find(path: Path) -> Path | None:
    """The file, plain or compressed."""
    return next((file for file in (path, path.with_name(path.name + ".gz")) if file.is_file()), None)


def _required(path: Path) -> Path:
    file = _find(path)
    if file is None:
        raise InputError("there is no such file, neither plain nor with .gz", file=str(path))
    return file


def _integers(collector: Collector, cells: Sequence[str]) -> list[int]:
    try:
        return [int(cell) for cell in cells]
    except ValueError as error:
        raise InputError(f"{','.join(cells)!r} must be whole numbers", file=collector.file) from error


def _integers_of(collector: Collector, path: Path) -> list[int]:
    return _integers(collector, [cell for _, cells in _csv_rows(collector, path) for cell in cells])


def _read_nodes(collector: Collector, kind: str, size: int, mapping: Path | None) -> list[str]:
    """Collect the nodes of one kind; returns their ids by number."""
    ids = [""] * size
    rows = _csv_rows(collector, mapping) if mapping else iter(())
    _, header = next(rows, (0, []))
    fields = ["number", "id", *header[2:]]
    for line, cells in rows:
        if len(cells) != len(fields):
            collector.skip(line, f"the row has {len(cells)} cells, the header {len(header)}")
            continue
        row = {"kind": kind} | dict(zip(fields, cells, strict=True))
        number = int(row["number"]) if row["number"].isdecimal() else size
        if number >= size or ids[number]:
            collector.skip(line, f"{row['number']!r} is not the number of one of {size} nodes, or occurs twice")
            continue
        if collector.records.kinds.get(row["id"], kind) != kind:
            row["id"] = f"{kind}:{row['id']}"  # ids that are numbers start again in each kind
        if collector.node(line, row):
            ids[number] = row["id"]
    for number in range(size):
        if not ids[number]:
            ids[number] = free_id(f"{kind}:{number}", collector.records.kinds)
            collector.records.kinds[ids[number]] = kind
    return ids


def _read_relations(collector: Collector, mapping: Path) -> dict[int, str]:
    paths = sorted((*mapping.glob("relidx2*.csv*"), *mapping.glob("reltype2*.csv*")))
    rows = list(_csv_rows(collector, paths[0]))[1:] if paths else []
    return {int(cells[0]): cells[1] for _, cells in rows if len(cells) > 1 and cells[0].isdecimal()}


def _read_edges(
    collector: Collector,
    folder: Path,
    relation: str,
    sources: Sequence[str],
    targets: Sequence[str],
    relations: Mapping[int, str],
) -> None:
    """Collect one list of edges with the files beside it; `relations` are names by number."""
    path = _required(folder / "edge.csv")
    size_file = _find(folder / "num-edge-list.csv")
    sizes = _integers_of(collector, size_file) if size_file else []
    if len(sizes) > 1:
        raise InputError(_SEVERAL, file=collector.file)
    columns: dict[str, list[list[str]]] = {}
    for name in ("edge_weight", "edge_evidence", "edge_reltype"):
        if (file := _find(folder / f"{name}.csv")) is not None:
            columns[name] = [cells for _, cells in _csv_rows(collector, file)]
    edges = list(_csv_rows(collector, path))
    for number, (line, cells) in enumerate(edges):
        ends = [int(cell) if cell.strip().isdecimal() else -1 for cell in cells]
        extra = {name: rows[number] for name, rows in columns.items() if number < len(rows)}
        if len(ends) != 2 or not (0 <= ends[0] < len(sources) and 0 <= ends[1] < len(targets)):
            collector.skip(line, f"{','.join(cells)!r} are not the numbers of two nodes")
            continue
        label = extra.get("edge_reltype", [""])[0].strip() if relations else ""
        evidence, maker = (*extra.get("edge_evidence", []), "", "")[:2]
        row = {
            "source": sources[ends[0]],
            "relation": relations.get(int(label), label) if label.isdecimal() else relation,
            "target": targets[ends[1]],
            "weight": extra.get("edge_weight", [""])[0].strip(),
            "evidence": evidence,
            "maker": maker,
        }
        collector.edge(line, row)
    for name, rows in columns.items():
        if len(rows) != len(edges):
            collector.skip(0, f"{len(edges)} edges, but {name} has {len(rows)} rows")
    if sizes and sizes[0] != len(edges):
        collector.skip(0, f"{len(edges)} edges, but num-edge-list says {sizes[0]}")


def _csv_rows(collector: Collector, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number of its first line and the cells of each row."""
    before = csv.field_size_limit(_LONGEST_CELL)  # the papers of a common concept exceed the usual limit
    try:
        reader = csv.reader(lines(collector, path), strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                collector.skip(line, f"not a row of a table: {error}")
                continue
            if cells is None:
                return
            if not is_text("".join(cells)):
                collector.skip(line, "the row is not UTF-8")
            elif cells:
                yield line, cells
    finally:
        csv.field_size_limit(before)


def _write_csv(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    with text_file(path) as out:
        csv.writer(out).writerows(rows)
