"""Puts the faults of mutants.toml into a copy of the code, one at a time, and reports which of them the tests notice.

`make mutants` tries all of them, `python -m tests.mutants WORD …` those with all the words in kind, name or file. Each
fault names tests, of which one must fail. The text that it replaces occurs exactly once: `test_mutants.py` checks that.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_LEAST = 0.97  # share of faults that have to be noticed


class Fault(NamedTuple):
    """A change of the code that a test must notice."""

    kind: str  # security, leak, result or kill
    name: str
    file: str  # below src/lemmata
    old: str
    new: str
    tests: str  # a file below tests and what else pytest takes


def faults() -> list[Fault]:
    """All faults, in the order of the file."""
    tables = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text("utf-8"))
    return [Fault(kind, **fault) for kind, entries in tables.items() for fault in entries]


def broken(fault: Fault, folder: Path = ROOT) -> str:
    """The file with the fault in it; ValueError where the text to replace is not there exactly once."""
    text = (folder / "src" / "lemmata" / fault.file).read_text("utf-8")
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.file} has {text.count(fault.old)} times what {fault.name!r} replaces: {fault.old}")
    return text.replace(fault.old, fault.new)


def _run(folder: Path, tests: str) -> tuple[bool, str]:
    """Whether a test failed, and which."""
    file, *more = shlex.split(tests)
    command = [sys.executable, "-m", "pytest", "-xq", "--tb=no", "-p", "no:cacheprovider", f"tests/{file}", *more]
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}:{folder}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode > 2 or (done.returncode == 2 and "error" not in done.stdout):
        raise SystemExit(f"{tests}: the tests did not run: {done.stdout[-500:]}{done.stderr[-500:]}")
    failed = re.search(r"^(?:FAILED|ERROR) \S+?::(\w+)", done.stdout, re.MULTILINE)
    return done.returncode > 0, failed[1] if failed else tests


def main() -> int:
    wanted = [fault for fault in faults() if all(word in " ".join(fault[:3]) for word in sys.argv[1:])]
    noticed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "lemmata"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns("__pycache__", ".*", "build", "demo"))
        for number, fault in enumerate(wanted, 1):
            path = folder / "src" / "lemmata" / fault.file
            sound = path.read_text("utf-8")
            path.write_text(broken(fault, folder), "utf-8")
            failed, test = _run(folder, fault.tests)
            path.write_text(sound, "utf-8")
            noticed[fault.kind] += failed
            verdict = "noticed by" if failed else "NOT NOTICED by"
            sys.stdout.write(f"{number}/{len(wanted)} {fault.kind}: {fault.name}: {verdict} {test}\n")
            sys.stdout.flush()
    for kind, count in Counter(fault.kind for fault in wanted).items():
        sys.stdout.write(f"| {kind} | {noticed[kind]} of {count} |\n")
    return int(noticed.total() < _LEAST * len(wanted))


if __name__ == "__main__":
    sys.exit(main())
