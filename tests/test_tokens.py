"""What the tokenizer makes of prose, formulas, codes and hostile text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.index.tokens import tokenize


def test_a_typed_formula_meets_the_formula_of_a_passage() -> None:
    assert tokenize("H^1(X, O_X)") == tokenize(r"$H^{1}\left(X,\, \mathcal{O}_X\right)$")
    assert tokenize(r"$\operatorname{Spec}(A)$") == tokenize(r"\Spec A") == tokenize("Spec(A)")
    assert tokenize(r"$\mathbb{Z}_p$") == tokenize(r"$\mathbf Z_p$") == tokenize("Z_p")


def test_scripts_are_attached_to_what_they_index() -> None:
    assert tokenize("x_i^2") == ["x", "x_i", "x^2"]
    assert tokenize(r"$f^{-1}(U)$ and $f_*$") == ["f", "f^-1", "u", "f", "f_*"]
    assert tokenize(r"$x_{i,j}$") == ["x", "x_ij"]


def test_greek_letters_and_operators_are_words() -> None:
    assert tokenize(r"$\alpha \otimes \Gamma$") == ["alpha", "otimes", "gamma"]


def test_hyphenated_names_are_found_whole_and_in_parts() -> None:
    for dash in ("-", "--", "\u2013"):
        assert tokenize(f"Rogers{dash}Ramanujan") == ["rogersramanujan", "roger", "ramanujan"]
    assert set(tokenize("semistable")) < set(tokenize("semi-stable"))


def test_codes_are_kept_whole_and_in_parts() -> None:
    assert tokenize("P-201") == ["p201", "p", "201"]
    assert tokenize("K201-P3") == ["k201p3", "k201", "p3"]
    assert tokenize("PUMP_201") == ["pump", "pump_201", "201"]
    assert tokenize("p(5n+4)") == ["p", "5n", "4"]


def test_accents_are_folded_and_umlauts_are_found_in_both_spellings() -> None:
    assert tokenize("Poincaré") == tokenize("Poincare\u0301") == ["poincar"] == tokenize("Poincare")
    assert set(tokenize("Dichtungsprüfung")) == {"dichtungsprufung", "dichtungspruefung"}
    assert tokenize("Straße") == tokenize("STRASSE")


def test_german_compounds_are_not_split() -> None:
    assert tokenize("Kühlwasserpumpe")[0] == "kuhlwasserpump"


@pytest.mark.parametrize(
    ("one", "other"),
    [("schemes", "scheme"), ("identities", "identity"), ("mappings", "map"), ("classes", "class"), ("closed", "close")],
)
def test_light_stemming_joins(one: str, other: str) -> None:
    assert tokenize(one) == tokenize(other)


def test_stop_words_and_possessives_leave_nothing() -> None:
    assert tokenize("the of and") == []
    assert tokenize("Hilbert's") == tokenize("Hilbert\u2019s") == ["hilbert"]
    assert tokenize("") == tokenize("$$ {} -- _ ^ \\") == []


@pytest.mark.parametrize(
    "piece", ["a", "a-", "\\", "x_", "x_{", "}", "x'''", "ä", "\\mathbb ", "x_{aaaaaaaaaaaa", "^", "x}}'''"]
)
def test_a_megabyte_of_anything_takes_no_more_than_seconds(piece: str) -> None:
    begin = time.process_time()
    tokenize(piece * (1_000_000 // len(piece)))
    assert time.process_time() - begin < 5


@given(st.text(alphabet=st.sampled_from("aXé ß1-_^{}$\\'.,*!\u2013"), max_size=60) | st.text(max_size=60))
def test_tokens_are_folded_and_never_empty(text: str) -> None:
    for token in tokenize(text):
        assert token
        assert token == token.casefold()
        assert not set(token) & set("\\{}$ ")
