"""One vector per row of the corpus, written in shards and read memory-mapped."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.errors import WorkspaceError
from lemmata.files import replace_folder
from lemmata.store.layout import Layout, read_manifest, write_manifest
from lemmata.types import Floats, Integers

__all__ = ["StoredVectors", "VectorWriter", "open_vectors"]


class StoredVectors(NamedTuple):
    """One vector per row of the corpus, memory-mapped, and the encoder that made them."""

    matrix: Floats  # (n, dim)
    hashes: npt.NDArray[np.uint64]  # (n,) of the texts that were encoded
    encoder: str  # what `load_encoder` takes
    cut: int = 0  # length that its vectors were truncated to; 0: full length


def open_vectors(layout: Layout) -> StoredVectors:
    """The vectors of a workspace; WorkspaceError where they are not complete."""
    manifest = read_manifest(layout.manifest(layout.vectors))
    if manifest is None:
        raise WorkspaceError("there are no vectors yet: run 'lemmata index'")
    matrix = np.load(layout.vectors / "matrix.npy", mmap_mode="r")
    hashes = np.load(layout.vectors / "hashes.npy", mmap_mode="r")
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
            self.folder.mkdir(parents=True)
            np.lib.format.open_memmap(self.folder / "matrix.npy", "w+", np.float32, shape).flush()
            np.lib.format.open_memmap(self.folder / "done.npy", "w+", np.bool_, (len(hashes),)).flush()
            np.save(self.folder / "hashes.npy", hashes)
            note.write_text(key)  # last: its existence means that the folder is complete
        self.matrix = np.lib.format.open_memmap(self.folder / "matrix.npy", "r+")
        self.done = np.lib.format.open_memmap(self.folder / "done.npy", "r+")

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
        write_manifest(self.layout.manifest(self.folder), {**manifest, "encoder": self.encoder})
        replace_folder(self.folder, self.layout.vectors)
