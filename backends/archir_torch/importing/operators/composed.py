"""Operators that are several operations of archir's."""

from __future__ import annotations

from typing import Any

from archir.ops import activation as unary
from archir.ops import pool
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Unsupported, Value
from archir_torch.importing.operators.elementwise import Operand, add, div, mapped, minimum, mul, neg, power, sub
from archir_torch.importing.operators.movement import chunk, squeeze, unsqueeze
from archir_torch.importing.operators.pooling import axes_of, largest, mean, over, resized
from archir_torch.importing.rules import understands

LARGEST = 3e38
"""Near the largest number of 32 bits."""


@understands("glu")
def glu(b: Builder, x: Value, dim: int = -1) -> Value:
    """One half, gated by the other."""
    half, gate = chunk(b, x, 2, dim)
    return mul(b, half, mapped(b, unary.Sigmoid(), gate))


@understands("log_sigmoid")
def log_sigmoid(b: Builder, x: Value) -> Value:
    return neg(b, mapped(b, unary.Softplus(), neg(b, x)))


@understands("softsign")
def softsign(b: Builder, x: Value) -> Value:
    return div(b, x, add(b, mapped(b, unary.Abs(), x), 1))


@understands("expm1")
def expm1(b: Builder, x: Value) -> Value:
    return add(b, mapped(b, unary.Exp(), x), -1)


@understands("log1p")
def log1p(b: Builder, x: Value) -> Value:
    return mapped(b, unary.Log(), add(b, x, 1))


@understands("logsumexp")
def logsumexp(b: Builder, x: Value, dim: Any, keepdim: bool = False) -> Value:
    """Of numbers that are at most 0, so that none of their powers is too large; infinities have a finite number taken
    away, not themselves."""
    most = mapped(b, unary.Clamp(-LARGEST, LARGEST), largest(b, x, dim, True))
    powers = mapped(b, unary.Exp(), sub(b, x, most))
    total = over(b, powers, axes_of(x, dim), True, None, pool.SumOver)
    made = add(b, mapped(b, unary.Log(), total), most)
    return made if keepdim else squeeze(b, made, axes_of(x, dim))


@understands("lerp")
def lerp(b: Builder, x: Operand, y: Operand, weight: Operand) -> Value:
    return add(b, x, mul(b, sub(b, y, x), weight))


@understands("addcdiv")
def addcdiv(b: Builder, x: Operand, one: Operand, other: Operand, value: float = 1) -> Value:
    return add(b, x, div(b, one, other), value)


@understands("amin")
def smallest(b: Builder, x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    return neg(b, largest(b, neg(b, x), dim, keepdim))


@understands("min")
def least(b: Builder, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if isinstance(dim, Value | Constant) or not isinstance(x, Value):
        return minimum(b, x, dim)
    return [smallest(b, x, dim, keepdim), None]


@understands("var")
def variance(
    b: Builder, x: Value, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **named: Any
) -> Value:  # fmt: skip
    """The mean of squared differences from the mean; torch divides by one number fewer, if nothing else is said."""
    given = named.get("correction", unbiased)
    fewer = 1 if given is None else int(given)
    at = [one % len(x.axes) for one in axes_of(x, dim)]
    apart = sub(b, x, mean(b, x, at, True))
    made = mean(b, mapped(b, unary.Power(2.0), apart), at, keepdim)
    count = 1
    for one in at:
        count *= x.shape[one]
    if count <= fewer:
        raise Unsupported("a variance of a single number")
    return mul(b, made, count / (count - fewer)) if fewer else made


@understands("std")
def deviation(b: Builder, x: Value, *args: Any, **named: Any) -> Value:
    return power(b, variance(b, x, *args, **named), 0.5)


@understands("var_mean")
def variance_and_mean(
    b: Builder, x: Value, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **named: Any
) -> list[Value]:  # fmt: skip
    return [variance(b, x, dim, unbiased, keepdim, **named), mean(b, x, axes_of(x, dim), keepdim)]


@understands("cosine_similarity")
def cosine_similarity(b: Builder, x: Value, y: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    """The product of two directions."""
    lengths = []
    for one in (x, y):
        squares = over(b, power(b, one, 2), [dim], False, None, pool.SumOver)
        lengths.append(mapped(b, unary.Clamp(eps, None), power(b, squares, 0.5)))
    both = over(b, mul(b, x, y), [dim], False, None, pool.SumOver)
    return div(b, both, mul(b, *lengths))


def _beside_one(b: Builder, x: Value) -> Value:
    """Tokens [B, C, N] as a map [B, C, N, 1]."""
    if len(x.axes) != 3:
        raise Unsupported(f"tokens that are resized, of {list(x.shape)}")
    return unsqueeze(b, x, 3)


@understands("upsample_nearest1d")
def nearest(b: Builder, x: Value, size: Any = None, scales: Any = None, *_: Any) -> Value:
    length = size[0] if size is not None else int(x.shape[2] * scales[0])
    return squeeze(b, resized(b, _beside_one(b, x), (length, 1), None, "nearest", False), 3)


@understands("upsample_linear1d")
def linear(b: Builder, x: Value, size: Any, align_corners: bool, scales: Any = None, *_: Any) -> Value:
    length = size[0] if size is not None else int(x.shape[2] * scales[0])
    return squeeze(b, resized(b, _beside_one(b, x), (length, 1), None, "bilinear", align_corners), 3)
