"""Passages and documents to edges, and edges to a typed graph in compressed sparse rows.

Knows neither how a link was resolved nor any file.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from lemmata.core.errors import InputError
from lemmata.core.types import Document, Edge, Graph, Integers, Passage

MAKER = "links"


# ---------------------------------------------------------------- records to edges


def link_edges(passages: Iterable[Passage], documents: Iterable[Document]) -> Iterator[Edge]:
    """An edge per resolved link, and the edges that follow from the order of passages in documents.

    A passage is `part_of` its document, and `next` leads to the following passage; not in a table, which only stores
    logs and would connect all of them. A document `cites` what its passages cite, weighted by how many do.
    Loops are left out, and a link repeated within one passage counts once. `documents` are read first; of
    passages only the ids stay in memory.
    """
    cited: Counter[tuple[str, str]] = Counter()
    document_ids: set[str] = set()
    tables: set[str] = set()
    for document in documents:
        document_ids.add(document.id)
        if document.kind == "table":
            tables.add(document.id)
        for relation, target in _resolved(document):
            if relation == "cites":
                cited[document.id, target] = 0  # an edge even if no passage cites it
            else:
                yield Edge(document.id, relation, target, maker=MAKER)
    document_of: dict[str, str] = {}
    previous: dict[str, str] = {}
    citations: list[tuple[str, dict[str, None]]] = []
    for passage in passages:
        document_of[passage.id] = passage.document
        targets: dict[str, None] = {}  # a set would lose the order
        for relation, target in _resolved(passage):
            if relation == "cites":
                targets[target] = None
                if passage.id == passage.document:
                    continue  # the edge of the document says the same
            yield Edge(passage.id, relation, target, evidence=passage.id, maker=MAKER)
        citations.append((passage.document, targets))  # of passages too, whose documents may come later
        if passage.document in tables:
            continue
        if passage.id != passage.document:
            yield Edge(passage.id, "part_of", passage.document, maker=MAKER)
        if passage.document in previous:
            yield Edge(previous[passage.document], "next", passage.id, maker=MAKER)
        previous[passage.document] = passage.id
    for source, targets in citations:
        cited.update({(source, t if t in document_ids else document_of.get(t, t)): 1 for t in targets})
    for (source, target), number in cited.items():
        if source != target:
            yield Edge(source, "cites", target, maker=MAKER, weight=float(max(number, 1)))


def _resolved(record: Passage | Document) -> Iterator[tuple[str, str]]:
    """Relation and target of each resolved link to another record, once, in the order written."""
    for relation, target in dict.fromkeys((link.relation, link.target) for link in record.links):
        if target is not None and target != record.id:
            yield relation, target


# ---------------------------------------------------------------- edges to a graph


def build_graph(edges: Iterable[Edge], kinds: Mapping[str, str]) -> Graph:
    """All nodes of `kinds` and of the edges, sorted by id; a node without a kind is `unknown`.

    The edges of a node are sorted by relation and target; duplicates are merged and their weights added. The
    same edges in another order give the same graph, up to the rounding of added weights. Edges are read once and
    take 26 bytes each.
    """
    rows: dict[str, int] = {}
    names: dict[str, int] = {}
    sources, targets, relation_numbers, weights = array("q"), array("q"), array("h"), array("d")
    for edge in edges:
        sources.append(rows.setdefault(edge.source, len(rows)))
        targets.append(rows.setdefault(edge.target, len(rows)))
        number = names.setdefault(edge.relation, len(names))
        if number > np.iinfo(np.int16).max:
            raise InputError(f"more than {number} different relations, the last one {edge.relation!r}")
        relation_numbers.append(number)
        weights.append(edge.weight)
    for node in kinds:
        rows.setdefault(node, len(rows))
    nodes, relations = sorted(rows), sorted(names)
    row = _positions(nodes, rows)
    source, target = row[np.asarray(sources)], row[np.asarray(targets)]
    relation = _positions(relations, names).astype(np.int16)[np.asarray(relation_numbers)]
    order = np.lexsort((target, relation, source))
    source, target, relation, weight = source[order], target[order], relation[order], np.asarray(weights)[order]
    first = np.ones(len(order), bool)  # of duplicates
    first[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1]) | (relation[1:] != relation[:-1])
    starts = np.flatnonzero(first)
    merged = np.add.reduceat(weight, starts) if len(starts) else weight
    indptr = np.zeros(len(nodes) + 1, np.int64)
    np.cumsum(np.bincount(source[starts], minlength=len(nodes)), out=indptr[1:])
    node_kinds = [kinds.get(node, "unknown") for node in nodes]
    return Graph(nodes, node_kinds, relations, indptr, target[starts], relation[starts], merged.astype(np.float32))


def _positions(ordered: Sequence[str], names: Iterable[str]) -> Integers:
    positions = {name: position for position, name in enumerate(ordered)}
    return np.fromiter((positions[name] for name in names), np.int64, len(ordered))


def counts(graph: Graph) -> dict[str, dict[str, int]]:
    """`nodes` by kind and `edges` by relation, the names sorted."""
    numbers = np.bincount(graph.relation, minlength=len(graph.relations)).tolist()
    return {
        "nodes": dict(sorted(Counter(graph.kinds).items())),
        "edges": dict(sorted(zip(graph.relations, numbers, strict=True))),
    }
