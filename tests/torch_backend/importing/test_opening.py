"""Imported networks are opened: architectures of the space train and are exported, and channels can be ordered."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.imports import Case, cases
from benchmarks.opening import MAX_CHANGE, NAMES, is_permuted, row, subnets


class Unit(nn.Module):
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.outer = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(before, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.outer(self.inner(x)) + self.shortcut(x))


def residual() -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(3, 16, 5, 2, 2, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    units = [Unit(16, 16, 1), Unit(16, 16, 1), Unit(16, 32, 2), Unit(32, 32, 1)]
    return nn.Sequential(stem, *units, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def encoder() -> nn.Module:
    layers = [nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(2)]
    return nn.Sequential(nn.Linear(8, 16), *layers, nn.Linear(16, 4))


class Conformer(nn.Module):
    """The gated convolution of a conformer, behind attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.up, self.down = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.middle, self.norm = nn.Conv1d(width, width, 5, padding=2, groups=width), nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.up(self.second(x).transpose(1, 2)), dim=1)
        return x + self.down(F.silu(self.norm(self.middle(y)))).transpose(1, 2)


def conformer() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), Conformer(16), nn.Linear(16, 4))


class Timed(nn.Module):
    """A block of a diffusion U-Net, whose channels are scaled and shifted by the time."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.conv, self.time = nn.Conv2d(before, width, 3, padding=1), nn.Linear(32, 2 * width)
        self.norm, self.last = nn.GroupNorm(4, width), nn.Conv2d(width, width, 3, padding=1)
        self.shortcut = nn.Conv2d(before, width, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, dim=1)
        return self.shortcut(x) + self.last(F.silu(self.norm(self.conv(x)) * (1 + scale) + shift))


class Diffusion(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 32))
        self.down = nn.ModuleList([nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, 2, 1)])
        self.blocks = nn.ModuleList([Timed(16, 16), Timed(16, 32), Timed(48, 16)])
        self.last = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, image: Tensor, time: Tensor) -> Tensor:
        time = self.time(time)
        first = self.blocks[0](self.down[0](image), time)
        low = F.interpolate(self.blocks[1](self.down[1](first), time), scale_factor=2.0)
        return self.last(self.blocks[2](torch.cat([low, first], 1), time))


TINY = [
    Case("residual", residual, torch.zeros(1, 3, 16, 16)),
    Case("encoder", encoder, torch.zeros(1, 5, 8)),
]


@pytest.mark.parametrize("case", TINY, ids=[case.name for case in TINY])
def test_tiny_imported_network_opens_trains_and_exports(case: Case) -> None:
    found = row(case, count=1)
    assert found.same
    assert int(found.size) > 100
    assert (found.trained, found.exported) == (1, 1)
    assert found.moved
    assert found.largest < 1e-5
    assert found.double < 1e-9


PARTS = [
    Case("conformer", conformer, torch.zeros(1, 6, 8)),
    Case("diffusion", Diffusion, (torch.zeros(1, 3, 8, 8), torch.zeros(1, 8))),
]


@pytest.mark.parametrize("case", [*TINY, *PARTS], ids=[case.name for case in [*TINY, *PARTS]])
def test_supernet_of_imported_network_holds_its_weights(case: Case) -> None:
    found = subnets(case.name, lambda: case, count=2)
    assert found.holds, found
    assert found.compared >= 1


def test_is_permuted_accepts_only_exact_permutations() -> None:
    before = {"weight": torch.tensor([[1.0, 3.0], [2.0, 4.0]])}
    assert is_permuted(before, {"weight": torch.tensor([[4.0, 2.0], [3.0, 1.0]])})
    assert not is_permuted(before, {"weight": torch.tensor([[4.0, 2.0], [3.0, 1.0 + 1e-6]])})


INEXACT = ("timm resnext50_32x4d", "timm resnet50")
"""With random weights, float32 itself is off by more than 1e-5 in these."""


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_known_network_opens_trains_and_exports(name: str) -> None:
    if find_spec(name.split()[0]) is None:
        pytest.skip(f"not installed: {name.split()[0]}")
    found = row(next(case for case in cases() if case.name == name))
    assert found.same
    assert int(found.size) > 1
    assert (found.trained, found.exported) == (found.drawn, found.drawn)
    assert found.moved
    assert found.largest < (3 * found.own if name in INEXACT else MAX_CHANGE)
    assert found.double < 1e-9
