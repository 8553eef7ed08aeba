"""Dead nodes."""

from __future__ import annotations

from collections.abc import Collection, Container, Set

from archir.diagrams.conditions import compatible
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.needs import needs, surely_needed
from archir.ir.structure import Select
from archir.ir.typing import hand_on, infer


def prune(graph: Graph) -> Graph:
    """Drop the nodes that no output needs, whatever is chosen. `%1 = relu(%0); output y = %0` -> `output y = %0`.

    Inputs stay: what a network is called with does not depend on what it does with it.
    """
    needed = surely_needed(graph)
    return _keeping(graph, (needs(graph).keys() if needed is None else needed) | set(graph.inputs.values()))


def prune_excluded(graph: Graph, suspects: Set[NodeId]) -> Graph:
    """Drop the nodes that outputs need only where the graph's constraints rule it out, and that are wrong there.

    `suspects` are the nodes that constraints had to excuse where they were made.
    """
    needed = needs(graph) if suspects else {}
    conditions = {needed[number] for number in suspects & needed.keys()}
    if all(compatible(condition, *graph.given) for condition in conditions):
        return graph
    return _keeping(graph, infer(graph).keys())


def _keeping(graph: Graph, needed: Collection[NodeId]) -> Graph:
    if len(needed) == len(graph):
        return graph
    copy = graph.empty()
    moved: dict[NodeId, NodeId] = {}
    for number in graph:
        if number in needed:
            node, operands = _reading(graph[number], graph.operands(number), needed)
            moved[number] = copy.add(node, *(moved[operand] for operand in operands))
            if number in graph.made:
                copy.made[moved[number]] = graph.made[number]
    copy.outputs = {name: moved[number] for name, number in graph.outputs.items()}
    hand_on(graph, copy, moved)
    return copy


def _reading(node: Node, operands: tuple[NodeId, ...], needed: Container[NodeId]) -> tuple[Node, tuple[NodeId, ...]]:
    """A node with those operands that are needed. Only a `select` can have others: ones that are never chosen where
    it is needed itself."""
    op, left = node.op, [operand for operand in operands if operand in needed]
    if not isinstance(op, Select) or len(left) == len(operands):
        return node, operands
    cases = tuple(left.index(operands[position]) if operands[position] in needed else 0 for position in op.cases)
    return Node(Select(op.choice, cases), node.span, node.scope), tuple(left)
