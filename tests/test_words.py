"""Stop lists, singulars, folded spelling, and slugs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core import words
from lemmata.core.words import (
    GENERIC_TITLE_WORDS,
    GERMAN_LINKING_WORDS,
    LINKING_WORDS,
    LOG_STOP_WORDS,
    PHRASE_BREAKS,
    PREPOSITIONS,
    STOP_WORDS,
    fold,
    language_of,
    language_shares,
    singular,
    slug,
)

# ---------------------------------------------------------------- stop lists


def test_the_lists_contain_each_other_where_they_should() -> None:
    assert STOP_WORDS < PHRASE_BREAKS
    assert PREPOSITIONS < LINKING_WORDS
    assert {"der", "und", "für"} <= GERMAN_LINKING_WORDS
    assert LINKING_WORDS.isdisjoint({"das", "und"})


def test_words_that_change_a_report_are_not_stop_words_of_logs() -> None:
    assert LOG_STOP_WORDS.isdisjoint({"no", "not", "nicht", "kein", "ohne", "without"})


def test_a_title_of_an_ordinary_subject_is_not_generic() -> None:
    assert "values" not in GENERIC_TITLE_WORDS
    assert {"introduction", "einleitung", "lemmata"} <= GENERIC_TITLE_WORDS


# ---------------------------------------------------------------- singular


@pytest.mark.parametrize(
    ("many", "one"),
    [
        ("rings", "ring"),
        ("identities", "identity"),
        ("classes", "class"),
        ("boxes", "box"),
        ("matrices", "matrix"),
        ("submatrices", "submatrix"),
        ("block-matrices", "block-matrix"),
        ("lattices", "lattice"),
        ("vertices", "vertex"),
        ("bases", "basis"),
        ("sheaves", "sheaf"),
        ("presheaves", "presheaf"),
        ("tableaux", "tableau"),
        ("spectra", "spectrum"),
        ("metrics", "metric"),
        ("zeros", "zero"),
        ("ratios", "ratio"),
    ],
)
def test_a_plural_and_its_singular(many: str, one: str) -> None:
    assert singular(many) == one


@pytest.mark.parametrize(
    "word", ["basis", "class", "series", "calculus", "topos", "dynamics", "ponens", "rogers", "stokes", "gas", "is", ""]
)
def test_a_word_that_is_no_plural_stays(word: str) -> None:
    assert singular(word) == word


def test_both_plurals_of_a_word_are_known() -> None:
    assert singular("lemmata") == singular("lemmas") == "lemma"
    assert singular("formulae") == singular("formulas") == "formula"
    assert singular("zeros") == singular("zeroes") == "zero"


def test_folding_removes_case_and_accents() -> None:
    assert fold("Möbius Straße ÉTALE") == "mobius strasse etale"


# ---------------------------------------------------------------- slugs


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Bailey's lemma", "baileys-lemma"),
        ("Rogers--Ramanujan identities", "rogers-ramanujan-identities"),
        ("$q$-series", "q-series"),
        ("bailey_pair", "bailey-pair"),
        (r"$\alpha$-stable", "alpha-stable"),
        ("α-stable", "alpha-stable"),
        (r"\emph{\'{e}tale} morphism", "etale-morphism"),
        ("étale morphism", "etale-morphism"),
        (r"Erd\H{o}s--R\'enyi", "erdos-renyi"),
        (r"G\"odel", "godel"),
        (r"M\o ller", "moller"),
        ("Møller", "moller"),
        ("Gauß", "gauss"),
        (r"$\mathbb{Z}[x]$", "z-x"),
        (r"$\mathrm{SL}_2(\mathbb{R})$", "sl-2-r"),
        (r"$\frac{a}{b}$", "frac-a-b"),
        ("Теорема Гёделя", "теорема-геделя"),
        ("群", "群"),
        ("  Spaces \n everywhere ", "spaces-everywhere"),
    ],
)
def test_a_slug_reads_like_the_name(name: str, expected: str) -> None:
    assert slug(name) == expected


def test_names_without_letters_have_different_slugs() -> None:
    assert slug("$+$") != slug("$-$")
    assert slug("")


@given(st.text())
def test_a_slug_is_its_own_slug(name: str) -> None:
    once = slug(name)
    assert once
    assert slug(once) == once
    assert not once.startswith("-")
    assert all(letter.isalnum() or letter == "-" for letter in once)


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        (
            "de",
            (
                "Lager P-203 heiß",
                "Die Kühlwasserpumpe wurde abgestellt und entlüftet.",
                "GLRD undicht, Schlosser kommt Dienstag",
                "Eine Gruppe heißt abelsch, wenn $ab = ba$ für alle $a, b$ gilt.",
                "Pruefung der Schaltanlage ohne Befund",
            ),
        ),
        (
            "en",
            (
                "bearing P-203 hot, regreased",
                "The cooling water pump was stopped and vented.",
                "Let $G$ be a group. Then $G$ acts on the set of cosets.",
                "changed out worn teeth on the bucket",
                "Schur's lemma holds for modules over a ring",
            ),
        ),
        ("", ("", "P-203: 4,2", "$x^2 + y^2$", "\\frac{\\alpha}{\\beta}", "第三章")),
    ],
)
def test_the_language_of_a_text_is_told_by_its_words_and_letters(language: str, texts: tuple[str, ...]) -> None:
    assert [language_of(text) for text in texts] == [language] * len(texts)


def test_shares_count_the_texts_that_tell_their_language() -> None:
    texts = ["Pumpe läuft nicht", "Lager ist heiß", "P-203", "the seal is leaking"]
    assert language_shares(texts) == {"de": pytest.approx(2 / 3), "en": pytest.approx(1 / 3)}
    assert language_shares(["P-203", ""]) == {}


def test_no_word_counts_for_both_languages() -> None:
    assert not words._GERMAN_WORDS & words._ENGLISH_WORDS
