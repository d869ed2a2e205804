"""The log of what people searched for, were shown, opened and marked: one file of the workspace, on this machine only.

A query stands in it once, however often it was asked. `lemmata judgments` shows, exports and clears it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from lemmata.core.database import Connection, connect
from lemmata.core.errors import InputError, LemmataError, WorkspaceError
from lemmata.core.workspace import Workspace
from lemmata.corpus.corpus import Corpus
from lemmata.evaluate.export import export_beir, write_trec_qrels
from lemmata.evaluate.tasks import Task

Mark = Literal["answer", "wrong", "opened", "none"]
LEVELS = ("off", "marks", "queries", "openings")
MOST_QUERIES = 50_000  # unmarked ones that were asked the longest time ago go first
MOST_MARKS = 200_000
_MOST_HITS = 100  # of a query
_TYPING = 10.0  # seconds in which a query that goes on with the one before replaces it
_CURE = "delete it, and the log begins anew"
_FORMAT = 1
_SCHEMA = """
CREATE TABLE queries (
    id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, times INTEGER NOT NULL, last REAL NOT NULL, hits TEXT NOT NULL
);
CREATE INDEX by_time ON queries(last);
CREATE TABLE marks (
    query INTEGER NOT NULL, passage TEXT NOT NULL, mark TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (query, passage)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class JudgmentOptions:
    """What the log of searches keeps; it never leaves the machine."""

    CHOICES: ClassVar = {"log": LEVELS}
    log: str = "queries"  # off; marks: only queries with a mark; queries: all, with their hits; openings: also openings


class LoggedQuery(NamedTuple):
    """A query, the hits that were shown last, and what was said about passages."""

    id: str
    text: str
    times: int
    last: float  # seconds since 1970
    hits: tuple[str, ...]
    answers: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()


class JudgmentLog:
    """The log of a workspace, for many threads and processes; the file is made by the first entry."""

    def __init__(self, workspace: Workspace) -> None:
        self._path = workspace.judgment_log
        self.level = workspace.options(JudgmentOptions, "judgments").log
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> JudgmentLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[Connection]:
        """The file in one transaction; what fails changes nothing."""
        with self._lock:
            if not self._path.exists():
                self._close()  # somebody deleted the file
            if self._connection is None:
                if self._path.is_symlink():
                    raise WorkspaceError(f"{self._path} is a link, and what it leads to would change: {_CURE}")
                self._connection = connect(self._path, _SCHEMA, _FORMAT, cure=_CURE, create=True)
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()  # a search need not wait for the disk
            connection = self._connection
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def searched(self, query: str, hits: Sequence[str], offset: int = 0) -> None:
        """Keep a query and the ids that were shown for it, from the hit number `offset` on."""
        text = _one_line(query)
        if self.level in ("off", "marks") or not text:
            return
        now = time.time()
        with self._transaction() as log:
            if not offset:  # a page that searches while people type sends the beginnings as well
                log.execute(
                    "DELETE FROM queries WHERE last > ? AND times = 1 AND length(text) < ? AND substr(?, 1,"
                    " length(text)) = text AND id NOT IN (SELECT query FROM marks)",
                    (now - _TYPING, len(text), text),
                )
            row = log.execute("SELECT hits FROM queries WHERE text = ?", (text,)).fetchone()
            before = json.loads(row[0])[:offset] if row and offset else []
            shown = json.dumps([*before, *hits][:_MOST_HITS], ensure_ascii=False)
            log.execute(
                "INSERT INTO queries (text, times, last, hits) VALUES (?, 1, ?, ?) ON CONFLICT (text)"
                " DO UPDATE SET times = times + ?, last = excluded.last, hits = excluded.hits",
                (text, now, shown, int(not offset)),
            )
            log.execute(
                "DELETE FROM queries WHERE id IN (SELECT id FROM queries WHERE id NOT IN (SELECT query FROM marks)"
                " ORDER BY last LIMIT max(0, (SELECT COUNT(*) FROM queries) - ?))",
                (MOST_QUERIES,),
            )

    def mark(self, query: str, passage: str, mark: Mark) -> None:
        """Keep that a passage is the answer to a query, or is not, or was opened; `none` takes a mark back.

        An opening is kept only where the log keeps openings, and never in the place of a mark.
        """
        text = _one_line(query)
        if not text:
            raise InputError("the query is empty: a mark belongs to a query")
        if mark == "opened" and self.level != "openings":
            return
        if self.level == "off":
            raise LemmataError("nothing is kept here, as log in [judgments] is off: set it to marks or queries")
        with self._transaction() as log:
            if mark == "none":
                log.execute(
                    "DELETE FROM marks WHERE passage = ? AND query IN (SELECT id FROM queries WHERE text = ?)",
                    (passage, text),
                )
                return
            if log.execute("SELECT COUNT(*) FROM marks").fetchone()[0] >= MOST_MARKS:
                raise LemmataError(f"there are {MOST_MARKS:,} marks: export them, and clear the log")
            now = time.time()
            log.execute("INSERT OR IGNORE INTO queries (text, times, last, hits) VALUES (?, 1, ?, '[]')", (text, now))
            log.execute(
                "INSERT INTO marks SELECT id, ?, ?, ? FROM queries WHERE text = ? ON CONFLICT (query, passage)"
                " DO UPDATE SET mark = excluded.mark, time = excluded.time WHERE excluded.mark != 'opened'",
                (passage, mark, now, text),
            )

    def marks_of(self, query: str) -> dict[str, str]:
        """The passages marked for a query, each with its mark."""
        if self.level == "off" or not self._path.exists():
            return {}
        statement = "SELECT passage, mark FROM marks JOIN queries ON query = id WHERE text = ? AND mark != 'opened'"
        with self._transaction("BEGIN") as log:
            return dict(log.execute(statement, (_one_line(query),)).fetchall())

    def counts(self) -> dict[str, Any]:
        """How many queries and marks the log holds, and when the last ones came, in seconds since 1970."""
        if self.level == "off" or not self._path.exists():
            return {"queries": 0, "asked": 0, "last_query": None, "marks": {}, "last_mark": None}
        with self._transaction("BEGIN") as log:
            queries, asked, last = log.execute("SELECT COUNT(*), TOTAL(times), MAX(last) FROM queries").fetchone()
            marks = log.execute("SELECT mark, COUNT(*), MAX(time) FROM marks GROUP BY mark").fetchall()
        return {
            "queries": queries,
            "asked": int(asked),
            "last_query": last,
            "marks": {mark: number for mark, number, _ in marks},
            "last_mark": max((time for *_, time in marks), default=None),
        }

    def queries(self) -> list[LoggedQuery]:
        """All that the log holds, what was asked last first."""
        if not self._path.exists():
            return []
        with self._transaction("BEGIN") as log:
            rows = log.execute("SELECT id, text, times, last, hits FROM queries ORDER BY last DESC, id").fetchall()
            marks = log.execute("SELECT query, mark, passage FROM marks ORDER BY time, passage").fetchall()
        marked: dict[int, dict[str, list[str]]] = {}
        for query, mark, passage in marks:
            marked.setdefault(query, {}).setdefault(mark, []).append(passage)
        return [
            LoggedQuery(
                f"q{number}",
                text,
                times,
                last,
                tuple(json.loads(hits)),
                *(tuple(marked.get(number, {}).get(mark, ())) for mark in ("answer", "wrong", "opened")),
            )
            for number, text, times, last, hits in rows
        ]

    def clear(self) -> int:
        """Delete all of it, also from the disk; returns how many queries there were."""
        if not self._path.exists():
            return 0
        with self._transaction() as log:
            number = int(log.execute("SELECT COUNT(*) FROM queries").fetchone()[0])
            log.execute("DELETE FROM marks")
            log.execute("DELETE FROM queries")
        with self._lock:
            assert self._connection is not None
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return number


def _one_line(query: str) -> str:
    return " ".join(query.encode("utf-8", "replace").decode().split())


# ---------------------------------------------------------------- the verb


def judgments(workspace: Workspace) -> list[LoggedQuery]:
    with JudgmentLog(workspace) as log:
        return log.queries()


def clear_judgments(workspace: Workspace) -> int:
    """Delete the log; returns how many queries it held."""
    with JudgmentLog(workspace) as log:
        return log.clear()


def marked_task(workspace: Workspace, name: str = "marks") -> Task | None:
    """The queries with an answer as a task; None where there are none. What is no longer in the corpus is noted.

    A passage that was marked as wrong has the grade 0.
    """
    logged = [query for query in judgments(workspace) if query.answers]
    with contextlib.closing(Corpus(workspace)) as corpus:
        known = frozenset(corpus.ids()) if logged else frozenset()
    qrels: dict[str, Mapping[str, int]] = {}
    gone = 0
    for query in logged:
        grades = {**dict.fromkeys(query.wrong, 0), **dict.fromkeys(query.answers, 1)}
        gone += sum(passage not in known for passage in grades)
        grades = {passage: grade for passage, grade in grades.items() if passage in known}
        if any(grades.values()):
            qrels[query.id] = grades
    if not qrels:
        return None
    notes = (f"{gone:,} marks of passages that are no longer in the corpus were left out",) if gone else ()
    texts = {query.id: query.text for query in logged}
    return Task(name, {query: texts[query] for query in qrels}, qrels, notes=notes)


def export_judgments(workspace: Workspace, folder: str | Path) -> dict[str, Any]:
    """Write the marked queries as a BEIR folder, with judgments also as trec_eval reads them, `qrels/test.qrels`."""
    task = marked_task(workspace)
    if task is None:
        raise LemmataError("no query has an answer yet: mark hits on the page, by POST /mark, or by the tool mark")
    report = export_beir(workspace, task, folder)
    write_trec_qrels(Path(folder) / "qrels" / "test.qrels", task.qrels)
    return report
