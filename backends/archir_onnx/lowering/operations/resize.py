"""Lowering of resizing."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from archir.ops import resize as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@lowers(ops.Resize)
def resize(g: Builder, op: ops.Resize, x: str) -> str:
    """Lower resizing: nearest-neighbour, antialiased, bilinear or bicubic."""
    if op.mode == "nearest":
        return _nearest(g, op, x)
    if op.antialias:
        return _antialiased(g, op, x)
    if not g.options.has_open_sizes:
        sizes = g.shape(g.type.shape, batch=True)
    elif (fixed_sizes := op.sizes(g.type.rank - 1)) is not None:
        sizes = g.node("Concat", g.node("Shape", x, end=2), g.constant([*fixed_sizes]), axis=0)
    else:
        sizes = g.node("Concat", g.node("Shape", x, end=2), _scale_sizes(g, g.spatial_size(x), op.ratio), axis=0)
    corners = "align_corners" if op.align_corners else "half_pixel"
    mode_attributes: dict[str, Any] = {"coordinate_transformation_mode": corners, "cubic_coeff_a": -0.75}
    return g.node("Resize", x, None, None, sizes, mode=_MODES[op.mode], **mode_attributes)


def _scale_sizes(g: Builder, sizes: str, ratio: tuple[int, int]) -> str:
    """Multiply sizes by a fraction, rounding down."""
    return g.node("Div", g.node("Mul", sizes, g.constant(ratio[0])), g.constant(ratio[1]))


def _nearest(g: Builder, op: ops.Resize, x: str) -> str:
    """Lower nearest-neighbour resizing with exact source positions.

    ONNX's `Resize` divides by factors and is exact only for integer ones, so other factors use `Gather`.
    """
    times, divisor = op.ratio
    if op.factor is not None and divisor == 1:
        scales = g.constant([1, 1, *[times] * (g.type.rank - 1)], np.float32)
        mode_attributes: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return g.node("Resize", x, None, scales, mode="nearest", **mode_attributes)
    for axis in range(2, g.type.rank + 1):
        x = g.node("Gather", x, _source_positions(g, op, x, axis), axis=axis)
    return x


def _source_positions(g: Builder, op: ops.Resize, x: str, axis: int) -> str:
    """Return the index of the source pixel for each output pixel along an axis."""
    if not g.options.has_open_sizes:
        before, after = g.types[0].shape[axis - 1], g.type.shape[axis - 1]
        return g.constant(np.arange(after) * before // after)
    size, count = _lengths(g, op, x, axis)
    return g.node("Div", g.node("Mul", g.node("Range", g.constant(0), count, g.constant(1)), size), count)


def _lengths(g: Builder, op: ops.Resize, x: str, axis: int) -> tuple[str, str]:
    """Return the length of an axis before and after resizing."""
    size = g.node("Squeeze", g.node("Shape", x, start=axis, end=axis + 1))
    fixed_sizes = op.sizes(g.type.rank - 1)
    return size, _scale_sizes(g, size, op.ratio) if fixed_sizes is None else g.constant(fixed_sizes[axis - 2])


def _antialiased(g: Builder, op: ops.Resize, x: str) -> str:
    """Lower antialiased resizing, one axis after the other.

    The triangle filter has the width of an output pixel. onnxruntime's own `antialias` differs from torch and Pillow.
    """
    rows, columns = (_filter_weights(g, op, x, axis) for axis in (2, 3))
    return g.node("MatMul", rows, g.node("MatMul", x, g.node("Transpose", columns, perm=[1, 0])))


def _filter_weights(g: Builder, op: ops.Resize, x: str, axis: int) -> str:
    """Return the matrix of filter weights along an axis, [size after, size before]."""
    if not g.options.has_open_sizes:
        before, after = g.types[0].shape[axis - 1], g.type.shape[axis - 1]
        step = before / after
        offsets = (np.arange(before) + 0.5)[None, :] - (step * (np.arange(after) + 0.5))[:, None]
        weights = np.maximum(0, 1 - np.abs(offsets) / max(step, 1))
        return g.number(weights / weights.sum(1, keepdims=True))
    size, count = _lengths(g, op, x, axis)
    scale = g.node("Div", _to_float(g, size), _to_float(g, count))
    centres = g.node("Unsqueeze", g.node("Mul", _pixel_centres(g, count), scale), g.constant([1]))
    filter_width = g.node("Max", scale, g.constant(1, np.float32))
    distances = g.node("Div", g.node("Abs", g.node("Sub", _pixel_centres(g, size), centres)), filter_width)
    heights = g.node("Relu", g.node("Sub", g.constant(1, np.float32), distances))
    shares = g.node("Div", heights, g.reduce("ReduceSum", heights, 1, keep=True))
    return g.node("Cast", shares, to=helper.np_dtype_to_tensor_dtype(np.dtype(g.options.dtype)))


def _pixel_centres(g: Builder, count: str) -> str:
    """Return the centres of `count` pixels along an axis: 0.5, 1.5, ..."""
    pixels = g.node("Range", g.constant(0), count, g.constant(1))
    return g.node("Add", _to_float(g, pixels), g.constant(0.5, np.float32))


def _to_float(g: Builder, number: str) -> str:
    """Cast a tensor to float32."""
    return g.node("Cast", number, to=TensorProto.FLOAT)


@lowers(ops.PixelShuffle)
def pixel_shuffle(g: Builder, op: ops.PixelShuffle, x: str) -> str:
    """Lower the rearrangement of channels into pixels."""
    return g.node("DepthToSpace", x, blocksize=op.factor, mode="CRD")


@lowers(ops.PixelUnshuffle)
def pixel_unshuffle(g: Builder, op: ops.PixelUnshuffle, x: str) -> str:
    """Lower the rearrangement of pixels into channels.

    ONNX's `SpaceToDepth` cannot be used alone: it orders the new channels with pixels outermost.
    """
    y = g.node("SpaceToDepth", x, blocksize=op.factor)
    reordered = g.transpose(g.reshape(y, op.factor**2, g.types[0].channels, -1), 0, 2, 1, 3)
    return g.reshape(reordered, *g.type.shape, like=y)
