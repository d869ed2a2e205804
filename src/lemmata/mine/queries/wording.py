"""English around a name or a phrase: capitals, articles, and how one asks what something is."""

from __future__ import annotations

import re

from lemmata.concepts.words import result_kind
from lemmata.latex.readable import readable
from lemmata.mine.queries.phrases import with_article
from lemmata.words import singular

__all__ = ["definite", "head", "is_plural", "lower", "typed", "upper", "what_is"]


def upper(text: str) -> str:
    return text[:1].upper() + text[1:]


_COMMON_FIRST = re.compile(
    r"(?:tion|sion|ing|ity|ive|ial|nal|cal|ral|ic|ed|ness|ment|ous|ite|able|ible|ence|ance|ism|ure|tive|able|[^r]ar|"
    r"\bPrime|\bBase|\bField|\bClass|\bPath|\bTube|\bHigher|\bProper|\bAdjoint|\bOpen|\bTrace|\bFlat)$"
)


def lower(name: str) -> str:
    """Without the capital of a beginning, where the first word is no name by its ending."""
    first = (name.split() or [""])[0]
    common = first[:1].isupper() and first[1:].islower() and _COMMON_FIRST.search(first) and len(first) > 3
    common = (bool(common) and not re.match(r"[A-Z]", name[len(first) + 1 :])) or first in ("The", "A", "An")
    return name[:1].lower() + name[1:] if common else name


def typed(name: str) -> str:
    return " ".join(readable(name).split())


def definite(name: str) -> str:
    has = re.search(r"'s?(?:\s|$)|^(?:the|an?|that|every|all)\b", name, re.IGNORECASE) or re.search(
        r"\b(?:is|are|has)\b", name
    )
    named = result_kind(name) or re.search(r"\b(?:of|for)\b", name)
    name = lower(name)
    return name if has or not named else f"the {name}"


_MASS = re.compile(
    r"(?:(?:ness|ity|(?<!morph)ism|ics|logic|calculus|theory|arithmetic|integration|induction|ponens|tollens|geometry|"
    r"cohomology|homology|compactness|multiplication|addition|subtraction|division|convergence|"
    r"independence|dependence|duality|infinity|recursion|differentiation|factorization|semantics|syntax)$"
    r"|^(?:countably|uncountably|well|locally|totally|almost)\b)"
)
_ADJECTIVE = re.compile(
    r"(?:ous|able|ible|ical|ive|ent|less|ful|ic|ary|ular|compact|open|closed|dense|infinite|finite|complete|exact|free|normal|regular|connected|continuous|separable|definable)$"
)


def what_is(name: str) -> str:
    """`What is a Noetherian ring?`, `What are Bernoulli numbers?`, `What does commutative mean?`"""
    head = re.split(r" (?:of|in|on|over|for|with|between|from|to|by|at|under|and|modulo|relative)\b", name)[0]
    last = head.split()[-1]
    adjectives = _ADJECTIVE.search(name) and (" " not in name or last in ("normal", "regular", "compact", "connected"))
    if adjectives or re.match(r"(?:countably|locally|totally) \w+$", name):
        return f"What does {name} mean?"
    if re.match(r"(?:the|an?)\b", name, re.IGNORECASE):
        return f"What is {name[:1].lower() + name[1:]}?"
    if is_plural(last):
        return f"What are {name}?"
    if re.search(r" (?:of|for)\b", name):
        return f"What is the {name}?"
    if _MASS.search(last) or "'s" in name:
        return f"What is {name}?"
    return f"What is {with_article(name)}?"


def is_plural(word: str) -> bool:
    return singular(word) != word and word.islower() and len(word) > 3


def head(phrase: str) -> str:
    """The noun of `a Noetherian ring over a field`."""
    front = re.split(r" (?:of|over|with|in|on|which|such|whose|between|from|to|that|at|relative)\b", phrase)[0]
    words = front.split()
    return words[-1] if words and words[-1].isascii() and words[-1].replace("-", "").isalpha() else ""
