"""Import of masks: booleans that depend on inputs, represented as the numbers 1 (true) and 0 (false)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from archir.ops import activation as unary
from archir.ops import arithmetic as binary
from archir.ops.lookup import Equal, OneHot, ToNumbers
from archir.ops.routing import TopPositions
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Unsupported, Value, base_without_batch
from archir_torch.importing.operators.elementwise import (
    Operand,
    add,
    apply_elementwise,
    apply_unary,
    as_numeric,
    as_tensor,
    as_value,
    mul,
    scalar_of,
    single_sample,
    to_numbers,
)
from archir_torch.importing.operators.movement import expand
from archir_torch.importing.patterns.attention import MASK_THRESHOLD, MASK_VALUE
from archir_torch.importing.rules import torch_operator

INTEGER_DTYPES = ("i64", "i32")
"""archir's integer types."""


def invert(b: Builder, mask: Value) -> Value:
    """Return the logical negation of a mask; inverting twice returns the original node."""
    last_op = b.graph[b.node(mask)].op
    if last_op == unary.Shift(1.0):
        (scaled,) = b.graph.operands(b.node(mask))
        if b.graph[scaled].op == unary.Scale(-1.0):
            return replace(mask, node=b.graph.operands(scaled)[0])
    return apply_unary(b, unary.Shift(1.0), apply_unary(b, unary.Scale(-1.0), mask))


def additive_mask(b: Builder, visible: Value) -> Value:
    """Return the number to add to each logit, 0 or MASK_VALUE, for a mask that is true at visible positions."""
    return apply_unary(b, unary.Scale(MASK_VALUE), invert(b, visible), "f32")


@torch_operator("eq")
def eq(b: Builder, x: Operand, y: Operand) -> Value:
    """Import the comparison of integers with a number.

    A comparison with 0, 1, ... along a last axis is imported as a one-hot encoding.
    """
    if not isinstance(x, Value):
        x, y = y, x
    if isinstance(x, Value) and isinstance(y, Constant) and (classes := _one_hot_classes(b, x, y)):
        integers = b.with_base(x, (x.axes[1],)) if len(x.axes) == 3 else b.with_base(x, ())
        unit = Constant(torch.ones(()), computed="a number")
        class_axis = (Atom(classes),)
        node = b.add_layer(OneHot(classes), {"one": unit}, b.node(integers))
        return Value(node, (*integers.base, class_axis), (*x.axes[:-1], class_axis), "bool")
    number = scalar_of(y)
    if not isinstance(x, Value) or number is None or number != int(number):
        raise Unsupported("an equality of two tensors, or with a number that is not an integer")
    if x.dtype == "bool":
        return x if number == 1 else invert(b, x)
    if x.dtype not in INTEGER_DTYPES:
        raise Unsupported("an equality of floating-point numbers")
    if b.types[b.node(x)].is_floating:  # integers that arithmetic has turned into floating-point numbers
        squared_difference = apply_unary(b, unary.Power(2.0), add(b, x, -number))
        return to_numbers(b, apply_unary(b, binary.Less(0.5), squared_difference), "bool")
    return to_numbers(b, apply_unary(b, Equal(int(number)), x), "bool")


def _one_hot_classes(b: Builder, x: Value, y: Constant) -> int:
    """Return the number of classes if a comparison of integers with 0, 1, ... is a one-hot encoding, else 0."""
    numbers = single_sample(b, y).tensor
    is_integers = (
        x.dtype in INTEGER_DTYPES
        and not b.types[b.node(x)].is_floating
        and x.axes[0] == (b.batch,)
        and x.axes[-1] == ()
    )
    if not is_integers or len(x.axes) not in (2, 3) or numbers.numel() < 2 or numbers.shape[-1] != numbers.numel():
        return 0
    is_range = torch.equal(numbers.reshape(-1).long(), torch.arange(numbers.numel()))
    return numbers.numel() if is_range and numbers.dim() <= len(x.axes) else 0


@torch_operator("ne", "not_equal")
def ne(b: Builder, x: Operand, y: Operand) -> Value:
    return invert(b, eq(b, x, y))


@torch_operator("gt", "greater")
def gt(b: Builder, x: Operand, y: Operand) -> Value:
    return _compare(b, x, y, binary.Greater)


@torch_operator("lt", "less")
def lt(b: Builder, x: Operand, y: Operand) -> Value:
    return _compare(b, x, y, binary.Less)


@torch_operator("ge", "greater_equal")
def ge(b: Builder, x: Operand, y: Operand) -> Value:
    return invert(b, lt(b, x, y))


@torch_operator("le", "less_equal")
def le(b: Builder, x: Operand, y: Operand) -> Value:
    return invert(b, gt(b, x, y))


def _compare(b: Builder, x: Operand, y: Operand, kind: type[binary.Greater]) -> Value:
    """Import a comparison as `greater` or `less`; a constant first operand is swapped with the second one."""
    if not isinstance(x, Value):
        return _compare(b, y, x, binary.Less if kind is binary.Greater else binary.Greater)
    x = as_numeric(b, x)
    if (number := scalar_of(y)) is not None:
        return to_numbers(b, apply_unary(b, kind(number), x), "bool")
    if not isinstance(y, Value | Constant):
        raise Unsupported("a comparison with something else than a number or a tensor")
    return to_numbers(b, apply_elementwise(b, kind(), x, as_numeric(b, as_value(b, y))), "bool")


@torch_operator("logical_not", "bitwise_not")
def logical_not(b: Builder, x: Value) -> Value:
    """Import logical negation."""
    return invert(b, _as_mask(b, x))


@torch_operator("logical_and", "bitwise_and", "__and__")
def logical_and(b: Builder, x: Value | Constant, y: Value | Constant) -> Value:
    """Import logical conjunction."""
    for operand, constant in ((x, y), (y, x)):
        if (
            isinstance(operand, Value)
            and isinstance(constant, Constant)
            and bool(single_sample(b, constant).tensor.all())
        ):
            shape = torch.broadcast_shapes(operand.shape, constant.tensor.shape)
            return expand(b, _as_mask(b, operand), shape)
    return replace(mul(b, _as_mask(b, x), _as_mask(b, y)), dtype="bool")


@torch_operator("logical_or", "bitwise_or", "__or__")
def logical_or(b: Builder, x: Value | Constant, y: Value | Constant) -> Value:
    """Import logical disjunction, by De Morgan's law."""
    return invert(b, logical_and(b, invert(b, _as_mask(b, x)), invert(b, _as_mask(b, y))))


def _as_mask(b: Builder, x: Operand) -> Value:
    """Return an operand as a mask of the numbers 1 (nonzero) and 0."""
    if isinstance(x, Constant):
        single = single_sample(b, x)
        return replace(as_value(b, Constant(single.tensor.bool().float(), computed="a mask")), dtype="bool")
    if not isinstance(x, Value):
        raise Unsupported("a number instead of a mask")
    if x.dtype == "bool":
        return x
    if x.dtype not in INTEGER_DTYPES:
        return to_numbers(b, apply_unary(b, binary.Greater(0.0), apply_unary(b, unary.Abs(), x)), "bool")
    return ne(b, x, 0)


FLOAT_TYPES = {torch.float32, torch.float64, torch.float16, torch.bfloat16}
"""Torch's floating-point dtypes."""
INTEGER_TYPES = {torch.int64: "i64", torch.int32: "i32"}
"""archir's integer type by torch dtype."""


@torch_operator("to", "_to_copy", "type_as")
def to(b: Builder, x: Value | Constant, *args: Any, **named: Any) -> Value | Constant:
    """Import the conversion to another dtype. Masks stay as they are, since they are numbers already."""
    target = next((argument for argument in (*args, *named.values()) if isinstance(argument, torch.dtype)), None)
    like = next((argument for argument in args if isinstance(argument, Value | Constant)), None)
    if target is None and like is not None:
        types = {"f32": torch.float32, "bool": torch.bool, "i64": torch.int64, "i32": torch.int32}
        target = like.tensor.dtype if isinstance(like, Constant) else types[like.dtype]
    if target is None:
        return x
    if isinstance(x, Constant):
        return replace(x, tensor=x.tensor.to(target))
    if target is torch.bool:
        return _as_mask(b, x)
    integer_type = INTEGER_TYPES.get(target)
    if x.dtype == "bool":
        return replace(x, dtype=integer_type or "f32")
    if target in FLOAT_TYPES and x.dtype in INTEGER_DTYPES:
        return replace(as_numeric(b, x), dtype="f32")
    if integer_type and x.dtype == "f32":
        raise Unsupported("numbers as integers")
    return x


@torch_operator("argmax")
def argmax(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """Import the position of the largest element along an axis."""
    if dim is None:
        raise Unsupported("a maximum over all samples")
    at = dim % len(x.axes)
    axis = x.axes[at]
    others = base_without_batch(tuple(other for i, other in enumerate(x.axes) if i != at), b.batch)
    if b.batch in axis or not axis:
        raise Unsupported("the largest along the batch")
    x = b.with_base(as_numeric(b, x), (*(other for other in others if other), axis))
    remaining = tuple(() if i == at else other for i, other in enumerate(x.axes))
    axes = remaining if keepdim else (*remaining[:at], *remaining[at + 1 :])
    return Value(b.add(TopPositions(1), b.node(x)), (*x.base[:-1], ()), axes, "i64")


@torch_operator("masked_fill")
def masked_fill(b: Builder, x: Value | Constant, mask: Value | Constant, value: Operand) -> Value | Constant:
    return x if isinstance(mask, Constant) and not bool(mask.tensor.any()) else where(b, mask, value, x)


@torch_operator("where")
def where(b: Builder, mask: Operand, x: Operand, y: Operand) -> Value | Constant:
    """Import the selection of x where a mask is true, and of y elsewhere."""
    if isinstance(mask, Constant) and isinstance(x, Value) and bool(mask.tensor.all()):
        return x
    mask = _as_mask(b, mask)
    first, second = scalar_of(x), scalar_of(y)
    if first is not None and second is not None:
        return _where_numbers(b, mask, first, second)
    return _where_tensors(b, mask, x, y)


def _where_numbers(b: Builder, mask: Value, first: float, second: float) -> Value:
    """Return a tensor of the number `first` where a mask is true, and `second` elsewhere."""
    low, high = sorted((first, second))
    if low <= MASK_THRESHOLD and high == 0:
        hidden = mask if first == low else invert(b, mask)
        return apply_unary(b, unary.Scale(max(low, MASK_VALUE)), hidden, "f32")
    difference, offset = np.float32(first - second), np.float32(second)
    if not np.isfinite(difference) or difference + offset != np.float32(first):
        return _where_tensors(b, mask, first, second)
    scaled = apply_unary(b, unary.Scale(first - second), mask, "f32")
    return apply_unary(b, unary.Shift(second), scaled) if second else scaled


def _where_tensors(b: Builder, mask: Value, x: Operand, y: Operand) -> Value:
    """Return x where a mask is true, and y elsewhere."""
    source = b.node(mask)
    if isinstance(b.graph[source].op, ToNumbers) and b.types[b.graph.operands(source)[0]].dtype == "bool":
        truth = b.graph.operands(source)[0]
    else:
        truth = b.add(binary.Greater(0.5), source)
    x, y = _match_integers(b, x, y), _match_integers(b, y, x)
    return apply_elementwise(
        b, binary.Where(), replace(mask, node=truth), as_value(b, as_tensor(x)), as_value(b, as_tensor(y))
    )


def _match_integers(b: Builder, x: Operand, other: Operand) -> Operand:
    """Convert a number to an integer constant if the other operand has integer elements."""
    number = scalar_of(x)
    integers = isinstance(other, Value) and b.types[b.node(other)].dtype == "i64"
    if not integers or number is None or number != int(number):
        return x
    return Constant(torch.tensor(int(number)), computed="a number")
