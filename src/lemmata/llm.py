"""A dependable client for any OpenAI-compatible chat endpoint: cache, retries, budget, checked JSON full of LaTeX.

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

__all__ = [
    "Answer",
    "Budget",
    "Chat",
    "Parsed",
    "Preview",
    "Request",
    "Spent",
    "complaints",
    "parse_json",
    "read_json",
    "to_json_text",
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
    status, cause = error.status_code, f"status {error.status_code}, {_excerpt(str(error.message), 300)}"
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
            raise _Trouble(_excerpt(to_json_text(envelope["error"]), 300), "again", charged=True)
        choice = envelope["choices"][0]
        message = choice["message"]
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        if not content and message.get("refusal"):
            raise _Trouble(f"the model refused: {_excerpt(message['refusal'], 300)}", "refused", charged=True)
        usage = envelope.get("usage") or {}
        tokens = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
        return _Reply(str(content), *tokens, cut=choice.get("finish_reason") == "length")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        cause = f"the answer is not what the protocol says: {_excerpt(body.decode('utf-8', 'replace'), 80)}"
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


def _excerpt(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


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


# ---------------------------------------------------------------- JSON that speaks LaTeX


class Parsed(NamedTuple):
    """A JSON value found in a text."""

    value: Any
    truncated: bool  # the text breaks off; the value holds what is complete


def to_json_text(value: Any) -> str:
    """JSON with every backslash doubled and all letters as they are; `parse_json` reads it back."""
    return json.dumps(value, ensure_ascii=False)


def parse_json(text: str) -> Any:
    """The value of `read_json`, where it does not matter whether the text breaks off."""
    return read_json(text).value


def read_json(text: str) -> Parsed:
    r"""The JSON value in a model's answer; InputError where there is none.

    Chatter, thoughts and code fences around it, trailing commas and bare line ends in strings are
    tolerated; of several values the longest is meant. In a text that breaks off, the complete items are kept.

    Backslashes: JSON as it should be is read as such. Where a string has single backslashes that JSON does
    not know (`\alpha`), all LaTeX commands of that string are taken as written, so that `\beta`, `\frac`,
    `\nu` and `\theta` do not become control characters. A string without such evidence is judged by the
    others; without any, `\times` is a command and `\n` a line end, and what could be both (`\nu`) is a
    command inside of dollars only.
    """
    text = text.strip().removeprefix("\ufeff")
    whole = _read_at(text, 0)
    if isinstance(whole, _Found) and whole.end == len(text) and not whole.truncated:
        return Parsed(whole.value, False)
    text = re.sub(r"\s*```\s*$", "", text.rpartition("</think>")[2])
    best: _Found | None = None
    longest, syntax = 0, _Syntax(0, "there is no JSON object in it")
    position = 0
    while opening := _OPENING.search(text, position):
        found = _read_at(text, opening.start())
        if isinstance(found, _Syntax):
            position = max(opening.end(), found.position)
            if found.position - opening.start() > longest:
                longest, syntax = found.position - opening.start(), found
            continue
        position = found.end
        if best is None or found.end - found.start > best.end - best.start:
            best = found
    if best is not None and best.truncated and not best.value:
        raise InputError("the text is not JSON: it breaks off before its first complete item")
    if best is None or longest > best.end - best.start:  # a part of a broken value is not what was meant
        where = f" near {text[max(0, syntax.position - 20) : syntax.position + 20]!r}" if longest else ""
        raise InputError(f"the text is not JSON: {syntax.cause}{where}")
    return Parsed(best.value, best.truncated)


class _Found(NamedTuple):
    value: Any
    start: int
    end: int
    truncated: bool


class _Syntax(Exception):  # noqa: N818 - one candidate of several
    def __init__(self, position: int, cause: str) -> None:
        super().__init__(cause)
        self.position = position
        self.cause = cause


def _read_at(text: str, start: int) -> _Found | _Syntax:
    """The value that starts there; read twice, because all strings together decide about the backslashes of each."""
    first = _Reader(text, start, None)
    try:
        first.value(0)
        second = _Reader(text, start, _common_style(first.strings))
        value = second.value(0)
    except _Syntax as syntax:
        return syntax
    if value is _NOTHING:
        return _Syntax(start, "it is cut off")
    return _Found(value, start, second.position, second.cut)


_NOTHING = object()  # in place of a value that breaks off
_OPENING = re.compile(r"[{\[]")
_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,999})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_CUT = re.compile(r"[-+.0-9eE]*\Z")
_WORDS = {"true": True, "false": False, "null": None}
_DEEPEST = 100


class _Reader:
    """A JSON parser that knows where it broke off."""

    def __init__(self, text: str, start: int, style: str | None) -> None:
        self.text, self.position = text, start
        self.cut = False
        self.strings: list[str] = []  # as they stand between their quotes
        self._style = style

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise _Syntax(self.position, f"it is nested more than {_DEEPEST} deep")
        character = self._next()
        if character == "{":
            return self._object(depth)
        if character == "[":
            return self._list(depth)
        if character == '"':
            return self._string()
        rest = self.text[self.position : self.position + 5]
        for word, value in _WORDS.items():
            if rest.startswith(word):
                self.position += len(word)
                return value
            if word.startswith(rest) and depth:
                return self._broken()
        if depth and _NUMBER_CUT.match(self.text, self.position):
            return self._broken()  # more digits may have been to come
        number = _NUMBER.match(self.text, self.position)
        if number is None:
            raise _Syntax(self.position, "a value is expected")
        self.position = number.end()
        digits = number.group()
        return float(digits) if set(digits) & set(".eE") else int(digits)

    def _object(self, depth: int) -> Any:
        members: dict[str, Any] = {}
        self.position += 1
        while True:
            character = self._next()
            if character == "}":
                self.position += 1
                return members
            if character and character != '"':
                raise _Syntax(self.position, "a name in double quotes is expected")
            name = self._string() if character else self._broken()
            if name is _NOTHING:
                return members
            character = self._next()
            if character and character != ":":
                raise _Syntax(self.position, "a colon is expected")
            self.position += 1
            value = self.value(depth + 1) if character else self._broken()
            if value is not _NOTHING and (not self.cut or value):
                members[name] = value
            if self.cut or self._comma("}"):
                return members

    def _list(self, depth: int) -> Any:
        items: list[Any] = []
        self.position += 1
        while True:
            if self._next() == "]":
                self.position += 1
                return items
            item = self.value(depth + 1)
            if self.cut:
                return items  # without the item that breaks off
            items.append(item)
            if self._comma("]"):
                return items

    def _comma(self, end: str) -> bool:
        """Go on to the next item; True where there can be none."""
        character = self._next()
        if not character:
            self._broken()
            return True
        if character == ",":
            self.position += 1
        elif character != end:
            raise _Syntax(self.position, f"a comma or {end} is expected")
        return False

    def _string(self) -> Any:
        found = _STRING.match(self.text, self.position)
        if found is None:
            return self._broken()
        self.position = found.end()
        self.strings.append(found[1])
        return found[1] if self._style is None else _unescape(found[1], self._style)

    def _next(self) -> str:
        space = _SPACE.match(self.text, self.position)
        self.position = space.end() if space else self.position
        return self.text[self.position : self.position + 1]

    def _broken(self) -> Any:
        self.cut = True
        self.position = len(self.text)
        return _NOTHING


# ---------------------------------------------------------------- backslashes

_RUN = re.compile(r"(\\+)([A-Za-z]*)")
_HEXADECIMAL = re.compile("[0-9A-Fa-f]{4}")
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_COMMANDS = frozenset(  # of LaTeX, whose first letter makes a control character in JSON
    """
    fbox flat footnote footnotesize forall frac frak framebox frown
    nabla natural ncong ne nearrow neg neq newcommand newline nexists ngeq ngtr ni nleftarrow nleq nless nmid
    nobreak noindent nolimits nonumber norm normalfont normalsize not notag notin nparallel nprec nrightarrow nsim
    nsubseteq nsucc nsupseteq nu nvdash nwarrow
    rangle rank rbrace rbrack rceil re ref renewcommand rfloor rho right rightarrow rightharpoonup
    rightleftharpoons rightsquigarrow rm root rtimes rule rvert
    tag tan tanh tau tbinom tensor text textbf textit textnormal textrm textsc textsf textstyle texttt textup tfrac
    therefore theta thetasymbol thickapprox thicksim thinspace tilde times tiny to top tr triangle triangledown
    triangleleft trianglelefteq triangleq triangleright twoheadrightarrow
    """.split()
)
_ALSO_WORDS = frozenset("ne ni nu re rm tag tan tau to top tr".split())  # "\n" and "u", "\t" and "an" make sense too


def _evidence(string: str) -> tuple[bool, bool]:
    """Whether it has doubled backslashes before commands, and single ones that no JSON writer would make."""
    doubled = single = False
    for run in _RUN.finditer(string):
        letters = run[2]
        if len(run[1]) % 2 == 0:
            doubled |= bool(letters)
            continue
        following = string[run.end(1) : run.end(1) + 1]
        if following in ('"', "/", ""):
            continue
        if following == "'":
            single |= _is_accent(string, run.end(1))
        elif following in "nrt":
            continue
        elif following == "b":
            single |= len(letters) > 1
        elif following == "f":
            single |= letters in _COMMANDS
        elif following == "u":
            single |= _HEXADECIMAL.match(string, run.end(1) + 1) is None
        else:
            single = True
    return doubled, single


def _common_style(strings: Sequence[str]) -> str:
    found = [_evidence(string) for string in strings if "\\" in string]
    doubled, single = any(pair[0] for pair in found), any(pair[1] for pair in found)
    return "unknown" if doubled == single else "doubled" if doubled else "single"


def _unescape(string: str, common: str) -> str:
    if "\\" not in string:
        return string
    doubled, single = _evidence(string)
    style = common if not (doubled or single) else "mixed" if doubled and single else "single" if single else "doubled"
    pieces: list[str] = []
    position = 0
    while run := _RUN.search(string, position):
        pieces.append(string[position : run.start()])
        count, position = len(run[1]), run.end(1)
        if count == 1 or style in ("doubled", "unknown"):
            pieces.append("\\" * (count // 2))
        elif count == 2:
            pieces.append(_pair(string, position, run[2], style))
        elif count == 3 and string[position] != '"':
            pieces.append("\\\\")  # the end of a line, and a command after it
        else:
            pieces.append("\\" * (count // 2))
        if count % 2:
            piece, position = _escape(string, position, run[2], style)
            pieces.append(piece)
    pieces.append(string[position:])
    # \ud83d\ude00 is one letter; half of such a pair is none
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _pair(string: str, position: int, letters: str, style: str) -> str:
    r"""Two backslashes among single ones: the end of a line, or one command that was escaped properly."""
    if style == "mixed":
        return "\\\\" if string[position : position + 1] in ("", " ", "\n", "&") else "\\"
    return "\\" if len(letters) > 1 else "\\\\"


def _escape(string: str, position: int, letters: str, style: str) -> tuple[str, int]:
    """What a single backslash before `position` means, and where to read on."""
    character = string[position]
    if character == "u" and _HEXADECIMAL.match(string, position + 1):
        return chr(int(string[position + 1 : position + 5], 16)), position + 5
    if character == '"':
        umlaut = style in ("single", "mixed") and _is_accent(string, position)
        return ('\\"' if umlaut else '"'), position + 1
    if character == "'":
        return ("\\'" if _is_accent(string, position) else "'"), position + 1
    if character == "/":
        return "/", position + 1
    if character in _CONTROLS and not _is_command(string, position, letters, style):
        return _CONTROLS[character], position + 1
    return "\\" + character, position + 1


def _is_accent(string: str, position: int) -> bool:
    r"""`Poincar\'e` and `K\"ahler`, not `isn\'t` and `so-called \"open\" sets`."""
    before, after = string[max(0, position - 2) : position - 1], string[position + 1 : position + 2]
    return after == "{" or (
        bool(after) and after in "aeiouyAEIOUYcnz" and (before.isalpha() or string[position] == "'")
    )


def _is_command(string: str, position: int, letters: str, style: str) -> bool:
    if style == "doubled" or len(letters) < 2:
        return False
    initial = letters[0]
    if initial == "b":
        return True  # nobody means a backspace
    in_math = string.replace("\\$", "  ").count("$", 0, position) % 2 == 1
    if style in ("single", "mixed"):
        return letters in _COMMANDS or initial in "fr" or (initial == "t" and in_math)
    return letters in _COMMANDS and (in_math or letters not in _ALSO_WORDS)


# ---------------------------------------------------------------- schemas

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def complaints(value: Any, schema: Mapping[str, Any], place: str = "the answer") -> list[str]:
    """What is wrong with a value, in words for the model; empty where it satisfies the schema.

    Knows type, enum, properties, required, additionalProperties, items, and the least and greatest length
    of strings and lists; other words of JSON schema are ignored.
    """
    wanted = schema.get("type")
    types = [wanted] if isinstance(wanted, str) else list(wanted or ())
    if types and not any(_TYPES[name](value) for name in types):
        return [f"{place} must be of type {' or '.join(types)}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place} must be one of {to_json_text(schema['enum'])}, not {_excerpt(to_json_text(value), 60)}")
    if isinstance(value, str | list):
        least, most = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
        unit = "characters" if isinstance(value, str) else "items"
        if len(value) < schema.get(least, 0):
            found.append(f"{place} must have at least {schema[least]} {unit}, not {len(value)}")
        if len(value) > schema.get(most, math.inf):
            found.append(f"{place} must have at most {schema[most]} {unit}, not {len(value)}")
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            found += complaints(item, schema["items"], f"{place}[{number}]")
    if isinstance(value, dict):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{place} lacks {name!r}" for name in schema.get("required", ()) if name not in value]
        for name, member in value.items():
            if name in properties:
                found += complaints(member, properties[name], f"{place}.{name}")
            elif additional is False:
                found.append(f"{place} must not have {name!r}")
            elif isinstance(additional, Mapping):
                found += complaints(member, additional, f"{place}.{name}")
    return found
