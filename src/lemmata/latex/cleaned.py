"""Clean text with its references: without them for encoders, with their names for readers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from lemmata.latex.marks import KEY_MARKS


class Target(NamedTuple):
    """What a label leads to."""

    kind: str  # theorem, section, equation, ...; empty where it is not known
    title: str = ""  # clean text
    number: str = ""  # as printed


class Cleaned(NamedTuple):
    """Clean text without references; the references in order; their names, as texts to insert at offsets."""

    text: str
    references: list[tuple[str, str]]  # (`ref` or `cite` or `name`, key)
    insertions: Sequence[tuple[int, str]] = ()  # ascending
    places: Sequence[tuple[int, int]] = ()  # from `clean`: the offsets between which each reference stands

    def part(self, start: int, stop: int) -> Cleaned:
        """The text between two offsets with its insertions, and all references."""
        first, last = (bisect_left(self.insertions, (offset, "")) for offset in (start, stop + 1))
        insertions = [(offset - start, name) for offset, name in self.insertions[first:last]]
        return Cleaned(self.text[start:stop], self.references, insertions)

    def shown(self) -> tuple[str, list[list[Any]]]:
        """The text with the names of its references, and the spans to remove for the text without them.

        After its begin and end, a span has [begin, end, label or key] of each reference in it.
        """
        pieces: list[str] = []
        spans: list[list[Any]] = []
        at = length = 0
        for offset, insertion in self.insertions:
            pieces.append(self.text[at:offset])
            begin = length = length + offset - at
            names: list[list[Any]] = []
            for number, part in enumerate(KEY_MARKS.split(insertion)):  # other text, key, name, other text, …
                if number % 3 == 1:
                    names.append([length, length, part])
                    continue
                pieces.append(part)
                length += len(part)
                if number % 3 == 2:
                    names[-1][1] = length
            spans.append([begin, length, *names])
            at = offset
        return "".join((*pieces, self.text[at:])), spans


def join(parts: Iterable[Cleaned], separator: str) -> Cleaned:
    """The parts that have text as one text."""
    texts: list[str] = []
    references: list[tuple[str, str]] = []
    insertions: list[tuple[int, str]] = []
    length = 0
    for part in parts:
        references += part.references
        if part.text:
            length += len(separator) if texts else 0
            texts.append(part.text)
            insertions += ((length + offset, name) for offset, name in part.insertions)
            length += len(part.text)
    return Cleaned(separator.join(texts), references, insertions)
