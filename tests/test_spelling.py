"""Misspelt words, synonyms and abbreviations: what is suggested, what is searched for besides, and where it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import make_workspace, say
from tests.served import serving

from lemmata.core.errors import InputError
from lemmata.project import Project
from lemmata.search.hints import did_you_mean, hint
from lemmata.search.lexical import LexicalIndex
from lemmata.search.spelling import Spelling
from lemmata.search.synonyms import Glossary, introduced

NOTES = [
    {"_id": "square", "text": "The Durfee square of a partition is its largest square."},
    {"_id": "congruence", "text": "Ramanujan found three congruences for partitions."},
    {"_id": "share", "text": "Two sets share an element."},
    {"_id": "pca", "text": "We use principal component analysis (PCA) for pictures."},
    {"_id": "axes", "text": "The axes of PCA are orthogonal."},
    {"_id": "variance", "text": "By principal component analysis the variance is largest along the first axis."},
    {"_id": "pump", "text": "The pump leaks."},
    {"_id": "beer", "text": "Fermented beer: its fermentation takes a week."},
    {"_id": "event", "text": "The probability of an event."},
    *({"_id": f"map {number}", "text": f"An isomorphic map of {number} types."} for number in range(3)),
    {"_id": "maps", "text": "An isomorphism is a map."},
    {"_id": "abbreviation", "text": "The ABCDE is ours."},
    {"_id": "order", "text": "REPLACE AIR CON COMPRESSOR"},
    {"_id": "pumpe", "text": "Die Umwälzpumpe ist undicht."},
    {"_id": "warm", "text": "Der Motor ist warm, Betrieb jederzeit."},
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_workspace(tmp_path_factory.mktemp("spelling"), NOTES, index="lexical")
    glossary = "# ours\npump, Umwälzpumpe  # both\n\nrotor; impeller wheel\nQX = undicht\n"
    project.glossary.write_text(glossary, encoding="utf-8")
    return project


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Durfee sqare", "Durfee square"),
        ("Ramanujian elemnet", "Ramanujan element"),
        ("partitons", "partitions"),
        ("fermentaton and partitoin", "fermentation and partition"),
        ("the pricnipal axis", "the principal axis"),
        ("Umwalzpumpe undciht", "Umwalzpumpe undicht"),
        ("probabilty of an event", "probability of an event"),
        ("isomorfism of types", "isomorphism of types"),
        ("Durfee square", ""),
        ('"square of Durfee" of a partition', "square of Durfee of a partition"),
        ("xylophone quartz", ""),
        ("a dump and a shame", ""),  # English words, although pump and share are near
        ("the PCB and VARIENCE", ""),  # abbreviations
        ("THE VARIENCE", "THE variance"),
        (r"$\sqare$ and \sqare", ""),
        ("a b of", ""),
        ("puqp", ""),  # random letters: one of them makes a word out of many fours
        ("the puqp leaks", "the pump leaks"),
        ("pummp", "pump"),
        ("Warum undicht", ""),  # a function word of German, although `warm` is near
        ("warmm", "warm"),
        ("abcdf", ""),  # near ABCDE, an abbreviation
        ("comprssor", "compressor"),
        ("xqvz wrtlk partitons", ""),  # half of it would still be unknown
        ("xqvz partitons of sets", "xqvz partitions of sets"),
        ("x" * 2000, ""),
    ],
)
def test_a_word_that_no_passage_has_is_corrected_by_those_of_the_corpus(
    project: Project, typed: str, meant: str
) -> None:
    with project.retriever() as retriever:
        assert did_you_mean(retriever, typed, retriever.search(typed)) == meant


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abcd", min_size=4, max_size=9), min_size=1, max_size=8, unique=True), st.data())
def test_every_term_with_one_error_is_near(terms: list[str], data: st.DataObject) -> None:
    term = data.draw(st.sampled_from(terms))
    place = data.draw(st.integers(1, len(term) - 1))
    typed = data.draw(st.sampled_from([term[:place] + "e" + term[place:], term[:place] + "e" + term[place + 1 :]]))
    near = Spelling(dict.fromkeys(terms, 1)).near(typed)
    assert term in [other for _, other in near] or len(near) == 5


def test_words_of_an_index_that_grew_are_those_of_a_new_one(tmp_path: Path) -> None:
    texts = [str(note["text"]) for note in NOTES]
    grown = LexicalIndex.build(texts[:2], tmp_path / "grown")
    _ = grown.spelling
    for text in texts[2:]:
        grown.add([text])
    new = LexicalIndex.build(texts, tmp_path / "new")
    for word in ("sqare", "partiton", "varianse", "pricnip"):
        assert grown.spelling.near(word) == new.spelling.near(word)
    assert grown.holding("partit", 9) == new.holding("partit", 9) == [0, 1]


# ---------------------------------------------------------------- synonyms and abbreviations


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("We use principal component analysis (PCA).", {"PCA": "principal component analysis"}),
        ("Die speicherprogrammierbare Steuerung (SPS) ist aus.", {"SPS": "speicherprogrammierbare Steuerung"}),
        ("An SVM (support vector machine) separates.", {"SVM": "support vector machine"}),
        ("See the remark (IV) and figure (A).", {}),
        ("no relation at all (XYZ)", {}),
        ("(PCA)", {}),
    ],
)
def test_abbreviations_are_introduced_by_their_long_form(text: str, forms: dict[str, str]) -> None:
    assert introduced(text) == forms


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader_of_abbreviations(text: str) -> None:
    for short, form in introduced(text).items():
        assert short
        assert form


@pytest.mark.parametrize(
    ("query", "also", "found"),
    [
        ("PCA", ["principal component analysis"], "variance"),
        ("principal component analysis", ["PCA"], "axes"),
        ("leaking pump", ["Umwälzpumpe"], "pumpe"),
        ("umwälzpumpe", ["pump"], "pump"),
        ("the rotor", ["impeller wheel"], ""),
        ("QX", ["undicht"], "pumpe"),
        ("pumping", [], ""),
    ],
)
def test_synonyms_and_forms_of_abbreviations_are_searched_for_too(
    project: Project, query: str, also: list[str], found: str
) -> None:
    with project.retriever() as retriever:
        assert retriever.also_searched(query) == also
        assert not found or found in [hit.id for hit in retriever.search(query)]
        assert not found or not hint(retriever, query)  # the corpus has a word for it


@pytest.mark.parametrize(
    ("content", "line"), [(b"pump, Pumpe\nalone\n", 2), (b"\xff\xfe", None), (b"a, b\n" * 300_000, None)]
)
def test_a_glossary_that_cannot_be_read_is_named(tmp_path: Path, content: bytes, line: int | None) -> None:
    path = tmp_path / "synonyms.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"synonyms\.txt") as error:
        Glossary(path)
    assert line is None or f":{line}" in str(error.value)


def test_the_command_and_the_api_tell(project: Project) -> None:
    _, _, error = say("search", "Durfee sqare", "-w", project.root)
    assert "Durfee square" in error
    _, _, error = say("search", "PCA", "-w", project.root)
    assert "principal component analysis" in error
    with serving(project.root) as client:
        answer = client.post("/search", json={"query": "Durfee sqare"}).json()
        assert (answer["did_you_mean"], answer["also"]) == ("Durfee square", [])
        assert client.post("/search", json={"query": "PCA"}).json()["also"] == ["principal component analysis"]
