from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.latex.readable import readable


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        (r"\alpha_i^2 \in \mathbb{R}", "αᵢ² ∈ ℝ"),
        (r"\sum_{n=0}^\infty \frac{q^{n^2}}{(q;q)_n}", "∑ₙ₌₀^∞ (q^(n²))/((q;q)ₙ)"),
        (r"f : X \to \operatorname{Spec}(A)", "f : X → Spec(A)"),
        (r"\overline{p}(n)", "p̄(n)"),
        (r"\hat{\mathbb Z} + \tilde x", "ℤ̂ + x̃"),
        (r"p(5n+4) \equiv \pm 1\pmod 5", "p(5n+4) ≡ ± 1 (mod 5)"),
        (r"x \bmod 5", "x mod 5"),
        (r"a &= b \\ &= c, \\ d &= e \\[4pt] f &\le g", "a = b = c, d = e; f ≤ g"),
        (r"\begin{aligned}a &= b\\c &= d\end{aligned}", "a = b; c = d"),
        (r"\mathcal{O}_X(U)", "𝒪_X(U)"),
        (r"\mathcal{O}_{X(U)}", "𝒪_(X(U))"),
        (r"\mathcal{O}_Xf", "𝒪_X f"),
        (r"\mathfrak p \subset \mathbf{Z}[x]", "𝔭 ⊂ 𝐙[x]"),
        (r"{\bf Z}/p{\rm Hom}(A,B)", "𝐙/p Hom(A,B)"),
        (r"\mathbf{\alpha}\boldsymbol{\phi\epsilon}", "𝛂𝝓𝝐"),
        (r"a \leq b", "a ≤ b"),
        (r"\{ x \}", "{ x }"),
        (r"\left\{ x \right.", "{ x"),
        (r"\left. f\right|_{y=0}", "f|_(y=0)"),
        (r"\sqrt{2} + \sqrt[3]{x}", "√(2) + ∛(x)"),
        (r"\frac12 x", "(1/2) x"),
        (r"x\frac{1}{2n}", "x(1/(2n))"),
        (r"\frac{a}{b}^2", "(a/b)²"),
        (r"x = \frac{a+b}{2} + c", "x = (a+b)/2 + c"),
        (r"\binom{n}{k}", "(n choose k)"),
        (r"2\sin x\cos(y)", "2 sin x cos(y)"),
        (r"\lim_{n\to\infty}a_n", "lim_(n→∞) aₙ"),
        (r"X_{Z \times_Y Z}", "X_(Z×_Y Z)"),
        (r"M^\mathrm{T}_\mathfrak{p}", "M^T_𝔭"),
        (r"\alpha*\beta^*", "α*β^*"),
        (r"a \not\in A \not= B", "a ∉ A ≠ B"),
        (r"{}_2\phi_1", "₂ϕ₁"),
        (r"\text{if $x>0$ and}~y_{\text{\'et}}", "if x>0 and y_(ét)"),
        (r"\|x\|\tag{1}", "‖x‖ (1)"),
        (r"f'(x)", "f'(x)"),
        (r"\widehat{\operatorname{Var}}(\hat\theta)", "V̂ar(θ̂)"),
        (r"2\hat{\rm se} + \hat{\theta_n}", "2 ŝe + θ̂ₙ"),
        (r"X_n \xrightarrow{d} N(0,1)", "Xₙ →ᵈ N(0,1)"),
        (r"X_n \xrightarrow[n\to\infty]{\mathcal D} Z", "Xₙ →^𝒟_(n→∞) Z"),
        (r"X \perp\!\!\!\perp Y \not\!\perp\!\!\!\perp Z", "X ⫫ Y ⫫̸ Z"),
        (r"X\mathrel{\perp\mspace{-10mu}\perp}Y \perp Z", "X ⫫ Y ⊥ Z"),
        (r"\mbox{\boldmath$\beta$}^T x", "𝜷^T x"),
        (r"\hat\theta_n \overset{p}{\to} \theta", "θ̂ₙ →ᵖ θ"),
        (r"X_i \stackrel{\mbox{\scriptsize iid}}{\sim} F", "Xᵢ ∼ⁱⁱᵈ F"),
        (r"\mathbb{1}\{X_i \leq x\}", "𝟙{Xᵢ ≤ x}"),
        (r"\underset{\theta}{\arg\max} L(\theta)", "arg max_θ L(θ)"),
        (r"\underset{n\to\infty}{\varlimsup}", "lim sup_(n→∞)"),
        (r"\sum_{\substack{i<n\\ i\ne j}} a", "∑_(i<n;i≠j) a"),
        (r"{a+1 \over b} + {n \choose {x \over 2}}", "(a+1)/b + (n choose x/2)"),
        (r"5\%", "5%"),
    ],
)
def test_formulas_are_shown_as_characters(formula: str, shown: str) -> None:
    assert readable(f"${formula}$") == unicodedata.normalize("NFC", shown)


@pytest.mark.parametrize(
    "formula",
    [
        r"\foo bar", r"x_", r"{", r"}", r"\overline{AB}", r"\sqrt[n]{x}", r"\begin{pmatrix} a & b \end{pmatrix}",
        r"\hat{a^2}", r"\overset{\circ}{B}", r"\underset{x}{AB}", r"{x^a}^b", r"{n \atop k} + \alpha",
        r"\left( a \over b \right)", r"\buildrel d \over \to", r"\mathcal{1}", r"\frac{a}{}",
        r"\begin{cases} 1 \\ 2 \end{cases}", r"\hat{AB}", r"\qbinom{n}{k}", r"\'e",
        r"\frac{1}", r"\mathcal{ϕ}", r"\begin{aligned} a",
    ],
)  # fmt: skip
def test_a_formula_with_a_part_that_has_no_characters_is_shown_as_latex(formula: str) -> None:
    assert readable(f"${formula}$") == f"${formula}$"


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        (r"\alpha + \overline{AB} \in \mathbb{R}", r"α + \overline{AB} ∈ ℝ"),
        (r"x_{\foo{\alpha}} \leq \foo[n]{x}^2", r"x_(\foo{\alpha}) ≤ \foo[n]{x}²"),
        (r"\mathcal{\foo} \to \frac{\foo}{2}", r"\mathcal{\foo} → (\foo)/2"),
        (r"\ind\{x\in A\}\le\ind \alpha", r"\ind {x ∈ A} ≤ \ind α"),
        (r"A = \begin{pmatrix} a \\ b \end{pmatrix} \leq B", r"A = \begin{pmatrix} a \\ b \end{pmatrix} ≤ B"),
        (
            r"\begin{aligned} A &= \begin{cases} a \\ b \end{cases} \\ &\le B \end{aligned}",
            r"A = \begin{cases} a \\ b \end{cases} ≤ B",
        ),
    ],
)
def test_only_the_part_without_characters_stays_latex(formula: str, shown: str) -> None:
    assert readable(f"${formula}$") == shown


def test_only_formulas_change() -> None:
    assert readable(r"Let $x_1$ cost \$5 and $y$ or $\foo x$.") == r"Let x₁ cost $5 and y or $\foo x$."


@given(st.text(alphabet="\\{}$_^ab1 frac", max_size=60))
def test_any_text_is_shown_without_an_error(text: str) -> None:
    for shown in (readable(text), readable(f"${text}$")):
        assert len(shown) <= 10 * len(text) + 10
    if not set(text) & set("\\$"):
        assert readable(text) == text


PIECES = [
    "x", "A", "1", "23", " ", "^", "_", "{", "}", "(", ")", "+", "=", "&", "\\\\", "~", "'", "*", ",", "\\,", "\\{",
    "\\}", "\\alpha ", "\\le ", "\\to", "\\sum", "\\infty", "\\frac", "\\sqrt", "\\binom", "\\overline", "\\hat",
    "\\pmod", "\\bmod", "\\mathbf", "\\mathcal", "\\mathrm", "\\mathfrak", "\\text{if }", "\\operatorname{Hom}",
    "\\sin", "\\left(", "\\right)", "\\not", "\\rm ", "\\bf ", "\\unknown", "\\quad", "{a}", "{b+c}", "^2", "_{n}",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_a_shown_formula_has_all_letters_and_digits_of_its_source_and_no_new_commands(pieces: list[str]) -> None:
    source = "".join(pieces)
    shown = readable(f"${source}$")
    if shown == f"${' '.join(source.split())}$":
        return
    commands = re.compile(r"\\[a-zA-Z]+")
    assert set(commands.findall(shown)) <= set(commands.findall(source))
    letters = "".join(c for c in re.sub(r"\\[a-zA-Z]+|\\.", " ", source) if c.isalnum())
    plain = "".join(c for c in unicodedata.normalize("NFKD", shown) if c.isalnum())
    remaining = iter(plain)
    assert all(letter in remaining for letter in letters), (source, shown)  # in this order
    names = set(re.findall(r"\\([a-zA-Z]+)", source.replace("\\\\", " ")))
    words = set(re.findall(r"[a-zA-Z]+", commands.sub(" ", shown)))
    assert not words & (names - {"sin", "bmod"})


@pytest.mark.parametrize(
    "piece",
    [
        "\\frac", "\\frac1", "{", "x^", "\\not", "\\mathbf", "\\rm ", "\\left.", "a\\\\", "\\hat\\foo", "\\foo{",
        "\\foo[", "\\mathcal{\\foo}", "\\begin{aligned}", "{a\\over ", "\\perp\\!", "\\bf\\foo ", "\\overset",
    ],
)  # fmt: skip
def test_deep_and_long_formulas_take_no_long_time(piece: str) -> None:
    assert is_linear(lambda size: readable(f"${piece * size}$"), 20_000)
