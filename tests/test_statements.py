from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.latex.expand import read_environments
from lemmata.latex.statements import Statement, Structure, kind_of, read_kinds, read_structure


def structure(text: str) -> Structure:
    body = text.find("\\begin{document}")
    environments, _ = read_environments(text)
    return read_structure(text, max(body, 0), read_kinds(text, environments))


def statements(text: str) -> list[Statement]:
    return structure(text).statements


def body(text: str, statement: Statement) -> str:
    return text[statement.content : statement.close].strip()


def proofs(text: str, statement: Statement) -> list[str]:
    return [text[begin:end].strip() for begin, end in statement.proofs]


# ---------------------------------------------------------------- declarations


@pytest.mark.parametrize(
    ("declaration", "name", "kind"),
    [
        (r"\newtheorem{satz}{Satz}[section]", "satz", "theorem"),
        (r"\newtheorem{x}[theorem]{Lemma}", "x", "lemma"),
        (r"\newtheorem*{x}{Main Theorem}", "x", "theorem"),
        (r"\newtheorem{x}{\bf Proposition}", "x", "proposition"),
        (r"\newtheorem{x}{Situation}", "x", "situation"),
        (r"\newtheorem{x}{Théorème}", "x", "theorem"),
        (r"\newtheorem{x}{Th\'eor\`eme}", "x", "theorem"),
        (r"\newtheorem{x}{D\'efinition}", "x", "definition"),
        (r"\newtheorem{x}{Folgerung}", "x", "corollary"),
        (r"\newtheorem{x}{Hilfssatz}", "x", "lemma"),
        (r"\newtheorem{x}{Beispiel}", "x", "example"),
        (r"\newtheorem{x}{Remarque}", "x", "remark"),
        (r"\newtheorem {x} {Lemma}", "x", "lemma"),
        (r"\declaretheorem{lem}", "lem", "lemma"),
        (r"\declaretheorem[name=Main Lemma,numberwithin=section]{x}", "x", "lemma"),
        (r"\declaretheorem[sibling=theorem,name={Claim}]{x}", "x", "claim"),
        (r"\declaretheorem{x}[name=Claim]", "x", "claim"),
        (r"\declaretheorem[name=Claim]{x,y}", "y", "claim"),
        (r"\declaretheorem[sibling=theorem]{lemma,proposition,corollary}", "corollary", "corollary"),
        (r"\newtheorem{x}{Erkl\"arung}", "x", "definition"),
        (r"\spnewtheorem{x}{Fact}{\bfseries}{\itshape}", "x", "fact"),
        (r"\spnewtheorem*{x}[theorem]{Fact}{\bfseries}{\itshape}", "x", "fact"),
        (r"\newaliascnt{x}{theorem}\newtheorem{x}[x]{Lemma}\aliascntresetthe{x}", "x", "lemma"),
        (r"\newmdtheoremenv[linecolor=red]{x}{Lemma}", "x", "lemma"),
        (r"\newmdtheoremenv{x}[theorem]{Lemma}", "x", "lemma"),
        (r"\newenvironment{x}{\begin{lemma}}{\end{lemma}}", "x", "lemma"),
        (r"\newenvironment{x}[1][]{\medskip\begin{lemma}[#1]}{\end{lemma}}", "x", "lemma"),
        (r"\newenvironment{x}{\par\begin{y}}{\end{y}}\newenvironment{y}{\begin{lemma}}{\end{lemma}}", "x", "lemma"),
        ("", "theorem", "theorem"),
        ("", "theorem*", "theorem"),
        ("", "thm", "theorem"),
        ("", "lem*", "lemma"),
        ("", "defn", "definition"),
        ("", "korollar", "corollary"),
    ],
)  # fmt: skip
def test_every_way_to_declare_a_theorem(declaration: str, name: str, kind: str) -> None:
    text = declaration + rf"\begin{{document}}\begin{{{name}}}[Note]\label{{l}} Body.\end{{{name}}}\end{{document}}"
    (statement,) = statements(text)
    assert (statement.kind, statement.note, statement.label) == (kind, "Note", "l")
    assert body(text, statement) == r"\label{l} Body."
    assert statement.confidence == 1.0


def test_tcolorbox_theorems_have_title_and_label_as_arguments() -> None:
    text = (
        r"\newtcbtheorem[number within=section]{mytheo}{My Theorem}{colback=green!5}{th}\begin{document}"
        r"\begin{mytheo}{Gauss}{gauss} Body. \end{mytheo}\begin{mytheo}[style]{}{} More.\end{mytheo}"
    )
    first, second = statements(text)
    assert (first.kind, first.note, first.label, body(text, first)) == ("theorem", "Gauss", "th:gauss", "Body.")
    assert (second.note, second.label, body(text, second)) == ("", "", "More.")


def test_a_restatable_theorem_has_the_kind_of_its_argument() -> None:
    text = r"\begin{document}\begin{restatable}[Euler]{lemma}{again}\label{l} Body.\end{restatable}"
    (statement,) = statements(text)
    assert (statement.kind, statement.note, statement.label) == ("lemma", "Euler", "l")
    assert body(text, statement) == r"\label{l} Body."


def test_thmtools_options_give_note_and_label() -> None:
    (statement,) = statements(r"\begin{theorem}[name={Gauss, again}, label=thm:g, restate=x] Body.\end{theorem}")
    assert (statement.note, statement.label) == ("Gauss, again", "thm:g")


def test_amsppt_statements_are_read() -> None:
    text = r"\proclaim{Theorem 1.2} Body. \endproclaim \demo{Proof} Why. \enddemo \proclaim{Lemma} B.\endproclaim"
    theorem, lemma = statements(text)
    assert (theorem.kind, body(text, theorem), proofs(text, theorem)) == ("theorem", "Body.", ["Why."])
    assert lemma.kind == "lemma"


def test_captions_become_kinds() -> None:
    assert kind_of("Main Theorem") == "theorem"
    assert kind_of("Lemma-Definition") == "definition"
    assert kind_of("Standing Hypothesis") == "assumption"
    assert kind_of("Open Situation") == "open-situation"
    assert kind_of("Лемма") == ""


# ---------------------------------------------------------------- structure


def test_sections_labels_and_abstract() -> None:
    text = (
        r"\begin{document}\begin{abstract}Short.\end{abstract}\section{One}\label{sec}\subsection*{Two}"
        r"\begin{lemma}a\end{lemma}\section[short]{Three}\begin{lemma}b\end{lemma}"
    )
    result = structure(text)
    assert [text[b:e] for b, e in result.abstracts] == ["Short."]
    assert [section.path for section in result.sections] == [("One",), ("One", "Two"), ("Three",)]
    assert [statement.section for statement in result.statements] == [("One", "Two"), ("Three",)]
    assert [name for _, name in result.labels] == ["sec"]


def test_a_label_inside_a_list_or_formula_is_not_that_of_the_statement() -> None:
    text = r"\begin{lemma}\begin{equation}\label{eq}x\end{equation}\label{lem}\label{other}\end{lemma}"
    (statement,) = statements(text)
    assert statement.label == "lem"
    assert [name for _, name in structure(text).labels] == ["eq", "lem", "other"]


def test_statements_in_verbatim_are_ignored() -> None:
    fake = r"\begin{theorem}fake\end{theorem}"
    text = rf"\begin{{verbatim}}{fake}\end{{verbatim}} \verb|\begin{{lemma}}| \\begin{{lemma}}"
    assert statements(text) == []


# ---------------------------------------------------------------- proofs


def test_an_adjacent_proof_and_a_second_one_belong_to_the_statement() -> None:
    text = (
        r"\begin{theorem}a\end{theorem} \begin{proof}1\end{proof} \begin{proof}[Second proof]2\end{proof}"
        r" \begin{lemma}b\end{lemma} Some words. \begin{proof}3\end{proof}"
    )
    theorem, lemma = statements(text)
    assert proofs(text, theorem) == ["1", "2"]
    assert proofs(text, lemma) == ["3"]


@pytest.mark.parametrize(
    "reference", [r"\ref{t}", r"\cref{t}", r"Theorem~\ref{t}", r"\autoref{t}", r"{\hyperref[t]{it}}", r"\Cref{u,t}"]
)
def test_a_proof_belongs_to_the_statement_that_it_names(reference: str) -> None:
    text = (
        r"\section{A}\begin{theorem}\label{t}a\end{theorem}\begin{lemma}b\end{lemma}\begin{proof}B\end{proof}"
        rf"\section{{B}}\begin{{lemma}}c\end{{lemma}}\begin{{proof}}[Proof of {reference}]A\end{{proof}}"
    )
    theorem, lemma, other = statements(text)
    assert proofs(text, theorem) == ["A"]
    assert proofs(text, lemma) == ["B"]
    assert proofs(text, other) == []


@pytest.mark.parametrize(
    "hint", ["Proof of Gauss's Lemma", "Proof of the Gauss's lemma", "Sketch of proof of Gauss's Lemma"]
)
def test_a_proof_may_name_its_statement_by_its_note(hint: str) -> None:
    text = (
        r"\begin{lemma}[Gauss's Lemma]a\end{lemma}\begin{theorem}b\end{theorem}"
        rf"\begin{{proof}}[{hint}]A\end{{proof}}"
    )
    lemma, theorem = statements(text)
    assert proofs(text, lemma) == ["A"]
    assert proofs(text, theorem) == []


def test_a_proof_of_two_statements_belongs_to_both_but_not_to_what_it_uses() -> None:
    text = (
        r"\begin{theorem}\label{a}x\end{theorem}\begin{lemma}\label{b}y\end{lemma}\begin{lemma}\label{c}z\end{lemma}"
        r"\section{S}\begin{proof}[Proof of Theorem~\ref{a} and \cref{b} from \ref{c}]A\end{proof}"
    )
    assert [proofs(text, statement) for statement in statements(text)] == [["A"], ["A"], []]


def test_a_note_without_words_names_no_proof() -> None:
    text = (
        r"\begin{lemma}x\end{lemma}\begin{proof}A\end{proof}\section{S}\begin{fact}[\cite{a}]y\end{fact}"
        r"\section{T}\begin{proof}[Proof]B\end{proof}"
    )
    lemma, fact = statements(text)
    assert proofs(text, lemma) == ["A"]
    assert proofs(text, fact) == []


def test_a_proof_inside_a_statement_belongs_to_it() -> None:
    text = r"\begin{theorem}a \begin{proof}A\end{proof}\end{theorem}"
    (theorem,) = statements(text)
    assert proofs(text, theorem) == ["A"]


def test_a_proof_in_a_separate_section_is_matched_by_the_heading() -> None:
    text = r"\begin{theorem}\label{t}a\end{theorem}\section{Proof of Theorem \ref{t}}\begin{proof}A\end{proof}"
    (theorem,) = statements(text)
    assert proofs(text, theorem) == ["A"]


def test_definitions_and_remarks_get_no_distant_proof() -> None:
    text = r"\begin{remark}a\end{remark} Words. \begin{proof}A\end{proof}"
    (remark,) = statements(text)
    assert remark.proofs == []


# ---------------------------------------------------------------- mistakes


def test_nested_statements_are_both_read() -> None:
    text = r"\begin{theorem}a \begin{claim}b\end{claim} c\end{theorem}"
    theorem, claim = statements(text)
    assert (theorem.kind, claim.kind) == ("theorem", "claim")
    assert body(text, claim) == "b"


def test_an_unclosed_statement_ends_at_the_next_with_less_confidence() -> None:
    text = r"\begin{theorem}\label{t} a. \begin{lemma}b\end{lemma} \begin{proof}c\end{proof} \section{S} d"
    theorem, lemma = statements(text)
    assert (body(text, theorem), theorem.confidence) == (r"\label{t} a.", 0.5)
    assert (body(text, lemma), lemma.confidence) == ("b", 1.0)
    assert proofs(text, lemma) == ["c"]
    assert any("never closed" in problem for _, problem in structure(text).problems)


def test_a_wrong_end_closes_the_open_statement() -> None:
    text = r"\begin{theorem}a\end{thm} b \begin{lemma}c\end{lemma}"
    theorem, lemma = statements(text)
    assert (body(text, theorem), theorem.confidence) == ("a", 0.8)
    assert body(text, lemma) == "c"


def test_unclosed_lists_inside_do_not_hide_the_end() -> None:
    text = r"\begin{theorem}a \begin{itemize}\item b\end{theorem} c"
    (theorem,) = statements(text)
    assert body(text, theorem) == r"a \begin{itemize}\item b"
    assert theorem.confidence == 1.0


FRAGMENTS = [
    r"\begin{theorem}", r"\end{theorem}", r"\begin{lemma}[", "]", r"\end{lemma}", r"\begin{proof}",
    r"[Proof of \ref{a}]",
    r"\end{proof}", r"\label{a}", r"\label{b}", r"\section{S}", r"\subsection", "{", "}", "text ", "\n\n",
    r"\begin{itemize}",
    r"\end{itemize}", r"\begin{verbatim}", r"\end{verbatim}", r"\proclaim{Lemma}", r"\endproclaim",
    r"\begin{restatable}",
    r"{lemma}", r"\newtheorem{x}", r"{X}", r"\begin{x}", r"\end{x}", r"\begin{abstract}", r"\end{abstract}",
    r"\verb|", "$", "\\",
    r"\newtcbtheorem{y}{Y}{}{p}", r"\begin{y}", r"\declaretheorem[name=", r"\newenvironment{z}{\begin{x}}{\end{x}}",
    r"\begin{z}",
]  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=50))
def test_reading_never_raises_and_spans_are_in_order(fragments: list[str]) -> None:
    text = "".join(fragments)
    result = structure(text)
    for statement in result.statements:
        assert 0 <= statement.begin <= statement.content <= statement.close <= statement.end <= len(text)
        assert all(begin <= end for begin, end in statement.proofs)
    assert result.apart == sorted(result.apart)


@pytest.mark.parametrize(
    "fragment",
    [r"\begin{theorem}", r"\begin{theorem}[", r"\begin{a}", r"\section{", r"\section[", r"\newtheorem{a}{",
     r"\begin{verbatim}",
     r"\end{theorem}", r"\begin{restatable}{", r"\proclaim{", r"\begin{proof}x\end{proof}", r"\verb|", r"\label{",
     r"\declaretheorem[",
     r"\begin{lemma}x\end{lemma}\begin{proof}[\ref{x}]y\end{proof}", r"\begin{a}\section{x}", r"\begin{a}\end{b}"],
)  # fmt: skip
def test_hostile_repetition_is_read_in_linear_time(fragment: str) -> None:
    text = fragment * (100_000 // len(fragment))
    start = time.process_time()
    structure(text)
    assert time.process_time() - start < 3
