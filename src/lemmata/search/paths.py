"""Paths through the graph of a workspace: from a query over its nearest passages to other passages.

Works on the opened graph; knows neither texts nor files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lemmata.core.types import Integers, Mask, MeasuredGraph, Ranking, Step, no_hits
from lemmata.graph.geodesic import Tree, search_tree, search_trees
from lemmata.graph.lengths import distance
from lemmata.graph.metric import LearnedMetric
from lemmata.graph.store import StoredGraph

QUERY = "query"  # the source of the first step
NEAR = "similar_to"  # its relation
# Nearest passages that a path may begin with, and how much more the step from the query counts than one along an edge.
# Chosen on validation references of the Stacks project and of arXiv papers (bench/graph_search.py): with 20 seeds
# nearly all first hits are seeds, and the graph adds little; with weight 1 all seeds come before everything else.
SEEDS = 5
QUERY_WEIGHT = 2.5
_FARTHEST = 20_000  # nodes that are searched for the path to a hit


def direct_path(identity: str, similarity: float) -> tuple[Step, ...]:
    """The path to a passage that no edge leads to: it resembles the query."""
    return (Step(QUERY, identity, NEAR, float(distance(np.array([similarity], np.float32))[0])),)


class PathSearch:
    """The graph of a workspace with the lengths of its edges, by one encoder.

    A path may begin with the `seeds` nearest passages, and the step to them counts `query_weight` times; the defaults
    suit lengths by text. A `metric` that was learned measures that step.
    """

    def __init__(
        self,
        stored: StoredGraph,
        measured: MeasuredGraph,
        passages: int,
        *,
        seeds: int = SEEDS,
        query_weight: float = QUERY_WEIGHT,
        metric: LearnedMetric | None = None,
    ) -> None:
        self._graph, self._measured = stored.graph, measured
        self.seeds, self.query_weight, self.metric = seeds, query_weight, metric
        self._rows = np.asarray(stored.rows)  # of nodes
        self._nodes = np.full(passages, -1, np.int64)  # of passages
        self._is_passage = self._rows >= 0
        self._nodes[self._rows[self._is_passage]] = np.flatnonzero(self._is_passage)

    def nearest(
        self, near: Sequence[Ranking], k: int, allowed: Mask | None = None, itself: Integers | None = None
    ) -> Ranking:
        """The k passages nearest to each query along the graph: rows and scores (n, k), best first.

        `near` are the passages whose vectors are nearest, of all and of those that are allowed: rows and similarities
        (n, one more than seeds). The first of each start the search, and the last ones come last where the graph
        does not reach k. The score is 1 / (1 + distance). `itself` (n,) is the passage that a query is, -1 for none:
        neither it nor its document is on any path.
        """
        rows, similarities = near[-1]
        own = np.full(len(rows), -1) if itself is None else itself
        starts = [self._seeds(near, query, int(row)) for query, row in enumerate(own)]
        trees = search_trees(
            self._measured,
            [self._nodes[seeds] for seeds, _ in starts],
            [self.query_weight * lengths for _, lengths in starts],
            k,
            counted=self._is_passage if allowed is None else self._is_passage & allowed[self._rows],
            blocked=[self._of_itself(int(row)) for row in own],
        )
        found, scores = no_hits(len(rows), k)
        for number, tree in enumerate(trees):
            reached = self._rows[tree.nodes]
            counts = reached >= 0 if allowed is None else (reached >= 0) & allowed[reached]
            hits, distances = reached[counts][:k], tree.distances[counts][:k]
            unreached = (rows[number] >= 0) & ~np.isin(rows[number], hits) & (rows[number] != own[number])
            behind = self.query_weight * distance(similarities[number][unreached]) + distances.max(initial=0)
            hits = np.concatenate([hits, rows[number][unreached]])[:k]
            found[number, : len(hits)] = hits
            scores[number, : len(hits)] = 1 / (1 + np.concatenate([distances, behind])[:k])
        return found, scores

    def paths(self, near: Sequence[Ranking], hits: Sequence[int], itself: int = -1) -> list[tuple[Step, ...]]:
        """The shortest path to each of some passages, by rows; empty where the graph has none, or only a very long one.

        `near` and `itself` are those of `nearest`, for one query.
        """
        seeds, lengths = self._seeds(near, 0, itself)
        counted = np.zeros(len(self._rows), bool)
        counted[self._nodes[list(hits)]] = True
        tree = search_tree(
            self._measured,
            self._nodes[seeds],
            self.query_weight * lengths,
            len({*hits}),
            counted=counted,
            blocked=self._of_itself(itself),
            limit=_FARTHEST,
        )
        place_of = {int(self._rows[node]): place for place, node in enumerate(tree.nodes.tolist()) if counted[node]}
        return [self._steps(tree, place_of[row]) if row in place_of else () for row in hits]

    def _seeds(self, near: Sequence[Ranking], query: int, itself: int) -> Ranking:
        """The rows that a path may begin with, and their distances from the query."""
        seeds: dict[int, float] = {}
        for rows, similarities in near:
            chosen = np.flatnonzero((rows[query] >= 0) & (rows[query] != itself))[: self.seeds]
            seeds |= zip(rows[query, chosen].tolist(), similarities[query, chosen].tolist(), strict=True)
        return np.array(list(seeds), np.int64), distance(np.array(list(seeds.values()), np.float32))

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
