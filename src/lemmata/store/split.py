"""The part of the split that each passage and each concept belongs to, and the split on disk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lemmata.errors import WorkspaceError
from lemmata.files import writing
from lemmata.store.layout import Layout, read_manifest, write_manifest
from lemmata.types import Mask

__all__ = ["LEFT_OUT", "PARTS", "Parts", "Split", "open_split", "write_split"]

Parts = npt.NDArray[np.int8]
PARTS = ("train", "validation", "test")
LEFT_OUT = -1  # in no part: a near-duplicate of a held-out passage


@dataclass(frozen=True, slots=True)
class Split:
    """The part of every row and of every concept."""

    part: Parts  # (n rows,) position in PARTS, or LEFT_OUT
    unseen: Mask  # (n rows,) no passage of its document is in training
    concepts: Mapping[str, str] = field(default_factory=dict)  # id: part; all others are in training
    method: str = ""
    seed: int = 0
    notes: tuple[str, ...] = ()  # remarks for the reader, a sentence each
    answers: bool = False  # training links may lead to held-out rows, which are never anchors

    def rows(self, part: str) -> Mask:
        """Mask of the rows of a part."""
        return np.asarray(self.part == PARTS.index(part), dtype=bool)

    def part_of(self, concept: str) -> str:
        return self.concepts.get(concept, "train")

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


def write_split(layout: Layout, split: Split, manifest: Mapping[str, Any]) -> None:
    """Replace the split of a workspace; `manifest["inputs"]` names the corpus that it splits."""
    own = {
        "method": split.method,
        "seed": split.seed,
        "notes": list(split.notes),
        "answers": split.answers,
        "counts": split.counts(),
    }
    with writing(layout.split) as folder:
        folder.mkdir()
        np.save(folder / "part.npy", split.part)
        np.save(folder / "unseen.npy", split.unseen)
        concepts = json.dumps(dict(split.concepts), ensure_ascii=False, indent=0)
        (folder / "concepts.json").write_text(concepts, "utf-8")
        write_manifest(layout.manifest(folder), {**manifest, **own})


def open_split(layout: Layout, inputs: str) -> Split:
    """The split of the corpus with these `inputs`; WorkspaceError where there is none."""
    manifest = read_manifest(layout.manifest(layout.split))
    if manifest is None:
        raise WorkspaceError(f"{layout.root} has no split yet: run 'lemmata split'")
    if manifest.get("inputs") != inputs:
        raise WorkspaceError("the corpus changed since it was split: run 'lemmata split' again")
    return Split(
        part=np.load(layout.split / "part.npy"),
        unseen=np.load(layout.split / "unseen.npy"),
        concepts=json.loads((layout.split / "concepts.json").read_bytes()),
        method=manifest["method"],
        seed=manifest["seed"],
        notes=tuple(manifest["notes"]),
        answers=manifest.get("answers", False),  # missing in older splits
    )
