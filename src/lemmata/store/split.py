"""Which part of a split each passage and each concept belongs to, and the split of a workspace on disk."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lemmata.errors import WorkspaceError
from lemmata.files import replace_folder
from lemmata.store.layout import Layout, read_manifest, write_manifest
from lemmata.types import Mask

__all__ = ["LEFT_OUT", "PARTS", "Parts", "Split", "open_split", "write_split"]

Parts = npt.NDArray[np.int8]
PARTS = ("train", "validation", "test")
LEFT_OUT = -1  # in no part: too much like a passage that is held out


@dataclass(frozen=True, slots=True)
class Split:
    """The part of every row and of every concept."""

    part: Parts  # (n rows,) place in PARTS, or LEFT_OUT
    unseen: Mask  # (n rows,) no passage of its document is in training
    concepts: Mapping[str, str] = field(default_factory=dict)  # id: part; one that is not named is in training
    method: str = ""
    seed: int = 0
    notes: tuple[str, ...] = ()  # what a reader of the split should know, a sentence each
    answers: bool = False  # links of training may lead to rows outside it; those rows never ask

    def rows(self, part: str) -> Mask:
        """Which rows belong to a part."""
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
    """Put a split in place of the one before; `manifest` says under `inputs` which corpus it parts."""
    folder = layout.split.with_name(f".{layout.split.name}.{os.getpid()}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    np.save(folder / "part.npy", split.part)
    np.save(folder / "unseen.npy", split.unseen)
    (folder / "concepts.json").write_text(json.dumps(dict(split.concepts), ensure_ascii=False, indent=0), "utf-8")
    own = {
        "method": split.method,
        "seed": split.seed,
        "notes": list(split.notes),
        "answers": split.answers,
        "counts": split.counts(),
    }
    write_manifest(layout.manifest(folder), {**manifest, **own})
    replace_folder(folder, layout.split)


def open_split(layout: Layout, inputs: str) -> Split:
    """The split of the corpus with these `inputs`; WorkspaceError where there is none."""
    manifest = read_manifest(layout.manifest(layout.split))
    if manifest is None:
        raise WorkspaceError(f"{layout.root} is not split yet: run 'lemmata split'")
    if manifest.get("inputs") != inputs:
        raise WorkspaceError("the corpus changed since it was split: run 'lemmata split' again")
    return Split(
        part=np.load(layout.split / "part.npy"),
        unseen=np.load(layout.split / "unseen.npy"),
        concepts=json.loads((layout.split / "concepts.json").read_bytes()),
        method=manifest["method"],
        seed=manifest["seed"],
        notes=tuple(manifest["notes"]),
        answers=manifest.get("answers", False),  # splits of before do not say
    )
