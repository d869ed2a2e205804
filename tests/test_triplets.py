"""Triplets from graph embeddings, citations and generated queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.make import MemoryCorpus

from lemmata.core.errors import ConfigError, InputError, LeakageError
from lemmata.core.types import Document, Edge, Floats, Negative, Pair, Passage, Triplet, Vectors
from lemmata.corpus.split import Split
from lemmata.graph.links import build_graph
from lemmata.mine.material import TrainingView, training_view
from lemmata.mine.triplets import (
    SCINCL,
    CitationTripletOptions,
    GraphTripletOptions,
    citation_triplets,
    graph_triplets,
    query_triplets,
)


def made_of(texts: dict[str, str], edges: Sequence[Edge] = (), test: Iterable[str] = ()) -> TrainingView:
    held_out = set(test)
    passages = [Passage(identity, identity, "abstract", text) for identity, text in texts.items()]
    parts = np.array([2 if identity in held_out else 0 for identity in texts], np.int8)
    graph = build_graph(edges, dict.fromkeys(texts, "passage"))
    return training_view(MemoryCorpus(passages), Split(parts, np.zeros(len(texts), bool)), graph=graph)


def names(part: TrainingView) -> dict[int, str]:
    return {row: identity for identity, row in part.row_of.items()}


def by_anchor(part: TrainingView, triplets: Iterable[Triplet]) -> dict[str, tuple[list[str], dict[str, list[str]]]]:
    """For each anchor its positives and, by proposer, its negatives, as ids; each triplet has one negative."""
    name = names(part)
    result: dict[str, tuple[list[str], dict[str, list[str]]]] = {}
    for (anchor, positive, *_), (negative,) in triplets:
        positives, negatives = result.setdefault(anchor if isinstance(anchor, str) else name[anchor], ([], {}))
        positives += [name[positive]] if name[positive] not in positives else []
        drawn = negatives.setdefault(negative.proposer, [])
        drawn += [name[negative.row]] if name[negative.row] not in drawn else []
    return result


ANY_LENGTH = GraphTripletOptions(shortest=0)


def on_a_line(count: int) -> tuple[TrainingView, Vectors]:
    """Passages whose vectors turn by ever larger angles, so that the nearest are the next ones."""
    part = made_of({f"p{n:02}": f"Text number {n}." for n in range(count)})
    angles = np.cumsum(np.linspace(0.001, 0.1, count))
    matrix = np.stack((np.cos(angles), np.sin(angles)), axis=1) * np.linspace(1, 9, count)[:, None]
    return part, Vectors(matrix.astype(np.float32), "line")


# ---------------------------------------------------------------- graph embeddings


def test_the_text_of_a_location_is_an_anchor_with_its_nearest_logs_and_none_of_its_own_as_negatives() -> None:
    logs = [Passage(f"L{n:02}", "table", "log", f"Log number {n}.") for n in range(9)]
    places = [Document(f"location:{name}", kind="location") for name in ("P1", "P2", "P3")]
    edges = [Edge(f"L{n:02}", "reports_about", "location:P1") for n in (0, 1, 4)]
    edges += [Edge("L08", "reports_about", "location:P2")]
    kinds = {one.id: "log" for one in logs} | {one.id: "location" for one in places}
    graph = build_graph(edges, kinds)
    shelf = MemoryCorpus(logs, [Document("table", kind="table"), *places])
    part = training_view(shelf, Split(np.zeros(9, np.int8), np.zeros(9, bool)), graph=graph)
    angle = {f"L{n:02}": 0.1 * n for n in range(9)} | {"location:P1": -0.1, "location:P2": 0.9, "location:P3": 0.3}
    angles = np.array([angle.get(node, 1.5) for node in graph.nodes])
    vectors = Vectors(np.stack((np.cos(angles), np.sin(angles)), axis=1).astype(np.float32), "line")
    options = replace(ANY_LENGTH, positives=2, positive_rank=2, hard=2, hard_rank=5)
    texts = {"location:P1": "reflux pump", "location:P2": "", "location:P3": "tank that no log is about"}
    triplets = list(graph_triplets(part, vectors, options, texts=texts))
    mined = by_anchor(part, triplets)
    assert {anchor for anchor in mined if not anchor.startswith("L")} == {"reflux pump"}
    positives, negatives = mined["reflux pump"]
    assert positives == ["L00", "L01"]
    assert negatives["graph"] == ["L03"]  # the fifth, L04, is about the pump as well
    of_logs = [triplet for triplet in triplets if not isinstance(triplet.pair.anchor, str)]
    assert of_logs == list(graph_triplets(part, vectors, options))


def test_each_positive_goes_with_one_negative_as_in_the_papers() -> None:
    part, vectors = on_a_line(60)
    options = GraphTripletOptions(shortest=0)
    first = [triplet for triplet in graph_triplets(part, vectors, options) if triplet.pair.anchor == 0]
    assert [(t.pair.positive, len(t.negatives), t.negatives[0].proposer) for t in first] == [
        (1, 1, "graph"),
        (2, 1, "random"),
    ]
    assert first[0].negatives[0].row == 50


def test_presets_are_those_of_the_papers() -> None:
    def numbers(o: GraphTripletOptions) -> tuple[int, ...]:
        return o.positives, o.positive_rank, o.easy, o.hard, o.hard_rank, o.shortest

    assert numbers(GraphTripletOptions()) == (2, 2, 1, 1, 50, 100)
    assert numbers(SCINCL) == (5, 25, 3, 2, 4000, 100)


def test_short_passages_keep_their_vectors_but_are_not_sampled() -> None:
    texts = {f"p{n}": "long enough, " * 10 + str(n) if n % 2 else f"short {n}" for n in range(20)}
    part = made_of(texts)
    vectors = Vectors(np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32), "any")
    options = GraphTripletOptions(positives=2, positive_rank=2, hard=1, hard_rank=3)
    rows = {row for t in graph_triplets(part, vectors, options) for row in (t.pair.anchor, t.pair.positive)}
    assert rows <= {row for row, identity in names(part).items() if int(identity[1:]) % 2}


def test_a_negative_has_no_edge_with_its_anchor() -> None:
    texts = {f"p{n:02}": f"Text number {n}." for n in range(12)}
    part = made_of(texts, [Edge("p00", "refers_to", "p07"), Edge("p09", "cites", "p00")])
    _, vectors = on_a_line(12)
    options = replace(ANY_LENGTH, positives=3, positive_rank=3, hard=1, hard_rank=7)
    _, negatives = by_anchor(part, graph_triplets(part, vectors, options))["p00"]
    assert negatives.keys() == {"random"}  # the hard one is linked
    assert set(negatives["random"]) <= {"p08", "p10", "p11"}


def test_nodes_without_a_vector_and_second_copies_of_a_text_are_left_out() -> None:
    texts = {f"p{n}": f"Text {n % 8}." for n in range(10)}  # p8 and p9 repeat p0 and p1
    part = made_of(texts)
    matrix = np.random.default_rng(1).standard_normal((10, 3)).astype(np.float32)
    matrix[5] = 0
    options = replace(ANY_LENGTH, positives=2, positive_rank=2, hard=1, hard_rank=4)
    mined = list(graph_triplets(part, Vectors(matrix, "any"), options))
    used = {row for t in mined for row in (t.pair.anchor, t.pair.positive, *(n.row for n in t.negatives))}
    assert used == {0, 1, 2, 3, 4, 6, 7}


def test_an_anchor_is_not_its_own_neighbour_even_among_equal_vectors() -> None:
    part, _ = on_a_line(12)
    options = replace(ANY_LENGTH, positives=3, positive_rank=3, hard=1, hard_rank=5)
    triplets = by_anchor(part, graph_triplets(part, Vectors(np.ones((12, 3), np.float32), "same"), options))
    assert len(triplets) == 12
    for anchor, (positives, negatives) in triplets.items():
        ids = [anchor, *positives, *negatives["graph"], *negatives["random"]]
        assert len(set(ids)) == len(ids) == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (replace(ANY_LENGTH, positives=3, positive_rank=2), "positives = 3"),
        (replace(ANY_LENGTH, positives=1, positive_rank=5, hard=2, hard_rank=6), "hard_rank"),
        (replace(ANY_LENGTH, hard=60), "hard = 60"),
    ],
)
def test_bands_that_make_no_sense_are_refused(options: GraphTripletOptions, message: str) -> None:
    part, vectors = on_a_line(12)
    with pytest.raises(ConfigError, match=message):
        list(graph_triplets(part, vectors, options))


def test_too_few_passages_and_vectors_of_another_graph_are_errors() -> None:
    part, vectors = on_a_line(12)
    with pytest.raises(InputError, match=r"50.*12"):
        list(graph_triplets(part, vectors, replace(ANY_LENGTH)))
    with pytest.raises(InputError, match=r"3.*12"):
        list(graph_triplets(part, Vectors(vectors.matrix[:3], "cut"), replace(ANY_LENGTH, hard_rank=5)))


def brute_force(
    ids: Sequence[str], matrix: Floats, options: GraphTripletOptions
) -> dict[str, tuple[list[str], list[str], set[str]]]:
    """Positives, hard negatives and all that may be an easy negative, one anchor at a time in 64 bits."""
    unit = matrix.astype(np.float64) / np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    expected = {}
    for place, anchor in enumerate(ids):
        ranked = sorted((n for n in range(len(ids)) if n != place), key=lambda n: -float(unit[n] @ unit[place]))
        near = [ids[n] for n in ranked]
        last = max(options.positive_rank, options.hard_rank if options.hard else 0)
        expected[anchor] = (
            [near[rank - 1] for rank in range(1, last + 1)
             if options.positive_rank - options.positives < rank <= options.positive_rank],
            [near[rank - 1] for rank in range(1, last + 1)
             if options.hard_rank - options.hard < rank <= options.hard_rank],
            set(near[last:]),
        )  # fmt: skip
    return expected


@given(st.data())
def test_bands_agree_with_brute_force_and_never_collide(data: st.DataObject) -> None:
    positive_rank = data.draw(st.integers(1, 6))
    positives = data.draw(st.integers(1, positive_rank))
    hard = data.draw(st.integers(0, positives))
    hard_rank = positive_rank + hard + data.draw(st.integers(0, 5))
    options = GraphTripletOptions(positives, positive_rank, hard, hard_rank, 0)
    easy = positives - hard
    count = hard_rank + easy + 1 + data.draw(st.integers(0, 6))
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
    part = made_of(texts, test=test)
    vectors = Vectors(np.stack([vectors_of[node] for node in sorted(texts)]), "drawn")
    inside = [identity for identity in sorted(texts) if identity not in test]
    expected = brute_force(inside, np.stack([vectors_of[one] for one in inside]), options)
    mined = list(graph_triplets(part, vectors, options))
    assert mined == list(graph_triplets(part, vectors, options))
    triplets = by_anchor(part, mined)
    assert list(triplets) == inside
    assert len(mined) == positives * len(inside)
    for anchor, (chosen, negatives) in triplets.items():
        near, hard_ones, far = expected[anchor]
        drawn = negatives.get("random", [])
        assert chosen == near
        assert negatives.get("graph", []) == hard_ones
        assert len(drawn) == easy
        assert set(drawn) <= far
        assert not {anchor, *near} & {*hard_ones, *drawn}
    again = made_of({identity: texts[identity] for identity in sorted(texts)}, test=test)
    assert by_anchor(again, graph_triplets(again, vectors, options)) == triplets


# ---------------------------------------------------------------- citations


def test_a_hard_negative_is_cited_by_a_cited_one_and_not_linked_with_the_anchor() -> None:
    texts = {name: f"About {name}." for name in "abcdefgh"}
    edges = [Edge(one, "cites", other) for one, other in ("ab", "bc", "bd", "da", "ba")]
    part = made_of(texts, edges)
    positives, negatives = by_anchor(part, citation_triplets(part, CitationTripletOptions()))["a"]
    assert positives == ["b"]
    assert negatives["citations"] == ["c"]  # d cites a
    assert set(negatives["random"]) < {"e", "f", "g", "h"}


def test_other_relations_can_count_as_citing() -> None:
    part = made_of({name: f"About {name}." for name in "abc"}, [Edge("a", "refers_to", "b")])
    assert not list(citation_triplets(part))
    mined = citation_triplets(part, CitationTripletOptions(relations="refers_to, proof_uses"))
    assert by_anchor(part, mined) == {"a": (["b"], {"random": ["c"]})}


@given(st.data())
def test_citation_triplets_keep_their_promises_in_every_graph(data: st.DataObject) -> None:
    ids = [f"p{n}" for n in range(data.draw(st.integers(2, 12)))]
    texts = {one: data.draw(st.sampled_from([f"About {one}.", "The same.", "Alike."])) for one in ids}
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=30))
    test = data.draw(st.sets(st.sampled_from(ids)))
    edges = [Edge(one, "cites", other) for one, other in pairs]
    part = made_of(texts, edges, test)
    mined = list(citation_triplets(part))
    text = {(texts[one], texts[other]) for one, other in pairs if not {one, other} & test}  # equal texts are one paper
    for triplet in mined:
        rows = [triplet.pair.anchor, triplet.pair.positive, *(n.row for n in triplet.negatives)]
        anchor, positive, negative = (part.texts([int(row)])[0] for row in rows)  # LeakageError for other parts
        assert len({anchor, positive, negative}) == 3
        assert (anchor, positive) in text
        assert (anchor, negative) not in text
        assert (negative, anchor) not in text
        second = any((anchor, middle) in text and (middle, negative) in text for middle in texts.values())
        assert second == (triplet.negatives[0].proposer == "citations")
    for chosen, negatives in by_anchor(part, mined).values():
        assert len(chosen) <= 5
        assert len(negatives.get("citations", [])) <= 2
        assert len(negatives.get("random", [])) <= 3
    order = data.draw(st.permutations(ids))
    again = made_of({one: texts[one] for one in order}, data.draw(st.permutations(edges)), test)
    assert by_anchor(again, citation_triplets(again)) == by_anchor(part, mined)


# ---------------------------------------------------------------- queries


def near(anchor: int, positive: int, *negatives: int) -> Triplet:
    return Triplet(
        Pair(anchor, positive, "graph_triplets", "neighbour", "rank 1"),
        tuple(Negative(row, "graph", "rank 9") for row in negatives),
    )


def test_former_positives_become_the_first_hard_negatives_of_a_query() -> None:
    part = made_of({name: f"About {name}." for name in "abcdef"})
    query = Pair("what is a?", 0, "queries", "question", "rule 1", 0.5)
    (triplet,) = query_triplets([query, Pair("and e?", 4, "queries")], [near(0, 1, 3), near(0, 2, 1, 3, 5)], part)
    assert triplet.pair == Pair("what is a?", 0, "query_triplets", "question", "queries: rule 1", 0.5)
    assert [negative.row for negative in triplet.negatives] == [1, 2, 3, 5]
    assert triplet.negatives[0].reason == "a positive of the document, rank 1"


def test_a_copy_of_the_document_is_no_negative_of_its_query() -> None:
    part = made_of({"a": "The same.", "b": "The same.", "c": "Other.", "d": "Other."})
    (triplet,) = query_triplets([Pair("q", 0, "queries")], [near(0, 1, 2, 3)], part)
    assert [negative.row for negative in triplet.negatives] == [2]


def test_queries_cannot_bring_in_rows_of_another_part() -> None:
    part = made_of({name: f"About {name}." for name in "abc"}, test=["c"])
    with pytest.raises(LeakageError, match="row 2"):
        list(query_triplets([Pair("q", 0, "queries")], [near(0, 1, 2)], part))
    with pytest.raises(LeakageError, match="row 2"):
        list(query_triplets([Pair("q", 2, "queries")], [], part))
    with pytest.raises(InputError, match=r"row 0 .*row 1"):
        list(query_triplets([Pair(1, 0, "queries")], [], part))
