"""The one printer: records as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from lemmata.cli.printer import print_record


def printed(capsys: pytest.CaptureFixture[str], record: Any, **options: Any) -> list[str]:
    print_record(record, **options)
    return capsys.readouterr().out.splitlines()


def test_values_are_lines_and_what_says_nothing_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    record = {"passages": 12345, "by_kind": {"lemma": 2, "theorem": 3}, "title": "", "none": None, "kept": False}
    assert printed(capsys, record) == ["passages  12,345", "by kind   3 theorem, 2 lemma", "kept      no"]


def test_records_by_name_are_a_table_with_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    record = {"parts": {"train": {"rows": 1200, "p": 0.25}, "test": {"rows": 7, "p": 12.0}}}
    assert printed(capsys, record) == ["parts   rows     p", "train  1,200  0.25", "test       7    12"]


def test_notes_come_last_and_a_list_is_a_table_without_empty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"key": "Gordon", "year": 1961, "target": None}, {"key": "RR", "year": None, "target": None}]
    record = {"notes": ["out of date: [pdf]"], "entries": rows}
    assert printed(capsys, record) == ["key     year", "Gordon  1961", "RR", "out of date: [pdf]"]


def test_only_what_is_shown_is_printed_also_from_an_inner_record(capsys: pytest.CaptureFixture[str]) -> None:
    record = {"seconds": {"all": 123.4, "mining": 1.0}, "tried": [{"weight": 1}], "kept": True}
    assert printed(capsys, record, shown=("kept", "seconds.all")) == ["kept  yes", "all   123"]


def test_long_texts_are_cut_in_tables_and_line_breaks_are_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(printed(capsys, [{"id": "a", "text": "x\ny" * 100}]))
    assert text.startswith("id  text a   x yx y")
    assert text.endswith("…")


def test_nothing_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, [], empty="no merges") == ["no merges"]
    assert printed(capsys, {}, empty="no models yet") == ["no models yet"]
