"""Graphs that users have, taken in; and the graph of a workspace, given out."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lemmata.graph.formats.any_format import read_graph, write_graph
from lemmata.graph.formats.shared import GraphRecords
from lemmata.graph.links import link_edges
from lemmata.graphing.compress import compress
from lemmata.store.corpus import Corpus
from lemmata.store.files import Layout
from lemmata.store.graph import GraphRecordStore, open_graph
from lemmata.types import Edge, Progress

__all__ = ["export_graph", "import_graph"]


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
