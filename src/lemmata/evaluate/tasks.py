"""Evaluation tasks: queries with relevant passages, from files or from the corpus itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lemmata.core.errors import InputError
from lemmata.core.types import NOT_STATEMENTS, Concept, Document, Mask, Passage
from lemmata.graph.store import CITING


@dataclass(frozen=True, slots=True)
class Task:
    """Queries with their judged passages."""

    name: str
    queries: Mapping[str, str]  # id: text
    qrels: Mapping[str, Mapping[str, int]]  # query: {passage: grade}
    itself: Mapping[str, str] = field(default_factory=dict)  # query: the passage it was made from, never a result
    candidates: Mask | None = None  # (n passages,) passages that may be retrieved; None: all
    notes: tuple[str, ...] = ()
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)  # name: queries with separate results
    part: str = ""  # of the split that the queries come from

    def relevant(self) -> Iterator[list[str]]:
        for grades in self.qrels.values():
            yield [passage for passage, grade in grades.items() if grade > 0]


def task_from(name: str, queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]]) -> Task:
    """A task from queries and judgments; queries without judgments are left out.

    Judgments of missing queries raise InputError.
    """
    unknown = sorted(query for query in qrels if query not in queries)
    if unknown:
        shown = ", ".join(unknown[:20]) + (f" and {len(unknown) - 20} more" if len(unknown) > 20 else "")
        raise InputError(f"there are judgments for queries that do not exist: {shown}")
    judged = {query: text for query, text in queries.items() if query in qrels}
    if not judged:
        raise InputError("no query has a judgment")
    left_out = len(queries) - len(judged)
    notes = (f"{left_out} queries without judgments were left out",) if left_out else ()
    return Task(name, judged, {query: dict(qrels[query]) for query in judged}, notes=notes)


def held_out(ids: Sequence[str], share: float, generator: np.random.Generator) -> set[str]:
    """A random share of the ids, at least one."""
    ordered = sorted(ids)
    count = min(len(ordered), max(1, round(share * len(ordered))))
    return {ordered[number] for number in generator.permutation(len(ordered))[:count]}


def references_task(
    passages: Sequence[Passage],
    documents: Collection[str],
    *,
    query_ids: Collection[str] | None = None,
    imported: Mapping[str, Collection[str]] | None = None,
    limit: int = 0,
    generator: np.random.Generator,
) -> Task:
    """Retrieve the statements that a statement refers to, in its text or its proof; for a log those it follows up.

    `imported` are further targets, by the id of a passage or of its document: those of an imported graph.

    The query is the text of a statement of `documents`, restricted to `query_ids` where given; candidates are all
    other statements. Where there are only abstracts, they are the queries for those that their papers cite.
    """
    statements = {passage.id for passage in passages if passage.kind not in NOT_STATEMENTS}
    abstracts = (
        {} if statements else {passage.document: passage.id for passage in passages if passage.kind == "abstract"}
    )
    statements |= {*abstracts.values()}
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for passage in passages:
        if passage.id not in statements or passage.document not in documents:
            continue
        if query_ids is not None and passage.id not in query_ids:
            continue
        named = {link.target for link in passage.links if link.relation in CITING}
        named.update((imported or {}).get(passage.id, ()))
        if passage.id == abstracts.get(passage.document):
            named.update((imported or {}).get(passage.document, ()))
        targets = {abstracts.get(target or "", target) for target in named} & statements - {passage.id}
        if targets:
            queries[passage.id] = passage.content
            qrels[passage.id] = dict.fromkeys(sorted(filter(None, targets)), 1)
    candidates = np.array([passage.id in statements for passage in passages], dtype=bool)
    itself = {query: query for query in queries}
    return sampled(Task("references", queries, qrels, itself, candidates), limit, generator)


def documents_task(
    passages: Sequence[Passage], documents: Sequence[Document], *, limit: int = 0, generator: np.random.Generator
) -> Task:
    """Retrieve the passages of a document by its abstract, or by its title if it has no abstract.

    Lexical search reads the title with every passage, so queries that are titles are easy for it; a note counts them.
    """
    abstracts = {passage.document: passage for passage in passages if passage.kind == "abstract"}
    passages_of: dict[str, list[str]] = {}
    for passage in passages:
        if passage.kind != "abstract":
            passages_of.setdefault(passage.document, []).append(passage.id)
    queries: dict[str, str] = {}
    itself: dict[str, str] = {}
    for document in documents:
        abstract = abstracts.get(document.id)
        text = abstract.bare_text if abstract else document.title
        if document.id in passages_of and text.strip():
            queries[document.id] = text
            if abstract:
                itself[document.id] = abstract.id
    qrels = {query: dict.fromkeys(passages_of[query], 1) for query in queries}
    candidates = np.array([passage.kind != "abstract" for passage in passages], dtype=bool)
    task = sampled(Task("documents", queries, qrels, itself, candidates), limit, generator)
    titles = len(task.queries.keys() - task.itself.keys())
    note = f"{titles} of {len(task.queries)} queries are titles, which lexical search reads with every passage"
    return replace(task, notes=(*task.notes, note)) if titles else task


def concepts_task(
    concepts: Sequence[Concept],
    mentions: Mapping[str, Collection[str]],
    document_of: Mapping[str, str],
    *,
    query_by: str,
    protocol: str,
    defined_in: Mapping[str, str],
    limit: int = 0,
    generator: np.random.Generator,
) -> Task:
    """Retrieve the passages about a concept by its name or its description, as `query_by` says.

    `mentions` has the passages that mention or define a concept, `document_of` the document of each passage,
    `defined_in` the passage that a description was taken from, which is no result for it. With the *passage*
    protocol the mentions are relevant; with the *seed* protocol (Math-Embed's) all passages of their documents.
    Concepts in fewer than two documents are left out.
    """
    passages_of: dict[str, list[str]] = {}
    for passage, document in document_of.items():
        passages_of.setdefault(document, []).append(passage)
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    itself: dict[str, str] = {}
    for concept in concepts:
        text = concept.name if query_by == "name" else concept.description
        documents = {document_of[passage] for passage in mentions.get(concept.id, ())}
        if not text.strip() or len(documents) < 2:
            continue
        relevant = set(mentions[concept.id])
        if protocol == "seed":
            relevant = {passage for document in documents for passage in passages_of[document]}
        if query_by == "description" and concept.id in defined_in:
            itself[concept.id] = defined_in[concept.id]
            relevant.discard(defined_in[concept.id])
        if relevant:
            queries[concept.id] = text
            qrels[concept.id] = dict.fromkeys(sorted(relevant), 1)
    kind = "passages that mention the concept" if protocol == "passage" else "all passages of its documents"
    name = "concepts" if query_by == "name" else "descriptions"
    notes = (f"relevant: {kind} ({protocol} protocol)",)
    return sampled(Task(name, queries, qrels, itself, notes=notes), limit, generator)


def sampled(task: Task, limit: int, generator: np.random.Generator) -> Task:
    """The task with its queries sorted by id, and if there are more than `limit` a random sample of them; 0: all."""
    chosen = sorted(task.queries)
    if limit and len(chosen) > limit:
        chosen = sorted(chosen[number] for number in generator.permutation(len(chosen))[:limit])
    return restricted(task, chosen)


def restricted(task: Task, chosen: Iterable[str]) -> Task:
    """The task with the chosen queries only, in their order."""
    chosen = list(chosen)
    return replace(
        task,
        queries={query: task.queries[query] for query in chosen},
        qrels={query: task.qrels[query] for query in chosen},
        itself={query: task.itself[query] for query in chosen if query in task.itself},
    )
