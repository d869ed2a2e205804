"""Shortest paths from several starts: against scipy and networkx, stopping early, and graphs with gaps."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
from collections.abc import Callable

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra
from tests.make import graph_of, measured

from lemmata.core.types import Floats, Graph, Mask, MeasuredGraph
from lemmata.graph.geodesic import Start, Tree, coherence, compiled_trees, python_tree, search_tree, search_trees
from lemmata.graph.lengths import distance, measure_by_text

Case = tuple[Graph, MeasuredGraph, Start, Mask]
Search = Callable[[MeasuredGraph, Start, int, Mask | None], Tree]


def in_python(graph: MeasuredGraph, start: Start, k: int, counted: Mask | None = None) -> Tree:
    tree = python_tree(graph, start, k, counted)
    assert tree is not None
    return tree


def compiled(graph: MeasuredGraph, start: Start, k: int, counted: Mask | None = None) -> Tree:
    return compiled_trees(graph, [start], k, counted)[0]


HAS_NUMBA = importlib.util.find_spec("numba") is not None
COMPILED = pytest.param(compiled, marks=pytest.mark.skipif(not HAS_NUMBA, reason="needs the extra geometry"))


@pytest.fixture(params=[in_python, COMPILED], ids=["python", "compiled"], scope="module")
def search(request: pytest.FixtureRequest) -> Search:
    chosen: Search = request.param
    return chosen


def start(starts: dict[int, float], blocked: tuple[int, ...] = ()) -> Start:
    return Start(
        np.array(list(starts), np.int64), np.array(list(starts.values()), np.float64), np.array(blocked, np.int64)
    )


@st.composite
def searches(draw: st.DrawFn) -> Case:
    """Small graphs, often in several parts, with lengths of both directions; some of them 0, many equal."""
    nodes = draw(st.integers(1, 12))
    ends = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(ends, ends).filter(lambda pair: pair[0] != pair[1]), max_size=30, unique=True))
    graph = graph_of(edges, nodes)
    length = st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]) | st.floats(0, 4, width=32)
    forward, backward = (
        np.array(draw(st.lists(length, min_size=len(edges), max_size=len(edges))), np.float32) for _ in range(2)
    )
    starts = draw(st.dictionaries(ends, st.floats(0, 2, width=32), max_size=4))
    blocked = draw(st.lists(ends, max_size=2))
    counted = np.array(draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes)), bool)
    return graph, measured(graph, forward, backward), start(starts, tuple(blocked)), counted


def oracle_distances(graph: MeasuredGraph, start: Start) -> Floats:
    """By scipy, with one more node for the query; parallel edges count by the shortest, blocked nodes lose theirs."""
    count = len(graph.indptr) - 1
    sources = np.repeat(np.arange(count), np.diff(graph.indptr))
    shortest: dict[tuple[int, int], float] = {}
    for source, target, length in zip(sources.tolist(), graph.targets.tolist(), graph.lengths.tolist(), strict=True):
        shortest[source, target] = min(length, shortest.get((source, target), np.inf))
    shortest |= {(count, node): d for node, d in zip(start.nodes.tolist(), start.distances.tolist(), strict=True)}
    blocked = set(start.blocked.tolist())
    shortest = {ends: length for ends, length in shortest.items() if not blocked & set(ends)}
    tiny = 1e-12  # scipy takes a stored 0 for no edge
    matrix = csr_matrix(
        ([length + tiny for length in shortest.values()], tuple(np.array([*shortest]).reshape(-1, 2).T)),
        shape=(count + 1, count + 1),
    )
    result: Floats = dijkstra(matrix, indices=count)[:count]
    return result


# ---------------------------------------------------------------- exact


@given(case=searches())
def test_all_distances_are_those_of_scipy(search: Search, case: Case) -> None:
    _, graph, begin, _ = case
    tree = search(graph, begin, 100, None)
    expected = oracle_distances(graph, begin)
    assert sorted(tree.nodes.tolist()) == np.flatnonzero(np.isfinite(expected)).tolist()
    np.testing.assert_allclose(tree.distances, expected[tree.nodes], atol=1e-9)
    assert (np.diff(tree.distances) >= 0).all()


@given(case=searches(), k=st.integers(0, 12))
def test_stopping_early_gives_the_first_of_the_whole_search(search: Search, case: Case, k: int) -> None:
    _, graph, begin, counted = case
    whole, early = search(graph, begin, 100, None), search(graph, begin, k, counted)
    assert early.nodes.tolist() == whole.nodes[: len(early.nodes)].tolist()
    assert counted[early.nodes].sum() == min(k, counted[whole.nodes].sum())
    if counted[early.nodes].sum() == k > 0:
        assert counted[early.nodes[-1]]  # no node more than needed
    elif k > 0:
        assert len(early.nodes) == len(whole.nodes)


@given(case=searches())
def test_a_path_has_the_length_of_its_distance_and_no_path_is_shorter(search: Search, case: Case) -> None:
    _, graph, begin, _ = case
    tree = search(graph, begin, 100, None)
    sources = np.repeat(np.arange(len(graph.indptr) - 1), np.diff(graph.indptr))
    other = networkx.DiGraph()
    other.add_nodes_from(range(len(graph.indptr) - 1))
    for source, target, length in zip(sources.tolist(), graph.targets.tolist(), graph.lengths.tolist(), strict=True):
        if not {source, target} & set(begin.blocked.tolist()):
            known = other.get_edge_data(source, target, {"weight": np.inf})["weight"]
            other.add_edge(source, target, weight=min(length, known))
    from_query = dict(zip(begin.nodes.tolist(), begin.distances.tolist(), strict=True))
    for place in range(len(tree.nodes)):
        path = tree.path(place)
        nodes = tree.nodes[path].tolist()
        total = from_query[nodes[0]]
        for before, here in itertools.pairwise(path):
            entry = int(tree.entries[here])
            assert sources[entry] == tree.nodes[before]
            assert graph.targets[entry] == tree.nodes[here]
            total += float(graph.lengths[entry])
        assert total == pytest.approx(tree.distances[place])
        for seed, at_first in from_query.items():
            for candidate in networkx.all_simple_paths(other, seed, nodes[-1], cutoff=3):
                length = sum(other[a][b]["weight"] for a, b in itertools.pairwise(candidate))
                assert total <= at_first + length + 1e-9


@pytest.mark.skipif(not HAS_NUMBA, reason="needs the extra geometry")
@given(case=searches(), k=st.integers(0, 12))
def test_both_searches_give_the_same_tree_also_among_ties(case: Case, k: int) -> None:
    _, graph, begin, counted = case
    for one, other in zip(in_python(graph, begin, k, counted), compiled(graph, begin, k, counted), strict=True):
        assert one.tolist() == other.tolist()


# ---------------------------------------------------------------- by hand


def six_nodes() -> MeasuredGraph:
    """0 →1→ 1 →1→ 2 and 0 →5→ 2; 3 and 4 are a part of their own; 5 is alone."""
    return measured(graph_of([(0, 1), (0, 2), (1, 2), (3, 4)], 6), np.array([1, 5, 1, 1], np.float32))


def test_a_detour_over_short_edges_wins(search: Search) -> None:
    tree = search(six_nodes(), start({0: 0.5}), 10, None)
    assert tree.nodes.tolist() == [0, 1, 2]
    assert tree.distances.tolist() == [0.5, 1.5, 2.5]
    assert tree.nodes[tree.path(2)].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("starts", "blocked", "nodes"),
    [
        ({0: 0.0}, (), [0, 1, 2]),
        ({0: 0.0, 4: 9.0}, (), [0, 1, 2, 4, 3]),  # other parts are reached from their own starts only
        ({5: 2.0}, (), [5]),
        ({}, (), []),
        ({0: 0.0, 1: 0.0}, (1,), [0, 2]),
    ],
)
def test_what_is_reached(search: Search, starts: dict[int, float], blocked: tuple[int, ...], nodes: list[int]) -> None:
    assert search(six_nodes(), start(starts, blocked), 10, None).nodes.tolist() == nodes


def test_each_direction_has_its_own_length(search: Search) -> None:
    graph = measured(graph_of([(0, 1)], 2), np.array([1], np.float32), np.array([7], np.float32))
    for begin, far in ((0, 1), (1, 7)):
        assert search(graph, start({begin: 0.0}), 2, None).distances.tolist() == [0, far]
    alone = measured(graph_of([], 1), np.empty(0, np.float32))
    assert search(alone, start({0: 1.0}), 3, None).distances.tolist() == [1]


def test_an_edge_is_followed_in_both_directions_and_says_so(search: Search) -> None:
    graph = six_nodes()
    tree = search(graph, start({2: 0.0}), 10, None)
    assert tree.nodes.tolist() == [2, 1, 0]
    assert [graph.edges[entry] for entry in tree.entries[1:]] == [-1 - 2, -1 - 0]


def test_the_nearest_of_two_starts_of_a_seed_counts(search: Search) -> None:
    begin = Start(np.array([0, 0], np.int64), np.array([2.0, 1.0]), np.empty(0, np.int64))
    assert search(six_nodes(), begin, 1, None).distances.tolist() == [1]


# ---------------------------------------------------------------- many queries


def test_many_queries_are_answered_in_order_whatever_the_number_of_threads() -> None:
    graph = six_nodes()
    starts = [[number % 6] for number in range(30)]
    distances = [[number / 10] for number in range(30)]
    expected = [search_tree(graph, *pair, 3) for pair in zip(starts, distances, strict=True)]
    for threads in (1, 3):
        trees = search_trees(graph, starts, distances, 3, threads=threads)
        assert [tree.nodes.tolist() for tree in trees] == [tree.nodes.tolist() for tree in expected]
        assert [tree.distances.tolist() for tree in trees] == [tree.distances.tolist() for tree in expected]


def test_a_node_that_does_not_exist_is_refused() -> None:
    with pytest.raises(IndexError, match="from 0 to 5"):
        search_tree(six_nodes(), [6], [0.0], 3)
    with pytest.raises(ValueError):
        search_tree(six_nodes(), [1], [float("nan")], 3)


def test_one_query_does_not_load_numba() -> None:
    code = (
        "import sys; import numpy as np\n"
        "from lemmata.graph.geodesic import search_tree\n"
        "from lemmata.core.types import MeasuredGraph\n"
        "graph = MeasuredGraph(np.array([0, 1, 2]), np.array([1, 0]), np.ones(2, np.float32), np.array([0, -1]))\n"
        "assert search_tree(graph, [0], [0.0], 2).distances.tolist() == [0, 1]\n"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_search_in_python_gives_up_when_it_leads_too_far() -> None:
    chain = measured(graph_of([(node, node + 1) for node in range(50)], 51), np.ones(50, np.float32))
    assert python_tree(chain, start({0: 0.0}), 51, budget=20) is None
    tree = python_tree(chain, start({0: 0.0}), 51, budget=1000)
    assert tree is not None
    assert tree.distances.tolist() == list(range(51))


# ---------------------------------------------------------------- lengths


@given(case=searches())
def test_every_edge_is_there_in_both_directions_shortest_first(case: Case) -> None:
    graph, both, _, _ = case
    pairs = list(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True))
    seen = []
    for node in range(len(graph.nodes)):
        entries = range(both.indptr[node], both.indptr[node + 1])
        assert np.all(np.diff(both.lengths[entries]) >= 0)
        for edge, target in zip(both.edges[entries].tolist(), both.targets[entries].tolist(), strict=True):
            assert (node, target) == (pairs[edge] if edge >= 0 else pairs[-1 - edge][::-1])
            seen.append(edge)
    assert sorted(seen) == sorted([*range(len(pairs)), *(-1 - edge for edge in range(len(pairs)))])


def test_lengths_are_computed_block_by_block_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    pairs = {(int(a), int(b)) for a, b in generator.integers(0, 30, (150, 2)) if a != b}
    graph = graph_of(sorted(pairs), 30)
    rows = np.where(np.arange(30) < 25, np.arange(30), -1)  # the last five have no text
    matrix = generator.normal(size=(25, 8)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    results = []
    for block in (1 << 14, 7):
        monkeypatch.setattr("lemmata.graph.lengths._BLOCK", block)
        monkeypatch.setattr("lemmata.graph.lengths._SORTED", block)
        lengths = np.empty(len(graph.indices), np.float32)
        measure_by_text(graph, rows, matrix, lengths, lambda *_: None)
        results.append((lengths, measured(graph, lengths)))
    (at_once, whole), (in_blocks, parts) = results
    np.testing.assert_allclose(at_once, in_blocks, atol=1e-6)
    assert whole.indptr.tolist() == parts.indptr.tolist()
    assert sorted(whole.edges.tolist()) == sorted(parts.edges.tolist())
    sources, targets = graph.sources(), graph.indices
    both_texts = (rows[sources] >= 0) & (rows[targets] >= 0)
    euclidean = np.linalg.norm(matrix[sources[both_texts]] - matrix[targets[both_texts]], axis=1)
    np.testing.assert_allclose(at_once[both_texts], euclidean, atol=1e-5)


def test_a_node_without_a_text_lies_in_the_middle_of_its_neighbours() -> None:
    graph = graph_of([(0, 2), (1, 2), (2, 3)], 5)
    lengths = np.empty(3, np.float32)
    measure_by_text(graph, np.array([0, 1, -1, -1, -1]), np.eye(2, dtype=np.float32), lengths, lambda *_: None)
    half_angle = np.sqrt(2 - 2 * np.sqrt(0.5))
    assert lengths.tolist() == pytest.approx([half_angle, half_angle, 0], abs=1e-5)  # 3 has the vector of 2


def test_distance_and_coherence_are_those_of_cosines() -> None:
    assert distance(np.array([1, 0, -1, 1.0001], np.float32)).tolist() == pytest.approx([0, 2**0.5, 2, 0])
    assert coherence([0.0, 2**0.5]) == pytest.approx(0)
    assert coherence([1.0, 0.5]) == pytest.approx(0.5)
    assert coherence([]) == 1


def test_a_search_ends_at_its_limit() -> None:
    chain = measured(graph_of([(node, node + 1) for node in range(50)], 51), np.ones(50, np.float32))
    counted = np.arange(51) == 50
    tree = search_tree(chain, [0], [0.0], 1, counted=counted, limit=10)
    assert tree.nodes.tolist() == list(range(10))
    trees = search_trees(chain, [[0]] * 20, [[0.0]] * 20, 1, counted=counted, limit=10)
    assert {len(tree.nodes) for tree in trees} == {10}
