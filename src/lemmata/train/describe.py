"""The report and the card in the folder of a trained model."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lemmata.encode.bert import read_architecture
from lemmata.encode.static import is_static, static_settings
from lemmata.train.bases import weights_sha256
from lemmata.train.card import (
    STATIC_POOLING,
    Estimate,
    Guard,
    Measured,
    ModelFacts,
    SplitFacts,
    TrainingSet,
    inherited,
    write_card,
)
from lemmata.train.finetune import FinetuneOptions, FinetuneResult
from lemmata.train.job import Job
from lemmata.train.losses import cut_lengths
from lemmata.train.report import History, Point, training_report, write_history
from lemmata.train.reranker import RerankerOptions, RerankerResult


def describe_model(
    folder: Path, name: str, base: Path, job: Job, options: FinetuneOptions, result: FinetuneResult
) -> None:
    """Write report, history and card of an encoder into its folder."""
    sweep = [Point(point["share"], point["domain"], point["general"]) for point in result.sweep]
    measures, guards = [], []
    for task in job.validations:
        key = f"{task.name}/{task.measure}"
        before, after = Estimate(result.before[key]), Estimate(result.after[key])
        if task.general:
            guards.append(Guard(task.name, task.measure, len(task.queries), before, after, options.guard_tolerance))
        else:
            measures.append(Measured("validation", task.name, task.measure, len(task.queries), before, after))
    if is_static(folder):
        settings = static_settings(folder)
        pooling, max_tokens, prompts = STATIC_POOLING, settings["max_tokens"], settings["prompts"]
        dimension = int(settings["dimension"])
    else:
        architecture = read_architecture(folder)
        pooling, max_tokens, prompts = architecture.pooling, architecture.max_tokens, architecture.prompts
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        dimension = int(config.get("hidden_size", 0)) * max(1, len(pooling))
    facts = {
        "dimension": dimension,
        "max_tokens": max_tokens,
        "pooling": pooling,
        "prompts": {role: prompt for role, prompt in prompts.items() if prompt},
        "matryoshka": cut_lengths(options.dimensions, dimension) if options.dimensions else [],
        "measures": measures,
        "guards": guards,
        "sweep": sweep,
        "share": result.share,
        "intended_use": "Search in the corpus that it was trained for, and in text like it.",
        "limits": [
            "Measured on validation only; see the report of 'lemmata run' or 'lemmata evaluate' for the test part."
        ],
    }
    curves = {"sweep": sweep, "share": result.share if sweep else None, "pairs_per_second": result.records_per_second}
    write_description(folder, name, base, job, options, result, facts, curves)


def write_description(
    folder: Path,
    name: str,
    base: Path,
    job: Job,
    options: FinetuneOptions | RerankerOptions,
    result: FinetuneResult | RerankerResult,
    facts: Mapping[str, Any],
    curves: Mapping[str, Any],
) -> None:
    """Write the history of a training, its report, and the card: `facts`, and what it comes from."""
    history = replace(
        History.from_log(result.history),
        best_step=result.best_step,
        options=asdict(options),
        sets={each["name"]: each["records"] for each in job.facts["sets"]},
        seconds=result.seconds,
        name=name,
        **curves,
    )
    write_history(folder / "history.json", history)
    training_report(history, folder)
    libraries = ("lemmata", "torch", "transformers", "sentence-transformers", "numpy")
    installed = {library: [*importlib.metadata.distributions(name=library)] for library in libraries}
    card = ModelFacts(
        name=name,
        base=options.base,
        base_sha256=weights_sha256(base),
        **inherited(base),
        command=" ".join(["lemmata", *sys.argv[1:]]),
        sets=[
            TrainingSet(each["name"], each["records"], {"data.parquet": each.get("sha256", "")})
            for each in job.facts["sets"]
        ],
        split=SplitFacts(**job.facts["split"]) if job.facts.get("split") else None,
        options=asdict(options),
        versions={library: found[0].version for library, found in installed.items() if found},
        **facts,
    )
    write_card(folder, card)
