"""Bridges: different paths between two ends, against networkx and random graphs, and the command."""

from __future__ import annotations

import json
import shutil
from itertools import combinations, pairwise
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.make import graph_of, lemmata, make_workspace, measured

from lemmata.core.errors import LemmataError, WorkspaceError
from lemmata.core.types import MeasuredGraph
from lemmata.graph.bridges import End, Route, diverse_routes, expected_routes
from lemmata.project import Project
from lemmata.search.bridge import without_hubs

Case = tuple[MeasuredGraph, End, End]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A small graph whose lengths are all different, and two ends: nodes, or texts with their nearest nodes."""
    count = draw(st.integers(2, 9))
    node = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(node, node).filter(lambda edge: edge[0] != edge[1]), max_size=20, unique=True))
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    graph = graph_of(edges, count)

    def end() -> End:
        if draw(st.booleans()):
            return End((draw(node),))
        nodes = draw(st.lists(node, min_size=1, max_size=3, unique=True))
        return End(tuple(nodes), tuple(generator.uniform(0.1, 1, len(nodes)).tolist()))

    first, last = end(), end()
    assume(first.node < 0 or first.node != last.node)
    return measured(graph, generator.uniform(0.1, 1, len(edges)).astype(np.float32)), first, last


def oracle(graph: MeasuredGraph, first: End, last: End) -> networkx.Graph:
    """The graph with the two ends as nodes A and B."""
    whole = networkx.Graph()
    names = {first.node: "A", last.node: "B"}
    for source in range(len(graph.indptr) - 1):
        for entry in range(graph.indptr[source], graph.indptr[source + 1]):
            target, length = int(graph.targets[entry]), float(graph.lengths[entry])
            ends = names.get(source, source), names.get(target, target)
            known = whole.get_edge_data(*ends, {"weight": np.inf})["weight"]
            whole.add_edge(*ends, weight=min(known, length))
    for name, end in (("A", first), ("B", last)):
        whole.add_node(name)
        for node, length in zip(end.nodes, end.distances, strict=False):
            whole.add_edge(name, names.get(node, node), weight=length)
    return whole


@pytest.mark.slow
@given(cases())
def test_the_first_path_is_the_shortest(case: Case) -> None:
    routes, whole = diverse_routes(*case, 1), oracle(*case)
    assert bool(routes) == networkx.has_path(whole, "A", "B")
    if routes:
        assert routes[0].length == pytest.approx(networkx.dijkstra_path_length(whole, "A", "B"), abs=1e-5)


@given(cases())
def test_all_paths_exist_and_no_two_share_all_inner_nodes(case: Case) -> None:
    graph, first, last = case
    routes, whole = diverse_routes(*case, 5), oracle(*case)
    assert [route.length for route in routes] == sorted(route.length for route in routes)
    inner = [route.inner(first, last) for route in routes]
    for route, nodes in zip(routes, inner, strict=True):
        path = ["A", *nodes, "B"]
        length = sum(whole.edges[pair]["weight"] for pair in pairwise(path))
        assert route.length == pytest.approx(length, abs=1e-5)
        assert len(set(nodes)) == len(nodes)
        ends = [int(graph.targets[entry]) for entry in route.entries]
        assert ends == list(route.nodes[1:])
    for one, other in combinations(map(set, inner), 2):
        assert not (one <= other and one)
        assert not (other <= one and other)
    assert sum(not nodes for nodes in inner) <= 1


@given(cases())
def test_paths_are_the_same_from_both_ends(case: Case) -> None:
    graph, first, last = case
    there, back = diverse_routes(graph, first, last, 2), diverse_routes(graph, last, first, 2)
    assert [route.nodes for route in there[:1]] == [route.nodes[::-1] for route in back[:1]]
    assert [route.length for route in there] == pytest.approx([route.length for route in back], abs=1e-5)
    for one, other in zip(there, back, strict=True):
        assert expected_routes(graph, first, last, one) == pytest.approx(expected_routes(graph, last, first, other))


def lengths_of(edges: list[tuple[int, int]], nodes: int) -> MeasuredGraph:
    return measured(graph_of(edges, nodes), np.ones(len(edges), np.float32))


def test_a_narrow_place_may_be_shared_and_a_detour_is_no_path() -> None:
    narrow = lengths_of([(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)], 5)  # 0 - 1 - {2, 3} - 4
    assert {route.nodes for route in diverse_routes(narrow, End((0,)), End((4,)), 5)} == {(0, 1, 2, 4), (0, 1, 3, 4)}
    detour = lengths_of([(0, 1), (1, 2), (1, 3), (3, 2)], 4)  # 0 - 1 - 2, and 0 - 1 - 3 - 2
    assert [route.nodes for route in diverse_routes(detour, End((0,)), End((2,)), 5)] == [(0, 1, 2)]


def test_single_nodes_and_separate_parts_have_no_path() -> None:
    graph = lengths_of([(0, 1), (2, 3)], 5)
    assert diverse_routes(graph, End((0,)), End((3,)), 3) == []
    assert diverse_routes(graph, End((0,)), End((4,)), 3) == []
    assert diverse_routes(graph, End((4,)), End((4,)), 3) == []
    assert [route.nodes for route in diverse_routes(graph, End((4, 1), (0.5, 0.5)), End((4,)), 3)] == [(4,)]


def test_the_expected_number_of_paths_is_that_of_random_graphs_with_the_same_degrees() -> None:
    degrees = np.array([3, 2, *[1] * 10, *[2] * 10, *[3] * 10, *[4] * 5, 9])
    stubs = np.repeat(np.arange(len(degrees)), degrees)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    graph = MeasuredGraph(indptr, stubs.astype(np.int32), np.ones(len(stubs), np.float32), np.arange(len(stubs)))
    first, last, inner = End((0,)), End((1,)), 15  # a node of degree 2: those of degree 3, 4 and 9 do not count
    expected = expected_routes(graph, first, last, Route((0, inner, 1), (0, 0), 2.0))
    generator = np.random.default_rng(0)
    counts = []
    for _ in range(20_000):
        pairs = generator.permutation(stubs).reshape(-1, 2)
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
        near = [np.bincount(pairs[pairs[:, 0] == end, 1], minlength=len(degrees)) for end in (0, 1)]
        small = (degrees <= degrees[inner]) & (np.arange(len(degrees)) > 1)
        counts.append(near[0][1] + (near[0] * near[1])[small].sum())
    assert len(stubs) % 2 == 0
    assert expected == pytest.approx(np.mean(counts), rel=0.1)
    through_hub = expected_routes(graph, first, last, Route((0, len(degrees) - 1, 1), (0, 0), 2.0))
    assert through_hub > 2 * expected
    none = np.zeros(6, np.int32)
    triangle = MeasuredGraph(np.array([0, 2, 4, 6]), none, none.astype(np.float32), none)
    through_middle = expected_routes(triangle, End((0,)), End((2,)), Route((0, 1, 2), (0, 0), 2.0))
    assert through_middle == pytest.approx(4 / 6 * (1 + 2 / 6))  # its ends, of the same degree, are no inner nodes


def test_the_expected_number_of_long_paths_through_a_hub_is_finite() -> None:
    degrees = np.array([1, *[2] * 109, 1, *[1] * 2000])  # a chain of 110 edges, and leaves
    degrees[50] += 2000
    stubs = np.zeros(degrees.sum(), np.int32)
    graph = MeasuredGraph(np.concatenate([[0], np.cumsum(degrees)]), stubs, stubs.astype(np.float32), stubs)
    route = Route((*range(111),), (0,) * 110, 110.0)
    expected = expected_routes(graph, End((0,)), End((110,)), route)
    assert 1e300 < expected < np.inf
    shorter = Route((*range(45, 56),), (0,) * 10, 10.0)
    assert expected_routes(graph, End((45,)), End((55,)), shorter) < 1e40


# ---------------------------------------------------------------- in a workspace

NOTES = {
    "a.tex": r"""\documentclass{article}\newtheorem{lemma}{Lemma}\begin{document}
\begin{lemma}\label{sponge}Every wet sponge absorbs the water of a pump.\end{lemma}
\begin{proof}By Lemma \ref{middle} this is clear.\end{proof}
\begin{lemma}\label{middle}Sponges and zebras drink.\end{lemma}
\begin{proof}By Lemma \ref{zebra} this is clear.\end{proof}
\begin{lemma}\label{zebra}Zebras graze quietly.\end{lemma}
\end{document}""",
    "b.tex": r"""\documentclass{article}\newtheorem{lemma}{Lemma}\begin{document}
\begin{lemma}\label{alone}Comets orbit.\end{lemma}\end{document}""",
}
CONCEPTS = r"""\documentclass{article}\newtheorem{definition}{Definition}\newtheorem{lemma}{Lemma}\begin{document}
\begin{definition}\label{tail}A \emph{comet tail} is the gas behind a stone.\end{definition}
\begin{definition}\label{core}A \emph{$2$-core} is a stone. A \emph{core} is a kernel.\end{definition}
\begin{lemma}\label{last}Every comet tail has a core.\end{lemma}\end{document}"""


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_workspace(tmp_path_factory.mktemp("notes"), NOTES, graph=True)


def test_a_bridge_names_relations_and_their_evidence(notes: Project) -> None:
    found = notes.bridge("a#sponge", "a#zebra", k=3)
    path = next(path for path in found.paths if [step.target for step in path.steps] == ["a#middle", "a#zebra"])
    assert [(step.relation, step.evidence) for step in path.steps] == [
        ("proof_uses", ("a#sponge",)),  # not `next`, which is equally long and states nothing
        ("proof_uses", ("a#middle",)),
    ]
    assert path.length == pytest.approx(sum(step.length for step in path.steps), abs=1e-5)
    assert path.coherence == pytest.approx(1 - max(step.length for step in path.steps) ** 2 / 2)
    assert path.expected > 0
    assert found.passages[0].id == "a#middle"
    assert found.paths[found.passages[0].paths[0] - 1] == path
    back = notes.bridge("a#zebra", "a#sponge", k=3)
    assert ("^proof_uses", ("a#middle",)) in {(step.relation, step.evidence) for p in back.paths for step in p.steps}
    assert [path.length for path in back.paths] == pytest.approx([path.length for path in found.paths], abs=1e-5)


def test_hubs_are_gone_around_but_for_those_at_the_ends() -> None:
    edges = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 5), (5, 2)]
    graph = measured(graph_of(edges, 6), np.ones(len(edges), np.float32))
    assert diverse_routes(graph, End((1,)), End((2,)), 1)[0].length == 2
    quiet = without_hubs(graph, 2, [1, 2])
    assert [route.nodes for route in diverse_routes(quiet, End((1,)), End((2,)), 3)] == [(1, 5, 2)]
    assert [route.nodes for route in diverse_routes(without_hubs(graph, 2, [0, 5]), End((0,)), End((5,)), 3)] == [
        (0, 1, 5),
        (0, 2, 5),
    ]


def test_passages_of_a_bridge_lie_between_its_ends_those_in_the_middle_first(notes: Project) -> None:
    found = notes.bridge("a#sponge", "a#zebra", k=3)
    assert not {"a#sponge", "a#zebra"} & {passage.id for passage in found.passages}
    for passage in found.passages:
        score = 0.0
        for number in passage.paths:
            lengths = {step.target: step.length for step in found.paths[number - 1].steps}
            before = sum([*lengths.values()][: [*lengths].index(passage.id) + 1])
            whole = sum(lengths.values())
            score += 2 * min(before, whole - before) / whole / (1 + found.paths[number - 1].length)
        assert passage.score == pytest.approx(score, abs=1e-5)
    path = next(path for path in found.paths if [step.target for step in path.steps] == ["a#middle", "a#zebra"])
    assert path.steps[0].length != pytest.approx(path.steps[1].length)


def test_texts_begin_at_their_nearest_passages(notes: Project) -> None:
    found = notes.bridge("a wet sponge", "zebras graze", k=3)
    for path in found.paths:
        assert path.steps[0].source == "a wet sponge"
        assert path.steps[-1].target == "zebras graze"
        assert path.steps[0].relation == path.steps[-1].relation == "similar_to"
        assert [step.target for step in path.steps[:-1]] == [step.source for step in path.steps[1:]]
        ends = 1.5 * (path.steps[0].length + path.steps[-1].length)  # they count 2.5 times
        assert path.length == pytest.approx(sum(step.length for step in path.steps) + ends, abs=1e-4)
    assert {passage.id for passage in found.passages} <= {*notes.corpus.ids()}


def test_a_concept_is_found_by_its_id_or_by_its_name_up_to_case_and_plural(tmp_path: Path) -> None:
    project = make_workspace(tmp_path, {"c.tex": CONCEPTS})
    project.build_graph()
    for name in ("concept:comet-tail", "comet tail", "Comet  Tails", "comet-tail "):
        found = project.bridge(name, "c#core", k=1)
        assert (found.source, found.target) == ("concept:comet-tail", "c#core")
        shown = json.loads(lemmata("bridge", name, "c#core", "-w", project.root, "--json"))
        assert shown["source"] == "concept:comet-tail"
    for text in ("the long comet tail", "comets"):
        assert project.bridge(text, "c#core", k=1).source == text
    with pytest.raises(LemmataError, match="'concept:comet-tail'"):
        project.bridge("comet tails", "Comet tail")


def test_json_has_the_fields_of_the_contract(notes: Project) -> None:
    root = notes.root
    result = json.loads(lemmata("bridge", "a#sponge", "zebras graze", "-w", root, "-k", "2", "--json"))
    assert list(result) == ["source", "target", "paths", "passages"]
    assert len(result["paths"]) == 2
    for path in result["paths"]:
        assert list(path) == ["length", "coherence", "expected", "steps"]
        assert all(list(step) == ["source", "target", "relation", "length", "evidence"] for step in path["steps"])
    assert all(list(passage) == ["id", "score", "paths"] for passage in result["passages"])
    shown = " ".join(lemmata("bridge", "a#sponge", "zebras graze", "-w", root).split())
    assert "path 1 length" in shown
    assert "—similar_to" in shown
    assert "bridge passages" in shown


def test_one_sentence_says_why_there_is_no_bridge(notes: Project, tmp_path: Path) -> None:
    root = notes.root
    assert "both ends are 'a#zebra'" in lemmata("bridge", "a#zebra", " a#zebra", "-w", root, code=1)
    assert "did you mean a#zebra" in lemmata("bridge", "a#zebras", "a#sponge", "-w", root, code=1)
    unknown = lemmata("bridge", "foo#bar", "a#sponge", "-w", root, code=1)
    assert unknown.startswith("lemmata: there is no 'foo#bar' in the graph: 'lemmata list passages' and")
    for text in ("", "  "):
        with pytest.raises(LemmataError, match="''"):
            notes.bridge("a#zebra", text)
    assert notes.bridge("a#zebra", "b#alone").paths == ()
    shown = lemmata("bridge", "a#zebra", "b#alone", "-w", root)
    assert "no path leads from 'a#zebra' to 'b#alone'" in " ".join(shown.split())
    shutil.copytree(root, tmp_path / "w")
    project = Project(tmp_path / "w")
    shutil.rmtree(project.graph_folder)
    with pytest.raises(WorkspaceError, match="'lemmata graph build'"):
        project.bridge("a#zebra", "a#sponge")
