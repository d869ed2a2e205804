"""Fine-tuning: what is learned, chosen, kept after a kill, and not forgotten."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bert import silent, small_bert, small_job

from lemmata.errors import ConfigError
from lemmata.train.finetune import FinetuneOptions, Tuned, finetune
from lemmata.train.job import Job

torch = pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers")

QUICK: dict[str, Any] = {"batch": 50, "epochs": 8, "rate": 3e-3, "validations": 4, "device": "cpu"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def job(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    return small_job(tmp_path_factory.mktemp("job"), base, negatives=1)


def tuned(base: Path, job: Job, folder: Path, **options: Any) -> Tuned:
    chosen = FinetuneOptions(**{**QUICK, **options})
    return finetune(base, job, folder / "out", chosen, work=folder / "work", progress=silent)


def test_a_model_learns_what_the_pairs_say_and_is_saved_for_anyone(base: Path, job: Job, tmp_path: Path) -> None:
    told = tuned(base, job, tmp_path)
    assert told.before["sayings/MRR@10"] < 0.3
    assert told.after["sayings/MRR@10"] > 0.8
    losses = [line["loss"] for line in told.history if "loss" in line]
    assert losses[-1] < losses[0] / 2
    assert told.records_per_second > 0
    model = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    vectors = model.encode(["a1 a2 a3", "b1 b2 b3", "b4 b5 b6"], normalize_embeddings=True)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


@pytest.mark.parametrize(
    "options",
    [
        {"cached": True, "chunk": 64},
        {"loss": "triplet", "epochs": 10},
        {"dimensions": [1, 0.5, 8]},
        {"guide": "x"},
        {"lora": 8, "rate": 2e-2},
        {"pooling": "cls+mean"},
        {"freeze": 1, "epochs": 12},
        {"checkpointing": True},
        {"patience": 1, "epochs": 10},
        {"teacher": "x", "epochs": 10},
    ],
    ids=lambda options: ",".join(options),
)
def test_every_way_of_training_learns(base: Path, job: Job, tmp_path: Path, options: dict[str, Any]) -> None:
    chosen = FinetuneOptions(**{**QUICK, **options})
    told = finetune(
        base,
        job,
        tmp_path / "out",
        chosen,
        work=tmp_path / "work",
        guide=base if chosen.guide else None,
        teacher=base if chosen.teacher else None,
        progress=silent,
    )
    assert told.after["sayings/MRR@10"] > told.before["sayings/MRR@10"] + 0.1
    sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(["a1"])
