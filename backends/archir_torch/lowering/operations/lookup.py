"""Lowering rules of embeddings, gathers and other operations on integers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.ops import lookup as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.Embedding)
def embedding(x: Tensor, weight: Tensor) -> Tensor:
    return F.embedding(x, weight)


@lowers(ops.Gather)
def gather(x: Tensor, positions: Tensor) -> Tensor:
    samples = torch.arange(x.shape[0], device=x.device)
    return x[samples if positions.dim() == 1 else samples.unsqueeze(1), positions]


@lowers(ops.OneHot)
def one_hot(x: Tensor, one: Tensor, *, classes: int) -> Tensor:
    return (x.unsqueeze(-1) == torch.arange(classes, device=x.device)).to(one.dtype)


@lowers(ops.Equal)
def equal(x: Tensor, *, to: int) -> Tensor:
    return x == to


@lowers(ops.ToNumbers)
def to_numbers(x: Tensor, one: Tensor) -> Tensor:
    return x.to(one.dtype)
