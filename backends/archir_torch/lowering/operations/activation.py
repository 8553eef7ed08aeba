"""Lowering rules of element-wise functions with one operand, and of sums and softmax along an axis."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from archir.ops import activation as ops
from archir_torch.lowering.rules import lowers


@lowers(ops.Relu)
def relu(x: Tensor, *, inplace: bool = False) -> Tensor:
    return F.relu(x, inplace)


@lowers(ops.Relu6)
def relu6(x: Tensor, *, inplace: bool = False) -> Tensor:
    return F.relu6(x, inplace)


@lowers(ops.LeakyRelu)
def leaky_relu(x: Tensor, *, slope: float) -> Tensor:
    return F.leaky_relu(x, slope)


@lowers(ops.Elu)
def elu(x: Tensor) -> Tensor:
    return F.elu(x)


@lowers(ops.Gelu)
def gelu(x: Tensor, *, approximate: bool) -> Tensor:
    return F.gelu(x, approximate="tanh" if approximate else "none")


@lowers(ops.Silu)
def silu(x: Tensor) -> Tensor:
    return F.silu(x)


@lowers(ops.Mish)
def mish(x: Tensor) -> Tensor:
    return F.mish(x)


@lowers(ops.Softplus)
def softplus(x: Tensor) -> Tensor:
    return F.softplus(x)


@lowers(ops.HardSwish)
def hard_swish(x: Tensor) -> Tensor:
    return F.hardswish(x)


@lowers(ops.HardSigmoid)
def hard_sigmoid(x: Tensor) -> Tensor:
    return F.hardsigmoid(x)


@lowers(ops.Sigmoid)
def sigmoid(x: Tensor) -> Tensor:
    return torch.sigmoid(x)


@lowers(ops.Tanh)
def tanh(x: Tensor) -> Tensor:
    return torch.tanh(x)


@lowers(ops.Exp)
def exp(x: Tensor) -> Tensor:
    return torch.exp(x)


@lowers(ops.Log)
def log(x: Tensor) -> Tensor:
    return torch.log(x)


@lowers(ops.Sqrt)
def sqrt(x: Tensor) -> Tensor:
    return torch.sqrt(x)


@lowers(ops.Abs)
def absolute(x: Tensor) -> Tensor:
    return torch.abs(x)


@lowers(ops.Power)
def power(x: Tensor, *, exponent: float) -> Tensor:
    return x**exponent


@lowers(ops.Sin)
def sin(x: Tensor) -> Tensor:
    return torch.sin(x)


@lowers(ops.Cos)
def cos(x: Tensor) -> Tensor:
    return torch.cos(x)


@lowers(ops.Cumsum)
def cumsum(x: Tensor, *, axis: int) -> Tensor:
    return x.cumsum(axis if axis < 0 else axis + 1)


@lowers(ops.Prelu)
def prelu(x: Tensor, weight: Tensor, *, shared: bool) -> Tensor:
    return F.prelu(x.transpose(1, 2), weight).transpose(1, 2) if x.dim() == 3 else F.prelu(x, weight)


@lowers(ops.Clamp)
def clamp(x: Tensor, *, low: float | None, high: float | None) -> Tensor:
    return torch.clamp(x, low, high)


@lowers(ops.Softmax)
def softmax(x: Tensor, *, axis: int) -> Tensor:
    return F.softmax(x, axis if axis < 0 else axis + 1)


@lowers(ops.LogSoftmax)
def log_softmax(x: Tensor, *, axis: int) -> Tensor:
    return F.log_softmax(x, axis if axis < 0 else axis + 1)


@lowers(ops.Identity)
def identity(x: Tensor) -> Tensor:
    return x


@lowers(ops.Zero)
def zero(x: Tensor) -> Tensor:
    return torch.zeros_like(x)


@lowers(ops.Scale)
def scale(x: Tensor, *, factor: float) -> Tensor:
    return x * factor


@lowers(ops.Shift)
def shift(x: Tensor, *, amount: float) -> Tensor:
    return x + amount
