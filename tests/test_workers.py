from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lemmata.core.errors import InputError
from lemmata.core.workers import WorkerDied, available_cores, parallel_map, time_limit


def square(number: int) -> int:
    time.sleep(0.002 * (number % 3))
    return number * number


def fragile(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def failing(number: int) -> int:
    raise InputError("no number", file="numbers.txt", line=number)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(workers: int) -> None:
    assert list(parallel_map(square, range(40), workers=workers)) == [(n, n * n) for n in range(40)]


def test_no_items_give_no_results() -> None:
    assert list(parallel_map(square, [], workers=2)) == []


@pytest.mark.slow
def test_a_killed_worker_loses_only_its_own_item() -> None:
    results = dict(parallel_map(fragile, range(30), workers=2))
    assert isinstance(results.pop(7), WorkerDied)
    assert results == {n: n for n in range(30) if n != 7}


def counted(path: str) -> int:
    with open(path, "a") as file:  # noqa: PTH123
        file.write("x")
    if path.endswith("5"):
        os.kill(os.getpid(), signal.SIGKILL)
    while path.endswith("0") and Path(path).read_text() == "x":  # until it is stopped because the other was killed
        time.sleep(0.01)
    return len(path)


def test_after_a_kill_all_items_that_were_under_way_are_tried_alone(tmp_path: Path) -> None:
    results = list(parallel_map(counted, [str(tmp_path / str(n)) for n in range(8)], workers=2))
    assert [isinstance(result, WorkerDied) for _, result in results] == [n == 5 for n in range(8)]
    assert (tmp_path / "5").read_text() == "xx"  # once among others, once alone


_WAITING = """
import os, sys, time
from lemmata.core.workers import parallel_map

def wait(number):
    print(os.getpid(), flush=True)
    time.sleep(600)

list(parallel_map(wait, range(2), workers=2))
"""


def test_workers_end_with_a_process_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _WAITING], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline()
        process.kill()
        process.stdout.read()  # ends when no worker has it open any more


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_of_the_function_is_raised(workers: int) -> None:
    with pytest.raises(InputError, match=r"numbers\.txt:1"):
        list(parallel_map(failing, range(1, 3), workers=workers))


def test_items_are_taken_lazily() -> None:
    taken = []

    def items() -> object:
        for number in range(1000):
            taken.append(number)
            yield number

    results = parallel_map(square, items(), workers=2)  # type: ignore[arg-type]
    next(results)
    assert len(taken) < 50
    results.close()  # type: ignore[attr-defined]


def test_the_time_limit_holds_only_inside_the_block() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeoutError), time_limit(0.05):
        time.sleep(60)
    assert signal.getsignal(signal.SIGALRM) is before
    with time_limit(60):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_there_is_at_least_one_core() -> None:
    assert available_cores() >= 1
