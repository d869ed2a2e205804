"""Measure retrievers on a workspace: tasks from files or from the corpus, leakage audit, choice of the fusion."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lemmata.core.errors import InputError, LeakageError, LemmataError
from lemmata.core.types import Floats, Integers, Mask, Passage, Progress
from lemmata.core.workspace import Settings, VectorSet, Workspace, read_manifest, vector_set, write_manifest
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import Example, audit, examples, normalise, repeats
from lemmata.corpus.split import PARTS, Keys, Split, id_keys, open_split
from lemmata.corpus.trained import read_trained
from lemmata.corpus.training_files import split_key
from lemmata.encode.load import encoder_id, is_static_encoder, model_folder
from lemmata.encode.remote import Allowance
from lemmata.evaluate.measures import Judged, Measure, evaluate_whole_documents, gains, judged, parse_measure
from lemmata.evaluate.measures import evaluate as measure_rankings
from lemmata.evaluate.report import Report
from lemmata.evaluate.runs import write_trec_qrels, write_trec_run
from lemmata.evaluate.significance import Floats64, compare
from lemmata.evaluate.tasks import Task, concepts_task, documents_task, held_out, references_task, task_from
from lemmata.graph.store import concept_passages, open_graph
from lemmata.ingest.beir import check_judgments, read_judged, read_table
from lemmata.ingest.queries import read_imported
from lemmata.plant.link import indexed_corpus
from lemmata.search.fusion import DENSE, EQUAL, FEWEST, LEXICAL, Fusion, candidates, combine, default_fusion, fit_fusion
from lemmata.search.index import update_vectors
from lemmata.search.lexical import LexicalIndex
from lemmata.search.ranking import choose_rerank_weight, without_itself
from lemmata.search.retriever import WITH_ENCODER, Retriever, parse_retriever, split_reranker
from lemmata.search.summaries.store import read_texts
from lemmata.search.summaries.texts import Summarised

TASKS = ("references", "documents", "concepts", "descriptions")
_BATCH = 128  # queries searched at once
_RERANK_BATCH = 8  # the same with reranking, which takes seconds for a query
_MOST_SHOWN = 5  # missing passages in a message
_LEVELS = {
    "document": "document level: a document counts by its best passage",
    "whole-document": "whole-document level: all passages of the documents of the answers are relevant",
}


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """What is measured and how."""

    CHOICES: ClassVar = {"level": ("passage", "document", "whole-document")}
    measures: str = "MRR@10,nDCG@10,R@20,R@100,Success@1,MAP@100"  # comma-separated
    level: str = "passage"  # document: documents are ranked; whole-document: all passages of an answer's document count
    seed: int = 0  # random seed


# ---------------------------------------------------------------- tasks


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

    Queries come from a `part` of the split (validation or test), where those from seen and unseen documents are
    reported apart, or from a random `share` of the documents or concepts. `limit` keeps a random sample of so many
    queries, 0 all of them. `protocol` is passage, or seed for concepts.
    """
    if name not in TASKS:
        raise LemmataError(f"there is no task {name!r} (there are: {', '.join(TASKS)})")
    if part and part not in PARTS:
        raise LemmataError(f"the split has the parts {', '.join(PARTS)}, not {part!r}")
    if protocol not in ("passage", "seed"):
        raise LemmataError(f"the protocol is passage or seed, not {protocol!r}")
    generator = np.random.default_rng(seed)
    with contextlib.closing(Corpus(workspace)) as corpus:
        split = open_split(workspace, corpus.digest) if part else None
        if name in ("references", "documents"):
            task = _passage_task(corpus, name, split, part, share, limit, generator)
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
) -> Task:
    passages, documents = list(corpus), list(corpus.documents())
    query_ids: set[str] | None = None
    groups: dict[str, set[str]] = {}
    if split is None:
        query_documents = held_out([document.id for document in documents], share, generator)
    else:
        in_part = split.rows(part)
        query_ids = {passages[row].id for row in np.flatnonzero(in_part).tolist()}
        unseen = {passages[row].id for row in np.flatnonzero(in_part & split.unseen).tolist()}
        groups = {"seen": query_ids - unseen, "unseen": unseen}
        query_documents = {passage.document for passage in passages if passage.id in query_ids}
    if name == "references":
        task = references_task(passages, query_documents, query_ids=query_ids, limit=limit, generator=generator)
        return replace(task, groups=groups)
    chosen = [document for document in documents if document.id in query_documents]
    return documents_task(passages, chosen, limit=limit, generator=generator)


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
        is_prose = np.array([passage.kind in ("chunk", "abstract") for passage in corpus], bool)
        row_of = {identity: row for row, identity in enumerate(corpus.ids())}
    answers = [identity for grades in qrels.values() for identity in grades]
    missing = _find_missing(qrels, row_of)
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
    found = {}
    for query, text in queries.items():
        with contextlib.suppress(KeyError):
            passage = corpus[corpus.row(stored.get(query, query))]
            if normalise(passage.content) == normalise(text):
                found[query] = passage.id
    return found


# ---------------------------------------------------------------- judgments of passages that are not there


class _Missing(NamedTuple):
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


def _find_missing(qrels: Mapping[str, Mapping[str, int]], known: Container[str]) -> _Missing:
    unknown = {query: [name for name in grades if name not in known] for query, grades in qrels.items()}
    every = [name for names in unknown.values() for name in names]
    lost = sum(bool(names) and len(names) == len(qrels[query]) for query, names in unknown.items())
    return _Missing(list(dict.fromkeys(every)), len(every), lost)


def _judged_rows(corpus: Corpus, task: Task, *, allow_missing: bool) -> tuple[_Missing, Judged]:
    """The missing passages, and the judgments by row; a missing passage gets a row behind the corpus.

    Such a row is in no ranking but counts among the relevant ones. InputError unless they are allowed.
    """
    rows = {}
    for identity in dict.fromkeys(identity for grades in task.qrels.values() for identity in grades):
        with contextlib.suppress(KeyError):
            rows[identity] = corpus.row(identity)
    missing = _find_missing(task.qrels, rows)
    if missing.passages and not allow_missing:
        raise InputError(f"{missing.sentence()}; --allow-missing goes on and counts them as not found", file=task.name)
    rows |= {identity: len(corpus) + number for number, identity in enumerate(missing.passages)}
    return missing, judged(task.qrels, rows.__getitem__)


# ---------------------------------------------------------------- measuring


def evaluate_options(workspace: Workspace, settings: Settings | None = None) -> EvaluateOptions:
    """The options of [evaluate]."""
    return workspace.options(EvaluateOptions, "evaluate", settings)


def evaluate(
    workspace: Workspace,
    task: Task,
    *,
    retrievers: Sequence[str] = ("lexical", "dense", "hybrid", "auto"),
    options: EvaluateOptions | None = None,
    train: Sequence[Example] = (),
    allow_leakage: bool = False,
    allow_missing: bool = False,
    command: str = "",
    trec: str | Path | None = None,
    allowance: Allowance | None = None,
) -> Report:
    """Run retrievers on a task: measures per query with intervals, comparisons, and notes on how it was done.

    `train` are the examples that anything here was trained or tuned on. A task that leaks from them is refused unless
    `allow_leakage`, which the report then states. Queries whose documents occur in training are reported apart, as
    *seen* and *unseen*. Judgments of passages that are not in the corpus are refused unless `allow_missing`; they then
    count as relevant passages that no retriever finds. `trec` names a file for the rankings (with several retrievers
    each gets its own); the judgments stand beside it, with the suffix `.qrels`. Encoders that retrievers name
    (`dense:minilm`) get their vectors first where they have none or those of an older corpus; `allowance` caps what
    remote ones use for that and for the queries.
    """
    options = options or evaluate_options(workspace)
    parsed = {name: parse_retriever(name) for name in retrievers}
    measures = [parse_measure(name) for name in options.measures.split(",")]
    baseline = retrievers[0]
    with _scratch() as scratch, contextlib.closing(Retriever(workspace, allowance=allowance)) as retriever:
        corpus, notes = retriever.corpus, list(task.notes)
        missing, judgments = _judged_rows(corpus, task, allow_missing=allow_missing)
        if missing.passages:
            notes.append(f"{missing.sentence()}; they count as relevant and not found")
        if train:
            notes += _audit(corpus, task, train, allow_leakage)
        encoder = _prepare(retriever, task, parsed, allowance)
        notes += _hide_summaries(retriever, task, parsed.values(), scratch)
        trained_on, warnings = _known_queries(retriever, task, parsed, encoder)
        notes += [*warnings, *_fitted_to(retriever, task, retrievers)]
        notes += filter(None, (retriever.missing_part(name) for kind, name in parsed.values() if kind == "auto"))
        if options.level != "passage":
            notes.append(_LEVELS[options.level])
        measure_level = _measuring(retriever, task, judgments, measures, options.level)
        depth = max(100, *(each.cutoff for each in measures)) * (10 if options.level == "document" else 1)
        # a query without relevant passages misses nothing
        relevant = np.array([max(1, len(names)) for names in task.relevant()])
        results: dict[str, Any] = {}
        recall: dict[str, Any] = {}
        uses = Counter(used for _, used in parsed.values())
        if trec is not None:
            write_trec_qrels(Path(trec).with_name(f"{Path(trec).stem}.qrels"), task.qrels)
        for name, (_, used) in parsed.items():
            ranked, scores = _rank(retriever, task, name, min(depth, len(corpus)), workspace.progress)
            results[name] = measure_level(ranked)
            recall[name] = np.cumsum(gains(ranked[:, :100], judgments) > 0, axis=1) / relevant[:, None]
            if trec is not None:
                _write_trec(Path(trec), corpus, task, name, (ranked, scores), single=len(retrievers) == 1)
            uses[used] -= 1
            if used and not uses[used]:
                retriever.release(used)
        groups = _seen_and_unseen(corpus, task, train) if train else _task_groups(task)
    generator = np.random.default_rng(options.seed)
    compared = [str(each) for each in measures] if len(results) > 1 else []
    return Report(
        task=task.name,
        queries=list(task.qrels),
        texts={query: task.queries[query] for query in task.qrels},
        retrievers=results,
        groups=groups,
        comparisons=[pair for name in compared for pair in compare(results, name, baseline, generator)],
        recall=recall,
        notes=notes,
        command=command,
        missing={"passages": len(missing.passages), "judgments": missing.judgments, "queries": missing.queries},
        encoder=encoder,
        trained_on=trained_on,
    )


Parsed = Mapping[str, tuple[str, str]]  # kind and encoder of each retriever, as `parse_retriever` gives them


def _prepare(retriever: Retriever, task: Task, parsed: Parsed, allowance: Allowance | None) -> str:
    """Make what the retrievers need; returns the encoder of those that name none, empty where there is no such one."""
    if any(kind != "dense" for kind, _ in parsed.values()):
        _ = retriever.lexical  # refuse an old one before anything long starts
    named = filter(None, (encoder for _, encoder in parsed.values()))
    update_vectors(retriever.workspace, named, queries=list(task.queries.values()), allowance=allowance)
    is_default_used = any(kind in WITH_ENCODER and not encoder for kind, encoder in parsed.values())
    return retriever.vectors.encoder if is_default_used else ""


def _known_queries(retriever: Retriever, task: Task, parsed: Parsed, encoder: str) -> tuple[dict[str, int], list[str]]:
    """Queries of a part that encoders and rerankers know from another split: the most of an encoder, and warnings."""
    known: dict[str, int] = {}
    warnings: list[str] = []
    if not task.part:
        return known, warnings
    for name in dict.fromkeys(filter(None, (encoder, *(named for _, named in parsed.values())))):
        counts, about_encoder = _trained_on(retriever.workspace, retriever.corpus, task, name)
        known = {what: max(count, known.get(what, 0)) for what, count in counts.items()} or known
        warnings += about_encoder
    rerankers = (split_reranker(name) for name in parsed)
    for model in dict.fromkeys(retriever.reranker_name(model) for _, number, model in rerankers if number):
        warnings += _trained_on(retriever.workspace, retriever.corpus, task, model)[1]
    return known, warnings


def _measuring(
    retriever: Retriever, task: Task, judgments: Judged, measures: Sequence[Measure], level: str
) -> Callable[[Integers], dict[str, Floats64]]:
    """A function from rankings to the measures of a level."""
    if level == "passage":
        return lambda ranked: measure_rankings(ranked, judgments, measures)
    documents = retriever.corpus.document_numbers()
    behind = max(0, int(judgments.rows.max(initial=-1)) + 1 - len(documents))  # each missing passage is a document
    documents = np.append(documents, documents.max(initial=-1) + 1 + np.arange(behind))
    if level == "document":
        return lambda ranked: measure_rankings(ranked, judgments, measures, documents=documents)
    own = _own_rows(retriever.corpus, task)
    return lambda ranked: evaluate_whole_documents(
        ranked, judgments, measures, documents=documents, candidates=task.candidates, itself=own
    )


def _task_groups(task: Task) -> dict[str, Mask]:
    """The groups of a task that have queries."""
    groups = {name: np.array([query in group for query in task.qrels], bool) for name, group in task.groups.items()}
    return {name: mask for name, mask in groups.items() if mask.any()}


def _write_trec(
    path: Path, corpus: Corpus, task: Task, retriever: str, ranking: tuple[Integers, Floats], *, single: bool
) -> None:
    """Write the ranking of a retriever: to a file of its own unless it is the only one."""
    word = re.sub(r"[^\w.-]+", "-", retriever)  # an encoder may be a path
    ids = corpus.ids()
    by_id = {
        query: [(ids[row], score) for row, score in zip(rows, scores, strict=True) if row >= 0]
        for query, rows, scores in zip(task.qrels, ranking[0].tolist(), ranking[1].tolist(), strict=True)
    }
    path = path if single else path.with_name(f"{path.stem}.{word}{path.suffix}")
    write_trec_run(path, by_id, retriever=retriever)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for as long as it is needed; Windows keeps files that are mapped, and cleans up later."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _hide_summaries(retriever: Retriever, task: Task, parsed: Iterable[tuple[str, str]], scratch: Path) -> list[str]:
    """Search as if no summary repeated a query of the task, and say so; `parsed` are kinds and encoders of retrievers.

    Where one does, a lexical index without it is built in `scratch`, which is needed as long as the retriever is.
    """
    parsed = list(parsed)
    queries = [task.queries[query] for query in task.qrels]
    notes: dict[str, None] = {}
    for name in sorted({encoder for kind, encoder in parsed if kind in WITH_ENCODER}):
        encoder = retriever.dense(name)
        if encoder.exists and encoder.summaries is not None:
            hidden = encoder.hide_summaries(queries)
            rows = np.asarray(encoder.summaries.rows)
            notes[_about_summaries(retriever.corpus, task, encoder.summaries.sources, rows, hidden)] = None
    lexical = any(kind != "dense" for kind, _ in parsed)
    cure = "run 'lemmata index --rebuild'"
    if lexical and (summaries := read_texts(retriever.workspace.lexical_summaries, cure)):
        manifest = read_manifest(retriever.workspace.manifest(retriever.workspace.lexical_folder)) or {}
        hidden = repeats([summary.text for summary in summaries], queries)
        rows = np.array([summary.row for summary in summaries])
        notes[_about_summaries(retriever.corpus, task, manifest["summaries"], rows, hidden)] = None
        if hidden.any():
            corpus = indexed_corpus(retriever.workspace, retriever.corpus)
            kept = Summarised(corpus, (summary for summary, hide in zip(summaries, hidden, strict=True) if not hide))
            tokenizer = retriever.lexical.tokenizer
            LexicalIndex.build(kept.contents(), scratch / "lexical", headings=kept.headings(), tokenizer=tokenizer)
            retriever.lexical = LexicalIndex.open(scratch / "lexical")
    return list(notes)


def _about_summaries(
    corpus: Corpus, task: Task, sources: Sequence[Mapping[str, Any]], rows: Integers, hidden: Mask
) -> str:
    """A note on the summaries of `rows` that were used for a task, and on those that were not."""
    with_any = np.unique(rows[~hidden])
    summarised = set(corpus.ids_of(with_any.tolist()))
    authors = ", ".join(dict.fromkeys(str(source["author"]) for source in sources))
    answered = sum(any(name in summarised for name in relevant) for relevant in task.relevant())
    left_out = f" {int(hidden.sum()):,} more equal or nearly repeat a query of the task and were not used;"
    left_out = left_out if hidden.any() else ""
    note = (
        f"passages are found by {int((~hidden).sum()):,} summaries too (author: {authors});{left_out}"
        f" {answered:,} of {len(task.qrels):,} queries have an answer with a summary"
    )
    if 2 * answered * len(corpus) < len(task.qrels) * len(with_any):
        note = f"WARNING: {note}, fewer than other passages have: the figures may be too low"
    return note


def _trained_on(workspace: Workspace, corpus: Corpus, task: Task, encoder: str) -> tuple[dict[str, int], list[str]]:
    """Queries of a part that the encoder knows from its training under another split, counted, and the warning."""
    folder = model_folder(encoder, workspace.models_folder)
    split = split_key(workspace)
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
        "answers": sum(any(name in trained for name in relevant) for relevant in task.relevant()),
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


def _passage(corpus: Corpus, identity: str) -> Passage | None:
    """A passage by its id; None where it is not in the corpus."""
    with contextlib.suppress(KeyError):
        return corpus[corpus.row(identity)]
    return None


def _audit(corpus: Corpus, task: Task, train: Sequence[Example], allow_leakage: bool) -> list[str]:
    def text(identity: str) -> str:
        # of a missing passage only its id is known; empty texts would be near-duplicates
        passage = _passage(corpus, identity)
        return passage.bare_text if passage else identity

    def neighbours(identity: str) -> list[str]:
        passage = _passage(corpus, identity)
        if passage is None:
            return []
        targets = [link.target for link in passage.links if link.target]
        return targets + [source for source, _ in corpus.referring(identity)]

    result = audit(train, examples(task.queries, task.qrels), text=text, neighbours=neighbours)
    leaks = [offence for offence in result.offences if offence.kind != "neighbour"]
    if leaks and not allow_leakage:
        raise LeakageError(f"{result.sentence()}; --allow-leakage evaluates anyway and says so in the report")
    return [("LEAKAGE ALLOWED: " if leaks else "") + result.sentence()]


def _seen_and_unseen(corpus: Corpus, task: Task, train: Sequence[Example]) -> dict[str, Mask]:
    """Queries by whether a document of their answers occurs in training; of a missing passage nobody saw another."""

    def documents(identities: Iterable[str]) -> set[str]:
        return {passage.document for identity in identities if (passage := _passage(corpus, identity))}

    trained = documents(identity for example in train for identity in example.passages)
    seen = np.array([not trained.isdisjoint(documents(relevant)) for relevant in task.relevant()], bool)
    return {"seen": seen, "unseen": ~seen}


def _own_rows(corpus: Corpus, task: Task) -> Integers:
    """The row of the passage that each query was made from (queries,), -1 for none."""
    return np.array([corpus.row(task.itself[q]) if q in task.itself else -1 for q in task.qrels], np.int64)


def _rank(retriever: Retriever, task: Task, name: str, depth: int, progress: Progress) -> tuple[Integers, Floats]:
    """Rows and scores (queries, depth); a query that is itself a passage does not find itself."""
    queries = list(task.qrels)
    own_rows = _own_rows(retriever.corpus, task)
    rows = np.full((len(queries), depth), -1, np.int64)
    scores = np.full((len(queries), depth), -np.inf, np.float32)
    step = _RERANK_BATCH if split_reranker(name)[1] else _BATCH
    for start in range(0, len(queries), step):
        batch = slice(start, start + step)
        progress(f"searching ({name})", start, len(queries))
        texts = [task.queries[query] for query in queries[batch]]
        ranking = retriever.search_rows(texts, depth + 1, name, task.candidates, itself=own_rows[batch])
        rows[batch], scores[batch] = without_itself(*ranking, own_rows[batch])
    return rows, scores


# ---------------------------------------------------------------- tuning


def _check_tunable(task: Task) -> None:
    if task.part == "test":
        raise LeakageError("weights are not fitted to the test part of the split: fit them to --part validation")


def _vectors_of(workspace: Workspace, encoder: str) -> VectorSet | None:
    """The vectors of an encoder; without a name, those that search uses."""
    return vector_set(workspace, encoder_id(encoder, workspace.models_folder) if encoder else "")


def _check_enough(workspace: Workspace, task: Task, encoder: str) -> None:
    """Refuse to replace weights by those of queries that are too few to tell."""
    vectors = _vectors_of(workspace, encoder)
    if vectors is None or len(task.qrels) >= FEWEST:
        return
    before = int((read_manifest(vectors.fusion) or {}).get("queries", 0))
    if before >= FEWEST:
        raise InputError(
            f"fewer than {FEWEST} queries cannot tell which weights are good, and there are some that were fitted to"
            f" {before:,}: give more queries, or delete {vectors.fusion} first",
            file=task.name,
        )


def _keys_of(task: Task) -> list[int]:
    """Hashes of the queries, by which they are known again."""
    keys: list[int] = id_keys([normalise(task.queries[query]) for query in task.qrels]).tolist()
    return keys


def _fitted_to(retriever: Retriever, task: Task, retrievers: Sequence[str]) -> list[str]:
    """Warnings where weights that the retrievers use were fitted to queries of the task."""
    asked: dict[str, list[int]] = {}
    for name in retrievers:
        base, number, model = split_reranker(name)
        kind, encoder = parse_retriever(base)
        vectors = _vectors_of(retriever.workspace, encoder)
        if kind == "auto" and vectors is not None:
            asked[base] = (read_manifest(vectors.fusion) or {}).get("asked", [])
        if number and (weight := retriever.stored_rerank_weight(base, model)):
            asked[name] = weight.get("asked", [])
    keys = np.array(_keys_of(task), np.uint64)
    known = {name: int(np.isin(keys, np.array(each, np.uint64)).sum()) for name, each in asked.items()}
    return [
        f"WARNING: the weights of {name} were fitted to {count:,} of these {len(keys):,} queries: it looks too good"
        for name, count in known.items()
        if count
    ]


def tune(
    workspace: Workspace,
    task: Task,
    *,
    measure: str = "MRR@10",
    encoder: str = "",
    allow_missing: bool = False,
    allowance: Allowance | None = None,
) -> dict[str, Any]:
    """Fit the weights of `auto` to a validation task: dense, lexical, and what graph and learned metric there are.

    They hold for one `encoder`, by default the one that search uses; vectors of a named one are made where they
    are missing. Judgments of passages that are not in the corpus are refused unless `allow_missing`, and the test part
    of the split always.
    """
    _check_tunable(task)
    _check_enough(workspace, task, encoder)
    with _scratch() as scratch, contextlib.closing(Retriever(workspace, allowance=allowance)) as retriever:
        queries = list(task.queries.values())
        update_vectors(workspace, filter(None, [encoder]), queries=queries, allowance=allowance)
        _hide_summaries(retriever, task, [("auto", encoder)], scratch)
        values, graph = fusion_values(
            retriever, task, measure, workspace.progress, encoder=encoder, allow_missing=allow_missing
        )
        learned = retriever.dense(encoder).metric is not None
    workspace.progress("fitting the fusion", 0, None)
    vectors = _vectors_of(workspace, encoder)
    assert vectors is not None  # the dense ranking came from them
    default = default_fusion(static=is_static_encoder(vectors.encoder, workspace.models_folder))
    fit = fit_fusion(values, default, graph=graph, learned=learned)
    named = {"auto": fit.fusion, "default": default, "equal": EQUAL, "dense": DENSE, "lexical": LEXICAL}
    report = {
        "verb": "tune",
        "fusion": asdict(fit.fusion),
        "measure": measure,
        "queries": len(task.queries),
        "task": task.name,
        "values": {name: round(float(values(fusion).mean()), 4) for name, fusion in named.items()},
        "tried": [{**asdict(each), measure: round(float(value.mean()), 4)} for each, value in fit.tried.items()],
    }
    write_manifest(vectors.fusion, {**report, "asked": _keys_of(task)})
    return report


def fusion_values(
    retriever: Retriever,
    task: Task,
    measure_name: str,
    progress: Progress,
    *,
    encoder: str = "",
    allow_missing: bool = False,
) -> tuple[Callable[[Fusion], Floats64], bool]:
    """A function that measures a fusion on each query of a task, and whether the corpus has a graph of citations.

    Both rankings are searched once; each fusion then costs milliseconds.
    """
    chosen_measure = parse_measure(measure_name)
    _, judgments = _judged_rows(retriever.corpus, task, allow_missing=allow_missing)
    names = (f"dense:{encoder}" if encoder else "dense", "lexical")
    dense, lexical = (_rank(retriever, task, name, Fusion().depth, progress) for name in names)
    citations, own = retriever.citations, _own_rows(retriever.corpus, task)
    texts = [task.queries[query] for query in task.qrels]
    learned = retriever.learned(texts, Fusion().depth, task.candidates, encoder)
    crowding = retriever.dense(encoder).vectors.crowding
    found = candidates(dense, lexical, crowding, citations, own, task.candidates, learned=learned)

    @cache
    def values(fusion: Fusion) -> Floats64:
        rows, _ = combine(found, max(100, chosen_measure.cutoff), fusion)
        return measure_rankings(rows, judgments, [chosen_measure])[str(chosen_measure)]

    return values, citations is not None and bool(citations.counts.any())


def tune_rerank(
    workspace: Workspace,
    task: Task,
    retriever: str = "auto+rerank",
    *,
    measure: str = "MRR@10",
    allow_missing: bool = False,
    allowance: Allowance | None = None,
) -> dict[str, Any]:
    """Choose the weight of a cross-encoder, on a validation task; search uses it from then on.

    `retriever` is one such as `hybrid+rerank` or `dense+rerank20:MODEL`. The weight 0 is the retriever alone, 1 the
    cross-encoder alone. `allowance` caps what a remote encoder uses for the queries.
    """
    _check_tunable(task)
    chosen = parse_measure(measure)
    base, number, model = split_reranker(retriever)
    with _scratch() as scratch, contextlib.closing(Retriever(workspace, allowance=allowance)) as opened:
        _, judgments = _judged_rows(opened.corpus, task, allow_missing=allow_missing)
        _hide_summaries(opened, task, [parse_retriever(base)], scratch)
        depth = min(max(number, chosen.cutoff), len(opened.corpus))
        rows, scores = _rank(opened, task, base, depth, workspace.progress)
        cross = np.full((len(rows), min(number, depth)), -np.inf, np.float32)
        texts = [task.queries[query] for query in task.qrels]
        for start in range(0, len(rows), _RERANK_BATCH):
            workspace.progress("reranking", start, len(rows))
            batch = slice(start, start + _RERANK_BATCH)
            cross[batch] = opened.cross_scores(texts[batch], rows[batch, : cross.shape[1]], model)
        reranker = opened.cross_encoder(model).name

    def value(ranked: Integers) -> float:
        return float(measure_rankings(ranked, judgments, [chosen])[str(chosen)].mean())

    weight, tried = choose_rerank_weight(value, (rows, scores), cross)
    report = {
        "reranker": reranker,
        "retriever": base,
        "hits": number,
        "weight": weight,
        "measure": measure,
        "queries": len(task.qrels),
        "task": task.name,
        "tried": [{"weight": each, measure: round(score, 4)} for each, score in tried],
    }
    place = f"{base}+rerank:{reranker}"
    weights = (read_manifest(workspace.rerank) or {}).get("weights", {})
    weights.pop(place, None)  # the one that was chosen last is the last
    weights[place] = {**report, "asked": _keys_of(task)}
    write_manifest(workspace.rerank, {"verb": "tune", "weights": weights})
    return report
