"""The tables of the corpus file, and what its reader and its writer share."""

from __future__ import annotations

import functools
import json
import posixpath
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lemmata.core.database import Connection, connect, read_cell
from lemmata.core.types import Document

_FORMAT = 4  # raised when the tables change
# a unit also has the id chosen for it, the prefix of its ids, its file, its date;
# `sources` has the columns, as JSON, of each source whose tables have columns with names of their own;
# `changed` holds what a run has changed so far, `keys` by what bibliographies may know a document, `entry_keys` what an
# entry may mean, `text_hashes` those of passages
_SCHEMA = """
CREATE TABLE sources(root TEXT PRIMARY KEY, columns TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE units(
    number INTEGER PRIMARY KEY, root TEXT NOT NULL, id TEXT NOT NULL, fingerprint TEXT NOT NULL,
    files TEXT NOT NULL, document TEXT, prefix TEXT NOT NULL DEFAULT '', file TEXT NOT NULL DEFAULT '',
    read_at TEXT NOT NULL DEFAULT '', UNIQUE(root, id));
CREATE TABLE renames(unit INTEGER NOT NULL, wanted TEXT NOT NULL, id TEXT NOT NULL);
CREATE TABLE claims(unit INTEGER NOT NULL, document TEXT NOT NULL);
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
CREATE TABLE changed(what TEXT NOT NULL, document TEXT NOT NULL, name TEXT NOT NULL);
CREATE TABLE keys(unit INTEGER NOT NULL, document TEXT NOT NULL, key TEXT NOT NULL);
CREATE TABLE entry_keys(unit INTEGER NOT NULL, entry INTEGER NOT NULL, key TEXT NOT NULL);
CREATE TABLE text_hashes(
    passage INTEGER PRIMARY KEY, content INTEGER NOT NULL, headed INTEGER NOT NULL, proof INTEGER NOT NULL);
CREATE INDEX passages_of_document ON passages(document, position);
CREATE INDEX passages_of_title ON passages(title COLLATE NOCASE) WHERE title != '';
CREATE INDEX links_of_source ON links(source);
CREATE INDEX links_of_target ON links(target);
CREATE INDEX renames_of_unit ON renames(unit, wanted);
CREATE INDEX claims_of_document ON claims(document);
CREATE INDEX units_of_document ON units(document);
CREATE INDEX units_of_file ON units(file);
"""
OWNED = ("documents", "passages", "links", "labels", "bibliography", "prefixes", "skips", "renames", "claims")
_SCHEMA += "".join(f"CREATE INDEX {table}_of_unit ON {table}(unit);\n" for table in OWNED if table != "renames")
# links that do not lead into their own document: only these may change with others; and references to nothing
LED_OUT = (
    "(target IS NULL OR substr(target, 1, length(document) + 1) != document || '#'"
    " OR instr(substr(target, length(document) + 2), '#'))"
)
LOCAL_REFERENCE = "(relation IN ('refers_to', 'proof_uses') AND substr(label, 1, 5) != 'name:')"
# rows of tables with a code in a column, beside that of their location
_COLUMNS = "json_remove(metadata, '$.location')"
HAS_CODE = (
    f"(kind IN ('log', 'passage') AND ({_COLUMNS} GLOB '*[a-zA-Z][0-9]*' OR {_COLUMNS} GLOB '*[a-zA-Z][-./][0-9]*'))"
)
# made after the first ingest, when there is something to look up
LOOKUP_INDEXES = f"""
CREATE INDEX IF NOT EXISTS passages_with_codes ON passages(metadata) WHERE {HAS_CODE};
CREATE INDEX IF NOT EXISTS links_out ON links(label, document) WHERE {LED_OUT};
CREATE INDEX IF NOT EXISTS links_by_path ON links(label) WHERE {LOCAL_REFERENCE} AND instr(label, '/');
CREATE INDEX IF NOT EXISTS links_open ON links(document) WHERE {LOCAL_REFERENCE} AND target IS NULL;
CREATE INDEX IF NOT EXISTS links_of_cells ON links(relation) WHERE relation IN ('reports_about', 'related_to');
CREATE INDEX IF NOT EXISTS locations ON documents(id) WHERE kind = 'location';
CREATE INDEX IF NOT EXISTS prefixes_of_document ON prefixes(document);
CREATE INDEX IF NOT EXISTS keys_of_unit ON keys(unit);
CREATE INDEX IF NOT EXISTS keys_of_key ON keys(key);
CREATE INDEX IF NOT EXISTS entry_keys_of_unit ON entry_keys(unit);
CREATE INDEX IF NOT EXISTS entry_keys_of_entry ON entry_keys(entry);
CREATE INDEX IF NOT EXISTS entry_keys_of_key ON entry_keys(key);
CREATE INDEX IF NOT EXISTS labels_of_name ON labels(name, document);
"""
PASSAGE_COLUMNS = (
    "id, document, kind, text, title, section, raw, proof, file, first_line, last_line, date, confidence, metadata"
)


def open_database(path: Path, *, create: bool) -> Connection:
    """Open a corpus file; with `create`, make a missing one."""
    cure = f"delete the folder {path.parent} and run 'lemmata ingest PATHS…' with its sources again"
    connection = connect(path, _SCHEMA, _FORMAT, cure=cure, create=create)
    connection.execute("PRAGMA cache_size = -65536")
    return connection


def to_json(value: Any) -> str:
    """JSON with sorted keys; values that JSON lacks become strings."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def file_names(connection: sqlite3.Connection) -> Callable[[int, str], str]:
    """The file of a passage, document or note of a unit, by its number, as people tell it from the others.

    That is its path below the ingested root. Where files of several roots have the same, each gets as many of the
    folders above it as it takes to tell them apart; what lies in an archive has the archive in front.
    """
    several_roots = "(SELECT COUNT(DISTINCT root) FROM units) > 1"
    query = (
        f"SELECT u.root, key FROM units u, json_each(u.files) WHERE {several_roots} UNION"
        f" SELECT u.root, s.file FROM units u JOIN skips s ON s.unit = number WHERE {several_roots}"
    )
    roots: dict[str, list[str]] = {}  # of each name
    for root, name in connection.execute(query):
        roots.setdefault(name, []).append(root)
    shown = {
        (root, name): longer
        for name, several in roots.items()
        if len(several) > 1
        for root, longer in _told_apart(name, several).items()
    }

    @functools.lru_cache(maxsize=4096)
    def unit(number: int) -> tuple[str, str, frozenset[str]]:
        query = "SELECT root, id, files FROM units WHERE number = ?"
        root, name, files = connection.execute(query, (number,)).fetchone()
        return root, name, frozenset(read_cell(files))

    def name_of(number: int, file: str) -> str:
        if not number or not file:  # a note on the whole corpus
            return file
        root, archive, files = unit(number)
        if files == {archive} != {file} and not file.startswith(f"{archive}/"):
            return f"{shown.get((root, archive), archive)}/{file}"
        return shown.get((root, file), file)

    return name_of


def _told_apart(name: str, roots: Sequence[str]) -> dict[str, str]:
    """For each root with a file of this name, the shortest end of its path that no other has."""
    paths = {root: root if posixpath.basename(root) == name else f"{root}/{name}" for root in roots}
    parts = {root: posixpath.normpath(path).split("/") for root, path in paths.items()}
    least = name.count("/") + 1
    ends: dict[str, str] = {}
    for root, own in parts.items():
        others = [other for it, other in parts.items() if it != root]
        length = next((n for n in range(least, len(own)) if all(own[-n:] != other[-n:] for other in others)), len(own))
        ends[root] = "/".join(own[-length:])
    return ends


def read_documents(
    connection: sqlite3.Connection,
    where: str = "",
    values: Sequence[str] = (),
    *,
    file_of: Callable[[int, str], str] = lambda _unit, file: file,
) -> Iterator[Document]:
    """Documents by id, without their links; `where` is an SQL condition on `values`, `file_of` names their files."""
    rows = connection.execute(
        f"SELECT unit, id, title, kind, authors, date, categories, file, metadata FROM documents {where} ORDER BY id",
        values,
    )
    for unit, name, title, kind, authors, date, categories, file, metadata in rows:
        yield Document(
            name,
            title,
            kind,
            tuple(read_cell(authors)),
            date,
            tuple(read_cell(categories)),
            file_of(unit, file),
            read_cell(metadata),
        )
