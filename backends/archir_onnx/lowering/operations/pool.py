"""Pooling."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.ops import pool as ops
from archir.ops.windows import Window
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers
from archir_onnx.lowering.windows import slides


@lowers(ops.MaxPool, ops.MaxPool3d)
def max_pool(g: Builder, op: ops.MaxPool, x: str) -> str:
    return g.node("MaxPool", x, **slides(op.windows))


@lowers(ops.MaxPool1d)
def max_pool1d(g: Builder, op: ops.MaxPool1d, x: str) -> str:
    return g.transpose(g.node("MaxPool", g.transpose(x, 0, 2, 1), **slides(op.windows)), 0, 2, 1)


BLOCK = 16
"""Channels that onnxruntime's pooling works on together. Of other numbers of channels, it takes them one by one."""


@lowers(ops.AvgPool)
def avg_pool(g: Builder, op: ops.AvgPool, x: str) -> str:
    """A mean, or where that is slow a sum by convolution (0.07 against 0.25 ms for 36 channels of 32 x 32 pixels)."""
    even = op.count_padding or not any(op.pads)
    if g.type.channels % BLOCK and (even or not g.form.resizable):
        return _summed(g, op, x, even)
    return _mean(g, op, x)


@lowers(ops.AvgPool1d)
def avg_pool1d(g: Builder, op: ops.AvgPool1d, x: str) -> str:
    return g.transpose(_mean(g, op, g.transpose(x, 0, 2, 1)), 0, 2, 1)


@lowers(ops.AvgPool3d)
def avg_pool3d(g: Builder, op: ops.AvgPool3d, x: str) -> str:
    return _mean(g, op, x)


def _mean(g: Builder, op: ops.AvgPool, x: str) -> str:
    return g.node("AveragePool", x, **slides(op.windows), count_include_pad=int(op.count_padding))


def _summed(g: Builder, op: ops.AvgPool, x: str, even: bool) -> str:
    """A mean over as many pixels everywhere (`even`), or over those that each window has of the map."""
    channels, size = g.type.channels, [window.kernel for window in op.windows]
    weight = np.full((channels, 1, *size), 1 / prod(size) if even else 1)
    y = g.node("Conv", x, g.number(weight), **slides(op.windows), group=channels)
    if even:
        return y
    rows, columns = map(_inside, op.windows, g.types[0].spatial)
    return g.node("Mul", y, g.number(1 / np.outer(rows, columns)))


def _inside(window: Window, size: int) -> NDArray[Any]:
    """How many positions of each window along an axis are no padding."""
    real = np.pad(np.ones(size), (window.before, window.after))
    found: NDArray[Any] = np.lib.stride_tricks.sliding_window_view(real, window.kernel)
    return np.asarray(found[:: window.stride].sum(1))


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
