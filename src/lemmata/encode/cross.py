"""Cross-encoders: a model that reads a query and a passage together and gives one score.

An exported folder (`model.onnx`, `tokenizer.json`) needs onnxruntime and tokenizers only; it may come from lemmata or
from elsewhere. A Hugging Face folder or hub name runs through sentence-transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.errors import InputError, require
from lemmata.core.files import sha256_of
from lemmata.core.keys import HUB_NAME
from lemmata.core.types import CrossEncoder, Floats
from lemmata.core.workers import available_cores
from lemmata.encode.bert import read_json
from lemmata.encode.onnx import CHARACTERS_PER_TOKEN, batches, open_session, open_tokenizer, readable
from lemmata.encode.transformer import open_model

SETTINGS = "reranker.json"  # of a folder that lemmata exported: name, max_tokens, precision, source_sha256
_PAIRS = 4096  # tokenised at once: enough to sort by length, few enough for memory
_MOST_TOKENS = 512  # where neither the folder nor its tokenizer says how many the model reads
_POSSIBLE = (
    "a model made by 'lemmata train reranker', a folder with model.onnx and tokenizer.json, a Hugging Face folder of a"
    " cross-encoder, or a hub name such as cross-encoder/ms-marco-MiniLM-L12-v2"
)


def load_cross_encoder(name: str, *, models: Path | None = None) -> CrossEncoder:
    """The cross-encoder that `name` names: a model of the workspace's `models`, a folder or a hub name."""
    folder = find_cross_encoder(name, models)
    if folder is None:
        return _TransformerCrossEncoder(name)
    exported = (folder / "model.onnx").is_file() and (folder / "tokenizer.json").is_file()
    return OnnxCrossEncoder(folder) if exported else _TransformerCrossEncoder(folder)


def find_cross_encoder(name: str, models: Path | None = None) -> Path | None:
    """The folder of a cross-encoder; None for a hub name."""
    folder = cross_folder(name, models)
    if is_cross_encoder(folder):
        return folder
    if (folder / "encoder.json").is_file() or (folder / "modules.json").is_file():
        raise InputError(f"{name!r} is an encoder, not a cross-encoder; possible are {_POSSIBLE}")
    if HUB_NAME.fullmatch(name) and not folder.exists():
        return None
    raise InputError(f"there is no cross-encoder {name!r}; possible are {_POSSIBLE}")


def cross_folder(name: str, models: Path | None = None) -> Path:
    """The folder that a name means, which need not exist; a path is relative to the workspace or to the current one."""
    path = Path(name).expanduser()
    if models is not None and "/" not in name and (models / name).is_dir():
        own = models / name
        return own / "onnx" if (own / "onnx" / SETTINGS).is_file() else own
    if models is not None and (models.parent / path).is_dir():
        return models.parent / path
    return path


def is_cross_encoder(folder: Path) -> bool:
    """Whether a folder holds a cross-encoder, exported or of Hugging Face."""
    if (folder / "config.json").is_file():
        names = read_json(folder / "config.json").get("architectures") or []
        return any(str(name).endswith("ForSequenceClassification") for name in names)
    files = ("model.onnx", "tokenizer.json")
    return all((folder / name).is_file() for name in files) and not (folder / "encoder.json").is_file()


class OnnxCrossEncoder:
    """An exported cross-encoder, on all cores."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = open_tokenizer(folder / "tokenizer.json")
        settings = read_json(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
        truncation = self._tokenizer.truncation or {}
        reads = int(settings.get("max_tokens") or truncation.get("max_length") or _MOST_TOKENS)
        self.name = str(settings.get("name") or f"{folder.resolve().name}-{sha256_of([folder / 'model.onnx'])[:8]}")
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(reads, strategy="longest_first")
        self._longest = reads
        self._session = open_session(folder / "model.onnx", available_cores())
        self._inputs = {entry.name for entry in self._session.get_inputs()}
        shape = self._session.get_outputs()[0].shape
        known = {"input_ids", "attention_mask", "token_type_ids"}
        if not self._inputs <= known or (
            len(shape) == 2 and shape[1] not in (1, None) and not isinstance(shape[1], str)
        ):
            raise InputError("is no cross-encoder with one score for a pair", file=str(folder / "model.onnx"))

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        scores = np.zeros(len(pairs), np.float32)
        for start in range(0, len(pairs), _PAIRS):
            scores[start : start + _PAIRS] = self._score(pairs[start : start + _PAIRS])
        return scores

    def _score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        longest = self._longest * CHARACTERS_PER_TOKEN
        texts = [(readable(query, longest), readable(passage, longest)) for query, passage in pairs]
        encodings = self._tokenizer.encode_batch(texts)
        scores = np.zeros(len(pairs), np.float32)
        for batch in batches([len(encoding.ids) for encoding in encodings]):
            width = max(len(encodings[place].ids) for place in batch)
            arrays = {name: np.zeros((len(batch), width), np.int64) for name in self._inputs}
            for row, place in enumerate(batch):
                encoding = encodings[place]
                values = {"input_ids": encoding.ids, "token_type_ids": encoding.type_ids}
                for name, array in arrays.items():
                    array[row, : len(encoding.ids)] = values.get(name, 1)  # the mask is 1 at every token
            scores[batch] = self._session.run(None, arrays)[0].reshape(len(batch))
        return scores


class _TransformerCrossEncoder:
    """A cross-encoder of sentence-transformers; its scores are logits, whatever activation the model names."""

    def __init__(self, source: Path | str) -> None:
        torch = require("torch", "train")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model: Any = open_model(source, device, kind="CrossEncoder")
        if int(self._model.num_labels) != 1:
            cause = f"gives {self._model.num_labels} scores for a pair instead of one"
            raise InputError(cause, file=str(source))
        self._activation = torch.nn.Identity()
        weights_of = sorted(Path(source).glob("*.safetensors"))
        # another training of the same name is another model
        self.name = f"{Path(source).resolve().name}-{sha256_of(weights_of)[:8]}" if weights_of else str(source)

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        if not pairs:
            return np.zeros(0, np.float32)
        scores = self._model.predict(list(pairs), activation_fn=self._activation, show_progress_bar=False)
        return np.asarray(scores, np.float32)
