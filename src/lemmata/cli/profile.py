"""Seconds, CPU seconds and peak memory of the stages of a run."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lemmata.cli.output import megabytes, table

if TYPE_CHECKING:
    from rich.table import Table


class StageProfile(NamedTuple):
    """What one stage cost."""

    stage: str
    seconds: float
    cpu_seconds: float  # of this process and of its workers that have ended
    peak_bytes: int  # of this process; where the system cannot tell it by stage, since the beginning


class Profiler:
    """Measures from one `begin` to the next."""

    def __init__(self) -> None:
        self._stages: list[StageProfile] = []
        self._stage = ""
        self._begin = (0.0, 0.0)

    def begin(self, stage: str) -> None:
        """The stage before ends here."""
        self._finish()
        self._stage = stage
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak so far
        self._begin = time.perf_counter(), _cpu_seconds()

    def _finish(self) -> None:
        if self._stage:
            seconds, cpu = time.perf_counter() - self._begin[0], _cpu_seconds() - self._begin[1]
            self._stages.append(StageProfile(self._stage, round(seconds, 3), round(cpu, 3), _peak_bytes()))

    def end(self) -> list[StageProfile]:
        """All stages, in the order in which they ran."""
        self._finish()
        self._stage = ""
        return self._stages


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _peak_bytes() -> int:
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def profile_table(stages: Sequence[StageProfile]) -> Table:
    """The profile for a terminal, with its sum."""
    seconds, cpu = (sum(values) for values in zip(*((s.seconds, s.cpu_seconds) for s in stages), strict=True))
    rows = [*stages, StageProfile("all", seconds, cpu, max(stage.peak_bytes for stage in stages))]
    return table(
        ("stage", ">seconds", ">CPU seconds", ">peak memory"),
        [(row.stage, f"{row.seconds:,.1f}", f"{row.cpu_seconds:,.1f}", megabytes(row.peak_bytes)) for row in rows],
    )
