"""Exported models restored for training: the weights come back exactly, in every precision."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bert_folder import HEADS, LAYERS, MAX_TOKENS, MEAN, POOLINGS, TEXTS, WIDTH, write_bert, write_unigram

from lemmata.core.errors import InputError
from lemmata.core.types import Floats
from lemmata.encode.bert import PRECISIONS, build_bert, ordinary_first, outlier_scales, read_architecture
from lemmata.encode.load import DEFAULT, PACKAGED, PLANT, load_encoder
from lemmata.encode.onnx import OnnxEncoder
from lemmata.encode.restore import restore

MINI = PACKAGED[DEFAULT]
SENTENCES = [
    "Every finitely generated module over a principal ideal domain is a direct sum of cyclic modules.",
    "A morphism is proper if it is separated, of finite type and universally closed.",
    "The pump P-101 lost pressure during the night shift; the seal was replaced.",
    "Let $f$ be continuous on a compact space. Then $f$ attains its maximum.",
    "partition of integers into distinct parts",
]


def tiny_export(folder: Path, precision: str, pooling: dict[str, Any], prompts: dict[str, str] | None = None) -> Path:
    """A tiny BERT in `folder`/source, exported without measuring its drift."""
    write_bert(folder / "source", pooling, prompts)
    return export(folder / "source", folder / "exported", precision)


def export(source: Path, out: Path, precision: str) -> Path:
    out.mkdir()
    architecture = read_architecture(source)
    settings = {
        "name": "tiny",
        "dimension": build_bert(source, out / "model.onnx", precision),
        "max_tokens": architecture.max_tokens,
        "pooling": list(architecture.pooling),
        "prompts": dict(architecture.prompts),
        "precision": precision,
    }
    (out / "encoder.json").write_text(json.dumps(settings))
    (out / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    return out


def read_weights(file: Path) -> dict[str, Floats]:
    """A safetensors file read by hand, not with the library that wrote it."""
    raw = file.read_bytes()
    [length] = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(raw[8 + length :][slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
        for name, entry in header.items()
    }


# ---------------------------------------------------------------- weights and settings


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_restored_model_is_exported_to_the_same_graph(tmp_path: Path, precision: str, pooling: str) -> None:
    exported = tiny_export(tmp_path, precision, POOLINGS[pooling])
    restored = restore(exported, tmp_path / "restored")
    again = export(restored, tmp_path / "again", precision)
    assert (again / "model.onnx").read_bytes() == (exported / "model.onnx").read_bytes()
    assert read_architecture(restored).pooling == read_architecture(tmp_path / "source").pooling


def test_the_order_of_concatenated_poolings_is_kept(tmp_path: Path) -> None:
    exported = tiny_export(tmp_path, "fp32", {"pooling_mode": ["mean", "cls"]})
    restored = restore(exported, tmp_path / "restored")
    assert read_architecture(restored).pooling == ("mean", "cls")


def test_fp32_weights_come_back_as_they_were(tmp_path: Path) -> None:
    original = write_bert(tmp_path / "source", MEAN)
    restored = restore(export(tmp_path / "source", tmp_path / "exported", "fp32"), tmp_path / "restored")
    weights = read_weights(restored / "model.safetensors")
    types = original.pop("embeddings.token_type_embeddings.weight")
    positions = original.pop("embeddings.position_embeddings.weight")
    np.testing.assert_array_equal(weights["embeddings.position_embeddings.weight"], positions + types[0])
    assert not weights["embeddings.token_type_embeddings.weight"].any()
    for name, values in original.items():
        np.testing.assert_array_equal(weights[name], values, err_msg=name)


def test_an_integer_weight_comes_back_within_half_a_step(tmp_path: Path) -> None:
    original = write_bert(tmp_path / "source", MEAN)
    restored = restore(export(tmp_path / "source", tmp_path / "exported", "int8"), tmp_path / "restored")
    weights = read_weights(restored / "model.safetensors")
    for layer in range(LAYERS):
        for part in ("attention.self.key", "attention.output.dense", "intermediate.dense", "output.dense"):
            name = f"encoder.layer.{layer}.{part}.weight"
            norm = original[f"encoder.layer.{layer}.attention.output.LayerNorm.weight"]
            scales = outlier_scales(norm) if part == "intermediate.dense" else np.ones(1)
            step = np.abs(original[name] * scales).max(axis=1, keepdims=True) / 127 / scales
            assert (np.abs(weights[name] - original[name]) <= step * 0.501).all(), name


def test_units_with_very_large_weights_are_not_rounded_and_spoil_no_others(tmp_path: Path) -> None:
    """As in models after RoBERTa: without care they leave the other weights of an output a few steps."""
    save_file = pytest.importorskip("safetensors.numpy").save_file
    original = write_bert(tmp_path / "source", MEAN)
    name = "encoder.layer.0.output.dense.weight"
    original[name][:, [1, 5]] *= 500
    save_file(original, tmp_path / "source" / "model.safetensors")
    restored = restore(export(tmp_path / "source", tmp_path / "exported", "int8"), tmp_path / "restored")
    weights = read_weights(restored / "model.safetensors")
    order, ordinary = ordinary_first(original[name].T)
    assert {1, 5} <= set(order[ordinary:].tolist())
    np.testing.assert_array_equal(weights[name][:, ordinary:], original[name][:, order[ordinary:]])
    rounded = original[name][:, order[:ordinary]]
    step = np.abs(rounded).max(axis=1, keepdims=True) / 127
    assert (np.abs(weights[name][:, :ordinary] - rounded) <= step * 0.501).all()
    exact, small = (OnnxEncoder(export(tmp_path / "source", tmp_path / kind, kind)) for kind in ("fp32", "int8"))
    assert (exact.encode(SENTENCES) * small.encode(SENTENCES)).sum(axis=1).min() > 0.99


def test_shape_heads_and_epsilon_are_read_from_the_graph(tmp_path: Path) -> None:
    restored = restore(tiny_export(tmp_path, "int8", MEAN), tmp_path / "restored")
    original, config = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("source", "restored"))
    assert {name: config[name] for name in original} == original
    assert (config["hidden_size"], config["num_attention_heads"]) == (WIDTH, HEADS)
    assert config["pad_token_id"] == 0
    assert read_architecture(restored).max_tokens == MAX_TOKENS


def test_prompts_and_licence_are_restored(tmp_path: Path) -> None:
    exported = tiny_export(tmp_path, "fp32", MEAN, {"query": "theta ", "passage": "lemma "})
    (exported / "LICENSE.txt").write_text("do as you like")
    (exported / "README.md").write_text("---\nlicense: mit\n---\n")
    restored = restore(exported, tmp_path / "restored")
    assert read_architecture(restored).prompts == {"query": "theta ", "passage": "lemma "}
    assert (restored / "LICENSE.txt").read_text() == "do as you like"
    assert (restored / "README.md").read_text() == "---\nlicense: mit\n---\n"


@pytest.mark.parametrize("name", [name for name in (DEFAULT, PLANT) if name in PACKAGED])
def test_a_packaged_model_is_restored_to_nearly_the_same_vectors(tmp_path: Path, name: str) -> None:
    restored = OnnxEncoder(export(restore(PACKAGED[name], tmp_path / "restored"), tmp_path / "again", "fp32"))
    cosines = (restored.encode(SENTENCES) * load_encoder(name).encode(SENTENCES)).sum(axis=1)
    assert cosines.min() > 0.998


@pytest.mark.slow
def test_the_packaged_graph_is_that_of_an_export_of_today(tmp_path: Path) -> None:
    """An export that became faster is not forgotten in the model that everybody uses."""
    onnx = pytest.importorskip("onnx")
    again = export(restore(MINI, tmp_path / "restored"), tmp_path / "again", "int8")
    today, packaged = (onnx.load(model / "model.onnx").graph for model in (again, MINI))
    assert [node.op_type for node in packaged.node] == [node.op_type for node in today.node]


@pytest.mark.parametrize("name", [DEFAULT, PLANT])
def test_a_vector_is_the_same_bit_for_bit_alone_and_in_a_batch(name: str) -> None:
    """Machines that share the work cut it into other batches, and give the same hashes."""
    encoder = OnnxEncoder(PACKAGED[name], threads=1)
    texts = [f"Theorem {number}: every ideal of a ring is small or large." for number in range(10)]
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    np.testing.assert_array_equal(encoder.encode(texts), alone)


# ---------------------------------------------------------------- sentence-transformers reads it


@pytest.fixture(scope="module")
def library() -> Any:
    """sentence-transformers on one thread."""
    library = pytest.importorskip("sentence_transformers")
    pytest.importorskip("torch").set_num_threads(1)
    return library


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch and transformers
@pytest.mark.parametrize(
    ("precision", "least"),
    [("fp32", 0.999999), ("int8", 0.9995)],
)
def test_an_restored_model_gives_the_vectors_of_the_export(
    tmp_path: Path, library: Any, precision: str, least: float
) -> None:
    exported = tiny_export(tmp_path, precision, POOLINGS["cls+mean"], {"query": "theta ", "passage": ""})
    model = library.SentenceTransformer(str(restore(exported, tmp_path / "restored")), device="cpu")
    encoder = OnnxEncoder(exported, threads=1)
    assert model.max_seq_length == MAX_TOKENS
    for role, encode in (("query", model.encode_query), ("passage", model.encode_document)):
        cosines = (encode(TEXTS, show_progress_bar=False) * encoder.encode(TEXTS, role)).sum(axis=1)
        assert cosines.mean() > least


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_model_with_a_tokenizer_of_pieces_is_restored_with_its_prompts(tmp_path: Path, library: Any) -> None:
    write_bert(tmp_path / "source", MEAN, {"query": "query: ", "passage": "passage: "})
    write_unigram(tmp_path / "source" / "tokenizer.json")
    exported = export(tmp_path / "source", tmp_path / "exported", "fp32")
    model = library.SentenceTransformer(str(restore(exported, tmp_path / "restored")), device="cpu")
    assert model.tokenizer.pad_token_id == 1
    encoder = OnnxEncoder(exported, threads=1)
    for role, encode in (("query", model.encode_query), ("passage", model.encode_document)):
        cosines = (encode(TEXTS, show_progress_bar=False) * encoder.encode(TEXTS, role)).sum(axis=1)
        assert cosines.min() > 0.99999


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_packaged_model_can_be_loaded_for_training(tmp_path: Path, library: Any) -> None:
    model = library.SentenceTransformer(str(restore(MINI, tmp_path / "mini")), device="cpu")
    vectors = model.encode(SENTENCES, show_progress_bar=False)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors * OnnxEncoder(MINI, threads=1).encode(SENTENCES)).sum(axis=1).mean() > 0.999
    # saved again, it can still be exported
    assert all(parameter.requires_grad for parameter in model.parameters())
    model.save_pretrained(str(tmp_path / "saved"))
    assert read_architecture(tmp_path / "saved").pooling == ("cls",)
    assert read_architecture(tmp_path / "saved").max_tokens == 256


# ---------------------------------------------------------------- errors


def test_a_model_is_not_overwritten(tmp_path: Path) -> None:
    exported = tiny_export(tmp_path, "fp32", MEAN)
    before = (tmp_path / "source" / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="source"):
        restore(exported, tmp_path / "source")
    assert (tmp_path / "source" / "model.safetensors").read_bytes() == before
    (tmp_path / "empty").mkdir()
    assert (restore(exported, tmp_path / "empty") / "modules.json").is_file()


def test_another_graph_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    exported = tiny_export(tmp_path, "fp32", MEAN)
    model = onnx.load(exported / "model.onnx")
    model.graph.node.remove(next(node for node in model.graph.node if node.op_type == "MultiHeadAttention"))
    onnx.save(model, exported / "model.onnx")
    with pytest.raises(InputError, match=r"model\.onnx"):
        restore(exported, tmp_path / "restored")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exported", "source"]


@pytest.mark.parametrize("name", ["encoder.json", "model.onnx", "tokenizer.json"])
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    exported = tiny_export(tmp_path, "fp32", MEAN)
    (exported / name).write_bytes((exported / name).read_bytes()[:20])
    with pytest.raises(InputError, match=name):
        restore(exported, tmp_path / "restored")
    (exported / name).unlink()
    with pytest.raises(InputError, match=name):
        restore(exported, tmp_path / "restored")
