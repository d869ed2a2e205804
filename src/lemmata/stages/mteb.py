"""Run tasks of mteb on an encoder and on BM25, with data from the hub or from BEIR folders."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.encode.load import load_encoder
from lemmata.errors import ConfigError, require
from lemmata.evaluate.mteb import evaluate_task, local_task, mteb_encoder, mteb_search, named_task
from lemmata.index.lexical import LexicalIndex
from lemmata.ingest.beir import read_corpus, read_judged
from lemmata.store.layout import Layout
from lemmata.types import Encoder, Floats, Progress

__all__ = ["run_mteb"]

_BATCH = 512  # texts encoded between two signs of progress
RETRIEVERS = ("dense", "lexical")


def run_mteb(
    layout: Layout,
    tasks: Sequence[str],
    encoder: str,
    progress: Progress,
    *,
    retrievers: Sequence[str] = ("dense",),
    key: str = "",
) -> list[dict[str, Any]]:
    """The scores of each task and retriever, as mteb computes them.

    A task is a name of mteb (`SciFact`, data from the hub), a BEIR folder, or both (`SciFact=DIR`: mteb's task with the
    data of the folder). `dense` is the encoder, `lexical` is BM25, for retrieval tasks only.
    """
    unknown = [name for name in retrievers if name not in RETRIEVERS]
    if unknown:
        raise ConfigError(f"mteb runs the retrievers {', '.join(RETRIEVERS)}, not {', '.join(unknown)}")
    require("datasets", "mteb").disable_progress_bars()  # ours are enough
    records = []
    with tempfile.TemporaryDirectory() as folder:
        models = {}
        for name in retrievers:
            if name == "dense":
                loaded = load_encoder(encoder, key=key, cache=layout.encodings, models=layout.models)
                models[encoder] = mteb_encoder(_Encoder(loaded, progress))
            else:
                models["BM25"] = mteb_search(_lexical(Path(folder)), name="BM25")
        for spec in tasks:
            progress(f"reading {spec}", 0, None)
            task = _task(spec)
            for name, model in models.items():
                records += [{"retriever": name, **record} for record in evaluate_task(model, task)]
    return records


def _task(spec: str) -> Any:
    name, separator, place = spec.partition("=")
    folder = Path(place if separator else spec)
    if not separator and not folder.is_dir():
        return named_task(name)
    queries, qrels = read_judged(folder)
    corpus = list(read_corpus(folder))
    judged = {query: grades for query, grades in qrels.items() if query in queries}
    return local_task(folder.resolve().name, corpus, queries, judged, like=name if separator else "")


class _Encoder:
    """An encoder that says how far it is."""

    def __init__(self, encoder: Encoder, progress: Progress) -> None:
        self.name = encoder.name
        self.dimension = encoder.dimension
        self._encoder = encoder
        self._progress = progress

    def encode(self, texts: Sequence[str], role: str = "passage") -> Floats:
        parts = [np.zeros((0, self.dimension), np.float32)]
        for start in range(0, len(texts), _BATCH):
            self._progress("encoding", start, len(texts))
            parts.append(self._encoder.encode(texts[start : start + _BATCH], role))
        return np.concatenate(parts)


def _lexical(folder: Path) -> Callable[[Sequence[tuple[str, str]]], Any]:
    """BM25 as `mteb_search` takes it; each index gets a folder of its own."""
    numbers = count()

    def build(passages: Sequence[tuple[str, str]]) -> Any:
        ids = [identity for identity, _ in passages]
        index = LexicalIndex.build([text for _, text in passages], folder / str(next(numbers)))

        def search(queries: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
            rows, scores = index.search(queries, k)
            return [
                [(ids[row], score) for row, score in zip(ranking, values, strict=True) if row >= 0]
                for ranking, values in zip(rows.tolist(), scores.tolist(), strict=True)
            ]

        return search

    return build
