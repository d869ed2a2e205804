"""What miners may see: the passages, concepts and edges of one part of a split, and nothing else.

Miners get a Material, never the corpus, so that no mistake in a miner can reach a test row. Where a split lets
held-out passages be answers, a miner has to ask for the links that lead to them: no passage shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lemmata.errors import LeakageError, WorkspaceError
from lemmata.mine.splits import asked_keys, name_key
from lemmata.store.split import Split
from lemmata.types import Concept, Document, Edge, Graph, Integers, Link, Mask, Passage

__all__ = ["Material", "PassageReader", "PassageSource", "material"]

BATCH = 1000
LONGEST_NAME = 200  # characters; what is longer is no name of a concept


class PassageReader(Protocol):
    def passages(self, rows: Iterable[int]) -> list[Passage]: ...


class PassageSource(PassageReader, Protocol):
    """What a corpus offers here; `lemmata.store.corpus.Corpus` does."""

    def __len__(self) -> int: ...
    def documents(self) -> Iterator[Document]: ...
    def ids(self) -> list[str]: ...
    def document_numbers(self) -> Integers: ...
    def document_ids(self) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Material:
    """One part of a corpus and its graph."""

    source: _Guard  # refuses rows of other parts, but for answers
    allowed: Mask  # (n rows,)
    rows: Integers  # those allowed, ascending
    row_of: Mapping[str, int]  # id of an allowed passage: its row
    documents: Mapping[str, Document]  # those with an allowed row, and all locations
    document_numbers: Integers  # (n rows,) equal for rows of one document
    graph: Graph  # every node, those of other parts without a name; only edges between nodes of this part
    node_rows: Integers  # (nodes,) row of a node that is an allowed passage, else -1
    concepts: Mapping[str, Concept]  # of this part
    may_ask: Callable[[str], bool]  # whether a query is about no concept of another part
    answers: Mask  # (n rows,) of no or another part, but links may lead there; none where the split does not say so
    answer_of: Mapping[str, int]  # id of such a passage: its row

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        """Passages in the order asked for, their links to other parts unresolved; LeakageError for foreign rows.

        A title, section or metadata that is the name of a concept of another part is empty. Of an answer there is
        only what can be found: its text and title.
        """
        return self.source.passages(rows)

    def all_passages(self) -> Iterator[tuple[int, Passage]]:
        """Row and passage of the whole part, in order, read as they are asked for."""
        for start in range(0, len(self.rows), BATCH):
            part = self.rows[start : start + BATCH].tolist()
            yield from zip(part, self.passages(part), strict=True)

    def texts(self, rows: Iterable[int]) -> list[str]:
        """What an encoder sees of passages: the title, if any, and the text."""
        return [passage.content for passage in self.passages(rows)]

    def answer_links(self) -> Iterator[tuple[int, str, str]]:
        """Links of the part's passages that lead to answers: row, relation, id of a passage or of its document."""
        if self.answers.any():
            for start in range(0, len(self.rows), BATCH):
                yield from self.source.answered(self.rows[start : start + BATCH].tolist())


class _Guard:
    """The one way to the corpus from a Material."""

    def __init__(
        self, source: PassageReader, allowed: Mask, known: _Known, answers: Mask, answering: Collection[str]
    ) -> None:
        self._source = source
        self._allowed = allowed
        self._known = known
        self._answers = answers
        self._answering = answering  # ids of answers and of their documents

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        wanted = [int(row) for row in rows]
        for row in wanted:
            if not (0 <= row < len(self._allowed) and (self._allowed[row] or self._answers[row])):
                raise LeakageError(f"row {row} belongs to another part of the split")
        return [
            self._known.answer(passage) if self._answers[row] else self._known.passage(passage)
            for row, passage in zip(wanted, self._source.passages(wanted), strict=True)
        ]

    def answered(self, rows: Sequence[int]) -> Iterator[tuple[int, str, str]]:
        """Links of allowed rows to answers."""
        for row, passage in zip(rows, self._source.passages(rows), strict=True):
            for link in passage.links if self._allowed[row] else ():
                if link.target is not None and link.target in self._answering:
                    yield row, link.relation, link.target


class _Known:
    """What a part may name: its own passages and documents, and no concept of another part."""

    def __init__(self, targets: Iterable[Mapping[str, Any]], names: frozenset[str]) -> None:
        self._targets = tuple(targets)
        self._names = names  # keys, of other parts

    def may_name(self, text: str) -> bool:
        return not (self._names and text and len(text) <= LONGEST_NAME and name_key(text) in self._names)

    def may_ask(self, text: str) -> bool:
        return not (self._names and len(text) <= LONGEST_NAME and self._names.intersection(asked_keys(text)))

    def passage(self, passage: Passage) -> Passage:
        return replace(
            passage,
            title=passage.title if self.may_name(passage.title) else "",
            section=passage.section if self.may_name(passage.section) else "",
            metadata=self._value(passage.metadata) if self._names else passage.metadata,
            links=self._links(passage.links),
        )

    def answer(self, passage: Passage) -> Passage:
        """What can be found of a passage, without what it would ask with: its source names its links, too."""
        title = passage.title if self.may_name(passage.title) else ""
        return replace(passage, title=title, section="", raw="", proof="", metadata={}, links=())

    def document(self, document: Document) -> Document:
        if not self._names and not document.links:
            return document
        return replace(
            document,
            title=document.title if self.may_name(document.title) else "",
            metadata=self._value(document.metadata) if self._names else document.metadata,
            links=self._links(document.links),
        )

    def _links(self, links: tuple[Link, ...]) -> tuple[Link, ...]:
        def inside(link: Link) -> bool:
            return any(link.target in targets for targets in self._targets)

        return tuple(link if inside(link) else link._replace(target=None) for link in links)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return value if self.may_name(value) else ""
        if isinstance(value, Mapping):
            return {key: self._value(one) for key, one in value.items()}
        return [self._value(one) for one in value] if isinstance(value, list | tuple) else value


def material(
    source: PassageSource,
    split: Split,
    part: str = "train",
    *,
    graph: Graph | None = None,
    concepts: Mapping[str, Concept] | None = None,
    edges: Iterable[Edge] | None = None,
) -> Material:
    """The part of a corpus and its graph that a split gives.

    A concept belongs to a part by the split, and only if a passage of the part mentions or defines it; its
    description stays only if all passages that define it (where none does, all that mention it) are of the
    part, because it is made of their text. With `edges`, the records of the graph after merging, an edge
    between concepts stays only if a passage of the part says so, or none at all is named as its evidence;
    without, it stays wherever it was read. Of a document with passages in several parts, an edge stays only
    if a passage of this part has it as well. The training part of a split with `answers` can read all other
    rows as such, but they are in none of its rows, documents and edges.
    """
    allowed = split.rows(part)
    ids = source.ids()
    if len(allowed) != len(ids):
        raise WorkspaceError("the corpus changed since it was split: run 'lemmata split' again")
    rows = np.flatnonzero(allowed).astype(np.int64)
    row_of = {ids[row]: row for row in rows.tolist()}
    answers = ~allowed & (split.answers and part == "train")
    answer_of = {ids[row]: row for row in np.flatnonzero(answers).tolist()}
    numbers = source.document_numbers()
    homes = source.document_ids()
    here, elsewhere = np.zeros(len(homes), bool), np.zeros(len(homes), bool)
    here[numbers[allowed]] = True
    elsewhere[numbers[~allowed]] = True
    inside = {homes[number] for number in np.flatnonzero(here).tolist()}
    own = {document.id: document for document in source.documents()
           if document.id in inside or document.kind == "location"}  # fmt: skip
    all_concepts = concepts or {}
    foreign = (c for c in all_concepts.values() if split.part_of(c.id) != part)
    names = frozenset(name_key(name) for concept in foreign for name in (concept.name, *concept.aliases))
    known = _Known((row_of, own), names)
    documents = {identity: known.document(document) for identity, document in own.items()}

    graph = graph if graph is not None else _empty(ids)
    place = {name: number for number, name in enumerate(ids)}
    any_rows = np.fromiter((place.get(node, -1) for node in graph.nodes), np.int64, len(graph.nodes))
    del place, ids
    node_rows = np.where((any_rows >= 0) & allowed[any_rows], any_rows, -1) if len(allowed) else any_rows
    kept = node_rows >= 0
    for number in np.flatnonzero(any_rows < 0).tolist():
        node = graph.nodes[number]
        if node in all_concepts:
            kept[number] = split.part_of(node) == part and known.may_name(all_concepts[node].name)
        else:  # a plant's tree is known before any log is written
            kept[number] = graph.kinds[number] == "location" or node in documents
    chosen = _concepts(graph, kept, any_rows, node_rows, all_concepts, known)
    for number in np.flatnonzero(any_rows < 0).tolist():
        if graph.nodes[number] in all_concepts:
            kept[number] = graph.nodes[number] in chosen
    restricted = _between(graph, kept, _borne_out(graph, node_rows, numbers, homes, elsewhere))
    if edges is not None:
        restricted = _between(restricted, kept, _said(restricted, chosen, row_of, edges))
    nodes = [node if stays else "" for node, stays in zip(graph.nodes, kept.tolist(), strict=True)]
    answering = {*answer_of, *(homes[number] for number in np.unique(numbers[answers]).tolist())}
    guard = _Guard(source, allowed, known, answers, answering)
    return Material(
        guard,
        allowed,
        rows,
        row_of,
        documents,
        numbers,
        replace(restricted, nodes=nodes),
        node_rows,
        chosen,
        known.may_ask,
        answers,
        answer_of,
    )


def _empty(ids: Sequence[str]) -> Graph:
    nodes = sorted(ids)
    return Graph(
        nodes,
        ["passage"] * len(nodes),
        [],
        np.zeros(len(nodes) + 1, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.int16),
        np.zeros(0, np.float32),
    )


# ---------------------------------------------------------------- which edges and concepts stay


def _of(graph: Graph, relation: str) -> Mask:
    """Which edges have a relation."""
    number = list(graph.relations).index(relation) if relation in graph.relations else -1
    return np.asarray(graph.relation == number)


def _between(graph: Graph, kept: Mask, edges: Mask) -> Graph:
    """The same nodes with only those of the edges whose both ends are kept."""
    sources = graph.sources()
    stays = kept[sources] & kept[graph.indices] & edges
    indptr = np.zeros(len(graph.nodes) + 1, np.int64)
    np.cumsum(np.bincount(sources[stays], minlength=len(graph.nodes)), out=indptr[1:])
    return replace(
        graph,
        indptr=indptr,
        indices=np.asarray(graph.indices[stays]),
        relation=np.asarray(graph.relation[stays]),
        weight=np.asarray(graph.weight[stays]),
    )


def _concepts(
    graph: Graph, kept: Mask, any_rows: Integers, node_rows: Integers, concepts: Mapping[str, Concept], known: _Known
) -> dict[str, Concept]:
    """Those of the part of which one of its passages speaks, without what other passages say of them."""
    sources = graph.sources()
    passage, own = any_rows[sources] >= 0, node_rows[sources] >= 0

    def count(edges: Mask) -> npt.NDArray[np.int64]:
        return np.bincount(graph.indices[edges], minlength=len(graph.nodes))

    mentions, defines = _of(graph, "mentions"), _of(graph, "defines")
    spoken = count(own & (mentions | defines))
    defined, mentioned = count(passage & defines), count(passage & mentions)
    described = np.where(defined > 0, count(own & defines) == defined, count(own & mentions) == mentioned)
    chosen: dict[str, Concept] = {}
    for number in np.flatnonzero(kept & (any_rows < 0) & (spoken > 0)).tolist():
        concept = concepts.get(graph.nodes[number])
        if concept is not None:
            aliases = tuple(filter(known.may_name, concept.aliases))
            description = concept.description if described[number] else ""
            chosen[concept.id] = replace(concept, description=description, aliases=aliases)
    return dict(sorted(chosen.items()))


def _borne_out(graph: Graph, node_rows: Integers, numbers: Integers, homes: Sequence[str], elsewhere: Mask) -> Mask:
    """Edges that do not hang on what a document's passages in other parts say.

    An edge of a document with such passages is borne out by one of the same relation between a passage of
    it in this part and the same other end, where passages stand for their documents.
    """
    node = {name: number for number, name in enumerate(graph.nodes)}
    home_node = np.fromiter((node.get(name, -1) for name in homes), np.int64, len(homes))
    own = node_rows >= 0
    document, mixed = np.zeros(len(graph.nodes), bool), np.zeros(len(graph.nodes), bool)
    document[home_node[home_node >= 0]] = True
    mixed[home_node[elsewhere & (home_node >= 0)]] = True
    mixed &= ~own  # a passage that is its document has no other passages
    lifted = np.arange(len(graph.nodes))
    if own.any():
        at_home = home_node[numbers[node_rows[own]]]
        lifted[own] = np.where(at_home >= 0, at_home, lifted[own])
    sources, targets = graph.sources(), graph.indices
    many = len(graph.nodes)

    def key(one: Integers, other: Integers) -> Integers:
        return np.asarray((graph.relation.astype(np.int64) * many + one) * many + other)

    told, asked = key(lifted[sources], lifted[targets]), key(sources, targets)
    # a document says of itself what it cites; of one that does not, the other end may have said so
    by_source = mixed[sources] & ~own[targets]
    by_target = mixed[targets] & ~own[sources] & ~document[sources]
    foreign = by_source & ~np.isin(asked, told[own[sources]])
    return ~(foreign | (by_target & ~np.isin(asked, told[own[targets]])))


def _said(graph: Graph, chosen: Mapping[str, Concept], row_of: Mapping[str, int], edges: Iterable[Edge]) -> Mask:
    """Edges but those between concepts that no passage of the part says."""
    said = {
        (edge.source, edge.relation, edge.target)
        for edge in edges
        if edge.source in chosen and edge.target in chosen and (not edge.evidence or edge.evidence in row_of)
    }
    concept = np.fromiter((node in chosen for node in graph.nodes), bool, len(graph.nodes))
    sources = graph.sources()
    stays = np.ones(len(graph.indices), bool)
    for edge in np.flatnonzero(concept[sources] & concept[graph.indices]).tolist():
        ends = graph.nodes[int(sources[edge])], graph.nodes[int(graph.indices[edge])]
        stays[edge] = (ends[0], graph.relations[int(graph.relation[edge])], ends[1]) in said
    return stays
