from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.core.types import Document, Passage, Reading
from lemmata.ingest.front_matter import arxiv_id_of_file
from lemmata.ingest.paper_state import PaperOptions
from lemmata.ingest.papers import is_source_file, read_package_papers, read_paper
from lemmata.latex.mains import Main


def read(source: str, files: Mapping[str, str] | None = None, options: PaperOptions | None = None) -> Reading:
    data = {name: text.encode() for name, text in {**(files or {}), "main.tex": source}.items()}
    return read_paper(data.get, Main("main.tex"), "doc", options)


def body(source: str, preamble: str = "") -> Reading:
    return read(f"\\documentclass{{article}}{preamble}\n\\begin{{document}}\n{source}\n\\end{{document}}\n")


def statements(reading: Reading) -> list[Passage]:
    return [passage for passage in reading.passages if passage.kind not in ("chunk", "abstract")]


def only(reading: Reading) -> Passage:
    (passage,) = statements(reading)
    return passage


# ---------------------------------------------------------------- passages


def test_a_statement_has_text_title_section_proof_links_and_lines() -> None:
    reading = body(
        r"""
\section{First \emph{steps}}
\begin{theorem}[Gauss, \cite{G}]\label{thm:main}
  For $x\in\R$ see Lemma~\ref{lem}.
\end{theorem}
\begin{proof} By \eqref{eq} and \cite{H}. \end{proof}
""",
        r"\newcommand{\R}{\mathbb{R}}",
    )
    theorem = only(reading)
    assert theorem.id == "doc#thm:main"
    assert (theorem.document, theorem.kind, theorem.section) == ("doc", "theorem", "First steps")
    assert theorem.title.startswith("Gauss")
    assert theorem.text == r"For $x\in\mathbb{R}$ see Lemma lem."
    assert theorem.bare_text == r"For $x\in\mathbb{R}$ see Lemma."
    assert r"$x\in\R$ see Lemma~\ref{lem}." in theorem.raw
    assert (theorem.proof, theorem.bare().proof) == ("By (eq) and [H].", "By.")
    assert {(link.relation, link.label) for link in theorem.links} == {
        ("refers_to", "lem"), ("cites", "G"), ("proof_uses", "eq"), ("cites", "H"),
    }  # fmt: skip
    assert (theorem.file, theorem.first_line, theorem.last_line) == ("main.tex", 5, 7)
    assert theorem.metadata["environment"] == "theorem"


@pytest.mark.parametrize(
    "proof",
    [
        r"We now prove \myref{t}. \begin{proof}P.\end{proof}",
        r"We now prove \thmRef{t}. \begin{proof}P.\end{proof}",
        r"\begin{proof}[Proof of \myref{t}]P.\end{proof}",
        r"\begin{proof}[Proof of \myref{t} using \myref{l}]P.\end{proof}",
        r"\begin{proof}[Proof of \Thm{t}]P.\end{proof}",
        r"\begin{proof}[Proof of \Both{l}{t} with \Thm{l}]P.\end{proof}",
        r"\begin{proof}[Proof of \cref{t}]P.\end{proof}",
        r"We now prove \Thm{t}. \begin{proof}P.\end{proof}",
        r"\section{Proof of \Thm{t}}\begin{proof}P.\end{proof}",
    ],
)
def test_a_proof_is_announced_with_a_reference_macro_of_the_paper(proof: str) -> None:
    reading = body(
        r"\begin{theorem}\label{t} Big.\end{theorem} \begin{lemma}\label{l} Small.\end{lemma} " + proof,
        r"\newcommand{\myref}[1]{Theorem~\ref{#1}}\newcommand{\thmRef}[1]{Theorem~\ref{#1}}"
        r"\newcommand{\Thm}[1]{Theorem~\ref{#1}}\newcommand{\Both}[2]{\Thm{#2}}",
    )
    assert {passage.id: passage.proof for passage in statements(reading)} == {"doc#t": "P.", "doc#l": ""}


@pytest.mark.parametrize(
    ("first", "owner"),
    [
        (r"We now prove \Thm{t}. It is so.", "doc#t"),
        (r"Proof of Theorem~\ref{t} using \Thm{l}. It is so.", "doc#t"),
        (r"We first prove \Thm{t}, as a step.", "doc#l"),
        (r"We prove that \Thm{t} is used.", "doc#l"),
        (r"We prove \eqref{e}, which stands in the theorem.", "doc#l"),
        (r"We prove \Thm{d}, which is none.", "doc#l"),
    ],
)
def test_the_first_words_of_a_proof_may_say_what_is_proved(first: str, owner: str) -> None:
    reading = body(
        r"\begin{theorem}\label{t} Big $$x\label{e}$$\end{theorem} \begin{definition}\label{d} D.\end{definition}"
        r"\begin{lemma}\label{l} Small.\end{lemma} \begin{proof}" + first + r"\end{proof}",
        r"\newcommand{\Thm}[1]{Theorem~\ref{#1}}",
    )
    assert [passage.id for passage in statements(reading) if passage.proof] == [owner]


REFERRING = r"""
\begin{abstract}By \cite[Thm 2]{Key} it holds.\end{abstract}
\section{Limits of \emph{rings}}\label{sec:limits}
From \ref{thm:main}, we know it. See \eqref{eq:one}, \autoref{it:b} and Section~\ref{sec:limits}.

\begin{theorem}[Main result]\label{thm:main}\label{thm:again}
  We have
  \begin{equation}\label{eq:one} x = y. \end{equation}
  \begin{enumerate}\item\label{it:a} One. \item\label{it:b} Two.\end{enumerate}
\end{theorem}
\begin{proof} By \cref{lem:b,cor} there exists one. \end{proof}
\begin{lemma}\label{lem:b} As in \ref{thm:again}, use \ref{fig}. \end{lemma}
\begin{corollary}\label{cor} By Figures \ref{fig} and~\ref{other-file}. \end{corollary}
\begin{figure}\caption{A picture}\label{fig}\end{figure}
"""


NUMBERED = r"""\documentclass{article}\newtheorem{thm}{Theorem}[section]\newtheorem{lem}[thm]{Lemma}
\newcounter{cond}\renewcommand{\thecond}{C\arabic{cond}}\newcommand{\cond}[1]{\refstepcounter{cond}\label{#1}\thecond: }
\newenvironment{claims}{\begin{enumerate}}{\end{enumerate}}\begin{document}\section{One}\label{s}\section*{Two}\label{u}
\begin{thm}[Main]\label{t} We have \begin{equation}\label{e} x = y \end{equation}
\begin{claims}\item\label{i} One. \item\label{j} Two.\end{claims}\end{thm}
%s

The conditions are these. \cond{c} It is finite. \end{document}"""


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"By Theorem~\ref{t}, \eqref{e}", "By Theorem 1.1, (1)"),
        (r"By \ref{t} and (\ref{e})", "By 1.1 and (1)"),
        (r"By \cref{t,e} and Equation \ref{e}", "By theorem 1.1 and (1) and Equation 1"),
        (r"\Cref{t,l} in \autoref{s}", "Theorem 1.1 and lemma 1.2 in section 1"),
        (r"by $x \overset{\eqref{e}}{=} y$ and \nameref{t}", r"by $x \overset{\text{(1)}}{=} y$ and (Main)"),
        (r"see page \pageref{t}", "see page of theorem 1.1"),
        (r"items \ref{i} and \ref{j}, condition \ref{c}", "items 1 and 2, condition C1"),
        (r"\cref{j} and not \cref{c}", "Item 2 and not item C1"),
        (r"the part \ref{u}", "the part “Two”"),
        (r"Lemma~\ref{nowhere}", "Lemma nowhere"),
    ],
)
def test_references_have_the_printed_numbers(source: str, text: str) -> None:
    reading = read(NUMBERED % (r"\begin{lem}\label{l}" + source + r"\end{lem}"))
    lemma = next(passage for passage in reading.passages if passage.id == "doc#l")
    assert lemma.text == text


def test_a_tag_is_shown_as_a_formula_and_is_that_of_an_equation_inside_an_item() -> None:
    items = r"\begin{claims}\item \[x\tag{$\ast$}\label{x}\] \item As \eqref{x} says.\end{claims}"
    reading = read(NUMBERED % (r"\begin{lem}\label{l}" + items + r"\end{lem}"))
    lemma = next(passage for passage in reading.passages if passage.id == "doc#l")
    assert r"As ($\ast$) says." in lemma.text
    assert lemma.metadata["equations"] == {"x": r"$\ast$"}


def test_labels_of_the_authors_own_items_lead_to_what_holds_them() -> None:
    reading = read(NUMBERED % "")
    theorem, chunk = (passage for passage in reading.passages if passage.kind in ("theorem", "chunk"))
    targets = {label.name: label.target for label in reading.labels}
    assert targets["i"] == targets["j"] == "doc#t"
    assert targets["c"] == chunk.id
    assert theorem.metadata["labelled"] == {"u": "section “Two”", "i": "item 1", "j": "item 2"}
    assert chunk.metadata["labelled"] == {"c": "item C1"}


def test_a_reference_names_the_kind_and_title_or_label_of_its_target() -> None:
    passages = {passage.id: passage for passage in body(REFERRING).passages}
    assert passages["doc#abstract-1"].text == "By [Key, Thm 2] it holds."
    assert passages["doc@1"].text.startswith("From theorem (Main result), we know it. See (1), item 2 and Section 1.")
    assert passages["doc#thm:main"].proof == "By lemma lem:b and corollary cor there exists one."
    assert passages["doc#lem:b"].text == "As in theorem (Main result), use 1."
    assert passages["doc#cor"].text == "By Figures 1 and other-file."


def test_what_is_indexed_has_no_names_of_references() -> None:
    passages = {passage.id: passage for passage in body(REFERRING).passages}
    assert passages["doc#abstract-1"].content == "By it holds."
    assert passages["doc@1"].content.startswith("From, we know it. See and Section.")
    assert passages["doc#lem:b"].content == "As in, use."
    theorem = passages["doc#thm:main"].bare()
    assert (theorem.title, theorem.proof) == ("Main result", "By there exists one.")
    assert theorem.content == theorem.bare().content == passages["doc#thm:main"].content
    named = {"thm:again": "theorem (Main result)", "it:a": "item 1", "it:b": "item 2"}
    assert theorem.metadata == {"environment": "theorem", "heading": 0, "equations": {"eq:one": "1"}, "labelled": named}


def test_the_parts_of_a_long_text_keep_the_names_of_their_references() -> None:
    sentences = [f"Sentence {number} is by Lemma \\ref{{l{number}}} here." for number in range(60)]
    options = PaperOptions(chunk_size=200)
    source = " ".join(sentences) + "\n\\begin{theorem}" + " ".join(sentences) + "\\end{theorem}\n"
    reading = read(f"\\begin{{document}}\n{source}\\end{{document}}", options=options)
    assert len(reading.passages) > 10
    for passage in (passage for passage in reading.passages if passage.kind != "part"):
        numbers = re.findall(r"Sentence (\d+)", passage.text)
        assert passage.text == " ".join(f"Sentence {n} is by Lemma l{n} here." for n in numbers)
        assert passage.bare_text == " ".join(f"Sentence {n} is by Lemma here." for n in numbers)
        if passage.kind == "chunk":
            assert [link.label for link in passage.links] == [f"l{n}" for n in numbers]
        assert len(passage.bare_text) <= 200 or passage.kind == "theorem"


def test_a_comment_after_a_command_stays_apart_in_text_and_raw() -> None:
    theorem = only(body("\\begin{theorem}$f \\colon%\n  X \\to Y$ holds.\\end{theorem}"))
    assert theorem.text == r"$f \colon X \to Y$ holds."
    assert theorem.raw == r"$f \colon X \to Y$ holds."


def test_a_label_like_the_id_of_an_abstract_gets_a_number() -> None:
    reading = body(
        r"\begin{abstract}About it.\end{abstract}\begin{lemma}\label{abstract-1}x\end{lemma}\ref{abstract-1} is."
    )
    assert [passage.id for passage in reading.passages] == ["doc#abstract-1", "doc#abstract-1~2", "doc@1"]
    assert {label.name: label.target for label in reading.labels} == {"abstract-1": "doc#abstract-1~2"}


def test_ids_come_from_labels_then_kinds_and_are_unique() -> None:
    reading = body(
        r"\begin{lemma}\label{a}x\end{lemma}\begin{lemma}y\end{lemma}\begin{lemma}\label{a}z\end{lemma}"
        r"\begin{lemma}\label{a~2}w\end{lemma}\begin{theorem}v\end{theorem}"
    )
    assert [p.id for p in statements(reading)] == ["doc#a", "doc#lemma-2", "doc#a~2", "doc#a~2~2", "doc#theorem-1"]


def test_prose_becomes_chunks_without_statements_and_proofs() -> None:
    reading = body(
        "\\section{S}\nBefore words.\n\\begin{lemma}inside\\end{lemma}\nAfter words.\\begin{proof}why\\end{proof}"
    )
    chunk = next(p for p in reading.passages if p.kind == "chunk")
    assert chunk.id == "doc@1"
    assert "Before words." in chunk.text
    assert "After words." in chunk.text
    assert "inside" not in chunk.text
    assert chunk.section == "S"


def test_a_chunk_lists_its_emphasised_terms() -> None:
    reading = body(
        r"""
\textbf{Remark.} A \emph{free variable} of $\textit{Sub}$ is {\em bound} by no \defn{$q$-quantifier}.
A \new{na\"{\i}ve set} {\bf is not a set but a very long sentence.}

\noindent\textbf{Plain trees.} {\it Lost
lines\/} end in \textbf{Factorial} and \textbf{Fact 3};  \emph{} \textbf{1}.
""",
        r"\newcommand{\new}[1]{\textsl{#1}}",
    )
    (chunk,) = reading.passages
    assert chunk.metadata == {
        "terms": ["free variable", "bound", "$q$-quantifier", "naïve set", "Lost lines", "Factorial"],
        "index": [["$q$-quantifier"]],
    }
    (without_terms,) = body("Nothing is emphasised.").passages
    assert without_terms.metadata == {}


def test_each_chunk_lists_only_its_own_terms_and_at_most_twenty() -> None:
    text = " ".join(f"Here is \\emph{{term{number}x}} of many." for number in range(120))
    chunks = body(text).passages
    assert len(chunks) > 1
    for chunk in chunks:
        terms = chunk.metadata["terms"]
        assert 0 < len(terms) <= 20
        assert all(term in chunk.text for term in terms)


def test_tiny_sections_are_read_with_their_neighbours_and_nothing_is_lost() -> None:
    sections = "".join(
        f"\\section{{Part {n}}}\\label{{s{n}}}\nLet $C$ and $D$ be categories. \\[ x_{n} \\label{{e{n}}} \\]\n"
        f"\\begin{{lemma}}Fact {n}.\\end{{lemma}}\n"
        for n in range(30)
    )
    reading = body(sections)
    chunks = [p for p in reading.passages if p.kind == "chunk"]
    assert len(chunks) < 5
    assert all(len(p.text) >= 200 for p in chunks)
    text = "\n\n".join(p.text for p in chunks)
    assert all(f"$x_{n}$" in text and f"Part {n}" in text for n in range(1, 30))
    targets = {label.name: label.target for label in reading.labels}
    for n in range(30):
        chunk = next(p for p in chunks if p.id == targets[f"e{n}"])
        assert f"$x_{n}$" in chunk.text
    assert [chunk.first_line for chunk in chunks] == sorted(chunk.first_line for chunk in chunks)
    assert all(chunk.first_line < chunk.last_line for chunk in chunks)


def test_no_chunk_crosses_the_heading_of_a_chapter() -> None:
    reading = body(
        r"\part{P} Of parts. \chapter{One} Short. \section{A} Tiny. \chapter{Two} Briefly. \section{B} Small."
    )
    assert [passage.text for passage in reading.passages] == [
        "Of parts.",
        "Short.\n\nA\n\nTiny.",
        "Briefly.\n\nB\n\nSmall.",
    ]


def test_no_chunk_crosses_the_heading_of_a_section_that_is_not_tiny() -> None:
    words = "A sentence of some length on the subject of this section, which is not repeated elsewhere. "
    reading = body(f"\\section{{One}}{words * 3}\\section{{Two}}{words * 3}\\subsection{{Three}}{words * 3}")
    assert [p.section for p in reading.passages] == ["One", "Two", "Two / Three"]
    reading = body(f"\\section{{One}}Only this. \\section{{Two}}{words * 3}")
    (chunk,) = reading.passages
    assert chunk.section == "Two"
    assert chunk.text.startswith("One\n\nOnly this.\n\nTwo\n\nA sentence")


def test_prose_that_only_connects_statements_is_left_out_and_counted_once() -> None:
    lemma = "\n\\begin{lemma}inside\\end{lemma}\n"
    reading = body(
        f"We now prove the following.{lemma}Here is another useful result.{lemma}"
        f"We need the snake lemma.{lemma}By the next lemma, see \\ref{{x}}.{lemma}We state the \\emph{{main result}}."
    )
    text = " ".join(p.text for p in reading.passages if p.kind == "chunk")
    assert "snake lemma" in text
    assert "By the next lemma" in text
    assert "main result" in text
    assert "We now prove" not in text
    assert "useful" not in text
    cause = "2 short texts between statements left out, as 'We now prove the following.' says nothing by itself"
    assert [skip.cause for skip in reading.skips] == [cause]
    assert [p.text for p in body("We now prove the following.").passages] == ["We now prove the following."]


def test_a_short_paragraph_that_is_repeated_is_kept_once() -> None:
    let = "Let $C$ and $D$ be categories."
    parts = [f"{let}\\label{{l{n}}}\n\\begin{{lemma}}\\label{{s{n}}}Number {n}.\\end{{lemma}}\n" for n in range(3)]
    reading = body("".join(parts) + "It follows from \\ref{s0}.\n\nIt follows from \\ref{s1}.")
    (chunk,) = (passage for passage in reading.passages if passage.kind == "chunk")
    assert chunk.bare_text == f"{let}\n\nIt follows from.\n\nIt follows from."
    assert [skip.cause for skip in reading.skips] == [f"2 repeated short texts left out, first {let!r}"]
    targets = {label.name: label.target for label in reading.labels}
    assert [targets[f"l{n}"] for n in range(3)] == ["doc@1", "doc#s1", "doc#s2"]


def test_chunks_respect_their_size_and_split_no_formula() -> None:
    words = " ".join(f"Sentence {n} has $x_{{{n}}} = y. Z$ in it." for n in range(300))
    chunks = [p for p in body(words).passages if p.kind == "chunk"]
    assert len(chunks) > 5
    assert all(len(p.text) <= 1500 and p.text.count("$") % 2 == 0 for p in chunks)
    assert [p.id for p in chunks] == [f"doc@{n + 1}" for n in range(len(chunks))]


def test_a_long_statement_is_whole_and_has_parts_for_the_index() -> None:
    source = "\\begin{lemma}[Long]\\label{l}" + "A sentence of it by \\ref{x}. " * 100 + "\\end{lemma}"
    lemma, *parts = read(source, options=PaperOptions(chunk_size=250)).passages
    assert (lemma.id, lemma.kind, len(lemma.bare_text)) == ("doc#l", "lemma", 2099)
    shared = "A sentence of it by. "
    assert " ".join([parts[0].text, *(part.text.removeprefix(shared) for part in parts[1:])]) == lemma.bare_text
    assert [part.id for part in parts] == [f"doc#l~part-{n}" for n in range(1, 11)]
    assert all((part.kind, part.title, part.links, part.proof) == ("part", "Long", (), "") for part in parts)


def test_an_empty_statement_is_a_recorded_skip() -> None:
    reading = body("\\begin{lemma}\\label{x}\\end{lemma} Words.")
    assert statements(reading) == []
    assert [(skip.line, skip.cause) for skip in reading.skips] == [(3, "lemma without text")]


def test_a_proof_inside_its_statement_is_not_part_of_its_text() -> None:
    lemma = only(body("\\begin{lemma}Claim.\\begin{proof}Why.\\end{proof}\\end{lemma}"))
    assert (lemma.text, lemma.proof) == ("Claim.", "Why.")


def test_macros_that_open_theorems_are_expanded() -> None:
    preamble = r"\def\bthm{\begin{theorem}}\def\ethm{\end{theorem}}\newcommand{\thmlabel}[1]{\label{thm:#1}}"
    theorem = only(body("Words.\n\\bthm\\thmlabel{a} Body\nof it.\n\\ethm\nMore.", preamble))
    assert (theorem.id, theorem.text) == ("doc#thm:a", "Body of it.")
    assert (theorem.first_line, theorem.last_line) == (4, 6)


def test_statements_in_comments_conditionals_and_verbatim_are_ignored() -> None:
    fake = "\\begin{theorem}FAKE\\end{theorem}"
    reading = body(
        f"% {fake}\n\\begin{{comment}}{fake}\\end{{comment}}\n\\iffalse {fake}\\fi\n"
        f"\\begin{{verbatim}}{fake}\\end{{verbatim}}\n"
        f"\\verb|{fake}|\n\\newif\\ifdraft\\ifdraft {fake}\\fi\n\\begin{{theorem}}REAL\\end{{theorem}}"
    )
    assert only(reading).text == "REAL"


def test_a_broken_statement_costs_only_itself() -> None:
    reading = body(
        "\\begin{theorem}Open.\n\\begin{lemma}Fine.\\end{lemma}\n\\section{Next}\\begin{lemma}Too.\\end{lemma}"
    )
    assert [(p.text, p.confidence) for p in statements(reading)] == [("Open.", 0.5), ("Fine.", 1.0), ("Too.", 1.0)]
    assert [skip.cause for skip in reading.skips] == ["\\begin{theorem} is never closed"]


# ---------------------------------------------------------------- labels, files, macros


def test_labels_refer_to_the_passage_that_contains_them() -> None:
    reading = body(
        "\\section{S}\\label{sec}\nWords here.\n\n"
        "\\begin{lemma}\\label{lem}\\begin{equation}\\label{eq}x\\end{equation}\\end{lemma}"
        "\\begin{proof}\\begin{equation}\\label{inproof}y\\end{equation}\\end{proof}"
    )
    targets = {label.name: label.target for label in reading.labels if not label.name.startswith("number:")}
    assert targets == {"sec": "doc@1", "lem": "doc#lem", "eq": "doc#lem", "inproof": "doc#lem"}


def test_a_label_after_many_claims_refers_to_the_passage_around_them() -> None:
    claims = "\\begin{claim}A claim.\\end{claim}\\begin{proof}Clear.\\end{proof}\n" * 5
    theorem = "\\begin{theorem}\\label{thm}It holds.\\end{theorem}\n"
    equation = "\\begin{equation}\\label{eq:last}y\\end{equation}"
    reading = body(f"{theorem}\\begin{{proof}}\n{claims}{equation}\\end{{proof}}")
    assert {label.name: label.target for label in reading.labels}["eq:last"] == "doc#thm"
    claims = "\\begin{claim}A claim.\\end{claim}\n" * 9
    reading = body(
        f"\\begin{{theorem}}\\label{{thm}}\n{claims}It holds.\\label{{last}}\\end{{theorem}}\n\nSee \\ref{{last}}."
    )
    assert reading.passages[-1].text == "See theorem last."


@pytest.mark.parametrize(
    "opening",
    [
        r"\begin{equation}",
        r"\csname equation\endcsname",
        r"\equation",
        r" \begin {align*} ",
        r"\[",
        "$$",
        r"\begin{eqn}",
    ],
)
def test_an_environment_that_only_opens_a_display_is_one(opening: str) -> None:
    preamble = rf"\newenvironment{{eqn}}{{\begin{{gather}}}}{{\end{{gather}}}}\newenvironment{{mine}}{{{opening}}}{{}}"
    (passage,) = body(r"We have \begin{mine} \hom_A(x, F) \cong Fx \end{mine} for all.", preamble).passages
    assert passage.text == "We have\n$\\hom_A(x, F) \\cong Fx$\nfor all."


def test_a_question_with_a_formula_is_text_and_options_are_not() -> None:
    preamble = r"\newenvironment{question}[2][]{\refstepcounter{equation}\textbf{Question.} #1#2\par}{}"
    source = r"\begin{question}[leftmargin=2mm]{Is $x=y$ in every field?} It is.\end{question}"
    assert only(body(source, preamble)).text == "Is $x=y$ in every field?\n\nIt is."


def test_an_environment_may_be_called_like_a_macro() -> None:
    (passage,) = body(r"The mean of \var{price} is $\var{m}$.", r"\newenvironment{var}[1]{\texttt{#1}}{}").passages
    assert passage.text == r"The mean of price is $\texttt{m}$."


def test_included_files_keep_their_lines_and_are_listed() -> None:
    reading = read(
        "\\begin{document}\n\\input{a}\n\\input{gone}\n\\end{document}",
        {"a.tex": "% one\n\\begin{lemma}% two\n  x\n\\end{lemma}"},
    )
    lemma = only(reading)
    assert (lemma.file, lemma.first_line, lemma.last_line) == ("a.tex", 2, 4)
    assert reading.files["a.tex"]
    assert reading.files["gone.tex"] == ""
    assert [(skip.file, skip.line) for skip in reading.skips] == [("main.tex", 3)]


def test_macros_that_cannot_be_expanded_are_reported_when_they_are_used() -> None:
    reading = body(r"\a{x} \begin{lemma}y\end{lemma}", r"\def\a#1{\ifx#1\b 1\fi}\def\unused{\csname x\endcsname}")
    assert reading.documents[0].metadata["unexpanded"] == {"a": "it computes"}


def test_external_documents_become_prefixes() -> None:
    assert body("words", r"\externaldocument[A-]{algebra}").prefixes == {"doc": {"A-": "algebra"}}


def test_all_references_of_an_inline_bibliography_come_with_the_paper() -> None:
    reading = body(
        r"See \cite{b}. "
        r"\begin{thebibliography}{9}\bibitem{a} A. \bibitem{b} B. Author, Title, 1999.\end{thebibliography}"
    )
    assert [reference.key for reference in reading.references["doc"]] == ["a", "b"]
    assert not any("Author" in p.text for p in reading.passages)


BIB = "@book{a, title={On Apples}}\n@book{b, title={On Bees}}\n@book{c, title={On Cats}}\n"


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        (r"See \cite{b}. \bibliography{refs}", ["b"]),
        (r"See \cite{b}. \nocite{c}\bibliography{refs}", ["b", "c"]),
        (r"See \cite{b}. \nocite{*}\bibliography{refs}", ["a", "b", "c"]),
        (r"See \cite{b}. \nocite{a, c}\bibliography{refs}\bibliography{gone}", ["a", "b", "c"]),
    ],
)
def test_a_bib_file_gives_the_cited_entries_or_all_with_nocite(source: str, keys: list[str]) -> None:
    reading = read(rf"\begin{{document}}{source}\end{{document}}", {"refs.bib": BIB})
    assert sorted(reference.key for reference in reading.references["doc"]) == keys
    assert not any(link.label == "*" for passage in reading.passages for link in passage.links)


def test_a_bbl_gives_all_its_entries_and_the_bib_only_fills_them() -> None:
    bbl = r"\begin{thebibliography}{9}\bibitem{c} C. Crow, 1999.\bibitem{b} B.\end{thebibliography}"
    reading = read(
        r"\begin{document}See \cite{b}. \bibliography{refs}\end{document}", {"refs.bib": BIB, "main.bbl": bbl}
    )
    assert {r.key: r.title for r in reading.references["doc"]} == {"b": "On Bees", "c": ""}


CHAPTER = r"\documentclass{book}\input{preamble}\begin{document}See \cite{%s}.\end{document}"


def test_chapters_without_a_bibliography_use_the_bib_beside_them() -> None:
    files = {
        "preamble.tex": "", "one.tex": CHAPTER % "a", "two.tex": CHAPTER % "c", "refs.bib": BIB,
        "book.tex": r"\documentclass{book}\input{preamble}\begin{document}All. \bibliography{refs}\end{document}",
    }  # fmt: skip
    readings = read_package(files, single_paper=False)
    keys = {r.documents[0].id: [entry.key for entry in r.references.get(r.documents[0].id, ())] for r in readings}
    assert keys == {"pack/book": [], "pack/one": ["a"], "pack/two": ["c"]}


# ---------------------------------------------------------------- self-links


def links_of(reading: Reading) -> dict[str, list[tuple[str, str]]]:
    return {passage.id: [(link.relation, link.label) for link in passage.links] for passage in statements(reading)}


def test_references_in_the_note_of_a_theorem_are_links_and_not_part_of_its_title() -> None:
    reading = body(r"\begin{theorem}[Theorem~\ref{t1} for curves, after \ref{t}]\label{t} Big.\end{theorem}")
    assert links_of(reading) == {"doc#t": [("refers_to", "t1")]}
    assert "t1" not in only(reading).title


def test_references_in_the_title_of_a_proof_are_links_unless_they_name_what_is_proved() -> None:
    reading = body(
        r"""
\begin{theorem}\label{a} Big.\end{theorem}
\begin{proof}[Proof (after \cite{Foo}, using Theorem~\ref{c})] P.\end{proof}
\begin{theorem}\label{b} Big.\end{theorem}
\begin{theorem}\label{c} Big.\end{theorem}
\begin{proof}[Proof of Theorems~\ref{b} and~\ref{c} from \cref{a}] P.\end{proof}
"""
    )
    assert links_of(reading) == {
        "doc#a": [("cites", "Foo"), ("proof_uses", "c")],
        "doc#b": [("proof_uses", "a")],
        "doc#c": [("proof_uses", "a")],
    }


def test_a_statement_never_refers_to_itself() -> None:
    reading = body(
        r"""
\begin{theorem}\label{t}\label{also}
  \begin{equation}\label{eq} x \end{equation} See \ref{t} and \ref{l}.
\end{theorem}
\begin{proof} By \ref{t}, \eqref{eq}, \cref{also,l} and \eqref{inside}.
  \begin{equation}\label{inside} y \end{equation} \end{proof}
\begin{lemma}\label{l} x by \eqref{inside} \end{lemma}

Words on \eqref{prose}. \begin{equation}\label{prose} z \end{equation}
"""
    )
    links = {p.id: [(link.relation, link.label) for link in p.links] for p in reading.passages}
    assert links == {
        "doc#t": [("refers_to", "l"), ("proof_uses", "l")],
        "doc#l": [("refers_to", "inside")],
        "doc@1": [],
    }


def test_an_article_is_not_related_to_itself() -> None:
    reading = read(r"\pmcanonicalname{Ring}\pmtitle{ring}\pmrelated{Ring}\pmrelated{Field}\begin{document}A ring.")
    assert [link.label for link in reading.documents[0].links] == ["name:Field"]


def test_a_missing_main_file_is_an_error_and_an_empty_one_a_skip() -> None:
    with pytest.raises(FileNotFoundError):
        read_paper(dict[str, bytes]().get, Main("main.tex"), "doc")
    assert [skip.cause for skip in read("").skips] == ["it contains no text"]


# ---------------------------------------------------------------- metadata


def read_document(source: str, document: str = "doc") -> Document:
    return read_paper({"main.tex": source.encode()}.get, Main("main.tex"), document).documents[0]


def test_title_authors_date_keywords_and_categories_are_read() -> None:
    paper = read_document(
        r"""\documentclass{amsart}\newcommand{\q}{$q$}
\title[Short]{On \q-series\thanks{Grant.}}
\author{G\"unter A. \and B. C. D'Arc\footnote{X}}\author[E]{E. Fried}
\date{March 3, 2021}\keywords{partitions, $q$-series; tableaux}
\subjclass[2020]{Primary 05A17; Secondary 11P84}
\begin{document}\maketitle\begin{abstract}We count.\end{abstract}Words.\end{document}"""
    )
    assert paper.title == "On $q$-series"
    assert paper.authors == ("Günter A.", "B. C. D'Arc", "E. Fried")
    assert paper.date == "2021-03-03"
    assert paper.metadata["keywords"] == ["partitions", "$q$-series", "tableaux"]
    assert paper.categories == ("msc:05A17", "msc:11P84")


@pytest.mark.parametrize(
    "title",
    [
        r"On Rings\footnote{Supported by {\it a} grant.}",
        r"On\thanks{To {E.} Noether} Rings",
        r"On Rings\protect\footnote{X}",
        r"On Rings\footnotemark[1]\footnotetext[1]{Y}",
        r"On Rings\tnoteref{t1}",
        r"On Rings \titlenote{Z}",
        r"\label{title} On Rings\footnote[2]{W}",
        r"On Rings\support",
    ],
)
def test_notes_are_no_part_of_the_title(title: str) -> None:
    source = (
        rf"\newcommand{{\support}}{{\footnote{{A grant.}}}}\title{{{title}}}\begin{{document}}Words.\end{{document}}"
    )
    assert read_document(source).title == "On Rings"


def test_notes_are_no_part_of_headings_and_names() -> None:
    reading = body(r"\section{Rings\footnote{A {nested} note.}\label{s}} Words here.")
    assert reading.passages[0].section == "Rings"
    assert {label.name: label.target for label in reading.labels} == {"s": "doc@1", "number:section 1": "doc@1"}
    paper = read_document(r"\author{A. Bee\footnote{At {X}, Y}}\begin{document}Words.\end{document}")
    assert paper.authors == ("A. Bee",)


def test_an_abstract_is_a_passage_of_its_own() -> None:
    for source in ("\\begin{abstract}We count.\\end{abstract}", "\\abstract{We count.}"):
        (abstract,) = [p for p in body(source + "\n\nWords here.").passages if p.kind == "abstract"]
        assert (abstract.id, abstract.text) == ("doc#abstract-1", "We count.")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("2004.14974v2.tar.gz", "2004.14974"),
        ("arXiv-0704.0001v1.tar.gz", "0704.0001"),
        ("math0211159.gz", "math/0211159"),
        ("hep-th9901001.tar", "hep-th/9901001"),
        ("math.AG_0211159", "math.ag/0211159"),
        ("folder/1501.00001", "1501.00001"),
        ("paper.tex", ""),
        ("20041497", ""),
        ("chapter-12", ""),
    ],
)
def test_arxiv_ids_are_read_from_names(name: str, expected: str) -> None:
    assert arxiv_id_of_file(name) == expected


def test_an_arxiv_id_gives_the_month_where_the_paper_does_not() -> None:
    paper = read_document("\\begin{document}Words.\\end{document}", "2004.14974")
    assert (paper.date, paper.metadata["arxiv"]) == ("2020-04", "2004.14974")


def test_figures_and_junk_are_no_source_files() -> None:
    assert all(map(is_source_file, ["a.tex", "b/c.ltx", "d.bbl", "00README.XXX", "0305123", "math.0305123", "a.sty"]))
    assert not any(map(is_source_file, ["__MACOSX/a.tex", "._a.tex", "b/.DS_Store", "fig.png", "fig.eps", "a.pdf"]))


# ---------------------------------------------------------------- packages

PAPER = "\\documentclass{article}\\begin{document}Words of %s.\\end{document}"


def read_package(files: Mapping[str, str], *, single_paper: bool = True) -> list[Reading]:
    return list(read_package_papers({k: v.encode() for k, v in files.items()}, "pack", single_paper=single_paper))


def test_a_package_is_one_paper_with_a_confidence_in_its_main_file() -> None:
    (reading,) = read_package({"a.tex": PAPER % "one", "old/b_old.tex": PAPER % "two"})
    document = reading.documents[0]
    assert (document.id, document.metadata["main_file"]) == ("pack", "a.tex")
    assert document.metadata["runners_up"] == ["old/b_old.tex"]
    assert 0.5 < document.metadata["main_confidence"] < 1


def test_chapters_that_share_a_preamble_are_separate_documents() -> None:
    chapter = "\\input{preamble}\\begin{document}Words of %s.\\end{document}"
    files = {"preamble.tex": "\\documentclass{amsart}", "one.tex": chapter % "one", "two.tex": chapter % "two"}
    assert [r.documents[0].id for r in read_package(files, single_paper=False)] == ["pack/one", "pack/two"]
    assert len(read_package(files)) == 1


def test_every_complete_paper_of_a_package_is_read_or_skipped() -> None:
    files = {
        "p1/one.tex": PAPER % "one",
        "p2/two.tex": PAPER % "two" + "\\input{part}",
        "p2/part.tex": PAPER % "a part",
        "p2/two_old.tex": PAPER % "an old copy",
        "figure.tex": PAPER.replace("article", "standalone") % "a figure",
    }
    *papers, last = read_package(files, single_paper=False)
    assert [reading.documents[0].id for reading in papers] == ["pack/p1/one", "pack/p2/two"]
    assert [skip[::2] for skip in last.skips] == [("p2/two_old.tex", "looks like an old copy of p2/two.tex")]
    (reading,) = read_package(files)
    assert reading.documents[0].metadata["main_file"] == "p2/two.tex"
    cause = "it is not the main file of this package"
    assert [skip[::2] for skip in reading.skips] == [("p1/one.tex", cause), ("p2/two_old.tex", cause)]


def test_an_old_copy_makes_no_collection() -> None:
    (reading,) = read_package({"a.tex": PAPER % "one", "a_old.tex": PAPER % "two"}, single_paper=False)
    assert [document.id for document in reading.documents] == ["pack"]
    assert [skip.file for skip in reading.skips] == ["a_old.tex"]


def test_a_package_without_tex_is_a_skip() -> None:
    (reading,) = read_package({"a.txt": "nothing"})
    assert [skip.cause for skip in reading.skips] == ["no TeX file in this package"]


# ---------------------------------------------------------------- properties

PIECES = st.sampled_from([
    "word ", "word\n", "% \\begin{theorem}\n", "text % c\n", "\n\n", "\\input{part}\n",
    "\\begin{comment}\n\\end{lemma}\n\\end{comment}\n",
    "\\mac{x} ", "\\section{S}\n", "$x\n+y$ ", "\\def\\mac#1{<\n#1>}\n", "\\iffalse\n\\begin{lemma}\n\\fi ",
    "\\begin{verbatim}\n%\n\\end{verbatim}\n",
    "STATEMENT",
])  # fmt: skip


@given(
    st.lists(PIECES, max_size=25),
    st.lists(PIECES.filter(lambda p: "input" not in p), max_size=10),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_line_numbers_match_the_source_files(main: list[str], part: list[str], newline: str) -> None:
    count = iter(range(1000))

    def build(pieces: list[str]) -> str:
        def numbered(piece: str) -> str:
            n = next(count)
            return (
                f"\\begin{{lemma}}\\label{{l{n}}}% c\n a{n}\n%\n b\n\\end{{lemma}}% e{n}\n"
                if piece == "STATEMENT"
                else piece
            )

        return "".join(map(numbered, pieces))

    files = {
        "main.tex": f"\\newcommand{{\\mac}}[1]{{#1}}\n\\begin{{document}}\n{build(main)}\n\\end{{document}}",
        "part.tex": build(part),
    }
    data = {name: text.replace("\n", newline).encode() for name, text in files.items()}
    reading = read_paper(data.get, Main("main.tex"), "doc")
    expected = main.count("STATEMENT") + part.count("STATEMENT") * main.count("\\input{part}\n")
    assert len(statements(reading)) == expected
    for passage in reading.passages:
        lines = files[passage.file].split("\n")
        assert 1 <= passage.first_line <= passage.last_line <= len(lines)
        if passage.kind == "lemma":
            number = passage.id.split("#l")[1].split("~")[0]
            assert f"\\begin{{lemma}}\\label{{l{number}}}" in lines[passage.first_line - 1]
            assert lines[passage.last_line - 1].startswith("\\end{lemma}")
            assert lines[passage.last_line - 1].endswith(f"% e{number}")


FRAGMENTS = [
    "\\documentclass{article}", "\\begin{document}", "\\end{document}", "\\begin{theorem}", "\\end{theorem}", "[",
    "]", "{", "}", "$",
    "\\begin{proof}", "\\end{proof}", "\\label{a}", "\\ref{a}", "\\cite{b}", "\\section{", "\\title{", "\\author{",
    "\\newcommand{\\m}", "\\m",
    "\\def\\n", "\\n", "#1", "\\begin{abstract}", "\\end{abstract}", "\\bibitem{b}", "\\input{main}", "\\input{b}",
    "%", "\n", "\n\n", "words ",
    "\\iffalse", "\\fi", "\\begin{equation}", "\\end{equation}", "\\[", "\\]", "\\newtheorem{x}{X}", "\\begin{x}",
    "\\", "\\bibliography{b}",
    "\\def\\bt{\\begin{theorem}}", "\\bt", "\\date{2020}", "\\pmcanonicalname{A}", "\\externaldocument{z}", "é",
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=60), st.lists(st.sampled_from(FRAGMENTS), max_size=20))
def test_reading_never_raises_on_fragments(main: list[str], part: list[str]) -> None:
    reading = read("".join(main), {"b.tex": "".join(part), "b.bib": "".join(part)})
    ids = [passage.id for passage in reading.passages]
    assert len(ids) == len(set(ids))
    assert all(passage.text for passage in reading.passages)


@given(st.binary(max_size=400))
def test_reading_never_raises_on_bytes(data: bytes) -> None:
    package = {"main.tex": data, "00README.json": data, "x.bbl": data}
    readings = [read_paper({"main.tex": data}.get, Main("main.tex"), "doc"), *read_package_papers(package, "pack")]
    for reading in readings:
        documents = {document.id for document in reading.documents}
        assert all(passage.document in documents and passage.text for passage in reading.passages)


@pytest.mark.parametrize(
    "fragment",
    [r"\begin{theorem}", "{", "$", r"\iffalse", r"\input{a}", r"\newcommand{\a}{", r"\def\a#1{", "%", "[",
     r"\begin{verbatim}", r"\footnote{",
     r"\cite[", r"\item[", r"\begin{theorem}\label{a}x\end{theorem}", r"\def\bt{\begin{theorem}}\bt ", r"\title{",
     r"\author{a} ", "a ", "$a{$",
     r"\section{x}y ", r"\begin{a}", r"\abstract{", r"\def\b#1{\label{#1}}\b{",
     r"\emph{ab} ", r"\emph{", r"{\it ", r"\emph{a{b}", r"\label{\emph{ab}}x "],
)  # fmt: skip
def test_hostile_repetition_is_read_in_linear_time(fragment: str) -> None:
    begin = "\\begin{document}"
    assert is_linear(lambda size: read(begin + fragment * (size // len(fragment)), {"a.tex": "x"}), 40_000)
