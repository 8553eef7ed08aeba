"""Operations of several tensors."""

from __future__ import annotations

from archir.ir.op import Op
from archir.ops import arithmetic as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers

_SAME_NAME: dict[type[Op], str] = {
    ops.Add: "Add",
    ops.Sub: "Sub",
    ops.Mul: "Mul",
    ops.Div: "Div",
    ops.Minimum: "Min",
    ops.Maximum: "Max",
}


@lowers(*_SAME_NAME)
def same_name(g: Builder, op: Op, a: str, b: str) -> str:
    return g.node(_SAME_NAME[type(op)], *g.together(a, b))


@lowers(ops.Greater, ops.Less)
def compared(g: Builder, op: ops.Greater, a: str, b: str | None = None) -> str:
    pair = (a, g.number(op.than)) if b is None else g.together(a, b)
    return g.node("Less" if isinstance(op, ops.Less) else "Greater", *pair)


@lowers(ops.Where)
def where(g: Builder, op: ops.Where, mask: str, a: str, b: str) -> str:
    return g.node("Where", mask, a, b)


@lowers(ops.Concat)
def concat(g: Builder, op: ops.Concat, *xs: str) -> str:
    axis = g.type.channel_axis if op.axis is None else op.axis % g.type.rank
    return g.node("Concat", *xs, axis=axis + 1) if len(xs) > 1 else xs[0]


@lowers(ops.Matmul)
def matmul(g: Builder, op: ops.Matmul, a: str, b: str) -> str:
    rank = g.type.rank + 1
    return g.node("MatMul", a, g.transpose(b, *range(rank - 2), rank - 1, rank - 2) if op.transpose else b)
