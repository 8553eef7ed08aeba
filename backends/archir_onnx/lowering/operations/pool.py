"""Pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.ops import pool as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers


@lowers(ops.MaxPool)
def max_pool(g: Builder, op: ops.MaxPool, x: str) -> str:
    left, right, top, bottom = op.pads
    return g.node("MaxPool", x, kernel_shape=[op.kernel] * 2, strides=[op.stride] * 2, pads=[top, left, bottom, right])


BLOCK = 16
"""Channels that onnxruntime's pooling works on together. Of other numbers of channels, it takes them one by one."""


@lowers(ops.AvgPool)
def avg_pool(g: Builder, op: ops.AvgPool, x: str) -> str:
    """A mean, or where that is slow a sum by convolution (0.07 against 0.25 ms for 36 channels of 32 x 32 pixels)."""
    left, right, top, bottom = op.pads
    even = op.count_padding or not any(op.pads)
    if g.type.channels % BLOCK and (even or not g.form.resizable):
        return _summed(g, op, x, even)
    return g.node(
        "AveragePool",
        x,
        kernel_shape=[op.kernel] * 2,
        strides=[op.stride] * 2,
        pads=[top, left, bottom, right],
        count_include_pad=int(op.count_padding),
    )


def _summed(g: Builder, op: ops.AvgPool, x: str, even: bool) -> str:
    """A mean over as many pixels everywhere (`even`), or over those that each window has of the map."""
    left, right, top, bottom = op.pads
    channels = g.type.channels
    weight = np.full((channels, 1, op.kernel, op.kernel), 1 / op.kernel**2 if even else 1)
    y = g.node(
        "Conv",
        x,
        g.number(weight),
        kernel_shape=[op.kernel] * 2,
        strides=[op.stride] * 2,
        pads=[top, left, bottom, right],
        group=channels,
    )
    if even:
        return y
    _, height, width = g.types[0].shape
    rows, columns = _inside(op, top, height, bottom), _inside(op, left, width, right)
    return g.node("Mul", y, g.number(1 / np.outer(rows, columns)))


def _inside(op: ops.AvgPool, before: int, size: int, after: int) -> NDArray[Any]:
    """How many positions of each window along an axis are no padding."""
    real = np.pad(np.ones(size), (before, after))
    windows: NDArray[Any] = np.lib.stride_tricks.sliding_window_view(real, op.kernel)
    return np.asarray(windows[:: op.stride].sum(1))


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
