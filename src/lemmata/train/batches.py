"""Which records are trained on together, and the tensors of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.types import Integers
from lemmata.train.job import TokenizedTexts


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

    An epoch shows set i `repeats[i]` times; a fraction is a random sample. The rest at the end of a set is a batch of
    its own only if it is at least half a batch or half the set: few in-batch negatives teach little.
    """
    numbers: list[int] = []
    batches: list[Integers] = []
    for epoch in range(int(np.ceil(epochs))):
        share = min(1.0, epochs - epoch)
        epoch_batches: list[tuple[int, Integers]] = []
        for number, (records, repeat) in enumerate(zip(sets, repeats, strict=True)):
            order = _sampled(len(records), round(len(records) * repeat * share), generator)
            cut = _cut_distinct(records, order, batch) if distinct else _cut(order, batch)
            epoch_batches += [(number, rows) for rows in cut]
        for place in generator.permutation(len(epoch_batches)).tolist():
            numbers.append(epoch_batches[place][0])
            batches.append(epoch_batches[place][1])
    return Plan(np.array(numbers, np.int64), batches)


def _sampled(records: int, size: int, generator: np.random.Generator) -> Integers:
    """`size` rows in random order, each as often as any other, or once more."""
    times = -(-size // records) if records else 0
    rounds = [generator.permutation(records) for _ in range(times)]
    return np.concatenate([np.zeros(0, np.int64), *rounds])[:size]


def _cut(order: Integers, batch: int) -> list[Integers]:
    batches = [order[start : start + batch] for start in range(0, len(order), batch)]
    return [rows for number, rows in enumerate(batches) if not number or len(rows) * 2 >= batch]


def _cut_distinct(records: Integers, order: Integers, batch: int) -> list[Integers]:
    """Batches that hold no anchor or positive twice: a record goes to the first batch that is free of its texts.

    A text of very many records makes short batches at the end, which are dropped. Hard negatives may repeat: they are
    encoded once, and masked for a record whose own text they are.
    """
    batches: list[list[int]] = []
    first_open = 0
    next_batch: dict[int, int] = {}  # text: the first batch that may hold it
    texts = records[:, :2].tolist()
    for record in order.tolist():
        anchor, positive = texts[record]
        place = max(next_batch.get(anchor, 0), next_batch.get(positive, 0), first_open)
        while place < len(batches) and len(batches[place]) == batch:
            place += 1
        if place == len(batches):
            batches.append([])
        batches[place].append(record)
        next_batch[anchor] = next_batch[positive] = place + 1
        while first_open < len(batches) and len(batches[first_open]) == batch:
            first_open += 1
    least = min(batch, len(records)) / 2
    return [np.array(rows, np.int64) for number, rows in enumerate(batches) if len(rows) >= least or not number]


# ---------------------------------------------------------------- tensors


def chunks(texts: TokenizedTexts, numbers: Integers, longest: int, budget: int) -> list[Integers]:
    """Places in `numbers`, texts of similar length together; a chunk is at most `budget` tokens with its padding."""
    lengths = -(-texts.lengths(numbers, longest) // 8) * 8
    order = np.argsort(-lengths, kind="stable")
    parts, start = [], 0
    while start < len(order):
        size = max(1, budget // int(lengths[order[start]]))
        parts.append(order[start : start + size])
        start += size
    return parts


def collate(
    texts: TokenizedTexts, records: Integers, longest: int, budget: int, pad: int, own: slice = slice(None)
) -> dict[str, Any]:
    """A batch of records (b, columns): its distinct texts in chunks, and where each record finds its own.

    `table` (b, columns) holds places among the encoded texts, -1 where a record has fewer negatives; `numbers` are
    the numbers of those texts, the longest first. Only the `own` of them are in the chunks; where there are none, the
    longest one is, so that no process is without gradients.
    """
    import torch

    distinct, inverse = np.unique(records[records >= 0], return_inverse=True)
    order = np.concatenate(chunks(texts, distinct, longest, budget))
    place = np.empty(len(distinct), np.int64)
    place[order] = np.arange(len(distinct))
    table = np.full(records.shape, -1, np.int64)
    table[records >= 0] = place[inverse]
    encoded = distinct[order[own]] if len(order[own]) else distinct[order[:1]]
    padded = [texts.padded(encoded[part], longest, pad) for part in chunks(texts, encoded, longest, budget)]
    return {
        "chunks": [
            {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)} for ids, mask in padded
        ],
        "table": torch.from_numpy(table),
        "numbers": torch.from_numpy(distinct[order]),
    }
