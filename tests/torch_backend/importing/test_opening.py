"""Imported networks are opened: architectures of the space train and are exported, and channels can be ordered."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from torch import Tensor, nn

from benchmarks.imports import Case, cases
from benchmarks.opening import MOST, NAMES, moved, row


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


TINY = [
    Case("residual", residual, torch.zeros(1, 3, 16, 16)),
    Case("encoder", encoder, torch.zeros(1, 5, 8)),
]


@pytest.mark.parametrize("case", TINY, ids=[case.name for case in TINY])
def test_what_was_imported_is_opened(case: Case) -> None:
    found = row(case, drawn=1)
    assert found.same
    assert int(found.size) > 100
    assert (found.trained, found.exported) == (1, 1)
    assert found.moved
    assert found.largest < 1e-5
    assert found.double < 1e-9


def test_what_is_computed_with_is_not_moved() -> None:
    before = {"weight": torch.tensor([[1.0, 3.0], [2.0, 4.0]])}
    assert moved(before, {"weight": torch.tensor([[4.0, 2.0], [3.0, 1.0]])})
    assert not moved(before, {"weight": torch.tensor([[4.0, 2.0], [3.0, 1.0 + 1e-6]])})


INEXACT = ("timm resnext50_32x4d", "timm resnet50")
"""With random weights, float32 itself is off by more than 1e-5 in these."""


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_known_networks_are_opened(name: str) -> None:
    if find_spec(name.split()[0]) is None:
        pytest.skip(f"not installed: {name.split()[0]}")
    found = row(next(case for case in cases() if case.name == name))
    assert found.same
    assert int(found.size) > 1
    assert (found.trained, found.exported) == (found.drawn, found.drawn)
    assert found.moved
    assert found.largest < (3 * found.own if name in INEXACT else MOST)
    assert found.double < 1e-9
