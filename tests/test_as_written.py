r"""What papers say besides statements, as it was written: title pages, headings, boxes, units, listings, notes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.types import Passage, Reading
from lemmata.ingest.papers import read_paper
from lemmata.latex.clean import clean
from lemmata.latex.mains import Main
from lemmata.latex.readable import readable
from lemmata.latex.units import QUANTITY, quantity_in_text, read_quantity


def read(body: str, preamble: str = "", **files: str) -> Reading:
    source = f"\\documentclass{{article}}\n{preamble}\n\\begin{{document}}\n{body}\n\\end{{document}}\n"
    return read_paper({"a.tex": source.encode(), **{k: v.encode() for k, v in files.items()}}.get, Main("a.tex"), "a")


def only(body: str, preamble: str = "") -> Passage:
    [passage] = read(body, preamble).passages
    return passage


# ---------------------------------------------------------------- authors


_WITH_JOBS = r"""Ann Diez \\ \small\emph{Data Scientist}\\ \small\emph{OpenStat} \\[6mm]
Mine \c{C}etin-Rundel \\ \small\emph{Associate Professor, Duke University} \\[6mm]
Chris D Barr \\ \small\emph{Varadero Capital}\\"""
_WITH_MARKS = r"""Dave Wad$^\dagger$\thanks{On leave.} \quad Lucy Lu Wang$^\ddagger$ \\
{\bf Mia van Zuylen}$^\ddagger$ \\
$^\dagger$ University of Wessex, Seattle, WA, USA \\ {\tt \{dave,lucy\}@wessex.edu}"""


@pytest.mark.parametrize(
    ("author", "names"),
    [
        (_WITH_JOBS, ["Ann Diez", "Mine Çetin-Rundel", "Chris D Barr"]),
        (_WITH_MARKS, ["Dave Wad", "Lucy Lu Wang", "Mia van Zuylen"]),
        (r"A. Author\\Palo Alto \and B. Other, Duke University, Durham", ["A. Author", "B. Other"]),
        (r"Jos\'e de la Cruz, Jr. and J.-P. Serre", ["José de la Cruz", "J.-P. Serre"]),
        (r"Alice, Bob and Carol", ["Alice", "Bob", "Carol"]),
        (r"Institute of Physics \\ 12 High Street", []),
        (r"Tim O'Reilly \\ Bell Labs \\ Anna Karenina", ["Tim O'Reilly"]),
    ],
)
def test_only_names_are_authors(author: str, names: list[str]) -> None:
    reading = read(f"\\title{{T}}\\author{{{author}}}\\maketitle Some text.")
    assert list(reading.documents[0].authors) == names


# ---------------------------------------------------------------- headings and bibliographies


def test_a_heading_that_names_another_has_its_title_and_bold_formulas_are_formulas() -> None:
    body = r"""\section{Flat maps}\label{flat} One. \begin{theorem}[Baer]\label{baer} Two. \end{theorem}
\section{More on \nameref{flat}} Three. \section{\nameref{baer}} Four. \section{\nameref{gone}} Five.
\section{The $\pmb{\MakeLowercase{t}}$-test of $\boldsymbol{p}$} Six."""
    contents = [title for _, _, title in read(body).documents[0].metadata["contents"]]
    assert contents == ["Flat maps", "More on Flat maps", "Baer", "", "The $t$-test of $p$"]


def test_macros_of_the_paper_are_expanded_in_its_bibliography() -> None:
    bib = r"@article{k, title={{\redirect{textbook-ear}{Ear acupuncture}}}, author={A. Allais}, year=2011}"
    macro = r"\newcommand{\redirect}[2]{\href{http://x.org/go=#1}{#2}}"
    reading = read(r"See \cite{k}. \bibliography{refs}", macro, **{"refs.bib": bib})
    [[entry]] = reading.references.values()
    assert entry.title == "Ear acupuncture"


# ---------------------------------------------------------------- boxes, captions, notes


def test_the_title_of_a_box_is_the_name_of_its_statement() -> None:
    preamble = r"\newtheorem{theorem}{Theorem}\newtcolorbox{theobox}[1][]{title=Theorem,#1}"
    body = r"""\begin{tcolorbox}[title={Yoneda, again}, colback=red]
\begin{theorem} Every functor. \end{theorem}\end{tcolorbox}
\begin{theobox}[title=Fermat] No solutions. \end{theobox}
\begin{tcolorbox}[title=Plain] Words. \begin{theorem} A late one. \end{theorem}\end{tcolorbox}"""
    statements = [p for p in read(body, preamble).passages if p.kind == "theorem"]
    assert [(p.title, p.text) for p in statements] == [
        ("Yoneda, again", "Every functor."),
        ("Fermat", "No solutions."),
        ("", "A late one."),
    ]


@pytest.mark.parametrize(
    "box",
    [
        r"\begin{tcolorbox}[colback=red, title={Key idea}] It is small. \end{tcolorbox}",
        r"\begin{mdframed}[frametitle=Key idea] It is small. \end{mdframed}",
        r"\begin{note}{idea} It is small. \end{note}",
        r"\begin{figure}\includegraphics{x}\caption{Key idea} It is small.\end{figure}",
    ],
)
def test_titles_of_boxes_and_captions_stand_apart(box: str) -> None:
    preamble = r"\newtcolorbox{note}[1]{colback=blue, title={Key #1}}"
    assert only(f"Before. {box} After.", preamble).text == "Before.\n\nKey idea\n\nIt is small.\n\nAfter."


def test_notes_in_the_margin_are_in_brackets_and_pictures_there_are_nothing() -> None:
    body = r"A map\sidenote{Or arrow.} is\marginnote[2pt]{\includegraphics{x}} a\marginpar{Note.} map."
    assert only(body).text == "A map (Or arrow.) is a (Note.) map."


# ---------------------------------------------------------------- listings and tables


@pytest.mark.parametrize(
    "listing",
    [
        "\\begin{lstlisting}[language=Python]\nif x:\n    y = $1\n\nz\n\\end{lstlisting}",
        "\\begin{minted}[linenos]{python}\nif x:\n    y = $1\n\nz\n\\end{minted}",
        "\\begin{verbatim}\nif x:\n    y = $1\n\nz\n\\end{verbatim}",
    ],
)
def test_a_listing_is_a_block_with_its_lines(listing: str) -> None:
    assert only(f"Run\n{listing}\nand look.").text == "Run\n\nif x:\n    y = \\$1\nz\n\nand look."


def test_a_listing_keeps_its_caption_and_code_in_a_line_is_text() -> None:
    listing = "\\begin{lstlisting}[caption={Adding one}]\nx + 1\n\\end{lstlisting}"
    assert only(f"Use \\mintinline{{python}}{{x+1}}.\n{listing}").text == "Use x+1.\n\nAdding one\n\nx + 1"


def test_rules_and_colours_of_tables_are_no_text() -> None:
    rows = r"\rowcolor{black!10} a & b \\ \cmidrule[black!30](lr){1-2} c & d"
    table = rf"\setlength\tabcolsep{{4pt}}\begin{{tabular}}{{ll}} {rows} \end{{tabular}}"
    colour = r"\definecolor{mine}{RGB}{84,130,53}\colorlet{his}{red!30}"
    assert only(f"A table. {colour}{table}").text == "A table.\na b\nc d"


# ---------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (r"\SI{5}{\metre}", "5 m"),
        (r"\qty{3.2}{kg.m}", "3.2 kg m"),
        (r"\SI[per-mode=symbol]{9.81}{\metre\per\second\squared}", "9.81 m/s²"),
        (r"\si{\kilo\watt\hour}", "kW h"),
        (r"\unit[7]{cm}", "7 cm"),
        (r"\num{12345.6}", "12345.6"),
        (r"\num{1.5e-5}", "1.5 × 10⁻⁵"),
        (r"\num{2 +- 0.1}", "2 ± 0.1"),
        (r"\ang{45}", "45°"),
        (r"\ang{1;2;3}", "1°2′3″"),
        (r"\SIrange{1}{2}{\celsius}", "1 to 2 °C"),
        (r"\qty{90}{\degree}", "90°"),
        (r"\unit{\cubic\centi\metre}", "cm³"),
    ],
)
def test_quantities_read_as_they_are_printed(source: str, shown: str) -> None:
    assert clean(f"It is {source}.").text == f"It is {shown}."


def test_quantities_in_formulas_are_latex() -> None:
    assert clean(r"$v = \SI{3}{\metre}$ and $\num{1e3}$").text == r"$v = 3\,\mathrm{m}$ and $1 × 10³$"


@given(st.text(alphabet="\\{}[]SIqtynumange15.;-+ \\metrepsquad", max_size=60))
def test_units_never_fail(text: str) -> None:
    for command in QUANTITY.finditer(text):
        quantity = read_quantity(command[1], text, command.end())
        assert quantity is None or command.end() < quantity[2] <= len(text)
        assert quantity is None or isinstance(quantity_in_text(*quantity[:2]), str)
    clean(text)


# ---------------------------------------------------------------- what readers stumbled over


def test_several_sentences_are_the_text_of_an_example_and_no_title() -> None:
    body = r"\begin{example}[The figure shows a tail. Find its area.] It is $0.1$. \end{example}"
    passage = only(body, r"\newtheorem{example}{Example}")
    assert (passage.title, passage.text) == ("", "The figure shows a tail. Find its area.\n\nIt is $0.1$.")


def test_labels_that_latex_computes_are_not_shown() -> None:
    passage = only(r"See \ref{sol_\arabic{ch}} for it.")
    assert passage.text == "See for it."
    assert not passage.links


def test_operators_set_as_amsopn_does_are_operators() -> None:
    macro = r"\makeatletter\newcommand*{\casop}[1]{\mathop{\newmcodes@\kern\z@ #1}\nolimits@}\makeatother"
    assert only(r"Let $\casop{\mathrm{ap}} f$ be it.", macro).text == r"Let $\operatorname{\mathrm{ap}} f$ be it."


def test_quotes_of_diagrams_stay_where_german_is_not_the_language() -> None:
    babel = r"\usepackage[ngerman,main=english,shorthands=off]{babel}"
    diagram = '\\begin{tikzcd} A \\ar[r,"f"\'] & B \\end{tikzcd}'
    assert '"f"\'' in only(f"A map {diagram}.", babel).text


@pytest.mark.parametrize(
    ("note", "is_title"),
    [
        ("Set up hypotheses to evaluate whether smoking has effects.", False),
        (r"What size gives a power of $80\%$? Use $\alpha = 0.05$.", False),
        ("Why?", False),
        ("Chinese remainder theorem.", True),
        ("Euler, 1748", True),
    ],
)
def test_the_task_of_an_example_is_its_text(note: str, is_title: bool) -> None:
    passage = only(rf"\begin{{example}}[{note}] We do. \end{{example}}", r"\newtheorem{example}{Example}")
    assert bool(passage.title) == is_title
    assert (passage.text == "We do.") == is_title


def test_a_title_page_that_a_macro_sets_gives_the_title() -> None:
    page = r"\thispagestyle{empty} {\huge \textls[250]{SYMMETRY}} \vspace{1ex} {\Large A motto}"
    macro = rf"\newcommand{{\thetitlepage}}{{{{{page}}}}}"
    assert read(r"\thetitlepage \section{One} Text.", macro).documents[0].title == "SYMMETRY"


def test_the_bold_argument_of_a_frame_is_its_title() -> None:
    opening = r"\begin{mdframed}[topline=false]\textbf{\small{\MakeUppercase{#1}}} \\"
    box = rf"\newenvironment{{onebox}}[1]{{{opening}}}{{\end{{mdframed}}}}"
    body = r"Before. \begin{onebox}{Chance} A chance is small. \end{onebox} After."
    assert only(body, box).text == "Before.\n\nChance\n\nA chance is small.\n\nAfter."


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        (r"$a \vcentcolon\mathrel{\mkern-0.8mu}= b$", "a := b"),
        (r"$P(\text{\texttt{mach\_\hspace{0.3mm}{}learn} is odd})$", "P(mach_learn is odd)"),
        (r"${n \choose k}$", "(n choose k)"),
        (r"$P({\color{red}\diamondsuit}) = \Omega^{\null} x \qedhere$", "P(♢) = Ω x"),
        (r"$x \unknown y$", r"$x \unknown y$"),
    ],
)
def test_formulas_in_terminals_lose_only_what_has_no_meaning(formula: str, shown: str) -> None:
    assert readable(formula) == shown


def test_sizes_that_a_class_sets_are_no_text_and_drawings_in_a_line_end_outside_braces() -> None:
    style = r"\makeatletter\def\small{\@setsize\small{10pt}\ixpt\@ixpt}\makeatother"
    body = r"{\small Fine print} and \tikz \draw (0,0) node {a; b} -- (1,1); no more."
    assert only(body, style).text == "Fine print and no more."
