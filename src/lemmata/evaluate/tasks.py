"""What is asked and what counts as an answer: tasks from files, and tasks that a corpus poses by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lemmata.errors import InputError
from lemmata.types import Concept, Document, Mask, Passage

__all__ = ["Task", "concepts_task", "documents_task", "held_out", "references_task", "task_from"]


@dataclass(frozen=True, slots=True)
class Task:
    """Queries with their judged passages."""

    name: str
    queries: Mapping[str, str]  # id: text
    qrels: Mapping[str, Mapping[str, int]]  # query: {passage: grade}
    itself: Mapping[str, str] = field(default_factory=dict)  # query: the passage that it is, never an answer
    candidates: Mask | None = None  # (n passages,) what may be found
    notes: tuple[str, ...] = ()
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)  # name: queries that are reported apart


def task_from(name: str, queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]]) -> Task:
    """A task from given queries and judgments; only queries that are judged count.

    Judgments of queries that are not there are an error that names them all.
    """
    unknown = sorted(query for query in qrels if query not in queries)
    if unknown:
        shown = ", ".join(unknown[:20]) + (f" and {len(unknown) - 20} more" if len(unknown) > 20 else "")
        raise InputError(f"the judgments name queries that are not there: {shown}")
    judged = {query: text for query, text in queries.items() if query in qrels}
    left = len(queries) - len(judged)
    notes = (f"{left} queries without judgments were left out",) if left else ()
    if not judged:
        raise InputError("no query has a judgment")
    return Task(name, judged, {query: dict(qrels[query]) for query in judged}, notes=notes)


def held_out(documents: Sequence[str], share: float, generator: np.random.Generator) -> set[str]:
    """A random share of the documents, at least one; the same under the same generator."""
    ordered = sorted(documents)
    count = min(len(ordered), max(1, round(share * len(ordered))))
    return {ordered[number] for number in generator.permutation(len(ordered))[:count]}


def references_task(
    passages: Sequence[Passage],
    documents: Collection[str],
    *,
    asking: Collection[str] | None = None,
    kinds: Collection[str] = (),
    limit: int = 0,
    generator: np.random.Generator | None = None,
) -> Task:
    """Retrieve what a statement of a held-out document refers to, in its text or its proof.

    The query is the statement's own text; candidates are all statements (or all passages of `kinds`)
    but itself. `documents` are those held out, `asking` the passages of them that ask (all); `limit` keeps a
    random sample of the queries.
    """
    statements = {
        passage.id
        for passage in passages
        if (passage.kind in kinds if kinds else passage.kind not in ("chunk", "abstract"))
    }
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for passage in passages:
        if passage.id not in statements or passage.document not in documents:
            continue
        if asking is not None and passage.id not in asking:
            continue
        targets = {
            link.target
            for link in passage.links
            if link.relation in ("refers_to", "proof_uses") and link.target in statements and link.target != passage.id
        }
        if targets:
            queries[passage.id] = passage.content
            qrels[passage.id] = dict.fromkeys(sorted(filter(None, targets)), 1)
    kept = _sample(sorted(queries), limit, generator)
    candidates = np.array([passage.id in statements for passage in passages], dtype=bool)
    return Task(
        "references",
        {query: queries[query] for query in kept},
        {query: qrels[query] for query in kept},
        {query: query for query in kept},
        candidates,
    )


def documents_task(
    passages: Sequence[Passage],
    documents: Sequence[Document],
    *,
    limit: int = 0,
    generator: np.random.Generator | None = None,
) -> Task:
    """Retrieve the passages of a document from its abstract, or from its title where it has none."""
    abstracts = {passage.document: passage for passage in passages if passage.kind == "abstract"}
    inside: dict[str, list[str]] = {}
    for passage in passages:
        if passage.kind != "abstract":
            inside.setdefault(passage.document, []).append(passage.id)
    queries: dict[str, str] = {}
    itself: dict[str, str] = {}
    for document in documents:
        abstract = abstracts.get(document.id)
        text = abstract.text if abstract else document.title
        if document.id in inside and text.strip():
            queries[document.id] = text
            if abstract:
                itself[document.id] = abstract.id
    kept = _sample(sorted(queries), limit, generator)
    candidates = np.array([passage.kind != "abstract" for passage in passages], dtype=bool)
    return Task(
        "documents",
        {query: queries[query] for query in kept},
        {query: dict.fromkeys(inside[query], 1) for query in kept},
        {query: itself[query] for query in kept if query in itself},
        candidates,
    )


def concepts_task(
    concepts: Sequence[Concept],
    speaking: Mapping[str, Collection[str]],
    document_of: Mapping[str, str],
    *,
    ask: str = "name",
    protocol: str = "passage",
    defining: Mapping[str, str] | None = None,
    limit: int = 0,
    generator: np.random.Generator | None = None,
) -> Task:
    """Retrieve what a corpus has about a concept, asked by its name or its description.

    `speaking` has the passages that mention or define a concept, `document_of` the document of every passage,
    `defining` the passage that a description was taken from, which is no answer to it. Under the *passage*
    protocol those passages are relevant; under the *seed* protocol (Math-Embed's) all passages of their
    documents are. Concepts of a single document are not asked.
    """
    inside: dict[str, list[str]] = {}
    for passage, document in document_of.items():
        inside.setdefault(document, []).append(passage)
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for concept in concepts:
        text = concept.name if ask == "name" else concept.description
        documents = {document_of[passage] for passage in speaking.get(concept.id, ())}
        if not text.strip() or len(documents) < 2:
            continue
        relevant = speaking[concept.id] if protocol == "passage" else (p for one in documents for p in inside[one])
        own = (defining or {}).get(concept.id) if ask == "description" else None
        queries[concept.id] = text
        qrels[concept.id] = dict.fromkeys(sorted(set(relevant) - {own}), 1)
    kept = _sample(sorted(query for query in queries if qrels[query]), limit, generator)
    told = "passages that mention the concept" if protocol == "passage" else "all passages of its documents"
    return Task(
        "concepts" if ask == "name" else "descriptions",
        {query: queries[query] for query in kept},
        {query: qrels[query] for query in kept},
        {query: defining[query] for query in kept if query in defining} if defining and ask == "description" else {},
        notes=(f"relevant: {told} ({protocol} protocol)",),
    )


def _sample(queries: list[str], limit: int, generator: np.random.Generator | None) -> list[str]:
    if not limit or len(queries) <= limit:
        return queries
    generator = generator or np.random.default_rng(0)
    return sorted(queries[number] for number in generator.permutation(len(queries))[:limit])
