"""What all formats of graphs share: the records, gathering and checking them, files to rows, names to ids.

Every reader returns the records and what it had to leave out. With `strict`, anything left out is an
InputError that names the first places; a file that is no graph at all is one in either case. Every file may
be compressed with gzip; one whose name ends in `.gz` is written so.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import math
import os
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO, cast

from lemmata.errors import InputError
from lemmata.types import Concept, Edge, Skip

__all__ = [
    "DAMAGE",
    "EDGE_FIELDS",
    "NODE_FIELDS",
    "Gathering",
    "GraphRecords",
    "check",
    "csv_rows",
    "edge_cells",
    "free_id",
    "is_text",
    "json_text",
    "lines",
    "node_rows",
    "opened",
    "tsv_rows",
    "weight_of",
    "writing",
]

NODE_FIELDS = ("id", "kind", "name", "concept_kind", "description", "aliases", "papers")
EDGE_FIELDS = ("source", "relation", "target", "weight", "evidence", "maker")
CONCEPT_KINDS = frozenset("object theorem definition technique formula identity conjecture person".split())
NAMES = ("name", "label", "display_name", "title", "drawn label")  # of a node, the best first
TYPES = ("type", "kind", "labels")
RELATIONS = ("relation", "type", "label", "edge label", "predicate", "name", "drawn label")
SHOWN = 3  # bad places told in an error
LONGEST_CELL = 10_000_000  # characters; what is longer is a quote left open


class GraphRecords(NamedTuple):
    """A graph as records; `kinds` has every node, also the concepts and the ends of all edges."""

    concepts: list[Concept]
    kinds: dict[str, str]  # node id: kind
    edges: list[Edge]
    papers: dict[str, list[str]]  # concept id: document ids


# ---------------------------------------------------------------- what all readers share


class Gathering:
    """What the files of one graph gave so far, and what in them could not be used."""

    def __init__(self, path: Path) -> None:
        self.file = str(path)  # the one being read
        self.records = GraphRecords([], {}, [], {})
        self.skips: list[Skip] = []
        self.early: list[tuple[int, str, int]] = []  # edges that came before their nodes: position, file, line

    def skip(self, line: int, cause: str) -> None:
        self.skips.append(Skip(self.file, line, cause))

    def node(self, line: int, row: Mapping[str, str]) -> bool:
        """Take in one node by `NODE_FIELDS`, or by the names that others use; whether it could be used."""
        identity = row.get("id", "")
        if not identity:
            self.skip(line, "a node without an id")
            return False
        if identity in self.records.kinds:
            self.skip(line, f"the node {identity!r} was there before")
            return False
        try:
            aliases, papers = _listed(row.get("aliases", "")), _listed(row.get("papers", ""))
        except ValueError as error:
            self.skip(line, f"the node {identity!r}: {error}")
            return False
        if row.get("aliases") and "concept_kind" in row:  # as we write it
            concept = Concept(
                identity,
                row.get("name", row.get("label", "")),
                row["concept_kind"],
                row.get("description", ""),
                tuple(aliases),
            )
            self.concept(concept, row.get("kind", "concept"), papers if row.get("papers") else None)
            return True
        name, kind = _first(row, NAMES), _first(row, TYPES).strip(":")
        if name:
            concept = Concept(identity, name, _concept_kind(kind), row.get("description", ""), tuple(aliases))
            self.concept(concept, "concept", papers or None)
        else:
            self.records.kinds[identity] = row.get("kind", kind or "unknown")
        return True

    def concept(self, concept: Concept, kind: str, papers: list[str] | None) -> None:
        self.records.concepts.append(concept)
        self.records.kinds[concept.id] = kind
        if papers is not None:
            self.records.papers[concept.id] = papers

    def edge(self, line: int, row: Mapping[str, str]) -> bool:
        """Take in one edge by `EDGE_FIELDS`, whose nodes may come later; whether it could be used so far."""
        source, target = row.get("source", ""), row.get("target", "")
        if not source or not target:
            self.skip(line, f"an edge without a {'target' if source else 'source'}")
            return False
        try:
            weight = weight_of(row.get("weight", ""))
        except ValueError as error:
            self.skip(line, f"the edge from {source!r} to {target!r}: {error}")
            return False
        if source not in self.records.kinds or target not in self.records.kinds:
            self.early.append((len(self.records.edges), self.file, line))
        relation = row["relation"] if "relation" in row else _first(row, RELATIONS) or "related_to"
        edge = Edge(source, relation, target, row.get("evidence", ""), row.get("maker", ""), weight)
        self.records.edges.append(edge)
        return True

    def finish(self, strict: bool) -> tuple[GraphRecords, list[Skip]]:
        """The records, and what is left out in the order of its places; raises InputError for that if `strict`."""
        edges, kinds = self.records.edges, self.records.kinds
        lost: set[int] = set()
        for position, file, line in self.early:
            source, target = edges[position].source, edges[position].target
            missing = [end for end in (source, target) if end not in kinds]
            if missing:
                lost.add(position)
                cause = f"the edge from {source!r} to {target!r}: there is no node {missing[0]!r}"
                self.skips.append(Skip(file, line, cause))
        files = {file: number for number, file in enumerate(dict.fromkeys(skip.file for skip in self.skips))}
        skips = sorted(self.skips, key=lambda skip: (files[skip.file], skip.line or math.inf))
        if strict and skips:
            raise InputError(_told(skips), file=skips[0].file, line=skips[0].line)
        if lost:
            edges[:] = [edge for position, edge in enumerate(edges) if position not in lost]
        return self.records, skips


def _told(skips: Sequence[Skip]) -> str:
    """The first few causes in one sentence, the first without its place, which the error names."""
    if len(skips) == 1:
        return skips[0].cause
    causes = [skips[0].cause]
    for skip in skips[1:SHOWN]:
        place = Path(skip.file).name if skip.file != skips[0].file else ""
        line = f"line {skip.line}" if skip.line else ""
        causes.append(": ".join(filter(None, (" ".join(filter(None, (place, line))), skip.cause))))
    more = [f"and {len(skips) - SHOWN} more"] if len(skips) > SHOWN else []
    return f"{len(skips)} things can not be used: " + "; ".join(causes + more)


def _first(row: Mapping[str, str], names: Iterable[str]) -> str:
    return next((row[name] for name in names if row.get(name)), "")


def _concept_kind(kind: str) -> str:
    if kind.lower() in CONCEPT_KINDS:
        return kind.lower()
    return kind if kind and kind.lower() != "concept" else "object"


def _listed(cell: str) -> list[str]:
    """A JSON list of texts, as we write it, or texts with `;` or `|` between them."""
    if not cell.startswith("["):
        return [part.strip() for part in re.split(r"[;|]", cell) if part.strip()]
    try:
        values = json.loads(cell)
    except (ValueError, RecursionError):
        values = [None]
    if not all(isinstance(value, str) and is_text(value) for value in values):
        raise ValueError(f"{cell[:80]!r} is no list of texts")
    return list(values)


def weight_of(value: Any) -> float:
    if value is None or value == "":
        return 1.0
    try:
        weight = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        weight = math.nan
    if not math.isfinite(weight):
        raise ValueError(f"the weight {value!r} is no number")
    return weight


def is_text(text: str) -> bool:
    """Bytes that are no UTF-8 come as half a surrogate pair, which no text has."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---------------------------------------------------------------- files to lines and rows

DAMAGE = (EOFError, OSError, zlib.error)  # what reading a broken gzip file raises


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    try:
        stream = path.open("rb")
    except OSError as error:
        raise InputError(f"can not be opened: {error.strerror}", file=str(path)) from error
    with stream:
        if stream.peek(2)[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield stream


def lines(gathering: Gathering, path: Path) -> Iterator[str]:
    """Lines with their ends; only \\n ends one, as others may stand inside a text."""
    gathering.file = str(path)
    number = 0
    with opened(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="\n")
        try:
            for line in text:
                number += 1
                yield line
        except DAMAGE as error:
            gathering.skip(number + 1, f"the file is damaged from here on: {error}")


def tsv_rows(gathering: Gathering, path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines(gathering, path), 1):
        line = line.removesuffix("\n").removesuffix("\r")
        if not is_text(line):
            gathering.skip(number, "the line is not UTF-8")
        elif line:
            yield number, line.split("\t")


def csv_rows(gathering: Gathering, path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Each row with the line it begins on."""
    before = csv.field_size_limit(LONGEST_CELL)  # a concept of 20,000 papers is longer than the usual limit
    try:
        reader = csv.reader(lines(gathering, path), delimiter=delimiter, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                gathering.skip(line, f"not a row of a table: {error}")
                continue
            if not is_text("".join(cells)):
                gathering.skip(line, "the row is not UTF-8")
            elif cells:
                yield line, cells
    finally:
        csv.field_size_limit(before)


# ---------------------------------------------------------------- what all writers share


@contextlib.contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """A text file that is there once it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with contextlib.ExitStack() as stack:
            stream: Any = stack.enter_context(temporary.open("wb"))
            if path.suffix == ".gz":  # without name and time, so that the same graph gives the same bytes
                stream = stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0))
            yield stack.enter_context(io.TextIOWrapper(stream, "utf-8", newline=""))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check(records: GraphRecords) -> None:
    """Raise InputError for what no reader would take back."""
    kinds = records.kinds
    numbers = Counter(concept.id for concept in records.concepts)
    wrong = [f"the concept {identity!r} is there {n} times" for identity, n in numbers.items() if n > 1]
    wrong += [f"the concept {identity!r} is no node" for identity in numbers if identity not in kinds]
    wrong += [f"papers of {identity!r}, which is no concept" for identity in records.papers if identity not in numbers]
    wrong += ["a node without an id"] if "" in kinds else []
    texts = itertools.chain(
        (identity + kind for identity, kind in kinds.items()),
        ("".join((one.name, one.kind, one.description, *one.aliases)) for one in records.concepts),
        ("".join(papers) for papers in records.papers.values()),
        (edge.relation + edge.evidence + edge.maker for edge in records.edges),
    )
    wrong += [f"half a surrogate pair is no text: {text[:80]!r}" for text in texts if not is_text(text)]
    for edge in records.edges:
        if edge.source not in kinds or edge.target not in kinds:
            wrong.append(f"the edge from {edge.source!r} to {edge.target!r}: not both are nodes")
        if not math.isfinite(edge.weight):
            wrong.append(f"the edge from {edge.source!r} to {edge.target!r}: the weight {edge.weight} is no number")
    if wrong:
        raise InputError(_told([Skip("", 0, cause) for cause in wrong]))


def node_rows(records: GraphRecords) -> Iterator[dict[str, str]]:
    """Every node by `NODE_FIELDS`, concepts first; only a concept has a list of aliases, though it be empty."""
    for concept in records.concepts:
        papers = records.papers.get(concept.id)
        yield {
            "id": concept.id,
            "kind": records.kinds[concept.id],
            "name": concept.name,
            "concept_kind": concept.kind,
            "description": concept.description,
            "aliases": json_text(concept.aliases),
            "papers": "" if papers is None else json_text(papers),
        }
    concepts = {concept.id for concept in records.concepts}
    for identity, kind in records.kinds.items():
        if identity not in concepts:
            yield dict.fromkeys(NODE_FIELDS, "") | {"id": identity, "kind": kind}


def edge_cells(edge: Edge) -> list[str]:
    return [edge.source, edge.relation, edge.target, repr(float(edge.weight)), edge.evidence, edge.maker]


def json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- names to ids


def free_id(name: str, taken: Collection[str]) -> str:
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(one for one in names if one not in taken)
