from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.latex.readable import readable


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        (r"\alpha_i^2 \in \mathbb{R}", "αᵢ² ∈ ℝ"),
        (r"\sum_{n=0}^\infty \frac{q^{n^2}}{(q;q)_n}", "∑ₙ₌₀^∞ (q^(n²))/((q;q)ₙ)"),
        (r"f : X \to \operatorname{Spec}(A)", "f : X → Spec(A)"),
        (r"\mathcal{O}_X", "O_X"),
        (r"a \leq b", "a ≤ b"),
        (r"\{ x \}", "{ x }"),
        (r"\sqrt{2}", "√(2)"),
        (r"\foo bar", "foo bar"),
        ("x_", "x_"),
        ("{", ""),
    ],
)
def test_formulas_are_shown_as_characters(formula: str, shown: str) -> None:
    assert readable(f"${formula}$") == shown


def test_only_formulas_change() -> None:
    assert readable(r"Let $x_1$ cost \$5 and $y$.") == "Let x₁ cost $5 and y."


@settings(deadline=None)
@given(st.text(alphabet="\\{}$_^ab1 frac", max_size=60))
def test_any_text_is_shown_without_an_error(text: str) -> None:
    for shown in (readable(text), readable(f"${text}$")):
        assert len(shown) <= 10 * len(text) + 10
    if not set(text) & set("\\$"):
        assert readable(text) == text
