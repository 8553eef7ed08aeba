"""Lowering rules of gates, and of convolutions whose kernels are computed by the network."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from archir.ops import calibration as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.AsGate, ops.AsKernel)
def identity_of_kind(x: Tensor) -> Tensor:
    return x


@lowers(ops.DynamicConv)
def dynamic_conv(x: Tensor, kernels: Tensor) -> Tensor:
    batch, channels, size, _ = kernels.shape
    weight = kernels.reshape(batch * channels, 1, size, size)
    y = F.conv2d(x.reshape(1, batch * channels, *x.shape[2:]), weight, padding=size // 2, groups=batch * channels)
    return y.reshape(x.shape)
