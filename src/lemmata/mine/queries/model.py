"""Queries written by a language model, several passages per prompt; unusable texts are dropped.

Passages that an answer leaves out are asked for again, in a smaller prompt. A callable sends the requests, so this file
knows no endpoint. `lemmata.llm.chat.Chat.run` caches answers: a run that was cut short resumes from the last answer.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
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
    dropped: int = 0  # entries and texts that do not fit, or are about none of the passages
    cause: str = ""  # why passages are unanswered: what is wrong with the answer, an error, or "budget"


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
    check = partial(_complaint, len(batch), styles)
    return Request(_SYSTEM, user, query_schema(styles), "queries", dict.fromkeys(styles, ""), check)


def _batches(material: Material, options: WrittenOptions) -> Iterator[Batch]:
    long_enough = ((row, passage) for row, passage in material.all_passages() if len(passage.text.strip()) >= _SHORTEST)
    while batch := list(islice(long_enough, options.passages)):
        yield batch


def _batches_again(material: Material, groups: Sequence[Sequence[int]]) -> Iterator[Batch]:
    """A batch for each group of rows."""
    group_of = {row: number for number, group in enumerate(groups) for row in group}
    for _, batch in groupby(material.read(list(group_of)), lambda item: group_of[item[0]]):
        yield list(batch)


def query_requests(material: Material, options: WrittenOptions) -> Iterator[Request]:
    """All requests of a run without those that ask again, for a preview of its cost."""
    return (_request(batch, options) for batch in _batches(material, options))


def model_queries(
    material: Material, send: Callable[[Iterable[Request]], Iterable[Answer]], options: WrittenOptions
) -> Iterator[WrittenQueries]:
    """The queries of each prompt, as soon as its answer arrives: all in row order, then those that were asked again.

    `send` takes requests lazily and yields one answer for each, in order. An answer is about one passage at least, so
    that every round asks for fewer.
    """
    batches = _batches(material, options)
    while True:
        left_out: list[list[int]] = []  # rows by prompt
        for batch, answer in _answers(batches, send, options):
            if answer.error:
                yield WrittenQueries([], unanswered=len(batch), cause=answer.complaint or answer.error)
                continue
            entries = _entries_by_number(answer.value, len(batch), parse_styles(options.styles, STYLES))
            dropped = len(answer.notes) + len(answer.value["queries"]) - len(entries)
            if len(entries) < len(batch):
                left_out.append([row for number, (row, _) in enumerate(batch, 1) if number not in entries])
            yield WrittenQueries(_pairs(entries, batch, options), dropped=dropped)
        if not left_out:
            return
        batches = _batches_again(material, left_out)


def _answers(
    batches: Iterable[Batch], send: Callable[[Iterable[Request]], Iterable[Answer]], options: WrittenOptions
) -> Iterator[tuple[Batch, Answer]]:
    sent: deque[Batch] = deque()

    def requests() -> Iterator[Request]:
        for batch in batches:
            sent.append(batch)
            yield _request(batch, options)

    for answer in send(requests()):
        yield sent.popleft(), answer
    if sent:
        raise LemmataError(f"the model's answers end before {sent[0][0][1].id} is answered")


def _complaint(passages: int, styles: Sequence[str], value: Mapping[str, Any]) -> str:
    """What is wrong with an answer that is about none of the passages."""
    if _entries_by_number(value, passages, styles):
        return ""
    return f'no entry of "queries" has a text and the number of a passage, 1 to {passages}, as "passage"'


def _entries_by_number(value: Mapping[str, Any], passages: int, styles: Sequence[str]) -> dict[int, Mapping[str, Any]]:
    """The first entry with a text for each passage that the answer is about."""
    entries = [entry for entry in value["queries"] if any(entry[style] for style in styles)]
    if passages == len(entries) == 1:
        return {1: entries[0]}  # whatever number it has
    by_number: dict[int, Mapping[str, Any]] = {}
    for entry in entries:
        if 1 <= entry["passage"] <= passages:
            by_number.setdefault(entry["passage"], entry)
    return by_number


def _pairs(entries: Mapping[int, Mapping[str, Any]], batch: Batch, options: WrittenOptions) -> list[Pair]:
    """The usable queries of an answer, by passage and style."""
    pairs: list[Pair] = []
    for number, (row, passage) in enumerate(batch, 1):
        queries: dict[str, Pair] = {}
        for style in parse_styles(options.styles, STYLES):
            text = " ".join(entries[number][style].split()) if number in entries else ""
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
