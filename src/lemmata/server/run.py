"""Runs the application in uvicorn until it is told to stop; requests in progress are finished first."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from starlette.types import ASGIApp

from lemmata.core.errors import ConfigError
from lemmata.core.files import write_atomically
from lemmata.server.app import Limits, make_app
from lemmata.server.connections import Connection
from lemmata.server.folder import serving_alone
from lemmata.server.security import Access
from lemmata.server.service import Service

if TYPE_CHECKING:
    from lemmata.server.background import Background

PORT = 8765
_BACKLOG = 64  # connections that are accepted at once, before any of them can be refused


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; ConfigError with the cure where the address is taken or is none of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio sets no TCP_NODELAY: 40 ms
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        listening.close()
        cause = error.strerror or str(error)
        raise ConfigError(f"cannot listen on {host}:{port} ({cause}): choose another --port or --host") from error
    return listening


def _reachable(host: str) -> str:
    """A host as it stands in an address; for all addresses of the machine, that of its way to the network."""
    host = host.strip("[]")
    if host in ("0.0.0.0", "::"):  # noqa: S104
        family, documentation = (socket.AF_INET6, "2001:db8::1") if host == "::" else (socket.AF_INET, "192.0.2.1")
        host = "::1" if host == "::" else "127.0.0.1"
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as outgoing:
            outgoing.connect((documentation, 9))  # chooses an address and sends nothing
            host = outgoing.getsockname()[0]
    return f"[{host}]" if ":" in host else host


def configured(app: ASGIApp, *, seconds: int, keep_alive: int = 5) -> uvicorn.Server:
    """An application in uvicorn, not yet running; at its end, requests in progress have so many seconds."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connection,
            backlog=_BACKLOG,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=keep_alive,
            timeout_graceful_shutdown=seconds,
            ws="none",
            lifespan="on",
        )
    )


def make_server(service: Service, access: Access, limits: Limits, *, watch: float = 1.0) -> uvicorn.Server:
    """The server, not yet running; it closes the service at its end."""
    app = make_app(service, access, limits, watch=watch)
    return configured(app, seconds=int(limits.seconds) + 1, keep_alive=30)


def run(folder: Path, access: Access, limits: Limits, *, host: str, port: int) -> None:
    """Serve a workspace; returns after SIGINT or SIGTERM, once requests in progress are answered."""
    listening = listen(host, port)
    _run(make_server(Service(folder), access, limits), listening, _address(host, listening))


def run_folder(background: Background, access: Access, limits: Limits, *, host: str, port: int | None) -> None:
    """Serve the workspace that a background makes, from its beginning; the port is 8765, or a free one if it is taken.

    AlreadyServed where another server has the workspace.
    """
    with serving_alone(background.workspace) as note:
        try:
            listening = listen(host, PORT if port is None else port)
        except ConfigError:
            if port is not None:
                raise
            listening = listen(host, 0)
        background.start()
        address = _address(host, listening)
        write_atomically(note, address.encode())
        _run(make_server(Service(background.workspace.root, background), access, limits), listening, address)


def _address(host: str, listening: socket.socket) -> str:
    return f"http://{_reachable(host)}:{listening.getsockname()[1]}"


def _run(server: uvicorn.Server, listening: socket.socket, address: str) -> None:
    listening.listen(_BACKLOG)  # who reads the address may connect at once
    print(f"{address} (Ctrl-C stops it)", file=sys.stderr, flush=True)  # noqa: T201
    with contextlib.suppress(KeyboardInterrupt):  # the usual end
        server.run(sockets=[listening])
