"""Graphs from JSON and to JSON, in the shape of Math-Embed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from lemmata.errors import InputError
from lemmata.graph.formats.shared import (
    DAMAGE,
    EDGE_FIELDS,
    Gathering,
    GraphRecords,
    check,
    free_id,
    is_text,
    json_text,
    opened,
    weight_of,
    writing,
)
from lemmata.types import Concept, Edge, Skip
from lemmata.words import slug

__all__ = ["read_json", "write_json"]


def write_json(path: Path, records: GraphRecords) -> None:
    """The shape of Math-Embed with ids: `concepts` with their `papers`, `edges`, and the kinds of all `nodes`."""
    check(records)
    concepts = (
        {
            "id": concept.id,
            "name": concept.name,
            "type": concept.kind,
            "description": concept.description,
            "aliases": list(concept.aliases),
            **({"papers": records.papers[concept.id]} if concept.id in records.papers else {}),
        }
        for concept in records.concepts
    )
    with writing(path) as out:
        out.write('{"concepts": [')
        _write_entries(out, concepts)
        out.write('],\n"edges": [')
        _write_entries(out, (edge._asdict() for edge in records.edges))
        out.write('],\n"nodes": ' + json_text(records.kinds) + "}\n")


def _write_entries(out: TextIO, entries: Iterable[Mapping[str, Any]]) -> None:
    """One a line, so that a change shows as one line."""
    for number, entry in enumerate(entries):
        out.write((",\n" if number else "\n") + json_text(entry))


def read_json(path: Path, *, strict: bool = True) -> tuple[GraphRecords, list[Skip]]:
    """`concepts` (or `entities`, `nodes`) and `edges` (or `links`, `relations`, `relationships`, `triples`).

    Concepts are objects in a list, or by name; or only names. One without an id is called `concept:slug`
    after its name, with a number where another has that id. An edge is an object, or a list of source,
    relation and target, and names its ends by id, by name, or by what has the same slug. Places are told
    as `edges[17]`, counted from 0.
    """
    gathering = Gathering(path)
    data = _json_document(gathering, path)
    kinds = data.get("nodes")
    own = isinstance(kinds, dict) and all(isinstance(kind, str) for kind in kinds.values())
    names = ("concepts", "entities") if own or "concepts" in data else ("concepts", "entities", "nodes")
    title = next((name for name in names if name in data), "")
    called = _read_concepts(gathering, title, data.get(title, []), kinds if own and kinds else {})
    if own and kinds:
        for identity, kind in kinds.items():
            if not identity or not is_text(identity + kind):
                gathering.skip(0, f"nodes: {identity!r} is no id of a node")
            else:
                gathering.records.kinds.setdefault(identity, kind)
    title = next((name for name in ("edges", "links", "relations", "relationships", "triples") if name in data), "")
    _read_edges(gathering, title, data.get(title, []), called)
    return gathering.finish(strict)


def _json_document(gathering: Gathering, path: Path) -> dict[str, Any]:
    def whole(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            doubles = [key for key, number in Counter(key for key, _ in pairs).items() if number > 1]
            gathering.skip(0, f"the key {doubles[0]!r} stands twice in an object; the last one counts")
        return found

    try:
        with opened(path) as stream:
            data = json.loads(stream.read().decode("utf-8-sig"), object_pairs_hook=whole)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", file=str(path), line=error.lineno) from error
    except (ValueError, RecursionError, *DAMAGE) as error:
        raise InputError(f"not JSON: {error}", file=str(path)) from error
    if not isinstance(data, dict) or not data.keys() & {"concepts", "entities", "nodes", "edges", "links", "triples"}:
        raise InputError('no graph: there must be an object with "concepts" and "edges"', file=str(path))
    return data


def _entries(gathering: Gathering, title: str, section: Any) -> Iterator[tuple[str, Any]]:
    """Place and content of each entry of a list, or of an object whose keys are names."""
    if isinstance(section, dict):
        for key, entry in section.items():
            yield f"{title}[{key!r}]", {"name": key} | (entry if isinstance(entry, dict) else {"description": entry})
    elif isinstance(section, list):
        for number, entry in enumerate(section):
            yield f"{title}[{number}]", entry
    else:
        gathering.skip(0, f"{title}: neither a list nor an object")


def _read_concepts(gathering: Gathering, title: str, section: Any, kinds: Mapping[str, str]) -> dict[str, str]:
    """Take in concepts; returns their ids by the names that an edge may use."""
    entries = [
        (place, {"name": entry} if isinstance(entry, str) else entry)
        for place, entry in _entries(gathering, title, section)
    ]
    taken = {str(entry["id"]) for _, entry in entries if isinstance(entry, dict) and entry.get("id") is not None}
    called: dict[str, str] = {}
    for place, entry in entries:
        try:
            concept, name, papers = _concept(entry)
        except ValueError as error:
            gathering.skip(0, f"{place}: {error}")
            continue
        identity = concept.id
        if not identity and concept.name not in called:
            identity = free_id(f"concept:{slug(concept.name)}", taken)
            taken.add(identity)
        if not identity or identity in gathering.records.kinds:
            gathering.skip(0, f"{place}: the concept {identity or concept.name!r} was there before")
            continue
        gathering.concept(replace(concept, id=identity), kinds.get(identity, "concept"), papers)
        for one in (name, concept.name):
            called.setdefault(one, identity)
    return called


def _concept(entry: Any) -> tuple[Concept, str, list[str] | None]:
    """A concept, the name that edges use for it, and its papers where it has a list of them."""
    if not isinstance(entry, dict):
        raise ValueError("not an object")
    if not is_text(json_text(entry)):
        raise ValueError("half a surrogate pair is no text")
    identity = _text(entry.get("id"))
    name = _text(_any(entry, "name", "label", "title", otherwise=identity))
    shown = _text(entry.get("display_name")) or name
    if not identity and not shown:
        raise ValueError("a concept without a name")
    aliases = _texts(_any(entry, "aliases", "synonyms"))
    if shown != name and slug(shown) != slug(name):
        aliases.append(name)
    papers = _any(entry, "papers", "documents")
    kind, description = _text(_any(entry, "type", "kind", otherwise="object")), _text(entry.get("description"))
    concept = Concept(identity, shown, kind, description, tuple(aliases))
    return concept, name, None if papers is None else _texts(papers)


def _read_edges(gathering: Gathering, title: str, section: Any, called: dict[str, str]) -> None:
    kinds = gathering.records.kinds
    alike: dict[str, str] = {}

    def resolve(value: Any) -> str:
        name = _text(value)
        found = name if name in kinds else called.get(name)
        if found is None and name:
            if not alike:  # only now, as graphs with ids never need it
                alike.update((slug(one), called[one]) for one in reversed(called))
            found = alike.get(slug(name))
        if not found:
            raise ValueError(f"there is no node {name!r}" if name else "an edge needs a source and a target")
        return found

    if not isinstance(section, list):
        gathering.skip(0, f"{title}: not a list")
        return
    for number, entry in enumerate(section):
        try:
            if isinstance(entry, list) and len(entry) == 3:
                entry = dict(zip(EDGE_FIELDS, entry, strict=False))
            if not isinstance(entry, dict) or not is_text(json_text(entry)):
                raise ValueError("neither an object nor a list of source, relation and target")
            edge = Edge(
                resolve(_any(entry, "source", "from", "head", "subject")),
                _text(_any(entry, "relation", "type", "label", "predicate", otherwise="related_to")),
                resolve(_any(entry, "target", "to", "tail", "object")),
                _text(entry.get("evidence")),
                _text(entry.get("maker")),
                weight_of(entry.get("weight")),
            )
        except ValueError as error:
            gathering.skip(0, f"{title}[{number}]: {error}")
        else:
            gathering.records.edges.append(edge)


def _any(entry: Mapping[str, Any], *names: str, otherwise: Any = None) -> Any:
    return next((entry[name] for name in names if entry.get(name) is not None), otherwise)


def _text(value: Any) -> str:
    if isinstance(value, bool | list | dict):
        raise ValueError(f"{json_text(value)[:80]} is no text")
    return "" if value is None else str(value)


def _texts(value: Any) -> list[str]:
    return [_text(one) for one in value] if isinstance(value, list) else [_text(value)] if value else []
