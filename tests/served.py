"""A server of a workspace in a thread of this process, with a client."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
from tests.make import wait_until

from lemmata.server.app import Limits
from lemmata.server.openapi import ENDPOINTS
from lemmata.server.run import listen, make_server
from lemmata.server.security import Access
from lemmata.server.service import Service

NOTES = {
    "a.tex": r"""\documentclass{article}\newtheorem{lemma}{Lemma}\newtheorem{theorem}{Theorem}
\title{Sponges}\author{Ada Wet}\date{2021-03-04}\begin{document}
\begin{lemma}[Wet \& <b>bold</b>]\label{sponge}Every wet sponge absorbs $x^2 < y$ of a pump.\end{lemma}
\begin{proof}By Lemma \ref{middle} this is clear.\end{proof}
\begin{lemma}\label{middle}Sponges and zebras drink.\end{lemma}
\begin{proof}By Theorem \ref{zebra} this is clear.\end{proof}
\begin{theorem}\label{zebra}Zebras graze quietly. <script>alert(1)</script>\end{theorem}
\end{document}""",
    "b.tex": r"""\documentclass{article}\newtheorem{lemma}{Lemma}\newtheorem{definition}{Definition}\begin{document}
\begin{definition}\label{comet}A \emph{comet} is a wet stone that orbits the sun.\end{definition}
\begin{lemma}\label{alone}A comet orbits the sun.\end{lemma}\end{document}""",
    "locations.csv": "id,parent,description\nK2,,Column\nK2-P1,K2,Pump\n",
    "logs.csv": "id,text,location,date\n1,The pump leaks,K2-P1,2024-05-01\n2,The wet seal leaks,K2-P1,2024-05-03\n"
    "3,The pump runs,K2-P1,2024-05-02\n4,The column is wet,K2,2024-05-02\n",
}


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
        with httpx.Client(base_url=address, timeout=300) as client:
            wait_until(lambda: server.started)
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


def valid(response: httpx.Response, path: str) -> Any:
    """The content of an answer, after it was compared with the schema of its endpoint."""
    assert response.status_code == 200, response.text
    method = response.request.method
    endpoint = next(endpoint for endpoint in ENDPOINTS if (endpoint.method, endpoint.path) == (method, path))
    content = response.json()
    jsonschema_rs.validate(dict(endpoint.answer or {}), content)
    return content


def refuses_strangers(client: httpx.Client, path: str, body: Any, token: str) -> None:
    """A write is refused without the token, from another page, to another host, and as anything but JSON."""
    refused(client.post(path, json=body), 401, "unauthorized")
    for header, value, status, code in (
        ("origin", "http://evil.example", 403, "foreign_origin"),
        ("host", "evil.example", 421, "unknown_host"),
        ("content-type", "text/plain", 415, "not_json"),
    ):
        headers = {"authorization": f"Bearer {token}", header: value}
        refused(client.post(path, json=body, headers=headers), status, code)


class SlowService(Service):
    """Answers when it is let."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.go = threading.Event()

    def search(self, *arguments: Any, **more: Any) -> dict[str, Any]:
        self.go.wait(300)
        return super().search(*arguments, **more)
