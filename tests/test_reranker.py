"""Training cross-encoders: pairs as tokens, learning, resuming, and the model in its workspace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.embedding_server import FaultyServer
from tests.make import refused, say
from tests.small_bert import VOCABULARY, bare_base, small_bert
from tests.training import write_notes

from lemmata.core.errors import ConfigError
from lemmata.core.workspace import silent
from lemmata.encode.cross import load_cross_encoder
from lemmata.project import Project
from lemmata.train.job import JobWriter, open_job
from lemmata.train.reranker import _frame, _pair_arrays

sentence_transformers = pytest.importorskip("sentence_transformers")

Words = st.lists(st.sampled_from(VOCABULARY), max_size=14).map(" ".join)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_base(tmp_path_factory.mktemp("bare") / "base")


@given(pairs=st.lists(st.tuples(Words, Words), min_size=1, max_size=4), longest=st.integers(4, 20))
def test_pairs_are_the_tokens_that_the_tokenizer_makes(
    tmp_path_factory: pytest.TempPathFactory, base: Path, pairs: list[tuple[str, str]], longest: int
) -> None:
    from tokenizers import Tokenizer

    writer = JobWriter(tmp_path_factory.mktemp("job") / "job", base, silent, prompts={"query": ""})
    writer.add_set("pairs", pairs, {})
    job = writer.close({})
    records = job.sets["pairs"]
    arrays = _pair_arrays(job.texts, records.tolist(), _frame(base / "tokenizer.json"), longest, 0)
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.enable_truncation(longest, strategy="longest_first")
    for row, encoding in enumerate(tokenizer.encode_batch(pairs)):
        length = int(arrays["attention_mask"][row].sum())
        assert arrays["input_ids"][row, :length].tolist() == encoding.ids
        assert arrays["token_type_ids"][row, :length].tolist() == encoding.type_ids


# ---------------------------------------------------------------- a model of a workspace


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with pairs, an index, and the reranker that was trained from a tiny encoder."""
    folder = tmp_path_factory.mktemp("reranker")
    tiny = small_bert(folder / "tiny")
    project = Project.init(folder / "notes")
    project.ingest([write_notes(folder / "notes.jsonl")])
    project.split(settings={"method": "stratified", "validation": 0.2, "test": 0.2})
    project.index(settings={"encoder": "hashing"})
    project.mine("pairs")
    project.train_reranker(settings={"base": str(tiny), "records": 640, "rate": 3e-3})
    return folder


def test_a_reranker_is_a_whole_model(trained: Path) -> None:
    project = Project(trained / "notes")
    folder = project.model("reranker")
    assert sorted(path.name for path in (folder / "onnx").iterdir()) == [
        "model.onnx",
        "reranker.json",
        "tokenizer.json",
    ]
    assert {"README.md", "card.json", "report.html", "history.json", "trained.json", "config.json"} <= {
        path.name for path in folder.iterdir()
    }
    report = project.models()["reranker"]["report"]
    assert report["after"]["MRR@10"] >= report["before"]["MRR@10"]
    assert report["held_out"] > 5
    assert report["drift"]["correlation"] > 0.98
    assert report["weight"]["retriever"] == "auto"
    assert {row["weight"] for row in report["weight"]["tried"]} == {round(step / 10, 1) for step in range(11)}
    assert project.verify().is_whole
    card = (folder / "README.md").read_text()
    assert 'pipeline_tag: "text-ranking"' in card
    assert "A cross-encoder" in card


def test_everybody_gets_the_scores_of_the_trained_model(trained: Path) -> None:
    folder = Project(trained / "notes").model("reranker")
    pairs = [("a1 a2 a3", "b1 b2 b3"), ("a1 a2 a3", "b4 b5 b6"), ("b7", "a7")]
    plain = sentence_transformers.CrossEncoder(str(folder), device="cpu").predict(pairs, show_progress_bar=False)
    ours = load_cross_encoder("reranker", models=folder.parent).score(pairs)
    np.testing.assert_allclose(ours, plain, atol=0.05 * max(1.0, float(np.abs(plain).max())))


def test_held_out_pairs_are_not_trained_on(trained: Path) -> None:
    """What a model may read of the held-out records is decided by the same code that trains."""
    import torch
    from transformers import AutoModelForSequenceClassification

    from lemmata.train.reranker import RerankerOptions, _Objective

    project = Project(trained / "notes")
    writer = JobWriter(trained / "job", trained / "tiny", silent)
    records = [(f"a{n} a{n + 1}", f"b{n} b{n + 1}", f"b{n + 2} ask") for n in range(35)]
    writer.add_set("pairs", records, {})
    writer.close({})
    job = open_job(trained / "job")
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(trained / "tiny", num_labels=1)
    objective = _Objective(model, job, RerankerOptions(records=100))
    held = objective.records[objective.held_out, :2].ravel()
    assert len(objective.held_out) == 3
    shown = {number for step in range(objective.steps) for row in objective._order for number in
             objective.records[row, :2].tolist()}  # fmt: skip
    assert not shown & set(held.tolist())
    for row, candidates in zip(objective.held_out.tolist(), objective._candidates, strict=True):
        assert candidates[0] == tuple(objective.records[row, :2].tolist())
    assert project.models()["reranker"]["split"] == project.training_sets()["pairs"]["split"]


def test_the_same_call_trains_nothing_again_and_search_uses_the_model(trained: Path) -> None:
    workspace = trained / "notes"
    told = ["-o", f"base={trained / 'tiny'}", "-o", "records=640"]
    project = Project(workspace)
    settings = {"base": str(trained / "tiny"), "records": 640, "rate": 3e-3}
    assert project.train_reranker(settings=settings)["done_before"]
    code, out, _ = say("search", "a1 a2 a3", "-w", workspace, "--retriever", "auto+rerank5", "--json")
    assert code == 0
    assert len(json.loads(out)) == 10
    code, out, _ = say("train", "models", "-w", workspace)
    assert "reranker yes" in " ".join(out.split())
    assert "is a cross-encoder" in refused(say("index", "--encoder", "reranker", "-w", workspace))
    assert told


def test_a_cross_encoder_is_trained_further(trained: Path, tmp_path: Path) -> None:
    workspace = shutil.copytree(trained / "notes", tmp_path / "notes")
    report = Project(workspace).train_reranker("further", settings={"base": "reranker", "records": 32})
    assert report["name"] == "further"
    facts: dict[str, Any] = json.loads((workspace / "models" / "further" / "trained.json").read_text())
    assert facts
    with pytest.raises(ConfigError, match="'further'"):
        Project(workspace).train_reranker("further", settings={"base": "further"})


def test_a_model_is_kept_where_its_weight_cannot_be_chosen(
    trained: Path,
    tmp_path: Path,
    service: FaultyServer,
) -> None:
    project = Project(shutil.copytree(trained / "notes", tmp_path / "notes"))
    project.index(settings={"encoder": f"{service.url}#tiny"})
    service.faults = ["401"] * 100  # from now on nobody is let in
    report = project.train_reranker("unweighed", settings={"base": "reranker", "records": 32})
    assert report["weight"] is None
    assert "refused tiny" in report["not_weighed"]
    assert project.models()["unweighed"]["report"]["not_weighed"] == report["not_weighed"]


def test_evaluate_warns_of_a_reranker_that_was_trained_under_another_split(trained: Path, tmp_path: Path) -> None:
    project = Project(shutil.copytree(trained / "notes", tmp_path / "notes"))
    task = project.task("references", part="test", limit=8)
    report = project.evaluate(task, retrievers=["lexical+rerank5"])
    assert not [note for note in report.notes if "trained under another split" in note]
    project.split(settings={"method": "stratified", "validation": 0.2, "test": 0.2, "seed": 5})
    task = project.task("references", part="test", limit=8)
    report = project.evaluate(task, retrievers=["lexical", "lexical+rerank5"])
    [warning] = [note for note in report.notes if "trained under another split" in note]
    assert "reranker was trained under another split" in warning
