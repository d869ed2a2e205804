"""Relations between concepts, from the patterns of a sentence and from the parts of a name.

Every relation names its rule as maker; `build` adds the evidence. Precision comes before recall: a pattern matches
only where the whole noun phrase on both sides is a concept.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from lemmata.core.types import Concept, Edge
from lemmata.core.words import PREPOSITIONS
from lemmata.graph.concepts.mentions import Mention
from lemmata.graph.concepts.terms import RESULT_NOUNS, TECHNIQUE_NOUNS, key_of, normal

# ---------------------------------------------------------------- from sentences

_FIRST = re.compile(
    r"[\s(•\d.)]*(?:(?:Definition|Theorem|Remark|Note that|Recall that|Clearly|Hence|Thus|In particular|Therefore)"
    r"[.,:]?\s+)?(?P<word>[Aa]n?|[Ee]very|[Aa]ny|[Ee]ach|[Tt]he|[Aa]ll)?\s*"
)

_NAMED = r"(?:\s*\$+)?(?:\s*\([^()]{1,40}\))?"
_IS_A = re.compile(rf"{_NAMED}\s+is\s+(?:also\s+|always\s+|itself\s+)?an?\s+")
_IS = re.compile(rf"{_NAMED}\s+(?:is|are)\s+(?:also\s+|always\s+|necessarily\s+|automatically\s+)?")
_CALLED = re.compile(rf"{_NAMED}\s+(?:is|are)\s+(?:called|said to be|termed)\s+an?\s+")
_THE = r"\s+(?:the\s+|an?\s+|both\s+)?"
_GENERALIZES = r"(?:(?:is|are)\s+(?:an?|the)\s+(?:\w+\s+)?generali[sz]ations?\s+of|generali[sz]es?)"
_SPECIAL_CASE = r"(?:is|are)\s+(?:(?:just|simply|only)\s+)?an?\s+(?:special|particular)\s+cases?\s+of"
_CONSEQUENCE = r"(?:is\s+an?\s+(?:\w+\s+)?(?:consequence|corollary)\s+of|follows\s+(?:\w+\s+)?from)"
_BETWEEN = tuple(
    (relation, swapped, rule, re.compile(r"\s+" + pattern + _THE))
    for relation, swapped, rule, pattern in (
        ("generalizes", False, "generalizes", _GENERALIZES),
        ("generalizes", True, "special case", _SPECIAL_CASE),
        ("implies", True, "consequence", _CONSEQUENCE),
        ("implies", False, "implies", r"implies"),
        ("equivalent_to", False, "equivalent", r"(?:is|are)\s+(?:\w+ly\s+)?equivalent\s+to"),
    )
)
_PHRASE_END = re.compile(
    r"\s*(?:[.;:,)]|$)|\s*\$|\s+(?:that|which|such|with|whose|where|in\s+which|having|satisfying|together|equipped|"
    r"consisting|of|on|over|and|but|for|all|endowed|containing|admitting|obtained|in)\b"
)
_CONDITION = re.compile(r"\b(?:if|when|whenever|provided|unless|iff|precisely|exactly|assuming|not|but|except)\b")
_CLAUSE_END = re.compile(r"\s*(?:[.;:,)]|$)")


def sentence_relations(
    text: str, start: int, end: int, mentions: Sequence[Mention], kinds: Mapping[str, str]
) -> Iterator[Edge]:
    """Relations that the sentence `text[start:end]` states between the concepts mentioned in it; `text` is masked."""
    for left, right in itertools.pairwise(mentions):
        source, target = left.concept, right.concept
        first = _FIRST.fullmatch(text, start, left.start)
        if source == target or not first:
            continue
        word = (first["word"] or "").casefold()
        between, after = text[left.end : right.start], text[right.end : end]
        conditional = bool(_CONDITION.search(after))
        both_objects = kinds[source] == kinds[target] == "object"
        if word in {"a", "an", "every", "any", "each"} and both_objects:
            if _IS_A.fullmatch(between) and _PHRASE_END.match(after) and not conditional:
                rule = "is a" if word in {"a", "an"} else "every is a"
                yield Edge(source, "is_instance_of", target, maker=rule)
                continue
            if _CALLED.fullmatch(between) and conditional:
                yield Edge(target, "is_instance_of", source, maker="is called a")
                continue
        universal = word in {"every", "any", "each", "all"} and kinds[target] == "definition"
        if universal and _IS.fullmatch(between) and _CLAUSE_END.match(after) and not conditional:
            yield Edge(source, "implies", target, maker="every is")
            continue
        for relation, swapped, rule, pattern in _BETWEEN:
            stop = _CLAUSE_END if rule == "equivalent" else _PHRASE_END
            if not pattern.fullmatch(between) or not stop.match(after):
                continue
            one_object = (kinds[source] == "object") != (kinds[target] == "object")
            if relation == "generalizes" or not (one_object or (relation == "implies" and conditional)):
                yield Edge(*((target, relation, source) if swapped else (source, relation, target)), maker=rule)
            break


# ---------------------------------------------------------------- from names

# Words that change what the noun after them means: a partial function is no function.
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


# Measures and other nouns that each subject uses in its own way: a hook length is no length of a partition.
LOOSE_HEADS = frozenset(
    "sequence arrow converse inverse power infinite plane operator equivalence differential coordinate dotted "
    "length degree height rank weight dimension index type part side content order base normalization system object "
    "representation net state integral smooth change sum product "
    "point word letter term symbol property kind size value limit".split()
)


def name_relations(concepts: Sequence[Concept]) -> Iterator[Edge]:
    """A longer name under the shorter one that it ends with, or that stands before its `of`.

    `Noetherian ring` is a `ring`, `ring of integers` too; a `generalized` one generalizes. Words that change the
    meaning of the noun (`partial`, `formal`, `quasi`) give nothing, nor do results (no lemma is an instance).
    """
    by_key = {key_of(concept.name): concept for concept in concepts}
    for concept in concepts:
        words = concept.name.split()
        shorter = by_key.get(key_of(" ".join(words[1:])))
        if words[0].casefold() in {"generalized", "generalised"} and shorter:
            yield Edge(concept.id, "generalizes", shorter.id, maker="generalized")
            continue
        if concept.kind != "object":
            continue
        preposition = next((place for place, word in enumerate(words) if word in PREPOSITIONS), None)
        if preposition is None:
            parts = [(words[:start], words[start:]) for start in range(1, len(words))]
        else:
            parts = [([], words[:preposition])] if words[preposition] in {"of", "with", "over"} else []
        for before, rest in parts:
            target = by_key.get(key_of(" ".join(rest)), concept)
            if target is concept or target.kind != "object":
                continue
            loose = len(rest) == 1 and normal(rest[0]) in LOOSE_HEADS
            changed = not _PRIVATIVE.isdisjoint(key_of(" ".join(before)).split())
            if not loose and not changed and rest[-1].casefold() not in RESULT_NOUNS | TECHNIQUE_NOUNS:
                yield Edge(concept.id, "is_instance_of", target.id, maker="head noun")
            break
