"""Does a learned local metric find references that vectors do not? The table of MetricGAT and its peers.

    python -m bench.metric export WORKSPACE OUT.npz [--since 2017 --validation 2016-07] [--encoder NAME]
    python -m bench.metric run FILE.npz [--vectors FILE.npy] [--seeds 5] [--set FIELD=JSON …] [--json OUT]

`export` writes the links between passages, the part of each (by the split of the workspace, or by dates: test since a
date, validation since an earlier one), the first category of each (`area`, numbers of `areas`) and, with `--encoder`,
their vectors. Queries are the validation and test
passages that refer to others. The graph holds the links of training passages only, and a query is searched with its
vector alone. `run` needs torch and numpy only. Every setting (epoch, seeds, weights of a fusion) is chosen on
validation; test is only read.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.types import Floats, Integers, Mask
from lemmata.evaluate.measures import Judged, evaluate, judged, parse_measure
from lemmata.evaluate.significance import randomisation
from lemmata.graph.diffusion import NEAREST, Links, spread, start_weights
from lemmata.graph.store import CITING

MEASURES = [parse_measure(name) for name in ("R@10", "R@20", "nDCG@20", "MRR@10")]
PARTS = ("train", "validation", "test")
DEPTH = 200  # hits of a ranking that are fused
SEEDS = (5, 20, 100)  # of geodesic search
FROM_QUERY = (0.5, 1.0, 2.5)  # how much more the step from the query counts than one along an edge
WEIGHTS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 4.0)  # of a fusion


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("export")
    verb.add_argument("workspace", type=Path)
    verb.add_argument("out", type=Path)
    verb.add_argument("--since", default="")
    verb.add_argument("--validation", default="")
    verb.add_argument("--encoder", action="append", default=[])
    verb = verbs.add_parser("run")
    verb.add_argument("file", type=Path)
    verb.add_argument("--vectors", type=Path)
    verb.add_argument("--encoder", default="")
    verb.add_argument("--seeds", type=int, default=5)
    verb.add_argument("--set", action="append", default=[], metavar="FIELD=JSON")
    verb.add_argument("--limit", type=int, default=0)
    verb.add_argument("--budget", type=float, default=1e9, help="seconds after which no further row is begun")
    verb.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.verb == "export":
        export(options)
    else:
        Run(options).all()


# ---------------------------------------------------------------- export


def export(options: argparse.Namespace) -> None:
    from lemmata.corpus.split import open_split
    from lemmata.search.retriever import Retriever
    from lemmata.vectors.store import open_vectors

    with Retriever.open(options.workspace) as retriever:
        passages = list(retriever.corpus)
        row_of = {passage.id: row for row, passage in enumerate(passages)}
        is_prose = np.array([passage.kind in ("chunk", "abstract") for passage in passages])
        candidates = ~is_prose if (~is_prose).any() else is_prose
        if options.since:
            dates = {document.id: document.date or "" for document in retriever.corpus.documents()}
            days = np.array([dates[passage.document] for passage in passages])
            part = np.where(days >= options.since, 2, np.where(days >= options.validation, 1, 0))
            part[days == ""] = -1
        else:
            split = open_split(retriever.workspace, retriever.corpus.digest)
            part = np.select([split.rows("train"), split.rows("validation"), split.rows("test")], [0, 1, 2], -1)
        pairs = {
            (row, row_of[link.target])
            for row, passage in enumerate(passages)
            for link in passage.links
            if link.relation in CITING and link.target in row_of and row_of[link.target] != row
        }
        vectors = {
            f"vectors_{name}": np.asarray(
                open_vectors(retriever.workspace, retriever.corpus.digest, name).matrix, np.float16
            )
            for name in options.encoder
        }
        category = {document.id: (*document.categories, "")[0] for document in retriever.corpus.documents()}
    links = np.array(sorted(pairs), np.int32).reshape(-1, 2)
    areas, area = np.unique([category[passage.document] for passage in passages], return_inverse=True)
    arrays: dict[str, Any] = {"links": links, "part": part.astype(np.int8), "candidates": candidates, **vectors}
    arrays |= {"area": area.astype(np.int16), "areas": areas}
    np.savez_compressed(options.out, **arrays)
    counts = {name: int((part[candidates] == number).sum()) for number, name in enumerate(PARTS)}
    print(f"{len(passages):,} passages, {candidates.sum():,} candidates {counts}, {len(links):,} links")


# ---------------------------------------------------------------- the task


class Task(NamedTuple):
    """The queries of one part."""

    rows: Integers
    answers: list[set[int]]
    judgments: Judged


def make_task(links: Integers, part: Integers, candidates: Mask, number: int, limit: int) -> Task:
    wanted = (part[links[:, 0]] == number) & candidates[links[:, 0]] & candidates[links[:, 1]]
    answers: dict[int, set[int]] = {}
    for source, target in links[wanted].tolist():
        answers.setdefault(source, set()).add(target)
    rows = sorted(answers)
    if limit:
        rows = sorted(np.random.default_rng(0).permutation(rows)[:limit].tolist())
    chosen = [answers[row] for row in rows]
    grades = {str(place): dict.fromkeys(map(str, sorted(each)), 1) for place, each in enumerate(chosen)}
    return Task(np.array(rows, np.int64), chosen, judged(grades, int))


class Scores(NamedTuple):
    """Scores of all rows for the queries of validation and of test (queries, n); -inf for what is no candidate."""

    validation: Any
    test: Any


# ---------------------------------------------------------------- running


class Run:
    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        from lemmata.train.metric_network import MetricOptions

        self.torch, self.cli = torch, options
        self.begin = time.perf_counter()
        self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        torch.set_float32_matmul_precision("high")
        content = np.load(options.file)
        names = [name for name in content.files if name.startswith("vectors_")]
        matrix = (
            np.load(options.vectors)
            if options.vectors
            else content[f"vectors_{options.encoder}" if options.encoder else names[0]]
        )
        matrix = np.asarray(matrix, np.float32)
        self.vectors: Floats = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
        self.candidates: Mask = content["candidates"]
        links, part = content["links"].astype(np.int64), content["part"].astype(np.int64)
        if len(part) != len(matrix):
            raise SystemExit(f"{len(matrix):,} vectors do not belong to {len(part):,} passages")
        self.tasks = [make_task(links, part, self.candidates, number, options.limit) for number in (1, 2)]
        self.links: Integers = links[part[links[:, 0]] == 0]
        self.x = torch.tensor(self.vectors, device=self.device)
        settings = dict(_setting(text) for text in options.set)
        self.options = replace(MetricOptions(), **settings)
        self.report: dict[str, Any] = {
            "file": options.file.name,
            "vectors": options.vectors.name if options.vectors else options.encoder,
            "device": torch.cuda.get_device_name() if self.device.type == "cuda" else "cpu",
            "settings": settings,
            "passages": len(part),
            "links": len(self.links),
            "queries": [len(task.rows) for task in self.tasks],
            "rows": {},
        }
        self.values: dict[str, list[Any]] = {}  # per query, by seed
        print(json.dumps({key: value for key, value in self.report.items() if value}), flush=True)

    def all(self) -> None:
        self.table()
        self.report["seconds"] = round(time.perf_counter() - self.begin, 1)
        self.write()

    def write(self) -> None:
        if self.cli.json:
            self.cli.json.write_text(json.dumps(self.report, indent=1) + "\n", "utf-8")

    def late(self) -> bool:
        return bool(time.perf_counter() - self.begin > self.cli.budget)

    # ------------------------------------------------------------ measuring

    def ranked(self, scores: Any) -> Integers:
        return np.asarray(scores.topk(20, dim=1).indices.cpu().numpy(), np.int64)

    def r20(self, scores: Any, task: Task) -> float:
        return float(evaluate(self.ranked(scores), task.judgments, [MEASURES[1]])["R@20"].mean())

    def add(self, name: str, scores: Scores, note: str = "") -> None:
        """Measure a row; further seeds of the same name are averaged."""
        found = {
            part: evaluate(self.ranked(each), task.judgments, MEASURES)
            for part, each, task in zip(PARTS[1:], scores, self.tasks, strict=True)
        }
        self.values.setdefault(name, []).append(found)
        runs = self.values[name]
        row: dict[str, Any] = {"seeds": len(runs)}
        for part in PARTS[1:]:
            for measure in found[part]:
                means = [float(run[part][measure].mean()) for run in runs]
                row[f"{part} {measure}"] = round(float(np.mean(means)), 4)
                row[f"{part} {measure} sd"] = round(float(np.std(means, ddof=1)), 4) if len(means) > 1 else 0.0
        if note:
            row["note"] = [*self.report["rows"].get(name, {}).get("note", []), note]
        self.report["rows"][name] = row
        line = "  ".join(f"{part[:4]} {m} {found[part][m].mean():.3f}" for part in PARTS[1:] for m in found[part])
        print(f"{time.perf_counter() - self.begin:6.1f} s  {name:44} {line}  {note}", flush=True)
        self.write()

    def masked(self, scores: Any, task: Task) -> Any:
        """Without the query itself and what is no candidate."""
        scores[:, ~self.torch.tensor(self.candidates, device=self.device)] = -self.torch.inf
        scores[self.torch.arange(len(task.rows)), self.torch.tensor(task.rows)] = -self.torch.inf
        return scores

    def scaled(self, scores: Any) -> Any:
        """Scores from 0 to 1 among the best of each query, 0 for all others."""
        values, places = scores.topk(DEPTH, dim=1)
        values = values.where(values.isfinite(), values[values.isfinite()].min())
        low, high = values[:, -1:], values[:, :1]
        result = self.torch.zeros_like(scores).scatter_(1, places, (values - low) / (high - low).clamp_min(1e-12))
        return result.masked_fill(scores.isneginf(), -self.torch.inf)

    def fuse(self, name: str, parts: Sequence[Scores]) -> None:
        """The sum of scaled scores, the first with weight 1; the weights of the others are chosen on validation."""
        scaled = [Scores(*(self.scaled(each) for each in part)) for part in parts]

        def total(number: int, weights: Sequence[float]) -> Any:
            result = scaled[0][number]
            for weight, part in zip(weights, scaled[1:], strict=True):
                result = result + weight * part[number]
            return result

        grids: list[tuple[float, ...]] = [(weight,) for weight in WEIGHTS]
        if len(parts) > 2:
            grids = [(one, other) for one in WEIGHTS for other in (0.0, *WEIGHTS)]
        best = max(grids, key=lambda weights: self.r20(total(0, weights), self.tasks[0]))
        self.add(name, Scores(total(0, best), total(1, best)), f"weights {best}")

    # ------------------------------------------------------------ peers

    def dense(self) -> Scores:
        return Scores(*(self.masked(self.x[task.rows] @ self.x.T, task) for task in self.tasks))

    def nearest(self, dense: Any) -> tuple[Integers, Floats]:
        values, places = dense.topk(NEAREST, dim=1)
        return places.cpu().numpy(), values.cpu().numpy()

    def diffusion(self, dense: Scores) -> Scores:
        """What the nearest passages refer to."""
        indptr = np.zeros(len(self.x) + 1, np.int64)
        np.cumsum(np.bincount(self.links[:, 0], minlength=len(self.x)), out=indptr[1:])
        links = Links(indptr, self.links[np.argsort(self.links[:, 0], kind="stable"), 1])
        result = []
        for task, scores in zip(self.tasks, dense, strict=True):
            matrix = np.zeros((len(task.rows), len(self.x)), np.float32)
            for place, (near, cosines) in enumerate(zip(*self.nearest(scores), strict=True)):
                rows, received = spread(links, near, start_weights(cosines), blocked=int(task.rows[place]))
                matrix[place, rows] = received
            result.append(self.masked(self.torch.tensor(matrix, device=self.device), task))
        return Scores(*result)

    def pagerank(self, dense: Scores, damping: float = 0.85) -> Scores:
        """Personalised PageRank from the nearest passages along references, less the share of having started."""
        torch, n = self.torch, len(self.x)
        sources, targets = (torch.tensor(self.links[:, side], device=self.device) for side in (0, 1))
        out = torch.bincount(sources, minlength=n).float()
        places = torch.stack([targets, sources])
        flow = torch.sparse_coo_tensor(places, 1 / out[sources], (n, n), check_invariants=False).coalesce()
        result = []
        for task, scores in zip(self.tasks, dense, strict=True):
            near, cosines = self.nearest(scores)
            weights = np.stack([start_weights(each) for each in cosines]).astype(np.float32)
            start = torch.zeros((len(near), n), device=self.device)
            start.scatter_(1, torch.tensor(near, device=self.device), torch.tensor(weights, device=self.device))
            start = (start / start.sum(1, keepdim=True)).T.contiguous()
            rank = start
            for _ in range(60):  # 0.85⁶⁰ is below 1e-4
                stopped = rank[out == 0].sum(0)
                rank = damping * (torch.sparse.mm(flow, rank) + stopped * start) + (1 - damping) * start
            result.append(self.masked((rank - (1 - damping) * start).T.contiguous(), task))
        return Scores(*result)

    def node2vec(self, dense: Scores, seed: int) -> Scores:
        """Vectors of nodes from walks (p = q = 1); a query lies in the middle of its nearest passages."""
        vectors = self.torch.nn.functional.normalize(
            self.torch.tensor(walked_vectors(self.links, len(self.x), seed, self.device), device=self.device), dim=1
        )
        result = []
        for task, scores in zip(self.tasks, dense, strict=True):
            near, cosines = self.nearest(scores)
            weights = np.stack([start_weights(each) for each in cosines[:, :10]]).astype(np.float32)
            near_vectors = vectors[self.torch.tensor(near[:, :10], device=self.device)]
            middle = (near_vectors * self.torch.tensor(weights, device=self.device)[:, :, None]).sum(1)
            result.append(self.masked(self.torch.nn.functional.normalize(middle, dim=1) @ vectors.T, task))
        return Scores(*result)

    # ------------------------------------------------------------ the network

    def train(self, **changes: Any) -> Any:
        from lemmata.train.metric_network import train_metric

        options = replace(self.options, **changes)
        task = self.tasks[0]
        trained = train_metric(
            self.vectors,
            self.links,
            options,
            (task.rows, task.answers),
            candidates=self.candidates,
            device=self.device,
        )
        curve = [record.get("R@20", 0.0) for record in trained.history]
        epochs, best = len(curve) - 1, int(np.argmax(curve))
        print(
            f"        trained {changes or ''} in {trained.seconds:.1f} s: {epochs} epochs, best {best},"
            f" R@20 of validation {curve[0]:.3f} → {max(curve):.3f}, loss {trained.history[-1].get('loss', 0):.3f}",
            flush=True,
        )
        return trained

    def direct(self, trained: Any) -> Scores:
        result = []
        for task in self.tasks:
            queries = trained.model.locate_alone(self.x[self.torch.tensor(task.rows, device=self.device)])
            result.append(self.masked(-trained.model.search_distances(queries, trained.nodes), task))
        return Scores(*result)

    def geodesic(self, trained: Any, direct: Scores) -> tuple[Scores, str]:
        """Shortest paths from seeds; how many, and how much the first step counts, is chosen on validation."""
        torch = self.torch
        pairs = np.concatenate([self.links, self.links[:, ::-1]])
        sources, targets = (torch.tensor(pairs[:, side].copy(), device=self.device) for side in (0, 1))
        lengths = self.edge_lengths(trained, sources, targets)
        grid = [(seeds, weight) for seeds in SEEDS for weight in FROM_QUERY]

        def search(number: int, setting: tuple[int, float]) -> Any:
            paths = self.paths(direct[number], sources, targets, lengths, *setting, number)
            return self.masked(-paths, self.tasks[number])

        best = max(grid, key=lambda setting: self.r20(search(0, setting), self.tasks[0]))
        return Scores(search(0, best), search(1, best)), f"{best[0]} seeds, weight {best[1]}"

    def edge_lengths(self, trained: Any, sources: Any, targets: Any) -> Any:
        """The length of each edge from its source (edges,), in blocks."""
        nodes = trained.nodes
        with self.torch.no_grad():
            blocks = [
                trained.model.along(nodes.take(one), nodes.take(other[:, None]))[:, 0]
                for one, other in zip(sources.split(1 << 12), targets.split(1 << 12), strict=True)
            ]
        return self.torch.cat(blocks)

    def paths(
        self, direct: Any, sources: Any, targets: Any, lengths: Any, seeds: int, weight: float, number: int
    ) -> Any:
        """Lengths of the shortest paths from the seeds of each query (queries, n), by relaxing all edges until nothing
        changes: exact. What no path reaches comes last, by its direct distance. No path leads through the query."""
        torch = self.torch
        result = []
        for at in range(0, len(direct), 512):
            near, places = direct[at : at + 512].topk(seeds, dim=1)
            own = torch.tensor(self.tasks[number].rows[at : at + 512], device=self.device)
            columns = torch.arange(len(near), device=self.device)
            start = torch.full((len(self.x), len(near)), torch.inf, device=self.device)
            start.scatter_(0, places.T, -weight * near.T)
            here = start
            while True:
                after = here.clone()
                for block in torch.arange(len(sources), device=self.device).split(1 << 15):
                    after.index_reduce_(0, targets[block], here[sources[block]] + lengths[block, None], "amin")
                after[own, columns] = torch.inf
                if torch.equal(after, here):
                    break
                here = after
            distances = here.T
            far = distances.where(distances.isfinite(), torch.zeros_like(distances)).max()
            last = far + 1 - direct[at : at + 512]
            result.append(distances.where(distances.isfinite(), last))
        return torch.cat(result)

    # ------------------------------------------------------------ tables

    def table(self) -> None:
        dense = self.dense()
        self.add("dense (input vectors)", dense)
        diffusion = self.diffusion(dense)
        self.add("diffusion (one step)", diffusion)
        pagerank = self.pagerank(dense)
        self.add("personalised PageRank", pagerank)
        self.fuse("dense + diffusion", [dense, diffusion])
        self.fuse("dense + personalised PageRank", [dense, pagerank])
        del pagerank
        for seed in range(self.cli.seeds):
            if self.late():
                break
            walked = self.node2vec(dense, seed)
            self.add("node2vec (from the nearest)", walked)
            self.fuse("dense + node2vec", [dense, walked])
            del walked
            for name, changes in (("GAT + Euclidean", {"rank": 0}), ("MetricGAT", {})):
                trained = self.train(seed=seed, **changes)
                self.report.setdefault("training", []).append(
                    {
                        "name": name,
                        "seed": seed,
                        "seconds": round(trained.seconds, 1),
                        "history": _rounded(trained.history),
                    }
                )
                direct = self.direct(trained)
                self.add(f"{name}, direct", direct)
                geodesic, note = self.geodesic(trained, direct)
                self.add(f"{name}, geodesic", geodesic, note)
                self.fuse(f"dense + {name}, direct", [dense, direct])
                self.fuse(f"dense + {name}, geodesic", [dense, geodesic])
                self.fuse(f"dense + diffusion + {name}, direct", [dense, diffusion, direct])
                self.fuse(f"dense + diffusion + {name}, geodesic", [dense, diffusion, geodesic])
                around = self.diffusion_around(direct)
                self.add(f"diffusion from {name}", around)
                self.fuse(f"{name}, direct + diffusion", [direct, diffusion])
        self.compare()
        self.print_table()

    def diffusion_around(self, direct: Scores) -> Scores:
        """Diffusion that starts from the nearest by learned distance instead of cosine."""
        return self.diffusion(
            Scores(*((2 - each.square()).masked_fill(each.isneginf(), -self.torch.inf) for each in direct))
        )

    def compare(self) -> None:
        """Paired tests of R@20 on test, each query averaged over seeds."""
        means = {name: np.mean([run["test"]["R@20"] for run in runs], axis=0) for name, runs in self.values.items()}
        pairs = [(name, "dense (input vectors)") for name in means if name != "dense (input vectors)"]
        pairs += [
            ("MetricGAT, direct", "GAT + Euclidean, direct"),
            ("MetricGAT, geodesic", "GAT + Euclidean, direct"),
            ("MetricGAT, geodesic", "MetricGAT, direct"),
            *((name, "dense + diffusion") for name in means if name.startswith("dense + diffusion +")),
        ]
        self.report["comparisons"] = []
        for one, other in pairs:
            if one in means and other in means:
                p = randomisation(means[one], means[other], generator=np.random.default_rng(0), samples=10_000)
                record = {"first": one, "second": other, "p": round(p, 5)}
                record["difference"] = round(float((means[one] - means[other]).mean()), 4)
                self.report["comparisons"].append(record)
        for record in self.report["comparisons"]:
            record["corrected p"] = round(min(1.0, record["p"] * len(self.report["comparisons"])), 4)
        self.write()

    def print_table(self) -> None:
        names = [str(measure) for measure in MEASURES]
        print("\n| | " + " | ".join(f"{part} {name}" for part in PARTS[1:] for name in names) + " |")
        print("|---" * 9 + "|")
        for name, row in self.report["rows"].items():
            cells = [
                f"{row[f'{part} {m}']:.3f}" + (f" ± {row[f'{part} {m} sd']:.3f}" if row["seeds"] > 1 else "")
                for part in PARTS[1:]
                for m in names
            ]
            print(f"| {name} | " + " | ".join(cells) + " |")
        for record in self.report["comparisons"]:
            compared = f"{record['first']} − {record['second']}"
            print(f"R@20, {compared}: {record['difference']:+.3f}, corrected p {record['corrected p']}")
        print(flush=True)


def walked_vectors(
    links: Integers,
    n: int,
    seed: int,
    device: Any = "cpu",
    size: int = 128,
    walks: int = 10,
    length: int = 20,
    window: int = 5,
) -> Floats:
    """Skip-gram with negative samples over random walks (Grover and Leskovec 2016): (n, size)."""
    torch: Any = importlib.import_module("torch")  # its functions have no types
    generator = torch.Generator(device=device).manual_seed(seed)

    def uniform(*shape: int) -> Any:
        return torch.rand(*shape, generator=generator, device=device)

    both = np.concatenate([links, links[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    targets = torch.tensor(both[:, 1], device=device)
    degree = torch.bincount(torch.tensor(both[:, 0], device=device), minlength=n)
    begin = degree.cumsum(0) - degree
    walkers = (degree > 0).nonzero()[:, 0]
    tables = [torch.nn.Parameter((uniform(n, size) - 0.5) / size) for _ in range(2)]
    optimizer = torch.optim.Adam(tables, lr=0.01)
    noise = degree.float() ** 0.75
    for _ in range(walks):
        path = [walkers[torch.randperm(len(walkers), generator=generator, device=device)]]
        for _ in range(length):
            here = path[-1]
            path.append(targets[begin[here] + (uniform(len(here)) * degree[here]).long()])
        walk = torch.stack(path, 1)
        for block in walk.split(2048):
            for offset in range(1, window + 1):
                one, other = block[:, :-offset].reshape(-1), block[:, offset:].reshape(-1)
                false = torch.multinomial(noise, 256, replacement=True, generator=generator)
                left = tables[0][one]
                good = (left * tables[1][other]).sum(1)
                bad = left @ tables[1][false].T
                loss = -torch.nn.functional.logsigmoid(good).mean()
                loss = loss - 5 * torch.nn.functional.logsigmoid(-bad).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return np.asarray(tables[0].detach().cpu().numpy())


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, json.loads(value)


def _rounded(history: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    return [{key: round(value, 4) for key, value in record.items()} for record in history]


if __name__ == "__main__":
    main()
