"""Train vectors for the nodes of a workspace's graph, starting from the vectors of their texts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lemmata.core.artefacts import artefact, is_current
from lemmata.core.errors import LemmataError, WorkspaceError
from lemmata.core.types import Concept, Document, Floats, Graph, Integers, Vectors
from lemmata.core.workspace import Settings, Workspace, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.training_files import split_key
from lemmata.encode.load import open_encoder
from lemmata.graph.embed import EmbedOptions, split_edges, train_embedding
from lemmata.graph.store import open_embedding, open_graph, write_embedding
from lemmata.mine.training_sets import TrainingPart, open_training_part
from lemmata.plant.hierarchy import location_texts
from lemmata.vectors.store import open_vectors, vectors_manifest

HELD_OUT = 0.05  # share of the edges that measure the result and stop the training


@dataclass(frozen=True, slots=True)
class EmbedStageOptions:
    """How the graph of a workspace is embedded."""

    CHOICES: ClassVar = {"start": ("text", "random")}
    SMALLEST: ClassVar = {"epochs": 1}
    start: str = "text"  # initialise from the vectors of texts, or random
    epochs: int = 100  # at most


def embed_graph(workspace: Workspace, *, settings: Settings | None = None) -> dict[str, Any]:
    """Train a vector per node, from the vector of its text; resumes from the last checkpoint. Reports held-out edges.

    Where the corpus is split, only the nodes and edges of the training part count: the vectors of other passages are
    zero, and no edge of theirs is learned.
    """
    begin = time.perf_counter()
    options = workspace.options(EmbedStageOptions, "embed", settings)
    split = read_manifest(workspace.manifest(workspace.split_folder)) or {}
    with contextlib.closing(Corpus(workspace)) as corpus:
        is_split = split.get("inputs") == corpus.digest
    if is_split:
        with open_training_part(workspace) as part:
            report = _embed(_part_to_embed(part), options)
    else:
        with workspace.hold(), contextlib.closing(Corpus(workspace)) as corpus:
            stored = open_graph(workspace)
            texts = _texts(corpus.documents(links=True), stored.concepts)
            rows = np.asarray(stored.rows)
            report = _embed(_Nodes(workspace, stored.graph, rows, texts, stored.inputs, ""), options)
    report["seconds"] = time.perf_counter() - begin
    return report


def training_embedding(part: TrainingPart, options: EmbedStageOptions) -> tuple[Vectors, Mapping[str, str]]:
    """The embedding of the training part with these options, as stored or trained now, and the texts of its nodes."""
    nodes = _part_to_embed(part)
    if not is_current(artefact(part.workspace, "embedding"), _recipe(nodes, options)):
        _embed(nodes, options)
    return open_embedding(part.workspace), nodes.texts


class _Nodes(NamedTuple):
    """A graph to embed, or the part of it that may be seen."""

    workspace: Workspace
    graph: Graph
    rows: Integers  # (nodes,) row of each node that is a passage, else -1; -1 also for those of other parts
    texts: Mapping[str, str]  # of nodes that are no passages: documents, locations and concepts
    inputs: str  # of the graph
    split: str  # "" for the whole graph


def _part_to_embed(part: TrainingPart) -> _Nodes:
    stored, visible = part.stored, part.view.documents
    if stored is None:
        raise WorkspaceError("there is no graph to embed: run 'lemmata graph build'")
    documents = (
        replace(document, title=visible[document.id].title)
        for document in part.corpus.documents(links=True)
        if document.id in visible
    )
    graph, rows = part.view.graph, part.view.node_rows
    texts = _texts(documents, part.view.concepts)
    return _Nodes(part.workspace, graph, rows, texts, stored.inputs, split_key(part.workspace))


def _texts(documents: Iterable[Document], concepts: Mapping[str, Concept]) -> dict[str, str]:
    """Titles of documents, names of locations with those above them, names and descriptions of concepts."""
    listed = list(documents)
    texts = {document.id: document.title for document in listed}
    texts |= location_texts(document for document in listed if document.kind == "location")
    return texts | {concept.id: f"{concept.name}. {concept.description}" for concept in concepts.values()}


def _recipe(nodes: _Nodes, options: EmbedStageOptions) -> dict[str, Any]:
    """What must be equal for an embedding to be the one that would be trained now."""
    vectors = vectors_manifest(nodes.workspace) if options.start == "text" else None
    encoder = (vectors or {}).get("made_by", "")
    chosen = {"operator": "translation", **asdict(options)}  # there were others, so stored recipes name it
    return {"inputs": nodes.inputs, "split": nodes.split, "vectors": encoder, "options": chosen}


def _embed(nodes: _Nodes, options: EmbedStageOptions) -> dict[str, Any]:
    """Train and store an embedding; the workspace must be held."""
    workspace = nodes.workspace
    if not len(nodes.graph.indices):
        raise LemmataError("the graph has no edges to learn from")
    initial = _text_vectors(nodes) if options.start == "text" else None
    graph, held_out = split_edges(nodes.graph, HELD_OUT, seed=0)
    checkpoint = _checkpoint(nodes, options)
    trained = train_embedding(
        graph,
        EmbedOptions(epochs=options.epochs),
        initial=initial,
        held_out=held_out,
        checkpoint=checkpoint,
        progress=workspace.progress,
    )
    seconds = sum(epoch.seconds for epoch in trained.history)
    report: dict[str, Any] = {
        "nodes": len(graph.nodes),
        "edges": len(graph.indices),
        "held_out": len(held_out),
        "epochs": len(trained.history),
        "start": options.start,
        "part": "train" if nodes.split else "",
        "edges_per_second": len(trained.history) * len(graph.indices) / max(seconds, 1e-9),
    }
    if trained.evaluation is not None:
        report["measures"] = trained.evaluation.all._asdict()
        report["relations"] = {name: ranks._asdict() for name, ranks in trained.evaluation.relations.items()}
    vectors = trained.vectors
    if nodes.split:
        vectors[[not name for name in graph.nodes]] = 0.0  # random negatives have moved nodes of other parts
    maker = f"graph embedding (translation, {options.start}{', training part' if nodes.split else ''})"
    content = {"verb": "embed", "maker": maker, **_recipe(nodes, options)}
    write_embedding(workspace, vectors, {**content, "report": report})
    checkpoint.unlink(missing_ok=True)
    return report


def _checkpoint(nodes: _Nodes, options: EmbedStageOptions) -> Path:
    """The file of a run that may be resumed; those of another graph, other vectors or other options are removed."""
    workspace = nodes.workspace
    vectors = vectors_manifest(workspace) if options.start == "text" else None
    settings = {name: value for name, value in asdict(options).items() if name != "epochs"}
    run = json.dumps([nodes.inputs, nodes.split, settings, vectors], sort_keys=True)
    name = f"embedding.{hashlib.sha256(run.encode()).hexdigest()[:12]}.partial.npz"
    for file in workspace.embedding_folder.parent.glob("embedding.*.partial.npz"):
        if file.name != name:
            file.unlink()
    return workspace.embedding_folder.with_name(name)


def _text_vectors(nodes: _Nodes) -> Floats:
    """A vector per node: passages as stored, all others by their encoded texts, zero where there is none."""
    workspace = nodes.workspace
    vectors = open_vectors(workspace)
    names, rows = nodes.graph.nodes, nodes.rows
    matrix = np.zeros((len(names), vectors.matrix.shape[1]), np.float32)
    matrix[rows >= 0] = vectors.matrix[rows[rows >= 0]]
    numbers = [number for number in np.flatnonzero(rows < 0).tolist() if nodes.texts.get(names[number], "").strip()]
    encoder = open_encoder(workspace, vectors.encoder, dimension=vectors.cut)
    for start in range(0, len(numbers), 1024):
        workspace.progress("encoding names", start, len(numbers))
        batch = numbers[start : start + 1024]
        matrix[batch] = encoder.encode([nodes.texts[names[number]] for number in batch], role="passage")
    return matrix
