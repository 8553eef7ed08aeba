"""What the integers of a network's inputs may be: they are looked up, and nothing has more rows than it has."""

from __future__ import annotations

from archir.ir.graph import Graph, NodeId
from archir.ir.types import TensorType
from archir.ir.typing import Types, infer


def ranged_inputs(graph: Graph, types: Types | None = None) -> dict[str, TensorType]:
    """The types of the inputs of a graph without choices by name; those of integers say what these are below.

    That is the least that any operation has which looks something up by them, as they are or after operations that
    only move them. Types are those given, by default those inferred.
    """
    types = infer(graph) if types is None else types
    below: dict[NodeId, int] = {}
    for number in reversed([*graph]):
        if number not in types:
            continue
        op, operands = graph[number].op, graph.operands(number)
        given = [types[one] for one in operands]
        anew = types[number].numeric or op.between(types[number], *given) is not None
        for operand, limit in zip(operands, op.limits(*given), strict=True):
            moved = None if anew else below.get(number)
            known = [one for one in (limit, moved, below.get(operand)) if one is not None]
            if known and not types[operand].numeric:
                below[operand] = min(known)
    return {
        name: TensorType(types[number].dims, types[number].dtype, types[number].kind, below.get(number))
        for name, number in graph.inputs.items()
    }
