"""Graphs as one JSON document, in the shape of Math-Embed; they are read, not written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lemmata.core.errors import InputError
from lemmata.core.words import slug
from lemmata.graph.formats.shared import EDGE_FIELDS, Collector, free_id, is_text, json_text, open_binary

EDGES = ("edges", "links", "relations", "relationships", "triples")
KEYS = {"concepts", "entities", "nodes", *EDGES}


def read_json(path: Path, collector: Collector) -> None:
    """`concepts` (or `entities`, `nodes`) and `edges` (or `links`, `relations`, `relationships`, `triples`).

    Concepts are objects in a list, or objects by name, or only names. A concept without an id is called
    `concept:slug` after its name, with a number if another has that id. An edge is an object, or a list of
    source, relation and target; it names its ends by id, by name, or by a name with the same slug.
    """
    data = _document(path, collector)
    kinds = data.get("nodes")
    if not isinstance(kinds, dict) or not all(isinstance(kind, str) for kind in kinds.values()):
        kinds = {}
    names = ("concepts", "entities") if kinds or "concepts" in data else ("concepts", "entities", "nodes")
    title = next((name for name in names if name in data), "")
    id_of = _read_concepts(collector, title, data.get(title, []), kinds)
    for identity, kind in kinds.items():
        if not identity or not is_text(identity + kind):
            collector.skip("nodes", f"{identity!r} is not the id of a node")
        else:
            collector.records.kinds.setdefault(identity, kind)
    title = next((name for name in EDGES if name in data), "")
    _read_edges(collector, title, data.get(title, []), id_of)


def _document(path: Path, collector: Collector) -> dict[str, Any]:
    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entry = dict(pairs)
        if len(entry) < len(pairs):
            key = Counter(key for key, _ in pairs).most_common(1)[0][0]
            collector.skip(0, f"the key {key!r} occurs twice in an object; the last one counts")
        return entry

    try:
        with open_binary(path) as stream:
            data = json.loads(stream.read().decode("utf-8-sig"), object_pairs_hook=without_duplicates)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", file=str(path), line=error.lineno) from error
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"not JSON: {error}", file=str(path)) from error
    if not isinstance(data, dict) or KEYS.isdisjoint(data):
        raise InputError('not a graph: there must be an object with "concepts" and "edges"', file=str(path))
    return data


def _entries(collector: Collector, title: str, section: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and content of each entry of a list, or of an object whose keys are names; unusable ones are empty."""
    if isinstance(section, dict):
        for name, entry in section.items():
            yield f"{title}[{name!r}]", {"name": name} | (entry if isinstance(entry, dict) else {"description": entry})
    elif isinstance(section, list):
        for number, entry in enumerate(section):
            if isinstance(entry, str):
                entry = {"name": entry}
            elif isinstance(entry, list) and len(entry) == 3:
                entry = dict(zip(EDGE_FIELDS, entry, strict=False))
            yield f"{title}[{number}]", entry if isinstance(entry, dict) else {}
    else:
        collector.skip(title, "neither a list nor an object")


def _read_concepts(collector: Collector, title: str, section: Any, kinds: Mapping[str, str]) -> dict[str, str]:
    """Collect the concepts; returns their ids by the names that an edge may use."""
    entries = list(_entries(collector, title, section))
    taken = {str(entry["id"]) for _, entry in entries if entry.get("id") is not None}
    id_of: dict[str, str] = {}
    for place, entry in entries:
        try:
            identity = text_of(entry.get("id"))
            name = text_of(_first(entry, "name", "label", "title", default=identity))
            shown = text_of(entry.get("display_name")) or name
            if not identity and (not shown or shown in id_of):
                raise ValueError(f"the concept {shown!r} is defined twice" if shown else "a concept without a name")
            identity = identity or free_id(f"concept:{slug(shown)}", taken)
            aliases = texts_of(_first(entry, "aliases", "synonyms"))
            if shown != name and slug(shown) != slug(name):
                aliases.append(name)
            papers = _first(entry, "papers", "documents")
            row = {
                "id": identity,
                "kind": kinds.get(identity, "concept"),
                "name": shown,
                "concept_kind": text_of(_first(entry, "type", "kind", default="object")),
                "description": text_of(entry.get("description")),
                "aliases": json_text(aliases),
                "papers": "" if papers is None else json_text(texts_of(papers)),
            }
        except ValueError as error:
            collector.skip(place, str(error))
            continue
        if collector.node(place, row):
            taken.add(identity)
            id_of.setdefault(name, identity)
            id_of.setdefault(shown, identity)
    return id_of


def _read_edges(collector: Collector, title: str, section: Any, id_of: dict[str, str]) -> None:
    id_of_slug: dict[str, str] = {}

    def resolve(value: Any) -> str:
        name = text_of(value)
        identity = name if name in collector.records.kinds else id_of.get(name)
        if identity is None and name:
            if not id_of_slug:  # only now, as graphs with ids never need it
                id_of_slug.update((slug(other), id_of[other]) for other in reversed(id_of))
            identity = id_of_slug.get(slug(name))
        if not identity:
            raise ValueError(f"there is no node {name!r}" if name else "an edge needs a source and a target")
        return identity

    for place, entry in _entries(collector, title, section):
        try:
            row = edge_fields(entry)
            row["source"] = resolve(_first(entry, "source", "from", "head", "subject"))
            row["target"] = resolve(_first(entry, "target", "to", "tail", "object"))
        except ValueError as error:
            collector.skip(place, str(error))
        else:
            collector.edge(place, row)


def edge_fields(entry: Mapping[str, Any]) -> dict[str, str]:
    """The relation of an edge and what belongs to it, without its ends."""
    row = {name: text_of(entry[name]) for name in ("evidence", "maker", "weight") if entry.get(name) is not None}
    row["relation"] = text_of(_first(entry, "relation", "type", "label", "predicate", default="related_to"))
    return row


def _first(entry: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    return next((entry[name] for name in names if entry.get(name) is not None), default)


def text_of(value: Any) -> str:
    if isinstance(value, bool | list | dict) or not is_text(str(value)):
        raise ValueError(f"{json.dumps(value)[:80]} is not a text")
    return "" if value is None else str(value)


def texts_of(value: Any) -> list[str]:
    return [text_of(item) for item in value] if isinstance(value, list) else [text_of(value)] if value else []
