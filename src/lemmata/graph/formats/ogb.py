"""Graphs from the raw layout of OGB's datasets, and to it."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lemmata.errors import InputError
from lemmata.graph.formats.shared import (
    NODE_FIELDS,
    Gathering,
    GraphRecords,
    check,
    csv_rows,
    free_id,
    node_rows,
    writing,
)
from lemmata.types import Edge, Skip

__all__ = ["read_ogb", "write_ogb"]

_SEVERAL = "several graphs in one folder are not read"


def write_ogb(folder: Path, records: GraphRecords) -> None:
    """The heterogeneous layout of ogbn-mag: nodes by kind, edges by the kinds of their ends and relation.

    The mapping of a kind has our own fields as further columns; `edge_weight` and `edge_evidence` (with the
    maker) stand beside each `edge`. Order is kept only inside each of them. Names that would make a bad file
    name are written with `%`, as in a web address, or as a number.
    """
    check(records)
    raw = folder / "raw"
    members: dict[str, list[dict[str, str]]] = {}
    places: dict[str, int] = {}
    for row in node_rows(records):
        of_kind = members.setdefault(row["kind"], [])
        places[row["id"]] = len(of_kind)
        of_kind.append(row)
    kinds = sorted(members)
    for kind, name in zip(kinds, _file_names([(kind,) for kind in kinds]), strict=True):
        header = ["ent idx", "ent name", *NODE_FIELDS[2:]]
        rows = (
            [number, row["id"], *(row[field] for field in NODE_FIELDS[2:])] for number, row in enumerate(members[kind])
        )
        _write_csv(folder / "mapping" / f"{name}_entidx2name.csv.gz", itertools.chain([header], rows))
    _write_csv(raw / "num-node-dict.csv.gz", [kinds, [len(members[kind]) for kind in kinds]])
    grouped: dict[tuple[str, str, str], list[Edge]] = {}
    for edge in records.edges:
        triplet = (records.kinds[edge.source], edge.relation, records.kinds[edge.target])
        grouped.setdefault(triplet, []).append(edge)
    triplets = sorted(grouped)
    for triplet, name in zip(triplets, _file_names(triplets), strict=True):
        edges, beside = grouped[triplet], raw / "relations" / name
        _write_csv(beside / "edge.csv.gz", ([places[edge.source], places[edge.target]] for edge in edges))
        _write_csv(beside / "num-edge-list.csv.gz", [[len(edges)]])
        _write_csv(beside / "edge_weight.csv.gz", ([repr(float(edge.weight))] for edge in edges))
        _write_csv(beside / "edge_evidence.csv.gz", ([edge.evidence, edge.maker] for edge in edges))
    _write_csv(raw / "triplet-type-list.csv.gz", triplets)  # last: without it the folder is no graph


def _write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    with writing(path) as out:
        csv.writer(out).writerows(rows)


def _file_names(titles: Sequence[Sequence[str]]) -> list[str]:
    """`author___writes___paper` as OGB has it, or `=n` where that is too long or taken on some file system."""
    names: list[str] = []
    taken: set[str] = set()
    for number, title in enumerate(titles):
        name = "___".join(quote(part, safe=" ") for part in title)
        if len(name) > 200 or name.lower() in taken:
            name = f"={number}"
        taken.add(name.lower())
        names.append(name)
    return names


def read_ogb(folder: Path, *, strict: bool = True) -> tuple[GraphRecords, list[Skip]]:
    """One graph as ogbn-arxiv and ogbl-citation2 (`raw/edge`), or as ogbn-mag (`raw/triplet-type-list`) have it.

    Nodes are called as their mapping says, or `kind:number`. Where there is one kind only, its name is that
    of the mapping (`nodeidx2paperid`: paper), and papers cite; relations by number (`edge_reltype`) get their
    names from the mapping too. Features, labels and years are not read.
    """
    raw, mapping = folder / "raw", folder / "mapping"
    gathering = Gathering(folder)
    if (triplets := _plain_or_packed(raw / "triplet-type-list.csv")) is not None:
        table = [cells for _, cells in csv_rows(gathering, _needed(raw / "num-node-dict.csv"))]
        if len(table) > 2:
            raise InputError(_SEVERAL, file=gathering.file)
        kinds, sizes = (table[0], _wholes(gathering, table[1])) if len(table) == 2 else ([], [])
        if len(sizes) != len(kinds):
            raise InputError(f"{len(kinds)} kinds of nodes, but {len(sizes)} numbers", file=gathering.file)
        ids = {}
        for kind, size, name in zip(kinds, sizes, _file_names([(kind,) for kind in kinds]), strict=True):
            ids[kind] = _ogb_nodes(gathering, kind, size, _plain_or_packed(mapping / f"{name}_entidx2name.csv"))
        rows = list(csv_rows(gathering, triplets))
        for (line, cells), name in zip(rows, _file_names([cells for _, cells in rows]), strict=True):
            gathering.file = str(triplets)
            if len(cells) != 3 or cells[0] not in ids or cells[2] not in ids:
                gathering.skip(line, f"{cells} are not kind, relation and kind")
            else:
                _ogb_edges(gathering, raw / "relations" / name, cells[1], ids[cells[0]], ids[cells[2]], {})
    else:
        sizes = _numbers(gathering, _needed(raw / "num-node-list.csv"))
        if len(sizes) != 1:
            raise InputError(_SEVERAL if sizes else "no number of nodes", file=gathering.file)
        names = next(iter(sorted(mapping.glob("nodeidx2*.csv*"))), None)
        found = re.match(r"nodeidx2(.+?)_?(?:id)?\.csv", names.name) if names else None
        kind = found[1] if found else "unknown"
        nodes = _ogb_nodes(gathering, kind, sizes[0], names)
        relations = _ogb_relations(gathering, mapping)
        _ogb_edges(gathering, raw, "cites" if kind == "paper" else "related_to", nodes, nodes, relations)
    return gathering.finish(strict)


def _plain_or_packed(path: Path) -> Path | None:
    return next((one for one in (path, path.with_name(path.name + ".gz")) if one.is_file()), None)


def _needed(path: Path) -> Path:
    found = _plain_or_packed(path)
    if found is None:
        raise InputError("there is no such file, neither plain nor with .gz", file=str(path))
    return found


def _wholes(gathering: Gathering, cells: Sequence[str]) -> list[int]:
    try:
        return [int(cell) for cell in cells]
    except ValueError as error:
        raise InputError(f"{','.join(cells)!r} are no whole numbers", file=gathering.file) from error


def _numbers(gathering: Gathering, path: Path) -> list[int]:
    return _wholes(gathering, [cell for _, cells in csv_rows(gathering, path) for cell in cells])


def _ogb_nodes(gathering: Gathering, kind: str, size: int, mapping: Path | None) -> list[str]:
    """Take in the nodes of one kind; returns their ids by number."""
    ids = [""] * size
    rows = csv_rows(gathering, mapping) if mapping else iter(())
    _, header = next(rows, (0, []))
    fields = ["number", "id", *header[2:]]
    for line, cells in rows:
        if len(cells) != len(fields) or len(cells) < 2:
            gathering.skip(line, f"the row has {len(cells)} cells, the header {len(header)}")
            continue
        row = {"kind": kind} | dict(zip(fields, cells, strict=True))
        number = int(row["number"]) if row["number"].isdecimal() else size
        if number >= size or ids[number]:
            gathering.skip(line, f"{row['number']!r} is not the number of one of {size} nodes, each told once")
            continue
        if gathering.records.kinds.get(row["id"], kind) != kind:
            row["id"] = f"{kind}:{row['id']}"  # numbers as ids begin anew in each kind
        if gathering.node(line, row):
            ids[number] = row["id"]
    for number in range(size):
        if not ids[number]:
            ids[number] = free_id(f"{kind}:{number}", gathering.records.kinds)
            gathering.records.kinds[ids[number]] = kind
    return ids


def _ogb_relations(gathering: Gathering, mapping: Path) -> dict[int, str]:
    """Names of relations by number."""
    paths = sorted((*mapping.glob("relidx2*.csv*"), *mapping.glob("reltype2*.csv*")))
    rows = list(csv_rows(gathering, paths[0]))[1:] if paths else []
    return {int(cells[0]): cells[1] for _, cells in rows if len(cells) > 1 and cells[0].isdecimal()}


def _ogb_edges(
    gathering: Gathering,
    folder: Path,
    relation: str,
    sources: Sequence[str],
    targets: Sequence[str],
    relations: Mapping[int, str],
) -> None:
    """Take in one list of edges with what stands beside it; `relations` are names by number."""
    path = _needed(folder / "edge.csv")
    promised = _plain_or_packed(folder / "num-edge-list.csv")
    numbers = _numbers(gathering, promised) if promised else []
    if len(numbers) > 1:
        raise InputError(_SEVERAL, file=gathering.file)
    beside: dict[str, list[list[str]]] = {}
    for name in ("edge_weight", "edge_evidence", "edge_reltype"):
        if (one := _plain_or_packed(folder / f"{name}.csv")) is not None:
            beside[name] = [cells for _, cells in csv_rows(gathering, one)]
    count = 0
    for line, cells in csv_rows(gathering, path):
        ends = [int(cell) if cell.strip().isdecimal() else -1 for cell in cells]
        told = {name: rows[count] for name, rows in beside.items() if count < len(rows)}
        count += 1
        if len(ends) != 2 or not (0 <= ends[0] < len(sources) and 0 <= ends[1] < len(targets)):
            gathering.skip(line, f"{','.join(cells)!r} are not the numbers of two nodes")
            continue
        number = told.get("edge_reltype", [""])[0].strip()
        own = relations.get(int(number), number) if number.isdecimal() and relations else relation
        evidence, maker = (*told.get("edge_evidence", []), "", "")[:2]
        weight = told.get("edge_weight", [""])[0].strip()
        row = {"source": sources[ends[0]], "relation": own, "target": targets[ends[1]], "weight": weight}
        gathering.edge(line, row | {"evidence": evidence, "maker": maker})
    for name, rows in beside.items():
        if len(rows) != count:
            gathering.skip(0, f"{count} edges, but {name} has {len(rows)} rows")
    if numbers and numbers[0] != count:
        gathering.skip(0, f"{count} edges, but num-edge-list says {numbers[0]}")
