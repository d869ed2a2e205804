"""Tasks of a workspace: made from its corpus and graph, or read from files about it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lemmata.core.artefacts import training_set
from lemmata.core.errors import InputError, LeakageError, LemmataError, WorkspaceError
from lemmata.core.types import NOT_STATEMENTS
from lemmata.core.workspace import Workspace
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import normalise
from lemmata.corpus.split import PARTS, Split, open_split
from lemmata.corpus.training_files import QUESTIONS, evaluation_sets, read_questions, sets
from lemmata.evaluate.tasks import Task, concepts_task, documents_task, held_out, references_task, sampled, task_from
from lemmata.graph.store import concept_passages, imported_links, open_graph
from lemmata.ingest.beir import check_judgments, read_judged, read_table
from lemmata.ingest.queries import read_imported

TASKS = ("references", "documents", "concepts", "descriptions", QUESTIONS)
POSED = TASKS[:4]  # those that every part of the corpus poses
_MOST_SHOWN = 5  # missing passages in a message


# ---------------------------------------------------------------- from the corpus


def own_tasks(names: Sequence[str]) -> list[str]:
    """The tasks among the names that every part of the corpus poses; `references` where there are none."""
    return [name for name in names if name in POSED] or ["references"]


def corpus_task(
    workspace: Workspace,
    name: str,
    *,
    part: str = "",
    share: float = 0.2,
    limit: int = 0,
    protocol: str = "passage",
    seed: int = 0,
) -> Task:
    """A task made from the corpus itself: `references`, `documents`, `concepts` or `descriptions`.

    `questions`, or the name of another set for evaluation, are those of `lemmata mine queries --part test`.
    Queries come from a `part` of the split (validation or test), where those from seen and unseen documents are
    reported apart, or from a random `share` of the documents or concepts. `limit` keeps a random sample of so many
    queries, 0 all of them. `protocol` is passage, or seed for concepts.
    """
    generator = np.random.default_rng(seed)
    if name == QUESTIONS or name in evaluation_sets(workspace):
        if part not in ("", "test"):
            raise LeakageError(f"{name!r} asks about the test part alone, so nothing is chosen or fitted by it")
        return sampled(_questions_task(workspace, name), limit, generator)
    if name not in TASKS:
        raise LemmataError(f"there is no task {name!r} (there are: {', '.join(TASKS)})")
    if part and part not in PARTS:
        raise LemmataError(f"the split has the parts {', '.join(PARTS)}, not {part!r}")
    if protocol not in ("passage", "seed"):
        raise LemmataError(f"the protocol is passage or seed, not {protocol!r}")
    with contextlib.closing(Corpus(workspace)) as corpus:
        split = open_split(workspace, corpus.digest) if part else None
        if name in ("references", "documents"):
            task = _passage_task(corpus, name, split, part, share, limit, generator, imported_links(workspace))
        else:
            stored = open_graph(workspace)
            mentioning, defining = concept_passages(stored)
            if split is None:
                chosen = held_out(list(stored.concepts), share, generator)
            else:
                chosen = {identity for identity in stored.concepts if split.part_of(identity) == part}
            task = concepts_task(
                [concept for identity, concept in stored.concepts.items() if identity in chosen],
                mentioning,
                dict(corpus.table("id", "document")),
                query_by="name" if name == "concepts" else "description",
                protocol=protocol,
                defined_in=defining,
                limit=limit,
                generator=generator,
            )
    if not task.queries:
        hint = ": no concept occurs in two documents" if name in ("concepts", "descriptions") else ""
        raise LemmataError(f"this corpus has no queries for the task {name!r}{hint}")
    if not part:
        return task
    return replace(task, notes=(*task.notes, f"queries from the {part} part of the split"), part=part)


def _passage_task(
    corpus: Corpus,
    name: str,
    split: Split | None,
    part: str,
    share: float,
    limit: int,
    generator: np.random.Generator,
    imported: Mapping[str, Collection[str]],
) -> Task:
    passages, documents = list(corpus), list(corpus.documents())
    query_ids: set[str] | None = None
    groups: dict[str, set[str]] = {}
    if split is None:
        query_documents = held_out([document.id for document in documents], share, generator)
    else:
        groups = _seen_by_split(corpus.ids(), split, part)
        query_ids = {*groups["seen"], *groups["unseen"]}
        query_documents = {passage.document for passage in passages if passage.id in query_ids}
    if name == "references":
        task = references_task(
            passages, query_documents, query_ids=query_ids, imported=imported, limit=limit, generator=generator
        )
        return replace(task, groups=groups)
    chosen = [document for document in documents if document.id in query_documents]
    return documents_task(passages, chosen, limit=limit, generator=generator)


def _seen_by_split(ids: Sequence[str], split: Split, part: str) -> dict[str, set[str]]:
    """The passages of a part by whether others of their documents are in the training part."""
    in_part = split.rows(part)
    rows = {"seen": in_part & ~split.unseen, "unseen": in_part & split.unseen}
    return {group: {ids[row] for row in np.flatnonzero(mask).tolist()} for group, mask in rows.items()}


def _questions_task(workspace: Workspace, name: str) -> Task:
    """The questions about the test part: relevant are the passages that a question was asked about."""
    if name not in evaluation_sets(workspace):
        where = f"in {workspace.root}: 'lemmata mine queries --part test' asks them"
        raise WorkspaceError(f"there are no {name} about the test part {where}")
    questions = read_questions(workspace, name)
    with contextlib.closing(Corpus(workspace)) as corpus:
        kinds = dict(corpus.table("id", "kind"))
        test_ids = _seen_by_split(corpus.ids(), open_split(workspace, corpus.digest), "test")
    asked = {identity for answers in questions.values() for identity in answers}
    if missing := sorted(asked - test_ids["seen"] - test_ids["unseen"]):
        command = training_set(workspace, name).command
        cause = f"{len(missing):,} of its {len(asked):,} passages, such as {missing[0]!r}, are not of the test part now"
        raise LeakageError(f"the set {name!r} was made for another split: {cause}; make it again with '{command}'")
    ids = {f"q{number}": text for number, text in enumerate(questions, 1)}
    qrels = {query: dict.fromkeys(questions[text], 1) for query, text in ids.items()}
    prose = any(kinds[identity] in NOT_STATEMENTS for identity in asked)
    candidates = None if prose else np.array([kind not in NOT_STATEMENTS for kind in kinds.values()], bool)
    seen = {query for query in ids if test_ids["seen"].intersection(qrels[query])}
    author = sets(workspace)[name]["options"].get("model") or "rules"
    notes = (f"questions about the test part of the split, by {author}; nothing was trained on them",)
    return Task(
        name,
        ids,
        qrels,
        candidates=candidates,
        notes=notes,
        groups={"seen": seen, "unseen": ids.keys() - seen},
        part="test",
    )


# ---------------------------------------------------------------- from files


def read_asked(path: Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Queries and judgments of a file that names the answers: a table with ids, or JSON lines with `passage`."""
    if path.suffix == ".tsv":
        return read_table(path)
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    number_of: dict[str, str] = {}
    for asked in read_imported(path, keys=("passage", "passage_id")):
        query = number_of.setdefault(asked.text, str(len(number_of)))
        queries[query] = asked.text
        qrels.setdefault(query, {})[asked.passage] = 1
    return queries, qrels


def table_task(
    workspace: Workspace,
    name: str,
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    file: Path,
    allow_missing: bool = False,
) -> Task:
    """A task from a table of queries; where all answers are statements, only statements are candidates.

    `allow_missing` keeps answers that are not in the corpus, which `evaluate` counts.
    """
    task = task_from(name, queries, qrels)
    with contextlib.closing(Corpus(workspace)) as corpus:
        is_prose = np.array([passage.kind in NOT_STATEMENTS for passage in corpus], bool)
        row_of = {identity: row for row, identity in enumerate(corpus.ids())}
    answers = [identity for grades in qrels.values() for identity in grades]
    missing = find_missing(qrels, row_of)
    if missing.passages and not allow_missing:
        raise InputError(f"{missing.sentence()}; the corpus is that of {workspace.root}", file=str(file))
    prose_answers = any(is_prose[row_of[identity]] for identity in answers if identity in row_of)
    return replace(task, candidates=None if prose_answers else ~is_prose)


def judgments_of(folder: Path) -> tuple[Path, str]:
    """A BEIR folder and which of its judgments to use: FOLDER#train names them; else the only ones, else test."""
    name, _, which = str(folder).rpartition("#")
    if name and not folder.exists():
        return Path(name), which
    files = sorted(folder.glob("qrels/*.tsv"))
    return folder, files[0].stem if len(files) == 1 else "test"


def beir_task(workspace: Workspace, folder: Path, *, name: str) -> Task:
    """The task of a BEIR folder, by the judgments that `judgments_of` says.

    Where its passages were stored under other ids, the judgments get these. A query that is a passage, with its id and
    its words, does not find itself.
    """
    folder, which = judgments_of(folder)
    queries, qrels = read_judged(folder, which)
    judgments = folder / "qrels" / f"{which}.tsv"
    check_judgments(queries, qrels, queries_file=folder / "queries.jsonl", qrels_file=judgments)
    judged_ids = {identity for grades in qrels.values() for identity in grades}
    stored: dict[str, str] = {}
    with contextlib.closing(Corpus(workspace)) as corpus:
        for path in sorted(folder.glob("corpus.jsonl*")):
            file = os.path.relpath(path.parent.resolve() / path.name, workspace.root.resolve())
            stored = stored or corpus.stored_ids(file, {*judged_ids, *queries})
        itself = _queries_that_are_passages(corpus, queries, stored)
    renamed = {
        query: {stored.get(identity, identity): grade for identity, grade in grades.items()}
        for query, grades in qrels.items()
    }
    return replace(task_from(name, queries, renamed), itself=itself)


def _queries_that_are_passages(corpus: Corpus, queries: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """The passage that each query is, by its id and its words; equal ids alone may both be numbers."""
    passage_of = {}
    for query, text in queries.items():
        with contextlib.suppress(KeyError):
            passage = corpus[corpus.row(stored.get(query, query))]
            if normalise(passage.content) == normalise(text):
                passage_of[query] = passage.id
    return passage_of


class Missing(NamedTuple):
    """Judged passages that are not in the corpus."""

    passages: Sequence[str]  # ids, in order
    judgments: int
    queries: int  # all of whose judged passages are missing

    def sentence(self) -> str:
        number = len(self.passages)
        shown = ", ".join(map(repr, self.passages[:_MOST_SHOWN]))
        more = f" and {number - _MOST_SHOWN:,} more" if number > _MOST_SHOWN else ""
        subject = "1 judged passage is" if number == 1 else f"{number:,} judged passages are"
        queries = "1 query has" if self.queries == 1 else f"{self.queries:,} queries have"
        return f"{subject} not in the corpus: {shown}{more} ({queries} no other)"


def find_missing(qrels: Mapping[str, Mapping[str, int]], known: Container[str]) -> Missing:
    unknown = {query: [name for name in grades if name not in known] for query, grades in qrels.items()}
    every = [name for names in unknown.values() for name in names]
    lost = sum(bool(names) and len(names) == len(qrels[query]) for query, names in unknown.items())
    return Missing(list(dict.fromkeys(every)), len(every), lost)
