"""Calls to services, mostly of JSON: timeouts, retries with back-off and `Retry-After`, and one cache of answers.

Knows nothing of models or prompts. Connections, proxies and certificates are those of urllib.
"""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import json
import random
import sqlite3
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import Any, TypeVar

from lemmata.core.database import check_journal
from lemmata.core.errors import InputError, LemmataError
from lemmata.core.keys import NO_KEY, ApiKey

_LONGEST_WAIT = 120.0  # seconds; a Retry-After beyond it is a failure, not a pause
_MAY_PASS = (408, 409, 425, 429)  # and every status from 500 on
_NO_ACCESS = (401, 404)  # whatever is sent
_LONGEST_LINE = 2**20  # bytes of one server-sent event
Result = TypeVar("Result")


@dataclass(eq=False)
class CallError(LemmataError):
    """A call without a usable answer; `Service.call` completes the message with the address."""

    cause: str
    status: int = 0  # of the HTTP answer; 0 where there was none
    retry: bool = False  # the same call may succeed later
    closed: bool = False  # every other call would fail too
    pause: float = 0.0  # seconds that the service asks to wait
    charged: bool = False  # the service may have worked on the call, and billed it


class Service:
    """A model behind an address such as `http://localhost:11434/v1`; may be shared by threads.

    `timeout` is the number of seconds for a whole answer, `back_off` the first pause in seconds, doubled after
    each further failure, `agent` the name under which it is asked. UntrustedAddress where the `key` does not admit it.
    """

    def __init__(
        self,
        url: str,
        model: str,
        key: ApiKey = NO_KEY,
        *,
        timeout: float = 60.0,
        retries: int = 5,
        back_off: float = 1.0,
        agent: str = "",
    ) -> None:
        key.check(url)
        self.url, self.model = url.rstrip("/"), model
        self.timeout, self._retries, self._back_off = timeout, retries, back_off
        self._headers = {"Content-Type": "application/json"}
        if secret := key.secret_for(url):
            self._headers["Authorization"] = f"Bearer {secret}"
        self._withheld = key.why_withheld(url)
        self._headers |= {"User-Agent": agent} if agent else {}
        handlers: list[urllib.request.BaseHandler] = [_Redirects()]
        if url.startswith("https"):
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context()))
        self._opener = urllib.request.build_opener(*handlers)
        self._reached = False  # whether the service ever answered, in whatever way

    def call(self, attempt: Callable[[], Result], wait: Callable[[float], None] = time.sleep) -> Result:
        """The result of `attempt`, which makes one call and is repeated while its failure may pass."""
        failures = 0
        while True:
            try:
                return attempt()
            except CallError as failure:
                failures += 1
                if not failure.retry or failures > self._retries:
                    failure.args = (self._sentence(failure, failures),)
                    raise
                pause = self._back_off * 2.0 ** (failures - 1) * random.uniform(0.5, 1.5)
                wait(max(failure.pause, min(pause, _LONGEST_WAIT)))

    def post(self, path: str, body: Mapping[str, Any], timeout: float | None = None) -> Any:
        """One call, without retries: the JSON of the answer, or CallError."""
        with self._open(path, body, timeout) as (response, end):
            return json.loads(_read_until(response, end))

    def post_stream(
        self, path: str, body: Mapping[str, Any], timeout: float | None = None
    ) -> Generator[Any, None, None]:
        """One call, without retries: the JSON of each server-sent event as it arrives, or CallError.

        A service that does not stream gives one value. Close the iterator to leave early.
        """
        with self._open(path, body, timeout) as (response, end):
            if "event-stream" not in response.headers.get("Content-Type", ""):
                yield json.loads(_read_until(response, end))
                return
            while line := response.readline(_LONGEST_LINE):
                field, _, value = line.decode("utf-8", "replace").strip().partition(":")
                if field == "data" and value.strip() == "[DONE]":
                    return
                if field == "data":
                    yield json.loads(value)
                if time.monotonic() > end:
                    raise TimeoutError

    @contextlib.contextmanager
    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[tuple[Any, Iterator[bytes]]]:
        """One call, without retries: the answer, and its body in pieces, which comes whole or is a CallError."""
        with self._open(path, None, None, headers or {}) as (response, end):
            yield response, _pieces(response, end)

    @contextlib.contextmanager
    def _open(
        self, path: str, body: Mapping[str, Any] | None, timeout: float | None, headers: Mapping[str, str] | None = None
    ) -> Iterator[tuple[Any, float]]:
        """The answer to one call, and when its time ends; whatever goes wrong until it is read becomes a CallError."""
        seconds = self.timeout if timeout is None else timeout
        end = time.monotonic() + seconds
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, {**self._headers, **(headers or {})})  # noqa: S310
        try:
            with self._opener.open(request, timeout=seconds) as response:
                self._reached = True
                yield response, end
        except urllib.error.HTTPError as error:
            self._reached = True
            raise _status_failure(error, self._withheld) from error
        except urllib.error.URLError as error:  # before the whole request was sent
            raise CallError(str(error.reason), retry=self._reached, closed=not self._reached) from error
        except TimeoutError as error:
            raise CallError(f"no answer within {seconds:g} s", retry=True, charged=True) from error
        except (OSError, HTTPException, ValueError) as error:
            cause = f"the answer broke off{' or is not JSON' if data else ''} ({error})"
            raise CallError(cause, retry=True, charged=True) from error

    def _sentence(self, failure: CallError, attempts: int) -> str:
        if failure.closed and not failure.status:
            return f"{self.url} cannot be reached for {self.model}: {failure.cause}"
        if failure.retry:
            times = "once" if attempts == 1 else f"{attempts} times"
            return f"{self.url} failed {times} for {self.model}: {failure.cause}"
        return f"{self.url} refused {self.model}: {failure.cause}"


class _Redirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an error unless it stays on the same host: it would send the key to another address."""

    def redirect_request(self, req: urllib.request.Request, *details: Any) -> urllib.request.Request | None:
        here, there = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(details[-1])
        stays = req.get_method() == "GET" and here[:2] == there[:2]
        return super().redirect_request(req, *details) if stays else None


def _read_until(response: Any, end: float) -> bytes:
    return b"".join(_pieces(response, end))


def _pieces(response: Any, end: float) -> Iterator[bytes]:
    """The whole body, piece by piece, so that a slow sender cannot hold the caller beyond `end`."""
    missing: int | None = response.length  # None: as long as the service sends
    while missing != 0 and (piece := response.read1(2**16)):
        yield piece
        missing = None if missing is None else missing - len(piece)
        if time.monotonic() > end:
            raise TimeoutError
    if missing:
        raise IncompleteRead(b"", missing)


def _status_failure(error: urllib.error.HTTPError, withheld: str) -> CallError:
    body = b""
    with error, contextlib.suppress(OSError, HTTPException):
        body = error.read(10_000)
    message, code = body.decode("utf-8", "replace") or error.reason, ""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        details = json.loads(body)["error"]
        message, code = details["message"], details.get("code", "")
    cause = f"status {error.code}, {excerpt(str(message), 300)}"
    if withheld and error.code in (401, 403):
        cause += f"; {withheld}"
    if error.code not in _MAY_PASS and error.code < 500:
        return CallError(cause, status=error.code, closed=error.code in _NO_ACCESS)
    pause = _retry_after(error.headers.get("Retry-After", ""))
    if pause > _LONGEST_WAIT:
        cause += f"; it asks to wait {pause:.0f} s"
    retry = pause <= _LONGEST_WAIT and code != "insufficient_quota"
    return CallError(cause, status=error.code, retry=retry, closed=not retry, pause=pause)


def _retry_after(value: str) -> float:
    """Seconds; 0 where the header is missing or unreadable, which the back-off then covers."""
    try:
        return max(0.0, float(value))
    except ValueError:
        date = email.utils.parsedate_tz(value)
        return max(0.0, email.utils.mktime_tz(date) - time.time()) if date else 0.0


def excerpt(text: str, longest: int) -> str:
    """A text on one line, cut where it is longer than `longest` characters."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


# ---------------------------------------------------------------- answers on disk


def cache_key(*parts: Any) -> bytes:
    """The digest of everything that determines an answer."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


class AnswerCache:
    """Answers by their key in a SQLite file; whatever was written survives a kill. May be shared by threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        check_journal(path)
        with self._explain():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, check_same_thread=False, timeout=60, isolation_level=None)
        # a transaction in the write-ahead log survives the end of the process without waiting for the disk
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = NORMAL")
        self.execute("CREATE TABLE IF NOT EXISTS cache (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")

    def read(self, key: bytes) -> bytes | None:
        rows = self.execute("SELECT value FROM cache WHERE key = ?", key)
        return rows[0][0] if rows else None

    def write(self, key: bytes, value: bytes) -> None:
        self.execute("INSERT OR REPLACE INTO cache VALUES (?, ?)", key, value)

    def execute(self, statement: str, *values: Any) -> list[Any]:
        with self._lock, self._explain():
            return self._connection.execute(statement, values).fetchall()

    @contextlib.contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            cause = f"cannot be used as a cache ({error}); delete it if it is damaged"
            raise InputError(cause, file=str(self._path)) from error

    def close(self) -> None:
        with self._lock:
            self._connection.close()
