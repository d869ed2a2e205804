"""Opens SQLite files, also in read-only folders, and turns their errors into WorkspaceErrors of one sentence."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from lemmata.core.errors import WorkspaceError, other_format
from lemmata.core.files import RETRY, is_writable


class _Cursor(sqlite3.Cursor):
    """A cursor whose errors name the file."""

    connection: Connection

    # try and except instead of the context manager: these run once per row
    def execute(self, statement: str, values: Any = ()) -> _Cursor:
        try:
            super().execute(statement, values)
        except sqlite3.DatabaseError as error:
            self.connection.refuse(error)
        return self

    def executemany(self, statement: str, rows: Iterable[Any]) -> _Cursor:
        with self.connection.explain():
            super().executemany(statement, rows)
        return self

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except sqlite3.DatabaseError as error:
            self.connection.refuse(error)

    def fetchone(self) -> Any:
        try:
            return super().fetchone()
        except sqlite3.DatabaseError as error:
            self.connection.refuse(error)

    def fetchall(self) -> list[Any]:
        with self.connection.explain():
            return super().fetchall()


class Connection(sqlite3.Connection):
    """A connection whose errors are WorkspaceErrors with the file and the cure."""

    path: Path
    cure: str

    def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
        return self.cursor(_Cursor).execute(statement, values)

    def executemany(self, statement: str, rows: Iterable[Any]) -> sqlite3.Cursor:
        return self.cursor(_Cursor).executemany(statement, rows)

    def executescript(self, script: str) -> sqlite3.Cursor:
        with self.explain():
            return super().executescript(script)

    def value(self, query: str, values: Any = ()) -> Any:
        """The first cell of the first row; None where there is no row."""
        row = self.execute(query, values).fetchone()
        return None if row is None else row[0]

    def column(self, query: str, values: Any = ()) -> list[Any]:
        """The first cell of each row."""
        return [row[0] for row in self.execute(query, values)]

    @contextlib.contextmanager
    def explain(self) -> Iterator[None]:
        """Turn errors of SQLite into WorkspaceErrors."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            self.refuse(error)

    def refuse(self, error: sqlite3.DatabaseError) -> NoReturn:
        """Raise a WorkspaceError that says what is wrong and what to do; errors of the code stay as they are."""
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.IntegrityError):
            raise error  # not a problem of the disk
        text = str(error)
        for word, sentence in (
            ("full", f"{self.path} could not be written: the disk is full; {RETRY}"),
            ("readonly", f"{self.path} could not be written: it is read-only"),
            ("locked", f"another lemmata is writing to {self.path}; try again when it is done"),
            ("I/O", f"{self.path} could not be read or written ({text}): check the disk; {RETRY}"),
            ("", f"{self.path} is damaged ({text}): {self.cure}"),
        ):
            if word in text:
                raise WorkspaceError(sentence) from error
        raise AssertionError


# a view or a virtual table in the place of a table can take for ever, and a trigger writes what nobody asked for
_FOREIGN = "SELECT COUNT(*) FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'"


def read_cell(text: str) -> Any:
    """The list or object in a cell of a database; WorkspaceError where it is none."""
    try:
        value = json.loads(text)
        if not isinstance(value, list | dict):
            raise ValueError("neither a list nor an object")
        return value
    except (ValueError, TypeError, RecursionError) as error:
        raise WorkspaceError(f"a database of the workspace is damaged ({error}): run 'lemmata verify'") from error


def connect(path: Path, schema: str, version: int, *, cure: str, create: bool = False) -> Connection:
    """Open a file whose tables `schema` makes, in this `version` of theirs; with `create`, make a missing one.

    `cure` says what to do if the file is damaged, or of another version. A file in a read-only folder can be read.
    """
    check_journal(path)
    try:
        connection = sqlite3.connect(
            _address(path), uri=True, timeout=10, isolation_level=None, check_same_thread=False, factory=Connection
        )
    except sqlite3.DatabaseError as error:
        raise WorkspaceError(f"{path} cannot be opened ({error}): {cure}") from error
    connection.path, connection.cure = path, cure
    try:
        connection.execute("BEGIN")  # both of one state, though somebody else may be making the tables
        stored = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        connection.execute("COMMIT")
        connection.execute("PRAGMA synchronous = NORMAL")
        if stored == tables == 0:
            if not create:
                raise WorkspaceError(f"{path} is damaged (it is empty): {cure}")
            _create(connection, schema, version)
        elif stored != version:
            raise other_format(path, stored, version, cure)
        if connection.execute(_FOREIGN).fetchone()[0]:
            raise WorkspaceError(f"{path} is refused (it holds more than tables, as none of lemmata's does): {cure}")
        connection.execute("PRAGMA secure_delete = ON")  # deleted text does not stay in free pages
    except BaseException:
        connection.close()
        raise
    return connection


def _create(connection: Connection, schema: str, version: int) -> None:
    """Make the tables, unless somebody else makes them at the same time."""
    try:
        connection.executescript(f"BEGIN IMMEDIATE; {schema} PRAGMA user_version = {version}; COMMIT;")
    except WorkspaceError:
        if connection.in_transaction:
            connection.rollback()
        if connection.execute("PRAGMA user_version").fetchone()[0] != version:
            raise


def _address(path: Path) -> str:
    """The URI of a file, for reading only where the file or its folder cannot be written."""
    address = path.absolute().as_uri()
    if is_writable(path.parent) and (not path.exists() or is_writable(path)):
        return address
    if not path.exists():
        return "file::memory:"  # there is nothing to read, and nothing can be written
    log = path.with_name(f"{path.name}-journal")
    if log.exists() and log.stat().st_size:
        raise WorkspaceError(f"{path} needs its folder to be writable once: its last change is still in {log.name}")
    return f"{address}?mode=ro"


_JOURNAL = bytes.fromhex("d9d505f920a163d7")


def check_journal(path: Path) -> None:
    """WorkspaceError where the journal beside a SQLite file ends with a name: SQLite would delete what has it.

    It is how changes of several files at once are undone, which lemmata never makes.
    """
    journal = Path(f"{path.resolve()}-journal")
    end = b""
    with contextlib.suppress(FileNotFoundError), journal.open("rb") as stream:  # it may end at this moment
        stream.seek(-min(len(_JOURNAL), os.fstat(stream.fileno()).st_size), os.SEEK_END)
        end = stream.read()
    if end == _JOURNAL:
        raise WorkspaceError(f"{journal} is refused (it names another file, as none of lemmata's does): delete it")


def check_integrity(connection: Connection) -> None:
    """Read the whole file; WorkspaceError if it is damaged."""
    result = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if result != "ok":
        raise WorkspaceError(f"{connection.path} is damaged ({result}): {connection.cure}")


def change_counter(path: Path) -> int:
    """The number of transactions that changed a file, from its header; -1 where the two copies there differ.

    Not for files with a write-ahead log, in which the header stays.
    """
    with path.open("rb") as stream:
        header = stream.read(100)
    first, second = header[24:28], header[92:96]
    return int.from_bytes(first, "big") if first == second else -1


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit at the end of the block, or undo everything after an exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has already rolled back if the disk is full
            connection.execute("ROLLBACK")
        raise


_SCHEMA = """
CREATE TABLE version(code TEXT NOT NULL);
CREATE TABLE results(key BLOB PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
"""


class Memo:
    """A context manager around one run; when it is done, results that it did not ask for are deleted.

    `code` names the function: results of another one are of no use. Call it while holding the workspace.
    """

    def __init__(self, path: Path, code: str) -> None:
        self._path, self._code = path, code
        self._used: set[bytes] = set()

    def __enter__(self) -> Memo:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._connection = self._begin()
        except WorkspaceError:  # damaged: nothing is lost but time
            self._path.unlink(missing_ok=True)
            self._connection = self._begin()
        return self

    def _begin(self) -> Connection:
        connection = connect(self._path, _SCHEMA, 1, cure="delete it", create=True)
        try:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute("SELECT code FROM version").fetchone() != (self._code,):
                connection.execute("DELETE FROM version")
                connection.execute("DELETE FROM results")
                connection.execute("INSERT INTO version VALUES (?)", (self._code,))
        except BaseException:
            connection.close()
            raise
        return connection

    def get(self, key: bytes) -> str | None:
        """The result under a key; None where there is none, or a damaged one."""
        self._used.add(key)
        row = self._connection.execute("SELECT content FROM results WHERE key = ?", (key,)).fetchone()
        if row is not None:
            with contextlib.suppress(zlib.error, UnicodeDecodeError):  # a flipped bit
                return zlib.decompress(row[0]).decode("utf-8", "surrogatepass")
        return None

    def put(self, key: bytes, content: str) -> None:
        """Keep a result."""
        compressed = zlib.compress(content.encode("utf-8", "surrogatepass"), 1)
        self._connection.execute("INSERT OR REPLACE INTO results VALUES (?, ?)", (key, compressed))

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: object) -> None:
        with contextlib.closing(self._connection) as connection:
            if kind is None:  # a run that was interrupted has not asked for all yet
                keys = connection.execute("SELECT key FROM results").fetchall()
                unused = [row for row in keys if row[0] not in self._used]
                connection.executemany("DELETE FROM results WHERE key = ?", unused)
            if connection.in_transaction:  # SQLite has already rolled back if the disk is full
                connection.execute("COMMIT")
