"""Atomic writes of files and folders (a reader sees the old content or the new, never a part), hashes and locks."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lemmata.errors import WorkspaceError

__all__ = ["lock_file", "replace_folder", "sha256_of", "write_atomically", "writing"]


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A temporary path for a file or folder; it replaces `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    _remove_leftovers(path)
    try:
        yield temporary
        if temporary.is_dir():
            replace_folder(temporary, path)
        else:
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
            temporary.replace(path)
    finally:
        _remove(temporary)


def _remove_leftovers(path: Path) -> None:
    """Delete temporary files and folders for `path` whose process is gone: it was killed while writing."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*"):
        process = leftover.name.rpartition(".")[2]
        if process.isdecimal() and (int(process) == os.getpid() or not _is_running(int(process))):
            _remove(leftover)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # of another user
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the content of a file."""
    with writing(path) as temporary:
        temporary.write_bytes(data)


def sha256_of(files: Iterable[Path]) -> str:
    """The SHA-256 of the concatenated contents of files."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while part := stream.read(2**20):
                digest.update(part)
    return digest.hexdigest()


def replace_folder(new: Path, old: Path) -> None:
    """Move a finished folder to the place of another, which may not exist."""
    old.parent.mkdir(parents=True, exist_ok=True)
    retired = old.with_name(f".{old.name}.old")
    shutil.rmtree(retired, ignore_errors=True)
    if old.exists():
        old.replace(retired)
    new.replace(old)
    shutil.rmtree(retired, ignore_errors=True)


def lock_file(path: Path) -> Any:
    """An exclusive lock, released when the returned stream is closed or the process ends."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("w")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        stream.close()
        raise WorkspaceError(f"another lemmata is writing to {path.parent}; try again when it is done") from error
    return stream
