"""Passages, documents, labels, links and bibliographies in one SQLite file.

A unit (a paper, an archive, a table) is replaced in one transaction, so the file always holds complete units.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from lemmata.errors import WorkspaceError
from lemmata.files import lock_file
from lemmata.store.layout import FORMAT, Layout, read_manifest, transaction
from lemmata.types import Document, Integers, Label, Link, Mask, Passage, Reading, Reference, Skip, titled

__all__ = ["Corpus", "CorpusWriter", "StoredUnit"]

_SCHEMA = """
CREATE TABLE units(
    number INTEGER PRIMARY KEY, root TEXT NOT NULL, id TEXT NOT NULL, fingerprint TEXT NOT NULL,
    files TEXT NOT NULL, UNIQUE(root, id));
CREATE TABLE documents(
    id TEXT PRIMARY KEY, unit INTEGER NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL, authors TEXT NOT NULL,
    date TEXT, categories TEXT NOT NULL, file TEXT NOT NULL, metadata TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE passages(
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, unit INTEGER NOT NULL, document TEXT NOT NULL,
    position INTEGER NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL, section TEXT NOT NULL, file TEXT NOT NULL,
    first_line INTEGER NOT NULL, last_line INTEGER NOT NULL, date TEXT, confidence REAL NOT NULL,
    metadata TEXT NOT NULL, text TEXT NOT NULL, raw TEXT NOT NULL, proof TEXT NOT NULL);
CREATE TABLE rows(row INTEGER PRIMARY KEY, passage INTEGER NOT NULL UNIQUE);
CREATE TABLE links(
    number INTEGER PRIMARY KEY, unit INTEGER NOT NULL, document TEXT NOT NULL, source TEXT NOT NULL,
    relation TEXT NOT NULL, label TEXT NOT NULL, target TEXT);
CREATE TABLE labels(unit INTEGER NOT NULL, document TEXT NOT NULL, name TEXT NOT NULL, target TEXT NOT NULL);
CREATE TABLE bibliography(
    number INTEGER PRIMARY KEY, unit INTEGER NOT NULL, document TEXT NOT NULL, key TEXT NOT NULL,
    title TEXT NOT NULL, authors TEXT NOT NULL, year INTEGER, arxiv TEXT NOT NULL, doi TEXT NOT NULL,
    text TEXT NOT NULL, target TEXT);
CREATE TABLE prefixes(unit INTEGER NOT NULL, document TEXT NOT NULL, prefix TEXT NOT NULL, other TEXT NOT NULL);
CREATE TABLE skips(unit INTEGER NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, cause TEXT NOT NULL);
CREATE INDEX passages_of_document ON passages(document, position);
CREATE INDEX links_of_source ON links(source);
CREATE INDEX links_of_target ON links(target);
"""
_OWNED = ("documents", "passages", "links", "labels", "bibliography", "prefixes", "skips")
_SCHEMA += "".join(f"CREATE INDEX {table}_of_unit ON {table}(unit);\n" for table in _OWNED)
_PASSAGE = (
    "id, document, kind, text, title, section, raw, proof, file, first_line, last_line, date, confidence, metadata"
)

# ids of the passages that report about one of the locations in a JSON list, or about one below it
_AT_LOCATIONS = """
WITH RECURSIVE names(name) AS (SELECT value FROM json_each(?)),
here(id) AS (
    SELECT id FROM documents WHERE kind = 'location' AND casefold(substr(id, 10)) IN names
    UNION SELECT links.source FROM here JOIN links ON links.target = here.id WHERE links.relation = 'part_of')
SELECT source FROM links WHERE relation = 'reports_about' AND target IN here
UNION SELECT source FROM links WHERE relation = 'reports_about' AND target IS NULL AND casefold(label) IN names
"""


def _connect(path: Path, *, create: bool) -> sqlite3.Connection:
    if not create and not path.is_file():
        raise WorkspaceError(f"{path.parent.parent} has no corpus yet: run 'lemmata ingest PATHS…' first")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and create:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;")
        elif version != FORMAT:
            raise WorkspaceError(
                f"{path} has format {version}, this lemmata reads {FORMAT}: ingest into a new workspace"
            )
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -65536")
    except sqlite3.DatabaseError as error:
        raise WorkspaceError(f"{path} is damaged or no corpus file ({error})") from error
    return connection


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


class StoredUnit(NamedTuple):
    """A unit as it was last read."""

    number: int
    fingerprint: str
    files: Mapping[str, str]


class CorpusWriter:
    """The only writer of a corpus file; a context manager that also locks the workspace."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.connection: sqlite3.Connection
        self._lock: Any = None

    def __enter__(self) -> CorpusWriter:
        self._lock = lock_file(self.layout.lock)
        try:
            self.connection = _connect(self.layout.database, create=True)
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(sqlite3.Error):  # the data is committed; the checkpoint only tidies up
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.connection.close()
        self._lock.close()

    def units(self, root: str) -> dict[str, StoredUnit]:
        """The units of a root as they were last read, by unit id."""
        rows = self.connection.execute("SELECT id, number, fingerprint, files FROM units WHERE root = ?", (root,))
        return {name: StoredUnit(number, fingerprint, json.loads(files)) for name, number, fingerprint, files in rows}

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """A transaction on the file."""
        return transaction(self.connection)

    def remove(self, number: int) -> None:
        """Delete a unit and everything that came from it."""
        for table in _OWNED:
            self.connection.execute(f"DELETE FROM {table} WHERE unit = ?", (number,))
        self.connection.execute("DELETE FROM units WHERE number = ?", (number,))

    def replace(self, root: str, unit: str, fingerprint: str, readings: Iterable[Reading]) -> int:
        """Replace the content of a unit; returns the number of its passages.

        An id that another unit already has is skipped with a note. Call inside a transaction.
        """
        old = self.connection.execute("SELECT number FROM units WHERE root = ? AND id = ?", (root, unit)).fetchone()
        if old:
            self.remove(old[0])
        number = self.connection.execute(
            "INSERT INTO units(root, id, fingerprint, files) VALUES (?, ?, ?, '{}')",
            (root, unit, fingerprint),
        ).lastrowid
        assert number is not None
        files: dict[str, str] = {}
        count = 0
        for reading in readings:
            files |= reading.files
            count += self._add(number, reading, count)
        self.connection.execute("UPDATE units SET files = ? WHERE number = ?", (_json(files), number))
        return count

    def _add(self, unit: int, reading: Reading, position: int) -> int:
        insert = self.connection.execute
        links: list[tuple[int, str, str, str, str]] = []
        skips = list(reading.skips)
        for d in reading.documents:
            done = insert(
                "INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    d.id,
                    unit,
                    d.kind,
                    d.title,
                    _json(d.authors),
                    d.date,
                    _json(d.categories),
                    d.file,
                    _json(d.metadata),
                ),
            )
            if not done.rowcount:
                skips.append(Skip(d.file, 0, f"the document id {d.id!r} is taken by another source"))
            links += ((unit, d.id, d.id, link.relation, link.label) for link in d.links)
        count = 0
        for p in reading.passages:
            done = insert(
                "INSERT OR IGNORE INTO passages(unit, position, " + _PASSAGE + ")"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    unit, position + count, p.id, p.document, p.kind, p.text, p.title, p.section, p.raw, p.proof,
                    p.file, p.first_line, p.last_line, p.date, p.confidence, _json(p.metadata),
                ),
            )  # fmt: skip
            if not done.rowcount:
                skips.append(Skip(p.file, p.first_line, f"the passage id {p.id!r} is taken by another source"))
                continue
            count += 1
            links += ((unit, p.document, p.id, link.relation, link.label) for link in p.links)
        many = self.connection.executemany
        many("INSERT INTO links(unit, document, source, relation, label) VALUES (?, ?, ?, ?, ?)", links)
        many("INSERT INTO labels VALUES (?, ?, ?, ?)", ((unit, *label) for label in reading.labels))
        many(
            "INSERT INTO bibliography(unit, document, key, title, authors, year, arxiv, doi, text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (unit, document, r.key, r.title, r.authors, r.year, r.arxiv, r.doi, r.text)
                for document, references in reading.references.items()
                for r in references
            ),
        )
        many(
            "INSERT INTO prefixes VALUES (?, ?, ?, ?)",
            (
                (unit, document, prefix, other)
                for document, prefixes in reading.prefixes.items()
                for prefix, other in prefixes.items()
            ),
        )
        many("INSERT INTO skips VALUES (?, ?, ?, ?)", ((unit, *skip) for skip in skips))
        return count

    # ------------------------------------------------------------ for resolving links

    def labels(self) -> Iterator[Label]:
        return (Label(*row) for row in self.connection.execute("SELECT document, name, target FROM labels"))

    def prefixes(self) -> Iterator[tuple[str, str, str]]:
        yield from self.connection.execute("SELECT document, prefix, other FROM prefixes")

    def links(self) -> Iterator[tuple[int, str, str, str]]:
        """Number, document, relation and label of every link."""
        yield from self.connection.execute("SELECT number, document, relation, label FROM links")

    def bibliography(self) -> Iterator[tuple[int, str, Reference]]:
        """Number, document and entry of every bibliography."""
        rows = self.connection.execute(
            "SELECT number, document, key, title, authors, year, arxiv, doi, text FROM bibliography"
        )
        return ((number, document, Reference(*fields)) for number, document, *fields in rows)

    def documents(self) -> Iterator[Document]:
        return _documents(self.connection)

    def set_targets(self, table: str, targets: Iterable[tuple[str | None, int]]) -> None:
        """Write the targets of `links` or `bibliography` by number, where they differ."""
        assert table in ("links", "bibliography")
        self.connection.executemany(
            f"UPDATE {table} SET target = ?1 WHERE number = ?2 AND target IS NOT ?1",
            targets,
        )

    def number_rows(self) -> None:
        """Number the rows: by document, then by position in it, whatever the order of ingestion."""
        self.connection.execute("DELETE FROM rows")
        self.connection.execute(
            "INSERT INTO rows SELECT ROW_NUMBER() OVER (ORDER BY document, position) - 1, number FROM passages"
        )

    def digest(self) -> str:
        """A hash of all units and how they were read."""
        digest = hashlib.sha256()
        for row in self.connection.execute("SELECT root, id, fingerprint, files FROM units ORDER BY root, id"):
            digest.update("\0".join(row).encode())
        return digest.hexdigest()


def _documents(connection: sqlite3.Connection, where: str = "", values: Sequence[str] = ()) -> Iterator[Document]:
    rows = connection.execute(
        "SELECT id, title, kind, authors, date, categories, file, metadata FROM documents " + where + " ORDER BY id",
        values,
    )
    for name, title, kind, authors, date, categories, file, metadata in rows:
        yield Document(
            name,
            title,
            kind,
            tuple(json.loads(authors)),
            date,
            tuple(json.loads(categories)),
            file,
            json.loads(metadata),
        )


class Corpus(Sequence[Passage]):
    """The passages of a workspace in fixed order, read from disk on demand; safe to share between threads."""

    def __init__(self, layout: Layout) -> None:
        manifest = read_manifest(layout.manifest(layout.corpus))
        if manifest is None and layout.database.is_file():
            raise WorkspaceError(f"the last ingest into {layout.root} did not finish: run the same command again")
        self.inputs: str = (manifest or {}).get("inputs", "")  # changes whenever the corpus does
        self._connection = _connect(layout.database, create=False)
        self._connection.create_function("casefold", 1, str.casefold, deterministic=True)
        self._length: int = self._connection.execute("SELECT COUNT(*) FROM rows").fetchone()[0]

    def close(self) -> None:
        self._connection.close()

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, row: int) -> Passage: ...
    @overload
    def __getitem__(self, row: slice) -> list[Passage]: ...
    def __getitem__(self, row: int | slice) -> Passage | list[Passage]:
        if isinstance(row, slice):
            return self.passages(range(*row.indices(self._length)))
        if not -self._length <= row < self._length:
            raise IndexError(row)
        return self.passages([row % self._length])[0]

    def __iter__(self) -> Iterator[Passage]:
        for start in range(0, self._length, 1000):
            yield from self[start : start + 1000]

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        """Passages of some rows, with their links, in the given order."""
        requested = [int(row) for row in rows]
        passages: dict[int, Passage] = {}
        for start in range(0, len(requested), 500):
            part = requested[start : start + 500]
            marks = ",".join("?" * len(part))
            selected = self._connection.execute(
                f"SELECT row, {_PASSAGE} FROM rows JOIN passages ON number = passage WHERE row IN ({marks})",
                part,
            ).fetchall()
            links = self._links([row[1] for row in selected])
            for row, *fields in selected:
                passage = Passage(*fields)
                passages[row] = replace(passage, metadata=json.loads(fields[-1]), links=links.get(passage.id, ()))
        return [passages[row] for row in requested]

    def _links(self, ids: Sequence[str]) -> dict[str, tuple[Link, ...]]:
        marks = ",".join("?" * len(ids))
        grouped: dict[str, list[Link]] = {}
        for source, *link in self._connection.execute(
            f"SELECT source, relation, label, target FROM links WHERE source IN ({marks}) ORDER BY number",
            ids,
        ):
            grouped.setdefault(source, []).append(Link(*link))
        return {source: tuple(links) for source, links in grouped.items()}

    def row(self, identity: str) -> int:
        """The row of a passage; KeyError when there is none of that id."""
        found = self._connection.execute(
            "SELECT row FROM passages JOIN rows ON passage = number WHERE id = ?", (identity,)
        ).fetchone()
        if found is None:
            raise KeyError(identity)
        return int(found[0])

    def ids_of(self, rows: Sequence[int]) -> list[str]:
        """Ids of some rows, in the given order."""
        marks = ",".join("?" * len(rows))
        query = f"SELECT row, id FROM rows JOIN passages ON number = passage WHERE row IN ({marks})"
        ids = dict(self._connection.execute(query, list(rows)))
        return [ids[row] for row in rows]

    def select(
        self,
        *,
        kinds: Sequence[str] = (),
        documents: Sequence[str] = (),
        categories: Sequence[str] = (),
        since: str = "",
        until: str = "",
        locations: Sequence[str] = (),
        where: Sequence[tuple[str, str]] = (),
    ) -> Mask:
        """Mask of the rows with one of the kinds, documents and categories and a date in the range; empty: all.

        A category includes its subcategories (`math` includes `math.CO`). A passage without a date has its document's.
        A location includes everything below it; a passage is at the locations that it reports about. `where` has
        columns and values of the metadata of a passage or its document, in any case of letters: of each column one
        of the values.
        """
        conditions: list[str] = []
        values: list[str] = []
        for column, allowed in (("p.kind", kinds), ("p.document", documents)):
            if allowed:
                conditions.append(f"{column} IN ({','.join('?' * len(allowed))})")
                values += allowed
        if categories:
            condition = "EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = ? OR value LIKE ? OR value LIKE ?)"
            conditions.append("(" + " OR ".join([condition] * len(categories)) + ")")
            values += [form for name in categories for form in (name, f"{name}.%", f"{name}:%")]
        for bound, sign in ((since, ">="), (until, "<=")):
            if bound:
                date = "COALESCE(p.date, d.date)"
                conditions.append(f"substr({date}, 1, {len(bound)}) {sign} ?")
                values.append(bound)
        if locations:
            conditions.append(f"p.id IN ({_AT_LOCATIONS})")
            values.append(_json([name.casefold().removeprefix("location:") for name in locations]))
        query = "SELECT row FROM rows JOIN passages p ON p.number = passage LEFT JOIN documents d ON d.id = p.document"
        if conditions:
            query += " WHERE " + " AND ".join(conditions)
        mask = np.zeros(self._length, dtype=bool)
        for (row,) in self._connection.execute(query, values):
            mask[row] = True
        for column in dict.fromkeys(column for column, _ in where):
            wanted = {value.casefold() for other, value in where if other == column}
            mask &= np.fromiter((not wanted.isdisjoint(values) for values in self._column(column)), bool, self._length)
        return mask

    def _column(self, column: str) -> Iterator[frozenset[str]]:
        """The values of each row in a column of its metadata or its document's, casefolded."""

        @functools.lru_cache(maxsize=1 << 16)
        def values(both: str) -> frozenset[str]:
            cells = [cell if isinstance(cell, list) else [cell] for cell in json.loads(both)]
            texts = (cell if isinstance(cell, str) else _json(cell) for cell in chain(*cells) if cell is not None)
            return frozenset(text.casefold() for text in texts)

        path = f'$."{column}"'
        query = (
            "SELECT json_array(json_extract(p.metadata, ?1), json_extract(d.metadata, ?1))"
            " FROM rows JOIN passages p ON p.number = passage LEFT JOIN documents d ON d.id = p.document ORDER BY row"
        )
        if '"' in column:  # it has no path; no reader makes such a name
            return repeat(frozenset(), self._length)
        return (values(both) for (both,) in self._connection.execute(query, (path,)))

    def columns(self) -> list[str]:
        """The columns that `select` knows: the keys of all metadata."""
        query = (
            "SELECT key FROM passages, json_each(passages.metadata) UNION SELECT key"
            " FROM documents, json_each(documents.metadata) WHERE documents.id IN (SELECT document FROM passages)"
        )
        return [key for (key,) in self._connection.execute(query)]

    def values(self, column: str) -> list[str]:
        """The distinct values of a column, casefolded."""
        return sorted(set().union(*self._column(column)))

    def locations(self) -> list[str]:
        """Every location that the tree holds or a passage names, without the prefix of its id."""
        query = (
            "SELECT substr(id, 10) FROM documents WHERE kind = 'location'"
            " UNION SELECT label FROM links WHERE relation = 'reports_about' AND target IS NULL"
        )
        return [name for (name,) in self._connection.execute(query)]

    def contents(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        """`Passage.content` of consecutive rows."""
        for title, text in self._connection.execute(
            "SELECT title, text FROM rows JOIN passages ON number = passage WHERE row >= ? AND row < ? ORDER BY row",
            (start, self._length if stop is None else stop),
        ):
            yield titled(title, text)

    def headings(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        """The innermost heading above each of consecutive rows; empty where there is none."""
        for (section,) in self._connection.execute(
            "SELECT section FROM rows JOIN passages ON number = passage WHERE row >= ? AND row < ? ORDER BY row",
            (start, self._length if stop is None else stop),
        ):
            yield section.rpartition(" / ")[2]

    def ids(self) -> list[str]:
        """All ids, in the order of the rows."""
        return [
            row[0]
            for row in self._connection.execute("SELECT id FROM rows JOIN passages ON number = passage ORDER BY row")
        ]

    def documents_of(self) -> Iterator[tuple[str, str]]:
        """Id and document of every passage, in the order of the rows."""
        query = "SELECT id, document FROM rows JOIN passages ON number = passage ORDER BY row"
        yield from self._connection.execute(query)

    def document_numbers(self) -> Integers:
        """The number of the document of each row, in order of first appearance."""
        numbers: dict[str, int] = {}
        query = "SELECT document FROM rows JOIN passages ON number = passage ORDER BY row"
        return np.array(
            [numbers.setdefault(document, len(numbers)) for (document,) in self._connection.execute(query)], np.int64
        )

    def document_ids(self) -> list[str]:
        """The documents that have rows, in the order of `document_numbers`."""
        query = "SELECT document FROM rows JOIN passages ON number = passage GROUP BY document ORDER BY MIN(row)"
        return [document for (document,) in self._connection.execute(query)]

    def places(self) -> Iterator[tuple[str, str, str, str | None, str, int, int]]:
        """Id, document, kind, date, file, first and last line of each row, without its text.

        A passage without a date has its document's.
        """
        yield from self._connection.execute(
            "SELECT p.id, p.document, p.kind, COALESCE(p.date, d.date), p.file, p.first_line, p.last_line"
            " FROM rows JOIN passages p ON p.number = passage LEFT JOIN documents d ON d.id = p.document ORDER BY row"
        )

    def document(self, identity: str) -> Document:
        """A document by id; KeyError where there is none."""
        for document in _documents(self._connection, "WHERE id = ?", (identity,)):
            return replace(document, links=self._links([identity]).get(identity, ()))
        raise KeyError(identity)

    def documents(self, *, links: bool = False) -> Iterator[Document]:
        """All documents, by id; with `links` also their own links."""
        if not links:
            yield from _documents(self._connection)
            return
        own: dict[str, list[Link]] = {}
        query = "SELECT source, relation, label, target FROM links WHERE source = document ORDER BY number"
        for source, *link in self._connection.execute(query):
            own.setdefault(source, []).append(Link(*link))
        for document in _documents(self._connection):
            yield replace(document, links=tuple(own.get(document.id, ())))

    def kinds(self) -> Iterator[tuple[str, str]]:
        """Id and kind of every passage, in the order of the rows."""
        yield from self._connection.execute("SELECT id, kind FROM rows JOIN passages ON number = passage ORDER BY row")

    def referring(self, identity: str) -> list[tuple[str, str]]:
        """The passages and documents that link to this one: (id, relation)."""
        return list(
            self._connection.execute(
                "SELECT DISTINCT source, relation FROM links WHERE target = ? ORDER BY source, relation",
                (identity,),
            )
        )

    # ------------------------------------------------------------ for lists that people read

    def _records(self, query: str, values: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        rows = self._connection.execute(query, values)
        names = [column[0] for column in rows.description]
        return (dict(zip(names, row, strict=True)) for row in rows)

    def document_records(self, *, kind: str = "") -> Iterator[dict[str, Any]]:
        """The documents with the number of their passages, without locations."""
        return self._records(
            "SELECT d.id, d.kind, d.title, d.date, d.file, COUNT(p.number) AS passages"
            " FROM documents d LEFT JOIN passages p ON p.document = d.id"
            " WHERE d.kind != 'location' AND ?1 IN ('', d.kind) GROUP BY d.id ORDER BY d.id",
            (kind,),
        )

    def passage_records(self, *, document: str = "", kind: str = "") -> Iterator[dict[str, Any]]:
        """The passages without their texts, in the order of the rows."""
        conditions = {"p.document": document, "p.kind": kind}
        where = " AND ".join(f"{column} = ?" for column, value in conditions.items() if value)
        return self._records(
            "SELECT p.id, p.kind, p.title, p.document, p.section, COALESCE(p.date, d.date) AS date, p.file,"
            " p.first_line AS line FROM rows JOIN passages p ON p.number = passage"
            f" LEFT JOIN documents d ON d.id = p.document{' WHERE ' + where if where else ''} ORDER BY row",
            [value for value in conditions.values() if value],
        )

    def bibliography_records(self, *, document: str = "") -> Iterator[dict[str, Any]]:
        """The entries of all bibliographies, or of one document's; `target` is the entry's document in the corpus."""
        return self._records(
            "SELECT document, key, title, authors, year, arxiv, doi, text, target FROM bibliography"
            " WHERE ?1 IN ('', document) ORDER BY document, number",
            (document,),
        )

    def link_targets(self, relation: str) -> Iterator[str]:
        """The target of each resolved link of a relation."""
        query = "SELECT target FROM links WHERE relation = ? AND target IS NOT NULL"
        return (target for (target,) in self._connection.execute(query, (relation,)))

    def skips(self) -> list[Skip]:
        """Skipped input with its cause."""
        return [
            Skip(*row)
            for row in self._connection.execute("SELECT file, line, cause FROM skips ORDER BY file, line, cause")
        ]

    def counts(self) -> dict[str, Any]:
        """Counts of documents, passages, links, labels, bibliography and skips."""

        def grouped(query: str) -> dict[str, int]:
            return dict(self._connection.execute(query).fetchall())

        def count(query: str) -> int:
            return int(self._connection.execute(query).fetchone()[0])

        return {
            "documents": grouped("SELECT kind, COUNT(*) FROM documents GROUP BY kind ORDER BY 2 DESC, 1"),
            "passages": grouped("SELECT kind, COUNT(*) FROM passages GROUP BY kind ORDER BY 2 DESC, 1"),
            "links": {
                relation: {"all": number, "resolved": resolved}
                for relation, number, resolved in self._connection.execute(
                    "SELECT relation, COUNT(*), COUNT(target) FROM links GROUP BY relation ORDER BY 2 DESC, 1"
                )
            },
            "labels": count("SELECT COUNT(*) FROM labels"),
            "bibliography": {
                "entries": count("SELECT COUNT(*) FROM bibliography"),
                "in_corpus": count("SELECT COUNT(target) FROM bibliography"),
            },
            "skips": count("SELECT COUNT(*) FROM skips"),
        }
