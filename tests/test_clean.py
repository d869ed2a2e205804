from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.latex.clean import clean, plain
from lemmata.latex.cleaned import Target, join


def dollars(text: str) -> int:
    return len(re.findall(r"\$", re.sub(r"\\.", "", text, flags=re.DOTALL)))


# ---------------------------------------------------------------- formulas


@pytest.mark.parametrize(
    "formula",
    [
        "$a+b$", r"\(a+b\)", r"\[a+b\]", "$$a+b$$", "$ a+b $", "\\[\na+b\n\\]",
        *(rf"\begin{{{name}}}a+b\end{{{name}}}" for name in
          ["equation", "equation*", "align", "align*", "gather", "gather*", "multline", "multline*", "eqnarray",
           "eqnarray*", "flalign", "flalign*", "displaymath", "math", "dmath"]),
        r"\begin{alignat}{2}a+b\end{alignat}",
        r"\begin{alignat*}{2}a+b\end{alignat*}",
        r"\begin{equation}\label{eq}a+b\end{equation}",
        r"\begin{align}a+b\nonumber\end{align}",
        r"\begin{align}a+b\notag \end{align}",
        r"\begin {equation}a+b\end {equation}",
        r"\ensuremath{a+b}",
    ],
)  # fmt: skip
def test_every_formula_is_put_between_single_dollars(formula: str) -> None:
    assert clean(f"Let {formula} be.").text in ("Let $a+b$ be.", "Let\n$a+b$\nbe.")


@pytest.mark.parametrize(
    "content",
    [
        r"\frac{a}{b} % 2", r"\mathbb{R}^{n}\,\hbox{and}~x", r"a\&b", r"\{x\}", r"x\$y",
        r"\begin{cases}a&b\\c&d\end{cases}", r"\begin{pmatrix}1\\2\end{pmatrix}", "a--b``c''", r"\emph{x}\'e",
    ],
)  # fmt: skip
def test_the_contents_of_formulas_are_not_changed(content: str) -> None:
    for begin, end in (("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        gap = "\n" if begin == r"\[" else " "
        assert clean(f"A {begin}{content}{end} B").text == f"A{gap}${content}${gap}B"


def test_stray_dollars_open_no_formula() -> None:
    assert clean("a $ b\n\nc $x$ d").text == "a b\n\nc $x$ d"
    assert clean("costs \\$5 and $x$").text == "costs \\$5 and $x$"
    assert dollars(clean("odd $x$ $").text) == 2
    assert clean("$$ never closed").text == "never closed"
    assert clean("$$").text == ""
    assert clean("x $$ $y$").text.count("$") % 2 == 0


# ---------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"\emph{very} \textbf{bold \textit{deep}} {\it old} \textsc{X}", "very bold deep old X"),
        (r"G\"odel, Erd\H{o}s, \'Etale, \v{C}ech, \c{c}a, na\"{\i}ve, \AA ngstr\"om, {\o}re, Stra{\ss}e",
         "Gödel, Erdős, Étale, Čech, ça, naı̈ve, Ångström, øre, Straße".replace("ı̈", "ï")),
        (r"``quoted'' and `so'", "“quoted” and ‘so'"),
        ("pages 1--2 --- no", "pages 1–2 — no"),
        (r"a~b\ c\,d\;e\\f\\[2pt]g\\*h", "a b c d e f g h"),
        (r"50\% \# \_ \& \{x\}", "50% # _ & {x}"),
        (r"\begin{itemize}\item one \item[(b)] two\end{itemize}", "• one\n(b) two"),
        (r"\begin{enumerate}\item one\item two \begin{enumerate}\item in\end{enumerate}\item three\end{enumerate}",
         "(1) one\n(2) two\n  (a) in\n(3) three"),
        (r"\begin{enumerate}[label=(\alph*)]\item one\end{enumerate}", "(a) one"),
        (r"Text\footnote{A note.} goes on.", "Text (A note.) goes on."),
        (r"a \verb|\x{%$}| b", r"a \x{%\$} b"),
        ("a\\begin{verbatim}\\emph{x} $y\\end{verbatim}b", "a\n\n\\emph{x} \\$y\n\nb"),
        (r"\url{http://a.b/c_d} and \href{http://x}{the page}", "http://a.b/c_d and the page"),
        (r"\foreignlanguage{ngerman}{Zahlen} sind", "Zahlen sind"),
        (r"\textcolor{red}{x} \colorbox{blue}{y} \parbox{3cm}{z}", "x y z"),
        (r"a \vspace{2cm} b \hspace*{1em} c \noindent d \includegraphics[width=3cm]{f.png} e", "a b c d e"),
        (r"\texorpdfstring{$L^2$}{L2} spaces", "$L^2$ spaces"),
        (r"a \unknown{b} \other c", "a b c"),
        (r"\begin{center}x\end{center}", "x"),
        (r"\begin{tikzpicture}\draw (0,0);\end{tikzpicture}x", "x"),
        (r"\begin{tabular}{ll}a & b\\ c & d\end{tabular}", "a b\nc d"),
        (r"one\par two", "one\n\ntwo"),
        ("one\n\n\ntwo\nthree", "one\n\ntwo three"),
        (r"see \index{x}this", "see this"),
        (r"\LaTeX{} and \TeX\ and \dots and so", "LaTeX and TeX and …and so"),
        (r"a\label{x}b", "ab"),
        ("", ""),
        (r"then\[x\]holds", "then\n$x$\nholds"),
        (r"an $n$-gon and $x$'s", "an $n$-gon and $x$'s"),
        ("a $ $ b $$ $$ c $\\ $ d", "a b c d"),
        ("a $x\\ $ b", "a $x$ b"),
        ("\\begin{align}\\label{a}\nx\\\\ \\label{b}\ny\\end{align}", "$x\\\\ y$"),
        (r"\multicolumn{2}{c}{robust} \multirow{2}{*}{median}", "robust median"),
        (r"a \raisebox{1ex}[0pt]{b}", "a b"),
        (r"By Lemmas \ref{a}, \ref{b} and \ref{c} we win.", "By Lemmas we win."),
        (r"We win (see \cite{a}).", "We win."),
        (r"We win \eqref{a}--\eqref{b}.", "We win."),
        *((rf"One \{command}[title={{References}}, heading=none] two", "One two")
          for command in ("printbibliography", "printindex", "pagebreak", "linebreak")),
    ],
)  # fmt: skip
def test_formatting_disappears_and_words_stay(source: str, expected: str) -> None:
    assert clean(source).text == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"G\"odel, {\'E}. \v{S}t\v ep\'anek, Fran\c{c}ois", "Gödel, É. Štěpánek, François"),
        (r"G{\"{o}}del, \'{E}. {\v S}t{\v{e}}p{\'a}nek, Fran\c cois", "Gödel, É. Štěpánek, François"),
        (r"Mart\'\i nez, Mart{\'{\i}}nez, \O ystein, Stra{\ss}e", "Martínez, Martínez, Øystein, Straße"),
        (r"Rogers--Ramanujan \emph{and} {\bf more} --- 100\% `x'", "Rogers–Ramanujan and more — 100% ‘x'"),
        (r"a formula $\mathbb{Z}_{p}~x$ stays", r"a formula $\mathbb{Z}_{p}~x$ stays"),
        (r"\LaTeX{} costs \$5 in \unknown{text}", r"LaTeX costs \$5 in text"),
        ("On \\emph{q}-series\n\nand $\\eta$\\thanks{Money.}", "On q-series and $\\eta$"),
    ],
)
def test_titles_and_names_lose_their_markup(text: str, expected: str) -> None:
    assert plain(text) == expected


# ---------------------------------------------------------------- links


@pytest.mark.parametrize(
    "command",
    [
        "ref",
        "eqref",
        "cref",
        "Cref",
        "autoref",
        "pageref",
        "nameref",
        "vref",
        "ref*",
        "autoref*",
        "labelcref",
        "thmref",
    ],
)
def test_references_leave_the_text_and_become_links(command: str) -> None:
    result = clean(rf"By Lemma~\{command}{{a}}, so.")
    assert result.references == [("ref", "a")]
    assert result.text == "By Lemma, so."


@pytest.mark.parametrize(
    "command",
    ["cite", "citep", "citet", "citealt", "citeauthor", "parencite", "textcite", "autocite", "footcite", "nocite",
     "cite*",
     "citep[p.~3]", "cite[see][Thm.~2]"],
)  # fmt: skip
def test_citations_leave_the_text_and_become_links(command: str) -> None:
    result = clean(rf"known \{command}{{a, b}}.")
    assert result.references == [("cite", "a"), ("cite", "b")]
    assert result.text == "known."


@pytest.mark.parametrize(
    ("source", "text", "labels"),
    [
        (r"by \hyperref[thm:a]{the main theorem} and", "by the main theorem and", ["thm:a"]),
        (r"\crefrange{a}{b}", "", ["a", "b"]),
        (r"\cref{{a}} \ref{b{}}", "", ["a", "b"]),  # braces are no part of a label
        (r"$x \text{ by \ref{a}}$", r"$x \text{ by }$", ["a"]),
        (r"\footnote{See \cite{a}.}", "(See.)", ["a"]),
        (r"\verb|\cite{a}|", r"\cite{a}", []),
        ("\\begin{verbatim}\\ref{a}\\end{verbatim}", "\\ref{a}", []),
    ],
)
def test_links_are_found_in_every_place_but_verbatim(source: str, text: str, labels: list[str]) -> None:
    result = clean(source)
    assert (result.text, [label for _, label in result.references]) == (text, labels)


@pytest.mark.parametrize(
    "command",
    [
        r"\fontfamily{phv}\selectfont",
        r"\captionsetup{width=85mm}",
        r"\addvspace{2mm}",
        r"\titleformat{\section}[display]{\bfseries}{\thesection}{1em}{#1}[]",
        r"\titlespacing*{\section}{0pt}{4pt}{4pt}",
        r"\glossary(hom){$\protect\Hom$}{type of homomorphisms}",
    ],
)
def test_settings_of_fonts_headings_and_glossaries_are_no_text(command: str) -> None:
    assert clean(rf"before {command} after $\protect\relax x$").text.split() == ["before", "after", "$x$"]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (r"a \text{ if $x$ is odd}", r"a \text{ if }{x}\text{ is odd}"),
        (r"\mbox{$x>0$} \text{ and \$5}", r"{x>0} \text{ and \$5}"),
    ],
)
def test_formulas_in_the_words_of_a_formula_need_no_dollars(formula: str, expected: str) -> None:
    assert clean(rf"\[{formula}\]").text == f"${expected}$"


# ---------------------------------------------------------------- anything at all

FRAGMENTS = [
    ")", "\\textbackslash", "\\ ", "$", "$$", "\\$", "\\(", "\\)", "\\[", "\\]", "{", "}", "[", "]",
    "\\begin{equation}", "\\end{equation}", "\\\\",
    "\\begin{itemize}", "\\item", "\\end{itemize}", "\\emph{", "\\text{", "\\footnote{", "\\cite[", "\\cite{a}",
    "\\ref{b}", "\\verb|", "|", "\\begin{verbatim}", "\\end{verbatim}", "\\section{", "\\'", "\\\"{o}",
    "\\texorpdfstring{",
    "\\url{", "\\hyperref[", "\\par", "\n\n", "\n", " ", "word", "~", "&", "\\", "``", "''", "--", "\\PMlinkname{",
    "\\begin{tabular}{", "\\begin{alignat}", "\x00", "é", "\\unknown", "\\label{x}",
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40))
def test_cleaning_never_raises_and_dollars_are_even(fragments: list[str]) -> None:
    source = "".join(fragments)
    result = clean(source)
    assert dollars(result.text) % 2 == 0, result.text
    assert "\x00" not in result.text
    assert result.text == result.text.strip()


@given(st.text(max_size=300))
def test_arbitrary_text_never_raises(source: str) -> None:
    assert dollars(clean(source).text) % 2 == 0


@given(st.text(st.sampled_from("abc \n"), max_size=200))
def test_plain_words_are_kept(source: str) -> None:
    assert clean(source).text.split() == source.split()


def test_deep_nesting_neither_raises_nor_takes_long() -> None:
    for opening, closing in [("{", "}"), ("\\emph{", "}"), ("\\texorpdfstring{", "}{}"), ("\\PMlinkname{", "}{x}"),
                             ("\\item[", "]"), ("\\footnote{", "}"), ("\\begin{itemize}",
                             "\\end{itemize}")]:  # fmt: skip
        assert "core" in clean(opening * 3000 + "core" + closing * 3000).text
        assert is_linear(lambda n: clean(opening * n + "core" + closing * n), 3000)  # noqa: B023 - called at once


@pytest.mark.parametrize(
    "fragment",
    ["$", "$$", "{", "}", "\\[", "\\(", "\\begin{equation}", "\\begin{verbatim}", "\\footnote{", "\\cite[", "\\item[",
     "\\texorpdfstring{", "\\PMlinkname{", "\\url{", "$a{$", "$a{$ b\n\n", "$\\text{$a$}$", "\\verb|", "\\hyperref[",
     "\\ref{a},", "(",
     "(see ", "\\ref{a} and ", "\\'", "\\begin{alignat}{", "\\\\["],
)  # fmt: skip
def test_hostile_repetition_is_cleaned_in_linear_time(fragment: str) -> None:
    assert is_linear(lambda size: clean(fragment * (size // len(fragment))), 40_000)


# ---------------------------------------------------------------- the names of references

TARGETS = {
    "thm:main": Target("theorem"), "lem:nak": Target("lemma", "Nakayama"), "lem:b": Target("lemma"),
    "cor": Target("corollary"), "sec:q": Target("section", "The $q$-analogue"), "eq:one": Target("equation"),
    "it:a": Target("item"),
}  # fmt: skip


def shown(source: str) -> str:
    return clean(source, TARGETS.get).shown()[0]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"From \ref{thm:main}, we know", "From theorem thm:main, we know"),
        (r"by \cref{lem:nak} there exists", "by lemma (Nakayama) there exists"),
        (r"by Lemma~\ref{lem:nak} there exists", "by Lemma (Nakayama) there exists"),
        (r"by Lem.\ \ref{lem:b} there exists", "by Lem. lem:b there exists"),
        (r"\Cref{thm:main} and \autoref{lem:b} show", "Theorem thm:main and lemma lem:b show"),
        (r"so. \ref{thm:main} shows", "so. Theorem thm:main shows"),
        (r"By Lemmas \ref{lem:nak}, \ref{lem:b} and \ref{x} we win.", "By Lemmas (Nakayama), lem:b and x we win."),
        (r"by \cref{lem:nak,lem:b,cor}", "by lemma (Nakayama), lemma lem:b and corollary cor"),
        (r"by \cref{lem:nak,lem:b}", "by lemmas (Nakayama) and lem:b"),
        (r"by \crefrange{lem:nak}{lem:b}.", "by lemmas (Nakayama) to lem:b."),
        (r"in Section \ref{sec:q}.", "in Section “The $q$-analogue”."),
        (r"in \S\ref{sec:q}, and", "in §“The $q$-analogue”, and"),
        (r"see \autoref{sec:q}.", "see section “The $q$-analogue”."),
        (r"by \eqref{eq:one} and (\ref{eq:one})", "by (eq:one) and (eq:one)"),
        (r"by \ref{eq:one}--\ref{eq:two}.", "by (eq:one)–eq:two."),
        (r"by Theorem \ref{thm:main}(\ref{it:a}).", "by Theorem thm:main(it:a)."),
        (r"by \ref{it:a}.", "by item it:a."),
        (r"by \ref{elsewhere}.", "by elsewhere."),
        (r"on page \pageref{lem:nak}.", "on page lem:nak."),
        (r"by \nameref{lem:nak}.", "by (Nakayama)."),
        (r"this \namecref{thm:main} holds", "this theorem holds"),
        (r"by \cite{Key} and \cite[Thm~2]{A, B}.", "by [Key] and [A, B, Thm 2]."),
        (r"(see \citep[see][p.~3]{Key}).", "(see [see Key, p. 3])."),
        (r"by [\cite{Key}] we", "by [Key] we"),
        (r"\nocite{*} So it is", "So it is"),
        (r"$x \overset{\eqref{eq_a}}{=} y$", r"$x \overset{\text{(eq\_a)}}{=} y$"),
        (r"$x$ by $\eqref{eq_a}$", "$x$ by (eq_a)"),
        (r"$a \text{ by \cite{K}}$", r"$a \text{ by \text{[K]}}$"),
        (r"$x = y \qquad \eqref{e}$", r"$x = y \qquad \text{(e)}$"),
        (r"\ref{bad$\x}", "badx"),
        (r"\ref{lem:b}", "Lemma lem:b"),
        ("A\n\n\\ref{lem:b}\n\nB", "A\n\nLemma lem:b\n\nB"),
    ],
)
def test_a_reader_sees_what_a_reference_leads_to(source: str, expected: str) -> None:
    assert shown(source) == expected


def test_the_text_without_the_names_of_references_does_not_depend_on_them() -> None:
    result = clean(r"By Lemmas \ref{lem:nak}, \ref{b} (see \cite{C}) and \ref{c} we win \eqref{d}.", TARGETS.get)
    assert result.text == "By Lemmas and we win."
    assert result.shown()[0] == "By Lemmas (Nakayama), b (see [C]) and c we win (d)."


def test_a_part_of_a_text_keeps_the_names_inside_it() -> None:
    result = clean(r"One \ref{a}. Two \ref{b}. Three \ref{c}.")
    assert result.text == "One. Two. Three."
    assert result.part(5, 9).shown() == ("Two b.", [[3, 5, [4, 5, "b"]]])
    joined = join([clean(r"One \ref{a}."), clean(""), clean(r"Two \ref{b}")], "\n\n")
    assert joined.shown() == ("One a.\n\nTwo b", [[3, 5, [4, 5, "a"]], [11, 13, [12, 13, "b"]]])
    assert joined.text == "One.\n\nTwo"


def _removed(text: str, spans: list[list[int]]) -> str:
    return "".join(character for n, character in enumerate(text) if not any(b <= n < e for b, e, *_ in spans))


@given(st.lists(st.sampled_from([*FRAGMENTS, "\\ref{lem:nak}", "\\cref{a,b}", "\\cite[x]{K}", ", ", " and ", "(", ")",
                                 ".", "$x$", "$\\eqref{e} $", "\x00", "\x01", "\x04"]), max_size=30))  # fmt: skip
def test_removing_the_names_of_references_gives_the_text(fragments: list[str]) -> None:
    source = "".join(fragments)
    result = clean(source, TARGETS.get)
    text, spans = result.shown()
    assert _removed(text, spans) == result.text == clean(source).text
    assert not set("\x00\x01\x02\x03\x04\x05\x06") & set(text)
    assert all(begin < end <= len(text) for begin, end, *_ in spans)
    assert all(begin <= low < high <= end for begin, end, *names in spans for low, high, _ in names)
    assert [offset for offset, _ in result.insertions] == sorted(offset for offset, _ in result.insertions)
    assert clean(source, TARGETS.get, " ").text.split() == result.text.split()


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (r"By Lemma~\ref{lem:x}\ref{it:a} it holds.", "By Lemma lem:x it:a it holds."),
        (r"By Lemma~\ref{x}\cite{K}.", "By Lemma x [K]."),
        (r"See \ref{x}\nocite{K}\ref{y}.", "See x y."),
    ],
)
def test_adjacent_references_are_separated_by_a_blank(source: str, shown: str) -> None:
    assert clean(source).shown()[0] == shown


@pytest.mark.parametrize(
    "command",
    [
        r"\parskip=4pt ",
        r"\parskip 4pt plus 1pt minus .5pt ",
        r"\vskip 4pt plus 1fil",
        r"\hskip-1.5em ",
        r"\baselineskip=1.2\baselineskip ",
        r"\mylength=4pt",
        r"\mylength = \otherlength ",
        r"\tolerance=1000 ",
        r"\penalty-100 ",
        r"\hrule height 2pt width 3cm ",
        r"\advance\parskip by 2pt ",
        r"\font\big=cmr10 scaled 1200 ",
        r"\kern2pt ",
        r"\pause ",
    ],
)
def test_assignments_of_plain_tex_leave_no_text(command: str) -> None:
    assert clean(f"One {command}two.").text == "One two."


def test_a_place_after_the_key_of_a_citation_is_its_note() -> None:
    result = clean(r"See \cite{K}*{Theorem 2.1} and \cite{A,B} * {c}.")
    assert [key for _, key in result.references] == ["K", "A", "B"]
    assert "Theorem" not in result.text
    assert "[K, Theorem 2.1]" in result.shown()[0]


@pytest.mark.parametrize(
    "formula",
    ["$x$", "$x_{i}$", r"$\mathfrak{p}$", r"$\kappa(x_{\mathfrak{p}})$", "$a - b'' ~ c & d$", "$x$$y$", r"$\nu_{ref}$"],
)
def test_a_formula_that_stays_is_found_alone_between_words_and_beside_one_that_is_trimmed(formula: str) -> None:
    assert clean(formula).text == formula
    assert clean(f"If {formula}, then -- {formula}--").text == f"If {formula}, then – {formula}–"
    assert clean(rf"{formula} and $ y\label{{a}} $").text == f"{formula} and $y$"


def test_a_formula_with_a_reference_or_an_open_brace_is_no_ordinary_text() -> None:
    assert clean(r"If $x = \ref{a}$ and $y$.").references == [("ref", "a")]
    assert clean(r"$\text{if $x$ is}$ and $y$").text == r"$\text{if }{x}\text{ is}$ and $y$"
    assert clean(r"$\num{5} = \sigma$").text == clean(r"$ \num{5} = \sigma $").text != r"$\num{5} = \sigma$"
    assert clean("a stray $ dollar\n\nand $y$").text == "a stray dollar\n\nand $y$"
