"""Objects of a store behind a URL (s3://, gs://, file://, …) through fsspec; every failure is one sentence.

Retries are those of the back-end. Knows nothing of workspaces.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import os
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from lemmata.core.errors import InputError, MissingExtra, first_line, require

_THREADS = 8  # transfers at a time; one connection rarely fills a network
_LONGEST_NAME = 255  # bytes of one part of a path on common disks
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_TIMES = ("LastModified", "mtime", "updated", "last_modified", "created")  # in the words of each back-end


class Entry(NamedTuple):
    """What a listing tells about an object."""

    size: int
    modified: float | None  # seconds since 1970 by the clock of the store; None where it does not tell


def is_url(path: str | Path) -> bool:
    """Whether a path is for fsspec."""
    return "://" in str(path)


def shown(url: str) -> str:
    """A URL without its password."""
    parts = urllib.parse.urlsplit(url)
    if parts.password is None:
        return url
    return parts._replace(netloc=f"{parts.username}@{parts.netloc.rpartition('@')[2]}").geturl()


def is_safe_name(name: Any) -> bool:
    """Whether a name may become a path below a folder of ours: it leads nowhere else, and is not hidden."""
    if not isinstance(name, str) or not name or "\\" in name or any(ord(letter) < 32 for letter in name):
        return False
    parts = name.split("/")
    try:
        longest = max(len(os.fsencode(part)) for part in parts)
    except UnicodeEncodeError:
        return False
    return longest <= _LONGEST_NAME and all(part and not part.startswith(".") for part in parts)


class ObjectStore:
    """The objects below a URL, by their names relative to it; may be shared by threads.

    InputError where the store cannot be used, MissingExtra where the library for its kind is not installed.
    """

    def __init__(self, url: str) -> None:
        core: Any = require("fsspec.core", "scale")
        url = url.rstrip("/") if is_url(url) else str(Path(url).absolute())
        self.url = shown(url)
        kind = url.partition("://")[0] if is_url(url) else "file"
        options = {"auto_mkdir": True} if kind in ("file", "local") else {}  # folders of a disk, unlike prefixes
        try:
            self._system, self._root = core.url_to_fs(url, **options)
        except ImportError as error:
            cure = ": pip install 'lemmata[scale]'" if kind in ("s3", "s3a") else ""
            raise MissingExtra(f"{kind}:// needs a library ({error}){cure}") from error
        except ValueError as error:
            raise InputError(
                f"{error}: give a folder, s3://BUCKET/NAME, or another URL of fsspec", file=self.url
            ) from error
        except Exception as error:  # some back-ends connect at once, each with its own errors
            raise InputError(_cause(error), file=self.url) from error

    def entries(self) -> dict[str, Entry]:
        """All objects; the only one has the empty name where the URL is that of an object."""
        with self._explain():
            self._system.invalidate_cache()
            details = self._system.find(self._root, detail=True)
        return {self._name(path): Entry(int(facts["size"]), _modified(facts)) for path, facts in details.items()}

    def download(self, name: str, path: Path) -> None:
        """Copy an object to a file, piece by piece."""
        with self._explain(name):
            self._system.get_file(self._path(name), str(path))

    def upload(self, path: Path) -> None:
        """Copy a file to the object that this address names, piece by piece."""
        with self._explain():
            self._system.put_file(str(path), self._root)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _name(self, path: str) -> str:
        return path.removeprefix(self._root).lstrip("/")

    @contextlib.contextmanager
    def _explain(self, name: str = "") -> Iterator[None]:
        """Turn whatever a back-end raises into an InputError with the object, if it has a name, and the cure."""
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:  # each back-end has its own
            if isinstance(error, OSError) and error.errno in _DISK:
                raise  # the caller knows which file
            raise InputError(_cause(error), file=f"{self.url}/{name}" if name else self.url) from error


def _cause(error: Exception) -> str:
    """What went wrong and what to do."""
    text = first_line(error)
    if "Credential" in type(error).__name__:
        return f"no credentials for it ({text}): for s3:// set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if isinstance(error, PermissionError):
        return f"access was refused ({text}): check the credentials and what they allow"
    if isinstance(error, FileNotFoundError):
        return f"not found ({text}): check the name; a bucket must exist"
    return f"it cannot be reached, or broke off ({text}); the same command resumes"


def _modified(facts: dict[str, Any]) -> float | None:
    value = next((facts[key] for key in _TIMES if facts.get(key) is not None), None)
    if isinstance(value, datetime.datetime):
        return value.timestamp()
    return float(value) if isinstance(value, int | float) else None


class Transfers:
    """Runs transfers in threads, a few at a time, so that memory stays bounded; the first error stops them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS)
        self._pending: deque[tuple[Future[Any], Callable[[Any], None]]] = deque()

    def __enter__(self) -> Transfers:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            while kind is None and self._pending:
                self._finish_first()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def add(self, then: Callable[[Any], None], function: Callable[..., Any], *arguments: Any) -> None:
        """Run a function, and call `then` with its result in this thread, in the order of `add`."""
        self._pending.append((self._pool.submit(function, *arguments), then))
        while len(self._pending) > 2 * _THREADS:
            self._finish_first()

    def _finish_first(self) -> None:
        future, then = self._pending.popleft()
        then(future.result())
