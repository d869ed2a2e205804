from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import lemmata, make_workspace, write

from lemmata.corpus.corpus import Corpus
from lemmata.corpus.split import open_split
from lemmata.ingest.papers import open_paper, read_paper
from lemmata.latex.counters import Counters
from lemmata.latex.mains import Main
from lemmata.latex.numbers import read_aux
from lemmata.project import Project
from lemmata.search.exact import missing_number
from lemmata.search.hints import hint

# ---------------------------------------------------------------- what LaTeX prints

# Each source with the numbers of its labels; the last test compares them with those of LaTeX itself.
CASES = {
    "an environment with a digit in its name": (
        r"""\documentclass{article}\newtheorem{rule1}{Rule}
\begin{document}\begin{rule1}\label{a}x\end{rule1}\begin{rule1}\label{b}x\end{rule1}\end{document}""",
        {"a": "1", "b": "2"},
    ),
    "theorems that share a counter, within sections": (
        r"""\documentclass{article}\usepackage{amsmath,amsthm}
\newtheorem{thm}{Theorem}[section]\newtheorem{lem}[thm]{Lemma}\newtheorem{defn}{Definition}\newtheorem*{rem}{Remark}
\begin{document}\section{A}\label{a}\begin{thm}\label{t}x\end{thm}\begin{lem}\label{l}x\end{lem}
\begin{rem}\label{r}x\end{rem}\begin{defn}\label{d}x\end{defn}\section*{B}\label{b}\begin{lem}\label{m}x\end{lem}
\section{C}\subsection{D}\label{c}\begin{thm}\label{u}x\end{thm}\end{document}""",
        {"a": "1", "t": "1.1", "l": "1.2", "r": "1", "d": "1", "b": "1", "m": "1.3", "c": "2.1", "u": "2.1"},
    ),
    "equations": (
        r"""\documentclass{article}\usepackage{amsmath}\numberwithin{equation}{section}
\begin{document}\section{A}\begin{equation}\label{a}x\end{equation}\begin{equation*}y\end{equation*}
\begin{align}\label{b}x&=\substack{a\\b}\\y&=\begin{cases}1\\2\end{cases}\notag\\z&=1\label{c}\end{align}
\begin{gather}x\tag{$*$}\label{d}\\y\label{e}\end{gather}\begin{multline}\label{f}x\\y\end{multline}
\begin{subequations}\label{g}\begin{align}x\label{h}\\y\label{i}\end{align}\end{subequations}
\[x\tag{A}\label{j}\]\begin{equation}x\label{k}\end{equation}\section{B}\begin{equation}\label{l}x\nonumber\end{equation}
\begin{equation}\label{m}x\end{equation}\end{document}""",
        {"a": "1.1", "b": "1.2", "c": "1.3", "d": "$*$", "e": "1.4", "f": "1.5", "g": "1.6", "h": "1.6a", "i": "1.6b",
         "j": "A", "k": "1.7", "m": "2.1"},
    ),
    "a book with parts, an appendix and figures": (
        r"""\documentclass{book}\begin{document}\frontmatter\chapter{Preface}\mainmatter\part{P}\label{p}
\chapter{A}\label{a}\section{B}\label{b}\begin{figure}x\caption{c}\label{f}\end{figure}\begin{equation}\label{e}x\end{equation}
\part{Q}\label{q}\chapter{C}\label{c}\subsubsection{deep}\label{d}\appendix\chapter{D}\label{g}\section{E}\label{h}
\begin{table}x\caption{c}\label{t}\end{table}\end{document}""",
        {"p": "I", "a": "1", "b": "1.1", "f": "1.1", "e": "1.1", "q": "II", "c": "2", "d": "2", "g": "A", "h": "A.1",
         "t": "A.1"},
    ),
    "counters that are set, and formats": (
        r"""\documentclass{amsart}\newtheorem{thm}{Theorem}\renewcommand{\thethm}{\Alph{thm}}
\newcounter{case}[section]\renewcommand{\thecase}{\thesection.\roman{case}}\counterwithin{equation}{subsection}
\newcommand{\be}{\begin{equation}}\newcommand{\ee}{\end{equation}}
\begin{document}\setcounter{section}{4}\section{A}\label{a}\begin{thm}\label{t}x\end{thm}\addtocounter{thm}{2}
\begin{thm}\label{u}x\end{thm}\refstepcounter{case}\label{c}\stepcounter{case}\refstepcounter{case}\label{d}
\subsection{B}\be\label{e}x\ee\appendix\section{C}\label{s}\renewcommand{\thethm}{T\arabic{thm}}
\begin{thm}\label{v}x\end{thm}\end{document}""",
        {"a": "5", "t": "A", "u": "D", "c": "5.i", "d": "5.iii", "e": "5.1.1", "s": "A", "v": "T5"},
    ),
    "thmtools": (
        r"""\documentclass{article}\usepackage{amsthm,thmtools,thm-restate}
\declaretheorem[numberwithin=section]{theorem}\declaretheorem[sibling=theorem,name=Lemma]{lem}
\declaretheorem[numbered=no]{note}\declaretheorem[style=definition]{definition,example}
\begin{document}\section{A}\begin{theorem}\label{t}x\end{theorem}\begin{lem}[label=l]x\end{lem}
\begin{restatable}{theorem}{main}\label{m}x\end{restatable}\begin{definition}\label{d}x\end{definition}
\begin{example}\label{e}x\end{example}\end{document}""",
        {"t": "1.1", "l": "1.2", "m": "1.3", "d": "1", "e": "1"},
    ),
    "lists and footnotes": (
        r"""\documentclass{article}\usepackage{enumitem}\setlist[enumerate,2]{label=(\roman*)}
\begin{document}\section{A}\begin{enumerate}\item\label{a}x\item x\begin{enumerate}\item\label{b}y\end{enumerate}
\item[z]z\item\label{c}x\end{enumerate}\begin{enumerate}[label=(\alph*),start=3]\item\label{d}x\end{enumerate}
Words\footnote{a}\footnote{b\label{f}} and\label{g}.\end{document}""",
        {"a": "1", "b": "(i)", "c": "3", "d": "(c)", "f": "2", "g": "1"},
    ),
    "environments of the author": (
        r"""\documentclass{report}\newcounter{exo}[chapter]\renewcommand\theexo{\thechapter.\arabic{exo}}
\newenvironment{exo}{\refstepcounter{exo}\textbf{Exercise \theexo}}{}\newtheorem{thm}{Theorem}[chapter]
\newenvironment{mainthm}[1]{\begin{thm}\label{#1}}{\end{thm}}\newcommand{\nomath}{\nonumber}
\newcommand{\hidden}[1]{}
\begin{document}\chapter{A}\begin{exo}\label{e}x\end{exo}\begin{mainthm}{m}x\end{mainthm}
\hidden{\begin{thm}\label{no}x\end{thm}}\chapter{B}\begin{exo}\label{f}x\end{exo}
\begin{eqnarray}x\nomath\\y\label{q}\end{eqnarray}\end{document}""",
        {"e": "1.1", "m": "1.1", "f": "2.1", "q": "2.1"},
    ),
    "exercises that are calls": (
        r"""\documentclass{report}\newcounter{exo}[chapter]\renewcommand\theexo{\thechapter.\arabic{exo}}
\newcommand{\exo}[2][]{\refstepcounter{exo}\textbf{Exercise \theexo} #1 #2\par}\newcounter{task}
\newenvironment{task}[1]{\refstepcounter{task}\textbf{Task \thetask\label{task-\arabic{task}}} #1}{}
\begin{document}\chapter{A}\exo{\label{a}Show it.}\section{B}\exo[Hard.]{Show \label{b}it.}\label{c}
\task{\label{d}Show it.}\chapter{C}\exo{Show it, too.\label{e}}\end{document}""",
        {"a": "1.1", "b": "1.2", "c": "1.2", "d": "1", "task-1": "1", "e": "2.1"},
    ),
    "memoir": (
        r"""\documentclass{memoir}\usepackage{amsthm}\newtheorem{thm}[subsection]{Theorem}\setsecnumdepth{subsection}
\maxsecnumdepth{subsection}\begin{document}\frontmatter\chapter{F}\mainmatter\chapter{A}\section{B}\subsection{C}\label{c}
\begin{thm}\label{t}x\end{thm}\subsubsection{D}\label{d}\section{E}\begin{thm}\label{u}x\end{thm}\end{document}""",
        {"c": "1.1.1", "t": "1.1.2", "d": "1.1.1", "u": "1.2.1"},
    ),
}  # fmt: skip


def labels(source: str, files: dict[str, str] | None = None) -> dict[str, str]:
    texts = {**(files or {}), "main.tex": source}
    return dict(open_paper(texts.get, Main("main.tex"), "doc").numbers)


@pytest.mark.parametrize("case", CASES)
def test_labels_have_the_numbers_that_latex_prints(case: str) -> None:
    source, numbers = CASES[case]
    found = labels(source)
    assert {name: found.get(name) for name in numbers} == numbers
    assert "no" not in found


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
@pytest.mark.parametrize("case", CASES)
def test_latex_agrees(case: str, tmp_path: Path) -> None:
    source, numbers = CASES[case]
    write(tmp_path, {"main.tex": source})
    command = ["pdflatex", "-draftmode", "-no-shell-escape", "-interaction=nonstopmode", "main.tex"]
    subprocess.run(command, cwd=tmp_path, check=False, capture_output=True)
    compiled = read_aux(lambda path: (tmp_path / path).read_text(), "main.aux")
    if not compiled:
        pytest.skip("a package is missing")
    assert {name: compiled.get(name) for name in numbers} == numbers


def test_included_files_count_in_their_order() -> None:
    preamble = r"\documentclass{article}\newtheorem{thm}{Theorem}[section]"
    files = {
        "a.tex": r"\section{A}\begin{thm}\label{a}x\end{thm}",
        "b.tex": r"\section{B}\begin{thm}\label{b}x\end{thm}",
    }
    source = preamble + r"\begin{document}\include{b}\input{a}\end{document}"
    assert labels(source, files) == {"b": "1.1", "a": "2.1"}


def test_an_aux_file_beside_the_main_file_wins() -> None:
    source = r"\documentclass{article}\newtheorem{thm}{T}\begin{document}\begin{thm}\label{a}x\end{thm}\end{document}"
    aux = r"\@input{b.aux}" + "\n" + r"\newlabel{a}{{7.2}{17}{Title}{thm.7.2}{}}"
    files = {"main.tex": source, "main.aux": aux, "b.aux": r"\newlabel{c}{{9}{1}}"}
    reading = read_paper(lambda path: files[path].encode() if path in files else None, Main("main.tex"), "doc")
    assert [passage.number for passage in reading.passages] == ["7.2"]
    assert {"main.aux", "b.aux"} <= reading.files.keys()


def test_a_statement_whose_counter_is_unknown_has_no_number() -> None:
    source = r"\documentclass{mystery}\begin{document}\begin{theorem}\label{a}x\end{theorem}\end{document}"
    reading = read_paper(lambda path: source.encode() if path == "main.tex" else None, Main("main.tex"), "doc")
    assert [passage.number for passage in reading.passages] == [""]


def test_counters_print_in_letters_and_roman_digits() -> None:
    counters = Counters("article")
    counters.set("section", 1994)
    assert counters.show(r"\Roman{section}-\arabic{section}") == "MCMXCIV-1994"
    counters.set("section", 27)  # LaTeX has an error here
    assert counters.show(r"\Alph{section}") == ""
    assert counters.value(r"\value{section} - 3") == 24
    assert counters.value(r"\strange") is None


_PIECES = r"""
\begin{align} \end{align} \\ \label{x} \tag{ } { [ ] \begin{enumerate} \end{enumerate} \item \begin{subequations}
\end{subequations} \section{A} \footnote{ \appendix \renewcommand{\thesection}{\thesection\thesection} \backmatter
\numberwithin{section}{section} \setcounter{section} \newtheorem{t}[t]{T}[t] \begin{t} \caption \begin{figure} \[ \]
\let\c@section\c@part \newaliascnt{section}{section} \refstepcounter{section} \setlist[1]{label= \newcounter{a}[a]
\renewcommand{\thepart}{\thechapter\thechapter} \renewcommand{\thechapter}{\thepart\thepart} \refstepcounter{part}
""".split()


@settings(max_examples=200)
@given(st.lists(st.sampled_from(_PIECES), max_size=60))
def test_any_soup_is_read(pieces: list[str]) -> None:
    numbers = labels("\\documentclass{article}\\begin{document}" + "".join(pieces))
    assert all(len(number) <= 2000 for number in numbers.values())


# ---------------------------------------------------------------- shown and found

_NOTES = {
    "partitions.tex": r"""\documentclass{article}\title{On partitions}\newtheorem{theorem}{Theorem}[section]
\begin{document}\section{Counting}\subsection{Parts}Words about parts of a partition stand here, enough for a chunk.
\begin{theorem}[Euler]\label{thm:euler}Odd parts and distinct parts are equinumerous.
\begin{equation}\label{eq:product}\prod (1+q^n)\end{equation}\end{theorem}\end{document}""",
    "tableaux.tex": r"""\documentclass{article}\title{Standard tableaux}\newtheorem{theorem}{Theorem}[section]
\begin{document}\section{Hooks}\begin{theorem}The number of tableaux is given by hooks.\end{theorem}
\appendix\section{More}\begin{theorem}Tableaux are words.\end{theorem}\end{document}""",
}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workspace(tmp_path_factory.mktemp("numbers"), _NOTES, index="lexical").root


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Theorem 1.1 of tableaux", "tableaux#theorem-1"),
        ("thm. 1.1 in On partitions", "partitions#thm:euler"),
        ("theorem 1.1", "partitions#thm:euler"),
        ("equation (1)", "partitions#thm:euler"),
        ("§1.1", "partitions@1"),
        ("Lemma 1.1 of tableaux", "tableaux#theorem-1"),  # remembered with the wrong kind
        ("thm:euler", "partitions#thm:euler"),
        ("Thm Euler", "partitions#thm:euler"),
        ("1.1", "partitions#thm:euler"),
        ("1.1 in Standard tableaux", "tableaux#theorem-1"),
        ("(1)", "partitions#thm:euler"),
        ("Theorem A.1", "tableaux#theorem-2"),
        ("A.1", "tableaux#theorem-2"),
        ("tableaux#theorem-1", "tableaux#theorem-1"),
    ],
)
def test_what_a_query_names_comes_first(notes: Path, query: str, first: str) -> None:
    hits = json.loads(lemmata("search", query, "-w", notes, "--json"))
    assert hits[0]["id"] == first


@pytest.mark.parametrize("kind", ["text", "prose", "chunk", "Text"])
def test_text_is_another_name_of_chunks(notes: Path, kind: str) -> None:
    hits = json.loads(lemmata("search", f"kind:{kind} parts", "-w", notes, "--json"))
    listed = json.loads(lemmata("list", "passages", "--kind", kind, "-w", notes, "--json"))
    assert [each["id"] for each in (*hits, *listed)] == ["partitions@1", "partitions@1"]


def test_numbers_are_shown(notes: Path) -> None:
    assert "theorem 1.1" in lemmata("search", "distinct parts", "-w", notes)
    assert "theorem 1.1 (Euler)" in lemmata("show", "partitions#thm:euler", "-w", notes)
    shown = json.loads(lemmata("show", "partitions#thm:euler", "-w", notes, "--json"))
    assert (shown["number"], shown["metadata"]["equations"]) == ("1.1", {"eq:product": "1"})
    hits = json.loads(lemmata("search", "distinct parts", "-w", notes, "--json"))
    assert "1.1" in [hit["number"] for hit in hits]


# ---------------------------------------------------------------- a book is a tree


def _chapter(name: str) -> str:
    statements = "\n".join(
        rf"\begin{{theorem}}\label{{{name}{number}}}The {name} of {word} {name} things is bounded{proof}\end{{theorem}}"
        for number, (word, proof) in enumerate(
            [
                ("small", "."),
                ("wide", rf", as in \ref{{{name}0}}."),
                ("open", rf", see \ref{{{name}1}}."),
                ("closed", "."),
            ]
        )
    )
    return rf"\chapter{{The {name}}}Words on the {name} of things.\section{{First {name}}}{statements}"


_CHAPTERS = ("height", "width", "depth", "girth", "weight", "degree", "rank", "order", "radius", "length")


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = (
        r"\documentclass{book}\title{Of things}\newtheorem{theorem}{Theorem}[chapter]\begin{document}\part{One}"
        + "".join(map(_chapter, _CHAPTERS))
        + r"\end{document}"
    )
    folder = tmp_path_factory.mktemp("book")
    return make_workspace(folder, {"things.tex": source}, index="lexical", graph=True).root


def test_a_book_shows_its_contents(book: Path) -> None:
    shown = lemmata("show", "things", "-w", book)
    assert "1  The height  4 statements" in shown
    contents = json.loads(lemmata("show", "things", "-w", book, "--json"))["contents"]
    assert [contents[0][key] for key in ("level", "number", "title", "statements")] == [0, "I", "One", 40]
    assert contents[2]["number"] == "1.1"


def test_a_chapter_is_a_filter(book: Path) -> None:
    for chapter in ("3", "the DEPTH"):
        hits = json.loads(lemmata("search", "bounded things", "--chapter", chapter, "-w", book, "--json"))
        assert {hit["section"].split(" / ")[1] for hit in hits} == {"The depth"}
    assert "'The height'" in lemmata("search", "things", "--chapter", "The heigth", "-w", book, code=1)


def test_chapters_count_as_documents_where_a_book_is_split(book: Path) -> None:
    lemmata("split", "-w", book)
    project = Project(book)
    with contextlib.closing(Corpus(project)) as corpus:
        parts = open_split(project, corpus.digest)
        chapters = [title for _, title in corpus.chapter_names()]
    of_chapter = {title: {int(part) for part in parts.part[np.array(chapters) == title]} for title in set(chapters)}
    assert all(len(each) == 1 for each in of_chapter.values())
    assert {part for each in of_chapter.values() for part in each} == {0, 1, 2}
    assert parts.unseen[parts.rows("test")].all()
    assert "MRR" in lemmata("evaluate", "--task", "references", "--retriever", "lexical", "-w", book)


def test_references_to_other_documents_have_their_numbers(tmp_path: Path) -> None:
    preamble = r"\input{preamble}\externaldocument[sets-]{sets}\begin{document}\section{S}\label{section-s}"
    write(tmp_path / "book", {"preamble.tex": r"\documentclass{article}\newtheorem{lemma}{Lemma}[section]"})
    lemma = r"\begin{lemma}\label{lemma-a} One \begin{equation}\label{eq}x\end{equation}\end{lemma}"
    write(tmp_path / "book", {"sets.tex": preamble + r"Words." + lemma + r"\end{document}"})
    text = (
        r"See Sets, Lemmas \ref{sets-lemma-a} and \ref{sets-section-s}, \eqref{sets-eq}; then \cref{sets-lemma-a} or"
        r" $a \overset{\ref{sets-eq}}{=} b\_c$, but Lemma \ref{sets-no_where} of Section \ref{section-s}."
    )
    write(tmp_path / "book", {"maps.tex": preamble + r"\begin{lemma}\label{b}" + text + r"\end{lemma}\end{document}"})
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "book"])

    def shown() -> tuple[str, str]:
        with contextlib.closing(Corpus(project)) as corpus:
            (passage,) = corpus.passages([corpus.row("maps#b")])
        return passage.text, passage.bare_text

    numbered, bare = shown()
    assert numbered == (
        "See Sets, Lemmas 1.1 and 1, (1); then lemma 1.1 or $a \\overset{\\text{1}}{=} b\\_c$, but Lemma sets-no_where"
        " of Section 1."
    )
    assert "1.1" not in bare
    (tmp_path / "book/sets.tex").unlink()
    project.ingest([tmp_path / "book"])
    assert shown() == (
        numbered.replace(
            "Lemmas 1.1 and 1, (1); then lemma 1.1",
            "Lemmas sets-lemma-a and sets-section-s, (sets-eq); then sets-lemma-a",
        ).replace("text{1}", "text{sets-eq}"),
        bare,
    )


def test_references_to_sections_without_text_and_to_titles_are_named(tmp_path: Path) -> None:
    head = r"\documentclass{article}\newtheorem{lemma}{Lemma}\newtheorem*{fact}{Fact}\begin{document}"
    sections = (
        r"\section{Empty}\label{empty}\subsection{Full}\label{full}Words.\section*{Later}\label{later}More words."
    )
    facts = r"\begin{fact}[Slutsky]\label{slutsky}Sums converge.\end{fact}\section*{Void}\label{void}\section{Last}"
    references = r"See Section~\ref{empty}, then \ref{later}, \ref{full}; Fact \ref{slutsky}; also Section \ref{void}."
    inside = rf"\begin{{lemma}}\label{{a}}{references}\end{{lemma}}"
    outside = rf"\begin{{lemma}}\label{{b}}{references[:-1]}; $x_{{\ref{{later}}}}$.\end{{lemma}}"
    write(tmp_path / "book", {"one.tex": head + sections + facts + inside + r"\end{document}"})
    write(tmp_path / "book", {"two.tex": head + outside + r"\end{document}"})
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "book"])

    def text_of(identity: str) -> str:
        with contextlib.closing(Corpus(project)) as corpus:
            return corpus.passages([corpus.row(identity)])[0].text

    shown = "See Section 1, then section “Later”, 1.1; Fact (Slutsky); also Section “Void”"
    assert text_of("one#a") == shown + "."
    assert text_of("two#b") == shown + r"; $x_{\text{later}}$."
    (tmp_path / "book/one.tex").unlink()
    project.ingest([tmp_path / "book"])
    assert text_of("two#b").startswith("See Section empty, then later, full; Fact slutsky; also Section void;")


def test_a_number_that_nothing_has_is_said_to_be_missing(notes: Path) -> None:
    with contextlib.closing(Corpus(Project(notes))) as corpus:
        assert "Theorem 9.99" in missing_number(corpus, "Theorem 9.99?")
        assert "equation (77)" in missing_number(corpus, "equation (77)")
        assert "Example 1.1" in missing_number(corpus, "Example 1.1")  # it is no theorem
        others = (
            "theorem 1.1",
            "python 3.11",
            "why is it so",
            "",
            "Yoneda lemma",
            "Sylow theorems",
            "definition of a ring",
        )
        assert not any(missing_number(corpus, text) for text in others)
    with Project(notes).retriever() as retriever:
        assert "Theorem 9.99" in hint(retriever, "Theorem 9.99")
