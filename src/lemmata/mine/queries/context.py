"""What stands around a passage, for a language model that writes about it: section, definitions and neighbours.

Everything comes from the part of the passage, so a model that reads a training passage sees no held-out text.
"""

from __future__ import annotations

from collections.abc import Iterator

from lemmata.core.types import Passage
from lemmata.mine.material import TrainingView

_CHARACTERS = 300  # of each text around the passage
_LOOK_BACK = 12  # passages of the same section that may define its symbols
_MOST = 2  # definitions, and references
_DEFINING = ("definition", "notation", "situation", "convention", "construction")


def surroundings(view: TrainingView, row: int, passage: Passage) -> str:
    """A line for the place of a passage, and one for each text around it; empty where there is nothing."""
    document = view.documents.get(passage.document)
    place = ", ".join(filter(None, (document.title if document else "", passage.section)))
    lines = [f"From: {place}"] if place else []
    return "\n".join([*lines, *_texts(view, row, passage)])


def _texts(view: TrainingView, row: int, passage: Passage) -> Iterator[str]:
    """Definitions before the passage, the passages before and after it, and those that it refers to, each once."""
    first = max(0, row - _LOOK_BACK)
    rows = [other_row for other_row in range(first, row + 2) if other_row != row and _is_near(view, other_row, row)]
    around = dict(zip(rows, view.passages(rows), strict=True))
    defining = [
        other_row
        for other_row, other in around.items()
        if other_row < row and other.section == passage.section and other.kind in _DEFINING
    ]
    targets = [view.row_of.get(link.target or "", row) for link in passage.links]
    used = [target for target in dict.fromkeys(targets) if target != row][:_MOST]
    shown = {row}
    for name, chosen in (
        ("Defined before", defining[-_MOST:]),
        ("Before it", [row - 1]),
        ("After it", [row + 1]),
        ("It refers to", used),
    ):
        for other_row in chosen:
            if other_row in shown or not (other_row in around or other_row in used):
                continue
            shown.add(other_row)
            other = around[other_row] if other_row in around else view.passages([other_row])[0]
            text = other.text if len(other.text) <= _CHARACTERS else other.text[:_CHARACTERS] + " …"
            yield f"{name}: {other.kind}{f' ({other.title})' if other.title else ''}: {' '.join(text.split())}"


def _is_near(view: TrainingView, near: int, row: int) -> bool:
    """Whether a row is of the same document and of the same part."""
    numbers = view.document_numbers
    return near < len(numbers) and bool(view.allowed[near]) and bool(numbers[near] == numbers[row])
