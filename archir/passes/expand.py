"""Expansion of composite operations into simpler operations."""

from __future__ import annotations

from archir.ir.graph import Graph, Node, NodeId, rebuild
from archir.ir.op import Composite, Op
from archir.ir.verify import checked_types
from archir.passes.prune import prune


def expand(graph: Graph) -> Graph:
    """Replace composite operations by the simpler operations that they expand into, unless these depend on a choice.

    `%3 = calibrate(%0, %1, %2)`, with a feature %1 and a gate %2 -> `%3 = mul(%1, %2); %4 = add(%1, %3)`.
    """
    graph = prune(graph)
    if not any(isinstance(graph[number].op, Composite) for number in graph):
        return graph
    graph_types = checked_types(graph)
    visited = iter(graph)

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        types = [graph_types[operand] for operand in graph.operands(next(visited))]
        op = node.op
        if not isinstance(op, Composite) or op.varying_attributes or any(x.is_varying for x in types):
            return out.add(node, *operands)

        def add(op: Op, *operands: NodeId) -> NodeId:
            return out.add(Node(op, node.span, node.scope), *operands)

        expansion: NodeId = op.expand(add, operands, types)
        return expansion

    return prune(rebuild(graph, step))
