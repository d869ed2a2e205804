"""Models of sentence-transformers: loaded, changed before training, averaged and saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lemmata.encode.transformer import open_model
from lemmata.errors import ConfigError, require
from lemmata.train.checkpoints import quiet

__all__ = [
    "add_adapters",
    "between",
    "freeze",
    "load_model",
    "merge_adapters",
    "save_model",
    "set_dropout",
    "set_pooling",
    "set_prompts",
    "state_of",
]


def load_model(folder: Path, device: str = "") -> Any:
    """A sentence-transformers model on a device, the best one if none is named."""
    torch = require("torch", "train")
    with quiet():
        return open_model(folder, device or _best_device(torch))


def _best_device(torch: Any) -> str:
    if torch.cuda.is_available():
        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def set_pooling(model: Any, pooling: str) -> None:
    modules = require("sentence_transformers.sentence_transformer.modules", "train")
    places = [place for place, module in enumerate(model) if isinstance(module, modules.Pooling)]
    if not places:
        raise ConfigError("this base has no pooling that could be changed")
    old = model[places[0]]
    model[places[0]] = modules.Pooling(old.embedding_dimension, tuple(pooling.split("+")))


def set_prompts(model: Any, prompts: Mapping[str, str]) -> None:
    """What the model is to read before a query or a passage; without any, what the base has stays."""
    unknown = prompts.keys() - {"query", "passage"}
    if unknown:
        raise ConfigError(f"prompts are for 'query' and 'passage', not {min(unknown)!r}")
    if prompts:
        model.prompts = {"query": prompts.get("query", ""), "document": prompts.get("passage", "")}


def set_dropout(model: Any, share: float) -> None:
    """How much is dropped while training."""
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = share


def freeze(model: Any, layers: int) -> None:
    inside = model[0].auto_model
    stack = getattr(getattr(inside, "encoder", inside), "layer", None)
    if stack is None or not hasattr(inside, "embeddings"):
        raise ConfigError("the layers of this base can not be frozen: it is built otherwise than BERT")
    if layers >= len(stack):
        raise ConfigError(f"freeze = {layers} leaves nothing to train: the base has {len(stack)} layers")
    for part in (inside.embeddings, *stack[:layers]):
        part.requires_grad_(False)


def add_adapters(model: Any, rank: int) -> None:
    peft = require("peft", "train")
    config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear")
    _exchange(model, peft.get_peft_model(model[0].auto_model, config))


def _exchange(model: Any, inside: Any) -> None:
    """Put another transformer into the model; from sentence-transformers 6 on, `auto_model` can only be read."""
    holder = model[0]
    setattr(holder, "model" if "model" in dict(holder.named_children()) else "auto_model", inside)


def merge_adapters(model: Any) -> None:
    inside = model[0].auto_model
    if hasattr(inside, "merge_and_unload"):
        _exchange(model, inside.merge_and_unload())


def save_model(model: Any, out: Path) -> None:
    """A folder that plain `SentenceTransformer(out)` loads; adapters are merged into the weights."""
    merge_adapters(model)
    with quiet():
        model.save_pretrained(str(out), create_model_card=False)


def state_of(model: Any) -> dict[str, Any]:
    """All weights, on the processor; those that share memory each on their own."""
    return {name: value.detach().cpu().clone().contiguous() for name, value in model.state_dict().items()}


def between(old: Mapping[str, Any], new: Mapping[str, Any], share: float) -> dict[str, Any]:
    """Weights between two models: of the new ones, so large a share."""
    return {
        name: value if not value.is_floating_point() else (1 - share) * old[name] + share * value
        for name, value in new.items()
    }
