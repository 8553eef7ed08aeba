"""Element-wise ONNX operators, with one or several operands."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import OPERATORS, Operator, constant_number, onnx_operator


def _register_unary(name: str, function: Operator) -> None:
    """Register a torch function for a unary ONNX operator without attributes."""
    OPERATORS[name] = lambda x, **_: function(x)


for _name, _function in dict[str, Operator]({
    "Relu": F.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Exp": torch.exp, "Log": torch.log,
    "Sqrt": torch.sqrt, "Abs": torch.abs, "Neg": torch.neg, "Reciprocal": torch.reciprocal, "Erf": torch.erf,
    "Softplus": F.softplus, "Sin": torch.sin, "Cos": torch.cos, "HardSwish": F.hardswish, "Mish": F.mish,
    "Silu": F.silu, "Identity": lambda x: x,
    "Softsign": F.softsign, "Square": torch.square, "Floor": torch.floor, "Not": torch.logical_not,
}).items():  # fmt: skip
    _register_unary(_name, _function)


@onnx_operator("Dropout")
def dropout(x: Tensor, *_: Any, **attributes: Any) -> Tensor:
    """Return the operand: dropout has no effect in evaluation."""
    return x


@onnx_operator("Elu")
def elu(x: Tensor, alpha: float = 1.0, **_: Any) -> Tensor:
    """Return x where it is positive, and alpha * (exp(x) - 1) elsewhere."""
    return F.elu(x, alpha)


@onnx_operator("LeakyRelu")
def leaky_relu(x: Tensor, alpha: float = 0.01, **_: Any) -> Tensor:
    """Return x where it is positive, and alpha * x elsewhere."""
    return F.leaky_relu(x, alpha)


@onnx_operator("Gelu")
def gelu(x: Tensor, approximate: str = "none", **_: Any) -> Tensor:
    """Return x times the standard normal cumulative distribution function of x."""
    return F.gelu(x, approximate=approximate)


@onnx_operator("HardSigmoid")
def hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5, **_: Any) -> Tensor:
    """Return alpha * x + beta, clamped to the range from 0 to 1."""
    if abs(alpha - 1 / 6) < 1e-6 and abs(beta - 0.5) < 1e-6:
        return F.hardsigmoid(x)
    return torch.clamp(x * alpha + beta, 0.0, 1.0)


@onnx_operator("PRelu")
def prelu(x: Tensor, slope: Tensor, **_: Any) -> Tensor:
    """Return x where it is positive, and x times a trained slope elsewhere."""
    return F.prelu(x, slope.reshape(-1))


@onnx_operator("Clip")
def clip(x: Tensor, low: Any = None, high: Any = None, **attributes: Any) -> Tensor:
    """Clamp to an optional lower and upper bound."""
    bounds = [
        attributes.get(name) if bound is None else constant_number(bound)
        for name, bound in (("min", low), ("max", high))
    ]
    if bounds == [0.0, 6.0]:
        return F.relu6(x)
    return torch.clamp(x, *bounds)


_TYPES = {
    1: torch.float32,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float32,
    11: torch.float32,
    16: torch.float32,
}
"""Torch dtype by ONNX element type; all floating-point types become float32."""


@onnx_operator("Cast")
def cast(x: Tensor, to: int = 1, **_: Any) -> Tensor:
    """Convert to another element type."""
    if to not in _TYPES:
        raise RuleError(f"conversion to ONNX's element type {to} is not supported")
    return x if _TYPES[to] == x.dtype else x.to(_TYPES[to])


@onnx_operator("Softmax", "LogSoftmax")
def softmax(x: Tensor, axis: int | None = None, version: int = 13, **attributes: Any) -> Tensor:
    """Apply softmax or log-softmax.

    Before operator set 13, the operators normalize over all axes from `axis` on together; from 13 on, over the single
    axis `axis`.
    """
    function = F.log_softmax if attributes["named"] == "LogSoftmax" else F.softmax
    if version >= 13:
        return function(x, -1 if axis is None else axis)
    first = (1 if axis is None else axis) % x.dim()
    if all(size == 1 for size in x.shape[first + 1 :]):
        return function(x, first)
    if first == x.dim() - 1:
        return function(x, -1)
    return function(x.flatten(first), -1).reshape(x.shape)


# several tensors


def _binary(function: Operator) -> Operator:
    """Return the function of an operator that has two operands and no attributes."""
    return lambda a, b, **_: function(a, b)


for _name, _binary_function in dict[str, Operator]({
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Equal": torch.eq, "Greater": torch.gt,
    "Less": torch.lt, "GreaterOrEqual": torch.ge, "LessOrEqual": torch.le, "And": torch.logical_and,
    "Or": torch.logical_or,
}).items():  # fmt: skip
    OPERATORS[_name] = _binary(_binary_function)


@onnx_operator("Pow")
def power(x: Tensor, exponent: Any, **_: Any) -> Tensor:
    """Raise to a constant exponent."""
    power = constant_number(exponent)
    return torch.square(x) if power == 2 else torch.pow(x, power)


@onnx_operator("Sum")
def sum_(first: Tensor, *others: Tensor, **_: Any) -> Tensor:
    """Add up tensors one after the other."""
    for other in others:
        first = first + other
    return first


@onnx_operator("Max", "Min")
def max_or_min(*xs: Tensor, named: str = "Max", **_: Any) -> Tensor:
    """Return the element-wise maximum or minimum of tensors."""
    result: Tensor = xs[0]
    for other in xs[1:]:
        result = (torch.maximum if named == "Max" else torch.minimum)(result, other)
    return result


@onnx_operator("Where")
def where(mask: Tensor, a: Tensor, b: Tensor, **_: Any) -> Tensor:
    """Return `a` where the mask is true, and `b` elsewhere."""
    return torch.where(mask, a, b)
