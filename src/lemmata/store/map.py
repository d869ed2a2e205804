"""The map of a corpus: a place in the plane for each passage, written once, read memory-mapped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.errors import WorkspaceError
from lemmata.files import read_array, writing
from lemmata.store.artefacts import open_artefact, passage_map, read_undamaged, seal
from lemmata.store.layout import Layout, read_manifest
from lemmata.store.vector_sets import VectorSet, vector_set
from lemmata.store.vectors import open_vectors
from lemmata.types import Floats

__all__ = ["StoredMap", "map_is_up_to_date", "open_map", "write_map"]

_LARGEST = 65_535  # of a coordinate


class StoredMap(NamedTuple):
    """Where each passage lies, by row of the corpus."""

    x: npt.NDArray[np.uint16]  # (n,)
    y: npt.NDArray[np.uint16]  # (n,)
    method: str  # umap or pca


def open_map(layout: Layout, corpus: str | None = None) -> StoredMap:
    """The map by the encoder that search uses, of a corpus, by default of the present one.

    WorkspaceError where there is none, or only that of other vectors or of another corpus.
    """
    vectors = vector_set(layout)
    if vectors is None:
        raise WorkspaceError("a map needs vectors: run 'lemmata index', then 'lemmata map'")
    open_vectors(layout, corpus)
    item = passage_map(vectors)
    manifest = open_artefact(layout, item)
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
