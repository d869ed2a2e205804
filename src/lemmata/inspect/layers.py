"""Inside a transformer: attention by layer, vectors of tokens, what pooling makes of them, its parts; needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import InputError, require
from lemmata.core.types import Floats
from lemmata.encode.bert import Architecture
from lemmata.encode.onnx import CHARACTERS_PER_TOKEN, readable
from lemmata.encode.transformer import open_model

NONE = "–"
Weights = Mapping[str, Floats]  # of each part of a model, flat


class Layers(NamedTuple):
    """A sentence-transformers model that tells its attention."""

    model: Any
    transformer: Any
    max_tokens: int
    token_vectors: Floats  # (vocabulary, dim) before the first layer
    depth: int
    heads: int


class Reading(NamedTuple):
    """One text on its way through a transformer."""

    tokens: list[str]
    attention: Floats  # (layers, heads, tokens, tokens); each row sums to 1
    vectors: Floats  # (tokens, dim) after the last layer
    pooled: Floats  # (dim,) before it is normalised


def open_layers(folder: Path) -> Layers:
    """The model of a sentence-transformers folder on the CPU; InputError where it has no attention to look at."""
    require("torch", "train")
    model = open_model(folder, "cpu", attn_implementation="eager")  # others do not return it
    model.eval()
    transformer = getattr(model[0], "auto_model", None)
    heads = getattr(getattr(transformer, "config", None), "num_attention_heads", None)
    if transformer is None or not heads:
        raise InputError("has no layers with attention", file=str(folder))
    return Layers(
        model,
        transformer,
        int(model.max_seq_length or 512),
        transformer.get_input_embeddings().weight.detach().float().numpy(),
        int(transformer.config.num_hidden_layers),
        int(heads),
    )


def read_text(layers: Layers, text: str) -> Reading:
    """Read one text; what is longer than the model reads is cut off."""
    torch = require("torch", "train")
    tokenizer = layers.model.tokenizer
    short = readable(text, layers.max_tokens * CHARACTERS_PER_TOKEN)
    inputs = tokenizer(short, truncation=True, max_length=layers.max_tokens, return_tensors="pt")
    with torch.no_grad():
        outputs = layers.transformer(**inputs, output_attentions=True)
        features = {"token_embeddings": outputs.last_hidden_state, "attention_mask": inputs["attention_mask"]}
        pooling = next((part for part in layers.model if type(part).__name__ == "Pooling"), None)
        pooled = pooling(features)["sentence_embedding"] if pooling else outputs.last_hidden_state.mean(dim=1)
    return Reading(
        tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist()),
        torch.cat(outputs.attentions).float().numpy(),
        outputs.last_hidden_state[0].float().numpy(),
        pooled[0].float().numpy(),
    )


# ---------------------------------------------------------------- summaries


@dataclass(frozen=True, slots=True)
class AttentionByLayer:
    """Where the attention of each layer goes: means over texts, heads and the tokens that look."""

    first: Floats  # (layers,) share to the first token ([CLS])
    last: Floats  # (layers,) share to the last token ([SEP])
    own: Floats  # (layers,) share of a token to itself
    beside: Floats  # (layers,) share to the tokens directly before and after
    entropy: Floats  # (layers,) divided by that of equal attention to all tokens: 0 to 1


class Pooled(NamedTuple):
    """Lengths of the vectors of tokens, and of what pooling makes of them, by text."""

    token_norms: npt.NDArray[np.float64]  # (texts,) mean over the tokens
    pooled_norms: npt.NDArray[np.float64]  # (texts,)

    @property
    def agreement(self) -> float:
        """‖mean of the vectors‖ / mean of their lengths: 1 where all tokens of a text point the same way."""
        return float((self.pooled_norms / np.maximum(self.token_norms, 1e-12)).mean())


def summarise_readings(
    read: Callable[[str], Reading], texts: Sequence[str], progress: Callable[[int], None]
) -> tuple[AttentionByLayer, Pooled]:
    """Read texts (at least one) one after another, and keep only the sums."""
    sums: list[npt.NDArray[np.float64]] = []
    norms: list[tuple[float, float]] = []
    for done, text in enumerate(texts, 1):
        reading = read(text)
        sums.append(_attention_sums(reading.attention))
        norms.append((float(np.linalg.norm(reading.vectors, axis=1).mean()), float(np.linalg.norm(reading.pooled))))
        progress(done)
    means = np.mean(sums, axis=0).astype(np.float32)  # (5, layers)
    return AttentionByLayer(*means), Pooled(*np.array(norms).T)


def _attention_sums(attention: Floats) -> npt.NDArray[np.float64]:
    """The five measures of AttentionByLayer for one text (5, layers)."""
    count = attention.shape[-1]
    mean = attention.mean(axis=1, dtype=np.float64)  # (layers, tokens, tokens)
    places = np.arange(count)
    beside = np.zeros(len(mean))
    if count > 1:
        above, below = mean[:, places[:-1], places[1:]], mean[:, places[1:], places[:-1]]
        beside = (above.sum(axis=1) + below.sum(axis=1)) / count
    entropies = -(attention * np.log(np.maximum(attention, 1e-12))).sum(axis=-1, dtype=np.float64)
    return np.array(
        [
            mean[:, :, 0].mean(axis=1),
            mean[:, :, -1].mean(axis=1),
            mean[:, places, places].mean(axis=1),
            beside,
            entropies.mean(axis=(1, 2)) / (np.log(count) if count > 1 else 1.0),
        ]
    )


def pool_static(vectors: Floats, numbers: Sequence[Sequence[int]]) -> Pooled:
    """The same lengths for a static encoder: `vectors` (tokens, dim), and the numbers of the tokens of each text."""
    norms = np.linalg.norm(vectors, axis=1)
    texts = [np.asarray(row, np.int64) for row in numbers if len(row)]
    return Pooled(
        np.array([norms[row].mean() for row in texts], np.float64),
        np.array([np.linalg.norm(vectors[row].mean(axis=0)) for row in texts], np.float64),
    )


# ---------------------------------------------------------------- parts


def describe_modules(layers: Layers, stored: Architecture) -> dict[str, str]:
    """What a model consists of, by component; a dash where it has no such part."""
    transformer, blocks = layers.transformer, _blocks(layers)
    embeddings = getattr(transformer, "embeddings", transformer.get_input_embeddings())
    first, last = dict(blocks[0].named_modules()), dict(blocks[-1].named_modules())
    top = dict(transformer.named_children())
    rotary = any("rotary" in type(module).__name__.lower() for module in transformer.modules())
    in_attention = {name: module for name, module in first.items() if "att" in name.lower()}
    fused = any(module.out_features == 3 * module.in_features for module in _linear(in_attention).values())
    outside = {name: module for name, module in first.items() if name not in in_attention}
    vocabulary, dimension = transformer.get_input_embeddings().weight.shape
    config = transformer.config
    pooling = [*stored.pooling, *["normalised"] * ("Normalize" in stored.modules)]
    return {
        "model": type(transformer).__name__,
        "embeddings": type(embeddings).__name__,
        "token embeddings": f"{vocabulary:,} × {dimension:,}",
        "position embeddings": "rotary" if rotary else _table(embeddings, "position"),
        "segment embeddings": _table(embeddings, "token_type"),
        "norm of embeddings": _norm(dict(embeddings.named_modules())),
        "dropout of embeddings": _dropout(embeddings),
        "layers": str(layers.depth),
        "attention": f"{layers.heads} heads, {'one matrix for' if fused else 'separate'} Q, K, V",
        "attention norm, first layer": _norm(in_attention),
        "attention norm, last layer": _norm({name: part for name, part in last.items() if "att" in name.lower()}),
        "MLP": ", ".join(f"{part.in_features:,} → {part.out_features:,}" for part in _linear(outside).values()),
        "MLP norm": _norm(outside),
        "dropout in layers": _dropout(blocks[0]),
        "activation": str(getattr(config, "hidden_act", None) or getattr(config, "hidden_activation", NONE)),
        "final norm": _norm({name: part for name, part in top.items() if "norm" in name.lower()}),
        "pooler": type(transformer.pooler).__name__ if getattr(transformer, "pooler", None) is not None else NONE,
        "pooling": ", ".join(pooling) or NONE,
        "reads": f"{layers.max_tokens:,} tokens",
        "parameters": f"{sum(part.numel() for part in transformer.parameters()):,}",
    }


def _blocks(layers: Layers) -> Any:
    """The list of the model's layers."""
    lists = (part for part in layers.transformer.modules() if type(part).__name__ == "ModuleList")
    return next(part for part in lists if len(part) == layers.depth)


def _linear(modules: Mapping[str, Any]) -> dict[str, Any]:
    return {name: module for name, module in modules.items() if hasattr(module, "in_features")}


def _table(embeddings: Any, name: str) -> str:
    """The number of rows of an embedding whose name has this word."""
    sizes = [part.num_embeddings for key, part in embeddings.named_modules()
             if name in key and hasattr(part, "num_embeddings")]  # fmt: skip
    return f"{sizes[0]:,}" if sizes else NONE


def _norm(modules: Mapping[str, Any]) -> str:
    """The class of the norm among some modules."""
    return next((type(part).__name__ for name, part in modules.items() if "norm" in name.lower()), NONE)


def _dropout(module: Any) -> str:
    """The rates of dropout in a module; where dropout is none at all, it is called identity."""
    rates = {f"{part.p:g}" for part in module.modules() if type(part).__name__ == "Dropout"}
    identities = {"identity" for name, part in module.named_modules()
                  if "drop" in name and type(part).__name__ == "Identity"}  # fmt: skip
    return ", ".join([*sorted(rates), *identities]) or NONE


# ---------------------------------------------------------------- what training moved


def part_weights(layers: Layers) -> Weights:
    """The weights of the embeddings, and of attention and MLP of each layer."""
    blocks = _blocks(layers)
    parts: dict[str, list[Floats]] = {"embeddings": [layers.token_vectors.ravel()]}
    for number, block in enumerate(blocks, 1):
        for name, weight in block.named_parameters():
            kind = "attention" if "att" in name.lower() else "MLP"
            parts.setdefault(f"{kind} {number}", []).append(weight.detach().float().numpy().ravel())
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def moved(before: Weights, after: Weights) -> dict[str, float]:
    """‖W′ − W‖ / ‖W‖ of each part; empty for models of another shape."""
    if {name: len(part) for name, part in before.items()} != {name: len(part) for name, part in after.items()}:
        return {}
    return {
        name: float(np.linalg.norm(after[name] - weights)) / max(float(np.linalg.norm(weights)), 1e-12)
        for name, weights in before.items()
    }
