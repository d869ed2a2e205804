from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.make import padded

from lemmata.core.types import Crowding, Edge, Floats, Integers
from lemmata.graph.links import build_graph
from lemmata.graph.store import Citations, citations_between
from lemmata.search.fusion import DENSE, EQUAL, LEXICAL, Fusion, candidates, combine, fit_fusion, fuse

Ranking = tuple[Integers, Floats]
PLAIN = EQUAL
ROWS = 31


def cited(pairs: Sequence[tuple[int, int]], passages: int = ROWS) -> Citations:
    """Citations from pairs of rows, by a graph whose nodes stand in another order than the rows."""
    names = [f"{(7 * row) % passages:02}" for row in range(passages)]
    graph = build_graph((Edge(names[a], "refers_to", names[b]) for a, b in pairs), dict.fromkeys(names, "passage"))
    rows = np.array([names.index(node) for node in graph.nodes], np.int64)
    return citations_between(graph, rows, passages)


def ranking(*rows: int) -> Ranking:
    return padded(rows, [1.0 / (n + 1) for n in range(len(rows))], 5)


def test_a_row_in_both_rankings_comes_first() -> None:
    rows, scores = fuse(ranking(1, 2, 3), ranking(4, 2, 5), 3, EQUAL)
    assert rows[0].tolist() == [1, 4, 2]
    rows, scores = fuse(ranking(1, 2, 3), ranking(2, 4, 5), 3, EQUAL)
    assert rows[0].tolist() == [2, 1, 4]
    assert scores[0, 0] == pytest.approx((1 + 0.25) / 2)


def test_the_weight_selects_between_the_rankings() -> None:
    a, b = ranking(1, 2, 3), ranking(4, 5, 6)
    assert fuse(a, b, 1, DENSE)[0][0, 0] == 1
    assert fuse(a, b, 1, LEXICAL)[0][0, 0] == 4


def test_two_empty_rankings_fuse_to_an_empty_one() -> None:
    rows, scores = fuse(ranking(), ranking(), 3, Fusion())
    assert rows.tolist() == [[-1, -1, -1]]
    assert np.isneginf(scores).all()


@given(
    st.lists(st.integers(0, 30), unique=True, max_size=8),
    st.lists(st.integers(0, 30), unique=True, max_size=8),
    st.integers(0, 20).map(lambda n: n / 20),
    st.integers(1, 20),
)
def test_fusion_equals_the_sum_by_definition(a: list[int], b: list[int], weight: float, k: int) -> None:
    def side(rows: list[int]) -> Ranking:
        return padded(rows, [2.0 - 0.1 * n for n in range(len(rows))], 8)

    rows, scores = fuse(side(a), side(b), k, Fusion(False, weight))
    sums: dict[int, float] = {}
    for part, share in ((a, weight), (b, 1 - weight)):
        for n, row in enumerate(part):
            by_score = 1 - n / (len(part) - 1) if len(part) > 1 else 1.0
            sums[row] = sums.get(row, 0) + share * by_score
    sums = {row: value for row, value in sums.items() if value > 1e-9 or (row in b and weight < 1)}
    fused = {int(row): float(score) for row, score in zip(rows[0], scores[0], strict=True) if row >= 0}
    assert len(fused) == min(k, len(sums))
    assert all(fused[row] == pytest.approx(sums[row], abs=1e-5) for row in fused)
    assert scores[0].tolist() == sorted(scores[0].tolist(), reverse=True)


scored = st.dictionaries(st.integers(0, ROWS - 1), st.floats(-1, 3, width=16), max_size=8).map(
    lambda found: sorted(found.items(), key=lambda item: (-item[1], item[0]))
)
links = st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, ROWS - 1)), max_size=60)
weights = st.integers(0, 20).map(lambda n: n / 20)


def arrays(found: Sequence[tuple[int, float]]) -> Ranking:
    return padded([row for row, _ in found], [score for _, score in found], 8)


@given(scored, scored, weights, links, st.sampled_from([0.0, 0.02, 0.5]), st.sampled_from([0.0, 0.2, 1.0]))
def test_the_graph_adds_what_its_definition_says(
    a: list[tuple[int, float]],
    b: list[tuple[int, float]],
    weight: float,
    pairs: list[tuple[int, int]],
    citations: float,
    citing: float,
) -> None:
    rows, scores = fuse(arrays(a), arrays(b), 20, Fusion(False, weight))
    base = {int(row): float(score) for row, score in zip(rows[0], scores[0], strict=True) if row >= 0}
    found = candidates(arrays(a), arrays(b))
    everything = {
        int(row): weight * float(dense) + (1 - weight) * float(lexical)
        for row, dense, lexical in zip(found.rows[0], found.dense[0], found.lexical[0], strict=True)
        if row >= 0
    }
    by = {row: {source for source, target in pairs if target == row != source} for row in base}
    expected = {
        row: score
        + citations * np.log1p(len(by[row]))
        + citing * sum(everything.get(source, 0) for source in by[row]) / max(len(by[row]), 1)
        for row, score in base.items()
    }
    fusion = Fusion(False, weight, citations=citations, citing=citing)
    rows, scores = fuse(arrays(a), arrays(b), 20, fusion, cited(pairs))
    fused = {int(row): float(score) for row, score in zip(rows[0], scores[0], strict=True) if row >= 0}
    assert fused == pytest.approx(expected, abs=1e-4)
    assert scores[0].tolist() == sorted(scores[0].tolist(), reverse=True)
    assert (rows[0][len(expected) :] == -1).all()


@given(scored, scored, weights, links, st.integers(0, ROWS - 1), st.integers(0, ROWS - 1))
def test_another_citation_never_lowers_a_passage(
    a: list[tuple[int, float]], b: list[tuple[int, float]], weight: float, pairs: list[tuple[int, int]], x: int, y: int
) -> None:
    fusion = Fusion(False, weight, citations=0.05, citing=0.0)

    def place(links: list[tuple[int, int]]) -> int:
        return int((fuse(arrays(a), arrays(b), 20, fusion, cited(links))[0][0] == y).argmax())

    assert place([*pairs, (x, y)]) <= place(pairs)


@given(scored, scored, weights, links, st.sampled_from([0.5, 2.0]), st.integers(-1, ROWS - 1))
@example([(1, 2.0), (2, 1.0)], [], 0.5, [(1, 4), (2, 5)], 2.0, -1)  # what the second refers to gains much less
def test_diffusion_adds_what_the_nearest_refer_to(
    a: list[tuple[int, float]],
    b: list[tuple[int, float]],
    weight: float,
    pairs: list[tuple[int, int]],
    diffusion: float,
    itself: int,
) -> None:
    allowed = np.arange(ROWS) % 3 > 0
    a, b = ([(row, score) for row, score in ranked if allowed[row]] for ranked in (a, b))
    others_a, others_b = ([(row, score) for row, score in ranked if row != itself] for ranked in (a, b))
    rows, scores = fuse(arrays(others_a), arrays(others_b), ROWS, Fusion(False, weight))
    base = {int(row): float(score) for row, score in zip(rows[0], scores[0], strict=True) if row >= 0}
    largest = max((score for _, score in others_a), default=0)
    received = dict.fromkeys(range(ROWS), 0.0)
    for source, target in {*pairs}:
        starts = [score for row, score in others_a if row == source]
        if starts and source != target != itself:
            received[target] += (max(starts[0], 0) / max(largest, 1e-12)) ** 4
    most = max(received.values())
    expected = dict(base)
    for row, value in received.items():
        if value > 0 and (allowed[row] or row in base):
            expected[row] = base.get(row, 0.0) + diffusion * value / most
    fusion = Fusion(False, weight, diffusion=diffusion)
    rows, scores = fuse(arrays(a), arrays(b), ROWS, fusion, cited(pairs), np.array([itself]), allowed)
    fused = {int(row): float(score) for row, score in zip(rows[0], scores[0], strict=True) if row >= 0}
    assert fused == pytest.approx(expected, abs=1e-4)


def test_equal_scores_go_to_the_lower_row() -> None:
    both = padded([5, 3, 9], [1.0, 1.0, 1.0], 5)
    assert fuse(both, both, 3, PLAIN)[0][0].tolist() == [3, 5, 9]
    prior = cited([(0, 3), (1, 9)])
    assert fuse(both, both, 3, Fusion(False, 0.5, citations=0.1), prior)[0][0].tolist() == [3, 9, 5]


def test_what_the_query_itself_refers_to_gains_nothing_from_that() -> None:
    both = padded([5, 3, 9], [1.0, 1.0, 1.0], 5)
    prior = cited([(20, 9), (20, 5), (21, 5)])
    fusion = Fusion(False, 0.5, citations=0.1, citing=0.1)
    rows, scores = fuse(both, both, 3, fusion, prior, np.array([20]))
    assert rows[0].tolist() == [5, 3, 9]
    assert scores[0].tolist() == pytest.approx([1 + 0.1 * np.log(2), 1, 1])


def test_links_count_once_and_neither_loops_nor_other_relations_do() -> None:
    kinds = {"a": "passage", "b": "passage", "c": "passage", "d": "document"}
    edges = [
        Edge("a", "refers_to", "b"),
        Edge("a", "proof_uses", "b"),
        Edge("c", "cites", "b"),
        Edge("b", "refers_to", "b"),
        Edge("a", "next", "c"),
        Edge("a", "cites", "d"),
    ]
    graph = build_graph(edges, kinds)
    found = citations_between(graph, np.array([2, 1, 0, -1]), 3)
    assert found.counts.tolist() == [0, 2, 0]
    assert found.indptr.tolist() == [0, 1, 1, 2]
    assert found.indices.tolist() == [1, 1]


# ---------------------------------------------------------------- more hits than candidates


@given(
    st.permutations(range(40)),
    st.permutations(range(40)),
    st.integers(0, 40),
    weights,
    st.integers(2, 12),
    st.integers(-1, 39),
)
def test_more_hits_never_change_the_first_ones(
    a: list[int], b: list[int], words: int, weight: float, depth: int, itself: int
) -> None:
    """Passages 0 to 39 are all near to some degree, and some share words with the query."""

    def hits(k: int) -> list[int]:
        width = max(k, depth)
        dense = padded(a[:width], np.linspace(0.9, 0.1, 40)[:width].tolist(), width)
        lexical = padded(b[: min(words, width)], np.linspace(9, 1, 40)[: min(words, width)].tolist(), width)
        rows, scores = fuse(dense, lexical, k, Fusion(False, weight, depth), itself=np.array([itself]))
        found: list[int] = rows[0][rows[0] >= 0].tolist()
        assert (np.diff(scores[0][: len(found)]) <= 0).all()
        assert len(set(found)) == len(found)
        assert itself not in found
        return found

    whole = hits(40)
    if weight > 0:
        assert set(whole) == set(range(40)) - {itself}
    for k in range(1, 40):
        first = hits(k)
        assert first == whole[:k][: len(first)]
        assert len(first) >= min(k, len(whole)) - 2  # without the query itself, and the last neighbour


def test_scores_that_differ_by_rounding_are_equal() -> None:
    dense = padded([5, 3, 9], [0.5 + 3e-7, 0.5 + 1e-7, 0.5], 3)
    rows, scores = fuse(dense, padded([9], [2.0], 3), 3, EQUAL)
    assert rows[0].tolist() == [9, 3, 5]
    assert scores[0].tolist() == [1.0, 0.5, 0.5]


# ---------------------------------------------------------------- a learned metric


@given(scored, scored, scored, weights, st.sampled_from([0.0, 0.5, 2.0]), st.integers(-1, ROWS - 1))
def test_a_learned_ranking_adds_its_scaled_scores_and_its_rows(
    a: list[tuple[int, float]],
    b: list[tuple[int, float]],
    c: list[tuple[int, float]],
    weight: float,
    learned: float,
    itself: int,
) -> None:
    fusion = Fusion(weight=weight, learned=learned)
    own = np.array([itself])
    rows, scores = fuse(arrays(a), arrays(b), 40, fusion, itself=own, learned=lambda _: arrays(c))
    sums: dict[int, float] = {}
    shown = set()
    for part, share in ((a, weight), (b, 1 - weight), (c, learned)):
        others = [(row, score) for row, score in part if row != itself]
        low, high = min((s for _, s in others), default=0), max((s for _, s in others), default=0)
        for row, score in others:
            value = (score - low) / (high - low) if high - low > 1e-6 else 1.0
            sums[row] = sums.get(row, 0) + share * value
            if share * value > 0 or (part is b and share > 0):
                shown.add(row)
    fused = {int(row): float(score) for row, score in zip(rows[0], scores[0], strict=True) if row >= 0}
    assert fused.keys() == shown
    assert all(fused[row] == pytest.approx(sums[row], abs=1e-4) for row in fused)


def test_a_learned_ranking_gets_the_candidates() -> None:
    given: list[list[int]] = []

    def learned(rows: Integers) -> Ranking:
        given.extend(rows.tolist())
        return ranking(9)

    fuse(ranking(1, 2), ranking(3), 3, Fusion(learned=1.0, diffusion=1.0), cited([(1, 7)]), learned=learned)
    assert sorted({*given[0]} - {-1}) == [1, 2, 3, 7]
    fuse(ranking(1, 2), ranking(3), 3, Fusion(), learned=learned)
    assert len(given) == 1  # a ranking of weight 0 is not asked for


def test_the_weight_of_a_learned_ranking_is_fitted_only_where_there_is_one() -> None:
    _, lexical, answers = posed("dense", 40, np.random.default_rng(0))
    better = answers[:, None], np.ones((40, 1), np.float32)
    found = candidates(lexical, lexical, learned=lambda _: better)

    def values(fusion: Fusion) -> npt.NDArray[np.float64]:
        return np.asarray(combine(found, 10, fusion)[0][:, 0] == answers, np.float64)

    assert fit_fusion(values, EQUAL, graph=False, learned=True).fusion.learned > 0
    assert fit_fusion(values, EQUAL, graph=False).fusion.learned == 0


# ---------------------------------------------------------------- fitting


def posed(good: str, queries: int, generator: np.random.Generator) -> tuple[Ranking, Ranking, Integers]:
    """Queries whose answer one ranking has first and the other among its last, and the answers."""
    answers = generator.integers(0, 40, queries)
    others = np.stack([generator.permutation(np.delete(np.arange(40), answer))[:19] for answer in answers])
    first = np.concatenate([answers[:, None], others], axis=1)
    last = np.concatenate([others[:, ::-1], answers[:, None]], axis=1)
    scores = np.tile(np.linspace(1, 0.1, 20, dtype=np.float32), (queries, 1))
    dense, lexical = (first, last) if good == "dense" else (last, first)
    return (dense, scores), (lexical, scores), answers


@pytest.mark.parametrize(("good", "single"), [("dense", DENSE), ("lexical", LEXICAL)])
def test_the_fit_finds_the_better_ranking(good: str, single: Fusion) -> None:
    dense, lexical, answers = posed(good, 40, np.random.default_rng(0))
    found = candidates(dense, lexical)

    def values(fusion: Fusion) -> npt.NDArray[np.float64]:
        return np.asarray(combine(found, 10, fusion)[0][:, 0] == answers, np.float64)

    fit = fit_fusion(values, EQUAL, graph=False)
    assert values(fit.fusion).mean() >= values(single).mean() == 1
    assert not fit.fusion.uses_graph
    assert fit.tried[EQUAL].mean() < 1


def test_the_fit_stays_at_its_start_where_queries_disagree() -> None:
    def values(fusion: Fusion) -> npt.NDArray[np.float64]:
        gain = fusion.weight + fusion.citations + fusion.citing  # of one query; the other loses nearly as much
        return np.array([gain, -0.9 * gain])

    fit = fit_fusion(values, Fusion(), graph=True)
    assert fit.fusion == Fusion()
    assert max(each.mean() for each in fit.tried.values()) > fit.tried[Fusion()].mean()


def test_one_query_fits_nothing() -> None:
    assert fit_fusion(lambda fusion: np.array([fusion.weight]), EQUAL, graph=True).fusion == EQUAL


def test_words_count_less_where_no_passage_holds_much_of_the_query() -> None:
    by_vectors = np.array([[1, 2]]), np.array([[0.9, 0.5]], np.float32)
    by_words = np.array([[2, 1]]), np.array([[4.0, 1.0]], np.float32)
    crowding = Crowding(np.zeros(3, np.float32), 0.4)
    fusion = Fusion(weight=0.4)
    first = {
        bound: fuse(by_vectors, by_words, 1, fusion, crowding=crowding, bounds=np.array([bound]))[0][0, 0]
        for bound in (2.0, 12.0)
    }
    assert first == {2.0: 2, 12.0: 1}
    found = candidates(by_vectors, by_words, crowding, bounds=np.array([12.0]))
    assert found.held.item() == pytest.approx(0.25)
    assert candidates(by_vectors, by_words, crowding, bounds=np.array([0.1])).held.item() == 1
    assert candidates(by_vectors, (np.array([[-1]]), np.array([[-np.inf]])), crowding, bounds=np.array([1.0])).held == 1
