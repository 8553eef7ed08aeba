"""Operators that compute each number by itself, of one tensor or of several."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from archir_torch.importing.calls.operators.registry import OPERATORS, Operator, number, operator


def _simple(name: str, function: Operator) -> None:
    OPERATORS[name] = lambda x, **_: function(x)


for _name, _function in dict[str, Operator]({
    "Relu": F.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Exp": torch.exp, "Log": torch.log,
    "Sqrt": torch.sqrt, "Abs": torch.abs, "Neg": torch.neg, "Reciprocal": torch.reciprocal, "Erf": torch.erf,
    "Softplus": F.softplus, "Sin": torch.sin, "Cos": torch.cos, "HardSwish": F.hardswish, "Mish": F.mish,
    "Silu": F.silu, "Identity": lambda x: x,
    "Softsign": F.softsign, "Square": torch.square, "Floor": torch.floor, "Not": torch.logical_not,
}).items():  # fmt: skip
    _simple(_name, _function)


@operator("Dropout")
def dropout(x: Tensor, *_: Any, **given: Any) -> Tensor:
    """Nothing, in evaluation."""
    return x


@operator("Elu")
def elu(x: Tensor, alpha: float = 1.0, **_: Any) -> Tensor:
    """x where positive, alpha (exp(x) - 1) elsewhere."""
    return F.elu(x, alpha)


@operator("LeakyRelu")
def leaky_relu(x: Tensor, alpha: float = 0.01, **_: Any) -> Tensor:
    """x where positive, alpha x elsewhere."""
    return F.leaky_relu(x, alpha)


@operator("Gelu")
def gelu(x: Tensor, approximate: str = "none", **_: Any) -> Tensor:
    """x times the normal distribution function."""
    return F.gelu(x, approximate=approximate)


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5, **_: Any) -> Tensor:
    """A line cut at 0 and at 1."""
    if abs(alpha - 1 / 6) < 1e-6 and abs(beta - 0.5) < 1e-6:
        return F.hardsigmoid(x)
    return torch.clamp(x * alpha + beta, 0.0, 1.0)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor, **_: Any) -> Tensor:
    """A slope, learned, where x is negative."""
    return F.prelu(x, slope.reshape(-1))


@operator("Clip")
def clip(x: Tensor, low: Any = None, high: Any = None, **given: Any) -> Tensor:
    """Between two numbers."""
    bounds = [given.get(name) if one is None else number(one) for name, one in (("min", low), ("max", high))]
    if bounds == [0.0, 6.0]:
        return F.relu6(x)
    return torch.clamp(x, *bounds)


@operator("Cast")
def cast(x: Tensor, to: int = 1, **_: Any) -> Tensor:
    """Numbers of another type."""
    types = {1: torch.float32, 10: torch.float32, 11: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool}
    return x if types[to] == x.dtype else x.to(types[to])


@operator("Softmax", "LogSoftmax")
def softmax(x: Tensor, axis: int | None = None, version: int = 13, **given: Any) -> Tensor:
    """Of all axes from one on before version 13, of one axis since."""
    function = F.log_softmax if given["named"] == "LogSoftmax" else F.softmax
    if version >= 13:
        return function(x, -1 if axis is None else axis)
    first = (1 if axis is None else axis) % x.dim()
    if all(size == 1 for size in x.shape[first + 1 :]):
        return function(x, first)
    if first == x.dim() - 1:
        return function(x, -1)
    return function(x.flatten(first), -1).reshape(x.shape)


# several tensors


def _both(function: Operator) -> Operator:
    return lambda a, b, **_: function(a, b)


for _name, _both_of in dict[str, Operator]({
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Equal": torch.eq, "Greater": torch.gt,
    "Less": torch.lt, "GreaterOrEqual": torch.ge, "LessOrEqual": torch.le, "And": torch.logical_and,
    "Or": torch.logical_or,
}).items():  # fmt: skip
    OPERATORS[_name] = _both(_both_of)


@operator("Pow")
def power(x: Tensor, exponent: Any, **_: Any) -> Tensor:
    """To a number that is known."""
    power = number(exponent)
    return torch.square(x) if power == 2 else torch.pow(x, power)


@operator("Sum")
def summed(first: Tensor, *others: Tensor, **_: Any) -> Tensor:
    """One after the other."""
    for other in others:
        first = first + other
    return first


@operator("Max", "Min")
def extremes(*xs: Tensor, named: str = "Max", **_: Any) -> Tensor:
    """The largest or the smallest of each."""
    found: Tensor = xs[0]
    for other in xs[1:]:
        found = (torch.maximum if named == "Max" else torch.minimum)(found, other)
    return found


@operator("Where")
def where(mask: Tensor, a: Tensor, b: Tensor, **_: Any) -> Tensor:
    """One or the other."""
    return torch.where(mask, a, b)
