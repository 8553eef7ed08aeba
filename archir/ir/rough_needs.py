"""Where nodes may be needed, told by how a program makes them: quickly, however entangled its choices are."""

from __future__ import annotations

from functools import reduce

from archir.ir.graph import Graph, NodeId
from archir.ir.needs import Needs
from archir.ir.structure import Select

MOST_FOLLOWED = 20_000
"""Nodes of a graph in which what every architecture needs is followed through choices."""


def made(graph: Graph) -> Needs:
    """The conditions under which nodes are made, all of them loose but for those that every architecture needs."""
    always = _always(graph)
    found = Needs()
    for number in _reached(graph):
        found[number] = True if number in always else graph.made.get(number, True)
        if number not in always:
            found.loose.add(number)
    return found


def _reached(graph: Graph) -> list[NodeId]:
    reached = set(graph.outputs.values())
    for number in reversed(list(graph)):
        if number in reached:
            reached.update(graph.operands(number))
    return [number for number in graph if number in reached]


def _always(graph: Graph) -> set[NodeId]:
    """Nodes that outputs read whatever is chosen; of a large graph, only those that are not behind any choice."""
    if len(graph) > MOST_FOLLOWED:
        always = set(graph.outputs.values())
        for number in reversed(list(graph)):
            if number in always and not isinstance(graph[number].op, Select):
                always.update(graph.operands(number))
        return always
    reads: dict[NodeId, int] = {}  # what is read in any case, a bit for each node
    for number in graph:
        below = [reads[operand] for operand in graph.operands(number)]
        if isinstance(graph[number].op, Select):
            together = reduce(lambda one, other: one & other, below)
        else:
            together = reduce(lambda one, other: one | other, below, 0)
        reads[number] = together | 1 << number
    read = reduce(lambda one, other: one | other, (reads[number] for number in graph.outputs.values()), 0)
    return {number for number in graph if read >> number & 1}
