"""Export a sentence-transformers folder to a small ONNX folder that searches without torch, and measure the drift."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.errors import ConfigError, InputError, require
from lemmata.core.files import check_replaceable, sha256_of, writing
from lemmata.core.types import Floats
from lemmata.encode.bert import build_bert, build_cross_bert, is_bert, max_tokens, read_architecture
from lemmata.encode.cross import SETTINGS
from lemmata.encode.onnx import OnnxEncoder
from lemmata.encode.transformer import open_model

_LEAST_COSINE = 0.98  # mean; below it the export is another model


class Drift(NamedTuple):
    """How far an export is from its fp32 original, on real text."""

    texts: int
    mean_cosine: float
    least_cosine: float
    overlap: float  # mean share of the ten nearest other texts that stayed among the ten nearest


def export_encoder(
    original: Path | str, out: Path, precision: str, *, texts: Sequence[str], name: str = "", force: bool = False
) -> Drift:
    """Export the sentence-transformers folder `original` to `out` and measure the drift on `texts`.

    Nothing is written where the mean cosine is below 0.98, unless `force` is set. An exported encoder at `out` is
    replaced, anything else there is an error.
    """
    original = Path(original)
    if not any(text.strip() for text in texts):
        raise InputError("an export is checked on real text, and no text was given")
    check_replaceable(out, "exported encoder", (out / "encoder.json").is_file())
    with writing(out) as folder:
        write_encoder(original, folder, precision, name or original.name)
        drift = measure_drift(_reference(original, texts), OnnxEncoder(folder).encode(texts))
        if drift.mean_cosine < _LEAST_COSINE and not force:
            raise InputError(
                f"the {precision} export drifts too far: mean cosine {drift.mean_cosine:.4f} on {drift.texts} texts,"
                f" below {_LEAST_COSINE}; choose fp32, or write it anyway with --force",
                file=str(original),
            )
    return drift


def write_encoder(original: Path, folder: Path, precision: str, name: str) -> None:
    """Write `folder`/{model.onnx, tokenizer.json, encoder.json}, without measuring the drift."""
    architecture = read_architecture(original)
    if not (original / "tokenizer.json").is_file():
        raise InputError("has no tokenizer.json", file=str(original))
    weights = sorted(original.glob("*.safetensors"))
    if not weights:
        raise InputError("has no weights in safetensors", file=str(original))
    folder.mkdir()
    build = build_bert if is_bert(original) else _trace
    settings = {
        "dimension": build(original, folder / "model.onnx", precision),
        "max_tokens": architecture.max_tokens,
        "pooling": list(architecture.pooling),
        "prompts": dict(architecture.prompts),
    }
    _write_rest(original, folder / "encoder.json", sha256_of(weights), precision, name, settings)


def write_cross_encoder(original: Path, folder: Path, precision: str, name: str, most_tokens: int) -> None:
    """Write `folder`/{model.onnx, tokenizer.json, reranker.json} of a BERT cross-encoder, in Hugging Face's format.

    Of a pair it reads `most_tokens`, or what the model reads where that is less.
    """
    with writing(folder) as temporary:
        temporary.mkdir()
        build_cross_bert(original, temporary / "model.onnx", precision)
        sha256, reads = sha256_of([original / "model.safetensors"]), min(most_tokens, max_tokens(original))
        _write_rest(original, temporary / SETTINGS, sha256, precision, name, {"max_tokens": reads})


def _write_rest(original: Path, file: Path, sha256: str, precision: str, name: str, settings: dict[str, Any]) -> None:
    """The tokenizer, and the settings beside it."""
    shutil.copyfile(original / "tokenizer.json", file.with_name("tokenizer.json"))
    settings = {"name": f"{name}-{precision}-{sha256[:8]}", **settings, "precision": precision, "source_sha256": sha256}
    file.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def measure_drift(original: Floats, exported: Floats) -> Drift:
    """Compare two encodings of the same texts, both (n, dim) and normalised; rows of zeros are ignored."""
    filled = original.any(axis=1)
    original, exported = original[filled], exported[filled]
    cosines = (original * exported).sum(axis=1)
    neighbours = min(10, len(original) - 1)
    overlap = 1.0
    if neighbours > 0:
        nearest = [_nearest(matrix, neighbours) for matrix in (original, exported)]
        shared = [len(set(a) & set(b)) for a, b in zip(*(rows.tolist() for rows in nearest), strict=True)]
        overlap = float(np.mean(shared)) / neighbours
    return Drift(len(original), float(cosines.mean()), float(cosines.min()), overlap)


def _nearest(matrix: Floats, neighbours: int) -> Any:
    scores = matrix @ matrix.T
    np.fill_diagonal(scores, -np.inf)
    return np.argpartition(-scores, neighbours - 1, axis=1)[:, :neighbours]


def _trace(original: Path, out_file: Path, precision: str) -> int:
    """Any other architecture, through torch's own exporter; returns the dimension."""
    if precision != "fp32":
        raise ConfigError(f"{original.name} is no BERT: its precision is fp32, not {precision}")
    torch = require("torch", "train")
    # only eager attention was checked at other shapes than that of the example
    model = open_model(original, "cpu", attn_implementation="eager")
    dimension = int(model.get_embedding_dimension())

    class Encoder(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            vectors = torch.nn.functional.normalize(self.model(features)["sentence_embedding"], dim=1)
            return vectors.reshape(-1, dimension)  # of the first token alone, the exporter loses the number

    ids = torch.ones((2, 7), dtype=torch.int64)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    shape = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        Encoder().eval(),
        (ids, mask),
        str(out_file),
        input_names=["input_ids", "attention_mask"],
        output_names=["embedding"],
        dynamic_axes={"input_ids": shape, "attention_mask": shape, "embedding": {0: "batch"}},
        opset_version=17,
        dynamo=False,  # the newer exporter needs onnxscript
    )
    return dimension


def _reference(original: Path, texts: Sequence[str]) -> Floats:
    """The original's vectors by sentence-transformers, an independent implementation."""
    prompt = read_architecture(original).prompts["passage"]
    vectors = open_model(original, "cpu").encode(
        list(texts), prompt=prompt, normalize_embeddings=True, show_progress_bar=False
    )
    matrix: Floats = np.asarray(vectors, np.float32)
    matrix[[not text.strip() for text in texts]] = 0
    return matrix
