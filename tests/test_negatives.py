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

from lemmata.config import build
from lemmata.errors import ConfigError, InputError, LeakageError
from lemmata.graph.links import build_graph, reverse, within
from lemmata.index.lexical import LexicalIndex
from lemmata.mine.material import Material, material
from lemmata.mine.negatives import NegativeOptions, NegativeReport, known_answers, mine_negatives
from lemmata.store.split import Split
from lemmata.types import Concept, Document, Edge, Floats, Integers, Pair, Passage, Triplet

FREE = NegativeOptions(other_document=False, ratio=1.0, hops=0, near_cosine=1.01, near_words=1.01)


class Source:
    """Passages in memory, each with its document and its text."""

    def __init__(self, said: Sequence[tuple[str, str]], categories: dict[str, tuple[str, ...]]) -> None:
        self.said = said
        self.categories = categories

    def __len__(self) -> int:
        return len(self.said)

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        return [Passage(f"p{row}", self.said[row][0], "lemma", self.said[row][1]) for row in rows]

    def documents(self) -> Iterator[Document]:
        for name in self.document_ids():
            yield Document(name, categories=self.categories.get(name, ()))

    def ids(self) -> list[str]:
        return [f"p{row}" for row in range(len(self.said))]

    def document_ids(self) -> list[str]:
        return list(dict.fromkeys(document for document, _ in self.said))

    def document_numbers(self) -> Integers:
        names = self.document_ids()
        return np.array([names.index(document) for document, _ in self.said], np.int64)


def passages(count: int) -> list[tuple[str, str]]:
    """One passage per document, no two alike."""
    return [(f"d{n}", " ".join(f"word{n}x{k}" for k in range(6))) for n in range(count)]


def part(
    said: Sequence[tuple[str, str]],
    edges: Iterable[tuple[str, str, str]] = (),
    *,
    outside: Iterable[int] = (),
    categories: dict[str, tuple[str, ...]] | None = None,
) -> Material:
    """Training material of all passages but those outside."""
    found = [Edge(*edge) for edge in edges]
    names = {end for edge in found for end in (edge.source, edge.target) if end.startswith("concept:")}
    kinds = dict.fromkeys([f"p{row}" for row in range(len(said))], "passage") | dict.fromkeys(names, "concept")
    parts = np.zeros(len(said), np.int8)
    parts[list(outside)] = 2
    return material(
        Source(said, categories or {}),
        Split(parts, parts > 0),
        graph=build_graph(found, kinds),
        concepts={name: Concept(name, name.removeprefix("concept:")) for name in sorted(names)},
        edges=found,
    )


def turned(*degrees: float) -> Floats:
    """Unit vectors in the plane; the cosine of two is that of the angle between them."""
    angles = np.radians(degrees)
    return np.stack((np.cos(angles), np.sin(angles)), axis=1).astype(np.float32)


def mined(pairs: Iterable[Pair], given: Material, vectors: Floats, **more: Any) -> list[Triplet]:
    return list(mine_negatives(pairs, given, vectors=vectors, **more))


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


def test_words_propose_what_vectors_do_not_and_survivors_are_taken_in_turn(tmp_path: Path) -> None:
    said = passages(6)
    said[0] = ("d0", "prime avoidance in a ring")
    said[5] = ("d5", "prime avoidance for schemes")
    lexical = LexicalIndex.build((text for _, text in said), tmp_path / "lexical")
    vectors = turned(0, 20, 30, 40, 50, 80)
    [triplet] = mined([PAIR], part(said), vectors, lexical=lexical, options=replace(FREE, number=2))
    assert [(one.row, one.proposer) for one in triplet.negatives] == [(2, "dense"), (5, "lexical")]


def test_an_anchor_that_is_a_text_is_encoded() -> None:
    pair = Pair("which ideals?", 1, "test")
    given = part(passages(4))
    vectors = turned(0, 20, 30, 40)
    with pytest.raises(InputError, match="encoder"):
        mined([pair], given, vectors)
    [triplet] = mined([pair], given, vectors, encode=lambda texts: turned(*[12.0] * len(texts)), options=FREE)
    assert rows(triplet) == [0, 2, 3]


def test_margin_ratio_and_skipped_ranks_cut_the_nearest_off() -> None:
    vectors = turned(0, 10, 20, 40, 60, 70)
    given = part(passages(6))

    def found(**options: Any) -> list[int]:
        return rows(mined([PAIR], given, vectors, options=replace(FREE, **options))[0])

    assert found() == [2, 3, 4, 5]
    assert found(margin=0.1) == [3, 4, 5]  # cosines 0.985 and 0.940
    assert found(ratio=0.7) == [4, 5]  # 0.766 is more than 0.689
    assert found(skip=3) == [3, 4, 5]  # the anchor itself, the positive and row 2
    assert found(depth=4) == [2, 3]
    assert found(number=1) == [2]


def test_pairs_with_too_few_negatives_are_left_out_and_counted() -> None:
    report = NegativeReport()
    given, vectors = part(passages(4)), turned(0, 20, 30, 40)
    assert not mined([PAIR], given, vectors, options=replace(FREE, least=3), report=report)
    assert (report.pairs, report.left_out, report.short) == (1, 1, 1)
    assert mined([PAIR], part(passages(2)), turned(0, 20), options=replace(FREE, least=0)) == [Triplet(PAIR, ())]


def test_other_answers_to_the_anchor_are_no_negatives() -> None:
    given, vectors = part(passages(5)), turned(0, 20, 30, 40, 50)
    together = [PAIR, Pair(0, 2, "test")]
    assert [rows(one) for one in mined(together, given, vectors, options=FREE)] == [[3, 4], [3, 4]]
    [alone] = mined([PAIR], given, vectors, options=FREE, answers=known_answers(together))
    assert rows(alone) == [3, 4]


# ---------------------------------------------------------------- the guard


def test_the_documents_of_both_ends_are_left_alone() -> None:
    said = [(document, text) for document, (_, text) in zip("abcab", passages(5), strict=True)]
    vectors = turned(0, 20, 30, 40, 50)
    assert rows(mined([PAIR], part(said), vectors, options=replace(FREE, other_document=True))[0]) == [2]
    assert rows(mined([PAIR], part(said), vectors, options=FREE)[0]) == [2, 3, 4]


def test_negatives_share_a_category_and_rare_ones_are_pooled() -> None:
    categories = {"d1": ("math.CO", "cs.DM"), "d2": ("math.NT",), "d3": ("cs.DM",), "d4": ("math.CO.x",), "d5": ("q",)}
    given, vectors = part(passages(7), categories=categories), turned(0, 20, 30, 40, 50, 60, 70)

    def found(positive: int, **options: Any) -> list[int]:
        return rows(mined([Pair(0, positive, "")], given, vectors, options=replace(FREE, **options))[0])

    assert found(1, rare_category=1) == [3, 4]
    assert found(1, rare_category=2) == [3, 4]
    assert found(2, rare_category=2) == [5, 6]  # math.NT, q and none at all are rare
    assert found(1, rare_category=1, category_parts=1) == [2, 3, 4]
    assert found(1, same_category=False) == [2, 3, 4, 5]


def test_what_the_graph_ties_to_either_end_is_dropped() -> None:
    edges = [("p2", "cites", "p1"), ("p0", "refers_to", "p3"), ("p3", "proof_uses", "p4"), ("p5", "part_of", "p1")]
    given, vectors = part(passages(7), edges), turned(0, 20, 30, 40, 50, 60, 70)

    def found(**options: Any) -> list[int]:
        return rows(mined([PAIR], given, vectors, options=replace(FREE, **options))[0])

    assert found(hops=1) == [4, 5, 6]
    assert found(hops=2) == [5, 6]
    assert found(hops=2, relations="cites, part_of") == [3, 4, 6]
    report = NegativeReport()
    mined([PAIR], given, vectors, options=replace(FREE, hops=2), report=report)
    assert report.dropped["linked"] == 3
    assert report.kept == {"dense": 2}


def test_what_everyone_refers_to_ties_nothing_together() -> None:
    edges = [(f"p{n}", "refers_to", "p9") for n in range(1, 9)]
    given, vectors = part(passages(10), edges), turned(*range(0, 90, 10), 89)
    options = replace(FREE, hops=2, number=9)
    assert mined([PAIR], given, vectors, options=options) == []
    assert rows(mined([PAIR], given, vectors, options=replace(options, through=7))[0]) == list(range(2, 9))


def test_rare_concepts_and_common_definitions_make_kin() -> None:
    edges = [
        *((f"p{n}", "mentions", "concept:ring") for n in range(7)),
        ("p1", "mentions", "concept:excellent-ring"),
        ("p2", "mentions", "concept:quasi-excellent-ring"),
        ("concept:quasi-excellent-ring", "equivalent_to", "concept:excellent-ring"),
        ("p1", "defines", "concept:ring"),
        ("p3", "defines", "concept:ring"),
    ]
    given, vectors = part(passages(7), edges), turned(0, 20, 30, 40, 50, 60, 70)
    assert rows(mined([PAIR], given, vectors, options=replace(FREE, rare_concept=3))[0]) == [4, 5, 6]
    assert rows(mined([PAIR], given, vectors, options=replace(FREE, rare_concept=1))[0]) == [2, 4, 5, 6]
    assert rows(mined([PAIR], given, vectors, options=replace(FREE, rare_concept=0))[0]) == [2, 3, 4, 5]


def test_what_says_the_same_as_the_positive_is_dropped() -> None:
    said = passages(5)
    said[1] = ("d1", "An ideal in a finite union of prime ideals lies in one of them")
    said[3] = ("d3", "an ideal in a finite union of prime ideals lies in one of them!")
    given, vectors = part(said), turned(0, 40, 50, 60, 70)
    report = NegativeReport()
    options = replace(FREE, near_cosine=0.95, near_words=0.7)
    assert rows(mined([PAIR], given, vectors, options=options, report=report)[0]) == [4]
    assert report.dropped["duplicate"] == 2  # row 2 by its vector, row 3 by its words


def test_the_cross_encoder_has_the_last_word() -> None:
    said = passages(6)
    given, vectors = part(said), turned(0, 20, 30, 40, 50, 60)
    marks = dict(zip([text for _, text in said], [0.0, 7.0, 4.5, 4.0, 1.0, -2.0], strict=True))

    def score(asked: list[tuple[str, str]]) -> list[float]:
        assert {anchor for anchor, _ in asked} == {said[0][1]}
        return [marks[passage] for _, passage in asked]

    report = NegativeReport()
    [triplet] = mined([PAIR], given, vectors, options=replace(FREE, number=2), score=score, report=report)
    assert rows(triplet) == [3, 4]
    assert triplet.negatives[1].reason.endswith("cross-encoder 1.00 against 7.00")
    assert report.dropped["veto"] == 1
    doubted = NegativeReport()
    assert not mined([PAIR], given, vectors, options=replace(FREE, positive_score=8.0), score=score, report=doubted)
    assert doubted.left_out == 1


# ---------------------------------------------------------------- parts, streams, order


def test_rows_of_another_part_are_refused_and_never_proposed(tmp_path: Path) -> None:
    said = [(document, f"{text} shared words") for document, text in passages(6)]
    given, vectors = part(said, outside=[2, 4]), turned(0, 20, 30, 40, 50, 60)
    lexical = LexicalIndex.build((text for _, text in said), tmp_path / "lexical")
    assert rows(mined([PAIR], given, vectors, lexical=lexical, options=FREE)[0]) == [3, 5]
    for pair in (Pair(0, 2, ""), Pair(4, 1, ""), Pair(0, 99, "")):
        with pytest.raises(LeakageError, match="another part"):
            mined([pair], given, vectors)


def test_an_index_that_forgets_the_mask_does_no_harm() -> None:
    class Careless:
        def search(self, queries: Floats, *_: object, **__: object) -> tuple[Integers, Floats]:
            shape = (len(queries), 4)
            return np.broadcast_to(np.array([2, 3, 4, -1]), shape), np.full(shape, 0.5, np.float32)

    given, vectors = part(passages(6), outside=[2]), turned(0, 20, 30, 40, 50, 60)
    assert rows(mined([PAIR], given, vectors, nearest=Careless(), options=FREE)[0]) == [3, 4]


def test_pairs_are_read_as_triplets_are_asked_for() -> None:
    read = 0

    def endless() -> Iterator[Pair]:
        nonlocal read
        while True:
            read += 1
            yield Pair(read % 3, 3 + read % 2, "test")

    given, vectors = part(passages(8)), turned(0, 3, 6, 20, 25, 60, 70, 80)
    first = list(islice(mine_negatives(endless(), given, vectors=vectors, options=FREE), 10))
    assert len(first) == 10
    assert read < 5000


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["cites", "next", "part_of"]), st.integers(0, 9)), max_size=14
    ),
    st.sets(st.integers(2, 9), max_size=4),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_whatever_the_graph_negatives_are_those_of_a_plain_walk(
    ties: list[tuple[int, str, int]], outside: set[int], hops: int, chance: Any
) -> None:
    edges = [(f"p{one}", relation, f"p{other}") for one, relation, other in ties if one != other]
    degrees = [0, 20, *chance.sample(range(25, 85), 8)]
    vectors = turned(*degrees)
    options = replace(FREE, number=10, least=0, hops=hops)
    inside = part(passages(10), edges, outside=outside)
    [triplet] = mined([PAIR], inside, vectors, options=options)
    inner = [edge for edge in edges if not {int(edge[0][1]), int(edge[2][1])} & outside and edge[1] != "part_of"]
    walked = build_graph([Edge(*edge) for edge in inner], dict.fromkeys([f"p{row}" for row in range(10)], "passage"))
    near = {node for end in (0, 1) for node in within(walked, reverse(walked), end, hops)}
    expected = [row for row in sorted(range(2, 10), key=lambda row: degrees[row]) if row not in near | outside]
    assert rows(triplet) == expected
    chance.shuffle(edges)
    assert mined([PAIR], part(passages(10), edges, outside=outside), vectors, options=options) == [triplet]


def test_whatever_speaks_of_a_concept_answers_its_name() -> None:
    edges = [("p1", "defines", "concept:flat"), ("p2", "mentions", "concept:flat"), ("p3", "mentions", "concept:etale")]
    given = part(passages(5), edges)
    pairs = [Pair("flat", 1, "concepts"), Pair("something else", 4, "queries"), Pair(0, 3, "structure")]
    assert known_answers(pairs) == {"flat": {1}, "something else": {4}, 0: {3}}
    assert known_answers(pairs, given) == {"flat": {1, 2}, "something else": {4}, 0: {3}}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=30), st.integers(0, 2**16))
def test_order_of_pairs_does_not_matter_once_answers_are_known(ends: list[tuple[int, int]], seed: int) -> None:
    generator = np.random.default_rng(seed)
    vectors = generator.standard_normal((12, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    given = part(passages(12))
    pairs = [Pair(one, other, "test") for one, other in dict.fromkeys(ends) if one != other]
    options = NegativeOptions(least=0)
    answers = known_answers(pairs)
    forward = mined(pairs, given, vectors, options=options, answers=answers)
    backward = mined(pairs[::-1], given, vectors, options=options, answers=answers)
    assert forward == backward[::-1]
    for triplet in forward:
        assert len(triplet.negatives) <= options.number
        assert not set(rows(triplet)) & ({triplet.pair.anchor} | answers[triplet.pair.anchor])


def test_settings_are_checked() -> None:
    assert build(NegativeOptions, {"number": 7, "margin": 1}, "[negatives]") == NegativeOptions(number=7, margin=1.0)
    with pytest.raises(ConfigError, match="too small"):
        build(NegativeOptions, {"number": 0}, "[negatives]")
