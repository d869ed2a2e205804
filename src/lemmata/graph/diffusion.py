"""Diffusion: scores of the nearest passages flow along links to what they refer to.

Works on arrays; a link goes from a row to a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.types import Floats, Integers

Floats64 = npt.NDArray[np.float64]
NEAREST = 100  # passages that diffusion starts from
_SHARPNESS = 4  # the tenth of a hundred neighbours counts about half of the first


class Links(NamedTuple):
    """Links in compressed rows: those of row i are `indptr[i]:indptr[i + 1]`."""

    indptr: Integers  # (rows + 1,)
    indices: Integers  # (links,)
    weights: Floats64 | None = None  # (links,); None: all equal

    @property
    def sources(self) -> Integers:
        """The row that each link leaves (links,)."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


def start_weights(similarities: Floats) -> Floats64:
    """How much each of the nearest passages counts, best first: (cos / largest cos)⁴, 0 for a negative cosine."""
    values = np.maximum(np.asarray(similarities, np.float64), 0)
    return np.asarray((values / max(values.max(initial=0), 1e-12)) ** _SHARPNESS, np.float64)


def spread(
    links: Links, rows: Integers, weights: Floats64, *, steps: int = 1, blocked: int = -1
) -> tuple[Integers, Floats64]:
    """The rows that links lead to from some rows in up to `steps` steps, ascending, each with the weight it receives.

    One step: s(v) = Σ weights(u) · weight of (u, v), over the given rows u; every further step adds what flows on in
    the same way, halved and divided by the number of links that leave a row. Nothing flows through the row `blocked`.
    """
    reached: list[Integers] = []
    received: list[Floats64] = []
    for _ in range(steps):
        kept = rows != blocked
        rows, weights = _flow(links, rows[kept], weights[kept])
        reached.append(rows)
        received.append(weights)
        weights = weights / (2 * np.maximum(links.indptr[rows + 1] - links.indptr[rows], 1))
    if steps > 1:
        reached[0], received[0] = _summed(np.concatenate(reached), np.concatenate(received))
    kept = reached[0] != blocked
    return reached[0][kept], received[0][kept]


def _flow(links: Links, rows: Integers, weights: Floats64) -> tuple[Integers, Floats64]:
    """What all links of some rows carry, summed by the row that they lead to."""
    starts = np.asarray(links.indptr[rows])
    counts = np.asarray(links.indptr[rows + 1]) - starts
    places = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    carried = np.repeat(weights, counts)
    if links.weights is not None:
        carried = carried * links.weights[places]
    return _summed(np.asarray(links.indices[places]), carried)


def _summed(rows: Integers, weights: Floats64) -> tuple[Integers, Floats64]:
    distinct, places = np.unique(rows, return_inverse=True)
    sums: Floats64 = np.bincount(places, weights, minlength=len(distinct)).astype(np.float64, copy=False)
    return distinct, sums


def personalised_pagerank(
    links: Links, rows: Integers, weights: Floats64, *, damping: float = 0.85, tolerance: float = 1e-6
) -> Floats64:
    """The share of time (rows,) that a random reader spends at each row (Page and others 1999).

    At each step they follow a link with probability `damping`, else they start again at one of `rows`, drawn by
    `weights`; so they do where no link leaves.
    """
    count = len(links.indptr) - 1
    start = np.bincount(rows, weights, minlength=count)
    start = start / max(start.sum(), 1e-300)
    sources = links.sources
    carried = np.ones(len(sources)) if links.weights is None else links.weights
    out = np.bincount(sources, carried, minlength=count)
    share = carried / np.maximum(out, 1e-300)[sources]
    is_end = out <= 0
    rank = start
    while True:
        flow = np.bincount(links.indices, share * rank[sources], minlength=count)
        after = damping * (flow + rank[is_end].sum() * start) + (1 - damping) * start
        if np.abs(after - rank).sum() <= tolerance:
            return np.asarray(after, np.float64)
        rank = after


# ---------------------------------------------------------------- directions


def reverse(links: Links) -> Links:
    """The same links, from where they led."""
    return _from_pairs(links.indices, links.sources, links.weights, len(links.indptr) - 1)


def union(one: Links, other: Links) -> Links:
    """The links of both, for example of both directions."""
    sources, targets = np.concatenate([one.sources, other.sources]), np.concatenate([one.indices, other.indices])
    weights = None
    if one.weights is not None and other.weights is not None:
        weights = np.concatenate([one.weights, other.weights])
    return _from_pairs(sources, targets, weights, len(one.indptr) - 1)


def _from_pairs(sources: Integers, targets: Integers, weights: Floats64 | None, count: int) -> Links:
    order = np.lexsort((targets, sources))
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(sources, minlength=count), out=indptr[1:])
    return Links(indptr, np.asarray(targets)[order], None if weights is None else weights[order])
