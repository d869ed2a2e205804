"""lemmata's encoders and retrievers as models of mteb, so that its benchmarks can score them.

    mteb.evaluate(mteb_encoder(encoder), mteb.get_tasks(tasks=["SciFact"]))

Knows the protocols of mteb 2, but no encoder and no index: both are handed in. mteb keeps results on disk by the
name of the model: a model that changed needs another name, or `mteb.evaluate(..., cache=None)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lemmata.errors import InputError, require
from lemmata.types import Encoder, Floats

__all__ = ["mteb_encoder", "mteb_search"]

Ask = Callable[[Sequence[str], int], list[list[tuple[str, float]]]]
Build = Callable[[Sequence[tuple[str, str]]], Ask]


def mteb_encoder(encoder: Encoder, *, name: str | None = None) -> Any:
    """A model that `mteb.evaluate` takes for every task on texts; `name` is the encoder's own where none is given.

    Queries are encoded in the role `query`, all else as `passage`, also the texts of tasks that have no queries.
    """
    meta = _meta(name or encoder.name, embed_dim=encoder.dimension)
    return _Encoder(encoder, meta)


def mteb_search(build: Build, *, name: str) -> Any:
    """A model that `mteb.evaluate` takes for retrieval and reranking, whatever ranks: words, vectors or both.

    `build` gets (id, text) of a corpus, the title before the text, and returns a function from queries and k to
    one list of (id, score) per query, best first, at most k long. That order is what is scored, also where scores
    are equal. For reranking the whole corpus is asked for and the candidates are kept.
    """
    return _Search(build, _meta(name, model_type=[]))


def _meta(name: str, **known: Any) -> Any:
    module = require("mteb", "mteb").models.model_meta
    full = name if "/" in name else f"lemmata/{name}"  # mteb wants an organisation
    known |= {"name": full, "similarity_fn_name": module.ScoringFunction.DOT_PRODUCT}
    return module.ModelMeta.create_empty(known)


class _Encoder:
    """mteb's EncoderProtocol; mteb looks for the methods, not for a base class."""

    def __init__(self, encoder: Encoder, meta: Any) -> None:
        self._encoder = encoder
        self.mteb_model_meta = meta

    def encode(
        self, inputs: Iterable[Mapping[str, Sequence[str]]], *, prompt_type: str | None = None, **_: Any
    ) -> Floats:
        texts = [text for batch in inputs for text in batch["text"]]
        return self._encoder.encode(texts, "query" if prompt_type == "query" else "passage")

    # The vectors are normalised already; mteb's own product gives the tensors that its tasks expect.
    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        return require("mteb.similarity_functions", "mteb").dot_score(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        return require("mteb.similarity_functions", "mteb").pairwise_dot_score(embeddings1, embeddings2)


class _Search:
    """mteb's SearchProtocol."""

    def __init__(self, build: Build, meta: Any) -> None:
        self._build = build
        self._size = 0
        self._ask: Ask | None = None
        self.mteb_model_meta = meta

    def index(self, corpus: Iterable[Mapping[str, Any]], **_: Any) -> None:
        passages = [(row["id"], _joined(row.get("title"), row["text"])) for row in corpus]
        self._size = len(passages)
        self._ask = self._build(passages)

    def search(
        self,
        queries: Iterable[Mapping[str, Any]],
        *,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        assert self._ask is not None, "mteb indexes before it searches"
        rows = list(queries)
        if any(not isinstance(row["text"], str) for row in rows):
            raise InputError("a query that is a conversation can not be searched for: only texts can")
        texts = [_joined(row["text"], row.get("instruction")) for row in rows]
        answers = self._ask(texts, top_k if top_ranked is None else self._size)
        results = {}
        for row, hits in zip(rows, answers, strict=True):
            if top_ranked is not None:
                candidates = set(top_ranked.get(row["id"], ()))
                hits = [hit for hit in hits if hit[0] in candidates][:top_k]
            results[row["id"]] = _falling(row["id"], hits)
        return results


def _joined(*parts: str | None) -> str:
    """As mteb joins them for an encoder, so that all retrievers see the same texts."""
    return " ".join(part for part in parts if part).strip()


def _falling(query: str, hits: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Scores that fall from hit to hit, each lowered as little as that takes.

    trec_eval, which mteb asks, sorts again by score in single precision and puts the greater id first where scores
    are equal; only scores that differ there keep the order of the retriever.
    """
    lowest = np.float32(-np.inf)
    below = np.float32(np.inf)
    scores: dict[str, float] = {}
    for identity, score in hits:
        if identity in scores:
            raise InputError(f"the ranking for the query {query!r} holds {identity!r} twice")
        below = min(np.float32(score), np.nextafter(below, lowest))
        scores[identity] = float(below)
    return scores
