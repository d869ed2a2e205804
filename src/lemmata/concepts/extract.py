"""Concepts and relations of a document by a language model, each with the passage that supports it.

How the model is called is not known here: a callable takes prompts and gives their answers, in order.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from lemmata.concepts.merge import unite
from lemmata.concepts.terms import key_of
from lemmata.errors import LemmataError
from lemmata.types import CONCEPT_KINDS, Concept, Document, Edge, Passage, Skip
from lemmata.words import fold, slug

__all__ = [
    "DEFAULTS",
    "RELATIONS",
    "SCHEMA",
    "SYSTEM",
    "ExtractOptions",
    "Extraction",
    "Reply",
    "extract",
    "extraction_prompts",
    "read_extraction",
    "reason_of",
    "shown_passages",
]

RELATIONS = (
    "generalizes", "is_instance_of", "uses", "implies", "proves", "defines", "equivalent_to", "related_to",
)  # fmt: skip
_LEAST_QUOTED = 0.7  # share of a quote's word triples that must stand in the passage that is its evidence


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """What a language model reads of a document."""

    CHOICES: ClassVar = {"chunks": ("ends", "all")}
    SMALLEST: ClassVar = {"first": 0, "last": 0, "characters": 500}
    chunks: str = "ends"  # the first and last passages of a document, or all
    first: int = 2  # first passages that are shown
    last: int = 2  # last passages that are shown
    characters: int = 4_000  # of one prompt, so that a small model can read it


def _list_of(most: int, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a list of objects that have all of these properties and no others."""
    return {"type": "array", "items": _object_with(**properties), "maxItems": most}


def _object_with(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_MOST_CONCEPTS, _MOST_RELATIONS = 8, 6  # of one prompt; a small model would list more and more
_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
SCHEMA: Mapping[str, Any] = _object_with(
    concepts=_list_of(
        _MOST_CONCEPTS,
        name=_NAME,
        kind={"type": "string", "enum": list(CONCEPT_KINDS)},
        description={"type": "string", "maxLength": 400},
        aliases={"type": "array", "items": {"type": "string", "maxLength": 200}, "maxItems": 10},
    ),
    relations=_list_of(
        _MOST_RELATIONS,
        source=_NAME,
        relation={"type": "string", "enum": list(RELATIONS)},
        target=_NAME,
        quote={"type": "string", "minLength": 1, "maxLength": 400},
    ),
)
_EXAMPLE = """{"concepts": [
{"name": "Lagrange's theorem", "kind": "theorem", "description": "In a finite group the order of each subgroup divides \
the order of the group.", "aliases": []},
{"name": "subgroup", "kind": "object", "description": "A subset of a group that is a group itself.", "aliases": []},
{"name": "group of prime order", "kind": "object", "description": "A group whose number of elements is prime.", \
"aliases": []},
{"name": "cyclic group", "kind": "object", "description": "A group that one element generates.", "aliases": []}],
"relations": [
{"source": "group of prime order", "relation": "is_instance_of", "target": "cyclic group", "quote": "every group of \
prime order is a cyclic group"}]}""".replace("\\\n", "")
DEFAULTS: Mapping[str, Any] = {"kind": "object", "description": "", "aliases": []}  # where the model gives none

# Everything that is the same for all documents stands first, so that a server reads it once and reuses it.
SYSTEM = r"""You build a knowledge graph of technical and mathematical writing. You read passages of one document and \
list the concepts they are about and how these are related. Use only what the passages say.

Answer with one JSON object and nothing around it. Every backslash inside it is doubled: "$\\alpha$". It has two lists.

"concepts": up to {concepts} terms that a reader would look up in an index, the important ones first. Each has
- "name": the words of the passage, in the singular, without an article and without formulas;
- "kind": object (a mathematical or technical thing), theorem (a proved statement with a name), definition (a notion \
introduced here), technique (a way to prove or compute), formula (one expression), identity (an equation that always \
holds), conjecture (not proved), person;
- "description": one sentence that makes sense without the document;
- "aliases": other names of it that stand in the passages, mostly [].

"relations": up to {relations}, between two different concepts of your list. Each has
- "source" and "target": two names from "concepts";
- "relation": read from source to target, one of
  generalizes (the target is a special case of the source), is_instance_of (the source is an example of the target), \
uses (the source is built or proved with the target), implies (the target follows from the source), proves (the source \
proves the target), defines (the source introduces the target), equivalent_to (each follows from the other), \
related_to (connected in another way);
- "quote": 5 to 20 words copied exactly from one passage, which show the relation. No such words, no relation.

Example. Passages:
[1] theorem (Lagrange's theorem): The order of a subgroup of a finite group divides the order of the group. By \
Lagrange's theorem, every group of prime order is a cyclic group.
Answer:
{example}""".replace("\\\n", "")
SYSTEM = SYSTEM.replace("{concepts}", str(_MOST_CONCEPTS)).replace("{relations}", str(_MOST_RELATIONS))
SYSTEM = SYSTEM.replace("{example}", _EXAMPLE)


class Reply(Protocol):
    """An answer: a JSON value that follows `SCHEMA`, or the sentence that says why there is none."""

    @property
    def value(self) -> Any: ...
    @property
    def error(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...  # entries of the answer that were dropped, and replaced texts


class Extraction(NamedTuple):
    """The records of one document."""

    document: str  # id
    concepts: list[Concept]
    edges: list[Edge]
    skips: list[Skip]
    complete: bool  # every prompt was answered; if not, the next run asks again


def shown_passages(passages: Sequence[Passage], options: ExtractOptions) -> Sequence[Passage]:
    """The passages of one document that the model reads: its first and last ones, or all; never empty ones."""
    filled = [passage for passage in passages if passage.text.strip()]
    if options.chunks == "all" or len(filled) <= options.first + options.last:
        return filled
    return filled[: options.first] + filled[len(filled) - options.last :]


def extraction_prompts(document: Document, passages: Sequence[Passage], options: ExtractOptions) -> list[str]:
    """The prompts of one document; several where the passages it shows exceed `options.characters`."""
    size = options.characters
    pieces = []
    for number, passage in enumerate(shown_passages(passages, options), start=1):
        head = f"[{number}] {passage.kind}{f' ({passage.title})' if passage.title else ''}"
        end = len(passage.text) if options.chunks == "all" else size  # else the beginning of a very long one is enough
        pieces += [f"{head}: {piece}" for piece in _pieces(passage.text[:end], size)]
    batches: list[list[str]] = []
    room = 0
    for piece in pieces:
        if not batches or len(piece) > room:
            batches.append([])
            room = size
        batches[-1].append(piece)
        room -= len(piece)
    return ["\n\n".join((f"Document: {document.title or document.id}", *batch)) for batch in batches]


def _pieces(text: str, size: int) -> Iterator[str]:
    """The text in pieces of at most `size` characters that end with a sentence, else with a word, where they can."""
    while text := text.strip():
        end = size if len(text) > size else len(text)
        if end < len(text):
            breaks = [mark.end() for mark in re.finditer(r"[.!?]\s|\n\n", text[: end + 1])] or [text.rfind(" ", 0, end)]
            end = breaks[-1] if breaks[-1] > size // 2 else end
        yield text[:end].strip()
        text = text[end:]


def extract(
    documents: Iterable[tuple[Document, Sequence[Passage]]],
    ask: Callable[[Iterable[str]], Iterator[Reply]],
    options: ExtractOptions = ExtractOptions(),  # noqa: B008 - frozen
    *,
    maker: str = "llm",
) -> Iterator[Extraction]:
    """One extraction per document, in order, as soon as its last answer is there.

    `ask` takes prompts lazily and gives one reply for each, in order. Documents whose id is in `done` are left out,
    so that an interrupted run can resume. A document with an unanswered prompt comes back with the records of the
    other prompts, its causes as skips, and `complete` False.
    """
    waiting: deque[tuple[Document, Sequence[Passage], int]] = deque()  # with the number of prompts

    def prompts() -> Iterator[str]:
        for document, passages in documents:
            texts = extraction_prompts(document, passages, options)
            waiting.append((document, passages, len(texts)))
            yield from texts

    replies: list[Reply] = []
    for reply in ask(prompts()):
        replies.append(reply)
        while waiting and waiting[0][2] <= len(replies):
            document, passages, count = waiting.popleft()
            yield _read_replies(document, passages, replies[:count], maker)
            del replies[:count]
    for document, passages, count in waiting:
        if count:
            raise LemmataError(f"the model's answers end before {document.id} is answered")
        yield _read_replies(document, passages, [], maker)


def _read_replies(document: Document, passages: Sequence[Passage], replies: Sequence[Reply], maker: str) -> Extraction:
    answers = [reply.value for reply in replies if not reply.error]
    joined = {name: [item for answer in answers for item in answer[name]] for name in ("concepts", "relations")}
    concepts, edges, skips = read_extraction(joined, document, passages, maker=maker)
    causes = [f" was not extracted: {reply.error}" for reply in replies if reply.error]
    causes += [f": {note}" for reply in replies if not reply.error for note in reply.notes]
    if not replies:
        causes = [" has no text to ask about"]
    unread = [Skip(document.file or document.id, 0, f"{document.id}{cause}") for cause in causes]
    return Extraction(document.id, concepts, edges, unread + skips, len(answers) == len(replies))


def read_extraction(
    value: Mapping[str, Any], document: Document, passages: Sequence[Passage], *, maker: str = "llm"
) -> tuple[list[Concept], list[Edge], list[Skip]]:
    """The concepts, relations and mentions of an answer that the text supports; everything else as skips.

    `value` follows `SCHEMA`. A concept counts if one of its names stands in a passage, or all words of its name in
    one passage; other names count only if they stand there too. A relation counts if its quote stands in a passage, its
    evidence. Equal names are one concept.
    """
    skips: list[Skip] = []

    def skip(cause: str) -> None:
        skips.append(Skip(document.file or document.id, 0, f"{document.id}: {cause}"))

    supported = _Concepts(passages)
    for item in value["concepts"]:
        name, description, *aliases = (
            " ".join(text.split()) for text in (item["name"], item["description"], *item["aliases"])
        )
        others = tuple(alias for alias in dict.fromkeys(aliases) if alias != name and supported.mentioned(alias))
        if not key_of(name):
            skip(f"a concept without a name: {str(item)[:80]}")
        elif not supported.add(Concept(f"concept:{slug(name)}", name, item["kind"], description, others)):
            skip(f"the concept {name!r} does not occur in the text")

    edges: dict[tuple[str, str, str], Edge] = {}
    for item in value["relations"]:
        relation, quote = item["relation"], item["quote"]
        ends = [" ".join(item[end].split()) for end in ("source", "target")]
        statement = f"{ends[0]!r} {relation} {ends[1]!r}"
        evidence = supported.find_quote(quote)
        if not evidence:
            skip(f"{statement}: its quote stands in no passage: {quote[:80]!r}")
            continue
        source, target = (supported.id_of(name) for name in ends)
        if not (source and target):
            skip(f"{statement}: {ends[bool(source)]!r} is no concept of the text")
        elif source == target:
            skip(f"{statement}: both ends are the same concept")
        else:
            edges.setdefault((source, relation, target), Edge(source, relation, target, evidence, maker))
    mentions = [Edge(passage, "mentions", concept, passage, maker) for passage, concept in supported.mentions]
    return list(supported.concepts.values()), list(edges.values()) + mentions, skips


_REASONS = (
    "does not occur in the text",
    "its quote stands in no passage",
    "is no concept of the text",
    "both ends are the same concept",
    "a concept without a name",
)


def reason_of(skip: Skip) -> str:
    """Why a record of an answer was dropped, in words that are the same for all records; "" if only a field was."""
    if skip.cause.endswith(" is used"):
        return ""
    return next((reason for reason in _REASONS if reason in skip.cause), "does not fit the schema")


class _Concepts:
    """The concepts of one document, each with the passages that mention it."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        texts = {passage.id: f"{passage.title} {passage.text} {passage.proof}" for passage in passages}
        self.words = {passage: _words(text) for passage, text in texts.items()}
        self.keys = {passage: f" {key_of(text)} " for passage, text in texts.items()}
        self.concepts: dict[str, Concept] = {}
        self.mentions: dict[tuple[str, str], None] = {}
        self._by_name: dict[str, str] = {}  # key of a concept's name: id
        self._by_alias: dict[str, str] = {}

    def add(self, concept: Concept) -> bool:
        """Whether the text mentions the concept; only then is it added."""
        passages = self._passages_with(concept)
        if not passages:
            return False
        identity = self._by_name.setdefault(key_of(concept.name), concept.id)  # `Bailey lemma` and `Bailey's lemma`
        first = self.concepts.get(identity)
        self.concepts[identity] = concept if first is None else unite(first, concept)
        self.mentions.update(dict.fromkeys((passage, identity) for passage in passages))
        for alias in concept.aliases:
            self._by_alias.setdefault(key_of(alias), identity)
        return True

    def mentioned(self, name: str) -> bool:
        """Whether a passage has this name."""
        key = key_of(name)
        return bool(key) and any(f" {key} " in text for text in self.keys.values())

    def id_of(self, name: str) -> str:
        """The id of a concept, created from its name where only the text has it; "" for none."""
        key = key_of(name)
        if key and key not in self._by_name and key not in self._by_alias:
            self.add(Concept(f"concept:{slug(name)}", name))
        return self._by_name.get(key) or self._by_alias.get(key, "")

    def _passages_with(self, concept: Concept) -> list[str]:
        """Passages that contain a name, in singular or plural; else the first with all words of the name."""
        names = [f" {key_of(name)} " for name in (concept.name, *concept.aliases)]
        passages = [passage for passage, text in self.keys.items() if any(name in text for name in names)]
        words = set(names[0].split())
        return passages or [passage for passage, text in self.keys.items() if words <= set(text.split())][:1]

    def find_quote(self, quote: str) -> str:
        """The passage that has the quote word for word, else the one that has most of it; "" for none."""
        words = _words(quote)
        line = f" {' '.join(words)} "
        triples = _triples(words)
        shares = {
            passage: 2.0 if line in f" {' '.join(text)} " else len(triples & _triples(text)) / max(1, len(triples))
            for passage, text in self.words.items()
        }
        best = max(shares, key=shares.__getitem__, default="")
        return best if words and best and shares[best] >= _LEAST_QUOTED else ""


def _words(text: str) -> list[str]:
    """Words without case, accents, possessives, signs and line ends."""
    return re.findall(r"[^\W_]+", re.sub(r"'s\b", "", fold(text.replace("’", "'"))))


def _triples(words: Sequence[str]) -> set[tuple[str, str, str]]:
    return set(zip(words, words[1:], words[2:], strict=False))
