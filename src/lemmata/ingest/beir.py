"""Passages from and to JSON lines (a BEIR folder, abstracts, or passages with links); BEIR queries and judgments."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from lemmata.core.archives import open_decompressed, printable
from lemmata.core.errors import InputError
from lemmata.core.files import UTF_16_MARKS, json_object
from lemmata.core.types import Document, Label, Link, Passage, Progress, Reading, Skip
from lemmata.ingest.dates import read_date

_TEXT_KEYS = ("title", "text", "abstract", "kind", "document", "document_title", "date", "created", "section", "proof")
_QUERY_HEADINGS = ("query", "question", "text")  # of a table of queries, in lower case
_PASSAGE_HEADINGS = ("passage", "passage_id", "id", "_id", "corpus-id", "answer")
_MOST_SHOWN = 5  # ids in a message
_PASSAGE_KEYS = frozenset(("_id", "id", "links", "categories", "authors", "metadata", *_TEXT_KEYS))


def read_links(value: Any) -> tuple[Link, ...] | None:
    """`["id", …]`, `[{"target": "id", "relation": "cites"}, …]` or `{"cites": ["id", …]}`; None for anything else.

    A link that has no target may have a `label` instead: what the source calls it.
    """
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        for relation, targets in value.items():
            pairs += [(relation, target) for target in (targets if isinstance(targets, list) else [targets])]
    elif isinstance(value, list):
        items = (item if isinstance(item, Mapping) else {"target": item} for item in value)
        pairs = [(item.get("relation", "refers_to"), item.get("target") or item.get("label", "")) for item in items]
    elif value is not None:
        return None
    texts = [(_as_text(relation), _as_text(target)) for relation, target in pairs]
    if any(relation is None or target is None for relation, target in texts):
        return None
    return tuple(Link(relation, target) for relation, target in texts if relation and target)


def _as_text(value: Any) -> str | None:
    """A text or number as text, nothing as ""; None for other types."""
    if value is None:
        return ""
    return str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _written_id(row: Mapping[str, Any]) -> Any:
    return row.get("_id") if row.get("_id") not in (None, "") else row.get("id")


def _names(value: Any, separator: str) -> tuple[str, ...] | None:
    """A list, or a text of names; None for other types."""
    if isinstance(value, list):
        return tuple(filter(None, (_as_text(name) or "" for name in value)))
    text = _as_text(value)
    return None if text is None else tuple(name.strip() for name in re.split(separator, text) if name.strip())


def read_passages(rows: Iterable[tuple[int, Mapping[str, Any]]], *, file: str, batch: int = 2000) -> Iterator[Reading]:
    """One passage per row, in a document of its own unless the row names its document.

    A row has an id (`id` or `_id`) and a text (`text` or `abstract`) or at least a title, and may have `title`, `kind`,
    `document`, `document_title`, `date` or `created`, `section`, `categories`, `authors`, `links`, `proof` and
    `metadata`; other keys become metadata. A title without a text is the passage's text. A document without a
    `document_title` is called like its first passage. A row without an id or any text is a skip; so is a field of a
    wrong type or an unreadable date, but its passage stays.
    """
    documents: list[Document] = []
    passages: list[Passage] = []
    skips: list[Skip] = []
    seen_documents: set[str] = set()
    for line, row in rows:
        identity = _as_text(_written_id(row))
        if not identity:
            cause = "a row without an id" if identity == "" else "its id is neither text nor number"
            skips.append(Skip(file, line, cause))
            continue
        texts = {key: _as_text(row.get(key)) for key in _TEXT_KEYS}
        lists: dict[str, Any] = {
            "links": read_links(row.get("links")),
            "authors": _names(row.get("authors"), r";|\sand\s"),
            "categories": _names(row.get("categories"), r"\s"),
            "metadata": row.get("metadata") if isinstance(row.get("metadata"), Mapping | None) else None,
        }
        values = texts | lists
        wrong = ", ".join(repr(key) for key in values if values[key] is None and row.get(key) is not None)
        title, text = texts["title"] or "", texts["text"] or texts["abstract"] or ""
        if not text:
            text, title = title, ""  # a title alone is content
        if not text:
            cause = f"{identity!r} has neither text nor title" + (f" (wrong type: {wrong})" if wrong else "")
            skips.append(Skip(file, line, cause))
            continue
        if wrong:
            skips.append(Skip(file, line, f"{identity!r} is kept without {wrong} (wrong type)"))
        metadata = dict(lists["metadata"] or {})
        metadata |= {k: value for k, value in row.items() if k not in _PASSAGE_KEYS and value not in (None, "", [])}
        written_date = texts["date"] or texts["created"] or ""
        date = read_date(written_date)
        if written_date and date is None:
            metadata["date"] = written_date
            skips.append(Skip(file, line, f"{identity!r} is kept without its unclear date {written_date!r}"))
        document = texts["document"] or identity
        default_kind = "abstract" if "abstract" in row and "text" not in row else "passage"
        if document not in seen_documents:
            seen_documents.add(document)
            documents.append(
                Document(
                    document,
                    texts["document_title" if "document_title" in row else "title"] or "",
                    "text",
                    authors=lists["authors"] or (),
                    date=date,
                    categories=lists["categories"] or (),
                    file=file,
                )
            )
        passages.append(
            Passage(
                id=identity,
                document=document,
                kind=texts["kind"] or default_kind,
                text=text,
                title=title,
                section=texts["section"] or "",
                proof=texts["proof"] or "",
                file=file,
                first_line=line,
                last_line=line,
                date=date,
                metadata=metadata,
                links=lists["links"] or (),
            )
        )
        if len(passages) >= batch:
            yield Reading(documents, passages, _own_labels(documents, passages), skips=skips)
            documents, passages, skips = [], [], []
    yield Reading(documents, passages, _own_labels(documents, passages), skips=skips)


def _own_labels(documents: Iterable[Document], passages: Iterable[Passage]) -> list[Label]:
    """The ids as names. A passage that is called like its document is meant, not the document."""
    ids = dict.fromkeys(passage.id for passage in passages)
    ids |= dict.fromkeys(document.id for document in documents)
    return [Label("", identity, identity) for identity in ids]


# ---------------------------------------------------------------- writing


def passage_record(
    passage: Passage, document: Document | None, *, is_id: Callable[[str], bool] = lambda _name: False
) -> dict[str, Any]:
    """A passage as a row that `read_passages` reads; what is empty is left out.

    A link has the id of its target, or its label if that is not in the corpus; a label that is also the id of something
    else (`is_id`) would lead there, so that such a link is left out. A passage without a date has its document's.
    """
    record: dict[str, Any] = {
        "id": passage.id,
        "document": passage.document,
        "document_title": document.title if document else "",
        "kind": passage.kind,
        "title": passage.title,
        "text": passage.text,
        "section": passage.section,
        "proof": passage.proof,
        "date": passage.date or (document.date if document else None),
        "authors": list(document.authors) if document else [],
        "categories": list(document.categories) if document else [],
        "links": [_link_record(link) for link in passage.links if link.target or not is_id(link.label)],
        "metadata": dict(passage.metadata),
    }
    return {key: value for key, value in record.items() if value or key == "document_title"}


def _link_record(link: Link) -> dict[str, str]:
    if link.target is None:
        return {"relation": link.relation, "label": link.label}
    # a table of locations calls them by their own names
    target = link.target.removeprefix("location:") if link.relation == "reports_about" else link.target
    return {"relation": link.relation, "target": target}


def write_beir(
    folder: Path,
    passages: Iterable[Passage],
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    progress: Progress,
    *,
    total: int,
) -> dict[str, int]:
    """Write `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`; returns their counts.

    Texts are without the names of references, as they are indexed. The keys `document` and `kind` are lemmata's own.
    InputError for an id with a tab or line end. Judgments of passages that are not among these are counted.
    """
    (folder / "qrels").mkdir(parents=True)
    written: set[str] = set()
    with (folder / "corpus.jsonl").open("w", encoding="utf-8", newline="\n") as stream:
        for number, passage in enumerate(passages):
            if number % 1000 == 0:
                progress("writing passages", number, total)
            keys = {"document": passage.document, "kind": passage.kind}
            record = {"_id": passage.id, "title": passage.title, "text": passage.bare_text, **keys}
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            written.add(passage.id)
    with (folder / "queries.jsonl").open("w", encoding="utf-8", newline="\n") as stream:
        for query in qrels:
            stream.write(json.dumps({"_id": query, "text": queries[query]}, ensure_ascii=False) + "\n")
    judgments = missing = 0
    with (folder / "qrels" / "test.tsv").open("w", encoding="utf-8", newline="\n") as stream:
        stream.write("query-id\tcorpus-id\tscore\n")
        for query, grades in qrels.items():
            for passage_id, grade in grades.items():
                if len(f"{query}\t{passage_id}\n".splitlines()) > 1 or "\t" in query + passage_id:
                    raise InputError(f"a judgment cannot hold {query!r} and {passage_id!r}: ids are separated by tabs")
                stream.write(f"{query}\t{passage_id}\t{grade}\n")
                judgments += 1
                missing += passage_id not in written
    counts = {"passages": len(written), "queries": len(qrels), "judgments": judgments}
    return counts | ({"missing": missing} if missing else {})


# ---------------------------------------------------------------- queries and judgments


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file, compressed or not, that are not blank, with their numbers."""
    if not path.is_file():
        raise InputError("there is no such file", file=str(path))
    with io.TextIOWrapper(open_decompressed(path), "utf-8-sig", errors="replace") as lines:
        if cast(io.BufferedReader, lines.buffer).peek(2).startswith(UTF_16_MARKS):
            raise InputError("the file is UTF-16: save it as UTF-8", file=str(path))
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def read_queries(path: Path) -> dict[str, str]:
    """Queries by id, from JSON lines with `_id` (or `id`) and `text`; an id that is missing or repeated is an error."""
    queries: dict[str, str] = {}
    for number, line in _lines(path):
        try:
            row = json_object(line)
            missing = '"text"' if "text" not in row else '"_id"' if _written_id(row) in (None, "") else ""
            if missing:
                present = ", ".join(f'"{printable(key)}"' for key in list(row)[:_MOST_SHOWN]) or "none"
                raise ValueError(f"has no {missing} (its keys are {present})")
            identity, text = str(_written_id(row)), str(row["text"])
            (identity + text).encode()  # raises for lone surrogates, which no file can hold
        except ValueError as error:
            is_broken = isinstance(error, UnicodeEncodeError)
            cause = "has half a surrogate pair, which is no character" if is_broken else str(error)
            cure = 'a query needs one JSON object on a line, with "_id" and "text"'
            raise InputError(f"{cause}; {cure}", file=str(path), line=number) from error
        if identity in queries:
            raise InputError(f"the query id {identity!r} occurs twice", file=str(path), line=number)
        queries[identity] = text
    return queries


def check_judgments(
    queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]], *, queries_file: Path, qrels_file: Path
) -> None:
    """InputError where there are no queries or judgments, or judgments of queries that do not exist."""
    for records, what, path in ((queries, "queries", queries_file), (qrels, "judgments", qrels_file)):
        if not records:
            raise InputError(f"there are no {what} in it", file=str(path))
    unknown = [query for query in qrels if query not in queries]
    if unknown:
        shown = ", ".join(map(repr, unknown[:_MOST_SHOWN]))
        more = f" and {len(unknown) - _MOST_SHOWN:,} more" if len(unknown) > _MOST_SHOWN else ""
        number = "1 query" if len(unknown) == 1 else f"{len(unknown):,} queries"
        cause = f"it judges {number} that {queries_file} does not have, with the id {shown}{more}"
        raise InputError(cause, file=str(qrels_file))


def read_table(path: Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Queries and judgments from a table: below a header, lines of a query, a tab and the id of its passage.

    Below a header such as `passage`, `query` the id comes first.
    """
    id_comes_first = False
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        query, _, passage = line.partition("\t")
        if number == 1 and query.strip().lower() in _PASSAGE_HEADINGS and passage.strip().lower() in _QUERY_HEADINGS:
            id_comes_first = True
            continue
        if number == 1 and re.search(r"[\d#@/]", passage):
            cause = f"the first line holds the id {passage.strip()!r}, no names: write 'query', a tab, 'id' above it"
            raise InputError(cause, file=str(path), line=number)
        if number == 1:
            continue
        if not passage.strip():
            raise InputError("a line needs a query and an id, separated by a tab", file=str(path), line=number)
        if id_comes_first:
            query, passage = passage, query
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


def read_corpus(folder: Path) -> Iterator[dict[str, str]]:
    """`id`, `title` and `text` of each passage of a BEIR folder, compressed or not, as they stand there."""
    paths = sorted(folder.glob("corpus.jsonl*"))
    path = paths[0] if paths else folder / "corpus.jsonl"
    for number, line in _lines(path):
        try:
            row = json.loads(line)
            yield {"id": str(row["_id"]), "title": str(row.get("title") or ""), "text": str(row.get("text") or "")}
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            cause = 'a passage needs a JSON object with "_id" and "text"'
            raise InputError(cause, file=str(path), line=number) from error


def read_judged(folder: Path, which: str = "test") -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """The queries of a BEIR folder, compressed or not, and the judgments `qrels/{which}.tsv`."""
    paths = sorted(folder.glob("queries.jsonl*"))
    queries = read_queries(paths[0] if paths else folder / "queries.jsonl")
    return queries, read_qrels(folder / "qrels" / f"{which}.tsv")
