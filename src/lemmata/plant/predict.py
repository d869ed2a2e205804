"""All steps of link prediction, in an order in which none reveals to another what it should find."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lemmata.core.types import Document, Edge, Passage, Skip
from lemmata.plant.entities import EntityLink, learn_entities, link_entities
from lemmata.plant.hierarchy import build_tree
from lemmata.plant.records import learn_records, link_records
from lemmata.plant.scorer import Measures, Restored, measure, restored


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted links, what they add to the graph, and the flaws of the hierarchy."""

    entities: Sequence[EntityLink]
    records: Sequence[Edge]
    restored: dict[str, Restored]  # by relation, and `both`
    flaws: Sequence[Skip]
    held_out: dict[str, Measures]  # by relation: the known links of held-out logs, predicted as if they were unknown


def predict_links(
    logs: Sequence[Passage],
    locations: Sequence[Document],
    rng: np.random.Generator,
    *,
    held_out: Container[str] = (),
) -> Prediction:
    """Links from logs to locations, and from logs to earlier logs, learned separately.

    Record linking gets locations that were predicted without `related_to` links. Otherwise a log would have the
    location of the log it follows up only because that link is known, and this is what the scorer would learn.
    Predicted follow-ups are not used to link locations: measured, and worse. Nothing is learned from the links of
    logs that are `held_out`; where such a log knows a location, only what it lacks is predicted, as for all others.
    """
    tree = build_tree(locations)
    trained = [_learnable(log, held_out) for log in logs]
    unrelated = [_without(log, "related_to") for log in logs]
    places = {log.id: [link.target for link in log.links if link.target] for log in unrelated}
    first = learn_entities([_without(log, "related_to") for log in trained], tree, rng)
    for link in link_entities(first, unrelated):
        places[link.edge.source].append(link.edge.target)
    records = learn_records(logs, tree, places, rng, held_out=held_out)
    entities = learn_entities(trained, tree, rng)
    asked = [log for log in trained if log.id in held_out]
    follow_ups = list(link_records(replace(records, linked=frozenset(records.known)) if asked else records))
    linked = {records.ids[number] for number in records.linked}
    new = [edge for edge in follow_ups if edge.source not in linked]
    entity_links = list(link_entities(entities, logs))
    known = known_edges(logs, locations)
    location_edges = [link.edge for link in entity_links]
    return Prediction(
        entities=entity_links,
        records=new,
        restored={
            "reports_about": restored(location_edges, known),
            "related_to": restored(new, known),
            "both": restored([*location_edges, *new], known),
        },
        flaws=tree.flaws,
        held_out=_measured([*(link.edge for link in link_entities(entities, asked)), *follow_ups], known, held_out)
        if asked
        else {},
    )


def _without(log: Passage, relation: str) -> Passage:
    return replace(log, links=tuple(link for link in log.links if link.relation != relation))


def _learnable(log: Passage, held_out: Container[str]) -> Passage:
    """The log without links that touch a held-out log."""
    links = () if log.id in held_out else tuple(link for link in log.links if link.target not in held_out)
    return replace(log, links=links) if links != log.links else log


def _measured(predicted: Iterable[Edge], known: Iterable[Edge], held_out: Container[str]) -> dict[str, Measures]:
    """Predictions for held-out logs against the links that they know; logs that know none do not count."""
    true: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for edge in known:
        if edge.source in held_out:
            true[edge.relation].add((edge.source, edge.target))
    asked = {relation: {source for source, _ in links} for relation, links in true.items()}
    answers: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for edge in predicted:
        if edge.source in asked.get(edge.relation, ()):
            answers[edge.relation].add((edge.source, edge.target))
    return {relation: measure(answers[relation], links) for relation, links in sorted(true.items())}


def known_edges(logs: Sequence[Passage], locations: Sequence[Document]) -> list[Edge]:
    """The resolved links of a plant."""
    records: list[Passage | Document] = [*logs, *locations]
    return [Edge(record.id, link.relation, link.target) for record in records for link in record.links if link.target]
