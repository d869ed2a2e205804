"""Scores that flow along links: by hand, against matrices and against networkx."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.types import Integers
from lemmata.graph.diffusion import Links, personalised_pagerank, reverse, spread, start_weights, union

Case = tuple[Links, Integers, Integers]


def links_of(pairs: list[tuple[int, int]], rows: int, weights: list[float] | None = None) -> Links:
    order = sorted(range(len(pairs)), key=lambda place: pairs[place])
    counts = np.bincount([pair[0] for pair in pairs], minlength=rows) if pairs else np.zeros(rows, np.int64)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = np.array([pairs[place][1] for place in order], np.int64)
    return Links(indptr, indices, None if weights is None else np.array(weights, np.float64)[order])


def matrix(links: Links) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    count = len(links.indptr) - 1
    dense = np.zeros((count, count))
    np.add.at(dense, (links.sources, links.indices), 1.0 if links.weights is None else links.weights)
    return dense


@st.composite
def diffusions(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 8))
    ends = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(ends, ends).filter(lambda pair: pair[0] != pair[1]), max_size=20, unique=True))
    weights = [draw(st.sampled_from([0.5, 1.0, 2.0])) for _ in pairs] if draw(st.booleans()) else None
    rows = draw(st.lists(ends, min_size=1, max_size=count, unique=True))
    return (
        links_of(pairs, count, weights),
        np.array(rows, np.int64),
        np.array(draw(st.permutations(range(1, len(rows) + 1)))),
    )


@given(case=diffusions(), blocked=st.integers(-1, 7))
def test_two_steps_are_products_with_the_matrix_of_links(case: Case, blocked: int) -> None:
    links, rows, weights = case
    count = len(links.indptr) - 1
    start = np.zeros(count)
    start[rows] = weights
    open_links = matrix(links)
    if 0 <= blocked < count:
        open_links[blocked] = open_links[:, blocked] = 0
    out = np.maximum(np.diff(links.indptr), 1)  # a link to the blocked row carries its share away
    once = start @ open_links
    expected = once + (once / 2 / out) @ open_links
    for steps, values in ((1, once), (2, expected)):
        found, received = spread(links, rows, weights.astype(np.float64), steps=steps, blocked=blocked)
        result = np.zeros(count)
        result[found] = received
        np.testing.assert_allclose(result, values, atol=1e-12)
        assert (np.diff(found) > 0).all()


@given(case=diffusions())
def test_personalised_pagerank_is_that_of_networkx(case: Case) -> None:
    links, rows, weights = case
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(links.indptr) - 1))
    carried = np.ones(len(links.indices)) if links.weights is None else links.weights
    for source, target, weight in zip(links.sources.tolist(), links.indices.tolist(), carried.tolist(), strict=True):
        graph.add_edge(source, target, weight=weight)
    start = dict(zip(rows.tolist(), weights.tolist(), strict=True))
    expected = networkx.pagerank(graph, alpha=0.85, personalization=start, tol=1e-12, max_iter=1000)
    result = personalised_pagerank(links, rows, weights.astype(np.float64), tolerance=1e-12)
    np.testing.assert_allclose(result, [expected[row] for row in range(len(result))], atol=1e-9)


@given(case=diffusions())
def test_links_reversed_and_united_are_the_transposed_matrix_and_the_sum(
    case: Case,
) -> None:
    links, _, _ = case
    np.testing.assert_array_equal(matrix(reverse(links)), matrix(links).T)
    np.testing.assert_array_equal(matrix(union(links, reverse(links))), matrix(links) + matrix(links).T)


def test_what_two_near_passages_refer_to_receives_most() -> None:
    links = links_of([(0, 3), (1, 3), (1, 4), (2, 4)], 5)
    rows, weights = spread(links, np.array([0, 1, 2]), np.array([1.0, 0.5, 0.25]))
    assert rows.tolist() == [3, 4]
    assert weights.tolist() == [1.5, 0.75]
    rows, _ = spread(links, np.empty(0, np.int64), np.empty(0))
    assert rows.tolist() == []


def test_the_nearest_passage_counts_most_and_a_negative_cosine_nothing() -> None:
    assert start_weights(np.array([0.8, 0.4, -0.2], np.float32)).tolist() == pytest.approx([1, 1 / 16, 0], abs=1e-6)
    assert start_weights(np.array([], np.float32)).tolist() == []
