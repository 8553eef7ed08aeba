"""Maps of other sizes."""

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
    if op.mode == "nearest":
        return _nearest(g, op, x)
    if op.antialias:
        return _smoothed(g, op, x)
    if not g.form.resizable:
        sizes = g.shape(g.type.shape, batch=True)
    elif (told := op.sizes(g.type.rank - 1)) is not None:
        sizes = g.node("Concat", g.node("Shape", x, end=2), g.constant([*told]), axis=0)
    else:
        sizes = g.node("Concat", g.node("Shape", x, end=2), _times(g, g.sizes(x), op.ratio), axis=0)
    corners = "align_corners" if op.align_corners else "half_pixel"
    how: dict[str, Any] = {"coordinate_transformation_mode": corners, "cubic_coeff_a": -0.75}
    return g.node("Resize", x, None, None, sizes, mode=_MODES[op.mode], **how)


def _times(g: Builder, sizes: str, ratio: tuple[int, int]) -> str:
    """Sizes times a fraction, rounded down."""
    return g.node("Div", g.node("Mul", sizes, g.constant(ratio[0])), g.constant(ratio[1]))


def _nearest(g: Builder, op: ops.Resize, x: str) -> str:
    """The pixels that are taken, exactly: `Resize` divides by factors, and is exact for whole ones alone."""
    times, over = op.ratio
    if op.factor is not None and over == 1:
        scales = g.constant([1, 1, *[times] * (g.type.rank - 1)], np.float32)
        how: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return g.node("Resize", x, None, scales, mode="nearest", **how)
    for axis in range(2, g.type.rank + 1):
        x = g.node("Gather", x, _places(g, op, x, axis), axis=axis)
    return x


def _places(g: Builder, op: ops.Resize, x: str, axis: int) -> str:
    if not g.form.resizable:
        before, after = g.types[0].shape[axis - 1], g.type.shape[axis - 1]
        return g.constant(np.arange(after) * before // after)
    size, count = _lengths(g, op, x, axis)
    return g.node("Div", g.node("Mul", g.node("Range", g.constant(0), count, g.constant(1)), size), count)


def _lengths(g: Builder, op: ops.Resize, x: str, axis: int) -> tuple[str, str]:
    """How long an axis is, and how long it becomes."""
    size = g.node("Squeeze", g.node("Shape", x, start=axis, end=axis + 1))
    told = op.sizes(g.type.rank - 1)
    return size, _times(g, size, op.ratio) if told is None else g.constant(told[axis - 2])


def _smoothed(g: Builder, op: ops.Resize, x: str) -> str:
    """Means by triangles as wide as what a pixel covers, along one axis and then the other: onnxruntime's own
    `antialias` computes something else than torch and Pillow do."""
    rows, columns = (_triangles(g, op, x, axis) for axis in (2, 3))
    return g.node("MatMul", rows, g.node("MatMul", x, g.node("Transpose", columns, perm=[1, 0])))


def _triangles(g: Builder, op: ops.Resize, x: str, axis: int) -> str:
    """The weights [after, before] of pixels along an axis in those of the result."""
    if not g.form.resizable:
        before, after = g.types[0].shape[axis - 1], g.type.shape[axis - 1]
        step = before / after
        apart = (np.arange(before) + 0.5)[None, :] - (step * (np.arange(after) + 0.5))[:, None]
        weights = np.maximum(0, 1 - np.abs(apart) / max(step, 1))
        return g.number(weights / weights.sum(1, keepdims=True))
    size, count = _lengths(g, op, x, axis)
    scale = g.node("Div", _real(g, size), _real(g, count))
    middles = g.node("Unsqueeze", g.node("Mul", _middles(g, count), scale), g.constant([1]))
    wide = g.node("Max", scale, g.constant(1, np.float32))
    far = g.node("Div", g.node("Abs", g.node("Sub", _middles(g, size), middles)), wide)
    heights = g.node("Relu", g.node("Sub", g.constant(1, np.float32), far))
    shares = g.node("Div", heights, g.reduce("ReduceSum", heights, 1, keep=True))
    return g.node("Cast", shares, to=helper.np_dtype_to_tensor_dtype(np.dtype(g.form.dtype)))


def _middles(g: Builder, count: str) -> str:
    """The middles of so many pixels."""
    pixels = g.node("Range", g.constant(0), count, g.constant(1))
    return g.node("Add", _real(g, pixels), g.constant(0.5, np.float32))


def _real(g: Builder, number: str) -> str:
    return g.node("Cast", number, to=TensorProto.FLOAT)


@lowers(ops.PixelShuffle)
def pixel_shuffle(g: Builder, op: ops.PixelShuffle, x: str) -> str:
    return g.node("DepthToSpace", x, blocksize=op.factor, mode="CRD")


@lowers(ops.PixelUnshuffle)
def pixel_unshuffle(g: Builder, op: ops.PixelUnshuffle, x: str) -> str:
    """`SpaceToDepth` has the channels inside of the pixels."""
    y = g.node("SpaceToDepth", x, blocksize=op.factor)
    apart = g.transpose(g.reshape(y, op.factor**2, g.types[0].channels, -1), 0, 2, 1, 3)
    return g.reshape(apart, *g.type.shape, like=y)
