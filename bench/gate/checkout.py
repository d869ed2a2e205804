"""A version of lemmata, and its commands with what they cost."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple


class Cost(NamedTuple):
    """What a command took."""

    seconds: float  # by the clock
    cpu: float  # seconds, of the process and of those that it started
    memory: float  # MiB at most, of the largest of these processes


class GateError(Exception):
    """A command that failed, or data that are not there."""


class Checkout:
    """A folder with `src/lemmata`, or the program of an installed version."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.path = path.resolve()
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "COLUMNS": "200"}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        source = self.path / "src"
        if (source / "lemmata").is_dir():
            self.program = [sys.executable, "-m", "lemmata"]
            self.environment["PYTHONPATH"] = str(source)
        elif os.access(self.path, os.X_OK) and self.path.is_file():
            self.program = [str(self.path)]
        else:
            raise GateError(f"{path}: neither a checkout (with src/lemmata) nor the program of an installed version")

    @cached_property
    def key(self) -> str:
        """Names what is run: the content of all its files."""
        digest = hashlib.sha256()
        folder = Path(self.environment.get("PYTHONPATH", "")) / "lemmata"
        for path in sorted(folder.rglob("*")) if self.path.is_dir() else [self.path]:
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.relative_to(self.path.parent)}\0".encode())
                digest.update(path.read_bytes())
        return digest.hexdigest()[:12]

    @cached_property
    def commit(self) -> str:
        """The commit that is checked out, with a plus where files differ from it; empty without Git."""
        git = shutil.which("git")
        if git is None or not self.path.is_dir():
            return ""
        head = subprocess.run([git, "rev-parse", "--short=8", "HEAD"], cwd=self.path, capture_output=True, text=True)
        changed = subprocess.run(
            [git, "status", "--porcelain", "src"], cwd=self.path, capture_output=True, text=True
        ).stdout.strip()
        return f"{head.stdout.strip()}{'+' if changed else ''}"

    def run(self, *arguments: object) -> tuple[str, Cost]:
        """What a command prints, and what it took; GateError with its message where it fails."""
        words = [*self.program, *map(str, arguments)]
        begin = time.perf_counter()
        with tempfile.TemporaryFile("w+") as messages:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=messages, env=self.environment, text=True)
            assert process.stdout
            with process.stdout:
                output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
            messages.seek(0)
            message = messages.read()
        if process.returncode:
            raise GateError(f"{self.name}: lemmata {' '.join(map(str, arguments))}\n{message[-2000:]}")
        return output, Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)

    def json(self, *arguments: object) -> Any:
        return json.loads(self.run(*arguments, "--json")[0])

    def start(self, *arguments: object) -> subprocess.Popen[bytes]:
        """A server, in a group of its own so that nothing of it is left."""
        words = [*self.program, *map(str, arguments)]
        nowhere = subprocess.DEVNULL
        return subprocess.Popen(words, stdout=nowhere, stderr=nowhere, env=self.environment, start_new_session=True)
