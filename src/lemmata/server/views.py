"""Records about one thing in an opened workspace: a passage, a concept, its place in the graph, an outline."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated, Any

import numpy as np

from lemmata.core.errors import LemmataError
from lemmata.core.records import Described
from lemmata.core.types import BOOKKEEPING, INSERTED, Document, Edge, Hit, Passage, whole_id
from lemmata.corpus.contents import headings, is_book
from lemmata.latex.readable import readable
from lemmata.latex.sentences import cut
from lemmata.plant.history import read_history
from lemmata.plant.link import confirmed_links
from lemmata.search.bridge import Bridge, bridge
from lemmata.search.filter import Name
from lemmata.server.mathml import inline_html, name_of, reference_links, title_html, to_html
from lemmata.server.opened import Opened, OpenedGraph
from lemmata.server.records import MOST_HITS, Id, short_text
from lemmata.server.references import bibtex, latex_reference, latex_text

_MOST_NEIGHBOURS = 200
_MOST_VALUES = 50  # of a facet
_MOST_RELATIONS = 500
_FORMS = {"text": "notes", "table": "logs"}  # what readers call a document of a kind
_HUBS = (6, 12, 25, 60)  # edges of nodes around which paths are looked for
_CARD = 700  # characters of the statement on a card
_MENTIONS = ("mentions", "defines")


class UnknownIdError(LemmataError):
    """An id that the workspace does not have."""


def _shown(kind: str, title: str, text: str, number: str = "", printed: str = "", where: str = "") -> dict[str, Any]:
    """What is shown of a node: its title and the start of its text, both also as safe HTML."""
    excerpt = short_text(text)
    return {
        "kind": kind,
        "number": number,
        "printed": printed,
        "title": title,
        "title_html": title_html(title),
        **name_of(title, text),
        "excerpt": excerpt,
        "html": inline_html(excerpt),
        "where": where,
    }


def passage_record(opened: Opened, passage: Passage) -> dict[str, Any]:
    """What is shown of a passage where others are listed."""
    text, _ = opened.readable_text(passage, passage.text)
    title = opened.title_of(passage)
    return _shown(passage.kind, title, text, passage.number, passage.printed, opened.where_of(passage))


def _document_record(document: Document) -> dict[str, Any]:
    """A document without its passages."""
    return {
        "id": document.id,
        "title": document.title,
        "title_html": title_html(document.title),
        "authors": list(document.authors),
        "date": document.date,
        "categories": list(document.categories),
        "kind": document.kind,
        "form": "book" if is_book(headings(document)) else _FORMS.get(document.kind, document.kind),
    }


# ---------------------------------------------------------------- facets


def facets(opened: Opened, hits: Sequence[Hit]) -> dict[str, list[dict[str, Any]]]:
    """How many of the hits have each kind, document, chapter of a book, category, location and year, most first.

    Documents, chapters and locations come with their titles, formulas as characters. A hit counts for its location and
    for all above it, as the filter has it; a root that no hit names is left out, for it says nothing.
    """
    exact: set[str] = set()
    counts: dict[str, Counter[str]] = {
        name: Counter() for name in ("kinds", "documents", "chapters", "categories", "locations", "years")
    }
    for hit in hits:
        if (hit_passage := hit.passage) is None:
            continue
        document = opened.document(hit_passage.document)
        counts["kinds"][hit_passage.kind] += 1
        counts["documents"][hit_passage.document] += 1
        if chapter := opened.chapter_of(hit_passage):
            counts["chapters"][chapter] += 1
        counts["categories"].update(document.categories)
        ways = [opened.way_to(f"location:{name}") for name in hit_passage.locations]
        exact.update(hit_passage.locations)
        counts["locations"].update(
            {*hit_passage.locations, *(place.removeprefix("location:") for way in ways for place in way)}
        )
        if date := hit_passage.date or document.date:
            counts["years"][date[:4]] += 1
    for name in [name for name in counts["locations"] if name not in exact]:
        if len(opened.way_to(f"location:{name}")) == 1:
            del counts["locations"][name]
    counted: dict[str, list[dict[str, Any]]] = {
        name: [{"value": value, "count": count} for value, count in counter.most_common(_MOST_VALUES)]
        for name, counter in counts.items()
    }
    for record in counted["documents"]:
        record["title"] = readable(opened.document(record["value"]).title)
    for record in counted["chapters"]:
        record["title"] = readable(record["value"])
    for record in counted["locations"]:
        place = opened.tree.get(f"location:{record['value']}")
        record["title"] = place.title if place else ""
    return counted


# ---------------------------------------------------------------- passages


def passage_of(opened: Opened, identity: str) -> Passage:
    """The passage of an id; UnknownIdError where there is none."""
    corpus = opened.retriever.corpus
    try:
        return corpus[corpus.row(whole_id(identity) or identity)]
    except KeyError:
        raise UnknownIdError(f"there is no passage {identity!r}: search for it, or look into the outline") from None


def passage(opened: Opened, identity: Id) -> dict[str, Any]:
    """Everything about a passage; a list of neighbours holds 200 at most."""
    corpus = opened.retriever.corpus
    shown = passage_of(opened, identity)
    identity = shown.id  # of the whole passage, where a part was asked for
    row = corpus.row(identity)
    document = opened.document(shown.document)
    previous, following, place = _beside(opened, shown, row)
    links = {link.target: link.relation for link in shown.links if link.target}
    referring = {source: relation for source, relation in corpus.referring(identity) if source != identity}
    earlier, later = _logs_beside(opened, shown)
    summaries = opened.summaries.of_row(row) if opened.summaries else []
    title = opened.title_of(shown)
    is_cited = document.kind not in _FORMS or bool(document.authors)  # no manual and no table of logs
    return {
        "id": shown.id,
        "kind": shown.kind,
        "number": shown.number,
        "printed": shown.printed,
        "title": title,
        "title_html": title_html(title),
        **name_of(
            title or (document.title if shown.kind == "abstract" else ""),
            opened.readable_text(shown, shown.text)[0],
        ),
        "text": shown.text,
        **_whole(opened, shown),
        "proof": shown.proof,
        "section": shown.section,
        "section_html": title_html(shown.section),
        "file": shown.file,
        "line": shown.first_line or None,
        "last_line": shown.last_line or None,
        "date": shown.date or document.date,
        "location": list(shown.locations),
        "places": _places(opened, shown),
        "document": _document_record(document),
        "uses": neighbours(opened, links.items()),
        "used_by": neighbours(opened, referring.items()),
        "concepts": _concepts_of(opened, identity),
        "works": _works(opened, shown),
        "summaries": [
            {"text": summary["text"], "html": inline_html(summary["text"]), "author": summary["author"]}
            for summary in summaries
        ],
        "earlier": earlier,
        "later": later,
        "previous": previous,
        "next": following,
        "place": place,
        "bibtex": bibtex(document) if is_cited else "",
        "latex": latex_reference(shown) if is_cited else "",
        "latex_text": latex_text(shown),
        "metadata": {key: value for key, value in shown.metadata.items() if key not in BOOKKEEPING},
    }


def _beside(
    opened: Opened, shown: Passage, row: int
) -> tuple[dict[str, Any] | None, dict[str, Any] | None, int | None]:
    """The passages before and after a passage in its document, and its place there; a long table has no places."""
    corpus = opened.retriever.corpus
    is_table = opened.document(shown.document).kind == "table"  # it may be long, and has its rows in order
    rows = range(max(0, row - 1), min(len(corpus), row + 2)) if is_table else opened.order_of(shown.document)
    if row not in rows:  # a part of a passage
        return None, None, None
    place = rows.index(row)
    beside = [corpus[rows[other]] if 0 <= other < len(rows) else None for other in (place - 1, place + 1)]
    before, after = (_linked(opened, other) if other and other.document == shown.document else None for other in beside)
    return before, after, None if is_table else place


def _linked(opened: Opened, shown: Passage) -> dict[str, Any]:
    """What a link to a passage says."""
    return {"id": shown.id, "date": shown.date, **passage_record(opened, shown)}


def neighbours(opened: Opened, related: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Passages and documents, each with its relation, as neighbour records; unknown ids are left out."""
    pairs = list(itertools.islice(related, _MOST_NEIGHBOURS))
    rows = opened.passage_rows([identity for identity, _ in pairs])
    passages = dict(zip(rows, opened.retriever.corpus.passages(rows.values()), strict=True))
    records = []
    for identity, relation in pairs:
        if neighbour := passages.get(identity):
            shown = passage_record(opened, neighbour)
            date = neighbour.date or opened.date_of(neighbour.document)
        elif document := opened.known_document(identity):
            shown, date = _shown(document.kind, document.title, ""), document.date
        else:
            continue
        records.append({"id": identity, "relation": relation, "date": date, **shown})
    return records


def _html(opened: Opened, shown: Passage, text: str, part: str) -> str:
    """The text or the proof of a passage as HTML, with its references."""
    inserted = shown.metadata.get(INSERTED)
    links = reference_links(inserted.get(part, ()), shown.links) if isinstance(inserted, dict) else []
    named, moved = opened.readable_text(shown, text, part, links)
    return to_html(named, links=moved)


def _works(opened: Opened, shown: Passage) -> list[dict[str, str]]:
    """The works that a passage cites and the corpus does not have."""
    keys = dict.fromkeys(link.label for link in shown.links if link.relation == "cites" and not link.target)
    works = opened.works_of(shown.document) if keys else {}
    return [{"name": works[key][0], "html": inline_html(works[key][1])} for key in keys if key in works]


def _concepts_of(opened: Opened, identity: str) -> list[dict[str, Any]]:
    if opened.graph is None:
        return []
    stored = opened.graph.stored
    named: dict[str, dict[str, Any]] = {}
    for edge in sorted(set(opened.graph.records.edges_of(identity))):
        mentioned = stored.concepts.get(stored.merged.get(edge.target, edge.target))
        if mentioned is not None and edge.relation in _MENTIONS:
            named[mentioned.id] = {"id": mentioned.id, "name": mentioned.name, "kind": mentioned.kind}
    return list(named.values())


def _places(opened: Opened, log: Passage) -> list[dict[str, str]]:
    """The location of a log with all above it, the root first."""
    place = next((link.target for link in log.links if link.relation == "reports_about" and link.target), "")
    return [{"id": identity, "title": opened.tree[identity].title} for identity in opened.way_to(place)]


def _logs_beside(opened: Opened, log: Passage) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The logs of the same locations before and after a log, nearest first."""
    locations = [link.target for link in log.links if link.relation == "reports_about" and link.target]
    if not locations or not log.date:
        return [], []
    corpus = opened.retriever.corpus
    sides = (corpus.reports(locations, log, later=False), corpus.reports(locations, log, later=True))
    before, after = (neighbours(opened, ((identity, "reports_about") for identity in side)) for side in sides)
    return before, after


# ---------------------------------------------------------------- concepts


def concepts(
    opened: Opened,
    prefix: Annotated[str, Described("The start of a name or of a word in it.", most=200)] = "",
    k: Annotated[int, Described("Number of concepts.", 1, MOST_HITS)] = 20,
) -> dict[str, Any]:
    """Concepts whose names begin like this, the most telling first."""
    graph = opened.needed_graph()
    wanted = f" {' '.join(prefix.split())}".casefold()
    fitting = (concept for concept, names in zip(graph.concepts, graph.names, strict=True) if wanted in names)
    records = [
        {
            "id": concept.id,
            "name": concept.name,
            "kind": concept.kind,
            "aliases": list(concept.aliases),
            "passages": len(graph.passages.get(concept.id, ())),
        }
        for concept in itertools.islice(fitting, k)
    ]
    return {"concepts": records}


def concept(opened: Opened, identity: Id) -> dict[str, Any]:
    """A concept with its relations and the passages that mention it; merged ones are described by the one kept."""
    graph = opened.needed_graph()
    stored = graph.stored
    identity = stored.merged.get(identity, identity)
    shown = stored.concepts.get(identity)
    if shown is None:
        raise UnknownIdError(f"there is no concept {identity!r}: look for its name in /concepts")
    mentioning = graph.passages.get(identity, [])
    defining = graph.definitions.get(identity)
    ordered = ([defining] if defining else []) + [name for name in mentioning if name != defining]
    relations = list(itertools.islice(_relations(graph, identity), _MOST_RELATIONS))
    return {
        "id": shown.id,
        "name": shown.name,
        "kind": shown.kind,
        "description": shown.description,
        "html": to_html(shown.description),
        "aliases": list(shown.aliases),
        "definition": _whole_definition(opened, defining) if defining else None,
        "relations": relations,
        "nodes": nodes(opened, sorted({name for relation in relations for name in relation["evidence"]})),
        "passages": neighbours(opened, ((name, "defines" if name == defining else "mentions") for name in ordered)),
        "passages_in_all": len(ordered),
    }


def _whole_definition(opened: Opened, identity: str) -> dict[str, Any]:
    """The passage that defines a concept, as a neighbour with its whole text."""
    shown = passage_of(opened, identity)
    return {**neighbours(opened, [(shown.id, "defines")])[0], "html": _html(opened, shown, shown.text, "text")}


def _relations(graph: OpenedGraph, identity: str) -> Iterator[dict[str, Any]]:
    """The relations of a concept to others, each once, with the passages that state it and who found it."""
    stored = graph.stored
    group = [identity, *(gone for gone, kept in stored.merged.items() if kept == identity)]
    grouped: dict[tuple[str, str, str], list[Edge]] = {}
    for edge in sorted({edge for name in group for edge in graph.records.edges_of(name)}):
        source, target = (stored.merged.get(name, name) for name in (edge.source, edge.target))
        if source != target and source in stored.concepts and target in stored.concepts:
            grouped.setdefault((source, edge.relation, target), []).append(edge)
    for (source, relation, target), edges in grouped.items():
        other = stored.concepts[target if source == identity else source]
        yield {
            "source": source,
            "relation": relation,
            "target": target,
            "name": other.name,
            "evidence": list(dict.fromkeys(edge.evidence for edge in edges if edge.evidence))[:10],
            "makers": sorted({edge.maker for edge in edges if edge.maker}),
        }


# ---------------------------------------------------------------- the graph


def nodes(opened: Opened, ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Kind, title and start of the text of some nodes, by id; unknown ones, such as a query, are left out."""
    rows = opened.passage_rows(list(ids))
    passages = dict(zip(rows, opened.retriever.corpus.passages(rows.values()), strict=True))
    known = opened.graph.stored.concepts if opened.graph else {}
    described = {}
    for identity in ids:
        if passage := passages.get(identity):
            described[identity] = passage_record(opened, passage)
        elif mentioned := known.get(identity):
            described[identity] = _shown("concept", mentioned.name, mentioned.description)
        elif document := opened.known_document(identity):
            described[identity] = _shown(document.kind, document.title, "")
        elif opened.graph and identity in opened.graph.node_of:
            described[identity] = _shown(opened.graph.stored.graph.kinds[opened.graph.node_of[identity]], "", "")
    return described


def graph_around(
    opened: Opened,
    identity: Id,
    limit: Annotated[int, Described("Number of nodes.", 1, 500)] = 50,
    siblings: Annotated[bool, Described("Whether passages of one document are near because they stand in it.")] = True,
) -> dict[str, Any]:
    """The nodes nearest to a node along the graph, and the edges between them."""
    graph = opened.needed_graph()
    identity = graph.stored.merged.get(identity, identity)
    if identity not in graph.node_of:
        raise UnknownIdError(
            f"there is no {identity!r} in the graph: take that of a passage, document, concept or location"
        )
    measured = (opened.bridge_graph() if siblings else opened.linked_graph).measured
    network = graph.stored.graph
    nearest: dict[int, float] = {}
    waiting = [(0.0, graph.node_of[identity])]
    while waiting and len(nearest) < limit:
        distance, node = heapq.heappop(waiting)
        if node in nearest:
            continue
        nearest[node] = distance
        seen: set[int] = set()  # a neighbour may be linked by several relations
        for place in range(int(measured.indptr[node]), int(measured.indptr[node + 1])):
            if len(seen) == limit:
                break  # sorted by length: farther ones cannot be among the nearest
            target = int(measured.targets[place])
            if target not in nearest and target not in seen:
                heapq.heappush(waiting, (distance + float(measured.lengths[place]), target))
            seen.add(target)
    chosen = np.array(sorted(nearest), np.int64)
    edges: dict[tuple[str, str, str], float] = {}
    for node in nearest:
        places = np.arange(int(measured.indptr[node]), int(measured.indptr[node + 1]))
        kept = places[np.isin(measured.targets[places], chosen) & (measured.edges[places] >= 0)]
        for target, length, edge in zip(
            measured.targets[kept].tolist(), measured.lengths[kept].tolist(), measured.edges[kept].tolist(), strict=True
        ):
            relation = network.relations[network.relation[edge]]
            edges.setdefault((network.nodes[node], network.nodes[target], relation), length)
    names = [network.nodes[node] for node in nearest]
    sure = {edge[:3] for edge in confirmed_links(graph.records)}
    guessed = {edge[:3]: edge.weight for name in names for edge in opened.predicted.get(name, ())}
    described = nodes(opened, names)
    unknown = _shown("", "", "")
    return {
        "id": identity,
        "nodes": [
            {"id": name, "distance": distance, **described.get(name, unknown)}
            for name, distance in zip(names, nearest.values(), strict=True)
        ],
        "edges": [
            {
                "source": source,
                "target": target,
                "relation": relation,
                "length": length,
                "probability": None if (link := (source, relation, target)) in sure else guessed.get(link),
            }
            for (source, target, relation), length in edges.items()
        ],
    }


def bridge_of(opened: Opened, source: str, target: str, k: int) -> Bridge:
    """The telling paths first, also around hubs; over the documents of passages where there is no other way."""
    found = bridge(opened.retriever, source, target, k, graph=opened.linked_graph, limits=_HUBS)
    return found if found.paths else bridge(opened.retriever, source, target, k, graph=opened.bridge_graph())


def card(opened: Opened, identity: Id) -> dict[str, Any]:
    """What is read of a reference without following it: name, statement and document."""
    graph = opened.graph
    merged = graph.stored.merged.get(identity, identity) if graph else identity
    shown = nodes(opened, [whole_id(merged) or merged]).get(whole_id(merged) or merged)
    if shown is None:
        raise UnknownIdError(f"there is nothing of the id {identity!r}: search for it, or look into the outline")
    named = graph.definitions.get(merged, merged) if graph else merged
    rows = opened.passage_rows([whole_id(named) or named])
    statement = next(iter(opened.retriever.corpus.passages(rows.values())), None)
    text = opened.readable_text(statement, statement.text)[0] if statement else shown["excerpt"]
    start = cut(text, _CARD)
    document = opened.known_document(statement.document if statement else merged)
    return {
        "id": merged,
        **shown,
        "html": to_html(start) + ("<p>…</p>" if len(start) < len(text) else ""),
        "defined_in": _linked(opened, statement) if statement and named != merged else None,
        "date": (statement.date if statement else None) or (document.date if document else None),
        "document": _document_record(document) if document else None,
    }


# ---------------------------------------------------------------- the outline


def outline(
    opened: Opened,
    document: Annotated[Name, Described("Id of a document; empty for the list of all.")] = "",
    offset: Annotated[int, Described("Entries to leave out.", 0, 10**9)] = 0,
    k: Annotated[int, Described("Number of entries.", 1, 1000)] = 50,
    whole: Annotated[bool, Described("Whether passages have their whole text and proof as HTML.")] = False,
) -> dict[str, Any]:
    """The documents, or the passages of one document in its order."""
    return _passages_of(opened, document, offset, k, whole) if document else _documents(opened, offset, k)


def _documents(opened: Opened, offset: int, k: int) -> dict[str, Any]:
    """The documents by id, each with the number of its passages, and the sections of a plant."""
    listed = opened.outline[offset : offset + k]
    return {
        "documents": [{**_document_record(opened.document(name)), "passages": count} for name, count in listed],
        "locations": locations(opened, opened.sections),
        "total": len(opened.outline),
        "next_offset": offset + k if offset + k < len(opened.outline) else None,
    }


def _passages_of(opened: Opened, identity: str, offset: int, k: int, whole: bool) -> dict[str, Any]:
    """The passages of a document in its order, with the start of their texts.

    Those of a location are the logs about it and all below it: the thread with the newest log first, and in a thread
    the oldest first.
    """
    document = opened.known_document(identity)
    if document is None:
        raise UnknownIdError(f"there is no document {identity!r}: see /outline")
    is_place = document.kind == "location"
    confirmed = confirmed_links(opened.graph.records if opened.graph else None) if is_place else ()
    threads = read_history(opened.retriever.corpus, identity, confirmed) if is_place else []
    rows = [row for thread in threads for row in thread] if is_place else opened.order_of(identity)
    follow_ups = {row for thread in threads for row in thread[1:]}
    page = rows[offset : offset + k]
    way = opened.way_to(identity)
    return {
        "document": _document_record(document),
        "above": locations(opened, way[:-1]),
        "parts": locations(opened, opened.tree[identity].parts if way else []),
        "contents": [] if is_place else opened.contents_of(identity),
        "passages": [
            {
                "id": shown.id,
                **passage_record(opened, shown),
                "section": shown.section,
                "section_html": title_html(shown.section),
                "date": shown.date or document.date,
                "location": list(shown.locations),
                "is_follow_up": row in follow_ups,
                "file": shown.file,
                "line": shown.first_line or None,
                **(_whole(opened, shown) if whole else {}),
            }
            for row, shown in zip(page, opened.retriever.corpus.passages(page), strict=True)
        ],
        "total": len(rows),
        "next_offset": offset + k if offset + k < len(rows) else None,
    }


def _whole(opened: Opened, shown: Passage) -> dict[str, str]:
    """Text and proof of a passage as HTML, with their references."""
    return {
        "proof_name": shown.proof_name,
        "html": _html(opened, shown, shown.text, "text"),
        "proof_html": _html(opened, shown, shown.proof, "proof"),
    }


def locations(opened: Opened, places: Iterable[str]) -> list[dict[str, Any]]:
    return [
        {"id": identity, "title": opened.tree[identity].title, "passages": opened.tree[identity].logs}
        for identity in places
    ]
