"""A server of a workspace in a thread of this process, with a client."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from lemmata.server.app import Limits
from lemmata.server.run import listen, make_server
from lemmata.server.security import Access
from lemmata.server.service import Service


@contextlib.contextmanager
def serving(
    folder: Path,
    *,
    service: Service | None = None,
    access: Access | None = None,
    limits: Limits | None = None,
    watch: float = 0.0,
) -> Iterator[httpx.Client]:
    """A client of a server in a thread of this process."""
    server = make_server(service or Service(folder), access or Access("127.0.0.1"), limits or Limits(), watch=watch)
    listening = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with httpx.Client(base_url=address, timeout=60) as client:
            while not server.started:
                time.sleep(0.01)
                assert thread.is_alive()
            yield client
    finally:
        server.should_exit = True
        thread.join()


def refused(response: httpx.Response, status: int, code: str) -> dict[str, str]:
    """The error of an answer, which always says what is wrong and what to do."""
    assert response.status_code == status, response.text
    error: dict[str, str] = response.json()["error"]
    assert error["code"] == code
    assert error["message"]
    assert error["cure"]
    return error
