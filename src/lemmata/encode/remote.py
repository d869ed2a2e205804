"""Any OpenAI-compatible `/v1/embeddings`, hosted or local: batches, retries, and a cache on disk.

It either returns every vector or raises: a refused or broken answer never becomes an empty result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.errors import ConfigError, LemmataError
from lemmata.core.http import AnswerCache, CallError, Service, cache_key
from lemmata.core.types import Floats

_CHARACTERS_PER_TOKEN = 4  # of English prose; an estimate needs no tokenizer
BATCH = 64
_BATCH_CHARACTERS = 200_000
_TEXT_CHARACTERS = 24_000  # services refuse longer texts instead of cutting them
_MARKS = 2  # tokens that some models add to each text


class Estimate(NamedTuple):
    """What encoding would take, before anything is sent."""

    tokens: int
    calls: int
    cached: int  # texts that need no call


class Allowance:
    """What remote encoders may use; counts the calls and tokens of all encoders that share it. 0 is no cap.

    A call is made only if its worst case fits, since the tokens are known afterwards: a token has at least one byte.
    What a service reports counts; where it reports nothing, the estimate. `price` is per million tokens.
    """

    def __init__(self, *, tokens: int = 0, cost: float = 0.0, price: float = 0.0) -> None:
        if cost and not price:
            raise ConfigError("a cap on the cost needs the price of a million tokens: price in [index]")
        self.price = price
        caps = (f"{tokens:,} tokens" if tokens else "", f"a cost of {cost:g}" if cost else "")
        self._caps = " and ".join(filter(None, caps))
        # a hair more, since sums of cents do not add up exactly
        self._most = min(tokens or math.inf, cost / price * 1e6 * (1 + 1e-9) if cost else math.inf)
        self.calls = self.tokens = 0

    def check(self, estimate: Estimate) -> None:
        """LemmataError if the estimate goes beyond a cap, before anything is sent."""
        if self.tokens + estimate.tokens > self._most:
            raise LemmataError(
                f"encoding would take about {self._sum(estimate.calls, estimate.tokens)}, more than the cap of"
                f" {self._caps}: nothing was sent; raise the cap, or leave something out"
            )

    def fitting(self, texts: Sequence[str]) -> int:
        """How many of the texts can be sent in one call; LemmataError where not even the first can."""
        worst = self.tokens
        for number, text in enumerate(texts):
            worst += _worst_tokens(text)
            if worst > self._most:
                if not number:
                    spent = self._sum(self.calls, self.tokens)
                    raise LemmataError(
                        f"after {spent} the next call could go beyond the cap of {self._caps}:"
                        " what was encoded is kept, and the same command goes on from there with a new cap"
                    )
                return number
        return len(texts)

    def count(self, tokens: int) -> None:
        """Add one call."""
        self.calls += 1
        self.tokens += tokens

    def _sum(self, calls: int, tokens: int) -> str:
        cost = f" at a cost of {tokens * self.price / 1e6:.4g}" if self.price else ""
        return f"{calls:,} calls and {tokens:,} tokens{cost}"


def _worst_tokens(text: str) -> int:
    return len(text.encode()) + _MARKS


def _estimated_tokens(texts: Sequence[str]) -> int:
    return sum(math.ceil(len(text) / _CHARACTERS_PER_TOKEN) for text in texts)


class RemoteEncoder:
    """A model behind an address.

    `dimension` cuts longer vectors and normalises them again; None keeps what the service gives, which costs one
    small call if nothing was encoded yet. `cache` is a SQLite file; None caches nothing. `allowance` may be shared.
    """

    def __init__(
        self,
        service: Service,
        *,
        dimension: int | None = None,
        cache: Path | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        self._service = service
        self._allowance = allowance or Allowance()
        self._cut_to = self._dimension = dimension
        self._cache = AnswerCache(cache) if cache else None
        self.name = f"{service.model}@{dimension}" if dimension else service.model

    @property
    def dimension(self) -> int:
        if self._dimension is None:
            self._dimension = self.encode(["dimension"]).shape[1]  # a call once: it is cached
        return self._dimension

    def estimate(self, texts: Sequence[str], role: str = "passage") -> Estimate:
        prepared, vectors, batches = self._prepare(texts, role)
        tokens = sum(map(_estimated_tokens, batches))
        return Estimate(tokens, len(batches), sum(text in vectors for text in prepared))

    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats:
        prepared, vectors, batches = self._prepare(texts, role)
        for batch in batches:
            start = 0
            while start < len(batch):
                part = batch[start : start + self._allowance.fitting(batch[start:])]
                for text, vector in zip(part, self._service.call(partial(self._request, part)), strict=True):
                    vectors[text] = vector
                    if self._cache:
                        self._cache.write(self._key(role, text), vector.tobytes())
                start += len(part)
        dimensions = {len(vector) for vector in vectors.values()} | ({self._dimension} if self._dimension else set())
        if len(dimensions) > 1:
            raise LemmataError(f"{self._service.url} changed the dimension of {self._service.model}: {dimensions}")
        self._dimension = next(iter(dimensions), None)
        matrix = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(prepared):
            if text:
                matrix[row] = vectors[text]
        return matrix

    def _prepare(self, texts: Sequence[str], role: str) -> tuple[list[str], dict[str, Floats], list[list[str]]]:
        """The texts as they are sent, the cached vectors by text, and batches of the other texts."""
        prepared = [text.strip()[:_TEXT_CHARACTERS].encode("utf-8", "replace").decode("utf-8") for text in texts]
        vectors: dict[str, Floats] = {}
        missing: list[str] = []
        for text in dict.fromkeys(filter(None, prepared)):
            stored = self._cache.read(self._key(role, text)) if self._cache else None
            if stored is None:
                missing.append(text)
            else:
                vectors[text] = np.frombuffer(stored, np.float32)
        return prepared, vectors, list(_batches(missing))

    def _key(self, role: str, text: str) -> bytes:
        # with the address: services give their models the same names, such as "default"
        return cache_key(self._service.url, self.name, role, text)

    def _request(self, batch: list[str]) -> Floats:
        body = {"model": self._service.model, "input": batch, "encoding_format": "float"}
        if self._allowance.fitting(batch) < len(batch):  # after a failed call that counted
            raise LemmataError(f"{self._service.url} failed, and another call could go beyond the cap")
        try:
            answer = self._service.post("embeddings", body)
        except CallError as failure:
            self._allowance.count(sum(map(_worst_tokens, batch)) if failure.charged else 0)
            raise
        self._allowance.count(_reported_tokens(answer, batch))
        matrix = _read_vectors(answer, len(batch))
        if self._cut_to and matrix.shape[1] < self._cut_to:
            raise LemmataError(f"{self._service.model} has {matrix.shape[1]} dimensions, fewer than {self._cut_to}")
        matrix = matrix[:, : self._cut_to]
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not norms.all():
            raise CallError("a vector of the answer is zero or not finite", retry=True)
        return np.asarray(matrix / norms, np.float32)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == BATCH or characters + len(text) > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _reported_tokens(answer: Any, batch: Sequence[str]) -> int:
    """The tokens that the service counted, or the estimate where it does not tell."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    tokens = usage.get("total_tokens", usage.get("prompt_tokens")) if isinstance(usage, dict) else None
    return tokens if isinstance(tokens, int) and tokens > 0 else _estimated_tokens(batch)


def _read_vectors(answer: Any, count: int) -> Floats:
    """One row per text, in the order of the request: that of `index`, not that of the answer."""
    try:
        entries = sorted(answer["data"], key=lambda entry: int(entry["index"]))
        if [entry["index"] for entry in entries] != list(range(count)):
            raise CallError(f"the answer does not have one vector for each of {count} texts", retry=True)
        return np.asarray([entry["embedding"] for entry in entries], np.float32)
    except (KeyError, TypeError, ValueError) as error:  # also for rows of different lengths
        raise CallError(f"the answer does not follow the protocol ({error})", retry=True) from error
