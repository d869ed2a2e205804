"""The map: near vectors lie near each other, it is stored once, and it knows when it is out of date."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.make import copied, make_workspace, write

from lemmata.core.errors import WorkspaceError
from lemmata.core.types import Floats, Integers
from lemmata.core.workspace import silent
from lemmata.project import Project
from lemmata.search import plane
from lemmata.search.map import StoredMap, open_map
from lemmata.server.map import Mentions, name_regions


def clusters(number: int, size: int, seed: int = 3) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(number, 32))
    labels = np.repeat(np.arange(number), size)
    matrix = centres[labels] + 0.15 * rng.normal(size=(number * size, 32))
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32), labels


def nearest_label_share(places: Floats, labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    squares = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    return float((labels[squares.argmin(axis=1)] == labels).mean())


def preserved_neighbours(matrix: Floats, places: Floats, rows: Integers, k: int = 10) -> float:
    """The share of the k nearest vectors of some rows that are among the 2k nearest points on the map."""
    shares = []
    for row in rows.tolist():
        near = np.asarray(matrix, np.float32) @ np.asarray(matrix[row], np.float32)
        near[row] = -np.inf
        squares = ((places - places[row]) ** 2).sum(axis=1)
        squares[row] = np.inf
        nearest, on_map = np.argpartition(-near, k)[:k], np.argpartition(squares, 2 * k)[: 2 * k]
        shares.append(len(np.intersect1d(nearest, on_map)) / k)
    return float(np.mean(shares))


def principal_plane(matrix: Floats) -> Floats:
    return plane.place(matrix, "pca", np.random.default_rng(0), silent)


@pytest.mark.slow
def test_clusters_stay_together_and_the_same_seed_gives_the_same_map() -> None:
    matrix, labels = clusters(80, 12)
    places = plane.place(matrix, "umap", np.random.default_rng(1), silent)
    assert places.shape == (960, 2)
    assert np.abs(places).max() <= 1
    assert nearest_label_share(places, labels) > 0.97
    assert (places == plane.place(matrix, "umap", np.random.default_rng(1), silent)).all()
    rows = np.arange(0, 960, 20)
    kept = [preserved_neighbours(matrix, each, rows) for each in (places, principal_plane(matrix))]
    assert kept[0] > kept[1] + 0.2


def test_points_beyond_the_landmarks_follow_them(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, labels = clusters(6, 60)
    monkeypatch.setattr(plane, "_LANDMARKS", 120)
    places = plane.place(matrix, "umap", np.random.default_rng(1), silent)
    assert nearest_label_share(places, labels) > 0.97


def test_principal_components_are_those_of_a_singular_value_decomposition() -> None:
    matrix, _ = clusters(5, 20)
    centred = matrix - matrix.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:2]
    expected = centred @ directions.T
    made = principal_plane(matrix)
    for axis in range(2):
        assert abs(np.corrcoef(made[:, axis], expected[:, axis])[0, 1]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    "matrix", [np.eye(1), np.eye(2), np.eye(3), np.ones((9, 4)), np.zeros((5, 4)), np.zeros((0, 4))]
)
@pytest.mark.parametrize("method", ["umap", "pca"])
def test_tiny_and_degenerate_corpora_have_a_map(matrix: Floats, method: str) -> None:
    places = plane.place(matrix.astype(np.float32), method, np.random.default_rng(0), silent)
    assert places.shape == (len(matrix), 2)
    assert np.isfinite(places).all()


@copied
def project(folder: Path) -> Project:
    statements = "".join(
        f"\\begin{{theorem}}Every {name} of finite {size} is {kind}.\\end{{theorem}}\n"
        for name in ("group", "ring", "module")
        for size in ("order", "length")
        for kind in ("noetherian", "simple", "free")
    )
    head = "\\documentclass{article}\\newtheorem{theorem}{Theorem}\\begin{document}"
    notes = write(folder / "notes", {"a.tex": f"{head}{statements}\\end{{document}}"})
    return make_workspace(folder, notes, index=None)


def test_a_map_is_made_once_and_goes_out_of_date_with_the_vectors(project: Project, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="lemmata index"):
        project.map()
    project.index(settings={"encoder": "lemmata-nano"})
    with pytest.raises(WorkspaceError, match="lemmata map"):
        open_map(project)
    report = project.map()
    assert report["placed"] == report["passages"] == 18
    stored = open_map(project)
    assert stored.x.dtype == stored.y.dtype == np.uint16
    assert len(stored.x) == 18
    assert stored.method == "umap"
    assert project.map()["placed"] == 0
    assert project.map(seed=1)["placed"] == 18

    write(tmp_path / "notes", {"b.tex": "\\documentclass{article}\\begin{document}One more note.\\end{document}"})
    project.ingest([tmp_path / "notes"])
    project.index()
    with pytest.raises(WorkspaceError, match="lemmata map"):
        open_map(project)
    assert project.map()["placed"] == 19


def test_without_numba_the_map_shows_two_directions(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.index(settings={"encoder": "lemmata-nano"})
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert project.map()["method"] == "pca"


def test_a_region_is_named_by_what_stands_there_more_than_elsewhere() -> None:
    x = np.array([1000] * 10 + [60000] * 10, np.uint16)
    rows = {"alpha": range(10), "beta": range(10, 20), "everywhere": range(20), "rare": [3]}
    pairs = [(number, row) for number, mentioned in enumerate(rows.values()) for row in mentioned]
    named, of = np.array(pairs, np.int64).T
    mentions = Mentions(list(rows), list(rows), np.ones(4, np.float32), named, of)
    regions = name_regions(StoredMap(x, x, "pca"), mentions)
    assert {(region["name"], region["x"], region["level"]) for region in regions} == {
        ("alpha", 1000, 0),
        ("beta", 60000, 0),
    }
    none = Mentions([], [], np.zeros(0, np.float32), named[:0], of[:0])
    assert name_regions(StoredMap(x, x, "pca"), none) == []
