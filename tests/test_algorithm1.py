"""Algorithm 1 of geodesic search on request: starts, coherence, variety, levels, and the paper's recipe."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import graph_of, measured

from lemmata.core.config import RECIPES, build, read_toml
from lemmata.core.errors import ConfigError
from lemmata.core.types import Floats
from lemmata.graph.geodesic import search_tree
from lemmata.graph.lengths import distance, lengths_by_edge
from lemmata.graph.levels import coarser_levels, open_nodes
from lemmata.graph.store import StoredGraph
from lemmata.graph.stored_metric import LearnedMetric
from lemmata.search.bridge import measured_by_both
from lemmata.search.paths import GeodesicOptions, PathSearch
from lemmata.train.learn_metric import MetricStageOptions

# angles of six passages, each linked to the next; 2 and 3 are far apart, 4 and 5 have the same text
ANGLES = np.array([0.0, 0.3, 0.6, 2.0, 2.3, 2.3])
VECTORS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32)
LINE = graph_of([(i, i + 1) for i in range(5)], 6)


def search(metric: LearnedMetric | None = None, vectors: Floats | None = VECTORS, **options: Any) -> PathSearch:
    lengths = distance((VECTORS[:-1] * VECTORS[1:]).sum(axis=1))
    stored = StoredGraph(LINE, np.arange(6), {}, {}, "")
    chosen = GeodesicOptions(**options)
    return PathSearch(stored, measured(LINE, lengths), 6, starts=1, metric=metric, options=chosen, vectors=vectors)


def found(paths: PathSearch, k: int, queries: Floats | None = None) -> list[int]:
    near = np.array([[0, 1]]), VECTORS[[[0, 1]]][:, :, 0]  # the query is passage 0
    return [row for row in paths.nearest([near], k, queries=queries)[0][0].tolist() if row >= 0]


def test_without_options_all_passages_come_in_the_order_of_the_line() -> None:
    assert found(search(), 6) == [0, 1, 2, 3, 4, 5]


def test_the_number_of_starts_may_be_the_root_of_that_of_passages() -> None:
    assert [search(starts=starts).starts for starts in (0, 4, "sqrt")] == [1, 4, 3]
    with pytest.raises(ConfigError, match="'root'"):
        search(starts="root")


def test_hits_behind_a_step_of_small_cosine_are_dropped_and_do_not_come_back() -> None:
    assert found(search(coherence=0.3), 6) == [0, 1, 2]
    assert found(search(coherence=0.1), 6) == [0, 1, 2, 3, 4, 5]


def test_coherence_by_a_metric_is_that_of_its_embeddings() -> None:
    nothing = np.zeros((1, 2, 1), np.float32)
    turned = LearnedMetric(VECTORS[:, ::-1].copy(), 1.0, lambda vectors: (vectors[:, ::-1], nothing))
    paths = search(turned, None, coherence=0.3, query_weight=1.0)
    tree = search_tree(paths._measured, [0], [0.0], 6)
    expected = np.cos([0.0, 0.3, 0.3, 1.4, 1.4, 1.4])
    assert paths.coherences(tree, VECTORS[0]) == pytest.approx(expected, abs=1e-5)
    assert paths.coherences(tree) == pytest.approx(expected, abs=1e-5)  # as lengths tell: the line is Euclidean
    assert found(paths, 6, VECTORS[:1]) == [0, 1, 2]


def test_variety_puts_what_resembles_another_hit_behind() -> None:
    hits = found(search(diversity=0.5), 6)
    assert hits[:2] == [0, 3]  # far apart; 1 is nearer to the query, and to 0
    assert sorted(hits) == [0, 1, 2, 3, 4, 5]


@given(
    edges=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=90),
    levels=st.integers(2, 4),
    number=st.integers(0, 1000),
)
@settings(max_examples=30, deadline=None)
def test_as_many_clusters_as_there_are_change_nothing_and_fewer_find_a_part(
    edges: list[tuple[int, int]], levels: int, number: int
) -> None:
    generator = np.random.default_rng(number)
    graph = graph_of([pair for pair in edges if pair[0] != pair[1]], 40)
    both = measured(graph, generator.random(len(graph.indices)).astype(np.float32))
    rows = np.where(np.arange(40) < 36, np.arange(40), -1)  # the last four have no vector
    coarser = coarser_levels(both, rows, generator.normal(size=(36, 3)).astype(np.float32), levels)
    assert len(coarser) == levels - 1
    starts, distances = np.array([0, 5]), np.array([0.1, 0.2], np.float32)
    exact = search_tree(both, starts, distances, 40)
    is_open = open_nodes(coarser, starts, distances, 40)
    assert is_open[36:].all()
    through_vectors = search_tree(both, starts, distances, 40, blocked=range(36, 40))
    assert is_open[through_vectors.nodes].all()  # whatever a path over clustered nodes reaches
    few = open_nodes(coarser, starts, distances, 1)
    part = search_tree(both, starts, distances, 40, blocked=np.flatnonzero(~few).tolist())
    assert {*part.nodes.tolist()} <= {*exact.nodes.tolist()}


def test_a_search_of_several_levels_stays_in_the_nearest_clusters() -> None:
    assert {*found(search(levels=2), 6)} <= {0, 1, 2, 3, 4, 5}
    assert found(search(levels=2), 1) == [0]


def test_the_recipe_of_the_paper_sets_what_it_prints() -> None:
    tables = read_toml(RECIPES["geodesic-search"])
    printed = build(GeodesicOptions, tables["geodesic"], "geodesic")
    assert (printed.number_of_starts(169_343, 5), printed.coherence, printed.levels) == (412, 0.3, 3)
    metric = build(MetricStageOptions, tables["metric"], "metric")
    assert (metric.loss("ranking"), metric.loss("smoothness"), metric.text_start) == (0.5, 0.1, False)
    assert metric.negative("hard") == 8  # not printed: ours


def test_edges_that_a_metric_does_not_measure_keep_their_length_by_text_in_its_unit() -> None:
    graph = graph_of([(0, 1), (1, 2), (2, 3)], 4)
    by_text = measured(graph, np.array([1.0, 0.5, 1.0], np.float32))
    some = graph.with_edges(np.array([True, False, True]))
    learned = measured(some, np.array([4.0, 2.0], np.float32), np.array([5.0, 2.0], np.float32))
    learned.edges[:] = np.where(learned.edges >= 0, learned.edges * 2, -1 - 2 * (-1 - learned.edges))
    both = measured_by_both(StoredGraph(graph, np.arange(4), {}, {}, ""), by_text, learned)
    along, against = lengths_by_edge(both, 3)
    assert along.tolist() == [4.0, 1.5, 2.0]
    assert against.tolist() == [5.0, 1.5, 2.0]
