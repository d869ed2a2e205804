"""The map of a corpus: a place in the plane for each passage, computed once from its vector."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from lemmata.errors import WorkspaceError
from lemmata.geometry.plane import choose_method, place
from lemmata.store.layout import Layout
from lemmata.store.map import map_is_up_to_date, write_map
from lemmata.store.vector_sets import vector_set
from lemmata.store.vectors import open_vectors
from lemmata.types import Floats, Progress

__all__ = ["build_map"]


def build_map(layout: Layout, seed: int, progress: Progress) -> dict[str, Any]:
    """Place all passages by the vectors that search uses; a map that is up to date stays as it is."""
    begin = time.monotonic()
    with layout.hold():
        vectors = vector_set(layout)
        if vectors is None:
            raise WorkspaceError("a map needs vectors: run 'lemmata index' first")
        matrix: Floats = open_vectors(layout).matrix
        method = choose_method()
        report = {"passages": len(matrix), "method": method, "encoder": vectors.encoder}
        if map_is_up_to_date(vectors, method, seed):
            return {**report, "placed": 0, "seconds": time.monotonic() - begin}
        places = place(matrix, method, np.random.default_rng(seed), progress)
        write_map(vectors, places, method, seed)
    return {**report, "placed": len(matrix), "seconds": time.monotonic() - begin}
