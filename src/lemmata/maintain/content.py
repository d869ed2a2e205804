"""The content of a workspace for people: lists of what it holds, and everything about one id."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from lemmata.core.errors import LemmataError, WorkspaceError, near, suggest
from lemmata.core.records import as_json
from lemmata.core.types import NOT_STATEMENTS, Document, Edge, Passage, kind_meant, whole_id
from lemmata.core.workspace import Workspace
from lemmata.corpus.contents import headings
from lemmata.corpus.corpus import Corpus
from lemmata.graph.build import describe_concept
from lemmata.graph.concepts.rank import rank_concepts
from lemmata.graph.store import GraphRecordStore, concept_passages, open_graph, open_graph_if_built
from lemmata.plant.history import read_history
from lemmata.plant.link import confirmed_links
from lemmata.plant.names import location_meant
from lemmata.search.exact import named_rows
from lemmata.search.summaries.store import open_summaries

LISTED = ("documents", "passages", "concepts", "bibliography", "locations", "sources")
_MENTIONS = ("mentions", "defines")


# ---------------------------------------------------------------- lists


def listing(workspace: Workspace, what: str, *, document: str = "", kind: str = "") -> Iterator[dict[str, Any]]:
    """One record for each item of a list in LISTED, restricted to a document or a kind where it has them."""
    if what not in LISTED:
        raise LemmataError(f"cannot list {what!r} (there are: {', '.join(LISTED)})")
    if document and what not in ("passages", "bibliography"):
        raise LemmataError(f"--document restricts passages and bibliography, not {what}")
    if kind and what not in ("documents", "passages", "concepts"):
        raise LemmataError(f"--kind restricts documents, passages and concepts, not {what}")
    if what == "concepts":
        yield from _concepts(workspace, kind)
        return
    with contextlib.closing(Corpus(workspace)) as corpus:
        if document:
            _document(corpus, document)
        if kind:
            known = corpus.counts()[what]
            kind = kind_meant(kind, known)
            _check_kind(kind, known)
        if what == "documents":
            yield from corpus.document_records(kind=kind)
        elif what == "passages":
            yield from corpus.passage_records(document=document, kind=kind)
        elif what == "bibliography":
            yield from corpus.bibliography_records(document=document)
        elif what == "locations":
            yield from _locations(corpus)
        else:
            for source in corpus.sources():
                path = os.path.relpath(workspace.root / source.root)
                yield {"path": path, **{name: value for name, value in source._asdict().items() if name != "root"}}


def _concepts(workspace: Workspace, kind: str) -> Iterator[dict[str, Any]]:
    """The concepts of the graph, the most telling first."""
    stored = open_graph(workspace)
    if kind:
        _check_kind(kind, {concept.kind for concept in stored.concepts.values()})
    mentions, _ = concept_passages(stored)
    for concept in rank_concepts(stored, mentions):
        if kind in ("", concept.kind):
            yield {
                "id": concept.id,
                "kind": concept.kind,
                "name": concept.name,
                "aliases": list(concept.aliases),
                "passages": len(mentions.get(concept.id, ())),
                "definition": concept.description,
            }


def _check_kind(kind: str, known: Collection[str]) -> None:
    if kind not in known:
        raise LemmataError(f"there is no kind {kind!r}{suggest(kind, sorted(known))}")


def _locations(corpus: Corpus) -> Iterator[dict[str, Any]]:
    """The locations of the equipment tree, each with its parent and the number of logs about it."""
    logs = Counter(target for _, target in corpus.linked("reports_about"))
    for location in corpus.documents(links=True):
        if location.kind == "location":
            parent = next((link.target for link in location.links if link.relation == "part_of"), None)
            yield {"id": location.id, "title": location.title, "parent": parent, "logs": logs[location.id]}


# ---------------------------------------------------------------- one id


def show(workspace: Workspace, identity: str, *, k: int = 0) -> dict[str, Any]:
    """Everything about a passage, document, location or concept; `type` says which of them it is.

    A location has its history: the first `k` logs (0: all), and the number of all as `logs`.
    A passage may also be named by its label or number. Raises LemmataError for an unknown id, with the ids that look
    like it, and for a name of several passages.
    """
    if identity.startswith("concept:"):
        return {"type": "concept", **describe_concept(workspace, identity)}
    with contextlib.closing(Corpus(workspace)) as corpus:
        with contextlib.suppress(KeyError):
            return _describe_passage(workspace, corpus, corpus[corpus.row(whole_id(identity) or identity)])
        try:
            document = _document(corpus, identity)
        except LemmataError:
            names = corpus.ids_of(named_rows(corpus, identity))  # by label or number: Theorem 4.2
            if not names:
                raise
            if len(names) > 1:
                several = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
                raise LemmataError(f"{identity!r} names {len(names)} passages, show one of them: {several}") from None
            return _describe_passage(workspace, corpus, corpus[corpus.row(names[0])])
        described = _describe_document(workspace, corpus, document)
        if document.kind == "location":
            described |= _history(corpus, document, k, _confirmed(workspace))
        return described


def _document(corpus: Corpus, identity: str) -> Document:
    try:
        return corpus.document(identity)
    except KeyError:
        with contextlib.suppress(KeyError):
            places = [document.id for document in corpus.documents(kind="location")]
            return corpus.document(location_meant(f"location:{identity.removeprefix('location:')}", places))
        known = itertools.chain(corpus.ids(), (document.id for document in corpus.documents()))
        hint = near(identity, known) or ": 'lemmata list' shows what there is"
        raise LemmataError(f"there is no passage, document or location {identity!r}{hint}") from None


def _describe_passage(workspace: Workspace, corpus: Corpus, passage: Passage) -> dict[str, Any]:
    return {
        "type": "passage",
        **as_json(passage),
        "number": passage.number,
        "printed": passage.printed,
        "headline": passage.headline,
        "proof_name": passage.proof_name,
        "document_title": corpus.document(passage.document).title,
        **_links(workspace, corpus, passage.id),
        **_summaries(workspace, corpus, passage.id),
    }


def _summaries(workspace: Workspace, corpus: Corpus, identity: str) -> dict[str, Any]:
    """The short texts by which search also finds a passage, each with its author."""
    try:
        stored = open_summaries(workspace, corpus.digest)
    except WorkspaceError as error:  # of another corpus, or damaged: the passage itself can be shown
        return {"summaries": [], "problem": str(error)}
    return {"summaries": stored.of_row(corpus.row(identity)) if stored else []}


def _describe_document(workspace: Workspace, corpus: Corpus, document: Document) -> dict[str, Any]:
    described = {
        "type": "location" if document.kind == "location" else "document",
        **as_json(document),
        **_links(workspace, corpus, document.id),
    }
    if document.kind == "location":
        return described
    described["contents"] = _contents(corpus, document)
    described["passages"] = list(corpus.passage_records(document=document.id))
    described["bibliography"] = list(corpus.bibliography_records(document=document.id))
    return described


def _confirmed(workspace: Workspace) -> list[Edge]:
    if not workspace.graph_records.exists():
        return []
    with GraphRecordStore(workspace) as records:
        return confirmed_links(records)


def _history(corpus: Corpus, location: Document, k: int, confirmed: Sequence[Edge]) -> dict[str, Any]:
    """Where a location stands in the tree, and the logs about it and all below it, in threads of follow-ups.

    The thread with the newest log comes first, and each has its oldest log first; `thread` numbers them from 1.
    """

    def places(ids: Iterable[str]) -> list[dict[str, str]]:
        return [{"id": place, "title": corpus.document(place).title} for place in ids]

    above: list[str] = []
    place = location
    while parents := [link.target for link in place.links if link.relation == "part_of" and link.target]:
        if parents[0] in above:  # a cycle
            break
        above.insert(0, parents[0])
        place = corpus.document(parents[0])
    threads = read_history(corpus, location.id, confirmed)
    rows = [(number, row) for number, thread in enumerate(threads, 1) for row in thread]
    page = rows[: k or None]
    history = [
        {
            "thread": number,
            "id": log.id,
            "date": log.date,
            "location": list(log.locations),
            "title": log.title,
            "text": log.text,
            "follows": [link.target or link.label for link in log.links if link.relation == "related_to"]
            + [edge.target for edge in confirmed if edge.source == log.id and edge.relation == "related_to"],
        }
        for (number, _), log in zip(page, corpus.passages([row for _, row in page]), strict=True)
    ]
    parts = (source for source, relation in corpus.referring(location.id) if relation == "part_of")
    return {"above": places(above), "parts": places(parts), "logs": len(rows), "history": history}


def _contents(corpus: Corpus, document: Document) -> list[dict[str, Any]]:
    """The headings of a document, each with the passages and the statements below it and below those inside it."""
    contents = headings(document)
    records = [{**heading._asdict(), "passages": 0, "statements": 0} for heading in contents]
    for (place, kind), count in Counter(corpus.heading_kinds(document.id)).items():
        level = contents[place].level + 1 if 0 <= place < len(contents) else 0
        for above in range(min(place, len(contents) - 1), -1, -1):
            if contents[above].level < level:
                level = contents[above].level
                records[above]["passages"] += count
                records[above]["statements"] += count if kind not in NOT_STATEMENTS else 0
    return records


def _links(workspace: Workspace, corpus: Corpus, identity: str) -> dict[str, Any]:
    """What links to an id, the concepts that it mentions, and the other edges that the graph has for it."""
    referred_by = [{"source": source, "relation": relation} for source, relation in corpus.referring(identity)]
    described: dict[str, Any] = {"referred_by": referred_by, "concepts": [], "edges": []}
    try:
        stored = open_graph_if_built(workspace)
    except WorkspaceError as error:  # of another corpus, or damaged: the passage itself can be shown
        return {**described, "problem": str(error)}
    if stored is None:
        return described
    with GraphRecordStore(workspace) as records:
        for edge in sorted(set(records.edges_of(identity))):
            concept = stored.concepts.get(stored.merged.get(edge.target, edge.target))
            if edge.relation in _MENTIONS and concept is not None:
                described["concepts"].append({"id": concept.id, "name": concept.name, "relation": edge.relation})
            else:
                described["edges"].append(edge._asdict())
    return described
