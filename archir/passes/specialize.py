"""Specialization: reduces a space to one of its architectures."""

from __future__ import annotations

from collections.abc import Mapping

from archir.ir.graph import Graph, Node, NodeId
from archir.ir.structure import Select


def specialize(graph: Graph, outcomes: Mapping[str, int]) -> Graph:
    """Replace each choice by its outcome: `%3 = select(%1, %2) by op [0, 1]` -> `%1`. Unreachable nodes are dropped.

    `outcomes` maps the paths of active choices to outcomes; the outcomes of inactive choices are ignored. Inputs are
    kept. The time is linear in the size of the result.
    """
    result = Graph(graph.name)
    result.parameters = dict(graph.parameters)
    result.blocks = graph.blocks
    replacements = resolve_selects(graph, outcomes)
    copies: dict[NodeId, NodeId] = {}
    for number in sorted({*replacements.values(), *graph.inputs.values()}):
        node = graph[number]
        op = node.op.at(outcomes)
        copies[number] = result.add(
            node if op is node.op else Node(op, node.span, node.scope),
            *[copies[replacements[operand]] for operand in graph.operands(number)],
        )
    result.outputs = {name: copies[replacements[number]] for name, number in graph.outputs.items()}
    return result


def resolve_selects(graph: Graph, outcomes: Mapping[str, int]) -> dict[NodeId, NodeId]:
    """Return a mapping from the nodes that outputs need under these outcomes to their replacements.

    A node replaces itself, except that a `select` is replaced by the operand that its choice selects.
    """
    replacements: dict[NodeId, NodeId] = {}
    stack = list(graph.outputs.values())
    while stack:
        number = stack.pop()
        if number in replacements:
            continue
        source = number
        while isinstance(op := graph[source].op, Select):
            source = graph.operands(source)[op.cases[outcomes.get(op.choice, 0)]]
        replacements[number] = source
        if source == number:
            stack.extend(graph.operands(source))
        else:
            stack.append(source)
    return replacements
