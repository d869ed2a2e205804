"""Queries for passages: by rules, by a model behind a real server process, and the round-trip filter."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm_server import Server
from tests.make import MemoryCorpus, is_linear

from lemmata.core.errors import ConfigError, LeakageError, LemmataError
from lemmata.core.types import Document, Integers, Link, Pair, Passage
from lemmata.corpus.split import Split
from lemmata.llm.answers import fit, read_answer
from lemmata.llm.chat import Answer, Chat, Request
from lemmata.llm.endpoint import Budget, EndpointOptions
from lemmata.mine.material import TrainingView, training_view
from lemmata.mine.mine import round_trip
from lemmata.mine.queries.model import STYLES, WrittenOptions, model_queries, query_prompt, query_requests, query_schema
from lemmata.mine.queries.rules import passage_queries, rule_queries
from lemmata.mine.queries.wording import Query, is_plural, with_article, word_overlap


def shelved(
    passages: Sequence[Passage], documents: Sequence[Document] = (), parts: Sequence[int] | None = None
) -> TrainingView:
    part = np.array(parts if parts is not None else [0] * len(passages), np.int8)
    return training_view(MemoryCorpus(passages, documents), Split(part, np.zeros(len(passages), bool)), "train")


def statement(text: str, kind: str = "lemma", title: str = "", raw: str = "", identity: str = "d#1") -> Passage:
    return Passage(identity, "d", kind, text, title=title, raw=raw)


def asked(passage: Passage, **options: Any) -> list[Query]:
    return passage_queries(passage, {}, 1000, **{"overlap": 1.0, **options})


def texts(passage: Passage, rule: str, **options: Any) -> list[str]:
    return [query.text for query in asked(passage, **options) if query.rule == rule]


# ---------------------------------------------------------------- English


@pytest.mark.parametrize(
    ("phrase", "article"),
    [("ring", "a"), ("étale map", "an"), ("unique ring", "a"), ("F-algebra", "an"), ("unramified map", "an"),
     ("Euclidean ring", "a"), ("Euler product", "an"), ("universal cover", "a"), ("O_X-module", "an"), ("n-type", "an"),
     ("union", "a"), ("uninteresting case", "an"), ("honest proof", "an"), ("k-algebra", "a"), ("one-step map", "a")],
)  # fmt: skip
def test_articles_follow_the_sound(phrase: str, article: str) -> None:
    assert with_article(phrase) == f"{article} {phrase}"


def test_plurals_are_recognised() -> None:
    assert all(map(is_plural, ["rings", "matrices", "categories", "tableaux", "criteria", "sheaves"]))
    assert not any(map(is_plural, ["ring", "basis", "class", "torus", "fibre", "Gauss", "colouring", "series"]))


# ---------------------------------------------------------------- statements


def test_a_defined_property_is_asked_for_with_its_subject() -> None:
    definition = statement(
        "Let $R$ be a ring. We say $R$ is catenary if all chains have one length.",
        "definition",
        raw="Let $R$ be a ring. We say $R$ is {\\it catenary} if all chains have one length.",
    )
    question, keyword = texts(definition, "defined")
    assert question == "What does it mean for a ring to be catenary?"
    assert keyword in ("definition of catenary ring", "catenary ring definition")
    for text, expected in (
        ("Let $M$ be an $R$-module. We say $M$ is flat if so.", "What does it mean for an R-module to be flat?"),
        ("A scheme $X$ is called separated if so.", "What does it mean for a scheme to be separated?"),
        (
            "Let $f : X \\to Y$ be a morphism of schemes. We say $f$ is proper if so.",
            "What does it mean for a morphism of schemes to be proper?",
        ),
    ):
        assert expected in texts(statement(text, "definition"), "defined")
    unknown_subject = statement("We say $R$ is catenary if all chains have one length.", "definition")
    assert texts(unknown_subject, "defined") == []


def test_a_defined_object_is_asked_for_by_name() -> None:
    definition = statement(
        "A Bailey pair is a pair of sequences.", "definition", raw="A \\emph{Bailey pair} is a pair of sequences."
    )
    assert texts(definition, "defined")[0] == "What is a Bailey pair?"
    called = statement("Let $K/k$ be an extension. Such an extension is called a cyclotomic field.", "definition")
    assert "What is a cyclotomic field?" in texts(called, "defined")


def test_a_single_word_is_asked_for_only_where_it_has_an_indefinite_article() -> None:
    partition = statement(
        "A partition is a finite sequence of weakly decreasing positive integers.",
        "definition",
        raw="A \\emph{partition} is a finite sequence of weakly decreasing positive integers.",
    )
    assert texts(partition, "defined") == ["What is a partition?"]
    length = statement(
        "The number of parts is the length.", "definition", raw="The number of parts is the \\emph{length}."
    )
    assert texts(length, "defined") == []


@pytest.mark.parametrize(
    ("title", "kind", "question", "keyword"),
    [("Nakayama's lemma", "lemma", "Nakayama's lemma", "Nakayama lemma"),
     ("Yoneda lemma", "lemma", "the Yoneda lemma", "Yoneda lemma"),
     ("Gordon, 1961", "theorem", "Gordon's theorem", "Gordon theorem"),
     ("Andrews and Garvan", "theorem", "the Andrews-Garvan theorem", "Andrews-Garvan theorem"),
     ("$q$-Pascal rules", "proposition", "the q-Pascal rules", "q-Pascal rules")],
)  # fmt: skip
def test_a_named_result_is_asked_for(title: str, kind: str, question: str, keyword: str) -> None:
    named = texts(statement("We have $a = b$.", kind, title), "named")
    do = "do" if keyword.endswith("rules") else "does"
    assert named[0] in (f"What {do} {question} say?", f"statement of {question}")
    assert named[1] == keyword


@pytest.mark.parametrize("title", ["Variant", "Key fact", "Definitions", "Fundamental theorem", "Thm. 8.2", "Case 1"])
def test_a_note_that_names_nothing_is_not_asked_for(title: str) -> None:
    assert not texts(statement("We have $a = b$.", "theorem", title), "named")


@pytest.mark.parametrize(
    ("title", "query"),
    [("proof of Mantel's theorem", "Mantel's theorem proof"), ("examples of compact spaces", "compact spaces example"),
     ("example of non-abelian group", "What is an example of a non-abelian group?"),
     ("binomial coefficient", "What is a binomial coefficient?"), ("commutative", "What does commutative mean?"),
     ("Bernoulli numbers", "What are Bernoulli numbers?"), ("topology", "What is a topology?"),
     ("six exponentials theorem", "six exponentials theorem"), ("locally compact", "What does locally compact mean?"),
     ("ring of integers (of a field)", "What is the ring of integers?"),
     ("category theory", "What is category theory?")],
)  # fmt: skip
def test_a_short_article_answers_its_title(title: str, query: str) -> None:
    passage = Passage("d@1", "d", "chunk", "Some text that explains it at length.")
    queries = passage_queries(passage, {}, 10, document=Document("d", title), overlap=1.0)
    assert any(query in made.text for made in queries)


@pytest.mark.parametrize("title", ["Notes", "1.2 Products", "T implies S", "groups and rings", "how to add", "$x = y$"])
def test_a_title_without_a_subject_is_not_asked_for(title: str) -> None:
    passage = Passage("d@1", "d", "chunk", "Some text that explains it at length.")
    assert passage_queries(passage, {}, 10, document=Document("d", title)) == []


def test_keywords_are_the_rare_runs() -> None:
    passage = statement("Let $X$ be a scheme. The dualizing complex of $X$ has finite injective dimension.")
    frequency = {"scheme": 900, "complex": 300, "dualizing": 5, "finite": 500, "injective": 4, "dimension": 200}
    [query] = [q for q in passage_queries(passage, frequency, 1000) if q.rule == "keywords"]
    assert query.text == "dualizing complex finite injective dimension"


def test_a_query_does_not_copy_its_passage() -> None:
    lemma = statement("A countably generated projective module is free.")
    assert [query.rule for query in asked(lemma)] == ["keywords"]
    assert asked(lemma, overlap=0.4) == []


def test_overlap_counts_words_in_order() -> None:
    assert word_overlap("a b c d", "a b c d") == 1.0
    assert word_overlap("d c b a", "a b c d") == 0.25
    assert word_overlap("a x c", "a b c d") == 0.5
    assert word_overlap("", "a b") == 0.0
    assert word_overlap("a", "") == 0.0


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), min_size=1, max_size=12))
def test_overlap_is_the_longest_common_subsequence(left: list[str], right: list[str]) -> None:
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, word in enumerate(left):
        for j, other in enumerate(right):
            table[i + 1][j + 1] = table[i][j] + 1 if word == other else max(table[i][j + 1], table[i + 1][j])
    assert word_overlap(" ".join(left), " ".join(right)) == table[-1][-1] / len(right)


# ---------------------------------------------------------------- logs


def log(text: str, language: str = "en") -> Passage:
    return Passage("L1", "logs", "log", text, metadata={"language": language})


def test_log_queries_name_equipment_and_state() -> None:
    assert "Why did P-101 trip?" in texts(log("P-101 tripped at 21:46, motor protection operated"), "log state")
    assert "Warum vibriert P203?" in texts(log("P203 vibriert stark, 9,1 mm/s", "de"), "log state")
    assert "When was W403 last cleaned?" in texts(log("W403 chemically cleaned, lots of dirt"), "log work")
    keywords = texts(log("Repeat: pump P-101 vibration high, 12 mm/s"), "log")
    assert keywords[0] in ("P-101 pump vibration high", "pump vibration high P-101")


def test_a_log_without_equipment_has_no_queries() -> None:
    assert asked(log("all quiet in the night")) == []


# ---------------------------------------------------------------- the miner

FOUR = [
    statement(f"Let $R$ be a ring number {name}. Then it has many ideals.", identity=f"d#{name}") for name in "pqrs"
]
LIBRARY = [
    statement(
        "Let $R$ be a Noetherian ring. Then $R$ is catenary if and only if it is universally so.",
        title="Ratliff's criterion",
        identity="d#1",
    ),
    statement("Let $M$ be a flat module. Then $M$ is torsion free as can be seen.", identity="d#2"),
    statement("A lattice word is a word that pleases.", "definition", identity="d#3"),
    Passage("e#1", "e", "theorem", "We have $1 = 1$.", title="Sylow's theorem"),
]


def test_pairs_carry_style_and_rule() -> None:
    pairs = list(rule_queries(shelved(LIBRARY), overlap=1.0))
    assert Pair("What is a lattice word?", 2, "queries", "question", "defined") in pairs
    assert {pair.relation for pair in pairs} <= set(STYLES)
    assert [pair.positive for pair in pairs] == sorted(pair.positive for pair in pairs)


def test_queries_are_only_made_for_the_training_part() -> None:
    train = shelved(LIBRARY, parts=[0, 2, 1, 0])
    pairs = list(rule_queries(train, overlap=1.0))
    assert {pair.positive for pair in pairs} == {0, 3}
    [request] = query_requests(train, WrittenOptions())  # the other one is too short to ask about
    assert request.user.startswith("lemma (Ratliff's criterion): Let $R$")
    with pytest.raises(LeakageError):
        train.passages([1])


@given(st.permutations(range(len(LIBRARY))))
@settings(max_examples=20)
def test_the_order_of_the_corpus_does_not_change_what_is_asked(order: list[int]) -> None:
    def made(passages: Sequence[Passage]) -> set[tuple[int | str, str]]:
        return {(pair.anchor, passages[pair.positive].id) for pair in rule_queries(shelved(passages), overlap=1.0)}

    assert made([LIBRARY[number] for number in order]) == made(LIBRARY)


def test_styles_are_chosen_by_name() -> None:
    assert {query.style for query in asked(LIBRARY[3])} == {"question", "keyword"}
    assert {query.style for query in asked(LIBRARY[3], styles=["keyword"])} == {"keyword"}
    with pytest.raises(ConfigError, match=r"'keywrd'.*'keyword'"):
        query_prompt(WrittenOptions(styles="question, keywrd"))


def test_at_most_three_passages_share_a_query() -> None:
    same = [statement(LIBRARY[2].text, "definition", identity=f"d#{number}") for number in range(5)]
    pairs = list(rule_queries(shelved(same), overlap=1.0))
    assert [pair.positive for pair in pairs if pair.anchor == "What is a lattice word?"] == [0, 1, 2]


WORDS = st.sampled_from(
    ["Let", "$R$", "be", "a", "ring.", "Then", "is", "flat", "if", "and", "only", "(1)", "(2)", ",", "there", "exists",
     "$f : X \\to Y$", "morphism", "of", "schemes", "called", "the", "equivalent", "following", "$\\alpha", "$", "{",
     "\\", "over", "module", "Assume", ".", "We", "say", "$k$-algebra", "\n\n", "•", "\ue000", "proof", "P-101",
     "tripped", ":"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=40), st.sampled_from(["lemma", "definition", "chunk", "log"]))
def test_every_query_can_be_typed_for_any_passage(words: list[str], kind: str) -> None:
    text = " ".join(words)
    passage = Passage("d@1", "d", kind, text, title=text[:40], raw=text)
    for query in passage_queries(passage, {}, 10, document=Document("d", text[:60]), overlap=1.0):
        assert query.style in STYLES
        assert 2 <= len(query.text.split()) <= 22
        assert not re.search(r"[$\\{}\n\ue000-\uf8ff]", query.text)


def test_long_passages_take_linear_time() -> None:
    def ask(size: int) -> None:
        asked(statement("Let $R$ be a ring and let $S$ be a ring, " * size + "then $R$ is called flat.", "definition"))
        half = "$x$ " * 2 * size + "(" * 2 * size + "{\\it a" * size
        asked(statement(f"is {half}", "definition", raw="{\\it a" * size))

    assert is_linear(ask, 2000)


# ---------------------------------------------------------------- a model


def entry(**texts_: str) -> dict[str, Any]:
    given_texts = {
        "question": "When is a Noetherian ring catenary?",
        "keyword": "catenary rings criterion",
        "slogan": "Being catenary is universal for $\\mathbf{Z}$-algebras.",
        "paraphrase": "Chains of primes behave well precisely in the universal case.",
    }
    return given_texts | texts_


def replying(*values: Any) -> Callable[[Iterable[Request]], Iterator[Answer]]:
    """The answers of a model that writes these values, read as the client reads them."""

    def ask(requests: Iterable[Request]) -> Iterator[Answer]:
        for request, value in zip(requests, values, strict=False):
            if isinstance(value, Answer):
                yield value
            else:
                fitted = read_answer(json.dumps(value), request.schema or {}, request.defaults, request.check)
                yield Answer("", fitted.value, error=fitted.complaint, notes=fitted.notes)

    return ask


def test_every_style_becomes_a_pair() -> None:
    options = WrittenOptions(styles=",".join(STYLES))
    first, second = query_requests(shelved(LIBRARY[:2]), options)
    assert "lemma (Ratliff's criterion): Let $R$" in first.user
    assert "lemma: Let $M$" in second.user
    value = entry(question="Is a flat module torsion free?")
    assert fit(value, query_schema(STYLES)).value == value
    _, written = model_queries(shelved(LIBRARY[:2]), replying(entry(), value), options)
    assert not written.unanswered
    assert [pair.relation for pair in written.pairs] == [*STYLES]
    assert written.pairs[0] == Pair("Is a flat module torsion free?", 1, "queries", "question", "model")


def test_one_passage_is_asked_about_with_one_flat_object() -> None:
    library, options = shelved(LIBRARY[:1]), WrittenOptions(styles="question,slogan")
    [request] = query_requests(library, options)
    assert set((request.schema or {})["properties"]) == {"question", "slogan"}
    value = {style: entry()[style] for style in ("question", "slogan")}
    for written_value in (
        value,
        [value],
        {"queries": [value]},
        {"answer": value},
        {"queries": {"passage": 7, **value}},
    ):
        [written] = model_queries(library, replying(written_value), options)
        assert [pair.anchor for pair in written.pairs] == list(value.values()), written_value


def test_the_examples_in_a_prompt_are_valid_answers() -> None:
    options = WrittenOptions(styles=",".join(STYLES))
    [request] = query_requests(shelved(LIBRARY[:1]), options)
    assert request.system == query_prompt(options)
    answers = [json.loads(line) for line in request.system.splitlines() if line.startswith("{")]
    assert len(answers) == 3
    for answer in answers:
        assert fit(answer, request.schema or {}) == (answer, "", (), False)


def test_unusable_queries_are_dropped_with_the_reason() -> None:
    bad = entry(question="What does this lemma say?", keyword="rings", slogan=FOUR[0].text, paraphrase="for $x all")
    [written] = model_queries(shelved(FOUR[:1]), replying(bad), WrittenOptions(styles=",".join(STYLES)))
    assert (written.pairs, written.unanswered) == ([], False)
    assert written.dropped == {
        "speaks of the passage": 1,
        "has fewer than two words": 1,
        "copies the passage": 1,
        "ends inside a formula": 1,
    }


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
def test_any_answer_can_be_read(value: Any) -> None:
    [written] = model_queries(shelved(LIBRARY[:1]), replying(value), WrittenOptions())
    assert not (written.pairs and written.unanswered)


def test_the_passages_of_a_failed_prompt_are_unanswered_and_the_others_continue() -> None:
    ask = replying(Answer("", error="budget"), entry())
    first, second = model_queries(shelved(LIBRARY[:2]), ask, WrittenOptions())
    assert first == ([], True, {}, "budget")
    assert not second.unanswered
    assert {pair.positive for pair in second.pairs} == {1}


def test_answers_that_end_early_are_an_error() -> None:
    def ask(requests: Iterable[Request]) -> Iterator[Answer]:
        list(requests)
        return iter(())

    with pytest.raises(LemmataError, match="d#1"):
        list(model_queries(shelved(LIBRARY[:2]), ask, WrittenOptions()))


def test_a_model_behind_a_server_is_asked_once_within_its_budget(server: Server, tmp_path: Path) -> None:
    latex = json.dumps(entry()).replace("\\\\", "\\")  # as small models write it
    other = json.dumps(entry(question="Is a flat module torsion free?"))
    server.script(
        replies={
            "Noetherian": [{"text": "no JSON"}, {"text": f"Sure!\n```json\n{latex}\n```"}],
            "flat": [{"text": other}],
        }
    )
    chat = Chat(EndpointOptions(server.url, "tiny"), tmp_path / "cache.sqlite", back_off=0.01)
    library, options = shelved(LIBRARY[:2]), WrittenOptions()
    assert chat.preview(query_requests(library, options)).calls == 2
    first = list(model_queries(library, partial(chat.run, budget=Budget(calls=5)), options))
    assert not any(written.unanswered for written in first)
    assert first[0].pairs[2].anchor == "Being catenary is universal for $\\mathbf{Z}$-algebras."
    calls = len(server.calls())
    assert calls == 3  # one was asked again
    assert list(model_queries(library, partial(chat.run, budget=Budget(calls=0)), options)) == first
    assert len(server.calls()) == calls  # everything from the cache, with nothing left to spend
    new = shelved([*LIBRARY[:2], statement("Every prime ideal of a domain is something special here.", identity="d#9")])
    *_, last = model_queries(new, partial(chat.run, budget=Budget(calls=0)), options)
    assert last == ([], True, {}, "budget")
    chat.close()


def test_an_answer_without_any_text_is_corrected_and_not_stored(server: Server, tmp_path: Path) -> None:
    server.script(answer=json.dumps({"question": ""}))
    chat = Chat(EndpointOptions(server.url, "tiny"), tmp_path / "cache.sqlite", back_off=0.01)
    library = shelved(FOUR[:1])
    assert [written.unanswered for written in model_queries(library, chat.run, WrittenOptions())] == [True]
    assert len(server.calls()) == 3
    server.script(answer=json.dumps(entry()))
    assert [written.unanswered for written in model_queries(library, chat.run, WrittenOptions())] == [False]
    assert len(server.calls()) == 1
    chat.close()


def test_one_text_that_is_missing_or_too_long_does_not_cost_the_others(server: Server, tmp_path: Path) -> None:
    partly = {"question": "When is a ring catenary?", "slogan": "x" * 401, "keyword": None}
    server.script(answer=json.dumps(partly))
    chat = Chat(EndpointOptions(server.url, "tiny"), tmp_path / "cache.sqlite", back_off=0.01)
    [written] = model_queries(shelved(FOUR[:1]), chat.run, WrittenOptions())
    chat.close()
    assert [pair.anchor for pair in written.pairs] == ["When is a ring catenary?"]
    assert written.dropped == {"does not fit the schema": 1, "is missing in the answer": 1}  # slogan, key words
    assert len(server.calls()) == 1


def test_every_style_that_an_answer_lacks_is_counted(server: Server, tmp_path: Path) -> None:
    whole = entry()
    cut = json.dumps({"question": whole["question"], "keyword": whole["keyword"], "slogan": "x" * 300})
    misnamed = {"question": whole["question"], "keywords": whole["keyword"], "slogan": whole["slogan"]}
    server.script(replies={FOUR[0].text: [{"text": cut}], FOUR[1].text: [{"text": json.dumps(misnamed)}]})
    endpoint = EndpointOptions(server.url, "tiny", answer_tokens=200)
    for _ in range(2):  # the second time from the cache
        chat = Chat(endpoint, tmp_path / "cache.sqlite", back_off=0.01)
        first, second = model_queries(shelved(FOUR[:2]), chat.run, WrittenOptions())
        chat.close()
        assert [pair.relation for pair in first.pairs] == ["question", "keyword"]
        assert first.dropped == {"the answer breaks off before it": 1}
        assert [pair.relation for pair in second.pairs] == ["question", "slogan"]
        assert second.dropped == {"is missing in the answer": 1}
    assert len(server.calls()) == 2


# ---------------------------------------------------------------- the round trip


def searching(hits: dict[str, list[int]], sizes: list[int]) -> Callable[[Sequence[str], int], Integers]:
    def search(queries: Sequence[str], k: int) -> Integers:
        sizes.append(len(queries))
        rows = [(hits.get(query, []) + [-1] * k)[:k] for query in queries]
        return np.array(rows, np.int64)

    return search


def test_a_query_is_kept_if_it_finds_its_passage_again() -> None:
    pairs = [
        Pair("good", 3, "queries", "question", "defined"),
        Pair("late", 3, "queries", "question", "defined"),
        Pair("lost", 4, "queries", "keyword", "named"),
        Pair(1, 2, "pairs", "refers_to"),
    ]
    search = searching({"good": [1, 3], "late": [1, 2, 3], "lost": [5]}, [])
    asked: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    assert list(round_trip(iter(pairs), search, 2, asked, kept)) == [pairs[0], pairs[3]]
    assert asked == {"keyword": 1, "question": 2}
    assert kept == {"question": 1}


def test_the_filter_streams_in_batches() -> None:
    sizes: list[int] = []
    taken: list[int] = []

    def pairs() -> Iterator[Pair]:
        for number in range(600):
            taken.append(number)
            yield Pair(f"q{number}", number, "queries")

    search = searching({f"q{n}": [n] for n in range(600)}, sizes)
    kept = round_trip(pairs(), search, 10, Counter(), Counter())
    assert next(kept).positive == 0
    assert len(taken) == 256
    assert len(list(kept)) == 599
    assert sizes == [256, 256, 88]


def test_a_search_for_no_hits_is_an_error() -> None:
    with pytest.raises(ConfigError, match="0"):
        list(round_trip([], searching({}, []), 0, Counter(), Counter()))


# ---------------------------------------------------------------- what stands around a passage


def test_a_prompt_may_show_what_stands_around_a_passage_but_nothing_of_another_part() -> None:
    long = "Every ring here is commutative and has an identity element, which is not zero."
    link = Link("refers_to", "e", "e#0")
    passages = [
        Passage("d#0", "d", "definition", f"A frob is a pair. {long}", title="Frob", section="Frobs"),
        Passage("d#1", "d", "remark", f"Held out. {long}", section="Frobs"),
        Passage("d#2", "d", "lemma", f"Frobs are free. {long}", section="Frobs", links=(link,)),
        Passage("d#3", "d", "lemma", f"Frobs are flat. {long}", section="Frobs"),
        Passage("e#0", "e", "theorem", f"Free things are flat. {long}" + " And so on." * 40),
    ]
    documents = [Document("d", title="On frobs"), Document("e")]
    train = shelved(passages, documents, [0, 1, 0, 0, 0])
    plain = {request.user for request in query_requests(train, WrittenOptions())}
    assert f"lemma: Frobs are free. {long}" in plain
    requests = list(query_requests(train, WrittenOptions(context=True)))
    [shown] = [request.user for request in requests if request.user.endswith(f"lemma: Frobs are free. {long}")]
    assert shown.splitlines() == [
        "From: On frobs, Frobs",
        f"Defined before: definition (Frob): A frob is a pair. {long}",
        f"After it: lemma: Frobs are flat. {long}",
        f"It refers to: theorem: {passages[4].text[:300]} …",
        f"lemma: Frobs are free. {long}",
    ]
    assert not any("Held out" in request.user for request in requests)
    rule = "write about the passage alone"
    assert rule in requests[0].system
    assert rule in query_prompt(WrittenOptions(context=True))
    assert rule not in query_prompt(WrittenOptions())
