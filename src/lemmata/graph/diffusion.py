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


def start_weights(similarities: Floats) -> Floats64:
    """How much each of the nearest passages counts, best first: (cos / largest cos)⁴, 0 for a negative cosine."""
    values = np.maximum(np.asarray(similarities, np.float64), 0)
    return np.asarray((values / max(values.max(initial=0), 1e-12)) ** _SHARPNESS, np.float64)


def spread(links: Links, rows: Integers, weights: Floats64, *, blocked: int = -1) -> tuple[Integers, Floats64]:
    """The rows that links lead to from some rows, ascending, each with the weight it receives.

    s(v) = Σ weights(u) over the given rows u with a link to v; nothing flows from or to the row `blocked`.
    """
    is_open = rows != blocked
    rows, weights = rows[is_open], weights[is_open]
    starts = np.asarray(links.indptr[rows])
    counts = np.asarray(links.indptr[rows + 1]) - starts
    places = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    reached, place = np.unique(np.asarray(links.indices[places]), return_inverse=True)
    received = np.bincount(place, np.repeat(weights, counts), minlength=len(reached)).astype(np.float64, copy=False)
    is_open = reached != blocked
    return reached[is_open], received[is_open]
