"""Graphs from GraphML and to GraphML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

from lemmata.errors import InputError
from lemmata.graph.formats.shared import (
    DAMAGE,
    EDGE_FIELDS,
    NODE_FIELDS,
    Gathering,
    GraphRecords,
    check,
    node_rows,
    opened,
    writing,
)
from lemmata.types import Skip

__all__ = ["read_graphml", "write_graphml"]

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
    check(records)
    with writing(path) as out:
        out.write(_HEAD)
        for field in NODE_FIELDS[1:]:
            name = "label" if field == "name" else field
            out.write(f'<key id="{field}" for="node" attr.name="{name}" attr.type="string"/>\n')
        for field in ("relation", *EDGE_FIELDS[3:]):
            kind = "double" if field == "weight" else "string"
            out.write(f'<key id="{field}" for="edge" attr.name="{field}" attr.type="{kind}"/>\n')
        out.write('<graph edgedefault="directed">\n<data key="lemmata">1</data>\n')
        for row in node_rows(records):
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
    gathering = Gathering(path)
    with opened(path) as stream:
        _GraphML(gathering).read(stream)
    return gathering.finish(strict)


class _GraphML:
    """The state of one pass; expat instead of ElementTree, as only expat tells lines."""

    def __init__(self, gathering: Gathering) -> None:
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
        except DAMAGE as error:
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
