"""Maps of other sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from archir.ops import resize as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@lowers(ops.Resize)
def resize(g: Builder, op: ops.Resize, x: str) -> str:
    if op.mode == "nearest":
        return _nearest(g, op, x)
    if not g.form.resizable:
        sizes = g.shape(g.type.shape, batch=True)
    elif op.sizes is not None:
        sizes = g.node("Concat", g.node("Shape", x, end=2), g.constant([*op.sizes]), axis=0)
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
        scales = g.constant([1, 1, times, times], np.float32)
        how: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return g.node("Resize", x, None, scales, mode="nearest", **how)
    for axis in (2, 3):
        x = g.node("Gather", x, _places(g, op, x, axis), axis=axis)
    return x


def _places(g: Builder, op: ops.Resize, x: str, axis: int) -> str:
    if not g.form.resizable:
        before, after = g.types[0].shape[axis - 1], g.type.shape[axis - 1]
        return g.constant(np.arange(after) * before // after)
    size = g.node("Squeeze", g.node("Shape", x, start=axis, end=axis + 1))
    count = _times(g, size, op.ratio) if op.sizes is None else g.constant(op.sizes[axis - 2])
    return g.node("Div", g.node("Mul", g.node("Range", g.constant(0), count, g.constant(1)), size), count)


@lowers(ops.PixelShuffle)
def pixel_shuffle(g: Builder, op: ops.PixelShuffle, x: str) -> str:
    return g.node("DepthToSpace", x, blocksize=op.factor, mode="CRD")


@lowers(ops.PixelUnshuffle)
def pixel_unshuffle(g: Builder, op: ops.PixelUnshuffle, x: str) -> str:
    """`SpaceToDepth` has the channels inside of the pixels."""
    y = g.node("SpaceToDepth", x, blocksize=op.factor)
    apart = g.transpose(g.reshape(y, op.factor**2, g.types[0].channels, -1), 0, 2, 1, 3)
    return g.reshape(apart, *g.type.shape, like=y)
