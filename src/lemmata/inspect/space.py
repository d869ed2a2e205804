"""The space of an encoder's vectors: isotropy, uniformity, alignment, its dimensions, neighbours, and maps by t-SNE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.errors import require
from lemmata.core.types import Floats, Integers
from lemmata.vectors.exact import ExactIndex

MEASURES = ("mean_cosine", "isotropy", "effective_rank", "uniformity", "alignment", "separation")  # numbers of a Space
_PERPLEXITY = 30  # of t-SNE; fewer points have a smaller one


@dataclass(frozen=True, slots=True)
class Space:
    """How the vectors of a sample lie; they have length 1."""

    mean_cosine: float  # of random pairs; 0 where all directions are used alike
    isotropy: float  # 0 to 1
    effective_rank: float  # 1 to the dimension
    uniformity: float  # at most 0; lower is more uniform
    alignment: float | None  # of linked pairs; None without any
    separation: float | None  # probability that a linked pair is nearer than a random one
    spectrum: Floats  # (dimension,) share of the variance by component, largest first
    random_cosines: Floats  # (pairs,)
    linked_cosines: Floats  # (links,)


def measure_space(vectors: Floats, pairs: Integers, linked: tuple[Floats, Floats]) -> Space:
    """Measure the vectors (n, dim) of a sample.

    `pairs` (2, pairs) are positions in it, of two different vectors each; `linked` are the vectors of both ends of
    links (links, dim).
    """
    random_cosines = np.einsum("ij,ij->i", vectors[pairs[0]], vectors[pairs[1]])
    linked_cosines = np.einsum("ij,ij->i", *linked)
    has_links = len(linked_cosines) > 0
    return Space(
        mean_cosine=float(random_cosines.mean()),
        isotropy=partition_isotropy(vectors),
        effective_rank=effective_rank(vectors),
        uniformity=uniformity(vectors, pairs),
        alignment=alignment(*linked) if has_links else None,
        separation=separation(linked_cosines, random_cosines) if has_links else None,
        spectrum=spectrum(vectors),
        random_cosines=random_cosines,
        linked_cosines=linked_cosines,
    )


def random_pairs(count: int, most: int, generator: np.random.Generator) -> Integers:
    """Positions (2, pairs) of two different ones of `count` each; all pairs where there are at most `most`."""
    if count * (count - 1) // 2 <= most:
        return np.array(np.triu_indices(count, 1), np.int64)
    first = generator.integers(0, count, most)
    second = (first + generator.integers(1, count, most)) % count
    return np.array([first, second], np.int64)


def alignment(first: Floats, second: Floats) -> float:
    """E ‖x − y‖² over pairs that belong together (Wang and Isola 2020, with α = 2); 0 where they coincide."""
    return float(np.square(first - second).sum(axis=1).mean())


def uniformity(vectors: Floats, pairs: Integers) -> float:
    """log E exp(−2 ‖x − y‖²) over random pairs (Wang and Isola 2020, with t = 2).

    0 where all vectors are the same; about −4 where they lie evenly on a sphere of many dimensions.
    """
    squared = np.square(vectors[pairs[0]] - vectors[pairs[1]]).sum(axis=1)
    return float(np.log(np.exp(-2.0 * squared.astype(np.float64)).mean()))


def partition_isotropy(vectors: Floats) -> float:
    """min Z(c) / max Z(c) with Z(c) = Σ exp(c · x), c over both directions of the eigenvectors of XᵀX.

    After Mu and Viswanath 2018 (with both signs, so that the sign of an eigenvector does not matter). 1 where no
    direction is preferred.
    """
    _, directions = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)
    projections = vectors @ directions
    sums = np.concatenate([np.exp(projections).sum(axis=0), np.exp(-projections).sum(axis=0)])
    return float(sums.min() / sums.max())


def spectrum(vectors: Floats) -> Floats:
    """The share of the variance of each principal component, largest first; zeros where all vectors are the same."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    values = np.clip(np.linalg.eigvalsh(centred.T @ centred)[::-1], 0, None)
    return np.asarray(values / (values.sum() or 1.0), np.float32)


def effective_rank(vectors: Floats) -> float:
    """exp of the entropy of the shares of the singular values (Roy and Vetterli 2007), of the centred vectors.

    As many dimensions, equally used, would have this entropy.
    """
    shares = np.sqrt(spectrum(vectors).astype(np.float64))
    shares = shares[shares > 0] / (shares.sum() or 1.0)
    return float(np.exp(-(shares * np.log(shares)).sum()))


def separation(linked: Floats, random: Floats) -> float:
    """The probability that a linked pair has a higher cosine than a random one (area under the ROC curve)."""
    ordered = np.sort(random)
    below, not_above = (np.searchsorted(ordered, linked, side=side) for side in ("left", "right"))
    return float((below + not_above).mean() / 2 / len(ordered))


# ---------------------------------------------------------------- maps


def tsne_maps(matrices: Sequence[Floats], seed: int) -> list[Floats]:
    """A map (n, 2) of the same passages for each encoder, by t-SNE (van der Maaten and Hinton 2008).

    The later ones start from the map before and without exaggeration: what an encoder does not move stays where it is,
    so that maps can be compared.
    """
    tsne = require("sklearn.manifold", "train").TSNE
    one_thread = require(
        "threadpoolctl", "train"
    ).threadpool_limits  # several would wait for each other on a busy machine
    maps: list[Floats] = []
    for matrix in matrices:
        perplexity = min(_PERPLEXITY, max(2, (len(matrix) - 1) // 3))
        start: dict[str, Any] = {"init": maps[-1], "early_exaggeration": 1.0} if maps else {"init": "pca"}
        with one_thread(limits=1):
            model = tsne(2, perplexity=perplexity, metric="cosine", random_state=seed, n_jobs=1, **start)
            maps.append(np.asarray(model.fit_transform(matrix), np.float32))
    return maps


def neighbour_purity(neighbours: Integers, groups: Integers) -> float:
    """The share of the nearest neighbours (n, k) that are of the same group as the passage itself."""
    return float((groups[neighbours] == groups[:, None]).mean())


# ---------------------------------------------------------------- neighbours by two encoders


class Changes(NamedTuple):
    """The nearest neighbours of each passage in two spaces."""

    overlaps: Floats  # (n,) share of the k nearest that stayed
    before: Integers  # (n, k) positions, nearest first
    after: Integers  # (n, k)

    def most_changed(self, most: int) -> Integers:
        """Positions with the smallest overlap, those first whose nearest neighbours before fell furthest."""
        ranks = (self.after[:, None, :] == self.before[:, :, None]).any(axis=2)  # (n, k): whether it stayed
        weights = 1.0 / np.arange(1, ranks.shape[1] + 1)
        return np.lexsort((np.arange(len(ranks)), ranks @ weights, self.overlaps))[:most]


def nearest(vectors: Floats, k: int) -> Integers:
    """The k nearest others (n, k) of each vector by cosine, nearest first; fewer where there are fewer."""
    k = min(k, len(vectors) - 1)
    if k < 1:
        return np.zeros((len(vectors), 0), np.int64)
    rows, _ = ExactIndex(vectors).search(vectors, k + 1)
    others = rows != np.arange(len(rows))[:, None]
    others[others.all(axis=1), -1] = False  # among equal vectors, a passage may not be its own nearest
    return np.asarray(rows[others].reshape(len(rows), k), np.int64)


def compare_neighbours(before: Floats, after: Floats, k: int) -> Changes:
    """Compare the k nearest neighbours of the same passages by two encoders: vectors (n, dim) each."""
    first, second = nearest(before, k), nearest(after, k)
    stayed = (first[:, :, None] == second[:, None, :]).any(axis=2)
    return Changes(stayed.mean(axis=1, dtype=np.float32), first, second)
