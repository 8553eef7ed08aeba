"""What archir's own file of an import comes back as: the same network, whichever way its axes lie."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archir
from archir.backends.imports import Program, program_of
from archir.ops.arithmetic import Concat
from archir.ops.attention import Attention
from archir.ops.constant import Constant
from archir.ops.shape import Pad
from benchmarks.imports import check_result, round_trip


class Body(nn.Module):
    def __init__(self, body: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.first, self.last = body, nn.Conv2d(3, 8, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.first(x))


def program(module: nn.Module, example: Tensor) -> tuple[Program, list[object]]:
    """An import that has been compared with the module, and its operations."""
    torch.manual_seed(0)
    imported = archir.from_torch(module.eval(), example)
    return program_of(imported), [imported.graph[n].op for n in imported.graph]


def side_by_side(x: Tensor) -> Tensor:
    """Windows that touch each other, as TNT has them."""
    windows = F.unfold(x, 4, stride=4).transpose(1, 2)
    return windows.reshape(-1, 8, 16).transpose(1, 2).reshape(len(x), 4, 16, 8)


def halos(x: Tensor) -> Tensor:
    """Windows that overlap, and attention in each with positions that depend on queries, as HaloNet has it."""
    q = x.reshape(-1, 4, 2, 4, 2, 4).permute(0, 1, 3, 5, 2, 4).reshape(len(x) * 2, 4, 16, 4).transpose(1, 3)
    wide = F.pad(x, [1] * 4).unfold(2, 6, 4).unfold(3, 6, 4).reshape(len(x) * 2, 4, 4, 36).permute(0, 2, 3, 1)
    weights = (q @ wide.transpose(-1, -2) + q.sum(-1, keepdim=True) * torch.arange(36)).softmax(-1)
    return (weights @ wide).reshape(len(x), 2, 4, 16, 4)


def beside(x: Tensor) -> Tensor:
    """23 zeros beside rows that are folded into samples: as many as the samples that are traced."""
    return F.pad(x.reshape(-1, 8), [0, 23]).reshape(len(x), 64, 31)


WAYS: dict[str, Callable[[Tensor], Tensor]] = {"side by side": side_by_side, "halos": halos, "beside": beside}


@pytest.mark.parametrize("name", WAYS)
def test_window_layouts_survive_file_round_trip(name: str) -> None:
    made, ops = program(Body(WAYS[name]), torch.randn(1, 3, 8, 8))
    assert round_trip(made) == "yes"
    kinds = {type(op) for op in ops}
    if name == "side by side":
        assert not kinds & {Pad, Concat}  # nothing but the order of numbers
    if name == "halos":
        assert Attention in kinds
        assert sum(isinstance(op, Concat) for op in ops) == 2
    if name == "beside":
        assert Pad in kinds


class Shifted(nn.Module):
    """Tokens one place to the right, behind one that begins, as Bart's decoder reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, ids: Tensor) -> Tensor:
        moved = ids.new_zeros(ids.shape)
        moved[:, 1:] = ids[:, :-1].clone()
        moved[:, 0] = 2
        moved.masked_fill_(moved == 7, 1)
        result: Tensor = self.table(moved)
        return result


def test_constant_start_token_survives_file_round_trip() -> None:
    made, ops = program(Shifted(), torch.zeros(1, 6, dtype=torch.int64))
    assert round_trip(made) == "yes"
    assert Constant((2,)) in ops


def test_even_kernels_survive_file_round_trip() -> None:
    made, _ = program(nn.Conv1d(4, 4, 4, padding="same"), torch.randn(1, 4, 9))
    assert (check_result(made), round_trip(made)) == ("clean", "yes")


class Twice(nn.Module):
    """A round of 18 statements, two times with the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            y = x
            for layer in self.layers:
                y = layer(y.tanh()) + x
            x = y
        return x


def test_repeated_layers_are_written_as_loop() -> None:
    made, _ = program(Twice(), torch.randn(1, 5, 4))
    assert "repeat 2 {" in made.text
    assert made.lines < 12
