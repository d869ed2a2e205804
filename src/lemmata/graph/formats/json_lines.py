"""Graphs as JSON lines, one node or edge a line, as Neo4j exports and imports them (`apoc.export.json.all`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lemmata.graph.formats.json_file import KEYS, edge_fields, text_of, texts_of
from lemmata.graph.formats.shared import NAMES, Collector, GraphRecords, json_text, lines, text_file

_OF_NODE = ("id", *NAMES, "type", "kind", "concept_kind", "description")


def write_json_lines(path: Path, records: GraphRecords) -> None:
    """Nodes, concepts first, then edges; the kind of a node is its only label."""
    with text_file(path) as out:
        for identity, kind, properties in _nodes(records):
            entry = {"type": "node", "id": identity, "labels": [kind], "properties": properties}
            out.write(json_text(entry) + "\n")
        for number, edge in enumerate(records.edges):
            source, target = ({"id": node, "labels": [records.kinds[node]]} for node in (edge.source, edge.target))
            properties = {"weight": edge.weight, "evidence": edge.evidence, "maker": edge.maker}
            entry = {"type": "relationship", "id": str(number), "label": edge.relation, "start": source, "end": target}
            out.write(json_text(entry | {"properties": properties}) + "\n")


def _nodes(records: GraphRecords) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Id, kind and properties; only a concept has any."""
    other_nodes = dict(records.kinds)
    for concept in records.concepts:
        properties = {
            "name": concept.name,
            "concept_kind": concept.kind,
            "description": concept.description,
            "aliases": list(concept.aliases),
        }
        papers = {"papers": records.papers[concept.id]} if concept.id in records.papers else {}
        yield concept.id, other_nodes.pop(concept.id), properties | papers
    for identity, kind in other_nodes.items():
        yield identity, kind, {}


def are_json_lines(path: Path) -> bool:
    """Whether the first line of a file is a node or an edge, and not the beginning or the whole of a document."""
    try:
        entry = json.loads(next(lines(Collector(path), path), ""))
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and KEYS.isdisjoint(entry) and not entry.keys().isdisjoint(("id", "source", "start"))


def read_json_lines(path: Path, collector: Collector) -> None:
    """Lines as `write_json_lines` has them, or `{"id": "a", "name": "Tree"}` and `{"source": "a", "target": "b"}`.

    An edge may come before its nodes. In a file without any node, the ends of edges are the nodes.
    """
    for number, line in enumerate(lines(collector, path), 1):
        if not line.strip():
            continue
        try:
            entry, is_edge = _entry(line)
            row = _edge_row(entry) if is_edge else _node_row(entry)
        except json.JSONDecodeError as error:
            collector.skip(number, f"not JSON: {error.msg}")
        except (ValueError, RecursionError) as error:
            collector.skip(number, str(error))
        else:
            (collector.edge if is_edge else collector.node)(number, row)
    if not collector.records.kinds:
        ends = (end for edge in collector.records.edges for end in (edge.source, edge.target))
        collector.records.kinds.update(dict.fromkeys(ends, "unknown"))


def _entry(line: str) -> tuple[dict[str, Any], bool]:
    """What a line says, with its properties, and whether it is an edge, which has a source and a target."""
    entry = json.loads(line)
    properties = (entry.pop("properties", None) or {}) if isinstance(entry, dict) else None
    if not isinstance(properties, dict):
        raise ValueError("the line is not the object of a node or an edge")
    is_edge = entry.keys() >= {"source", "target"}
    if entry.get("type") == "relationship":
        relation, source, target = (entry.get(name) for name in ("label", "start", "end"))
        return {**properties, "relation": relation, "source": source, "target": target}, True
    if entry.get("type") == "node":
        del entry["type"]
        is_edge = False
    return {**properties, **entry}, is_edge


def _node_row(entry: Mapping[str, Any]) -> dict[str, str]:
    row = {name: text_of(entry[name]) for name in _OF_NODE if name in entry}
    row |= {name: json_text(texts_of(entry[name])) for name in ("aliases", "papers") if name in entry}
    if "labels" in entry:
        row["kind"] = ";".join(texts_of(entry["labels"]))
    return row


def _edge_row(entry: Mapping[str, Any]) -> dict[str, str]:
    ends = {name: entry[name] for name in ("source", "target")}
    return edge_fields(entry) | {
        name: text_of(end.get("id") if isinstance(end, dict) else end) for name, end in ends.items()
    }
