"""The log of queries and marks: what it keeps, its limits, its exports, and who writes to it."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import copied, lemmata, make_workspace
from tests.served import refused, refuses_strangers, serving

from lemmata.core.errors import ConfigError, LemmataError, WorkspaceError
from lemmata.core.workspace import Workspace
from lemmata.evaluate import judgments as module
from lemmata.evaluate.judgments import JudgmentLog, LoggedQuery, export_judgments, judgments, marked_task
from lemmata.ingest.beir import read_judged, read_qrels
from lemmata.project import Project
from lemmata.server.security import Access

NOTES = [
    {"_id": "sponge", "text": "Every wet sponge absorbs water."},
    {"_id": "zebra", "text": "Zebras graze quietly."},
    {"_id": "comet", "text": "A comet orbits the sun."},
]


@copied
def project(folder: Path) -> Project:
    return make_workspace(folder, NOTES)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[JudgmentLog]:
    with JudgmentLog(Workspace(tmp_path)) as opened:
        yield opened


def set_level(workspace: Workspace, level: str) -> None:
    workspace.config_file.write_text(f'[judgments]\nlog = "{level}"\n')


def first(log: JudgmentLog) -> LoggedQuery:
    return log.queries()[0]


def test_a_query_stands_in_the_log_once_with_the_hits_that_were_shown_last(log: JudgmentLog) -> None:
    log.searched("wet  stones", ["a", "b"])
    log.searched("wet stones ", ["b", "c"])
    log.searched("wet stones", ["d"], offset=2)
    query = first(log)
    assert (query.text, query.times, query.hits) == ("wet stones", 2, ("b", "c", "d"))


def test_the_beginnings_of_a_query_that_is_being_typed_are_not_kept(log: JudgmentLog) -> None:
    log.searched("dry", ["a"])
    log.mark("dry", "a", "answer")
    for text in ("w", "we", "wet", "dry stone"):
        log.searched(text, ["a"])
    assert {query.text for query in log.queries()} == {"wet", "dry", "dry stone"}


def test_a_mark_replaces_the_one_before_and_can_be_taken_back(log: JudgmentLog) -> None:
    log.mark("q", "a", "wrong")
    log.mark("q", "a", "answer")
    log.mark("q", "b", "wrong")
    assert log.marks_of(" q") == {"a": "answer", "b": "wrong"}
    log.mark("q", "a", "none")
    assert (first(log).answers, first(log).wrong) == ((), ("b",))


def test_openings_are_kept_only_where_they_are_asked_for_and_never_replace_a_mark(tmp_path: Path) -> None:
    with JudgmentLog(Workspace(tmp_path)) as log:
        log.mark("q", "a", "opened")
        assert log.queries() == []
    set_level(Workspace(tmp_path), "openings")
    with JudgmentLog(Workspace(tmp_path)) as log:
        log.mark("q", "a", "answer")
        log.mark("q", "a", "opened")
        log.mark("q", "b", "opened")
        assert (first(log).answers, first(log).opened) == (("a",), ("b",))
        assert log.marks_of("q") == {"a": "answer"}


def test_one_setting_says_what_is_kept(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    set_level(workspace, "off")
    with JudgmentLog(workspace) as log:
        log.searched("q", ["a"])
        with pytest.raises(LemmataError):
            log.mark("q", "a", "answer")
        assert not workspace.judgment_log.exists()
    set_level(workspace, "marks")
    with JudgmentLog(Workspace(tmp_path)) as log:
        log.searched("p", ["a"])
        log.mark("q", "a", "answer")
        assert [query.text for query in log.queries()] == ["q"]
    set_level(workspace, "everything")
    with pytest.raises(ConfigError):
        JudgmentLog(Workspace(tmp_path))


def test_the_oldest_unmarked_queries_give_way_and_marks_have_a_limit(
    log: JudgmentLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_QUERIES", 3)
    monkeypatch.setattr(module, "MOST_MARKS", 1)
    log.mark("marked", "a", "answer")
    for text in ("one", "two", "three", "four"):
        log.searched(text, ["a"])
    assert {query.text for query in log.queries()} == {"marked", "three", "four"}
    with pytest.raises(LemmataError):
        log.mark("four", "a", "answer")


def test_clearing_leaves_no_word_on_the_disk(tmp_path: Path, log: JudgmentLog) -> None:
    log.searched("xylophone secrets", ["a"])
    log.mark("xylophone secrets", "a", "answer")
    assert log.clear() == 1
    assert log.queries() == []
    assert not any(b"xylophone" in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


def test_a_log_that_was_deleted_begins_anew(tmp_path: Path, log: JudgmentLog) -> None:
    log.searched("one", ["a"])
    for path in tmp_path.glob("judgments.sqlite*"):
        path.unlink()
    log.searched("two", ["a"])
    assert [query.text for query in log.queries()] == ["two"]


def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "judgments.sqlite").write_bytes(b"nonsense " * 500)
    with JudgmentLog(Workspace(tmp_path)) as log, pytest.raises(WorkspaceError, match=r"judgments\.sqlite"):
        log.searched("q", [])


def test_many_threads_and_two_logs_write_to_one_file(tmp_path: Path) -> None:
    with JudgmentLog(Workspace(tmp_path)) as one, JudgmentLog(Workspace(tmp_path)) as other:

        def write(log: JudgmentLog, number: int) -> None:
            for count in range(10):
                log.mark("q", f"{number}-{count}", "answer")

        threads = [threading.Thread(target=write, args=((one, other)[number % 2], number)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(first(one).answers) == 60


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=8), st.sampled_from("ab"), st.sampled_from(["answer", "wrong", "none"]))))
def test_the_log_holds_the_last_mark_of_each_passage(
    tmp_path_factory: pytest.TempPathFactory, marks: list[tuple[str, str, module.Mark]]
) -> None:
    expected: dict[tuple[str, str], str] = {}
    with JudgmentLog(Workspace(tmp_path_factory.mktemp("log"))) as log:
        for text, passage, mark in marks:
            query = " ".join(text.encode("utf-8", "replace").decode().split())
            if not query:
                continue
            log.mark(text, passage, mark)
            expected[query, passage] = mark
        stored = {(query.text, each): "answer" for query in log.queries() for each in query.answers}
        stored |= {(query.text, each): "wrong" for query in log.queries() for each in query.wrong}
    assert stored == {place: mark for place, mark in expected.items() if mark != "none"}


# ---------------------------------------------------------------- the verb


def test_marks_are_exported_as_trec_and_beir(project: Project, tmp_path: Path) -> None:
    with pytest.raises(LemmataError):
        export_judgments(project, tmp_path / "out")
    with JudgmentLog(project) as log:
        log.mark("what drinks", "sponge", "answer")
        log.mark("what drinks", "zebra", "wrong")
        log.mark("what drinks", "gone", "answer")
        log.mark("only wrong", "zebra", "wrong")
    expected = {"q1": {"sponge": 1, "zebra": 0}}
    report = export_judgments(project, tmp_path / "out")
    assert (report["queries"], report["judgments"], len(report["notes"])) == (1, 2, 1)
    assert read_qrels(tmp_path / "out" / "qrels" / "test.qrels") == expected
    assert read_judged(tmp_path / "out", "test") == ({"q1": "what drinks"}, expected)
    assert export_judgments(project, tmp_path / "out") == report
    task = marked_task(project)
    assert task is not None
    assert [*task.relevant()] == [["sponge"]]


def test_the_command_lists_exports_and_clears(project: Project, tmp_path: Path) -> None:
    with JudgmentLog(project) as log:
        log.searched("what drinks", ["sponge", "zebra"])
        log.mark("what drinks", "sponge", "answer")
    where = ("-w", str(project.root))
    assert "what drinks" in lemmata("judgments", *where)
    listed = json.loads(lemmata("judgments", "--json", *where))
    assert [(query["text"], query["answers"]) for query in listed] == [("what drinks", ["sponge"])]
    assert "queries    1" in lemmata("judgments", "--export", tmp_path / "out", *where)
    lemmata("judgments", "--clear", *where)
    assert judgments(project) == []


# ---------------------------------------------------------------- REST


def test_searches_and_marks_of_the_api_go_to_the_log(project: Project) -> None:
    with serving(project.root) as client:
        hits = client.post("/search", json={"query": "wet sponge", "k": 2}).json()["hits"]
        client.post("/search", json={"query": "not this", "log": False})
        body = {"query": "wet sponge", "id": "sponge", "mark": "answer"}
        assert client.post("/mark", json=body).json()["mark"] == "answer"
        assert client.post("/search", json={"query": "wet sponge"}).json()["marks"] == {"sponge": "answer"}
        client.post("/mark", json={**body, "mark": "none"})
        assert client.post("/search", json={"query": "wet sponge"}).json()["marks"] == {}
        assert client.get("/health").json()["log"] == "queries"
    [query] = judgments(project)
    assert (query.text, query.hits[:2], query.answers) == ("wet sponge", tuple(hit["id"] for hit in hits), ())


def test_a_mark_needs_a_known_passage_and_a_known_word(project: Project) -> None:
    with serving(project.root) as client:
        body = {"query": "wet", "id": "sponge", "mark": "answer"}
        refused(client.post("/mark", json={**body, "id": "nothing"}), 404, "not_found")
        refused(client.post("/mark", json={**body, "mark": "perhaps"}), 422, "invalid")
        refused(client.post("/mark", json={**body, "query": ""}), 422, "invalid")
        refused(client.post("/mark", json={**body, "query": " "}), 422, "invalid")
        refused(client.post("/mark", json={**body, "query": "x" * 1_000_000}), 422, "invalid")
        refused(client.post("/mark", json={**body, "query": "x" * 2_000_000}), 413, "too_large")
        assert client.get("/mark").status_code == 405
    assert judgments(project) == []


def test_nobody_marks_without_the_token_or_from_another_page(project: Project) -> None:
    body = {"query": "wet", "id": "sponge", "mark": "answer"}
    with serving(project.root, access=Access("127.0.0.1", token="a" * 20)) as client:
        refuses_strangers(client, "/mark", body, "a" * 20)
        assert judgments(project) == []
        right = {"authorization": f"Bearer {'a' * 20}"}
        assert client.post("/mark", json=body, headers=right).status_code == 200


def test_a_log_that_cannot_be_written_stops_no_search(project: Project) -> None:
    project.judgment_log.write_bytes(b"nonsense " * 500)
    with serving(project.root) as client:
        assert client.post("/search", json={"query": "wet sponge"}).json()["hits"]
        assert any("judgments.sqlite" in problem for problem in client.get("/health").json()["problems"])
        refused(client.post("/mark", json={"query": "wet", "id": "sponge", "mark": "answer"}), 409, "workspace")


def test_a_log_of_another_version_is_named(project: Project) -> None:
    with JudgmentLog(project) as log:
        log.searched("wet", [])
    with sqlite3.connect(project.judgment_log) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(WorkspaceError, match="99"):
        judgments(project)
