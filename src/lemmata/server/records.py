"""The JSON records that the command line, REST, MCP and the page share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lemmata.types import Document, Hit, Passage

__all__ = ["bibtex", "document_record", "hit_records", "latex_reference", "neighbour_record", "short_text"]

_SHORT = 200  # characters of an excerpt without a query


def hit_records(
    hits: Iterable[Hit], date_of: Callable[[str], str | None], *, first_rank: int = 1
) -> list[dict[str, Any]]:
    """As `lemmata search --json` prints them; a passage without a date has its document's, by `date_of`."""
    passages = [(hit, hit.passage) for hit in hits if hit.passage]
    return [
        {
            "rank": rank,
            "id": hit.id,
            "score": hit.score,
            "kind": passage.kind,
            "document": passage.document,
            "title": passage.title,
            "text": passage.text,
            "path": [step._asdict() for step in hit.path],
            "file": passage.file,
            "line": passage.first_line or None,
            "last_line": passage.last_line or None,
            "date": passage.date or date_of(passage.document),
            "section": passage.section,
            "location": list(passage.locations),
            "repeats": list(hit.repeats),
        }
        for rank, (hit, passage) in enumerate(passages, first_rank)
    ]


def document_record(document: Document) -> dict[str, Any]:
    """A document without its passages."""
    return {
        "id": document.id,
        "title": document.title,
        "authors": list(document.authors),
        "date": document.date,
        "categories": list(document.categories),
        "kind": document.kind,
    }


def neighbour_record(
    identity: str, kind: str, title: str, relation: str = "", text: str = "", date: str | None = None
) -> dict[str, Any]:
    """A node beside a passage, with the relation between them."""
    return {
        "id": identity,
        "kind": kind,
        "title": title,
        "relation": relation,
        "excerpt": short_text(text),
        "date": date,
    }


def short_text(text: str, length: int = _SHORT) -> str:
    """The start of a text on one line; a formula that would be cut is left out."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    start = line[:length]
    start = start[: start.rindex("$")] if start.count("$") % 2 else start.rpartition(" ")[0] or start
    return f"{start.rstrip()} …"


# ---------------------------------------------------------------- references to copy


def bibtex(document: Document) -> str:
    """An entry for the document of a passage."""
    fields = {
        "title": f"{{{_without_braces(document.title or document.id)}}}",
        "author": " and ".join(map(_without_braces, document.authors)),
        "year": (document.date or "")[:4],
        "note": _without_braces(document.id) if document.title else "",
    }
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    return "\n".join([f"@misc{{{_key(document.id)},", ",\n".join(lines), "}"])


def latex_reference(passage: Passage) -> str:
    """A citation of the passage in its document."""
    if passage.kind in ("chunk", "abstract", "log"):
        place = _without_braces(passage.section)
    else:
        place = passage.kind.capitalize() + (f" ({_without_braces(passage.title)})" if passage.title else "")
    return f"\\cite[{{{place}}}]{{{_key(passage.document)}}}" if place else f"\\cite{{{_key(passage.document)}}}"


def _key(identity: str) -> str:
    return re.sub(r"[^\w:.+/-]", "-", identity)


def _without_braces(text: str) -> str:
    """Text that cannot close the braces around it."""
    return re.sub(r"[{}\\]", "", text) if _unbalanced(text) else text


def _unbalanced(text: str) -> bool:
    depth = 0
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        if depth < 0:
            return True
    return depth != 0
