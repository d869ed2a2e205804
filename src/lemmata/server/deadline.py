"""The time limit of the request that a thread works on: no thread can be stopped, so long work looks at it itself."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator

_of_thread = threading.local()


@contextlib.contextmanager
def deadline(end: float) -> Iterator[None]:
    """Work of this thread that calls `check_time` ends at this time of the monotonic clock."""
    _of_thread.end = end
    try:
        check_time()  # it may have waited for its thread too long
        yield
    finally:
        del _of_thread.end


def check_time() -> None:
    """TimeoutError after the deadline of this thread; to be called between two steps of long work."""
    if time.monotonic() > getattr(_of_thread, "end", math.inf):
        raise TimeoutError
