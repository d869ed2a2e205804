r"""Solutions: in environments, as calls of a macro that counts, or in footnotes; each is shown with its exercise."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import body, lemmata, make_workspace
from tests.served import serving

from lemmata.core.types import Passage, Reading
from lemmata.project import Project

# A workbook with tasks that count, and a chapter of answers to the odd ones, each with the number of its task.
PREAMBLE = r"""\newcounter{task}[section]
\newcounter{answersection}\newcounter{reply}[answersection]
\newcommand{\task}[1]{\refstepcounter{task}\noindent\textbf{\arabic{section}.\arabic{task}%
\label{task_\arabic{section}_\arabic{task}}}\hspace{2mm}#1\par}
\newcommand{\repliesto}[1]{\refstepcounter{answersection}\textbf{\arabic{answersection} #1}}
\newcommand{\reply}[1]{\refstepcounter{reply}\textbf{\ref{task_\arabic{answersection}_\arabic{reply}}}%
\label{reply_\arabic{answersection}_\arabic{reply}}\hspace{2mm}{\small#1}\makebox[0pt]{\refstepcounter{reply}}}
\newtheorem{exercise}{Exercise}
\newtheorem{theorem}{Theorem}
"""
WORKBOOK = r"""\section{Sums}
\textbf{Exercises}

\task{How many apples are in a basket of three?}

\task{Is there a sum without any terms?}

\task{Which sum is the smallest of all?}

\section{Products}
\textbf{Exercises}

\task{Is zero a product of two numbers?}

\section*{Answers}
\repliesto{Sums}

\reply{Three apples, as the basket says.}

\reply{The sum of nothing, which is zero.}

\repliesto{Products}

\reply{Zero is one, of zero and anything.}
"""


def stated(reading: Reading) -> dict[str, Passage]:
    return {each.id: each for each in reading.passages if each.kind not in ("chunk", "part")}


def solutions(source: str) -> dict[str, str]:
    return {identity: each.proof for identity, each in stated(body(source, PREAMBLE)).items()}


def test_a_macro_that_opens_with_the_number_of_an_exercise_is_its_solution() -> None:
    assert solutions(WORKBOOK) == {
        "doc#task-1": "Three apples, as the basket says.",
        "doc#task-2": "",
        "doc#task-3": "The sum of nothing, which is zero.",
        "doc#task-4": "Zero is one, of zero and anything.",
    }
    prose = [each.text for each in body(WORKBOOK, PREAMBLE).passages if each.kind == "chunk"]
    assert not any("apples" in text or "answersection" in text for text in prose)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (  # right after it, with layout between
            r"\begin{exercise}Add.\end{exercise}\medskip\noindent \begin{solution}Two.\end{solution}",
            {"doc#exercise-1": "Two."},
        ),
        (  # inside, and what follows is kept
            r"\begin{exercise}Add (a). \begin{solution}Two.\end{solution} Also (b).\end{exercise}",
            {"doc#exercise-1": "Two."},
        ),
        (  # two of them
            r"\begin{exercise}Add.\end{exercise}\begin{solution}Two.\end{solution}\begin{solution}Zwei.\end{solution}",
            {"doc#exercise-1": "Two.\n\nZwei."},
        ),
        (  # at the end, by reference
            (
                r"\begin{exercise}\label{e}Add.\end{exercise}\begin{exercise}\label{f}Halve.\end{exercise} Some words."
                r"\section{Answers}\begin{solution}[to \ref{e}]Two.\end{solution}"
                r"\begin{solution}[to \ref{f}]One.\end{solution}"
            ),
            {"doc#e": "Two.", "doc#f": "One."},
        ),
        (  # as the package exercise has them
            r"\begin{Exercise}[label={e}]Add.\end{Exercise} Words. \begin{Answer}[ref={e}]Two.\end{Answer}",
            {"doc#e": "Two."},
        ),
        (  # a macro of the book
            (
                r"\newcommand{\solution}[1]{\par\textit{Solution.} #1}"
                r"\begin{exercise}Add one and one.\end{exercise}\solution{It is the number two.}"
            ),
            {"doc#exercise-1": "It is the number two."},
        ),
        (  # a macro that is told the label
            (
                r"\newcommand{\solution}[2]{\textbf{Solution to \ref{#1}.} #2}"
                r"\begin{exercise}\label{e}Add one and one.\end{exercise} Words.\solution{e}{It is the number two.}"
            ),
            {"doc#e": "It is the number two."},
        ),
        (  # of nothing that asks: it stands alone
            r"\begin{theorem}One is one.\end{theorem} Words. \begin{solution}Two.\end{solution}",
            {"doc#theorem-1": "", "doc#solution-1": ""},
        ),
        (  # a proof is no solution, and remains with its theorem
            (
                r"\begin{theorem}One is one.\end{theorem}\begin{proof}Clear.\end{proof}"
                r"\begin{exercise}Add.\end{exercise}\begin{solution}Two.\end{solution}"
            ),
            {"doc#theorem-1": "Clear.", "doc#exercise-1": "Two."},
        ),
    ],
)
def test_a_solution_belongs_to_its_exercise(source: str, expected: dict[str, str]) -> None:
    assert solutions(source) == expected


def test_a_proof_stays_one_and_only_solutions_are_called_so() -> None:
    exercise = r"\begin{exercise}Add.\end{exercise}\begin{%s}Two.\end{%s}"
    named = {kind: stated(body(exercise % (kind, kind), PREAMBLE))["doc#exercise-1"] for kind in ("proof", "answer")}
    assert {kind: (each.proof_name, each.proof) for kind, each in named.items()} == {
        "proof": ("Proof", "Two."),
        "answer": ("Solution", "Two."),
    }


def test_a_solution_without_text_is_none() -> None:
    source = r"\begin{exercise}Add.\end{exercise}\begin{solution}\includegraphics{two}\end{solution}"
    exercise = stated(body(source, PREAMBLE))["doc#exercise-1"]
    assert (exercise.proof, exercise.with_solution) == ("", "Add.")


def test_what_follows_a_solution_inside_an_exercise_is_kept() -> None:
    reading = body(r"\begin{exercise}Add (a). \begin{solution}Two.\end{solution} Also (b).\end{exercise}", PREAMBLE)
    assert stated(reading)["doc#exercise-1"].text == "Add (a). Also (b)."


def test_answers_to_choose_from_are_part_of_the_question() -> None:
    source = r"\begin{exercise}Choose: \begin{answers}\item one \item two\end{answers}\end{exercise}"
    exercise = stated(body(source, PREAMBLE))["doc#exercise-1"]
    assert ("one" in exercise.text, exercise.proof) == (True, "")


def test_the_text_of_a_footnote_that_an_exercise_marks_is_its_solution() -> None:
    source = r"""\begin{drill}Add.\footnotemark\end{drill}
\footnotetext{Two.}
\begin{drill}Halve.\footnotemark{}\end{drill} \begin{drill}Double.\footnotemark\end{drill}
\addtocounter{footnote}{-1}\footnotetext{A half.}\addtocounter{footnote}{1}\footnotetext{Four.}
\begin{drill}Count.\footnote{As you like.}\footnotemark[9]\end{drill}\footnotetext[9]{Ten.}
\begin{theorem}One is one.\footnotemark\end{theorem}\footnotetext{As ever.}"""
    reading = body(source.replace("{drill}", "{exercise}"), PREAMBLE)
    passages = stated(reading)
    assert [each.proof for each in passages.values()] == ["Two.", "A half.", "Four.", "Ten.", ""]
    assert "As you like." in passages["doc#exercise-4"].text
    assert "As ever." in " ".join(each.text for each in reading.passages)


PIECES = (
    r"\begin{exercise}WORD.\end{exercise}", r"\begin{solution}WORD.\end{solution}", r"\footnotemark", " WORD. ",
    r"\footnotetext{WORD.}", r"\begin{theorem}WORD.\end{theorem}", r"\begin{proof}WORD.\end{proof}", "\n\n",
    r"\begin{exercise}WORD \begin{solution}WORD.\end{solution} WORD.\footnotemark\end{exercise}",
    r"\addtocounter{footnote}{-1}",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_no_word_of_exercises_and_solutions_is_lost_or_read_twice(pieces: list[str]) -> None:
    parts = "".join(pieces).split("WORD")
    words = [f"word{number}x" for number in range(len(parts) - 1)]
    source = "".join(part + word for part, word in zip(parts, [*words, ""], strict=True))
    reading = body(source + " The end of this longer text, which says something by itself.", PREAMBLE)
    shown = " ".join(f"{each.text} {each.proof}" for each in reading.passages if each.kind != "part")
    skipped = " ".join(skip.cause for skip in reading.skips)
    for word in words:
        assert shown.count(word) == 1 or "left out" in skipped


DRILL = r"""\newcounter{drill}\newenvironment{exercise}{\refstepcounter{drill}\textbf{Guided Drill~\thedrill}}{}"""
SPONGES = r"""\begin{exercise}Name the largest of all sponges.\footnotemark\end{exercise}
\footnotetext{The loggerhead.}
"""


@pytest.fixture(scope="module")
def workbook(tmp_path_factory: pytest.TempPathFactory) -> Project:
    preamble = PREAMBLE.replace(r"\newtheorem{exercise}{Exercise}", DRILL)
    source = f"\\documentclass{{article}}\n{preamble}\\begin{{document}}{WORKBOOK}\n{SPONGES}\\end{{document}}"
    return make_workspace(tmp_path_factory.mktemp("workbook"), {"book.tex": source}, index="lexical")


def test_the_words_of_a_solution_find_the_exercise_which_shows_it(workbook: Project) -> None:
    hits = json.loads(lemmata("search", "loggerhead", "-w", workbook.root, "--json"))
    assert [(hit["id"], hit["printed"], hit["number"]) for hit in hits] == [("book#exercise-1", "Guided Drill", "1")]
    assert "The loggerhead." in lemmata("search", "loggerhead", "-w", workbook.root)
    assert "Solution. The loggerhead." in lemmata("show", "book#exercise-1", "-w", workbook.root)
    assert not any(
        each["kind"] == "part" for each in json.loads(lemmata("list", "passages", "-w", workbook.root, "--json"))
    )


def test_the_printed_name_stands_wherever_the_number_does(workbook: Project) -> None:
    for command in (("search", "sponges"), ("list", "passages"), ("show", "book"), ("show", "book#exercise-1")):
        assert "Guided Drill 1" in " ".join(lemmata(*command, "-w", workbook.root).split())
    with serving(workbook.root) as client:
        answer = client.get(f"/passages/{quote('book#exercise-1', safe='')}").json()
        shown = {name: answer[name] for name in ("printed", "number", "proof", "proof_name")}
        assert shown == {"printed": "Guided Drill", "number": "1", "proof": "The loggerhead.", "proof_name": "Solution"}
        assert answer["latex"] == r"\cite[{Guided Drill 1}]{book}"
        assert answer["latex_text"].endswith("Solution. The loggerhead.")
        hits = client.post("/search", json={"query": "sponges"}).json()["hits"]
        assert (hits[0]["printed"], hits[0]["number"]) == ("Guided Drill", "1")
