"""What one process computes, and each of two: losses, gradients, a metric."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lemmata.core.types import Floats, Integers
from lemmata.core.workspace import silent
from lemmata.train.encoders import load_model
from lemmata.train.finetune import FinetuneOptions, Objective
from lemmata.train.job import Job, open_job
from lemmata.train.metric_network import MetricOptions, train_metric
from lemmata.train.ranks import average, from_each, from_first, gathered

OBJECTIVES: dict[str, dict[str, Any]] = {
    "contrastive": {"dimensions": [1, 0.5]},
    "popular": {"loss": "popular"},
    "triplet": {"loss": "triplet"},
    "kept": {"preserved_sets": ["pairs"]},
    "taught": {"teacher": "base"},
}
METRIC = MetricOptions(dimension=8, rank=2, batch=33, negatives={"random": 16, "hard": 2}, epochs=2)


def gradients(base: Path, job: Job, options: dict[str, Any]) -> dict[str, Floats]:
    """Loss and gradients of a batch with an odd number of texts."""
    model = load_model(base, "cpu")
    chosen = FinetuneOptions(batch=25, **options)
    objective = Objective(model, job, chosen, [base] if chosen.teacher else [], silent)
    loss = objective.loss(objective.batches(0)[0])
    loss.backward()
    parts = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    parts["loss"] = loss.detach()
    average(list(parts.values()))
    return {name: part.numpy() for name, part in parts.items()}


def trained_metric() -> dict[str, Floats]:
    """The weights of a network, its nodes, and its history."""
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((61, 12)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    links: Integers = np.unique(generator.integers(0, 50, (100, 2)), axis=0)
    links = links[links[:, 0] != links[:, 1]][: 2 * METRIC.batch + 1]  # the last batch has one link
    validation = np.arange(50, 61), [{int(row)} for row in generator.integers(0, 50, 11)]
    trained = train_metric(vectors, links, METRIC, validation)
    history = np.array([[record.get(name, 0.0) for name in ("loss", "R@20")] for record in trained.history])
    parts = {name: tensor.detach().numpy() for name, tensor in trained.model.parameters.items()}
    return {**parts, "h": trained.nodes.h.numpy(), "history": history}


def gathered_rows() -> list[list[float]]:
    """Rows of two processes, the gradients of theirs, what process 0 says, and what all say."""
    number = int(os.environ["RANK"])
    own = torch.full((2 - number, 1), float(number), requires_grad=True)  # process 0 has two of three rows
    rows = gathered(own, 3)
    (rows * torch.tensor([[1.0], [10.0], [100.0]]) * (1 + number)).sum().backward()
    surplus = gathered(own, 1)  # process 1 has none of one row
    assert own.grad is not None
    values = [rows[:, 0], own.grad[:, 0], surplus[:, 0]]
    said = from_first(lambda: 5.0 + number), *from_each(float(number))
    return [*(value.tolist() for value in values), list(said)]


def write_steps(base: Path, folder: Path) -> None:
    """Write what this process of two has."""
    number = os.environ["RANK"]
    (folder / f"rows-{number}.json").write_text(json.dumps(gathered_rows()))
    results = {name: gradients(base, open_job(folder / "job"), options) for name, options in OBJECTIVES.items()}
    results["metric"] = trained_metric()
    for name, parts in results.items():
        np.savez(folder / f"{name}-{number}.npz", **parts)  # type: ignore[arg-type] # none is called allow_pickle
