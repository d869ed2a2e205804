"""Lengths for the edges of a graph: one per edge and direction, computed block by block.

A passage has the vector of its text. Every other node (a concept, a document, a location) lies in the middle of its
neighbours. Works on arrays, which may be memory-mapped; knows no files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.artefacts import (
    Artefact,
    artefact,
    dense_index,
    edge_lengths,
    is_current,
    making,
    read_artefact,
    read_undamaged,
)
from lemmata.core.errors import WorkspaceError
from lemmata.core.files import create_array, read_array, retire
from lemmata.core.types import Floats, Graph, Integers, Mask, MeasuredGraph, Progress
from lemmata.core.workspace import VectorSet, Workspace, read_corpus_manifest, read_manifest, vector_set, vector_sets
from lemmata.graph.store import check_edges, open_graph
from lemmata.vectors.store import open_vectors

_BLOCK = 1 << 14  # edges whose vectors are in memory at once: 48 MB at 384 dimensions
_SORTED = 1 << 20  # entries that are sorted at once
_ROUNDS = 10  # of averaging; a location far above all logs has no vector after that


def distance(similarity: Floats) -> Floats:
    """The Euclidean distance of vectors of length 1, by their cosine: √(2 - 2 cos)."""
    return np.sqrt(np.maximum(2 - 2 * similarity, 0)).astype(np.float32)


# ---------------------------------------------------------------- by the vectors of texts


def measure_by_text(graph: Graph, rows: Integers, matrix: Floats, lengths: Floats, progress: Progress) -> None:
    """Fill in `lengths` (edges,): the distance between the vectors of the ends of each edge.

    `rows` (nodes,) are the rows of passages in `matrix` (n, dim), -1 for other nodes. An end without a vector has
    cosine 0 to everything.
    """
    others = np.flatnonzero(rows < 0)
    place = np.full(len(rows), -1, np.int64)
    place[others] = np.arange(len(others))
    middles = _middles(graph, rows, matrix, place)

    def vectors(nodes: Integers) -> Floats:
        own = rows[nodes]
        result = np.empty((len(nodes), matrix.shape[1]), np.float32)
        result[own >= 0] = matrix[own[own >= 0]]
        result[own < 0] = middles[place[nodes[own < 0]]]
        return result

    for edges, sources, targets in _blocks(graph):
        progress("measuring edges", edges.start, len(graph.indices))
        lengths[edges] = distance(np.einsum("ij,ij->i", vectors(sources), vectors(targets)))


def _middles(graph: Graph, rows: Integers, matrix: Floats, place: Integers) -> Floats:
    """The normalised mean of the neighbours of each node that is no passage (others, dim), in the order of `place`.

    First of those next to passages, then of their neighbours, and so on.
    """
    middles = np.zeros((int(place.max(initial=-1)) + 1, matrix.shape[1]), np.float32)
    has_vector = rows >= 0
    for _ in range(_ROUNDS):
        sums, is_new = np.zeros_like(middles), np.zeros(len(rows), bool)
        for _, sources, targets in _blocks(graph):
            for receiving, sending in ((sources, targets), (targets, sources)):
                chosen = np.flatnonzero(~has_vector[receiving] & has_vector[sending])
                if not len(chosen):
                    continue
                chosen = chosen[np.argsort(receiving[chosen], kind="stable")]
                nodes, begins = np.unique(receiving[chosen], return_index=True)
                senders, passages = sending[chosen], rows[sending[chosen]]
                vectors = np.where((passages >= 0)[:, None], matrix[np.maximum(passages, 0)], middles[place[senders]])
                sums[place[nodes]] += np.add.reduceat(vectors, begins, axis=0)
                is_new[nodes] = True
        if not is_new.any():
            break
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        middles += sums / np.maximum(norms, 1e-12)
        has_vector |= is_new
    return middles


def _blocks(graph: Graph, size: int = _BLOCK) -> Iterator[tuple[slice, Integers, Integers]]:
    """The edges in blocks, with their sources and targets."""
    for start in range(0, len(graph.indices), size):
        edges = np.arange(start, min(start + size, len(graph.indices)))
        yield slice(start, start + len(edges)), _sources(graph, edges), np.asarray(graph.indices[edges])


def _sources(graph: Graph, edges: Integers) -> Integers:
    return np.searchsorted(graph.indptr, edges, side="right") - 1


# ---------------------------------------------------------------- both directions


def sort_edges(graph: Graph, forward: Floats, backward: Floats, result: MeasuredGraph) -> None:
    """Fill in `result`: every edge in both directions, those of a node by length.

    `forward` and `backward` (edges,) are the lengths along the edges and against them.
    """
    count = len(graph.nodes)
    out_degree, in_degree = np.diff(graph.indptr), np.zeros(count, np.int64)
    for _, _, targets in _blocks(graph, _SORTED):
        in_degree += np.bincount(targets, minlength=count)
    result.indptr[0] = 0
    np.cumsum(out_degree + in_degree, out=result.indptr[1:])
    indptr = np.asarray(result.indptr)
    free = indptr[:-1].copy()  # the first place of each node that is not filled
    for edges, sources, _ in _blocks(graph, _SORTED):
        numbers = np.arange(edges.start, edges.stop)
        result.edges[indptr[sources] + numbers - graph.indptr[sources]] = numbers
    free += out_degree
    for edges, _, targets in _blocks(graph, _SORTED):
        order = np.argsort(targets, kind="stable")
        nodes, begins, counts = np.unique(targets[order], return_index=True, return_counts=True)
        ranks = np.arange(len(order)) - np.repeat(begins, counts)
        result.edges[np.repeat(free[nodes], counts) + ranks] = -1 - (edges.start + order)
        free[nodes] += counts
    begin = 0
    while begin < count:
        end = int(np.searchsorted(indptr, indptr[begin] + _SORTED, side="right")) - 1
        end = min(max(end, begin + 1), count)
        _sort_block(graph, forward, backward, result, begin, end)
        begin = end


def _sort_block(graph: Graph, forward: Floats, backward: Floats, result: MeasuredGraph, begin: int, end: int) -> None:
    """Sort the edges of the nodes from `begin` to `end`, and fill in their targets and lengths."""
    block = slice(int(result.indptr[begin]), int(result.indptr[end]))
    edges = np.asarray(result.edges[block], np.int64)
    is_forward = edges >= 0
    numbers = np.where(is_forward, edges, -1 - edges)
    lengths = np.where(is_forward, forward[numbers], backward[numbers])
    targets = np.where(is_forward, graph.indices[numbers], 0)
    targets[~is_forward] = _sources(graph, numbers[~is_forward])
    nodes = np.repeat(np.arange(begin, end), np.diff(result.indptr[begin : end + 1]))
    order = np.lexsort((numbers, lengths, nodes))
    result.edges[block], result.targets[block], result.lengths[block] = edges[order], targets[order], lengths[order]


def lengths_by_edge(measured: MeasuredGraph, edges: int) -> tuple[Floats, Floats]:
    """The lengths along the edges of a graph and against them (edges,); NaN for those that were not measured."""
    forward, backward = (np.full(edges, np.nan, np.float32) for _ in range(2))
    numbers, lengths = np.asarray(measured.edges, np.int64), np.asarray(measured.lengths)
    forward[numbers[numbers >= 0]] = lengths[numbers >= 0]
    backward[-1 - numbers[numbers < 0]] = lengths[numbers < 0]
    return forward, backward


def open_lengths(workspace: Workspace, encoder: str = "") -> MeasuredGraph:
    """The edges of the graph with their lengths by an encoder, by default by the one that search uses.

    WorkspaceError where there are none, or where they are those of another graph or of other vectors.
    """
    vectors = vector_set(workspace, encoder)
    if vectors is None:
        raise WorkspaceError("paths need vectors: run 'lemmata index'")
    item = edge_lengths(vectors)
    return read_artefact(workspace, item, None, lambda _: read_measured(workspace, item))


def read_measured(workspace: Workspace, item: Artefact) -> MeasuredGraph:
    """The edges of the present graph with their lengths; WorkspaceError where they are damaged, or of another graph."""
    measured = MeasuredGraph(*(read_array(item.folder / f"{name}.npy", item.cure) for name in MeasuredGraph._fields))
    graph = artefact(workspace, "graph")
    nodes, edges = (len(read_array(graph.folder / f"{name}.npy", graph.cure)) for name in ("indptr", "indices"))
    longest = float(np.finfo(np.float32).max)
    columns = ((measured.targets, 0, nodes - 2), (measured.lengths, 0, longest), (measured.edges, -edges, edges - 1))
    check_edges(item, nodes - 1, measured.indptr, *columns)
    return measured


def lengths_are_up_to_date(workspace: Workspace, vectors: VectorSet) -> bool:
    """Whether the lengths of a set of vectors are those of the present graph and vectors."""
    return is_current(edge_lengths(vectors), _recipe(workspace, vectors))


def _recipe(workspace: Workspace, vectors: VectorSet) -> dict[str, Any]:
    return {"verb": "index", "vectors": read_manifest(vectors.manifest), "graph": graph_inputs(workspace)}


def graph_inputs(workspace: Workspace) -> Any:
    """What changes whenever the graph does; empty without one."""
    return (read_manifest(workspace.manifest(workspace.graph_folder)) or {}).get("inputs", "")


def measured_arrays(folder: Path | None, graph: Graph) -> MeasuredGraph:
    """Arrays to fill in for the edges of a graph in both directions, on the disk or in memory."""
    entries = 2 * len(graph.indices)
    kinds = (np.int64, np.int32, np.float32, np.int32 if entries < 2**32 else np.int64)

    def array(name: str, kind: type, size: int) -> Any:
        return create_array(folder / f"{name}.npy", np.dtype(kind), (size,)) if folder else np.empty(size, kind)

    return MeasuredGraph(*map(array, MeasuredGraph._fields, kinds, (len(graph.nodes) + 1, *[entries] * 3)))


@contextlib.contextmanager
def writing_lengths(workspace: Workspace, vectors: VectorSet, graph: Graph) -> Iterator[tuple[MeasuredGraph, Floats]]:
    """Arrays on the disk to fill in, for both directions and (edges,) for one; they replace the lengths at the end."""
    with making(edge_lengths(vectors), _recipe(workspace, vectors)) as folder:
        result = measured_arrays(folder, graph)
        along = folder / "along.npy"
        yield result, create_array(along, np.dtype(np.float32), (len(graph.indices),))
        for array in result:
            assert isinstance(array, np.memmap)
            array.flush()
        along.unlink()


def measure_edges(workspace: Workspace, encoder: str) -> int:
    """Bring the lengths of all edges by an encoder up to date; returns how many were measured.

    Without a graph of this corpus there are none, and old ones are deleted. Call it while holding the workspace.
    """
    vectors = vector_set(workspace, encoder)
    if vectors is None:
        return 0
    corpus = (read_corpus_manifest(workspace) or {}).get("inputs")
    sources = (read_undamaged(dense_index(vectors)), read_undamaged(artefact(workspace, "graph")))
    if any(source is None or source.get("corpus") != corpus for source in sources):
        retire(vectors.lengths)
        return 0
    if lengths_are_up_to_date(workspace, vectors):
        return 0
    stored = open_graph(workspace)
    graph, rows = stored.graph, np.asarray(stored.rows)
    matrix = open_vectors(workspace, corpus, encoder).matrix
    with writing_lengths(workspace, vectors, graph) as (result, lengths):
        measure_by_text(graph, rows, matrix, lengths, workspace.progress)
        workspace.progress("sorting edges", 0, None)
        sort_edges(graph, lengths, lengths, result)
    return len(graph.indices)


def measure_new_graph(workspace: Workspace) -> None:
    """Measure the edges by the encoder that search uses, and delete old lengths by others.

    `lemmata index --encoder` measures by others.
    """
    for vectors in vector_sets(workspace):
        if vectors.is_default:
            measure_edges(workspace, vectors.encoder)
        elif not lengths_are_up_to_date(workspace, vectors):
            retire(vectors.lengths)


def with_edges(measured: MeasuredGraph, kept: Mask) -> MeasuredGraph:
    """The same nodes with those of the edges that are kept (edges of the Graph,)."""
    entries = kept[np.where(measured.edges >= 0, measured.edges, -1 - measured.edges)]
    ends = np.concatenate(([0], np.cumsum(entries)))
    return MeasuredGraph(
        ends[measured.indptr], measured.targets[entries], measured.lengths[entries], measured.edges[entries]
    )
