"""Domain-adaptive pretraining: an encoder reads the corpus and learns to fill in masked words.

The trainer of transformers keeps its optimiser, checkpoints, devices and processes. What is ours: what is shown follows
from the seed and the step alone (windows.py), so that a run that was killed goes on exactly; and a head that is new
learns alone first, because its noise would wreck the encoder.
Whether the result retrieves better is not known here: low perplexity does not say so.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lemmata.encode.bert import read_architecture
from lemmata.encode.load import DEFAULT
from lemmata.errors import ConfigError, InputError, require
from lemmata.files import replace_folder
from lemmata.train.checkpoints import last_checkpoint, quiet, remembered
from lemmata.train.vocabulary import add_rows, choose_commands, count_commands, with_commands, write_tokenizer
from lemmata.train.windows import (
    UNMASKED,
    Masking,
    Windows,
    collate,
    cut_windows,
    hold_out,
    read_masking,
    texts_key,
    tokenise,
)
from lemmata.types import Integers, Progress

__all__ = ["PretrainOptions", "pretrain"]

AT_ONCE = {"cuda": 32_768, "cpu": 4_096}  # tokens whose activations are kept; a batch is made of several such parts
MEASURED = 2_000  # held-out windows that perplexity is measured on, at most
POINTS = 200  # of the loss curve, about


@dataclass(frozen=True, slots=True)
class PretrainOptions:
    """How an encoder is pretrained; in `lemmata.toml` a table [pretrain.NAME]."""

    CHOICES: ClassVar = {"precision": ("auto", "fp32", "bf16")}
    SMALLEST: ClassVar = {
        "window": 8,
        "overlap": 0,
        "new_tokens": 0,
        "batch": 1,
        "warmup": 0.0,
        "weight_decay": 0.0,
        "held_out": 0.0,
        "head_warmup": 0.0,
        "seed": 0,
        "save_every": 1,
    }

    base: str = DEFAULT
    sections: list[str] = field(default_factory=list)  # words of headings to read; none: all but lists and thanks
    window: int = 1024  # tokens, the special ones included; cut to the model's limit
    overlap: int = 126  # tokens that a window shares with the next
    masking: float = 0.15  # share of tokens
    whole_words: bool = True
    new_tokens: int = 0  # most frequent LaTeX commands that become tokens of their own
    epochs: float = 1.0
    rate: float = 2e-5
    batch: int = 32  # windows
    warmup: float = 0.05  # share of the encoder's steps
    weight_decay: float = 0.01
    head_warmup: float = 0.1  # share of steps in which a new head learns alone
    head_rate: float = 5e-4  # of a new head
    held_out: float = 0.02  # share of documents that only measure
    precision: str = "auto"  # auto: bf16 on a GPU that has it, else fp32
    seed: int = 0
    save_every: int = 500  # steps
    judge: str = ""  # a fine-tuning, [finetune.NAME]: the model is kept if it does not do worse after it


# ---------------------------------------------------------------- the model


def _load(base: Path, seed: int) -> tuple[Any, Any, bool]:
    """The model with a head for masked words, its tokenizer, and whether that head is new."""
    torch = require("torch", "train")
    transformers = require("transformers", "train")
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(seed)  # of what is new
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(base))
            model, found = transformers.AutoModelForMaskedLM.from_pretrained(str(base), output_loading_info=True)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            cause = str(error).strip().split("\n")[0]
            raise InputError(
                f"can not be loaded as a model that fills in masked words ({cause})", file=str(base)
            ) from error
    if not tokenizer.is_fast:
        raise InputError("has no tokenizer.json", file=str(base))
    prefix = f"{model.base_model_prefix}."
    lost = sorted(name for name in found["missing_keys"] if name.startswith(prefix))
    if lost:
        raise InputError(f"lacks weights of the encoder: {', '.join(lost[:3])}", file=str(base))
    if model.get_output_embeddings().weight is not model.get_input_embeddings().weight:
        model.config.tie_word_embeddings = True
        model.tie_weights()
    return model.float(), tokenizer, bool(found["missing_keys"])


def _limit(model: Any, tokenizer: Any) -> int:
    """Tokens that the model can read, special ones included."""
    positions = int(getattr(model.config, "max_position_embeddings", 0) or 2**20)
    if model.config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        positions -= 2  # they begin to count after the padding token
    return min(positions, int(tokenizer.model_max_length))


def masked_logits(model: Any, batch: Mapping[str, Any]) -> tuple[Any, Any]:
    """Logits (m, ids) and labels (m,) of the masked tokens alone: all others would cost as much as the encoder."""
    drawn = batch["labels"] != UNMASKED

    def pick(_module: Any, _arguments: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[drawn][None]
        return output

    hook = getattr(model, "module", model).base_model.register_forward_hook(pick)
    try:
        output = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    finally:
        hook.remove()
    return output.logits[0], batch["labels"][drawn]


def masked_loss(model: Any, batch: Mapping[str, Any]) -> Any:
    """Mean cross-entropy of the masked tokens; 0 where there are none."""
    torch = require("torch", "train")
    logits, labels = masked_logits(model, batch)
    return torch.nn.functional.cross_entropy(logits.float(), labels, reduction="sum") / max(1, len(labels))


def perplexity(model: Any, windows: Windows, chosen: Integers, pad: int, longest: int, size: int) -> float | None:
    """exp of the mean loss over masked tokens, under masks that are always the same; None without any."""
    torch = require("torch", "train")
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    loss, tokens = 0.0, 0
    with torch.no_grad():
        for start in range(0, len(chosen), size):
            batch = collate([windows.masked(0, int(n)) for n in chosen[start : start + size]], pad, longest)
            logits, labels = masked_logits(model, {name: values.to(device) for name, values in batch.items()})
            loss += float(torch.nn.functional.cross_entropy(logits.float(), labels, reduction="sum"))
            tokens += len(labels)
    model.train(was_training)
    return math.exp(min(loss / tokens, 700.0)) if tokens else None


# ---------------------------------------------------------------- training


def factor(step: int, steps: int, warmup: float, idle: int = 0) -> float:
    """Share of the rate at a step: 0 for `idle` steps, then up for a share `warmup` of the rest, then down to 0."""
    step, steps = step - idle, steps - idle
    if step < 0:
        return 0.0
    rise = math.ceil(warmup * steps)
    return (step + 1) / (rise + 1) if step < rise else max(0.0, (steps - step) / max(1, steps - rise))


def _optimiser(model: Any, options: PretrainOptions, steps: int, head_steps: int, *, fresh: bool) -> tuple[Any, Any]:
    """AdamW and its schedule. The encoder waits at rate 0 while a new head learns, rather than without gradients:
    so the same optimiser, checkpoints and processes serve all steps."""
    torch = require("torch", "train")
    encoder = {id(parameter) for parameter in model.base_model.parameters()}
    groups: dict[tuple[bool, bool], list[Any]] = {}
    for parameter in model.parameters():
        groups.setdefault((id(parameter) in encoder, parameter.ndim > 1), []).append(parameter)
    settings, schedules = [], []
    for (of_encoder, is_matrix), parameters in groups.items():
        rate = options.head_rate if fresh and not of_encoder else options.rate
        decay = options.weight_decay if is_matrix else 0.0
        settings.append({"params": parameters, "lr": rate, "weight_decay": decay})
        idle = head_steps if of_encoder else 0
        schedules.append(partial(factor, steps=steps, warmup=options.warmup, idle=idle))
    optimiser = torch.optim.AdamW(settings)
    return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, schedules)


def _arguments(folder: Path, options: PretrainOptions) -> Any:
    torch = require("torch", "train")
    transformers = require("transformers", "train")
    has_gpu = torch.cuda.is_available()
    has_other = torch.backends.mps.is_available()
    bf16 = options.precision == "bf16" or (
        options.precision == "auto" and has_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
    )
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        learning_rate=options.rate,
        bf16=bf16,
        use_cpu=not (has_gpu or has_other),  # unless told, processes without a GPU do not find each other
        logging_first_step=True,
        save_strategy="steps",
        save_steps=options.save_every,
        save_total_limit=1,
        seed=options.seed,
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=has_gpu,
        ddp_find_unused_parameters=False,  # the waiting encoder has gradients too
    )
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # the trainer would split batches among threads; several GPUs are for torchrun
    return arguments


def _trainer(
    model: Any,
    arguments: Any,
    windows: Windows,
    optimiser: tuple[Any, Any],
    make_batch: Callable[[Any], Any],
    progress: Progress,
    at_step: Mapping[int, Callable[[], object]],
) -> Any:
    torch = require("torch", "train")
    transformers = require("transformers", "train")

    class Trainer(transformers.Trainer):  # type: ignore[misc, name-defined]
        def compute_loss(self, model: Any, inputs: Any, *_arguments: Any, **_more: Any) -> Any:
            return masked_loss(model, inputs)

        def _get_train_sampler(self, *_arguments: Any) -> Any:
            return torch.utils.data.SequentialSampler(windows)  # they are shuffled already

    class Told(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        what = "pretraining"

        def on_log(self, _arguments: Any, _state: Any, _control: Any, logs: Any = None, **_more: Any) -> None:
            if logs and "loss" in logs:
                self.what = f"pretraining, loss {float(logs['loss']):.2f}"

        def on_step_end(self, _arguments: Any, state: Any, _control: Any, **_more: Any) -> None:
            if state.global_step in at_step:
                at_step[state.global_step]()
            if state.is_world_process_zero:
                progress(self.what, state.global_step, state.max_steps)

    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=windows,
        data_collator=make_batch,
        optimizers=optimiser,
        callbacks=[Told()],
    )
    trainer.model_accepts_loss_kwargs = False  # the loss is a mean: the trainer divides it among the parts of a batch
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def _write(base: Path, model: Any, tokenizer: Any, commands: Sequence[str], out: Path) -> None:
    """The base with its encoder's weights replaced: pooling, prompts and all else stay."""
    library = require("sentence_transformers", "train")
    new = out.with_name(f".{out.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    with quiet():
        whole = library.SentenceTransformer(str(base), device="cpu")
        encoder = whole[0].auto_model.float()
        if len(commands):
            add_rows(encoder, whole.tokenizer, commands)
        state = {name: values.detach().cpu() for name, values in model.base_model.state_dict().items()}
        unknown = encoder.load_state_dict(state, strict=False).unexpected_keys
        if unknown:
            raise InputError(f"has no place for the weights {', '.join(unknown[:3])}", file=str(base))
        whole.save(str(new), create_model_card=False)
        if len(commands):
            tokenizer.model_max_length = whole.max_seq_length or tokenizer.model_max_length
            write_tokenizer(tokenizer, new)
    replace_folder(new, out)


def pretrain(
    base: Path,
    texts: Iterable[tuple[str, str]],
    out: Path,
    options: PretrainOptions,
    *,
    work: Path,
    progress: Progress,
) -> dict[str, Any]:
    """Train `base`, a sentence-transformers folder, on the texts of documents, and write such a folder to `out`.

    Texts with the same document, one after the other, are read as one. `work` keeps tokens and checkpoints: the same
    call after a kill goes on from the last whole checkpoint, and one after the end only writes `out` again; `work` may
    be removed once `out` is kept. Started by torchrun, all processes share the work.

    The report tells the held-out perplexity `before`, with the `head` learnt alone, and `after`; the first means
    little where the head is new. None where nothing could be held out.
    """
    began = time.monotonic()
    _check(options)
    read_architecture(base)
    if iter(texts) is texts:
        texts = list(texts)  # they are read more than once
    model, tokenizer, fresh = _load(base, options.seed)
    commands: list[str] = []
    if options.new_tokens:
        counts: Counter[str] = Counter()
        for _, text in texts:
            counts.update(count_commands(text))
        commands = choose_commands(counts, tokenizer, options.new_tokens)
    if commands:
        add_rows(model, tokenizer, commands)
        tokenizer = with_commands(tokenizer, commands)
    masking = read_masking(tokenizer, whole_words=options.whole_words)
    longest = min(options.window, _limit(model, tokenizer))
    frame = len(masking.before) + len(masking.after)

    key = texts_key(tokenizer, texts)
    run = work / f"run-{_run_key(base, key, options)}"
    arguments = _arguments(run, options)
    with arguments.main_process_first(desc="tokenising"):
        tokens = tokenise(tokenizer, texts, work / f"tokens-{key[:16]}", progress)
        checkpoint = last_checkpoint(run)
    places = cut_windows(tokens.starts, longest - frame, options.overlap)
    held_out = hold_out(tokens.documents, options.held_out, options.seed)
    of_document = np.searchsorted(tokens.starts, places[:, 0], side="right") - 1
    measuring = held_out[of_document] if len(places) else np.zeros(0, bool)
    learning = places[~measuring]
    if not len(learning):
        raise InputError("there is no text to pretrain on")

    total = max(1, round(options.epochs * len(learning)))
    share = -(-options.batch // arguments.world_size)  # windows of this process
    most = max(1, AT_ONCE.get(arguments.device.type, AT_ONCE["cpu"]) // longest)
    at_once = max(size for size in range(1, min(share, most) + 1) if share % size == 0)
    steps = -(-total // (share * arguments.world_size))
    head_steps = min(round(options.head_warmup * steps), steps - 1) if fresh else 0
    arguments.per_device_train_batch_size = at_once
    arguments.gradient_accumulation_steps = share // at_once
    arguments.max_steps = steps
    arguments.logging_steps = max(1, steps // POINTS)

    windows = Windows(tokens.flat, learning, masking, options.masking, options.seed, total)
    others = Windows(tokens.flat, places[measuring], masking, options.masking, options.seed, int(measuring.sum()))
    chosen = np.unique(np.linspace(0, len(others) - 1, min(len(others), MEASURED)).astype(np.int64))
    make_batch = partial(collate, pad=masking.pad, longest=longest)
    first = arguments.process_index == 0

    def measured(name: str) -> float | None:
        progress(f"measuring perplexity, {name}", 0, None)
        make = partial(perplexity, model, others, chosen, masking.pad, longest, most)
        return remembered(run / f"perplexity-{name}.json", make, write=first)

    resumed = int(checkpoint.name.rsplit("-", 1)[1]) if checkpoint else 0
    with quiet():
        optimiser = _optimiser(model, options, steps, head_steps, fresh=fresh)
        at_step = {head_steps: lambda: measured("head")} if head_steps else {}
        trainer = _trainer(model, arguments, windows, optimiser, make_batch, progress, at_step)
        perplexities = {"before": measured("before")}
        if resumed < steps:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
            history = trainer.state.log_history
        else:
            transformers = require("transformers", "train")
            model = transformers.AutoModelForMaskedLM.from_pretrained(str(checkpoint)).to(arguments.device)
            history = json.loads((Path(str(checkpoint)) / "trainer_state.json").read_text())["log_history"]
        if head_steps:
            perplexities["head"] = remembered(run / "perplexity-head.json", lambda: None, write=False)
        perplexities["after"] = measured("after")
    with arguments.main_process_first(desc="writing"):
        if first:
            _write(base, model, tokenizer, commands, out)
    return {
        "documents": len(set(tokens.documents)),
        "held_out": len({name for name, held in zip(tokens.documents, held_out, strict=True) if held}),
        "tokens": int(tokens.starts[-1]),
        "windows": {"trained": len(learning), "held_out": int(measuring.sum()), "measured": len(chosen)},
        "window": longest,
        "overlap": options.overlap,
        "masked": "words" if masking.continues is not None else "tokens",
        "notes": _notes(options, masking, longest, fresh=fresh),
        "new_tokens": commands,
        "head": "new" if fresh else "of the base",
        "steps": steps,
        "head_steps": head_steps,
        "resumed_from": resumed,
        "perplexity": perplexities,
        "losses": [(int(entry["step"]), float(entry["loss"])) for entry in history if "loss" in entry],
        "precision": "bf16" if arguments.bf16 else "fp32",
        "device": arguments.device.type,
        "processes": arguments.world_size,
        "seconds": round(time.monotonic() - began, 1),
    }


def _check(options: PretrainOptions) -> None:
    for name in ("masking", "epochs", "rate", "head_rate"):
        if getattr(options, name) <= 0:
            raise ConfigError(f"{name} = {getattr(options, name)} must be more than 0")
    for name in ("masking", "warmup", "head_warmup", "held_out"):
        if getattr(options, name) >= 1:
            raise ConfigError(f"{name} = {getattr(options, name)} is a share and must be less than 1")


def _run_key(base: Path, tokens: str, options: PretrainOptions) -> str:
    """Of all that decides the result: checkpoints of another run are never taken for this one's."""
    settings = {
        name: value for name, value in asdict(options).items() if name not in ("base", "sections", "save_every")
    }
    digest = hashlib.blake2b(json.dumps([tokens, settings]).encode(), digest_size=8)
    for file in sorted(path for path in base.iterdir() if path.suffix in (".safetensors", ".bin", ".json")):
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _notes(options: PretrainOptions, masking: Masking, longest: int, *, fresh: bool) -> list[str]:
    notes = []
    if options.whole_words and masking.continues is None:
        notes.append("the tokenizer does not mark pieces of words, so single tokens are masked")
    if longest < options.window:
        notes.append(f"windows were cut to {longest} tokens, which is the model's limit")
    if fresh:
        notes.append("the base has no head for masked words; a new one was made, so `before` says little")
    return notes
