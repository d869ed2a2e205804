"""A BERT encoder as an ONNX graph, built from its weights without torch.

The graph takes `input_ids` (batch, tokens), texts of one length, and returns `embedding` (batch, dimension): pooled
and L2-normalised. It uses onnxruntime's fused operators, so that loading it needs no graph optimisation. Parts that
only training needs (dropout, the pooler, token types other than 0) are omitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lemmata.core.errors import ConfigError, InputError, require
from lemmata.core.types import Floats

PRECISIONS = ("fp32", "int8")  # int8: weights with a scale per output, activations with a scale per token
_MICROSOFT = "com.microsoft"  # the domain of onnxruntime's fused operators
_CENTRE = 128  # the unsigned integer that stands for zero where values have both signs
_GELU_ZERO, _GELU_LEAST = 16, 0.17  # and after a GELU, which has no values below -0.17
_HUGE, _TOGETHER = 4, 16  # times the median; products are quick for multiples of that
_REST = 254  # steps of what rounding left, in one step: it is at most half of one


# ---------------------------------------------------------------- sentence-transformers folders


@dataclass(frozen=True, slots=True)
class Architecture:
    """How a sentence-transformers model turns tokens into one vector."""

    pooling: tuple[str, ...]  # mean, cls, …; several are concatenated
    max_tokens: int
    prompts: Mapping[str, str]  # by role: query, passage
    modules: tuple[str, ...]  # class names in order


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise InputError("is not JSON", file=str(path)) from error


def read_architecture(folder: Path) -> Architecture:
    """Read `modules.json` and the files that it names; InputError where the folder holds no such model."""
    if not (folder / "modules.json").is_file() or not (folder / "config.json").is_file():
        raise InputError("is no sentence-transformers model: it needs modules.json and config.json", file=str(folder))
    modules = read_json(folder / "modules.json")
    names = tuple(str(module["type"]).rsplit(".", 1)[-1] for module in modules)
    pooling: tuple[str, ...] = ()
    for module, name in zip(modules, names, strict=True):
        if name == "Pooling":
            pooling = _pooling(read_json(folder / module["path"] / "config.json"))
    settings = _optional(folder / "config_sentence_transformers.json")
    prompts = settings.get("prompts") or {}
    default = prompts.get(settings.get("default_prompt_name") or "", "")
    passage = prompts.get("passage") or prompts.get("document") or default
    return Architecture(
        pooling=pooling,
        max_tokens=max_tokens(folder),
        prompts={"query": prompts.get("query") or default, "passage": passage},
        modules=names,
    )


def is_bert(folder: Path) -> bool:
    """Whether `build_bert` can build this model."""
    architecture = read_architecture(folder)
    return (
        _has_bert_layers(folder)
        and bool(architecture.pooling)
        and set(architecture.pooling) <= {"mean", "cls"}
        and architecture.modules in (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize"))
    )


def is_cross_bert(folder: Path) -> bool:
    """Whether `build_cross_bert` can build this model."""
    config = read_json(folder / "config.json")
    names = config.get("architectures") or []
    return (
        _has_bert_layers(folder)
        and "BertForSequenceClassification" in names
        and len(config.get("id2label") or [0]) == 1
    )


def _has_bert_layers(folder: Path) -> bool:
    config = read_json(folder / "config.json")
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act", "gelu") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and (folder / "model.safetensors").is_file()
    )


def _pooling(config: Mapping[str, Any]) -> tuple[str, ...]:
    if "pooling_mode" in config:  # sentence-transformers from 5.x on
        mode = config["pooling_mode"]
        return (mode,) if isinstance(mode, str) else tuple(mode)
    chosen = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    return tuple(sorted(re.sub(r"^pooling_mode_|_tokens?$", "", key) for key in chosen))


def max_tokens(folder: Path) -> int:
    """How many tokens a model reads."""
    candidates = [
        _optional(folder / "sentence_bert_config.json").get("max_seq_length"),
        _optional(folder / "tokenizer_config.json").get("model_max_length"),
    ]
    positions = int(_optional(folder / "config.json").get("max_position_embeddings", 512))
    chosen = next((int(value) for value in candidates if value), positions)
    return min(chosen, positions)  # tokenizers write 10^30 for "no limit"


def _optional(path: Path) -> dict[str, Any]:
    return dict(read_json(path)) if path.is_file() else {}


def _read_safetensors(path: Path) -> dict[str, Floats]:
    """All tensors as float32. The file: length of the header (8 bytes), header in JSON, raw values."""
    raw = path.read_bytes()
    try:
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + length])
        body = memoryview(raw)[8 + length :]
        tensors: dict[str, Floats] = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            first, last = entry["data_offsets"]
            tensors[name] = _floats(body[first:last], entry["dtype"]).reshape(entry["shape"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("is no safetensors file, or a damaged one", file=str(path)) from error
    return tensors


def _floats(values: memoryview, dtype: str) -> Floats:
    if dtype == "BF16":  # the upper half of a float32
        return (np.frombuffer(values, np.uint16).astype(np.uint32) << 16).view(np.float32)
    dtypes = {"F32": np.float32, "F16": np.float16, "F64": np.float64, "I64": np.int64, "I32": np.int32}
    return np.frombuffer(values, dtypes[dtype]).astype(np.float32)


# ---------------------------------------------------------------- the graph


class _Rounded(NamedTuple):
    """Names of rounded values (tokens, width), of their scales and zero points (tokens,) and of the zero point."""

    tokens: str
    scales: str
    zeros: str
    zero: str


class _Graph:
    """Nodes and initialisers in the order they are added; each method returns the name of its output."""

    def __init__(self, precision: str) -> None:
        self.onnx = require("onnx", "train")
        self.is_int8 = precision == "int8"
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._shared: dict[tuple[str, float], str] = {}  # constants that many nodes need
        self._rounded: dict[tuple[str, bool], _Rounded] = {}

    def node(self, operator: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any) -> str:
        names = [f"{operator}_{len(self.nodes)}_{position}" for position in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), names, domain=domain, **attributes))
        return names[0]

    def constant(self, values: npt.NDArray[Any]) -> str:
        name = f"constant_{len(self.initializers)}"
        self.initializers.append(self.onnx.numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def cast(self, name: str, kind: str) -> str:
        return self.node("Cast", name, to=getattr(self.onnx.TensorProto, kind))

    def product(self, name: str, values: Floats, *, after_gelu: bool = False, norm: Floats | None = None) -> str:
        """`name` (tokens, inputs) @ `values` (inputs, outputs).

        In int8, each token is rounded by its own scale: one for all tokens would be spoilt by the few with very large
        values, and make a vector depend on the texts beside it. `norm` are the weights (inputs,) of the norm that gave
        `name`: see `outlier_scales`.
        """
        if not self.is_int8:
            return self.node("MatMul", name, self.constant(values))
        if norm is not None:
            outliers = outlier_scales(norm)
            name, values = self.node("Mul", name, self.constant(1 / outliers)), values * outliers[:, None]
        integers, scales = _to_int8(values, axis=0)
        rounded = self._round(name, after_gelu)
        return self._integer_product(rounded, integers, scales[0])

    def rest_product(self, name: str, values: Floats, *, after_gelu: bool = False) -> str:
        """What the rounding of `name` took from `product`; only in int8."""
        rounded = self._round(name, after_gelu)
        left = self.node("Sub", name, self.node("DequantizeLinear", *rounded[:3], axis=0))
        fine = self.node("Mul", rounded.scales, self._scalar(1 / _REST))
        zero = self._scalar(_CENTRE, np.uint8)
        zeros = self.node("Expand", zero, self.node("Shape", fine))
        tokens = self.node("QuantizeLinear", left, fine, zeros, axis=0)
        integers, scales = _to_int8(values, axis=0)
        return self._integer_product(_Rounded(tokens, fine, zeros, zero), integers, scales[0])

    def _integer_product(self, rounded: _Rounded, weights: npt.NDArray[np.int8], scales: Floats) -> str:
        # weights are never shared: for x86 without VNNI onnxruntime rewrites those of each product, and fails on others
        inputs = rounded.tokens, self.constant(weights), self._scalar(1), self.constant(scales), rounded.zero
        result = self.node("MatMulIntegerToFloat", *inputs, domain=_MICROSOFT)
        return self.node("Mul", result, self.node("Unsqueeze", rounded.scales, self._scalar(-1, np.int64)))

    def _round(self, name: str, after_gelu: bool) -> _Rounded:
        """Values (tokens, width) as unsigned integers with a scale per token; the same for all that ask for them."""
        if (name, after_gelu) not in self._rounded:
            last = self._scalar(-1, np.int64)
            zero = self._scalar(_GELU_ZERO if after_gelu else _CENTRE, np.uint8)
            largest = self.node("ReduceMax", name, last, keepdims=0)
            if after_gelu:
                scales, least = 1 / (255 - _GELU_ZERO), _GELU_LEAST / _GELU_ZERO
            else:
                scales, least = 1 / 127, 1e-12
                largest = self.node("Max", largest, self.node("Neg", self.node("ReduceMin", name, last, keepdims=0)))
            scale = self.node("Max", self.node("Mul", largest, self._scalar(scales)), self._scalar(least))
            zeros = self.node("Expand", zero, self.node("Shape", scale))
            tokens = self.node("QuantizeLinear", name, scale, zeros, axis=0)
            self._rounded[name, after_gelu] = _Rounded(tokens, scale, zeros, zero)
        return self._rounded[name, after_gelu]

    def _scalar(self, value: float, dtype: npt.DTypeLike = np.float32) -> str:
        key = np.dtype(dtype).name, value
        if key not in self._shared:
            self._shared[key] = self.constant(np.array([value] if dtype is np.int64 else value, dtype))
        return self._shared[key]

    def embedding(self, table: Floats, rows: str) -> str:
        """Rows of a table; a scale per row is applied after the lookup, so that the table stays small in memory."""
        if not self.is_int8:
            return self.node("Gather", self.constant(table), rows)
        integers, scales = _to_int8(table, axis=1)
        values = self.cast(self.node("Gather", self.constant(integers), rows), "FLOAT")
        return self.node("Mul", values, self.node("Gather", self.constant(scales), rows))

    def model(self, output_name: str, dimension: int, names: tuple[str, ...] = ("input_ids",)) -> Any:
        """The graph, whose last node gives the output (batch, dimension)."""
        self.nodes[-1].output[0] = output_name
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        inputs = [helper.make_tensor_value_info(name, kinds.INT64, ["batch", "tokens"]) for name in names]
        output = helper.make_tensor_value_info(output_name, kinds.FLOAT, ["batch", dimension])
        graph = helper.make_graph(self.nodes, "bert", inputs, [output], self.initializers)
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="lemmata")


def build_bert(model_folder: Path, out_file: Path, precision: str) -> int:
    """Write the ONNX graph of a BERT sentence encoder; returns the dimension of its vectors.

    `precision` is one of PRECISIONS. InputError where `is_bert` is false.
    """
    _check_precision(precision)
    if not is_bert(model_folder):
        raise InputError("is no BERT with mean or CLS pooling in model.safetensors", file=str(model_folder))
    pooling = read_architecture(model_folder).pooling
    graph, tensors, config = _read_bert(model_folder, precision)
    first_alone = pooling == ("cls",)
    hidden = _transformer(graph, tensors, config, first_alone=first_alone)
    _normalise(graph, hidden if first_alone else _pool(graph, hidden, pooling))
    dimension = int(config["hidden_size"]) * len(pooling)
    graph.onnx.save(graph.model("embedding", dimension), out_file)
    return dimension


def build_cross_bert(model_folder: Path, out_file: Path, precision: str) -> None:
    """Write the ONNX graph of a BERT cross-encoder: a `score` (batch, 1) for each pair, as the logit of the model.

    InputError where `is_cross_bert` is false.
    """
    _check_precision(precision)
    if not is_cross_bert(model_folder):
        raise InputError("is no BERT with one score for a pair in model.safetensors", file=str(model_folder))
    graph, tensors, config = _read_bert(model_folder, precision)
    first = _transformer(graph, tensors, config, pairs=True, first_alone=True)
    for part in ("pooler.dense", "classifier"):
        product = graph.node("MatMul", first, graph.constant(tensors[f"{part}.weight"].T))
        first = graph.node("Add", product, graph.constant(tensors[f"{part}.bias"]))
        first = graph.node("Tanh", first) if part == "pooler.dense" else first
    graph.onnx.save(graph.model("score", 1, ("input_ids", "attention_mask", "token_type_ids")), out_file)


def _check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise ConfigError(f"there is no precision {precision!r}; choose from {', '.join(PRECISIONS)}")


class _Weights(dict[str, Floats]):
    """Tensors by the names that BERT gives them; InputError for one that is missing."""

    def __init__(self, file: Path) -> None:
        self._file = file
        super().__init__({name.removeprefix("bert."): values for name, values in _read_safetensors(file).items()})

    def __missing__(self, name: str) -> Floats:
        raise InputError(f"the weights have no tensor {name!r}", file=str(self._file))


def _read_bert(model_folder: Path, precision: str) -> tuple[_Graph, _Weights, dict[str, Any]]:
    """An empty graph, the weights and the configuration."""
    return _Graph(precision), _Weights(model_folder / "model.safetensors"), read_json(model_folder / "config.json")


def _transformer(
    graph: _Graph,
    tensors: Mapping[str, Floats],
    config: Mapping[str, Any],
    *,
    pairs: bool = False,
    first_alone: bool = False,
) -> str:
    """The last hidden states (batch, tokens, width), or those of the first token alone (batch, width).

    `pairs` have two types of tokens and may be padded; otherwise every token is of type 0, and none is padding.
    """
    epsilon = float(config.get("layer_norm_eps", 1e-12))
    heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
    last = int(config["num_hidden_layers"]) - 1
    by_one, one, zero = graph.integers(1), *(graph.constant(np.array([value], np.float32)) for value in (1, 0))

    def norm(name: str, part: str) -> str:
        """LayerNormalization, as instances of one channel: the operator of that name takes eight times as long."""
        weight, bias = (graph.constant(tensors[f"{part}.LayerNorm.{key}"]) for key in ("weight", "bias"))
        instances = graph.node("Unsqueeze", name, by_one)
        result = graph.node("InstanceNormalization", instances, one, zero, epsilon=epsilon)
        result = graph.node("Add", graph.node("Mul", result, weight), bias)
        return graph.node("Squeeze", result, by_one)

    def add_and_norm(name: str, residual: str, part: str) -> str:
        """Not SkipLayerNormalization, which is all of it, for the same reason."""
        biased = graph.node("Add", name, graph.constant(tensors[f"{part}.dense.bias"]))
        return norm(graph.node("Add", biased, residual), part)

    def tokens_at(name: str, *places: int) -> str:
        """Of each text the hidden states at these places, (batch · places, width)."""
        chosen = graph.node("Gather", graph.node("Reshape", name, by_text), graph.integers(*places), axis=1)
        return graph.node("Reshape", chosen, by_token)

    def inner_product(inner: str, values: Floats, ordinary: int, *, has_rest: bool) -> str:
        """`inner` (tokens, units) @ `values`: the ordinary units rounded, the others as they are."""
        split = [(0, ordinary), (ordinary, len(values))] if ordinary < len(values) else []
        if split:
            inner, huge = (graph.node("Slice", inner, *map(graph.integers, span), by_one) for span in split)
        result = graph.product(inner, values[:ordinary], after_gelu=True)
        if graph.is_int8 and has_rest:  # what becomes the vector without a mean in which errors even out
            result = graph.node("Add", result, graph.rest_product(inner, values[:ordinary], after_gelu=True))
        if split:
            result = graph.node("Add", result, graph.node("MatMul", huge, graph.constant(values[ordinary:])))
        return result

    # the row of type 0 is added to the positions, and taken from the other types
    types = tensors["embeddings.token_type_embeddings.weight"]
    positions = tensors["embeddings.position_embeddings.weight"] + types[0]
    shape = graph.node("Shape", "input_ids")
    tokens = graph.node("Slice", shape, graph.integers(1), graph.integers(2))
    summed = graph.node(
        "Add",
        graph.embedding(tensors["embeddings.word_embeddings.weight"], "input_ids"),
        graph.node("Slice", graph.constant(positions), graph.integers(0), tokens),
    )
    if pairs:
        summed = graph.node("Add", summed, graph.node("Gather", graph.constant(types - types[0]), "token_type_ids"))
    by_token, by_text = graph.integers(-1, width), graph.node("Concat", shape, graph.integers(width), axis=0)
    hidden = norm(graph.node("Reshape", summed, by_token), "embeddings")  # (batch · tokens, width)
    mask = [graph.cast("attention_mask", "INT32")] if pairs else []
    # where the first and the last tokens are (batch · 2, 2): number of the text; 0, -1
    two_each = graph.node("Concat", graph.node("Slice", shape, graph.integers(0), by_one), graph.integers(2), axis=0)
    ends = graph.node("Transpose", graph.node("NonZero", graph.node("Expand", by_one, two_each)))
    ends = graph.node("Mul", ends, graph.integers(1, -1))
    for layer in range(last + 1):
        prefix = f"encoder.layer.{layer}"
        parts = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
        weights = [tensors[f"{part}.weight"].T for part in parts]
        asking, by_asking = hidden, by_text
        if first_alone and layer == last:  # nothing reads what the other tokens would become
            asking, by_asking = tokens_at(hidden, 0), graph.integers(-1, 1, width)
        inputs = [graph.node("Reshape", graph.product(asking, weights[0]), by_asking)]
        inputs += [graph.node("Reshape", graph.product(hidden, matrix), by_text) for matrix in weights[1:]]
        if graph.is_int8:
            # every token takes the values of the first and the last, an error there does not average out
            rest = graph.rest_product(hidden if pairs else tokens_at(hidden, 0, -1), weights[2])
            if pairs:  # whose last token may be padding
                inputs[2] = graph.node("Add", inputs[2], graph.node("Reshape", rest, by_text))
            else:
                inputs[2] = graph.node("ScatterND", inputs[2], ends, rest, reduction="add")
        bias = graph.constant(np.concatenate([tensors[f"{part}.bias"] for part in parts]))
        attended = graph.node("MultiHeadAttention", *inputs, bias, *mask, domain=_MICROSOFT, num_heads=heads)
        attended = graph.node("Reshape", attended, by_token)
        attended = graph.product(attended, tensors[f"{prefix}.attention.output.dense.weight"].T)
        hidden = add_and_norm(attended, asking, f"{prefix}.attention.output")
        into, out_of = (tensors[f"{prefix}.{part}.dense.weight"].T for part in ("intermediate", "output"))
        order, ordinary = ordinary_first(out_of) if graph.is_int8 else (np.arange(len(out_of)), len(out_of))
        inner = graph.node(
            # tanh for erf: half the time, and 0.0005 at most, which is less than a step of int8
            "FastGelu" if graph.is_int8 else "BiasGelu",
            graph.product(hidden, into[:, order], norm=tensors[f"{prefix}.attention.output.LayerNorm.weight"]),
            graph.constant(tensors[f"{prefix}.intermediate.dense.bias"][order]),
            domain=_MICROSOFT,
        )
        outer = inner_product(inner, out_of[order], ordinary, has_rest=first_alone and layer == last and not pairs)
        hidden = add_and_norm(outer, hidden, f"{prefix}.output")
    return hidden if first_alone else graph.node("Reshape", hidden, by_text)


def _pool(graph: _Graph, hidden: str, pooling: tuple[str, ...]) -> str:
    return graph.node("Concat", *(_POOLED[mode](graph, hidden) for mode in pooling), axis=1)


def _first(graph: _Graph, hidden: str) -> str:
    return graph.node("Gather", hidden, graph.constant(np.array(0)), axis=1)


def _mean(graph: _Graph, hidden: str) -> str:
    """As a product: `ReduceMean` adds up a text alone in another order than one in a batch, so its last bits differ."""
    tokens = graph.node("Slice", graph.node("Shape", hidden), graph.integers(1), graph.integers(2))
    shape = graph.node("Concat", graph.integers(1, 1), tokens, axis=0)
    share = graph.node("Reciprocal", graph.cast(tokens, "FLOAT"))
    return graph.node("Squeeze", graph.node("MatMul", graph.node("Expand", share, shape), hidden), graph.integers(1))


_POOLED = {"cls": _first, "mean": _mean}


def _normalise(graph: _Graph, pooled: str) -> None:
    norm = graph.node("ReduceL2", pooled, graph.integers(1), keepdims=1)
    least = graph.constant(np.array(1e-12, np.float32))
    graph.node("Div", pooled, graph.node("Max", norm, least))


def outlier_scales(norm: Floats) -> Floats:
    """By what the inputs of a product are divided before rounding, and its weights multiplied (inputs,).

    Inputs with a large weight in the norm before have the largest values, which would leave the others few steps; the
    idea is SmoothQuant's (Xiao et al. 2023), without its calibration. Powers of two, so that nothing else is rounded.
    """
    size = np.maximum(np.abs(norm), 1e-12)
    scales = np.exp2(np.rint(np.log2(size / np.median(size)) / 2))
    return np.asarray(np.maximum(scales, 1), np.float32)


def ordinary_first(out_of: Floats) -> tuple[npt.NDArray[np.intp], int]:
    """Inner units (units, outputs) with those of very large weights last, and how many are before these.

    Models after RoBERTa have a few units with values and weights that are a hundred times as large as others, above all
    on the first token: rounded together, they leave the other values and weights a few steps each.
    """
    largest = np.abs(out_of).max(axis=1)
    count = int((largest > _HUGE * np.median(largest)).sum())
    count = min(-(-count // _TOGETHER) * _TOGETHER, len(largest))
    is_huge = np.zeros(len(largest), bool)
    is_huge[np.argsort(-largest, kind="stable")[:count]] = True
    return np.argsort(is_huge, kind="stable"), len(largest) - count


def _to_int8(values: Floats, axis: int) -> tuple[npt.NDArray[np.int8], Floats]:
    """Integers in [-127, 127] and the scales to multiply them by; one scale along `axis`."""
    scales = np.abs(values).max(axis=axis, keepdims=True) / 127
    scales[scales == 0] = 1
    return np.rint(values / scales).astype(np.int8), scales.astype(np.float32)
