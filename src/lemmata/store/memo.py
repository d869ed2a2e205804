"""Results of a long function by the hash of what it read, in a file that may be deleted at any time."""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path

from lemmata.errors import WorkspaceError
from lemmata.store.database import Connection, connect

__all__ = ["Memo"]

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
