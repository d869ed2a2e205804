"""Queries from hypotheses and conclusions: `Let R be a ring ... Then X` asks when X holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lemmata.mine.queries.phrases import Masked, Speaker, with_article
from lemmata.mine.queries.styles import Pick, Query
from lemmata.mine.queries.wording import head, is_plural, lower, upper
from lemmata.words import plural

__all__ = ["claimed"]


class _Claim(NamedTuple):
    text: str  # masked
    condition: str = ""  # masked
    equivalence: bool = False


_HYPOTHESIS = re.compile(
    r"(?:Let|Suppose|Assume|Fix|Given|Consider|Denote|Write|Set|Put|Here|Recall|We (?:say|write|denote|use|assume)|"
    r"Notation|Moreover,? (?:let|assume|suppose)|Choose|Say|Define|Further|In this)\b"
)
_LEAD = re.compile(
    r"^(?:(?:Then|then|Moreover|In particular|Furthermore|Conversely|Hence|Thus|Also|In addition|Therefore|Finally|"
    r"In fact|In this case|In this situation|Consequently)[,:]?\s+|(?:we have|one has|it follows that|we see that|"
    r"it holds that)\s+)+"
)
_ITEM = re.compile(r"\s*(?:\((?:\d+|[a-h]|i{1,3}|iv|v)\)|•)\s+")
_CONDITION = re.compile(
    r"^(?:Assume|Suppose|assume|suppose)(?: that| moreover that| further that| also that)?:? (?P<what>.+)"
)


def _claims(text: Masked) -> tuple[list[_Claim], list[str]]:
    """What a statement claims, and the conditions that stand before it."""
    claims: list[_Claim] = []
    conditions: list[str] = []
    for sentence in text.sentences:
        condition = ""
        body = sentence.rstrip(".")
        if found := re.match(r"(?:\(\d\) )?(?:If|if|When|Whenever) (?P<if>.+?),? then (?P<then>.+)", body):
            condition, body = found["if"], found["then"]
        elif _HYPOTHESIS.match(body):
            if found := _CONDITION.match(body):
                pieces = _ITEM.split(found["what"])
                conditions += [piece.strip(" ,;") for piece in pieces if piece.strip(" ,;") and piece != "that"]
            if found := re.search(r"[.,;] then (?P<then>.+)", body):
                body = found["then"]
            else:
                continue
        body = _LEAD.sub("", body)
        lead, *items = _ITEM.split(body)
        items = [re.sub(r",? (?:and|or)$", "", item.strip(" ,;")).strip(" ,;") for item in items]
        if re.search(r"\bequivalent\b", lead) and items:
            claims.append(_Claim(items[0], condition, True))
        elif items and not re.sub(
            r"(?:the following|statements?|hold|are true|properties|we have|is true|:)", "", lead
        ).strip(" :,"):
            for item in items[:2]:
                if found := re.match(r"(?:[Ii]f|[Ww]hen) (?P<if>.+?),? then (?P<then>.+)", item):
                    claims.append(_Claim(found["then"], found["if"]))
                else:
                    claims.append(_Claim(item, condition))
        elif not items:
            claims.append(_Claim(body, condition))
    return claims, conditions


_VERB = (
    r"is|are|has|have|commutes|commute|preserves|preserve|induces|induce|contains|contain|satisfies|satisfy|admits|admit|"
    r"extends|extend|factors|factor|generates|generate|vanishes|vanish|converges|converge|divides|divide|reflects|"
    r"reflect|determines|determine|agrees|agree|coincides|coincide|acts|act|implies|imply|defines|define|"
    r"intersects|lies|lie|splits|split|exists|exist|consists|consist|descends|descend|lifts|lift|holds"
)
_CLAUSE = re.compile(rf"^(?P<subject>[^,;:]+?) (?P<verb>{_VERB}) (?P<rest>.+)$")
_EXISTENCE = re.compile(r"^(?:there (?:exists?|is|are)|we can find|one can find) (?P<what>.+)$")
_IRREGULAR = {"has": "have", "vanishes": "vanish", "satisfies": "satisfy", "implies": "imply", "lies": "lie"}


def claimed(text: Masked, speaker: Speaker, pick: Pick) -> Iterator[Query]:
    claims, conditions = _claims(text)
    for number, claim in enumerate(claims[:3]):
        told = [claim.condition] if claim.condition else conditions
        if claim.equivalence:
            yield from _equivalence(claim, speaker, pick)
        elif found := _EXISTENCE.match(claim.text):
            yield from _existence(found["what"], speaker.fresh())
        else:
            yield from _clause(claim, told, speaker, pick, only=number == 0)


_NO_SUBJECT = re.compile(
    r"(?:it|its|their|this|no|assuming|two|these|such|they|there|both|all|one|if|for|so|as|when|given|then|in|on|by|"
    r"under|with|let|each of)\b",
    re.IGNORECASE,
)
_NO_PREDICATE = re.compile(
    r"^(?:given|equal|obtained|defined|as|the|of|independent|in|on|left|right|denoted|isomorphic to (?:the|an?) \w+$)\b"
    r"|^(?:a )?[^\W\d_] |\band\b.*\b(?:is|are|has)\b"
)
_OPEN_END = re.compile(
    r"\b(?:of|over|in|on|by|to|from|with|and|or|the|an?|for|at|as|that|between|is|are|not|always|most|least|than|only|"
    r"satisfying|such|precisely|greater|so|namely)$"
)


def _parts(clause: str, speaker: Speaker) -> tuple[str, str, str] | None:
    """Subject, verb and rest of a clause, in words."""
    found = _CLAUSE.match(clause)
    if not found or re.search(r"\b(?:that|which|where|whose|if|both|either|let|we)\b", found["subject"]):
        return None
    rest = re.split(r",|;| where | see ", found["rest"])[0]
    rest = re.sub(r" (?:as well|also|too|again|still)$|^(?:also|again|still|then|therefore|automatically) ", "", rest)
    subject = speaker.say(found["subject"])
    predicate = speaker.say(rest)
    if not subject or not predicate or len(subject.split()) > 14 or len(predicate.split()) > 14:
        return None
    if re.match(r"[Tt]he\b", subject) and " of " not in subject:
        return None  # of `the map`, only the passage knows which
    if _NO_SUBJECT.match(subject) or _NO_PREDICATE.search(predicate):
        return None
    if _OPEN_END.search(subject) or _OPEN_END.search(predicate):
        return None
    subject = subject[:1].lower() + subject[1:] if re.match(r"(?:An?|The|Any|Every)\b", subject) else subject
    subject = re.sub(r"^any ", "a ", subject if re.match(r"[A-Z]\b", subject) else lower(subject))
    subject = with_article(subject[2:]) if subject.startswith("a ") else subject
    return subject, found["verb"], predicate


def _equivalence(claim: _Claim, speaker: Speaker, pick: Pick) -> Iterator[Query]:
    said = _parts(claim.text, speaker.fresh())
    if said is None or said[1] not in ("is", "are"):
        return
    subject, verb, rest = said
    asked = pick(
        "equivalence",
        f"When {verb} {subject} {rest}?",
        f"equivalent conditions for {subject} to be {rest}",
        f"How can one tell whether {subject} {verb} {rest}?",
    )
    yield Query(asked, "question", "equivalence")
    noun = head(subject)
    if noun and len(rest.split()) <= 2 and not re.match(r"an?\b|the\b", rest) and not is_plural(noun):
        yield Query(f"characterisations of {rest} {plural(noun)}", "keyword", "equivalence")
    elif re.match(r"an? \w+(?: \w+)?$", rest):
        yield Query(f"criterion for {subject} to be {rest}", "keyword", "equivalence")


def _existence(what: str, speaker: Speaker) -> Iterator[Query]:
    said = speaker.say(what)  # whole or not at all: what comes after `such that` is the point
    if not said or not re.match(r"an?\b|at|unique|infinitely|finitely|no\b|exactly|only|arbitrarily", said):
        return
    if not 5 <= len(said.split()) <= 16 or re.search(r"\bmoreover\b|\band (?:is|are)\b", said):
        return
    givens = [noun for noun in speaker.known.values() if not noun.definite]
    given = ""
    for noun in sorted(givens, key=lambda noun: (-min(len(noun.phrase.split()), 6), noun.phrase)):
        given = speaker.fresh().say(noun.phrase)
        if given and len(given.split()) <= 8 and given not in said:
            break
        given = ""
    verb = "are" if re.match(r"(?:infinitely|finitely|arbitrarily) many", said) else "is"
    if given:
        yield Query(f"Given {with_article(given)}, {verb} there {said}?", "question", "existence")
    else:
        yield Query(f"{upper(verb)} there {said}?", "question", "existence")
    if re.match(r"an?\b", said):
        unique = "uniqueness and existence" if "unique" in said else "existence"
        yield Query(f"{unique} of {re.sub(r' ?unique ?', ' ', said)}".replace("  ", " "), "keyword", "existence")


def _clause(claim: _Claim, conditions: Sequence[str], speaker: Speaker, pick: Pick, *, only: bool) -> Iterator[Query]:
    both = re.split(r",? (?:if and only if|iff|precisely when|exactly when) ", claim.text, maxsplit=1)
    speaker = speaker.fresh()
    said = _parts(both[0], speaker)
    if said is None:
        return
    subject, verb, rest = said
    singular_subject = re.sub(r"^(?:an?|any|every) ", "", subject)
    indefinite = singular_subject != subject
    plain = verb in ("is", "are")
    base = _IRREGULAR.get(verb, verb[:-1] if verb.endswith("s") and verb not in ("is",) else verb)
    does = "does" if base != verb else "do"
    when = f"When {verb} {subject} {rest}?" if plain else f"When {does} {subject} {base} {rest}?"
    asks = f"{upper(verb)} {subject} {rest}?" if plain else f"{upper(does)} {subject} {base} {rest}?"
    if indefinite and verb in ("is", "has") and not (len(both) == 2 or conditions):
        asks = f"Is every {singular_subject} {rest}?" if plain else f"Does every {singular_subject} {base} {rest}?"
    if len(both) == 2:
        yield Query(when, "question", "if and only if")
        other = speaker.say(both[1])
        if other and len(other.split()) < 14:
            yield Query(f"{upper(subject)} {verb} {rest} exactly when {other}", "paraphrase", "if and only if")
        if plain and rest.split()[0] not in ("not",):
            yield Query(f"criterion for {subject} to be {rest}", "keyword", "if and only if")
        return
    told = [phrase for condition in conditions[:2] if (phrase := speaker.say(condition))]
    complete = len(told) == len(conditions)
    condition = " and ".join(told) if complete else ""
    condition = condition[:1].lower() + condition[1:] if re.match(r"(?:An?|The|Every)\b", condition) else condition
    if condition and re.search(rf"\b(?:{_VERB}|exists?)\b", condition) and len(condition.split()) <= 14:
        yield Query(pick("conclusion", when, f"{asks[:-1]} if {condition}?"), "question", "conclusion")
        if len(condition.split()) > 7 and not re.match(r"(?:the|it|they)\b", condition):
            yield Query(f"What follows if {condition}?", "question", "hypothesis")
        yield Query(f"{upper(subject)} {verb} {rest} if {condition}", "slogan", "conclusion")
        yield from _turned(both[0], conditions, speaker.fresh())
        return
    modified = len(singular_subject.split()) > 2
    yield Query(pick("conclusion", when, asks) if modified and not conditions else when, "question", "conclusion")
    if modified and not conditions and only:
        yield Query(f"{upper(subject)} {verb} {rest}", "slogan", "conclusion")


def _turned(claim: str, conditions: Sequence[str], speaker: Speaker) -> Iterator[Query]:
    """The condition first, so that it introduces what the conclusion speaks of."""
    told = [speaker.say(condition) for condition in conditions]
    said = _CLAUSE.match(claim)
    if not said or not all(told):
        return
    clause = [speaker.say(said["subject"]), said["verb"], speaker.say(re.split(r",|;| where ", said["rest"])[0])]
    condition = " and ".join(told)
    if all(clause) and not _NO_SUBJECT.match(condition) and not re.match(r"[Tt]he\b", condition):
        condition = condition[:1].lower() + condition[1:] if re.match(r"(?:An?|Every)\b", condition) else condition
        yield Query(f"Whenever {condition}, {' '.join(clause)}", "paraphrase", "conclusion")
