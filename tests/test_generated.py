from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import body

from lemmata.latex.generated import plain_names, written_loops

BF = r"\newcommand{\makebf}[1]{\expandafter\newcommand\csname bf#1\endcsname{\mathbf{#1}}}"


def text_of(preamble: str, statement: str) -> str:
    """What is read of a theorem of a paper."""
    reading = body(f"\\begin{{theorem}}{statement}\\end{{theorem}}", "\\newtheorem{theorem}{Theorem}" + preamble)
    return next(passage.text for passage in reading.passages if passage.kind == "theorem")


@pytest.mark.parametrize(
    ("preamble", "formula", "expected"),
    [
        (r"\expandafter\newcommand\csname half\endcsname{\frac12}", r"$\half$", r"$\frac12$"),
        (r"\expandafter\def\csname half\endcsname#1{\frac{#1}2}", r"$\half{x}$", r"$\frac{x}2$"),
        (r"\global\expandafter\let\csname eps\endcsname\varepsilon", r"$\eps$", r"$\varepsilon$"),
        (r"\@namedef{half}{\frac12}", r"$\half$", r"$\frac12$"),
        (r"\csdef{half}#1{\frac{#1}2}", r"$\half{x}$", r"$\frac{x}2$"),
        (BF + r"\makebf{A}\makebf{b}", r"$\bfA\bfb$", r"$\mathbf{A}\mathbf{b}$"),
        (BF + r"\newcommand{\both}[1]{\makebf{#1}\makebf{x#1}}\both{A}", r"$\bfA\bfxA$", r"$\mathbf{A}\mathbf{xA}$"),
        (r"\def\operator#1{\@namedef{#1}{\operatorname{#1}}}\operator{Hom}", r"$\Hom(A)$", r"$\operatorname{Hom}(A)$"),
        (r"\newcommand{\short}[2]{\newcommand#1{\mathcal{#2}}}\short\cA A", r"$\cA$", r"$\mathcal{A}$"),
        (
            (r"\newcommand*{\pair}{\@dblarg\@pair}\def\@pair[#1]#2{\expandafter\newcommand\csname B#2\endcsname{B#1}}"
            r"\pair{G}\pair[\Sigma]{SG}"),
            r"$\BG$, $\BSG$",
            r"$BG$, $B\Sigma$",
        ),
        (r"\newcommand{\maker}[2]{\newcommand#1[1]{\@namedef{#2##1}{\mathbb{##1}}}}\maker\bb{b}\bb{R}",
         r"$\bR$", r"$\mathbb{R}$"),
        (BF + r"\forcsvlist{\makebf}{A,B, C}", r"$\bfA\bfC$", r"$\mathbf{A}\mathbf{C}$"),
        (r"\renewcommand*{\do}[1]{\csdef{bf#1}{\mathbf{#1}}}\docsvlist{A,B}", r"$\bfB$", r"$\mathbf{B}$"),
        (r"\@for\x:=A,B\do{\expandafter\edef\csname bf\x\endcsname{\noexpand\mathbf{\x}}}", r"$\bfA$", r"$\mathbf{A}$"),
        (r"\@tfor\x:=ABC\do{\def\make#1{\@namedef{c#1}{\mathcal{#1}}}\expandafter\make\x}",
         r"$\cB$", r"$\mathcal{B}$"),
        (r"\foreach \x in {A,...,Z}{\expandafter\xdef\csname\x\x\endcsname{\noexpand\mathbb{\x}}}",
         r"$\AA\RR$", r"$\mathbb{A}\mathbb{R}$"),
        (BF + r"\forLoop{1}{26}{ct}{\edef\letter{\Alph{ct}}\expandafter\makebf\letter}", r"$\bfZ$", r"$\mathbf{Z}$"),
        (BF + r"\def\all#1{\ifx#1\all\else\makebf#1\expandafter\all\fi}\all ABC\all", r"$\bfC$", r"$\mathbf{C}$"),
        ((r"\def\greek#1{\expandafter\def\csname bf#1\endcsname{\boldsymbol{\csname #1\endcsname}}}"
         r"\def\all#1{\ifx\all#1\else\greek{#1}\expandafter\all\fi}\all{alpha}{beta}\all"),
         r"$\bfbeta$", r"$\boldsymbol{\beta}$"),
    ],
)  # fmt: skip
def test_definitions_made_by_macros_and_loops_are_read(preamble: str, formula: str, expected: str) -> None:
    assert text_of(preamble, f"Let {formula} be.") == f"Let {expected} be."


def test_what_a_macro_defines_in_the_text_counts_from_there_on() -> None:
    assert text_of(BF, r"First $\bfA$,\makebf{A} then $\bfA$.").startswith("First $\\bfA$, then $\\mathbf{A}$")


def test_a_macro_that_makes_calls_of_itself_ends() -> None:
    grows = r"\def\twice#1{\newcommand#1{x}\twice#1\twice#1\twice#1}\twice\a"
    assert "Let" in text_of(grows, "Let.")


@given(st.text(st.sampled_from("\\{}#1Ax ,.=:") | st.sampled_from(string.ascii_letters), max_size=200))
def test_text_without_such_definitions_stays(text: str) -> None:
    assert plain_names(text) == []
    assert written_loops(text, frozenset()) == []


PIECES = [
    r"\expandafter", r"\csname ", r"\endcsname", r"\@namedef", r"\def", r"\newcommand", r"\let", r"\make", r"\all", "{",
    "}", "#1", "##1", "[1]", r"\@for\x:=", r"\@tfor\x:=", r"\do", r"\foreach \x in ", r"\x", "A,...,Z",
    r"\forLoop{1}{26}{ct}", r"\forcsvlist", r"\def\all#1{\ifx#1\all\else\make#1\expandafter\all\fi}", BF,
    r"\makebf", "A", " ", r"\edef\y{A}", r"\y",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_any_mixture_of_such_commands_is_read_and_stays_small(preamble: str) -> None:
    text = text_of(preamble + "}" * preamble.count("{"), r"Let $\bfA$ be.")
    assert len(text) < 1_000_000


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_plain_names_stay_plain(text: str) -> None:
    for begin, end, written in reversed(edits := plain_names(text)):
        text = text[:begin] + written + text[end:]
    assert not edits or all(edit not in edits for edit in plain_names(text))
