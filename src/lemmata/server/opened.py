"""One state of a workspace, opened whole: it goes on answering while the workspace is rebuilt.

Everything that requests share is opened before the first one, so that later changes on disk do not matter.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lemmata.core.artefacts import Artefact, artefacts, is_usable
from lemmata.core.errors import WorkspaceError
from lemmata.core.trust import trusted_file
from lemmata.core.types import HEADING, INSERTED, Concept, Document, Edge, Encoder, Passage
from lemmata.core.workspace import Workspace, vector_sets
from lemmata.corpus.contents import chapter_places, headings, is_book
from lemmata.graph.concepts.rank import rank_concepts
from lemmata.graph.lengths import with_edges
from lemmata.graph.store import GraphRecordStore, StoredGraph, concept_passages, open_graph
from lemmata.latex.readable import readable
from lemmata.llm.chat import Chat
from lemmata.plant.link import PREDICTED
from lemmata.project import Project
from lemmata.search.bridge import BridgeGraph, open_bridge_graph
from lemmata.search.hints import missing_part, words_only
from lemmata.search.map import StoredMap, open_map
from lemmata.search.names import parse_retriever, split_reranker
from lemmata.search.retriever import Retriever
from lemmata.search.summaries.store import open_summaries
from lemmata.server.cache import cached
from lemmata.server.mathml import title_html
from lemmata.server.references import name_works, work_name

_WATCHED = ("lemmata.toml", "synonyms.txt", "corpus/manifest.json", "index/*.json", "index/lexical/manifest.json")
_WATCHED_BELOW = ("index/dense", "graph")
_WATCHED_NAMES = {"manifest.json", "fusion.json"}
_SERVED = ("graph", "lengths", "map", "summaries")  # kinds of artefacts that search does not need
_CACHED_DOCUMENTS = 1 << 24  # characters
_STRUCTURE = ("part_of", "next")
_MOST_ORDERS = 64  # documents whose order is in memory


State = tuple[tuple[str, int, int], ...]


def state_of(workspace: Workspace) -> State:
    """Name, time and size of every file that tells that a workspace was changed, or what its user trusts."""
    files = [trusted_file(), *(path for pattern in _WATCHED for path in workspace.root.glob(pattern))]
    for below in _WATCHED_BELOW:
        for folder, _, names in os.walk(workspace.root / below):  # leaves out a folder that is replaced at this moment
            files += [Path(folder, name) for name in _WATCHED_NAMES.intersection(names)]
    found = []
    for path in files:
        with contextlib.suppress(OSError):  # replaced as well: the next look sees it
            status = path.stat()
            found.append((os.fspath(path), status.st_mtime_ns, status.st_size))
    return tuple(sorted(found))


class KnownName(NamedTuple):
    """Something that can be named in the box of the page."""

    folded: str  # a blank in front of every word
    what: str  # concept, title, document, author, location
    name: str
    id: str  # of an author the name
    kind: str


def is_outdated(workspace: Workspace, item: Artefact) -> bool:
    """Whether something is there that no longer fits the workspace."""
    return item.manifest.exists() and not is_usable(workspace, item)


class OpenedGraph(NamedTuple):
    """The graph of a workspace with what requests look up in it."""

    stored: StoredGraph
    bridges: BridgeGraph | None  # None without vectors of this graph
    node_of: Mapping[str, int]
    records: GraphRecordStore
    passages: Mapping[str, list[str]]  # of each concept
    definitions: Mapping[str, str]  # of each concept the first passage that defines it
    concepts: tuple[Concept, ...]  # the most telling first
    names: tuple[str, ...]  # all names of each of `concepts`, casefolded, a blank in front of every word


@dataclass(slots=True)
class Place:
    """A location of a plant."""

    title: str
    above: str | None  # id of the location that it is part of
    parts: list[str] = field(default_factory=list)  # ids of those that are part of it, by id
    logs: int = 0  # about it, or about what is below it


def _way_to(location: str, tree: Mapping[str, Place]) -> list[str]:
    way: list[str] = []
    place: str | None = location
    while place is not None and place in tree and place not in way:
        way.append(place)
        place = tree[place].above
    return way[::-1]


class Opened:
    """A workspace, opened for many threads; `close` it when nobody uses it."""

    def __init__(self, project: Project, generation: int) -> None:
        self.project, self.generation = project, generation
        self.workspace = project
        self.users = 0  # requests in progress, counted by Service
        self._loading = threading.Lock()
        self._closing = contextlib.ExitStack()
        self._chat: Chat | None = None
        self.bridge_examples: list[list[dict[str, str]]] | None = None  # likewise
        self.map_record: dict[str, Any] | None = None  # once it was asked for
        self.start_record: dict[str, Any] | None = None  # likewise
        self.starting = threading.Lock()  # held by who makes it
        try:
            self.retriever: Retriever = self._closing.enter_context(project.retriever())
            self._open_all()
        except BaseException:
            self.close()
            raise

    def _open_all(self) -> None:
        corpus = self.retriever.corpus
        self.tokenizer = self.retriever.lexical.tokenizer
        self.note = words_only(self.retriever)
        self.encoders = [vectors.encoder for vectors in vector_sets(self.workspace) if vectors.manifest.exists()]
        self.document = cached(_CACHED_DOCUMENTS)(corpus.document)  # by id; KeyError where there is none
        self.order_of = functools.lru_cache(_MOST_ORDERS)(self._order_of)
        self.chapters_of = functools.lru_cache(_MOST_ORDERS)(self._chapters_of)
        self.contents_of = functools.lru_cache(_MOST_ORDERS)(self._contents_of)
        self.works_of = functools.lru_cache(_MOST_ORDERS)(self._works_of)
        self.retriever.search("of", 1)  # opens all that a search needs
        self.problems: list[str] = [*filter(None, [missing_part(self.retriever)])]
        self.graph = self._open_graph()
        try:
            self.map: StoredMap | str = open_map(self.workspace, corpus.digest)
        except WorkspaceError as error:
            self.map = str(error)  # not a problem: nobody needs one
        try:
            self.summaries = open_summaries(self.workspace, corpus.digest)
        except WorkspaceError as error:
            self.summaries = None
            self.problems.append(str(error))
        self.served = [
            item for item in artefacts(self.workspace) if item.kind in _SERVED and is_usable(self.workspace, item)
        ]
        self.kinds = {item.kind for item in self.served}

    def _open_graph(self) -> OpenedGraph | None:
        try:
            stored = open_graph(self.workspace)
        except WorkspaceError as error:
            self.problems.append(str(error))
            return None
        bridges = None
        try:
            bridges = open_bridge_graph(self.workspace, stored)
            _ = self.retriever.dense().paths
        except WorkspaceError as error:
            self.problems.append(str(error))
        kinds = self.retriever.corpus.table("kind")
        passages, definitions = concept_passages(
            stored, {row for row, (kind,) in enumerate(kinds) if kind == "definition"}
        )
        ranked = rank_concepts(stored, passages)
        names = ("\n".join(f" {name}" for name in (concept.name, *concept.aliases)).casefold() for concept in ranked)
        node_of = {name: node for node, name in enumerate(stored.graph.nodes)}
        records = self._closing.enter_context(GraphRecordStore(self.workspace))
        return OpenedGraph(
            stored,
            bridges,
            node_of,
            records,
            passages,
            definitions,
            tuple(ranked),
            tuple(names),
        )

    def needed_graph(self) -> OpenedGraph:
        """The graph; WorkspaceError with the cure where there is none."""
        if self.graph is None:
            raise WorkspaceError(self.problems[0])
        return self.graph

    def bridge_graph(self) -> BridgeGraph:
        """The graph with the lengths of its edges; WorkspaceError with the cure where one of them is missing."""
        graph = self.needed_graph()
        if graph.bridges is None:
            raise WorkspaceError(self.problems[0])
        return graph.bridges

    @functools.cached_property
    def linked_graph(self) -> BridgeGraph:
        """The same without edges that say only where a passage stands: they connect whatever is in one document."""
        whole = self.bridge_graph()
        graph, rows = whole.stored.graph, np.asarray(whole.stored.rows)
        codes = [code for code, name in enumerate(graph.relations) if name in _STRUCTURE]
        says_little = np.isin(graph.relation, codes) & (rows[graph.sources()] >= 0)
        return whole._replace(measured=with_edges(whole.measured, ~says_little))

    def prepare(self, retriever: str) -> None:
        """Load what a retriever needs beyond the default, in one thread; its name is checked."""
        _, reranked, model = split_reranker(retriever)
        encoder = parse_retriever(retriever)[1]
        if encoder or reranked:
            with self._loading:
                side = self.retriever.dense(encoder)
                _ = side.encoder, side.query_index
                if reranked:
                    self.retriever.rerankers.open(model)

    def encoder(self, name: str) -> Encoder:
        """One of `encoders`, loaded."""
        with self._loading:
            return self.retriever.dense(name if name != self.encoders[0] else "").encoder

    def chat(self) -> Chat | None:
        """The language model that is configured; None without one."""
        with self._loading:
            if self._chat is None and (chat := self.project.chat()) is not None:
                self._closing.callback(chat.close)
                self._chat = chat
            return self._chat

    def date_of(self, document: str) -> str | None:
        """The date of a document."""
        return self.document(document).date

    def passage_rows(self, ids: list[str]) -> dict[str, int]:
        """The rows of those ids that are passages."""
        rows = {}
        for identity in ids:
            with contextlib.suppress(KeyError):
                rows[identity] = self.retriever.corpus.row(identity)
        return rows

    def known_document(self, identity: str) -> Document | None:
        """The document of an id; None where there is none."""
        try:
            return self.document(identity)
        except KeyError:
            return None

    @functools.cached_property
    def outline(self) -> list[tuple[str, int]]:
        """Id and number of passages of every document, by id, without locations."""
        return [(record["id"], record["passages"]) for record in self.retriever.corpus.document_records()]

    def _order_of(self, document: str) -> list[int]:
        """The rows of a document as it is read: a text chunk, stored after all statements, stands where it begins."""
        records = list(self.retriever.corpus.passage_records(document=document))
        if not records:
            return []
        row_of = self.passage_rows([record["id"] for record in records])
        stated = [place for place, record in enumerate(records) if record["kind"] != "chunk"]
        in_file: dict[str, list[int]] = {}
        for number, place in enumerate(stated):
            in_file.setdefault(records[place]["file"], []).append(number)
        chunks: dict[int, list[int]] = {}  # by the number of statements before them
        before = 0
        for place, record in enumerate(records):
            if record["kind"] != "chunk":
                continue
            if numbers := in_file.get(record["file"]):
                above = bisect.bisect(numbers, record["line"], key=lambda number: records[stated[number]]["line"])
                before = numbers[above - 1] + 1 if above else numbers[0]
            chunks.setdefault(before, []).append(place)
        ordered = list(chunks.get(0, ()))
        for number, place in enumerate(stated, 1):
            ordered += [place, *chunks.get(number, ())]
        return [row_of[records[place]["id"]] for place in ordered]

    def _works_of(self, document: str) -> dict[str, tuple[str, str]]:
        """Name and whole entry of each work in the bibliography of a document, by key."""
        entries = self.retriever.corpus.bibliography_records(document=document)
        return {entry["key"]: (work_name(entry), entry["text"]) for entry in entries}

    def readable_text(
        self, passage: Passage, text: str, part: str = "text", links: Iterable[tuple[int, int, str]] = ()
    ) -> tuple[str, list[tuple[int, int, str]]]:
        """The text or the proof of a passage with names in place of the keys of cited works, and its links in it."""
        inserted = passage.metadata.get(INSERTED)
        spans = inserted.get(part, ()) if isinstance(inserted, dict) else ()
        works = self.works_of(passage.document) if any(link.relation == "cites" for link in passage.links) else {}
        return name_works(text, spans, {key: name for key, (name, _) in works.items()}, links)

    def title_of(self, passage: Passage) -> str:
        """The title of a passage; of a part of a text, such as a manual, the heading that it stands below."""
        if passage.title or passage.kind != "chunk" or self.document(passage.document).kind != "text":
            return passage.title
        return passage.section.rpartition(" / ")[2]

    def where_of(self, passage: Passage) -> str:
        """The title of the document that a passage stands in, or of the location of a log, formulas as characters."""
        if passage.kind != "log":
            return readable(self.document(passage.document).title)
        places = [self.tree.get(f"location:{name}") for name in passage.locations[:1]]
        return next((place.title for place in places if place), "") or "".join(passage.locations[:1])

    def _contents_of(self, document: str) -> list[dict[str, Any]]:
        """The headings of a document, each with the place of the first passage below it and the number of them."""
        contents = headings(self.document(document))
        rows = self.order_of(document) if contents else []
        counts, first = [0] * len(contents), [len(rows)] * len(contents)
        for place, passage in enumerate(self.retriever.corpus.passages(rows)):
            heading = passage.metadata.get(HEADING, -1)
            if 0 <= heading < len(contents):
                counts[heading] += 1
                first[heading] = min(first[heading], place)
        for heading in range(len(contents) - 2, -1, -1):  # one without passages begins where the next one does
            first[heading] = min(first[heading], first[heading + 1])
        return [
            {**heading._asdict(), "title_html": title_html(heading.title), "place": place, "passages": count}
            for heading, place, count in zip(contents, first, counts, strict=True)
        ]

    @functools.cached_property
    def tree(self) -> dict[str, Place]:
        """The locations by id."""
        corpus = self.retriever.corpus
        if not corpus.locations():
            return {}
        tree: dict[str, Place] = {}
        for document in corpus.documents(kind="location", links=True):
            above = next((link.target for link in document.links if link.relation == "part_of"), None)
            tree[document.id] = Place(document.title, above)
        for identity, place in tree.items():
            if place.above in tree:
                tree[place.above].parts.append(identity)
        for target, count in Counter(target for _, target in corpus.linked("reports_about")).items():
            for identity in _way_to(target, tree):
                tree[identity].logs += count
        return tree

    @functools.cached_property
    def predicted(self) -> dict[str, list[Edge]]:
        """The predicted links by each of their ends."""
        links: dict[str, list[Edge]] = {}
        for edge in self.graph.records.edges_from(PREDICTED) if self.graph else ():
            links.setdefault(edge.source, []).append(edge)
            links.setdefault(edge.target, []).append(edge)
        return links

    @functools.cached_property
    def names(self) -> list[KnownName]:
        """Concepts, the most telling first, then titles, documents, authors and locations."""
        corpus = self.retriever.corpus
        concepts = self.graph.concepts if self.graph else ()
        names = [("concept", name, one.id, "concept") for one in concepts for name in (one.name, *one.aliases)]
        names += [
            ("title", title, identity, kind) for identity, kind, title in corpus.table("id", "kind", "title") if title
        ]
        names += [("document", one.title, one.id, one.kind) for one in corpus.documents() if one.kind != "location"]
        names += [("author", name, name, "author") for name in corpus.authors()]
        for identity, place in self.tree.items():
            code = identity.removeprefix("location:")
            names.append(("location", f"{code} {place.title}".strip(), identity, "location"))
        return [
            KnownName(f" {name.replace('-', ' ')}".casefold(), what, name, identity, kind)
            for what, name, identity, kind in names
            if name
        ]

    def chapter_of(self, passage: Passage) -> str:
        """The title of the chapter that a passage of a book stands in; empty in what is no book."""
        chapters = self.chapters_of(passage.document)
        place = passage.metadata.get(HEADING, -1)
        return chapters[place] if 0 <= place < len(chapters) else ""

    def part_of(self, row: int) -> tuple[str, str]:
        """What a passage stands in: its document, and its chapter of a book."""
        passage = self.retriever.corpus[row]
        return passage.document, self.chapter_of(passage)

    def _chapters_of(self, document: str) -> list[str]:
        """Of each heading of a book the title of its chapter."""
        contents = headings(self.document(document))
        places = chapter_places(contents) if is_book(contents) else []
        return [contents[place].title or contents[place].number if place >= 0 else "" for place in places]

    def way_to(self, location: str) -> list[str]:
        """The ids of the locations from the root to this one; none for one that is not in the tree."""
        return _way_to(location, self.tree)

    @functools.cached_property
    def sections(self) -> list[str]:
        """The ids of the largest parts of a plant: the roots of its tree, or what is below a single one."""
        roots = sorted(identity for identity, place in self.tree.items() if place.above not in self.tree)
        return self.tree[roots[0]].parts if len(roots) == 1 and self.tree[roots[0]].parts else roots

    @functools.cached_property
    def info(self) -> dict[str, Any]:
        """As `lemmata info` has it."""
        return self.project.info()

    def close(self) -> None:
        self._closing.close()
        for name in (
            "order_of",
            "chapters_of",
            "contents_of",
            "works_of",
        ):  # they hold this state, whose memory would wait for gc
            vars(self).pop(name, None)
