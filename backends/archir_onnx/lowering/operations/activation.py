"""Element-wise functions."""

from __future__ import annotations

from math import inf

import numpy as np

from archir.ir.op import Op
from archir.ops import activation as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers

_SAME_NAME: dict[type[Op], str] = {
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


@lowers(*_SAME_NAME)
def same_name(g: Builder, op: Op, x: str) -> str:
    return g.node(_SAME_NAME[type(op)], x)


@lowers(ops.Mish)
def mish(g: Builder, op: ops.Mish, x: str) -> str:
    if g.opset >= 18:
        return g.node("Mish", x)
    return g.node("Mul", x, g.node("Tanh", g.node("Softplus", x)))


@lowers(ops.Relu6)
def relu6(g: Builder, op: ops.Relu6, x: str) -> str:
    return g.node("Clip", x, g.number(0), g.number(6))


@lowers(ops.LeakyRelu)
def leaky_relu(g: Builder, op: ops.LeakyRelu, x: str) -> str:
    return g.node("LeakyRelu", x, alpha=op.slope)


@lowers(ops.Gelu)
def gelu(g: Builder, op: ops.Gelu, x: str) -> str:
    if g.opset >= 20:
        return g.node("Gelu", x, approximate="tanh" if op.approximate else "none")
    if op.approximate:
        cubic = g.node("Mul", g.node("Mul", g.node("Mul", x, x), x), g.number(0.044715))
        inner = g.node("Tanh", g.node("Mul", g.node("Add", x, cubic), g.number((2 / np.pi) ** 0.5)))
    else:
        inner = g.node("Erf", g.node("Div", x, g.number(2**0.5)))
    return g.node("Mul", g.node("Mul", x, g.node("Add", inner, g.number(1))), g.number(0.5))


@lowers(ops.Silu)
def silu(g: Builder, op: ops.Silu, x: str) -> str:
    """`Swish` is in the standard from opset 24, but onnxruntime has no kernel for it."""
    return g.node("Mul", x, g.node("Sigmoid", x))


@lowers(ops.HardSigmoid)
def hard_sigmoid(g: Builder, op: ops.HardSigmoid, x: str) -> str:
    return g.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@lowers(ops.Power)
def power(g: Builder, op: ops.Power, x: str) -> str:
    return g.node("Pow", x, g.number(op.exponent))


@lowers(ops.Cumsum)
def cumsum(g: Builder, op: ops.Cumsum, x: str) -> str:
    return g.node("CumSum", x, g.constant(op.axis if op.axis < 0 else op.axis + 1))


@lowers(ops.Prelu)
def prelu(g: Builder, op: ops.Prelu, x: str, *, weight: str) -> str:
    if g.type.channel_axis == g.type.rank - 1:
        return g.node("PRelu", x, weight)
    shaped = g.arrays[weight].reshape(-1, *(1 for _ in g.type.spatial))
    return g.node("PRelu", x, g.weight(f"{weight}.shaped", shaped))


@lowers(ops.Clamp)
def clamp(g: Builder, op: ops.Clamp, x: str) -> str:
    """Both bounds are written: onnxruntime takes the largest finite number for one that is left out."""
    low, high = (-inf if op.low is None else op.low), (inf if op.high is None else op.high)
    return g.node("Clip", x, g.number(low), g.number(high))


@lowers(ops.Softmax)
def softmax(g: Builder, op: ops.Softmax, x: str) -> str:
    return g.node("Softmax", x, axis=op.axis if op.axis < 0 else op.axis + 1)


@lowers(ops.LogSoftmax)
def log_softmax(g: Builder, op: ops.LogSoftmax, x: str) -> str:
    return g.node("LogSoftmax", x, axis=op.axis if op.axis < 0 else op.axis + 1)


@lowers(ops.Identity)
def identity(g: Builder, op: ops.Identity, x: str) -> str:
    return x


@lowers(ops.Zero)
def zero(g: Builder, op: ops.Zero, x: str) -> str:
    shape = g.node("Shape", x) if g.form.resizable else g.shape(g.type.shape, batch=True)
    return g.node("Expand", g.number(0), shape)


@lowers(ops.Scale)
def scale(g: Builder, op: ops.Scale, x: str) -> str:
    return g.node("Mul", x, g.number(op.factor))


@lowers(ops.Shift)
def shift(g: Builder, op: ops.Shift, x: str) -> str:
    return g.node("Add", x, g.number(op.amount))
