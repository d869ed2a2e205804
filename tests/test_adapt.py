"""`lemmata adapt`: what marks teach, what is adopted, how it is undone, and its schedule."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from tests.make import NAMES, copied, lemmata, wait_until, write, write_papers

from lemmata.adapt import Candidate, _marked, adapt, choose, divide, undo_adapt
from lemmata.core.errors import LemmataError, WorkspaceError
from lemmata.core.workspace import Workspace, default_encoder, read_manifest, vectors_of, write_manifest
from lemmata.evaluate.judgments import JudgmentLog, judgments
from lemmata.project import Project
from lemmata.search.fusion import Fusion
from lemmata.search.retriever import Retriever
from lemmata.server.nightly import adapt_command, adapting_nightly, seconds_until_night


def candidate(name: str, marks: list[float], own: list[float] | None = None) -> Candidate:
    values = {"marks": np.array(marks)} | ({"self-made": np.array(own)} if own else {})
    return Candidate(name, name, Fusion(), values)


def test_only_what_is_clearly_better_is_chosen() -> None:
    today = candidate("today", [0.0, 0.5] * 10, [0.5] * 20)
    better = candidate("better", [0.5, 1.0] * 10, [0.5] * 20)
    best = candidate("best", [1.0] * 20, [0.5] * 20)
    forgets = candidate("forgets", [1.0] * 20, [0.1] * 20)
    by_chance = candidate("by chance", [1.0, 0.0, *[0.0, 0.5] * 9], [0.5] * 20)
    assert choose(today, [better, best, forgets]) == best
    assert choose(today, [forgets]) is None
    few = today._replace(values={**today.values, "self-made": today.values["self-made"][:4]})
    loses = best._replace(values={**best.values, "self-made": today.values["self-made"][:4] - 0.01})
    assert choose(few, [loses]) is None  # few guards, but none that may be lost
    assert choose(today, [by_chance]) is None
    perhaps = candidate("perhaps", [0.4, 0.9] * 5 + [-0.2, 0.3] * 5, [0.5] * 20)  # one and a half standard errors
    assert choose(today, [perhaps]) is None
    assert choose(today, []) is None


def test_self_made_queries_alone_decide_nothing() -> None:
    today = candidate("today", [0.0] * 5, [0.1, 0.2] * 10)
    assert choose(today, [candidate("by own", [1.0] * 5, [0.8, 0.9] * 10)]) is None
    own = [
        each._replace(values={"self-made": each.values["self-made"]}) for each in (today, candidate("", [], [0.9] * 20))
    ]
    assert choose(own[0], own[1:]) is None


@copied
def project(folder: Path) -> Project:
    project = Project.init(write(folder / "w", {"lemmata.toml": '[static.other]\nbase = "lemmata-nano"\n'}))
    project.ingest([write_papers(folder / "papers", *NAMES)], workers=1)
    project.index(settings={"encoder": "hashing"})
    return project


def mark(workspace: Workspace, number: int) -> None:
    with Retriever(workspace) as retriever, JudgmentLog(workspace) as log:
        passages = list(retriever.corpus)
        for count in range(number):
            passage = passages[count % len(passages)]
            log.mark(f"{passage.document} number {count}", passage.id, "answer")
        log.searched("the girth of a tree", [])


def test_a_marked_query_keeps_its_side_when_more_are_marked(project: Project) -> None:
    project.split()
    mark(project, 20)
    few, _ = divide(project)
    mark(project, 60)
    many, tasks = divide(project)
    for name, side in few._asdict().items():
        assert set(side.queries) <= set(getattr(many, name).queries)
    assert many.learned is not None
    assert many.deciding is not None
    assert not set(many.learned.queries) & set(many.deciding.queries)
    assert list(tasks) == ["marks", "self-made"]


def test_a_single_document_is_divided_too_and_so_is_what_was_added_since(tmp_path: Path) -> None:
    texts = [" ".join(f"{name}{number}" for name in NAMES) for number in range(40)]
    statements = "\n".join(f"\\begin{{lemma}}{text}.\\end{{lemma}}" for text in texts)
    head = "\\documentclass{article}\\newtheorem{lemma}{Lemma}"
    book = f"{head}\\begin{{document}}\n{statements}\n\\end{{document}}"
    project = Project.init(tmp_path / "w")
    sources = write(tmp_path / "papers", {"book.tex": book})
    for _ in range(2):
        project.ingest([sources], workers=1)
        project.index(settings={"encoder": "hashing"})
        mark(project, 20)
        marks, tasks = divide(project)
        assert marks.deciding is not None
        assert "marks" in tasks
        write_papers(sources, *NAMES[:2])


def test_without_vectors_there_is_nothing_to_adapt(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError):
        adapt(Project.init(tmp_path / "w"))


@pytest.mark.slow
def test_what_is_better_is_adopted_and_undone_and_nothing_private_stays(project: Project) -> None:
    mark(project, 40)
    weights = vectors_of(project, "hashing").fusion
    report = adapt(project)
    assert [row["name"] for row in report["rows"]] == ["today", "auto, fitted", "static, trained here"]
    assert set(report["queries"]) == {"marks", "self-made"}
    assert not [path.name for path in project.training_folder.iterdir() if path.name in ("adapt-marks", "adapt-asked")]
    assert adapt(project)["done_before"]
    if report["adopted"]:
        assert default_encoder(project) != "hashing" or weights.exists()
        assert undo_adapt(project)["encoder"] == "hashing"
    assert (default_encoder(project), weights.exists()) == ("hashing", False)
    assert adapt(project)["done_before"]  # the same marks do not bring it back
    with pytest.raises(LemmataError):
        undo_adapt(project)
    assert [path.name for path in project.models_folder.glob("adapted-*")] == []
    assert "MRR@10" in lemmata("adapt", "-w", project.root)


def test_undoing_brings_back_encoder_and_weights(project: Project) -> None:
    project.index(settings={"encoder": "lemmata-nano"})
    before = {"verb": "tune", "fusion": {"weight": 0.3}}
    undo = {"encoder": "hashing", "fusion": before}
    write_manifest(project.adapted, {"key": "k", "encoder": "lemmata-nano", "undo": undo, "runs": []})
    left = ("adapted-static-1", ".adapted-static-2.old")  # by kills
    for name in (*left, "adapted-notes"):
        write_manifest(project.models_folder / name / "manifest.json", {})
    with patch("lemmata.adapt.retire", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        undo_adapt(project)  # killed while it removes what was adopted
    undo_adapt(project)
    assert [path.name for path in project.models_folder.iterdir()] == ["adapted-notes"]
    assert default_encoder(project) == "hashing"
    with Retriever(project) as retriever:
        assert retriever.dense().fusion.weight == 0.3
    state = read_manifest(project.adapted) or {}
    assert state["undo"] is None
    mark(project, 1)
    assert state["undone"]
    project_marks = _marked(judgments(project))
    assert project_marks != state["undone"]
    with JudgmentLog(project) as log:
        log.searched("another query without a mark", [])
    assert _marked(judgments(project)) == project_marks  # only marks lift what was undone


def test_an_adoption_that_was_killed_is_ended_by_the_next_call(project: Project) -> None:
    state = {"key": "k", "encoder": "lemmata-nano", "undo": {"encoder": "hashing", "fusion": None}, "undone": None}
    fitted = {"verb": "tune", "fusion": {"weight": 0.3}}
    write_manifest(project.adapted, {**state, "runs": [{"adopted": "static"}, {"adopted": ""}], "fitted": fitted})
    assert adapt(project) == {"adopted": ""}
    assert default_encoder(project) == "lemmata-nano"
    with Retriever(project) as retriever:
        assert retriever.dense().fusion.weight == 0.3
    assert "fitted" not in (read_manifest(project.adapted) or {})
    assert undo_adapt(project)["encoder"] == default_encoder(project) == "hashing"
    first, second = (read_manifest(project.adapted) or {})["runs"]
    assert first["undone"] > 0
    assert "undone" not in second


# ---------------------------------------------------------------- every night


def test_the_night_begins_at_three() -> None:
    assert seconds_until_night(datetime(2026, 1, 1, 2, 59)) == 60
    assert seconds_until_night(datetime(2026, 1, 1, 3, 0)) == 24 * 3600
    assert seconds_until_night(datetime(2026, 1, 1, 22, 0)) == 5 * 3600


def test_the_command_runs_again_and_again_and_ends_with_the_server(tmp_path: Path) -> None:
    file = tmp_path / "runs"
    script = f"import os; open({str(file)!r}, 'a').write(str(os.nice(0)) + ' ')"
    with adapting_nightly([sys.executable, "-c", script], lambda _: 0.01):
        wait_until(lambda: file.exists() and len(file.read_text().split()) >= 2)
    slow = [sys.executable, "-c", f"import time; open({str(tmp_path / 'slow')!r}, 'w'); time.sleep(60)"]
    with adapting_nightly(slow, lambda _: 0.0) as thread:
        wait_until((tmp_path / "slow").exists)
    assert not thread.is_alive()


def test_no_module_of_the_present_folder_is_run(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    done = subprocess.run(adapt_command(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "not a lemmata workspace" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with adapting_nightly([sys.executable, "-c", "raise SystemExit('no index')"], lambda _: 0.01):
        wait_until(lambda: "no index" in caplog.text)


def test_another_schedule_is_refused(tmp_path: Path) -> None:
    assert "hourly" in lemmata("serve", "--adapt", "hourly", "-w", Project.init(tmp_path).root, code=1)
