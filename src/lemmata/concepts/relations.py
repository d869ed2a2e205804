"""Relations between concepts, from how a sentence puts them together and from how their names are made.

Every relation names its rule. Concepts are numbers here; precision comes before recall, so a pattern wants the
whole noun phrase on both sides to be a known name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lemmata.concepts.mentions import Match
from lemmata.concepts.words import RESULT, TECHNIQUE, key_of, normal
from lemmata.words import PREPOSITIONS

__all__ = ["Relation", "name_relations", "sentence_relations"]


class Relation(NamedTuple):
    """Source and target are numbers of concepts."""

    source: int
    relation: str
    target: int
    rule: str


# ---------------------------------------------------------------- what sentences say

_FIRST = re.compile(
    r"[\s(•\d.)]*(?:(?:Definition|Theorem|Remark|Note that|Recall that|Clearly|Hence|Thus|In particular|Therefore)"
    r"[.,:]?\s+)?(?P<word>[Aa]n?|[Ee]very|[Aa]ny|[Ee]ach|[Tt]he|[Aa]ll)?\s*"
)
_NAMED = r"(?:\s*\$+)?(?:\s*\([^()]{1,40}\))?"
_IS_A = re.compile(rf"{_NAMED}\s+is\s+(?:also\s+|always\s+|itself\s+)?an?\s+")
_IS = re.compile(rf"{_NAMED}\s+(?:is|are)\s+(?:also\s+|always\s+|necessarily\s+|automatically\s+)?")
_CALLED = re.compile(rf"{_NAMED}\s+(?:is|are)\s+(?:called|said to be|termed)\s+an?\s+")
_THE = r"\s+(?:the\s+|an?\s+|both\s+)?"
_BETWEEN = tuple(
    (relation, swapped, rule, re.compile(r"\s+" + pattern + _THE))
    for relation, swapped, rule, pattern in (
        (
            "generalizes",
            False,
            "generalizes",
            r"(?:(?:is|are)\s+(?:an?|the)\s+(?:\w+\s+)?generali[sz]ations?\s+of|generali[sz]es?)",
        ),
        (
            "generalizes",
            True,
            "special case",
            r"(?:is|are)\s+(?:(?:just|simply|only)\s+)?an?\s+(?:special|particular)\s+cases?\s+of",
        ),
        (
            "implies",
            True,
            "consequence",
            r"(?:is\s+an?\s+(?:\w+\s+)?(?:consequence|corollary)\s+of|follows\s+(?:\w+\s+)?from)",
        ),
        ("implies", False, "implies", r"implies"),
        ("equivalent_to", False, "equivalent", r"(?:is|are)\s+(?:\w+ly\s+)?equivalent\s+to"),
    )
)
_BEHIND = re.compile(
    r"\s*(?:[.;:,)]|$)|\s*\$|\s+(?:that|which|such|with|whose|where|in\s+which|having|satisfying|together|equipped|"
    r"consisting|of|on|over|and|but|for|all|endowed|containing|admitting|obtained|in)\b"
)
_CONDITION = re.compile(r"\b(?:if|when|whenever|provided|unless|iff|precisely|exactly|assuming|not|but|except)\b")
_STOPS = re.compile(r"\s*(?:[.;:,)]|$)")


def sentence_relations(sentence: str, matches: Sequence[Match], kinds: Sequence[str]) -> Iterator[Relation]:
    """Relations that one masked sentence states between the concepts matched in it (spans within the sentence)."""
    for left, right in itertools.pairwise(matches):
        source, target = left.number, right.number
        if source == target:
            continue
        first = _FIRST.fullmatch(sentence, 0, left.start)
        if not first:
            continue
        word = (first["word"] or "").casefold()
        between, behind = sentence[left.end : right.start], sentence[right.end :]
        things = kinds[source] == "object" and kinds[target] == "object"
        if word in {"a", "an", "every", "any", "each"}:
            if _IS_A.fullmatch(between) and things and _BEHIND.match(behind) and not _CONDITION.search(behind):
                yield Relation(source, "is_instance_of", target, "is a" if word in {"a", "an"} else "every is a")
                continue
            if _CALLED.fullmatch(between) and things and _CONDITION.search(behind):
                yield Relation(target, "is_instance_of", source, "is called a")
                continue
        if (
            word in {"every", "any", "each", "all"}
            and _IS.fullmatch(between)
            and kinds[target] == "definition"
            and _STOPS.match(behind)
            and not _CONDITION.search(behind)
        ):
            yield Relation(source, "implies", target, "every is")
            continue
        for relation, swapped, rule, pattern in _BETWEEN:
            if pattern.fullmatch(between) and (_BEHIND.match(behind) if rule != "equivalent" else _STOPS.match(behind)):
                if relation in {"implies", "equivalent_to"} and (kinds[source] in {"object"}) != (
                    kinds[target] in {"object"}
                ):
                    break
                if relation == "implies" and _CONDITION.search(behind):
                    break
                yield Relation(*((target, relation, source) if swapped else (source, relation, target)), rule)
                break


# ---------------------------------------------------------------- what names say

_PRIVATIVE = frozenset(
    """quasi pre pseudo near almost semi skew partial virtual formal super fuzzy weak weakly generalized generalised
    simplicial cosimplicial fractional improper signed co anti non ind pro derived noncommutative rough locally sub
    half hyper multi infinitesimal fake false lax oplax op opposite homotopy graph stochastic random approximate
    double triple dual higher big small large total difference differential hidden n k m x p symbolic dummy empty
    potential possible former would ideal generic differential inner outer left right missing free point bi tri
    formally essentially nearly virtually groupoid plane
    relatively hyperbolic spectral
    abstract mock fibered fibred relative universal algebraic cellular directed logical""".split()
)
# Measures and other nouns that are used anew for each thing: a hook length is no case of the length of a partition.
LOOSE_HEADS = frozenset(
    "sequence arrow converse inverse power infinite plane operator equivalence differential coordinate dotted "
    "length degree height rank weight dimension index type part side content order base normalization system object "
    "representation net state integral smooth change sum product "
    "point word letter term symbol property kind size value limit".split()
)


def name_relations(names: Sequence[str], numbers: Mapping[str, int], kinds: Sequence[str]) -> Iterator[Relation]:
    """A longer name under the shorter one it ends with, or that stands before its `of`; `numbers` by key.

    `Noetherian ring` is a `ring`, `ring of integers` too; a `generalized` one generalizes. Words that change what
    the noun means (`partial`, `formal`, `quasi`) give nothing, neither do results (no lemma is an instance).
    """
    for number, name in enumerate(names):
        words = name.split()
        if words[0].casefold() in {"generalized", "generalised"} and key_of(" ".join(words[1:])) in numbers:
            yield Relation(number, "generalizes", numbers[key_of(" ".join(words[1:]))], "generalized")
            continue
        if kinds[number] != "object":
            continue
        small = next((place for place, word in enumerate(words) if word in PREPOSITIONS), None)
        if small is None:
            shorter = [(words[:start], words[start:]) for start in range(1, len(words))]
        else:
            shorter = [([], words[:small])] if words[small] in {"of", "with", "over"} else []
        for before, rest in shorter:
            target = numbers.get(key_of(" ".join(rest)))
            if target is None or target == number or kinds[target] != "object":
                continue
            loose = len(rest) == 1 and normal(rest[0]) in LOOSE_HEADS
            changed = any(part in _PRIVATIVE for part in key_of(" ".join(before)).split())
            if not loose and not changed and rest[-1].casefold() not in RESULT | TECHNIQUE:
                yield Relation(number, "is_instance_of", target, "head noun")
            break
