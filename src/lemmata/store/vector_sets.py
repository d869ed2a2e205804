"""Which sets of vectors a workspace has: one per encoder, side by side, and the one that search uses by default.

A folder per encoder holds its vectors, its neighbour index, its summaries and the fusion that was chosen for it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from lemmata.errors import WorkspaceError
from lemmata.store.layout import Layout, open_manifest, read_manifest, write_manifest

__all__ = [
    "VectorSet",
    "default_encoder",
    "remove_vectors",
    "set_default_encoder",
    "size_on_disk",
    "summaries_on_disk",
    "vector_set",
    "vector_sets",
]


class VectorSet(NamedTuple):
    """The places of the vectors of one encoder, and of what was made from them; none of them need exist."""

    encoder: str  # what `load_encoder` takes
    is_default: bool
    vectors: Path
    ann: Path
    fusion: Path

    @property
    def manifest(self) -> Path:
        return self.vectors / "manifest.json"

    @property
    def summaries(self) -> Path:
        """Short texts about passages, with their vectors."""
        return self.ann.with_name("summaries")

    @property
    def summaries_ann(self) -> Path:
        return self.ann.with_name("summaries_ann")

    @property
    def lengths(self) -> Path:
        """Of the edges of the graph."""
        return self.ann.with_name("lengths")

    @property
    def map(self) -> Path:
        """The places of the passages on a map."""
        return self.ann.with_name("map")

    @property
    def metric(self) -> Path:
        """The learned metric, with its own lengths of edges."""
        return self.ann.with_name("metric")


def default_encoder(layout: Layout) -> str:
    """The encoder that search uses; empty where there are no vectors yet, WorkspaceError where the note is damaged."""
    chosen = open_manifest(layout.default_encoder, "run 'lemmata index --encoder NAME' with the encoder to search with")
    return str(chosen["encoder"]) if chosen else ""


def _default_if_readable(layout: Layout) -> str:
    try:
        return default_encoder(layout)
    except WorkspaceError:
        return ""


def set_default_encoder(layout: Layout, encoder: str) -> None:
    """Let search use the vectors of this encoder."""
    if (read_manifest(layout.default_encoder) or {}).get("encoder") != encoder:
        write_manifest(layout.default_encoder, {"verb": "index", "encoder": encoder})


def vector_set(layout: Layout, encoder: str = "") -> VectorSet | None:
    """The set of an encoder, whether it exists or not; without a name the default one, or None."""
    default = _default_if_readable(layout) if encoder else default_encoder(layout)
    encoder = encoder or default
    return _in_folder(layout.encoder_folder(encoder), encoder, default) if encoder else None


def vector_sets(layout: Layout) -> list[VectorSet]:
    """All sets that exist, complete or not, the default one first."""
    default = _default_if_readable(layout)
    sets = []
    for folder in layout.dense.glob("[!.]*") if layout.dense.is_dir() else ():
        if (folder / "vectors").is_dir():
            manifest = read_manifest(folder / "vectors" / "manifest.json")
            known = default if folder == layout.encoder_folder(default) else folder.name
            sets.append(_in_folder(folder, str(manifest["encoder"]) if manifest else known, default))
    return sorted(sets, key=lambda item: (not item.is_default, item.encoder))


def _in_folder(folder: Path, encoder: str, default: str) -> VectorSet:
    return VectorSet(encoder, encoder == default, folder / "vectors", folder / "ann", folder / "fusion.json")


def size_on_disk(vectors: VectorSet) -> int:
    """Bytes of the vectors of an encoder, and of what is made from them: neighbour index, lengths, metric, map."""
    return _bytes(vectors.vectors, vectors.ann, vectors.lengths, vectors.metric, vectors.map)


def summaries_on_disk(vectors: VectorSet) -> int:
    """Bytes of the summaries of an encoder, with their vectors and neighbour index."""
    return _bytes(vectors.summaries, vectors.summaries_ann)


def _bytes(*places: Path) -> int:
    folders = (folder for folder in places if folder.is_dir())
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())


def remove_vectors(layout: Layout, removed: VectorSet) -> None:
    """Delete a set with what was made from it; call it while holding the workspace."""
    if removed.is_default:
        layout.default_encoder.unlink(missing_ok=True)
    folder = removed.vectors.parent
    retired = folder.with_name(f".{folder.name}.old")  # a half-deleted set must not look like one
    shutil.rmtree(retired, ignore_errors=True)
    folder.replace(retired)
    shutil.rmtree(retired, ignore_errors=True)
