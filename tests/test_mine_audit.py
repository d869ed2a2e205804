from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import MemoryCorpus, cpu_seconds

from lemmata.core.errors import ConfigError, LeakageError
from lemmata.core.types import Concept, Negative, Pair, Passage, Triplet
from lemmata.corpus.leakage import Audit, Example, near_duplicate_of, near_duplicates, sketch
from lemmata.corpus.split import Split
from lemmata.mine.audit import inspect_mined, refuse
from lemmata.mine.splits import Outline, SplitOptions, split_corpus

WORDS = "the pump of column two leaks since this morning and was closed by the late shift after a short test".split()


def audit_mined(*arguments: Any, **options: Any) -> Audit:
    """Inspect and refuse, as every mined set is."""
    result = inspect_mined(*arguments, **options)
    refuse(result, "pairs")
    return result


def shelf_of(*texts: str) -> MemoryCorpus:
    return MemoryCorpus([Passage(f"p{n}", f"d{n}", "lemma", text) for n, text in enumerate(texts)])


SHELF = shelf_of(
    "every ideal in a union of primes lies in one of them",
    "partitions into odd parts are as many as those into distinct parts",
    " ".join(WORDS),
    " ".join(WORDS[:-1]) + " trial",
    "a module over a field is free",
)
SPLIT = Split(np.array([0, 0, 0, 2, 1], np.int8), np.zeros(5, bool), {"concept:bailey-pair": "test"})


def test_what_was_mined_from_training_passes() -> None:
    records: list[Pair | Triplet] = [
        Pair("prime avoidance", 0, "queries"),
        Triplet(Pair(0, 1, "structure"), (Negative(1, "lexical"),)),
    ]
    example = Example("q", "when does a seal have to be replaced", ("p3",))
    result = audit_mined(records, SPLIT, SHELF, test=[example])
    assert result.clean
    assert result.sentence() == "no leakage found (checked: same anchor, near anchor, same passage, near passage)"


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (Pair("x", 3, "m"), "same_passage"),
        (Pair(3, 0, "m"), "same_passage"),
        (Triplet(Pair("x", 0, "m"), (Negative(1, "m"), Negative(3, "m"))), "same_passage"),
        (Pair("x", 4, "m"), "same_passage"),  # validation
        (Pair("x", 2, "m"), "near_passage"),
        (Pair(2, 0, "m"), "near_passage"),
        (Triplet(Pair("x", 0, "m"), (Negative(2, "m"),)), "near_passage"),
        (Pair(" ".join(WORDS), 0, "m"), "near_passage"),  # a question that is nearly the test passage
        (Pair("Which seal  leaks on Sunday in the mill?", 0, "m"), "same_anchor"),
        (Pair("which seal leaks on sunday in the mill ? now", 0, "m"), "near_anchor"),
        (Pair("the Bailey pairs", 0, "m"), "same_anchor"),
        (Pair("paires de Bailey", 0, "m"), "same_anchor"),
        (Pair("What is a Bailey pair?", 0, "m"), "same_anchor"),
    ],
)
def test_every_way_to_know_test_data_is_found(record: Pair | Triplet, kind: str) -> None:
    concepts = {"concept:bailey-pair": Concept("concept:bailey-pair", "Bailey pair", aliases=("paire de Bailey",))}
    test = [Example("q", "which seal leaks on sunday in the mill?", ("p3",))]
    records = [Pair("fine", 1, "m"), record]
    result = inspect_mined(iter(records), SPLIT, SHELF, test=test, concepts=concepts)
    assert result.counts == {kind: 1}
    assert result.offences[0].train == "1"
    with pytest.raises(LeakageError, match=kind.replace("_", " ")):
        audit_mined(iter(records), SPLIT, SHELF, test=test, concepts=concepts)


def test_the_error_names_the_first_offenders() -> None:
    with pytest.raises(LeakageError) as caught:
        audit_mined([Pair("x", 3, "m"), Pair("y", 4, "m")], SPLIT, SHELF)
    assert str(caught.value) == (
        "the training set 'pairs' holds held-out data (2 same passage): "
        "same passage 'p3' of 'test' in record 0; same passage 'p4' of 'validation' in record 1"
    )


def test_passages_of_test_examples_are_test_data_whatever_the_split_says() -> None:
    result = inspect_mined([Pair("x", 1, "m")], SPLIT, SHELF, test=[Example("q7", "something else entirely", ("p1",))])
    assert [(o.kind, o.test, o.what) for o in result.offences] == [("same_passage", "q7", "p1")]


def test_all_offences_are_counted_and_the_first_thousand_are_named() -> None:
    test = [Example(f"q{n}", f"question {n}", ()) for n in range(1100)]
    result = inspect_mined([Pair(f"Question {n}", 0, "m") for n in range(1100)], SPLIT, SHELF, test=test)
    assert result.counts["same_anchor"] == 1100
    assert len(result.offences) == 1000
    assert not result.clean


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=8).map(" ".join), min_size=6, max_size=24), st.integers(0, 3))
def test_whatever_is_mined_from_the_training_part_passes(texts: list[str], seed: int) -> None:
    shelf = shelf_of(*texts)
    corpus = Outline(shelf.ids(), [f"d{n}" for n in range(len(texts))], sketches=sketch(texts))
    try:
        split = split_corpus(corpus, SplitOptions(validation=0.2, test=0.3, seed=seed))
    except ConfigError:  # all texts are near-duplicates: there is nothing to split
        return
    rows = np.flatnonzero(split.rows("train")).tolist()
    assert audit_mined([Pair(row, row, "m") for row in rows], split, shelf).clean


# ---------------------------------------------------------------- near duplicates at size


def test_near_duplicates_agree_with_comparing_everything() -> None:
    generator = np.random.default_rng(1)
    texts = [" ".join(f"w{n}" for n in generator.integers(0, 4, 10)) for _ in range(80)]

    def runs(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[n : n + 4]) for n in range(len(words) - 3)}

    sets = [runs(text) for text in texts]
    close = {(n, m) for n in range(80) for m in range(80) if len(sets[n] & sets[m]) >= 0.7 * len(sets[n] | sets[m])}
    result = set(near_duplicates(texts, texts))
    assert result <= close
    assert len(result) >= 0.95 * len(close)


def test_words_of_other_letters_signs_and_broken_characters_are_read() -> None:
    texts = ["Größe, die „Höhe“ heißt — ja", "größe , die „ höhe “ heißt — JA", "x \ud800 y z w v", "", "  "]
    assert set(near_duplicates(texts, texts)) == {
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (3, 4),
        (4, 3),
        (4, 4),
    }


def test_many_texts_of_one_pattern_take_bounded_time() -> None:
    generator = np.random.default_rng(2)
    numbers = generator.integers(0, 1000, (3000, 3)).tolist()
    texts = [f"pump {a} was checked by shift {b} and showed {c} drops of oil on the floor" for a, b, c in numbers]
    assert cpu_seconds(lambda: near_duplicate_of(sketch(texts[:600]), sketch(texts[600:]))) < 60
