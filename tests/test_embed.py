from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.make import killed_at

from lemmata.core.errors import InputError
from lemmata.core.types import Graph, Integers
from lemmata.graph import embed
from lemmata.graph.embed import Embedding, EmbedOptions, edge_array, evaluate_embedding, split_edges, train_embedding

torch: Any = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other make tiny products slow on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def typed_graph(edges: list[tuple[int, int, int]], kinds: list[str], relations: int = 1) -> Graph:
    """Edges as (source, relation, target)."""
    rows = np.array(sorted(edges), np.int64).reshape(-1, 3)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows[:, 0], minlength=len(kinds)))))
    return Graph(
        [f"n{number}" for number in range(len(kinds))],
        kinds,
        [f"r{number}" for number in range(relations)],
        indptr.astype(np.int64),
        rows[:, 2].copy(),
        rows[:, 1].astype(np.int16),
        np.ones(len(rows), np.float32),
    )


def villages(size: int = 8, count: int = 6) -> Graph:
    """Groups whose members know each other, and one warden (another kind) per group whom all members obey."""
    edges = []
    for village in range(count):
        members = range(village * size, (village + 1) * size)
        edges += [(a, 0, b) for a, b in itertools.permutations(members, 2) if (a * b) % 3]
        edges += [(member, 1, count * size + village) for member in members]
    return typed_graph(edges, ["person"] * (size * count) + ["warden"] * count, relations=2)


SMALL = EmbedOptions(dimension=16, negatives=20, epochs=12, rate=0.1)


# ---------------------------------------------------------------- splitting


def test_a_split_loses_no_edge_and_keeps_a_neighbour_for_every_node() -> None:
    graph = villages()
    train, held_out = split_edges(graph, 0.3, seed=1)
    together = np.concatenate((edge_array(train), held_out))
    assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, edge_array(graph).tolist()))
    assert abs(len(held_out) / len(together) - 0.3) < 0.03
    kept = edge_array(train)
    assert set(kept[:, [0, 2]].ravel().tolist()) == set(range(len(graph.nodes)))


def test_edges_between_the_same_two_nodes_stay_on_one_side_of_the_split() -> None:
    graph = villages()
    train, held_out = split_edges(graph, 0.3, seed=2)
    pairs = [{frozenset((a, b)) for a, _, b in edges.tolist()} for edges in (edge_array(train), held_out)]
    assert not pairs[0] & pairs[1]


def test_a_split_spares_last_edges_last_relations_and_loops() -> None:
    chain = typed_graph([(0, 0, 1), (1, 0, 2), (2, 0, 3)], ["a"] * 4)
    train, held_out = split_edges(chain, 0.9, seed=0)
    kept = edge_array(train)
    assert set(kept[:, [0, 2]].ravel().tolist()) == {0, 1, 2, 3}
    assert len(held_out) <= 1
    triangle = typed_graph([(0, 0, 1), (1, 0, 2), (0, 1, 2), (1, 0, 1)], ["a"] * 3, relations=2)
    for seed in range(5):
        train, held_out = split_edges(triangle, 0.9, seed)
        assert set(edge_array(train)[:, 1].tolist()) == {0, 1}
        assert [1, 0, 1] in edge_array(train).tolist()


# ---------------------------------------------------------------- gradients


def test_gradients_by_hand_are_those_of_autograd() -> None:
    chunks, size, drawn = 3, 4, 5
    random = torch.Generator().manual_seed(0)
    rows = [torch.randn(chunks, size + drawn, 6, dtype=torch.float64, generator=random) for _ in range(2)]
    translations = torch.randn(2, chunks, 6, dtype=torch.float64, generator=random)
    counted = torch.ones(chunks, size, dtype=torch.float64)
    counted[0, 3] = 0
    masked = [torch.rand(chunks, size, drawn, generator=random) < 0.2 for _ in range(2)]
    value, of_rows, of_translations = embed._gradients(rows, translations, masked, counted)
    for leaf in (*rows, translations):
        leaf.requires_grad_()
    expected = loss_by_definition(rows, translations, masked, counted)
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    for gradient, leaf in zip(of_rows, rows, strict=True):
        torch.testing.assert_close(gradient, leaf.grad)
    torch.testing.assert_close(torch.stack(of_translations), translations.grad)


def loss_by_definition(rows: list[Any], translations: Any, masked: list[Any], counted: Any) -> Any:
    """Edge by edge, as the definition says."""
    chunks, size = counted.shape
    total = torch.zeros((), dtype=torch.float64)
    for chunk, edge, asked in itertools.product(range(chunks), range(size), range(2)):
        if not counted[chunk, edge]:
            continue
        query = rows[1 - asked][chunk, edge] + translations[1 - asked, chunk]
        scores = [(query * candidate).sum() for candidate in rows[asked][chunk]]
        rivals = [score for score, mask in zip(scores[size:], masked[asked][chunk, edge], strict=True) if not mask]
        total = total + torch.stack([scores[edge], *rivals]).logsumexp(0) - scores[edge]
    return total


def test_adagrad_has_one_step_size_per_row() -> None:
    values, sums = torch.zeros(3, 2), torch.tensor([0.0, 0.0, 7.0])
    embed._descend(values, sums, torch.tensor([2, 0]), torch.tensor([[1.0, 5.0**0.5 * 1.0], [3.0, 4.0]]), 0.5)
    np.testing.assert_allclose(sums, [12.5, 0, 10.0], rtol=1e-6)
    np.testing.assert_allclose(values[0], [-1.5 / 12.5**0.5, -2 / 12.5**0.5], rtol=1e-6)
    np.testing.assert_allclose(values[2], [-0.5 / 10**0.5, -0.5 * (5 / 10) ** 0.5], rtol=1e-6)
    assert values[1].tolist() == [0, 0]


# ---------------------------------------------------------------- batches


def test_an_epoch_visits_every_edge_once_in_chunks_of_one_relation() -> None:
    relation = np.array([0] * 23 + [2] * 3 + [1] * 10)
    slots = embed._chunks(relation, 5, np.random.default_rng(0))
    assert sorted(slots[slots >= 0].tolist()) == list(range(36))
    assert (slots[:, 0] >= 0).all()
    assert all(len(set(relation[row[row >= 0]])) == 1 for row in slots)


def test_negatives_have_the_right_kind_and_are_never_the_right_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "CHUNK", 8)
    monkeypatch.setattr(embed, "BATCH", 32)
    graph = villages()
    edges = edge_array(graph)
    pools = embed._pools(graph, edges)
    options = EmbedOptions(negatives=30)
    for batch in embed._batches(edges, pools, options, np.random.default_rng(0)):
        for relation, nodes in zip(batch.relation, batch.nodes[1][:, 8:], strict=True):
            assert {graph.kinds[node] for node in nodes} == {"warden" if relation else "person"}
        for relation, nodes in zip(batch.relation, batch.nodes[0][:, 8:], strict=True):
            assert {graph.kinds[node] for node in nodes} == {"person"}, relation
        for answers, mask in zip(batch.nodes, batch.masked, strict=True):
            assert not (~mask & (answers[:, None, 8:] == answers[:, :8, None])).any()


# ---------------------------------------------------------------- evaluation


def brute_ranks(embedding: Embedding, graph: Graph, held_out: Integers) -> list[tuple[int, int, float, int]]:
    """Side, relation, rank and number of competitors, one candidate at a time in double precision."""
    vectors = embedding.vectors.astype(np.float64)
    known = set(map(tuple, np.concatenate((edge_array(graph), held_out)).tolist()))
    ranks = []
    for side in range(2):
        for source, relation, target in held_out.tolist():
            ends = (source, target)
            kinds = {graph.kinds[edge[2 * side]] for edge in known if edge[1] == relation}
            loops = any(a == b and r == relation for a, r, b in known)

            def score(source: int, relation: int, target: int, side: int = side) -> float:
                ends = [torch.tensor(vectors[source]), torch.tensor(vectors[target])]
                ends[1 - side] += torch.tensor(embedding.translations[1 - side, relation].astype(np.float64))
                return float(ends[0] @ ends[1])

            right_score, rivals = score(source, relation, target), []
            for node, kind in enumerate(graph.kinds):
                edge = (node, relation, ends[1]) if side == 0 else (ends[0], relation, node)
                if kind in kinds and edge not in known and (loops or node != ends[1 - side]):
                    rivals.append(score(*edge))
            better = sum(rival > right_score + 1e-6 for rival in rivals)
            level = sum(abs(rival - right_score) <= 1e-6 for rival in rivals)
            ranks.append((side, relation, 1 + better + level / 2, len(rivals)))
    return ranks


def test_measures_are_those_of_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "BLOCK", 100)  # several blocks even here
    graph, held_out = split_edges(villages(5, 3), 0.2, seed=0)
    generator = np.random.default_rng(1)
    vectors = generator.standard_normal((len(graph.nodes), 6)).astype(np.float32)
    vectors[3] = vectors[4]  # a tie
    embedding = Embedding(vectors, generator.standard_normal((2, 2, 6)).astype(np.float32))
    evaluation = evaluate_embedding(embedding, graph, held_out)
    brute = [rank for rank in brute_ranks(embedding, graph, held_out) if rank[3]]
    for name, part, chosen in [
        ("all", evaluation.all, brute),
        *((n, r, [rank for rank in brute if f"r{rank[1]}" == n]) for n, r in evaluation.relations.items()),
    ]:
        ranks = np.array([rank for *_, rank, _ in chosen])
        rivals = np.array([number for *_, number in chosen])
        expected = (
            len(ranks),
            (1 / ranks).mean(),
            (ranks <= 1).mean(),
            (ranks <= 10).mean(),
            ranks.mean(),
            (1 - (ranks - 1) / rivals).mean(),
        )
        np.testing.assert_allclose(part, expected, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("nodes", [7, 131, 1000])
def test_constant_scores_rank_in_the_middle(nodes: int) -> None:
    graph = typed_graph([(node, 0, node + 1) for node in range(nodes - 1)], ["a"] * nodes)
    held_out = np.array([[0, 0, 3], [1, 0, 5]])
    vector = np.random.default_rng(0).standard_normal(37).astype(np.float32)
    same = Embedding(np.tile(vector, (nodes, 1)), np.zeros((2, 1, 37), np.float32))
    ranks = evaluate_embedding(same, graph, held_out).all
    assert ranks.auc == pytest.approx(0.5)
    assert ranks.mrr < 3 / nodes
    assert ranks.hits_at_1 == 0


def test_other_true_answers_do_not_compete() -> None:
    graph = typed_graph([(0, 0, 1), (1, 0, 2), (2, 0, 3)], ["a"] * 4)
    vectors = np.array([[1, 0], [2, 0], [3, 0], [0.5, 0]], np.float32)
    embedding = Embedding(vectors, np.zeros((2, 1, 2), np.float32))
    held_out = np.array([[0, 0, 3]])
    ranks = evaluate_embedding(embedding, graph, held_out).all  # node 2 wins as target, node 1 as source
    assert ranks.questions == 2
    assert ranks.mrr == pytest.approx(1 / 2)
    held_out = np.array([[0, 0, 3], [0, 0, 2]])
    assert evaluate_embedding(embedding, graph, held_out).all.questions == 2  # no competitor for the targets


# ---------------------------------------------------------------- training


def test_training_finds_the_villages() -> None:
    train, held_out = split_edges(villages(), 0.15, seed=0)
    before = train_embedding(train, replace(SMALL, epochs=1, rate=1e-9), held_out=held_out).evaluation
    after = train_embedding(train, SMALL, held_out=held_out)
    assert before is not None
    assert after.evaluation is not None
    assert after.history[-1].loss < after.history[0].loss
    assert after.evaluation.all.mrr > max(0.4, 2 * before.all.mrr)
    assert after.vectors.shape == (len(train.nodes), 16)
    assert after.vectors.dtype == np.float32


def test_the_same_seed_gives_the_same_vectors() -> None:
    graph = villages()
    first, second = (train_embedding(graph, SMALL).vectors for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, train_embedding(graph, replace(SMALL, seed=1)).vectors)


def test_training_stops_when_held_out_edges_gain_nothing_and_returns_the_best_epoch() -> None:
    train, held_out = split_edges(villages(), 0.15, seed=0)
    trained = train_embedding(train, replace(SMALL, epochs=200), held_out=held_out)
    evaluations = [epoch.mrr for epoch in trained.history if epoch.mrr is not None]
    assert len(trained.history) < 200
    assert trained.evaluation is not None
    assert trained.evaluation.all.mrr == pytest.approx(max(evaluations))
    assert evaluations.index(max(evaluations)) == len(evaluations) - 1 - embed.PATIENCE


def test_training_starts_from_the_vectors_of_texts() -> None:
    graph = villages()
    generator = np.random.default_rng(0)
    texts = generator.standard_normal((len(graph.nodes), 24)).astype(np.float32)
    texts[5] = 0
    still = replace(SMALL, epochs=1, rate=1e-9)
    unit = texts / np.maximum(np.linalg.norm(texts, axis=1, keepdims=True), 1e-9)
    same = train_embedding(graph, replace(still, dimension=24), initial=texts).vectors
    np.testing.assert_allclose(np.delete(same, 5, 0), np.delete(unit, 5, 0), atol=1e-5)
    assert np.linalg.norm(same[5]) > 0.1  # no text: random
    wider = np.delete(train_embedding(graph, replace(still, dimension=40), initial=texts).vectors, 5, 0)
    np.testing.assert_allclose(wider @ wider.T, np.delete(unit, 5, 0) @ np.delete(unit, 5, 0).T, atol=1e-5)


def test_fewer_dimensions_keep_the_inner_products_of_a_low_rank() -> None:
    generator = np.random.default_rng(0)
    low = generator.standard_normal((30, 4)) @ generator.standard_normal((4, 20))
    fitted = embed._change_dimension(low.astype(np.float32), 4, generator)
    np.testing.assert_allclose(fitted @ fitted.T, low @ low.T, rtol=1e-3, atol=1e-3)


# ---------------------------------------------------------------- checkpoints


def test_a_resumed_run_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    train, held_out = split_edges(villages(), 0.15, seed=0)
    whole = train_embedding(train, SMALL, held_out=held_out)
    path = tmp_path / "checkpoint.npz"
    train_embedding(train, replace(SMALL, epochs=9), held_out=held_out, checkpoint=path)
    epochs: list[int] = []
    resumed = train_embedding(
        train, SMALL, held_out=held_out, checkpoint=path, progress=lambda _, done, __: epochs.append(done)
    )
    assert epochs == [10, 11, 12]
    assert np.array_equal(resumed.vectors, whole.vectors)
    assert np.array_equal(resumed.translations, whole.translations)
    assert [epoch.loss for epoch in resumed.history] == [epoch.loss for epoch in whole.history]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_a_killed_run_resumes_and_ends_the_same(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    train = partial(train_embedding, villages(), SMALL, checkpoint=path, checkpoint_seconds=0)
    killed_at("", 7, lambda progress: train(progress=progress))
    epochs: list[int] = []
    resumed = train_embedding(villages(), SMALL, checkpoint=path, progress=lambda _, done, __: epochs.append(done))
    assert epochs == [7, 8, 9, 10, 11, 12]
    assert np.array_equal(resumed.vectors, train_embedding(villages(), SMALL).vectors)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    train_embedding(villages(), replace(SMALL, epochs=1), checkpoint=path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match=path.name):
        train_embedding(villages(), SMALL, checkpoint=path)
