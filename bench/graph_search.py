"""What the graph adds to vectors: retrieve the references of held-out statements or papers, by every way to use it.

    python -m bench.graph_search WORKSPACE --part validation [--limit 1500] [--out FILE]
    python -m bench.graph_search WORKSPACE --part test --fit validation
    python -m bench.graph_search WORKSPACE --since 2017 --fit 2016-07:2017

The workspace has a graph and an index. Queries are the passages of a part of its split, or those from some date on,
which refer to others; statements refer to statements, papers to papers. No link of a held-out passage is in the graph:
of validation and test, or of everything since the date. `--known` hides only those of the query itself, as
`lemmata evaluate` does. `--fit` fits the weights of `auto` to the queries of another part or time, whose links are
hidden as well; where the workspace has a learned metric, one row is fitted without it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench.shared import sorted_edges

from lemmata.core.types import Encoder, Floats, Graph, Integers, Mask, MeasuredGraph, Passage
from lemmata.corpus.split import open_split
from lemmata.encode.load import is_static_encoder
from lemmata.evaluate.measures import evaluate, judged, parse_measure
from lemmata.evaluate.significance import bootstrap, compare
from lemmata.graph.lengths import measure_by_text
from lemmata.graph.store import CITING, StoredGraph, citations_between, open_graph
from lemmata.search.fusion import Fusion, candidates, combine, default_fusion, fit_fusion
from lemmata.search.paths import PathSearch
from lemmata.search.retriever import Retriever

MEASURES = [parse_measure(name) for name in ("R@10", "R@20", "nDCG@20", "MRR@10")]
DEPTH = 20
BATCH = 128


class Task(NamedTuple):
    """Rows of the queries, the rows that each refers to, which rows may be found, and which are held out."""

    rows: Integers
    answers: list[set[int]]
    candidates: Mask
    held_out: Mask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--part", default="")
    parser.add_argument("--since", default="")
    parser.add_argument("--until", default="9999")
    parser.add_argument("--limit", type=int, default=1500)
    parser.add_argument("--fit", default="")
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with Retriever.open(options.workspace) as retriever:
        report = run(retriever, options)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


def run(retriever: Retriever, options: argparse.Namespace) -> dict[str, Any]:
    task = make_task(retriever, options.part, options.since, options.until, options.limit)
    fitting = None
    if options.fit:
        since, _, until = options.fit.partition(":")
        part, since = ("", since) if until else (since, "")
        fitting = make_task(retriever, part, since, until, options.limit)
        task = task._replace(held_out=task.held_out | fitting.held_out)
    stored = open_graph(retriever.workspace)
    graph = stored.graph if options.known else without_links_of(stored, task.held_out)
    stored = stored._replace(graph=graph)
    retriever.citations = citations_between(graph, stored.rows, len(retriever.corpus))
    # the stored lengths of a metric are those of all links
    retriever.dense().geodesics = PathSearch(stored, measured(stored, retriever.vectors.matrix), len(retriever.corpus))
    check_metric(retriever, task)
    retriever.dense().encoder = Remembering(retriever.encoder)
    judgments = judgments_of(task)
    links = len(retriever.citations.indices)
    print(
        f"{len(task.rows):,} queries, {np.mean([len(a) for a in task.answers]):.1f} answers each, {links:,} links known"
    )
    results = {}
    fitted = fit(retriever, fitting) if fitting else {}
    for name, fusion in fitted.items():
        print(f"{name}: {fusion.formula}")
    for name, ranked in rankings(retriever, task, fitted):
        results[name] = evaluate(ranked, judgments, MEASURES)
        low, high = bootstrap(results[name]["R@20"], generator=np.random.default_rng(0))
        figures = "  ".join(f"{key} {values.mean():.3f}" for key, values in results[name].items())
        print(f"{name:38} {figures}  [{low:.3f}, {high:.3f}]", flush=True)
    compared = compare(results, "R@20", "dense", np.random.default_rng(0))
    for each in compared:
        print(f"R@20, {each.first} − dense: {each.difference:+.3f}, corrected p {each.p:.4f}")
    numbers = np.array([len(answers) for answers in task.answers])
    by_number = {}
    for fewest, most in ((1, 1), (2, 3), (4, 7), (8, 99)):
        chosen = (numbers >= fewest) & (numbers <= most)
        if chosen.any():
            figures_of = {name: round(float(r["R@20"][chosen].mean()), 3) for name, r in results.items()}
            by_number[f"{fewest}–{most}"] = {"queries": int(chosen.sum()), **figures_of}
            print(f"R@20 of {chosen.sum()} queries with {fewest} to {most} references:", figures_of)
    means = {name: {key: round(float(v.mean()), 4) for key, v in values.items()} for name, values in results.items()}
    formulas = {name: fusion.formula for name, fusion in fitted.items()}
    return {
        "queries": len(task.rows),
        "links": links,
        "fitted": formulas,
        "means": means,
        "R@20 by references": by_number,
    }


class Remembering:
    """An encoder that encodes a text once: all retrievers get the same queries."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._vectors = encoder, dict[str, Floats]()
        self.name, self.dimension = encoder.name, encoder.dimension

    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        self._vectors |= zip(new, self._encoder.encode(new, role=role) if new else [], strict=True)
        return np.stack([self._vectors[text] for text in texts])


# ---------------------------------------------------------------- the task


def judgments_of(task: Task) -> Any:
    rows = enumerate(task.answers)
    return judged({str(number): dict.fromkeys(map(str, sorted(answers)), 1) for number, answers in rows}, int)


def make_task(retriever: Retriever, part: str, since: str, until: str, limit: int) -> Task:
    passages = list(retriever.corpus)
    row_of = {passage.id: row for row, passage in enumerate(passages)}
    dates = {document.id: document.date or "" for document in retriever.corpus.documents()}
    is_prose = np.array([passage.kind in ("chunk", "abstract") for passage in passages])
    candidates = ~is_prose if (~is_prose).any() else is_prose
    if part:
        split = open_split(retriever.workspace, retriever.corpus.digest)
        chosen, held_out = split.rows(part), split.rows("validation") | split.rows("test")
    else:
        days = np.array([dates[passage.document] for passage in passages])
        held_out = days >= since
        chosen = held_out & (days < until)
    rows, answers = [], []
    for row in np.flatnonzero(chosen & candidates).tolist():
        targets = {target for target in _targets(passages[row], row_of) if candidates[target]} - {row}
        if targets:
            rows.append(row)
            answers.append(targets)
    kept = np.sort(np.random.default_rng(0).permutation(len(rows))[: limit or None])
    return Task(np.array(rows)[kept], [answers[place] for place in kept.tolist()], candidates, held_out)


def _targets(passage: Passage, row_of: dict[str, int]) -> Iterator[int]:
    for link in passage.links:
        if link.relation in CITING and link.target in row_of:
            yield row_of[link.target]


def without_links_of(stored: StoredGraph, held_out: Mask) -> Graph:
    """The graph without the references of some passages."""
    graph = stored.graph
    numbers = [number for number, name in enumerate(graph.relations) if name in CITING]
    is_held_out = (stored.rows >= 0) & held_out[stored.rows]
    return graph.with_edges(~(is_held_out[graph.sources()] & np.isin(graph.relation, numbers)))


def check_metric(retriever: Retriever, task: Task) -> None:
    """Refuse a metric that has seen links of held-out passages: it learns from those of the training part."""
    if retriever.dense().metric is not None:
        split = open_split(retriever.workspace, retriever.corpus.digest)
        if (task.held_out & split.rows("train")).any():
            raise SystemExit("the metric was learned on held-out passages: split by the same dates, and train it again")


def measured(stored: StoredGraph, matrix: Floats) -> MeasuredGraph:
    along = np.empty(len(stored.graph.indices), np.float32)
    measure_by_text(stored.graph, np.asarray(stored.rows), matrix, along, lambda *_: None)
    return sorted_edges(stored.graph, along, along)


# ---------------------------------------------------------------- rankings


def fit(retriever: Retriever, task: Task) -> dict[str, Fusion]:
    """The weights of `auto` with the highest R@20, and where there is a learned metric those without it."""
    texts = [retriever.corpus[row].content for row in task.rows.tolist()]
    depth = Fusion().depth + 1
    dense, lexical = (
        retriever.search_rows(texts, depth, name, task.candidates, itself=task.rows) for name in ("dense", "lexical")
    )
    index = retriever.dense()
    learned, crowding = index.learned(index.encode_queries(texts), depth, task.candidates), index.vectors.crowding
    found = candidates(
        dense,
        lexical,
        crowding,
        retriever.citations,
        task.rows,
        task.candidates,
        learned=learned,
        bounds=retriever.bounds(texts),
    )
    judgments = judgments_of(task)
    values = cache(lambda fusion: evaluate(combine(found, DEPTH, fusion)[0], judgments, MEASURES)["R@20"])
    start = default_fusion(static=is_static_encoder(retriever.vectors.encoder, retriever.workspace.models_folder))
    fitted = {"auto, fitted": fit_fusion(values, start, graph=True, learned=learned is not None).fusion}
    if learned is not None:
        fitted["auto, fitted without the metric"] = fit_fusion(values, start, graph=True).fusion
    return fitted


def rankings(retriever: Retriever, task: Task, fitted: dict[str, Fusion]) -> Iterator[tuple[str, Integers]]:
    """The first rows (queries, 20) of every way to search."""
    texts = [retriever.corpus[row].content for row in task.rows.tolist()]
    for name in ("lexical", "dense", "auto", "geodesic", "diffusion"):
        yield name, _searched(retriever, task, texts, name)
    for name, fusion in fitted.items():
        yield name, _searched(retriever, task, texts, "auto", fusion)


def _searched(retriever: Retriever, task: Task, texts: list[str], name: str, fusion: Fusion | None = None) -> Integers:
    parts = []
    for start in range(0, len(texts), BATCH):
        batch, own = texts[start : start + BATCH], task.rows[start : start + BATCH]
        found, _ = retriever.search_rows(batch, DEPTH + 1, name, task.candidates, fusion, itself=own)
        for rows, row in zip(found, own, strict=True):
            others = rows[rows != row][:DEPTH]
            parts.append(np.pad(others, (0, DEPTH - len(others)), constant_values=-1))
    return np.stack(parts)


if __name__ == "__main__":
    main()
