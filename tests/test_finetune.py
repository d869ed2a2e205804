"""Fine-tuning: learning, choice of the best step, the guard, resuming after a kill."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.make import killed_at
from tests.small_bert import one_answer_each, sayings, small_bert, small_job

from lemmata.core.errors import ConfigError, InputError, LemmataError
from lemmata.core.workspace import silent
from lemmata.encode.bert import read_architecture
from lemmata.encode.export import write_encoder
from lemmata.encode.onnx import OnnxEncoder
from lemmata.train.encoders import freeze, load_model
from lemmata.train.finetune import SHARES, FinetuneOptions, FinetuneResult, Objective, finetune, teacher_names
from lemmata.train.job import Job, JobWriter
from lemmata.train.loop import WEIGHTS, last_checkpoint, warm_up_and_decay
from lemmata.train.validate import encode_texts, evaluation_steps, measure_tasks, pool_size, rank_passages, selection

torch = pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers")
safetensors = pytest.importorskip("safetensors.numpy")

QUICK: dict[str, Any] = {"batch": 25, "epochs": 2, "rate": 1e-2}
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


def tuned(base: Path, job: Job, folder: Path, **options: Any) -> FinetuneResult:
    chosen = FinetuneOptions(**{**QUICK, **options})
    teachers = [base for _ in teacher_names(chosen.teacher)]
    return finetune(base, job, folder / "out", chosen, work=folder / "work", teachers=teachers, progress=silent)


@pytest.fixture(scope="module")
def whole(base: Path, job: Job, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FinetuneResult]:
    """The folder of a training that nothing disturbs, and its result."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, tuned(base, job, folder)


def losses(result: FinetuneResult) -> dict[int, float]:
    """By step; no step is recorded twice."""
    records = [record for record in result.history if "loss" in record]
    steps = [record["step"] for record in records]
    assert all(first < second for first, second in pairwise(steps))
    return {record["step"]: record["loss"] for record in records}


def validations(result: FinetuneResult, measure: str = "eval_domain") -> dict[int, float]:
    return {record["step"]: record[measure] for record in result.history if measure in record and record["step"]}


def loaded(folder: Path) -> Any:
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


# ---------------------------------------------------------------- learning


def test_a_model_learns_what_the_pairs_say_and_is_saved_for_anyone(
    job: Job, whole: tuple[Path, FinetuneResult]
) -> None:
    folder, result = whole
    assert result.before["sayings/MRR@10"] < 0.2
    assert result.after["sayings/MRR@10"] > 0.9
    found = losses(result)
    assert found[max(found)] < found[min(found)] / 2
    assert result.records_per_second > 0
    vectors = loaded(folder / "out").encode(["a1 a2 a3", "b1 b2 b3", "b4 b5 b6"], normalize_embeddings=True)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    again = measure_tasks(loaded(folder / "out"), job, 16, 0, "fp32")
    assert again == pytest.approx(result.after, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "gain"),
    [
        ({"loss": "triplet"}, 0.5),
        ({"dimensions": [1, 0.5, 8]}, 0.5),
        ({"teacher": "base"}, 0.3),
        ({"teacher": "base, base"}, 0.1),  # four fifths of the loss say: stay what you are
        ({"loss": "directed"}, 0.5),
        ({"loss": "popular"}, 0.5),
        ({"tokens": 8}, 0.3),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_every_way_of_training_learns(
    base: Path, job: Job, tmp_path: Path, options: dict[str, Any], gain: float
) -> None:
    result = tuned(base, job, tmp_path, **options)
    assert result.after["sayings/MRR@10"] > result.before["sayings/MRR@10"] + gain
    vectors = loaded(tmp_path / "out").encode(["a1", "a2 b3"])
    assert vectors.shape == (2, 32)
    assert np.isfinite(vectors).all()


def test_pooling_is_chosen_and_saved(base: Path, job: Job, tmp_path: Path) -> None:
    result = tuned(base, job, tmp_path, pooling="cls+mean")
    assert result.after["sayings/MRR@10"] > result.before["sayings/MRR@10"] + 0.5
    assert loaded(tmp_path / "out").encode(["a1", "a2 b3"]).shape == (2, 64)
    assert read_architecture(tmp_path / "out").pooling == ("cls", "mean")
    write_encoder(tmp_path / "out", tmp_path / "onnx", "fp32", "both")
    expected = loaded(tmp_path / "out").encode(["a1 a2 b3"], normalize_embeddings=True)
    np.testing.assert_allclose(OnnxEncoder(tmp_path / "onnx").encode(["a1 a2 b3"]), expected, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"loss": "triplet"}, {"teacher": "base, base"}, {"tokens": 4}], ids=str)
def test_the_texts_of_a_kept_set_keep_the_vectors_of_the_base(base: Path, job: Job, options: dict[str, Any]) -> None:
    both = replace(job, sets={"pairs": job.sets["pairs"][:150], "others": job.sets["pairs"][150:, :2]})
    objective = Objective(
        load_model(base, "cpu").eval(),
        both,
        FinetuneOptions(**{**QUICK, "preserved_sets": ["others", "not in this job"], **options}),
        teachers=[base for _ in teacher_names(options.get("teacher", ""))],
        progress=silent,
    )
    step = int(np.flatnonzero(objective.plan.sets == 1)[0])
    assert objective.loss(objective.batches(step)[0]).item() == pytest.approx(0, abs=0.01)  # nothing has moved yet


def test_a_kept_set_keeps_its_vectors_while_another_is_learned(base: Path, job: Job, tmp_path: Path) -> None:
    both = replace(job, sets={"pairs": job.sets["pairs"], "others": job.sets["pairs"][:, :2]})
    texts = [text for pair in sayings(200, 1)[:50] for text in pair]

    def likeness(name: str, **options: Any) -> float:
        tuned(base, both, tmp_path / name, sets={"pairs": 1.0, "others": 1.0}, **options)
        vectors = [loaded(model).encode(texts, normalize_embeddings=True) for model in (base, tmp_path / name / "out")]
        return float((vectors[0] * vectors[1]).sum(axis=1).mean())

    assert likeness("kept", preserved_sets=["others"]) > likeness("trained") + 0.2


def test_a_model_keeps_the_prompts_it_was_trained_with(base: Path, job: Job, tmp_path: Path) -> None:
    tuned(base, job, tmp_path, prompts={"query": "ask "}, epochs=0.5)
    model = loaded(tmp_path / "out")
    assert model.prompts == {"query": "ask ", "document": ""}
    np.testing.assert_allclose(model.encode_query("a1 a2"), model.encode("ask a1 a2"), atol=1e-6)
    np.testing.assert_allclose(model.encode_document("a1 a2"), model.encode("a1 a2"), atol=1e-6)
    assert not np.allclose(model.encode_query("a1 a2"), model.encode("a1 a2"), atol=1e-3)
    with pytest.raises(ConfigError, match=r"'query'.*'passage'.*'document'"):
        tuned(base, job, tmp_path / "other", prompts={"document": "x"})


@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_adapters_are_merged_into_plain_weights(base: Path, job: Job, tmp_path: Path, kind: str) -> None:
    result = tuned(base, job, tmp_path, adapters=kind, rate=2e-2)
    found = losses(result)
    assert found[max(found)] < found[min(found)] - 0.05  # adapters teach a random base little
    before, after = (safetensors.load_file(folder / "model.safetensors") for folder in (base, tmp_path / "out"))
    assert before.keys() == after.keys()
    kinds = ("query.weight", "key.weight", "value.weight", "dense.weight")
    adapted = {name for name in after if name.startswith("encoder.") and name.endswith(kinds)}
    changed = {name for name, values in after.items() if not np.array_equal(values, before[name])}
    assert changed == adapted
    assert result.parameters < sum(values.size for values in before.values()) / 2
    assert measure_tasks(loaded(tmp_path / "out"), job, 16, 0, "fp32") == pytest.approx(result.after, abs=1e-6)


def test_frozen_layers_stay_as_they_are(base: Path, job: Job, tmp_path: Path) -> None:
    result = tuned(base, job, tmp_path, freeze=1, rate=2e-2)
    assert result.after["sayings/MRR@10"] > result.before["sayings/MRR@10"] + 0.05
    before, after = (safetensors.load_file(folder / "model.safetensors") for folder in (base, tmp_path / "out"))
    trained = {name for name, values in after.items() if not np.array_equal(values, before[name])}
    assert trained
    assert all("layer.1." in name for name in trained)
    with pytest.raises(ConfigError, match=r"freeze = 2 .*2 layers"):
        freeze(load_model(base, "cpu"), 2)


def test_impossible_options_are_refused(base: Path, job: Job, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="epochs"):
        tuned(base, job, tmp_path, epochs=0)
    with pytest.raises(ConfigError, match="lemmata mine triplets"):
        tuned(base, small_job(tmp_path / "pairs", base), tmp_path, loss="triplet")
    with pytest.raises(ConfigError, match=r"'triplet'.*teacher"):
        tuned(base, small_job(tmp_path / "taught", base), tmp_path, loss="triplet", teacher="base")
    with pytest.raises(ConfigError, match=r"32.*33"):
        tuned(base, job, tmp_path, dimensions=[33])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty"):
        load_model(tmp_path / "empty", "cpu")


def test_the_learning_rate_rises_and_falls_linearly_and_is_never_0() -> None:
    assert [warm_up_and_decay(step, 10, 2) for step in (0, 1, 2, 6, 9)] == [1 / 3, 2 / 3, 1.0, 0.5, 1 / 8]
    assert warm_up_and_decay(0, 1, 1) > 0


def test_a_single_step_changes_the_weights(base: Path, job: Job, tmp_path: Path) -> None:
    one = replace(job, sets={"pairs": job.sets["pairs"][:8]})
    result = tuned(base, one, tmp_path, epochs=1.0, batch=8)
    assert [record["step"] for record in result.history if "loss" in record] == [1]
    before, after = (loaded(folder).encode(["a1 b2 a3"]) for folder in (base, tmp_path / "out"))
    assert np.abs(after - before).max() > 1e-4


def test_a_training_that_changes_nothing_fails(base: Path, job: Job, tmp_path: Path) -> None:
    alone = replace(job, sets={"pairs": job.sets["pairs"][:1, :2]})  # one pair in a batch has no candidates but itself
    with pytest.raises(LemmataError, match="nothing"):
        tuned(base, alone, tmp_path, epochs=1.0, batch=1)
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------- choosing


def test_validation_costs_about_a_quarter_of_training() -> None:
    assert evaluation_steps(100, 12_000, 1_000, others=1) == [13, 25, 38, 50, 63, 75, 88, 100]  # 8 of 9 are left
    assert evaluation_steps(100, 12_000, 1_000, others=11) == [100]
    assert evaluation_steps(100, 10**9, 1, others=1) == list(range(10, 101, 10))
    assert evaluation_steps(3, 10**9, 1, others=1) == [1, 2, 3]
    assert pool_size(0, 0) == pool_size(1_000, 2) == 1_000
    assert pool_size(80_000, 2) == 15_000


def test_the_best_step_is_kept(base: Path, tmp_path: Path) -> None:
    """Training makes this task worse at every step, so the first evaluation is the best."""
    job = small_job(tmp_path / "job", base, validation=["words"])
    result = tuned(base, job, tmp_path, rate=8e-3, epochs=3)
    values = validations(result)
    first = min(values)
    assert len(values) > 2
    assert result.best_step == first == max(values, key=lambda step: values[step])
    assert values[max(values)] < values[first] - 0.05
    assert result.after["words/MRR@10"] == pytest.approx(values[first], abs=1e-6)
    assert result.after == pytest.approx(measure_tasks(loaded(tmp_path / "out"), job, 16, 0, "fp32"), abs=1e-6)


def test_without_validation_the_last_step_is_kept(base: Path, tmp_path: Path) -> None:
    job = small_job(tmp_path / "job", base, validation=[])
    result = tuned(base, job, tmp_path, epochs=1)
    assert (result.before, result.after, result.sweep, result.share) == ({}, {}, [], 1.0)
    kept = safetensors.load_file(tmp_path / "out" / "model.safetensors")
    last = safetensors.load_file(tmp_path / "work" / f"checkpoint-{STEPS // 2}" / WEIGHTS)
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
    order = rank_passages(torch.from_numpy(vectors), torch.from_numpy(vectors), itself, depth=3)
    scores = vectors @ vectors.T
    for query, own in enumerate(itself.tolist()):
        wanted = [place for place in np.argsort(-scores[query], kind="stable").tolist() if place != own][:3]
        assert order[query].tolist() == wanted
    everything = rank_passages(torch.from_numpy(vectors), torch.from_numpy(vectors), itself)
    assert everything.shape == (5, 5)
    assert everything[0, -1] == -1  # the query itself is never found, not even last
    report = measure_tasks(model, job, 16, 0, "fp32")
    assert report["own/R@2"] == pytest.approx(2 / 5)
    assert report["general/P@1"] == 1.0
    assert {name.split("/")[1] for name in report} == {"R@2", "P@1", "MRR@10", "R@20", "nDCG@10"}
    assert selection(report, job.validations) == (report["own/R@2"], 1.0)
    assert selection({}, []) == (0.0, 0.0)


# ---------------------------------------------------------------- not forgetting


@pytest.mark.parametrize("more", [{}, {"adapters": "lora", "rate": 2e-2, "epochs": 3}])
def test_weights_are_averaged_as_far_as_the_guard_wants(
    base: Path, guarded: Job, tmp_path: Path, more: dict[str, Any]
) -> None:
    result = tuned(base, guarded, tmp_path, **{"rate": 5e-3, "guard_tolerance": 0.03, **more})
    floor = result.before["words/MRR@10"] * 0.97
    assert [point["share"] for point in result.sweep] == list(SHARES)
    assert result.sweep[-1]["general"] < floor  # all of it would forget too much
    allowed = {point["share"]: point["domain"] for point in result.sweep if point["general"] >= floor}
    assert {point["share"] for point in result.sweep if point["allowed"]} == allowed.keys()
    assert result.share == max(allowed, key=lambda share: allowed[share]) < 1
    assert result.after["words/MRR@10"] >= floor
    assert result.after["sayings/MRR@10"] > result.before["sayings/MRR@10"]
    saved = measure_tasks(loaded(tmp_path / "out"), guarded, 16, 0, "fp32")
    assert saved == pytest.approx(result.after, abs=1e-6)


def test_a_guard_that_no_average_satisfies_is_an_error(base: Path, guarded: Job, tmp_path: Path) -> None:
    with pytest.raises(LemmataError, match=r"guard_tolerance = -9 .*0\.\d+"):
        tuned(base, guarded, tmp_path, guard_tolerance=-9.0, epochs=0.5)
    assert not (tmp_path / "out").exists()


def test_a_guard_alone_allows_as_much_as_it_can(base: Path, tmp_path: Path) -> None:
    """It cannot say which step is best, so the last one is kept."""
    job = small_job(tmp_path / "job", base, validation=[], guard=["words"])
    result = tuned(base, job, tmp_path, guard_tolerance=0.9, epochs=1)
    assert (result.share, result.best_step) == (1.0, 0)
    assert result.after["words/MRR@10"] == pytest.approx(validations(result, "eval_general")[STEPS // 2], abs=1e-6)


# ---------------------------------------------------------------- killed


def test_a_killed_run_resumes_from_the_last_checkpoint(
    base: Path, job: Job, whole: tuple[Path, FinetuneResult], tmp_path: Path
) -> None:
    expected, folder = whole[1], tmp_path / "killed"
    train = partial(finetune, base, job, folder / "out", FinetuneOptions(**QUICK), work=folder / "work")
    killed_at("training", 11, lambda progress: train(progress=progress))
    assert not (folder / "out").exists()
    last = max(int(checkpoint.name.split("-")[1]) for checkpoint in (folder / "work").glob("checkpoint-*"))
    assert 5 <= last < 11
    half = folder / "work" / f".checkpoint-{last + 5}.123"  # as if the kill had come while it was written
    half.mkdir()
    (half / WEIGHTS).write_bytes(b"half")

    steps: list[int] = []

    def listen(what: str, done: int, _total: int | None) -> None:
        if what.startswith("training"):
            steps.append(done)

    result = train(progress=listen)
    assert steps == list(range(last + 1, STEPS + 1))
    assert losses(result) == losses(expected)
    assert validations(result) == validations(expected)
    assert (result.before, result.after, result.best_step) == (expected.before, expected.after, expected.best_step)
    steps.clear()
    shutil.rmtree(folder / "out")  # killed at the very end
    again = train(progress=listen)
    assert not steps
    assert again.after == result.after


def test_the_newest_complete_checkpoint_is_the_last(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    for name in ("checkpoint-5", "checkpoint-10", ".checkpoint-15.77"):
        (tmp_path / name).mkdir()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
