"""Writes the corpus file: units are added, replaced and removed, links resolved, rows numbered.

A unit (a paper, an archive, a table) is replaced in one transaction, so the file always holds complete units.
An id belongs to one unit: the tables do not accept it twice, and nothing is ever merged or ignored.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import itertools
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lemmata.core.artefacts import file_facts
from lemmata.core.database import Connection, read_cell, transaction
from lemmata.core.errors import WorkspaceError
from lemmata.core.files import copy_file, explain_failed_write, sync, writing
from lemmata.core.types import Document, Label, Reading, Skip
from lemmata.core.workspace import Workspace, read_manifest, write_manifest
from lemmata.corpus.schema import (
    LOOKUP_INDEXES,
    OWNED,
    PASSAGE_COLUMNS,
    file_names,
    open_database,
    to_json,
)
from lemmata.corpus.texts import runs, store_hashes

_NO_UNIT = 0  # of notes on the corpus as a whole; units are numbered from 1
_INSERT = {
    "document": "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "passage": "INSERT INTO passages(id, unit, position, " + PASSAGE_COLUMNS.removeprefix("id, ") + ")"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "link": "INSERT INTO links(unit, document, source, relation, label) VALUES (?, ?, ?, ?, ?)",
}
# what others may refer to: labels, documents by their keys and places, passages; and the documents of its passages. The
# notes on a source, which are written anew each time, are a unit that nothing depends on.
_CHANGED = f"""
INSERT INTO changed SELECT 'unit', '', ?1 WHERE {
    " OR ".join(
        f"EXISTS (SELECT 1 FROM {table} WHERE unit = ?1)"
        for table in ("documents", "passages", "links", "bibliography")
    )
}
UNION ALL SELECT 'label', document, name FROM labels WHERE unit = ?1
UNION ALL SELECT 'key', document, key FROM keys WHERE unit = ?1
UNION ALL SELECT 'place', d.id, json_array(u.file, u.document, u.prefix)
    FROM documents d JOIN units u ON u.number = d.unit WHERE d.unit = ?1
UNION ALL SELECT 'target', document, id FROM passages WHERE unit = ?1
UNION ALL SELECT 'target', id, id FROM documents WHERE unit = ?1
UNION ALL SELECT 'document', id, '' FROM documents WHERE unit = ?1
UNION ALL SELECT DISTINCT 'document', document, '' FROM passages WHERE unit = ?1
"""


class StoredUnit(NamedTuple):
    """A unit as it was last read."""

    number: int
    fingerprint: str
    files: Mapping[str, str]
    document: str  # the id chosen for it; "" if all its ids come from its content
    prefix: str  # in front of the ids that come from its content


class Rename(NamedTuple):
    """An id that was taken, and the one used instead."""

    file: str
    what: str  # document, passage, or ids: all of a table or archive
    wanted: str
    id: str  # or the prefix of all ids
    owner: str  # the file that has the id

    def __str__(self) -> str:
        if self.what == "ids":
            return f"the ids of {self.file} start with {self.id}: {self.wanted} is taken by {self.owner}"
        return f"{self.file} is {self.what} {self.id}: {self.wanted} is taken by {self.owner}"


class IdTaken(Exception):  # noqa: N818 - says what happened
    """An id of a new unit belongs to another unit already; nothing of the new one may be written."""

    def __init__(self, wanted: str, what: str, root: str, unit: str) -> None:
        super().__init__(f"the {what} id {wanted!r} is taken by {unit} of {root}")
        self.wanted = wanted
        self.what = what  # document or passage
        self.root = root  # of the other unit
        self.unit = unit


class _Ids:
    """The ids of one unit while it is written."""

    def __init__(self, unit: int, settled: Mapping[str, str] | None, own: bool) -> None:
        self.unit = unit
        self.settled = settled  # wanted: used, from the reading before; None for a new unit
        self.shares = not own  # whether the rows of the unit name their documents
        self.documents: dict[str, str] = {}  # wanted: used
        self.moved: dict[str, str] = {}  # wanted: used, where another unit has the id
        self.renames: list[Rename] = []
        self._uses: dict[str, int] = {}

    def following(self, wanted: str) -> str:
        """The next id to try, for one that is taken."""
        self._uses[wanted] = self._uses.get(wanted, 1) + 1
        return f"{wanted}~{self._uses[wanted]}"

    def below(self, identity: str, document: str) -> str:
        """The id of something in a document, after its document was renamed."""
        used = self.documents.get(document, document)
        return used + identity[len(document) :] if used != document and identity.startswith(document) else identity


def stored_columns(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """For each source the columns that were named for its tables, by option."""
    if not workspace.database.is_file():
        return {}
    with contextlib.closing(open_database(workspace.database, create=False)) as connection:
        rows = connection.execute("SELECT root, columns FROM sources")
        return {root: read_cell(columns) for root, columns in rows}


class CorpusWriter:
    """The only writer of a corpus file; a context manager that also locks the workspace.

    It writes to a copy that replaces the corpus when the block ends. The old corpus can be searched until then, and
    after a failure. A copy left by a stopped run is continued; a copy that filled the disk is removed.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.connection: Connection
        self.resumed = False  # whether a stopped run had begun to write
        self._tracked: bool | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> CorpusWriter:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.workspace.hold())
            stack.push(self._leave)
            stack.enter_context(explain_failed_write(self.workspace.incoming))
            self._begin()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._stack.__exit__(kind, error, trace)

    def _begin(self) -> None:
        """Open the copy of a stopped run, or make one."""
        workspace = self.workspace
        self.resumed = workspace.incoming.is_file()
        if workspace.database.is_file() and not self.resumed:
            open_database(workspace.database, create=False).close()  # undoes what a killed process left half done
            with writing(workspace.incoming, durable=False) as temporary:
                copy_file(workspace.database, temporary)
        workspace.corpus_folder.mkdir(parents=True, exist_ok=True)
        self.connection = open_database(workspace.incoming, create=True)
        self.connection.execute("PRAGMA journal_mode = WAL")  # many small transactions, without waiting for the disk

    def _leave(self, kind: type[BaseException] | None, error: BaseException | None, _trace: Any) -> None:
        opened = hasattr(self, "connection")
        useless = isinstance(error, WorkspaceError)  # the copy could not be written
        if opened and self.workspace.incoming.exists() and not self.resumed and not self.connection.total_changes:
            useless = useless or self.workspace.database.is_file()  # it is the same corpus
        if kind is None and not useless:
            self.publish()
        elif opened:
            self.connection.close()
        if useless:
            for suffix in ("", "-wal", "-shm"):
                self.workspace.incoming.with_name(self.workspace.incoming.name + suffix).unlink(missing_ok=True)

    def publish(self, manifest: Mapping[str, Any] | None = None) -> None:
        """Replace the corpus by the copy, and its manifest if one is given. Nothing can be written afterwards."""
        workspace = self.workspace
        if not workspace.incoming.exists():
            return  # already published
        self.connection.execute("PRAGMA journal_mode = DELETE")  # one file, which can be read without writing
        self.connection.close()
        sync(workspace.incoming)
        if manifest is None:
            manifest = read_manifest(workspace.manifest(workspace.corpus_folder))
        if manifest is not None:
            manifest = {**manifest, "files": {workspace.database.name: file_facts(workspace.incoming)}}
            workspace.manifest(workspace.corpus_folder).unlink(missing_ok=True)
        workspace.incoming.replace(workspace.database)
        sync(workspace.corpus_folder)
        if manifest is not None:
            write_manifest(workspace.manifest(workspace.corpus_folder), manifest)

    def units(self, root: str) -> dict[str, StoredUnit]:
        """The units of a root as they were last read, by unit id."""
        rows = self.connection.execute(
            "SELECT id, number, fingerprint, files, document, prefix FROM units WHERE root = ?", (root,)
        )
        return {
            name: StoredUnit(number, fingerprint, read_cell(files), *names)
            for name, number, fingerprint, files, *names in rows
        }

    def store_columns(self, root: str, columns: Mapping[str, Any]) -> None:
        """Note the columns that were named for the tables of a source, by option; without any, nothing is noted."""
        self.connection.execute("DELETE FROM sources WHERE root = ?", (root,))
        if columns:
            self.connection.execute("INSERT INTO sources VALUES (?, ?)", (root, to_json(columns)))

    def roots(self) -> list[str]:
        """All sources, in the order of their names."""
        return self.connection.column("SELECT DISTINCT root FROM units ORDER BY root")

    def notes(self, root: str) -> list[Skip]:
        """The notes of a source on what it did not read."""
        rows = self.connection.execute(
            "SELECT s.file, line, cause FROM skips s JOIN units ON number = unit WHERE root = ? AND id = ''", (root,)
        )
        return [Skip(*row) for row in rows]

    def owner_of_document(self, identity: str) -> tuple[str, str] | None:
        """Root and unit that own the id of a document, or for which it was chosen; None where it is free."""
        query = (
            "SELECT u.root, u.id FROM documents d JOIN units u ON u.number = d.unit WHERE d.id = ?1"
            " UNION ALL SELECT root, id FROM units WHERE document = ?1"
        )
        owner: tuple[str, str] | None = self.connection.execute(query, (identity,)).fetchone()
        return owner

    def reader_of_file(self, file: str, root: str) -> tuple[str, str] | None:
        """Another root that has read this file, and the unit there."""
        query = "SELECT root, id FROM units WHERE file = ? AND root != ?"
        other: tuple[str, str] | None = self.connection.execute(query, (file, root)).fetchone()
        return other

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """A transaction on the file."""
        return transaction(self.connection)

    def remove(self, number: int) -> None:
        """Delete a unit and everything that came from it. A document that another unit defines too passes to it."""
        shared = self._take_shared(number)
        self._delete(number)
        self._return_shared(shared)

    def _delete(self, number: int) -> None:
        self.note_changed(number)
        self.connection.execute(
            "DELETE FROM text_hashes WHERE passage IN (SELECT number FROM passages WHERE unit = ?)", (number,)
        )
        for table in (*OWNED, "keys", "entry_keys"):
            self.connection.execute(f"DELETE FROM {table} WHERE unit = ?", (number,))
        self.connection.execute("DELETE FROM units WHERE number = ?", (number,))

    def _take_shared(self, number: int) -> list[tuple[list[Any], list[Any]]]:
        """The documents of a unit that other units define too, with their links."""
        rows = self.connection.execute(
            "SELECT * FROM documents WHERE unit = ? AND id IN (SELECT document FROM claims)", (number,)
        ).fetchall()
        query = "SELECT document, source, relation, label FROM links WHERE unit = ? AND source = ?"
        return [(list(row), self.connection.execute(query, (number, row[0])).fetchall()) for row in rows]

    def _return_shared(self, shared: Iterable[tuple[list[Any], list[Any]]]) -> None:
        """Pass documents that lost their unit to another that defines them; the next ingest reads that one again."""
        execute = self.connection.execute
        for (identity, _, *fields), links in shared:
            claim = execute("SELECT unit FROM claims WHERE document = ? ORDER BY unit", (identity,)).fetchone()
            if claim is None or execute("SELECT 1 FROM documents WHERE id = ?", (identity,)).fetchone():
                continue
            execute(_INSERT["document"], (identity, *claim, *fields))
            execute("DELETE FROM claims WHERE document = ? AND unit = ?", (identity, *claim))
            execute("UPDATE units SET fingerprint = '' WHERE number = ?", claim)
            self.connection.executemany(_INSERT["link"], ((*claim, *link) for link in links))
            self.note_changed(*claim)

    def replace(
        self,
        root: str,
        unit: str,
        fingerprint: str,
        readings: Iterable[Reading],
        *,
        document: str = "",
        prefix: str = "",
        file: str = "",
    ) -> list[Rename]:
        """Replace the content of a unit, and return the ids inside it that had to be changed.

        `document` is the id chosen for the unit, `prefix` the prefix of the ids from its content (the readings have
        it already), `file` its path. A new unit raises IdTaken if another unit has one of its ids. A unit that was
        read before keeps its ids, and only new clashes get a number (`id~2`). Call inside a transaction.
        """
        execute = self.connection.execute
        old = execute("SELECT number FROM units WHERE root = ? AND id = ?", (root, unit)).fetchone()
        settled, shared = None, []
        if old:
            settled = dict(execute("SELECT wanted, id FROM renames WHERE unit = ?", old).fetchall())
            shared = self._take_shared(*old)
            self._delete(*old)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        number = execute(
            "INSERT INTO units(root, id, fingerprint, files, document, prefix, file, read_at)"
            " VALUES (?, ?, ?, '{}', ?, ?, ?, ?)",
            (root, unit, fingerprint, document, prefix, file, now),
        ).lastrowid
        assert number is not None
        files: dict[str, str] = {}
        count = 0
        ids = _Ids(number, settled, own=bool(document))
        for reading in readings:
            files |= reading.files
            count += self._add(ids, reading, count)
        execute("UPDATE units SET files = ? WHERE number = ?", (to_json(files), number))
        self._return_shared(shared)
        self._follow_renames(ids, prefix)
        self.note_changed(number)
        return ids.renames

    def _follow_renames(self, ids: _Ids, prefix: str) -> None:
        """Point the links inside a unit to its renamed passages. Names of locations are not ids of the unit."""
        if ids.moved:
            rows = ((ids.unit, *item) for item in ids.moved.items())
            self.connection.executemany("INSERT INTO renames VALUES (?, ?, ?)", rows)
            new = "SELECT id FROM renames r WHERE r.unit = ?1 AND r.wanted = label"
            self.connection.execute(
                f"UPDATE links SET label = ({new}) WHERE unit = ?1 AND relation != 'reports_about' AND EXISTS ({new})",
                (ids.unit,),
            )
        if prefix:
            self.connection.execute(
                "UPDATE links SET label = ?2 || label WHERE unit = ?1 AND relation != 'reports_about'"
                " AND EXISTS (SELECT 1 FROM passages p WHERE p.id = ?2 || label AND p.unit = ?1)",
                (ids.unit, prefix),
            )

    def _add(self, ids: _Ids, reading: Reading, position: int) -> int:
        """Store a reading of a unit; `position` is that of its first passage. Returns the number of passages."""
        unit = ids.unit
        links: list[tuple[int, str, str, str, str]] = []
        skips = list(reading.skips)
        if unit != _NO_UNIT and any(document.kind == "location" for document in reading.documents):
            self.remove_derived()  # a table of locations counts more than their names
        for d in reading.documents:
            values = (d.kind, d.title, to_json(d.authors), d.date, to_json(d.categories), d.file, to_json(d.metadata))
            if self._is_shared(ids, d, values, skips):
                continue
            identity = self._insert(ids, "document", d.id, (unit, *values), Skip(d.file, 0, ""), skips)
            ids.documents[d.id] = identity
            links += ((unit, identity, identity, link.relation, link.label) for link in d.links)
        count = 0
        for p in reading.passages:
            document = ids.documents.get(p.document, p.document)
            row = (
                unit, position + count, document, p.kind, p.text, p.title, p.section, p.raw, p.proof,
                p.file, p.first_line, p.last_line, p.date, p.confidence, to_json(p.metadata),
            )  # fmt: skip
            wanted = ids.below(p.id, p.document)
            identity = self._insert(ids, "passage", wanted, row, Skip(p.file, p.first_line, ""), skips)
            count += 1
            links += ((unit, document, identity, link.relation, link.label) for link in p.links)
        many = self.connection.executemany
        many(_INSERT["link"], links)
        many("INSERT INTO labels VALUES (?, ?, ?, ?)", ((unit, *_label(ids, label)) for label in reading.labels))
        many(
            "INSERT INTO bibliography(unit, document, key, title, authors, year, arxiv, doi, text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (unit, ids.below(document, document), r.key, r.title, r.authors, r.year, r.arxiv, r.doi, r.text)
                for document, references in reading.references.items()
                for r in references
            ),
        )
        many(
            "INSERT INTO prefixes VALUES (?, ?, ?, ?)",
            (
                (unit, ids.below(document, document), prefix, other)
                for document, prefixes in reading.prefixes.items()
                for prefix, other in prefixes.items()
            ),
        )
        many("INSERT INTO skips VALUES (?, ?, ?, ?)", ((unit, *skip) for skip in skips))
        return count

    def _insert(self, ids: _Ids, what: str, wanted: str, values: Sequence[Any], place: Skip, skips: list[Skip]) -> str:
        """Insert a document or passage under the id it wants or, where that is taken, under another."""
        identity = (ids.settled or {}).get(wanted, wanted)  # as it was before
        owner: tuple[int, str, str] | None = None
        while True:
            try:
                self.connection.execute(_INSERT[what], (identity, *values))
                break
            except sqlite3.IntegrityError as error:
                if error.sqlite_errorname not in ("SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE"):
                    raise
            query = f"SELECT u.number, u.root, u.id FROM {what}s t JOIN units u ON u.number = t.unit WHERE t.id = ?"
            other: tuple[int, str, str] = self.connection.execute(query, (identity,)).fetchone()
            if other[0] != ids.unit and ids.settled is None:
                raise IdTaken(wanted, what, *other[1:])
            owner = owner or other
            identity = ids.following(wanted)
        if identity != wanted:
            own = owner is not None and owner[0] == ids.unit
            if not own:  # links to an id that occurs twice lead to its first use
                ids.moved[wanted] = identity
            holder = "an earlier one of the same source" if own else owner[2] if owner else "another source"
            ids.renames.append(Rename(place.file, what, wanted, identity, holder))
            cause = f"the {what} id {wanted!r} is taken by {holder}: it is called {identity!r}"
            skips.append(place._replace(cause=cause))
        return identity

    def _is_shared(self, ids: _Ids, document: Document, values: Sequence[Any], skips: list[Skip]) -> bool:
        """Whether another unit already defines this location or text; if so, this unit's claim to it is stored."""
        if not ids.shares or document.kind not in ("location", "text"):
            return False
        row = self.connection.execute(
            "SELECT d.kind, title, authors, date, categories, metadata, number, u.id, u.document"
            " FROM documents d JOIN units u ON number = unit WHERE d.id = ?",
            (document.id,),
        ).fetchone()
        if row is None or row[-3] == ids.unit or row[-1]:
            return False
        *fields, number, unit, _ = row
        query = "SELECT relation, label FROM links WHERE unit = ? AND source = ?"
        links = self.connection.execute(query, (number, document.id)).fetchall()
        equal = (*fields, *links) == (*values[:5], values[6], *((link.relation, link.label) for link in document.links))
        if not equal and document.kind != "location":
            return False
        if not equal:
            name = document.metadata.get("location", document.id)
            skips.append(
                Skip(document.file, 0, f"the location {name!r} is defined differently in {unit}, which counts")
            )
        self.connection.execute("INSERT INTO claims VALUES (?, ?)", (ids.unit, document.id))
        return True

    # ------------------------------------------------------------ locations without a table of them

    def remove_derived(self) -> None:
        """Remove the locations that were derived from the names in logs."""
        for table in ("documents", "links", "labels"):
            self.connection.execute(f"DELETE FROM {table} WHERE unit = ?", (_NO_UNIT,))

    def has_locations(self) -> bool:
        return bool(self.connection.value("SELECT 1 FROM documents WHERE kind = 'location' LIMIT 1"))

    def named_locations(self) -> list[tuple[str, str]]:
        """Cell and file of the locations that logs name, each once; none where a table of locations was read."""
        if self.has_locations():
            return []
        return self.connection.execute(
            "SELECT l.label, MIN(p.file) FROM links l JOIN passages p ON p.id = l.source WHERE l.number >= 0"
            " AND l.relation = 'reports_about' AND p.kind = 'log' GROUP BY l.label ORDER BY MIN(p.number), l.label"
        ).fetchall()

    def add_derived(self, reading: Reading) -> None:
        """Store derived locations and notes on them, which belong to no unit."""
        self._add(_Ids(_NO_UNIT, {}, own=True), reading, 0)

    # ------------------------------------------------------------ the whole corpus

    def set_targets(self, table: str, targets: Iterable[tuple[str | None, int]]) -> None:
        """Write the targets of `links` or `bibliography` by number, where they differ."""
        query = f"UPDATE {table} SET target = ?1 WHERE number = ?2 AND target IS NOT ?1"
        self.connection.executemany(query, targets)

    def set_other_links(self, others: Sequence[tuple[int, str, str | None]]) -> None:
        """Replace the links of cells with several ids, from the second id on: number of the first link, label, target.

        Their own numbers are negative, as they are made again whenever links are resolved.
        """
        self.connection.execute("DELETE FROM links WHERE number < 0")
        self.connection.executemany(
            "INSERT INTO links(number, unit, document, source, relation, label, target)"
            " SELECT ?1, unit, document, source, relation, ?3, ?4 FROM links WHERE number = ?2",
            ((place - len(others), *other) for place, other in enumerate(others)),
        )

    def note_unknown_names(self) -> None:
        """Replace the notes on locations that the hierarchy does not know and on related logs that are not there."""
        self.connection.execute("DELETE FROM skips WHERE unit = ?", (_NO_UNIT,))
        causes = {"related_to": "a related log that is not in the corpus"}
        if self.has_locations():  # without a hierarchy no location is expected to be known
            causes["reports_about"] = "a location that is not in the hierarchy"
        file_of = file_names(self.connection)
        for relation, cause in causes.items():
            rows = self.connection.execute(
                "SELECT p.unit, p.file, l.label, COUNT(*), MIN(p.first_line) FROM links l"
                " JOIN passages p ON p.id = l.source WHERE l.relation = ? AND l.target IS NULL AND p.kind = 'log'"
                " GROUP BY p.unit, p.file, l.label ORDER BY p.unit, p.file, MIN(p.first_line), l.label",
                (relation,),
            )
            for place, group in itertools.groupby(rows, key=lambda row: row[:2]):
                names = list(group)
                shown = ", ".join(repr(row[2]) for row in names[:5])
                more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
                logs = sum(row[3] for row in names)
                note = f"{'1 log names' if logs == 1 else f'{logs:,} logs name'} {cause}: {shown}{more}"
                values = (_NO_UNIT, file_of(*place), names[0][4], note)
                self.connection.execute("INSERT INTO skips VALUES (?, ?, ?, ?)", values)

    def number_rows(self) -> None:
        """Number the rows: by document, then by position in it, whatever the order of ingestion.

        Those before the first document that changed stay; so do those behind the last, if there are as many as before.
        """

        changed = "FROM changed WHERE what = 'document'"
        value, execute = self.connection.value, self.connection.execute
        first = value(f"SELECT MIN(document) {changed}") if self.is_tracked else ""
        if first is None:
            return
        count = value("SELECT COUNT(*) FROM passages")
        is_shifted = count != value("SELECT COUNT(*) FROM rows")
        last = value(f"SELECT MAX(document) {changed}") if self.is_tracked and not is_shifted else None
        start = value("SELECT COUNT(*) FROM passages WHERE document < ?", (first,))
        if last is not None:
            between = "FROM passages WHERE document >= ? AND document <= ?"
            stop = start + value(f"SELECT COUNT(*) {between}", (first, last))
            execute("DELETE FROM rows WHERE row >= ? AND row < ?", (start, stop))
            number = f"ROW_NUMBER() OVER (ORDER BY document, position) - 1 + {start}"
            execute(f"INSERT INTO rows SELECT {number}, number {between}", (first, last))
            return
        if start < count / 2:  # it is faster to number all than to delete most
            first, start = "", 0
        execute(f"DELETE FROM rows WHERE row >= {start}" if start else "DELETE FROM rows")
        # SQLite gives a row without a number the next one, in a third of the time that counting takes
        following = "FROM passages WHERE document >= ? ORDER BY document, position"
        execute(f"INSERT INTO rows SELECT {start}, number {following} LIMIT 1", (first,))
        execute(f"INSERT INTO rows(passage) SELECT number {following} LIMIT -1 OFFSET 1", (first,))

    def changed(self, what: str) -> list[tuple[str, str]]:
        """What changed of one kind since the links were resolved, each once: document and name."""
        return self.connection.execute("SELECT DISTINCT document, name FROM changed WHERE what = ?", (what,)).fetchall()

    def changed_units(self) -> list[int]:
        """The units that were written since the links were resolved."""
        query = "SELECT DISTINCT number FROM changed JOIN units ON number = CAST(name AS INTEGER) WHERE what = 'unit'"
        return self.connection.column(query)

    def note_changed(self, number: int) -> None:
        """Note what a unit has, before and after it is changed: what others refer to may have another meaning then."""
        if self.is_tracked:
            self.connection.execute(_CHANGED, (number,))

    @property
    def is_tracked(self) -> bool:
        """Whether links were resolved before, so that only those must be resolved again that a change concerns."""
        if self._tracked is None:
            self._tracked = bool(self.connection.value("SELECT 1 FROM sqlite_master WHERE name = 'labels_of_name'"))
        return self._tracked

    def settle(self) -> None:
        """Forget what changed; from now on changes are noted."""
        self.connection.execute("DELETE FROM changed")
        for statement in LOOKUP_INDEXES.split(";"):
            self.connection.execute(statement)

    def hash_passages(self) -> None:
        """Store the hashes of the texts of documents that changed, at the first ingest of all."""
        if self.is_tracked:
            documents = "SELECT document FROM changed WHERE what = 'document'"
            query = (
                f"SELECT row FROM passages JOIN rows ON number = passage WHERE document IN ({documents}) ORDER BY row"
            )
            for start, stop in runs(self.connection.column(query)):
                store_hashes(self.connection, start, stop)
        else:
            store_hashes(self.connection, 0, self.connection.value("SELECT COUNT(*) FROM rows"))

    def digest(self) -> str:
        """A hash of all units and how they were read."""
        digest = hashlib.sha256()
        for row in self.connection.execute("SELECT root, id, fingerprint, files FROM units ORDER BY root, id"):
            digest.update("\0".join(row).encode())
        return digest.hexdigest()


def _label(ids: _Ids, label: Label) -> Label:
    """A label after the renaming of its document or target; the name of a renamed passage is its new id."""
    document, name, target = label
    moved = ids.moved.get(target)
    if moved is not None:
        return Label(ids.below(document, document), moved if name == target else name, moved)
    return Label(ids.below(document, document), name, ids.below(target, document))
