"""`lemmata run` after new passages: whether training further is worth it, replay, guard, and what stays as it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.small_bert import small_bert
from tests.training import QUICK, change, run_all, run_until, workspace, write_times

from lemmata.core.workspace import read_manifest, write_manifest
from lemmata.corpus.split import id_keys, open_split
from lemmata.corpus.trained import read_trained
from lemmata.evaluate.report import as_json
from lemmata.evaluate.tasks import Task
from lemmata.project import Project
from lemmata.train.bases import weights_sha256
from lemmata.train.prepare import new_queries
from lemmata.train.update import TrainingState, gain_lost, read_state, tasks_to_compare, write_state

RECIPE = """
[split]
method = "stratified"
validation = 0.2
test = 0.2

[finetune.tuned]{quick}guard_tolerance = 0.1

[evaluate]
measures = "MRR@10"

[run]
sources = ["../notes.jsonl"]
base = "hashing"
"""


def notes(documents: range, words: range) -> str:
    """Remarks in some of the words, each of which refers to the same said with the other kind of words."""
    lines = []
    for document in documents:
        generator = np.random.default_rng(document)
        for number in range(6):
            three = generator.choice(words, 3).tolist()
            home = {"document": f"d{document}", "kind": "remark"}
            texts = [" ".join(f"{kind}{word}" for word in three) for kind in "ab"]
            ids = [f"{kind}{document}-{number}" for kind in "ab"]
            lines.append(json.dumps({"_id": ids[0], "text": texts[0], "links": [ids[1]], **home}))
            lines.append(json.dumps({"_id": ids[1], "text": texts[1], **home}))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose model knows half of the words; tests work on copies."""
    folder = tmp_path_factory.mktemp("update")
    base = small_bert(folder / "tiny")
    (folder / "notes.jsonl").write_text(notes(range(24), range(20)), encoding="utf-8")
    (folder / "notes").mkdir()
    config = RECIPE.format(quick=QUICK.format(base=base))
    (folder / "notes" / "lemmata.toml").write_text(config, encoding="utf-8")
    run_all(folder / "notes")
    return folder / "notes"


def more(workspace: Path, target: Path, documents: range, words: range) -> Path:
    """A copy of the workspace, to which documents were added."""
    copy = shutil.copytree(workspace.parent, target / "copy") / "notes"
    with (copy.parent / "notes.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(notes(documents, words))
    return copy


@pytest.fixture(scope="module")
def updated(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """After documents in words that the model does not know, and a second run."""
    folder = more(trained, tmp_path_factory.mktemp("updated"), range(24, 44), range(20, 40))
    run_all(folder)
    return folder


def weights(folder: Path) -> str:
    return weights_sha256(folder / "models" / "tuned")


def test_a_model_is_trained_further_where_its_gain_does_not_reach_new_passages(trained: Path, updated: Path) -> None:
    assert weights(updated) != weights(trained)
    ([report], stages) = run_all(updated)
    assert [name for name, done in stages.items() if not done] == ["ingest"]
    table = as_json(report)["retrievers"]
    before, after = (table[name]["groups"] for name in ("tuned before", "tuned"))
    for group, floor in (("new passages", 0.3), ("known passages", -0.15)):
        gained = after[group]["measures"]["MRR@10"] - before[group]["measures"]["MRR@10"]
        assert gained > floor, (group, gained)
    [verdict] = [note for note in report.notes if "training further is worth it" in note]
    assert "it was trained further on" in verdict
    manifest = read_manifest(updated / "models" / "tuned" / "manifest.json") or {}
    assert (manifest["verb"], manifest["base_sha256"]) == ("update", weights(trained))
    assert manifest["report"]["new"] > 0
    assert abs(manifest["report"]["replayed"] - manifest["report"]["new"]) < 0.4 * manifest["report"]["new"]
    guards = [name for name in manifest["report"]["after"] if "known passages" in name]
    assert guards
    assert all(manifest["report"]["after"][name] >= 0.9 * manifest["report"]["before"][name] for name in guards)


def test_a_second_run_after_an_update_does_nothing_and_says_the_same(updated: Path) -> None:
    run_all(updated)
    report, before = json.loads((updated / "run" / "report.json").read_text()), write_times(updated)
    (reports, stages) = run_all(updated)
    assert stages["finetune tuned"]
    assert [as_json(each) for each in reports] == report
    assert write_times(updated) == before


def test_the_split_is_kept_and_the_test_part_never_trained_on(trained: Path, updated: Path) -> None:
    parts = []
    for folder in (trained, updated):
        project = Project(folder)
        corpus = project.corpus
        split = open_split(project, corpus.digest)
        parts.append(dict(zip(corpus.ids(), split.part.tolist(), strict=True)))
        held_out = id_keys([name for name, part in parts[-1].items() if part != 0])
        seen = np.concatenate([record.passages for record in read_trained(folder / "models" / "tuned")])
        corpus.close()
        assert len(seen)
        assert not np.isin(held_out, seen).any()
    assert parts[0].items() <= parts[1].items()
    assert {part for name, part in parts[1].items() if name not in parts[0]} == {0, 1, 2}


def test_a_model_stays_where_it_serves_new_passages_as_well(trained: Path, tmp_path: Path) -> None:
    folder = more(trained, tmp_path, range(50, 62), range(20))
    ([report], stages) = run_all(folder)
    assert weights(folder) == weights(trained)
    assert "update tuned" not in stages
    assert "not worth it yet" in " ".join(report.notes)
    assert "tuned before" not in report.retrievers
    assert {"new passages", "known passages"} <= report.groups.keys()
    (again, stages) = run_all(folder)
    assert [name for name, done in stages.items() if not done] == ["ingest"]
    assert as_json(again[0]) == as_json(report)
    change(folder, 'base = "hashing"', 'update = "always"\nbase = "hashing"')
    _, stages = run_all(folder)
    assert not stages["update tuned"]


def test_a_few_new_passages_say_nothing_and_anew_begins_at_the_base(trained: Path, tmp_path: Path) -> None:
    folder = more(trained, tmp_path, range(70, 71), range(20, 40))
    ([report], _) = run_all(folder)
    assert "too few to say" in " ".join(report.notes)
    assert weights(folder) == weights(trained)
    change(folder, 'base = "hashing"', 'update = "anew"\nbase = "hashing"')
    _, stages = run_all(folder)
    assert not stages["finetune tuned"]
    assert (read_manifest(folder / "models" / "tuned" / "manifest.json") or {})["verb"] == "finetune"
    _, stages = run_all(folder)
    assert [name for name, done in stages.items() if not done] == ["ingest"]


def test_a_run_killed_before_or_after_the_model_was_replaced_resumes(
    trained: Path, updated: Path, tmp_path: Path
) -> None:
    folder = more(trained, tmp_path, range(24, 44), range(20, 40))
    assert not run_until(folder, "update tuned")["compare tuned"]
    stages = run_until(folder, "index tuned")
    assert (stages["compare tuned"], stages["update tuned"]) == (True, False)
    shutil.copyfile(trained / "run" / "known.npz", folder / "run" / "known.npz")  # killed before it was written
    record = read_manifest(folder / "run" / "stages.json") or {}
    del record["stages"]["update tuned"]
    write_manifest(folder / "run" / "stages.json", record)
    model = write_times(folder / "models")
    ([report], stages) = run_all(folder)
    assert not stages["update tuned"]
    assert write_times(folder / "models") == model
    assert as_json(report) == json.loads((updated / "run" / "report.json").read_text())[0]


# ---------------------------------------------------------------- the parts


def test_the_gain_lost_is_the_difference_of_two_paired_differences() -> None:
    new = {"model": np.array([0.5, 0.5] * 10), "base": np.array([0.5, 0.5] * 10)}
    known = {"model": np.array([1.0, 0.8] * 10), "base": np.array([0.5, 0.5] * 10)}
    verdict = gain_lost("MRR@10", new, known)
    assert (verdict.new, verdict.known) == (20, 20)
    assert verdict.lost == pytest.approx(0.4)
    assert 0.3 < verdict.low <= 0.4 <= verdict.high < 0.5
    assert verdict.is_clear
    assert not gain_lost("MRR@10", known, new).is_clear
    few = {role: values[:9] for role, values in new.items()}
    assert not gain_lost("MRR@10", few, known).is_clear
    assert "9 queries about new passages" in gain_lost("MRR@10", few, known).sentence("tuned", "base")
    nothing = {"model": np.zeros(0), "base": np.zeros(0)}
    assert gain_lost("MRR@10", nothing, known).lost == 0.0


def test_a_gain_that_chance_may_have_lost_is_not_clear() -> None:
    zeros = np.zeros(100)
    known = {"model": np.array([1.18, -0.82] * 50), "base": zeros}  # 1.8 standard errors above 0
    verdict = gain_lost("MRR@10", {"model": zeros, "base": zeros}, known)
    assert verdict.lost == pytest.approx(0.18)
    assert verdict.low < 0
    assert not verdict.is_clear
    one = {"model": np.array([0.0] * 19 + [1.0]), "base": np.zeros(20)}
    assert gain_lost("MRR@10", {"model": zeros, "base": zeros}, one).high > 0  # the last query is drawn, too


def test_no_query_of_the_test_part_and_no_known_one_about_new_passages_decides(tmp_path: Path) -> None:
    project = workspace(tmp_path)
    corpus = project.corpus
    ids, split = list(corpus.ids()), open_split(project, corpus.digest)
    corpus.close()
    parts, new = dict(zip(ids, split.part.tolist(), strict=True)), set(ids[::2])
    fresh, known = tasks_to_compare(project, ["references"], np.unique(id_keys(ids[::2])))
    about_new, about_known = ({query for task in tasks for query in task.queries} for tasks in (fresh, known))
    assert {parts[query] for query in about_new} == {0, 1}
    assert {parts[query] for query in about_known} == {1}
    assert about_new <= new
    assert not about_known & new


def test_a_query_is_new_by_its_own_passage_or_by_all_its_answers() -> None:
    qrels = {"a": {"old": 1}, "b": {"new": 1}, "c": {"new": 1, "old": 1}, "d": {"new": 1, "newer": 1}}
    task = Task("t", dict.fromkeys(qrels, "text"), qrels, itself={"a": "new", "b": "old"})
    assert new_queries(task, id_keys(["new", "newer"])) == ["a", "d"]


def test_the_record_of_a_model_comes_back_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    known = TrainingState("w", "s", "", np.unique(id_keys(["a", "b"])))
    write_state(tmp_path, known)
    again = read_state(tmp_path)
    assert again is not None
    assert again[:3] == known[:3]
    assert again.passages.tolist() == known.passages.tolist()
    (tmp_path / "known.npz").write_bytes(b"PK no")
    assert read_state(tmp_path) is None
