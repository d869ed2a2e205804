"""Restore the sentence-transformers folder of an exported ONNX model, so that it can be trained without a hub.

For the BERT graphs that `bert.py` builds. Weights that such a graph does not hold are zeros: the token types (type 0
is part of the positions already) and the pooler, which no sentence encoder reads. A cross-encoder is restored from a
graph that torch exported and onnxruntime quantised, which names its nodes after the parts of BERT. Weights are restored
because shipping trainable ones beside the int8 graphs would make the package four times as large.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lemmata.core.errors import InputError, require
from lemmata.core.files import writing
from lemmata.core.types import Floats
from lemmata.encode.bert import read_json
from lemmata.encode.onnx import encoder_settings, open_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SPECIAL = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}


def restore(folder: Path, out: Path) -> Path:
    """Write the encoder in `folder` to `out` as a sentence-transformers model in fp32, and return `out`.

    Weights that were stored as integers stay rounded. InputError where the folder holds no BERT that lemmata
    exported, or where `out` exists and is not empty.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("exists and is not overwritten by a model", file=str(out))
    file = encoder_settings(folder).graph
    tokenizer = open_tokenizer(folder / "tokenizer.json")
    graph = _Graph(file)
    try:
        tensors, config = _weights(graph)
    except (KeyError, ValueError, IndexError, TypeError, StopIteration) as error:
        cause = "is no BERT that lemmata exported, so it cannot be restored"
        raise InputError(cause, file=str(file)) from error
    return _write(folder, out, configuration(folder / "encoder.json", config, tokenizer), tensors)


def _write(folder: Path, out: Path, files: Mapping[str, Any], tensors: dict[str, Floats]) -> Path:
    """Write a model with the tokenizer and licence of `folder`: its JSON files by name, and its weights."""
    save = require("safetensors.numpy", "train").save_file
    with writing(out) as model:
        for name, content in files.items():
            (model / name).parent.mkdir(parents=True, exist_ok=True)
            (model / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        for file in (folder / "tokenizer.json", *folder.glob("LICENSE*"), *folder.glob("README.md")):
            shutil.copyfile(file, model / file.name)
        save(tensors, model / "model.safetensors", metadata={"format": "pt"})
    return out


def _special_tokens(tokenizer: Tokenizer) -> dict[str, str]:
    """The special tokens that a tokenizer has, by the role that transformers gives them."""
    return {
        role: name
        for role, names in _SPECIAL.items()
        for name in reversed(names)
        if tokenizer.token_to_id(name) is not None
    }


# ---------------------------------------------------------------- the graph


class _Graph:
    """The nodes of an ONNX graph, and its constants as float32."""

    def __init__(self, file: Path) -> None:
        self._onnx = require("onnx", "train")
        try:
            graph = self._onnx.load(file).graph
        except Exception as error:  # protobuf's error is not part of its public interface
            raise InputError("is no ONNX model", file=str(file)) from error
        self.nodes: list[Any] = list(graph.node)
        self._makers = {name: node for node in self.nodes for name in node.output}
        self.constants: dict[str, Floats] = {
            tensor.name: self._onnx.numpy_helper.to_array(tensor).astype(np.float32) for tensor in graph.initializer
        }

    def of_type(self, operator: str) -> list[Any]:
        return [node for node in self.nodes if node.op_type == operator]

    def attribute(self, node: Any, name: str) -> Any:
        values = (self._onnx.helper.get_attribute_value(entry) for entry in node.attribute if entry.name == name)
        return next(values)

    def matrices(self) -> list[Floats]:
        """The weights (inputs, outputs) by which nodes multiply, in their order.

        What rounding left is multiplied by the same weights once more; these products are left out.
        """
        differences = {node.output[0] for node in self.of_type("Sub")}
        rests = {node.output[0] for node in self.of_type("QuantizeLinear") if node.input[0] in differences}
        matrices: list[Floats] = []
        for node in self.nodes:
            if len(node.input) < 2 or node.input[0] in rests or (matrix := self._matrix(node)) is None:
                continue
            if self._makers[node.input[0]].op_type == "Slice" and node.op_type == "MatMul":
                matrices[-1] = np.concatenate([matrices[-1], matrix])  # units that are not rounded with the others
            else:
                matrices.append(matrix)
        return matrices

    def norms(self) -> tuple[list[tuple[str, str]], float]:
        """Names of the weights and biases of the layer norms in their order, and their epsilon."""
        whole = self.of_type("LayerNormalization")  # of graphs written until November 2026
        if whole:
            return [(node.input[1], node.input[2]) for node in whole], self.attribute(whole[0], "epsilon")
        places = [place for place, node in enumerate(self.nodes) if node.op_type == "InstanceNormalization"]
        constants = [(self.nodes[place + 1].input[1], self.nodes[place + 2].input[1]) for place in places]
        return constants, self.attribute(self.nodes[places[0]], "epsilon")

    def _matrix(self, node: Any) -> Floats | None:
        if node.op_type == "MatMulIntegerToFloat":
            matrix = self.constants[node.input[1]] * self.constants[node.input[3]]
            values = self._makers[self._makers[node.input[0]].input[0]]  # before they are rounded
            has_scales = values.op_type == "Mul" and values.input[1] in self.constants
            return matrix * self.constants[values.input[1]][:, None] if has_scales else matrix
        return self.constants.get(node.input[1]) if node.op_type == "MatMul" else None


def _weights(graph: _Graph) -> tuple[dict[str, Floats], dict[str, Any]]:
    """The weights under the names that BERT gives them, and its configuration.

    In all precisions the operators have the same order, because each needs the output of the one before.
    """
    constants = graph.constants
    attentions = graph.of_type("MultiHeadAttention")
    matrices, gelus = graph.matrices(), graph.of_type("BiasGelu") + graph.of_type("FastGelu")
    (first_norm, *later), epsilon = graph.norms()
    betas = {first_norm[1], *(beta for _, beta in later)}
    added = [node.input[1] for node in graph.of_type("Add") if node.input[1] in constants.keys() - betas]
    norms = [(*norm, bias) for norm, bias in zip(later, added, strict=True)]
    layers = len(attentions)
    if not layers or (len(matrices), len(norms), len(gelus)) != (6 * layers, 2 * layers, layers):
        raise ValueError("other operators than those of BERT")
    # a table of words, and in int8 the scale of each of its rows
    words, *scales = (constants[node.input[0]] for node in graph.nodes if node.input[1:] == ["input_ids"])
    words = words * scales[0] if scales else words
    [positions] = [constants[node.input[0]] for node in graph.of_type("Slice") if node.input[0] in constants]
    width = words.shape[1]
    tensors = {
        "embeddings.word_embeddings.weight": words,
        "embeddings.position_embeddings.weight": positions,
        "embeddings.token_type_embeddings.weight": np.zeros((2, width), np.float32),
        "embeddings.LayerNorm.weight": constants[first_norm[0]],
        "embeddings.LayerNorm.bias": constants[first_norm[1]],
        "pooler.dense.weight": np.zeros((width, width), np.float32),
        "pooler.dense.bias": np.zeros(width, np.float32),
    }
    for layer, attention in enumerate(attentions):
        prefix = f"encoder.layer.{layer}"
        *query_key_value, mixed, inner, outer = matrices[6 * layer : 6 * layer + 6]
        biases = np.split(constants[attention.input[3]], 3)
        for part, matrix, bias in zip(("query", "key", "value"), query_key_value, biases, strict=True):
            tensors[f"{prefix}.attention.self.{part}.weight"] = matrix.T
            tensors[f"{prefix}.attention.self.{part}.bias"] = bias
        tensors[f"{prefix}.attention.output.dense.weight"] = mixed.T
        tensors[f"{prefix}.intermediate.dense.weight"] = inner.T
        tensors[f"{prefix}.intermediate.dense.bias"] = constants[gelus[layer].input[1]]
        tensors[f"{prefix}.output.dense.weight"] = outer.T
        for sources, part in zip(norms[2 * layer : 2 * layer + 2], ("attention.output", "output"), strict=True):
            for source, name in zip(sources, ("LayerNorm.weight", "LayerNorm.bias", "dense.bias"), strict=True):
                tensors[f"{prefix}.{part}.{name}"] = constants[source]
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": graph.attribute(attentions[0], "num_heads"),
        "intermediate_size": matrices[4].shape[1],
        "vocab_size": len(words),
        "max_position_embeddings": len(positions),
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": float(f"{epsilon:.6g}"),  # float32 has no 1e-12
    }
    return {name: np.ascontiguousarray(values, np.float32) for name, values in tensors.items()}, config


# ---------------------------------------------------------------- the files around it


def configuration(file: Path, config: Mapping[str, Any], tokenizer: Tokenizer) -> dict[str, Any]:
    """The JSON files of the folder, by name."""
    settings = read_json(file)
    try:
        pooling = [str(mode) for mode in settings["pooling"]]
        max_tokens = int(settings["max_tokens"])
        prompts = {role: str(settings["prompts"].get(role, "")) for role in ("query", "passage")}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError("does not describe an encoder", file=str(file)) from error
    special = _special_tokens(tokenizer)
    if "pad_token" in special:
        config = {**config, "pad_token_id": tokenizer.token_to_id(special["pad_token"])}
    modules = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}  # class by folder
    return {
        "config.json": config,
        "modules.json": [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (path, kind) in enumerate(modules.items())
        ],
        "1_Pooling/config.json": {"embedding_dimension": config["hidden_size"], "pooling_mode": pooling},
        "sentence_bert_config.json": {"max_seq_length": max_tokens, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": {"query": prompts["query"], "document": prompts["passage"]}},
        "tokenizer_config.json": {
            # reads tokenizer.json as it is, with its added tokens; BertTokenizer would build its own
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": config["max_position_embeddings"],
            **special,
        },
    }


# ---------------------------------------------------------------- cross-encoders


def restore_cross_encoder(folder: Path, out: Path) -> Path:
    """Write the BERT cross-encoder in `folder` (model.onnx, tokenizer.json) to `out` in Hugging Face's format, fp32."""
    tokenizer = open_tokenizer(folder / "tokenizer.json")
    tensors = named_weights(folder / "model.onnx")
    try:
        width = len(tensors["classifier.weight"][0])
        layers = sum(name.endswith("attention.self.query.weight") for name in tensors)
        inner = len(tensors["bert.encoder.layer.0.intermediate.dense.bias"])
        tables = {part: len(tensors[f"bert.embeddings.{part}_embeddings.weight"]) for part in _TABLES}
    except (KeyError, IndexError) as error:
        cause = "names no parts of BERT with one score for a pair, so it cannot be restored"
        raise InputError(cause, file=str(folder / "model.onnx")) from error
    files = {
        "config.json": {
            "model_type": "bert",
            "architectures": ["BertForSequenceClassification"],
            "id2label": {"0": "LABEL_0"},
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": max(1, width // _HEAD_SIZE),
            "intermediate_size": inner,
            "vocab_size": tables["word"],
            "max_position_embeddings": tables["position"],
            "type_vocab_size": tables["token_type"],
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-12,
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            "model_max_length": tables["position"],
            **_special_tokens(tokenizer),
        },
    }
    return _write(folder, out, files, tensors)


_TABLES = ("word", "position", "token_type")
_HEAD_SIZE = 32  # of every MiniLM; the graph does not tell
_PARTS = ("bert", "classifier", "embeddings", "encoder")  # the last two of a BERT without a head
_PLACE = re.compile(rf"/(?P<part>(?:{'|'.join(_PARTS)})(?:/[\w./]+?)?)/(?:MatMul|Gemm)_?(?:MatMul)?_?(?:quant)?")


def named_weights(file: Path) -> dict[str, Floats]:
    """The weights of a BERT that torch exported by the names of Hugging Face: kept as they are, integers times their
    scale, and matrices by the name of the node that multiplies by them."""
    graph = _Graph(file)
    constants = graph.constants

    def dequantised(name: str) -> Floats:
        """Integers minus the zero point, times the scale."""
        base = name.removesuffix("_quantized")
        return np.asarray((constants[name] - constants[f"{base}_zero_point"]) * constants[f"{base}_scale"], np.float32)

    tensors: dict[str, Floats] = {}
    for name, values in constants.items():
        if name.endswith("_embeddings.weight_quantized"):
            tensors[name.removesuffix("_quantized")] = dequantised(name)
        elif name.startswith(tuple(f"{part}." for part in _PARTS)) and name.endswith((".weight", ".bias")):
            tensors[name] = values
    for node in graph.nodes:
        place = _PLACE.fullmatch(node.name) if node.op_type in ("MatMulInteger", "MatMul") else None
        if place is None or len(node.input) < 2 or node.input[1] not in constants:
            continue
        weights = node.input[1]
        matrix = dequantised(weights) if weights.endswith("_quantized") else constants[weights]
        tensors[f"{place['part'].replace('/', '.')}.weight"] = matrix.T
    return {name: np.ascontiguousarray(values, np.float32) for name, values in tensors.items() if values.ndim}
