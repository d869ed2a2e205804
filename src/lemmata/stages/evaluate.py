"""Tasks that are posed to a workspace: by its links, its documents, its concepts, or by a table of queries."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from lemmata.errors import InputError, LemmataError
from lemmata.evaluate.tasks import Task, concepts_task, documents_task, held_out, references_task, task_from
from lemmata.store.corpus import Corpus
from lemmata.store.graph import concept_passages, open_graph
from lemmata.store.layout import Layout
from lemmata.store.split import PARTS, Split, open_split

__all__ = ["TASKS", "pose", "table_task"]

TASKS = ("references", "documents", "concepts", "descriptions")


def pose(
    layout: Layout, name: str, generator: np.random.Generator, *, part: str, share: float, limit: int, protocol: str
) -> Task:
    """A task by name; what is asked comes from a part of the split or, without one, from a random share."""
    if name not in TASKS:
        raise LemmataError(f"there is no task {name!r} (there are: {', '.join(TASKS)})")
    if part and part not in PARTS:
        raise LemmataError(f"the split has the parts {', '.join(PARTS)}, not {part!r}")
    if protocol not in ("passage", "seed"):
        raise LemmataError(f"the protocol is passage or seed, not {protocol!r}")
    with contextlib.closing(Corpus(layout)) as corpus:
        split = open_split(layout, corpus.inputs) if part else None
        if name in ("concepts", "descriptions"):
            task = _about_concepts(layout, corpus, name, split, part, share, limit, generator, protocol)
        else:
            task = _about_passages(corpus, name, split, part, share, limit, generator)
    if not task.queries:
        hint = ": no concept stands in two documents" if name in ("concepts", "descriptions") else ""
        raise LemmataError(f"this corpus has nothing to ask for the task {name!r}{hint}")
    return task if split is None else replace(task, notes=(*task.notes, f"asked by the {part} part of the split"))


def table_task(
    layout: Layout, name: str, queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]], *, file: Path
) -> Task:
    """A task from the queries of a table; where all answers are statements, they are looked for among statements."""
    task = task_from(name, queries, qrels)
    with contextlib.closing(Corpus(layout)) as corpus:
        prose = np.array([passage.kind in ("chunk", "abstract") for passage in corpus], bool)
        row_of = {identity: row for row, identity in enumerate(corpus.ids())}
    answers = [identity for grades in qrels.values() for identity in grades]
    unknown = [identity for identity in answers if identity not in row_of]
    if unknown:
        raise InputError(f"names {unknown[0]!r}, which is no passage of {layout.root}", file=str(file))
    asks_prose = any(prose[row_of[identity]] for identity in answers)
    return replace(task, candidates=None if asks_prose else ~prose)


def _about_passages(
    corpus: Corpus, name: str, split: Split | None, part: str, share: float, limit: int, generator: np.random.Generator
) -> Task:
    passages, documents = list(corpus), list(corpus.documents())
    asking: set[str] | None = None
    groups: dict[str, set[str]] = {}
    if split is None:
        chosen = held_out([document.id for document in documents], share, generator)
    else:
        inside = split.rows(part)
        asking = {passages[row].id for row in np.flatnonzero(inside).tolist()}
        unseen = {passages[row].id for row in np.flatnonzero(inside & split.unseen).tolist()}
        groups = {"seen": asking - unseen, "unseen": unseen}
        chosen = {passage.document for passage in passages if passage.id in asking}
    if name == "references":
        task = references_task(passages, chosen, asking=asking, limit=limit, generator=generator)
        return replace(task, groups=groups)
    return documents_task(passages, [one for one in documents if one.id in chosen], limit=limit, generator=generator)


def _about_concepts(
    layout: Layout,
    corpus: Corpus,
    name: str,
    split: Split | None,
    part: str,
    share: float,
    limit: int,
    generator: np.random.Generator,
    protocol: str,
) -> Task:
    stored = open_graph(layout)
    speaking, defining = concept_passages(stored)
    if split is None:
        chosen = held_out(list(stored.concepts), share, generator)
    else:
        chosen = {identity for identity in stored.concepts if split.part_of(identity) == part}
    return concepts_task(
        [concept for identity, concept in stored.concepts.items() if identity in chosen],
        speaking,
        dict(corpus.documents_of()),
        ask="name" if name == "concepts" else "description",
        protocol=protocol,
        defining=defining,
        limit=limit,
        generator=generator,
    )
