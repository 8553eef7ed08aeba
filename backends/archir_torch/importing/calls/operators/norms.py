"""ONNX normalization operators."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import onnx_operator


@onnx_operator("BatchNormalization")
def batch_norm(
    x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, var: Tensor, epsilon: float = 1e-5, momentum: float = 0.9,
    **_: Any,
) -> Tensor:  # fmt: skip
    """Normalize by stored statistics.

    In ONNX, `momentum` is the share of the old statistics that a training step keeps.
    """
    return F.batch_norm(x, mean, var, scale, shift, False, 1 - momentum, epsilon)


@onnx_operator("InstanceNormalization")
def instance_norm(x: Tensor, scale: Tensor, shift: Tensor, epsilon: float = 1e-5, **_: Any) -> Tensor:
    """Normalize each channel of each sample separately."""
    return F.instance_norm(x, weight=scale, bias=shift, eps=epsilon)


@onnx_operator("LayerNormalization")
def layer_norm(
    x: Tensor, scale: Tensor | None = None, shift: Tensor | None = None, axis: int = -1, epsilon: float = 1e-5, **_: Any
) -> Tensor:
    """Normalize over the last axis."""
    _require_last(axis, x)
    return F.layer_norm(x, x.shape[-1:], scale, shift, epsilon)


def _require_last(axis: int, x: Tensor) -> None:
    """Raise RuleError if a norm from `axis` on covers more than the last axis."""
    if axis % x.dim() != x.dim() - 1:
        raise RuleError("norms over more than the last axis are not supported")


@onnx_operator("GroupNormalization")
def group_norm(
    x: Tensor, scale: Tensor, shift: Tensor, num_groups: int = 1, epsilon: float = 1e-5, version: int = 21, **_: Any
) -> Tensor:
    """Normalize each group of channels of each sample."""
    if scale.shape[0] != x.shape[1]:  # one number per group before version 21
        scale, shift = (parameter.repeat_interleave(x.shape[1] // num_groups) for parameter in (scale, shift))
    return F.group_norm(x, num_groups, scale, shift, epsilon)


@onnx_operator("RMSNormalization")
def rms_norm(x: Tensor, scale: Tensor | None = None, axis: int = -1, epsilon: float = 1e-5, **_: Any) -> Tensor:
    """Divide by the root of the mean square over the last axis."""
    _require_last(axis, x)
    return F.rms_norm(x, x.shape[-1:], scale, epsilon)


@onnx_operator("LRN")
def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, **_: Any
) -> Tensor:
    """Divide by a power of the mean square of neighbouring channels (Krizhevsky et al. 2012, section 3.3)."""
    squares = torch.square(x).transpose(1, 2)  # rows as channels, so that windows slide along channels
    squares = F.pad(squares, (0, 0, (size - 1) // 2, size // 2)) if size % 2 == 0 else squares
    means = F.avg_pool2d(squares, (size, 1), 1, (size // 2 if size % 2 else 0, 0))
    return x / torch.pow(means.transpose(1, 2) * alpha + bias, beta)
