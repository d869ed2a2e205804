"""Encoders and retrievers as models of mteb 2, so that its benchmarks can score them.

    mteb.evaluate(MtebEncoder(encoder), mteb.get_tasks(tasks=["SciFact"]))

`local_task` is a retrieval task whose data is at hand, `evaluate_task` runs one task on one model. mteb itself caches
results by the name of the model: use another name for a changed model, or `mteb.evaluate(..., cache=None)`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.errors import ConfigError, InputError, LemmataError, require
from lemmata.core.types import Encoder, Floats, Progress
from lemmata.core.workspace import Workspace, silent
from lemmata.encode.load import AUTO, open_encoder
from lemmata.evaluate.export import strictly_falling
from lemmata.ingest.beir import read_corpus, read_judged
from lemmata.search.index import index_options, packaged_encoder
from lemmata.search.lexical import LexicalIndex

Search = Callable[[Sequence[str], int], list[list[tuple[str, float]]]]
BuildIndex = Callable[[Sequence[tuple[str, str]]], Search]
RETRIEVERS = ("dense", "lexical")
_BATCH = 512  # texts encoded between two signs of progress


def _meta(name: str, **fields: Any) -> Any:
    module = require("mteb", "mteb").models.model_meta
    full_name = name if "/" in name else f"lemmata/{name}"  # mteb requires an organisation
    fields |= {"name": full_name, "similarity_fn_name": module.ScoringFunction.DOT_PRODUCT}
    return module.ModelMeta.create_empty(fields)


class MtebEncoder:
    """A model for all text tasks of mteb; queries are encoded in the role `query`, all else as `passage`.

    mteb checks for the methods of its EncoderProtocol, not for a base class.
    """

    def __init__(self, encoder: Encoder, *, name: str = "", progress: Progress = silent) -> None:
        self._encoder, self._progress = encoder, progress
        self.mteb_model_meta = _meta(name or encoder.name, embed_dim=encoder.dimension)

    def encode(
        self, inputs: Iterable[Mapping[str, Sequence[str]]], *, prompt_type: str | None = None, **_: Any
    ) -> Floats:
        texts = [text for batch in inputs for text in batch["text"]]
        role = "query" if prompt_type == "query" else "passage"
        parts = [np.zeros((0, self._encoder.dimension), np.float32)]
        for start in range(0, len(texts), _BATCH):
            self._progress("encoding", start, len(texts))
            parts.append(self._encoder.encode(texts[start : start + _BATCH], role))
        return np.concatenate(parts)

    # The vectors are normalised; mteb's own functions return the tensors that its tasks expect.
    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        return require("mteb.similarity_functions", "mteb").dot_score(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        return require("mteb.similarity_functions", "mteb").pairwise_dot_score(embeddings1, embeddings2)


class MtebSearch:
    """A model for the retrieval and reranking tasks of mteb, which calls `index` before `search`.

    `build` gets (id, text) of a corpus and returns a function from queries and k to at most k (id, score) per
    query, best first. This order is scored, also where scores are equal. Reranking ranks the whole corpus and
    keeps the candidates.
    """

    def __init__(self, build: BuildIndex, *, name: str) -> None:
        self._build = build
        self.mteb_model_meta = _meta(name, model_type=[])

    def index(self, corpus: Iterable[Mapping[str, Any]], **_: Any) -> None:
        passages = [(row["id"], _joined(row.get("title"), row["text"])) for row in corpus]
        self._size = len(passages)
        self._search = self._build(passages)

    def search(
        self,
        queries: Iterable[Mapping[str, Any]],
        *,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        rows = list(queries)
        if any(not isinstance(row["text"], str) for row in rows):
            raise InputError("a query that is a conversation cannot be searched: only texts can")
        texts = [_joined(row["text"], row.get("instruction")) for row in rows]
        rankings = self._search(texts, top_k if top_ranked is None else self._size)
        results = {}
        for row, hits in zip(rows, rankings, strict=True):
            if top_ranked is not None:
                candidates = set(top_ranked.get(row["id"], ()))
                hits = [hit for hit in hits if hit[0] in candidates][:top_k]
            results[row["id"]] = strictly_falling(row["id"], hits)
        return results


def _joined(*parts: str | None) -> str:
    """Joined as mteb does it for an encoder, so that all retrievers see the same texts."""
    return " ".join(part for part in parts if part).strip()


# ---------------------------------------------------------------- tasks


def named_task(name: str) -> Any:
    """The task of mteb with this name, and its data; LemmataError where there is none, InputError without its data."""
    task = _get_task(require("mteb", "mteb"), name)
    try:
        task.load_data()
    except Exception as error:  # of the network, of the hub or of the reader of the data: whatever they raise
        cause = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"the data of {name} could not be loaded ({cause}): mteb takes it from the Hugging Face hub; with a BEIR"
            f" folder of the same data, write {name}=DIR"
        ) from error
    return task


def local_task(
    name: str,
    corpus: Sequence[Mapping[str, str]],
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    like: str = "",
) -> Any:
    """A retrieval task of mteb from data at hand; corpus: rows with `id`, `title` and `text`.

    With `like`, the name of a task of mteb, it is that task with other data. A query that is a passage of the corpus,
    by its id and its text, does not find itself.
    """
    mteb = require("mteb", "mteb")
    retrieval = require("mteb.abstasks.retrieval", "mteb")
    datasets = require("datasets", "mteb")
    texts = {row["id"]: row["text"] for row in corpus}
    split = {
        "corpus": datasets.Dataset.from_list([{key: row[key] for key in ("id", "title", "text")} for row in corpus]),
        "queries": datasets.Dataset.from_list([{"id": query, "text": queries[query]} for query in qrels]),
        "relevant_docs": {query: dict(grades) for query, grades in qrels.items()},
        "top_ranked": None,
    }
    base: Any = retrieval.AbsTaskRetrieval
    metadata = mteb.TaskMetadata(
        name=name,
        description="Retrieval on local data.",
        dataset={"path": "local", "revision": "local"},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )
    if like:
        base = _task_class(mteb, like, retrieval.AbsTaskRetrieval)
        metadata = base.metadata

    def load_data(self: Any, **_: Any) -> None:
        self.dataset = {"default": dict.fromkeys(metadata.eval_splits, split)}
        self.data_loaded = True

    itself = any(query in texts and texts[query] and texts[query] in queries[query] for query in qrels)
    members = {"metadata": metadata, "load_data": load_data, "__module__": __name__}
    return type("LocalTask", (base,), members | ({"ignore_identical_ids": True} if itself else {}))()


def _task_class(mteb: Any, name: str, kind: Any) -> Any:
    """The class of a task of mteb, whose data can be replaced."""
    task = _get_task(mteb, name)
    if not isinstance(task, kind) or task.metadata.is_multilingual or len(task.metadata.eval_splits) > 1:
        raise LemmataError(f"{name} is no retrieval task with one language and one part, so a folder cannot replace it")
    return type(task)


def _get_task(mteb: Any, name: str) -> Any:
    try:
        return mteb.get_task(name)
    except KeyError as error:
        cause = str(error.args[0]).splitlines()[0].removeprefix("KeyError: ")
        raise LemmataError(f"{name!r} is neither a folder nor a task of mteb: {cause}") from error


def evaluate_task(model: Any, task: Any) -> list[dict[str, Any]]:
    """Run a task on a model: a record with all scores for each part and language. No cache is read or written."""
    mteb = require("mteb", "mteb")
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False, co2_tracker=False).task_results[0]
    measure = task.metadata.main_score
    return [
        {
            "task": task.metadata.name,
            "part": part,
            "languages": scores["languages"],
            "measure": measure,
            "value": scores["main_score"],
            "scores": {name: value for name, value in scores.items() if isinstance(value, int | float)},
        }
        for part, several in result.scores.items()
        for scores in several
    ]


def run_mteb(
    workspace: Workspace, tasks: Sequence[str], *, encoder: str = "", retrievers: Sequence[str] = ("dense",)
) -> list[dict[str, Any]]:
    """The scores of each task and retriever, as mteb computes them.

    A task is a name of mteb (`SciFact`, data from the hub), a BEIR folder, or both (`SciFact=DIR`: mteb's task with the
    data of the folder). `dense` is the encoder, by default that of the index; `lexical` is BM25, for retrieval tasks
    only.
    """
    unknown = [name for name in retrievers if name not in RETRIEVERS]
    if unknown:
        raise ConfigError(f"mteb runs the retrievers {', '.join(RETRIEVERS)}, not {', '.join(unknown)}")
    require("datasets", "mteb").disable_progress_bars()  # ours are enough
    encoder = encoder or index_options(workspace).encoder
    encoder = packaged_encoder(workspace) if encoder == AUTO else encoder
    records = []
    with tempfile.TemporaryDirectory() as folder:
        models: dict[str, MtebEncoder | MtebSearch] = {}
        for name in retrievers:
            if name == "dense":
                models[encoder] = MtebEncoder(open_encoder(workspace, encoder), progress=workspace.progress)
            else:
                models["BM25"] = MtebSearch(partial(_build_lexical, Path(folder)), name="BM25")
        for task_name in tasks:
            workspace.progress(f"reading {task_name}", 0, None)
            task = _task(task_name)
            for name, model in models.items():
                records += [{"retriever": name, **record} for record in evaluate_task(model, task)]
    return records


def _task(written: str) -> Any:
    """The task of NAME, FOLDER or NAME=FOLDER."""
    name, separator, place = written.partition("=")
    folder = Path(place if separator else written)
    if not separator and not folder.is_dir():
        return named_task(name)
    queries, qrels = read_judged(folder)
    judged = {query: grades for query, grades in qrels.items() if query in queries}
    return local_task(folder.resolve().name, list(read_corpus(folder)), queries, judged, like=name if separator else "")


def _build_lexical(folder: Path, passages: Sequence[tuple[str, str]]) -> Search:
    """BM25 as `MtebSearch` takes it; each index gets a folder of its own."""
    ids = [identity for identity, _ in passages]
    index = LexicalIndex.build([text for _, text in passages], Path(tempfile.mkdtemp(dir=folder)) / "index")

    def search(queries: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        rows, scores = index.search(queries, k)
        return [
            [(ids[row], score) for row, score in zip(ranking, values, strict=True) if row >= 0]
            for ranking, values in zip(rows.tolist(), scores.tolist(), strict=True)
        ]

    return search
