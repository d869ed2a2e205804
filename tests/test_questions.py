"""Questions about the test part: mined for evaluation only, asked as a task, and refused by everything else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.llm_server import Server
from tests.make import lemmata, make_workspace
from tests.small_bert import bare_base

from lemmata.core.errors import ConfigError, LeakageError, LemmataError, WorkspaceError
from lemmata.corpus.leakage import normalise
from lemmata.corpus.split import id_keys, open_split
from lemmata.corpus.trained import Trained, write_trained
from lemmata.corpus.training_files import read_questions, read_training
from lemmata.evaluate.evaluate import EvaluateOptions
from lemmata.evaluate.tasks import task_from
from lemmata.llm.endpoint import Limits
from lemmata.project import Project
from lemmata.train.finetune import FinetuneOptions
from lemmata.train.prepare import prepare

pytest.importorskip("pyarrow")

EXAMPLE = Path(__file__).parents[1] / "examples" / "qseries"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The q-series notes, split by statements, with questions about the test part and a set to train on."""
    split = {"method": "stratified", "test": 0.3, "seed": 1}
    project = make_workspace(tmp_path_factory.mktemp("asked"), EXAMPLE, split=split)
    project.mine("queries", part="test")
    project.mine("queries")
    return project


def parts(project: Project) -> dict[str, str]:
    """The part of each passage."""
    corpus = project.corpus
    split, ids = open_split(project, corpus.digest), corpus.ids()
    corpus.close()
    return {
        ids[row]: part for part in ("train", "validation", "test") for row in split.rows(part).nonzero()[0].tolist()
    }


def test_questions_are_about_statements_of_the_test_part_one_for_each(asked: Project) -> None:
    manifest, questions = asked.training_sets()["questions"], read_questions(asked, "questions")
    assert manifest["evaluation_only"]
    assert manifest["command"] == "lemmata mine queries --name questions --part test"
    about = [passage for passages in questions.values() for passage in passages]
    assert len(about) == len(set(about)) == manifest["report"]["records"] > 10
    assert {parts(asked)[passage] for passage in about} == {"test"}
    corpus = asked.corpus
    assert not {corpus[corpus.row(passage)].kind for passage in about} & {"chunk", "abstract"}
    corpus.close()


def test_a_question_about_the_test_part_is_not_trained_on_with_another_answer(asked: Project) -> None:
    known = {normalise(text) for text in read_questions(asked, "questions")}
    trained = {normalise(record["anchor"]) for record in read_training(asked.training_file("queries"))}
    assert not known & trained
    report = asked.training_sets()["queries"]["report"]
    assert report["by_source"]["left out: asked about the test part as well"] > 0


def test_a_set_that_was_mined_before_the_questions_is_audited_when_it_is_trained_on(
    asked: Project, tmp_path: Path
) -> None:
    project = Project(shutil.copytree(asked.root, tmp_path / "w"))
    shutil.rmtree(project.training("questions"))
    project.mine("queries")
    project.mine("queries", part="test")
    base = bare_base(tmp_path / "base", ["word"])
    with pytest.raises(LeakageError, match="'queries'"):
        prepare(project, base, FinetuneOptions(sets={"queries": 1.0}), tmp_path / "job")
    project.mine("queries")
    prepare(project, base, FinetuneOptions(sets={"queries": 1.0}), tmp_path / "job")


def test_questions_are_a_task_at_the_level_of_statements_and_of_papers(asked: Project) -> None:
    task = asked.task("questions")
    assert (task.part, len(task.queries)) == ("test", len(read_questions(asked, "questions")))
    options = EvaluateOptions(measures="Acc@1,R@30,MRR@10", level="passage,whole-document")
    report = asked.evaluate(task, retrievers=["lexical"], options=options)
    plain, papers = (
        asked.evaluate(task, retrievers=["lexical"], options=EvaluateOptions("Acc@1,R@30,MRR@10", level))
        for level in ("passage", "whole-document")
    )
    values = report.retrievers["lexical"]
    names = ["Success@1", "R@30", "MRR@10"]
    assert list(values) == [*names, *(f"{name} (whole-document)" for name in names)]
    for name in names:
        assert values[name].tolist() == plain.retrievers["lexical"][name].tolist()
        assert values[f"{name} (whole-document)"].tolist() == papers.retrievers["lexical"][name].tolist()
    assert {group: int(mask.sum()) for group, mask in report.groups.items()} == {
        group: len(queries) for group, queries in task.groups.items()
    }
    assert sum(map(len, task.groups.values())) == len(task.queries)
    table = lemmata("evaluate", "--task", "questions", "-w", asked.root, "--retriever", "lexical")
    assert "by rules" in table
    with pytest.raises(ConfigError, match="'chapter'"):
        asked.evaluate(task, retrievers=["lexical"], options=EvaluateOptions(level="passage,chapter"))


@pytest.mark.parametrize(
    "words",
    [
        "mine negatives questions",
        "mine triplets --from queries --of questions",
        "mine mix all",
        "mine export questions out.parquet",
        "audit questions",
        "index --summaries questions",
        "evaluate --task questions --tune",
        "train prepare tuned job",
    ],
)
def test_everything_but_an_evaluation_refuses_them(
    asked: Project, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = shutil.copytree(asked.root, tmp_path / "w")
    monkeypatch.chdir(tmp_path)
    with (project / "lemmata.toml").open("a", encoding="utf-8") as file:
        file.write("[mixtures.all]\nweights = { questions = 1.0 }\n")
        file.write('[finetune.tuned]\nbase = "lemmata-nano"\nsets = { questions = 1.0 }\n')
    error = lemmata(*words.split(), "-w", project, code=1)
    assert "'questions' is for evaluation only" in error or "test part" in error
    assert not (tmp_path / "out.parquet").exists()
    assert not (tmp_path / "job").exists()


def test_they_neither_choose_a_model_nor_are_judged(asked: Project, tmp_path: Path) -> None:
    base = bare_base(tmp_path / "base", ["word"])
    options = FinetuneOptions(sets={"queries": 1.0}, validation={"questions": "MRR@10"})
    with pytest.raises(LeakageError, match=r"'questions'.*test"):
        prepare(asked, base, options, tmp_path / "job")
    with pytest.raises(LemmataError):
        asked.judge(tmp_path / "out", "lemmata-mini", queries=asked.training_file("questions"))
    assert "questions" not in lemmata("audit", "-w", asked.root)
    assert "questions" not in prepare(asked, base, FinetuneOptions(), tmp_path / "job").sets


def test_hard_questions_stay_and_other_splits_ask_again(asked: Project, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--found-within"):
        asked.mine("queries", part="test", found_within=5)
    with pytest.raises(LemmataError, match="'validation'"):
        asked.mine("queries", part="validation")
    project = Project(shutil.copytree(asked.root, tmp_path / "w"))
    project.split(settings={"seed": 3})
    with pytest.raises(LeakageError, match="lemmata mine queries --name questions --part test"):
        project.task("questions")
    shutil.rmtree(project.training("questions"))
    with pytest.raises(WorkspaceError, match="lemmata mine queries --part test"):
        project.task("questions")


def test_a_language_model_is_asked_for_questions_alone(asked: Project, server: Server, tmp_path: Path) -> None:
    project = Project(shutil.copytree(asked.root, tmp_path / "w"))
    server.script(answer=json.dumps({"question": "How many objects of this kind does one count here?"}))
    model = {"url": server.url, "model": "tiny"}
    preview = project.preview_queries(model=model, part="test")
    report = project.write_queries(Limits(calls=preview.calls), model=model, part="test")
    assert report["name"] == "questions"
    assert [name.partition("/")[2] for name in report["by_source"]] == ["question"]
    manifest = project.training_sets()["questions"]
    assert manifest["evaluation_only"]
    assert "slogan" not in manifest["options"]["prompt"]
    assert manifest["command"].endswith("--name questions --part test")
    assert "by tiny" in project.task("questions").notes[0]


def test_seen_are_the_papers_that_the_measured_model_was_trained_on(asked: Project, tmp_path: Path) -> None:
    """For any queries, whatever the split says: here a model that was trained on the passages of one paper."""
    project = Project(shutil.copytree(asked.root, tmp_path / "w"))
    shutil.copytree(Path(__file__).parents[1] / "src" / "lemmata" / "models" / "lemmata-nano", project.model("own"))
    corpus = project.corpus
    ids = [identity for identity in corpus.ids() if identity.startswith("heine#")]
    other = next(identity for identity in corpus.ids() if identity.startswith("glaisher#"))
    corpus.close()
    write_trained(project.model("own"), [Trained("abc", 0, "", id_keys(sorted(ids[1:])), id_keys(()))])
    task = task_from("file", {"q1": "transformation", "q2": "bijection"}, {"q1": {ids[0]: 1}, "q2": {other: 1}})
    report = project.evaluate(task, retrievers=["dense:own"])
    assert {group: mask.tolist() for group, mask in report.groups.items()} == {
        "seen": [True, False],
        "unseen": [False, True],
    }
    assert project.evaluate(task, retrievers=["dense:lemmata-nano"]).groups == {}
