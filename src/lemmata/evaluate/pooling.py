"""Judgments by pooling: what several retrievers find for a query, graded by a model that reads both texts.

A pool (Spärck Jones and van Rijsbergen 1975) holds the first passages of every retriever. A passage outside it is not
judged and counts as not relevant, so a pool favours the retrievers that made it over those that come later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import InputError
from lemmata.core.types import Floats, Integers, Mask, Progress
from lemmata.corpus.leakage import near_pairs, sketch

Score = Callable[[Sequence[tuple[str, str]]], Floats]  # pairs of query and passage to scores, higher is better
Scores = npt.NDArray[np.floating[Any]]  # (n,)
HIGHEST = 2  # grade
NO_SOURCES = "without queries made from passages there is nothing to calibrate by: give both thresholds"
_BATCH = 512  # pairs scored at once, between two reports of progress
_RANDOM_ABOVE = 0.01  # share of random pairs that count as relevant


class Pool(NamedTuple):
    """The candidates of all queries, ascending by query and row."""

    queries: Integers  # (m,) numbers of queries
    rows: Integers  # (m,)
    found: Mask  # (m, retrievers) which retriever found it; none for an origin that all missed
    retrievers: tuple[str, ...]


class Thresholds(NamedTuple):
    """The scores from which a passage is relevant (grade 1) and highly relevant (grade 2)."""

    relevant: float
    highly: float


def pool(rankings: Mapping[str, Integers], origins: Sequence[Sequence[int]]) -> Pool:
    """The union of the rankings (queries, depth), padded with -1, and of the origins of each query."""
    keys: list[Integers] = []
    makers: list[Integers] = []
    highest = [int(ranked.max(initial=0)) for ranked in rankings.values()]
    size = 1 + max([*highest, *(row for rows in origins for row in rows)], default=0)
    for number, ranked in enumerate(rankings.values()):
        query, place = np.nonzero(ranked >= 0)
        keys.append(query * size + ranked[query, place])
        makers.append(np.full(len(query), number))
    origin_keys = [query * size + row for query, rows in enumerate(origins) for row in rows]
    keys.append(np.array(origin_keys, np.int64))
    makers.append(np.full(len(origin_keys), -1))
    distinct, place = np.unique(np.concatenate(keys), return_inverse=True)
    found_by = np.zeros((len(distinct), len(rankings) + 1), bool)
    found_by[place, np.concatenate(makers)] = True  # origins set the last column
    queries, rows = np.divmod(distinct, size)
    return Pool(queries, rows, found_by[:, :-1], tuple(rankings))


def score_pairs(
    pairs: Sequence[tuple[str, str]], score: Score, progress: Progress, *, what: str = "judging"
) -> npt.NDArray[np.float64]:
    """The scores of pairs of query and passage; equal pairs are scored once.

    InputError for a score that is no number.
    """
    places: dict[tuple[str, str], int] = {}
    place = np.array([places.setdefault(pair, len(places)) for pair in pairs], np.int64)
    distinct = list(places)
    scores = np.zeros(len(distinct))
    for start in range(0, len(distinct), _BATCH):
        progress(what, start, len(distinct))
        scores[start : start + _BATCH] = score(distinct[start : start + _BATCH])
    if not np.isfinite(scores).all():
        query, passage = distinct[int(np.flatnonzero(~np.isfinite(scores))[0])]
        raise InputError(f"the judge gives no score for {query[:80]!r} and {passage[:80]!r}")
    return scores[place]


def calibrate(source_scores: Scores, random_scores: Scores) -> Thresholds:
    """Thresholds for a judge whose scale is not known, from pairs that are known to be relevant and from random ones.

    `relevant`: one random pair in a hundred reaches it. `highly`: halfway from there to the median of the origins.
    Chosen on an invented plant, where both agree best with the truth (docs/LOG.md). Thresholds from the origins alone
    are far too high: a query that was made from a passage fits it better than anything else does.
    """
    if not len(source_scores) or not len(random_scores):
        raise InputError(NO_SOURCES)
    relevant = float(np.quantile(random_scores, 1 - _RANDOM_ABOVE))
    return Thresholds(relevant, max(relevant, (relevant + float(np.median(source_scores))) / 2))


def grade(scores: Scores, thresholds: Thresholds) -> Integers:
    """0, 1 or 2 for each score."""
    return np.searchsorted(np.asarray(thresholds), scores, side="right").astype(np.int64)


def origin_repeats(candidates: Pool, origins: Sequence[Sequence[int]], text_of: Mapping[int, str]) -> Mask:
    """Which candidates are an origin of their query, or nearly its text."""
    of_queries = {(query, row) for query, rows in enumerate(origins) for row in rows}
    rows = sorted({row for _, row in of_queries})
    others = sorted(set(candidates.rows.tolist()))
    repeats: dict[int, set[int]] = {}
    for block in near_pairs(sketch(text_of[row] for row in rows), sketch(text_of[row] for row in others), most=1000):
        for origin, other in block.tolist():
            repeats.setdefault(others[other], set()).add(rows[origin])
    return np.array(
        [
            (query, row) in of_queries or not repeats.get(row, set()).isdisjoint(origins[query])
            for query, row in zip(candidates.queries.tolist(), candidates.rows.tolist(), strict=True)
        ],
        bool,
    )


def contributions(candidates: Pool, grades: Integers) -> dict[str, dict[str, int]]:
    """For each retriever its candidates, the relevant ones among them, and those that no other retriever found."""
    relevant = grades > 0
    alone = candidates.found.sum(axis=1) == 1
    return {
        name: {
            "candidates": int(own.sum()),
            "relevant": int((own & relevant).sum()),
            "relevant_alone": int((own & relevant & alone).sum()),
        }
        for name, own in zip(candidates.retrievers, candidates.found.T, strict=True)
    }
