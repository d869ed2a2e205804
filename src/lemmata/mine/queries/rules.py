"""Questions, keywords, slogans and paraphrases from the structure of a passage, without any model.

A rule speaks only where it can do so without the passage's letters; it would rather say nothing than something
nobody types. Each query carries its style and the rule that made it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lemmata.mine.material import Material
from lemmata.mine.queries.claims import claimed
from lemmata.mine.queries.keywords import keywords, words_of
from lemmata.mine.queries.logs import log_queries
from lemmata.mine.queries.phrases import Speaker, declared, masked, word_overlap
from lemmata.mine.queries.styles import STYLES, Pick, Query
from lemmata.mine.queries.terms import defined
from lemmata.mine.queries.titles import named, titled
from lemmata.types import Document, Pair, Passage

__all__ = ["QueryOptions", "passage_queries", "rule_queries"]


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Which styles are made, how many, and how much they may copy."""

    question: bool = True
    keyword: bool = True
    slogan: bool = True
    paraphrase: bool = True
    most: int = 6  # queries of one passage
    repeats: int = 3  # passages that may share a query
    overlap: float = 0.6  # share of a passage's words that a query may repeat in their order
    seed: int = 0  # chooses between ways to say the same

    SMALLEST: ClassVar = {"most": 1, "repeats": 1, "overlap": 0.0}

    def wants(self, style: str) -> bool:
        return style in STYLES and bool(getattr(self, style))


_LONGEST = 22  # words that somebody still types


def rule_queries(material: Material, options: QueryOptions | None = None) -> Iterator[Pair]:
    """Queries for every passage of a part, in the order of the rows; reads the part twice."""
    options = options or QueryOptions()
    frequency: Counter[str] = Counter()
    for _, passage in material.all_passages():
        frequency.update(words_of(passage))
    of_document = Counter(material.document_numbers[material.rows].tolist())
    seen: Counter[bytes] = Counter()
    for row, passage in material.all_passages():
        number = int(material.document_numbers[row])
        document = material.documents.get(passage.document) if of_document[number] <= 3 else None
        for query in passage_queries(passage, frequency, len(material.rows), document=document, options=options):
            key = hashlib.blake2b(query.text.casefold().encode(), digest_size=8).digest()
            seen[key] += 1
            if seen[key] <= options.repeats:
                yield Pair(query.text, row, "queries", query.style, query.rule)


def passage_queries(
    passage: Passage,
    frequency: Mapping[str, int],
    passages: int,
    *,
    document: Document | None = None,
    options: QueryOptions | None = None,
) -> list[Query]:
    """The queries of one passage, different ones only.

    `frequency` counts in how many of all `passages` a word stands (in its normal form): rare words make
    keywords. `document` is given where the passage's document is short enough to be about its title.
    """
    options = options or QueryOptions()

    def pick(rule: str, *ways: str) -> str:
        digest = hashlib.blake2b(f"{options.seed}\0{passage.id}\0{rule}".encode(), digest_size=8).digest()
        return ways[int.from_bytes(digest) % len(ways)]

    if passage.kind == "log":
        made = log_queries(passage, pick)
    else:
        made = _statement_queries(passage, frequency, passages, document, pick)
    said = re.sub(r"\$(?:[^$\\]|\\.)*\$", " ", passage.text)
    kept: dict[str, Query] = {}
    for query in made:
        text = _tidy(query.text)
        if (
            options.wants(query.style)
            and 2 <= len(text.split()) <= _LONGEST
            and _sounds_right(text)
            and word_overlap(text, said) <= options.overlap
        ):
            kept.setdefault(text.casefold(), query._replace(text=text))
    return _spread(list(kept.values()), options.most)


_BROKEN = re.compile(
    r"[$\\{}]|[\ue000-\uf8ff]|\b(?:the|an?|of)-|[(\[]|"
    r"\b(?:to|of|in|on|over|by|from|with|at|for|whose|containing|between|lifting|the|an?) "
    r"(?:is|are|and|or|of|in|over|with|for|to|which|has|have|such|if|exactly|that|whose)\b|\b(?:and|or) (?:and|or)\b|"
    r"\bof (?:dimension|rank|degree|characteristic|order|depth|norm|index) (?:is|are|has|have|to)\b|"
    r"\b(?:an?|the|to|of|in|on|over|by|from|with|at|for|whose|and|or)\??$|\b(\w+) \1\b",
    re.IGNORECASE,
)


def _sounds_right(text: str) -> bool:
    """Whether nothing is missing where a formula was, and nothing is said twice."""
    if _BROKEN.search(text):
        return False
    words = re.findall(r"[^\s,?]+", text.casefold())
    triples = list(zip(words, words[1:], words[2:], strict=False))
    return len(set(triples)) == len(triples)


def _spread(queries: Sequence[Query], most: int) -> list[Query]:
    """The first of each style, then the second, so that a small number still has all styles."""
    places: Counter[str] = Counter()
    ranked = []
    for number, query in enumerate(queries):
        ranked.append((places[query.style], number, query))
        places[query.style] += 1
    chosen = sorted(ranked)[:most]
    return [query for _, _, query in sorted(chosen, key=lambda item: item[1])]


def _tidy(text: str) -> str:
    text = " ".join(text.split()).replace(" ,", ",").replace("’", "'")
    text = re.sub(r"[“”\"]", "", text)
    return text.strip(" ,;:.")


_CLAIMING = frozenset(
    """theorem lemma proposition corollary fact claim conjecture axiom observation principle summation criterion
    property problem statement""".split()
)
_PROSE = frozenset("chunk remark remarks exercise".split())  # their rare words are often beside the point


def _statement_queries(
    passage: Passage, frequency: Mapping[str, int], passages: int, document: Document | None, pick: Pick
) -> Iterator[Query]:
    text = masked(passage.text)
    speaker = Speaker(text, declared(text))
    yield from named(passage, pick)
    if document is not None and document.title and passage.id.endswith("@1"):
        yield from titled(document.title, pick)
    yield from defined(passage, text, speaker, pick)
    if passage.kind in _CLAIMING:
        yield from claimed(text, speaker, pick)
    if passage.kind not in _PROSE:
        yield from keywords(passage, frequency, passages)
