"""How crowded it is around each passage.

A passage among many similar ones is near to many queries, whether it answers them or not; one that stands apart is
near to few. Subtracting a share of the crowding from its similarity corrects for that (hubs: Radovanović, Nanopoulos
and Ivanović 2010; subtracting: Conneau and others 2018). A sample of the corpus is enough to tell, so that a million
passages take a minute.

The sample has the passages with the smallest hashes: a corpus that changes a little keeps nearly all of it, and only
those passages are measured again that came, or that a passage of the sample which came or went is among the nearest of.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.types import Crowding, Floats, Integers, Mask, Progress
from lemmata.corpus.texts import Hashes, match_rows

_SAMPLE = 2048  # passages that all others are compared with; on five sets as good as all of them, 512 a little worse
_NEAREST = 20  # of the sample
_BLOCK = 4096  # passages at a time
_MOST_CHANGED = 0.1  # of the sample, above which all is measured again
_NOISE = 1e-5  # of a cosine


class MeasuredCrowding(NamedTuple):
    """The crowding of vectors, and what it takes to bring it up to date."""

    crowding: Crowding
    near: Floats  # (n,) mean cosine of the nearest of the sample
    edges: Floats  # (n,) cosine of the last of these


class KnownCrowding(NamedTuple):
    """What was measured of vectors before, and where each passage was then."""

    vectors: Floats
    hashes: Hashes
    near: Floats
    edges: Floats
    rows: Integers  # (n,) of today's passages among these; -1 for new ones


def measure_crowding(
    vectors: Floats, hashes: Hashes, progress: Progress, known: KnownCrowding | None = None
) -> MeasuredCrowding:
    """The crowding of vectors (n, dim) of length 1, whose texts have these hashes."""
    count, sample = len(vectors), _sample(hashes)
    nearest = min(_NEAREST, len(sample) - 1)
    if nearest < 1:
        nothing = np.zeros(count, np.float32)
        return MeasuredCrowding(Crowding(nothing, 1.0), nothing, nothing)
    sampled = np.asarray(vectors[sample], np.float32)
    nearness, edges, wanted = np.zeros(count, np.float32), np.zeros(count, np.float32), np.ones(count, bool)
    if known is not None and (changed := _changed_sample(vectors, hashes, sample, known)) is not None:
        wanted = known.rows < 0
        nearness[~wanted], edges[~wanted] = (each[known.rows[~wanted]] for each in (known.near, known.edges))
        wanted |= _has_near(vectors, edges, changed)
    rows = np.flatnonzero(wanted)
    for start in range(0, len(rows), _BLOCK):
        progress("measuring how crowded it is", start, len(rows))
        block = rows[start : start + _BLOCK]
        similarities = np.asarray(vectors[block], np.float32) @ sampled.T
        sampled_rows, places = _own(block, sample)
        similarities[sampled_rows, places] = -np.inf
        similarities.partition(len(sample) - nearest, axis=1)
        nearness[block] = similarities[:, -nearest:].mean(axis=1)
        edges[block] = similarities[:, -nearest]
    # the sum of all cosines is the product of sums
    total = float(_sum(vectors) @ sampled.sum(axis=0, dtype=np.float64))
    pairs = count * len(sample) - len(sample)
    mean = nearness.mean(dtype=np.float64)
    spread = float(mean) - (total - len(sample)) / pairs
    if spread < 1e-3:  # no passage is nearer to any other: there is nothing to correct
        return MeasuredCrowding(Crowding(np.zeros(count, np.float32), 1.0), nearness, edges)
    return MeasuredCrowding(
        Crowding((nearness - mean).astype(np.float32) / np.float32(spread), spread), nearness, edges
    )


def _sample(hashes: Hashes) -> Integers:
    """The rows of the sample, in ascending order."""
    if len(hashes) <= _SAMPLE:
        return np.arange(len(hashes))
    return np.sort(np.argpartition(hashes, _SAMPLE)[:_SAMPLE])


def _own(block: Integers, sample: Integers) -> tuple[Integers, Integers]:
    """Which passages of a block are in the sample, and where."""
    places = np.minimum(np.searchsorted(sample, block), len(sample) - 1)
    own = np.flatnonzero(sample[places] == block)
    return own, places[own]


def _changed_sample(vectors: Floats, hashes: Hashes, sample: Integers, known: KnownCrowding) -> Floats | None:
    """The vectors (m, dim) that the sample has gained or lost; None where these are many."""
    before = _sample(known.hashes)
    matches = match_rows(known.hashes[before], hashes[sample])
    gained, lost = sample[matches < 0], np.delete(before, matches[matches >= 0])
    if len(before) != len(sample) or len(gained) + len(lost) > _MOST_CHANGED * len(sample):
        return None
    return np.concatenate([np.asarray(vectors[gained], np.float32), np.asarray(known.vectors[lost], np.float32)])


def _has_near(vectors: Floats, edges: Floats, others: Floats) -> Mask:
    """Which vectors have one of some others among their nearest (n,)."""
    result = np.zeros(len(vectors), bool)
    for start in range(0, len(vectors) if len(others) else 0, _BLOCK):
        block = slice(start, start + _BLOCK)
        result[block] = (vectors[block] @ others.T).max(axis=1) >= edges[block] - _NOISE
    return result


def _sum(vectors: Floats) -> npt.NDArray[np.float64]:
    blocks = (vectors[start : start + _BLOCK].sum(axis=0, dtype=np.float64) for start in range(0, len(vectors), _BLOCK))
    return np.asarray(sum(blocks), np.float64)
