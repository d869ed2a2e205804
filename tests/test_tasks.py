from __future__ import annotations

import numpy as np
import pytest

from lemmata.errors import InputError
from lemmata.evaluate.tasks import documents_task, held_out, references_task, task_from
from lemmata.types import Document, Link, Passage

PASSAGES = [
    Passage("a#abstract-1", "a", "abstract", "About a."),
    Passage("a#1", "a", "lemma", "One.", title="Name", links=(Link("refers_to", "2", "a#2"), Link("cites", "k", "b"))),
    Passage("a#2", "a", "lemma", "Two.", links=(Link("proof_uses", "1", "b#1"), Link("refers_to", "self", "a#2"))),
    Passage("a@1", "a", "chunk", "Prose.", links=(Link("refers_to", "2", "a#2"),)),
    Passage("b#1", "b", "theorem", "Three.", links=(Link("refers_to", "x", "a@1"), Link("refers_to", "y", None))),
]


def test_a_statement_asks_for_what_it_refers_to() -> None:
    task = references_task(PASSAGES, {"a", "b"})
    assert task.queries == {"a#1": "Name. One.", "a#2": "Two."}
    assert task.qrels == {"a#1": {"a#2": 1}, "a#2": {"b#1": 1}}
    assert task.itself == {"a#1": "a#1", "a#2": "a#2"}
    assert task.candidates is not None
    assert task.candidates.tolist() == [False, True, True, False, True]


def test_only_held_out_documents_ask() -> None:
    assert references_task(PASSAGES, {"b"}).queries == {}


def test_a_document_is_asked_for_by_its_abstract_or_title() -> None:
    documents = [Document("a", "Title of a"), Document("b", "Title of b"), Document("c", "Nothing in it")]
    task = documents_task(PASSAGES, documents)
    assert task.queries == {"a": "About a.", "b": "Title of b"}
    assert task.qrels == {"a": {"a#1": 1, "a#2": 1, "a@1": 1}, "b": {"b#1": 1}}
    assert task.itself == {"a": "a#abstract-1"}


def test_samples_are_the_same_under_the_same_seed() -> None:
    names = [f"d{n}" for n in range(50)]
    first = held_out(names, 0.2, np.random.default_rng(1))
    assert first == held_out(names[::-1], 0.2, np.random.default_rng(1))
    assert len(first) == 10
    assert held_out(["only"], 0.1, np.random.default_rng(1)) == {"only"}
    limited = references_task(PASSAGES, {"a"}, limit=1, generator=np.random.default_rng(3))
    assert len(limited.queries) == len(limited.qrels) == 1


def test_judgments_of_unknown_queries_are_all_named() -> None:
    with pytest.raises(InputError, match="x, y"):
        task_from("t", {"q": "?"}, {"q": {"a": 1}, "y": {"a": 1}, "x": {"a": 1}})


def test_queries_without_judgments_are_left_out_and_told() -> None:
    task = task_from("t", {"q": "?", "r": "!"}, {"q": {"a": 1}})
    assert list(task.queries) == ["q"]
    assert task.notes == ("1 queries without judgments were left out",)
    with pytest.raises(InputError, match="no query has a judgment"):
        task_from("t", {"q": "?"}, {})
