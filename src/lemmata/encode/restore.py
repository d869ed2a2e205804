"""From a packaged ONNX folder back to a sentence-transformers folder, so that it can be trained on without a hub.

Only for the BERT graphs that `bert.py` builds. What such a graph does not hold is filled in: token types are all
zero (type 0 stands in the positions already), and so is the pooler, which no sentence encoder reads.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lemmata.encode.bert import read_json
from lemmata.errors import InputError, require
from lemmata.types import Floats

__all__ = ["unpack"]

_SPECIAL = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}


def unpack(folder: Path, out: Path) -> Path:
    """Write the encoder in `folder` to `out` as a sentence-transformers model in fp32, and return `out`.

    Weights that were stored smaller are what they were rounded to, not what they were before. InputError where
    the folder holds no BERT of ours, or where `out` exists and is not empty.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("exists, and a model is not written over it", file=str(out))
    missing = [name for name in ("encoder.json", "model.onnx", "tokenizer.json") if not (folder / name).is_file()]
    if missing:
        raise InputError(f"is no exported encoder: {', '.join(missing)} missing", file=str(folder))
    save = require("safetensors.numpy", "train").save_file
    tensors, config = _read_graph(folder / "model.onnx")
    vocabulary, special = _read_tokenizer(folder / "tokenizer.json")
    if "pad_token" in special:
        config["pad_token_id"] = vocabulary[special["pad_token"]]
    files = _describe(folder / "encoder.json", config, special)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        model = Path(temporary) / "model"
        for name, content in files.items():
            (model / name).parent.mkdir(parents=True, exist_ok=True)
            (model / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        (model / "2_Normalize").mkdir()
        for kept in (folder / "tokenizer.json", *folder.glob("LICENSE*")):
            shutil.copyfile(kept, model / kept.name)
        save(tensors, model / "model.safetensors", metadata={"format": "pt"})
        if out.exists():
            out.rmdir()  # it is empty
        model.rename(out)
    return out


# ---------------------------------------------------------------- the graph


class _Stored:
    """The constants of a graph as float32, whatever they are stored as."""

    def __init__(self, file: Path) -> None:
        self._onnx = require("onnx", "train")
        try:
            graph = self._onnx.load(file).graph
        except Exception as error:  # protobuf's error is not part of its interface
            raise InputError("is no ONNX model", file=str(file)) from error
        self.nodes: list[Any] = list(graph.node)
        self._arrays = {one.name: self._onnx.numpy_helper.to_array(one) for one in graph.initializer}
        self._makers = {name: node for node in self.nodes for name in node.output}

    def attribute(self, node: Any, name: str) -> Any:
        return next(self._onnx.helper.get_attribute_value(one) for one in node.attribute if one.name == name)

    def find(self, name: str) -> Floats | None:
        """A constant, or what is folded into one while loading; None for what depends on the input."""
        if name in self._arrays:
            base = name.removesuffix("_quantized")  # so onnxruntime's quantisation names its parts
            if base == name:
                return self._array(name)
            return (self._array(name) - self._array(f"{base}_zero_point")) * self._array(f"{base}_scale")
        maker = self._makers.get(name)
        if maker is None or maker.op_type not in ("Cast", "Mul"):
            return None
        first, *others = (self.find(part) for part in maker.input)
        if first is None or not others:
            return first
        return None if others[0] is None else first * others[0]

    def constant(self, name: str) -> Floats:
        """Like `find`, for what must be one."""
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def blocks(self, node: Any) -> Floats:
        """The matrix (inputs, outputs) of a MatMulNBits."""
        integers = self._array(node.input[1]) - 128  # (outputs, blocks, values); 128 is the implied zero
        scales = self._array(node.input[2]).reshape(integers.shape[:2])
        return (integers * scales[..., None]).reshape(len(integers), -1).T

    def _array(self, name: str) -> Floats:
        values: Floats = self._arrays[name].astype(np.float32)
        return values


def _read_graph(file: Path) -> tuple[dict[str, Floats], dict[str, Any]]:
    """The weights under the names that BERT gives them, and its configuration."""
    stored = _Stored(file)
    try:
        return _weights(stored)
    except (KeyError, ValueError, IndexError, TypeError, StopIteration) as error:
        raise InputError("is no BERT that lemmata exported, and can not be unpacked", file=str(file)) from error


def _weights(stored: _Stored) -> tuple[dict[str, Floats], dict[str, Any]]:
    """In every precision the same steps come in the same order, because each needs what the one before it made."""
    attentions = [node for node in stored.nodes if node.op_type.endswith("Attention")]
    matrices = [matrix for node in stored.nodes if (matrix := _matrix(stored, node)) is not None]
    norms = [node for node in stored.nodes if node.op_type == "SkipLayerNormalization"]
    gelus = [node for node in stored.nodes if node.op_type == "BiasGelu"]
    [norm] = [node for node in stored.nodes if node.op_type == "LayerNormalization"]
    layers = len(attentions)
    if not layers or (len(matrices), len(norms), len(gelus)) != (4 * layers, 2 * layers, layers):
        raise ValueError("other steps than those of BERT")
    # a table, and where that is in integers the scale of each of its rows
    words, *scales = (stored.constant(node.input[0]) for node in stored.nodes if node.input[1:] == ["input_ids"])
    words = words * scales[0] if scales else words
    slices = [stored.find(node.input[0]) for node in stored.nodes if node.op_type == "Slice"]
    [positions] = [table for table in slices if table is not None]
    width = words.shape[1]
    tensors = {
        "embeddings.word_embeddings.weight": words,
        "embeddings.position_embeddings.weight": positions,
        "embeddings.token_type_embeddings.weight": np.zeros((2, width), np.float32),
        "embeddings.LayerNorm.weight": stored.constant(norm.input[1]),
        "embeddings.LayerNorm.bias": stored.constant(norm.input[2]),
        "pooler.dense.weight": np.zeros((width, width), np.float32),
        "pooler.dense.bias": np.zeros(width, np.float32),
    }
    for layer, attention in enumerate(attentions):
        prefix = f"encoder.layer.{layer}"
        together, mixed, inner, outer = matrices[4 * layer : 4 * layer + 4]
        bias = stored.constant(attention.input[3 if attention.op_type == "MultiHeadAttention" else 2])
        for place, part in enumerate(("query", "key", "value")):
            span = slice(place * width, (place + 1) * width)
            tensors[f"{prefix}.attention.self.{part}.weight"] = together[:, span].T
            tensors[f"{prefix}.attention.self.{part}.bias"] = bias[span]
        tensors[f"{prefix}.attention.output.dense.weight"] = mixed.T
        tensors[f"{prefix}.intermediate.dense.weight"] = inner.T
        tensors[f"{prefix}.intermediate.dense.bias"] = stored.constant(gelus[layer].input[1])
        tensors[f"{prefix}.output.dense.weight"] = outer.T
        for skip, part in zip(norms[2 * layer : 2 * layer + 2], ("attention.output", "output"), strict=True):
            for source, name in zip(skip.input[2:], ("LayerNorm.weight", "LayerNorm.bias", "dense.bias"), strict=True):
                tensors[f"{prefix}.{part}.{name}"] = stored.constant(source)
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": stored.attribute(attentions[0], "num_heads"),
        "intermediate_size": matrices[2].shape[1],
        "vocab_size": len(words),
        "max_position_embeddings": len(positions),
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": float(f"{stored.attribute(norm, 'epsilon'):.6g}"),  # float32 has no 1e-12
    }
    return {name: np.ascontiguousarray(values, np.float32) for name, values in tensors.items()}, config


def _matrix(stored: _Stored, node: Any) -> Floats | None:
    """The weights (inputs, outputs) by which a node multiplies; None where it multiplies by none."""
    if node.op_type == "MatMulNBits":
        return stored.blocks(node)
    if node.op_type in ("MatMul", "MatMulInteger", "Attention", "QAttention"):
        return stored.find(node.input[1])
    return None


# ---------------------------------------------------------------- the files around it


def _read_tokenizer(file: Path) -> tuple[dict[str, int], dict[str, str]]:
    """The vocabulary, and which of its tokens have which part to play."""
    content = read_json(file)
    try:
        entries = content["model"]["vocab"]
        # a Unigram lists (token, score), the others map tokens to ids
        found = dict(entries) if isinstance(entries, dict) else {entry[0]: place for place, entry in enumerate(entries)}
        found |= {entry["content"]: entry["id"] for entry in content.get("added_tokens") or []}
    except (KeyError, TypeError, IndexError) as error:
        raise InputError("is no tokenizer", file=str(file)) from error
    special = {
        part: next(name for name in names if name in found)
        for part, names in _SPECIAL.items()
        if any(name in found for name in names)
    }
    return found, special


def _describe(file: Path, config: Mapping[str, Any], special: Mapping[str, str]) -> dict[str, Any]:
    """What stands in the JSON files of the folder, by name."""
    settings = read_json(file)
    try:
        pooling = [str(mode) for mode in settings["pooling"]]
        max_tokens = int(settings["max_tokens"])
        prompts = {role: str(settings["prompts"].get(role, "")) for role in ("query", "passage")}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError("does not describe an encoder", file=str(file)) from error
    modules = ("Transformer", "Pooling", "Normalize")
    # the older keys, which more versions read, can name CLS and mean in this order only
    modes = {f"pooling_mode_{mode}_token{'s' * (mode == 'mean')}": mode in pooling for mode in ("cls", "mean")}
    return {
        "config.json": dict(config),
        "modules.json": [
            {
                "idx": place,
                "name": str(place),
                "path": f"{place}_{kind}" if place else "",
                "type": f"sentence_transformers.models.{kind}",
            }
            for place, kind in enumerate(modules)
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": config["hidden_size"],
            **(modes if pooling == sorted(pooling) else {"pooling_mode": pooling}),
        },
        "sentence_bert_config.json": {"max_seq_length": max_tokens, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": {"query": prompts["query"], "document": prompts["passage"]}},
        "tokenizer_config.json": {
            # reads tokenizer.json as it stands, added tokens and all; BertTokenizer would build its own
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": config["max_position_embeddings"],
            **special,
        },
    }
