"""Context expansion: the text of a log with the description of each location after the code that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from lemmata.errors import InputError
from lemmata.plant.names import tokenise

__all__ = ["Span", "expand"]


class Span(NamedTuple):
    """A part of a text, and the location that it names."""

    start: int
    end: int  # exclusive
    location: str  # id


def expand(text: str, mentions: Iterable[Span], describe: Callable[[str], str]) -> str:
    """`P203 kavitiert` to `P203 (Rücklaufpumpe P203) kavitiert`, for use at encoding time.

    Each location is described once, after its first mention. Nothing is added for an empty span or description,
    for a description whose words are in the mention already, nor inside a longer mention. Raises InputError for a
    span outside the text.
    """
    spans = sorted({span for span in mentions if span.start != span.end}, key=lambda span: (span.start, -span.end))
    outside = [span for span in spans if not 0 <= span.start < span.end <= len(text)]
    if outside:
        raise InputError(f"{outside[0].start} to {outside[0].end} is not a part of a text of {len(text)} characters")
    added: dict[str, tuple[int, str]] = {}  # by location
    for span in spans:
        inside_another = any(other.start < span.end < other.end for other in spans)
        if span.location in added or inside_another:
            continue
        description = describe(span.location).strip()
        mentioned = {token.word for token in tokenise(text[span.start : span.end])}
        if not {token.word for token in tokenise(description)} <= mentioned:
            added[span.location] = (span.end, f" ({description})")
    parts = sorted(added.values(), key=lambda part: part[0])
    for end, description in reversed(parts):
        text = text[:end] + description + text[end:]
    return text
