"""Triplets from graph embeddings, citations and generated queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.errors import ConfigError, InputError, LeakageError
from lemmata.graph.links import build_graph
from lemmata.mine.material import Material, material
from lemmata.mine.triplets import (
    PRESETS,
    CitationTripletOptions,
    GraphTripletOptions,
    citation_triplets,
    graph_triplets,
    query_triplets,
)
from lemmata.store.split import Split
from lemmata.types import Document, Edge, Floats, Integers, Negative, Pair, Passage, Triplet, Vectors


@dataclass
class Shelf:
    """A corpus in memory: every passage is its own document."""

    held: Sequence[Passage]

    def __len__(self) -> int:
        return len(self.held)

    def passages(self, rows: Iterable[int]) -> list[Passage]:
        return [self.held[row] for row in rows]

    def documents(self) -> Iterator[Document]:
        return (Document(passage.id) for passage in self.held)

    def ids(self) -> list[str]:
        return [passage.id for passage in self.held]

    def document_ids(self) -> list[str]:
        return self.ids()

    def document_numbers(self) -> Integers:
        return np.arange(len(self.held))


def made_of(texts: dict[str, str], edges: Sequence[Edge] = (), test: Iterable[str] = ()) -> Material:
    held_out = set(test)
    passages = [Passage(identity, identity, "abstract", text) for identity, text in texts.items()]
    part = np.array([2 if identity in held_out else 0 for identity in texts], np.int8)
    graph = build_graph(edges, dict.fromkeys(texts, "passage"))
    return material(Shelf(passages), Split(part, np.zeros(len(texts), bool)), graph=graph)


def names(found: Material) -> dict[int, str]:
    return {row: identity for identity, row in found.row_of.items()}


def told(found: Material, triplets: Iterable[Triplet]) -> list[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """Triplets with ids in place of rows: anchor, positive, (negative, proposer)…."""
    name = names(found)
    return [
        (
            t.pair.anchor if isinstance(t.pair.anchor, str) else name[t.pair.anchor],
            name[t.pair.positive],
            tuple((name[negative.row], negative.proposer) for negative in t.negatives),
        )
        for t in triplets
    ]


ALL = GraphTripletOptions(shortest=0, pairing="all", linked=True)


def on_a_line(count: int) -> tuple[Material, Vectors]:
    """Passages whose vectors turn by ever larger angles, so that the nearest are the next ones."""
    found = made_of({f"p{n:02}": f"Text number {n}." for n in range(count)})
    angles = np.cumsum(np.linspace(0.001, 0.1, count))
    matrix = np.stack((np.cos(angles), np.sin(angles)), axis=1) * np.linspace(1, 9, count)[:, None]
    return found, Vectors(matrix.astype(np.float32), "line")


# ---------------------------------------------------------------- graph embeddings


def test_bands_are_counted_from_the_nearest_neighbour() -> None:
    found, vectors = on_a_line(12)
    options = replace(ALL, positives=2, positive_rank=3, hard=2, hard_rank=7, easy=1)
    first = [triplet for triplet in graph_triplets(found, vectors, options) if triplet.pair.anchor == 0]
    assert [t.pair.positive for t in first] == [2, 3]  # ranks 2 and 3
    assert [t.pair.reason.split(",")[0] for t in first] == ["rank 2", "rank 3"]
    for triplet in first:
        assert [negative.row for negative in triplet.negatives[:2]] == [6, 7]
        assert triplet.negatives[2].row in (8, 9, 10, 11)
        assert [negative.proposer for negative in triplet.negatives] == ["graph", "graph", "random"]


def test_each_positive_goes_with_one_negative_as_in_the_papers() -> None:
    found, vectors = on_a_line(60)
    options = replace(PRESETS["process_industry"], shortest=0)
    first = [triplet for triplet in graph_triplets(found, vectors, options) if triplet.pair.anchor == 0]
    assert [(t.pair.positive, len(t.negatives), t.negatives[0].proposer) for t in first] == [
        (1, 1, "graph"),
        (2, 1, "random"),
    ]
    assert first[0].negatives[0].row == 50


def test_presets_are_those_of_the_papers() -> None:
    def numbers(name: str) -> tuple[int, ...]:
        o = PRESETS[name]
        return o.positives, o.positive_rank, o.easy, o.hard, o.hard_rank, o.shortest

    assert numbers("process_industry") == (2, 2, 1, 1, 50, 100)
    assert numbers("scincl") == (5, 25, 3, 2, 4000, 100)


def test_short_passages_keep_their_vectors_but_are_not_sampled() -> None:
    texts = {f"p{n}": "long enough, " * 10 + str(n) if n % 2 else f"short {n}" for n in range(20)}
    found = made_of(texts)
    vectors = Vectors(np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32), "any")
    options = GraphTripletOptions(positives=1, positive_rank=1, hard=1, hard_rank=3, easy=1)
    rows = {row for t in graph_triplets(found, vectors, options) for row in (t.pair.anchor, t.pair.positive)}
    assert rows <= {row for row, identity in names(found).items() if int(identity[1:]) % 2}


def test_a_negative_has_no_edge_with_its_anchor() -> None:
    texts = {f"p{n:02}": f"Text number {n}." for n in range(12)}
    found = made_of(texts, [Edge("p00", "refers_to", "p07"), Edge("p09", "cites", "p00")])
    _, vectors = on_a_line(12)
    options = replace(ALL, positives=1, positive_rank=1, hard=1, hard_rank=7, easy=2, linked=False)
    (first,) = [triplet for triplet in graph_triplets(found, vectors, options) if triplet.pair.anchor == 0]
    assert {negative.row for negative in first.negatives} <= {8, 10, 11}


def test_nodes_without_a_vector_and_second_copies_of_a_text_are_left_out() -> None:
    texts = {f"p{n}": f"Text {n % 8}." for n in range(10)}  # p8 and p9 repeat p0 and p1
    found = made_of(texts)
    matrix = np.random.default_rng(1).standard_normal((10, 3)).astype(np.float32)
    matrix[5] = 0
    options = replace(ALL, positives=1, positive_rank=1, hard=1, hard_rank=4, easy=1)
    mined = list(graph_triplets(found, Vectors(matrix, "any"), options))
    used = {row for t in mined for row in (t.pair.anchor, t.pair.positive, *(n.row for n in t.negatives))}
    assert used == {0, 1, 2, 3, 4, 6, 7}


def test_an_anchor_is_not_its_own_neighbour_even_among_equal_vectors() -> None:
    found, _ = on_a_line(12)
    options = replace(ALL, positives=2, positive_rank=2, hard=1, hard_rank=5, easy=2)
    for triplet in graph_triplets(found, Vectors(np.ones((12, 3), np.float32), "same"), options):
        rows = [triplet.pair.anchor, triplet.pair.positive, *(n.row for n in triplet.negatives)]
        assert len(set(rows)) == len(rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (replace(ALL, positives=3, positive_rank=2), "positives = 3 do not fit"),
        (replace(ALL, positives=1, positive_rank=5, hard=2, hard_rank=6), "collide"),
        (replace(ALL, hard=0, easy=0), "needs a negative"),
    ],
)
def test_bands_that_make_no_sense_are_refused(options: GraphTripletOptions, message: str) -> None:
    found, vectors = on_a_line(12)
    with pytest.raises(ConfigError, match=message):
        list(graph_triplets(found, vectors, options))


def test_too_few_passages_and_foreign_vectors_are_errors() -> None:
    found, vectors = on_a_line(12)
    with pytest.raises(InputError, match=r"rank 50 .* there are 12"):
        list(graph_triplets(found, vectors, replace(ALL)))
    with pytest.raises(InputError, match="3 vectors, the graph 12 nodes"):
        list(graph_triplets(found, Vectors(vectors.matrix[:3], "cut"), replace(ALL, hard_rank=5)))


def brute_force(
    ids: Sequence[str], matrix: Floats, options: GraphTripletOptions
) -> dict[str, tuple[list[str], list[str], set[str]]]:
    """Positives, hard negatives and all that may be an easy negative, one anchor at a time in 64 bits."""
    unit = matrix.astype(np.float64) / np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    found = {}
    for place, anchor in enumerate(ids):
        ranked = sorted((n for n in range(len(ids)) if n != place), key=lambda n: -float(unit[n] @ unit[place]))
        near = [ids[n] for n in ranked]
        last = max(options.positive_rank, options.hard_rank)
        found[anchor] = (
            [near[rank - 1] for rank in range(1, last + 1)
             if options.positive_rank - options.positives < rank <= options.positive_rank],
            [near[rank - 1] for rank in range(1, last + 1)
             if options.hard_rank - options.hard < rank <= options.hard_rank],
            set(near[last:]),
        )  # fmt: skip
    return found


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_bands_agree_with_brute_force_and_never_collide(data: st.DataObject) -> None:
    positive_rank = data.draw(st.integers(1, 6))
    hard = data.draw(st.integers(1, 3))
    hard_rank = positive_rank + hard + data.draw(st.integers(0, 5))
    easy = data.draw(st.integers(0, 3))
    count = hard_rank + easy + 1 + data.draw(st.integers(0, 6))
    options = GraphTripletOptions(
        data.draw(st.integers(1, positive_rank)), positive_rank, hard, hard_rank, easy, 0, "all", True,
        data.draw(st.integers(0, 5)),
    )  # fmt: skip
    ids = [f"p{n:02}" for n in range(count)]
    test = data.draw(st.sets(st.sampled_from(["t0", "t1", "t2"])))
    order = data.draw(st.permutations([*ids, "t0", "t1", "t2"]))
    vectors_of = dict(
        zip(
            [*ids, "t0", "t1", "t2"],
            np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal((count + 3, 5)).astype(np.float32),
            strict=True,
        )
    )
    texts = {identity: f"Text of {identity}." for identity in order}
    found = made_of(texts, test=test)
    vectors = Vectors(np.stack([vectors_of[node] for node in sorted(texts)]), "drawn")
    inside = [identity for identity in sorted(texts) if identity not in test]
    expected = brute_force(inside, np.stack([vectors_of[one] for one in inside]), options)
    mined = list(graph_triplets(found, vectors, options))
    assert mined == list(graph_triplets(found, vectors, options))
    seen: dict[str, list[str]] = {}
    for anchor, positive, negatives in told(found, mined):
        positives, hard_ones, far = expected[anchor]
        seen.setdefault(anchor, []).append(positive)
        assert [one for one, proposer in negatives if proposer == "graph"] == hard_ones
        drawn = [one for one, proposer in negatives if proposer == "random"]
        assert len(drawn) == len(set(drawn)) == easy
        assert set(drawn) <= far
        assert not {anchor, *positives} & {one for one, _ in negatives}
    assert seen == {anchor: positives for anchor, (positives, _, _) in expected.items()}
    assert list(seen) == inside
    again = made_of({identity: texts[identity] for identity in sorted(texts)}, test=test)
    assert told(again, graph_triplets(again, vectors, options)) == told(found, mined)


def test_easy_negatives_reach_every_passage_that_is_no_neighbour() -> None:
    found, vectors = on_a_line(14)
    drawn = set()
    for seed in range(40):
        options = replace(ALL, positives=1, positive_rank=1, hard=1, hard_rank=6, easy=2, seed=seed)
        first = next(graph_triplets(found, vectors, options))
        drawn |= {negative.row for negative in first.negatives[1:]}
    assert drawn == {7, 8, 9, 10, 11, 12, 13}


# ---------------------------------------------------------------- citations


def test_a_hard_negative_is_cited_by_a_cited_one_and_not_linked_with_the_anchor() -> None:
    texts = {name: f"About {name}." for name in "abcdefgh"}
    edges = [Edge(one, "cites", other) for one, other in ("ab", "bc", "bd", "da", "ba")]
    found = made_of(texts, edges)
    options = CitationTripletOptions(pairing="all", positives=9, hard=9, easy=9)
    mined = {row[0]: row for row in told(found, citation_triplets(found, options)) if row[0] == "a"}
    anchor, positive, negatives = mined["a"]
    assert (anchor, positive) == ("a", "b")
    assert [one for one, proposer in negatives if proposer == "citations"] == ["c"]  # d cites a
    assert {one for one, proposer in negatives if proposer == "random"} == {"e", "f", "g", "h"}


def test_other_relations_can_count_as_citing() -> None:
    found = made_of({name: f"About {name}." for name in "abc"}, [Edge("a", "refers_to", "b")])
    assert not list(citation_triplets(found))
    mined = told(found, citation_triplets(found, CitationTripletOptions(relations="refers_to, proof_uses", easy=1)))
    assert mined == [("a", "b", (("c", "random"),))]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_citation_triplets_hold_for_every_graph(data: st.DataObject) -> None:
    ids = [f"p{n}" for n in range(data.draw(st.integers(2, 12)))]
    texts = {one: data.draw(st.sampled_from([f"About {one}.", "The same.", "Alike."])) for one in ids}
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=30))
    test = data.draw(st.sets(st.sampled_from(ids)))
    options = CitationTripletOptions(
        positives=data.draw(st.integers(1, 3)), hard=data.draw(st.integers(0, 2)), easy=data.draw(st.integers(0, 2)),
        pairing="all", seed=data.draw(st.integers(0, 3)),
    )  # fmt: skip
    edges = [Edge(one, "cites", other) for one, other in pairs]
    found = made_of(texts, edges, test)
    mined = list(citation_triplets(found, options))
    text = {(texts[one], texts[other]) for one, other in pairs if not {one, other} & test}  # equal texts are one paper
    per_anchor: dict[int | str, int] = {}
    for triplet in mined:
        rows = [triplet.pair.anchor, triplet.pair.positive, *(n.row for n in triplet.negatives)]
        read = [found.texts([int(row)])[0] for row in rows]  # LeakageError for a row of another part
        assert len(set(read)) == len(read)
        anchor, positive, negatives = read[0], read[1], read[2:]
        assert (anchor, positive) in text
        for negative, record in zip(negatives, triplet.negatives, strict=True):
            assert (anchor, negative) not in text
            assert (negative, anchor) not in text
            second = any((anchor, middle) in text and (middle, negative) in text for middle in texts.values())
            assert second == (record.proposer == "citations")
        assert sum(n.proposer == "citations" for n in triplet.negatives) <= options.hard
        assert sum(n.proposer == "random" for n in triplet.negatives) <= options.easy
        per_anchor[triplet.pair.anchor] = per_anchor.get(triplet.pair.anchor, 0) + 1
    assert max(per_anchor.values(), default=0) <= options.positives
    order = data.draw(st.permutations(ids))
    again = made_of({one: texts[one] for one in order}, data.draw(st.permutations(edges)), test)
    assert told(again, citation_triplets(again, options)) == told(found, mined)


# ---------------------------------------------------------------- queries


def near(anchor: int, positive: int, *negatives: int) -> Triplet:
    return Triplet(
        Pair(anchor, positive, "graph_triplets", "neighbour", "rank 1"),
        tuple(Negative(row, "graph", "rank 9") for row in negatives),
    )


def test_former_positives_become_the_first_hard_negatives_of_a_query() -> None:
    found = made_of({name: f"About {name}." for name in "abcdef"})
    query = Pair("what is a?", 0, "queries", "question", "rule 1", 0.5)
    (triplet,) = query_triplets([query, Pair("and e?", 4, "queries")], [near(0, 1, 3), near(0, 2, 1, 3, 5)], found)
    assert triplet.pair == Pair("what is a?", 0, "query_triplets", "question", "queries: rule 1", 0.5)
    assert [negative.row for negative in triplet.negatives] == [1, 2, 3, 5]
    assert triplet.negatives[0].reason == "a positive of the document, rank 1"


def test_a_copy_of_the_document_is_no_negative_of_its_query() -> None:
    found = made_of({"a": "The same.", "b": "The same.", "c": "Other.", "d": "Other."})
    (triplet,) = query_triplets([Pair("q", 0, "queries")], [near(0, 1, 2, 3)], found)
    assert [negative.row for negative in triplet.negatives] == [2]


def test_queries_can_not_bring_in_rows_of_another_part() -> None:
    found = made_of({name: f"About {name}." for name in "abc"}, test=["c"])
    with pytest.raises(LeakageError, match="row 2"):
        list(query_triplets([Pair("q", 0, "queries")], [near(0, 1, 2)], found))
    with pytest.raises(LeakageError, match="row 2"):
        list(query_triplets([Pair("q", 2, "queries")], [], found))
    with pytest.raises(InputError, match="a query is a text"):
        list(query_triplets([Pair(1, 0, "queries")], [], found))
