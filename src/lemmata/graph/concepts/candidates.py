"""Candidates for concepts in one passage: terms being defined, named results, and runs of content words.

Every candidate carries the rule that produced it. `build` decides which candidates become concepts, once the whole
corpus has been read.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from lemmata.core.types import Passage
from lemmata.core.words import GENERIC_NOUNS, GERMAN_LINKING_WORDS, LINKING_WORDS, PHRASE_BREAKS, language_of
from lemmata.graph.concepts.german import german_kind, result_noun
from lemmata.graph.concepts.terms import (
    RESULT_NOUNS,
    TECHNIQUE_NOUNS,
    clean_term,
    key_of,
    mask,
    normal,
    property_or_object,
    result_kind,
    sentence_spans,
)


class Candidate(NamedTuple):
    """A name that may become a concept; `sentence` defines it, or is ""."""

    name: str
    kind: str
    rule: str
    sentence: str = ""
    aliases: tuple[str, ...] = ()


# ---------------------------------------------------------------- terms being defined

_DISPLAY = re.compile(
    r"\$\$.*?\$\$|\\\[.*?\\\]|\\begin\{(equation|align|eqnarray|gather|multline|displaymath)\*?\}.*?\\end\{\1\*?\}"
    r"|\\xymatrix\s*\{.*?\n\}",
    re.DOTALL,
)


_INSIDE = r"([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}"
_EMPHASIS = re.compile(
    r"\\(?:emph|textit|textbf|textsl|defn|dfn|define|defined|term|df|defi|concept|newterm)\s*\{"
    + _INSIDE
    + r"|\{\\(?:it|em|bf|sl|itshape|bfseries|slshape)\b\s*"
    + _INSIDE
)
_ACCENT = re.compile(r"\\(['`^\"~=.])\s*\{?\\?([A-Za-z])\}?|\\([Hcvuk])\s*\{([A-Za-z])\}")
_ACCENTS = dict(
    zip("'`^\"~=.Hcvuk", "\u0301\u0300\u0302\u0308\u0303\u0304\u0307\u030b\u0327\u030c\u0306\u0328", strict=True)
)
_ARTICLE_BEFORE = re.compile(
    r"\b(?:an?|the|its|their|his|our|every|no|of|ein|eine|einen|der|die|das)\s*$", re.IGNORECASE
)
_DEFINING_BEFORE = re.compile(
    r"(?:\b(?:called|termed|named|say|says|said to be|call|known as|means?|is|are|be|as|heißt|heißen|nennt man|als)"
    r"|\b(?:called|termed|call|known as|mean|is|are|as|heißt|heißen|nennt man|nennen wir) (?:an?|the|eine?n?))\s*$"
)
_CALLED_BEFORE = re.compile(
    r"\b(?:called|termed|named|say|says|said to be|call|known as|referred to as|means?|defined? as|heißt|nennt man)"
    r"(?:\s+(?:an?|the|ein|eine|einen|to be|simply|also))*\s*$"
)
_DEFINING_WORDS = re.compile(
    r"\b(?:[Dd]efin\w+|[Dd]enote\w*|[Ii]ntroduc\w+|notions?|concepts?|[Cc]all\w*|means?|refer\w*|known|named|"
    r"obtain\w*|is (?:an?|the))\b"
)
_PREDICATE_AFTER = re.compile(
    r"[^.;:]{0,110}?\b(?:is|are|consists?|means?|refers?|denotes?|states?|says?|asserts?)\b(?! not)"
)
_SENTENCE_START = re.compile(r"[.!?:]\s+(?=[A-Z])|\s•\s")
_SENTENCE_STOP = re.compile(r"[.!?](?=\s|$)|\s•\s")
_YEAR = re.compile(r"\b(?:1[6-9]|20)\d\d\b")
_STRESSED = frozenset(
    """same finite infinite smallest largest greatest least inductive constructive proposition every exactly only
    cannot arbitrary countable entire actual minimal maximal converse opposite all sole""".split()
)  # in prose these are emphasised for stress
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
_CALLED = r"(?:called|termed|said to be|known as|referred to as)"
_OF = r"(?:\s+(?:of|on|over|for|in|associated|between)\b[^.,;:]{1,60}?)?"
_IF = r"(?=\s+(?:if|when|whenever|iff|provided)\b)"
_PATTERNS = tuple(
    (rule, re.compile(pattern))
    for rule, pattern in (
        ("called", rf"\b(?:is|are|be|being|was|were)\s+{_ADVERB}{_CALLED}\s+{_ADVERB}{_A_OR_ITS}?{_TERM}"),
        ("called", rf"{_WE}\s+call\s+(?:[^.;:,]{{0,60}}?\s)??{_A}{_TERM}"),
        ("called", rf"{_WE}\s+call\s+(?:\$+|it|them|such)\s+{_A}?{_TERM}"),
        (
            "say that",
            rf"(?:{_WE}|\b[Oo]ne)\s+says?\s+(?:that\s+)?(?:[^.;:,$]{{0,40}}\s)?\$*\s*(?:is|are)\s+{_A}?{_NOUN}{_IF}",
        ),
        ("by we mean", rf"\b[Bb]y\s+{_A}{_NOUN}(?:\s+\$)?\s+(?:we|one)\s+(?:shall\s+|will\s+)?(?:mean|understand)"),
        (
            "defined as",
            rf"\b[Tt]he\s+(?P<article>){_NOUN}{_OF}(?:\s*\$+)?\s+(?:is|are)\s+defined\s+(?:as|to be)\b",
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
    r"\s*(?:Definition[.:]?\s+)?(?P<article>An?|Ein|Eine)\s+(?P<term>[^\W\d_$][^.,;:()$\n]{2,60}?)"
    r"(?:(?:\s*[$(]|\s+(?:of|on|over|in|for|from|with|between)\b)[^.;:]{0,60}?)?"
    r"\s+(?:is|ist)\s+(?:an?|the|any|defined|ein|eine|der|die|das|simply|just)\b"
)
_CUT = re.compile(
    r"\s+(?:of|for|in|on|at|from|by|to|with|over)\s+(?:the|an?|its|this|these|those|that|each|every|some|any|all|his|which|whose)\b.*$"
)
_ALSO = re.compile(
    r"[,\s]*\(?(?:(?:also|sometimes|often|alternatively|or)\s+)+(?:called\s+|known as\s+|termed\s+|referred to as\s+)?"
    r"(?:an?\s+|the\s+)?(?P<term>[^\W\d_$][^.,;:()$\n]{2,50}?)(?=\s*[.,;:()]|\s+(?:if|when|is|are|and|or|on)\b)"
)
_VARIABLE = re.compile(r"(?<!\w)[A-Z][-–]\w")  # `R-module`: the letter is the author's
_CONDITION = re.compile(r"\b(?:if|when|whenever|iff|provided|wenn|falls)\b")
_RELATIVE = re.compile(r"(?:[A-Z]|in|on|at)$|(?:in|on|at|by|isomorphic|equal|contained|defined|given|induced)\b")
_FORMULAS = re.compile(r"\$+")
_ACRONYM = re.compile(r"\s*\((?P<term>[A-Z]{2,6})s?\)")


def find_defined_terms(passage: Passage, masked: str, opening: bool) -> Iterator[Candidate]:
    """Terms that a passage defines; `opening` means that its document begins here, as an article on its subject."""
    spans = sentence_spans(masked)
    german = language_of(masked) == "de"
    kind_of = _german_kind if german else _kind
    for candidate in _emphasised_terms(passage, masked, spans):
        yield candidate._replace(kind=_german_kind(candidate.name, candidate.kind)) if german else candidate
    for number, (start, end) in enumerate(spans):
        sentence = _FORMULAS.sub("$", masked[start:end])  # short, so that no pattern walks through a long formula
        readable = " ".join(passage.text[start:end].split())
        for rule, pattern in _GERMAN_PATTERNS if german else _PATTERNS:
            for match in pattern.finditer(sentence):
                name = _term_name(match["term"])
                if not name or _VARIABLE.search(name) or re.search(r"\s(?:an?|the)\s", name):
                    continue
                kind = "object" if match["article"] or rule in {"by we mean", "defined as"} else "definition"
                yield Candidate(name, kind_of(name, kind), rule, readable, _aliases_after(sentence, match, name))
        if german and (also := _GERMAN_ALSO.search(sentence)):
            name, alias = clean_term(also["term"]), clean_term(also["alias"])
            if name and alias:
                yield Candidate(name, kind_of(name, "object"), "called", readable, (alias,))
        subject = _OPENING.match(sentence) if passage.kind == "definition" or (opening and number < 3) else None
        if subject and not _CONDITION.search(sentence, subject.end()):  # with a condition, the predicate is defined
            name = _term_name(subject["term"])
            if name:
                aliases = _aliases_after(sentence, subject, name)
                yield Candidate(name, kind_of(name, "object"), "is a", readable, aliases)


def _term_name(term: str) -> str:
    """The name in a matched term, or "" where it is none or only relates something to a variable: `contained in`."""
    name = clean_term(_CUT.sub("", term))
    return "" if _RELATIVE.match(name) else name


def _emphasised_terms(passage: Passage, masked: str, spans: list[tuple[int, int]]) -> list[Candidate]:
    """Emphasised terms of a passage; outside definitions only where the words around them define."""
    source, emphases = _emphases(passage, masked)
    german = language_of(masked) == "de"
    keys: list[str] = []
    candidates: list[Candidate] = []
    last_end = 0  # of the last candidate or its alias
    for term, start, end in emphases:
        before = " ".join(source[max(0, start - 160) : start].split())
        after = source[end : end + 160]
        article = bool(_ARTICLE_BEFORE.search(before))
        noun = _following_noun(term, after) if article else ""
        if german and term.islower() and (capital := re.match(r"\s+([A-ZÄÖÜ][^\W\d_]+)", after)):
            noun = capital[1]
        name = _term_name(f"{term} {noun}")
        if not name:
            continue
        if candidates and _OR_BETWEEN.fullmatch(source, last_end, start):
            candidates[-1] = candidates[-1]._replace(aliases=(*candidates[-1].aliases, name))
            last_end = end
            continue
        rule = "emphasis"
        if not passage.raw:
            rule = _prose_rule(name, before, after)
        elif passage.kind != "definition":
            rule = "" if not _DEFINING_BEFORE.search(before) else "stress" if passage.kind == "exercise" else rule
        if not rule:
            continue
        is_object = article or not re.search(r"[\w$,]$", before)
        if not is_object and _starts_with_verb(name) and not re.search(r"\bcalled(?: the)?$", before):
            continue
        if passage.raw:
            keys = keys or [f" {key_of(masked[first:stop])} " for first, stop in spans]
            key = f" {key_of(name)} "
            place = next((span for span, text in zip(spans, keys, strict=True) if key in text), None)
        else:
            place = next((span for span in spans if span[0] <= start < span[1]), None)
        sentence = " ".join(passage.text[place[0] : place[1]].split()) if place and rule == "emphasis" else ""
        candidates.append(Candidate(name, _kind(name, "object" if is_object else "definition"), rule, sentence))
        last_end = end
    return candidates


def _emphases(passage: Passage, masked: str) -> tuple[str, list[tuple[str, int, int]]]:
    """The source of a statement, or the masked text of prose, and the emphasised terms with their spans in it."""
    if "\\" in passage.raw:
        raw = mask(_ACCENT.sub(_accented, _DISPLAY.sub(" $ ", passage.raw)).replace("~", " ").replace("--", "–"))
        return raw, [
            ((match[1] or match[2] or "").replace("\\/", "").replace("\\ ", " "), *match.span())
            for match in _EMPHASIS.finditer(raw)
        ]
    emphases: list[tuple[str, int, int]] = []
    end = 0
    for written in passage.metadata.get("terms", ()):
        term = mask(str(written)).strip()
        whole_words = re.compile(rf"(?<![^\W_]){re.escape(term)}(?![^\W_])")
        places = [match.start() for match in itertools.islice(whole_words.finditer(masked, end), 4)] if term else []
        if places:
            # the same words may stand earlier without emphasis; defining words before them are the better sign
            defining = (place for place in places if _CALLED_BEFORE.search(masked[max(0, place - 40) : place]))
            start = next(defining, places[0])
            end = start + len(term)
            emphases.append((term, start, end))
    return masked, emphases


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
        return "emphasis"
    if re.search(r"(?:•|\(\d+\))$", before):  # an item of a list
        return "emphasis" if re.match(r"[\s$]*(?::|(?:if|iff|when|is|are)\b)", after) else ""
    if not _ARTICLE_BEFORE.search(before):
        return "emphasis" if re.search(r"\b(?:is|are|be)$", before) and _CONDITION.search(after) else ""
    if re.fullmatch(r"\W*\w+", before):  # the article alone: the sentence is about the term
        return "emphasis" if _PREDICATE_AFTER.match(after) else ""
    if re.search(r"\b[Dd]efine \w+$", before) or _CONDITION.match(after.lstrip("$ ")):
        return "emphasis"
    return "stress" if " " in name or _DEFINING_WORDS.search(before) or _CONDITION.search(after[:60]) else ""


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


def _accented(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFC", (match[2] or match[4]) + _ACCENTS[match[1] or match[3]])


def _german_kind(name: str, _: str) -> str:
    """A noun has a capital in German; a name of small letters is a property."""
    return german_kind(name, "object" if re.search(r"(?<!\w)[A-ZÄÖÜ]", name) else "definition")


def _kind(name: str, kind: str) -> str:
    last = name.split()[-1]
    if kind == "definition" and last.endswith("s") and normal(last) != last:
        kind = "object"  # a plural is a noun
    return result_kind(name) or kind


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


def credited_results(masked: str) -> Iterator[str]:
    """Keys of the results that running text credits to people: `theorem of Gordon` is that of `Gordon's theorem`."""
    for match in _CREDITED.finditer(masked):
        yield key_of(re.sub(r"\band\b", " ", match["people"]) + " " + match["head"])


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
