"""Copy a workspace to an object store (`push`) and from it (`pull`): only the parts that changed, resumable.

SQLite and memory-mapped arrays need files, so a workspace is searched where it was pulled to, never in the store.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lemmata.core.artefacts import all_problems, checksums
from lemmata.core.database import settle
from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.files import explain_failed_write, is_leftover, link_file, remove, replace_folder, sync
from lemmata.core.objects import Entry, ObjectStore, Transfers, shown
from lemmata.core.workspace import FOLDERS, Workspace, read_manifest, write_manifest
from lemmata.maintain.generations import (
    HIGHEST,
    Files,
    Generation,
    Part,
    cut,
    generation_names,
    is_object,
    is_published,
    newest_generation,
    object_name,
)

_LOGS = ("-wal", "-journal")  # of SQLite
_COMPARE = "pull it into another folder to compare, or push with --replace"
_KEPT_FOR = 24 * 3600.0  # seconds that parts stay which no generation names: a push in progress may need them


class PushReport(NamedTuple):
    """What a push wrote."""

    url: str
    generation: int
    files: int
    bytes: int  # of the workspace
    sent: int  # bytes
    removed: int  # objects of earlier generations
    changed: bool  # whether this is a new generation
    out_of_date: list[str]  # what its readers will be told, a sentence each


class PullReport(NamedTuple):
    """What a pull wrote."""

    url: str
    generation: int
    files: int
    bytes: int  # of the workspace
    received: int  # bytes
    changed: int  # files that were added, replaced or removed


# ---------------------------------------------------------------- the state of the files


def _files(workspace: Workspace) -> Iterator[str]:
    """The files of a workspace, by path below it; those that `is_published` refuses are unfinished work.

    Left out is what anybody may lose: replaced folders, what a killed command left, and logs of SQLite without content.
    """
    for path in [
        workspace.config_file,
        *(path for folder in FOLDERS for path in sorted((workspace.root / folder).rglob("*"))),
    ]:
        name = path.relative_to(workspace.root).as_posix()
        garbage = any(
            (part.startswith(".") and part.endswith(".old")) or is_leftover(Path(part)) for part in name.split("/")
        )
        empty_log = name.endswith("-shm") or (name.endswith(_LOGS) and not path.stat().st_size)
        if path.is_file() and not garbage and not empty_log:
            yield name


@dataclass(slots=True)
class _Note:
    """The parts of files when they were last pushed or pulled, and the generations known then, by URL."""

    generations: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, tuple[list[int], list[Part]]] = field(default_factory=dict)  # state and parts

    @classmethod
    def read(cls, workspace: Workspace) -> _Note:
        """What is known; nothing where the note is missing or damaged."""
        content = read_manifest(workspace.published) or {"generations": {}, "files": {}}
        files = {name: (state, [Part(*part) for part in parts]) for name, (state, parts) in content["files"].items()}
        return cls(content["generations"], files)

    def write(self, workspace: Workspace) -> None:
        write_manifest(workspace.published, {"generations": self.generations, "files": self.files})

    def keep(self, files: Files, states: Mapping[str, list[int]]) -> None:
        """Remember files with these parts in these states."""
        self.files = {name: (states[name], parts) for name, parts in files.items()}

    def parts(self, workspace: Workspace, name: str) -> list[Part] | None:
        """The parts of a file that was not touched since; None for any other."""
        state, parts = self.files.get(name, ([], []))
        return parts if state and state == _state(workspace.root / name) else None


def _state(path: Path) -> list[int]:
    """What changes with the content of a file; empty where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return []
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _hash(data: bytes) -> Part:
    return Part(len(data), hashlib.sha256(data).hexdigest())


def _has_parts(path: Path, parts: Iterable[Part]) -> bool:
    """Whether a file consists of these parts."""
    parts = list(parts)
    if path.stat().st_size != sum(part.size for part in parts):
        return False
    with path.open("rb") as stream:
        return all(_hash(stream.read(part.size)) == part for part in parts)


def _size(files: Files) -> int:
    return sum(part.size for parts in files.values() for part in parts)


def _open(url: str) -> ObjectStore:
    if url.startswith(("http://", "https://")):
        raise InputError("a web server does not list its files: give s3://BUCKET/NAME, or a folder", file=shown(url))
    return ObjectStore(url)


# ---------------------------------------------------------------- push


def push(workspace: Workspace, url: str, *, replace: bool = False, kept_for: float = _KEPT_FOR) -> PushReport:
    """Copy a workspace to a store: first the parts that it does not have, then the generation that names all.

    WorkspaceError for a damaged file among those that changed since the last push. And where somebody else pushed to
    the URL since this workspace was last pushed or pulled, or at the same time, unless that is to be replaced. Parts
    that the last two generations do not name are removed when they are `kept_for` seconds old.
    """
    store = _open(url)
    with workspace.hold(), explain_failed_write(Path(store.url)):  # a disk can be full, a store cannot
        note = _Note.read(workspace)
        entries = store.entries()
        newest = newest_generation(store, entries)
        known = note.generations.get(store.url, [])
        if newest and newest[0] not in known and not replace:
            raise WorkspaceError(f"{store.url} holds a workspace that was not pushed from here: {_COMPARE}")
        older = all_problems(workspace)
        files, states, sent = _send(workspace, note, store, entries)
        note.keep(files, states)
        if newest and newest[1].files == files:
            note.generations[store.url] = [newest[0]]
            note.write(workspace)
            return PushReport(store.url, newest[1].number, len(files), _size(files), sent, 0, False, older)
        _check_sent(store, store.entries(), files)
        if newest and newest[1].number >= HIGHEST:  # somebody made it up: no reader would see a higher one
            raise WorkspaceError(f"{store.url}/{newest[0]} has the highest possible number: delete it and push again")
        generation = Generation(newest[1].number + 1 if newest else 1, files)
        name, data = generation.encoded()
        # before it is written: a push that was killed or failed, however often, must know its own and the one before
        note.generations[store.url] = [*(newest[:1] if newest and newest[0] in known else ()), name]
        note.write(workspace)
        store.write(name, data)
        present = store.entries()
        others = {*generation_names(present)} - {*generation_names(entries), name}
        if others and not replace:
            raise WorkspaceError(f"{store.url} was pushed to from elsewhere at the same time: {_COMPARE}")
        _check_sent(store, present, files)  # again: another push may have removed old parts that this one uses
        kept = {name: files, **({newest[0]: newest[1].files} if newest else {})}
        now = present[name].modified if name in present else None
        garbage = _garbage(present, kept, now, kept_for)
        store.remove(garbage)
        return PushReport(store.url, generation.number, len(files), _size(files), sent, len(garbage), True, older)


def _send(
    workspace: Workspace, note: _Note, store: ObjectStore, entries: Mapping[str, Entry]
) -> tuple[Files, dict[str, list[int]], int]:
    """Write the parts that the store does not have.

    Returns all parts, the states of the files before they were read (lemmata.toml may be edited at any time), and the
    bytes that were sent.
    """
    names = [name for name in _files(workspace) if is_published(name)]
    expected = checksums(workspace)
    total = sum((workspace.root / name).stat().st_size for name in names)
    files: Files = {name: [] for name in names}
    states: dict[str, list[int]] = {}
    sent = done = 0

    def is_there(part: Part) -> bool:
        entry = entries.get(object_name(part))
        return entry is not None and entry.size == part.size

    def send(data: bytes) -> tuple[Part, int]:
        part = _hash(data)
        if is_there(part):
            return part, 0
        store.write(object_name(part), data)
        return part, len(data)

    def count(name: str, result: tuple[Part, int]) -> None:
        nonlocal sent, done
        part, size = result
        files[name].append(part)
        sent, done = sent + size, done + part.size
        workspace.progress("sending (MB)", done >> 20, max(total >> 20, 1))

    with Transfers() as transfers:
        for name in names:
            path = workspace.root / name
            if any((log := path.with_name(path.name + end)).exists() and log.stat().st_size for end in _LOGS):
                settle(path, "restore it from a copy")
            states[name] = _state(path)
            parts = note.parts(workspace, name)
            if parts is not None and all(map(is_there, parts)):
                files[name] = list(parts)
                done += sum(part.size for part in parts)
                continue
            whole = hashlib.sha256()
            for data in cut(path):
                whole.update(data)
                transfers.add(partial(count, name), send, data)
            if expected.get(path, whole.hexdigest()) != whole.hexdigest():
                raise WorkspaceError(f"{path} is damaged, nothing was published: run 'lemmata doctor --repair' first")
    return files, states, sent


def _check_sent(store: ObjectStore, entries: Mapping[str, Entry], files: Files) -> None:
    for part in (part for parts in files.values() for part in parts):
        entry = entries.get(object_name(part))
        if entry is None or entry.size != part.size:
            raise InputError("a part that was sent is not there; the same command sends it again", file=store.url)


def _garbage(entries: Mapping[str, Entry], kept: Mapping[str, Files], now: float | None, kept_for: float) -> list[str]:
    """Parts and generations that are not those of the `kept` ones, of a certain age by the clock of the store."""
    if now is None:
        return []
    named = {object_name(part) for files in kept.values() for parts in files.values() for part in parts}
    named.update(kept)
    unnamed = {name: entry for name, entry in entries.items() if is_object(name) and name not in named}
    return [name for name, entry in unnamed.items() if entry.modified and now - entry.modified >= kept_for]


# ---------------------------------------------------------------- pull


def pull(workspace: Workspace, url: str) -> PullReport:
    """Bring a folder to the newest generation of a URL; parts that it has already are not fetched again.

    All files are fetched and checked before the first one is replaced. WorkspaceError where the folder has files that
    were changed since it was last pushed or pulled, which would be lost.
    """
    store = _open(url)
    if workspace.root.exists() and not workspace.root.is_dir():
        raise WorkspaceError(f"{workspace.root} is a file: name a folder")
    newest = newest_generation(store, store.entries())
    if newest is None:
        raise WorkspaceError(f"{store.url} holds no workspace: 'lemmata push {store.url}' puts one there")
    name, generation = newest
    with workspace.hold():
        note = _Note.read(workspace)
        settings = _state(workspace.config_file)  # the only file that somebody may change now
        present = _present(workspace, note, generation.files)
        changed = {file: parts for file, parts in generation.files.items() if present.get(file) != parts}
        gone = present.keys() - generation.files.keys()
        received = _receive(workspace, note, store, changed)
        if _state(workspace.config_file) != settings:
            raise _would_be_lost(workspace.config_file)
        _switch(workspace, generation.files, changed, gone)
        note.keep(generation.files, {file: _state(workspace.root / file) for file in generation.files})
        note.generations[store.url] = [name]
        note.write(workspace)
        remove(workspace.pulling)
    size = _size(generation.files)
    return PullReport(store.url, generation.number, len(generation.files), size, received, len(changed) + len(gone))


def _present(workspace: Workspace, note: _Note, new: Files) -> Files:
    """The files that the folder has; WorkspaceError for one that is neither as it was nor as it will be."""
    present: Files = {}
    for name in _files(workspace):
        path = workspace.root / name
        parts = note.parts(workspace, name)
        if parts is None:
            candidates = [new.get(name), note.files.get(name, ([], None))[1]]
            parts = next((known for known in candidates if known is not None and _has_parts(path, known)), None)
        if parts is None:
            raise _would_be_lost(path, "push it" if is_published(name) else "finish what wrote it")
        present[name] = parts
    return present


def _would_be_lost(path: Path, advice: str = "push it") -> WorkspaceError:
    return WorkspaceError(f"{path} is not as it was pulled, and would be lost: {advice}, or pull into another folder")


def _receive(workspace: Workspace, note: _Note, store: ObjectStore, changed: Files) -> int:
    """Put the changed files beside the present ones; returns the bytes that were fetched.

    Parts come from files that the folder has, from an earlier pull that was stopped, or from the store.
    """
    total = _size(changed)
    workspace.root.mkdir(parents=True, exist_ok=True)
    begun = _begun(workspace, changed)
    free = shutil.disk_usage(workspace.root).free + sum(path.stat().st_blocks * 512 for path in begun)
    if total > free:
        raise WorkspaceError(f"{store.url} needs {total:,} bytes, and {workspace.root} has {free:,}")
    local = {
        part: (workspace.root / name, offset)
        for name in note.files
        for part, offset in _offsets(note.parts(workspace, name) or [])
    }
    received = done = 0

    def receive(path: Path, offset: int, part: Part, resumed: bool) -> tuple[int, int]:
        """Write a part to its place; returns its size, and how many bytes of it were fetched."""
        if resumed and _hash(_read(path, offset, part.size)) == part:
            return part.size, 0
        data = _read(*local[part], part.size) if part in local else b""
        fetched = 0
        if _hash(data) != part:
            data, fetched = store.read(object_name(part), part.size), part.size
            if _hash(data) != part:
                raise InputError(f"{object_name(part)} is damaged: delete it and push again", file=store.url)
        with path.open("r+b") as stream:
            stream.seek(offset)
            stream.write(data)  # all of it, unlike pwrite on a disk that is nearly full
        return part.size, fetched

    def count(result: tuple[int, int]) -> None:
        nonlocal received, done
        done, received = done + result[0], received + result[1]
        workspace.progress("receiving (MB)", done >> 20, max(total >> 20, 1))

    with explain_failed_write(workspace.pulling), Transfers() as transfers:
        for name, parts in changed.items():
            path = workspace.pulling / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as stream:
                stream.truncate(sum(part.size for part in parts))
            for part, offset in _offsets(parts):
                transfers.add(count, receive, path, offset, part, path in begun)
    for name in changed:
        sync(workspace.pulling / name)  # now, so that the renames of all folders follow each other at once
    return received


def _read(path: Path, offset: int, size: int) -> bytes:
    with path.open("rb") as stream:
        return os.pread(stream.fileno(), size, offset)


def _begun(workspace: Workspace, changed: Files) -> set[Path]:
    """The files that an earlier pull began; those that are of no use now, or shared with the folder, are removed."""
    begun = {path for path in workspace.pulling.rglob("*") if path.is_file()}
    for path in list(begun):
        if path.relative_to(workspace.pulling).as_posix() not in changed or path.stat().st_nlink > 1:
            path.unlink()
            begun.remove(path)
    return begun


def _offsets(parts: Iterable[Part]) -> Iterator[tuple[Part, int]]:
    offset = 0
    for part in parts:
        yield part, offset
        offset += part.size


def _switch(workspace: Workspace, new: Files, changed: Files, gone: Iterable[str]) -> None:
    """Let the fetched files take their places: a folder of the workspace in one step, the settings last."""
    for folder in FOLDERS:
        if not any(name.startswith(f"{folder}/") for name in (*changed, *gone)):
            continue
        names = [name for name in new if name.startswith(f"{folder}/")]
        for name in names:
            if name not in changed:
                target = workspace.pulling / name
                target.parent.mkdir(parents=True, exist_ok=True)
                link_file(workspace.root / name, target)
        if names:
            replace_folder(workspace.pulling / folder, workspace.root / folder)
        else:
            remove(workspace.root / folder)
    if workspace.config_file.name in changed:
        (workspace.pulling / workspace.config_file.name).replace(workspace.config_file)
        sync(workspace.root)
