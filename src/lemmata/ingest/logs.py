"""Tables of logs and hierarchies of functional locations to records.

Knows rows, columns and dates. Labels are resolved later, when the whole corpus is read.
"""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, BinaryIO

from lemmata.core.errors import InputError, near, require
from lemmata.core.types import Document, Label, Link, Passage, Reading, Skip, unique_id
from lemmata.ingest.dates import is_day_first, read_date
from lemmata.latex.source import STRAY_BYTES
from lemmata.plant.hierarchy import cycles
from lemmata.plant.names import fold

_LONGEST_LINE = 10_000_000  # characters; a longer line is no table, and would fill the memory
_PIECE = 1 << 16  # characters of such a line that are read at a time
csv.field_size_limit(1_000_000)  # characters of a cell; a longer one has a quote that is left open
_ROWS_TO_FIND_COLUMNS = 100  # JSON rows may omit empty columns, so the first row is not enough


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table; "" where the table has no such column."""

    id: str = "id"  # column of the id
    text: str | list[str] = "text"  # column of the text; several are joined
    title: str = ""  # column of the title; empty: none
    date: str = "date"  # column of the date
    location: str = "location"  # column of the location
    related: str = "related"  # column of the id of an earlier log

    @property
    def texts(self) -> Sequence[str]:
        """The columns of the text."""
        return column_names(self.text)

    @property
    def named(self) -> dict[str, str | list[str]]:
        """The columns that are not the usual ones, by option."""
        usual = vars(Columns())
        return {option: column for option, column in vars(self).items() if column != usual[option]}


def column_names(column: str | list[str]) -> list[str]:
    return column if isinstance(column, list) else [column]


class _RaggedRow(dict[str, str]):
    """A row of a CSV file with fewer or more cells than the header; missing cells are empty."""

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
    again: Callable[[], Iterable[tuple[int, Mapping[str, Any]]]] = tuple,
) -> Iterator[Reading]:
    """The logs of one table, at most `batch` rows per reading; the first reading holds the table's document.

    `again` gives the rows once more, where only the whole column can tell whether 03/04/2026 is in March or in April.
    The columns other than id, text, title, date and related are metadata under their own names, also the location, and
    each text where there are several: they are the paragraphs of the log.
    A log without an id is called `document:n` after its row, counted from 1; a repeated id gets a number (`id~2`). A
    row that cannot be used is a skip. So is an unreadable date, but its log stays and keeps the value in its metadata.
    Raises InputError where the rows lack the text column or another one that was named.
    """
    rows, names = _read_head(rows, file)
    recognised = recognise_columns(names, columns)
    columns = replace(columns, **recognised)
    others = [str(column) for option, column in columns.named.items() if option != "text" and column]
    _check_columns(names, (*columns.texts, *others), file)
    numbered = enumerate(rows, 1)
    documents: Sequence[Document] = (Document(id=document, title=document, kind="table", file=file),)
    uses: dict[str, int] = {}  # of each id
    chosen = ", ".join(
        f"{' and '.join(map(repr, column_names(column)))} as columns.{option}" for option, column in recognised.items()
    )
    notes = [Skip(file, 0, f"read {chosen}, by their names; {_NAMED} names another")] if chosen else []

    @cache
    def day_first() -> bool | None:
        return is_day_first(_text(row, columns.date) for _, row in again())

    while True:
        passages: list[Passage] = []
        skips, notes = notes, []
        number = 0
        for number, (line, row) in itertools.islice(numbered, batch):
            identity = _text(row, columns.id) or f"{document}:{number}"
            if isinstance(row, _RaggedRow):
                skips.append(Skip(file, line, row.cause))
            elif not any(_text(row, column) for column in (*columns.texts, columns.title)):
                texts = ", ".join(map(repr, columns.texts))
                skips.append(Skip(file, line, f"log {identity!r} has no text in the column {texts}"))
            else:
                wanted, identity = identity, unique_id(identity, uses)
                if identity != wanted:
                    skips.append(Skip(file, line, f"the id {wanted!r} occurs twice: this log is called {identity!r}"))
                written = _text(row, columns.date)
                date = read_date(written) or (read_date(written, day_first=day_first()) if written else None)
                passages.append(_log(identity, row, document, file, line, columns, date))
                if written and date is None:
                    skips.append(Skip(file, line, f"log {identity!r} is kept without its unclear date {written!r}"))
        if not number and not documents:
            return
        labels = [Label(document, passage.id, passage.id) for passage in passages]
        yield Reading(documents=documents, passages=passages, labels=labels, skips=skips)
        documents = ()


def _log(
    identity: str, row: Mapping[str, Any], document: str, file: str, line: int, columns: Columns, date: str | None
) -> Passage:
    used = {columns.id, columns.title, columns.related, *(columns.texts if len(columns.texts) == 1 else ())}
    if date is not None:
        used.add(columns.date)
    others = {key: _json_value(value) for key, value in row.items() if key not in used}
    title = _text(row, columns.title)
    text = "\n\n".join(dict.fromkeys(filter(None, (_text(row, column) for column in columns.texts))))
    if not text:
        text, title = title, ""  # a title alone is content
    return Passage(
        id=identity,
        document=document,
        kind="log",
        text=text,
        title=title,
        file=file,
        first_line=line,
        last_line=line,
        date=date,
        metadata={key: value for key, value in others.items() if value not in (None, "", [], {})},
        links=(
            *(Link("reports_about", label) for label in _labels(row, columns.location)),
            *(Link("related_to", label) for label in _labels(row, columns.related)),
        ),
    )


# ---------------------------------------------------------------- locations


def read_hierarchy(rows: Iterable[tuple[int, Mapping[str, Any]]], *, file: str) -> Reading:
    """The functional locations of a table with the columns id, parent and description, or others that say the same.

    A root has an empty parent. A location whose parent is unknown, or would close a cycle, becomes a
    root; of a cycle only the last link in the table is dropped. Each such case is a skip.
    """
    titles: dict[str, str] = {}
    parents: dict[str, str] = {}
    lines: dict[str, int] = {}
    skips: list[Skip] = []
    rows, names = _read_head(rows, file)
    tree = tree_columns(names) or {option: option for option in ("id", "parent", "description")}
    _check_columns(names, tree.values(), file)
    if chosen := ", ".join(f"{column!r} as {option}" for option, column in tree.items() if column != option):
        skips.append(Skip(file, 0, f"read {chosen}, by their names"))
    for line, row in rows:
        name = _text(row, tree["id"])
        if isinstance(row, _RaggedRow):
            skips.append(Skip(file, line, row.cause))
        elif not name:
            skips.append(Skip(file, line, "the location has no id"))
        elif name in titles:
            skips.append(Skip(file, line, f"the location {name!r} occurs twice"))
        else:
            titles[name] = _text(row, tree["description"])
            parents[name] = _text(row, tree["parent"])
            lines[name] = line
    for name, parent in parents.items():
        if parent and parent not in titles:
            skips.append(Skip(file, lines[name], f"the parent {parent!r} of {name!r} is not in the table"))
            parents[name] = ""
    for cycle in cycles(parents):
        last = max(cycle, key=lines.__getitem__)
        path = " -> ".join([*cycle, cycle[0]])
        skips.append(Skip(file, lines[last], f"{last!r} closes a cycle of parents: {path}"))
        parents[last] = ""
    return _locations(titles, parents, file, skips)


def _locations(
    titles: Mapping[str, str], parents: Mapping[str, str], file: str, skips: Sequence[Skip], **metadata: Any
) -> Reading:
    """Locations with their titles, each below its parent where it has one."""
    documents = [
        Document(
            id=f"location:{name}",
            title=title,
            kind="location",
            file=file,
            metadata={"location": name, **metadata},
            links=(Link("part_of", parents[name]),) if parents.get(name) else (),
        )
        for name, title in titles.items()
    ]
    labels = [Label("", name, f"location:{name}") for name in titles]
    return Reading(documents=documents, labels=labels, skips=skips)


_SEPARATORS = re.compile(r"[-._/]")
_CODE = re.compile(r"(?=\S*\d)\S+")  # one word with a digit: A1-P-0107
_WORD = re.compile(r"[^\W\d_]{4,}")


def derive_hierarchy(cells: Iterable[str], *, file: str) -> Reading:
    """The locations that logs name, for a plant without a table of them: a tree by the prefixes of their codes.

    `A1-P-0107` and `A1-P-0108` are below `A1-P`, and below `A1` where other codes share that. Names that share no
    prefix are a flat list. One skip says what was made. A cell may hold several ids, separated as codes are.
    """
    names: dict[str, None] = {}
    for cell in cells:
        pieces = [piece.strip() for piece in re.split(r"[;|\n]", cell)]
        for piece in pieces:
            parts = [part.strip() for part in piece.split(",")]
            names |= dict.fromkeys(filter(None, parts if all(map(_CODE.fullmatch, parts)) else [piece]))
    if not names:
        return Reading()
    parents = _parents_by_prefix([name for name in names if _CODE.fullmatch(name)])
    every = [*names, *sorted(parents.keys() - names.keys())]
    titles = {name: name if _WORD.search(name) and not _CODE.fullmatch(name) else "" for name in every}
    shape = "a tree by the prefixes of their codes" if any(parents.values()) else "a flat list"
    several = f"the {len(names):,} locations that logs name are {shape}"
    note = f"no table of locations was read: {several if len(names) > 1 else 'logs name one location'}"
    return _locations(titles, parents, file, [Skip(file, 0, note)], derived=True)


def _parents_by_prefix(codes: Sequence[str]) -> dict[str, str]:
    """The parent of each code and of each shared prefix, "" for a root.

    A prefix counts if it is a code itself, or if codes that share it differ right after it.
    """
    branches: dict[str, set[str]] = {}  # prefix: the prefixes and codes directly after it
    for code in codes:
        cuts = [code[: match.start()] for match in _SEPARATORS.finditer(code) if match.start()]
        for shorter, longer in itertools.pairwise([*cuts, code]):
            branches.setdefault(shorter, set()).add(longer)
    known = {*codes, *(prefix for prefix, after in branches.items() if len(after) > 1)}
    parents = {}
    for name in known:
        above = [name[: match.start()] for match in _SEPARATORS.finditer(name)]
        parents[name] = next((prefix for prefix in reversed(above) if prefix in known), "")
    return parents


# ---------------------------------------------------------------- files to rows


def csv_rows(stream: BinaryIO, skip: Callable[[int, str], None] | None = None) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row with its first line; the delimiter is that of the header: comma, semicolon, tab or bar.

    Bytes that are not UTF-8 are read as cp1252. Unnamed columns are called `column_n`; a repeated name gets
    its position as a suffix. A quote that is left open ends with its line where rows follow. Raises InputError for a
    file that is no table.
    """
    numbered = enumerate(text_lines(stream, skip), 1)
    first = next((each for each in numbered if each[1].strip()), (1, ""))
    delimiter = max(",;\t|", key=re.sub(r'"[^"]*"?', "", first[1]).count)
    waiting = [first]  # lines to read again, the last first
    taken: list[tuple[int, str]] = []  # of the present row
    ended = False

    def texts() -> Iterator[str]:
        nonlocal ended
        while each := waiting.pop() if waiting else next(numbered, None):
            taken.append(each)
            yield each[1]
        ended = True

    reader = csv.reader(texts(), delimiter=delimiter)
    header: list[str] = []
    rows = 0
    line = 1
    while True:
        taken.clear()
        try:
            cells = next(reader)
        except StopIteration:
            if rows == 0 and any(map(_is_value, header)):
                raise InputError(_NO_HEADING.format(", ".join(map(repr, header[:3])))) from None
            return
        except csv.Error as error:
            line = taken[0][0] if taken else line
            raise InputError(f"not a table: {error} (is a quote left open?)", line=line) from error
        line = taken[0][0]
        if len(taken) > 1 and _swallowed([text for _, text in taken], delimiter, len(header), ended=ended):
            if skip is not None:
                skip(line, "a quote is left open: its cell ends with the line")
            cells = next(csv.reader([taken[0][1].rstrip("\r\n") + '"'], delimiter=delimiter))
            waiting += taken[:0:-1]
            reader, ended = csv.reader(texts(), delimiter=delimiter), False
        elif len(taken) > 1 and ended:  # csv looked for the end of the row behind that of the file
            raise InputError("not a table: a quote is left open", line=line)
        if not any(cell.strip() for cell in cells):
            continue
        if not header:
            header = _header(cells)
            continue
        while len(cells) > len(header) and not cells[-1].strip():
            cells.pop()  # some exports end each row with a delimiter
        rows += 1
        row = dict(itertools.zip_longest(header, cells[: len(header)], fillvalue=""))
        yield line, row if len(cells) == len(header) else _RaggedRow(row, len(cells))


def _swallowed(lines: Sequence[str], delimiter: str, columns: int, *, ended: bool) -> bool:
    """Whether the lines of a row are several: its open quote is closed where a cell of another one begins, or never."""
    if columns < 2 or len(next(csv.reader(lines[1:2], delimiter=delimiter))) != columns:
        return False
    try:
        for _ in csv.reader(lines, delimiter=delimiter, strict=True):
            pass
    except csv.Error:
        return True
    return ended


_NAMED = '-o columns.text=COLUMN, or text = "COLUMN" below [ingest.columns] in lemmata.toml,'
_NO_HEADING = "its first line holds values ({}), not the names of columns: write them above it, as in id,date,text"


def _is_value(name: str) -> bool:
    """Whether the name of a column looks like a value: a date, a number or a sentence."""
    number = re.fullmatch(r"[+-]?\d[\d.,]*", name)
    return bool(number) or read_date(name) is not None or len(name) > 80 or name.endswith((".", "!"))


def _header(cells: Sequence[str]) -> list[str]:
    header: dict[str, None] = {}
    for position, cell in enumerate(cells, 1):
        name = cell.strip() or f"column_{position}"
        while name in header:
            name += f"_{position}"
        header[name] = None
    return [*header]


def jsonl_rows(stream: BinaryIO, skip: Callable[[int, str], None]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each JSON object with its line; other lines are reported by `skip(line, cause)`."""
    for number, line in enumerate(text_lines(stream, skip), 1):
        if not line.strip():
            continue
        try:
            row = _json_value(json.loads(line))  # here, as values nested too deeply would fail later
            if "\\u" in line:
                json.dumps(row, ensure_ascii=False).encode()  # half a surrogate pair cannot be encoded
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
        yield from enumerate(itertools.chain.from_iterable(batch.to_pylist() for batch in batches), 1)
    except (arrow_error, ValueError, OSError) as error:
        raise InputError(f"cannot be read as Parquet: {' '.join(str(error).split())}") from error


_UTF_16_MARKS = ("\xff\xfe", "\xfe\xff")  # decoded as cp1252


def text_lines(stream: BinaryIO, skip: Callable[[int, str], None] | None = None) -> Iterator[str]:
    """Decoded lines with their ends; only \\n, \\r and \\r\\n end a line.

    A line that is too long comes out empty and is reported by `skip(line, cause)`; without `skip` it is an error.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors=STRAY_BYTES, newline="")
    rest = ""
    try:
        for number in itertools.count(1):
            line = rest + text.readline(_LONGEST_LINE - len(rest)) if rest not in ("\r", "\n") else rest
            rest = ""
            if not line:
                return
            if number == 1 and line.startswith(_UTF_16_MARKS):
                raise InputError("the file is UTF-16; save it as UTF-8", line=1)
            if len(line) == _LONGEST_LINE:
                cause = f"a line of more than {_LONGEST_LINE:,} characters"
                if skip is None:
                    raise InputError(f"not a table: {cause}", line=number)
                skip(number, cause)
                while line and not line.endswith(("\n", "\r")):
                    line = text.readline(_PIECE)
                rest = text.read(1) if line.endswith("\r") else ""  # the piece may end inside \r\n
                rest = "" if rest == "\n" else rest
                line = "\n"
            yield line
    finally:
        if not stream.closed:
            text.detach()  # else the wrapper closes the caller's stream


_Rows = Iterable[tuple[int, Mapping[str, Any]]]


def _read_head(rows: _Rows, file: str) -> tuple[_Rows, list[str]]:
    """The rows, and the names of their columns; an InputError of a reader of streams gets the name of the file."""

    def named() -> Iterator[tuple[int, Mapping[str, Any]]]:
        try:
            yield from rows
        except InputError as error:
            raise InputError(error.cause, file=error.file or file, line=error.line) from error

    rest = named()
    head = list(itertools.islice(rest, _ROWS_TO_FIND_COLUMNS))
    return itertools.chain(head, rest), list(dict.fromkeys(column for _, row in head for column in row))


# What exports of maintenance systems call the columns, in order of preference; only letters and digits count.
_OTHER_NAMES = {
    option: names.split()
    for option, names in {
        "text": """
            text longtext langtext worktext longdescription descriptionlongdescription detaileddescription
            problemdescription failuredescription faultdescription workdescription orderdescription problem
            problembeschreibung stoerungsbeschreibung fehlerbeschreibung schadensbeschreibung meldungstext
            description beschreibung shorttext kurztext remarks comments bemerkung bemerkungen ereignis eintrag meldung
            """,
        "title": """
            title titel shorttext kurztext shortdescription kurzbeschreibung subject betreff description beschreibung
            """,
        "id": """
            id woid wonum wonumber wono workorder workorderid workordernumber workorderno orderid ordernumber orderno
            notificationid notificationnumber notificationno notification logid ticketid ticket qmnum meldungsnummer
            meldungsnr meldung aufnr auftragsnummer auftragsnr auftrag order
            """,
        "date": """
            date createdon created creationdate createdate reportdate reportedon notificationdate notifdate startdate
            basicstartdate basstartdate timestamp datum erstelltam angelegtam erfasstam gemeldetam meldungsdatum
            meldedatum malfunctionstart malfunctstart stoerungsbeginn stoerbeginn eckstarttermin startdatum zeitpunkt
            zeitstempel
            """,
        "location": """
            functionallocation functionalloc functlocation funclocation funcloc floc tplnr technischerplatz technplatz
            location locationid equipmentid equipmentno equipment equip equnr equipmentnummer equipmentnr assetid
            assetnum asset anlage maschine machine akz kks
            """,
    }.items()
}
# What became of the event is text, too, behind its own.
_MORE_TEXTS = tuple(
    names.split()
    for names in (
        "findings finding befund schadensbild",
        """
        causetext causedescription rootcause failurecause cause ursachentext schadensursache stoerungsursache
        stoerursache fehlerursache ursache
        """,
        """
        actiontext actiondescription actiontaken actionstaken correctiveaction workperformed workdone action actions
        activitytext resolution solution remedy massnahmentext massnahmen massnahme abhilfe behebung loesung
        rueckmeldetext
        """,
    )
)


def recognise_columns(names: Sequence[str], columns: Columns) -> dict[str, Any]:
    """The columns of a table that lacks the usual ones and for which no others were named, by option."""
    folded = _folded(names)
    usual, chosen = vars(Columns()), dict[str, Any]()
    used = {column for named in columns.named.values() for column in column_names(named)}
    for option, other_names in _OTHER_NAMES.items():
        if option in columns.named or (option == "text" and tree_columns(names)):
            continue
        column = usual[option] if usual[option] in names else _first_of(other_names, folded, used)
        if not column:
            continue
        used.add(column)
        more = (_first_of(group, folded, used) for group in (_MORE_TEXTS if option == "text" else ()))
        every = [column, *filter(None, more)]
        if every != [usual[option]]:
            chosen[option] = column if len(every) == 1 else every
    return chosen


# What tables of locations call the parent begins so; the location itself is the first column with one of these names.
_PARENT = re.compile("parent|superior|superord|uebergeord|uebergequi|uebergtech|tplma|hequi")
_TREE_IDS = frozenset((*_OTHER_NAMES["location"], *"name number nummer kennung code".split()))
_TREE_TITLES = "description bezeichnung beschreibung shorttext kurztext name".split()
_LOG_NAMES = frozenset("text longtext langtext datum timestamp zeitpunkt meldungsdatum notificationdate".split()).union(
    _OTHER_NAMES["id"][1:], *_MORE_TEXTS
)


def tree_columns(names: Sequence[str]) -> dict[str, str]:
    """The columns id, parent and description of a table of locations, as it calls them; empty for any other table."""
    folded = _folded(names)
    parent = _first_of(("parent", *filter(_PARENT.match, reversed(folded))), folded, ())
    identity = _first_of(("id", *filter(_TREE_IDS.__contains__, reversed(folded))), folded, (parent,))
    title = _first_of(_TREE_TITLES, folded, (parent, identity))
    is_tree = parent and identity and title and _LOG_NAMES.isdisjoint(folded)
    return {"id": identity, "parent": parent, "description": title} if is_tree else {}


def _folded(names: Sequence[str]) -> dict[str, str]:
    """The columns by the letters and digits of their names, the last first."""
    return {re.sub(r"[\W_]", "", fold(name)): name for name in reversed(names)}


def _first_of(wanted: Iterable[str], folded: Mapping[str, str], used: Container[str]) -> str:
    """The first column with one of the names that is not used yet; "" if there is none."""
    return next((folded[name] for name in wanted if name in folded and folded[name] not in used), "")


def _check_columns(columns: Sequence[str], needed: Iterable[str], file: str) -> None:
    """InputError where a needed column is missing, unless there are no rows at all."""
    missing = [column for column in dict.fromkeys(needed) if column not in columns]
    if not columns or not missing:
        return
    if any(map(_is_value, columns)):
        raise InputError(_NO_HEADING.format(", ".join(map(repr, columns[:3]))), file=file)
    hint = f"; {_NAMED} names the column of the text, as for id, date and location" if missing[0] == "text" else ""
    if any(map(_PARENT.search, _folded(columns))):
        hint += "; a hierarchy has the columns id, parent and description"
    hint += "".join(near(column, columns) for column in missing)
    named = ", ".join(map(repr, missing)), ", ".join(map(repr, columns))
    raise InputError(f"no column {named[0]}; the columns are {named[1]}{hint}", file=file)


# ---------------------------------------------------------------- cells


def _text(row: Mapping[str, Any], column: str) -> str:
    return _as_text(row.get(column)) if column else ""


def _as_text(cell: Any) -> str:
    if isinstance(cell, str):  # as nearly all are
        return cell.strip()
    value = _json_value(cell)
    return "" if value is None else str(value).strip()


def _json_value(value: Any) -> Any:
    """A cell as JSON value; 12.0 becomes 12, as tables with an empty cell turn whole numbers into floats."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(inner) for inner in value]
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value)


def _labels(row: Mapping[str, Any], column: str) -> list[str]:
    """The names in a cell: those of a list, or the whole text.

    A text may hold several ids, or one name with a comma in it; that is known when links are resolved.
    """
    cell = row.get(column) if column else None
    cells = cell if isinstance(cell, list | tuple) else [cell]
    return list(dict.fromkeys(filter(None, map(_as_text, cells))))
