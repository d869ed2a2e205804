"""Terms that a passage defines, with what they are said of: `flat` of `a module`, `degree` of `a polynomial`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lemmata.concepts.words import normal, result_kind
from lemmata.latex.clean import plain
from lemmata.mine.queries.phrases import FORMULA, Masked, Speaker, plain_formula
from lemmata.mine.queries.styles import Pick, Query
from lemmata.mine.queries.wording import head, is_plural, what_is
from lemmata.types import Passage

__all__ = ["defined"]


class Term(NamedTuple):
    """A word or phrase being defined."""

    name: str
    role: str  # property, thing, things, belonging
    host: str = ""  # of a property, what has it; of a belonging, `of a ring`


_EMPHASIS = re.compile(
    r"\\(?:emph|textit|textbf|textsl|defn|dfn|define|defined|term|defi|concept)\s*\{((?:[^{}]|\{[^{}]*\}){2,80})\}"
    r"|\{\\(?:it|em|bf|sl)\b\s*((?:[^{}]|\{[^{}]*\}){2,80})\}"
)
_WORD = rf"(?:{FORMULA}-)?[^\W\d_][^\s.,;:()\ue000-\uf8ff]*"
_NAME = rf"(?P<name>{_WORD}(?: {_WORD}){{0,4}}?)"
_STOPS = (
    r"(?=[.,;:)]|$| [\ue000-\uf8ff]| (?:if|when|whenever|provided|iff|in case|for|where|and|or|of|over|on|at|with|by|"
    r"is|are|which|that|whose|because|since|in|from|to)\b)"
)
_SUBJECT = rf"(?P<subject>{FORMULA}|(?:[Aa]n?|[Ss]uch an?) {_WORD}(?: {_WORD}){{0,7}}?(?: {FORMULA})?)"
_CALLED = re.compile(
    rf"{_SUBJECT} (?:is|are) (?:then |also |sometimes )?(?:called|said to be|known as|termed) "
    rf"(?:(?P<article>an?|the) )?{_NAME}{_STOPS}"
)
_SAY = re.compile(
    rf"\b(?:[Ww]e|[Oo]ne) (?:then |also |will )?says? (?:that )?{_SUBJECT} is (?:(?P<article>an?|the) )?{_NAME}"
    rf"(?: (?:at|over|in|on|relative to) {FORMULA})? (?=if|when|provided)"
)
_BEGINS = re.compile(
    rf"^(?:For [^,]{{1,60}}, )?(?P<article>[Aa]n?|[Tt]he) {_NAME}(?: {FORMULA}(?!-))?"
    r"(?P<of> (?:of|on|over|in|for|associated to|from) [^.;:,]{1,50}?)? (?:is|are) "
    r"(?:an?|the|any|defined|called|simply|one less)\b"
)
_NO_NAME = re.compile(
    r"\b(?:is|are|was|be|been|has|have|if|then|when|where|which|that|such|not|we|it|they|there|does|do|can|will|may|"
    r"every|all|each|any|some|following|given|this|these|those|its|their|as|so|case|property|condition|same|"
    r"Lemma|Section|Theorem|Definition|Remark|Example|above|below|let|also|other|another|unique|denoted|written|"
    r"obtained|defined|used|called|said|known)\b"
)
_VAGUE = re.compile(
    r"(?:of|over|in|on|by|to|from|with|and|or|the|an?|for|at|as|element|object|function|notion|number|set|point|result|"
    r"type|kind|true|zero|equal|contained|isomorphic|finite over|relative|first|second|map|morphism|problem|statement|"
    r"study|concept|idea|purpose|reason|question|proof|converse|product|sum|sequence|value|name)"
)


def terms(passage: Passage, text: Masked, speaker: Speaker) -> Iterator[Term]:
    """What is defined, in order; emphasis counts in definitions, elsewhere only words such as `is called`."""
    marked: dict[str, None] = {}
    if passage.kind == "definition":
        for found in _EMPHASIS.finditer(passage.raw):
            name = _name(plain((found[1] or found[2]).replace("--", "-")))
            if name:
                marked.setdefault(name)
    told: set[str] = set()
    for term in _by_words(text, speaker, opening=passage.kind == "definition" or passage.id.endswith("@1")):
        near = [name for name in marked if name.startswith(term.name) or term.name.startswith(name)]
        if marked and not near:
            continue
        told.update(near)
        yield term._replace(name=near[0]) if near else term
    for name in marked:
        if name not in told:
            yield _by_place(name, text, speaker)


def _name(words: str) -> str:
    """A term without articles and formulas at its ends; "" where it is none."""
    words = re.sub(r"\$([^$]*)\$-", lambda found: f"{plain_formula(found[1]) or '$'}-", words)
    words = re.sub(r"\s+(?:of|on|over|at|in|relative to|with|by|from|to|for|associated to)?\s*\$.*", "", words)
    words = words.split(" or ")[0]
    words = re.sub(r"^(?:an?|the)\s+", "", " ".join(words.split()), flags=re.IGNORECASE).strip(" .,;:'`“”\"")
    if not words or re.search(r"[$\\{}=()\[\]<>|_^/*+]", words) or _NO_NAME.search(words) or len(words.split()) > 5:
        return ""
    if re.search(r"\bof the\b|(?:ly|than|wards)$", words):
        return ""
    if _VAGUE.fullmatch(words) or re.search(
        r"(?:^|\s)(?:of|over|in|on|by|to|from|with|and|or|the|an?|for|at|as)$", words
    ):
        return ""
    return (
        words if re.search(r"[^\W\d_]{3}", words) and not re.match(r"(?:in|on|at|over|by|of|to|from)\b", words) else ""
    )


def _typed(name: str, text: Masked) -> str:
    """A term found by its place, its letters as they are typed."""
    shown = re.sub(FORMULA, lambda found: f"${text.formula(found[0])}$", name)
    return _name(shown)


def _by_words(text: Masked, speaker: Speaker, *, opening: bool) -> Iterator[Term]:
    for number, sentence in enumerate(text.sentences):
        for pattern in (_CALLED, _SAY):
            for found in pattern.finditer(sentence):
                name = _typed(found["name"], text)
                if not name:
                    continue
                if found["article"]:
                    yield Term(name, "belonging" if found["article"] == "the" else "thing")
                else:
                    host = _host(found["subject"], speaker)
                    things = not host and " " in name and name.endswith("s") and not name.endswith("ss")
                    yield Term(name, "things" if things else "property", host)
        begins = _BEGINS.match(sentence) if opening and number < 2 else None
        name = _typed(begins["name"], text) if begins else ""
        if begins and name:
            role = "belonging" if begins["article"].lower() == "the" else "thing"
            yield Term(name, role, _of(begins["of"] or "", speaker) if role == "belonging" else "")


def _by_place(name: str, text: Masked, speaker: Speaker) -> Term:
    """The role of a term that is known to be one, by the words before it."""
    words = r" ".join(
        rf"(?:{FORMULA}|{re.escape(word.split('-')[0])})-{re.escape(word.partition('-')[2])}"
        if re.match(r"[A-Za-z0-9]-", word)
        else re.escape(word)
        for word in name.split()
    )
    for sentence in text.sentences:
        found = re.search(
            rf"(?P<before>\S+ )?{words}"
            rf"(?P<after> (?:of|on|over|at|in|for|associated to|from) [^.;:,]{{0,50}}{FORMULA}(?!-))?",
            sentence,
        )
        if not found:
            continue
        before = (found["before"] or "").strip().casefold()
        if before in ("a", "an"):
            return Term(name, "thing")
        if before in ("the", "its"):
            return Term(name, "belonging", _of(found["after"] or "", speaker))
        if before in ("is", "are", "be", "called", "say"):
            subject = re.search(rf"{_SUBJECT} (?:is|are|to be)(?: called| said to be)? {words}", sentence)
            return Term(name, "property", _host(subject["subject"], speaker) if subject else "")
        return Term(name, "things" if " " in name and re.search(r"[^s]s$", name) else "unknown")
    return Term(name, "unknown")


def _host(subject: str, speaker: Speaker) -> str:
    said = speaker.fresh().say(re.sub(r"^[Ss]uch ", "", subject))
    said = said[:1].lower() + said[1:] if re.match(r"An?\b", said) else said
    return said if re.match(r"an?\b", said) and 2 <= len(said.split()) <= 9 and " the " not in said else ""


def _of(after: str, speaker: Speaker) -> str:
    """`of a ring`, where that can be said."""
    after = after.strip()
    said = speaker.fresh().say(after) if after else ""
    return said if said.split()[:1] == after.split()[:1] and 3 <= len(said.split()) <= 9 and " is " not in said else ""


def defined(passage: Passage, text: Masked, speaker: Speaker, pick: Pick) -> Iterator[Query]:
    """Terms that a passage defines; of prose, the first only."""
    told: set[str] = set()
    for term in terms(passage, text, speaker):
        key = " ".join(map(normal, term.name.split()))
        if key in told or result_kind(term.name):
            continue
        told.add(key)
        if len(told) > (3 if passage.kind == "definition" else 1):
            return
        name = term.name
        if term.role == "property":
            if not term.host:
                continue
            yield Query(f"What does it mean for {term.host} to be {name}?", "question", "defined")
            noun = head(term.host)
            if " " not in name and noun:
                yield Query(pick("defined", f"definition of {name} {noun}", f"{name} {noun}"), "keyword", "defined")
            continue
        if term.role == "belonging":
            if term.host:
                verb = "are" if is_plural(name.split()[-1]) else "is"
                yield Query(f"What {verb} the {name} {term.host}?", "question", "defined")
            elif " " in name:
                yield Query(what_is(name), "question", "defined")
        elif term.role in ("thing", "things"):
            yield Query(what_is(name), "question", "defined")
        if " " in name:
            yield Query(pick("defined", f"definition of {name}", f"{name} definition"), "keyword", "defined")
