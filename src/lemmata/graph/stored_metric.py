"""Use of a learned metric without torch: distances from a query to passages, and one length per edge and direction.

Every node has an embedding h and a low-rank factor L of its metric G = L Lᵀ + εI. Factors are made where they are
needed, a block at a time: all of them would be (nodes, dimension, rank) numbers. Works on arrays, which may be
memory-mapped; knows no files.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.artefacts import learned_metric, making, open_artefact, read_undamaged, stale
from lemmata.core.files import create_array, read_array
from lemmata.core.types import Floats, Integers, Mask, MeasuredGraph, Progress, Ranking, no_hits
from lemmata.core.workspace import VectorSet, Workspace, open_manifest, read_manifest, vector_set
from lemmata.corpus.texts import match_rows
from lemmata.graph.lengths import graph_inputs, read_measured
from lemmata.vectors.store import open_vectors

# vectors of texts (n, inputs) to their embeddings (n, dimension) and factors (n, dimension, rank)
Head = Callable[[Floats], Sequence[Floats]]
Factors = Callable[[Integers], Floats]  # nodes (n,) to factors (n, dimension, rank)
_ROWS = 1 << 14  # embeddings in memory at once: 17 MB at dimension 256
_ALL = 1 << 15  # passages all of which a query is compared with
_QUERIES = 256  # whose factors are in memory at once: 8 MB at dimension 256 and rank 32
_EDGES = 512  # measured at once: 17 MB of factors at dimension 256 and rank 32


def local_distances(own: Floats, factor: Floats, others: Floats, epsilon: float) -> Floats:
    """The distances from one node (dimension,) to others (n, dimension) by its metric.

    d² = |Lᵀ(h_j - h_i)|² + ε |h_j - h_i|², which needs dimension · rank steps instead of dimension².
    """
    differences = np.asarray(others, np.float32) - own
    squared = np.square(differences @ factor).sum(axis=1) + epsilon * np.einsum("ij,ij->i", differences, differences)
    return np.asarray(np.sqrt(squared), np.float32)


class LearnedMetric:
    """The embeddings of all passages, and the head that gives a text its embedding and metric."""

    def __init__(self, h: Floats, epsilon: float, head: Head) -> None:
        self.h, self.epsilon, self.head = h, epsilon, head  # h (passages, dimension)

    @cached_property
    def _squares(self) -> Floats:
        """|h|² of all passages (passages,)."""
        blocks = [np.asarray(self.h[start : start + _ROWS]) for start in range(0, len(self.h), _ROWS)]
        return np.concatenate([np.einsum("ij,ij->i", block, block) for block in blocks])

    def search(self, vectors: Floats, k: int, allowed: Mask | None = None) -> Ranking:
        """The k nearest passages of each query, by its own metric: rows and similarities (n, k), best first.

        The similarity is 1 - d² / 2, the cosine of unit vectors at distance d. -1 and -inf where there are fewer.
        Reads all embeddings: passages · dimension · rank steps, some milliseconds for 20,000 passages.
        """
        hit_rows, similarities = no_hits(len(vectors), k)
        for query, (embedding, factor) in enumerate(self._headed(vectors)):
            product = self.h @ np.concatenate([factor, embedding[:, None]], axis=1)
            seen = product[:, :-1] - embedding @ factor
            squared = np.einsum("ij,ij->i", seen, seen)
            squared += self.epsilon * (self._squares - 2 * product[:, -1] + embedding @ embedding)
            if allowed is not None:
                squared[~allowed] = np.inf
            best = _smallest(squared, k)
            best = best[np.isfinite(squared[best])]
            hit_rows[query, : len(best)] = best
            similarities[query, : len(best)] = 1 - squared[best] / 2
        return hit_rows, similarities

    def search_among(self, vectors: Floats, k: int, rows: Integers, allowed: Mask | None = None) -> Ranking:
        """As `search`, but of a large corpus only the passages in `rows` (n, m; -1 is none) are compared."""
        if len(self.h) <= _ALL:
            return self.search(vectors, k, allowed)
        hit_rows, similarities = no_hits(len(vectors), k)
        for query, (embedding, factor) in enumerate(self._headed(vectors)):
            among = np.unique(rows[query][rows[query] >= 0])
            among = among if allowed is None else among[allowed[among]]
            distances = local_distances(embedding, factor, self.h[among], self.epsilon)
            best = _smallest(distances, k)
            hit_rows[query, : len(best)] = among[best]
            similarities[query, : len(best)] = 1 - np.square(distances[best]) / 2
        return hit_rows, similarities

    def _headed(self, vectors: Floats) -> Iterator[tuple[Floats, Floats]]:
        """Embedding and factor of each query, some at a time."""
        for start in range(0, len(vectors), _QUERIES):
            yield from zip(*self.head(np.asarray(vectors[start : start + _QUERIES], np.float32)), strict=True)


def _smallest(values: Floats, k: int) -> Integers:
    """The places of the k smallest values, in order."""
    places = np.sort(np.argpartition(values, k)[:k]) if len(values) > k else np.arange(len(values))
    return np.asarray(places[np.argsort(values[places], kind="stable")], np.int64)


def measure_by_metric(
    sources: Integers,
    targets: Integers,
    h: Floats,
    factors: Factors,
    epsilon: float,
    forward: Floats,
    backward: Floats,
    progress: Progress,
) -> None:
    """Fill in `forward` and `backward` (edges,): lengths along the edges and against them, by the metric of the end
    that is left.

    `h` (nodes, dimension) are the embeddings of the ends. Edges are taken by the end that is left, so that the factor
    of one with many edges is made once or twice.
    """
    edges = len(targets)
    for number, (left, reached, lengths) in enumerate(((sources, targets, forward), (targets, sources, backward))):
        order = np.argsort(left, kind="stable")
        for start in range(0, edges, _EDGES):
            progress("measuring edges", number * edges + start, 2 * edges)
            block = order[start : start + _EDGES]
            nodes, places = np.unique(left[block], return_inverse=True)
            differences = h[reached[block]] - h[left[block]]
            seen = np.einsum("ed,edr->er", differences, factors(nodes)[places])
            squared = np.square(seen).sum(axis=1) + epsilon * np.square(differences).sum(axis=1)
            lengths[block] = np.sqrt(squared)


HEAD = "head.onnx"
FROM_TEXT = "from_text.npy"  # which passages have their embedding from text alone; none where it is missing
HASHES = "hashes.npy"  # of the texts of the passages, as those of their vectors


class StoredMetric(NamedTuple):
    """A metric that helps, of the present vectors."""

    h: Floats  # (passages, dimension)
    graph: MeasuredGraph | None  # the nodes of the graph with the links between passages; None where it changed since
    head: Path  # ONNX: vectors of texts to embeddings and factors
    epsilon: float
    starts: int
    query_weight: float


def open_metric(workspace: Workspace, encoder: str = "") -> StoredMetric | None:
    """The metric of an encoder; None where there is none, where it did not help, or where it is out of date.

    `metric_report` says which. WorkspaceError where it is damaged.
    """
    vectors = vector_set(workspace, encoder)
    if vectors is None:
        return None
    item = learned_metric(vectors)
    open_manifest(item.manifest, item.repair)  # a damaged manifest would look like none
    report = metric_report(workspace, vectors)
    if report is None or not (report["kept"] and report["up_to_date"]):
        return None
    manifest = open_artefact(workspace, item)
    graph = None
    if report["geodesic"]:
        graph = read_measured(workspace, item)
    settings = manifest["search"]
    return StoredMetric(
        read_array(item.folder / "h.npy", item.cure),
        graph,
        item.folder / HEAD,
        settings["epsilon"],
        settings["seeds"],
        settings["query_weight"],
    )


def metric_report(workspace: Workspace, vectors: VectorSet) -> dict[str, Any] | None:
    """What training the metric found, whether it is `kept`, and whether it is `up_to_date`; None without one.

    A damaged one may be up to date: `open_metric` checks the files.
    `geodesic`: whether its lengths are those of the present graph. `from_text`: passages that came later, which have
    an embedding from their text alone.
    """
    manifest = read_manifest(vectors.metric / "manifest.json")
    if manifest is None:
        return None
    up_to_date = not stale(workspace, learned_metric(vectors), manifest)
    geodesic = up_to_date and manifest["report"]["kept"] and manifest["graph"] == graph_inputs(workspace)
    from_text = manifest.get("from_text", 0)
    return {**manifest["report"], "up_to_date": up_to_date, "geodesic": geodesic, "from_text": from_text}


def metric_checkpoint(vectors: VectorSet, manifest: Mapping[str, Any]) -> Path:
    """The file from which the training of the metric with this manifest resumes; it has another for other sources."""
    sources = [manifest[name] for name in ("options", "split", "graph", "vectors")]
    digest = hashlib.sha256(json.dumps(sources, sort_keys=True).encode()).hexdigest()
    return vectors.metric.with_name(f"metric.{digest[:12]}.partial.pt")


def metric_sources(workspace: Workspace, vectors: VectorSet) -> dict[str, Any]:
    """What the manifest of a metric says it was made from."""
    return {"vectors": read_manifest(vectors.manifest), "graph": graph_inputs(workspace)}


_ROWS_AT_ONCE = 256  # passages whose embeddings are made at once


# ---------------------------------------------------------------- passages that come later


def extend_metric(workspace: Workspace, encoder: str) -> int:
    """Bring the embeddings of a metric up to date with the vectors; returns how many were made from text alone.

    Lengths of links are not measured again: `geodesic` goes by text until the metric is learned again. Call it while
    holding the workspace.
    """
    vectors = vector_set(workspace, encoder)
    before = read_undamaged(learned_metric(vectors)) if vectors else None
    if vectors is None or before is None or not before["report"]["kept"]:
        return 0
    old, present = before["vectors"], read_manifest(vectors.manifest) or {}
    same_encoder = all(old.get(name) == present.get(name) for name in ("made_by", "dimension"))
    if old == present or not same_encoder:
        return 0
    from lemmata.encode.onnx import open_network  # loads onnxruntime

    stored = open_vectors(workspace, encoder=encoder)
    read = partial(read_array, cure="run 'lemmata train metric' again")
    h, hashes = (read(vectors.metric / name) for name in ("h.npy", HASHES))
    matches = match_rows(np.asarray(hashes), np.asarray(stored.hashes))
    new_rows = np.flatnonzero(matches < 0)
    from_text = matches < 0
    if FROM_TEXT in before["files"]:
        from_text |= np.append(read(vectors.metric / FROM_TEXT), True)[matches]  # the last one is for new rows
    kept = {name: before[name] for name in ("verb", "options", "split", "report", "search")}
    source = {"vectors": present, "graph": None, "from_text": int(from_text.sum())}
    head = open_network(vectors.metric / HEAD)
    with making(learned_metric(vectors), {**kept, **source}) as folder:
        extended = create_array(folder / "h.npy", h.dtype, (len(matches), h.shape[1]))
        for start in range(0, len(matches), _ROWS_AT_ONCE):
            extended[start : start + _ROWS_AT_ONCE] = h[np.maximum(matches[start : start + _ROWS_AT_ONCE], 0)]
        for start in range(0, len(new_rows), _ROWS_AT_ONCE):
            workspace.progress("embedding by the learned metric", start, len(new_rows))
            rows = new_rows[start : start + _ROWS_AT_ONCE]
            extended[rows] = head(np.asarray(stored.matrix[rows], np.float32))[0]
        np.save(folder / HASHES, stored.hashes)
        np.save(folder / FROM_TEXT, from_text)
        shutil.copyfile(vectors.metric / HEAD, folder / HEAD)
    return len(new_rows)
