"""Many connections that search through `lemmata serve`, against the same searches called in Python.

    python -m bench.server_load WORKSPACE [--seconds 600] [--connections 16] [--threads 4] [--out FILE]

A workspace that is not there yet is made with --passages synthetic passages (bench/synthetic.py). The queries are words
of its passages. The server is a process of its own, and so is the load: connections that stay open, each with one
request at a time. Searches in Python run before and after in one thread; the server is compared with their mean.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from bench.shared import write_json
from bench.synthetic import workspace

_WARM = 200  # searches before anything is measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--passages", type=int, default=100_000, help="of a workspace that has to be made")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--threads", type=int, default=4, help="of the server")
    parser.add_argument("--retriever", default="auto")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    with workspace(options.workspace, options.passages).retriever() as retriever:
        passages = len(retriever.corpus)
        queries = draw_queries(
            [passage.text for passage in retriever.corpus.passages(range(0, passages, passages // 200))]
        )
    baseline = max(5.0, min(30.0, options.seconds / 4))
    before = search_in_python(options.workspace, queries, options.retriever, baseline)
    served = load_server(options, queries)
    after = search_in_python(options.workspace, queries, options.retriever, baseline)
    mean = (before["per_second"] + after["per_second"]) / 2
    result = {
        "passages": passages,
        "retriever": options.retriever,
        "connections": options.connections,
        "threads": options.threads,
        "cores": os.cpu_count(),
        "load_average_at_end": os.getloadavg()[0],
        "server": served,
        "python": {"before": before, "after": after},
        "ratio_to_python": round(served["per_second"] / mean, 3),
        "cpu_ratio_to_python": round((before["cpu_ms"] + after["cpu_ms"]) / 2 / served["cpu_ms"], 3),
    }
    write_json(result, options.out)


def draw_queries(texts: list[str]) -> list[str]:
    """A thousand queries of some words of a text."""
    generator = random.Random(0)
    split = [words for text in texts if len(words := re.findall(r"\w{2,}", text)) > 3]
    return [" ".join(generator.sample(generator.choice(split), 4)) for _ in range(1000)]


def search_in_python(folder: Path, queries: list[str], retriever: str, seconds: float) -> dict[str, float]:
    """Searches in a fresh process, one after the other."""
    code = (
        "import json, sys, time\n"
        "from lemmata.search.retriever import Retriever\n"
        "folder, retriever, seconds, warm = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])\n"
        "queries = json.load(sys.stdin)\n"
        "opened = Retriever.open(folder)\n"
        "for query in queries[:warm]: opened.search(query, 10, retriever=retriever)\n"
        "times, begin, cpu = [], time.perf_counter(), time.process_time()\n"
        "while time.perf_counter() - begin < seconds:\n"
        "    start = time.perf_counter()\n"
        "    opened.search(queries[len(times) % len(queries)], 10, retriever=retriever)\n"
        "    times.append(time.perf_counter() - start)\n"
        "wall, cpu = time.perf_counter() - begin, time.process_time() - cpu\n"
        "print(json.dumps({'per_second': len(times) / wall, 'cpu_ms': 1000 * cpu / len(times),\n"
        "    'p50_ms': 1000 * sorted(times)[len(times) // 2]}))\n"
    )
    command = [sys.executable, "-c", code, str(folder), retriever, str(seconds), str(_WARM)]
    done = subprocess.run(command, input=json.dumps(queries), capture_output=True, text=True, check=True)
    return {name: round(value, 3) for name, value in json.loads(done.stdout).items()}


def load_server(options: argparse.Namespace, queries: list[str]) -> dict[str, Any]:
    """What a server does under load: requests per second, times, errors and memory."""
    command = [sys.executable, "-m", "lemmata", "serve", "-w", str(options.workspace), "--port", "0"]
    command += ["--threads", str(options.threads)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        address = re.match(r"http://([\d.]+):(\d+)", line)
        assert address, line
        try:
            wait_for(f"http://{address[1]}:{address[2]}/openapi.json")
            load = Load(address[1], int(address[2]), queries, options.retriever)
            asyncio.run(load.run(options.connections, count=_WARM))
            load.forget()
            memory = [memory_of(server.pid)]
            cpu = cpu_of(server.pid)
            seconds = asyncio.run(
                load.run(
                    options.connections, seconds=options.seconds, each=lambda: memory.append(memory_of(server.pid))
                )
            )
            cpu = cpu_of(server.pid) - cpu
            memory.append(memory_of(server.pid))
        finally:
            server.terminate()
    times = sorted(load.times)
    return {
        "seconds": round(seconds, 1),
        "requests": len(times),
        "errors": load.errors,
        "per_second": round(len(times) / seconds, 2),
        "cpu_ms": round(1000 * cpu / len(times), 3),
        "p50_ms": round(1000 * times[len(times) // 2], 2),
        "p99_ms": round(1000 * times[len(times) * 99 // 100], 2),
        "longest_ms": round(1000 * times[-1], 2),
        "memory_mb": {"start": memory[0], "end": memory[-1], "most": max(memory)},
        "bytes_per_answer": load.received // len(times),
    }


class Load:
    """Connections that search; bare sockets, so that the load takes little of the time of the server."""

    def __init__(self, host: str, port: int, queries: list[str], retriever: str) -> None:
        self._host, self._port = host, port
        self._requests = [self._request({"query": query, "k": 10, "retriever": retriever}) for query in queries]
        self._next = 0
        self.forget()

    def forget(self) -> None:
        self.times: list[float] = []
        self.errors = self.received = 0

    def _request(self, body: dict[str, Any]) -> bytes:
        data = json.dumps(body).encode()
        head = f"POST /search HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data

    async def run(self, connections: int, *, seconds: float = 0.0, count: int = 0, each: Any = None) -> float:
        """Search for some seconds, or a number of times; returns the seconds. `each` is called every ten seconds."""
        begin = time.perf_counter()
        self._end, self._left = (begin + seconds if seconds else float("inf")), count or -1
        watching = asyncio.create_task(self._watch(each)) if each else None
        await asyncio.gather(*(self._connection() for _ in range(connections)))
        if watching:
            watching.cancel()
        return time.perf_counter() - begin

    async def _watch(self, each: Any) -> None:
        while True:
            await asyncio.sleep(10)
            each()

    async def _connection(self) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        while self._left and time.perf_counter() < self._end:
            self._left -= 1
            self._next += 1
            begin = time.perf_counter()
            writer.write(self._requests[self._next % len(self._requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
            body = await reader.readexactly(size)
            self.times.append(time.perf_counter() - begin)
            self.received += size
            self.errors += not (head.startswith(b"HTTP/1.1 200") and b'"hits":[{' in body)
        writer.close()
        await writer.wait_closed()


def wait_for(address: str) -> None:
    """Wait until a server answers, a minute at most."""
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def memory_of(process: int) -> int:
    """Memory of its own that a process has, in MB; files that it has mapped are not counted."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]


def cpu_of(process: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
