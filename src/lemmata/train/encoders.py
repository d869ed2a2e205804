"""Models of sentence-transformers: loaded, changed before training, averaged and saved."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lemmata.core.errors import ConfigError, require
from lemmata.encode.static import is_static
from lemmata.encode.transformer import open_model
from lemmata.train.ranks import own_device, processes

SMALLEST_RANK = 8  # of adapters


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the messages and progress bars of transformers; progress is reported by lemmata."""
    logging = require("transformers.utils.logging", "train")
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def load_model(folder: Path, device: str = "") -> Any:
    """A sentence-transformers model or a static encoder on a device, by default the fastest one of this process."""
    device = device or fastest_device()
    if is_static(folder):
        from lemmata.train.bags import StaticModel

        return StaticModel(folder, device)
    with quiet():
        return open_model(folder, device)


def transformer_of(model: Any) -> Any:
    """The transformer of a model; None for a static encoder."""
    return model[0].auto_model if hasattr(model, "__getitem__") else None


def fastest_device() -> str:
    """The GPU of this process, or what there is instead."""
    torch = require("torch", "train")
    device = own_device()
    shares = processes() > 1  # gloo, which they would use, reads no memory of mps
    return "mps" if device == "cpu" and not shares and torch.backends.mps.is_available() else device


def set_prompts(model: Any, prompts: Mapping[str, str]) -> None:
    """Set the text before queries and passages; without any, the base keeps its own."""
    unknown = prompts.keys() - {"query", "passage"}
    if unknown:
        raise ConfigError(f"prompts are for 'query' and 'passage', not {min(unknown)!r}")
    if prompts:
        model.prompts = {"query": prompts.get("query", ""), "document": prompts.get("passage", "")}


def set_pooling(model: Any, pooling: str) -> None:
    """Pool token vectors as `pooling` says: mean, cls, or cls+mean, the two one after the other."""
    pools = {name: module for name, module in model.named_children() if hasattr(module, "pooling_mode")}
    if not pools:
        raise ConfigError(f"pooling = {pooling!r} needs a base that pools the vectors of its tokens; set pooling = ''")
    for name, module in pools.items():
        modes = tuple(pooling.split("+"))
        setattr(model, name, type(module)(module.embedding_dimension, modes, module.include_prompt))


def freeze(model: Any, layers: int) -> None:
    """Exclude the lowest layers and the token embeddings from training."""
    transformer = transformer_of(model)
    stack = getattr(getattr(transformer, "encoder", transformer), "layer", None)
    if stack is None or not hasattr(transformer, "embeddings"):
        raise ConfigError("freeze needs a base with the layers of BERT, and this one has others; set freeze = 0")
    if layers >= len(stack):
        raise ConfigError(f"freeze = {layers} leaves nothing to train: the base has {len(stack)} layers")
    for part in (transformer.embeddings, *stack[:layers]):
        part.requires_grad_(False)


def add_adapters(model: Any, kind: str) -> None:
    """Train low-rank adapters of all linear layers instead of the weights.

    `lora` (Hu et al. 2021, arXiv:2106.09685) or `dora`, which trains the length of each column of the weights apart
    (Liu et al. 2024, arXiv:2402.09353). The rank is a sixteenth of the model's width, at least 8.
    """
    peft = require("peft", "train")
    transformer = transformer_of(model)
    if transformer is None:
        raise ConfigError("a static encoder has no layers for adapters; set adapters = ''")
    rank = max(SMALLEST_RANK, int(getattr(transformer.config, "hidden_size", 768)) // 16)
    config = peft.LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", use_dora=kind == "dora"
    )
    _set_transformer(model, peft.get_peft_model(transformer, config))


def merge_adapters(model: Any) -> None:
    """Add the adapters to the weights; a model without adapters stays as it is."""
    transformer = transformer_of(model)
    if hasattr(transformer, "merge_and_unload"):
        _set_transformer(model, transformer.merge_and_unload())


def _set_transformer(model: Any, transformer: Any) -> None:
    """From sentence-transformers 6 on, `auto_model` is read-only."""
    module = model[0]
    setattr(module, "model" if "model" in dict(module.named_children()) else "auto_model", transformer)


def save_model(model: Any, out: Path) -> None:
    """Write a folder that plain `SentenceTransformer(out)` loads; adapters are merged into the weights.

    A static encoder is written as one.
    """
    if transformer_of(model) is None:
        model.save(out)
        return
    merge_adapters(model)
    with quiet():
        model.save_pretrained(str(out), create_model_card=False)


def state_of(model: Any) -> dict[str, Any]:
    """All weights on the CPU; copies, so that tied weights do not share memory."""
    return {name: value.detach().cpu().clone().contiguous() for name, value in model.state_dict().items()}


def between(old: Mapping[str, Any], new: Mapping[str, Any], share: float) -> dict[str, Any]:
    """Weights between two models: (1 - share) · old + share · new."""
    return {
        name: value if not value.is_floating_point() else (1 - share) * old[name] + share * value
        for name, value in new.items()
    }
