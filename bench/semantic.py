"""Does a graph help to answer queries? Retrievers on CISI (co-citations) and mathlib (declarations that name others).

    python -m bench.semantic DATA OUT.json [--work DIR] [--only cisi|mathlib] [--seeds 3]

DATA holds the BEIR folders cisi (with links.tsv) and mathlib. Workspaces are made in `--work` and used again; OUT.json
gets the numbers of each corpus when a row is done. Networks and node vectors learn from links alone: all links of a
tenth of the passages are hidden, and choose the epoch; afterwards all links are searched. Judged queries choose only
the dials named below, by cross-fitting: ten random halves, each measured with what the other half chose by nDCG@10.
Dials: starts and first step of geodesics, the weight of `dense + …`, the weights of `auto`.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from bench.auto import REPEATS, on_some, task_of, workspace
from bench.metric import FROM_QUERY, STARTS, WEIGHTS, walked_vectors
from bench.shared import sorted_edges

from lemmata.core.types import Edge, Floats, Integers, Ranking
from lemmata.evaluate.measures import evaluate, judged, parse_measure
from lemmata.evaluate.significance import bootstrap, compare
from lemmata.evaluate.task_search import TaskSearch
from lemmata.evaluate.tuning import fusion_values
from lemmata.graph.attention import incoming
from lemmata.graph.diffusion import NEAREST, Links, spread, start_weights
from lemmata.graph.embed import EmbedOptions, split_edges, train_embedding
from lemmata.graph.lengths import measure_by_text
from lemmata.graph.links import build_graph
from lemmata.graph.store import StoredGraph
from lemmata.graph.stored_metric import LearnedMetric, measure_by_metric
from lemmata.project import Project
from lemmata.search.fusion import Fusion, default_fusion, fit_fusion
from lemmata.search.paths import PathSearch
from lemmata.search.retriever import Retriever
from lemmata.train.metric_network import MetricOptions, TrainedMetric, messages, train_metric

MEASURES = [parse_measure(name) for name in ("nDCG@10", "MRR@10", "R@20")]
CHOSEN_BY = "nDCG@10"
ENCODERS = ("lemmata-mini", "minilm")  # the graph is searched with the first
DEPTH = 200
MIDDLE = 10  # nearest passages in whose middle a query lies, among vectors of nodes
# small enough for one core: a network of the default size takes ten times as long
NETWORK = MetricOptions(dimension=128, rank=8, negatives={"hard": 4, "random": 256}, epochs=4, fan_out=10)
Values = dict[str, Any]  # measure: values per query


# ---------------------------------------------------------------- graphs


def co_citations(folder: Path) -> set[tuple[str, str]]:
    lines = (folder / "links.tsv").read_text("utf-8").splitlines()[1:]
    pairs = [line.split("\t") for line in lines]
    return {(a, b) for a, b, _ in pairs} | {(b, a) for a, b, _ in pairs}


def named_declarations(folder: Path) -> set[tuple[str, str]]:
    """A declaration and what its code names; as in Lean, a name is looked up in the own namespaces first."""
    with lzma.open(folder / "corpus.jsonl.xz", "rt", encoding="utf-8") as lines:
        texts = {row["_id"]: row["text"] for row in map(json.loads, lines)}

    def resolved(own: str, name: str) -> str | None:
        spaces = own.split(".")
        candidates = (".".join([*spaces[:depth], name]) for depth in range(len(spaces) - 1, -1, -1))
        return next((each for each in candidates if each in texts), None)

    links = set()
    for own, text in texts.items():
        code = " ".join(re.findall(r"`([^`]+)`", text))
        names = set(re.findall(r"[^\W\d][\w'!?]*(?:\.[\w'!?]+)*", code))
        links |= {(own, target) for name in names if (target := resolved(own, name)) and target != own}
    return links


GRAPHS: dict[str, Callable[[Path], set[tuple[str, str]]]] = {"cisi": co_citations, "mathlib": named_declarations}


def prepared(name: str, data: Path, work: Path) -> Project:
    """A workspace with vectors of both encoders, and the links as an import."""
    for encoder in reversed(ENCODERS):
        project = workspace(work, name, [data / name], encoder)
    file = work / f"{name}-links.tsv"
    if not file.exists():
        links = sorted(GRAPHS[name](data / name))
        file.write_text("".join(f"{a}\trelated_to\t{b}\n" for a, b in links), "utf-8")
        project.import_graph([file], format="triples")
    return project


# ---------------------------------------------------------------- measuring


class Bench:
    """The queries of one corpus, and the rows of its table."""

    def __init__(self, name: str, project: Project, data: Path, write: Callable[[dict[str, Any]], None]) -> None:
        self.project, self.write, self.begin = project, write, time.perf_counter()
        _, self.task = task_of(name, data, project.root.parent, ENCODERS[0], 0)
        self.retriever = Retriever(project)
        row_of, self.texts = self.retriever.corpus.row, [self.task.queries[query] for query in self.task.qrels]
        self.judgments = judged(self.task.qrels, row_of)
        side = self.retriever.dense(ENCODERS[0])
        self.matrix: Floats = np.asarray(side.vectors.matrix, np.float32)
        self.queries: Floats = np.asarray(side.encode_queries(self.texts), np.float32)
        self.dense = self.search(f"dense:{ENCODERS[0]}")
        citations = self.retriever.citations
        assert citations is not None
        self.cited = Links(np.asarray(citations.indptr), np.asarray(citations.indices))
        sources = np.repeat(np.arange(len(self.matrix)), np.diff(self.cited.indptr))
        self.links = np.stack([sources, self.cited.indices], axis=1)
        nodes = [str(row) for row in range(len(self.matrix))]
        edges = (Edge(str(a), "related_to", str(b)) for a, b in self.links.tolist())
        self.graph = build_graph(edges, dict.fromkeys(nodes, "passage"))
        self.stored = StoredGraph(self.graph, np.array([int(node) for node in self.graph.nodes]), {}, {}, "")
        self.rows: dict[str, list[Values]] = {}  # by seed
        self.notes: dict[str, str] = {}
        self.seconds: dict[str, list[float]] = {}

    def search(self, retriever: str) -> Ranking:
        return self.retriever.search_rows(self.texts, DEPTH, retriever)

    def measure(self, ranked: Integers) -> Values:
        return evaluate(ranked, self.judgments, MEASURES)

    def add(self, name: str, ranking: Ranking, *, fuse: bool = True) -> None:
        """A row, and the same added to dense."""
        self.record(name, self.measure(ranking[0]))
        if fuse:
            options = [self.measure(self.fused(ranking, weight)) for weight in (0.0, *WEIGHTS)]
            self.record(f"dense + {name}", chosen(options))

    def record(self, name: str, values: Values) -> None:
        self.rows.setdefault(name, []).append(values)
        shown = "  ".join(f"{measure} {each.mean():.3f}" for measure, each in values.items())
        print(f"{time.perf_counter() - self.begin:6.0f} s  {name:44} {shown}", flush=True)
        self.write(self.report())

    def fused(self, ranking: Ranking, weight: float) -> Integers:
        total = np.zeros((len(self.texts), len(self.matrix)), np.float32)
        for share, (rows, scores) in ((1.0, self.dense), (weight, ranking)):
            valid = rows >= 0
            low = np.where(valid, scores, np.inf).min(axis=1, keepdims=True)
            high = np.where(valid, scores, -np.inf).max(axis=1, keepdims=True)
            scaled = (scores - low) / np.maximum(high - low, 1e-12)  # read where there is a hit
            places = np.arange(len(rows))[:, None].repeat(rows.shape[1], 1)
            np.add.at(total, (places[valid], rows[valid]), share * scaled[valid])
        return best(total, 20)[0]

    def report(self) -> dict[str, Any]:
        means = {name: mean_of(runs) for name, runs in self.rows.items()}
        compared = {}
        if len(means) > 1:
            generator = np.random.default_rng(0)
            compared = {each.first: each for each in compare(means, CHOSEN_BY, "dense (lemmata-mini)", generator)}
        table: dict[str, Any] = {}
        for name, runs in self.rows.items():
            row: dict[str, Any] = {"seeds": len(runs)}
            for measure in map(str, MEASURES):
                of_seeds = [float(run[measure].mean()) for run in runs]
                interval = bootstrap(means[name][measure], generator=np.random.default_rng(0))
                row[measure] = [round(number, 4) for number in (float(np.mean(of_seeds)), *interval)]
                if len(runs) > 1:
                    row[f"{measure} sd"] = round(float(np.std(of_seeds, ddof=1)), 4)
            if name in compared:
                each = compared[name]
                row["over dense"] = {
                    "difference": round(each.difference, 4),
                    "p": each.p,
                    "corrected p": each.p_corrected,
                }
            table[name] = row
        counts = {"passages": len(self.matrix), "links": len(self.links), "queries": len(self.texts)}
        return {**counts, "rows": table, "notes": self.notes, "training seconds": self.seconds}

    # ------------------------------------------------------------ retrievers

    def near(self, weights_of: int) -> Iterable[tuple[Integers, Any]]:
        for rows, cosines in zip(*self.dense, strict=True):
            yield rows[:weights_of], start_weights(cosines[:weights_of])

    def without_learning(self) -> None:
        self.add("dense (lemmata-mini)", self.dense, fuse=False)
        self.add("dense (all-MiniLM)", self.search("dense:minilm"))
        self.add("BM25", self.search("lexical"))
        spreading = [spread(self.cited, *start) for start in self.near(NEAREST)]
        scores = np.zeros((len(self.texts), len(self.matrix)))
        for query, (rows, received) in enumerate(spreading):
            scores[query, rows] = received
        self.add("diffusion", best(scores, DEPTH))
        self.record("retriever diffusion", self.measure(self.search(f"diffusion:{ENCODERS[0]}")[0]))
        walks = []
        for rows, weights in self.near(NEAREST):
            rank = personalised_pagerank(self.links, rows, weights, len(self.matrix))
            rank[rows] -= 0.15 * weights / weights.sum()  # the share of having started
            walks.append(rank)
        self.add("personalised PageRank", best(np.stack(walks), DEPTH))
        lengths = np.empty(len(self.graph.indices), np.float32)
        measure_by_text(self.graph, self.stored.rows, self.matrix, lengths, lambda *_: None)
        self.geodesics("geodesic by text lengths", lengths, lengths, self.dense)
        self.record("retriever geodesic", self.measure(self.search(f"geodesic:{ENCODERS[0]}")[0]))

    def auto(self, name: str, metric: LearnedMetric | None = None, *, links: bool = True) -> None:
        """As `lemmata evaluate --tune` fits it, cross-fitted; without `links`, words and vectors only."""
        self.retriever.dense(ENCODERS[0]).metric = metric
        of = {
            m: fusion_values(TaskSearch(self.retriever, self.task), m, encoder=ENCODERS[0]) for m in map(str, MEASURES)
        }
        measured, graph = of[CHOSEN_BY][0], of[CHOSEN_BY][1] and links

        def fit(half: Integers) -> Fusion:
            return fit_fusion(
                partial(on_some, measured, half), default_fusion(), graph=graph, learned=metric is not None
            ).fusion

        self.notes[name] = fit(np.arange(len(self.texts))).formula  # of all queries: shown, not measured
        self.record(
            name,
            cross_fitted(fit, lambda fusion: {m: values(fusion) for m, (values, _) in of.items()}, len(self.texts)),
        )

    def geodesics(self, name: str, forward: Floats, backward: Floats, near: Ranking) -> None:
        measured = sorted_edges(self.graph, forward, backward)
        found = []
        for starts, weight in product(STARTS, FROM_QUERY):
            paths = PathSearch(self.stored, measured, len(self.matrix), starts=starts, query_weight=weight)
            found.append(paths.nearest([(near[0][:, :DEPTH], near[1][:, :DEPTH])], DEPTH))
        self.record(name, chosen([self.measure(rows) for rows, _ in found]))
        fused = [self.measure(self.fused(each, weight)) for each in found for weight in (0.0, 0.25, 1.0, 2.5)]
        self.record(f"dense + {name}", chosen(fused))

    def node_vectors(self, name: str, vectors: Floats) -> None:
        """A query lies in the middle of its nearest passages."""
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        middles = np.stack([weights @ unit[rows] for rows, weights in self.near(MIDDLE)])
        self.add(name, best(middles @ unit.T, DEPTH))

    def embeddings(self, seed: int) -> None:
        self.node_vectors("node2vec", walked_vectors(self.links, len(self.matrix), seed))
        graph, held_out = split_edges(self.graph, 0.05, seed)
        trained = train_embedding(graph, EmbedOptions(epochs=30, seed=seed), held_out=held_out)
        self.node_vectors("graph embed", trained.vectors[np.argsort(self.stored.rows)])

    def networks(self, seed: int) -> None:
        self.network("GAT + Euclidean", replace(NETWORK, rank=0, seed=seed))
        network, metric = self.network("MetricGAT direct", replace(NETWORK, seed=seed))
        forward, backward = (np.empty(len(self.graph.indices), np.float32) for _ in range(2))
        rows = self.stored.rows
        ends = rows[self.graph.sources()], rows[self.graph.indices]

        def factors(nodes: Integers) -> Floats:
            return np.asarray(network.model.factors(network.nodes.hidden[nodes]).detach().numpy())

        measure_by_metric(*ends, metric.h, factors, metric.epsilon, forward, backward, lambda *_: None)
        self.geodesics("MetricGAT geodesic", forward, backward, metric.search(self.queries, DEPTH))
        self.auto("auto with MetricGAT", metric)

    def network(self, name: str, options: MetricOptions) -> tuple[TrainedMetric, LearnedMetric]:
        import torch

        random = np.random.default_rng(options.seed)
        # of a pair that is linked both ways one direction is enough: messages go both ways
        pairs = np.unique(np.sort(self.links, axis=1), axis=0)
        swapped = random.random(len(pairs)) < 0.5
        both_ways = len(pairs) < len(self.links)
        pairs = np.where(swapped[:, None], pairs[:, ::-1], pairs) if both_ways else self.links
        hidden = random.random(len(self.matrix)) < 0.1
        touched = hidden[pairs].any(axis=1)
        answers: dict[int, set[int]] = {}
        for one, other in pairs[touched].tolist():
            for row, answer in ((one, other), (other, one)) if both_ways else ((one, other),):
                if hidden[row]:
                    answers.setdefault(row, set()).add(answer)
        validation = np.array(sorted(answers)), [answers[row] for row in sorted(answers)]
        trained = train_metric(self.matrix, pairs[~touched], options, validation, patience=2)
        sent = messages(torch.tensor(pairs.copy()), len(self.matrix))
        sources, targets, kinds = (part.numpy() for part in sent)
        nodes = trained.model.locate_all(self.matrix, incoming(sources, targets, kinds, len(self.matrix)))
        trained = trained._replace(nodes=nodes)
        curve = [round(record["R@20"], 3) for record in trained.history]
        print(f"        trained in {trained.seconds:.0f} s, R@20 of hidden links {curve}", flush=True)
        self.seconds.setdefault(name, []).append(round(trained.seconds, 1))
        self.notes[name] = f"R@20 of hidden links {curve[0]} before, {max(curve)} after training (last seed)"
        with torch.no_grad():
            located = trained.model.locate_alone(torch.tensor(self.queries))
            distances = trained.model.search_distances(located, nodes).numpy()
        self.add(name, best(-distances, DEPTH))

        def head(vectors: Floats) -> tuple[Floats, Floats]:
            with torch.no_grad():
                alone = trained.model.locate_alone(torch.tensor(vectors))
                return alone.h.numpy(), trained.model.factors(alone.hidden).numpy()

        return trained, LearnedMetric(nodes.h.detach().numpy(), options.epsilon, head)


def personalised_pagerank(links: Integers, rows: Integers, weights: Any, count: int) -> Any:
    """The share of time (count,) that a random reader spends at each row (Page and others 1999)."""
    sources, targets = links.T
    out = np.bincount(sources, minlength=count)
    start = np.bincount(rows, weights / weights.sum(), minlength=count)
    rank, before = start, np.zeros(count)
    while np.abs(rank - before).sum() > 1e-6:
        flow = np.bincount(targets, (rank / np.maximum(out, 1))[sources], minlength=count)
        rank, before = 0.85 * (flow + rank[out == 0].sum() * start) + 0.15 * start, rank
    return rank


def best(scores: Any, k: int) -> Ranking:
    rows = np.sort(np.argpartition(-scores, k, axis=1)[:, :k], axis=1)  # of equal scores the lower row comes first
    order = np.argsort(-np.take_along_axis(scores, rows, 1), axis=1, kind="stable")
    rows = np.take_along_axis(rows, order, 1)
    return rows, np.take_along_axis(scores, rows, 1).astype(np.float32)


def mean_of(runs: Sequence[Values]) -> Values:
    return {measure: np.mean([run[measure] for run in runs], axis=0) for measure in runs[0]}


def cross_fitted(fit: Callable[[Integers], Any], values: Callable[[Any], Values], count: int) -> Values:
    """The mean of each query under settings that were chosen without it."""
    random = np.random.default_rng(0)
    result = {str(measure): np.zeros(count) for measure in MEASURES}
    for _ in range(REPEATS):
        order = random.permutation(count)
        halves = order[: count // 2], order[count // 2 :]
        for fitted, others in (halves, halves[::-1]):
            measured = values(fit(fitted))
            for measure, each in result.items():
                each[others] += measured[measure][others] / REPEATS
    return result


def chosen(options: Sequence[Values]) -> Values:
    """One of some settings, cross-fitted."""

    def fit(half: Integers) -> int:
        return int(np.argmax([values[CHOSEN_BY][half].mean() for values in options]))

    return cross_fitted(fit, options.__getitem__, len(options[0][CHOSEN_BY]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--work", type=Path, default=Path("semantic-workspaces"))
    parser.add_argument("--only", choices=GRAPHS)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    reports: dict[str, Any] = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    for name in [options.only] if options.only else list(GRAPHS):

        def write(report: dict[str, Any], name: str = name) -> None:
            reports[name] = report
            options.out.write_text(json.dumps(reports, indent=1) + "\n", "utf-8")

        bench = Bench(name, prepared(name, options.data, options.work), options.data, write)
        bench.without_learning()
        bench.auto("auto without the graph", links=False)
        bench.auto("auto")
        for seed in range(options.seeds):
            bench.networks(seed)
            bench.embeddings(seed)


if __name__ == "__main__":
    main()
