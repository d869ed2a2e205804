"""Frozen weights in few bits: matrices in 4, token embeddings in 8, unpacked while they are used.

The 4-bit numbers are NF4 of QLoRA (Dettmers et al. 2023, arXiv:2305.14314): their 16 values are quantiles of a normal
distribution, and each block of 64 weights has its own scale. This needs no other package and works on every device;
gradients go through to what is trained in front of and beside the weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

BLOCK = 64  # weights with one scale
_LEVELS = (
    *(-1.0, -0.6961928, -0.5250731, -0.3949175, -0.2844414, -0.1847734, -0.0910500, 0.0),
    *(0.0795803, 0.1609302, 0.2461123, 0.3379152, 0.4407098, 0.5626170, 0.7229568, 1.0),
)


class _Multiply(torch.autograd.Function):
    """x · Wᵀ with packed W: a plain product would keep the unpacked W of every layer until the backward pass."""

    @staticmethod
    def forward(context: Any, values: Any, layer: Any) -> Any:
        context.layer, context.kind = layer, values.dtype
        return nn.functional.linear(values, layer.weight)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        [gradient] = gradients
        return (gradient @ context.layer.weight.to(gradient.dtype)).to(context.kind), None


class QuantizedLinear(nn.Linear):
    """A linear layer whose frozen weights are 4-bit numbers; `weight` unpacks them."""

    codes: torch.Tensor  # (⌈weights / 2⌉,) two in a byte
    scales: torch.Tensor  # (blocks, 1)
    levels: torch.Tensor  # (16,)

    def __init__(self, layer: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.bias = layer.bias
        if self.bias is not None:
            self.bias.requires_grad_(False)
        flat = layer.weight.detach().float().flatten()
        missing = -len(flat) % BLOCK
        blocks = nn.functional.pad(flat, (0, missing)).view(-1, BLOCK)
        scales = blocks.abs().amax(dim=1, keepdim=True).clamp_min(1e-12)
        levels = torch.tensor(_LEVELS, device=flat.device)
        middles = (levels[1:] + levels[:-1]) / 2
        codes = torch.bucketize(blocks / scales, middles).to(torch.uint8).flatten()
        self.register_buffer("codes", codes[::2] | codes[1::2] << 4)
        self.register_buffer("scales", scales.half())
        self.register_buffer("levels", levels)

    @property
    def weight(self) -> Any:  # type: ignore[override]
        """The unpacked weights (outputs, inputs)."""
        codes = torch.stack([self.codes & 15, self.codes >> 4], dim=1).view(-1, BLOCK)
        values = self.levels[codes.int()] * self.scales
        return values.flatten()[: self.out_features * self.in_features].view(self.out_features, self.in_features)

    def forward(self, input: Any) -> Any:  # noqa: A002 - as torch names it
        product = _Multiply.apply(input, self)  # type: ignore[no-untyped-call]
        return product if self.bias is None else product + self.bias

    def unpacked(self) -> nn.Linear:
        layer = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None)
        with torch.no_grad():
            layer.weight.copy_(self.weight)
            if self.bias is not None:
                layer.bias.copy_(self.bias)
        return layer.requires_grad_(False).to(self.codes.device)


class QuantizedEmbedding(nn.Embedding):
    """Frozen embeddings as 8-bit numbers with a scale for each row; only the rows that are read are unpacked."""

    codes: torch.Tensor  # (entries, width)
    scales: torch.Tensor  # (entries, 1)

    def __init__(self, table: nn.Embedding) -> None:
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim = table.num_embeddings, table.embedding_dim
        self.padding_idx = table.padding_idx
        values = table.weight.detach().float()
        scales = values.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127
        self.register_buffer("codes", (values / scales).round().to(torch.int8))
        self.register_buffer("scales", scales)

    @property
    def weight(self) -> Any:  # type: ignore[override]
        """The unpacked table (entries, width)."""
        return self.codes.float() * self.scales

    def forward(self, input: Any) -> Any:  # noqa: A002 - as torch names it
        return self.codes[input].float() * self.scales[input]

    def unpacked(self) -> nn.Embedding:
        table = nn.Embedding(self.num_embeddings, self.embedding_dim, padding_idx=self.padding_idx)
        with torch.no_grad():
            table.weight.copy_(self.weight)
        return table.requires_grad_(False).to(self.codes.device)


def quantize(model: nn.Module) -> None:
    """Replace all linear layers and embeddings by quantised ones; the other weights are frozen as they are."""
    model.requires_grad_(False)
    for name, part in list(model.named_modules()):
        if type(part) is nn.Linear:
            _replace(model, name, QuantizedLinear(part))
        elif type(part) is nn.Embedding:
            _replace(model, name, QuantizedEmbedding(part))


def unpack(model: nn.Module) -> None:
    """Replace quantised parts by plain ones with the same values."""
    for name, part in list(model.named_modules()):
        if isinstance(part, QuantizedLinear | QuantizedEmbedding):
            _replace(model, name, part.unpacked())


def _replace(model: nn.Module, name: str, part: nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, part)
