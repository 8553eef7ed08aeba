"""Masks: truth values that depend on inputs, as numbers that are 1 where they hold and 0 elsewhere."""

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
from archir_torch.importing.layout import Atom, Unsupported, Value, plain
from archir_torch.importing.operators.elementwise import (
    Operand,
    add,
    computed,
    constant_number,
    for_one,
    mapped,
    mul,
    numbers,
    tensor_of,
    together,
    valued,
)
from archir_torch.importing.operators.movement import expand
from archir_torch.importing.rules import understands

LOWEST = float(torch.finfo(torch.float32).min) / 2
"""What hides a position: what is added to it stays finite."""
HIDDEN = -1e4
"""Masks of networks hide positions with numbers below this one."""
INTEGERS = ("i64", "i32")


def inverted(b: Builder, mask: Value) -> Value:
    """1 where a mask is 0; of what was inverted, what it was before."""
    shifted = b.graph[b.node(mask)].op
    if shifted == unary.Shift(1.0):
        (before,) = b.graph.operands(b.node(mask))
        if b.graph[before].op == unary.Scale(-1.0):
            return replace(mask, node=b.graph.operands(before)[0])
    return mapped(b, unary.Shift(1.0), mapped(b, unary.Scale(-1.0), mask))


def hiding(b: Builder, shown: Value) -> Value:
    """What is added to logits: nothing where a mask holds, so little elsewhere that they do not count."""
    return mapped(b, unary.Scale(LOWEST), inverted(b, shown), "f32")


@understands("eq")
def equal(b: Builder, x: Operand, y: Operand) -> Value:
    if not isinstance(x, Value):
        x, y = y, x
    if isinstance(x, Value) and isinstance(y, Constant) and (classes := _classes(b, x, y)):
        made = b.laid(x, (x.axes[1],)) if len(x.axes) == 3 else b.laid(x, ())
        one = Constant(torch.ones(()), computed="a number")
        last = (Atom(classes),)
        node = b.layer(OneHot(classes), {"one": one}, b.node(made))
        return Value(node, (*made.base, last), (*x.axes[:-1], last), "bool")
    number = constant_number(y)
    if not isinstance(x, Value) or number is None or number != int(number):
        raise Unsupported("a comparison of two tensors, or with no integer")
    if x.dtype == "bool":
        return x if number == 1 else inverted(b, x)
    if x.dtype not in INTEGERS:
        raise Unsupported("an equality of numbers that are computed")
    if b.types[b.node(x)].numeric:  # integers that were computed with
        apart = mapped(b, unary.Power(2.0), add(b, x, -number))
        return numbers(b, mapped(b, binary.Less(0.5), apart), "bool")
    return numbers(b, mapped(b, Equal(int(number)), x), "bool")


def _classes(b: Builder, x: Value, y: Constant) -> int:
    """Of integers compared with 0, 1, ... along a last axis, how many these are; else 0."""
    numbers = for_one(b, y).tensor
    plain = x.dtype in INTEGERS and not b.types[b.node(x)].numeric and x.axes[0] == (b.batch,) and x.axes[-1] == ()
    if not plain or len(x.axes) not in (2, 3) or numbers.numel() < 2 or numbers.shape[-1] != numbers.numel():
        return 0
    same = torch.equal(numbers.reshape(-1).long(), torch.arange(numbers.numel()))
    return numbers.numel() if same and numbers.dim() <= len(x.axes) else 0


@understands("ne", "not_equal")
def unequal(b: Builder, x: Operand, y: Operand) -> Value:
    return inverted(b, equal(b, x, y))


@understands("gt", "greater")
def greater(b: Builder, x: Operand, y: Operand) -> Value:
    return _compared(b, x, y, binary.Greater)


@understands("lt", "less")
def less(b: Builder, x: Operand, y: Operand) -> Value:
    return _compared(b, x, y, binary.Less)


@understands("ge", "greater_equal")
def at_least(b: Builder, x: Operand, y: Operand) -> Value:
    return inverted(b, less(b, x, y))


@understands("le", "less_equal")
def at_most(b: Builder, x: Operand, y: Operand) -> Value:
    return inverted(b, greater(b, x, y))


def _compared(b: Builder, x: Operand, y: Operand, kind: type[binary.Greater]) -> Value:
    if not isinstance(x, Value):
        return _compared(b, y, x, binary.Less if kind is binary.Greater else binary.Greater)
    x = computed(b, x)
    if (number := constant_number(y)) is not None:
        return numbers(b, mapped(b, kind(number), x), "bool")
    if not isinstance(y, Value | Constant):
        raise Unsupported("a comparison with no number")
    return numbers(b, together(b, kind(), x, computed(b, valued(b, y))), "bool")


@understands("logical_not", "bitwise_not")
def negated(b: Builder, x: Value) -> Value:
    return inverted(b, _truth(b, x))


@understands("logical_and", "bitwise_and", "__and__")
def both(b: Builder, x: Value | Constant, y: Value | Constant) -> Value:
    for one, other in ((x, y), (y, x)):
        if isinstance(one, Value) and isinstance(other, Constant) and bool(for_one(b, other).tensor.all()):
            shape = torch.broadcast_shapes(one.shape, other.tensor.shape)
            return expand(b, _truth(b, one), shape)
    return replace(mul(b, _truth(b, x), _truth(b, y)), dtype="bool")


@understands("logical_or", "bitwise_or", "__or__")
def either(b: Builder, x: Value | Constant, y: Value | Constant) -> Value:
    return inverted(b, both(b, inverted(b, _truth(b, x)), inverted(b, _truth(b, y))))


def _truth(b: Builder, x: Operand) -> Value:
    """As 1 and 0."""
    if isinstance(x, Constant):
        held = for_one(b, x)
        return replace(valued(b, Constant(held.tensor.bool().float(), computed="a mask")), dtype="bool")
    if not isinstance(x, Value):
        raise Unsupported("a number where a mask should be")
    if x.dtype == "bool":
        return x
    if x.dtype not in INTEGERS:
        return numbers(b, mapped(b, binary.Greater(0.0), mapped(b, unary.Abs(), x)), "bool")
    return unequal(b, x, 0)


WIDE = {torch.float32, torch.float64, torch.float16, torch.bfloat16}
WHOLE = {torch.int64: "i64", torch.int32: "i32"}


@understands("to", "_to_copy", "type_as")
def to(b: Builder, x: Value | Constant, *args: Any, **named: Any) -> Value | Constant:
    """In another type. Masks are numbers already."""
    wanted = next((one for one in (*args, *named.values()) if isinstance(one, torch.dtype)), None)
    like = next((one for one in args if isinstance(one, Value | Constant)), None)
    if wanted is None and like is not None:
        types = {"f32": torch.float32, "bool": torch.bool, "i64": torch.int64, "i32": torch.int32}
        wanted = like.tensor.dtype if isinstance(like, Constant) else types[like.dtype]
    if wanted is None:
        return x
    if isinstance(x, Constant):
        return replace(x, tensor=x.tensor.to(wanted))
    if wanted is torch.bool:
        return _truth(b, x)
    whole = WHOLE.get(wanted)
    if x.dtype == "bool":
        return replace(x, dtype=whole or "f32")
    if wanted in WIDE and x.dtype in INTEGERS:
        return replace(computed(b, x), dtype="f32")
    if whole and x.dtype == "f32":
        raise Unsupported("numbers as integers")
    return x


@understands("argmax")
def argmax(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    if dim is None:
        raise Unsupported("the largest number of all samples")
    at = dim % len(x.axes)
    axis = x.axes[at]
    others = plain(tuple(one for i, one in enumerate(x.axes) if i != at), b.batch)
    if b.batch in axis or not axis:
        raise Unsupported("the largest along the batch")
    x = b.laid(computed(b, x), (*(one for one in others if one), axis))
    left = tuple(() if i == at else one for i, one in enumerate(x.axes))
    axes = left if keepdim else (*left[:at], *left[at + 1 :])
    return Value(b.add(TopPositions(1), b.node(x)), (*x.base[:-1], ()), axes, "i64")


@understands("masked_fill")
def masked_fill(b: Builder, x: Value | Constant, mask: Value | Constant, value: Operand) -> Value | Constant:
    return x if isinstance(mask, Constant) and not bool(mask.tensor.any()) else where(b, mask, value, x)


@understands("where")
def where(b: Builder, mask: Operand, x: Operand, y: Operand) -> Value | Constant:
    if isinstance(mask, Constant) and isinstance(x, Value) and bool(mask.tensor.all()):
        return x
    mask = _truth(b, mask)
    one, other = constant_number(x), constant_number(y)
    if one is not None and other is not None:
        return _two(b, mask, one, other)
    return _chosen(b, mask, x, y)


def _two(b: Builder, mask: Value, one: float, other: float) -> Value:
    """One number where a mask holds, the other elsewhere."""
    low, high = sorted((one, other))
    if low <= HIDDEN and high == 0:
        hidden = mask if one == low else inverted(b, mask)
        return mapped(b, unary.Scale(max(low, LOWEST)), hidden, "f32")
    apart, shown = np.float32(one - other), np.float32(other)
    if not np.isfinite(apart) or apart + shown != np.float32(one):
        return _chosen(b, mask, one, other)
    made = mapped(b, unary.Scale(one - other), mask, "f32")
    return mapped(b, unary.Shift(other), made) if other else made


def _chosen(b: Builder, mask: Value, x: Operand, y: Operand) -> Value:
    """One tensor where a mask holds, the other elsewhere."""
    source = b.node(mask)
    if isinstance(b.graph[source].op, ToNumbers) and b.types[b.graph.operands(source)[0]].dtype == "bool":
        truth = b.graph.operands(source)[0]
    else:
        truth = b.add(binary.Greater(0.5), source)
    x, y = _alike(b, x, y), _alike(b, y, x)
    return together(b, binary.Where(), replace(mask, node=truth), valued(b, tensor_of(x)), valued(b, tensor_of(y)))


def _alike(b: Builder, x: Operand, other: Operand) -> Operand:
    """A number beside integers is an integer."""
    number = constant_number(x)
    integers = isinstance(other, Value) and b.types[b.node(other)].dtype == "i64"
    if not integers or number is None or number != int(number):
        return x
    return Constant(torch.tensor(int(number)), computed="a number")
