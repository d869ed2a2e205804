"""Embedding services on loopback: one that fails on request, one that counts what it is asked."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

import numpy as np

S = TypeVar("S", bound=ThreadingHTTPServer)


@contextlib.contextmanager
def answering(server: S) -> Iterator[S]:
    """A server that answers in a thread of its own until it is closed."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class FaultyServer(ThreadingHTTPServer):
    """Answers (length of the text, 1, 2); each entry of `faults` spoils one request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults: list[str] = []
        self.requests: list[list[str]] = []
        self.keys: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: FaultyServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body["input"])
        self.server.keys.append(self.headers["Authorization"])
        fault = self.server.faults.pop(0) if self.server.faults else ""
        if fault.isdigit():
            self.reply(int(fault), b'{"error": {"message": "no"}}')
            return
        if fault.startswith("retry"):
            self.reply(429, b"{}", {"Retry-After": fault.split()[1].replace("_", " ")})
            return
        if fault == "hang":
            self.rfile.read(1)  # until the client leaves
            return
        if fault == "redirect":
            self.reply(302, b"{}", {"Location": f"{self.server.url}/elsewhere"})
            return
        data: list[dict[str, Any]] = [
            {"object": "embedding", "index": index, "embedding": [float(len(text)), 1.0, 2.0]}
            for index, text in enumerate(body["input"])
        ]
        if fault == "reordered":
            data.reverse()
        elif fault == "few":
            data.pop()
        elif fault == "twice":
            data[-1]["index"] = 0
        elif fault == "ragged":
            data[-1]["embedding"].pop()
        elif fault == "zero":
            data[0]["embedding"] = [0.0, 0.0, 0.0]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        answer = json.dumps({"object": "list", "data": data, "model": body["model"], "usage": usage}).encode()
        self.reply(200, answer[:-30] if fault == "truncated" else answer)

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server wants
        pass


class CountingServer(ThreadingHTTPServer):
    """An embedding service whose tokens are words; a vector has one random part for each word."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), CountingHandler)
        self.tokens: list[int] = []
        self.texts: list[str] = []
        self.reports_usage = True
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1#words"


class CountingHandler(BaseHTTPRequestHandler):
    server: CountingServer

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        self.server.tokens.append(sum(len(text.split()) for text in texts))
        self.server.texts += texts
        data = [{"index": n, "embedding": word_vector(text).tolist()} for n, text in enumerate(texts)]
        usage = {"usage": {"total_tokens": self.server.tokens[-1]}} if self.server.reports_usage else {}
        answer = json.dumps({"data": data, **usage}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
        pass


def word_vector(text: str) -> np.ndarray:
    seeds = [int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") for word in text.lower().split()]
    vector: np.ndarray = np.sum([np.random.default_rng(seed).standard_normal(16) for seed in seeds], axis=0)
    return vector
