"""Domain-adaptive pretraining: an encoder reads the corpus and learns to predict masked words.

The data of a step follow from the seed and the step alone (windows.py), so a killed run resumes exactly. A new
prediction head is trained alone first, since its noise would damage the encoder. Low perplexity does not mean better
retrieval: that is decided by a fine-tuning afterwards, not here.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lemmata.core.errors import ConfigError, InputError, require
from lemmata.core.files import writing
from lemmata.core.types import Integers, Progress
from lemmata.encode.bert import read_architecture
from lemmata.encode.load import AUTO
from lemmata.train.encoders import fastest_device, load_model, quiet
from lemmata.train.loop import WEIGHT_DECAY, Group, Training, precision_for, train, warm_up_and_decay
from lemmata.train.ranks import barrier, is_first_process, make_once, processes, rank
from lemmata.train.validate import autocast
from lemmata.train.windows import UNMASKED, Windows, collate, cut_windows, hold_out, read_masking, texts_key, tokenise

WINDOW = 1024  # tokens, the special ones included; less where the model reads less
OVERLAP = 126  # tokens that a window shares with the next, at most half of it
WARM_UP = 0.05  # share of the encoder's steps
HEAD_STEPS = 0.1  # share of steps in which a new head is trained alone
HEAD_RATE = 5e-4  # of a new head
HELD_OUT = 0.02  # share of documents on which perplexity is measured
SEED = 0
MEASURED = 2_000  # held-out windows that perplexity is measured on, at most
AT_ONCE = {"cuda": 32_768, "cpu": 4_096}  # tokens whose activations are kept


@dataclass(frozen=True, slots=True)
class PretrainOptions:
    """How an encoder is pretrained; in `lemmata.toml` a table [pretrain.NAME]."""

    SMALLEST: ClassVar = {"batch": 1}

    base: str = AUTO  # the model to start from; auto: packaged, by language
    sections: list[str] = field(default_factory=list)  # words of headings to read; none: all but lists and thanks
    epochs: float = 1.0  # passes over the text
    rate: float = 2e-5  # learning rate
    batch: int = 32  # windows
    judge: str = ""  # a fine-tuning, [finetune.NAME]: the model is kept if it is not worse after it


def pretrain(
    base: Path, texts: Iterable[tuple[str, str]], out: Path, options: PretrainOptions, *, work: Path, progress: Progress
) -> dict[str, Any]:
    """Train `base`, a sentence-transformers folder, on (document, text) pairs, and write such a folder to `out`.

    Consecutive texts of one document are joined. `work` keeps tokens and checkpoints: the same call after a kill
    resumes from the last checkpoint. Started by torchrun, all processes share the work.

    The report has the held-out perplexity `before`, with the `head` trained alone, and `after`; where the head is new,
    the first says little. None where nothing could be held out.
    """
    torch = require("torch", "train")
    began = time.monotonic()
    for name in ("epochs", "rate"):
        if getattr(options, name) <= 0:
            raise ConfigError(f"{name} = {getattr(options, name)} must be more than 0")
    read_architecture(base)
    if iter(texts) is texts:
        texts = list(texts)  # they are read more than once
    model, tokenizer, new_head = _load(base, SEED)
    masking = read_masking(tokenizer)
    longest = min(WINDOW, _limit(model, tokenizer))
    length = longest - len(masking.before) - len(masking.after)
    overlap = min(OVERLAP, length // 2)

    key = texts_key(tokenizer, texts)
    folder = work / f"tokens-{key[:16]}"
    make_once((folder / "manifest.json").is_file, lambda: tokenise(tokenizer, texts, folder, progress))
    tokens = tokenise(tokenizer, texts, folder, progress)
    places = cut_windows(tokens.starts, length, overlap)
    held_out = hold_out(tokens.documents, HELD_OUT, SEED)
    document_of = np.searchsorted(tokens.starts, places[:, 0], side="right") - 1
    is_held_out = held_out[document_of] if len(places) else np.zeros(0, bool)
    learned = places[~is_held_out]
    if not len(learned):
        raise InputError("there is no text to pretrain on")

    total = max(1, round(options.epochs * len(learned)))
    share = -(-options.batch // processes())  # windows of this process
    most = max(1, AT_ONCE.get(model.device.type, AT_ONCE["cpu"]) // longest)
    at_once = max(size for size in range(1, min(share, most) + 1) if share % size == 0)
    steps = -(-total // (share * processes()))
    head_steps = min(round(HEAD_STEPS * steps), steps - 1) if new_head else 0
    windows = Windows(tokens.flat, learned, masking, SEED)
    measured_windows = Windows(tokens.flat, places[is_held_out], masking, SEED)
    count = int(is_held_out.sum())
    measured = np.unique(np.linspace(0, count - 1, min(count, MEASURED)).astype(np.int64))
    precision = precision_for(model.device)

    def batches(step: int) -> list[dict[str, Any]]:
        first = (step * processes() + rank()) * share
        last = first + share if processes() > 1 else min(first + share, total)  # processes have as many each
        numbers = range(first, last)
        return [
            collate([windows[number] for number in numbers[start : start + at_once]], masking.pad, longest)
            for start in range(0, len(numbers), at_once)
        ]

    def loss(batch: Mapping[str, Any]) -> Any:
        with autocast(model.device.type, precision):
            logits, labels = masked_logits(model, batch)
            return torch.nn.functional.cross_entropy(logits.float(), labels, reduction="sum") / max(1, len(labels))

    def evaluate(step: int) -> dict[str, float]:
        progress("measuring perplexity", step, steps)
        value = perplexity(model, measured_windows, measured, masking.pad, longest, most)
        return {} if value is None else {"perplexity": value}

    training = Training(
        model,
        _groups(model, options.rate, steps, head_steps, new_head=new_head),
        batches,
        loss,
        steps,
        evaluate,
        {0, head_steps, steps},
        seed=SEED,
        name="pretraining",
    )
    with quiet():
        outcome = train(training, work / f"run-{_run_key(base, key, options)}", progress)
        if is_first_process():
            _write(base, model, out)
        barrier()
    stages = {"before": 0, **({"head": head_steps} if head_steps else {}), "after": steps}
    return {
        "documents": len(set(tokens.documents)),
        "held_out": len({name for name, held in zip(tokens.documents, held_out, strict=True) if held}),
        "tokens": int(tokens.starts[-1]),
        "windows": {"trained": len(learned), "held_out": count, "measured": len(measured)},
        "window": longest,
        "overlap": overlap,
        "masked": "words" if masking.continues is not None else "tokens",
        "head": "new" if new_head else "of the base",
        "steps": steps,
        "head_steps": head_steps,
        "resumed_from": outcome.resumed_from,
        "perplexity": {name: outcome.measured(step).get("perplexity") for name, step in stages.items()},
        "losses": [(entry["step"], entry["loss"]) for entry in outcome.history if "loss" in entry],
        "precision": precision,
        "device": model.device.type,
        "processes": processes(),
        "seconds": round(time.monotonic() - began, 1),
    }


# ---------------------------------------------------------------- the model


def _load(base: Path, seed: int) -> tuple[Any, Any, bool]:
    """The model with a head for masked words, its tokenizer, and whether that head is new."""
    torch = require("torch", "train")
    transformers = require("transformers", "train")
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(seed)  # for a new head
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(base))
            model, loading = transformers.AutoModelForMaskedLM.from_pretrained(
                str(base), output_loading_info=True, use_safetensors=True
            )
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            cause = str(error).strip().split("\n")[0]
            raise InputError(f"cannot be loaded as a masked language model ({cause})", file=str(base)) from error
    if not tokenizer.is_fast:
        raise InputError("has no tokenizer.json", file=str(base))
    prefix = f"{model.base_model_prefix}."
    missing = sorted(name for name in loading["missing_keys"] if name.startswith(prefix))
    if missing:
        raise InputError(f"lacks weights of the encoder: {', '.join(missing[:3])}", file=str(base))
    if model.get_output_embeddings().weight is not model.get_input_embeddings().weight:
        model.config.tie_word_embeddings = True
        model.tie_weights()
    return model.float().to(fastest_device()), tokenizer, bool(loading["missing_keys"])


def _limit(model: Any, tokenizer: Any) -> int:
    """Tokens that the model can read, special ones included."""
    positions = int(getattr(model.config, "max_position_embeddings", 0) or 2**20)
    if model.config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        positions -= 2  # their positions start after that of the padding token
    return min(positions, int(tokenizer.model_max_length))


def masked_logits(model: Any, batch: Mapping[str, Any]) -> tuple[Any, Any]:
    """Logits (m, ids) and labels (m,) of the masked tokens alone: all others would cost as much as the encoder."""
    masked = batch["labels"] != UNMASKED

    def pick(_module: Any, _arguments: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[masked][None]
        return output

    hook = model.base_model.register_forward_hook(pick)
    try:
        output = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    finally:
        hook.remove()
    return output.logits[0], batch["labels"][masked]


def perplexity(model: Any, windows: Windows, chosen: Integers, pad: int, longest: int, size: int) -> float | None:
    """exp of the mean loss over masked tokens, always with the same masks; None without any."""
    torch = require("torch", "train")
    was_training = model.training
    model.eval()
    loss, tokens = 0.0, 0
    with torch.no_grad():
        for start in range(0, len(chosen), size):
            batch = collate([windows.masked(0, int(n)) for n in chosen[start : start + size]], pad, longest)
            logits, labels = masked_logits(model, {name: values.to(model.device) for name, values in batch.items()})
            loss += float(torch.nn.functional.cross_entropy(logits.float(), labels, reduction="sum"))
            tokens += len(labels)
    model.train(was_training)
    return math.exp(min(loss / tokens, 700.0)) if tokens else None


def rate_factor(step: int, steps: int, idle: int = 0) -> float:
    """Share of the rate at a step: 0 for `idle` steps, then linear up and down; no step is lost at rate 0."""
    step, steps = step - idle, steps - idle
    return warm_up_and_decay(step, steps, math.ceil(WARM_UP * steps)) if step >= 0 else 0.0


def _groups(model: Any, rate: float, steps: int, head_steps: int, *, new_head: bool) -> list[Group]:
    """The encoder waits at rate 0 while a new head is trained; with gradients, so that one optimizer serves all."""
    encoder = {id(parameter) for parameter in model.base_model.parameters()}
    parts: dict[tuple[bool, bool], list[Any]] = {}
    for parameter in model.parameters():
        parts.setdefault((id(parameter) in encoder, parameter.ndim > 1), []).append(parameter)

    def rate_at(step: int, full: float, idle: int) -> float:
        return full * rate_factor(step, steps, idle)

    groups = []
    for (in_encoder, is_matrix), parameters in parts.items():
        full = HEAD_RATE if new_head and not in_encoder else rate
        schedule = partial(rate_at, full=full, idle=head_steps if in_encoder else 0)
        groups.append(Group(parameters, schedule, WEIGHT_DECAY if is_matrix else 0.0))
    return groups


def _write(base: Path, model: Any, out: Path) -> None:
    """The base with its encoder's weights replaced: pooling, prompts and all else stay."""
    whole = load_model(base, "cpu")
    encoder = whole[0].auto_model.float()
    state = {name: values.detach().cpu() for name, values in model.base_model.state_dict().items()}
    unknown = encoder.load_state_dict(state, strict=False).unexpected_keys
    if unknown:
        raise InputError(f"has no place for the weights {', '.join(unknown[:3])}", file=str(base))
    with writing(out) as folder:
        whole.save(str(folder), create_model_card=False)


def _run_key(base: Path, tokens: str, options: PretrainOptions) -> str:
    """Of all that decides the result, so that the checkpoints of another run are never used."""
    settings = {name: value for name, value in asdict(options).items() if name not in ("base", "sections", "judge")}
    digest = hashlib.blake2b(json.dumps([tokens, settings]).encode(), digest_size=8)
    for file in sorted(path for path in base.iterdir() if path.suffix in (".safetensors", ".bin", ".json")):
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
