"""How sure a hit is: its scores beside those of texts that have nothing to do with the corpus, and of its sentences.

A hit scores by its cosine and by the share of the query's words that it holds. Two groups of queries tell what these
are worth in a corpus with an encoder: everyday texts and random letters (`unrelated.txt`), hardly any of which belong
to it, and sentences of its passages, each without the passage that it is from. Of each query counts what its best hit
scores. Both scores are divided by their spread among the unrelated texts and added. A logistic curve makes a confidence
of the sum: 0.02 at the mean of the unrelated texts, 0.5 at a quarter of the way to the median of the sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lemmata.core.types import Floats, Hit, Passage
from lemmata.latex.sentences import sentences

SENTENCES = 100  # of as many passages, spread over the corpus
_FEWEST = 20  # sentences from which anything is concluded
_WORDS = 4, 40  # of a sentence that could be a query
_END = 4.0  # log-odds against an unrelated text
# What is as likely to be an answer as not lies above unrelated texts by this many of their standard deviations, and by
# this share of how far the corpus' own sentences are above them. Sentences repeat each other in some corpora (logs,
# chapters that begin alike), and queries are in other words: half of the way would doubt two of three questions on a
# plant.
_SURE, _NEARER = 1.5, 0.25
_LEAST_SPREAD = 1e-3
FIRST = 10  # hits that tell whether a query has an answer
LEAST = 0.5  # confidence of the best of them
UNKNOWN_WORDS = (
    0.25  # of the confidence, where no word of the query stands in the corpus: encoders see codes in letters
)
SHORT = 3  # words of a query that is matched by a passage that holds all of them
NOTHING = "nothing here matches well"


class Scale(NamedTuple):
    """The log-odds that a hit has to do with its query: dense · cosine + lexical · share + offset."""

    dense: float
    lexical: float
    offset: float

    def confidences(self, scores: Floats) -> list[float]:
        """Of hits with cosines and shares (2, hits), in 0 to 1."""
        odds = self.dense * scores[0] + self.lexical * scores[1] + self.offset
        return [round(float(value), 4) for value in 1 / (1 + np.exp(-np.clip(odds, -20, 9)))]


@cache
def unrelated_texts() -> list[str]:
    """Everyday texts in English and German, and random letters."""
    return Path(__file__).with_name("unrelated.txt").read_text(encoding="utf-8").splitlines()


def own_sentences(passages: Iterable[tuple[int, Passage]]) -> list[tuple[str, int]]:
    """A sentence from the middle of each passage with its row; of one with a single sentence, half of its words.

    Where hardly any passage is that long, short ones are whole.
    """
    chosen, short = [], []
    for row, passage in passages:
        spans = [passage.content[begin:end] for begin, end in sentences(passage.content)]
        usable = [text for text in spans if _WORDS[0] <= len(text.split()) <= _WORDS[1]]
        words = passage.content.split()
        if len(usable) > 1:
            chosen.append((usable[len(usable) // 2], row))
        elif len(words) >= 2 * _WORDS[0]:
            chosen.append((" ".join(words[len(words) // 4 :][: min(len(words) // 2, _WORDS[1])]), row))
        elif len(words) > 1:
            short.append((" ".join(words), row))
    return chosen if len(chosen) >= _FEWEST else sorted(chosen + short, key=itemgetter(1))


def measure_scale(related: Sequence[Floats], unrelated: Sequence[Floats], *, dense: bool) -> Scale | None:
    """What scores mean in a corpus, by those (2, hits) of the first hits of its own sentences and of unrelated texts.

    None where there are too few sentences.
    """
    if len(related) < _FEWEST:
        return None
    tops = np.array([scores.max(axis=1, initial=0) for scores in unrelated])
    weights = 1 / np.maximum(tops.std(axis=0), _LEAST_SPREAD) * (dense, True)
    others = [(weights @ scores).max(initial=0) for scores in unrelated]
    low, own = np.mean(others), np.median([(weights @ scores).max(initial=0) for scores in related])
    slope = _END / max(_SURE * np.std(others), _LEAST_SPREAD, _NEARER * (own - low))
    return Scale(float(slope * weights[0]), float(slope * weights[1]), float(-_END - slope * low))


def confidence_of(hits: Iterable[Hit]) -> float | None:
    """That a query has an answer: of its best hit; None where nothing tells."""
    found = [hit.confidence for hit in list(hits)[:FIRST]]
    known = [confidence for confidence in found if confidence is not None]
    return max(known) if known else None if found else 0.0


def matches_badly(hits: Iterable[Hit]) -> bool:
    """Whether no hit has to do with the query, as far as it can be told."""
    confidence = confidence_of(hits)
    return confidence is not None and confidence < LEAST
