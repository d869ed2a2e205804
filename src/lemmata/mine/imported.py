"""Queries that somebody else wrote, each with the passage it belongs to: those of the training part become pairs.

Where a query comes from is not known here, so nothing about it is believed: whose passage is held out, or unknown,
is left out and counted.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lemmata.archives import open_plain
from lemmata.errors import InputError
from lemmata.types import Pair

__all__ = ["ImportReport", "ImportedQuery", "imported_pairs", "judged_queries", "read_imported"]

# the first that an object has; a file with `passage` may have an `id` of the query as well
PASSAGE = ("passage", "passage_id", "id", "_id")
TEXT = ("query", "text")
CLOSING = "\"'”’»)]}"  # may stand behind the mark that ends a sentence


class ImportedQuery(NamedTuple):
    """A query as it stood in a file."""

    passage: str  # id
    text: str
    style: str = ""
    place: str = ""  # file and line, or file and id of the query


@dataclass(slots=True)
class ImportReport:
    """What became of the queries; each is counted once, under the first reason to leave it out."""

    read: int = 0
    taken: int = 0
    unknown: int = 0  # of passages that the corpus does not have
    first_unknown: str = ""
    elsewhere: Counter[str] = field(default_factory=Counter)  # of passages outside training, by part
    empty: int = 0
    cut: int = 0  # with `whole`

    def left_out(self) -> dict[str, int]:
        """How many for each reason; nothing for a reason that did not occur."""
        causes = {
            **{f"of {part}": number for part, number in sorted(self.elsewhere.items())},
            "of no passage": self.unknown,
            "empty": self.empty,
            "cut": self.cut,
        }
        return {cause: number for cause, number in causes.items() if number}


# ---------------------------------------------------------------- reading


def read_imported(path: Path) -> Iterator[ImportedQuery]:
    """Queries from JSON lines, which may be compressed, read as they are asked for.

    An object names its passage (`passage`, `passage_id`, `id` or `_id`) and the query (`query` or `text`); a
    `style` may follow. InputError, with the line, for anything else.
    """
    if not path.is_file():
        raise InputError("there is no such file", file=str(path))
    with contextlib.closing(open_plain(path)) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield _query(json.loads(line), f"{path.name}:{number}")
            except (ValueError, RecursionError) as error:
                cause = 'a query needs one JSON object with "id", of its passage, and "text"'
                raise InputError(cause, file=str(path), line=number) from error


def _query(row: Any, place: str) -> ImportedQuery:
    """ValueError where something is missing or of another type."""
    if not isinstance(row, dict):
        raise ValueError("not an object")
    passage, text = _first(row, PASSAGE), _first(row, TEXT)
    style = row.get("style") or ""
    if isinstance(passage, bool) or not isinstance(passage, str | int):
        raise ValueError("no id")
    if not isinstance(text, str) or not isinstance(style, str):
        raise ValueError("no text")
    (text + style).encode()  # half a character can not be written
    return ImportedQuery(str(passage), text, style, place)


def _first(row: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((row[name] for name in names if name in row), None)


def judged_queries(
    queries: Mapping[str, str], judgments: Mapping[str, Mapping[str, int]], *, file: str
) -> Iterator[ImportedQuery]:
    """Queries by id with every passage judged better than 0; one that has no text comes empty."""
    for query, grades in judgments.items():
        for passage, grade in grades.items():
            if grade > 0:
                yield ImportedQuery(passage, queries.get(query, ""), place=f"{file}: {query}")


# ---------------------------------------------------------------- pairs


def imported_pairs(
    queries: Iterable[ImportedQuery],
    row_of: Mapping[str, int],
    part_of: Callable[[str], str],
    *,
    file: str,
    whole: bool = False,
    report: ImportReport | None = None,
) -> Iterator[Pair]:
    """A pair for each query of a passage in `row_of`, which knows the training part only.

    `part_of` names the part of any other passage, "" where there is no such passage. `whole` leaves out texts
    that end without a mark, as those do that were cut. InputError at the end where not one was taken.
    """
    report = report if report is not None else ImportReport()
    for query in queries:
        report.read += 1
        text = " ".join(query.text.split())
        row = row_of.get(query.passage)
        if row is None:
            _count_outside(report, query.passage, part_of(query.passage))
        elif not text:
            report.empty += 1
        elif whole and not _is_whole(text):
            report.cut += 1
        else:
            report.taken += 1
            yield Pair(text, row, "written", query.style, query.place)
    if not report.taken:
        raise InputError(_why_none(report), file=file)


def _count_outside(report: ImportReport, passage: str, part: str) -> None:
    if part:
        report.elsewhere[part] += 1
        return
    report.first_unknown = report.first_unknown or passage
    report.unknown += 1


def _is_whole(text: str) -> bool:
    """Whether a text ends as a sentence does."""
    return text.rstrip(CLOSING).endswith((".", "?", "!"))


def _why_none(report: ImportReport) -> str:
    if not report.read:
        return "there are no queries in it"
    if report.unknown == report.read:
        return (
            f"none of its {report.read:,} queries names a passage of the corpus; the first is {report.first_unknown!r}"
        )
    told = ", ".join(f"{number:,} {cause}" for cause, number in report.left_out().items())
    return f"none of its {report.read:,} queries can be used: {told}"
