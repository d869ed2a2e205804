"""Units under a path: which files belong together, which reader takes them, and the ids of their documents.

A unit is the smallest thing that is read, hashed and replaced as a whole: a paper with the files it includes,
an archive, a table, a text. Finding units opens files but does not parse them.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

from lemmata.archives import open_decompressed, read_package, sniff
from lemmata.errors import InputError, LemmataError
from lemmata.files import sha256_of
from lemmata.ingest.beir import read_passages
from lemmata.ingest.logs import Columns, csv_rows, jsonl_rows, parquet_rows, read_hierarchy, read_logs
from lemmata.ingest.papers import Main, PaperOptions, arxiv_id_of_file, is_source_file, read_package_papers, read_paper
from lemmata.ingest.text import read_pdf, read_text
from lemmata.latex.mains import has_class, included_files, is_main, stale_copy_of
from lemmata.latex.source import decode
from lemmata.types import Passage, Reading, Skip
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
_TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
_ARCHIVES = (".tar", ".tgz", ".zip", ".txz", ".tbz2", *_COMPRESSED)
_SIDE_FILE = re.compile(r"metadata\.(?:jsonl|csv)(?:\.\w+)?")
_ABOUT = re.compile(r"(?:readme|license|licence|copying|changelog|contributing|authors|notice)(?:\.|$)", re.I)
# test data beside a corpus must never get into it
_TEST_DATA = re.compile(r"(?:^|/)(?:qrels(?:/.*|[^/]*\.tsv)|queries[^/]*\.jsonl|withheld[^/]*\.tsv)(?:\.\w+)?$", re.I)
_READING = 3  # raised when the readers change, so that everything is read again
_LARGEST_FILE = 64 * 2**20
_TOO_LARGE = f"larger than {_LARGEST_FILE >> 20} MiB"

_SideMetadata = Mapping[str, Mapping[str, Any]]  # by document id


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How sources are read."""

    CHOICES: ClassVar = {"reader": READERS}
    SMALLEST: ClassVar = {"seconds": 1}

    reader: str = "auto"  # auto, papers, logs, hierarchy, passages, text or pdf
    papers: PaperOptions = field(default_factory=PaperOptions)
    columns: Columns = field(default_factory=Columns)
    seconds: float = 120  # time limit for one paper or file


@dataclass(frozen=True, slots=True)
class Unit:
    """Something to read."""

    reader: str  # paper, package, logs, hierarchy, passages, text, pdf
    path: str  # below the base folder of its source; identifies the unit in updates
    document: str  # id, or the prefix of the ids inside; empty for an archive that is itself the source
    metadata: Mapping[str, Any] = field(default_factory=dict)  # of the document, from a side file
    confidence: float = 1.0


class Source(NamedTuple):
    """A path given by the user: the folder of its files, its units, and what was skipped."""

    base: Path
    units: list[Unit]
    skips: list[Skip]


# ---------------------------------------------------------------- finding


def _stem(path: str) -> str:
    """A path without its suffix, and without the suffix of a compression."""
    base, suffix = posixpath.splitext(path)
    if suffix.lower() in _COMPRESSED:
        base, suffix = posixpath.splitext(base) if not re.search(r"\.\d+$", base) else (base, "")
        return base if suffix.lower() in (*_TEX, *_TEXT, *_TABLES, ".tar", ".pdf", "") else base + suffix
    return base if suffix.lower() in (*_TEX, *_TEXT, *_TABLES, *_ARCHIVES, ".pdf") else path


def _reader_of(path: Path, *, named: bool) -> str:
    """The reader for a file, by content where possible, else by name; empty where there is none.

    JSON lines are "rows", which `_rows_reader` decides. A file `named` by the user is read whatever its suffix is.
    """
    with path.open("rb") as stream:
        start = stream.read(1000)
    content = sniff(start[:512])
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = next((suffix for suffix in reversed(suffixes) if suffix not in _COMPRESSED), "")
    is_archive_name = bool(suffixes) and suffixes[-1] in _ARCHIVES
    if content in ("tar", "zip"):
        return "package"
    if content in ("gzip", "xz", "bzip2", "zstd") and suffix not in (*_TEXT, *_TABLES, ".pdf"):
        return "package" if named or is_archive_name else ""
    if content == "pdf" or suffix == ".pdf":
        return "pdf"
    if not content and is_archive_name:  # no archive: uncompressed TeX under that name, or damaged
        return "paper" if _has_class(path) else "package"
    if suffix in _TEX:
        return "paper"
    if suffix in _TABLES:
        if re.match(r"hierarchy\b", path.name, re.I) or _has_hierarchy_columns(start):
            return "hierarchy"
        return "rows" if suffix in (".jsonl", ".ndjson") else "logs"
    if suffix in _TEXT:
        return "text"
    if named:
        return "paper" if _has_class(path) else "text"
    return ""


def _has_class(path: Path) -> bool:
    return has_class(decode(path.read_bytes()[:200_000]))


def _has_hierarchy_columns(start: bytes) -> bool:
    """Whether the header of an uncompressed table is that of a hierarchy of locations, not of logs."""
    header = decode(start.partition(b"\n")[0])
    columns = {column.strip().strip('"') for column in re.split(r"[,;\t|]", header)}
    return {"id", "parent", "description"} <= columns and "text" not in columns


def _walk(base: Path) -> Iterator[str]:
    """Regular files below a folder, sorted, without hidden files, junk and links that leave the folder."""
    home = base.resolve()
    for folder, folders, files in os.walk(base):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__MACOSX")
        for name in sorted(files):
            path = Path(folder, name)
            if name.startswith(".") or name.endswith("~") or not path.is_file():
                continue
            if not path.is_symlink() or path.resolve().is_relative_to(home):
                yield path.relative_to(base).as_posix()


def _side_metadata(base: Path, names: Iterable[str], skips: list[Skip]) -> dict[str, dict[str, Any]]:
    """The records of `metadata.jsonl` or `metadata.csv` at the root, by document id."""
    records: dict[str, dict[str, Any]] = {}
    for name in filter(_SIDE_FILE.fullmatch, names):
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
    beir = {posixpath.dirname(n) for n in names if re.fullmatch(r"corpus\.jsonl(?:\.\w+)?", posixpath.basename(n))}
    others: list[Unit] = []
    sources: dict[str, str] = {}
    for name in names:
        base = posixpath.basename(name)
        if _TEST_DATA.search(name) or _SIDE_FILE.fullmatch(name) or _ABOUT.match(base):
            continue
        reader = _reader_of(path / name, named=False)
        if reader == "paper":
            data = _read_file(path, name)
            if data is None:
                skips.append(Skip(name, 0, _TOO_LARGE))
            else:
                sources[name] = decode(data)
        elif posixpath.dirname(name) in beir and not base.startswith("corpus.jsonl"):
            continue  # a BEIR folder is its corpus.jsonl
        elif reader == "rows":
            others.append(Unit(_rows_reader(path / name, options), name, _stem(name)))
        elif reader:
            others.append(_file_unit(reader, name, side))
    units = list(_papers(sources, side, skips))
    paper_folders = {posixpath.dirname(unit.path) for unit in units}
    # a PDF beside a paper is one of its figures
    units += (unit for unit in others if unit.reader != "pdf" or not _is_inside(unit.path, paper_folders))
    units = _select(units, options.reader)
    if not units and not skips:
        raise InputError("nothing in it can be read (LaTeX, archives, tables, text or PDF)", file=str(path))
    return Source(path, _distinct(units), skips)


def _is_inside(path: str, folders: Iterable[str]) -> bool:
    return any(folder == "" or path.startswith(folder + "/") for folder in folders)


def _select(units: list[Unit], reader: str) -> list[Unit]:
    """The units of a folder that a reader named by the user takes."""
    if reader == "auto":
        return units
    if reader == "logs":
        return [unit if unit.reader == "hierarchy" else replace(unit, reader="logs") for unit in units]
    if reader == "hierarchy":
        return [replace(unit, reader=reader) for unit in units if unit.reader in ("hierarchy", "logs")]
    accepted = ("paper", "package") if reader == "papers" else (reader,)
    return [unit for unit in units if unit.reader in accepted]


def _file_unit(reader: str, name: str, side: _SideMetadata) -> Unit:
    arxiv = arxiv_id_of_file(name)
    document = posixpath.join(posixpath.dirname(name), arxiv) if reader == "package" and arxiv else _stem(name)
    return Unit(reader, name, document, side.get(document) or side.get(arxiv) or {})


def _single(path: Path, options: IngestOptions, skips: list[Skip]) -> Unit:
    side = _side_metadata(path.parent, [p.name for p in path.parent.glob("metadata.*")], skips)
    reader = _reader_of(path, named=True)
    if options.reader == "papers":
        reader = "package" if reader == "package" else "paper"
    elif options.reader != "auto":
        reader = options.reader
    elif reader == "rows":
        reader = _rows_reader(path, options)
    unit = _file_unit(reader, path.name, side)
    # the archive itself is the root, so the documents in it need no prefix
    return replace(unit, document=arxiv_id_of_file(path.name)) if reader == "package" else unit


def _papers(sources: Mapping[str, str], side: _SideMetadata, skips: list[Skip]) -> Iterator[Unit]:
    """One unit per main file; a file that no main file includes is a paper only where there is no main file."""
    included: set[str] = set()
    for name, text in sources.items():
        for other in included_files(text):
            for folder in {"", posixpath.dirname(name)}:
                target = posixpath.normpath(posixpath.join(folder, other))
                included.update(candidate for candidate in (target, target + ".tex") if candidate in sources)
    roots = [name for name in sources if name not in included]
    mains = [n for n in roots if is_main(sources[n]) or (has_class(sources[n]) and included_files(sources[n]))]
    main_folders = {posixpath.dirname(name) for name in mains}
    for name in roots:
        document = _stem(name)
        if name in mains:
            newer = stale_copy_of(name, mains)
            if newer is None:
                yield Unit("paper", name, document, side.get(document) or side.get(arxiv_id_of_file(document)) or {})
            else:
                skips.append(Skip(name, 0, f"looks like an old copy of {newer}"))
        elif _is_inside(name, main_folders):
            skips.append(Skip(name, 0, "no main file includes it"))
        else:
            yield Unit("paper", name, document, side.get(document) or {}, confidence=0.4)


def _distinct(units: Sequence[Unit]) -> list[Unit]:
    """The units by path; where several would have the same id, all but the first keep their suffix in it."""
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
        return path.read_bytes() if path.resolve().is_relative_to(base.resolve()) else None
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
    """Whether JSON lines are logs or passages: logs have a location or related logs, or columns were named."""
    if options.reader in ("logs", "passages"):
        return options.reader
    if options.columns != Columns():
        return "logs"
    with open_decompressed(path) as stream:
        first = next(_rows(stream, path.name, []), None)
    return "logs" if first and {"location", "related"} & first[1].keys() else "passages"


def _hash_file(path: Path) -> str:
    try:
        return sha256_of([path])
    except OSError:
        return ""


def fingerprint(unit: Unit, options: IngestOptions) -> str:
    """A hash of what determines the reading of a unit besides the content of its files."""
    settings = options.papers if unit.reader in ("paper", "package", "text", "pdf") else options.columns
    parts = [_READING, unit.reader, unit.document, sorted(unit.metadata.items()), unit.confidence, asdict(settings)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def is_unchanged(base: Path, files: Mapping[str, str], hashes: dict[str, str]) -> bool:
    """Whether all files that a unit was read from are as they were; missing files must still be missing.

    `hashes` caches the hashes, for the preamble that a hundred chapters share.
    """
    for name, digest in files.items():
        if name not in hashes:
            hashes[name] = _hash_file(base / name)
        if hashes[name] != digest:
            return False
    return bool(files)


def read_unit(base: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    """The readings of a unit. Problems are skips, or an InputError where nothing can be read."""
    path = base / unit.path
    files = {} if unit.reader == "paper" else {unit.path: _hash_file(path)}  # a paper lists its files itself
    for reading in _read(base, path, unit, options):
        if files:
            reading = replace(reading, files=files)
            files = {}
        yield _with_metadata(reading, unit.metadata) if unit.metadata else reading


def _read(base: Path, path: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    papers = options.papers
    if unit.reader == "paper":
        main = Main(unit.path, unit.confidence)
        try:
            yield read_paper(partial(_read_file, base), main, unit.document, papers)
        except FileNotFoundError as error:
            raise InputError("the file no longer exists, or it is too large", file=unit.path) from error
        return
    if unit.reader == "package":
        package = read_package(path, is_source_file)
        arxiv = arxiv_id_of_file(unit.path)
        skips = list(package.skips)
        for reading in read_package_papers(package.files, unit.document or arxiv, papers, single_paper=bool(arxiv)):
            skips += reading.skips
            placed = [Skip(f"{unit.path}/{skip.file}" if skip.file else unit.path, *skip[1:]) for skip in skips]
            yield replace(reading, skips=placed, files={})
            skips = []
        return
    with open_decompressed(path) as stream:
        if unit.reader in ("text", "pdf"):
            data = stream.read(_LARGEST_FILE + 1)
            if len(data) > _LARGEST_FILE:
                raise InputError(_TOO_LARGE, file=unit.path)
            read: Callable[..., Reading] = read_pdf if unit.reader == "pdf" else read_text
            yield read(data, unit.document, unit.path, size=papers.chunk_size, overlap=papers.chunk_overlap)
            return
        skips = []
        rows = _rows(stream, unit.path, skips)
        if unit.reader == "hierarchy":
            yield read_hierarchy(rows, file=unit.path)
        elif unit.reader == "logs":
            yield from read_logs(rows, document=unit.document, file=unit.path, columns=options.columns)
        else:
            assert unit.reader == "passages", unit.reader
            yield from read_passages(rows, file=unit.path)
        if skips:
            yield Reading(skips=skips)


_DOCUMENT_KEYS = ("id", "document", "title", "authors", "date", "created", "categories", "abstract")


def _with_metadata(reading: Reading, side: Mapping[str, Any]) -> Reading:
    """The reading with the metadata of the side file in its document; that wins over the paper's own."""
    documents = []
    passages = list(reading.passages)
    for document in reading.documents:
        authors = side.get("authors") or document.authors
        if isinstance(authors, str):
            authors = [name.strip() for name in re.split(r";|\band\b|,", authors) if name.strip()]
        categories = side.get("categories") or document.categories
        if isinstance(categories, str):
            categories = re.split(r"[\s,;]+", categories.strip())
        extra = {key: value for key, value in side.items() if key not in _DOCUMENT_KEYS and value not in ("", None)}
        date = side.get("date") or side.get("created") or document.date
        documents.append(
            replace(
                document,
                title=str(side.get("title") or document.title),
                authors=tuple(map(str, authors)),
                date=str(date) if date else None,
                categories=tuple(map(str, categories)),
                metadata={**document.metadata, **extra},
            )
        )
        if side.get("abstract") and not any(passage.kind == "abstract" for passage in passages):
            identity = f"{document.id}#abstract-1"
            passages.insert(0, Passage(identity, document.id, "abstract", " ".join(str(side["abstract"]).split())))
    return replace(reading, documents=documents, passages=passages)


def read_whole_unit(task: tuple[Path, Unit, IngestOptions]) -> list[Reading] | str:
    """All readings of a unit, or one sentence with the error; raises nothing, as it runs in worker processes."""
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
