"""The order in which concepts are shown: by how much they tell about their corpus, not by their mentions alone."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from lemmata.core.types import Concept
from lemmata.graph.store import StoredGraph

_NEIGHBOURHOOD = 20  # passages
_SPREAD = 1.8  # what the share of neighbourhoods is subtracted from: at most 1, of a word that stands anywhere
_UNDEFINED, _PROPERTY = 0.5, 0.7  # weights of concepts without a definition, and of adjectives
_COMMON = 500  # rank in general English up to which a word tells nothing
_VOCABULARY = Path(__file__).parents[2] / "models" / "lemmata-mini" / "tokenizer.json"


def rank_concepts(stored: StoredGraph, passages: Mapping[str, Sequence[str]]) -> list[Concept]:
    """The concepts, the most telling first; `passages` mention each.

    A concept that n passages mention, in k neighbourhoods of the corpus where E(n) are expected by chance, scores

        log(1 + n) · log(1 + r / 500) · (1.8 - k / E(n)) · weight

    with r the rank of its rarest word in general English. `point` and `map` stand everywhere in a corpus and in
    English; `precategory` does not.
    """
    row_of = dict(zip(stored.graph.nodes, stored.rows.tolist(), strict=True))
    places = max(1, math.ceil((max(row_of.values(), default=0) + 1) / _NEIGHBOURHOOD))

    def score(concept: Concept) -> float:
        mentioning = passages.get(concept.id, ())
        if not mentioning:
            return 0.0
        neighbourhoods = len({row_of[passage] // _NEIGHBOURHOOD for passage in mentioning})
        expected = places * (1 - (1 - 1 / places) ** len(mentioning))
        weight = (1 if concept.description else _UNDEFINED) * (_PROPERTY if concept.kind == "definition" else 1)
        rarity = math.log1p(_english_rank(concept.name) / _COMMON)
        return math.log1p(len(mentioning)) * rarity * (_SPREAD - neighbourhoods / expected) * weight

    scores = {concept.id: score(concept) for concept in stored.concepts.values()}
    return sorted(stored.concepts.values(), key=lambda concept: (-scores[concept.id], concept.id))


def _english_rank(name: str) -> int:
    """The rank of the rarest word of a name; a word with digits is no word."""
    ranks = _english_ranks()
    words = re.findall(r"[^\W_]+", name.lower())
    return max((ranks.get(word, len(ranks)) for word in words if word.isalpha()), default=0)


@lru_cache(maxsize=1)
def _english_ranks() -> dict[str, int]:
    """The words of general English in the order of their frequency: the vocabulary of the packaged encoder."""
    vocabulary: dict[str, int] = json.loads(_VOCABULARY.read_text("utf-8"))["model"]["vocab"]
    return vocabulary
