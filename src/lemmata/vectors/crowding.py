"""How crowded it is around each passage.

A passage among many similar ones is near to many queries, whether it answers them or not; one that stands apart is
near to few. Subtracting a share of the crowding from its similarity corrects for that (hubs: Radovanović, Nanopoulos
and Ivanović 2010; subtracting: Conneau and others 2018). A sample of the corpus is enough to tell, so that a million
passages take a minute.
"""

from __future__ import annotations

import numpy as np

from lemmata.core.types import Crowding, Floats, Progress

_SAMPLE = 2048  # passages that all others are compared with; on five sets as good as all of them, 512 a little worse
_NEAREST = 20  # of the sample
_BLOCK = 4096  # passages at a time


def measure_crowding(vectors: Floats, progress: Progress) -> Crowding:
    """The crowding of vectors (n, dim) of length 1."""
    count = len(vectors)
    sample = np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(np.int64)) if count else np.empty(0, int)
    nearest = min(_NEAREST, len(sample) - 1)
    if nearest < 1:
        return Crowding(np.zeros(count, np.float32), 1.0)
    sampled = np.asarray(vectors[sample], np.float32).T
    near, total = np.empty(count, np.float32), 0.0
    for start in range(0, count, _BLOCK):
        progress("measuring how crowded it is", start, count)
        similarities = np.asarray(vectors[start : start + _BLOCK], np.float32) @ sampled
        total += float(similarities.sum(dtype=np.float64))
        own = np.flatnonzero((sample >= start) & (sample < start + _BLOCK))
        similarities[sample[own] - start, own] = -np.inf
        similarities.partition(len(sample) - nearest, axis=1)
        near[start : start + _BLOCK] = similarities[:, -nearest:].mean(axis=1)
    pairs = count * len(sample) - len(sample)
    spread = float(near.mean(dtype=np.float64)) - (total - len(sample)) / pairs
    if spread < 1e-3:  # no passage is nearer to any other: there is nothing to correct
        return Crowding(np.zeros(count, np.float32), 1.0)
    return Crowding((near - near.mean(dtype=np.float64)).astype(np.float32) / np.float32(spread), spread)
