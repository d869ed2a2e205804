"""Runs and judgments: what is written reads back equal, what is wrong is named with file and line."""

from __future__ import annotations

import contextlib
import json
import string
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.errors import InputError
from lemmata.evaluate.runs import read_run, read_trec_qrels, write_beir, write_run, write_trec_qrels

words = st.text(string.ascii_letters + string.digits + "#@:/-_.äß", min_size=1, max_size=8)


def test_a_run_is_read_by_falling_score_whatever_its_ranks_say(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    path.write_text("q1 Q0 a 1 0.5 tag\nq1\tQ0\tb\t2\t2.5\ttag\n\nq2 Q0 a 1 1e-3 tag\nq1 Q0 c 9 0.5 tag\n")
    run = read_run(path)
    assert run == {"q1": {"b": 2.5, "a": 0.5, "c": 0.5}, "q2": {"a": 0.001}}
    assert list(run["q1"]) == ["b", "a", "c"]


def test_a_run_is_written_with_ranks_from_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.run"
    write_run(path, {"q1": {"a": 0.5, "algebra#lemma": 2}}, tag="dense")
    assert path.read_text() == "q1 Q0 algebra#lemma 1 2.0 dense\nq1 Q0 a 2 0.5 dense\n"
    assert [one.name for one in path.parent.iterdir()] == ["a.run"]


@given(st.dictionaries(words, st.dictionaries(words, st.floats(allow_nan=False), min_size=1, max_size=5), max_size=5))
def test_any_run_reads_back_equal(run: dict[str, dict[str, float]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder) / "a.run", run)
        assert read_run(Path(folder) / "a.run") == run


@given(st.dictionaries(words, st.dictionaries(words, st.integers(-2, 10), min_size=1, max_size=5), max_size=5))
def test_any_judgments_read_back_equal(qrels: dict[str, dict[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_trec_qrels(Path(folder) / "qrels", qrels)
        assert read_trec_qrels(Path(folder) / "qrels") == qrels


@given(st.binary(max_size=60) | st.text(" \t\nq01.Q-e", max_size=60).map(str.encode))
def test_any_file_is_read_or_refused_in_words(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        for read in (read_run, read_trec_qrels):
            with contextlib.suppress(InputError):
                read(path)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("q1 Q0 a 1 0.5 tag\nq1 Q0 b 2\n", ":2: a line needs 6 columns .*, this one has 4"),
        ("q1 Q0 a 1 high tag\n", ":1: 'high' is no score"),
        ("q1 Q0 a 1 nan tag\n", ":1: 'nan' is no score"),
        ("q1 Q0 a 1 2 t\n\nq1 Q0 a 2 1 t\n", ":3: the passage 'a' was there before for the query 'q1'"),
    ],
)
def test_a_bad_line_of_a_run_is_named(tmp_path: Path, text: str, cause: str) -> None:
    path = tmp_path / "a.run"
    path.write_text(text)
    with pytest.raises(InputError, match=cause):
        read_run(path)


def test_a_bad_line_of_judgments_is_named(tmp_path: Path) -> None:
    path = tmp_path / "qrels"
    path.write_text("q1 0 a 1\nq1 0 b 1.5\n")
    with pytest.raises(InputError, match=r":2: '1\.5' is no grade"):
        read_trec_qrels(path)


def test_a_file_that_is_missing_or_not_text_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.run: can not be read: No such file"):
        read_run(tmp_path / "no.run")
    (tmp_path / "qrels").write_bytes(b"\xff\xfe\x00q")
    with pytest.raises(InputError, match="qrels: is not UTF-8 text"):
        read_trec_qrels(tmp_path / "qrels")


@pytest.mark.parametrize("name", ["", "two words", "a\tb", "line\n", "wide\u3000space"])
def test_ids_that_would_break_the_columns_are_refused_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is empty or holds blanks"):
        write_run(tmp_path / "a.run", {"q": {name: 1.0}})
    with pytest.raises(InputError, match="is empty or holds blanks"):
        write_trec_qrels(tmp_path / "qrels", {name: {"a": 1}})
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_survives_a_write_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "qrels"
    write_trec_qrels(path, {"q": {"a": 1}})
    with pytest.raises(InputError):
        write_trec_qrels(path, {"q": {"b": 1, "c d": 1}})
    assert read_trec_qrels(path) == {"q": {"a": 1}}


def test_a_beir_folder_has_three_files(tmp_path: Path) -> None:
    corpus = iter([("a", "Lemma", "Let $x\u2028$ be ü."), ("b c", "", 'line\n"two"')])
    write_beir(tmp_path, corpus, {"q": "what is\tx?"}, {"q": {"a": 2, "b c": 1}})
    rows = [json.loads(line) for line in (tmp_path / "corpus.jsonl").read_text("utf-8").split("\n")[:-1]]
    assert rows == [
        {"_id": "a", "title": "Lemma", "text": "Let $x\u2028$ be ü.", "metadata": {}},
        {"_id": "b c", "title": "", "text": 'line\n"two"', "metadata": {}},
    ]
    assert json.loads((tmp_path / "queries.jsonl").read_text("utf-8"))["text"] == "what is\tx?"
    assert (tmp_path / "qrels" / "test.tsv").read_text() == "query-id\tcorpus-id\tscore\nq\ta\t2\nq\tb c\t1\n"


def test_an_id_with_a_tab_has_no_place_in_beir_judgments(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds a tab or a new line"):
        write_beir(tmp_path, [], {}, {"q": {"a\tb": 1}})
