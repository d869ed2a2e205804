"""One state of a workspace, opened whole: it goes on answering while the workspace is rebuilt.

Everything is opened before the first request, so that later changes on disk do not matter and threads only read.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lemmata.errors import WorkspaceError
from lemmata.project import Project
from lemmata.search import Retriever
from lemmata.store.graph import StoredGraph, concept_passages
from lemmata.store.layout import Layout
from lemmata.store.vector_sets import vector_sets
from lemmata.types import Concept, Document, MeasuredGraph

__all__ = ["Opened", "OpenedGraph", "state_of"]

_WATCHED = ("lemmata.toml", "corpus/manifest.json", "index/*.json", "index/lexical/manifest.json")
_WATCHED_BELOW = ("index/dense", "graph", "map")


def state_of(layout: Layout) -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of every file that tells that a workspace was changed; equal for an unchanged one."""
    files = [path for pattern in _WATCHED for path in layout.root.glob(pattern)]
    for folder in _WATCHED_BELOW:
        files += (layout.root / folder).rglob("manifest.json")
        files += (layout.root / folder).rglob("fusion.json")
    found = []
    for path in files:
        try:
            status = path.stat()
        except OSError:  # replaced at this moment: the next look sees it
            continue
        found.append((os.fspath(path), status.st_mtime_ns, status.st_size))
    return tuple(sorted(found))


class OpenedGraph(NamedTuple):
    """The graph of a workspace with what requests look up in it."""

    stored: StoredGraph
    measured: MeasuredGraph | None  # None without vectors of this graph
    node_of: Mapping[str, int]
    passages: Mapping[str, list[str]]  # of each concept
    definitions: Mapping[str, str]  # of each concept the first passage that defines it
    concepts: tuple[Concept, ...]  # the most mentioned first


class Opened:
    """A workspace, opened for many threads; `close` it when nobody uses it."""

    def __init__(self, project: Project, generation: int) -> None:
        self.project, self.generation = project, generation
        self.layout = project.layout
        self.users = 0  # requests in progress; kept by Service
        self.retriever: Retriever = project.retriever()
        try:
            self._open_all()
        except BaseException:
            self.close()
            raise

    def _open_all(self) -> None:
        retriever = self.retriever
        retriever.lexical.tokenizer("warm")
        self.note = retriever.words_only
        self.encoders = [vectors.encoder for vectors in vector_sets(self.layout) if vectors.manifest.exists()]
        _ = retriever.citations, retriever.corpus[0]
        if not self.note:
            retriever.search("warm", 1, retriever="hybrid")
            _ = retriever.fusion
        self.problem = ""  # why there is no graph
        self.graph = self._open_graph()

    def _open_graph(self) -> OpenedGraph | None:
        from lemmata.store.graph import open_graph
        from lemmata.store.lengths import open_lengths

        try:
            stored = open_graph(self.layout)
        except WorkspaceError as error:
            self.problem = str(error)
            return None
        measured = None
        try:
            measured = open_lengths(self.layout)
            _ = self.retriever.dense().paths
        except WorkspaceError as error:
            self.problem = str(error)
        passages, definitions = concept_passages(stored)
        ranked = sorted(stored.concepts.values(), key=lambda one: (-len(passages.get(one.id, ())), one.id))
        node_of = {name: node for node, name in enumerate(stored.graph.nodes)}
        return OpenedGraph(stored, measured, node_of, passages, definitions, tuple(ranked))

    def needed_graph(self) -> OpenedGraph:
        """The graph; WorkspaceError with the cure where there is none."""
        if self.graph is None:
            raise WorkspaceError(self.problem)
        return self.graph

    @functools.cached_property
    def document(self) -> functools._lru_cache_wrapper[Document]:
        """A document by id, cached; KeyError where there is none."""
        return functools.lru_cache(maxsize=1 << 14)(self.retriever.corpus.document)

    def date_of(self, document: str) -> str | None:
        """The date of a document."""
        return self.document(document).date

    @property
    def root(self) -> Path:
        return self.layout.root

    def close(self) -> None:
        self.retriever.close()
