"""A server under load while its folder is edited, its commands and itself are killed, and `lemmata adapt` runs.

`python -m tests.faults.soak --minutes 60 --write` prints a table and puts it into docs/reliability.md. The server is
killed in the first half only: the memory of the second half is that of one process. At the end the folder is left alone
until everything is up to date, and compared with a workspace that was made from it at once. On a busy machine edits and
kills are rarer, by the time that the folder takes at first, and what is refused for want of time is no error.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lemmata.evaluate.judgments import judgments
from lemmata.project import Project

ROOT = Path(__file__).parents[2]
LEMMATA = [sys.executable, "-m", "lemmata"]
WORDS = (
    "partition tableau hook length generating function identity theorem lemma proof congruence modulo series".split()
)
_PATIENCE = 3600.0  # seconds until all is up to date at the end
_PAUSE = 0.2  # seconds at most, between two requests of a connection
_REFUSED = ("busy", "timeout", "starting")  # codes of an answer that has to be asked for again
_QUICK = 30.0  # seconds that the first build takes on a machine without other work, at most
_GROWTH, _SLACK = 1.25, 16  # the memory of the last quarter by that of the one before, and megabytes beyond
_HEADS = (
    "minutes",
    "requests",
    "errors",
    "refused: busy, starting",
    "edits",
    "adaptations",
    "kills: commands / server",
    "memory, MB: third / last quarter",
    "lost",
)


class Soak:
    """A folder with papers, a server of it, and what happened to both."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.papers = {path.name: path for path in sorted((ROOT / "examples" / "qseries").glob("*.tex"))}
        self.folder, self.home = folder / "papers", folder
        self.workspace.mkdir(parents=True)
        (self.workspace / "lemmata.toml").write_text('[index]\nencoder = "lemmata-nano"\n')  # more rounds, more moments
        for name in list(self.papers)[:12]:
            shutil.copy(self.papers[name], self.folder)
        self.seconds, self.begin = seconds, time.monotonic()
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self.marks: set[tuple[str, str]] = set()
        self.memory: list[tuple[float, float]] = []  # the share of the time that had passed, and megabytes
        self.address = ""
        self.is_calm = False  # while an adaptation runs that is not to be killed
        self.stopping, self.up = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self.start_server()

    @property
    def workspace(self) -> Path:
        return self.folder / ".lemmata"

    @property
    def log(self) -> Path:
        return self.home / "server.log"

    @property
    def passed(self) -> float:
        """The share of the time that has passed."""
        return (time.monotonic() - self.begin) / self.seconds

    def start_server(self) -> None:
        """Start it until it stays; each start that fails is an error."""
        while not self.stopping.is_set() and not self._starts():
            time.sleep(1)

    def _starts(self) -> bool:
        begin = len(self.log.read_text()) if self.log.exists() else 0
        with self.log.open("a") as stream:
            self.server = subprocess.Popen([*LEMMATA, "serve", str(self.folder), "--port", "0"], stderr=stream)
        while not (found := re.search(r"^http://\S+(?=\s)", self.log.read_text()[begin:], re.MULTILINE)):
            if self.server.poll() is not None:
                self._fail(f"the server did not start: {self.log.read_text()[begin:]}")
                return False
            time.sleep(0.1)
        self.address = found[0]
        self.up.set()
        return True

    def children(self) -> list[int]:
        tasks = Path(f"/proc/{self.server.pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]

    def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    # ------------------------------------------------------------ what goes on at the same time

    def load(self, generator: random.Random) -> None:
        """One request after the other; some hits are marked."""
        while not self.stopping.is_set():
            self.up.wait(60)
            server, query = self.server, " ".join(generator.sample(WORDS, 2))
            try:
                kind = generator.choice(("/search", "/search", "/search", "/health", "/outline", "/map", "/concepts"))
                status, found = self.ask(kind, {"query": query, "k": 5} if kind == "/search" else None)
                if status == 200 and kind == "/search" and found["hits"] and generator.random() < 0.1:
                    mark = {"query": query, "id": found["hits"][0]["id"], "mark": "answer"}
                    if self.ask("/mark", mark)[0] == 200:
                        with self._lock:
                            self.marks.add((query, mark["id"]))
            except (OSError, ValueError, http.client.HTTPException) as error:
                if self.up.is_set() and server is self.server and server.poll() is None and self.up.is_set():
                    self._fail(f"{kind}: {error!r}")
                time.sleep(0.05)
                continue
            with self._lock:
                self.counts["requests"] += 1
                self.counts[found["error"]["code"] if status != 200 else "answered"] += 1
            if status >= 500 and found["error"]["code"] not in _REFUSED:
                self._fail(f"{kind}: {status} {found}")
            time.sleep(generator.uniform(0, _PAUSE))

    def _fail(self, what: str) -> None:
        with self._lock:
            self.counts["errors"] += 1
            self.errors.append(what)

    def edit(self, generator: random.Random) -> None:
        """Add, change or remove a paper."""
        if self.is_calm:
            return
        path = self.papers[generator.choice(list(self.papers))]
        here = self.folder / path.name
        if not here.exists():
            shutil.copy(path, here)
        elif generator.random() < 0.3 and len(list(self.folder.glob("*.tex"))) > 6:
            here.unlink()
        else:
            remark = f"\n\nA remark of edit {self.counts['edits']}.\n\n\\end{{document}}".encode()
            here.write_bytes(path.read_bytes().replace(b"\\end{document}", remark))
        self.counts["edits"] += 1

    def adapt(self, generator: random.Random) -> None:
        """Learn from the marks; half of the time it is killed, half of the time nothing is edited meanwhile.

        It needs a graph that is up to date.
        """
        is_killed = generator.random() < 0.5
        self.is_calm = not is_killed
        while self.is_calm and not self.stopping.wait(0.5) and self.is_working():
            pass
        command = [*LEMMATA, "adapt", "-w", str(self.workspace)]
        output = self.home / "adapt.log"
        with output.open("w") as stream, subprocess.Popen(command, stdout=stream, stderr=stream) as process:
            patience = generator.uniform(0.5, 20) if is_killed else self.seconds
            end = time.monotonic() + patience
            while process.poll() is None and time.monotonic() < end and not self.stopping.wait(0.1):
                pass
            if process.poll() is None:
                process.kill()
                self.counts["killed adaptations"] += 1
            else:
                self.counts["adaptations" if process.returncode == 0 else "refused adaptations"] += 1
                if process.returncode:
                    sys.stderr.write(f"adapt: {output.read_text()[-1000:]}\n")
        self.is_calm = False

    def kill(self, generator: random.Random) -> None:
        """Kill what the server runs in the background, or all of it."""
        children = self.children()
        if generator.random() < 0.7 or self.passed > 0.5:
            for child in children[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
                    self.counts["killed commands"] += 1
            return
        self.up.clear()
        for process in (self.server.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.server.wait()
        self.counts["killed servers"] += 1
        self.start_server()

    def watch(self, _generator: random.Random) -> None:
        """Note the memory that the server has for itself: mapped files are the kernel's."""
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{self.server.pid}/status").read_text()
            if own := re.search(r"RssAnon:\s+(\d+) kB", status):
                self.memory.append((self.passed, int(own[1]) / 1024))

    def tell(self, _generator: random.Random) -> None:
        minutes, memory = (time.monotonic() - self.begin) / 60, self.memory[-1][1] if self.memory else 0
        sys.stderr.write(f"{minutes:.1f} min, {memory:.0f} MB: {dict(self.counts)}\n")

    def every(self, seconds: float, act: Callable[[random.Random], None], seed: int) -> threading.Thread:
        """A thread that acts again and again, with pauses of random length."""
        generator = random.Random(seed)

        def repeat() -> None:
            while not self.stopping.wait(generator.uniform(0.5, 1.5) * seconds):
                try:
                    act(generator)
                except Exception:  # it goes on, and is an error of the soak
                    self._fail(traceback.format_exc())

        return threading.Thread(target=repeat)

    # ------------------------------------------------------------ the end

    def run(self) -> None:
        """Everything at the same time, once there is something to search."""
        while self.is_working():
            time.sleep(0.5)
        pace = max(1.0, (time.monotonic() - self.begin) / _QUICK)
        sys.stderr.write(f"ready after {time.monotonic() - self.begin:.0f} s\n")
        self.begin = time.monotonic()
        threads = [threading.Thread(target=self.load, args=(random.Random(number),)) for number in range(8)]
        threads += [
            self.every(3 * pace, self.edit, 1),
            self.every(15 * pace, self.adapt, 2),
            self.every(30 * pace, self.kill, 3),
            self.every(1, self.watch, 4),
            self.every(60, self.tell, 5),
        ]
        for thread in threads:
            thread.start()
        time.sleep(self.seconds)
        self.stopping.set()
        for thread in threads:
            thread.join()

    def settle(self) -> None:
        """Wait until everything is up to date, and end the server."""
        (self.folder / "last.md").write_text("# The last word\n\nA note that ends it.\n")  # a change wakes the watcher
        end = time.monotonic() + _PATIENCE
        while not self.is_up_to_date():
            if time.monotonic() > end:
                self._fail(f"not up to date after {_PATIENCE:.0f} s: {self.ask('/v1/progress')}")
                break
            time.sleep(1)
        self.server.terminate()
        self.server.wait()
        if failures := self.log.read_text().count("Traceback"):
            self._fail(f"{failures} tracebacks: {self.log.read_text()[-4000:]}")

    def is_up_to_date(self) -> bool:
        try:
            hits = self.ask("/search", {"query": "note that ends it"})[1].get("hits") or [{"id": ""}]
            is_read = bool(hits[0]["id"].partition("@")[0] == "last")
            return is_read and not self.is_working()
        except OSError:  # a machine that stalls
            return False

    def is_working(self) -> bool:
        """Whether the server brings its folder up to date, or is itself being started."""
        try:
            return bool(self.ask("/v1/progress")[1]["state"] == "working")
        except OSError:
            return True

    def lost(self) -> int:
        """Passages and marks that are not there, or not as they should be."""
        fresh = Project.init(self.home / "fresh")
        fresh.ingest([self.folder])
        texts = []
        for project in (Project(self.workspace), fresh):
            with contextlib.closing(project.corpus) as corpus:
                texts.append({(passage.document, passage.text) for passage in corpus})
        logged = {(query.text, name) for query in judgments(Project(self.workspace)) for name in query.answers}
        self.errors += [f"only in one corpus: {passage}" for passage in sorted(texts[0] ^ texts[1])]
        self.errors += [f"a mark is lost: {mark}" for mark in sorted(self.marks - logged)]
        damage = Project(self.workspace).verify().damage
        self.errors += [finding.sentence for finding in damage]
        return len(texts[0] ^ texts[1]) + len(self.marks - logged) + len(damage)

    def row(self) -> list[str]:
        """What happened, in the order of the heads of the table."""
        self.settle()
        lost = self.lost()
        quarters = [
            statistics.median([size for when, size in self.memory if begin <= when < begin + 0.25] or [0])
            for begin in (0.5, 0.75)
        ]
        if quarters[1] > _GROWTH * quarters[0] + _SLACK:
            self.errors.append("the memory grows")
        counts = self.counts
        return [
            f"{self.seconds / 60:.0f}",
            f"{counts['requests']:,}",
            str(counts["errors"]),
            f"{counts['busy'] + counts['timeout']}, {counts['starting']}",
            str(counts["edits"]),
            f"{counts['adaptations']}, killed {counts['killed adaptations']}",
            f"{counts['killed commands']} / {counts['killed servers']}",
            " / ".join(f"{size:.0f}" for size in quarters),
            str(lost),
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as name:
        soak = Soak(Path(name), 60 * options.minutes)
        try:
            soak.run()
            row = soak.row()
        finally:
            soak.stopping.set()
            for process in (*soak.children(), soak.server.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
    lines = (_HEADS, ["---"] * len(_HEADS), row)
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    sys.stdout.write(f"{table}\n")
    for error in soak.errors[:20]:
        sys.stderr.write(f"{error}\n")
    if options.write:
        page = ROOT / "docs" / "reliability.md"
        text = re.sub(r"(?s)(<!-- soak -->\n).*?(<!-- end -->)", rf"\g<1>{table}\n\g<2>", page.read_text("utf-8"))
        page.write_text(text, "utf-8")
    return int(bool(soak.errors) or row[-1] != "0")


if __name__ == "__main__":
    sys.exit(main())
