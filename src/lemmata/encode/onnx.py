"""The default encoder: an exported folder run by onnxruntime, with tokenizers and nothing else.

The folder holds `model.onnx`, `tokenizer.json` and `encoder.json` (see `export.py`). In a folder from elsewhere, whose
graph gives a vector for each token, `encoder.json` says how they become one (`pooling`), and may say no more.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from lemmata.core.errors import ConfigError, InputError
from lemmata.core.files import sha256_of
from lemmata.core.types import Floats
from lemmata.core.workers import available_cores
from lemmata.encode.bert import max_tokens, read_json

_TOKENS = 512  # of one batch, padding included; 256 was 4 % slower, 1,024 6 %
_TEXTS = 4096  # tokenised at once: enough to sort by length, few enough for memory
_EMBEDDING = "embedding"  # the output of our own graphs: pooled, and of length 1
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
_POOLING = '{"pooling": "mean"}, "cls" or "cls+mean"'
_WORD = re.compile(r"[^\W\d_]{3,}")  # shorter ones are names in formulas, and abbreviations
CHARACTERS_PER_TOKEN = 64  # of a long text, the tokenizer gets this many per token that the model reads


class OnnxEncoder:
    """An exported encoder. `dimension` cuts the vectors of a Matryoshka model; `threads` defaults to all cores."""

    def __init__(self, folder: Path, *, dimension: int | None = None, threads: int | None = None) -> None:
        settings = encoder_settings(folder)
        self._max_tokens, self._prompts = settings.max_tokens, settings.prompts
        self._session = open_session(settings.graph, 1)
        self._inputs = {entry.name for entry in self._session.get_inputs()}
        outputs = {entry.name: entry for entry in self._session.get_outputs()}
        self._output = next((name for name in (_EMBEDDING, "sentence_embedding") if name in outputs), "")
        self._pooling = () if self._output else settings.pooling
        if not self._output:
            self._output = next(iter(outputs))
            known = len(outputs[self._output].shape) == 3 and self._inputs <= _INPUTS
            if not known or not self._pooling or not {"mean", "cls"}.issuperset(self._pooling):
                file = str(settings.graph)
                raise InputError(f"is no encoder of tokens, or encoder.json has no pooling ({_POOLING})", file=file)
        full = int(outputs[self._output].shape[-1]) * max(1, len(self._pooling))
        self.name, self.dimension = cut_to(settings.name, full, dimension)
        self._tokenizer = open_tokenizer(folder / "tokenizer.json")
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._max_tokens)
        # each thread runs batches of its own: threads that share one wait for each other at every operator
        self._threads = threads or available_cores()

    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats:
        prompt = self._prompts.get(role, "")
        matrix = np.zeros((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), _TEXTS):
            self._encode_into(matrix[start : start + _TEXTS], texts[start : start + _TEXTS], prompt)
        return matrix

    def _encode_into(self, matrix: Floats, texts: Sequence[str], prompt: str) -> None:
        longest = self._max_tokens * CHARACTERS_PER_TOKEN
        rows = [row for row, text in enumerate(texts) if text.strip()]
        prompted = [prompt + readable(texts[row], longest) for row in rows]
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(prompted)]

        def run(batch: Sequence[int]) -> None:
            ids = np.array([tokens[position] for position in batch], np.int64)
            given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            vectors = self._session.run([self._output], {name: given[name] for name in self._inputs})[0]
            if self._pooling:
                parts = {"cls": vectors[:, 0], "mean": vectors.mean(axis=1)}
                vectors = np.concatenate([parts[name] for name in self._pooling], axis=1)
            if self._output != _EMBEDDING or self.dimension < vectors.shape[1]:
                vectors = normalised(vectors[:, : self.dimension])
            matrix[[rows[position] for position in batch]] = vectors

        # only texts of one length share a batch: no padding, and the same vector, bit for bit, in any company
        lengths = [len(ids) for ids in tokens]
        work = [
            list(batch)
            for some in batches(lengths, least=self._threads)
            for _, batch in groupby(some, key=lengths.__getitem__)
        ]
        if min(self._threads, len(work)) <= 1:
            for batch in work:
                run(batch)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            for _ in pool.map(run, reversed(work)):  # the longest first: none is left to one thread at the end
                pass


class EncoderSettings(NamedTuple):
    """What an exported folder says about its model."""

    graph: Path
    name: str
    max_tokens: int
    prompts: Mapping[str, str]  # by role: query, passage
    pooling: tuple[str, ...]  # mean, cls; several are concatenated


def encoder_settings(folder: Path) -> EncoderSettings:
    """Read `encoder.json`; what it leaves out comes from the files of the tokenizer and the model beside it."""
    graphs = [file for file in (folder / "model.onnx", folder / "onnx" / "model.onnx") if file.is_file()]
    graphs += sorted(folder.glob("*.onnx"))
    missing = [name for name in ("encoder.json", "tokenizer.json") if not (folder / name).is_file()]
    if missing or not graphs:
        missing += [] if graphs else ["model.onnx"]
        raise InputError(f"is no exported encoder: {', '.join(sorted(missing))} missing", file=str(folder))
    settings = read_json(folder / "encoder.json")
    try:
        pooling = settings.get("pooling") or ()
        return EncoderSettings(
            graphs[0],
            str(
                settings.get("name") or f"{folder.resolve().name}-{sha256_of([graphs[0], folder / 'encoder.json'])[:8]}"
            ),
            int(settings.get("max_tokens") or max_tokens(folder)),
            {role: str(prompt) for role, prompt in (settings.get("prompts") or {}).items()},
            tuple(pooling.split("+") if isinstance(pooling, str) else pooling),
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError("does not describe an encoder", file=str(folder / "encoder.json")) from error


def cut_to(name: str, full: int, dimension: int | None) -> tuple[str, int]:
    """The name and the dimension of an encoder whose vectors are cut; None cuts nothing."""
    if dimension is not None and not 1 <= dimension <= full:
        raise ConfigError(f"{name} has {full} dimensions and cannot be cut to {dimension}")
    return (f"{name}@{dimension}", dimension) if dimension and dimension < full else (name, full)


def normalised(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), np.float32)


def readable(text: str, longest: int) -> str:
    """The start of a text; lone surrogates, which tokenizers refuse, become question marks.

    What is written in capitals, as many logs are, is read in small letters: many tokenizers know few words in capitals.
    """
    start = text.lstrip()[:longest].encode("utf-8", "replace").decode("utf-8")
    words = _WORD.findall(start)
    return start.lower() if len(words) > 1 and 2 * sum(map(str.isupper, words)) > len(words) else start


def batches(lengths: Sequence[int], least: int = 1) -> Iterator[list[int]]:
    """Positions grouped by similar length, at most `_TOKENS` tokens a group (one text at least).

    So that each of several threads has one, `least` groups are made where there are few texts.
    """
    batch: list[int] = []
    most = min(_TOKENS, -(-sum(lengths) // least))
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[position] > most:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def open_tokenizer(file: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises nothing more specific
        raise InputError("is no tokenizer", file=str(file)) from error


def open_session(file: Path, threads: int) -> Any:
    import onnxruntime  # a static encoder needs the rest of this module only

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_mem_reuse = False  # planning it takes 0.1 s of the opening, and saves neither memory nor time
    if _int8_products_saturate():
        options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's classes share no public parent
        raise InputError(f"onnxruntime cannot load it ({error})", file=str(file)) from error


def open_network(file: Path) -> Callable[[Floats], Sequence[Floats]]:
    """A network with one input as a function of it, on one thread."""
    session = open_session(file, 1)
    name = session.get_inputs()[0].name
    return lambda values: [np.asarray(output) for output in session.run(None, {name: values})]


def _int8_products_saturate() -> bool:
    """Whether onnxruntime's fast int8 products are wrong on this processor: x86 without VNNI adds pairs in 16 bits.

    Its exact ones are for such a processor only: they would take twice as long here where the fast ones are right.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    # where the flags are unknown: rather slow than wrong
    return {"avx512_vnni", "avx_vnni", "amx_int8"}.isdisjoint(cpu_flags())


def cpu_flags() -> set[str]:
    """What the kernel says that the processor can do; nothing where it does not tell."""
    try:
        return set(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return set()
