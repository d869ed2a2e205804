"""Measure a model on the validation tasks of a job, from tokens, and how often that is worth its cost.

Validation may cost about a quarter of training. A text costs three times as much in training as in validation: the
backward pass takes twice the time of the forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from lemmata.core.types import Integers
from lemmata.train.batches import chunks
from lemmata.train.job import Job, TokenizedTexts, Validation
from lemmata.train.ranks import from_first, gathered, own_items

DEPTH = 100
BUDGET = {"cuda": 262_144, "mps": 32_768, "cpu": 8_192}  # tokens that are encoded at once
SMALLEST_POOL = 1000  # passages; among fewer, most answers are easy to find
MOST_EVALUATIONS = 10  # while training


def pool_size(training_texts: int, tasks: int) -> int:
    """Passages of a validation task, so that measuring all tasks before and after training costs its quarter."""
    return max(SMALLEST_POOL, 3 * training_texts // (4 * 2 * max(1, tasks)))


def evaluation_steps(steps: int, training_tokens: int, validation_tokens: int, others: int) -> list[int]:
    """The steps after which validation is measured: the last one, and as many others as its quarter allows.

    `others` are the evaluations before and after training.
    """
    affordable = 3 * training_tokens // (4 * max(1, validation_tokens)) - others
    count = min(MOST_EVALUATIONS, max(1, affordable))
    return sorted({-(-number * steps // count) for number in range(1, count + 1)})


def autocast(device: str, precision: str) -> AbstractContextManager[Any]:
    """Compute in `bf16` where the precision says so."""
    import torch

    if precision == "fp32":
        return nullcontext()
    context: AbstractContextManager[Any] = torch.autocast(device, torch.bfloat16)
    return context


def encode_texts(
    model: Any, texts: TokenizedTexts, numbers: Integers, longest: int, pad: int, precision: str = "fp32"
) -> Any:
    """Unit vectors (n, d) of texts, as a tensor on the model's device; of several processes, each encodes a part."""
    import torch

    device = model.device.type
    was_training = model.training
    model.eval()
    own = numbers[own_items()]
    vectors = torch.zeros((len(own), int(model.get_embedding_dimension())), device=model.device)
    with torch.no_grad(), autocast(device, precision):
        for part in chunks(texts, own, longest, BUDGET.get(device, BUDGET["cpu"])):
            ids, mask = (torch.from_numpy(array).to(model.device) for array in texts.padded(own[part], longest, pad))
            output = model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"]
            vectors[torch.from_numpy(part).to(model.device)] = torch.nn.functional.normalize(output.float(), dim=1)
    model.train(was_training)
    return gathered(vectors, len(numbers))


def rank_passages(queries: Any, passages: Any, itself: Integers, depth: int = DEPTH) -> Integers:
    """Places of the best passages (q, depth) for each query, without the passage that the query is; -1 at the end."""
    import torch

    blocks: list[Integers] = []
    depth = min(depth, len(passages))
    own_places = torch.from_numpy(itself).to(queries.device)
    for start in range(0, len(queries), 1024):
        scores = queries[start : start + 1024] @ passages.T
        own = own_places[start : start + 1024]
        rows = (own >= 0).nonzero()[:, 0]
        scores[rows, own[rows]] = -torch.inf
        best = scores.topk(depth, dim=1)
        blocks.append(torch.where(best.values > -torch.inf, best.indices, -1).cpu().numpy())
    return np.concatenate(blocks).astype(np.int64)


def measure_tasks(model: Any, job: Job, longest: int, pad: int, precision: str) -> dict[str, float]:
    """`task/measure`: mean, for the measure of every task and for MRR@10, R@20 and nDCG@10.

    Texts that tasks share are encoded once.
    """
    parts = [part for task in job.validations for part in (task.queries, task.passages)]
    if not parts:
        return {}
    every, inverse = np.unique(np.concatenate(parts), return_inverse=True)
    vectors = encode_texts(model, job.texts, every, longest, pad, precision)
    places = np.split(inverse, np.cumsum([len(part) for part in parts])[:-1])

    def measure() -> dict[str, float]:
        report: dict[str, float] = {}
        for task, queries, passages in zip(job.validations, places[::2], places[1::2], strict=True):
            ranked = rank_passages(vectors[queries], vectors[passages], task.itself)
            names = list(dict.fromkeys((task.measure, "MRR@10", "R@20", "nDCG@10")))
            for name, values in task.scores(ranked, names).items():
                report[f"{task.name}/{name}"] = float(values.mean())
        return report

    return from_first(measure)


def selection(report: dict[str, float], validations: Sequence[Validation]) -> tuple[float, float]:
    """Two numbers to choose by: the mean over the tasks that training is for, and over the guard's."""
    parts: tuple[list[float], list[float]] = ([], [])
    for task in validations:
        parts[task.general].append(report[f"{task.name}/{task.measure}"])
    domain, general = (float(np.mean(values)) if values else 0.0 for values in parts)
    return domain, general
