"""Queries that somebody else wrote, each with the id of its passage, from JSON lines or judgments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lemmata.core.archives import open_decompressed, printable
from lemmata.core.errors import InputError
from lemmata.core.files import UTF_16_MARKS, json_object

# in order of preference: an object with `passage` may also have the `id` of the query
PASSAGE_KEYS = ("passage", "passage_id", "id", "_id")
TEXT_KEYS = ("query", "text")
MOST_SHOWN = 5  # keys in a message
NEEDED = 'a query needs one JSON object on a line, with "id", of its passage, and "text"'
NEEDED_OR_TABLE = 'a query needs one JSON object on a line, with "query" and "passage", or a tab-separated FILE.tsv'
ANSWERED = 'give judgments with --qrels, or add "passage"'


class ImportedQuery(NamedTuple):
    """A query as it stood in a file."""

    passage: str  # id
    text: str
    style: str = ""
    place: str = ""  # file and line, or file and id of the query


# ---------------------------------------------------------------- reading


def read_imported(path: Path, keys: Sequence[str] = PASSAGE_KEYS) -> Iterator[ImportedQuery]:
    """Queries from JSON lines, which may be compressed, read lazily.

    An object names its passage (by one of `keys`), the query (`query` or `text`) and optionally a `style`.
    InputError, with the line and what is wrong with it, for anything else.
    """
    if not path.is_file():
        raise InputError("there is no such file", file=str(path))
    with contextlib.closing(open_decompressed(path)) as lines:
        for number, line in enumerate(lines, 1):
            if number == 1 and line.startswith(UTF_16_MARKS):
                raise InputError("the file is UTF-16: save it as UTF-8", file=str(path))
            if not line.strip():
                continue
            try:
                yield _query(json_object(line), f"{path.name}:{number}", keys)
            except (LookupError, ValueError) as error:
                cure = NEEDED if "_id" in keys else ANSWERED if isinstance(error, LookupError) else NEEDED_OR_TABLE
                raise InputError(f"{error.args[0]}; {cure}", file=str(path), line=number) from error


def _query(row: Mapping[str, Any], place: str, keys: Sequence[str]) -> ImportedQuery:
    """LookupError where no key names a passage, ValueError for every other fault, both with the cause."""
    passage_key, text_key = (next((key for key in names if key in row), "") for names in (keys, TEXT_KEYS))
    present = ", ".join(f'"{printable(key)}"' for key in list(row)[:MOST_SHOWN]) or "none"
    if not passage_key:
        raise LookupError(f"names no passage that answers its query (its keys are {present})")
    if not text_key:
        raise ValueError(f'has neither "query" nor "text" (its keys are {present})')
    passage, text, style = row[passage_key], row[text_key], row.get("style") or ""
    if isinstance(passage, bool) or not isinstance(passage, str | int):
        raise ValueError(f'the "{passage_key}" is neither text nor a whole number')
    for key, value in ((text_key, text), ("style", style)):
        if not isinstance(value, str):
            raise ValueError(f'the "{key}" is no text')
    try:
        (text + style).encode()
    except UnicodeEncodeError:
        raise ValueError("has half a surrogate pair, which is no character") from None
    return ImportedQuery(str(passage), text, style, place)


def judged_queries(
    queries: Mapping[str, str], judgments: Mapping[str, Mapping[str, int]], *, file: str
) -> Iterator[ImportedQuery]:
    """Each query with every passage judged above 0; the text is empty where `queries` has none."""
    for query, grades in judgments.items():
        for passage, grade in grades.items():
            if grade > 0:
                yield ImportedQuery(passage, queries.get(query, ""), place=f"{file}: {query}")
