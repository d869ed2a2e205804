"""Keeping a workspace whole: read every file (`verify`), remove what is of no more use (`gc`)."""

from __future__ import annotations

import contextlib
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
    is_usable,
    learned_metric,
    model,
    note_problems,
    notes,
)
from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.files import bytes_below, is_leftover, remove, sync
from lemmata.core.workers import available_cores
from lemmata.core.workspace import FOLDERS, Workspace, default_encoder, read_corpus_manifest, read_manifest, vector_sets
from lemmata.encode.load import encoder_kind
from lemmata.graph.store import GraphRecordStore
from lemmata.graph.stored_metric import metric_checkpoint


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


class Garbage(NamedTuple):
    """A file or folder of no more use."""

    path: str
    bytes: int
    why: str


# ---------------------------------------------------------------- verify


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
            continue  # temporary: a matter of `gc`
        if path in expected or any(folder in known_folders for folder in path.parents):
            continue
        if parts[0] == "models" and not (workspace.models_folder / parts[1] / "manifest.json").exists():
            continue  # a model that was brought from elsewhere
        if parts[0] == "run" or path.name.endswith(("-wal", "-shm", "-journal")):
            continue
        yield FileProblem(path, "foreign", f"{path} was not written by lemmata")


# ---------------------------------------------------------------- gc


def collect_garbage(workspace: Workspace, *, dry_run: bool = False) -> list[Garbage]:
    """Remove files of killed runs, checkpoints of finished trainings and vectors that nothing can use any more."""
    with workspace.hold():
        if not dry_run:
            for retired in list(workspace.root.rglob(".*.old")):
                _restore(retired)
        garbage = [Garbage(str(path), bytes_below(path), why) for path, why in dict(_garbage(workspace)).items()]
        if not dry_run:
            for item in garbage:
                remove(Path(item.path))
    return garbage


def _restore(retired: Path) -> None:
    """Put a folder back whose replacement was killed between two renames."""
    place = retired.with_name(retired.name.removeprefix(".").removesuffix(".old"))
    if not place.exists() and read_manifest(retired / "manifest.json") is not None:
        retired.replace(place)
        sync(place.parent)


def _garbage(workspace: Workspace) -> Iterator[tuple[Path, str]]:
    own = (path for folder in FOLDERS for path in workspace.root.glob(f".{folder}.*"))
    for path in sorted((*own, *(path for folder in FOLDERS for path in (workspace.root / folder).rglob("*")))):
        if path.name.startswith(".") and path.name.endswith(".old"):
            yield path, "replaced"
        elif is_leftover(path):
            yield path, "of a command that was killed"
    yield from _finished_work(workspace)
    yield from _useless_vectors(workspace)


def _finished_work(workspace: Workspace) -> Iterator[tuple[Path, str]]:
    """Checkpoints of models, of the embedding and of metrics that are complete, and vectors begun that are complete."""
    for work in sorted(workspace.models_folder.glob(".*")):
        begun = work / "begun.json"
        trained = read_manifest(model(workspace.models_folder / work.name[1:]).manifest)
        if work.is_dir() and trained and begun.is_file() and begun.read_text("utf-8") == trained.get("begun"):
            yield work, "checkpoints of a finished training"
    if read_manifest(workspace.indexing) is None:
        for partial in sorted(workspace.dense_folder.glob("*/*.partial")):
            yield partial, "vectors that were completed or given up"
    if is_usable(workspace, artefact(workspace, "embedding")):
        for checkpoint in sorted(workspace.embedding_folder.parent.glob("embedding.*partial.npz")):
            yield checkpoint, "checkpoint of a finished embedding"
    for vectors in vector_sets(workspace):
        metric = read_manifest(learned_metric(vectors).manifest)
        if metric and (checkpoint := metric_checkpoint(vectors, metric)).exists():
            yield checkpoint, "checkpoint of a finished training"


def _useless_vectors(workspace: Workspace) -> Iterator[tuple[Path, str]]:
    """Vectors without a manifest, and those of encoders that are gone; never those that search uses."""
    with contextlib.suppress(WorkspaceError):
        default = default_encoder(workspace)
        unfinished = (read_manifest(workspace.indexing) or {}).get("encoder")
        for vectors in vector_sets(workspace):
            if vectors.encoder in (default, unfinished):
                continue
            if read_manifest(vectors.manifest) is None:
                yield vectors.root, "vectors that no manifest names"
                continue
            try:
                encoder_kind(vectors.encoder, workspace.models_folder)
            except InputError:
                yield vectors.root, f"vectors of {vectors.encoder}, which is no longer there"
