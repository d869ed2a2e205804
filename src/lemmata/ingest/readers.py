"""Readers: each turns a unit of a source (a paper, an archive, a table, a text) into readings."""

from __future__ import annotations

import contextlib
import hashlib
import io
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO, ClassVar

from lemmata.core.archives import open_decompressed, read_package
from lemmata.core.errors import ConfigError, InputError, LemmataError
from lemmata.core.files import UTF_16_MARKS, Remembered, sha256_of
from lemmata.core.records import FLAT
from lemmata.core.types import Label, Passage, Reading, Skip
from lemmata.core.workers import count_step, time_limit
from lemmata.ingest.beir import read_passages
from lemmata.ingest.citation_graphs import Edges, read_edges, read_nodes, read_ogb
from lemmata.ingest.dates import read_date
from lemmata.ingest.front_matter import arxiv_id_of_file
from lemmata.ingest.logs import (
    Columns,
    column_names,
    csv_rows,
    jsonl_rows,
    parquet_rows,
    read_hierarchy,
    read_logs,
    text_lines,
)
from lemmata.ingest.paper_state import PaperOptions
from lemmata.ingest.papers import is_source_file, read_package_papers, read_paper
from lemmata.ingest.text import FORMATS, author_names, read_pdf, read_text
from lemmata.latex.flatten import flatten
from lemmata.latex.mains import Main
from lemmata.latex.source import decode

READERS = ("auto", "papers", "logs", "hierarchy", "passages", "text", "pdf")
TEXT_SUFFIXES = tuple(FORMATS)
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
ABOUT = re.compile(r"(?:readme|license|licence|copying|changelog|contributing|authors|notice)(?:\.|$)", re.I)
STREAMED = ("logs", "passages", "citations")  # tables of any length are written to disk batch by batch
START = 4096  # bytes that decide what a file is
EMPTY = "the file is empty"
_BINARY = "it is binary data, not text"
UNREAD = ("could not be read: ", EMPTY, _BINARY)  # a note on a file that cannot be read begins with one of these
_CONTROL = bytes({*range(32), 127} - set(b"\t\n\v\f\r\x1a\x1b"))
_READING = 12  # raised when the readers change, so that everything is read again
_LARGEST_FILE = 64 * 2**20
TOO_LARGE = f"larger than {_LARGEST_FILE >> 20} MiB"


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How sources are read."""

    CHOICES: ClassVar = {"reader": READERS}
    SMALLEST: ClassVar = {"seconds": 1}

    reader: str = "auto"  # auto, papers, logs, hierarchy, passages, text or pdf
    papers: Annotated[PaperOptions, FLAT] = field(default_factory=PaperOptions)  # its keys belong to [ingest]
    columns: Columns = field(default_factory=Columns)
    seconds: float = 120  # time limit for one paper or file


@dataclass(frozen=True, slots=True)
class Unit:
    """Something to read."""

    reader: str  # paper, package, logs, hierarchy, passages, citations, text, pdf
    path: str  # below the base folder of its source; identifies the unit in updates
    document: str  # id, or the prefix of the ids inside; empty for an archive that is itself the source
    metadata: Mapping[str, Any] = field(default_factory=dict)  # of the document, from a side file
    confidence: float = 1.0
    beside: tuple[str, ...] = ()  # files that it is read with: .bib for a paper that names none, edges of a graph
    format_file: str = ""  # with the class and the macros of a paper that has none
    prefix: str = ""  # in front of the ids that come from the content, where another unit has some of them

    @property
    def ids_from_content(self) -> bool:
        """Whether all ids come from the content: its documents have none that is made from the path."""
        return self.reader in ("passages", "citations", "hierarchy") or not self.document


# ---------------------------------------------------------------- files


def flaw_of(start: bytes) -> str:
    """Why a file with these first bytes is not text; "" if it may be."""
    if not start.strip():
        return EMPTY
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):  # UTF-16
        return ""
    controls = len(start) - len(start.translate(None, _CONTROL))
    return _BINARY if 50 * controls > len(start) else ""  # text has hardly any, random bytes have 10 %


def read_file(base: Path, name: str, main: str = "") -> bytes | None:
    """The bytes of a regular file inside a folder, not too large; None for anything else.

    Only `main` may be a link that leaves the folder: the user named it, or it was found without such links.
    """
    path = base / name
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return None
        inside = name == main or path.resolve().is_relative_to(base.resolve())
        return path.read_bytes() if inside else None
    except (OSError, ValueError, RuntimeError):  # unreadable, a name with a NUL, a loop of links
        return None


def _read_all(stream: BinaryIO, name: str) -> bytes:
    """The bytes of an open file; InputError where there are too many."""
    data = stream.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise InputError(TOO_LARGE, file=name)
    return data


_HASHES: Remembered[str] = Remembered()


def _hash_file(path: str) -> str:
    try:
        return _HASHES.get(path, "", lambda: sha256_of([Path(path)]))
    except OSError:
        return ""


def is_unchanged(base: Path, files: Mapping[str, str], hashes: dict[str, str]) -> bool:
    """Whether all files that a unit was read from are as they were; missing files must still be missing.

    `hashes` caches file hashes between calls, as many papers may share a file.
    """
    for name, digest in files.items():
        if name not in hashes:
            hashes[name] = _hash_file(f"{base}/{name}")
        if hashes[name] != digest:
            return False
    return bool(files)


# ---------------------------------------------------------------- options


def with_preamble(options: IngestOptions, folder: Path) -> IngestOptions:
    """The options with the text of the preamble, whose path may be relative to `folder`, in place of its path.

    The text has the definitions in the preamble and in the files that it includes, without comments.
    """
    if not options.papers.preamble:
        return options
    path = (folder / options.papers.preamble).absolute()
    if not path.is_file():
        raise ConfigError(f"[ingest] preamble = {options.papers.preamble!r}: there is no file {path}")

    def read(name: str) -> str | None:
        data = read_file(path.parent, name, path.name)
        return None if data is None else decode(data)

    try:
        flat = flatten(read, path.name)
    except FileNotFoundError as error:
        raise InputError("the preamble cannot be read, or it is too large", file=str(path)) from error
    text = re.sub(r"\\begin\s*\{document\}$", "", flat.text[: flat.body]) if flat.body else flat.text
    return replace(options, papers=replace(options.papers, preamble=text))


@lru_cache(maxsize=16)
def _paper_settings(options: PaperOptions, with_preamble: bool) -> dict[str, Any]:
    return asdict(options) | {"preamble": hashlib.sha256(options.preamble.encode()).hexdigest() * with_preamble}


def fingerprint(unit: Unit, options: IngestOptions) -> str:
    """A hash of what determines the reading of a unit besides the content of its files."""
    is_table, is_document = unit.reader in (*STREAMED, "hierarchy"), unit.reader in ("paper", "package", "text", "pdf")
    papers = {} if is_table else _paper_settings(options.papers, unit.reader not in ("text", "pdf"))
    columns = {} if is_document else asdict(options.columns)  # of a new reader, all options count
    names, files = [unit.reader, unit.document, unit.prefix], [unit.beside, unit.format_file]
    parts = [_READING, *names, sorted(unit.metadata.items()), unit.confidence, *files, {**papers, **columns}]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


# ---------------------------------------------------------------- reading


def _read_paper(base: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    main, papers = Main(unit.path, unit.confidence, format_file=unit.format_file), options.papers
    read_bytes = partial(read_file, base, main=unit.path)
    try:
        yield read_paper(read_bytes, main, unit.document, papers, preamble=papers.preamble, beside=unit.beside)
    except FileNotFoundError as error:
        raise InputError(f"it cannot be read, or it is {TOO_LARGE}", file=unit.path) from error


def _read_archive(base: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    path = base / unit.path
    names: dict[str, None] = {}

    def wanted(name: str) -> bool:
        names[name] = None
        return is_source_file(name)

    package = read_package(path, wanted)
    arxiv = arxiv_id_of_file(unit.path)
    skips = [*package.skips, *_other_content(names)]
    for reading in read_package_papers(
        package.files,
        unit.document or arxiv,
        options.papers,
        single_paper=bool(arxiv),
        preamble=options.papers.preamble,
        load=lambda name: read_package(path, name.__eq__).files.get(name),
    ):
        skips += reading.skips
        placed = [Skip(f"{unit.path}/{skip.file}" if skip.file else unit.path, *skip[1:]) for skip in skips]
        yield replace(reading, skips=placed, files={})
        skips = []


def _other_content(names: Iterable[str]) -> list[Skip]:
    """One skip for the tables and texts of an archive, of which only the LaTeX is read."""
    suffixes = {*TABLE_SUFFIXES, *TEXT_SUFFIXES} - {".txt"}  # a paper may include a .txt
    bases = {name: posixpath.basename(name) for name in names if "__MACOSX" not in name.split("/")}
    others = [name for name, base in bases.items() if posixpath.splitext(base)[1].lower() in suffixes]
    others = [name for name in others if not bases[name].startswith(".") and not ABOUT.match(bases[name])]
    if not others:
        return []
    number = "1 file that is no LaTeX was" if len(others) == 1 else f"{len(others):,} files that are no LaTeX were"
    return [Skip("", 0, f"{number} not read, first {others[0]}: unpack the archive to read such files")]


def _read_document(read: Callable[..., Reading], base: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    papers = options.papers
    with open_decompressed(base / unit.path) as stream:
        parts = _text_parts(stream, unit.path) if unit.reader == "text" else iter([_read_all(stream, unit.path)])
        for number, data in enumerate(parts, 1):
            if number == 1 and unit.reader == "text" and (flaw := flaw_of(data[:START])):  # of a compressed file
                raise InputError(flaw, file=unit.path)
            name = unit.document if number == 1 else f"{unit.document}~part{number}"
            yield read(data, name, unit.path, size=papers.chunk_size, overlap=papers.chunk_overlap)


def _text_parts(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """A text in parts that are not too large, cut at an empty line where there is one.

    Each part begins with as many empty lines as there are lines before it.
    """
    data, lines = stream.read(_LARGEST_FILE), 0
    while len(data) == _LARGEST_FILE:
        if data.startswith(UTF_16_MARKS):
            raise InputError(TOO_LARGE, file=name)
        end = next((end for sign in (b"\n\n", b"\n", b" ") if (end := data.rfind(sign) + 1)), len(data))
        yield b"\n" * lines + data[:end]
        lines += data.count(b"\n", 0, end)
        data = data[end:] + stream.read(end)
    yield b"\n" * lines + data


def rows_of(stream: BinaryIO, name: str, skips: list[Skip]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table with their lines; lines that are no rows are added to the skips."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if ".parquet" in suffixes:
        return parquet_rows(stream if stream.seekable() else io.BytesIO(_read_all(stream, name)))
    read = jsonl_rows if ".jsonl" in suffixes or ".ndjson" in suffixes else csv_rows
    return read(stream, lambda line, cause: skips.append(Skip(name, line, cause)))


def reader_of_rows(path: Path, name: str, options: IngestOptions, skips: list[Skip]) -> str:
    """The reader of JSON lines: logs have a column `location` or `related`, or all columns that the user named."""
    if options.reader in STREAMED:
        return options.reader
    try:
        with open_decompressed(path) as stream:
            rows = [row.keys() for _, row in islice(rows_of(stream, name, []), 100)]
    except (InputError, OSError):
        return "passages"  # reading it fails too, and says why
    keys = set().union(*rows)
    named = options.columns.named
    each = ((option, name) for option, column in named.items() for name in column_names(column))
    missing = [f"{name!r} (columns.{option})" for option, name in each if name and name not in keys]
    if rows and ((named and not missing) or {"location", "related"} & rows[0]):
        return "logs"
    if missing:
        skips.append(Skip(name, 0, f"it has no column {', '.join(missing)}: it was read as passages, not as logs"))
    return "passages"


def _read_table(base: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    skips: list[Skip] = []
    with open_decompressed(base / unit.path) as stream:
        rows = rows_of(stream, unit.path, skips)
        if unit.reader == "hierarchy":
            yield read_hierarchy(rows, file=unit.path)
        elif unit.reader == "logs":
            again = partial(_rows_again, base / unit.path, unit.path)
            yield from read_logs(rows, document=unit.document, file=unit.path, columns=options.columns, again=again)
        else:
            yield from read_passages(rows, file=unit.path)
    if skips:
        yield Reading(skips=skips)


def _rows_again(path: Path, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table, from its first one on."""
    with open_decompressed(path) as stream:
        yield from rows_of(stream, name, [])


def _read_citations(base: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    skips: list[Skip] = []
    with contextlib.ExitStack() as opened:

        def open_lines(name: str) -> Iterator[str]:
            stream = opened.enter_context(open_decompressed(base / name))
            return text_lines(stream, lambda line, cause: skips.append(Skip(name, line, cause)))

        parts = {posixpath.basename(name).partition(".")[0].lower(): name for name in (unit.path, *unit.beside)}
        edges = Edges(unit.beside[0], skips, unit.prefix)
        if "titleabs" in parts:
            files = {"mapping" if part.startswith("nodeidx2") else part: name for part, name in parts.items()}
            rows = read_ogb(files, open_lines, edges, skips)
        else:
            for name in unit.beside:
                edges.file = name
                read_edges(open_lines(name), edges)
            edges.sort()
            stream = opened.enter_context(open_decompressed(base / unit.path))
            rows = read_nodes(rows_of(stream, unit.path, skips), edges, options.columns)
        yield from read_passages(rows, file=unit.path)
    if skips:
        yield Reading(skips=skips)


_READ: Mapping[str, Callable[[Path, Unit, IngestOptions], Iterator[Reading]]] = {
    "paper": _read_paper,
    "package": _read_archive,
    "text": partial(_read_document, read_text),
    "pdf": partial(_read_document, read_pdf),
    "logs": _read_table,
    "hierarchy": _read_table,
    "passages": _read_table,
    "citations": _read_citations,
}


def read_unit(base: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    """The readings of a unit. Problems are skips, or an InputError where nothing can be read."""
    # a paper lists its files
    files = {name: _hash_file(f"{base}/{name}") for name in (unit.path, *unit.beside) if unit.reader != "paper"}
    for reading in _READ[unit.reader](base, unit, options):
        if files:
            reading = replace(reading, files=files)
            files = {}
        reading = _with_metadata(reading, unit.metadata) if unit.metadata else reading
        yield _with_prefix(reading, unit.prefix, unit.document) if unit.prefix else reading


class Unreadable(Exception):  # noqa: N818 - a failure of the source, not of lemmata
    """One sentence that says why a unit could not be read, and what was skipped in it."""

    def __init__(self, cause: str, skips: Sequence[Skip] = ()) -> None:
        super().__init__(cause)
        self.skips = skips


def read_in_time(base: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    """As `read_unit`, each reading within the time limit; every error is Unreadable."""
    if not base.exists():
        raise Unreadable(f"the machine that reads it has no folder {base}: all nodes of a cluster must share it")
    rest = read_unit(base, unit, options)
    while True:
        try:
            with time_limit(options.seconds):
                reading = next(rest, None)
        except InputError as error:
            raise Unreadable(f"{error.cause} (line {error.line})" if error.line else error.cause) from error
        except OSError as error:
            raise Unreadable(error.strerror or str(error)) from error
        except LemmataError as error:
            raise Unreadable(str(error)) from error
        except MemoryError as error:
            cause = "memory ran out while it was read: split it into smaller files, or read with fewer --workers"
            raise Unreadable(cause) from error
        except Exception as error:
            cause = f"lemmata failed on it, please report this: {type(error).__name__}: {error}"
            raise Unreadable(cause) from error
        if reading is None:
            return
        yield reading


def read_whole_unit(task: tuple[Path, Unit, IngestOptions]) -> list[Reading] | str:
    """All readings of a unit, or one sentence with the error; raises nothing, as it runs in worker processes."""
    readings: list[Reading] = []
    try:
        for reading in read_in_time(*task):
            readings.append(reading)
            count_step()
    except Unreadable as error:
        return str(error)
    return readings


# ---------------------------------------------------------------- metadata from a side file, and prefixes

_DOCUMENT_KEYS = ("id", "document", "title", "authors", "date", "created", "categories", "abstract")


def written_date(side: Mapping[str, Any]) -> str:
    return str(side.get("date") or side.get("created") or "").strip()


def _with_metadata(reading: Reading, side: Mapping[str, Any]) -> Reading:
    """The reading with the metadata of the side file, which wins over the paper's own."""
    documents = []
    passages = list(reading.passages)
    for document in reading.documents:
        authors = side.get("authors") or document.authors
        if isinstance(authors, str):
            authors = author_names([authors])
        categories = side.get("categories") or document.categories
        if isinstance(categories, str):
            categories = re.split(r"[\s,;]+", categories.strip())
        extra = {key: value for key, value in side.items() if key not in _DOCUMENT_KEYS and value not in ("", None)}
        date = read_date(written_date(side))
        if written_date(side) and date is None:
            extra["date"] = written_date(side)
        documents.append(
            replace(
                document,
                title=str(side.get("title") or document.title),
                authors=tuple(map(str, authors)),
                date=date or document.date,
                categories=tuple(map(str, categories)),
                metadata={**document.metadata, **extra},
            )
        )
        if side.get("abstract") and not any(passage.kind == "abstract" for passage in passages):
            text = " ".join(str(side["abstract"]).split())
            passages.insert(0, Passage(f"{document.id}#abstract-1", document.id, "abstract", text))
    return replace(reading, documents=documents, passages=passages)


def _with_prefix(reading: Reading, prefix: str, table: str) -> Reading:
    """The reading with a prefix in front of all ids, except that of the table's own document."""

    def named(document: str) -> str:
        return document if document in ("", table) else prefix + document

    targets = {passage.id: prefix + passage.id for passage in reading.passages}
    return replace(
        reading,
        documents=[replace(document, id=named(document.id)) for document in reading.documents],
        passages=[
            replace(passage, id=targets[passage.id], document=named(passage.document)) for passage in reading.passages
        ],
        labels=[
            Label(named(label.document), name, targets.get(label.target) or named(label.target))
            for label in reading.labels
            # rows of a table name each other by the ids that stand there
            for name in dict.fromkeys((label.name, targets.get(label.name, label.name)))
        ],
        references={named(document): entries for document, entries in reading.references.items()},
        prefixes={
            named(document): {short: named(other) for short, other in prefixes.items()}
            for document, prefixes in reading.prefixes.items()
        },
    )
