"""A workspace and its verbs as JSON-able records, for many threads; a rebuilt workspace replaces the old one.

REST, MCP and the page call these methods and nothing below them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lemmata.config import suggest
from lemmata.errors import LemmataError
from lemmata.project import Project
from lemmata.search import RETRIEVERS, Filter, split_reranker
from lemmata.server import views
from lemmata.server.mathml import excerpt_html
from lemmata.server.opened import Opened, state_of
from lemmata.server.records import hit_records

__all__ = ["DEEPEST", "Service"]

DEEPEST = 1000  # hits that can be reached by paging
_FACET_HITS = 200
_MOST_RERANKED = 100


class Service:
    """One workspace; `refresh` takes over a rebuilt one, without disturbing requests in progress."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._lock = threading.Lock()
        self._state = state_of(Project(folder).layout)
        self._seen = self._state
        self._current = Opened(Project(folder), 1)
        self.reload_problem = ""  # why a rebuilt workspace is not used yet

    def close(self) -> None:
        self._current.close()

    @contextlib.contextmanager
    def opened(self) -> Iterator[Opened]:
        """The present state; it stays open until the block ends, whatever happens to the workspace."""
        with self._lock:
            opened = self._current
            opened.users += 1
        try:
            yield opened
        finally:
            with self._lock:
                opened.users -= 1
                unused = not opened.users and opened is not self._current
            if unused:
                opened.close()

    @property
    def generation(self) -> int:
        """1 for the first state, one more for each that replaced it."""
        return self._current.generation

    def refresh(self) -> bool:
        """Open the workspace again if it was rebuilt; whether it was. Call it from one thread, every second or so.

        A state that is being written, or cannot be searched yet, is left alone: the old one goes on answering.
        """
        layout = self._current.layout
        state = state_of(layout)
        settled, self._seen = state == self._seen, state
        if state == self._state or not settled or layout.indexing.exists() or layout.incoming.exists():
            return False
        try:
            opened = Opened(Project(self.folder), self._current.generation + 1)
        except LemmataError as error:
            self.reload_problem = str(error)
            self._state = state  # tried; the next change is tried again
            return False
        with self._lock:
            old, self._current = self._current, opened
            unused = not old.users
        self._state, self.reload_problem = state, ""
        if unused:
            old.close()
        return True

    # ------------------------------------------------------------ search

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        offset: int = 0,
        retriever: str = "auto",
        paths: bool = False,
        diversity: float = 0.0,
        facets: bool = False,
        html: bool = False,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the word of the API
    ) -> dict[str, Any]:
        """The hits from `offset` on; `facets` are counted over the first 200 hits."""
        started = time.perf_counter()
        if not query.strip():
            raise LemmataError("the query is empty: write what to search for")
        with self.opened() as opened:
            _check_retriever(opened, retriever)
            wanted = offset + k + 1
            hits = opened.retriever.search(
                query,
                max(wanted, _FACET_HITS) if facets else wanted,
                retriever=retriever,
                only=_filter(filter or {}),
                diversity=diversity,
                paths=paths,
            )
            page = hits[offset : offset + k]
            records = hit_records(page, opened.date_of, first_rank=offset + 1)
            if html:
                tokenizer = opened.retriever.lexical.tokenizer
                for record in records:
                    record["html"] = excerpt_html(record["text"], query, tokenizer)
            more = len(hits) > offset + k and offset + k < DEEPEST
            return {
                "query": query,
                "retriever": retriever,
                "hits": records,
                **({"facets": views.facets(opened, hits[:_FACET_HITS])} if facets else {}),
                "note": opened.note if retriever == "auto" else "",
                "took_ms": round(1000 * (time.perf_counter() - started), 3),
                "next_offset": offset + k if more else None,
                "generation": opened.generation,
            }

    def similar(self, identity: str, k: int = 10, *, html: bool = False) -> dict[str, Any]:
        """The passages nearest to a passage."""
        with self.opened() as opened:
            text = views.passage_of(opened, identity).text
            records = hit_records(opened.retriever.similar(identity, k), opened.date_of)
            if html:
                tokenizer = opened.retriever.lexical.tokenizer
                for record in records:
                    record["html"] = excerpt_html(record["text"], text, tokenizer)
            return {"id": identity, "hits": records, "generation": opened.generation}

    # ------------------------------------------------------------ one thing

    def passage(self, identity: str) -> dict[str, Any]:
        """Everything about a passage."""
        with self.opened() as opened:
            return views.passage(opened, identity)

    # ------------------------------------------------------------ the workspace

    def health(self) -> dict[str, Any]:
        """What is served, and whether all of it is in order."""
        with self.opened() as opened:
            return {
                "status": "ok",
                "generation": opened.generation,
                "passages": len(opened.retriever.corpus),
                "retrievers": list(RETRIEVERS),
                "encoders": opened.encoders,
                "note": opened.note,
                "graph": opened.problem or "ok",
                "reload_problem": self.reload_problem,
            }


def _filter(only: Mapping[str, Any]) -> Filter:
    names = ("kinds", "documents", "categories", "locations")
    return Filter(
        **{name: tuple(only.get(name, ())) for name in names},
        since=only.get("since", ""),
        until=only.get("until", ""),
        where=tuple(only.get("where", {}).items()),
    )


def _check_retriever(opened: Opened, name: str) -> None:
    """Refuse what the workspace does not have: a name may not make the server load a file or call an address."""
    base, number, model = split_reranker(name)
    _kind, _, encoder = base.partition(":")
    if encoder and encoder not in opened.encoders:
        raise LemmataError(f"there are no vectors of {encoder!r}{suggest(encoder, opened.encoders)}")
    if number > _MOST_RERANKED:
        raise LemmataError(f"{name!r} reranks too many hits: rerank at most {_MOST_RERANKED}")
    models = opened.project.models() if model else {}
    if model and model not in models:
        raise LemmataError(f"there is no reranker {model!r} in the workspace{suggest(model, list(models))}")
