"""Static encoders: how they are trained, and token vectors to start from, taken from any other encoder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.types import Encoder, Floats, Integers, Progress
from lemmata.encode.load import AUTO
from lemmata.encode.onnx import open_tokenizer
from lemmata.train.finetune import FinetuneOptions
from lemmata.train.job import Job

DIMENSION = 256
COMMON = 1e-4  # share of the text from which on a token counts less than half; the parameter a of SIF
STEPS = 200  # whatever the corpus: half a minute of CPU time on qseries; validation may choose an earlier one
LARGEST_BATCH, SMALLEST_BATCH = 512, 32  # records, all of them candidates of each other
RATE = 0.05  # of vectors with a mean square of 1
_SPECIAL = re.compile(r"\[.+\]|<.+>", re.DOTALL)  # tokens such as [CLS] and </s>
ENCODED = 2048  # tokens of the vocabulary that are encoded at once


@dataclass(frozen=True, slots=True)
class StaticOptions:
    """How a static encoder is trained; in `lemmata.toml` a table [static.NAME]."""

    base: str = AUTO  # lemmata-nano, another static encoder, or any encoder whose token vectors are taken; as finetune
    sets: dict[str, float] = field(default_factory=dict)  # training set: how often an epoch shows it; all, once
    validation: dict[str, str] = field(default_factory=dict)  # task: the measure to choose by; as finetune
    guard: dict[str, str] = field(default_factory=dict)  # the same for general tasks that must not get worse


def as_finetune(options: StaticOptions) -> FinetuneOptions:
    """The fine-tuning that trains a static encoder; `fitted` gives it the length and the size of its steps."""
    return FinetuneOptions(
        base=options.base, sets=options.sets, validation=options.validation, guard=options.guard, rate=RATE
    )


def fitted(options: FinetuneOptions, job: Job) -> FinetuneOptions:
    """Options with which a job of any size is trained for about STEPS steps; small sets have small batches."""
    records = sum(len(rows) * options.sets.get(name, 1.0) for name, rows in job.sets.items())
    batch = int(min(LARGEST_BATCH, max(SMALLEST_BATCH, records // 4)))
    return replace(options, batch=batch, epochs=STEPS * batch / max(1.0, records))


def token_vectors(encoder: Encoder, tokenizer_file: Path, counts: Integers, progress: Progress) -> Floats:
    """Token vectors (tokens, dimension) of an encoder: each token encoded alone, reduced by PCA, weighted.

    The weight of a token with frequency p is a / (a + p): smooth inverse frequency (Arora et al. 2017, "A simple but
    tough-to-beat baseline for sentence embeddings"). `counts` (tokens,) are those of some text. Special tokens are 0.
    """
    tokens = vocabulary(open_tokenizer(tokenizer_file))
    texts = ["" if _SPECIAL.fullmatch(token) else token.removeprefix("##").lstrip("▁Ġ") for token in tokens]
    parts = []
    for start in range(0, len(texts), ENCODED):
        progress("encoding the vocabulary", start, len(texts))
        parts.append(encoder.encode(texts[start : start + ENCODED]))
    vectors = np.concatenate(parts)
    filled = vectors.any(axis=1)
    vectors[filled] -= vectors[filled].mean(axis=0)
    _, axes = np.linalg.eigh(vectors.T @ vectors)  # in ascending order of the variance along them
    reduced = vectors @ axes[:, ::-1][:, :DIMENSION]
    share = counts / max(1, counts.sum())
    weighted: Floats = (reduced * (COMMON / (COMMON + share))[:, None]).astype(np.float32)
    return weighted


def count_tokens(texts: Iterable[str], tokenizer_file: Path) -> Integers:
    """How often each token occurs (tokens,)."""
    tokenizer: Any = open_tokenizer(tokenizer_file)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    counts = np.zeros(len(vocabulary(tokenizer)), np.int64)
    batch: list[str] = []

    def add() -> None:
        for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            np.add.at(counts, np.asarray(encoding.ids, np.int64), 1)
        batch.clear()

    for text in texts:
        batch.append(text.encode("utf-8", "replace").decode("utf-8"))
        if len(batch) == 1000:
            add()
    add()
    return counts


def vocabulary(tokenizer: Any) -> Sequence[str]:
    """Tokens in the order of their numbers; an empty string where a number has none."""
    numbers = tokenizer.get_vocab(with_added_tokens=True)
    tokens = [""] * (max(numbers.values()) + 1)
    for token, number in numbers.items():
        tokens[number] = token
    return tokens
