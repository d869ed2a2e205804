"""One concept as a reader wants to see it."""

from __future__ import annotations

import difflib
from typing import Any

from lemmata.errors import LemmataError
from lemmata.store.files import Layout
from lemmata.store.graph import GraphRecordStore, concept_passages, open_graph

__all__ = ["describe"]


def describe(layout: Layout, identity: str) -> dict[str, Any]:
    """Its names, its relations to other concepts with who says so, and the passages that speak of it.

    One that was merged away is told of as the one that stands for it. LemmataError where there is none.
    """
    stored = open_graph(layout)
    identity = stored.merged.get(identity, identity)
    concept = stored.concepts.get(identity)
    if concept is None:
        near = difflib.get_close_matches(identity, stored.concepts, 3, 0.6)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise LemmataError(f"there is no concept {identity!r}{hint}")
    with GraphRecordStore(layout) as records:
        edges = {
            edge
            for edge in records.merged_edges(stored.merged)
            if identity in (edge.source, edge.target)
            and edge.source in stored.concepts
            and edge.target in stored.concepts
        }
    speaking, defining = concept_passages(stored)
    first = [defining[identity]] if identity in defining else []
    others = [passage for passage in speaking.get(identity, []) if passage not in first]
    return {
        "id": identity,
        "name": concept.name,
        "kind": concept.kind,
        "description": concept.description,
        "aliases": list(concept.aliases),
        "edges": [edge._asdict() for edge in sorted(edges)],
        "passages": first + others,
    }
