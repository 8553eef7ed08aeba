"""Import of element-wise operators, and broadcasting of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from archir.ir.op import Op
from archir.ops import activation as unary
from archir.ops import arithmetic as binary
from archir.ops.lookup import ToNumbers
from archir_torch.importing.builder import Builder, uniform_value
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import (
    Atom,
    Axes,
    Axis,
    Unsupported,
    Value,
    base_without_batch,
    match_atoms,
    merge_atoms,
    replace_atoms,
    sizes,
    with_new_atoms,
)
from archir_torch.importing.rules import torch_operator

Operand = Value | Constant | float | int
"""Operand of an element-wise operator."""
MIN_F32 = float(torch.finfo(torch.float32).min)
"""Lowest finite float32."""


def apply_unary(b: Builder, op: Op, x: Value, dtype: str | None = None) -> Value:
    """Apply a unary element-wise operation to a value, whatever its layout is."""
    if not op.any_element:
        x = as_numeric(b, x)
    return replace(x, node=b.add(op, b.node(x)), dtype=dtype or x.dtype)


def to_numbers(b: Builder, x: Value, dtype: str) -> Value:
    """Convert integers or booleans to floating-point numbers; `dtype` is the dtype that the torch tensor has."""
    unit = Constant(torch.ones(()), computed="a number")
    return replace(x, node=b.add_layer(ToNumbers(), {"one": unit}, b.node(x)), dtype=dtype)


def as_numeric(b: Builder, x: Value) -> Value:
    """Convert a value to floating-point numbers, the type on which archir operations compute.

    The torch dtype recorded for the value may stay an integer type.
    """
    if isinstance(x.node, Constant) and not x.node.tensor.is_floating_point():
        return replace(x, node=Constant(x.node.tensor.float(), computed="numbers"))
    return x if b.types[b.node(x)].is_floating else to_numbers(b, x, x.dtype)


UNARY_OPERATIONS: dict[str, type[Op]] = {
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
"""archir operation by torch operator, for unary element-wise operators without attributes."""


def _unary_function(kind: type[Op]) -> Any:
    """Return the import function for an operator in `UNARY_OPERATIONS`."""

    def of(b: Builder, x: Value) -> Value:
        return apply_unary(b, kind(), x)

    return of


for _name, _kind in UNARY_OPERATIONS.items():
    torch_operator(_name)(_unary_function(_kind))


@torch_operator("gelu")
def gelu(b: Builder, x: Value, approximate: str = "none") -> Value:
    return apply_unary(b, unary.Gelu(approximate == "tanh"), x)


@torch_operator("leaky_relu")
def leaky_relu(b: Builder, x: Value, negative_slope: float = 0.01) -> Value:
    return apply_unary(b, unary.LeakyRelu(float(negative_slope)), x)


@torch_operator("elu")
def elu(b: Builder, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    if (alpha, scale, input_scale) != (1, 1, 1):
        raise Unsupported("an elu with other factors than 1")
    return apply_unary(b, unary.Elu(), x)


@torch_operator("softplus")
def softplus(b: Builder, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    if beta != 1:
        raise Unsupported("a softplus with another beta than 1")
    return apply_unary(b, unary.Softplus(), x)


@torch_operator("prelu")
def prelu(b: Builder, x: Value, weight: Constant) -> Value:
    """Import PReLU, with a single slope or one slope per channel."""
    shared = weight.tensor.numel() == 1
    if not shared:
        x = b.as_map(x) if len(x.axes) == 4 else b.as_tokens(x)
    return replace(x, node=b.add_layer(unary.Prelu(shared), {"weight": weight}, b.node(x)))


@torch_operator("hardtanh", "clamp", "clip")
def clamp(b: Builder, x: Value, min_val: Any = None, max_val: Any = None, **named: Any) -> Value:
    """Import clamping to bounds, which may be tensors; with the bounds 0 and 6 it becomes ReLU6."""
    low, high = (
        None if limit in (float("inf"), float("-inf")) else limit
        for limit in (named.get("min", min_val), named.get("max", max_val))
    )
    if low is None and high is None:
        return x
    if isinstance(low, Value | Constant) or isinstance(high, Value | Constant):
        for bound, kind in ((low, maximum), (high, minimum)):
            x = x if bound is None else kind(b, x, bound)
        return x
    if (low, high) == (0, 6):
        return apply_unary(b, unary.Relu6(), x)
    bounds = [None if bound is None else float(bound) for bound in (low, high)]
    return apply_unary(b, unary.Clamp(*bounds), x)


@torch_operator("clamp_min")
def clamp_min(b: Builder, x: Value, min: float) -> Value:
    return clamp(b, x, min, None)


@torch_operator("clamp_max")
def clamp_max(b: Builder, x: Value, max: float) -> Value:
    return clamp(b, x, None, max)


@torch_operator("neg", "negative")
def neg(b: Builder, x: Value) -> Value:
    return apply_unary(b, unary.Scale(-1.0), x)


@torch_operator("square")
def square(b: Builder, x: Value) -> Value:
    return apply_unary(b, unary.Power(2.0), x)


@torch_operator("rsqrt")
def rsqrt(b: Builder, x: Value) -> Value:
    return apply_unary(b, unary.Power(-0.5), x)


@torch_operator("reciprocal")
def reciprocal(b: Builder, x: Value) -> Value:
    return apply_unary(b, unary.Power(-1.0), x)


@torch_operator("pow")
def power(b: Builder, x: Operand, exponent: Operand) -> Value:
    """Import a power with a constant exponent."""
    number = scalar_of(exponent)
    if not isinstance(x, Value) or number is None:
        raise Unsupported("a power of a constant, or with a tensor as the exponent")
    return apply_unary(b, unary.Power(number), x)


@torch_operator("softmax", "_softmax")
def softmax(b: Builder, x: Value, dim: int, dtype: Any = None, kind: type[unary.Softmax] = unary.Softmax) -> Value:
    x, axis = b.isolate_axis(x, dim % len(x.axes))
    return apply_unary(b, kind(-1 if axis == len(x.base) - 1 else axis), x)


@torch_operator("cumsum")
def cumsum(b: Builder, x: Value, dim: int, dtype: Any = None) -> Value:
    x, axis = b.isolate_axis(x, dim % len(x.axes))
    return apply_unary(b, unary.Cumsum(-1 if axis == len(x.base) - 1 else axis), x)


@torch_operator("log_softmax")
def log_softmax(b: Builder, x: Value, dim: int, dtype: Any = None) -> Value:
    return softmax(b, x, dim, kind=unary.LogSoftmax)


# broadcasting and operators of two tensors


def scalar_of(x: Operand) -> float | None:
    """Return the number that all elements of an operand equal; None if elements differ or depend on inputs."""
    if isinstance(x, Constant):
        return uniform_value(x)
    return float(x) if isinstance(x, int | float) else None


def as_value(b: Builder, x: Value | Constant, own: int | None = None) -> Value:
    """Return an operand as a value.

    If a constant repeats along an axis once per sample, the repetitions become the batch axis. `own` is an axis that
    is known not to contain the batch.
    """
    if isinstance(x, Value):
        return x
    axes: list[Axis] = []
    for axis, size in enumerate(x.tensor.shape):
        sample = x if axis == own else _first_sample(b, x, axis)
        batch_atoms = () if sample is x else (b.batch,)
        size = size // b.batch.size if batch_atoms else size
        axes.append((*batch_atoms, *((Atom(size),) if size > 1 else ())))
        x = sample
    base = base_without_batch(tuple(axes), b.batch)
    return Value(x.reshaped(sizes(base)), base, tuple(axes))


def single_sample(b: Builder, x: Constant) -> Constant:
    """Reduce a constant that repeats for every sample of the batch to its part for a single sample."""
    for axis in range(x.tensor.dim()):
        x = _first_sample(b, x, axis)
    return x


def _first_sample(b: Builder, x: Constant, axis: int) -> Constant:
    """Return the part of a constant for the first sample, along an axis that contains the batch.

    If the parts of the samples differ, the constant is returned unchanged.
    """
    size, batch = x.tensor.shape[axis], b.batch.size
    if not size or size % batch:
        return x
    parts = x.tensor.unflatten(axis, (batch, size // batch))
    stored = x.origin is not None and x.origin.in_state_dict  # stored tensors may have equal parts by chance
    is_repeated = not stored and bool((parts == parts.narrow(axis, 0, 1)).all())
    is_constant = x.tensor.stride(axis) == 0 or is_repeated
    return x.sliced(axis, 0, size // batch) if is_constant else x


def align_axes(b: Builder, *values: Value) -> list[Value]:
    """Split the axes of values for broadcasting, so that corresponding axes consist of the same atoms."""
    rank = max(len(v.axes) for v in values)
    first, *others = (replace(v, axes=((),) * (rank - len(v.axes)) + v.axes) for v in values)
    result = [first]
    for v in others:
        v = with_new_atoms(v, b.batch)
        split_left: dict[Atom, Axis] = {}
        split_right: dict[Atom, Axis] = {}
        for left, right in zip(_broadcast_axes(result), v.axes, strict=True):
            if left and right:
                if (b.batch in left) != (b.batch in right):
                    raise Unsupported("broadcasting of the batch axis against another axis")
                left_parts, right_parts = match_atoms(left, right)
                split_left, split_right = split_left | left_parts, split_right | right_parts
        if any(b.batch in table and table[b.batch] != (b.batch,) for table in (split_left, split_right)):
            raise Unsupported("a batch axis that is split")
        result = [*(replace_atoms(x, split_left) for x in result), replace_atoms(v, split_right)]
    return result


def _broadcast_axes(values: Sequence[Value]) -> Axes:
    """Return the axes of the result of broadcasting aligned values."""
    return tuple(next((axis for axis in each if axis), ()) for each in zip(*(v.axes for v in values), strict=True))


def align(b: Builder, *values: Value) -> list[Value]:
    """Align values as `align_axes` does.

    If the axes of the values are split incompatibly, all values are first converted to torch's layout.
    """
    try:
        return align_axes(b, *values)
    except Unsupported:
        return align_axes(b, *(merge_atoms(b.with_torch_base(v), b.batch) for v in values))


def with_common_base(b: Builder, *values: Value) -> tuple[list[Value], Axes]:
    """Return aligned values whose bases broadcast to a common base, and that common base."""
    axes = _broadcast_axes(values)
    all_atoms = {atom for axis in axes for atom in axis if atom is not b.batch}
    default = base_without_batch(axes, b.batch)
    full_bases = [v.base for v in values if set(v.atoms) == all_atoms]
    base = next(
        (candidate for candidate in full_bases if candidate == default), full_bases[0] if full_bases else default
    )
    for v in values:
        value_atoms = set(v.atoms)
        base = tuple(part for axis in base for part in (_split_by_membership(axis, value_atoms) if axis else [()]))
    return [b.with_base(v, tuple(tuple(a for a in axis if a in set(v.atoms)) for axis in base)) for v in values], base


def _split_by_membership(axis: Axis, atoms: set[Atom]) -> list[Axis]:
    """Split an axis into runs of atoms that are all in the set `atoms`, or all outside of it."""
    parts: list[list[Atom]] = []
    for atom in axis:
        if parts and (parts[-1][-1] in atoms) == (atom in atoms):
            parts[-1].append(atom)
        else:
            parts.append([atom])
    return [tuple(part) for part in parts]


def apply_elementwise(b: Builder, op: Op, *operands: Value) -> Value:
    """Apply an element-wise operation to several values; the result has the dtype of the last operand."""
    if not op.any_element:
        operands = tuple(as_numeric(b, operand) for operand in operands)
    values, base = with_common_base(b, *align(b, *operands))
    node = b.add(op, *map(b.node, values))
    if b.types[node].shape != sizes(base):
        raise Unsupported("an expansion of another axis than the batch")
    return Value(node, base, _broadcast_axes(values), operands[-1].dtype)


def _scale(b: Builder, x: Operand, alpha: float) -> Operand:
    """Return an operand multiplied by a constant number."""
    if alpha == 1:
        return x
    if isinstance(x, Value):
        return apply_unary(b, unary.Scale(float(alpha)), x)
    if isinstance(x, Constant):
        return Constant(x.tensor * alpha, computed="a product", trained=x.trained)
    return x * alpha


@torch_operator("add")
def add(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
    """Import x + alpha * y; the addition of a constant number becomes `shift`."""
    y = _scale(b, y, alpha)
    for first, second in ((x, y), (y, x)):
        if isinstance(first, Value) and (number := scalar_of(second)) is not None:
            return first if number == 0 else apply_unary(b, unary.Shift(number), first)
    return apply_elementwise(b, binary.Add(), as_value(b, as_tensor(x)), as_value(b, as_tensor(y)))


@torch_operator("sub", "subtract")
def sub(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
    """Import x - alpha * y; the subtraction of a constant number becomes `shift`."""
    y = _scale(b, y, alpha)
    if isinstance(x, Value) and (number := scalar_of(y)) is not None:
        return add(b, x, -number)
    if isinstance(y, Value) and (number := scalar_of(x)) is not None:
        return add(b, neg(b, y), number)
    return apply_elementwise(b, binary.Sub(), as_value(b, as_tensor(x)), as_value(b, as_tensor(y)))


@torch_operator("rsub")
def rsub(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
    """Import y - alpha * x."""
    return sub(b, y, x, alpha)


@torch_operator("mul", "multiply")
def mul(b: Builder, x: Operand, y: Operand) -> Value:
    """Import x * y; multiplication by a constant number becomes `scale`, and x * x a power."""
    for first, second in ((x, y), (y, x)):
        if isinstance(first, Value) and (number := scalar_of(second)) is not None:
            return first if number == 1 else apply_unary(b, unary.Scale(number), first)
    if x is y:
        assert isinstance(x, Value)
        return apply_unary(b, unary.Power(2.0), x)
    return apply_elementwise(b, binary.Mul(), as_value(b, as_tensor(x)), as_value(b, as_tensor(y)))


@torch_operator("div", "divide", "true_divide")
def div(b: Builder, x: Operand, y: Operand, rounding_mode: str | None = None) -> Value:
    """Import x / y; division by a constant number becomes `scale`."""
    if rounding_mode is not None:
        raise Unsupported("a rounded quotient")
    if isinstance(x, Value) and (number := scalar_of(y)) is not None:
        return mul(b, x, 1 / number)
    if isinstance(y, Value) and (number := scalar_of(x)) is not None:
        return mul(b, apply_unary(b, unary.Power(-1.0), y), number)
    return apply_elementwise(b, binary.Div(), as_value(b, as_tensor(x)), as_value(b, as_tensor(y)))


@torch_operator("addcmul")
def addcmul(b: Builder, x: Operand, tensor1: Operand, tensor2: Operand, value: float = 1) -> Value:
    """Import x + value * tensor1 * tensor2."""
    if not isinstance(tensor1, Value):
        tensor1, tensor2 = tensor2, tensor1
    return add(b, x, mul(b, tensor1, tensor2), value)


@torch_operator("maximum")
def maximum(b: Builder, x: Operand, y: Operand) -> Value:
    for first, second in ((x, y), (y, x)):
        if isinstance(first, Value) and (number := scalar_of(second)) is not None:
            return first if number <= MIN_F32 else clamp(b, first, number, None)
    return apply_elementwise(b, binary.Maximum(), as_value(b, as_tensor(x)), as_value(b, as_tensor(y)))


@torch_operator("minimum")
def minimum(b: Builder, x: Operand, y: Operand) -> Value:
    for first, second in ((x, y), (y, x)):
        if isinstance(first, Value) and (number := scalar_of(second)) is not None:
            return first if number >= -MIN_F32 else clamp(b, first, None, number)
    return apply_elementwise(b, binary.Minimum(), as_value(b, as_tensor(x)), as_value(b, as_tensor(y)))


def as_tensor(x: Operand) -> Value | Constant:
    """Return an operand as a value or a constant; numbers become constants."""
    return x if isinstance(x, Value | Constant) else Constant(torch.tensor(float(x)), computed="a number")
