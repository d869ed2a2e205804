"""What a search may be restricted to: one record for Python, the command line, REST and agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from lemmata.core.records import Described

LONGEST_NAME = 2000  # characters of an id or another name
Name = Annotated[str, Described(most=LONGEST_NAME)]
Names = Annotated[tuple[Name, ...], Described(most=100)]
Date = Annotated[str, Described(most=40)]


@dataclass(frozen=True, slots=True)
class Filter:
    """Restricts a search; an empty field allows all, several values of a field are alternatives.

    A field that stands here is an option of the command line, a key of a request and an argument of a tool; the rows
    that it selects are those of `Corpus.select`.
    """

    kinds: Names = ()  # Only this kind: theorem, definition, chunk, log, …
    documents: Names = ()  # Only this document, by its id.
    categories: Names = ()  # Only this category or one below it: math includes math.CO.
    since: Date = ""  # Only from this ISO date on, or from the start of this year or month.
    until: Date = ""  # Only up to this ISO date.
    locations: Names = ()  # Only logs about this location of a plant or one below it.
    where: Annotated[tuple[tuple[str, Name], ...], Described(most=20)] = ()  # Only with this value in a column.
    ids: Annotated[tuple[Name, ...], Described(most=5000)] = ()  # Only this passage; unknown ids are ignored.
