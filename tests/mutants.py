"""Puts the faults of mutants.toml into a copy of the code, one at a time, and reports which of them the tests notice.

`make mutants` tries all of them, `python -m tests.mutants WORD …` those with all the words in kind, name or file, and
`python -m tests.mutants 1-40` the first forty. Each fault names tests, of which one must fail. The text that it
replaces occurs exactly once: `test_mutants.py` checks that.
"""

from __future__ import annotations

import compileall
import contextlib
import importlib
import os
import re
import shlex
import shutil
import sys
import tempfile
import tomllib
import traceback
from collections import Counter
from pathlib import Path
from typing import NamedTuple, NoReturn

import httpx  # noqa: F401 - this and others so that no test loads it
import hypothesis  # noqa: F401
import numpy as np  # noqa: F401
import pytest

ROOT = Path(__file__).parents[1]
_LEAST = 0.97  # share of faults that have to be noticed


class Fault(NamedTuple):
    """A change of the code that a test must notice."""

    kind: str  # security, leak, result or kill
    name: str
    file: str  # below src/lemmata
    old: str
    new: str
    tests: str  # files below tests and what else pytest takes


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
    """Whether a test failed, and which; in a forked process, which need not load the libraries again."""
    words = [f"tests/{word}" if word.endswith(".py") else word for word in shlex.split(tests)]
    output = folder / "output.txt"
    process = os.fork()
    if process == 0:
        _be_tester(folder, output, ["-xq", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", *words])
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    said = output.read_text(errors="replace")
    if code not in (0, 1, 2) or (code == 2 and "error" not in said):  # 2: a module cannot be imported any more
        return False, f"{tests}, which did not run: {said[-1000:]}"
    failed = re.search(r"^(?:FAILED|ERROR) \S+?::(\w+)", said, re.MULTILINE)
    return code > 0, failed[1] if failed else tests


def _be_tester(folder: Path, output: Path, arguments: list[str]) -> NoReturn:
    code = 3
    try:
        descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        os.chdir(folder)
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "lemmata")]:
            del sys.modules[name]
        sys.dont_write_bytecode = True  # a fault of the same size and second would be read from the one before
        sys.path[:0] = [str(folder / "src"), str(folder)]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])  # of processes that the tests start
        code = int(pytest.main(arguments))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _is_meant(number: int, fault: Fault, word: str) -> bool:
    if numbers := re.fullmatch(r"(\d+)-(\d+)", word):
        return int(numbers[1]) <= number <= int(numbers[2])
    return word in " ".join(fault[:3])


def main() -> int:
    wanted = [
        (number, fault)
        for number, fault in enumerate(faults(), 1)
        if all(_is_meant(number, fault, word) for word in sys.argv[1:])
    ]
    for library in ("torch", "schemathesis"):
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    noticed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "lemmata"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns("__pycache__", ".*", "build", "demo"))
        compileall.compile_dir(folder, quiet=2)
        for number, fault in wanted:
            path = folder / "src" / "lemmata" / fault.file
            sound = path.read_text("utf-8")
            path.write_text(broken(fault, folder), "utf-8")
            failed, test = _run(folder, fault.tests)
            path.write_text(sound, "utf-8")
            noticed[fault.kind] += failed
            verdict = "noticed by" if failed else "NOT NOTICED by"
            sys.stdout.write(f"{number} {fault.kind}: {fault.name}: {verdict} {test}\n")
            sys.stdout.flush()
    for kind, count in Counter(fault.kind for _, fault in wanted).items():
        sys.stdout.write(f"| {kind} | {noticed[kind]} of {count} |\n")
    return int(noticed.total() < _LEAST * len(wanted))


if __name__ == "__main__":
    sys.exit(main())
