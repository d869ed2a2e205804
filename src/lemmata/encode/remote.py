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

from lemmata.errors import LemmataError
from lemmata.http import AnswerCache, CallError, Service, cache_key
from lemmata.types import Floats

__all__ = ["BATCH", "Estimate", "RemoteEncoder"]

_CHARACTERS_PER_TOKEN = 4  # of English prose; an estimate needs no tokenizer
BATCH = 64
_BATCH_CHARACTERS = 200_000
_TEXT_CHARACTERS = 24_000  # services refuse longer texts instead of cutting them


class Estimate(NamedTuple):
    """What encoding would take, before anything is sent."""

    tokens: int
    calls: int
    cached: int  # texts that need no call


class RemoteEncoder:
    """A model behind an address.

    `dimension` cuts longer vectors and normalises them again; None keeps what the service gives, which costs one
    small call if nothing was encoded yet. `cache` is a SQLite file; None caches nothing.
    """

    def __init__(self, service: Service, *, dimension: int | None = None, cache: Path | None = None) -> None:
        self._service = service
        self._cut_to = self._dimension = dimension
        self._cache = AnswerCache(cache) if cache else None
        self.name = f"{service.model}@{dimension}" if dimension else service.model

    @property
    def dimension(self) -> int:
        if self._dimension is None:
            self._dimension = len(self._embed(["dimension"])[0])
        return self._dimension

    def estimate(self, texts: Sequence[str], role: str = "passage") -> Estimate:
        prepared, vectors, batches = self._prepare(texts, role)
        tokens = sum(math.ceil(len(text) / _CHARACTERS_PER_TOKEN) for batch in batches for text in batch)
        return Estimate(tokens, len(batches), sum(text in vectors for text in prepared))

    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats:
        prepared, vectors, batches = self._prepare(texts, role)
        for batch in batches:
            for text, vector in zip(batch, self._embed(batch), strict=True):
                vectors[text] = vector
                if self._cache:
                    self._cache.write(cache_key(self.name, role, text), vector.tobytes())
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
            stored = self._cache.read(cache_key(self.name, role, text)) if self._cache else None
            if stored is None:
                missing.append(text)
            else:
                vectors[text] = np.frombuffer(stored, np.float32)
        return prepared, vectors, list(_batches(missing))

    def _embed(self, batch: list[str]) -> Floats:
        return self._service.call(partial(self._request, batch))

    def _request(self, batch: list[str]) -> Floats:
        body = {"model": self._service.model, "input": batch, "encoding_format": "float"}
        matrix = _read_vectors(self._service.post("embeddings", body), len(batch))
        if self._cut_to and matrix.shape[1] < self._cut_to:
            raise LemmataError(f"{self._service.model} has {matrix.shape[1]} dimensions, fewer than {self._cut_to}")
        matrix = matrix[:, : self._cut_to]
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not norms.all():
            raise CallError("a vector of the answer is zero or not finite", retry=True)
        normalised: Floats = matrix / norms
        return normalised


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


def _read_vectors(answer: Any, count: int) -> Floats:
    """One row per text, in the order of the request: that of `index`, not that of the answer."""
    try:
        entries = sorted(answer["data"], key=lambda entry: int(entry["index"]))
        if [entry["index"] for entry in entries] != list(range(count)):
            raise CallError(f"the answer does not have one vector for each of {count} texts", retry=True)
        return np.asarray([entry["embedding"] for entry in entries], np.float32)
    except (KeyError, TypeError, ValueError) as error:  # also for rows of different lengths
        raise CallError(f"the answer does not follow the protocol ({error})", retry=True) from error
