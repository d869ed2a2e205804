"""The REST API and the page over one Service: routes, limits, errors, request ids and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lemmata.errors import InputError, LemmataError, MissingExtra, WorkspaceError
from lemmata.server.metrics import Metrics
from lemmata.server.openapi import ENDPOINTS, LONGEST_ID, Endpoint, document
from lemmata.server.schemas import checked, parsed
from lemmata.server.security import HEADERS, Access
from lemmata.server.service import Service
from lemmata.server.views import UnknownIdError

__all__ = ["Limits", "make_app"]

_PAGE = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
_PUBLIC = re.compile(r"/|/view/.*|/page/.*|/favicon\.ico")
_log = logging.getLogger("lemmata.server")


@dataclass(frozen=True, slots=True)
class Limits:
    """What requests may use."""

    threads: int = 4  # requests that are worked on at the same time
    waiting: int = 64  # requests that may wait for a thread; more are told to try again
    seconds: float = 30.0  # for one request
    body: int = 1 << 20  # bytes
    answers: int = 4  # of /ask at the same time
    answer_seconds: float = 300.0  # for one answer of /ask


class _FailureError(Exception):
    """An error with its status, code, message and cure."""

    def __init__(
        self, status: int, code: str, message: str, cure: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.cure, self.headers = status, code, message, cure, headers or {}


# ---------------------------------------------------------------- answers and errors


class _Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )


def _failed(status: int, code: str, message: str, cure: str, headers: Mapping[str, str] | None = None) -> Response:
    return _Json(_error(code, message, cure), status, headers=dict(headers or {}))


def _explained(error: Exception) -> Response:
    """The answer to a request that failed."""
    status, content, headers = _described(error)
    return _Json(content, status, headers=dict(headers))


def _described(error: Exception) -> tuple[int, dict[str, Any], Mapping[str, str]]:
    """Status, content and headers for an error."""
    if isinstance(error, _FailureError):
        return error.status, _error(error.code, error.message, error.cure), error.headers
    for kind, status, code, cure in _STATUSES:
        if isinstance(error, kind):
            message, advice = _split(str(error))
            return status, _error(code, message, advice or cure), {}
    _log.error("a request failed", exc_info=error)
    return 500, _error("internal", "an error of the server", "report it, with what the server has logged"), {}


def _error(code: str, message: str, cure: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "cure": cure}}


_STATUSES: tuple[tuple[type[Exception], int, str, str], ...] = (
    (UnknownIdError, 404, "not_found", "search for it"),
    (MissingExtra, 501, "missing_extra", "install what is missing"),
    (WorkspaceError, 409, "workspace", "run the command that is named; the server takes over the result"),
    (InputError, 422, "invalid", "send what the schema in /openapi.json asks for"),
    (LemmataError, 400, "refused", "change the request"),
)


def _split(sentence: str) -> tuple[str, str]:
    """A message of lemmata as what is wrong and what to do, where a colon or semicolon parts the two."""
    match = re.fullmatch(r"""((?:[^('"]|'[^']*'|"[^"]*")*?)[:;] (.+)""", sentence, re.DOTALL)
    return (match[1], match[2]) if match else (sentence, "")


# ---------------------------------------------------------------- work in threads


class Workers:
    """Threads for the requests, a bounded queue before them, and a time limit for each."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix="lemmata")
        self.busy = 0  # requests in threads or waiting for one

    def submit(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Start `work` in a thread, or wait for one; a failure where too many are waiting."""
        if self.busy >= self._limits.threads + self._limits.waiting:
            raise _FailureError(503, "busy", "too many requests at once", "try again in a second", {"retry-after": "1"})
        self.busy += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(self._finished)
        return future

    async def run(self, work: Callable[[], Any]) -> Any:
        """The result of `work`; a request that timed out keeps its thread until it ends."""
        end = time.monotonic() + self._limits.seconds

        def in_time() -> Any:
            if time.monotonic() > end:
                raise TimeoutError
            return work()

        future = self.submit(in_time)
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await asyncio.shield(future)
        except TimeoutError:
            message = f"the answer took more than {self._limits.seconds:g} s"
            raise _FailureError(503, "timeout", message, "ask for less, or try again", {"retry-after": "5"}) from None

    def _finished(self, future: asyncio.Future[Any]) -> None:
        self.busy -= 1
        if not future.cancelled():
            future.exception()  # nobody may be waiting for it any more

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


# ---------------------------------------------------------------- the application


class _Api:
    """Answers the endpoints by the methods of a Service."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self.service, self.limits = service, limits
        self.workers = Workers(limits)
        self.answers = Workers(replace(limits, threads=limits.answers, waiting=0, seconds=limits.answer_seconds))
        self.metrics_ = Metrics()
        self.metrics_.gauge(
            "lemmata_requests_in_progress", "Requests in threads or waiting.", lambda: self.workers.busy
        )
        self.metrics_.gauge("lemmata_answers_in_progress", "Answers being written.", lambda: self.answers.busy)
        self.metrics_.gauge("lemmata_generation", "State of the workspace.", lambda: service.generation)
        self._document = document()

    async def answer(self, endpoint: Endpoint, request: Request) -> Response:
        arguments: dict[str, Any] = {}
        if "id" in request.path_params:
            arguments["identity"] = _checked_id(request.path_params["id"])
        for name in request.query_params:
            if name not in endpoint.parameters:
                raise InputError(f"there is no parameter {name!r}")
        for name, schema in endpoint.parameters.items():
            if name in request.query_params:
                arguments[name] = parsed(schema, request.query_params[name], name)
            elif "default" in schema:
                arguments[name] = schema["default"]
            elif name in endpoint.required:
                raise InputError(f"the parameter {name!r} is missing")
        if endpoint.body is not None:
            arguments |= checked(endpoint.body, await self._json(request))
        own = getattr(self, endpoint.name, None)
        if own is not None:
            response: Response = await own(arguments)
            return response
        method = getattr(self.service, endpoint.name)
        return _Json(await self.workers.run(lambda: method(**arguments)))

    async def _json(self, request: Request) -> Any:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
        if kind != "application/json":
            raise _FailureError(415, "not_json", "the body is not JSON", "send Content-Type: application/json")
        data = bytearray()
        declared = request.headers.get("content-length", "")
        try:
            async with asyncio.timeout(self.limits.seconds):
                while len(data) <= self.limits.body and not (declared.isdecimal() and int(declared) > self.limits.body):
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    data += message.get("body", b"")
                    if not message.get("more_body", False):
                        break
                else:
                    most = f"{self.limits.body:,} bytes"
                    raise _FailureError(413, "too_large", f"the body has more than {most}", "send less", _CLOSE)
        except TimeoutError:
            raise _FailureError(408, "slow", "the body came too slowly", "send it at once", _CLOSE) from None
        try:
            return json.loads(bytes(data).decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the body is no JSON ({error})") from error

    async def ask(self, arguments: Mapping[str, Any]) -> Response:
        """Events as they come; a thread makes them, and stops when the client has left."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        left = threading.Event()

        def put(item: bytes | Exception | None) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, item)

        def work() -> None:
            try:
                with contextlib.closing(self.service.ask(**arguments)) as events:
                    for name, data in events:
                        if left.is_set():
                            return
                        put(_event(name, data))
            except Exception as error:
                put(error)
            finally:
                put(None)

        self.answers.submit(work)
        first = await queue.get()
        if isinstance(first, Exception):
            raise first  # before anything was sent, so that it can have a status

        async def stream() -> AsyncIterator[bytes]:
            item: bytes | Exception | None = first
            end = loop.time() + self.limits.answer_seconds
            try:
                while item is not None:
                    yield _event("error", _described(item)[1]["error"]) if isinstance(item, Exception) else item
                    item = await _next(queue, end)
            finally:
                left.set()

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def metrics(self, _arguments: Mapping[str, Any]) -> Response:
        return Response(self.metrics_.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, _arguments: Mapping[str, Any]) -> Response:
        return _Json(self._document)


_CLOSE = {"connection": "close"}  # the rest of the body is not read
_BEAT = 15.0  # seconds without an event, after which a comment keeps the connection open


async def _next(queue: asyncio.Queue[bytes | Exception | None], end: float) -> bytes | Exception | None:
    """The next event, or a comment after some seconds without one."""
    loop = asyncio.get_running_loop()
    if loop.time() > end:
        return _FailureError(503, "timeout", "the answer took too long", "ask for less")
    try:
        return await asyncio.wait_for(queue.get(), _BEAT)
    except TimeoutError:
        return b": waiting\n\n"


def _event(name: str, data: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, allow_nan=False)}\n\n".encode(
        "utf-8", "replace"
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _checked_id(identity: str) -> str:
    if len(identity) > LONGEST_ID:
        raise InputError(f"the id is {len(identity):,} characters: at most {LONGEST_ID:,} are possible")
    return identity


async def _page(_request: Request) -> Response:
    return FileResponse(_PAGE / "index.html", media_type=_TYPES[".html"], headers={"cache-control": "no-cache"})


async def _file(request: Request) -> Response:
    """A file of the page; nothing outside of its folder, whatever the path says."""
    path = (_PAGE / request.path_params["path"]).resolve() if "\0" not in request.path_params["path"] else _PAGE
    if not path.is_relative_to(_PAGE.resolve()) or not path.is_file() or path.suffix not in _TYPES:
        return _failed(404, "not_found", "the page has no such file", "open /")
    return FileResponse(path, media_type=_TYPES[path.suffix], headers={"cache-control": "no-cache"})


async def _nothing(_request: Request) -> Response:
    return Response(status_code=204)


def make_app(service: Service, access: Access, limits: Limits | None = None, *, watch: float = 1.0) -> ASGIApp:
    """The application; `watch` is the time between two looks for a rebuilt workspace, 0 for none."""
    api = _Api(service, limits or Limits())

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        watcher = asyncio.create_task(_watch(service, watch)) if watch else None
        try:
            yield
        finally:
            if watcher:
                watcher.cancel()
            for workers in (api.workers, api.answers):
                await asyncio.get_running_loop().run_in_executor(None, workers.close)
            service.close()

    routes = [_route(api, endpoint) for endpoint in ENDPOINTS]
    routes += [
        Route("/", _page),
        Route("/view/{path:path}", _page),
        Route("/page/{path:path}", _file),
        Route("/favicon.ico", _nothing),
    ]

    async def missing(_request: Request, _error: Exception) -> Response:
        return _failed(404, "not_found", "there is no such address", "see /openapi.json")

    async def wrong_method(_request: Request, error: Exception) -> Response:
        headers = getattr(error, "headers", None)
        return _failed(405, "method", "the address does not take this method", "see /openapi.json", headers)

    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: missing, 405: wrong_method})
    app.router.redirect_slashes = False
    return _Outermost(app, api, access)


class _IdConvertor(PathConvertor):
    """An id in a path; unlike Starlette's `path` it may have line breaks, so that none is cut off at the end."""

    regex = r"[\s\S]*"


register_url_convertor("identity", _IdConvertor())


def _route(api: _Api, endpoint: Endpoint) -> Route:
    async def answer(request: Request) -> Response:
        try:
            return await api.answer(endpoint, request)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:
            return _explained(error)

    return Route(endpoint.path.replace("{id}", "{id:identity}"), answer, methods=[endpoint.method], name=endpoint.path)


async def _watch(service: Service, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(seconds)
        try:
            if await loop.run_in_executor(None, service.refresh):
                _log.info("the workspace was rebuilt: generation %d", service.generation)
        except Exception:
            _log.exception("looking for a rebuilt workspace failed")


class _Outermost:
    """Around everything: who may ask, the id of a request, the headers of every answer, and the metrics."""

    def __init__(self, app: ASGIApp, api: _Api, access: Access) -> None:
        self._app, self._api, self._access = app, api, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = Headers(scope=scope)
        identity = headers.get("x-request-id", "")
        if not re.fullmatch(r"[\w.:-]{1,64}", identity, re.ASCII):
            identity = secrets.token_hex(8)
        status = 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answer = MutableHeaders(scope=message)
                answer["x-request-id"] = identity
                for name, value in HEADERS.items():
                    answer[name] = value
                answer.setdefault("cache-control", "no-store")
                self._allow_origin(headers, answer)
            await send(message)

        is_public = _PUBLIC.fullmatch(scope["path"]) is not None
        refusal = self._access.check(headers, is_public=is_public)
        app: ASGIApp = self._app
        if refusal is not None:
            more = {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
            app = _failed(refusal.status, refusal.code, refusal.message, refusal.cure, more)
        elif scope["method"] == "OPTIONS" and headers.get("origin") in self._access.origins:
            allowed = {"access-control-allow-methods": "GET, POST", "access-control-max-age": "600"}
            app = Response(
                status_code=204, headers={**allowed, "access-control-allow-headers": "authorization, content-type"}
            )
        try:
            await app(scope, receive, sending)
        finally:
            route = scope.get("route")
            name = route.name if route is not None else "other"
            self._api.metrics_.observe(name, scope["method"], status, time.perf_counter() - started)

    def _allow_origin(self, request: Headers, answer: MutableHeaders) -> None:
        if self._access.origins:
            answer.add_vary_header("Origin")
            if (origin := request.get("origin")) in self._access.origins:
                answer["access-control-allow-origin"] = origin
                answer["cross-origin-resource-policy"] = "cross-origin"
