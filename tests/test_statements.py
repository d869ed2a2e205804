from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.latex.expand import read_environments
from lemmata.latex.kinds import kind_of, read_kinds
from lemmata.latex.statements import Statement, Structure, read_structure


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


BOX = r"\newtcbtheorem[number within=section]{Theorem}{Theorem}{colback=red!5, fonttitle=\bfseries}{th}"


@pytest.mark.parametrize(
    ("definition", "call"),
    [
        (r"\newenvironment{definition}[2]{\begin{Theorem}[label={#2}]{#1}{}}{\end{Theorem}}", "{Open sets}{open}"),
        (r"\newenvironment{definition}[2]{\begin{Theorem}[label=#2]{#1}{}}{\end{Theorem}}", "{Open sets}{open}"),
        (r"\newenvironment{definition}[2]{\begin{Theorem}{#1}{}\label{#2}}{\end{Theorem}}", "{Open sets}{open}"),
        (r"\newenvironment{definition}[2][]{\begin{theorem}[#1]\label{#2}}{\end{theorem}}", "[Open sets]{open}"),
        (r"\newenvironment{definition}[2]{\begin{theorem}[#2]\label{#1}}{\end{theorem}}", "{open}{Open sets}"),
        (r"\newenvironment{definition}{\begin{theorem}}{\end{theorem}}", r"[Open sets]\label{open}"),
        ((r"\newenvironment{definition}[2]{\begin{box}{#1}{#2}}{\end{box}}"
          r"\newenvironment{box}[2]{\medskip\begin{Theorem}[label={#2}]{#1}{}}{\end{Theorem}}"), "{Open sets}{open}"),
        (r"\NewDocumentEnvironment{definition}{m m}{\begin{Theorem}[label={#2}]{#1}{}}{\end{Theorem}}",
         "{Open sets}{open}"),
        (r"\NewDocumentEnvironment{definition}{O{} +m m}{\begin{Theorem}[#1, label={#3}]{#2}{}}{\end{Theorem}}",
         "{Open sets}{open}"),
        ((r"\NewDocumentEnvironment{definition}{o m}{\IfNoValueTF{#1}{\begin{theorem}}{\begin{theorem}[#1]}"
          r"\label{#2}}{\end{theorem}}"), "[Open sets]{open}"),
        ((r"\NewDocumentEnvironment{definition}{s o m}{\IfValueTF{#2}{\begin{theorem}[#2]}{\begin{theorem}}"
          r"\label{#3}}{\end{theorem}}"), "*[Open sets]{open}"),
        (r"\newenvironment{definition}[2]{\refstepcounter{n}\label{#2}\textbf{Definition \then{} (#1).} }{}",
         "{Open sets}{open}"),
        (r"\newtcolorbox[auto counter]{definition}[2][]{title={Definition~\thetcbcounter: #2}, #1}",
         "[label=open]{Open sets}"),
        (r"\newtcolorbox{definition}[2]{colback=red, title=Definition: #1, label=#2}", "{Open sets}{open}"),
        (r"\NewTColorBox{definition}{m m}{title={#1}, label={#2}}", "{Open sets}{open}"),
        (r"\newtcbtheorem{definition}{Definition}{label separator={}}{o}", "{Open sets}{pen}"),
        (r"\tcbmaketheorem{definition}{Definition}{colback=red}{counter}{}", "{Open sets}{open}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("gap", ["", "\n"])
def test_a_wrapper_passes_title_and_label_to_the_theorem_that_it_opens(definition: str, call: str, gap: str) -> None:
    text = rf"{BOX}{definition}\begin{{document}}\begin{{definition}}{call}{gap} Body.\end{{definition}}"
    (statement,) = statements(text)
    assert (statement.kind, statement.note, statement.label) == ("definition", "Open sets", "open")
    assert body(text, statement).removeprefix(r"\label{open}").strip() == "Body."
    assert "open" in [name for _, name in structure(text).labels]


def test_a_starred_tcolorbox_theorem_has_a_title_only() -> None:
    text = BOX + r"\begin{document}\begin{Theorem*}{Gauss}{\bf Body.}\end{Theorem*}"
    (statement,) = statements(text)
    assert (statement.note, statement.label, body(text, statement)) == ("Gauss", "", r"{\bf Body.}")


def test_a_tcolorbox_theorem_may_have_its_label_among_its_options() -> None:
    text = BOX + r"\begin{document}\begin{Theorem}[label={own}]{Gauss}{} Body.\end{Theorem}"
    (statement,) = statements(text)
    assert (statement.note, statement.label, body(text, statement)) == ("Gauss", "own", "Body.")


def test_a_wrapper_of_proofs_says_what_is_proved() -> None:
    text = (
        r"\newenvironment{proofof}[1]{\begin{proof}[Proof of #1]}{\end{proof}}\begin{theorem}\label{t}x\end{theorem}"
        r"\begin{lemma}y\end{lemma}\begin{proofof}{Theorem \ref{t}}A\end{proofof}"
    )
    theorem, lemma = statements(text)
    assert (proofs(text, theorem), proofs(text, lemma)) == (["A"], [])


def test_a_title_that_is_only_a_number_is_no_title() -> None:
    text = (
        r"\newenvironment{problem}[2][Problem]{\begin{trivlist}\item[{\bfseries #1}{\bfseries #2.}]}{\end{trivlist}}"
        r"\begin{document}\begin{problem}{1.2} Body.\end{problem}"
    )
    (statement,) = statements(text)
    assert (statement.note, body(text, statement)) == ("", "Body.")


def test_wrappers_that_open_each_other_end() -> None:
    text = (
        r"\newenvironment{lemma}[1]{\begin{thm}{#1}}{}\newenvironment{thm}[1]{\begin{lemma}{#1#1}}{}"
        r"\begin{document}\begin{lemma}{x}Body.\end{lemma}"
    )
    (statement,) = statements(text)
    assert body(text, statement) == "Body."


# ---------------------------------------------------------------- missing definitions


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Theorem", "theorem"), ("Thm", "theorem"), ("mylemma", "lemma"), ("Def", "definition"), ("defbox", "definition"),
     ("prop", "proposition"), ("remarks", "remark"), ("Satz", "theorem"), ("Definizione", "definition")],
)  # fmt: skip
def test_an_environment_with_the_name_of_a_kind_needs_no_definition(name: str, kind: str) -> None:
    (statement,) = statements(rf"\begin{{{name}}}[Note]\label{{l}} Body.\end{{{name}}}")
    assert (statement.kind, statement.note, statement.label) == (kind, "Note", "l")


def test_an_unknown_environment_that_is_labelled_again_and_again_is_a_statement() -> None:
    text = r"\begin{situ}\label{a} A.\end{situ} \begin{situ}\label{b} B.\end{situ} \begin{situ} C.\end{situ}"
    assert [(s.kind, s.label) for s in statements(text)] == [("situ", "a"), ("situ", "b"), ("situ", "")]


@pytest.mark.parametrize(
    "text",
    [
        r"\begin{situ}\label{a} A.\end{situ} words",
        r"\begin{dmath}\label{a} A\end{dmath}\begin{dmath}\label{b} B\end{dmath}",
        r"\begin{figure}\label{a} A\end{figure}\begin{figure}\label{b} B\end{figure}",
        r"\newenvironment{q}{\begin{equation}}{\end{equation}}\begin{q}\label{a} A\end{q}\begin{q}\label{b} B\end{q}",
        r"\begin{panel}[width=3cm]A\end{panel}" * 4,
        r"\begin{panel}{3cm}{4cm}A\end{panel}" * 4,
        r"\begin{panel}{\textwidth}A\end{panel}" * 4,
    ],
)
def test_layout_is_no_statement(text: str) -> None:
    assert statements(text) == []


def test_arguments_of_an_environment_without_definition_are_recognised_by_all_its_uses() -> None:
    text = (
        r"\begin{definition}{Open set}{open} A.\end{definition}\begin{definition}{Closed set}{closed} B."
        r"\end{definition} See \ref{def:open}. \begin{remark}{Two words} C.\end{remark}\begin{remark}{} D.\end{remark}"
        r"\begin{lemma}{\bf E.}\end{lemma}\begin{fact}{key}{On keys} F.\end{fact}"
    )
    found = [(s.kind, s.note, s.label, body(text, s)) for s in statements(text)]
    assert found == [
        ("definition", "Open set", "def:open", "A."),
        ("definition", "Closed set", "def:closed", "B."),
        ("remark", "Two words", "", "C."),
        ("remark", "", "", "D."),
        ("lemma", "", "", r"{\bf E.}"),
        ("fact", "On keys", "key", "F."),
    ]


def test_a_restatable_theorem_has_the_kind_of_its_argument() -> None:
    text = r"\begin{document}\begin{restatable}[Euler]{lemma}{again}\label{l} Body.\end{restatable}"
    (statement,) = statements(text)
    assert (statement.kind, statement.note, statement.label) == ("lemma", "Euler", "l")
    assert body(text, statement) == r"\label{l} Body."


@pytest.mark.parametrize(
    ("spec", "arguments", "note"),
    [
        ("D(){none} m", "(Title C){lab:c}", "Title C"),
        ("D(){no title} m", "{lab:c}", "no title"),
        ("d<> +m", "<Title <of> C>{lab:c}", "Title <of> C"),
        ("r() m", "(A {)} (b) c){lab:c}", "A {)} (b) c"),
        ("D||{none} >{\\TrimSpaces} m", "|Title|{lab:c}", "Title"),
    ],
)
def test_an_environment_may_have_arguments_in_delimiters(spec: str, arguments: str, note: str) -> None:
    text = rf"\newtheorem{{plain}}{{Theorem}}\NewDocumentEnvironment{{ec}}{{ {spec} }}"
    text += r"{\begin{plain}[#1]\label{#2}}{\end{plain}}\begin{document}"
    text += rf"\begin{{ec}}{arguments} Body.\end{{ec}}"
    (statement,) = statements(text)
    assert (statement.note, statement.label, body(text, statement)) == (note, "lab:c", "Body.")


@pytest.mark.parametrize(("spec", "token"), [("s m", "*"), ("t+ m", "+"), ("t + +m", "+")])
def test_an_environment_may_have_a_star_or_another_token(spec: str, token: str) -> None:
    text = rf"\newtheorem{{plain}}{{Theorem}}\NewDocumentEnvironment{{ec}}{{{spec}}}"
    text += r"{\IfBooleanTF{#1}{\begin{plain}[Starred]}{\begin{plain}}\label{#2}}{\end{plain}}\begin{document}"
    text += rf"\begin{{ec}}{token}{{a}} One.\end{{ec}} \begin{{ec}}{{b}} Two.\end{{ec}}"
    parts = [(statement.note, statement.label, body(text, statement)) for statement in statements(text)]
    assert parts == [("Starred", "a", "One."), ("", "b", "Two.")]


@pytest.mark.parametrize(
    "opening",
    [
        r"\begin{restatable}{theorem}{bigone}\label{thm:big} Big.\end{restatable}",
        r"\begin{theorem}[restate=bigone]\label{thm:big} Big.\end{theorem}",
    ],
)
@pytest.mark.parametrize("heading", ["", r"\appendix\section{Omitted proofs}"])
def test_a_proof_after_a_restated_theorem_belongs_to_the_theorem(opening: str, heading: str) -> None:
    text = opening + r"\begin{lemma}\label{l} Small.\end{lemma}" + heading + r"\bigone* \begin{proof}P.\end{proof}"
    theorem, lemma = statements(text)
    assert (theorem.label, proofs(text, theorem), proofs(text, lemma)) == ("thm:big", ["P."], [])


def test_a_proof_after_a_lemma_that_follows_a_restated_theorem_belongs_to_the_lemma() -> None:
    text = r"\begin{restatable}{theorem}{big} Big.\end{restatable} \big* \begin{lemma} Small.\end{lemma}"
    text += r"\begin{proof}P.\end{proof}"
    theorem, lemma = statements(text)
    assert (proofs(text, theorem), proofs(text, lemma)) == ([], ["P."])


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


@pytest.mark.parametrize(
    ("caption", "kind"),
    [("Proof", "proof"), ("Proof Sketch", "proof"), ("Sketch of the proof", "proof"), ("Demonstration", "proof"),
     ("Démonstration", "proof"), ("Proof of the Main Theorem", "proof"), ("Theorem and Proof", "theorem"),
     ("Proof System", "proof-system"), ("Demonstration Experiment", "demonstration-experiment")],
)  # fmt: skip
def test_only_captions_that_say_nothing_but_proof_are_proofs(caption: str, kind: str) -> None:
    assert kind_of(caption) == kind


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


@pytest.mark.parametrize(
    "heading",
    [r"\section{\label{s}Title}", r"\section{Title\label{s}}", r"\section[short]{\label{s} Title}",
     r"\section[short\label{s}]{Title}", r"\subsection*{Title \label{s}}", r"\paragraph{\label{s}Title.}"],
)  # fmt: skip
def test_a_label_inside_a_heading_is_kept(heading: str) -> None:
    text = heading + r" Words. \begin{lemma}\label{l}a\end{lemma}"
    result = structure(text)
    ((offset, name), _) = result.labels
    assert name == "s"
    assert result.sections[0].offset <= offset < result.sections[0].end


def test_a_label_inside_a_note_is_that_of_the_statement() -> None:
    (statement,) = statements(r"\begin{lemma}[Gauss\label{l}] a\end{lemma}")
    assert statement.label == "l"


def test_a_label_inside_a_list_or_formula_is_not_that_of_the_statement() -> None:
    text = r"\begin{lemma}\begin{equation}\label{eq}x\end{equation}\label{lem}\label{other}\end{lemma}"
    (statement,) = statements(text)
    assert statement.label == "lem"
    assert [name for _, name in structure(text).labels] == ["eq", "lem", "other"]


# ---------------------------------------------------------------- proofs


def test_an_adjacent_proof_and_a_second_one_belong_to_the_statement() -> None:
    text = (
        r"\begin{theorem}a\end{theorem} \begin{proof}1\end{proof} \begin{proof}[Second proof]2\end{proof}"
        r" \begin{lemma}b\end{lemma} Some words. \begin{proof}3\end{proof}"
    )
    theorem, lemma = statements(text)
    assert proofs(text, theorem) == ["1", "2"]
    assert proofs(text, lemma) == ["3"]


@pytest.mark.parametrize("words", ["Here is another proof.", r"\textbf{Alternative proof}"])
def test_another_proof_after_some_words_belongs_to_the_same_statement(words: str) -> None:
    text = (
        r"\begin{theorem}a\end{theorem}\begin{proof}1\end{proof} Words between. "
        rf"{words} \begin{{proof}}2\end{{proof}} Words. \begin{{proof}}3\end{{proof}}"
    )
    (theorem,) = statements(text)
    assert proofs(text, theorem) == ["1", "2"]


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


@pytest.mark.parametrize(
    "words",
    [
        r"We now prove \ref{t}.",
        r"We are now ready to prove Theorem~\ref{t}, our main result.",
        r"Using Lemma \ref{l} we give the proof of \Cref{t}.",
        r"Proof of Theorem \ref{t}.",
        r"\noindent\textbf{Proof of Theorem \ref{t}}",
        r"Lemma \ref{l} is enough. We prove Theorem \ref{t} by Lemma \ref{l}:",
        "We turn to the proof\nof Theorem \\ref{t}.\n\n",
        r"Nun beweisen wir Satz \ref{t}.",
        r"We now prove \eqref{eq}.",
        r"\paragraph{Proof of Theorem \ref{t}.}",
    ],
)
def test_a_proof_belongs_to_the_statement_that_the_words_before_it_promise(words: str) -> None:
    text = (
        r"\begin{theorem}\label{t}a \begin{equation}\label{eq}x\end{equation}\end{theorem}"
        r"\begin{lemma}\label{l}b\end{lemma}\begin{proof}B\end{proof} Text. "
        rf"{words} \begin{{proof}}A\end{{proof}}"
    )
    theorem, lemma = statements(text)
    assert (proofs(text, theorem), proofs(text, lemma)) == (["A"], ["B"])


@pytest.mark.parametrize(
    "words",
    [
        r"It follows from Theorem \ref{t}.",
        r"The proof is that of Theorem \ref{t}.",
        r"The proof of Theorem \ref{t} is similar.",
        r"We do not prove Theorem \ref{t} here.",
        r"We have proved Theorem \ref{t} above. Now the lemma.",
        r"We prove it with Theorem \ref{t}.",
        r"To prove that Theorem \ref{t} applies, look.",
        r"Before we prove Theorem \ref{t}, the lemma.",
    ],
)
def test_words_that_promise_no_proof_leave_it_to_the_statement_before(words: str) -> None:
    text = (
        r"\begin{theorem}\label{t}a\end{theorem}\begin{proof}A\end{proof}"
        rf"\begin{{lemma}}\label{{l}}b\end{{lemma}} {words} \begin{{proof}}B\end{{proof}}"
    )
    theorem, lemma = statements(text)
    assert (proofs(text, theorem), proofs(text, lemma)) == (["A"], ["B"])


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


@pytest.mark.parametrize("after", [r"\section{S} More.", r"\subsection{S} More. \begin{lemma}b\end{lemma}"])
def test_an_unclosed_statement_ends_at_a_heading(after: str) -> None:
    text = rf"\begin{{theorem}} a. {after}"
    assert body(text, statements(text)[0]) == "a."


def test_an_unclosed_statement_before_a_long_rest_ends_with_its_paragraph() -> None:
    text = r"\begin{theorem} a. " + "\n\n" + "Words go on and on.\n\n" * 500
    (theorem,) = statements(text)
    assert (body(text, theorem), theorem.confidence) == ("a.", 0.5)


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
    assert is_linear(lambda size: structure(fragment * (size // len(fragment))), 100_000)
