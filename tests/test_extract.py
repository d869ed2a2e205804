"""Concepts by a model: prompts, how answers are read, and a run against a real server process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.llm_server import Server

from lemmata.core.errors import LemmataError
from lemmata.core.types import CONCEPT_KINDS, Concept, Document, Edge, Passage, Skip
from lemmata.graph.concepts.extract import (
    DEFAULTS,
    RELATIONS,
    SCHEMA,
    SYSTEM,
    Prompt,
    Sentence,
    complaint_of,
    extract,
    extraction_prompts,
    narrow_schema,
    read_extraction,
    reason_of,
    shown_passages,
)
from lemmata.graph.concepts.terms import key_of
from lemmata.graph.extract import ExtractOptions
from lemmata.llm.answers import fit
from lemmata.llm.chat import Answer, Chat, Request
from lemmata.llm.endpoint import EndpointOptions

PAPER = Document("paper", "Bailey chains", file="paper.tex")
PASSAGES = [
    Passage("paper@1", "paper", "chunk", "A Bailey pair is a pair $(\\alpha_n, \\beta_n)$ of sequences."),
    Passage("paper@2", "paper", "theorem", "Bailey's lemma turns Bailey pairs into new ones.", title="Bailey's lemma"),
    Passage(
        "paper@3", "paper", "chunk", "The Rogers–Ramanujan identities follow from the Bailey lemma,\nas Slater saw."
    ),
]


def request(prompt: Prompt) -> Request:
    return Request(SYSTEM, prompt.text, SCHEMA, "extraction", DEFAULTS, complaint_of, narrow_schema(prompt))


def concept(name: str, kind: str = "object", description: str = "") -> dict[str, Any]:
    return {"name": name, "kind": kind, "description": description}


def relation(source: str, name: str, target: str, words: str = "") -> dict[str, Any]:
    return {"source": source, "relation": name, "target": target, "words": words}


def entry(number: int, concepts: Iterable[Any] = (), relations: Iterable[Any] = ()) -> dict[str, Any]:
    return {str(number): {"concepts": list(concepts), "relations": list(relations)}}


def answer(*entries: dict[str, Any]) -> dict[str, Any]:
    return {number: value for each in entries for number, value in each.items()}


def read(value: dict[str, Any], maker: str = "llm") -> tuple[list[Concept], list[Edge], list[Skip]]:
    """What is kept and dropped of an answer about the paper above."""
    [prompt] = extraction_prompts(PASSAGES, ExtractOptions())
    return read_extraction([(prompt, value)], PAPER, PASSAGES, maker=maker)


def relations_of(edges: Iterable[Edge]) -> list[tuple[str, ...]]:
    return [edge[:4] for edge in edges if edge.source.startswith("concept:")]


def test_the_model_reads_the_ends_of_a_document_or_all_of_it() -> None:
    passages = [Passage(f"d@{number}", "d", "chunk", "text" if number != 1 else " ") for number in range(8)]

    def shown(**options: Any) -> list[str]:
        return [passage.id for passage in shown_passages(passages, ExtractOptions(**options))]

    assert shown() == ["d@0", "d@2", "d@6", "d@7"]
    assert shown(chunks="all") == [f"d@{number}" for number in (0, 2, 3, 4, 5, 6, 7)]
    assert shown_passages([], ExtractOptions()) == []


def test_prompts_show_numbered_sentences_and_the_closed_lists() -> None:
    [prompt] = extraction_prompts(PASSAGES, ExtractOptions())
    assert prompt.text.splitlines() == [
        "[1] A Bailey pair is a pair $(\\alpha_n, \\beta_n)$ of sequences.",
        "[2] theorem (Bailey's lemma): Bailey's lemma turns Bailey pairs into new ones.",
        "[3] The Rogers–Ramanujan identities follow from the Bailey lemma, as Slater saw.",
    ]
    assert prompt.sentences == (
        Sentence(PASSAGES[0].text, "paper@1"),
        Sentence(PASSAGES[1].text, "paper@2", "Bailey's lemma"),
        Sentence(PASSAGES[2].text, "paper@3"),
    )
    for text in (*CONCEPT_KINDS, *RELATIONS):
        assert text in SYSTEM
    assert extraction_prompts([], ExtractOptions()) == []


def test_long_formulas_and_sentences_of_formulas_are_not_shown() -> None:
    formula = "$" + "x" * 100 + "$"
    text = f"Let $x=1$. Then {formula} holds. Every ring has a unit, and {formula} is an identity."
    [prompt] = extraction_prompts([Passage("p", "d", "chunk", text)], ExtractOptions())
    assert prompt.text == "[1] Every ring has a unit, and $…$ is an identity."
    assert prompt.sentences[0].text.endswith(f"{formula} is an identity.")


def test_long_documents_get_several_prompts_and_lose_nothing() -> None:
    said = [f"Word number {number} is said{' again' * (number // 2)}." for number in range(100)]
    long = Passage("paper@4", "paper", "chunk", " ".join(said))
    prompts = extraction_prompts([*PASSAGES, long], ExtractOptions(chunks="all"))
    shown = [sentence.text for prompt in prompts for sentence in prompt.sentences]
    assert shown == [*(passage.text for passage in PASSAGES), *said]
    assert all(len(prompt.sentences) <= 10 and len(prompt.text) < 2_100 for prompt in prompts)
    assert {len(prompt.sentences) for prompt in prompts} > {6, 10}  # by their length, and by their number
    assert len(extraction_prompts([long], ExtractOptions())) < len(prompts)


def test_the_example_in_the_prompt_is_a_valid_answer_of_which_everything_is_kept() -> None:
    text, _, example = SYSTEM.partition("Example text:\n")[2].partition("\n\nAnswer:\n")
    lines = [line.partition("] ")[2] for line in text.splitlines()]
    value = json.loads(example)
    assert fit(value, SCHEMA) == (value, "", (), False)
    passages = [Passage(f"p{number}", "paper", "chunk", line) for number, line in enumerate(lines)]
    prompt = Prompt(text, tuple(Sentence(passage.text, passage.id) for passage in passages))
    concepts, edges, skips = read_extraction([(prompt, value)], PAPER, passages)
    assert skips == []
    assert len(concepts) == sum(len(entry["concepts"]) for entry in value.values())
    assert len(relations_of(edges)) == sum(len(entry["relations"]) for entry in value.values())
    narrow = fit(value, narrow_schema(prompt), DEFAULTS)
    assert (narrow.complaint, narrow.notes) == ("", ())
    assert all(entry["relations"] == narrow.value[number].get("relations", []) for number, entry in value.items())


@given(st.lists(st.sampled_from(["word", "cyclic groups act", "Sentence.", "\n\n", "a" * 2_800, "$x$"]), max_size=200))
def test_no_piece_of_a_passage_with_words_is_lost(words: list[str]) -> None:
    passage = Passage("d@1", "d", "chunk", " ".join(words))
    prompts = extraction_prompts([passage], ExtractOptions(chunks="all"))
    pieces = [sentence.text for prompt in prompts for sentence in prompt.sentences]
    assert all(len(piece) <= 1_000 for piece in pieces)
    left = " ".join(passage.text.split())
    for piece in pieces:
        before, found, left = left.partition(" ".join(piece.split()))
        assert found
        assert "cyclic groups act" not in before
    assert "cyclic groups act" not in left


def test_an_answer_becomes_concepts_relations_and_mentions() -> None:
    value = answer(
        entry(1, [concept("Bailey pair", "definition")]),
        entry(2, [concept("Bailey's lemma", "theorem")], [relation("Bailey lemma", "related_to", "bailey pairs")]),
        entry(
            3,
            [concept("Rogers-Ramanujan identities", "identity")],
            [relation("Bailey's lemma", "implies", "Rogers–Ramanujan identities")],
        ),
    )
    assert fit(value, SCHEMA) == (value, "", (), False)
    concepts, edges, skips = read(value, maker="tiny")
    description = "A Bailey pair is a pair $(\\alpha_n, \\beta_n)$ of sequences."
    assert concepts[0] == Concept("concept:bailey-pair", "Bailey pair", "definition", description)
    assert [concept.description for concept in concepts[1:]] == ["", ""]  # their sentences do not say what they are
    lemma, identities = concepts[1].id, concepts[2].id
    assert Edge(lemma, "implies", identities, "paper@3", "tiny") in edges
    assert Edge(lemma, "related_to", "concept:bailey-pair", "paper@2", "tiny") in edges
    found = {(edge.source, edge.target) for edge in edges if edge.relation == "mentions"}
    assert {("paper@1", "concept:bailey-pair"), ("paper@2", "concept:bailey-pair")} <= found
    assert {("paper@2", lemma), ("paper@3", lemma), ("paper@3", identities)} <= found
    assert [edge[:3] for edge in edges if edge.relation == "defines"] == [("paper@1", "defines", "concept:bailey-pair")]
    assert skips == []


def test_what_the_text_does_not_support_is_skipped_with_its_cause() -> None:
    value = answer(
        entry(
            1,
            [concept("Bailey pair"), concept("mock theta function"), concept(" ")],
            [relation("Bailey pair", "uses", "Slater")],  # each stands in the text, not in one passage
        ),
        entry(
            2,
            [],
            [relation("Bailey pair", "uses", "modular form"), relation("Bailey pair", "uses", "Bailey pairs")],
        ),
        entry(3, [], [relation("Slater", "related_to", "Rogers-Ramanujan identities")]),
        entry(9, [concept("sequences")], [relation("Slater", "uses", "Bailey lemma")]),
    )
    concepts, edges, skips = read(value)
    causes = [skip.cause for skip in skips]
    assert all(skip.file == "paper.tex" for skip in skips)
    for cause in (
        "'mock theta function' does not occur",
        "a concept without a name",
        "'Slater' does not stand in the passage",
        "'modular form' does not stand in the passage",
        "both ends are the same",
        "its sentence does not exist",
    ):
        assert sum(cause in text for text in causes) == 1, cause
    assert len(skips) == 6
    assert [reason_of(skip).partition(":")[0] for skip in skips] == ["concept"] * 2 + ["relation"] * 4
    assert relations_of(edges) == [("concept:slater", "related_to", "concept:rogers-ramanujan-identities", "paper@3")]
    assert {concept.name for concept in concepts} == {
        "Bailey pair",
        "sequences",
        "Slater",
        "Rogers-Ramanujan identities",
    }


def test_a_relation_of_which_the_text_has_no_word_is_unsupported() -> None:
    value = answer(
        entry(2, [], [relation("Bailey's lemma", "generalizes", "Bailey pair")]),
        entry(3, [], [relation("Bailey lemma", "implies", "Rogers-Ramanujan identities")]),
    )
    _, edges, skips = read(value)
    assert [edge[1] for edge in relations_of(edges)] == ["implies"]
    assert [reason_of(skip) for skip in skips] == ["relation: the text does not say it"]


GORDON = "Gordon's theorem is on partitions. Letting $k = 2$ in it one recovers the Rogers identities."


@pytest.mark.parametrize(
    ("name", "quote", "kept"),
    [
        ("generalizes", "Letting $k = 2$ in it one recovers the Rogers identities", True),
        ("generalizes", "", False),  # no word between the names in one sentence
        ("generalizes", "Gordon's theorem generalizes the Rogers identities", False),  # no quote of this text
        ("generalizes", "Gordon's theorem is on partitions", False),  # a quote without a word for it
        ("generalizes", "one recovers the", False),  # a quote without a name
        ("related_to", "one recovers the Rogers identities", False),  # one of the names
    ],
)
def test_a_quote_of_the_passage_supports_a_relation_that_no_sentence_states(name: str, quote: str, kept: bool) -> None:
    passage = Passage("p", "d", "chunk", GORDON)
    [prompt] = extraction_prompts([passage], ExtractOptions())
    value = entry(2, [], [relation("Gordon's theorem", name, "Rogers identities", quote)])
    _, edges, _ = read_extraction([(prompt, value)], Document("d"), [passage])
    expected = ("concept:gordons-theorem", name, "concept:rogers-identities", "p")
    assert relations_of(edges) == ([expected] if kept else [])


def test_a_description_is_kept_where_its_passage_has_its_words_and_defines_the_concept() -> None:
    passage = Passage("p", "d", "chunk", "Partitions whose parts differ by at least two are counted by $B(n)$.")
    [prompt] = extraction_prompts([passage], ExtractOptions())
    own, foreign = "Sequences of parts that differ by two or more.", "A division of a set into disjoint subsets."
    for description, reasons in ((own, []), (foreign, ["description: not what the passage says"])):
        value = entry(1, [concept("Partitions", "definition", description)])
        [found], edges, skips = read_extraction([(prompt, value)], Document("d"), [passage])
        assert found.description == (own if description == own else "")
        assert [reason_of(skip) for skip in skips] == reasons
        assert ("p", "defines", found.id) in [edge[:3] for edge in edges] or description == foreign


@pytest.mark.parametrize(
    ("description", "kept"),
    [
        ("The kernel is a subspace of $V$.", True),  # one word besides the name, but all of the sentence
        ("The kernel is a quotient of $V$.", False),
        ("The kernel.", False),
    ],
)
def test_a_short_description_is_kept_where_its_sentence_has_all_of_its_words(description: str, kept: bool) -> None:
    passage = Passage("p", "d", "chunk", "Then the kernel $\\ker T$ is, as one sees, a subspace of $V$.")
    [prompt] = extraction_prompts([passage], ExtractOptions())
    value = entry(1, [concept("kernel", "object", description)])
    [found], *_ = read_extraction([(prompt, value)], Document("d"), [passage])
    assert found.description == (description if kept else "")


@pytest.mark.parametrize(
    ("sentence", "source", "relation_name", "target", "kept"),
    [
        ("Every field is a ring.", "field", "is_instance_of", "ring", True),
        ("Every field is a ring.", "ring", "is_instance_of", "field", False),
        ("A field $F$ is not an ordered set.", "field", "is_instance_of", "ordered set", False),
        ("If $k$ is a field, then every module is free.", "module", "is_instance_of", "field", False),
        (
            "Gordon's theorem generalizes the Rogers identities.",
            "Gordon theorem",
            "generalizes",
            "Rogers identity",
            True,
        ),
        ("The theta sum is a special case of the triple product.", "triple product", "generalizes", "theta sum", True),
        ("Cauchy's theorem follows from Sylow's theorem.", "Sylow's theorem", "implies", "Cauchy's theorem", True),
        ("Cauchy's theorem follows from Sylow's theorem.", "Cauchy's theorem", "implies", "Sylow's theorem", False),
        ("Local rings are equivalent to stalks here.", "stalk", "equivalent_to", "local ring", True),
        ("The even graph is a graph.", "even graph", "is_instance_of", "graph", True),  # one name inside the other
        ("An example of a ring is a field.", "field", "is_instance_of", "ring", True),
        ("An example of a ring is a field.", "ring", "is_instance_of", "field", False),
        ("A chart (also known as a patch) is open.", "patch", "equivalent_to", "chart", True),
        ("A cover, or sometimes an envelope, is unique.", "cover", "equivalent_to", "envelope", True),
    ],
)
def test_a_relation_is_kept_as_it_is_only_where_the_words_between_its_names_state_it(
    sentence: str, source: str, relation_name: str, target: str, kept: bool
) -> None:
    passage = Passage("p", "d", "chunk", sentence)
    [prompt] = extraction_prompts([passage], ExtractOptions())
    value = entry(1, [], [relation(source, relation_name, target)])
    edges = read_extraction([(prompt, value)], Document("d"), [passage])[1]
    assert [edge[1] for edge in relations_of(edges)] == ([relation_name] if kept else [])
    quoted = entry(1, [], [relation(source, relation_name, target, sentence)])
    edges = read_extraction([(prompt, quoted)], Document("d"), [passage])[1]
    left = ["related_to"] if source == "module" else []  # the quote has both names, the other way round
    assert [edge[1] for edge in relations_of(edges)] == ([relation_name] if kept else left)


@pytest.mark.parametrize(
    ("relation_name", "source", "target", "quote", "kept"),
    [
        ("uses", "subbasis", "intersection property", "which has the intersection property", "uses"),
        ("uses", "subbasis", "intersection property", "a family with the cup", ""),  # no quote of this text
        ("uses", "intersection property", "subbasis", "which has the intersection property", "related_to"),
        ("implies", "subbasis", "intersection property", "which has the intersection property", "related_to"),
    ],
)
def test_a_quote_states_a_relation_in_the_order_of_the_names(
    relation_name: str, source: str, target: str, quote: str, kept: str
) -> None:
    passage = Passage("p", "d", "chunk", "A subbasis of a filter is a family which has the intersection property.")
    [prompt] = extraction_prompts([passage], ExtractOptions())
    value = entry(1, [], [relation(source, relation_name, target, quote)])
    edges = read_extraction([(prompt, value)], Document("d"), [passage])[1]
    assert [edge[1] for edge in relations_of(edges)] == ([kept] if kept else [])


def test_half_a_pair_of_brackets_is_no_part_of_a_name() -> None:
    passage = Passage("p", "d", "chunk", "Both agree with the (arithmetic) genus.")
    [prompt] = extraction_prompts([passage], ExtractOptions())
    [found], *_ = read_extraction([(prompt, entry(1, [concept("arithmetic) genus")]))], Document("d"), [passage])
    assert found.name == "arithmetic genus"


def test_a_sentence_of_two_passages_is_asked_about_once() -> None:
    passages = [
        Passage("p", "d", "chunk", "A ring is here. A field is there."),
        Passage("q", "d", "chunk", "A field is there."),
    ]
    [prompt] = extraction_prompts(passages, ExtractOptions())
    assert [(sentence.text, sentence.passage) for sentence in prompt.sentences] == [
        ("A ring is here.", "p"),
        ("A field is there.", "p"),
    ]


def test_a_quote_with_both_names_and_no_word_for_the_relation_is_related_to() -> None:
    passage = Passage("p", "d", "chunk", "The rank of a partition is its largest part minus its number of parts.")
    [prompt] = extraction_prompts([passage], ExtractOptions())
    quote = "rank of a partition is its largest part"
    _, edges, skips = read_extraction(
        [(prompt, entry(1, [], [relation("rank", "generalizes", "largest part", quote)]))], Document("d"), [passage]
    )
    assert [edge[1] for edge in relations_of(edges)] == ["related_to"]
    assert [reason_of(skip) for skip in skips] == [""]


@pytest.mark.parametrize(
    ("name", "sentence", "described"),
    [
        ("lattice word", "A sequence is a lattice word (or Yamanouchi word) if each initial segment is.", True),
        ("quotient field", "The field $F$ is called the quotient field of $A$.", True),
        ("characteristic of a field", "The characteristic of a field $F$ is the order of $1$.", True),
        ("field extensions", "Field extensions are injections of fields.", True),
        ("module", "If $k$ is a field, then every module is free.", False),
        ("prime", "If $p$ is a prime, then the ring is a field.", False),
        ("ring", "There is a ring involution of this algebra.", False),
        ("degree", "Its degree is at most three for all rings.", False),
    ],
)
def test_a_sentence_describes_only_the_concept_that_it_defines(name: str, sentence: str, described: bool) -> None:
    passage = Passage("p", "d", "chunk", sentence)
    [prompt] = extraction_prompts([passage], ExtractOptions())
    [found], *_ = read_extraction([(prompt, entry(1, [concept(name)]))], Document("d"), [passage])
    assert found.description == (sentence if described else "")


texts = st.text(max_size=8) | st.sampled_from(["Bailey pair", "bailey pairs", "Slater", "Rogers–Ramanujan"])
entries = st.builds(
    entry,
    st.integers(1, 5),
    st.lists(st.builds(concept, texts, st.sampled_from(CONCEPT_KINDS), texts), max_size=3),
    st.lists(st.builds(relation, texts, st.sampled_from(RELATIONS), texts, texts), max_size=3),
)


@given(st.lists(entries, max_size=4))
def test_any_answer_is_read_without_an_error_and_every_relation_has_its_evidence(values: list[dict[str, Any]]) -> None:
    concepts, edges, skips = read(answer(*values))
    names = {concept.id: concept.name for concept in concepts}
    texts = {passage.id: f" {key_of(passage.title)} {key_of(passage.text)} " for passage in PASSAGES}
    assert all(concept.kind in CONCEPT_KINDS and concept.id.startswith("concept:") for concept in concepts)
    for source, _, target, evidence in relations_of(edges):
        assert all(f" {key_of(names[end])} " in texts[evidence] for end in (source, target))
    given_relations = sum(len(each["relations"]) for each in answer(*values).values())
    dropped = sum(reason_of(skip).startswith("relation") for skip in skips)
    assert len(relations_of(edges)) <= given_relations - dropped


def documents(count: int) -> list[tuple[Document, list[Passage]]]:
    return [
        (Document(f"d{n}"), [Passage(f"d{n}@1", f"d{n}", "chunk", f"Every ring{n} is a module{n}.")])
        for n in range(count)
    ]


def ring(number: int) -> dict[str, list[Any]]:
    source, target = f"ring{number}", f"module{number}"
    return answer(entry(1, [concept(source), concept(target)], [relation(source, "is_instance_of", target)]))


def test_documents_come_one_by_one_and_failures_are_marked() -> None:
    def ask(prompts: Iterable[Prompt]) -> Iterator[Answer]:
        for number, _ in enumerate(prompts):
            yield Answer("", error="status 500") if number == 1 else Answer("", ring(number))

    corpus = documents(4)
    corpus.insert(1, (Document("empty"), []))
    corpus.append((Document("last"), []))
    extractions = list(extract(corpus, ask, ExtractOptions()))
    assert [(extraction.document, extraction.complete) for extraction in extractions] == [
        ("d0", True),
        ("empty", True),
        ("d1", False),
        ("d2", True),
        ("d3", True),
        ("last", True),
    ]
    assert "status 500" in extractions[2].skips[0].cause
    assert "no text" in extractions[1].skips[0].cause
    assert [len(extraction.concepts) for extraction in extractions] == [2, 0, 0, 2, 2, 0]


def test_several_prompts_of_a_document_are_one_extraction() -> None:
    def ask(prompts: Iterable[Prompt]) -> Iterator[Answer]:
        for name, _ in zip(("Bailey pairs", "Bailey pair"), prompts, strict=True):
            yield Answer("", answer(entry(1, [concept(name)])), truncated=name == "Bailey pair")

    long = Passage(
        "paper@0", "paper", "chunk", " ".join(f"Bailey pairs occur in case {number}." for number in range(10))
    )
    [extraction] = extract([(PAPER, [long, PASSAGES[0]])], ask, ExtractOptions(chunks="all"))
    assert extraction.complete
    [pair] = extraction.concepts
    assert pair.description == PASSAGES[0].text
    assert [reason_of(skip) for skip in extraction.skips] == ["the end of an answer that breaks off"]


def test_missing_answers_are_an_error() -> None:
    with pytest.raises(LemmataError, match="d0"):
        list(extract(documents(1), lambda prompts: iter(list(prompts)[1:]), ExtractOptions()))  # type: ignore[arg-type]


def asked_of_a_server(server: Server, folder: Path, *answers: Any) -> tuple[list[Any], int]:
    """The extractions of the paper above by a model that gives these answers in turn, and the number of calls."""
    server.script(replies={"A Bailey pair": [{"text": json.dumps(value)} for value in answers]})
    with closing(Chat(EndpointOptions(server.url, "tiny"), folder / "cache", retries=1, back_off=0.01)) as chat:
        found = extract([(PAPER, PASSAGES)], lambda prompts: chat.run(map(request, prompts)), ExtractOptions())
        return list(found), len(server.calls())


def test_an_unknown_kind_is_the_nearest_known_one_or_object_and_loses_nothing(server: Server, tmp_path: Path) -> None:
    value = answer(
        entry(1, [concept("Bailey pair", "Definition"), concept("sequences", "theorem or identity")]),
        entry(2, [concept("Bailey's lemma", "lemma")]),
        entry(
            3,
            [concept("Rogers-Ramanujan identities", "identities"), concept("Slater", "a person")],
            [relation("Slater", "knows", "Bailey lemma"), relation("Bailey lemma", "Related To", "Slater")],
        ),
    )
    [extraction], calls = asked_of_a_server(server, tmp_path, value)
    assert (extraction.complete, calls) == (True, 1)
    assert {concept.name: concept.kind for concept in extraction.concepts} == {
        "Bailey pair": "definition",
        "sequences": "object",
        "Bailey's lemma": "object",
        "Rogers-Ramanujan identities": "identity",
        "Slater": "person",
    }
    assert [edge[1] for edge in relations_of(extraction.edges)] == ["related_to"]
    causes = [skip.cause for skip in extraction.skips]
    assert len(causes) == 3
    assert sum("'object' is used" in cause for cause in causes) == 2
    assert "relations[0].relation" in causes[2]
    assert [reason_of(skip) for skip in extraction.skips] == ["", "", "relation: does not fit the schema"]
    assert {skip.file for skip in extraction.skips} == {"paper.tex"}
    assert all(cause.startswith("paper: ") for cause in causes)


def test_entries_of_a_wrong_shape_are_skipped_and_the_others_kept(server: Server, tmp_path: Path) -> None:
    value = {
        "1": {"concepts": [{"name": "Bailey pair", "score": 0.9}, {"kind": "object"}, "Slater"]},
        "two": {"concepts": [concept("sequences")], "relations": []},
        **entry(2, [concept("Bailey's lemma")]),
    }
    [extraction], calls = asked_of_a_server(server, tmp_path, {"sentences": value})
    assert (extraction.complete, calls) == (True, 1)
    assert [concept.name for concept in extraction.concepts] == ["Bailey pair", "Bailey's lemma"]
    causes = " ".join(skip.cause for skip in extraction.skips)
    for cause in ("concepts[1] lacks 'name'", "concepts[2] = 'Slater' should be an object"):
        assert cause in causes, cause
    assert len(extraction.skips) == 2


def test_a_server_that_follows_schemas_is_given_the_names_of_each_sentence() -> None:
    [prompt] = extraction_prompts(PASSAGES, ExtractOptions())
    schema = narrow_schema(prompt)
    assert schema["required"] == ["1", "2", "3"]

    def names(number: str) -> list[str]:
        names: list[str] = schema["properties"][number]["properties"]["concepts"]["items"]["properties"]["name"]["enum"]
        return names

    assert names("1") == ["Bailey", "Bailey pair", "sequences"]
    assert {"Bailey's lemma", "Bailey pairs"} <= {*names("2")}
    assert {"Rogers–Ramanujan identities", "Bailey lemma", "Slater"} <= {*names("3")}
    relations = schema["properties"]["3"]["properties"]["relations"]["items"]["properties"]
    assert relations["source"]["enum"] == relations["target"]["enum"] == names("3")


@given(st.lists(st.sampled_from("Every cyclic group of the order $p^2$ is abelian . , q-series Pumpe P12".split())))
def test_every_name_that_is_offered_stands_in_the_text_so_that_the_record_is_kept(words: list[str]) -> None:
    passage = Passage("p", "d", "chunk", " ".join(words))
    for prompt in extraction_prompts([passage], ExtractOptions()):
        concepts_of = narrow_schema(prompt)["properties"]["1"]["properties"]["concepts"]
        names = concepts_of["items"]["properties"]["name"]["enum"]
        value = entry(1, map(concept, names))
        concepts, _, skips = read_extraction([(prompt, value)], Document("d"), [passage])
        assert skips == []
        assert {key_of(name) for name in names} == {key_of(concept.name) for concept in concepts}


def test_an_answer_without_any_valid_entry_is_asked_again(server: Server, tmp_path: Path) -> None:
    [extraction], calls = asked_of_a_server(server, tmp_path, {"sentences": [{"nom": "x"}]}, ring(0) | {"x": 1})
    assert (extraction.complete, calls) == (True, 2)
