"""The learned metric of a set of vectors: embeddings, lengths of links and query head, memory-mapped.

Embeddings hold for as long as the vectors do; lengths only for the graph on which the metric was learned.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lemmata.errors import WorkspaceError
from lemmata.files import read_array, writing
from lemmata.store.artefacts import check_source, learned_metric, open_artefact, seal
from lemmata.store.layout import Layout, open_manifest, read_manifest
from lemmata.store.lengths import graph_inputs
from lemmata.store.vector_sets import VectorSet, vector_set
from lemmata.types import Floats, MeasuredGraph

__all__ = [
    "FROM_TEXT",
    "HASHES",
    "HEAD",
    "StoredMetric",
    "metric_checkpoint",
    "metric_report",
    "open_metric",
    "writing_metric",
]

HEAD = "head.onnx"
FROM_TEXT = "from_text.npy"  # which passages have their embedding from text alone; none where it is missing
HASHES = "hashes.npy"  # of the texts of the passages, as those of their vectors


class StoredMetric(NamedTuple):
    """A metric that helps, of the present vectors."""

    h: Floats  # (passages, dimension)
    graph: MeasuredGraph | None  # the nodes of the graph with the links between passages; None where it changed since
    head: Path  # ONNX: vectors of texts to embeddings and factors
    epsilon: float
    seeds: int
    query_weight: float


def open_metric(layout: Layout, encoder: str = "") -> StoredMetric | None:
    """The metric of an encoder; None where there is none, where it did not help, or where it is out of date.

    `metric_report` says which. WorkspaceError where it is damaged.
    """
    vectors = vector_set(layout, encoder)
    if vectors is None:
        return None
    item = learned_metric(vectors)
    open_manifest(item.manifest, item.repair)  # a damaged manifest would look like none
    report = metric_report(layout, vectors)
    if report is None or not (report["kept"] and report["up_to_date"]):
        return None
    manifest = open_artefact(layout, item)
    graph = None
    if report["geodesic"]:
        graph = MeasuredGraph(*(read_array(item.folder / f"{name}.npy", item.cure) for name in MeasuredGraph._fields))
    settings = manifest["search"]
    return StoredMetric(
        read_array(item.folder / "h.npy", item.cure),
        graph,
        item.folder / HEAD,
        settings["epsilon"],
        settings["seeds"],
        settings["query_weight"],
    )


def metric_report(layout: Layout, vectors: VectorSet) -> dict[str, Any] | None:
    """What training the metric found, whether it is `kept`, and whether it is `up_to_date`; None without one.

    A damaged one may be up to date: `open_metric` checks the files.
    `geodesic`: whether its lengths are those of the present graph. `from_text`: passages that came later, which have
    an embedding from their text alone.
    """
    manifest = read_manifest(vectors.metric / "manifest.json")
    if manifest is None:
        return None
    up_to_date = True
    try:
        check_source(layout, learned_metric(vectors), manifest)
    except WorkspaceError:
        up_to_date = False
    geodesic = up_to_date and manifest["report"]["kept"] and manifest["graph"] == graph_inputs(layout)
    from_text = manifest.get("from_text", 0)
    return {**manifest["report"], "up_to_date": up_to_date, "geodesic": geodesic, "from_text": from_text}


def metric_checkpoint(vectors: VectorSet, manifest: Mapping[str, Any]) -> Path:
    """The file from which the training of the metric with this manifest resumes; it has another for other sources."""
    sources = [manifest[name] for name in ("options", "split", "graph", "vectors")]
    digest = hashlib.sha256(json.dumps(sources, sort_keys=True).encode()).hexdigest()
    return vectors.metric.with_name(f"metric.{digest[:12]}.partial.pt")


@contextlib.contextmanager
def writing_metric(layout: Layout, vectors: VectorSet, content: Mapping[str, Any]) -> Iterator[Path]:
    """A folder to fill, which replaces the metric at the end; `content` may name another graph than the present one."""
    with writing(vectors.metric) as folder:
        folder.mkdir()
        yield folder
        source = {"vectors": read_manifest(vectors.manifest), "graph": graph_inputs(layout)}
        seal(folder, {"verb": "metric", **source, **content})
