from __future__ import annotations

from random import Random

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.errors import InputError
from lemmata.core.types import Document, Edge, Graph, Link, Passage
from lemmata.graph.links import build_graph, counts, link_edges


def triples(edges: list[Edge]) -> list[tuple[str, str, str]]:
    return [(edge.source, edge.relation, edge.target) for edge in edges]


# ---------------------------------------------------------------- records to edges


def test_links_of_papers_become_edges() -> None:
    passages = [
        Passage("a#1", "a", "lemma", "One.", links=(Link("refers_to", "2", "a#2"), Link("cites", "k", "b"))),
        Passage("b#1", "b", "lemma", "Three."),
        Passage("a#2", "a", "lemma", "Two.", links=(Link("proof_uses", "x", "b#1"), Link("cites", "k", "b"))),
    ]
    edges = list(link_edges(passages, [Document("a"), Document("b")]))
    assert sorted(triples(edges)) == [
        ("a", "cites", "b"),
        ("a#1", "cites", "b"),
        ("a#1", "next", "a#2"),
        ("a#1", "part_of", "a"),
        ("a#1", "refers_to", "a#2"),
        ("a#2", "cites", "b"),
        ("a#2", "part_of", "a"),
        ("a#2", "proof_uses", "b#1"),
        ("b#1", "part_of", "b"),
    ]
    weights = {edge[:3]: edge.weight for edge in edges}
    assert weights["a", "cites", "b"] == 2.0
    assert {edge.evidence for edge in edges if edge.relation == "proof_uses"} == {"a#2"}


def test_unresolved_links_loops_and_duplicates_are_left_out() -> None:
    links = (
        Link("refers_to", "lost", None),
        Link("refers_to", "me", "a#1"),
        Link("refers_to", "2", "b#1"),
        Link("refers_to", "two", "b#1"),
    )
    edges = list(link_edges([Passage("a#1", "a", "lemma", "One.", links=links)], [Document("a")]))
    assert triples(edges) == [("a#1", "refers_to", "b#1"), ("a#1", "part_of", "a")]


def test_a_cited_passage_counts_for_its_document_once_per_citing_passage() -> None:
    citing = (Link("cites", "x", "b#1"), Link("cites", "y", "b#2"))
    passages = [
        Passage("a#1", "a", "lemma", "One.", links=citing),
        Passage("a#2", "a", "lemma", "Two.", links=citing[:1]),
        Passage("b#1", "b", "lemma", "Three.", links=(Link("cites", "own", "b#2"),)),
        Passage("b#2", "b", "lemma", "Four."),
    ]
    edges = [edge for edge in link_edges(passages, [Document("a"), Document("b")]) if edge.relation == "cites"]
    assert [edge for edge in edges if "#" not in edge.source] == [Edge("a", "cites", "b", "", "links", 2.0)]
    assert triples(edges)[:3] == [("a#1", "cites", "b#1"), ("a#1", "cites", "b#2"), ("a#2", "cites", "b#1")]


def test_a_passage_that_is_its_document_cites_once() -> None:
    passages = [
        Passage("p", "p", "abstract", "P.", links=(Link("cites", "q", "q"),)),
        Passage("q", "q", "abstract", "Q."),
    ]
    assert list(link_edges(passages, [Document("p"), Document("q")])) == [Edge("p", "cites", "q", "", "links", 1.0)]


def test_logs_report_about_locations_and_are_not_connected_by_their_table() -> None:
    logs = [
        Passage("1", "log", "log", "Pump leaks.", links=(Link("reports_about", "P1", "location:P1"),)),
        Passage("2", "log", "log", "Sealed.", links=(Link("related_to", "1", "1"),)),
    ]
    documents = [
        Document("log", kind="table"),
        Document("location:P1", kind="location", links=(Link("part_of", "P", "location:P"),)),
        Document("location:P", kind="location"),
    ]
    assert set(triples(list(link_edges(logs, documents)))) == {
        ("location:P1", "part_of", "location:P"),
        ("1", "reports_about", "location:P1"),
        ("2", "related_to", "1"),
    }


def test_an_empty_corpus_has_no_edges() -> None:
    assert list(link_edges([], [])) == []


# ---------------------------------------------------------------- edges to a graph

EDGES = [
    Edge("b", "uses", "a"),
    Edge("a", "uses", "c", weight=0.5),
    Edge("a", "defines", "c"),
    Edge("a", "uses", "c", weight=0.25, evidence="elsewhere"),
    Edge("a", "uses", "b"),
]
KINDS = {"a": "concept", "c": "passage", "alone": "concept"}


def test_a_graph_is_sorted_and_its_duplicates_are_merged() -> None:
    graph = build_graph(EDGES, KINDS)
    assert list(graph.nodes) == ["a", "alone", "b", "c"]
    assert list(graph.kinds) == ["concept", "concept", "unknown", "passage"]
    assert list(graph.relations) == ["defines", "uses"]
    assert graph.indptr.tolist() == [0, 3, 3, 4, 4]
    assert graph.indices.tolist() == [3, 2, 3, 0]
    assert graph.relation.tolist() == [0, 1, 1, 1]
    assert graph.weight.tolist() == [1.0, 1.0, 0.75, 1.0]
    arrays = (graph.indptr, graph.indices, graph.relation, graph.weight)
    assert [array.dtype.name for array in arrays] == ["int64", "int64", "int16", "float32"]


def test_counts_are_by_kind_and_by_relation() -> None:
    assert counts(build_graph(EDGES, KINDS)) == {
        "nodes": {"concept": 2, "passage": 1, "unknown": 1},
        "edges": {"defines": 1, "uses": 3},
    }


def test_an_empty_graph_is_a_graph() -> None:
    graph = build_graph([], {})
    assert graph.indptr.tolist() == [0]
    assert counts(graph) == {"nodes": {}, "edges": {}}


def test_too_many_relations_are_refused() -> None:
    with pytest.raises(InputError, match="32768"):
        build_graph((Edge("a", str(number), "b") for number in range(40_000)), {})


names = st.sampled_from("abcdefgh")
edge_lists = st.lists(
    st.builds(Edge, names, st.sampled_from(["uses", "cites", "next"]), names, weight=st.sampled_from([0.5, 1.0, 2.0])),
    max_size=30,
)


def as_networkx(edges: list[Edge]) -> networkx.MultiDiGraph:
    oracle = networkx.MultiDiGraph()
    for edge in edges:
        oracle.add_edge(edge.source, edge.target, key=edge.relation)
    return oracle


def unpacked(graph: Graph) -> dict[tuple[str, str, str], float]:
    return {
        (graph.nodes[node], graph.relations[graph.relation[edge]], graph.nodes[graph.indices[edge]]): float(
            graph.weight[edge]
        )
        for node in range(len(graph.nodes))
        for edge in range(graph.indptr[node], graph.indptr[node + 1])
    }


@given(edge_lists)
def test_the_edges_are_those_of_networkx(edges: list[Edge]) -> None:
    graph = build_graph(edges, {})
    oracle = as_networkx(edges)
    assert sorted(unpacked(graph)) == sorted((source, key, target) for source, target, key in oracle.edges(keys=True))


@given(edge_lists, st.randoms())
def test_the_order_of_edges_does_not_matter(edges: list[Edge], random: Random) -> None:
    shuffled = list(edges)
    random.shuffle(shuffled)
    one, other = build_graph(edges, {}), build_graph(shuffled, {})
    assert one.nodes == other.nodes
    assert one.relations == other.relations
    assert unpacked(one) == unpacked(other)
    assert sum(unpacked(one).values()) == sum(edge.weight for edge in edges)
