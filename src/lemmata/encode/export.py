"""From a sentence-transformers folder to a small ONNX folder that searches without torch, and the proof that
little was lost."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.encode.bert import Recipe, build_bert, is_bert, quantize, read_recipe
from lemmata.encode.onnx import OnnxEncoder
from lemmata.encode.transformer import open_model
from lemmata.errors import ConfigError, InputError, require
from lemmata.types import Encoder, Floats

__all__ = ["Drift", "Export", "choose", "export_encoder", "measure_drift", "precisions"]

_LEAST_COSINE = 0.98  # mean; below it a smaller file is another model


class Drift(NamedTuple):
    """How far an export moved from its fp32 original, on real text."""

    texts: int
    mean_cosine: float
    least_cosine: float
    overlap: float  # mean share of the ten nearest other texts that stayed among the ten nearest


class Export(NamedTuple):
    """One precision of a model, beside others."""

    precision: str
    folder: Path
    bytes: int  # of the whole folder
    mean_cosine: float  # to the fp32 original, as in Drift
    least_cosine: float
    overlap: float
    score: float | None = None  # None where nothing was asked
    share: float | None = None  # of the score of the fp32 export


def export_encoder(
    source: Path | str, out: Path, precision: str, *, texts: Sequence[str], name: str = "", force: bool = False
) -> Drift:
    """Write `out`/{model.onnx, tokenizer.json, encoder.json} and say how far it drifted on `texts`.

    `source` is a sentence-transformers folder. Nothing is written where the mean cosine falls below 0.98,
    unless `force`; an encoder that lies at `out` already is replaced, anything else there is refused.
    """
    source = Path(source)
    recipe = _checked(source, texts)
    if out.exists() and not (out / "encoder.json").is_file() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("exists and is no exported encoder, so it is not replaced", file=str(out))
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        folder = Path(temporary) / "encoder"
        _write(source, folder, precision, recipe, name or source.name)
        drift = measure_drift(
            _reference(source, recipe, Path(temporary) / "fp32", texts), OnnxEncoder(folder).encode(texts)
        )
        if drift.mean_cosine < _LEAST_COSINE and not force:
            raise InputError(
                f"the {precision} export drifts too far: mean cosine {drift.mean_cosine:.4f} on {drift.texts} texts,"
                f" and {_LEAST_COSINE} is the least; choose another precision or force it",
                file=str(source),
            )
        if out.exists():
            out.rename(Path(temporary) / "replaced")
        folder.rename(out)
    return drift


def precisions(
    source: Path | str,
    out: Path,
    texts: Sequence[str],
    score: Callable[[Encoder], float] | None = None,
    *,
    name: str = "",
) -> list[Export]:
    """Export a model to `out`/PRECISION in every precision worth shipping, and measure each; fp32 comes first.

    `texts` show the drift, `score` what the drift costs (higher is better, and the fp32 export must get more than
    0). Nothing is refused for its drift: `choose` decides. What is no BERT of ours has fp32 and int8 only.
    """
    source = Path(source)
    recipe = _checked(source, texts)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("exists and is not empty", file=str(out))
    kinds = ("fp32", "fp16", "int8", "int8-blocks") if is_bert(source) else ("fp32", "int8")
    out.parent.mkdir(parents=True, exist_ok=True)
    table: list[Export] = []
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        folder = Path(temporary) / "exports"
        folder.mkdir()
        original = _reference(source, recipe, Path(temporary) / "original", texts)
        for precision in kinds:
            _write(source, folder / precision, precision, recipe, name or source.name)
            encoder = OnnxEncoder(folder / precision)
            drift = measure_drift(original, encoder.encode(texts))
            size = sum(file.stat().st_size for file in (folder / precision).iterdir())
            found = None if score is None else float(score(encoder))
            whole = found if precision == "fp32" else table[0].score
            if whole is not None and not whole > 0:
                raise InputError(
                    f"the fp32 export scores {whole}, and nothing can be a share of that", file=str(source)
                )
            share = None if found is None or whole is None else found / whole
            table.append(Export(precision, out / precision, size, *drift[1:], found, share))
        if out.exists():
            out.rmdir()  # it is empty
        folder.rename(out)
    return table


def choose(table: Sequence[Export], least: float = 0.99) -> Export:
    """The smallest export that keeps `least` of the fp32 score; where none was scored, of the nearest texts."""
    good = [one for one in table if (one.overlap if one.share is None else one.share) >= least]
    if not good:
        raise InputError(f"no export keeps {least:.0%} of what the original finds")
    return min(good, key=lambda one: one.bytes)


def measure_drift(original: Floats, exported: Floats) -> Drift:
    """Compare two encodings of the same texts, both (n, dim) and normalised; rows of zeros are left out."""
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


def _checked(source: Path, texts: Sequence[str]) -> Recipe:
    if not any(text.strip() for text in texts):
        raise InputError("an export is checked on real text, and no text was given")
    recipe = read_recipe(source)
    if not (source / "tokenizer.json").is_file():
        raise InputError("has no tokenizer.json", file=str(source))
    return recipe


def _nearest(matrix: Floats, neighbours: int) -> Any:
    scores = matrix @ matrix.T
    np.fill_diagonal(scores, -np.inf)
    return np.argpartition(-scores, neighbours - 1, axis=1)[:, :neighbours]


def _write(source: Path, folder: Path, precision: str, recipe: Recipe, name: str) -> None:
    folder.mkdir()
    build = build_bert if is_bert(source) else _trace
    dimension = build(source, folder / "model.onnx", precision)
    shutil.copyfile(source / "tokenizer.json", folder / "tokenizer.json")
    sha256 = _sha256(source)
    settings = {
        "name": f"{name}-{precision}-{sha256[:8]}",
        "dimension": dimension,
        "max_tokens": recipe.max_tokens,
        "pooling": list(recipe.pooling),
        "prompts": dict(recipe.prompts),
        "precision": precision,
        "source_sha256": sha256,
    }
    (folder / "encoder.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _sha256(source: Path) -> str:
    weights = sorted(source.glob("*.safetensors"))
    if not weights:
        raise InputError("has no weights in safetensors", file=str(source))
    digest = hashlib.sha256()
    for file in weights:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _trace(source: Path, out_file: Path, precision: str) -> int:
    """Any other architecture, through torch's own exporter; returns the dimension."""
    if precision not in ("fp32", "int8"):
        raise ConfigError(f"{source.name} is no BERT: its precision is fp32 or int8, not {precision}")
    torch = require("torch", "train")
    # eager attention is what was checked at other shapes than the example's; the fused one was not tried
    model = open_model(source, "cpu", model_kwargs={"attn_implementation": "eager"})

    class Encoder(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            return torch.nn.functional.normalize(self.model(features)["sentence_embedding"], dim=1)

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
    if precision == "int8":
        quantize(out_file, out_file)
    return int(model.get_embedding_dimension())


def _reference(source: Path, recipe: Recipe, scratch: Path, texts: Sequence[str]) -> Floats:
    """The original's vectors: by sentence-transformers, an independent witness, where it is installed."""
    if importlib.util.find_spec("sentence_transformers") is None:
        _write(source, scratch, "fp32", recipe, "original")
        return OnnxEncoder(scratch).encode(texts)
    model = open_model(source, "cpu")
    prompt = recipe.prompts["passage"]
    vectors = model.encode(list(texts), prompt=prompt, normalize_embeddings=True, show_progress_bar=False)
    matrix: Floats = np.asarray(vectors, np.float32)
    matrix[[not text.strip() for text in texts]] = 0
    return matrix
