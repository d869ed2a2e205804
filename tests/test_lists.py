"""Items of lists and displayed formulas stand on lines of their own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import body

from lemmata.latex.clean import clean
from lemmata.latex.sentences import chunks, formulas, sentences


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ("", "(1) (2) (3) (4)"),
        ("[(a)]", "(a) (b) (c) (d)"),
        ("[I.]", "I. II. III. IV."),
        ("[i)]", "i) ii) iii) iv)"),
        (r"[label=(\roman*)]", "(i) (ii) (iii) (iv)"),
        (r"[label={\textbf{\Alph*.}}, leftmargin=2em]", "A. B. C. D."),
        (r"[\arabic*.]", "1. 2. 3. 4."),
        (r"[start=7]", "(7) (8) (9) (10)"),
        (r"[label=$(\alph*)$]", "(a) (b) (c) (d)"),
        ("[leftmargin=*]", "(1) (2) (3) (4)"),
        ("[<+->]", "(1) (2) (3) (4)"),
    ],
)
def test_items_have_the_labels_that_the_list_asks_for(options: str, labels: str) -> None:
    items = "".join(f"\\item word{n} " for n in range(4))
    lines = clean(f"\\begin{{enumerate}}{options}{items}\\end{{enumerate}}").text.split("\n")
    assert lines == [f"{label} word{n}" for n, label in enumerate(labels.split())]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            (
                r"Then \begin{enumerate}\item a \begin{enumerate}\item x \begin{itemize}\item y\end{itemize} z"
                r"\end{enumerate}\item b\end{enumerate} holds."
            ),
            "Then\n(1) a\n  (a) x\n    • y\nz\n(2) b\nholds.",
        ),
        (r"\begin{description}\item[Ring] one \item[Field] two\end{description}", "Ring one\nField two"),
        (r"either \begin{inparaenum}\item a or \item b\end{inparaenum} holds", "either (1) a or (2) b holds"),
        (r"We have \[ x = y \]. Then $$ z $$ , so", "We have\n$x = y$.\nThen\n$z$,\nso"),
        (r"Let \begin{align*} a &= b \\ c &= d \end{align*} hold.", "Let\n$a &= b \\\\ c &= d$\nhold."),
        (r"\begin{tabular}{ll} a & b \\ \hline c & d \end{tabular}", "a b\nc d"),
    ],
)
def test_items_formulas_and_rows_stand_on_lines_of_their_own(source: str, text: str) -> None:
    assert clean(source).text == text


def test_references_at_the_end_of_lines_keep_the_lines() -> None:
    result = clean(r"If \begin{enumerate}\item by \ref{a} \item \ref{b} holds\end{enumerate}")
    assert result.text == "If\n(1) by\n(2) holds"
    assert result.shown()[0] == "If\n(1) by a\n(2) b holds"


def test_a_list_of_the_paper_is_a_list() -> None:
    preamble = (
        r"\newenvironment{parts}{\begin{enumerate}[(a)]\setlength{\itemsep}{0mm}}{\end{enumerate}}"
        r"\newlist{steps}{enumerate}{1}\setlist[steps]{label=Step \arabic*:}"
    )
    reading = body(
        r"\begin{lemma} \begin{parts}\item one\item two\end{parts}"
        r"\begin{steps}\item go\item stop\end{steps}\end{lemma}",
        preamble,
    )
    assert reading.passages[0].text == "(a) one\n(b) two\nStep 1: go\nStep 2: stop"


def test_items_are_counted_across_the_paragraphs_of_prose() -> None:
    reading = body("We need\n\\begin{enumerate}\n\\item one,\n\nmore of it,\n\n\\item two.\n\\end{enumerate}\n")
    assert re.findall(r"(?m)^\(\d\) \w+", reading.passages[0].text) == ["(1) one", "(2) two"]


def test_sentences_and_chunks_cope_with_lines() -> None:
    text = clean(r"Assume \begin{enumerate}\item $x=1$, \item $y=2$.\end{enumerate} Then \[x+y=3.\] Fine.").text
    assert [text[begin:end] for begin, end in sentences(text)][-1] == "Fine."
    for begin, end in chunks(text, 20, 0):
        assert text[begin:end].count("$") % 2 == 0


FRAGMENTS = st.lists(
    st.sampled_from(
        ["\\begin{enumerate}", "\\end{enumerate}", "\\begin{itemize}[(a)]", "\\end{itemize}", "\\item", "\\item[x]",
         "\\[x\\]", "$$y$$.", "word", "\n\n", "\\ref{a}", "{", "}", "$z$", "\\begin{tabular}{l}", "\\end{tabular}",
         "\\\\", "\x0b", "\x0e"]
    ),
    max_size=30,
)  # fmt: skip


@given(FRAGMENTS)
def test_no_line_is_empty_and_no_mark_is_left(fragments: list[str]) -> None:
    text = clean(" ".join(fragments)).text
    assert not set(text) & set("\x00\x01\x02\x03\x0b\x0e")
    assert all(line.strip() for part in text.split("\n\n") for line in part.split("\n")) or not text
    assert all("\n" not in text[begin:end] for begin, end in formulas(text))
