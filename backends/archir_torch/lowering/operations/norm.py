"""Lowering rules of normalisation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.ops import norm as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.BatchNorm)
def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float,
    momentum: float,
    training: bool,
) -> Tensor:
    if x.dim() == 3:
        x = x.transpose(1, 2)
        return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps).transpose(1, 2)
    if x.dim() == 4 and torch.is_grad_enabled() and not torch.compiler.is_compiling():
        weight = weight.contiguous() if weight is not None else None  # torch's gradient ignores its strides
        images, _, height, width = x.shape
        if 1 in (images, height, width) and x.device.type == "cpu":
            # torch's gradient mistakes a channels-last map of such sizes for a contiguous one, and is wrong
            y = F.batch_norm(x.flatten(2), running_mean, running_var, weight, bias, training, momentum, eps)
            return y.unflatten(2, (height, width))
    return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)


@lowers(ops.LayerNorm)
def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float) -> Tensor:
    if x.dim() > 3:
        x = x.movedim(1, -1)
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps).movedim(-1, 1)
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


@lowers(ops.RmsNorm)
def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float) -> Tensor:
    if x.dim() > 3:
        x = x.movedim(1, -1)
        return F.rms_norm(x, x.shape[-1:], weight, eps).movedim(-1, 1)
    return F.rms_norm(x, x.shape[-1:], weight, eps)


@lowers(ops.GroupNorm)
def group_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, groups: int, eps: float
) -> Tensor:
    return F.group_norm(x, groups, weight, bias, eps)


@lowers(ops.InstanceNorm)
def instance_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float) -> Tensor:
    if x.dim() == 3:
        x = x.transpose(1, 2)
        return F.group_norm(x, x.shape[1], weight, bias, eps).transpose(1, 2)
    return F.group_norm(x, x.shape[1], weight, bias, eps)


@lowers(ops.Normalize)
def normalize(x: Tensor, *, axis: int | None, eps: float) -> Tensor:
    if axis is None:
        axis = 0 if x.dim() >= 4 else -1
    return F.normalize(x, 2.0, axis if axis < 0 else axis + 1, eps)
