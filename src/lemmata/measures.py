"""Measures of a ranking, for all queries at once; knows rows and grades, no texts and no retrievers.

The definitions are those of trec_eval, which ir_measures computes too. With g(i) the grade at rank i (0 where
nothing relevant stands), R the number of relevant passages of the query, and rel(i) = 1 where g(i) > 0:

    Success@k   1 if rel(i) for some i ≤ k
    P@k         Σ rel(i) / k                    over i ≤ k; divided by k even where fewer were found
    R@k         Σ rel(i) / R
    MRR@k       1 / the first i ≤ k with rel(i), else 0
    MAP@k       Σ rel(i) · P@i / R              R counts all relevant passages, also past k
    nDCG@k      Σ g(i) / log2(i + 1), divided by the same sum over the k highest grades of the query
                (Järvelin and Kekäläinen 2002; the gain is the grade itself, not 2^grade - 1)

A query without any relevant passage has the value 0 and stays in the mean, as does a query for which nothing
was found. A grade below 0 counts as 0. The order given is the ranking: ties are the retriever's to break.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.errors import ConfigError, InputError
from lemmata.types import Integers, Mask

__all__ = ["Judged", "Measure", "evaluate", "gains", "judged", "parse_measure"]

Floats64 = npt.NDArray[np.float64]

_NAMES = {
    "ndcg": "nDCG",
    "mrr": "MRR",
    "rr": "MRR",
    "r": "R",
    "recall": "R",
    "p": "P",
    "precision": "P",
    "success": "Success",
    "accuracy": "Success",
    "map": "MAP",
    "ap": "MAP",
}
_SHOWN = 1000  # unknown ids that a message names; more are a wrong file, not a slip


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured, down to which rank: `str(Measure("nDCG", 10))` is `nDCG@10`."""

    name: str  # nDCG, MRR, R, P, Success, MAP
    cutoff: int  # from 1

    def __str__(self) -> str:
        return f"{self.name}@{self.cutoff}"


def parse_measure(text: str) -> Measure:
    """`nDCG@10`, in any case and with the usual other names (`Recall@20`, `RR@10`, `Accuracy@1`)."""
    name, _, cutoff = text.strip().partition("@")
    known = _NAMES.get(name.strip().lower())
    if known is None:
        close = difflib.get_close_matches(name.strip().lower(), _NAMES, 1, 0.5)
        every = ", ".join(dict.fromkeys(_NAMES.values()))
        cure = f"did you mean {_NAMES[close[0]]}?" if close else f"known are {every}"
        raise ConfigError(f"there is no measure {text!r}; {cure}")
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", cutoff.strip(), re.ASCII):
        raise ConfigError(f"the measure {text!r} needs a rank from 1, as in {known}@10")
    return Measure(known, int(cutoff))


class Judged(NamedTuple):
    """Judgments in compressed rows: those of query i are `indptr[i]:indptr[i + 1]`; a grade above 0 is relevant."""

    queries: Sequence[str]  # ids
    indptr: Integers  # (queries + 1,)
    rows: Integers  # (judgments,); each once per query
    grades: Integers  # (judgments,)


def judged(qrels: Mapping[str, Mapping[str, int]], row: Callable[[str], int]) -> Judged:
    """Judgments by id as judgments by row; `row` raises KeyError for an id that it does not know.

    Raises InputError that counts all unknown ids and names them, a thousand at most.
    """
    rows: list[int] = []
    unknown: dict[str, None] = {}  # a set that keeps the order
    for identity in chain.from_iterable(qrels.values()):
        try:
            rows.append(row(identity))
        except KeyError:
            unknown[identity] = None
    if unknown:
        names = ", ".join(repr(identity) for identity in list(unknown)[:_SHOWN])
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        what = "id that is" if len(unknown) == 1 else "ids that are"
        raise InputError(f"the judgments name {len(unknown)} {what} not in the corpus: {names}{more}")
    return Judged(
        queries=list(qrels),
        indptr=np.cumsum([0, *map(len, qrels.values())], dtype=np.int64),
        rows=np.array(rows, np.int64),
        grades=np.fromiter(chain.from_iterable(grades.values() for grades in qrels.values()), np.int64, len(rows)),
    )


def _owners(judged: Judged) -> Integers:
    """The number of the query that each judgment belongs to."""
    return np.repeat(np.arange(len(judged.queries)), np.diff(judged.indptr))


def gains(ranked: Integers, judged: Judged) -> Integers:
    """The grade of what stands at each rank (n, k), 0 where it was not judged; ranked: rows (n, k), -1 for nothing.

    Raises InputError where a ranking holds a judged passage twice: it would count twice.
    """
    if len(ranked) != len(judged.queries):
        raise InputError(f"{len(ranked)} rankings can not be judged for {len(judged.queries)} queries")
    found = np.zeros(ranked.shape, np.int64)
    if not ranked.size or not judged.rows.size:
        return found
    # One number per (query, row), so that one search over one sorted array serves all queries.
    span = max(int(ranked.max()), int(judged.rows.max())) + 2
    keys = _owners(judged) * span + judged.rows
    order = np.argsort(keys)
    keys = keys[order]
    wanted = (np.arange(len(ranked)) * span)[:, None] + ranked
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hit = (keys[place] == wanted) & (ranked >= 0)
    times = np.bincount(place[hit], minlength=len(keys))
    if times.max() > 1:
        query = judged.queries[int(keys[int(times.argmax())]) // span]
        raise InputError(f"the ranking for the query {query!r} holds a passage twice")
    found[hit] = judged.grades[order[place[hit]]]
    return found


# ---------------------------------------------------------------- from passages to documents


def _first_occurrences(ranked: Integers) -> Integers:
    """Each ranking (n, k) without what it repeats, moved up and filled with -1."""
    order = np.argsort(ranked, axis=1, kind="stable")
    ordered = np.take_along_axis(ranked, order, axis=1)
    fresh = np.ones(ranked.shape, np.bool_)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    kept = np.empty_like(fresh)
    np.put_along_axis(kept, order, fresh & (ordered >= 0), axis=1)
    moved = np.full_like(ranked, -1)
    query, _ = kept.nonzero()
    moved[query, (np.cumsum(kept, axis=1) - 1)[kept]] = ranked[kept]
    return moved


def _by_document(judged: Judged, documents: Integers) -> Judged:
    """Judgments of documents, each with the highest grade of its judged passages."""
    owners, targets = _owners(judged), documents[judged.rows]
    order = np.lexsort((judged.grades, targets, owners))
    owners, targets = owners[order], targets[order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = (owners[1:] != owners[:-1]) | (targets[1:] != targets[:-1])
    counts = np.bincount(owners[last], minlength=len(judged.queries))
    indptr = np.concatenate(([0], np.cumsum(counts)))
    return Judged(judged.queries, indptr, targets[last], judged.grades[order[last]])


# ---------------------------------------------------------------- the measures


def _ratio(part: Integers | Floats64, whole: Integers | Floats64) -> Floats64:
    """part / whole, 0 where the whole is 0."""
    result = np.zeros(len(part), np.float64)
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def _ideal(judged: Judged, grades: Integers, cutoff: int) -> Floats64:
    """The discounted gain of the best possible ranking (n,)."""
    owners = _owners(judged)
    order = np.lexsort((-grades, owners))
    rank = np.arange(len(order)) - judged.indptr[owners]  # from 0; owners are sorted, so they fit the new order
    top = rank < cutoff
    weights = grades[order[top]] / np.log2(rank[top] + 2.0)
    return np.bincount(owners[top], weights, minlength=len(judged.queries)).astype(np.float64)


def _value(measure: Measure, found: Integers, relevant: Mask, total: Integers, judged: Judged) -> Floats64:
    """One measure (n,) from the gains and their signs (n, k) and the number of relevant passages (n,)."""
    top = relevant[:, : measure.cutoff]
    hits: Floats64 = top.sum(axis=1, dtype=np.float64)
    match measure.name:
        case "Success":
            return np.minimum(hits, 1.0)
        case "P":
            return hits / measure.cutoff
        case "R":
            return _ratio(hits, total)
        case "MRR":
            first = top.argmax(axis=1) if top.shape[1] else np.zeros(len(top), np.int64)
            reciprocal: Floats64 = np.minimum(hits, 1.0) / (first + 1.0)
            return reciprocal
        case "MAP":
            query, rank = top.nonzero()  # in order of rank within each query, so hits so far is a count
            start = np.searchsorted(query, np.arange(len(top)))
            precision = (np.arange(len(query)) - start[query] + 1) / (rank + 1)
            return _ratio(np.bincount(query, precision, minlength=len(top)), total)
        case "nDCG":
            graded = found[:, : measure.cutoff]
            gain = graded @ (1.0 / np.log2(np.arange(2, graded.shape[1] + 2)))
            return _ratio(gain, _ideal(judged, np.maximum(judged.grades, 0), measure.cutoff))
    raise ConfigError(f"there is no measure {str(measure)!r}")


def evaluate(
    ranked: Integers, judged: Judged, measures: Iterable[Measure], *, documents: Integers | None = None
) -> dict[str, Floats64]:
    """Every measure for every query (n,), by the measure's name; ranked: rows (n, k), best first, -1 for nothing.

    A cut-off past k sees what there is: rank at least as deep as the deepest cut-off. With `documents` (the
    number of the document of each passage) documents are ranked instead: a ranking becomes the first occurrence
    of each document, and a document has the highest grade of its judged passages. Since passages of one
    document fall together, rank deeper then.
    """
    if documents is not None:
        ranked = _first_occurrences(np.where(ranked >= 0, documents[ranked], -1))
        judged = _by_document(judged, documents)
    found = np.maximum(gains(ranked, judged), 0)
    relevant = found > 0
    total = np.bincount(_owners(judged)[judged.grades > 0], minlength=len(judged.queries))
    return {str(measure): _value(measure, found, relevant, total, judged) for measure in measures}
