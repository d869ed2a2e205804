"""The map of a corpus: a place in the plane for each passage, written once, read memory-mapped."""

from __future__ import annotations

import importlib.util
import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.artefacts import is_current, making, open_artefact, passage_map
from lemmata.core.errors import WorkspaceError
from lemmata.core.files import read_array
from lemmata.core.types import Floats
from lemmata.core.workspace import Workspace, read_manifest, vector_set
from lemmata.search.plane import place
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


def build_map(workspace: Workspace, *, seed: int = 0) -> dict[str, Any]:
    """Place all passages in the plane by the vectors that search uses; a map that is up to date stays as it is."""
    begin = time.monotonic()
    with workspace.hold():
        vectors = vector_set(workspace)
        if vectors is None:
            raise WorkspaceError("a map needs vectors: run 'lemmata index' first")
        matrix: Floats = open_vectors(workspace).matrix
        method = "umap" if importlib.util.find_spec("numba") else "pca"
        report = {"passages": len(matrix), "method": method, "encoder": vectors.encoder}
        item = passage_map(vectors)
        recipe = {"verb": "map", "vectors": read_manifest(vectors.manifest), "method": method, "seed": seed}
        if is_current(item, recipe):
            return {**report, "placed": 0, "seconds": time.monotonic() - begin}
        places = place(matrix, method, np.random.default_rng(seed), workspace.progress)
        scaled = np.rint((np.clip(places, -1, 1) + 1) / 2 * _LARGEST).astype(np.uint16)
        with making(item, recipe) as folder:
            for number, name in enumerate("xy"):
                np.save(folder / f"{name}.npy", np.ascontiguousarray(scaled[:, number]))
    return {**report, "placed": len(matrix), "seconds": time.monotonic() - begin}
