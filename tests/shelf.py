"""A corpus in memory, as miners and splits ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from lemmata.core.types import Document, Integers, Passage


class Shelf:
    """A corpus in memory."""

    def __init__(self, passages: Sequence[Passage], documents: Sequence[Document] = ()) -> None:
        self.held = passages
        self.about = documents or [Document(name) for name in self.document_ids()]

    def __len__(self) -> int:
        return len(self.held)

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        return [self.held[row] for row in rows]

    def documents(self) -> Iterator[Document]:
        return iter(self.about)

    def ids(self) -> list[str]:
        return [passage.id for passage in self.held]

    def document_ids(self) -> list[str]:
        return list(dict.fromkeys(passage.document for passage in self.held))

    def document_numbers(self) -> Integers:
        known = self.document_ids()
        return np.array([known.index(passage.document) for passage in self.held], np.int64)
