from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.latex.expand import Opening, expand, read_definitions, read_environments, structural


def expanded(preamble: str, text: str) -> str:
    definitions = read_definitions(preamble)
    definitions.settle(len(preamble))
    return expand(text, definitions.at(len(preamble)), definitions.problems)


def problems(preamble: str, text: str) -> dict[str, str]:
    definitions = read_definitions(preamble)
    definitions.settle(len(preamble))
    expand(text, definitions.at(len(preamble)), definitions.problems)
    return definitions.problems


@pytest.mark.parametrize(
    ("preamble", "text", "expected"),
    [
        (r"\newcommand{\R}{\mathbb{R}}", r"$\R^n$", r"$\mathbb{R}^n$"),
        (r"\newcommand\R{\mathbb{R}}", r"$\R$", r"$\mathbb{R}$"),
        (r"\newcommand*{\R}{R}", r"\R", "R"),
        (r"\newcommand \R {R}", r"\R", "R"),
        (r"\newcommand{\R}R", r"\R", "R"),
        (r"\newcommand{\s}[1]{\{#1\}}", r"\s{a,b}", r"\{a,b\}"),
        (r"\newcommand{\s}[2]{#2#1}", r"\s{a}{b}", "ba"),
        (r"\newcommand{\s}[2]{#2#1}", r"\s ab c", "bac".replace("c", " c")),
        (r"\newcommand{\s}[1]{<#1>}", r"\s\alpha", r"<\alpha>"),
        (r"\newcommand{\s}[2][x]{#1+#2}", r"\s{y} \s[z]{y}", "x+y z+y"),
        (r"\newcommand{\s}[1][n]{A_{#1}}", r"\s, \s[m]", "A_{n}, A_{m}"),
        (r"\newcommand{\a}{1}\renewcommand{\a}{2}", r"\a", "2"),
        (r"\let\same\equiv\renewcommand\equiv{\simeq}\newcommand\is{:\same}", r"\is \equiv", r":\equiv\simeq"),
        (r"\let\old\phi\let\phi\varphi\let\varphi\old", r"\phi,\varphi", r"\varphi,\phi"),
        (r"\newcommand{\a}{1}\providecommand{\a}{2}\providecommand{\b}{3}", r"\a\b", "13"),
        (r"\DeclareRobustCommand{\a}{1}", r"\a", "1"),
        (r"\def\a{1}\gdef\b{2}\edef\c{3}\xdef\e{4}", r"\a\b\c\e", "1234"),
        (r"\def\a#1#2{#2#1}", r"\a{x}{y}", "yx"),
        (r"\def\a#1,#2;{(#2|#1)}", r"\a x,y; z", "(y|x) z"),
        (r"\def\a(#1){<#1>}", r"\a(x) \a y", r"<x> \a y"),
        (r"\def\a[#1]#2{<#1:#2>}", r"\a[x]{y}", "<x:y>"),
        (r"\long\def\a#1{<#1>}", r"\a{x}", "<x>"),
        (r"\let\a=\alpha\let\b\beta", r"\a\b", r"\alpha\beta"),
        (r"\newcommand{\a}{x}\let\b\a", r"\b", "x"),
        (r"\let\exists\relax\DeclareMathOperator*\exists{\mathchoice{a}{b}{c}{d}}", r"$\exists_x$", r"$\exists_x$"),
        (r"\DeclareMathOperator{\Hom}{Hom}", r"$\Hom(A)$", r"$\operatorname{Hom}(A)$"),
        (r"\DeclareMathOperator*{\colim}{colim}", r"$\colim_i$", r"$\operatorname*{colim}_i$"),
        (r"\NewDocumentCommand{\a}{m m}{#2#1}", r"\a{x}{y}", "yx"),
        (r"\NewDocumentCommand\a{O{x} m}{#1#2}", r"\a{y}\a[z]{y}", "xyzy"),
        (r"\NewDocumentCommand\a{+m}{<#1>}", r"\a{y}", "<y>"),
        (r"\newcommand{\a}{\b\b}\newcommand{\b}{x}", r"\a", "xx"),
        (r"\newcommand{\a}[1]{\b{#1}}\newcommand{\b}[1]{<#1>}", r"\a{\a{x}}", "<<x>>"),
        (r"\newcommand{\to}{\rightarrow}", r"$a\to b$", r"$a\rightarrow b$"),
        (r"\newcommand{\a}{\alpha}", r"\a b", r"\alpha b"),
        (r"\newcommand{\ie}{i.e.\xspace}", r"\ie x, \ie.", "i.e. x, i.e.."),
        (r"\newcommand{\N}{\ensuremath{N\xspace}\xspace}\newcommand{\M}{\N}", r"Let \M be", r"Let \ensuremath{N} be"),
        (r"\newcommand{\Spec}{\mathop{\rm Spec}\nolimits}", r"\Spec A", r"\operatorname{Spec}A"),
        (r"\newcommand{\a}{1", r"\a", r"\a"),
        (r"\newcommand{\section}{x}", r"\section{y}", r"\section{y}"),
        (r"\newcommand{\K}{K_t}", r"\sum_\mu\K", r"\sum_\mu K_t"),
        (r"\newcommand{\s}[1]{\sum#1}", r"\s{K}\s{2}", r"\sum K\sum2"),
        (r"\newcommand{\s}[2]{#1#2}", r"\s{\mu}{K}", r"\mu K"),
        (r"\newcommand{\none}{}", r"\mu\none K", r"\mu K"),
        (r"\def\P#1#2{(#1)_{#2}}\let\Ps=\P\newcommand{\Q}{\P}", r"\Ps{a}{n}\Q{b}{m}", "(a)_{n}(b)_{m}"),
        (r"\DeclarePairedDelimiter{\n}{\|}{\|}", r"\n{x}\n*{y}\n[\big]{z}", r"\| x \|\| y \|\| z \|"),
        (r"\DeclarePairedDelimiterX\set[2]\{\}{#1\,\delimsize\vert\,#2}", r"\set{x}{y}\set*{a}b",
         r"\{ x\,\vert\,y \}\{ a\,\vert\,b \}"),
        ((r"\def\over#1#2{{\vbox{\offinterlineskip\ialign{\hfil##\hfil\cr$#1$\cr$#2$\cr}}}}"
         r"\def\a{\mathchoice{d}{\over{\mathchar`\=}{\to}}{s}{z}}"), r"\a", r"{{\overset{=}{\to}}}"),
        (r"\newcommand\ind{\protect\mathpalette{\protect\two}{\perp}}\def\two#1#2{\mathrel{\rlap{$#1#2$}\mkern2mu{#1#2}}}",
         r"$X\ind Y$", r"$X\perp\!\!\!\perp Y$"),
        (r"\def\dot{\mathchoice{d}{\vcenter{\hbox{\tiny\textbullet}}}{s}{z}}", r"\dot", r"{\textbullet}"),
        (r"\newcommand*{\a}{\@dblarg\@a}\def\@a[#1]#2{#1:#2}", r"\a{x} \a[y]{x}", "x:x y:x"),
        (r"\newcommand{\n}[1]{|#1|}", r"\n{a\n{b}}", "|a|b||"),
        ("\\def\\a{1}", "\\a\n\nx", "1\n\nx"),
        ("\\newcommand{\\a}[1]{<#1>}", "\\a\n {x}", "<x>"),
        (r"\newcommand{\a@b}{1}", r"\a@b", "1"),
        (r"\newcommand{\ab}{1}", r"\a \abc \ab", r"\a \abc 1"),
        (r"\newcommand\t[1]{(#1)}\WithSuffix\newcommand\t*[1]{[#1]}", r"\t{a}\t*{b}\t{c}", "(a)[b](c)"),
        (r"\WithSuffix\newcommand\t*[2][x]{[#1#2]}", r"\t*{b}\t{c}", r"[xb]\t{c}"),
        (r"\NewDocumentCommand\a{e{^_}}{<#1|#2>}", r"\a_{i}^n \a^2 \a", "<n|i> <2|> <|>"),
        (r"\NewDocumentCommand\a{E{^_}{{1}{2}} m}{<#1|#2|#3>}", r"\a_k{x}", "<1|k|x>"),
        (r"\NewDocumentCommand\a{t+ m}{\IfBooleanTF{#1}{p}{n}#2}", r"\a+{x}\a{y}", "pxny"),
        (r"\NewDocumentCommand\a{s m}{\IfBooleanTF#1{s}{n}#2}", r"\a*{x}\a{y}", "sxny"),
        (r"\NewDocumentCommand\a{r() d<> D||{z}}{#1#2#3}", r"\a(x)<y> \a(x)|w|", "xyz xw"),
        (r"\NewDocumentCommand\a{v}{<#1>}", r"\a|x_y| \a{z}", "<x_y> <z>"),
        (r"\NewDocumentCommand\a{o o m}{\IfNoValueTF{#1}{n}{\IfNoValueTF{#2}{#1}{#1:#2}}:#3}",
         r"\a{x} \a[p]{x} \a[p][q]{x}", "n:x p:x p:q:x"),
        (r"\NewDocumentCommand\a{u; g}{<#1|#2>}", r"\a x;{y} \a x;", "<x|y> <x|>"),
        (r"\NewDocumentCommand\a{>{\TrimSpaces} m !o}{<#1>#2}", r"\a{x}[y]", "<x>y"),
        (r"\newcommand\a[1][]{\ifx\relax#1\relax none\else some #1\fi}", r"\a[x], \a", "some x, none"),
        (r"\newcommand\a[1]{\if!\ifnum9<1#1!\else_\fi\mathbb{#1}\else\pdfliteral{1 0}#1\fi}", r"\a{2} \a n",
         r"\mathbb{2} n"),
        (r"\newcommand\a[1]{\ifthenelse{\equal{#1}{x}}{yes}{no}}", r"\a{x} \a{y}", "yes no"),
        (r"\newcommand\a{\@ifstar\b\c}\def\b#1{[#1]}\def\c#1{(#1)}", r"\a*{x}\a{y}", "[x](y)"),
        (r"\def\a{\@ifnextchar[{\b}{\b[0]}}\def\b[#1]#2{#2_#1}", r"\a[1]{x} \a{y}", "x_1 y_0"),
        (r"\newcommand\a{see \b}\newcommand\b{\c}\newcommand\c[1]{\ref{#1}}", r"\a{x}.", r"see \ref{x}."),
        (r"\def\a{\csname b\endcsname}\def\b{x}", r"\a", "x"),
        (r"\def\kind{section}\def\a#1{\csuse{\kind}{#1}}", r"\a{x}", r"\section{x}"),
        (r"\newcommand{\NP}{NP\xspace}", r"a \$ and $x$ \NP $y$, $\NP$ $z\NP $.", r"a \$ and $x$ NP $y$, $NP$ $zNP$."),
        (r"", r"$x\pause y\empty$ a\xspace z", "$xy$ a z"),
    ],
)  # fmt: skip
def test_macros_are_expanded(preamble: str, text: str, expected: str) -> None:
    assert expanded(preamble, text) == expected


def test_a_starred_document_command_takes_its_star() -> None:
    assert expanded(r"\NewDocumentCommand{\norm}{s m}{|#2|}", r"\norm{x}\norm*{x}") == "|x||x|"


def test_a_macro_is_valid_from_its_definition_on() -> None:
    text = r"\def\a{1}\begin{document}\a \def\a{2}\a"
    definitions = read_definitions(text)
    definitions.settle(text.index("document"))
    assert expand("\\a", definitions.at(text.index("\\a "))) == "1"
    assert expand("\\a", definitions.at(len(text))) == "2"


def test_the_spans_of_the_definitions_are_exact() -> None:
    text = r"A \newcommand{\x}[1][d]{y{#1}} B \def\z#1.{w} C \let\u=\v D \DeclareMathOperator*{\o}{o} E"
    spans = read_definitions(text).spans
    for begin, end in reversed(spans):
        text = text[:begin] + text[end:]
    assert text.split() == ["A", "B", "C", "D", "E"]


@pytest.mark.parametrize(
    ("preamble", "text", "name", "cause"),
    [
        (r"\def\a{\a}", r"\a", "a", "calls itself"),
        (r"\def\a{\b}\def\b{\a}", r"\a", "a", "calls itself"),
        (r"\def\a{\ifx\x\y 1\fi}", r"\a", "a", "computes"),
        (r"\def\a#1{\csname x#1\endcsname}", r"\a1", "a", "computes"),
        (r"\def\a{\kern2pt\raise 3pt\hbox{x}}", r"\a", "a", "draws"),
        (r"\newcommand{\a}[2]{#1}", r"\a{x}", "a", "arguments"),
        (r"\newcommand{\a}{", r"\a", "a", "never ends"),
        (r"\NewDocumentCommand{\a}{w()}{x}", r"\a", "a", "unknown kind"),
    ],
)
def test_a_macro_that_cannot_be_expanded_stays_and_is_reported(preamble: str, text: str, name: str, cause: str) -> None:
    assert cause in problems(preamble, text)[name]
    assert text[:2] in expanded(preamble, text)


def test_a_billion_laughs_stay_within_time_and_memory() -> None:
    names = "abcdefghijklm"
    preamble = "".join(f"\\def\\x{a}{{{f'{chr(92)}x{b} ' * 10}}}" for a, b in pairwise(names))
    result = expanded(preamble + "\\def\\xm{ha}", "\\xa and the rest")
    assert len(result) < 300_000
    assert result.endswith("and the rest")


def test_quadratic_arguments_stay_within_time() -> None:
    preamble = r"\newcommand{\d}[1]{#1#1}"
    result = expanded(preamble, "\\d{" * 60 + "x" + "}" * 60)
    assert len(result) < 400_000


def test_environments_give_their_opening() -> None:
    text = r"\newenvironment{a}[1][x]{\begin{theorem}[#1]}{\end{theorem}} \renewenvironment*{b}{B}{E} rest"
    opening, spans = read_environments(text)
    assert opening == {"a": Opening(r"\begin{theorem}[#1]", (("o", "x"),)), "b": Opening("B")}
    assert [text[b:e][-1] for b, e in spans] == ["}", "}"]


def test_macros_with_structure_are_selected() -> None:
    definitions = read_definitions(
        r"\def\bthm{\begin{theorem}}\def\ethm{\end{theorem}}\def\R{R}\def\again{\bthm}\def\eq{\begin{equation}}"
        r"\def\sec#1{\section{#1}}"
    )
    definitions.settle(0)
    names = structural(definitions.at(10**6), {"theorem"})
    assert set(names) == {"bthm", "ethm", "again", "sec"}


FRAGMENTS = [
    "\\newcommand", "{\\a}", "\\a", "\\b", "[1]", "[2]", "[x]", "{#1}", "{#2\\b}", "\\def", "#1", "#2", ".", "\\let",
    "=",
    "{", "}", "[", "]", "\\DeclareMathOperator", "*", "\\NewDocumentCommand", "{m O{x}}", "{s m}",
    "\\newenvironment{e}",
    "{\\begin{theorem}}", " ", "\n", "\\", "\\xspace", "\\renewcommand\\b", "{\\a\\a}", "\\providecommand",
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40), st.lists(st.sampled_from(FRAGMENTS), max_size=20))
def test_reading_and_expanding_never_raise(preamble: list[str], body: list[str]) -> None:
    text = "".join(preamble)
    assert len(expanded(text, "".join(body))) < 400_000
    read_environments(text)


@given(st.text(max_size=200))
def test_arbitrary_text_never_raises_and_without_macros_stays_the_same(text: str) -> None:
    assert len(expanded(text, text)) < 400_000
    read_environments(text)
    if "\\" not in text:
        assert expanded(text, text) == text


@pytest.mark.parametrize(
    "fragment",
    ["\\newcommand{\\a}{", "\\def\\a#1{", "\\def\\a{\\a\\a}\\a", "\\newcommand{\\a}[1]{#1}\\a", "\\newenvironment{a}{",
     "\\def\\a#1.{#1}\\a ", "\\newcommand\\a[1][", "\\let\\a\\b\\a", "\\a{", "\\def\\a#1{\\a{#1}}\\a{"],
)  # fmt: skip
def test_hostile_repetition_is_read_in_linear_time(fragment: str) -> None:
    def read(size: int) -> None:
        text = fragment * (size // len(fragment))
        expanded(text, text)
        read_environments(text)

    assert is_linear(read, 40_000)
