"""A dependable client for any OpenAI-compatible chat endpoint: cache, retries, budget, checked answers.

It knows nothing of graphs, questions or answers: a prompt and a JSON schema go in, a checked value comes out.
What goes wrong with one request is part of its answer and is never raised; a cache that can not be used is an error.
"""

from __future__ import annotations

import email.utils
import hashlib
import json
import math
import re
import sqlite3
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.errors import ConfigError, InputError, require
from lemmata.llm.answers import complaints, excerpt, read_json, to_json_text

__all__ = [
    "Answer",
    "Budget",
    "Chat",
    "Preview",
    "Request",
    "Spent",
]

_TURNS = 3  # the question, and two more with what was wrong
_LONGEST_WAIT = 120.0  # seconds: what a Retry-After beyond it asks for is a failure, not a pause
_GIVE_UP = 8  # requests in a row that failed after all retries: then the server is called down
_LOOK_AHEAD = 16  # requests taken in per worker, so that one slow answer does not stop the others
_TEMPLATE_TOKENS = 128  # at most, of what a server wraps around the messages


class Request(NamedTuple):
    """One question to the model; equal questions are asked once."""

    system: str
    user: str
    schema: Mapping[str, Any] | None = None  # JSON schema of the answer; None for plain text
    check: str = "answer"  # the name under which the server is told the schema


class Answer(NamedTuple):
    """What came of one request; either `error` is empty or the request may be asked again."""

    text: str  # as the model wrote it
    value: Any = None  # the parsed and checked JSON; None for plain text and failures
    tokens_in: int = 0  # over all turns; where the server does not say, the most it can have been
    tokens_out: int = 0
    cached: bool = False
    error: str = ""  # one sentence, or "budget" where nothing was asked any more
    truncated: bool = False  # the text breaks off; `value` holds its complete items


class Preview(NamedTuple):
    """What a run would take, estimated before anything is sent."""

    calls: int
    cached: int
    tokens_in: int
    tokens_out: int
    cost: float
    seconds: float


class Spent(NamedTuple):
    """What was used up."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def without(self, before: Spent) -> Spent:
        """What was used up since."""
        return Spent(self.calls - before.calls, self.tokens - before.tokens, self.cost - before.cost)


class Budget:
    """Hard limits that all calls made with this object share; a limit left out is none.

    A call is only made if its worst case, together with that of all calls in flight, still fits. Every
    attempt counts as a call, repeated and refused ones too. The clock of `seconds` starts with the first
    call. `spent` carries on from an earlier run, for example with `Chat.spent()`.
    """

    def __init__(
        self,
        calls: float = math.inf,
        tokens: float = math.inf,
        cost: float = math.inf,
        seconds: float = math.inf,
        *,
        spent: Spent | None = None,
    ) -> None:
        self.calls, self.tokens, self.cost, self.seconds = calls, tokens, cost, seconds
        self._spent = spent or Spent()
        self._held = Spent()  # the worst case of what is in flight, beyond `_spent`
        self._end: float | None = None
        self._changed = threading.Condition()

    @property
    def spent(self) -> Spent:
        with self._changed:
            return self._spent

    def seconds_left(self) -> float:
        with self._changed:
            if self._end is None:
                self._end = time.monotonic() + self.seconds
            return self._end - time.monotonic()

    def reserve(self, tokens: int, cost: float) -> bool:
        """Take one call and its worst case, or say that it does not fit; waits for calls in flight if they decide."""
        with self._changed:
            while True:
                if self.seconds_left() <= 0 or not self._fits(self._spent, tokens, cost):
                    return False
                if self._fits(_added(self._spent, self._held), tokens, cost):
                    self._spent = self._spent._replace(calls=self._spent.calls + 1)
                    self._held = _added(self._held, Spent(0, tokens, cost))
                    return True
                self._changed.wait(min(1.0, self.seconds_left()))

    def settle(self, held: Spent, used: Spent) -> None:
        """Replace the reserved worst case by what the call did use."""
        with self._changed:
            self._held = Spent(0, self._held.tokens - held.tokens, self._held.cost - held.cost)
            self._spent = _added(self._spent, used._replace(calls=0))
            self._changed.notify_all()

    def _fits(self, spent: Spent, tokens: int, cost: float) -> bool:
        return (
            spent.calls + 1 <= self.calls
            and spent.tokens + tokens <= self.tokens
            and spent.cost + cost <= self.cost * (1 + 1e-9)  # sums of cents do not add up exactly
        )


def _added(left: Spent, right: Spent) -> Spent:
    return Spent(left.calls + right.calls, left.tokens + right.tokens, left.cost + right.cost)


# ---------------------------------------------------------------- the client


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What the server is sent, found out by what it refuses."""

    format: str  # json_schema, json_object, text
    limit: str = "max_tokens"  # newer models want max_completion_tokens
    temperature: bool = True  # some models take no other than their own


class _Reply(NamedTuple):
    text: str
    tokens_in: int | None
    tokens_out: int | None
    cut: bool


class _Trouble(Exception):  # noqa: N818 - what one call met; becomes an error if it stays
    """One call that gave no reply."""

    def __init__(self, cause: str, kind: str, *, pause: float = 0.0, charged: bool = False) -> None:
        super().__init__(cause)
        self.cause = cause
        self.kind = kind  # again, refused (this request), forbidden, closed (all requests), unreachable
        self.pause = pause  # seconds that the server asks for
        self.charged = charged  # the server may have worked, and counted it


class _Failed(Exception):  # noqa: N818 - becomes the error of an answer
    """A request that will get no answer in this run."""


class Chat:
    """A model behind an address such as `http://localhost:11434/v1`.

    `cache` is a SQLite file of answers and of all calls made; it survives the process being killed at any
    moment. `prices` are (input, output) per million tokens in any currency. `json_mode` is `auto`,
    `json_schema`, `json_object` or `text`; with `auto` the server's refusals decide. `answer_tokens` is the
    longest answer asked for, which is what makes a worst case known. `back_off` is the first pause in
    seconds, doubled after each further failure.
    """

    def __init__(
        self,
        url: str,
        model: str,
        key: str = "",
        *,
        cache: Path,
        concurrency: int = 4,
        timeout: float = 60.0,
        retries: int = 5,
        temperature: float = 0.0,
        prices: tuple[float, float] = (0.0, 0.0),
        json_mode: str = "auto",
        answer_tokens: int = 2048,
        back_off: float = 1.0,
        generator: np.random.Generator | None = None,
    ) -> None:
        if json_mode not in ("auto", "json_schema", "json_object", "text"):
            raise ConfigError(f"json_mode is auto, json_schema, json_object or text, not {json_mode!r}")
        if concurrency < 1 or retries < 0 or timeout <= 0 or answer_tokens < 1:
            raise ConfigError("concurrency, timeout and answer_tokens are positive, and retries is not negative")
        self._openai = require("openai", "llm")
        self.url, self.model = url, model
        self.down = ""  # why the server can not be used at all, as one sentence; reset by each run
        self._concurrency, self._timeout, self._retries = concurrency, timeout, retries
        self._temperature, self._prices, self._adapts = temperature, prices, json_mode == "auto"
        self._answer_tokens, self._back_off = answer_tokens, back_off
        self._generator = generator or np.random.default_rng()
        self._dialect = _Dialect("json_schema" if json_mode == "auto" else json_mode)
        self._memory = _Memory(cache)
        self._lock = threading.Lock()
        self._reached = False  # whether the server ever answered, in whatever way
        self._answered = False  # whether it ever gave a reply
        self._failures = 0  # requests in a row
        self._quiet_until = 0.0  # what one call was told by Retry-After holds for all
        self._client = self._openai.OpenAI(base_url=url, api_key=key or "none", timeout=timeout, max_retries=0)
        # a body that breaks off is reported by the transport, which openai 1 and 3 take from different libraries
        self._transport_errors = tuple(sys.modules[n].HTTPError for n in ("httpx", "httpx2") if n in sys.modules)

    def close(self) -> None:
        """Let go of connections and the cache."""
        self._client.close()
        self._memory.close()

    def spent(self) -> Spent:
        """What all calls through this cache have used, also in earlier processes; calls cut short at their worst."""
        return self._memory.spent()

    def preview(self, requests: Iterable[Request]) -> Preview:
        """Calls, tokens, cost and seconds if all goes well; from what this model took so far where that is known."""
        cached = calls = characters = 0
        seen: set[bytes] = set()
        for request in requests:
            digest = self._digest(request)
            if digest in seen or self._memory.read(digest):
                cached += 1
                continue
            seen.add(digest)
            calls += 1
            characters += _characters(self._body(self._dialect, _opening(request), request))
        rates = self._memory.rates(self.model)
        tokens_in = math.ceil(characters * rates.tokens_per_character)
        tokens_out = math.ceil(calls * min(rates.tokens_out, self._answer_tokens))
        cost = self._cost(tokens_in, tokens_out)
        return Preview(calls, cached, tokens_in, tokens_out, cost, calls * rates.seconds / self._concurrency)

    def run(
        self,
        requests: Iterable[Request],
        *,
        budget: Budget | None = None,
        on_answer: Callable[[Request, Answer], None] | None = None,
    ) -> Iterator[Answer]:
        """One answer per request, in order; `on_answer` is told of each as soon as it is there, in this thread.

        Requests are taken in as they are needed. Leaving early lets the calls in flight finish into the cache.
        """
        budget = budget or Budget()
        self.down, self._failures = "", 0
        stop = threading.Event()
        pool = ThreadPoolExecutor(self._concurrency, thread_name_prefix="chat")
        waiting: deque[tuple[bytes, Request, Future[Answer], bool]] = deque()
        in_flight: dict[bytes, Future[Answer]] = {}
        untold: dict[Future[Answer], Request] = {}
        try:
            remaining = iter(requests)
            while True:
                for request in islice(remaining, _LOOK_AHEAD * self._concurrency - len(waiting)):
                    digest = self._digest(request)
                    shared = digest in in_flight
                    if not shared:
                        in_flight[digest] = self._start(pool, request, digest, budget, stop)
                        untold[in_flight[digest]] = request
                    waiting.append((digest, request, in_flight[digest], shared))
                if not waiting:
                    return
                for future in [future for future in untold if future.done()]:
                    told = untold.pop(future)
                    if on_answer is not None:
                        on_answer(told, future.result())
                digest, request, future, shared = waiting[0]
                if not future.done():
                    wait(untold, return_when=FIRST_COMPLETED)
                    continue
                waiting.popleft()
                answer = future.result()
                if shared:
                    answer = answer._replace(cached=not answer.error)
                    if on_answer is not None:
                        on_answer(request, answer)
                if all(other != digest for other, _, _, _ in waiting):
                    in_flight.pop(digest, None)
                yield answer
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _start(
        self, pool: ThreadPoolExecutor, request: Request, digest: bytes, budget: Budget, stop: threading.Event
    ) -> Future[Answer]:
        known = self._remembered(request, digest)
        if known is None:
            return pool.submit(self._answer, request, digest, budget, stop)
        done: Future[Answer] = Future()
        done.set_result(known)
        return done

    def _remembered(self, request: Request, digest: bytes) -> Answer | None:
        row = self._memory.read(digest)
        if row is None:
            return None
        value, complaint = None, ""
        if request.schema is not None:
            value, _, complaint = _judge(row.text, row.truncated, request.schema)
        return None if complaint else row._replace(value=value, cached=True)

    def _answer(self, request: Request, digest: bytes, budget: Budget, stop: threading.Event) -> Answer:
        """All turns of one request; what is wrong with an answer is told to the model."""
        messages = _opening(request)
        best: Answer | None = None  # an answer that breaks off, for want of a whole one
        text = error = ""
        tokens_in = tokens_out = 0
        for _ in range(_TURNS):
            try:
                reply, used = self._exchange(messages, request, digest, budget, stop)
            except _Failed as failure:
                error = str(failure)
                break
            text = reply.text
            tokens_in, tokens_out = tokens_in + used[0], tokens_out + used[1]
            if request.schema is None:
                if text.strip():
                    return self._keep(digest, Answer(text, None, tokens_in, tokens_out, truncated=reply.cut))
                error = f"{self.model} gave an empty answer"
                break
            value, truncated, complaint = _judge(text, reply.cut, request.schema)
            if not complaint and not truncated:
                return self._keep(digest, Answer(text, value, tokens_in, tokens_out))
            if not complaint:
                best = Answer(text, value, truncated=True)
                complaint = "it breaks off before its end; say the same with fewer or shorter items"
            error = f"{self.model} gave no valid answer in {_TURNS} turns: {complaint}"
            messages = [*_opening(request), *_correction(text, complaint, request.schema)]
        if best is not None:
            return self._keep(digest, best._replace(tokens_in=tokens_in, tokens_out=tokens_out))
        return Answer(text, None, tokens_in, tokens_out, error=error)

    def _keep(self, digest: bytes, answer: Answer) -> Answer:
        self._memory.write(digest, self.model, answer)
        return answer

    def _exchange(
        self,
        messages: Sequence[Mapping[str, str]],
        request: Request,
        digest: bytes,
        budget: Budget,
        stop: threading.Event,
    ) -> tuple[_Reply, tuple[int, int]]:
        """One turn, repeated while the cause of a failure may pass; the reply and its tokens in and out."""
        attempt = 0
        while True:
            if self.down:
                raise _Failed(self.down)
            self._rest(max(0.0, self._quiet_until - time.monotonic()), budget, stop)
            dialect = self._dialect
            body = self._body(dialect, messages, request)
            worst_in, worst_out = _most_tokens(body), self._answer_tokens
            held = Spent(1, worst_in + worst_out, self._cost(worst_in, worst_out))
            if not budget.reserve(held.tokens, held.cost):
                raise _Failed("budget")
            row = self._memory.open_call(digest, self.model, _characters(body), (worst_in, worst_out), held.cost)
            trouble: _Trouble | None = None
            reply: _Reply | None = None
            started = time.monotonic()
            used = (worst_in, worst_out)  # also if something unforeseen is raised
            try:
                reply = self._send(body, max(0.01, min(self._timeout, budget.seconds_left())))
                used = _used(reply, used)
            except _Trouble as caught:
                trouble = caught
                used = used if caught.charged else (0, 0)
            finally:
                cost = self._cost(*used)
                budget.settle(held, Spent(1, sum(used), cost))
                seconds = time.monotonic() - started
                self._memory.close_call(row, used, cost, seconds, trouble.cause if trouble else "")
            if reply is not None:
                self._failures, self._answered = 0, True
                return reply, used
            assert trouble is not None
            if trouble.kind == "refused" and self._adapt(dialect, trouble.cause):
                continue
            if trouble.kind != "again" or attempt == self._retries:
                raise _Failed(self._sentence(trouble, attempt + 1))
            pause = self._pause(attempt)
            if trouble.pause:
                self._quiet_until = max(self._quiet_until, time.monotonic() + trouble.pause)
                pause = max(pause, trouble.pause)
            self._rest(pause, budget, stop)
            attempt += 1

    def _sentence(self, trouble: _Trouble, attempts: int) -> str:
        """What the user is told of a failure; remembered where all other requests would meet it too."""
        if trouble.kind == "unreachable":
            sentence = f"{self.url} can not be reached for {self.model}: {trouble.cause}"
        elif trouble.kind == "again":
            times = "once" if attempts == 1 else f"{attempts} times"
            sentence = f"{self.url} failed {times} for {self.model}: {trouble.cause}"
        else:
            sentence = f"{self.url} refused {self.model}: {trouble.cause}"
        with self._lock:
            if trouble.kind == "again":
                self._failures += 1
            # a key without rights is forbidden everything, a text that a gateway does not like is forbidden alone
            closed = trouble.kind in ("unreachable", "closed") or (trouble.kind == "forbidden" and not self._answered)
            if closed or self._failures >= _GIVE_UP:
                self.down = self.down or sentence
        return sentence

    def _pause(self, attempt: int) -> float:
        with self._lock:  # a Generator is not safe in threads
            jitter = float(self._generator.uniform(0.5, 1.5))
        return min(self._back_off * 2.0**attempt * jitter, _LONGEST_WAIT)

    def _rest(self, seconds: float, budget: Budget, stop: threading.Event) -> None:
        if seconds >= budget.seconds_left():
            raise _Failed("budget")
        if stop.wait(seconds):
            raise _Failed("stopped")

    def _send(self, body: Mapping[str, Any], timeout: float) -> _Reply:
        """One call. The time limit holds for the whole answer, not only for each of its pieces."""
        end = time.monotonic() + timeout
        late = _Trouble(f"no answer within {timeout:g} s", "again", charged=True)
        pieces = []
        try:
            limits = self._openai.Timeout(timeout, connect=min(timeout, 10.0))
            create = self._client.chat.completions.with_streaming_response.create
            with create(**body, timeout=limits) as response:
                self._reached = True
                for piece in response.iter_bytes():
                    pieces.append(piece)
                    if time.monotonic() > end:
                        raise late
        except self._openai.APIStatusError as error:
            self._reached = True
            raise _status_trouble(error) from error
        except self._openai.APITimeoutError as error:
            raise late from error
        except self._openai.APIConnectionError as error:
            cause = str(error.__cause__ or error)
            refused = type(error.__cause__).__name__ == "ConnectError"  # nothing was sent
            kind = "unreachable" if refused and not self._reached else "again"
            raise _Trouble(cause, kind, charged=not refused) from error
        except self._transport_errors as error:
            if "Timeout" in type(error).__name__:
                raise late from error
            raise _Trouble(f"the answer broke off ({error})", "again", charged=True) from error
        return _read_reply(b"".join(pieces))

    def _body(self, dialect: _Dialect, messages: Sequence[Mapping[str, str]], request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), dialect.limit: self._answer_tokens}
        if dialect.temperature:
            body["temperature"] = self._temperature
        if request.schema is None:
            return body
        if dialect.format == "json_schema":
            schema = {"name": request.check, "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
            return body
        if dialect.format == "json_object":
            body["response_format"] = {"type": "json_object"}
        system = f"{request.system}\n\nAnswer with one JSON value and nothing else. {_schema_hint(request.schema)}"
        body["messages"] = [{"role": "system", "content": system.strip()}, *messages[bool(request.system) :]]
        return body

    def _adapt(self, refused: _Dialect, cause: str) -> bool:
        """Whether a call that was refused for this cause may go through in another dialect."""
        with self._lock:
            if self._dialect != refused:
                return True  # another thread has found out already
            dialect, cause = refused, cause.lower()
            if "max_tokens" in cause and refused.limit == "max_tokens":
                dialect = _Dialect(refused.format, "max_completion_tokens", refused.temperature)
            elif "temperature" in cause and refused.temperature:
                dialect = _Dialect(refused.format, refused.limit, False)
            elif self._adapts and refused.format != "text" and _ABOUT_FORMAT.search(cause):
                simpler = {"json_schema": "json_object", "json_object": "text"}[refused.format]
                dialect = _Dialect(simpler, refused.limit, refused.temperature)
            self._dialect = dialect
            return dialect != refused

    def _cost(self, tokens_in: int, tokens_out: int) -> float:
        return (tokens_in * self._prices[0] + tokens_out * self._prices[1]) / 1e6

    def _digest(self, request: Request) -> bytes:
        identity = [self.model, request.system, request.user, request.schema, self._temperature]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).digest()


_ABOUT_FORMAT = re.compile(r"response_?format|json[ _-]?(?:schema|object|mode)|structured|grammar|guided")


def _opening(request: Request) -> list[dict[str, str]]:
    contents = {"system": request.system, "user": request.user}
    # half a surrogate pair, as damaged sources have it, can not be sent
    sound = {role: text.encode("utf-8", "replace").decode("utf-8") for role, text in contents.items()}
    return [{"role": role, "content": text} for role, text in sound.items() if text or role == "user"]


def _correction(text: str, complaint: str, schema: Mapping[str, Any]) -> list[dict[str, str]]:
    told = (
        f"Your answer was not valid: {complaint}\n"
        "Answer again with the whole JSON value and nothing around it. In JSON every backslash of LaTeX is doubled. "
        + _schema_hint(schema)
    )
    return [{"role": "assistant", "content": text}, {"role": "user", "content": told}]


def _schema_hint(schema: Mapping[str, Any]) -> str:
    return f"It satisfies this JSON schema: {to_json_text(schema)}"


def _characters(body: Mapping[str, Any]) -> int:
    return sum(len(message["content"]) for message in body["messages"])


def _most_tokens(body: Mapping[str, Any]) -> int:
    """No tokenizer makes more tokens than bytes; a schema may be put into the prompt by the server."""
    schema = to_json_text(body.get("response_format", {}))
    contents = [message["content"] for message in body["messages"]]
    return _TEMPLATE_TOKENS + sum(len(text.encode("utf-8", "replace")) + 8 for text in [schema, *contents])


def _used(reply: _Reply, worst: tuple[int, int]) -> tuple[int, int]:
    """Tokens in and out; where the server does not tell, the most they can have been."""
    tokens_in = worst[0] if reply.tokens_in is None else reply.tokens_in
    tokens_out = worst[1] if reply.tokens_out is None else reply.tokens_out
    return tokens_in, tokens_out


def _status_trouble(error: Any) -> _Trouble:
    status, cause = error.status_code, f"status {error.status_code}, {excerpt(str(error.message), 300)}"
    if status == 403:
        return _Trouble(cause, "forbidden")
    if status in (401, 404) or getattr(error, "code", None) == "insufficient_quota":
        return _Trouble(cause, "closed")
    if _ABOUT_FORMAT.search(cause.lower()) and status in (500, 501):
        return _Trouble(cause, "refused")  # llama.cpp's way to say that it can not make a grammar of the schema
    if status in (408, 409, 425, 429) or status >= 500:
        pause = _retry_after(error.response.headers)
        if pause > _LONGEST_WAIT:
            return _Trouble(f"{cause}; it asks to wait {pause:.0f} s", "closed")
        return _Trouble(cause, "again", pause=pause)
    return _Trouble(cause, "refused")


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds; 0 where the header is missing or unreadable, which the back-off then covers."""
    text = headers.get("retry-after", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        date = email.utils.parsedate_tz(text)
        return max(0.0, email.utils.mktime_tz(date) - time.time()) if date else 0.0


def _read_reply(body: bytes) -> _Reply:
    try:
        envelope = json.loads(body)
        if "error" in envelope and "choices" not in envelope:  # some gateways fail with status 200
            raise _Trouble(excerpt(to_json_text(envelope["error"]), 300), "again", charged=True)
        choice = envelope["choices"][0]
        message = choice["message"]
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        if not content and message.get("refusal"):
            raise _Trouble(f"the model refused: {excerpt(message['refusal'], 300)}", "refused", charged=True)
        usage = envelope.get("usage") or {}
        tokens = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
        return _Reply(str(content), *tokens, cut=choice.get("finish_reason") == "length")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        cause = f"the answer is not what the protocol says: {excerpt(body.decode('utf-8', 'replace'), 80)}"
        raise _Trouble(cause, "again", charged=True) from error


def _judge(text: str, cut: bool, schema: Mapping[str, Any]) -> tuple[Any, bool, str]:
    """Value, whether it is only the complete part of one, and what is wrong with it."""
    try:
        parsed = read_json(text)
    except InputError as error:
        return None, False, str(error) + ("; it also breaks off before its end" if cut else "")
    value = _with_empty_lists(parsed.value, schema) if parsed.truncated else parsed.value
    found = complaints(value, schema)
    return value, parsed.truncated, "; ".join(found[:5])


def _with_empty_lists(value: Any, schema: Mapping[str, Any]) -> Any:
    """A truncated object with the lists that it did not come to."""
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    return value | {name: [] for name in missing if properties.get(name, {}).get("type") == "array"}


# ---------------------------------------------------------------- what is kept on disk


class _Rates(NamedTuple):
    tokens_per_character: float
    tokens_out: float  # of one call
    seconds: float  # of one call


_FIRST_GUESS = _Rates(0.35, 500.0, 5.0)  # formulas take more tokens than prose, which has 0.25 for a character


class _Memory:
    """Answers by digest, and a line for each call, written before it is made and completed after it."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, check_same_thread=False, timeout=60, isolation_level=None)
            # a transaction in the write-ahead log survives the end of the process without waiting for the disk
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS answers (digest BLOB PRIMARY KEY, model TEXT, text TEXT,"
                " tokens_in INTEGER, tokens_out INTEGER, truncated INTEGER)"
            )
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS calls (id INTEGER PRIMARY KEY, digest BLOB, model TEXT, started REAL,"
                " seconds REAL, characters INTEGER, tokens_in INTEGER, tokens_out INTEGER, cost REAL, outcome TEXT)"
            )
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"can not be used as a cache ({error})", file=str(path)) from error

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def read(self, digest: bytes) -> Answer | None:
        row = self._execute("SELECT text, tokens_in, tokens_out, truncated FROM answers WHERE digest = ?", digest)
        return Answer(row[0][0], None, row[0][1], row[0][2], truncated=bool(row[0][3])) if row else None

    def write(self, digest: bytes, model: str, answer: Answer) -> None:
        text = answer.text.encode("utf-8", "replace").decode("utf-8")
        row = (digest, model, text, answer.tokens_in, answer.tokens_out, answer.truncated)
        self._execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)", *row)

    def open_call(self, digest: bytes, model: str, characters: int, worst: tuple[int, int], cost: float) -> int:
        row = (digest, model, time.time(), characters, *worst, cost)
        statement = "INSERT INTO calls VALUES (NULL, ?, ?, ?, NULL, ?, ?, ?, ?, 'sent') RETURNING id"
        return int(self._execute(statement, *row)[0][0])

    def close_call(self, call: int, used: tuple[int, int], cost: float, seconds: float, outcome: str) -> None:
        """`outcome` is empty for a reply, else why there was none."""
        statement = "UPDATE calls SET tokens_in = ?, tokens_out = ?, cost = ?, seconds = ?, outcome = ? WHERE id = ?"
        self._execute(statement, *used, cost, seconds, outcome, call)

    def spent(self) -> Spent:
        [row] = self._execute("SELECT COUNT(*), TOTAL(tokens_in + tokens_out), TOTAL(cost) FROM calls")
        return Spent(int(row[0]), int(row[1]), float(row[2]))

    def rates(self, model: str) -> _Rates:
        [row] = self._execute(
            "SELECT COUNT(*), TOTAL(tokens_in) / MAX(1, TOTAL(characters)), AVG(tokens_out), AVG(seconds)"
            " FROM calls WHERE model = ? AND outcome = ''",
            model,
        )
        return _Rates(*row[1:]) if row[0] else _FIRST_GUESS

    def _execute(self, statement: str, *values: Any) -> list[Any]:
        with self._lock:
            try:
                return self._connection.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise InputError(f"the cache of answers can not be used ({error})") from error
