"""Queries written by a language model, several passages to a prompt; whatever can not be used is a skip.

How the model is asked is not known here: a callable takes requests and gives their answers, in order. With
`lemmata.llm.chat.Chat.run` behind it, answers are cached, so that a run which was cut short goes on where it stopped.
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
from lemmata.mine.queries.phrases import word_overlap
from lemmata.mine.queries.styles import STYLES
from lemmata.types import Pair, Passage, Skip

__all__ = ["ModelOptions", "Written", "model_queries", "query_requests", "query_schema", "read_queries"]

Ask = Callable[[Iterable[Request]], Iterable[Answer]]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What a model is asked for."""

    question: bool = True
    keyword: bool = True
    slogan: bool = True
    paraphrase: bool = True
    passages: int = 4  # in one prompt
    characters: int = 1500  # of one passage that the model sees
    shortest: int = 40  # characters of a passage worth asking about
    overlap: float = 0.6  # share of a passage's words that a query may repeat in their order

    SMALLEST: ClassVar = {"passages": 1, "characters": 1, "shortest": 1, "overlap": 0.0}

    def styles(self) -> tuple[str, ...]:
        return tuple(style for style in STYLES if getattr(self, style))


class Written(NamedTuple):
    """What came of one prompt."""

    rows: tuple[int, ...]  # the passages it was about
    pairs: list[Pair]
    skips: list[Skip]
    complete: bool  # answered; otherwise its passages are to be asked about again


_SYSTEM = r"""You write search queries for a library of technical and mathematical passages. Each query is what a \
person would type who does not have the passage before them and would be glad to find it. A query makes sense on its \
own: no "this lemma", no "the passage", no letters that only the passage explains. You answer with one JSON object \
and nothing around it. Inside JSON strings every backslash of LaTeX is written twice: "$\\alpha$".""".replace(
    "\\\n", ""
)

_ABOUT = {
    "question": "a question that the passage answers, ending with a question mark",
    "keyword": "three to seven key words, without small words, as typed into a search box",
    "slogan": "one plain sentence of at most 20 words that says the point of the passage, with few or no formulas",
    "paraphrase": "what the passage says, in one sentence, with other words than its own wherever possible",
}


def query_schema(styles: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of an answer: for each passage its number and one text per style."""
    text = {"type": "string", "minLength": 1, "maxLength": 400}
    properties: dict[str, Any] = {"passage": {"type": "integer"}, **dict.fromkeys(styles, text)}
    item = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"queries": {"type": "array", "items": item}},
        "required": ["queries"],
        "additionalProperties": False,
    }


def _request(passages: Sequence[Passage], options: ModelOptions) -> Request:
    styles = options.styles()
    shown = []
    for number, passage in enumerate(passages, 1):
        text = passage.text if len(passage.text) <= options.characters else passage.text[: options.characters] + " …"
        shown.append(f"[{number}] {passage.kind}{f' ({passage.title})' if passage.title else ''}: {text}")
    wanted = "\n".join(f'- "{style}": {_ABOUT[style]}' for style in styles)
    user = (
        "\n\n".join(shown)
        + '\n\nFor each passage write one entry of the list "queries", with "passage" (its number in brackets) and\n'
        + wanted
        + "\nWrite in the language of the passage. Do not copy a whole sentence of it."
    )
    return Request(_SYSTEM, user, query_schema(styles), "queries")


def _batches(material: Material, options: ModelOptions, done: frozenset[int]) -> Iterator[list[tuple[int, Passage]]]:
    chosen = (
        (row, passage)
        for row, passage in material.all_passages()
        if row not in done and len(passage.text.strip()) >= options.shortest
    )
    while batch := list(islice(chosen, options.passages)):
        yield batch


def query_requests(material: Material, options: ModelOptions | None = None) -> Iterator[Request]:
    """What would be asked, for a preview of its cost."""
    options = options or ModelOptions()
    for batch in _batches(material, options, frozenset()):
        yield _request([passage for _, passage in batch], options)


def model_queries(
    material: Material, ask: Ask, options: ModelOptions | None = None, *, done: Iterable[int] = ()
) -> Iterator[Written]:
    """What a model writes, prompt by prompt in the order of the rows, as soon as each answer is there.

    `ask` takes requests lazily and gives one answer for each, in order. Rows in `done` are not asked about.
    """
    options = options or ModelOptions()
    waiting: deque[list[tuple[int, Passage]]] = deque()

    def requests() -> Iterator[Request]:
        for batch in _batches(material, options, frozenset(done)):
            waiting.append(batch)
            yield _request([passage for _, passage in batch], options)

    for answer in ask(requests()):
        batch = waiting.popleft()
        rows = tuple(row for row, _ in batch)
        if answer.error:
            skips = [
                Skip(p.file or p.document, p.first_line, f"{p.id} has no queries: {answer.error}") for _, p in batch
            ]
            yield Written(rows, [], skips, complete=False)
        else:
            yield Written(rows, *read_queries(answer.value, batch, options), complete=True)
    if waiting:
        raise LemmataError(f"the model's answers end before {waiting[0][0][1].id} is answered")


_POINTS_BACK = re.compile(
    r"\b(?:this|the (?:above|following|given|present)) (?:passage|lemma|theorem|statement|text|proposition|definition|"
    r"result|corollary|remark|example)\b|\bthe passage\b|\bthe (?:lemma|statement) (?:say|state|above)",
    re.IGNORECASE,
)


def read_queries(
    value: Any, batch: Sequence[tuple[int, Passage]], options: ModelOptions
) -> tuple[list[Pair], list[Skip]]:
    """The queries of an answer that can be used, in the order of the passages and styles; all else as skips."""
    pairs: list[Pair] = []
    skips: list[Skip] = []
    entries = value.get("queries") if isinstance(value, Mapping) else None
    by_number: dict[int, Mapping[str, Any]] = {}
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and isinstance(entry.get("passage"), int):
            by_number.setdefault(entry["passage"], entry)
    for number, (row, passage) in enumerate(batch, 1):

        def skip(cause: str, passage: Passage = passage) -> None:
            skips.append(Skip(passage.file or passage.document, passage.first_line, f"{passage.id}: {cause}"))

        if number not in by_number:
            skip("the answer has no entry for it")
            continue
        seen: set[str] = set()
        for style in options.styles():
            text = by_number[number].get(style)
            text = " ".join(text.split()) if isinstance(text, str) else ""
            if cause := _fault(text, passage, options.overlap):
                skip(f"its {style} {cause}")
            elif text.casefold() not in seen:
                seen.add(text.casefold())
                pairs.append(Pair(text, row, "queries", style, "model"))
    return pairs, skips


def _fault(text: str, passage: Passage, most: float) -> str:
    """What is wrong with a query, as the end of a sentence; "" for nothing."""
    if len(re.findall(r"[^\W\d_]{2,}", text)) < 2:
        return f"is no query: {text[:60]!r}"
    if _POINTS_BACK.search(text):
        return f"points to what its reader does not have: {text[:60]!r}"
    if text.count("$") % 2:
        return f"breaks off in a formula: {text[:60]!r}"
    overlap = word_overlap(text, passage.text)
    return f"copies {overlap:.0%} of the passage" if overlap > most else ""
