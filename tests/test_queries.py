"""Queries for passages: by rules, by a model behind a real server process, and the filter that looks for them again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm_server import Server

from lemmata.config import build
from lemmata.errors import ConfigError, InputError, LeakageError, LemmataError
from lemmata.llm.answers import complaints
from lemmata.llm.chat import Answer, Chat, Request
from lemmata.llm.endpoint import Budget, EndpointOptions
from lemmata.mine.material import Material, material
from lemmata.mine.queries.filter import Share, round_trip
from lemmata.mine.queries.model import ModelOptions, model_queries, query_requests, query_schema, read_queries
from lemmata.mine.queries.phrases import (
    Speaker,
    declared,
    masked,
    plain_formula,
    with_article,
    word_overlap,
)
from lemmata.mine.queries.rules import QueryOptions, passage_queries, rule_queries
from lemmata.mine.queries.styles import STYLES, Query
from lemmata.store.split import Split
from lemmata.types import Document, Integers, Pair, Passage
from lemmata.words import plural, singular


class Shelf:
    """Passages in memory, as a corpus gives them."""

    def __init__(self, passages: Sequence[Passage], documents: Sequence[Document] = ()) -> None:
        self._passages, self._documents = passages, documents

    def __len__(self) -> int:
        return len(self._passages)

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        return [self._passages[row] for row in rows]

    def documents(self) -> Iterator[Document]:
        names = dict.fromkeys(passage.document for passage in self._passages)
        return iter(self._documents or [Document(name) for name in names])

    def ids(self) -> list[str]:
        return [passage.id for passage in self._passages]

    def document_ids(self) -> list[str]:
        return list(dict.fromkeys(passage.document for passage in self._passages))

    def document_numbers(self) -> Integers:
        names = list(dict.fromkeys(passage.document for passage in self._passages))
        return np.array([names.index(passage.document) for passage in self._passages], np.int64)


def shelved(
    passages: Sequence[Passage], documents: Sequence[Document] = (), parts: Sequence[int] | None = None
) -> Material:
    part = np.array(parts if parts is not None else [0] * len(passages), np.int8)
    return material(Shelf(passages, documents), Split(part, np.zeros(len(passages), bool)), "train")


def statement(text: str, kind: str = "lemma", title: str = "", raw: str = "", identity: str = "d#1") -> Passage:
    return Passage(identity, "d", kind, text, title=title, raw=raw)


def asked(passage: Passage, **options: Any) -> list[Query]:
    return passage_queries(passage, {}, 1000, options=QueryOptions(**({"overlap": 1.0} | options)))


def texts(passage: Passage, rule: str, **options: Any) -> list[str]:
    return [query.text for query in asked(passage, **options) if query.rule == rule]


def said(text: str, clause: str) -> str:
    """The last sentence of a text, said without letters; `clause` is a part of it."""
    whole = masked(f"{text} {clause}")
    return Speaker(whole, declared(whole)).say(whole.sentences[-1].rstrip("."))


# ---------------------------------------------------------------- letters


def test_a_letter_is_said_as_what_it_was_introduced_as() -> None:
    assert said("Let $R$ be a Noetherian ring.", "$R$ is reduced.") == "a Noetherian ring is reduced"
    assert said("Let $M, N$ be flat modules.", "$M$ is free.") == "a flat module is free"
    assert said("Let $I \\subset R$ be an ideal.", "$I$ is prime.") == "an ideal is prime"
    assert said("Let $f : X \\to Y$ be a morphism of schemes.", "$X$ is normal.") == "a scheme is normal"
    assert said("Let $(A, \\mathfrak m)$ be a local ring.", "$\\mathfrak m$ is zero.") == "the maximal ideal is zero"


def test_the_second_mention_is_definite() -> None:
    assert said("Let $R$ be a ring.", "$R$ is flat if $R$ is local.") == "a ring is flat if the ring is local"


def test_what_can_not_be_said_without_letters_is_not_said() -> None:
    assert said("Let $R$ be a ring.", "$S$ is flat.") == ""
    assert said("Let $R$ be a ring.", "$\\sum_n R_n$ is flat.") == ""
    assert said("Let $R$ be a ring. Let $S$ be a ring.", "$R$ is $S$.") == ""
    assert said("Let $R$ be a ring.", "$R$ is as in Lemma.") == ""


def test_simple_formulas_are_typed_and_heavy_ones_are_not() -> None:
    assert plain_formula("\\mathcal{O}_X") == "O_X"
    assert plain_formula("p") == "p"
    assert plain_formula("x^2") == "x^2"
    assert plain_formula("K_0") == "K_0"
    assert plain_formula("\\sum_{i=1}^n a_i") == ""
    assert said("Let $M$ be a finite $\\mathcal{O}_X$-module.", "$M$ is flat.") == "a finite O_X-module is flat"


@pytest.mark.parametrize(
    ("phrase", "article"),
    [("ring", "a"), ("étale map", "an"), ("unique ring", "a"), ("F-algebra", "an"), ("unramified map", "an"),
     ("Euclidean ring", "a"), ("Euler product", "an"), ("universal cover", "a"), ("O_X-module", "an"), ("n-type", "an"),
     ("union", "a"), ("uninteresting case", "an"), ("honest proof", "an"), ("k-algebra", "a"), ("one-step map", "a")],
)  # fmt: skip
def test_articles_follow_the_sound(phrase: str, article: str) -> None:
    assert with_article(phrase) == f"{article} {phrase}"


@pytest.mark.parametrize("word", ["ring", "matrix", "category", "complex", "sheaf", "class", "subsheaf", "O_X-basis"])
def test_plurals_come_back(word: str) -> None:
    assert singular(plural(word)) == word


# ---------------------------------------------------------------- statements


def test_a_conclusion_becomes_a_question_and_a_slogan() -> None:
    lemma = statement(
        "Let $R$ be a Noetherian local domain. Assume $R$ is normal. Then $R$ is geometrically unibranch."
    )
    found = asked(lemma)
    assert any(re.match(r"(?:When is|Is) a Noetherian local domain geometrically unibranch", q.text) for q in found)
    slogan = "A Noetherian local domain is geometrically unibranch if the domain is normal"
    assert slogan in [query.text for query in found if query.style == "slogan"]
    turned = "Whenever a Noetherian local domain is normal, the domain is geometrically unibranch"
    assert turned in [query.text for query in found if query.style == "paraphrase"]


def test_an_equivalence_asks_for_characterisations() -> None:
    lemma = statement(
        "Let $M$ be a module. The following are equivalent: (1) $M$ is flat, (2) $\\operatorname{Tor}_1(M, -) = 0$."
    )
    assert "characterisations of flat modules" in texts(lemma, "equivalence")


def test_if_and_only_if_asks_when() -> None:
    lemma = statement("Let $A$ be a finite group. Then $A$ is solvable if and only if it has a normal series.")
    assert "When is a finite group solvable?" in texts(lemma, "if and only if")
    assert "criterion for a finite group to be solvable" in texts(lemma, "if and only if")
    assert "A finite group is solvable exactly when it has a normal series" in texts(lemma, "if and only if")


def test_existence_is_asked_for_with_what_is_given() -> None:
    lemma = statement("Let $K$ be a number field. Then there exists a prime which ramifies in a quadratic field.")
    assert "Given a number field, is there a prime which ramifies in a quadratic field?" in texts(lemma, "existence")


def test_a_defined_property_is_asked_for_with_what_has_it() -> None:
    definition = statement(
        "Let $R$ be a ring. We say $R$ is catenary if all chains have one length.",
        "definition",
        raw="Let $R$ be a ring. We say $R$ is {\\it catenary} if all chains have one length.",
    )
    found = texts(definition, "defined")
    assert found[0] == "What does it mean for a ring to be catenary?"
    assert found[1] in ("definition of catenary ring", "catenary ring")


def test_a_defined_thing_is_asked_for_by_name() -> None:
    definition = statement(
        "A Bailey pair is a pair of sequences.", "definition", raw="A \\emph{Bailey pair} is a pair of sequences."
    )
    assert texts(definition, "defined")[0] == "What is a Bailey pair?"
    called = statement("Let $K/k$ be an extension. Such an extension is called a cyclotomic field.", "definition")
    assert "What is a cyclotomic field?" in texts(called, "defined")
    belongs = statement("Let $T$ be a square matrix. The spectral radius of $T$ is the largest modulus.", "definition")
    assert "What is the spectral radius of a square matrix?" in texts(belongs, "defined")


def test_arithmetic_does_not_begin_with_an_article() -> None:
    definition = statement("Let $f$ be a function. Then $f$ is called arithmetic if it is nice.", "definition")
    assert not any("rithmetic" in text.replace("arithmetic", "") for text in texts(definition, "defined"))


@pytest.mark.parametrize(
    ("title", "kind", "question", "keyword"),
    [("Nakayama's lemma", "lemma", "Nakayama's lemma", "Nakayama lemma"),
     ("Yoneda lemma", "lemma", "the Yoneda lemma", "Yoneda lemma"),
     ("Gordon, 1961", "theorem", "Gordon's theorem", "Gordon theorem"),
     ("Andrews and Garvan", "theorem", "the Andrews-Garvan theorem", "Andrews-Garvan theorem"),
     ("$q$-Pascal rules", "proposition", "the q-Pascal rules", "q-Pascal rules")],
)  # fmt: skip
def test_a_name_is_asked_for(title: str, kind: str, question: str, keyword: str) -> None:
    found = texts(statement("We have $a = b$.", kind, title), "named")
    do = "do" if keyword.endswith("rules") else "does"
    assert found[0] in (f"What {do} {question} say?", f"statement of {question}")
    assert found[1] == keyword


@pytest.mark.parametrize("title", ["Variant", "Key fact", "Definitions", "Fundamental theorem", "Thm. 8.2", "Case 1"])
def test_a_note_that_names_nothing_is_not_asked_for(title: str) -> None:
    assert not texts(statement("We have $a = b$.", "theorem", title), "named")


@pytest.mark.parametrize(
    ("title", "query"),
    [("proof of Mantel's theorem", "Mantel's theorem proof"), ("examples of compact spaces", "compact spaces example"),
     ("example of non-abelian group", "What is an example of a non-abelian group?"),
     ("binomial coefficient", "What is a binomial coefficient?"), ("commutative", "What does commutative mean?"),
     ("Bernoulli numbers", "What are Bernoulli numbers?"), ("T implies S", "Does T imply S?"),
     ("six exponentials theorem", "six exponentials theorem")],
)  # fmt: skip
def test_a_short_article_answers_its_title(title: str, query: str) -> None:
    passage = Passage("d@1", "d", "chunk", "Some text that explains it at length.")
    found = passage_queries(passage, {}, 10, document=Document("d", title), options=QueryOptions(overlap=1.0))
    assert any(query in made.text for made in found)


def test_keywords_are_the_rare_runs() -> None:
    passage = statement("Let $X$ be a scheme. The dualizing complex of $X$ has finite injective dimension.")
    frequency = {"scheme": 900, "complex": 300, "dualizing": 5, "finite": 500, "injective": 4, "dimension": 200}
    [query] = [q for q in passage_queries(passage, frequency, 1000) if q.rule == "keywords"]
    assert query.text == "dualizing complex finite injective dimension"


def test_a_query_does_not_copy_its_passage() -> None:
    lemma = statement("A countably generated projective module is free.")
    assert any(query.style == "slogan" for query in asked(lemma))
    assert not any(query.style == "slogan" for query in asked(lemma, overlap=0.6))


def test_overlap_counts_words_in_order() -> None:
    assert word_overlap("a b c d", "a b c d") == 1.0
    assert word_overlap("d c b a", "a b c d") == 0.25
    assert word_overlap("a x c", "a b c d") == 0.5
    assert word_overlap("", "a b") == 0.0
    assert word_overlap("a", "") == 0.0


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), min_size=1, max_size=12))
def test_overlap_is_the_longest_common_subsequence(left: list[str], right: list[str]) -> None:
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            table[i + 1][j + 1] = table[i][j] + 1 if one == other else max(table[i][j + 1], table[i + 1][j])
    assert word_overlap(" ".join(left), " ".join(right)) == table[-1][-1] / len(right)


# ---------------------------------------------------------------- logs


def log(text: str, language: str = "en") -> Passage:
    return Passage("L1", "logs", "log", text, metadata={"language": language})


def test_logs_are_asked_about_by_code_and_state() -> None:
    assert "Why did P-101 trip?" in texts(log("P-101 tripped at 21:46, motor protection operated"), "log state")
    assert "Warum vibriert P203?" in texts(log("P203 vibriert stark, 9,1 mm/s", "de"), "log state")
    assert "When was W403 last cleaned?" in texts(log("W403 chemically cleaned, lots of dirt"), "log work")
    found = texts(log("Repeat: pump P-101 vibration high, 12 mm/s"), "log")
    assert found[0] in ("P-101 pump vibration high", "pump vibration high P-101")


def test_a_log_without_equipment_is_not_asked_about() -> None:
    assert asked(log("all quiet in the night")) == []


# ---------------------------------------------------------------- the miner

LIBRARY = [
    statement(
        "Let $R$ be a Noetherian ring. Then $R$ is catenary if and only if it is universally so.", identity="d#1"
    ),
    statement("Let $M$ be a flat module. Then $M$ is torsion free as can be seen.", identity="d#2"),
    statement("A lattice word is a word that pleases.", "definition", identity="d#3"),
    Passage("e#1", "e", "theorem", "We have $1 = 1$.", title="Sylow's theorem"),
]


def test_pairs_tell_style_and_rule() -> None:
    pairs = list(rule_queries(shelved(LIBRARY), QueryOptions(overlap=1.0)))
    assert Pair("What is a lattice word?", 2, "queries", "question", "defined") in pairs
    assert {pair.relation for pair in pairs} <= set(STYLES)
    assert [pair.positive for pair in pairs] == sorted(pair.positive for pair in pairs)


def test_no_row_of_another_part_is_ever_asked_about() -> None:
    given_material = shelved(LIBRARY, parts=[0, 2, 1, 0])
    pairs = list(rule_queries(given_material, QueryOptions(overlap=1.0)))
    assert {pair.positive for pair in pairs} == {0, 3}
    seen = list(model_queries(given_material, partial(map, lambda _: Answer("", {"queries": []}))))
    assert [row for written in seen for row in written.rows] == [0]  # the other is too short to ask about
    with pytest.raises(LeakageError):
        given_material.passages([1])


def test_the_same_material_and_seed_give_the_same_pairs() -> None:
    made = [list(rule_queries(shelved(LIBRARY), QueryOptions(overlap=1.0, seed=seed))) for seed in (1, 1, 2, 3, 4)]
    assert made[0] == made[1]
    assert any(other != made[0] for other in made[2:])


@given(st.permutations(range(len(LIBRARY))))
@settings(max_examples=20)
def test_the_order_of_the_corpus_does_not_change_what_is_asked(order: list[int]) -> None:
    def made(passages: Sequence[Passage]) -> set[tuple[int | str, str]]:
        return {
            (pair.anchor, passages[pair.positive].id)
            for pair in rule_queries(shelved(passages), QueryOptions(overlap=1.0))
        }

    assert made([LIBRARY[number] for number in order]) == made(LIBRARY)


def test_styles_can_be_switched_off_and_numbers_capped() -> None:
    assert all(q.style == "keyword" for q in asked(LIBRARY[0], question=False, slogan=False, paraphrase=False))
    assert len(asked(LIBRARY[0], most=2)) == 2
    same = [statement(LIBRARY[2].text, "definition", identity=f"d#{number}") for number in range(5)]
    pairs = list(rule_queries(shelved(same), QueryOptions(overlap=1.0, repeats=2)))
    assert [pair.positive for pair in pairs if pair.anchor == "What is a lattice word?"] == [0, 1]


def test_options_come_from_a_table() -> None:
    assert build(QueryOptions, {"most": 3, "slogan": False}, "[queries]") == QueryOptions(most=3, slogan=False)
    with pytest.raises(ConfigError, match="too small"):
        build(QueryOptions, {"most": 0}, "[queries]")


WORDS = st.sampled_from(
    ["Let", "$R$", "be", "a", "ring.", "Then", "is", "flat", "if", "and", "only", "(1)", "(2)", ",", "there", "exists",
     "$f : X \\to Y$", "morphism", "of", "schemes", "called", "the", "equivalent", "following", "$\\alpha", "$", "{",
     "\\", "over", "module", "Assume", ".", "We", "say", "$k$-algebra", "\n\n", "•", "\ue000", "proof", "P-101",
     "tripped", ":"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=40), st.sampled_from(["lemma", "definition", "chunk", "log"]))
@settings(max_examples=300, deadline=2000)
def test_every_query_can_be_typed_whatever_the_passage(words: list[str], kind: str) -> None:
    text = " ".join(words)
    passage = Passage("d@1", "d", kind, text, title=text[:40], raw=text)
    for query in passage_queries(passage, {}, 10, document=Document("d", text[:60]), options=QueryOptions(overlap=1.0)):
        assert query.style in STYLES
        assert 2 <= len(query.text.split()) <= 22
        assert not re.search(r"[$\\{}\n\ue000-\uf8ff]", query.text)


def test_long_passages_take_linear_time() -> None:
    long = statement("Let $R$ be a ring and let $S$ be a ring, " * 2000 + "then $R$ is called flat.", "definition")
    dollars = statement("is " + "$x$ " * 5000 + "(" * 5000 + "{\\it a" * 2000, "definition", raw="{\\it a" * 2000)
    for passage in (long, dollars):
        asked(passage)  # pytest's own time limit is the whole file's: seconds, not minutes


# ---------------------------------------------------------------- a model


def entry(number: int, **texts_: str) -> dict[str, Any]:
    given_texts = {
        "question": "When is a Noetherian ring catenary?",
        "keyword": "catenary rings criterion",
        "slogan": "Being catenary is universal for $\\mathbf{Z}$-algebras.",
        "paraphrase": "Chains of primes behave well precisely in the universal case.",
    }
    return {"passage": number} | given_texts | texts_


def replying(*values: Any) -> Callable[[Iterable[Request]], Iterator[Answer]]:
    def ask(requests: Iterable[Request]) -> Iterator[Answer]:
        for _, value in zip(requests, values, strict=False):
            yield value if isinstance(value, Answer) else Answer("", value)

    return ask


def test_passages_share_a_prompt_and_every_style_comes_back() -> None:
    material_ = shelved(LIBRARY[:2])
    [request] = query_requests(material_, ModelOptions(passages=2))
    assert "[1] lemma: Let $R$" in request.user
    assert "[2] lemma: Let $M$" in request.user
    value = {"queries": [entry(2, question="Is a flat module torsion free?"), entry(1)]}
    assert complaints(value, query_schema(STYLES)) == []
    [written] = model_queries(material_, replying(value), ModelOptions(passages=2))
    assert written.complete
    assert written.rows == (0, 1)
    assert [pair.relation for pair in written.pairs] == [*STYLES, *STYLES]
    assert written.pairs[4] == Pair("Is a flat module torsion free?", 1, "queries", "question", "model")


def test_what_can_not_be_used_is_a_skip() -> None:
    batch = [(7, LIBRARY[0]), (9, LIBRARY[1])]
    bad = entry(
        1, question="What does this lemma say?", keyword="rings", slogan=LIBRARY[0].text, paraphrase="for $x all"
    )
    pairs, skips = read_queries({"queries": [bad, "nonsense", entry(5)]}, batch, ModelOptions())
    assert pairs == []
    causes = " / ".join(skip.cause for skip in skips)
    assert len(skips) == 5
    for cause in (
        "points to what",
        "is no query",
        "copies 100%",
        "breaks off in a formula",
        "d#2: the answer has no entry",
    ):
        assert cause in causes


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=9),
        lambda x: (
            st.lists(x, max_size=4)
            | st.dictionaries(st.sampled_from(["queries", "passage", "question"]), x, max_size=3)
        ),
        max_leaves=9,
    )
)
@settings(max_examples=100)
def test_any_answer_is_read_or_skipped(value: Any) -> None:
    pairs, skips = read_queries(value, [(0, LIBRARY[0])], ModelOptions())
    assert pairs or skips


def test_a_failed_prompt_is_incomplete_and_the_others_go_on() -> None:
    ask = replying(Answer("", error="budget"), {"queries": [entry(1)]})
    first, second = model_queries(shelved(LIBRARY[:2]), ask, ModelOptions(passages=1))
    assert not first.complete
    assert "d#1 has no queries: budget" in first.skips[0].cause
    assert second.complete
    [only] = model_queries(shelved(LIBRARY[:2]), replying({"queries": [entry(1)]}), ModelOptions(passages=1), done=[0])
    assert only.rows == (1,)


def test_answers_that_end_early_are_an_error() -> None:
    def ask(requests: Iterable[Request]) -> Iterator[Answer]:
        list(requests)
        return iter(())

    with pytest.raises(LemmataError, match="end before d#1"):
        list(model_queries(shelved(LIBRARY[:2]), ask))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    process = Server(tmp_path_factory.mktemp("server") / "journal")
    yield process
    process.kill()


def test_a_model_behind_a_server_is_asked_once_within_its_budget(server: Server, tmp_path: Path) -> None:
    latex = json.dumps({"queries": [entry(1)]}).replace("\\\\", "\\")  # as small models write it
    other = json.dumps({"queries": [entry(1, question="Is a flat module torsion free?")]})
    server.script(
        replies={
            "Noetherian": [{"text": "no JSON"}, {"text": f"Sure!\n```json\n{latex}\n```"}],
            "flat": [{"text": other}],
        }
    )
    chat = Chat(EndpointOptions(server.url, "tiny", json_mode="text"), tmp_path / "cache.sqlite", back_off=0.01)
    library, options = shelved(LIBRARY[:2]), ModelOptions(passages=1)
    assert chat.preview(query_requests(library, options)).calls == 2
    first = list(model_queries(library, partial(chat.run, budget=Budget(calls=5)), options))
    assert [written.complete for written in first] == [True, True]
    assert first[0].pairs[2].anchor == "Being catenary is universal for $\\mathbf{Z}$-algebras."
    calls = len(server.calls())
    assert calls == 3  # one was asked again
    assert list(model_queries(library, partial(chat.run, budget=Budget(calls=0)), options)) == first
    assert len(server.calls()) == calls  # everything from the cache, with nothing left to spend
    new = shelved([*LIBRARY[:2], statement("Every prime ideal of a domain is something special here.", identity="d#9")])
    *_, last = model_queries(new, partial(chat.run, budget=Budget(calls=0)), options)
    assert not last.complete
    assert "budget" in last.skips[0].cause
    chat.close()


# ---------------------------------------------------------------- the round trip


def searching(found: dict[str, list[int]], sizes: list[int]) -> Callable[[Sequence[str], int], Integers]:
    def search(queries: Sequence[str], k: int) -> Integers:
        sizes.append(len(queries))
        rows = [(found.get(query, []) + [-1] * k)[:k] for query in queries]
        return np.array(rows, np.int64)

    return search


def test_a_query_stays_if_it_finds_its_passage_again() -> None:
    pairs = [
        Pair("good", 3, "queries", "question", "defined"),
        Pair("late", 3, "queries", "question", "defined"),
        Pair("lost", 4, "queries", "keyword", "named"),
        Pair(1, 2, "pairs", "refers_to"),
    ]
    kept = round_trip(iter(pairs), searching({"good": [1, 3], "late": [1, 2, 3], "lost": [5]}, []), k=2)
    assert list(kept) == [pairs[0], pairs[3]]
    assert kept.by_style == {"keyword": Share(0, 1), "question": Share(1, 2)}
    assert kept.by_rule == {("keyword", "named"): Share(0, 1), ("question", "defined"): Share(1, 2)}


def test_the_filter_streams_in_batches() -> None:
    sizes: list[int] = []
    taken: list[int] = []

    def pairs() -> Iterator[Pair]:
        for number in range(600):
            taken.append(number)
            yield Pair(f"q{number}", number, "queries")

    kept = iter(round_trip(pairs(), searching({f"q{n}": [n] for n in range(600)}, sizes)))
    assert next(kept).positive == 0
    assert len(taken) == 256
    assert len(list(kept)) == 599
    assert sizes == [256, 256, 88]


def test_a_search_of_the_wrong_shape_is_an_error() -> None:
    with pytest.raises(InputError, match="2 queries"):
        list(round_trip([Pair("a", 0, "q"), Pair("b", 0, "q")], lambda _, k: np.zeros((1, k), np.int64)))
    with pytest.raises(ConfigError):
        round_trip([], searching({}, []), k=0)
