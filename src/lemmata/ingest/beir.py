"""Passages that come as JSON lines: a BEIR folder, abstracts, or passages with links of their own."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lemmata.archives import open_decompressed
from lemmata.errors import InputError
from lemmata.types import Document, Label, Link, Passage, Reading, Skip

__all__ = ["read_judged", "read_passages", "read_qrels", "read_queries", "read_table"]

_KNOWN = frozenset(
    "_id id title text abstract kind document date created section links categories authors metadata proof".split()
)


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _links(value: Any) -> tuple[Link, ...]:
    """`["id", …]`, `[{"target": "id", "relation": "cites"}, …]` or `{"cites": ["id", …]}`."""
    pairs: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        pairs = [(relation, target) for relation, targets in value.items() for target in targets]
    elif isinstance(value, list):
        pairs = [
            (str(one.get("relation", "refers_to")), one.get("target", ""))
            if isinstance(one, Mapping)
            else ("refers_to", one)
            for one in value
        ]
    return tuple(Link(relation, str(target)) for relation, target in pairs if str(target))


def read_passages(rows: Iterable[tuple[int, Mapping[str, Any]]], *, file: str, batch: int = 2000) -> Iterator[Reading]:
    """One passage per row, each a document of its own unless a row names its document.

    A row has an id (`id` or `_id`) and a text (`text` or `abstract`); `title`, `kind`, `document`, `date` or
    `created`, `section`, `categories`, `authors`, `links`, `proof` and `metadata` may follow; what else
    stands in it becomes metadata.
    """
    documents: list[Document] = []
    passages: list[Passage] = []
    labels: list[Label] = []
    skips: list[Skip] = []
    named: set[str] = set()
    for line, row in rows:
        identity = str(row.get("_id", row.get("id", "")) or "")
        text = str(row.get("text", row.get("abstract", "")) or "").strip()
        if not identity or not text:
            skips.append(Skip(file, line, "a row without an id" if not identity else f"{identity!r} has no text"))
            continue
        date = row.get("date") or row.get("created") or None
        title = str(row.get("title") or "")
        document = str(row.get("document") or identity)
        default = "abstract" if "abstract" in row and "text" not in row else "passage"
        metadata = row.get("metadata")
        extra = dict(metadata) if isinstance(metadata, Mapping) else {}
        extra |= {key: value for key, value in row.items() if key not in _KNOWN and value not in (None, "", [])}
        if document not in named:
            named.add(document)
            documents.append(
                Document(
                    document,
                    title,
                    "text",
                    tuple(map(str, row["authors"])) if isinstance(row.get("authors"), list) else (),
                    str(date) if date else None,
                    _words(row.get("categories")),
                    file,
                )
            )
        labels.append(Label("", identity, identity))
        passages.append(
            Passage(
                id=identity,
                document=document,
                kind=str(row.get("kind") or default),
                text=text,
                title=title,
                section=str(row.get("section") or ""),
                proof=str(row.get("proof") or ""),
                file=file,
                first_line=line,
                last_line=line,
                date=str(date) if date else None,
                metadata=extra,
                links=_links(row.get("links")),
            )
        )
        if len(passages) >= batch:
            yield Reading(documents, passages, labels, skips=skips)
            documents, passages, labels, skips = [], [], [], []
    yield Reading(documents, passages, labels, skips=skips)


# ---------------------------------------------------------------- the test side of a BEIR folder


def _lines(path: Path) -> io.TextIOWrapper:
    if not path.is_file():
        raise InputError("there is no such file", file=str(path))
    return io.TextIOWrapper(open_decompressed(path), "utf-8-sig", errors="replace")


def read_queries(path: Path) -> dict[str, str]:
    """Queries by id, from JSON lines with `_id` (or `id`) and `text`."""
    queries: dict[str, str] = {}
    with _lines(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                queries[str(row.get("_id", row.get("id")))] = str(row["text"])
            except (ValueError, KeyError, AttributeError, TypeError) as error:
                cause = 'a query needs one JSON object with "_id" and "text"'
                raise InputError(cause, file=str(path), line=number) from error
    return queries


def read_table(path: Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Queries and judgments from a table: below a heading, lines of a query, a tab and the id of its passage."""
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    with _lines(path) as lines:
        for number, line in enumerate(lines, 1):
            if number == 1 or not line.strip():
                continue
            query, _, passage = line.rstrip("\r\n").partition("\t")
            if not passage.strip():
                raise InputError("a line needs a query and an id, parted by a tab", file=str(path), line=number)
            queries[str(number)] = query
            qrels[str(number)] = {passage.strip(): 1}
    return queries, qrels


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Judgments as query: {passage: grade}, from BEIR's three columns with a header or TREC's four without."""
    judgments: dict[str, dict[str, int]] = {}
    with _lines(path) as lines:
        for number, line in enumerate(lines, 1):
            cells = line.rstrip("\r\n").split("\t")
            if len(cells) == 1:
                cells = cells[0].split()
            if not cells or (number == 1 and cells[0].lower() in ("query-id", "query_id", "qid")):
                continue
            try:
                query, passage, grade = cells if len(cells) == 3 else (cells[0], cells[2], cells[3])
                judgments.setdefault(query, {})[passage] = int(grade)
            except (ValueError, IndexError) as error:
                cause = "a judgment needs query, passage and a whole number, parted by tabs"
                raise InputError(cause, file=str(path), line=number) from error
    return judgments


def read_judged(folder: Path, which: str = "test") -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """The queries of a BEIR folder, packed or not, and the judgments of that name."""
    packed = sorted(folder.glob("queries.jsonl*"))
    queries = read_queries(packed[0] if packed else folder / "queries.jsonl")
    return queries, read_qrels(folder / "qrels" / f"{which}.tsv")
