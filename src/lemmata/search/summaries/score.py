"""Search over passages and over short texts about them: a passage is found by what it says or by what it is for.

A passage scores max(s, (s + m) / 2): s is its own similarity to the query, m that of its best summary. The mean keeps a
summary that fits by chance from lifting a passage that does not, and the maximum lets no summary do harm.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.errors import InputError
from lemmata.core.types import Floats, Index, Integers, Mask, Ranking, no_hits
from lemmata.vectors.exact import ExactIndex, Matrix, check_allowed, check_queries, rank_rows

_BLOCK_ROWS = 1 << 16  # passages and summaries scored at once; bounds the memory
_ROUNDS = 4  # times that candidates are searched, each time four times as many


class SummaryIndex:
    """An index of passages (n, dim) and of summaries (m, dim); `rows` (m,) are their passages, ascending.

    Two exact indexes make an exact one. Otherwise both propose candidates until no other passage can be better (Fagin,
    Lotem and Naor 2003, the threshold algorithm), or until the rounds are used up; candidates are scored exactly.
    """

    def __init__(
        self,
        passages: Index,
        matrix: Matrix,
        summaries: Index,
        summary_matrix: Matrix,
        rows: Integers,
        *,
        hidden: Mask | None = None,
    ) -> None:
        if len(rows) != len(summary_matrix) or (len(rows) and (rows[0] < 0 or rows[-1] >= len(matrix))):
            raise InputError(f"{len(summary_matrix)} summaries with {len(rows)} rows of {len(matrix)} passages")
        self._passages, self._matrix = passages, matrix
        self._summaries, self._summary_matrix = summaries, summary_matrix
        self._rows = np.asarray(rows, np.int64)
        self._starts = np.searchsorted(self._rows, np.arange(len(matrix) + 1))  # (n + 1,) of a passage's summaries
        self._hidden = hidden if hidden is not None and hidden.any() else None

    def hiding(self, hidden: Mask) -> SummaryIndex:
        """The same index as if the summaries of this mask (m,) did not exist."""
        parts = self._passages, self._matrix, self._summaries, self._summary_matrix, self._rows
        return SummaryIndex(*parts, hidden=hidden)

    def search(self, queries: Floats, k: int, allowed: Mask | None = None) -> Ranking:
        """The k best passages, as in lemmata.core.types.Index."""
        queries = check_queries(queries, self._matrix.shape[1])
        check_allowed(allowed, len(self._matrix))
        if isinstance(self._passages, ExactIndex) and isinstance(self._summaries, ExactIndex):
            share = len(self._matrix) / max(1, len(self._matrix) + len(self._rows))
            block_rows = max(1, int(_BLOCK_ROWS * share))
            return rank_rows(queries, k, len(self._matrix), self.scores, allowed, block_rows=block_rows)
        rows, scores = no_hits(len(queries), k)
        for number, query in enumerate(queries if k > 0 else ()):
            rows[number], scores[number] = self._search_candidates(query[None], k, allowed)
        return rows, scores

    def scores(self, queries: Floats, rows: slice | Integers) -> Floats:
        """Scores (q, r) of some queries with some passages."""
        scores = queries @ self._matrix[rows].astype(np.float32, copy=False).T
        if isinstance(rows, slice):
            starts, stops = self._starts[:-1][rows], self._starts[1:][rows]
            places: slice | Integers = slice(int(starts[0]), int(stops[-1])) if len(starts) else slice(0, 0)
        else:
            starts, stops = self._starts[rows], self._starts[rows + 1]
            places = np.repeat(starts - (np.cumsum(stops - starts) - (stops - starts)), stops - starts)
            places += np.arange(len(places))
        counts = stops - starts
        summarised = np.flatnonzero(counts)  # passages with a summary
        if not len(summarised):
            return np.asarray(scores, np.float32)
        products = queries @ self._summary_matrix[places].astype(np.float32, copy=False).T
        if self._hidden is not None:
            products[:, self._hidden[places]] = -np.inf
        best = np.maximum.reduceat(products, (np.cumsum(counts) - counts)[summarised], axis=1)
        scores[:, summarised] = np.maximum(scores[:, summarised], (scores[:, summarised] + best) / 2)
        return np.asarray(scores, np.float32)

    def _search_candidates(self, query: Floats, k: int, allowed: Mask | None) -> Ranking:
        """The best of the candidates of both indexes for one query (1, dim), padded to k."""
        usable = None if allowed is None else allowed[self._rows]
        if self._hidden is not None:
            usable = ~self._hidden if usable is None else usable & ~self._hidden
        depth = 2 * k
        for last in (False,) * (_ROUNDS - 1) + (True,):
            near_rows, own_scores = (
                part[0] for part in self._passages.search(query, min(depth, len(self._matrix)), allowed)
            )
            told, by_summary = (part[0] for part in self._summaries.search(query, min(depth, len(self._rows)), usable))
            candidates = np.union1d(near_rows[near_rows >= 0], self._rows[told[told >= 0]])
            values = self.scores(query, candidates)[0]
            order = np.argsort(-values, kind="stable")[:k]
            # no passage outside the two lists has more than the last of each
            most_own = own_scores[-1] if len(own_scores) and len(own_scores) < len(self._matrix) else -np.inf
            most_told = by_summary[-1] if len(told) and len(told) < len(self._rows) else -np.inf
            most = max(most_own, (most_own + most_told) / 2)
            if last or (len(order) == k and values[order[-1]] > most) or most == -np.inf:
                break
            depth *= 4
        rows = np.full(k, -1, np.int64)
        scores = np.full(k, -np.inf, np.float32)
        rows[: len(order)], scores[: len(order)] = candidates[order], values[order]
        return rows, scores
