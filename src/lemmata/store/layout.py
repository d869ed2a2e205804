"""The file names of a workspace, and its manifests.

A manifest is written last, so its existence means that its stage is complete.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lemmata.files import lock_file, write_atomically

__all__ = [
    "FORMAT",
    "Layout",
    "read_manifest",
    "read_manifests",
    "transaction",
    "write_manifest",
]

FORMAT = 1  # of everything below; raised when an older workspace can no longer be read


@dataclass(frozen=True, slots=True)
class Layout:
    """The file names of a workspace."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "lemmata.toml"

    @property
    def lock(self) -> Path:
        return self.root / ".lock"

    @property
    def corpus(self) -> Path:
        return self.root / "corpus"

    @property
    def database(self) -> Path:
        return self.corpus / "corpus.sqlite"

    @property
    def vectors(self) -> Path:
        return self.root / "vectors"

    @property
    def encodings(self) -> Path:
        return self.root / "cache" / "encodings.sqlite"

    @property
    def lexical(self) -> Path:
        return self.root / "index" / "lexical"

    @property
    def ann(self) -> Path:
        return self.root / "index" / "ann"

    def ann_graph(self, ann: Path) -> Path:
        return ann / "graph.faiss"

    @property
    def fusion(self) -> Path:
        return self.root / "index" / "fusion.json"

    @property
    def graph_records(self) -> Path:
        return self.root / "graph" / "records.sqlite"

    @property
    def graph(self) -> Path:
        return self.root / "graph" / "compressed"

    @property
    def embedding(self) -> Path:
        return self.root / "graph" / "embedding"

    @property
    def training_sets(self) -> Path:
        return self.root / "training"

    def training(self, name: str) -> Path:
        return self.training_sets / name

    def training_file(self, name: str) -> Path:
        return self.training(name) / "data.parquet"

    @property
    def models(self) -> Path:
        return self.root / "models"

    def model(self, name: str) -> Path:
        return self.models / name

    def model_work(self, name: str) -> Path:
        return self.models / f".{name}"

    @property
    def split(self) -> Path:
        return self.root / "split"

    @property
    def answers(self) -> Path:
        return self.root / "cache" / "answers.sqlite"

    def manifest(self, artefact: Path) -> Path:
        return artefact / "manifest.json"

    def hold(self) -> contextlib.AbstractContextManager[Any]:
        """An exclusive lock on the workspace that dies with its process; WorkspaceError when another has it."""
        return contextlib.closing(lock_file(self.lock))


# ---------------------------------------------------------------- manifests


def write_manifest(path: Path, content: Mapping[str, Any]) -> None:
    """The last act of a stage."""
    data = json.dumps({"format": FORMAT, **content}, indent=1, sort_keys=True, ensure_ascii=False)
    write_atomically(path, data.encode() + b"\n")


def read_manifest(path: Path) -> dict[str, Any] | None:
    """What a complete stage wrote, or None where it is not complete."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        return None  # a damaged manifest is no manifest: the stage runs again
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return None
    return content


def read_manifests(folder: Path) -> dict[str, dict[str, Any]]:
    """The manifest of every complete artefact in a folder, by name."""
    artefacts = sorted(folder.glob("[!.]*")) if folder.is_dir() else []
    manifests = {artefact.name: read_manifest(artefact / "manifest.json") for artefact in artefacts}
    return {name: manifest for name, manifest in manifests.items() if manifest is not None}


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
