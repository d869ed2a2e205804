"""Tasks: queries and relevant passages from a corpus and from files."""

from __future__ import annotations

import numpy as np
import pytest

from lemmata.core.errors import InputError
from lemmata.core.types import Concept, Document, Link, Passage
from lemmata.evaluate.tasks import concepts_task, documents_task, held_out, references_task, task_from

PASSAGES = [
    Passage("a#abstract-1", "a", "abstract", "About a."),
    Passage("a#1", "a", "lemma", "One.", title="Name", links=(Link("refers_to", "2", "a#2"), Link("cites", "k", "b"))),
    Passage("a#2", "a", "lemma", "Two.", links=(Link("proof_uses", "1", "b#1"), Link("refers_to", "self", "a#2"))),
    Passage("a@1", "a", "chunk", "Prose.", links=(Link("refers_to", "2", "a#2"),)),
    Passage("b#1", "b", "theorem", "Three.", links=(Link("refers_to", "x", "a@1"), Link("refers_to", "y", None))),
]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_statement_is_the_query_for_the_statements_it_refers_to() -> None:
    task = references_task(PASSAGES, {"a", "b"}, generator=generator())
    assert task.queries == {"a#1": "Name. One.", "a#2": "Two."}
    assert task.qrels == {"a#1": {"a#2": 1}, "a#2": {"b#1": 1}}
    assert task.itself == {"a#1": "a#1", "a#2": "a#2"}
    assert task.candidates is not None
    assert task.candidates.tolist() == [False, True, True, False, True]


def test_where_there_are_only_abstracts_papers_cite_papers() -> None:
    passages = [
        Passage("a", "a", "abstract", "One.", links=(Link("cites", "b", "b"), Link("cites", "a", "a"))),
        Passage("b#abstract-1", "b", "abstract", "Two.", links=(Link("cites", "x"), Link("cites", "c", "c"))),
        Passage("c@1", "c", "chunk", "Three.", links=(Link("cites", "a", "a"),)),
    ]
    task = references_task(passages, {"a", "b", "c"}, generator=generator())
    assert task.qrels == {"a": {"b#abstract-1": 1}}
    assert task.candidates is not None
    assert task.candidates.tolist() == [True, True, False]


def test_queries_come_from_the_given_documents_and_passages_only() -> None:
    assert references_task(PASSAGES, {"b"}, generator=generator()).queries == {}
    task = references_task(PASSAGES, {"a", "b"}, query_ids={"a#2"}, generator=generator())
    assert list(task.queries) == ["a#2"]


def test_the_query_for_a_document_is_its_abstract_or_title() -> None:
    documents = [Document("a", "Title of a"), Document("b", "Title of b"), Document("c", "Nothing in it")]
    task = documents_task(PASSAGES, documents, generator=generator())
    assert task.queries == {"a": "About a.", "b": "Title of b"}
    assert task.qrels == {"a": {"a#1": 1, "a#2": 1, "a@1": 1}, "b": {"b#1": 1}}
    assert task.itself == {"a": "a#abstract-1"}
    assert task.notes == ("1 of 2 queries are titles, which lexical search reads with every passage",)


def test_the_same_seed_gives_the_same_sample() -> None:
    names = [f"d{n}" for n in range(50)]
    first = held_out(names, 0.2, generator(1))
    assert first == held_out(names[::-1], 0.2, generator(1))
    assert len(first) == 10
    assert held_out(["only"], 0.1, generator(1)) == {"only"}
    limited = references_task(PASSAGES, {"a"}, limit=1, generator=generator(3))
    assert len(limited.queries) == len(limited.qrels) == 1


@pytest.mark.parametrize("protocol", ["passage", "seed"])
def test_a_concept_is_searched_by_name_or_by_a_description_whose_source_is_no_result(protocol: str) -> None:
    concepts = [Concept("c", "ring", description="A ring."), Concept("d", "only in a"), Concept("e", "nowhere")]
    mentions = {"c": ["a#1", "b#1"], "d": ["a#1", "a#2"]}
    document_of = {passage.id: passage.document for passage in PASSAGES}
    relevant = {"a#1", "b#1"} if protocol == "passage" else set(document_of)
    for query_by, text, answers in (("name", "ring", relevant), ("description", "A ring.", relevant - {"a#1"})):
        task = concepts_task(
            concepts,
            mentions,
            document_of,
            query_by=query_by,
            protocol=protocol,
            defined_in={"c": "a#1"},
            generator=generator(),
        )
        assert task.queries == {"c": text}
        assert task.qrels == {"c": dict.fromkeys(sorted(answers), 1)}
        assert task.itself == ({} if query_by == "name" else {"c": "a#1"})


def test_judgments_of_unknown_queries_are_all_named() -> None:
    with pytest.raises(InputError, match="x, y"):
        task_from("t", {"q": "?"}, {"q": {"a": 1}, "y": {"a": 1}, "x": {"a": 1}})


def test_queries_without_judgments_are_left_out_with_a_note() -> None:
    task = task_from("t", {"q": "?", "r": "!"}, {"q": {"a": 1}})
    assert list(task.queries) == ["q"]
    assert task.notes == ("1 queries without judgments were left out",)
    with pytest.raises(InputError):
        task_from("t", {"q": "?"}, {})


def test_queries_have_no_names_of_references() -> None:
    spans = {"inserted_references": {"text": [[2, 8]]}}
    abstract = Passage("c#abstract-1", "c", "abstract", "By [K 1] all.", metadata=spans)
    lemma = Passage("c#1", "c", "lemma", "By (one) all.", links=(Link("refers_to", "1", "b#1"),), metadata=spans)
    passages = [*PASSAGES, abstract, lemma]
    assert references_task(passages, {"c"}, generator=generator()).queries == {"c#1": "By all."}
    assert documents_task(passages, [Document("c")], generator=generator()).queries == {"c": "By all."}
