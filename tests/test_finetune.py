"""Fine-tuning: what is learned, chosen, kept after a kill, and not forgotten."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_bert import one_answer_each, silent, small_bert, small_job

from lemmata.errors import ConfigError, InputError, LemmataError
from lemmata.train.encoders import freeze, load_model
from lemmata.train.finetune import WEIGHTS, FinetuneOptions, Tuned, finetune
from lemmata.train.job import Job, JobWriter, open_job
from lemmata.train.validate import encode_texts, measured, ranked, selection

torch = pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers")
safetensors = pytest.importorskip("safetensors.numpy")
pytest.importorskip("accelerate")
pytest.importorskip("datasets")

QUICK: dict[str, Any] = {"batch": 25, "epochs": 2, "rate": 1e-2, "validations": 4, "device": "cpu"}
STEPS = 16  # of 200 records


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def job(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    return small_job(tmp_path_factory.mktemp("job"), base, negatives=1)


@pytest.fixture(scope="module")
def guarded(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    return small_job(tmp_path_factory.mktemp("guarded"), base, guard=["words"])


def tuned(base: Path, job: Job, folder: Path, **options: Any) -> Tuned:
    chosen = FinetuneOptions(**{**QUICK, **options})
    guide, teacher = (base if named else None for named in (chosen.guide, chosen.teacher))
    return finetune(
        base, job, folder / "out", chosen, work=folder / "work", guide=guide, teacher=teacher, progress=silent
    )


def losses(told: Tuned) -> dict[int, float]:
    """By step; a step that is told twice fails."""
    lines = [line for line in told.history if "loss" in line]
    steps = [line["step"] for line in lines]
    assert all(first < second for first, second in pairwise(steps))
    return {line["step"]: line["loss"] for line in lines}


def validations(told: Tuned, measure: str = "eval_domain") -> dict[int, float]:
    return {line["step"]: line[measure] for line in told.history if measure in line}


def loaded(folder: Path) -> Any:
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


# ---------------------------------------------------------------- learning


def test_a_model_learns_what_the_pairs_say_and_is_saved_for_anyone(base: Path, job: Job, tmp_path: Path) -> None:
    told = tuned(base, job, tmp_path)
    assert told.before["sayings/MRR@10"] < 0.2
    assert told.after["sayings/MRR@10"] > 0.9
    found = losses(told)
    assert found[max(found)] < found[min(found)] / 2
    assert told.records_per_second > 0
    vectors = loaded(tmp_path / "out").encode(["a1 a2 a3", "b1 b2 b3", "b4 b5 b6"], normalize_embeddings=True)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    again = measured(loaded(tmp_path / "out"), job, 16, 0, "fp32")
    assert again == pytest.approx(told.after, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "gain"),
    [
        ({"cached": True, "chunk": 300}, 0.5),
        ({"loss": "triplet"}, 0.5),
        ({"dimensions": [1, 0.5, 8]}, 0.5),
        ({"guide": "base", "guide_margin": 0.05}, 0.2),
        ({"pooling": "cls+mean"}, 0.3),
        ({"freeze": 1, "rate": 2e-2}, 0.05),
        ({"checkpointing": True}, 0.5),
        ({"teacher": "base"}, 0.3),
        ({"both_ways": False, "negatives": 0, "warmup": 0.5, "decay": 0.0}, 0.5),
        ({"dropout": 0.3, "tokens": 8}, 0.3),
        ({"popularity": 1.0}, 0.5),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_every_way_of_training_learns(
    base: Path, job: Job, tmp_path: Path, options: dict[str, Any], gain: float
) -> None:
    told = tuned(base, job, tmp_path, validations=2, **options)
    assert told.after["sayings/MRR@10"] > told.before["sayings/MRR@10"] + gain
    vectors = loaded(tmp_path / "out").encode(["a1", "a2 b3"])
    assert vectors.shape == (2, 64 if "+" in options.get("pooling", "") else 32)
    assert np.isfinite(vectors).all()


def test_a_model_keeps_the_prompts_it_was_trained_with(base: Path, job: Job, tmp_path: Path) -> None:
    tuned(base, job, tmp_path, prompts={"query": "ask "}, epochs=0.5, validations=1)
    model = loaded(tmp_path / "out")
    assert model.prompts == {"query": "ask ", "document": ""}
    np.testing.assert_allclose(model.encode_query("a1 a2"), model.encode("ask a1 a2"), atol=1e-6)
    np.testing.assert_allclose(model.encode_document("a1 a2"), model.encode("a1 a2"), atol=1e-6)
    assert not np.allclose(model.encode_query("a1 a2"), model.encode("a1 a2"), atol=1e-3)
    with pytest.raises(ConfigError, match="prompts are for 'query' and 'passage', not 'document'"):
        tuned(base, job, tmp_path / "other", prompts={"document": "x"})


def test_adapters_are_merged_into_plain_weights(base: Path, job: Job, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    told = tuned(base, job, tmp_path, lora=8, rate=2e-2, epochs=3)
    found = losses(told)
    assert found[max(found)] < found[min(found)] - 0.1  # a random base can not be taught by adapters
    before, after = (safetensors.load_file(folder / "model.safetensors") for folder in (base, tmp_path / "out"))
    assert before.keys() == after.keys()
    trained = {name for name, values in after.items() if not np.array_equal(values, before[name])}
    kinds = ("query.weight", "key.weight", "value.weight", "dense.weight")
    assert trained == {name for name in after if name.startswith("encoder.") and name.endswith(kinds)}
    assert measured(loaded(tmp_path / "out"), job, 16, 0, "fp32") == pytest.approx(told.after, abs=1e-6)


def test_frozen_layers_stay_as_they_are(base: Path, job: Job, tmp_path: Path) -> None:
    tuned(base, job, tmp_path, freeze=1, epochs=0.5, validations=1)
    before, after = (safetensors.load_file(folder / "model.safetensors") for folder in (base, tmp_path / "out"))
    trained = {name for name, values in after.items() if not np.array_equal(values, before[name])}
    assert trained
    assert all("layer.1." in name for name in trained)
    with pytest.raises(ConfigError, match="freeze = 2 leaves nothing to train: the base has 2 layers"):
        freeze(load_model(base, "cpu"), 2)


def test_what_makes_no_sense_is_refused_in_a_sentence(base: Path, job: Job, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to train on"):
        tuned(base, job, tmp_path, epochs=0)
    with pytest.raises(ConfigError, match="triplet loss needs sets with negatives"):
        tuned(base, job, tmp_path, loss="triplet", negatives=0)
    with pytest.raises(ConfigError, match="32 dimensions can not be cut to 33"):
        tuned(base, job, tmp_path, dimensions=[33])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="cannot be loaded as a sentence-transformers model"):
        load_model(tmp_path / "empty", "cpu")


# ---------------------------------------------------------------- choosing


@pytest.mark.parametrize("patience", [0, 1])
def test_the_best_step_is_kept_and_training_stops_when_nothing_gets_better(
    base: Path, tmp_path: Path, patience: int
) -> None:
    """What is taught makes this task worse at every step, so the first time it is measured is the best."""
    job = small_job(tmp_path / "job", base, validation=["words"])
    told = tuned(base, job, tmp_path, rate=5e-3, patience=patience)
    found = validations(told)
    assert list(found) == ([4, 8] if patience else [4, 8, 12, 16])
    assert told.best_step == 4 == max(found, key=lambda step: found[step])
    assert found[max(found)] < found[4] - 0.05
    assert told.after["words/MRR@10"] == pytest.approx(found[4], abs=1e-6)
    assert told.after == pytest.approx(measured(loaded(tmp_path / "out"), job, 16, 0, "fp32"), abs=1e-6)


def test_without_validation_the_last_step_is_kept(base: Path, tmp_path: Path) -> None:
    job = small_job(tmp_path / "job", base, validation=[])
    told = tuned(base, job, tmp_path)
    assert (told.before, told.after, told.sweep, told.share) == ({}, {}, [], 1.0)
    kept = safetensors.load_file(tmp_path / "out" / "model.safetensors")
    last = safetensors.load_file(tmp_path / "work" / f"checkpoint-{STEPS}" / WEIGHTS)
    for name, values in kept.items():
        assert np.array_equal(values, last[f"0.model.{name}"])


def test_measures_of_a_model_are_those_of_its_own_vectors(base: Path, tmp_path: Path) -> None:
    writer = JobWriter(tmp_path / "job", base, silent)
    texts = ["a1 a2", "a1 a3 b4", "b9", "a1 a2 b7 " * 9, "unheard"]
    writer.add_set("needed", [("a1", "b1")], {})
    answers = one_answer_each(5)
    itself = np.array([0, 1, -1, -1, 4])
    writer.add_validation("own", texts, texts, answers, itself, measure="recall@2")
    writer.add_validation(
        "general", texts[:2], texts, one_answer_each(2), itself[:2] * 0 - 1, measure="p@1", general=True
    )
    job = writer.close({})
    model = load_model(base, "cpu")
    vectors = encode_texts(model.train(), job.texts, job.validations[0].passages, 16, 0).numpy()
    assert model.training  # as it was before
    assert np.allclose(vectors, loaded(base).encode(texts, normalize_embeddings=True), atol=1e-5)
    order = ranked(torch.from_numpy(vectors), torch.from_numpy(vectors), itself, depth=3)
    scores = vectors @ vectors.T
    for query, own in enumerate(itself.tolist()):
        wanted = [place for place in np.argsort(-scores[query], kind="stable").tolist() if place != own][:3]
        assert order[query].tolist() == wanted
    everything = ranked(torch.from_numpy(vectors), torch.from_numpy(vectors), itself)
    assert everything.shape == (5, 5)
    assert everything[0, -1] == -1  # the query itself is never found, not even last
    report = measured(model, job, 16, 0, "fp32")
    assert report["own/R@2"] == pytest.approx(2 / 5)
    assert report["general/P@1"] == 1.0
    assert {name.split("/")[1] for name in report} == {"R@2", "P@1", "MRR@10", "R@20", "nDCG@10"}
    assert selection(report, job.validations) == (report["own/R@2"], 1.0)
    assert selection({}, []) == (0.0, 0.0)


# ---------------------------------------------------------------- not forgetting


@pytest.mark.parametrize("more", [{}, {"lora": 8, "rate": 3e-2, "epochs": 3}, {"pooling": "cls+mean"}])
def test_weights_are_averaged_as_far_as_the_guard_wants(
    base: Path, guarded: Job, tmp_path: Path, more: dict[str, Any]
) -> None:
    if "lora" in more:
        pytest.importorskip("peft")
    shares = [0.1, 0.25, 0.5]
    told = tuned(base, guarded, tmp_path, **{"rate": 5e-3, "average": shares, "forget": 0.03, **more})
    floor = told.before["words/MRR@10"] * 0.97
    assert [one["share"] for one in told.sweep] == [*shares, 1.0]
    assert told.sweep[-1]["general"] < floor  # all of it would forget too much
    allowed = {one["share"]: one["domain"] for one in told.sweep if one["general"] >= floor}
    assert {one["share"] for one in told.sweep if one["allowed"]} == allowed.keys()
    assert told.share == max(allowed, key=lambda share: allowed[share]) < 1
    assert told.after["words/MRR@10"] >= floor
    assert told.after["sayings/MRR@10"] > told.before["sayings/MRR@10"]
    saved = measured(loaded(tmp_path / "out"), guarded, 16, 0, "fp32")
    assert saved == pytest.approx(told.after, abs=1e-6)


def test_a_guard_that_nothing_satisfies_is_told(base: Path, guarded: Job, tmp_path: Path) -> None:
    told = r"no average is good enough for the guard: the best has 0\.\d+ where forget = 0\.01 asks for 0\.\d+; add"
    with pytest.raises(LemmataError, match=told):
        tuned(base, guarded, tmp_path, average=[0.9], forget=0.01)
    assert not (tmp_path / "out").exists()


def test_a_guard_alone_allows_as_much_as_it_can(base: Path, tmp_path: Path) -> None:
    """It can not say which step is best: that is the last one."""
    job = small_job(tmp_path / "job", base, validation=[], guard=["words"])
    told = tuned(base, job, tmp_path, forget=0.9)
    assert (told.share, told.best_step) == (1.0, 0)
    assert told.after["words/MRR@10"] == pytest.approx(validations(told, "eval_general")[STEPS], abs=1e-6)


# ---------------------------------------------------------------- killed, and several processes

CHILD = """
import json, os, sys, time
from pathlib import Path
import torch
from lemmata.train.finetune import FinetuneOptions, finetune
from lemmata.train.job import open_job
torch.set_num_threads(1)
base, job, folder = map(Path, sys.argv[1:4])
options = FinetuneOptions(**json.loads(sys.argv[4]))
def slowly(what, done, total):
    if what.startswith("training"):
        time.sleep(0.2 if done > 16 else 0)  # so that there is time to kill it
told = finetune(base, open_job(job), folder / "out", options, work=folder / "work", progress=slowly)
rank = os.environ.get("RANK", "0")
(folder / f"told-{rank}.json").write_text(json.dumps(told._asdict()))
if "RANK" in os.environ:
    from lemmata.train.finetune import _average_gradients
    layer = torch.nn.Linear(2, 1)
    layer.weight.grad = torch.tensor([[float(rank), 10.0]])  # and no gradient of the bias
    _average_gradients(layer)
    assert layer.weight.grad.tolist() == [[0.5, 10.0]] and layer.bias.grad is None
"""


def child(folder: Path, base: Path, job: Job, launcher: list[str], options: dict[str, Any]) -> list[str]:
    """A command that trains where neither this process nor a workspace is."""
    (folder / "child.py").write_text(CHILD)
    said = json.dumps(asdict(FinetuneOptions(**{**QUICK, **options})))
    return [sys.executable, *launcher, *map(str, (folder / "child.py", base, job.folder, folder)), said]


def test_a_killed_run_goes_on_where_it_was(base: Path, job: Job, tmp_path: Path) -> None:
    options = {"epochs": 6, "validations": 6}  # 48 steps
    whole = tuned(base, job, tmp_path / "whole", **options)
    folder = tmp_path / "killed"
    folder.mkdir()
    process = subprocess.Popen(
        child(folder, base, job, [], options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 120
    try:
        while not list((folder / "work").glob("checkpoint-[1-9][0-9]/trainer_state.json")):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.005)
        assert process.poll() is None  # it did not come to its end
    finally:
        process.kill()
        process.wait()
    assert not (folder / "out").exists()
    last = max(int(one.name.split("-")[1]) for one in (folder / "work").glob("checkpoint-*"))
    assert last < 48
    half = folder / "work" / f"checkpoint-{last + 8}"  # as if the kill had come while it was written
    half.mkdir(exist_ok=True)
    (half / WEIGHTS).write_bytes(b"half")
    (half / "trainer_state.json").write_text('{"global_step": ')

    steps: list[int] = []

    def heard(what: str, done: int, _total: int | None) -> None:
        if what.startswith("training"):
            steps.append(done)

    chosen = FinetuneOptions(**{**QUICK, **options})
    told = finetune(base, job, folder / "out", chosen, work=folder / "work", progress=heard)
    assert steps == list(range(steps[0], 49))
    assert 8 < steps[0] <= last + 1
    assert losses(told).keys() == losses(whole).keys()
    assert list(losses(told).values()) == pytest.approx(list(losses(whole).values()), rel=1e-3)
    assert validations(told) == pytest.approx(validations(whole), abs=1e-3)
    assert told.after == pytest.approx(whole.after, abs=1e-3)
    assert (told.before, told.best_step) == (whole.before, whole.best_step)
    steps.clear()
    again = finetune(base, job, folder / "out2", chosen, work=folder / "work", progress=heard)  # killed at the very end
    assert not steps
    assert again.after == told.after


def test_two_processes_train_one_model(base: Path, job: Job, tmp_path: Path) -> None:
    if importlib.util.find_spec("torch.distributed.run") is None or not torch.distributed.is_gloo_available():
        pytest.skip("torchrun is not there")
    away = Job(shutil.copytree(job.folder, tmp_path / "away"), job.texts, job.sets, job.validations)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = {"epochs": 1.9, "chunk": 300, "validations": 2}  # fifteen batches: one is left over
    command = child(tmp_path, base, away, launcher, options)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"told-{rank}.json").read_text()) for rank in (0, 1))
    assert [line["step"] for line in first["history"] if "eval_domain" in line][-1] == 7
    assert first["history"][-1]["step"] == second["history"][-1]["step"] == 7
    assert first["after"]["sayings/MRR@10"] > first["before"]["sayings/MRR@10"] + 0.1
    saved = measured(loaded(tmp_path / "out"), open_job(away.folder), 16, 0, "fp32")
    assert saved == pytest.approx(first["after"], abs=1e-6)
