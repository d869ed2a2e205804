"""Losses against independent computations: sentence-transformers, torch, scipy, and loops in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.small_bert import small_bert, small_job

from lemmata.core.errors import ConfigError
from lemmata.core.workspace import silent
from lemmata.train.encoders import load_model
from lemmata.train.finetune import FinetuneOptions, Objective
from lemmata.train.losses import (
    LOSSES,
    candidates,
    contrastive,
    cut_lengths,
    displacement,
    distillation,
    shortened,
    targets,
    triplet,
)

torch = pytest.importorskip("torch")

BATCH, NEGATIVES, DIMENSION = 7, 2, 12
NOTHING = torch.zeros(0, dtype=torch.long)


def unit(count: int, seed: int) -> Any:
    vectors = torch.from_numpy(np.random.default_rng(seed).standard_normal((count, DIMENSION))).float()
    return torch.nn.functional.normalize(vectors, dim=1)


def table(negatives: int) -> Any:
    """Every record has texts of its own, in a mixed order."""
    columns = 2 + negatives
    return torch.from_numpy(np.random.default_rng(5).permutation(BATCH * columns).reshape(BATCH, columns))


def among(places: Any, pairs: Any = NOTHING) -> Any:
    count = int(places.max()) + 1
    return candidates(places, torch.arange(count), pairs, count)


def by_hand(scores: npt.NDArray[np.float64], allowed: npt.NDArray[np.bool_]) -> float:
    """Mean of -log(softmax of the positive), in double precision."""
    lost = 0.0
    for number, (row, may) in enumerate(zip(scores, allowed, strict=True)):
        lost -= row[number] - np.log(np.exp(row[may]).sum())
    return lost / len(scores)


# ---------------------------------------------------------------- contrast


@pytest.mark.parametrize("negatives", [0, 1, NEGATIVES])
@pytest.mark.parametrize("both_ways", [False, True])
def test_contrast_is_that_of_sentence_transformers(negatives: int, both_ways: bool) -> None:
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    places = table(negatives)
    vectors = (3 * unit(places.numel(), 1)).requires_grad_()
    others = vectors.detach().clone().requires_grad_()
    directions = ("query_to_doc", "doc_to_query") if both_ways else ("query_to_doc",)
    oracle = losses.MultipleNegativesRankingLoss(None, 20.0, directions=directions, partition_mode="per_direction")
    expected_value = oracle.compute_loss_from_embeddings([others[column] for column in places.T], None)
    value = contrastive(shortened(vectors, DIMENSION), places, among(places), both_ways=both_ways)
    value.backward()
    expected_value.backward()
    assert value.item() == pytest.approx(expected_value.item(), rel=1e-5)
    assert torch.allclose(vectors.grad, others.grad, atol=1e-6)


def test_expected_positives_weigh_less() -> None:
    places = table(NEGATIVES)
    vectors, expected = unit(places.numel(), 2), torch.linspace(0.1, 4.0, BATCH)
    chosen = among(places)
    value = contrastive(vectors, places, chosen, expected=expected, scale=5.0).item()
    points = vectors.numpy().astype(np.float64)
    scores = 5.0 * points[places[:, 0]] @ points[chosen.places].T
    scores[:, :BATCH] -= np.log(expected.numpy())
    assert value == pytest.approx(by_hand(scores, np.ones(scores.shape, bool)), rel=1e-5)


def test_a_positive_that_comes_as_often_as_expected_counts_once() -> None:
    """Two records that share a positive, expected twice, weigh to a third like one with a positive of its own."""
    vectors = unit(6, 4)
    shared, alone = torch.tensor([[0, 1], [2, 5], [2, 5]]), torch.tensor([[0, 1], [2, 5]])
    expected = torch.tensor([1.0, 2.0, 2.0])
    chosen = among(shared, torch.tensor([2 * 6 + 5]))
    twice = contrastive(vectors, shared, chosen, expected=expected, scale=5.0).item()
    once = contrastive(vectors, alone, among(alone), expected=torch.ones(2), scale=5.0).item()
    scores = 5.0 * (vectors @ vectors.T).numpy().astype(np.float64)
    first = -scores[0, 1] + np.log(np.exp(scores[0, 1]) + np.exp(scores[0, 5]))
    # of the second anchor's own columns one is masked, for the pair stands twice; its target is expected twice
    other = -scores[2, 5] + np.log(2.0) + np.log(np.exp(scores[2, 1]) + np.exp(scores[2, 5]) / 2)
    assert once == pytest.approx((first + by_hand(scores[[2]][:, [5, 1]], np.ones((1, 2), bool))) / 2, rel=1e-5)
    assert twice == pytest.approx((first + 2 * other) / 3, rel=1e-5)


def test_records_may_have_no_or_the_same_negatives() -> None:
    places = torch.tensor([[0, 1, 6, -1], [2, 3, 6, 5], [4, 5, -1, -1]])
    chosen = among(places)
    assert chosen.places.tolist() == [1, 3, 5, 6]  # each text once, though 6 comes twice and 5 is a positive
    assert chosen.allowed.all()
    vectors = unit(7, 3)
    points = vectors.numpy().astype(np.float64)
    expected_value = by_hand(20 * points[[0, 2, 4]] @ points[[1, 3, 5, 6]].T, np.ones((3, 4), bool))
    assert contrastive(vectors, places, chosen).item() == pytest.approx(expected_value, rel=1e-5)


@pytest.mark.parametrize("both_ways", [False, True])
def test_known_pairs_are_never_negatives(both_ways: bool) -> None:
    places = torch.tensor([[0, 1, 6], [2, 3, 7], [4, 5, 2]])
    numbers = torch.tensor([10, 11, 12, 13, 14, 15, 16, 17])  # of the texts in the whole job, of 20
    pairs = [(10, 11), (12, 13), (14, 15), (10, 13), (14, 16), (3, 12), (19, 19)]
    known = torch.tensor(sorted(anchor * 20 + positive for anchor, positive in pairs))
    chosen = candidates(places, numbers, known, 20)
    assert chosen.places.tolist() == [1, 3, 5, 2, 6, 7]
    expected_value = [
        [True, False, True, True, True, True],  # 13 answers 10, too
        [True, True, True, False, True, True],  # 12 is itself, though it is a negative of another
        [True, True, True, True, False, True],  # 16 answers 14, too
    ]
    assert chosen.allowed.tolist() == expected_value
    vectors = unit(8, 4).requires_grad_()
    value = contrastive(vectors, places, chosen, both_ways=both_ways)
    points = vectors.detach().numpy().astype(np.float64)
    scores = 20 * points[[0, 2, 4]] @ points[[1, 3, 5, 2, 6, 7]].T
    by_formula = by_hand(scores, np.array(expected_value))
    if both_ways:
        by_formula = (by_formula + by_hand(scores[:, :3].T, np.array(expected_value)[:, :3].T)) / 2
    assert value.item() == pytest.approx(by_formula, rel=1e-5)
    value.backward()
    assert torch.isfinite(vectors.grad).all()


def test_records_that_share_a_text_are_no_negatives_of_each_other() -> None:
    places = torch.tensor([[0, 1], [0, 2], [3, 1], [4, 5]])  # one anchor twice, and one positive
    known = torch.tensor(sorted(6 * anchor + positive for anchor, positive in places.tolist()))
    assert among(places, pairs=known).allowed.tolist() == [
        [True, False, False, True],
        [False, True, False, True],
        [False, True, True, True],
        [True, True, True, True],
    ]


def test_a_record_whose_texts_are_equal_keeps_its_positive() -> None:
    places = torch.tensor([[0, 0], [1, 2]])
    assert among(places, pairs=torch.tensor([0])).allowed.tolist() == [[True, True], [True, True]]


# ---------------------------------------------------------------- triplets, teachers, short vectors


def test_triplets_are_those_of_torch() -> None:
    places = table(NEGATIVES)
    places[0, 3] = places[2, 2] = -1
    vectors = unit(places.max() + 1, 9)
    rows = [(a, p, n) for a, p, *negatives in places.tolist() for n in negatives if n >= 0]
    anchors, positives, negatives = (vectors[list(column)] for column in zip(*rows, strict=True))
    for margin in (0.1, 1.0):
        expected_value = torch.nn.TripletMarginLoss(margin=margin, p=2)(anchors, positives, negatives)
        assert triplet(vectors, places, margin).item() == pytest.approx(expected_value.item(), rel=1e-5)
    with pytest.raises(ConfigError, match="negatives"):
        triplet(vectors, places[:, :2], 1.0)


def test_likeness_to_a_teacher_is_the_divergence_of_their_choices() -> None:
    special = pytest.importorskip("scipy.special")
    places = table(NEGATIVES)
    vectors = unit(places.numel(), 11)
    teacher = torch.nn.functional.normalize(torch.randn(places.numel(), 5, generator=torch.manual_seed(0)), dim=1)
    chosen = among(places)
    value = distillation(vectors, places, chosen, teacher, 7.0).item()
    order = chosen.places.numpy()

    def choice(points: npt.NDArray[np.float64], scale: float) -> npt.NDArray[np.float64]:
        scores = scale * points[places[:, 0].numpy()] @ points[order].T
        return np.asarray(special.softmax(scores, axis=1))

    mine, expected_value = (
        choice(vectors.numpy().astype(np.float64), 7.0),
        choice(teacher.numpy().astype(np.float64), 7.0),
    )
    assert value == pytest.approx(special.rel_entr(expected_value, mine).sum() / BATCH, rel=1e-5)


def test_targets_have_the_distances_of_the_teachers_and_lie_near_the_pupil() -> None:
    joined = torch.nn.functional.normalize(torch.randn(300, 6, generator=torch.manual_seed(1)), dim=1)
    turn = torch.linalg.qr(torch.randn(8, 8, generator=torch.manual_seed(2)))[0]
    wide = torch.nn.functional.pad(joined, (0, 10))  # 16 dimensions, of which six are used
    own = torch.nn.functional.normalize(torch.nn.functional.pad(joined, (0, 2)) @ turn + 0.01, dim=1)
    wanted = targets(wide, own)
    torch.testing.assert_close(wanted @ wanted.T, joined @ joined.T, atol=1e-4, rtol=0)
    assert displacement(own, wanted).item() < 0.05
    assert displacement(own, wanted @ turn).item() > 1  # as far off as any other turn of the same points


def test_texts_without_a_teacher_have_no_target() -> None:
    taught = unit(20, 13)
    taught[5] = 0
    wanted = targets(taught, unit(20, 14))
    assert (wanted.norm(dim=1) > 0.999).tolist() == [row != 5 for row in range(20)]
    assert not wanted[5].any()


def test_displacement_is_zero_at_the_target_and_grows_to_its_opposite() -> None:
    vectors = unit(4, 15)
    assert displacement(vectors, vectors, 3.0).item() == pytest.approx(0, abs=1e-6)
    assert displacement(vectors, -vectors, 3.0).item() == pytest.approx(6, rel=1e-5)


def test_vectors_are_cut_and_made_unit_again() -> None:
    vectors = unit(4, 12) * 3
    short = shortened(vectors, 5)
    points = vectors.numpy()[:, :5]
    assert np.allclose(short.numpy(), points / np.linalg.norm(points, axis=1, keepdims=True), atol=1e-6)


def test_lengths_are_numbers_or_parts() -> None:
    assert cut_lengths([], 384) == [384]
    assert cut_lengths([0.25, 1, 64, 0.5], 384) == [384, 192, 96, 64]
    assert cut_lengths([1, 1.0, 384], 384) == [384]
    for wrong in (0, 385):
        with pytest.raises(ConfigError, match=f"384 .*{wrong}"):
            cut_lengths([wrong], 384)


# ---------------------------------------------------------------- computed in parts


@pytest.mark.parametrize("loss", ["contrastive", "triplet"])
def test_gradients_of_the_cached_path_are_those_of_the_plain_one(tmp_path: Path, loss: str) -> None:
    base = small_bert(tmp_path / "base")
    job = small_job(tmp_path / "job", base, records=20, negatives=2, validation=())

    def gradients(chunk: int, memory: int, dropout: float) -> tuple[int, float, dict[str, Any]]:
        model = load_model(base, "cpu").train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
        options = FinetuneOptions(dimensions=[1, 0.5], loss=loss, batch=20)
        objective = Objective(model, job, options, [], silent)
        objective.chunk, objective.memory = chunk, memory
        (batch,) = objective.batches(0)
        torch.manual_seed(1)  # for dropout
        loss_value = objective.loss(batch)
        loss_value.backward()
        grads = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
        return len(batch["chunks"]), loss_value.item(), grads

    def equal(first: dict[str, Any], second: dict[str, Any]) -> bool:
        return first.keys() == second.keys() and all(
            torch.allclose(gradient, second[name], atol=1e-5, rtol=1e-4) for name, gradient in first.items()
        )

    one, plain, expected_value = gradients(10_000, 10_000, 0.0)
    several, cached, value = gradients(64, 0, 0.0)
    assert (one, several > 3) == (1, True)
    assert cached == pytest.approx(plain, rel=1e-5)
    assert equal(value, expected_value)
    assert max(float(gradient.abs().max()) for gradient in expected_value.values()) > 0.01
    _, plain, expected_value = gradients(64, 10_000, 0.1)
    _, cached, value = gradients(64, 0, 0.1)  # the second time must drop what the first one dropped
    assert cached == plain
    assert equal(value, expected_value)


def test_every_loss_is_a_choice_of_fine_tuning_and_stands_in_the_documentation() -> None:
    page = (Path(__file__).parents[1] / "docs" / "train.md").read_text(encoding="utf-8")
    assert FinetuneOptions.CHOICES["loss"] == tuple(LOSSES)
    assert [name for name in LOSSES if f"\n| `{name}` |" not in page] == []
