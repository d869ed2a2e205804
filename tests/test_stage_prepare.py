"""From a workspace to a job: its sets and those of another, its tasks, files of queries, BEIR folders."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_bert import bare_base, small_bert
from tokenizers import Tokenizer

from lemmata.core.config import build
from lemmata.core.errors import ConfigError, InputError, LeakageError, LemmataError, WorkspaceError
from lemmata.core.types import Integers
from lemmata.core.workspace import silent
from lemmata.corpus.training_files import read_batches, read_training
from lemmata.project import Project
from lemmata.train.finetune import FinetuneOptions, finetune
from lemmata.train.job import Job, Validation, open_job
from lemmata.train.prepare import pool_rows, prepare, validation_queries

EXAMPLE = Path(__file__).parents[1] / "examples" / "qseries"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The q-series notes, with graph, split and three training sets."""
    project = Project.init(tmp_path_factory.mktemp("workspaces") / "notes")
    project.ingest([EXAMPLE])
    project.build_graph()
    project.split(settings={"seed": 1})
    project.mine("queries", name="questions")
    project.mine("pairs", name="pairs")
    project.mine("triplets", name="cited", kind="citations")
    return project


@pytest.fixture(scope="module")
def other(built: Project) -> Project:
    """Another workspace beside it: thirty remarks, each of which refers to the one before."""
    project = Project.init(built.root.parent / "other")
    remarks = project.root.parent / "remarks.jsonl"
    lines = [
        {
            "_id": f"r{n}",
            "title": f"Remark {n}",
            "text": f"The number {n} has {n * n} as its square.",
            "links": [f"r{n - 1}"],
        }
        for n in range(1, 31)
    ]
    remarks.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    project.ingest([remarks])
    project.split(settings={"seed": 2, "validation": 0.3})
    project.mine("pairs")
    return project


def texts_of(project: Project) -> dict[str, str]:
    """Passages as encoders see them, by id and in order."""
    corpus = project.corpus
    found = dict(zip(corpus.ids(), corpus.contents(), strict=True))
    corpus.close()
    return found


def records(project: Project, name: str) -> list[dict[str, Any]]:
    return list(read_training(project.training_file(name)))


@pytest.fixture(scope="module")
def words(built: Project, other: Project) -> list[str]:
    """All words of both workspaces, so that a job can be read again."""
    found: set[str] = {"zebra", "yak", "striped."}
    for project in (built, other):
        for text in texts_of(project).values():
            found.update(text.split())
        for name in project.training_sets():
            for record in records(project, name):
                found.update(f"{record['anchor']} {record['positive']}".split())
    for name in ("concepts", "descriptions", "documents"):
        for query in built.task(name, part="validation").queries.values():
            found.update(query.split())
    return sorted(found)


@pytest.fixture(scope="module")
def base(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_base(tmp_path_factory.mktemp("base"), words, longest=4000)


def prepared(project: Project, base: Path, folder: Path, **options: Any) -> Job:
    return prepare(project, base, FinetuneOptions(**options), folder / "job")


def said(job: Job, numbers: Integers) -> list[str | None]:
    """Texts with their words, None for -1."""
    tokenizer = Tokenizer.from_file(str(job.folder / "tokenizer.json"))
    words = {number: word for word, number in tokenizer.get_vocab().items()}
    starts = job.texts.starts
    return [
        None
        if n < 0
        else " ".join(words[token] for token in job.texts.flat[starts[n] + 1 : starts[n + 1] - 1].tolist())
        for n in numbers.tolist()
    ]


def plain(texts: Any) -> list[str | None]:
    return [None if text is None else " ".join(text.split()) for text in texts]


# ---------------------------------------------------------------- sets


@pytest.mark.slow
def test_sets_come_from_this_and_other_workspaces_whole_or_restricted(
    built: Project, other: Project, base: Path, tmp_path: Path
) -> None:
    names = {"questions": 1.0, "../other/pairs:refers_to": 2.0, "pairs:structure/section": 0.5, "pairs:concepts": 1.0}
    job = prepared(built, base, tmp_path, sets=names)
    wanted = {
        "questions": records(built, "questions"),
        "../other/pairs:refers_to": [r for r in records(other, "pairs") if r["relation"] == "refers_to"],
        "pairs:structure/section": [r for r in records(built, "pairs") if r["relation"] == "section"],
        "pairs:concepts": [r for r in records(built, "pairs") if r["source"] == "concepts"],
    }
    assert list(job.sets) == list(wanted)
    for name, numbers in job.sets.items():
        assert 0 < len(numbers) == len(wanted[name])
        assert said(job, numbers[:, 0]) == plain(record["anchor"] for record in wanted[name])
        assert said(job, numbers[:, 1]) == plain(record["positive"] for record in wanted[name])
    told = {one["name"]: one for one in job.facts["sets"]}
    for name, project in (("questions", built), ("../other/pairs:refers_to", other)):
        file = project.training_file(name.split("/")[-1].split(":")[0])
        assert told[name]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
        assert told[name]["records"] == len(wanted[name])
    assert told["questions"]["split"] == told["pairs:concepts"]["split"] != told["../other/pairs:refers_to"]["split"]
    assert job.facts["options"]["sets"] == names


def test_without_a_choice_all_sets_are_taken_with_their_negatives(built: Project, base: Path, tmp_path: Path) -> None:
    job = prepared(built, base, tmp_path)
    assert list(job.sets) == ["cited", "pairs", "questions"]
    made = records(built, "cited")
    columns = [name for name in made[0] if name.removeprefix("negative_").isdigit()]
    assert columns
    for place, column in enumerate(("anchor", "positive", *columns)):
        assert said(job, job.sets["cited"][:, place]) == plain(record[column] for record in made)


def test_a_workspace_without_sets_says_so(tmp_path: Path, base: Path) -> None:
    with pytest.raises(WorkspaceError, match="mine"):
        prepared(Project.init(tmp_path / "w"), base, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("pears", WorkspaceError, "'pears'.*cited, pairs, questions"),
        ("../other/questions", WorkspaceError, "other .*'questions'.*pairs"),
        ("../nowhere/pairs", ConfigError, "'../nowhere/pairs'"),
        ("pairs:refers", ConfigError, "'pairs'.*'refers'.*citations/cites, concepts/"),
    ],
)
def test_missing_sets_are_reported(
    built: Project, other: Project, base: Path, tmp_path: Path, name: str, error: type[LemmataError], message: str
) -> None:
    with pytest.raises(error, match=message):
        prepared(built, base, tmp_path, sets={"questions": 1.0, name: 1.0})
    with pytest.raises(WorkspaceError, match="job"):
        open_job(tmp_path / "job")


# ---------------------------------------------------------------- tasks


def assert_asks(job: Job, task: Validation, project: Project, wanted: Any, allowed: set[str] | None = None) -> None:
    """The task is asked of a project's passages, and has its queries, judgments and candidates."""
    texts = texts_of(project)
    ids = [identity for identity in texts if allowed is None or identity in allowed]
    assert said(job, task.passages) == plain(texts[identity] for identity in ids)
    assert said(job, task.queries) == plain(wanted.queries[query] for query in wanted.qrels)
    assert list(task.judged.queries) == list(wanted.qrels)
    for number, grades in enumerate(wanted.qrels.values()):
        inside = slice(task.judged.indptr[number], task.judged.indptr[number + 1])
        found = {
            ids[row]: grade for row, grade in zip(task.judged.rows[inside], task.judged.grades[inside], strict=True)
        }
        assert found == grades
    own = [None if place < 0 else ids[place] for place in task.itself.tolist()]
    assert own == [one if (one := wanted.itself.get(query)) in ids else None for query in wanted.qrels]


def test_a_workspace_poses_its_tasks_by_its_validation_part(
    built: Project, other: Project, base: Path, tmp_path: Path
) -> None:
    asked = {"references": "recall@20", "concepts": "nDCG@10", "../other/references": "MRR@10", "concepts#seed": "R@9"}
    job = prepared(built, base, tmp_path, sets={"questions": 1.0}, validation=asked, guard={"documents": "P@1"})
    assert [task.name for task in job.validations] == [*asked, "documents"]
    assert [task.measure for task in job.validations] == ["R@20", "nDCG@10", "MRR@10", "R@9", "P@1"]
    assert [task.general for task in job.validations] == [False] * 4 + [True]
    for task, project in zip(job.validations, (built, built, other, built, built), strict=True):
        name, _, protocol = task.name.rpartition("/")[2].partition("#")
        wanted = project.task(name, part="validation", protocol=protocol or "passage")
        ids = np.array(list(texts_of(project)), dtype=object)
        assert_asks(job, task, project, wanted, None if wanted.candidates is None else set(ids[wanted.candidates]))


def test_prompts_stand_before_queries_and_passages(built: Project, base: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"sets": {"questions": 1.0}, "validation": {"references": "R@20"}}
    bare = prepared(built, base, tmp_path / "bare", **asked)
    job = prepared(built, base, tmp_path / "prompted", **asked, prompts={"query": "zebra. "})
    for mine, old in (
        (job.sets["questions"][:, 0], bare.sets["questions"][:, 0]),
        (job.validations[0].queries, bare.validations[0].queries),
    ):
        assert said(job, mine) == [f"[UNK] {text}" for text in said(bare, old)]
    for mine, old in (
        (job.sets["questions"][:, 1], bare.sets["questions"][:, 1]),
        (job.validations[0].passages, bare.validations[0].passages),
    ):
        assert said(job, mine) == said(bare, old)


def table(file: Path, *lines: str) -> str:
    file.write_text("\n".join(("query\tpassage", *lines, "")), encoding="utf-8")
    return str(file)


def test_queries_come_from_a_table(built: Project, other: Project, base: Path, tmp_path: Path) -> None:
    corpus = built.corpus
    kinds = {passage.id: passage.kind for passage in corpus}
    corpus.close()
    statements = {identity for identity, kind in kinds.items() if kind not in ("chunk", "abstract")}
    first, second = sorted(statements)[:2]
    prose = min(kinds.keys() - statements)
    asked = {
        table(tmp_path / "narrow.tsv", f"zebra yak\t{first}", "", f"yak\t{second} ", f"zebra\t{first}"): "MRR@10",
        table(tmp_path / "wide.tsv", f"zebra\t{first}", f"yak\t{prose}"): "MRR@10",
        table(tmp_path / "there.tsv", "zebra\tr7") + "#../other": "MRR@10",
    }
    job = prepared(built, base, tmp_path, sets={"questions": 1.0}, validation=asked)
    narrow, wide, there = job.validations
    assert said(job, narrow.queries) == ["zebra yak", "yak", "zebra"]
    texts = texts_of(built)
    assert said(job, narrow.passages) == plain(text for identity, text in texts.items() if identity in statements)
    assert said(job, narrow.passages[narrow.judged.rows]) == plain(texts[one] for one in (first, second, first))
    assert said(job, wide.passages) == plain(texts.values())  # where prose answers, prose may be found
    assert said(job, there.passages) == plain(texts_of(other).values())
    assert said(job, there.passages[there.judged.rows]) == plain([texts_of(other)["r7"]])
    assert (narrow.itself == -1).all()


def beir(folder: Path) -> Path:
    """Two passages; the training judgments have one query, the test judgments another."""
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": "z", "title": "zebra", "text": "striped."}, {"_id": "y", "title": "", "text": "yak yak"}]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    asked = [{"_id": "q1", "text": "yak"}, {"_id": "q2", "text": "zebra yak"}]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)), encoding="utf-8")
    header = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "train.tsv").write_text(f"{header}q1\ty\t2\nq1\tz\t0\n", encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text(f"{header}q2\tz\t1\n", encoding="utf-8")
    return folder


def test_a_folder_in_the_format_of_beir_is_asked_by_the_judgments_that_are_named(
    built: Project, words: list[str], tmp_path: Path
) -> None:
    folder = beir(tmp_path / "zoo")
    base = bare_base(tmp_path / "base", [*words, "zebra."], longest=4000)
    job = prepared(
        built, base, tmp_path, sets={"questions": 1.0}, guard={f"{folder}#train": "P@1", f"{folder}#test": "P@1"}
    )
    train, test = job.validations
    assert said(job, train.passages) == said(job, test.passages) == ["zebra. striped.", "yak yak"]
    assert (said(job, train.queries), said(job, test.queries)) == (["yak"], ["zebra yak"])
    assert (train.judged.rows.tolist(), train.judged.grades.tolist()) == ([1, 0], [2, 0])
    assert test.judged.rows.tolist() == [0]
    assert train.general


def test_a_folder_without_passages_asks_for_those_of_the_workspace(other: Project, base: Path, tmp_path: Path) -> None:
    folder = beir(tmp_path / "zoo")
    (folder / "corpus.jsonl").unlink()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq2\tr7\t1\n", encoding="utf-8")
    job = prepared(other, base, tmp_path, validation={f"{folder}#test": "P@1"})
    (task,) = job.validations
    assert said(job, task.passages) == plain(texts_of(other).values())
    assert said(job, task.passages[task.judged.rows]) == plain([texts_of(other)["r7"]])


def test_only_queries_from_files_about_this_corpus_fit_the_weights_of_auto(other: Project, tmp_path: Path) -> None:
    table, folder, foreign = tmp_path / "asked.tsv", tmp_path / "judged", tmp_path / "foreign.tsv"
    table.write_text("query\tid\nthe square of seven\tr7\n")
    foreign.write_text("query\tid\nthe square of seven\telsewhere\n")
    (folder / "qrels").mkdir(parents=True)
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "which number has 81 as its square"}))
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq\tr9\t1\n")

    def answers(*specs: str) -> list[str]:
        task = validation_queries(other, specs)
        return [] if task is None else [passage for grades in task.qrels.values() for passage in grades]

    assert answers("references", "../notes/concepts", str(foreign), str(folder)) == []
    assert answers("references", str(table), f"{folder}#dev") == ["r7"]
    assert answers(str(foreign), f"{folder}#dev") == ["r9"]


def test_a_pool_holds_the_answers_and_a_random_choice_of_the_others(built: Project) -> None:
    task = built.task("references", part="validation")
    ids = list(texts_of(built))
    whole = pool_rows(task, ids, len(ids), 0)
    answers = {ids.index(passage) for grades in task.qrels.values() for passage in grades}
    pools = [pool_rows(task, ids, 100, seed) for seed in (0, 0, 1)]
    assert [len(rows) for rows in pools] == [100] * 3
    assert pools[0].tolist() == pools[1].tolist() != pools[2].tolist()
    for rows in pools:
        assert rows.tolist() == sorted(set(rows.tolist()))
        assert answers <= set(rows.tolist()) <= set(whole.tolist())
    assert set(pool_rows(task, ids, 1, 0).tolist()) == answers
    assert pool_rows(task, ids, 10_000, 0).tolist() == whole.tolist()


def test_validation_queries_that_are_trained_on_are_refused(built: Project, base: Path, tmp_path: Path) -> None:
    texts = []
    for batch in read_batches(built.training_file("questions"), 100, ["anchor", "anchor_id"]):
        texts += [record["anchor"] for record in batch if record["anchor_id"] is None]
    known = next(iter(texts_of(built)))
    rows = [f"{text.upper()}\t{known}" for text in dict.fromkeys(texts)][:2]
    others = [f"zebra {number}\t{known}" for number in range(100)]
    validation = {table(tmp_path / "asked.tsv", *rows, *others[:2]): "MRR@10"}
    with pytest.raises(LeakageError, match=r"2 of 4 .*asked\.tsv'"):
        prepared(built, base, tmp_path, sets={"questions": 1.0}, validation=validation)
    few = {table(tmp_path / "asked.tsv", *rows, *others): "MRR@10"}  # two of 102 may be chance
    assert prepared(built, base, tmp_path, sets={"questions": 1.0}, validation=few).validations


def test_impossible_tasks_are_refused(built: Project, base: Path, tmp_path: Path) -> None:
    def refused(error: type[LemmataError], message: str, task: str, measure: str = "R@20") -> None:
        with pytest.raises(error, match=message):
            prepared(built, base, tmp_path, sets={"questions": 1.0}, validation={task: measure})

    refused(ConfigError, r"'reference' is neither a task \(references, documents, .*\), nor a file", "reference")
    refused(ConfigError, "names .*nowhere, which is no workspace", "../nowhere/references")
    refused(ConfigError, "no measure 'hits@3'", "references", "hits@3")
    known = next(iter(texts_of(built)))
    line = table(tmp_path / "asked.tsv", f"zebra\t{known}", "yak")
    refused(InputError, r"asked\.tsv:3: a line needs a query and an id, separated by a tab", line)
    refused(
        InputError,
        r"asked\.tsv: 1 judged passage is not in the corpus: 'r7' .*notes",
        table(tmp_path / "asked.tsv", "zebra\tr7"),
    )
    refused(InputError, "no query has a judgment", table(tmp_path / "asked.tsv"))
    elsewhere = table(tmp_path / "asked.tsv", "zebra\tr7") + "#../nowhere"
    refused(ConfigError, "names .*nowhere, which is no workspace", elsewhere)
    folder = beir(tmp_path / "zoo")
    refused(InputError, r"dev\.tsv: there is no such file", f"{folder}#dev")
    refused(ConfigError, "would choose the model by test judgments: write .*zoo#train", str(folder))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq2\tgnu\t1\n", encoding="utf-8")
    refused(InputError, "'gnu'", f"{folder}#test")
    (folder / "corpus.jsonl").write_text("{", encoding="utf-8")
    refused(InputError, r"corpus\.jsonl:1: ", f"{folder}#test")
    (folder / "queries.jsonl").unlink()
    refused(InputError, r"queries\.jsonl: there is no such file", f"{folder}#test")
    refused(LemmataError, "protocol is passage or seed, not 'seeds'", "concepts#seeds")


# ---------------------------------------------------------------- without the workspace


@pytest.mark.slow
def test_a_job_trains_where_no_workspace_is(other: Project, tmp_path: Path) -> None:
    root = Path(shutil.copytree(other.root, tmp_path / "workspace"))
    base = small_bert(tmp_path / "base", ["number", "square.", *map(str, range(901))])
    options: dict[str, Any] = {"batch": 8, "rate": 1e-3, "validation": {"references": "MRR@10"}}
    prepared(Project(root), base, root, **options)
    (root / "job").rename(tmp_path / "job")
    shutil.rmtree(root)
    job = open_job(tmp_path / "job")
    chosen = build(FinetuneOptions, job.facts["options"], "the job")
    told = finetune(base, job, tmp_path / "out", chosen, work=tmp_path / "work", progress=silent)
    assert told.after["references/MRR@10"] > 0
    assert (tmp_path / "out" / "model.safetensors").is_file()
