"""Queries that somebody else wrote, each with the id of its passage: those of the training part become pairs.

Their origin is unknown, so nothing about them is trusted: a query of a held-out or unknown passage is left out and
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lemmata.core.errors import InputError
from lemmata.core.types import Pair
from lemmata.ingest.queries import ImportedQuery

CLOSING = "\"'”’»)]}"  # may follow the punctuation at the end of a sentence


@dataclass(slots=True)
class ImportReport:
    """Counts of the queries; each that was left out counts once, under the first reason."""

    read: int = 0
    left_out: Counter[str] = field(default_factory=Counter)  # by reason
    first_unknown: str = ""  # the first passage that the corpus does not have


# ---------------------------------------------------------------- pairs


def imported_pairs(
    queries: Iterable[ImportedQuery],
    row_of: Mapping[str, int],
    part_of: Callable[[str], str],
    *,
    file: str,
    complete: bool = False,
    report: ImportReport,
) -> Iterator[Pair]:
    """A pair for each query of a passage in `row_of`, which holds the training part only.

    `part_of` names the part of any other passage, "" where there is no such passage. `complete` drops queries that
    do not end in punctuation. InputError at the end where no query was taken.
    """
    for query in queries:
        report.read += 1
        text = " ".join(query.text.split())
        row = row_of.get(query.passage)
        if row is None:
            part = part_of(query.passage)
            report.left_out[f"of {part or 'no passage'}"] += 1
            report.first_unknown = report.first_unknown or ("" if part else query.passage)
        elif not text:
            report.left_out["empty"] += 1
        elif complete and not text.rstrip(CLOSING).endswith((".", "?", "!")):
            report.left_out["cut"] += 1
        else:
            yield Pair(text, row, "written", query.style, query.place)
    if not report.read:
        raise InputError("there are no queries in it", file=file)
    if report.left_out.total() == report.read:
        causes = ", ".join(f"{number:,} {cause}" for cause, number in sorted(report.left_out.items()))
        first = f"; the first unknown passage is {report.first_unknown!r}" if report.first_unknown else ""
        raise InputError(f"none of its {report.read:,} queries can be used: {causes}{first}", file=file)
