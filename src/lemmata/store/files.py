"""The file names of a workspace, and how whole files and folders get there: under another name first.

A manifest is written last, so its existence means that its stage is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lemmata.errors import WorkspaceError

__all__ = [
    "FORMAT",
    "Layout",
    "hold",
    "read_manifest",
    "replace_folder",
    "sha256_of",
    "transaction",
    "write_atomically",
    "write_manifest",
]

FORMAT = 1  # of everything below; raised when an older workspace can not be read any more


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

    def training(self, name: str) -> Path:
        return self.root / "training" / name

    def training_file(self, name: str) -> Path:
        return self.training(name) / "data.parquet"

    @property
    def models(self) -> Path:
        return self.root / "models"

    def model(self, name: str) -> Path:
        return self.models / name

    def model_exported(self, name: str) -> Path:
        return self.model(name) / "onnx"

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
        return contextlib.closing(hold(self.lock))


# ---------------------------------------------------------------- whole files


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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


def sha256_of(files: Iterable[Path]) -> str:
    """Of the contents of files, one after the other."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while part := stream.read(2**20):
                digest.update(part)
    return digest.hexdigest()


def replace_folder(new: Path, old: Path) -> None:
    """Put a finished folder where another may be."""
    old.parent.mkdir(parents=True, exist_ok=True)
    retired = old.with_name(f".{old.name}.old")
    shutil.rmtree(retired, ignore_errors=True)
    if old.exists():
        old.replace(retired)
    new.replace(old)
    shutil.rmtree(retired, ignore_errors=True)


def hold(path: Path) -> Any:
    """An exclusive lock that dies with its process."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("w")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        stream.close()
        raise WorkspaceError(f"another lemmata is writing to {path.parent}; try again when it is done") from error
    return stream


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
