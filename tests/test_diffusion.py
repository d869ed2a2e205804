"""Scores that flow along links: by hand and against matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.types import Integers
from lemmata.graph.diffusion import Links, spread, start_weights

Case = tuple[Links, Integers, Integers]


def links_of(pairs: list[tuple[int, int]], rows: int) -> Links:
    counts = np.bincount([pair[0] for pair in pairs], minlength=rows) if pairs else np.zeros(rows, np.int64)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Links(indptr, np.array([target for _, target in sorted(pairs)], np.int64))


@st.composite
def diffusions(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 8))
    ends = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(ends, ends).filter(lambda pair: pair[0] != pair[1]), max_size=20, unique=True))
    rows = draw(st.lists(ends, min_size=1, max_size=count, unique=True))
    return (links_of(pairs, count), np.array(rows, np.int64), np.array(draw(st.permutations(range(1, len(rows) + 1)))))


@given(case=diffusions(), blocked=st.integers(-1, 7))
def test_a_step_is_a_product_with_the_matrix_of_links(case: Case, blocked: int) -> None:
    links, rows, weights = case
    count = len(links.indptr) - 1
    matrix = np.zeros((count, count))
    matrix[np.repeat(np.arange(count), np.diff(links.indptr)), links.indices] = 1
    if 0 <= blocked < count:
        matrix[blocked] = matrix[:, blocked] = 0
    start, result = np.zeros(count), np.zeros(count)
    start[rows] = weights
    reached, received = spread(links, rows, weights.astype(np.float64), blocked=blocked)
    result[reached] = received
    np.testing.assert_allclose(result, start @ matrix, atol=1e-12)
    assert (np.diff(reached) > 0).all()


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
