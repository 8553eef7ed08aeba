"""Operators that compute number by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from archir.ir.op import Op
from archir.ops import activation as unary
from archir.ops import arithmetic as binary
from archir.ops.lookup import ToNumbers
from archir_torch.importing.builder import Builder, number_of
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import (
    Atom,
    Axes,
    Axis,
    Unsupported,
    Value,
    coalesced,
    matched,
    plain,
    renewed,
    sizes,
    substituted,
)
from archir_torch.importing.rules import understands

Operand = Value | Constant | float | int
SMALLEST = float(torch.finfo(torch.float32).min)


def mapped(b: Builder, op: Op, x: Value, dtype: str | None = None) -> Value:
    """An operation that keeps the type, on whatever base x has."""
    if not op.any_element:
        x = computed(b, x)
    return replace(x, node=b.add(op, b.node(x)), dtype=dtype or x.dtype)


def numbers(b: Builder, x: Value, dtype: str) -> Value:
    """Integers, or truth values, as numbers that are computed with; `dtype` says what torch has."""
    one = Constant(torch.ones(()), computed="a number")
    return replace(x, node=b.layer(ToNumbers(), {"one": one}, b.node(x)), dtype=dtype)


def computed(b: Builder, x: Value) -> Value:
    """As numbers that are computed with, which torch may have as integers."""
    if isinstance(x.node, Constant) and not x.node.tensor.is_floating_point():
        return replace(x, node=Constant(x.node.tensor.float(), computed="numbers"))
    return x if b.types[b.node(x)].numeric else numbers(b, x, x.dtype)


SIMPLE: dict[str, type[Op]] = {
    "relu": unary.Relu,
    "relu6": unary.Relu6,
    "silu": unary.Silu,
    "mish": unary.Mish,
    "hardswish": unary.HardSwish,
    "hardsigmoid": unary.HardSigmoid,
    "sigmoid": unary.Sigmoid,
    "tanh": unary.Tanh,
    "exp": unary.Exp,
    "log": unary.Log,
    "sqrt": unary.Sqrt,
    "abs": unary.Abs,
    "absolute": unary.Abs,
    "sin": unary.Sin,
    "cos": unary.Cos,
}


def _simple(kind: type[Op]) -> Any:
    def of(b: Builder, x: Value) -> Value:
        return mapped(b, kind(), x)

    return of


for _name, _kind in SIMPLE.items():
    understands(_name)(_simple(_kind))


@understands("gelu")
def gelu(b: Builder, x: Value, approximate: str = "none") -> Value:
    return mapped(b, unary.Gelu(approximate == "tanh"), x)


@understands("leaky_relu")
def leaky_relu(b: Builder, x: Value, negative_slope: float = 0.01) -> Value:
    return mapped(b, unary.LeakyRelu(float(negative_slope)), x)


@understands("elu")
def elu(b: Builder, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    if (alpha, scale, input_scale) != (1, 1, 1):
        raise Unsupported("an elu with factors")
    return mapped(b, unary.Elu(), x)


@understands("softplus")
def softplus(b: Builder, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    if beta != 1:
        raise Unsupported("a softplus with a factor")
    return mapped(b, unary.Softplus(), x)


@understands("prelu")
def prelu(b: Builder, x: Value, weight: Constant) -> Value:
    shared = weight.tensor.numel() == 1
    if not shared:
        x = b.map(x) if len(x.axes) == 4 else b.tokens(x)
    return replace(x, node=b.layer(unary.Prelu(shared), {"weight": weight}, b.node(x)))


@understands("hardtanh", "clamp", "clip")
def clamp(b: Builder, x: Value, min_val: Any = None, max_val: Any = None, **named: Any) -> Value:
    low, high = (
        None if one in (float("inf"), float("-inf")) else one
        for one in (named.get("min", min_val), named.get("max", max_val))
    )
    if low is None and high is None:
        return x
    if isinstance(low, Value | Constant) or isinstance(high, Value | Constant):
        for bound, kind in ((low, maximum), (high, minimum)):
            x = x if bound is None else kind(b, x, bound)
        return x
    if (low, high) == (0, 6):
        return mapped(b, unary.Relu6(), x)
    bounds = [None if bound is None else float(bound) for bound in (low, high)]
    return mapped(b, unary.Clamp(*bounds), x)


@understands("clamp_min")
def clamp_min(b: Builder, x: Value, min: float) -> Value:
    return clamp(b, x, min, None)


@understands("clamp_max")
def clamp_max(b: Builder, x: Value, max: float) -> Value:
    return clamp(b, x, None, max)


@understands("neg", "negative")
def neg(b: Builder, x: Value) -> Value:
    return mapped(b, unary.Scale(-1.0), x)


@understands("square")
def square(b: Builder, x: Value) -> Value:
    return mapped(b, unary.Power(2.0), x)


@understands("rsqrt")
def rsqrt(b: Builder, x: Value) -> Value:
    return mapped(b, unary.Power(-0.5), x)


@understands("reciprocal")
def reciprocal(b: Builder, x: Value) -> Value:
    return mapped(b, unary.Power(-1.0), x)


@understands("pow")
def power(b: Builder, x: Operand, exponent: Operand) -> Value:
    number = constant_number(exponent)
    if not isinstance(x, Value) or number is None:
        raise Unsupported("a power of a number, or by a tensor")
    return mapped(b, unary.Power(number), x)


@understands("softmax", "_softmax")
def softmax(b: Builder, x: Value, dim: int, dtype: Any = None, kind: type[unary.Softmax] = unary.Softmax) -> Value:
    x, axis = b.isolated(x, dim % len(x.axes))
    return mapped(b, kind(-1 if axis == len(x.base) - 1 else axis), x)


@understands("cumsum")
def cumsum(b: Builder, x: Value, dim: int, dtype: Any = None) -> Value:
    x, axis = b.isolated(x, dim % len(x.axes))
    return mapped(b, unary.Cumsum(-1 if axis == len(x.base) - 1 else axis), x)


@understands("log_softmax")
def log_softmax(b: Builder, x: Value, dim: int, dtype: Any = None) -> Value:
    return softmax(b, x, dim, kind=unary.LogSoftmax)


# two tensors


def constant_number(x: Operand) -> float | None:
    """The number that an operand is, if it is one for all."""
    if isinstance(x, Constant):
        return number_of(x)
    return float(x) if isinstance(x, int | float) else None


def valued(b: Builder, x: Value | Constant, own: int | None = None) -> Value:
    """A constant as a value; where it is the same for all samples, that part of an axis is the batch's, but for an axis
    that is known to be its own."""
    if isinstance(x, Value):
        return x
    axes: list[Axis] = []
    for at, size in enumerate(x.tensor.shape):
        one = x if at == own else _of_one(b, x, at)
        copies = () if one is x else (b.batch,)
        own = size // b.batch.size if copies else size
        axes.append((*copies, *((Atom(own),) if own > 1 else ())))
        x = one
    base = plain(tuple(axes), b.batch)
    return Value(x.reshaped(sizes(base)), base, tuple(axes))


def for_one(b: Builder, x: Constant) -> Constant:
    """A constant that was made for each sample of the batch as that of one."""
    for axis in range(x.tensor.dim()):
        x = _of_one(b, x, axis)
    return x


def _of_one(b: Builder, x: Constant, axis: int) -> Constant:
    """Along an axis that has the batch, the first sample's part, if all others are the same."""
    size, batch = x.tensor.shape[axis], b.batch.size
    if not size or size % batch:
        return x
    parts = x.tensor.unflatten(axis, (batch, size // batch))
    stored = x.origin is not None and x.origin.kept  # may be alike by chance
    alike = not stored and bool((parts == parts.narrow(axis, 0, 1)).all())
    same = x.tensor.stride(axis) == 0 or alike
    return x.sliced(axis, 0, size // batch) if same else x


def aligned_beside(b: Builder, *values: Value) -> list[Value]:
    """With axes taken apart alike, and the same atoms where they are the same."""
    rank = max(len(v.axes) for v in values)
    first, *others = (replace(v, axes=((),) * (rank - len(v.axes)) + v.axes) for v in values)
    done = [first]
    for v in others:
        v = renewed(v, b.batch)
        mine: dict[Atom, Axis] = {}
        theirs: dict[Atom, Axis] = {}
        for one, other in zip(_whole(done), v.axes, strict=True):
            if one and other:
                if (b.batch in one) != (b.batch in other):
                    raise Unsupported("an axis that is the batch's in one tensor and another's in the other")
                more, less = matched(one, other)
                mine, theirs = mine | more, theirs | less
        if any(b.batch in table and table[b.batch] != (b.batch,) for table in (mine, theirs)):
            raise Unsupported("a batch that is taken apart")
        done = [*(substituted(x, mine) for x in done), substituted(v, theirs)]
    return done


def _whole(values: Sequence[Value]) -> Axes:
    """The axes that aligned tensors stretch to."""
    return tuple(next((axis for axis in each if axis), ()) for each in zip(*(v.axes for v in values), strict=True))


def aligned(b: Builder, *values: Value) -> list[Value]:
    """As `aligned_beside`; where axes are taken apart differently, after all were brought into torch's own layout."""
    try:
        return aligned_beside(b, *values)
    except Unsupported:
        return aligned_beside(b, *(coalesced(b.plain(v), b.batch) for v in values))


def common(b: Builder, *values: Value) -> tuple[list[Value], Axes]:
    """Tensors whose axes are aligned, on bases that stretch to one; and that one."""
    axes = _whole(values)
    whole = {atom for axis in axes for atom in axis if atom is not b.batch}
    usual = plain(axes, b.batch)
    full = [v.base for v in values if set(v.atoms) == whole]
    base = next((one for one in full if one == usual), full[0] if full else usual)
    for v in values:
        held = set(v.atoms)
        base = tuple(part for axis in base for part in (_parts(axis, held) if axis else [()]))
    return [b.laid(v, tuple(tuple(a for a in axis if a in set(v.atoms)) for axis in base)) for v in values], base


def _parts(axis: Axis, held: set[Atom]) -> list[Axis]:
    """An axis in parts that are all in what is held, or all outside."""
    parts: list[list[Atom]] = []
    for atom in axis:
        if parts and (parts[-1][-1] in held) == (atom in held):
            parts[-1].append(atom)
        else:
            parts.append([atom])
    return [tuple(part) for part in parts]


def together(b: Builder, op: Op, *operands: Value) -> Value:
    """An element-wise operation of several tensors; the result has the type of the last one."""
    if not op.any_element:
        operands = tuple(computed(b, one) for one in operands)
    values, base = common(b, *aligned(b, *operands))
    node = b.add(op, *map(b.node, values))
    if b.types[node].shape != sizes(base):
        raise Unsupported("an expansion that is not the batch's")
    return Value(node, base, _whole(values), operands[-1].dtype)


def _scaled(b: Builder, x: Operand, alpha: float) -> Operand:
    if alpha == 1:
        return x
    if isinstance(x, Value):
        return mapped(b, unary.Scale(float(alpha)), x)
    if isinstance(x, Constant):
        return Constant(x.tensor * alpha, computed="a product", trained=x.trained)
    return x * alpha


@understands("add")
def add(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
    y = _scaled(b, y, alpha)
    for one, other in ((x, y), (y, x)):
        if isinstance(one, Value) and (number := constant_number(other)) is not None:
            return one if number == 0 else mapped(b, unary.Shift(number), one)
    return together(b, binary.Add(), valued(b, tensor_of(x)), valued(b, tensor_of(y)))


@understands("sub", "subtract")
def sub(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
    y = _scaled(b, y, alpha)
    if isinstance(x, Value) and (number := constant_number(y)) is not None:
        return add(b, x, -number)
    if isinstance(y, Value) and (number := constant_number(x)) is not None:
        return add(b, neg(b, y), number)
    return together(b, binary.Sub(), valued(b, tensor_of(x)), valued(b, tensor_of(y)))


@understands("rsub")
def rsub(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
    return sub(b, y, x, alpha)


@understands("mul", "multiply")
def mul(b: Builder, x: Operand, y: Operand) -> Value:
    for one, other in ((x, y), (y, x)):
        if isinstance(one, Value) and (number := constant_number(other)) is not None:
            return one if number == 1 else mapped(b, unary.Scale(number), one)
    if x is y:
        assert isinstance(x, Value)
        return mapped(b, unary.Power(2.0), x)
    return together(b, binary.Mul(), valued(b, tensor_of(x)), valued(b, tensor_of(y)))


@understands("div", "divide", "true_divide")
def div(b: Builder, x: Operand, y: Operand, rounding_mode: str | None = None) -> Value:
    if rounding_mode is not None:
        raise Unsupported("a quotient that is rounded")
    if isinstance(x, Value) and (number := constant_number(y)) is not None:
        return mul(b, x, 1 / number)
    if isinstance(y, Value) and (number := constant_number(x)) is not None:
        return mul(b, mapped(b, unary.Power(-1.0), y), number)
    return together(b, binary.Div(), valued(b, tensor_of(x)), valued(b, tensor_of(y)))


@understands("addcmul")
def addcmul(b: Builder, x: Operand, one: Operand, other: Operand, value: float = 1) -> Value:
    if not isinstance(one, Value):
        one, other = other, one
    return add(b, x, mul(b, one, other), value)


@understands("maximum")
def maximum(b: Builder, x: Operand, y: Operand) -> Value:
    for one, other in ((x, y), (y, x)):
        if isinstance(one, Value) and (number := constant_number(other)) is not None:
            return one if number <= SMALLEST else clamp(b, one, number, None)
    return together(b, binary.Maximum(), valued(b, tensor_of(x)), valued(b, tensor_of(y)))


@understands("minimum")
def minimum(b: Builder, x: Operand, y: Operand) -> Value:
    for one, other in ((x, y), (y, x)):
        if isinstance(one, Value) and (number := constant_number(other)) is not None:
            return one if number >= -SMALLEST else clamp(b, one, None, number)
    return together(b, binary.Minimum(), valued(b, tensor_of(x)), valued(b, tensor_of(y)))


def tensor_of(x: Operand) -> Value | Constant:
    return x if isinstance(x, Value | Constant) else Constant(torch.tensor(float(x)), computed="a number")
