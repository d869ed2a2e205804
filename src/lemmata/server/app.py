"""The REST API and the page over one Service: routes, limits, errors, request ids and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import json
import logging
import re
import secrets
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lemmata.core.errors import InputError
from lemmata.core.records import arguments_of, parameters_of
from lemmata.search.names import RETRIEVERS
from lemmata.server.failures import StatusError, describe_error, error_record
from lemmata.server.metrics import Metrics
from lemmata.server.openapi import ENDPOINTS, Endpoint, document
from lemmata.server.security import HEADERS, Access
from lemmata.server.service import Service
from lemmata.server.threads import Workers

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
_PUBLIC = re.compile(r"/|/view/.*|/page/.*|/favicon\.ico", re.DOTALL)
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


# ---------------------------------------------------------------- answers


def _encoded(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def _json(content: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(content, status, headers, media_type="application/json")


def _failed(status: int, code: str, message: str, cure: str, headers: Mapping[str, str] | None = None) -> Response:
    return _json(_encoded(error_record(code, message, cure)), status, headers)


# ---------------------------------------------------------------- the application


class _Api:
    """Answers the endpoints by the methods of a Service."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self.service, self.limits, self.metrics = service, limits, Metrics()
        self.workers = Workers(limits.threads, limits.waiting, limits.seconds)
        self.answers = Workers(limits.answers, 0, limits.answer_seconds)
        self.apart = {  # endpoints whose requests neither wait for those of others nor keep them waiting
            "health": Workers(1, limits.waiting, limits.seconds),
            "embeddings": Workers(max(1, limits.threads // 2), limits.waiting, limits.seconds),
        }
        for name, description, value in (
            ("lemmata_requests_in_progress", "Requests in threads or waiting.", self._busy),
            ("lemmata_answers_in_progress", "Answers being written.", lambda: self.answers.busy),
            ("lemmata_generation", "State of the workspace.", lambda: service.generation),
        ):
            self.metrics.gauge(name, description, value)
        self._document = _encoded(document())
        self._left: set[threading.Event] = set()  # of each answer being written: set when nobody reads it

    def _busy(self) -> int:
        return sum(workers.busy for workers in (self.workers, *self.apart.values()))

    async def answer(self, endpoint: Endpoint, request: Request) -> Response:
        """The answer of the method of the Service that an endpoint names, or of one of those below."""
        values = _parameters(endpoint, request)
        if endpoint.method == "POST":
            values = await self._body(request)
        arguments = arguments_of(endpoint.function, values, InputError)
        if endpoint.name == "ask":
            return await self._ask(arguments)
        if endpoint.name == "metrics":
            return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")
        if endpoint.name == "openapi":
            return _json(self._document)
        method = getattr(self.service, endpoint.name)
        workers = self.apart.get(endpoint.name, self.workers)
        return _json(await workers.run(lambda: _encoded(method(**arguments))))

    async def close(self) -> None:
        """Let requests in progress finish, and answers of a language model break off."""
        for left in self._left:
            left.set()
        for workers in (self.workers, self.answers, *self.apart.values()):
            await asyncio.get_running_loop().run_in_executor(None, workers.close)
        self.service.close()

    async def _body(self, request: Request) -> Any:
        """The JSON of a body that is neither too large nor too slow."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
        if kind != "application/json":
            raise StatusError(415, "not_json", "the body is not JSON", "send Content-Type: application/json")
        try:
            async with asyncio.timeout(self.limits.seconds):
                data = await _read(request, self.limits.body)
        except TimeoutError:
            raise StatusError(408, "slow", "the body came too slowly", "send it at once", _CLOSE) from None
        try:
            return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise InputError(f"the body is no JSON ({error})") from error

    async def _ask(self, arguments: Mapping[str, Any]) -> Response:
        """Events as they come; a thread makes them, and stops when the client has left."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        left = threading.Event()
        end = loop.time() + self.limits.answer_seconds

        def put(item: bytes | Exception | None) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, item)

        def work() -> None:
            try:
                with contextlib.closing(self.service.ask(**arguments)) as events:
                    for name, data in events:
                        if left.is_set():
                            return
                        if loop.time() > end:
                            raise _too_long()
                        put(_event(name, data))
            except Exception as error:
                put(error)
            finally:
                put(None)

        self.answers.submit(work)
        self._left.add(left)
        first = await queue.get()
        if isinstance(first, Exception):
            self._left.discard(left)
            raise first  # before anything was sent, so that it can have a status

        async def stream() -> AsyncIterator[bytes]:
            item: bytes | Exception | None = first
            try:
                while isinstance(item, bytes):
                    yield item
                    item = await _next(queue, end)
                if item is not None:
                    yield _event("error", describe_error(item)[1]["error"])
            finally:
                left.set()
                self._left.discard(left)

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _parameters(endpoint: Endpoint, request: Request) -> dict[str, Any]:
    """The id in the path and the parameters of the query, as the types that they should have."""
    properties = parameters_of(endpoint.function)["properties"] if endpoint.method == "GET" else {}
    values: dict[str, Any] = {"identity": request.path_params["id"]} if "id" in request.path_params else {}
    for name, text in request.query_params.items():
        if name not in properties or name == "identity":
            raise InputError(f"there is no parameter {name!r}")
        values[name] = _read_parameter(text, properties[name]["type"])
    return values


def _read_parameter(text: str, kind: str) -> Any:
    """The value that a text means; the text where it means none."""
    if kind == "integer" and text.isascii() and "_" not in text:
        with contextlib.suppress(ValueError):
            return int(text)
    return {"true": True, "false": False}.get(text, text) if kind == "boolean" else text


async def _read(request: Request, most: int) -> bytes:
    """The body of a request; StatusError for one that is too large.

    One that is a little too large is read to its end and forgotten: who is cut off while sending sees no answer.
    """
    declared = request.headers.get("content-length", "")
    size = int(declared) if declared.isascii() and declared.isdecimal() and len(declared) < 20 else 0
    data, read = bytearray(), 0
    if size <= _FORGOTTEN * most:
        async for chunk in request.stream():
            read += len(chunk)
            if read > _FORGOTTEN * most:
                break
            data += chunk if read <= most else b""
        else:
            if read <= most:
                return bytes(data)
    raise StatusError(413, "too_large", f"the body has more than {most:,} bytes", "send less", _CLOSE)


_FORGOTTEN = 4  # times the largest body
_CLOSE = {"connection": "close"}  # the rest of the body is not read
_BEAT = 15.0  # seconds without an event, after which a comment keeps the connection open


async def _next(queue: asyncio.Queue[bytes | Exception | None], end: float) -> bytes | Exception | None:
    """The next event, or a comment after some seconds without one."""
    if asyncio.get_running_loop().time() > end:
        return _too_long()
    try:
        return await asyncio.wait_for(queue.get(), _BEAT)
    except TimeoutError:
        return b": waiting\n\n"


def _too_long() -> StatusError:
    return StatusError(503, "timeout", "the answer took too long", "ask for less")


def _event(name: str, data: Mapping[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, allow_nan=False)}\n\n".encode(
        "utf-8", "replace"
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


async def _page(request: Request) -> Response:
    return _whole_file(_PAGE / "index.html", request)


async def _retrievers(_request: Request) -> Response:
    """The retrievers in plain words, for the page."""
    words = {name: [kind.title, kind.description] for name, kind in RETRIEVERS.items()}
    script = f"export const RETRIEVERS = {json.dumps(words)};\n"
    return Response(script, media_type=_TYPES[".js"], headers={"cache-control": "no-cache"})


async def _file(request: Request) -> Response:
    """A file of the page; nothing outside of its folder, whatever the path says."""
    path = (_PAGE / request.path_params["path"]).resolve() if "\0" not in request.path_params["path"] else _PAGE
    if not path.is_relative_to(_PAGE.resolve()) or not path.is_file() or path.suffix not in _TYPES:
        return _failed(404, "not_found", "the page has no such file", "open /")
    return _whole_file(path, request)


def _whole_file(path: Path, request: Request, status: int = 200) -> Response:
    """A small file, whatever range is asked for: Starlette's FileResponse answers a wrong one in its own words."""
    headers = {"cache-control": "max-age=604800" if path.suffix == ".woff2" else "no-cache", "vary": "accept-encoding"}
    content = path.read_bytes()
    if path.suffix != ".woff2" and "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["content-encoding"] = _compressed(content), "gzip"
    return Response(content, status, media_type=_TYPES[path.suffix], headers=headers)


@functools.lru_cache(maxsize=64)
def _compressed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


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
            await api.close()

    routes = [_route(api, endpoint) for endpoint in ENDPOINTS]
    routes += [
        Route("/", _page),
        Route("/view/{path:identity}", _page),
        Route("/page/retrievers.js", _retrievers),
        Route("/page/{path:path}", _file),
        Route("/favicon.ico", _nothing),
    ]

    async def missing(request: Request, _error: Exception) -> Response:
        if "text/html" in request.headers.get("accept", ""):  # somebody in a browser: the page shows ways on
            return _whole_file(_PAGE / "index.html", request, 404)
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
            status, content, headers = describe_error(error)
            return _json(_encoded(content), status, headers)

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


_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "600",
}


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
                answer.raw.append((b"x-request-id", identity.encode()))
                answer.raw.extend(_HEADERS)
                answer.setdefault("cache-control", "no-store")
                self._allow_origin(headers, answer)
            await send(message)

        is_preflight = scope["method"] == "OPTIONS" and headers.get("origin") in self._access.origins
        is_public = is_preflight or _PUBLIC.fullmatch(scope["path"]) is not None
        refusal = self._access.check(headers, is_public=is_public)
        app: ASGIApp = self._app
        if refusal is not None:
            app = _failed(refusal.status, refusal.code, refusal.message, refusal.cure, refusal.headers)
        elif is_preflight:
            app = Response(status_code=204, headers=_PREFLIGHT)
        try:
            await app(scope, receive, sending)
        finally:
            route = scope.get("route")
            name = route.name if route is not None else "other"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._api.metrics.observe(name, method, status, time.perf_counter() - started)

    def _allow_origin(self, request: Headers, answer: MutableHeaders) -> None:
        if self._access.origins:
            answer.add_vary_header("Origin")
            if (origin := request.get("origin")) in self._access.origins:
                answer["access-control-allow-origin"] = origin
                answer["cross-origin-resource-policy"] = "cross-origin"
