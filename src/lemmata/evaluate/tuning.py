"""Fit the weights of `auto` and of cross-encoders to a validation task, and tell tasks that they were fitted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from lemmata.core.errors import InputError, LeakageError
from lemmata.core.types import Integers
from lemmata.core.workspace import VectorSet, Workspace, read_manifest, vector_set, write_manifest
from lemmata.corpus.leakage import normalise
from lemmata.corpus.split import id_keys
from lemmata.encode.load import encoder_id, is_static_encoder
from lemmata.encode.remote import Allowance
from lemmata.evaluate.measures import evaluate as measure_rankings
from lemmata.evaluate.measures import parse_measure
from lemmata.evaluate.significance import Floats64
from lemmata.evaluate.task_search import RERANK_BATCH, TaskSearch, asking
from lemmata.evaluate.tasks import Task
from lemmata.search.fusion import DENSE, EQUAL, FEWEST, LEXICAL, Fusion, candidates, combine, default_fusion, fit_fusion
from lemmata.search.names import parse_retriever, split_reranker
from lemmata.search.ranking import choose_rerank_weight
from lemmata.search.retriever import Retriever


def tune(
    workspace: Workspace,
    task: Task,
    retriever: str = "auto",
    *,
    measure: str = "MRR@10",
    allow_missing: bool = False,
    allowance: Allowance | None = None,
) -> dict[str, Any]:
    """Fit the weights of a retriever to a validation task; search uses them from then on.

    Of `auto` or `auto:ENCODER` those of words, vectors, and what graph and learned metric there are; of one such as
    `dense+rerank20:MODEL` the weight of the cross-encoder: 0 is the retriever alone, 1 the cross-encoder alone. Vectors
    of an encoder that is named are made where they are missing. Judgments of passages that are not in the corpus are
    refused unless `allow_missing`, and the test part of the split always. `allowance` caps what a remote encoder uses.
    """
    if task.part == "test":
        raise LeakageError("weights are not fitted to the test part of the split: fit them to --part validation")
    kind, encoder = parse_retriever(retriever)
    reranked = split_reranker(retriever)[1]
    if not reranked:
        kind = "auto"
        _check_enough(workspace, task, encoder)
    with asking(workspace, task, allow_missing=allow_missing, allowance=allowance) as search:
        search.prepare([(kind, encoder)])
        if reranked:
            return _fit_reranker(search, retriever, measure)
        report = _fit_fusion(search, encoder, measure)
    store_fit(workspace, encoder, report)
    return {name: value for name, value in report.items() if name != "asked"}


def fit(workspace: Workspace, task: Task, encoder: str, *, measure: str) -> dict[str, Any]:
    """The weights of `auto` with an encoder, fitted to a task; search does not use them until `store_fit` is called."""
    with asking(workspace, task) as search:
        search.prepare([("auto", encoder)])
        return _fit_fusion(search, encoder, measure)


def store_fit(workspace: Workspace, encoder: str, report: Mapping[str, Any] | None) -> None:
    """Let `auto` with an encoder use the weights of a fit, or without one those of the default."""
    vectors = _vectors_of(workspace, encoder)
    assert vectors is not None  # a fit searches them
    if report is None:
        vectors.fusion.unlink(missing_ok=True)
    else:
        write_manifest(vectors.fusion, report)


def _fit_fusion(search: TaskSearch, encoder: str, measure: str) -> dict[str, Any]:
    workspace, task = search.retriever.workspace, search.task
    values, graph = fusion_values(search, measure, encoder=encoder)
    workspace.progress("fitting the fusion", 0, None)
    vectors = _vectors_of(workspace, encoder)
    assert vectors is not None  # the dense ranking came from them
    default = default_fusion(static=is_static_encoder(vectors.encoder, workspace.models_folder))
    fitted = fit_fusion(values, default, graph=graph, learned=search.retriever.dense(encoder).metric is not None)
    named = {"auto": fitted.fusion, "default": default, "equal": EQUAL, "dense": DENSE, "lexical": LEXICAL}
    return {
        "verb": "tune",
        "fusion": asdict(fitted.fusion),
        "measure": measure,
        "queries": len(task.queries),
        "task": task.name,
        "values": {name: round(float(values(fusion).mean()), 4) for name, fusion in named.items()},
        "tried": [{**asdict(each), measure: round(float(value.mean()), 4)} for each, value in fitted.tried.items()],
        "asked": _keys_of(task),
    }


def fusion_values(search: TaskSearch, measure: str, *, encoder: str = "") -> tuple[Callable[[Fusion], Floats64], bool]:
    """A function that measures a fusion on each query of a task, and whether the corpus has a graph of citations.

    Both rankings are searched once; each fusion then costs milliseconds.
    """
    retriever, allowed = search.retriever, search.task.candidates
    chosen, depth = parse_measure(measure), Fusion().depth
    dense = search.rank(f"dense:{encoder}" if encoder else "dense", depth)
    lexical = search.rank("lexical", depth)
    citations = retriever.citations
    index = retriever.dense(encoder)
    learned, crowding = index.learned(index.encode_queries(search.texts), depth, allowed), index.vectors.crowding
    bounds = retriever.bounds(search.texts)
    found = candidates(dense, lexical, crowding, citations, search.own_rows, allowed, learned=learned, bounds=bounds)

    @cache
    def values(fusion: Fusion) -> Floats64:
        rows, _ = combine(found, max(100, chosen.cutoff), fusion)
        return measure_rankings(rows, search.judgments, [chosen])[str(chosen)]

    return values, citations is not None and bool(citations.counts.any())


def _fit_reranker(search: TaskSearch, name: str, measure: str) -> dict[str, Any]:
    workspace, opened, chosen = search.retriever.workspace, search.retriever, parse_measure(measure)
    base, number, model = split_reranker(name)
    depth = min(max(number, chosen.cutoff), len(opened.corpus))
    rows, scores = search.rank(base, depth)
    cross = np.full((len(rows), min(number, depth)), -np.inf, np.float32)
    for start in range(0, len(rows), RERANK_BATCH):
        workspace.progress("reranking", start, len(rows))
        batch = slice(start, start + RERANK_BATCH)
        cross[batch] = opened.rerankers.scores(search.texts[batch], rows[batch, : cross.shape[1]], model)
    reranker = opened.rerankers.open(model).name

    def value(ranked: Integers) -> float:
        return float(measure_rankings(ranked, search.judgments, [chosen])[str(chosen)].mean())

    weight, tried = choose_rerank_weight(value, (rows, scores), cross)
    report = {
        "reranker": reranker,
        "retriever": base,
        "hits": number,
        "weight": weight,
        "measure": measure,
        "queries": len(search.texts),
        "task": search.task.name,
        "tried": [{"weight": each, measure: round(score, 4)} for each, score in tried],
    }
    place = f"{base}+rerank:{reranker}"
    weights = (read_manifest(workspace.rerank) or {}).get("weights", {})
    weights.pop(place, None)  # the one that was chosen last is the last
    weights[place] = {**report, "asked": _keys_of(search.task)}
    write_manifest(workspace.rerank, {"verb": "tune", "weights": weights})
    return report


def _vectors_of(workspace: Workspace, encoder: str) -> VectorSet | None:
    """The vectors of an encoder; without a name, those that search uses."""
    return vector_set(workspace, encoder_id(encoder, workspace.models_folder) if encoder else "")


def _check_enough(workspace: Workspace, task: Task, encoder: str) -> None:
    """Refuse to replace weights by those of queries that are too few to tell."""
    vectors = _vectors_of(workspace, encoder)
    if vectors is None or len(task.qrels) >= FEWEST:
        return
    before = int((read_manifest(vectors.fusion) or {}).get("queries", 0))
    if before >= FEWEST:
        raise InputError(
            f"fewer than {FEWEST} queries cannot tell which weights are good, and there are some that were fitted to"
            f" {before:,}: give more queries, or delete {vectors.fusion} first",
            file=task.name,
        )


def _keys_of(task: Task) -> list[int]:
    """Hashes of the queries, by which they are known again."""
    keys: list[int] = id_keys([normalise(task.queries[query]) for query in task.qrels]).tolist()
    return keys


def fitted_to(retriever: Retriever, task: Task, retrievers: Sequence[str]) -> list[str]:
    """Warnings where weights that the retrievers use were fitted to queries of the task."""
    asked: dict[str, list[int]] = {}
    for name in retrievers:
        base, number, model = split_reranker(name)
        kind, encoder = parse_retriever(base)
        vectors = _vectors_of(retriever.workspace, encoder)
        if kind == "auto" and vectors is not None:
            asked[base] = (read_manifest(vectors.fusion) or {}).get("asked", [])
        if number and (weight := retriever.rerankers.chosen_weight(base, model)):
            asked[name] = weight.get("asked", [])
    keys = np.array(_keys_of(task), np.uint64)
    known = {name: int(np.isin(keys, np.array(each, np.uint64)).sum()) for name, each in asked.items()}
    return [
        f"WARNING: the weights of {name} were fitted to {count:,} of these {len(keys):,} queries: it looks too good"
        for name, count in known.items()
        if count
    ]
