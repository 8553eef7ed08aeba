"""Lowering of gates and of convolutions with computed kernels."""

from __future__ import annotations

from archir.ops import calibration as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers
from archir_onnx.lowering.windows import shift_columns, shift_rows


@lowers(ops.AsGate, ops.AsKernel)
def of_kind(g: Builder, op: ops.AsGate | ops.AsKernel, x: str) -> str:
    """Lower a reinterpretation of a tensor as a gate or a kernel; no node is added."""
    return x


@lowers(ops.DynamicConv)
def dynamic_conv(g: Builder, op: ops.DynamicConv, x: str, kernels: str) -> str:
    """Lower a convolution with computed kernels to a matrix product of kernels and windows.

    If the batch size is fixed, the number of groups is known, and the convolution becomes a grouped `Conv` instead.
    """
    channels, size = g.type.channels, g.types[1].shape[1]
    if "batch" not in g.options.dynamic and not (g.options.has_open_sizes and g.options.batch > 1):
        return _grouped(g, x, kernels, g.options.batch * channels, size)
    windows = g.reshape(shift_rows(g, shift_columns(g, x, size), range(size), size), channels, size * size, -1)
    weights = g.reshape(g.transpose(kernels, 0, 1, 3, 2), channels, 1, size * size)
    return g.reshape(g.node("MatMul", weights, windows), *g.type.shape, like=x)


def _grouped(g: Builder, x: str, kernels: str, groups: int, size: int) -> str:
    """Lower to a single convolution in which every channel of every sample is a group of its own."""
    weights = g.node("Reshape", kernels, g.constant([groups, 1, size, size]))
    grouped_input = x if g.options.batch == 1 else g.node("Reshape", x, g.constant([1, groups, *g.type.shape[1:]]))
    y = g.node("Conv", grouped_input, weights, kernel_shape=[size] * 2, pads=[size // 2] * 4, group=groups)
    return y if g.options.batch == 1 else g.node("Reshape", y, g.constant([g.options.batch, *g.type.shape]))
