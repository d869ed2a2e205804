"""Queries written by a language model, several passages per prompt; unusable texts are dropped.

Passages that an answer leaves out are asked for again, in a smaller prompt. A callable sends the requests, so this file
knows no endpoint. `lemmata.llm.chat.Chat.run` caches answers: a run that was cut short resumes from the last answer.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from typing import Any, ClassVar, NamedTuple

from lemmata.core.errors import LemmataError
from lemmata.core.types import Pair, Passage
from lemmata.llm.answers import to_json_text
from lemmata.llm.chat import Answer, Request
from lemmata.mine.material import TrainingView
from lemmata.mine.queries.wording import OVERLAP, parse_styles, word_overlap

Batch = Sequence[tuple[int, Passage]]  # rows with their passages, one prompt
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

    SMALLEST: ClassVar = {"passages": 1}
    styles: str = "question,keyword,slogan"  # comma-separated; a small model's paraphrase is its slogan again
    passages: int = 1  # per prompt; small models need one
    context: bool = False  # also show section, definitions, neighbours and references, at twice the tokens


class WrittenQueries(NamedTuple):
    """The result of one prompt."""

    pairs: list[Pair]
    unanswered: int = 0  # passages of a prompt that failed; they are asked again in the next run
    dropped: Mapping[str, int] = {}  # by reason: entries that do not fit, and texts that are no good query
    cause: str = ""  # why passages are unanswered: what is wrong with the answer, an error, or "budget"


# Everything that is the same for all passages stands first, so that a server reads it once and reuses it.
_SYSTEM = """You write search queries for a library of technical and mathematical texts. You read {subject} and write \
what a person would type who does not have the text at hand and wants to find it.

{shape}
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


def query_schema(styles: Sequence[str], passages: int) -> dict[str, Any]:
    """The JSON schema of an answer: one text per style, and for several passages a list of these with their numbers."""

    def strict(properties: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}

    texts = {style: {"type": "string", "minLength": 1, "maxLength": 400} for style in styles}
    if passages == 1:
        return strict(texts)
    entry = strict({"passage": {"type": "integer"}, **texts})
    return strict({"queries": {"type": "array", "items": entry}})


def query_prompt(options: WrittenOptions, passages: int = 0) -> str:
    """What the model is told before it reads passages, by default as many as the options say."""
    styles, passages = parse_styles(options.styles, STYLES), passages or options.passages
    shape = "Answer with one JSON object with these fields, each a text:"
    if passages > 1:
        shape = (
            'Answer with one JSON object with the list "queries". It has one entry for each passage, with the field '
            '"passage" (its number in brackets) and these fields, each a text:'
        )
    answers = [{style: answer[style] for style in styles} for _, answer in _EXAMPLES]
    if passages == 1:
        pairs = zip(_EXAMPLES, answers, strict=True)
        examples = "\n".join(f"Example: {passage}\n{to_json_text(answer)}" for (passage, _), answer in pairs)
    else:
        numbered = "\n".join(f"[{number}] {passage}" for number, (passage, _) in enumerate(_EXAMPLES, 1))
        entries = [{"passage": number, **answer} for number, answer in enumerate(answers, 1)]
        examples = f"Example:\n{numbered}\n{to_json_text({'queries': entries})}"
    fields = {
        "subject": "one passage" if passages == 1 else "several passages",
        "shape": shape,
        "styles": "\n".join(f'- "{style}": {_PROMPT_LINES[style]}' for style in styles),
        "context": _CONTEXT if options.context else "",
        "examples": examples,
    }
    return re.sub(r"\{(\w+)\}", lambda field: fields[field[1]], _SYSTEM)


def _request(view: TrainingView, batch: Batch, options: WrittenOptions) -> Request:
    styles = parse_styles(options.styles, STYLES)
    shown = []
    for number, (row, passage) in enumerate(batch, 1):
        text = passage.text if len(passage.text) <= _LONGEST else passage.text[:_LONGEST] + " …"
        mark = f"[{number}] " if len(batch) > 1 else ""
        around = _surroundings(view, row, passage) + "\n" if options.context else ""
        title = f" ({passage.title})" if passage.title else ""
        shown.append(f"{mark}{around.lstrip()}{passage.kind}{title}: {text}")
    system, schema = query_prompt(options, len(batch)), query_schema(styles, len(batch))
    check = partial(_complaint, len(batch), styles)
    return Request(system, "\n\n".join(shown), schema, "queries", dict.fromkeys(styles, ""), check)


def _batches(view: TrainingView, options: WrittenOptions) -> Iterator[Batch]:
    long_enough = ((row, passage) for row, passage in view.all_passages() if len(passage.text.strip()) >= _SHORTEST)
    while batch := list(islice(long_enough, options.passages)):
        yield batch


def _batches_again(view: TrainingView, groups: Sequence[Sequence[int]]) -> Iterator[Batch]:
    """A batch for each group of rows."""
    group_of = {row: number for number, group in enumerate(groups) for row in group}
    for _, batch in groupby(view.read(list(group_of)), lambda item: group_of[item[0]]):
        yield list(batch)


def query_requests(view: TrainingView, options: WrittenOptions) -> Iterator[Request]:
    """All requests of a run without those that ask again, for a preview of its cost."""
    return (_request(view, batch, options) for batch in _batches(view, options))


def model_queries(
    view: TrainingView, send: Callable[[Iterable[Request]], Iterable[Answer]], options: WrittenOptions
) -> Iterator[WrittenQueries]:
    """The queries of each prompt, as soon as its answer arrives: all in row order, then those that were asked again.

    `send` takes requests lazily and yields one answer for each, in order. An answer is about one passage at least, so
    that every round asks for fewer.
    """
    batches = _batches(view, options)
    while True:
        left_out: list[list[int]] = []  # rows by prompt
        for batch, answer in _answers(view, batches, send, options):
            if answer.error:
                yield WrittenQueries([], unanswered=len(batch), cause=answer.complaint or answer.error)
                continue
            entries, surplus = _entries_by_number(answer.value, len(batch))
            unfit = len(answer.notes) + surplus
            dropped = Counter({"does not fit the schema": unfit} if unfit else {})
            if len(entries) < len(batch):
                left_out.append([row for number, (row, _) in enumerate(batch, 1) if number not in entries])
            pairs, missing = _pairs(entries, batch, options, dropped)
            # a text that does not fit is a note already, and empty in its entry
            missing -= sum(note.endswith(" is used") for note in answer.notes)
            if missing > 0:
                dropped["the answer breaks off before it" if answer.truncated else "is missing in the answer"] = missing
            yield WrittenQueries(pairs, dropped=dropped)
        if not left_out:
            return
        batches = _batches_again(view, left_out)


def _answers(
    view: TrainingView,
    batches: Iterable[Batch],
    send: Callable[[Iterable[Request]], Iterable[Answer]],
    options: WrittenOptions,
) -> Iterator[tuple[Batch, Answer]]:
    sent: deque[Batch] = deque()

    def requests() -> Iterator[Request]:
        for batch in batches:
            sent.append(batch)
            yield _request(view, batch, options)

    for answer in send(requests()):
        yield sent.popleft(), answer
    if sent:
        raise LemmataError(f"the model's answers end before {sent[0][0][1].id} is answered")


def _complaint(passages: int, styles: Sequence[str], value: Mapping[str, Any]) -> str:
    """What is wrong with an answer that is about none of the passages."""
    if _entries_by_number(value, passages)[0]:
        return ""
    if passages == 1:
        return f"none of {', '.join(styles)} has a text"
    return f'no entry of "queries" has a text and the number of a passage, 1 to {passages}, as "passage"'


def _entries_by_number(value: Mapping[str, Any], passages: int) -> tuple[dict[int, Mapping[str, Any]], int]:
    """The first entry with a text for each passage that the answer is about, and how many other entries there are."""
    entries = [value] if passages == 1 else value["queries"]
    by_number: dict[int, Mapping[str, Any]] = {}
    for entry in entries:
        number = entry.get("passage", 1)
        if 1 <= number <= passages and any(entry.get(style) for style in STYLES):
            by_number.setdefault(number, entry)
    return by_number, len(entries) - len(by_number)


def _pairs(
    entries: Mapping[int, Mapping[str, Any]], batch: Batch, options: WrittenOptions, dropped: Counter[str]
) -> tuple[list[Pair], int]:
    """The usable queries of an answer, by passage and style, and the number of texts that its entries lack.

    The others are counted in `dropped`, by reason.
    """
    pairs: list[Pair] = []
    missing, wanted = 0, parse_styles(options.styles, STYLES)
    for number, (row, passage) in enumerate(batch, 1):
        queries: dict[str, Pair] = {}
        for style in STYLES if number in entries else ():
            text = " ".join(entries[number].get(style, "").split())
            if not text:
                missing += style in wanted
                continue
            fault = "repeats another query" if text.casefold() in queries else _fault(text, passage)
            if fault:
                dropped[fault] += 1
            else:
                queries[text.casefold()] = Pair(text, row, "queries", style, "model")
        pairs += queries.values()
    return pairs, missing


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
