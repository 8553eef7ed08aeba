"""Import of lookups at computed positions, such as the top-k positions by which tokens select experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from archir.ops import activation as unary
from archir.ops import pool
from archir.ops.lookup import OneHot
from archir.ops.routing import TopK, TopPositions
from archir_torch.importing.builder import Builder, uniform_value
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Unsupported, Value
from archir_torch.importing.operators.elementwise import add, apply_unary, as_value, mul, sub
from archir_torch.importing.operators.layers import embedding
from archir_torch.importing.operators.movement import take_positions, transpose, unsqueeze
from archir_torch.importing.operators.pooling import reduce_axes
from archir_torch.importing.patterns.attention import MASK_VALUE
from archir_torch.importing.rules import torch_operator

MAX_CLASSES = 1024
"""Maximum length of an axis on which lookups use one-hot vectors."""


@torch_operator("gather")
def gather(b: Builder, x: Value | Constant, dim: int, indices: Any, sparse_grad: bool = False) -> Value | Constant:
    """Import the lookup of elements at positions along an axis; the result has the shape of the positions."""
    if isinstance(x, Constant) and (number := uniform_value(x)) is not None:
        filled = torch.full((1,), number, dtype=x.tensor.dtype)
        return Constant(filled.expand(indices.shape), computed="a number")
    if not isinstance(indices, Value):
        raise Unsupported("a lookup by positions")
    x = as_value(b, x)
    at, last = dim % len(x.axes), len(x.axes) - 1
    if at != last:
        return transpose(b, _look_up(b, transpose(b, x, at, last), transpose(b, indices, at, last)), at, last)
    return _look_up(b, x, indices)


def _look_up(b: Builder, x: Value, indices: Value) -> Value:
    """Look up elements of [..., E] at positions [..., k] of the last axis.

    If the positions are those of the k largest elements, the result is a top-k operation; otherwise, it is a product
    with one-hot vectors.
    """
    producer = b.graph[b.node(indices)]
    if isinstance(producer.op, TopPositions) and isinstance(x.node, type(indices.node)):
        (source,) = b.graph.operands(b.node(indices))
        if source == x.node and x.axes[:-1] == indices.axes[:-1] and x.base[:-1] == indices.base[:-1]:
            return replace(indices, node=b.add(TopK(producer.op.k), source), dtype=x.dtype)
    one_hots = one_hot(b, indices, x.shape[-1])
    return reduce_axes(b, mul(b, unsqueeze(b, x, -2), one_hots), [-1], False, None, pool.SumOver)


def one_hot(b: Builder, indices: Value, classes: int) -> Value:
    """Return one-hot vectors [..., k, classes] of positions [..., k]."""
    if len(indices.base) > 1:
        indices = b.with_base(indices, (tuple(atom for axis in indices.base for atom in axis),))
    node = b.node(indices)
    if b.types[node].is_floating or classes > MAX_CLASSES:
        raise Unsupported("a lookup by positions")
    unit = Constant(torch.ones(()), computed="a number")
    last_axis = (Atom(classes),) if classes > 1 else ()
    return Value(
        b.add_layer(OneHot(classes), {"one": unit}, node), (*indices.base, last_axis), (*indices.axes, last_axis)
    )


@torch_operator("scatter")
def scatter(b: Builder, x: Value | Constant, dim: int, indices: Any, source: Any, **named: Any) -> Value:
    """Import writes at distinct positions of the last axis, such as the positions of the largest elements."""
    if named.get("reduce") is not None or not isinstance(indices, Value):
        raise Unsupported("a scatter with a reduction, or at constant positions")
    if not isinstance(b.graph[b.node(indices)].op, TopPositions):
        raise Unsupported("a scatter at positions that may be equal")
    fill = uniform_value(x) if isinstance(x, Constant) else None
    x = as_value(b, x)
    at, last = dim % len(x.axes), len(x.axes) - 1
    if at != last:
        raise Unsupported("a scatter along another axis than the last one")
    one_hots = one_hot(b, indices, x.shape[-1])
    is_written = reduce_axes(b, one_hots, [-2], False, None, pool.SumOver)
    if isinstance(source, Value):
        new_values = reduce_axes(b, mul(b, one_hots, unsqueeze(b, source, -1)), [-2], False, None, pool.SumOver)
        if fill is not None:  # infinity times 0 would be nan
            fill = max(fill, MASK_VALUE)
            return add(b, add(b, mul(b, is_written, -fill), fill), new_values)
        return add(b, sub(b, x, mul(b, x, is_written)), new_values)
    number = uniform_value(source) if isinstance(source, Constant) else float(source)
    if number is None:
        raise Unsupported("a scatter of a constant tensor")
    if number <= MASK_VALUE:
        return add(b, x, apply_unary(b, unary.Scale(MASK_VALUE), is_written))
    old_value = uniform_value(x.node) if isinstance(x.node, Constant) else None
    if old_value is not None:
        return add(b, mul(b, is_written, number - old_value), old_value)
    return add(b, sub(b, x, mul(b, x, is_written)), mul(b, is_written, number))


@torch_operator("index_select")
def index_select(b: Builder, x: Value | Constant, dim: int, indices: Any) -> Value:
    """Import the selection of positions of an axis.

    Computed positions are supported only for the rows of a constant table.
    """
    if isinstance(indices, Constant):
        return take_positions(b, as_value(b, x), dim, indices)
    if not isinstance(x, Constant) or dim % x.tensor.dim() or x.tensor.dim() != 2:
        raise Unsupported("a lookup by positions")
    return embedding(b, x, indices)
