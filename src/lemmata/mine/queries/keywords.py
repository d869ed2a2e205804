"""Key words of a passage: its rarest runs of content words, in the order in which they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lemmata.concepts.candidates import content_runs
from lemmata.concepts.words import mask, normal
from lemmata.mine.queries.styles import Query
from lemmata.types import Passage

__all__ = ["keywords", "words_of"]

_WEAK = frozenset(
    """moreover particular following condition case example remark lemma theorem definition section situation notation
    result proof statement property assumption element every fact namely equivalent respect obvious object
    natural canonical data given form way map morphism ring scheme set space integer number function isomorphism
    corresponding associated true sense choice argument hence chapter proposition introduced discussion reader
    good new great detail important happen worry fortiori phenomenon standard obtain meaning easy idea let note
    construct add fit refine ask setting page key necessary equivalently place bibliographic hypothesis always top lower
    upper horizontal arrow vertical place left right obviously usual unique distinct
    result case sequence equality formula type precise collection family subset diagram""".split()
)


_NO_NOUN = re.compile(
    r"(?:ing|ly|ed|izes|ates|ifies|erves|uces|tains|sends|nes|putes|erges|ays|able)$|'s?$|^[A-Z][a-z]+$"
)


def words_of(passage: Passage) -> set[str]:
    return {normal(word) for run in content_runs(mask(passage.text)) for word, _ in run}


def keywords(passage: Passage, frequency: Mapping[str, int], passages: int) -> Iterator[Query]:
    """The rarest runs of words, in the order in which they stand."""
    runs: dict[str, tuple[float, int, str]] = {}
    for number, run in enumerate(content_runs(mask(re.sub(r"\([^()$]*\)", " ", passage.text)))):
        words = [word for word, _ in run]
        keys = [normal(word) for word in words]
        if (
            len(words) > 5
            or set(keys) <= _WEAK
            or (len(words) == 1 and (len(keys[0]) < 3 or _NO_NOUN.search(words[0])))
        ):
            continue
        rarity = sum(1 - min(1.0, frequency.get(key, 0) / (0.02 * passages + 1)) for key in keys if key not in _WEAK)
        if rarity > 0.2 and not any(
            frequency.get(key, 0) < 2 and passages > 100 and key.isascii() is False for key in keys
        ):
            runs.setdefault(" ".join(keys), (rarity, number, " ".join(words)))
    chosen: list[tuple[int, str]] = []
    length = 0
    for key, (_, number, words_) in sorted(runs.items(), key=lambda item: (-item[1][0], item[1][1])):
        size = len(words_.split())
        if length + size > 7 or any(set(key.split()) & set(map(normal, other.split())) for _, other in chosen):
            continue
        chosen.append((number, words_))
        length += size
        if len(chosen) == 3:
            break
    if length >= 3 and any(" " in words for _, words in chosen):
        yield Query(" ".join(words for _, words in sorted(chosen)), "keyword", "keywords")
