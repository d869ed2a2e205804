"""Statements that are written as calls of a macro, and the printed names of environments."""

from __future__ import annotations

import contextlib
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import body, lemmata, make_workspace

from lemmata.core.types import Passage, Reading
from lemmata.corpus.corpus import Corpus
from lemmata.latex.calls import calls_as_environments
from lemmata.latex.expand import Opening
from lemmata.latex.kinds import Kind, printed_before_number
from lemmata.project import Project
from lemmata.search.exact import missing_number

# A workbook: practice in environments, and tasks as calls, which print a number and no name, under a heading that is
# a macro. An environment that is called like a macro takes the text as its last argument.
PREAMBLE = r"""\newcounter{task}[section]\renewcommand{\thetask}{\arabic{section}.\arabic{task}}
\newcounter{drill}[section]\renewcommand{\thedrill}{\thesection.\arabic{drill}}
\newcommand{\tasks}[1][Exercises]{\bigskip\textbf{\large #1}\par}
\newcommand{\drillname}[1]{\textbf{\small\MakeUppercase{Guided Drill~#1}}}
\newenvironment{drill}{\refstepcounter{drill}\drillname{\thedrill}}{}
\newenvironment{exercise}{\refstepcounter{drill}\drillname{\thedrill}}{}
\newenvironment{task}[2][]{\refstepcounter{task}\noindent\textbf{\thetask\label{task_\arabic{section}_\arabic{task}}}
#1#2

\addvspace{4mm}}{}
"""
BODY = r"""\section{Sums}
\begin{exercise}Add one and one.\end{exercise}

\tasks{}

\task{\textbf{Apples\label{apples}.} A basket has three apples.
\begin{enumerate}\item How many remain after two are eaten?

\item And after three?\end{enumerate}}{}

\task[(Hard) ]{[A question in brackets.] Is there a sum without terms?}{}

Some prose between the parts, which stays prose.

\section{Products}
\begin{exercise}Double two.\end{exercise}
\tasks{}

\task{Is zero a product?}{}
"""


def by_id(reading: Reading) -> dict[str, Passage]:
    return {passage.id: passage for passage in reading.passages if passage.kind != "chunk"}


def test_calls_of_a_macro_that_steps_a_counter_are_exercises_with_their_numbers() -> None:
    reading = body(BODY, PREAMBLE)
    passages = by_id(reading)
    assert {identity: (p.kind, p.number) for identity, p in passages.items()} == {
        "doc#exercise-1": ("exercise", "1.1"),
        "doc#apples": ("exercise", "1.1"),
        "doc#task-2": ("exercise", "1.2"),
        "doc#exercise-2": ("exercise", "2.1"),  # calls do not count among the environments
        "doc#task-3": ("exercise", "2.1"),
    }
    apples = passages["doc#apples"]
    assert apples.text.startswith("Apples. A basket")
    assert apples.text.endswith("And after three?")
    lines = PREAMBLE.count("\n") + 3
    first = BODY[: BODY.index("\\task{")].count("\n") + lines
    assert (apples.first_line, apples.last_line) == (first, first + 3)
    assert passages["doc#task-2"].text.endswith("[A question in brackets.] Is there a sum without terms?")
    prose = " ".join(passage.text for passage in reading.passages if passage.kind == "chunk")
    assert "stays prose" in prose
    assert not any(word in prose for word in ("basket", "without terms", "zero"))


@pytest.mark.parametrize(
    ("definition", "call", "kind", "title"),
    [
        (
            r"\newcommand{\exo}[1]{\refstepcounter{exo}\textbf{Exercise \theexo.} #1\par}",
            r"\exo{Show it.}",
            "exercise",
            "",
        ),
        (
            r"\newcommand{\exo}[1]{\stepcounter{exo}\textbf{Problem \theexo.} {\small #1}}",
            r"\exo{Show it.}",
            "problem",
            "",
        ),
        (
            r"\newcommand{\exo}[2][]{\refstepcounter{exo}\textbf{Exercise \theexo{} (#1).} #2}",
            r"\exo[Sums of squares]{Show it.}",
            "exercise",
            "Sums of squares",
        ),
        (
            r"\newcommand{\head}{\refstepcounter{exo}\textbf{Question \theexo}}\newcommand{\exo}[1]{\head #1}",
            r"\exo{Show it.}",
            "question",
            "",
        ),
        (
            r"\NewDocumentCommand{\exercise}{+m}{\refstepcounter{exo}\theexo. #1}",
            r"\exercise{Show it.}",
            "exercise",
            "",
        ),
    ],
)
def test_the_kind_is_what_the_macro_prints_or_is_called(definition: str, call: str, kind: str, title: str) -> None:
    (passage,) = by_id(body(f"Words.\n\n{call}\n\nMore words.", r"\newcounter{exo}" + definition)).values()
    assert (passage.kind, passage.number, passage.title, passage.text) == (kind, "1", title, "Show it.")


@pytest.mark.parametrize(
    "definition",
    [
        r"\newcommand{\exo}[1]{\refstepcounter{exo}\textbf{Exercise \theexo: #1}}",  # a title
        r"\newcommand{\exo}[1]{\refstepcounter{exo}\theexo\footnote{Exercise: #1}}",
        r"\newcommand{\exo}[1]{\refstepcounter{exo}\theexo. #1}",  # nothing says what it is
        r"\newcommand{\exo}[1]{\textbf{Exercise.} #1}",
        r"\newcommand{\exo}[1]{\refstepcounter{exo}Exercise #1 and #1}",
    ],
)
def test_other_macros_stay_in_the_prose(definition: str) -> None:
    reading = body(r"Words.\exo{Show that it holds.} More words.", r"\newcounter{exo}" + definition)
    assert not by_id(reading)
    assert "Show that it holds" in reading.passages[0].text


def test_a_macro_whose_arguments_are_titles_stays_in_the_prose() -> None:
    definition = r"\newcounter{exo}\newcommand{\exo}[1]{\refstepcounter{exo}\textbf{Exercise \theexo} #1}"
    assert not by_id(body(r"\exo{Sums} Show it. \exo{Products} Show it, too.", definition))


def test_words_in_prose_announce_nothing() -> None:
    definition = r"\newcounter{pic}\newcommand{\pic}[1]{\refstepcounter{pic}\thepic. #1}"
    assert not by_id(body(r"A picture says more than any exercise \pic{A long line is drawn.}", definition))


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(["\\exo", "{", "}", "[", "]", "a.", "\n\n", "\\begin{exo}", "\\end{exo}", "\\"]), max_size=40
    )
)
def test_any_calls_are_body(pieces: list[str]) -> None:
    text = "".join(pieces)
    kind = Kind("exercise", "call", opening=Opening("\\refstepcounter{exo}#1", (("o", ""),)))
    edits = sorted(calls_as_environments(text, 0, {"exo": kind}))
    assert all(begin < end for begin, end, _ in edits)
    assert all(one[1] <= other[0] for one, other in pairwise(edits))
    definition = r"\newcounter{exo}\newcommand{\exo}[2][]{\refstepcounter{exo}\textbf{Exercise \theexo} #1 #2}"
    assert body(text, definition).documents


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (r"\thesection.\arabic{drill}", "1.1"),  # the counter itself is printed as 1
        (r"\thesheet", "1.1"),
        (r"\arabic{drill} of Section \thesubsection", "1"),
        (r"\thesubsection: \thedrill", "1"),
    ],
)
def test_the_number_is_what_the_opening_prints(number: str, expected: str) -> None:
    preamble = r"\newcounter{drill}\newcommand{\thesheet}{\thesection.\arabic{drill}}"
    preamble += rf"\newenvironment{{exercise}}{{\refstepcounter{{drill}}\textbf{{Drill {number}}}}}{{}}"
    reading = body(r"\section{A}\subsection{B}\begin{exercise}Add.\end{exercise}", preamble)
    assert [passage.number for passage in by_id(reading).values()] == [expected]


# ---------------------------------------------------------------- printed names


@pytest.mark.parametrize(
    ("opening", "name"),
    [
        (r"\refstepcounter{drill}\textbf{\color{red}Guided Drill~\thedrill}", "Guided Drill"),
        (r"\vspace{3mm}\textbf{Checkpoint}\ \arabic{drill}", "Checkpoint"),
        (r"\begin{tcolorbox}[colback=red,title=Try It \thetry: #1]", "Try It"),
        (r"\refstepcounter{drill}\color{red}\thedrill", ""),
        (r"\textbf{Hint}", ""),
        ("", ""),
    ],
)
def test_the_name_is_what_stands_before_the_number(opening: str, name: str) -> None:
    assert printed_before_number(opening) == name


@pytest.fixture(scope="module")
def workbook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = f"\\documentclass{{article}}{PREAMBLE}\\begin{{document}}{BODY}\\end{{document}}"
    return make_workspace(tmp_path_factory.mktemp("workbook"), {"book.tex": source}, index="lexical").root


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Guided Drill 1.1", "book#exercise-1"),
        ("guided drill 2.1 of book", "book#exercise-2"),
        ("Exercise 1.1", "book#apples"),  # of two, the one that is not printed under another name
        ("exercise 1.2", "book#task-2"),
    ],
)
def test_a_query_by_printed_name_and_number_comes_first(workbook: Path, query: str, first: str) -> None:
    assert json.loads(lemmata("search", query, "-w", workbook, "--json"))[0]["id"] == first


def test_the_printed_name_is_shown_and_missed(workbook: Path) -> None:
    assert "Guided Drill 1.1" in lemmata("show", "book#exercise-1", "-w", workbook)
    with contextlib.closing(Corpus(Project(workbook))) as corpus:
        assert "Guided Drill 9.9" in missing_number(corpus, "Guided Drill 9.9")
        assert not missing_number(corpus, "Guided Drill 2.1")
        assert not missing_number(corpus, "Guided Tour 9.9")
