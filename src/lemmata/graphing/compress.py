"""All records of a workspace's graph as one compressed graph, concepts merged."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from lemmata.graph.links import build_graph, counts, link_edges
from lemmata.graph.merge import apply, decide, propose
from lemmata.store.corpus import Corpus
from lemmata.store.files import Layout
from lemmata.store.graph import GraphRecordStore, write_graph
from lemmata.types import Concept, Progress

__all__ = ["compress", "united"]


def compress(layout: Layout, corpus: Corpus, records: GraphRecordStore, progress: Progress) -> dict[str, Any]:
    """Everything that is known as one graph, concepts merged; returns what there is."""
    progress("merging concepts", 0, None)
    concepts = united(records.concepts())
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
    write_graph(
        layout, graph, rows, concepts, merged,
        {"verb": "graph", "corpus": corpus.inputs, "inputs": digest.hexdigest(), "report": report},
    )  # fmt: skip
    return report


def united(concepts: Iterable[Concept]) -> list[Concept]:
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


def _by_kind(concepts: Iterable[Concept]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for concept in concepts:
        numbers[concept.kind] = numbers.get(concept.kind, 0) + 1
    return dict(sorted(numbers.items()))
