"""`lemmata run`: from sources to the table, which stages run again, and which settings are refused at the start."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.make import refused, say
from tests.small_bert import sayings, small_bert
from tests.training import (
    QUICK,
    change,
    run_all,
    run_until,
    times,
    values,
    write_recipe,
    write_times,
)

from lemmata.core.config import build
from lemmata.core.errors import ConfigError, LeakageError, LemmataError, WorkspaceError
from lemmata.core.workspace import read_manifest, write_manifest
from lemmata.encode.load import load_encoder
from lemmata.evaluate.evaluate import EvaluateOptions
from lemmata.evaluate.report import Report, as_json
from lemmata.project import Project
from lemmata.run import RunOptions, run, stage_table
from lemmata.vectors.store import open_vectors

STAGES = [
    "ingest",
    "corpus",
    "graph",
    "split",
    "index hashing",
    "mine pairs",
    "import asked",
    "negatives pairs",
    "audit",
    "finetune tuned",
    "index tuned",
    "compare auto of tuned",
]
TRAINED = STAGES[STAGES.index("finetune tuned") :]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bert(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="module")
def first(base: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Report]]:
    """A complete run; tests work on copies of its folder."""
    folder = write_recipe(tmp_path_factory.mktemp("run"), base)
    reports, stages = run_all(folder)
    assert list(stages) == STAGES
    assert not any(stages.values())
    return folder, reports


@pytest.fixture
def ran(first: tuple[Path, list[Report]], tmp_path: Path) -> Path:
    return shutil.copytree(first[0].parent, tmp_path / "copy") / "notes"


def measured(folder: Path, part: str = "test") -> list[float]:
    """MRR@10 of the vectors of the workspace, computed without the run."""
    project = Project(folder)
    task = project.task("references", part=part)
    report = project.evaluate(task, retrievers=["dense"], options=EvaluateOptions(measures="MRR@10"))
    return [float(value) for value in report.retrievers["dense"]["MRR@10"]]


# ---------------------------------------------------------------- the table


def test_a_run_ends_with_a_table_before_and_after_training(first: tuple[Path, list[Report]]) -> None:
    folder, (references, riddles) = first
    assert list(references.retrievers) == ["BM25", "hashing", "hashing + BM25", "tuned", "tuned + BM25"]
    assert list(riddles.retrievers) == list(references.retrievers)
    content = as_json(references)
    means = {name: row["measures"]["MRR@10"] for name, row in content["retrievers"].items()}
    assert means["tuned"] > 0.7 > 0.2 > max(means["BM25"], means["hashing"])
    for row in content["retrievers"].values():
        low, high = row["ci"]["MRR@10"]
        assert low <= row["measures"]["MRR@10"] <= high
        assert {group: part["queries"] > 0 for group, part in row["groups"].items()} == {"seen": True, "unseen": True}
    pairs = {(comparison.first, comparison.second) for comparison in references.comparisons}
    assert pairs == {(other, "hashing") for other in ("BM25", "hashing + BM25", "tuned", "tuned + BM25")}
    assert {comparison.measure for comparison in references.comparisons} == {*references.retrievers["BM25"]}
    did = stage_table(Project(folder))
    assert "passages in 30 documents" in did["corpus"]
    assert did["audit"].startswith("no leakage found")
    assert did["finetune tuned"].startswith("references/MRR@10 0.")
    # a file of queries, too, tells which of their papers the tuned model was trained on: here all
    assert (
        {group: int(mask.sum()) for group, mask in riddles.groups.items()}
        == {"seen": len(riddles.queries)}
        == {"seen": 8}
    )
    assert json.loads((folder / "run" / "report.json").read_text()) == [as_json(references), as_json(riddles)]
    assert "tuned + BM25" in (folder / "run" / "report-1.html").read_text()
    assert sorted(Project(folder).training_sets()) == ["asked", "pairs", "pairs-hard"]
    assert values(references, "tuned") == measured(folder)


def test_a_second_run_only_prints_the_table(first: tuple[Path, list[Report]]) -> None:
    folder, reports = first
    before = write_times(folder)
    again, stages = run_all(folder)
    assert [name for name, done in stages.items() if not done] == ["ingest"]  # it always looks for new sources
    assert [as_json(report) for report in again] == [as_json(report) for report in reports]
    code, out, _ = say("run", "-w", folder)
    assert code == 0
    assert "finetune tuned: up to date" in out
    assert "tuned + BM25" in out
    assert "unseen" in out
    code, out, _ = say("run", "-w", folder, "--json")
    assert (code, json.loads(out)) == (0, [as_json(report) for report in reports])
    assert write_times(folder) == before


# ---------------------------------------------------------------- stages that run again


def test_a_stage_runs_again_where_what_it_made_is_damaged(ran: Path) -> None:
    file = Project(ran).training_file("pairs")
    content = file.read_bytes()
    file.write_bytes(content[:-10])
    stages = run_until(ran, "finetune tuned")
    assert [name for name, done in stages.items() if not done] == ["ingest", "mine pairs"]
    assert file.read_bytes() == content


def test_a_changed_fine_tuning_runs_again_and_nothing_before_it(ran: Path) -> None:
    (before, _), _ = run_all(ran)
    parts = ("corpus", "split", "training", "graph")
    unchanged = {name: when for name, when in write_times(ran).items() if name.startswith(parts)}
    change(ran, "epochs = 4", "epochs = 1")
    (after, _), stages = run_all(ran)
    assert [name for name, done in stages.items() if not done] == ["ingest", *TRAINED]
    assert unchanged.items() <= write_times(ran).items()
    for name in ("BM25", "hashing", "hashing + BM25"):
        assert values(after, name) == values(before, name)
    assert values(after, "tuned") != values(before, "tuned")
    project = Project(ran)
    corpus = project.corpus
    fresh = load_encoder("tuned", models=project.models_folder).encode(list(corpus.contents()))
    corpus.close()
    np.testing.assert_allclose(open_vectors(project).matrix, fresh, atol=1e-6)
    assert values(after, "tuned") == measured(ran)


def test_validation_queries_from_a_file_fit_auto(ran: Path) -> None:
    lines = [f"{sayings(5, 100 + n)[1][0]}\tb{n}-1" for n in range(8, 20)]
    (ran.parent / "asked.tsv").write_text("query\tid\n" + "\n".join(lines), encoding="utf-8")
    change(ran, 'validation = { references = "MRR@10" }', 'validation = { "../asked.tsv" = "MRR@10" }')
    change(ran, "epochs = 4", "epochs = 1")
    reports, stages = run_all(ran)
    assert list(stages)[-1] == "tune tuned"
    assert all(list(report.retrievers)[-1] == "tuned, auto" for report in reports)
    (tuned,) = [vectors for vectors in Project(ran).info()["vectors"] if vectors["encoder"] == "tuned"]
    assert {name: tuned["fusion"]["fitted"][name] for name in ("task", "queries")} == {"task": "asked", "queries": 12}
    assert f"auto = {tuned['fusion']['formula']}, fitted to 12 queries" == stage_table(Project(ran))["tune tuned"]
    again, stages = run_all(ran)
    assert [name for name, done in stages.items() if not done] == ["ingest"]
    assert [as_json(report) for report in again] == [as_json(report) for report in reports]


def test_new_text_and_changed_mining_run_the_later_stages_again(ran: Path) -> None:
    reports, _ = run_all(ran)
    change(ran, "number = 1", "number = 2")
    stages = run_until(ran, "finetune tuned")
    redone = ["ingest", "mine pairs", "import asked", "negatives pairs", "audit", "finetune tuned"]
    assert [name for name, done in stages.items() if not done] == redone
    more = [{"_id": f"more{n}", "text": reports[0].texts[query]} for n, query in enumerate(reports[0].queries)]
    with (ran.parent / "notes.jsonl").open("a", encoding="utf-8") as stream:
        stream.write("\n" + "\n".join(map(json.dumps, more)))  # a passage repeats each test query
    change(ran, 'tasks = ["references", "../riddles"]', 'tasks = ["../riddles"]')
    (riddles,), stages = run_all(ran)
    assert not any(stages.values())
    assert Project(ran).info()["passages_in_all"] > 300
    assert riddles.task == "riddles (../riddles)"


def test_a_removed_model_is_trained_again(ran: Path) -> None:
    before = times(ran)
    shutil.rmtree(ran / "models" / "tuned")
    (references, _), stages = run_all(ran)
    assert not stages["finetune tuned"]
    assert all(stages[name] for name in STAGES[1 : STAGES.index("finetune tuned")])
    assert values(references, "tuned") == measured(ran)
    assert times(ran).keys() == before.keys()


def test_a_run_stopped_after_the_fine_tuning_resumes(ran: Path) -> None:
    file = ran / "run" / "stages.json"
    stages = read_manifest(file) or {}
    for name in TRAINED:  # killed after the model was written, before its stage was recorded
        stages["stages"].pop(name, None)
    write_manifest(file, stages)
    (ran / "run" / "known.npz").unlink()
    Project(ran).remove_encoder("tuned")
    model = times(ran / "models")
    reports, done = run_all(ran)
    assert [name for name, was_done in done.items() if not was_done] == ["ingest", *TRAINED]
    assert times(ran / "models") == model
    assert values(reports[0], "tuned") == measured(ran)


def test_a_pretrained_model_can_be_the_base_of_the_run(base: Path, tmp_path: Path) -> None:
    quick = QUICK.format(base=base).replace("epochs = 4", "epochs = 0.5")
    table = f'base = "{base}"\nrate = 1e-9\nbatch = 16\njudge = "judge"\n'
    second = quick.replace(f'base = "{base}"', 'base = "adapted"')
    more = f"[pretrain.adapted]\n{table}\n[finetune.judge]{quick}\n[finetune.tuned]{second}\n"
    text = f'[split]\nmethod = "stratified"\n\n{more}\n[run]\nsources = ["../notes.jsonl"]\nmine = ["pairs"]\n'
    text += 'pretrain = ["adapted"]\nbase = "hashing"\n'
    folder = write_recipe(tmp_path, base, text.replace("{", "{{").replace("}", "}}"))
    run_all(folder)
    assert sorted(Project(folder).models()) == ["adapted", "tuned"]
    _, stages = run_all(folder)
    assert [name for name, done in stages.items() if not done] == ["ingest"]
    change(folder, f"[finetune.judge]{quick}", f"[finetune.judge]{quick.replace('epochs = 0.5', 'epochs = 1')}")
    stages = run_until(folder, "pretrain adapted")
    assert not stages["pretrain adapted"]  # its judge has changed
    assert stages["mine pairs"]


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"references"', '"refrences"', "'refrences' is neither one of references, documents, concepts, descriptions"),
        ('"../riddles"', '"../puzzles"', r"'\.\./puzzles' is neither one of .* nor a folder"),
        ('tasks = ["references", "../riddles"]', "tasks = []", "names no tasks"),
        ("negatives = [", 'finetune = ["tunned"]\nnegatives = [', r"finetune = 'tunned'; did you mean 'tuned'\?"),
        ("negatives = [", "finetune = []\nnegatives = [", "finetune.*static"),
        ("[run]", '[pretrain.other]\n[run]\npretrain = ["adapted"]', "'adapted'.*other"),
        ("[run]", '[pretrain.adapted]\njudge = "me"\n[run]\npretrain = ["adapted"]', r"\[finetune\.me\]"),
        ('negatives = ["pairs"]', 'negatives = ["pears"]', "'pears'.*'pairs'"),
        ('mine = ["pairs"]', 'mine = ["pair"]', r"mine\[0\] = 'pair'.*'pairs'"),
        ('mine = ["pairs"]', 'mines = ["pairs"]', "'mines'.*'mine'"),
        ("../notes.jsonl", "../nodes.jsonl", r"nodes\.jsonl"),
        ("../asked.jsonl", "../told.jsonl", r"told\.jsonl"),
        ("MRR@10,R@20", "MRR@10,X@20", "'X@20'"),
        ('base = "hashing"', 'base = "dream"', "'dream'"),
        ('base = "hashing"', 'base = "tuned"', "base = 'tuned'"),
        ('base = "hashing"', "base = 7", "base = 7"),
    ],
)
def test_bad_settings_are_refused_before_any_stage(
    base: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    folder = write_recipe(tmp_path, base)
    change(folder, old, new)
    with pytest.raises(LemmataError, match=message):
        run(Project(folder))
    assert [path.name for path in folder.iterdir()] == ["lemmata.toml"]
    refused(say("run", "-w", folder))


def test_an_unknown_base_model_is_refused_before_any_stage(base: Path, tmp_path: Path) -> None:
    folder = write_recipe(tmp_path, base)
    change(folder, f'base = "{base}"', 'base = "adapted"')
    with pytest.raises(ConfigError, match="'adapted'"):
        run(Project(folder))
    assert [path.name for path in folder.iterdir()] == ["lemmata.toml"]


def test_a_test_query_that_is_trained_on_stops_the_run(ran: Path) -> None:
    model = times(ran / "models")
    asked = [json.loads(line)["query"] for line in (ran.parent / "asked.jsonl").read_text().splitlines()]
    lines = [json.dumps({"_id": f"q{n}", "text": asked[n]}) for n in range(8)]  # some of them are trained on
    (ran.parent / "riddles" / "queries.jsonl").write_text("\n".join(lines), encoding="utf-8")
    change(ran, "epochs = 4", "epochs = 1")
    with pytest.raises(LeakageError, match=r"'asked' .*'test query \d'"):
        run(Project(ran))
    assert times(ran / "models") == model


def test_a_run_without_sources_needs_a_corpus(base: Path, tmp_path: Path) -> None:
    folder = write_recipe(tmp_path, base)
    change(folder, 'sources = ["../notes.jsonl"]\n', "")
    with pytest.raises(WorkspaceError, match="lemmata ingest"):
        run(Project(folder))


def test_an_empty_run_table_has_the_defaults() -> None:
    options: dict[str, Any] = {}
    assert build(RunOptions, options, "[run]") == RunOptions()
    assert RunOptions().finetune == ["tuned"]
