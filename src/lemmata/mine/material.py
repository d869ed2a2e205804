"""What miners may see: the passages, concepts and edges of one part of a split, and nothing else.

Miners get a TrainingView, never the corpus, so that no mistake in a miner can reach a test row. Where a split allows
held-out passages as answers, a miner must ask for the links that lead to them: no passage shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from lemmata.core.errors import LeakageError, WorkspaceError
from lemmata.core.types import Concept, Document, Edge, Graph, Integers, Link, Mask, Passage, whole_id
from lemmata.corpus.split import Split
from lemmata.graph.links import build_graph
from lemmata.mine.adjacency import edges_of
from lemmata.mine.splits import name_key, query_keys

BATCH = 1000  # passages read at once
LONGEST_NAME = 200  # characters; a longer text is not the name of a concept


class PassageSource(Protocol):
    """The part of `lemmata.corpus.corpus.Corpus` that mining reads."""

    def passages(self, rows: Iterable[int]) -> list[Passage]: ...
    def documents(self) -> Iterator[Document]: ...
    def ids(self) -> list[str]: ...
    def document_numbers(self) -> Integers: ...
    def document_ids(self) -> list[str]: ...


def in_batches(
    passages: Callable[[Sequence[int]], list[Passage]], rows: Sequence[int]
) -> Iterator[tuple[int, Passage]]:
    """Rows with their passages, in the given order; `passages` is called for many rows at once."""
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        yield from zip(batch, passages(batch), strict=True)


def content_of(passage: Passage) -> str:
    return passage.content


@dataclass(frozen=True, slots=True)
class TrainingView:
    """One part of a corpus and its graph."""

    guard: _Guard  # refuses rows of other parts, except answers
    allowed: Mask  # (n rows,) the rows of this part
    rows: Integers  # the allowed rows, ascending
    row_of: Mapping[str, int]  # id of an allowed passage: its row
    documents: Mapping[str, Document]  # those with an allowed row, and all locations
    document_numbers: Integers  # (n rows,) equal for rows of one document
    graph: Graph  # all nodes, those of other parts without a name; only edges between nodes of this part
    node_rows: Integers  # (nodes,) row of a node that is an allowed passage, else -1
    concepts: Mapping[str, Concept]  # of this part
    answers: Mask  # (n rows,) rows outside this part that links may lead to; none unless the split allows answers
    answer_of: Mapping[str, int]  # id of such a passage: its row
    indexed: Callable[[Passage], str] = content_of  # the text of a passage that is found, where it is not its content

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        """Passages in the given order, without the targets of links to other parts; LeakageError for other rows.

        A title, section or metadata that is the name of a concept of another part is empty; text and proof are
        without the names of references. An answer has only its text and title.
        """
        return self.guard.passages(rows)

    def read(self, rows: Sequence[int]) -> Iterator[tuple[int, Passage]]:
        """Many rows with their passages, in the given order, read in batches."""
        return in_batches(self.passages, rows)

    def all_passages(self) -> Iterator[tuple[int, Passage]]:
        """Row and passage of the whole part, in order, read in batches."""
        return self.read(self.rows.tolist())

    def texts(self, rows: Iterable[int]) -> list[str]:
        """What an encoder sees of passages: the title, if any, and the text."""
        return [passage.content for passage in self.passages(rows)]

    def answer_links(self) -> Iterator[tuple[int, str, str]]:
        """Links of the part's passages that lead to answers: row, relation, id of a passage or of its document."""
        return self.guard.answer_links(self.rows.tolist())

    def may_query(self, text: str) -> bool:
        """Whether a query names no concept of another part."""
        return self.guard.may_query(text)


@dataclass(frozen=True, slots=True)
class _Guard:
    """The only way from a TrainingView to the corpus.

    Removes from records what the part may not name: passages, documents and concepts of other parts.
    """

    _corpus: PassageSource
    _allowed: Mask
    _answers: Mask
    _answer_ids: Collection[str]  # of answers and of their documents
    _targets: Collection[str]  # ids that a link may lead to
    _foreign_names: frozenset[str]  # keys

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        requested = [int(row) for row in rows]
        for row in requested:
            if not (0 <= row < len(self._allowed) and (self._allowed[row] or self._answers[row])):
                raise LeakageError(f"row {row} belongs to another part of the split")
        return [
            self._answer(passage.bare()) if self._answers[row] else self._passage(passage.bare())
            for row, passage in zip(requested, self._corpus.passages(requested), strict=True)
        ]

    def answer_links(self, rows: Sequence[int]) -> Iterator[tuple[int, str, str]]:
        for row, passage in in_batches(self._corpus.passages, rows) if self._answer_ids else ():
            for link in passage.links if self._allowed[row] else ():
                if link.target is not None and link.target in self._answer_ids:
                    yield row, link.relation, link.target

    def may_name(self, text: str) -> bool:
        return not text or len(text) > LONGEST_NAME or name_key(text) not in self._foreign_names

    def may_query(self, text: str) -> bool:
        if not self._foreign_names or len(text) > LONGEST_NAME:
            return True
        return not self._foreign_names.intersection(query_keys(text))

    def document(self, document: Document) -> Document:
        title, metadata = self._value(document.title), self._value(document.metadata)
        return replace(document, title=title, metadata=metadata, links=self._links(document.links))

    def _passage(self, passage: Passage) -> Passage:
        title, section, metadata = map(self._value, (passage.title, passage.section, passage.metadata))
        return replace(passage, title=title, section=section, metadata=metadata, links=self._links(passage.links))

    def _answer(self, passage: Passage) -> Passage:
        """Title and text alone: everything else could serve as a query, and the source names its links."""
        title = self._value(passage.title)
        return replace(passage, title=title, section="", raw="", proof="", metadata={}, links=())

    def _links(self, links: tuple[Link, ...]) -> tuple[Link, ...]:
        return tuple(link if link.target in self._targets else link._replace(target=None) for link in links)

    def _value(self, value: Any) -> Any:
        if not self._foreign_names:
            return value
        if isinstance(value, str):
            return value if self.may_name(value) else ""
        if isinstance(value, Mapping):
            return {key: self._value(item) for key, item in value.items()}
        return [self._value(item) for item in value] if isinstance(value, list | tuple) else value


def training_view(
    corpus: PassageSource,
    split: Split,
    part: str = "train",
    *,
    graph: Graph | None = None,
    concepts: Mapping[str, Concept] | None = None,
    edges: Iterable[Edge] | None = None,
) -> TrainingView:
    """One part of a corpus and its graph.

    - A concept belongs to a part by the split, and only if a passage of the part mentions or defines it. It
      keeps its description only if all passages that define it (if none does, all that mention it) are of the
      part, because the description is made from their text.
    - With `edges`, the records of the graph after merging, an edge between concepts stays only if a passage of
      the part is its evidence, or it names none. Without, every such edge stays.
    - An edge of a document with passages in several parts stays only if a passage of this part has it as well.
    - The training part of a split with `answers` can read all other rows as answers, but they are in none of
      its rows, documents and edges.
    """
    allowed = split.rows(part)
    ids = corpus.ids()
    if len(allowed) != len(ids):
        raise WorkspaceError("the corpus changed since it was split: run 'lemmata split' again")
    allowed = allowed & ~np.array([bool(whole_id(identity)) for identity in ids], bool)  # parts repeat their passages
    rows = np.flatnonzero(allowed).astype(np.int64)
    row_of = {ids[row]: row for row in rows.tolist()}
    answers = ~allowed & (split.answers and part == "train")
    answer_of = {ids[row]: row for row in np.flatnonzero(answers).tolist()}
    numbers = corpus.document_numbers()
    document_ids = corpus.document_ids()
    inside = {document_ids[number] for number in np.unique(numbers[allowed]).tolist()}
    documents = {document.id: document for document in corpus.documents()
                 if document.id in inside or document.kind == "location"}  # fmt: skip
    concepts = concepts or {}
    foreign = (concept for concept in concepts.values() if split.part_of(concept.id) != part)
    guard = _Guard(
        corpus,
        allowed,
        answers,
        {*answer_of, *(document_ids[number] for number in np.unique(numbers[answers]).tolist())},
        {*row_of, *documents},
        frozenset(name_key(name) for concept in foreign for name in (concept.name, *concept.aliases)),
    )
    documents = {identity: guard.document(document) for identity, document in documents.items()}

    graph = graph if graph is not None else build_graph((), dict.fromkeys(ids, "passage"))
    position = {identity: row for row, identity in enumerate(ids)}
    any_rows = np.fromiter((position.get(node, -1) for node in graph.nodes), np.int64, len(graph.nodes))
    node_rows = np.where((any_rows >= 0) & allowed[any_rows], any_rows, -1) if len(allowed) else any_rows
    candidates = {
        concept.id: concept
        for concept in concepts.values()
        if split.part_of(concept.id) == part and guard.may_name(concept.name)
    }
    own_concepts = _concepts(graph, any_rows, node_rows, candidates, guard)
    visible = node_rows >= 0
    for number in np.flatnonzero(any_rows < 0).tolist():
        node = graph.nodes[number]
        if node in concepts:
            visible[number] = node in own_concepts
        else:  # the tree of a plant is known before any log is written
            visible[number] = graph.kinds[number] == "location" or node in documents
    divided = np.isin(np.arange(len(document_ids)), numbers[~allowed])
    stays = _confirmed_edges(graph, node_rows, numbers, document_ids, divided)
    if edges is not None:
        stays &= _evident_edges(graph, own_concepts, row_of, edges)
    nodes = [node if shown else "" for node, shown in zip(graph.nodes, visible.tolist(), strict=True)]
    return TrainingView(
        guard=guard,
        allowed=allowed,
        rows=rows,
        row_of=row_of,
        documents=documents,
        document_numbers=numbers,
        graph=replace(graph.with_edges(visible[graph.sources()] & visible[graph.indices] & stays), nodes=nodes),
        node_rows=node_rows,
        concepts=own_concepts,
        answers=answers,
        answer_of=answer_of,
    )


# ---------------------------------------------------------------- which edges and concepts stay


def _concepts(
    graph: Graph, any_rows: Integers, node_rows: Integers, candidates: Mapping[str, Concept], guard: _Guard
) -> dict[str, Concept]:
    """The candidates that a passage of the part mentions or defines, without what other parts say of them."""
    sources = graph.sources()
    is_passage, is_own = any_rows[sources] >= 0, node_rows[sources] >= 0

    def count(edges: Mask) -> Integers:
        return np.bincount(graph.indices[edges], minlength=len(graph.nodes))

    mentions, defines = edges_of(graph, ("mentions",)), edges_of(graph, ("defines",))
    in_part = count(is_own & (mentions | defines)) > 0
    defined, mentioned = count(is_passage & defines), count(is_passage & mentions)
    described = np.where(defined > 0, count(is_own & defines) == defined, count(is_own & mentions) == mentioned)
    own_concepts: dict[str, Concept] = {}
    for number in np.flatnonzero((any_rows < 0) & in_part).tolist():
        if (concept := candidates.get(graph.nodes[number])) is not None:
            aliases = tuple(filter(guard.may_name, concept.aliases))
            description = concept.description if described[number] else ""
            own_concepts[concept.id] = replace(concept, description=description, aliases=aliases)
    return dict(sorted(own_concepts.items()))


def _confirmed_edges(
    graph: Graph, node_rows: Integers, numbers: Integers, document_ids: Sequence[str], divided: Mask
) -> Mask:
    """Edges that do not depend on passages of other parts.

    An edge of a document with passages in other parts (`divided`) needs another edge of the same relation,
    from one of its passages in this part to the same other end, where passages stand for their documents.
    """
    node_of = {name: number for number, name in enumerate(graph.nodes)}
    document_node = np.fromiter((node_of.get(name, -1) for name in document_ids), np.int64, len(document_ids))
    is_own_passage = node_rows >= 0
    is_document, is_divided = np.zeros((2, len(graph.nodes)), bool)
    is_document[document_node[document_node >= 0]] = True
    is_divided[document_node[divided & (document_node >= 0)]] = True
    is_divided &= ~is_own_passage  # a passage that is its own document has no other passages
    lifted = np.arange(len(graph.nodes))  # passages of this part as their documents
    if is_own_passage.any():
        home = document_node[numbers[node_rows[is_own_passage]]]
        lifted[is_own_passage] = np.where(home >= 0, home, lifted[is_own_passage])
    sources, targets = graph.sources(), graph.indices
    size = len(graph.nodes)

    def key(source: Integers, target: Integers) -> Integers:
        return np.asarray((graph.relation.astype(np.int64) * size + source) * size + target)

    lifted_keys, keys = key(lifted[sources], lifted[targets]), key(sources, targets)
    # an edge between documents comes from its source; any other edge may come from either end
    by_source = is_divided[sources] & ~is_own_passage[targets]
    by_target = is_divided[targets] & ~is_own_passage[sources] & ~is_document[sources]
    foreign = by_source & ~np.isin(keys, lifted_keys[is_own_passage[sources]])
    return ~(foreign | (by_target & ~np.isin(keys, lifted_keys[is_own_passage[targets]])))


def _evident_edges(
    graph: Graph, concepts: Mapping[str, Concept], row_of: Mapping[str, int], edges: Iterable[Edge]
) -> Mask:
    """All edges except those between concepts for which no passage of the part is evidence."""
    evident = {
        (edge.source, edge.relation, edge.target)
        for edge in edges
        if edge.source in concepts and edge.target in concepts and (not edge.evidence or edge.evidence in row_of)
    }
    is_concept = np.fromiter((node in concepts for node in graph.nodes), bool, len(graph.nodes))
    sources = graph.sources()
    stays = np.ones(len(graph.indices), bool)
    for edge in np.flatnonzero(is_concept[sources] & is_concept[graph.indices]).tolist():
        ends = graph.nodes[int(sources[edge])], graph.nodes[int(graph.indices[edge])]
        stays[edge] = (ends[0], graph.relations[int(graph.relation[edge])], ends[1]) in evident
    return stays
