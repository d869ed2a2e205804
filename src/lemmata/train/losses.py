"""Losses of a batch of vectors: contrastive, triplet margin, and distillation from a teacher.

All take unit vectors of the distinct texts of a batch and a table (b, columns) of places among them: anchor,
positive, negatives (-1 where a record has fewer).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lemmata.core.errors import ConfigError

Tensor = Any  # of torch, which is imported where it is needed
SCALE = 20.0  # of cosines: the inverse of the temperature
MARGIN = 0.5  # of triplets
TARGET_SCALE = 10.0  # of cosines with targets
SAMPLE = 60_000  # texts from which the axes of targets are computed


class Candidates(NamedTuple):
    """What each anchor chooses among: the positives of all records, then the distinct negatives."""

    places: Tensor  # (c,) among the texts; the first b are the positives in order
    allowed: Tensor  # (b, c) False where a candidate is masked, since it is or may be an answer too


def candidates(table: Tensor, numbers: Tensor, pairs: Tensor, texts: int) -> Candidates:
    """The candidates of a batch, false negatives masked.

    `pairs` are the sorted keys anchor · texts + positive of all training pairs: another record's positive that answers
    this anchor as well is no negative.
    """
    import torch

    positives = table[:, 1]
    others = table[:, 2:]
    negatives = torch.unique(others[others >= 0])
    negatives = negatives[~torch.isin(negatives, positives)]
    places = torch.cat([positives, negatives])
    anchors = table[:, 0]
    keys = numbers[anchors][:, None] * texts + numbers[places][None, :]
    if len(pairs):
        nearest = torch.searchsorted(pairs, keys).clamp(max=len(pairs) - 1)
        masked = pairs[nearest] == keys
    else:
        masked = torch.zeros_like(keys, dtype=torch.bool)
    masked |= places[None, :] == anchors[:, None]
    records = torch.arange(len(table), device=table.device)
    masked[records, records] = False
    return Candidates(places, ~masked)


class Records(NamedTuple):
    """The records of a batch."""

    table: Tensor  # (b, columns) places of the texts: anchor, positive, negatives
    among: Candidates
    expected: Tensor  # (b,) how often each positive is expected in a batch
    margin: float = MARGIN  # of triplets


class Loss(NamedTuple):
    """A loss by its name in [finetune.NAME]: what it is of the unit vectors (distinct texts, d) of a batch."""

    compute: Callable[[Tensor, Records], Tensor]
    compares_candidates: bool = True  # else a teacher has nothing to say
    needs_negatives: bool = False


def contrastive(
    vectors: Tensor,
    table: Tensor,
    among: Candidates,
    *,
    both_ways: bool = False,
    expected: Tensor | None = None,
    scale: float = SCALE,
) -> Tensor:
    """Cross-entropy of each anchor's positive among its candidates; both ways, the mean of the two directions.

    A text that is the positive of many records is as often a negative in the batch, so the model learns to hide it.
    `expected` (b,), how often each positive is expected in a batch, corrects that: its weight among the candidates is
    divided by it, as if all texts were sampled equally often (sampled softmax).
    """
    import torch

    anchors, others = vectors[table[:, 0]].float(), vectors[among.places].float()
    scores = anchors @ others.T * scale
    if expected is not None:
        scores[:, : len(table)] -= expected.log()
    scores = scores.masked_fill(~among.allowed, -torch.inf)
    target = torch.arange(len(table), device=vectors.device)
    loss = torch.nn.functional.cross_entropy(scores, target)
    if both_ways:
        loss = (loss + torch.nn.functional.cross_entropy(scores[:, : len(table)].T, target)) / 2
    return loss


def triplet(vectors: Tensor, table: Tensor, margin: float = MARGIN) -> Tensor:
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


# a new loss is a row here, and one in the table of docs/train.md
LOSSES = {
    "contrastive": Loss(lambda vectors, of: contrastive(vectors, of.table, of.among, both_ways=True)),
    "directed": Loss(lambda vectors, of: contrastive(vectors, of.table, of.among)),
    "popular": Loss(lambda vectors, of: contrastive(vectors, of.table, of.among, expected=of.expected)),
    "triplet": Loss(
        lambda vectors, of: triplet(vectors, of.table, of.margin), compares_candidates=False, needs_negatives=True
    ),
}


def distillation(vectors: Tensor, table: Tensor, among: Candidates, teacher: Tensor, scale: float = SCALE) -> Tensor:
    """Kullback–Leibler divergence of the choice among candidates from the teacher's; false negatives need no mask.

    `teacher` (distinct texts, d) are its unit vectors.
    """
    import torch

    def choice(points: Tensor) -> Tensor:
        return torch.log_softmax(points[table[:, 0]].float() @ points[among.places].float().T * scale, dim=1)

    return torch.nn.functional.kl_div(choice(vectors), choice(teacher), reduction="batchmean", log_target=True)


def targets(taught: Tensor, own: Tensor) -> Tensor:
    """Where the vectors of the teachers, joined (texts, any width), lie in the space of a model: unit (texts, d).

    Their principal axes, as many as the model has dimensions, turned so that the targets lie as close as possible to
    the model's own vectors (texts, d): distances between targets are those of the teachers, and the model has the
    shortest way. Zero rows stay zero.
    """
    import torch

    used = taught.any(dim=1).nonzero()[:, 0]
    chosen = torch.randperm(len(used), generator=torch.Generator().manual_seed(0))[:SAMPLE].to(used.device)
    sample = taught[used[chosen]].float()
    axes = torch.linalg.svd(sample.T @ sample)[2][: own.shape[1]].T
    turned, _, onto = torch.linalg.svd(axes.T @ sample.T @ own[used[chosen]].float(), full_matrices=False)
    axes = axes @ turned @ onto
    placed = torch.zeros_like(own)
    for rows in used.split(SAMPLE):
        placed[rows] = torch.nn.functional.normalize(taught[rows].float() @ axes, dim=1).to(own.dtype)
    return placed


def displacement(vectors: Tensor, wanted: Tensor, scale: float = TARGET_SCALE) -> Tensor:
    """How far unit vectors are from where they should be: one minus the cosine, scaled."""
    return scale * (1 - (vectors.float() * wanted).sum(dim=1)).mean()


# ---------------------------------------------------------------- Matryoshka


def cut_lengths(dimensions: Sequence[float], full: int) -> list[int]:
    """Lengths to which vectors are cut, longest first; numbers up to 1 are fractions of the whole."""
    lengths = sorted({round(length * full) if length <= 1 else int(length) for length in dimensions}, reverse=True)
    for length in lengths:
        if not 1 <= length <= full:
            raise ConfigError(f"vectors of {full} dimensions cannot be cut to {length}")
    return lengths or [full]


def shortened(vectors: Tensor, dimension: int) -> Tensor:
    """The first coordinates, as unit vectors."""
    import torch

    return torch.nn.functional.normalize(vectors[:, :dimension].float(), dim=1)
