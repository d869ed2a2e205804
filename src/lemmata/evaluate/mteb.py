"""Encoders and retrievers as models of mteb 2, so that its benchmarks can score them.

    mteb.evaluate(mteb_encoder(encoder), mteb.get_tasks(tasks=["SciFact"]))

mteb caches results by the name of the model: use another name for a changed model, or `mteb.evaluate(..., cache=None)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lemmata.errors import InputError, require
from lemmata.evaluate.runs import strictly_falling
from lemmata.types import Encoder, Floats

__all__ = ["mteb_encoder", "mteb_search"]

Search = Callable[[Sequence[str], int], list[list[tuple[str, float]]]]
BuildIndex = Callable[[Sequence[tuple[str, str]]], Search]


def mteb_encoder(encoder: Encoder, *, name: str = "") -> Any:
    """A model for all text tasks of mteb; queries are encoded in the role `query`, all else as `passage`."""
    return _Encoder(encoder, _meta(name or encoder.name, embed_dim=encoder.dimension))


def mteb_search(build: BuildIndex, *, name: str) -> Any:
    """A model for the retrieval and reranking tasks of mteb.

    `build` gets (id, text) of a corpus and returns a function from queries and k to at most k (id, score) per
    query, best first. This order is scored, also where scores are equal. Reranking ranks the whole corpus and
    keeps the candidates.
    """
    return _Search(build, _meta(name, model_type=[]))


def _meta(name: str, **fields: Any) -> Any:
    module = require("mteb", "mteb").models.model_meta
    full_name = name if "/" in name else f"lemmata/{name}"  # mteb requires an organisation
    fields |= {"name": full_name, "similarity_fn_name": module.ScoringFunction.DOT_PRODUCT}
    return module.ModelMeta.create_empty(fields)


class _Encoder:
    """mteb's EncoderProtocol; mteb checks for the methods, not for a base class."""

    def __init__(self, encoder: Encoder, meta: Any) -> None:
        self._encoder = encoder
        self.mteb_model_meta = meta

    def encode(
        self, inputs: Iterable[Mapping[str, Sequence[str]]], *, prompt_type: str | None = None, **_: Any
    ) -> Floats:
        texts = [text for batch in inputs for text in batch["text"]]
        return self._encoder.encode(texts, "query" if prompt_type == "query" else "passage")

    # The vectors are normalised; mteb's own functions return the tensors that its tasks expect.
    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        return require("mteb.similarity_functions", "mteb").dot_score(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        return require("mteb.similarity_functions", "mteb").pairwise_dot_score(embeddings1, embeddings2)


class _Search:
    """mteb's SearchProtocol; mteb calls `index` before `search`."""

    def __init__(self, build: BuildIndex, meta: Any) -> None:
        self._build = build
        self.mteb_model_meta = meta

    def index(self, corpus: Iterable[Mapping[str, Any]], **_: Any) -> None:
        passages = [(row["id"], _joined(row.get("title"), row["text"])) for row in corpus]
        self._size = len(passages)
        self._search = self._build(passages)

    def search(
        self,
        queries: Iterable[Mapping[str, Any]],
        *,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        rows = list(queries)
        if any(not isinstance(row["text"], str) for row in rows):
            raise InputError("a query that is a conversation cannot be searched: only texts can")
        texts = [_joined(row["text"], row.get("instruction")) for row in rows]
        rankings = self._search(texts, top_k if top_ranked is None else self._size)
        results = {}
        for row, hits in zip(rows, rankings, strict=True):
            if top_ranked is not None:
                candidates = set(top_ranked.get(row["id"], ()))
                hits = [hit for hit in hits if hit[0] in candidates][:top_k]
            results[row["id"]] = strictly_falling(row["id"], hits)
        return results


def _joined(*parts: str | None) -> str:
    """Joined as mteb does it for an encoder, so that all retrievers see the same texts."""
    return " ".join(part for part in parts if part).strip()
