"""Paths through the graph of a workspace: from a query over its nearest passages to other passages.

Works on the opened graph; knows neither texts nor files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from lemmata.core.errors import ConfigError
from lemmata.core.types import Floats, Integers, Mask, MeasuredGraph, Ranking, Step, no_hits
from lemmata.graph.geodesic import Tree, search_tree, search_trees
from lemmata.graph.lengths import distance
from lemmata.graph.levels import Level, coarser_levels, open_nodes
from lemmata.graph.store import StoredGraph
from lemmata.graph.stored_metric import LearnedMetric
from lemmata.search.ranking import diversify

QUERY = "query"  # the source of the first step
NEAR = "similar_to"  # its relation
# Nearest passages that a path may begin with, and how much more the step from the query counts than one along an edge.
# Chosen on validation references of the Stacks project and of arXiv papers (bench/graph_search.py): with 20 starts
# nearly all first hits are starts, and the graph adds little; with weight 1 all starts come before everything else.
STARTS = 5
QUERY_WEIGHT = 2.5
_FARTHEST = 20_000  # nodes that are searched for the path to a hit


@dataclass(frozen=True, slots=True)
class GeodesicOptions:
    """How the retriever `geodesic` searches, and what measures bridges."""

    SMALLEST: ClassVar = {"query_weight": 0.0, "coherence": 0.0, "levels": 1, "diversity": 0.0}
    starts: int | str = 0  # passages that paths begin with; 0: 5, or as the metric chose; "sqrt": √N of N passages
    query_weight: float = 0.0  # of the step from the query; 0: 2.5, or as a learned metric chose
    coherence: float = 0.0  # drop hits whose path has two neighbours with a smaller cosine; 0: none
    levels: int = 1  # of a hierarchy of coarser graphs; 1: exact search in the graph itself
    diversity: float = 0.0  # share of variety among twice as many hits as wanted (MMR), 0 to 1
    learned_bridges: bool = False  # `lemmata bridge` measures links by the learned metric

    def number_of_starts(self, passages: int, otherwise: int) -> int:
        """ConfigError for a text that is none of the choices."""
        if isinstance(self.starts, str):
            if self.starts != "sqrt":
                raise ConfigError(f'geodesic.starts = {self.starts!r} should be a number or "sqrt"')
            return math.ceil(math.sqrt(passages))
        return self.starts if self.starts > 0 else otherwise


def direct_path(identity: str, similarity: float) -> tuple[Step, ...]:
    """The path to a passage that no edge leads to: it resembles the query."""
    return (Step(QUERY, identity, NEAR, float(distance(np.array([similarity], np.float32))[0])),)


class PathSearch:
    """The graph of a workspace with the lengths of its edges, by one encoder.

    A path may begin with the `starts` nearest passages, and the step to them counts `query_weight` times; the defaults
    suit lengths by text. A `metric` that was learned measures that step. `vectors` (passages, dim) are what clusters
    and variety of `options` are made of, by default the embeddings of the metric.
    """

    def __init__(
        self,
        stored: StoredGraph,
        measured: MeasuredGraph,
        passages: int,
        *,
        starts: int = STARTS,
        query_weight: float = QUERY_WEIGHT,
        metric: LearnedMetric | None = None,
        options: GeodesicOptions | None = None,
        vectors: Floats | None = None,
    ) -> None:
        self._graph, self._measured, self.metric = stored.graph, measured, metric
        self._options = options or GeodesicOptions()
        self._vectors = metric.h if vectors is None and metric is not None else vectors
        self.starts = self._options.number_of_starts(passages, starts)
        self.query_weight = self._options.query_weight or query_weight
        self._rows = np.asarray(stored.rows)  # of nodes
        self._nodes = np.full(passages, -1, np.int64)  # of passages
        self._is_passage = self._rows >= 0
        self._nodes[self._rows[self._is_passage]] = np.flatnonzero(self._is_passage)

    @cached_property
    def _levels(self) -> list[Level]:
        if self._options.levels < 2 or self._vectors is None:
            return []
        return coarser_levels(self._measured, self._rows, self._vectors, self._options.levels)

    def nearest(
        self,
        near: Sequence[Ranking],
        k: int,
        allowed: Mask | None = None,
        itself: Integers | None = None,
        queries: Floats | None = None,
    ) -> Ranking:
        """The k passages nearest to each query along the graph: rows and scores (n, k), best first.

        `near` are the passages whose vectors are nearest, of all and of those that are allowed: rows and similarities
        (n, one more than starts). The first of each start the search, and the last ones come last where the graph
        does not reach k. The score is 1 / (1 + distance). `itself` (n,) is the passage that a query is, -1 for none:
        neither it nor its document is on any path. `queries` (n, dim) are the vectors, for coherence by a metric.
        """
        rows, similarities = near[-1]
        own_rows = np.full(len(rows), -1) if itself is None else itself
        beginnings = [self._starts(near, query, int(row)) for query, row in enumerate(own_rows)]
        nodes = [self._nodes[starts] for starts, _ in beginnings]
        lengths = [self.query_weight * distances for _, distances in beginnings]
        blocked = [self._of_itself(int(row)) for row in own_rows]
        depth = 2 * k if self._options.coherence or self._options.diversity else k
        if self._levels:
            for query, closed in enumerate(blocked):
                is_open = open_nodes(self._levels, nodes[query], lengths[query], depth)
                closed += np.flatnonzero(~is_open).tolist()
        counted = self._is_passage if allowed is None else self._is_passage & allowed[self._rows]
        trees = search_trees(self._measured, nodes, lengths, depth, counted=counted, blocked=blocked)
        hit_rows, scores = no_hits(len(rows), k)
        for number, tree in enumerate(trees):
            reached = self._rows[tree.nodes]
            counts = reached >= 0 if allowed is None else (reached >= 0) & allowed[reached]
            places = np.flatnonzero(counts)[:depth]
            distances = tree.distances[places]
            if depth > k:
                places = self._selected(tree, places, None if queries is None else queries[number])
            hits, distances = reached[places][:k], distances[: min(k, len(places))]
            unreached = (
                (rows[number] >= 0) & ~np.isin(rows[number], reached[counts]) & (rows[number] != own_rows[number])
            )
            behind = self.query_weight * distance(similarities[number][unreached]) + distances.max(initial=0)
            hits = np.concatenate([hits, rows[number][unreached]])[:k]
            hit_rows[number, : len(hits)] = hits
            scores[number, : len(hits)] = 1 / (1 + np.concatenate([distances, behind])[:k])
        return hit_rows, scores

    def _selected(self, tree: Tree, places: Integers, query: Floats | None) -> Integers:
        """Places of a tree in the order of maximal marginal relevance, without those of incoherent paths."""
        if self._options.diversity and self._vectors is not None and len(places):
            vectors = np.asarray(self._vectors[self._rows[tree.nodes[places]]], np.float32)
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
            relevance = -tree.distances[places].astype(np.float32)
            places = places[diversify(relevance, vectors, len(places), min(self._options.diversity, 1.0))]
        if self._options.coherence:
            places = places[self.coherences(tree, query)[places] >= self._options.coherence]
        return places

    def coherences(self, tree: Tree, query: Floats | None = None) -> Floats:
        """The smallest cosine of two neighbours on the path to each node of a tree, with the step from the query.

        By a learned metric cosines are those of its embeddings; else lengths tell them.
        """
        is_start = tree.parents < 0
        if self.metric is not None and query is not None:
            h = np.asarray(self.metric.h[self._rows[tree.nodes]], np.float32)
            embedding = np.asarray(self.metric.head(np.asarray(query[None], np.float32))[0][0])
            h /= np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)
            cosines = np.einsum("ij,ij->i", h, h[tree.parents])
            cosines[is_start] = h[is_start] @ embedding / max(float(np.linalg.norm(embedding)), 1e-12)
        else:
            lengths = tree.distances / self.query_weight
            lengths[~is_start] = self._measured.lengths[tree.entries[~is_start]]
            cosines = 1 - lengths**2 / 2
        for place, parent in enumerate(tree.parents.tolist()):  # a parent comes before its children
            if parent >= 0:
                cosines[place] = min(cosines[place], cosines[parent])
        return np.asarray(cosines, np.float32)

    def paths(self, near: Sequence[Ranking], hits: Sequence[int], itself: int = -1) -> list[tuple[Step, ...]]:
        """The shortest path to each of some passages, by rows; empty where the graph has none, or only a very long one.

        `near` and `itself` are those of `nearest`, for one query.
        """
        starts, lengths = self._starts(near, 0, itself)
        counted = np.zeros(len(self._rows), bool)
        counted[self._nodes[list(hits)]] = True
        tree = search_tree(
            self._measured,
            self._nodes[starts],
            self.query_weight * lengths,
            len({*hits}),
            counted=counted,
            blocked=self._of_itself(itself),
            limit=_FARTHEST,
        )
        place_of = {int(self._rows[node]): place for place, node in enumerate(tree.nodes.tolist()) if counted[node]}
        return [self._steps(tree, place_of[row]) if row in place_of else () for row in hits]

    def _starts(self, near: Sequence[Ranking], query: int, itself: int) -> Ranking:
        """The rows that a path may begin with, and their distances from the query."""
        starts: dict[int, float] = {}
        for rows, similarities in near:
            chosen = np.flatnonzero((rows[query] >= 0) & (rows[query] != itself))[: self.starts]
            starts |= zip(rows[query, chosen].tolist(), similarities[query, chosen].tolist(), strict=True)
        return np.array(list(starts), np.int64), distance(np.array(list(starts.values()), np.float32))

    def _of_itself(self, row: int) -> list[int]:
        """The nodes of a passage that is the query: its own, and its document, which cites what its passages cite."""
        if row < 0:
            return []
        node = int(self._nodes[row])
        edges = slice(int(self._graph.indptr[node]), int(self._graph.indptr[node + 1]))
        names = (self._graph.relations[number] for number in self._graph.relation[edges])
        targets = self._graph.indices[edges].tolist()
        return [node, *(target for target, name in zip(targets, names, strict=True) if name == "part_of")]

    def _steps(self, tree: Tree, place: int) -> tuple[Step, ...]:
        places = tree.path(place)
        names = [self._graph.nodes[node] for node in tree.nodes[places].tolist()]
        steps = [Step(QUERY, names[0], NEAR, float(tree.distances[places[0]] / self.query_weight))]
        for source, target, entry in zip(names, names[1:], tree.entries[places[1:]].tolist(), strict=False):
            edge = int(self._measured.edges[entry])
            relation = self._graph.relations[self._graph.relation[edge if edge >= 0 else -1 - edge]]
            length = float(self._measured.lengths[entry])
            steps.append(Step(source, target, relation if edge >= 0 else f"^{relation}", length))
        return tuple(steps)
