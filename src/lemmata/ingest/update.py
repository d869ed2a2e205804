"""Brings the units of a source up to date in the corpus, and resolves the links of all when its sources are read.

An id belongs to one unit. A unit keeps the ids it was first read with; a new unit that wants one of them gets another.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lemmata.core.archives import printable
from lemmata.core.errors import InputError
from lemmata.core.types import Label, Reading, Skip
from lemmata.core.workers import WorkerDied, parallel_map
from lemmata.core.workspace import Workspace
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.writer import CorpusWriter, IdTaken, Rename
from lemmata.ingest.ingest import IngestReport, shown_path
from lemmata.ingest.logs import derive_hierarchy
from lemmata.ingest.outside import name_references_outside
from lemmata.ingest.readers import (
    STREAMED,
    UNREAD,
    IngestOptions,
    Unit,
    Unreadable,
    fingerprint,
    is_unchanged,
    read_in_time,
    read_whole_unit,
)
from lemmata.ingest.relink import IN_FILES, concerns_little, relink, store_keys
from lemmata.ingest.resolve import match_entry, names_in_memory, resolve
from lemmata.ingest.sources import Source, alternative_names, find_units, place_of

_LARGE = 2**20  # bytes; a larger file may take more than a second


# ---------------------------------------------------------------- sources


def with_columns(options: IngestOptions, before: Mapping[str, Any]) -> IngestOptions:
    """The options, with the columns that were named before where the options have the usual ones."""
    return replace(options, columns=replace(options.columns, **{**before, **options.columns.named}))


def find_sources(
    workspace: Workspace,
    places: Mapping[str, Path],
    options_of: Mapping[str, IngestOptions],
    report: IngestReport,
    *,
    may_vanish: bool = False,
) -> dict[str, Source]:
    """The units of all places, by root; those without anything to read are failures.

    With `may_vanish` it is enough that one of the places is there, or was there before.
    """
    missing = [printable(str(path)) for path in places.values() if _is_gone(path)]
    known = read_before(workspace).intersection(map(os.path.realpath, places.values())) if may_vanish else ()
    if missing and not known and not (may_vanish and len(missing) < len(places)):
        problems = "; ".join(f"{path}: there is no such file or folder" for path in missing)
        raise InputError(problems + _advice(workspace, places.values()))
    sources: dict[str, Source] = {}
    for number, (root, path) in enumerate(places.items()):
        if _is_gone(path):
            continue
        workspace.progress("looking for sources", number, len(places))
        try:
            sources[root] = find_units(path, options_of[root])
        except InputError as error:
            report.failures[printable(str(path))] = error.cause
        except OSError as error:
            report.failures[printable(str(path))] = error.strerror or str(error)
    if report.failures and not sources and not known:
        problems = "; ".join(f"{path}: {cause}" for path, cause in report.failures.items())
        raise InputError(problems + _advice(workspace, places.values()))
    return sources


def _is_gone(path: Path) -> bool:
    try:
        return not path.exists()
    except OSError:
        return False  # it exists, but cannot be read


def _advice(workspace: Workspace, paths: Iterable[Path]) -> str:
    """How to remove what was read from these paths before; "" if nothing was."""
    places = read_before(workspace)
    known = [str(path) for path in paths if os.path.realpath(path) in places]
    return f"; to remove what was read before: lemmata ingest --remove {' '.join(known)}" if known else ""


def read_before(workspace: Workspace) -> frozenset[str]:
    """The real paths of all sources of the corpus."""
    if not workspace.database.is_file():
        return frozenset()
    with contextlib.closing(Corpus(workspace)) as corpus:
        return frozenset(os.path.realpath(workspace.root / source.root) for source in corpus.sources())


# ---------------------------------------------------------------- one source


class SourceUpdate:
    """The update of one source: its units are named, read where they are new or changed, and written."""

    def __init__(
        self,
        writer: CorpusWriter,
        root: str,
        source: Source,
        options: IngestOptions,
        report: IngestReport,
        *,
        workers: int | None,
        again: bool,
        quick: bool,
        only: str = "",  # path of the one unit that is brought up to date; "": all
    ) -> None:
        self._writer, self._root, self._source, self._options, self._report = writer, root, source, options, report
        self._workers, self._again, self._quick, self._only = workers, again, quick, only
        self._workspace = writer.workspace
        self._progress = writer.workspace.progress
        self._folder = os.path.relpath(source.base.resolve(), self._workspace.root.resolve())
        self._stored = writer.units(root)
        self._found = {unit.path: unit for unit in source.units}  # with the ids they ask for
        self._given: dict[str, str] = {}  # document: path of the unit that is about to get it
        self._other_names: dict[str, Iterator[str]] = {}  # by path
        self._renames: dict[str, dict[str, Rename]] = {}  # by path, then by what was renamed
        self._rows = 0  # read so far

    def run(self, columns: Mapping[str, Any]) -> None:
        """Bring the source up to date; `columns` are those that were named for it before, by option."""
        with self._writer.transaction():  # first: their ids are free again
            for name in () if self._only else sorted(self._stored.keys() - self._found.keys() - {""}):
                self._writer.remove(self._stored[name].number)
                self._report.files["removed"].append(self._shown(name))
        notes = [*self._source.skips]
        if self._only:
            notes = [note for note in self._writer.notes(self._root) if note.file != self._only]
        units = sorted(self._changed_units(notes), key=lambda unit: unit.path)
        if self._quick:
            units = self._without_large(units)
        for number, (unit, readings) in enumerate(self._read_all(units)):
            self._progress("reading", number, len(units))
            try:
                self._write(unit, readings)
            except Unreadable as error:
                if not os.path.lexists(self._source.base / unit.path):  # the same as if it had gone a moment earlier
                    notes.append(Skip(unit.path, 0, "it disappeared while the source was read; ingest again"))
                    continue
                kept = "; its last reading is kept" if unit.path in self._stored else ""
                self._report.failures[self._shown(unit.path)] = str(error)
                notes += [Skip(unit.path, 0, f"could not be read: {error}{kept}"), *error.skips]
                continue
            self._report.files["changed" if unit.path in self._stored else "added"].append(self._shown(unit.path))
        if units:
            self._progress("reading", len(units), len(units))
        with self._writer.transaction():  # notes on what was not read belong to the source itself
            # columns that no table has, as after a slip of the pen, are not kept
            tables = (unit.path for unit in self._source.units if unit.reader == "logs")
            if not self._only and any(self._shown(path) not in self._report.failures for path in tables):
                self._keep_columns(columns)
            self._writer.replace(self._root, "", "", [Reading(skips=notes)])

    @property
    def owner(self) -> tuple[str, str] | None:
        """Root and unit by which another source has read the only file of this one."""
        units = self._source.units
        return self._writer.reader_of_file(self._file(units[0]), self._root) if len(units) == 1 else None

    def _shown(self, path: str) -> str:
        return shown_path(self._workspace, self._root, path)

    def _file(self, unit: Unit) -> str:
        """The path of a unit relative to the workspace, by which another source may have read it."""
        return os.path.normpath(Path(self._folder, unit.path))

    def _keep_columns(self, before: Mapping[str, Any]) -> None:
        """Store the columns of the tables that were read, and report those that were read before and are not now."""
        columns = self._options.columns.named
        if columns != before:
            self._writer.store_columns(self._root, columns)
        lost = {option: column for option, column in before.items() if option not in columns}
        if lost:
            self._report.no_longer_read[self._shown("")] = lost

    def _changed_units(self, notes: list[Skip]) -> Iterator[Unit]:
        """The units to read, with their ids; those that another source has read are added to the notes."""
        hashes: dict[str, str] = {}
        units = [unit for unit in self._source.units if self._only in ("", unit.path)]
        papers_first = sorted(units, key=lambda unit: unit.reader != "paper")  # they choose ids first
        for found_unit in papers_first:
            old = self._stored.get(found_unit.path)
            other = self._writer.reader_of_file(self._file(found_unit), self._root) if old is None else None
            if other is not None:
                reader = shown_path(self._workspace, other[0])
                cause = f"it was already read, with {reader}: 'lemmata ingest {reader}' updates it"
                notes.append(Skip(found_unit.path, 0, cause))
                self._report.read_before[self._shown(found_unit.path)] = cause
                continue
            unit = self._named(found_unit)
            same = old is not None and not self._again and old.fingerprint == fingerprint(unit, self._options)
            if old is not None and same and is_unchanged(self._source.base, old.files, hashes):
                self._report.unchanged += 1
            else:
                yield unit

    def _without_large(self, units: Sequence[Unit]) -> list[Unit]:
        """The units that are read soon, in their order; no large one could take the ids of their contents."""
        chosen: list[Unit] = []
        ids_may_be_taken = False
        for unit in sorted(units, key=lambda unit: unit.reader in STREAMED):  # as they are written
            is_large = _size(self._source.base / unit.path) > _LARGE
            has_given_ids = unit.ids_from_content or unit.reader in STREAMED
            if not is_large and not (has_given_ids and ids_may_be_taken):
                chosen.append(unit)
            ids_may_be_taken |= is_large and has_given_ids
        self._report.left += len(units) - len(chosen)
        return chosen

    # ------------------------------------------------------------ ids

    def _named(self, unit: Unit) -> Unit:
        """The unit with the ids it had or, where it is new, with a document that no other unit has."""
        old = self._stored.get(unit.path)
        if old is not None:
            document = unit.document if unit.ids_from_content else old.document or unit.document
            return replace(unit, document=document, prefix=old.prefix)
        if not unit.ids_from_content:
            if owner := self._owner(unit.document):
                return self._renamed(unit, IdTaken(unit.document, "document", *owner))
            self._given[unit.document] = unit.path
        return unit

    def _renamed(self, unit: Unit, clash: IdTaken) -> Unit:
        """The unit with other ids. Those of logs first get the name of their table in front."""
        found_unit = self._found[unit.path]
        wanted, identity = clash.wanted, ""
        if unit.reader == "logs" and clash.what == "passage" and not unit.prefix:
            unit = replace(unit, prefix=f"{unit.document}/")
        else:
            names = alternative_names(self._source.base, found_unit, keep_suffix=clash.root == self._root)
            names = self._other_names.setdefault(unit.path, names)
            name = next(name for name in names if found_unit.ids_from_content or self._owner(name) is None)
            if found_unit.ids_from_content:
                unit = replace(unit, prefix=f"{name}/")
            else:
                self._given[name] = unit.path
                unit = replace(unit, document=name, prefix=f"{name}/" if unit.prefix else "")
                wanted, identity = found_unit.document, name
        what = "document" if identity else "ids"
        owner = shown_path(self._workspace, clash.root, clash.unit)
        rename = Rename(self._shown(unit.path), what, wanted, identity or unit.prefix, owner)
        self._renames.setdefault(unit.path, {})[what] = rename
        return unit

    def _owner(self, document: str) -> tuple[str, str] | None:
        """Root and unit that have the id of a document or are about to get it; None where it is free."""
        if document in self._given:
            return self._root, self._given[document]
        return self._writer.owner_of_document(document)

    # ------------------------------------------------------------ reading and writing

    def _read_all(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, Iterable[Reading] | str]]:
        base = self._source.base.absolute()  # a process of a cluster may work in another folder
        tasks = [(base, unit, self._options) for unit in units if unit.reader not in STREAMED]
        done = 0

        def waiting(steps: int) -> None:
            self._progress("reading", done, len(units))
            self._progress("documents", steps, None)

        alone = len(tasks) < 3 and not any(_size(base / unit.path) > _LARGE for _, unit, _ in tasks)
        workers = 1 if alone else self._workers
        for (_, unit, _), result in parallel_map(read_whole_unit, tasks, workers=workers, waiting=waiting):
            yield unit, str(result) if isinstance(result, WorkerDied) else result
            done += 1
        for unit in units:
            if unit.reader in STREAMED:
                yield unit, read_in_time(base, unit, self._options)

    def _write(self, unit: Unit, readings: Iterable[Reading] | str) -> None:
        """Store a unit under ids that no other has."""
        while True:
            if isinstance(readings, str):
                raise Unreadable(readings)
            try:
                with self._writer.transaction():
                    renames = self._writer.replace(
                        self._root,
                        unit.path,
                        fingerprint(unit, self._options),
                        self._checked(unit, readings),
                        document="" if unit.ids_from_content else unit.document,
                        prefix=unit.prefix,
                        file=self._file(unit),
                    )
                break
            except IdTaken as clash:
                unit = self._renamed(unit, clash)
                (_, readings) = next(self._read_all([unit]))
        self._report.renamed += self._renames.pop(unit.path, {}).values()
        self._report.renamed += (rename._replace(file=self._shown(unit.path)) for rename in renames)

    def _checked(self, unit: Unit, readings: Iterable[Reading]) -> Iterator[Reading]:
        """The readings, and notes where a table is empty or the unit could not have the ids it asked for.

        A unit that gives nothing but skips is unreadable.
        """
        documents = passages = 0
        skips: list[Skip] = []
        streamed = unit.reader in STREAMED
        for reading in readings:
            documents += len(reading.documents)
            passages += len(reading.passages)
            if not passages:
                skips += reading.skips
            yield reading
            if streamed:
                self._rows += len(reading.passages)
                self._progress("rows", self._rows, None)
        if skips and not (passages if streamed else documents):
            more = f", and {len(skips) - 1:,} more problems" if len(skips) > 1 else ""
            first = next((skip for skip in skips if skip.line), skips[0])  # not what its columns were taken for
            raise Unreadable(f"nothing in it can be used: {first.cause}{more}", skips)
        wanted = self._found[unit.path].document
        notes = {
            "the table has no rows": streamed and not passages,
            f"its document is {unit.document}: {wanted} was taken when it was first read": unit.document != wanted,
            f"its ids start with {unit.prefix}: some were taken when it was first read": unit.prefix,
        }
        yield Reading(skips=[Skip(unit.path, 0, note) for note, holds in notes.items() if holds])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


# ---------------------------------------------------------------- the whole corpus


def drop_mended(writer: CorpusWriter) -> None:
    """Drop the notes on files that could not be read with one source, and were read with another since."""
    home = writer.workspace.root
    for root in writer.roots():
        path = (home / root).resolve()
        folder = os.path.relpath(path if path.is_dir() else path.parent, home.resolve())
        notes = writer.notes(root)
        unread = {note.file for note in notes if note.cause.startswith(UNREAD)}
        mended = {name for name in unread if writer.reader_of_file(os.path.normpath(Path(folder, name)), root)}
        kept_notes = [note for note in notes if note.file not in mended]
        if mended and (kept_notes or path.is_dir()):
            writer.replace(root, "", "", [Reading(skips=kept_notes)])
        elif mended:  # the source was this file
            writer.remove(writer.units(root)[""].number)


def finish(writer: CorpusWriter, options: Mapping[str, Any]) -> None:
    """Resolve the links, number the rows and replace the corpus by the copy that was written."""
    from importlib.metadata import version

    writer.workspace.progress("resolving links", 0, None)
    with writer.transaction():
        if concerns_little(writer):
            name_references_outside(writer, relink(writer))
        else:
            store_keys(writer, None)
            _resolve(writer)
            name_references_outside(writer)
        writer.number_rows()
        writer.hash_passages()
        writer.settle()
    versions = {"lemmata": version("lemmata"), "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    writer.publish({"verb": "ingest", "options": options, "inputs": writer.digest(), "versions": versions})


def _resolve(writer: CorpusWriter) -> None:
    """The targets of all links and bibliographies, and the locations that logs name where no table has them."""
    select = writer.connection.execute
    writer.remove_derived()
    named = writer.named_locations()
    derived = derive_hierarchy((cell for cell, _ in named), file=named[0][1]) if named else Reading()
    writer.add_derived(replace(derived, skips=()))
    holders: dict[str, list[str]] = {}
    for document, key in select("SELECT document, key FROM keys ORDER BY document"):
        holders.setdefault(key, []).append(document)
    keys: dict[int, list[str]] = {}
    for entry, key in select("SELECT entry, key FROM entry_keys ORDER BY rowid"):
        keys.setdefault(entry, []).append(key)
    matches = [
        (document, key, match_entry(keys.get(number, ()), lambda name: holders.get(name, ()), document), number)
        for number, document, key in select("SELECT number, document, key FROM bibliography")
    ]
    writer.set_targets("bibliography", (match[2:] for match in matches))
    cited = {(document, key): target for document, key, target, _ in matches if target is not None}
    names = names_in_memory(
        (Label(*row) for row in select("SELECT document, name, target FROM labels")),
        select("SELECT document, prefix, other FROM prefixes"),
        {row[0]: place_of(*row) for row in select(f"{IN_FILES} ORDER BY d.id")},
        lambda document, key: cited.get((document, key)),
    )
    links = select("SELECT number, document, relation, label FROM links WHERE number >= 0").fetchall()
    others: list[tuple[int, str, str | None]] = []  # of cells that hold several ids

    def targets() -> Iterator[tuple[str | None, int]]:
        for link in resolve(links, names):
            others.extend((link.number, label, target) for label, target in link.others)
            yield link.target, link.number

    writer.set_targets("links", targets())
    writer.set_other_links(others)
    writer.note_unknown_names()
    writer.add_derived(Reading(skips=derived.skips))
