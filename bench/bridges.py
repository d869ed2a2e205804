"""Bridges between distant areas, by text and by the learned metric: which later papers will cite both?

    python -m bench.bridges FILE.npz [--vectors FILE.npy] [--part 2] [--seeds 3] [--set FIELD=JSON …] [--json OUT]

FILE is of `python -m bench.metric export ARXIV-WORKSPACE FILE.npz --since 2017 --validation 2016-07 --encoder NAME`.
Papers of the training part are known, with the references among them; areas are their first categories with at least
30 papers. Of all pairs of areas, the half whose mean vectors are least similar is distant. The bridges of a pair are
the papers of part 2 (test; 1 is validation) that refer to known papers of both areas; pairs with at least three are
kept, and all papers of that part are ranked for each pair, by their text alone. Pairs share areas and papers, so
intervals over pairs are too narrow.

Rankings, each by text and by a metric learned from the known references: `areas`, the sum of the squared distances to
the means of both areas; `paths`, the distance to the nearest passage on ten paths between them; `geodesics`, the sum
of the lengths of the shortest paths from both areas to the paper, the last step from its five nearest known papers.

Bridge@10 is the share of bridges among the first ten, or among as many as there are bridges if that is less. Coherence
is the smallest cosine of the texts of two neighbours on the first path between two areas.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench.metric import Run
from bench.shared import link_graph, write_json

from lemmata.core.types import Floats, Integers, MeasuredGraph
from lemmata.evaluate.significance import bootstrap, compare
from lemmata.graph.bridges import End, diverse_routes
from lemmata.graph.geodesic import search_trees
from lemmata.search.paths import QUERY_WEIGHT, SEEDS

FEWEST_DOCUMENTS, FEWEST_BRIDGES, DEPTH, PATHS = 30, 3, 10, 10


class Pair(NamedTuple):
    """Two areas, and places among the candidates of the papers that connect them."""

    areas: tuple[int, int]
    bridges: set[int]


class Space(NamedTuple):
    """Where papers lie, and how far apart: by text, or learned."""

    points: Floats  # (n, dim)
    graph: MeasuredGraph  # the known references
    to_papers: Floats  # (candidates, n) from a candidate to each paper
    to_means: Floats  # (candidates, areas) from a candidate to the mean of each area


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--part", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=JSON")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    run = Run(
        argparse.Namespace(
            **vars(options) | {"encoder": "", "limit": 0, "json": None, "set": ["epochs=16", *options.set]}
        )
    )
    content = np.load(options.file)
    part, links = content["part"], content["links"].astype(np.int64)
    members = known_areas(content)
    candidates = np.flatnonzero(part == options.part)
    pairs = distant_pairs(run.vectors, members, links, candidates)
    number = np.array([len(pair.bridges) for pair in pairs])
    report: dict[str, Any] = {
        "pairs": len(pairs),
        "areas": len(members),
        "candidates": len(candidates),
        "known references": len(run.links),
        "bridges (median)": float(np.median(number)),
        "Bridge@10": {},
        "coherence": {},
        "differences": [],
    }
    values: dict[str, list[Any]] = defaultdict(list)
    spaces = [("text", by_text(run, members, candidates))]
    spaces += [("metric", learned(run, run.train(seed=seed), members, candidates)) for seed in range(options.seeds)]
    for name, space in spaces:
        scores, coherences = rankings(space, run.vectors, members, pairs, part == 0)
        for ranking, ranked in scores.items():
            first = np.argsort(-ranked, axis=1, kind="stable")[:, :DEPTH].tolist()
            hits = [len(pair.bridges & {*places}) for pair, places in zip(pairs, first, strict=True)]
            values[f"{ranking} by {name}"].append(np.array(hits) / np.minimum(number, DEPTH))
        report["coherence"].setdefault(name, []).append(round(float(np.mean(coherences)), 4))
    means = {name: np.mean(each, axis=0) for name, each in values.items()}
    for name, each in means.items():
        low, high = bootstrap(each, generator=np.random.default_rng(0))
        of_seeds = [round(float(seed.mean()), 4) for seed in values[name]]
        report["Bridge@10"][name] = [round(float(value), 4) for value in (each.mean(), low, high)], of_seeds
    given = {name: {"Bridge@10": each} for name, each in means.items()}
    for base in ("areas by text", "paths by text"):
        for result in compare(given, "Bridge@10", base, np.random.default_rng(0)):
            difference = round(result.difference, 4), round(result.low, 4), round(result.high, 4), round(result.p, 4)
            report["differences"].append([f"{result.first} − {base}", *difference])
    write_json(report, options.json)


def known_areas(content: Any) -> dict[int, Integers]:
    """The known papers of each area."""
    known = (content["part"] == 0) & (content["areas"][content["area"]] != "")
    rows = {int(area): np.flatnonzero(known & (content["area"] == area)) for area in np.unique(content["area"][known])}
    return {area: each for area, each in rows.items() if len(each) >= FEWEST_DOCUMENTS}


def distant_pairs(vectors: Floats, members: dict[int, Integers], links: Integers, candidates: Integers) -> list[Pair]:
    area_of = {row: area for area, rows in members.items() for row in rows.tolist()}
    place = {row: number for number, row in enumerate(candidates.tolist())}
    cited: dict[int, set[int]] = defaultdict(set)
    for source, target in links.tolist():
        if source in place and target in area_of:
            cited[place[source]].add(area_of[target])
    connected: dict[tuple[int, int], set[int]] = defaultdict(set)
    for paper, areas in cited.items():
        for both in combinations(sorted(areas), 2):
            connected[both].add(paper)
    means = dict(zip(members, area_means(vectors, members), strict=True))
    cosines = {both: float(means[both[0]] @ means[both[1]]) for both in combinations(sorted(members), 2)}
    limit = np.median(list(cosines.values()))
    return [
        Pair(both, bridges)
        for both, bridges in sorted(connected.items())
        if cosines[both] < limit and len(bridges) >= FEWEST_BRIDGES
    ]


def area_means(points: Floats, members: dict[int, Integers]) -> Floats:
    """The mean of each area (areas, dim), as long as a point is."""
    means = np.stack([points[rows].mean(axis=0) for rows in members.values()])
    length = np.linalg.norm(points, axis=1).mean()
    return np.asarray(length * means / np.linalg.norm(means, axis=1, keepdims=True), np.float32)


def by_text(run: Run, members: dict[int, Integers], candidates: Integers) -> Space:
    points, (sources, targets) = run.vectors, run.links.T
    along = euclidean(points[sources], points[targets])
    _, graph = link_graph(run.links, along, along, len(points))
    texts = points[candidates]
    return Space(points, graph, _chord(texts @ points.T), _chord(texts @ area_means(points, members).T))


def learned(run: Run, trained: Any, members: dict[int, Integers], candidates: Integers) -> Space:
    torch, model = run.torch, trained.model
    both = [torch.tensor(run.links[:, side].copy(), device=run.device) for side in (0, 1)]
    forward, backward = (run.edge_lengths(trained, one, other).cpu().numpy() for one, other in (both, both[::-1]))
    points = trained.nodes.h.detach().cpu().numpy()
    _, graph = link_graph(run.links, forward, backward, len(points))
    with torch.no_grad():
        alone = model.locate_alone(run.x[torch.tensor(candidates, device=run.device)])
    means = torch.tensor(area_means(points, members), device=run.device)
    goals = (trained.nodes, trained.nodes._replace(h=means, hidden=means))
    return Space(points, graph, *(model.search_distances(alone, each).cpu().numpy() for each in goals))


def rankings(
    space: Space, texts: Floats, members: dict[int, Integers], pairs: list[Pair], known: Any
) -> tuple[dict[str, Floats], list[float]]:
    """Scores (pairs, candidates) of every way to rank, and the coherence of the first path of each pair."""
    means = dict(zip(members, area_means(space.points, members), strict=True))
    ends = {area: _end(rows, space.points, means[area]) for area, rows in members.items()}
    reached = _reached(space, ends, known)
    column = {area: number for number, area in enumerate(members)}
    scores: dict[str, list[Floats]] = defaultdict(list)
    coherences = []
    for pair in pairs:
        one, other = pair.areas
        near = np.square(space.to_means)
        scores["areas"].append(-near[:, column[one]] - near[:, column[other]])
        routes = diverse_routes(space.graph, ends[one], ends[other], PATHS)
        on_paths = sorted({node for route in routes for node in route.nodes})
        scores["paths"].append(-space.to_papers[:, on_paths].min(axis=1, initial=np.inf))
        scores["geodesics"].append(-reached[one] - reached[other])
        for route in routes[:1]:
            on_path = texts[list(route.nodes)]
            coherences.append(float(np.einsum("ij,ij->i", on_path[1:], on_path[:-1]).min(initial=1.0)))
    return {name: np.stack(each) for name, each in scores.items()}, coherences


def _end(rows: Integers, points: Floats, mean: Floats) -> End:
    """An area as the end of a path: its papers that are nearest to its mean."""
    distances = euclidean(points[rows], mean)
    best = np.argsort(distances, kind="stable")[:SEEDS]
    return End(tuple(rows[best].tolist()), tuple((QUERY_WEIGHT * distances[best]).tolist()))


def _reached(space: Space, ends: dict[int, End], known: Any) -> dict[int, Floats]:
    """The length of the shortest path from each area to each candidate, over the papers that are nearest to it."""
    near = np.argsort(np.where(known, space.to_papers, np.inf), axis=1)[:, :SEEDS]
    last = QUERY_WEIGHT * np.take_along_axis(space.to_papers, near, axis=1)
    starts = [end.nodes for end in ends.values()], [end.distances for end in ends.values()]
    trees = search_trees(space.graph, *starts, len(known))
    result = {}
    for area, tree in zip(ends, trees, strict=True):
        distances = np.full(len(known), 2 * tree.distances.max(initial=1), np.float32)  # where no path leads
        distances[tree.nodes] = tree.distances
        result[area] = (distances[near] + last).min(axis=1)
    return result


def euclidean(one: Floats, other: Floats) -> Floats:
    return np.asarray(np.linalg.norm(one - other, axis=1), np.float32)


def _chord(cosines: Floats) -> Floats:
    return np.sqrt(np.maximum(2 - 2 * cosines, 0))


if __name__ == "__main__":
    main()
