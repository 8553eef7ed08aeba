"""Norms."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import operator


@operator("BatchNormalization")
def batch_norm(
    x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, var: Tensor, epsilon: float = 1e-5, momentum: float = 0.9,
    **_: Any,
) -> Tensor:  # fmt: skip
    """By the statistics that are stored, of which training keeps a share of `momentum` in each step."""
    return F.batch_norm(x, mean, var, scale, shift, False, 1 - momentum, epsilon)


@operator("InstanceNormalization")
def instance_norm(x: Tensor, scale: Tensor, shift: Tensor, epsilon: float = 1e-5, **_: Any) -> Tensor:
    """Each channel by itself."""
    return F.instance_norm(x, weight=scale, bias=shift, eps=epsilon)


@operator("LayerNormalization")
def layer_norm(
    x: Tensor, scale: Tensor | None = None, shift: Tensor | None = None, axis: int = -1, epsilon: float = 1e-5, **_: Any
) -> Tensor:
    """Over the last axis."""
    if axis % x.dim() != x.dim() - 1:
        raise RuleError("a norm over more than the last axis")
    return F.layer_norm(x, x.shape[-1:], scale, shift, epsilon)


@operator("GroupNormalization")
def group_norm(
    x: Tensor, scale: Tensor, shift: Tensor, num_groups: int = 1, epsilon: float = 1e-5, version: int = 21, **_: Any
) -> Tensor:
    """Over groups of channels."""
    if scale.shape[0] != x.shape[1]:  # one for each group, before version 21
        scale, shift = (one.repeat_interleave(x.shape[1] // num_groups) for one in (scale, shift))
    return F.group_norm(x, num_groups, scale, shift, epsilon)


@operator("RMSNormalization")
def rms_norm(x: Tensor, scale: Tensor | None = None, axis: int = -1, epsilon: float = 1e-5, **_: Any) -> Tensor:
    """Over the last axis."""
    return F.rms_norm(x, x.shape[-1:], scale, epsilon)


@operator("LRN")
def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, **_: Any
) -> Tensor:
    """Numbers over those of neighbouring channels (Krizhevsky et al. 2012, section 3.3)."""
    squares = torch.square(x).transpose(1, 2)  # rows as channels, so that windows slide along channels
    squares = F.pad(squares, (0, 0, (size - 1) // 2, size // 2)) if size % 2 == 0 else squares
    means = F.avg_pool2d(squares, (size, 1), 1, (size // 2 if size % 2 else 0, 0))
    return x / torch.pow(means.transpose(1, 2) * alpha + bias, beta)
