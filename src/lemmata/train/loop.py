"""A plain training loop: AdamW, gradient clipping, evaluation, and checkpoints from which a killed run resumes exactly.

The loop knows no task: the caller supplies the batches of each step, the loss and the evaluation. Under torchrun, every
process has its own batches, and losses and gradients are averaged over all processes.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lemmata.core.errors import LemmataError, require
from lemmata.core.files import writing
from lemmata.core.types import Progress
from lemmata.train.encoders import state_of
from lemmata.train.ranks import average, barrier, from_each, is_first_process, rank

WEIGHTS = "weights.safetensors"  # of a checkpoint
WEIGHT_DECAY = 0.01  # of matrices; biases and norms have none
MAX_GRADIENT_NORM = 1.0  # gradients with a larger norm are scaled down to it
MIN_CHECKPOINTS = 10  # per run; rounding can leave a short run with fewer
MAX_STEPS_BETWEEN_CHECKPOINTS = 500


class Group(NamedTuple):
    """Parameters that share a learning rate and a weight decay."""

    parameters: list[Any]
    rate: Callable[[int], float]  # learning rate of a step; the first step is 0
    decay: float


@dataclass(frozen=True, slots=True)
class Training:
    """What to train, and how."""

    model: Any
    groups: Sequence[Group]
    # of a step, for this process; one optimizer step uses the mean of their losses
    batches: Callable[[int], Sequence[Any]]
    loss: Callable[[Any], Any]  # of a batch, whose tensors are on the model's device
    steps: int
    evaluate: Callable[[int], Mapping[str, float]]  # called with the number of finished steps
    evaluate_at: Collection[int]  # 0: before the first step
    best_by: str = ""  # the measure whose best step is kept; empty: the last step is kept
    seed: int = 0
    name: str = "training"  # on the progress bar


class Outcome(NamedTuple):
    """The result of a run; the model holds the weights that were kept."""

    history: list[dict[str, Any]]  # records with a step and either loss and learning_rate, or eval_MEASURE values
    best_step: int  # 0: none was chosen
    resumed_from: int
    seconds: float  # of this call

    def measured(self, step: int) -> dict[str, float]:
        """The measures after a step; empty if it was not evaluated."""
        return {
            name.removeprefix("eval_"): value
            for record in self.history
            if record["step"] == step
            for name, value in record.items()
            if name.startswith("eval_")
        }


@dataclass(slots=True)
class _State:
    """Progress of a run; a checkpoint holds it together with the weights, the optimizer and the random states."""

    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best_step: int = 0
    best_value: float = -math.inf
    loss: float = 0.0  # sum since the last record
    loss_count: int = 0  # losses in that sum
    moved: float = 0.0  # sum over all steps of the norm of the gradient times the rate


def train(training: Training, work: Path, progress: Progress) -> Outcome:
    """Train to the last step; resumes from the last checkpoint in `work`."""
    torch = require("torch", "train")
    begin = time.perf_counter()
    model = training.model
    device = model.device
    torch.manual_seed(training.seed + rank())  # dropout differs between processes
    groups = [{"params": group.parameters, "weight_decay": group.decay} for group in training.groups]
    optimizer = torch.optim.AdamW(groups, fused=device.type == "cuda")
    state = _State()
    checkpoint = last_checkpoint(work)
    random_states = []
    if checkpoint is not None:
        fields = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
        state = _State(**fields)
        _load_weights(model, checkpoint)
        saved = torch.load(checkpoint / "optimizer.pt", map_location="cpu", weights_only=True)
        optimizer.load_state_dict(saved["optimizer"])
        random_states = saved["random_states"]
    resumed_from = state.step
    if not state.step:
        _evaluate(training, state)
    # creating the loader consumes random numbers, so it comes before the random state is restored
    batches = iter(_loader(training, state.step, device))
    for random_state in random_states[rank() : rank() + 1]:  # none if the checkpoint is of fewer processes
        _set_random_state(device, random_state)
    log_every = max(1, min(20, training.steps // 40))
    save_every = min(MAX_STEPS_BETWEEN_CHECKPOINTS, math.ceil(training.steps / MIN_CHECKPOINTS))
    loss, moved = torch.tensor(state.loss, device=device), torch.tensor(state.moved, device=device)
    message = _message(training, state.history)
    while state.step < training.steps:
        model.train()
        step_loss, step_moved = _update(training, optimizer, next(batches), state.step)
        loss += step_loss
        moved += step_moved
        state.loss_count += 1
        state.step += 1
        if state.step % log_every == 0:
            mean = float(loss) / state.loss_count
            rate = optimizer.param_groups[0]["lr"]
            state.history.append({"step": state.step, "loss": mean, "learning_rate": rate})
            message = _message(training, state.history)
            loss.zero_()
            state.loss_count = 0
        if is_first_process():
            progress(message, state.step, training.steps)
        _evaluate(training, state)
        if state.step in training.evaluate_at or state.step % save_every == 0 or state.step == training.steps:
            state.loss, state.moved = float(loss), float(moved)
            _save(work, model, optimizer, state)
    if not float(moved):
        raise LemmataError("training changed nothing: the gradient was 0 at every step; look at the sets and the rate")
    if state.best_step not in (0, state.step):
        _load_weights(model, work / f"checkpoint-{state.best_step}")
    return Outcome(state.history, state.best_step, resumed_from, time.perf_counter() - begin)


def _message(training: Training, history: Sequence[Mapping[str, Any]]) -> str:
    latest = {name: value for record in history for name, value in record.items()}
    loss = f", loss {latest['loss']:.3f}" if "loss" in latest else ""
    validation = latest.get(f"eval_{training.best_by}")
    return f"{training.name}{loss}" + (f", validation {validation:.3f}" if validation is not None else "")


def _update(training: Training, optimizer: Any, batches: Sequence[Any], step: int) -> tuple[Any, Any]:
    """One optimizer step; returns the loss, averaged over batches and processes, and how far it may go."""
    torch = require("torch", "train")
    model = training.model
    total = torch.zeros((), device=model.device)
    for batch in batches:
        loss = training.loss(_moved(batch, model.device)) / len(batches)
        loss.backward()
        total += loss.detach()
    average([total, *(weight.grad for weight in model.parameters() if weight.grad is not None)])
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
    for options, group in zip(optimizer.param_groups, training.groups, strict=True):
        options["lr"] = group.rate(step)
    optimizer.step()
    optimizer.zero_grad()
    return total, norm * max(options["lr"] for options in optimizer.param_groups)


def _evaluate(training: Training, state: _State) -> None:
    if state.step not in training.evaluate_at:
        return
    values = training.evaluate(state.step)
    state.history.append({"step": state.step, **{f"eval_{name}": value for name, value in values.items()}})
    if training.best_by and state.step and values[training.best_by] > state.best_value:
        state.best_step, state.best_value = state.step, values[training.best_by]


def _loader(training: Training, first: int, device: Any) -> Any:
    """The batches of all steps from `first` on; with a GPU, worker processes prefetch them."""
    torch = require("torch", "train")

    class Steps(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        def __getitem__(self, step: int) -> Sequence[Any]:
            return training.batches(step)

    ahead = device.type == "cuda" and (os.cpu_count() or 1) > 4
    return torch.utils.data.DataLoader(
        Steps(),
        batch_size=None,
        sampler=range(first, training.steps),
        num_workers=4 if ahead else 0,
        prefetch_factor=4 if ahead else None,
        pin_memory=device.type == "cuda",
    )


def _moved(value: Any, device: Any) -> Any:
    """Nested dicts and lists with their tensors moved to a device."""
    if isinstance(value, Mapping):
        return {name: _moved(part, device) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_moved(part, device) for part in value]
    return value.to(device, non_blocking=True)


def warm_up_and_decay(step: int, steps: int, warm_up: int) -> float:
    """Share of the full learning rate: linear to 1 at step `warm_up`, then linear towards 0; no step has 0."""
    if step < warm_up:
        return (step + 1) / (warm_up + 1)
    return (steps - step) / (steps - warm_up)


def one_rate(weights: Iterable[Any], rate: float, steps: int, warm_up: float) -> list[Group]:
    """Matrices with weight decay and all else without, at one rate that warms up for a share of the steps."""
    weights = list(weights)

    def rate_at(step: int) -> float:
        return rate * warm_up_and_decay(step, steps, math.ceil(warm_up * steps))

    return [
        Group([weight for weight in weights if (weight.ndim > 1) == is_matrix], rate_at, decay)
        for is_matrix, decay in ((True, WEIGHT_DECAY), (False, 0.0))
    ]


def precision_for(device: Any) -> str:
    """`bf16` on a GPU that supports it, else `fp32`."""
    torch = require("torch", "train")
    fits = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bf16" if fits else "fp32"


# ---------------------------------------------------------------- checkpoints


def last_checkpoint(work: Path) -> Path | None:
    """The newest checkpoint, None if there is none; a checkpoint gets its name only when it is complete."""
    return max(work.glob("checkpoint-*"), key=_step_of, default=None)


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))


def _save(work: Path, model: Any, optimizer: Any, state: _State) -> None:
    """Write a checkpoint, then remove all others except the best."""
    torch = require("torch", "train")
    safetensors = require("safetensors.torch", "train")
    random_states = from_each(_random_state(model.device))
    if is_first_process():
        with writing(work / f"checkpoint-{state.step}") as folder:
            folder.mkdir()
            safetensors.save_file(state_of(model), folder / WEIGHTS)
            torch.save({"optimizer": optimizer.state_dict(), "random_states": random_states}, folder / "optimizer.pt")
            (folder / "state.json").write_text(json.dumps(asdict(state)), encoding="utf-8")
        for checkpoint in work.glob("checkpoint-*"):
            if _step_of(checkpoint) not in (state.step, state.best_step):
                shutil.rmtree(checkpoint)
    barrier()


def _load_weights(model: Any, checkpoint: Path) -> None:
    model.load_state_dict(require("safetensors.torch", "train").load_file(checkpoint / WEIGHTS))


def _random_state(device: Any) -> list[Any]:
    torch = require("torch", "train")
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def _set_random_state(device: Any, states: Sequence[Any]) -> None:
    torch = require("torch", "train")
    torch.set_rng_state(states[0])
    for state in states[1:]:
        torch.cuda.set_rng_state(state, device)
