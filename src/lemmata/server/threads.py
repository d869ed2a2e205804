"""The threads that work on requests: a bounded queue before them, and a time limit for each request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lemmata.server.deadline import deadline
from lemmata.server.failures import StatusError


class Workers:
    """A number of threads; `waiting` requests may wait for one, and each may take some seconds, waiting included."""

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self._most, self._seconds = threads + waiting, seconds
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lemmata")
        self.busy = 0  # requests in threads or waiting for one

    def submit(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Start `work` as soon as a thread is free; StatusError where too many are waiting."""
        if self.busy >= self._most:
            raise StatusError(503, "busy", "too many requests at once", "try again in a second", {"retry-after": "1"})
        self.busy += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(self._finished)
        return future

    async def run(self, work: Callable[[], Any]) -> Any:
        """The result of `work`; one that timed out keeps its thread until it looks at the time, or ends."""
        end = time.monotonic() + self._seconds

        def in_time() -> Any:
            with deadline(end):
                return work()

        future = self.submit(in_time)
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.shield(future)
        except TimeoutError:
            message = f"the answer took more than {self._seconds:g} s"
            raise StatusError(503, "timeout", message, "ask for less, or try again", {"retry-after": "5"}) from None

    def _finished(self, future: asyncio.Future[Any]) -> None:
        self.busy -= 1
        if not future.cancelled():
            future.exception()  # nobody may be waiting for it any more

    def close(self) -> None:
        """Wait for the requests in threads; those that wait are dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)
