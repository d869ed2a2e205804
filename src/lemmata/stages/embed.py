"""Train vectors for the nodes of a workspace's graph, starting from the vectors of their texts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lemmata.encode.load import load_encoder
from lemmata.errors import LemmataError
from lemmata.graph.embed import OPERATORS, EmbedOptions, split_edges, train_embedding
from lemmata.store.corpus import Corpus
from lemmata.store.graph import StoredGraph, open_graph, write_embedding
from lemmata.store.layout import Layout
from lemmata.store.vectors import open_vectors, vectors_manifest
from lemmata.types import Floats, Progress

__all__ = ["EmbedStageOptions", "embed"]


@dataclass(frozen=True, slots=True)
class EmbedStageOptions:
    """How the graph of a workspace is embedded."""

    CHOICES: ClassVar = {"start": ("text", "random"), "operator": OPERATORS}
    SMALLEST: ClassVar = {"held_out": 0.0, "dimension": 1, "epochs": 1, "seed": 0}
    start: str = "text"  # initialise from the vectors of texts, or random
    held_out: float = 0.05  # share of the edges that measure the result and stop the training
    dimension: int = 128  # of the vectors
    operator: str = "translation"  # of each relation: identity, translation, diagonal, complex
    epochs: int = 100  # at most
    rate: float = 0.03  # learning rate of Adagrad
    seed: int = 0  # random seed


def embed(layout: Layout, options: EmbedStageOptions, key: str, progress: Progress) -> dict[str, Any]:
    """Train a vector per node and report the measures on held-out edges; resumes from the last checkpoint."""
    begin = time.perf_counter()
    with layout.hold():
        stored = open_graph(layout)
        if not len(stored.graph.indices):
            raise LemmataError("the graph has no edges to learn from")
        initial = _text_vectors(layout, stored, key, progress) if options.start == "text" else None
        graph, held_out = stored.graph, np.zeros((0, 3), np.int64)
        if options.held_out:
            graph, held_out = split_edges(stored.graph, options.held_out, options.seed)
        checkpoint = _checkpoint(layout, stored, options)
        trained = train_embedding(
            graph,
            EmbedOptions(options.dimension, options.operator, options.epochs, options.rate, seed=options.seed),
            initial=initial,
            held_out=held_out,
            checkpoint=checkpoint,
            progress=progress,
        )
        seconds = sum(epoch.seconds for epoch in trained.history)
        report: dict[str, Any] = {
            "nodes": len(graph.nodes),
            "edges": len(graph.indices),
            "held_out": len(held_out),
            "epochs": len(trained.history),
            "start": options.start,
            "edges_per_second": len(trained.history) * len(graph.indices) / max(seconds, 1e-9),
        }
        if trained.evaluation is not None:
            report["measures"] = trained.evaluation.all._asdict()
            report["relations"] = {name: ranks._asdict() for name, ranks in trained.evaluation.relations.items()}
        maker = f"graph embedding ({options.operator}, {options.start})"
        content = {"verb": "embed", "inputs": stored.inputs, "maker": maker, "options": asdict(options)}
        write_embedding(layout, trained.vectors, {**content, "report": report})
        checkpoint.unlink(missing_ok=True)
    report["seconds"] = time.perf_counter() - begin
    return report


def _checkpoint(layout: Layout, stored: StoredGraph, options: EmbedStageOptions) -> Path:
    """The file of a run that may be resumed; those of another graph, other vectors or other options are removed."""
    vectors = vectors_manifest(layout) if options.start == "text" else None
    settings = {name: value for name, value in asdict(options).items() if name != "epochs"}
    run = json.dumps([stored.inputs, settings, vectors], sort_keys=True)
    name = f"embedding.{hashlib.sha256(run.encode()).hexdigest()[:12]}.partial.npz"
    for file in layout.embedding.parent.glob("embedding.*partial.npz"):
        if file.name != name:
            file.unlink()
    return layout.embedding.with_name(name)


def _text_vectors(layout: Layout, stored: StoredGraph, key: str, progress: Progress) -> Floats:
    """A vector per node: passages as stored, documents and concepts by their encoded names, all others zero."""
    vectors = open_vectors(layout)
    nodes, rows = stored.graph.nodes, np.asarray(stored.rows)
    matrix = np.zeros((len(nodes), vectors.matrix.shape[1]), np.float32)
    matrix[rows >= 0] = vectors.matrix[rows[rows >= 0]]
    with contextlib.closing(Corpus(layout)) as corpus:
        names = {document.id: document.title for document in corpus.documents()}
    names |= {concept.id: f"{concept.name}. {concept.description}" for concept in stored.concepts.values()}
    numbers = [number for number in np.flatnonzero(rows < 0).tolist() if names.get(nodes[number], "").strip()]
    encoder = load_encoder(
        vectors.encoder, dimension=vectors.cut or None, key=key, cache=layout.encodings, models=layout.models
    )
    for start in range(0, len(numbers), 1024):
        progress("encoding names", start, len(numbers))
        batch = numbers[start : start + 1024]
        matrix[batch] = encoder.encode([names[nodes[number]] for number in batch], role="passage")
    return matrix
