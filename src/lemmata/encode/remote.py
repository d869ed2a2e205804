"""Any OpenAI-compatible `/v1/embeddings`, hosted or local: batches, retries, and a cache on disk.

It either returns every vector or raises: a refused or broken answer never becomes an empty result.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.errors import InputError, LemmataError, require
from lemmata.types import Floats

__all__ = ["Estimate", "RemoteEncoder", "RemoteOptions"]

_CHARACTERS_PER_TOKEN = 4  # of English prose; an estimate needs no tokenizer
_LONGEST_WAIT = 120.0  # seconds: what a Retry-After beyond it asks for is a failure, not a pause


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """How to talk to the service."""

    batch_texts: int = 64
    batch_characters: int = 200_000
    text_characters: int = 24_000  # of one text; services refuse longer ones instead of cutting them
    attempts: int = 6
    back_off: float = 1.0  # seconds after the first failure, doubled after each further one
    timeout: float = 60.0  # seconds for one call
    price: float = 0.0  # per million tokens, in any currency
    prompts: Mapping[str, str] = field(default_factory=dict)  # by role: query, passage


class Estimate(NamedTuple):
    """What encoding would take, before anything is sent."""

    tokens: int
    cost: float  # in the currency of RemoteOptions.price
    calls: int
    cached: int  # texts that need no call


class RemoteEncoder:
    """A model behind an address such as `http://localhost:11434/v1`.

    `dimension` cuts longer vectors and normalises them again; None takes what the service gives, which costs
    one small call where nothing was encoded yet. `cache` is a SQLite file; None keeps nothing.
    """

    def __init__(
        self,
        url: str,
        model: str,
        key: str = "",
        *,
        dimension: int | None = None,
        cache: Path | None = None,
        options: RemoteOptions | None = None,
    ) -> None:
        self._openai = require("openai", "llm")
        self._options = options or RemoteOptions()
        self._url, self._model, self._wanted = url, model, dimension
        self._dimension = dimension
        self._cache = _Cache(cache, f"{model}@{dimension or 'full'}") if cache else None
        self._client = self._openai.OpenAI(
            base_url=url, api_key=key or "none", timeout=self._options.timeout, max_retries=0
        )
        self.name = f"{model}@{dimension}" if dimension else model

    @property
    def dimension(self) -> int:
        if self._dimension is None:
            self._dimension = len(self._call(["dimension"])[0])
        return self._dimension

    def estimate(self, texts: Sequence[str], role: str = "passage") -> Estimate:
        prepared = self._prepare(texts, role)
        cached = self._cache.read(role, prepared) if self._cache else {}
        missing = [text for text in dict.fromkeys(prepared) if text and text not in cached]
        tokens = sum(math.ceil(len(text) / _CHARACTERS_PER_TOKEN) for text in missing)
        calls = sum(1 for _ in self._batches(missing))
        found = sum(text in cached for text in prepared)
        return Estimate(tokens, tokens * self._options.price / 1e6, calls, found)

    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats:
        prepared = self._prepare(texts, role)
        known = self._cache.read(role, prepared) if self._cache else {}
        for batch in self._batches([text for text in dict.fromkeys(prepared) if text and text not in known]):
            vectors = dict(zip(batch, self._call(batch), strict=True))
            if self._cache:
                self._cache.write(role, vectors)  # at once: what was paid for survives an interruption
            known.update(vectors)
        matrix = np.zeros((len(texts), self._dimension_of(known)), np.float32)
        for row, text in enumerate(prepared):
            if text:
                matrix[row] = known[text]
        return matrix

    def _dimension_of(self, known: Mapping[str, Floats]) -> int:
        dimensions = {len(vector) for vector in known.values()}
        if self._dimension is not None:
            dimensions.add(self._dimension)
        if len(dimensions) > 1:
            raise LemmataError(f"{self._url} changed the dimension of {self._model}: {sorted(dimensions)}")
        if dimensions:
            self._dimension = dimensions.pop()
        return self.dimension

    def _prepare(self, texts: Sequence[str], role: str) -> list[str]:
        prompt, longest = self._options.prompts.get(role, ""), self._options.text_characters
        cut = [text.strip()[:longest].encode("utf-8", "replace").decode("utf-8") for text in texts]
        return [prompt + text if text else "" for text in cut]

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        characters = 0
        for text in texts:
            full = len(batch) == self._options.batch_texts
            if batch and (full or characters + len(text) > self._options.batch_characters):
                yield batch
                batch, characters = [], 0
            batch.append(text)
            characters += len(text)
        if batch:
            yield batch

    def _call(self, batch: list[str]) -> Floats:
        """One request, repeated while the cause may pass; LemmataError once it will not."""
        cause = ""
        for attempt in range(self._options.attempts):
            pause = self._options.back_off * 2**attempt
            try:
                answer = self._client.embeddings.create(model=self._model, input=batch, encoding_format="float")
                return self._vectors(answer, len(batch))
            except self._openai.APIStatusError as error:
                cause = f"status {error.status_code}"
                if error.status_code not in (408, 409, 429) and error.status_code < 500:
                    raise LemmataError(f"{self._url} refused {self._model}: {error.message}") from error
                pause = max(pause, _retry_after(error.response.headers))
            except self._openai.APITimeoutError:
                cause = f"no answer within {self._options.timeout:g} s"
            except (self._openai.APIConnectionError, _Malformed) as error:
                cause = str(error)
            except (ValueError, self._openai.APIError):  # what the client makes of JSON that breaks off
                cause = "the answer is not the JSON it should be"
            if pause > _LONGEST_WAIT:
                raise LemmataError(f"{self._url} asks to wait {pause:.0f} s ({cause}); try again later")
            if attempt + 1 < self._options.attempts:
                time.sleep(pause)
        raise LemmataError(f"{self._url} failed {self._options.attempts} times for {self._model}: {cause}")

    def _vectors(self, answer: Any, expected: int) -> Floats:
        """Rows in the order of the request, which `index` tells and the order of the answer need not."""
        entries = getattr(answer, "data", None)
        if not isinstance(entries, list) or len(entries) != expected:
            count = len(entries) if isinstance(entries, list) else "no"
            raise _Malformed(f"{count} vectors came back for {expected} texts")
        if sorted(entry.index for entry in entries) != list(range(expected)):
            raise _Malformed("the indexes of the answer are not those of the request")
        rows = [entry.embedding for entry in sorted(entries, key=lambda entry: int(entry.index))]
        if len({len(row) for row in rows}) != 1:
            raise _Malformed("the vectors of one answer differ in length")
        matrix = np.asarray(rows, np.float32)
        if self._wanted and matrix.shape[1] < self._wanted:
            raise LemmataError(f"{self._model} has {matrix.shape[1]} dimensions, fewer than {self._wanted}")
        matrix = matrix[:, : self._wanted]
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not norms.all():
            raise _Malformed("a vector of the answer is zero or not finite")
        normalised: Floats = matrix / norms
        return normalised


class _Malformed(Exception):  # noqa: N818 - becomes a LemmataError if it stays
    """An answer that arrived and can not be used."""


class _Cache:
    """Vectors by model, dimension, role and sha256 of the text."""

    def __init__(self, path: Path, maker: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._maker = maker
        try:
            self._connection = sqlite3.connect(path, check_same_thread=False)
            with self._connection:
                self._connection.execute(
                    "CREATE TABLE IF NOT EXISTS vectors (maker TEXT, role TEXT, sha256 BLOB, vector BLOB,"
                    " PRIMARY KEY (maker, role, sha256)) WITHOUT ROWID"
                )
        except sqlite3.Error as error:
            raise InputError(f"can not be used as a cache ({error})", file=str(path)) from error

    def read(self, role: str, texts: Sequence[str]) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for text in dict.fromkeys(texts):
            row = self._connection.execute(
                "SELECT vector FROM vectors WHERE maker = ? AND role = ? AND sha256 = ?",
                (self._maker, role, _sha256(text)),
            ).fetchone()
            if row:
                found[text] = np.frombuffer(row[0], np.float32)
        return found

    def write(self, role: str, vectors: Mapping[str, Floats]) -> None:
        rows = [(self._maker, role, _sha256(text), vector.tobytes()) for text, vector in vectors.items()]
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds; 0 where the header is missing or a date, which the back-off then covers."""
    try:
        return max(0.0, float(headers.get("retry-after", "0")))
    except ValueError:
        return 0.0
