"""Concepts of a corpus, their relations and their mentions: by rules, without a model.

Two passes over the passages: the first collects candidates and counts phrases, the second finds mentions and
relations. The same corpus always gives the same graph. `merge` unites different spellings of one concept.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lemmata.core.types import Concept, Document, Edge, Passage, Progress
from lemmata.core.words import GENERIC_ADJECTIVES, GENERIC_NOUNS, TITLE_FRAME_WORDS, language_of, singular, slug
from lemmata.core.workers import cluster_map
from lemmata.graph.concepts.candidates import (
    Candidate,
    Evidence,
    ReadEvidence,
    Run,
    begins_prose,
    mask_references,
    phrase_key,
    read_evidence,
    title_phrases,
)
from lemmata.graph.concepts.definitions import LONGEST_DEFINITION, statement_of
from lemmata.graph.concepts.german import (
    compound_relations,
    german_key,
    german_kind,
    german_normal,
    german_relations,
    nominative,
)
from lemmata.graph.concepts.mentions import Mention, find_mentions, name_trie
from lemmata.graph.concepts.prose import ProseTerms, is_term
from lemmata.graph.concepts.relations import LOOSE_HEADS, name_relations, sentence_relations
from lemmata.graph.concepts.terms import (
    INNER_WORDS,
    RESULT_NOUNS,
    clean_term,
    key_of,
    mask,
    normal,
    property_or_object,
    result_kind,
    sentence_spans,
    sure_kind,
)


class ConceptGraph(NamedTuple):
    """Concepts, and the edges between them and from passages to them."""

    concepts: list[Concept]
    edges: list[Edge]


_COMMON_USES, _COMMON_SHARE = 12, 0.25  # passages that use a word before or without its definition, and their share
_BATCH = 200  # passages that a process of a cluster reads at once
_ABOUT = 3  # what the heading above a sentence adds to its weight if it names the term
_LONGEST_TITLE = 5  # words of a title that is a name, not a sentence
# Most trusted first; the best rule gives a concept its description and origin. Name and kind are voted on, in `add`.
_RULES = (
    "planetmath",  # title, synonyms and `defines` of a PlanetMath article
    "glossary",  # a marked term that begins a line, and after a colon or dash what it is
    "emphasis",  # an emphasised term in a definition, or where the words around it define it
    "index",  # in the author's index, or marked by a macro for new terms
    "by we mean",  # `by a flag we mean`
    "note",  # the note of a statement that names a result: `Hook length formula`
    "is a",  # the subject of `A flag is a`, in definitions and where a document begins
    "called",  # `is called a flag`, `we call it a flag`, and in German
    "say that",  # `we say that it is flat if`
    "keywords",  # keywords that the author gave a document
    "acronym",  # in prose, the long form of an acronym: `restricted Boltzmann machine (RBM)`
    "defined as",  # `the degree is defined as`
    "named",  # a result in running text that is named after people: `Zorn's lemma`
    "people",  # the note of a statement that only names people: `Gordon, 1961` gives `Gordon's theorem`
    "stress",  # an emphasised term that the words around it introduce but do not define
    "title",  # a phrase in a document's title that its first passage repeats, or that names a result
    "note phrase",  # any other note of a statement
    "section",  # a phrase in a section's title that several passages use
    "subject",  # of `A flag is a` anywhere else: never makes a concept, but defines one
    "phrase",  # a frequent phrase: made of words that defined terms use, or a noun phrase of prose
    "name",  # in prose, a name written with capitals inside: `ImageNet`
)
_RANK = {rule: rank for rank, rule in enumerate(_RULES)}
_DEFINING = frozenset(
    ("glossary", "emphasis", "by we mean", "is a", "called", "say that", "defined as")
)  # give `defines` edges
_SUFFICIENT = frozenset(
    ("planetmath", "glossary", "emphasis", "index", "stress", "note", "by we mean", "keywords")
)  # one use is enough
_ACRONYM = re.compile(r"^\s*([A-Z]{2,6})\s*$")
_PLANETMATH_KINDS = {
    "Definition": "object", "Data Structure": "object", "Topic": "object", "Theorem": "theorem",
    "Corollary": "theorem", "Axiom": "theorem", "Conjecture": "conjecture", "Algorithm": "technique",
    "Biography": "person",
}  # fmt: skip
_GERMAN = "de:"  # before the keys of German names


def _german(name: str) -> str:
    return _GERMAN + german_key(name)


_LETTERS = re.compile(r"[^\W\d_]+")
_PROSE_KINDS = frozenset(("abstract", "chunk", "log", "text"))
_PASSAGES_PER_STATEMENT = 20  # in prose there are more
_SURNAME = re.compile(r"[A-ZÄÖÜÉÈŁŠČŻ][^\W\d_A-Z]+")
_NO_RESULTS = frozenset("definition question problem notation assumption construction convention property".split())
_COMMON_RESULTS = frozenset("method technique procedure test rule relation problem bound".split())
# Words that make no concept of their own out of the noun after them, in frequent phrases.
_NOT_MODIFIERS = (
    GENERIC_ADJECTIVES
    | GENERIC_NOUNS
    | frozenset(
        """finite infinite induced natural canonical countable disjoint upper lower vertical horizontal functorial
        vanishing higher nth pth kth ith ascending descending opposite adjacent surjective integer classical
        mathematical inner outer empty""".split()
    )
)
_WEAK_HEADS = frozenset(
    """system structure choice pair family member copy version theory part arrow image number object union state
    kernel""".split()
)
_NOT_HEADS = GENERIC_NOUNS | RESULT_NOUNS | _WEAK_HEADS


def build_concepts(
    passages: Sequence[Passage],
    documents: Iterable[Document],
    *,
    read: ReadEvidence = read_evidence,
    progress: Progress | None = None,
) -> ConceptGraph:
    """Concepts and their edges, in a fixed order; `passages` is iterated twice, `read` may remember passages.

    Besides definitions and named results, concepts come from what authors declare (keywords, PlanetMath's fields), from
    titles of documents and sections where the text confirms them, and from frequent noun phrases of words that
    definitions use.

    Edges: passage `mentions`, `defines` and `proves` concept; between concepts `is_instance_of`, `uses`,
    `implies`, `generalizes`, `equivalent_to`, `related_to`. Each names its rule as maker and the passage that
    states it as evidence. An empty corpus gives an empty graph.
    """
    collector = _Collector(documents, read)
    collector.read_metadata()
    for passage in _reported(passages, "candidates", progress):
        collector.read(passage)
    builder = _Builder(collector.choose())
    for passage, found in cluster_map(builder.read, _reported(passages, "mentions", progress), batch=_BATCH):
        builder.add(passage, found)
    builder.relate_declared(collector.documents.values())
    return builder.finish()


def _reported(passages: Sequence[Passage], what: str, progress: Progress | None) -> Iterator[Passage]:
    total = len(passages)
    for done, passage in enumerate(passages):
        yield passage.bare()
        if progress and (done % 200 == 0 or done == total - 1):
            progress(what, done + 1, total)


# ---------------------------------------------------------------- first pass: candidates


@dataclass(slots=True)
class _Entry:
    rule: str = "phrase"
    passage: str = ""
    sentence: str = ""
    weight: int = -1  # of the sentence
    uses_before: int = 0  # passages that used the name before the one with the sentence
    uses_after: int = 0  # those after it in the same document
    own_sense: bool = False  # whether the sentence is known to be about the name itself
    names: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    definers: dict[str, str] = field(default_factory=dict)  # passage: rule
    stated: dict[str, None] = field(default_factory=dict)  # passages that state the result of this name
    aliases: dict[str, None] = field(default_factory=dict)
    people: set[str] = field(default_factory=set)
    german: bool = False

    @property
    def kind(self) -> str:
        return min(self.kinds, key=lambda kind: (-self.kinds[kind], kind))


class _Collector:
    """State of the first pass: candidates, phrases, and how words are written."""

    def __init__(self, documents: Iterable[Document], read: ReadEvidence) -> None:
        self.read_evidence = read
        self.documents = {document.id: document for document in documents}
        self.entries: dict[str, _Entry] = {}
        self.passages_with: Counter[str] = Counter()  # phrase key: number of passages
        self.uses: Counter[str] = Counter()  # phrase key: number of uses
        self.word_uses: Counter[str] = Counter()  # normal form of a word: number of uses in phrases
        self.written: dict[str, str] = {}  # phrase key: the phrase as written at its first or 20th use
        self.capital: Counter[str] = Counter()  # word in lower case: uses with a capital inside a sentence
        self.small: Counter[str] = Counter()  # word in lower case: uses without one
        self.sections: dict[str, str] = {}  # section title: the first passage below it
        self.credited: set[str] = set()  # keys of results that the text credits to people
        self.declared: dict[str, frozenset[str]] = {}  # document: keys of the terms that its author says it defines
        self.opened: set[str] = set()  # documents of which a passage was read
        self.defined_here: dict[str, _Entry] = {}  # by key, those that the document read last defines
        self.texts: set[str] = set()  # hashes of the masked texts read so far
        self.passages = 0
        self.statements = 0
        self.definitions = 0  # statements of that kind
        self.prose = ProseTerms()

    def add(self, candidate: Candidate, passage: str, german: bool = False, own_sense: bool = False) -> _Entry:
        key = _german(candidate.name) if german else key_of(candidate.name)
        entry = self.entries.setdefault(key, _Entry(german=german))
        if not entry.rules or _RANK[candidate.rule] < _RANK[entry.rule]:
            entry.rule = candidate.rule
        if candidate.sentence and candidate.weight > entry.weight:
            entry.passage, entry.sentence, entry.weight = passage, candidate.sentence, candidate.weight
            entry.uses_before, entry.own_sense = self.passages_with[key], own_sense
            self.defined_here[key] = entry
        entry.passage = entry.passage or passage
        entry.rules[candidate.rule] += 1
        weight = 3 if candidate.rule in {"planetmath", "glossary", "emphasis", "note"} else 1
        entry.names[candidate.name] += weight
        kind = candidate.kind if german else sure_kind(candidate.name) or candidate.kind
        entry.kinds[kind or "object"] += weight * bool(kind)
        entry.aliases.update(dict.fromkeys(candidate.aliases))
        if candidate.rule in _DEFINING and passage:
            entry.definers.setdefault(passage, candidate.rule)
        return entry

    def read_metadata(self) -> None:
        """What authors declared about their documents: keywords, or PlanetMath's fields."""
        for document in self.documents.values():
            for word in document.metadata.get("keywords", ()):
                if name := clean_term(mask(str(word))):
                    self.add(Candidate(name, "object", "keywords"), "")
            if declared := document.metadata.get("planetmath"):
                self._read_planetmath(document, declared)

    def _read_planetmath(self, document: Document, declared: Mapping[str, Any]) -> None:
        terms = (document.title, *declared.get("synonyms", ()), *declared.get("defines", ()))
        self.declared[document.id] = frozenset(key_of(mask(term)) for term in terms)
        kind = _PLANETMATH_KINDS.get(str(declared.get("type", "")))
        if kind is None:
            return
        name = clean_term(re.sub(r"^\s*[A-Z]?\.?[\d.]+\s+", "", mask(document.title)))
        synonyms = (clean_term(mask(text)) or "".join(_ACRONYM.findall(text)) for text in declared.get("synonyms", ()))
        is_sentence = kind == "theorem" and not result_kind(name)  # or a description, not a name
        if _names_subject(name) and not is_sentence and (kind == "person" or len(name.split()) <= _LONGEST_TITLE):
            self.add(Candidate(name, kind, "planetmath", "", tuple(filter(None, synonyms))), "")
        for text in declared.get("defines", ()):
            term = clean_term(mask(text))
            if _names_subject(term):
                self.add(Candidate(term, property_or_object(term), "planetmath"), "")

    def read(self, passage: Passage) -> None:
        """One passage of the first pass, in order."""
        self.passages += 1
        self.statements += passage.kind not in _PROSE_KINDS
        self.definitions += passage.kind == "definition"
        opening = passage.document not in self.opened
        if opening:
            self._close_document()
        self.opened.add(passage.document)
        document = self.documents.get(passage.document)
        title = (document.title if document else "") if opening else None
        evidence = self.read_evidence(passage, title)
        headings = (document.title if document else "", passage.title, passage.section.rpartition(" / ")[2])
        declared = self.declared.get(passage.document, frozenset())
        about = declared.union(key_of(mask(heading)) for heading in headings)
        is_later = passage.kind in _PROSE_KINDS and not begins_prose(passage)
        for candidate in evidence.defined:
            is_about = key_of(candidate.name) in about
            if declared and (not is_about or is_later):  # an article defines where it begins, what it declares
                candidate = candidate._replace(sentence="")
            candidate = candidate._replace(weight=candidate.weight + _ABOUT * is_about)
            # a book that defines in prose only; prose is read after all statements, so that uses before it are unknown
            in_prose = passage.kind in _PROSE_KINDS and len(self.documents) < 2 and not self.definitions
            begins = candidate.sentence.casefold().startswith((f"a {candidate.name}", f"an {candidate.name}"))
            is_subject = candidate.rule == "glossary" or (passage.kind == "definition" and begins)
            self.add(candidate, passage.id, evidence.german, is_about or in_prose or is_subject)
        if passage.title and passage.kind not in _PROSE_KINDS:
            self._read_note(passage, *evidence.note, evidence.german)
        if passage.section:
            self.sections.setdefault(passage.section, passage.id)
        for name in evidence.titled:
            if _names_subject(name) and len(name.split()) <= _LONGEST_TITLE:
                self.add(Candidate(name, "object", "title"), passage.id)
        if evidence.german:  # capitalises all nouns, so capitals say nothing about names
            self._read_german(passage, evidence)
            return
        if passage.kind == "chunk" and evidence.digest in self.texts:
            return  # boilerplate counts once
        self.texts.add(evidence.digest)
        for name, people in evidence.named:
            self.add(Candidate(name, "", "named"), passage.id).people.update(people)
        self.credited.update(evidence.credited)
        self._count_phrases(evidence.runs)
        if self.is_prose and passage.kind != "log":
            self.prose.read(mask_references(mask(passage.text)), title or "")

    def _read_german(self, passage: Passage, evidence: Evidence) -> None:
        """Results with names, and how many passages use a noun with at most one adjective."""
        for name, _ in evidence.named:
            self.add(Candidate(name, "theorem", "named"), passage.id, german=True)
            self.credited.add(_german(name))
        keys: dict[str, None] = {}
        for phrase in evidence.phrases:
            key = _german(phrase)
            keys[key] = None
            if key not in self.written or len(phrase) < len(self.written[key]):
                self.written[key] = phrase
        self.passages_with.update(keys.keys())

    def _read_note(self, passage: Passage, name: str, rule: str, german: bool) -> None:
        if rule == "people" and re.search(r"(?:ome|en|formel|satz)'s ", name):
            return  # a German noun, not a person
        if not name or passage.kind in {"exercise", "example", "remark", "remarks", "situation"}:
            return
        kind = "object" if rule == "note phrase" or passage.kind in _NO_RESULTS else "theorem"
        if german:
            kind = german_kind(name, kind)
        else:
            kind = sure_kind(name) or (result_kind(name) if kind == "theorem" else "") or kind
        sentence = ""
        if kind != "object":
            sentence = " ".join(passage.text.split()) if german else statement_of(name, passage.text)
        entry = self.add(Candidate(name, kind, rule, sentence), passage.id, german)
        if rule != "note phrase":
            entry.stated[passage.id] = None

    def _count_phrases(self, runs: Iterable[Run]) -> None:
        keys: dict[str, None] = {}  # a set would lose the order
        for inside, words, word_keys in runs:
            for word in words if inside else words[1:]:
                part = word.split("-")[0].removesuffix("'s").removesuffix("’s")
                (self.capital if part[0].isupper() else self.small)[part.casefold()] += 1
            for start in range(max(0, len(words) - 4), len(words)):
                key = " ".join(word_keys[start:])
                self.uses[key] += 1
                keys[key] = None
                if key not in self.written or self.uses[key] == 20:  # by then sentence case has settled
                    self.written[key] = " ".join(words[start:])
            self.word_uses.update(word_keys)
        self.passages_with.update(keys.keys())

    def _close_document(self) -> None:
        for key, entry in self.defined_here.items():
            entry.uses_after = self.passages_with[key] - entry.uses_before
        self.defined_here.clear()

    # ------------------------------------------------------------ decisions

    def _drop_special_senses(self) -> None:
        """Drop the definitions of words that the corpus uses anyway, before or without them: of `map` that of $G$-sets.

        A text whose heading is the word is about the word itself, and so is a definition that begins with it.
        """
        self._close_document()
        for key, entry in self.entries.items():
            elsewhere = self.passages_with[key] - entry.uses_after
            common = elsewhere >= max(_COMMON_USES, _COMMON_SHARE * self.passages_with[key])
            if entry.sentence and " " not in key and common and not entry.own_sense:
                entry.sentence = ""

    @property
    def is_prose(self) -> bool:
        """Whether statements are so few that terms are used without being defined."""
        return self.statements * _PASSAGES_PER_STATEMENT < self.passages

    def choose(self) -> dict[str, _Entry]:
        """The candidates that become concepts, by key, in the order of first appearance."""
        self._drop_special_senses()
        for section, passage in self.sections.items():
            for name in title_phrases(section):
                strong = " " in name and normal(name.split()[-1]) not in _WEAK_HEADS
                if strong and _names_subject(name) and self.passages_with[key_of(name)] >= 3:
                    self.add(Candidate(name, "object", "section"), passage)
        chosen = {key: entry for key, entry in self.entries.items() if self._is_concept(key, entry)}
        if self.is_prose:
            chosen = {key: entry for key, entry in chosen.items() if self._is_term_of_prose(key, entry)}
        for key in list(self._german_phrases(chosen)):
            chosen[key] = self.add(Candidate(self.written[key], "object", "phrase"), "", german=True)
        if self.is_prose:
            for candidate in self.prose.candidates():
                chosen[key_of(candidate.name)] = self.add(candidate, "")
        else:
            for key in list(self._frequent_phrases(chosen)):
                if key not in self.entries:
                    self.add(Candidate(self.written[key], "object", "phrase"), "")
                chosen[key] = self.entries[key]
        for entry in chosen.values():
            names: Counter[str] = Counter()
            for name, number in entry.names.items():
                names[nominative(name) if entry.german else self._spelled(name, entry.kind)] += number
            entry.names = names
        return chosen

    def _is_concept(self, key: str, entry: _Entry) -> bool:
        rules = entry.rules
        words = key.split()
        if not _SUFFICIENT.isdisjoint(rules):
            return True
        if entry.german and "named" in rules:
            return True
        if not GENERIC_ADJECTIVES.isdisjoint(words):
            return False
        if "named" in rules or "people" in rules:
            if "named" not in rules and (len(entry.stated) > 1 or key not in self.credited):
                return False  # several results of the same people, or a name that nobody uses
            people = entry.people or {word for name in entry.names for word in re.findall(r"[A-ZÄÖÜ][^\W\d_]+", name)}
            sure = "people" in rules or rules["named"] > 1 or any("'" in name or "’" in name for name in entry.names)
            if all(not self.small[word.casefold()] and (sure or self.capital[word.casefold()]) for word in people):
                return True
        definitions = sum(rules[rule] for rule in ("is a", "called", "say that"))
        if len(words) > 1:
            if definitions or "title" in rules:
                return True
            weaker = "defined as" in rules or "section" in rules or "note phrase" in rules
            return weaker and self.passages_with[key] >= 2
        if definitions and "title" in rules:
            return True
        return definitions >= 2 or (definitions == 1 and self.passages_with[key] >= 3 and not key.endswith("ed"))

    def _is_term_of_prose(self, key: str, entry: _Entry) -> bool:
        """Whether a candidate is also an index term where authors emphasise and entitle as they like."""
        if entry.german or not {"planetmath", "keywords", "index", "glossary"}.isdisjoint(entry.rules):
            return True
        if "emphasis" in entry.rules and entry.sentence:
            return True
        words = max(entry.names, key=lambda name: entry.names[name]).split()
        if not is_term(words):
            return False
        if "named" in entry.rules or "people" in entry.rules:
            people = [person for person in entry.people if self.capital[person.casefold()]]
            if people and len(people) == len(entry.people) and all(map(_SURNAME.fullmatch, people)):
                possessive = any("'" in name or "’" in name for name in entry.names)
                if possessive or normal(words[-1]) not in _COMMON_RESULTS or entry.rules["named"] > 2:
                    return True
        if len(words) == 1:
            return sum(entry.rules[rule] for rule in _DEFINING) > 1 and self.passages_with[key] >= 3
        if not _DEFINING.isdisjoint(entry.rules) or "stress" in entry.rules:
            noun = property_or_object(words[-1]) == "object" and not words[0].endswith(("ly", "ed"))
            return (noun and len(words) <= 4 and INNER_WORDS.isdisjoint(words[:-1])) or "of" in words[1:2]
        return self.prose.framed[key] > 1

    def _german_phrases(self, chosen: Mapping[str, _Entry]) -> Iterator[str]:
        """Keys of German phrases of a defined property and object, and of compounds that end with a defined object."""
        german = {key.removeprefix(_GERMAN): entry for key, entry in chosen.items() if entry.german}
        objects = {key for key, entry in german.items() if entry.kind == "object" and len(key) > 3}
        properties = {key for key, entry in german.items() if entry.kind == "definition"}
        for key, passages in self.passages_with.items():
            words = key.removeprefix(_GERMAN).split()
            if not key.startswith(_GERMAN) or key in chosen or len(words) > 2:
                continue
            if len(words) == 2:
                if passages >= 2 and words[0] in properties and words[1] in objects:
                    yield key
            elif passages >= 3 and any(words[0][place:] in objects for place in range(3, len(words[0]))):
                yield key

    def _frequent_phrases(self, chosen: Mapping[str, _Entry]) -> Iterator[str]:
        """Keys of frequent, cohesive phrases whose head and modifiers also occur as such in defined terms.

        A modifier may also be a proper name.
        """
        heads: set[str] = set()
        modifiers: set[str] = set()
        for key, entry in chosen.items():
            words = key.split()
            kind = entry.kinds.most_common(1)[0][0]
            if kind == "object":
                heads.add(words[-1])
                modifiers.update(words[:-1])
            elif kind == "definition":
                modifiers.update(words)
        longer: Counter[str] = Counter()  # uses of the commonest longer phrase that ends with this one
        for key, uses in self.uses.items():
            shorter = key.partition(" ")[2]
            if shorter:
                longer[shorter] = max(longer[shorter], uses)
        fewest = max(3, round(math.log2(self.passages + 1)) - 4)  # passages; a large corpus repeats more by chance
        total = sum(self.word_uses.values())
        for key, passages in self.passages_with.items():
            written = self.written[key]
            words = [phrase_key([word]) for word in written.split()]
            if passages < fewest or not 2 <= len(words) <= 3 or key in chosen or 2 * longer[key] > self.uses[key]:
                continue  # rare, a whole clause, or a part of a longer name
            head = words[-1]
            if head not in heads or head in _NOT_HEADS or property_or_object(head) != "object":
                continue
            before = " ".join(words[:-1]).split()
            if any(word in _NOT_MODIFIERS or len(word) < 3 for word in before):
                continue
            if not all(word in modifiers or self.capital[word] > 2 * self.small[word] for word in before):
                continue  # a proper name has a capital inside sentences
            if not clean_term(written) or written.split()[-1][0].isupper():
                continue
            # pointwise mutual information of the first word and the rest, in bits
            rest = self.uses[" ".join(words[1:])]
            bits = math.log2(self.uses[key] * total / (max(1, self.word_uses[words[0]]) * max(1, rest)))
            if bits >= (4 if len(words) == 2 else 8):
                yield key

    def _lowered(self, part: re.Match[str]) -> str:
        """A word or a part of a hyphenated word, without its capital where the corpus mostly writes none."""
        lower = part[0].casefold()
        if (
            len(part[0]) > 1
            and part[0].istitle()
            and (self.small[lower] > self.capital[lower] or lower in RESULT_NOUNS)
        ):
            return part[0][0].lower() + part[0][1:]
        return part[0]

    def _spelled(self, name: str, kind: str) -> str:
        """A name in lower case except for words that the corpus capitalises; an object in the singular."""
        words = name.split(" ")
        for place, word in enumerate(words):
            words[place] = _LETTERS.sub(self._lowered, word)
        last = words[-1]
        plain = last.isascii() and last.isalpha() and last.islower()
        if kind == "object" and INNER_WORDS.isdisjoint(words) and plain and self.word_uses[normal(last)]:
            words[-1] = singular(last)
        return " ".join(words)


def _names_subject(name: str) -> bool:
    """Whether a title names its subject rather than what is done with it."""
    words = name.casefold().split()
    return bool(words) and TITLE_FRAME_WORDS.isdisjoint((words[0], words[-1])) and "and" not in words


# ---------------------------------------------------------------- second pass: edges

_OTHER_NAME = re.compile(
    r"[,\s(]*(?:or|(?:(?:is|are)\s+)?(?:(?:also|sometimes|often)\s+)+(?:known\s+as|called|termed))\s+(?:simply\s+)?(?:(?:an?|the)\s+)?"
)


class _Found(NamedTuple):
    """What the second pass finds in a passage: concepts, edges to them, and relations between them."""

    mentioned: list[str]
    edges: list[Edge]
    relations: list[Edge]


class _Builder:
    """State of the second pass: concepts, mentions, and relations with their evidence; the first evidence stays."""

    def __init__(self, chosen: Mapping[str, _Entry]) -> None:
        self.concepts: dict[str, Concept] = {}  # by id
        self.entries: dict[str, _Entry] = {}
        acronyms = {key_of(alias) for entry in chosen.values() for alias in entry.aliases if alias.isupper()}
        for key, entry in chosen.items():
            if key in acronyms and len(key) < 4:
                continue
            known = _german if entry.german else key_of
            name = min(entry.names, key=lambda name: (-entry.names[name], len(name), name))
            identity = f"concept:{slug(name)}"
            while identity in self.concepts:
                identity += "-2"  # different keys, one slug: rare
            description = entry.sentence
            if len(description) > LONGEST_DEFINITION:
                description = description[:LONGEST_DEFINITION].rsplit(" ", 1)[0] + " …"
            aliases = tuple(alias for alias in entry.aliases if known(alias) not in chosen)
            self.concepts[identity] = Concept(identity, name, entry.kind, description, aliases)
            self.entries[identity] = entry
        self.kinds = {concept.id: concept.kind for concept in self.concepts.values()}
        self.names = [(concept.name, concept.id) for concept in self.concepts.values()]
        self.names += [(alias, concept.id) for concept in self.concepts.values() for alias in concept.aliases]
        german = {identity for identity, entry in self.entries.items() if entry.german}
        self.trie = name_trie(name for name in self.names if name[1] not in german)
        self.german_trie = name_trie((name for name in self.names if name[1] in german), german_normal)
        self.defined_in: dict[str, list[str]] = defaultdict(list)  # passage: concepts
        self.stated_in: dict[str, list[str]] = defaultdict(list)
        for identity, entry in self.entries.items():
            for passage in entry.definers:
                self.defined_in[passage].append(identity)
            for passage in entry.stated:
                self.stated_in[passage].append(identity)
        self.edges: list[Edge] = []  # from passages
        self.relations: dict[tuple[str, str, str], Edge] = {}
        self.first_mention: dict[str, str] = {}
        self.opening: dict[str, str] = {}  # first passage of each document

    def relate(self, edge: Edge) -> None:
        if edge.source != edge.target:
            self.relations.setdefault(edge[:3], edge)

    def add(self, passage: Passage, found: _Found) -> None:
        self.opening.setdefault(passage.document, passage.id)
        for concept in found.mentioned:
            self.first_mention.setdefault(concept, passage.id)
        self.edges += found.edges
        for relation in found.relations:
            self.relate(relation)

    def read(self, passage: Passage) -> _Found:
        """Read one passage of the second pass; changes nothing here."""
        text = mask_references(mask(passage.text))
        german = language_of(text) == "de"
        trie, normal_form = (self.german_trie, german_normal) if german else (self.trie, normal)
        in_title, in_text, in_proof = (
            find_mentions(masked, trie, normal_form) for masked in (mask(passage.title), text, mask(passage.proof))
        )
        defined, stated = self.defined_in.get(passage.id, ()), self.stated_in.get(passage.id, ())
        mentioned = dict.fromkeys([*(mention.concept for mention in (*in_title, *in_text, *in_proof)), *stated])
        makers = [("defines", concept, self.entries[concept].definers[passage.id]) for concept in defined]
        makers += [("proves", concept, "note") for concept in stated if passage.proof]
        makers += [("mentions", concept, "mentions") for concept in mentioned]
        edges = [Edge(passage.id, relation, concept, passage.id, rule) for relation, concept, rule in makers]
        find_relations = german_relations if german else sentence_relations
        relations = list(self._read_sentences(passage, text, in_text, find_relations))
        if german:
            relations += self._read_sentences(passage, mask(passage.proof), in_proof, german_relations)
        for result in stated:
            for mention in in_text:
                if self._is_specific(mention.concept):
                    relations.append(Edge(result, "uses", mention.concept, passage.id, "statement"))
            for mention in in_proof:
                if self.kinds[mention.concept] in {"theorem", "formula", "identity"}:
                    relations.append(Edge(result, "uses", mention.concept, passage.id, "proof"))
            for link in passage.links:
                if link.relation == "proof_uses" and link.target:
                    others = self.stated_in.get(link.target, ())
                    relations += [Edge(result, "uses", other, passage.id, "proof") for other in others]
        return _Found(list(mentioned), edges, relations)

    def _is_specific(self, concept: str) -> bool:
        """Whether a mention means one thing; single adjectives and measures mean too many."""
        name = self.concepts[concept].name
        return name not in LOOSE_HEADS and (self.kinds[concept] != "definition" or " " in name or "-" in name)

    def _read_sentences(
        self, passage: Passage, text: str, mentions: list[Mention], relations: Callable[..., Iterator[Edge]]
    ) -> Iterator[Edge]:
        defined = self.defined_in.get(passage.id, ())
        for start, end in sentence_spans(text):
            inside = [mention for mention in mentions if start <= mention.start and mention.end <= end]
            for relation in relations(text, start, end, inside, self.kinds):
                yield relation._replace(evidence=passage.id)
            synonyms = {
                frozenset((left.concept, right.concept))
                for left, right in itertools.pairwise(inside)
                if _OTHER_NAME.fullmatch(text, left.end, right.start)
            }
            sentence = " ".join(passage.text[start:end].split())
            used = dict.fromkeys(mention.concept for mention in inside)
            for concept in defined:
                entry = self.entries[concept]
                if concept in used and entry.passage == passage.id and sentence in entry.sentence:
                    for other in used:
                        synonym = frozenset((concept, other)) in synonyms
                        if other not in defined and self._is_specific(other) and not synonym:
                            yield Edge(concept, "uses", other, passage.id, "defining sentence")

    def relate_declared(self, documents: Iterable[Document]) -> None:
        """PlanetMath's own `related`, between the subjects of two articles."""
        id_of = {key_of(name): identity for name, identity in reversed(self.names)}  # of equal names the first wins
        subjects: dict[str, tuple[str, str]] = {}
        declared: list[tuple[str, str]] = []
        for document in documents:
            fields: Mapping[str, Any] = document.metadata.get("planetmath", {})
            name = str(fields.get("name", ""))
            concept = id_of.get(key_of(clean_term(mask(document.title))))
            if name and concept:
                subjects[name] = (concept, self.opening.get(document.id, ""))
                declared += [(name, str(other)) for other in fields.get("related", ())]
        for name, other in declared:
            if other not in subjects:
                continue
            source, evidence = subjects[name]
            target, _ = subjects[other]
            if (target, "related_to", source) not in self.relations:
                self.relate(Edge(source, "related_to", target, evidence, "planetmath"))

    def finish(self) -> ConceptGraph:
        """The graph: first the edges from passages to concepts, then those between concepts."""
        concepts = list(self.concepts.values())
        german = [concept for concept in concepts if self.entries[concept.id].german]
        english = [concept for concept in concepts if not self.entries[concept.id].german]
        for relation in itertools.chain(name_relations(english), compound_relations(german)):
            origin = self.entries[relation.source].passage or self.first_mention.get(relation.source, "")
            self.relate(relation._replace(evidence=origin))
        return ConceptGraph(concepts, self.edges + list(self.relations.values()))
