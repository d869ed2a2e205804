"""Concepts of a corpus, how they hang together and where they are mentioned: rules only, no model.

Two passes over the passages: the first finds candidates and counts phrases, the second finds mentions and relations.
The same corpus always gives the same graph. Uniting different spellings of one concept is not done here.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lemmata.concepts.candidates import (
    Find,
    content_runs,
    credited_results,
    definienda,
    named_results,
    note_name,
    phrase_key,
    phrases_of_title,
    without_references,
)
from lemmata.concepts.mentions import Match, find_mentions, name_trie
from lemmata.concepts.relations import LOOSE_HEADS, name_relations, sentence_relations
from lemmata.concepts.words import (
    INNER,
    RESULT,
    adjective_or_object,
    clean_term,
    is_german,
    key_of,
    mask,
    normal,
    result_kind,
    sentence_spans,
)
from lemmata.types import Concept, Document, Edge, Passage
from lemmata.words import GENERIC_ADJECTIVES, GENERIC_NOUNS, TITLE_FRAME_WORDS, singular, slug

__all__ = ["ConceptGraph", "ConceptOptions", "build_concepts"]

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class ConceptOptions:
    """What may become a concept."""

    metadata: bool = True  # what authors declared: PlanetMath's fields, keywords
    titles: bool = True  # of documents and sections, where the text speaks of them
    phrases: bool = True  # frequent noun phrases made of words that definitions use
    least: int = 0  # passages that must hold a frequent phrase; 0: grows with the corpus
    longest_description: int = 600  # characters; a longer sentence is cut


class ConceptGraph(NamedTuple):
    """Concepts, and the edges between them and from passages to them."""

    concepts: list[Concept]
    edges: list[Edge]
    origins: dict[str, tuple[str, str]]  # concept id: the rule that made it, and the passage it was seen in or ""


# The rules, the most trusted first: it gives a concept its name, kind and description.
RULES = (
    "planetmath", "emphasis", "by we mean", "note", "is a", "called", "say that", "keywords", "defined as", "named",
    "people", "stress", "title", "note phrase", "section", "phrase",
)  # fmt: skip
_RANK = {rule: rank for rank, rule in enumerate(RULES)}
_DEFINING = frozenset(("emphasis", "by we mean", "is a", "called", "say that", "defined as"))
_DECLARED = {
    "Definition": "object",
    "Theorem": "theorem",
    "Corollary": "theorem",
    "Axiom": "theorem",
    "Conjecture": "conjecture",
    "Algorithm": "technique",
    "Data Structure": "object",
    "Biography": "person",
    "Topic": "object",
}
_LOOSE_MODIFIERS = frozenset(
    """finite infinite induced natural canonical countable disjoint upper lower vertical horizontal functorial vanishing
    higher nth pth kth ith ascending descending opposite adjacent surjective integer classical mathematical
    inner outer empty""".split()
)  # of frequent phrases: what they make of a noun is nothing of its own
_WEAK_HEADS = frozenset(
    """system structure choice pair family member copy version theory part arrow image number object union state
    kernel""".split()
)


@dataclass(slots=True)
class _Entry:
    """All that speaks for one candidate."""

    rule: str = "phrase"
    passage: str = ""
    sentence: str = ""
    names: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    definers: dict[str, str] = field(default_factory=dict)  # passage: rule
    stated: dict[str, None] = field(default_factory=dict)  # passages that state the result of this name
    aliases: dict[str, None] = field(default_factory=dict)
    people: set[str] = field(default_factory=set)


def build_concepts(
    passages: Sequence[Passage],
    documents: Iterable[Document],
    options: ConceptOptions = ConceptOptions(),  # noqa: B008 - frozen
    *,
    progress: Progress | None = None,
) -> ConceptGraph:
    """Concepts and their edges, in a fixed order; `passages` is read twice from front to back.

    Edges: passage `mentions`, `defines` and `proves` concept; between concepts `is_instance_of`, `uses`,
    `implies`, `generalizes`, `equivalent_to`, `related_to`. Each names its rule as maker and the passage that
    says so as evidence. An empty corpus gives an empty graph.
    """
    gathering = _Gathering(list(documents), options)
    total = len(passages)
    for done, passage in enumerate(passages):
        gathering.read(passage)
        if progress and done % 200 == 0:
            progress("candidates", done, total)
    chosen = gathering.choose()
    numbers, concepts, entries = _concepts(chosen, options)
    drawing = _Drawing(concepts, entries, numbers)
    for done, passage in enumerate(passages):
        drawing.read(passage)
        if progress and done % 200 == 0:
            progress("mentions", done, total)
    if progress:
        progress("mentions", total, total)
    if options.metadata:
        drawing.relate_declared(gathering.documents)
    return drawing.finish()


# ---------------------------------------------------------------- candidates of the whole corpus


class _Gathering:
    """What the first pass has seen: candidates, phrases, and how words are written."""

    def __init__(self, documents: Sequence[Document], options: ConceptOptions) -> None:
        self.documents = documents
        self.options = options
        self.entries: dict[str, _Entry] = {}
        self.seen: Counter[str] = Counter()  # passages with a phrase, by key
        self.times: Counter[str] = Counter()  # how often, by key
        self.single: Counter[str] = Counter()  # how often a word stands in a phrase, by normal form
        self.written: dict[str, str] = {}  # a phrase as it was first seen
        self.capital: Counter[str] = Counter()  # words within a sentence, by how they are written there
        self.small: Counter[str] = Counter()
        self.sections: dict[str, str] = {}  # title: the passage where it was first seen
        self.titles = {document.id: document for document in documents}
        self.credited: set[str] = set()  # results that the text credits to people, by key
        self.opened: set[str] = set()
        self.texts: set[int] = set()
        self.passages = 0
        if options.metadata:
            for document in documents:
                self._declared(document)

    def add(self, find: Find, passage: str, people: Iterable[str] = ()) -> None:
        key = key_of(find.name)
        entry = self.entries.setdefault(key, _Entry())
        if not entry.rules or _RANK[find.rule] < _RANK[entry.rule]:
            entry.rule, entry.passage, entry.sentence = find.rule, passage, find.sentence
        elif not entry.passage:
            entry.passage = passage
        if not entry.sentence:
            entry.sentence = find.sentence
        entry.rules[find.rule] += 1
        weight = 3 if find.rule in {"planetmath", "emphasis", "note"} else 1
        entry.names[find.name] += weight
        entry.kinds[find.kind] += weight
        entry.aliases.update(dict.fromkeys(find.aliases))
        entry.people.update(people)
        if find.rule in _DEFINING and passage:
            entry.definers.setdefault(passage, find.rule)

    def _declared(self, document: Document) -> None:
        """What an author declared about a document: PlanetMath's fields, or keywords."""
        for word in document.metadata.get("keywords", ()):
            name = clean_term(mask(str(word)))
            if name:
                self.add(Find(name, result_kind(name) or "object", "keywords"), "")
        declared: Mapping[str, Any] = document.metadata.get("planetmath", {})
        kind = _DECLARED.get(str(declared.get("type", "")))
        if kind is None:
            return
        title = re.sub(r"^\s*[A-Z]?\.?[\d.]+\s+", "", mask(document.title))
        name = clean_term(title)
        synonyms = [
            alias for text in declared.get("synonyms", ()) if (alias := clean_term(mask(text)) or _acronym(text))
        ]
        if name and _subject(name):
            if kind == "theorem" and not result_kind(name):
                name = ""  # a sentence or a description
            elif kind == "person" or len(name.split()) < 6:
                self.add(Find(name, result_kind(name) or kind, "planetmath", "", tuple(synonyms)), "")
        for text in declared.get("defines", ()):
            term = clean_term(mask(text))
            if term and _subject(term):
                self.add(Find(term, result_kind(term) or adjective_or_object(term), "planetmath"), "")

    def read(self, passage: Passage) -> None:
        """One passage of the first pass, in order."""
        self.passages += 1
        masked = without_references(mask(passage.text))
        german = is_german(masked)
        opening = passage.document not in self.opened
        self.opened.add(passage.document)
        for find in definienda(passage, masked, opening):
            self.add(find, passage.id)
        if passage.title:
            self._note(passage, german)
        if passage.section and passage.section not in self.sections:
            self.sections[passage.section] = passage.id
        if opening and self.options.titles and passage.document in self.titles:
            self._title(self.titles[passage.document].title, passage, masked)
        if german:
            return  # its capitals mean something else
        if passage.kind == "chunk" and hash(masked) in self.texts:
            return  # boilerplate counts once
        self.texts.add(hash(masked))
        proof = without_references(mask(passage.proof))
        for text in (masked, proof):
            for name, people in named_results(text):
                self.add(Find(name, result_kind(name) or "theorem", "named"), passage.id, people)
            self.credited.update(credited_results(text))
        self._count(masked, proof)

    def _note(self, passage: Passage, german: bool) -> None:
        name, trust = note_name(passage.title, passage.kind)
        nouns = r"(?:e|en|el|ung|satz|keit)'s " if german else r"(?:ome|en|formel|satz)'s "
        if trust == "people" and re.search(nouns, name):
            return  # a German noun, not a person
        if not name or passage.kind in {"exercise", "example", "remark", "remarks", "situation"}:
            return
        rule = {"sure": "note", "people": "people", "phrase": "note phrase"}[trust]
        kind = result_kind(name) or ("object" if rule == "note phrase" else "theorem")
        self.add(Find(name, kind, rule, "" if kind == "object" else " ".join(passage.text.split())), passage.id)
        if rule != "note phrase":
            self.entries[key_of(name)].stated[passage.id] = None

    def _title(self, title: str, passage: Passage, masked: str) -> None:
        text = f" {key_of(masked)} "
        for name in phrases_of_title(title):
            if _subject(name) and (f" {key_of(name)} " in text or result_kind(name)) and len(name.split()) < 6:
                self.add(Find(name, result_kind(name) or "object", "title"), passage.id)

    def _count(self, *texts: str) -> None:
        phrases: set[str] = set()
        for text in texts:
            for run in content_runs(text):
                words = [word for word, _ in run]
                for word, telling in run:
                    if telling:
                        part = word.split("-")[0].removesuffix("'s").removesuffix("’s")
                        (self.capital if part[0].isupper() else self.small)[part.casefold()] += 1
                for start in range(max(0, len(words) - 4), len(words)):
                    key = phrase_key(words[start:])
                    self.times[key] += 1
                    phrases.add(key)
                    if key not in self.written or self.times[key] == 20:  # by then sentence case has settled
                        self.written[key] = " ".join(words[start:])
                self.single.update(phrase_key([word]) for word in words)
        self.seen.update(phrases)

    # ------------------------------------------------------------ decisions

    def proper(self, word: str) -> bool:
        """Whether the corpus writes a word with a capital where others are small."""
        small = word.casefold().removesuffix("'s").removesuffix("’s")
        return self.capital[small] > 2 * self.small[small]

    def choose(self) -> dict[str, _Entry]:
        """The candidates that become concepts, by key, in the order found."""
        if self.options.titles:
            for section, passage in self.sections.items():
                for name in phrases_of_title(section):
                    words = name.split()
                    if (
                        _subject(name)
                        and len(words) > 1
                        and normal(words[-1]) not in _WEAK_HEADS
                        and self.seen[key_of(name)] >= 3
                    ):
                        self.add(Find(name, result_kind(name) or "object", "section"), passage)
        chosen = {key: entry for key, entry in self.entries.items() if self._holds(key, entry)}
        if self.options.phrases:
            for key in self._phrases(chosen):
                if key in self.entries:
                    chosen[key] = self.entries[key]
                else:
                    name = self.written[key]
                    self.add(Find(name, "object", "phrase"), "")
                    chosen[key] = self.entries[key]
        for entry in chosen.values():
            kind = min(entry.kinds, key=lambda kind: (-entry.kinds[kind], kind))
            names: Counter[str] = Counter()
            for name, number in entry.names.items():
                names[self._spelled(name, kind)] += number
            entry.names = names
        return chosen

    def _holds(self, key: str, entry: _Entry) -> bool:
        rules = entry.rules
        words = key.split()
        if {"planetmath", "emphasis", "stress", "note", "by we mean", "keywords"} & rules.keys():
            return True
        if any(word in GENERIC_ADJECTIVES for word in words):
            return False
        if "named" in rules or "people" in rules:
            people = entry.people or {word for name in entry.names for word in re.findall(r"[A-ZÄÖÜ][^\W\d_]+", name)}
            if "named" not in rules and (len(entry.stated) > 1 or key not in self.credited):
                return False  # several results of the same people, or a name that nobody uses
            known = "people" in rules or rules["named"] > 1 or any("'" in name or "’" in name for name in entry.names)
            if all(not self.small[word.casefold()] and (known or self.capital[word.casefold()]) for word in people):
                return True
        strong = sum(rules[rule] for rule in ("is a", "called", "say that"))
        if len(words) > 1:
            if strong or "title" in rules:
                return True
            if "defined as" in rules or "section" in rules or "note phrase" in rules:
                return self.seen[key] >= 2
            return False
        if strong and "title" in rules:
            return True
        return strong >= 2 or (strong == 1 and self.seen[key] >= 3 and not key.endswith("ed"))

    def _phrases(self, chosen: Mapping[str, _Entry]) -> Iterator[str]:
        """Frequent phrases whose words definitions have used in the same places, and that stick together."""
        heads: Counter[str] = Counter()
        modifiers: Counter[str] = Counter()
        for key, entry in chosen.items():
            words = key.split()
            if entry.kinds.most_common(1)[0][0] == "object":
                heads[words[-1]] += 1
                modifiers.update(words[:-1])
            elif entry.kinds.most_common(1)[0][0] == "definition":
                modifiers.update(words)
        longer: Counter[str] = Counter()  # how often the commonest longer phrase ends with this one
        for key, times in self.times.items():
            shorter = key.partition(" ")[2]
            if shorter:
                longer[shorter] = max(longer[shorter], times)
        least = self.options.least or max(3, round(math.log2(self.passages + 1)) - 4)
        total = sum(self.single.values())
        for key, seen in self.seen.items():
            words = [phrase_key([word]) for word in self.written[key].split()]
            if seen < least or not 2 <= len(words) <= 3 or key in chosen or 2 * longer[key] > self.times[key]:
                continue  # rare, a whole clause, or a piece of a longer name
            head = words[-1]
            if not heads[head] or head in GENERIC_NOUNS | RESULT | _WEAK_HEADS or adjective_or_object(head) != "object":
                continue
            before = " ".join(words[:-1]).split()
            if any(
                word in GENERIC_ADJECTIVES or word in GENERIC_NOUNS or word in _LOOSE_MODIFIERS or len(word) < 3
                for word in before
            ):
                continue
            if not all(modifiers[word] or self.proper(word) for word in before):
                continue
            if clean_term(self.written[key]) == "" or self.written[key].split()[-1][0].isupper():
                continue
            rest = self.times[" ".join(words[1:])]
            together = math.log2(self.times[key] * total / (max(1, self.single[words[0]]) * max(1, rest)))
            if together >= (4 if len(words) == 2 else 8):
                yield key

    def _spelled(self, name: str, kind: str) -> str:
        """A name in small letters but for words that the corpus writes large, and an object in the singular."""
        words = name.split(" ")
        for place, word in enumerate(words):
            first = re.match(r"[^\W\d_]+", word)
            if first and len(first[0]) > 1 and first[0].istitle():
                plain = first[0].casefold()
                if self.small[plain] > self.capital[plain] or plain in RESULT:
                    words[place] = word[0].lower() + word[1:]
        last = words[-1]
        lower = last.isascii() and last.isalpha() and last.islower()
        if kind == "object" and INNER.isdisjoint(words) and lower and self.single[normal(last)]:
            words[-1] = singular(last)
        return " ".join(words)


def _subject(name: str) -> bool:
    """Whether a title names its subject rather than what is done with it."""
    words = [word.casefold() for word in name.split()]
    return (
        words[0] not in TITLE_FRAME_WORDS
        and words[-1] not in TITLE_FRAME_WORDS
        and " and " not in f" {' '.join(words)} "
    )


def _acronym(text: str) -> str:
    return text.strip() if re.fullmatch(r"[A-Z]{2,6}", text.strip()) else ""


# ---------------------------------------------------------------- records


def _concepts(
    chosen: Mapping[str, _Entry], options: ConceptOptions
) -> tuple[dict[str, int], list[Concept], list[_Entry]]:
    """Numbers of all keys (names before aliases), the concepts, and what spoke for each."""
    numbers: dict[str, int] = {}
    concepts: list[Concept] = []
    entries: list[_Entry] = []
    used: set[str] = set()
    taken = {key_of(alias) for entry in chosen.values() for alias in entry.aliases if alias.isupper()}
    for key, entry in chosen.items():
        if key in taken and len(key) < 4:
            continue
        name = min(entry.names, key=lambda name: (-entry.names[name], len(name), name))
        kind = min(entry.kinds, key=lambda kind: (-entry.kinds[kind], kind))
        identity = "concept:" + slug(name)
        while identity in used:
            identity += "-2"  # different keys, one slug: rare
        used.add(identity)
        sentence = entry.sentence
        if len(sentence) > options.longest_description:
            sentence = sentence[: options.longest_description].rsplit(" ", 1)[0] + " …"
        numbers[key] = len(concepts)
        aliases = tuple(alias for alias in entry.aliases if key_of(alias) not in chosen)
        concepts.append(Concept(identity, name, kind, sentence, aliases))
        entries.append(entry)
    for number, concept in enumerate(concepts):
        for alias in concept.aliases:
            numbers.setdefault(key_of(alias), number)
    return numbers, concepts, entries


# ---------------------------------------------------------------- edges


_OTHER_NAME = re.compile(
    r"[,\s(]*(?:or|(?:(?:is|are)\s+)?(?:(?:also|sometimes|often)\s+)+(?:known\s+as|called|termed))\s+(?:simply\s+)?(?:(?:an?|the)\s+)?"
)


class _Drawing:
    """What the second pass draws: mentions, and relations with their evidence; the first evidence stays."""

    def __init__(self, concepts: list[Concept], entries: list[_Entry], numbers: dict[str, int]) -> None:
        self.concepts = concepts
        self.entries = entries
        self.numbers = numbers
        self.kinds = [concept.kind for concept in concepts]
        names = [(concept.name, number) for number, concept in enumerate(concepts)]
        names += [(alias, number) for number, concept in enumerate(concepts) for alias in concept.aliases]
        self.trie = name_trie(names)
        self.defines: dict[str, list[int]] = {}
        self.states: dict[str, list[int]] = {}
        for number, entry in enumerate(entries):
            for passage in entry.definers:
                self.defines.setdefault(passage, []).append(number)
            for passage in entry.stated:
                self.states.setdefault(passage, []).append(number)
        self.edges: list[Edge] = []
        self.relations: dict[tuple[int, str, int], tuple[str, str]] = {}  # to evidence and rule
        self.evidence: dict[int, str] = {}  # where a concept was first mentioned
        self.open: list[tuple[int, str, str]] = []  # named results whose proofs refer to passages
        self.opening: dict[str, str] = {}  # first passage of each document

    def relate(self, source: int, relation: str, target: int, evidence: str, rule: str) -> None:
        if source != target:
            self.relations.setdefault((source, relation, target), (evidence, rule))

    def read(self, passage: Passage) -> None:
        """One passage of the second pass, in order."""
        self.opening.setdefault(passage.document, passage.id)
        text, proof = without_references(mask(passage.text)), mask(passage.proof)
        in_text = find_mentions(text, self.trie)
        in_proof = find_mentions(proof, self.trie)
        mentioned = dict.fromkeys(match.number for match in find_mentions(mask(passage.title), self.trie))
        mentioned.update(dict.fromkeys(match.number for match in in_text))
        mentioned.update(dict.fromkeys(match.number for match in in_proof))
        for number in self.defines.get(passage.id, ()):
            rule = self.entries[number].definers[passage.id]
            self.edges.append(Edge(passage.id, "defines", self.concepts[number].id, passage.id, rule))
        for number in self.states.get(passage.id, ()):
            mentioned[number] = None
            if passage.proof:
                self.edges.append(Edge(passage.id, "proves", self.concepts[number].id, passage.id, "note"))
        for number in mentioned:
            self.evidence.setdefault(number, passage.id)
            self.edges.append(Edge(passage.id, "mentions", self.concepts[number].id, passage.id, "mentions"))
        self._sentences(passage, text, in_text)
        for number in self.states.get(passage.id, ()):
            for match in in_text:
                if self._specific(match.number):
                    self.relate(number, "uses", match.number, passage.id, "statement")
            for match in in_proof:
                if self.kinds[match.number] in {"theorem", "formula", "identity"}:
                    self.relate(number, "uses", match.number, passage.id, "proof")
            for link in passage.links:
                if link.relation == "proof_uses" and link.target:
                    self.open.append((number, link.target, passage.id))

    def _specific(self, number: int) -> bool:
        """Whether a mention says enough: single adjectives and measures mean too many things."""
        if self.concepts[number].name in LOOSE_HEADS:
            return False
        return (
            self.kinds[number] != "definition" or " " in self.concepts[number].name or "-" in self.concepts[number].name
        )

    def _sentences(self, passage: Passage, text: str, matches: list[Match]) -> None:
        defined = set(self.defines.get(passage.id, ()))
        at = 0
        for start, end in sentence_spans(text):
            while at < len(matches) and matches[at].start < start:
                at += 1
            last = at
            while last < len(matches) and matches[last].end <= end:
                last += 1
            inside = [Match(match.start - start, match.end - start, match.number) for match in matches[at:last]]
            at = last
            if len(inside) < 2:
                continue
            for found in sentence_relations(text[start:end], inside, self.kinds):
                self.relate(found.source, found.relation, found.target, passage.id, found.rule)
            numbers = dict.fromkeys(match.number for match in inside)
            same = {
                frozenset((left.number, right.number))
                for left, right in itertools.pairwise(inside)
                if _OTHER_NAME.fullmatch(text, start + left.end, start + right.start)
            }
            sentence = " ".join(passage.text[start:end].split())
            for number in sorted(defined & numbers.keys()):
                if self.entries[number].passage == passage.id and self.entries[number].sentence == sentence:
                    for other in numbers:
                        if other not in defined and self._specific(other) and frozenset((number, other)) not in same:
                            self.relate(number, "uses", other, passage.id, "defining sentence")

    def relate_declared(self, documents: Iterable[Document]) -> None:
        """PlanetMath's own `related`, between the subjects of two articles."""
        subjects: dict[str, tuple[int, str]] = {}
        declared: list[tuple[str, str]] = []
        for document in documents:
            fields: Mapping[str, Any] = document.metadata.get("planetmath", {})
            name = str(fields.get("name", ""))
            number = self.numbers.get(key_of(clean_term(mask(document.title)))) if name else None
            if number is not None:
                subjects[name] = (number, self.opening.get(document.id, ""))
                declared += [(name, str(other)) for other in fields.get("related", ())]
        for name, other in declared:
            if other in subjects and (subjects[other][0], "related_to", subjects[name][0]) not in self.relations:
                self.relate(subjects[name][0], "related_to", subjects[other][0], subjects[name][1], "planetmath")

    def finish(self) -> ConceptGraph:
        """The graph: first what passages say of concepts, then what concepts have to do with each other."""
        for number, stated, evidence in self.open:
            for other in self.states.get(stated, ()):
                self.relate(number, "uses", other, evidence, "proof")
        names = [concept.name for concept in self.concepts]
        for found in name_relations(names, {key_of(name): number for number, name in enumerate(names)}, self.kinds):
            evidence = self.entries[found.source].passage or self.evidence.get(found.source, "")
            self.relate(found.source, found.relation, found.target, evidence, found.rule)
        identities = [concept.id for concept in self.concepts]
        for (source, relation, target), (evidence, rule) in self.relations.items():
            self.edges.append(Edge(identities[source], relation, identities[target], evidence, rule))
        origins = {
            concept.id: (entry.rule, entry.passage or self.evidence.get(number, ""))
            for number, (concept, entry) in enumerate(zip(self.concepts, self.entries, strict=True))
        }
        return ConceptGraph(self.concepts, self.edges, origins)
