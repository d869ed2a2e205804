"""Atomic writes of files and folders (a reader sees the old content or the new, never a part), hashes and locks.

What cannot be written (a full disk) or read (a damaged file) is a WorkspaceError that names the file and the cure.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import glob
import hashlib
import io
import json
import mmap
import os
import platform
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lemmata.core.errors import InputError, WorkspaceBusy, WorkspaceError, first_line

if TYPE_CHECKING:
    import numpy as np


Result = TypeVar("Result")
RETRY = "free some space and run the same command again; what was there before is unchanged"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # with which a file in that encoding begins
_CAUSES = {
    errno.ENOSPC: f"the disk is full; {RETRY}",
    errno.EDQUOT: f"the disk quota is used up; {RETRY}",
    errno.EFBIG: f"it is larger than this disk or user may have; {RETRY}",
    errno.EROFS: "the disk is read-only",
}
_LIST = "this line begins a list, which jq -c '.[]' FILE writes line by line"
_ROWS = 4096  # of a matrix in memory at once
_LARGE = 1 << 27  # bytes of a mapped file above which its pages are released after reading


# ---------------------------------------------------------------- writing


@contextlib.contextmanager
def writing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A temporary path for a file or folder; it replaces `path` when the block ends without an error.

    A link stays, and what it leads to is replaced. What is `durable` also survives a power failure; leave that out for
    a copy that can be made again.
    WorkspaceError where the disk is full: the old content stays, and nothing of the new one is left.
    """
    path = path.resolve() if path.is_symlink() else path
    with explain_failed_write(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        _remove_leftovers(path)
        try:
            yield temporary
            if temporary.is_dir():
                replace_folder(temporary, path)
            else:
                if durable:
                    sync(temporary)
                temporary.replace(path)
                if durable:
                    sync(path.parent)
        finally:
            remove(temporary)


@contextlib.contextmanager
def explain_failed_write(path: Path) -> Iterator[None]:
    """Turn the OSError of a full or read-only disk into a WorkspaceError that names the file or folder."""
    try:
        yield
    except OSError as error:
        cause = _CAUSES.get(error.errno or 0, "")
        if error.errno is None and (" requested and " in str(error) or "rror writing" in str(error)):
            codes = (
                code for code in _CAUSES if os.strerror(code) in str(error)
            )  # numpy and Arrow say it in words only
            cause = _CAUSES[next(codes, errno.ENOSPC)]
        if not cause:
            raise
        raise WorkspaceError(f"{error.filename or path} could not be written: {cause}") from error


def sync(path: Path) -> None:
    """Wait until a file, or the list of files of a folder, is on the disk: it survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot
            raise
    finally:
        os.close(descriptor)


def _remove_leftovers(path: Path) -> None:
    """Delete temporary files and folders for `path` whose process is gone: it was killed while writing."""
    for begin in (".", ".."):  # the file or folder itself, and what was to replace it while it had a temporary name
        for leftover in path.parent.glob(f"{begin}{glob.escape(path.name)}.*"):
            if is_leftover(leftover):
                remove(leftover)


def is_leftover(path: Path) -> bool:
    """Whether a name is one that `writing` gives, of this process or of one that is gone."""
    process = path.name.rpartition(".")[2]
    is_temporary = path.name.startswith(".") and process.isdecimal()
    return is_temporary and (int(process) == os.getpid() or not _is_running(int(process)))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # of another user
    return True


def remove(path: Path) -> None:
    """Delete a file, a link or a folder, which need not exist."""
    if path.is_dir() and not path.is_symlink():
        with contextlib.suppress(OSError):
            (path / "manifest.json").unlink()  # first: what is half deleted must not look whole
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def check_replaceable(path: Path, kind: str, is_one: bool) -> None:
    """InputError where something lies that is not an earlier one of its kind; an empty folder may be there."""
    if path.exists() and not is_one and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"exists and is no {kind}, so it is not replaced", file=str(path))


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the content of a file."""
    with writing(path) as temporary:
        temporary.write_bytes(data)


def retire(folder: Path) -> None:
    """Delete a folder, if it is there, under another name: half-deleted it must not look like what it was."""
    retired = folder.with_name(f".{folder.name}.old")
    remove(retired)
    if folder.exists():
        folder.replace(retired)
    remove(retired)


def replace_folder(new: Path, old: Path) -> None:
    """Move a finished folder to the place of another, which may not exist."""
    old.parent.mkdir(parents=True, exist_ok=True)
    for file in new.rglob("*"):  # before the rename: a power failure must not leave a folder of empty files
        if file.is_file():
            sync(file)
    retired = old.with_name(f".{old.name}.old")
    shutil.rmtree(retired, ignore_errors=True)
    if _exchange(new, old):
        new.replace(retired)
    else:
        if old.exists():
            old.replace(retired)
        new.replace(old)
    sync(old.parent)
    shutil.rmtree(retired, ignore_errors=True)


def _exchange(new: Path, old: Path) -> bool:
    """Swap two folders in one step, so that readers and a killed process find one or the other; False if impossible."""
    import ctypes

    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE of Linux
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" and old.is_dir() else None
    return rename is not None and rename(here, os.fsencode(new), here, os.fsencode(old), swap) == 0


def link_file(source: str | Path, target: str | Path) -> None:
    """The same file under another name; a copy where the disk has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def copy_file(source: Path, target: Path) -> None:
    """A copy of a file, by the system; disks that can share blocks copy nothing."""
    target.write_bytes(b"")
    copy_parts(source, target, [(0, 0, source.stat().st_size)])


def copy_parts(source: Path, target: Path, parts: Iterable[tuple[int, int, int]]) -> None:
    """Copy parts of a file into another: from, to, bytes."""
    with source.open("rb") as reading, target.open("r+b") as writing:
        for start, place, size in parts:
            stop = start + size
            while start < stop:
                try:
                    count = os.copy_file_range(reading.fileno(), writing.fileno(), stop - start, start, place)
                except (AttributeError, OSError):  # not on this system, or not between these disks
                    data = os.pread(reading.fileno(), min(2**20, stop - start), start)
                    count = os.pwrite(writing.fileno(), data, place)
                if not count:
                    raise OSError(errno.EIO, "the file became shorter while it was copied", str(source))
                start, place = start + count, place + count


def link_folder(source: Path, target: Path) -> None:
    """A copy of a folder that shares its files, where the disk can: replace the files of either, never change them."""
    shutil.copytree(source, target, copy_function=link_file)


def create_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """A new memory-mapped array with its place on the disk reserved.

    Without the reservation a write to a full disk would kill the process instead of raising an error.
    """
    import numpy as np

    with explain_failed_write(path):
        array = np.lib.format.open_memmap(path, "w+", dtype, shape)
        if hasattr(os, "posix_fallocate"):
            with path.open("r+b") as stream:
                os.posix_fallocate(stream.fileno(), 0, max(1, path.stat().st_size))
    return array


# ---------------------------------------------------------------- reading


def read_array(path: Path, cure: str) -> np.ndarray[Any, Any]:
    """A memory-mapped array; WorkspaceError with the file and its `cure` where it is missing or damaged."""
    import numpy as np

    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except FileNotFoundError as error:
        raise WorkspaceError(f"{path} is missing: {cure}") from error
    except PermissionError:
        raise
    except Exception as error:  # a damaged header raises errors of any kind: of numpy, of the parser, of the mapping
        raise WorkspaceError(f"{path} is damaged ({first_line(error)}): {cure}") from error


def zero_rows(matrix: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which rows of a matrix, which may be memory-mapped, have nothing but zeros (n,)."""
    import numpy as np

    is_zero = np.zeros(len(matrix), bool)
    for start in range(0, len(matrix), _ROWS):
        block = matrix[start : start + _ROWS]
        candidates = np.flatnonzero(block[:, 0] == 0)  # few, without reading all the rest
        is_zero[start + candidates] = ~block[candidates].any(axis=1)
    return is_zero


def read_checked_array(path: Path, cure: str) -> np.ndarray[Any, Any]:
    """What `write_checked_array` wrote; WorkspaceError with the `cure` where a byte of it has changed."""
    import numpy as np

    stored = read_array(path, cure)
    array = np.array(stored[1:]) if stored.ndim == 1 and len(stored) and stored.dtype == np.uint64 else stored
    if array is stored or path.read_bytes() != _with_checksum(array):
        raise WorkspaceError(f"{path} is damaged: {cure}")
    return array


def write_checked_array(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write a row of 64-bit numbers behind their checksum."""
    write_atomically(path, _with_checksum(array))


def _with_checksum(array: np.ndarray[Any, Any]) -> bytes:
    import numpy as np

    checksum = int.from_bytes(hashlib.sha256(array.tobytes()).digest()[:8], "little")
    file = io.BytesIO()
    np.save(file, np.concatenate([np.array([checksum], np.uint64), array]))
    return file.getvalue()


def bytes_below(path: Path) -> int:
    """The size of a file, or of all files below a folder; what is removed meanwhile has none."""
    files = [path, *(Path(folder, name) for folder, _, names in os.walk(path) for name in names)]
    size = 0
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            facts = file.stat()
            size += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    return size


def release_pages(*arrays: np.ndarray[Any, Any]) -> None:
    """Unmap the pages of large memory-mapped arrays that were read; they stay in the cache of the system while it can.

    Systems map up to 2 MB around each byte that is read, so that a few rows here and there soon map the whole file.
    """
    for array in arrays:
        mapped = getattr(array if hasattr(array, "_mmap") else array.base, "_mmap", None)
        if array.flags.writeable or mapped is None or len(mapped) <= _LARGE:
            continue
        if hasattr(mmap, "MADV_DONTNEED"):  # not on every system
            mapped.madvise(mmap.MADV_DONTNEED)


def release_memory() -> None:
    """Give the system back what was freed; glibc keeps most of it, for large arrays that come and go ever more."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def read_json(path: Path, cure: str) -> Any:
    """The content of a JSON file; WorkspaceError with the file and its `cure` where it is missing or damaged."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise WorkspaceError(f"{path} is missing: {cure}") from error
    except (ValueError, RecursionError) as error:
        raise WorkspaceError(f"{path} is damaged ({first_line(error)}): {cure}") from error


def json_object(line: str | bytes) -> dict[str, Any]:
    """A line of JSON that is an object; ValueError, with the cause, for anything else."""
    try:
        row = json.loads(line)
    except UnicodeDecodeError:
        raise ValueError("this line is not UTF-8: save the file as UTF-8") from None
    except (ValueError, RecursionError) as error:
        if line.lstrip()[:1] in ("[", b"["):
            raise ValueError(_LIST) from error
        place = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "too deep or long"
        raise ValueError(f"this line is not JSON ({place})") from error
    if isinstance(row, list):
        raise ValueError(_LIST)
    if not isinstance(row, dict):
        raise ValueError("this line is JSON, but no object")
    return row


def sha256_of(files: Iterable[Path]) -> str:
    """The SHA-256 of the concatenated contents of files."""
    digest, part = hashlib.sha256(), memoryview(bytearray(2**18))
    for file in files:
        with file.open("rb", buffering=0) as stream:
            while size := stream.readinto(part):
                digest.update(part[:size])
    return digest.hexdigest()


class Remembered(Generic[Result]):
    """What was made of files, while a process runs and they stay as they are: a server reads a folder often."""

    _MOST = 200_000  # files
    _SETTLED = 2.0  # seconds; a file that was written later may be written again within one tick of the disk's clock

    def __init__(self) -> None:
        self._results: dict[str, tuple[object, Result]] = {}

    def get(self, path: str, key: object, make: Callable[[], Result]) -> Result:
        """What `make` gives for a file; `key` is what else it depends on. OSError where there is none."""
        facts = os.stat(path)  # noqa: PTH116 - a Path for each of many files takes longer
        state = (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino, key)
        known = self._results.get(path)
        if known is not None and known[0] == state:
            return known[1]
        result = make()
        if time.time() - max(facts.st_mtime, facts.st_ctime) > self._SETTLED:
            if len(self._results) >= self._MOST:
                self._results.clear()
            self._results[path] = (state, result)
        return result


# ---------------------------------------------------------------- locks


def is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder, or in the nearest one above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)


def lock_file(path: Path) -> Any:
    """An exclusive lock, released when the returned stream is closed or the process ends.

    A folder that nobody can write to needs none: what reads there goes on, and what writes fails by itself.
    """
    import fcntl

    if not is_writable(path.parent):
        return contextlib.ExitStack()
    if path.is_symlink():
        raise WorkspaceError(f"{path} is a link, and what it leads to would be overwritten: delete it")
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("a+")  # another process may hold it, and its note must stay
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        stream.close()
        raise WorkspaceBusy(f"another lemmata is writing to {path.parent}{_holder(path)}", path) from error
    except BaseException:
        stream.close()
        raise
    with contextlib.suppress(OSError):  # on a full disk nobody learns who holds it
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        command = " ".join(["lemmata", *sys.argv[1:2]])  # the rest may hold passwords
        note = {"process": os.getpid(), "host": platform.node(), "command": command, "since": now}
        stream.truncate(0)
        stream.write(json.dumps(note))
        stream.flush()
    return stream


def _holder(path: Path) -> str:
    """Who holds a lock, in brackets; empty where its file does not say it."""
    try:
        note = json.loads(path.read_text("utf-8", "replace"))
        return f" ({note['command']}, process {note['process']} on {note['host']}, since {note['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def wait_for_lock(path: Path) -> None:
    """Return when nobody holds a lock."""
    import fcntl

    with contextlib.suppress(FileNotFoundError), path.open() as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)


def fingerprint(value: Any) -> str:
    """A short hash of a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
