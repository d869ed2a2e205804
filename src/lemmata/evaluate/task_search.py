"""The queries of a task asked of a workspace: rankings and judgments by row, without summaries that repeat a query."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.errors import InputError
from lemmata.core.types import Floats, Integers, Mask
from lemmata.core.workspace import Workspace, read_manifest
from lemmata.corpus.leakage import repeats
from lemmata.encode.remote import Allowance
from lemmata.evaluate.measures import Judged, judged
from lemmata.evaluate.tasks import Task
from lemmata.evaluate.workspace_tasks import Missing, find_missing
from lemmata.plant.link import indexed_corpus
from lemmata.search.index import build_lexical, update_vectors
from lemmata.search.names import RETRIEVERS, WITH_ENCODER, split_reranker
from lemmata.search.ranking import without_itself
from lemmata.search.retriever import Retriever
from lemmata.search.summaries.store import read_texts
from lemmata.search.summaries.texts import Summarised

Parsed = tuple[str, str]  # kind and encoder of a retriever, as `parse_retriever` gives them
_BATCH = 128  # queries searched at once
RERANK_BATCH = 8  # the same with reranking, which takes seconds for a query


class TaskSearch:
    """A task and the retriever that it is asked of.

    A judged passage that is not in the corpus gets a row behind it, which is in no ranking but counts among the
    relevant ones; InputError unless such are allowed.
    """

    def __init__(
        self,
        retriever: Retriever,
        task: Task,
        *,
        allow_missing: bool = False,
        allowance: Allowance | None = None,
        scratch: Path = Path(),
    ) -> None:
        self.retriever, self.task = retriever, task
        self._allowance, self._scratch = allowance, scratch
        corpus = retriever.corpus
        rows = {}
        for identity in dict.fromkeys(identity for grades in task.qrels.values() for identity in grades):
            with contextlib.suppress(KeyError):
                rows[identity] = corpus.row(identity)
        self.missing: Missing = find_missing(task.qrels, rows)
        if self.missing.passages and not allow_missing:
            sentence = f"{self.missing.sentence()}; --allow-missing goes on and counts them as not found"
            raise InputError(sentence, file=task.name)
        rows |= {identity: len(corpus) + number for number, identity in enumerate(self.missing.passages)}
        self.judgments: Judged = judged(task.qrels, rows.__getitem__)
        self.texts = [task.queries[query] for query in task.qrels]
        # the passage that each query was made from, -1 for none
        self.own_rows: Integers = np.array(
            [corpus.row(task.itself[query]) if query in task.itself else -1 for query in task.qrels], np.int64
        )

    def rank(self, name: str, depth: int) -> tuple[Integers, Floats]:
        """Rows and scores (queries, depth); a query that is itself a passage does not find itself."""
        rows = np.full((len(self.texts), depth), -1, np.int64)
        scores = np.full((len(self.texts), depth), -np.inf, np.float32)
        step = RERANK_BATCH if split_reranker(name)[1] else _BATCH
        for start in range(0, len(self.texts), step):
            batch = slice(start, start + step)
            self.retriever.workspace.progress(f"searching ({name})", start, len(self.texts))
            own_rows = self.own_rows[batch]
            ranking = self.retriever.search_rows(
                self.texts[batch], depth + 1, name, self.task.candidates, itself=own_rows
            )
            rows[batch], scores[batch] = without_itself(*ranking, own_rows)
        return rows, scores

    def prepare(self, parsed: Collection[Parsed]) -> list[str]:
        """Make what retrievers of these kinds need; returns notes on the summaries that they use.

        Encoders that are named get their vectors where they have none or those of an older corpus. A summary that
        repeats a query of the task is not used.
        """
        if any(RETRIEVERS[kind].by_words for kind, _ in parsed):
            _ = self.retriever.lexical  # refuse an old one before anything long starts
        named, queries = filter(None, (encoder for _, encoder in parsed)), list(self.task.queries.values())
        update_vectors(self.retriever.workspace, named, queries=queries, allowance=self._allowance)
        return self._hide_summaries(parsed)

    def _hide_summaries(self, parsed: Collection[Parsed]) -> list[str]:
        """Search as if no summary repeated a query: where one does, by a lexical index that does not have it."""
        retriever, scratch = self.retriever, self._scratch
        notes: dict[str, None] = {}
        for name in sorted({encoder for kind, encoder in parsed if kind in WITH_ENCODER}):
            encoder = retriever.dense(name)
            if encoder.exists and encoder.summaries is not None:
                hidden = encoder.hide_summaries(self.texts)
                notes[self._about_summaries(encoder.summaries.sources, np.asarray(encoder.summaries.rows), hidden)] = (
                    None
                )
        by_words = any(RETRIEVERS[kind].by_words for kind, _ in parsed)
        cure = "run 'lemmata index --rebuild'"
        if by_words and (summaries := read_texts(retriever.workspace.lexical_summaries, cure)):
            manifest = read_manifest(retriever.workspace.manifest(retriever.workspace.lexical_folder)) or {}
            hidden = repeats([summary.text for summary in summaries], self.texts)
            rows = np.array([summary.row for summary in summaries])
            notes[self._about_summaries(manifest["summaries"], rows, hidden)] = None
            if hidden.any():
                corpus = indexed_corpus(retriever.workspace, retriever.corpus)
                kept = Summarised(corpus, (text for text, hide in zip(summaries, hidden, strict=True) if not hide))
                tokenizer = retriever.lexical.tokenizer
                retriever.lexical = build_lexical(kept, scratch / "lexical", tokenizer)
        return list(notes)

    def _about_summaries(self, sources: Sequence[Mapping[str, Any]], rows: Integers, hidden: Mask) -> str:
        """A note on the summaries of `rows` that were used for the task, and on those that were not."""
        corpus, queries = self.retriever.corpus, len(self.texts)
        with_any = np.unique(rows[~hidden])
        summarised = set(corpus.ids_of(with_any.tolist()))
        authors = ", ".join(dict.fromkeys(str(source["author"]) for source in sources))
        answered = sum(any(name in summarised for name in relevant) for relevant in self.task.relevant())
        left_out = f" {int(hidden.sum()):,} more equal or nearly repeat a query of the task and were not used;"
        note = (
            f"passages are found by {int((~hidden).sum()):,} summaries too (author: {authors});"
            f"{left_out if hidden.any() else ''} {answered:,} of {queries:,} queries have an answer with a summary"
        )
        if 2 * answered * len(corpus) < queries * len(with_any):
            note = f"WARNING: {note}, fewer than other passages have: the figures may be too low"
        return note


@contextlib.contextmanager
def asking(
    workspace: Workspace, task: Task, *, allow_missing: bool = False, allowance: Allowance | None = None
) -> Iterator[TaskSearch]:
    """A task to be asked of a workspace; `allowance` caps what remote encoders use."""
    with (
        # Windows keeps files that are mapped, and cleans up later
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        contextlib.closing(Retriever(workspace, allowance=allowance)) as retriever,
    ):
        yield TaskSearch(retriever, task, allow_missing=allow_missing, allowance=allowance, scratch=Path(scratch))
