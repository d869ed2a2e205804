"""Which records are trained on together, and how a batch looks to a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lemmata.train.job import TokenizedTexts
from lemmata.types import Integers

__all__ = ["Plan", "chunks", "collate", "plan"]


class Plan(NamedTuple):
    """All batches of a training run, in order; a batch is of one set."""

    sets: Integers  # (batches,) number of the set
    records: Sequence[Integers]  # of each batch, rows of that set

    def __len__(self) -> int:
        return len(self.records)


def plan(
    sets: Sequence[Integers],
    repeats: Sequence[float],
    epochs: float,
    batch: int,
    generator: np.random.Generator,
    *,
    distinct: bool = True,
) -> Plan:
    """Shuffle each set, cut it into batches that hold no text twice (`distinct`), and shuffle the batches.

    An epoch shows set i `repeats[i]` times; parts of a time are a random choice. What is left at the end of a set
    is a batch of its own only if it is at least half a batch or half the set: few negatives teach little.
    """
    numbers: list[int] = []
    batches: list[Integers] = []
    for epoch in range(int(np.ceil(epochs))):
        share = min(1.0, epochs - epoch)
        made: list[tuple[int, Integers]] = []
        for number, (records, repeat) in enumerate(zip(sets, repeats, strict=True)):
            wanted = round(len(records) * repeat * share)
            order = _drawn(len(records), wanted, generator)
            cut = _without_doubles(records, order, batch) if distinct else _in_order(order, batch)
            made += [(number, one) for one in cut]
        for place in generator.permutation(len(made)).tolist():
            numbers.append(made[place][0])
            batches.append(made[place][1])
    return Plan(np.array(numbers, np.int64), batches)


def _drawn(count: int, wanted: int, generator: np.random.Generator) -> Integers:
    """So many of the records, each as often as any other, or once more."""
    times = -(-wanted // count) if count else 0
    rounds = [generator.permutation(count) for _ in range(times)]
    return np.concatenate([np.zeros(0, np.int64), *rounds])[:wanted]


def _in_order(order: Integers, batch: int) -> list[Integers]:
    made = [order[start : start + batch] for start in range(0, len(order), batch)]
    return [one for number, one in enumerate(made) if not number or len(one) * 2 >= batch]


def _without_doubles(records: Integers, order: Integers, batch: int) -> list[Integers]:
    """Batches in which no anchor or positive stands twice; a record that would goes to the next one that is free.

    A text of very many records so makes short batches at the end, which are left out. Hard negatives may repeat:
    they are encoded once and are no negative of a record whose text they are.
    """
    made: list[list[int]] = []
    free = 0  # the first batch that is not full
    next_of: dict[int, int] = {}  # text: the first batch that may hold it
    texts = records[:, :2].tolist()
    for record in order.tolist():
        anchor, positive = texts[record]
        place = max(next_of.get(anchor, 0), next_of.get(positive, 0), free)
        while place < len(made) and len(made[place]) == batch:
            place += 1
        if place == len(made):
            made.append([])
        made[place].append(record)
        next_of[anchor] = next_of[positive] = place + 1
        while free < len(made) and len(made[free]) == batch:
            free += 1
    enough = min(batch, len(records)) / 2
    return [np.array(one, np.int64) for number, one in enumerate(made) if len(one) >= enough or not number]


# ---------------------------------------------------------------- what a model is shown


def chunks(texts: TokenizedTexts, numbers: Integers, longest: int, budget: int) -> list[Integers]:
    """Places in `numbers`, texts of like length together, so that no chunk is wider than `budget` tokens in all."""
    lengths = -(-texts.lengths(numbers, longest) // 8) * 8
    order = np.argsort(-lengths, kind="stable")
    made, start = [], 0
    while start < len(order):
        size = max(1, budget // int(lengths[order[start]]))
        made.append(order[start : start + size])
        start += size
    return made


def collate(texts: TokenizedTexts, records: Integers, longest: int, budget: int, pad: int) -> dict[str, Any]:
    """A batch (b, columns) for the trainer: distinct texts in chunks, and where each record finds its own.

    `table` (b, columns) holds places among the encoded texts, -1 where a record has fewer negatives; `numbers`
    the numbers of those texts.
    """
    import torch

    distinct, inverse = np.unique(records[records >= 0], return_inverse=True)
    parts = chunks(texts, distinct, longest, budget)
    order = np.concatenate(parts)
    place = np.empty(len(distinct), np.int64)
    place[order] = np.arange(len(distinct))
    table = np.full(records.shape, -1, np.int64)
    table[records >= 0] = place[inverse]
    shown = [texts.padded(distinct[part], longest, pad) for part in parts]
    return {
        "chunks": [
            {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)} for ids, mask in shown
        ],
        "table": torch.from_numpy(table),
        "numbers": torch.from_numpy(distinct[order]),
    }


def weights(names: Sequence[str], repeats: Mapping[str, float]) -> list[float]:
    """How often an epoch shows each set; those that are not named, once."""
    return [float(repeats.get(name, 1.0)) for name in names]
