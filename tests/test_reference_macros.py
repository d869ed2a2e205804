"""References and labels that macros of a book make."""

from __future__ import annotations

import pytest

from lemmata.core.types import Reading
from lemmata.ingest.papers import read_paper
from lemmata.latex.mains import Main

# In the style of a book whose files name their part, chapter and section once.
FILES = r"""
\newcommand*{\thepartid}{none}\newcommand*{\thechapterid}{none}\newcommand*{\thesectionid}{none}
\newcommand*{\fileid}[3]{
  \renewcommand*{\thepartid}{#1}
  \renewcommand*{\thechapterid}{#2}
  \renewcommand*{\thesectionid}{#3}}
\newcommand{\filelabel}[1]{\label{\thepartid:\thechapterid:\thesectionid:#1}}
\DeclareDocumentCommand \fileref { s o o o m } {%
  \IfBooleanTF{#1}{\Cref}{\cref}{%
    \IfNoValueTF {#2}{\thepartid:\thechapterid:\thesectionid}
      {\IfNoValueTF {#3}{\thepartid:\thechapterid:#2}
        {\IfNoValueTF {#4}{\thepartid:#2:#3}{#2:#3:#4}}}:#5}}
"""


def read(source: str, preamble: str) -> Reading:
    text = f"\\documentclass{{book}}{preamble}\n\\begin{{document}}\n{source}\n\\end{{document}}\n"
    return read_paper({"main.tex": text.encode()}.get, Main("main.tex"), "book")


def links(reading: Reading) -> dict[str, set[str]]:
    """The labels that each passage refers to."""
    return {p.id: {link.label for link in p.links if link.relation == "refers_to"} for p in reading.passages}


def labels(reading: Reading) -> set[str]:
    return {label.name for label in reading.labels if not label.name.startswith("number:")}


def test_labels_and_references_have_the_prefix_of_the_file_they_stand_in() -> None:
    reading = read(
        r"""
\fileid{sets}{bas}{ext}
\section{Extension}\filelabel{sec}
\begin{definition}\filelabel{def} A set has elements.\end{definition}
\begin{theorem}\filelabel{thm} By \fileref{def}, sets are equal.\end{theorem}
\fileid{sets}{bas}{sub}
\section{Subsets}
\begin{lemma}\filelabel{thm} As in \fileref*[ext]{thm} and \fileref[bas][ext]{def}, subsets are.\end{lemma}
See \fileref{thm} for this, which says more than all the text before it in this section could say.

\fileid{funs}{maps}{inj}
And now \fileref[sets][bas][sub]{thm} says the same for injective maps, in all the words that are needed here.
\begin{lemma}\filelabel{thm} Maps.\end{lemma}
""",
        FILES,
    )
    names = {"sets:bas:ext:sec", "sets:bas:ext:def", "sets:bas:ext:thm", "sets:bas:sub:thm", "funs:maps:inj:thm"}
    assert labels(reading) == names
    assert links(reading) == {
        "book#sets:bas:ext:def": set(),
        "book#sets:bas:ext:thm": {"sets:bas:ext:def"},
        "book#sets:bas:sub:thm": {"sets:bas:ext:thm", "sets:bas:ext:def"},
        "book#funs:maps:inj:thm": set(),
        "book@1": {"sets:bas:sub:thm"},
    }
    assert not any("fileid" in p.text or "bas" in p.bare_text.split() for p in reading.passages)


@pytest.mark.parametrize(
    ("preamble", "source", "label", "references"),
    [
        (r"\def\prefix{ch1:}", r"\begin{lemma}\label{\prefix a} A.\end{lemma} See \ref{\prefix a} now.",
         "ch1:a", {"ch1:a"}),
        (r"\newcommand\setid[1]{\def\id{#1:}}\newcommand\lab[1]{\label{\id#1}}\newcommand\rf[2][]{\cref{#1\id #2}}",
         r"\setid{x}\begin{lemma}\lab{a} A.\end{lemma} See \rf{a} and \rf[y]{a} now.", "x:a", {"x:a", "yx:a"}),
        (r"\newcommand\mylabel[2][thm]{\label{#1:#2}}", r"\begin{lemma}\mylabel[lem]{a} A.\end{lemma} \ref{lem:a} now.",
         "lem:a", {"lem:a"}),
        (r"\newcommand\thmref[1]{Theorem~\ref{thm:#1}}\WithSuffix\newcommand\thmref*[1]{\ref{thm:#1}}",
         r"\begin{lemma}\label{thm:a} A.\end{lemma} See \thmref{a} or \thmref*{b} now.", "thm:a", {"thm:a", "thm:b"}),
        ("", r"\begin{lemma}\label{a} A.\end{lemma} \Cref{a,b, c} and \hyperref[d]{text}, \nameref{e}, \autoref{f}.",
         "a", set("abcdef")),
    ],
)  # fmt: skip
def test_macros_that_refer_or_label_are_followed(preamble: str, source: str, label: str, references: set[str]) -> None:
    reading = read(source, preamble)
    assert labels(reading) == {label}
    assert set.union(*links(reading).values()) == references


def test_a_macro_that_leaves_out_its_argument_leaves_out_all_of_its_paragraphs() -> None:
    source = "Words that stay.\\HIDE{One.\n\n\\begin{lemma} Two.\\end{lemma}\n\nThree \\ref{x}.} Words after it."
    reading = read(source, r"\newcommand{\HIDE}[1]{}")
    assert [passage.text for passage in reading.passages] == ["Words that stay. Words after it."]


def test_a_footnote_is_no_part_of_the_title_of_a_statement() -> None:
    source = r"\begin{theorem}[Gauss\fn{A story by \ref{x}.}] True.\end{theorem} \section{One\fn{More.}} Text of it."
    theorem, chunk = read(source, r"\newcommand\fn[1]{\footnote{#1}}").passages
    assert (theorem.title, theorem.text, chunk.section) == ("Gauss", "True.\n\nA story by x.", "One")
    assert [link.label for link in theorem.links] == ["x"]
