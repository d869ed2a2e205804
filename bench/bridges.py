"""Bridges between distant areas: which later papers will connect them?

    python -m bench.bridges WORKSPACE --since 2017 [--until 2018] [--out FILE]

The workspace has documents with dates and categories, a graph with citations, and an index. No reference from or to a
document since the date, or one without a date, is in the graph. Areas are first categories with at least 30 earlier
documents; of all pairs, the half whose mean vectors are least similar is distant. The bridges of a pair are the later
documents that cite earlier ones of both areas; pairs with at least three are kept. All later documents are ranked for
each pair. Pairs share areas and documents, so intervals over pairs are too narrow.

Rankings: `dense` by the sum of the cosines to both areas; by the largest cosine to a passage on ten paths between them;
by the length of the shortest path from area to area through the document, which concepts of its text link; and by what
the 20 earlier documents nearest to it cite in both areas (geometric mean of the two numbers).

Bridge@10 is the share of bridges among the first ten, or among as many as there are bridges if that is less.
Coherence is the smallest cosine of two neighbours on the first path of a pair; for vectors, on the path from one area
over the first document to the other.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from bench.graph_search import measured

from lemmata.evaluate.significance import bootstrap, compare
from lemmata.geometry.bridges import End, diverse_routes
from lemmata.geometry.geodesic import coherence, search_trees
from lemmata.geometry.lengths import distance
from lemmata.paths import QUERY_WEIGHT, SEEDS
from lemmata.search import Retriever
from lemmata.store.graph import CITING, StoredGraph, citations_between, open_graph
from lemmata.types import Floats, Graph, Integers, MeasuredGraph

Floats64 = npt.NDArray[np.float64]

FEWEST_DOCUMENTS, FEWEST_BRIDGES, DEPTH, PATHS, NEIGHBOURS = 30, 3, 10, 10, 20


class Pair(NamedTuple):
    """Two areas, and places among the candidates of the documents that connect them."""

    names: tuple[str, str]
    bridges: set[int]


class Task(NamedTuple):
    """Distant pairs of areas; documents are rows of passages."""

    areas: dict[str, Integers]  # earlier documents
    means: dict[str, Floats]  # their normalised mean vector
    pairs: list[Pair]
    candidates: Integers  # later documents
    known: Integers  # earlier ones


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--since", required=True)
    parser.add_argument("--until", default="9999")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with Retriever.open(options.workspace) as retriever:
        report = run(retriever, options.since, options.until)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


def run(retriever: Retriever, since: str, until: str) -> dict[str, Any]:
    matrix = np.asarray(retriever.vectors.matrix, np.float32)
    task, hidden = make_task(retriever, matrix, since, until)
    stored = open_graph(retriever.layout)
    stored = stored._replace(graph=without_citations(stored.graph, hidden))
    lengths = measured(stored, matrix)
    bridges = [len(pair.bridges) for pair in task.pairs]
    print(f"{len(task.pairs)} pairs of {len(task.areas)} areas, {np.median(bridges):g} bridges in the median,")
    print(f"{len(task.candidates):,} candidates, {len(lengths.edges) // 2:,} edges known")
    scores, coherences = rankings(task, matrix, stored, lengths)
    values: dict[str, Floats64] = {}
    for name, ranked in scores.items():
        first = np.argsort(-ranked, axis=1, kind="stable")[:, :DEPTH].tolist()
        hits = [len(pair.bridges & {*places}) for pair, places in zip(task.pairs, first, strict=True)]
        values[name] = np.array(hits) / np.minimum(bridges, DEPTH)
    report: dict[str, Any] = {"pairs": len(task.pairs), "candidates": len(task.candidates), "Bridge@10": {}}
    for name, each in values.items():
        low, high = bootstrap(each, generator=np.random.default_rng(0))
        print(f"{name:28} Bridge@10 {each.mean():.3f} [{low:.3f}, {high:.3f}]")
        report["Bridge@10"][name] = [round(float(number), 4) for number in (each.mean(), low, high)]
    for result in compare({name: {"B": each} for name, each in values.items()}, "B", "dense", np.random.default_rng(0)):
        print(f"{result.first} − dense: {result.difference:+.3f}, corrected p {result.p:.4f}")
    for name, cosines in coherences.items():
        print(f"coherence, {name}: {np.mean(cosines):.3f}, at least 0.3 in {np.mean(np.array(cosines) >= 0.3):.0%}")
        report[f"coherence, {name}"] = round(float(np.mean(cosines)), 4)
    return report


def without_citations(graph: Graph, hidden: set[str]) -> Graph:
    """The graph without references from or to hidden nodes; concepts that their texts mention stay."""
    is_hidden = np.array([node in hidden for node in graph.nodes])
    numbers = [number for number, name in enumerate(graph.relations) if name in CITING]
    return graph.with_edges(
        ~((is_hidden[graph.sources()] | is_hidden[graph.indices]) & np.isin(graph.relation, numbers))
    )


def make_task(retriever: Retriever, matrix: Floats, since: str, until: str) -> tuple[Task, set[str]]:
    """The pairs of areas, and the ids whose references are hidden: of documents since the date or without one."""
    passages = list(retriever.corpus)
    documents = {document.id: document for document in retriever.corpus.documents()}
    row_of: dict[str, int] = {}
    cited: dict[int, set[str]] = defaultdict(set)
    for row, passage in enumerate(passages):
        first = row_of.setdefault(passage.document, row)
        row_of.setdefault(passage.id, first)
        cited[first] |= {link.target or "" for link in passage.links if link.relation in CITING}
    days = np.array([documents[passage.document].date or "" for passage in passages])
    held_out = days >= since
    firsts = sorted({row_of[document] for document in documents if document in row_of})
    members: dict[str, list[int]] = defaultdict(list)
    area_of: dict[int, str] = {}
    for row in firsts:
        categories = documents[passages[row].document].categories
        if days[row] and not held_out[row] and categories:
            members[categories[0]].append(row)
            area_of[row] = categories[0]
    areas = {name: np.array(rows) for name, rows in sorted(members.items()) if len(rows) >= FEWEST_DOCUMENTS}
    means = {name: matrix[rows].mean(axis=0) for name, rows in areas.items()}
    means = {name: mean / np.linalg.norm(mean) for name, mean in means.items()}
    candidates = [row for row in firsts if held_out[row] and days[row] < until]
    connected: dict[tuple[str, str], set[int]] = defaultdict(set)
    for place, row in enumerate(candidates):
        sides = {area_of.get(row_of[target], "") for target in cited[row] if target in row_of} & areas.keys()
        for names in combinations(sorted(sides), 2):
            connected[names].add(place)
    cosines = {names: float(means[names[0]] @ means[names[1]]) for names in combinations(areas, 2)}
    limit = np.median(list(cosines.values()))
    pairs = [
        Pair(names, bridges)
        for names, bridges in sorted(connected.items())
        if cosines[names] < limit and len(bridges) >= FEWEST_BRIDGES
    ]
    known = np.array([row for row in firsts if days[row] and not held_out[row]])
    unknown = [passage for passage, is_hidden in zip(passages, held_out | (days == ""), strict=True) if is_hidden]
    hidden = {name for passage in unknown for name in (passage.id, passage.document)}
    return Task(areas, means, pairs, np.array(candidates), known), hidden


def rankings(
    task: Task, matrix: Floats, stored: StoredGraph, lengths: MeasuredGraph
) -> tuple[dict[str, Floats64], dict[str, list[float]]]:
    """Scores (pairs, candidates) of every way to rank, and the coherence of paths."""
    texts = matrix[task.candidates]
    nodes = np.full(len(matrix), -1, np.int64)
    nodes[stored.rows[stored.rows >= 0]] = np.flatnonzero(stored.rows >= 0)
    ends = {name: _end(rows, matrix, task.means[name], nodes) for name, rows in task.areas.items()}
    near = {name: texts @ mean for name, mean in task.means.items()}
    reached = _reached(task, ends, nodes, lengths)
    flows = _flows(task, matrix, stored)
    scores: dict[str, list[Floats64]] = defaultdict(list)
    coherences: dict[str, list[float]] = defaultdict(list)
    for pair in task.pairs:
        one, other = pair.names
        both = np.minimum(near[one], near[other])
        total = near[one] + near[other]
        scores["dense"].append(total)
        scores["dense, smaller cosine"].append(both)
        routes = diverse_routes(lengths, ends[one], ends[other], PATHS)
        on_paths = [node for route in routes for node in route.nodes if stored.rows[node] >= 0]
        nearest = (texts @ matrix[stored.rows[sorted({*on_paths})]].T).max(axis=1, initial=-1)
        scores["nearest to 10 paths"].append(nearest)
        scores["path through it"].append(-(reached[one] + reached[other]))
        flow = np.sqrt(flows[one] * flows[other])
        scores["references of neighbours"].append(flow)
        scores["dense + paths"].append(_scaled(total) + _scaled(nearest))
        scores["dense + references"].append(_scaled(total) + _scaled(flow))
        for route in routes[:1]:
            steps = [float(lengths.lengths[entry]) for entry in route.entries]
            for end, node in ((ends[one], route.nodes[0]), (ends[other], route.nodes[-1])):
                steps.append(end.distances[end.nodes.index(node)] / QUERY_WEIGHT)
            coherences["paths"].append(coherence(steps))
        coherences["dense"].append(float(both[total.argmax()]))
    return {name: np.stack(each).astype(np.float64) for name, each in scores.items()}, coherences


def _scaled(values: Any) -> Floats64:
    return np.asarray((values - values.mean()) / max(float(values.std()), 1e-9), np.float64)


def _end(rows: Integers, matrix: Floats, mean: Floats, nodes: Integers) -> End:
    """An area as the end of a path: its documents that are nearest to its mean."""
    cosines = matrix[rows] @ mean
    best = np.argsort(-cosines, kind="stable")[:SEEDS]
    return End(tuple(nodes[rows[best]].tolist()), tuple((QUERY_WEIGHT * distance(cosines[best])).tolist()))


def _reached(task: Task, ends: dict[str, End], nodes: Integers, lengths: MeasuredGraph) -> dict[str, Floats64]:
    """How long the shortest path is from each area to each candidate; twice the longest where there is none."""
    counted = np.zeros(len(lengths.indptr) - 1, bool)
    counted[nodes[task.candidates]] = True
    starts = [end.nodes for end in ends.values()], [end.distances for end in ends.values()]
    trees = search_trees(lengths, *starts, len(nodes), counted=counted)
    result = {}
    for name, tree in zip(ends, trees, strict=True):
        distances = np.full(len(counted), 2 * tree.distances.max(initial=1))
        distances[tree.nodes] = tree.distances
        result[name] = distances[nodes[task.candidates]]
    return result


def _flows(task: Task, matrix: Floats, stored: StoredGraph) -> dict[str, Floats64]:
    """By area: how much of what the earlier documents nearest to a candidate cite, and they themselves, lies in it."""
    citations = citations_between(stored.graph, stored.rows, len(matrix))
    sums = {name: np.zeros(len(task.candidates)) for name in task.areas}
    inside = {name: np.bincount(rows, minlength=len(matrix)).astype(bool) for name, rows in task.areas.items()}
    for place, row in enumerate(task.candidates.tolist()):
        cosines = matrix[task.known] @ matrix[row]
        for known in task.known[np.argpartition(-cosines, NEIGHBOURS)[:NEIGHBOURS]].tolist():
            targets = citations.indices[citations.indptr[known] : citations.indptr[known + 1]]
            for name, mask in inside.items():
                sums[name][place] += mask[known] + mask[targets].sum()
    return sums


if __name__ == "__main__":
    main()
