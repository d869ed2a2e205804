"""Concepts and relations by a language model, within limits; resumes after an interruption."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lemmata.core.errors import LemmataError
from lemmata.core.types import Document, Passage, Skip
from lemmata.core.workspace import Settings, Workspace
from lemmata.corpus.corpus import Corpus
from lemmata.graph.build import compress
from lemmata.graph.store import GraphRecordStore
from lemmata.llm.endpoint import EndpointOptions, Limits, Spent

if TYPE_CHECKING:
    from lemmata.graph.concepts.extract import Prompt
    from lemmata.llm.chat import Answer, Preview, Request

SOURCE = "llm"  # the name of these records in the store


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """What a language model reads of a document."""

    CHOICES: ClassVar = {"chunks": ("ends", "all")}
    chunks: str = "ends"  # the first two and the last two passages of a document, or all


def preview_extraction(
    workspace: Workspace, *, settings: Settings | None = None, model: Settings | None = None
) -> Preview:
    """Calls, tokens, cost and seconds that `extract_graph` would need from here on; nothing is sent."""
    from lemmata.graph.concepts.extract import extraction_prompts
    from lemmata.llm.chat import Chat

    options = workspace.options(ExtractOptions, "extract", settings)
    endpoint = workspace.options(EndpointOptions, "llm", model)
    identity = _identity(options, endpoint)
    with contextlib.closing(Corpus(workspace)) as corpus, GraphRecordStore(workspace) as records:
        done = records.done(SOURCE) if _can_resume(records, corpus, identity) else set()
        documents = _documents(corpus, done)
        requests = (_request(prompt) for _, passages in documents for prompt in extraction_prompts(passages, options))
        with contextlib.closing(Chat(endpoint, workspace.answers, workspace.key)) as chat:
            return chat.preview(requests)


def extract_graph(
    workspace: Workspace, limits: Limits, *, settings: Settings | None = None, model: Settings | None = None
) -> dict[str, Any]:
    """Concepts and relations of every document by a language model, never beyond the limits; asks nothing twice.

    The records of a document are stored as soon as its answers are there. A document without an answer, because the
    model failed on it or a limit was reached, is listed in `unanswered` and asked again in the next run; `cause` is the
    most frequent failure, else the limit. `counts` and `dropped` count the records of all answers so far, the latter by
    reason.
    """
    from lemmata.graph.concepts.extract import extract, reason_of
    from lemmata.llm.chat import Chat

    begin = time.perf_counter()
    options = workspace.options(ExtractOptions, "extract", settings)
    endpoint = workspace.options(EndpointOptions, "llm", model)
    identity = _identity(options, endpoint)
    with workspace.hold(), contextlib.closing(Corpus(workspace)) as corpus, GraphRecordStore(workspace) as records:
        with contextlib.closing(Chat(endpoint, workspace.answers, workspace.key)) as chat:
            if not _can_resume(records, corpus, identity):
                with records.transaction():
                    records.remove(SOURCE)
                    records.announce(SOURCE, corpus.digest, identity | {"spent_before": chat.spent()})
            spent_before = Spent(*records.sources()[SOURCE]["options"]["spent_before"])
            budget = limits.budget(chat.spent(), spent_before)
            done = records.done(SOURCE)
            total = sum(1 for _ in _documents(corpus))
            unanswered: list[Skip] = []
            number = len(done)

            causes: Counter[str] = Counter()

            def ask(prompts: Iterable[Prompt]) -> Iterator[Answer]:
                for answer in chat.run(map(_request, prompts), budget=budget):
                    if answer.error == "budget":
                        yield answer._replace(error=budget.reached)
                    else:
                        causes[answer.error] += 1
                        yield answer

            for extraction in extract(_documents(corpus, done), ask, options, maker=endpoint.model):
                if extraction.complete:
                    records.add_unit(
                        SOURCE, extraction.document, extraction.concepts, extraction.edges, extraction.skips
                    )
                    number += 1
                else:
                    unanswered += extraction.skips
                workspace.progress("extracting", number, total)
                if chat.down:
                    break
            down, spent, json_mode = chat.down, chat.spent(), chat.json_mode
        records.replace(f"{SOURCE}:unanswered", skips=unanswered, inputs=corpus.digest)
        if down:
            raise LemmataError(f"{down}; {number} of {total} documents are extracted, the same command resumes")
        counts = records.counts(SOURCE)
        skips = dict.fromkeys(records.skips(SOURCE))  # several prompts of a document may say the same, kept or not
        dropped = dict(Counter(filter(None, map(reason_of, skips))).most_common())
        report = compress(workspace, corpus, records)
    report |= {"extracted": number, "documents": total, "unanswered": [skip.cause for skip in unanswered]}
    del causes[""]  # answers
    report |= {"cause": causes.most_common(1)[0][0] if causes else budget.reached, "json_mode": json_mode}
    report |= {"kept": counts, "dropped": dropped, "spent": spent.without(spent_before)._asdict()}
    report["seconds"] = time.perf_counter() - begin
    return report


def _request(prompt: Prompt) -> Request:
    from lemmata.graph.concepts.extract import DEFAULTS, SCHEMA, SYSTEM, complaint_of, narrow_schema
    from lemmata.llm.chat import Request

    return Request(SYSTEM, prompt.text, SCHEMA, "extraction", DEFAULTS, complaint_of, narrow_schema(prompt))


def _identity(options: ExtractOptions, model: EndpointOptions) -> dict[str, Any]:
    """What must be equal for a later run to resume an earlier one."""
    from lemmata.graph.concepts.extract import SYSTEM

    return {"model": model.model, "prompt": SYSTEM, **asdict(options)}


def _can_resume(records: GraphRecordStore, corpus: Corpus, identity: dict[str, Any]) -> bool:
    """Whether the stored answers are of this corpus, this model and these options."""
    source = records.sources().get(SOURCE, {"inputs": None, "options": {}})
    stored = {name: value for name, value in source["options"].items() if name != "spent_before"}
    return bool(source["inputs"] == corpus.digest and stored == identity)


def _documents(corpus: Corpus, done: Collection[str] = ()) -> Iterator[tuple[Document, list[Passage]]]:
    """Documents with their passages, in the order of the rows, without those that are `done`."""
    documents = {document.id: document for document in corpus.documents()}
    for identity, passages in itertools.groupby(corpus, lambda passage: passage.document):
        if identity not in done:
            yield documents.get(identity, Document(identity)), [passage.bare() for passage in passages]
