"""Algorithm 1 of geodesic search beside ours, and each of its choices alone, by a learned metric.

    python -m bench.algorithm1 FILE.npz KEPT.npz … [--json OUT] [--limit 400]

FILE is of `python -m bench.metric export`, KEPT of `python -m bench.ablations FILE.npz … --keep FOLDER`. A query
(`--limit` are drawn from the test part) is given its nearest passages by the metric, so times are those of the search
after them, CPU milliseconds of one query. Coherence is the smallest cosine of two neighbours on the path to a hit, the
mean over the first 20 hits.
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
from bench.shared import sorted_edges, write_json

from lemmata.core.types import Floats, Graph, Integers, Mask
from lemmata.evaluate.measures import evaluate
from lemmata.evaluate.significance import bootstrap, randomisation
from lemmata.graph.store import StoredGraph
from lemmata.graph.stored_metric import LearnedMetric
from lemmata.search.paths import GeodesicOptions, PathSearch

K = 20
OURS = {"seeds": 20, "query_weight": 2.5}  # validation chose 20 seeds, and this weight or 0.5 (bench/metric_*.json)
PRINTED = {"seeds": "sqrt", "query_weight": 1.0, "coherence": 0.3, "levels": 3, "diversity": 0.3}
SETTINGS: dict[str, dict[str, Any]] = {
    "ours": OURS,
    "5 seeds": {**OURS, "seeds": 5},
    "√N seeds, weight 1": {"seeds": "sqrt", "query_weight": 1.0},
    **{f"5 seeds, {key} {PRINTED[key]}": {**OURS, "seeds": 5, key: PRINTED[key]} for key in ("coherence", "levels")},
    **{f"{key} {PRINTED[key]}": {**OURS, key: PRINTED[key]} for key in ("coherence", "levels", "diversity")},
    "Algorithm 1": PRINTED,
}


class Kept:
    """What a search needs of a trained network."""

    def __init__(self, file: Path, queries: Integers) -> None:
        content = np.load(file)
        self.queries, places = queries, np.searchsorted(content["queries"], queries)
        assert np.array_equal(content["queries"][places], queries), f"{file} has other queries"
        self.near: Integers = content["near"][places].astype(np.int64)
        self.similarities: Floats = 1 - np.square(content["distances"][places]) / 2
        h: Floats = content["h"] * content["scale"]
        alone: Floats = content["alone"] * content["alone_scale"]
        self.own: Floats = alone[np.searchsorted(content["held_out"], self.queries)]
        factor = np.zeros((1, h.shape[1], 1), np.float32)  # of no use here
        self.metric = LearnedMetric(h, 1.0, lambda embeddings: (embeddings, factor))
        order = np.argsort(content["links"][:, 0], kind="stable")
        links = content["links"][order]
        indptr = np.zeros(len(h) + 1, np.int64)
        np.cumsum(np.bincount(links[:, 0], minlength=len(h)), out=indptr[1:])
        names, relation = [str(row) for row in range(len(h))], np.zeros(len(links), np.int16)
        graph = Graph(names, names, ["cites"], indptr, links[:, 1], relation, np.ones(len(links), np.float32))
        self.stored = StoredGraph(graph, np.arange(len(h)), {}, {}, "")
        self.measured = sorted_edges(graph, content["forward"][order], content["backward"][order])

    def search(self, options: GeodesicOptions) -> PathSearch:
        return PathSearch(self.stored, self.measured, len(self.metric.h), metric=self.metric, options=options)

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
            points = np.concatenate([self.own[part], self.metric.h[rows]])
            points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
            values.append(float(np.einsum("ij,ij->i", points[1:], points[:-1]).min()))
        return statistics.fmean(values) if values else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("kept", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--limit", type=int, default=400)
    options = parser.parse_args()
    content = np.load(options.file)
    candidates, part = content["candidates"], content["part"].astype(np.int64)
    task = make_task(content["links"].astype(np.int64), part, candidates, 2, options.limit)
    report: dict[str, Any] = {"queries": len(task.rows)}
    for file in options.kept:
        kept = Kept(file, task.rows)
        recall = {"direct distance": evaluate(kept.near[:, :K], task.judgments, [MEASURES[1]])["R@20"]}
        rows: dict[str, Any] = {"direct distance": {}}
        for name, setting in SETTINGS.items():
            rows[name], hits = measure(kept, GeodesicOptions(**setting), candidates)
            recall[name] = evaluate(hits, task.judgments, [MEASURES[1]])["R@20"]
            print(file.stem, name, rows[name], round(float(recall[name].mean()), 4), file=sys.stderr, flush=True)
        for name, values in recall.items():
            low, high = bootstrap(values, generator=np.random.default_rng(0))
            rows[name] |= {"R@20": round(float(values.mean()), 4), "interval": [round(low, 4), round(high, 4)]}
            p = randomisation(values, recall["ours"], generator=np.random.default_rng(0), samples=2000)
            rows[name] |= {"difference": round(float((values - recall["ours"]).mean()), 4), "p": round(p, 4)}
        report[file.stem] = rows
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
