"""What it costs: both versions in turn on the same sources, three times; the least of each is compared."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.gate.cases import STATIC, Case
from bench.gate.checkout import Checkout, Cost, GateError

ROUNDS = 3
SLOWER = 1.5  # times, at most
PATIENCE = 300.0  # seconds until a server has hits
_UPDATED = 100  # passages
_WARM, _TIMED = 10, 50  # queries to a server: before the measurement, and measured


class Comparison(NamedTuple):
    """One step, its least over the rounds."""

    step: str
    unit: str
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before if self.before else 1.0

    @property
    def passes(self) -> bool:
        return self.ratio <= SLOWER


def measure(checkouts: Sequence[Checkout], case: Case, folder: Path) -> list[Comparison]:
    """The steps of a workspace over the sources of a case, with the queries of its first task."""
    queries = list(case.tasks[0].queries.values())
    if len(queries) < _WARM + _TIMED:
        queries = [f"{query} {number}" for number in range(_WARM + _TIMED) for query in queries]
    costs: dict[str, list[list[float]]] = {}
    for number in range(ROUNDS):
        for turn, checkout in enumerate(checkouts):
            for step, cost in _round(checkout, case, queries, folder / f"{turn}-{number}"):
                costs.setdefault(step, [[], []])[turn].append(cost)
    units = {"memory": "MiB", "query": "ms, clock", "first": "s, clock", "help": "ms, clock"}
    return [
        Comparison(step, next((unit for word, unit in units.items() if word in step), "s, CPU"), *map(min, values))
        for step, values in costs.items()
    ]


def _round(checkout: Checkout, case: Case, queries: Sequence[str], folder: Path) -> Iterator[tuple[str, float]]:
    """Every step once, in a new workspace."""
    shutil.rmtree(folder, ignore_errors=True)
    workspace = folder / "workspace"
    folder.mkdir(parents=True)
    steps: list[tuple[str, Cost]] = []

    def run(step: str, *arguments: object) -> None:
        steps.append((step, checkout.run(*arguments)[1]))

    checkout.run("init", workspace)
    run("ingest", "ingest", *case.sources, "-w", workspace)
    run("words", "index", "--no-dense", "-w", workspace)
    run("graph", "graph", "build", "-w", workspace)
    run("static vectors", "index", "--encoder", STATIC, "-w", workspace)
    added = folder / "added.jsonl"
    lines = ({"id": f"added-{number}", "text": f"Added {queries[number % len(queries)]}"} for number in range(_UPDATED))
    added.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    run("update: ingest", "ingest", added, "-w", workspace)
    run("update: index", "index", "-w", workspace)
    run("vectors", "index", "--encoder", "lemmata-mini", "-w", workspace)
    for step, cost in steps:
        yield step, cost.cpu
        yield f"{step}: memory", cost.memory
    cold = [checkout.run("search", query, "-w", workspace, "--json")[1] for query in queries[:3]]
    yield "cold query", 1000 * min(cost.seconds for cost in cold)
    yield "cold query: memory", min(cost.memory for cost in cold)
    yield "help", 1000 * min(checkout.run("--help")[1].seconds for _ in range(3))
    with _serving(checkout, "-w", workspace) as port:
        _first_hits(port, queries[0])
        clock = [_timed(port, query) for query in queries[: _WARM + _TIMED]][_WARM:]
    yield "warm query", 1000 * statistics.median(clock)
    sources = folder / "sources"
    sources.mkdir()
    for source in case.sources:
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, sources / source.name)
    begin = time.perf_counter()
    with _serving(checkout, sources) as port:
        _first_hits(port, queries[0])
        yield "first hits of a folder", time.perf_counter() - begin
    shutil.rmtree(folder)


# ---------------------------------------------------------------- a server


@contextlib.contextmanager
def _serving(checkout: Checkout, *arguments: object) -> Iterator[int]:
    """A server on a port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = checkout.start("serve", *arguments, "--port", port)
    try:
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _ask(port: int, query: str) -> int:
    """The number of hits; 0 while there is nothing to search."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        body = json.dumps({"query": query, "k": 10})
        connection.request("POST", "/search", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        return len(json.loads(content)["hits"]) if answer.status == 200 else 0
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _first_hits(port: int, query: str) -> None:
    end = time.perf_counter() + PATIENCE
    while not _ask(port, query):
        if time.perf_counter() > end:
            raise GateError(f"no hits after {PATIENCE:.0f} s")
        time.sleep(0.05)


def _timed(port: int, query: str) -> float:
    begin = time.perf_counter()
    _ask(port, query)
    return time.perf_counter() - begin
