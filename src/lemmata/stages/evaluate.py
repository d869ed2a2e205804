"""Measure retrievers on a workspace: tasks from files or from the corpus, leakage audit, choice of the fusion."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lemmata.encode.load import model_folder
from lemmata.errors import InputError, LeakageError, LemmataError
from lemmata.evaluate.report import Report
from lemmata.evaluate.runs import write_trec_run
from lemmata.evaluate.significance import compare
from lemmata.evaluate.tasks import Task, concepts_task, documents_task, held_out, references_task, task_from
from lemmata.ingest.beir import read_judged
from lemmata.leakage import Example, audit, examples, normalise
from lemmata.measures import evaluate as measure
from lemmata.measures import gains, judged, parse_measure
from lemmata.search import Fusion, Retriever, choose_fusion
from lemmata.stages.training_sets import split_key
from lemmata.store.corpus import Corpus
from lemmata.store.graph import concept_passages, open_graph
from lemmata.store.layout import Layout, read_manifest, write_manifest
from lemmata.store.split import PARTS, Keys, Split, id_keys, open_split
from lemmata.store.trained import read_trained
from lemmata.types import Floats, Integers, Mask, Progress

__all__ = ["TASKS", "EvaluateOptions", "TaskOptions", "beir_task", "corpus_task", "evaluate", "table_task", "tune"]

TASKS = ("references", "documents", "concepts", "descriptions")
_BATCH = 128  # queries searched at once
_MOST_SHOWN = 5  # missing passages in a message


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """What is measured and how."""

    CHOICES: ClassVar = {"level": ("passage", "document")}
    measures: str = "MRR@10,nDCG@10,R@20,R@100,Success@1,MAP@100"  # comma-separated; the first two are compared
    level: str = "passage"  # or document: any passage of a relevant document counts
    baseline: str = ""  # retriever that the others are compared with; empty: the first
    seed: int = 0  # random seed


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Where the queries of a task come from."""

    part: str = ""  # of the split: validation or test; empty: a random share of the corpus
    share: float = 0.2  # of the documents or concepts, without a part
    limit: int = 0  # keep a random sample of so many queries; 0: all
    protocol: str = "passage"  # or seed, for concepts
    seed: int = 0


# ---------------------------------------------------------------- tasks


def corpus_task(layout: Layout, name: str, options: TaskOptions) -> Task:
    """A task made from the corpus itself: `references`, `documents`, `concepts` or `descriptions`.

    With a part of the split, queries from seen and unseen documents are reported apart.
    """
    if name not in TASKS:
        raise LemmataError(f"there is no task {name!r} (there are: {', '.join(TASKS)})")
    if options.part and options.part not in PARTS:
        raise LemmataError(f"the split has the parts {', '.join(PARTS)}, not {options.part!r}")
    if options.protocol not in ("passage", "seed"):
        raise LemmataError(f"the protocol is passage or seed, not {options.protocol!r}")
    generator = np.random.default_rng(options.seed)
    with contextlib.closing(Corpus(layout)) as corpus:
        split = open_split(layout, corpus.inputs) if options.part else None
        if name in ("concepts", "descriptions"):
            task = _concept_task(layout, corpus, name, split, options, generator)
        else:
            task = _passage_task(corpus, name, split, options, generator)
    if not task.queries:
        hint = ": no concept occurs in two documents" if name in ("concepts", "descriptions") else ""
        raise LemmataError(f"this corpus has no queries for the task {name!r}{hint}")
    if split is None:
        return task
    notes = (*task.notes, f"queries from the {options.part} part of the split")
    return replace(task, notes=notes, part=options.part)


def table_task(
    layout: Layout,
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
    with contextlib.closing(Corpus(layout)) as corpus:
        is_prose = np.array([passage.kind in ("chunk", "abstract") for passage in corpus], bool)
        row_of = {identity: row for row, identity in enumerate(corpus.ids())}
    answers = [identity for grades in qrels.values() for identity in grades]
    missing = _find_missing(qrels, row_of)
    if missing and not allow_missing:
        raise InputError(f"{missing.sentence()}; the corpus is that of {layout.root}", file=str(file))
    prose_answers = any(is_prose[row_of[identity]] for identity in answers if identity in row_of)
    return replace(task, candidates=None if prose_answers else ~is_prose)


def beir_task(layout: Layout, folder: Path, *, name: str) -> Task:
    """The task of a BEIR folder, by its test judgments, else by the only ones that it has.

    Where its passages were stored under other ids, the judgments get these.
    """
    files = sorted(folder.glob("qrels/*.tsv"))
    queries, qrels = read_judged(folder, files[0].stem if len(files) == 1 else "test")
    judged_ids = {identity for grades in qrels.values() for identity in grades}
    stored: dict[str, str] = {}
    with contextlib.closing(Corpus(layout)) as corpus:
        for path in sorted(folder.glob("corpus.jsonl*")):
            file = os.path.relpath(path.parent.resolve() / path.name, layout.root.resolve())
            stored = stored or corpus.stored_ids(file, judged_ids)
    renamed = {
        query: {stored.get(identity, identity): grade for identity, grade in grades.items()}
        for query, grades in qrels.items()
    }
    return task_from(name, queries, renamed)


def _passage_task(
    corpus: Corpus, name: str, split: Split | None, options: TaskOptions, generator: np.random.Generator
) -> Task:
    passages, documents = list(corpus), list(corpus.documents())
    query_ids: set[str] | None = None
    groups: dict[str, set[str]] = {}
    if split is None:
        query_documents = held_out([document.id for document in documents], options.share, generator)
    else:
        in_part = split.rows(options.part)
        query_ids = {passages[row].id for row in np.flatnonzero(in_part).tolist()}
        unseen = {passages[row].id for row in np.flatnonzero(in_part & split.unseen).tolist()}
        groups = {"seen": query_ids - unseen, "unseen": unseen}
        query_documents = {passage.document for passage in passages if passage.id in query_ids}
    if name == "references":
        task = references_task(passages, query_documents, query_ids=query_ids, limit=options.limit, generator=generator)
        return replace(task, groups=groups)
    chosen = [document for document in documents if document.id in query_documents]
    return documents_task(passages, chosen, limit=options.limit, generator=generator)


def _concept_task(
    layout: Layout,
    corpus: Corpus,
    name: str,
    split: Split | None,
    options: TaskOptions,
    generator: np.random.Generator,
) -> Task:
    stored = open_graph(layout)
    mentioning, defining = concept_passages(stored)
    if split is None:
        chosen = held_out(list(stored.concepts), options.share, generator)
    else:
        chosen = {identity for identity in stored.concepts if split.part_of(identity) == options.part}
    return concepts_task(
        [concept for identity, concept in stored.concepts.items() if identity in chosen],
        mentioning,
        dict(corpus.documents_of()),
        query_by="name" if name == "concepts" else "description",
        protocol=options.protocol,
        defined_in=defining,
        limit=options.limit,
        generator=generator,
    )


# ---------------------------------------------------------------- judgments of passages that are not there


class _Missing(NamedTuple):
    """Judged passages that are not in the corpus; true where there are any."""

    passages: Sequence[str]  # ids, in order
    judgments: int
    queries: int  # all of whose judged passages are missing

    def __bool__(self) -> bool:
        return bool(self.passages)

    def sentence(self) -> str:
        number = len(self.passages)
        shown = ", ".join(map(repr, self.passages[:_MOST_SHOWN]))
        more = f" and {number - _MOST_SHOWN:,} more" if number > _MOST_SHOWN else ""
        subject = "1 judged passage is" if number == 1 else f"{number:,} judged passages are"
        queries = "1 query has" if self.queries == 1 else f"{self.queries:,} queries have"
        return f"{subject} not in the corpus: {shown}{more} ({queries} no other)"


def _find_missing(qrels: Mapping[str, Mapping[str, int]], known: Container[str]) -> _Missing:
    passages: dict[str, None] = {}
    judgments = queries = 0
    for grades in qrels.values():
        unknown = [identity for identity in grades if identity not in known]
        passages |= dict.fromkeys(unknown)
        judgments += len(unknown)
        queries += bool(unknown) and len(unknown) == len(grades)
    return _Missing(list(passages), judgments, queries)


def _rows_of_judged(corpus: Corpus, task: Task, *, allow_missing: bool) -> tuple[_Missing, Callable[[str], int]]:
    """The missing passages, and the row of each judged one; a missing passage gets a row behind the corpus.

    Such a row is in no ranking but counts among the relevant ones. InputError unless they are allowed.
    """
    judged_ids = dict.fromkeys(identity for grades in task.qrels.values() for identity in grades)
    rows = {}
    for identity in judged_ids:
        with contextlib.suppress(KeyError):
            rows[identity] = corpus.row(identity)
    missing = _find_missing(task.qrels, rows)
    if missing and not allow_missing:
        raise InputError(f"{missing.sentence()}; --allow-missing goes on and counts them as not found", file=task.name)
    rows |= {identity: len(corpus) + number for number, identity in enumerate(missing.passages)}
    return missing, rows.__getitem__


# ---------------------------------------------------------------- measuring


def evaluate(
    layout: Layout,
    task: Task,
    options: EvaluateOptions,
    progress: Progress,
    *,
    retrievers: Sequence[str],
    train: Sequence[Example] = (),
    allow_leakage: bool = False,
    allow_missing: bool = False,
    command: str = "",
    trec: Path | None = None,
    key: str = "",
) -> Report:
    """Run retrievers on a task: measures per query with intervals, comparisons, and notes on how it was done.

    `train` are the examples that anything here was trained or tuned on. A task that leaks from them is refused unless
    `allow_leakage`, which the report then states. Queries whose documents occur in training are reported apart, as
    *seen* and *unseen*. Judgments of passages that are not in the corpus are refused unless `allow_missing`; they then
    count as relevant passages that no retriever finds. `trec` names a file for the rankings; with several retrievers
    each gets its own.
    """
    measures = [parse_measure(name) for name in options.measures.split(",")]
    notes = list(task.notes)
    with contextlib.closing(Retriever(layout, key=key)) as retriever:
        corpus = retriever.corpus
        missing, row_of = _rows_of_judged(corpus, task, allow_missing=allow_missing)
        judgments = judged(task.qrels, row_of)
        if missing:
            notes.append(f"{missing.sentence()}; they count as relevant and not found")
        members = {
            name: np.array([query in queries for query in task.qrels], bool) for name, queries in task.groups.items()
        }
        groups: dict[str, Mask] = {name: mask for name, mask in members.items() if mask.any()}
        if train:
            notes += _audit(corpus, task, train, allow_leakage)
            groups = _seen_and_unseen(corpus, task, train)
        dense = [name for name in retrievers if name != "lexical"]
        encoder = retriever.vectors.encoder if dense else ""
        trained_on: dict[str, int] = {}
        if dense and task.part:
            trained_on, warnings = _trained_on(layout, corpus, task, encoder)
            notes += warnings
        documents = corpus.document_numbers() if options.level == "document" else None
        if documents is not None:
            # each missing passage is a document of its own
            documents = np.append(documents, documents.max(initial=-1) + 1 + np.arange(len(missing.passages)))
            notes.append("document level: a document counts by its best passage")
        depth = max(100, *(m.cutoff for m in measures)) * (10 if documents is not None else 1)
        # a query without relevant passages misses nothing
        relevant = np.array([max(1, sum(grade > 0 for grade in grades.values())) for grades in task.qrels.values()])
        results: dict[str, Any] = {}
        recall: dict[str, Any] = {}
        for name in retrievers:
            ranked, scores = _rank(retriever, task, name, min(depth, len(corpus)), progress)
            if trec is not None:
                path = trec if len(retrievers) == 1 else trec.with_name(f"{trec.stem}.{name}{trec.suffix}")
                write_trec_run(path, _by_id(corpus, task, ranked, scores), retriever=name)
            results[name] = measure(ranked, judgments, measures, documents=documents)
            recall[name] = np.cumsum(gains(ranked[:, :100], judgments) > 0, axis=1) / relevant[:, None]
    generator = np.random.default_rng(options.seed)
    baseline = options.baseline or retrievers[0]
    compared = [str(m) for m in measures][:2] if len(results) > 1 else []
    return Report(
        task=task.name,
        queries=list(task.qrels),
        texts={query: task.queries[query] for query in task.qrels},
        retrievers=results,
        groups=groups,
        comparisons=[c for name in compared for c in compare(results, name, baseline, generator)],
        recall=recall,
        notes=notes,
        command=command,
        missing={"passages": len(missing.passages), "judgments": missing.judgments, "queries": missing.queries},
        encoder=encoder,
        trained_on=trained_on,
    )


def _trained_on(layout: Layout, corpus: Corpus, task: Task, encoder: str) -> tuple[dict[str, int], list[str]]:
    """Queries of a part that the encoder knows from its training under another split, counted, and the warning."""
    folder = model_folder(encoder, layout.models)
    split = split_key(layout)
    corpus_keys = id_keys(corpus.ids())
    others = [
        record
        for record in read_trained(folder)
        # a set of another workspace has its own split; ids in common are no reason to warn
        if record.split != split and 2 * int(np.isin(record.passages, corpus_keys).sum()) > len(record.passages)
    ]
    if not others:
        model = folder.parent if folder.name == "onnx" else folder
        trained_under = str((read_manifest(model / "manifest.json") or {}).get("split", split))
        if trained_under == split or read_trained(folder):
            return {}, []
        warning = f"WARNING: {encoder} was trained under another split, and it is not recorded on what: train it again"
        return {}, [warning]
    trained = _among(corpus.ids(), [record.passages for record in others])
    texts = {query: normalise(task.queries[query]) for query in task.qrels}
    asked = _among(list(texts.values()), [record.queries for record in others])
    counts = {
        "queries": sum(texts[query] in asked or task.itself.get(query) in trained for query in task.qrels),
        "answers": sum(any(grade > 0 and name in trained for name, grade in task.qrels[q].items()) for q in task.qrels),
    }
    seeds = ", ".join(sorted({str(record.seed) for record in others}))
    how = f"{encoder} was trained under another split (seed {seeds})"
    if not any(counts.values()):
        return counts, [f"{how}, but on none of these queries and on none of their answers"]
    warning = (
        f"WARNING: {how}: of {len(task.qrels)} queries it was trained on {counts['queries']} themselves, and on answers"
        f" of {counts['answers']}; the figures may be too good"
    )
    return counts, [warning]


def _among(names: Sequence[str], keys: Sequence[Keys]) -> set[str]:
    """Those of the names whose hashes are known."""
    known = np.isin(id_keys(names), np.concatenate(keys))
    return {names[place] for place in np.flatnonzero(known).tolist()}


def _audit(corpus: Corpus, task: Task, train: Sequence[Example], allow_leakage: bool) -> list[str]:
    def text(identity: str) -> str:
        try:
            return corpus[corpus.row(identity)].bare_text
        except KeyError:  # of a missing passage only its id is known; empty texts would be near-duplicates
            return identity

    def neighbours(identity: str) -> list[str]:
        try:
            passage = corpus[corpus.row(identity)]
        except KeyError:
            return []
        targets = [link.target for link in passage.links if link.target]
        return targets + [source for source, _ in corpus.referring(identity)]

    result = audit(train, examples(task.queries, task.qrels), text=text, neighbours=neighbours)
    leaks = [offence for offence in result.offences if offence.kind != "neighbour"]
    if leaks and not allow_leakage:
        raise LeakageError(f"{result.sentence()}; --allow-leakage evaluates anyway and says so in the report")
    return [("LEAKAGE ALLOWED: " if leaks else "") + result.sentence()]


def _seen_and_unseen(corpus: Corpus, task: Task, train: Sequence[Example]) -> dict[str, Mask]:
    """Queries by whether a document of their answers occurs in training."""

    def document(identity: str) -> str:
        try:
            return corpus[corpus.row(identity)].document
        except KeyError:  # of a passage that is missing nobody saw another
            return ""

    trained = {document(passage) for example in train for passage in example.passages} - {""}
    seen = np.array([any(document(passage) in trained for passage in task.qrels[query]) for query in task.qrels], bool)
    return {"seen": seen, "unseen": ~seen}


def _rank(retriever: Retriever, task: Task, name: str, depth: int, progress: Progress) -> tuple[Integers, Floats]:
    """Rows and scores (queries, depth); a query that is itself a passage does not find itself."""
    queries = list(task.qrels)
    row = retriever.corpus.row
    own_rows = np.array([row(task.itself[query]) if query in task.itself else -1 for query in queries], np.int64)
    rows = np.full((len(queries), depth), -1, np.int64)
    scores = np.full((len(queries), depth), -np.inf, np.float32)
    for start in range(0, len(queries), _BATCH):
        batch = slice(start, start + _BATCH)
        progress(f"searching ({name})", start, len(queries))
        texts = [task.queries[query] for query in queries[batch]]
        hits, values = retriever.search_rows(texts, depth + 1, name, task.candidates)
        is_own = hits == own_rows[batch, None]
        dropped = np.where(is_own.any(axis=1), is_own.argmax(axis=1), depth)[:, None]
        columns = np.arange(depth)[None, :]
        columns = columns + (columns >= dropped)
        rows[batch] = np.take_along_axis(hits, columns, 1)
        scores[batch] = np.take_along_axis(values, columns, 1)
    return rows, scores


def _by_id(corpus: Corpus, task: Task, rows: Integers, scores: Floats) -> dict[str, list[tuple[str, float]]]:
    """Rankings of a task as passage ids with scores, by query."""
    ids = corpus.ids()
    return {
        query: [(ids[row], score) for row, score in zip(*ranking, strict=True) if row >= 0]
        for query, *ranking in zip(task.qrels, rows.tolist(), scores.tolist(), strict=True)
    }


# ---------------------------------------------------------------- tuning


def tune(
    layout: Layout, task: Task, measure_name: str, progress: Progress, *, key: str = "", allow_missing: bool = False
) -> dict[str, Any]:
    """Choose how dense and lexical rankings are fused, on a validation task; search uses it from then on.

    Judgments of passages that are not in the corpus are refused unless `allow_missing`.
    """
    chosen_measure = parse_measure(measure_name)
    with contextlib.closing(Retriever(layout, key=key)) as retriever:
        _, row_of = _rows_of_judged(retriever.corpus, task, allow_missing=allow_missing)
        judgments = judged(task.qrels, row_of)
        dense, lexical = (_rank(retriever, task, name, Fusion().depth, progress) for name in ("dense", "lexical"))

    def value(ranked: Integers) -> float:
        return float(measure(ranked, judgments, [chosen_measure])[str(chosen_measure)].mean())

    best, tried = choose_fusion(value, dense, lexical, max(100, chosen_measure.cutoff))
    report = {"verb": "tune", "fusion": asdict(best), "measure": measure_name, "queries": len(task.queries)}
    table = [{**asdict(fusion), measure_name: round(score, 4)} for fusion, score in tried]
    write_manifest(layout.fusion, {**report, "task": task.name, "tried": table})
    return {**report, "tried": table}
