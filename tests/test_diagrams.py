"""Commutative diagrams as SVG: what is read of them, what is left as source, and that nothing gets out of one."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.server.diagrams import _read, as_diagram, diagram_html
from lemmata.server.mathml import formula_html, inline_html, to_html

SQUARE = r"\xymatrix{ A \ar[r]^f \ar[d]_{g'} & B \ar@{->>}[d] \\ C \ar@{^{(}->}[r]_-h & D }"
CD = r"""\begin{tikzcd}[column sep=small] A \arrow[r, "f"] \arrow[d, "g"', hook] & B \arrow[d, dashed] \\
C \ar[r, "{h, k}" description] & D \end{tikzcd}"""


@pytest.mark.parametrize("formula", [SQUARE, CD, rf"\vcenter{{ {SQUARE} }}", f"{SQUARE} ."])
def test_a_square_has_four_objects_and_four_arrows(formula: str) -> None:
    rows, arrows = _read(formula)
    assert rows == [["A", "B"], ["C", "D"]]
    assert [(arrow.start, arrow.end) for arrow in arrows] == [
        ((0, 0), (0, 1)),
        ((0, 0), (1, 0)),
        ((0, 1), (1, 1)),
        ((1, 0), (1, 1)),
    ]


def test_labels_and_styles_of_xymatrix() -> None:
    _, arrows = _read(SQUARE)
    assert [[*map(tuple, arrow.labels)] for arrow in arrows] == [[("f", 1)], [("g'", -1)], [], [("h", -1)]]
    assert [arrow.style for arrow in arrows] == [set(), set(), {"onto"}, {"hook"}]


def test_labels_and_styles_of_tikzcd() -> None:
    _, arrows = _read(CD)
    assert [[*map(tuple, arrow.labels)] for arrow in arrows] == [[("f", 1)], [("g", -1)], [], [("h, k", 0)]]
    assert [arrow.style for arrow in arrows] == [set(), {"hook"}, {"dashed"}, set()]


def test_tikzcd_with_another_ampersand_and_relative_places() -> None:
    rows, arrows = _read(r"\begin{tikzcd}[ampersand replacement=\&] A \& B \ar[from=l, near start] \end{tikzcd}")
    assert rows == [["A", "B"]]
    assert (arrows[0].start, arrows[0].end) == ((0, 0), (0, 1))


def test_arrows_are_bent_shifted_and_long() -> None:
    _, arrows = _read(r"\xymatrix{ A \ar@/^1pc/[rr] \ar@<1ex>[r] \ar@<-1ex>[r]^a & B \ar[r] & C }")
    assert [(arrow.end, arrow.bend > 0, arrow.shift) for arrow in arrows] == [
        ((0, 2), True, 0),
        ((0, 1), False, 5),
        ((0, 1), False, -5),
        ((0, 2), False, 0),
    ]


@pytest.mark.parametrize(
    "formula",
    [
        r"\xymatrix{ A \ar[r] \rtwocell^f_g{t} & B }",  # unknown commands of arrows lead outside
        r"\xymatrix{ A \ar@(ul,ur)[] & B }",
        r"\xymatrix{ A \ar[rrr] & B }",
        r"\operatorname{Coker}( \xymatrix{ A \ar[r] & B } )",
        r"\xymatrix{ A \ar[r] & B",
        r"\begin{tikzcd} A \arrow[r, strange thing] & B \end{tikzcd}",
        r"\begin{tikzcd} A \arrow{r}{f} & B \end{tikzcd}",
        r"\xymatrix{ A & B }",
    ],
)
def test_what_is_not_understood_is_shown_as_source_and_marked(formula: str) -> None:
    assert diagram_html(formula, html.escape) == ""
    shown = formula_html(formula, True)
    assert shown.startswith('<code class="latex" title=')
    assert html.escape(formula.strip()) in shown


def test_a_diagram_stands_alone_in_a_text_and_is_a_word_in_a_line() -> None:
    assert '<span class="display"><span class="drawn"' in to_html(f"Consider ${SQUARE}$ and see.")
    line = inline_html(f"Consider ${SQUARE}$ and see.")
    assert "<svg" not in line
    assert ">diagram</span> and see." in line


def test_objects_are_formulas_and_the_latex_can_be_copied() -> None:
    shown = formula_html(SQUARE, True)
    assert shown.count("<foreignObject") == 7  # objects and labels
    assert shown.count("<math") == 7
    assert f'data-latex="{html.escape(SQUARE)}"' in shown


@given(st.text(alphabet=r"AB\ar[rd]&{}^_@<>/-\"=. xyf', ", max_size=80), st.booleans())
def test_whatever_stands_in_a_diagram_makes_known_elements_only(inside: str, is_tikz: bool) -> None:
    formula = rf"\begin{{tikzcd}}{inside}\end{{tikzcd}}" if is_tikz else rf"\xymatrix{{{inside}}}"
    drawn = as_diagram(formula, html.escape, block=True)
    assert {*re.findall(r"<\s*/?\s*([a-zA-Z]+)", drawn)} <= {"span", "svg", "path", "rect", "foreignObject", "div"}
    assert "nan" not in re.sub(r'data-latex="[^"]*"', "", drawn)
