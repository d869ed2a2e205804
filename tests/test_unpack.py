"""Packaged models back to trainable ones: nothing moves on the way, whatever precision they were stored in."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.test_encode import HEADS, LAYERS, MAX_TOKENS, MEAN, POOLINGS, TEXTS, WIDTH, write_bert

from lemmata.encode.bert import PRECISIONS, build_bert, read_recipe
from lemmata.encode.export import Export, choose, precisions
from lemmata.encode.load import PACKAGED
from lemmata.encode.onnx import OnnxEncoder
from lemmata.encode.restore import unpack
from lemmata.errors import InputError
from lemmata.types import Encoder, Floats

pytest.importorskip("onnx")
pytest.importorskip("safetensors")

MINILM = PACKAGED["minilm"]
SENTENCES = [
    "Every finitely generated module over a principal ideal domain is a direct sum of cyclic modules.",
    "A morphism is proper if it is separated, of finite type and universally closed.",
    "The pump P-101 lost pressure during the night shift; the seal was replaced.",
    "Let $f$ be continuous on a compact space. Then $f$ attains its maximum.",
    "partition of integers into distinct parts",
]


def package(folder: Path, precision: str, pooling: dict[str, Any], prompts: dict[str, str] | None = None) -> Path:
    """A tiny BERT in `folder`/source, exported as `export_encoder` does it, but without a measurement."""
    write_bert(folder / "source", pooling, prompts)
    return pack(folder / "source", folder / "packed", precision)


def pack(source: Path, out: Path, precision: str) -> Path:
    out.mkdir()
    recipe = read_recipe(source)
    settings = {
        "name": "tiny",
        "dimension": build_bert(source, out / "model.onnx", precision),
        "max_tokens": recipe.max_tokens,
        "pooling": list(recipe.pooling),
        "prompts": dict(recipe.prompts),
        "precision": precision,
    }
    (out / "encoder.json").write_text(json.dumps(settings))
    (out / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    return out


def read_weights(file: Path) -> dict[str, Floats]:
    """A safetensors file by hand: the tests do not read with what wrote it."""
    raw = file.read_bytes()
    [length] = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(raw[8 + length :][slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
        for name, entry in header.items()
    }


# ---------------------------------------------------------------- what comes back


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_unpacked_model_is_exported_to_the_same_graph(tmp_path: Path, precision: str, pooling: str) -> None:
    packed = package(tmp_path, precision, POOLINGS[pooling])
    unpacked = unpack(packed, tmp_path / "unpacked")
    again = pack(unpacked, tmp_path / "again", precision)
    assert (again / "model.onnx").read_bytes() == (packed / "model.onnx").read_bytes()
    assert read_recipe(unpacked).pooling == read_recipe(tmp_path / "source").pooling


def test_the_order_of_concatenated_poolings_is_kept(tmp_path: Path) -> None:
    packed = package(tmp_path, "fp32", {"pooling_mode": ["mean", "cls"]})
    unpacked = unpack(packed, tmp_path / "unpacked")
    assert read_recipe(unpacked).pooling == ("mean", "cls")


def test_fp32_weights_come_back_as_they_were(tmp_path: Path) -> None:
    original = write_bert(tmp_path / "source", MEAN)
    unpacked = unpack(pack(tmp_path / "source", tmp_path / "packed", "fp32"), tmp_path / "unpacked")
    weights = read_weights(unpacked / "model.safetensors")
    types = original.pop("embeddings.token_type_embeddings.weight")
    positions = original.pop("embeddings.position_embeddings.weight")
    np.testing.assert_array_equal(weights["embeddings.position_embeddings.weight"], positions + types[0])
    assert not weights["embeddings.token_type_embeddings.weight"].any()
    for name, values in original.items():
        np.testing.assert_array_equal(weights[name], values, err_msg=name)


@pytest.mark.parametrize("precision", ["int8-weights", "int8-blocks", "int8"])
def test_an_integer_weight_comes_back_within_half_a_step(tmp_path: Path, precision: str) -> None:
    original = write_bert(tmp_path / "source", MEAN)
    unpacked = unpack(pack(tmp_path / "source", tmp_path / "packed", precision), tmp_path / "unpacked")
    weights = read_weights(unpacked / "model.safetensors")
    for layer in range(LAYERS):
        for part in ("attention.self.key", "attention.output.dense", "intermediate.dense", "output.dense"):
            name = f"encoder.layer.{layer}.{part}.weight"
            step = np.abs(original[name]).max(axis=1, keepdims=True) / 127  # of an output; a block's is smaller
            assert (np.abs(weights[name] - original[name]) <= step * 0.501).all(), name


def test_shape_heads_and_epsilon_are_read_from_the_graph(tmp_path: Path) -> None:
    unpacked = unpack(package(tmp_path, "int8", MEAN), tmp_path / "unpacked")
    original, config = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("source", "unpacked"))
    assert {name: config[name] for name in original} == original
    assert (config["hidden_size"], config["num_attention_heads"]) == (WIDTH, HEADS)
    assert config["pad_token_id"] == 0
    assert read_recipe(unpacked).max_tokens == MAX_TOKENS


def test_prompts_and_licence_go_along(tmp_path: Path) -> None:
    packed = package(tmp_path, "fp16", MEAN, {"query": "theta ", "passage": "lemma "})
    (packed / "LICENSE.txt").write_text("do as you like")
    unpacked = unpack(packed, tmp_path / "unpacked")
    assert read_recipe(unpacked).prompts == {"query": "theta ", "passage": "lemma "}
    assert (unpacked / "LICENSE.txt").read_text() == "do as you like"


def test_the_packaged_model_is_unpacked_to_the_same_integers(tmp_path: Path) -> None:
    unpacked = unpack(MINILM, tmp_path / "minilm")
    build_bert(unpacked, tmp_path / "model.onnx", "int8-blocks")
    onnx = pytest.importorskip("onnx")
    graphs = [onnx.load(file).graph for file in (MINILM / "model.onnx", tmp_path / "model.onnx")]
    for first, second in zip(*(graph.initializer for graph in graphs), strict=True):
        before, after = (onnx.numpy_helper.to_array(one) for one in (first, second))
        # scales are computed anew, and may move by their last bit
        np.testing.assert_allclose(after, before, rtol=2e-7 if before.dtype == np.float32 else 0)


# ---------------------------------------------------------------- sentence-transformers reads it


@pytest.fixture(scope="module")
def library() -> Any:
    """sentence-transformers, quiet and on one thread."""
    library = pytest.importorskip("sentence_transformers")
    pytest.importorskip("torch").set_num_threads(1)
    return library


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what torch and its friends say to each other
@pytest.mark.parametrize(
    ("precision", "least"),
    [("fp32", 0.999999), ("fp16", 0.999999), ("int8-weights", 0.999999), ("int8-blocks", 0.9995), ("int8", 0.999)],
)
def test_an_unpacked_model_gives_the_vectors_of_the_packed_one(
    tmp_path: Path, library: Any, precision: str, least: float
) -> None:
    packed = package(tmp_path, precision, POOLINGS["cls+mean"], {"query": "theta ", "passage": ""})
    model = library.SentenceTransformer(str(unpack(packed, tmp_path / "unpacked")), device="cpu")
    encoder = OnnxEncoder(packed, threads=1)
    assert model.max_seq_length == MAX_TOKENS
    for role, encode in (("query", model.encode_query), ("passage", model.encode_document)):
        cosines = (encode(TEXTS, show_progress_bar=False) * encoder.encode(TEXTS, role)).sum(axis=1)
        assert cosines.mean() > least


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_packaged_model_can_be_loaded_for_training(tmp_path: Path, library: Any) -> None:
    model = library.SentenceTransformer(str(unpack(MINILM, tmp_path / "minilm")), device="cpu")
    vectors = model.encode(SENTENCES, show_progress_bar=False)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors * OnnxEncoder(MINILM, threads=1).encode(SENTENCES)).sum(axis=1).mean() > 0.9995
    # trained, saved and loaded again, it is still a model of ours
    assert all(parameter.requires_grad for parameter in model.parameters())
    model.save_pretrained(str(tmp_path / "saved"))
    assert read_recipe(tmp_path / "saved").pooling == ("mean",)
    assert read_recipe(tmp_path / "saved").max_tokens == 256


# ---------------------------------------------------------------- what is refused


def test_a_model_is_not_written_over_another(tmp_path: Path) -> None:
    packed = package(tmp_path, "fp32", MEAN)
    before = (tmp_path / "source" / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="not written over"):
        unpack(packed, tmp_path / "source")
    assert (tmp_path / "source" / "model.safetensors").read_bytes() == before
    (tmp_path / "empty").mkdir()
    assert (unpack(packed, tmp_path / "empty") / "modules.json").is_file()


def test_a_graph_of_others_is_refused_and_nothing_stays_behind(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    packed = package(tmp_path, "fp32", MEAN)
    model = onnx.load(packed / "model.onnx")
    del model.graph.node[10]
    onnx.save(model, packed / "model.onnx")
    with pytest.raises(InputError, match="no BERT that lemmata exported"):
        unpack(packed, tmp_path / "unpacked")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packed", "source"]


@pytest.mark.parametrize("name", ["encoder.json", "model.onnx", "tokenizer.json"])
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    packed = package(tmp_path, "fp32", MEAN)
    (packed / name).write_bytes((packed / name).read_bytes()[:20])
    with pytest.raises(InputError, match=name):
        unpack(packed, tmp_path / "unpacked")
    (packed / name).unlink()
    with pytest.raises(InputError, match=f"{name} missing"):
        unpack(packed, tmp_path / "unpacked")


# ---------------------------------------------------------------- which precision to ship


def export(precision: str, size: int, overlap: float, share: float | None) -> Export:
    return Export(precision, Path(precision), size, 1.0, 1.0, overlap, share, share)


def test_the_smallest_export_that_keeps_its_score_is_chosen() -> None:
    table = [export("fp32", 90, 1.0, 1.0), export("fp16", 45, 1.0, 0.999), export("int8-blocks", 24, 0.97, 0.991)]
    assert choose([*table, export("int8", 23, 0.9, 0.97)]).precision == "int8-blocks"
    assert choose(table, least=0.995).precision == "fp16"


def test_without_a_score_the_neighbours_that_stay_decide() -> None:
    table = [export("fp32", 90, 1.0, None), export("fp16", 45, 0.999, None), export("int8", 23, 0.9, None)]
    assert choose(table).precision == "fp16"
    with pytest.raises(InputError, match="no export keeps 99%"):
        choose(table[2:])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_precision_is_exported_and_measured(tmp_path: Path, library: Any) -> None:
    write_bert(tmp_path / "source", MEAN)
    asked: list[str] = []

    def score(encoder: Encoder) -> float:
        asked.append(encoder.name)
        return float(encoder.encode(TEXTS)[0] @ encoder.encode(TEXTS)[1]) + 2

    table = precisions(tmp_path / "source", tmp_path / "out", [*TEXTS, ""], score, name="tiny")
    assert [one.precision for one in table] == ["fp32", "fp16", "int8", "int8-blocks"]
    assert [name.rsplit("-", 1)[0] for name in asked] == [f"tiny-{one.precision}" for one in table]
    for one in table:
        assert one.folder == tmp_path / "out" / one.precision
        assert one.bytes == sum(file.stat().st_size for file in one.folder.iterdir())
        assert one.least_cosine <= one.mean_cosine + 1e-6
        assert one.score is not None
        assert one.share == pytest.approx(one.score / (table[0].score or 0))
        assert OnnxEncoder(one.folder, threads=1).encode(TEXTS).any()
    assert table[0].mean_cosine > 0.99999
    assert table[0].bytes > table[1].bytes > table[3].bytes
    with pytest.raises(InputError, match="not empty"):
        precisions(tmp_path / "source", tmp_path / "out", TEXTS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_score_of_nothing_can_not_be_shared(tmp_path: Path, library: Any) -> None:
    write_bert(tmp_path / "source", MEAN)
    with pytest.raises(InputError, match="fp32 export scores 0"):
        precisions(tmp_path / "source", tmp_path / "out", TEXTS, lambda _: 0.0)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_bert_of_ours_has_two_precisions(tmp_path: Path, library: Any) -> None:
    write_bert(tmp_path / "source", {"pooling_mode_max_tokens": True})
    table = precisions(tmp_path / "source", tmp_path / "out", TEXTS)
    assert [(one.precision, one.score, one.share) for one in table] == [("fp32", None, None), ("int8", None, None)]
    with pytest.raises(InputError, match="can not be unpacked"):
        unpack(table[0].folder, tmp_path / "unpacked")
