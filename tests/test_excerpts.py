from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.search.excerpts import excerpt
from lemmata.server.records import short_text

TEXT = (
    "First we fix the notation of this long passage, which has nothing to do with it. "
    "Every prime ideal $\\mathfrak p \\subset R$ of a Noetherian ring has finite height. "
    "At last we thank everybody who helped with the preparation of these notes."
)


def test_the_best_sentence_is_shown_with_the_words_of_the_query_marked() -> None:
    shown, marks = excerpt(TEXT, "height of prime ideals", length=90)
    assert shown == "… Every prime ideal 𝔭 ⊂ R of a Noetherian ring has finite height. …"
    assert [shown[begin:end] for begin, end in marks] == ["prime", "ideal", "height"]


def test_short_texts_are_shown_whole() -> None:
    assert excerpt("Just this.", "what")[0] == "Just this."
    assert excerpt("", "what") == ("", [])


@pytest.mark.parametrize("length", range(20, 60))
def test_the_start_of_a_text_ends_with_a_word_or_a_whole_formula(length: int) -> None:
    text = r"A cover, where $I' \subset I$ is (15) the open cover $\mathcal{V}$ of the whole space, is fine and small."
    start = short_text(text, length)
    assert text.startswith(start.removesuffix(" …"))
    assert start.count("$") % 2 == 0


def test_a_sentence_without_end_is_cut_at_a_word() -> None:
    shown, _ = excerpt("word " * 1000, "word", length=100)
    assert len(shown) < 250
    assert shown.endswith("…")


@given(st.text(max_size=200), st.text(max_size=40))
def test_marks_are_inside_the_excerpt(text: str, query: str) -> None:
    shown, marks = excerpt(text, query)
    assert all(0 <= begin < end <= len(shown) for begin, end in marks)


def test_a_long_sentence_is_not_cut_inside_a_formula() -> None:
    formula = r"$\unknown{a + b + c + d}$"
    shown, _ = excerpt(f"word {formula} " * 100, "word", length=100)
    assert shown.endswith(" …")
    assert len(shown) < 300
    assert set(shown.removesuffix(" …").replace(formula, "word").split()) == {"word"}


def test_a_formula_longer_than_the_excerpt_is_left_out() -> None:
    shown, _ = excerpt("We have $\\xrightarrow{" + "a + " * 500 + "b}$ here.", "have", length=100)
    assert shown == "We have … here."


def test_the_names_of_references_are_shown() -> None:
    shown, marks = excerpt("By theorem (Nakayama) it is zero.", "nakayama")
    assert shown == "By theorem (Nakayama) it is zero."
    assert [shown[begin:end] for begin, end in marks] == ["Nakayama"]


def test_the_window_with_the_most_words_of_the_query_is_shown() -> None:
    words = ["apple pear", "nothing here", "apple", "pear plum", "plum apple pear", "nothing"]
    text = " ".join(f"The {word} are in it." for word in words)
    assert (
        excerpt(text, "apple pear plum", length=60)[0] == "… The pear plum are in it. The plum apple pear are in it. …"
    )
