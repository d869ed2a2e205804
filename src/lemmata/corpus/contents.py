"""The table of contents of a document: its headings as a tree, and the chapter that each heading stands in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lemmata.core.types import CONTENTS, Document

CHAPTER = 1  # level
LEAST_CHAPTERS = 3  # of a book: one for each part of a split


class Heading(NamedTuple):
    """A heading as the reader stored it."""

    level: int  # 0 for a part, 1 for a chapter, 2 for a section, …
    number: str  # as printed; empty where it has none
    title: str


def headings(document: Document) -> list[Heading]:
    """The headings of a document, in order; empty where its reader stored none."""
    stored = document.metadata.get(CONTENTS)
    return [Heading(*heading) for heading in stored] if isinstance(stored, list) else []


def is_book(contents: Sequence[Heading]) -> bool:
    """Whether a document is one of chapters, each of which may count as a document."""
    return sum(heading.level == CHAPTER for heading in contents) >= LEAST_CHAPTERS


def chapter_places(contents: Sequence[Heading]) -> list[int]:
    """For each heading the place of the chapter that it stands in, or its own; -1 for none.

    Chapters are the headings of the highest level below parts: the sections of a paper.
    """
    level = min((heading.level for heading in contents if heading.level > 0), default=0)
    places: list[int] = []
    current = -1
    for place, heading in enumerate(contents):
        if heading.level == level:
            current = place
        elif heading.level < level:
            current = -1
        places.append(current)
    return places
