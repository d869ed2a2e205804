"""Passages and documents to edges, and edges to a typed graph in compressed rows.

Knows what links mean as a graph; does not know how a link was resolved, nor any file.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lemmata.errors import InputError
from lemmata.types import Document, Edge, Graph, Integers, Passage

__all__ = ["build_graph", "counts", "link_edges", "neighbours", "reverse", "within"]

MAKER = "links"


# ---------------------------------------------------------------- records to edges


def link_edges(passages: Iterable[Passage], documents: Iterable[Document]) -> Iterator[Edge]:
    """Every resolved link under its own relation, and what follows from where passages stand.

    A passage is `part_of` its document and leads to the `next` one of it, in the order given; but not in a table,
    which is a place to keep logs and would tie all of them together. A document
    `cites` what its passages cite, with their number as the weight. An edge to itself is left out; what one
    passage says twice counts once. `documents` are read first; of passages only the ids are kept.
    """
    cited: Counter[tuple[str, str]] = Counter()
    known: set[str] = set()
    tables: set[str] = set()
    for document in documents:
        known.add(document.id)
        if document.kind == "table":
            tables.add(document.id)
        for relation, target in _resolved(document):
            if relation == "cites":
                cited[document.id, target] = 0  # at least an edge, even where no passage cites
            else:
                yield Edge(document.id, relation, target, maker=MAKER)
    home: dict[str, str] = {}
    last: dict[str, str] = {}
    later: list[tuple[str, set[str]]] = []
    for passage in passages:
        home[passage.id] = passage.document
        citing: set[str] = set()
        for relation, target in _resolved(passage):
            if relation == "cites":
                citing.add(target)
                if passage.id == passage.document:
                    continue  # a passage that is its document: the document's edge says the same
            yield Edge(passage.id, relation, target, evidence=passage.id, maker=MAKER)
        if citing <= known:
            cited.update((passage.document, target) for target in citing)
        else:
            later.append((passage.document, citing))  # it cites passages, whose documents may be still to come
        if passage.document in tables:
            continue
        if passage.id != passage.document:
            yield Edge(passage.id, "part_of", passage.document, maker=MAKER)
        if passage.document in last:
            yield Edge(last[passage.document], "next", passage.id, maker=MAKER)
        last[passage.document] = passage.id
    for source, targets in later:
        cited.update((source, document) for document in {_home(target, known, home) for target in targets})
    for (source, target), number in cited.items():
        if source != target:
            yield Edge(source, "cites", target, maker=MAKER, weight=float(max(number, 1)))


def _resolved(record: Passage | Document) -> Iterator[tuple[str, str]]:
    """Relation and target of each link that leads elsewhere, once, in the order written."""
    pairs = dict.fromkeys((link.relation, link.target) for link in record.links)
    for relation, target in pairs:
        if target is not None and target != record.id:
            yield relation, target


def _home(target: str, documents: set[str], home: Mapping[str, str]) -> str:
    return target if target in documents else home.get(target, target)


# ---------------------------------------------------------------- edges to a graph


def build_graph(edges: Iterable[Edge], kinds: Mapping[str, str]) -> Graph:
    """All nodes of `kinds` and of the edges, sorted by id; a node without a kind is `unknown`.

    The edges of a node are sorted by relation and target; those alike in all three are one, their weights
    added. The same edges in another order give the same graph, up to the rounding of added weights.
    Edges are read once and kept in 26 bytes each.
    """
    rows: dict[str, int] = {}
    names: dict[str, int] = {}
    sources, targets, kept, weights = array("q"), array("q"), array("h"), array("d")
    for edge in edges:
        sources.append(rows.setdefault(edge.source, len(rows)))
        targets.append(rows.setdefault(edge.target, len(rows)))
        number = names.setdefault(edge.relation, len(names))
        if number > np.iinfo(np.int16).max:
            raise InputError(f"more than {number} different relations, the last one {edge.relation!r}")
        kept.append(number)
        weights.append(edge.weight)
    for node in kinds:
        rows.setdefault(node, len(rows))
    nodes = sorted(rows)
    relations = sorted(names)
    row = _places(nodes, rows)
    relation = _places(relations, names).astype(np.int16)[np.asarray(kept)]
    return _compressed(
        nodes,
        [kinds.get(node, "unknown") for node in nodes],
        relations,
        row[np.asarray(sources)],
        row[np.asarray(targets)],
        relation,
        np.asarray(weights),
    )


def reverse(graph: Graph) -> Graph:
    """The same edges the other way, over the same nodes and relations."""
    return _compressed(
        graph.nodes,
        graph.kinds,
        graph.relations,
        graph.indices,
        graph.sources(),
        graph.relation,
        graph.weight.astype(np.float64),
    )


def _compressed(
    nodes: Sequence[str],
    kinds: Sequence[str],
    relations: Sequence[str],
    sources: Integers,
    targets: Integers,
    relation: npt.NDArray[np.int16],
    weights: npt.NDArray[np.float64],
) -> Graph:
    """Edges in any order to rows; the arrays are (edges,), `sources` and `targets` in rows of `nodes`."""
    order = np.lexsort((targets, relation, sources))
    sources, targets, relation = sources[order], targets[order], relation[order]
    first = np.ones(len(order), bool)  # of edges alike
    first[1:] = (sources[1:] != sources[:-1]) | (targets[1:] != targets[:-1]) | (relation[1:] != relation[:-1])
    starts = np.flatnonzero(first)
    merged = np.add.reduceat(weights[order], starts) if len(starts) else weights
    indptr = np.zeros(len(nodes) + 1, np.int64)
    np.cumsum(np.bincount(sources[starts], minlength=len(nodes)), out=indptr[1:])
    return Graph(nodes, kinds, relations, indptr, targets[starts], relation[starts], merged.astype(np.float32))


def _places(ordered: Sequence[str], numbers: Mapping[str, int]) -> Integers:
    """Where each number's name stands in the order."""
    places = np.empty(len(ordered), np.int64)
    places[np.fromiter((numbers[name] for name in ordered), np.int64, len(ordered))] = np.arange(len(ordered))
    return places


# ---------------------------------------------------------------- questions to a graph


def neighbours(graph: Graph, node: int, relations: Collection[str] | None = None) -> Integers:
    """The nodes that an edge of `node` leads to, each once, ascending; over `relations` only, where given."""
    if not 0 <= node < len(graph.nodes):
        raise IndexError(f"node {node} of a graph with {len(graph.nodes)} nodes")
    edges = slice(int(graph.indptr[node]), int(graph.indptr[node + 1]))
    targets = graph.indices[edges]
    if relations is not None:
        wanted = [number for number, name in enumerate(graph.relations) if name in relations]
        targets = targets[np.isin(graph.relation[edges], wanted)]
    return np.unique(targets)


def within(graph: Graph, reversed_graph: Graph, node: int, hops: int, most: int = 10_000) -> dict[int, int]:
    """Node to number of steps, edges taken in either direction; `node` itself is 0 steps away.

    Nearest first, then ascending; of what lies beyond `most` nodes nothing is told.
    """
    found = frontier = np.array([node], np.int64)[:most]
    steps = dict.fromkeys(frontier.tolist(), 0)
    for step in range(1, hops + 1):
        reached = [neighbours(way, int(one)) for one in frontier for way in (graph, reversed_graph)]
        if not reached or len(found) >= most:
            break
        frontier = np.setdiff1d(np.concatenate(reached), found)[: most - len(found)]
        found = np.concatenate((found, frontier))
        steps.update(dict.fromkeys(frontier.tolist(), step))
    return steps


def counts(graph: Graph) -> dict[str, dict[str, int]]:
    """`nodes` by kind and `edges` by relation, the names sorted."""
    numbers = np.bincount(graph.relation, minlength=len(graph.relations)).tolist()
    return {
        "nodes": dict(sorted(Counter(graph.kinds).items())),
        "edges": dict(sorted(zip(graph.relations, numbers, strict=True))),
    }
