from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import unit_vectors

from lemmata.core.types import Crowding, Floats
from lemmata.core.workspace import silent
from lemmata.corpus.texts import Hashes, hash_text, match_rows
from lemmata.search.fusion import Fusion, candidates, combine
from lemmata.vectors import crowding as module
from lemmata.vectors.crowding import KnownCrowding, measure_crowding


def hashes_of(vectors: Floats) -> Hashes:
    return np.array([hash_text(str(vector.tolist())) for vector in vectors], np.int64).view(np.uint64)


@settings(max_examples=30)
@given(count=st.integers(2, 60), nearest=st.integers(1, 8), block=st.integers(1, 70), seed=st.integers(0, 9))
def test_crowding_is_the_mean_cosine_of_the_nearest(count: int, nearest: int, block: int, seed: int) -> None:
    vectors = unit_vectors(count, seed, 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_NEAREST", nearest)
        patch.setattr(module, "_BLOCK", block)
        values, spread = measure_crowding(vectors, hashes_of(vectors), silent).crowding
    cosines = vectors.astype(np.float64) @ vectors.T
    others = cosines[~np.eye(count, dtype=bool)].reshape(count, count - 1)
    near = -np.sort(-others, axis=1)[:, :nearest].mean(axis=1)
    expected = near.mean() - others.mean()
    if expected < 2e-3:  # all are equally near
        assert not values.any() or spread == pytest.approx(expected, abs=1e-5)
        return
    assert spread == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(values * spread, near - near.mean(), atol=1e-5)


def test_a_sample_tells_nearly_the_same_as_all() -> None:
    random = np.random.default_rng(0)
    centres, group = unit_vectors(20, 1, 8), random.integers(0, 20, 3000)
    vectors = centres[group] + random.normal(size=(3000, 8)) * np.linspace(0.1, 0.6, 20)[group, None]
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    sampled = measure_crowding(vectors, hashes_of(vectors), silent).crowding
    cosines = vectors @ vectors.T - 2 * np.eye(3000, dtype=np.float32)
    near = -np.sort(-cosines, axis=1)[:, :29].mean(axis=1)  # 20 of a sample of 2,048 are 29 of 3,000
    assert np.corrcoef(sampled.values, near)[0, 1] > 0.99


@pytest.mark.parametrize("vectors", [unit_vectors(0, 0), unit_vectors(1, 0), np.repeat(unit_vectors(1, 0), 5, axis=0)])
def test_nothing_is_crowded_where_no_passage_is_nearer_than_another(vectors: Floats) -> None:
    values, spread = measure_crowding(vectors, hashes_of(vectors), silent).crowding
    assert values.tolist() == [0.0] * len(vectors)
    assert spread == 1


@settings(max_examples=30)
@given(
    sample=st.integers(12, 30),
    gone=st.lists(st.integers(0, 59), max_size=6),
    new=st.integers(0, 6),
    seed=st.integers(0, 9),
)
def test_crowding_that_is_brought_up_to_date_is_that_of_a_new_measurement(
    sample: int, gone: list[int], new: int, seed: int
) -> None:
    before = unit_vectors(60, seed, 8)
    vectors = np.concatenate([np.delete(before, gone, axis=0), unit_vectors(new, seed + 100, 8)])
    vectors = np.ascontiguousarray(np.random.default_rng(seed).permutation(vectors))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SAMPLE", sample)
        patch.setattr(module, "_NEAREST", 4)
        patch.setattr(module, "_MOST_CHANGED", 1.0)
        _, near, edges = measure_crowding(before, hashes_of(before), silent)
        rows = match_rows(hashes_of(before), hashes_of(vectors))
        known = KnownCrowding(before, hashes_of(before), near, edges, rows)
        updated = measure_crowding(vectors, hashes_of(vectors), silent, known)
        again = measure_crowding(vectors, hashes_of(vectors), silent)
    np.testing.assert_allclose(updated.crowding.values, again.crowding.values, atol=1e-4)
    np.testing.assert_allclose(updated.edges, again.edges, atol=1e-5)
    assert updated.crowding.spread == pytest.approx(again.crowding.spread, abs=1e-5)


# ---------------------------------------------------------------- in the fusion

cosines = st.lists(st.integers(-100, 100), min_size=1, max_size=8, unique=True).map(lambda found: sorted(found)[::-1])


@given(
    found=cosines, weight=st.sampled_from([0.3, 0.7, 1.0]), share=st.sampled_from([0.0, 0.4]), seed=st.integers(0, 5)
)
def test_a_calibrated_score_is_the_distance_to_the_last_cosine_less_the_crowding(
    found: list[int], weight: float, share: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    rows, scores = np.arange(len(found), dtype=np.int64)[None], np.array([found], np.float32) / np.float32(100)
    words = np.array([[3, 9]]), np.array([[5.0, 4.0]], np.float32)
    crowding = Crowding(random.normal(size=12).astype(np.float32), 0.25)
    fused = combine(candidates((rows, scores), words, crowding), 12, Fusion(weight=weight, crowding=share))
    sure = (found[0] - found[-1]) / 100 / 0.25  # the vectors, so that words count less
    lexical = {3: 1 / max(1, sure**2), 9: 0.0} if weight < 1 else {}
    expected = {
        row: weight * max(0, (found[row] - found[-1]) / 100 / 0.25 if row < len(found) else 0)
        + (1 - weight) * lexical.get(row, 0)
        - weight * share * float(crowding.values[row])
        for row in {*range(len(found) - (len(found) > 1)), *lexical}
    }
    got = {int(row): float(score) for row, score in zip(fused[0][0], fused[1][0], strict=True) if row >= 0}
    assert got == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("spread", "first"), [(0.1, 1), (0.4, 5)])
def test_words_count_the_less_the_surer_the_vectors_are(spread: float, first: int) -> None:
    dense = np.array([[1, 5, 7]]), np.array([[0.5, 0.45, 0.3]], np.float32)
    words = np.array([[5, 7]]), np.array([[9.0, 8.0]], np.float32)
    crowding = Crowding(np.zeros(8, np.float32), spread)
    assert combine(candidates(dense, words, crowding), 1, Fusion(weight=0.65))[0].tolist() == [[first]]


def test_of_two_equally_near_passages_the_one_that_stands_apart_comes_first() -> None:
    dense = np.array([[4, 2, 7]]), np.array([[0.8, 0.8, 0.1]], np.float32)
    none = np.array([[-1]]), np.array([[-np.inf]], np.float32)
    crowding = Crowding(np.array([0, 0, 0.9, 0, 1.1, 0, 0, -3], np.float32), 0.3)
    assert combine(candidates(dense, none, crowding), 2, Fusion(crowding=0.2))[0].tolist() == [[2, 4]]
    assert combine(candidates(dense, none, crowding), 2, Fusion(crowding=0.0))[0].tolist() == [[2, 4]]
    assert combine(candidates(dense, none, Crowding(-crowding.values, 0.3)), 2, Fusion())[0].tolist() == [[4, 2]]
