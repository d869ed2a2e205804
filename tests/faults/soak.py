"""A server under load while its folder is edited, its commands and itself are killed, and `lemmata adapt` runs.

`python -m tests.faults.soak --minutes 60 --write` prints a table and puts it into docs/reliability.md. At the end the
folder is left alone until everything is up to date, and compared with a workspace that was made from it at once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
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
_PATIENCE = 600.0  # seconds until all is up to date at the end
_HEADS = (
    "minutes",
    "requests",
    "errors",
    "edits",
    "adaptations",
    "kills: commands / server",
    "memory, MB: halves",
    "lost",
)


class Soak:
    """A folder with papers, a server of it, and what happened to both."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.papers = {path.name: path for path in sorted((ROOT / "examples" / "qseries").glob("*.tex"))}
        self.folder, self.home = folder / "papers", folder
        self.folder.mkdir()
        for name in list(self.papers)[:12]:
            shutil.copy(self.papers[name], self.folder)
        self.seconds, self.begin = seconds, time.monotonic()
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self.marks: set[tuple[str, str]] = set()
        self.memory: list[tuple[float, float]] = []  # when, and megabytes
        self.address = ""
        self.stopping, self.up = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self.start_server()

    @property
    def workspace(self) -> Path:
        return self.folder / ".lemmata"

    def start_server(self) -> None:
        log = self.home / "server.log"
        begin = log.stat().st_size if log.exists() else 0
        with log.open("a") as stream:
            self.server = subprocess.Popen([*LEMMATA, "serve", str(self.folder), "--port", "0"], stderr=stream)
        while not (found := re.search(r"^http://\S+", log.read_text()[begin:], re.MULTILINE)):
            if self.server.poll() is not None:
                raise SystemExit(f"the server did not start: {log.read_text()[begin:]}")
            time.sleep(0.05)
        self.address = found[0]
        self.up.set()

    def children(self) -> list[int]:
        tasks = Path(f"/proc/{self.server.pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]

    def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
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
            except (OSError, ValueError) as error:
                if self.up.is_set() and server is self.server and server.poll() is None and self.up.is_set():
                    self._fail(f"{kind}: {error!r}")
                time.sleep(0.05)
                continue
            with self._lock:
                self.counts["requests"] += 1
            if status >= 500 and found["error"]["code"] != "starting":
                self._fail(f"{kind}: {status} {found}")
            if status in (409, 503):  # not made yet, or being made again
                time.sleep(0.05)

    def _fail(self, what: str) -> None:
        with self._lock:
            self.counts["errors"] += 1
            self.errors.append(what)

    def edit(self, generator: random.Random) -> None:
        """Add, change or remove a paper."""
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
        """Learn from the marks; half of the time it is killed."""
        with subprocess.Popen(
            [*LEMMATA, "adapt", "-w", str(self.workspace)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            if generator.random() < 0.5:
                time.sleep(generator.uniform(0.5, 8))
                process.kill()
                self.counts["killed adaptations"] += 1
            else:
                self.counts["adaptations"] += process.wait() == 0

    def kill(self, generator: random.Random) -> None:
        """Kill what the server runs in the background, or all of it."""
        children = self.children()
        if generator.random() < 0.7:
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
        with contextlib.suppress(OSError, IndexError):
            pages = int(Path(f"/proc/{self.server.pid}/statm").read_text().split()[1])
            self.memory.append((time.monotonic() - self.begin, pages * os.sysconf("SC_PAGE_SIZE") / 2**20))

    def every(self, seconds: float, act: Callable[[random.Random], None], seed: int) -> threading.Thread:
        """A thread that acts again and again, with pauses of random length."""
        generator = random.Random(seed)

        def repeat() -> None:
            while not self.stopping.wait(generator.uniform(0.5, 1.5) * seconds):
                act(generator)

        return threading.Thread(target=repeat)

    # ------------------------------------------------------------ the end

    def run(self) -> None:
        threads = [threading.Thread(target=self.load, args=(random.Random(number),)) for number in range(8)]
        threads += [
            self.every(3, self.edit, 1),
            self.every(15, self.adapt, 2),
            self.every(30, self.kill, 3),
            self.every(1, self.watch, 4),
        ]
        for thread in threads:
            thread.start()
        time.sleep(self.seconds)
        self.stopping.set()
        for thread in threads:
            thread.join()

    def lost(self) -> int:
        """Passages and marks that are not there, or not as they should be, once all is up to date."""
        (self.folder / "last.md").write_text("# The last word\n\nA note that ends it.\n")  # a change wakes the watcher
        end = time.monotonic() + _PATIENCE
        while not (found := self.ask("/search", {"query": "note that ends it"})[1].get("hits")) or (
            found[0]["id"].partition("@")[0] != "last" or self.ask("/v1/progress")[1]["state"] == "working"
        ):
            if time.monotonic() > end:
                raise SystemExit(f"not up to date after {_PATIENCE:.0f} s: {self.ask('/v1/progress')}")
            time.sleep(0.5)
        self.server.terminate()
        self.server.wait()
        fresh = Project.init(self.home / "fresh")
        fresh.ingest([self.folder])
        texts = []
        for project in (Project(self.workspace), fresh):
            with contextlib.closing(project.corpus) as corpus:
                texts.append({(passage.document, passage.text) for passage in corpus})
        logged = {(query.text, name) for query in judgments(Project(self.workspace)) for name in query.answers}
        damage = Project(self.workspace).verify().damage
        for sentence in damage:
            self.errors.append(sentence.sentence)
        return len(texts[0] ^ texts[1]) + len(self.marks - logged) + len(damage)

    def row(self) -> list[str]:
        lost = self.lost()
        half = self.seconds / 2
        halves = [[size for when, size in self.memory if (when > half) == late] for late in (False, True)]
        counts = self.counts
        return [
            f"{self.seconds / 60:.0f}",
            f"{counts['requests']:,}",
            str(counts["errors"]),
            str(counts["edits"]),
            f"{counts['adaptations']}, killed {counts['killed adaptations']}",
            f"{counts['killed commands']} / {counts['killed servers']}",
            " / ".join(f"{max(sizes, default=0):.0f}" for sizes in halves),
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
