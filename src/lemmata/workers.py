"""An ordered parallel map with bounded look-ahead, a time limit, and torch on one thread."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from types import FrameType
from typing import Any, TypeVar

__all__ = ["WorkerDied", "available_cores", "count_step", "one_torch_thread", "parallel_map", "time_limit"]

Item = TypeVar("Item")
Result = TypeVar("Result")


_TICK = 0.5  # seconds between two calls of `waiting`


class _Steps:
    """How many steps were done; shared by the worker processes, which only count."""

    def __init__(self, waiting: Callable[[int], None] | None = None, shared: Any = None) -> None:
        self.waiting = waiting
        self.shared = shared
        self.done = 0
        self.last_call = time.monotonic()

    def count(self) -> None:
        if self.shared is not None:
            self.shared.value += 1
            return
        self.done += 1
        if self.waiting and time.monotonic() - self.last_call > _TICK:
            self.last_call = time.monotonic()
            self.waiting(self.done)


_steps = _Steps()


def _use_steps(steps: _Steps) -> None:
    global _steps
    _steps = steps


def _share_steps(shared: Any) -> None:
    _use_steps(_Steps(shared=shared))


def count_step() -> None:
    """Count one step of an item, for example a document that was read, for the `waiting` of `parallel_map`."""
    _steps.count()


class WorkerDied(Exception):  # noqa: N818 - says what happened
    """The process that worked on an item was killed, for example because memory ran out."""


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parallel_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int | None = None,
    waiting: Callable[[int], None] | None = None,
) -> Iterator[tuple[Item, Result | WorkerDied]]:
    """Each item with `function(item)`, in the order of the items, computed in `workers` processes.

    With one worker everything runs in this process. An item whose process dies has a WorkerDied as its
    result; the other items are not affected. Exceptions of the function are raised here. `waiting` is called every
    half second with the number of steps done so far (`count_step`), in this process between two steps only.
    """
    workers = available_cores() if workers is None else workers
    if workers <= 1:
        steps = _Steps(waiting)
        for item in items:
            _use_steps(steps)
            yield item, function(item)
        return
    remaining = iter(items)
    pending: deque[Item] = deque()  # taken from `items`, without a result yet
    # forked workers need no import and no main guard in the caller's script
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    shared = context.RawValue("q", 0)  # without a lock, which a killed worker would keep; a lost step does not matter
    while True:
        try:
            with ProcessPoolExecutor(workers, mp_context=context, initializer=_share_steps, initargs=(shared,)) as pool:
                futures: deque[Future[Result]] = deque(pool.submit(function, item) for item in pending)
                while True:
                    for item in islice(remaining, 4 * workers - len(futures)):
                        pending.append(item)
                        futures.append(pool.submit(function, item))
                    if not futures:
                        return
                    while waiting and wait([futures[0]], _TICK).not_done:
                        waiting(shared.value)
                    result = futures[0].result()
                    futures.popleft()
                    yield pending.popleft(), result
        except BrokenProcessPool:
            # one of the pending items killed its worker: run each alone to find out which
            for item in list(pending)[: 4 * workers]:
                pending.popleft()
                yield item, _run_alone(function, item, context)


def _run_alone(
    function: Callable[[Item], Result], item: Item, context: multiprocessing.context.BaseContext
) -> Result | WorkerDied:
    try:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(function, item).result()
    except BrokenProcessPool:
        return WorkerDied("the process that read it was killed")


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError inside the block after `seconds`; there is no limit outside the main thread."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def expire(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"it took more than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@contextlib.contextmanager
def one_torch_thread(torch: Any) -> Iterator[None]:
    """Let torch use one thread: where operations are short, several would wait for each other after each."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
