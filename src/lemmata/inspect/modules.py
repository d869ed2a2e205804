"""The parts of transformers side by side, and how far training moved the weights of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lemmata.core.types import Floats
from lemmata.encode.bert import Architecture
from lemmata.inspect.layers import Layers

NONE = "–"
Weights = Mapping[str, Floats]  # of each part, flat


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
