"""What a batch of vectors is worth: contrast, triplets, and likeness to a teacher.

All take unit vectors of the distinct texts of a batch and a table (b, columns) of places among them: anchor,
positive, negatives (-1 where there are fewer).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lemmata.errors import ConfigError

__all__ = ["Candidates", "Contrast", "candidates", "contrastive", "distilled", "fractions", "shortened", "triplet"]

Tensor = Any  # of torch, which is imported where it is needed


class Contrast(NamedTuple):
    """How candidates are contrasted."""

    scale: float = 20.0  # what cosines are multiplied by; the inverse of the temperature
    both_ways: bool = False  # positives also look for their anchors
    popularity: float = 0.0  # how much of it is left in the scores


class Candidates(NamedTuple):
    """What each anchor chooses among: the positives of all records, then the distinct negatives."""

    places: Tensor  # (c,) among the texts; the first b are the positives in order
    allowed: Tensor  # (b, c) False for what is an answer too, or may be


def candidates(
    table: Tensor,
    numbers: Tensor,
    known: Tensor,
    texts: int,
    guide: Tensor | None = None,
    margin: float = 0.0,
) -> Candidates:
    """The candidates of a batch, without false negatives.

    `known` are the sorted keys anchor · texts + positive of all pairs that training knows: another record's
    positive that answers this anchor as well is no negative. `guide` (distinct texts, d), unit vectors of a model
    that is trusted: a candidate that it finds closer to the anchor than the positive, less `margin`, is none either.
    """
    import torch

    positives = table[:, 1]
    others = table[:, 2:]
    negatives = torch.unique(others[others >= 0])
    negatives = negatives[~torch.isin(negatives, positives)]
    places = torch.cat([positives, negatives])
    anchors = table[:, 0]
    keys = numbers[anchors][:, None] * texts + numbers[places][None, :]
    if len(known):
        found = torch.searchsorted(known, keys).clamp(max=len(known) - 1)
        answers = known[found] == keys
    else:
        answers = torch.zeros_like(keys, dtype=torch.bool)
    answers |= places[None, :] == anchors[:, None]
    if guide is not None:
        likeness = guide[anchors] @ guide[places].T
        answers |= likeness > likeness.diagonal()[:, None] - margin
    own = torch.arange(len(table), device=table.device)
    answers[own, own] = False
    return Candidates(places, ~answers)


def contrastive(
    vectors: Tensor, table: Tensor, among: Candidates, contrast: Contrast, expected: Tensor | None = None
) -> Tensor:
    """Cross entropy of each anchor's positive among its candidates; both ways, the mean of the two directions.

    A text that is the positive of many records is as often a negative in the batch, which teaches the model to hide
    it. `expected` (b,) says how often each positive was to be expected there; with `popularity` 1 its weight among
    the candidates is divided by that, as if all texts were drawn alike (the correction of sampled softmax).
    """
    import torch

    anchors, others = vectors[table[:, 0]].float(), vectors[among.places].float()
    scores = anchors @ others.T * contrast.scale
    if expected is not None and contrast.popularity:
        scores[:, : len(table)] -= contrast.popularity * expected.log()
    scores = scores.masked_fill(~among.allowed, -torch.inf)
    target = torch.arange(len(table), device=vectors.device)
    loss = torch.nn.functional.cross_entropy(scores, target)
    if contrast.both_ways:
        loss = (loss + torch.nn.functional.cross_entropy(scores[:, : len(table)].T, target)) / 2
    return loss


def triplet(vectors: Tensor, table: Tensor, margin: float) -> Tensor:
    """Mean hinge of the Euclidean distances, over every negative of every record."""
    import torch

    record, column = (table[:, 2:] >= 0).nonzero(as_tuple=True)
    if not len(record):
        raise ConfigError("triplets need negatives, and these records have none")
    anchors, positives = vectors[table[record, 0]].float(), vectors[table[record, 1]].float()
    negatives = vectors[table[record, column + 2]].float()
    near = torch.nn.functional.pairwise_distance(anchors, positives)
    far = torch.nn.functional.pairwise_distance(anchors, negatives)
    return torch.relu(near - far + margin).mean()


def distilled(
    vectors: Tensor, table: Tensor, among: Candidates, teacher: Tensor, scales: tuple[float, float]
) -> Tensor:
    """How far the choice among candidates is from the teacher's (Kullback–Leibler); false negatives need no mask.

    `teacher` (distinct texts, d) are its unit vectors; `scales` those of the pupil and of the teacher.
    """
    import torch

    mine = vectors[table[:, 0]].float() @ vectors[among.places].float().T * scales[0]
    wanted = teacher[table[:, 0]].float() @ teacher[among.places].float().T * scales[1]
    own = torch.log_softmax(mine, dim=1)
    return torch.nn.functional.kl_div(own, torch.log_softmax(wanted, dim=1), reduction="batchmean", log_target=True)


# ---------------------------------------------------------------- Matryoshka


def fractions(dimensions: Sequence[float], full: int) -> list[int]:
    """Lengths to which vectors shall be cut, longest first; up to 1 they are parts of the whole."""
    found = sorted({round(one * full) if one <= 1 else int(one) for one in dimensions}, reverse=True)
    for one in found:
        if not 1 <= one <= full:
            raise ConfigError(f"vectors of {full} dimensions can not be cut to {one}")
    return found or [full]


def shortened(vectors: Tensor, dimension: int) -> Tensor:
    """The first so many coordinates, as unit vectors."""
    import torch

    return torch.nn.functional.normalize(vectors[:, :dimension].float(), dim=1)
