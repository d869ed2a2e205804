"""What a search may be restricted to: one record for Python, the command line, REST and agents."""

from __future__ import annotations

import datetime
import re
from dataclasses import asdict, dataclass, replace
from operator import eq
from typing import TYPE_CHECKING, Annotated

from lemmata.core.errors import LemmataError, suggest
from lemmata.core.records import Described, Member, schema_of
from lemmata.core.words import fold, is_author

if TYPE_CHECKING:
    from lemmata.core.types import Mask
    from lemmata.corpus.corpus import Corpus

LONGEST_NAME = 2000  # characters of an id or another name
Name = Annotated[str, Described(most=LONGEST_NAME)]
Names = Annotated[tuple[Name, ...], Described(most=100)]
_YEAR_FIRST = re.compile(r"\d{4}(?![/.])")
_ISO_DATE = re.compile(r"\d{4}(-\d\d(-\d\d(T.+)?)?)?")
Date = Annotated[str, Described(most=40)]


@dataclass(frozen=True, slots=True)
class Filter:
    """Restricts a search; an empty field allows all, several values of a field are alternatives.

    A field that stands here is an option of the command line, a field of queries (`kind:theorem`), a key of a request
    and an argument of a tool; the rows that it selects are those of `Corpus.select`.
    """

    kinds: Names = ()  # Only this kind: theorem, definition, chunk, log, …
    documents: Names = ()  # Only this document, by its id.
    chapters: Names = ()  # Only this chapter of a book or section of a paper, by its number or title.
    sections: Names = ()  # Only under a heading that has these words.
    authors: Names = ()  # Only documents of this author, by the surname or more of the name.
    categories: Names = ()  # Only this category or one below it: math includes math.CO.
    since: Date = ""  # Only from this date on (2026-03-01, 1.3.2026), or from the start of this year or month.
    until: Date = ""  # Only up to this date.
    locations: Names = ()  # Only logs about this location of a plant or one below it.
    where: Annotated[tuple[tuple[str, Name], ...], Described(most=20)] = ()  # Only with this value in a column.
    ids: Annotated[tuple[Name, ...], Described(most=5000)] = ()  # Only this passage; unknown ids are ignored.


def singular(member: Member) -> str:
    """The name of one value of a field, on the command line and in a query: kind for kinds."""
    if schema_of(member.hint)["type"] != "array":
        return member.name
    return member.name.replace("ies", "y").removesuffix("s")


def allowed_rows(corpus: Corpus, chosen: Filter | None) -> Mask | None:
    """Which rows a filter allows, None for all; LemmataError for names that the corpus does not have."""
    from lemmata.core.types import kind_meant
    from lemmata.plant.names import location_meant

    if chosen is None or chosen == Filter():
        return None
    since, until = read_period(chosen.since, chosen.until)
    chosen = replace(chosen, since=since, until=until)
    if chosen.kinds:
        known = corpus.counts()["passages"]
        chosen = replace(chosen, kinds=tuple(kind_meant(kind, known) for kind in chosen.kinds))
    if chosen.locations:
        places = corpus.locations()
        names = (name.removeprefix("location:") for name in chosen.locations)
        chosen = replace(chosen, locations=tuple(location_meant(name, places) for name in names))
    mask = corpus.select(**asdict(chosen))
    lists = (values for name, values in asdict(chosen).items() if isinstance(values, tuple) and name != "ids")
    if not mask.any() or any(len(values) > 1 for values in lists):
        _check_names(corpus, chosen)
    return mask


def _check_names(corpus: Corpus, chosen: Filter) -> None:
    """Refuse names of a filter that the corpus does not have, with the closest that it has."""
    for what, names, list_known, is_meant in (
        ("kind", chosen.kinds, lambda: [*corpus.counts()["passages"]], eq),
        ("document", chosen.documents, corpus.document_ids, eq),
        ("category", chosen.categories, lambda: _categories(corpus), eq),
        ("column", tuple(column for column, _ in chosen.where), corpus.columns, eq),
        ("chapter", chosen.chapters, lambda: _chapters(corpus), _is_same_word),
        ("author", chosen.authors, corpus.authors, is_author),
        ("section", chosen.sections, corpus.section_titles, lambda name, title: fold(name) in fold(title)),
        ("location", chosen.locations, corpus.locations, _is_same_word),
    ):
        known = list_known() if names else []
        for name in names:
            if name not in known and not any(is_meant(name, each) for each in known):
                raise LemmataError(f"there is no {what} {name!r} in the corpus{suggest(name, known)}")
    for column, value in chosen.where:
        values = corpus.values(column)
        if value.casefold() not in values:
            raise LemmataError(f"the column {column!r} has no value {value!r}{suggest(value.casefold(), values)}")


def _is_same_word(name: str, known: str) -> bool:
    return name.casefold() == known.casefold()


def _chapters(corpus: Corpus) -> list[str]:
    """The titles and the numbers of all chapters."""
    names = dict.fromkeys(corpus.chapter_names())
    return list(filter(None, [*(title for _, title in names), *(number for number, _ in names)]))


def _categories(corpus: Corpus) -> list[str]:
    """All categories with those above them: math.CO and math, as `Corpus.select` understands them."""
    categories = {category for document in corpus.documents() for category in document.categories}
    ends = {(category, match.start()) for category in categories for match in re.finditer(r"[.:]", category)}
    return sorted(categories | {category[:end] for category, end in ends})


def read_period(since: str, until: str) -> tuple[str, str]:
    """Both dates in ISO form, "" where one is empty; refuses what is no date, and a span that nothing lies in."""
    since, until = (_read_date(date) if date else "" for date in (since, until))
    shorter = min(len(since), len(until))
    if since[:shorter] > until[:shorter]:
        raise LemmataError(f"nothing is both since {since} and until {until}: change one of them")
    return since, until


def _read_date(date: str) -> str:
    """A year, month, date or time in ISO form; refuses what is none, and what may be two."""
    from lemmata.ingest.dates import read_date

    iso = date if _YEAR_FIRST.match(date) else read_date(date) or date
    try:
        if not _ISO_DATE.fullmatch(iso):  # dates are compared as texts, which is wrong for 20240131 and 2024-W05
            raise ValueError
        datetime.datetime.fromisoformat(f"{iso}-01-01"[:10] if len(iso) in (4, 7) else iso)
    except ValueError:
        raise LemmataError(f"{date!r} is no date: write YYYY, YYYY-MM or YYYY-MM-DD") from None
    return iso
