"""The part of the split that each passage and each concept belongs to, and the split on disk."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lemmata.core.artefacts import Artefact, artefact, check_files, making, open_artefact
from lemmata.core.files import read_array, read_json
from lemmata.core.types import Mask
from lemmata.core.workspace import Workspace, open_manifest

Parts = npt.NDArray[np.int8]
Keys = npt.NDArray[np.uint64]
PARTS = ("train", "validation", "test")
LEFT_OUT = -1  # in no part: a near-duplicate of a held-out passage


def id_keys(ids: Iterable[str]) -> Keys:
    """A hash of each id: what a split and a model remember of passages."""
    digests = (hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest() for name in ids)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def _no_keys() -> Keys:
    return np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Split:
    """The part of every row and of every concept."""

    part: Parts  # (n rows,) position in PARTS, or LEFT_OUT
    unseen: Mask  # (n rows,) no passage of its document is in training
    concepts: Mapping[str, str] = field(default_factory=dict)  # id: part; others are in training
    method: str = ""
    seed: int = 0
    notes: tuple[str, ...] = ()  # remarks for the reader, a sentence each
    answers: bool = False  # training links may lead to held-out rows, which are never anchors
    passages: Keys = field(default_factory=_no_keys)  # (n rows,) of their ids
    documents: Keys = field(default_factory=_no_keys)  # (n rows,) of the ids of their documents
    since: str = ""  # by time: the dates where validation and test begin

    def rows(self, part: str) -> Mask:
        """Mask of the rows of a part."""
        return np.asarray(self.part == PARTS.index(part), dtype=bool)

    def part_of(self, concept: str) -> str:
        return self.concepts.get(concept, "train")

    def digest(self) -> str:
        """Equal for splits that put the same passages and concepts into the same parts."""
        order = np.argsort(self.passages)
        held_out = {name: part for name, part in self.concepts.items() if part != PARTS[0]}
        content = hashlib.blake2b(digest_size=16)
        content.update(self.passages[order].tobytes())
        content.update(self.part[order].tobytes())
        content.update(json.dumps([held_out, self.answers], sort_keys=True).encode())
        return content.hexdigest()

    def counts(self) -> dict[str, dict[str, int]]:
        """Rows of each part, those of unseen documents among them, held-out concepts, and rows in no part."""
        held_out = Counter(self.concepts.values())
        table = {
            name: {
                "rows": int(self.rows(name).sum()),
                "unseen": int((self.rows(name) & self.unseen).sum()),
                "concepts": held_out[name],
            }
            for name in PARTS[1:]
        }
        train = {"rows": int(self.rows("train").sum())}
        return {"train": train, **table, "left_out": {"rows": int((self.part == LEFT_OUT).sum())}}


_ARRAYS = ("part", "unseen", "passages", "documents")  # files of the split
_FACTS = ("method", "seed", "answers", "since")  # in its manifest


def write_split(workspace: Workspace, split: Split, manifest: Mapping[str, Any]) -> None:
    """Replace the split of a workspace; `manifest["inputs"]` names the corpus that it splits."""
    facts = {name: getattr(split, name) for name in _FACTS}
    facts |= {"notes": list(split.notes), "digest": split.digest(), "counts": split.counts()}
    with making(artefact(workspace, "split"), {**manifest, **facts}) as folder:
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(split, name))
        concepts = json.dumps(dict(split.concepts), ensure_ascii=False, indent=0)
        (folder / "concepts.json").write_text(concepts, "utf-8")


def open_split(workspace: Workspace, inputs: str) -> Split:
    """The split of the corpus with these `inputs`; WorkspaceError where there is none."""
    item = artefact(workspace, "split")
    return _read_split(item, open_artefact(workspace, item, inputs))


def earlier_split(workspace: Workspace, options: Mapping[str, Any]) -> Split | None:
    """The stored split, if it was made with these options; the corpus may have changed since.

    WorkspaceError for a damaged one: without it, a new split could move passages.
    """
    item = artefact(workspace, "split")
    manifest = open_manifest(item.manifest, item.repair)
    if manifest is None or {**manifest["options"], "answers": options["answers"]} != options:
        return None
    check_files(item, manifest)
    return _read_split(item, manifest)


def _read_split(item: Artefact, manifest: Mapping[str, Any]) -> Split:
    fields: dict[str, Any] = {name: manifest[name] for name in _FACTS}
    fields |= {name: np.array(read_array(item.folder / f"{name}.npy", item.repair)) for name in _ARRAYS}
    return Split(
        **fields,
        concepts=read_json(item.folder / "concepts.json", item.repair),
        notes=tuple(manifest["notes"]),
    )
