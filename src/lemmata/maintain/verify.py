"""Read every file of a workspace and compare it with its checksum."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from lemmata.core.artefacts import (
    FileProblem,
    artefact,
    artefacts,
    file_problems,
    note_problems,
    notes,
)
from lemmata.core.errors import WorkspaceError
from lemmata.core.workers import available_cores
from lemmata.core.workspace import FOLDERS, Workspace, read_corpus_manifest, read_manifest
from lemmata.graph.store import GraphRecordStore


class Verification(NamedTuple):
    """What `lemmata verify` read, and what is not as it was written."""

    files: int
    bytes: int
    seconds: float
    problems: list[FileProblem]

    @property
    def damage(self) -> list[FileProblem]:
        """The problems but files of somebody else, which do no harm."""
        return [problem for problem in self.problems if problem.what != "foreign"]

    @property
    def is_whole(self) -> bool:
        return not self.damage


def verify(workspace: Workspace) -> Verification:
    """Read every file of a workspace and compare it with the checksum that was written with it."""
    begin = time.perf_counter()
    reader = _Reader(workspace)
    problems = [*_corpus_problems(workspace, reader), *_record_problems(workspace, reader)]
    with ThreadPoolExecutor(available_cores()) as pool:  # hashing leaves the interpreter to other threads
        for found in pool.map(lambda item: list(file_problems(item, reader.read)), artefacts(workspace)):
            problems += found
    problems += note_problems(workspace)
    problems += _foreign(workspace)
    return Verification(reader.files, reader.bytes, time.perf_counter() - begin, problems)


class _Reader:
    """Counts what is read."""

    def __init__(self, workspace: Workspace) -> None:
        self.files, self.bytes = 0, 0
        self._lock = threading.Lock()
        self._progress = workspace.progress
        self._total = sum(path.stat().st_size for path in _managed(workspace)) >> 20

    def read(self, size: int) -> None:
        """Note that a file of so many bytes was read."""
        with self._lock:
            self.files += 1
            self.bytes += size
            self._progress("reading files (MB)", self.bytes >> 20, max(self._total, 1))


def _managed(workspace: Workspace) -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (path for path in sorted((workspace.root / folder).rglob("*")) if path.is_file())


def _corpus_problems(workspace: Workspace, reader: _Reader) -> Iterator[FileProblem]:
    try:
        manifest = read_corpus_manifest(workspace)
    except WorkspaceError as error:
        yield FileProblem(workspace.manifest(workspace.corpus_folder), "damaged", str(error))
        return
    if manifest is None:
        return  # no ingest is complete
    yield from file_problems(artefact(workspace, "corpus"), reader.read)


def _record_problems(workspace: Workspace, reader: _Reader) -> Iterator[FileProblem]:
    path = workspace.graph_records
    if not path.exists() and read_manifest(workspace.manifest(workspace.graph_folder)) is None:
        return
    try:
        with GraphRecordStore(workspace) as records:
            records.verify()
    except WorkspaceError as error:
        yield FileProblem(path, "damaged" if path.exists() else "missing", str(error))
    if path.exists():
        reader.read(path.stat().st_size)


def _foreign(workspace: Workspace) -> Iterator[FileProblem]:
    """Files that no manifest names and that lemmata did not leave for a reason."""
    known_folders = {item.folder for item in artefacts(workspace)}
    expected = {path for path, _ in notes(workspace)}
    expected |= {workspace.database, workspace.incoming, workspace.graph_records}
    expected.add(workspace.manifest(workspace.corpus_folder))
    for path in _managed(workspace):
        parts = path.relative_to(workspace.root).parts
        if any(part.startswith(".") or ".partial" in part for part in parts):
            continue  # temporary
        if path in expected or any(folder in known_folders for folder in path.parents):
            continue
        if parts[0] == "models" and not (workspace.models_folder / parts[1] / "manifest.json").exists():
            continue  # a model that was brought from elsewhere
        if parts[0] == "run" or path.name.endswith(("-wal", "-shm", "-journal")):
            continue
        yield FileProblem(path, "foreign", f"{path} was not written by lemmata")
