"""Concepts and relations by a language model, within limits, resumable."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from lemmata.concepts.extract import Prompt, extract, extraction_requests
from lemmata.errors import LemmataError
from lemmata.llm.chat import Answer, Chat, Preview, Request
from lemmata.llm.endpoint import EndpointOptions, Limits, Spent
from lemmata.stages.graph import compress
from lemmata.store.corpus import Corpus
from lemmata.store.graph import GraphRecordStore
from lemmata.store.layout import Layout
from lemmata.types import Document, Passage, Progress, Skip

__all__ = ["ExtractOptions", "extract_concepts", "preview_extraction"]


MODEL = "llm"  # the name of this source of records


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """What a language model is shown of a document."""

    CHOICES: ClassVar = {"chunks": ("ends", "all")}
    SMALLEST: ClassVar = {"first": 0, "last": 0, "characters": 500}
    chunks: str = "ends"  # the first and last ones of a document, or all
    first: int = 2
    last: int = 2
    characters: int = 12_000  # of one prompt


def preview_extraction(layout: Layout, options: ExtractOptions, model: EndpointOptions, key: str) -> Preview:
    """What an extraction would take from here on; nothing is sent."""
    with contextlib.closing(Corpus(layout)) as corpus, GraphRecordStore(layout) as records:
        done = records.done(MODEL) if _goes_on(records, corpus, options, model) else set()
        documents = ((document, passages) for document, passages in _documents(corpus) if document.id not in done)
        prompts = extraction_requests(documents, **_chosen(options))
        with contextlib.closing(Chat(model, layout.answers, key)) as chat:
            return chat.preview(Request(*prompt) for _, prompt in prompts)


def extract_concepts(
    layout: Layout, options: ExtractOptions, model: EndpointOptions, limits: Limits, key: str, progress: Progress
) -> dict[str, Any]:
    """Concepts and relations by a language model; what a stopped run was answered is not asked again.

    Each document is kept as soon as its answers are there. One that got none, because the model failed on it or
    the limits were reached, is told of in `unanswered` and asked in the next run.
    """
    begin = time.perf_counter()
    with layout.hold(), contextlib.closing(Corpus(layout)) as corpus, GraphRecordStore(layout) as records:
        with contextlib.closing(Chat(model, layout.answers, key)) as chat:
            if not _goes_on(records, corpus, options, model):
                with records.transaction():
                    records.remove(MODEL)
                    noted = _asked(options, model) | {"spent_before": chat.spent()}
                    records.announce(MODEL, corpus.inputs, noted)
            before = Spent(*records.sources()[MODEL]["options"]["spent_before"])
            budget = limits.budget(chat.spent(), before)
            done = records.done(MODEL)
            total = sum(1 for _ in _documents(corpus))
            unanswered: list[Skip] = []
            number = len(done)

            def ask(prompts: Iterable[Prompt]) -> Iterator[Answer]:
                return chat.run((Request(*prompt) for prompt in prompts), budget=budget)

            for found in extract(_documents(corpus), ask, done=done, maker=model.model, **_chosen(options)):
                if found.complete:
                    records.add_unit(MODEL, found.document, found.concepts, found.edges, found.skips)
                    number += 1
                else:
                    unanswered += found.skips
                progress("extracting", number, total)
                if chat.down:
                    break
            down, spent = chat.down, chat.spent()
        records.replace(f"{MODEL}:unanswered", skips=unanswered, inputs=corpus.inputs)
        if down:
            raise LemmataError(f"{down}; {number} of {total} documents are extracted, the same command goes on")
        report = compress(layout, corpus, records, progress)
    used = spent.without(before)
    report |= {"extracted": number, "documents": total, "unanswered": [skip.cause for skip in unanswered]}
    report["spent"] = used._asdict()
    report["seconds"] = time.perf_counter() - begin
    return report


def _asked(options: ExtractOptions, model: EndpointOptions) -> dict[str, Any]:
    return {"model": model.model, **asdict(options)}


def _goes_on(records: GraphRecordStore, corpus: Corpus, options: ExtractOptions, model: EndpointOptions) -> bool:
    """Whether what a model said before belongs to this corpus and was asked in the same way."""
    known = records.sources().get(MODEL)
    if known is None or known["inputs"] != corpus.inputs:
        return False
    return {name: value for name, value in known["options"].items() if name != "spent_before"} == _asked(options, model)


def _chosen(options: ExtractOptions) -> dict[str, Any]:
    return {
        "mode": options.chunks,
        "first": options.first,
        "last": options.last,
        "characters": options.characters,
    }


def _documents(corpus: Corpus) -> Iterator[tuple[Document, list[Passage]]]:
    """Documents with their passages, in the order of the rows."""
    known = {document.id: document for document in corpus.documents()}
    for identity, passages in itertools.groupby(corpus, lambda passage: passage.document):
        yield known.get(identity, Document(identity)), list(passages)
