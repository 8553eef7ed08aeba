"""Pooling."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import fail
from archir.ops import pool as ops
from archir.ops.windows import Window
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers
from archir_onnx.lowering.windows import slides

MOST_SHARES = 1 << 16
"""Numbers of the matrix that averages parts of an axis: beyond, it is mostly zeros."""


@lowers(ops.MaxPool, ops.MaxPool3d)
def max_pool(g: Builder, op: ops.MaxPool, x: str) -> str:
    """Zeros before a pool are written as -0, since onnxruntime 1.31 takes 0 into the pool, where it does not count."""
    for node in g.nodes:
        if node.op_type == "Pad" and x in node.output:
            node.input[2] = g.number(-0.0)
    return g.node("MaxPool", x, **slides(op.windows))


@lowers(ops.MaxPool1d)
def max_pool1d(g: Builder, op: ops.MaxPool1d, x: str) -> str:
    return g.transpose(g.node("MaxPool", g.transpose(x, 0, 2, 1), **slides(op.windows)), 0, 2, 1)


BLOCK = 16
"""Channels that onnxruntime's pooling works on together. Of other numbers of channels, it takes them one by one."""


@lowers(ops.AvgPool)
def avg_pool(g: Builder, op: ops.AvgPool, x: str) -> str:
    """A mean, or where that is slow a sum by convolution (0.07 against 0.25 ms for 36 channels of 32 x 32 pixels).

    So are windows of one pixel: onnxruntime joins a pool with padding before it, and then refuses that it is larger.
    """
    even = op.count_padding or not any(op.pads)
    single = all(window.kernel == 1 for window in op.windows)
    if (g.type.channels % BLOCK or single) and (even or not g.form.resizable):
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


@lowers(ops.AdaptiveAvgPool)
def adaptive_avg_pool(g: Builder, op: ops.AdaptiveAvgPool, x: str) -> str:
    """An ordinary pool where parts are alike; else a product with what each part has of each line, for both axes, or,
    of many parts of long lines, the sum of what each has."""
    sizes = _fixed(g, op)
    if op.sizes == (1, 1):
        return g.node("GlobalAveragePool", x)
    if (apart := _side_by_side(sizes, op.sizes)) is not None:
        return g.node("AveragePool", x, **apart)
    if max(size * parts for size, parts in zip(sizes, op.sizes, strict=True)) > MOST_SHARES:
        for axis, (size, parts) in enumerate(zip(sizes, op.sizes, strict=True), 2):
            places, there = _gathered(size, parts)
            shares = there / there.sum(1, keepdims=True)
            each = g.node("Gather", x, g.constant(places), axis=axis)
            x = g.reduce(
                "ReduceSum", g.node("Mul", each, g.number(shares[..., None] if axis == 2 else shares)), axis + 1
            )
        return x
    rows, columns = (_shares(size, parts) for size, parts in zip(sizes, op.sizes, strict=True))
    return g.node("MatMul", g.node("MatMul", g.number(rows), x), g.number(columns.T))


def _gathered(size: int, parts: int) -> tuple[list[list[int]], NDArray[Any]]:
    """The positions of each part, as many for each, the last one again where there are fewer; and which are no such."""
    found = _parts(size, parts)
    longest = max(end - start for start, end in found)
    places = [[min(start + i, end - 1) for i in range(longest)] for start, end in found]
    return places, np.array([[start + i < end for i in range(longest)] for start, end in found], float)


def _shares(size: int, parts: int) -> NDArray[Any]:
    """What each part has of each position of an axis, [parts, size]."""
    found = np.zeros((parts, size))
    for row, (start, end) in zip(found, _parts(size, parts), strict=True):
        row[start:end] = 1 / (end - start)
    return found


@lowers(ops.AdaptiveMaxPool)
def adaptive_max_pool(g: Builder, op: ops.AdaptiveMaxPool, x: str) -> str:
    """An ordinary pool where parts are alike; else the largest of each part of each line, one axis after the other."""
    sizes = _fixed(g, op)
    if op.sizes == (1, 1):
        return g.node("GlobalMaxPool", x)
    if (apart := _side_by_side(sizes, op.sizes)) is not None:
        return g.node("MaxPool", x, **apart)
    for axis, (size, parts) in enumerate(zip(sizes, op.sizes, strict=True), 2):
        places, _ = _gathered(size, parts)
        x = g.reduce("ReduceMax", g.node("Gather", x, g.constant(places), axis=axis), axis + 1)
    return x


def _fixed(g: Builder, op: ops.AdaptiveAvgPool) -> tuple[int, ...]:
    """Height and width of what is pooled. Raises ArchError (A0932) if they are open, and it is pooled in parts."""
    if g.form.resizable and op.sizes != (1, 1):
        raise fail(
            "A0932", f"the sizes of images cannot be left open: `{op.name}` makes parts of as many pixels as there are"
        )
    return g.types[0].spatial


def _side_by_side(sizes: tuple[int, ...], parts: tuple[int, ...]) -> dict[str, Any] | None:
    """The windows of parts that are all of one size; None if they are not."""
    if any(size % count for size, count in zip(sizes, parts, strict=True)):
        return None
    kernel = [size // count for size, count in zip(sizes, parts, strict=True)]
    return {"kernel_shape": kernel, "strides": kernel}


def _parts(size: int, parts: int) -> list[tuple[int, int]]:
    """Where each part of an axis begins and ends."""
    return [(i * size // parts, -(-(i + 1) * size // parts)) for i in range(parts)]


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


@lowers(ops.SumOver)
def sum_over(g: Builder, op: ops.SumOver, x: str) -> str:
    return g.reduce("ReduceSum", x, op.axis if op.axis < 0 else op.axis + 1, keep=True)


@lowers(ops.MaxOver)
def max_over(g: Builder, op: ops.MaxOver, x: str) -> str:
    return g.reduce("ReduceMax", x, op.axis if op.axis < 0 else op.axis + 1, keep=True)
