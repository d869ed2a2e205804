"""Reads the corpus: passages, documents, links and bibliographies in one SQLite file."""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, NamedTuple, overload

import numpy as np

from lemmata.core.artefacts import artefact, check_files
from lemmata.core.database import Connection, read_cell
from lemmata.core.errors import WorkspaceError
from lemmata.core.types import (
    BOOKKEEPING,
    HEADING,
    NUMBER,
    PART,
    PRINTED,
    REFERRING,
    Document,
    Integers,
    Link,
    Mask,
    Passage,
    Skip,
    part_id,
    printed_name,
    whole_id,
)
from lemmata.core.words import fold, is_author
from lemmata.core.workspace import Workspace, read_corpus_manifest, read_manifest
from lemmata.corpus.contents import chapter_places, headings
from lemmata.corpus.schema import (
    HAS_CODE,
    LOCAL_REFERENCE,
    PASSAGE_COLUMNS,
    file_names,
    open_database,
    read_documents,
    to_json,
)
from lemmata.corpus.texts import (
    ROWS,
    ROWS_WITH_DOCUMENTS,
    Hashes,
    read_contents,
    read_headings,
    read_proofs,
)

_ATTEMPTS = 40  # to open a corpus that is being replaced
_PAUSE = 0.05  # seconds
_HASHES = 100_000  # read at once
# ids of the passages that report about one of the locations in a JSON list, or about one below it
_AT_LOCATIONS = """
WITH RECURSIVE names(name) AS (SELECT value FROM json_each(?)),
here(id) AS (
    SELECT id FROM documents WHERE kind = 'location' AND casefold(substr(id, 10)) IN names
    UNION SELECT links.source FROM here JOIN links ON links.target = here.id WHERE links.relation = 'part_of')
SELECT source FROM links WHERE relation = 'reports_about' AND target IN here
UNION SELECT source FROM links WHERE relation = 'reports_about' AND target IS NULL AND casefold(label) IN names
"""
_VALUES = "(SELECT value FROM json_each(?))"  # of a JSON list
_FILE = PASSAGE_COLUMNS.split(", ").index("file")


class IngestedSource(NamedTuple):
    """What was ingested under one path."""

    root: str  # relative to the workspace
    read_at: str  # ISO, UTC
    documents: int
    passages: int
    skips: int


def _open(workspace: Workspace) -> tuple[dict[str, Any], Connection]:
    """The manifest of the corpus and a connection to the file that it describes.

    While an ingest puts its copy in place there is no manifest for a moment, or one of the file before.
    """
    for attempt in range(_ATTEMPTS):
        manifest = read_corpus_manifest(workspace)
        if manifest is None and workspace.database.is_file() and attempt < _ATTEMPTS - 1 and workspace.is_held():
            time.sleep(_PAUSE)
            continue
        if manifest is None and (workspace.database.is_file() or workspace.incoming.is_file()):
            raise WorkspaceError(f"the last ingest into {workspace.root} did not finish: run the same command again")
        if manifest is None:
            raise WorkspaceError(f"{workspace.root} has no corpus yet: run 'lemmata ingest PATHS…' first")
        try:
            check_files(artefact(workspace, "corpus"), manifest)
            connection = open_database(workspace.database, create=False)
        except WorkspaceError:
            if read_manifest(workspace.manifest(workspace.corpus_folder)) == manifest:
                raise
            continue
        if read_manifest(workspace.manifest(workspace.corpus_folder)) == manifest:
            return manifest, connection
        connection.close()
    raise WorkspaceError(f"{workspace.root} changes all the time: try again later")


class Corpus(Sequence[Passage]):
    """The passages of a workspace in fixed order, read from disk on demand; safe to share between threads."""

    def __init__(self, workspace: Workspace) -> None:
        manifest, self._connection = _open(workspace)
        self.digest: str = manifest["inputs"]  # changes whenever the corpus does
        self._connection.create_function("casefold", 1, str.casefold, deterministic=True)
        self._connection.create_function("fold", 1, fold, deterministic=True)
        self._connection.create_function("words", 1, lambda text: len(text.split()), deterministic=True)
        self._length: int = self._connection.value("SELECT COUNT(*) FROM rows")

    def close(self) -> None:
        self._connection.close()

    @functools.cached_property
    def _file(self) -> Callable[[int, str], str]:
        return file_names(self._connection)

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
        yield from self.in_rows(range(self._length))

    def in_rows(self, rows: Sequence[int]) -> Iterator[Passage]:
        """The passages of some rows, read as they are asked for."""
        for start in range(0, len(rows), 1000):
            yield from self.passages(rows[start : start + 1000])

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        """Passages of some rows, with their links, in the given order."""
        requested = [int(row) for row in rows]
        query = f"SELECT row, unit, {PASSAGE_COLUMNS} FROM {ROWS} WHERE row IN {_VALUES}"
        selected = self._connection.execute(query, (to_json(requested),)).fetchall()
        links = self._links(f"source IN {_VALUES}", [to_json([row[2] for row in selected])])
        passages: dict[int, Passage] = {}
        for row, unit, *fields in selected:
            fields[_FILE] = self._file(unit, fields[_FILE])
            fields[-1] = read_cell(fields[-1])
            fields.append(links.get(fields[0], ()))
            passages[row] = Passage(*fields)
        return [passages[row] for row in requested]

    def _links(self, condition: str, values: Sequence[str] = ()) -> dict[str, tuple[Link, ...]]:
        """The links that meet a condition in SQL, by their sources."""
        grouped: dict[str, list[Link]] = {}
        query = f"SELECT source, relation, label, target FROM links WHERE {condition} ORDER BY number < 0, number"
        for source, *link in self._connection.execute(query, values):
            grouped.setdefault(source, []).append(Link(*link))
        return {source: tuple(links) for source, links in grouped.items()}

    def row(self, identity: str) -> int:
        """The row of a passage; KeyError when there is none of that id."""
        row: int | None = self._connection.value(f"SELECT row FROM {ROWS} WHERE p.id = ?", (identity,))
        if row is None:
            raise KeyError(identity)
        return row

    def named(self, names: Sequence[str]) -> list[tuple[int, str]]:
        """The rows of the passages that have one of these names (ids or labels), with id and title of the document."""
        query = (
            f"SELECT DISTINCT row, p.document || ' ' || COALESCE(d.title, '') FROM {ROWS_WITH_DOCUMENTS} WHERE p.id IN"
            f" (SELECT target FROM labels WHERE name IN {_VALUES} UNION SELECT value FROM json_each(?1)) ORDER BY row"
        ).replace(_VALUES, _VALUES.replace("?", "?1"))
        return self._connection.execute(query, (to_json(list(names)),)).fetchall()

    def log_dates(self) -> tuple[str, str] | None:
        """The first and the last date of the logs; None where none has one."""
        (dates,) = self._connection.execute("SELECT MIN(date), MAX(date) FROM passages WHERE kind = 'log'")
        return dates if dates[0] else None

    @functools.cached_property
    def has_codes(self) -> bool:
        """Whether there are logs or texts, such as manuals, in which words with digits are codes, not symbols."""
        return bool(self._connection.value("SELECT 1 FROM documents WHERE kind IN ('table', 'text') LIMIT 1"))

    def with_value(self, value: str, most: int) -> list[int]:
        """The first rows with a code, of letters and digits, in a column, whatever its case."""
        logs = f"SELECT number FROM passages WHERE {HAS_CODE} AND metadata LIKE '%\"' || ? || '\"%' LIMIT ?"
        query = f"SELECT row FROM rows WHERE passage IN ({logs}) ORDER BY row"
        return self._connection.column(query, (value, most))

    def kinds_numbered(self, number: str) -> list[str]:
        """The kinds of what has a printed number."""
        first, last = printed_name("", "").rstrip(), printed_name("", number)[-len(number) - 1 :]
        query = (
            "SELECT DISTINCT name FROM labels WHERE name >= ?1 AND name < ?1 || char(1114111) AND substr(name, ?2) = ?3"
        )
        names = self._connection.column(query, (first, -len(last), last))
        return sorted(name.removeprefix(first).removesuffix(last) for name in names)

    def has_names(self, prefix: str) -> bool:
        """Whether a label begins with a prefix."""
        query = "SELECT 1 FROM labels WHERE name >= ?1 AND name < ?1 || char(1114111) LIMIT 1"
        return bool(self._connection.value(query, (prefix,)))

    def titled(self, title: str, most: int) -> list[int]:
        """The first rows of a title, whatever its case."""
        query = (
            f"SELECT row FROM {ROWS} WHERE p.title = ? COLLATE NOCASE AND p.title != '' AND p.kind != '{PART}'"
            f" ORDER BY row LIMIT {most}"
        )
        return self._connection.column(query, (title,))

    def names(self, rows: Sequence[int]) -> list[tuple[str, str, str, str, tuple[str, ...]]]:
        """Kind, title and headings of some rows, in their order; of a first passage also those of its document."""
        query = (
            "SELECT p.kind, p.title, p.section,"
            " CASE WHEN p.position = (SELECT MIN(position) FROM passages WHERE document = d.id)"
            " THEN json_array(d.title, json(d.authors)) END"
            f" FROM {ROWS_WITH_DOCUMENTS} JOIN json_each(?) AS wanted ON row = wanted.value ORDER BY wanted.key"
        )
        found = self._connection.execute(query, (to_json(list(rows)),))
        first = ((*names, read_cell(document or '["", []]')) for *names, document in found)
        return [(kind, title, section, document[0], tuple(document[1])) for kind, title, section, document in first]

    def reporting(self, locations: Sequence[str], most: int, rows: Sequence[int] = ()) -> list[int]:
        """The rows of the logs about locations (ids), and others, the latest first; then those of what is below."""
        query = f"""
            WITH RECURSIVE wanted(id) AS (SELECT value FROM json_each(?)), here(id) AS (
                SELECT id FROM wanted
                UNION SELECT l.source FROM here JOIN links l ON l.target = here.id WHERE l.relation = 'part_of'),
            logs(row, is_direct) AS (
                SELECT value, 1 FROM json_each(?)
                UNION ALL SELECT row, here.id IN wanted FROM here JOIN links l ON l.target = here.id
                JOIN {ROWS} WHERE p.id = l.source AND l.relation = 'reports_about')
            SELECT logs.row FROM logs JOIN {ROWS} WHERE rows.row = logs.row
            GROUP BY logs.row ORDER BY MAX(is_direct) DESC, p.date DESC, logs.row LIMIT {most}"""
        return self._connection.column(query, (to_json(list(locations)), to_json(list(rows))))

    def bibliography_with(self, word: str) -> list[dict[str, Any]]:
        """The entries of bibliographies that hold a word; at most 1,000."""
        query = (
            "SELECT * FROM bibliography WHERE authors || ' ' || title || ' ' || text LIKE '%' || ? || '%' LIMIT 1000"
        )
        return list(self._records(query, (word,)))

    def citing(self, document: str, key: str) -> list[int]:
        """The rows of the passages of a document that cite an entry of its bibliography."""
        query = (
            f"SELECT DISTINCT row FROM {ROWS} JOIN links l ON l.source = p.id"
            " WHERE p.document = ? AND l.relation = 'cites' AND l.label = ? ORDER BY row"
        )
        return self._connection.column(query, (document, key))

    def first_row(self, document: str) -> list[int]:
        """The row of the first passage of a document; none where it has no passages."""
        return self._connection.column(f"SELECT row FROM {ROWS} WHERE p.document = ? ORDER BY row LIMIT 1", (document,))

    def parts(self) -> dict[int, int]:
        """The rows of the parts of long passages, each with the row of its passage."""
        query = f"SELECT id FROM passages WHERE id GLOB '*{part_id('', 0)[:-1]}[0-9]*' AND kind = ?"
        return {self.row(part): self.row(whole_id(part)) for part in self._connection.column(query, (PART,))}

    def whole_passages(self) -> int:
        """The number of passages, without the parts of long ones."""
        return self._length - int(self._connection.value(f"SELECT COUNT(*) FROM passages WHERE kind = '{PART}'"))

    def select(
        self,
        *,
        kinds: Sequence[str] = (),
        documents: Sequence[str] = (),
        chapters: Sequence[str] = (),
        sections: Sequence[str] = (),
        authors: Sequence[str] = (),
        categories: Sequence[str] = (),
        since: str = "",
        until: str = "",
        locations: Sequence[str] = (),
        where: Sequence[tuple[str, str]] = (),
        ids: Sequence[str] = (),
    ) -> Mask:
        """Mask of the rows that pass all filters; an empty filter passes every row.

        A chapter has a number and a title; those of a paper are its sections. A section holds its words in the headings
        above a passage. An author is one whose name has these words, the surname among them.
        A category includes its subcategories (`math` includes `math.CO`). A passage without a date has its document's.
        A location includes everything below it; a passage is at the locations that it reports about. `where` holds
        columns and values of the metadata of a passage or its document. Several values of one column are
        alternatives. Letter case does not matter.
        """
        conditions: list[str] = []
        values: list[str] = []
        for column, allowed in (("p.kind", kinds), ("p.document", documents)):
            if allowed:
                conditions.append(f"{column} IN ({','.join('?' * len(allowed))})")
                values += allowed
        if ids:
            conditions.append(f"p.id IN {_VALUES}")
            values.append(to_json(list(ids)))
        if categories:
            start = "substr(value, 1, length(?1) + 1) IN (?1 || '.', ?1 || ':')"  # not LIKE: % and _ may be in a name
            condition = f"EXISTS (SELECT 1 FROM json_each(d.categories) WHERE value = ?1 OR {start})"
            conditions.append("(" + " OR ".join([condition.replace("?1", "?")] * len(categories)) + ")")
            values += [name for name in categories for _ in range(condition.count("?1"))]
        if sections:
            conditions.append("(" + " OR ".join(["instr(fold(p.section), ?)"] * len(sections)) + ")")
            values += map(fold, sections)
        if authors:
            conditions.append(f"p.document IN {_VALUES}")
            values.append(to_json(self._documents_of(authors)))
        for bound, sign in ((since, ">="), (until, "<=")):
            if bound:
                date = "COALESCE(p.date, d.date)"
                conditions.append(f"substr({date}, 1, {len(bound)}) {sign} ?")
                values.append(bound)
        if locations:
            conditions.append(f"p.id IN ({_AT_LOCATIONS})")
            values.append(to_json([name.casefold().removeprefix("location:") for name in locations]))
        query = f"SELECT row FROM {ROWS_WITH_DOCUMENTS}"
        if conditions:
            query += " WHERE " + " AND ".join(conditions)
        mask = np.zeros(self._length, dtype=bool)
        mask[self._connection.column(query, values)] = True
        if chapters:
            names = {name.casefold() for name in chapters}
            of_rows = (not names.isdisjoint(map(str.casefold, both)) for both in self.chapter_names())
            mask &= np.fromiter(of_rows, bool, self._length)
        for column in dict.fromkeys(column for column, _ in where):
            wanted = {value.casefold() for other, value in where if other == column}
            mask &= np.fromiter((not wanted.isdisjoint(values) for values in self._column(column)), bool, self._length)
        return mask

    def _documents_of(self, authors: Sequence[str]) -> list[str]:
        names = self._connection.execute("SELECT documents.id, value FROM documents, json_each(authors)").fetchall()
        return [document for document, name in names if any(is_author(author, name) for author in authors)]

    def authors(self) -> list[str]:
        """The names of all authors."""
        return self._connection.column("SELECT DISTINCT value FROM documents, json_each(authors) ORDER BY value")

    def section_titles(self) -> list[str]:
        """The headings above all passages, each with those above it."""
        return self._connection.column("SELECT DISTINCT section FROM passages WHERE section != '' ORDER BY section")

    def _column(self, column: str) -> Iterator[frozenset[str]]:
        """The values of each row in a column of its metadata or its document's, casefolded."""

        @functools.lru_cache(maxsize=1 << 16)
        def values(both: str) -> frozenset[str]:
            cells = [cell if isinstance(cell, list) else [cell] for cell in read_cell(both)]
            texts = (cell if isinstance(cell, str) else to_json(cell) for cell in chain(*cells) if cell is not None)
            return frozenset(text.casefold() for text in texts)

        path = f'$."{column}"'
        query = (
            "SELECT json_array(json_extract(p.metadata, ?1), json_extract(d.metadata, ?1))"
            f" FROM {ROWS_WITH_DOCUMENTS} ORDER BY row"
        )
        if '"' in column:  # a JSON path cannot hold it, and no reader makes such a column
            return repeat(frozenset(), self._length)
        return (values(both) for (both,) in self._connection.execute(query, (path,)))

    def columns(self) -> list[str]:
        """The columns for `select(where=…)`: the keys of all metadata."""
        query = (
            "SELECT key FROM passages, json_each(passages.metadata) UNION SELECT key"
            " FROM documents, json_each(documents.metadata) WHERE documents.id IN (SELECT document FROM passages)"
        )
        return [key for key in self._connection.column(query) if key not in BOOKKEEPING]

    def values(self, column: str) -> list[str]:
        """The distinct values of a column, casefolded."""
        return sorted(set().union(*self._column(column)))

    def locations(self) -> list[str]:
        """Every location that the tree holds or a passage names, without the prefix of its id."""
        return self._connection.column(
            "SELECT substr(id, 10) FROM documents WHERE kind = 'location'"
            " UNION SELECT label FROM links WHERE relation = 'reports_about' AND target IS NULL"
        )

    def contents(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        """`Passage.content` of consecutive rows."""
        return read_contents(self._connection, start, self._length if stop is None else stop)

    def headings(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        """The title of the document and the headings above each of consecutive rows."""
        return read_headings(self._connection, start, self._length if stop is None else stop)

    def proofs(self, start: int = 0, stop: int | None = None) -> Iterator[str]:
        """The proofs of consecutive rows as they are searched, empty for those without one."""
        return read_proofs(self._connection, start, self._length if stop is None else stop)

    def hashes(self, *, with_headings: bool = False) -> Hashes:
        """A hash of `Passage.content` of each row, or of it with its headings (n,); stored when it was read."""
        return self._stored_hashes("headed" if with_headings else "content")

    def proof_hashes(self) -> Hashes:
        """A hash of the proof of each row, 0 for none (n,)."""
        return self._stored_hashes("proof")

    def _stored_hashes(self, column: str) -> Hashes:
        # many in one text: half of the time that a row for each takes
        query = f"SELECT {column} FROM rows JOIN text_hashes USING (passage) WHERE row >= ? AND row < ? ORDER BY row"
        query = f"SELECT COALESCE(GROUP_CONCAT({column}), '') FROM ({query})"
        starts = range(0, self._length, _HASHES)
        parts = [self._connection.value(query, (start, start + _HASHES)) for start in starts]
        stored = np.fromstring(",".join(parts), np.int64, sep=",") if parts else np.empty(0, np.int64)
        if len(stored) != self._length:
            cause = f"it has hashes of {len(stored):,} of {self._length:,} passages"
            raise WorkspaceError(f"{self._connection.path} is damaged ({cause}): {self._connection.cure}")
        return stored.view(np.uint64)

    def table(self, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Columns of all passages (id, document, kind), in the order of the rows."""
        yield from self._connection.execute(f"SELECT {', '.join(columns)} FROM {ROWS} ORDER BY row")

    def ids(self) -> list[str]:
        """All ids, in the order of the rows."""
        return self._connection.column(f"SELECT id FROM {ROWS} ORDER BY row")

    def ids_of(self, rows: Sequence[int]) -> tuple[str, ...]:
        """The ids of some rows, in the given order."""
        wanted = "json_each(?) AS wanted JOIN rows ON row = wanted.value JOIN passages p ON number = passage"
        return tuple(self._connection.column(f"SELECT p.id FROM {wanted} ORDER BY wanted.key", (to_json(list(rows)),)))

    def heading_kinds(self, document: str) -> list[tuple[int, str]]:
        """For each passage of a document the place of its heading in the contents, -1 for none, and its kind."""
        query = f"SELECT COALESCE(json_extract(metadata, '$.{HEADING}'), -1), kind FROM passages WHERE document = ?"
        return self._connection.execute(f"{query} AND kind != ?", (document, PART)).fetchall()

    def chapter_names(self) -> Iterator[tuple[str, str]]:
        """Number and title of the chapter of each row, empty where it has none."""
        contents = {document.id: headings(document) for document in self.documents()}
        chapters = {
            document: [own[place] if place >= 0 else None for place in chapter_places(own)]
            for document, own in contents.items()
        }
        query = f"SELECT p.document, COALESCE(json_extract(p.metadata, '$.{HEADING}'), -1) FROM {ROWS} ORDER BY row"
        for document, place in self._connection.execute(query):
            chapter = chapters[document][place] if 0 <= place < len(chapters.get(document, ())) else None
            yield (chapter.number, chapter.title) if chapter else ("", "")

    def document_numbers(self) -> Integers:
        """The number of the document of each row, in order of first appearance."""
        numbers: dict[str, int] = {}
        rows = (numbers.setdefault(document, len(numbers)) for (document,) in self.table("document"))
        return np.fromiter(rows, np.int64, self._length)

    def document_ids(self) -> list[str]:
        """The documents that have rows, in the order of `document_numbers`."""
        return list(dict.fromkeys(document for (document,) in self.table("document")))

    def places(self) -> Iterator[tuple[str, str, str, str | None, str, int, int]]:
        """Id, document, kind, date, file, first and last line of each row, without its text.

        A passage without a date has its document's.
        """
        yield from self._connection.execute(
            "SELECT p.id, p.document, p.kind, COALESCE(p.date, d.date), p.file, p.first_line, p.last_line"
            f" FROM {ROWS_WITH_DOCUMENTS} ORDER BY row"
        )

    def document(self, identity: str) -> Document:
        """A document by id; KeyError where there is none."""
        for document in read_documents(self._connection, "WHERE id = ?", (identity,), file_of=self._file):
            return replace(document, links=self._links("source = ?", [identity]).get(identity, ()))
        raise KeyError(identity)

    def documents(self, *, kind: str = "", links: bool = False) -> Iterator[Document]:
        """All documents, or those of a kind, by id; with `links` also their own links."""
        where, values = ("WHERE kind = ?", (kind,)) if kind else ("", ())
        own = f"source IN (SELECT id FROM documents {where})" if kind else "source = document"
        own_links = self._links(own, values) if links else {}
        for document in read_documents(self._connection, where, values, file_of=self._file):
            yield replace(document, links=own_links.get(document.id, ()))

    @functools.cached_property
    def is_latex(self) -> bool:
        """Whether most documents are papers in LaTeX."""
        query = "SELECT 2 * SUM(kind = 'paper') > COUNT(*) FROM documents WHERE kind != 'location'"
        return bool(self._connection.value(query))

    def referring(self, identity: str) -> list[tuple[str, str]]:
        """The passages and documents that link to this one: (id, relation)."""
        query = "SELECT DISTINCT source, relation FROM links WHERE target = ? ORDER BY source, relation"
        return self._connection.execute(query, (identity,)).fetchall()

    def reports(self, locations: Sequence[str], log: Passage, *, later: bool) -> list[str]:
        """At most twenty logs about one of the locations (ids), dated before or after a log, the nearest first."""
        sign, order = (">", "ASC") if later else ("<", "DESC")
        query = (
            "SELECT DISTINCT p.id, p.date FROM links JOIN passages p ON p.id = source WHERE relation = 'reports_about'"
            f" AND target IN ({','.join('?' * len(locations))}) AND p.id != ? AND (p.date, p.id) {sign} (?, ?)"
            f" ORDER BY p.date {order}, p.id {order} LIMIT 20"
        )
        return self._connection.column(query, (*locations, log.id, log.date, log.id))

    # ------------------------------------------------------------ for lists that people read

    def _records(self, query: str, values: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        rows = self._connection.execute(query, values)
        names = [column[0] for column in rows.description]
        return (dict(zip(names, row, strict=True)) for row in rows)

    def _with_files(self, records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Records with the name of their file instead of their unit."""
        for record in records:
            unit = record.pop("unit")
            yield {**record, "file": self._file(unit, record["file"])}

    def document_records(self, *, kind: str = "") -> Iterator[dict[str, Any]]:
        """The documents with the number of their passages, without locations."""
        records = self._records(
            "SELECT d.unit, d.id, d.kind, d.title, d.date, d.file, COUNT(p.number) AS passages"
            f" FROM documents d LEFT JOIN passages p ON p.document = d.id AND p.kind != '{PART}'"
            " WHERE d.kind != 'location' AND ?1 IN ('', d.kind) GROUP BY d.id ORDER BY d.id",
            (kind,),
        )
        return self._with_files(records)

    def newest(self, k: int) -> list[str]:
        """The newest logs; else the documents that were read last, none where all were read within an hour."""
        logs = "SELECT id FROM passages WHERE kind = 'log' AND date IS NOT NULL ORDER BY date DESC, number DESC LIMIT ?"
        if newest := self._connection.column(logs, (k,)):
            return newest
        read = (
            "SELECT d.id FROM documents d JOIN units u ON u.number = d.unit WHERE d.kind != 'location' AND julianday("
            "u.read_at) > (SELECT MIN(julianday(read_at)) FROM units) + 1.0 / 24 ORDER BY u.read_at DESC, d.id LIMIT ?"
        )
        return self._connection.column(read, (k,))

    def document_statistics(self) -> Iterator[dict[str, Any]]:
        """Each document, by id and without locations: passages by kind, size of its texts, links, references.

        `links` counts all that it and its passages have, those that were resolved, and those to and from other
        documents. The texts stay in the database, and only numbers are kept for all documents.
        """
        execute = self._connection.execute
        links = {row[0]: row[1:] for row in execute("SELECT document, COUNT(*), COUNT(target) FROM links GROUP BY 1")}
        ends = (
            "SELECT l.document AS source, COALESCE(p.document, l.target) AS target FROM links l"
            " LEFT JOIN passages p ON p.id = l.target WHERE l.target IS NOT NULL"
        )
        outgoing, incoming = (
            dict(execute(f"SELECT {side}, COUNT(*) FROM ({ends}) WHERE source != target GROUP BY 1").fetchall())
            for side in ("source", "target")
        )
        query = "SELECT document, COUNT(*), COUNT(target) FROM bibliography GROUP BY 1"
        entries = {row[0]: row[1:] for row in execute(query)}
        kinds: dict[str, Counter[str]] = defaultdict(Counter)
        characters: Counter[str] = Counter()
        words: Counter[str] = Counter()
        # in the order of the index, so that nothing is sorted
        whole = f"passages WHERE kind != '{PART}'"
        query = f"SELECT document, kind, LENGTH(text), words(text) FROM {whole} ORDER BY document, position"
        for document, kind, length, number in execute(query):
            kinds[document][kind] += 1
            characters[document] += length
            words[document] += number
        for record in self._records("SELECT id, kind, title, date FROM documents WHERE kind != 'location' ORDER BY id"):
            document = record["id"]
            total, resolved = links.get(document, (0, 0))
            listed, in_corpus = entries.get(document, (0, 0))
            yield {
                **record,
                "passages": kinds[document].total(),
                "kinds": dict(kinds[document].most_common()),
                "characters": characters[document],
                "words": words[document],
                "links": {
                    "all": total,
                    "resolved": resolved,
                    "out": outgoing.get(document, 0),
                    "in": incoming.get(document, 0),
                },
                "bibliography": {"entries": listed, "in_corpus": in_corpus},
            }

    def passage_records(self, *, document: str = "", kind: str = "") -> Iterator[dict[str, Any]]:
        """The passages without their texts and without parts of them, in the order of the rows."""
        conditions = {"p.document": document, "p.kind": kind}
        where = " AND ".join(
            (f"p.kind != '{PART}'", *(f"{column} = ?" for column, value in conditions.items() if value))
        )
        records = self._records(
            f"SELECT p.unit, p.id, p.kind, COALESCE(json_extract(p.metadata, '$.{NUMBER}'), '') AS number,"
            f" COALESCE(json_extract(p.metadata, '$.{PRINTED}'), '') AS printed, p.title,"
            " p.document, p.section, COALESCE(p.date, d.date) AS date, p.file,"
            f" p.first_line AS line FROM {ROWS_WITH_DOCUMENTS} WHERE {where} ORDER BY row",
            [value for value in conditions.values() if value],
        )
        return self._with_files(records)

    def bibliography_records(self, *, document: str = "") -> Iterator[dict[str, Any]]:
        """The entries of all bibliographies, or of one document's; `target` is the entry's document in the corpus."""
        return self._records(
            "SELECT document, key, title, authors, year, arxiv, doi, text, target FROM bibliography"
            " WHERE ?1 IN ('', document) ORDER BY document, number",
            (document,),
        )

    def linked(self, relation: str) -> Iterator[tuple[str, str]]:
        """Source and target of each resolved link of a relation."""
        query = "SELECT source, target FROM links WHERE relation = ? AND target IS NOT NULL"
        yield from self._connection.execute(query, (relation,))

    def stored_ids(self, file: str, ids: Iterable[str]) -> dict[str, str]:
        """For ids that stand in a file, those under which they are stored; empty if the file was not ingested.

        `file` is relative to the workspace.
        """
        unit = self._connection.execute("SELECT number, prefix FROM units WHERE file = ?", (file,)).fetchone()
        if unit is None:
            return {}
        number, prefix = unit
        renames = dict(self._connection.execute("SELECT wanted, id FROM renames WHERE unit = ?", (number,)).fetchall())
        return {identity: renames.get(prefix + identity, prefix + identity) for identity in ids}

    def sources(self) -> list[IngestedSource]:
        """Everything that was ingested, by path."""
        tables = ("documents t WHERE kind != 'location' AND", "passages t WHERE", "skips t WHERE")
        counts = ", ".join(f"SUM((SELECT COUNT(*) FROM {table} t.unit = units.number))" for table in tables)
        query = f"SELECT root, MAX(read_at), {counts} FROM units GROUP BY root ORDER BY root"
        return [IngestedSource(*row) for row in self._connection.execute(query)]

    def skips(self) -> list[Skip]:
        """Skipped input with its cause."""
        return sorted({Skip(self._file(unit, file), line, cause) for unit, file, line, cause in self._skips()})

    def _skips(self) -> set[tuple[int, str, int, str]]:
        """Unit, file, line and cause of all that was skipped."""
        return {*self._connection.execute("SELECT unit, file, line, cause FROM skips"), *self._open_references()}

    def _open_references(self) -> Iterator[tuple[int, str, int, str]]:
        r"""A note for each document and macro with references, such as `\ref`, to labels that are nowhere."""
        links = f"(SELECT * FROM links WHERE {LOCAL_REFERENCE} AND target IS NULL)"
        open_ones = f"FROM {links} l JOIN passages p ON p.id = l.source"
        macros = {
            document: read_cell(cell)
            for document, cell in self._connection.execute(
                f"SELECT id, json_extract(metadata, '$.{REFERRING}') AS macros FROM documents"
                f" WHERE id IN (SELECT p.document {open_ones}) AND macros IS NOT NULL"
            )
        }
        rows = self._connection.execute(
            f"SELECT p.document, l.label, p.unit, p.file, p.first_line {open_ones}"
            " ORDER BY p.document, p.position, l.number"
        )
        groups: dict[tuple[str, str], list[tuple[str, int, str, int]]] = {}
        for document, label, *place in rows:
            groups.setdefault((document, macros.get(document, {}).get(label, "ref")), []).append((label, *place))
        for (_, macro), references in groups.items():
            label, unit, file, line = references[0]
            number = "1 reference" if len(references) == 1 else f"{len(references):,} references"
            note = f"\\{macro}: {number} without a target, for example {label!r}"
            yield unit, file, line, note

    def counts(self) -> dict[str, Any]:
        """Counts of documents, passages, links, labels, bibliography and skips."""

        def grouped(query: str) -> dict[str, int]:
            return dict(self._connection.execute(query).fetchall())

        count = self._connection.value
        return {
            "documents": grouped("SELECT kind, COUNT(*) FROM documents GROUP BY kind ORDER BY 2 DESC, 1"),
            "passages": grouped("SELECT kind, COUNT(*) FROM passages GROUP BY kind ORDER BY 2 DESC, 1"),
            "links": {
                relation: {"all": number, "resolved": resolved}
                for relation, number, resolved in self._connection.execute(
                    "SELECT relation, COUNT(*), COUNT(target) FROM links GROUP BY relation ORDER BY 2 DESC, 1"
                )
            },
            "labels": count("SELECT COUNT(*) FROM labels WHERE name NOT LIKE 'number:%'"),
            "bibliography": {
                "entries": count("SELECT COUNT(*) FROM bibliography"),
                "in_corpus": count("SELECT COUNT(target) FROM bibliography"),
            },
            "skips": len(self._skips()),
        }

    def totals(self) -> dict[str, int]:
        """Numbers of documents, locations among them, passages, links, resolved ones, and skips; from indexes alone."""

        def count(rows: str) -> int:
            return int(self._connection.value(f"SELECT COUNT(*) FROM {rows}"))

        return {
            "documents": count("documents"),
            "locations": count("documents WHERE kind = 'location'"),
            "passages": self.whole_passages(),
            "links": count("links"),
            "resolved": count("links WHERE target IS NOT NULL"),
            "skips": len(self._skips()),
        }


# ---------------------------------------------------------------- verbs


def sources(workspace: Workspace) -> list[IngestedSource]:
    """Every path that was ingested: when it was read, and how much of the corpus came from it."""
    with contextlib.closing(Corpus(workspace)) as corpus:
        return corpus.sources()


def skips(workspace: Workspace) -> list[Skip]:
    """Skipped input with its cause."""
    with contextlib.closing(Corpus(workspace)) as corpus:
        return corpus.skips()
