"""What an encoder loses when its weights are packed: size, drift and validation MRR@10 of every precision.

    python bench/precisions.py MODEL_FOLDER WORKSPACE QUERIES.tsv … [--passages 1200]

The queries look for their passages among so many of the workspace's, drawn at random.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path

import numpy as np

from lemmata.encode.export import choose, precisions
from lemmata.ingest.beir import read_table
from lemmata.measures import evaluate, judged, parse_measure
from lemmata.store.corpus import Corpus
from lemmata.store.layout import Layout
from lemmata.types import Encoder

SHOWN = 200  # passages on which the drift is measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("queries", type=Path, nargs="+")
    parser.add_argument("--passages", type=int, default=1200)
    told = parser.parse_args()
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for file in told.queries:
        texts, answers = read_table(file)
        queries |= {f"{file.name}:{key}": text for key, text in texts.items()}
        qrels |= {f"{file.name}:{key}": grades for key, grades in answers.items()}
    with contextlib.closing(Corpus(Layout(told.workspace))) as corpus:
        ids, contents = corpus.ids(), list(corpus.contents())
    needed = {identity for grades in qrels.values() for identity in grades}
    others = [row for row, identity in enumerate(ids) if identity not in needed]
    drawn = np.random.default_rng(0).permutation(others)[: max(0, told.passages - len(needed))].tolist()
    rows = sorted([*drawn, *(row for row, identity in enumerate(ids) if identity in needed)])
    place = {ids[row]: number for number, row in enumerate(rows)}
    passages = [contents[row] for row in rows]
    truth, measure = judged(qrels, place.__getitem__), parse_measure("MRR@10")

    def score(encoder: Encoder) -> float:
        scores = encoder.encode(list(queries.values()), role="query") @ encoder.encode(passages).T
        ranked = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        return float(evaluate(ranked, truth, [measure])[str(measure)].mean())

    with tempfile.TemporaryDirectory() as folder:
        table = precisions(told.model, Path(folder) / "exports", passages[:SHOWN], score, name=told.model.name)
        print(f"{len(queries)} queries, {len(passages):,} passages")
        for one in table:
            drift = f"mean cosine {one.mean_cosine:.5f}, smallest {one.least_cosine:.5f}"
            print(f"{one.precision:12} {one.bytes / 1e6:6.1f} MB  {drift}  MRR@10 {one.score:.4f}  {one.share:.1%}")
        print("chosen:", choose(table).precision)


if __name__ == "__main__":
    main()
