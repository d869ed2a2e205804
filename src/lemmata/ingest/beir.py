"""Passages from JSON lines (a BEIR folder, abstracts, or passages with links), and BEIR queries and judgments."""

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

_PASSAGE_KEYS = frozenset(
    "_id id title text abstract kind document date created section links categories authors metadata proof".split()
)


def _links(value: Any) -> tuple[Link, ...]:
    """`["id", …]`, `[{"target": "id", "relation": "cites"}, …]` or `{"cites": ["id", …]}`."""
    pairs: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        pairs = [(relation, target) for relation, targets in value.items() for target in targets]
    elif isinstance(value, list):
        items = (item if isinstance(item, Mapping) else {"target": item} for item in value)
        pairs = [(str(item.get("relation", "refers_to")), item.get("target", "")) for item in items]
    return tuple(Link(relation, str(target)) for relation, target in pairs if str(target))


def read_passages(rows: Iterable[tuple[int, Mapping[str, Any]]], *, file: str, batch: int = 2000) -> Iterator[Reading]:
    """One passage per row, in a document of its own unless the row names its document.

    A row has an id (`id` or `_id`) and a text (`text` or `abstract`), and may have `title`, `kind`, `document`,
    `date` or `created`, `section`, `categories`, `authors`, `links`, `proof` and `metadata`; other keys become
    metadata.
    """
    documents: list[Document] = []
    passages: list[Passage] = []
    skips: list[Skip] = []
    seen_documents: set[str] = set()
    for line, row in rows:
        identity = str(row.get("_id", row.get("id", "")) or "")
        text = str(row.get("text", row.get("abstract", "")) or "").strip()
        if not identity or not text:
            skips.append(Skip(file, line, "a row without an id" if not identity else f"{identity!r} has no text"))
            continue
        date = str(row.get("date") or row.get("created") or "") or None
        title = str(row.get("title") or "")
        document = str(row.get("document") or identity)
        default_kind = "abstract" if "abstract" in row and "text" not in row else "passage"
        metadata = dict(row["metadata"]) if isinstance(row.get("metadata"), Mapping) else {}
        metadata |= {k: value for k, value in row.items() if k not in _PASSAGE_KEYS and value not in (None, "", [])}
        if document not in seen_documents:
            seen_documents.add(document)
            authors, categories = row.get("authors"), row.get("categories")
            if isinstance(categories, str):
                categories = categories.split()
            documents.append(
                Document(
                    document,
                    title,
                    "text",
                    authors=tuple(map(str, authors)) if isinstance(authors, list) else (),
                    date=date,
                    categories=tuple(map(str, categories)) if isinstance(categories, list) else (),
                    file=file,
                )
            )
        passages.append(
            Passage(
                id=identity,
                document=document,
                kind=str(row.get("kind") or default_kind),
                text=text,
                title=title,
                section=str(row.get("section") or ""),
                proof=str(row.get("proof") or ""),
                file=file,
                first_line=line,
                last_line=line,
                date=date,
                metadata=metadata,
                links=_links(row.get("links")),
            )
        )
        if len(passages) >= batch:
            yield Reading(documents, passages, _own_labels(passages), skips=skips)
            documents, passages, skips = [], [], []
    yield Reading(documents, passages, _own_labels(passages), skips=skips)


def _own_labels(passages: Iterable[Passage]) -> list[Label]:
    return [Label("", passage.id, passage.id) for passage in passages]


# ---------------------------------------------------------------- queries and judgments


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file, compressed or not, that are not blank, with their numbers."""
    if not path.is_file():
        raise InputError("there is no such file", file=str(path))
    with io.TextIOWrapper(open_decompressed(path), "utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def read_queries(path: Path) -> dict[str, str]:
    """Queries by id, from JSON lines with `_id` (or `id`) and `text`."""
    queries: dict[str, str] = {}
    for number, line in _lines(path):
        try:
            row = json.loads(line)
            queries[str(row.get("_id", row.get("id")))] = str(row["text"])
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            cause = 'a query needs a JSON object with "_id" and "text"'
            raise InputError(cause, file=str(path), line=number) from error
    return queries


def read_table(path: Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Queries and judgments from a table: below a header, lines of a query, a tab and the id of its passage."""
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        if number == 1:
            continue
        query, _, passage = line.partition("\t")
        if not passage.strip():
            raise InputError("a line needs a query and an id, separated by a tab", file=str(path), line=number)
        queries[str(number)] = query
        qrels[str(number)] = {passage.strip(): 1}
    return queries, qrels


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Judgments as query: {passage: grade}, from BEIR's three columns with a header or TREC's four without."""
    judgments: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        cells = line.split("\t") if "\t" in line else line.split()
        if number == 1 and cells[0].lower() in ("query-id", "query_id", "qid"):
            continue
        try:
            query, passage, grade = cells if len(cells) == 3 else (cells[0], cells[2], cells[3])
            judgments.setdefault(query, {})[passage] = int(grade)
        except (ValueError, IndexError) as error:
            cause = "a judgment needs query, passage and a whole number, tab-separated"
            raise InputError(cause, file=str(path), line=number) from error
    return judgments


def read_judged(folder: Path, which: str = "test") -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """The queries of a BEIR folder, compressed or not, and the judgments `qrels/{which}.tsv`."""
    paths = sorted(folder.glob("queries.jsonl*"))
    queries = read_queries(paths[0] if paths else folder / "queries.jsonl")
    return queries, read_qrels(folder / "qrels" / f"{which}.tsv")
