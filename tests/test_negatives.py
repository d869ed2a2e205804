from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.make import MemoryCorpus

from lemmata.core.config import build
from lemmata.core.errors import ConfigError, InputError, LeakageError
from lemmata.core.types import Concept, Document, Edge, Floats, Integers, Pair, Passage, Triplet
from lemmata.corpus.split import Split
from lemmata.graph.links import build_graph
from lemmata.mine.material import TrainingView, training_view
from lemmata.mine.negatives import HOPS, NegativeOptions, NegativeReport, known_answers, mine_negatives
from lemmata.search.lexical import LexicalIndex

FREE = NegativeOptions(other_document=False)


def passages(count: int) -> list[tuple[str, str]]:
    """One passage per document, no two near-duplicates."""
    return [(f"d{n}", " ".join(f"word{n}x{k}" for k in range(6))) for n in range(count)]


def part(
    said: Sequence[tuple[str, str]],
    edges: Iterable[tuple[str, str, str]] = (),
    *,
    outside: Iterable[int] = (),
    answers: bool = False,
    categories: dict[str, tuple[str, ...]] | None = None,
) -> TrainingView:
    """Training view of all passages but those outside."""
    records = [Edge(*edge) for edge in edges]
    names = {end for edge in records for end in (edge.source, edge.target) if end.startswith("concept:")}
    kinds = dict.fromkeys([f"p{row}" for row in range(len(said))], "passage") | dict.fromkeys(names, "concept")
    parts = np.zeros(len(said), np.int8)
    parts[list(outside)] = 2
    documents = [
        Document(name, categories=(categories or {}).get(name, ())) for name in dict.fromkeys(d for d, _ in said)
    ]
    return training_view(
        MemoryCorpus(
            [Passage(f"p{row}", document, "lemma", text) for row, (document, text) in enumerate(said)], documents
        ),
        Split(parts, parts > 0, answers=answers),
        graph=build_graph(records, kinds),
        concepts={name: Concept(name, name.removeprefix("concept:")) for name in sorted(names)},
        edges=records,
    )


def turned(*degrees: float) -> Floats:
    """Unit vectors at these angles to the first axis, each towards another one: no two are nearly the same."""
    angles = np.radians(degrees)
    vectors = np.zeros((len(degrees), 41), np.float32)
    vectors[:, 0] = np.cos(angles)
    vectors[np.arange(len(degrees)), np.arange(1, len(degrees) + 1)] = np.sin(angles)
    return vectors


def mined(pairs: Iterable[Pair], training: TrainingView, vectors: Floats, **more: Any) -> list[Triplet]:
    return list(mine_negatives(pairs, training, vectors=vectors, **more))


def rows(triplet: Triplet) -> list[int]:
    return [negative.row for negative in triplet.negatives]


PAIR = Pair(0, 1, "test")


# ---------------------------------------------------------------- proposing and ranking


def test_the_nearest_below_the_positive_come_first() -> None:
    vectors = turned(0, 20, 10, 50, 30, 40)
    [triplet] = mined([PAIR], part(passages(6)), vectors, options=replace(FREE, number=2))
    assert triplet.pair == PAIR
    assert rows(triplet) == [4, 5]  # row 2 is nearer to the anchor than the positive
    assert {negative.proposer for negative in triplet.negatives} == {"dense"}
    assert triplet.negatives[0].score == pytest.approx(np.cos(np.radians(30)))
    assert triplet.negatives[0].reason == "rank 4, cosine 0.866, 0.074 below the positive"


def test_words_propose_what_vectors_do_not_and_both_are_taken_alternately(tmp_path: Path) -> None:
    said = passages(6)
    said[0] = ("d0", "prime avoidance in a ring")
    said[5] = ("d5", "prime avoidance for schemes")
    lexical = LexicalIndex.build((text for _, text in said), tmp_path / "lexical")
    vectors = turned(0, 20, 30, 40, 50, 80)
    [triplet] = mined([PAIR], part(said), vectors, lexical=lexical, options=replace(FREE, number=2))
    assert [(one.row, one.proposer) for one in triplet.negatives] == [(2, "dense"), (5, "lexical")]


def test_an_anchor_that_is_a_text_is_encoded() -> None:
    pair = Pair("which ideals?", 1, "test")
    training = part(passages(4))
    vectors = turned(30, 20, 40, 50)
    with pytest.raises(InputError, match="encoder"):
        mined([pair], training, vectors)
    [triplet] = mined([pair], training, vectors, encode=lambda texts: turned(*[0.0] * len(texts)), options=FREE)
    assert rows(triplet) == [0, 2, 3]


def test_the_ratio_cuts_off_the_nearest() -> None:
    vectors = turned(0, 10, 20, 30, 60, 70)
    training = part(passages(6))
    assert rows(mined([PAIR], training, vectors, options=FREE)[0]) == [3, 4, 5]  # 0.940 is more than 0.95 of 0.985
    assert rows(mined([PAIR], training, vectors, options=FREE, depth=4)[0]) == [3]
    assert rows(mined([PAIR], training, vectors, options=replace(FREE, number=1))[0]) == [3]


def test_pairs_without_negatives_are_left_out_and_those_with_few_are_counted() -> None:
    report = NegativeReport()
    [triplet] = mined([PAIR], part(passages(4)), turned(0, 20, 30, 40), options=FREE, report=report)
    assert rows(triplet) == [2, 3]
    assert (report.pairs, report.left_out, report.short) == (1, 0, 1)
    assert not mined([PAIR], part(passages(2)), turned(0, 20), options=FREE, report=report)
    assert (report.pairs, report.left_out, report.short) == (2, 1, 2)


def test_other_answers_to_the_anchor_are_no_negatives() -> None:
    training, vectors = part(passages(5)), turned(0, 20, 30, 40, 50)
    together = [PAIR, Pair(0, 2, "test")]
    assert [rows(one) for one in mined(together, training, vectors, options=FREE)] == [[3, 4], [3, 4]]
    [alone] = mined([PAIR], training, vectors, options=FREE, answers=known_answers(together))
    assert rows(alone) == [3, 4]


# ---------------------------------------------------------------- what cannot be a negative


def test_negatives_come_from_other_documents_than_both_ends() -> None:
    said = [(document, text) for document, (_, text) in zip("abcab", passages(5), strict=True)]
    vectors = turned(0, 20, 30, 40, 50)
    assert rows(mined([PAIR], part(said), vectors, options=replace(FREE, other_document=True))[0]) == [2]
    assert rows(mined([PAIR], part(said), vectors, options=FREE)[0]) == [2, 3, 4]


def logs(*edges: tuple[str, str, str], count: int = 6) -> TrainingView:
    """Training view of logs that stand in one table."""
    records = [Edge(*edge) for edge in edges]
    places = sorted({edge.target for edge in records if edge.target.startswith("location:")})
    written = [Passage(f"p{row}", "table", "log", text) for row, (_, text) in enumerate(passages(count))]
    known = [Document("table", kind="table"), *(Document(place, kind="location") for place in places)]
    kinds = {passage.id: "log" for passage in written} | dict.fromkeys(places, "location")
    parts = np.zeros(count, np.int8)
    return training_view(MemoryCorpus(written, known), Split(parts, parts > 0), graph=build_graph(records, kinds))


def test_logs_of_one_table_are_negatives_of_each_other_but_not_those_of_a_thread_or_location() -> None:
    strict = replace(FREE, other_document=True)
    assert rows(mined([PAIR], logs(), turned(0, 30, 40, 50, 60, 70), options=strict)[0]) == [2, 3, 4, 5]
    vectors = turned(0, 30, 40, 50, 60, 70, 80)
    thread = [("p2", "related_to", "p1"), ("p3", "related_to", "p2"), ("p5", "related_to", "p3")]
    place = [("p0", "reports_about", "location:P1"), ("p4", "reports_about", "location:P1")]
    assert rows(mined([PAIR], logs(*thread, *place, count=7), vectors, options=strict)[0]) == [6]
    assert rows(mined([PAIR], logs(*thread, *place, count=7), vectors, options=FREE)[0]) == [4, 5, 6]


def test_a_location_that_most_logs_are_about_ties_nothing_together() -> None:
    strict = replace(FREE, other_document=True)
    vectors = turned(0, 30, *range(41, 79))
    everywhere = [(f"p{row}", "reports_about", "location:plant") for row in range(40)]
    assert rows(mined([PAIR], logs(*everywhere, count=40), vectors, options=strict)[0]) == [2, 3, 4, 5]
    narrow = [(source, relation, f"location:{n // 20}") for n, (source, relation, _) in enumerate(everywhere)]
    assert rows(mined([PAIR], logs(*narrow, count=40), vectors, options=strict)[0]) == [20, 21, 22, 23]


def test_negatives_share_a_category_and_rare_ones_are_pooled() -> None:
    """Six passages at angles that matter, then as many as make three categories frequent."""
    categories = {"d1": ("math.CO", "cs.DM"), "d2": ("math.NT",), "d3": ("cs.DM",), "d4": ("math.CO.x",), "d5": ("q",)}
    kinds = ["math.CO"] * 99 + ["math.NT"] * 99 + ["cs:DM"] * 99
    far = {f"d{7 + n}": (kind,) for n, kind in enumerate(kinds)}
    said = passages(7 + len(kinds))
    vectors = np.zeros((len(said), 41), np.float32)
    vectors[:, 40] = 1.0  # at a right angle to the anchor
    vectors[:7] = turned(0, 20, 30, 40, 50, 60, 70)

    def negative_rows(positive: int, **more: tuple[str, ...]) -> list[int]:
        training = part(said, categories={**categories, **far, **more})
        negatives = rows(mined([Pair(0, positive, "")], training, vectors, options=FREE, depth=7)[0])
        return [row for row in negatives if row < 7]

    assert negative_rows(1) == [3, 4]
    assert negative_rows(2, d5=("math.NT",)) == [5]
    assert negative_rows(2, d110=()) == [5, 6]  # one less, and math.NT is as rare as q and none at all
    assert negative_rows(5) == [6]


def test_what_the_graph_ties_to_either_end_is_dropped() -> None:
    edges = [("p2", "cites", "p1"), ("p0", "refers_to", "p3"), ("p3", "proof_uses", "p4"), ("p5", "part_of", "p1")]
    training, vectors = part(passages(7), edges), turned(0, 20, 30, 40, 50, 60, 70)

    report = NegativeReport()
    assert rows(mined([PAIR], training, vectors, options=FREE, report=report)[0]) == [5, 6]
    assert report.dropped["linked"] == 3
    assert report.kept == {"dense": 2}


@pytest.mark.parametrize(("citing", "negatives"), [(30, []), (31, list(range(2, 32)))])
def test_what_everyone_refers_to_ties_nothing_together(citing: int, negatives: list[int]) -> None:
    edges = [(f"p{n}", "refers_to", f"p{citing + 1}") for n in range(1, citing + 1)]
    training, vectors = part(passages(citing + 2), edges), turned(0, 20, *np.linspace(30, 80, citing - 1), 85)
    triplets = mined([PAIR], training, vectors, options=replace(FREE, number=40))
    assert [rows(triplet) for triplet in triplets] == ([negatives] if negatives else [])


@pytest.mark.parametrize(("mentioning", "negatives"), [(20, [4, 5, 6]), (21, [2, 4, 5, 6])])
def test_rare_concepts_and_common_definitions_relate_passages(mentioning: int, negatives: list[int]) -> None:
    edges = [
        *((f"p{n}", "mentions", "concept:ring") for n in range(30)),
        *((f"p{n}", "mentions", "concept:excellent-ring") for n in (1, *range(7, 5 + mentioning))),
        ("p2", "mentions", "concept:quasi-excellent-ring"),
        ("concept:quasi-excellent-ring", "equivalent_to", "concept:excellent-ring"),
        ("p1", "defines", "concept:ring"),
        ("p3", "defines", "concept:ring"),
    ]
    vectors = turned(0, 20, 30, 40, 50, 60, 70, *[90] * 23)
    assert rows(mined([PAIR], part(passages(30), edges), vectors, options=FREE, depth=7)[0]) == negatives


def test_what_says_the_same_as_the_positive_is_dropped() -> None:
    said = passages(5)
    said[1] = ("d1", "An ideal in a finite union of prime ideals lies in one of them")
    said[3] = ("d3", "an ideal in a finite union of prime ideals lies in one of them!")
    training, vectors = part(said), turned(0, 40, 50, 60, 70)
    vectors[2] = 0
    vectors[2, [0, 2]] = np.cos(np.radians(50)), np.sin(np.radians(50))  # ten degrees beyond the positive
    report = NegativeReport()
    assert rows(mined([PAIR], training, vectors, options=FREE, report=report)[0]) == [4]
    assert report.dropped["duplicate"] == 2  # row 2 by its vector, row 3 by its words


# ---------------------------------------------------------------- parts, streams, order


def test_rows_of_another_part_are_refused_and_never_proposed(tmp_path: Path) -> None:
    said = [(document, f"{text} shared words") for document, text in passages(6)]
    training, vectors = part(said, outside=[2, 4]), turned(0, 20, 30, 40, 50, 60)
    lexical = LexicalIndex.build((text for _, text in said), tmp_path / "lexical")
    assert rows(mined([PAIR], training, vectors, lexical=lexical, options=FREE)[0]) == [3, 5]
    for pair in (Pair(0, 2, ""), Pair(4, 1, ""), Pair(0, 99, "")):
        with pytest.raises(LeakageError):
            mined([pair], training, vectors)


def test_an_answer_may_be_a_positive_but_no_anchor_and_no_negative() -> None:
    training, vectors = part(passages(6), outside=[1, 2], answers=True), turned(0, 20, 30, 40, 50, 60)
    assert rows(mined([Pair(0, 1, "")], training, vectors, options=FREE)[0]) == [3, 4, 5]
    with pytest.raises(LeakageError, match=r"\[2\]"):
        mined([Pair(2, 3, "")], training, vectors)


def test_an_index_that_ignores_the_mask_cannot_propose_rows_of_another_part() -> None:
    class Careless:
        def search(self, queries: Floats, *_: object, **__: object) -> tuple[Integers, Floats]:
            shape = (len(queries), 4)
            return np.broadcast_to(np.array([2, 3, 4, -1]), shape), np.full(shape, 0.5, np.float32)

    training, vectors = part(passages(6), outside=[2]), turned(0, 20, 30, 40, 50, 60)
    assert rows(mined([PAIR], training, vectors, nearest=Careless(), options=FREE)[0]) == [3, 4]


def test_pairs_are_read_lazily() -> None:
    read = 0

    def endless() -> Iterator[Pair]:
        nonlocal read
        while True:
            read += 1
            yield Pair(read % 3, 3 + read % 2, "test")

    training, vectors = part(passages(8)), turned(0, 3, 6, 20, 30, 60, 70, 80)
    first = list(islice(mine_negatives(endless(), training, vectors=vectors, options=FREE), 10))
    assert len(first) == 10
    assert read < 5000


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["cites", "next", "part_of"]), st.integers(0, 9)), max_size=14
    ),
    st.sets(st.integers(2, 9), max_size=4),
    st.randoms(use_true_random=False),
)
def test_linked_passages_are_those_of_a_plain_walk_in_every_graph(
    ties: list[tuple[int, str, int]], outside: set[int], chance: Any
) -> None:
    edges = [(f"p{one}", relation, f"p{other}") for one, relation, other in ties if one != other]
    degrees = [0, 20, *chance.sample(range(27, 85), 8)]
    vectors = turned(*degrees)
    options = replace(FREE, number=10)
    inside = part(passages(10), edges, outside=outside)
    triplets = mined([PAIR], inside, vectors, options=options)
    inner = [{one, other} for one, relation, other in ties if relation != "part_of" and not {one, other} & outside]
    near = {0, 1}
    for _ in range(HOPS):
        near |= {row for ends in inner for row in ends if near & ends}
    expected = [row for row in sorted(range(2, 10), key=lambda row: degrees[row]) if row not in near | outside]
    assert [rows(triplet) for triplet in triplets] == ([expected] if expected else [])
    chance.shuffle(edges)
    assert mined([PAIR], part(passages(10), edges, outside=outside), vectors, options=options) == triplets


def test_every_passage_that_mentions_a_concept_answers_its_name() -> None:
    edges = [("p1", "defines", "concept:flat"), ("p2", "mentions", "concept:flat"), ("p3", "mentions", "concept:etale")]
    training = part(passages(5), edges)
    pairs = [Pair("flat", 1, "concepts"), Pair("something else", 4, "queries"), Pair(0, 3, "structure")]
    assert known_answers(pairs) == {"flat": {1}, "something else": {4}, 0: {3}}
    assert known_answers(pairs, training) == {"flat": {1, 2}, "something else": {4}, 0: {3}}


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=30), st.integers(0, 2**16))
def test_order_of_pairs_does_not_matter_once_answers_are_known(ends: list[tuple[int, int]], seed: int) -> None:
    generator = np.random.default_rng(seed)
    vectors = generator.standard_normal((12, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    training = part(passages(12))
    pairs = [Pair(one, other, "test") for one, other in dict.fromkeys(ends) if one != other]
    options = NegativeOptions()
    answers = known_answers(pairs)
    forward = mined(pairs, training, vectors, options=options, answers=answers)
    backward = mined(pairs[::-1], training, vectors, options=options, answers=answers)
    assert forward == backward[::-1]
    for triplet in forward:
        assert len(triplet.negatives) <= options.number
        assert not set(rows(triplet)) & ({triplet.pair.anchor} | answers[triplet.pair.anchor])


def test_settings_are_checked() -> None:
    assert build(NegativeOptions, {"number": 7}, "[negatives]") == NegativeOptions(number=7)
    with pytest.raises(ConfigError, match="number = 0"):
        build(NegativeOptions, {"number": 0}, "[negatives]")
