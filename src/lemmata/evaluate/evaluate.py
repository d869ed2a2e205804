"""Measure retrievers on a task: measures per query with intervals, comparisons, and notes on how it was done."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.errors import ConfigError
from lemmata.core.types import Floats, Integers, Mask
from lemmata.core.workspace import Settings, Workspace
from lemmata.corpus.corpus import Corpus
from lemmata.corpus.leakage import Example
from lemmata.encode.remote import Allowance
from lemmata.evaluate.export import write_trec_qrels, write_trec_run
from lemmata.evaluate.measures import Measure, evaluate_whole_documents, gains, parse_measure
from lemmata.evaluate.measures import evaluate as measure_rankings
from lemmata.evaluate.report import Report
from lemmata.evaluate.significance import Floats64, compare
from lemmata.evaluate.task_search import TaskSearch, asking
from lemmata.evaluate.tasks import Task
from lemmata.evaluate.training_seen import audit_task, known_queries, seen_and_unseen, trained_passages
from lemmata.evaluate.tuning import fitted_to
from lemmata.search.hints import missing_part
from lemmata.search.names import USUAL, WITH_ENCODER, parse_retriever

_LEVELS = {
    "document": "document level: a document counts by its best passage",
    "whole-document": "whole-document level: all passages of the documents of the answers are relevant",
}


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """What is measured and how."""

    measures: str = "MRR@10,nDCG@10,R@20,R@100,Success@1,MAP@100"  # comma-separated
    level: str = "passage"  # document: documents are ranked; whole-document: all passages of an answer's document count
    seed: int = 0  # random seed

    def names(self) -> dict[str, tuple[str, Measure]]:
        """Level and measure by the name in the report, which tells the level only where there are several."""
        levels = [level.strip() for level in self.level.split(",")]
        for level in levels:
            if level not in ("passage", *_LEVELS):
                raise ConfigError(f"the level is passage, document or whole-document, not {level!r}")
        measures = [parse_measure(name) for name in self.measures.split(",")]
        plain = "passage" if len(levels) > 1 else levels[0]
        return {
            str(measure) if level == plain else f"{measure} ({level})": (level, measure)
            for level in levels
            for measure in measures
        }


def evaluate_options(workspace: Workspace, settings: Settings | None = None) -> EvaluateOptions:
    return workspace.options(EvaluateOptions, "evaluate", settings)


def evaluate(
    workspace: Workspace,
    task: Task,
    *,
    retrievers: Sequence[str] = USUAL,
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
    asked = options.names()
    levels = list(dict.fromkeys(level for level, _ in asked.values()))
    baseline = retrievers[0]
    with asking(workspace, task, allow_missing=allow_missing, allowance=allowance) as search:
        retriever, missing, judgments = search.retriever, search.missing, search.judgments
        corpus, notes = retriever.corpus, list(task.notes)
        if missing.passages:
            notes.append(f"{missing.sentence()}; they count as relevant and not found")
        if train:
            notes += audit_task(corpus, task, train, allow_leakage)
        notes += search.prepare(list(parsed.values()))
        is_default_used = any(kind in WITH_ENCODER and not named for kind, named in parsed.values())
        encoder = retriever.vectors.encoder if is_default_used else ""
        trained_on, warnings = known_queries(retriever, task, parsed, encoder)
        notes += [*warnings, *fitted_to(retriever, task, retrievers)]
        notes += filter(None, (missing_part(retriever, name) for kind, name in parsed.values() if kind == "auto"))
        notes += [_LEVELS[level] for level in levels if level != "passage"]
        measure_level = {
            level: _measuring(search, [measure for other, measure in asked.values() if other == level], level)
            for level in levels
        }
        depth = max(100, *(each.cutoff for _, each in asked.values())) * (10 if "document" in levels else 1)
        # a query without relevant passages misses nothing
        relevant = np.array([max(1, len(names)) for names in task.relevant()])
        results: dict[str, Any] = {}
        recall: dict[str, Any] = {}
        uses = Counter(used for _, used in parsed.values())
        if trec is not None:
            write_trec_qrels(Path(trec).with_name(f"{Path(trec).stem}.qrels"), task.qrels)
        for name, (_, used) in parsed.items():
            ranked, scores = search.rank(name, min(depth, len(corpus)))
            values = {level: measure(ranked) for level, measure in measure_level.items()}
            results[name] = {label: values[level][str(measure)] for label, (level, measure) in asked.items()}
            recall[name] = np.cumsum(gains(ranked[:, :100], judgments) > 0, axis=1) / relevant[:, None]
            if trec is not None:
                _write_trec(Path(trec), corpus, task, name, (ranked, scores), single=len(retrievers) == 1)
            uses[used] -= 1
            if used and not uses[used]:
                retriever.release(used)
        groups = _groups(corpus, task, train, trained_passages(retriever, parsed, encoder))
    generator = np.random.default_rng(options.seed)
    compared = list(asked) if len(results) > 1 else []
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


def _measuring(
    search: TaskSearch, measures: Sequence[Measure], level: str
) -> Callable[[Integers], dict[str, Floats64]]:
    """A function from rankings to the measures of a level."""
    judgments = search.judgments
    if level == "passage":
        return lambda ranked: measure_rankings(ranked, judgments, measures)
    documents = search.retriever.corpus.document_numbers()
    behind = max(0, int(judgments.rows.max(initial=-1)) + 1 - len(documents))  # each missing passage is a document
    documents = np.append(documents, documents.max(initial=-1) + 1 + np.arange(behind))
    if level == "document":
        return lambda ranked: measure_rankings(ranked, judgments, measures, documents=documents)
    return lambda ranked: evaluate_whole_documents(
        ranked, judgments, measures, documents=documents, candidates=search.task.candidates, itself=search.own_rows
    )


def _groups(corpus: Corpus, task: Task, train: Sequence[Example], trained: Collection[str]) -> dict[str, Mask]:
    """Queries about seen and unseen documents: by the examples, else by what the models learned from, else the task's.

    A group without queries is left out, unless examples were named.
    """
    if train:
        return seen_and_unseen(corpus, task, (identity for example in train for identity in example.passages))
    groups = {name: np.array([query in group for query in task.qrels], bool) for name, group in task.groups.items()}
    if trained:
        groups = seen_and_unseen(corpus, task, trained)
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
