"""Where nodes may be needed, told by how a program makes them: quickly, however entangled its choices are."""

from __future__ import annotations

from archir.ir.graph import Graph, NodeId
from archir.ir.needs import Needs, always_needed


def made(graph: Graph) -> Needs:
    """The conditions under which nodes are made, all of them loose but for those that every architecture needs."""
    always = always_needed(graph)
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
