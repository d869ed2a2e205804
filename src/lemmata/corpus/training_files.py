"""Training sets as they are stored: which there are, and their records in Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lemmata.core.artefacts import check_files, training_set
from lemmata.core.errors import InputError, LeakageError, WorkspaceError, require
from lemmata.core.files import fingerprint
from lemmata.core.workspace import Workspace, open_manifest, read_manifest, read_manifests

QUESTIONS = "questions"  # the set of questions about the test part, and the task that they are

# ---------------------------------------------------------------- list and read


def sets(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """The manifest of every mined set, by name."""
    return read_manifests(workspace.training_folder)


def set_file(workspace: Workspace, name: str, *, evaluating: bool = False) -> Path:
    """The Parquet file of a set; WorkspaceError where there is no such set, or a damaged one.

    LeakageError for one that is for evaluation only, unless `evaluating`: whoever trains, mines, exports or searches
    with a set opens it here.
    """
    path = workspace.training_file(name)
    if not path.exists():
        names = ", ".join(sets(workspace)) or "none yet"
        raise WorkspaceError(f"there is no training set {name!r} (there are: {names})")
    item = training_set(workspace, name)
    if (manifest := open_manifest(item.manifest, item.cure)) is not None:  # there is none while the set is written
        check_files(item, manifest)
        if manifest.get("evaluation_only") and not evaluating:
            raise LeakageError(
                f"the set {name!r} is for evaluation only, as it asks about the test part: 'lemmata evaluate --task"
                f" {name}' uses it, and nothing else does"
            )
    return path


def evaluation_sets(workspace: Workspace) -> list[str]:
    """The names of the sets that ask about the test part."""
    return [name for name, manifest in sets(workspace).items() if manifest.get("evaluation_only")]


def read_questions(workspace: Workspace, name: str) -> dict[str, list[str]]:
    """The questions of a set for evaluation, each with the ids of the passages that it is about."""
    questions: dict[str, list[str]] = {}
    for batch in read_batches(set_file(workspace, name, evaluating=True), BATCH, ["anchor", "positive_id"]):
        for record in batch:
            questions.setdefault(record["anchor"], []).append(record["positive_id"])
    return questions


def split_key(workspace: Workspace) -> str:
    """A hash of the split; it changes when the corpus is split in another way."""
    manifest = read_manifest(workspace.manifest(workspace.split_folder))
    return str(manifest["digest"]) if manifest else fingerprint(None)


BATCH = 2000  # records, also per row group


# ---------------------------------------------------------------- reading


def text_columns(path: Path) -> list[str]:
    """The columns of a training file that a trainer encodes: anchor, positive, negative_1, …"""
    names = _open_parquet(path).schema_arrow.names
    return [name for name in names if name in ("anchor", "positive") or name.removeprefix("negative_").isdigit()]


def read_training(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a Parquet training file in order, a few thousand in memory at a time."""
    for batch in read_batches(path, BATCH):
        yield from batch


def read_batches(path: Path, size: int, columns: Sequence[str] | None = None) -> Iterator[list[dict[str, Any]]]:
    """Records in lists of `size`, the last one shorter; only some `columns`, where given."""
    rows: list[dict[str, Any]] = []
    for batch in _open_parquet(path).iter_batches(batch_size=max(size, 1), columns=columns and list(columns)):
        rows += batch.to_pylist()
        while len(rows) >= size:
            yield rows[:size]
            rows = rows[size:]
    if rows:
        yield rows


def _open_parquet(path: Path) -> Any:
    parquet = require("pyarrow.parquet", "parquet")
    arrow_error = require("pyarrow", "parquet").ArrowException
    try:
        file = parquet.ParquetFile(path)
    except (OSError, arrow_error) as error:
        raise InputError(f"not a Parquet file ({error}): mine the training set again", file=str(path)) from error
    missing = {"anchor", "positive"} - set(file.schema_arrow.names)
    if missing:
        raise InputError(f"not a training set: it has no column {min(missing)!r}", file=str(path))
    return file
