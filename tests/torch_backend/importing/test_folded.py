"""Samples that other axes are folded into, copies, windows that are added, and parts that are written over."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archir
from archir.backends.imports import program_of
from archir_torch.importing.proof import network

KERNEL = nn.Parameter(torch.linspace(-1, 1, 6 * 3 * 9).reshape(6, 3, 3, 3))
MATRICES = nn.Parameter(torch.linspace(-1, 1, 3 * 6 * 6).reshape(3, 6, 6))


def frames(x: Tensor) -> Tensor:
    """[B, 3, 4, 6, 6] as four times as many samples."""
    folded = x.transpose(1, 2).reshape(-1, 3, 6, 6)
    return F.conv2d(folded, KERNEL, padding=1).reshape(-1, 4, 6, 6, 6)


def copied(x: Tensor) -> Tensor:
    rows = x[:, :, :1].expand(-1, -1, 4, -1, -1)
    return torch.cat([rows, x], 3)


def windows(x: Tensor) -> Tensor:
    parts = F.unfold(x[:, :, 0], 3, padding=1, stride=2)
    return F.fold(parts * 2, (6, 6), 3, padding=1, stride=2)


def written(x: Tensor) -> Tensor:
    y = x * 2
    y[:, :, 1:, 2:4] += 1
    y[:, :, 0] = x[:, :, 1]
    return y


BODIES: dict[str, Callable[[Tensor], Tensor]] = {
    "frames": frames,
    "copies": copied,
    "windows that are added": windows,
    "written over": written,
    "products for each row": lambda x: torch.einsum("bhwc,hkc->bhwk", x[:, :, 0], MATRICES),
    "the larger": lambda x: torch.max(x, torch.tensor(0.25)) + torch.minimum(x, torch.tensor(-0.5)),
    "the largest around": lambda x: F.max_pool2d(F.pad(x[:, :, 0], (0, 1, 0, 1), value=float("-inf")), 3, 2),
    "no bounds": lambda x: x.clamp(float("-inf"), 0.5),
}


class Made(nn.Module):
    def __init__(self, body: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.kernel, self.matrices, self.body = KERNEL, MATRICES, body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


@pytest.mark.parametrize("name", BODIES)
def test_folded_batch_axes_and_writes_import_exactly(name: str) -> None:
    torch.manual_seed(0)
    module = Made(BODIES[name]).eval()
    program = program_of(archir.from_torch(module, torch.zeros(1, 3, 4, 6, 6)))
    made = network(archir.loads(program.text).graph, program.weights)
    x = torch.randn(3, 3, 4, 6, 6)
    with torch.no_grad():
        torch.testing.assert_close(made(x), module(x.clone()))
