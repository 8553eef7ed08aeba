"""Lowering of arithmetic, comparisons, concatenation and matrix products."""

from __future__ import annotations

from archir.ir.op import Op
from archir.ops import arithmetic as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers

_OPERATORS: dict[type[Op], str] = {
    ops.Add: "Add",
    ops.Sub: "Sub",
    ops.Mul: "Mul",
    ops.Div: "Div",
    ops.Minimum: "Min",
    ops.Maximum: "Max",
}
"""ONNX operator by operation, for element-wise operations with two operands."""


@lowers(*_OPERATORS)
def elementwise(g: Builder, op: Op, a: str, b: str) -> str:
    """Lower an element-wise operation with two operands to the corresponding ONNX operator."""
    return g.node(_OPERATORS[type(op)], *g.broadcast_operands(a, b))


@lowers(ops.Greater, ops.Less)
def comparison(g: Builder, op: ops.Greater, a: str, b: str | None = None) -> str:
    """Lower an element-wise comparison with a tensor or a number."""
    pair = (a, g.number(op.than)) if b is None else g.broadcast_operands(a, b)
    return g.node("Less" if isinstance(op, ops.Less) else "Greater", *pair)


@lowers(ops.Where)
def where(g: Builder, op: ops.Where, mask: str, a: str, b: str) -> str:
    """Lower the element-wise selection between two tensors by a mask."""
    return g.node("Where", mask, a, b)


@lowers(ops.Concat)
def concat(g: Builder, op: ops.Concat, *xs: str) -> str:
    """Lower concatenation; the default axis is that of channels."""
    axis = g.type.channel_axis if op.axis is None else op.axis % g.type.rank
    return g.node("Concat", *xs, axis=axis + 1) if len(xs) > 1 else xs[0]


@lowers(ops.Matmul)
def matmul(g: Builder, op: ops.Matmul, a: str, b: str) -> str:
    """Lower a matrix product, optionally with a transposed second operand."""
    rank = g.type.rank + 1
    return g.node("MatMul", a, g.transpose(b, *range(rank - 2), rank - 1, rank - 2) if op.transpose else b)
