"""Tasks that a workspace poses by itself, from its links, its documents or the concepts of its graph."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from lemmata.errors import LemmataError
from lemmata.evaluate.tasks import Task, concepts_task, documents_task, held_out, references_task
from lemmata.store.corpus import Corpus
from lemmata.store.files import Layout
from lemmata.store.graph import concept_passages, open_graph
from lemmata.store.split import PARTS, Split, open_split

__all__ = ["TASKS", "pose"]

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
