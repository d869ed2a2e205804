"""Fine-tune an encoder on a job with the trainer of sentence-transformers; killed at any time, it goes on.

The trainer keeps its optimiser, schedule, checkpoints, devices and processes. What is ours: batches come from
tokens made ahead, texts of like length go through the model together, each distinct one once, and the choice of
the model is by retrieval on validation.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lemmata.encode.load import DEFAULT
from lemmata.errors import ConfigError, LemmataError, require
from lemmata.train.batches import Plan, collate, plan, weights
from lemmata.train.checkpoints import last_checkpoint, quiet, remembered, step_of
from lemmata.train.encoders import (
    add_adapters,
    between,
    freeze,
    load_model,
    merge_adapters,
    save_model,
    set_dropout,
    set_pooling,
    set_prompts,
    state_of,
)
from lemmata.train.job import Job, fitted
from lemmata.train.losses import Contrast, candidates, contrastive, distilled, fractions, shortened, triplet
from lemmata.train.validate import encode_texts, measured, selection
from lemmata.types import Progress

__all__ = ["FinetuneOptions", "Tuned", "finetune"]

WEIGHTS = "weights.safetensors"  # of a checkpoint
LOSSES = ("contrastive", "triplet")
BUDGET = {"cuda": 131_072, "mps": 16_384, "cpu": 4_096}  # tokens whose activations are kept at once


@dataclass(frozen=True, slots=True)
class FinetuneOptions:
    """How an encoder is fine-tuned; in `lemmata.toml` a table [finetune.NAME]."""

    CHOICES: ClassVar = {
        "loss": LOSSES,
        "precision": ("auto", "fp32", "bf16", "fp16"),
        "pooling": ("", "mean", "cls", "cls+mean"),
        "device": ("", "cuda", "mps", "cpu"),
    }
    SMALLEST: ClassVar = {
        "epochs": 0.0,
        "batch": 2,
        "rate": 0.0,
        "warmup": 0.0,
        "scale": 1.0,
        "negatives": 0,
        "popularity": 0.0,
        "tokens": 0,
        "chunk": 0,
        "patience": 0,
        "validations": 1,
        "lora": 0,
        "freeze": 0,
        "pool": 0,
    }

    base: str = DEFAULT  # a packaged model, a model of the workspace, a folder or a hub name
    sets: dict[str, float] = field(default_factory=dict)  # training set: how often an epoch shows it; all, once
    validation: dict[str, str] = field(default_factory=dict)  # task: the measure to choose by; see docs/train.md
    guard: dict[str, str] = field(default_factory=dict)  # the same for what must not be forgotten
    pool: int = 0  # passages that a validation task is asked on, the answers among them; 0: all
    loss: str = "contrastive"
    scale: float = 20.0  # of cosines; 1 / temperature
    both_ways: bool = True
    popularity: float = 0.0  # how far passages that answer many queries may be found more often; 1: as often as they do
    margin: float = 1.0  # of triplets
    negatives: int = 4  # hard ones of each record that are used
    dimensions: list[float] = field(default_factory=list)  # Matryoshka: lengths, or parts of the whole
    guide: str = ""  # a model that says which candidates may be answers, too: "base", or as `base`
    guide_margin: float = 0.0
    teacher: str = ""  # a model to be like: "base", or as `base`
    teacher_weight: float = 0.5
    teacher_scale: float = 20.0
    prompts: dict[str, str] = field(default_factory=dict)  # by role, query and passage; the base's own
    epochs: float = 1.0
    batch: int = 256  # records, all of them candidates of each other
    distinct: bool = True  # no text twice in a batch; large batches so lose records of texts that many share
    cached: bool = True  # where a batch does not fit: activations are kept for one chunk at a time, computed twice
    chunk: int = 0  # tokens that go through the model at once; 0: what suits the device
    tokens: int = 0  # longest text while training; 0: what the model reads
    rate: float = 3e-5
    warmup: float = 0.1
    decay: float = 0.01
    pooling: str = ""  # the base's own
    lora: int = 0  # rank of the adapters; 0: all weights are trained
    freeze: int = 0  # lowest layers that stay as they are, the token embeddings with them
    dropout: float = -1.0  # while training; below 0: the base's own
    compiled: bool = False  # by torch.compile: pays after some minutes on a GPU
    checkpointing: bool = False  # compute the layers' activations again instead of keeping them
    precision: str = "auto"
    device: str = ""  # the best there is
    validations: int = 10  # how often validation is measured
    patience: int = 0  # stop when so many of them brought nothing; 0: never
    forget: float = 0.02  # most that the guard's measure may fall, as a part of it; below 0: it has to gain
    average: list[float] = field(default_factory=lambda: [0.25, 0.5, 0.75, 1.0])  # shares of the tuned weights
    seed: int = 0


class Tuned(NamedTuple):
    """What came out of a run."""

    before: Mapping[str, float]
    after: Mapping[str, float]
    best_step: int
    share: float  # of the tuned weights that was kept
    sweep: list[dict[str, float]]
    history: list[dict[str, Any]]  # of the trainer: loss, learning rate, validation
    seconds: float
    records_per_second: float


# ---------------------------------------------------------------- the run


class _Setting(NamedTuple):
    """What is the same for every step."""

    kept: int  # tokens whose activations fit into memory

    job: Job
    options: FinetuneOptions
    steps: Plan
    longest: int
    pad: int
    dimensions: list[int]
    precision: str
    known: Any  # tensor: keys of all pairs
    guide: Any  # tensor (texts, d), or None
    teacher: Any


def finetune(
    base: Path,
    job: Job,
    out: Path,
    options: FinetuneOptions,
    *,
    work: Path,
    guide: Path | None = None,
    teacher: Path | None = None,
    progress: Progress,
) -> Tuned:
    """Train `base` on `job` and write the best model to `out`; `work` keeps checkpoints until then.

    The model that is kept is the one that did best on the validation tasks; its weights are then averaged with
    the base's as far as the guard wants it. The same call after a kill goes on from the last whole checkpoint.
    """
    torch = require("torch", "train")
    require("accelerate", "train")
    require("datasets", "train")  # the trainer asks for it
    begin = time.perf_counter()
    torch.manual_seed(options.seed)  # for heads and adapters that begin at random
    model = _prepared(load_model(base, options.device), options)
    job = fitted(job, base)
    setting = _setting(model, job, options, guide, teacher, progress)
    before = remembered(work / "before.json", lambda: _measure(model, setting, progress, 0))
    trainer = _trainer(model, setting, work, progress)
    checkpoint = last_checkpoint(work, WEIGHTS)
    with quiet():
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    seconds = time.perf_counter() - begin
    best = trainer.state.best_global_step or 0
    first, last = (step * _processes() for step in (step_of(checkpoint), trainer.state.global_step))
    shown = sum(len(records) for records in setting.steps.records[first:last])
    if trainer.is_world_process_zero():
        kept = _measured_at(trainer.state.log_history, best)
        sweep, share, after = _averaged(model, base, setting, before, kept, progress)
        save_model(model, out)
    else:
        sweep, share, after = [], 1.0, dict(before)
    rate = shown / max(trainer.state.log_history[-1].get("train_runtime", seconds), 1e-9)
    return Tuned(before, after, best, share, sweep, trainer.state.log_history, seconds, rate)


def _measured_at(history: Sequence[Mapping[str, Any]], step: int) -> dict[str, float]:
    """What validation gave at a step; nothing where none was measured then."""
    found = [line for line in history if line.get("step") == step and "eval_domain" in line]
    return {
        name.removeprefix("eval_"): float(value)
        for name, value in (found[-1] if found else {}).items()
        if name.startswith("eval_") and "/" in name
    }


def _prepared(model: Any, options: FinetuneOptions) -> Any:
    """The prompts, pooling, adapters and frozen layers that are asked for."""
    set_prompts(model, options.prompts)
    if options.pooling:
        set_pooling(model, options.pooling)
    if options.freeze:
        freeze(model, options.freeze)
    if options.lora:
        add_adapters(model, options.lora)
    if options.dropout >= 0:
        set_dropout(model, options.dropout)
    if options.compiled:
        model[0].auto_model.compile(dynamic=True)
    return model


def _setting(
    model: Any, job: Job, options: FinetuneOptions, guide: Path | None, teacher: Path | None, progress: Progress
) -> _Setting:
    import torch

    names = list(job.sets)
    sets = [records[:, : 2 + options.negatives] for records in job.sets.values()]
    generator = np.random.default_rng(options.seed)
    repeats = weights(names, options.sets)
    steps = plan(sets, repeats, options.epochs, options.batch, generator, distinct=options.distinct)
    if not len(steps):
        raise ConfigError("there is nothing to train on: the sets are empty, or epochs is 0")
    shown = [records for records, times in zip(sets, repeats, strict=True) if times]
    if options.loss == "triplet" and any(records.shape[1] < 3 or (records[:, 2] < 0).all() for records in shown):
        raise ConfigError("the triplet loss needs sets with negatives, as 'lemmata mine triplets' makes them")
    if len(steps) < _processes():
        raise ConfigError(f"{len(steps)} batches are too few for {_processes()} processes")
    reads = int(model.max_seq_length or 512)
    longest = min(options.tokens or reads, reads)
    pad = int(getattr(model.tokenizer, "pad_token_id", 0) or 0)
    precision = options.precision
    if precision == "auto":
        precision = "bf16" if model.device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"
    keys = [(records[:, 0] * len(job.texts) + records[:, 1]) for records in sets]
    known = torch.from_numpy(np.unique(np.concatenate(keys))).to(model.device)
    used = np.unique(np.concatenate([records[records >= 0] for records in sets]))

    def vectors(folder: Path | None, what: str) -> Any:
        if folder is None:
            return None
        progress(f"encoding with the {what}", 0, None)
        other = load_model(folder, options.device)
        reads, filler = int(other.max_seq_length or 512), int(other.tokenizer.pad_token_id or 0)
        found = encode_texts(other, fitted(job, folder).texts, used, reads, filler, precision)
        every = torch.zeros((len(job.texts), found.shape[1]), dtype=torch.float16, device=model.device)
        every[torch.from_numpy(used).to(model.device)] = found.half()
        return every

    return _Setting(
        _kept(model, precision),
        job,
        options,
        steps,
        longest,
        pad,
        fractions(options.dimensions, int(model.get_embedding_dimension())),
        precision,
        known,
        vectors(guide, "guide"),
        vectors(teacher, "teacher"),
    )


def _kept(model: Any, precision: str) -> int:
    """How many tokens' activations a third of the free memory holds; a batch with more is computed in parts, twice."""
    import torch

    config = getattr(model[0].auto_model, "config", None)
    layers, width = getattr(config, "num_hidden_layers", 12), getattr(config, "hidden_size", 768)
    free = torch.cuda.mem_get_info(model.device)[0] if model.device.type == "cuda" else 12 * 2**30
    each = layers * width * 40 * (4 if precision == "fp32" else 3)  # measured on BERT, attention included
    return int(free / 3 / each)


def _measure(model: Any, setting: _Setting, progress: Progress, step: int) -> dict[str, float]:
    progress("measuring on validation", step, len(setting.steps))
    longest = int(model.max_seq_length or 512)
    return measured(model, setting.job, longest, setting.pad, setting.precision)


def _loss(model: Any, batch: Mapping[str, Any], setting: _Setting) -> Any:
    """The loss of a batch; with `cached`, a chunk's activations live only while its gradients are computed."""
    import torch
    from torch.utils.checkpoint import checkpoint

    def encoded(ids: Any, mask: Any) -> Any:
        return model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"]

    options = setting.options
    tokens = sum(chunk["input_ids"].numel() for chunk in batch["chunks"])
    cached = options.cached and len(batch["chunks"]) > 1 and tokens > setting.kept
    parts = [
        checkpoint(encoded, chunk["input_ids"], chunk["attention_mask"], use_reentrant=False)
        if cached
        else encoded(chunk["input_ids"], chunk["attention_mask"])
        for chunk in batch["chunks"]
    ]
    vectors = torch.cat(parts)
    table, numbers = batch["table"], batch["numbers"]
    if options.loss == "triplet":
        losses = [triplet(shortened(vectors, one), table, options.margin) for one in setting.dimensions]
        return torch.stack(losses).mean()
    guide = None if setting.guide is None else setting.guide[numbers].float()
    among = candidates(table, numbers, setting.known, len(setting.job.texts), guide, options.guide_margin)
    teacher = None if setting.teacher is None else setting.teacher[numbers].float()
    contrast = Contrast(options.scale, options.both_ways, options.popularity)
    losses = []
    for dimension in setting.dimensions:
        short = shortened(vectors, dimension)
        loss = contrastive(short, table, among, contrast, batch.get("expected"))
        if teacher is not None:
            likeness = distilled(short, table, among, teacher, (options.scale, options.teacher_scale))
            loss = (1 - options.teacher_weight) * loss + options.teacher_weight * likeness
        losses.append(loss)
    return torch.stack(losses).mean()


# ---------------------------------------------------------------- the trainer


class _Records:
    """What the loader asks for a record is only its place in the plan."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> int:
        return place


class _Steps:
    """A batch sampler that knows the whole run: each batch is one step of the plan."""

    batch_size = 1
    drop_last = False

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[list[int]]:
        return iter([place] for place in range(self._count))


def _trainer(model: Any, setting: _Setting, work: Path, progress: Progress) -> Any:
    import torch

    library = require("sentence_transformers", "train")
    transformers = require("transformers", "train")
    safetensors = require("safetensors.torch", "train")
    options = setting.options
    device = model.device.type
    budget = options.chunk or BUDGET.get(device, BUDGET["cpu"])
    sets = [records[:, : 2 + options.negatives] for records in setting.job.sets.values()]
    answers = [np.unique(records[:, 1], return_counts=True) for records in sets] if options.popularity else []

    def batch(places: list[int]) -> dict[str, Any]:
        (place,) = places
        number = int(setting.steps.sets[place])
        records = sets[number][setting.steps.records[place]]
        made = collate(setting.job.texts, records, setting.longest, budget, setting.pad)
        if answers:
            texts, counts = answers[number]
            share = counts[np.searchsorted(texts, records[:, 1])] / len(sets[number])
            made["expected"] = torch.from_numpy((share * len(records)).astype(np.float32))
        return made

    class Trainer(library.SentenceTransformerTrainer):  # type: ignore[misc, name-defined]
        def get_train_dataloader(self) -> Any:
            self.accelerator.even_batches = False
            shared = total * _processes()  # as many for each process: they wait for each other at every step
            loader: Any = torch.utils.data.DataLoader(
                _Records(shared),  # type: ignore[arg-type]
                batch_sampler=_Steps(shared),
                collate_fn=batch,
                num_workers=self.args.dataloader_num_workers,
                pin_memory=self.args.dataloader_pin_memory,
                prefetch_factor=self.args.dataloader_prefetch_factor,
            )
            return self.accelerator.prepare(loader)

        def compute_loss(self, _model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
            # not through the wrapper for several processes: it can bear neither chunks nor weights without a use
            loss = _loss(self.model, inputs, setting)
            return (loss, {}) if return_outputs else loss

        def training_step(self, *given: Any, **named: Any) -> Any:
            loss = super().training_step(*given, **named)
            if _processes() > 1:
                _average_gradients(self.model)
            return loss

        def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
            with self.compute_loss_context_manager():
                report = _measure(self.model, setting, progress, self.state.global_step)
            domain, general = selection(report, setting.job.validations)
            told = {f"eval_{name}": value for name, value in report.items()}
            told["eval_domain"] = domain
            if any(task.general for task in setting.job.validations):
                told["eval_general"] = general
            self.log(told)
            self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, told)
            return told

        def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:  # noqa: ARG002
            folder = Path(output_dir or self.args.output_dir)
            folder.mkdir(parents=True, exist_ok=True)
            safetensors.save_file(state_of(self.model), folder / WEIGHTS)

        def _load_from_checkpoint(self, checkpoint_path: str, model: Any = None) -> None:  # noqa: ARG002
            self.model.load_state_dict(safetensors.load_file(Path(checkpoint_path) / WEIGHTS))

        def _load_best_model(self) -> None:
            self._load_from_checkpoint(self.state.best_model_checkpoint)

        def add_model_card_callback(self, *_: Any, **__: Any) -> None:
            """The card is ours: train/card.py."""

    class Telling(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        """Loss and validation on the progress bar."""

        def __init__(self) -> None:
            self.told = {"loss": "", "found": ""}

        def on_log(self, *_: Any, logs: Any = None, **__: Any) -> None:
            if "loss" in (logs or {}):
                self.told["loss"] = f", loss {logs['loss']:.3f}"
            if "eval_domain" in (logs or {}):
                self.told["found"] = f", validation {logs['eval_domain']:.3f}"

        def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            progress(f"training{self.told['loss']}{self.told['found']}", state.global_step, state.max_steps)

    total = len(setting.steps) // _processes()
    every = max(1, math.ceil(total / options.validations))
    chosen = any(not task.general for task in setting.job.validations)  # a guard can not tell a best step
    arguments = library.SentenceTransformerTrainingArguments(
        output_dir=str(work),
        num_train_epochs=1,
        per_device_train_batch_size=1,  # a step of the plan
        learning_rate=options.rate,
        lr_scheduler_type="linear",
        warmup_steps=options.warmup,
        weight_decay=options.decay,
        optim="adamw_torch_fused" if device == "cuda" else "adamw_torch",
        max_grad_norm=1.0,
        bf16=setting.precision == "bf16",
        fp16=setting.precision == "fp16",
        use_cpu=device == "cpu",
        gradient_checkpointing=options.checkpointing,
        eval_strategy="steps" if setting.job.validations else "no",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        load_best_model_at_end=chosen,
        metric_for_best_model="eval_domain" if chosen else None,
        greater_is_better=True if chosen else None,
        logging_steps=max(1, min(20, total // 40)),
        logging_nan_inf_filter=False,
        dataloader_num_workers=4 if device == "cuda" and (os.cpu_count() or 1) > 4 else 0,
        dataloader_prefetch_factor=4 if device == "cuda" and (os.cpu_count() or 1) > 4 else None,
        dataloader_pin_memory=device == "cuda",
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to="none",
        seed=options.seed,
        data_seed=options.seed,
        dataloader_drop_last=_processes() > 1,
        ddp_find_unused_parameters=False,
    )
    callbacks: list[Any] = [Telling()]
    if options.patience and chosen:
        callbacks.append(transformers.EarlyStoppingCallback(early_stopping_patience=options.patience))

    class Unused(torch.nn.Module):
        """The trainer wants a loss that holds the model, to find the parameters; ours is `compute_loss`."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

    class Evaluated(library.base.evaluation.BaseEvaluator):  # type: ignore[misc, name-defined]
        """Stands for validation, which `evaluate` does."""

    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=None,
        loss=Unused(),
        evaluator=Evaluated() if setting.job.validations else None,
        callbacks=callbacks,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def _processes() -> int:
    """How many torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def _average_gradients(model: Any) -> None:
    """Give every process the mean of all processes' gradients."""
    import torch

    found = [weight.grad for weight in model.parameters() if weight.grad is not None]
    flat: Any = torch.cat([gradient.reshape(-1) for gradient in found])
    torch.distributed.all_reduce(flat)
    flat /= _processes()
    for gradient, mean in zip(found, flat.split([one.numel() for one in found]), strict=True):
        gradient.copy_(mean.view_as(gradient))


# ---------------------------------------------------------------- forgetting


def _averaged(
    model: Any,
    base: Path,
    setting: _Setting,
    before: Mapping[str, float],
    kept: dict[str, float],
    progress: Progress,
) -> tuple[list[dict[str, float]], float, dict[str, float]]:
    """Leave the model with the best average of base and tuned weights that the guard allows.

    Without a guard the tuned weights are kept; `kept` is what they gave on validation, if that was measured.
    """
    options = setting.options
    validations = setting.job.validations
    guarded = any(task.general for task in validations)
    merge_adapters(model)
    if not guarded:
        return [], 1.0, kept or (_measure(model, setting, progress, len(setting.steps)) if validations else {})
    first = load_model(base, str(model.device))
    old, new = state_of(first), state_of(model)
    floor = selection(dict(before), validations)[1] * (1 - options.forget)
    points: list[tuple[float, dict[str, float]]] = []
    for share in sorted({*options.average, 1.0}):
        model.load_state_dict(between(old, new, share))
        points.append((share, _measure(model, setting, progress, len(setting.steps))))
    sweep = []
    for share, report in points:
        domain, general = selection(report, validations)
        sweep.append({"share": share, "domain": domain, "general": general, "allowed": float(general >= floor)})
    allowed = [one for one in sweep if one["allowed"]]
    if not allowed:
        raise LemmataError(
            f"no average is good enough for the guard: the best has {max(one['general'] for one in sweep):.4f} where"
            f" forget = {options.forget:g} asks for {floor:.4f}; add smaller shares to average, or allow more in forget"
        )
    best = max(allowed, key=lambda one: (one["domain"], one["share"]))
    model.load_state_dict(between(old, new, best["share"]))
    return sweep, best["share"], dict(points)[best["share"]]
