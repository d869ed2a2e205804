"""Records about one thing in an opened workspace: a passage, a concept, its place in the graph, an outline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from lemmata.errors import LemmataError, WorkspaceError
from lemmata.server.mathml import to_html
from lemmata.server.opened import Opened
from lemmata.server.records import bibtex, document_record, latex_reference, neighbour_record
from lemmata.store.graph import GraphRecordStore
from lemmata.store.summaries import open_summaries
from lemmata.types import INSERTED, Hit, Passage

__all__ = ["UnknownIdError", "facets", "neighbours", "passage", "passage_of"]

_MOST_NEIGHBOURS = 200
_MOST_VALUES = 50  # of a facet
_MENTIONS = ("mentions", "defines")


class UnknownIdError(LemmataError):
    """An id that the workspace does not have."""


# ---------------------------------------------------------------- facets


def facets(opened: Opened, hits: Sequence[Hit]) -> dict[str, list[dict[str, Any]]]:
    """How many of the hits have each kind, document, category, location and year, the most frequent first."""
    counts: dict[str, Counter[str]] = {
        name: Counter() for name in ("kinds", "documents", "categories", "locations", "years")
    }
    for hit in hits:
        if (found := hit.passage) is None:
            continue
        document = opened.document(found.document)
        counts["kinds"][found.kind] += 1
        counts["documents"][found.document] += 1
        counts["categories"].update(document.categories)
        counts["locations"].update(found.locations)
        if date := found.date or document.date:
            counts["years"][date[:4]] += 1
    return {
        name: [{"value": value, "count": count} for value, count in counter.most_common(_MOST_VALUES)]
        for name, counter in counts.items()
    }


# ---------------------------------------------------------------- passages


def passage_of(opened: Opened, identity: str) -> Passage:
    """The passage of an id; UnknownIdError where there is none."""
    corpus = opened.retriever.corpus
    try:
        return corpus[corpus.row(identity)]
    except KeyError:
        raise UnknownIdError(f"there is no passage {identity!r}: search for it, or look into the outline") from None


def passage(opened: Opened, identity: str) -> dict[str, Any]:
    """Everything about a passage; a list of neighbours holds 200 at most."""
    corpus = opened.retriever.corpus
    found = passage_of(opened, identity)
    row = corpus.row(identity)
    document = opened.document(found.document)
    beside = [corpus[other] if 0 <= other < len(corpus) else None for other in (row - 1, row + 1)]
    previous, following = (
        other.id if other is not None and other.document == found.document else None for other in beside
    )
    links = {link.target: link.relation for link in found.links if link.target}
    referring = {source: relation for source, relation in corpus.referring(identity) if source != identity}
    earlier, later = _logs_beside(opened, found)
    return {
        "id": found.id,
        "kind": found.kind,
        "title": found.title,
        "text": found.text,
        "html": to_html(found.text, links=_references(found, "text")),
        "proof": found.proof,
        "proof_html": to_html(found.proof, links=_references(found, "proof")),
        "section": found.section,
        "file": found.file,
        "line": found.first_line or None,
        "last_line": found.last_line or None,
        "date": found.date or document.date,
        "location": list(found.locations),
        "document": document_record(document),
        "uses": neighbours(opened, links.items()),
        "used_by": neighbours(opened, referring.items()),
        "concepts": _concepts(opened, identity),
        "summaries": _summaries(opened, row),
        "earlier": earlier,
        "later": later,
        "previous": previous,
        "next": following,
        "bibtex": bibtex(document),
        "latex": latex_reference(found),
        "metadata": {key: value for key, value in found.metadata.items() if key != INSERTED},
        "generation": opened.generation,
    }


def neighbours(opened: Opened, related: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Passages and documents, each with its relation, as neighbour records; unknown ids are left out."""
    corpus = opened.retriever.corpus
    pairs = list(related)[:_MOST_NEIGHBOURS]
    rows: dict[str, int] = {}
    for identity, _ in pairs:
        try:
            rows[identity] = corpus.row(identity)
        except KeyError:
            continue
    passages = dict(zip(rows, corpus.passages(rows.values()), strict=True))
    records = []
    for identity, relation in pairs:
        if found := passages.get(identity):
            date = found.date or opened.date_of(found.document)
            records.append(neighbour_record(identity, found.kind, found.title, relation, found.text, date))
            continue
        try:
            document = opened.document(identity)
        except KeyError:
            continue
        records.append(neighbour_record(identity, document.kind, document.title, relation, "", document.date))
    return records


def _references(found: Passage, part: str) -> list[tuple[int, int, str]]:
    """Where the text names what it refers to, in the order of its links; none where the two cannot be matched."""
    inserted = found.metadata.get(INSERTED)
    spans = inserted.get(part, ()) if isinstance(inserted, dict) else ()
    relations = ("refers_to", "cites") if part == "text" else ("proof_uses", "cites")
    targets = [link.target for link in found.links if link.relation in relations]
    if len(spans) != len(targets):
        return []
    return [(begin, end, target) for (begin, end), target in zip(spans, targets, strict=True) if target]


def _concepts(opened: Opened, identity: str) -> list[dict[str, Any]]:
    if opened.graph is None:
        return []
    stored = opened.graph.stored
    concepts: dict[str, dict[str, Any]] = {}
    with GraphRecordStore(opened.layout) as records:
        for edge in sorted(set(records.edges_of(identity))):
            concept = stored.concepts.get(stored.merged.get(edge.target, edge.target))
            if concept is not None and edge.relation in _MENTIONS:
                concepts[concept.id] = {"id": concept.id, "name": concept.name, "kind": concept.kind}
    return list(concepts.values())


def _summaries(opened: Opened, row: int) -> list[dict[str, str]]:
    try:
        stored = open_summaries(opened.layout, opened.retriever.corpus.inputs)
    except WorkspaceError:  # of another corpus: the passage itself can be shown
        return []
    return [{"text": one["text"], "author": one["author"]} for one in (stored.of_row(row) if stored else ())]


def _logs_beside(opened: Opened, found: Passage) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The logs of the same locations before and after a log, nearest first."""
    targets = [link.target for link in found.links if link.relation == "reports_about" and link.target]
    if not targets or not found.date:
        return [], []
    corpus = opened.retriever.corpus
    sides = (corpus.reports(targets, found, later=False), corpus.reports(targets, found, later=True))
    before, after = (neighbours(opened, ((identity, "reports_about") for identity in side)) for side in sides)
    return before, after
