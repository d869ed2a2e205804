"""Fusion: the candidates of a dense and a lexical ranking, with what graph and learned metric know, to one ranking.

Works on arrays; knows neither texts nor files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.types import Crowding, Floats, Integers, Mask, Ranking
from lemmata.graph.diffusion import NEAREST, Links, spread, start_weights
from lemmata.graph.store import Citations

# candidates (n, m; -1 is none) to a further ranking of the queries, of these rows or of others
Rank = Callable[[Integers], Ranking]
Floats64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fusion:
    """How rankings are fused; the defaults are those that validation supports where nothing was fitted.

    The score is w · dense + (1 - w) · lexical, both scaled to [0, 1] within the query's candidates. Where it is
    `calibrated`, a query also says by its scores how sure it is: dense is how far a cosine is above that of the last
    candidate, in units of the corpus' spread, less `crowding` · that of the passage (`vectors.crowding`), and lexical
    counts less where no passage holds much of the query (`LexicalIndex.bound`), or where the vectors are sure.
    The graph adds `citations` · log(1 + number of passages that refer to the candidate), `citing` · the mean of
    the fused score over these passages (0 for one that is no candidate), and `diffusion` · what the nearest passages
    send along their references (`graph.diffusion`), scaled so that the largest is 1; what they refer to is then a
    candidate, too. A learned metric (`graph.stored_metric`) adds `learned` · its similarity, scaled to [0, 1].
    """

    calibrated: bool = True
    # Of the dense ranking. On eleven sets, seven of them no mathematics, 0.65 and a crowding of 0.3 reach 0.96 to 1.15
    # of the better of both rankings, 1.054 on average; where words count whatever vectors tell, 0.88 to 1.13, 1.023
    weight: float = 0.65
    depth: int = 200  # candidates of each ranking
    citations: float = 0.0
    citing: float = 0.0
    diffusion: float = 0.0
    learned: float = 0.0
    crowding: float = 0.3

    @property
    def uses_graph(self) -> bool:
        return self.citations > 0 or self.citing > 0 or self.diffusion > 0

    @property
    def formula(self) -> str:
        """The weights in a few words."""
        dense = f"(dense - {self.crowding:g} crowding)" if self.crowding else "dense"
        parts = {dense: self.weight, "lexical": round(1 - self.weight, 2)}
        parts |= {name: getattr(self, name) for name in ("citations", "citing", "diffusion", "learned")}
        return " + ".join(f"{weight:g} {name}" for name, weight in parts.items() if weight)


_NOISE = 1e-6  # products of equal vectors differ by less, depending on how many are multiplied at once
_LEAST_REACH = 0.2  # of vectors, in spreads of the corpus; below it words count in full anyway
_STEP = 1e-3  # between the scores of hits below all candidates, which have only their order
_PLAIN = Fusion(calibrated=False, crowding=0.0)
EQUAL = replace(_PLAIN, weight=0.5)  # the retriever `hybrid`
DENSE, LEXICAL = replace(_PLAIN, weight=1.0), replace(_PLAIN, weight=0.0)
# The retriever `diffusion`. On validation references of the Stacks project and of arXiv papers (bench/graph_search.py),
# weights from 1 to 2 differ by 1 to 3 %.
DIFFUSION = replace(_PLAIN, weight=1.0, diffusion=1.5)


def default_fusion(*, static: bool = False) -> Fusion:
    """The fusion where nothing was fitted, and where a fit begins.

    `static` encoders know less than others, and count less: of lemmata-nano on q-series, CISI, mathlib and SciFact, the
    weight 0.4 reaches 1.03 of the better of both rankings, 0.8 reaches 0.86. Calibrated, its fits lose 1 %.
    """
    return replace(_PLAIN, weight=0.4) if static else Fusion()


# ---------------------------------------------------------------- candidates


class Candidates(NamedTuple):
    """What is known of the candidates of each query, all (n, m), ordered by row; 0 where there is nothing.

    The parts `citing_dense` and `citing_lexical` are means over the passages that refer to a candidate.
    """

    rows: Integers  # -1 for padding
    dense: Floats
    lexical: Floats
    in_lexical: Mask
    reach: Floats  # (n, 1) how far the first cosine is above the last, in spreads of the corpus
    held: Floats  # (n, 1) how much more of the query the first passage by words holds than the last; 1 at most
    citations: Floats
    citing_dense: Floats
    citing_lexical: Floats
    diffusion: Floats
    learned: Floats
    crowding: Floats


def candidates(
    dense: Ranking,
    lexical: Ranking,
    crowding: Crowding | None = None,
    citations: Citations | None = None,
    itself: Integers | None = None,
    allowed: Mask | None = None,
    *,
    diffuse: bool = True,
    learned: Rank | None = None,
    bounds: Floats | None = None,
) -> Candidates:
    """The union of two rankings, each row once, with the features of its rows; `crowding` calibrates the dense one,
    `bounds` (n,), by which words are measured, the lexical one.

    `itself` (n,) is the passage that a query is, -1 for none: it is no candidate, and that it refers to one does not
    count. With `citations` and `diffuse`, what the nearest passages refer to is added, where `allowed` (passages,);
    with `learned`, the rows of that ranking.
    """
    own_rows = np.full(len(dense[0]), -1) if itself is None else itself
    dense, lexical = _without(own_rows, *dense), _without(own_rows, *lexical)
    reached: list[tuple[Integers, Floats64]] = []
    if diffuse and citations is not None:
        reached = [
            _reached(near, cosines, citations, int(row)) for near, cosines, row in zip(*dense, own_rows, strict=True)
        ]
    rows = np.concatenate([dense[0], lexical[0], _only_reached(reached, dense[0], lexical[0], allowed)], axis=1)
    further = _without(own_rows, *learned(rows)) if learned is not None else None
    rows = np.sort(rows if further is None else np.concatenate([rows, further[0]], axis=1), axis=1)
    rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = -1
    by_vectors, by_words = _look_up(rows, dense[0], _scaled(*dense)), _look_up(rows, lexical[0], _scaled(*lexical))
    reach, crowded = np.ones((len(rows), 1), np.float32), np.zeros(rows.shape, np.float32)
    if crowding is not None:
        low, high = _ends(*dense)
        reach = np.where(high - low > _NOISE, (high - low) / crowding.spread, 0).astype(np.float32)
        crowded = np.where(rows < 0, 0, crowding.values[rows]).astype(np.float32)
    held = np.ones_like(reach)
    if bounds is not None:
        low, high = _ends(*lexical)
        held = np.where(high > low, np.minimum((high - low) / bounds[:, None], 1), 1).astype(np.float32)
    of_graph = np.zeros((3, *rows.shape), np.float32)
    if citations is not None:
        for query in range(len(rows)):
            scores = by_vectors[query], by_words[query]
            of_graph[:, query] = _citation_features(rows[query], *scores, citations, int(own_rows[query]))
    diffusion = np.zeros(rows.shape, np.float32)
    for query, (targets, received) in enumerate(reached):
        diffusion[query] = _values_at(rows[query], targets, received)
    return Candidates(
        rows,
        by_vectors,
        by_words,
        in_lexical=_look_up(rows, lexical[0], lexical[0] >= 0) > 0,
        reach=reach,
        held=held,
        citations=of_graph[0],
        citing_dense=of_graph[1],
        citing_lexical=of_graph[2],
        diffusion=diffusion,
        learned=np.zeros(rows.shape, np.float32) if further is None else _look_up(rows, further[0], _scaled(*further)),
        crowding=crowded,
    )


def _look_up(rows: Integers, ranked: Integers, values: Floats | Mask) -> Floats:
    """The value that each row (n, m) has in a ranking (n, depth) of the same query; 0 where it is not in it."""
    result = np.zeros(rows.shape, np.float32)
    for query, order in enumerate(np.argsort(ranked, axis=1)):
        result[query] = _values_at(rows[query], ranked[query, order], values[query, order])
    return result


def _values_at(rows: Integers, known: Integers, values: Floats | Floats64 | Mask) -> Floats:
    """The values of some rows; `known` ascends, and a row that is not in it has 0."""
    if not len(known):
        return np.zeros(len(rows), np.float32)
    places = np.minimum(np.searchsorted(known, rows), len(known) - 1)
    return np.where(known[places] == rows, values[places], 0).astype(np.float32)


def _without(own: Integers, rows: Integers, scores: Floats) -> Ranking:
    """A ranking without one row of each query, whose score, the highest of all, would set the scale."""
    is_own = rows == own[:, None]
    return np.where(is_own, -1, rows), np.where(is_own, -np.inf, scores).astype(np.float32)


def _reached(rows: Integers, scores: Floats, citations: Citations, itself: int) -> tuple[Integers, Floats64]:
    """What the nearest passages of a query refer to, by row, with the weight that it receives; the largest is 1."""
    nearest = np.flatnonzero((rows >= 0) & (rows != itself))[:NEAREST]
    links = Links(citations.indptr, citations.indices)
    targets, received = spread(links, rows[nearest], start_weights(scores[nearest]), blocked=itself)
    return targets, received / max(received.max(initial=0), 1e-12)


def _only_reached(
    reached: Sequence[tuple[Integers, Floats64]], dense: Integers, lexical: Integers, allowed: Mask | None
) -> Integers:
    """The rows that neither ranking has (n, m), at most as many as the dense one has; padded by -1."""
    new = []
    for (rows, received), *others in zip(reached, dense, lexical, strict=False):
        usable = ~np.isin(rows, np.concatenate(others)) & (allowed[rows] if allowed is not None else True)
        best = np.argsort(-received[usable], kind="stable")[: dense.shape[1]]
        new.append(rows[usable][best])
    block = np.full((len(dense), max(map(len, new), default=0)), -1, np.int64)
    for query, rows in enumerate(new):
        block[query, : len(rows)] = rows
    return block


def _scaled(rows: Integers, scores: Floats) -> Floats:
    """Scores of a ranking in [0, 1]; 0 for padding."""
    low, high = _ends(rows, scores)
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = np.where(high - low > _NOISE, (scores - low) / (high - low), 1.0)
    return np.where(rows >= 0, scaled, 0).astype(np.float32)


def _ends(rows: Integers, scores: Floats) -> tuple[Floats, Floats]:
    """The lowest and the highest score (n, 1) of each ranking; infinite where it is empty."""
    low = np.min(np.where(rows >= 0, scores, np.inf), axis=1, keepdims=True, initial=np.inf)
    return low, np.max(np.where(rows >= 0, scores, -np.inf), axis=1, keepdims=True, initial=-np.inf)


def _citation_features(rows: Integers, dense: Floats, lexical: Floats, citations: Citations, itself: int) -> Floats:
    """The features `citations`, `citing_dense` and `citing_lexical` of the candidates of a query (3, m).

    What a candidate refers to is looked up, which few passages do often.
    """
    features = np.zeros((3, len(rows)), np.float32)
    places = np.flatnonzero(rows >= 0)
    rows = rows[places]
    counts = np.asarray(citations.counts[rows], np.float32)
    if itself >= 0:
        own = citations.indices[citations.indptr[itself] : citations.indptr[itself + 1]]
        counts -= np.isin(rows, own)
    features[0, places] = np.log1p(counts)
    starts, stops = citations.indptr[rows], citations.indptr[rows + 1]
    lengths = stops - starts
    offsets = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    targets = citations.indices[np.repeat(starts, lengths) + offsets]
    sources = np.repeat(np.arange(len(rows)), lengths)
    cited = np.searchsorted(rows, targets)
    inside = (cited < len(rows)) & (rows[np.minimum(cited, len(rows) - 1)] == targets) & (rows[sources] != itself)
    cited, sources = cited[inside], sources[inside]
    for feature, scores in ((1, dense), (2, lexical)):
        sums = np.bincount(cited, scores[places[sources]], minlength=len(rows))
        features[feature, places] = sums / np.maximum(counts, 1)
    return features


# ---------------------------------------------------------------- ranking


def combine(pool: Candidates, k: int, fusion: Fusion) -> Ranking:
    """Rank candidates: rows and scores (n, k), best first; ties go to the lower row.

    What only a ranking of weight 0 holds is no hit, nor is the last neighbour where it shares no word with the query.
    """
    weight = fusion.weight
    is_dense, is_lexical = (pool.dense > 0) & (weight > 0), pool.in_lexical & (weight < 1)
    is_hit = (pool.rows >= 0) & (is_dense | is_lexical)
    of_dense = weight * pool.reach if fusion.calibrated else np.float32(weight)
    of_lexical = (1 - weight) * _trust_in_words(pool) if fusion.calibrated else np.float32(1 - weight)
    scores = of_dense * pool.dense + of_lexical * pool.lexical
    if fusion.calibrated and fusion.crowding:
        scores = scores - weight * fusion.crowding * pool.crowding
    if fusion.diffusion:
        is_hit |= pool.diffusion > 0
        scores = scores + fusion.diffusion * pool.diffusion
    if fusion.learned:
        is_hit |= pool.learned > 0
        scores = scores + fusion.learned * pool.learned
    if fusion.citing:
        scores = scores + fusion.citing * (of_dense * pool.citing_dense + of_lexical * pool.citing_lexical)
    if fusion.citations:
        scores = scores + fusion.citations * pool.citations
    scores = np.where(is_hit, scores, -np.inf)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    rows, scores = np.take_along_axis(pool.rows, best, 1), np.take_along_axis(scores, best, 1)
    rows[np.isneginf(scores)] = -1
    if rows.shape[1] < k:
        padding = ((0, 0), (0, k - rows.shape[1]))
        rows = np.pad(rows, padding, constant_values=-1)
        scores = np.pad(scores, padding, constant_values=-np.inf)
    return rows, scores.astype(np.float32)


def _trust_in_words(pool: Candidates) -> Floats:
    """How much words count for a query (n, 1): what they hold of it, and less the surer the vectors are; 1 at most."""
    trust = np.minimum(pool.held / np.maximum(pool.reach, _LEAST_REACH) ** 2, 1)
    return np.asarray(trust, np.float32)


def fuse(
    dense: Ranking,
    lexical: Ranking,
    k: int,
    fusion: Fusion,
    citations: Citations | None = None,
    itself: Integers | None = None,
    allowed: Mask | None = None,
    learned: Rank | None = None,
    crowding: Crowding | None = None,
    bounds: Floats | None = None,
) -> Ranking:
    """Fuse two rankings (n, depth), and where it counts a `learned` one, into one (n, k).

    The first `fusion.depth` of each are candidates, and set the scale. What is ranked below them follows in turn, so
    that more hits never change the order of the first ones.
    """
    counted_citations = citations if fusion.uses_graph else None
    chosen = candidates(
        _first(dense, fusion.depth),
        _first(lexical, fusion.depth),
        crowding if fusion.calibrated else None,
        counted_citations,
        itself,
        allowed,
        diffuse=fusion.diffusion > 0,
        learned=learned if fusion.learned else None,
        bounds=bounds if fusion.calibrated else None,
    )
    ranking = combine(chosen, k, fusion)
    others = [dense[0]] * (fusion.weight > 0) + [lexical[0]] * (fusion.weight < 1)
    return _continued(ranking, others, fusion.depth, itself)


def _first(ranking: Ranking, depth: int) -> Ranking:
    return ranking[0][:, :depth], ranking[1][:, :depth]


def _continued(ranking: Ranking, others: Sequence[Integers], depth: int, itself: Integers | None) -> Ranking:
    """A ranking (n, k) whose free places are filled by the rows of others in turn, where these go beyond `depth`.

    Each row stands there once, and below all that were ranked.
    """
    rows, scores = ranking
    is_deeper = np.any([(more[:, depth:] >= 0).any(axis=1) for more in others], axis=0)
    for query in np.flatnonzero(is_deeper & (rows[:, -1:] < 0).any(axis=1)):
        hits = int((rows[query] >= 0).sum())
        in_turn = np.full((max(more.shape[1] for more in others), len(others)), -1, np.int64)
        for column, more in enumerate(others):
            in_turn[: more.shape[1], column] = more[query]
        there = {-1, *rows[query].tolist(), *([] if itself is None else [int(itself[query])])}
        new = [row for row in dict.fromkeys(in_turn.ravel().tolist()) if row not in there][: rows.shape[1] - hits]
        rows[query, hits : hits + len(new)] = new
        last = scores[query, hits - 1] if hits else 0.0
        scores[query, hits : hits + len(new)] = last - _STEP * np.arange(1, len(new) + 1)
    return rows, scores


# ---------------------------------------------------------------- fitting

_WEIGHTS = tuple(round(step / 10, 1) for step in range(11))


_CITATIONS = (0.0, 0.01, 0.02, 0.04, 0.08)
_CITING = (0.0, 0.1, 0.2, 0.4)
_DIFFUSION = (0.0, 0.1, 0.2, 0.5, 1.0, 1.5)
_CROWDING = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
_LEARNED = (0.0, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0)
# Standard errors that are taken off a gain. On six validation sets (bench/auto.py), fitted to half of the queries, 1
# gains 6.4 % over the best single retriever and loses on none; 0.5 gains 6.6 % and loses 0.4 % on one, 1.5 gains 5.4 %.
_CAUTION = 1.0
FEWEST = 10  # queries from which anything is concluded


class Fit(NamedTuple):
    """The fusion that was chosen, and the values of the queries under every fusion that was tried."""

    fusion: Fusion
    tried: Mapping[Fusion, Floats64]  # (queries,) each


def fit_fusion(values: Callable[[Fusion], Floats64], start: Fusion, *, graph: bool, learned: bool = False) -> Fit:
    """Fit the weights to validation queries; `values` measures a fusion on each of them.

    From `start`, the change of one weight is taken that raises the mean gain over `start`, less a standard error of
    that gain, most, until none does. So queries that disagree, or fewer than FEWEST, leave the weights as they were.
    Measures jump where two passages change places, so a dense weight counts half with its neighbours on both sides.
    Without a `graph` its weights stay 0, and so does that of the metric without a `learned` one.
    """
    tried: dict[Fusion, Floats64] = {}

    def smoothed(fusion: Fusion) -> Floats64:
        around = [round(fusion.weight + step, 2) for step in (0, 0, -0.1, 0.1)]
        near = [replace(fusion, weight=weight) for weight in around if 0 <= weight <= 1]
        for each in near:
            if each not in tried:
                tried[each] = values(each)
        return np.asarray(np.mean([tried[each] for each in near], axis=0), np.float64)

    def gain(fusion: Fusion) -> float:
        gains = smoothed(fusion) - smoothed(start)
        error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) >= FEWEST else np.inf
        return float(gains.mean() - _CAUTION * error)

    best, best_gain = start, 0.0
    while True:
        before = best
        for fusion in _neighbours(best, graph=graph, learned=learned):
            if (value := gain(fusion)) > best_gain + 1e-9:
                best, best_gain = fusion, value
        if best == before:
            return Fit(best, tried)


def _neighbours(fusion: Fusion, *, graph: bool, learned: bool) -> Iterator[Fusion]:
    """All fusions that differ in one weight."""
    yield from (replace(fusion, weight=step) for step in _WEIGHTS)
    if fusion.calibrated:
        yield from (replace(fusion, crowding=step) for step in _CROWDING)
    if graph:
        yield from (replace(fusion, citations=step) for step in _CITATIONS)
        yield from (replace(fusion, citing=step) for step in _CITING)
        yield from (replace(fusion, diffusion=step) for step in _DIFFUSION)
    if learned:
        yield from (replace(fusion, learned=step) for step in _LEARNED)
