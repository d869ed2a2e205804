"""Weights in 4 and 8 bits: how they are rounded, their gradients, and the memory they take."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from lemmata.train.quantized import QuantizedEmbedding, QuantizedLinear, quantize, unpack  # noqa: E402


def layers(inputs: int, outputs: int) -> tuple[Any, Any]:
    torch.manual_seed(0)
    plain = torch.nn.Linear(inputs, outputs).requires_grad_(False)
    return plain, QuantizedLinear(plain)


@pytest.mark.parametrize(("inputs", "outputs"), [(64, 3), (7, 5), (1, 1), (384, 16)])
def test_weights_are_rounded_to_a_neighbour_of_their_block(inputs: int, outputs: int) -> None:
    plain, packed = layers(inputs, outputs)
    assert packed.weight.shape == plain.weight.shape
    # the widest gap of the 16 values is 0.304 of the largest weight of the block
    assert float((packed.weight - plain.weight).abs().max()) <= 0.153 * float(plain.weight.abs().max())
    again = QuantizedLinear(packed.unpacked())
    torch.testing.assert_close(again.weight, packed.weight, atol=1e-3, rtol=0)


def test_output_and_gradient_are_those_of_the_unpacked_layer() -> None:
    _, packed = layers(96, 8)
    values = [torch.randn(4, 96, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2)]
    for value, layer in zip(values, (packed, packed.unpacked()), strict=True):
        layer(value).square().sum().backward()
    torch.testing.assert_close(packed(values[0]), packed.unpacked()(values[0]))
    torch.testing.assert_close(values[0].grad, values[1].grad)
    with torch.autocast("cpu", torch.bfloat16):
        out = packed(values[0])
    out.sum().backward()
    assert values[0].grad.dtype == torch.float32


def test_embeddings_are_rounded_row_by_row() -> None:
    table = torch.nn.Embedding(10, 6, padding_idx=0).requires_grad_(False)
    packed = QuantizedEmbedding(table)
    rows = torch.tensor([[1, 9], [0, 3]])
    torch.testing.assert_close(packed(rows), packed.weight[rows])
    bound = table.weight.abs().amax(dim=1, keepdim=True) / 127
    assert bool(((packed.weight - table.weight).abs() <= bound / 2 + 1e-7).all())
    assert bool((packed(torch.tensor([0])) == 0).all())


def test_a_model_takes_an_eighth_of_the_memory_and_comes_back() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(1000, 128), torch.nn.Linear(128, 512), torch.nn.Linear(512, 128))
    size = sum(tensor.nbytes for tensor in model.state_dict().values())
    quantize(model)
    packed = sum(tensor.nbytes for tensor in model.state_dict().values())
    assert packed < 0.21 * size  # 4.25 bits for the matrices, 8 for the table
    assert not any(weight.requires_grad for weight in model.parameters())
    rows = torch.tensor([1, 2])
    before = model(rows)
    unpack(model)
    assert [type(part) for part in model] == [torch.nn.Embedding, torch.nn.Linear, torch.nn.Linear]
    torch.testing.assert_close(model(rows), before)
