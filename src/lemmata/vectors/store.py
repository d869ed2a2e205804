"""One vector per row of the corpus and encoder, written in shards and read memory-mapped."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.artefacts import (
    Artefact,
    dense_index,
    lost_vectors,
    read_artefact,
    read_undamaged,
    write_hashed_manifest,
)
from lemmata.core.errors import WorkspaceError
from lemmata.core.files import (
    copy_parts,
    create_array,
    explain_failed_write,
    read_array,
    replace_folder,
    zero_rows,
)
from lemmata.core.types import Crowding, Floats, Integers
from lemmata.core.workspace import Workspace, read_manifest, vector_set, vector_sets, vectors_of
from lemmata.vectors.crowding import KnownCrowding, MeasuredCrowding

_CROWDING = "crowding.npy"
_MOST_RUNS = 0.05  # of the rows, up to which copying runs is faster than copying rows
_MEASURED = ("near.npy", "edges.npy")  # of the crowding, to bring it up to date


class StoredVectors(NamedTuple):
    """One vector per row of the corpus, memory-mapped, and the encoder that made them."""

    matrix: Floats  # (n, dim)
    hashes: npt.NDArray[np.uint64]  # (n,) of the texts that were encoded
    encoder: str  # what `load_encoder` takes
    cut: int  # length that its vectors were truncated to; 0: full length
    made_by: str  # the encoder's own name
    crowding: Crowding  # of the passages


def unfinished(workspace: Workspace) -> str:
    """How far vectors are that are being made, or what to do where their making was ended; empty without any."""
    note = read_manifest(workspace.indexing)
    if note is None:
        return ""
    share = f"{note['done'] / note['total']:.0%} of the vectors are made"
    return f"{share} so far" if workspace.is_held() else f"{share}: run 'lemmata index' again for the rest"


def no_vectors(workspace: Workspace) -> str:
    """What to do where search has no vectors to use, in one sentence."""
    others = ", ".join(vectors.encoder for vectors in vector_sets(workspace))
    if others and workspace.is_held():  # they are chosen last
        return f"the vectors of {others} are made, and will be searched in a moment"
    if not others:
        return "there is no dense index yet: run 'lemmata index'"
    return f"no encoder is chosen to search with: run 'lemmata index --encoder NAME' (there are vectors of {others})"


def open_vectors(workspace: Workspace, corpus: str | None = None, encoder: str = "") -> StoredVectors:
    """The vectors of a corpus by an encoder: by default the present corpus, and the encoder that search uses.

    WorkspaceError where there are none, or only those of another state of the corpus.
    """
    vectors = vector_set(workspace, encoder)
    if vectors is None:
        raise WorkspaceError(unfinished(workspace) or no_vectors(workspace))
    item = dense_index(vectors)
    return read_artefact(workspace, item, corpus, lambda manifest: _read(item, manifest))


def open_old_vectors(workspace: Workspace, encoder: str) -> StoredVectors | None:
    """The vectors of whatever corpus they were made from; None where there are none, or some are damaged or lost."""
    item = dense_index(vectors_of(workspace, encoder))
    manifest = read_undamaged(item)
    return None if manifest is None or lost_vectors(item, manifest) else _read(item, manifest)


def known_crowding(workspace: Workspace, old: StoredVectors, rows: Integers) -> KnownCrowding:
    """What was measured of old vectors; `rows` are those of today's passages among them."""
    folder = vectors_of(workspace, old.encoder).vectors
    near, edges = (np.load(folder / name, mmap_mode="r") for name in _MEASURED)
    return KnownCrowding(old.matrix, np.asarray(old.hashes), near, edges, rows)


def vectors_manifest(workspace: Workspace, encoder: str = "") -> dict[str, Any] | None:
    """What is known about the vectors of an encoder, by default of the one that search uses; None without any."""
    vectors = vector_set(workspace, encoder)
    return read_manifest(vectors.manifest) if vectors else None


def invalidate_vectors(workspace: Workspace, encoder: str) -> None:
    """Drop the vectors of an encoder that is about to change, and the weights of `auto` that were fitted to them.

    Its place as the default stays.
    """
    vectors = vectors_of(workspace, encoder)
    vectors.fusion.unlink(missing_ok=True)
    vectors.manifest.unlink(missing_ok=True)
    for name in ("vectors", "summaries"):
        shutil.rmtree(_partial(workspace, encoder, name), ignore_errors=True)


def _partial(workspace: Workspace, encoder: str, name: str) -> Path:
    return workspace.encoder_folder(encoder) / f"{name}.partial"


def _read(item: Artefact, manifest: Mapping[str, Any]) -> StoredVectors:
    matrix, hashes = (read_array(item.folder / f"{name}.npy", item.cure) for name in ("matrix", "hashes"))
    crowding = Crowding(read_array(item.folder / _CROWDING, item.cure), float(manifest["spread"]))
    return StoredVectors(matrix, hashes, manifest["encoder"], manifest["cut"], manifest["made_by"], crowding)


class VectorWriter:
    """Writes vectors in shards; a killed run resumes after its last shard.

    Where the texts have changed since, what it had made is `begun`. Rows may come in any order. A row that is zero was
    made only if this process wrote it so. `finish` replaces the vectors of the encoder, or its `summaries`.
    """

    def __init__(
        self,
        workspace: Workspace,
        encoder: str,
        dimension: int,
        hashes: npt.NDArray[np.uint64],
        *,
        made_by: str = "",
        name: str = "vectors",
    ) -> None:
        self.workspace = workspace
        self.encoder = encoder
        self.name = name
        self.folder = _partial(workspace, encoder, name)
        maker = hashlib.sha256(f"{encoder}\0{made_by}\0{dimension}".encode()).hexdigest()
        key = f"{maker} {hashlib.sha256(hashes.tobytes()).hexdigest()}"
        note = self.folder / "key"
        shape = (len(hashes), dimension)
        if self._is_complete(made_by, shape, hashes):  # killed just before it would have replaced the vectors before
            note.write_text(key)
        stored = note.read_text() if note.is_file() else ""
        self.begun = self._begun() if stored != key and stored.partition(" ")[0] == maker else None
        if stored != key:
            shutil.rmtree(self.folder, ignore_errors=True)
            try:
                with explain_failed_write(self.folder):
                    self.folder.mkdir(parents=True)
                    create_array(self.folder / "matrix.npy", np.dtype(np.float32), shape)
                    create_array(self.folder / "done.npy", np.dtype(np.bool_), (len(hashes),))
                    np.save(self.folder / "hashes.npy", hashes)
                note.write_text(key)  # last: its existence means that the folder is complete
            except BaseException:
                shutil.rmtree(self.folder, ignore_errors=True)
                raise
        self.matrix = np.lib.format.open_memmap(self.folder / "matrix.npy", "r+")
        done = self.folder / "done.npy"
        if not done.is_file():  # killed while it was finished: all rows are written
            create_array(done, np.dtype(np.bool_), (len(hashes),))[:] = True
        self.done = np.lib.format.open_memmap(done, "r+")
        if stored == key:
            self.done[zero_rows(self.matrix)] = False
        self._is_blank = np.zeros(len(hashes), bool)  # zero, as the encoder made it

    def _is_complete(self, made_by: str, shape: tuple[int, int], hashes: npt.NDArray[np.uint64]) -> bool:
        manifest = read_manifest(self.folder / "manifest.json")
        if manifest is None or (manifest.get("made_by"), manifest.get("encoder")) != (made_by, self.encoder):
            return False
        matrix, made_of = (np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in ("matrix", "hashes"))
        return matrix.shape == shape and np.array_equal(made_of, hashes)

    def _begun(self) -> tuple[Floats, npt.NDArray[np.uint64]] | None:
        """Vectors and hashes of a run that was stopped before the texts changed.

        They stay open when their file is removed, but nobody may look for them under its name.
        """
        try:
            matrix, hashes, done = (
                np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in ("matrix", "hashes", "done")
            )
        except (OSError, ValueError):
            return None
        return matrix.view(np.ndarray), np.where(done & ~zero_rows(matrix), hashes, 0)

    def missing(self) -> Integers:
        """Rows that are not written yet."""
        return np.flatnonzero(~self.done).astype(np.int64)

    def write(self, rows: Integers, vectors: Floats) -> None:
        """Write some rows; they are marked as done once they are on disk."""
        self.matrix[rows] = vectors
        self._is_blank[rows] = zero_rows(vectors)
        self._mark(rows)

    def copy(self, rows: Integers, matrix: Floats, places: Integers) -> None:
        """Write some ascending rows from these places of another matrix; runs of them are copied as one.

        A memory-mapped one is that of finished vectors, whose file is read.
        """
        breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(places) != 1)) + 1
        if len(breaks) > _MOST_RUNS * len(rows):
            self.write(rows, np.asarray(matrix[places]))
            return
        starts = np.concatenate([[0], breaks])
        lengths = np.diff(starts, append=len(rows))
        runs = list(zip(places[starts].tolist(), rows[starts].tolist(), lengths.tolist(), strict=True))
        if isinstance(matrix, np.memmap):  # by the system, in a third of the time
            size, offset = matrix.itemsize * matrix.shape[1], self.matrix.offset
            parts = ((matrix.offset + place * size, offset + row * size, count * size) for place, row, count in runs)
            copy_parts(Path(str(matrix.filename)), self.folder / "matrix.npy", parts)
        else:
            for place, row, count in runs:
                self.matrix[row : row + count] = matrix[place : place + count]
        for place, row, count in runs:
            self._is_blank[row : row + count] = zero_rows(matrix[place : place + count])
        self._mark(rows)

    def _mark(self, rows: Integers) -> None:
        self.matrix.flush()
        self.done[rows] = True
        self.done.flush()

    def finish(self, manifest: Mapping[str, Any], measured: MeasuredCrowding | None = None) -> None:
        """Replace the encoder's vectors by these; WorkspaceError where some were lost on their way to the disk."""
        assert self.done.all()
        is_zero = zero_rows(self.matrix)
        if lost := int((is_zero & ~self._is_blank).sum()):
            raise WorkspaceError(f"{lost:,} vectors in {self.folder} were lost: run 'lemmata index' again")
        manifest = {**manifest, "blank": int(is_zero.sum())}
        if measured is not None:
            arrays = (measured.crowding.values, measured.near, measured.edges)
            for name, values in zip((_CROWDING, *_MEASURED), arrays, strict=True):
                np.save(self.folder / name, values)
            manifest = {**manifest, "spread": measured.crowding.spread}
        del self.matrix, self.done
        write_hashed_manifest(self.folder, {**manifest, "encoder": self.encoder}, temporary=("done.npy", "key"))
        replace_folder(self.folder, self.folder.with_name(self.name))
