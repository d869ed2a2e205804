from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.latex.sentences import chunks, cut, formulas, join_tiny_sections, sentences


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    "expected",
    [
        ["One thing.", "Another thing!", "A third?", "(Yes.)", "“So.”", "2 more."],
        ["Let $x. Y$ be so.", "Then $a$.", "$b$ is next."],
        ["See Thm. 3 and Eq. (2), e.g. Lemma 4, i.e. this, cf. Smith et al. Then so.", "End."],
        ["By J. Smith and A.-B. Jones we win.", "Good."],
        ["Der Satz gilt, z. B. Für alle; vgl. Abb. 3, d. h. Immer.", "Übrigens nicht."],
        ["The value 3.14 is near.", "No."],
        ["If $x \\text{ is. $Y$ And. So}$ then.", "End."],
        ["It costs \\$5.", "Then $x. Y$ holds."],
        ["A list:"],
        [],
    ],
)
def test_sentences_end_where_a_reader_would_say_so(expected: list[str]) -> None:
    assert split(" ".join(expected)) == expected


def test_paragraphs_end_sentences() -> None:
    assert split("no stop\n\nand on\n\n") == ["no stop", "and on"]


def test_a_formula_with_dollars_in_its_text_counts_once() -> None:
    text = r"a $x \text{ if $y$ odd}$ b $z$ \$ $w$"
    assert [text[b:e] for b, e in formulas(text)] == [r"$x \text{ if $y$ odd}$", "$z$", "$w$"]


def test_chunks_are_short_overlap_and_cover_everything() -> None:
    text = " ".join(f"Sentence number {n} says that $x_{{{n}}} = {n}. Y$ holds." for n in range(200))
    result = chunks(text, 1500, 200)
    assert all(end - start <= 1500 for start, end in result)
    assert result[0][0] == 0
    assert result[-1][1] == len(text)
    for (left, left_end), (right, _) in pairwise(result):
        assert left < right <= left_end + 1
        assert 0 < left_end - right <= 200
    starts = {start for start, _ in sentences(text)}
    assert all(start in starts for start, _ in result)


def test_the_last_chunk_is_not_small_where_the_one_before_has_sentences_to_spare() -> None:
    text = " ".join(f"Sentence number {n:02d} has forty letters or so." for n in range(34)) + " The end."
    spans = chunks(text, 1500, 0)
    assert [end - start for start, end in spans] == [1275, 228]
    assert " ".join(text[start:end] for start, end in spans) == text
    for overlap in (0, 100):
        for start, end in chunks(text, 1500, overlap):
            assert 200 <= end - start <= 1500


def test_a_long_sentence_is_cut_into_parts_of_similar_length() -> None:
    text = "word " * 305 + "end."
    lengths = [end - start for start, end in chunks(text, 1500, 0)]
    assert len(lengths) == 2
    assert min(lengths) > 700


def test_tiny_sections_are_joined_with_a_neighbour_of_the_same_parent() -> None:
    assert join_tiny_sections([], 100) == []
    assert join_tiny_sections([(("A",), 500), (("B",), 30), (("C",), 500)], 100) == [range(2), range(2, 3)]
    assert join_tiny_sections([((), 30), (("A",), 500)], 100) == [range(2)]
    assert join_tiny_sections([(("A", "x"), 500), (("B",), 30), (("B", "y"), 500)], 100) == [range(1), range(1, 3)]
    assert join_tiny_sections([(("A", "x"), 500), (("B",), 30)], 100) == [range(2)]
    assert join_tiny_sections([(("A", "x"), 30), (("B", "y"), 30)], 100) == [range(1), range(1, 2)]
    assert join_tiny_sections([(("A",), 500), (("B",), 500)], 100) == [range(1), range(1, 2)]


def test_a_long_sentence_is_cut_between_words_and_never_in_a_formula() -> None:
    text = "word $a b c d e f$ " * 50
    result = chunks(text.strip(), 100, 20)
    assert all(end - start <= 100 for start, end in result)
    assert all(text[start:end].count("$") % 2 == 0 for start, end in result)


def test_a_formula_longer_than_a_chunk_stays_whole() -> None:
    formula = "$" + "x + " * 100 + "y$"
    text = f"First sentence here. Then {formula} follows here. And more."
    whole = [text[start:end] for start, end in chunks(text, 100, 20)]
    assert any(formula in part for part in whole)
    assert all(part.count("$") % 2 == 0 for part in whole)


def test_cutting_keeps_whole_sentences() -> None:
    text = "One is here. Two is here. Three is here."
    assert cut(text, 30) == "One is here. Two is here."
    assert cut(text, 1000) == text
    assert cut("word " * 10, 22).split() == ["word"] * 4
    assert cut("Then $" + "x" * 100 + "$ so.", 50) == "Then"


TEXTS = st.lists(
    st.sampled_from(["A", "b. ", "$", "\\$", "$x. Y$ ", "word ", "\n\n", " ", "{", "}", "!", "z. B. ",
    "$\\text{$a$ }$", ") ", "x" * 60])
    | st.text(max_size=3), max_size=60,
).map("".join)  # fmt: skip


@given(TEXTS)
def test_sentences_cover_the_text_and_never_split_formulas(text: str) -> None:
    spans = sentences(text)
    position = 0
    for start, end in spans:
        assert not text[position:start].strip()
        assert start < end
        position = end
    assert not text[position:].strip()
    inside = {n for begin, end in formulas(text) for n in range(begin + 1, end)}
    assert not inside & {start for start, _ in spans}
    assert not inside & {end for _, end in spans}


@given(TEXTS, st.integers(20, 200))
def test_chunks_cover_all_and_never_cut_formulas(text: str, size: int) -> None:
    result = chunks(text, size, size // 5)
    covered = {n for start, end in result for n in range(start, end)}
    assert not [n for n, character in enumerate(text) if not character.isspace() and n not in covered]
    inside = {n for begin, end in formulas(text) for n in range(begin + 1, end)}
    assert not inside & {border for chunk in result for border in chunk}
    for (left, left_end), (right, _) in pairwise(result):
        assert left < right
        assert left_end - right <= size // 5
    assert len(cut(text.strip(), size)) <= max([size, *(end - start for start, end in chunks(text, size, 0))])


@pytest.mark.parametrize(
    "fragment", ["$", "{", "a. A ", "$a{$", "$\\text{$a$", "a ", "x", ".", "\n\n", "e.g. A", "$a$ ", "\\", "(", "• "]
)
def test_hostile_repetition_is_split_in_linear_time(fragment: str) -> None:
    def split(size: int) -> None:
        text = fragment * (size // len(fragment))
        chunks(text)
        cut(text, 1000)

    assert is_linear(split, 40_000)
