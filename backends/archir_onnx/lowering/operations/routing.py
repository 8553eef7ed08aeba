"""Lowering of top-k selection and mixture-of-experts layers."""

from __future__ import annotations

from archir.ops import routing as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers


@lowers(ops.TopK, ops.TopPositions)
def top_k(g: Builder, op: ops.TopK, x: str) -> str:
    """Lower the k largest values or their positions. Among equal values, ONNX's `TopK` prefers the first."""
    values, positions = g.multi_output_node("TopK", x, g.constant([op.k]), outputs=2)
    return positions if isinstance(op, ops.TopPositions) else values


@lowers(ops.ExpertLinear)
def expert_linear(
    g: Builder, op: ops.ExpertLinear, x: str, chosen: str, *, weight: str, bias: str | None = None
) -> str:
    """Lower a linear layer with experts: each expert is applied only to the rows that selected it.

    The results are scattered back to the positions of their rows.
    """
    is_routed = g.types[0].shape[0] != g.types[1].shape[0]
    if is_routed:
        x = g.node("Reshape", x, g.node("Concat", g.node("Shape", chosen), g.constant([-1]), axis=0))
    positions_of, mapped = [], []
    for expert in range(op.experts):
        is_selected = g.node("Equal", chosen, g.constant(expert))
        positions = g.transpose(g.node("NonZero", is_selected), 1, 0)
        rows = g.node("GatherND", x, positions if is_routed else g.slice(positions, 1, 0, 2))
        expert_weights = [None if weights is None else g.weight_slice(weights, expert) for weights in (weight, bias)]
        mapped.append(g.node("Gemm", rows, *expert_weights, transB=1))
        positions_of.append(positions)
    shape = g.node("Concat", g.node("Shape", chosen), g.constant([op.channels]), axis=0)
    positions, rows = (g.node("Concat", *parts, axis=0) for parts in (positions_of, mapped))
    scattered = g.node("ScatterND", g.node("Expand", g.number(0), shape), positions, rows)
    return g.reshape(scattered, g.tokens(g.type), op.channels)


@lowers(ops.CombineExperts)
def combine_experts(g: Builder, op: ops.CombineExperts, x: str, gates: str) -> str:
    """Lower the sum of the experts' outputs, weighted by their gates."""
    rows = g.node("Reshape", x, g.node("Concat", g.node("Shape", gates), g.constant([-1]), axis=0))
    product = g.node("MatMul", g.node("Unsqueeze", gates, g.constant([2])), rows)
    return g.node("Squeeze", product, g.constant([2]))
