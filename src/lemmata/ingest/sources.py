"""Units under a path: which files belong together, which reader takes them, and the ids of their documents.

A unit is the smallest thing that is read, hashed and replaced as a whole: a paper with the files it includes,
an archive, a table, a text. Finding units opens files but does not parse them.
"""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

from lemmata.core.archives import name_fault, open_decompressed, printable, read_package, sniff
from lemmata.core.errors import ConfigError, InputError, LemmataError
from lemmata.core.files import sha256_of
from lemmata.core.types import Label, Passage, Reading, Skip
from lemmata.core.workers import count_step, time_limit
from lemmata.ingest.beir import read_passages
from lemmata.ingest.dates import read_date
from lemmata.ingest.figures import Graphics, find_figures, folders_above, is_image, note_figures, read_graphics, stem_of
from lemmata.ingest.front_matter import arxiv_id_of_file
from lemmata.ingest.logs import Columns, csv_rows, jsonl_rows, parquet_rows, read_hierarchy, read_logs
from lemmata.ingest.paper_state import PaperOptions
from lemmata.ingest.papers import is_source_file, read_package_papers, read_paper
from lemmata.ingest.references import bibliographies_beside, bibliographies_by_folder
from lemmata.ingest.text import read_pdf, read_text
from lemmata.latex.mains import Main, has_class, included_files, is_main, stale_copy_of
from lemmata.latex.source import decode, flatten

READERS = ("auto", "papers", "logs", "hierarchy", "passages", "text", "pdf")
_TEX = (".tex", ".ltx", ".texx")
_TEXT = (".md", ".markdown", ".txt", ".text", ".rst")
_TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
_ARCHIVES = (".tar", ".tgz", ".zip", ".txz", ".tbz2", *_COMPRESSED)
_SIDE_FILE = re.compile(r"metadata\.(?:jsonl|csv)(?:\.\w+)?")
_ABOUT = re.compile(r"(?:readme|license|licence|copying|changelog|contributing|authors|notice)(?:\.|$)", re.I)
# Files that only LaTeX uses or writes: in a folder with a paper, or below it, they need no note.
_OF_LATEX = re.compile(
    r"latexmkrc|00readme.*|.*\.(?:synctex\.gz|synctex|run\.xml|pdf_tex|pdf_t|pstex_t|pstex|fdb_latexmk|pgf|tikz|asy|mp|"
    r"aux|toc|lo[aeft]|bbl|bib|blg|bcf|bst|bbx|cbx|lbx|dbx|sty|cls|clo|ldf|fd|dtx|ist|ilg|"
    r"gl[gos]|ac[nr]|brf|nav|snm|vrb|thm|fls|dvi|xdv|tfm|vf|pf[ab]|afm|ttf|otf)",
    re.I,
)
# Names that other programs use, too: they need no note in a folder with TeX.
_OF_ANYTHING = re.compile(r"makefile|.*\.(?:log|out|def|cfg|ins|ind|idx|alg|spl|bak|swp|tmp|orig)", re.I)
# test data beside a corpus must never get into it; summaries are about its passages, and none themselves
_TEST_DATA = r"qrels(?:/.*|[^/]*\.tsv)|queries[^/]*\.jsonl|withheld[^/]*\.tsv"
_NO_PASSAGES = re.compile(rf"(?:^|/)(?:{_TEST_DATA}|summaries[^/]*\.jsonl)(?:\.\w+)?$", re.I)
_READING = 4  # raised when the readers change, so that everything is read again
_START = 4096  # bytes that decide what a file is
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
    bibliographies: tuple[str, ...] = ()  # .bib files beside a paper, for one that names none
    prefix: str = ""  # in front of the ids that come from the content, where another unit has some of them

    @property
    def ids_from_content(self) -> bool:
        """Whether all ids come from the content: its documents have none that is made from the path."""
        return self.reader in ("passages", "hierarchy") or not self.document


class Source(NamedTuple):
    """A path given by the user: the folder of its files, its units, and what was skipped."""

    base: Path
    units: list[Unit]
    skips: list[Skip]


# ---------------------------------------------------------------- finding


def _stem(path: str) -> str:
    """A path without its suffix; a compression suffix is removed, too."""
    base, suffix = posixpath.splitext(path)
    if suffix.lower() in _COMPRESSED:
        base, suffix = posixpath.splitext(base) if not re.search(r"\.\d+$", base) else (base, "")
        return base if suffix.lower() in (*_TEX, *_TEXT, *_TABLES, ".tar", ".pdf", "") else base + suffix
    return base if suffix.lower() in (*_TEX, *_TEXT, *_TABLES, *_ARCHIVES, ".pdf") else path


_CONTROL = bytes({*range(32), 127} - set(b"\t\n\v\f\r\x1a\x1b"))
_EMPTY = "the file is empty"
_BINARY = "it is binary data, not text"


def _flaw(start: bytes) -> str:
    """Why a file with these first bytes is not text; "" if it may be."""
    if not start.strip():
        return _EMPTY
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):  # UTF-16
        return ""
    controls = len(start) - len(start.translate(None, _CONTROL))
    return _BINARY if 50 * controls > len(start) else ""  # text has hardly any, random bytes have 10 %


def _reader_of(path: Path, *, named: bool) -> tuple[str, str]:
    """The reader for a file ("" if there is none), and why the file cannot be read ("" if it can).

    The reader of JSON lines is "rows"; `_rows_reader` decides what they are. A file `named` by the user is read
    whatever its suffix is.
    """
    with path.open("rb") as stream:
        start = stream.read(_START)
    reader = _reader_by_content(path, start, named=named)
    is_text = reader in ("", "text", "paper", "rows", "logs", "hierarchy") and not sniff(start[:512])
    if not start or (is_text and ".parquet" not in path.suffixes):
        return reader, _flaw(start)
    return reader, ""


def _reader_by_content(path: Path, start: bytes, *, named: bool) -> str:
    """The reader for a file, by content where possible, else by name."""
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
    if not content and is_archive_name:  # not an archive: uncompressed TeX under that name, or damaged
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


def _unreadable(name: str, error: OSError) -> Skip:
    return Skip(name, 0, f"it cannot be read ({error.strerror})")


def _walk(base: Path, skips: list[Skip]) -> Iterator[str]:
    """Regular files below a folder, sorted, without hidden files and junk. Links that are not followed are skips."""
    home = base.resolve()

    def below(path: Path) -> str:
        return path.relative_to(base).as_posix()

    def skip_folder(error: OSError) -> None:
        skips.append(Skip(printable(below(Path(error.filename))), 0, f"the folder cannot be read ({error.strerror})"))

    def usable(path: Path, what: str) -> bool:
        """Whether the name can be part of an id, and a link leads to a file inside; the folders above were checked."""
        fault = name_fault(path.name) or name_fault(below(path))
        if not fault and path.is_symlink() and not (path.is_file() and path.resolve().is_relative_to(home)):
            fault = "it is a link that is not followed"
        if fault:
            skips.append(Skip(printable(below(path)), 0, what + fault))
        return not fault

    for folder, folders, files in os.walk(base, onerror=skip_folder):
        listed = sorted(name for name in folders if not name.startswith(".") and name != "__MACOSX")
        folders[:] = [name for name in listed if usable(Path(folder, name), "the folder was not read: ")]
        for name in sorted(files):
            path = Path(folder, name)
            if name.startswith(".") or name.endswith("~"):
                continue
            try:
                readable = (path.is_file() or path.is_symlink()) and usable(path, "")
            except OSError as error:
                skips.append(_unreadable(printable(below(path)), error))
                continue
            if readable:
                yield below(path)


def _side_metadata(base: Path, names: Iterable[str], skips: list[Skip]) -> dict[str, dict[str, Any]]:
    """The records of `metadata.jsonl` or `metadata.csv` at the root, by document id."""
    records: dict[str, dict[str, Any]] = {}
    for name in filter(_SIDE_FILE.fullmatch, names):
        try:
            with open_decompressed(base / name) as stream:
                for line, row in _rows(stream, name, skips):
                    identity = str(row.get("id") or row.get("document") or row.get("arxiv") or "")
                    if not identity:
                        skips.append(Skip(name, line, "metadata without an id"))
                        continue
                    records[identity] = dict(row)
                    date = _written_date(row)
                    if date and read_date(date) is None:
                        skips.append(Skip(name, line, f"{identity!r} is kept without its unclear date {date!r}"))
        except InputError as error:
            skips.append(Skip(name, error.line, error.cause))
        except OSError as error:
            skips.append(_unreadable(name, error))
    return records


def find_units(path: Path, options: IngestOptions) -> Source:
    """The units under a file or folder, in a fixed order. Raises InputError when there is nothing to read.

    Two units may ask for the same id. The caller decides which gets it, as that depends on the corpus.
    """
    if fault := name_fault(str(path.absolute())):
        raise InputError(fault, file=printable(str(path)))
    if not path.exists():
        raise InputError("there is no such file or folder", file=str(path))
    skips: list[Skip] = []
    if path.is_file():
        return Source(path.parent, [_single(path, options, skips)], skips)
    if not path.is_dir():
        raise InputError("this is neither a file nor a folder", file=str(path))
    names = list(_walk(path, skips))
    side = _side_metadata(path, names, skips)
    beir = {posixpath.dirname(n) for n in names if re.fullmatch(r"corpus\.jsonl(?:\.\w+)?", posixpath.basename(n))}
    others: list[Unit] = []
    sources: dict[str, _TexFile] = {}
    unread: dict[str, str] = {}  # files without a reader, and why they are no text ("" if they are)
    beside: list[str] = []  # files that need no note beside a paper
    pictures = [name for name in names if is_image(name) or name.lower().endswith(".pdf")]
    stems = {posixpath.basename(stem_of(name)) for name in pictures}
    for name in names:
        base = posixpath.basename(name)
        if _NO_PASSAGES.search(name) or _SIDE_FILE.fullmatch(name) or _ABOUT.match(base):
            continue
        if is_image(name) or _OF_LATEX.fullmatch(base) or _OF_ANYTHING.fullmatch(base):
            beside.append(name)
            continue
        try:
            reader, flaw = _reader_of(path / name, named=False)
        except OSError as error:
            skips.append(_unreadable(name, error))
            continue
        if reader == "paper":
            data = _read_file(path, name)
            if data is None:
                skips.append(Skip(name, 0, _TOO_LARGE))
            else:
                sources[name] = _tex_file(decode(data), flaw, stems)
        elif posixpath.dirname(name) in beir and not base.startswith("corpus.jsonl"):
            continue  # a BEIR folder is its corpus.jsonl
        elif reader and flaw:
            skips.append(Skip(name, 0, flaw))
        elif reader == "rows":
            others.append(Unit(_rows_reader(path / name, name, options, skips), name, _stem(name)))
        elif reader:
            others.append(_file_unit(reader, name, side))
        else:
            unread[name] = flaw
    bibliographies = bibliographies_by_folder(names)
    units = [
        replace(unit, bibliographies=bibliographies_beside(unit.path, bibliographies))
        for unit in _papers(sources, side, skips)
    ]
    figures = _figures(path, pictures, sources, units) if pictures and sources else {}
    pdf_figures = {unit.path: figures[unit.path] for unit in others if unit.reader == "pdf" and unit.path in figures}
    skips += note_figures(pdf_figures)
    units += (unit for unit in others if unit.path not in pdf_figures)
    no_note = {*figures, *(name for unit in units for name in unit.bibliographies)}
    tex_folders = {posixpath.dirname(name) for name in sources}
    units = _select(units, options.reader, skips)
    for name in beside:
        if name not in no_note and not _is_by_product(name, tex_folders):
            try:
                unread[name] = _reader_of(path / name, named=False)[1]
            except OSError as error:
                skips.append(_unreadable(name, error))
    skips += _unread_files(unread, sources)
    if not units:
        reason = f"{skips[0].file}: {skips[0].cause}" if skips else "LaTeX, archives, tables, text or PDF"
        reason += f", and {len(skips) - 1:,} more" if len(skips) > 1 else ""
        raise InputError(f"nothing in it can be read ({reason})", file=str(path))
    return Source(path, sorted(units, key=lambda unit: unit.path), skips)


class _TexFile(NamedTuple):
    """What decides whether a TeX file is a paper; the text itself is not kept, as a folder may hold many."""

    is_main: bool
    included: tuple[str, ...]  # names, as written
    flaw: str  # why it is no text; a skip unless another file includes it
    graphics: Graphics


def _tex_file(text: str, flaw: str, stems: Container[str]) -> _TexFile:
    """What counts of a TeX file; `stems` are the names of the files in its folder tree that may be figures."""
    included = tuple(included_files(text))
    graphics = read_graphics(text, stems) if stems else Graphics()
    return _TexFile(is_main(text) or (has_class(text) and bool(included)), included, flaw, graphics)


def _figures(
    base: Path, pictures: Sequence[str], sources: Mapping[str, _TexFile], papers: Iterable[Unit]
) -> dict[str, str]:
    """Those of the pictures that are figures of the papers, with the reason."""
    texts = {name: source for name, source in sources.items() if not source.flaw}
    included = {name: _included({name: source}, texts) for name, source in texts.items() if source.included}
    mains = (name for name, source in texts.items() if source.is_main)

    def read(name: str) -> str | None:
        data = _read_file(base, name)
        return None if data is None else decode(data)

    return find_figures(
        pictures,
        {name: source.graphics for name, source in texts.items()},
        papers={*mains, *(unit.path for unit in papers), *(name for names in included.values() for name in names)},
        included=included,
        read=read,
    )


def _is_by_product(name: str, tex_folders: Container[str]) -> bool:
    """Whether a file that is no figure belongs to the TeX around it, as its settings and what LaTeX writes do."""
    if is_image(name):
        return False
    of_latex = _OF_LATEX.fullmatch(posixpath.basename(name)) is not None
    return posixpath.dirname(name) in tex_folders or (of_latex and _is_inside(name, tex_folders))


def _unread_files(unread: Mapping[str, str], sources: Mapping[str, _TexFile]) -> Iterator[Skip]:
    """One skip per suffix for the files that no reader takes, without those that are empty or that a paper includes."""
    included = _included(sources, unread) if unread else set()
    by_suffix: dict[str, list[str]] = {}
    for name, flaw in unread.items():
        if name not in included and flaw != _EMPTY:
            by_suffix.setdefault(posixpath.splitext(name)[1].lower(), []).append(name)
    for suffix, names in by_suffix.items():
        which = f"with the suffix {suffix}" if suffix else "without a suffix"
        many = f"{len(names):,} files {which} are not read, first {names[0]}"
        cure = unread[names[0]] or "name a file to read it as text"
        yield Skip(names[0], 0, f"{many if len(names) > 1 else f'1 file {which} is not read'}: {cure}")


def _included(sources: Mapping[str, _TexFile], names: Container[str]) -> set[str]:
    """Those of the names that one of the sources includes."""
    included: set[str] = set()
    for name, source in sources.items():
        for other in source.included:
            for folder in {"", posixpath.dirname(name)}:
                target = posixpath.normpath(posixpath.join(folder, other))
                included.update(candidate for candidate in (target, target + ".tex") if candidate in names)
    return included


def _is_inside(path: str, folders: Container[str]) -> bool:
    return any(folder in folders for folder in folders_above(path))


_ACCEPTED = {
    "papers": ("paper", "package"),
    "logs": ("logs", "hierarchy", "passages"),
    "hierarchy": ("hierarchy", "logs"),
}


def _select(units: list[Unit], reader: str, skips: list[Skip]) -> list[Unit]:
    """The units of a folder for the reader that the user named; the others are skips."""
    if reader == "auto":
        return units
    accepted = _ACCEPTED.get(reader, (reader,))
    taken = [unit for unit in units if unit.reader in accepted]
    refused = (unit for unit in units if unit.reader not in accepted)
    skips += (Skip(unit.path, 0, f"it is nothing for the reader {reader}") for unit in refused)
    if reader == "logs":
        return [unit if unit.reader == "hierarchy" else replace(unit, reader=reader) for unit in taken]
    return [replace(unit, reader=reader) for unit in taken] if reader == "hierarchy" else taken


def _file_unit(reader: str, name: str, side: _SideMetadata) -> Unit:
    arxiv = arxiv_id_of_file(name)
    document = posixpath.join(posixpath.dirname(name), arxiv) if reader == "package" and arxiv else _stem(name)
    return Unit(reader, name, document, side.get(document) or side.get(arxiv) or {})


def _single(path: Path, options: IngestOptions, skips: list[Skip]) -> Unit:
    side = _side_metadata(path.parent, [p.name for p in path.parent.glob("metadata.*")], skips)
    reader, flaw = _reader_of(path, named=True)
    if flaw:
        raise InputError(flaw, file=str(path))
    if options.reader == "papers":
        reader = "package" if reader == "package" else "paper"
    elif options.reader != "auto":
        reader = options.reader
    elif reader == "rows":
        reader = _rows_reader(path, path.name, options, skips)
    unit = _file_unit(reader, path.name, side)
    if reader == "paper":
        files = [file.name for file in path.parent.glob("*.bib")]
        return replace(unit, bibliographies=bibliographies_by_folder(files).get("", ()))
    # the archive itself is the root, so the documents in it need no prefix
    return replace(unit, document=arxiv_id_of_file(path.name)) if reader == "package" else unit


def _papers(sources: Mapping[str, _TexFile], side: _SideMetadata, skips: list[Skip]) -> Iterator[Unit]:
    """One unit per main file. Another file that nothing includes is a paper only in a folder without a main file."""
    included = _included(sources, sources)
    roots = [name for name in sources if name not in included]
    mains = {name for name in roots if sources[name].is_main}
    main_folders = {posixpath.dirname(name) for name in mains}
    for name in roots:
        document = _stem(name)
        if flaw := sources[name].flaw:
            skips.append(Skip(name, 0, flaw))
        elif name in mains:
            newer = stale_copy_of(name, mains)
            if newer is None:
                yield Unit("paper", name, document, side.get(document) or side.get(arxiv_id_of_file(document)) or {})
            else:
                skips.append(Skip(name, 0, f"looks like an old copy of {newer}"))
        elif _is_inside(name, main_folders):
            skips.append(Skip(name, 0, "no main file includes it"))
        else:
            yield Unit("paper", name, document, side.get(document) or {}, confidence=0.4)


# ---------------------------------------------------------------- ids


def alternative_names(base: Path, unit: Unit, *, keep_suffix: bool) -> Iterator[str]:
    """Endless other names for a unit, best first: for its document, or as the prefix of its ids.

    First the path with its suffix (only if `keep_suffix`, for a clash inside one source), then the path with more and
    more of the folders above it, then with a number.
    """
    name = unit.document
    if unit.ids_from_content:
        name = _stem(unit.path)
        if posixpath.basename(name) == "corpus":  # a BEIR collection has the name of its folder
            name = posixpath.dirname(name)
        if name:
            yield name
    elif keep_suffix and unit.path != name:
        yield unit.path
    folders = base.resolve().parts[1:]
    for number in range(1, len(folders) + 1):
        yield posixpath.join(*folders[-number:], name).rstrip("/")
    for number in count(2):
        yield f"{name or folders[-1]}~{number}"


def place_of(identity: str, file: str, document: str, prefix: str) -> str:
    """The path of a document without suffix; an archive counts as a folder."""
    if document:
        return _stem(file) + identity.removeprefix(document)
    return posixpath.join(_stem(file), identity.removeprefix(prefix))


# ---------------------------------------------------------------- reading


def _read_file(base: Path, name: str, main: str = "") -> bytes | None:
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
        raise InputError(_TOO_LARGE, file=name)
    return data


def _rows(stream: BinaryIO, name: str, skips: list[Skip]) -> Iterator[tuple[int, dict[str, Any]]]:
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if ".parquet" in suffixes:
        return parquet_rows(stream if stream.seekable() else io.BytesIO(_read_all(stream, name)))
    if ".jsonl" in suffixes or ".ndjson" in suffixes:
        return jsonl_rows(stream, lambda line, cause: skips.append(Skip(name, line, cause)))
    return csv_rows(stream, lambda line, cause: skips.append(Skip(name, line, cause)))


def named_columns(columns: Columns) -> dict[str, str]:
    """The columns that are not the usual ones, by option."""
    usual = asdict(Columns())
    return {option: column for option, column in asdict(columns).items() if column != usual[option]}


def _rows_reader(path: Path, name: str, options: IngestOptions, skips: list[Skip]) -> str:
    """The reader of JSON lines: logs have a column `location` or `related`, or all columns that the user named."""
    if options.reader in ("logs", "passages"):
        return options.reader
    try:
        with open_decompressed(path) as stream:
            rows = [row.keys() for _, row in islice(_rows(stream, name, []), 100)]
    except (InputError, OSError):
        return "passages"  # reading it fails too, and says why
    keys = set().union(*rows)
    named = named_columns(options.columns)
    missing = [f"{column!r} (--{option})" for option, column in named.items() if column and column not in keys]
    if named and rows and not missing:
        return "logs"
    reader = "logs" if rows and {"location", "related"} & rows[0] else "passages"
    if missing and reader == "passages":
        skips.append(Skip(name, 0, f"it has no column {', '.join(missing)}: it was read as passages, not as logs"))
    return reader


def _hash_file(path: Path) -> str:
    try:
        return sha256_of([path])
    except OSError:
        return ""


def with_preamble(options: IngestOptions, folder: Path) -> IngestOptions:
    """The options with the path of the preamble, which may be relative to `folder`, made absolute."""
    _preamble.cache_clear()
    if not options.papers.preamble:
        return options
    path = (folder / options.papers.preamble).absolute()
    if not path.is_file():
        raise ConfigError(f"[ingest] preamble = {options.papers.preamble!r}: there is no file {path}")
    return replace(options, papers=replace(options.papers, preamble=str(path)))


@lru_cache(maxsize=1)
def _preamble(path: str) -> str:
    """The definitions in a preamble and in the files that it includes, without comments."""
    if not path:
        return ""

    def read(name: str) -> str | None:
        data = _read_file(Path(path).parent, name, Path(path).name)
        return None if data is None else decode(data)

    try:
        flat = flatten(read, Path(path).name)
    except FileNotFoundError as error:
        raise InputError("the preamble cannot be read, or it is too large", file=path) from error
    return re.sub(r"\\begin\s*\{document\}$", "", flat.text[: flat.body]) if flat.body else flat.text


def fingerprint(unit: Unit, options: IngestOptions) -> str:
    """A hash of what determines the reading of a unit besides the content of its files."""
    settings = asdict(options.papers if unit.reader in ("paper", "package", "text", "pdf") else options.columns)
    if "preamble" in settings:  # its content counts, not its place
        is_paper = unit.reader in ("paper", "package")
        settings["preamble"] = hashlib.sha256(_preamble(options.papers.preamble).encode()).hexdigest() * is_paper
    metadata = sorted(unit.metadata.items())
    names = [unit.reader, unit.document, unit.prefix]
    parts = [_READING, *names, metadata, unit.confidence, unit.bibliographies, settings]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def is_unchanged(base: Path, files: Mapping[str, str], hashes: dict[str, str]) -> bool:
    """Whether all files that a unit was read from are as they were; missing files must still be missing.

    `hashes` caches file hashes between calls, as many papers may share a file.
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
        reading = _with_metadata(reading, unit.metadata) if unit.metadata else reading
        yield _with_prefix(reading, unit.prefix, unit.document) if unit.prefix else reading


def _read(base: Path, path: Path, unit: Unit, options: IngestOptions) -> Iterator[Reading]:
    papers = options.papers
    if unit.reader == "paper":
        main = Main(unit.path, unit.confidence)
        read_bytes = partial(_read_file, base, main=unit.path)
        preamble = _preamble(papers.preamble)
        try:
            yield read_paper(read_bytes, main, unit.document, papers, preamble=preamble, beside=unit.bibliographies)
        except FileNotFoundError as error:
            raise InputError("the file no longer exists, or it is too large", file=unit.path) from error
        return
    if unit.reader == "package":
        names: dict[str, None] = {}

        def wanted(name: str) -> bool:
            names[name] = None
            return is_source_file(name)

        package = read_package(path, wanted)
        arxiv = arxiv_id_of_file(unit.path)
        skips = [*package.skips, *_other_content(names)]

        def load(name: str) -> bytes | None:
            return read_package(path, name.__eq__).files.get(name)

        for reading in read_package_papers(
            package.files,
            unit.document or arxiv,
            papers,
            single_paper=bool(arxiv),
            preamble=_preamble(papers.preamble),
            load=load,
        ):
            skips += reading.skips
            placed = [Skip(f"{unit.path}/{skip.file}" if skip.file else unit.path, *skip[1:]) for skip in skips]
            yield replace(reading, skips=placed, files={})
            skips = []
        return
    with open_decompressed(path) as stream:
        if unit.reader in ("text", "pdf"):
            data = _read_all(stream, unit.path)
            if unit.reader == "text" and (flaw := _flaw(data[:_START])):  # of a compressed file
                raise InputError(flaw, file=unit.path)
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


def _other_content(names: Iterable[str]) -> list[Skip]:
    """One skip for the tables and texts of an archive, of which only the LaTeX is read."""
    suffixes = {*_TABLES, *_TEXT} - {".txt"}  # a paper may include a .txt
    bases = {name: posixpath.basename(name) for name in names if "__MACOSX" not in name.split("/")}
    others = [name for name, base in bases.items() if posixpath.splitext(base)[1].lower() in suffixes]
    others = [name for name in others if not bases[name].startswith(".") and not _ABOUT.match(bases[name])]
    if not others:
        return []
    number = "1 file that is no LaTeX was" if len(others) == 1 else f"{len(others):,} files that are no LaTeX were"
    return [Skip("", 0, f"{number} not read, first {others[0]}: unpack the archive to read such files")]


_DOCUMENT_KEYS = ("id", "document", "title", "authors", "date", "created", "categories", "abstract")


def _written_date(side: Mapping[str, Any]) -> str:
    return str(side.get("date") or side.get("created") or "").strip()


def _with_metadata(reading: Reading, side: Mapping[str, Any]) -> Reading:
    """The reading with the metadata of the side file, which wins over the paper's own."""
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
        written_date = _written_date(side)
        date = read_date(written_date)
        if written_date and date is None:
            extra["date"] = written_date
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
            identity = f"{document.id}#abstract-1"
            passages.insert(0, Passage(identity, document.id, "abstract", " ".join(str(side["abstract"]).split())))
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


def read_whole_unit(task: tuple[Path, Unit, IngestOptions]) -> list[Reading] | str:
    """All readings of a unit, or one sentence with the error; raises nothing, as it runs in worker processes."""
    base, unit, options = task
    readings: list[Reading] = []
    if not base.exists():
        return f"the machine that reads it has no folder {base}: all nodes of a cluster must share it"
    try:
        rest = read_unit(base, unit, options)
        while True:
            with time_limit(options.seconds):
                reading = next(rest, None)
            if reading is None:
                return readings
            readings.append(reading)
            count_step()
    except InputError as error:
        return error.cause
    except OSError as error:
        return error.strerror or str(error)
    except LemmataError as error:
        return str(error)
    except MemoryError:
        return "memory ran out while it was read: split it into smaller files, or read with fewer --workers"
    except Exception as error:
        return f"lemmata failed on it, please report this: {type(error).__name__}: {error}"
