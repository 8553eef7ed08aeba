"""Lowering rules of constant tensors and position numbers, which are the same for every sample."""

from __future__ import annotations

import torch
from torch import Tensor

from archir.ops import constant as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.Sinusoidal)
def sinusoidal(x: Tensor, *, base: float) -> Tensor:
    tokens, features = x.shape[1], x.shape[2]
    rates = base ** (torch.arange(0, features, 2, device=x.device) / -features)
    angles = torch.outer(torch.arange(tokens, device=x.device), rates)
    waves = torch.stack((angles.sin(), angles.cos()), 2).flatten(1)[:, :features]
    return waves.to(x.dtype).expand(x.shape)


@lowers(ops.Positions)
def positions(x: Tensor, *, padding: int | None = None) -> Tensor:
    if padding is not None:
        mask = x != padding
        return mask.cumsum(1) * mask + padding
    return torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)


@lowers(ops.Constant)
def constant(x: Tensor, *, values: tuple[int, ...], dtype: str = "i64") -> Tensor:
    real = x.dtype if x.is_floating_point() else torch.float32
    kind = torch.int64 if dtype == "i64" else torch.bool if dtype == "bool" else real
    return torch.tensor(values, dtype=kind).to(x.device, non_blocking=True).expand(x.shape[0], -1)
