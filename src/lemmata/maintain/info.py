"""What a workspace holds, and what is out of date or damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from statistics import fmean, median
from typing import Any

from lemmata.core.artefacts import all_problems, artefact, artefacts, dense_index, is_usable, size_on_disk
from lemmata.core.errors import WorkspaceError
from lemmata.core.types import PART
from lemmata.core.workspace import VectorSet, Workspace, read_manifest, read_manifests, vector_sets
from lemmata.corpus.corpus import Corpus
from lemmata.encode.load import is_static_encoder
from lemmata.graph.build import SOURCE
from lemmata.graph.store import GraphRecordStore
from lemmata.graph.stored_metric import metric_report
from lemmata.search.fusion import Fusion, default_fusion
from lemmata.vectors.milvus import why_refused


def info(workspace: Workspace) -> dict[str, Any]:
    """Counts of documents, passages, links, nodes and edges; models and indexes; what is damaged or out of date."""
    with contextlib.closing(Corpus(workspace)) as corpus:
        counts, digest = corpus.counts(), corpus.digest
    locations = counts["documents"].get("location", 0)
    documents = sum(counts["documents"].values()) - locations
    rows = sum(counts["passages"].values())
    parts = counts["passages"].pop(PART, 0)
    sets = vector_sets(workspace)
    manifests = [manifest for vectors in sets if (manifest := read_manifest(vectors.manifest))]
    default = [vectors for vectors in sets if vectors.is_default]
    indexes = [("lexical", workspace.lexical_folder)]
    for vectors in default:
        neighbours = "milvus" if "milvus" in (read_manifest(workspace.manifest(vectors.ann)) or {}) else "ann"
        indexes += [("dense", vectors.vectors), (neighbours, vectors.ann)]
    described = [_describe_vectors(workspace, vectors) for vectors in sets]
    refused = [*workspace.refusals, *filter(None, map(why_refused, {each["milvus"] for each in described}))]
    return {
        "workspace": str(workspace.root),
        "documents": documents,
        "documents_by_kind": counts["documents"],
        "passages": counts["passages"],
        "passages_in_all": rows - parts,
        "parts": parts,
        **_graph_counts(workspace, counts, documents, rows, locations),
        "links": counts["links"],
        "labels": counts["labels"],
        "bibliography": counts["bibliography"],
        "skips": counts["skips"],
        "models": sorted({*read_manifests(workspace.models_folder), *(manifest["made_by"] for manifest in manifests)}),
        "indexes": [name for name, folder in indexes if read_manifest(workspace.manifest(folder))],
        "vectors": described,
        "artefacts": [item.name for item in artefacts(workspace) if item.manifest.exists()],
        "problems": [*all_problems(workspace), *_unfinished(workspace, digest), *refused],
    }


def _unfinished(workspace: Workspace, corpus: str) -> Iterator[str]:
    """What was begun, and the records of the graph that were made from another corpus, a sentence each."""
    if workspace.incoming.is_file():
        yield "the last ingest did not finish: run the same command again"
    if not workspace.graph_records.is_file():
        return
    if not workspace.graph_folder.is_dir():
        yield "there is no graph of the records yet: run 'lemmata graph build'"
    try:
        with GraphRecordStore(workspace) as records:
            stale = records.stale(corpus)
    except WorkspaceError as error:
        yield str(error)
        return
    for name, command in stale.items():
        if name != SOURCE:  # which are out of date with the graph
            yield f"the graph records ({name}) were made from another corpus: run '{command}' again"


def _describe_vectors(workspace: Workspace, vectors: VectorSet) -> dict[str, Any]:
    """The vectors of one encoder: size on disk in bytes, and whether search can use them as they are."""
    manifest = read_manifest(vectors.manifest) or {}
    return {
        "encoder": vectors.encoder,
        "made_by": manifest.get("made_by", ""),
        "dimension": manifest.get("dimension", 0),
        "bytes": size_on_disk(vectors, summaries=False),
        "milvus": (read_manifest(vectors.ann / "manifest.json") or {}).get("milvus", {}).get("uri", ""),
        "summaries": _describe_summaries(vectors),
        "up_to_date": is_usable(workspace, dense_index(vectors)),
        "default": vectors.is_default,
        "fusion": _describe_fusion(workspace, vectors),
        "metric": metric_report(workspace, vectors),
    }


def _describe_summaries(vectors: VectorSet) -> dict[str, Any]:
    """How many summaries an encoder has, of how many passages, by source and author, and their size on disk."""
    counts = (read_manifest(vectors.summaries / "manifest.json") or {}).get("counts", {})
    none = {"summaries": 0, "passages": 0, "sources": []}
    return {**none, **counts, "bytes": size_on_disk(vectors, summaries=True)}


def _describe_fusion(workspace: Workspace, vectors: VectorSet) -> dict[str, Any]:
    """The weights of `auto`, and what they were fitted to; nothing of that for the default ones."""
    fitted = read_manifest(vectors.fusion) or {}
    default = default_fusion(static=is_static_encoder(vectors.encoder, workspace.models_folder))
    fusion = Fusion(**fitted["fusion"]) if fitted else default
    facts = {name: fitted[name] for name in ("task", "queries", "measure", "values")} if fitted else None
    return {"formula": fusion.formula, "weights": asdict(fusion), "fitted": facts}


def document_statistics(workspace: Workspace) -> dict[str, Any]:
    """Statistics of every document, by id, and the sum, mean, median and largest value of each number."""
    documents: list[dict[str, Any]] = []
    with contextlib.closing(Corpus(workspace)) as corpus:
        for record in corpus.document_statistics():
            if len(documents) % 1000 == 0:
                workspace.progress("reading documents", len(documents), None)
            documents.append(record)
    numbers = {
        "passages": [record["passages"] for record in documents],
        "characters": [record["characters"] for record in documents],
        "words": [record["words"] for record in documents],
        "links": [record["links"]["all"] for record in documents],
        "links resolved": [record["links"]["resolved"] for record in documents],
        "links out": [record["links"]["out"] for record in documents],
        "links in": [record["links"]["in"] for record in documents],
        "bibliography": [record["bibliography"]["entries"] for record in documents],
        "bibliography in corpus": [record["bibliography"]["in_corpus"] for record in documents],
    }
    summary = {
        name: {"sum": sum(values), "mean": fmean(values), "median": median(values), "largest": max(values)}
        for name, values in numbers.items()
        if values
    }
    return {"documents": documents, "summary": summary}


def _graph_counts(
    workspace: Workspace, counts: Mapping[str, Any], documents: int, passages: int, locations: int
) -> dict[str, Any]:
    """Nodes and edges of the graph; before it is built, those that the corpus alone has."""
    graph = read_manifest(workspace.manifest(workspace.graph_folder))
    if graph is not None:
        embedded = is_usable(workspace, artefact(workspace, "embedding"))
        report = {name: graph["report"][name] for name in ("nodes", "edges", "concepts", "merges")}
        return {**report, "graph": {"sources": graph["report"]["sources"], "embedded": embedded}}
    return {
        "nodes": {"passage": passages, "document": documents, **({"location": locations} if locations else {})},
        "edges": {relation: number["resolved"] for relation, number in counts["links"].items()},
        "concepts": {},
    }
