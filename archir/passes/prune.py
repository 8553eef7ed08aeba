"""Dead nodes."""

from __future__ import annotations

from archir.ir.graph import Graph, NodeId, needs


def prune(graph: Graph) -> Graph:
    """Drop the nodes that no output needs, whatever is chosen. `%1 = relu(%0); output y = %0` -> `output y = %0`."""
    needed = needs(graph)
    if len(needed) == len(graph):
        return graph
    copy = graph.empty()
    moved: dict[NodeId, NodeId] = {}
    for number in graph:
        if number in needed:
            moved[number] = copy.add(graph[number], *(moved[operand] for operand in graph.operands(number)))
    copy.outputs = {name: moved[number] for name, number in graph.outputs.items()}
    return copy
