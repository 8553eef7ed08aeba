"""Lowering rules of operations with several operands: arithmetic, comparisons, concatenation, matrix products."""

from __future__ import annotations

import torch
from torch import Tensor

from archir.ops import arithmetic as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.Add)
def add(a: Tensor, b: Tensor) -> Tensor:
    return a + b


@lowers(ops.Sub)
def sub(a: Tensor, b: Tensor) -> Tensor:
    return a - b


@lowers(ops.Mul)
def mul(a: Tensor, b: Tensor) -> Tensor:
    return a * b


@lowers(ops.Div)
def div(a: Tensor, b: Tensor) -> Tensor:
    return a / b


@lowers(ops.Minimum)
def minimum(a: Tensor, b: Tensor) -> Tensor:
    return torch.minimum(a, b)


@lowers(ops.Maximum)
def maximum(a: Tensor, b: Tensor) -> Tensor:
    return torch.maximum(a, b)


@lowers(ops.Greater)
def greater(a: Tensor, b: Tensor | None = None, *, than: float) -> Tensor:
    return a > (than if b is None else b)


@lowers(ops.Less)
def less(a: Tensor, b: Tensor | None = None, *, than: float) -> Tensor:
    return a < (than if b is None else b)


@lowers(ops.Where)
def where(mask: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.where(mask, a, b)


@lowers(ops.Concat)
def concat(*xs: Tensor, axis: int | None) -> Tensor:
    if axis is None:
        axis = 0 if xs[0].dim() >= 4 else -1
    return torch.cat(xs, axis if axis < 0 else axis + 1)


@lowers(ops.Matmul)
def matmul(a: Tensor, b: Tensor, *, transpose: bool) -> Tensor:
    return a @ (b.transpose(-1, -2) if transpose else b)
