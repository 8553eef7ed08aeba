"""One architecture of a space."""

from __future__ import annotations

from collections.abc import Mapping

from archir.ir.graph import Graph, Node, NodeId
from archir.ir.structure import Select


def specialize(graph: Graph, outcomes: Mapping[str, int]) -> Graph:
    """Replace each choice by its outcome: `%3 = select(%1, %2) by op [0, 1]` -> `%1`. What is left over is gone.

    `outcomes` maps the paths of active choices to outcomes; where an inactive one is asked, all answers are the same.
    Inputs stay. The cost is in proportion to the result.
    """
    result = Graph(graph.name)
    result.parameters = dict(graph.parameters)
    result.blocks = graph.blocks
    standing = reached(graph, outcomes)
    moved: dict[NodeId, NodeId] = {}
    for number in sorted({*standing.values(), *graph.inputs.values()}):
        node = graph[number]
        op = node.op.at(outcomes)
        moved[number] = result.add(
            node if op is node.op else Node(op, node.span, node.scope),
            *[moved[standing[operand]] for operand in graph.operands(number)],
        )
    result.outputs = {name: moved[standing[number]] for name, number in graph.outputs.items()}
    return result


def reached(graph: Graph, outcomes: Mapping[str, int]) -> dict[NodeId, NodeId]:
    """The nodes that outputs need under these outcomes, and what stands for each: itself, or what a choice came to."""
    found: dict[NodeId, NodeId] = {}
    stack = list(graph.outputs.values())
    while stack:
        number = stack.pop()
        if number in found:
            continue
        source = number
        while isinstance(op := graph[source].op, Select):
            source = graph.operands(source)[op.cases[outcomes.get(op.choice, 0)]]
        found[number] = source
        if source == number:
            stack.extend(graph.operands(source))
        else:
            stack.append(source)
    return found
