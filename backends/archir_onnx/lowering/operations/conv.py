"""Lowering of convolutions and linear layers."""

from __future__ import annotations

from archir.ops import conv as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers
from archir_onnx.lowering.windows import window_attributes


@lowers(ops.Conv, ops.Conv3d)
def conv(g: Builder, op: ops.Conv, x: str, *, weight: str, bias: str | None = None) -> str:
    """Lower a convolution of maps or volumes."""
    dilations = [window.dilation for window in op.windows]
    return g.node("Conv", x, weight, bias, **window_attributes(op.windows), dilations=dilations, group=op.groups)


@lowers(ops.Conv1d)
def conv1d(g: Builder, op: ops.Conv1d, x: str, *, weight: str, bias: str | None = None) -> str:
    """Lower a convolution over tokens."""
    channels_first = g.transpose(x, 0, 2, 1)
    y = g.node(
        "Conv", channels_first, weight, bias, **window_attributes(op.windows), dilations=[op.dilation], group=op.groups
    )
    return g.transpose(y, 0, 2, 1)


@lowers(ops.ConvTranspose)
def conv_transpose(g: Builder, op: ops.ConvTranspose, x: str, *, weight: str, bias: str | None = None) -> str:
    """Lower a transposed convolution."""
    slide = window_attributes(op.windows) | {"pads": [*op.crop, *op.crop], "output_padding": [*op.extra]}
    dilations = [window.dilation for window in op.windows]
    return g.node("ConvTranspose", x, weight, bias, **slide, dilations=dilations, group=op.groups)


@lowers(ops.Linear)
def linear(g: Builder, op: ops.Linear, x: str, *, weight: str, bias: str | None = None) -> str:
    """Lower a linear layer: `Gemm` for vectors, else `MatMul` with the transposed weight."""
    if g.type.rank == 1:
        return g.node("Gemm", x, weight, bias, transB=1)
    y = g.node("MatMul", x, g.transposed_weight(weight))
    return y if bias is None else g.node("Add", y, bias)
