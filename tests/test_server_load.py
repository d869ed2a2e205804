"""A server under hostile load: connections that only wait, dear requests, memory; always by real sockets."""

from __future__ import annotations

import contextlib
import itertools
import json
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from tests.make import wait_until
from tests.served import SlowService, refused, serving

from lemmata.core.types import Floats
from lemmata.project import Project
from lemmata.server import mathml
from lemmata.server.app import Limits, make_app
from lemmata.server.cache import cached
from lemmata.server.deadline import check_time, deadline
from lemmata.server.run import configured, listen
from lemmata.server.security import Access
from lemmata.server.service import Service

FILES = 512  # that the server may open


@pytest.fixture(scope="module")
def project(served: Project) -> Project:
    return served


def connect(port: int, seconds: float = 300) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=seconds)


def rest_of(connection: socket.socket) -> bytes:
    """What still comes, up to the end of the connection."""
    with contextlib.suppress(ConnectionError):
        return b"".join(iter(lambda: connection.recv(65536), b""))
    return b""


# ---------------------------------------------------------------- connections


@contextlib.contextmanager
def impatient(project: Project) -> Iterator[int]:
    """The port of a server that waits three seconds only."""
    server = configured(make_app(Service(project.root), Access("127.0.0.1"), watch=0), seconds=5, keep_alive=3)
    listening = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def test_a_head_that_does_not_come_is_not_waited_for(project: Project) -> None:
    head = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    with impatient(project) as port, contextlib.ExitStack() as stack:
        connections = []
        for before, sent in itertools.product((b"", head + b"\r\n"), (b"", head[:15], head + b"X: y")):
            connections.append(stack.enter_context(connect(port)))
            connections[-1].sendall(before)
            if before:
                assert connections[-1].recv(65536).startswith(b"HTTP/1.1 200")
            connections[-1].sendall(sent)
        for connection in connections:
            assert b"HTTP" not in rest_of(connection)  # it ends


def send_until_closed(connection: socket.socket, data: bytes) -> None:
    """Send data again and again until the server closes the connection."""

    def is_closed() -> bool:
        try:
            connection.sendall(data)
        except ConnectionError:
            return True
        return False

    wait_until(is_closed)


def test_a_head_that_comes_bit_by_bit_gets_no_more_time(project: Project) -> None:
    with impatient(project) as port, connect(port) as connection:
        send_until_closed(connection, b"G")


def test_a_client_that_does_not_read_its_answers_is_dropped(project: Project) -> None:
    with impatient(project) as port, connect(port) as connection:
        # the server stops reading when nothing more can be written
        send_until_closed(connection, b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)


def test_connections_without_a_request_do_not_keep_others_out(project: Project) -> None:
    command = [sys.executable, "-m", "lemmata", "serve", "-w", str(project.root), "--port", "0"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=limit) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[0]
        port = int(address.rpartition(":")[2])
        with contextlib.ExitStack() as stack:
            stack.callback(process.terminate)  # also where something fails
            for _ in range(FILES + 100):
                with contextlib.suppress(OSError):  # a busy machine may not take all of them
                    stack.enter_context(connect(port, 1)).sendall(b"GET / HTTP/1.1\r\nHost: ")
            for _ in range(20):
                with contextlib.suppress(OSError):
                    stack.enter_context(connect(port, 1)).sendall(b"no request\r\n\r\n")
            assert httpx.get(f"{address}/health", timeout=300).status_code == 200
        logged = process.stderr.read().splitlines()
    assert len([line for line in logged if "too many connections" in line]) == 1
    assert len([line for line in logged if "Invalid HTTP request" in line]) <= 1
    assert not [line for line in logged if "Traceback" in line]


@pytest.mark.parametrize("path", ["/search", "/", "/no-such"])
def test_a_request_with_two_lengths_is_refused(project: Project, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    body = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n"
    with serving(project.root) as client, connect(client.base_url.port or 0) as connection:
        connection.sendall((head + body).encode())
        answer = rest_of(connection)
    assert answer.startswith(b"HTTP/1.1 400")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "two_lengths"


# ---------------------------------------------------------------- the page


@pytest.mark.parametrize("token", ["", "0123456789abcdef"])
def test_the_page_is_shown_for_an_id_with_a_line_break(project: Project, token: str) -> None:
    with serving(project.root, access=Access("127.0.0.1", token=token)) as client:
        answer = client.get("/view/passage/" + quote("a#b\nc", safe=""))
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")


# ---------------------------------------------------------------- dear requests


def test_health_is_answered_while_all_threads_are_busy(project: Project) -> None:
    service = SlowService(project.root)
    with serving(project.root, service=service, limits=Limits(threads=1, waiting=0)) as client:
        asking = threading.Thread(target=client.post, args=("/search",), kwargs={"json": {"query": "wet"}})
        asking.start()
        wait_until(lambda: "lemmata_requests_in_progress 1" in client.get("/metrics").text)
        try:
            assert client.get("/health").status_code == 200
            model = client.get("/health").json()["encoders"][0]
            answer = client.post("/v1/embeddings", json={"input": "wet", "model": model})
            assert answer.status_code == 200
        finally:
            service.go.set()
            asking.join()


class SlowEncoder:
    """Takes a moment for every text, and counts its calls."""

    dimension = 4

    def __init__(self) -> None:
        self.calls = 0

    def encode(self, texts: list[str], role: str) -> Floats:  # noqa: ARG002
        self.calls += 1
        time.sleep(0.2)
        return np.ones((len(texts), 4), np.float32)


def test_vectors_of_too_many_texts_stop_at_the_time_limit(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, encoder = Service(project.root), SlowEncoder()
    with serving(project.root, service=service, limits=Limits(seconds=1)) as client:
        with service.opened() as opened:
            monkeypatch.setattr(opened, "encoder", lambda _name: encoder)
        refused(client.post("/v1/embeddings", json={"input": ["wet"] * 512, "model": "hashing"}), 503, "timeout")
        wait_until(lambda: "lemmata_requests_in_progress 0" in client.get("/metrics").text)
        assert encoder.calls <= 6  # of 32


def test_more_text_than_a_request_for_vectors_may_have_is_refused(project: Project) -> None:
    with serving(project.root) as client:
        model = client.get("/health").json()["encoders"][0]
        texts = ["wet " * 10_000] * 10
        error = refused(client.post("/v1/embeddings", json={"input": texts, "model": model}), 422, "invalid")
        assert "400,000" in error["message"]


def work_without_end() -> None:
    while True:
        check_time()


def test_work_ends_at_its_deadline_and_the_next_one_of_the_thread_has_its_own() -> None:
    with pytest.raises(TimeoutError), deadline(time.monotonic() + 0.05):
        work_without_end()
    check_time()
    with pytest.raises(TimeoutError), deadline(time.monotonic() - 1):
        pytest.fail("it is too late to begin")


def test_a_passage_with_more_formulas_than_can_be_converted_shows_the_rest_as_latex(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mathml, "_MOST_CONVERTED", 1 << 13)
    formula = "\\frac{a}{b} + x_{%d}"
    made = mathml.to_html(" ".join(f"so ${formula % number}$ holds" for number in range(1000)))
    assert made.count("data-latex") == 1000
    converted = made.count("<math")
    assert 100 < converted < 600
    assert made.count('<code class="latex"') == 1000 - converted
    assert made.index("<code") > made.rindex("<math")


def test_a_view_of_formulas_stops_at_the_time_limit() -> None:
    text = " ".join(f"$y_{{{number}}}$ is a formula" for number in range(8000))
    with pytest.raises(TimeoutError), deadline(time.monotonic() + 0.05):
        mathml.to_html(text)


class CountedLink(tuple[int, int, str]):
    """Counts how often any of them is looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        CountedLink.looks += 1
        return super().__iter__()


def test_links_between_formulas_are_looked_at_once() -> None:
    text = "see 1 $x$ " * 300
    links = [CountedLink((start + 4, start + 5, f"a#{start}")) for start in range(0, len(text), 10)]
    assert mathml.to_html(text, links=links).count("<a href") == 300
    assert CountedLink.looks <= 600  # 90,000 before


# ---------------------------------------------------------------- memory


def test_a_cache_is_bounded_by_the_size_of_its_results() -> None:
    calls: list[int] = []

    @cached(1000)
    def text(number: int, length: int = 90) -> str:
        calls.append(number)
        return "x" * length

    for number in range(20):
        text(number)
    assert text(19) == "x" * 90
    assert calls == [*range(20)]  # the last one was remembered
    text(0)
    assert calls[-1] == 0  # the first one was not
    text(1, length=2000)
    text(1, length=2000)
    assert calls[-2:] == [1, 1]  # too large to keep
