"""Queries written by a language model, several passages per prompt; unusable texts are dropped.

A callable sends the requests, so this file knows no endpoint. `lemmata.llm.chat.Chat.run` caches answers: a run that
was cut short resumes from the last answer.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from lemmata.errors import LemmataError
from lemmata.llm.chat import Answer, Request
from lemmata.mine.material import Material
from lemmata.mine.queries.wording import parse_styles, word_overlap
from lemmata.types import Pair, Passage

__all__ = ["STYLES", "WrittenOptions", "WrittenQueries", "model_queries", "query_requests", "query_schema"]

Batch = Sequence[tuple[int, Passage]]  # rows with their passages, one prompt
_SHORTEST = 40  # characters of a passage worth a query
_PROMPT_LINES = {
    "question": "a question that the passage answers, ending with a question mark",
    "keyword": "three to seven key words, without small words, as typed into a search box",
    "slogan": "one plain sentence of at most 20 words that says the point of the passage, with few or no formulas",
    "paraphrase": "what the passage says, in one sentence, with other words than its own wherever possible",
}
STYLES = tuple(_PROMPT_LINES)


@dataclass(frozen=True, slots=True)
class WrittenOptions:
    """Queries written by a language model."""

    SMALLEST: ClassVar = {"passages": 1, "characters": 1, "overlap": 0.0}
    styles: str = ",".join(STYLES)  # comma-separated
    passages: int = 4  # per prompt
    characters: int = 1500  # of each passage that the model sees
    overlap: float = 0.6  # share of a passage's words that a query may repeat in their order


class WrittenQueries(NamedTuple):
    """The result of one prompt."""

    pairs: list[Pair]
    unanswered: int = 0  # passages of a prompt that failed; they are asked again in the next run


_SYSTEM = r"""You write search queries for a library of technical and mathematical passages. Each query is what a \
person would type who does not have the passage before them and would be glad to find it. A query makes sense on its \
own: no "this lemma", no "the passage", no letters that only the passage explains. You answer with one JSON object \
and nothing around it. Inside JSON strings every backslash of LaTeX is written twice: "$\\alpha$".""".replace(
    "\\\n", ""
)


def query_schema(styles: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of an answer: for each passage its number and one text per style."""

    def strict(properties: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}

    text = {"type": "string", "minLength": 1, "maxLength": 400}
    entry = strict({"passage": {"type": "integer"}, **dict.fromkeys(styles, text)})
    return strict({"queries": {"type": "array", "items": entry}})


def _request(batch: Batch, options: WrittenOptions) -> Request:
    styles = parse_styles(options.styles, STYLES)
    shown = []
    for number, (_, passage) in enumerate(batch, 1):
        text = passage.text if len(passage.text) <= options.characters else passage.text[: options.characters] + " …"
        shown.append(f"[{number}] {passage.kind}{f' ({passage.title})' if passage.title else ''}: {text}")
    user = (
        "\n\n".join(shown)
        + '\n\nFor each passage write one entry of the list "queries", with "passage" (its number in brackets) and\n'
        + "\n".join(f'- "{style}": {_PROMPT_LINES[style]}' for style in styles)
        + "\nWrite in the language of the passage. Do not copy a whole sentence of it."
    )
    return Request(_SYSTEM, user, query_schema(styles), "queries")


def _batches(material: Material, options: WrittenOptions) -> Iterator[Batch]:
    long_enough = ((row, passage) for row, passage in material.all_passages() if len(passage.text.strip()) >= _SHORTEST)
    while batch := list(islice(long_enough, options.passages)):
        yield batch


def query_requests(material: Material, options: WrittenOptions) -> Iterator[Request]:
    """All requests of a run, for a preview of its cost."""
    return (_request(batch, options) for batch in _batches(material, options))


def model_queries(
    material: Material, send: Callable[[Iterable[Request]], Iterable[Answer]], options: WrittenOptions
) -> Iterator[WrittenQueries]:
    """The queries of each prompt in row order, as soon as its answer arrives.

    `send` takes requests lazily and yields one answer for each, in order.
    """
    sent: deque[Batch] = deque()

    def requests() -> Iterator[Request]:
        for batch in _batches(material, options):
            sent.append(batch)
            yield _request(batch, options)

    for answer in send(requests()):
        batch = sent.popleft()
        if answer.error:
            yield WrittenQueries([], unanswered=len(batch))
        else:
            yield WrittenQueries(_read_answer(answer.value, batch, options))
    if sent:
        raise LemmataError(f"the model's answers end before {sent[0][0][1].id} is answered")


def _read_answer(value: Any, batch: Batch, options: WrittenOptions) -> list[Pair]:
    """The usable queries of an answer, by passage and style."""
    pairs: list[Pair] = []
    entries = value.get("queries") if isinstance(value, Mapping) else None
    by_number: dict[int, Mapping[str, Any]] = {}
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and isinstance(entry.get("passage"), int):
            by_number.setdefault(entry["passage"], entry)
    for number, (row, passage) in enumerate(batch, 1):
        queries: dict[str, Pair] = {}
        for style in parse_styles(options.styles, STYLES):
            text = by_number.get(number, {}).get(style)
            text = " ".join(text.split()) if isinstance(text, str) else ""
            if _usable(text, passage, options.overlap):
                queries.setdefault(text.casefold(), Pair(text, row, "queries", style, "model"))
        pairs += queries.values()
    return pairs


_REFERS_TO_PASSAGE = re.compile(
    r"\b(?:this|the (?:above|following|given|present)) (?:passage|lemma|theorem|statement|text|proposition|definition|"
    r"result|corollary|remark|example)\b|\bthe passage\b|\bthe (?:lemma|statement) (?:say|state|above)",
    re.IGNORECASE,
)


def _usable(text: str, passage: Passage, most_overlap: float) -> bool:
    """Whether a query has two words, does not point at the passage or copy it, and ends outside a formula."""
    return (
        len(re.findall(r"[^\W\d_]{2,}", text)) >= 2
        and not _REFERS_TO_PASSAGE.search(text)
        and text.count("$") % 2 == 0
        and word_overlap(text, passage.text) <= most_overlap
    )
