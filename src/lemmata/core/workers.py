"""An ordered parallel map with bounded look-ahead, on this machine or a Ray cluster; time limits; threads of torch."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from itertools import islice
from types import FrameType
from typing import Any, TypeVar

from lemmata.core.errors import ConfigError, LemmataError, first_line, require
from lemmata.core.types import Progress

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


def _start_worker(parent: int, shared: Any) -> None:
    _use_steps(_Steps(shared=shared))
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End a worker whose parent was killed: its siblings hold the pipes open, so it would wait for ever."""
    while os.getppid() == parent:
        time.sleep(_TICK)
    os._exit(1)


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

    With one worker everything runs in this process; without a number, inside `computing_on`, on the cluster. An item
    whose process dies has a WorkerDied as its result; the other items are not affected. Exceptions of the function are
    raised here. `waiting` is called every half second with the number of steps done so far (`count_step`), in this
    process between two steps only.
    """
    if is_on_cluster() and workers is None:
        yield from ray_map(function, items, waiting=waiting)
        return
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
            start = partial(_start_worker, os.getpid(), shared)
            with ProcessPoolExecutor(workers, mp_context=context, initializer=start) as pool:
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
        return WorkerDied("the process that worked on it was killed")


# ---------------------------------------------------------------- a Ray cluster

_RETRIES = 2  # of an item whose process or node died
_STARTS = 3  # of Ray, whose parts give up waiting for each other on a busy machine
_connected = False


def is_on_cluster() -> bool:
    """Whether `parallel_map` runs on a cluster here."""
    return _connected


@contextlib.contextmanager
def computing_on(where: str, progress: Progress | None = None) -> Iterator[None]:
    """Run `parallel_map` on a Ray cluster inside the block: `local` starts one on this machine, else its address.

    An address is ray://HOST:PORT or, on a machine of the cluster, HOST:PORT or auto. "" changes nothing. Raises
    ConfigError where there is no such cluster.
    """
    global _connected
    if not where:
        yield
        return
    if where not in ("auto", "local") and ":" not in where:
        raise ConfigError(f"--on {where}: possible are local, auto, HOST:PORT and ray://HOST:PORT")
    if progress:
        progress("starting Ray" if where == "local" else "connecting to Ray", 0, None)
    ray = require("ray", "scale")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # of items that were sent ahead of one that failed
    options: dict[str, Any] = {"address": where, "log_to_driver": False, "logging_level": "ERROR"}
    if where == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves this machine
        os.environ.setdefault("RAY_task_oom_retries", str(_RETRIES))  # by default without end
        os.environ.setdefault("RAY_worker_niceness", "0")  # as this process; by default 15
        options |= {"num_cpus": available_cores(), "include_dashboard": False}
    for _ in range(_STARTS if where == "local" else 1):
        if (error := _connect(ray, options)) is None:
            break
    if error is not None:
        what, cure = (
            ("Ray could not be started", "end other programs, or leave out --on")
            if where == "local"
            else ("the Ray cluster cannot be reached", "check the address, and that it has the same Ray and Python")
        )
        raise ConfigError(f"--on {where}: {what} ({first_line(error)}): {cure}") from error
    _connected = True
    try:
        yield
    finally:
        _connected = False
        ray.shutdown()


def _connect(ray: Any, options: Mapping[str, Any]) -> Exception | None:
    """Start or reach a cluster; the error where it cannot be."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about changes in later versions of Ray
            ray.init(**options)
    except Exception as error:  # Ray raises nothing more specific
        ray.shutdown()
        return error
    return None


def ray_map(
    function: Callable[[Item], Result], items: Iterable[Item], *, waiting: Callable[[int], None] | None = None
) -> Iterator[tuple[Item, Result | WorkerDied]]:
    """`parallel_map` on the cluster of `computing_on`: the same results in the same order.

    The function is sent once to each process, so it may hold what all items need. At most four items per core are sent
    ahead: with their results, they are all that the object store holds. An item whose process or node dies is tried
    again twice. `waiting` gets the steps of the results so far. What was sent ahead of an error is computed for
    nothing: Ray 2.60 aborts a process that cancels an item at the moment at which it is done.
    """
    ray = require("ray", "scale")
    died = ray.exceptions
    lost = (died.WorkerCrashedError, died.NodeDiedError, died.OutOfMemoryError, died.ObjectLostError)
    send = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run_item).remote
    remaining = iter(items)
    pending: deque[tuple[Item, Any]] = deque()  # items, and references to their results
    steps = 0
    try:
        shared = (_version(), ray.put(function))
        cores = _cores(ray)
        while True:
            room = max(0, 4 * cores - len(pending))
            pending.extend((item, send(shared, item)) for item in islice(remaining, room))
            if not pending:
                return
            item, reference = pending[0]
            while not ray.wait([reference], timeout=_TICK)[0]:
                cores = _cores(ray)  # nodes may come and go
                if waiting:
                    waiting(steps)
            result: Result | WorkerDied
            try:
                result, done = ray.get(reference)
                steps += done
            except lost as error:
                result = WorkerDied(f"the process that worked on it was killed ({type(error).__name__})")
            pending.popleft()
            yield item, result
    except died.RayTaskError as error:
        raise error.cause from error  # an exception of the function
    except (died.RayError, ConnectionError) as error:
        cause = f"the Ray cluster failed ({first_line(error)})"
        raise LemmataError(f"{cause}; finished work is kept, the same command resumes") from error


def cluster_map(
    function: Callable[[Item], Result], items: Iterable[Item], *, batch: int
) -> Iterator[tuple[Item, Result]]:
    """Each item with `function(item)`, in order: in this process or, inside `computing_on`, in batches on the cluster.

    Raises LemmataError for a batch whose process died again and again.
    """
    if not is_on_cluster():
        for item in items:
            yield item, function(item)
        return
    remaining = iter(items)
    batches = iter(lambda: list(islice(remaining, batch)), [])
    for some, results in ray_map(partial(_apply, function), batches):
        if isinstance(results, WorkerDied):
            raise LemmataError(f"{results}: give the nodes of the cluster more memory, or leave out --on")
        yield from zip(some, results, strict=True)


def _apply(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    return [function(item) for item in items]


def _run_item(shared: tuple[str, Any], item: Item) -> tuple[Any, int]:
    """The result of an item and how many steps it took; runs in a process of the cluster."""
    steps = _Steps()
    _use_steps(steps)
    return _received_function(*shared)(item), steps.done


@lru_cache(maxsize=1)
def _received_function(version: str, reference: Any) -> Callable[[Any], Any]:
    if version != _version():
        raise ConfigError(f"a node of the cluster has lemmata {_version()}, not {version}: install the same on all")
    function: Callable[[Any], Any] = require("ray", "scale").get(reference)
    return function


def _version() -> str:
    from importlib.metadata import version

    return version("lemmata")


def _cores(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


# ---------------------------------------------------------------- limits


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
