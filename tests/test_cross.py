"""Cross-encoders: loaded from every kind of folder, exported without loss, and used to rerank."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import lemmata, make_workspace, to_lines
from tests.small_bert import VOCABULARY, small_bert

from lemmata.core.errors import InputError, WorkspaceError
from lemmata.core.workspace import read_manifest, write_manifest
from lemmata.encode.cross import load_cross_encoder
from lemmata.encode.export import write_cross_encoder, write_encoder
from lemmata.encode.load import encoder_kind
from lemmata.encode.restore import restore_cross_encoder
from lemmata.project import Project
from lemmata.search.names import split_reranker
from lemmata.search.ranking import choose_rerank_weight, rerank

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sentence_transformers = pytest.importorskip("sentence_transformers")

PAIRS = [("a1 a2", "b1 b2"), ("a1 a2", "a7"), ("ask a3", " ".join(VOCABULARY[:60])), ("b4", "b4"), ("", "a1")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random cross-encoder in Hugging Face's format, with heads of 32 numbers as MiniLM has."""
    folder = small_bert(tmp_path_factory.mktemp("cross") / "tiny")
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY) + 5,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=32,
        num_labels=1,
        initializer_range=0.5,
    )
    torch.manual_seed(1)
    transformers.BertForSequenceClassification(config).eval().save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    for name in ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"):
        (folder / name).unlink()
    return folder


@pytest.fixture(scope="module")
def exported(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "tiny-cross"
    write_cross_encoder(model, folder, "fp32", "tiny", 256)  # more than it reads
    return folder


def scores_by_hand(model: Path) -> Any:
    """The logits as transformers computes them, one pair at a time."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model)
    network = transformers.BertForSequenceClassification.from_pretrained(model).eval()
    values = []
    for query, passage in PAIRS:
        inputs = tokenizer(query, passage, truncation="longest_first", max_length=32, return_tensors="pt")
        assert (inputs["token_type_ids"] == 1).any()
        with torch.no_grad():
            values.append(float(network(**inputs).logits[0, 0]))
    return values


def test_exported_and_hugging_face_folders_give_the_logits_of_transformers(model: Path, exported: Path) -> None:
    expected = scores_by_hand(model)
    assert np.std(expected) > 0.1
    np.testing.assert_allclose(load_cross_encoder(str(exported)).score(PAIRS), expected, atol=1e-4)
    np.testing.assert_allclose(load_cross_encoder(str(model)).score(PAIRS), expected, atol=2e-2)
    assert load_cross_encoder(str(exported)).name.startswith("tiny-fp32-")
    assert len(load_cross_encoder(str(exported)).score([])) == 0


def test_a_folder_from_elsewhere_needs_no_settings(exported: Path, tmp_path: Path) -> None:
    bare = shutil.copytree(exported, tmp_path / "bare")
    (bare / "reranker.json").unlink()
    assert load_cross_encoder(str(bare)).name.startswith("bare-")
    np.testing.assert_allclose(
        load_cross_encoder(str(bare)).score(PAIRS[:2]), load_cross_encoder(str(exported)).score(PAIRS[:2]), atol=1e-5
    )


@pytest.mark.filterwarnings("ignore")  # of torch's exporter
def test_a_quantised_export_of_torch_is_restored_for_training(model: Path, tmp_path: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    network = transformers.BertForSequenceClassification.from_pretrained(model, attn_implementation="eager").eval()
    example = {name: torch.ones((2, 7), dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    example["token_type_ids"] = torch.zeros((2, 7), dtype=torch.int64)
    names = list(example)
    more = {"dynamic_axes": {name: {0: "batch", 1: "tokens"} for name in names}, "opset_version": 17}
    file = tmp_path / "plain.onnx"
    torch.onnx.export(network, tuple(example.values()), str(file), input_names=names, dynamo=False, **more)
    folder = tmp_path / "quantised"
    folder.mkdir()
    quantization.quantize_dynamic(str(file), str(folder / "model.onnx"))
    shutil.copyfile(model / "tokenizer.json", folder / "tokenizer.json")
    restored = restore_cross_encoder(folder, tmp_path / "restored")
    again = transformers.BertForSequenceClassification.from_pretrained(restored).state_dict()
    for name, values in network.state_dict().items():
        spread = float(values.max() - values.min())
        assert float((again[name] - values).abs().max()) <= max(0.02 * spread, 1e-6), name


def test_what_is_no_cross_encoder_is_refused(model: Path, tmp_path: Path) -> None:
    encoder = small_bert(tmp_path / "encoder")
    write_encoder(encoder, tmp_path / "onnx", "fp32", "tiny")
    for folder in (encoder, tmp_path / "onnx"):
        with pytest.raises(InputError, match=folder.name):
            load_cross_encoder(str(folder))
    with pytest.raises(InputError, match=r"'nothing'.*lemmata train reranker"):
        load_cross_encoder("nothing")
    write_cross_encoder(model, tmp_path / "cross", "int8", "tiny", 32)
    with pytest.raises(InputError, match=r"auto\+rerank"):
        encoder_kind(str(tmp_path / "cross"))


# ---------------------------------------------------------------- reranking


def test_reranking_equals_a_worked_example() -> None:
    rows = np.array([[7, 3, 5, 1, -1]])
    scores = np.array([[4.0, 2.0, 0.0, -1.0, -np.inf]], np.float32)
    cross = np.array([[-1.0, 0.0, 1.0]], np.float32)  # of the first three hits
    ranked, values = rerank(rows, scores, cross, 1.0)
    assert ranked.tolist() == [[5, 3, 7, 1, -1]]
    spread = np.sqrt(2 / 3)
    np.testing.assert_allclose(values[0, :3], [1 / spread, 0, -1 / spread], rtol=1e-5)
    assert values[0, 2] > values[0, 3] > values[0, 4]
    assert rerank(rows, scores, cross, 0.0)[0].tolist() == rows.tolist()
    ties = rerank(rows, scores, cross, 0.5)
    assert ties[0].tolist() == rows.tolist()  # both standardised scores cancel
    np.testing.assert_allclose(ties[1][0, :3], 0, atol=1e-6)


@given(
    st.lists(st.integers(-20, 20), min_size=1, max_size=8),
    st.lists(st.integers(-20, 20), min_size=8, max_size=8),
    st.integers(0, 8),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_reranking_permutes_the_first_hits_and_leaves_the_others(
    scores: list[int], cross: list[int], first: int, weight: float
) -> None:
    size = len(scores)
    first = min(first, size)
    rows = np.arange(100, 100 + size)[None, :]
    old = np.array([sorted(scores, reverse=True)], np.float32)
    ranked, values = rerank(rows, old, np.array([cross[:first]], np.float32).reshape(1, first), weight)
    assert sorted(ranked[0, :first].tolist()) == rows[0, :first].tolist()
    assert ranked[0, first:].tolist() == rows[0, first:].tolist()
    assert (np.diff(values[0]) <= 1e-4).all()
    if weight == 1.0 and first:
        assert [cross[row - 100] for row in ranked[0, :first].tolist()] == sorted(cross[:first], reverse=True)


def test_the_weight_is_the_one_that_finds_most() -> None:
    rows = np.array([[0, 1], [0, 1]])
    scores = np.array([[1.0, 0.9], [1.0, 0.9]], np.float32)

    def found(ranked: Any) -> float:
        return float((ranked[:, 0] == 1).mean())

    weight, tried = choose_rerank_weight(found, (rows, scores), np.array([[0.0, 1.0], [0.0, 1.0]], np.float32))
    assert weight == 0.6  # the smallest that turns both around
    assert dict(tried)[0.0] == 0.0


def test_names_of_retrievers_say_what_is_reranked() -> None:
    assert split_reranker("dense") == ("dense", 0, "")
    assert split_reranker("dense+rerank") == ("dense", 50, "")
    assert split_reranker("dense:minilm+rerank20:../a/b") == ("dense:minilm", 20, "../a/b")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("reranked")
    lines = [{"_id": f"p{n}", "text": f"a{n} b{n} a{(7 * n) % 40}", "document": f"d{n % 4}"} for n in range(30)]
    return make_workspace(folder, {"notes.jsonl": to_lines(lines)})


def test_search_reranks_by_the_scores_of_the_model(project: Project, exported: Path) -> None:
    query = "a1 b1 a2 b3 a3"
    with project.retriever() as retriever:
        plain = retriever.search(query, 30, retriever="lexical")
        hits = retriever.search(query, 30, retriever=f"lexical+rerank4:{exported}")
        with pytest.raises(WorkspaceError, match="'lemmata train reranker'"):
            retriever.search("a1", retriever="auto+rerank4")
    assert len(plain) > 4
    scores = load_cross_encoder(str(exported)).score([(query, hit.text) for hit in plain[:4]])
    old = np.array([hit.score for hit in plain[:4]])
    both = (old - old.mean()) / old.std() + (scores - scores.mean()) / scores.std()
    expected = [plain[place].id for place in np.argsort(-both, kind="stable")]
    assert [hit.id for hit in hits] == expected + [hit.id for hit in plain[4:]]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_command_reranks_and_evaluate_measures_it_beside_the_plain_retriever(
    project: Project, exported: Path, tmp_path: Path
) -> None:
    folder = project.root
    shown = lemmata("search", "a1 a2 a3", "-w", folder, "--retriever", f"auto+rerank4:{exported}", "--json")
    assert len(json.loads(shown)) == 10
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "a3 a21"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\tp3\t1\n")
    files: list[str | Path] = ["--queries", tmp_path / "queries.jsonl", "--qrels", tmp_path / "qrels.tsv"]
    name = f"lexical+rerank5:{exported}"
    report = json.loads(lemmata("evaluate", "-w", folder, *files, "--retriever", f"lexical,{name}", "--json"))
    assert list(report["retrievers"]) == ["lexical", name]
    [chosen] = json.loads(lemmata("evaluate", "-w", folder, *files, "--retriever", name, "--tune", "--json"))
    assert chosen["weight"] == 0.0  # words alone find it first
    with project.retriever() as retriever:
        assert retriever.rerankers.weight("lexical", str(exported)) == 0.0
        assert retriever.rerankers.weight("dense", str(exported)) == 0.0  # the last that was chosen
    stored = read_manifest(project.rerank) or {}
    other = {**chosen, "retriever": "dense", "weight": 0.9}
    write_manifest(project.rerank, {**stored, "weights": {**stored["weights"], "other": other}})
    with project.retriever() as retriever:
        assert retriever.rerankers.weight("lexical", str(exported)) == 0.0
        assert retriever.rerankers.weight("dense", str(exported)) == 0.9
        assert retriever.search("a1 a2 a3", retriever=f"lexical+rerank4:{exported}")[0].id == "p1"
    project.rerank.unlink()
