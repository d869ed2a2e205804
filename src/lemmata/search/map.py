"""The map of a corpus: a place in the plane for each passage, written once, read memory-mapped."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.artefacts import open_artefact, passage_map, read_undamaged, seal
from lemmata.core.errors import WorkspaceError
from lemmata.core.files import read_array, writing
from lemmata.core.types import Floats
from lemmata.core.workspace import VectorSet, Workspace, read_manifest, vector_set
from lemmata.search.plane import choose_method, place
from lemmata.vectors.store import open_vectors

_LARGEST = 65_535  # of a coordinate


class StoredMap(NamedTuple):
    """Where each passage lies, by row of the corpus."""

    x: npt.NDArray[np.uint16]  # (n,)
    y: npt.NDArray[np.uint16]  # (n,)
    method: str  # umap or pca


def open_map(workspace: Workspace, corpus: str | None = None) -> StoredMap:
    """The map by the encoder that search uses, of a corpus, by default of the present one.

    WorkspaceError where there is none, or only that of other vectors or of another corpus.
    """
    vectors = vector_set(workspace)
    if vectors is None:
        raise WorkspaceError("a map needs vectors: run 'lemmata index', then 'lemmata map'")
    open_vectors(workspace, corpus)
    item = passage_map(vectors)
    manifest = open_artefact(workspace, item)
    x, y = (read_array(item.folder / f"{name}.npy", item.cure) for name in ("x", "y"))
    return StoredMap(x, y, manifest["method"])


def map_is_up_to_date(vectors: VectorSet, method: str, seed: int) -> bool:
    """Whether the map was made from the present vectors in this way."""
    manifest = read_undamaged(passage_map(vectors)) or {}
    wanted = {"vectors": read_manifest(vectors.manifest), "method": method, "seed": seed}
    return {name: manifest.get(name) for name in wanted} == wanted


def write_map(vectors: VectorSet, places: Floats, method: str, seed: int) -> None:
    """Store places (n, 2) within [-1, 1]."""
    scaled = np.rint((np.clip(places, -1, 1) + 1) / 2 * _LARGEST).astype(np.uint16)
    with writing(vectors.map) as folder:
        folder.mkdir()
        for number, name in enumerate("xy"):
            np.save(folder / f"{name}.npy", np.ascontiguousarray(scaled[:, number]))
        source = {"vectors": read_manifest(vectors.manifest)}
        seal(folder, {"verb": "map", "method": method, "seed": seed, **source})


def build_map(workspace: Workspace, seed: int) -> dict[str, Any]:
    """Place all passages by the vectors that search uses; a map that is up to date stays as it is."""
    begin = time.monotonic()
    with workspace.hold():
        vectors = vector_set(workspace)
        if vectors is None:
            raise WorkspaceError("a map needs vectors: run 'lemmata index' first")
        matrix: Floats = open_vectors(workspace).matrix
        method = choose_method()
        report = {"passages": len(matrix), "method": method, "encoder": vectors.encoder}
        if map_is_up_to_date(vectors, method, seed):
            return {**report, "placed": 0, "seconds": time.monotonic() - begin}
        places = place(matrix, method, np.random.default_rng(seed), workspace.progress)
        write_map(vectors, places, method, seed)
    return {**report, "placed": len(matrix), "seconds": time.monotonic() - begin}
