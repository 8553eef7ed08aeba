"""Choosing by score."""

from __future__ import annotations

from archir.ops import routing as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers


@lowers(ops.TopK, ops.TopPositions)
def top_k(g: Builder, op: ops.TopK, x: str) -> str:
    """Of equal numbers, `TopK` takes the first."""
    values, positions = g.nodes_of("TopK", x, g.constant([op.k]), outputs=2)
    return positions if isinstance(op, ops.TopPositions) else values


@lowers(ops.ExpertLinear)
def expert_linear(
    g: Builder, op: ops.ExpertLinear, x: str, chosen: str, *, weight: str, bias: str | None = None
) -> str:
    """Each expert maps the rows that chose it, and no others; they are put back where they belong."""
    apart = g.types[0].shape[0] != g.types[1].shape[0]
    if apart:
        x = g.node("Reshape", x, g.node("Concat", g.node("Shape", chosen), g.constant([-1]), axis=0))
    found, mapped = [], []
    for expert in range(op.experts):
        met = g.node("Equal", chosen, g.constant(expert))
        places = g.transpose(g.node("NonZero", met), 1, 0)
        rows = g.node("GatherND", x, places if apart else g.slice(places, 1, 0, 2))
        pair = [None if whole is None else g.position(whole, expert) for whole in (weight, bias)]
        mapped.append(g.node("Gemm", rows, *pair, transB=1))
        found.append(places)
    shape = g.node("Concat", g.node("Shape", chosen), g.constant([op.channels]), axis=0)
    places, rows = (g.node("Concat", *parts, axis=0) for parts in (found, mapped))
    together = g.node("ScatterND", g.node("Expand", g.number(0), shape), places, rows)
    return g.reshape(together, g.tokens(g.type), op.channels)


@lowers(ops.CombineExperts)
def combine_experts(g: Builder, op: ops.CombineExperts, x: str, gates: str) -> str:
    rows = g.node("Reshape", x, g.node("Concat", g.node("Shape", gates), g.constant([-1]), axis=0))
    product = g.node("MatMul", g.node("Unsqueeze", gates, g.constant([2])), rows)
    return g.node("Squeeze", product, g.constant([2]))
