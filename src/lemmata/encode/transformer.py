"""Any sentence-transformers folder or hub name, through torch: for GPUs, and for models that are not exported."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.errors import InputError, require
from lemmata.core.types import Floats
from lemmata.encode.onnx import CHARACTERS_PER_TOKEN, cpu_flags, cut_to, normalised, readable


class TransformerEncoder:
    """A sentence-transformers model, in bf16 autocast where the processor supports it, else fp32.

    `origin` is a folder or a hub name; with HF_HUB_OFFLINE set, only a model of the local cache.
    """

    def __init__(self, origin: Path | str, *, dimension: int | None = None, threads: int | None = None) -> None:
        folder = Path(origin).expanduser()
        if folder.exists() and not (folder / "modules.json").is_file():
            raise InputError("is no sentence-transformers model: it has no modules.json", file=str(folder))
        self._torch = require("torch", "train")
        if threads:
            self._torch.set_num_threads(threads)
        self._device = "cuda" if self._torch.cuda.is_available() else "cpu"
        self._has_bf16 = self._torch.cuda.is_bf16_supported() if self._device == "cuda" else cpu_has_bf16()
        self._model: Any = open_model(origin, self._device)
        name = folder.resolve().name if folder.exists() else str(origin)
        self.name, self.dimension = cut_to(name, int(self._model.get_embedding_dimension()), dimension)
        self._longest = int(self._model.max_seq_length or 512) * CHARACTERS_PER_TOKEN

    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats:
        matrix = np.zeros((len(texts), self.dimension), np.float32)
        rows = [row for row, text in enumerate(texts) if text.strip()]
        if not rows:
            return matrix
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        with self._torch.autocast(self._device, self._torch.bfloat16, enabled=self._has_bf16):
            vectors = encode([readable(texts[row], self._longest) for row in rows], show_progress_bar=False)
        matrix[rows] = normalised(np.asarray(vectors, np.float32)[:, : self.dimension])
        return matrix


def open_model(origin: Path | str, device: str, *, kind: str = "SentenceTransformer", **model_options: Any) -> Any:
    """A model of sentence-transformers without a progress bar: from safetensors, without code of its own."""
    load = getattr(require("sentence_transformers", "train"), kind)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it would print each of its retries
    require("transformers.utils.logging", "train").disable_progress_bar()
    weights = {**model_options, "use_safetensors": True}
    try:
        return load(str(origin), device=device, trust_remote_code=False, model_kwargs=weights)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        cause = str(error).strip().split("\n")[0]
        what = "cannot be loaded" if Path(origin).exists() else "is no folder and cannot be loaded from the hub"
        raise InputError(f"{what} as a {kind} ({cause})", file=str(origin)) from error


def check_hub(name: str) -> None:
    """Refuse a hub name that is neither in the local cache nor on the hub, which is asked once and for no weights."""
    hub = require("huggingface_hub", "train")
    if isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        return
    try:
        hub.model_info(name, timeout=10)
    except Exception as error:  # the hub's client raises many kinds
        cause = str(error).strip().split("\n")[0]
        raise InputError(
            f"is no folder, not in the local cache and not to be had from the hub ({cause})", file=name
        ) from error


def cpu_has_bf16() -> bool:
    """Whether the kernel reports bf16 instructions; emulated bf16 is slower than fp32."""
    return not {"amx_bf16", "avx512_bf16", "bf16"}.isdisjoint(cpu_flags())
