"""The window of a base that reads more than 512 tokens, from training to search: a small ModernBERT."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.small_bert import READS, VOCABULARY, WORDS, small_modern
from tests.training import say_more

from lemmata.core.workspace import silent
from lemmata.encode.load import load_encoder
from lemmata.project import Project
from lemmata.train.job import open_job
from lemmata.train.pretrain import PretrainOptions, pretrain

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("pyarrow")
pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def modern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_modern(tmp_path_factory.mktemp("modern") / "base")


def words(count: int, seed: int, kind: str = "a") -> str:
    return " ".join(f"{kind}{n}" for n in np.random.default_rng(seed).integers(0, WORDS, count).tolist())


def test_pretraining_reads_windows_of_1024_tokens(modern: Path, tmp_path: Path) -> None:
    texts = [(f"d{n}", words(1500, n)) for n in range(12)]
    options = PretrainOptions(base=str(modern), epochs=0.3, batch=4)
    report = pretrain(modern, texts, tmp_path / "out", options, work=tmp_path / "work", progress=silent)
    assert report["window"] == READS
    assert VOCABULARY[0] == "ask"
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "modernbert"


@pytest.mark.filterwarnings("ignore")  # of torch, about its exporter
def test_a_text_of_1000_tokens_is_trained_on_exported_and_encoded_whole(modern: Path, tmp_path: Path) -> None:
    rows = []
    for document in range(12):
        asked, told = words(5, document), words(1000, document, "b")
        home = {"document": f"d{document}", "kind": "remark"}
        rows.append({"_id": f"a{document}", "text": asked, "links": [f"b{document}"], **home})
        rows.append({"_id": f"b{document}", "text": told, **home})
    (tmp_path / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "notes.jsonl"])
    project.split()
    project.mine("pairs")
    table = f'[finetune.tuned]\nbase = "{modern}"\nsets = {{ pairs = 1.0 }}\nepochs = 1\nbatch = 4\nrate = 1e-3\n'
    project = say_more(project.root, table)
    project.prepare("tuned", tmp_path / "job")
    lengths = np.diff(open_job(tmp_path / "job").texts.starts)
    assert lengths.max() > 1000  # no text is cut to 512 before training
    project.finetune()
    assert json.loads((project.model("tuned") / "onnx" / "encoder.json").read_text())["max_tokens"] == READS
    encoder = load_encoder("tuned", models=project.models_folder)
    whole = words(1000, 99, "b").split()
    texts = [whole, whole[:510], [*whole[:-1], "ask"], [*whole, *whole], [*whole, *whole[:22], *whole[::-1]]]
    vectors = encoder.encode([" ".join(text) for text in texts])
    cosines = vectors @ vectors[0]
    assert cosines[0] == pytest.approx(1.0, abs=1e-5)
    assert cosines[1] < 0.9999  # the cut at 512 tokens, with those that open and close a text
    assert cosines[2] < 1 - 1e-7
    assert np.allclose(vectors[3], vectors[4], atol=1e-5)  # what stands behind 1,024 tokens is not read
    assert not np.allclose(vectors[0], vectors[3], atol=1e-4)
