"""Predicted links that somebody confirmed.

They are kept like an imported graph named `confirmed`: builds and new predictions leave them alone.
"""

from __future__ import annotations

from typing import Any

from lemmata.core.errors import LemmataError
from lemmata.core.types import Edge
from lemmata.core.workspace import Workspace
from lemmata.graph.store import IMPORT, GraphRecordStore
from lemmata.plant.link import PREDICTED

CONFIRMED = "confirmed"  # the name of the import


def confirm_link(
    workspace: Workspace, source: str, relation: str, target: str, *, confirmed: bool = True
) -> dict[str, Any]:
    """Confirm a predicted link, or take that back; LemmataError for one that is not predicted, or not confirmed.

    The next `lemmata graph build` takes it into the graph, which has the predicted link anyway.
    """
    triple = (source, relation, target)
    with workspace.hold(), GraphRecordStore(workspace) as records:
        kept = {edge[:3]: edge for edge in records.edges_from(IMPORT + CONFIRMED)}
        if not confirmed:
            if kept.pop(triple, None) is None:
                raise LemmataError(f"nobody confirmed that {source} {relation} {target}")
        elif triple in kept:
            pass
        elif any(edge[:3] == triple for edge in records.edges_of(source, PREDICTED)):
            kept[triple] = Edge(*triple, evidence=source, maker=CONFIRMED)
        else:
            raise LemmataError(f"it is not predicted that {source} {relation} {target}: run 'lemmata graph link'")
        if kept:
            records.replace(IMPORT + CONFIRMED, edges=kept.values())
        else:
            with records.transaction():
                records.remove(IMPORT + CONFIRMED)
        records.note_checksum()
    return {"source": source, "relation": relation, "target": target, "confirmed": confirmed}


def confirmed_links(records: GraphRecordStore | None) -> list[Edge]:
    """All links that were confirmed; none without a graph."""
    return list(records.edges_from(IMPORT + CONFIRMED)) if records else []
