"""Lowering rules of operations that use random numbers in training, such as dropout."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from archir.ops import random as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.Dropout)
def dropout(x: Tensor, *, rate: float, training: bool) -> Tensor:
    return F.dropout(x, rate, training)


@lowers(ops.DropPath)
def drop_path(x: Tensor, *, rate: float, training: bool) -> Tensor:
    if not training or rate == 0:
        return x
    mask = x.new_empty((x.shape[0],) + (1,) * (x.dim() - 1)).bernoulli_(1 - rate)
    return x * mask / (1 - rate)
