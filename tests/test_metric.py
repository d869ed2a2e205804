"""Learned metrics: their geometry, the network, what it learns, and its export."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra
from tests.make import killed_at

from lemmata.core.errors import ConfigError
from lemmata.core.types import Edge, Floats, Graph, Integers
from lemmata.graph.links import build_graph
from lemmata.graph.stored_metric import LearnedMetric, local_distances, measure_by_metric

Case = tuple[Floats, Floats, float]


@st.composite
def spaces(draw: st.DrawFn) -> Case:
    """Embeddings (n, d), factors (n, d, r) and ε."""
    n, d, r = draw(st.integers(2, 8)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    h = generator.standard_normal((n, d)).astype(np.float32)
    factors = (scale * generator.standard_normal((n, d, r))).astype(np.float32)
    return h, factors, draw(st.sampled_from([1e-3, 0.1, 1.0]))


def metric_of(factor: Floats, epsilon: float) -> Floats:
    wide = factor.astype(np.float64)
    return np.asarray(wide @ wide.T + epsilon * np.eye(len(wide)))


def complete_graph(n: int) -> Graph:
    names = [f"{node:03}" for node in range(n)]
    edges = (Edge(names[i], "cites", names[j]) for i in range(n) for j in range(i + 1, n))
    return build_graph(edges, dict.fromkeys(names, "passage"))


def lengths_of(graph: Graph, case: Case) -> tuple[Floats, Floats]:
    h, factors, epsilon = case
    forward, backward = (np.zeros(len(graph.indices), np.float32) for _ in range(2))
    ends = graph.sources(), np.asarray(graph.indices)
    measure_by_metric(*ends, h, lambda nodes: factors[nodes], epsilon, forward, backward, lambda *_: None)
    return forward, backward


@given(spaces())
def test_a_metric_is_positive_definite_with_all_eigenvalues_at_least_epsilon(case: Case) -> None:
    _, factors, epsilon = case
    for factor in factors:
        metric = metric_of(factor, epsilon)
        assert np.array_equal(metric, metric.T)
        values = np.linalg.eigvalsh(metric)
        assert values.min() >= epsilon - 1e-6 * max(1, values.max())


@given(spaces())
def test_a_distance_is_that_of_the_whole_metric(case: Case) -> None:
    h, factors, epsilon = case
    distances = local_distances(h[0], factors[0], h, epsilon)
    differences = (h - h[0]).astype(np.float64)
    expected = np.sqrt(np.einsum("nd,de,ne->n", differences, metric_of(factors[0], epsilon), differences))
    assert np.allclose(distances, expected, rtol=1e-3, atol=1e-4)


@given(spaces(), st.integers(0, 5))
def test_a_metric_cut_to_a_lower_rank_is_wrong_by_the_singular_values_that_were_cut_off(case: Case, rank: int) -> None:
    """|d² - d²_r| ≤ σ²_{r + 1} |h_j - h_i|², with σ of L in descending order."""
    h, factors, epsilon = case
    left, values, right = np.linalg.svd(factors[0].astype(np.float64), full_matrices=False)
    cut = ((left[:, :rank] * values[:rank]) @ right[:rank]).astype(np.float32)
    whole = local_distances(h[0], factors[0], h, epsilon).astype(np.float64) ** 2
    low = local_distances(h[0], cut, h, epsilon).astype(np.float64) ** 2
    largest = values[rank] ** 2 if rank < len(values) else 0.0
    bound = largest * np.square(h - h[0]).sum(axis=1)
    assert (np.abs(whole - low) <= bound + 1e-3 * (1 + whole)).all()


@given(spaces())
def test_where_metrics_vary_smoothly_both_directions_of_an_edge_have_nearly_one_length(case: Case) -> None:
    """|d_i(i, j) - d_j(j, i)| ≤ |L_i - L_j| |h_i - h_j|: back along a path, at most the sum of that is added."""
    h, factors, _ = case
    graph = complete_graph(len(h))
    forward, backward = lengths_of(graph, case)
    sources, targets = graph.sources(), graph.indices
    apart = np.linalg.norm(h[sources] - h[targets], axis=1)
    differing = np.array([np.linalg.norm(factors[i] - factors[j], 2) for i, j in zip(sources, targets, strict=True)])
    assert (np.abs(forward - backward) <= differing * apart + 1e-3 * (1 + forward)).all()


@given(spaces(), st.data())
def test_a_geodesic_is_no_longer_than_any_path(case: Case, data: st.DataObject) -> None:
    n = len(case[0])
    graph = complete_graph(n)
    forward, backward = lengths_of(graph, case)
    matrix = np.zeros((n, n))
    matrix[graph.sources(), graph.indices] = forward
    matrix[graph.indices, graph.sources()] = backward
    path = data.draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=n, unique=True))
    along = sum(matrix[one, other] for one, other in itertools.pairwise(path))
    geodesic = dijkstra(csr_matrix(matrix), indices=path[0])
    assert geodesic[path[-1]] <= along + 1e-6


def test_a_length_is_by_the_metric_of_the_end_that_is_left() -> None:
    h, factors = np.array([[0], [1]], np.float32), np.array([[[1]], [[3]]], np.float32)
    forward, backward = lengths_of(complete_graph(2), (h, factors, 0.0))
    assert (forward.tolist(), backward.tolist()) == ([1.0], [3.0])


def test_no_anchor_is_its_own_negative_nor_is_what_it_is_linked_to() -> None:
    torch = pytest.importorskip("torch")
    from lemmata.train.metric_network import _Links, _similar

    vectors, links, _, _ = small_world()
    pairs = torch.tensor(links[np.lexsort((links[:, 1], links[:, 0]))])
    anchors = torch.unique(pairs[:, 0])
    negatives = _similar(torch.tensor(vectors), anchors, torch.arange(len(vectors)), _Links(pairs, len(vectors)))
    target_of = dict(links.tolist())
    for anchor, rows in zip(anchors.tolist(), negatives.tolist(), strict=True):
        assert not {anchor, target_of[anchor]} & set(rows)


def test_lengths_are_the_same_whether_edges_come_in_one_block_or_in_many(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    case = generator.standard_normal((20, 4)).astype(np.float32), generator.standard_normal((20, 4, 2)), 0.5
    graph = complete_graph(20)
    whole = lengths_of(graph, (case[0], case[1].astype(np.float32), case[2]))
    monkeypatch.setattr("lemmata.graph.stored_metric._EDGES", 7)
    parts = lengths_of(graph, (case[0], case[1].astype(np.float32), case[2]))
    assert np.allclose(whole, parts)


def test_the_metric_of_a_query_orders_passages() -> None:
    h = np.array([[1, 0], [0, 1], [2, 0]], np.float32)

    def head(vectors: Floats) -> tuple[Floats, Floats]:  # looks at the first component only
        factor = np.array([[3.0], [0.0]], np.float32)
        return vectors, np.repeat(factor[None], len(vectors), axis=0)

    metric = LearnedMetric(h, 0.01, head)
    rows, similarities = metric.search(np.zeros((1, 2), np.float32), 4)
    assert rows.tolist() == [[1, 0, 2, -1]]
    assert similarities[0, 0] == pytest.approx(1 - 0.01 / 2)
    assert np.isneginf(similarities[0, 3])
    rows, _ = metric.search(np.zeros((2, 2), np.float32), 2, np.array([True, False, True]))
    assert rows.tolist() == [[0, 2], [0, 2]]


@pytest.mark.parametrize("passages", [50, 40_000])
def test_of_a_large_corpus_only_the_candidates_are_compared(passages: int) -> None:
    h = np.arange(passages, dtype=np.float32)[:, None]
    metric = LearnedMetric(h, 1.0, lambda vectors: (vectors, np.zeros((len(vectors), 1, 1), np.float32)))
    candidates = np.array([[30, 7, 30, -1], [-1, -1, -1, -1]])
    rows, _ = metric.search_among(np.array([[10.2], [20.2]], np.float32), 3, candidates)
    assert rows.tolist() == ([[10, 11, 9], [20, 21, 19]] if passages == 50 else [[7, 30, -1], [-1, -1, -1]])


# ---------------------------------------------------------------- the network


def small_world(seed: int = 0) -> tuple[Floats, Integers, Integers, list[set[int]]]:
    """Vectors, links, and held-out rows with their answers. Rows of one topic refer to the survey of another one."""
    generator = np.random.default_rng(seed)
    topics = 8
    centres = np.linalg.qr(generator.standard_normal((16, 16)))[0][:topics]
    topic = np.repeat(np.arange(topics), 25)
    vectors = centres[topic] + 0.15 * generator.standard_normal((len(topic), 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    survey = ((topic + 1) % topics) * 25
    rows = np.flatnonzero(np.arange(len(topic)) % 25 > 1)
    held_out = rows[rows % 5 == 0]
    links = np.stack([rows, survey[rows]], axis=1)[rows % 5 != 0]
    return vectors.astype(np.float32), links, held_out, [{int(survey[row])} for row in held_out]


@pytest.mark.parametrize("text_start", [True, False])
def test_attention_over_nobody_else_is_what_a_text_alone_gets(text_start: bool) -> None:
    torch = pytest.importorskip("torch")
    from lemmata.train.metric_network import MetricGAT, MetricOptions, messages

    vectors, links, _, _ = small_world()
    model = MetricGAT(vectors, MetricOptions(dimension=16, rank=4, text_start=text_start))
    x = torch.tensor(vectors)
    none = messages(torch.zeros((0, 2), dtype=torch.long), len(x))
    alone = model.locate_alone(x)
    assert torch.allclose(model.locate(x, none).h, alone.h, atol=1e-5)
    linked = model.locate(x, messages(torch.tensor(links), len(x)))
    assert not torch.allclose(linked.h, alone.h, atol=1e-3)


def test_attention_is_a_softmax_over_the_messages_of_each_node() -> None:
    torch = pytest.importorskip("torch")
    from lemmata.train.metric_network import _softmax_by_target

    scores = torch.tensor([[1.0, 100.0], [2.0, 0.0], [3.0, -100.0]])
    weights = _softmax_by_target(scores, torch.tensor([0, 0, 1]), 3)
    assert torch.allclose(weights[:2, 0], torch.softmax(torch.tensor([1.0, 2.0]), 0))
    assert weights[2].tolist() == [1.0, 1.0]


def test_the_untrained_network_ranks_as_the_vectors_do() -> None:
    torch = pytest.importorskip("torch")
    from lemmata.train.metric_network import MetricGAT, MetricOptions

    vectors = small_world()[0]
    model = MetricGAT(vectors, MetricOptions(dimension=32, rank=4))
    located = model.locate_alone(torch.tensor(vectors))
    distances = model.search_distances(located, located)
    similar = vectors @ vectors.T
    shared = [
        len({*np.argsort(-similar[row])[:20].tolist()} & {*distances[row].argsort()[:20].tolist()})
        for row in range(len(vectors))
    ]
    assert np.mean(shared) > 15


def test_the_distances_of_the_network_are_those_of_its_metrics() -> None:
    torch = pytest.importorskip("torch")
    from lemmata.train.metric_network import MetricGAT, MetricOptions

    vectors = small_world()[0][:12]
    model = MetricGAT(vectors, MetricOptions(dimension=16, rank=3, epsilon=0.3))
    nodes = model.locate_alone(torch.tensor(vectors))
    with torch.no_grad():
        factors = model.factors(nodes.hidden).numpy()
        h = nodes.h.numpy()
        pairs = model.distances(nodes, nodes).numpy()
        along = model.along(nodes, nodes.take(torch.arange(12).repeat(12, 1))).numpy()
        searched = model.search_distances(nodes, nodes).numpy()
    expected = np.stack([local_distances(h[i], factors[i], h, 0.3) for i in range(12)])
    for distances in (pairs, along, searched):
        assert np.allclose(distances, expected, atol=2e-3)


@pytest.mark.parametrize("changes", [{}, {"rank": 0}, {"fan_out": 4}])
def test_training_finds_references_that_do_not_resemble_the_query(changes: dict[str, float]) -> None:
    from lemmata.train.metric_network import MetricOptions, train_metric

    vectors, links, rows, answers = small_world()
    shape = {
        "dimension": 16,
        "rank": 4,
        "layers": 2,
        "batch": 32,
        "negatives": {"random": 32},
        "epochs": 25,
        "rate": 1e-2,
    }
    options = MetricOptions(**(shape | changes))  # type: ignore[arg-type]
    trained = train_metric(vectors, links, options, (rows, answers), patience=25)
    values = [record["R@20"] for record in trained.history]
    assert values[0] < 0.2
    assert max(values) > 0.8
    assert len(trained.nodes.h) == len(vectors)


@pytest.mark.parametrize(
    "changes",
    [
        {"text_start": False},
        {"hops": 1, "negatives": {"random": 0}},
        {"hops": 3, "negatives": {"batch": 0}},
        {"losses": {"contrast": 0.0}},
        {"losses": {"ranking": 0.0, "smoothness": 0.0, "hierarchy": 0.0}, "negatives": {"hard": 0}},
    ],
)
def test_every_part_of_the_paper_can_be_changed(changes: dict[str, Any]) -> None:
    pytest.importorskip("torch")
    from lemmata.train.metric_network import MetricOptions, train_metric

    vectors, links, rows, answers = small_world()
    options = MetricOptions(dimension=8, rank=2, layers=2, batch=32, epochs=3, rate=1e-2, **changes)
    trained = train_metric(vectors, links, options, (rows, answers))
    assert all(np.isfinite(record["loss"]) for record in trained.history[1:])
    assert np.isfinite(trained.nodes.h.detach().numpy()).all()


def test_the_same_seed_trains_the_same_network() -> None:
    torch = pytest.importorskip("torch")
    from lemmata.train.metric_network import MetricOptions, train_metric

    vectors, links, rows, answers = small_world()
    options = MetricOptions(dimension=8, rank=2, heads=2, layers=1, batch=64, negatives={"random": 16}, epochs=1)
    one, other = (train_metric(vectors, links, options, (rows, answers)) for _ in range(2))
    assert torch.allclose(one.nodes.h, other.nodes.h)


def train_briefly(checkpoint: Path, fan_out: int, progress: Callable[[str, int, int | None], None]) -> Any:
    import torch

    from lemmata.train.metric_network import MetricOptions, train_metric

    torch.set_num_threads(1)
    vectors, links, rows, answers = small_world()
    shape: dict[str, Any] = {"dimension": 8, "rank": 2, "heads": 2, "layers": 1, "batch": 64, "fan_out": fan_out}
    options = MetricOptions(epochs=9, rate=1e-2, negatives={"random": 16}, **shape)
    return train_metric(vectors, links, options, (rows, answers), patience=5, checkpoint=checkpoint, progress=progress)


@pytest.mark.parametrize(("fan_out", "epochs", "steps"), [(0, 2, 1), (4, 4, 0)])  # in an epoch, and at its last step
def test_a_killed_training_resumes_from_its_last_epoch_and_ends_as_an_undisturbed_one(
    tmp_path: Path, fan_out: int, epochs: int, steps: int
) -> None:
    kill_at = epochs * -(-len(small_world()[1]) // 64) + steps
    killed_at("", kill_at, partial(train_briefly, tmp_path / "killed.pt", fan_out))
    done: list[int] = []
    whole = train_briefly(tmp_path / "whole.pt", fan_out, lambda *_: None)
    resumed = train_briefly(tmp_path / "killed.pt", fan_out, lambda _what, step, _steps: done.append(step))
    assert 1 not in done  # the first steps are not done again
    assert [record["R@20"] for record in resumed.history] == [record["R@20"] for record in whole.history]
    assert np.array_equal(resumed.nodes.h, whole.nodes.h)


@pytest.mark.filterwarnings("ignore")  # of torch's exporter
def test_the_exported_head_gives_a_text_what_the_network_gives(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from lemmata.encode.onnx import open_session
    from lemmata.train.metric_network import MetricGAT, MetricOptions, export_head

    vectors = small_world()[0]
    model = MetricGAT(vectors, MetricOptions(dimension=16, rank=4, epsilon=0.5))
    export_head(model, tmp_path / "head.onnx")
    session = open_session(tmp_path / "head.onnx", 1)
    h, factors = session.run(None, {"vectors": vectors[:5]})
    with torch.no_grad():
        located = model.locate_alone(torch.tensor(vectors[:5]))
        expected = model.factors(located.hidden).numpy()
        distances = model.distances(located, model.locate_alone(torch.tensor(vectors)))
        others = model.locate_alone(torch.tensor(vectors)).h.numpy()
    assert np.allclose(h, located.h.numpy(), atol=1e-5)
    assert np.allclose(factors, expected, atol=1e-5)
    assert np.allclose(local_distances(h[0], factors[0], others, 0.5), distances[0].numpy(), atol=2e-3)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"dimension": 30}, "30.*4"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epochs": 0}, "epochs"),
        ({"negatives": {"hard": 0, "random": 0, "batch": 0}}, "negatives"),
        ({"losses": {"contrast": 0.0, "ranking": 0.0, "hierarchy": 0.0}}, "losses"),
    ],
)
def test_impossible_options_are_named(changes: dict[str, Any], cause: str) -> None:
    from lemmata.train.metric_network import MetricOptions

    with pytest.raises(ConfigError, match=cause):
        MetricOptions(**changes).check()
