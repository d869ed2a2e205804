"""The learned metric of a set of vectors: embeddings, lengths of links and query head, memory-mapped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lemmata.errors import WorkspaceError
from lemmata.files import read_array, writing
from lemmata.store.artefacts import learned_metric, open_artefact, seal
from lemmata.store.layout import Layout, read_manifest
from lemmata.store.lengths import graph_inputs
from lemmata.store.vector_sets import VectorSet, vector_set
from lemmata.types import Floats, MeasuredGraph

__all__ = ["StoredMetric", "metric_report", "open_metric", "writing_metric"]

HEAD = "head.onnx"


class StoredMetric(NamedTuple):
    """A metric that helps, of the present graph and vectors."""

    h: Floats  # (passages, dimension)
    graph: MeasuredGraph  # the nodes of the graph with the links between passages
    head: Path  # ONNX: vectors of texts to embeddings and factors
    epsilon: float
    seeds: int
    query_weight: float


def open_metric(layout: Layout, encoder: str = "") -> StoredMetric | None:
    """The metric of an encoder; None where there is none, where it did not help, or where it is out of date.

    `metric_report` says which. WorkspaceError where it is damaged.
    """
    vectors = vector_set(layout, encoder)
    report = metric_report(layout, vectors) if vectors else None
    if vectors is None or report is None or not (report["kept"] and report["up_to_date"]):
        return None
    item = learned_metric(vectors)
    manifest = open_artefact(layout, item)
    h, *graph = (read_array(item.folder / f"{name}.npy", item.cure) for name in ("h", *MeasuredGraph._fields))
    settings = manifest["search"]
    return StoredMetric(
        h,
        MeasuredGraph(*graph),
        item.folder / HEAD,
        settings["epsilon"],
        settings["seeds"],
        settings["query_weight"],
    )


def metric_report(layout: Layout, vectors: VectorSet) -> dict[str, Any] | None:
    """What training the metric found, whether it is `kept`, and whether it is `up_to_date`; None without one."""
    manifest = read_manifest(vectors.metric / "manifest.json")
    if manifest is None:
        return None
    same_graph = manifest["graph"] == graph_inputs(layout)
    try:
        open_artefact(layout, learned_metric(vectors))
    except WorkspaceError:
        same_graph = False
    return {**manifest["report"], "up_to_date": same_graph}


@contextlib.contextmanager
def writing_metric(layout: Layout, vectors: VectorSet, content: Mapping[str, Any]) -> Iterator[Path]:
    """A folder to fill, which replaces the metric at the end."""
    with writing(vectors.metric) as folder:
        folder.mkdir()
        yield folder
        source = {"vectors": read_manifest(vectors.manifest), "graph": graph_inputs(layout)}
        seal(folder, {"verb": "metric", **source, **content})
