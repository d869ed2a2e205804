"""Graphs from files and to files: GraphML, triples, Neo4j's import tables, JSON, OGB's raw layout.

What is written here is read back the same. Graphs of others are read by their usual names for things:
a node with a name becomes a concept, any other only a node. Does not know which nodes a corpus has.

Every reader returns the records and what it had to leave out. With `strict`, anything left out is an
InputError that names the first places; a file that is no graph at all is one in either case. Every file may
be compressed with gzip; one whose name ends in `.gz` is written so.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import io
import itertools
import json
import math
import os
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO, cast
from urllib.parse import quote
from xml.parsers import expat

from lemmata.errors import InputError
from lemmata.types import Concept, Edge, Skip

__all__ = [
    "GraphRecords",
    "read_graphml",
    "read_json",
    "read_neo4j",
    "read_ogb",
    "read_triples",
    "slug",
    "write_graphml",
    "write_json",
    "write_neo4j",
    "write_ogb",
    "write_triples",
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


class _Gathering:
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
            weight = _weight(row.get("weight", ""))
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
    if not all(isinstance(value, str) and _is_text(value) for value in values):
        raise ValueError(f"{cell[:80]!r} is no list of texts")
    return list(values)


def _weight(value: Any) -> float:
    if value is None or value == "":
        return 1.0
    try:
        weight = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        weight = math.nan
    if not math.isfinite(weight):
        raise ValueError(f"the weight {value!r} is no number")
    return weight


def _is_text(text: str) -> bool:
    """Bytes that are no UTF-8 come as half a surrogate pair, which no text has."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---------------------------------------------------------------- files to lines and rows

_DAMAGE = (EOFError, OSError, zlib.error)  # what reading a broken gzip file raises


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
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


def _lines(gathering: _Gathering, path: Path) -> Iterator[str]:
    """Lines with their ends; only \\n ends one, as others may stand inside a text."""
    gathering.file = str(path)
    number = 0
    with _opened(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="\n")
        try:
            for line in text:
                number += 1
                yield line
        except _DAMAGE as error:
            gathering.skip(number + 1, f"the file is damaged from here on: {error}")


def _tsv_rows(gathering: _Gathering, path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(_lines(gathering, path), 1):
        line = line.removesuffix("\n").removesuffix("\r")
        if not _is_text(line):
            gathering.skip(number, "the line is not UTF-8")
        elif line:
            yield number, line.split("\t")


def _csv_rows(gathering: _Gathering, path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Each row with the line it begins on."""
    before = csv.field_size_limit(LONGEST_CELL)  # a concept of 20,000 papers is longer than the usual limit
    try:
        reader = csv.reader(_lines(gathering, path), delimiter=delimiter, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                gathering.skip(line, f"not a row of a table: {error}")
                continue
            if not _is_text("".join(cells)):
                gathering.skip(line, "the row is not UTF-8")
            elif cells:
                yield line, cells
    finally:
        csv.field_size_limit(before)


# ---------------------------------------------------------------- what all writers share


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[TextIO]:
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


def _check(records: GraphRecords) -> None:
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
    wrong += [f"half a surrogate pair is no text: {text[:80]!r}" for text in texts if not _is_text(text)]
    for edge in records.edges:
        if edge.source not in kinds or edge.target not in kinds:
            wrong.append(f"the edge from {edge.source!r} to {edge.target!r}: not both are nodes")
        if not math.isfinite(edge.weight):
            wrong.append(f"the edge from {edge.source!r} to {edge.target!r}: the weight {edge.weight} is no number")
    if wrong:
        raise InputError(_told([Skip("", 0, cause) for cause in wrong]))


def _node_rows(records: GraphRecords) -> Iterator[dict[str, str]]:
    """Every node by `NODE_FIELDS`, concepts first; only a concept has a list of aliases, though it be empty."""
    for concept in records.concepts:
        papers = records.papers.get(concept.id)
        yield {
            "id": concept.id,
            "kind": records.kinds[concept.id],
            "name": concept.name,
            "concept_kind": concept.kind,
            "description": concept.description,
            "aliases": _json(concept.aliases),
            "papers": "" if papers is None else _json(papers),
        }
    concepts = {concept.id for concept in records.concepts}
    for identity, kind in records.kinds.items():
        if identity not in concepts:
            yield dict.fromkeys(NODE_FIELDS, "") | {"id": identity, "kind": kind}


def _edge_cells(edge: Edge) -> list[str]:
    return [edge.source, edge.relation, edge.target, repr(float(edge.weight)), edge.evidence, edge.maker]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- GraphML

_XML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|_(?=x[0-9A-F]{4})")
_ESCAPED = re.compile(r"_x((?!D[89A-F])[0-9A-F]{4})_")  # half a surrogate pair is no text
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="lemmata" for="graph" attr.name="lemmata" attr.type="string"/>
"""


def write_graphml(path: Path, records: GraphRecords) -> None:
    """One directed graph; a name is the attribute `label`, lists are JSON.

    A character that XML can not hold is written `_x0001_` by its code, and a text that has such a thing
    already (`_x` and four digits) with `_x005F_` for the underscore.
    """
    _check(records)
    with _writing(path) as out:
        out.write(_HEAD)
        for field in NODE_FIELDS[1:]:
            name = "label" if field == "name" else field
            out.write(f'<key id="{field}" for="node" attr.name="{name}" attr.type="string"/>\n')
        for field in ("relation", *EDGE_FIELDS[3:]):
            kind = "double" if field == "weight" else "string"
            out.write(f'<key id="{field}" for="edge" attr.name="{field}" attr.type="{kind}"/>\n')
        out.write('<graph edgedefault="directed">\n<data key="lemmata">1</data>\n')
        for row in _node_rows(records):
            fields = NODE_FIELDS[1:] if row["aliases"] else NODE_FIELDS[1:2]
            data = "".join(_data(field, row[field]) for field in fields if row[field] or field != "papers")
            out.write(f'<node id="{_xml(row["id"])}">{data}</node>\n')
        for edge in records.edges:
            data = _data("relation", edge.relation) + _data("weight", repr(float(edge.weight)))
            data += _data("evidence", edge.evidence) if edge.evidence else ""
            data += _data("maker", edge.maker) if edge.maker else ""
            out.write(f'<edge source="{_xml(edge.source)}" target="{_xml(edge.target)}">{data}</edge>\n')
        out.write("</graph>\n</graphml>\n")


def _xml(text: str) -> str:
    return _NOT_XML.sub(lambda found: f"_x{ord(found[0]):04X}_", text).translate(_XML)


def _data(key: str, text: str) -> str:
    return f'<data key="{key}">{_xml(text)}</data>'


def read_graphml(path: Path, *, strict: bool = True) -> tuple[GraphRecords, list[Skip]]:
    """Any GraphML without a document type, also as networkx, Gephi, yEd and Neo4j write it.

    A relation is the first of `relation`, `type`, `label` or the label drawn by yEd; else `related_to`. An
    edge without direction is read from its source to its target, groups of nodes lose their frame. Other
    attributes have no place in the records.
    """
    gathering = _Gathering(path)
    with _opened(path) as stream:
        _GraphML(gathering).read(stream)
    return gathering.finish(strict)


class _GraphML:
    """The state of one pass; expat instead of ElementTree, as only expat tells lines."""

    def __init__(self, gathering: _Gathering) -> None:
        self.gathering = gathering
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.StartDoctypeDeclHandler = self.refuse
        self.tags: list[str] = []  # open ones
        self.keys: dict[str, str] = {}  # id: attribute name
        self.defaults: dict[str, dict[str, str]] = {"node": {}, "edge": {}}
        self.declared: tuple[str, str] = ("", "")  # what the open key is for, and its name
        self.open: list[tuple[int, dict[str, str]]] = []  # nodes and edges, with their lines
        self.graph: dict[str, str] = {}  # its own data
        self.holder: dict[str, str] | None = None  # of the open data
        self.key = ""  # of the open data
        self.text: list[str] = []

    def read(self, stream: BinaryIO) -> None:
        try:
            self.parser.ParseFile(stream)
        except expat.ExpatError as error:
            self.gathering.skip(error.lineno, f"not well-formed XML: {error}")
        except (LookupError, ValueError) as error:
            self.gathering.skip(1, f"can not be decoded: {error}")
        except _DAMAGE as error:
            self.gathering.skip(self.parser.CurrentLineNumber, f"the file is damaged from here on: {error}")

    def refuse(self, *_: object) -> None:
        cause = "a document type (<!DOCTYPE …>) is refused, as its entities can fill the memory or read other files"
        raise InputError(cause, file=self.gathering.file, line=self.parser.CurrentLineNumber)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(" ")[2]
        around = self.tags[-1] if self.tags else ""
        if not around and tag != "graphml":
            cause = f"not GraphML: the root is <{tag}>"
            raise InputError(cause, file=self.gathering.file, line=self.parser.CurrentLineNumber)
        self.tags.append(tag)
        line = self.parser.CurrentLineNumber
        if self.holder is not None:
            if tag in ("NodeLabel", "EdgeLabel"):
                self.text = []
        elif tag == "key":
            title = attributes.get("attr.name", "").lower() or attributes.get("id", "")
            self.keys[attributes.get("id", "")] = title
            self.declared = attributes.get("for", "all"), title
        elif tag in ("node", "edge"):
            self.open.append((line, self.defaults[tag] | {key: self.plain(attributes[key]) for key in attributes}))
        elif tag == "data":
            self.key = self.keys.get(attributes.get("key", ""), attributes.get("key", "").lower())
            self.holder = self.open[-1][1] if around in ("node", "edge") else self.graph if around == "graph" else {}
            self.text = []
        elif tag == "default":
            self.text = []
        elif tag == "hyperedge":
            self.gathering.skip(line, "an edge between more than two nodes")

    def end(self, _: str) -> None:
        tag = self.tags.pop()
        if tag == "data" and self.holder is not None:
            if self.key not in ("id", "source", "target"):  # those are what the element itself says
                self.holder[self.key] = self.plain("".join(self.text))
            self.holder = None
        elif tag in ("NodeLabel", "EdgeLabel") and self.holder is not None:
            self.holder.setdefault("drawn label", "".join(self.text).strip())
        elif tag == "default":
            for kind in ("node", "edge") if self.declared[0] == "all" else (self.declared[0],):
                self.defaults.setdefault(kind, {})[self.declared[1]] = "".join(self.text)
        elif tag == "node":
            self.gathering.node(*self.open.pop())
        elif tag == "edge":
            self.gathering.edge(*self.open.pop())

    def characters(self, text: str) -> None:
        if self.holder is not None or self.tags[-1] == "default":
            self.text.append(text)

    def plain(self, text: str) -> str:
        if "lemmata" in self.graph and "_x" in text:
            return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
        return text


# ---------------------------------------------------------------- triples

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
    _check(records)
    with _writing(_nodes_beside(path)) as out:
        out.write("\t".join(NODE_FIELDS) + "\n")
        for row in _node_rows(records):
            out.write("\t".join(row[field].translate(_TSV) for field in NODE_FIELDS) + "\n")
    with _writing(path) as out:
        out.write("\t".join(EDGE_FIELDS) + "\n")
        for edge in records.edges:
            out.write("\t".join(cell.translate(_TSV) for cell in _edge_cells(edge)) + "\n")


def _nodes_beside(path: Path) -> Path:
    """`graph.tsv.gz` has its nodes in `graph.nodes.tsv.gz`."""
    base = path.name.removesuffix(".gz")
    ending = Path(base).suffix + path.name[len(base) :]
    return path.with_name(base.removesuffix(Path(base).suffix) + ".nodes" + ending)


def read_triples(path: Path, *, strict: bool = True) -> tuple[GraphRecords, list[Skip]]:
    """Lines of source, relation, target and, where there are more cells, weight, evidence and maker.

    Under our own header cells are escaped and the nodes are read from beside the file. In any other file
    (with or without a header) a backslash is a backslash, and every end of an edge is a node of unknown kind.
    """
    gathering = _Gathering(path)
    rows = _tsv_rows(gathering, path)
    first = next(rows, (0, []))
    ours = first[1] == list(EDGE_FIELDS)
    nodes = _nodes_beside(path)
    known = ours and nodes.is_file()
    if known:
        table = _tsv_rows(gathering, nodes)
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
    gathering: _Gathering, line: int, cells: list[str], fields: Sequence[str], *, escaped: bool
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


# ---------------------------------------------------------------- Neo4j's import tables

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
    _check(records)
    with _writing(folder / "nodes.csv") as out:
        table = csv.writer(out)
        table.writerow(["id:ID", ":LABEL", *NODE_FIELDS[2:]])
        table.writerows([row[field] for field in NODE_FIELDS] for row in _node_rows(records))
    with _writing(folder / "edges.csv") as out:
        table = csv.writer(out)
        table.writerow([":START_ID", ":TYPE", ":END_ID", "weight:double", "evidence", "maker"])
        table.writerows(_edge_cells(edge) for edge in records.edges)


def read_neo4j(nodes: Sequence[Path], edges: Sequence[Path], *, strict: bool = True) -> tuple[GraphRecords, list[Skip]]:
    """Tables of nodes (`:ID`, `:LABEL`) and of edges (`:START_ID`, `:END_ID`, `:TYPE`), in any number.

    A file without a header of its own goes on under that of the file before it. Cells are parted by what
    parts the header: comma, semicolon, tab or bar. Ids of different id spaces stay apart: an id that
    another space has too is called `space:id`.
    """
    if not nodes:
        raise InputError("no table of nodes is given")
    gathering = _Gathering(nodes[0])
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
    gathering: _Gathering, paths: Sequence[Path], wanted: Sequence[str]
) -> Iterator[tuple[int, dict[str, str], dict[str, str]]]:
    """Line, cells by name and id spaces by name, of all rows of all tables."""
    fields: list[str] = []
    spaces: dict[str, str] = {}
    delimiter = ","
    for path in paths:
        head = next(_lines(gathering, path), "")
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
        for number, (line, cells) in enumerate(_csv_rows(gathering, path, delimiter)):
            if own and not number:
                continue
            if len(cells) != len(fields):
                gathering.skip(line, f"the row has {len(cells)} cells, the header {len(fields)}")
                continue
            yield line, dict(zip(fields, cells, strict=True)), spaces


# ---------------------------------------------------------------- JSON


def write_json(path: Path, records: GraphRecords) -> None:
    """The shape of Math-Embed with ids: `concepts` with their `papers`, `edges`, and the kinds of all `nodes`."""
    _check(records)
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
    with _writing(path) as out:
        out.write('{"concepts": [')
        _write_entries(out, concepts)
        out.write('],\n"edges": [')
        _write_entries(out, (edge._asdict() for edge in records.edges))
        out.write('],\n"nodes": ' + _json(records.kinds) + "}\n")


def _write_entries(out: TextIO, entries: Iterable[Mapping[str, Any]]) -> None:
    """One a line, so that a change shows as one line."""
    for number, entry in enumerate(entries):
        out.write((",\n" if number else "\n") + _json(entry))


def read_json(path: Path, *, strict: bool = True) -> tuple[GraphRecords, list[Skip]]:
    """`concepts` (or `entities`, `nodes`) and `edges` (or `links`, `relations`, `relationships`, `triples`).

    Concepts are objects in a list, or by name; or only names. One without an id is called `concept:slug`
    after its name, with a number where another has that id. An edge is an object, or a list of source,
    relation and target, and names its ends by id, by name, or by what has the same slug. Places are told
    as `edges[17]`, counted from 0.
    """
    gathering = _Gathering(path)
    data = _json_document(gathering, path)
    kinds = data.get("nodes")
    own = isinstance(kinds, dict) and all(isinstance(kind, str) for kind in kinds.values())
    names = ("concepts", "entities") if own or "concepts" in data else ("concepts", "entities", "nodes")
    title = next((name for name in names if name in data), "")
    called = _read_concepts(gathering, title, data.get(title, []), kinds if own and kinds else {})
    if own and kinds:
        for identity, kind in kinds.items():
            if not identity or not _is_text(identity + kind):
                gathering.skip(0, f"nodes: {identity!r} is no id of a node")
            else:
                gathering.records.kinds.setdefault(identity, kind)
    title = next((name for name in ("edges", "links", "relations", "relationships", "triples") if name in data), "")
    _read_edges(gathering, title, data.get(title, []), called)
    return gathering.finish(strict)


def _json_document(gathering: _Gathering, path: Path) -> dict[str, Any]:
    def whole(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            doubles = [key for key, number in Counter(key for key, _ in pairs).items() if number > 1]
            gathering.skip(0, f"the key {doubles[0]!r} stands twice in an object; the last one counts")
        return found

    try:
        with _opened(path) as stream:
            data = json.loads(stream.read().decode("utf-8-sig"), object_pairs_hook=whole)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}", file=str(path), line=error.lineno) from error
    except (ValueError, RecursionError, *_DAMAGE) as error:
        raise InputError(f"not JSON: {error}", file=str(path)) from error
    if not isinstance(data, dict) or not data.keys() & {"concepts", "entities", "nodes", "edges", "links", "triples"}:
        raise InputError('no graph: there must be an object with "concepts" and "edges"', file=str(path))
    return data


def _entries(gathering: _Gathering, title: str, section: Any) -> Iterator[tuple[str, Any]]:
    """Place and content of each entry of a list, or of an object whose keys are names."""
    if isinstance(section, dict):
        for key, entry in section.items():
            yield f"{title}[{key!r}]", {"name": key} | (entry if isinstance(entry, dict) else {"description": entry})
    elif isinstance(section, list):
        for number, entry in enumerate(section):
            yield f"{title}[{number}]", entry
    else:
        gathering.skip(0, f"{title}: neither a list nor an object")


def _read_concepts(gathering: _Gathering, title: str, section: Any, kinds: Mapping[str, str]) -> dict[str, str]:
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
            identity = _free(f"concept:{slug(concept.name)}", taken)
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
    if not _is_text(_json(entry)):
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


def _read_edges(gathering: _Gathering, title: str, section: Any, called: dict[str, str]) -> None:
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
            if not isinstance(entry, dict) or not _is_text(_json(entry)):
                raise ValueError("neither an object nor a list of source, relation and target")
            edge = Edge(
                resolve(_any(entry, "source", "from", "head", "subject")),
                _text(_any(entry, "relation", "type", "label", "predicate", otherwise="related_to")),
                resolve(_any(entry, "target", "to", "tail", "object")),
                _text(entry.get("evidence")),
                _text(entry.get("maker")),
                _weight(entry.get("weight")),
            )
        except ValueError as error:
            gathering.skip(0, f"{title}[{number}]: {error}")
        else:
            gathering.records.edges.append(edge)


def _any(entry: Mapping[str, Any], *names: str, otherwise: Any = None) -> Any:
    return next((entry[name] for name in names if entry.get(name) is not None), otherwise)


def _text(value: Any) -> str:
    if isinstance(value, bool | list | dict):
        raise ValueError(f"{_json(value)[:80]} is no text")
    return "" if value is None else str(value)


def _texts(value: Any) -> list[str]:
    return [_text(one) for one in value] if isinstance(value, list) else [_text(value)] if value else []


def _free(name: str, taken: Collection[str]) -> str:
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(one for one in names if one not in taken)


# ---------------------------------------------------------------- OGB's raw layout

_SEVERAL = "several graphs in one folder are not read"


def write_ogb(folder: Path, records: GraphRecords) -> None:
    """The heterogeneous layout of ogbn-mag: nodes by kind, edges by the kinds of their ends and relation.

    The mapping of a kind has our own fields as further columns; `edge_weight` and `edge_evidence` (with the
    maker) stand beside each `edge`. Order is kept only inside each of them. Names that would make a bad file
    name are written with `%`, as in a web address, or as a number.
    """
    _check(records)
    raw = folder / "raw"
    members: dict[str, list[dict[str, str]]] = {}
    places: dict[str, int] = {}
    for row in _node_rows(records):
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
    with _writing(path) as out:
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
    gathering = _Gathering(folder)
    if (triplets := _plain_or_packed(raw / "triplet-type-list.csv")) is not None:
        table = [cells for _, cells in _csv_rows(gathering, _needed(raw / "num-node-dict.csv"))]
        if len(table) > 2:
            raise InputError(_SEVERAL, file=gathering.file)
        kinds, sizes = (table[0], _wholes(gathering, table[1])) if len(table) == 2 else ([], [])
        if len(sizes) != len(kinds):
            raise InputError(f"{len(kinds)} kinds of nodes, but {len(sizes)} numbers", file=gathering.file)
        ids = {}
        for kind, size, name in zip(kinds, sizes, _file_names([(kind,) for kind in kinds]), strict=True):
            ids[kind] = _ogb_nodes(gathering, kind, size, _plain_or_packed(mapping / f"{name}_entidx2name.csv"))
        rows = list(_csv_rows(gathering, triplets))
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


def _wholes(gathering: _Gathering, cells: Sequence[str]) -> list[int]:
    try:
        return [int(cell) for cell in cells]
    except ValueError as error:
        raise InputError(f"{','.join(cells)!r} are no whole numbers", file=gathering.file) from error


def _numbers(gathering: _Gathering, path: Path) -> list[int]:
    return _wholes(gathering, [cell for _, cells in _csv_rows(gathering, path) for cell in cells])


def _ogb_nodes(gathering: _Gathering, kind: str, size: int, mapping: Path | None) -> list[str]:
    """Take in the nodes of one kind; returns their ids by number."""
    ids = [""] * size
    rows = _csv_rows(gathering, mapping) if mapping else iter(())
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
            ids[number] = _free(f"{kind}:{number}", gathering.records.kinds)
            gathering.records.kinds[ids[number]] = kind
    return ids


def _ogb_relations(gathering: _Gathering, mapping: Path) -> dict[int, str]:
    """Names of relations by number."""
    paths = sorted((*mapping.glob("relidx2*.csv*"), *mapping.glob("reltype2*.csv*")))
    rows = list(_csv_rows(gathering, paths[0]))[1:] if paths else []
    return {int(cells[0]): cells[1] for _, cells in rows if len(cells) > 1 and cells[0].isdecimal()}


def _ogb_edges(
    gathering: _Gathering,
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
            beside[name] = [cells for _, cells in _csv_rows(gathering, one)]
    count = 0
    for line, cells in _csv_rows(gathering, path):
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


# ---------------------------------------------------------------- names to ids

_ACCENT = re.compile(r"""\\(?:[`'^"~=.]|[uvHcdbkrt](?![A-Za-z]))\s*""")
_COMMAND = re.compile(r"\\([A-Za-z]+)\*?\s*")
_LETTERS = {
    "ss": "ss",
    "o": "o",
    "l": "l",
    "ae": "ae",
    "oe": "oe",
    "aa": "a",
    "i": "i",
    "j": "j",
    "dh": "d",
    "th": "th",
}
_FORMAT = frozenset(
    "emph text textit textbf textrm textsf texttt textsc textnormal textup textsl underline mbox hbox ensuremath "
    "it bf rm sf tt sc em sl cal frak mathbb mathcal mathfrak mathrm mathbf mathit mathsf mathtt mathscr mathop "
    "boldsymbol bm pmb operatorname left right big Big bigl bigr displaystyle textstyle limits nolimits math "
    "quad qquad hat widehat tilde widetilde bar overline vec dot ddot breve check acute grave".split()
)
_FOLDED = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"}
    | dict.fromkeys("'’‘ʼ`´{}$", "")
)
_GREEK = re.compile(r"[α-ω]")


def slug(name: str) -> str:
    """A name as an id: small letters, digits and hyphens; `Erd\\H{o}s's $\\alpha$-Lemma` is `erdoss-alpha-lemma`.

    Accents are folded, LaTeX is stripped, what its commands mean in mathematics stays as letters; letters of
    other scripts stay. A name without any letter or digit gets a number made from it. Different names can
    have one slug; a slug is its own slug.
    """
    text = _ACCENT.sub("", name.replace("\\-", "").replace("}{", "} {"))
    text = _COMMAND.sub(_spoken, text)
    for _ in range(2):  # small letters can have accents that capitals hide
        text = unicodedata.normalize("NFKD", text.casefold().translate(_FOLDED))
        text = "".join(letter for letter in text if unicodedata.category(letter) != "Mn")
    text = _GREEK.sub(lambda found: f" {unicodedata.name(found[0]).split()[-1].lower()} ", text)
    text = re.sub(r"[\W_]+", "-", unicodedata.normalize("NFC", text)).strip("-")
    return text or "x" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]


def _spoken(found: re.Match[str]) -> str:
    command = found[1]
    if command in _FORMAT:
        return ""
    return _LETTERS.get(command.lower(), f" {command} ")
