"""All steps of link prediction in the order in which none tells another what it should find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lemmata.plant.entities import EntityLink, learn_entities, link_entities
from lemmata.plant.hierarchy import build_tree, check_hierarchy
from lemmata.plant.records import learn_records, link_records
from lemmata.plant.scorer import Restored, restored
from lemmata.types import Document, Edge, Floats, Passage, Skip

__all__ = ["Prediction", "known_edges", "predict_links"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted links, what they add to the graph, and what was wrong with the hierarchy."""

    entities: Sequence[EntityLink]
    records: Sequence[Edge]
    restored: dict[str, Restored]  # by relation, and `both`
    skips: Sequence[Skip]


def predict_links(
    logs: Sequence[Passage],
    locations: Sequence[Document],
    rng: np.random.Generator,
    *,
    window_days: float = 14.0,
    vectors: Floats | None = None,
) -> Prediction:
    """Links to locations, and links between logs, which are learned apart.

    Record linking gets places that were predicted without `related_to` links. Otherwise a log would have the
    place of the log it is known to follow up, just because that is known, and this would be what is learned.
    Predicted follow-ups are not used to link locations: tried, and measured to be worse.
    """
    tree = build_tree(locations)
    apart = [replace(log, links=tuple(link for link in log.links if link.relation != "related_to")) for log in logs]
    first = learn_entities(apart, tree, rng)
    places = {log.id: [link.target for link in log.links if link.target] for log in apart}
    for found in link_entities(first, apart):
        places[found.edge.source].append(found.edge.target)
    records = list(link_records(learn_records(logs, tree, places, rng, window_days=window_days, vectors=vectors)))
    entities = list(link_entities(learn_entities(logs, tree, rng), logs))
    known = known_edges(logs, locations)
    about = [found.edge for found in entities]
    return Prediction(
        entities=entities,
        records=records,
        restored={
            "reports_about": restored(about, known),
            "related_to": restored(records, known),
            "both": restored([*about, *records], known),
        },
        skips=check_hierarchy(locations),
    )


def known_edges(logs: Sequence[Passage], locations: Sequence[Document]) -> list[Edge]:
    """The resolved links of a plant."""
    records: list[Passage | Document] = [*logs, *locations]
    return [Edge(record.id, link.relation, link.target) for record in records for link in record.links if link.target]
