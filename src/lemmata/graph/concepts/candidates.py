"""Candidates for concepts in one passage: terms being defined, named results, and runs of content words.

Every candidate carries the rule that produced it. `build` decides which candidates become concepts, once the whole
corpus has been read.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lemmata.core.types import Passage
from lemmata.core.words import GENERIC_NOUNS, GERMAN_LINKING_WORDS, LINKING_WORDS, PHRASE_BREAKS, language_of
from lemmata.graph.concepts.definitions import CONDITION, Source, definition_of
from lemmata.graph.concepts.german import german_kind, german_phrases, german_results, result_noun
from lemmata.graph.concepts.merge import find_acronyms
from lemmata.graph.concepts.terms import (
    ITEM,
    RESULT_NOUNS,
    TECHNIQUE_NOUNS,
    clean_term,
    key_of,
    mask,
    normal,
    property_or_object,
    result_kind,
    sentence_spans,
    sure_kind,
)
from lemmata.latex.marked import marked_terms


class Candidate(NamedTuple):
    """A name that may become a concept; `sentence` defines it, or is ""."""

    name: str
    kind: str
    rule: str
    sentence: str = ""
    aliases: tuple[str, ...] = ()
    weight: int = 0  # how sure the sentence defines it


# ---------------------------------------------------------------- terms being defined

_ARTICLE_BEFORE = re.compile(
    r"\b(?:an?|the|its|their|his|our|every|no|of|ein|eine|einen|der|die|das)(?: \([^()]*\))?\s*$", re.IGNORECASE
)
_CALLED_BEFORE = re.compile(
    r"(?:\b(?:is|are|be|been|being|was|were|[Ww]e|one|will|shall|may|can)\s+(?:(?:then|also|often|sometimes|usually|"
    r"commonly|generally|simply|just|collectively|now)\s+){0,2}(?:called|termed|named|known as|referred to as|call|"
    r"says?)|\bsaid to be|\b(?:defined?|refer\w* to [^.;:]{1,60}) as|\bmeans?|"
    r"\b[Ww]e call (?:an?|any|the) [^.;:]{3,100}?(?= an?$| the$)|"
    r"\b(?:heißt|heißen|[Mm]an nennt|nennt man|nennen wir)(?:\s*\$+)?)"
    r"(?:\s+(?:an?|the|ein|eine|einen|to be|simply|also|its))*\s*$"
)
# `the group called the Monster`: names it, and says what it is at most in a definition or with words after it.
_NAMED_BEFORE = re.compile(r"\b(?:called|termed|named|known as)(?:\s+(?:an?|the|ein|eine))*\s*$")
_EXPLAINED_AFTER = re.compile(r"\s*,\s*(?:which|that is|i\.?e\.?)\s+(?:is\s+|are\s+)?(?:an?|the)\b")
_DEFINING_WORDS = re.compile(
    r"\b(?:[Dd]efin\w+|[Dd]enote\w*|[Ii]ntroduc\w+|notions?|concepts?|[Cc]all\w*|means?|refer\w*|known|named|"
    r"obtain\w*|is (?:an?|the))\b"
)
_PREDICATE_AFTER = re.compile(  # the first verb after a subject says what it is
    r"(?:(?!\b(?:that|which|who|where|when|if|is|are)\b)[^.;:]){0,110}?\b(?:(?:is|are|ist|sind)\s+(?:(?!only)\w+ly\s+|just\s+)?"
    r"(?:an?|the|any|one|defined|given|when|what|\w+ing|ein\w*|der|die|das)|consists?|means|refers?|denotes?|states|"
    r"says|asserts|measures|represents)\b"
)
# An article that begins a sentence, also after a run-in heading, or a clause after its condition.
_SUBJECT_BEFORE = re.compile(
    r"(?:^\W*|\s)(?:An?|The|Eine?|Der|Die|Das)(?: \([^()]*\))?$|(?:,|\bthen)\s+(?:an?|the|its|their)(?: \([^()]*\))?$"
)
_SENTENCE_START = re.compile(r"[.!?:]\s+(?=[A-Z])|\s•\s")
_SENTENCE_STOP = re.compile(r"[.!?](?=\s|$)|\s•\s")
_YEAR = re.compile(r"\b(?:1[6-9]|20)\d\d\b")
_STRESSED = frozenset(
    """same finite infinite smallest largest greatest least inductive constructive proposition every exactly only
    cannot arbitrary countable entire actual minimal maximal converse opposite all sole""".split()
)  # in prose these are emphasised for stress
_ONE_WORD_AFTER = re.compile(r"[^.;:]{0,60}?\bis an? [\w-]+\s*")
_NOUN_AFTER = re.compile(r"\s+([a-z][a-z-]+(?:\s+[a-z][a-z-]+){0,2})\b")
_NOT_NOUN = re.compile(
    r"(?:ed|ly|ing)$|^(?:relative|generated|freely|such|built|equivalent|associated|due|dual|iff|aka|runs?|builds?|"
    r"states|expresses|demonstrates|asserts|becomes|acts|version|sense|case|proof|part|way|one|notion|definition)$"
)
_OR_BETWEEN = re.compile(
    r"[,\s(]*(?:or|also called|also known as|or simply|or just|also)(?:\s+(?:an?|the|simply|just|called))*\s*"
)
_END = (
    r"(?=\s*(?:[.,;:()$\n]|$)|\s+(?:if|when|whenever|provided|iff|for|where|with respect|which|that|because|since|"
    r"and|or|precisely|exactly|in case|by|as|is|are|was|has|on|to|wenn|falls|dass)\b)"
)
_TERM = r"(?P<term>[^\W\d_$][^.,;:()$\n]{2,70}?)" + _END
_ADVERB = r"(?:(?:then|also|often|sometimes|usually|commonly|simply|generally|now|both|therefore)\s+)*"
_WE = r"\b[Ww]e(?:\s+(?:will|shall|may|can|also|then))*"
_NOUN = r"(?P<term>[^\W\d_$][^.,;:()$\n]{2,60}?)"  # up to what the pattern wants after it
_A = r"(?P<article>an?\s+|the\s+)"
_A_OR_ITS = r"(?P<article>an?\s+|the\s+|its\s+)"
_EIN = r"(?P<article>(?:ein|eine|einen|den|der|die|das|als|ihre[nm]?|seine[nm]?)\s+)"
_WHAT = r"(?:(?:an?|the|such|any|its)\s[^$.;:,]{1,40}?(?:\s*\$+)?\s+|\$+\s+|(?:it|them)\s+)?"
_CALLED = r"(?:called|termed|said to be|known as|referred to as)"
_OF = r"(?:\s+(?:of|on|over|for|in|associated to|between)\s+(?:an?|the|any|each|every|this|two|such|\$)[^.,;:]{0,60}?)?"
_IF = r"(?=\s+(?:if|when|whenever|iff|provided)\b)"
_PATTERNS = tuple(
    (rule, re.compile(pattern))
    for rule, pattern in (
        ("called", rf"\b(?:is|are|be|being|was|were)\s+{_ADVERB}{_CALLED}\s+{_ADVERB}{_A_OR_ITS}?{_TERM}"),
        ("called", rf"{_WE}\s+call\s+{_WHAT}{_A}{_TERM}(?!\s*\$+\s+(?:an?|the|its)\b)"),
        ("called", rf"{_WE}\s+call\s+(?:\$+|it|them|such)\s+{_A}?{_TERM}(?!\s*\$+\s+(?:an?|the)\b)"),
        (
            "say that",
            rf"(?:{_WE}|\b[Oo]ne)\s+says?\s+(?:that\s+)?(?:[^.;:,$]{{0,40}}\s)?\$*\s*(?:is|are)\s+{_A}?{_NOUN}{_IF}",
        ),
        ("by we mean", rf"\b[Bb]y\s+{_A}{_NOUN}(?:\s+\$)?\s+(?:we|one)\s+(?:shall\s+|will\s+)?(?:mean|understand)"),
        (
            "defined as",
            rf"\b[Tt]he\s+(?P<article>){_NOUN}{_OF}\s+(?:is|are)\s+defined\s+(?:as|to be)\b",
        ),
    )
)
_GERMAN_STOP = r"wenn|falls|sofern|dass|und|oder|genau|ist|sind|hat|gilt|bezüglich|mit|von|in|auf|über"
_GERMAN_END = rf"(?=\s*(?:[.,;:()$\n]|$)|\s+(?:{_GERMAN_STOP})\b)"
_GERMAN_OF = r"(?:\s+(?:auf|von|in|über|zwischen)\s[^.,;:]{1,30}?)?(?:\s*\$+)?"
_GERMAN_TERM = r"(?P<term>[^\W\d_$][^.,;:()$\n]{2,60}?)" + _GERMAN_END
_GERMAN_PATTERNS = tuple(
    (rule, re.compile(pattern))
    for rule, pattern in (
        ("called", rf"\b(?:heißt|heißen|heisst|heissen)\s+(?:(?:dann|daher|kurz)\s+)*(?!auch\b){_EIN}?{_GERMAN_TERM}"),
        ("called", rf"\b(?:nennt man|nennen wir)\s+(?:[^.,;:]{{0,40}}?\s)??{_EIN}{_GERMAN_TERM}"),
        ("called", rf"\bbezeichne(?:t man|n wir)\s+(?:[^.,;:]{{0,40}}?\s)?als\s+{_EIN}?{_GERMAN_TERM}"),
        (
            "called",
            rf"\b(?:wird|werden)\s+(?:[^.,;:]{{0,60}}?\s)??{_EIN}{_NOUN}(?:\s+\$+)?\s+(?:genannt|bezeichnet)\b",
        ),
        (
            "by we mean",
            rf"\b[Uu]nter\s+(?P<article>eine[rmn]|de[rmn])\s+{_NOUN}{_GERMAN_OF}\s+(?:versteht man|verstehen wir)\b",
        ),
    )
)
_GERMAN_ALSO = re.compile(
    r"\b(?:[Dd]er|[Dd]ie|[Dd]as|[Ee]ine?)\s+(?P<term>[^.,;:()$\n]{3,50}?)(?:\s+\$+)?\s+(?:heißt|wird)\s+auch\s+"
    rf"{_EIN}?(?P<alias>[^.,;:()$\n]{{3,50}}?)(?:\s+(?:genannt|bezeichnet))?(?=\s*[.,;])"
)
_OPENING = re.compile(
    r"\s*(?:Definition[.:]?\s+)?(?P<lead>(?:In|For|Given|Let|If)\b[^.;:]{1,100}?,\s+(?:then\s+)?)?"
    r"(?P<article>An?|an?|Ein|Eine)\s+(?P<term>[^\W\d_$][^.,;:()$\n]{2,60}?)"
    r"(?:(?:(?P<variable>\s*\$)|\s*\(|\s+(?:of|on|over|in|for|from|with|between)\b)(?:(?!\b(?:is|are|ist)\b)[^.;:]){0,60}?)?"
    r"\s+(?:(?:is|ist)\s+(?:an?|the|any|defined|ein|eine|der|die|das|simply|just)|consists\s+of|means|refers\s+to)\b"
)
_ANY_SUBJECT = re.compile(r"\W*(?:An?|Any|Every|Each|Two|Let|Eine?|Jede[rs]?|Data|[A-Z][a-z]+(?:s|ing))\b")
_MARKED, _IN_DEFINITION = 2, 3  # what these add to the weight of a sentence
_CUT = re.compile(
    r"\s+(?:of|for|in|on|at|from|by|to|with|over)\s+(?:the|an?|its|this|these|those|that|each|every|some|any|all|his|which|whose)\b.*$"
)
_ALSO = re.compile(
    r"[,\s]*\(?(?:(?:also|sometimes|often|alternatively|or)\s+)+(?:called\s+|known as\s+|termed\s+|referred to as\s+)?"
    r"(?:an?\s+|the\s+)?(?P<term>[^\W\d_$][^.,;:()$\n]{2,50}?)(?=\s*[.,;:()]|\s+(?:if|when|is|are|and|or|on)\b)"
)
_VARIABLE = re.compile(r"(?<!\w)[A-Z][-–]\w")  # `R-module`: the letter is the author's
_RELATIVE = re.compile(r"(?:[A-Z]|in|on|at)$|(?:in|on|at|by|isomorphic|equal|contained|defined|given|induced)\b")
_FORMULAS = re.compile(r"\$+")
_ACRONYM = re.compile(r"\s*\((?P<term>[A-Z]{2,6})s?\)")


_ITEM = re.compile(rf"\s*{ITEM}\s*")

# A line of a glossary: a term, and what it is, in a phrase without a verb of its own: `Bund – a wall that keeps`.
_ENTRY = re.compile(
    rf"^[ \t]*(?P<item>(?:{ITEM}|•)[ \t]*)?(?P<term>[^\W\d_][^\n:–—|]{{1,70}}?)(?P<other> \([^()\n]{{2,60}}\))?"
    r"(?P<sign>[ \t]*[:–—]|(?P<cell>[ \t]*\|)|[ \t]-)[ \t]+(?P<text>\S.*)",
    re.MULTILINE,
)
_LABEL = re.compile(  # no term, but a field or a warning
    r"(?:danger|attention|tip|info|location|responsible|duration|tools?|materials?|parts?|causes?|remedy|symptoms?|scope|"
    r"prerequisites?|requirements?|action|event|effect|risk|default|function|status|answer|contents?|role|owner|input|"
    r"abbreviation|acronym|achtung|hinweis|gefahr|warnung|vorsicht|ort|dauer|werkzeuge?|ursachen?|abhilfe|zweck|folge|schritt|"
    r"ergebnis|beispiel|aufgabe|verantwortlich\w*|voraussetzung\w*|anmerkung|bemerkung|ziel|wirkung|maßnahmen?|begriff)",
    re.IGNORECASE,
)
_GLOSSARY = re.compile(  # a heading
    r"[\W\d]*(?:glossary|(?:terms and )?(?:terms|definitions|abbreviations)|terminology|nomenclature|glossar|begriffe|"
    r"(?:begriffe und )?(?:definitionen|abkürzungen))\W*",
    re.IGNORECASE,
)
_SINGULAR_VERB = (
    r"[a-z]+s (?:to|at|on|into|from|up|down|out|off|over|below|above|again|when|if|until|an?|the|its|by|too)"
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|can|could|may|might|must|shall|should|will|would|has|have|had|does|do|did|needs?|not|"
    rf"never|always|{_SINGULAR_VERB}|ist|sind|wird|werden|kann|können|muss|müssen|darf|soll\w*|hat|haben|nicht)\b"
)
_PRONOUN = r"that|which|who|whose|where|in which|at which|by which"
_NOUN_OF = rf"(?:{_PRONOUN}|of|for|between|in|on|at|by|from|to|with|without|around|below|above|under|over|used|per)\b"
_SAYS_WHAT = re.compile(
    rf"(?:an?|the|any)\s(?:[^\s.;:!?]+\s){{1,8}}?{_NOUN_OF}|"
    r"(?:eine?|der|die|das)\s(?:[a-zäöüß-]+\s)*(?-i:[A-ZÄÖÜ])[\w-]+(?:,\s|\s(?:de[rs]|eine[rs]|von|zwischen|zu[mr]?|für|in|im|"
    r"a[nm]|auf|um|mit|beim?|aus|gegen|über|unter|ohne|nach|vor)\s)",
    re.IGNORECASE,
)
_NO_ARTICLE = re.compile(  # `Ratio of lift to drag`, which needs other entries around it
    rf"(?!(?:check|ensure|make|note|see|be)\b)(?:(?!(?:an?|the)\b)[\w/-]+\s){{1,4}}?{_NOUN_OF}", re.IGNORECASE
)
_CLAUSE_END = re.compile(rf",?\s(?:{_PRONOUN}|when|if|until)\b|,\s(?:de[rmn]|die|das|wenn|falls)\b|[.;:!?](?=\s|$)")
_FEWEST_ENTRIES = 3  # of a list that is a glossary


def find_defined_terms(passage: Passage, masked: str, opening: bool, german: bool | None = None) -> Iterator[Candidate]:
    """Terms that a passage defines; `opening` means that its document begins here, as an article on its subject."""
    spans = sentence_spans(masked)
    german = language_of(masked) == "de" if german is None else german
    kind_of = _german_kind if german else _kind
    is_definition = passage.kind == "definition"
    source = Source(passage, masked, spans, german, opening or is_definition or begins_prose(passage))
    for candidate in (*_glossary_entries(source), *_marked_terms(source)):
        yield candidate._replace(kind=_german_kind(candidate.name, candidate.kind)) if german else candidate
    for number, (start, end) in enumerate(spans):
        sentence = _FORMULAS.sub("$", masked[start:end])  # short, so that no pattern walks through a long formula
        weight = _IN_DEFINITION * is_definition + 1
        for rule, pattern in _GERMAN_PATTERNS if german else _PATTERNS:
            for match in pattern.finditer(sentence):
                name = _term_name(match["term"])
                if not name or _VARIABLE.search(name) or re.search(r"\s(?:an?|the)\s", name):
                    continue
                is_object = match["article"] or rule in {"by we mean", "defined as"}
                kind = kind_of(name, "object" if is_object else "definition")
                text = _definition(name, source, number, sentence, match) if is_object or _states(sentence) else ""
                yield Candidate(name, kind, rule, text, _aliases_after(sentence, match, name), weight)
        if german and (also := _GERMAN_ALSO.search(sentence)):
            name, alias = clean_term(also["term"]), clean_term(also["alias"])
            if name and alias:
                text = _definition(name, source, number, sentence, also)
                yield Candidate(name, kind_of(name, "object"), "called", text, (alias,), weight)
        subject = _OPENING.match(sentence)
        if subject and not CONDITION.search(sentence, subject.end()):  # with a condition, the predicate is defined
            name = _term_name(subject["term"])
            rule = "is a" if is_definition or (opening and number < 3) else "subject"
            if name and not (rule == "subject" and (subject["variable"] or subject["lead"])):
                text = _definition(name, source, number, sentence, subject)
                aliases = _aliases_after(sentence, subject, name)
                yield Candidate(name, kind_of(name, "object"), rule, text, aliases, weight + 1)


def begins_prose(passage: Passage) -> bool:
    """Whether a passage is the first prose of its document, above or below its statements."""
    return passage.id.endswith("@1")


def _definition(name: str, source: Source, number: int, sentence: str, match: re.Match[str]) -> str:
    """The text that defines the name in a term that was matched in the sentence with short formulas."""
    start, place = source.spans[number][0], match.start("term") + max(0, match["term"].find(name))
    for _ in range(sentence.count(name, 0, place) + 1):  # formulas have no letters, so the uses are the same
        start = source.masked.find(name, start) + 1
    return definition_of(name, source, number, (start - 1, start - 1 + len(name))) if start else ""


def _states(sentence: str) -> bool:
    """Whether a sentence about a property says when anything has it, not that one thing does."""
    return bool(CONDITION.search(sentence) or _ANY_SUBJECT.match(sentence))


def _term_name(term: str, marked: bool = False) -> str:
    """The name in a matched term, or "" where it is none or only relates something to a variable: `contained in`."""
    name = clean_term(_CUT.sub("", term), marked)
    return "" if _RELATIVE.match(name) else name


def _marked_terms(source: Source) -> list[Candidate]:
    """Terms that the author emphasised, outside definitions only where the words around them define; and index entries.

    An index entry that has the words of an emphasised term is defined with it: `proper` with `proper subgroup`.
    """
    passage, masked, spans, german, _ = source
    is_definition = passage.kind == "definition"
    entries = {names[0] for names in passage.metadata.get("index", ())}
    definitions: dict[str, tuple[str, int]] = {}  # key of an emphasised term: its definition, and its weight
    candidates: list[Candidate] = []
    last_end = 0  # of the last candidate or its alias
    emphases = _emphases(passage, masked, spans)
    for term, start, end in emphases:
        number = _sentence_at(spans, start)
        before, after = _around(masked, spans[number], start, end)
        article = bool(_ARTICLE_BEFORE.search(before))
        noun = _following_noun(term, after) if article else ""
        if german and term.islower() and (capital := re.match(r"\s+([A-ZÄÖÜ][^\W\d_]+)", after)):
            noun = capital[1]
        meant = term in entries or (is_definition and term.casefold() not in PHRASE_BREAKS)
        name = _term_name(f"{term} {noun}", meant)
        if not name:
            continue
        if candidates and _OR_BETWEEN.fullmatch(masked, last_end, start):
            candidates[-1] = candidates[-1]._replace(aliases=(*candidates[-1].aliases, name))
            last_end = end
            continue
        framed = _prose_rule(name, before, after)
        rule = "emphasis" if is_definition else "index" if term in entries and framed != "emphasis" else framed
        if passage.kind == "exercise" and rule == "emphasis":
            rule = "stress"
        is_object = article or not re.search(r"(?<!\b[Bb]y)(?<=[\w$,])$", before)
        if not rule or (not is_object and _starts_with_verb(name) and not re.search(r"\bcalled(?: the)?$", before)):
            continue
        named = len(emphases) == 1 or re.search(r"\b(?:is|are) (?:an?|the|ein\w*|der|die|das)$", before)
        sure = framed == "emphasis" or (is_definition and named)
        text = ""
        if (rule == "emphasis" and sure) or (passage.kind == "exercise" and framed == "emphasis"):
            whole = end + after.index(noun) + len(noun) if noun else end
            at = masked.find(name, start, whole)
            place = (at, at + len(name)) if at >= 0 else (start, whole)
            text = definition_of(name, source, number, place)
        weight = _MARKED + _IN_DEFINITION * is_definition + (framed == "emphasis")
        kind = _kind(name, "object" if is_object else "definition")
        candidates.append(Candidate(name, kind, rule, text, (), weight))
        definitions.setdefault(key_of(name), (text, weight))
        last_end = end
    for names in passage.metadata.get("index", ()):
        name, *aliases = (clean_term(mask(name), marked=True) for name in names)
        words = name.split()
        if len(words) == 2 and property_or_object(name) == "definition" and name not in masked:
            name = f"{words[1]} {words[0]}"  # the entry of a property of things: `connected!graph`
        if name:
            text, weight = _index_definition(name, source, definitions)
            kind = _kind(name, property_or_object(name))
            candidates.append(Candidate(name, kind, "index", text, tuple(filter(None, aliases)), weight))
    return candidates


def _glossary_entries(source: Source) -> Iterator[Candidate]:
    """The entries of a glossary in a passage: marked terms that begin a line, and under a heading such as `Terms` all.

    Warnings, steps and fields have the same form, so what follows must be a phrase that says what something is.
    """
    passage, _, spans, _, _ = source
    is_glossary = bool(passage.section) and bool(_GLOSSARY.fullmatch(passage.section.rpartition(" / ")[2]))
    terms = {str(term) for term in passage.metadata.get("terms", ())}
    lines = _ENTRY.finditer(passage.text) if terms or is_glossary else ()
    marked = {line: line["term"] in terms or f"{line['term']}{line['other']}" in terms for line in lines}
    entries = [line for line in marked if marked[line] or (is_glossary and (line["item"] or line["cell"]))]
    phrases = [line for line in entries if not _VERB.search(_CLAUSE_END.split(line["text"], maxsplit=1)[0])]
    sure = [line for line in phrases if _SAYS_WHAT.match(line["text"])]
    others = [line for line in phrases if _NO_ARTICLE.match(line["text"])]
    is_list = len(sure) >= _FEWEST_ENTRIES and 2 * len(sure + others) >= len(entries)
    for line in entries if is_glossary else sure + others if is_list else sure:
        name = _term_name(mask(line["term"]))
        if not name or _LABEL.fullmatch(line["term"]):
            continue
        other = (line["other"] or "").strip(" ()")
        aliases = {clean_term(alias) for pair in find_acronyms(f"{name} ({other})") for alias in pair} - {name, ""}
        end = next((stop for _, stop in spans if stop > line.start("text")), line.end())
        sign = line["sign"] if line["sign"].strip() in "–—-" else ":"
        text = f"{line['term']}{line['other'] or ''}{sign} {passage.text[line.start('text') : min(end, line.end())]}"
        kind, weight = _kind(name, "object"), _MARKED + _IN_DEFINITION
        yield Candidate(name, kind, "glossary", " ".join(text.split()), tuple(aliases), weight)


def _index_definition(name: str, source: Source, definitions: Mapping[str, tuple[str, int]]) -> tuple[str, int]:
    """The definition of an index entry, with its weight: that of the emphasised property or term in it, or its own."""
    passage, masked, spans, *_ = source
    words = set(key_of(name).split())
    for term, (text, weight) in definitions.items():
        is_last = len(words) > 1 and key_of(name).endswith(f" {term}")  # `monomorphism proper`: an entry turned round
        if text and not is_last and words.issuperset(term.split()) and words.issubset(key_of(mask(text)).split()):
            return text, weight
    for start, end in _places(masked, name, plural=True):
        number = _sentence_at(spans, start)
        before, after = _around(masked, spans[number], start, end)
        if not _following_noun(name, after) and _prose_rule(name, before, after) == "emphasis":
            weight = _MARKED + _IN_DEFINITION * (passage.kind == "definition")
            return definition_of(name, source, number, (start, end)), weight
    return "", 0


def _places(masked: str, term: str, start: int = 0, plural: bool = False) -> Iterator[tuple[int, int]]:
    """The spans of the first four uses of a term as whole words."""
    uses = 0
    while uses < 4 and (at := masked.find(term, start)) >= 0:
        end = at + len(term)
        end += plural and masked.startswith("s", end)
        is_whole = not masked[at - 1 : at].isalnum() and not masked[end : end + 1].isalnum()
        start = end if is_whole else at + 1
        if is_whole:
            uses += 1
            yield at, end


def _sentence_at(spans: list[tuple[int, int]], place: int) -> int:
    """The number of the sentence at a place."""
    return max(0, bisect_right(spans, place, key=lambda span: span[0]) - 1)


def _around(masked: str, span: tuple[int, int], start: int, end: int) -> tuple[str, str]:
    """What a sentence says before and after a term in it."""
    begin = item.end() if (item := _ITEM.match(masked, span[0], start)) else span[0]
    before = " ".join(masked[max(begin, start - 160) : start].split())
    return before, masked[end : min(span[1], end + 160)]


def _emphases(passage: Passage, masked: str, spans: list[tuple[int, int]]) -> list[tuple[str, int, int]]:
    """The emphasised terms of a passage, with their spans in its masked text."""
    emphases: list[tuple[str, int, int]] = []
    terms = passage.metadata.get("terms")
    if terms is None and "\\" in passage.raw:
        terms, _ = marked_terms(passage.raw)
    end = 0
    for written in terms or ():
        term = mask(str(written)).strip()
        places = list(_places(masked, term, end)) if term else []
        if places:
            # the same words may stand earlier without emphasis; defining words around them are the better sign
            around = ((*place, *_around(masked, spans[_sentence_at(spans, place[0])], *place)) for place in places)
            defining = (place[:2] for place in around if _prose_rule(term, *place[2:]) == "emphasis")
            start, end = next(defining, places[0])
            emphases.append((term, start, end))
    return emphases


def _prose_rule(name: str, before: str, after: str) -> str:
    """`emphasis` where the sentence around an emphasised term defines it, `stress` where it introduces it, else "".

    Single words emphasised for stress and titles of books give "".
    """
    before = _SENTENCE_START.split(before)[-1]
    after = _SENTENCE_STOP.split(after, maxsplit=1)[0]
    capitals = [word for word in name.split() if word[0].isupper()]
    if name[0].isupper() and (len(capitals) > 2 or _YEAR.search(after) or re.search(r"\b(?:in|on|and|to) [A-Z]", name)):
        return ""
    if name.split()[0].casefold() in _STRESSED or re.search(r"\d$| and ", name):
        return ""
    if _CALLED_BEFORE.search(before):
        last = name.split()[-1]
        is_object = _ARTICLE_BEFORE.search(before) or (last.endswith("s") and normal(last) != last)
        return "emphasis" if is_object or _states(f"{before} {after}") else "stress"
    if _NAMED_BEFORE.search(before) and _EXPLAINED_AFTER.match(after):
        return "emphasis"
    if _NAMED_BEFORE.search(before):
        return "stress"
    if re.search(r"(?:•|\(\d+\))$", before):  # an item of a list
        return "emphasis" if re.match(r"[\s$]*(?::|(?:if|iff|when|is|are)\b)", after) else ""
    if re.search(r"\b[Bb]y$", before) and re.match(r"\s+(?:we|one) (?:mean|understand)\b", after):
        return "emphasis"
    if (
        not before and name[0].isupper() and re.match(r"\s+(?:is|are|means|ist|sind)\b", after)
    ):  # Residuals are the parts
        return "emphasis" if _PREDICATE_AFTER.match(after) else ""
    if not _ARTICLE_BEFORE.search(before):
        return "emphasis" if re.search(r"\b(?:is|are|be)$", before) and CONDITION.search(after) else ""
    if _SUBJECT_BEFORE.search(before):
        if before.endswith(("The", "the")) and _ONE_WORD_AFTER.fullmatch(after):
            return ""  # a property: "The identity is an isomorphism."
        predicate = _PREDICATE_AFTER.match(after)
        return "emphasis" if predicate and not ("$" in predicate[0] and CONDITION.search(after)) else ""
    if re.search(r"\b(?:is|are) an?$", before) and CONDITION.search(after):
        return "emphasis"
    if re.search(r"(?<!will )(?<!to )\b[Dd]efine \w+$", before):
        return "emphasis"
    return "stress" if " " in name or _DEFINING_WORDS.search(before) or CONDITION.search(after[:60]) else ""


def _following_noun(term: str, after: str) -> str:
    """The noun after an emphasised adjective: `symmetric function` after an emphasised `monomial`; "" for none."""
    match = _NOUN_AFTER.match(after)
    unfit = PHRASE_BREAKS | GENERIC_NOUNS
    candidates = match[1].split() if match else []
    words = list(itertools.takewhile(lambda word: word not in unfit and not _NOT_NOUN.search(word), candidates))
    if not words or (len(words) == 3 and match and not re.match(r"\s*(?:[^\w\s]|$)", after[match.end() :])):
        return ""
    if normal(words[-1]) != words[-1] and property_or_object(term) == "object":
        return ""  # rather a verb: the triangle inequality states
    return " ".join(words)


def _german_kind(name: str, _: str) -> str:
    """A noun has a capital in German; a name of small letters is a property."""
    return german_kind(name, "object" if re.search(r"(?<!\w)[A-ZÄÖÜ]", name) else "definition")


def _kind(name: str, kind: str) -> str:
    last = name.split()[-1]
    if kind == "definition" and ((last.endswith("s") and normal(last) != last) or result_kind(name)):
        kind = "object"  # a plural is a noun
    return sure_kind(name) or kind


def _aliases_after(sentence: str, match: re.Match[str], name: str) -> tuple[str, ...]:
    """The acronym or other name that a sentence gives right after the matched term."""
    end = match.start("term") + match["term"].find(name) + len(name)
    acronym = _ACRONYM.match(sentence, end)
    if acronym:
        initials = "".join(word[0] for word in re.split(r"[\s–-]+", name) if word.lower() not in LINKING_WORDS)
        return (acronym["term"],) if initials.casefold() == acronym["term"].casefold() else ()
    other = _ALSO.match(sentence, end)
    alias = clean_term(_CUT.sub("", other["term"])) if other else ""
    contained = f" {key_of(alias)} " in f" {key_of(name)} "
    return (alias,) if alias and not contained and not _starts_with_verb(alias) else ()


def _starts_with_verb(name: str) -> bool:
    """Whether a property begins with a verb in the third person: `generates the extension`, `dominates`."""
    first = name.split()[0].casefold()
    return first.endswith("s") and normal(first) != first and "'" not in first and "’" not in first


# ---------------------------------------------------------------- results with names

_NOT_HEADS = {"argument", "trick", "reduction", "bound", "problem", "proposition", "corollary"}  # too common

_HEADS = "|".join(sorted((RESULT_NOUNS | TECHNIQUE_NOUNS) - _NOT_HEADS, key=len, reverse=True))
_NAME = r"(?:(?:[Dd]e|[Vv]on|[Vv]an)\s+)?[A-ZÄÖÜÉÈŁŠČŻ][^\W\d_]+"
_NAMED = re.compile(
    rf"(?<![\w-])(?P<people>{_NAME}(?:(?:\s+and\s+|\s+|[-–]){_NAME}){{0,3}})(?P<owner>['’]s?)?\s+"
    rf"(?P<middle>(?:[a-z][a-z-]+\s+|Main\s+|Basis\s+){{0,3}}?)(?P<head>(?i:{_HEADS}))\b(?!\s+\$)"
)
# Capitalised at the beginning of a sentence, but no surnames, as `May` and `Von Staudt` are.
_NOT_PEOPLE = frozenset(word.capitalize() for word in PHRASE_BREAKS - GERMAN_LINKING_WORDS - {"may"}) | frozenset(
    """Algorithm Axiom Basic Big Case Chapter Claim Classical Combine Combining Condition Conditions Conjecture
    Consequently Corollary Definition Equation Equations Example Exercise Fact Figure First Formula Fundamental General
    Identity Lemma Lemmas Main Modern New Old Part Problem Proof Property Proposition Remark Rule Second Section Simple
    Small Special Step Strong Table Theorem Theorems Third Today Unlike Weak Whence""".split()
)
_PRAISE = frozenset("celebrated famous beautiful deep classical original important own remarkable usual".split())
_NOT_IN_RESULTS = PHRASE_BREAKS | GENERIC_NOUNS | _PRAISE  # between the people and the noun of a result
_REFERENCE = re.compile(
    r"\b[A-Z][\w-]*(?:\s+(?:of|on|in|and|the|over|for|to|with|[A-Z][\w-]*)){0,8},\s+"
    r"(?=(?:Lemma|Section|Theorem|Proposition|Definition|Remark|Example|Equation|Situation|Chapter|Subsection)\w*)"
)


def mask_references(masked: str) -> str:
    """The text without names of chapters before a reference, as in `Algebra, Lemma`; the length stays."""
    return _REFERENCE.sub(lambda match: "," * (match.end() - match.start()), masked)


def named_results(masked: str) -> Iterator[tuple[str, list[str]]]:
    """Names such as `Zorn's lemma` or `Cauchy–Schwarz inequality` in running text, with the people in each."""
    for match in _NAMED.finditer(masked):
        words = [word for word in re.split(r"\s+and\s+|\s+|[-–]", match["people"]) if word[0].isupper()]
        people = list(itertools.dropwhile(_NOT_PEOPLE.__contains__, words))
        middle = match["middle"].split()
        if not people or not _NOT_PEOPLE.isdisjoint(people) or not _NOT_IN_RESULTS.isdisjoint(middle):
            continue
        if not (match["owner"] or middle or len(people) > 1 or match["head"][0].islower()):
            continue  # `Algebra Lemma` is a reference
        start = match.start() + (match["people"].index(people[0]) if people != words else 0)
        yield " ".join(masked[start : match.end()].split()), people


_CREDITED = re.compile(
    rf"\b(?P<head>[Tt]heorems?|[Ll]emmas?|[Cc]onjectures?) (?:of|by|due to) "
    rf"(?P<people>{_NAME}(?:(?:,? and |, |[-–]){_NAME}){{0,2}})"
)


def _credited_key(match: re.Match[str]) -> str:
    """`theorem of Gordon` has the key of `Gordon's theorem`."""
    return key_of(re.sub(r"\band\b", " ", match["people"]) + " " + match["head"])


_UNSPECIFIC = frozenset(
    "fundamental main key general product existence uniqueness technical auxiliary basic second first".split()
)
_SURNAME = re.compile(r"[A-ZÄÖÜÉÈŁŠČŻ][^\W\d_]+(?:[-–][A-ZÄÖÜÉÈŁŠČŻ][^\W\d_]+)*$")
_COMMON = re.compile(
    r"(?:tion|sion|ity|ness|ence|ance|ment|ism|ing|ness|ics|ure|logy|phism|ors|ers|ies|eties|als|ial|ical|able|ible|ous)$"
)
_GERMAN_NOUN = re.compile(  # ends like a common noun, not like a surname
    r"(?:ante|ung|enz|keit|heit|schaft|ium|tion|[^h]en|el|satz|lage|folge|reihe|summe|kette|gruppe|menge|form)$"
)
_GERMAN_NOUNS = {"theorem": "Satz", "satz": "Satz", "lemma": "Lemma", "conjecture": "Vermutung"}


def note_name(note: str, kind: str, german: bool = False) -> tuple[str, str]:
    """The name that a statement's note gives it, and the rule: `note`, `people` or `note phrase`; ("", "") for none.

    `Gordon, 1961` on a theorem gives `Gordon's theorem`; `Hook length formula` is a name itself. `people` count only
    where the corpus never writes the words in lower case.
    """
    text = re.sub(r"\s*[(\[][^()\[\]]*[)\]]", "", mask(note))
    text = re.sub(r"[,\s]+(?:1[5-9]|20)\d\d\b.*$", "", text.split(";")[0]).strip(" ,.")
    if re.search(r"\bet al\b", text):
        return "", ""
    people = [part for part in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+|\s+und\s+", text) if part]
    if (
        people
        and all(_SURNAME.match(part) and not _COMMON.search(part) for part in people)
        and not result_kind(text)
        and not result_noun(text)
    ):
        if kind not in {"theorem", "lemma", "conjecture", "satz"} or len(people) > 3:
            return "", ""
        if german:
            common = len(people) == 1 and _GERMAN_NOUN.search(people[0])
            return ("", "") if common else (f"{_GERMAN_NOUNS[kind]} von {' und '.join(people)}", "people")
        noun = "theorem" if kind == "satz" else kind
        if len(people) == 1 and not re.search(r"[-–]", people[0]):
            return f"{people[0]}'s {noun}", "people"
        return f"{'–'.join(people)} {noun}", "people"
    if german and result_noun(text) and not re.search(r"[\\${}]", text):
        return (text, "note") if result_noun(text) != text.casefold() else ("", "")
    name = clean_term(text)
    if not name:
        return "", ""
    if result_kind(name):
        words = [word.casefold() for word in name.split()]
        unspecific = len(words) == 1 or (len(words) == 2 and words[0] in _UNSPECIFIC)
        return ("", "") if unspecific else (name, "note")
    if kind in {"principle", "algorithm", "summation", "conjecture", "axiom"} and len(name.split()) == 1:
        return f"{name} {kind}", "note"
    return name, "note phrase"


def title_phrases(title: str) -> list[str]:
    """Noun phrases in the title of a document or section; they become concepts where the text confirms them."""
    text = re.sub(r"^\s*[A-Z]?[\d.]+\s+", "", mask(title))
    if re.search(r"\b(?:of|in|for|on|with)\b.*\band\b", text):
        return []  # which words `and` joins is unclear here
    parts = re.split(r"\s*(?:[:;,]|\s[-–—]\s|\band\b|\bund\b|\bor\b)\s*", re.sub(r"\s*\([^()]*\)", "", text))
    return [name for part in parts if (name := clean_term(part)) and not _VARIABLE.search(name)]


# ---------------------------------------------------------------- runs of content words

_RUN_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?(?:[-–‐][^\W\d_]+)*|[^\s]")


def content_runs(masked: str) -> Iterator[list[tuple[str, bool]]]:
    """Runs of content words; each word with whether it stands inside a sentence, so that a capital means something."""
    run: list[tuple[str, bool]] = []
    inside = False
    for word in _RUN_WORD.findall(masked):
        if word[0].isalpha() and word.casefold() not in PHRASE_BREAKS:
            run.append((word, inside))
            inside = True
            continue
        if run:
            yield run
            run = []
        inside = word[0].isalpha() or word in "$,)'"
    if run:
        yield run


def phrase_key(words: list[str]) -> str:
    """Normal forms of the words and of the parts of hyphenated words, joined by blanks."""
    return " ".join(normal(part) for word in words for part in re.split(r"[-–‐]", word))


# ---------------------------------------------------------------- all that a passage says by itself


class Run(NamedTuple):
    """Adjacent content words."""

    inside: bool  # whether the first word stands inside a sentence, as all others do
    words: list[str]
    keys: list[str]  # `phrase_key` of each word


class Evidence(NamedTuple):
    """What a passage says; the same passage always says the same, so it can be kept while others change."""

    german: bool
    digest: str  # of the masked text
    defined: list[Candidate]
    note: tuple[str, str]  # name and rule
    titled: list[str]  # phrases of the document's title that this first passage of it confirms
    named: list[tuple[str, list[str]]]  # results named after people
    credited: list[str]  # keys of results that the text credits to people
    runs: list[Run]  # of an English text
    phrases: list[str]  # of a German text


ReadEvidence = Callable[[Passage, str | None], Evidence]


def read_evidence(passage: Passage, title: str | None) -> Evidence:
    """Read a passage; `title` is that of its document if the document begins with it, else None."""
    masked = mask_references(mask(passage.text))
    german = language_of(masked) == "de"
    proof = mask(passage.proof) if german else mask_references(mask(passage.proof))
    runs = [] if german else [run for text in (masked, proof) for run in content_runs(text)]
    return Evidence(
        german,
        hashlib.blake2b(masked.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(),
        list(find_defined_terms(passage, masked, title is not None, german)),
        note_name(passage.title, passage.kind, german) if passage.title else ("", ""),
        _titled(title, masked) if title and not german else [],
        [(name, []) for text in (masked, proof) for name in german_results(text)]
        if german
        else [(name, sorted(people)) for text in (masked, proof) for name, people in named_results(text)],
        [_credited_key(match) for text in (masked, proof) for match in _CREDITED.finditer(text) if not german],
        [Run(run[0][1], [word for word, _ in run], [phrase_key([word]) for word, _ in run]) for run in runs],
        [phrase for text in (masked, proof) for phrase in german_phrases(text)] if german else [],
    )


def _titled(title: str, masked: str) -> list[str]:
    text = f" {key_of(masked)} "
    return [name for name in title_phrases(title) if f" {key_of(name)} " in text or result_kind(name)]


def evidence_key(passage: Passage, title: str | None) -> bytes:
    """A hash of all that `read_evidence` reads."""
    parts = (
        passage.kind,
        passage.text,
        passage.title,
        passage.raw,
        passage.proof,
        passage.metadata.get("terms"),
        passage.metadata.get("index"),
        title,
    )
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).digest()


def code_digest() -> str:
    """A hash of the rules themselves: evidence that other rules found is of no use."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted((*folder.glob("*.py"), *(folder.parents[1] / "core").glob("words.*"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def to_json(evidence: Evidence) -> str:
    return json.dumps(evidence, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str) -> Evidence:
    fields = Evidence(*json.loads(text))
    return fields._replace(
        defined=[Candidate(*each)._replace(aliases=tuple(each[4])) for each in fields.defined],
        note=(fields.note[0], fields.note[1]),
        named=[(name, people) for name, people in fields.named],
        runs=[Run(*run) for run in fields.runs],
    )
