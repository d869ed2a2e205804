"""Read sources into the corpus of a workspace: add new ones, replace changed ones, remove deleted ones.

An id belongs to one unit. A unit keeps the ids it was first read with; a new unit that wants one of them gets another.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lemmata.core.archives import printable
from lemmata.core.errors import InputError, LemmataError
from lemmata.core.types import Progress, Reading, Skip
from lemmata.core.workers import WorkerDied, parallel_map
from lemmata.core.workspace import Workspace, read_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.writer import CorpusWriter, IdTaken, Rename, StoredUnit, stored_columns
from lemmata.ingest.logs import derive_hierarchy
from lemmata.ingest.resolve import match_bibliography, resolve_links
from lemmata.ingest.sources import (
    IngestOptions,
    Source,
    Unit,
    alternative_names,
    find_units,
    fingerprint,
    is_unchanged,
    named_columns,
    place_of,
    read_unit,
    read_whole_unit,
    with_preamble,
)


@dataclass(slots=True)
class IngestReport:
    """What an ingest changed, and what the corpus holds now; the first five count papers, archives, tables, texts."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    files: dict[str, list[str]] = field(default_factory=lambda: {"added": [], "changed": [], "removed": []})
    failures: dict[str, str] = field(default_factory=dict)  # file: cause
    renamed: list[Rename] = field(default_factory=list)  # ids that another source has
    read_before: dict[str, str] = field(default_factory=dict)  # file: with which other source
    no_longer_read: dict[str, dict[str, str]] = field(default_factory=dict)  # source: columns named before, by option
    seconds: float = 0.0
    documents: int = 0  # without locations
    locations: int = 0
    passages: int = 0
    links: int = 0
    resolved: int = 0
    skips: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """What one call of `ingest` shares between its sources."""

    workspace: Workspace
    writer: CorpusWriter
    options: IngestOptions  # of the source that is being read
    columns: Mapping[str, Mapping[str, str]]  # that were named before, by source and option
    workers: int | None
    again: bool
    report: IngestReport
    counts: Counter[str] = field(default_factory=Counter)  # of rows read so far


def ingest(
    workspace: Workspace,
    paths: Sequence[Path],
    options: IngestOptions,
    *,
    named: Mapping[str, str],
    workers: int | None,
    again: bool,
) -> IngestReport:
    """Read sources; `again` also reads unchanged ones. The same call resumes a stopped run.

    `named` are the columns that the call itself names, by option. If there are any, the columns are those of the
    options. If not, the options count only where they are not the usual ones, and else the columns that were named for
    a source before.

    A source that cannot be read is in the report, and the others are read. Raises InputError for paths that do not
    exist, before anything is read, and where no source has anything to read.
    """
    begin = time.perf_counter()
    report = IngestReport()
    reading_options = with_preamble(options, workspace.root)
    columns = stored_columns(workspace)
    before = {} if named else columns
    roots = [_root_of(workspace, path) for path in paths]
    options_of = {root: _with_columns(reading_options, before.get(root, {})) for root in roots}
    sources = _find_all(workspace, paths, options_of, report)
    with CorpusWriter(workspace) as writer:
        run = _Run(workspace, writer, reading_options, columns, workers, again, report)
        with writer.transaction():
            for name, cause in report.failures.items():
                note = Skip(Path(name).name, 0, f"could not be read: {cause}")
                writer.replace(_root_of(workspace, Path(name)), "", "", [Reading(skips=[note])])
        for path, source in sources.items():
            _ingest_source(replace(run, options=options_of[_root_of(workspace, path)]), path, source)
        changed = report.added or report.changed or report.removed or writer.resumed
        if changed or read_manifest(workspace.manifest(workspace.corpus_folder)) is None:
            _finish(writer, asdict(options), workspace.progress)
    _count(workspace, report)
    report.failed = len(report.failures)
    report.seconds = time.perf_counter() - begin
    return report


def remove(workspace: Workspace, paths: Sequence[Path]) -> IngestReport:
    """Remove sources from the corpus, whether they still exist or not. InputError lists the known ones."""
    begin = time.perf_counter()
    report = IngestReport()
    if not workspace.database.is_file():
        raise InputError(f"{', '.join(map(str, paths))} was not ingested; there are no sources yet")
    manifest = read_manifest(workspace.manifest(workspace.corpus_folder)) or {}
    with CorpusWriter(workspace) as writer:
        known = {_resolved(workspace, root): root for root in writer.roots()}
        unknown = [path for path in paths if os.path.realpath(path) not in known]
        if unknown:
            names = ", ".join(_shown(workspace, root, "") for root in known.values()) or "there are none"
            raise InputError(f"{', '.join(map(str, unknown))} was not ingested; the sources are: {names}")
        for path in paths:
            root = known[os.path.realpath(path)]
            with writer.transaction():
                for name, unit in writer.units(root).items():
                    writer.remove(unit.number)
                    if name:
                        report.removed += 1
                        report.files["removed"].append(_shown(workspace, root, name))
                writer.store_columns(root, {})
        _finish(writer, manifest.get("options", {}), workspace.progress)
    _count(workspace, report)
    report.seconds = time.perf_counter() - begin
    return report


def _finish(writer: CorpusWriter, options: Mapping[str, Any], progress: Progress) -> None:
    progress("resolving links", 0, None)
    with writer.transaction():
        _resolve(writer)
        writer.number_rows()
    content = {"verb": "ingest", "options": options, "inputs": writer.digest()}
    writer.publish({**content, "versions": _versions()})


def _count(workspace: Workspace, report: IngestReport) -> None:
    with contextlib.closing(Corpus(workspace)) as corpus:
        counts = corpus.counts()
    report.locations = counts["documents"].get("location", 0)
    report.documents = sum(counts["documents"].values()) - report.locations
    report.passages = sum(counts["passages"].values())
    report.links = sum(link["all"] for link in counts["links"].values())
    report.resolved = sum(link["resolved"] for link in counts["links"].values())
    report.skips = counts["skips"]


# ---------------------------------------------------------------- paths


def _root_of(workspace: Workspace, path: Path) -> str:
    return os.path.relpath(path, workspace.root)


def _resolved(workspace: Workspace, root: str) -> str:
    return os.path.realpath(workspace.root / root)


def _shown(workspace: Workspace, root: str, unit: str) -> str:
    """The path of a stored unit or root, relative to the current folder if it is below it."""
    path = Path(os.path.normpath((workspace.root / root).absolute()))
    if unit and (path.name != unit or path.is_dir()):  # a file is its own only unit
        path /= unit
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _find_all(
    workspace: Workspace, paths: Sequence[Path], options_of: Mapping[str, IngestOptions], report: IngestReport
) -> dict[Path, Source]:
    """The units of all paths, each path once; those without anything to read are failures."""
    missing = [str(InputError("there is no such file or folder", file=printable(str(p)))) for p in paths if _is_gone(p)]
    if missing:
        raise InputError("; ".join(missing) + _advice(workspace, paths))
    sources: dict[str, tuple[Path, Source]] = {}
    for number, path in enumerate(paths):
        workspace.progress("looking for sources", number, len(paths))
        root = _root_of(workspace, path)
        try:
            sources.setdefault(root, (path, find_units(path, options_of[root])))
        except InputError as error:
            report.failures[printable(str(path))] = error.cause
        except OSError as error:
            report.failures[printable(str(path))] = error.strerror or str(error)
    if report.failures and not sources:
        problems = "; ".join(f"{path}: {cause}" for path, cause in report.failures.items())
        raise InputError(problems + _advice(workspace, paths))
    return dict(sources.values())


def _is_gone(path: Path) -> bool:
    try:
        return not path.exists()
    except OSError:
        return False  # it exists, but cannot be read


def _advice(workspace: Workspace, paths: Iterable[Path]) -> str:
    """How to remove what was read from these paths before; "" if nothing was."""
    if not workspace.database.is_file():
        return ""
    with contextlib.closing(Corpus(workspace)) as corpus:
        known = {_resolved(workspace, source.root) for source in corpus.sources()}
    read_before = [str(path) for path in paths if os.path.realpath(path) in known]
    return f"; to remove what was read before: lemmata ingest --remove {' '.join(read_before)}" if read_before else ""


# ---------------------------------------------------------------- one source


def _with_columns(options: IngestOptions, before: Mapping[str, str]) -> IngestOptions:
    """The options, with the columns that were named before where the options have the usual ones."""
    return replace(options, columns=replace(options.columns, **{**before, **named_columns(options.columns)}))


def _keep_columns(run: _Run, root: str) -> None:
    """Store the columns of a source whose tables were read, and report those that were read before and are not now."""
    before, columns = run.columns.get(root, {}), named_columns(run.options.columns)
    if columns != before:
        with run.writer.transaction():
            run.writer.store_columns(root, columns)
    lost = {option: column for option, column in before.items() if option not in columns}
    if lost:
        run.report.no_longer_read[_shown(run.workspace, root, "")] = lost


def _ingest_source(run: _Run, path: Path, source: Source) -> None:
    workspace, writer, report = run.workspace, run.writer, run.report
    root = _root_of(workspace, path)
    folder = os.path.relpath(source.base.resolve(), workspace.root.resolve())
    stored = writer.units(root)
    deleted = stored.keys() - {unit.path for unit in source.units} - {""}
    with writer.transaction():  # first: their ids are free again
        for name in sorted(deleted):
            writer.remove(stored[name].number)
            report.removed += 1
            report.files["removed"].append(_shown(workspace, root, name))
    notes = list(source.skips)
    names = _Names(writer, source.base, root, workspace)
    todo: list[tuple[Unit, str]] = []
    hashes: dict[str, str] = {}
    for found in sorted(source.units, key=lambda unit: unit.reader != "paper"):  # papers choose their ids first
        old = stored.get(found.path)
        file = os.path.normpath(Path(folder, found.path))
        other = writer.reader_of_file(file, root) if old is None else None
        if other is not None:
            reader = _shown(workspace, other, "")
            cause = f"it was already read, with {reader}: 'lemmata ingest {reader}' updates it"
            notes.append(Skip(found.path, 0, cause))
            report.read_before[_shown(workspace, root, found.path)] = cause
            continue
        unit = names.choose(found, old)
        same = old is not None and old.fingerprint == fingerprint(unit, run.options)
        if old is not None and same and not run.again and is_unchanged(source.base, old.files, hashes):
            report.unchanged += 1
        else:
            todo.append((unit, file))
    units = sorted((unit for unit, _ in todo), key=lambda unit: unit.path)
    files = {unit.path: file for unit, file in todo}
    for number, (unit, readings) in enumerate(_read_all(run, source.base, units)):
        run.workspace.progress("reading", number, len(todo))
        shown = _shown(workspace, root, unit.path)
        try:
            _write_unit(run, source.base, root, unit, readings, names, files[unit.path])
        except _Unreadable as error:
            kept = "; its last reading is kept" if unit.path in stored else ""
            report.failures[shown] = str(error)
            notes += [Skip(unit.path, 0, f"could not be read: {error}{kept}"), *error.skips]
            continue
        change = "changed" if unit.path in stored else "added"
        setattr(report, change, getattr(report, change) + 1)
        report.files[change].append(shown)
    if todo:
        run.workspace.progress("reading", len(todo), len(todo))
    # columns that no table has, as after a slip of the pen, are not kept
    if any(
        unit.reader == "logs" and _shown(workspace, root, unit.path) not in report.failures for unit in source.units
    ):
        _keep_columns(run, root)
    with writer.transaction():  # notes on what was not read belong to the source itself
        writer.replace(root, "", "", [Reading(skips=notes)])


class _Unreadable(Exception):  # noqa: N818 - a failure of the source, not of lemmata
    """One sentence that says why a unit could not be read, and what was skipped in it."""

    def __init__(self, cause: str, skips: Sequence[Skip] = ()) -> None:
        super().__init__(cause)
        self.skips = skips


def _write_unit(
    run: _Run, base: Path, root: str, unit: Unit, readings: Iterable[Reading] | str, names: _Names, file: str
) -> None:
    """Store a unit under ids that nobody else has."""
    renames: list[Rename] = []
    while True:
        if isinstance(readings, str):
            raise _Unreadable(readings)
        try:
            with run.writer.transaction():
                renames = run.writer.replace(
                    root,
                    unit.path,
                    fingerprint(unit, run.options),
                    _with_note(_checked(run, unit, readings), unit, names.found[unit.path]),
                    document="" if unit.ids_from_content else unit.document,
                    prefix=unit.prefix,
                    file=file,
                )
            break
        except IdTaken as clash:
            unit = names.choose_again(unit, clash)
            (_, readings) = next(_read_all(run, base, [unit]))
    run.report.renamed += names.renames.pop(unit.path, [])
    run.report.renamed += (rename._replace(file=_shown(run.workspace, root, unit.path)) for rename in renames)


def _with_note(readings: Iterable[Reading], unit: Unit, found: Unit) -> Iterator[Reading]:
    """The readings, and a note where the unit could not have the ids it asked for."""
    yield from readings
    if unit.document != found.document:
        note = f"its document is {unit.document}: {found.document} was taken when it was first read"
        yield Reading(skips=[Skip(unit.path, 0, note)])
    if unit.prefix:
        note = f"its ids start with {unit.prefix}: some were taken when it was first read"
        yield Reading(skips=[Skip(unit.path, 0, note)])


def _checked(run: _Run, unit: Unit, readings: Iterable[Reading]) -> Iterator[Reading]:
    """The readings; a unit that gives nothing but skips is unreadable, one that gives nothing at all gets a note."""
    documents = passages = 0
    skips: list[Skip] = []
    for reading in readings:
        documents += len(reading.documents)
        passages += len(reading.passages)
        if not passages:
            skips += reading.skips
        yield reading
        if unit.reader in _STREAMED:
            run.counts["rows"] += len(reading.passages)
            run.workspace.progress("rows", run.counts["rows"], None)
    if skips and not (passages if unit.reader in _STREAMED else documents):
        more = f", and {len(skips) - 1:,} more problems" if len(skips) > 1 else ""
        raise _Unreadable(f"nothing in it can be used: {skips[0].cause}{more}", skips)
    if unit.reader in _STREAMED and not passages:
        yield Reading(skips=[Skip(unit.path, 0, "the table has no rows")])


# ---------------------------------------------------------------- ids


class _Names:
    """Chooses the ids of the units of one source: those they had, else those they ask for, else others."""

    def __init__(self, writer: CorpusWriter, base: Path, root: str, workspace: Workspace) -> None:
        self.found: dict[str, Unit] = {}  # by path, with the ids they ask for
        self.renames: dict[str, list[Rename]] = {}  # by path
        self._writer = writer
        self._base = base
        self._root = root
        self._workspace = workspace
        self._given: dict[str, str] = {}  # id: path of the unit that is about to get it
        self._tried: dict[str, set[str]] = {}  # by path

    def choose(self, found: Unit, stored: StoredUnit | None) -> Unit:
        """The unit with the ids it had or, where it is new, with a document that nobody has."""
        self.found[found.path] = found
        if stored is not None and stored.document is not None:
            document = found.document if found.ids_from_content else stored.document or found.document
            return replace(found, document=document, prefix=stored.prefix)
        if found.ids_from_content:
            return found
        owner = self._owner(found.document)
        if owner is None:
            self._given[found.document] = found.path
            return found
        return self._rename(found, IdTaken(found.document, "document", *owner))

    def choose_again(self, unit: Unit, clash: IdTaken) -> Unit:
        """The unit with other ids, after a clash."""
        if unit.reader == "logs" and clash.what == "passage" and not unit.prefix:
            unit = replace(unit, prefix=f"{unit.document}/")
            self._note(unit, "ids", clash.wanted, unit.prefix, clash)
            return unit
        return self._rename(unit, clash)

    def _rename(self, unit: Unit, clash: IdTaken) -> Unit:
        found = self.found[unit.path]
        tried = self._tried.setdefault(unit.path, set())
        names = alternative_names(self._base, found, keep_suffix=clash.root == self._root)
        name = next(
            name for name in names if name not in tried and (found.ids_from_content or self._owner(name) is None)
        )
        tried.add(name)
        if found.ids_from_content:
            unit = replace(unit, prefix=f"{name}/")
            self._note(unit, "ids", clash.wanted, unit.prefix, clash)
            return unit
        self._given[name] = unit.path
        self._note(unit, "document", found.document, name, clash)
        return replace(unit, document=name, prefix=f"{name}/" if unit.prefix else "")

    def _owner(self, document: str) -> tuple[str, str] | None:
        """Root and unit that have the id of a document or are about to get it; None where it is free."""
        if document in self._given:
            return self._root, self._given[document]
        return self._writer.owner_of_document(document)

    def _note(self, unit: Unit, what: str, wanted: str, identity: str, clash: IdTaken) -> None:
        file = _shown(self._workspace, self._root, unit.path)
        owner = _shown(self._workspace, clash.root, clash.unit)
        others = [rename for rename in self.renames.get(unit.path, []) if rename.what != what]
        self.renames[unit.path] = [*others, Rename(file, what, wanted, identity, owner)]


# ---------------------------------------------------------------- reading

_STREAMED = ("logs", "passages")  # tables of any length are written to disk batch by batch


_LARGE = 2**20  # bytes; a larger file may take more than a second


def _read_all(run: _Run, base: Path, units: Sequence[Unit]) -> Iterator[tuple[Unit, Iterable[Reading] | str]]:
    place = base.absolute()  # a process of a cluster may work in another folder
    tasks = [(place, unit, run.options) for unit in units if unit.reader not in _STREAMED]
    done = 0

    def waiting(steps: int) -> None:
        run.workspace.progress("reading", done, len(units))
        run.workspace.progress("documents", steps, None)

    alone = len(tasks) < 3 and not any(_size(base / unit.path) > _LARGE for _, unit, _ in tasks)
    workers = 1 if alone else run.workers
    for (_, unit, _), result in parallel_map(read_whole_unit, tasks, workers=workers, waiting=waiting):
        yield unit, str(result) if isinstance(result, WorkerDied) else result
        done += 1
    for unit in units:
        if unit.reader in _STREAMED:
            yield unit, _readable(read_unit(base, unit, run.options))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _readable(readings: Iterator[Reading]) -> Iterator[Reading]:
    """The readings of a table; an error while reading is _Unreadable, one while writing passes."""
    while True:
        try:
            reading = next(readings, None)
        except InputError as error:
            raise _Unreadable(f"{error.cause} (line {error.line})" if error.line else error.cause) from error
        except (LemmataError, OSError) as error:
            raise _Unreadable(str(error)) from error
        if reading is None:
            return
        yield reading


def _resolve(writer: CorpusWriter) -> None:
    writer.remove_derived()
    named = writer.named_locations()
    derived = derive_hierarchy((cell for cell, _ in named), file=named[0][1]) if named else Reading()
    writer.add_derived(replace(derived, skips=()))
    cited: dict[tuple[str, str], str] = {}
    matches = []
    for number, document, key, target in match_bibliography(writer.bibliography(), writer.documents()):
        matches.append((target, number))
        if target is not None:
            cited[document, key] = target
    writer.set_targets("bibliography", matches)
    links = list(writer.links())
    places = {identity: place_of(identity, *rest) for identity, *rest in writer.places()}
    others: list[tuple[int, str, str | None]] = []  # of cells that hold several ids

    def targets() -> Iterator[tuple[str | None, int]]:
        resolved = resolve_links(links, writer.labels(), writer.prefixes(), lambda d, key: cited.get((d, key)), places)
        for link in resolved:
            others.extend((link.number, label, target) for label, target in link.others)
            yield link.target, link.number

    writer.set_targets("links", targets())
    writer.set_other_links(others)
    writer.note_unknown_names()
    writer.add_derived(Reading(skips=derived.skips))


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {
        "lemmata": version("lemmata"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
