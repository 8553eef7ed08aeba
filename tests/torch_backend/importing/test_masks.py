"""Masks that depend on what is read: padding of texts, masks that are given, and what is looked up by them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archir
from archir.backends.imports import program_of
from archir_torch.importing.proof import network

IDS = torch.tensor([[7, 3, 1, 9, 1, 2], [2, 5, 9, 4, 8, 6], [1, 2, 3, 1, 1, 1]])
SHOWN = torch.tensor([[1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0]])


class Made(nn.Module):
    """A table, and what is done with integers and their rows."""

    def __init__(self, body: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.table, self.places, self.body = nn.Embedding(10, 4), nn.Embedding(9, 4), body

    def forward(self, ids: Tensor) -> Tensor:
        return self.body(ids, self.table(ids))


def positions(ids: Tensor) -> Tensor:
    mask = ids.ne(1).int()
    count = (torch.cumsum(mask, 1).type_as(mask) + 0) * mask
    return count.long() + 1


def attended(ids: Tensor, x: Tensor) -> Tensor:
    """Of what is not padding and not later."""
    shown = (ids != 1)[:, None, None, :] & torch.ones(6, 6, dtype=torch.bool).tril()
    q = x.reshape(-1, 6, 2, 2).transpose(1, 2)
    mask = shown | torch.eye(6, dtype=torch.bool)
    return F.scaled_dot_product_attention(q, q, q, mask)


BODIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "product": lambda ids, x: x * (ids != 1).float().unsqueeze(-1),
    "filled": lambda ids, x: x.masked_fill((ids == 1).unsqueeze(-1), 0),
    "filled by another number": lambda ids, x: x.masked_fill(ids.eq(1)[..., None], 2.5),
    "hidden": lambda ids, x: (x.sum(-1).masked_fill(ids == 1, float("-inf"))).softmax(-1),
    "mean": lambda ids, x: (x * (ids != 1)[..., None]).sum(1) / (ids != 1).sum(1, keepdim=True).clamp(min=1),
    "either": lambda ids, x: torch.where(((ids == 1) | (ids == 2))[..., None], -x, x + 1),
    "neither": lambda ids, x: torch.where(torch.logical_not((ids == 1) | (ids == 2))[..., None], x, 0.0),
    "both": lambda ids, x: torch.where((ids.ne(1) & (x.sum(-1) > 0))[..., None], x, torch.zeros(())),
    "two numbers": lambda ids, x: x + torch.where(ids == 1, 3.0, -2.0)[..., None],
    "compared": lambda ids, x: x * (x >= 0.25) + (x <= -0.25).float(),
    "the end": lambda ids, x: x[torch.arange(len(x)), (ids == 9).int().argmax(-1)],
    "attention": attended,
    "one place of several": lambda ids, x: (ids[..., None] == torch.arange(10)).float() @ x.new_ones(10, 3).cumsum(0),
    "numbers": lambda ids, x: x * ids[..., None] / 10,
}


@pytest.mark.parametrize("name", BODIES)
def test_token_dependent_masks_import_exactly(name: str) -> None:
    torch.manual_seed(0)
    module = Made(BODIES[name]).eval()
    imported = archir.from_torch(module, torch.zeros(1, 6, dtype=torch.int64))
    program = program_of(imported)
    made = network(archir.loads(program.text).graph, program.weights)
    with torch.no_grad():
        torch.testing.assert_close(made(IDS), module(IDS))


def test_padding_aware_positions_import_exactly() -> None:
    torch.manual_seed(0)
    module = Made(lambda ids, x: x)
    module.body = lambda ids, x: x + module.places(positions(ids))
    program = program_of(archir.from_torch(module.eval(), torch.zeros(1, 6, dtype=torch.int64)))
    assert "positions(padding=1)" in program.text
    made = network(archir.loads(program.text).graph, program.weights)
    with torch.no_grad():
        torch.testing.assert_close(made(IDS), module(IDS))


class Masked(nn.Module):
    """Attention to what a second input shows."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, ids: Tensor, shown: Tensor) -> Tensor:
        q = self.table(ids).reshape(-1, 6, 2, 2).transpose(1, 2)
        mask = (1.0 - shown[:, None, None, :].float()) * torch.finfo(torch.float32).min
        return ((q @ q.transpose(-1, -2)) * 0.5 + mask).softmax(-1) @ q


def test_mask_argument_becomes_attention_input() -> None:
    torch.manual_seed(0)
    module = Masked().eval()
    example = {"ids": torch.zeros(1, 6, dtype=torch.int64), "shown": torch.ones(1, 6, dtype=torch.int64)}
    program = program_of(archir.from_torch(module, example))
    assert "attention(" in program.text
    made = network(archir.loads(program.text).graph, program.weights)
    with torch.no_grad():
        torch.testing.assert_close(made(IDS, SHOWN), module(IDS, SHOWN))


def test_rejects_lookup_by_computed_integers() -> None:
    module = Made(lambda ids, x: x[torch.arange(len(x)), x.sum(-1).long().argmax(-1)])
    with pytest.raises(archir.ArchError, match="numbers as integers"):
        archir.from_torch(module, torch.zeros(1, 6, dtype=torch.int64))
