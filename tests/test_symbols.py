"""Which symbols a text introduces, and which it only uses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.graph.concepts.symbols import symbols_of


@pytest.mark.parametrize(
    "text",
    [
        "Let $G$ be a group.",
        "a group $G$ and its order",
        "For $G$ a group, nothing is said.",
        "where $G$ is the group of units",
        "The group of units, denoted by $G$, is finite.",
        "for all $G$",
        "We know that $G = A / B$ for two rings $A$ and $B$.",
        "each $G \\in C$",
        "a map $f \\colon G \\to H$",
        "a pair $(G, H)$",
        "the closed interval $[F, G]$",
        "a graph $K = (G, H)$",
        "two groups $F$, $G$ and $H$",
        "the field extension $G/K$",
        "the value $v(x) = x + 1$ with $G(x) := v(x) + x$",
        "The group of units ($G$) is finite.",
        "a group ${\\cal F}_1, G_2, \\ldots, G_n$",
    ],
)
def test_words_and_relations_introduce_a_symbol(text: str) -> None:
    assert "G" in symbols_of(text).bound


@pytest.mark.parametrize(
    "text",
    [
        "The order of $G$ is finite.",
        "The order of $G$ is the number of its elements.",
        "the product $A + G$",
        "if $G$ satisfies the axiom",
        "$G$ is called finite",
        "an element of the set $F(G)$",
        "the number $f$ with $f(N) \\ge G(N)$",
    ],
)
def test_a_symbol_that_is_only_used_is_missing(text: str) -> None:
    assert "G" in symbols_of(text).missing
    assert "G" in symbols_of(text).letters


def test_a_term_does_not_introduce_what_it_is_said_of() -> None:
    text = "We say that $G$ is a group if it has inverses."
    assert "G" in symbols_of(text).bound
    assert "G" in symbols_of(text, "group").missing
    assert "p" not in symbols_of("A $p$-group has $p^n$ elements.", "p-group").letters


def test_fonts_and_accents_make_a_symbol_and_indices_make_another() -> None:
    symbols = symbols_of("Let $\\mathcal{C}_x$ be a category with an object $\\hat x$ and $\\mathrm{Ob}_x$.")
    assert {"\\mathcalC", "\\mathcalC_x", "\\hatx"} <= symbols.bound
    assert "\\mathrmOb_x" in symbols.used
    assert symbols.letters == {"\\mathcalC", "\\hatx"}  # neither operators nor indices
    assert symbols_of("We have $G$ and $G + H$ and the $p$-part.").alone == {"G"}


@given(st.text(alphabet="$ab{}()_^\\\\ ,:=XYisofthe.", max_size=300))
def test_any_text_has_symbols(text: str) -> None:
    symbols = symbols_of(text, "set")
    assert symbols.alone <= symbols.letters
    assert symbols.missing == symbols.used - symbols.bound
