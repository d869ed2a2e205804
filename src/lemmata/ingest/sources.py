"""Units under a path: which files belong together, which reader takes them, and the ids of their documents.

A unit is the smallest thing that is read, hashed and replaced as a whole: a paper with the files it includes,
an archive, a table, a text. Finding units opens files but does not parse them.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

from lemmata.core.archives import name_fault, open_decompressed, printable, sniff
from lemmata.core.errors import InputError
from lemmata.core.files import Remembered
from lemmata.core.types import Skip
from lemmata.core.workspace import FOLDERS
from lemmata.ingest.citation_graphs import GraphFiles, find_graphs
from lemmata.ingest.dates import read_date
from lemmata.ingest.figures import Graphics, find_figures, folders_above, is_image, note_figures, read_graphics, stem_of
from lemmata.ingest.front_matter import arxiv_id_of_file
from lemmata.ingest.logs import recognise_columns, tree_columns
from lemmata.ingest.readers import (
    ABOUT,
    EMPTY,
    START,
    TABLE_SUFFIXES,
    TEXT_SUFFIXES,
    TOO_LARGE,
    IngestOptions,
    Unit,
    flaw_of,
    read_file,
    reader_of_rows,
    rows_of,
    written_date,
)
from lemmata.ingest.references import bibliographies_beside, bibliographies_by_folder
from lemmata.latex.flatten import flatten
from lemmata.latex.mains import (
    TEX_SUFFIXES,
    TexFile,
    format_file_of,
    included_among,
    read_tex_file,
    stale_copy_of,
    wrappers,
)
from lemmata.latex.source import decode

_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
_ARCHIVES = (".tar", ".tgz", ".zip", ".txz", ".tbz2", *_COMPRESSED)
_OFFICE = {  # what to do with files of an office program, whose content is a zip or no text
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "save each sheet as CSV"),
    **dict.fromkeys((".docx", ".docm", ".doc", ".odt", ".rtf", ".pptx", ".ppt", ".odp"), "save it as PDF or as text"),
}
_SIDE_FILE = re.compile(r"metadata\.(?:jsonl|csv)(?:\.\w+)?")
_BEIR_FILE = re.compile(r"corpus\.jsonl(?:\.\w+)?")
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
_OF_WORKSPACE = (*FOLDERS, "cache")
_SideMetadata = Mapping[str, Mapping[str, Any]]  # by document id


class Source(NamedTuple):
    """A path given by the user: the folder of its files, its units, and what was skipped."""

    base: Path
    units: list[Unit]
    skips: list[Skip]


# ---------------------------------------------------------------- the reader of a file


def _stem(path: str) -> str:
    """A path without its suffix; a compression suffix is removed, too."""
    read = (*TEX_SUFFIXES, *TEXT_SUFFIXES, *TABLE_SUFFIXES, ".pdf", ".net")
    base, suffix = posixpath.splitext(path)
    if suffix.lower() in _COMPRESSED:
        base, suffix = posixpath.splitext(base) if not re.search(r"\.\d+$", base) else (base, "")
        return base if suffix.lower() in (*read, ".tar", "") else base + suffix
    return base if suffix.lower() in (*read, *_ARCHIVES) else path


def _reader_of(path: Path, *, named: bool = False) -> tuple[str, str]:
    """The reader for a file ("" if there is none), and why the file cannot be read ("" if it can).

    The reader of JSON lines is "rows"; `reader_of_rows` decides what they are. A file `named` by the user is read
    whatever its suffix is.
    """
    with path.open("rb") as stream:
        start = stream.read(START)
    if start and (cure := _OFFICE.get(path.suffix.lower())):
        return "", f"files of office programs are not read: {cure}"
    reader = _reader_by_content(path, start, named=named)
    is_text = reader in ("", "text", "paper", "rows", "logs", "hierarchy") and not sniff(start[:512])
    if not start or (is_text and ".parquet" not in path.suffixes):
        return reader, flaw_of(start)
    return reader, ""


def _reader_by_content(path: Path, start: bytes, *, named: bool) -> str:
    """The reader for a file, by content where possible, else by name."""
    content = sniff(start[:512])
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = next((suffix for suffix in reversed(suffixes) if suffix not in _COMPRESSED), "")
    is_archive_name = bool(suffixes) and suffixes[-1] in _ARCHIVES
    if content in ("tar", "zip"):
        return "package"
    if content in ("gzip", "xz", "bzip2", "zstd") and suffix not in (*TEXT_SUFFIXES, *TABLE_SUFFIXES, ".pdf"):
        return "package" if named or is_archive_name else ""
    if content == "pdf" or suffix == ".pdf":
        return "pdf"
    if not content and is_archive_name:  # not an archive: uncompressed TeX under that name, or damaged
        return "paper" if _has_class(path) else "package"
    if suffix in TEX_SUFFIXES:
        return "paper"
    if suffix in TABLE_SUFFIXES:
        if re.match(r"hierarchy\b", path.name, re.I) or _has_hierarchy_columns(start):
            return "hierarchy"
        return "rows" if suffix in (".jsonl", ".ndjson") else "logs"
    if suffix in TEXT_SUFFIXES:
        return "text"
    if named:
        return "paper" if _has_class(path) else "text"
    return ""


def _has_class(path: Path) -> bool:
    return read_tex_file(decode(path.read_bytes()[:200_000])).document_class is not None


def _has_hierarchy_columns(start: bytes) -> bool:
    """Whether the header of an uncompressed table is that of a hierarchy of locations, not of logs."""
    header = decode(start.partition(b"\n")[0])
    return bool(tree_columns([column.strip().strip('"') for column in re.split(r"[,;\t|]", header)]))


# ---------------------------------------------------------------- finding


def _unreadable(name: str, error: OSError) -> Skip:
    return Skip(name, 0, f"it cannot be read ({error.strerror})")


def _walk(base: Path, skips: list[Skip]) -> Iterator[str]:
    """Regular files below a folder, sorted, without hidden files, junk and those that a workspace keeps in it.

    Links that are not followed are skips, and so are folders of the user that are called as a workspace's own.
    """
    home = base.resolve()

    def skip_folder(error: OSError) -> None:
        name = Path(error.filename).relative_to(base).as_posix()
        skips.append(Skip(printable(name), 0, f"the folder cannot be read ({error.strerror})"))

    def usable(path: Path, below: str, what: str) -> bool:
        """Whether the name can be part of an id, and a link leads to a file inside; the folders above were checked."""
        fault = name_fault(path.name) or name_fault(below)
        if not fault and path.is_symlink() and not (path.is_file() and path.resolve().is_relative_to(home)):
            fault = "it is a link that is not followed"
        if fault:
            skips.append(Skip(printable(below), 0, what + fault))
        return not fault

    for folder, folders, files in os.walk(base, onerror=skip_folder):
        above = "" if Path(folder) == base else f"{Path(folder).relative_to(base).as_posix()}/"
        listed = sorted(name for name in folders if not name.startswith(".") and name != "__MACOSX")
        refused = "the folder was not read: "
        own = _OF_WORKSPACE if "lemmata.toml" in files else ()
        taken = [name for name in own if name in listed and not _is_made(Path(folder, name))]
        cause = f"{refused}a workspace has its own files there: rename it"
        skips += (Skip(printable(above + name), 0, cause) for name in taken)
        folders[:] = [name for name in listed if name not in own and usable(Path(folder, name), above + name, refused)]
        for name in sorted(files):
            path = Path(folder, name)
            if name.startswith(".") or name.endswith("~") or (own and name in ("lemmata.toml", "synonyms.txt")):
                continue
            try:
                if (path.is_file() or path.is_symlink()) and usable(path, above + name, ""):
                    yield above + name
            except OSError as error:
                skips.append(_unreadable(printable(above + name), error))


def _is_made(folder: Path) -> bool:
    """Whether a folder of a workspace has what lemmata writes into it."""
    return any(next(folder.glob(pattern), None) for pattern in ("*.json", "*/*.json", "*.sqlite"))


def _side_metadata(base: Path, names: Iterable[str], skips: list[Skip]) -> dict[str, dict[str, Any]]:
    """The records of `metadata.jsonl` or `metadata.csv` at the root, by document id."""
    records: dict[str, dict[str, Any]] = {}
    for name in filter(_SIDE_FILE.fullmatch, names):
        try:
            with open_decompressed(base / name) as stream:
                for line, row in rows_of(stream, name, skips):
                    identity = str(row.get("id") or row.get("document") or row.get("arxiv") or "")
                    if not identity:
                        skips.append(Skip(name, line, "metadata without an id"))
                        continue
                    records[identity] = dict(row)
                    date = written_date(row)
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
    folder = _Folder(path, options, skips)
    folder.look_at_files()
    units = _select(folder.units(), options.reader, skips)
    skips += _unread_files(folder.unread, folder.sources)
    if not units:
        others = f", and {len(skips) - 1:,} more" if len(skips) > 1 else ""
        reason = f" ({skips[0].file}: {skips[0].cause}{others})" if skips else ""
        cure = "put LaTeX, PDF, Markdown, text or tables into it"
        raise InputError(f"nothing in it can be read{reason}: {cure}", file=str(path))
    return Source(path, sorted(units, key=lambda unit: unit.path), skips)


class _Source(NamedTuple):
    """What decides whether a TeX file is a paper; the text itself is not kept, as a folder may hold many."""

    file: TexFile
    flaw: str  # why it is no text; a skip unless another file includes it
    graphics: Graphics

    @property
    def is_main(self) -> bool:
        return self.file.starts or (self.file.document_class is not None and bool(self.file.included))


_LOOKS: Remembered[tuple[str, str, _Source | None]] = Remembered()


def _look(base: Path, name: str, stems: Container[str]) -> tuple[str, str, _Source | None]:
    """The reader of a file, why it is no text, and what it says if it is TeX and not too large."""
    reader, flaw = _reader_of(base / name)
    data = read_file(base, name) if reader == "paper" else None
    if data is None:
        return reader, flaw, None
    text = decode(data)
    return reader, flaw, _Source(read_tex_file(text), flaw, read_graphics(text, stems) if stems else Graphics())


class _Folder:
    """A folder of sources: its files are looked at one by one, then their units are made."""

    def __init__(self, base: Path, options: IngestOptions, skips: list[Skip]) -> None:
        self.base, self.options, self.skips = base, options, skips
        self.names = list(_walk(base, skips))
        self.side = _side_metadata(base, self.names, skips)
        self.pictures = [name for name in self.names if is_image(name) or name.lower().endswith(".pdf")]
        self.sources: dict[str, _Source] = {}
        self.others: list[Unit] = []  # that are no papers
        self.unread: dict[str, str] = {}  # files without a reader, and why they are no text ("" if they are)
        self.beside: list[str] = []  # files that need no note beside a paper

    def look_at_files(self) -> None:
        """Find the reader of every file."""
        of_graphs = self._take_graphs()
        beir = {posixpath.dirname(name) for name in self.names if _BEIR_FILE.fullmatch(posixpath.basename(name))}
        stems = {posixpath.basename(stem_of(name)) for name in self.pictures}
        key = sha256("\n".join(sorted(stems)).encode()).hexdigest()
        for name in self.names:
            base = posixpath.basename(name)
            if _NO_PASSAGES.search(name) or _SIDE_FILE.fullmatch(name) or ABOUT.match(base) or name in of_graphs:
                continue
            if is_image(name) or _OF_LATEX.fullmatch(base) or _OF_ANYTHING.fullmatch(base):
                self.beside.append(name)
                continue
            try:
                reader, flaw, source = _LOOKS.get(f"{self.base}/{name}", key, partial(_look, self.base, name, stems))
            except OSError as error:
                self.skips.append(_unreadable(name, error))
                continue
            is_of_beir = posixpath.dirname(name) in beir and not base.startswith("corpus.jsonl")
            if source is not None or reader == "paper" or not is_of_beir:  # a BEIR folder is its corpus.jsonl
                self._take(name, reader, flaw, source)

    def _take_graphs(self) -> set[str]:
        """Citation graphs, which are several files each; returns all of these."""
        graphs = find_graphs(self.names)
        for graph in graphs:
            self.others.append(Unit("citations", graph.nodes, _stem(graph.nodes), beside=graph.others))
            if graph.unread:
                cause = f"features, labels and splits of the data set are not read, files: {len(graph.unread):,}"
                self.skips.append(Skip(min(graph.unread), 0, cause))
        return {name for graph in graphs for name in (graph.nodes, *graph.others, *graph.unread)}

    def _take(self, name: str, reader: str, flaw: str, source: _Source | None) -> None:
        if source is not None:
            self.sources[name] = source
        elif reader == "paper":
            self.skips.append(Skip(name, 0, TOO_LARGE))
        elif reader and flaw:
            self.skips.append(Skip(name, 0, flaw))
        elif reader == "rows":
            reader = reader_of_rows(self.base / name, name, self.options, self.skips)
            self.others.append(Unit(reader, name, _stem(name)))
        elif reader:
            self.others.append(_file_unit(reader, name, self.side))
        else:
            self.unread[name] = flaw

    def units(self) -> list[Unit]:
        """Papers with their bibliographies, and what else can be read; figures and data of plots belong to papers."""
        bibliographies = bibliographies_by_folder(self.names)
        papers = [
            replace(unit, beside=bibliographies_beside(unit.path, bibliographies))
            for unit in _papers(self.base, self.sources, self.side, self.skips)
        ]
        figures = _figures(self.base, self.pictures, self.sources, papers) if self.pictures and self.sources else {}
        pdf_figures = {
            unit.path: figures[unit.path] for unit in self.others if unit.reader == "pdf" and unit.path in figures
        }
        self.skips += note_figures(pdf_figures)
        units = [*papers, *(unit for unit in self.others if unit.path not in pdf_figures)]
        no_note = {*figures, *(name for unit in units for name in unit.beside)}
        tex_folders = {posixpath.dirname(name) for name in self.sources}
        self._note_beside(no_note, tex_folders)
        return self._without_plots(units, tex_folders) if self.options.reader == "auto" else units

    def _without_plots(self, units: list[Unit], tex_folders: Container[str]) -> list[Unit]:
        tables = [unit for unit in units if unit.reader == "logs" and _is_inside(unit.path, tex_folders)]
        numbers = {unit.path for unit in tables if not _has_text(self.base, unit.path, self.options)}
        cause = "a table without text beside TeX: data of a plot is not read"
        self.skips += (Skip(name, 0, cause) for name in sorted(numbers))
        return [unit for unit in units if unit.path not in numbers]

    def _note_beside(self, no_note: Container[str], tex_folders: Container[str]) -> None:
        """Files beside papers that no paper needs are unread as any other."""
        for name in self.beside:
            if name not in no_note and not _is_by_product(name, tex_folders):
                try:
                    self.unread[name] = _reader_of(self.base / name)[1]
                except OSError as error:
                    self.skips.append(_unreadable(name, error))


def _figures(
    base: Path, pictures: Sequence[str], sources: Mapping[str, _Source], papers: Iterable[Unit]
) -> dict[str, str]:
    """Those of the pictures that are figures of the papers, with the reason."""
    texts = {name: source for name, source in sources.items() if not source.flaw}
    included = {name: _included({name: source}, texts) for name, source in texts.items() if source.file.included}
    mains = (name for name, source in texts.items() if source.is_main)
    return find_figures(
        pictures,
        {name: source.graphics for name, source in texts.items()},
        papers={*mains, *(unit.path for unit in papers), *(name for names in included.values() for name in names)},
        included=included,
        read=partial(_text_of, base),
    )


def _has_text(base: Path, name: str, options: IngestOptions) -> bool:
    """Whether a table has the columns of the text."""
    try:
        with open_decompressed(base / name) as stream:
            columns = [column for _, row in islice(rows_of(stream, name, []), 20) for column in row]
    except (InputError, OSError):
        return False
    return "text" in recognise_columns(columns, options.columns) or set(options.columns.texts).issubset(columns)


def _is_by_product(name: str, tex_folders: Container[str]) -> bool:
    """Whether a file that is no figure belongs to the TeX around it, as its settings and what LaTeX writes do."""
    if is_image(name):
        return False
    of_latex = _OF_LATEX.fullmatch(posixpath.basename(name)) is not None
    return posixpath.dirname(name) in tex_folders or (of_latex and _is_inside(name, tex_folders))


def _unread_files(unread: Mapping[str, str], sources: Mapping[str, _Source]) -> Iterator[Skip]:
    """One skip per suffix for the files that no reader takes, without those that are empty or that a paper includes."""
    included = _included(sources, unread) if unread else set()
    by_suffix: dict[str, list[str]] = {}
    for name, flaw in unread.items():
        if name not in included and flaw != EMPTY:
            by_suffix.setdefault(posixpath.splitext(name)[1].lower(), []).append(name)
    for suffix, names in by_suffix.items():
        which = f"with the suffix {suffix}" if suffix else "without a suffix"
        many = f"{len(names):,} files {which} are not read, first {names[0]}"
        cure = unread[names[0]] or "name a file to read it as text"
        yield Skip(names[0], 0, f"{many if len(names) > 1 else f'1 file {which} is not read'}: {cure}")


def _included(sources: Mapping[str, _Source], names: Collection[str]) -> set[str]:
    """Those of the names that one of the sources includes."""
    return included_among(names, {name: source.file for name, source in sources.items()})


_MOST_FLATTENED = 20


def _read_by(mains: Sequence[str], base: Path) -> set[str]:
    """The files that are read with the main files, without these."""
    names: set[str] = set()
    for main in mains[:_MOST_FLATTENED]:
        folder, name = posixpath.split(main)  # LaTeX runs where the main file lies
        with suppress(FileNotFoundError):
            read = flatten(partial(_text_of, base / folder), name).files[1:]
            names.update(posixpath.normpath(posixpath.join(folder, path)) for path in read)
    return names


def _text_of(base: Path, name: str) -> str | None:
    data = read_file(base, name)
    return None if data is None else decode(data)


def _is_inside(path: str, folders: Container[str]) -> bool:
    return any(folder in folders for folder in folders_above(path))


_ACCEPTED = {
    "papers": ("paper", "package"),
    "logs": ("logs", "hierarchy", "passages"),
    "hierarchy": ("hierarchy", "logs"),
    "passages": ("passages", "citations"),
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
    elif graph := _graph_of(path):
        return Unit("citations", path.name, _stem(path.name), beside=graph.others)
    elif reader == "rows":
        reader = reader_of_rows(path, path.name, options, skips)
    unit = _file_unit(reader, path.name, side)
    if reader == "paper":
        files = [file.name for file in path.parent.glob("*.bib")]
        return replace(unit, beside=bibliographies_by_folder(files).get("", ()))
    # the archive itself is the root, so the documents in it need no prefix
    return replace(unit, document=arxiv_id_of_file(path.name)) if reader == "package" else unit


def _graph_of(path: Path) -> GraphFiles | None:
    """The citation graph whose papers are in a file, with its edges beside it; None where there is none."""
    for graph in find_graphs(sorted(file.name for file in path.parent.iterdir() if file.is_file())):
        if path.name in graph.others:
            raise InputError(
                f"it holds the edges between the papers of {graph.nodes}: name that, or the folder", file=str(path)
            )
        if path.name == graph.nodes:
            return graph
    return None


def _papers(base: Path, sources: Mapping[str, _Source], side: _SideMetadata, skips: list[Skip]) -> Iterator[Unit]:
    """One unit per main file; of several wrappers around one file the first is the main file.

    Another file that nothing includes is a paper only in a folder without a main file.
    """
    included = _included(sources, sources)
    roots = [name for name in sources if name not in included]
    cycles = [*_first_of_cycles(sources, roots)]
    included -= {*cycles}
    roots += cycles
    files = {name: source.file for name, source in sources.items()}
    books = [*wrappers(files).values()]
    same = {name: names[0] for names in books for name in names[1:]}
    skips += (Skip(name, 0, f"same book as {first}") for name, first in same.items())
    roots = [name for name in roots if name not in same]
    mains = {name for name in roots if sources[name].is_main}.union(names[0] for names in books)
    starts = [name for name in roots if name in mains and not files[name].is_part]
    below = {posixpath.dirname(name) for name in starts}
    if any(
        _is_inside(name, below) for name in {*roots}.difference(starts)
    ):  # a macro may include them by a path that it builds
        included |= _read_by(starts, base)
        roots = [name for name in roots if name not in included]
    formats = {name: format_file_of(name, files) for name in roots}
    mains = mains.intersection(roots).difference(formats.values())
    main_folders = {posixpath.dirname(name) for name in mains}
    for name in roots:
        document = _stem(name)
        if flaw := sources[name].flaw:
            skips.append(Skip(name, 0, flaw))
        elif name in mains:
            newer = stale_copy_of(name, mains)
            if newer is None:
                metadata = side.get(document) or side.get(arxiv_id_of_file(document)) or {}
                yield Unit("paper", name, document, metadata, format_file=formats[name])
            else:
                skips.append(Skip(name, 0, f"looks like an old copy of {newer}"))
        elif name not in formats.values() and _is_inside(name, main_folders):
            skips.append(Skip(name, 0, "no main file includes it"))
        elif name not in formats.values():
            yield Unit("paper", name, document, side.get(document) or {}, confidence=0.4)


def _first_of_cycles(sources: Mapping[str, _Source], roots: Sequence[str]) -> Iterator[str]:
    """A file of each group of files that include each other and that nothing else includes: a main one if possible."""
    reached: set[str] = set()

    def reach(start: Iterable[str]) -> None:
        waiting = [*start]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += _included({name: sources[name]}, sources) if sources[name].file.included else ()

    reach(roots)
    for name in sorted(sources, key=lambda name: not sources[name].is_main):  # stable: else in their order
        if name not in reached:
            yield name
            reach([name])


# ---------------------------------------------------------------- ids


def alternative_names(base: Path, unit: Unit, *, keep_suffix: bool) -> Iterator[str]:
    """Endless other names for a unit, best first: for its document, or as the prefix of its ids.

    First the path with its suffix (only if `keep_suffix`, for a clash inside one source), then the path with more and
    more of the folders above it, then with a number.
    """
    name = unit.document
    if unit.ids_from_content:
        name = _stem(unit.path)
        if posixpath.basename(name) in ("corpus", "nodes"):  # a collection has the name of its folder
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
