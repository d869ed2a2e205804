"""A workspace and its verbs as JSON-able records, for many threads; a rebuilt workspace replaces the old one.

REST, MCP and the page call these methods and nothing below them.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import inspect
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from lemmata.core.errors import InputError, LemmataError, WorkspaceError, suggest
from lemmata.core.files import release_memory
from lemmata.core.records import Described, as_json
from lemmata.core.types import Floats, Hit
from lemmata.core.workspace import Workspace
from lemmata.encode.onnx import normalised
from lemmata.evaluate.judgments import JudgmentLog, Mark
from lemmata.llm.endpoint import Budget
from lemmata.plant.link import confirm_link
from lemmata.project import Project
from lemmata.search.ask import AnswerOptions, Event, answer, chat_or_refusal, without_citations
from lemmata.search.confidence import NOTHING, confidence_of, matches_badly
from lemmata.search.encoder_index import LONGEST_QUERY
from lemmata.search.exact import missing_number
from lemmata.search.filter import Filter, Name
from lemmata.search.hints import dated, did_you_mean, foreign
from lemmata.search.names import NAMES, RETRIEVERS, parse_retriever, split_reranker
from lemmata.search.query import SYNTAX
from lemmata.search.rerankers import trained_rerankers
from lemmata.server import entrance, plant, views
from lemmata.server import map as passage_map
from lemmata.server.background import Background
from lemmata.server.deadline import check_time
from lemmata.server.folder import shown_name
from lemmata.server.mathml import excerpt_html, inline_html, name_of, title_html
from lemmata.server.opened import Opened, State, is_outdated, state_of
from lemmata.server.quality import quality
from lemmata.server.records import (
    DEEPEST,
    MOST_HITS,
    End,
    HitCount,
    Html,
    Id,
    SimilarRetriever,
    Text,
    WithPaths,
    hit_records,
    short_text,
)

# seconds without a change after which a state is served that is not up to date in all: with another corpus, for which
# people run several commands, and with the same one
_PATIENCE, _SHORT_PATIENCE = 60.0, 5.0
_FACET_HITS = 200
_MOST_RERANKED = 100
_MOST_SKIPS = 200
_EXCERPT = 320  # characters
_MOST_CHARACTERS = 1 << 18  # of all texts of a request for vectors
_ENCODED_AT_ONCE = 16  # texts, between two looks at the time
_CHARACTERS_PER_TOKEN = 4  # for the usage that OpenAI's format asks for

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
Diversity = Annotated[float, Described("0: most relevant; up to 1: most varied.", 0, 1)]


_asks_before: ContextVar[bool] = ContextVar("asks_before", default=False)  # whether `opened` gives the state before


def _or_as_before(
    method: Callable[Concatenate[Service, Arguments], Answer],
) -> Callable[Concatenate[Service, Arguments], Answer]:
    """A method that answers by the last complete state while the present one lacks what is being made again."""

    @functools.wraps(method)
    def answer(service: Service, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Answer:
        try:
            return method(service, *arguments, **named)
        except WorkspaceError as error:
            token = _asks_before.set(True)
            try:
                return method(service, *arguments, **named)
            except LemmataError:  # nor has the state before it
                raise error from None
            finally:
                _asks_before.reset(token)

    return answer


def _answered_by(
    view: Callable[Concatenate[Opened, Arguments], dict[str, Any]],
) -> Callable[Concatenate[Service, Arguments], dict[str, Any]]:
    """A method that gives a view of the present state, with its generation."""

    @_or_as_before
    @functools.wraps(view)
    def method(service: Service, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> dict[str, Any]:
        with service.opened() as opened:
            return {**view(opened, *arguments, **named), "generation": opened.generation}

    itself, *others = inspect.signature(view).parameters.values()
    vars(method)["__signature__"] = inspect.Signature([itself.replace(name="self"), *others])
    return method


class NotReady(WorkspaceError):  # noqa: N818 - says what is so
    """What was asked for is still being made."""


class Service:
    """One workspace; `refresh` takes over a rebuilt one, without disturbing requests in progress.

    With a `background` that makes it, it need not be searchable yet.
    """

    def __init__(self, folder: str | Path, background: Background | None = None) -> None:
        self.folder = Path(folder)
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()
        self._state = state_of(Project(folder))
        self._seen = self._state
        self._changed = 0.0  # when the workspace was last seen to change
        self._current: Opened | None = None
        self._before: Opened | None = None  # the last complete state, while the present one is not
        self._budgets: dict[AnswerOptions, Budget] = {}
        self._judgments = JudgmentLog(Project(folder))
        self.reload_problem = ""  # why a rebuilt workspace is not used yet
        self.log_problem = ""  # why the last search is not in the log
        self.background = background
        self.ready = threading.Event()  # once there is something to search
        if background is None:
            self._current = Opened(Project(folder), 1)
            self.ready.set()
        else:
            background.step_done = self._take_over
            self._take_over()

    def close(self) -> None:
        if self.background is not None:
            self.background.stop()
        self._judgments.close()
        for opened in filter(None, (self._current, self._before)):
            opened.close()

    @property
    def _line(self) -> str:
        """What the background is doing; empty where nothing is being made."""
        return self.background.line if self.background else ""

    @contextlib.contextmanager
    def opened(self) -> Iterator[Opened]:
        """The present state; it stays open until the block ends, whatever happens to the workspace.

        NotReady where there is none yet, or where the block misses something that is being made.
        """
        with self._lock:
            opened = self._before if _asks_before.get() else self._current
            if opened is not None:
                opened.users += 1
        if opened is None:
            causes = [*(self.background.problems if self.background else []), self.reload_problem]
            raise NotReady(f"nothing can be searched yet: {self._line or next(filter(None, causes), '')}")
        try:
            yield opened
        except WorkspaceError as error:
            if line := self._line:
                raise NotReady(f"{str(error).partition(':')[0]}: {line}") from error
            raise
        finally:
            with self._lock:
                opened.users -= 1
                unused = not opened.users and opened not in (self._current, self._before)
            if unused:
                opened.close()

    @property
    def generation(self) -> int:
        """1 for the first state, one more for each that replaced it."""
        return self._current.generation if self._current else 0

    def refresh(self) -> bool:
        """Open the workspace again if it was rebuilt; whether it was. Call it every second or so.

        A state that is being written, or cannot be searched yet, is left alone: the old one goes on answering. So is,
        for some time, one in which something that is served is out of date: the command that renews it may follow.
        """
        with self._refreshing:
            layout = Workspace(self.folder)
            state = state_of(layout)
            settled, self._seen = state == self._seen, state
            self._changed = self._changed if settled else time.monotonic()
            if state == self._state or not settled or layout.indexing.exists() or layout.incoming.exists():
                return False
            return False if self._may_be_renewed(layout) else self._open(state)

    def _may_be_renewed(self, layout: Workspace) -> bool:
        """Whether a command may soon renew something that is served and out of date."""
        unchanged = time.monotonic() - self._changed
        served = self._current.served if self._current and unchanged < _PATIENCE else []
        outdated = [item for item in served if is_outdated(layout, item)]
        is_new_corpus = any("corpus" in item.inputs for item in outdated)
        return bool(outdated) and (is_new_corpus or unchanged < _SHORT_PATIENCE or layout.is_held())

    def _take_over(self) -> None:
        """Open what the background has just finished: nothing writes to it at this moment."""
        with self._refreshing:
            state = state_of(Workspace(self.folder))
            if self._current is None or state != self._state:
                self._open(state)

    def _open(self, state: State) -> bool:
        """Whether the workspace can be opened; if so, it answers from now on."""
        try:
            opened = Opened(Project(self.folder), self.generation + 1)
        except LemmataError as error:
            self.reload_problem = str(error)
            self._state = state  # tried; the next change is tried again
            return False
        unused = self._replace(opened)
        self._state, self.reload_problem = state, ""
        self._judgments.level = JudgmentLog(opened.workspace).level  # a setting
        self.ready.set()
        while unused:  # a variable would keep the last one in memory
            unused.pop().close()
        release_memory()
        return True

    def _replace(self, opened: Opened) -> list[Opened]:
        """Answer by another state from now on; returns those that nobody uses any more."""
        with self._lock:
            before = {self._current, self._before}
            complete = self._before or self._current
            is_kept = self.background and complete and complete.kinds - opened.kinds  # it makes what is missing
            self._before = complete if is_kept else None
            self._current = opened
            return [old for old in before - {self._before} if old and not old.users]

    # ------------------------------------------------------------ search

    @_or_as_before
    def search(
        self,
        query: Annotated[str, Described(f"What to search for. {SYNTAX}", 1, LONGEST_QUERY)],
        k: HitCount = 10,
        *,
        offset: Annotated[int, Described("Hits to leave out.", 0, DEEPEST - MOST_HITS)] = 0,
        retriever: Annotated[str, Described(f"{NAMES}.", most=200)] = "auto",
        paths: WithPaths = False,
        diversity: Diversity = 0.0,
        facets: Annotated[bool, Described("Whether the first 200 hits are counted.")] = False,
        html: Html = False,
        log: Annotated[bool, Described("Whether the local log of judgments may keep the query.")] = True,
        filter: Filter | None = None,  # noqa: A002 - the word of the API
    ) -> dict[str, Any]:
        """Search the corpus."""
        started = time.perf_counter()
        if not query.strip():
            raise LemmataError("the query is empty: write what to search for")
        with self.opened() as opened:
            _check_retriever(opened, retriever)
            opened.prepare(retriever)
            kind, encoder = parse_retriever(retriever)
            wanted = offset + k + 1
            hits = opened.retriever.search(
                query,
                max(wanted, _FACET_HITS) if facets else wanted,
                retriever=retriever,
                filter=filter,
                diversity=diversity,
                paths=paths,
            )
            page = hits[offset : offset + k]
            words = opened.retriever.read_query(query).text

            def excerpt(text: str) -> str:
                return excerpt_html(text, words, opened.tokenizer)

            more = len(hits) > offset + k and offset + k < DEEPEST
            marks = self._noted(query, [hit.id for hit in page], offset, log=log)
            notes = [
                dated(opened.retriever, query),
                missing_number(opened.retriever.corpus, words)
                or foreign(opened.retriever, words)
                or (NOTHING if matches_badly(hits) else ""),
                self._note(opened) if kind == "auto" and not encoder else "",
            ]
            return {
                "query": query,
                "retriever": retriever,
                "confidence": confidence_of(hits),
                "hits": _hit_records(opened, page, excerpt if html else None, first_rank=offset + 1),
                "marks": marks,
                **({"nodes": views.nodes(opened, _on_paths(page))} if paths or RETRIEVERS[kind].by_paths else {}),
                **({"facets": views.facets(opened, hits[:_FACET_HITS])} if facets else {}),
                "note": "; ".join(note for note in notes if note),
                "did_you_mean": did_you_mean(opened.retriever, query, hits),
                "also": opened.retriever.also_searched(words),
                "took_ms": round(1000 * (time.perf_counter() - started), 3),
                "next_offset": offset + k if more else None,
                "generation": opened.generation,
            }

    def _noted(self, query: str, shown: list[str], offset: int, *, log: bool) -> dict[str, str]:
        """Log a search; returns the marks of the hits that are shown. A log that cannot be written stops no search."""
        try:
            if log:
                self._judgments.searched(query, shown, offset)
            marks = self._judgments.marks_of(query)
        except LemmataError as error:
            self.log_problem = str(error)
            return {}
        self.log_problem = ""
        return {identity: marks[identity] for identity in shown if identity in marks}

    def mark(
        self,
        query: Annotated[str, Described("The query that found the passage.", 1, LONGEST_QUERY)],
        id: Id,  # noqa: A002 - the word of the API
        mark: Annotated[Mark, Described("answer, wrong, opened; none takes a mark back.")],
    ) -> dict[str, Any]:
        """Say that a passage is the answer to a query or is not; it goes to a log on this machine."""
        with self.opened() as opened:
            views.passage_of(opened, id)  # refuses an unknown one
            self._judgments.mark(query, id, mark)
            return {"query": query, "id": id, "mark": mark, "generation": opened.generation}

    @_or_as_before
    def similar(
        self,
        id: Id,  # noqa: A002 - the words of the API
        k: HitCount = 10,
        *,
        retriever: SimilarRetriever = "",
        paths: WithPaths = False,
        diversity: Diversity = 0.0,
        html: Html = False,
        filter: Filter | None = None,  # noqa: A002
    ) -> dict[str, Any]:
        """The passages nearest to a passage or, by a retriever, those that it could refer to."""
        with self.opened() as opened:
            views.passage_of(opened, id)  # refuses an unknown one
            if retriever:
                _check_retriever(opened, retriever)
                opened.prepare(retriever)
            hits = opened.retriever.similar(id, k, retriever=retriever, filter=filter, diversity=diversity, paths=paths)
            records = _hit_records(opened, hits, _start_html if html else None)
            nodes = {"nodes": views.nodes(opened, _on_paths(hits))} if any(hit.path for hit in hits) else {}
            return {"id": id, "hits": records, **nodes, "generation": opened.generation}

    @_or_as_before
    def bridge(
        self, source: End, target: End, k: Annotated[int, Described("Number of paths.", 1, 20)] = 5
    ) -> dict[str, Any]:
        """Paths between two ideas; over hubs and the documents of passages only where there is no other way."""
        with self.opened() as opened:
            found = views.bridge_of(opened, source, target, k)
            ids = {end for path in found.paths for step in path.steps for end in (step.source, step.target)}
            ids |= {name for path in found.paths for step in path.steps for name in step.evidence}
            described = views.nodes(opened, sorted(ids))
            return {**as_json(found), "nodes": described, "generation": opened.generation}

    # ------------------------------------------------------------ the entrance

    start = _answered_by(entrance.start)
    complete = _answered_by(entrance.complete)
    bridges = _answered_by(entrance.bridges)
    near = _answered_by(entrance.near)

    # ------------------------------------------------------------ one thing

    passage = _answered_by(plant.passage)
    card = _answered_by(views.card)
    concept = _answered_by(views.concept)
    concepts = _answered_by(views.concepts)
    graph_around = _answered_by(views.graph_around)
    outline = _answered_by(views.outline)

    # ------------------------------------------------------------ a plant

    history = _answered_by(plant.history)

    def confirm(
        self,
        source: Id,
        relation: Annotated[str, Described("reports_about or related_to.", 1, 100)],
        target: Id,
        confirmed: Annotated[bool, Described("False takes it back.")] = True,
    ) -> dict[str, Any]:
        """Say that a predicted link of a log is right; it is kept with the graph."""
        with self.opened() as opened:
            opened.needed_graph()
            report = confirm_link(opened.workspace, source, relation, target, confirmed=confirmed)
            return {**report, "generation": opened.generation}

    # ------------------------------------------------------------ the map

    @_or_as_before
    def map(self) -> dict[str, Any]:
        """Where each passage lies in the plane; numbers are little-endian and unsigned, of 16 bits, in base64."""
        with self.opened() as opened:
            if opened.map_record is None:
                opened.map_record = {**passage_map.map_of(opened), "generation": opened.generation}
            return opened.map_record

    map_passages = _answered_by(passage_map.map_passages)
    map_places = _answered_by(passage_map.map_places)

    # ------------------------------------------------------------ answers

    def ask(
        self,
        question: Annotated[str, Described("What to answer.", 1, LONGEST_QUERY)],
        k: Annotated[int, Described("Passages that the model is shown; default: as configured.", 1, 50)] | None = None,
    ) -> Generator[tuple[str, dict[str, Any]], None, None]:
        """An answer with citations, as server-sent events: passages, text, sentence, then done or error.

        Caps on tokens and cost hold for all answers of this service together.
        """
        with self.opened() as opened:
            configured = opened.project.options(AnswerOptions, "ask")
            with self._lock:
                budget = self._budgets.setdefault(configured, configured.budget())
            options = replace(configured, passages=k) if k else configured
            hits = opened.retriever.search(question, 2 * options.passages) if question.strip() else []
            encoder = opened.retriever.encoder if opened.retriever.has_vectors else None
            chat, refused = chat_or_refusal(opened.chat)
            for event in answer(
                question,
                hits,
                chat,
                options=options,
                encoder=encoder,
                tokenize=opened.tokenizer,
                budget=budget,
                note=opened.note,
                refused=refused,
            ):
                yield event.name, _event_with_html(event, question, opened)

    # ------------------------------------------------------------ vectors

    def models(self) -> dict[str, Any]:
        """The encoders that have vectors here, as OpenAI's API lists models."""
        with self.opened() as opened:
            return {"object": "list", "data": [_model_record(name) for name in opened.encoders]}

    def model(self, identity: Id) -> dict[str, Any]:
        """One of these encoders."""
        with self.opened() as opened:
            _check_model(opened, identity)
            return _model_record(identity)

    def embeddings(
        self,
        input: Text | Annotated[list[Text], Described(least=1, most=512)],  # noqa: A002 - the word of OpenAI's API
        model: Annotated[Name, Described("One of those that /v1/models lists.")],
        *,
        encoding_format: Literal["float", "base64"] = "float",
        dimensions: Annotated[int, Described("Keep the first dimensions only.", 1, 1 << 16)] | None = None,
        input_type: Literal["query", "passage"] = "passage",
        user: Name = "",
    ) -> dict[str, Any]:
        """Vectors of texts, as OpenAI's API gives them; `user` is part of that API and not used."""
        del user
        texts = [input] if isinstance(input, str) else input
        if (characters := sum(map(len, texts))) > _MOST_CHARACTERS:
            raise InputError(f"input has {characters:,} characters: send at most {_MOST_CHARACTERS:,} in a request")
        with self.opened() as opened:
            _check_model(opened, model)
            encoder = opened.encoder(model)
            if dimensions is not None and dimensions > encoder.dimension:
                raise LemmataError(f"{model} has {encoder.dimension} dimensions: ask for no more")
            batches = []
            for start in range(0, len(texts), _ENCODED_AT_ONCE):
                check_time()
                batches.append(encoder.encode(texts[start : start + _ENCODED_AT_ONCE], role=input_type))
            vectors = np.concatenate(batches)
        if dimensions is not None and dimensions < vectors.shape[1]:
            vectors = normalised(vectors[:, :dimensions])
        tokens = characters // _CHARACTERS_PER_TOKEN
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": _as_json(vector, encoding_format)}
                for index, vector in enumerate(vectors)
            ],
            "model": model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    # ------------------------------------------------------------ the workspace

    def health(self) -> dict[str, Any]:
        """What is served, where it came from, and what is out of order."""
        with self.opened() as opened:
            corpus = opened.retriever.corpus
            info = opened.info
            skips = corpus.skips()
            problems = [*filter(None, (self.reload_problem, self.log_problem)), *opened.problems, *info["problems"]]
            if self.background:  # what is missing while it works is being made
                problems = [*self.background.problems, *([] if self.background.is_working else problems)]
            model = opened.project.config.get("llm", {})
            return {
                "status": "degraded" if problems or opened.note else "ok",
                "name": shown_name(opened.workspace.root),
                "generation": opened.generation,
                "passages": info["passages_in_all"],
                "documents": info["documents"],
                "kinds": info["passages"],
                "skipped": len(skips),
                "skips": as_json(skips[:_MOST_SKIPS]),
                "retrievers": list(RETRIEVERS),
                "encoders": opened.encoders,
                "vectors": info["vectors"],
                "language": opened.tokenizer.language,
                "graph": {"nodes": info["nodes"], "edges": info["edges"]},
                "model": "" if opened.project.key.why_refused(model.get("url", "")) else model.get("model", ""),
                "log": self._judgments.level,
                "note": self._note(opened),
                "problems": list(dict.fromkeys(problems)),
            }

    def quality(self) -> dict[str, Any]:
        """How well search was measured to work, what people marked, and what was adapted."""
        with self.opened() as opened:
            return {**quality(opened.workspace, self._judgments), "generation": opened.generation}

    def progress(self) -> dict[str, Any]:
        """What is ready and what is being made, where a folder is served."""
        nothing = {"state": "ready", "line": "", "steps": [], "problems": []}
        record = self.background.record() if self.background else nothing
        return {**record, "served": self.background is not None, "generation": self.generation}

    def _note(self, opened: Opened) -> str:
        """Why words alone are searched; empty where they are not."""
        line = self._line
        return f"{opened.note.partition(':')[0]} so far: {line}" if opened.note and line else opened.note


def _event_with_html(event: Event, question: str, opened: Opened) -> dict[str, Any]:
    """The data of an event, with names, and with passages and sentences also as safe HTML."""
    if event.name == "passages":
        passages = []
        for passage in event.data["passages"]:
            stored = views.passage_of(opened, passage["id"])
            text = passage["text"].removeprefix(f"{passage['title']}. ")  # the title is shown above it
            text, _ = opened.readable_text(stored, text)
            title = opened.document(passage["document"]).title
            own_title = opened.title_of(stored)
            shown = {
                "title": own_title,
                "document_title": title,
                "document_title_html": title_html(title),
                "section_html": title_html(passage["section"]),
                "html": excerpt_html(text, question, opened.tokenizer),
                "date": stored.date,
                "where": opened.where_of(stored),
            }
            name = name_of(own_title, opened.readable_text(stored, stored.text)[0])
            passages.append({**passage, **name, **shown})
        return {**event.data, "passages": passages}
    if event.name == "error" and event.data["code"] == "no_model":
        return {**event.data, "cure": f"{event.data['cure']}; the server needs no restart"}
    if event.name == "sentence":
        return {**event.data, "html": inline_html(without_citations(event.data["text"]))}
    return event.data


def _hit_records(
    opened: Opened, hits: list[Hit], excerpt: Callable[[str], str] | None, *, first_rank: int = 1
) -> list[dict[str, Any]]:
    """Hits with the titles of their documents; with `excerpt`, which makes HTML of a text, also as HTML."""
    records = hit_records(hits, opened.date_of, first_rank=first_rank)
    passages = {hit.id: hit.passage for hit in hits if hit.passage}
    texts = {name: opened.readable_text(passage, passage.with_solution)[0] for name, passage in passages.items()}
    for record in records:
        title = record["document_title"] = opened.document(record["document"]).title
        if excerpt is not None:
            record["html"] = excerpt(texts[record["id"]])
            record["title"] = opened.title_of(passages[record["id"]])
            record["title_html"] = title_html(record["title"])
            record |= name_of(record["title"] or (title if record["kind"] == "abstract" else ""), texts[record["id"]])
            record["document_title_html"] = title_html(title)
            record["section_html"] = title_html(record["section"])
    for hit, record in zip(hits, records, strict=True) if excerpt is not None else ():
        record["where"] = opened.where_of(hit.passage) if hit.passage else ""
    return records


def _start_html(text: str) -> str:
    return f"<p>{inline_html(short_text(text, _EXCERPT))}</p>"


def _on_paths(hits: list[Hit]) -> list[str]:
    return sorted({end for hit in hits for step in hit.path for end in (step.source, step.target)})


def _model_record(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "lemmata"}


def _check_model(opened: Opened, name: str) -> None:
    """Refuse an encoder without vectors."""
    if name not in opened.encoders:
        known = suggest(name, opened.encoders) if opened.encoders else ": run 'lemmata index' first"
        raise views.UnknownIdError(f"there are no vectors of the model {name!r}{known}")


def _as_json(vector: Floats, encoding: str) -> str | list[float]:
    if encoding == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    floats: list[float] = vector.tolist()
    return floats


def _check_retriever(opened: Opened, name: str) -> None:
    """Refuse what the workspace does not have: a name may not make the server load a file or call an address."""
    base, number, model = split_reranker(name)
    _kind, _, encoder = base.partition(":")
    if encoder and encoder not in opened.encoders:
        raise LemmataError(f"there are no vectors of {encoder!r}{suggest(encoder, opened.encoders)}")
    if number > _MOST_RERANKED:
        raise LemmataError(f"{name!r} reranks too many hits: rerank at most {_MOST_RERANKED}")
    trained = trained_rerankers(opened.project.models_folder) if number else []
    if number and not trained:
        raise LemmataError("there is no reranker in the workspace: run 'lemmata train reranker'")
    if model and model not in trained:
        raise LemmataError(f"there is no reranker {model!r} in the workspace{suggest(model, trained)}")
