"""What the tokenizer makes of prose, formulas, codes and hostile text."""

from __future__ import annotations

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st
from tests.make import is_linear

from lemmata.core.errors import ConfigError
from lemmata.core.words import STOP_WORDS
from lemmata.search.compounds import split_compound
from lemmata.search.tokens import Tokenizer, _pieces, learn_parts, tokenize


def test_a_typed_formula_meets_the_formula_of_a_passage() -> None:
    assert tokenize("H^1(X, O_X)") == tokenize(r"$H^{1}\left(X,\, \mathcal{O}_X\right)$")
    assert tokenize(r"$\operatorname{Spec}(A)$") == tokenize(r"\Spec A") == tokenize("Spec(A)")
    assert tokenize(r"$\mathbb{Z}_p$") == tokenize(r"$\mathbf Z_p$") == tokenize("Z_p")


@pytest.mark.parametrize(
    ("shown", "latex"),
    [
        ("∑_λ χ^λ_ρ s_λ", r"$\sum_\lambda \chi^{\lambda}_{\rho} s_\lambda$"),
        ("λⱼ-λⱼ₊ₖ₋₁ ≥ i", r"\lambda_j-\lambda_{j+k-1}\ge i"),
        ("αᵢβⱼ ∈ ℤ", r"$\alpha_i\beta_j\in\mathbb{Z}$"),
        ("∑ᵣ₌₀ⁿ αᵣ", r"$\sum_{r=0}^{n}\alpha_r$"),
        ("φ ≤ ε → ∞", r"$\varphi\leq\varepsilon\rightarrow\infty$"),
        ("λx + 2μ", r"$\lambda x + 2\mu$"),
    ],
)
def test_a_formula_in_characters_meets_the_one_in_latex(shown: str, latex: str) -> None:
    assert tokenize(shown) == tokenize(latex)


def test_raised_and_lowered_digits_are_also_read_as_people_type_them() -> None:
    assert set(tokenize("N₂")) >= {"n2", "n_2"}
    assert set(tokenize("x²")) >= {"x2", "x^2"}
    assert tokenize("CO₂") == tokenize("CO2")


def test_greek_words_stay_words() -> None:
    assert tokenize("λόγος") == ["λογοσ"]


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


def test_german_compounds_are_not_split_in_an_english_corpus() -> None:
    assert tokenize("Kühlwasserpumpe")[0] == "kuhlwasserpump"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("schemes", "scheme"),
        ("identities", "identity"),
        ("mappings", "map"),
        ("classes", "class"),
        ("closed", "closes"),
        ("retrieval", "retrieve"),
        ("finiteness", "finite"),
        ("noetherian", "Noetherian"),
    ],
)
def test_stemming_joins_the_forms_of_a_word(one: str, other: str) -> None:
    assert tokenize(one) == tokenize(other)


@given(st.text(alphabet="abcdefghinstuyz", max_size=12) | st.text(max_size=12))
def test_words_of_a_query_are_stemmed_by_snowball_and_short_ones_and_codes_are_not(word: str) -> None:
    for token in tokenize(f"{word} {word}s P201{word}"):
        if len(token) < 4 or not token.isalpha():
            assert token in tokenize(token) or token in STOP_WORDS
    if word.isascii() and word.isalpha() and len(word) > 3 and word not in STOP_WORDS:
        assert tokenize(word) == [Stemmer.Stemmer("english").stemWord(word.lower())]


# ---------------------------------------------------------------- queries


def test_a_query_counts_the_words_that_it_repeats_and_no_symbols() -> None:
    query = r"Flat modules: a module $M$ is flat over $R$ if $M_p$ is flat; P-201 P-201 \alpha \alpha"
    counts = Tokenizer().counts(query)
    assert counts["flat"] == 3
    assert counts["modul"] == 2
    assert {counts[symbol] for symbol in ("m", "r", "m_p", "p201", "201", "p", "alpha")} == {1}
    assert Tokenizer().counts("") == {}


def test_a_symbol_that_is_also_written_out_counts_as_a_word_only_where_it_is_one() -> None:
    assert Tokenizer().counts(r"\gamma \gamma \gamma") == {"gamma": 1}
    assert Tokenizer().counts(r"\gamma gamma \gamma gamma") == {"gamma": 2}


@given(
    st.sampled_from(["en", "de", "de+en"]),
    st.lists(st.sampled_from(["pump", "Pumpe", "x_i", "H^1", "\\alpha", "P-201", "the", "is", "Lager"]), max_size=12),
)
def test_counts_have_the_tokens_of_the_text_in_order(language: str, words: list[str]) -> None:
    tokenizer, query = Tokenizer(language), " ".join(words)
    counts, tokens = tokenizer.counts(query), tokenizer(query)
    assert list(counts) == list(dict.fromkeys(tokens))
    for token, count in counts.items():
        assert 1 <= count <= tokens.count(token)
        if not (token.isalpha() and len(token) > 2):
            assert count == 1
    assert tokenizer.counts(f"{query} {query}").keys() == counts.keys()


def test_stop_words_and_possessives_leave_nothing() -> None:
    assert tokenize("the of and") == []
    assert tokenize("Hilbert's") == tokenize("Hilbert\u2019s") == ["hilbert"]
    assert tokenize("") == tokenize("$$ {} -- _ ^ \\") == []


@pytest.mark.parametrize(
    "piece", ["a", "a-", "\\", "x_", "x_{", "}", "x'''", "ä", "\\mathbb ", "x_{aaaaaaaaaaaa", "^", "x}}'''"]
)
def test_anything_takes_linear_time(piece: str) -> None:
    assert is_linear(lambda size: tokenize(piece * (size // len(piece))), 400_000)


@given(st.text(alphabet=st.sampled_from("aXé ß1-_^{}$\\'.,*!\u2013"), max_size=60) | st.text(max_size=60))
def test_tokens_are_folded_and_never_empty(text: str) -> None:
    for token in tokenize(text):
        assert token
        assert token == token.casefold()
        assert not set(token) & set("\\{}$ ")


# ---------------------------------------------------------------- German

TEXT = "Die Kühlwasserpumpe A1-P-0107 (P0107) läuft nicht, Not-Aus; the bearings of $H^1(X, O_X)$ are running hot"


@given(st.text(alphabet=st.sampled_from("aXé ß1-_^{}$\\'.,*!\u2013"), max_size=60) | st.text(max_size=60))
def test_an_english_corpus_has_the_same_tokens_whatever_its_parts(text: str) -> None:
    english = Tokenizer("en", ["pump"])
    assert english(text) == tokenize(text)
    assert (
        english(TEXT)
        == (
            "die kuhlwasserpump kuehlwasserpump a1p0107 a1 p 0107 p0107 lauft laeuft nicht notaus aus bear h h^1"
            " x o o_x run hot"
        ).split()
    )


@pytest.mark.parametrize("language", ["de", "de+en"])
def test_umlauts_and_their_transcriptions_are_one_word_in_every_case_and_form(language: str) -> None:
    german = Tokenizer(language)
    for words in ("Prüfung Pruefung PRÜFUNGEN pruefung prufung", "Straße STRASSE Strasse", "Pumpe Pumpen PUMPEN"):
        assert len({tuple(german(word)) for word in words.split()}) == 1, words
    assert german("neue Quelle") == ["neu", "quell"]
    assert german("die Pumpe und der Motor") == ["pump", "motor"]


@pytest.mark.parametrize("language", ["de", "de+en"])
@pytest.mark.parametrize(
    "code", ["A1-P-0107", "P0107", "K201-P3", "PUMP_201", "UE-201", "UE201", "Ü201", "x_i^2", "V2A"]
)
def test_codes_and_formulas_are_read_as_in_english(code: str, language: str) -> None:
    parts = {"ue", "a1", "p", "k"}
    assert Tokenizer(language, parts)(code) == tokenize(code)


def test_a_mixed_corpus_stems_english_words_as_english_too() -> None:
    mixed = Tokenizer("de+en")
    for one, other in (("bearings", "bearing"), ("leaking", "leaks"), ("Dichtungen", "Dichtung"), ("valves", "valve")):
        assert mixed(one) == mixed(other)
    assert mixed("the pump is not in the Halle") == ["pump", "not", "hall"]


def test_compounds_are_followed_by_the_parts_that_the_corpus_knows() -> None:
    texts = ["Kühlwasser fehlt, Pumpe steht", "Kuehlwasser der Pumpen", "Lager", "Lager, Schaden", "Schaden am Öl, Öl"]
    parts = learn_parts([*texts, "Öl nachgefüllt"], "de")
    german = Tokenizer("de", parts)
    assert set(german("Kühlwasser Pumpe")) < set(german("Kühlwasserpumpe")) == set(german("KUEHLWASSERPUMPEN"))
    assert set(german("Pumpe Lager Schaden")) < set(german("Pumpenlagerschaden"))
    assert german("Ölpumpe") == [*german("Oelpumpe")] == ["olpump", "pump"]
    assert german("Kühlwasser-Pumpe") == german("Kühlwasserpumpe")
    assert german("Dampfventil") == ["dampfventil"]
    assert "steht" not in parts  # once is not enough
    assert learn_parts(texts, "en") == frozenset()


def test_a_compound_is_split_whole_or_not_at_all() -> None:
    known = {"betrieb", "druck", "leitung", "druckleitung", "ol"}.__contains__
    assert split_compound("betriebsdruckleitung", known) == ["betrieb", "druckleitung"]
    assert split_compound("druckleitungen", known) == []  # the last part has no linking element
    assert split_compound("xdruckleitung", known) == []
    assert split_compound("oldruck", known) == ["druck"]  # too short to be found
    assert split_compound("druck", known) == split_compound("", known) == []


@given(st.lists(st.sampled_from(["wasser", "pumpe", "lager", "ol", "schaden"]), min_size=2, max_size=4), st.data())
def test_any_chain_of_known_words_is_split_into_known_words(words: list[str], data: st.DataObject) -> None:
    words.append("ventil")
    links = [data.draw(st.sampled_from(["", "s", "n", "en"])) for _ in words[1:]]
    compound = "".join(word + link for word, link in zip(words, [*links, ""], strict=True))
    parts = split_compound(compound, {*words}.__contains__)
    assert parts == [word for word in words if len(word) >= 5]


@given(st.text(alphabet="abc", max_size=60))
def test_parts_stand_in_their_compound_in_order(word: str) -> None:
    rest = word
    for part in split_compound(word, lambda part: len(part) % 2 == 1):
        assert len(part) >= 5
        _, found, rest = rest.partition(part)
        assert found


def test_german_takes_linear_time() -> None:
    german = Tokenizer("de+en", {"aaaaa", "aaaaaa", "aa", "aaa"})
    assert is_linear(lambda size: german("".join(f"{'a' * (8 + n % 56)} " for n in range(size))), 4_000)
    assert is_linear(lambda size: german("ä" * size), 100_000)


@given(st.text(alphabet=st.sampled_from("aXéü ß1-_^{}$\\'.,*!\u2013"), max_size=60) | st.text(max_size=60))
def test_german_tokens_are_folded_and_never_empty(text: str) -> None:
    for token in Tokenizer("de+en", {"a", "aa", "x"})(text):
        assert token
        assert token == token.casefold()
        assert not set(token) & set("\\{}$ \n")


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'fr'.*auto, en, de"):
        Tokenizer("fr")


def test_long_words_of_queries_are_not_kept() -> None:
    before = len(_pieces.__self__)  # type: ignore[attr-defined]
    for number in range(50):
        tokenize(f"{number:064}" * 60)
    assert len(_pieces.__self__) == before  # type: ignore[attr-defined]
