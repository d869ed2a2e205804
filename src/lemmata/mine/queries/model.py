"""Queries written by a language model, about one passage per prompt; unusable texts are dropped.

A callable sends the requests, so this file knows no endpoint. `lemmata.llm.chat.Chat.run` caches answers: a run that
was cut short resumes from the last answer.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from lemmata.core.errors import ConfigError, LemmataError, suggest
from lemmata.core.types import Pair, Passage
from lemmata.llm.answers import to_json_text
from lemmata.llm.chat import Answer, Request
from lemmata.mine.material import TrainingView
from lemmata.mine.queries.wording import OVERLAP, word_overlap

_SHORTEST = 40  # characters of a passage worth a query
_LONGEST = 1500  # characters of a passage that the model sees
_AROUND = 300  # characters of each text around the passage
_LOOK_BACK = 12  # passages of the same section that may define its symbols
_MOST = 2  # definitions, and references
_DEFINING = ("definition", "notation", "situation", "convention", "construction")
_PROMPT_LINES = {
    "question": "a question that the passage answers, ending with a question mark",
    "keyword": "three to seven key words as typed into a search box, without small words",
    "slogan": "one plain sentence of at most 20 words that says the point of the passage, without formulas",
    "paraphrase": "one sentence that says what the passage says, with other words than its own",
}
STYLES = tuple(_PROMPT_LINES)


@dataclass(frozen=True, slots=True)
class WrittenOptions:
    """Queries written by a language model."""

    styles: str = "question,keyword,slogan"  # comma-separated; a small model's paraphrase is its slogan again
    context: bool = False  # also show section, definitions, neighbours and references, at twice the tokens


class WrittenQueries(NamedTuple):
    """The result of one prompt."""

    pairs: list[Pair]
    unanswered: bool = False  # the prompt failed; it is asked again in the next run
    dropped: Mapping[str, int] = {}  # by reason: texts that do not fit, and those that are no good query
    cause: str = ""  # why it is unanswered: what is wrong with the answer, an error, or "budget"


# Everything that is the same for all passages stands first, so that a server reads it once and reuses it.
_SYSTEM = """You write search queries for a library of technical and mathematical texts. You read one passage and \
write what a person would type who does not have the text at hand and wants to find it.

Answer with one JSON object with these fields, each a text:
{styles}

Rules:
- Say it in your own words. Do not copy a sentence.
- Name the things. Never write "this lemma", "the passage", "the given set", or a letter that only the passage explains.
- Write in the language of the passage: English for an English passage, German for a German one.
{context}\
- Answer with the JSON object only. Every backslash inside it is doubled: "$\\\\alpha$".

{examples}""".replace("\\\n", "")
_CONTEXT = (
    "- Before a passage may stand where it is from and what is near it. Use it to understand what the passage is for,"
    " and write about the passage alone.\n"
)
# Passages and their answers, so that a small model sees that logs are asked about too, each in its own language.
_EXAMPLES = (
    (
        "theorem (Lagrange): Let $H$ be a subgroup of a finite group $G$. Then $|H|$ divides $|G|$.",
        {
            "question": "How is the size of a finite group related to the sizes of its subgroups?",
            "keyword": "order of subgroup, divisibility, finite group",
            "slogan": "The order of a finite group is a multiple of the order of each subgroup.",
            "paraphrase": "The number of elements of a subgroup is a factor of that of the whole finite group.",
        },
    ),
    (
        "log: Lüfter V12 laut, Keilriemen locker. Nachgespannt, läuft wieder ruhig.",
        {
            "question": "Was tun, wenn ein Ventilator starke Geräusche macht?",
            "keyword": "Ventilator Geräusch Riemenspannung",
            "slogan": "Ein schlaffer Riemen machte den Ventilator V12 laut.",
            "paraphrase": "Nach dem Spannen seines Antriebsriemens war der Ventilator wieder leise.",
        },
    ),
    (
        "log: Valve 7 on tank B3 leaking again, packing worn, spare ordered.",
        {
            "question": "Why does a valve at tank B3 drip?",
            "keyword": "tank B3 valve leak worn packing",
            "slogan": "A worn seal made a valve of tank B3 leak.",
            "paraphrase": "Someone ordered a new part because liquid came out of the seventh valve.",
        },
    ),
)


def _styles_of(options: WrittenOptions) -> tuple[str, ...]:
    chosen = {name.strip() for name in options.styles.split(",") if name.strip()}
    for name in sorted(chosen.difference(STYLES)):
        raise ConfigError(f"there is no query style {name!r}{suggest(name, STYLES)}")
    return tuple(style for style in STYLES if style in chosen)


def query_schema(styles: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of an answer: one text per style."""
    texts = {style: {"type": "string", "minLength": 1, "maxLength": 400} for style in styles}
    return {"type": "object", "properties": texts, "required": [*texts], "additionalProperties": False}


def query_prompt(options: WrittenOptions) -> str:
    """What the model is told before it reads a passage."""
    styles = _styles_of(options)
    examples = (
        f"Example: {passage}\n{to_json_text({style: answer[style] for style in styles})}"
        for passage, answer in _EXAMPLES
    )
    fields = {
        "styles": "\n".join(f'- "{style}": {_PROMPT_LINES[style]}' for style in styles),
        "context": _CONTEXT if options.context else "",
        "examples": "\n".join(examples),
    }
    return re.sub(r"\{(\w+)\}", lambda field: fields[field[1]], _SYSTEM)


def _request(view: TrainingView, row: int, passage: Passage, options: WrittenOptions) -> Request:
    styles = _styles_of(options)
    text = passage.text if len(passage.text) <= _LONGEST else passage.text[:_LONGEST] + " …"
    around = _surroundings(view, row, passage) + "\n" if options.context else ""
    title = f" ({passage.title})" if passage.title else ""
    shown = f"{around.lstrip()}{passage.kind}{title}: {text}"
    check = partial(_complaint, styles)
    return Request(query_prompt(options), shown, query_schema(styles), "queries", dict.fromkeys(styles, ""), check)


def _complaint(styles: Sequence[str], value: Mapping[str, Any]) -> str:
    """What is wrong with an answer without any text."""
    return "" if any(value.get(style) for style in STYLES) else f"none of {', '.join(styles)} has a text"


def _long_enough(view: TrainingView) -> Iterator[tuple[int, Passage]]:
    return ((row, passage) for row, passage in view.all_passages() if len(passage.text.strip()) >= _SHORTEST)


def query_requests(view: TrainingView, options: WrittenOptions) -> Iterator[Request]:
    """All requests of a run, for a preview of its cost."""
    return (_request(view, row, passage, options) for row, passage in _long_enough(view))


def model_queries(
    view: TrainingView, send: Callable[[Iterable[Request]], Iterable[Answer]], options: WrittenOptions
) -> Iterator[WrittenQueries]:
    """The queries for each passage in row order, as soon as its answer arrives.

    `send` takes requests lazily and yields one answer for each, in order.
    """
    sent: deque[tuple[int, Passage]] = deque()

    def requests() -> Iterator[Request]:
        for row, passage in _long_enough(view):
            sent.append((row, passage))
            yield _request(view, row, passage, options)

    for answer in send(requests()):
        row, passage = sent.popleft()
        if answer.error:
            yield WrittenQueries([], unanswered=True, cause=answer.complaint or answer.error)
            continue
        dropped = Counter({"does not fit the schema": len(answer.notes)} if answer.notes else {})
        pairs, missing = _pairs(answer.value, row, passage, options, dropped)
        # a text that does not fit is a note already, and empty in its entry
        missing -= sum(note.endswith(" is used") for note in answer.notes)
        if missing > 0:
            dropped["the answer breaks off before it" if answer.truncated else "is missing in the answer"] = missing
        yield WrittenQueries(pairs, dropped=dropped)
    if sent:
        raise LemmataError(f"the model's answers end before {sent[0][1].id} is answered")


def _pairs(
    texts: Mapping[str, str], row: int, passage: Passage, options: WrittenOptions, dropped: Counter[str]
) -> tuple[list[Pair], int]:
    """The usable queries of an answer, by style, and the number of texts that it lacks.

    The others are counted in `dropped`, by reason.
    """
    queries: dict[str, Pair] = {}
    missing, wanted = 0, _styles_of(options)
    for style in STYLES:
        text = " ".join(texts.get(style, "").split())
        if not text:
            missing += style in wanted
            continue
        fault = "repeats another query" if text.casefold() in queries else _fault(text, passage)
        if fault:
            dropped[fault] += 1
        else:
            queries[text.casefold()] = Pair(text, row, "queries", style, "model")
    return list(queries.values()), missing


_REFERS_TO_PASSAGE = re.compile(
    r"\b(?:this|the (?:above|following|given|present)) (?:passage|lemma|theorem|statement|text|proposition|definition|"
    r"result|corollary|remark|example)\b|\bthe passage\b|\bthe (?:lemma|statement) (?:say|state|above)",
    re.IGNORECASE,
)


def _fault(text: str, passage: Passage) -> str:
    """Why a text is no good query: too short, about the passage and not its subject, or a copy; "" for a good one."""
    if len(re.findall(r"[^\W\d_]{2,}", text)) < 2:
        return "has fewer than two words"
    if _REFERS_TO_PASSAGE.search(text):
        return "speaks of the passage"
    if text.count("$") % 2:
        return "ends inside a formula"
    return "copies the passage" if word_overlap(text, passage.text) > OVERLAP else ""


# ---------------------------------------------------------------- what stands around a passage


def _surroundings(view: TrainingView, row: int, passage: Passage) -> str:
    """A line for the place of a passage, and one for each text around it; all of it is of the passage's own part."""
    document = view.documents.get(passage.document)
    place = ", ".join(filter(None, (document.title if document else "", passage.section)))
    lines = [f"From: {place}"] if place else []
    return "\n".join([*lines, *_texts_around(view, row, passage)])


def _texts_around(view: TrainingView, row: int, passage: Passage) -> Iterator[str]:
    """Definitions before the passage, the passages before and after it, and those that it refers to, each once."""
    own = view.allowed & (view.document_numbers == view.document_numbers[row])  # of the same document and part
    near = range(max(0, row - _LOOK_BACK), min(row + 2, len(own)))
    rows = [other_row for other_row in near if other_row != row and own[other_row]]
    around = dict(zip(rows, view.passages(rows), strict=True))
    defining = [
        other_row
        for other_row, other in around.items()
        if other_row < row and other.section == passage.section and other.kind in _DEFINING
    ]
    targets = [view.row_of.get(link.target or "", row) for link in passage.links]
    used = [target for target in dict.fromkeys(targets) if target != row][:_MOST]
    shown = {row}
    for name, chosen in (
        ("Defined before", defining[-_MOST:]),
        ("Before it", [row - 1]),
        ("After it", [row + 1]),
        ("It refers to", used),
    ):
        for other_row in chosen:
            if other_row in shown or not (other_row in around or other_row in used):
                continue
            shown.add(other_row)
            other = around[other_row] if other_row in around else view.passages([other_row])[0]
            text = other.text if len(other.text) <= _AROUND else other.text[:_AROUND] + " …"
            yield f"{name}: {other.kind}{f' ({other.title})' if other.title else ''}: {' '.join(text.split())}"
