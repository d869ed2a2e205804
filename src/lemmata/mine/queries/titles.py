"""Queries from the name of a statement, and from the title of a short article, which is about its title."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lemmata.concepts.words import result_kind
from lemmata.mine.queries.phrases import with_article
from lemmata.mine.queries.styles import Pick, Query
from lemmata.mine.queries.wording import definite, is_plural, lower, typed, upper, what_is
from lemmata.types import Passage

__all__ = ["named", "titled"]

# ---------------------------------------------------------------- names of statements

_CAPITAL = "[A-ZÀ-ÖØ-ÞŁŠČŻ]"
_PERSON = re.compile(rf"{_CAPITAL}[^\W\d_]+(?:[-–]{_CAPITAL}[^\W\d_]+)*")
_NO_PERSON = re.compile(
    r"(?:tion|sion|ity|ness|ence|ance|ment|ism|ing|ics|ure|logy|phism|ors|ers|ies|als|ial|ical|able|ible|ous|form|ems|"
    r"ons|ples|ary|act|metry|formel|nts|les|ords|logie|iff)$"
)
_LOOSE = re.compile(
    r"\b(?:variants?|version|part|case|form|first|second|key|general|definitions?|theorems?|final|another|some|main|"
    r"special|weak|strong)\b"
)
_NOT_IN_NOTE = re.compile(r"\s*[(\[][^()\[\]]*[)\]]|[,;:]?\s+(?:1[5-9]|20)\d\d\b.*$")
_CLAIMING = frozenset("theorem lemma conjecture proposition corollary".split())


def named(passage: Passage, pick: Pick) -> Iterator[Query]:
    """A statement with a name: what does it say?"""
    name = _name(passage) if passage.title and passage.kind not in ("chunk", "exercise") else ""
    if len(name.split()) < 2:
        return
    if result_kind(name) and passage.kind not in ("remark", "example"):
        do = "do" if is_plural(name.split()[-1]) else "does"
        asked = f"What {do} {definite(name)} say?"
        yield Query(pick("named", asked, asked, f"statement of {definite(name)}"), "question", "named")
        yield Query(re.sub(r"'s\b", "", lower(name)), "keyword", "named")
    else:
        example = "example of " if passage.kind == "example" and not name.casefold().startswith("example") else ""
        yield Query(example + lower(name), "keyword", "note")


def _name(passage: Passage) -> str:
    """What a note calls its statement: `Gordon` at a theorem is `Gordon's theorem`; "" for `Variant` and the like."""
    name = _NOT_IN_NOTE.sub("", typed(passage.title)).strip(" ,.;").replace("’", "'")
    if not name or name.casefold() in ("variant", "variants"):
        return ""
    people = re.split(r", (?:and )?| and ", name)
    if all(_PERSON.fullmatch(one) and not _NO_PERSON.search(one) for one in people):
        if passage.kind not in _CLAIMING or len(people) > 3:
            return ""
        kind = "theorem" if passage.kind in ("proposition", "corollary") else passage.kind
        return f"{'-'.join(people)} {kind}" if re.search(r"[-–, ]", name) else f"{name}'s {kind}"
    if not re.match(r"[^\W\d_]|\w-", name) or len(name.split()) > 8 or re.search(r"[,;=]|\d\.\d|\bThm\b", name):
        return ""
    rest = re.sub(r"(?:fundamental|structure|existence|main) theorem\b|theorem$", "", name.casefold())
    return "" if _LOOSE.search(rest) or not rest.strip() else name


# ---------------------------------------------------------------- titles of articles

_PROOF = re.compile(
    r"(?:another |alternative |direct |elementary |simple |short )?(?:proof|derivation) (?:of|that) (?P<what>.+)",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(r"(?P<counter>counter-?)?examples? (?:of|to|for) (?P<what>.+)", re.IGNORECASE)
_SENTENCE = re.compile(r"(?P<subject>.+?) (?P<verb>is|are|has|have|implies|imply) (?P<rest>.+)")
_UNASKED = re.compile(
    r"^[\d.A-Z]*\d|^(?:chapter|notes?|exercises|index|topic|table|bibliography|proof|introduction)\b|[:;?$\\=]"
    r"|^\w+ing\b",
    re.IGNORECASE,
)
_RESULT = re.compile(
    r"(?:theorem|lemma|conjecture|principle|criterion|law|inequality|test|rule|axiom|formula|paradox)s?$"
)
_NO_THING = re.compile(
    r"\b(?:and|versus|using|to|computation|finding|when|how|why|properties|operations)\b|^(?:alternative |equivalent )?"
    r"(?:characterization|criterion|criteria|definition|condition|equivalent|classification|construction)s?\b",
    re.IGNORECASE,
)


def titled(title: str, pick: Pick) -> Iterator[Query]:
    """What an article with this title answers; nothing for titles such as `Notes` or `1.2 Products`."""
    title = typed(title)
    if not 1 <= len(title.split()) <= 12 or not re.search(r"[^\W\d_]{2}", title):
        return
    if found := _PROOF.fullmatch(title):
        yield from _proof(found["what"], pick)
    elif _UNASKED.search(title):
        return
    elif found := _EXAMPLE.fullmatch(title):
        yield from _example(found["what"], "counterexample" if found["counter"] else "example")
    elif found := _SENTENCE.fullmatch(title):
        yield from _sentence(lower(found["subject"]), found["verb"], found["rest"], pick)
    elif " " in title and result_kind(title) and (_RESULT.search(title) or re.search(r"[A-Z]", title)):
        does = "do" if is_plural(title.split()[-1]) else "does"
        ways = (f"What {does} {definite(title)} say?", f"statement of {definite(title)}")
        yield Query(pick("title", *ways), "question", "title")
    elif not _NO_THING.search(title):
        yield Query(what_is(title), "question", "title")


def _proof(what: str, pick: Pick) -> Iterator[Query]:
    if re.search(r"\b(?:is|are|has|have|divides|implies|every|all|there)\b", what):
        ways = (f"How to prove that {what}?", f"Why is it true that {what}?")
    else:
        ways = (f"How is {definite(what)} proved?", f"How to prove {definite(what)}?")
    yield Query(pick("proof", *ways), "question", "proof")
    yield Query(re.sub(r"^(?:the|an?) ", "", what) + " proof", "keyword", "proof")


def _example(what: str, kind: str) -> Iterator[Query]:
    of = "of" if kind == "example" else "to"
    bare = re.sub(r"^(?:the|an?) ", "", what)
    if is_plural(re.split(r" (?:of|in|on|that|which|for)\b", what)[0].split()[-1]):
        yield Query(f"What are {kind}s {of} {what}?", "question", "example")
    else:
        one = what if bare != what or "'" in what or result_kind(what) else with_article(what)
        yield Query(f"What is {with_article(kind)} {of} {one}?", "question", "example")
    yield Query(f"{bare} {kind}", "keyword", "example")


def _sentence(subject: str, verb: str, rest: str, pick: Pick) -> Iterator[Query]:
    """A title that says something: `Fermat numbers are coprime`."""
    if re.search(r"\b(?:that|which|whose|if|when|iff|how|where|of)\b", subject):
        return
    if re.search(r"\b(?:is|are|has|iff)\b", rest):
        return
    if verb in ("is", "are"):
        ways = [f"Why {verb} {subject} {rest}?"]
        if not rest.startswith("not"):
            ways.append(f"{upper(verb)} {subject} {rest}?")
        yield Query(pick("title sentence", *ways), "question", "title sentence")
    else:
        base = {"has": "have", "implies": "imply"}.get(verb, verb)
        yield Query(f"{'Do' if base == verb else 'Does'} {subject} {base} {rest}?", "question", "title sentence")
