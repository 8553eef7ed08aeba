"""Gates and kernels."""

from __future__ import annotations

import numpy as np

from archir.ops import calibration as ops
from archir_onnx.builder import Builder
from archir_onnx.rules import lowers


@lowers(ops.AsGate, ops.AsKernel)
def of_kind(g: Builder, op: ops.AsGate | ops.AsKernel, x: str) -> str:
    return x


@lowers(ops.DynamicConv)
def dynamic_conv(g: Builder, op: ops.DynamicConv, x: str, kernels: str) -> str:
    """The window around each position, times the sample's kernels: `Conv` has no weights that differ by sample."""
    channels, height, width = g.type.shape
    size = g.types[1].shape[1]
    pad = size // 2
    padded = g.node("Pad", x, g.constant([0, 0, pad, pad, 0, 0, pad, pad]), g.constant(0, np.float32))
    down = g.node("Gather", padded, g.constant(np.arange(height)[:, None] + np.arange(size)), axis=2)
    windows = g.node("Gather", down, g.constant(np.arange(width)[:, None] + np.arange(size)), axis=4)
    weights = g.reshape(kernels, channels, 1, size, 1, size)
    return g.node("ReduceSum", g.node("Mul", windows, weights), g.constant([3, 5]), keepdims=0)
