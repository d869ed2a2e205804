"""Connections of the server: those that only wait are closed after a while, and one address cannot hold them all."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

_MINUTE = 60.0
_log = logging.getLogger("lemmata.server.connections")


class Connection(H11Protocol):
    """HTTP/1.1 of uvicorn, which by itself waits without end for the rest of a head and for clients that do not read.

    Both get as long as a connection that is kept alive. Half of the files that the process may open are for
    connections, and half of these for one address; the oldest that waits for a request gives way to a new one.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._since = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        most = _most_files() // 2
        others = [other for other in self.connections if isinstance(other, Connection)]
        of_address = [other for other in others if other._address() == self._address()]
        for rivals, share in ((of_address, most // 2), (others, most)):
            if len(rivals) > share:
                min((other for other in rivals if other._awaits_request()), key=lambda other: other._since).drop()
                _log.warning("too many connections: those that send no request are closed")
                return

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()

    def drop(self) -> None:
        """Close it at once, whatever the client still has to read."""
        self.connections.discard(self)  # aborting takes effect later
        self.transport.abort()

    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _awaits_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        """Start the time of a client that keeps the server waiting; one that sends a head bit by bit gets no more."""
        if not (self._awaits_request() or self.flow.write_paused):
            self._stop_timer()
        elif self._timer is None:
            unsent = self.transport.get_write_buffer_size()
            self._timer = self.loop.call_later(self.timeout_keep_alive, self._time_out, unsent)

    def _time_out(self, unsent: int) -> None:
        self._timer = None
        if 0 < self.transport.get_write_buffer_size() < unsent:  # slow, but it reads
            self._watch()
        else:
            self.drop()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _most_files() -> int:
    """Files that this process may open, as far as the server needs to know."""
    if sys.platform == "win32":
        return 512
    import resource

    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096)


class OncePerMinute(logging.Filter):
    """Lets what clients can cause as often as they like through once a minute each, and without a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        cannot_accept = record.name == "asyncio" and isinstance(error, OSError)
        if record.levelno > logging.WARNING and not cannot_accept:
            return True
        message, now = str(record.msg).partition("\n")[0], time.monotonic()
        if now - self._last.get(message, -_MINUTE) < _MINUTE:
            return False
        self._last[message] = now
        record.msg, record.exc_info = message, None
        return True


_once_per_minute = OncePerMinute()
for _name in ("asyncio", "uvicorn.error", _log.name):
    logging.getLogger(_name).addFilter(_once_per_minute)
