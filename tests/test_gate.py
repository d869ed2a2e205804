"""The quality gate: what it keeps of mined pairs and triplets, and what it says about the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.make import MemoryCorpus, lemmata

from lemmata.core.errors import ConfigError
from lemmata.core.types import Floats, Negative, Pair, Passage, Triplet
from lemmata.core.workspace import Workspace, read_manifest, silent
from lemmata.corpus.split import Split
from lemmata.mine.gate import GateReport, Threshold, gated, parse_gate, threshold_from, thresholds_of
from lemmata.mine.material import TrainingView, training_view
from lemmata.project import Project
from lemmata.run import run


def made_of(texts: Sequence[str]) -> TrainingView:
    passages = [Passage(f"p{number}", f"d{number}", "abstract", text) for number, text in enumerate(texts)]
    return training_view(MemoryCorpus(passages), Split(np.zeros(len(texts), np.int8), np.zeros(len(texts), bool)))


def shared_words(pairs: Sequence[tuple[str, str]]) -> Floats:
    """A scorer: the number of words that both texts have."""
    return np.array([len(set(a.split()) & set(b.split())) for a, b in pairs], np.float32)


# 40 passages share one word with everything, and the first ten say more about pumps
TEXTS = [f"log pump seal leak {n}" if n < 10 else f"log x{n}" for n in range(200)]


def test_thresholds_are_quantiles_of_unrelated_pairs() -> None:
    assert threshold_from(np.arange(101, dtype=np.float32)) == Threshold(95.0, 45.0, 50.0)
    assert threshold_from(np.zeros(0, np.float32)).least == -np.inf


def test_a_positive_has_to_score_more_than_unrelated_pairs_and_a_negative_less_than_its_positive() -> None:
    part = made_of(TEXTS)
    near, far, other = (Negative(row, "test") for row in (2, 50, 60))
    records: list[Pair | Triplet] = [
        Pair("log pump seal", 1, "queries", "keyword"),
        Pair("log pump seal", 70, "queries", "keyword"),  # shares one word, as unrelated ones do
        Triplet(Pair("log pump seal leak", 1, "queries", "keyword"), (near, far, other)),
        Triplet(Pair("log pump seal leak", 3, "queries", "keyword"), (near,)),  # its only negative is as good
    ]
    report = GateReport("words")
    passed = list(gated(records, shared_words, part, report, silent))
    assert passed == [records[0], Triplet(Pair("log pump seal leak", 1, "queries", "keyword"), (far, other))]
    assert report.kept == 2
    assert report.kept_negatives == 2
    assert report.dropped == {
        "positive like an unrelated pair": 1, "negative like the positive": 2, "no negative left": 1,
    }  # fmt: skip
    told = report.as_json()
    assert (told["offered"], told["kept"]) == (4, 2)
    kind = told["kinds"]["queries/keyword"]
    assert 1 <= kind["least"] < 3
    assert kind["unrelated"] == 1.0


def test_a_negative_has_to_score_less_than_its_positive_by_more_than_the_margin() -> None:
    part = made_of(["log pump seal leak", "log pump seal x", "log pump y z", "log v w u"])
    negatives = [Negative(row, "test") for row in (1, 2, 3)]  # 1, 2 and 3 words less
    record = Triplet(Pair("log pump seal leak", 0, "queries"), tuple(negatives))
    report = GateReport("words", thresholds={"queries": Threshold(0.0, 2.0, 0.0)})
    assert list(gated([record], shared_words, part, report, silent)) == [record._replace(negatives=(negatives[2],))]


def test_what_passed_once_passes_again_by_the_same_thresholds() -> None:
    part = made_of(TEXTS)
    records: list[Pair | Triplet] = [Pair(text, row, "structure", "title") for row, text in enumerate(TEXTS[:40])]
    first = GateReport("words")
    passed = list(gated(records, shared_words, part, first, silent))
    known = thresholds_of(json.loads(json.dumps(first.as_json())), "words")
    again = GateReport("words", thresholds=known)
    assert list(gated(passed[::-1], shared_words, part, again, silent)) == passed[::-1]
    assert again.thresholds == known
    assert thresholds_of(first.as_json(), "another model") == {}


def test_fixed_thresholds_are_those_of_the_paper_and_what_equals_them_passes() -> None:
    records: list[Pair | Triplet] = [
        Triplet(Pair("log pump seal leak", 1, "queries"), (Negative(2, "test"), Negative(50, "test"))),  # 4; 4 and 1
        Pair("log pump seal", 1, "queries"),  # 3
    ]
    assert parse_gate("a/model@4,3") == ("a/model", (4.0, 3.0))
    assert parse_gate("model@home") == ("model@home", None)
    report = GateReport("words", fixed=(4.0, 3.0))
    assert list(gated(records, shared_words, made_of(TEXTS), report, silent)) == [
        Triplet(Pair("log pump seal leak", 1, "queries"), (Negative(50, "test"),))
    ]
    told = report.as_json()["kinds"]["queries"]
    assert (told["least"], told["margin"], told["unrelated"]) == (4.0, 3.0, 1.0)


def test_every_kind_of_anchor_has_its_own_thresholds() -> None:
    part = made_of(TEXTS)
    records = [Pair("log", 1, "names", ""), Pair(2, 1, "links", "cites"), Pair(2, 90, "links", "cites")]
    report = GateReport("words")
    assert list(gated(records, shared_words, part, report, silent)) == [records[1]]
    assert report.thresholds["names"].least == 1.0
    assert report.by_kind["links/cites"] == {"offered": 2, "kept": 1}


def test_the_gate_does_not_depend_on_how_records_come_in_blocks() -> None:
    part = made_of(TEXTS)
    records = [Pair("log pump seal", n % 10, "queries", "") for n in range(1500)]
    report = GateReport("words")
    assert list(gated(iter(records), shared_words, part, report, silent)) == records
    assert report.by_kind["queries"]["offered"] == 1500


# ---------------------------------------------------------------- in a workspace


@pytest.fixture(scope="module")
def mined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a split, and a cross-encoder of one layer that compares nothing but is real."""
    from tests.training import write_notes

    folder = tmp_path_factory.mktemp("gated")
    project = Project.init(folder / "w")
    project.ingest([write_notes(folder / "notes.jsonl", documents=12)])
    project.split(settings={"method": "stratified", "validation": 0.2, "test": 0.2})
    return folder


@pytest.fixture(scope="module")
def gate(mined: Path) -> Path:
    from tests.small_bert import VOCABULARY, small_bert

    from lemmata.encode.export import write_cross_encoder

    transformers = pytest.importorskip("transformers")
    folder = small_bert(mined / "tiny")
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY) + 5, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=32, num_labels=1, initializer_range=0.5,
    )  # fmt: skip
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    write_cross_encoder(folder, mined / "gate", "fp32", "tiny", 32)
    return mined / "gate"


@pytest.mark.slow
def test_a_mined_set_says_what_the_gate_did(mined: Path, gate: Path) -> None:
    workspace = mined / "w"
    plain = json.loads(lemmata("mine", "pairs", "-w", workspace, "--json"))
    assert "gate" not in plain
    report = json.loads(lemmata("mine", "pairs", "--name", "gated", "-o", f"gate={gate}", "-w", workspace, "--json"))
    told = report["gate"]
    assert told["model"].startswith("tiny-fp32-")
    assert told["offered"] == plain["records"]
    assert 0 < told["kept"] == report["records"] < plain["records"]
    assert told["offered"] - told["kept"] == told["dropped"]["positive like an unrelated pair"]
    manifest = read_manifest(workspace / "training" / "gated" / "manifest.json") or {}
    assert manifest["report"]["gate"] == told
    assert manifest["options"]["gate"] == str(gate)
    assert manifest["command"].endswith(f"-o gate={gate}")


@pytest.mark.slow
def test_the_gate_of_the_settings_counts_and_can_be_left_out(mined: Path, gate: Path) -> None:
    config = mined / "w" / "lemmata.toml"
    before = config.read_text()
    config.write_text(f'{before}\n[mine]\ngate = "../gate"\n')
    project = Project(mined / "w")
    gated_set = project.mine("pairs", name="by-settings")
    assert gated_set["gate"]["kept"] == gated_set["records"]
    assert "gate" not in project.mine("pairs", name="without", settings={"gate": "none"})
    with pytest.raises(ConfigError, match="'nowhere'"):
        project.mine("pairs", name="other", settings={"gate": "nowhere"})
    config.write_text(before)


def test_a_gate_that_cannot_be_had_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("HF_ENDPOINT", "https://127.0.0.1:9")
    (tmp_path / "lemmata.toml").write_text(
        '[mine]\ngate = "nobody/no-such-model@5,3"\n[run]\nsources = ["notes"]\n', encoding="utf-8"
    )
    (tmp_path / "notes").mkdir()
    with pytest.raises(ConfigError, match=r'nobody/no-such-model.*gate = "none"'):
        run(Workspace(tmp_path))
    assert not (tmp_path / "corpus").exists()
