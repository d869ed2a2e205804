"""All steps of link prediction, in an order in which none reveals to another what it should find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lemmata.plant.entities import EntityLink, learn_entities, link_entities
from lemmata.plant.hierarchy import build_tree
from lemmata.plant.records import learn_records, link_records
from lemmata.plant.scorer import Restored, restored
from lemmata.types import Document, Edge, Passage, Skip

__all__ = ["Prediction", "known_edges", "predict_links"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted links, what they add to the graph, and the flaws of the hierarchy."""

    entities: Sequence[EntityLink]
    records: Sequence[Edge]
    restored: dict[str, Restored]  # by relation, and `both`
    flaws: Sequence[Skip]


def predict_links(
    logs: Sequence[Passage], locations: Sequence[Document], rng: np.random.Generator, *, window_days: float = 14.0
) -> Prediction:
    """Links from logs to locations, and from logs to earlier logs, learned separately.

    Record linking gets locations that were predicted without `related_to` links. Otherwise a log would have the
    location of the log it follows up only because that link is known, and this is what the scorer would learn.
    Predicted follow-ups are not used to link locations: measured, and worse.
    """
    tree = build_tree(locations)
    unrelated = [replace(log, links=tuple(link for link in log.links if link.relation != "related_to")) for log in logs]
    places = {log.id: [link.target for link in log.links if link.target] for log in unrelated}
    for link in link_entities(learn_entities(unrelated, tree, rng), unrelated):
        places[link.edge.source].append(link.edge.target)
    records = list(link_records(learn_records(logs, tree, places, rng, window_days=window_days)))
    entities = list(link_entities(learn_entities(logs, tree, rng), logs))
    known = known_edges(logs, locations)
    about = [link.edge for link in entities]
    return Prediction(
        entities=entities,
        records=records,
        restored={
            "reports_about": restored(about, known),
            "related_to": restored(records, known),
            "both": restored([*about, *records], known),
        },
        flaws=tree.flaws,
    )


def known_edges(logs: Sequence[Passage], locations: Sequence[Document]) -> list[Edge]:
    """The resolved links of a plant."""
    records: list[Passage | Document] = [*logs, *locations]
    return [Edge(record.id, link.relation, link.target) for record in records for link in record.links if link.target]
