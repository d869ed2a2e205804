"""German mathematics: LaTeX, concepts, relations and queries of a small set of notes on groups."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemmata.core.types import Passage, Reading
from lemmata.core.words import language_of
from lemmata.graph.concepts.build import ConceptGraph, build_concepts
from lemmata.graph.concepts.german import gender, german_key, german_results, nominative, result_noun
from lemmata.graph.concepts.terms import mask
from lemmata.ingest.papers import read_paper
from lemmata.latex.mains import Main
from lemmata.mine.queries.rules import passage_queries

NOTES = Path(__file__).parent / "gruppen.tex"


@pytest.fixture(scope="module")
def notes() -> Reading:
    return read_paper({"gruppen.tex": NOTES.read_bytes()}.get, Main("gruppen.tex"), "gruppen")


@pytest.fixture(scope="module")
def graph(notes: Reading) -> ConceptGraph:
    return build_concepts(notes.passages, notes.documents)


def paper(body: str, babel: str = "\\usepackage[ngerman]{babel}") -> list[Passage]:
    source = f"\\documentclass{{article}}{babel}\\begin{{document}}{body}\\end{{document}}"
    return list(read_paper({"main.tex": source.encode()}.get, Main("main.tex"), "d").passages)


# ---------------------------------------------------------------- LaTeX


def test_german_environments_have_the_kinds_of_their_printed_names(notes: Reading) -> None:
    kinds = Counter(passage.kind for passage in notes.passages)
    assert kinds == {"definition": 12, "theorem": 8, "corollary": 2, "lemma": 1, "example": 1, "remark": 1, "chunk": 1}
    (lagrange,) = (passage for passage in notes.passages if passage.id == "gruppen#satz:lagrange")
    assert lagrange.proof.startswith("Die Linksnebenklassen bilden")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('f"ur, gr"o"ser, "Ubung', "für, größer, Übung"),
        ('f\\"ur, gr\\"o{\\ss}er, \\"{U}bung', "für, größer, Übung"),
        ("für, größer, Übung", "für, größer, Übung"),
        ('"`Satz"\' und Nicht"-null', "„Satz“ und Nichtnull"),
    ],
)
def test_umlauts_survive_in_every_spelling(source: str, text: str) -> None:
    assert paper(source)[0].text == text


def test_quotes_of_an_english_paper_are_no_shorthands() -> None:
    assert paper('the "actual" value', babel="")[0].text == 'the "actual" value'


def test_shorthands_keep_the_lines_of_the_source() -> None:
    body = 'f"ur\n\\newtheorem{satz}{Satz}\n\\begin{satz}\nF"ur alle.\n\\end{satz}\n'
    (statement,) = (passage for passage in paper(body) if passage.kind == "theorem")
    assert (statement.text, statement.first_line, statement.last_line) == ("Für alle.", 3, 5)


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("endlichen Gruppen", "endliche Gruppe"),
        ("des Satzes von Sylow", "des Satz von Sylow"),
        ("abelscher Normalteiler", "abelschen Normalteilers"),
        ("Homomorphismen", "Homomorphismus"),
        ("Länge", "LÄNGEN"),
    ],
)
def test_inflected_forms_have_one_key(first: str, second: str) -> None:
    assert german_key(first) == german_key(second)


def test_different_words_keep_different_keys() -> None:
    words = "Gruppe Untergruppe Ring Rang Körper Kern Satz Lemma Menge Zahl Ideal Modul endlich unendlich".split()
    assert len({german_key(word) for word in words}) == len(words)


@given(st.text(alphabet="abcdefghäöüßenrsm", min_size=1, max_size=20))
def test_every_word_has_a_key_and_a_prefix_of_it_is_left(word: str) -> None:
    assert german_key(word)


def test_results_in_running_text_are_named_in_the_nominative() -> None:
    text = "Nach dem Satz von Lagrange, des Ersten Satzes von Sylow, dem Zornschen Lemma und dem Satz des Pythagoras."
    assert list(german_results(text)) == [
        "Satz von Lagrange",
        "Erster Satz von Sylow",
        "Satz des Pythagoras",
        "Zornsches Lemma",
    ]


def test_the_head_of_a_compound_tells_the_result_and_the_gender() -> None:
    assert (result_noun("Homomorphiesatz"), result_noun("Dreiecksungleichung"), result_noun("Gruppe")) == (
        "satz", "ungleichung", "",
    )  # fmt: skip
    assert [gender(name) for name in ("Homomorphiesatz", "Untergruppe", "Normalteiler", "Polynom")] == list("mfmn")
    assert nominative("endlichen Gruppe") == "endliche Gruppe"


# ---------------------------------------------------------------- concepts and relations


def test_all_concepts_of_the_notes_are_those_a_reader_would_index(graph: ConceptGraph) -> None:
    kinds: dict[str, set[str]] = {}
    for concept in graph.concepts:
        kinds.setdefault(concept.kind, set()).add(concept.name)
    assert kinds["definition"] == {"abelsch", "zyklisch", "einfach", "auflösbar"}
    assert kinds["object"] == {
        "Gruppe", "Untergruppe", "Gruppenordnung", "endliche Gruppe", "Linksnebenklasse", "zyklische Gruppe",
        "Normalteiler", "Faktorgruppe", "Kompositionsreihe", "p-Gruppe", "p-Sylowgruppe", "abelsche Gruppe",
        "auflösbare Gruppe",
    }  # fmt: skip
    assert kinds["theorem"] == {
        "Satz von Lagrange", "Homomorphiesatz", "Lemma von Zassenhaus", "Satz von Jordan–Hölder", "Lemma von Zorn",
        "Erster Satz von Sylow", "Satz von Cauchy", "Satz von Burnside", "Satz von Sylow", "Chinesischer Restsatz",
        "Hauptsatz über endlich erzeugte abelsche Gruppen",
    }  # fmt: skip
    (quotient,) = (concept for concept in graph.concepts if concept.name == "Faktorgruppe")
    assert quotient.aliases == ("Quotientengruppe",)


def test_german_sentences_and_compounds_relate_concepts(graph: ConceptGraph) -> None:
    relations = {(edge.source[8:], edge.relation, edge.target[8:]) for edge in graph.edges}
    assert {
        ("zyklische-gruppe", "implies", "abelsch"),
        ("normalteiler", "is_instance_of", "untergruppe"),
        ("untergruppe", "is_instance_of", "gruppe"),
        ("endliche-gruppe", "is_instance_of", "gruppe"),
        ("lemma-von-zassenhaus", "implies", "satz-von-jordan-holder"),
        ("erster-satz-von-sylow", "generalizes", "satz-von-cauchy"),
        ("satz-von-burnside", "generalizes", "satz-von-sylow"),
        ("satz-von-lagrange", "uses", "gruppenordnung"),
    } <= relations


def test_genau_dann_wenn_makes_two_properties_equivalent() -> None:
    texts = [
        ("def-1", "definition", "Eine Gruppe $G$ heißt perfekt, wenn sie mit der Kommutatorgruppe übereinstimmt."),
        ("def-2", "definition", "Eine Gruppe $G$ heißt vollkommen, wenn sie keine abelsche Faktorgruppe hat."),
        ("def-3", "definition", "Eine Gruppe ist perfekt oder nicht, und jede andere ist vollkommen."),
        ("satz", "theorem", "Eine Gruppe ist genau dann perfekt, wenn sie vollkommen ist."),
    ]
    passages = [
        Passage(f"d#{name}", "d", kind, text, raw=text.replace("heißt perfekt", "heißt \\emph{perfekt}").replace(
            "heißt vollkommen", "heißt \\emph{vollkommen}"))
        for name, kind, text in texts
    ]  # fmt: skip
    edges = build_concepts(passages, []).edges
    assert ("concept:perfekt", "equivalent_to", "concept:vollkommen") in {edge[:3] for edge in edges}


def test_mentions_in_any_case_and_number_are_found(graph: ConceptGraph) -> None:
    mentions = {(edge.source, edge.target) for edge in graph.edges if edge.relation == "mentions"}
    assert ("gruppen#satz:lagrange", "concept:endliche-gruppe") in mentions  # einer endlichen Gruppe
    assert ("gruppen#kor:prim", "concept:satz-von-lagrange") in mentions  # aus dem Satz von Lagrange
    assert ("gruppen#folg:cauchy", "concept:erster-satz-von-sylow") in mentions  # des Ersten Satzes von Sylow
    assert ("gruppen#lem:zassenhaus", "concept:untergruppe") in mentions  # Untergruppen


def test_an_english_text_is_not_german() -> None:
    assert language_of(mask("Let $G$ be a group of order $n$. A subgroup is called normal if it is invariant.")) == "en"
    assert language_of(mask("Jede zyklische Gruppe ist abelsch.")) == "de"


# ---------------------------------------------------------------- queries


def test_german_statements_are_asked_for_in_german(notes: Reading) -> None:
    queries = {
        passage.id.partition("#")[2]: [query.text for query in passage_queries(passage, {}, 1000)]
        for passage in notes.passages
    }
    assert {"Aussage des Satzes von Lagrange", "Was besagt der Satz von Lagrange?"} & set(queries["satz:lagrange"])
    assert "Satz von Jordan-Hölder" in queries["satz:jordan"]
    assert "Was ist eine Untergruppe?" in queries["def:untergruppe"]
    assert "Was ist ein Normalteiler?" in queries["def:normalteiler"]
    assert "Wann heißt eine Gruppe auflösbar?" in queries["def:aufloesbar"]
    assert "auflösbare Gruppe Definition" in queries["def:aufloesbar"]
    english = {"what", "the", "of", "is", "definition of", "does"}
    assert not any(english & set(text.casefold().split()) for texts in queries.values() for text in texts)
