"""Pooling."""

from __future__ import annotations

from archir.ops import pool as ops
from archir_onnx.builder import Builder
from archir_onnx.rules import lowers


@lowers(ops.MaxPool)
def max_pool(g: Builder, op: ops.MaxPool, x: str) -> str:
    left, right, top, bottom = op.pads
    return g.node("MaxPool", x, kernel_shape=[op.kernel] * 2, strides=[op.stride] * 2, pads=[top, left, bottom, right])


@lowers(ops.AvgPool)
def avg_pool(g: Builder, op: ops.AvgPool, x: str) -> str:
    left, right, top, bottom = op.pads
    return g.node(
        "AveragePool",
        x,
        kernel_shape=[op.kernel] * 2,
        strides=[op.stride] * 2,
        pads=[top, left, bottom, right],
        count_include_pad=int(op.count_padding),
    )


@lowers(ops.GlobalAvgPool)
def global_avg_pool(g: Builder, op: ops.GlobalAvgPool, x: str) -> str:
    if g.types[0].rank == 2:
        return g.reduce("ReduceMean", x, 1)
    y = g.node("GlobalAveragePool", x)
    return y if op.keep else g.node("Flatten", y)


@lowers(ops.GlobalMaxPool)
def global_max_pool(g: Builder, op: ops.GlobalMaxPool, x: str) -> str:
    if g.types[0].rank == 2:
        return g.reduce("ReduceMax", x, 1)
    y = g.node("GlobalMaxPool", x)
    return y if op.keep else g.node("Flatten", y)


@lowers(ops.MeanOver)
def mean_over(g: Builder, op: ops.MeanOver, x: str) -> str:
    return g.reduce("ReduceMean", x, op.axis if op.axis < 0 else op.axis + 1, keep=True)


@lowers(ops.MaxOver)
def max_over(g: Builder, op: ops.MaxOver, x: str) -> str:
    return g.reduce("ReduceMax", x, op.axis if op.axis < 0 else op.axis + 1, keep=True)
