"""Common subexpressions."""

from __future__ import annotations

from collections.abc import Hashable

from archir.ir.graph import Graph, Node, NodeId, rebuild
from archir.ir.needs import needs
from archir.ir.verify import typed, weighs
from archir.passes.prune import prune


def cse(graph: Graph) -> Graph:
    """Merge nodes that compute the same from the same operands with the same weights.

    `%1 = relu(%0); %2 = relu(%0); %3 = add(%1, %2)` -> `%1 = relu(%0); %2 = add(%1, %1)`.
    Random operations are like ones with weights: two that stand at different places draw different numbers.
    """
    graph = prune(graph)
    own = _own(graph)
    visited = iter(graph)
    seen: dict[Hashable, NodeId] = {}

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        place = (node.scope or len(out)) if next(visited) in own else ""
        key = (node.op, tuple(sorted(operands)) if node.op.commutative else operands, place)
        if key not in seen:
            seen[key] = out.add(node, *operands)
        return seen[key]

    return rebuild(graph, step)


def _own(graph: Graph) -> set[NodeId]:
    """The nodes that have something of their own: weights, or the numbers they draw."""
    types, needed = typed(graph), needs(graph)
    return {
        number
        for number in graph
        if graph[number].op.random
        or weighs(graph[number].op, [types[operand] for operand in graph.operands(number)], needed.get(number, True))
    }
