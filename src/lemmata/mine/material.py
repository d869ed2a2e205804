"""What miners may see: the passages, concepts and edges of one part of a split, and nothing else.

Miners get a Material, never the corpus, so that no mistake in a miner can reach a test row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from lemmata.errors import LeakageError, WorkspaceError
from lemmata.mine.splits import Split
from lemmata.types import Concept, Document, Graph, Integers, Link, Mask, Passage

__all__ = ["Material", "PassageSource", "material"]

BATCH = 1000


class PassageSource(Protocol):
    """What a corpus offers here; `lemmata.store.corpus.Corpus` does."""

    def __len__(self) -> int: ...
    def passages(self, rows: Iterable[int]) -> list[Passage]: ...
    def documents(self) -> Iterator[Document]: ...
    def ids(self) -> list[str]: ...
    def document_numbers(self) -> Integers: ...


@dataclass(frozen=True, slots=True)
class Material:
    """One part of a corpus and its graph."""

    source: PassageSource
    allowed: Mask  # (n rows,)
    rows: Integers  # those allowed, ascending
    row_of: Mapping[str, int]  # id of an allowed passage: its row
    documents: Mapping[str, Document]  # those with an allowed row
    document_numbers: Integers  # (n rows,) equal for rows of one document
    graph: Graph  # every node, but only edges between nodes of this part
    node_rows: Integers  # (nodes,) row of a node that is an allowed passage, else -1
    concepts: Mapping[str, Concept]  # of this part

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        """Passages in the order asked for, their links to other parts unresolved; LeakageError for foreign rows."""
        wanted = [int(row) for row in rows]
        for row in wanted:
            if not self.allowed[row]:
                raise LeakageError(f"row {row} belongs to another part of the split")
        return [self._alone(passage) for passage in self.source.passages(wanted)]

    def all_passages(self) -> Iterator[tuple[int, Passage]]:
        """Row and passage of the whole part, in order, read as they are asked for."""
        for start in range(0, len(self.rows), BATCH):
            part = self.rows[start : start + BATCH].tolist()
            yield from zip(part, self.passages(part), strict=True)

    def texts(self, rows: Iterable[int]) -> list[str]:
        """What an encoder sees of passages: the title, if any, and the text."""
        return [f"{p.title}. {p.text}" if p.title else p.text for p in self.passages(rows)]

    def _alone(self, passage: Passage) -> Passage:
        def inside(link: Link) -> Link:
            known = link.target in self.row_of or link.target in self.documents
            return link if known else link._replace(target=None)

        return replace(passage, links=tuple(map(inside, passage.links)))


def material(
    source: PassageSource,
    split: Split,
    part: str = "train",
    *,
    graph: Graph | None = None,
    concepts: Mapping[str, Concept] | None = None,
) -> Material:
    """The part of a corpus and its graph that a split gives.

    A concept belongs to a part by the split, and only if a passage of the part mentions or defines it; its
    description stays only if the passage that defines it is of the part, because it is that passage's text.
    """
    allowed = split.rows(part)
    ids = source.ids()
    if len(allowed) != len(ids):
        raise WorkspaceError("the corpus changed since it was split: run 'lemmata split' again")
    rows = np.flatnonzero(allowed).astype(np.int64)
    row_of = {ids[row]: row for row in rows.tolist()}
    inside = {passage.document for start in range(0, len(rows), BATCH)
              for passage in source.passages(rows[start : start + BATCH].tolist())}  # fmt: skip
    documents = {document.id: document for document in source.documents() if document.id in inside}
    everywhere = set(ids)
    graph = graph if graph is not None else _empty(ids)
    kept = np.zeros(len(graph.nodes), dtype=bool)
    node_rows = np.full(len(graph.nodes), -1, np.int64)
    known = concepts or {}
    for number, node in enumerate(graph.nodes):
        if node in row_of:
            node_rows[number] = row_of[node]
            kept[number] = True
        elif node in known:
            kept[number] = split.part_of(node) == part
        elif graph.kinds[number] == "location":
            kept[number] = True  # a plant's tree is known before any log is written
        else:
            kept[number] = node not in everywhere and node in documents
    restricted = _between(graph, kept)
    spoken, defined = _spoken_of(restricted, node_rows)
    chosen = {
        identity: concept if identity in defined or not concept.description else replace(concept, description="")
        for identity, concept in known.items()
        if identity in spoken and split.part_of(identity) == part
    }
    return Material(source, allowed, rows, row_of, documents, source.document_numbers(), restricted, node_rows, chosen)


def _empty(ids: Sequence[str]) -> Graph:
    nodes = sorted(ids)
    return Graph(
        nodes,
        ["passage"] * len(nodes),
        [],
        np.zeros(len(nodes) + 1, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.int16),
        np.zeros(0, np.float32),
    )


def _between(graph: Graph, kept: Mask) -> Graph:
    """The same nodes with only the edges whose both ends are kept."""
    sources = np.repeat(np.arange(len(graph.nodes)), np.diff(graph.indptr))
    stays = kept[sources] & kept[graph.indices]
    indptr = np.zeros(len(graph.nodes) + 1, np.int64)
    np.cumsum(np.bincount(sources[stays], minlength=len(graph.nodes)), out=indptr[1:])
    return replace(
        graph,
        indptr=indptr,
        indices=np.asarray(graph.indices[stays]),
        relation=np.asarray(graph.relation[stays]),
        weight=np.asarray(graph.weight[stays]),
    )


def _spoken_of(graph: Graph, node_rows: Integers) -> tuple[set[str], set[str]]:
    """Nodes that a passage mentions or defines, and those that one defines."""
    sources = np.repeat(np.arange(len(graph.nodes)), np.diff(graph.indptr))
    number = {name: place for place, name in enumerate(graph.relations)}
    told: list[set[str]] = []
    for names in (("mentions", "defines"), ("defines",)):
        wanted = [number[name] for name in names if name in number]
        edges = (node_rows[sources] >= 0) & np.isin(graph.relation, wanted)
        told.append({graph.nodes[node] for node in np.unique(graph.indices[edges]).tolist()})
    return told[0], told[1]
