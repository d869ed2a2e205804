"""Links, parts and vectors of a workspace as one file, and the training of a metric on them, for `bench.ablations`.

    python -m bench.metric WORKSPACE OUT.npz [--since 2017 --validation 2016-07] [--encoder NAME]

OUT has the links between passages, the part of each (by the split of the workspace, or by dates: test since a date,
validation since an earlier one) and, with `--encoder`, their vectors. Queries are the validation and test passages that
refer to others. The graph holds the links of training passages only, and a query is searched with its vector alone.
"""

from __future__ import annotations

import argparse
import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.types import Floats, Integers, Mask
from lemmata.evaluate.measures import Judged, judged, parse_measure
from lemmata.graph.store import CITING

MEASURES = [parse_measure(name) for name in ("R@10", "R@20", "nDCG@20", "MRR@10")]
PARTS = ("train", "validation", "test")
STARTS = (5, 20, 100)  # of geodesic search
FROM_QUERY = (0.5, 1.0, 2.5)  # how much more the step from the query counts than one along an edge
WEIGHTS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 4.0)  # of a fusion


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--since", default="")
    parser.add_argument("--validation", default="")
    parser.add_argument("--encoder", action="append", default=[])
    export(parser.parse_args())


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
    links = np.array(sorted(pairs), np.int32).reshape(-1, 2)
    arrays: dict[str, Any] = {"links": links, "part": part.astype(np.int8), "candidates": candidates, **vectors}
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

        self.torch = torch
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

    def ranked(self, scores: Any) -> Integers:
        return np.asarray(scores.topk(20, dim=1).indices.cpu().numpy(), np.int64)

    def masked(self, scores: Any, task: Task) -> Any:
        """Without the query itself and what is no candidate."""
        scores[:, ~self.torch.tensor(self.candidates, device=self.device)] = -self.torch.inf
        scores[self.torch.arange(len(task.rows)), self.torch.tensor(task.rows)] = -self.torch.inf
        return scores

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


if __name__ == "__main__":
    main()
