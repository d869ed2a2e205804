from __future__ import annotations

import gzip
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import networkx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lemmata.errors import InputError
from lemmata.graph.formats.any_format import read_graph, write_graph
from lemmata.graph.formats.graphml import read_graphml, write_graphml
from lemmata.graph.formats.json_file import read_json, write_json
from lemmata.graph.formats.neo4j import read_neo4j, write_neo4j
from lemmata.graph.formats.ogb import read_ogb, write_ogb
from lemmata.graph.formats.shared import GraphRecords
from lemmata.graph.formats.triples import read_triples, write_triples
from lemmata.types import Concept, Edge, Skip

Result = tuple[GraphRecords, list[Skip]]


def read_neo4j_folder(folder: Path, *, strict: bool = True) -> Result:
    return read_neo4j([folder / "nodes.csv"], [folder / "edges.csv"], strict=strict)


FORMATS: dict[str, tuple[str, Callable[[Path, GraphRecords], None], Callable[[Path], Result]]] = {
    "graphml": ("graph.graphml", write_graphml, read_graphml),
    "graphml.gz": ("graph.graphml.gz", write_graphml, read_graphml),
    "triples": ("graph.tsv", write_triples, read_triples),
    "triples.gz": ("graph.tsv.gz", write_triples, read_triples),
    "neo4j": ("tables", write_neo4j, read_neo4j_folder),
    "json": ("graph.json", write_json, read_json),
    "ogb": ("ogb", write_ogb, read_ogb),
}

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
    concepts = [Concept(one, draw(texts), draw(texts), draw(texts), tuple(draw(lists))) for one in chosen]
    weights = st.floats(allow_nan=False, allow_infinity=False)
    edges = draw(st.lists(st.builds(Edge, node, texts, node, texts, texts, weights), max_size=6))
    return GraphRecords(concepts, kinds, edges, {one: draw(lists) for one in chosen if draw(st.booleans())})


def ordered(records: GraphRecords) -> GraphRecords:
    """OGB keeps order only inside a kind."""
    by_id = sorted(records.concepts, key=lambda concept: concept.id)
    return records._replace(concepts=by_id, edges=sorted(records.edges))


def same(one: GraphRecords, other: GraphRecords, name: str) -> bool:
    return ordered(one) == ordered(other) if name == "ogb" else one == other


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_read_back(name: str) -> None:
    file, write, read = FORMATS[name]

    @settings(max_examples=40, deadline=None)
    @given(graphs())
    @example(HARD)
    @example(GraphRecords([], {}, [], {}))
    def check(records: GraphRecords) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file
            write(path, records)
            found, skips = read(path)
            assert skips == []
            assert same(found, records, name)

    check()


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_graph_gives_the_same_bytes_and_nothing_else(name: str, tmp_path: Path) -> None:
    file, write, _ = FORMATS[name]
    for folder in ("one", "two"):
        write(tmp_path / folder / file, HARD)
    one, two = (
        {
            path.relative_to(tmp_path / folder): path.read_bytes()
            for path in (tmp_path / folder).rglob("*")
            if path.is_file()
        }
        for folder in ("one", "two")
    )
    assert one == two
    assert not [path for path in one if path.name.startswith(".")]


@pytest.mark.parametrize("name", FORMATS)
def test_a_cell_may_be_longer_than_tables_usually_allow(name: str, tmp_path: Path) -> None:
    file, write, read = FORMATS[name]
    papers = [f"2101.{number:05}" for number in range(20_000)]
    records = GraphRecords([Concept("c", "hub")], {"c": "concept"}, [], {"c": papers})
    write(tmp_path / file, records)
    assert read(tmp_path / file)[0] == records


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_not_there_is_told(name: str, tmp_path: Path) -> None:
    file, _, read = FORMATS[name]
    with pytest.raises(InputError, match=r"can not be opened|there is no such file"):
        read(tmp_path / file)


@pytest.mark.parametrize(
    ("records", "cause"),
    [
        (GraphRecords([Concept("c", "C")], {}, [], {}), "the concept 'c' is no node"),
        (GraphRecords([Concept("c", "C"), Concept("c", "D")], {"c": ""}, [], {}), "'c' is there 2 times"),
        (GraphRecords([], {"a": ""}, [Edge("a", "r", "b")], {}), "from 'a' to 'b': not both are nodes"),
        (GraphRecords([], {"a": ""}, [Edge("a", "r", "a", weight=math.nan)], {}), "the weight nan is no number"),
        (GraphRecords([], {"": ""}, [], {}), "a node without an id"),
        (GraphRecords([], {"a": ""}, [], {"a": ["p"]}), "papers of 'a', which is no concept"),
        (GraphRecords([], {"a": "\ud800"}, [], {}), "half a surrogate pair"),
    ],
)
@pytest.mark.parametrize("name", FORMATS)
def test_what_could_not_be_read_back_is_not_written(
    name: str, records: GraphRecords, cause: str, tmp_path: Path
) -> None:
    file, write, _ = FORMATS[name]
    with pytest.raises(InputError, match=cause):
        write(tmp_path / file, records)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FORMATS)
def test_damage_gives_good_records_or_an_input_error(name: str) -> None:
    file, write, _ = FORMATS[name]
    readers: dict[str, Callable[..., Result]] = {
        "graphml": read_graphml,
        "triples": read_triples,
        "neo4j": read_neo4j_folder,
        "json": read_json,
        "ogb": read_ogb,
    }

    @settings(max_examples=100, deadline=None)
    @given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 20), st.binary(max_size=5))
    def check(which: int, where: int, gone: int, new: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file
            write(path, HARD)
            files = sorted(one for one in Path(folder).rglob("*") if one.is_file())
            victim = files[which % len(files)]
            whole = victim.read_bytes()
            start = where % (len(whole) + 1)
            victim.write_bytes(whole[:start] + new + whole[start + gone :])
            try:
                records, _ = readers[name.removesuffix(".gz")](path, strict=False)
            except InputError:
                return
            write(Path(folder) / "again" / file, records)  # refuses what does not hold together

    check()


def test_a_table_whose_header_is_broken_names_its_line(tmp_path: Path) -> None:
    write_neo4j(tmp_path / "graph", HARD)
    nodes = next(path for path in sorted((tmp_path / "graph").iterdir()) if "node" in path.name)
    nodes.write_bytes(nodes.read_bytes().replace(b",", b"\r,", 1))
    with pytest.raises(InputError, match="header is no row of a table") as caught:
        read_neo4j_folder(tmp_path / "graph")
    assert caught.value.line == 1


@pytest.mark.parametrize("name", ["graphml.gz", "triples.gz"])
def test_of_a_truncated_file_the_whole_part_is_read(name: str, tmp_path: Path) -> None:
    file, write, _ = FORMATS[name]
    path = tmp_path / file
    edges = [Edge(f"n{number}", f"{number * 7919 % 1009}", "n0") for number in range(3000)]
    write(path, GraphRecords([], {f"n{number}": "" for number in range(3000)}, edges, {}))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 3 // 4])
    read = read_graphml if name == "graphml.gz" else read_triples
    with pytest.raises(InputError, match=r"damaged from here on") as caught:
        read(path)
    assert caught.value.line > 1
    records, skips = read(path, strict=False)
    assert 0 < len(records.edges) < 3000
    assert records.edges == edges[: len(records.edges)]
    assert "damaged" in skips[0].cause


# ---------------------------------------------------------------- GraphML


def graphml(path: Path, body: str) -> Path:
    path.write_text(f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{body}</graphml>', encoding="utf-8")
    return path


simple = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=5).filter(
    lambda text: text == text.strip() and "_x" not in text
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(simple, simple, simple), unique_by=lambda one: one[:2], max_size=6))
def test_networkx_reads_what_we_write(triples: list[tuple[str, str, str]]) -> None:
    edges = [Edge(source, relation, target, weight=0.5) for source, target, relation in triples]
    kinds = {end: "concept" for edge in edges for end in (edge.source, edge.target)}
    records = GraphRecords([Concept(one, f"The {one}") for one in kinds], kinds, edges, {})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.graphml"
        write_graphml(path, records)
        oracle = networkx.read_graphml(path)
        assert oracle.is_directed()
        assert dict(oracle.nodes(data="label")) == {one: f"The {one}" for one in kinds}
        found = {(source, target): data for source, target, data in oracle.edges(data=True)}
        assert found == {(edge.source, edge.target): {"relation": edge.relation, "weight": 0.5} for edge in edges}
        again = Path(folder) / "again.graphml"
        networkx.write_graphml(oracle, again)
        read, _ = read_graphml(again)
        assert ordered(read) == ordered(records)


def test_a_graph_of_networkx_is_read(tmp_path: Path) -> None:
    graph = networkx.DiGraph()
    graph.add_node(1, name="Bailey pair", type="Definition", source="somewhere")
    graph.add_node("x")
    graph.add_edge(1, "x", type="uses", weight=3, id="e1")
    graph.add_edge("x", 1)
    networkx.write_graphml(graph, tmp_path / "graph.graphml")
    records, _ = read_graphml(tmp_path / "graph.graphml")
    assert records.concepts == [Concept("1", "Bailey pair", "definition")]
    assert records.kinds == {"1": "concept", "x": "unknown"}
    assert records.edges == [Edge("1", "uses", "x", weight=3.0), Edge("x", "related_to", "1")]


def test_a_graph_of_gephi_is_read(tmp_path: Path) -> None:
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
    records, _ = read_graphml(path)
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
    records, _ = read_graphml(path)
    assert {concept.id: concept.name for concept in records.concepts} == {"n0": "Pump", "n1": "Hall"}
    assert records.kinds["n1::n0"] == "unknown"
    assert records.edges == [Edge("n0", "part_of", "n1::n0")]


def test_what_looks_escaped_in_a_foreign_graph_stays(tmp_path: Path) -> None:
    path = graphml(tmp_path / "g.graphml", '<graph><node id="_x0041_"/></graph>')
    assert list(read_graphml(path)[0].kinds) == ["_x0041_"]


BAD_GRAPHML = """
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
</graph>"""


def test_bad_places_of_a_graphml_are_all_told(tmp_path: Path) -> None:
    path = graphml(tmp_path / "bad.graphml", BAD_GRAPHML)
    records, skips = read_graphml(path, strict=False)
    assert records.kinds == {"a": "unknown", "b": "unknown"}
    assert records.edges == [Edge("b", "related_to", "a")]
    assert {skip.line for skip in skips} == {3, 5, 6, 7, 8, 9, 12}
    causes = {skip.line: skip.cause for skip in skips}
    assert causes[3] == "the edge from 'a' to 'ghost': there is no node 'ghost'"
    assert causes[5] == "the node 'a' was there before"
    assert causes[7] == "the edge from 'a' to 'b': the weight 'heavy' is no number"
    with pytest.raises(InputError) as caught:
        read_graphml(path)
    assert str(caught.value).startswith(f"{path}:3: 7 things can not be used: ")
    assert "line 5: the node 'a' was there before" in str(caught.value)
    assert str(caught.value).endswith("and 4 more")


@pytest.mark.parametrize(
    "declaration",
    ['<!DOCTYPE graphml [<!ENTITY a "aaaa">]>', '<!DOCTYPE graphml SYSTEM "file:///etc/passwd">', "<!DOCTYPE graphml>"],
)
def test_a_document_type_is_refused(declaration: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.graphml"
    path.write_text(f'<?xml version="1.0"?>\n{declaration}\n<graphml><graph><node id="&a;"/></graph></graphml>')
    with pytest.raises(InputError, match=r"a document type .* is refused") as caught:
        read_graphml(path, strict=False)
    assert caught.value.line == 2


def test_malformed_xml_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "g.graphml"
    path.write_text('<graphml><graph>\n<node id="a"/>\n<node id="b">\n</graph></graphml>')
    with pytest.raises(InputError, match=r"g.graphml:4: not well-formed XML"):
        read_graphml(path)
    assert read_graphml(path, strict=False)[0].kinds == {"a": "unknown"}
    path.write_text("<svg/>")
    with pytest.raises(InputError, match="not GraphML: the root is <svg>"):
        read_graphml(path, strict=False)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="no element found"):
        read_graphml(path)


# ---------------------------------------------------------------- triples


def test_plain_triples_of_others_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "fb.tsv"
    path.write_bytes(b"\xef\xbb\xbf/m/027rn\t/location/country\t/m/06cx9\r\n\n\\theta\tuses\t\\tau\t0.5\n")
    records, _ = read_triples(path)
    assert records.edges == [
        Edge("/m/027rn", "/location/country", "/m/06cx9"),
        Edge("\\theta", "uses", "\\tau", weight=0.5),
    ]
    assert records.kinds == dict.fromkeys(["/m/027rn", "/m/06cx9", "\\theta", "\\tau"], "unknown")


def test_a_header_of_others_is_no_triple(tmp_path: Path) -> None:
    path = tmp_path / "kg.tsv"
    path.write_text("Head\tRelation\tTail\na\tuses\tb\n")
    assert read_triples(path)[0].edges == [Edge("a", "uses", "b")]


def test_bad_lines_of_triples_are_all_told(tmp_path: Path) -> None:
    path = tmp_path / "kg.tsv"
    path.write_bytes(b"a\tuses\tb\na b c\na\tuses\tc\theavy\n\tuses\tb\na\tuses\t\xff\n" + b"a\t" * 6 + b"\n")
    records, skips = read_triples(path, strict=False)
    assert records.edges == [Edge("a", "uses", "b")]
    assert list(records.kinds) == ["a", "b"]
    assert [(skip.line, skip.cause) for skip in skips] == [
        (2, "the line has 1 cells parted by tabs, not 3 to 6"),
        (3, "the edge from 'a' to 'c': the weight 'heavy' is no number"),
        (4, "an edge without a source"),
        (5, "the line is not UTF-8"),
        (6, "the line has 7 cells parted by tabs, not 3 to 6"),
    ]
    with pytest.raises(InputError, match=r"kg.tsv:2: 5 things can not be used: .*and 2 more"):
        read_triples(path)


def test_triples_of_ours_need_no_nodes_beside_them(tmp_path: Path) -> None:
    write_triples(tmp_path / "graph.tsv", HARD)
    (tmp_path / "graph.nodes.tsv").unlink()
    records, _ = read_triples(tmp_path / "graph.tsv")
    assert records.edges == HARD.edges
    assert set(records.kinds.values()) == {"unknown"}


def test_an_escape_that_stands_for_nothing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "graph.tsv"
    path.write_text("source\trelation\ttarget\tweight\tevidence\tmaker\na\tr\t\\alpha\t1\t\t\na\tr\tb\\\t1\t\t\n")
    _, skips = read_triples(path, strict=False)
    assert [skip.line for skip in skips] == [2, 3]
    assert "stands for nothing" in skips[0].cause


# ---------------------------------------------------------------- Neo4j


def test_tables_of_others_in_several_files_are_read(tmp_path: Path) -> None:
    files = {
        "movies.csv": "movieId:ID(Movie),title,year:int,:LABEL\n1,The Matrix,1999,Movie;Film\n",
        "people-header.csv": ":ID(Person)|name:string|:LABEL\n",
        "people.csv": '1|"Keanu ""K"" Reeves"|Person\n2|Carrie|Person\n',
        "roles.csv": ":START_ID(Person),role,source,:END_ID(Movie),:TYPE\n1,Neo,x,1,ACTED_IN\n2,Trinity,x,1,ACTED_IN\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    nodes = [tmp_path / name for name in list(files)[:3]]
    records, _ = read_neo4j(nodes, [tmp_path / "roles.csv"])
    assert [(one.id, one.name, one.kind) for one in records.concepts] == [
        ("1", "The Matrix", "Movie;Film"),
        ("Person:1", 'Keanu "K" Reeves', "person"),
        ("2", "Carrie", "person"),
    ]
    assert records.edges == [Edge("Person:1", "ACTED_IN", "1"), Edge("2", "ACTED_IN", "1")]


def test_bad_rows_of_tables_are_all_told(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(':ID,:LABEL\na,X\na,X\nb\n,X\n"c"d,X\n')
    (tmp_path / "edges.csv").write_text(":START_ID,:END_ID,:TYPE,weight\na,b,R,1\na,a,R,x\na,a,R,2\n")
    records, skips = read_neo4j_folder(tmp_path, strict=False)
    assert records.kinds == {"a": "X"}
    assert records.edges == [Edge("a", "R", "a", weight=2.0)]
    assert sorted((Path(skip.file).name, skip.line) for skip in skips) == [
        ("edges.csv", 2),
        ("edges.csv", 3),
        ("nodes.csv", 3),
        ("nodes.csv", 4),
        ("nodes.csv", 5),
        ("nodes.csv", 6),
    ]
    with pytest.raises(InputError, match=r"nodes.csv:3: 6 things can not be used"):
        read_neo4j_folder(tmp_path)
    with pytest.raises(InputError, match="the header has no :START_ID and :END_ID"):
        read_neo4j([tmp_path / "nodes.csv"], [tmp_path / "nodes.csv"], strict=False)


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
    records, _ = read_json(as_json(tmp_path / "g.json", data))
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


def test_concepts_may_stand_under_their_names(tmp_path: Path) -> None:
    data = {"concepts": {"Theta": {"type": "object"}, "Eta": "A function."}, "links": [{"from": "Theta", "to": "Eta"}]}
    records, _ = read_json(as_json(tmp_path / "g.json", data))
    assert records.concepts == [
        Concept("concept:theta", "Theta"),
        Concept("concept:eta", "Eta", description="A function."),
    ]
    assert records.edges == [Edge("concept:theta", "related_to", "concept:eta")]


def test_the_node_link_shape_of_networkx_is_read(tmp_path: Path) -> None:
    graph = networkx.DiGraph()
    graph.add_edge("a", "b", relation="uses")
    records, _ = read_json(as_json(tmp_path / "g.json", networkx.node_link_data(graph)))
    assert records.concepts == [Concept("a", "a"), Concept("b", "b")]
    assert records.edges == [Edge("a", "uses", "b")]


def test_bad_entries_of_json_are_all_told(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(
        '{"concepts": [{"name": "a"}, {"name": "a"}, {"type": "object"}, 7, {"name": ["x"]}, {"name": "\\ud800"}],'
        '"edges": [{"source": "a", "target": "ghost"}, {"source": "a"}, {"source": "a", "target": "a", "weight": "x"},'
        '{"source": "a", "target": "a", "weight": NaN}, ["a", "a"], {"source": "a", "target": "a", "target": "a"}]}'
    )
    records, skips = read_json(path, strict=False)
    assert [concept.name for concept in records.concepts] == ["a"]
    assert records.edges == [Edge("concept:a", "related_to", "concept:a")]
    assert [skip.cause.split(":")[0] for skip in skips] == [
        "the key 'target' stands twice in an object; the last one counts",
        *(f"concepts[{number}]" for number in range(1, 6)),
        *(f"edges[{number}]" for number in range(5)),
    ]
    with pytest.raises(InputError, match="11 things can not be used"):
        read_json(path)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b'{"concepts": [\n}', r"g.json:2: not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a": "\xff"}', "not JSON"),
        (b"[1]", "no graph"),
        (b"{}", "no graph"),
        (gzip.compress(b'{"concepts": []}')[:-9], "not JSON: Compressed file ended"),
    ],
)
def test_what_is_no_graph_in_json_is_refused(content: bytes, cause: str, tmp_path: Path) -> None:
    (tmp_path / "g.json").write_bytes(content)
    with pytest.raises(InputError, match=cause):
        read_json(tmp_path / "g.json", strict=False)


# ---------------------------------------------------------------- OGB


def folder_of(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return root


ARXIV = {
    "raw/edge.csv.gz": "0,1\n2,0\n",
    "raw/num-node-list.csv.gz": "3\n",
    "raw/num-edge-list.csv.gz": "2\n",
    "mapping/nodeidx2paperid.csv.gz": "node idx,paper id\n0,9657784\n1,39886162\n2,116214155\n",
}


def test_a_citation_graph_of_ogb_is_read(tmp_path: Path) -> None:
    records, _ = read_ogb(folder_of(tmp_path, ARXIV))
    assert records.kinds == dict.fromkeys(["9657784", "39886162", "116214155"], "paper")
    assert records.edges == [Edge("9657784", "cites", "39886162"), Edge("116214155", "cites", "9657784")]


def test_a_graph_of_ogb_needs_no_mapping(tmp_path: Path) -> None:
    files = {"raw/edge.csv": "0,1\n", "raw/num-node-list.csv": "2\n", "raw/edge_weight.csv": "0.5\n"}
    records, _ = read_ogb(folder_of(tmp_path, files))
    assert records.edges == [Edge("unknown:0", "related_to", "unknown:1", weight=0.5)]


def test_relations_by_number_get_their_names(tmp_path: Path) -> None:
    files = {
        "raw/edge.csv": "0,1\n1,0\n",
        "raw/edge_reltype.csv": "1\n0\n",
        "raw/num-node-list.csv": "2\n",
        "mapping/nodeidx2entityid.csv": "node idx,entity id\n0,Q31\n1,Q8\n",
        "mapping/reltype2relid.csv": "reltype,rel id\n0,P17\n1,P36\n",
    }
    records, _ = read_ogb(folder_of(tmp_path, files))
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
    records, _ = read_ogb(folder_of(tmp_path, files))
    assert records.kinds == {"7": "author", "paper:7": "paper", "8": "paper"}
    assert records.edges == [Edge("7", "writes", "8"), Edge("8", "cites", "paper:7")]


def test_our_folders_have_the_names_that_ogb_looks_for(tmp_path: Path) -> None:
    kinds = {"a": "author", "p": "field of study"}
    write_ogb(tmp_path, GraphRecords([], kinds, [Edge("a", "works_on", "p")], {}))
    edge = tmp_path / "raw" / "relations" / "author___works_on___field of study" / "edge.csv.gz"
    assert gzip.decompress(edge.read_bytes()).split() == [b"0,0"]


def test_kinds_and_relations_never_leave_the_folder(tmp_path: Path) -> None:
    kinds = {"a": "../../x", "b": "A", "c": "a", "d": "ü" * 300}
    edges = [Edge(one, "/r", other) for one in kinds for other in kinds]
    write_ogb(tmp_path / "inside" / "ogb", GraphRecords([], kinds, edges, {}))
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert [path.name for path in (tmp_path / "inside").iterdir()] == ["ogb"]
    assert read_ogb(tmp_path / "inside" / "ogb")[0].kinds == kinds


def test_bad_rows_of_ogb_are_all_told(tmp_path: Path) -> None:
    bad = {
        "raw/edge.csv.gz": "0,1\n2,3\n0\n-1,0\nx,0\n",
        "raw/num-edge-list.csv.gz": "9\n",
        "mapping/nodeidx2paperid.csv.gz": "node idx,paper id\n0,a\n0,b\n7,c\n1,a\n2\n",
    }
    records, skips = read_ogb(folder_of(tmp_path, ARXIV | bad), strict=False)
    assert records.kinds == {"a": "paper", "paper:1": "paper", "paper:2": "paper"}
    assert records.edges == [Edge("a", "cites", "paper:1")]
    assert [(Path(skip.file).name, skip.line) for skip in skips] == [
        *(("nodeidx2paperid.csv.gz", line) for line in (3, 4, 5, 6)),
        *(("edge.csv.gz", line) for line in (2, 3, 4, 5, 0)),
    ]
    with pytest.raises(InputError, match="9 things can not be used"):
        read_ogb(tmp_path)


def test_several_graphs_and_odd_numbers_are_refused(tmp_path: Path) -> None:
    folder_of(tmp_path, ARXIV | {"raw/num-node-list.csv.gz": "3\n4\n"})
    with pytest.raises(InputError, match="several graphs"):
        read_ogb(tmp_path, strict=False)
    folder_of(tmp_path, {"raw/num-node-list.csv.gz": "three\n"})
    with pytest.raises(InputError, match="'three' are no whole numbers"):
        read_ogb(tmp_path, strict=False)


# ---------------------------------------------------------------- whichever format


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_known_by_its_content(name: str, tmp_path: Path) -> None:
    file, write, read = FORMATS[name]
    write(tmp_path / file, HARD)
    assert read_graph([tmp_path / file]) == read(tmp_path / file)
    assert read_graph([tmp_path / file], name.removesuffix(".gz")) == read(tmp_path / file)
    if (tmp_path / file).is_file():
        (tmp_path / file).rename(tmp_path / "anything")
        assert read_graph([tmp_path / "anything"])[0].edges == HARD.edges


@pytest.mark.parametrize("name", FORMATS)
def test_a_graph_is_written_in_the_format_asked_for(name: str, tmp_path: Path) -> None:
    file = FORMATS[name][0]
    write_graph(tmp_path / file, HARD, name.removesuffix(".gz"))
    assert same(read_graph([tmp_path / file])[0], HARD, name)
    if not (tmp_path / file).is_dir():
        write_graph(tmp_path / "by_ending" / file, HARD)
        assert (tmp_path / "by_ending" / file).read_bytes() == (tmp_path / file).read_bytes()


def test_tables_of_nodes_and_edges_are_told_apart_by_their_headers(tmp_path: Path) -> None:
    files = {
        "a_roles.csv": ":START_ID(Person),:END_ID(Movie),:TYPE\n1,1,ACTED_IN\n",
        "movies.csv": "movieId:ID(Movie),title,:LABEL\n1,The Matrix,Movie\n",
        "people-header.csv": ":ID(Person){label:Person}|name:string\n",
        "people.csv": "1|Keanu\n",
    }
    folder_of(tmp_path, files)
    records, _ = read_graph([tmp_path])
    assert records.edges == [Edge("Person:1", "ACTED_IN", "1")]
    assert read_graph([tmp_path / name for name in files])[0] == records


def test_the_nodes_of_triples_may_be_given_with_them(tmp_path: Path) -> None:
    write_triples(tmp_path / "graph.tsv", HARD)
    assert read_graph(sorted(tmp_path.iterdir()))[0] == HARD


def test_graphml_in_two_bytes_a_letter_is_known(tmp_path: Path) -> None:
    text = '<?xml version="1.0" encoding="UTF-16"?><graphml><graph><node id="ü"/></graph></graphml>'
    (tmp_path / "g").write_text(text, encoding="utf-16")
    assert read_graph([tmp_path / "g"])[0].kinds == {"ü": "unknown"}


@pytest.mark.parametrize(
    ("files", "paths", "cause"),
    [
        ({}, [], "no file of a graph is given"),
        ({}, ["no.json"], r"no.json: there is no such file or folder"),
        ({"a.pdf": "%PDF-1.7"}, ["a.pdf"], "a.pdf: no graph that is known here"),
        ({"a": ""}, ["a"], "no graph that is known here"),
        ({"a.csv": "source,target\n"}, ["."], "neither OGB's folder `raw` nor tables"),
        ({"a.json": "{}", "b.json": "{}"}, ["a.json", "b.json"], "json is one file, but 2 are given"),
        ({"a.json": "{}"}, ["a.json", "."], "a folder is a graph by itself"),
        ({"a.gz": "\x1f\x8b"}, ["a.gz"], "no graph that is known here|damaged"),
    ],
)
def test_what_is_no_known_graph_is_told(files: dict[str, str], paths: list[str], cause: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=cause):
        read_graph([tmp_path / name for name in paths])


def test_an_unknown_format_is_told_with_the_known_ones(tmp_path: Path) -> None:
    cause = "the format 'rdf' is unknown: choose auto, graphml, triples, neo4j, json or ogb"
    with pytest.raises(InputError, match=cause):
        read_graph([tmp_path], "rdf")
    with pytest.raises(InputError, match=cause):
        write_graph(tmp_path / "g.json", HARD, "rdf")
    with pytest.raises(InputError, match=r"g: its name .* does not tell the format"):
        write_graph(tmp_path / "g", HARD)
    with pytest.raises(InputError, match="is no file, which json is written to"):
        write_graph(tmp_path, HARD, "json")
    assert list(tmp_path.iterdir()) == []
