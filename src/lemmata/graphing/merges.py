"""Merges of concepts, to look at and to decide."""

from __future__ import annotations

import contextlib
from typing import Any

from lemmata.errors import LemmataError
from lemmata.graph.merge import Merge, decide, propose
from lemmata.graphing.compress import compress, united
from lemmata.store.corpus import Corpus
from lemmata.store.files import Layout
from lemmata.store.graph import GraphRecordStore
from lemmata.types import Encoder, Progress

__all__ = ["decide_merge", "merges"]


def merges(layout: Layout, encoder: Encoder | None = None) -> list[Merge]:
    """Every merge that was proposed or decided, with its reason and what became of it.

    With an encoder, concepts whose names are alike to it are proposed too, as candidates.
    """
    with GraphRecordStore(layout) as records:
        concepts = united(records.concepts())
        vectors = None if encoder is None else encoder.encode([concept.name for concept in concepts], role="query")
        return decide(propose(concepts, list(records.edges()), vectors=vectors), records.verdicts())


def decide_merge(layout: Layout, kept: str, gone: str, verdict: str | None, progress: Progress) -> dict[str, Any]:
    """Accept or reject a merge, or take a verdict back with None; the graph is compressed anew."""
    with layout.hold(), contextlib.closing(Corpus(layout)) as corpus, GraphRecordStore(layout) as records:
        known = {concept.id for concept in records.concepts()}
        for identity in (kept, gone):
            if identity not in known:
                raise LemmataError(f"there is no concept {identity!r}")
        records.decide(kept, gone, verdict)
        return compress(layout, corpus, records, progress)
