"""The settings of a metric that is learned from links; apart from the network, which loads torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

LOSSES = {"contrast": 1.0, "ranking": 0.5, "smoothness": 0.01, "hierarchy": 0.1}
NEGATIVES = {"hard": 8, "random": 512, "batch": 1}


@dataclass(frozen=True, slots=True)
class MetricStageOptions:
    """How a metric is learned."""

    CHOICES: ClassVar = {"losses": tuple(LOSSES), "negatives": tuple(NEGATIVES)}
    SMALLEST: ClassVar = {"dimension": 4, "rank": 1, "layers": 1, "heads": 1, "hops": 1, "epochs": 1}
    dimension: int = 256  # of the embeddings; a multiple of `heads`
    rank: int = 32  # of the metrics
    layers: int = 3  # of graph attention
    heads: int = 4  # of each layer
    text_start: bool = True  # layers add to the geometry of the vectors; false: plain attention, random weights
    epsilon: float = 1.0  # of the metric LLᵀ + εI; a larger L makes it as small as it should be
    losses: dict[str, float] = field(default_factory=LOSSES.copy)  # their weights; what is not named stays
    negatives: dict[str, int] = field(default_factory=NEGATIVES.copy)  # of an anchor; batch = 0: none of its batch
    hops: int = 2  # links up to which the loss `hierarchy` tells near from far
    rate: float = 1e-3  # learning rate
    epochs: int = 50  # at most; validation ends the training
    always: bool = False  # use the metric even where it does not help

    def loss(self, name: str) -> float:
        return self.losses.get(name, LOSSES[name])

    def negative(self, kind: str) -> int:
        return self.negatives.get(kind, NEGATIVES[kind])
