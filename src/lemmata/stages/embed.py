"""Vectors for the nodes of the graph, begun from what their texts mean."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np

from lemmata.encode.load import load_encoder
from lemmata.errors import LemmataError
from lemmata.graph.embed import EmbedOptions, split_edges, train_embedding
from lemmata.store.corpus import Corpus
from lemmata.store.graph import StoredGraph, open_graph, write_embedding
from lemmata.store.layout import Layout
from lemmata.store.vectors import open_vectors
from lemmata.types import Floats, Progress

__all__ = ["EmbedVerbOptions", "embed"]


@dataclass(frozen=True, slots=True)
class EmbedVerbOptions:
    """How the graph of a workspace is embedded."""

    CHOICES: ClassVar = {"start": ("text", "random")}
    SMALLEST: ClassVar = {"held_out": 0.0}
    start: str = "text"  # from the vectors of texts, or random
    held_out: float = 0.05  # share of the edges that measure the result and end the training
    training: EmbedOptions = field(default_factory=EmbedOptions)


def embed(layout: Layout, options: EmbedVerbOptions, key: str, progress: Progress) -> dict[str, Any]:
    """Train vectors for all nodes; a stopped run goes on. Returns the measures on the held-out edges."""
    begin = time.perf_counter()
    with layout.hold():
        stored = open_graph(layout)
        if not len(stored.graph.indices):
            raise LemmataError("the graph has no edges to learn from")
        initial = _text_vectors(layout, stored, key, progress) if options.start == "text" else None
        training = options.training
        graph, held_out = stored.graph, np.zeros((0, 3), np.int64)
        if options.held_out:
            graph, held_out = split_edges(stored.graph, options.held_out, training.seed)
        checkpoint = layout.embedding.with_name("embedding.partial.npz")
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        trained = train_embedding(
            graph, training, initial=initial, held_out=held_out, checkpoint=checkpoint, progress=progress
        )
        report: dict[str, Any] = {
            "nodes": len(graph.nodes),
            "edges": len(graph.indices),
            "held_out": len(held_out),
            "epochs": len(trained.history),
            "start": options.start,
        }
        if trained.evaluation is not None:
            report["measures"] = trained.evaluation.all._asdict()
            report["relations"] = {name: ranks._asdict() for name, ranks in trained.evaluation.relations.items()}
        seconds = sum(epoch.seconds for epoch in trained.history)
        report["edges_per_second"] = len(trained.history) * len(graph.indices) / max(seconds, 1e-9)
        maker = f"graph embedding ({training.operator}, {options.start})"
        content = {"verb": "embed", "inputs": stored.inputs, "maker": maker, "options": asdict(options)}
        write_embedding(layout, trained.vectors, {**content, "report": report})
        checkpoint.unlink(missing_ok=True)
    report["seconds"] = time.perf_counter() - begin
    return report


def _text_vectors(layout: Layout, stored: StoredGraph, key: str, progress: Progress) -> Floats:
    """What each node's text means: a passage's vector as it is stored, other nodes' names encoded; else zeros."""
    vectors = open_vectors(layout)
    nodes = stored.graph.nodes
    matrix = np.zeros((len(nodes), vectors.matrix.shape[1]), np.float32)
    inside = np.flatnonzero(np.asarray(stored.rows) >= 0)
    matrix[inside] = vectors.matrix[np.asarray(stored.rows)[inside]]
    corpus = Corpus(layout)
    titles = {document.id: document.title for document in corpus.documents()}
    corpus.close()
    texts: dict[int, str] = {}
    for number in np.flatnonzero(np.asarray(stored.rows) < 0).tolist():
        node = nodes[number]
        concept = stored.concepts.get(node)
        text = f"{concept.name}. {concept.description}" if concept else titles.get(node, "")
        if text.strip():
            texts[number] = text
    encoder = load_encoder(
        vectors.encoder, dimension=vectors.cut or None, key=key, cache=layout.encodings, models=layout.models
    )
    numbers = list(texts)
    for start in range(0, len(numbers), 1024):
        progress("encoding names", start, len(numbers))
        part = numbers[start : start + 1024]
        matrix[part] = encoder.encode([texts[number] for number in part], role="passage")
    return matrix
