"""Measure the edges of the graph by the vectors of their ends, for paths and geodesic search."""

from __future__ import annotations

import shutil

import numpy as np

from lemmata.geometry.lengths import measure_by_text, sort_edges
from lemmata.store.artefacts import artefact, dense_index, read_undamaged
from lemmata.store.graph import open_graph
from lemmata.store.layout import Layout, read_corpus_manifest
from lemmata.store.lengths import lengths_are_up_to_date, writing_lengths
from lemmata.store.vector_sets import vector_set, vector_sets
from lemmata.store.vectors import open_vectors
from lemmata.types import Progress

__all__ = ["measure_edges", "measure_new_graph"]


def measure_edges(layout: Layout, encoder: str, progress: Progress) -> int:
    """Bring the lengths of all edges by an encoder up to date; returns how many were measured.

    Without a graph of this corpus there are none, and old ones are deleted. Call it while holding the workspace.
    """
    vectors = vector_set(layout, encoder)
    if vectors is None:
        return 0
    corpus = (read_corpus_manifest(layout) or {}).get("inputs")
    sources = (read_undamaged(dense_index(vectors)), read_undamaged(artefact(layout, "graph")))
    if any(source is None or source.get("corpus") != corpus for source in sources):
        shutil.rmtree(vectors.lengths, ignore_errors=True)
        return 0
    if lengths_are_up_to_date(layout, vectors):
        return 0
    stored = open_graph(layout)
    graph, rows = stored.graph, np.asarray(stored.rows)
    matrix = open_vectors(layout, corpus, encoder).matrix
    with writing_lengths(layout, vectors, len(graph.nodes), len(graph.indices)) as (result, lengths):
        measure_by_text(graph, rows, matrix, lengths, progress)
        progress("sorting edges", 0, None)
        sort_edges(graph, lengths, lengths, result)
    return len(graph.indices)


def measure_new_graph(layout: Layout, progress: Progress) -> None:
    """Measure the edges by the encoder that search uses, and delete old lengths by others.

    `lemmata index --encoder` measures by others.
    """
    for vectors in vector_sets(layout):
        if vectors.is_default:
            measure_edges(layout, vectors.encoder, progress)
        elif not lengths_are_up_to_date(layout, vectors):
            shutil.rmtree(vectors.lengths, ignore_errors=True)
