"""Resolves the links that a change concerns, and no others: the cost is that of the change, not of the corpus.

A link depends on labels that are ends of its own label, on the documents whose paths its label may begin with, and a
citation on the documents that its entry of the bibliography may mean. The writer notes the labels, documents and keys
of every unit that it writes or removes, so that the links that depend on one of them are found by indexes. What they
mean now is looked up in the same tables. Cells of tables of logs may hold many names: with them, all is resolved again.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from lemmata.core.database import Connection, read_cell
from lemmata.core.types import Reference
from lemmata.corpus.schema import LED_OUT, LOCAL_REFERENCE, read_documents
from lemmata.corpus.writer import CorpusWriter
from lemmata.ingest.resolve import AFTER_NAME, Names, document_keys, entry_keys, folder_of, match_entry, resolve
from lemmata.ingest.sources import place_of

MOST_CHANGED = 0.2  # of the labels; where more changed, all links are resolved
_MARKS = "-:/._"  # those of AFTER_NAME
# documents that are files or lie in archives, with the file, document and prefix of their unit
IN_FILES = (
    "SELECT d.id, u.file, u.document, u.prefix FROM documents d JOIN units u ON u.number = d.unit"
    " WHERE u.file != '' AND (d.kind IN ('paper', 'pdf') OR (d.kind = 'text' AND u.document != ''))"
)
_ENTRY = "SELECT number, document, key, title, authors, year, arxiv, doi, text FROM bibliography"


def concerns_little(writer: CorpusWriter) -> bool:
    """Whether it is known what changed, and it is a small part of a corpus without logs."""

    value = writer.connection.value

    def exists(query: str) -> bool:
        return bool(value(f"SELECT 1 FROM {query} LIMIT 1"))

    if not writer.is_tracked:
        return False
    cells = "links INDEXED BY links_of_cells WHERE relation IN ('reports_about', 'related_to')"
    of_logs = exists(cells) or exists("documents WHERE kind = 'location'") or exists("skips WHERE unit = 0")
    changed = value("SELECT COUNT(*) FROM changed WHERE what = 'label'")
    return not of_logs and changed <= MOST_CHANGED * (value("SELECT MAX(rowid) FROM labels") or 0)


def store_keys(writer: CorpusWriter, units: Iterable[int] | None) -> None:
    """Store by what documents are known, and what entries of bibliographies may mean: those of some units, or all."""
    connection = writer.connection
    where = "" if units is None else f"WHERE unit IN ({','.join(str(unit) for unit in units)})"
    for table in ("keys", "entry_keys"):
        connection.execute(f"DELETE FROM {table} {where}")
    unit_of = dict(connection.execute(f"SELECT id, unit FROM documents {where}"))
    documents = ((unit_of[each.id], each) for each in read_documents(connection, where))
    keys = ((unit, each.id, key) for unit, each in documents for key in document_keys(each))
    connection.executemany("INSERT INTO keys VALUES (?, ?, ?)", keys)
    rows = connection.execute(_ENTRY.replace("number,", "number, unit,", 1) + f" {where}").fetchall()
    of_entries = ((unit, number, key) for number, unit, _, *entry in rows for key in entry_keys(Reference(*entry)))
    connection.executemany("INSERT INTO entry_keys VALUES (?, ?, ?)", of_entries)


def relink(writer: CorpusWriter) -> set[str]:
    """Resolve the links that the noted changes concern; returns the passages whose references may have other names."""
    connection, units = writer.connection, writer.changed_units()
    store_keys(writer, units)
    cited = _match_entries(writer, units)
    links = _concerned(writer, units)
    for document, key in cited:
        query = f"SELECT number, document, relation, label, source FROM links INDEXED BY links_out WHERE {LED_OUT}"
        query += " AND label = ? AND document = ? AND relation = 'cites'"
        links |= {row[0]: row for row in connection.execute(query, (key, document))}
    resolved = list(resolve((links[number][:4] for number in sorted(links)), _stored_names(connection)))
    writer.set_targets("links", ((link.target, link.number) for link in resolved))
    return {source for *_, source in links.values()}


def _json(values: Iterable[str]) -> str:
    return json.dumps(list(values))


def _match_entries(writer: CorpusWriter, units: Iterable[int]) -> set[tuple[str, str]]:
    """Match the entries of bibliographies that are new or may mean a changed document; their documents and keys."""
    connection = writer.connection
    in_units = f"unit IN ({','.join(map(str, units))})"
    old = {key for _, key in writer.changed("key")}
    new = {*connection.column(f"SELECT key FROM keys WHERE {in_units}")}
    query = "SELECT entry FROM entry_keys WHERE key IN (SELECT value FROM json_each(?))"
    numbers = {*connection.column(query, (_json(old | new),))}
    numbers.update(connection.column(f"SELECT number FROM bibliography WHERE {in_units}"))

    @cache
    def holders(key: str) -> list[str]:
        return connection.column("SELECT document FROM keys WHERE key = ? ORDER BY document", (key,))

    query = "SELECT number, document, key FROM bibliography WHERE number IN (SELECT value FROM json_each(?))"
    entries = connection.execute(query, (json.dumps(sorted(numbers)),)).fetchall()
    targets: list[tuple[str | None, int]] = []
    for number, citing, _ in entries:
        keys = connection.column("SELECT key FROM entry_keys WHERE entry = ? ORDER BY rowid", (number,))
        targets.append((match_entry(keys, holders, citing), number))
    writer.set_targets("bibliography", targets)
    return {(document, key) for _, document, key in entries}


_Link = tuple[int, str, str, str, str]  # number, document, relation, label, source


def _concerned(writer: CorpusWriter, units: Iterable[int]) -> dict[int, _Link]:
    """The links that the noted changes concern, but for citations, by number."""
    connection = writer.connection
    columns = "SELECT number, document, relation, label, source FROM links"
    out = f"{columns} INDEXED BY links_out WHERE {LED_OUT}"
    links: dict[int, _Link] = {}

    def add(query: str, values: tuple[object, ...]) -> None:
        links.update((row[0], row) for row in connection.execute(query, values) if row[0] >= 0)

    for unit in units:
        add(f"{columns} WHERE unit = ?", (unit,))
    targets = _json(name for _, name in writer.changed("target"))
    add(f"{columns} WHERE target IN (SELECT value FROM json_each(?))", (targets,))
    places = {(document, place_of(document, *read_cell(unit))) for document, unit in writer.changed("place")}
    bases = {posixpath.basename(place) for _, place in places}
    labels = {name for _, name in writer.changed("label")}
    for name in labels | bases:
        add(f"{out} AND label = ? AND relation != 'cites'", (name,))
    for base in bases:
        for mark in _MARKS:
            bounds = (base + mark, base + chr(ord(mark) + 1))
            add(f"{out} AND label >= ? AND label < ? AND {LOCAL_REFERENCE}", bounds)
    paths = f"SELECT DISTINCT label FROM links INDEXED BY links_by_path WHERE {LOCAL_REFERENCE} AND instr(label, '/')"
    for label in connection.column(paths):
        if "/." in label or any(name in bases for name in _names_in(label)):
            add(f"{out} AND label = ?", (label,))
    documents = {document for document, _ in places}
    for document, other in connection.execute("SELECT DISTINCT document, other FROM prefixes").fetchall():
        if posixpath.basename(other) in bases or other in documents or "/." in other:
            add(f"{columns} WHERE source IN (SELECT id FROM passages WHERE document = ?1 UNION SELECT ?1)", (document,))
    return links


def _names_in(label: str) -> Iterator[str]:
    """What may be the name of a document in a label with a path: from behind a slash up to a mark or the end."""
    for place, letter in enumerate(label):
        if letter == "/":
            rest = label[place + 1 :]
            yield rest
            yield from (rest[: mark.start()] for mark in AFTER_NAME.finditer(rest))


def _stored_names(connection: Connection) -> Names:
    """The names of a corpus, looked up in its tables when they are asked for."""
    execute = connection.execute

    @cache
    def in_document(document: str, name: str) -> Any:
        query = "SELECT target FROM labels WHERE name = ? AND document = ? ORDER BY rowid LIMIT 1"
        return connection.value(query, (name, document))

    @cache
    def labels(name: str) -> tuple[dict[str, str | None], str | None]:
        """The targets of a name by folder, and in the corpus; None where there are several."""
        folders: dict[str, str | None] = {}
        everywhere: set[str] = set()
        for document, target in execute("SELECT document, target FROM labels WHERE name = ?", (name,)).fetchall():
            folder = folder_of(document, place)
            folders[folder] = target if folders.get(folder, target) == target else None
            everywhere.add(target)
        only = next(iter(everywhere)) if len(everywhere) == 1 else None
        return folders, name if name in everywhere else only

    @cache
    def place(document: str) -> str | None:
        row = execute(f"{IN_FILES} AND d.id = ?", (document,)).fetchone()
        return None if row is None else place_of(*row)

    @cache
    def in_files(file: str) -> dict[str, str]:
        """The documents of the file of this path without its suffix, by place."""
        query = "SELECT number FROM units WHERE file = ?1 OR (file >= ?1 || '.' AND file < ?1 || '/')"
        units = connection.column(query, (file,))
        rows = [row for unit in units for row in execute(f"{IN_FILES} AND d.unit = ? ORDER BY d.id", (unit,))]
        return {place_of(*row): row[0] for row in sorted(rows)}

    @cache
    def at_place(place: str) -> str | None:
        above = [place]
        while (folder := posixpath.dirname(above[-1])) not in ("", above[-1]):
            above.append(folder)
        found = [document for file in above if (document := in_files(file).get(place)) is not None]
        return max(found, default=None)

    @cache
    def imported(document: str) -> Mapping[str, str]:
        return dict(execute("SELECT prefix, other FROM prefixes WHERE document = ? ORDER BY rowid", (document,)))

    def cited(document: str, key: str) -> Any:
        query = "SELECT target FROM bibliography WHERE unit = (SELECT unit FROM documents WHERE id = ?1)"
        query += " AND document = ?1 AND key = ?2 AND target IS NOT NULL ORDER BY number DESC"
        return connection.value(query, (document, key))

    return Names(
        in_document,
        lambda folder, name: labels(name)[0].get(folder),
        lambda name: labels(name)[1],
        place,
        at_place,
        imported,
        cited,
    )
