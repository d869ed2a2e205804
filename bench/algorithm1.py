"""Algorithm 1 of geodesic search beside ours, and each of its choices alone, by a learned metric.

    python -m bench.algorithm1 FILE.npz [KEPT.npz …] [--json OUT] [--limit 400] [--only NAME;NAME]

FILE is of `python -m bench.metric`, KEPT of `python -m bench.ablations
FILE.npz … --keep FOLDER`; without KEPT lengths are those of the vectors in FILE. A query (`--limit` are drawn from the
test part) is given its nearest passages, so times are those of the search after them, CPU milliseconds of one query.
Coherence is the smallest cosine of two neighbours on the path to a hit, the mean over the first 20 hits.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench.metric import MEASURES, make_task
from bench.shared import link_graph, write_json

from lemmata.core.types import Floats, Integers, Mask
from lemmata.evaluate.measures import evaluate
from lemmata.evaluate.significance import bootstrap, randomisation
from lemmata.graph.lengths import distance
from lemmata.graph.store import StoredGraph
from lemmata.graph.stored_metric import LearnedMetric
from lemmata.search.paths import QUERY_WEIGHT, SEEDS, GeodesicOptions, PathSearch

K = 20
NEAR = 500  # passages nearest to a query by text
LEARNED = {"seeds": 20, "query_weight": 2.5}  # validation chose 20 seeds, and this weight or 0.5 (bench/metric_*.json)
BY_TEXT = {"seeds": SEEDS, "query_weight": QUERY_WEIGHT}  # the default of `lemmata search`
PRINTED = {"seeds": "sqrt", "query_weight": 1.0, "coherence": 0.3, "levels": 3, "diversity": 0.3}


def settings(ours: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "ours": ours,
        "5 seeds": {**ours, "seeds": 5},
        "√N seeds, weight 1": {"seeds": "sqrt", "query_weight": 1.0},
        **{
            f"5 seeds, {key} {PRINTED[key]}": {**ours, "seeds": 5, key: PRINTED[key]} for key in ("coherence", "levels")
        },
        **{f"{key} {PRINTED[key]}": {**ours, key: PRINTED[key]} for key in ("coherence", "levels", "diversity")},
        "Algorithm 1": PRINTED,
    }


class Kept:
    """What a search needs: of a trained network, or of vectors."""

    metric: LearnedMetric | None = None

    def __init__(self, content: Any, queries: Integers, near: Integers, similarities: Floats) -> None:
        self.queries, self.near, self.similarities = queries, near.astype(np.int64), similarities
        self.h: Floats = content["h"]
        self.own: Floats = content["own"]
        links = content["links"], content["forward"], content["backward"]
        graph, self.measured = link_graph(*links, len(self.h))
        self.stored = StoredGraph(graph, np.arange(len(self.h)), {}, {}, "")

    @classmethod
    def learned(cls, file: Path, queries: Integers) -> Kept:
        content = dict(np.load(file))
        places = np.searchsorted(content["queries"], queries)
        assert np.array_equal(content["queries"][places], queries), f"{file} has other queries"
        content["h"] = content["h"] * content["scale"]
        alone = content["alone"] * content["alone_scale"]
        content["own"] = alone[np.searchsorted(content["held_out"], queries)]
        self = cls(content, queries, content["near"][places], 1 - np.square(content["distances"][places]) / 2)
        factor = np.zeros((1, self.h.shape[1], 1), np.float32)  # of no use here
        self.metric = LearnedMetric(self.h, 1.0, lambda embeddings: (embeddings, factor))
        return self

    @classmethod
    def by_text(cls, content: Any, queries: Integers, candidates: Mask) -> Kept:
        vectors = np.asarray(next(content[name] for name in content.files if name.startswith("vectors_")), np.float32)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        links = content["links"].astype(np.int64)
        links = links[content["part"][links[:, 0]] == 0]
        near, similarities = np.empty((len(queries), NEAR), np.int64), np.empty((len(queries), NEAR), np.float32)
        for place, row in enumerate(queries.tolist()):
            cosines = np.where(candidates, vectors @ vectors[row], -np.inf)
            cosines[row] = -np.inf
            near[place] = np.argpartition(-cosines, NEAR)[:NEAR]
            near[place] = near[place][np.argsort(-cosines[near[place]], kind="stable")]
            similarities[place] = cosines[near[place]]
        along = distance(np.einsum("ij,ij->i", vectors[links[:, 0]], vectors[links[:, 1]]))
        arrays = {"h": vectors, "own": vectors[queries], "links": links, "forward": along, "backward": along}
        return cls(arrays, queries, near, similarities)

    def search(self, options: GeodesicOptions) -> PathSearch:
        count = len(self.h)
        return PathSearch(self.stored, self.measured, count, metric=self.metric, options=options, vectors=self.h)

    def answer(self, search: PathSearch, place: int, candidates: Mask) -> Integers:
        part = slice(place, place + 1)
        near = self.near[part], self.similarities[part]
        hits, _ = search.nearest([near], K, candidates, self.queries[part], self.own[part])
        return np.asarray(hits[0], np.int64)

    def coherence(self, search: PathSearch, place: int, hits: Integers) -> float:
        """The mean over hits; those that no path leads to are reached from the query."""
        part = slice(place, place + 1)
        hits = hits[hits >= 0]
        paths = search.paths([(self.near[part], self.similarities[part])], hits.tolist(), int(self.queries[place]))
        values = []
        for hit, steps in zip(hits.tolist(), paths, strict=True):
            rows = [int(step.target) for step in steps] or [hit]
            points = np.concatenate([self.own[part], self.h[rows]])
            points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
            values.append(float(np.einsum("ij,ij->i", points[1:], points[:-1]).min()))
        return statistics.fmean(values) if values else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("kept", type=Path, nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--limit", type=int, default=400)
    parser.add_argument("--only", default="", help="settings, separated by semicolons")
    options = parser.parse_args()
    content = np.load(options.file)
    candidates, part = content["candidates"], content["part"].astype(np.int64)
    task = make_task(content["links"].astype(np.int64), part, candidates, 2, options.limit)
    report: dict[str, Any] = {"queries": len(task.rows)}
    searches = [(file.stem, LEARNED, Kept.learned(file, task.rows)) for file in options.kept]
    for title, ours, kept in searches or [("by text", BY_TEXT, Kept.by_text(content, task.rows, candidates))]:
        recall = {"direct distance": evaluate(kept.near[:, :K], task.judgments, [MEASURES[1]])["R@20"]}
        rows: dict[str, Any] = {"direct distance": {}}
        for name, setting in settings(ours).items():
            if options.only and name not in options.only.split(";"):
                continue
            rows[name], hits = measure(kept, GeodesicOptions(**setting), candidates)
            recall[name] = evaluate(hits, task.judgments, [MEASURES[1]])["R@20"]
            print(title, name, rows[name], round(float(recall[name].mean()), 4), file=sys.stderr, flush=True)
        for name, values in recall.items():
            low, high = bootstrap(values, generator=np.random.default_rng(0))
            rows[name] |= {"R@20": round(float(values.mean()), 4), "interval": [round(low, 4), round(high, 4)]}
            p = randomisation(values, recall["ours"], generator=np.random.default_rng(0), samples=2000)
            rows[name] |= {"difference": round(float((values - recall["ours"]).mean()), 4), "p": round(p, 4)}
        report[title] = rows
    write_json(report, options.json)


def measure(kept: Kept, options: GeodesicOptions, candidates: Mask) -> tuple[dict[str, Any], Integers]:
    search = kept.search(options)
    kept.answer(search, 0, candidates)  # makes the levels
    places = range(len(kept.queries))
    hits = np.full((len(places), K), -1, np.int64)
    spent, coherences = [], []
    for place in places:
        begin = time.process_time()
        hits[place] = kept.answer(search, place, candidates)
        spent.append(1000 * (time.process_time() - begin))
        coherences.append(kept.coherence(search, place, hits[place]))
    found = {"coherence": round(statistics.fmean(coherences), 3), "filled": round(float((hits >= 0).mean()), 3)}
    times = {f"cpu_ms_p{share}": round(float(np.percentile(spent, share)), 2) for share in (50, 95)}
    return found | times, hits


if __name__ == "__main__":
    main()
