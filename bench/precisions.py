"""What an int8 export loses against fp32: size, drift and validation MRR@10.

    python bench/precisions.py MODEL_FOLDER WORKSPACE QUERIES.tsv … [--passages 1200]

The queries search a random sample of the workspace's passages that includes their answers.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path

import numpy as np

from lemmata.encode.bert import PRECISIONS
from lemmata.encode.export import export_encoder
from lemmata.encode.onnx import OnnxEncoder
from lemmata.ingest.beir import read_table
from lemmata.measures import evaluate, judged, parse_measure
from lemmata.store.corpus import Corpus
from lemmata.store.layout import Layout
from lemmata.types import Encoder

DRIFT_PASSAGES = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("queries", type=Path, nargs="+")
    parser.add_argument("--passages", type=int, default=1200)
    arguments = parser.parse_args()
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for file in arguments.queries:
        texts, answers = read_table(file)
        queries |= {f"{file.name}:{key}": text for key, text in texts.items()}
        qrels |= {f"{file.name}:{key}": grades for key, grades in answers.items()}
    with contextlib.closing(Corpus(Layout(arguments.workspace))) as corpus:
        ids, contents = corpus.ids(), list(corpus.contents())
    relevant = {identity for grades in qrels.values() for identity in grades}
    others = [row for row, identity in enumerate(ids) if identity not in relevant]
    sample = np.random.default_rng(0).permutation(others)[: max(0, arguments.passages - len(relevant))].tolist()
    rows = sorted([*sample, *(row for row, identity in enumerate(ids) if identity in relevant)])
    position = {ids[row]: number for number, row in enumerate(rows)}
    passages = [contents[row] for row in rows]
    truth, measure = judged(qrels, position.__getitem__), parse_measure("MRR@10")

    def score(encoder: Encoder) -> float:
        scores = encoder.encode(list(queries.values()), role="query") @ encoder.encode(passages).T
        ranked = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        return float(evaluate(ranked, truth, [measure])[str(measure)].mean())

    print(f"{len(queries)} queries, {len(passages):,} passages")
    with tempfile.TemporaryDirectory() as folder:
        for precision in PRECISIONS:
            out = Path(folder, precision)
            drift = export_encoder(arguments.model, out, precision, texts=passages[:DRIFT_PASSAGES], force=True)
            size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
            cosines = f"mean cosine {drift.mean_cosine:.5f}, smallest {drift.least_cosine:.5f}"
            print(f"{precision:12} {size:6.1f} MB  {cosines}  MRR@10 {score(OnnxEncoder(out)):.4f}")


if __name__ == "__main__":
    main()
