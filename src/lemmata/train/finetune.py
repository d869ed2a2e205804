"""Fine-tune an encoder on a job. Resumes from the last checkpoint.

Batches come from tokens made ahead; texts of similar length go through the model together, each distinct one once. The
model is chosen by retrieval on validation tasks and averaged with its base as far as the guard asks for. Of several
processes, each encodes a part of every batch, and all compute the loss from all vectors: as one process would.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lemmata.core.errors import ConfigError, LemmataError, require
from lemmata.core.types import Integers, Progress
from lemmata.core.workers import one_torch_thread
from lemmata.encode.load import AUTO
from lemmata.train.batches import collate, plan
from lemmata.train.encoders import (
    add_adapters,
    between,
    freeze,
    load_model,
    merge_adapters,
    quiet,
    save_model,
    set_pooling,
    set_prompts,
    state_of,
    transformer_of,
)
from lemmata.train.job import Job, translated
from lemmata.train.loop import Training, one_rate, precision_for, train
from lemmata.train.losses import (
    LOSSES,
    MARGIN,
    Records,
    candidates,
    cut_lengths,
    displacement,
    distillation,
    shortened,
    targets,
)
from lemmata.train.ranks import barrier, gathered, is_first_process, own_items, refuse_several
from lemmata.train.validate import autocast, encode_texts, evaluation_steps, measure_tasks, selection

NEGATIVES = 4  # hard ones of each record that are used
DISTINCT_BELOW = 512  # batch size; larger batches without repeated texts lose records of texts that many share
WARM_UP = 0.1  # share of steps
TEACHER_WEIGHT = 0.2  # of the distillation in the loss: one teacher keeps the model close to what it knows
TEACHERS_WEIGHT = 0.8  # several together know more than the model, which is to learn it
SHARES = tuple(tenth / 10 for tenth in range(1, 11))  # of the tuned weights, tried where there is a guard
STATIC = "a static encoder, whose steps take less time than exchanging its token vectors, is trained"
WHOLE_BATCH = 2**22  # tokens: a static encoder keeps nothing for each of them
CHUNK = {"cuda": 131_072, "mps": 16_384, "cpu": 4_096}  # tokens that go through the model at once


@dataclass(frozen=True, slots=True)
class FinetuneOptions:
    """How an encoder is fine-tuned; in `lemmata.toml` a table [finetune.NAME]."""

    CHOICES: ClassVar = {
        "loss": tuple(LOSSES),
        "pooling": ("", "mean", "cls", "cls+mean"),
        "adapters": ("", "lora", "dora"),
    }
    SMALLEST: ClassVar = {"margin": 0.0, "epochs": 0.0, "batch": 2, "rate": 0.0, "tokens": 0, "freeze": 0}

    base: str = AUTO  # packaged, by language; or a model of the workspace, a folder or a hub name
    sets: dict[str, float] = field(default_factory=dict)  # training set: how often an epoch shows it; all, once
    preserved_sets: list[str] = field(default_factory=list)  # those of the sets whose texts keep the base's vectors
    validation: dict[str, str] = field(default_factory=dict)  # task: the measure to choose by; see docs/train.md
    guard: dict[str, str] = field(default_factory=dict)  # the same for general tasks that must not get worse
    guard_tolerance: float = 0.02  # largest loss of the guard's measure, as a fraction of it; below 0: it has to gain
    loss: str = "contrastive"  # directed: query to passage only; popular: directed, frequent answers rank high; triplet
    margin: float = MARGIN  # of triplets: how much farther than the positive a negative has to be, in unit vectors
    pooling: str = ""  # how token vectors become one; cls+mean: both, twice as long; empty: as the base does
    dimensions: list[float] = field(default_factory=list)  # Matryoshka: lengths, or fractions of the whole
    teacher: str = ""  # "base", or as `base`: a model to stay close to; several, by commas: to learn from
    prompts: dict[str, str] = field(default_factory=dict)  # by role, query and passage; the base's own
    epochs: float = 1.0  # passes over the training sets
    batch: int = 256  # records, all of them candidates of each other
    tokens: int = 0  # longest text while training; 0: what the model reads
    rate: float = 3e-5  # learning rate
    freeze: int = 0  # lowest layers that are not trained, the token embeddings with them
    adapters: str = ""  # lora or dora: train small matrices beside the weights; empty: all weights
    seed: int = 0  # random seed


def teacher_names(teacher: str) -> list[str]:
    return [name for part in teacher.split(",") if (name := part.strip())]


class FinetuneResult(NamedTuple):
    """What came out of a run."""

    before: Mapping[str, float]  # task/measure: value on validation
    after: Mapping[str, float]
    best_step: int
    share: float  # of the tuned weights in the model
    sweep: list[dict[str, float]]  # one record for each share that was tried
    history: list[dict[str, Any]]  # of the loop: loss, learning rate, validation
    seconds: float
    records_per_second: float
    parameters: int  # that were trained


def finetune(
    base: Path,
    job: Job,
    out: Path,
    options: FinetuneOptions,
    *,
    work: Path,
    teachers: Sequence[Path] = (),
    base_is_candidate: bool = False,
    progress: Progress,
) -> FinetuneResult:
    """Train `base` on `job` and write the best model to `out`; `work` keeps checkpoints until then.

    The model with the best measures on the validation tasks is kept. Its weights are then averaged with the base's
    as far as the guard asks for; with `base_is_candidate` the share of the tuned weights may be 0. The same call after
    a kill resumes from the last checkpoint.
    """
    torch = require("torch", "train")
    begin = time.perf_counter()
    torch.manual_seed(options.seed)  # for adapters, which start at random
    job = translated(job, base)
    model = _loaded(base, job)
    set_prompts(model, options.prompts)
    if options.pooling:
        set_pooling(model, options.pooling)
    if options.freeze:
        freeze(model, options.freeze)
    if options.adapters:
        add_adapters(model, options.adapters)
    objective = Objective(model, job, options, teachers, progress)
    steps = len(objective.plan)

    trained = [weight for weight in model.parameters() if weight.requires_grad]
    training = Training(
        model,
        one_rate(trained, options.rate, steps, WARM_UP),
        objective.batches,
        objective.loss,
        steps,
        lambda step: objective.evaluate(progress, step),
        objective.evaluate_at(steps),
        best_by="domain" if any(not task.general for task in job.validations) else "",
        seed=options.seed,
    )
    with quiet(), _one_thread(model):
        outcome = train(training, work, progress)
    records = sum(len(rows) for rows in objective.plan.records[outcome.resumed_from :])
    before, after = (_by_task(outcome.measured(step)) for step in (0, outcome.best_step or steps))
    sweep: list[dict[str, float]] = []
    share = 1.0
    merge_adapters(model)
    if any(task.general for task in job.validations):
        shares = (0.0, *SHARES) if base_is_candidate else SHARES
        sweep, share, after = _average_with_base(model, base, objective, before, shares, progress)
    elif base_is_candidate and selection(after, job.validations) < selection(before, job.validations):
        share, after = 0.0, before
    if is_first_process():
        save_model(model, out)
    barrier()  # all have read their checkpoints, which the caller may remove
    seconds = time.perf_counter() - begin
    speed = records / max(outcome.seconds, 1e-9)
    parameters = sum(weight.numel() for weight in trained)
    return FinetuneResult(before, after, outcome.best_step, share, sweep, outcome.history, seconds, speed, parameters)


def _loaded(base: Path, job: Job, device: str = "") -> Any:
    """A model to train on a job; of a static encoder, the vectors of the tokens that the job has."""
    model = load_model(base, device)
    if transformer_of(model) is None:
        refuse_several(STATIC)
        model.train_only(np.flatnonzero(np.bincount(job.texts.flat)))
    return model


@contextlib.contextmanager
def _one_thread(model: Any) -> Iterator[None]:
    """One thread for a static encoder on a CPU: its operations are short, and threads wait for each other after each.

    On two cores with other work, two threads took 40 s of CPU time where one took 15.
    """
    import torch

    is_short = transformer_of(model) is None and model.device.type == "cpu"
    with one_torch_thread(torch) if is_short else contextlib.nullcontext():
        yield


def _by_task(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if "/" in name}


class Objective:
    """Batches of a job, their loss, and the measures on validation."""

    def __init__(
        self, model: Any, job: Job, options: FinetuneOptions, teachers: Sequence[Path], progress: Progress
    ) -> None:
        import torch

        self._loss = LOSSES[options.loss]
        if not self._loss.compares_candidates and teachers:
            raise ConfigError(f"loss = {options.loss!r} has no candidates to compare: use it without a teacher")
        self.model, self.job, self.options = model, job, options
        self.precision = precision_for(model.device)
        self.reads = int(model.max_seq_length or 512)
        self.longest = min(options.tokens or self.reads, self.reads)
        self.pad = int(model.tokenizer.pad_token_id or 0)
        self.dimensions = cut_lengths(options.dimensions, int(model.get_embedding_dimension()))
        self.chunk = CHUNK.get(model.device.type, CHUNK["cpu"])
        if transformer_of(model) is None:  # the gradient of each chunk is as large as all token vectors together
            self.chunk = WHOLE_BATCH
        self.memory = _tokens_in_memory(model, self.precision)
        self.sets = [records[:, : 2 + NEGATIVES] for records in job.sets.values()]
        repeats = [float(options.sets.get(name, 1.0)) for name in job.sets]
        generator = np.random.default_rng(options.seed)
        distinct = options.batch < DISTINCT_BELOW
        self.plan = plan(self.sets, repeats, options.epochs, options.batch, generator, distinct=distinct)
        if not len(self.plan):
            raise ConfigError("there is nothing to train on: the sets are empty, or epochs is 0")
        self._preserved = [number for number, name in enumerate(job.sets) if name in options.preserved_sets]
        shown = [
            records for number, records in enumerate(self.sets) if repeats[number] and number not in self._preserved
        ]
        lacking = (records.shape[1] < 3 or (records[:, 2] < 0).all() for records in shown)
        if self._loss.needs_negatives and any(lacking):
            raise ConfigError(f"the {options.loss} loss needs sets with negatives; 'lemmata mine triplets' makes them")
        self._answers = [np.unique(records[:, 1], return_counts=True) for records in self.sets]
        keys = [records[:, 0] * len(job.texts) + records[:, 1] for records in self.sets]
        self._pairs = torch.from_numpy(np.unique(np.concatenate(keys))).to(model.device)
        self._kept: Any = None  # what the base says of the texts of kept sets
        if self._preserved:
            progress("encoding with the base", 0, None)
            texts = _texts_of([self.sets[number] for number in self._preserved])
            self._kept = self._encoded(model, job, texts, self.longest)
        # the cosine of joined vectors is the mean of the teachers' cosines
        taught = [_centred(self._vectors_of(folder, progress)) for folder in teachers]
        self._teacher = torch.cat(taught, dim=1) * len(taught) ** -0.5 if taught else None
        self._targets = targets(self._teacher, self._encoded(model, job)) if len(taught) > 1 else None

    def _vectors_of(self, folder: Path, progress: Progress) -> Any:
        progress(f"encoding with {folder.name}", 0, None)
        model = load_model(folder, str(self.model.device))
        return self._encoded(model, translated(self.job, folder))

    def _encoded(self, model: Any, job: Job, texts: Integers | None = None, longest: int = 0) -> Any:
        """Vectors (texts, d) of the texts of all records, or of `texts`; zero for the others."""
        import torch

        used = _texts_of(self.sets) if texts is None else texts
        reads, pad = longest or int(model.max_seq_length or 512), int(model.tokenizer.pad_token_id or 0)
        vectors = encode_texts(model, job.texts, used, reads, pad, self.precision)
        table = torch.zeros((len(self.job.texts), vectors.shape[1]), dtype=torch.float16, device=self.model.device)
        table[torch.from_numpy(used).to(self.model.device)] = vectors.half()
        return table

    def batches(self, step: int) -> list[dict[str, Any]]:
        """The one batch of a step, with the texts that this process encodes."""
        import torch

        number = int(self.plan.sets[step])
        records = self.sets[number][self.plan.records[step]]
        batch = collate(self.job.texts, records, self.longest, self.chunk, self.pad, own_items())
        texts, counts = self._answers[number]
        share = counts[np.searchsorted(texts, records[:, 1])] / len(self.sets[number])
        batch["expected"] = torch.from_numpy((share * len(records)).astype(np.float32))
        if number in self._preserved:
            batch["kept"] = torch.ones(())
        return [batch]

    def loss(self, batch: Mapping[str, Any]) -> Any:
        """The mean over all lengths of the vectors. Where a batch exceeds the memory, only the activations of one
        chunk are kept at a time, and computed twice."""
        import torch
        from torch.utils.checkpoint import checkpoint

        chunks, table, numbers = batch["chunks"], batch["table"], batch["numbers"]
        tokens = sum(chunk["input_ids"].numel() for chunk in chunks)
        if len(chunks) > 1 and tokens > self.memory:
            parts = [checkpoint(self._encode, *chunk.values(), use_reentrant=False) for chunk in chunks]
        else:
            parts = [self._encode(*chunk.values()) for chunk in chunks]
        vectors = gathered(torch.cat(parts), len(numbers))
        if "kept" in batch:
            return displacement(shortened(vectors, vectors.shape[1]), self._kept[numbers].float())
        among = candidates(table, numbers, self._pairs, len(self.job.texts))
        losses = []
        for length in self.dimensions:
            short = shortened(vectors, length)
            loss = self._loss.compute(short, Records(table, among, batch["expected"], self.options.margin))
            if self._teacher is not None:
                weight = TEACHER_WEIGHT if self._targets is None else TEACHERS_WEIGHT
                difference = distillation(short, table, among, self._teacher[numbers].float())
                if self._targets is not None and length == self.dimensions[0]:
                    difference = difference + displacement(short, self._targets[numbers].float())
                loss = (1 - weight) * loss + weight * difference
            losses.append(loss)
        return torch.stack(losses).mean()

    def _encode(self, ids: Any, mask: Any) -> Any:
        with autocast(ids.device.type, self.precision):
            return self.model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"].float()

    def evaluate(self, progress: Progress, step: int) -> dict[str, float]:
        """`task/measure` values; `domain` is their mean over the tasks to choose by, `general` over the guard's."""
        progress("measuring on validation", step, len(self.plan))
        report = measure_tasks(self.model, self.job, self.reads, self.pad, self.precision)
        domain, general = selection(report, self.job.validations)
        guarded = any(task.general for task in self.job.validations)
        return {**report, "domain": domain, **({"general": general} if guarded else {})}

    def evaluate_at(self, steps: int) -> list[int]:
        """The steps after which validation is measured; none without tasks."""
        tasks = self.job.validations
        if not tasks:
            return []
        others = 1 + (len(SHARES) if any(task.general for task in tasks) else 0)
        texts = np.unique(np.concatenate([part for task in tasks for part in (task.queries, task.passages)]))
        validation = int(self.job.texts.lengths(texts, self.reads).sum())
        trained = [self.sets[number][rows] for number, rows in zip(self.plan.sets, self.plan.records, strict=True)]
        training = sum(int(self.job.texts.lengths(rows[rows >= 0], self.longest).sum()) for rows in trained)
        return [0, *evaluation_steps(steps, training, validation, others)]


def _texts_of(sets: Sequence[Integers]) -> Integers:
    """The numbers of the texts of some sets."""
    return np.unique(np.concatenate([records[records >= 0] for records in sets]))


def _centred(vectors: Any) -> Any:
    """Unit vectors around their mean: some encoders give any two texts a cosine near 1, and as a teacher would say
    that all candidates are about equally good. Zero rows stay zero."""
    import torch

    used = vectors.any(dim=1)
    points = vectors[used].float()
    vectors[used] = torch.nn.functional.normalize(points - points.mean(dim=0), dim=1).to(vectors.dtype)
    return vectors


def _tokens_in_memory(model: Any, precision: str) -> int:
    """How many tokens' activations fit into a third of the free memory."""
    import torch

    transformer = transformer_of(model)
    if transformer is None:  # a static encoder keeps no activations
        return 2**62
    config = getattr(transformer, "config", None)
    layers, width = getattr(config, "num_hidden_layers", 12), getattr(config, "hidden_size", 768)
    free = torch.cuda.mem_get_info(model.device)[0] if model.device.type == "cuda" else 12 * 2**30
    bytes_of_token = layers * width * 40 * (4 if precision == "fp32" else 3)  # measured on BERT, with attention
    return int(free / 3 / bytes_of_token)


def _average_with_base(
    model: Any,
    base: Path,
    objective: Objective,
    before: Mapping[str, float],
    shares: Sequence[float],
    progress: Progress,
) -> tuple[list[dict[str, float]], float, dict[str, float]]:
    """Give the model the best average of base and tuned weights that the guard allows (WiSE-FT, Wortsman et al. 2022,
    arXiv:2109.01903); returns all that were tried, the best share and its measures."""
    validations, tolerance = objective.job.validations, objective.options.guard_tolerance
    old, new = state_of(_loaded(base, objective.job, str(model.device))), state_of(model)
    floor = selection(dict(before), validations)[1] * (1 - tolerance)
    sweep, reports = [], {}
    for share in shares:
        model.load_state_dict(between(old, new, share))
        reports[share] = values = objective.evaluate(progress, len(objective.plan))
        domain, general = values["domain"], values["general"]
        sweep.append({"share": share, "domain": domain, "general": general, "allowed": float(general >= floor)})
    allowed = [point for point in sweep if point["allowed"]]
    if not allowed:
        raise LemmataError(
            f"no average of base and tuned weights satisfies the guard: guard_tolerance = {tolerance:g} asks for"
            f" {floor:.4f}, and the best has {max(point['general'] for point in sweep):.4f};"
            f" allow a larger loss in guard_tolerance, or add a teacher"
        )
    best = max(allowed, key=lambda point: (point["domain"], point["share"]))["share"]
    model.load_state_dict(between(old, new, best))
    return sweep, best, _by_task(reports[best])
