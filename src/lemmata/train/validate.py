"""Measure a model on the validation tasks of a job, from tokens, on whatever device it is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from lemmata.train.batches import chunks
from lemmata.train.job import Job, TokenizedTexts, Validation
from lemmata.types import Integers

__all__ = ["autocast", "encode_texts", "measured", "ranked", "rankings", "selection"]

DEPTH = 100
BUDGET = {"cuda": 262_144, "mps": 32_768, "cpu": 8_192}  # tokens that are encoded at once


def autocast(device: str, precision: str) -> AbstractContextManager[Any]:
    """Compute in `bf16` or `fp16` where asked for."""
    import torch

    if precision == "fp32":
        return nullcontext()
    context: AbstractContextManager[Any] = torch.autocast(
        device, torch.bfloat16 if precision == "bf16" else torch.float16
    )
    return context


def encode_texts(
    model: Any, texts: TokenizedTexts, numbers: Integers, longest: int, pad: int, precision: str = "fp32"
) -> Any:
    """Unit vectors (n, d) of texts, as a tensor on the model's device."""
    import torch

    device = model.device.type
    was_training = model.training
    model.eval()
    vectors = None
    with torch.no_grad(), autocast(device, precision):
        for part in chunks(texts, numbers, longest, BUDGET.get(device, BUDGET["cpu"])):
            ids, mask = texts.padded(numbers[part], longest, pad)
            shown = {
                "input_ids": torch.from_numpy(ids).to(model.device),
                "attention_mask": torch.from_numpy(mask).to(model.device),
            }
            found = torch.nn.functional.normalize(model(shown)["sentence_embedding"].float(), dim=1)
            if vectors is None:
                vectors = torch.zeros((len(numbers), found.shape[1]), device=model.device)
            vectors[torch.from_numpy(part).to(model.device)] = found
    model.train(was_training)
    return vectors


def ranked(queries: Any, passages: Any, itself: Integers, depth: int = DEPTH) -> Integers:
    """Places of the best passages (q, depth) for each query, the one that it is left out."""
    import torch

    found: list[Integers] = []
    depth = min(depth, len(passages))
    own = torch.from_numpy(itself).to(queries.device)
    for start in range(0, len(queries), 1024):
        scores = queries[start : start + 1024] @ passages.T
        mine = own[start : start + 1024]
        has = (mine >= 0).nonzero()[:, 0]
        scores[has, mine[has]] = -torch.inf
        best = scores.topk(depth, dim=1)
        found.append(torch.where(best.values > -torch.inf, best.indices, -1).cpu().numpy())
    return np.concatenate(found).astype(np.int64)


def measured(model: Any, job: Job, longest: int, pad: int, precision: str) -> dict[str, float]:
    """`task/measure`: mean, for the measure of every task and for MRR@10, R@20 and nDCG@10."""
    report: dict[str, float] = {}
    for task, places in zip(job.validations, rankings(model, job, longest, pad, precision), strict=True):
        names = list(dict.fromkeys((task.measure, "MRR@10", "R@20", "nDCG@10")))
        for name, values in task.scores(places, names).items():
            report[f"{task.name}/{name}"] = float(values.mean())
    return report


def rankings(model: Any, job: Job, longest: int, pad: int, precision: str) -> list[Integers]:
    """What a model finds for the queries of each task; texts that tasks share are encoded once."""
    parts = [part for task in job.validations for part in (task.queries, task.passages)]
    if not parts:
        return []
    every, inverse = np.unique(np.concatenate(parts), return_inverse=True)
    vectors = encode_texts(model, job.texts, every, longest, pad, precision)
    ends = np.cumsum([len(part) for part in parts])
    places = np.split(inverse, ends[:-1])
    return [
        ranked(vectors[places[2 * n]], vectors[places[2 * n + 1]], task.itself)
        for n, task in enumerate(job.validations)
    ]


def selection(report: dict[str, float], validations: Sequence[Validation]) -> tuple[float, float]:
    """Two numbers to choose by: the mean over the tasks that training is for, and over the general ones."""
    parts: tuple[list[float], list[float]] = ([], [])
    for task in validations:
        parts[task.general].append(report[f"{task.name}/{task.measure}"])
    domain, general = (float(np.mean(values)) if values else 0.0 for values in parts)
    return domain, general
