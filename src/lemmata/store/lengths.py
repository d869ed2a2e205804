"""The lengths of the edges of the graph, by the vectors of an encoder: written once, read memory-mapped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.errors import WorkspaceError
from lemmata.files import create_array, read_array, writing
from lemmata.store.artefacts import edge_lengths, open_artefact, read_undamaged, seal
from lemmata.store.layout import Layout, read_manifest
from lemmata.store.vector_sets import VectorSet, vector_set
from lemmata.types import Floats, MeasuredGraph

__all__ = ["graph_inputs", "lengths_are_up_to_date", "measured_arrays", "open_lengths", "writing_lengths"]


def open_lengths(layout: Layout, encoder: str = "") -> MeasuredGraph:
    """The edges of the graph with their lengths by an encoder, by default by the one that search uses.

    WorkspaceError where there are none, or where they are those of another graph or of other vectors.
    """
    vectors = vector_set(layout, encoder)
    if vectors is None:
        raise WorkspaceError("paths need vectors: run 'lemmata index'")
    item = edge_lengths(vectors)
    manifest = open_artefact(layout, item)
    if manifest["graph"] != graph_inputs(layout):
        raise WorkspaceError(f"the graph was made again after the {item.name} was made: {item.cure}")
    return MeasuredGraph(*(read_array(item.folder / f"{name}.npy", item.cure) for name in MeasuredGraph._fields))


def lengths_are_up_to_date(layout: Layout, vectors: VectorSet) -> bool:
    """Whether the lengths of a set of vectors are those of the present graph and vectors."""
    manifest = read_undamaged(edge_lengths(vectors)) or {}
    wanted = {"vectors": read_manifest(vectors.manifest), "graph": graph_inputs(layout)}
    return {name: manifest.get(name) for name in wanted} == wanted


def graph_inputs(layout: Layout) -> Any:
    """What changes whenever the graph does; empty without one."""
    return (read_manifest(layout.manifest(layout.graph)) or {}).get("inputs", "")


def measured_arrays(folder: Path, nodes: int, edges: int) -> MeasuredGraph:
    """Arrays on the disk to fill in, for the edges in both directions."""
    entries = 2 * edges
    number = np.dtype(np.int32 if edges < 2**31 else np.int64)
    shapes: list[tuple[np.dtype[Any], int]] = [
        (np.dtype(np.int64), nodes + 1),
        (np.dtype(np.int32), entries),
        (np.dtype(np.float32), entries),
        (number, entries),
    ]
    places = [folder / f"{name}.npy" for name in MeasuredGraph._fields]
    return MeasuredGraph(
        *(create_array(path, kind, (size,)) for path, (kind, size) in zip(places, shapes, strict=True))
    )


@contextlib.contextmanager
def writing_lengths(
    layout: Layout, vectors: VectorSet, nodes: int, edges: int
) -> Iterator[tuple[MeasuredGraph, Floats]]:
    """Arrays on the disk to fill in, for both directions and (edges,) for one; they replace the lengths at the end."""
    with writing(vectors.lengths) as folder:
        folder.mkdir()
        result = measured_arrays(folder, nodes, edges)
        along = folder / "along.npy"
        yield result, create_array(along, np.dtype(np.float32), (edges,))
        for array in result:
            assert isinstance(array, np.memmap)
            array.flush()
        along.unlink()
        source = {"vectors": read_manifest(vectors.manifest), "graph": graph_inputs(layout)}
        seal(folder, {"verb": "index", **source})
