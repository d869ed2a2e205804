"""Clean text as HTML: formulas become MathML, and nothing of the input is ever markup."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from xml.etree.ElementTree import Element, SubElement

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.make import cpu_seconds

from lemmata.core.types import Link
from lemmata.search.tokens import tokenize
from lemmata.server.mathml import excerpt_html, formula_html, inline_html, name_of, reference_links, to_html
from lemmata.server.records import short_text

KNOWN = frozenset(
    "p br a mark span code div table tr th td math mrow mi mo mn ms mtext mspace mfrac msqrt mroot mstyle msub msup"
    " msubsup munder mover munderover mmultiscripts mprescripts none mtable mtr mtd mpadded mphantom menclose".split()
)


class Reader(HTMLParser):
    """Elements, attributes, text and the LaTeX of formulas, as a browser reads them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.latex: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.latex += [value or "" for name, value in attrs if name == "data-latex"]
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(made: str) -> Reader:
    """Parse HTML, which must be well formed and hold nothing but known elements and harmless attributes."""
    reader = Reader()
    reader.feed(made)
    reader.close()
    assert not reader.open
    assert set(reader.elements) <= KNOWN
    for name, value in reader.attributes:
        assert not name.startswith("on")
        assert name not in ("style", "src", "srcset", "id", "xlink:href", "formaction")
        if name == "href":
            assert value.startswith("/view/")
        if name == "class":
            assert value in ("display", "grid", "latex", "line", *(f"line in{level}" for level in range(1, 5)))
    return reader


HOSTILE = st.lists(
    st.one_of(
        st.sampled_from(
            ["<script>alert(1)</script>", "</math><img src=x onerror=alert(1)>", '"', "'", "&lt;b&gt;", "&#x3C;", "$",
             "\\", "{", "}", "^", "_", "&", "\\\\", "\\frac", "\\text{<b>}", "\\href{javascript:alert(1)}{x}",
             "\\style{a:b}{x}", "\\class{x}{y}", "\\begin{aligned}", "\\end{aligned}", "\\begin{array}{<}", "\\left",
             "\\right", "\\genfrac", "\\genfrac{[}{]}{0pt}{}{n}{k}", "\\def\\x{\\x\\x}", "\\unicode{x3C}",
             "\\mathcal{<}", "\\color{red}", "\\\\[2pt]", "\\operatorname{<i>}", "\\binom n k", "\n\n", "•", "\x00",
             "\x02", "\n", " | ", "\n- ",
             "]]>", "<!--", "\\sum_{i", "\\xrightarrow{<}"]
        ),
        st.text(max_size=8),
    ),
    max_size=14,
).map("".join)  # fmt: skip


@given(HOSTILE, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.text(max_size=9)), max_size=4))
@example(r"$\text{<b>x</b>}$", [])
def test_hostile_text_never_becomes_markup(text: str, links: list[tuple[int, int, str]]) -> None:
    inside = [(begin, end, target) for begin, end, target in links if end <= len(text)]
    read(to_html(text, links=inside))
    read(excerpt_html(text, text[:40], tokenize))


@given(HOSTILE)
def test_a_formula_keeps_its_latex(formula: str) -> None:
    for block in (False, True):
        reader = read(formula_html(formula, block))
        assert reader.latex == [
            html.unescape(html.escape(re.sub("[\x00-\x02]", "\ufffd", formula).strip())).replace("\r\n", "\n")
        ]


@given(st.text(alphabet="abc <>&\"'\n", max_size=80))
def test_text_without_formulas_keeps_its_words(text: str) -> None:
    assert " ".join(read(to_html(text)).words).split() == text.split()


@pytest.mark.parametrize(
    "formula",
    ["{" * 2000, "x^" * 1900, "\\frac" * 790, "'" * 3999, "\\left(" * 600, "\\begin{matrix}" * 280, "a&" * 1900,
     "\\\\" * 1900, "x" * 100_000, "\\def\\a{\\a\\a}\\a", "\\newcommand{\\a}{\\a}\\a",
     "\\genfrac{[}{]}{0pt}{}{n}{k}" * 150],
)  # fmt: skip
def test_odd_formulas_take_no_time(formula: str) -> None:
    assert cpu_seconds(lambda: read(to_html(f"${formula}$"))) < 20


def test_whatever_the_converter_makes_only_safe_values_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Element("math")
    SubElement(tree, "mspace", {"width": '1" onclick="x', "height": "2em", "onclick": "x", "href": "x"}).text = "<b>"
    SubElement(tree, "script").text = "alert(1)"
    monkeypatch.setattr("latex2mathml.converter.Converter.convert_to_element", lambda *_: tree)
    made = read(formula_html("a formula of this test alone"))
    assert made.elements == ["math", "mspace"]
    assert made.attributes[2:] == [("height", "2em")]


def test_a_formula_becomes_mathml() -> None:
    made = to_html("Let $x^2 \\in \\mathbb{R}$ be.")
    assert made == (
        '<p>Let <math display="inline" data-latex="x^2 \\in \\mathbb{R}"><mrow><msup><mi>x</mi><mn>2</mn></msup>'
        "<mo>∈</mo><mi>ℝ</mi></mrow></math> be.</p>"
    )


def test_letters_of_an_alphabet_are_characters_because_browsers_ignore_the_attribute() -> None:
    assert "<mi>𝔤</mi><mi>𝔩</mi>" in formula_html("\\mathfrak{gl}")
    assert '<mi mathvariant="normal">S</mi>' in formula_html("\\mathrm{SL}")


def test_rows_outside_an_environment_become_a_table() -> None:
    made = formula_html("a&=b\\\\ c&=d", block=True)
    assert made.count("<mtr>") == 2
    assert "&amp;" not in made.partition(">")[2]
    assert formula_html("\\begin{aligned}[t]a&=b\\\\ c&=d\\end{aligned}").count("<mtr>") == 2


def test_a_gaussian_binomial_has_brackets_and_its_index() -> None:
    assert formula_html("\\genfrac{[}{]}{0pt}{}{n}{k}").startswith("<math")
    made = formula_html("\\binom{n}{k}_q")
    assert made.index("<msub><mrow>") < made.index("</mrow><mi>q</mi></msub>")


def test_what_cannot_be_converted_shows_its_latex() -> None:
    shown = formula_html("\\xymatrix{A \\strange & B}")
    assert shown.startswith('<code class="latex" ')
    assert shown.endswith('data-latex="\\xymatrix{A \\strange &amp; B}">\\xymatrix{A \\strange &amp; B}</code>')


def test_a_long_formula_stands_on_its_own_line_with_its_full_stop() -> None:
    formula = (
        "\\sum_{n\\ge0}\\frac{q^{n^2}}{(1-q)(1-q^2)\\cdots(1-q^n)}=\\prod_{n\\ge0}\\frac{1}{(1-q^{5n+1})(1-q^{5n+4})}"
    )
    made = to_html(f"Then ${formula}$. It holds.")
    assert '<span class="display"><math display="block"' in made
    assert "</math>.</span> It holds.</p>" in made


def test_paragraphs_and_items_are_kept() -> None:
    lines = ('<span class="line">Two:</span>', '<span class="line">• a</span>', '<span class="line in1">(b) c</span>')
    assert to_html("One.\n\nTwo:\n• a\n  (b) c") == f"<p>One.</p><p>{''.join(lines)}</p>"


TABLE = "Code | Text\nF1 | Fan <b>\nF22 | Power, $a | b$\n | none"


def test_a_table_is_one_and_the_items_of_a_list_have_bullets() -> None:
    head, *rows = ["<th>Code</th><th>Text</th>", "<td>F1</td><td>Fan &lt;b&gt;</td>", "<td>F22</td><td>Power, <math"]
    made = to_html(f"Alarms:\n\n{TABLE}\n\nSee $x | y$\n$z | w$. Or a | b\n\n- off\n  * wait\n- 5 degrees")
    assert made.startswith(f'<p>Alarms:</p><div class="grid"><table><tr>{head}</tr><tr>{rows[0]}</tr><tr>{rows[1]}')
    assert "<tr><td></td><td>none</td></tr></table></div><p>" in made
    assert made.count("<table>") == 1
    assert "Or a | b" in made
    assert re.findall(r'"line[ in1]*">([^<]*)</span>', made)[-3:] == ["• off", "• wait", "- 5 degrees"]
    assert inline_html(f"- off\n- on\n\n{TABLE}").startswith("• off • on. Code, Text; F1, Fan &lt;b&gt;; F22, Power")


def test_an_excerpt_of_a_table_has_the_rows_around_the_best_one() -> None:
    rows = "\n".join(f"F{number} | What the alarm {number} says | What to do about it" for number in range(100, 200))
    made = excerpt_html(f"All alarms.\n\nAlarm | Text | Action\n{rows}\n\nThe end.", "F150", tokenize, 200)
    assert "<td><mark>F150</mark></td><td>What the alarm 150 says</td>" in made
    assert 2 < made.count("<tr>") < 7
    assert "<th>" not in made
    assert made.startswith("<p>…</p><div")
    assert made.endswith("</div><p>…</p>")
    assert "<tr><th>" in excerpt_html(f"Alarm | Text | Action\n{rows}", "F100", tokenize, 200)


def test_a_title_above_a_paragraph_is_one_and_does_not_run_into_it() -> None:
    text = "Small samples\n\nThe mean of $x$\n\nis near. Then"
    assert to_html(text).startswith('<p class="title">Small samples</p><p>The mean of ')
    assert inline_html(text).startswith("Small samples. The mean of ")
    assert to_html("We have\n\n$x$\n\nThen").startswith("<p>We have</p>")


def test_signs_stay_on_the_line_of_their_formula() -> None:
    assert re.findall(
        r'<span class="joined">(.*?)<math.*?</math>(.*?)</span>', to_html("a ($x$), $p$-group $y$ z")
    ) == [
        ("(", "),"),
        ("", "-"),
    ]


def test_a_formula_on_a_line_of_its_own_is_displayed() -> None:
    made = to_html("We have\n$x=y$,\nand $x=z$.")
    assert made.count('class="display"') == made.count('display="block"') == 1
    assert made.index("We have") < made.index('class="display"') < made.index(",</span>") < made.index("and")


def test_references_are_links() -> None:
    made = to_html("By Lemma (a & b) the sum is zero.", links=[(9, 17, "x/y#lem:1")])
    assert made == '<p>By Lemma <a href="/view/passage/x%2Fy%23lem%3A1">(a &amp; b)</a> the sum is zero.</p>'


def test_a_link_inside_a_formula_is_ignored() -> None:
    assert "<a" not in to_html("Let $x+y$ be.", links=[(5, 8, "x")])


def test_names_of_references_find_their_links() -> None:
    spans = [
        [9, 24, [9, 12, "lem:transform"], [17, 20, "eq:1"]],
        [44, 52, [45, 50, "heine"]],
        [56, 64, [57, 62, "other"]],
    ]
    links = [
        Link("proof_uses", "lem:transform", "b#lem"),
        Link("cites", "heine", "heine"),
        Link("cites", "other", None),
    ]
    assert reference_links(spans, links) == [(9, 12, "b#lem"), (45, 50, "heine")]


def test_an_excerpt_marks_the_words_of_the_query() -> None:
    text = "First a sentence. Then the number of standard tableaux of shape $\\lambda$ is given. Last one."
    made = excerpt_html(text, "standard tableaux", tokenize, 40)
    assert "<mark>standard</mark> <mark>tableaux</mark>" in made
    assert made.startswith("<p>… ")
    assert made.endswith(" …</p>")
    assert excerpt_html("", "x", tokenize) == ""


@pytest.mark.parametrize(
    ("formula", "text", "letters"),
    [
        (r"\text{if $p$ is odd}", ["if ", " is odd"], ["p"]),
        (r"\mbox{$k$-th}", ["-th"], ["k"]),
        (r"\mbox{\scriptsize for \boldmath$X$}", ["for "], ["𝑿"]),
        (r"\text{one $dollar}", ["one $dollar"], []),
    ],
)
def test_formulas_inside_text_are_formulas(formula: str, text: list[str], letters: list[str]) -> None:
    made = formula_html(formula)
    assert re.findall("<mtext>([^<]*)</mtext>", made.replace("\xa0", " ")) == text
    assert re.findall("<mi>([^<]*)</mi>", made) == letters


def test_the_start_of_a_text_is_measured_by_the_signs_that_are_read() -> None:
    assert short_text(r"$\mathcal{O}_X$ is a sheaf of rings", 20) == r"$\mathcal{O}_X$ is a sheaf of …"
    assert short_text(r"Let $\alpha+\beta+\gamma$ be", 6) == "Let …"
    assert short_text(r"$\alpha+\beta+\gamma$ is", 4) == r"$\alpha+\beta+\gamma$ …"


def test_a_name_is_the_title_or_the_first_words_in_characters() -> None:
    assert name_of("The circle $S^1$", "any")["name"] == "The circle S¹"
    named = name_of(
        "",
        "For $n \\ge 0$ we have $p(5n+4) \\equiv 0 \\pmod 5$, which Ramanujan saw in a table of numbers of partitions.",
    )
    assert named["name"].startswith("For n ≥ 0 we have p(5n+4) ≡ 0 (mod 5)")
    assert len(named["name"]) < 80
    assert "<math" in named["name_html"]


def test_commands_of_the_authors_are_shown_by_their_names() -> None:
    assert "<mi>Hom</mi>" in formula_html(r"\Hom(G, H)")
    assert "\\" not in formula_html(r"a \eqto b").partition(">")[2]


def test_a_colon_is_an_operator_and_an_operator_has_no_empty_one_before_it() -> None:
    assert '<mo lspace="0.278em" rspace="0.278em">:</mo>' in formula_html(r"f : X \to Y")
    assert "<mo></mo>" not in formula_html(r"\operatorname{\mathrm{tot}}(f)")
    assert "tot" in formula_html(r"\operatorname{\mathrm{tot}}(f)").partition(">")[2]


@pytest.mark.parametrize(
    ("formula", "inside"),
    [
        (r"(-1)^n", '<mo lspace="0em" rspace="0em">−</mo><mn>1</mn>'),
        (r"a - 1", "<mo>−</mo>"),
        (r"x_{i \in I}", '<mo lspace="0em" rspace="0em">∈</mo>'),
        (r"x_{(i)}", '<mo stretchy="false" lspace="0em" rspace="0em">(</mo>'),
        (r"\Gamma \mathrm{S}", '<mi mathvariant="normal">Γ</mi><mi mathvariant="normal">S</mi>'),
        (r"a \sim \pm \infty", '<mo lspace="0.278em" rspace="0.278em">∼</mo>'),
        (r"a \sim \pm \infty", "<mi>∞</mi>"),
        (r"a \mathrel{R} b", '<mrow><mspace width="0.25em"></mspace><mrow><mi>R</mi>'),
        (r"a \mathrel{\overset{=}{\to}} b", '<mo stretchy="false">→</mo>'),
        (r"\hat{p}", "<mover><mrow><mi>p</mi></mrow>"),
        (r"f'(x)", '<mrow><mi>f</mi><mo lspace="0em" rspace="0em">′</mo></mrow>'),
        (r"a \not= b", "≠"),
        (r"A \setminus B := C", '<mo lspace="0.222em" rspace="0.222em">∖</mo>'),
        (r"\raisebox{0.5ex}{$\cdot$} x", "·"),
        (r"\text{from \texttt{180} to \underline{\color{red}a$^+$}}", "<mtext>from\xa0180\xa0to\xa0a</mtext>"),
        (r"\overline{ab}", '<mo accent="true" stretchy="true">‾</mo>'),
        (r"\operatorname*{arg\,max}_\theta L", ' movablelimits="true" stretchy="false">arg\u2009max</mo>'),
        (r"\boldsymbol{\beta}\mathbf{\Sigma}\boldsymbol{\phi}", "<mi>𝜷</mi>"),
        (r"\mathbbm{1}_A", "𝟙"),
        (r"X \perp Y", '<mo lspace="0.278em" rspace="0.278em">⟂</mo>'),
        (r"n \equiv 0 \pmod{p^{2}}", '<mo stretchy="false">(</mo>'),
    ],
)
def test_signs_stand_as_tex_sets_them(formula: str, inside: str) -> None:
    assert inside in formula_html(formula)


def test_rows_may_begin_with_a_bracket() -> None:
    assert formula_html(r"[a] &= b \\ &= [c]", True).startswith("<math")
