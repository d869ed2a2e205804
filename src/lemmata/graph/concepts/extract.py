"""Concepts and relations of a document by a language model, each with the passage that supports it.

The model reads numbered sentences and answers sentence by sentence with names that it copies. It may describe concepts
in its own words and quote what states a relation. Small models do neither well; everything is checked against the text,
so that what they make up is dropped. How the model is called is not known here: a callable takes prompts and gives
their answers, in order.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lemmata.core.errors import LemmataError
from lemmata.core.types import CONCEPT_KINDS, Concept, Document, Edge, Passage, Skip
from lemmata.core.words import ARTICLES, GENERIC_NOUNS, GERMAN_STOP_WORDS, PHRASE_BREAKS, STOP_WORDS, slug
from lemmata.graph.concepts.merge import unite
from lemmata.graph.concepts.terms import FORMULA, key_of, mask, normal, sentence_spans

if TYPE_CHECKING:
    from lemmata.graph.extract import ExtractOptions
    from lemmata.llm.chat import Answer

RELATIONS = (
    "is_instance_of", "generalizes", "uses", "implies", "proves", "defines", "equivalent_to", "related_to",
)  # fmt: skip
# Of one prompt, one sentence, one sentence: a small model would list more and more.
_MOST_SENTENCES, _MOST_CONCEPTS, _MOST_RELATIONS = 10, 6, 4
_PROMPT_SIZE = 2_000  # characters of these sentences, so that a model of 1.5 billion parameters can read them
_NO_KINDS = ("chunk", "log")  # say nothing about a sentence
_FEWEST_WORDS = 3  # outside formulas, of a sentence that is shown
_LONGEST_FORMULA = 60  # characters that are shown; names have no formulas
_LONGEST_DESCRIPTION = 600  # characters, as of the descriptions that rules find
_LONGEST_WRITTEN = 300  # characters of a description or quote by the model
_SUPPORTED = 0.5  # share of the words of a description, without the name, that its passage has
# What stands between two names where a sentence states a relation: with the source first, and with the target first. A
# small model names a relation wherever it may; it is kept only by these words, or by words that the model quotes.
_IS = r"(?:\W|\b(?:is|are|ist|sind|also|always|itself|an?|the|called|said|to|be|ein\w*)\b)*"
_STATED = {
    "is_instance_of": (rf"{_IS}\b(?:is|are|ist|sind)\b{_IS}", r"\W*(?:such as|for example|like|including)\W*"),
    "generalizes": (
        r".*\b(?:generali|extend|contains|verallgemein).*",
        r".*\b(?:special|particular|instance|spezial).*",
    ),
    "uses": (
        r".*\b(?:us(?:es?|ing)|by|via|appl\w+|needs?|requires?|contains?|consists?|mit)\b.*",
        r".*\bused (?:in|by)\b.*",
    ),
    "implies": (
        r".*\b(?:impl\w+|gives?|yields?|hence|therefore|so|then)\b.*",
        r".*\b(?:follow|consequence|corollary|folg).*",
    ),
    "proves": (r".*\b(?:prove|show|zeig|beweis).*", r".*\b(?:proved|proven|shown|bewiesen)\b.*"),
    "defines": (r".*\b(?:define|introduce|denote).*", r".*\b(?:defined|introduced) (?:by|in)\b.*"),
    "equivalent_to": (
        (
            r".*\b(?:equi|if and only if|iff|equals?|same as|coincid|also (?:known|called)|synonym|genau dann).*"
            r"|\W*[,(]\W*or\b(?:\W+(?:sometimes|also|simply))?(?:\W+(?:an?|the))?\W*"
        ),
    )
    * 2,
}
# What a quote that states a relation has between the names, with the source first and with the target first.
_CUES = {
    "is_instance_of": (
        r"\b(?:is|are)\b(?!\W+(?:called|said|termed|known))|\b(?:kind|type|example|instance|ist|sind)\b",
        r"\b(?:such as|examples?|instances?|including|like|called|said to be|termed|known as)\b",
    ),
    "generalizes": (
        r"\b(?:generali|exten[ds]|contain|refine|analog|deform|reduce|recover|verallgemein)",
        r"\b(?:special|particular|instance|spezial|analog|(?:generali[sz]|extend)ed (?:by|to|in)\b)",
    ),
    "uses": (
        (
            r"\b(?:us(?:es?|ed|ing)|by|via|appl\w+|needs?|requires?|contains?|consists?|has|have|having|with|carries"
            r"|depends?|in terms of|built|mit|hat|haben)\b"
        ),
        r"\b(?:used (?:in|by|for|to)|built|applied|common in|needed)\b",
    ),
    "implies": (
        r"\b(?:impl\w+|gives?|yields?|hence|therefore|so|then|makes|if and only if)\b",
        r"\b(?:follow|consequence|corollary|if and only if|folg)",
    ),
    "proves": (
        r"\b(?:prove|show|explain|establish|zeig|beweis)",
        r"\b(?:proved|proven|proof|shown|established|due|bewiesen)\b",
    ),
    "defines": (
        r"\b(?:define|introduce|denote|found|discover|invent|construct|call|present|heiß|nenn)",
        r"\b(?:defined|introduced|found|discovered|invented|constructed|called|named)\b",
    ),
    "equivalent_to": (_STATED["equivalent_to"][0],) * 2,
}
Span = tuple[int, int]
_LONGEST_BETWEEN = 60  # characters
_FLAGS = re.IGNORECASE | re.DOTALL
# Before T in "an example of a T is an S", which turns round what stands between.
_EXAMPLE = re.compile(r"\bexamples? of\W+(?:(?:an?|the)\W+)?$", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not?|never|nicht|kein\w*)\b", re.IGNORECASE)
_MOST_WORDS, _MOST_PHRASES = 5, 80  # of a name; of a sentence
_TOKEN = re.compile(r"[^\W_]+(?:['’\-–][^\W_]+)*|\S")
_WORD = re.compile(r"[^\W_].*")
_INNER = frozenset("of the a an der des von".split())
_BREAKS = STOP_WORDS | GERMAN_STOP_WORDS | PHRASE_BREAKS | _INNER
_SAYS_NOTHING = GENERIC_NOUNS | _INNER
_STOP_KEYS = frozenset(map(normal, STOP_WORDS | GERMAN_STOP_WORDS))
# What stands before and after a name that a sentence defines: "A NAME is", "is called a NAME", "is a NAME if".
_SUBJECT = (
    r"\W*(?:(?:an?|the|ein\w*|der|die|das)\W+)?",
    r"\W*(?:is|are|means?|denotes?|consists?|ist|sind|heiß\w+)\b.*",
)
_CALLED = (r".*\b(?:called|termed|heiß\w+|nenn\w+)\W+(?:(?:an?|the|ein\w*)\W+)?", r".*")
_IF = (r".*\b(?:is|are|be)\W+(?:an?|the)\W+", r"\W*(?:\([^)]*\)\W*)?(?:if|when|whenever|iff)\b.*")
_DEFINING = (_SUBJECT, _CALLED, _IF)


def _list_of(most: int, items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": most}


def _object_with(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object that has all of these properties and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _schema_of(names: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of what is written down for one sentence."""
    concept = _object_with(name=names, kind=_one_of(CONCEPT_KINDS), description=_text(_LONGEST_WRITTEN))
    relation = _object_with(source=names, relation=_one_of(RELATIONS), target=names, words=_text(_LONGEST_WRITTEN))
    return _object_with(concepts=_list_of(_MOST_CONCEPTS, concept), relations=_list_of(_MOST_RELATIONS, relation))


def _text(longest: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest}


def _one_of(texts: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(texts)}


_ANY_NAME = {**_text(80), "minLength": 1}
# An answer is read by this schema, which is the same for all prompts.
SCHEMA: Mapping[str, Any] = _object_with(
    **{str(number): _schema_of(_ANY_NAME) for number in range(1, _MOST_SENTENCES + 1)}
) | {"required": []}
# where the model gives none
DEFAULTS: Mapping[str, Any] = {"kind": "object", "description": "", "words": "", "concepts": [], "relations": []}


def complaint_of(value: Mapping[str, Any]) -> str:
    """What is wrong with an answer about no sentence."""
    return "" if value else 'it must have the numbers of the sentences as keys: "1", "2", …'


def narrow_schema(prompt: Prompt) -> dict[str, Any]:
    """The schema of this prompt alone, for servers that follow schemas: an entry for each sentence, with names that
    stand in it."""
    return _object_with(
        **{
            str(number): _schema_of(_one_of(_phrases(f"{sentence.title}. {sentence.text}")))
            for number, sentence in enumerate(prompt.sentences, 1)
        }
    )


def _words_between(text: str, source: Span | None, target: Span | None) -> tuple[str, int] | None:
    """What a sentence says between two names, without formulas, and 0 or 1: whether the source or the target is first.

    None where it says too much, or denies something.
    """
    if source is None or target is None or source[0] == target[0]:
        return None
    between, order = (text[source[1] : target[0]], 0) if source < target else (text[target[1] : source[0]], 1)
    if len(between) > _LONGEST_BETWEEN or _NEGATION.search(between):
        return None
    example = _EXAMPLE.search(text[: min(source[0], target[0])]) is not None
    return FORMULA.sub("", between), order ^ example


def _state(between: tuple[str, int] | None, relation: str) -> bool:
    return between is not None and re.fullmatch(_STATED[relation][between[1]], between[0], _FLAGS) is not None


def _span_of(name: str, text: str) -> Span | None:
    """Where a name stands in a text, in singular or plural."""
    words = re.findall(r"[^\W_]+", re.sub(r"['’]s\b", "", name))
    stem = r"(?:['’]s)?[\W_]+".join(words).removesuffix("y").removesuffix("ies")
    found = re.search(rf"(?<!\w-)\b{stem}(?:y|ies|e?s|en?)?\b", text, _FLAGS) if words else None
    return found.span() if found else None


def _spans_of(names: Sequence[str], text: str) -> list[Span | None]:
    """Where two names stand in a text; the shorter one outside the longer one, which may contain it."""
    longer = _span_of(max(names, key=len), text)
    rest = text if longer is None else text[: longer[0]] + "\0" * (longer[1] - longer[0]) + text[longer[1] :]
    return [longer if name == max(names, key=len) else _span_of(name, rest) for name in names]


def _phrases(text: str) -> list[str]:
    """What can be the name of a concept in a sentence: up to five words, of which the first and last are no stop words.

    Formulas and signs end a phrase; `of` and an article after it may stand inside. General nouns alone are no name.
    """
    masked = mask(text)
    phrases: dict[str, None] = {}
    words: list[tuple[int, int]] = []  # of the run so far
    for token in _TOKEN.finditer(masked):
        word = token[0].casefold()
        after_of = bool(words) and masked[slice(*words[-1])].casefold() == "of"
        inside = word in _INNER and (after_of or word not in ARTICLES)
        if not _WORD.fullmatch(token[0]) or (word in _BREAKS and not inside):
            words.clear()
            continue
        words.append(token.span())
        for length in range(1, min(len(words), _MOST_WORDS) + 1):
            start = words[-length][0]
            parts = [masked[first:last].casefold() for first, last in words[-length:]]
            ends_well = parts[0] not in _BREAKS and parts[-1] not in _BREAKS
            phrase = " ".join(masked[start : token.end()].split())
            is_word = len(phrase) > 1 and re.search(r"[^\W\d_]", phrase)
            if ends_well and is_word and not {*map(normal, parts)} <= _SAYS_NOTHING:
                phrases.setdefault(phrase)
    return list(phrases)[:_MOST_PHRASES]


# Everything that is the same for all documents stands first, so that a server reads it once and reuses it.
SYSTEM = r"""You make the index of a technical or mathematical text. Its sentences are numbered. For each sentence, \
write down the concepts that it is about, and how it says that they are related.

Answer with one JSON object that has the numbers of all sentences as keys: {"1": {"concepts": [...], "relations": \
[...]}, "2": ...}.
- "concepts": the terms of the sentence that a reader would look up in an index; [] if there are none. "name": copied \
from this sentence word for word, one to five words, not a general word such as theorem, proof or case. "kind": \
object, theorem (a result with a name), definition (a notion that this sentence introduces), technique (a way to \
prove, compute or repair), formula, identity, conjecture or person. "description": what this text says that it is, in \
one short sentence with words of the text; "" if the text does not say it.
- "relations": only what this text says in words; [] if there are none. "source" and "target": two different names \
copied from this sentence. "relation": is_instance_of (every source is a target), generalizes (target is a special \
case of source), uses (source needs, has or is made with target), implies (target follows from source), proves \
(source proves target), defines (source introduces target), equivalent_to (source if and only if target), related_to \
(anything else). "words": the words of the text that say so, with a name, copied.

Example text:
[1] theorem (Lagrange's theorem): The order of a subgroup of a finite group divides the order of the group.
[2] Fermat's little theorem follows from Lagrange's theorem.
[3] It is shown in the same way that the number is finite.
[4] Every group of prime order is a cyclic group, and its generators are not unique.
[5] Pumpe P12 undicht, Gleitringdichtung getauscht.

Answer:
{"1": {"concepts": [{"name": "subgroup", "kind": "object", "description": ""}, {"name": "Lagrange's theorem", \
"kind": "theorem", "description": "The order of a subgroup divides the order of its finite group."}], "relations": []},
"2": {"concepts": [{"name": "Fermat's little theorem", "kind": "theorem", "description": ""}], "relations": \
[{"source": "Lagrange's theorem", "relation": "implies", "target": "Fermat's little theorem", "words": "Fermat's \
little theorem follows from Lagrange's theorem"}]},
"3": {"concepts": [], "relations": []},
"4": {"concepts": [{"name": "group of prime order", "kind": "object", "description": ""}, {"name": "cyclic group", \
"kind": "object", "description": ""}], "relations": [{"source": "group of prime order", "relation": \
"is_instance_of", "target": "cyclic group", "words": "Every group of prime order is a cyclic group"}]},
"5": {"concepts": [{"name": "Pumpe P12", "kind": "object", "description": ""}, {"name": "Gleitringdichtung", "kind": \
"object", "description": ""}], "relations": []}}"""
SYSTEM = SYSTEM.replace("\\\n", "")


class Sentence(NamedTuple):
    """A sentence that a prompt shows, as its passage has it."""

    text: str
    passage: str  # id
    title: str = ""  # of the passage, where it is shown before this sentence


class Prompt(NamedTuple):
    """What the model reads, and the sentences that its numbers 1, 2, … stand for."""

    text: str
    sentences: tuple[Sentence, ...]


class Extraction(NamedTuple):
    document: str  # id
    concepts: list[Concept]
    edges: list[Edge]
    skips: list[Skip]
    complete: bool  # every prompt was answered; if not, the next run asks again


def shown_passages(passages: Sequence[Passage], options: ExtractOptions) -> Sequence[Passage]:
    """The passages of one document that the model reads: two at each end, or all; never empty ones."""
    filled = [passage for passage in passages if passage.text.strip()]
    return filled if options.chunks == "all" or len(filled) <= 4 else filled[:2] + filled[-2:]


def extraction_prompts(passages: Sequence[Passage], options: ExtractOptions) -> list[Prompt]:
    """The prompts of one document, each with at most `_PROMPT_SIZE` characters and a few sentences.

    Sentences of formulas alone are left out, and those of an overlapping passage before; long formulas are `$…$`.
    """
    prompts: list[Prompt] = []
    lines: list[str] = []
    sentences: list[Sentence] = []
    shown_sentences: set[str] = set()

    def close() -> None:
        if sentences:
            prompts.append(Prompt("\n".join(lines), tuple(sentences)))
        lines.clear()
        sentences.clear()

    for passage in shown_passages(passages, options):
        kind = "" if passage.kind in _NO_KINDS else passage.kind
        label = " ".join(filter(None, (kind, passage.title and f"({passage.title})")))
        head = label and f"{label}: "
        for sentence in _sentences(passage.text, options):
            if sentence in shown_sentences:
                continue
            shown_sentences.add(sentence)
            short = FORMULA.sub(lambda each: each[0] if len(each[0]) <= _LONGEST_FORMULA else "$…$", sentence)
            line = head + " ".join(short.split())
            if len(sentences) == _MOST_SENTENCES or sum(map(len, lines)) + len(line) > _PROMPT_SIZE:
                close()
            sentences.append(Sentence(sentence, passage.id, passage.title if head else ""))
            lines.append(f"[{len(sentences)}] {line}")
            head = ""
    close()
    return prompts


def _sentences(text: str, options: ExtractOptions) -> Iterator[str]:
    """The sentences of a passage that have words; of a very long passage its beginning, unless all are asked for."""
    text = text if options.chunks == "all" else text[: 2 * _PROMPT_SIZE]
    for start, end in sentence_spans(mask(text)):
        for piece in _pieces(text[start:end], _PROMPT_SIZE // 2):
            if len(re.findall(r"[^\W\d_]{2,}", mask(piece))) >= _FEWEST_WORDS and _phrases(piece):
                yield piece


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
    ask: Callable[[Iterable[Prompt]], Iterator[Answer]],
    options: ExtractOptions,
    *,
    maker: str = "llm",
) -> Iterator[Extraction]:
    """One extraction per document, in order, as soon as its last answer is there.

    `ask` takes prompts lazily and gives one reply for each, in order. Documents whose id is in `done` are left out,
    so that an interrupted run can resume. A document with an unanswered prompt comes back with the records of the
    other prompts, its causes as skips, and `complete` False.
    """
    waiting: deque[tuple[Document, Sequence[Passage], list[Prompt]]] = deque()

    def all_prompts() -> Iterator[Prompt]:
        for document, passages in documents:
            prompts = extraction_prompts(passages, options)
            waiting.append((document, passages, prompts))
            yield from prompts

    replies: list[Answer] = []
    for reply in ask(all_prompts()):
        replies.append(reply)
        while waiting and len(waiting[0][2]) <= len(replies):
            document, passages, prompts = waiting.popleft()
            yield _read_replies(document, passages, prompts, replies[: len(prompts)], maker)
            del replies[: len(prompts)]
    for document, passages, prompts in waiting:
        if prompts:
            raise LemmataError(f"the model's answers end before {document.id} is answered")
        yield _read_replies(document, passages, [], [], maker)


def _read_replies(
    document: Document, passages: Sequence[Passage], prompts: Sequence[Prompt], replies: Sequence[Answer], maker: str
) -> Extraction:
    answers = [(prompt, reply.value) for prompt, reply in zip(prompts, replies, strict=True) if not reply.error]
    concepts, edges, skips = read_extraction(answers, document, passages, maker=maker)
    causes = [f" was not extracted: {reply.error}" for reply in replies if reply.error]
    causes += [f": {note}" for reply in replies if not reply.error for note in reply.notes]
    cut = "an answer breaks off, its last entry is lost; raise answer_tokens in [llm]"
    causes += [f": {cut}" for reply in replies if not reply.error and reply.truncated]
    if not replies:
        causes = [" has no text to ask about"]
    unread = [Skip(document.file or document.id, 0, f"{document.id}{cause}") for cause in causes]
    return Extraction(document.id, concepts, edges, unread + skips, len(answers) == len(replies))


def read_extraction(
    answers: Iterable[tuple[Prompt, Mapping[str, Any]]],
    document: Document,
    passages: Sequence[Passage],
    *,
    maker: str = "llm",
) -> tuple[list[Concept], list[Edge], list[Skip]]:
    """The concepts, relations and mentions of a document's answers that the text supports; everything else as skips.

    An answer follows `SCHEMA`. A concept counts if its name stands in a passage, or all words of its name in one
    passage. Its description counts if the passage of its sentence has at least half of its words; else it is the
    sentence, where that says what the concept is. The passage of the first description defines the concept. A relation
    counts if both names stand in the passage of the sentence that it is for, which is the evidence, and the text says
    it (`_said`). Equal names are one concept.
    """
    skips: list[Skip] = []

    def skip(cause: str) -> None:
        skips.append(Skip(document.file or document.id, 0, f"{document.id}: {cause}"))

    supported = _Concepts(passages)
    relations: list[tuple[Sentence, Mapping[str, str]]] = []
    for prompt, value in answers:
        for number, entry in value.items():
            exists = int(number) <= len(prompt.sentences)
            sentence = prompt.sentences[int(number) - 1] if exists else Sentence("", "")
            relations += [(sentence, relation) for relation in entry["relations"]]
            for item in entry["concepts"]:
                name, description = (" ".join(item[field].split()) for field in ("name", "description"))
                if name.count("(") != name.count(")"):  # copied from "(arithmetic) genus"
                    name = name.replace("(", "").replace(")", "")
                if description and not supported.says(description, name, sentence):
                    skip(f"the description of {name!r} is not what its passage says: {description[:80]!r}")
                    description = ""
                description = description or _description(name, sentence.text)
                concept = Concept(f"concept:{slug(name)}", name, item["kind"], description)
                if not key_of(name):
                    skip(f"a concept without a name: {str(item)[:80]}")
                elif not supported.add(concept, sentence.passage):
                    skip(f"the concept {name!r} does not occur in the text")

    edges: dict[tuple[str, str, str], Edge] = {}
    for (text, passage, _), item in relations:
        relation = item["relation"]
        ends = [" ".join(item[end].split()) for end in ("source", "target")]
        statement = f"{ends[0]!r} {relation} {ends[1]!r}"
        absent = [name for name in ends if not supported.stands_in(name, passage)]
        if not passage:
            skip(f"{statement}: its sentence does not exist")
        elif absent:
            skip(f"{statement}: {absent[0]!r} does not stand in the passage of its sentence")
        elif (source := supported.id_of(ends[0])) == (target := supported.id_of(ends[1])):
            skip(f"{statement}: both ends are the same concept")
        else:
            quote = item["words"] if supported.stands_in(item["words"], passage) else ""
            said = _said(text, ends, relation, quote)
            if not said:
                skip(f"{statement}: neither the sentence nor a quote says so")
            elif said != relation:
                skip(f"{statement}: its quote has no word for it, so that {said!r} is used")
            if said:
                edges.setdefault((source, said, target), Edge(source, said, target, passage, maker))
    found = [*((pair, "mentions") for pair in supported.mentions), *((pair, "defines") for pair in supported.defined)]
    about = [Edge(passage, relation, concept, passage, maker) for (passage, concept), relation in found]
    return list(supported.concepts.values()), list(edges.values()) + about, skips


def _said(sentence: str, ends: Sequence[str], relation: str, quote: str) -> str:
    """The relation that the text states between two names: the given one, `related_to`, or none.

    It is stated by the words between the names in the sentence, or by a quote of the passage that has one of the names
    and a word for it; `related_to` by a sentence or a quote with both names, and any other relation becomes it where a
    quote has one of the names and the quote or the sentence both. A quote counts for nothing where the
    sentence states the relation the other way round, or the quote denies it.
    """
    spans = _spans_of(ends, sentence)
    quoted = _spans_of(ends, quote) if quote and not _NEGATION.search(quote) else [None, None]
    if relation == "related_to":
        return relation if None not in spans or None not in quoted else ""
    between = _words_between(sentence, *spans)
    if _state(between, relation):
        return relation
    if between is not None and _state((between[0], 1 - between[1]), relation):
        return ""
    if any(quoted) and _has_cue(quote, quoted, spans, relation):
        return relation
    return "related_to" if any(quoted) and (None not in quoted or None not in spans) else ""


def _has_cue(quote: str, quoted: Sequence[Span | None], spans: Sequence[Span | None], relation: str) -> bool:
    """Whether a quote has a word for the relation, in the order in which it, or else the sentence, has the names."""
    (source, target), text = quoted, quote
    if source and target:
        text = quote[min(source[1], target[1]) : max(source[0], target[0])]
    else:
        source, target = spans
    order = slice(None) if source is None or target is None else slice(source > target, 1 + (source > target))
    return any(re.search(cue, FORMULA.sub("", text), _FLAGS) for cue in _CUES[relation][order])


def _description(name: str, sentence: str) -> str:
    """The sentence where it says what the name means, else ""."""
    text = " ".join(sentence.split())
    span = _span_of(name, text)
    before, after = (FORMULA.sub("", part) for part in (text[: span[0]], text[span[1] :])) if span else ("", "")
    if not any(re.fullmatch(one, before, _FLAGS) and re.fullmatch(two, after, _FLAGS) for one, two in _DEFINING):
        return ""
    return text if len(text) <= _LONGEST_DESCRIPTION else text[:_LONGEST_DESCRIPTION].rsplit(" ", 1)[0] + " …"


_REASONS = {  # a part of a cause, and the reason in words that are the same for all records
    "does not occur in the text": "concept: does not occur in the text",
    "a concept without a name": "concept: has no name",
    "its sentence does not exist": "relation: its sentence does not exist",
    "does not stand in the passage": "relation: an end does not stand in the passage",
    "neither the sentence nor a quote": "relation: the text does not say it",
    "is not what its passage says": "description: not what the passage says",
    "both ends are the same concept": "relation: both ends are the same concept",
    ".relations": "relation: does not fit the schema",
    ".concepts": "concept: does not fit the schema",
    "breaks off": "the end of an answer that breaks off",
}


def reason_of(skip: Skip) -> str:
    """Why a record of an answer was dropped; "" if only a field was."""
    if skip.cause.endswith(" is used"):
        return ""
    return next((reason for part, reason in _REASONS.items() if part in skip.cause), "does not fit the schema")


class _Concepts:
    """The concepts of one document, each with the passages that mention it."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        texts = {passage.id: f"{passage.title} {passage.text} {passage.proof}" for passage in passages}
        self.keys = {passage: f" {key_of(text)} " for passage, text in texts.items()}
        self.concepts: dict[str, Concept] = {}
        self.mentions: dict[tuple[str, str], None] = {}
        self.defined: dict[tuple[str, str], None] = {}  # passage and concept of each description
        self._by_name: dict[str, str] = {}  # key of a concept's name: id

    def add(self, concept: Concept, passage: str = "") -> bool:
        """Whether the text mentions the concept, in singular or plural; only then is it added, with its description."""
        name = f" {key_of(concept.name)} "
        passages = [identity for identity, text in self.keys.items() if name in text]
        words = set(name.split())  # else the first passage with all words of the name
        passages = passages or [other for other, text in self.keys.items() if words <= set(text.split())][:1]
        if not passages:
            return False
        identity = self._by_name.setdefault(key_of(concept.name), concept.id)  # `Bailey lemma` and `Bailey's lemma`
        first = self.concepts.get(identity)
        if concept.description and passage and (first is None or not first.description):
            self.defined[passage, identity] = None
        self.concepts[identity] = concept if first is None else unite(first, concept)
        self.mentions.update(dict.fromkeys((passage, identity) for passage in passages))
        return True

    def stands_in(self, name: str, passage: str) -> bool:
        key = key_of(name)
        return bool(key) and f" {key} " in self.keys.get(passage, "")

    def says(self, description: str, name: str, sentence: Sentence) -> bool:
        """Whether a passage has half of the words of a description, other than those of the name, and two of them; or
        the sentence all."""
        words = {word for word in key_of(FORMULA.sub(" ", description)).split() if len(word) > 2} - _STOP_KEYS
        words -= {*key_of(name).split()}
        shared = words & {*self.keys.get(sentence.passage, "").split()}
        said = words <= {*key_of(sentence.text).split()}
        return bool(words) and (said or len(shared) >= max(2, _SUPPORTED * len(words)))

    def id_of(self, name: str) -> str:
        """The id of the concept of a name that stands in a passage, which is made where the model did not list it."""
        if key_of(name) not in self._by_name:
            self.add(Concept(f"concept:{slug(name)}", name))
        return self._by_name[key_of(name)]
