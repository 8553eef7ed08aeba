"""Common subexpressions."""

from __future__ import annotations

from collections.abc import Hashable

from archir.ir.graph import Graph, Node, NodeId, rebuild
from archir.ir.needs import needs
from archir.ir.verify import typed, weighs
from archir.ops.norm import BatchNorm
from archir.passes.prune import prune


def cse(graph: Graph) -> Graph:
    """Merge nodes that compute the same from the same operands with the same weights.

    `%1 = relu(%0); %2 = relu(%0); %3 = add(%1, %2)` -> `%1 = relu(%0); %2 = add(%1, %1)`.
    Not merged, even where calls of a block share their scopes: random operations, each of which draws its own numbers,
    and batch norms, each call of which updates the statistics.
    """
    graph = prune(graph)
    types, needed = typed(graph), needs(graph)
    visited = iter(graph)
    seen: dict[Hashable, NodeId] = {}

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        number = next(visited)
        if node.op.random or isinstance(node.op, BatchNorm):
            return out.add(node, *operands)
        read = [types[operand] for operand in graph.operands(number)]
        scope = node.scope if weighs(node.op, read, needed.get(number, True)) else ""
        key = (node.op, tuple(sorted(operands)) if node.op.commutative else operands, scope)
        if key not in seen:
            seen[key] = out.add(node, *operands)
        return seen[key]

    return rebuild(graph, step)
