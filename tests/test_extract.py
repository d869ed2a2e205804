"""Concepts by a model: prompts, how answers are read, and a run against a real server process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm_server import Server

from lemmata.concepts.extract import (
    DEFAULTS,
    RELATIONS,
    SCHEMA,
    SYSTEM,
    ExtractOptions,
    extract,
    extraction_prompts,
    read_extraction,
    shown_passages,
)
from lemmata.errors import LemmataError
from lemmata.llm.answers import fit
from lemmata.llm.chat import Answer, Chat, Request
from lemmata.llm.endpoint import Budget, EndpointOptions
from lemmata.types import CONCEPT_KINDS, Concept, Document, Edge, Passage

PAPER = Document("paper", "Bailey chains", file="paper.tex")
PASSAGES = [
    Passage("paper@1", "paper", "chunk", "A Bailey pair is a pair $(\\alpha_n, \\beta_n)$ of sequences."),
    Passage("paper@2", "paper", "theorem", "Bailey's lemma turns Bailey pairs into new ones.", title="Bailey's lemma"),
    Passage(
        "paper@3", "paper", "chunk", "The Rogers–Ramanujan identities follow from the Bailey lemma,\nas Slater saw."
    ),
]


class Reply(NamedTuple):
    value: Any = None
    error: str = ""
    notes: tuple[str, ...] = ()


def request(prompt: str) -> Request:
    return Request(SYSTEM, prompt, SCHEMA, "extraction", DEFAULTS)


def concept(name: str, kind: str = "object", description: str = "", aliases: Iterable[str] = ()) -> dict[str, Any]:
    return {"name": name, "kind": kind, "description": description, "aliases": list(aliases)}


def relation(source: str, name: str, target: str, quote: str) -> dict[str, Any]:
    return {"source": source, "relation": name, "target": target, "quote": quote}


def answer(concepts: list[Any], relations: list[Any]) -> dict[str, list[Any]]:
    return {"concepts": concepts, "relations": relations}


FROM_LEMMA = "Rogers-Ramanujan identities follow from the Bailey lemma"


def test_the_model_reads_the_ends_of_a_document_or_all_of_it() -> None:
    passages = [Passage(f"d@{number}", "d", "chunk", "text" if number != 1 else " ") for number in range(8)]

    def shown(**options: Any) -> list[str]:
        return [passage.id for passage in shown_passages(passages, ExtractOptions(**options))]

    assert shown() == ["d@0", "d@2", "d@6", "d@7"]
    assert shown(first=1, last=0) == ["d@0"]
    assert shown(first=4, last=4) == shown(chunks="all") == [f"d@{number}" for number in (0, 2, 3, 4, 5, 6, 7)]
    assert shown_passages([], ExtractOptions()) == []


def test_prompts_show_the_text_and_the_closed_lists() -> None:
    [prompt] = extraction_prompts(PAPER, PASSAGES, ExtractOptions())
    for text in ("Bailey chains", *(passage.text for passage in PASSAGES)):
        assert text in prompt
    for text in (*CONCEPT_KINDS, *RELATIONS):
        assert text in SYSTEM
    assert extraction_prompts(Document("empty"), [], ExtractOptions()) == []


def test_long_documents_get_several_prompts_and_lose_nothing() -> None:
    long = Passage("paper@4", "paper", "chunk", "".join(f"word{number} " for number in range(100)))
    prompts = extraction_prompts(PAPER, [*PASSAGES, long], ExtractOptions(chunks="all", characters=300))
    assert len(prompts) > 3
    shown = "".join(prompts)
    assert all(passage.text in shown for passage in PASSAGES)
    assert len(extraction_prompts(PAPER, [long], ExtractOptions(characters=300))) == 1


def test_the_example_in_the_prompt_is_a_valid_answer_of_which_everything_is_kept() -> None:
    passages, _, example = SYSTEM.partition("Example. Passages:\n[1] theorem (")[2].partition("\nAnswer:\n")
    title, _, text = passages.partition("): ")
    value = json.loads(example)
    assert fit(value, SCHEMA) == (value, "", (), False)
    concepts, edges, skips = read_extraction(value, PAPER, [Passage("p", "paper", "theorem", text, title=title)])
    assert skips == []
    assert len(concepts) == len(value["concepts"])
    assert len([edge for edge in edges if edge.relation != "mentions"]) == len(value["relations"])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["word", "Sentence.", "\n\n", "a" * 700, "$x$"]), max_size=200))
def test_a_long_passage_is_split_at_sentences_or_words_and_loses_nothing(words: list[str]) -> None:
    passage = Passage("d@1", "d", "chunk", " ".join(words))
    prompts = extraction_prompts(Document("d"), [passage], ExtractOptions(chunks="all", characters=500))
    pieces = [prompt.partition("chunk: ")[2] for prompt in prompts]
    assert all(len(piece) <= 500 for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(passage.text.split())


def test_other_names_that_the_text_does_not_have_are_left_out() -> None:
    value = answer([concept("Bailey pair", aliases=["Bailey's lemma", "conjugate pair"])], [])
    [found], _, skips = read_extraction(value, PAPER, PASSAGES)
    assert (found.aliases, skips) == (("Bailey's lemma",), [])


def test_an_answer_becomes_concepts_relations_and_mentions() -> None:
    value = answer(
        [
            concept("Bailey pair", "definition", "Two sequences.", ["pair $(\\alpha_n, \\beta_n)$"]),
            concept("Bailey's lemma", "theorem"),
            concept("Rogers-Ramanujan identities", "identity"),
        ],
        [
            relation("Bailey's lemma", "implies", "Rogers–Ramanujan identities", FROM_LEMMA),
            relation("Bailey lemma", "uses", "bailey pairs", "turns Bailey pairs into new ones"),
        ],
    )
    assert fit(value, SCHEMA) == (value, "", (), False)
    concepts, edges, skips = read_extraction(value, PAPER, PASSAGES, maker="tiny")
    assert concepts[0] == Concept(
        "concept:bailey-pair", "Bailey pair", "definition", "Two sequences.", ("pair $(\\alpha_n, \\beta_n)$",)
    )
    lemma, identities = concepts[1].id, concepts[2].id
    assert Edge(lemma, "implies", identities, "paper@3", "tiny") in edges
    found = {(edge.source, edge.target) for edge in edges if edge.relation == "mentions"}
    assert {("paper@1", "concept:bailey-pair"), ("paper@2", "concept:bailey-pair")} <= found
    assert {("paper@2", lemma), ("paper@3", lemma), ("paper@3", identities)} <= found
    assert skips == []


def test_what_the_text_does_not_support_is_skipped_with_its_cause() -> None:
    value = answer(
        [
            concept("Bailey pair"),
            concept("mock theta function"),
            concept(" "),
        ],
        [
            relation("Bailey pair", "uses", "Bailey lemma", "these words stand nowhere in it"),
            relation("Bailey pair", "uses", "modular form", FROM_LEMMA),
            relation("Bailey pair", "uses", "Bailey pair", FROM_LEMMA),
            relation("Slater", "proves", "Rogers-Ramanujan identities", "as Slater saw"),
        ],
    )
    assert fit(value, SCHEMA) == (value, "", (), False)
    concepts, edges, skips = read_extraction(value, PAPER, PASSAGES)
    causes = [skip.cause for skip in skips]
    assert all(skip.file == "paper.tex" for skip in skips)
    for cause in (
        "'mock theta function' does not occur",
        "a concept without a name",
        "its quote stands in no passage",
        "'modular form' is no concept of the text",
        "both ends are the same",
    ):
        assert sum(cause in text for text in causes) == 1, cause
    assert len(skips) == 5
    kept = [edge[:4] for edge in edges if edge.relation != "mentions"]
    assert kept == [("concept:slater", "proves", "concept:rogers-ramanujan-identities", "paper@3")]
    assert {concept.name for concept in concepts} == {"Bailey pair", "Slater", "Rogers-Ramanujan identities"}


def test_a_quote_with_a_word_changed_is_still_found() -> None:
    quote = "The Rogers-Ramanujan identities all follow from the Bailey lemma, as Slater saw"
    value = answer([], [relation("Slater", "related_to", "Bailey lemma", quote)])
    [edge, *_] = read_extraction(value, PAPER, PASSAGES)[1]
    assert edge.evidence == "paper@3"


texts = st.text(max_size=8) | st.sampled_from(["Bailey pair", "bailey pairs", "Slater", "Rogers–Ramanujan", FROM_LEMMA])
answers = st.builds(
    answer,
    st.lists(st.builds(concept, texts, st.sampled_from(CONCEPT_KINDS), texts, st.lists(texts, max_size=3)), max_size=4),
    st.lists(st.builds(relation, texts, st.sampled_from(RELATIONS), texts, texts), max_size=4),
)


@settings(max_examples=100, deadline=None)
@given(answers)
def test_any_answer_is_read_without_an_error_and_gives_only_valid_ids(value: dict[str, list[Any]]) -> None:
    concepts, edges, _ = read_extraction(value, PAPER, PASSAGES)
    nodes = {concept.id for concept in concepts} | {passage.id for passage in PASSAGES}
    assert all({edge.source, edge.target} <= nodes for edge in edges)
    assert all(concept.kind in CONCEPT_KINDS and concept.id.startswith("concept:") for concept in concepts)


def documents(count: int) -> list[tuple[Document, list[Passage]]]:
    return [
        (Document(f"d{n}"), [Passage(f"d{n}@1", f"d{n}", "chunk", f"Every ring{n} is a module{n}.")])
        for n in range(count)
    ]


def ring(number: int) -> dict[str, list[Any]]:
    source, target = f"ring{number}", f"module{number}"
    return answer(
        [concept(source), concept(target)],
        [relation(source, "is_instance_of", target, f"Every {source} is a {target}")],
    )


def test_documents_come_one_by_one_and_failures_are_marked() -> None:
    def ask(prompts: Iterable[str]) -> Iterator[Reply]:
        for number, _ in enumerate(prompts):
            yield Reply(error="status 500") if number == 1 else Reply(ring(number))

    corpus = documents(4)
    corpus.insert(1, (Document("empty"), []))
    corpus.append((Document("last"), []))
    extractions = list(extract(corpus, ask))
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
    def ask(prompts: Iterable[str]) -> Iterator[Reply]:
        for name, _ in zip(names, prompts, strict=True):
            yield Reply(answer([concept("Bailey pair", aliases=[name])], []))

    names = ("pair", "Bailey's lemma", "Slater")
    [extraction] = extract([(PAPER, PASSAGES)], ask, ExtractOptions(chunks="all", characters=80))
    assert extraction.complete
    assert extraction.concepts == [Concept("concept:bailey-pair", "Bailey pair", aliases=names)]


def test_missing_answers_are_an_error() -> None:
    with pytest.raises(LemmataError, match="before d0 is answered"):
        list(extract(documents(1), lambda prompts: iter(list(prompts)[1:])))  # type: ignore[arg-type]


def test_an_interrupted_extraction_resumes_within_its_budget(tmp_path: Path) -> None:
    corpus = documents(20)
    server = Server(tmp_path / "journal")
    replies = {f"ring{n} ": [{"text": json.dumps(ring(n))}] * 3 for n in range(20)}
    server.change(replies=replies)

    def opened(url: str) -> Chat:
        return Chat(EndpointOptions(url, "tiny", concurrency=2, retries=1), tmp_path / "cache", back_off=0.01)

    first_run = []
    chat = opened(server.url)
    for extraction in extract(corpus, lambda prompts: chat.run(map(request, prompts))):
        first_run.append(extraction)
        if len(first_run) == 5:
            server.kill()
    complete = {extraction.document for extraction in first_run if extraction.complete}
    assert len(first_run) == 20
    assert 5 <= len(complete) <= 20
    chat.close()

    server = Server(tmp_path / "journal")
    server.change(replies=replies)
    calls_before = len(server.calls())
    chat, budget = opened(server.url), Budget(calls=20 - len(complete))

    def ask(prompts: Iterable[str]) -> Iterator[Answer]:
        return chat.run(map(request, prompts), budget=budget)

    rest = [(document, passages) for document, passages in corpus if document.id not in complete]
    second_run = list(extract(rest, ask))
    assert {extraction.document for extraction in second_run} | complete == {document.id for document, _ in corpus}
    assert all(extraction.complete for extraction in second_run)
    assert len(server.calls()) - calls_before == 20 - len(complete)
    extractions = [extraction for extraction in first_run if extraction.complete] + second_run
    relations = [edge for extraction in extractions for edge in extraction.edges if edge.relation == "is_instance_of"]
    assert sorted(edge.evidence for edge in relations) == sorted(f"d{n}@1" for n in range(20))
    server.kill()
    chat.close()


def asked_of_a_server(tmp_path: Path, *answers: Any) -> tuple[list[Any], int]:
    """The extractions of the paper above by a model that gives these answers in turn, and the number of calls."""
    server = Server(tmp_path / "journal")
    server.change(replies={"Bailey chains": [{"text": json.dumps(value)} for value in answers]})
    chat = Chat(EndpointOptions(server.url, "tiny", retries=1), tmp_path / "cache", back_off=0.01)
    extractions = list(extract([(PAPER, PASSAGES)], lambda prompts: chat.run(map(request, prompts))))
    calls = len(server.calls())
    chat.close()
    server.kill()
    return extractions, calls


def test_an_unknown_kind_is_the_nearest_known_one_or_object_and_loses_nothing(tmp_path: Path) -> None:
    value = answer(
        [
            concept("Bailey pair", "Definition"),
            concept("Bailey's lemma", "lemma"),
            concept("Rogers-Ramanujan identities", "identities"),
            concept("Slater", "a person"),
            concept("sequences", "theorem or identity"),
        ],
        [
            relation("Bailey lemma", "Related To", "Slater", FROM_LEMMA),
            relation("Slater", "knows", "Bailey", FROM_LEMMA),
        ],
    )
    [extraction], calls = asked_of_a_server(tmp_path, value)
    assert (extraction.complete, calls) == (True, 1)
    assert {concept.name: concept.kind for concept in extraction.concepts} == {
        "Bailey pair": "definition",
        "Bailey's lemma": "object",
        "Rogers-Ramanujan identities": "identity",
        "Slater": "person",
        "sequences": "object",
    }
    assert [edge.relation for edge in extraction.edges if edge.relation != "mentions"] == ["related_to"]
    causes = [skip.cause for skip in extraction.skips]
    assert len(causes) == 3
    assert "'lemma'" in causes[0].replace('"', "'")
    assert "'object' is used" in causes[0]
    assert "'theorem or identity'" in causes[1].replace('"', "'")
    assert "relations[1].relation" in causes[2]
    assert {skip.file for skip in extraction.skips} == {"paper.tex"}
    assert all(cause.startswith("paper: ") for cause in causes)


def test_entries_of_a_wrong_shape_are_skipped_and_the_others_kept(tmp_path: Path) -> None:
    concepts: list[Any] = [
        {"name": "Bailey pair", "aliases": "pair", "score": 0.9},  # no kind, no description, one alias
        {"kind": "object", "description": "without a name", "aliases": []},
        "Slater",
        concept("Bailey's lemma", aliases=["x" * 300, "lemma"]),
    ]
    [extraction], calls = asked_of_a_server(tmp_path, {"concepts": concepts})
    assert (extraction.complete, calls) == (True, 1)
    assert [concept.name for concept in extraction.concepts] == ["Bailey pair", "Bailey's lemma"]
    assert [concept.aliases for concept in extraction.concepts] == [("pair",), ("lemma",)]
    causes = " ".join(skip.cause for skip in extraction.skips)
    for cause in ("concepts[1] lacks 'name'", "concepts[2] must be of type object", "aliases[0]", "lacks 'relations'"):
        assert cause in causes, cause
    assert len(extraction.skips) == 4


def test_a_bare_list_of_concepts_is_used(tmp_path: Path) -> None:
    [extraction], calls = asked_of_a_server(tmp_path, [concept("Bailey pair"), concept("Bailey's lemma")])
    assert (extraction.complete, calls) == (True, 1)
    assert [concept.name for concept in extraction.concepts] == ["Bailey pair", "Bailey's lemma"]


def test_an_answer_without_any_valid_entry_is_asked_again(tmp_path: Path) -> None:
    [extraction], calls = asked_of_a_server(tmp_path, {"concepts": [{"nom": "x"}], "relations": []}, ring(0) | {"x": 1})
    assert (extraction.complete, calls) == (True, 2)
