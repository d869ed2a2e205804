from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import networkx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.make import to_lines

from lemmata.core.errors import InputError
from lemmata.core.types import Concept, Edge
from lemmata.graph.formats.any_format import READERS, WRITERS, read_graph, write_graph
from lemmata.graph.formats.shared import GraphRecords

# the file or folder that each test of all formats writes
TARGETS = {
    "graphml": "graph.graphml",
    "graphml.gz": "graph.graphml.gz",
    "jsonl": "graph.jsonl",
    "jsonl.gz": "graph.jsonl.gz",
    "ogb": "ogb",
}
all_formats = pytest.mark.parametrize("name", TARGETS)

HARD = GraphRecords(
    concepts=[
        Concept(
            "concept:b",
            'Bailey\'s "lemma"',
            "theorem",
            "$\\sum_{n}\t\\frac{a}{b}$\r\nand <b>&amp;</b> ]]>",
            ("", "β|;,"),
        ),
        Concept("concept:a", "", "", "", ()),
    ],
    kinds={"p#1": "passage", "concept:a": "", "concept:b": "concept", "alone\n": "_x0041\x01_x0041_", "\\N": "a/../b"},
    edges=[
        Edge("concept:b", "uses", "concept:a", "p#1", "rule \\n 1", 0.1),
        Edge("p#1", "mentions", "concept:b"),
        Edge("p#1", "mentions", "concept:b", weight=-1e-300),
        Edge("\\N", "", "\\N", "\u2028\x85\x0b\x0c\x00", "\ufeff\ufffe"),
    ],
    papers={"concept:b": ["2101.00001", "math/9301001"], "concept:a": []},
)

texts = st.one_of(
    st.text(max_size=6), st.sampled_from(["", "\\t", '"', "a,b", "_x0041_", "\r\n", "[", "ø\x00", "%", "=0"])
)
ids = st.one_of(st.text(min_size=1, max_size=4), st.sampled_from(["a", "A", "id", "concept:q", "\\", "\t", "source"]))


@st.composite
def graphs(draw: st.DrawFn) -> GraphRecords:
    kinds = draw(st.dictionaries(ids, texts, max_size=6))
    nodes = sorted(kinds)
    if not nodes:
        return GraphRecords([], {}, [], {})
    node = st.sampled_from(nodes)
    chosen = draw(st.lists(node, unique=True))
    lists = st.lists(texts, max_size=3)
    concepts = [Concept(node_id, draw(texts), draw(texts), draw(texts), tuple(draw(lists))) for node_id in chosen]
    weights = st.floats(allow_nan=False, allow_infinity=False)
    edges = draw(st.lists(st.builds(Edge, node, texts, node, texts, texts, weights), max_size=6))
    return GraphRecords(concepts, kinds, edges, {node_id: draw(lists) for node_id in chosen if draw(st.booleans())})


def ordered(records: GraphRecords) -> GraphRecords:
    """OGB keeps order only inside a kind."""
    by_id = sorted(records.concepts, key=lambda concept: concept.id)
    return records._replace(concepts=by_id, edges=sorted(records.edges))


# ---------------------------------------------------------------- every format


def test_every_format_is_tested() -> None:
    assert {name.removesuffix(".gz") for name in TARGETS} == set(WRITERS)
    assert set(DAMAGED) == set(READERS)


@pytest.mark.slow
@all_formats
def test_what_is_written_is_read_back(name: str) -> None:
    @settings(max_examples=20)
    @given(graphs())
    @example(HARD)
    @example(GraphRecords([], {}, [], {}))
    def check(records: GraphRecords) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / TARGETS[name]
            write_graph(path, records, name.removesuffix(".gz"))
            copy, skips = read_graph(path)
            assert skips == []
            assert (ordered(copy) == ordered(records)) if name == "ogb" else (copy == records)

    check()


@all_formats
def test_a_format_is_recognised_by_its_content_or_by_the_name_of_the_target(name: str, tmp_path: Path) -> None:
    path = tmp_path / TARGETS[name]
    write_graph(path, HARD, name.removesuffix(".gz"))
    if path.is_file():
        write_graph(tmp_path / "by_ending" / path.name, HARD)
        assert (tmp_path / "by_ending" / path.name).read_bytes() == path.read_bytes()
        path.rename(tmp_path / "anything")
        assert read_graph(tmp_path / "anything")[0].edges == HARD.edges


@all_formats
def test_the_same_graph_gives_the_same_bytes_and_no_other_files(name: str, tmp_path: Path) -> None:
    contents = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        write_graph(folder / TARGETS[name], HARD, name.removesuffix(".gz"))
        files = [path for path in folder.rglob("*") if path.is_file()]
        contents.append({path.relative_to(folder): path.read_bytes() for path in files})
        assert not [path for path in files if path.name.startswith(".")]
    assert contents[0] == contents[1]


@all_formats
def test_a_cell_may_be_longer_than_tables_usually_allow(name: str, tmp_path: Path) -> None:
    papers = [f"2101.{number:05}" for number in range(20_000)]
    records = GraphRecords([Concept("c", "hub")], {"c": "concept"}, [], {"c": papers})
    write_graph(tmp_path / TARGETS[name], records, name.removesuffix(".gz"))
    assert read_graph(tmp_path / TARGETS[name])[0] == records


@pytest.mark.slow
@all_formats
def test_damage_gives_sound_records_or_an_input_error(name: str) -> None:
    @settings(max_examples=20)
    @given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 20), st.binary(max_size=5))
    def check(which: int, where: int, removed: int, inserted: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / TARGETS[name]
            write_graph(path, HARD, name.removesuffix(".gz"))
            files = sorted(file for file in Path(folder).rglob("*") if file.is_file())
            victim = files[which % len(files)]
            whole = victim.read_bytes()
            start = where % (len(whole) + 1)
            victim.write_bytes(whole[:start] + inserted + whole[start + removed :])
            try:
                records, _ = read_graph(path, strict=False)
            except InputError:
                return
            again = Path(folder) / "again" / TARGETS[name]
            write_graph(again, records, name.removesuffix(".gz"))  # refuses inconsistent records
            assert read_graph(again)[0] == records

    check()


@pytest.mark.parametrize("name", ["graphml.gz", "jsonl.gz"])
def test_a_truncated_file_is_read_up_to_the_damage(name: str, tmp_path: Path) -> None:
    path = tmp_path / TARGETS[name]
    edges = [Edge(f"n{number}", f"{number * 7919 % 1009}", "n0") for number in range(3000)]
    write_graph(path, GraphRecords([], {f"n{number}": "" for number in range(3000)}, edges, {}))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(InputError, match=path.name) as caught:
        read_graph(path)
    assert caught.value.line > 1
    records, skips = read_graph(path, strict=False)
    assert 0 < len(records.edges) < 3000
    assert records.edges == edges[: len(records.edges)]
    assert "damaged" in skips[0].cause


# what each format skips: the files, the nodes and edges that are left, and file, line and cause of every skip
DAMAGED: dict[str, tuple[dict[str, bytes], list[str], list[Edge], list[tuple[str, int, str]]]] = {
    "graphml": (
        {
            "": b"""<graphml>
<graph>
<edge source="a" target="ghost"/>
<node id="a"/>
<node id="a"/>
<node/>
<edge source="a" target="b"><data key="weight">heavy</data></edge>
<edge source="a" target="b"><data key="weight">inf</data></edge>
<edge source="a"/>
<node id="b"/>
<edge source="b" target="a"/>
<hyperedge/>
</graph></graphml>"""
        },
        ["a", "b"],
        [Edge("b", "related_to", "a")],
        [
            ("", 3, "the edge from 'a' to 'ghost': there is no node 'ghost'"),
            ("", 5, "the node 'a' is defined twice"),
            ("", 6, "a node without an id"),
            ("", 7, "the edge from 'a' to 'b': the weight 'heavy' is not a number"),
            ("", 8, "the edge from 'a' to 'b': the weight 'inf' is not a number"),
            ("", 9, "an edge without a target"),
            ("", 12, "an edge between more than two nodes"),
        ],
    ),
    "jsonl": (
        {
            "": b"""{"type": "relationship", "start": {"id": "a"}, "end": {"id": "ghost"}, "label": "uses"}
{"id": "a"}
{"type": "node", "id": "a"}

{"name": "b"}
{"source": "a", "target": "a", "weight": "x"}
{"type": "relationship", "start": {"id": "a"}}
{"source": "a", "target": ["a"]}
{"id": "\\ud800"}
{"id": "\xff"}
{"id": "b", "properties": 1}
[1]
{"id": "b"
{"source": "a", "target": "a", "relation": "uses"}
"""
        },
        ["a"],
        [Edge("a", "uses", "a")],
        [
            ("", 1, "the edge from 'a' to 'ghost': there is no node 'ghost'"),
            ("", 3, "the node 'a' is defined twice"),
            ("", 5, "a node without an id"),
            ("", 6, "the edge from 'a' to 'a': the weight 'x' is not a number"),
            ("", 7, "an edge without a target"),
            ("", 8, '["a"] is not a text'),
            ("", 9, '"\\ud800" is not a text'),
            ("", 10, '"\\udcff" is not a text'),
            ("", 11, "the line is not the object of a node or an edge"),
            ("", 12, "the line is not the object of a node or an edge"),
            ("", 13, "not JSON"),
        ],
    ),
    "json": (
        {
            "": b'{"concepts": [{"name": "a"}, {"name": "a"}, {"type": "object"}, 7, {"name": ["x"]},'
            b' {"name": "\\ud800"}], "edges": [{"source": "a", "target": "ghost"}, {"source": "a"},'
            b' {"source": "a", "target": "a", "weight": "x"}, {"source": "a", "target": "a", "weight": NaN},'
            b' ["a", "a"], {"source": "a", "target": "a", "target": "a"}]}'
        },
        ["concept:a"],
        [Edge("concept:a", "related_to", "concept:a")],
        [
            ("", 0, "the key 'target' occurs twice in an object; the last one counts"),
            ("", 0, "concepts[1]: the concept 'a' is defined twice"),
            ("", 0, "concepts[2]: a concept without a name"),
            ("", 0, "concepts[3]: a concept without a name"),
            ("", 0, 'concepts[4]: ["x"] is not a text'),
            ("", 0, 'concepts[5]: "\\ud800" is not a text'),
            ("", 0, "edges[0]: there is no node 'ghost'"),
            ("", 0, "edges[1]: an edge needs a source and a target"),
            ("", 0, "edges[2]: the edge from 'concept:a' to 'concept:a': the weight 'x' is not a number"),
            ("", 0, "edges[3]: the edge from 'concept:a' to 'concept:a': the weight 'nan' is not a number"),
            ("", 0, "edges[4]: an edge needs a source and a target"),
        ],
    ),
    "ogb": (
        {
            "raw/edge.csv": b"0,1\n2,3\n0\n-1,0\nx,0\n",
            "raw/num-node-list.csv": b"3\n",
            "raw/num-edge-list.csv": b"9\n",
            "mapping/nodeidx2paperid.csv": b"node idx,paper id\n0,a\n0,b\n7,c\n1,a\n2\n",
        },
        ["a", "paper:1", "paper:2"],
        [Edge("a", "cites", "paper:1")],
        [
            ("nodeidx2paperid.csv", 3, "'0' is not the number of one of 3 nodes, or occurs twice"),
            ("nodeidx2paperid.csv", 4, "'7' is not the number of one of 3 nodes, or occurs twice"),
            ("nodeidx2paperid.csv", 5, "the node 'a' is defined twice"),
            ("nodeidx2paperid.csv", 6, "the row has 1 cells, the header 2"),
            ("edge.csv", 2, "'2,3' are not the numbers of two nodes"),
            ("edge.csv", 3, "'0' are not the numbers of two nodes"),
            ("edge.csv", 4, "'-1,0' are not the numbers of two nodes"),
            ("edge.csv", 5, "'x,0' are not the numbers of two nodes"),
            ("edge.csv", 0, "5 edges, but num-edge-list says 9"),
        ],
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_lenient_read_records_every_bad_entry_and_a_strict_read_names_the_first(name: str, tmp_path: Path) -> None:
    files, nodes, edges, expected = DAMAGED[name]
    target = TARGETS.get(name, "graph.json")
    for file, content in files.items():
        path = tmp_path / target / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    records, skips = read_graph(tmp_path / target, strict=False)
    assert list(records.kinds) == nodes
    assert records.edges == edges
    causes = [(file or target, line, cause) for file, line, cause in expected]
    assert [(Path(skip.file).name, skip.line) for skip in skips] == [cause[:2] for cause in causes]
    assert all(skip.cause.startswith(cause) for skip, (_, _, cause) in zip(skips, causes, strict=True))
    with pytest.raises(InputError) as caught:
        read_graph(tmp_path / target)
    place = f"{skips[0].file}:{skips[0].line}" if skips[0].line else skips[0].file
    assert str(caught.value).startswith(f"{place}: {len(skips)} entries cannot be used: {skips[0].cause}; ")
    assert str(caught.value).endswith(f"{skips[2].cause}; and {len(skips) - 3} more")


@all_formats
def test_half_a_surrogate_pair_is_not_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="surrogate"):
        write_graph(tmp_path / TARGETS[name], GraphRecords([], {"a": "\ud800"}, [], {}), name.removesuffix(".gz"))


@pytest.mark.parametrize(
    ("files", "path", "cause"),
    [
        ({}, "no.json", r"no\.json"),
        ({"a.pdf": "%PDF-1.7"}, "a.pdf", r"a\.pdf"),
        ({"a": ""}, "a", "a: "),
        ({"a.csv": "source,target\n"}, ".", "raw"),
        ({"a.gz": "\x1f\x8b\x08\0"}, "a.gz", r"a\.gz"),
    ],
    ids=range(5),
)
def test_what_is_not_a_graph_is_refused(files: dict[str, str], path: str, cause: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=cause):
        read_graph(tmp_path / path)


def test_an_unknown_format_is_refused_with_the_list_of_formats(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'rdf'.* auto, graphml, jsonl or ogb"):
        write_graph(tmp_path / "g.jsonl", HARD, "rdf")
    with pytest.raises(InputError, match=r"\bg: "):
        write_graph(tmp_path / "g", HARD)
    with pytest.raises(InputError, match="jsonl"):
        write_graph(tmp_path, HARD, "jsonl")
    assert list(tmp_path.iterdir()) == []


def folder_of(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return root


# ---------------------------------------------------------------- GraphML


def graphml(path: Path, body: str) -> Path:
    path.write_text(f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{body}</graphml>', encoding="utf-8")
    return path


simple = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=5).filter(
    lambda text: text == text.strip() and "_x" not in text
)


@given(st.lists(st.tuples(simple, simple, simple), unique_by=lambda triple: triple[:2], max_size=6))
def test_networkx_reads_what_we_write(triples: list[tuple[str, str, str]]) -> None:
    edges = [Edge(source, relation, target, weight=0.5) for source, target, relation in triples]
    kinds = {end: "concept" for edge in edges for end in (edge.source, edge.target)}
    records = GraphRecords([Concept(node, f"The {node}") for node in kinds], kinds, edges, {})
    with tempfile.TemporaryDirectory() as folder:
        path, again = Path(folder) / "graph.graphml", Path(folder) / "again.graphml"
        write_graph(path, records)
        oracle = networkx.read_graphml(path)
        assert oracle.is_directed()
        assert dict(oracle.nodes(data="label")) == {node: f"The {node}" for node in kinds}
        data = {(source, target): data for source, target, data in oracle.edges(data=True)}
        assert data == {(edge.source, edge.target): {"relation": edge.relation, "weight": 0.5} for edge in edges}
        networkx.write_graphml(oracle, again)
        assert ordered(read_graph(again)[0]) == ordered(records)


def test_a_graph_written_by_networkx_is_read(tmp_path: Path) -> None:
    graph = networkx.DiGraph()
    graph.add_node(1, name="Bailey pair", type="Definition", source="somewhere")
    graph.add_node("x")
    graph.add_edge(1, "x", type="uses", weight=3, id="e1")
    graph.add_edge("x", 1)
    networkx.write_graphml(graph, tmp_path / "graph.graphml")
    records, _ = read_graph(tmp_path / "graph.graphml")
    assert records.concepts == [Concept("1", "Bailey pair", "definition")]
    assert records.kinds == {"1": "concept", "x": "unknown"}
    assert records.edges == [Edge("1", "uses", "x", weight=3.0), Edge("x", "related_to", "1")]


def test_a_graph_written_by_gephi_is_read(tmp_path: Path) -> None:
    path = graphml(
        tmp_path / "gephi.graphml",
        """
<key attr.name="label" attr.type="string" for="node" id="label"/>
<key attr.name="Edge Label" attr.type="string" for="edge" id="edgelabel"/>
<key attr.name="weight" attr.type="double" for="edge" id="weight"><default>2.0</default></key>
<key attr.name="r" attr.type="int" for="node" id="r"/>
<graph edgedefault="undirected">
<node id="a"><data key="label">Theta function</data><data key="r">153</data></node>
<node id="b"><data key="label">Modular form</data></node>
<edge id="0" source="a" target="b"><data key="edgelabel">is_instance_of</data><data key="weight">0.5</data></edge>
<edge id="1" source="b" target="a"/>
</graph>""",
    )
    records, _ = read_graph(path)
    assert [concept.name for concept in records.concepts] == ["Theta function", "Modular form"]
    assert records.edges == [Edge("a", "is_instance_of", "b", weight=0.5), Edge("b", "related_to", "a", weight=2.0)]


def test_a_drawing_of_yed_is_read(tmp_path: Path) -> None:
    path = graphml(
        tmp_path / "yed.graphml",
        """
<key for="node" id="d6" yfiles.type="nodegraphics"/><key for="edge" id="d9" yfiles.type="edgegraphics"/>
<key attr.name="description" attr.type="string" for="node" id="d5"/>
<graph edgedefault="directed" id="G" xmlns:y="http://www.yworks.com/xml/graphml">
<node id="n0"><data key="d5"/><data key="d6"><y:ShapeNode><y:Geometry height="30.0"/>
 <y:NodeLabel>Pump
  <y:LabelModel><y:SmartNodeLabelModel/></y:LabelModel></y:NodeLabel></y:ShapeNode></data></node>
<node id="n1" yfiles.foldertype="group"><data key="d6"><y:NodeLabel>Hall</y:NodeLabel></data>
 <graph id="n1:"><node id="n1::n0"/></graph></node>
<edge id="e0" source="n0" target="n1::n0"><data key="d9"><y:PolyLineEdge><y:EdgeLabel>part_of</y:EdgeLabel>
</y:PolyLineEdge></data></edge></graph>""",
    )
    records, _ = read_graph(path)
    assert {concept.id: concept.name for concept in records.concepts} == {"n0": "Pump", "n1": "Hall"}
    assert records.kinds["n1::n0"] == "unknown"
    assert records.edges == [Edge("n0", "part_of", "n1::n0")]


def test_graphml_in_utf16_is_recognised_and_has_no_escapes_of_ours(tmp_path: Path) -> None:
    nodes = '<node id="ü"/><node id="_x0041_"/>'
    text = f'<?xml version="1.0" encoding="UTF-16"?><graphml><graph>{nodes}</graph></graphml>'
    (tmp_path / "g").write_text(text, encoding="utf-16")
    assert list(read_graph(tmp_path / "g")[0].kinds) == ["ü", "_x0041_"]


@pytest.mark.parametrize(
    "declaration",
    ['<!DOCTYPE graphml [<!ENTITY a "aaaa">]>', '<!DOCTYPE graphml SYSTEM "file:///etc/passwd">', "<!DOCTYPE graphml>"],
)
def test_a_document_type_is_refused(declaration: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.graphml"
    path.write_text(f'<?xml version="1.0"?>\n{declaration}\n<graphml><graph><node id="&a;"/></graph></graphml>')
    with pytest.raises(InputError, match="DOCTYPE") as caught:
        read_graph(path, strict=False)
    assert caught.value.line == 2


def test_malformed_xml_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "g.graphml"
    path.write_text('<graphml><graph>\n<node id="a"/>\n<node id="b">\n</graph></graphml>')
    with pytest.raises(InputError, match=r"g.graphml:4"):
        read_graph(path)
    assert read_graph(path, strict=False)[0].kinds == {"a": "unknown"}
    path.write_text("<svg/>")
    with pytest.raises(InputError, match="<svg>"):
        read_graph(path, strict=False)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=path.name):
        read_graph(path)


# ---------------------------------------------------------------- JSON lines


def test_what_neo4j_exports_is_read(tmp_path: Path) -> None:
    film, person = {"id": "0", "labels": ["Movie", "Film"]}, {"id": "1", "labels": ["Person"]}
    entries: list[dict[str, Any]] = [
        {"type": "node", **film, "properties": {"title": "The Matrix", "released": 1999}},
        {"type": "node", **person, "properties": {"name": "Keanu Reeves", "source": "a list", "target": "none"}},
        {"type": "node", "id": "2", "labels": ["Studio"]},
        {"id": "7", "type": "relationship", "label": "ACTED_IN", "start": person, "end": film}
        | {"properties": {"roles": ["Neo"], "source": "a list", "type": "film"}},
    ]
    (tmp_path / "all.json").write_text(to_lines(entries))
    records, skips = read_graph(tmp_path / "all.json")
    assert records.concepts == [Concept("0", "The Matrix", "Movie;Film"), Concept("1", "Keanu Reeves", "person")]
    assert records.kinds == {"0": "concept", "1": "concept", "2": "Studio"}
    assert records.edges == [Edge("1", "ACTED_IN", "0")]
    assert skips == []


def test_lines_are_what_neo4j_imports(tmp_path: Path) -> None:
    concept = Concept("concept:b", "Bailey pair", "definition", "A pair.", ("pair",))
    kinds = {"p#1": "passage", "concept:b": "concept"}
    write_graph(tmp_path / "g.jsonl", GraphRecords([concept], kinds, [Edge("p#1", "mentions", "concept:b")], {}))
    node, other, edge = map(json.loads, (tmp_path / "g.jsonl").read_text().splitlines())
    assert (node["type"], node["id"], node["labels"]) == ("node", "concept:b", ["concept"])
    assert node["properties"]["aliases"] == ["pair"]
    assert other == {"type": "node", "id": "p#1", "labels": ["passage"], "properties": {}}
    assert (edge["type"], edge["label"]) == ("relationship", "mentions")
    assert edge["start"] == {"id": "p#1", "labels": ["passage"]}
    assert edge["end"] == {"id": "concept:b", "labels": ["concept"]}


def test_a_list_of_edges_without_nodes_makes_nodes_of_their_ends(tmp_path: Path) -> None:
    edges: list[dict[str, Any]] = [
        {"source": "a", "target": "b"},
        {"source": 7, "relation": "uses", "target": "a", "weight": 2},
    ]
    (tmp_path / "edges.jsonl").write_text(to_lines(edges))
    records, _ = read_graph(tmp_path / "edges.jsonl")
    assert records.edges == [Edge("a", "related_to", "b"), Edge("7", "uses", "a", weight=2.0)]
    assert records.kinds == dict.fromkeys(["a", "b", "7"], "unknown")


# ---------------------------------------------------------------- JSON


def as_json(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data))
    return path


def test_the_shape_of_math_embed_is_read(tmp_path: Path) -> None:
    data = {
        "concepts": [
            {"name": "bailey_pair", "display_name": "Bailey pair", "type": "definition", "papers": ["2101.00001"]},
            {"name": "$q$-series", "type": "object", "description": "sums", "papers": []},
            {"name": "q series"},
        ],
        "edges": [
            {"source": "bailey_pair", "target": "Q-Series", "relation": "uses"},
            {"source": "q series", "target": "concept:bailey-pair", "type": "related_to", "weight": 2},
            ["Bailey Pair", "implies", "$q$-series"],
        ],
    }
    records, _ = read_graph(as_json(tmp_path / "g.json", data))
    assert records.concepts == [
        Concept("concept:bailey-pair", "Bailey pair", "definition"),
        Concept("concept:q-series", "$q$-series", "object", "sums"),
        Concept("concept:q-series-2", "q series"),
    ]
    assert records.papers == {"concept:bailey-pair": ["2101.00001"], "concept:q-series": []}
    assert records.edges == [
        Edge("concept:bailey-pair", "uses", "concept:q-series"),
        Edge("concept:q-series-2", "related_to", "concept:bailey-pair", weight=2.0),
        Edge("concept:bailey-pair", "implies", "concept:q-series"),
    ]


def test_concepts_may_be_keyed_by_name(tmp_path: Path) -> None:
    data = {"concepts": {"Theta": {"type": "object"}, "Eta": "A function."}, "links": [{"from": "Theta", "to": "Eta"}]}
    records, _ = read_graph(as_json(tmp_path / "g.json", data))
    assert records.concepts == [
        Concept("concept:theta", "Theta"),
        Concept("concept:eta", "Eta", description="A function."),
    ]
    assert records.edges == [Edge("concept:theta", "related_to", "concept:eta")]


def test_the_node_link_shape_of_networkx_is_read(tmp_path: Path) -> None:
    data = networkx.node_link_data(networkx.DiGraph([("a", "b", {"relation": "uses"})]))
    records, _ = read_graph(as_json(tmp_path / "g.json", data))
    assert records.concepts == [Concept("a", "a"), Concept("b", "b")]
    assert records.edges == [Edge("a", "uses", "b")]


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b'{"concepts": [\n}', r"g\.json:2"),
        (b"[" * 100_000, r"g\.json"),
        (b'{"a": "\xff"}', r"g\.json"),
        (b"[1]", r"g\.json"),
        (b"{}", r"g\.json"),
        (gzip.compress(b'{"concepts": []}', mtime=0)[:-9], r"g\.json"),
    ],
)
def test_json_that_is_not_a_graph_is_refused(content: bytes, cause: str, tmp_path: Path) -> None:
    (tmp_path / "g.json").write_bytes(content)
    with pytest.raises(InputError, match=cause):
        read_graph(tmp_path / "g.json", strict=False)


# ---------------------------------------------------------------- OGB


ARXIV = {
    "raw/edge.csv.gz": "0,1\n2,0\n",
    "raw/num-node-list.csv.gz": "3\n",
    "raw/num-edge-list.csv.gz": "2\n",
    "mapping/nodeidx2paperid.csv.gz": "node idx,paper id\n0,9657784\n1,39886162\n2,116214155\n",
}


def test_a_citation_graph_of_ogb_is_read(tmp_path: Path) -> None:
    records, _ = read_graph(folder_of(tmp_path, ARXIV))
    assert records.kinds == dict.fromkeys(["9657784", "39886162", "116214155"], "paper")
    assert records.edges == [Edge("9657784", "cites", "39886162"), Edge("116214155", "cites", "9657784")]


def test_a_graph_of_ogb_needs_no_mapping(tmp_path: Path) -> None:
    files = {"raw/edge.csv": "0,1\n", "raw/num-node-list.csv": "2\n", "raw/edge_weight.csv": "0.5\n"}
    records, _ = read_graph(folder_of(tmp_path, files))
    assert records.edges == [Edge("unknown:0", "related_to", "unknown:1", weight=0.5)]


def test_relations_by_number_get_their_names(tmp_path: Path) -> None:
    files = {
        "raw/edge.csv": "0,1\n1,0\n",
        "raw/edge_reltype.csv": "1\n0\n",
        "raw/num-node-list.csv": "2\n",
        "mapping/nodeidx2entityid.csv": "node idx,entity id\n0,Q31\n1,Q8\n",
        "mapping/reltype2relid.csv": "reltype,rel id\n0,P17\n1,P36\n",
    }
    records, _ = read_graph(folder_of(tmp_path, files))
    assert records.edges == [Edge("Q31", "P36", "Q8"), Edge("Q8", "P17", "Q31")]
    assert records.kinds == {"Q31": "entity", "Q8": "entity"}


def test_a_heterogeneous_graph_of_ogb_is_read(tmp_path: Path) -> None:
    files = {
        "raw/triplet-type-list.csv.gz": "author,writes,paper\npaper,cites,paper\n",
        "raw/num-node-dict.csv.gz": "author,paper\n1,2\n",
        "raw/relations/author___writes___paper/edge.csv.gz": "0,1\n",
        "raw/relations/author___writes___paper/edge_reltype.csv.gz": "2\n",
        "raw/relations/author___writes___paper/num-edge-list.csv.gz": "1\n",
        "raw/relations/paper___cites___paper/edge.csv.gz": "1,0\n",
        "mapping/author_entidx2name.csv.gz": "ent idx,ent name\n0,7\n",
        "mapping/paper_entidx2name.csv.gz": "ent idx,ent name\n0,7\n1,8\n",
    }
    records, _ = read_graph(folder_of(tmp_path, files))
    assert records.kinds == {"7": "author", "paper:7": "paper", "8": "paper"}
    assert records.edges == [Edge("7", "writes", "8"), Edge("8", "cites", "paper:7")]


def test_our_folders_have_the_names_that_ogb_expects(tmp_path: Path) -> None:
    kinds = {"a": "author", "p": "field of study"}
    write_graph(tmp_path, GraphRecords([], kinds, [Edge("a", "works_on", "p")], {}), "ogb")
    edge = tmp_path / "raw" / "relations" / "author___works_on___field of study" / "edge.csv.gz"
    assert gzip.decompress(edge.read_bytes()).split() == [b"0,0"]


def test_kinds_and_relations_cannot_write_outside_the_folder(tmp_path: Path) -> None:
    kinds = {"a": "../../x", "b": "A", "c": "a", "d": "ü" * 300}
    edges = [Edge(source, "/r", target) for source in kinds for target in kinds]
    write_graph(tmp_path / "inside" / "ogb", GraphRecords([], kinds, edges, {}), "ogb")
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert [path.name for path in (tmp_path / "inside").iterdir()] == ["ogb"]
    assert read_graph(tmp_path / "inside" / "ogb")[0].kinds == kinds


def test_several_graphs_and_odd_numbers_are_refused(tmp_path: Path) -> None:
    folder_of(tmp_path, ARXIV | {"raw/num-node-list.csv.gz": "3\n4\n"})
    with pytest.raises(InputError, match="num-node-list"):
        read_graph(tmp_path, strict=False)
    folder_of(tmp_path, {"raw/num-node-list.csv.gz": "three\n"})
    with pytest.raises(InputError, match="'three'"):
        read_graph(tmp_path, strict=False)


@pytest.mark.parametrize("name", ["graph.jsonl.gz", "graph.json.gz", "graph.graphml.gz"])
def test_a_small_file_that_unpacks_to_much_is_refused(tmp_path: Path, name: str) -> None:
    contents = {
        "graph.jsonl.gz": (b" " * 9_999 + b"\n") * 4_000,
        "graph.json.gz": b'{"edges": [], "concepts": ["' + b"a" * 40_000_000 + b'"]}',
        "graph.graphml.gz": b"<graphml><graph>" + (b"<!--" + b" " * 9_993 + b"-->") * 4_000,
    }
    path = tmp_path / name
    path.write_bytes(gzip.compress(contents[name], 1))
    with pytest.raises(InputError, match="100 to 1") as caught:
        read_graph(path)
    assert caught.value.file == str(path)
