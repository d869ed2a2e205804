"""Graphs as GraphML."""

from __future__ import annotations

import re
from pathlib import Path
from xml.parsers import expat

from lemmata.core.errors import InputError
from lemmata.graph.formats.shared import (
    DAMAGE,
    EDGE_FIELDS,
    NODE_FIELDS,
    Collector,
    GraphRecords,
    node_rows,
    open_binary,
    text_file,
)

_XML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)
# half a surrogate pair is no character: writing it fails
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ufffd\U00010000-\U0010ffff]|_(?=x[0-9A-F]{4})")
_ESCAPED = re.compile(r"_x((?!D[89A-F])[0-9A-F]{4})_")  # not half a surrogate pair
_LABELS = ("NodeLabel", "EdgeLabel")  # of yEd
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="lemmata" for="graph" attr.name="lemmata" attr.type="string"/>
"""


def write_graphml(path: Path, records: GraphRecords) -> None:
    """One directed graph; a name is the attribute `label`, lists are JSON.

    A character that XML cannot hold is written by its code as `_x0001_`; where a text already contains such a
    sequence, its underscore is written `_x005F_`.
    """
    with text_file(path) as out:
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
    return _NOT_XML.sub(lambda match: f"_x{ord(match[0]):04X}_", text).translate(_XML)


def _data(key: str, text: str) -> str:
    return f'<data key="{key}">{_xml(text)}</data>'


def read_graphml(path: Path, collector: Collector) -> None:
    """Any GraphML without a document type, also as networkx, Gephi, yEd and Neo4j write it.

    A relation is the first of `relation`, `type`, `label` or the label drawn by yEd; else `related_to`. An
    undirected edge is read from its source to its target; groups of nodes are flattened. Other attributes
    are not read.
    """
    with open_binary(path) as stream:
        parser = _Parser(collector)
        try:
            parser.expat.ParseFile(stream)
        except expat.ExpatError as error:
            collector.skip(error.lineno, f"not well-formed XML: {error}")
        except (LookupError, ValueError) as error:
            collector.skip(1, f"cannot be decoded: {error}")
        except DAMAGE as error:
            collector.skip(
                parser.expat.CurrentLineNumber, f"the file is damaged from here on: {getattr(error, 'cause', error)}"
            )


class _Parser:
    """The state of one pass; expat instead of ElementTree, because only expat knows line numbers."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.text: list[str] = []  # since the last element began, or the whole of an open data element
        self.expat = expat.ParserCreate(namespace_separator=" ")
        self.expat.buffer_text = True
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.CharacterDataHandler = self.text.append
        self.expat.StartDoctypeDeclHandler = self.doctype
        self.tags: list[str] = []  # open elements
        self.names: dict[str, str] = {}  # attribute name by key id
        self.defaults: dict[str, dict[str, str]] = {"node": {}, "edge": {}}
        self.key_for: tuple[str, str] = ("", "")  # of the open key: what it is for, and its name
        self.rows: list[tuple[int, dict[str, str]]] = []  # open nodes and edges, with their lines
        self.graph: dict[str, str] = {}  # data of the graph itself
        self.data: dict[str, str] | None = None  # where the open data element belongs
        self.name = ""  # of the open data element

    def doctype(self, *_: object) -> None:
        self.refuse("a document type (<!DOCTYPE …>) is refused: its entities can fill the memory or read other files")

    def refuse(self, cause: str) -> None:
        raise InputError(cause, file=self.collector.file, line=self.expat.CurrentLineNumber)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(" ")[2]
        parent = self.tags[-1] if self.tags else ""
        if not parent and tag != "graphml":
            self.refuse(f"not GraphML: the root is <{tag}>")
        self.tags.append(tag)
        line = self.expat.CurrentLineNumber
        if self.data is None or tag in _LABELS:
            self.text.clear()
        if self.data is not None:
            return
        if tag == "key":
            title = attributes.get("attr.name", "").lower() or attributes.get("id", "")
            self.names[attributes.get("id", "")] = title
            self.key_for = attributes.get("for", "all"), title
        elif tag in ("node", "edge"):
            self.rows.append((line, self.defaults[tag] | {key: self.unescaped(attributes[key]) for key in attributes}))
        elif tag == "data":
            self.name = self.names.get(attributes.get("key", ""), attributes.get("key", "").lower())
            self.data = self.rows[-1][1] if parent in ("node", "edge") else self.graph if parent == "graph" else {}
        elif tag == "hyperedge":
            self.collector.skip(line, "an edge between more than two nodes")

    def end(self, _: str) -> None:
        tag = self.tags.pop()
        if tag == "data" and self.data is not None:
            if self.name not in ("id", "source", "target"):  # these are attributes of the element itself
                self.data[self.name] = self.unescaped("".join(self.text))
            self.data = None
        elif tag in _LABELS and self.data is not None:
            self.data.setdefault("drawn label", "".join(self.text).strip())
        elif tag == "default":
            kind, name = self.key_for
            for element in ("node", "edge") if kind == "all" else (kind,):
                self.defaults.setdefault(element, {})[name] = "".join(self.text)
        elif tag == "node":
            self.collector.node(*self.rows.pop())
        elif tag == "edge":
            self.collector.edge(*self.rows.pop())

    def unescaped(self, text: str) -> str:
        if "lemmata" in self.graph and "_x" in text:
            return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
        return text
