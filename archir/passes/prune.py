"""Removal of dead nodes."""

from __future__ import annotations

from collections.abc import Collection, Container, Set

from archir.diagrams.conditions import may_hold_together
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.reachability import reachability_conditions, reachable_nodes
from archir.ir.structure import Select
from archir.ir.typing import copy_types, infer


def prune(graph: Graph) -> Graph:
    """Drop the nodes that no output needs, whatever the outcomes of the choices.

    `%1 = relu(%0); output y = %0` -> `output y = %0`. Inputs are kept, so that the signature of the network does not
    change.
    """
    needed = reachable_nodes(graph)
    return _with_nodes(
        graph, (reachability_conditions(graph).keys() if needed is None else needed) | set(graph.inputs.values())
    )


def prune_excluded(graph: Graph, suspects: Set[NodeId]) -> Graph:
    """Drop ill-typed nodes that outputs need only in architectures that the constraints exclude.

    `suspects` are the nodes with type errors that were ignored during elaboration because constraints exclude them.
    """
    needed = reachability_conditions(graph) if suspects else {}
    conditions = {needed[number] for number in suspects & needed.keys()}
    if all(may_hold_together(condition, *graph.assumptions) for condition in conditions):
        return graph
    return _with_nodes(graph, infer(graph).keys())


def _with_nodes(graph: Graph, needed: Collection[NodeId]) -> Graph:
    """Return a copy of the graph that contains only the needed nodes."""
    if len(needed) == len(graph):
        return graph
    copy = graph.empty_copy()
    copies: dict[NodeId, NodeId] = {}
    for number in graph:
        if number in needed:
            node, operands = _with_needed_operands(graph[number], graph.operands(number), needed)
            copies[number] = copy.add(node, *(copies[operand] for operand in operands))
            if number in graph.creation_conditions:
                copy.creation_conditions[copies[number]] = graph.creation_conditions[number]
    copy.outputs = {name: copies[number] for name, number in graph.outputs.items()}
    copy_types(graph, copy, copies)
    return copy


def _with_needed_operands(
    node: Node, operands: tuple[NodeId, ...], needed: Container[NodeId]
) -> tuple[Node, tuple[NodeId, ...]]:
    """Return a node, and those of its operands that are needed.

    Only a `select` can have operands that are not needed: those never selected when the `select` is needed.
    """
    op, remaining = node.op, [operand for operand in operands if operand in needed]
    if not isinstance(op, Select) or len(remaining) == len(operands):
        return node, operands
    cases = tuple(remaining.index(operands[position]) if operands[position] in needed else 0 for position in op.cases)
    return Node(Select(op.choice, cases), node.span, node.scope), tuple(remaining)
