"""The counter of bench/latex_counts.py, which knows nothing of lemmata."""

from __future__ import annotations

import pytest
from bench.latex_counts import damage, main_file


def test_a_main_file_that_is_not_there_is_an_error() -> None:
    assert main_file("main.tex", {"paper/main.tex": "", "other.tex": ""}) == "paper/main.tex"
    with pytest.raises(FileNotFoundError, match=r"gone\.tex"):
        main_file("gone.tex", {"main.tex": ""})


@pytest.mark.parametrize(
    ("text", "drawings"),
    [
        ("a dot (0,0) circle (1pt); here", 1),
        ("a line (-1, 0) – (5, 0);", 1),
        ("the point (0, 0) is on the circle", 0),
    ],
)
def test_drawings_in_a_line_are_counted_too(text: str, drawings: int) -> None:
    assert damage(iter([("chunk", text)]))["drawings"] == drawings
