"""The recipe of lemmata-mini: what it does with its data before lemmata's own commands take over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recipes.lemmata_mini.make import audited

WRITTEN = [
    ("a#1", "When is a Noetherian ring catenary?"),
    ("a#2", "every finite map of schemes is proper and closed under base change"),
    ("a#3", "vanishing of higher direct images under a finite map"),
    ("a#4", "which modules over a valuation ring are flat"),
    ("b#8", "a passage that answers a query of validation"),
]


def test_written_queries_that_repeat_a_query_of_validation_are_dropped_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, out = tmp_path / "w.jsonl", tmp_path / "kept" / "w.jsonl"
    records = [{"passage": passage, "query": query} for passage, query in WRITTEN]
    written.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    first, second = tmp_path / "queries.tsv", tmp_path / "generated.tsv"
    first.write_text("query\tid\nwhen is a  noetherian ring CATENARY ?\tb#7\nsomething else\tb#8\n", encoding="utf-8")
    second.write_text(
        "query\tid\nevery finite map of schemes is proper and closed under base change always\tb#9\n", encoding="utf-8"
    )
    assert audited(written, [first, second], out) == out
    kept = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert kept == records[2:4]
    report = capsys.readouterr().out
    assert "1 of 5 queries dropped: about an answer of validation or test" in report
    assert "2 of 4 queries dropped: 1 equal, 1 near" in report
    assert "of queries.tsv" in report
    assert "of generated.tsv" in report


def test_a_second_audit_with_the_same_result_leaves_the_file_alone(tmp_path: Path) -> None:
    written, out = tmp_path / "w.jsonl", tmp_path / "kept.jsonl"
    written.write_text(json.dumps({"passage": "a#1", "query": "flat modules"}) + "\n", encoding="utf-8")
    before = audited(written, [], out).stat()
    assert out.read_bytes() == written.read_bytes()
    assert audited(written, [], out).stat() == before
