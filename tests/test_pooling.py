"""Pools of several retrievers and the grades of a judge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.errors import InputError
from lemmata.core.types import Floats
from lemmata.evaluate.pooling import Thresholds, calibrate, contributions, grade, origin_repeats, pool, score_pairs

LOG = "pump P203 cavitates again, suction pressure only 0.4 bar, speed reduced and drum topped up by the night shift"


def quiet(_what: str, _done: int, _total: int | None) -> None:
    pass


rankings = st.integers(1, 4).flatmap(
    lambda queries: st.tuples(
        st.lists(
            st.lists(st.lists(st.integers(-1, 9), min_size=3, max_size=3), min_size=queries, max_size=queries),
            min_size=1,
            max_size=3,
        ),
        st.lists(st.lists(st.integers(0, 12), max_size=2), min_size=queries, max_size=queries),
    )
)


@given(rankings)
def test_a_pool_is_the_union_of_rankings_and_sources(case: tuple[list[list[list[int]]], list[list[int]]]) -> None:
    ranked, sources = case
    made = pool({str(number): np.array(rows) for number, rows in enumerate(ranked)}, sources)
    expected: dict[tuple[int, int], set[str]] = {(q, row): set() for q, rows in enumerate(sources) for row in rows}
    for number, by_query in enumerate(ranked):
        for query, rows in enumerate(by_query):
            for row in rows:
                if row >= 0:
                    expected.setdefault((query, row), set()).add(str(number))
    found = [{name for name, own in zip(made.retrievers, line, strict=True) if own} for line in made.found.tolist()]
    keys = list(zip(made.queries.tolist(), made.rows.tolist(), strict=True))
    assert keys == sorted(expected)
    assert dict(zip(keys, found, strict=True)) == expected


def test_equal_pairs_are_scored_once() -> None:
    asked: list[tuple[str, str]] = []

    def length(pairs: Sequence[tuple[str, str]]) -> Floats:
        asked.extend(pairs)
        return np.array([len(passage) for _, passage in pairs], np.float32)

    assert score_pairs([("q", "aa"), ("q", "a"), ("q", "aa"), ("p", "aa")], length, quiet).tolist() == [2, 1, 2, 2]
    assert sorted(asked) == [("p", "aa"), ("q", "a"), ("q", "aa")]


def test_a_judge_that_gives_no_number_is_an_error() -> None:
    with pytest.raises(InputError, match="'q'"):
        score_pairs([("q", "a")], lambda pairs: np.full(len(pairs), np.nan, np.float32), quiet)


def test_thresholds_lie_above_random_pairs_and_halfway_to_the_sources() -> None:
    sources = np.array([7.0, 8.0, 30.0], np.float32)
    far = calibrate(sources, np.arange(-100, 1, dtype=np.float32))  # one of 101 is above -1
    assert far == Thresholds(pytest.approx(-1.0), pytest.approx(3.5))  # type: ignore[arg-type]
    near = calibrate(sources, np.full(50, 60, np.float32))  # a judge that cannot tell
    assert near == Thresholds(60.0, 60.0)
    with pytest.raises(InputError, match="threshold"):
        calibrate(np.zeros(0, np.float32), np.zeros(0, np.float32))


def test_a_score_at_a_threshold_has_its_grade() -> None:
    scores = np.array([-1.0, 0.99, 1.0, 2.9, 3.0, 9.0], np.float32)
    assert grade(scores, Thresholds(1.0, 3.0)).tolist() == [0, 0, 1, 1, 2, 2]
    assert grade(scores, Thresholds(1.0, 1.0)).tolist() == [0, 0, 2, 2, 2, 2]


def test_what_is_nearly_the_text_of_a_source_counts_as_the_source_of_that_query_only() -> None:
    texts = {0: LOG, 1: LOG + ".", 2: "column K201 floods", 3: "column K201 floods at full load since the morning"}
    made = pool({"lexical": np.array([[1, 2], [1, 3]])}, [(0,), (3,)])
    assert list(zip(made.queries.tolist(), made.rows.tolist(), strict=True)) == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 3)]
    assert origin_repeats(made, [(0,), (3,)], texts).tolist() == [True, True, False, False, True]


def test_contributions_count_what_no_other_retriever_found() -> None:
    made = pool({"lexical": np.array([[0, 1]]), "dense": np.array([[1, 2]])}, [(3,)])
    assert contributions(made, np.array([1, 2, 0, 2])) == {
        "lexical": {"candidates": 2, "relevant": 2, "relevant_alone": 1},
        "dense": {"candidates": 2, "relevant": 1, "relevant_alone": 0},
    }
