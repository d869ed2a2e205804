"""`lemmata train reranker`: from the training sets of a workspace to a cross-encoder that its search can use."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.errors import LemmataError
from lemmata.core.workspace import Settings, Workspace
from lemmata.corpus.trained import read_trained, write_trained
from lemmata.corpus.training_files import read_training, set_file, text_columns
from lemmata.encode.bert import is_cross_bert
from lemmata.encode.cross import cross_folder, is_cross_encoder, load_cross_encoder
from lemmata.encode.export import write_cross_encoder
from lemmata.encode.load import BASELINE, PACKAGED
from lemmata.encode.restore import restore_cross_encoder
from lemmata.evaluate.tasks import Task, restricted
from lemmata.evaluate.tuning import tune
from lemmata.mine.training_sets import trainable_sets
from lemmata.train.bases import base_folder, base_sha256, find_base, load_from_hub, trainable_copy, weights_sha256
from lemmata.train.card import Estimate, Measured, write_description
from lemmata.train.finetune import FinetuneOptions
from lemmata.train.job import Job
from lemmata.train.prepare import is_of
from lemmata.train.ranks import held_by_first, is_first_process
from lemmata.train.reranker import LONGEST, RerankerOptions, RerankerResult, train_reranker
from lemmata.train.train import (
    DRIFT_TEXTS,
    PRECISION,
    check_name,
    make_model,
    model_options,
    notes_of_sets,
    prepare_sets,
    trained_before,
    training_inputs,
)

RERANKED = 20  # hits of a held-out query that are reranked to choose the weight of the reranker
WEIGHED = 50  # held-out queries for that


def reranker_model(workspace: Workspace, name: str = "reranker", *, settings: Settings | None = None) -> dict[str, Any]:
    """Train a cross-encoder on mined sets, by [reranker.NAME]; resumes from the last checkpoint.

    Its weight beside the retriever's own score is chosen on held-out pairs, where the workspace has an index.
    """
    options = model_options(workspace, RerankerOptions, "reranker", name, settings)
    check_name(name, options.base)

    def build(work: Path) -> dict[str, Any]:
        if cross_base is None:
            base = base_folder(workspace, options.base, work)
        else:
            base = trainable_copy(cross_base, work, "config.json", restore_cross_encoder)
        job, out = prepare_sets(workspace, base, as_finetuning, work / "job"), work / "out"
        shown = replace(options, sets=chosen)
        result = train_reranker(base, job, out, shown, work=work / "work", progress=workspace.progress)
        values = {part: value for part, value in result._asdict().items() if part not in ("history", "held_out")}
        report = {"name": name, **values, "held_out": sum(map(len, result.held_out.values())), "notes": notes}
        if is_first_process():
            task = _held_out_task(workspace, result)
            _describe_reranker(out, name, base, job, options, result)
            before = read_trained(cross_base) if cross_base is not None else trained_before(workspace, options.base)
            write_trained(out, [*before, *read_trained(job.folder)])
            report |= _export_reranker(out, name, task)
            report |= _weigh(workspace, out, task)
        return report

    with held_by_first(workspace.hold()):
        chosen = options.sets or dict.fromkeys(_sets_with_negatives(workspace), 1.0)
        as_finetuning = FinetuneOptions(sets=chosen, prompts={"query": "", "passage": ""})
        hashes = {
            part: value
            for part, value in training_inputs(workspace, as_finetuning).items()
            if part in ("sets", "split")
        }
        cross_base = _cross_base(workspace, options.base)
        sha256 = weights_sha256(cross_base) if cross_base is not None else base_sha256(workspace, options.base)
        notes = notes_of_sets(workspace, chosen)
        inputs = {"verb": "reranker", "options": asdict(options), "base_sha256": sha256, **hashes}
        return {**make_model(workspace.model(name), inputs, build, workspace), "notes": notes}


def _sets_with_negatives(workspace: Workspace) -> list[str]:
    """All sets that have negatives, or all where none has."""
    names = list(trainable_sets(workspace))
    with_negatives = [name for name in names if len(text_columns(set_file(workspace, name))) > 2]
    return with_negatives or names


def _cross_base(workspace: Workspace, name: str) -> Path | None:
    """The folder of a base that is a cross-encoder already; None for an encoder."""
    folder = cross_folder(name, workspace.models_folder)
    folder = folder.parent if folder.name == "onnx" else folder
    if not folder.is_dir() and name not in (*PACKAGED, BASELINE) and find_base(workspace, name) is None:
        folder = load_from_hub(name)
    return folder if is_cross_encoder(folder) else None


def _held_out_task(workspace: Workspace, result: RerankerResult) -> Task:
    """Held-out records as queries; every positive that the sets have for such a query is an answer."""
    queries: dict[str, str] = {}
    itself: dict[str, str] = {}
    files = {
        spec: set_file(workspace, spec.partition(":")[0])
        for spec in result.held_out
        if "/" not in spec.partition(":")[0]
    }
    for spec, file in files.items():
        places = set(result.held_out[spec])
        restriction = spec.partition(":")[2]
        records = (line for line in read_training(file) if is_of(line, restriction))
        for number, line in enumerate(records):
            if number in places and line["anchor"] not in queries.values():
                query = f"{spec}-{number}"
                queries[query] = line["anchor"]
                if line["anchor_id"] is not None:
                    itself[query] = line["anchor_id"]
    by_text = {text: query for query, text in queries.items()}
    qrels: dict[str, dict[str, int]] = {query: {} for query in queries}
    for file in dict.fromkeys(files.values()):
        for line in read_training(file):
            if line["anchor"] in by_text:
                qrels[by_text[line["anchor"]]][line["positive_id"]] = 1
    return Task("held-out pairs", queries, qrels, itself=itself)


def _export_reranker(folder: Path, name: str, task: Task) -> dict[str, Any]:
    """Export a reranker, so that searching needs no torch, and compare scores; the report says why where that fails."""
    if not is_cross_bert(folder):
        return {"drift": None, "not_exported": "it is no BERT with one score for a pair"}
    write_cross_encoder(folder, folder / "onnx", PRECISION, name, LONGEST)
    texts = list(task.queries.values())[:DRIFT_TEXTS]
    pairs = list(zip(texts, texts[1:] + texts[:1], strict=True)) + [(text, text) for text in texts]
    if len(pairs) < 4:
        return {"drift": None, "precision": PRECISION}
    exported, original = (load_cross_encoder(str(place)).score(pairs) for place in (folder / "onnx", folder))
    correlation = float(np.corrcoef(exported, original)[0, 1])
    return {"drift": {"pairs": len(pairs), "correlation": correlation}, "precision": PRECISION}


def _weigh(workspace: Workspace, folder: Path, task: Task) -> dict[str, Any]:
    """Choose the reranker's weight on held-out pairs; where that fails, search gives it the default weight.

    A missing index or a remote encoder that does not answer is no reason to lose a trained model.
    """
    model = folder / "onnx" if (folder / "onnx").is_dir() else folder
    few = restricted(task, list(task.queries)[:WEIGHED])
    if not few.queries:
        return {"weight": None}
    try:
        return {"weight": tune(workspace, few, f"auto+rerank{RERANKED}:{model}")}
    except LemmataError as error:
        return {"weight": None, "not_weighed": str(error)}


def _describe_reranker(
    folder: Path, name: str, base: Path, job: Job, options: RerankerOptions, result: RerankerResult
) -> None:
    """Write report, history and card of a cross-encoder into its folder."""
    queries = sum(map(len, result.held_out.values()))
    facts = {
        "dimension": 0,
        "max_tokens": LONGEST,
        "pooling": (),
        "measures": [
            Measured(
                "held-out pairs", "ten passages", measure, queries, Estimate(value), Estimate(result.after[measure])
            )
            for measure, value in result.before.items()
        ],
        "intended_use": "Rerank the first hits of a search in its corpus, and check mined training data.",
        "limits": [
            "The held-out pairs are of the training part; 'lemmata evaluate --retriever dense+rerank' measures others.",
            "Scores are comparable between queries of one kind, but are no probabilities.",
        ],
    }
    curves = {"pairs_per_second": result.pairs_per_second}
    write_description(folder, name, base, job, options, result, facts, curves)
