"""Runs the application in uvicorn until it is told to stop; requests in progress are finished first."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import uvicorn

from lemmata.errors import ConfigError
from lemmata.server.app import Limits, make_app
from lemmata.server.security import Access
from lemmata.server.service import Service

__all__ = ["run"]


def run(folder: Path, access: Access, limits: Limits, *, host: str, port: int) -> None:
    """Serve a workspace; returns after SIGINT or SIGTERM, once requests in progress are answered."""
    service = Service(folder)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        cause = error.strerror or str(error)
        raise ConfigError(f"cannot listen on {host}:{port} ({cause}): choose another --port or --host") from error
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{listening.getsockname()[1]}", file=sys.stderr, flush=True)  # noqa: T201
    config = uvicorn.Config(
        make_app(service, access, limits),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(limits.seconds) + 1,
        h11_max_incomplete_event_size=1 << 16,
        lifespan="on",
    )
    uvicorn.Server(config).run(sockets=[listening])
