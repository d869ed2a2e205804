"""An encoder without a model: words and character trigrams, hashed. For tests and trial runs, not for quality."""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

import numpy as np

from lemmata.core.errors import ConfigError
from lemmata.core.types import Floats

_WORD = re.compile(r"\w+|\\[a-z]+")
_SALT = crc32(b"0")
_CHARACTERS = 100_000  # of one text; the rest hardly moves the vector


class HashingEncoder:
    """Signed feature hashing: a word counts 1, each of its trigrams 1/2, so inflected forms stay close.

    The vectors are the same on every machine and in every process.
    """

    def __init__(self, dimension: int = 256) -> None:
        if dimension < 1:
            raise ConfigError(f"the dimension must be at least 1, not {dimension}")
        self.dimension = dimension
        self.name = f"hashing-0@{dimension}"

    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats:  # noqa: ARG002 - no prompts here
        matrix = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(matrix, texts, strict=True):
            words = _WORD.findall(text[:_CHARACTERS].lower())
            trigrams = [f"<{word}>"[start : start + 3] for word in words for start in range(len(word))]
            features = [feature.encode("utf-8", "replace") for feature in (*words, *trigrams)]
            weights = np.repeat([1.0, 0.5], [len(words), len(trigrams)])
            hashes = np.array([crc32(feature, _SALT) for feature in features], np.int64)
            signs = np.where(hashes >> 31, -1.0, 1.0)  # with signs, collisions cancel instead of adding up
            np.add.at(row, (hashes & 0x7FFFFFFF) % self.dimension, signs * weights)
            row /= np.linalg.norm(row) or 1.0
        return matrix
