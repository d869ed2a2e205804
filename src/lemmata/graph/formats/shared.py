"""What all graph formats share: the records, collecting and checking them, opening and writing files.

A reader collects records and skips what it cannot use. A strict read raises InputError for the first skipped
places; a file that is no graph at all is always an InputError. Every file may be compressed, and a file
whose name ends in `.gz` is written so.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from lemmata.core.archives import Limits, open_decompressed
from lemmata.core.errors import ArchiveError, InputError
from lemmata.core.files import writing
from lemmata.core.types import CONCEPT_KINDS, Concept, Edge, Skip

NODE_FIELDS = ("id", "kind", "name", "concept_kind", "description", "aliases", "papers")
EDGE_FIELDS = ("source", "relation", "target", "weight", "evidence", "maker")
NAMES = ("name", "label", "display_name", "title", "drawn label")  # of a node, the best first
TYPES = ("type", "kind", "labels")
RELATIONS = ("relation", "type", "label", "edge label", "predicate", "name", "drawn label")
_SURROGATE = re.compile("[\ud800-\udfff]")
SHOWN = 3  # skipped places in an error message


class GraphRecords(NamedTuple):
    """A graph as records; `kinds` has every node, including concepts and the ends of all edges."""

    concepts: list[Concept]
    kinds: dict[str, str]  # node id: kind
    edges: list[Edge]
    papers: dict[str, list[str]]  # concept id: document ids


# ---------------------------------------------------------------- collecting records


class Collector:
    """The records of one graph while its files are read, and what was skipped.

    A place is a line number, 0 for the whole file, or a path inside a JSON document such as `edges[17]`.
    """

    def __init__(self, path: Path) -> None:
        self.file = str(path)  # being read
        self.records = GraphRecords([], {}, [], {})
        self.skips: list[Skip] = []
        self.early: list[tuple[int, str, int | str]] = []  # edges before their nodes: position, file, place

    def skip(self, place: int | str, cause: str) -> None:
        line, cause = (place, cause) if isinstance(place, int) else (0, f"{place}: {cause}")
        self.skips.append(Skip(self.file, line, cause))

    def node(self, place: int | str, row: Mapping[str, str]) -> bool:
        """Add a node given by `NODE_FIELDS` or by the names other tools use; False if it was skipped."""
        identity, kinds = row.get("id", ""), self.records.kinds
        if not identity or identity in kinds:
            self.skip(place, f"the node {identity!r} is defined twice" if identity else "a node without an id")
            return False
        try:
            aliases, papers = _list_of_texts(row.get("aliases", "")), _list_of_texts(row.get("papers", ""))
        except ValueError as error:
            self.skip(place, f"the node {identity!r}: {error}")
            return False
        ours = bool(row.get("aliases")) and "concept_kind" in row
        name = row.get("name", row.get("label", "")) if ours else _first(row, NAMES)
        kind = _first(row, TYPES).strip(":")
        if ours or name:
            kinds[identity] = row.get("kind", "concept") if ours else "concept"
            concept_kind = row["concept_kind"] if ours else _concept_kind(kind)
            concept = Concept(identity, name, concept_kind, row.get("description", ""), tuple(aliases))
            self.records.concepts.append(concept)
            if papers or (ours and row.get("papers")):
                self.records.papers[identity] = papers
        else:
            kinds[identity] = row.get("kind", kind or "unknown")
        return True

    def edge(self, place: int | str, row: Mapping[str, str]) -> bool:
        """Add an edge given by `EDGE_FIELDS`, whose nodes may follow later; False if it was skipped."""
        source, target = row.get("source", ""), row.get("target", "")
        if not source or not target:
            self.skip(place, f"an edge without a {'target' if source else 'source'}")
            return False
        try:
            weight = float(row.get("weight") or 1.0)
        except ValueError:
            weight = math.nan
        if not math.isfinite(weight):
            self.skip(place, f"the edge from {source!r} to {target!r}: the weight {row['weight']!r} is not a number")
            return False
        if source not in self.records.kinds or target not in self.records.kinds:
            self.early.append((len(self.records.edges), self.file, place))
        relation = row["relation"] if "relation" in row else _first(row, RELATIONS) or "related_to"
        edge = Edge(source, relation, target, row.get("evidence", ""), row.get("maker", ""), weight)
        self.records.edges.append(edge)
        return True

    def finish(self, strict: bool) -> tuple[GraphRecords, list[Skip]]:
        """The records, and the skips in the order of their places; raises InputError for skips if `strict`."""
        edges, kinds = self.records.edges, self.records.kinds
        dropped: set[int] = set()
        for position, file, place in self.early:
            source, target = edges[position].source, edges[position].target
            missing = [end for end in (source, target) if end not in kinds]
            if missing:
                dropped.add(position)
                self.file = file
                self.skip(place, f"the edge from {source!r} to {target!r}: there is no node {missing[0]!r}")
        files = {file: number for number, file in enumerate(dict.fromkeys(skip.file for skip in self.skips))}
        skips = sorted(self.skips, key=lambda skip: (files[skip.file], skip.line or math.inf))
        if strict and skips:
            raise InputError(_summary(skips), file=skips[0].file, line=skips[0].line)
        edges[:] = [edge for position, edge in enumerate(edges) if position not in dropped]
        return self.records, skips


def _summary(skips: Sequence[Skip]) -> str:
    """The first few causes in one sentence; the error itself names the place of the first."""
    if len(skips) == 1:
        return skips[0].cause
    causes = [skips[0].cause]
    for skip in skips[1:SHOWN]:
        place = [Path(skip.file).name] if skip.file != skips[0].file else []
        place += [f"line {skip.line}"] if skip.line else []
        causes.append(f"{' '.join(place)}: {skip.cause}" if place else skip.cause)
    more = [f"and {len(skips) - SHOWN} more"] if len(skips) > SHOWN else []
    return f"{len(skips)} entries cannot be used: " + "; ".join(causes + more)


def _first(row: Mapping[str, str], names: Iterable[str]) -> str:
    return next((row[name] for name in names if row.get(name)), "")


def _concept_kind(kind: str) -> str:
    if kind.lower() in CONCEPT_KINDS:
        return kind.lower()
    return kind if kind and kind.lower() != "concept" else "object"


def _list_of_texts(cell: str) -> list[str]:
    """A JSON list of texts, as we write it, or texts separated by `;` or `|`."""
    if not cell.startswith("["):
        return [part.strip() for part in re.split(r"[;|]", cell) if part.strip()]
    try:
        values = json.loads(cell)
    except (ValueError, RecursionError):
        values = [None]
    if not all(isinstance(value, str) and is_text(value) for value in values):
        raise ValueError(f"{cell[:80]!r} is not a list of texts")
    return list(values)


def is_text(text: str) -> bool:
    """False for half a surrogate pair, which stands for bytes that are not UTF-8."""
    return not _SURROGATE.search(text)


def free_id(name: str, taken: Collection[str]) -> str:
    """The name, or the name with the first number from 2 that is not taken."""
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(candidate for candidate in names if candidate not in taken)


# ---------------------------------------------------------------- files to lines

DAMAGE = (ArchiveError, OSError)  # raised while a broken or hostile compressed file is read
# unpacked, or a hundred times the packed size: the records take twenty times as much memory
_LIMITS = Limits(file_bytes=16 * 2**20, ratio=100)


@contextlib.contextmanager
def open_binary(path: Path) -> Iterator[BinaryIO]:
    try:
        stream = open_decompressed(path, _LIMITS)
    except OSError as error:
        raise InputError(f"cannot be opened: {error.strerror}", file=str(path)) from error
    with stream:
        yield stream


def lines(collector: Collector, path: Path) -> Iterator[str]:
    """Lines with their ends; only \\n ends a line, as other separators may be part of a text."""
    collector.file = str(path)
    number = 0
    with open_binary(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="\n")
        try:
            for line in text:
                number += 1
                yield line
        except DAMAGE as error:
            collector.skip(number + 1, f"the file is damaged from here on: {getattr(error, 'cause', error)}")


# ---------------------------------------------------------------- records to files


@contextlib.contextmanager
def text_file(path: Path) -> Iterator[TextIO]:
    """A text file that takes its name when it is complete."""
    with writing(path) as temporary, contextlib.ExitStack() as stack:
        stream: Any = stack.enter_context(temporary.open("wb"))
        if path.suffix == ".gz":  # without name and time, so that the same graph gives the same bytes
            stream = stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0))
        yield stack.enter_context(io.TextIOWrapper(stream, "utf-8", newline=""))


def node_rows(records: GraphRecords) -> Iterator[dict[str, str]]:
    """Every node by `NODE_FIELDS`, concepts first; only a concept has a list of aliases, even if it is empty."""
    other_nodes = dict(records.kinds)
    for concept in records.concepts:
        papers = records.papers.get(concept.id)
        yield {
            "id": concept.id,
            "kind": other_nodes.pop(concept.id),
            "name": concept.name,
            "concept_kind": concept.kind,
            "description": concept.description,
            "aliases": json_text(concept.aliases),
            "papers": "" if papers is None else json_text(papers),
        }
    for identity, kind in other_nodes.items():
        yield dict.fromkeys(NODE_FIELDS, "") | {"id": identity, "kind": kind}


def json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
