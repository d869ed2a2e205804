"""What lies under a path: which files make a unit, who reads it, and what it is called.

A unit is the smallest thing that is read, hashed and replaced as a whole: a paper with all that it includes,
an archive, a table, a text. Finding units opens files but understands none.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

from lemmata.archives import Limits, open_decompressed, read_package, sniff
from lemmata.errors import InputError, LemmataError
from lemmata.ingest.beir import read_passages
from lemmata.ingest.logs import Columns, csv_rows, jsonl_rows, parquet_rows, read_hierarchy, read_logs
from lemmata.ingest.papers import (
    Main,
    PaperOptions,
    arxiv_name,
    is_source_file,
    read_package_papers,
    read_paper,
)
from lemmata.ingest.text import read_pdf, read_text
from lemmata.latex.mains import has_class, included_files, is_main, stale_copy_of
from lemmata.latex.source import decode
from lemmata.types import Document, Passage, Reading, Skip
from lemmata.workers import time_limit

__all__ = [
    "READERS",
    "IngestOptions",
    "Source",
    "Unit",
    "find_units",
    "fingerprint",
    "is_unchanged",
    "read_unit",
    "read_whole_unit",
]

READERS = ("auto", "papers", "logs", "hierarchy", "passages", "text", "pdf")
_TEX = (".tex", ".ltx", ".texx")
_TEXT = (".md", ".markdown", ".txt", ".text", ".rst")
_ROWS = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
_PACKED = (".gz", ".xz", ".bz2", ".zst")
_ARCHIVES = (".tar", ".tgz", ".zip", ".txz", ".tbz2", *_PACKED)
_ABOUT = re.compile(r"(?:readme|license|licence|copying|changelog|contributing|authors|notice)(?:\.|$)", re.I)
# test data that lies beside a corpus must never get into it
_TEST_DATA = re.compile(r"(?:^|/)(?:qrels(?:/.*|[^/]*\.tsv)|queries[^/]*\.jsonl|withheld[^/]*\.tsv)(?:\.\w+)?$", re.I)
_READING = 2  # raised when the readers read differently, so that everything is read again
_LARGEST_FILE = 64 * 2**20


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How sources are read."""

    CHOICES: ClassVar = {"reader": READERS}
    SMALLEST: ClassVar = {"seconds": 1}

    reader: str = "auto"
    papers: PaperOptions = field(default_factory=PaperOptions)
    columns: Columns = field(default_factory=Columns)
    seconds: float = 120  # for one unit


@dataclass(frozen=True, slots=True)
class Unit:
    """Something to read."""

    reader: str  # paper, package, logs, hierarchy, passages, text, pdf
    path: str  # below the base folder of its source; what an update goes by
    document: str  # id, or the prefix of the ids inside; empty for an archive that is itself the source
    metadata: Mapping[str, Any] = field(default_factory=dict)  # what a side file says of the document
    confidence: float = 1.0


class Source(NamedTuple):
    """A path that a user named: where its files are, what is in it, what was left out."""

    base: Path
    units: list[Unit]
    skips: list[Skip]


# ---------------------------------------------------------------- finding


def _stem(path: str) -> str:
    """A path without its suffix, and without the suffixes of compression."""
    base, suffix = posixpath.splitext(path)
    if suffix.lower() in _PACKED:
        base, suffix = posixpath.splitext(base) if not re.search(r"\.\d+$", base) else (base, "")
        return base if suffix.lower() in (*_TEX, *_TEXT, *_ROWS, ".tar", ".pdf", "") else base + suffix
    return base if suffix.lower() in (*_TEX, *_TEXT, *_ROWS, *_ARCHIVES, ".pdf") else path


def _kind(path: Path, name: str, *, named: bool) -> str:
    """The reader for a file, by content where that tells, else by name; empty where there is none."""
    with path.open("rb") as stream:
        start = stream.read(1000)
    content = sniff(start[:512])
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    packed = content in ("gzip", "xz", "bzip2", "zstd")
    inner = next((s for s in reversed(suffixes) if s not in _PACKED), "")
    if content in ("tar", "zip"):
        return "package"
    if packed and inner not in (*_TEXT, *_ROWS, ".pdf"):
        return "package" if named or (suffixes and suffixes[-1] in _ARCHIVES) else ""
    if content == "pdf" or inner == ".pdf":
        return "pdf"
    if not content and suffixes and suffixes[-1] in _ARCHIVES:  # no archive: plain TeX under that name, or damaged
        return "paper" if has_class(decode(path.read_bytes()[:200_000])) else "package"
    if inner in _TEX:
        return "paper"
    if inner in _ROWS:
        if re.match(r"hierarchy\b", posixpath.basename(name), re.I) or _has_columns_of_a_tree(start):
            return "hierarchy"
        return "rows" if inner in (".jsonl", ".ndjson") else "logs"
    if inner in _TEXT:
        return "text"
    if named:
        return "paper" if has_class(decode(path.read_bytes()[:200_000])) else "text"
    return ""


def _has_columns_of_a_tree(start: bytes) -> bool:
    """Whether a table, as far as it can be read as one without unpacking, is a tree of locations and no log."""
    heading = decode(start.partition(b"\n")[0])
    columns = {column.strip().strip('"') for column in re.split(r"[,;\t|]", heading)}
    return {"id", "parent", "description"} <= columns and "text" not in columns


def _walk(base: Path) -> Iterator[str]:
    """Regular files below a folder, sorted; hidden ones, junk and links that leave the folder are left out."""
    home = base.resolve()
    for folder, folders, files in os.walk(base):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__MACOSX")
        for name in sorted(files):
            path = Path(folder, name)
            if name.startswith(".") or name.endswith("~"):
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(home):
                continue
            if path.is_file():
                yield path.relative_to(base).as_posix()


def _side_metadata(base: Path, names: Iterable[str], skips: list[Skip]) -> dict[str, dict[str, Any]]:
    """What `metadata.jsonl` or `metadata.csv` at the root says, by document id."""
    records: dict[str, dict[str, Any]] = {}
    for name in names:
        if not re.fullmatch(r"metadata\.(?:jsonl|csv)(?:\.\w+)?", name):
            continue
        with open_decompressed(base / name) as stream:
            for line, row in _rows(stream, name, skips):
                identity = str(row.get("id") or row.get("document") or row.get("arxiv") or "")
                if identity:
                    records[identity] = dict(row)
                else:
                    skips.append(Skip(name, line, "metadata without an id"))
    return records


def find_units(path: Path, options: IngestOptions) -> Source:
    """The units under a file or folder, in a fixed order. Raises InputError when there is nothing to read."""
    if not path.exists():
        raise InputError("there is no such file or folder", file=str(path))
    skips: list[Skip] = []
    if path.is_file():
        return Source(path.parent, [_single(path, options, skips)], skips)
    if not path.is_dir():
        raise InputError("this is neither a file nor a folder", file=str(path))
    names = list(_walk(path))
    side = _side_metadata(path, names, skips)
    tables = {posixpath.dirname(n) for n in names if re.fullmatch(r"corpus\.jsonl(?:\.\w+)?", posixpath.basename(n))}
    units: list[Unit] = []
    sources: dict[str, str] = {}
    for name in names:
        about = _ABOUT.match(posixpath.basename(name))
        if _TEST_DATA.search(name) or re.fullmatch(r"metadata\.(?:jsonl|csv)(?:\.\w+)?", name) or about:
            continue
        kind = _kind(path / name, name, named=False)
        folder = posixpath.dirname(name)
        if kind == "paper":
            data = _read_file(path, name)
            if data is None:
                skips.append(Skip(name, 0, f"larger than {_LARGEST_FILE >> 20} MiB"))
            else:
                sources[name] = decode(data)
        elif folder in tables and not posixpath.basename(name).startswith("corpus.jsonl"):
            continue  # a BEIR folder's corpus is its corpus.jsonl
        elif kind == "rows":
            units.append(Unit(_rows_reader(path / name, options), name, _stem(name)))
        elif kind:
            units.append(_plain_unit(kind, name, side))
    papers = list(_papers(sources, side, skips))
    typeset = {posixpath.dirname(unit.path) for unit in papers}
    for unit in units:
        if unit.reader == "pdf" and any(_inside(unit.path, folder) for folder in typeset):
            continue  # a figure of a paper
        papers.append(unit)
    if options.reader != "auto":
        readers = {"papers": ("paper", "package"), "hierarchy": ("hierarchy", "logs", "rows")}
        wanted = readers.get(options.reader, (options.reader,))
        papers = [_forced(unit, options.reader) for unit in papers if unit.reader in wanted or options.reader == "logs"]
    if not papers and not skips:
        raise InputError("nothing in it can be read (LaTeX, archives, tables, text or PDF)", file=str(path))
    return Source(path, _distinct(papers), skips)


def _inside(path: str, folder: str) -> bool:
    return folder == "" or path.startswith(folder + "/")


def _forced(unit: Unit, reader: str) -> Unit:
    forced = reader == "hierarchy" or (reader in ("logs", "passages") and unit.reader != "hierarchy")
    return replace(unit, reader=reader) if forced else unit


def _plain_unit(kind: str, name: str, side: Mapping[str, Mapping[str, Any]]) -> Unit:
    document = _stem(name)
    if kind == "package" and (arxiv := arxiv_name(name)):
        document = posixpath.join(posixpath.dirname(name), arxiv)
    return Unit(kind, name, document, side.get(document) or side.get(arxiv_name(name)) or {})


def _single(path: Path, options: IngestOptions, skips: list[Skip]) -> Unit:
    side = _side_metadata(path.parent, [p.name for p in path.parent.glob("metadata.*")], skips)
    kind = _kind(path, path.name, named=True)
    if options.reader != "auto":
        kind = kind if options.reader == "papers" and kind == "package" else options.reader.removesuffix("s")
        kind = {"log": "logs", "passage": "passages"}.get(kind, kind)
    elif kind == "rows":
        kind = _rows_reader(path, options)
    unit = _plain_unit(kind, path.name, side)
    # the archive itself is the root, so a collection in it needs no name in front
    return replace(unit, document=arxiv_name(path.name)) if kind == "package" else unit


def _papers(sources: Mapping[str, str], side: Mapping[str, Mapping[str, Any]], skips: list[Skip]) -> Iterator[Unit]:
    """One unit per main file; files that no main file includes are papers only where there is no main file."""
    included: set[str] = set()
    for name, text in sources.items():
        for other in included_files(text):
            for folder in {"", posixpath.dirname(name)}:
                target = posixpath.normpath(posixpath.join(folder, other))
                included.update(candidate for candidate in (target, target + ".tex") if candidate in sources)
    mains = [
        name
        for name, text in sources.items()
        if (is_main(text) and name not in included)
        or (name not in included and has_class(text) and included_files(text))
    ]
    homes = {posixpath.dirname(name) for name in mains}
    for name in sources:
        document = _stem(name)
        if name in mains:
            fresh = stale_copy_of(name, mains)
            if fresh is not None:
                skips.append(Skip(name, 0, f"looks like an old copy of {fresh}"))
                continue
            yield Unit("paper", name, document, side.get(document) or side.get(arxiv_name(document)) or {})
        elif name not in included:
            if any(_inside(name, home) for home in homes):
                skips.append(Skip(name, 0, "no main file includes it"))
            else:
                yield Unit("paper", name, document, side.get(document) or {}, confidence=0.4)


def _distinct(units: Sequence[Unit]) -> list[Unit]:
    """Units whose documents would get the same id keep their suffix in it, all but the first."""
    taken: set[str] = set()
    result = []
    for unit in units:
        if unit.document in taken:
            unit = replace(unit, document=unit.path)
        taken.add(unit.document)
        result.append(unit)
    return sorted(result, key=lambda unit: unit.path)


# ---------------------------------------------------------------- reading


def _read_file(base: Path, name: str) -> bytes | None:
    """The bytes of a regular file inside a folder, not too large; None for anything else."""
    path = base / name
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return None
        if not path.resolve().is_relative_to(base.resolve()):
            return None
        return path.read_bytes()
    except (OSError, ValueError, RuntimeError):  # unreadable, a name with a NUL, a loop of links
        return None


def _rows(stream: BinaryIO, name: str, skips: list[Skip]) -> Iterator[tuple[int, dict[str, Any]]]:
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if ".parquet" in suffixes:
        return parquet_rows(stream)
    if ".jsonl" in suffixes or ".ndjson" in suffixes:
        return jsonl_rows(stream, lambda line, cause: skips.append(Skip(name, line, cause)))
    return csv_rows(stream)


def _rows_reader(path: Path, options: IngestOptions) -> str:
    """Whether JSON lines are logs or passages: logs have a place or a predecessor, or columns were named."""
    if options.reader in ("logs", "passages"):
        return options.reader
    if options.columns != Columns():
        return "logs"
    with open_decompressed(path) as stream:
        first = next(_rows(stream, path.name, []), None)
    return "logs" if first and {"location", "related"} & first[1].keys() else "passages"


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


def fingerprint(unit: Unit, options: IngestOptions) -> str:
    """What besides the files' content decides how a unit is read."""
    parts = [_READING, unit.reader, unit.document, sorted(unit.metadata.items()), unit.confidence]
    parts.append(
        asdict(options.papers) if unit.reader in ("paper", "package", "text", "pdf") else asdict(options.columns)
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def is_unchanged(base: Path, files: Mapping[str, str], hashes: dict[str, str]) -> bool:
    """Whether all files that a unit was read from are as they were; files that were missing must still be.

    `hashes` keeps what was hashed, for the preamble that a hundred chapters share.
    """
    for name, digest in files.items():
        if name not in hashes:
            hashes[name] = _hash_file(base / name)
        if hashes[name] != digest:
            return False
    return bool(files)


def read_unit(base: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    """What a unit says. Whatever is wrong with it comes out as an InputError or as skips."""
    path = base / unit.path
    digest = {} if unit.reader == "paper" else {unit.path: _hash_file(path)}
    for number, reading in enumerate(_read(base, path, unit, options)):
        if number == 0 and digest:
            reading = replace(reading, files={**digest})
        yield _with_metadata(reading, unit) if unit.metadata else reading


def _read(base: Path, path: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    papers = options.papers
    if unit.reader == "paper":

        def read(name: str) -> bytes | None:
            return _read_file(base, name)

        try:
            yield read_paper(read, Main(unit.path, unit.confidence), unit.document, papers)
        except FileNotFoundError as error:
            raise InputError("the file is not there any more, or too large", file=unit.path) from error
        return
    if unit.reader == "package":
        package = read_package(path, is_source_file, Limits())
        whole = bool(arxiv_name(unit.path))
        name = unit.document or ("" if not whole else arxiv_name(unit.path))
        skips = [Skip(f"{unit.path}/{skip.file}" if skip.file else unit.path, *skip[1:]) for skip in package.skips]
        for reading in read_package_papers(package.files, name, papers, whole=whole):
            inner = [Skip(f"{unit.path}/{s.file}" if s.file else unit.path, *s[1:]) for s in reading.skips]
            yield replace(reading, skips=[*skips, *inner], files={})
            skips = []
        return
    with open_decompressed(path) as stream:
        if unit.reader in ("text", "pdf"):
            data = stream.read(_LARGEST_FILE + 1)
            if len(data) > _LARGEST_FILE:
                raise InputError(f"larger than {_LARGEST_FILE >> 20} MiB", file=unit.path)
            read_whole: Callable[..., Reading] = read_pdf if unit.reader == "pdf" else read_text
            yield read_whole(data, unit.document, unit.path, size=papers.chunk_size, overlap=papers.chunk_overlap)
            return
        skips = []
        rows = _rows(stream, unit.path, skips)
        if unit.reader == "hierarchy":
            yield read_hierarchy(rows, file=unit.path)
        elif unit.reader == "logs":
            yield from read_logs(rows, document=unit.document, file=unit.path, columns=options.columns)
        else:
            yield from read_passages(rows, file=unit.path)
        if skips:
            yield Reading(skips=skips)


def _with_metadata(reading: Reading, unit: Unit) -> Reading:
    """A reading whose document says what the side file says of it."""
    data = unit.metadata
    documents = []
    passages = list(reading.passages)
    for document in reading.documents:
        authors = data.get("authors") or document.authors
        if isinstance(authors, str):
            authors = [name.strip() for name in re.split(r";|\band\b|,", authors) if name.strip()]
        categories = data.get("categories") or document.categories
        if isinstance(categories, str):
            categories = re.split(r"[\s,;]+", categories.strip())
        known = ("id", "document", "title", "authors", "date", "created", "categories", "abstract")
        extra = {key: value for key, value in data.items() if key not in known and value not in ("", None)}
        date = data.get("date") or data.get("created") or document.date
        documents.append(
            Document(
                document.id,
                str(data.get("title") or document.title),
                document.kind,
                tuple(map(str, authors)),
                str(date) if date else None,
                tuple(map(str, categories)),
                document.file,
                {**document.metadata, **extra},
                document.links,
            )
        )
        if data.get("abstract") and not any(p.kind == "abstract" for p in passages):
            identity = f"{document.id}#abstract-1"
            passages.insert(0, Passage(identity, document.id, "abstract", " ".join(str(data["abstract"]).split())))
    return replace(reading, documents=documents, passages=passages)


def read_whole_unit(task: tuple[Path, Unit, IngestOptions]) -> list[Reading] | str:
    """All of a unit, or one sentence on why it could not be read; for workers, so nothing is raised."""
    base, unit, options = task
    try:
        with time_limit(options.seconds):
            return list(read_unit(base, unit, options))
    except InputError as error:
        return error.cause
    except (LemmataError, TimeoutError, OSError) as error:
        return str(error)
    except Exception as error:
        return f"lemmata failed on it, please report this: {type(error).__name__}: {error}"
