"""Several processes that torchrun started for one training: who this one is, and what they exchange.

With one process nothing here does anything, and torch is not imported. All processes hold the same weights. Work is
dealt: process r of n takes the items r, r + n, r + 2n, … The loss of a step is the mean of the processes' losses.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from lemmata.core.errors import ConfigError, LemmataError, require

Tensor = Any  # of torch, which is imported where it is needed
Value = TypeVar("Value")
LONGEST_WAIT = datetime.timedelta(days=1)  # others wait while process 0 prepares, measures and writes


def processes() -> int:
    """Number of processes that torchrun started; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """The number of this process, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_first_process() -> bool:
    """Whether this is process 0, which holds the lock, writes the files and prints."""
    return rank() == 0


def own_items() -> slice:
    """The items of a sequence that are dealt to this process."""
    return slice(rank(), None, processes())


def own_device() -> str:
    """The GPU of this process, `cpu` where there is none; ConfigError for more processes than GPUs."""
    torch = require("torch", "train")
    if not torch.cuda.is_available():
        return "cpu"
    number, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= gpus:
        raise ConfigError(f"this machine has fewer GPUs than processes: start torchrun with --nproc-per-node {gpus}")
    return f"cuda:{number}"


def refuse_several(what: str) -> None:
    """ConfigError, with `what` as its subject, where there are several processes."""
    if processes() > 1:
        raise ConfigError(f"{what} with one process only: run it without torchrun")


# ---------------------------------------------------------------- together


@contextlib.contextmanager
def _together() -> Iterator[Any]:
    """`torch.distributed`, all processes joined; LemmataError where another one is gone."""
    torch = require("torch", "train")
    try:
        if not torch.distributed.is_initialized():
            _join(torch)
        yield torch.distributed
    except RuntimeError as error:  # gloo and NCCL know no other
        cause = str(error).strip().split("\n")[0]
        raise LemmataError(
            f"process {rank()} of {processes()} has lost the others, one of which must have ended ({cause}); finished"
            f" work is kept, the same command resumes"
        ) from error


def _join(torch: Any) -> None:
    import atexit

    device = torch.device(own_device())
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.distributed.init_process_group("nccl", timeout=LONGEST_WAIT, device_id=device)
    else:
        torch.distributed.init_process_group("gloo", timeout=LONGEST_WAIT)
    atexit.register(torch.distributed.destroy_process_group)  # its threads must end before the interpreter does


def barrier() -> None:
    if processes() > 1:
        with _together() as distributed:
            distributed.barrier()


def make_once(is_done: Callable[[], bool], make: Callable[[], object]) -> None:
    """Process 0 runs `make` unless it is done; the others wait."""
    if is_first_process() and not is_done():
        make()
    barrier()


@contextlib.contextmanager
def held_by_first(lock: AbstractContextManager[Any]) -> Iterator[None]:
    """Process 0 takes a lock for all; the others read nothing before it has it."""
    with lock if is_first_process() else nullcontext():
        barrier()
        yield


def from_first(make: Callable[[], Value]) -> Value:
    """What `make` returns in process 0, the only one that calls it."""
    values = [make() if is_first_process() else None]
    if processes() > 1:
        with _together() as distributed:
            distributed.broadcast_object_list(values)
    return values[0]  # type: ignore[return-value]


def from_each(value: Value) -> list[Value]:
    values = [value] * processes()
    if processes() > 1:
        with _together() as distributed:
            distributed.all_gather_object(values, value)
    return values


def average(tensors: Sequence[Tensor]) -> None:
    """Replace tensors by their mean over all processes."""
    if processes() == 1:
        return
    torch = require("torch", "train")
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    with _together() as distributed:
        distributed.all_reduce(flat)
    flat /= processes()
    for tensor, mean in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(mean.view_as(tensor))


def gathered(own: Tensor, total: int) -> Tensor:
    """All `total` rows, of which this process has its own items (own, …); rows beyond them are ignored.

    The gradient of a row is the sum over the losses of all processes. With the mean of all gradients of the weights
    (`average`), training on rows that were computed apart equals training in one process.
    """
    if processes() == 1:
        return own
    return _gather().apply(own[: len(range(total)[own_items()])], total)


@functools.cache
def _gather() -> Any:
    """The operation of `gathered`, for which torch must have been imported."""
    torch = require("torch", "train")

    class Gather(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(_context: Any, own: Tensor, total: int) -> Tensor:
            whole = own.new_zeros((total, *own.shape[1:]))
            whole[own_items()] = own
            with _together() as distributed:  # with gloo, adding up zeros takes a third of the time of its gather
                distributed.all_reduce(whole)
            return whole

        @staticmethod
        def backward(_context: Any, gradient: Tensor) -> tuple[Tensor, None]:
            summed = gradient.clone(memory_format=torch.contiguous_format)
            with _together() as distributed:
                distributed.all_reduce(summed)
            return summed[own_items()], None

    return Gather


# ---------------------------------------------------------------- failing


def is_first_to_fail() -> bool:
    """Whether no other process of this machine has said why it fails: what comes later follows from that.

    torchrun gives every process a file for its error, in a folder beside those of the others.
    """
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if processes() == 1 or not file:
        return True
    try:
        (Path(file).parents[1] / "failed").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True
    return True
