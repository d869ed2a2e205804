"""English around a name (articles, plurals, how to ask what it is), and how much of a passage a query repeats."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from lemmata.core.words import singular
from lemmata.graph.concepts.terms import property_or_object, result_kind


class Query(NamedTuple):
    """Something a person could type to find a passage."""

    text: str
    style: str  # question or keyword
    rule: str


class Pick(Protocol):
    """Chooses one of several wordings; for one passage and rule always the same."""

    def __call__(self, rule: str, *wordings: str) -> str: ...


# ---------------------------------------------------------------- English

_VOWEL_SOUND = re.compile(
    r"[FHLMNRSXfhlmnrsx](?:$|[-_^0-9( ])|[AEIOaeioéÉ]|u(?!n[iï](?!n|m[^o]|d)|til|su|se|ti|bi)|hon(?:o|es)|hour|8"
)

_COMMON_ENDING = re.compile(
    r"(?:tion|sion|ing|ity|ive|ial|nal|cal|ral|ic|ed|ness|ment|ous|ite|able|ible|ence|ance|ism|ure)$"
)
_WITHOUT_ARTICLE = re.compile(
    r"(?:ness|ity|(?<!morph)ism|ics|logic|calculus|analysis|theory|arithmetic|geometry|homology|integration|induction|"
    r"multiplication|addition|division|recursion|differentiation|factorization|convergence|dependence|semantics|syntax)$"
)
_ADJECTIVE = re.compile(  # those that `property_or_object` does not know by their ending
    r"(?:\w+ly )?(?:compact|open|closed|dense|exact|free|normal|regular|monotone|connected|separable|continuous)"
)


def with_article(phrase: str) -> str:
    """The phrase after `a` or `an`, by its sound: `a unique ring`, `an F-algebra`, `an étale map`."""
    first = re.sub(r"^\W+", "", phrase)
    exception = re.match(r"(?:eu|Euc|one\b|once)", first)
    return ("an " if _VOWEL_SOUND.match(first) and not exception else "a ") + phrase


def is_plural(word: str) -> bool:
    return len(word) > 3 and word.islower() and singular(word) != word


def lower_first(name: str) -> str:
    """The name without its initial capital, unless the first word may be a person's name."""
    first, _, rest = name.partition(" ")
    common = first in ("The", "A", "An") or (_COMMON_ENDING.search(first) and first[1:].islower())
    return name[:1].lower() + name[1:] if common and not rest[:1].isupper() else name


def definite(name: str) -> str:
    """`the Yoneda lemma`, but `Nakayama's lemma`."""
    name = lower_first(name)
    takes_article = result_kind(name) or re.search(r"\b(?:of|for)\b", name)
    return name if not takes_article or re.search(r"'s?(?:\s|$)|^(?:the|an?|every|all)\b", name) else f"the {name}"


def what_is(name: str) -> str:
    """`What is a Noetherian ring?`, `What are Bernoulli numbers?`, `What does commutative mean?`"""
    name = lower_first(name)
    last = re.split(r" (?:of|in|on|over|for|with|between|from|to|by|at|under|modulo)\b", name)[0].split()[-1]
    if _ADJECTIVE.fullmatch(name) or (" " not in name and property_or_object(name) == "definition"):
        return f"What does {name} mean?"
    if is_plural(last):
        return f"What are {name}?"
    if re.match(r"(?:the|an?)\b", name) or _WITHOUT_ARTICLE.search(last) or "'s" in name:
        return f"What is {name}?"
    return f"What is the {name}?" if re.search(r" (?:of|for)\b", name) else f"What is {with_article(name)}?"


# ---------------------------------------------------------------- repetition

OVERLAP = 0.6  # share of a passage's words that a query may repeat in their order
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def word_overlap(query: str, text: str) -> float:
    """Share of the text's words that the query repeats in the same order; 1.0 for a query that is the whole text."""
    query_words, text_words = ([word.casefold() for word in _WORD.findall(part)] for part in (query, text))
    if not text_words:
        return 0.0
    # longest common subsequence with one bit per word of the query (Hyyrö's bit-vector recurrence)
    positions: dict[str, int] = {}
    for position, word in enumerate(query_words):
        positions[word] = positions.get(word, 0) | 1 << position
    full = (1 << len(query_words)) - 1
    row = full
    for word in text_words:
        shared = row & positions.get(word, 0)
        row = ((row + shared) | (row - shared)) & full
    return (len(query_words) - row.bit_count()) / len(text_words)
