"""The cross-encoders that read the first hits of a retriever again: which one a name means, and what it counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.errors import WorkspaceError
from lemmata.core.types import CrossEncoder, Floats, Integers
from lemmata.core.workspace import Workspace, open_manifest, read_manifests
from lemmata.corpus.corpus import Corpus
from lemmata.encode.cross import load_cross_encoder
from lemmata.search.encoder_index import LONGEST_QUERY

_WEIGHT = 0.5  # of a cross-encoder, until validation chose another


def trained_rerankers(models: Path) -> list[str]:
    """The names of those in a folder of models."""
    return [name for name, manifest in read_manifests(models).items() if manifest.get("verb") == "reranker"]


class Rerankers:
    """The cross-encoders of a workspace, each opened at its first use; without a name, the last that was trained."""

    def __init__(self, workspace: Workspace, corpus: Corpus) -> None:
        self._workspace, self._corpus = workspace, corpus
        self._opened: dict[str, CrossEncoder] = {}

    def open(self, model: str = "") -> CrossEncoder:
        model = self.name(model)
        if model not in self._opened:
            self._opened[model] = load_cross_encoder(model, models=self._workspace.models_folder)
        return self._opened[model]

    def name(self, model: str = "") -> str:
        """The name as it was given, or that of the one that was trained last."""
        names = [model] if model else trained_rerankers(self._workspace.models_folder)
        if not names:
            raise WorkspaceError(
                "there is no reranker yet: run 'lemmata train reranker', or name a model: dense+rerank:MODEL"
            )
        manifest, model_of = self._workspace.manifest, self._workspace.model
        return model or max(names, key=lambda name: manifest(model_of(name)).stat().st_mtime_ns)

    def weight(self, retriever: str, model: str = "") -> float:
        """What it counts behind a retriever, as validation chose it, or the default."""
        return float((self.chosen_weight(retriever, model) or {"weight": _WEIGHT})["weight"])

    def chosen_weight(self, retriever: str, model: str = "") -> dict[str, Any] | None:
        """How its weight was chosen: behind this retriever or, if never, last behind another."""
        chosen = (
            open_manifest(self._workspace.rerank, "delete it, or choose again with 'lemmata evaluate --tune'") or {}
        )
        reranker = self.open(model).name
        weights = [each for each in chosen.get("weights", {}).values() if each["reranker"] == reranker]
        weights.sort(key=lambda each: each["retriever"] == retriever)  # stable: the last one chosen stays behind
        return weights[-1] if weights else None

    def scores(self, texts: Sequence[str], rows: Integers, model: str = "") -> Floats:
        """Scores (n, k) of the passages in `rows` for each query; -inf where there is no hit."""
        places = np.argwhere(rows >= 0)
        needed = np.unique(rows[rows >= 0]).tolist()
        contents = {row: passage.content for row, passage in zip(needed, self._corpus.passages(needed), strict=True)}
        pairs = [(texts[query][:LONGEST_QUERY], contents[int(rows[query, place])]) for query, place in places.tolist()]
        scores = np.full(rows.shape, -np.inf, np.float32)
        scores[places[:, 0], places[:, 1]] = self.open(model).score(pairs)
        return scores
