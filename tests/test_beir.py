from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.errors import InputError
from lemmata.core.types import Link, Passage, Reading
from lemmata.ingest.beir import check_judgments, read_passages, read_qrels, read_queries, read_table


def read(*rows: dict[str, Any], batch: int = 2000) -> list[Reading]:
    return list(read_passages(enumerate(rows, 1), file="c.jsonl", batch=batch))


def test_a_row_is_a_document_with_one_passage() -> None:
    row = {"_id": "7", "title": "T", "text": "X.", "categories": "math.CO math.NT", "created": "2001-02-03", "note": 5}
    (reading,) = read(row)
    (passage,), (document,) = reading.passages, reading.documents
    assert (passage.id, passage.document, passage.kind, passage.first_line) == ("7", "7", "passage", 1)
    assert passage.metadata == {"note": 5}
    assert (document.id, document.date, document.categories) == ("7", "2001-02-03", ("math.CO", "math.NT"))


def test_links_have_three_formats_and_rows_of_one_document_share_it() -> None:
    written: list[Any] = [["b"], [{"target": "b", "relation": "refers_to"}], {"refers_to": ["b"]}]
    rows = [{"id": f"a{n}", "abstract": "x", "document": "d", "links": links} for n, links in enumerate(written)]
    first, second = read(*rows, batch=2)
    assert [passage.links for passage in (*first.passages, *second.passages)] == [(Link("refers_to", "b"),)] * 3
    assert {passage.kind for passage in first.passages} == {"abstract"}
    assert [document.id for document in first.documents] == ["d"]


def test_a_title_alone_is_content() -> None:
    (reading,) = read(
        {"_id": "1", "title": "A title alone.", "text": ""},
        {"_id": "2", "title": "Whole numbers"},
        {"_id": "3", "title": " ", "text": " "},
        {"_id": "4", "title": "T", "text": "X."},
    )
    assert [(p.id, p.content) for p in reading.passages] == [
        ("1", "A title alone."),
        ("2", "Whole numbers"),
        ("4", "T. X."),
    ]
    assert [document.title for document in reading.documents] == ["A title alone.", "Whole numbers", "T"]
    assert [(skip.line, skip.cause) for skip in reading.skips] == [(3, "'3' has neither text nor title")]
    assert Passage("a", "a", "log", "", title="Pump leaks").content == "Pump leaks"


def test_fields_of_a_wrong_type_are_notes_and_the_passage_stays() -> None:
    (reading,) = read(
        {"id": "a", "text": "x", "title": ["T"], "links": 5, "authors": {"A": 1}, "metadata": "m"},
        {"id": "b", "text": {"body": "x"}},
        {"id": ["c"], "text": "x"},
        {"id": "d", "text": "y", "links": {"cites": "e"}, "authors": "A. One; B. Two"},
        {"id": "e", "text": 12},
        {"text": "x"},
    )
    assert [(p.id, p.text, p.title) for p in reading.passages] == [("a", "x", ""), ("d", "y", ""), ("e", "12", "")]
    assert reading.passages[1].links == (Link("cites", "e"),)
    assert reading.documents[1].authors == ("A. One", "B. Two")
    assert [(skip.line, skip.cause) for skip in reading.skips] == [
        (1, "'a' is kept without 'title', 'links', 'authors', 'metadata' (wrong type)"),
        (2, "'b' has neither text nor title (wrong type: 'text')"),
        (3, "its id is neither text nor number"),
        (6, "a row without an id"),
    ]


def test_an_unreadable_date_is_a_note_and_the_passage_keeps_the_value() -> None:
    (reading,) = read(
        {"id": "a", "text": "x", "date": "some day"},
        {"id": "b", "text": "x", "created": "Mon, 2 Apr 2007 19:18:42 GMT"},
        {"id": "c", "text": "x", "date": "2007-04"},
        {"id": "d", "text": "x", "date": 2007},
    )
    assert [p.date for p in reading.passages] == [None, "2007-04-02T19:18:42+00:00", "2007-04", "2007"]
    assert reading.passages[0].metadata == {"date": "some day"}
    assert [skip.cause for skip in reading.skips] == ["'a' is kept without its unclear date 'some day'"]


@pytest.mark.slow
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["id", "_id", "text", "title", "links", "categories", "authors", "date", "metadata"]),
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text()
            | st.lists(st.integers() | st.text() | st.dictionaries(st.text(), st.text()))
            | st.dictionaries(st.text(), st.text() | st.lists(st.text())),
        )
    )
)
def test_rows_of_any_shape_never_fail(rows: list[dict[str, Any]]) -> None:
    for reading in read(*rows):
        assert all(p.id and p.text for p in reading.passages)


def test_queries_and_judgments_are_read_from_beir_and_trec(tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl.gz"
    queries.write_bytes(gzip.compress(b'{"_id": "q", "text": "what?"}\n\n{"id": 2, "text": "who?"}\n'))
    assert read_queries(queries) == {"q": "what?", "2": "who?"}
    beir, trec = tmp_path / "b.tsv", tmp_path / "t.txt"
    beir.write_text("query-id\tcorpus-id\tscore\nq\td 1\t2\nq\te\t0\n")
    trec.write_text("q 0 d 2\nq 0 e 0\n")
    assert read_qrels(beir) == {"q": {"d 1": 2, "e": 0}}
    assert read_qrels(trec) == {"q": {"d": 2, "e": 0}}


def test_a_table_of_queries_without_a_heading_line_is_an_error_with_the_cure(tmp_path: Path) -> None:
    path = tmp_path / "asked.tsv"
    path.write_text("prime ideals\talgebra#lemma-1\nparts\td@2\n")
    with pytest.raises(InputError, match=r"asked\.tsv:1: .*'algebra#lemma-1'.*'query'"):
        read_table(path)
    path.write_text("question\tanswer\nprime ideals\talgebra#lemma-1\n")
    assert read_table(path) == ({"2": "prime ideals"}, {"2": {"algebra#lemma-1": 1}})


@pytest.mark.parametrize("heading", ["passage\tquery", "id\tQuestion", "passage_id \ttext"])
def test_a_table_of_queries_may_have_the_ids_first(tmp_path: Path, heading: str) -> None:
    path = tmp_path / "asked.tsv"
    path.write_text(f"{heading}\nalgebra#lemma-1\tprime ideals\n")
    assert read_table(path) == ({"2": "prime ideals"}, {"2": {"algebra#lemma-1": 1}})


def test_a_utf_16_file_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "asked.tsv"
    for encoding in ("utf-16-le", "utf-16-be"):
        path.write_bytes(gzip.compress("\ufeffquery\tid\na\tb\n".encode(encoding)))
        for read_file in (read_table, read_queries, read_qrels):
            with pytest.raises(InputError, match=r"asked\.tsv"):
                read_file(path)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("not json", "this line is not JSON (Expecting value, column 1)"),
        ("[", "this line begins a list, which jq -c '.[]' FILE writes line by line"),
        ("[1]", "this line begins a list"),
        ("1", "this line is JSON, but no object"),
        ('{"_id": "q", "txt": "b"}', 'has no "text" (its keys are "_id", "txt")'),
        ('{"text": "b"}', 'has no "_id" (its keys are "text")'),
        ('{"_id": "", "text": "b"}', 'has no "_id"'),
        ('{"_id": "a", "text": "c"}', "the query id 'a' occurs twice"),
    ],
)
def test_a_broken_query_is_an_error_with_its_line_and_cause(tmp_path: Path, line: str, cause: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"_id": "a", "text": "b"}\n' + line + "\n")
    with pytest.raises(InputError) as raised:
        read_queries(path)
    assert f"q.jsonl:2: {cause}" in str(raised.value)


def test_judgments_of_unknown_queries_are_an_error_with_both_files_and_quoted_ids() -> None:
    files = {"queries_file": Path("q.jsonl"), "qrels_file": Path("qrels.tsv")}
    check_judgments({"1": "a"}, {"1": {"p": 1}}, **files)
    with pytest.raises(InputError, match=r"^qrels\.tsv: .*q\.jsonl .*'7'$"):
        check_judgments({"1": "a"}, {"1": {"p": 1}, "7": {"p": 1}}, **files)
    with pytest.raises(InputError, match=r" 7 .* '0', '1', '2', '3', '4' and 2 more$"):
        check_judgments({"a": "a"}, {str(number): {"p": 1} for number in range(7)}, **files)
    with pytest.raises(InputError, match=r"^q\.jsonl: .*queries"):
        check_judgments({}, {"7": {"p": 1}}, **files)
    with pytest.raises(InputError, match=r"^qrels\.tsv: .*judgments"):
        check_judgments({"1": "a"}, {}, **files)


@pytest.mark.parametrize("line", ["q\td", "q\td\tvery", "q"])
def test_a_broken_judgment_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text("query-id\tcorpus-id\tscore\n" + line + "\n")
    with pytest.raises(InputError, match=r"qrels\.tsv:2: "):
        read_qrels(path)
