"""What a model or job was trained on: hashes of passages and queries, grouped by the split they were mined under."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.files import writing
from lemmata.corpus.split import Keys


class Trained(NamedTuple):
    """The training data that was mined under one split."""

    split: str  # digest
    seed: int
    method: str
    passages: Keys  # hashes of ids, ascending
    queries: Keys  # hashes of normalised texts, ascending


def write_trained(folder: Path, records: Iterable[Trained]) -> None:
    """Write the records into the folder of a model or job; records of the same split are merged."""
    merged: dict[str, Trained] = {}
    for record in records:
        former = merged.get(record.split, record)
        merged[record.split] = record._replace(
            passages=np.union1d(former.passages, record.passages), queries=np.union1d(former.queries, record.queries)
        )
    arrays = [keys for record in merged.values() for keys in (record.passages, record.queries)]
    with writing(folder / "trained.npy") as file, file.open("wb") as stream:
        np.save(stream, np.concatenate([np.zeros(0, np.uint64), *arrays]))
    with writing(folder / "trained.json") as file:
        file.write_text(json.dumps(summary(list(merged.values())), indent=1) + "\n", "utf-8")


def summary(records: Sequence[Trained]) -> list[dict[str, Any]]:
    """Splits and counts, without the hashes."""
    return [
        {**record._asdict(), "passages": len(record.passages), "queries": len(record.queries)} for record in records
    ]


def read_trained(folder: Path) -> list[Trained]:
    """What the model in a folder was trained on; empty if that was not recorded. `onnx` is a folder in its model's."""
    folder = folder.parent if folder.name == "onnx" else folder
    try:
        facts = json.loads((folder / "trained.json").read_bytes())
        keys = np.load(folder / "trained.npy")
    except (OSError, ValueError):
        return []
    records, start = [], 0
    for fact in facts:
        middle, end = start + fact["passages"], start + fact["passages"] + fact["queries"]
        records.append(Trained(**{**fact, "passages": keys[start:middle], "queries": keys[middle:end]}))
        start = end
    return records
