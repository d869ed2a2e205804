"""One contract for every index over vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.make import milvus_index, unit_vectors

from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.types import Index
from lemmata.vectors import ann, exact, milvus
from lemmata.vectors.ann import AnnIndex
from lemmata.vectors.exact import ExactIndex, Matrix, best

Make = Callable[[Matrix], Index]


@pytest.fixture(
    params=["exact", "exact in blocks", "ann", "ann with walks under filters", "milvus", "milvus with a graph"]
)
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    if request.param == "exact in blocks":
        monkeypatch.setattr(exact, "_BLOCK_ROWS", 7)
        monkeypatch.setattr(exact, "_CELLS", 21)
    if request.param == "ann with walks under filters":
        monkeypatch.setattr(ann, "FEW", 0)
    if request.param.startswith("exact"):
        return ExactIndex
    if request.param.startswith("milvus"):
        monkeypatch.setattr(milvus, "FEW", 0)
        return lambda matrix: milvus_index(matrix, tmp_path / "vectors.db", graph=request.param.endswith("graph"))
    return lambda matrix: AnnIndex.build(matrix, tmp_path / "graph.faiss")


def test_the_nearest_rows_come_best_first(make: Make) -> None:
    matrix, queries = unit_vectors(200), unit_vectors(10, seed=1)
    rows, scores = make(matrix).search(queries, 5)
    assert rows.shape == scores.shape == (10, 5)
    assert rows.dtype == np.int64
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(rows, np.argsort(-(queries @ matrix.T), axis=1)[:, :5])
    np.testing.assert_allclose(scores, np.take_along_axis(queries @ matrix.T, rows, 1), rtol=1e-5, atol=1e-6)


def test_a_row_finds_itself(make: Make) -> None:
    matrix = unit_vectors(100)
    assert make(matrix).search(matrix, 1)[0][:, 0].tolist() == list(range(100))


def test_equal_scores_come_in_the_order_of_rows(make: Make) -> None:
    matrix = np.repeat(unit_vectors(3), 4, axis=0)
    assert make(matrix).search(matrix[4:5], 4)[0].tolist() == [[4, 5, 6, 7]]


def test_only_allowed_rows_are_found(make: Make) -> None:
    matrix, queries = unit_vectors(200), unit_vectors(10, seed=1)
    index = make(matrix)
    for share in (0.03, 0.5, 0.9):
        allowed = np.random.default_rng(2).random(200) < share
        rows, _ = index.search(queries, 4, allowed)
        expected = np.argsort(-np.where(allowed, queries @ matrix.T, -np.inf), axis=1)[:, :4]
        np.testing.assert_array_equal(rows, expected)


def test_missing_hits_are_marked(make: Make) -> None:
    index = make(unit_vectors(6))
    allowed = np.array([False, True, False, False, True, False])
    rows, scores = index.search(unit_vectors(2, seed=1), 4, allowed)
    assert [sorted(row) for row in rows.tolist()] == [[-1, -1, 1, 4]] * 2
    assert np.isneginf(scores[:, 2:]).all()
    assert index.search(unit_vectors(1), 9)[0].tolist()[0][6:] == [-1, -1, -1]
    assert index.search(unit_vectors(1), 2, np.zeros(6, np.bool_))[0].tolist() == [[-1, -1]]


def test_no_queries_and_no_hits_wanted_give_empty_answers(make: Make) -> None:
    index = make(unit_vectors(6))
    assert index.search(unit_vectors(0), 3)[0].shape == (0, 3)
    assert index.search(unit_vectors(2), 0)[0].shape == (2, 0)


def test_an_index_without_rows_finds_nothing(make: Make) -> None:
    assert make(unit_vectors(0)).search(unit_vectors(1), 2)[0].tolist() == [[-1, -1]]


def test_half_precision_and_memory_maps_are_searched(make: Make, tmp_path: Path) -> None:
    np.save(tmp_path / "matrix.npy", unit_vectors(50).astype(np.float16))
    matrix = np.load(tmp_path / "matrix.npy", mmap_mode="r")
    rows, scores = make(matrix).search(unit_vectors(50), 1)
    assert rows[:, 0].tolist() == list(range(50))
    assert scores.dtype == np.float32


def test_another_dimension_is_refused_with_the_cure(make: Make) -> None:
    with pytest.raises(InputError, match=r"8 .*16.*lemmata index"):
        make(unit_vectors(5)).search(unit_vectors(1, dimension=8), 3)
    with pytest.raises(InputError, match="5 rows"):
        make(unit_vectors(5)).search(unit_vectors(1), 3, np.ones(4, np.bool_))


def test_best_equals_a_stable_sort() -> None:
    generator = np.random.default_rng(0)
    for size in (0, 1, 10, 1000, 5000):
        for levels in (2, 50, 10**6):
            scores = generator.integers(levels, size=size).astype(np.float32)
            for k in (0, 1, 3, 10, size):
                np.testing.assert_array_equal(best(scores, k), np.argsort(-scores, kind="stable")[:k])


def test_a_graph_is_opened_again_and_held_to_its_matrix(tmp_path: Path) -> None:
    matrix, path = unit_vectors(100), tmp_path / "graph.faiss"
    built = AnnIndex.build(matrix, path, threads=1)
    first = path.read_bytes()
    opened = AnnIndex.open(path, matrix)
    np.testing.assert_array_equal(opened.search(matrix, 3)[0], built.search(matrix, 3)[0])
    with pytest.raises(WorkspaceError, match=r"100.*16"):
        AnnIndex.open(path, unit_vectors(99))
    AnnIndex.build(matrix, path, threads=1)
    assert path.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == ["graph.faiss"]
    path.write_bytes(b"nothing")
    with pytest.raises(WorkspaceError, match="lemmata index"):
        AnnIndex.open(path, matrix)


def test_a_graph_that_grew_and_shrank_finds_what_an_exact_search_finds(tmp_path: Path) -> None:
    before, queries = unit_vectors(300), unit_vectors(8, seed=1)
    AnnIndex.build(before, tmp_path / "before.faiss", threads=1)
    generator = np.random.default_rng(2)
    kept = generator.permutation(300)[:260]  # 40 are gone, and the others in another order
    rows = np.full(300, -1)
    places = generator.permutation(290)
    rows[kept] = places[:260]
    matrix = np.empty((290, before.shape[1]), np.float32)
    matrix[places[:260]], matrix[places[260:]] = before[kept], unit_vectors(30, seed=3)
    grown, nodes = AnnIndex.grow(tmp_path / "before.faiss", rows, matrix, tmp_path / "after.faiss", threads=1)
    assert sorted(nodes[nodes >= 0].tolist()) == list(range(290))
    allowed = generator.random(290) < 0.5
    for index in (grown, AnnIndex.open(tmp_path / "after.faiss", matrix)):
        for mask in (None, allowed):
            found, exact = index.search(queries, 5, mask), ExactIndex(matrix).search(queries, 5, mask)
            np.testing.assert_array_equal(found[0], exact[0])
            np.testing.assert_allclose(found[1], exact[1], rtol=1e-5)
    with pytest.raises(WorkspaceError, match=r"290.*16"):
        AnnIndex.open(tmp_path / "after.faiss", before)


def test_where_the_graph_does_not_reach_enough_allowed_rows_the_search_is_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix, queries = unit_vectors(300), unit_vectors(5, seed=3)
    index = AnnIndex.build(matrix, tmp_path / "graph.faiss")
    monkeypatch.setattr(ann, "FEW", 0)
    monkeypatch.setattr(AnnIndex, "_walk", lambda *_: np.array([0, 1], np.int64))  # a walk that finds too little
    allowed = np.arange(300) % 3 == 0
    rows, scores = index.search(queries, 10, allowed)
    expected_rows, expected_scores = ExactIndex(matrix).search(queries, 10, allowed)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)
