"""Lowering of data movement and of learned tensors."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from archir.ops import shape as ops
from archir_onnx.lowering.builder import END, Builder
from archir_onnx.lowering.rules import lowers


@lowers(ops.Reshape)
def reshape(g: Builder, op: ops.Reshape, x: str) -> str:
    """Lower a reshape of all axes except the batch axis."""
    return g.reshape(x, *op.shape)


@lowers(ops.Transpose)
def transpose(g: Builder, op: ops.Transpose, x: str) -> str:
    """Lower a permutation of all axes except the batch axis."""
    return g.transpose(x, 0, *(axis + 1 for axis in op.order(g.type.rank)))


@lowers(ops.Slice)
def slice_(g: Builder, op: ops.Slice, x: str) -> str:
    """Lower a slice of one axis."""
    axis, _, _ = op.bounds(g.types[0])
    return g.slice(x, axis + 1, op.start, op.stop if op.stop is not None else END)


@lowers(ops.FirstTokens)
def first_tokens(g: Builder, op: ops.FirstTokens, x: str, like: str) -> str:
    """Lower the slice of the first tokens, as many as the operand `like` has."""
    if not g.options.has_open_sizes:
        return g.slice(x, 1, 0, g.type.shape[0])
    return g.node("Slice", x, g.constant([0]), g.node("Shape", like, start=1, end=2), g.constant([1]))


@lowers(ops.Pad)
def pad(g: Builder, op: ops.Pad, x: str) -> str:
    """Lower zero padding."""
    pads = op.pads(g.types[0].rank - 1)
    return g.node("Pad", x, g.constant([0, 0, *pads[-2::-2], 0, 0, *pads[:0:-2]]), g.number(0))


@lowers(ops.ToTokens)
def to_tokens(g: Builder, op: ops.ToTokens, x: str) -> str:
    """Lower the conversion of a map to tokens [B, N, D]."""
    return g.transpose(g.reshape(x, g.type.channels, -1), 0, 2, 1)


@lowers(ops.ToMap)
def to_map(g: Builder, op: ops.ToMap, x: str) -> str:
    """Lower the conversion of tokens to a map.

    If the model accepts any image size and no height is given, the map is assumed to be square.
    """
    y = g.transpose(x, 0, 2, 1)
    if not g.options.has_open_sizes:
        return g.reshape(y, *g.type.shape)
    if op.height is not None:
        return g.reshape(y, g.type.channels, op.height, -1)
    tokens = g.node("Cast", g.node("Shape", x, start=1, end=2), to=TensorProto.FLOAT)
    side = g.node("Cast", g.node("Sqrt", tokens), to=TensorProto.INT64)
    return g.node("Reshape", y, g.node("Concat", g.constant([0, g.type.channels]), side, side, axis=0))


@lowers(ops.Flatten)
def flatten(g: Builder, op: ops.Flatten, x: str) -> str:
    """Lower the flattening of each sample to a vector."""
    return g.node("Flatten", x)


@lowers(ops.ChannelShuffle)
def channel_shuffle(g: Builder, op: ops.ChannelShuffle, x: str) -> str:
    """Lower a channel shuffle."""
    y = g.transpose(g.reshape(x, op.groups, g.type.channels // op.groups, -1), 0, 2, 1, 3)
    return g.reshape(y, *g.type.shape, like=x)


@lowers(ops.Upsample)
def upsample(g: Builder, op: ops.Upsample, x: str) -> str:
    """Lower nearest-neighbour upsampling by an integer factor."""
    scales = g.constant([1, 1, *(op.factor for _ in g.type.spatial)], np.float32)
    return g.node(
        "Resize", x, None, scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )


@lowers(ops.Parameter)
def parameter(g: Builder, op: ops.Parameter, *, value: str) -> str:
    """Lower a learned tensor that is stored with the network."""
    return g.expand_to_batch(value if op.trained else g.as_constant(value), op.shape)
