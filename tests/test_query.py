"""The syntax of queries: phrases, excluded words, fields; and names that come first."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import lemmata, make_workspace, to_lines

from lemmata.core.errors import LemmataError
from lemmata.core.words import is_author
from lemmata.corpus.schema import HAS_CODE
from lemmata.project import Project
from lemmata.search.filter import Filter
from lemmata.search.hints import dated, hint
from lemmata.search.period import named_period
from lemmata.search.query import Query, folded, parse_query
from lemmata.server.service import Service


def test_a_query_has_parts() -> None:
    query = parse_query(
        'crank -rank kind:theorem kind:lemma section:"Hall algebra" since:2020 "five divides" -"not this"'
    )
    assert query == Query(
        "crank five divides",
        Filter(kinds=("theorem", "lemma"), sections=("Hall algebra",), since="2020"),
        (" five divides ",),
        (" rank ", " not this "),
    )
    assert parse_query("pump where:status=open").filter == Filter(where=(("status", "open"),))
    assert parse_query("the $p$-adic numbers of $q$-series -survey").excluded == (" survey ",)
    assert parse_query("“Hall algebra” „Satz von Euler“").phrases == (" hall algebra ", " satz von euler ")


@pytest.mark.parametrize(
    "text",
    [
        r"f: X \to Y",
        r"id:X \to X",
        "a -b",
        "f(x) -sin(x)",
        r"\lambda -mu",
        "-log n",
        "sin -cos = 0",
        "x = -bc",
        "n -1",
        "$a -bc kind:theorem$ holds",
        "PROJ:A1 http://example.org",
        "kind: theorem",
        'a 5" pipe',
        'an "open quote',
        "Rogers--Ramanujan - and more",
        "foo:bar",
        "",
    ],
)
def test_formulas_and_plain_words_stay_as_they_are(text: str) -> None:
    assert parse_query(text) == Query(text)


_LETTER = st.sampled_from("abcfgnxyXYZαλ")
_SIGN = st.sampled_from(["+", "-", "=", "->", r"\to", r"\le", ":", "<", "/"])


@given(st.lists(st.tuples(_LETTER, st.sampled_from(["", " "]), _SIGN, st.sampled_from(["", " "])), max_size=8), _LETTER)
def test_a_formula_of_letters_has_no_parts(pieces: list[tuple[str, ...]], last: str) -> None:
    text = "".join(map("".join, pieces)) + last
    assert parse_query(text) == Query(text)


@given(st.text(st.characters(exclude_characters="$", exclude_categories=["Cs"])))
def test_nothing_between_dollars_is_a_part(formula: str) -> None:
    assert parse_query(f"${formula}$") == Query(f"${formula}$")


_WORD = st.text("abcdefghij", min_size=2, max_size=6)
_WORDS = st.lists(_WORD, min_size=1, max_size=3)


@given(_WORDS, st.lists(_WORDS, max_size=2), st.lists(_WORD, max_size=2), st.lists(_WORD, max_size=2))
def test_parts_come_back_as_they_were_typed(
    words: list[str], phrases: list[list[str]], excluded: list[str], kinds: list[str]
) -> None:
    quoted = [" ".join(phrase) for phrase in phrases]
    typed = [
        *words,
        *(f'"{each}"' for each in quoted),
        *(f"-{each}" for each in excluded),
        *(f"kind:{k}" for k in kinds),
    ]
    query = parse_query(" ".join(typed))
    assert query.text == " ".join([*words, *quoted])
    assert query.phrases == tuple(f" {each} " for each in quoted)
    assert query.excluded == tuple(f" {each} " for each in excluded)
    assert query.filter == (Filter(kinds=tuple(kinds)) if kinds else None)


@given(st.text(st.sampled_from('ab "-:$\\“”„kindsince=().,é'), max_size=60))
def test_any_text_is_a_query_or_refused(text: str) -> None:
    try:
        query = parse_query(text)
    except LemmataError:
        return
    assert set(folded(query.text).split()) <= set(folded(text).split())


@pytest.mark.parametrize(
    ("text", "named"),
    [('kind:"" x', "kind"), ("since:2020 since:2021 x", "since"), ("where:x y", "where"), ("-foo", "foo")],
)
def test_a_wrong_query_is_refused_with_what_is_wrong(text: str, named: str) -> None:
    with pytest.raises(LemmataError, match=named):
        parse_query(text)


def test_a_phrase_is_compared_without_case_accents_and_signs_of_typesetting() -> None:
    query = parse_query('"Möbius function of $n$" -"p(5n+4)"')
    assert query.admits("The mobius--function of n, as in p(5n+3).")
    assert not query.admits("The function of Möbius.")
    assert query.admits("Its values at $p(5n+3)$ are odd.", proof="Use the Möbius function of $n$.")
    assert not parse_query('crank -"hall algebra"').admits("A Hall algebra.", proof="The crank.")
    assert parse_query('crank -"hall algebra"').admits("The crank.", proof="A Hall algebra."), "as its text has none"
    assert not query.admits("The Möbius function of $n$ and $p(5n + 4)$.")


def test_authors_are_found_by_their_surname() -> None:
    assert is_author("serre", "Jean-Pierre Serre")
    assert is_author("J.-P. Serré", "Serre, J.-P.")
    assert not is_author("Jean", "Jean-Pierre Serre")
    assert not is_author("Serre 1979", "Jean-Pierre Serre")


ROWS = [
    {"id": "proving", "title": "Proving the Yoneda lemma", "kind": "lemma", "document": "a", "document_title": "Yoneda",
     "text": "The Yoneda lemma is the Yoneda lemma, so the Yoneda lemma holds.", "authors": ["Ada Nowhere"],
     "section": "Categories / Proofs", "date": "2019-01-01"},
    {"id": "yoneda", "title": "Yoneda lemma", "kind": "theorem", "document": "b", "document_title": "On functors",
     "text": "Natural maps from a representable functor to $F$ are elements of $F(A)$, which many use and few like.",
     "authors": ["Bo Elsewhere"], "section": "Categories / Hall algebras", "date": "2021-01-01"},
    {"id": "other", "kind": "theorem", "document": "b", "document_title": "On functors",
     "text": "A functor that preserves limits is representable, by a lemma of Yoneda and others.",
     "authors": ["Bo Elsewhere"], "section": "Limits", "date": "2021-01-01"},
]  # fmt: skip


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_workspace(tmp_path_factory.mktemp("notes"), ROWS).root


def ids(folder: Path, query: str, retriever: str = "auto") -> list[str]:
    with Project(folder).retriever() as searcher:
        return [hit.id for hit in searcher.search(query, retriever=retriever)]


@pytest.mark.parametrize("retriever", ["auto", "dense", "lexical"])
def test_parts_of_a_query_restrict_every_retriever(notes: Path, retriever: str) -> None:
    assert ids(notes, '"representable functor" lemma', retriever) == ["yoneda"]
    assert set(ids(notes, "yoneda lemma -proving -limits", retriever)) == {"yoneda"}
    assert set(ids(notes, "yoneda kind:theorem", retriever)) == {"yoneda", "other"}
    assert ids(notes, 'yoneda section:"hall algebra"', retriever) == ["yoneda"]
    assert set(ids(notes, "yoneda author:elsewhere since:2020", retriever)) == {"yoneda", "other"}
    assert ids(notes, "yoneda author:elsewhere until:2020", retriever) == []
    assert ids(notes, '"no such phrase" yoneda', retriever) == []


def test_a_query_of_fields_alone_lists_what_they_allow(notes: Path) -> None:
    assert ids(notes, "author:Elsewhere") == ["yoneda", "other"]
    assert ids(notes, "kind:theorem -limits") == ["yoneda"]


def test_unknown_values_are_refused_with_the_closest(notes: Path) -> None:
    for query, closest in (
        ("x author:Elsewere", "Elsewhere"),
        ("x kind:theorm", "theorem"),
        ("x section:Limit5", "Limits"),
    ):
        with pytest.raises(LemmataError, match=closest):
            ids(notes, query)


def test_command_line_and_server_read_queries_alike(notes: Path) -> None:
    query = '"lemma of Yoneda" kind:theorem'
    (hit,) = json.loads(lemmata("search", query, "-w", notes, "--json"))
    service = Service(notes)
    try:
        found = service.search(query, html=True, filter=Filter(documents=("b",)))
        assert [each["id"] for each in found["hits"]] == [hit["id"]] == ["other"]
        assert "<mark>functor</mark>" not in found["hits"][0]["html"]
        assert service.search(query, filter=Filter(documents=("a",)))["hits"] == []
    finally:
        service.close()


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("Yoneda lemma", "yoneda"),
        ("yoneda LEMMA", "yoneda"),
        ("the lemma of Yoneda", "yoneda"),
        ("Yoneda lemma theorem", "yoneda"),
        ("proving the yoneda lemma", "proving"),
        ("Elsewhere", "yoneda"),
        ("Ada Nowhere", "proving"),
        ("On functors", "yoneda"),
        ("functors on", "yoneda"),
    ],
)
@pytest.mark.parametrize("retriever", ["auto", "dense", "lexical"])
def test_a_name_finds_its_thing_first(notes: Path, name: str, first: str, retriever: str) -> None:
    assert ids(notes, name, retriever)[0] == first


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("Hilbert's basis theorem", "paper#thm:hilbert-basis"),
        ("Satz von Hilbert-Basis", "paper#thm:hilbert-basis"),
        ("nakayama lemma", "paper#lem:Nakayama"),
        ("hilbert basis", "paper#thm:hilbert-basis"),
        ("the chinese remainder theorem", "paper#thm:coprime"),
        ("coprime", "paper#def:prime"),  # a single word is no name of a label
    ],
)
def test_a_name_that_only_a_label_or_a_heading_has_finds_its_statement(tmp_path: Path, name: str, first: str) -> None:
    (tmp_path / "notes").mkdir()
    texts = {
        "thm:hilbert-basis": "Polynomials over a Noetherian ring are Noetherian.",
        "lem:Nakayama": "Then M is zero.",
        "def:prime": "Coprime ideals are coprime if they sum to all.",
        "thm:coprime": "A ring modulo two ideals is the product.",
        "thm:zero": "A basis by Hilbert and a lemma by Nakayama are a theorem.",
    }
    below = {"def:prime": "\\section{The Chinese remainder theorem}", "thm:zero": "\\section{Basis, lemma and theorem}"}
    kinds = {"thm": "theorem", "lem": "lemma", "def": "definition"}
    statements = "\n".join(
        f"{below.get(label, '')}\\begin{{{kinds[label[:3]]}}}\\label{{{label}}}{text}\\end{{{kinds[label[:3]]}}}"
        for label, text in texts.items()
    )
    declared = "".join(f"\\newtheorem{{{kind}}}{{{kind.capitalize()}}}" for kind in kinds.values())
    paper = f"\\documentclass{{article}}{declared}\\begin{{document}}{statements}\\end{{document}}"
    (tmp_path / "notes" / "paper.tex").write_text(paper)
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "notes"])
    project.index(settings={"encoder": "hashing"})
    assert ids(tmp_path / "w", name)[0] == first


def test_a_surname_that_no_text_holds_is_a_name(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "hers", "text": "Words on limits.", "document": "a", "authors": ["Ada Nowhere"]},
        {"id": "other", "text": "More on limits.", "document": "b", "section": "Nowhere / Nowhere / From nowhere"},
    ]
    root = make_workspace(tmp_path, rows, index="lexical").root
    assert ids(root, "nowhere")[0] == "hers"
    assert ids(root, "nowhere limits")[0] == "other"


def test_an_id_with_a_colon_is_a_name(tmp_path: Path) -> None:
    rows = [{"id": "section:limits", "text": "Words on limits."}, {"id": "b", "text": "A section on limits."}]
    assert ids(make_workspace(tmp_path, rows, index="lexical").root, "section:limits")[0] == "section:limits"


LOGS = [
    {"id": "SB-11", "text": "A1-P-0107 is not meant, A1-P-0107 is only named.", "location": "B2", "date": "2024-01-01"},
    {"id": "SB-12", "text": "The seal leaks.", "location": "A1-P-0107", "date": "2024-01-02"},
    {"id": "SB-13", "text": "P-203 hums.", "location": "", "date": "2024-01-03"},
    {"id": "SB-14", "text": "Cleaned the filter.", "location": "A1-P-0107", "date": "2023-01-01"},
    {"id": "SB-15", "text": "The valve leaks, and so do valve and flange.", "location": "B2", "date": "2024-01-05"},
    {"id": "SB-16", "text": "A motor is hot.", "location": "A1-P-0107-M1", "date": "2024-01-06"},
]


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = "id,parent,description\nA1-P-0107,,Feed pump P203\nA1-P-0107-M1,A1-P-0107,Motor\nB2,,Valve\n"
    files = {"locations.csv": tree, "logs.jsonl": to_lines(LOGS)}
    return make_workspace(tmp_path_factory.mktemp("plant"), files).root


CODES = "A1-P-0107/a1-p-0107/A1P0107/a1 p 0107/A1.P.0107/P203/p203/P-203/p 203/P_203/pump 203".split("/")


@pytest.mark.parametrize("code", CODES)
def test_a_code_finds_the_logs_about_it_the_latest_first(plant: Path, code: str) -> None:
    with Project(plant).retriever() as searcher:
        logs = [searcher.corpus[row].id for row in searcher.named(code)]
        assert searcher.search(code, 1)[0].id == logs[0]
    assert logs == ["SB-13", "SB-12", "SB-11", "SB-14", "SB-16"]  # that of the motor below it comes last


def test_words_beside_a_code_rank_what_is_about_it(plant: Path) -> None:
    assert ids(plant, "P203 leaks")[0] == "SB-12"
    assert ids(plant, "filter at p-203")[0] == "SB-14"
    assert ids(plant, "valve leaks")[0] == "SB-15"
    with Project(plant).retriever() as searcher:
        assert searcher.named("P204") == searcher.named("the P203 was here when the other ones came") == []
        assert searcher.named("203") == []


def test_a_rare_code_of_a_manual_or_a_column_comes_first(tmp_path: Path) -> None:
    alarms = "".join(f"| F{number} | Motor {number} is hot |\n" for number in range(10, 20))
    oil = "Oil pressure is low. " * 9
    files: dict[str, str | bytes] = {
        "manual.md": f"# Pump\n\n## Alarms\n\n| Code | Text |\n|---|---|\n{alarms}\n## Oil\n\n{oil}",
        "logs.jsonl": to_lines(
            [{"id": "1", "text": "Oil pressure is low, F-24, filter dirty."}, {"id": "2", "text": "F24 again."}]
            + [{"id": f"x{number}", "text": f"Oil pressure checked {number}."} for number in range(30)]
            + [{"id": "e", "text": "Panel is dark.", "fault": "E5"}]
        ),
    }
    root = make_workspace(tmp_path, files).root
    with Project(root).retriever() as searcher:
        for query, first in {
            "F24": {"1", "2"}, "f24 oil pressure low": {"1"}, "F13": {"manual@1"}, "e5": {"e"}, "E5 panel": {"e"},
            "what does the alarm F13 mean on this panel": {"manual@1"},
        }.items():  # fmt: skip
            hits = searcher.search(query, 5)
            assert {hit.id for hit in hits[: len(first)]} == first, query
            assert all(hit.confidence in (None, 1.0) for hit in hits[: len(first)])
        assert hint(searcher, "Fehler E5") == ""
        assert "no word" in hint(searcher, "Fehler E6")
        assert searcher.named("oil pressure") == searcher.named("F99 oil") == searcher.named("5 bar oil") == []
    with sqlite3.connect(root / "corpus" / "corpus.sqlite") as connection:  # rows without a code cost nothing
        query = f"EXPLAIN QUERY PLAN SELECT number FROM passages WHERE {HAS_CODE}"
        assert "USING INDEX passages_with_codes" in str(connection.execute(query).fetchall())
        assert connection.execute(f"SELECT id FROM passages WHERE {HAS_CODE}").fetchall() == [("e",)]
    connection.close()


@pytest.mark.parametrize(
    ("typed", "since", "until", "text"),
    [
        ("leaks in March 2021", "2021-03", "2021-03", "leaks"),
        ("leaks March 2021", "2021-03", "2021-03", "leaks"),
        ("Leckage seit März 2021", "2021-03", "", "Leckage"),
        ("leaks since 2020", "2020", "", "leaks"),
        ("leaks after 2020", "2021-01-01", "", "leaks"),
        ("leaks before March 2021", "", "2021-02-28", "leaks"),
        ("leaks between 2020 and 2021", "2020", "2021", "leaks"),
        ("leaks from 2020 to May 2021", "2020", "2021-05", "leaks"),
        ("am 03.04.2021 undicht", "2021-04-03", "2021-04-03", "undicht"),
        ("2021-04-03 leak", "2021-04-03", "2021-04-03", "leak"),
        ("what leaked last week", "2022-05-25", "", "what leaked"),
        ("undicht im letzten Monat", "2022-05-01", "", "undicht im"),
    ],
)
def test_words_of_a_query_name_a_time(typed: str, since: str, until: str, text: str) -> None:
    assert named_period(typed, "2019-01-01", "2022-06-01T10:00") == (since, until, text)


@pytest.mark.parametrize(
    "typed",
    [
        *"pump 2021/standard of 1999/P-2021-03/order 2021-0345/since 2030/marble 2021/2021 pump".split("/"),
        *"in 2 and 2021/before 0001-01-01/after 9999/$x$ in 2021.5".split("/"),
    ],
)
def test_other_numbers_are_no_time(typed: str) -> None:
    assert named_period(typed, "2019-01-01", "2022-06-01") is None


def test_a_query_finds_only_logs_of_the_time_that_it_names_and_says_so(plant: Path) -> None:
    assert {"SB-12", "SB-15"} <= set(ids(plant, "leaks in January 2024")) <= {f"SB-{n}" for n in (11, 12, 13, 15, 16)}
    assert ids(plant, "filter before 2024") == ["SB-14"]
    assert ids(plant, "P203 until 2023") == ["SB-14"]
    assert ids(plant, "January 2023") == ["SB-14"]
    assert ids(plant, "filter until:2023 in January 2024")[0] == "SB-14"  # a field says otherwise
    assert ids(plant, 'leaks in "January 2024"', "lexical") == []  # a phrase
    with Project(plant).retriever() as searcher:
        assert "2024-01" in dated(searcher, "leaks in January 2024")
        assert not any(dated(searcher, typed) for typed in ("leaks since:2023", "leaks", 'leaks in "January 2024"'))


@pytest.mark.parametrize("order", ["4796224", "4796230"])
@pytest.mark.parametrize("written", ["{}", "Auftrag {}", "order {}", "WO {}", "WO-{}", "Auftrag Nr. {}", "{} leak"])
@pytest.mark.parametrize("retriever", ["auto", "lexical"])
def test_the_number_of_an_order_is_found_with_words_beside(
    tmp_path: Path, written: str, order: str, retriever: str
) -> None:
    (tmp_path / "logs.csv").write_text(
        "id,text\n4796224,valve replaced\n4796225,order for a pump leak\nA1,seal changed see 4796230\n"
        "A2,Auftrag WO Nr. of an order of a leak\n"
    )
    project = Project.init(tmp_path / "w")
    project.ingest([tmp_path / "logs.csv"])
    project.index(settings={"encoder": "hashing"})
    assert ids(tmp_path / "w", written.format(order), retriever)[0] == ("4796224" if order == "4796224" else "A1")
    with project.retriever() as searcher:
        assert searcher.named("a leak of 4796000 litres") == searcher.named("1.4796230 leak") == []


@pytest.mark.parametrize("written", ["SB-13", "sb-13", "SB13", "sb 13", "SB_13"])
def test_an_id_is_found_however_it_is_written(plant: Path, written: str) -> None:
    assert ids(plant, written)[0] == "SB-13"
