"""For other tools: the corpus as JSON lines that `ingest` reads back, tasks as BEIR folders, rankings as TREC files."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.files import writing
from lemmata.core.objects import ObjectStore, is_url
from lemmata.core.workspace import Workspace
from lemmata.corpus.corpus import Corpus
from lemmata.evaluate.tasks import Task
from lemmata.ingest.beir import passage_record, write_beir

_BEIR_FILES = frozenset(("corpus.jsonl", "queries.jsonl", "qrels"))


def export_corpus(workspace: Workspace, path: str | Path) -> dict[str, Any]:
    """Write the cleaned passages as JSON lines, in the order of the rows, each with title and authors of its document.

    `path` may be a URL of an object store, where the object appears when it is complete.
    Ingested again, they have the same ids, texts, kinds, titles and resolved links. Not in the file: the LaTeX source
    of a passage, its place in it, the bibliographies, and the tree of locations, which has a table of its own.
    """
    if is_url(path):
        store = ObjectStore(str(path))
        workspace.fetched.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=workspace.fetched.parent) as folder:
            report = export_corpus(workspace, Path(folder) / "corpus.jsonl")
            workspace.progress("sending", 0, None)
            store.upload(Path(folder) / "corpus.jsonl")
        return {**report, "file": store.url}
    with contextlib.closing(Corpus(workspace)) as corpus, writing(Path(path)) as temporary:
        documents = {document.id: document for document in corpus.documents() if document.kind != "location"}

        def is_id(name: str) -> bool:
            with contextlib.suppress(KeyError):
                return name in documents or corpus.row(name) >= 0
            return False

        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            for row, passage in enumerate(corpus):
                if row % 1000 == 0:
                    workspace.progress("writing passages", row, len(corpus))
                record = passage_record(passage, documents.get(passage.document), is_id=is_id)
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        return {"file": str(path), "passages": len(corpus), "documents": len(corpus.document_ids())}


def export_beir(workspace: Workspace, task: Task, folder: str | Path) -> dict[str, Any]:
    """Write a task as a BEIR folder: its candidates as `corpus.jsonl`, `queries.jsonl`, and `qrels/test.tsv`.

    A folder that holds anything else is refused. BEIR has no word for a passage that is no result for one query:
    `notes` of the report say how many queries have one.
    """
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and _BEIR_FILES.issuperset(path.name for path in folder.iterdir())):
        raise WorkspaceError(f"{folder} holds other files, which would be lost: name a new folder")
    with contextlib.closing(Corpus(workspace)) as corpus, writing(folder) as temporary:
        rows = range(len(corpus)) if task.candidates is None else np.flatnonzero(task.candidates).tolist()
        counts = write_beir(
            temporary, corpus.in_rows(rows), task.queries, task.qrels, workspace.progress, total=len(rows)
        )
    same = sum(query == passage for query, passage in task.itself.items())
    notes = list(task.notes)
    if same:
        notes.append(f"{same:,} queries are passages of the corpus under the same id: leave those out of the results")
    if len(task.itself) > same:
        notes.append(f"{len(task.itself) - same:,} queries were made from a passage that is in the corpus")
    return {"folder": str(folder), "task": task.name, **counts, "notes": notes}


# ---------------------------------------------------------------- TREC files, for trec_eval, ir_measures and ranx


def write_trec_run(path: Path, rankings: Mapping[str, Iterable[tuple[str, float]]], *, retriever: str) -> None:
    """Write lines of `query Q0 passage rank score retriever`; rankings: query id to (passage id, score), best first.

    The file holds one run: tools that read it expect each passage once per query. Scores are lowered where they
    tie, see `strictly_falling`. Ids and retriever names with white space raise InputError, and no file is written.
    """
    tag = _word(retriever)
    with writing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        for query, hits in rankings.items():
            scores = strictly_falling(query, hits)
            for rank, (passage, score) in enumerate(scores.items(), 1):
                stream.write(f"{_word(query)} Q0 {_word(passage)} {rank} {score:.9g} {tag}\n")


def write_trec_qrels(path: Path, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Write lines of `query 0 passage grade`. Ids with white space raise InputError, and no file is written."""
    with writing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        for query, grades in qrels.items():
            for passage, grade in grades.items():
                stream.write(f"{_word(query)} 0 {_word(passage)} {grade}\n")


def _word(text: str) -> str:
    if text.split() != [text]:
        raise InputError(f"a TREC file cannot hold {text!r}: its columns are separated by white space")
    return text


def strictly_falling(query: str, hits: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Scores that fall from hit to hit, each lowered as little as possible.

    trec_eval sorts by score in single precision and breaks ties by id. Only scores that differ in single precision
    keep the order of the retriever.
    """
    scores: dict[str, float] = {}
    score_above = np.float32(np.inf)
    for passage, score in hits:
        if passage in scores:
            raise InputError(f"the ranking for the query {query!r} holds {passage!r} twice")
        score_above = min(np.float32(score), np.nextafter(score_above, np.float32(-np.inf)))
        scores[passage] = float(score_above)
    return scores
