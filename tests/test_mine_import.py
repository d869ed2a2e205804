"""Queries that somebody else wrote, taken in for the training part of a workspace only."""

from __future__ import annotations

import gzip
import json
import lzma
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.make import run_command

from lemmata.core.errors import InputError, LeakageError
from lemmata.core.types import Pair
from lemmata.corpus.split import LEFT_OUT, Split, write_split
from lemmata.corpus.training_files import read_training
from lemmata.ingest.queries import ImportedQuery, judged_queries, read_imported
from lemmata.mine.mine import ImportReport, imported_pairs, interleaved_search
from lemmata.project import Project
from lemmata.search.retriever import Retriever

TEXTS = {
    "pump": "The feed pump lost suction after the strainer clogged with scale.",
    "valve": "A relief valve opened early because its spring had softened in the heat.",
    "fan": "Vibration of the cooling fan came from one blade that carried ice.",
    "boiler": "Tubes of the boiler were cleaned by acid before the winter campaign.",
    "crane": "The crane stopped when a limit switch reported slack rope.",
    "mixer": "Foam in the mixer disappeared once the antifoam dosing was doubled.",
}
PART = {"pump": 0, "valve": 0, "fan": 0, "boiler": 1, "crane": 2, "mixer": LEFT_OUT}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Six passages: three for training, one each for validation, for test, and for no part."""
    folder = tmp_path_factory.mktemp("imports")
    project = Project.init(folder / "w")
    source = folder / "passages.jsonl"
    source.write_text(lines({"id": name, "text": text} for name, text in TEXTS.items()), encoding="utf-8")
    project.ingest([source])
    project.index(settings={"encoder": "hashing"})
    corpus = project.corpus
    part = np.array([PART[name] for name in corpus.ids()], np.int8)
    write_split(project, Split(part, part > 0), {"verb": "split", "inputs": corpus.digest})
    corpus.close()
    return project


def lines(objects: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(value) + "\n" for value in objects)


def written(path: Path, *objects: dict[str, Any]) -> Path:
    path.write_text(lines(objects), encoding="utf-8")
    return path


def records(project: Project, name: str) -> list[dict[str, Any]]:
    return list(read_training(project.training_file(name)))


# ---------------------------------------------------------------- into a workspace


def test_a_query_becomes_a_pair_that_names_its_file_and_line(built: Project, tmp_path: Path) -> None:
    file = written(
        tmp_path / "asked.jsonl",
        {"id": "pump", "style": "question", "text": "Why did the pump\n lose suction?"},
        {"id": "fan", "text": "Ice on a blade."},
    )
    report = built.import_queries(file, name="asked")
    made = records(built, "asked")
    fields = [(r["anchor"], r["positive_id"], r["source"], r["relation"], r["reason"]) for r in made]
    assert fields == [
        ("Why did the pump lose suction?", "pump", "written", "question", "asked.jsonl:1"),
        ("Ice on a blade.", "fan", "written", "", "asked.jsonl:2"),
    ]
    assert report["by_source"] == {"written": 1, "written/question": 1}
    assert report["imported"] == {"read": 2, "left_out": {}, "first_unknown": ""}
    assert "no leakage found" in report["audit"]


def test_queries_of_held_out_passages_never_reach_the_set_and_are_counted_by_part(
    built: Project, tmp_path: Path
) -> None:
    objects = [{"id": name, "text": f"Who wrote report {name}?"} for name in TEXTS for _ in range(2)]
    report = built.import_queries(written(tmp_path / "all.jsonl", *objects), name="parts")
    made = records(built, "parts")
    assert {record["positive_id"] for record in made} == {"pump", "valve", "fan"}
    assert not [record for record in made if any(name in record["anchor"] for name in ("boiler", "crane", "mixer"))]
    assert report["imported"]["left_out"] == {"of no part": 2, "of test": 2, "of validation": 2}
    assert report["records"] == len(made) == 6


def test_unknown_passages_are_counted_and_the_first_is_named(built: Project, tmp_path: Path) -> None:
    file = written(
        tmp_path / "some.jsonl",
        {"id": "gone", "text": "Where is it?"},
        {"id": "pump", "text": "Why no suction?"},
        {"id": "lost", "text": "And this one?"},
    )
    imported = built.import_queries(file, name="some")["imported"]
    assert imported == {"read": 3, "left_out": {"of no passage": 2}, "first_unknown": "gone"}


def test_a_file_for_another_corpus_is_an_error(built: Project, tmp_path: Path) -> None:
    file = written(tmp_path / "other.jsonl", {"id": "x1", "text": "One?"}, {"id": "x2", "text": "Two?"})
    with pytest.raises(InputError, match=r"other\.jsonl: .*2 queries .*'x1'"):
        built.import_queries(file, name="other")
    assert "other" not in built.training_sets()


def test_a_file_with_queries_of_held_out_passages_only_is_an_error(built: Project, tmp_path: Path) -> None:
    file = written(tmp_path / "held.jsonl", {"id": "crane", "text": "Slack?"}, {"id": "boiler", "text": "Acid?"})
    with pytest.raises(InputError, match="1 of test, 1 of validation"):
        built.import_queries(file, name="held")
    assert "held" not in built.training_sets()


def test_a_query_that_repeats_a_held_out_passage_is_dropped_by_the_audit(built: Project, tmp_path: Path) -> None:
    file = written(
        tmp_path / "near.jsonl", {"id": "pump", "text": TEXTS["crane"]}, {"id": "fan", "text": "What shook the fan?"}
    )
    report = built.import_queries(file, name="near")
    assert [record["positive_id"] for record in records(built, "near")] == ["fan"]
    assert report["by_source"]["left out: nearly equal to held-out text"] == 1


def test_a_set_that_holds_an_outside_test_query_is_refused(built: Project, tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text(lines([{"_id": "q1", "text": "what shook the fan?"}]), encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tcrane\t1\n", encoding="utf-8")
    text = built.config_file.read_text(encoding="utf-8")
    table = f'\n[audit]\nqueries = "{tmp_path / "queries.jsonl"}"\nqrels = "{tmp_path / "qrels.tsv"}"\n'
    built.config_file.write_text(text + table, encoding="utf-8")
    try:
        file = written(tmp_path / "known.jsonl", {"id": "fan", "text": "What shook the fan?"})
        with pytest.raises(LeakageError, match="q1"):
            Project(built.root).import_queries(file, name="known")
    finally:
        built.config_file.write_text(text, encoding="utf-8")
    assert "known" not in built.training_sets()


def test_complete_drops_queries_that_do_not_end_in_punctuation(built: Project, tmp_path: Path) -> None:
    ends = ["Is it ice?", "It was ice.", "Ice!", 'They said "ice."', "The blade that carried", "suction, strainer"]
    file = written(tmp_path / "cut.jsonl", *({"id": "fan", "text": text} for text in ends))
    assert built.import_queries(file, name="uncut")["records"] == 6
    report = built.import_queries(file, name="cut", complete=True)
    assert [record["anchor"] for record in records(built, "cut")] == ends[:4]
    assert report["imported"]["left_out"] == {"cut": 2}


def test_found_within_keeps_only_queries_that_find_their_passage(built: Project, tmp_path: Path) -> None:
    file = written(
        tmp_path / "found.jsonl",
        {"id": "pump", "style": "good", "text": "strainer clogged scale"},
        {"id": "pump", "style": "bad", "text": "relief valve spring softened"},
    )
    report = built.import_queries(file, name="found", found_within=1)
    assert [record["relation"] for record in records(built, "found")] == ["good"]
    assert report["round_trip"] == {"bad": {"kept": 0, "asked": 1}, "good": {"kept": 1, "asked": 1}}


def test_the_filter_alternates_lexical_and_dense_hits(built: Project) -> None:
    corpus = built.corpus
    allowed = np.array([PART[name] == 0 for name in corpus.ids()])
    corpus.close()
    retriever = Retriever(built)
    # the corpus has none of these words, so that only vectors can find anything
    rows = interleaved_search(retriever, allowed, ["zzqq qqzz"], 2)
    retriever.close()
    assert rows.shape == (1, 4)
    assert rows[0, 0] == -1
    assert rows[0, 1] >= 0


def test_judged_queries_are_taken_where_the_grade_is_above_0(built: Project, tmp_path: Path) -> None:
    queries = written(tmp_path / "q.jsonl", {"_id": "1", "text": "Why no suction?"}, {"_id": "2", "text": "Ice?"})
    qrels = tmp_path / "q.tsv"
    qrels.write_text(
        "query-id\tcorpus-id\tscore\n1\tpump\t1\n1\tvalve\t0\n2\tfan\t2\n2\tcrane\t1\n3\tfan\t1\n", encoding="utf-8"
    )
    report = built.import_queries(queries, qrels=qrels, name="judged")
    made = {(r["anchor"], r["positive_id"], r["reason"]) for r in records(built, "judged")}
    assert made == {("Why no suction?", "pump", "q.tsv: 1"), ("Ice?", "fan", "q.tsv: 2")}
    assert report["imported"]["left_out"] == {"of test": 1, "empty": 1}


def test_the_stored_command_reads_a_file_whose_name_has_a_space(built: Project, tmp_path: Path) -> None:
    file = written(tmp_path / "my queries.jsonl", {"id": "pump", "text": "Why?"})
    built.import_queries(file, name="spaced", complete=True)
    command = built.training_sets()["spaced"]["command"]
    words = ["lemmata", "mine", "import", str(file), "--name", "spaced", "--complete"]
    assert shlex.split(command) == words
    queries = written(tmp_path / "other queries.jsonl", {"_id": "q", "text": "Why no suction?"})
    qrels = tmp_path / "its grades.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\nq\tpump\t1\n", encoding="utf-8")
    built.import_queries(queries, qrels=qrels, name="spaced")
    words = ["lemmata", "mine", "import", str(queries), "--qrels", str(qrels), "--name", "spaced"]
    assert shlex.split(built.training_sets()["spaced"]["command"]) == words


def test_the_command_reports_what_it_left_out(built: Project, tmp_path: Path) -> None:
    file = written(
        tmp_path / "report.jsonl",
        {"id": "pump", "text": "Why no suction?"},
        {"id": "crane", "text": "Slack?"},
        {"id": "[x]", "text": "Unknown?"},
        {"id": "mixer", "text": "Foam?"},
        {"id": "fan", "text": " "},
    )
    command = ("mine", "import", file, "--name", "new", "-w", built.root)
    done = run_command(*command)
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "name new records 1 " in shown
    assert "first unknown [x]" in shown
    for cause in ("of test", "of no passage", "of no part", "empty"):
        assert f"1 {cause}" in shown
    file.write_text("{", encoding="utf-8")
    done = run_command(*command)
    assert done.returncode == 1
    assert "report.jsonl:1: this line is not JSON" in " ".join(done.stderr.split())


# ---------------------------------------------------------------- files


def test_compressed_files_are_read(tmp_path: Path) -> None:
    content = lines([{"id": "pump", "text": "Why?"}]).encode()
    files = {
        "a": content,
        "b": gzip.compress(content),
        "c": lzma.compress(content),
        "d": zstandard.compress(content),
    }
    for name, stored in files.items():
        (tmp_path / name).write_bytes(stored)
        assert list(read_imported(tmp_path / name)) == [ImportedQuery("pump", "Why?", "", f"{name}:1")]


def test_other_common_field_names_are_understood(tmp_path: Path) -> None:
    file = written(
        tmp_path / "f.jsonl",
        {"_id": "pump", "query": "One?"},
        {"id": "query-7", "passage": "fan", "query": "Two?", "text": "what the passage says"},
        {"passage_id": 12, "text": "Three?", "style": None},
    )
    assert [query[:3] for query in read_imported(file)] == [
        ("pump", "One?", ""), ("fan", "Two?", ""), ("12", "Three?", "")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bad", "cause"),
    [
        (b"{", "this line is not JSON (Expecting property name enclosed in double quotes, column "),
        (b"id,text", "this line is not JSON (Expecting value, column 1)"),
        (b"9" * 5000, "this line is not JSON (too deep or long)"),
        (b"[1]", "this line begins a list, which jq -c '.[]' FILE writes line by line"),
        (b"[", "this line begins a list"),
        (b"[" * 100_000, "this line begins a list"),
        (b'"text"', "this line is JSON, but no object"),
        (b'{"id": "a"}', 'has neither "query" nor "text" (its keys are "id")'),
        (b'{"id": "a", "txet": "b"}', '(its keys are "id", "txet")'),
        (b'{"text": "a"}', 'names no passage that answers its query (its keys are "text")'),
        (b"{}", "(its keys are none)"),
        (b'{"id": "a", "text": 3}', 'the "text" is no text'),
        (b'{"id": true, "text": "a"}', 'the "id" is neither text nor a whole number'),
        (b'{"id": ["a"], "text": "a"}', 'the "id" is neither text nor a whole number'),
        (b'{"id": "a", "text": "a", "style": 1}', 'the "style" is no text'),
        (b'{"id": "a", "text": "\xff"}', "this line is not UTF-8: save the file as UTF-8"),
        (b'{"id": "a", "text": "\\ud800"}', "has half a surrogate pair"),
    ],
    ids=lambda content: str(content[:30]),
)
def test_an_error_names_the_line_that_is_no_query_and_what_is_wrong_with_it(
    tmp_path: Path, bad: bytes, cause: str
) -> None:
    (tmp_path / "f.jsonl").write_bytes(b'{"id": "a", "text": "b"}\n\n' + bad + b"\n")
    with pytest.raises(InputError) as raised:
        list(read_imported(tmp_path / "f.jsonl"))
    assert f"f.jsonl:3: {cause}" in str(raised.value) or (cause.startswith("(") and cause in str(raised.value))
    assert str(raised.value).endswith('a query needs one JSON object on a line, with "id", of its passage, and "text"')


def test_the_cure_of_a_query_without_an_answer_is_another_one(tmp_path: Path) -> None:
    keys = ("passage", "passage_id")
    for line, sentence in (
        ('{"query": "a", "pasage": "b"}', '"pasage"); give judgments with --qrels, or add "passage"'),
        ("query,passage", 'with "query" and "passage", or a tab-separated FILE.tsv'),
    ):
        (tmp_path / "f.jsonl").write_text(line)
        with pytest.raises(InputError) as raised:
            list(read_imported(tmp_path / "f.jsonl", keys=keys))
        assert str(raised.value).endswith(sentence)


def test_a_utf_16_file_is_named_as_such(tmp_path: Path) -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        (tmp_path / "f.jsonl").write_text('\ufeff{"id": "a", "text": "b"}\n', encoding)
        with pytest.raises(InputError, match=r"f\.jsonl"):
            list(read_imported(tmp_path / "f.jsonl"))


def test_a_file_is_read_lazily(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text('{"id": "a", "text": "b"}\nno JSON\n', encoding="utf-8")
    assert next(read_imported(tmp_path / "f.jsonl")).passage == "a"


def test_a_missing_and_an_empty_file_are_errors(built: Project, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl"):
        built.import_queries(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_bytes(b"")
    with pytest.raises(InputError, match=r"empty\.jsonl"):
        built.import_queries(tmp_path / "empty.jsonl")


# ---------------------------------------------------------------- any input


@given(
    st.lists(st.builds(ImportedQuery, st.sampled_from([*TEXTS, "unknown"]), st.text(max_size=8), st.text(max_size=3))),
    st.booleans(),
)
def test_every_query_is_a_pair_of_the_training_part_or_counted_once(
    queries: list[ImportedQuery], complete: bool
) -> None:
    row_of = {name: row for row, name in enumerate(TEXTS) if PART[name] == 0}
    names = {1: "validation", 2: "test", LEFT_OUT: "no part"}
    report = ImportReport()
    made: list[Pair] = []

    def part_of(passage: str) -> str:
        return names[PART[passage]] if passage in PART else ""

    try:
        made += imported_pairs(queries, row_of, part_of, file="f", complete=complete, report=report)
    except InputError:
        assert not made
    assert {pair.positive for pair in made} <= set(row_of.values())
    assert report.read == len(queries)
    assert len(made) + report.left_out.total() == len(queries)


@given(st.dictionaries(st.text(max_size=3), st.dictionaries(st.text(max_size=3), st.integers(-1, 2))))
def test_judgments_give_as_many_queries_as_there_are_grades_above_0(judgments: dict[str, dict[str, int]]) -> None:
    good = sum(grade > 0 for grades in judgments.values() for grade in grades.values())
    assert len(list(judged_queries({}, judgments, file="f"))) == good
