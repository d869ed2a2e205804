"""A static encoder: the vector of a text is the normalised mean of the vectors of its tokens, and no model runs.

The folder holds `tokenizer.json`, `vectors.npy` (tokens, dimension) in int8, `scales.npy` (tokens,) in float32 and
`encoder.json`. The vector of a token is its row times its scale; the scale also holds the weight of the token, so that
frequent words count less.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import InputError
from lemmata.core.files import read_array, sha256_of, write_atomically
from lemmata.core.types import Floats, Integers
from lemmata.encode.bert import read_json
from lemmata.encode.onnx import CHARACTERS_PER_TOKEN, cut_to, normalised, open_tokenizer, readable

MAX_TOKENS = 512  # of a text; the rest hardly moves the mean
_TEXTS = 4096  # tokenised at once
_WORDS = 100_000  # whose tokens are remembered: some 40 MB
_LONGEST_WORD = 50  # characters of a word that is remembered; there are languages without spaces
_CURE = "train or install the encoder again"
_FILES = ("encoder.json", "tokenizer.json", "vectors.npy", "scales.npy")


class StaticEncoder:
    """A folder that `write_static` wrote; `dimension` cuts its vectors."""

    def __init__(self, folder: Path, *, dimension: int | None = None) -> None:
        settings = static_settings(folder)
        self._vectors, self._scales = _arrays(folder)
        self._max_tokens = int(settings["max_tokens"])
        self._prompts = {role: str(prompt) for role, prompt in settings["prompts"].items()}
        self.name, self.dimension = cut_to(str(settings["name"]), self._vectors.shape[1], dimension)
        tokenizer = open_tokenizer(folder / "tokenizer.json")
        if tokenizer.get_vocab_size() > len(self._vectors):
            cause = f"has {len(self._vectors):,} rows for {tokenizer.get_vocab_size():,} tokens"
            raise InputError(cause, file=str(folder / "vectors.npy"))
        self._tokens = TokenNumbers(tokenizer, self._max_tokens)

    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats:
        prompt = self._prompts.get(role, "")
        longest = self._max_tokens * CHARACTERS_PER_TOKEN
        matrix = np.zeros((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), _TEXTS):
            part = [readable(text, longest) for text in texts[start : start + _TEXTS]]
            tokens = self._tokens([prompt + text if text else "" for text in part])
            self._add(tokens, matrix[start : start + len(tokens)])
        return normalised(matrix)

    def _add(self, tokens: Sequence[Integers], sums: Floats) -> None:
        """Write the sum of the token vectors of each text to `sums` (n, dimension).

        Without a matrix product: the threads of BLAS spin after each one, while the tokenizer needs the cores.
        """
        used = np.flatnonzero(np.bincount(np.concatenate(tokens)))
        places = np.zeros(len(self._vectors), np.int64)
        places[used] = np.arange(len(used))
        table = self._vectors[used, : self.dimension] * self._scales[used, None]
        rows = np.empty((max(map(len, tokens)), self.dimension), np.float32)
        for ids, out in zip(tokens, sums, strict=True):
            np.take(table, places[ids], axis=0, out=rows[: len(ids)], mode="clip")  # "clip" does not copy twice
            np.add.reduce(rows[: len(ids)], axis=0, out=out)


class TokenNumbers:
    """The numbers of the first tokens of texts.

    A tokenizer of BERT reads what stands between two spaces by itself. Most of these words repeat, so that each is
    tokenised once: for 20,000 passages that takes a third of the time of whole texts.
    """

    def __init__(self, tokenizer: Any, max_tokens: int) -> None:
        tokenizer.no_padding()
        parts = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.model)
        names = tuple(type(part).__name__ for part in parts)
        self._by_word = names == ("BertNormalizer", "BertPreTokenizer", "WordPiece") and not tokenizer.post_processor
        if self._by_word:
            tokenizer.no_truncation()
        else:
            tokenizer.enable_truncation(max_tokens)
        self._tokenizer, self._max_tokens = tokenizer, max_tokens
        self._words: dict[str, Sequence[int]] = {}

    def __call__(self, texts: Sequence[str]) -> list[Integers]:
        if not self._by_word:
            return [np.asarray(encoding.ids, np.int64) for encoding in self._tokenizer.encode_batch_fast(texts)]
        split = [text.replace("\n", " ").split(" ") for text in texts]
        if len(self._words) > _WORDS:
            self._words = {}
        known = self._words  # threads share it: it only grows, and one that is full is left to those who read it
        new = list(set().union(*split).difference(known))
        encodings = self._tokenizer.encode_batch_fast(new)
        rare: dict[str, Sequence[int]] = {}
        for word, encoding in zip(new, encodings, strict=True):
            (known if len(word) <= _LONGEST_WORD else rare)[word] = encoding.ids
        look_up = known.__getitem__ if not rare else lambda word: rare[word] if word in rare else known[word]
        return [
            np.fromiter(islice(chain.from_iterable(map(look_up, words)), self._max_tokens), np.int64) for words in split
        ]


def is_static(folder: Path) -> bool:
    """Whether a folder holds a static encoder."""
    return (folder / "encoder.json").is_file() and (folder / "vectors.npy").is_file()


def static_settings(folder: Path) -> dict[str, Any]:
    """Name, dimension, max_tokens and prompts; InputError where a part is missing."""
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise InputError(f"is no static encoder: {', '.join(missing)} missing", file=str(folder))
    settings = read_json(folder / "encoder.json")
    complete = isinstance(settings, Mapping) and isinstance(settings.get("prompts"), Mapping)
    if not complete or not isinstance(settings.get("max_tokens"), int) or not settings.get("name"):
        raise InputError("does not describe an encoder", file=str(folder / "encoder.json"))
    return dict(settings)


def _arrays(folder: Path) -> tuple[npt.NDArray[np.int8], Floats]:
    vectors, scales = (read_array(folder / name, _CURE) for name in ("vectors.npy", "scales.npy"))
    if vectors.ndim != 2 or vectors.dtype != np.int8 or scales.shape != vectors.shape[:1]:
        raise InputError("is no matrix in int8 with a scale for each row", file=str(folder / "vectors.npy"))
    return vectors, np.asarray(scales, np.float32)


# ---------------------------------------------------------------- making one


def read_static(folder: Path) -> Floats:
    """The token vectors (tokens, dimension) of a static encoder, in float32."""
    static_settings(folder)
    vectors, scales = _arrays(folder)
    return np.asarray(vectors * scales[:, None], np.float32)


def write_static(
    folder: Path,
    name: str,
    vectors: Floats,
    tokenizer: str,
    *,
    max_tokens: int = MAX_TOKENS,
    prompts: Mapping[str, str] | None = None,
) -> None:
    """Write a static encoder; `vectors` (tokens, dimension) are rounded to int8 with a scale per row.

    `tokenizer` is the JSON of `plain_tokenizer`. `encoder.json` comes last; its name ends in a hash of the vectors.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "encoder.json").unlink(missing_ok=True)
    scales = np.maximum(np.abs(vectors).max(axis=1), 1e-12) / 127
    np.save(folder / "vectors.npy", np.rint(vectors / scales[:, None]).astype(np.int8))
    np.save(folder / "scales.npy", scales.astype(np.float32))
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    settings = {
        "name": name,
        "dimension": vectors.shape[1],
        "max_tokens": max_tokens,
        "pooling": ["mean"],
        "prompts": {"query": "", "passage": "", **(prompts or {})},
        "precision": "int8",
    }
    _write_settings(folder, settings)


def rename_static(folder: Path, name: str) -> None:
    """Give a static encoder another name; the hash of its vectors stays behind it."""
    _write_settings(folder, {**static_settings(folder), "name": name})


def _write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """With a hash of the vectors behind the name."""
    settings = {**settings, "name": f"{settings['name']}-static-{static_sha256(folder)[:8]}"}
    write_atomically(folder / "encoder.json", (json.dumps(settings, indent=2) + "\n").encode())


def static_sha256(folder: Path) -> str:
    """Of the vectors and their scales."""
    return sha256_of([folder / "scales.npy", folder / "vectors.npy"])


def plain_tokenizer(file: Path, vocabulary: Sequence[str] | None = None) -> str:
    """A tokenizer as JSON, without the special tokens around a text, truncation and padding.

    With a `vocabulary`, a WordPiece tokenizer has only these tokens, numbered in this order.
    """
    open_tokenizer(file)
    settings = read_json(file)
    settings |= {"post_processor": None, "truncation": None, "padding": None}
    if vocabulary is not None:
        if settings["model"].get("type") != "WordPiece":
            raise InputError("is no WordPiece tokenizer, so its vocabulary cannot be cut", file=str(file))
        numbers = {token: number for number, token in enumerate(vocabulary)}
        settings["model"]["vocab"] = numbers
        added = [token for token in settings["added_tokens"] if token["content"] in numbers]
        settings["added_tokens"] = [{**token, "id": numbers[token["content"]]} for token in added]
    return json.dumps(settings, ensure_ascii=False, separators=(",", ":"))
