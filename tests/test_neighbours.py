"""Graph attention in little memory, and over samples of a graph: against the same layers over the whole graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lemmata.core.types import Floats, Integers
from lemmata.graph.attention import Layer, NeighbourSampler, attend, incoming


def by_definition(sources: Integers, targets: Integers, kinds: Integers, hidden: Floats, layer: Layer) -> Floats:
    heads, width = layer.sending.shape
    values = (hidden.astype(np.float64) @ layer.weight).reshape(len(hidden), heads, width)
    result = np.zeros((len(hidden), heads, width))
    for node in range(len(hidden)):
        heard = np.flatnonzero(targets == node)
        scores = (values[sources[heard]] * layer.sending).sum(-1) + (values[node] * layer.receiving).sum(-1)
        scores = scores + layer.kinds[kinds[heard]]
        shares = np.exp(np.where(scores > 0, scores, 0.2 * scores))
        if len(heard):
            shares /= shares.sum(axis=0)
            result[node] = (shares[:, :, None] * values[sources[heard]]).sum(axis=0)
    if layer.average:
        return np.asarray(result.mean(axis=1), np.float32)
    flat = result.reshape(len(hidden), heads * width)
    return np.asarray(np.where(flat > 0, flat, np.expm1(flat)), np.float32)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(0, 40), st.booleans())
def test_attention_is_that_of_its_formula(seed: int, nodes: int, number: int, average: bool) -> None:
    generator = np.random.default_rng(seed)
    sources, targets = generator.integers(0, nodes, (2, number))
    kinds = generator.integers(0, 3, number)

    def random(*shape: int) -> Floats:
        return generator.standard_normal(shape).astype(np.float32)

    layer = Layer(random(6, 6), random(2, 3), random(2, 3), random(3, 2), average)
    hidden = random(nodes, 6)
    found = attend(incoming(sources, targets, kinds, nodes), hidden, layer)
    assert np.allclose(found, by_definition(sources, targets, kinds, hidden, layer), atol=1e-4)


def test_blocks_of_nodes_are_put_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    sources, targets = generator.integers(0, 30, (2, 100))
    shapes = ((4, 8), (2, 4), (2, 4), (1, 2))
    weight, sending, receiving, by_kind = (generator.standard_normal(shape).astype(np.float32) for shape in shapes)
    layer = Layer(weight, sending, receiving, by_kind, average=True)
    received = incoming(sources, targets, np.zeros(100, np.int64), 30)
    hidden = generator.standard_normal((30, 4)).astype(np.float32)
    whole = attend(received, hidden, layer)
    monkeypatch.setattr("lemmata.graph.attention._NODES", 7)
    assert np.allclose(attend(received, hidden, layer), whole, atol=1e-6)


# ---------------------------------------------------------------- sampling


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40),
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
)
def test_a_sample_has_few_messages_to_each_node_all_of_them_kept(
    links: list[tuple[int, int]], wanted: list[int], hops: int, fan_out: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    sources, targets = np.array(links, np.int64).reshape(-1, 2).T
    kept = generator.random(len(links)) < 0.7
    sampler = NeighbourSampler(sources, targets, 10)
    for _ in range(2):  # the second call finds the sampler as the first one did
        part = sampler.sample(np.array(wanted), hops, fan_out, kept, generator)
        assert {*wanted} <= {*part.nodes.tolist()}
        assert len({*part.nodes.tolist()}) == len(part.nodes)
        assert len({*part.messages.tolist()}) == len(part.messages)
        assert kept[part.messages].all()
        assert (part.nodes[part.sources] == sources[part.messages]).all()
        assert (part.nodes[part.targets] == targets[part.messages]).all()
        for node in {*wanted}:
            possible = int((kept & (targets == node)).sum())
            assert (part.nodes[part.targets] == node).sum() == min(possible, fan_out)


def test_every_message_is_drawn_as_often_as_the_others() -> None:
    sampler = NeighbourSampler(np.arange(1, 11), np.zeros(10, np.int64), 11)
    generator = np.random.default_rng(0)
    drawn = [sampler.sample(np.array([0]), 1, 3, np.ones(10, bool), generator).messages for _ in range(3000)]
    counts = np.bincount(np.concatenate(drawn), minlength=10)
    assert counts.sum() == 9000
    assert (abs(counts - 900) < 120).all()


def network() -> tuple[Any, Floats, Integers]:
    torch = pytest.importorskip("torch")
    from lemmata.train.metric_network import MetricGAT, MetricOptions

    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((60, 12)).astype(np.float32)
    links = np.unique(generator.integers(0, 60, (150, 2)), axis=0)
    model = MetricGAT(vectors, MetricOptions(dimension=16, rank=2, layers=3))
    torch.manual_seed(0)
    for name in model.parameters:
        model.parameters[name] = model.parameters[name] + 0.1 * torch.randn(model.parameters[name].shape)
    return model, vectors, links[links[:, 0] != links[:, 1]]


@pytest.mark.slow
def test_all_nodes_are_located_as_by_torch() -> None:
    torch = pytest.importorskip("torch")
    from lemmata.train.metric_network import messages

    model, vectors, links = network()
    sent = messages(torch.tensor(links), len(vectors))
    with torch.no_grad():
        expected = model.locate(torch.tensor(vectors), sent)
    sources, targets, kinds = (part.numpy() for part in sent)
    found = model.locate_all(vectors, incoming(sources, targets, kinds, len(vectors)))
    assert torch.allclose(found.h, expected.h, atol=1e-5)
    assert torch.allclose(found.hidden, expected.hidden, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_a_fan_out_above_all_degrees_gives_what_the_whole_graph_gives(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from lemmata.train import metric_network
    from lemmata.train.metric_network import _Batch, _Graph, messages

    monkeypatch.setattr(metric_network, "DROPOUT", 0.0)
    model, vectors, links = network()
    x = torch.tensor(vectors)
    sent = messages(torch.tensor(links), len(x))
    kept = torch.rand(len(sent.sources), generator=torch.Generator().manual_seed(0)) < share
    kept[2 * len(links) :] = True
    rows = torch.tensor([3, 17, 42])
    batch = _Batch(rows, rows + 1, [torch.tensor([-1, 5, 6])], rows[:, None] + 2, rows + 3, kept)
    whole, sampled = (_Graph(x, sent, fan_out) for fan_out in (0, 1000))
    with torch.no_grad():
        for wanted in (batch.rows(), rows):
            expected = whole.locate(model, batch, torch.Generator()).take(wanted)
            found = sampled.locate(model, batch, torch.Generator()).take(wanted)
            assert torch.allclose(found.h, expected.h, atol=1e-5)
            assert torch.allclose(found.hidden, expected.hidden, atol=1e-5)
        few = _Graph(x, sent, 1).locate(model, batch, torch.Generator().manual_seed(0)).take(batch.rows())
        assert not torch.allclose(few.h, expected.h[:1], atol=1e-3)
