"""A workspace in an object store: its files cut into parts by content, and a generation that names all of them.

    objects/ab/ab12…               a part, under the SHA-256 of its content
    generations/00000007-….json    the files of a workspace at one time, under the SHA-256 of its own content

Nothing is ever changed, and a generation is written after its parts: whoever reads the newest one reads a whole
workspace, and one that was half written does not have the hash in its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.errors import WorkspaceError
from lemmata.core.objects import Entry, ObjectStore, is_safe_name
from lemmata.core.workspace import FOLDERS, PRIVATE_SETS

FORMAT = 1
HIGHEST = 99_999_999  # number of a generation, of eight digits in its name
LARGEST_PART = 16 << 20  # bytes
_SMALLEST_PART = 2 << 20
_WINDOW = 1 << 20  # bytes in which a place to cut is looked for at once
_ONE_IN = 20  # bits: a cut at one of a million places, which are 4 bytes apart, so every 4 MiB
_LARGEST_GENERATION = 1 << 28  # bytes; names parts of more than 15 TB
_NAME = re.compile(r"generations/([0-9]{8})-([0-9a-f]{64})\.json")
_OBJECT = re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{64}")
_HASH = re.compile(r"[0-9a-f]{64}")


class Part(NamedTuple):
    """Some bytes of a file."""

    size: int
    sha256: str


Files = dict[str, list[Part]]  # by path below the workspace, the parts in order


def object_name(part: Part) -> str:
    return f"objects/{part.sha256[:2]}/{part.sha256}"


def is_object(name: str) -> bool:
    """Whether an object of a store is a part or a generation, not something of somebody else."""
    return bool(_OBJECT.fullmatch(name) or _NAME.fullmatch(name))


# ---------------------------------------------------------------- parts


def cut(path: Path) -> Iterator[bytes]:
    """The content of a file in parts of 2 to 16 MiB, that end where eight bytes have a hash of zeros.

    Rows that are inserted into an array or a table move what comes after them, and change only the part they are in.
    """
    with path.open("rb", buffering=0) as stream:
        position, end = 0, path.stat().st_size
        while position < end:
            block = os.pread(stream.fileno(), LARGEST_PART, position)
            if not block:
                return  # the file became shorter
            part = block[: _first_cut(block)]
            position += len(part)
            yield part


def _first_cut(block: bytes) -> int:
    """The length of the first part of a block."""
    for begin in range(_SMALLEST_PART, len(block), _WINDOW):
        window = np.frombuffer(block[begin - 8 : begin + _WINDOW], np.uint8)
        places = np.concatenate([_cuts(window, offset) for offset in (0, 4)])
        if len(places):
            return begin + int(places.min())
    return len(block)


def _cuts(window: np.ndarray[Any, np.dtype[np.uint8]], offset: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The ends of the aligned groups of eight bytes after which to cut, less the 8 bytes before the window."""
    count = (len(window) - offset) // 8
    words = window[offset : offset + 8 * count].view("<u8")
    hashes = (words + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing; + 1, as zeros are frequent
    return np.flatnonzero(hashes >> np.uint64(64 - _ONE_IN) == 0) * 8 + offset


# ---------------------------------------------------------------- generations


class Generation(NamedTuple):
    """All files of a workspace as they were pushed."""

    number: int
    files: Files

    def encoded(self) -> tuple[str, bytes]:
        """The name and content of its object."""
        data = json.dumps({"format": FORMAT, "files": self.files}, sort_keys=True).encode()
        return f"generations/{self.number:08}-{hashlib.sha256(data).hexdigest()}.json", data


def generation_names(entries: Mapping[str, Entry]) -> list[str]:
    """The generations in a listing, the newest first."""
    return sorted(filter(_NAME.fullmatch, entries), reverse=True)


def newest_generation(store: ObjectStore, entries: Mapping[str, Entry]) -> tuple[str, Generation] | None:
    """The newest one that is whole, with its name; None without any. WorkspaceError for one that cannot be trusted."""
    names = generation_names(entries)
    for name in names:
        if entries[name].size > _LARGEST_GENERATION:
            raise WorkspaceError(f"{store.url}/{name} is refused: {entries[name].size:,} bytes are too many")
        data = store.read(name, entries[name].size)
        match = _NAME.fullmatch(name)
        if match and hashlib.sha256(data).hexdigest() == match[2]:
            try:
                return name, Generation(int(match[1]), _decode(data))
            except WorkspaceError as error:
                raise WorkspaceError(f"{store.url}/{name} is refused: {error}") from error
    if names:
        raise WorkspaceError(f"{store.url}: all generations are damaged: delete them and push again")
    return None


def _decode(data: bytes) -> Files:
    """The files of a generation that somebody else may have written; WorkspaceError with what is wrong."""
    try:
        content = json.loads(data)
        number, listed = content["format"], content["files"]
        if number != FORMAT:
            raise WorkspaceError(f"it has format {number}, and this lemmata reads {FORMAT}")
        files = {name: [Part(int(size), str(digest)) for size, digest in parts] for name, parts in listed.items()}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise WorkspaceError("it is not written as lemmata writes it") from error
    for name, parts in files.items():
        if not is_published(name):
            raise WorkspaceError(f"{name!r} is not the name of a file of a workspace")
        if any(not 0 < part.size <= LARGEST_PART or not _HASH.fullmatch(part.sha256) for part in parts):
            raise WorkspaceError(f"{name} has a part of impossible size or hash")
        if any(folder in files for folder in _folders(name)):
            raise WorkspaceError(f"{name} is inside another file")
    if "lemmata.toml" not in files:
        raise WorkspaceError("it has no lemmata.toml")
    return files


def is_published(name: str) -> bool:
    """Whether a file of a workspace is pushed: no caches, no unfinished work, no logs of databases."""
    if not is_safe_name(name) or name.endswith(("-wal", "-shm", "-journal")) or ".partial" in name:
        return False
    top, _, below = name.partition("/")
    unfinished = name in ("corpus/incoming.sqlite", "index/indexing.json")
    private = top == "training" and below.partition("/")[0] in PRIVATE_SETS  # of an adaptation that was killed
    return name == "lemmata.toml" or (top in FOLDERS and bool(below) and not unfinished and not private)


def _folders(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name
