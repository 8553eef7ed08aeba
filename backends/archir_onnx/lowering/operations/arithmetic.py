"""Operations of several tensors."""

from __future__ import annotations

from archir.ops import arithmetic as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers


@lowers(ops.Add)
def add(g: Builder, op: ops.Add, a: str, b: str) -> str:
    return g.node("Add", *g.together(a, b))


@lowers(ops.Sub)
def sub(g: Builder, op: ops.Sub, a: str, b: str) -> str:
    return g.node("Sub", *g.together(a, b))


@lowers(ops.Mul)
def mul(g: Builder, op: ops.Mul, a: str, b: str) -> str:
    return g.node("Mul", *g.together(a, b))


@lowers(ops.Div)
def div(g: Builder, op: ops.Div, a: str, b: str) -> str:
    return g.node("Div", *g.together(a, b))


@lowers(ops.Minimum)
def minimum(g: Builder, op: ops.Minimum, a: str, b: str) -> str:
    return g.node("Min", *g.together(a, b))


@lowers(ops.Maximum)
def maximum(g: Builder, op: ops.Maximum, a: str, b: str) -> str:
    return g.node("Max", *g.together(a, b))


@lowers(ops.Concat)
def concat(g: Builder, op: ops.Concat, *xs: str) -> str:
    axis = g.type.channel_axis if op.axis is None else op.axis % g.type.rank
    return g.node("Concat", *xs, axis=axis + 1) if len(xs) > 1 else xs[0]


@lowers(ops.Matmul)
def matmul(g: Builder, op: ops.Matmul, a: str, b: str) -> str:
    return g.node("MatMul", a, g.transpose(b, 0, 2, 1) if op.transpose else b)
