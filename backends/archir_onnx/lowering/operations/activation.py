"""Lowering of element-wise functions and softmax."""

from __future__ import annotations

from math import inf

import numpy as np

from archir.ir.op import Op
from archir.ops import activation as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import OPERATOR_OPSETS, lowers

_OPERATORS: dict[type[Op], str] = {
    ops.Relu: "Relu",
    ops.Elu: "Elu",
    ops.Softplus: "Softplus",
    ops.HardSwish: "HardSwish",
    ops.Sigmoid: "Sigmoid",
    ops.Tanh: "Tanh",
    ops.Exp: "Exp",
    ops.Log: "Log",
    ops.Sqrt: "Sqrt",
    ops.Abs: "Abs",
    ops.Sin: "Sin",
    ops.Cos: "Cos",
}
"""ONNX operator by operation, for functions without attributes."""


@lowers(*_OPERATORS)
def elementwise(g: Builder, op: Op, x: str) -> str:
    """Lower a function without attributes to its ONNX operator."""
    return g.node(_OPERATORS[type(op)], x)


@lowers(ops.Mish, since=18)
def mish(g: Builder, op: ops.Mish, x: str) -> str:
    """Lower Mish; before opset 18, which introduced the operator, it is composed of elementary operators."""
    if g.opset >= OPERATOR_OPSETS[ops.Mish]:
        return g.node("Mish", x)
    return g.node("Mul", x, g.node("Tanh", g.node("Softplus", x)))


@lowers(ops.Relu6)
def relu6(g: Builder, op: ops.Relu6, x: str) -> str:
    """Lower ReLU6 to `Clip`."""
    return g.node("Clip", x, g.number(0), g.number(6))


@lowers(ops.LeakyRelu)
def leaky_relu(g: Builder, op: ops.LeakyRelu, x: str) -> str:
    """Lower leaky ReLU."""
    return g.node("LeakyRelu", x, alpha=op.slope)


@lowers(ops.Gelu, since=20)
def gelu(g: Builder, op: ops.Gelu, x: str) -> str:
    """Lower GELU; before opset 20, which introduced the operator, it is composed of elementary operators."""
    if g.opset >= OPERATOR_OPSETS[ops.Gelu]:
        return g.node("Gelu", x, approximate="tanh" if op.approximate else "none")
    if op.approximate:
        cubic = g.node("Mul", g.node("Mul", g.node("Mul", x, x), x), g.number(0.044715))
        inner = g.node("Tanh", g.node("Mul", g.node("Add", x, cubic), g.number((2 / np.pi) ** 0.5)))
    else:
        inner = g.node("Erf", g.node("Div", x, g.number(2**0.5)))
    return g.node("Mul", g.node("Mul", x, g.node("Add", inner, g.number(1))), g.number(0.5))


@lowers(ops.Silu)
def silu(g: Builder, op: ops.Silu, x: str) -> str:
    """Lower SiLU as x * sigmoid(x): `Swish` is standard from opset 24 on, but onnxruntime has no kernel for it."""
    return g.node("Mul", x, g.node("Sigmoid", x))


@lowers(ops.HardSigmoid)
def hard_sigmoid(g: Builder, op: ops.HardSigmoid, x: str) -> str:
    """Lower hard sigmoid."""
    return g.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@lowers(ops.Power)
def power(g: Builder, op: ops.Power, x: str) -> str:
    """Lower a power with a constant exponent."""
    return g.node("Pow", x, g.number(op.exponent))


@lowers(ops.Cumsum)
def cumsum(g: Builder, op: ops.Cumsum, x: str) -> str:
    """Lower a cumulative sum along an axis."""
    return g.node("CumSum", x, g.constant(op.axis if op.axis < 0 else op.axis + 1))


@lowers(ops.Prelu)
def prelu(g: Builder, op: ops.Prelu, x: str, *, weight: str) -> str:
    """Lower PReLU, with one slope per channel."""
    if g.type.channel_axis == g.type.rank - 1:
        return g.node("PRelu", x, weight)
    shaped = g.arrays[weight].reshape(-1, *(1 for _ in g.type.spatial))
    return g.node("PRelu", x, g.weight(f"{weight}.shaped", shaped))


@lowers(ops.Clamp)
def clamp(g: Builder, op: ops.Clamp, x: str) -> str:
    """Lower clamping, always with both bounds: onnxruntime replaces a missing bound by the largest finite number."""
    low, high = (-inf if op.low is None else op.low), (inf if op.high is None else op.high)
    return g.node("Clip", x, g.number(low), g.number(high))


@lowers(ops.Softmax)
def softmax(g: Builder, op: ops.Softmax, x: str) -> str:
    """Lower softmax along an axis."""
    return g.node("Softmax", x, axis=op.axis if op.axis < 0 else op.axis + 1)


@lowers(ops.LogSoftmax)
def log_softmax(g: Builder, op: ops.LogSoftmax, x: str) -> str:
    """Lower log-softmax along an axis."""
    return g.node("LogSoftmax", x, axis=op.axis if op.axis < 0 else op.axis + 1)


@lowers(ops.Identity)
def identity(g: Builder, op: ops.Identity, x: str) -> str:
    """Lower the identity, for which no node is added."""
    return x


@lowers(ops.Zero)
def zero(g: Builder, op: ops.Zero, x: str) -> str:
    """Lower `zero` to a tensor of zeros with the shape of the result."""
    shape = g.node("Shape", x) if g.options.has_open_sizes else g.shape(g.type.shape, batch=True)
    return g.node("Expand", g.number(0), shape)


@lowers(ops.Scale)
def scale(g: Builder, op: ops.Scale, x: str) -> str:
    """Lower the multiplication by a constant."""
    return g.node("Mul", x, g.number(op.factor))


@lowers(ops.Shift)
def shift(g: Builder, op: ops.Shift, x: str) -> str:
    """Lower the addition of a constant."""
    return g.node("Add", x, g.number(op.amount))
