"""Upper bounds of integer inputs, inferred from the embedding tables that they index."""

from __future__ import annotations

from archir.ir.graph import Graph, NodeId
from archir.ir.types import TensorType
from archir.ir.typing import Types, infer


def ranged_inputs(graph: Graph, types: Types | None = None) -> dict[str, TensorType]:
    """Return the input types of a graph by name; integer types include their exclusive upper bound
    (`integer_limit`).

    The bound is the minimum over all table lookups that the input reaches, directly or through operations that
    only move values. `types` are the node types (default: inferred).
    """
    types = infer(graph) if types is None else types
    below: dict[NodeId, int] = {}
    for number in reversed([*graph]):
        if number not in types:
            continue
        op, operands = graph[number].op, graph.operands(number)
        operand_types = [types[value] for value in operands]
        creates_values = types[number].is_floating or op.between(types[number], *operand_types) is not None
        for operand, limit in zip(operands, op.limits(*operand_types), strict=True):
            bound_of_result = None if creates_values else below.get(number)
            bounds = [value for value in (limit, bound_of_result, below.get(operand)) if value is not None]
            if bounds and not types[operand].is_floating:
                below[operand] = min(bounds)
    return {
        name: TensorType(types[number].dims, types[number].dtype, types[number].kind, below.get(number))
        for name, number in graph.inputs.items()
    }
