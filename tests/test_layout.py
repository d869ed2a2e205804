"""What LaTeX draws is no text, and what only places text is no statement."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import body, is_linear, write

from lemmata.core.types import Reading
from lemmata.ingest.readers import IngestOptions
from lemmata.ingest.sources import find_units


def text_of(reading: Reading) -> str:
    return "\n".join(f"{passage.title} {passage.text} {passage.proof}" for passage in reading.passages)


def statements(reading: Reading) -> dict[str, str]:
    return {p.id: p.kind for p in reading.passages if p.kind not in ("chunk", "abstract")}


DRAWINGS = {
    "tikzpicture": "\\draw[->] (-1,0) -- (5,0) node[right] {$x$};\n\n\\draw (0,0) circle (2pt);",
    "tikzpicture*": "\\node at (0,0) {zzz};\n\n  \n\\node at (1,1) {zzz};",
    "asy": "import graph;\n\nsize(5cm);\ndraw((0,0)--(1,1), Arrow);",
    "pspicture": "(0,0)(4,4)\n\n\\psline{->}(0,0)(4,0)",
    "picture": "(40,40)\n\n\\put(0,0){\\line(1,0){40}}",
    "pgfpicture": "\\pgfpathmoveto{\\pgfpoint{0cm}{0cm}}\n\n\\pgfusepath{stroke}",
    "circuitikz": "\\draw (0,0) to[R] (2,0);\n\n\\draw (2,0) to[C] (2,2);",
}
LEAKED = re.compile(r"draw|node|psline|put|pgf|circle|size\(|zzz|->|--")


@pytest.mark.parametrize("name", DRAWINGS)
@pytest.mark.parametrize("around", ["{}", "\\begin{{figure}}\n{}\n\n\\caption{{A curve.}}\n\\end{{figure}}"])
def test_a_drawing_with_blank_lines_is_cut_whole_and_leaves_its_caption(name: str, around: str) -> None:
    drawing = around.format(f"\\begin{{{name}}}{DRAWINGS[name]}\\end{{{name}}}")
    reading = body(f"Consider the curve of degree three.\n\n{drawing}\n\nIt has a cusp at the origin.")
    text = text_of(reading)
    assert not LEAKED.search(text)
    assert "Consider the curve of degree three." in text
    assert "It has a cusp at the origin." in text
    assert ("A curve." in text) == ("caption" in around)
    assert [skip.cause for skip in reading.skips] == ["1 drawing was left out: its code is no text"]
    causes = [skip.cause for skip in body(f"Two. {drawing}\n\n{drawing}").skips]
    assert "2 drawings were left out: their code is no text" in causes


def test_a_drawing_inside_a_drawing_and_an_inline_one_are_cut() -> None:
    inner = "\\begin{tikzpicture}\\draw (1,1);\\end{tikzpicture}"
    outer = f"\\begin{{tikzpicture}}\\node {{{inner}}};\n\n\\draw (0,0);\\end{{tikzpicture}}"
    reading = body(f"Before {outer} after \\tikz[baseline]{{\\draw (0,0);}} and \\tikz \\draw (0,0) -- (1,1); it ends.")
    assert text_of(reading).split() == "Before after and it ends.".split()


def test_an_environment_of_the_author_that_opens_a_drawing_is_cut() -> None:
    preamble = (
        r"\newenvironment{sketch*}[1]{\begin{center}\begin{tikzpicture}[scale=#1]}{\end{tikzpicture}\end{center}}"
    )
    reading = body("One.\n\n\\begin{sketch*}{2}\n\\draw (0,0);\n\n\\draw (1,1);\n\\end{sketch*}\n\nTwo.", preamble)
    assert text_of(reading).split() == ["One.", "Two."]


def test_macros_that_open_and_close_a_drawing_are_followed() -> None:
    preamble = r"\newcommand{\bpic}{\begin{tikzpicture}}\newcommand{\epic}{\end{tikzpicture}}"
    assert text_of(body("One.\n\n\\bpic\n\\draw (0,0);\n\n\\draw (1,1);\n\\epic\n\nTwo.", preamble)).split() == [
        "One.",
        "Two.",
    ]


def test_a_statement_that_is_framed_by_a_drawing_is_read() -> None:
    reading = body(
        "Some prose here.\n\n\\begin{tikzpicture}\\node[mybox] (b) {\\begin{minipage}{5cm}\n\n"
        "\\begin{theorem}\\label{t} All is well.\\end{theorem}\\end{minipage}};\n\n\\end{tikzpicture}\n\nMore prose."
    )
    assert statements(reading) == {"doc#t": "theorem"}
    assert not re.search("mybox|minipage|5cm", text_of(reading))


def test_a_drawing_that_never_ends_is_a_note_and_loses_no_statement() -> None:
    reading = body("\\begin{tikzpicture}\\draw (0,0);\n\n\\begin{lemma} Yes.\\end{lemma}")
    assert list(statements(reading).values()) == ["lemma"]
    assert any("tikzpicture" in skip.cause for skip in reading.skips)


def test_verbatim_text_with_blank_lines_stays_verbatim() -> None:
    reading = body("Type this:\n\n\\begin{verbatim}\n\\emph{a}\n\n\\textbf{b}\n\\end{verbatim}\n\nThen compile.")
    assert "\\emph{a}" in text_of(reading)
    assert "\\textbf{b}" in text_of(reading)


@pytest.mark.parametrize(
    "name",
    "samepage minipage multicols spacing center adjustwidth flushleft tcolorbox mdframed quote columns column".split(),
)
def test_layout_around_statements_is_none(name: str) -> None:
    argument = {"minipage": "[t]{5cm}", "multicols": "{2}", "spacing": "{1.5}", "adjustwidth": "{1cm}{0cm}"}.get(
        name, ""
    )
    source = "\n\n".join(
        f"\\begin{{{name}}}{argument}\\label{{s{n}}}\n"
        f"\\begin{{corollary}}[Case {n}]\\label{{c{n}}} True for $n={n}$.\\end{{corollary}}\n\\end{{{name}}}"
        for n in range(5)
    )
    reading = body(source)
    assert statements(reading) == {f"doc#c{n}": "corollary" for n in range(5)}
    assert not re.search(r"cm|1\.5", text_of(reading))


def test_a_label_inside_layout_is_that_of_the_statement_around_it() -> None:
    reading = body(r"\begin{corollary}\begin{minipage}{5cm}\label{c} True.\end{minipage}\end{corollary}")
    assert statements(reading) == {"doc#c": "corollary"}


def test_a_wrapped_statement_counts_once_with_the_inner_kind() -> None:
    preamble = r"\newtheorem{examplewrap}{Box}\newtheorem{example}{Example}"
    reading = body(
        r"\begin{examplewrap}[Dice]\begin{example}\label{e} Roll a die.\end{example}\end{examplewrap}"
        r"\begin{examplewrap} Text first. \begin{example}\label{f} Again.\end{example}\end{examplewrap}",
        preamble,
    )
    assert statements(reading) == {"doc#e": "example", "doc#box-1": "box", "doc#f": "example"}
    assert {p.id: p.title for p in reading.passages}["doc#e"] == "Dice"


def test_an_environment_that_steps_a_counter_is_a_statement_and_its_question_is_text() -> None:
    preamble = (
        r"\newenvironment{nexample}[1]{\refstepcounter{equation}\exampletitle{\theexample} #1}{}"
        r"\newenvironment{task}{\refstepcounter{task}\textbf{\thetask}}{}"
        r"\newenvironment{examplewrap}{\begin{mdframed}}{\end{mdframed}}"
    )
    reading = body(
        r"\begin{examplewrap}\begin{nexample}{What is the chance of a six?}\label{six}One sixth.\end{nexample}"
        r"\end{examplewrap} \begin{task} Count. \end{task}",
        preamble,
    )
    assert statements(reading) == {"doc#six": "example", "doc#task-1": "task"}
    assert next(p for p in reading.passages if p.id == "doc#six").text.split() == (
        "What is the chance of a six? One sixth.".split()
    )


def test_overlays_of_slides_are_no_text() -> None:
    reading = body(
        r"\begin{frame}{Primes}\begin{theorem}<2->[Euclid]\label{p} There are many.\end{theorem}"
        r"\begin{itemize}\item<1-> First \only<2>{then} last\end{itemize}\end{frame}"
    )
    assert [(p.kind, p.title) for p in reading.passages if p.id == "doc#p"] == [("theorem", "Euclid")]
    assert not re.search(r"<|>", text_of(reading))


FRAGMENTS = st.sampled_from(
    ["\\begin{tikzpicture}", "\\end{tikzpicture}", "\n\n", "\\draw (0,0);", "Words here.", "\\begin{lemma}",
     "\\end{lemma}", "\\begin{figure}", "\\end{figure}", "\\caption{C}", "\\begin{verbatim}", "\\end{verbatim}",
     "\\tikz", ";", "{", "}", "\\begin{samepage}", "\\end{samepage}", "\\label{a}"]
)  # fmt: skip


@given(st.lists(FRAGMENTS, max_size=30))
def test_any_mixture_is_read(fragments: list[str]) -> None:
    reading = body(" ".join(fragments))
    assert len({passage.id for passage in reading.passages}) == len(reading.passages)


@pytest.mark.parametrize(
    "fragment", ["\\begin{tikzpicture}", "\\begin{asy}\n\n", "\\tikz ", "\\begin{samepage}\\begin{lemma}"]
)
def test_hostile_repetition_takes_linear_time(fragment: str) -> None:
    assert is_linear(lambda size: body(fragment * size), 5_000)


# ---------------------------------------------------------------- titles, and what lies beside a paper


@pytest.mark.parametrize(
    "page",
    [
        r"\vspace*{3cm}{\Huge\bfseries The Art of \\[2mm] Counting\footnote{Draft.}}\\{\Large A. Author}",
        r"\centering \Large A. Author\par\vspace{1cm} \Huge The Art of Counting\par \vfill \large 2020",
        r"\begin{center}\textbf{\huge The Art of Counting}\end{center} {\LARGE }",
    ],
)
def test_a_title_page_that_is_set_by_hand_gives_the_title(page: str) -> None:
    (document,) = body(f"\\begin{{titlepage}}{page}\\end{{titlepage}} Words.").documents
    assert document.title == "The Art of Counting"


def test_footnotes_are_no_part_of_titles() -> None:
    reading = body(
        r"\title{Sums\footnote{Funded by \cite{F}.}}\section{One\footnote{Or two.}}"
        r"\begin{lemma}[Gauss\footnote{In 1801, see \ref{x}.}]\label{l} Yes.\end{lemma}"
    )
    lemma = next(passage for passage in reading.passages if passage.id == "doc#l")
    assert (reading.documents[0].title, lemma.section, lemma.title) == ("Sums", "One", "Gauss")
    assert [link.label for link in lemma.links] == ["x"]


def test_data_of_plots_beside_tex_is_a_note(tmp_path: Path) -> None:
    paper = r"\documentclass{article}\begin{document} Words and more words. \end{document}"
    logs = "id,text\n1,The pump leaks at its seal.\n"
    write(tmp_path, {"paper.tex": paper, "data/curve.csv": "x,y\n1,2\n2,4\n", "data/logs.csv": logs})
    source = find_units(tmp_path, IngestOptions())
    assert [unit.path for unit in source.units] == ["data/logs.csv", "paper.tex"]
    assert [skip.file for skip in source.skips] == ["data/curve.csv"]
