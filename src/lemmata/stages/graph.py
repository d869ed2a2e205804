"""Build the graph of a workspace, exchange it, and review it: records from every source, compressed into one graph."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.concepts.build import ConceptOptions, build_concepts
from lemmata.concepts.merge import Merge, apply, decide, propose
from lemmata.errors import LemmataError
from lemmata.graph.formats.any_format import read_graph, write_graph
from lemmata.graph.formats.shared import GraphRecords
from lemmata.graph.links import build_graph, counts, link_edges
from lemmata.store.corpus import Corpus
from lemmata.store.graph import GraphRecordStore, concept_passages, open_graph
from lemmata.store.graph import write_graph as write_compressed
from lemmata.store.layout import Layout
from lemmata.types import Concept, Edge, Encoder, Progress

__all__ = [
    "GraphOptions",
    "build",
    "compress",
    "decide_merge",
    "describe_concept",
    "export_graph",
    "import_graph",
    "merge_duplicates",
    "merges",
]

TEXT = "text"  # the name of this source of records


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """How the graph of a corpus is built."""

    concepts: ConceptOptions = field(default_factory=ConceptOptions)


def build(layout: Layout, options: GraphOptions, progress: Progress) -> dict[str, Any]:
    """Links, and concepts with their relations and mentions, by rules; then everything compressed.

    Concepts are looked for only where the corpus or the options changed since the last time.
    """
    begin = time.perf_counter()
    with layout.hold(), contextlib.closing(Corpus(layout)) as corpus, GraphRecordStore(layout) as records:
        wanted = {"inputs": corpus.inputs, "options": json.loads(json.dumps(asdict(options.concepts)))}
        if records.sources().get(TEXT) != wanted:
            found = build_concepts(corpus, corpus.documents(), options.concepts, progress=progress)
            records.replace(TEXT, concepts=found.concepts, edges=found.edges, **wanted)
        report = compress(layout, corpus, records, progress)
    report["seconds"] = time.perf_counter() - begin
    return report


# ---------------------------------------------------------------- compress


def compress(layout: Layout, corpus: Corpus, records: GraphRecordStore, progress: Progress) -> dict[str, Any]:
    """Everything that is known as one graph, concepts merged; returns what there is."""
    progress("merging concepts", 0, None)
    concepts = merge_duplicates(records.concepts())
    found = list(records.edges())
    decided = decide(propose(concepts, found), records.verdicts())
    concepts, found, mapping = apply(concepts, found, decided)
    progress("compressing the graph", 0, None)
    kinds = _kinds(corpus, records, concepts)
    there = [edge for edge in found if edge.source in kinds and edge.target in kinds]  # a passage may be gone by now
    graph = build_graph(itertools.chain(link_edges(corpus, corpus.documents(links=True)), there), kinds)
    rows = np.full(len(graph.nodes), -1, np.int64)
    row_of = {identity: row for row, identity in enumerate(corpus.ids())}
    for number, node in enumerate(graph.nodes):
        rows[number] = row_of.get(node, -1)
    merged = {gone: kept for gone, kept in mapping.items() if gone != kept}
    digest = hashlib.sha256()
    for part in (graph.indptr, graph.indices, graph.relation, graph.weight):
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update("\0".join(graph.nodes).encode(errors="surrogatepass"))
    report = {
        **counts(graph),
        "concepts": dict(sorted(Counter(concept.kind for concept in concepts).items())),
        "merges": dict(sorted(Counter(merge.status for merge in decided).items())),
        "sources": sorted(records.sources()),
    }
    write_compressed(
        layout, graph, rows, concepts, merged,
        {"verb": "graph", "corpus": corpus.inputs, "inputs": digest.hexdigest(), "report": report},
    )  # fmt: skip
    return report


def merge_duplicates(concepts: Iterable[Concept]) -> list[Concept]:
    """Concepts of one id from several sources as one: the first keeps its name, the others add theirs."""
    known: dict[str, Concept] = {}
    for concept in concepts:
        first = known.setdefault(concept.id, concept)
        if first is not concept:
            names = dict.fromkeys((*first.aliases, concept.name, *concept.aliases))
            names.pop(first.name, None)
            known[concept.id] = replace(
                first, aliases=tuple(names), description=first.description or concept.description
            )
    return list(known.values())


def _kinds(corpus: Corpus, records: GraphRecordStore, concepts: Iterable[Concept]) -> dict[str, str]:
    """The kind of every node: what it is to the graph, not to its reader."""
    kinds = records.kinds()
    kinds.update((concept.id, "concept") for concept in concepts)
    kinds.update((d.id, "location" if d.kind == "location" else "document") for d in corpus.documents())
    kinds.update((identity, "log" if kind == "log" else "passage") for identity, kind in corpus.kinds())
    return kinds


# ---------------------------------------------------------------- import and export


def import_graph(
    layout: Layout, paths: Sequence[Path], *, format: str, name: str, strict: bool, progress: Progress  # noqa: A002
) -> dict[str, Any]:  # fmt: skip
    """Take in a graph from files, under a name; a second import under that name replaces the first."""
    read, skips = read_graph(paths, format, strict=strict)
    mentioned = [
        Edge(document, "mentions", concept, maker=name)
        for concept, documents in read.papers.items()
        for document in documents
    ]
    with layout.hold(), contextlib.closing(Corpus(layout)) as corpus, GraphRecordStore(layout) as records:
        source = f"import:{name}"
        records.replace(
            source,
            concepts=read.concepts,
            edges=itertools.chain(read.edges, mentioned),
            kinds=read.kinds,
            skips=skips,
            options={"paths": [str(path) for path in paths], "format": format},
        )
        known = {*corpus.ids(), *(document.id for document in corpus.documents())}
        report = compress(layout, corpus, records, progress)
    ends = {end for edge in read.edges for end in (edge.source, edge.target)}
    report["imported"] = {
        "concepts": len(read.concepts),
        "edges": len(read.edges),
        "mentions": len(mentioned),
        "nodes": len(read.kinds),
        "nodes_in_corpus": len(known & (ends | set(read.kinds))),
        "skips": len(skips),
    }
    return report


def export_graph(layout: Layout, path: Path, *, format: str) -> dict[str, int]:  # noqa: A002
    """Write the whole graph, with evidence where it is known, to a file or folder."""
    stored = open_graph(layout)
    with contextlib.closing(Corpus(layout)) as corpus, GraphRecordStore(layout) as records:
        told = records.merged_edges(stored.merged)
        edges = list(_distinct(itertools.chain(link_edges(corpus, corpus.documents(links=True)), told)))
    kinds = dict(zip(stored.graph.nodes, stored.graph.kinds, strict=True))
    write_graph(path, GraphRecords(list(stored.concepts.values()), kinds, edges, {}), format)
    return {"concepts": len(stored.concepts), "nodes": len(kinds), "edges": len(edges)}


def _distinct(edges: Iterable[Edge]) -> Iterator[Edge]:
    """Each edge once, the first with its evidence; none to itself."""
    seen: set[tuple[str, str, str]] = set()
    for edge in edges:
        key = edge[:3]
        if key not in seen and edge.source != edge.target:
            seen.add(key)
            yield edge


# ---------------------------------------------------------------- concepts and their merges


def describe_concept(layout: Layout, identity: str) -> dict[str, Any]:
    """Its names, its relations to other concepts with who says so, and the passages that speak of it.

    One that was merged away is told of as the one that stands for it. LemmataError where there is none.
    """
    stored = open_graph(layout)
    identity = stored.merged.get(identity, identity)
    concept = stored.concepts.get(identity)
    if concept is None:
        near = difflib.get_close_matches(identity, stored.concepts, 3, 0.6)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise LemmataError(f"there is no concept {identity!r}{hint}")
    with GraphRecordStore(layout) as records:
        edges = {
            edge
            for edge in records.merged_edges(stored.merged)
            if identity in (edge.source, edge.target)
            and edge.source in stored.concepts
            and edge.target in stored.concepts
        }
    speaking, defining = concept_passages(stored)
    first = [defining[identity]] if identity in defining else []
    others = [passage for passage in speaking.get(identity, []) if passage not in first]
    return {
        "id": identity,
        "name": concept.name,
        "kind": concept.kind,
        "description": concept.description,
        "aliases": list(concept.aliases),
        "edges": [edge._asdict() for edge in sorted(edges)],
        "passages": first + others,
    }


def merges(layout: Layout, encoder: Encoder | None = None) -> list[Merge]:
    """Every merge that was proposed or decided, with its reason and what became of it.

    With an encoder, concepts whose names are alike to it are proposed too, as candidates.
    """
    with GraphRecordStore(layout) as records:
        concepts = merge_duplicates(records.concepts())
        vectors = None if encoder is None else encoder.encode([concept.name for concept in concepts], role="query")
        return decide(propose(concepts, list(records.edges()), vectors=vectors), records.verdicts())


def decide_merge(layout: Layout, kept: str, gone: str, verdict: str | None, progress: Progress) -> dict[str, Any]:
    """Accept or reject a merge, or take a verdict back with None; the graph is compressed anew."""
    with layout.hold(), contextlib.closing(Corpus(layout)) as corpus, GraphRecordStore(layout) as records:
        known = {concept.id for concept in records.concepts()}
        for identity in (kept, gone):
            if identity not in known:
                raise LemmataError(f"there is no concept {identity!r}")
        records.decide(kept, gone, verdict)
        return compress(layout, corpus, records, progress)
