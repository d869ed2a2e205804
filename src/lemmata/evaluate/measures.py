"""Measures of rankings, for all queries at once, from rows and grades.

The definitions are those of trec_eval and ir_measures. With g(i) the grade at rank i (0 if not relevant),
R the number of relevant passages of the query, and rel(i) = 1 where g(i) > 0:

    Success@k   1 if rel(i) for some i ≤ k
    P@k         Σ rel(i) / k                    over i ≤ k; divided by k even if there are fewer results
    R@k         Σ rel(i) / R
    MRR@k       1 / the first i ≤ k with rel(i), else 0
    MAP@k       Σ rel(i) · P@i / R              R counts all relevant passages, also below rank k
    nDCG@k      Σ g(i) / log2(i + 1), divided by the same sum over the k highest grades of the query
                (Järvelin and Kekäläinen 2002; the gain is the grade itself, not 2^grade - 1)

A query without relevant passages or without results has the value 0 and stays in the mean. A grade below 0
counts as 0. The order of the rows is the ranking; the retriever has to break ties.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import ConfigError, InputError, close_matches
from lemmata.core.types import Integers, Mask

Floats64 = npt.NDArray[np.float64]
_MEASURES = ("nDCG", "MRR", "R", "P", "Success", "MAP")
_SYNONYMS = {"rr": "MRR", "recall": "R", "precision": "P", "accuracy": "Success", "acc": "Success", "ap": "MAP"}
_NAMES = {name.lower(): name for name in _MEASURES} | _SYNONYMS
_MOST_SHOWN = 1000  # unknown ids in a message


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure with its cut-off: `str(Measure("nDCG", 10))` is `nDCG@10`."""

    name: str  # nDCG, MRR, R, P, Success, MAP
    cutoff: int  # from 1

    def __str__(self) -> str:
        return f"{self.name}@{self.cutoff}"


def parse_measure(text: str) -> Measure:
    """Read `nDCG@10`, in upper or lower case and by its usual synonyms (`Recall@20`, `RR@10`, `Accuracy@1`)."""
    written, _, cutoff = text.strip().partition("@")
    name = _NAMES.get(written.strip().lower())
    if name is None:
        close = close_matches(written.strip().lower(), list(_NAMES), 1, 50)
        cure = f"did you mean {_NAMES[close[0]]}?" if close else f"there are {', '.join(_MEASURES)}"
        raise ConfigError(f"there is no measure {text!r}; {cure}")
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", cutoff.strip(), re.ASCII):
        raise ConfigError(f"the measure {text!r} needs a cut-off from 1, as in {name}@10")
    return Measure(name, int(cutoff))


class Judged(NamedTuple):
    """Judgments in CSR form: those of query i are `indptr[i]:indptr[i + 1]`; a grade above 0 is relevant."""

    queries: Sequence[str]  # ids
    indptr: Integers  # (queries + 1,)
    rows: Integers  # (judgments,); each once per query
    grades: Integers  # (judgments,)


def judged(qrels: Mapping[str, Mapping[str, int]], row: Callable[[str], int]) -> Judged:
    """Turn judgments by id into judgments by row; `row` raises KeyError for an unknown id.

    Raises InputError with the number of unknown ids and their names, a thousand at most.
    """
    rows: list[int] = []
    unknown: dict[str, None] = {}  # an ordered set
    for identity in chain.from_iterable(qrels.values()):
        try:
            rows.append(row(identity))
        except KeyError:
            unknown[identity] = None
    if unknown:
        names = ", ".join(repr(identity) for identity in list(unknown)[:_MOST_SHOWN])
        more = f" and {len(unknown) - _MOST_SHOWN} more" if len(unknown) > _MOST_SHOWN else ""
        what = "id that is" if len(unknown) == 1 else "ids that are"
        raise InputError(f"the judgments name {len(unknown)} {what} not in the corpus: {names}{more}")
    return Judged(
        queries=list(qrels),
        indptr=np.cumsum([0, *map(len, qrels.values())], dtype=np.int64),
        rows=np.array(rows, np.int64),
        grades=np.fromiter(chain.from_iterable(grades.values() for grades in qrels.values()), np.int64, len(rows)),
    )


def _owners(judged: Judged) -> Integers:
    """The query number of each judgment."""
    return np.repeat(np.arange(len(judged.queries)), np.diff(judged.indptr))


def gains(ranked: Integers, judged: Judged) -> Integers:
    """The grade at each rank (n, k), 0 for a passage without judgment; ranked: rows (n, k), -1 for no result.

    Raises InputError if a ranking holds a judged passage twice: it would count twice.
    """
    grades, judgments = _grades_of(ranked, judged)
    counts = np.bincount(judgments[judgments >= 0], minlength=1)
    if counts.max() > 1:
        query = judged.queries[int(_owners(judged)[int(counts.argmax())])]
        raise InputError(f"the ranking for the query {query!r} holds a passage twice")
    return grades


def _grades_of(ranked: Integers, judged: Judged) -> tuple[Integers, Integers]:
    """The grade at each rank and the number of its judgment, -1 where there is none; both (n, k)."""
    if len(ranked) != len(judged.queries):
        raise InputError(f"there are {len(ranked)} rankings for {len(judged.queries)} queries")
    grades, judgments = np.zeros(ranked.shape, np.int64), np.full(ranked.shape, -1, np.int64)
    if not ranked.size or not judged.rows.size:
        return grades, judgments
    # One key per (query, row), so that one search in one sorted array serves all queries.
    span = max(int(ranked.max()), int(judged.rows.max())) + 2
    keys = _owners(judged) * span + judged.rows
    order = np.argsort(keys)
    keys = keys[order]
    ranked_keys = (np.arange(len(ranked)) * span)[:, None] + ranked
    positions = np.minimum(np.searchsorted(keys, ranked_keys), len(keys) - 1)
    is_judged = (keys[positions] == ranked_keys) & (ranked >= 0)
    judgments[is_judged] = order[positions[is_judged]]
    grades[is_judged] = judged.grades[judgments[is_judged]]
    return grades, judgments


# ---------------------------------------------------------------- from passages to documents


def _first_occurrences(ranked: Integers) -> Integers:
    """Each ranking (n, k) without repetitions, padded with -1 at the end."""
    order = np.argsort(ranked, axis=1, kind="stable")
    ordered = np.take_along_axis(ranked, order, axis=1)
    first = np.ones(ranked.shape, np.bool_)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    keep = np.empty_like(first)
    np.put_along_axis(keep, order, first & (ordered >= 0), axis=1)
    result = np.full_like(ranked, -1)
    query, _ = keep.nonzero()
    result[query, (np.cumsum(keep, axis=1) - 1)[keep]] = ranked[keep]
    return result


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


def _value(measure: Measure, ranked_grades: Integers, total: Integers, judged: Judged) -> Floats64:
    """One measure (n,) from the grades in ranked order (n, k) and the number of relevant passages (n,)."""
    graded = ranked_grades[:, : measure.cutoff]
    top: Mask = graded > 0
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
            query, rank = top.nonzero()  # sorted by query, then by rank
            start = np.searchsorted(query, np.arange(len(top)))
            precision = (np.arange(len(query)) - start[query] + 1) / (rank + 1)
            return _ratio(np.bincount(query, precision, minlength=len(top)), total)
        case "nDCG":
            gain = graded @ (1.0 / np.log2(np.arange(2, graded.shape[1] + 2)))
            return _ratio(gain, _ideal(judged, np.maximum(judged.grades, 0), measure.cutoff))
    raise ConfigError(f"there is no measure {str(measure)!r}")


def evaluate(
    ranked: Integers, judged: Judged, measures: Iterable[Measure], *, documents: Integers | None = None
) -> dict[str, Floats64]:
    """Every measure for every query (n,), by the measure's name; ranked: rows (n, k), best first, -1 for no result.

    Rank at least as deep as the largest cut-off. With `documents` (the document number of each passage) documents
    are ranked: each by its first passage, with the highest grade of its judged passages. Several passages then
    count as one result, so rank deeper.
    """
    if documents is not None:
        ranked = _first_occurrences(np.where(ranked >= 0, documents[ranked], -1))
        judged = _by_document(judged, documents)
    ranked_grades = np.maximum(gains(ranked, judged), 0)
    total = np.bincount(_owners(judged)[judged.grades > 0], minlength=len(judged.queries))
    return {str(measure): _value(measure, ranked_grades, total, judged) for measure in measures}


def evaluate_whole_documents(
    ranked: Integers,
    judged: Judged,
    measures: Iterable[Measure],
    *,
    documents: Integers,
    candidates: Mask | None = None,
    itself: Integers | None = None,
) -> dict[str, Floats64]:
    """Every measure for every query (n,) where all passages of a judged passage's document count as relevant.

    As in `evaluate`, passages are ranked. Each has the highest grade that a passage of its document got.
    `documents` has the document number of each passage, also of judged ones behind the corpus. Only `candidates` (bool
    for each passage of the corpus; None: all) count among the relevant ones, and `itself`, the row that a query was
    made from (n,), -1 for none, never does. Nothing grows with the size of a document.
    """
    if np.any((np.diff(np.sort(ranked, axis=1), axis=1) == 0) & (np.sort(ranked, axis=1)[:, 1:] >= 0)):
        raise InputError("a ranking holds a passage twice")
    whole = _by_document(judged, documents)
    ranked_grades = np.maximum(_grades_of(np.where(ranked >= 0, documents[ranked], -1), whole)[0], 0)
    countable = np.ones(len(documents), np.bool_)
    if candidates is not None:
        countable[: len(candidates)] = candidates
    sizes = np.bincount(documents[countable], minlength=int(documents.max(initial=-1)) + 1)[whole.rows]
    owners = _owners(whole)
    if itself is not None:
        own = np.where((itself >= 0) & countable[itself], documents[itself], -1)
        sizes = sizes - (whole.rows == own[owners])
    relevant = whole.grades > 0
    total = np.bincount(owners[relevant], sizes[relevant], minlength=len(whole.queries)).astype(np.int64)
    measures = list(measures)
    # the best ranking shows no more passages of a document than the largest cut-off
    shown = np.minimum(sizes, max((measure.cutoff for measure in measures), default=0))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(owners, shown, minlength=len(whole.queries)).astype(np.int64))))
    best = Judged(whole.queries, indptr, np.repeat(whole.rows, shown), np.repeat(whole.grades, shown))
    return {str(measure): _value(measure, ranked_grades, total, best) for measure in measures}
