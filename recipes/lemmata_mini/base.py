"""Turn the ONNX file of a BERT encoder into a sentence-transformers folder that can be trained.

    python recipes/lemmata_mini/base.py MODEL.onnx FOLDER OUT --pooling mean --layers 6

FOLDER holds config.json and tokenizer.json of the model. The file is one that torch exported, plain, fused to fp16 or
quantised to int8 by onnxruntime: registries of packages hold several small encoders in these forms, and no others.
With --layers, every second (third, …) layer is kept, counted so that the last one always is. With --centre, the mean
vector of some texts is subtracted from all vectors: where any two texts have a cosine near 1, training at the usual
temperature first destroys what the model knows.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from safetensors.numpy import load_file, save_file

from lemmata.encode.restore import named_weights


def weights(file: Path) -> dict[str, np.ndarray[Any, Any]]:
    """All weights in fp32, by the names of BERT; a fused graph multiplies by query, key and value at once."""
    found = named_weights(file)
    graph = onnx.load(file).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for layer, node in enumerate(node for node in graph.node if node.op_type == "Attention"):
        joined, bias = (onnx.numpy_helper.to_array(constants[name]).astype(np.float32) for name in node.input[1:3])
        parts = zip(("query", "key", "value"), np.split(joined, 3, axis=1), np.split(bias, 3), strict=True)
        for part, matrix, own in parts:
            found[f"encoder.layer.{layer}.attention.self.{part}.weight"] = np.ascontiguousarray(matrix.T)
            found[f"encoder.layer.{layer}.attention.self.{part}.bias"] = own
    return found


def kept(tensors: dict[str, np.ndarray[Any, Any]], chosen: list[int]) -> dict[str, np.ndarray[Any, Any]]:
    """The weights of some layers, numbered anew, and all that is outside the layers."""
    number = {str(old): new for new, old in enumerate(chosen)}
    result = {}
    for name, value in tensors.items():
        match = re.match(r"encoder\.layer\.(\d+)\.(.*)", name)
        if match is None:
            result[name] = value
        elif match[1] in number:
            result[f"encoder.layer.{number[match[1]]}.{match[2]}"] = value
    return result


def centre(folder: Path, texts: list[str]) -> None:
    """Subtract the mean vector of the texts in the bias of the last norm, which adds to the vector of every token."""
    from sentence_transformers import SentenceTransformer

    transformer, pooling, *_ = SentenceTransformer(str(folder), device="cpu")
    mean = SentenceTransformer(modules=[transformer, pooling], device="cpu").encode(texts, batch_size=32).mean(axis=0)
    tensors = load_file(folder / "model.safetensors")
    last = max(int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layer."))
    tensors[f"encoder.layer.{last}.output.LayerNorm.bias"] -= mean
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pooling", choices=("mean", "cls"), default="mean")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--centre", type=Path, help="a file with one text a line")
    arguments = parser.parse_args()
    config = json.loads((arguments.folder / "config.json").read_text(encoding="utf-8"))
    tensors, depth, out = weights(arguments.model), int(config["num_hidden_layers"]), arguments.out
    if len(tensors) != 5 + 16 * depth:
        raise SystemExit(
            f"{arguments.model}: {len(tensors)} weights found, a BERT of {depth} layers has {5 + 16 * depth}"
        )
    layers = arguments.layers or depth
    chosen = [round((place + 1) * depth / layers) - 1 for place in range(layers)]
    width = int(config["hidden_size"])
    longest = int(config["max_position_embeddings"])
    files: dict[str, Any] = {
        "config.json": {
            **config,
            "architectures": ["BertModel"],
            "num_hidden_layers": layers,
            "torch_dtype": "float32",
        },
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
        "sentence_bert_config.json": {"max_seq_length": min(longest, 256), "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": width,
            "pooling_mode_cls_token": arguments.pooling == "cls",
            "pooling_mode_mean_tokens": arguments.pooling == "mean",
        },
    }
    for name, content in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (out / "2_Normalize").mkdir(exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        if (arguments.folder / name).exists():
            shutil.copyfile(arguments.folder / name, out / name)
    save_file(kept(tensors, chosen), out / "model.safetensors", metadata={"format": "pt"})
    if arguments.centre:
        centre(out, arguments.centre.read_text(encoding="utf-8").splitlines())
    print(f"{out}: layers {', '.join(str(layer + 1) for layer in chosen)} of {depth}, {arguments.pooling} pooling")


if __name__ == "__main__":
    main()
