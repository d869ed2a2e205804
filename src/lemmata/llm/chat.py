"""A client for any OpenAI-compatible chat endpoint: cache, retries, budget, checked answers.

It knows nothing of graphs or queries: a prompt and a JSON schema go in, a value that fits it comes out. A request that
fails gets an answer with an error, nothing is raised for it; a cache that cannot be used is raised.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from lemmata.core.errors import LemmataError
from lemmata.core.http import AnswerCache, CallError, Service, cache_key, excerpt
from lemmata.core.keys import NO_KEY, ApiKey
from lemmata.llm.answers import Fitted, read_answer, to_json_text
from lemmata.llm.endpoint import Budget, EndpointOptions, Spent

_TURNS = 3  # the question, and two corrections
_GIVE_UP = 8  # requests in a row that failed after all retries: then the server counts as down
_LOOK_AHEAD = 16  # requests read in advance per worker, so that one slow answer does not stop the others
_PROBE_SECONDS = 10.0  # for which the first call is alone; a refusal of its parameters comes long before an answer
_REMEMBERED = 86_400.0  # seconds for which refused parameters are not tried again; a newer server may accept them
_TEMPLATE_TOKENS = 128  # at most, of what a server wraps around the messages
_TEMPERATURE = 0.0
_REFUSALS = (400, 422, 500, 501)  # of a parameter; llama.cpp answers 500 where it cannot use a schema
_ABOUT_FORMAT = re.compile(r"response_?format|json[ _-]?(?:schema|object|mode)|structured|grammar|guided")
_BOUNDS = ("minLength", "maxLength", "minItems", "maxItems")
_ABOUT_BOUNDS = re.compile("|".join(_BOUNDS).lower() + r"|repetition")  # of characters, in a grammar made from them
Messages = list[dict[str, str]]
Tokens = tuple[int, int]  # in, out


class Request(NamedTuple):
    """One question to the model; equal questions are asked once."""

    system: str
    user: str
    schema: Mapping[str, Any] | None = None  # JSON schema of the answer; None for plain text
    schema_name: str = "answer"
    defaults: Mapping[str, Any] | None = None  # by property: its value where the model's is missing or invalid
    # A complaint about a value of which nothing can be used, else "". With a check, an answer that breaks off is used
    # at once: the caller asks again for the rest.
    check: Callable[[Any], str] | None = None
    narrow: Mapping[str, Any] | None = None  # sent instead of `schema` where the server follows schemas


class Answer(NamedTuple):
    """The result of one request; with an `error` it may be asked again."""

    text: str  # as the model wrote it
    value: Any = None  # the parsed JSON, fitted to the schema; None for plain text and failures
    tokens_in: int = 0  # over all turns; the worst case where the server does not report them
    tokens_out: int = 0
    cached: bool = False
    error: str = ""  # one sentence, or "budget" where the budget ended before it was asked; `Budget.reached` says which
    truncated: bool = False  # the text breaks off; `value` holds its complete items
    notes: tuple[str, ...] = ()  # entries that were dropped because they do not fit the schema, and replaced texts
    complaint: str = ""  # what is wrong with the last text, where that is the error


class Preview(NamedTuple):
    """What a run would take, estimated before anything is sent."""

    calls: int
    cached: int
    tokens_in: int
    tokens_out: int
    cost: float
    seconds: float


@dataclass(frozen=True, slots=True)
class _Dialect:
    """The parameters that the server accepts, learned from its refusals."""

    format: str  # json_schema, json_object, text
    limit: str = "max_tokens"  # newer models want max_completion_tokens
    temperature: bool = True  # some models accept none but their own
    bounds: bool = True  # lengths of texts and lists in a schema; OpenAI and some grammars refuse them
    usage: bool = True  # the number of tokens at the end of a stream, which must be asked for
    stream: bool = True  # the answer piece by piece


class _Reply(NamedTuple):
    text: str
    tokens: Tokens
    cut: bool  # at the limit of tokens


class _Stopped(Exception):  # noqa: N818 - becomes the error of an answer
    """A request that is not sent any more in this run."""


class _Run(NamedTuple):
    budget: Budget
    stop: threading.Event
    show: Callable[[str], None] | None = None  # receives the pieces of a text as they arrive

    def wait(self, seconds: float) -> None:
        if seconds >= self.budget.seconds_left():
            self.budget.end_time()
            raise _Stopped("budget")
        if self.stop.wait(max(0.0, seconds)):
            raise _Stopped("stopped")


class Chat:
    """A language model at an address.

    `cache` is a SQLite file of answers and of all calls made; it survives a kill at any moment. `back_off` is the
    first pause before a retry, in seconds.
    """

    def __init__(
        self, options: EndpointOptions, cache: Path, key: ApiKey = NO_KEY, *, retries: int = 5, back_off: float = 1.0
    ) -> None:
        if not options.model:
            raise LemmataError("which model? name it with --model, or as 'model' in [llm] of lemmata.toml")
        self._options = options
        self._service = Service(
            options.url, options.model, key, timeout=options.timeout, retries=retries, back_off=back_off
        )
        self._cache = AnswerCache(cache)
        self._ledger = _Ledger(self._cache, options.model)
        self._dialect = self._remembered()
        self._first = threading.Lock()  # taken once, by the call that finds out what the server accepts
        self._found_out = threading.Event()
        self._lock = threading.Lock()
        self.down = ""  # why the server cannot be used at all, as one sentence; reset by each run
        self._answered = False  # whether the server ever gave a reply
        self._failures = 0  # failed requests in a row
        self._quiet_until = 0.0  # a Retry-After that one call received holds for all

    def close(self) -> None:
        self._cache.close()

    @property
    def model(self) -> str:
        return self._options.model

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """What so many tokens cost, by the configured prices."""
        return self._cost((tokens_in, tokens_out))

    def spent(self) -> Spent:
        """What all calls through this cache have used, also in earlier processes; interrupted calls at their worst."""
        return self._ledger.spent()

    @property
    def json_mode(self) -> str:
        """How answers are asked for: json_schema, or what was found out of a server that refuses it."""
        return self._dialect.format

    def preview(self, requests: Iterable[Request]) -> Preview:
        """What `run` would take without failures; estimated from earlier calls of this model where there are any."""
        cached = calls = characters = 0
        seen: set[bytes] = set()
        for request in requests:
            key = self._key(request)
            if key in seen or self._cache.read(key):
                cached += 1
                continue
            seen.add(key)
            calls += 1
            characters += _characters(self._body(self._dialect, _opening(request), request))
        per_character, per_answer, seconds = self._ledger.rates()
        tokens_in = math.ceil(characters * per_character)
        tokens_out = math.ceil(calls * min(per_answer, self._options.answer_tokens))
        cost = self._cost((tokens_in, tokens_out))
        return Preview(calls, cached, tokens_in, tokens_out, cost, calls * seconds / self._options.concurrency)

    def run(self, requests: Iterable[Request], *, budget: Budget | None = None) -> Iterator[Answer]:
        """One answer per request, in order. Requests are read as they are needed.

        Where the caller leaves early, calls in flight still finish into the cache.
        """
        self.down, self._failures = "", 0
        run = _Run(budget or Budget(), threading.Event())
        pool = ThreadPoolExecutor(self._options.concurrency, thread_name_prefix="chat")
        waiting: deque[tuple[bytes, Future[Answer], bool]] = deque()
        try:
            remaining = iter(requests)
            while True:
                for request in islice(remaining, _LOOK_AHEAD * self._options.concurrency - len(waiting)):
                    key = self._key(request)
                    shared = next((future for other, future, _ in waiting if other == key), None)
                    waiting.append((key, shared or pool.submit(self._answer, request, key, run), shared is not None))
                if not waiting:
                    return
                answer = waiting[0][1].result()
                _, _, repeated = waiting.popleft()
                yield answer._replace(cached=not answer.error) if repeated else answer
        finally:
            run.stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def stream(self, request: Request, *, budget: Budget | None = None) -> Generator[str | Answer, None, None]:
        """The pieces of a plain text as the model writes them, and at the end the answer.

        A cached text is one piece. Nothing is repeated: an answer that breaks off has an error, and the pieces up to
        there. Where the caller leaves early, the call ends; it counts at its worst case.
        """
        self.down, self._failures = "", 0
        events: SimpleQueue[str | Answer | BaseException] = SimpleQueue()
        run = _Run(budget or Budget(), threading.Event(), events.put)

        def work() -> None:
            try:
                answer = self._answer(request, self._key(request), run)
                if answer.cached:
                    events.put(answer.text)
                events.put(answer)
            except BaseException as error:  # raised again where the caller waits
                events.put(error)

        threading.Thread(target=work, name="chat-stream", daemon=True).start()
        try:
            while not isinstance(event := events.get(), Answer):
                if isinstance(event, BaseException):
                    raise event
                yield event
            yield event
        finally:
            run.stop.set()

    # ------------------------------------------------------------ one request

    def _answer(self, request: Request, key: bytes, run: _Run) -> Answer:
        """The cached answer, or all turns of asking; each correction tells the model what was wrong."""
        cached = self._cached(request, key)
        if cached is not None:
            return cached
        messages = _opening(request)
        incomplete: Answer | None = None  # an answer that breaks off, used where no complete one comes
        text = error = complaint = ""
        tokens_in = tokens_out = 0
        failures: list[CallError] = []
        for _ in range(_TURNS):
            try:
                reply = self._service.call(partial(self._send, messages, request, key, run, failures), run.wait)
            except _Stopped as stopped:
                complaint = "" if failures or str(stopped) != "budget" else complaint
                error = self._why_stopped(str(stopped), complaint, failures, run.budget)
                break
            except CallError as failure:
                error, complaint = self._record_failure(failure), ""
                break
            self._failures, self._answered = 0, True
            failures.clear()
            text, tokens_in, tokens_out = reply.text, tokens_in + reply.tokens[0], tokens_out + reply.tokens[1]
            if request.schema is None:
                if text.strip():
                    return self._store(key, Answer(text, None, tokens_in, tokens_out, truncated=reply.cut))
                error = f"{self._options.model} gave an empty answer"
                break
            fitted = _fitted(text, request, cut=reply.cut)
            complaint = fitted.complaint
            if not complaint:
                answer = Answer(text, fitted.value, tokens_in, tokens_out, False, "", fitted.truncated, fitted.notes)
                if request.check or not fitted.truncated:
                    return self._store(key, answer)
                incomplete = answer
                complaint = "it breaks off before its end; say the same with fewer or shorter items"
            error = f"{self._options.model} gave no valid answer in {_TURNS} turns: {complaint}"
            messages = [*_opening(request), *_correction(text, complaint, request.schema)]
        if incomplete is not None:
            return self._store(key, incomplete._replace(tokens_in=tokens_in, tokens_out=tokens_out))
        return Answer(text, None, tokens_in, tokens_out, error=error, complaint=complaint)

    def _why_stopped(self, reason: str, complaint: str, failures: Sequence[CallError], budget: Budget) -> str:
        """The error of a request that is not sent again: what was wrong before, where the budget ended."""
        if reason != "budget" or not (complaint or failures):
            return reason
        before = f"{self._options.model} gave no valid answer: {complaint}"
        if failures:
            verb = "failed for" if failures[-1].retry else "refused"
            before = f"{self._service.url} {verb} {self._options.model}: {failures[-1].cause}"
        return f"{before}; then {budget.limit_reached}"

    def _send(self, messages: Messages, request: Request, key: bytes, run: _Run, failures: list[CallError]) -> _Reply:
        """One call, or several until the server accepts its parameters; the first is alone until then."""
        if self._first.acquire(blocking=False):
            try:
                return self._send_adapting(messages, request, key, run, failures)
            finally:
                self._found_out.set()
        self._found_out.wait(max(0.0, min(_PROBE_SECONDS, run.budget.seconds_left())))
        self._found_out.set()  # a slow first call has been waited for once
        return self._send_adapting(messages, request, key, run, failures)

    def _send_adapting(
        self, messages: Messages, request: Request, key: bytes, run: _Run, failures: list[CallError]
    ) -> _Reply:
        """One call within the budget, in a simpler dialect where the server refuses this one.

        The call is written down at its worst case before it is sent, so that a kill cannot hide it.
        """
        while True:
            if self.down:
                raise _Stopped(self.down)
            run.wait(self._quiet_until - time.monotonic())
            dialect = self._dialect
            body = self._body(dialect, messages, request)
            if run.show is not None and dialect.stream:
                body |= {"stream": True} | ({"stream_options": {"include_usage": True}} if dialect.usage else {})
            most = tokens = _most_tokens(body), self._options.answer_tokens
            worst = Spent(1, sum(most), self._cost(most))
            if not run.budget.reserve(worst):
                raise _Stopped("budget")
            call = self._ledger.open_call(key, _characters(body), most, worst.cost)
            started, outcome, adapted = time.monotonic(), "interrupted", False
            seconds = max(0.01, min(self._options.timeout, run.budget.seconds_left()))
            try:
                envelope = self._receive(body, seconds, run)
                tokens = _reported_tokens(envelope, most)
                reply = _read_reply(envelope, tokens)
                outcome = ""
                return reply
            except CallError as failure:
                outcome = failure.cause
                tokens = tokens if failure.charged else (0, 0)
                if failure.retry:
                    self._quiet_until = max(self._quiet_until, time.monotonic() + failure.pause)
                adapted = failure.status in _REFUSALS and self._adapt(dialect, failure.cause.lower())
                if not adapted:
                    failures.append(failure)
                    raise
            finally:
                cost = self._cost(tokens)
                # a refusal that only told what the server accepts is no call that a user pays or waits for
                run.budget.settle(worst, Spent(int(not adapted), sum(tokens), cost))
                if adapted:
                    self._ledger.remove_call(call)
                else:
                    self._ledger.close_call(call, tokens, cost, time.monotonic() - started, outcome)

    def _receive(self, body: dict[str, Any], seconds: float, run: _Run) -> Any:
        """The server's answer to one call; where the run shows texts, its pieces are shown and put together."""
        show = run.show
        if show is None:
            return self._service.post("chat/completions", body, seconds)
        pieces: list[str] = []
        finish, usage = "", None
        try:
            with contextlib.closing(self._service.post_stream("chat/completions", body, seconds)) as chunks:
                for chunk in chunks:
                    if run.stop.is_set():
                        raise _Stopped("stopped")
                    choice = _first_choice(chunk)
                    if (
                        "message" in choice or not isinstance(chunk, dict) or "error" in chunk
                    ):  # the whole, or a failure
                        show(_read_reply(chunk, (0, 0)).text)
                        return chunk
                    usage, finish = chunk.get("usage") or usage, choice.get("finish_reason") or finish
                    if piece := (choice.get("delta") or {}).get("content"):
                        pieces.append(str(piece))
                        show(pieces[-1])
            if not finish:
                raise CallError("the answer broke off", retry=True, charged=True)
        except CallError as failure:
            failure.retry = failure.retry and not pieces  # what was shown cannot be taken back
            raise
        return {"choices": [{"message": {"content": "".join(pieces)}, "finish_reason": finish}], "usage": usage}

    def _record_failure(self, failure: CallError) -> str:
        """The error of the answer; where all other requests would fail too, the server is down."""
        with self._lock:
            self._failures += failure.retry
            # a key without rights is forbidden everything; later on, only the one text that a gateway rejects
            forbidden = failure.status == 403 and not self._answered
            if failure.closed or forbidden or self._failures >= _GIVE_UP:
                self.down = self.down or str(failure)
        return str(failure)

    def _body(self, dialect: _Dialect, messages: Messages, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._options.model, "messages": messages}
        body[dialect.limit] = self._options.answer_tokens
        if dialect.temperature:
            body["temperature"] = _TEMPERATURE
        if request.schema is None:
            return body
        if dialect.format == "json_schema":
            wanted = request.narrow or request.schema
            shape = wanted if dialect.bounds else _without_bounds(wanted)
            schema = {"name": request.schema_name, "strict": True, "schema": shape}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
            return body
        if dialect.format == "json_object":
            body["response_format"] = {"type": "json_object"}
        system = f"{request.system}\n\nAnswer with one JSON value and nothing else. {_schema_hint(request.schema)}"
        body["messages"] = [{"role": "system", "content": system.strip()}, *messages[bool(request.system) :]]
        return body

    def _adapt(self, refused: _Dialect, cause: str) -> bool:
        """Whether a call that was refused for this cause may succeed in another dialect."""
        with self._lock:
            if self._dialect == refused:  # else another thread has adapted it already
                if "max_tokens" in cause and refused.limit == "max_tokens":
                    self._dialect = replace(refused, limit="max_completion_tokens")
                elif "stream_options" in cause and refused.usage:
                    self._dialect = replace(refused, usage=False)
                elif "stream" in cause and refused.stream:
                    self._dialect = replace(refused, stream=False)
                elif "temperature" in cause and refused.temperature:
                    self._dialect = replace(refused, temperature=False)
                elif refused.format == "json_schema" and refused.bounds and _ABOUT_BOUNDS.search(cause):
                    self._dialect = replace(refused, bounds=False)
                elif refused.format != "text" and _ABOUT_FORMAT.search(cause):
                    simpler = "json_object" if refused.format == "json_schema" else "text"
                    self._dialect = replace(refused, format=simpler)
                if self._dialect != refused:
                    self._cache.write(self._dialect_key(), json.dumps([time.time(), asdict(self._dialect)]).encode())
            return self._dialect != refused

    def _remembered(self) -> _Dialect:
        """What the server accepted lately, else everything."""
        with contextlib.suppress(ValueError):  # nothing is remembered
            found_at, dialect = json.loads(self._cache.read(self._dialect_key()) or b"")
            if time.time() - found_at < _REMEMBERED:
                return _Dialect(**dialect)
        return _Dialect("json_schema")

    def _dialect_key(self) -> bytes:
        return cache_key("dialect", self._options.url, self._options.model)

    def _cost(self, tokens: Tokens) -> float:
        return (tokens[0] * self._options.price_in + tokens[1] * self._options.price_out) / 1e6

    # ------------------------------------------------------------ the cache

    def _key(self, request: Request) -> bytes:
        return cache_key(self._options.model, request.system, request.user, request.schema, _TEMPERATURE)

    def _cached(self, request: Request, key: bytes) -> Answer | None:
        stored = self._cache.read(key)
        if stored is None:
            return None
        answer = Answer(**json.loads(stored), cached=True)
        if request.schema is None:
            # a text that was cut at a smaller limit may be longer today
            return None if answer.truncated and answer.tokens_out < self._options.answer_tokens else answer
        fitted = _fitted(answer.text, request, cut=answer.truncated)
        return None if fitted.complaint else answer._replace(value=fitted.value, notes=fitted.notes)

    def _store(self, key: bytes, answer: Answer) -> Answer:
        stored = {name: getattr(answer, name) for name in ("text", "tokens_in", "tokens_out", "truncated")}
        self._cache.write(key, json.dumps(stored).encode())
        return answer


# ---------------------------------------------------------------- messages and replies


def _opening(request: Request) -> Messages:
    contents = {"system": request.system, "user": request.user}
    # half a surrogate pair, as damaged sources have it, cannot be sent
    readable = {role: text.encode("utf-8", "replace").decode("utf-8") for role, text in contents.items()}
    return [{"role": role, "content": text} for role, text in readable.items() if text or role == "user"]


def _correction(text: str, complaint: str, schema: Mapping[str, Any]) -> Messages:
    correction = (
        f"Your answer was not valid: {complaint}\n"
        "Answer again with the whole JSON value and nothing around it. In JSON every backslash of LaTeX is doubled. "
        + _schema_hint(schema)
    )
    return [{"role": "assistant", "content": text}, {"role": "user", "content": correction}]


def _schema_hint(schema: Mapping[str, Any]) -> str:
    return f"It satisfies this JSON schema: {to_json_text(schema)}"


def _without_bounds(schema: Any) -> Any:
    """The schema without lengths, which the reading of the answer still checks."""
    if isinstance(schema, Mapping):
        return {key: _without_bounds(value) for key, value in schema.items() if key not in _BOUNDS}
    return schema


def _characters(body: Mapping[str, Any]) -> int:
    return sum(len(message["content"]) for message in body["messages"])


def _most_tokens(body: Mapping[str, Any]) -> int:
    """No tokenizer makes more tokens than bytes; a server may put the schema into the prompt."""
    texts = [to_json_text(body.get("response_format", {})), *(message["content"] for message in body["messages"])]
    return _TEMPLATE_TOKENS + sum(len(text.encode("utf-8", "replace")) + 8 for text in texts)


def _first_choice(chunk: Any) -> dict[str, Any]:
    """The first choice of an answer or of a piece of one; empty where there is none, as in the piece with the usage."""
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _reported_tokens(envelope: Any, most: Tokens) -> Tokens:
    """What the server says that a call took, also one without an answer; what it does not say counts as `most`."""
    usage = envelope.get("usage") if isinstance(envelope, dict) else None
    reported = [usage.get(name) if isinstance(usage, dict) else None for name in ("prompt_tokens", "completion_tokens")]
    tokens_in, tokens_out = (
        count if isinstance(count, int) and count >= 0 else most[n] for n, count in enumerate(reported)
    )
    return tokens_in, tokens_out


def _read_reply(envelope: Any, tokens: Tokens) -> _Reply:
    """The message in a server's answer."""
    try:
        if "error" in envelope and "choices" not in envelope:  # some gateways fail with status 200
            raise CallError(excerpt(to_json_text(envelope["error"]), 300), retry=True, charged=True)
        choice = envelope["choices"][0]
        message = choice["message"]
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        if not content and message.get("refusal"):
            raise CallError(f"the model refused: {excerpt(message['refusal'], 300)}", charged=True)
        return _Reply(str(content), tokens, choice.get("finish_reason") == "length")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        cause = f"the answer does not follow the protocol: {excerpt(json.dumps(envelope), 80)}"
        raise CallError(cause, retry=True, charged=True) from error


def _fitted(text: str, request: Request, *, cut: bool) -> Fitted:
    return read_answer(text, request.schema or {}, request.defaults, request.check, cut=cut)


# ---------------------------------------------------------------- the record of calls


_FIRST_GUESS = (0.35, 500.0, 5.0)  # rates; formulas take more tokens than prose, which has 0.25 per character


class _Ledger:
    """A row for each call, written before it is sent and completed after it."""

    def __init__(self, cache: AnswerCache, model: str) -> None:
        self._execute, self._model = cache.execute, model
        self._execute(
            "CREATE TABLE IF NOT EXISTS calls (id INTEGER PRIMARY KEY, digest BLOB, model TEXT, started REAL,"
            " seconds REAL, characters INTEGER, tokens_in INTEGER, tokens_out INTEGER, cost REAL, outcome TEXT)"
        )

    def open_call(self, key: bytes, characters: int, most: Tokens, cost: float) -> int:
        row = (key, self._model, time.time(), characters, *most, cost)
        statement = "INSERT INTO calls VALUES (NULL, ?, ?, ?, NULL, ?, ?, ?, ?, 'sent') RETURNING id"
        return int(self._execute(statement, *row)[0][0])

    def close_call(self, call: int, tokens: Tokens, cost: float, seconds: float, outcome: str) -> None:
        """`outcome` is empty for a reply, else the cause of the failure."""
        statement = "UPDATE calls SET tokens_in = ?, tokens_out = ?, cost = ?, seconds = ?, outcome = ? WHERE id = ?"
        self._execute(statement, *tokens, cost, seconds, outcome, call)

    def remove_call(self, call: int) -> None:
        self._execute("DELETE FROM calls WHERE id = ?", call)

    def spent(self) -> Spent:
        [row] = self._execute("SELECT COUNT(*), TOTAL(tokens_in + tokens_out), TOTAL(cost) FROM calls")
        return Spent(int(row[0]), int(row[1]), float(row[2]))

    def rates(self) -> tuple[float, float, float]:
        """Tokens per character of a question, and tokens and seconds of an answer."""
        [(calls, *rates)] = self._execute(
            "SELECT COUNT(*), TOTAL(tokens_in) / MAX(1, TOTAL(characters)), AVG(tokens_out), AVG(seconds)"
            " FROM calls WHERE model = ? AND outcome = ''",
            self._model,
        )
        return (rates[0], rates[1], rates[2]) if calls else _FIRST_GUESS
