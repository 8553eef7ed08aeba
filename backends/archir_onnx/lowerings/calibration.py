"""Gates and kernels."""

from __future__ import annotations

from archir.ops import calibration as ops
from archir_onnx.builder import Builder
from archir_onnx.rules import lowers
from archir_onnx.windows import columns_of, rows_of


@lowers(ops.AsGate, ops.AsKernel)
def of_kind(g: Builder, op: ops.AsGate | ops.AsKernel, x: str) -> str:
    return x


@lowers(ops.DynamicConv)
def dynamic_conv(g: Builder, op: ops.DynamicConv, x: str, kernels: str) -> str:
    """A matrix product of each channel's kernel and windows: `Conv` has no weights that differ by sample."""
    channels, height, width = g.type.shape
    size = g.types[1].shape[1]
    windows = g.reshape(rows_of(g, columns_of(g, x, size), range(size)), channels, size * size, height * width)
    weights = g.reshape(g.transpose(kernels, 0, 1, 3, 2), channels, 1, size * size)
    return g.reshape(g.node("MatMul", weights, windows), channels, height, width)
