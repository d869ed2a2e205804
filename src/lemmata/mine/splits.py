"""Which part of a split each passage and each concept belongs to, decided before anything is mined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lemmata.types import Mask

__all__ = ["PARTS", "Split"]

PARTS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Split:
    """The part of every row and of every concept."""

    part: npt.NDArray[np.int8]  # (n rows,) place in PARTS
    unseen: Mask  # (n rows,) no passage of its document is in training
    concepts: Mapping[str, str] = field(default_factory=dict)  # id: part; one that is not named is in training
    method: str = ""
    seed: int = 0

    def rows(self, part: str) -> Mask:
        """Which rows belong to a part."""
        return np.asarray(self.part == PARTS.index(part), dtype=bool)

    def part_of(self, concept: str) -> str:
        return self.concepts.get(concept, "train")
