"""What modules write out in their own way: it computes the same, and is the operation that it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archir
from archir.backends.imports import program_of

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
HEADS, WIDTH, LENGTH = 2, 4, 6
LOW = torch.finfo(torch.float32).min


def _causal() -> Tensor:
    return torch.ones(LENGTH, LENGTH).tril().bool()


def _twice_masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As GPT-Neo does: by a choice of numbers, and by a sum."""
    logits = torch.where(_causal(), q @ k.transpose(-1, -2), torch.tensor(LOW))
    logits = logits + torch.where(_causal(), 0.0, LOW)
    return logits.softmax(-1).to(torch.float32) @ v


def _biased(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As Bloom does: heads beside samples, and positions in one product with a sum."""
    flat = [x.reshape(-1, LENGTH, WIDTH) for x in (q, k, v)]
    slopes = torch.tensor([0.5, 0.25]).repeat(len(q))[:, None, None] * torch.arange(LENGTH)
    logits = slopes.baddbmm(flat[0], flat[1].transpose(1, 2), beta=1.0, alpha=0.5)
    weights = logits.view(len(q), HEADS, LENGTH, LENGTH).masked_fill(~_causal(), LOW).softmax(-1)
    return torch.bmm(weights.view(-1, LENGTH, LENGTH), flat[2]).view(q.shape)


def _scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As DeBERTa does: keys over a root that is computed."""
    return (q @ (k.transpose(-1, -2) / torch.sqrt(torch.tensor(WIDTH * 3.0)))).softmax(-1) @ v


def _letters(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As CvT does."""
    weights = torch.einsum("bhlk,bhtk->bhlt", q, k).mul(0.3).softmax(-1)
    return torch.einsum("bhlt,bhtv->bhlv", weights, v)


class Attending(nn.Module):
    """Attention in one of these ways, between linear maps."""

    def __init__(self, way: Attend) -> None:
        super().__init__()
        self.way, self.qkv, self.out = way, nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).view(len(x), LENGTH, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4).unbind(0)
        found: Tensor = self.out(self.way(*parts).transpose(1, 2).reshape(len(x), LENGTH, 8))
        return found


@pytest.mark.parametrize("way", [_twice_masked, _biased, _scaled, _letters])
def test_handwritten_attention_variants_become_attention(way: Attend) -> None:
    imported = archir.from_torch(Attending(way), torch.zeros(1, LENGTH, 8))
    found = Counter(type(imported.graph[number].op).__name__ for number in imported.graph)
    assert found["Attention"] == 1
    assert not found["Matmul"] + found["Softmax"]


def _capped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As Gemma 2 does: numbers are bent before the softmax; one head of keys is copied for all queries."""
    k, v = (x[:, :1].expand(-1, HEADS, -1, -1) for x in (k, v))
    return (torch.tanh(q @ k.transpose(-1, -2)) * 5).softmax(-1) @ v


class Doing(nn.Module):
    """A map of 4 channels, and a function of it."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.conv = function, nn.Conv2d(3, 4, 1)

    def forward(self, image: Tensor) -> Tensor:
        return self.function(self.conv(image))


def _in_autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        y = x.relu()
    return x + y


def _five_axes(x: Tensor) -> Tensor:
    """Attention in windows beside heads, as Hiera and Twins have it."""
    q = x.reshape(len(x), 2, 2, 6, 6).permute(0, 1, 3, 4, 2)
    return F.scaled_dot_product_attention(q, q * 0.5, q + 1)


@pytest.mark.parametrize(
    "function",
    [
        _in_autocast,
        _five_axes,
        lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"),
        lambda x: F.pad(x, (1, 2, 0, 1), mode="replicate"),
        lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"),
        lambda x: F.pad(x, (0, 0, 0, 0, 1, 2)),
        lambda x: F.pad(x.flatten(1), (1, 2)),
        lambda x: F.unfold(x, 3, padding=1, stride=2),
        lambda x: F.unfold(x, 2, dilation=2),
        lambda x: x.unfold(2, 3, 2).unfold(3, 2, 2),
        lambda x: x[:, :, torch.tensor([-1, 0, -2])],
        lambda x: torch.cat([x[:, 4:], x, x[:, :2]], 1),
        lambda x: torch.multiply(torch.negative(x), torch.divide(x, 2)),
    ],
)
def test_padding_unfolding_and_indexing_import_exactly(function: Callable[[Tensor], Tensor]) -> None:
    """`from_torch` compares."""
    imported = archir.from_torch(Doing(function), torch.zeros(1, 3, 6, 6))
    assert program_of(imported).lines < 80


def test_shared_key_head_needs_only_two_matmuls() -> None:
    imported = archir.from_torch(Attending(_capped), torch.zeros(1, LENGTH, 8))
    found: list[Any] = [imported.graph[number].op.name for number in imported.graph]
    assert found.count("matmul") == 2


class Dense(nn.Module):
    """Layers that read everything before them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3 + 2 * i, 2, 3, padding=1) for i in range(5))

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)).relu())
        return torch.cat(found, 1)


def test_dense_block_layers_become_a_loop() -> None:
    assert program_of(archir.from_torch(Dense(), torch.zeros(1, 3, 6, 6))).lines <= 8
