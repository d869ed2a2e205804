"""Runs `lemmata adapt` every night while a workspace is served: in a process of its own, at the lowest priority."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

_HOUR = 3  # of the night, local time
_log = logging.getLogger("lemmata.server")


def seconds_until_night(now: datetime) -> float:
    """How long it is until the next night's hour."""
    night = now.replace(hour=_HOUR, minute=0, second=0, microsecond=0)
    return (night + timedelta(days=night <= now) - now).total_seconds()


def adapt_command(folder: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "lemmata", "adapt", "-w", str(folder)]


@contextlib.contextmanager
def adapting_nightly(
    command: list[str], pause: Callable[[datetime], float] = seconds_until_night
) -> Iterator[threading.Thread]:
    """Run a command after each pause until the block ends, which stops one that is running.

    A server takes over what is adopted by itself, as after any other command.
    """
    stopped = threading.Event()

    def work() -> None:
        while not stopped.wait(pause(datetime.now())):
            with tempfile.TemporaryFile("w+") as said:
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)  # noqa: S603 - our own
                if hasattr(os, "setpriority"):
                    with contextlib.suppress(OSError):  # it may be done already
                        os.setpriority(os.PRIO_PROCESS, process.pid, 19)
                while process.poll() is None and not stopped.wait(0.2):
                    pass
                if process.poll() is None:
                    process.terminate()
                elif process.returncode:
                    said.seek(0)
                    _log.warning("adapting failed: %s", said.read()[-1000:].strip())
                process.wait()

    thread = threading.Thread(target=work, name="adapt", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stopped.set()
        thread.join()
