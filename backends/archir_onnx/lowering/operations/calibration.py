"""Gates and kernels."""

from __future__ import annotations

from archir.ops import calibration as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers
from archir_onnx.lowering.windows import columns_of, rows_of


@lowers(ops.AsGate, ops.AsKernel)
def of_kind(g: Builder, op: ops.AsGate | ops.AsKernel, x: str) -> str:
    return x


@lowers(ops.DynamicConv)
def dynamic_conv(g: Builder, op: ops.DynamicConv, x: str, kernels: str) -> str:
    """A matrix product of each channel's kernel and windows, unless the batch is known: groups of a `Conv` are."""
    channels, size = g.type.channels, g.types[1].shape[1]
    if "batch" not in g.form.dynamic and not (g.form.resizable and g.form.batch > 1):
        return _grouped(g, x, kernels, g.form.batch * channels, size)
    windows = g.reshape(rows_of(g, columns_of(g, x, size), range(size), size), channels, size * size, -1)
    weights = g.reshape(g.transpose(kernels, 0, 1, 3, 2), channels, 1, size * size)
    return g.reshape(g.node("MatMul", weights, windows), *g.type.shape, like=x)


def _grouped(g: Builder, x: str, kernels: str, groups: int, size: int) -> str:
    """One convolution, in which all channels of all samples are groups."""
    weights = g.node("Reshape", kernels, g.constant([groups, 1, size, size]))
    apart = x if g.form.batch == 1 else g.node("Reshape", x, g.constant([1, groups, *g.type.shape[1:]]))
    y = g.node("Conv", apart, weights, kernel_shape=[size] * 2, pads=[size // 2] * 4, group=groups)
    return y if g.form.batch == 1 else g.node("Reshape", y, g.constant([g.form.batch, *g.type.shape]))
