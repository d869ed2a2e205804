"""Damaged input of every reader: read, or one sentence that names the file, never anything else.

A valid file is changed by random edits; `make fuzz` tries new ones. What failed once stands below as a case of its own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.errors import LemmataError
from lemmata.graph.formats.any_format import read_graph
from lemmata.ingest.beir import read_corpus, read_qrels, read_queries, read_table
from lemmata.ingest.queries import read_imported
from lemmata.ingest.readers import IngestOptions, read_whole_unit
from lemmata.ingest.sources import find_units

CONCEPT = {"id": "concept:tree", "name": "tree", "kind": "object", "description": "a graph", "aliases": ["trees"]}
PASSAGE = {
    "_id": "p1",
    "title": "A tree",
    "text": "A tree has leaves.",
    "links": {"cites": ["p2"]},
    "date": "2024-01-02",
}
GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="k" for="node" attr.name="name" attr.type="string"/>
<key id="r" for="edge" attr.name="relation" attr.type="string"/><graph edgedefault="directed">
<node id="a"><data key="k">tree</data></node><node id="b"><data key="k">leaf</data></node>
<edge source="a" target="b"><data key="r">uses</data></edge></graph></graphml>
"""
LOGS = 'id;date;location;text;related\n1;2024-01-02;P-101;"Pump leaks; fixed";\n2;2024-01-03 10:00;P-102;"Noise";1\n'


def parquet() -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    parquet_file = pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    columns = {"id": ["1", "2"], "text": ["Pump leaks", "Noise"], "date": ["2024-01-02", None]}
    parquet_file.write_table(pyarrow.table(columns), stream)
    return stream.getvalue()


def lines(*records: object) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def read_units(path: Path) -> None:
    """As `lemmata ingest` reads a file, which says so where an error is not the fault of the file."""
    options = IngestOptions()
    for unit in find_units(path, options).units:
        result = read_whole_unit((path.parent if path.is_file() else path, unit, options))
        if isinstance(result, str):
            assert "please report this" not in result
            assert result
            assert "\n" not in result


GRAPH = {"nodes": [CONCEPT], "edges": [{"source": "concept:tree", "target": "concept:tree", "relation": "uses"}]}
READERS: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], object]]] = {
    "GraphML": ("g.graphml", GRAPHML.encode, lambda path: read_graph(path, strict=False)),
    "JSON graph": ("g.json", lambda: json.dumps(GRAPH).encode(), read_graph),
    "JSON lines": (
        "g.jsonl",
        lambda: lines(CONCEPT, {"type": "relationship", "start": CONCEPT, "end": CONCEPT, "label": "uses"}),
        lambda path: read_graph(path, strict=False),
    ),
    "graph of any format": ("g.txt", GRAPHML.encode, read_graph),
    "BEIR corpus": ("corpus.jsonl", lambda: lines(PASSAGE), lambda path: list(read_corpus(path.parent))),
    "BEIR queries": ("queries.jsonl", lambda: lines({"_id": "q1", "text": "trees"}), read_queries),
    "judgments": ("test.tsv", lambda: b"query-id\tcorpus-id\tscore\nq1\tp1\t1\n", read_qrels),
    "table of queries": ("asked.tsv", lambda: b"query\tid\nwhat is a tree\tp1\n", read_table),
    "imported queries": (
        "asked.jsonl",
        lambda: lines({"query": "what is a tree", "passage": "p1"}),
        lambda path: list(read_imported(path)),
    ),
    "ingested passages": ("passages.jsonl", lambda: lines(PASSAGE, {**PASSAGE, "_id": "p2"}), read_units),
    "ingested CSV": ("logs.csv", LOGS.encode, read_units),
    "ingested Parquet": ("logs.parquet", parquet, read_units),
}
TOKENS = [
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b'"', b"'", b"{", b"}", b"]", b"<", b">", b"&", b"\\"),
    *(b"[" * 5000, b'{"a":' * 5000, b"<a>" * 2000, b"9" * 5000, b"-1", b"1e999", b"NaN", b"null", b"\\ud800", b"&#0;"),
    *(b"<!DOCTYPE x [<!ENTITY a 'b'>]>", b"&a;", b"<![CDATA[", b"PAR1", b"x" * 70_000),
]
Edit = tuple[str, float, bytes]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "replace", "delete", "cut", "double"]),
        st.floats(0, 1),
        st.one_of(st.sampled_from(TOKENS), st.binary(max_size=8)),
    ),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, edits: list[Edit]) -> bytes:
    for kind, place, token in edits:
        at = int(place * len(data))
        if kind == "insert":
            data = data[:at] + token + data[at:]
        elif kind == "replace":
            data = data[:at] + token + data[at + len(token) :]
        elif kind == "delete":
            data = data[:at] + data[at + max(1, len(token)) :]
        elif kind == "cut":
            data = data[:at]
        else:
            data = data + data[at:]
    return data


def check(name: str, folder: Path, data: bytes | None = None) -> str:
    """Read a file; returns the error, which names the file."""
    file_name, make, read = READERS[name]
    folder.mkdir(exist_ok=True)
    path = folder / file_name
    path.write_bytes(make() if data is None else data)
    try:
        read(path)
        return ""
    except LemmataError as error:
        sentence = str(error)
    assert "\n" not in sentence
    assert file_name in sentence
    return sentence


@pytest.mark.parametrize("name", READERS)
def test_the_unchanged_file_is_read(name: str, tmp_path: Path) -> None:
    assert check(name, tmp_path) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    data = READERS[name][1]()

    @given(EDITS)
    def damage(edits: list[Edit]) -> None:
        check(name, tmp_path / "damaged", edited(data, edits))

    damage()


@pytest.mark.parametrize("name", ["BEIR queries", "BEIR corpus", "imported queries"])
def test_a_line_of_many_brackets_is_refused_with_its_number(name: str, tmp_path: Path) -> None:
    assert f"{READERS[name][0]}:2: " in check(name, tmp_path, READERS[name][1]() + b"[" * 100_000)


def test_a_query_that_no_file_can_hold_is_refused_with_its_line(tmp_path: Path) -> None:
    error = check("BEIR queries", tmp_path, b'{"_id": "q", "text": "\\ud800"}')
    assert "queries.jsonl:1: has half a surrogate pair" in error


def test_a_parquet_file_with_a_damaged_page_is_refused_in_one_line(tmp_path: Path) -> None:
    data = READERS["ingested Parquet"][1]()
    check("ingested Parquet", tmp_path, data[:4] + b"\xff" * 30 + data[34:])
