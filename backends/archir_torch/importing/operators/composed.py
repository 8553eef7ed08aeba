"""Import of torch operators that become several archir operations."""

from __future__ import annotations

from typing import Any

from archir.ops import activation as unary
from archir.ops import pool
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Unsupported, Value
from archir_torch.importing.operators.elementwise import Operand, add, apply_unary, div, minimum, mul, neg, power, sub
from archir_torch.importing.operators.movement import chunk, squeeze, unsqueeze
from archir_torch.importing.operators.pooling import amax, axes_of, mean, reduce_axes, resize_map
from archir_torch.importing.rules import torch_operator

MAX_FINITE = 3e38
"""Clamping bound near the largest finite float32."""


@torch_operator("glu")
def glu(b: Builder, x: Value, dim: int = -1) -> Value:
    """Import a GLU: one half of the axis, multiplied by the sigmoid of the other half."""
    half, gate = chunk(b, x, 2, dim)
    return mul(b, half, apply_unary(b, unary.Sigmoid(), gate))


@torch_operator("log_sigmoid")
def log_sigmoid(b: Builder, x: Value) -> Value:
    return neg(b, apply_unary(b, unary.Softplus(), neg(b, x)))


@torch_operator("softsign")
def softsign(b: Builder, x: Value) -> Value:
    return div(b, x, add(b, apply_unary(b, unary.Abs(), x), 1))


@torch_operator("expm1")
def expm1(b: Builder, x: Value) -> Value:
    return add(b, apply_unary(b, unary.Exp(), x), -1)


@torch_operator("log1p")
def log1p(b: Builder, x: Value) -> Value:
    return apply_unary(b, unary.Log(), add(b, x, 1))


@torch_operator("logsumexp")
def logsumexp(b: Builder, x: Value, dim: Any, keepdim: bool = False) -> Value:
    """Import the logarithm of a sum of exponentials.

    The maximum is subtracted first, so that no exponential overflows. The subtracted maximum is clamped to finite
    numbers.
    """
    peak = apply_unary(b, unary.Clamp(-MAX_FINITE, MAX_FINITE), amax(b, x, dim, True))
    powers = apply_unary(b, unary.Exp(), sub(b, x, peak))
    total = reduce_axes(b, powers, axes_of(x, dim), True, None, pool.SumOver)
    result = add(b, apply_unary(b, unary.Log(), total), peak)
    return result if keepdim else squeeze(b, result, axes_of(x, dim))


@torch_operator("lerp")
def lerp(b: Builder, x: Operand, y: Operand, weight: Operand) -> Value:
    """Import x + weight * (y - x)."""
    return add(b, x, mul(b, sub(b, y, x), weight))


@torch_operator("addcdiv")
def addcdiv(b: Builder, x: Operand, tensor1: Operand, tensor2: Operand, value: float = 1) -> Value:
    """Import x + value * tensor1 / tensor2."""
    return add(b, x, div(b, tensor1, tensor2), value)


@torch_operator("amin")
def amin(b: Builder, x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    """Import minima along axes."""
    return neg(b, amax(b, neg(b, x), dim, keepdim))


@torch_operator("min")
def min_(b: Builder, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Import the element-wise minimum of two tensors, or minima along an axis (without their positions)."""
    if isinstance(dim, Value | Constant) or not isinstance(x, Value):
        return minimum(b, x, dim)
    return [amin(b, x, dim, keepdim), None]


@torch_operator("var")
def var(
    b: Builder, x: Value, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **named: Any
) -> Value:  # fmt: skip
    """Import the variance along axes. By default, torch divides by the count minus 1."""
    correction = named.get("correction", unbiased)
    degrees = 1 if correction is None else int(correction)
    axes = [axis % len(x.axes) for axis in axes_of(x, dim)]
    difference = sub(b, x, mean(b, x, axes, True))
    result = mean(b, apply_unary(b, unary.Power(2.0), difference), axes, keepdim)
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    if count <= degrees:
        raise Unsupported("a variance of too few numbers")
    return mul(b, result, count / (count - degrees)) if degrees else result


@torch_operator("std")
def std(b: Builder, x: Value, *args: Any, **named: Any) -> Value:
    """Import the standard deviation along axes."""
    return power(b, var(b, x, *args, **named), 0.5)


@torch_operator("var_mean")
def var_mean(
    b: Builder, x: Value, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **named: Any
) -> list[Value]:  # fmt: skip
    """Import the variance and mean along axes."""
    return [var(b, x, dim, unbiased, keepdim, **named), mean(b, x, axes_of(x, dim), keepdim)]


@torch_operator("cosine_similarity")
def cosine_similarity(b: Builder, x: Value, y: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    """Import the cosine similarity: the dot product over the vectors' lengths, each of which is at least `eps`."""
    lengths = []
    for operand in (x, y):
        squares = reduce_axes(b, power(b, operand, 2), [dim], False, None, pool.SumOver)
        lengths.append(apply_unary(b, unary.Clamp(eps, None), power(b, squares, 0.5)))
    dot = reduce_axes(b, mul(b, x, y), [dim], False, None, pool.SumOver)
    return div(b, dot, mul(b, *lengths))


def _as_one_column(b: Builder, x: Value) -> Value:
    """Return tokens [B, C, N] as a feature map [B, C, N, 1]."""
    if len(x.axes) != 3:
        raise Unsupported(f"resizing of tokens with the shape {list(x.shape)}")
    return unsqueeze(b, x, 3)


@torch_operator("upsample_nearest1d")
def upsample_nearest1d(b: Builder, x: Value, size: Any = None, scales: Any = None, *_: Any) -> Value:
    """Import nearest-neighbour resizing of tokens."""
    length = size[0] if size is not None else int(x.shape[2] * scales[0])
    return squeeze(b, resize_map(b, _as_one_column(b, x), (length, 1), None, "nearest", False), 3)


@torch_operator("upsample_linear1d")
def upsample_linear1d(b: Builder, x: Value, size: Any, align_corners: bool, scales: Any = None, *_: Any) -> Value:
    """Import linear resizing of tokens."""
    length = size[0] if size is not None else int(x.shape[2] * scales[0])
    return squeeze(b, resize_map(b, _as_one_column(b, x), (length, 1), None, "bilinear", align_corners), 3)
