"""Notice files that come, change and go below folders, by looking at them again and again.

This works on every file system, also those of a network, where nothing tells of a change.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

_State = dict[str, tuple[int, int, int]]  # of each file: when it was written, its size, its number on the disk
_SHARE = 20  # a look may take one part in so many of the time
_LONGEST = 30.0  # seconds that a change waits for files that are written without end


def changes(paths: Sequence[str | Path], stop: Event, *, seconds: float = 1.0) -> Iterator[frozenset[Path]]:
    """The files below `paths` that are new, changed or deleted, each time after their writing has stopped.

    Counted from the call, not from the first `next`: call it, read the folders, then wait for what changed meanwhile.
    Ends when `stop` is set. Looks every few `seconds`, and less often where a look itself takes long. Hidden files
    and folders, and the copies of editors (`name~`), do not count; neither do folders behind links.
    """
    return _following([Path(path) for path in paths], stop, seconds, _look(paths))


def _following(paths: Sequence[Path], stop: Event, seconds: float, before: _State) -> Iterator[frozenset[Path]]:
    pause, took_before = seconds, 0.0
    while not stop.wait(pause):
        begin = time.monotonic()
        now = _look(paths)
        took = time.monotonic() - begin
        pause = max(seconds, _SHARE * min(took, took_before))  # a machine that stalls once has no large folder
        took_before = took
        if now == before:
            continue
        while not stop.wait(pause) and time.monotonic() < begin + _LONGEST and (later := _look(paths)) != now:
            now = later
        changed = (Path(name) for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        if paths_changed := frozenset(changed):
            yield paths_changed
        before = now


def _look(paths: Sequence[str | Path]) -> _State:
    """The files below the paths as they are now; what cannot be read is not there."""
    state: _State = {}
    folders: list[str] = []
    for path in map(Path, paths):
        if path.is_dir():
            folders.append(str(path))
        else:
            _note(state, str(path), path)
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or entry.name.endswith("~"):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        _note(state, entry.path, entry)
        except OSError:
            continue
    return state


def _note(state: _State, path: str, file: Path | os.DirEntry[str]) -> None:
    try:
        facts = file.stat()
    except OSError:
        return
    state[path] = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
