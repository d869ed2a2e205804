"""Intervals and tests: against scipy, by hand for few pairs, and in bounded memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from lemmata.core.errors import InputError
from lemmata.evaluate.significance import bootstrap, compare, gain, randomisation

stats = pytest.importorskip("scipy.stats")


def fresh() -> np.random.Generator:
    return np.random.default_rng(3)


def test_the_interval_agrees_with_the_percentile_bootstrap_of_scipy() -> None:
    values = fresh().beta(0.4, 0.7, 150)
    low, high = bootstrap(values, generator=fresh(), samples=20_000)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=fresh(), batch=1000
    ).confidence_interval
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.003)
    assert low < values.mean() < high


def test_the_interval_of_one_value_has_no_width_and_of_none_is_refused() -> None:
    assert bootstrap(np.array([0.25]), generator=fresh()) == (0.25, 0.25)
    with pytest.raises(InputError):
        bootstrap(np.array([]), generator=fresh())


def test_a_gain_is_confirmed_by_its_interval_never_by_a_tie_or_by_few_queries() -> None:
    before, better = fresh().random(40), fresh().random(40) + 0.2
    found = gain(before, better)
    assert found.mean == pytest.approx(0.2)
    assert found.is_confirmed
    assert gain(better, before).is_loss
    for other in (gain(before, before), gain(before[:9], better[:9]), gain(before[:0], better[:0])):
        assert not other.is_confirmed
        assert not other.is_loss
    by_chance = before + np.resize([0.5, -0.49], 40)
    assert not gain(before, by_chance).is_confirmed


@pytest.mark.parametrize("place", [0, 9])
def test_every_query_may_be_drawn(place: int) -> None:
    values = np.zeros(10)
    values[place] = 1
    assert bootstrap(values, generator=fresh())[1] > 0.2


def test_the_same_generator_gives_the_same_numbers() -> None:
    values = fresh().random(50)
    assert bootstrap(values, generator=fresh()) == bootstrap(values, generator=fresh())
    other = fresh().permutation(values)
    assert randomisation(values, other, generator=fresh()) == randomisation(values, other, generator=fresh())


def test_many_queries_are_sampled_in_bounded_memory() -> None:
    values = fresh().random(100_000)
    tracemalloc.start()
    bootstrap(values, generator=fresh(), samples=100)
    randomisation(values, values[::-1], generator=fresh(), samples=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 2**20  # all samples at once would take 80 MiB per array, and there are several


@pytest.mark.parametrize("n", [2, 3, 8, 12])
def test_few_pairs_are_tested_exactly_as_scipy_does(n: int) -> None:
    a, b = np.round(fresh().random((2, n)), 1)
    expected = stats.permutation_test(
        (a - b,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert randomisation(a, b, generator=fresh()) == pytest.approx(expected.pvalue, abs=1e-12)


def test_many_pairs_are_tested_by_sampling_as_scipy_does() -> None:
    a = fresh().random(80)
    b = a - 0.06 + 0.3 * fresh().standard_normal(80)
    expected = stats.permutation_test(
        (a - b,), np.mean, permutation_type="samples", n_resamples=20_000, rng=fresh(), batch=2000
    )
    assert 0.01 < expected.pvalue < 0.9
    assert randomisation(a, b, generator=fresh(), samples=20_000) == pytest.approx(expected.pvalue, abs=0.015)


def test_three_wins_of_three_cannot_be_significant() -> None:
    assert randomisation(np.ones(3), np.zeros(3), generator=fresh()) == 2 / 8


def test_a_clear_difference_has_the_smallest_p_of_sampling_and_no_difference_has_one() -> None:
    a = fresh().random(200)
    assert randomisation(a, a - 0.5, generator=fresh(), samples=999) == 1 / 1000
    assert randomisation(a, a, generator=fresh()) == 1.0
    assert randomisation(np.array([]), np.array([]), generator=fresh()) == 1.0
    with pytest.raises(InputError, match="3 and 2"):
        randomisation(np.zeros(3), np.zeros(2), generator=fresh())


def test_under_the_null_hypothesis_p_is_uniform() -> None:
    generator = fresh()
    ps = [randomisation(*generator.random((2, 30)), generator=generator, samples=500) for _ in range(300)]
    assert stats.kstest(ps, "uniform").pvalue > 0.01


def test_p_is_corrected_by_the_number_of_comparisons_and_stops_at_one() -> None:
    base = np.zeros(10)
    values = {"a": base, "b": base + 1, "c": np.array([1.0, *[0.0] * 9]), "d": np.array([*[1.0] * 6, *[0.0] * 4])}
    comparisons = compare({name: {"R@20": value} for name, value in values.items()}, "R@20", "a", fresh())
    assert [pair.p for pair in comparisons] == [2 / 2**10, 1.0, 2 / 2**6]
    assert [pair.p_corrected for pair in comparisons] == pytest.approx([6 / 2**10, 1.0, 6 / 2**6])


RESULTS = {
    "lexical": {"MRR@10": np.array([1.0, 0.5, 0.0, 0.25])},
    "dense": {"MRR@10": np.array([1.0, 1.0, 0.0, 0.5])},
    "hybrid": {"MRR@10": np.array([1.0, 1.0, 0.5, 0.2])},
}


def test_all_retrievers_are_compared_with_the_baseline_query_by_query() -> None:
    dense, hybrid = compare(RESULTS, "MRR@10", "lexical", fresh())
    assert (dense.first, dense.second, dense.measure) == ("dense", "lexical", "MRR@10")
    assert (dense.wins, dense.ties, dense.losses) == (2, 2, 0)
    assert dense.difference == pytest.approx(0.75 / 4)
    assert dense.p == 0.5  # two differences, both of one sign
    assert dense.p_corrected == 1.0
    assert dense.low <= dense.difference <= dense.high
    assert (hybrid.wins, hybrid.ties, hybrid.losses) == (2, 1, 1)
    assert hybrid.p_corrected == min(1.0, 2 * hybrid.p)


def test_intervals_of_differences_are_of_95_percent() -> None:
    generator = np.random.default_rng(3)
    results = {name: {"R@20": generator.normal(0.5, 0.1, 2000)} for name in ("one", "other")}
    (pair,) = compare(results, "R@20", "other", generator)
    difference = results["one"]["R@20"] - results["other"]["R@20"]
    error = difference.std() / 2000**0.5  # the mean of so many is normally distributed
    assert pair.high - pair.low == pytest.approx(2 * 1.96 * error, rel=0.08)
