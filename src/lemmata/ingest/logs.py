"""Tables of logs and trees of functional locations to records.

Knows rows, columns and dates; does not know what a text means, nor whether a label leads anywhere:
labels are resolved once the whole corpus is read.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from lemmata.errors import InputError, require
from lemmata.plant.hierarchy import cycles
from lemmata.types import Document, Label, Link, Passage, Reading, Skip

__all__ = ["Columns", "csv_rows", "jsonl_rows", "parquet_rows", "read_hierarchy", "read_logs"]

LONGEST_LINE = 10_000_000  # characters; what is longer is no table, and would fill the memory
ROWS_BEFORE_COLUMNS_ARE_KNOWN = 100  # rows of JSON may leave out what is empty, the first row too


@dataclass(frozen=True)
class Columns:
    """Which column of a table holds what; "" where the table has none."""

    id: str = "id"
    text: str = "text"
    title: str = ""
    date: str = "date"
    location: str = "location"
    related: str = "related"


class RaggedRow(dict[str, str]):
    """A row of a CSV file with fewer or more cells than its header; cells that lack are empty."""

    def __init__(self, cells: Mapping[str, str], count: int) -> None:
        super().__init__(cells)
        self.cause = f"the row has {count} cells, the header {len(cells)}"


# ---------------------------------------------------------------- logs


def read_logs(
    rows: Iterable[tuple[int, Mapping[str, Any]]],
    *,
    document: str,
    file: str,
    columns: Columns,
    batch: int = 5000,
) -> Iterator[Reading]:
    """The logs of one table, `batch` rows a reading; the first reading holds the table's document.

    A log without an id is called `document:n` after its row, counted from 1. A row that can not be used
    is a skip. So is an unreadable date, but its log stays and keeps the value in its metadata.
    Raises InputError where the rows have no text column.
    """
    head, rest = _known_columns(rows, wanted=(columns.text,), file=file)
    numbered = enumerate(itertools.chain(head, rest), 1)
    documents: Sequence[Document] = (Document(id=document, title=document, kind="table", file=file),)
    seen: set[str] = set()
    while True:
        passages: list[Passage] = []
        skips: list[Skip] = []
        number = 0
        for number, (line, row) in itertools.islice(numbered, batch):
            name = _text(_cell(row, columns.id)) or f"{document}:{number}"
            if isinstance(row, RaggedRow):
                skips.append(Skip(file, line, row.cause))
            elif not _text(_cell(row, columns.text)):
                skips.append(Skip(file, line, f"log {name!r} has no text in the column {columns.text!r}"))
            elif name in seen:
                skips.append(Skip(file, line, f"the id {name!r} was there before"))
            else:
                seen.add(name)
                passage = _log(name, row, document, file, line, columns)
                date = _text(_cell(row, columns.date))
                if date and passage.date is None:
                    skips.append(Skip(file, line, f"log {name!r} stays, but not its unclear date {date!r}"))
                passages.append(passage)
        if not number and not documents:
            return
        labels = [Label(document, passage.id, passage.id) for passage in passages]
        yield Reading(documents=documents, passages=passages, labels=labels, skips=skips)
        documents = ()


def _log(name: str, row: Mapping[str, Any], document: str, file: str, line: int, columns: Columns) -> Passage:
    date = _iso_date(_text(_cell(row, columns.date)))
    told = {columns.id, columns.text, columns.title, columns.location, columns.related}
    if date is not None:
        told.add(columns.date)
    others = {key: _plain(value) for key, value in row.items() if key not in told}
    return Passage(
        id=name,
        document=document,
        kind="log",
        text=_text(_cell(row, columns.text)),
        title=_text(_cell(row, columns.title)),
        file=file,
        first_line=line,
        last_line=line,
        date=date,
        metadata={key: value for key, value in others.items() if value not in (None, "", [], {})},
        links=(
            *(Link("reports_about", label) for label in _labels(_cell(row, columns.location))),
            *(Link("related_to", label) for label in _labels(_cell(row, columns.related))),
        ),
    )


# ---------------------------------------------------------------- locations


def read_hierarchy(rows: Iterable[tuple[int, Mapping[str, Any]]], *, file: str) -> Reading:
    """The tree of functional locations of a table with the columns id, parent and description.

    A root has an empty parent. A location whose parent is unknown, or would close a cycle, stays as a
    root; of a cycle only the link that stands last in the table is dropped. Each such case is a skip.
    """
    head, rest = _known_columns(rows, wanted=("id", "parent", "description"), file=file)
    titles: dict[str, str] = {}
    parents: dict[str, str] = {}
    lines: dict[str, int] = {}
    skips: list[Skip] = []
    for line, row in itertools.chain(head, rest):
        name = _text(row.get("id"))
        if isinstance(row, RaggedRow):
            skips.append(Skip(file, line, row.cause))
        elif not name:
            skips.append(Skip(file, line, "the location has no id"))
        elif name in titles:
            skips.append(Skip(file, line, f"the location {name!r} was there before"))
        else:
            titles[name] = _text(row.get("description"))
            parents[name] = _text(row.get("parent"))
            lines[name] = line
    for name, parent in parents.items():
        if parent and parent not in titles:
            skips.append(Skip(file, lines[name], f"the parent {parent!r} of {name!r} is not in the table"))
            parents[name] = ""
    for cycle in cycles(parents):
        last = max(cycle, key=lines.__getitem__)
        around = " -> ".join([*cycle, cycle[0]])
        skips.append(Skip(file, lines[last], f"{last!r} closes a cycle of parents: {around}"))
        parents[last] = ""
    documents = [
        Document(
            id=f"location:{name}",
            title=title,
            kind="location",
            file=file,
            metadata={"location": name},
            links=(Link("part_of", parents[name]),) if parents[name] else (),
        )
        for name, title in titles.items()
    ]
    labels = [Label("", name, f"location:{name}") for name in titles]
    return Reading(documents=documents, labels=labels, skips=skips)


# ---------------------------------------------------------------- files to rows


def csv_rows(stream: BinaryIO) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row with the line it begins on; the header tells the delimiter: comma, semicolon, tab or bar.

    UTF-8 with or without a byte order mark; bytes that are none are read as cp1252. Nameless columns are
    called `column_n`, a repeated name gets its position too. Raises InputError for what is no table.
    """
    lines = _lines(stream)
    blank = 0
    first = next(lines, "")
    while first and not first.strip():
        blank += 1
        first = next(lines, "")
    reader = csv.reader(itertools.chain([first], lines), delimiter=_delimiter(first))
    header: list[str] = []
    while True:
        line = blank + reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"not a table: {error} (is a quote left open?)", line=line) from error
        if not any(cell.strip() for cell in cells):
            continue
        if not header:
            header = _header(cells)
            continue
        while len(cells) > len(header) and not cells[-1].strip():
            cells.pop()  # a delimiter at the end of each row is a habit of some exports
        row = dict(itertools.zip_longest(header, cells[: len(header)], fillvalue=""))
        yield line, row if len(cells) == len(header) else RaggedRow(row, len(cells))


def jsonl_rows(stream: BinaryIO, skip: Callable[[int, str], None]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each object with its line; a line that holds none goes to `skip(line, cause)` and is passed over."""
    for number, line in enumerate(_lines(stream), 1):
        if not line.strip():
            continue
        try:
            row = _plain(json.loads(line))  # here, as what is nested too deeply would fail later
            if "\\u" in line:
                json.dumps(row, ensure_ascii=False).encode()  # half a surrogate pair is no text
        except (ValueError, RecursionError) as error:
            skip(number, f"not JSON: {error}")
            continue
        if isinstance(row, dict):
            yield number, row
        else:
            skip(number, f"not a JSON object, but {type(row).__name__}")


def parquet_rows(stream: BinaryIO) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each row with its number, counted from 1; the stream must be seekable."""
    parquet = require("pyarrow.parquet", "parquet")
    arrow_error = require("pyarrow", "parquet").ArrowException
    try:
        batches = parquet.ParquetFile(stream).iter_batches(batch_size=5000)
        rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
        yield from enumerate(rows, 1)
    except (arrow_error, ValueError, OSError) as error:
        raise InputError(f"can not be read as Parquet: {error}") from error


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Decoded lines with their ends; only \\n, \\r and \\r\\n end one."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="lemmata.cp1252", newline="")
    try:
        for number in itertools.count(1):
            line = text.readline(LONGEST_LINE)
            if not line:
                return
            if number == 1 and line.startswith(UTF_16_MARKS):
                raise InputError("the file is UTF-16; save it as UTF-8", line=1)
            if len(line) == LONGEST_LINE:
                raise InputError(f"not a table: a line of more than {LONGEST_LINE} characters", line=number)
            yield line
    finally:
        if not stream.closed:
            text.detach()  # else the wrapper closes a stream that is not its own


def _as_cp1252(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252", errors="replace"), error.end


codecs.register_error("lemmata.cp1252", _as_cp1252)
UTF_16_MARKS = ("\xff\xfe", "\xfe\xff")  # as cp1252 shows them


def _delimiter(header: str) -> str:
    return max(",;\t|", key=re.sub(r'"[^"]*"?', "", header).count)


def _header(cells: Sequence[str]) -> list[str]:
    header: list[str] = []
    for position, cell in enumerate(cells, 1):
        name = cell.strip() or f"column_{position}"
        while name in header:
            name += f"_{position}"
        header.append(name)
    return header


def _known_columns(
    rows: Iterable[tuple[int, Mapping[str, Any]]], *, wanted: Sequence[str], file: str
) -> tuple[list[tuple[int, Mapping[str, Any]]], Iterator[tuple[int, Mapping[str, Any]]]]:
    """The first rows, and the others; raises InputError where the first rows lack a wanted column."""
    rest = _placed(rows, file)
    head = list(itertools.islice(rest, ROWS_BEFORE_COLUMNS_ARE_KNOWN))
    there = list(dict.fromkeys(column for _, row in head for column in row))
    missing = [column for column in wanted if column not in there]
    if head and missing:
        hint = "; a tree of locations has id, parent and description" if "parent" in there else ""
        raise InputError(
            f"no column {', '.join(map(repr, missing))}; the columns are {', '.join(map(repr, there))}{hint}", file=file
        )
    return head, rest


def _placed(rows: Iterable[tuple[int, Mapping[str, Any]]], file: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows; an error on the way gets the file's name, which who reads a stream does not know."""
    try:
        yield from rows
    except InputError as error:
        raise InputError(error.cause, file=error.file or file, line=error.line) from error


# ---------------------------------------------------------------- cells


def _cell(row: Mapping[str, Any], column: str) -> Any:
    return row.get(column) if column else None


def _text(value: Any) -> str:
    plain = _plain(value)
    return "" if plain is None else str(plain).strip()


def _plain(value: Any) -> Any:
    """As a JSON value: 12.0 is 12, as tables turn whole numbers into floats where one cell is empty."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value)


def _labels(value: Any) -> list[str]:
    """The ids in a cell: a list of them, or a text with `;`, `|` or `,` between them."""
    cells = value if isinstance(value, list | tuple) else re.split(r"[;|,]", _text(value))
    return list(dict.fromkeys(text for cell in cells if (text := _text(cell))))


# ---------------------------------------------------------------- dates

WEEKDAY = re.compile(r"(?:mo|di|mi|do|fr|sa|so|tu|we|th|su)[a-z]*[.,]*\s+", re.IGNORECASE)
CLOCK = re.compile(
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d)(?:[.,]\d+)?)?\s*(?P<half>am|pm|uhr|h)?",
    re.IGNORECASE,
)
SEPARATED = r"[\sT,]+"  # between date and time
DAYS = tuple(
    re.compile(pattern + rf"(?:{SEPARATED}(?P<clock>\d.*))?", re.IGNORECASE)
    for pattern in (
        r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})",
        r"(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.\s?(?P<year>\d{4}|\d\d)",
        r"(?P<day>\d{1,2})[.\s-]+(?P<word>[^\W\d]{3,9})[.,\s-]+(?P<year>\d{4})",
        r"(?P<word>[^\W\d]{3,9})[.\s]+(?P<day>\d{1,2}),?\s+(?P<year>\d{4})",
        r"(?P<one>\d{1,2})(?P<by>[-/])(?P<two>\d{1,2})(?P=by)(?P<year>\d{4}|\d\d)",
    )
)
MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan jän",
            "feb",
            "mar mär mrz",
            "apr",
            "may mai",
            "jun",
            "jul",
            "aug",
            "sep",
            "oct okt",
            "nov",
            "dec dez",
        ),
        1,
    )
    for name in names.split()
}


def _iso_date(text: str) -> str | None:
    """ISO, German, with a month's name, or with slashes where only one order of day and month can be."""
    text = WEEKDAY.sub("", text, count=1) if WEEKDAY.match(text) else text
    try:
        parsed = datetime.datetime.fromisoformat(text)
        return parsed.date().isoformat() if len(text) <= len("2012-12-31") else parsed.isoformat()
    except ValueError:
        pass
    for pattern in DAYS:
        if match := pattern.fullmatch(text):
            try:
                return _matched_date(match.groupdict())
            except (ValueError, KeyError):
                return None
    return None


def _matched_date(parts: Mapping[str, str | None]) -> str:
    """ISO from the named groups of a pattern; raises ValueError or KeyError where there is no such date."""
    year = int(parts["year"] or "")
    if len(parts["year"] or "") == 2:
        year += 1900 if year >= 69 else 2000  # as POSIX reads two digits
    if parts.get("one"):
        one, two = int(parts["one"] or ""), int(parts["two"] or "")
        if one <= 12 and two <= 12 and one != two:
            raise ValueError("day and month can be either")
        day, month = (one, two) if one > 12 else (two, one)
    else:
        day = int(parts["day"] or "")
        month = MONTHS[(parts["word"] or "")[:3].lower()] if parts.get("word") else int(parts["month"] or "")
    date = datetime.date(year, month, day)
    if not parts["clock"]:
        return date.isoformat()
    clock = CLOCK.fullmatch(parts["clock"].strip())
    if clock is None:
        raise ValueError("no time of day")
    hour, half = int(clock["hour"]), (clock["half"] or "").lower()
    if half in ("am", "pm"):
        if not 1 <= hour <= 12:
            raise ValueError("no hour of half a day")
        hour = hour % 12 + (12 if half == "pm" else 0)
    time = datetime.time(hour, int(clock["minute"]), int(clock["second"] or 0))
    return datetime.datetime.combine(date, time).isoformat()
