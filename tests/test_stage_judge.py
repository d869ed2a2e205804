"""`judge` on a small workspace: a test collection that `evaluate --beir` reads."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.llm_server import Server
from tests.make import lemmata

from lemmata.core.errors import InputError, LemmataError, WorkspaceError
from lemmata.core.types import Floats
from lemmata.evaluate.evaluate import EvaluateOptions
from lemmata.evaluate.judge import PoolOptions, judge_queries, ruled
from lemmata.evaluate.pooling import Thresholds
from lemmata.evaluate.workspace_tasks import beir_task
from lemmata.llm.endpoint import Limits
from lemmata.project import Project

FAULTS = ("is leaking at the seal", "is vibrating badly", "was cleaned by the night shift", "tripped on overload")


class Overlap:
    """Scores a pair by the share of the query's words that the passage has."""

    name = "overlap"

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        words = [(set(query.lower().split()), set(passage.lower().split())) for query, passage in pairs]
        return np.array([len(query & passage) / len(query) for query, passage in words], np.float32)


class Nobody:
    """Must not be asked."""

    name = "nobody"

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        raise AssertionError(f"{len(pairs)} pairs were scored")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("judging")
    rows = [["id", "date", "text"]]
    for number in range(80):
        pump, fault = 101 + number % 16, FAULTS[number % 5 % 4]
        rows.append(
            [
                f"L{number:03}",
                f"2024-{1 + number // 20:02}-{1 + number % 20:02}",
                f"Pump P-{pump} {fault}, {number} bar",
            ]
        )
    with (folder / "logs.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    project = Project.init(folder / "w")
    project.ingest([folder / "logs.csv"])
    project.index(settings={"encoder": "hashing"})
    project.split(settings={"method": "time", "test": 0.25, "validation": 0.1})
    return project


def read(folder: Path) -> tuple[list[dict[str, Any]], dict[str, dict[str, int]]]:
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    table = [line.split("\t") for line in (folder / "qrels/test.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    qrels: dict[str, dict[str, int]] = {}
    for query, passage, value in table:
        qrels.setdefault(query, {})[passage] = int(value)
    return [json.loads(line) for line in lines], qrels


@pytest.fixture(scope="module")
def collection(project: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("collection") / "test"
    return out, project.judge(out, Overlap(), limit=12, depth=5)


def test_queries_come_from_the_test_part_and_their_sources_are_highly_relevant(
    project: Project, collection: tuple[Path, dict[str, Any]]
) -> None:
    out, report = collection
    queries, qrels = read(out)
    corpus = project.corpus
    dates = {passage.id: passage.date for passage in corpus}
    corpus.close()
    first = sorted(filter(None, dates.values()))[-20]
    assert 5 <= report["queries"] == len(queries) <= 12
    for query in queries:
        for source in query["metadata"]["sources"]:
            assert str(dates[source]) >= first
            assert qrels[query["_id"]][source] == 2


def test_evaluate_reads_the_collection(project: Project, collection: tuple[Path, dict[str, Any]]) -> None:
    task = beir_task(project, collection[0], name="synthetic")
    report = project.evaluate(task, options=EvaluateOptions(measures="MRR@10"))
    assert len(report.queries) == collection[1]["queries"]
    assert float(report.retrievers["lexical"]["MRR@10"].mean()) > 0.5


def test_grades_follow_from_the_scores_in_the_pool(collection: tuple[Path, dict[str, Any]]) -> None:
    out, report = collection
    queries, qrels = read(out)
    sources = {query["_id"]: query["metadata"]["sources"] for query in queries}
    with (out / "pool.tsv").open(encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream, delimiter="\t"))
    limits = report["thresholds"]
    for line in lines:
        query, passage, score = line["query-id"], line["corpus-id"], float(line["score"])
        value = qrels.get(query, {}).get(passage, 0)
        assert value == int(line["grade"])
        if passage not in sources[query]:
            assert value == (score >= limits["relevant"] - 1e-4) + (score >= limits["highly"] - 1e-4)
            assert line["retrievers"]
    assert report["judged"] == len(lines)
    assert sum(report["grades"].values()) == len(lines)


def test_the_manifest_says_who_pooled_and_who_judged(collection: tuple[Path, dict[str, Any]]) -> None:
    manifest = json.loads((collection[0] / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["judge"] == "overlap"
    assert manifest["part"] == "test"
    assert manifest["calibrated"]
    assert set(manifest["retrievers"]) == {"lexical", "dense", "hybrid"}
    assert "favours these retrievers" in manifest["note"]
    assert sum(manifest["relevant_by_part"].values()) == manifest["grades"]["1"] + manifest["grades"]["2"]


def test_a_validation_collection_is_found_by_evaluate_and_is_never_called_test(
    project: Project, tmp_path: Path
) -> None:
    project.judge(
        tmp_path / "v", Overlap(), part="validation", retrievers=("lexical",), thresholds=Thresholds(0.5, 0.9)
    )
    assert [path.name for path in (tmp_path / "v" / "qrels").iterdir()] == ["dev.tsv"]
    assert beir_task(project, tmp_path / "v", name="v").queries


def test_the_same_seed_gives_the_same_queries(project: Project) -> None:
    options = PoolOptions(limit=5)
    first = ruled(project, options)
    assert first == ruled(project, options)
    assert len(first) == len({query.text.casefold() for query in first}) == 5


def test_queries_from_a_file_need_thresholds_and_have_no_source(project: Project, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"_id": "a", "text": "leaking seal"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="threshold"):
        project.judge(tmp_path / "out", Nobody(), queries=tmp_path / "q.jsonl")
    assert not (tmp_path / "out").exists()
    report = project.judge(
        tmp_path / "out", Overlap(), queries=tmp_path / "q.jsonl", thresholds=Thresholds(0.5, 1.0), depth=30
    )
    queries, qrels = read(tmp_path / "out")
    assert queries == [{"_id": "a", "text": "leaking seal"}]
    assert set(qrels["a"].values()) <= {1, 2}
    assert report["part"] == ""


def test_a_language_model_writes_the_queries_within_its_limits(project: Project, tmp_path: Path) -> None:
    with project.config_file.open("a", encoding="utf-8") as stream:
        stream.write('\n[mine.written]\nstyles = "question,keyword"\n')
    project = Project(project.root)
    server = Server(tmp_path / "journal")
    try:
        entry = {"question": "Which machine of the plant has a fault?", "keyword": "machine fault seal"}
        server.script(answer=json.dumps(entry))
        model = {"url": server.url, "model": "tiny"}
        preview = project.preview_judged_queries(limit=8, model=model)
        assert 4 <= preview.calls <= 10
        assert server.calls() == []
        report = project.judge(tmp_path / "out", Overlap(), model=model, limits=Limits(calls=3), limit=8)
        assert len(server.calls()) == 3
    finally:
        server.kill()
    queries, _ = read(tmp_path / "out")
    assert report["made_by"] == "tiny"
    assert {query["text"] for query in queries} <= set(entry.values())
    assert all(len(query["metadata"]["sources"]) > 1 for query in queries)  # equal texts are one query


def test_a_folder_that_is_no_collection_is_not_replaced(project: Project, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match=tmp_path.name):
        project.judge(tmp_path, Overlap())
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_the_training_part_makes_no_test_queries(project: Project, tmp_path: Path) -> None:
    with pytest.raises(LemmataError, match="test"):
        project.judge(tmp_path / "out", Overlap(), part="train")


def test_without_a_split_there_is_no_held_out_part(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "a", "text": "Pump P-101 is leaking at the seal."}', encoding="utf-8")
    other = Project.init(tmp_path / "w")
    other.ingest([tmp_path / "p.jsonl"])
    with pytest.raises(WorkspaceError, match="lemmata split"):
        other.judge(tmp_path / "out", Overlap())


def test_no_queries_is_an_error(project: Project, tmp_path: Path) -> None:
    with pytest.raises(LemmataError, match="test"):
        judge_queries(project, tmp_path / "out", [], Overlap(), PoolOptions())


def test_the_command_refuses_thresholds_that_are_not_two_numbers(project: Project, tmp_path: Path) -> None:
    words = ("judge", tmp_path / "out", "--by", "any", "--thresholds", "3", "-w", project.root)
    assert "two numbers such as 3,5, not '3'" in lemmata(*words, code=1)


@pytest.mark.parametrize("option", ["--model", "--limit", "--part"])
def test_the_command_refuses_options_that_queries_from_a_file_leave_unused(
    project: Project, tmp_path: Path, option: str
) -> None:
    words = ("judge", tmp_path / "out", "--by", "any", "--queries", tmp_path / "q.jsonl", "-w", project.root)
    assert f"leave out {option}" in lemmata(*words, option, "200", code=1)
