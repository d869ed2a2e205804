"""Write the corpus and its tasks for other tools: JSON lines that `ingest` reads back, and BEIR folders."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.errors import WorkspaceError
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
