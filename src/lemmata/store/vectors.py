"""One vector per row of the corpus, written in shards and read memory-mapped."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.files import create_array, explain_failed_write, read_array, replace_folder
from lemmata.store.artefacts import Artefact, artefact, open_artefact, read_undamaged, seal
from lemmata.store.layout import Layout
from lemmata.types import Floats, Integers

__all__ = ["StoredVectors", "VectorWriter", "open_old_vectors", "open_vectors"]


class StoredVectors(NamedTuple):
    """One vector per row of the corpus, memory-mapped, and the encoder that made them."""

    matrix: Floats  # (n, dim)
    hashes: npt.NDArray[np.uint64]  # (n,) of the texts that were encoded
    encoder: str  # what `load_encoder` takes
    cut: int = 0  # length that its vectors were truncated to; 0: full length


def open_vectors(layout: Layout, corpus: str | None = None) -> StoredVectors:
    """The vectors of a corpus, by default the present one; WorkspaceError where there are none, or of another."""
    item = artefact(layout, "vectors")
    return _read(item, open_artefact(layout, item, corpus))


def open_old_vectors(layout: Layout) -> StoredVectors | None:
    """The vectors of whatever corpus they were made from; None where there are none, or they are damaged."""
    item = artefact(layout, "vectors")
    manifest = read_undamaged(item)
    return None if manifest is None else _read(item, manifest)


def _read(item: Artefact, manifest: Mapping[str, Any]) -> StoredVectors:
    matrix, hashes = (read_array(item.folder / f"{name}.npy", item.cure) for name in ("matrix", "hashes"))
    return StoredVectors(matrix, hashes, manifest["encoder"], manifest.get("cut", 0))


class VectorWriter:
    """Writes vectors in shards; a killed run resumes after its last shard.

    Rows may come in any order. `finish` replaces the vectors of the workspace.
    """

    def __init__(
        self, layout: Layout, encoder: str, dimension: int, hashes: npt.NDArray[np.uint64], *, made_by: str = ""
    ) -> None:
        self.layout = layout
        self.encoder = encoder
        self.folder = layout.vectors.with_name("vectors.partial")
        key = hashlib.sha256(f"{encoder}\0{made_by}\0{dimension}\0".encode() + hashes.tobytes()).hexdigest()
        note = self.folder / "key"
        shape = (len(hashes), dimension)
        if not note.is_file() or note.read_text() != key:
            shutil.rmtree(self.folder, ignore_errors=True)
            try:
                self._begin(shape, hashes)
                note.write_text(key)  # last: its existence means that the folder is complete
            except BaseException:
                shutil.rmtree(self.folder, ignore_errors=True)
                raise
        self.matrix = np.lib.format.open_memmap(self.folder / "matrix.npy", "r+")
        self.done = np.lib.format.open_memmap(self.folder / "done.npy", "r+")

    def _begin(self, shape: tuple[int, int], hashes: npt.NDArray[np.uint64]) -> None:
        with explain_failed_write(self.folder):
            self.folder.mkdir(parents=True)
            create_array(self.folder / "matrix.npy", np.dtype(np.float32), shape)
            create_array(self.folder / "done.npy", np.dtype(np.bool_), (len(hashes),))
            np.save(self.folder / "hashes.npy", hashes)

    def missing(self) -> Integers:
        """Rows that are not written yet."""
        return np.flatnonzero(~self.done).astype(np.int64)

    def write(self, rows: Integers, vectors: Floats) -> None:
        """Write some rows; they are marked as done once they are on disk."""
        self.matrix[rows] = vectors
        self.matrix.flush()
        self.done[rows] = True
        self.done.flush()

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Replace the workspace's vectors by these."""
        assert self.done.all()
        del self.matrix, self.done
        (self.folder / "done.npy").unlink()
        (self.folder / "key").unlink()
        seal(self.folder, {**manifest, "encoder": self.encoder})
        replace_folder(self.folder, self.layout.vectors)
