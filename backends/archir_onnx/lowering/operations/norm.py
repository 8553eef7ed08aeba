"""Lowering of normalisation layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from archir.ops import norm as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import OPERATOR_OPSETS, lowers


def _weight_or_constant(g: Builder, weight: str | None, size: int, value: float) -> str:
    """Return a weight or, if the layer does not have this weight, a constant tensor of `size` equal values."""
    return weight if weight is not None else g.number(np.full(size, value))


def _scale_or_ones(g: Builder, weight: str | None) -> str:
    """Return the layer's scale or, if the layer has none, a `Constant` node of ones.

    A `Constant` node is used instead of an initializer so that importers of the model recognise that the layer has no
    scale.
    """
    if weight is not None:
        return weight
    ones = numpy_helper.from_array(np.ones(g.type.channels, g.options.dtype))
    return g.node("Constant", value=ones)


@lowers(ops.BatchNorm)
def batch_norm(
    g: Builder,
    op: ops.BatchNorm,
    x: str,
    *,
    running_mean: str,
    running_var: str,
    weight: str | None = None,
    bias: str | None = None,
) -> str:
    """Lower batch normalisation."""
    channels = g.type.channels
    scale, shift = _weight_or_constant(g, weight, channels, 1), _weight_or_constant(g, bias, channels, 0)
    if g.type.rank == 2:
        x = g.transpose(x, 0, 2, 1)
    momentum: dict[str, Any] = {} if op.momentum == 0.1 else {"momentum": 1 - op.momentum}
    y = g.node("BatchNormalization", x, scale, shift, running_mean, running_var, epsilon=op.eps, **momentum)
    return g.transpose(y, 0, 2, 1) if g.type.rank == 2 else y


@lowers(ops.LayerNorm)
def layer_norm(g: Builder, op: ops.LayerNorm, x: str, *, weight: str | None = None, bias: str | None = None) -> str:
    """Lower layer normalisation over the features."""
    x = _features_last(g, x)
    y = g.node("LayerNormalization", x, _scale_or_ones(g, weight), bias, axis=-1, epsilon=op.eps)
    return _features_first(g, y)


@lowers(ops.RmsNorm, since=23)
def rms_norm(g: Builder, op: ops.RmsNorm, x: str, *, weight: str | None = None) -> str:
    """Lower RMS normalisation.

    Before opset 23, which introduced the operator, it is composed of elementary operators.
    """
    x = _features_last(g, x)
    if g.opset >= OPERATOR_OPSETS[ops.RmsNorm]:
        return _features_first(g, g.node("RMSNormalization", x, _scale_or_ones(g, weight), axis=-1, epsilon=op.eps))
    scale = _weight_or_constant(g, weight, g.type.channels, 1)
    # squares and `eps` are beyond float16
    wide = x if g.options.precision == "float32" else g.node("Cast", x, to=TensorProto.FLOAT)
    mean = g.reduce("ReduceMean", g.node("Mul", wide, wide), -1, keep=True)
    y = g.node("Div", wide, g.node("Sqrt", g.node("Add", mean, g.constant(op.eps, np.float32))))
    return _features_first(g, g.node("Mul", y if wide == x else g.node("CastLike", y, x), scale))


def _features_last(g: Builder, x: str) -> str:
    """Transpose a map or a volume so that its channels are last, as in tokens."""
    rank = g.type.rank
    return g.transpose(x, 0, *range(2, rank + 1), 1) if rank > 2 else x


def _features_first(g: Builder, x: str) -> str:
    """Transpose a map or a volume back to channels first."""
    rank = g.type.rank
    return g.transpose(x, 0, rank, *range(1, rank)) if rank > 2 else x


@lowers(ops.GroupNorm, since=21)
def group_norm(g: Builder, op: ops.GroupNorm, x: str, *, weight: str | None = None, bias: str | None = None) -> str:
    """Lower group normalisation; before opset 21, it becomes instance normalisation over groups."""
    channels = g.type.channels
    scale, shift = _weight_or_constant(g, weight, channels, 1), _weight_or_constant(g, bias, channels, 0)
    if g.opset >= OPERATOR_OPSETS[ops.GroupNorm]:
        return g.node("GroupNormalization", x, scale, shift, num_groups=op.groups, epsilon=op.eps)
    ones, zeros = g.number(np.ones(op.groups)), g.number(np.zeros(op.groups))
    y = g.node("InstanceNormalization", g.reshape(x, op.groups, -1), ones, zeros, epsilon=op.eps)
    y = g.reshape(y, *g.type.shape, like=x)
    column = g.constant([1, -1, *(1 for _ in g.type.spatial)])
    return g.node("Add", g.node("Mul", y, g.node("Reshape", scale, column)), g.node("Reshape", shift, column))


@lowers(ops.InstanceNorm)
def instance_norm(
    g: Builder, op: ops.InstanceNorm, x: str, *, weight: str | None = None, bias: str | None = None
) -> str:
    """Lower instance normalisation."""
    channels = g.type.channels
    scale, shift = _weight_or_constant(g, weight, channels, 1), _weight_or_constant(g, bias, channels, 0)
    if g.type.rank == 2:
        x = g.transpose(x, 0, 2, 1)
    y = g.node("InstanceNormalization", x, scale, shift, epsilon=op.eps)
    return g.transpose(y, 0, 2, 1) if g.type.rank == 2 else y


@lowers(ops.Normalize)
def normalize(g: Builder, op: ops.Normalize, x: str) -> str:
    """Lower division by the L2 norm along an axis."""
    # squares and `eps` are beyond float16
    wide = x if g.options.precision == "float32" else g.node("Cast", x, to=TensorProto.FLOAT)
    length = g.reduce("ReduceL2", wide, op.resolved_axis(g.type) + 1, keep=True)
    y = g.node("Div", wide, g.node("Max", length, g.constant(op.eps, np.float32)))
    return y if wide == x else g.node("CastLike", y, x)
