"""Write the encoder that lemmata-mini starts from: granite in the shape of BERT, with the tokens that the texts use.

    python -m recipes.lemmata_mini.start DATA MODELS

Reads MODELS/granite-30m and DATA/texts.txt, writes MODELS/granite-start in the format of sentence-transformers. Two
thirds of the weights of granite are of tokens, and a third of these are rare. A text whose tokens are all kept has the
same tokens and vector as before; other words are cut into smaller tokens. Positions begin at 0, and the type of a
token, of which there is one, is part of its position.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from recipes.lemmata_mini.distil import LONGEST
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from lemmata.core.types import Integers
from lemmata.encode.restore import configuration

MOST = 34_000  # tokens: the matrices of six layers and these are 24 MB as int8
FIRST = 2  # rows of positions that RoBERTa leaves empty


def used(tokenizer: Tokenizer, texts: list[str]) -> Integers:
    """How often each token stands in the texts."""
    counts = np.zeros(tokenizer.get_vocab_size(), np.int64)
    for begin in range(0, len(texts), 20_000):
        for encoding in tokenizer.encode_batch_fast(texts[begin : begin + 20_000], add_special_tokens=False):
            np.add.at(counts, encoding.ids, 1)
    return counts


def reduced(content: dict[str, Any], counts: Integers) -> tuple[dict[str, Any], Integers]:
    """A byte-pair tokenizer of the most frequent tokens, with all that they are merged from; the numbers they had."""
    model = content["model"]
    numbers: dict[str, int] = model["vocab"]
    pairs = [tuple(pair if isinstance(pair, list) else pair.split(" ")) for pair in model["merges"]]
    parts = {first + second: (first, second) for first, second in pairs}
    special = [token["content"] for token in content["added_tokens"]]
    kept = {*special, *(token for token in numbers if token not in parts)}  # and single bytes

    def with_parts(token: str) -> set[str]:
        """The token and what it is merged from, as far as that is not kept yet."""
        return set() if token in kept else {token}.union(*map(with_parts, parts[token]))

    for token in sorted(parts, key=lambda token: (-counts[numbers[token]], numbers[token])):
        if token in kept or counts[numbers[token]] == 0:
            continue
        if len(kept) + len(more := with_parts(token)) > MOST:
            break
        kept |= more
    order = sorted(kept, key=numbers.__getitem__)
    vocabulary = {token: number for number, token in enumerate(order)}
    merges = [list(pair) for pair in pairs if pair[0] + pair[1] in vocabulary]
    result = copy.deepcopy({**content, "model": {**model, "vocab": vocabulary, "merges": merges}})
    for token in result["added_tokens"]:
        token["id"] = vocabulary[token["content"]]
    processor = result["post_processor"]
    for side in ("sep", "cls"):
        processor[side][1] = vocabulary[processor[side][0]]
    result["truncation"] = result["padding"] = None
    return result, np.array([numbers[token] for token in order])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("models", type=Path)
    arguments = parser.parse_args()
    source, out = arguments.models / "granite-30m", arguments.models / "granite-start"
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    domains = np.load(arguments.data / "domains.npy")
    texts = (arguments.data / "texts.txt").read_text(encoding="utf-8").split("\n")
    counts = used(tokenizer, [text for text, domain in zip(texts, domains.tolist(), strict=True) if domain >= 0])
    content, rows = reduced(json.loads((source / "tokenizer.json").read_text(encoding="utf-8")), counts)
    weights = load_file(source / "model.safetensors")
    names = [f"embeddings.{part}_embeddings.weight" for part in ("word", "position", "token_type")]
    words, positions, types = (weights[name] for name in names)
    weights |= dict(zip(names, (words[rows], positions[FIRST:] + types[0], 0 * types), strict=True))
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    shape = {"model_type": "bert", "vocab_size": len(rows), "max_position_embeddings": len(positions) - FIRST}
    settings = {"pooling": ["cls"], "max_tokens": LONGEST, "prompts": {}}
    shutil.rmtree(out, ignore_errors=True)
    (out / "1_Pooling").mkdir(parents=True)
    (out / "2_Normalize").mkdir()
    (out / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    (out / "encoder.json").write_text(json.dumps(settings), encoding="utf-8")
    files = configuration(out / "encoder.json", {**config, **shape}, Tokenizer.from_file(str(out / "tokenizer.json")))
    for name, facts in files.items():
        (out / name).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    plain = {name: np.ascontiguousarray(values) for name, values in weights.items()}
    save_file(plain, out / "model.safetensors", metadata={"format": "pt"})
    share = counts[rows].sum() / counts.sum()
    print(f"{out}: {len(rows)} of {len(counts)} tokens, which are {share:.2%} of those of the texts")


if __name__ == "__main__":
    main()
