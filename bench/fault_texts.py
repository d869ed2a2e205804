"""Fault texts to their translation, German and English: MRR@10 of encoders, and their CPU time on a plant's logs.

    python -m bench.fault_texts [--encoders lemmata-mini,lemmata-plant] [--logs 3000]

The texts are recipes/lemmata_plant/validation.tsv, which also chose the step of lemmata-plant. One thread.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from pathlib import Path

import numpy as np
from bench.german import generate

from lemmata.encode.load import load_encoder
from lemmata.types import Floats

TEXTS = Path(__file__).parents[1] / "recipes" / "lemmata_plant" / "validation.tsv"


def reciprocal_rank(queries: Floats, passages: Floats) -> float:
    """The mean over queries; the answer of each has its number."""
    scores = queries @ passages.T
    ranks = (scores > scores.diagonal()[:, None]).sum(axis=1) + 1
    return float(np.where(ranks <= 10, 1 / ranks, 0).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", default="lemmata-mini,lemmata-plant")
    parser.add_argument("--logs", type=int, default=3000)
    arguments = parser.parse_args()
    with TEXTS.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    with tempfile.TemporaryDirectory() as temporary:
        generate(Path(temporary), arguments.logs, 11)
        with (Path(temporary) / "logs.csv").open(encoding="utf-8", newline="") as stream:
            logs = [row["text"] for row in csv.DictReader(stream)]
    for name in arguments.encoders.split(","):
        encoder = load_encoder(name, threads=1)
        german, english = (encoder.encode([row[side] for row in rows]) for side in ("german", "english"))
        begin = time.process_time()
        encoder.encode(logs)
        seconds = time.process_time() - begin
        there, back = reciprocal_rank(german, english), reciprocal_rank(english, german)
        print(
            f"{name}: {len(rows)} texts, {there:.3f} and {back:.3f}; {len(logs):,} logs in {seconds:.1f} s of CPU time"
        )


if __name__ == "__main__":
    main()
