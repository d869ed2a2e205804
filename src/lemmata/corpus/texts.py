"""The texts of passages as they are indexed, and their hashes, which tell what an index has to read again."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lemmata.core.database import read_cell
from lemmata.core.types import INSERTED, SOLVED, Integers, Mask, Progress, titled, without_references
from lemmata.core.workspace import silent

Hashes = npt.NDArray[np.uint64]

ROWS = "rows JOIN passages p ON p.number = passage"
ROWS_WITH_DOCUMENTS = f"{ROWS} LEFT JOIN documents d ON d.id = p.document"


def read_contents(connection: sqlite3.Connection, start: int, stop: int) -> Iterator[str]:
    """`Passage.content` of consecutive rows."""
    for title, text, metadata in connection.execute(
        "SELECT title, text, CASE WHEN instr(metadata, ?) THEN metadata END"
        f" FROM {ROWS} WHERE row >= ? AND row < ? ORDER BY row",
        (f'"{INSERTED}"', start, stop),
    ):
        yield titled(title, without_references(text, read_cell(metadata)) if metadata else text)


def read_headings(connection: sqlite3.Connection, start: int, stop: int) -> Iterator[str]:
    """The title of the document and the headings above each of consecutive rows.

    The first passage of a document has its title twice, and its authors: who types them looks for where it begins.
    """
    query = (
        "SELECT p.section, CASE WHEN d.title NOT IN (p.title, p.text) THEN d.title END, d.authors,"
        " p.position = (SELECT MIN(position) FROM passages WHERE document = d.id)"
        f" FROM {ROWS_WITH_DOCUMENTS} WHERE row >= ? AND row < ? ORDER BY row"
    )
    for section, title, authors, is_first in connection.execute(query, (start, stop)):
        first = (title, *read_cell(authors or "[]")) if is_first else ()
        yield " ".join(filter(None, (title, *first, section)))


def read_proofs(connection: sqlite3.Connection, start: int, stop: int) -> Iterator[str]:
    """The proof of each of consecutive rows, without the names of its references; solutions are parts of their own."""
    for proof, metadata in connection.execute(
        "SELECT CASE WHEN NOT instr(metadata, ?) THEN proof ELSE '' END, CASE WHEN instr(metadata, ?) THEN metadata END"
        f" FROM {ROWS} WHERE row >= ? AND row < ? ORDER BY row",
        (f'"{SOLVED}"', f'"{INSERTED}"', start, stop),
    ):
        yield without_references(proof, read_cell(metadata), "proof") if metadata and proof else proof


def hash_text(text: str) -> int:
    """64 bits, signed, as SQLite stores them."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def hash_texts(texts: Iterable[str], count: int, progress: Progress = silent) -> Hashes:
    """A hash of each text (n,)."""
    hashes = np.empty(count, dtype=np.int64)
    for row, text in enumerate(texts):
        hashes[row] = hash_text(text)
        if row % 50_000 == 0 and row:
            progress("hashing passages", row, count)
    return hashes.view(np.uint64)


def match_rows(old: Hashes, new: Hashes) -> Integers:
    """For each new row an old row with the same hash, each old row once; -1 where there is none."""
    # what stands in front of all changes, and behind them, needs no sorting
    shorter = min(len(old), len(new))
    head = _first(old[:shorter] != new[:shorter])
    tail = _first(old[len(old) - shorter + head :][::-1] != new[len(new) - shorter + head :][::-1])
    if head or tail:
        between = match_rows(old[head : len(old) - tail], new[head : len(new) - tail])
        behind = np.arange(len(old) - tail, len(old))
        return np.concatenate([np.arange(head), np.where(between < 0, -1, between + head), behind])
    old_order, new_order = np.argsort(old, kind="stable"), np.argsort(new, kind="stable")
    old, new = old[old_order], new[new_order]
    # the first of equal new ones gets the first of equal old ones, and so on
    places = np.searchsorted(old, new) + np.arange(len(new)) - np.searchsorted(new, new)
    matched = np.flatnonzero(places < len(old))
    matched = matched[old[places[matched]] == new[matched]]
    matches = np.full(len(new), -1, dtype=np.int64)
    matches[new_order[matched]] = old_order[places[matched]]
    return matches


def _first(is_different: Mask) -> int:
    """Where the first one is; the length where there is none."""
    place = int(np.argmax(is_different)) if len(is_different) else 0
    return place if is_different[place : place + 1].any() else len(is_different)


def headed(heading: str, content: str) -> str:
    """What the lexical index reads of a passage, as one text."""
    return f"{heading}\0{content}"


def store_hashes(connection: sqlite3.Connection, start: int, stop: int) -> None:
    """Store the hashes of the contents of consecutive rows, alone and with their headings, and of their proofs."""
    numbers = connection.execute("SELECT passage FROM rows WHERE row >= ? AND row < ? ORDER BY row", (start, stop))
    texts = (read(connection, start, stop) for read in (read_headings, read_contents, read_proofs))
    connection.executemany(
        "INSERT OR REPLACE INTO text_hashes VALUES (?, ?, ?, ?)",
        (
            (number, hash_text(content), hash_text(headed(heading, content)), hash_text(proof) if proof else 0)
            for (number,), heading, content, proof in zip(numbers, *texts, strict=True)
        ),
    )


def runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Start and stop of the runs of consecutive numbers among ascending ones."""
    for run in np.split(np.asarray(rows, np.int64), np.flatnonzero(np.diff(rows) != 1) + 1):
        if len(run):
            yield int(run[0]), int(run[-1]) + 1
