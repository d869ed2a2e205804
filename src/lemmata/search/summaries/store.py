"""Short texts about passages (summaries, questions, key words) beside the vectors of an encoder, read memory-mapped.

The texts of a passage lie together, in the order of the corpus. They are copied from training sets and files, so search
does not depend on these.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.artefacts import Artefact, lost_vectors, read_artefact, read_undamaged, summary_index
from lemmata.core.errors import WorkspaceError
from lemmata.core.files import read_array, read_checked_array, retire, write_checked_array
from lemmata.core.types import Floats, Integers
from lemmata.core.workspace import Workspace, read_manifest, vector_set, vector_sets, vectors_of


class Summary(NamedTuple):
    """A short text about a passage."""

    row: int  # of the passage
    text: str
    source: int  # position in the list of sources: training sets and files


class StoredSummaries(NamedTuple):
    """The summaries of one encoder, memory-mapped, by row."""

    matrix: Floats  # (m, dim)
    rows: Integers  # (m,) of their passages, ascending
    hashes: npt.NDArray[np.uint64]  # (m,) of their texts
    ends: Integers  # (m,) where each text ends in `content`, in bytes
    content: npt.NDArray[np.uint8]  # all texts in UTF-8
    source: npt.NDArray[np.uint16]  # (m,) position in `sources`
    sources: Sequence[Mapping[str, Any]]  # name, author and sha256 of each
    made_by: str  # the encoder's own name

    def texts(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        """The texts of some summaries."""
        return _texts(self.ends, self.content, start, stop)

    def of_row(self, row: int) -> list[dict[str, str]]:
        """Text, author and source of each summary of a passage."""
        start, stop = np.searchsorted(self.rows, [row, row + 1]).tolist()
        described = []
        for place, text in enumerate(self.texts(start, stop), start):
            source = self.sources[int(self.source[place])]
            described.append({"text": text, "author": str(source["author"]), "source": str(source["name"])})
        return described


def open_summaries(workspace: Workspace, corpus: str | None = None, encoder: str = "") -> StoredSummaries | None:
    """The summaries of an encoder, by default of the one that search uses; None where none were chosen.

    WorkspaceError for damaged ones, and for those of another state of the corpus.
    """
    vectors = vector_set(workspace, encoder)
    if vectors is None or not vectors.summaries.is_dir():
        return None
    item = summary_index(vectors)
    return read_artefact(workspace, item, corpus, lambda manifest: _read(item, manifest))


def open_old_summaries(workspace: Workspace, encoder: str) -> StoredSummaries | None:
    """The summaries of whatever corpus they were made for; None where there are none, or some are damaged or lost."""
    item = summary_index(vectors_of(workspace, encoder))
    manifest = read_undamaged(item)
    return None if manifest is None or lost_vectors(item, manifest) else _read(item, manifest)


def summaries_manifest(workspace: Workspace, encoder: str = "") -> dict[str, Any] | None:
    """What is known about the summaries of an encoder, by default of the one that search uses; None without any."""
    vectors = vector_set(workspace, encoder)
    return read_manifest(vectors.summaries / "manifest.json") if vectors else None


def drop_summaries(workspace: Workspace, encoder: str = "") -> list[str]:
    """Delete the summaries of an encoder, or of all; returns which had any. Call it while holding the workspace."""
    dropped = []
    for vectors in vector_sets(workspace):
        if vectors.summaries.is_dir() and encoder in ("", vectors.encoder):
            dropped.append(vectors.encoder)
            retire(vectors.summaries)
            for folder in (vectors.summaries_ann, vectors.summaries.with_name("summaries.partial")):
                shutil.rmtree(folder, ignore_errors=True)
    return dropped


# For which text of a passage each summary was first taken, as an id may belong to another text later: hashes of source,
# id and summary to those of the texts. Also of summaries that are left out, as their passage is gone.
Bindings = dict[int, int]


def read_bindings(workspace: Workspace) -> Bindings:
    """Those of the workspace; none where there are none yet."""
    path, cure = workspace.summary_bindings, "delete it and run 'lemmata index' again"
    if not path.exists():
        return {}
    return dict(zip(*read_checked_array(path, cure).reshape(2, -1).tolist(), strict=True))


def write_bindings(workspace: Workspace, bindings: Bindings) -> None:
    """Replace those of the workspace. Call it while holding it."""
    pairs = np.array(sorted(bindings.items()), np.uint64).reshape(-1, 2)
    write_checked_array(workspace.summary_bindings, pairs.T.ravel())  # all keys in order, then what they belong to


def write_texts(folder: Path, summaries: Sequence[Summary]) -> None:
    """Write everything but the vectors into a folder, such as the one that a VectorWriter is filling."""
    encoded = [summary.text.encode() for summary in summaries]
    np.save(folder / "rows.npy", np.array([summary.row for summary in summaries], np.int64))
    np.save(folder / "source.npy", np.array([summary.source for summary in summaries], np.uint16))
    np.save(folder / "ends.npy", np.cumsum([len(text) for text in encoded], dtype=np.int64))
    np.save(folder / "content.npy", np.frombuffer(b"".join(encoded), np.uint8))


def read_texts(folder: Path, cure: str) -> list[Summary]:
    """What `write_texts` wrote; none where there is no such folder."""
    if not folder.is_dir():
        return []
    rows, source, ends, content = (
        read_array(folder / f"{name}.npy", cure) for name in ("rows", "source", "ends", "content")
    )
    return list(map(Summary, rows.tolist(), _texts(ends, content), source.tolist()))


def _texts(ends: Integers, content: npt.NDArray[np.uint8], start: int = 0, stop: int | None = None) -> Iterator[str]:
    for place in range(*slice(start, stop).indices(len(ends))):
        begin = int(ends[place - 1]) if place else 0
        yield content[begin : int(ends[place])].tobytes().decode()


def _read(item: Artefact, manifest: Mapping[str, Any]) -> StoredSummaries:
    names = StoredSummaries._fields[:6]  # the arrays
    arrays = {name: read_array(item.folder / f"{name}.npy", item.cure) for name in names}
    if len({len(array) for name, array in arrays.items() if name != "content"}) != 1:
        raise WorkspaceError(f"the files of {item.folder} do not fit together: {item.repair}")
    return StoredSummaries(**arrays, sources=manifest["sources"], made_by=manifest["made_by"])
