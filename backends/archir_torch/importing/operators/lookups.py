"""Numbers at positions that are computed: of the largest ones, say, by which tokens choose experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from archir.ops import activation as unary
from archir.ops import pool
from archir.ops.lookup import OneHot
from archir.ops.routing import TopK, TopPositions
from archir_torch.importing.builder import Builder, number_of
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Unsupported, Value
from archir_torch.importing.operators.elementwise import add, mapped, mul, sub, valued
from archir_torch.importing.operators.layers import embedding
from archir_torch.importing.operators.masks import LOWEST
from archir_torch.importing.operators.movement import positions, transpose, unsqueeze
from archir_torch.importing.operators.pooling import over
from archir_torch.importing.rules import understands

MOST_CLASSES = 1024
"""Positions of an axis, each of which is compared."""


@understands("gather")
def gather(b: Builder, x: Value | Constant, dim: int, places: Any, sparse_grad: bool = False) -> Value | Constant:
    """Along an axis, those of the positions that lie beside."""
    if isinstance(x, Constant) and (number := number_of(x)) is not None:
        filled = torch.full((1,), number, dtype=x.tensor.dtype)
        return Constant(filled.expand(places.shape), computed="a number")
    if not isinstance(places, Value):
        raise Unsupported("a lookup by positions")
    x = valued(b, x)
    at, last = dim % len(x.axes), len(x.axes) - 1
    if at != last:
        return transpose(b, _chosen(b, transpose(b, x, at, last), transpose(b, places, at, last)), at, last)
    return _chosen(b, x, places)


def _chosen(b: Builder, x: Value, places: Value) -> Value:
    """Of [..., E] at positions [..., k]: the largest k if they are that, else a sum of all with 1 and 0."""
    ranked = b.graph[b.node(places)]
    if isinstance(ranked.op, TopPositions) and isinstance(x.node, type(places.node)):
        (source,) = b.graph.operands(b.node(places))
        if source == x.node and x.axes[:-1] == places.axes[:-1] and x.base[:-1] == places.base[:-1]:
            return replace(places, node=b.add(TopK(ranked.op.k), source), dtype=x.dtype)
    hot = one_hot(b, places, x.shape[-1])
    return over(b, mul(b, unsqueeze(b, x, -2), hot), [-1], False, None, pool.SumOver)


def one_hot(b: Builder, places: Value, classes: int) -> Value:
    """1 at positions, 0 elsewhere: [..., k, classes] of [..., k]."""
    if len(places.base) > 1:
        places = b.laid(places, (tuple(atom for axis in places.base for atom in axis),))
    node = b.node(places)
    if b.types[node].numeric or classes > MOST_CLASSES:
        raise Unsupported("a lookup by positions")
    one = Constant(torch.ones(()), computed="a number")
    made = (Atom(classes),) if classes > 1 else ()
    return Value(b.layer(OneHot(classes), {"one": one}, node), (*places.base, made), (*places.axes, made))


@understands("scatter")
def scatter(b: Builder, x: Value | Constant, dim: int, places: Any, source: Any, **named: Any) -> Value:
    """Numbers put at positions that differ from each other, as those of the largest numbers do."""
    if named.get("reduce") is not None or not isinstance(places, Value):
        raise Unsupported("numbers put at positions")
    if not isinstance(b.graph[b.node(places)].op, TopPositions):
        raise Unsupported("numbers put at positions that may be the same")
    filled = number_of(x) if isinstance(x, Constant) else None
    x = valued(b, x)
    at, last = dim % len(x.axes), len(x.axes) - 1
    if at != last:
        raise Unsupported("numbers put at positions of an axis that is not the last one")
    hot = one_hot(b, places, x.shape[-1])
    put = over(b, hot, [-2], False, None, pool.SumOver)
    if isinstance(source, Value):
        given = over(b, mul(b, hot, unsqueeze(b, source, -1)), [-2], False, None, pool.SumOver)
        if filled is not None:  # infinity has no product
            filled = max(filled, LOWEST)
            return add(b, add(b, mul(b, put, -filled), filled), given)
        return add(b, sub(b, x, mul(b, x, put)), given)
    number = number_of(source) if isinstance(source, Constant) else float(source)
    if number is None:
        raise Unsupported("numbers put at positions")
    if number <= LOWEST:
        return add(b, x, mapped(b, unary.Scale(LOWEST), put))
    before = number_of(x.node) if isinstance(x.node, Constant) else None
    if before is not None:
        return add(b, mul(b, put, number - before), before)
    return add(b, sub(b, x, mul(b, x, put)), mul(b, put, number))


@understands("index_select")
def index_select(b: Builder, x: Value | Constant, dim: int, places: Any) -> Value:
    """Positions of an axis. Where they are computed, rows of a table."""
    if isinstance(places, Constant):
        return positions(b, valued(b, x), dim, places)
    if not isinstance(x, Constant) or dim % x.tensor.dim() or x.tensor.dim() != 2:
        raise Unsupported("a lookup by positions")
    return embedding(b, x, places)
