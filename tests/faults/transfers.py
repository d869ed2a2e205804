"""Kills `lemmata push` or `lemmata pull` before its file operations, resumes it, and compares the copy.

`python -m tests.faults.transfers push --every` kills before each operation, without it before every eighth.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import fsspec.implementations.local  # noqa: F401 - so that the forked processes do not load it
import numpy as np
from tests.faults.kills import finish, start

import lemmata.maintain.publish  # noqa: F401 - the same
from lemmata.project import Project


def prepare(folder: Path) -> tuple[Path, Path, Path]:
    """A workspace, an older state of it, and a folder that has the older state and is a copy of a store."""
    workspace, old = folder / "new", folder / "old"
    generator = np.random.default_rng(0)
    Project.init(workspace)
    for name in ("corpus/a", "graph/b", "index/c"):
        (workspace / name).parent.mkdir()
        (workspace / name).write_bytes(generator.bytes(50_000))
    shutil.copytree(workspace, old)
    (workspace / "index" / "c").write_bytes(generator.bytes(50_000))
    (workspace / "graph" / "b").unlink()
    (workspace / "models").mkdir()
    (workspace / "models" / "d").write_bytes(generator.bytes(50_000))
    return workspace, old, folder / "w"


def content(workspace: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(workspace.rglob("*")) if path.is_file())
    names = {path.relative_to(workspace).as_posix(): path for path in paths}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith(".")}


def problem_after(verb: str, new: Path, old: Path, place: Path, kill_at: int) -> tuple[bool, str]:
    """Whether a transfer was killed, and what is wrong after the same command was given again."""
    store = place.with_name("w.store")  # its name begins with that of the workspace: its operations count too
    copy = place.with_name("copy")
    for folder in (place, store, copy):
        shutil.rmtree(folder, ignore_errors=True)
    if verb == "push":
        shutil.copytree(new, place)
        arguments, reader = ["push", str(store)], ["pull", str(store), str(copy)]
    else:
        Project(old).push(str(store))
        Project.pull(str(store), place)
        Project(new).push(str(store), replace=True)
        (old / ".published.json").unlink()
        (new / ".published.json").unlink()
        arguments, reader = ["pull", str(store), "."], []
    killed = start(place, arguments, kill_at=kill_at).wait() < 0
    if verb == "push" and not finish(place, reader) and content(copy) != content(new):
        return killed, "a reader saw a part of a workspace"
    if failed := finish(place, arguments) or (reader and finish(place, reader)):
        return killed, failed
    return killed, "" if content(copy if reader else place) == content(new) else "the copy differs"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=["push", "pull"])
    parser.add_argument("--every", action="store_true")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    kills = identical = 0
    with tempfile.TemporaryDirectory() as name:
        places = prepare(Path(name))
        (Path(name) / "w").mkdir()
        step = 1 if options.every else 8
        number = 1
        while True:
            killed, problem = problem_after(options.verb, *places, kill_at=number)
            if problem:
                sys.stderr.write(f"{options.verb}, operation {number}: {problem}\n")
            if not killed:
                break
            kills, identical, number = kills + 1, identical + (not problem), number + step
    sys.stdout.write(json.dumps({"kills": kills, "identical": identical}) + "\n")
    return int(kills != identical)


if __name__ == "__main__":
    sys.exit(main())
