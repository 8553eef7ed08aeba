"""Lowering of pooling operations."""

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
from archir_onnx.lowering.windows import window_attributes

MAX_MATRIX_ELEMENTS = 1 << 16
"""Maximum number of elements of an axis's averaging matrix; larger matrices would consist mostly of zeros."""


@lowers(ops.MaxPool, ops.MaxPool3d)
def max_pool(g: Builder, op: ops.MaxPool, x: str) -> str:
    """Lower max pooling. A preceding `Pad` node gets the value -0 instead of 0.

    onnxruntime 1.31 fuses a pad with 0 into the pool, which then ignores the zeros.
    """
    for node in g.nodes:
        if node.op_type == "Pad" and x in node.output:
            node.input[2] = g.number(-0.0)
    return g.node("MaxPool", x, **window_attributes(op.windows))


@lowers(ops.MaxPool1d)
def max_pool1d(g: Builder, op: ops.MaxPool1d, x: str) -> str:
    """Lower max pooling over tokens."""
    return g.transpose(g.node("MaxPool", g.transpose(x, 0, 2, 1), **window_attributes(op.windows)), 0, 2, 1)


CHANNEL_BLOCK = 16
"""Number of channels that onnxruntime's pooling processes at once.

If the number of channels is not a multiple of it, onnxruntime pools the channels one at a time.
"""


@lowers(ops.AvgPool)
def avg_pool(g: Builder, op: ops.AvgPool, x: str) -> str:
    """Lower average pooling, to a depthwise convolution where that is faster.

    For 36 channels of 32 x 32 pixels, the convolution takes 0.07 ms instead of 0.25 ms. Windows of one pixel also
    become convolutions, because onnxruntime fuses a pool with the padding before it, and then rejects padding larger
    than the window.
    """
    even = op.count_padding or not any(op.pads)
    single = all(window.kernel == 1 for window in op.windows)
    if (g.type.channels % CHANNEL_BLOCK or single) and (even or not g.options.has_open_sizes):
        return _mean_by_convolution(g, op, x, even)
    return _mean(g, op, x)


@lowers(ops.AvgPool1d)
def avg_pool1d(g: Builder, op: ops.AvgPool1d, x: str) -> str:
    """Lower average pooling over tokens."""
    return g.transpose(_mean(g, op, g.transpose(x, 0, 2, 1)), 0, 2, 1)


@lowers(ops.AvgPool3d)
def avg_pool3d(g: Builder, op: ops.AvgPool3d, x: str) -> str:
    """Lower average pooling of volumes."""
    return _mean(g, op, x)


def _mean(g: Builder, op: ops.AvgPool, x: str) -> str:
    """Add an `AveragePool` node; return its result."""
    return g.node("AveragePool", x, **window_attributes(op.windows), count_include_pad=int(op.count_padding))


def _mean_by_convolution(g: Builder, op: ops.AvgPool, x: str, even: bool) -> str:
    """Lower average pooling to a depthwise convolution.

    If all windows count equally many pixels (`even`), the kernel holds the weights; otherwise, sums over windows are
    divided by the number of pixels that are not padding.
    """
    channels, size = g.type.channels, [window.kernel for window in op.windows]
    weight = np.full((channels, 1, *size), 1 / prod(size) if even else 1)
    y = g.node("Conv", x, g.number(weight), **window_attributes(op.windows), group=channels)
    if even:
        return y
    rows, columns = map(_unpadded_counts, op.windows, g.types[0].spatial)
    return g.node("Mul", y, g.number(1 / np.outer(rows, columns)))


def _unpadded_counts(window: Window, size: int) -> NDArray[Any]:
    """Return, for each window along an axis, the number of positions that are not padding."""
    real = np.pad(np.ones(size), (window.before, window.after))
    windows_view: NDArray[Any] = np.lib.stride_tricks.sliding_window_view(real, window.kernel)
    return np.asarray(windows_view[:: window.stride].sum(1))


@lowers(ops.AdaptiveAvgPool)
def adaptive_avg_pool(g: Builder, op: ops.AdaptiveAvgPool, x: str) -> str:
    """Lower adaptive average pooling, which divides each axis into parts and returns their means.

    If all parts of an axis have equal size, the operation becomes an ordinary pool; otherwise, a product with one
    averaging matrix per axis. If a matrix would be too large, gathered positions are weighted and summed instead.
    """
    sizes = _fixed_size(g, op)
    if op.sizes == (1, 1):
        return g.node("GlobalAveragePool", x)
    if (attributes := _equal_windows(sizes, op.sizes)) is not None:
        return g.node("AveragePool", x, **attributes)
    if max(size * parts for size, parts in zip(sizes, op.sizes, strict=True)) > MAX_MATRIX_ELEMENTS:
        for axis, (size, parts) in enumerate(zip(sizes, op.sizes, strict=True), 2):
            positions, is_valid = _padded_parts(size, parts)
            shares = is_valid / is_valid.sum(1, keepdims=True)
            gathered_positions = g.node("Gather", x, g.constant(positions), axis=axis)
            x = g.reduce(
                "ReduceSum",
                g.node("Mul", gathered_positions, g.number(shares[..., None] if axis == 2 else shares)),
                axis + 1,
            )
        return x
    rows, columns = (_averaging_matrix(size, parts) for size, parts in zip(sizes, op.sizes, strict=True))
    return g.node("MatMul", g.node("MatMul", g.number(rows), x), g.number(columns.T))


def _padded_parts(size: int, parts: int) -> tuple[list[list[int]], NDArray[Any]]:
    """Return the positions in each part of an axis, padded to equal length by repeating the last one, and a mask.

    The mask is 1 for positions that are not padding.
    """
    bounds = _parts(size, parts)
    longest = max(end - start for start, end in bounds)
    positions = [[min(start + i, end - 1) for i in range(longest)] for start, end in bounds]
    return positions, np.array([[start + i < end for i in range(longest)] for start, end in bounds], float)


def _averaging_matrix(size: int, parts: int) -> NDArray[Any]:
    """Return the matrix [parts, size] that averages each part of an axis."""
    matrix = np.zeros((parts, size))
    for row, (start, end) in zip(matrix, _parts(size, parts), strict=True):
        row[start:end] = 1 / (end - start)
    return matrix


@lowers(ops.AdaptiveMaxPool)
def adaptive_max_pool(g: Builder, op: ops.AdaptiveMaxPool, x: str) -> str:
    """Lower adaptive max pooling, which divides each axis into parts and returns their maxima.

    If all parts of an axis have equal size, the operation becomes an ordinary pool; otherwise, a gather and a maximum
    per axis.
    """
    sizes = _fixed_size(g, op)
    if op.sizes == (1, 1):
        return g.node("GlobalMaxPool", x)
    if (attributes := _equal_windows(sizes, op.sizes)) is not None:
        return g.node("MaxPool", x, **attributes)
    for axis, (size, parts) in enumerate(zip(sizes, op.sizes, strict=True), 2):
        positions, _ = _padded_parts(size, parts)
        x = g.reduce("ReduceMax", g.node("Gather", x, g.constant(positions), axis=axis), axis + 1)
    return x


def _fixed_size(g: Builder, op: ops.AdaptiveAvgPool) -> tuple[int, ...]:
    """Return height and width of the input.

    Raises ArchError (A0932) if height or width is dynamic and the output has more than one part.
    """
    if g.options.has_open_sizes and op.sizes != (1, 1):
        raise fail("A0932", f"the sizes of images cannot be left open: the windows of `{op.name}` depend on them")
    return g.types[0].spatial


def _equal_windows(sizes: tuple[int, ...], parts: tuple[int, ...]) -> dict[str, Any] | None:
    """Return the window attributes of an equivalent ordinary pool, or None if the parts differ in size."""
    if any(size % count for size, count in zip(sizes, parts, strict=True)):
        return None
    kernel = [size // count for size, count in zip(sizes, parts, strict=True)]
    return {"kernel_shape": kernel, "strides": kernel}


def _parts(size: int, parts: int) -> list[tuple[int, int]]:
    """Return the start and the end position of each part of an axis."""
    return [(i * size // parts, -(-(i + 1) * size // parts)) for i in range(parts)]


@lowers(ops.GlobalAvgPool)
def global_avg_pool(g: Builder, op: ops.GlobalAvgPool, x: str) -> str:
    """Lower the mean over all positions."""
    if g.types[0].rank == 2:
        return g.reduce("ReduceMean", x, 1)
    y = g.node("GlobalAveragePool", x)
    return y if op.keep else g.node("Flatten", y)


@lowers(ops.GlobalMaxPool)
def global_max_pool(g: Builder, op: ops.GlobalMaxPool, x: str) -> str:
    """Lower the maximum over all positions."""
    if g.types[0].rank == 2:
        return g.reduce("ReduceMax", x, 1)
    y = g.node("GlobalMaxPool", x)
    return y if op.keep else g.node("Flatten", y)


@lowers(ops.MeanOver)
def mean_over(g: Builder, op: ops.MeanOver, x: str) -> str:
    """Lower the mean over one axis."""
    return g.reduce("ReduceMean", x, op.axis if op.axis < 0 else op.axis + 1, keep=True)


@lowers(ops.SumOver)
def sum_over(g: Builder, op: ops.SumOver, x: str) -> str:
    """Lower the sum over one axis."""
    return g.reduce("ReduceSum", x, op.axis if op.axis < 0 else op.axis + 1, keep=True)


@lowers(ops.MaxOver)
def max_over(g: Builder, op: ops.MaxOver, x: str) -> str:
    """Lower the maximum over one axis."""
    return g.reduce("ReduceMax", x, op.axis if op.axis < 0 else op.axis + 1, keep=True)
