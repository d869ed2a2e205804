"""Concepts and relations of a document by a language model, with the passage that says so.

How the model is asked is not known here: a callable takes prompts and gives their answers, in order.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from lemmata.errors import ConfigError, LemmataError
from lemmata.types import Concept, Document, Edge, Passage, Skip
from lemmata.words import fold, singular, slug

__all__ = [
    "KINDS",
    "RELATIONS",
    "SCHEMA",
    "Extraction",
    "Prompt",
    "Reply",
    "choose_chunks",
    "extract",
    "extraction_requests",
    "read_extraction",
]

KINDS = ("object", "theorem", "definition", "technique", "formula", "identity", "conjecture", "person")
RELATIONS = (
    "generalizes",
    "is_instance_of",
    "uses",
    "implies",
    "proves",
    "defines",
    "equivalent_to",
    "related_to",
)

_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_CONCEPT = {
    "name": _NAME,
    "kind": {"type": "string", "enum": list(KINDS)},
    "description": {"type": "string", "maxLength": 1000},
    "aliases": {"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 10},
}
_RELATION = {
    "source": _NAME,
    "relation": {"type": "string", "enum": list(RELATIONS)},
    "target": _NAME,
    "quote": {"type": "string", "minLength": 1, "maxLength": 1000},
}


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCHEMA: Mapping[str, Any] = _closed(
    {
        "concepts": {"type": "array", "items": _closed(_CONCEPT)},
        "relations": {"type": "array", "items": _closed(_RELATION)},
    }
)

_SYSTEM = r"""You build a knowledge graph of technical and mathematical writing. You read passages of one document and \
list the concepts they speak about and how these are related. You use only what the passages say, never what you \
know from elsewhere. You answer with one JSON object and nothing around it. Inside JSON strings every backslash of \
LaTeX is written twice: "$\\alpha$".""".replace("\\\n", "")

_INSTRUCTION = """Document: {title}

{passages}

List the concepts and relations of these passages as a JSON object with two lists.

"concepts": what a reader would look up in an index, at most 15, the important ones first. Each has
- "name": as short as the passages write it, singular, without an article ("Bailey pair", not "the Bailey pairs");
- "kind": object (a mathematical or technical thing), theorem (a proved statement with a name), definition (a notion \
introduced here), technique (a way to prove or compute), formula (one expression), identity (an equation that always \
holds), conjecture (not proved), person;
- "description": one sentence that makes sense without the document;
- "aliases": other names and abbreviations that stand in the passages, or an empty list.

"relations": each has "source" and "target" (names from your list of concepts), "relation" and "quote".
The relation reads from source to target and is one of
- generalizes: the source contains the target as a special case
- is_instance_of: the source is an example of the target
- uses: the source is built or proved with the target
- implies: from the source follows the target
- proves: the source, a technique or statement, proves the target
- defines: the source introduces the target
- equivalent_to: each follows from the other, or both are the same
- related_to: the passages connect them in another way
"quote" is copied word for word from one passage: the 5 to 30 words that show the relation. Leave out a relation \
that no words show."""


class Prompt(NamedTuple):
    """One question for a model, with the schema of its answer and the schema's name."""

    system: str
    user: str
    schema: Mapping[str, Any] | None
    check: str


class Reply(Protocol):
    """An answer: a JSON value, or the sentence that says why there is none."""

    @property
    def value(self) -> Any: ...
    @property
    def error(self) -> str: ...


class Extraction(NamedTuple):
    """What was found in one document."""

    document: str  # id
    concepts: list[Concept]
    edges: list[Edge]
    skips: list[Skip]
    complete: bool  # every prompt was answered; otherwise the document is to be asked again


def choose_chunks(passages: Sequence[Passage], mode: str = "ends", first: int = 2, last: int = 2) -> Sequence[Passage]:
    """Passages of one document that stand for it: its first and last ones, or all; empty ones never."""
    if mode not in ("ends", "all"):
        raise ConfigError(f"chunks are chosen by ends or all, not {mode!r}")
    filled = [passage for passage in passages if passage.text.strip()]
    if mode == "all" or len(filled) <= first + last:
        return filled
    return filled[:first] + filled[len(filled) - last :]


def extraction_requests(
    documents: Iterable[tuple[Document, Sequence[Passage]]],
    *,
    mode: str = "ends",
    first: int = 2,
    last: int = 2,
    characters: int = 12_000,
) -> Iterator[tuple[str, Prompt]]:
    """Document ids and prompts, in order; a document whose chosen passages exceed `characters` gets several."""
    for document, passages in documents:
        chosen = choose_chunks(passages, mode, first, last)
        for prompt in _prompts(document, chosen, mode, characters):
            yield document.id, prompt


def _prompts(document: Document, passages: Sequence[Passage], mode: str, characters: int) -> list[Prompt]:
    pieces = []
    for number, passage in enumerate(passages, start=1):
        head = f"[{number}] {passage.kind}{f' ({passage.title})' if passage.title else ''}"
        end = len(passage.text) if mode == "all" else characters  # of a very long one, its beginning stands for it
        pieces += [f"{head}: {passage.text[at : at + characters].strip()}" for at in range(0, end, characters)]
    batches: list[list[str]] = []
    room = 0
    for piece in pieces:
        if not batches or len(piece) > room:
            batches.append([])
            room = characters
        batches[-1].append(piece)
        room -= len(piece)
    title = document.title or document.id
    users = (_INSTRUCTION.replace("{title}", title, 1).replace("{passages}", "\n\n".join(b), 1) for b in batches)
    return [Prompt(_SYSTEM, user, SCHEMA, "extraction") for user in users]


def extract(
    documents: Iterable[tuple[Document, Sequence[Passage]]],
    ask: Callable[[Iterable[Prompt]], Iterator[Reply]],
    *,
    done: Collection[str] = (),
    mode: str = "ends",
    first: int = 2,
    last: int = 2,
    characters: int = 12_000,
    maker: str = "llm",
) -> Iterator[Extraction]:
    """One extraction per document, in order, as soon as its last answer is there.

    `ask` takes prompts lazily and gives one reply for each, in order. Documents whose id is in `done` are
    left out, which is how a run that was cut short goes on. A document with an unanswered prompt comes back
    with what the other prompts gave, its causes as skips, and `complete` False.
    """
    waiting: deque[tuple[Document, Sequence[Passage], int]] = deque()  # with the number of prompts

    def prompts() -> Iterator[Prompt]:
        for document, passages in documents:
            if document.id in done:
                continue
            asked = _prompts(document, choose_chunks(passages, mode, first, last), mode, characters)
            waiting.append((document, passages, len(asked)))
            yield from asked

    replies: list[Reply] = []
    for reply in ask(prompts()):
        while not waiting[0][2]:
            yield _gather(*waiting.popleft()[:2], [], maker)
        replies.append(reply)
        if len(replies) == waiting[0][2]:
            yield _gather(*waiting.popleft()[:2], replies, maker)
            replies = []
    if replies or any(count for _, _, count in waiting):
        raise LemmataError(f"the model's answers end before {waiting[0][0].id} is answered")
    for document, passages, _ in waiting:
        yield _gather(document, passages, [], maker)


def _gather(document: Document, passages: Sequence[Passage], replies: Sequence[Reply], maker: str) -> Extraction:
    file = document.file or document.id
    skips = [] if replies else [Skip(file, 0, f"{document.id} has no text to ask about")]
    values = []
    for reply in replies:
        if reply.error:
            skips.append(Skip(file, 0, f"{document.id} was not extracted: {reply.error}"))
        else:
            values.append(reply.value)
    merged: dict[str, list[Any]] = {"concepts": [], "relations": []}
    for value in values:
        if not isinstance(value, Mapping) or not all(isinstance(value.get(name), list) for name in merged):
            skips.append(Skip(file, 0, f"{document.id}: the answer has no lists of concepts and relations"))
            continue
        for name, items in merged.items():
            items += value[name]
    concepts, edges, more = read_extraction(merged, document, passages, maker=maker)
    return Extraction(document.id, concepts, edges, skips + more, len(values) == len(replies))


def read_extraction(
    value: Any, document: Document, passages: Sequence[Passage], *, maker: str = "llm"
) -> tuple[list[Concept], list[Edge], list[Skip]]:
    """Concepts, relations and mentions of an answer that the text bears out; everything else as skips.

    A concept stays if one of its names stands in a passage, or all words of its name in one passage. A
    relation stays if its quote stands in a passage, which becomes its evidence. Equal names are one concept.
    """
    file = document.file or document.id
    skips: list[Skip] = []

    def skip(cause: str) -> None:
        skips.append(Skip(file, 0, f"{document.id}: {cause}"))

    if not isinstance(value, Mapping):
        skip("the answer is not an object with concepts and relations")
        return [], [], skips
    texts = {passage.id: _Text(f"{passage.title} {passage.text} {passage.proof}") for passage in passages}
    concepts: dict[str, Concept] = {}
    mentions: dict[tuple[str, str], None] = {}
    by_name: dict[str, str] = {}  # key of a concept's own name: id
    by_alias: dict[str, str] = {}

    def add(concept: Concept) -> bool:
        found = _mentions(concept, texts)
        if not found:
            return False
        own = by_name.setdefault(_key(concept.name), concept.id)  # of `Bailey lemma` and `Bailey's lemma`, the first
        known = concepts.get(own)
        concepts[own] = concept if known is None else _united(known, concept)
        mentions.update(dict.fromkeys((passage, own) for passage in found))
        for alias in concept.aliases:
            by_alias.setdefault(_key(alias), own)
        return True

    def find(name: str) -> str:
        """The id of a concept, made of its name where only the text has it; "" for none."""
        key = _key(name)
        if key and key not in by_name and key not in by_alias:
            add(Concept(f"concept:{slug(name)}", name))
        return by_name.get(key) or by_alias.get(key, "")

    for item in _items(value, "concepts", skip):
        name, kind = _text(item, "name"), _text(item, "kind")
        if not _key(name):
            skip(f"a concept without a name: {str(item)[:80]}")
        elif kind not in KINDS:
            skip(f"{name!r} has the unknown kind {kind!r}")
        else:
            aliases = item.get("aliases")
            others = [alias.strip() for alias in aliases if isinstance(alias, str)] if isinstance(aliases, list) else []
            distinct = tuple(alias for alias in dict.fromkeys(others) if _key(alias) and alias != name)
            if not add(Concept(f"concept:{slug(name)}", name, kind, _text(item, "description"), distinct)):
                skip(f"the concept {name!r} does not occur in the text")

    edges: dict[tuple[str, str, str], Edge] = {}
    for item in _items(value, "relations", skip):
        ends = (_text(item, "source"), _text(item, "target"))
        relation, quote = _text(item, "relation"), _text(item, "quote")
        told = f"{ends[0]!r} {relation} {ends[1]!r}"
        evidence = _find_quote(quote, texts)
        if relation not in RELATIONS:
            skip(f"{told}: an unknown relation")
            continue
        if not evidence:
            skip(f"{told}: its quote stands in no passage: {quote[:80]!r}")
            continue
        source, target = (find(name) for name in ends)
        if not (source and target):
            skip(f"{told}: {ends[bool(source)]!r} is no concept of the text")
            continue
        if source == target:
            skip(f"{told}: both ends are the same concept")
            continue
        edges.setdefault((source, relation, target), Edge(source, relation, target, evidence, maker))
    mentioned = [Edge(passage, "mentions", concept, passage, maker) for passage, concept in mentions]
    return list(concepts.values()), list(edges.values()) + mentioned, skips


def _items(value: Mapping[str, Any], name: str, skip: Callable[[str], None]) -> Iterator[Mapping[str, Any]]:
    items = value.get(name)
    if not isinstance(items, list):
        skip(f"the answer has no list of {name}")
        return
    for item in items:
        if isinstance(item, Mapping):
            yield item
        else:
            skip(f"one of the {name} is not an object: {str(item)[:80]}")


def _text(item: Mapping[str, Any], name: str) -> str:
    text = item.get(name)
    return " ".join(text.split()) if isinstance(text, str) else ""


def _united(known: Concept, other: Concept) -> Concept:
    names = dict.fromkeys((*known.aliases, other.name, *other.aliases))
    names.pop(known.name, None)
    return Concept(known.id, known.name, known.kind, known.description or other.description, tuple(names))


# ---------------------------------------------------------------- finding words in passages


class _Text:
    """A passage as words, so that case, accents, dollars, hyphens and line ends do not matter."""

    def __init__(self, text: str) -> None:
        self.words = _words(text)
        self.line = f" {' '.join(self.words)} "
        self.stems = {singular(word) for word in self.words}
        self.stemmed = f" {' '.join(singular(word) for word in self.words)} "
        self.triples = set(zip(self.words, self.words[1:], self.words[2:], strict=False))


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", re.sub(r"'s\b", "", fold(text.replace("’", "'"))))


def _key(name: str) -> str:
    return " ".join(singular(word) for word in _words(name))


def _mentions(concept: Concept, texts: Mapping[str, _Text]) -> list[str]:
    """Passages in which a name stands, in singular or plural; else the first with all words of the name."""
    lines = [f" {_key(name)} " for name in (concept.name, *concept.aliases)]
    found = [passage for passage, text in texts.items() if any(line in text.stemmed for line in lines)]
    if found:
        return found
    stems = {singular(word) for word in _words(concept.name)}
    return [passage for passage, text in texts.items() if stems <= text.stems][:1]


def _find_quote(quote: str, texts: Mapping[str, _Text]) -> str:
    """The passage that has the quote word for word, else the one that has most of it; "" for none."""
    words = _words(quote)
    if not words:
        return ""
    line = f" {' '.join(words)} "
    for passage, text in texts.items():
        if line in text.line:
            return passage
    triples = set(zip(words, words[1:], words[2:], strict=False))
    if not triples:
        return ""
    shares = {passage: len(triples & text.triples) / len(triples) for passage, text in texts.items()}
    best = max(shares, key=shares.__getitem__, default="")
    return best if best and shares[best] >= 0.7 else ""
