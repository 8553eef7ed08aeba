"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable

from archir.ir.graph import Graph, Node, NodeId, rebuild
from archir.ir.reachability import reachability_conditions
from archir.ir.verify import checked_types, has_parameters
from archir.ops.norm import BatchNorm
from archir.passes.prune import prune


def cse(graph: Graph) -> Graph:
    """Merge nodes that apply the same operation, with the same weights, to the same operands.

    `%1 = relu(%0); %2 = relu(%0); %3 = add(%1, %2)` -> `%1 = relu(%0); %2 = add(%1, %1)`. Two kinds of operations are
    never merged, even if their scopes are equal because a block is called repeatedly: random operations, because each
    samples its own numbers, and batch norms, because each call updates the running statistics.
    """
    graph = prune(graph)
    types, needed = checked_types(graph), reachability_conditions(graph)
    visited = iter(graph)
    merged: dict[Hashable, NodeId] = {}

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        number = next(visited)
        if node.op.random or isinstance(node.op, BatchNorm):
            return out.add(node, *operands)
        operand_types = [types[operand] for operand in graph.operands(number)]
        scope = node.scope if has_parameters(node.op, operand_types, needed.get(number, True)) else ""
        key = (node.op, tuple(sorted(operands)) if node.op.commutative else operands, scope)
        if key not in merged:
            merged[key] = out.add(node, *operands)
        return merged[key]

    return rebuild(graph, step)
