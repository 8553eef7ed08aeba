"""Nodes as outputs: what an objective looks at besides what a net returns."""

from __future__ import annotations

from collections.abc import Mapping

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, NodeId, keep, rebuild
from archir.ops.pool import GlobalAvgPool, GlobalMaxPool
from archir.passes.prune import prune

_BEGIN = -1


def expose(graph: Graph, outputs: Mapping[str, NodeId]) -> Graph:
    """The graph with other outputs, nodes by the names they get: what none of them needs is dropped.

    `output y = linear(%7)` and `features: 7` -> `output features = %7`. Choices stay, also those that no longer matter.
    """
    copy = rebuild(graph, keep)
    copy.outputs = dict(outputs)
    return prune(copy)


def features(graph: Graph) -> NodeId:
    """What the final global pooling reads: the last one that every way from an input to the first output goes through.

    Raises ArchError (A1902) if there is none, as where the pooling is one alternative of a choice.
    """
    name, number = next(iter(graph.outputs.items()))
    for node in _passed(graph, number):
        if isinstance(graph[node].op, GlobalAvgPool | GlobalMaxPool):
            (pooled,) = graph.operands(node)
            return pooled
    text = f"`{graph.name}` has no global pooling that everything goes through before `{name}`"
    raise fail("A1902", text, graph[number].span, 'make the map an output of the net, and name it: output = "features"')


def _passed(graph: Graph, number: NodeId) -> list[NodeId]:
    """The nodes that every way from an input to a node goes through, the last first."""
    import networkx as nx

    ways: nx.DiGraph[NodeId] = nx.DiGraph()
    needed = nx.ancestors(graph.nx, number) | {number}
    for node in needed:
        ways.add_edges_from((operand, node) for operand in graph.operands(node) or (_BEGIN,))
    before = nx.immediate_dominators(ways, _BEGIN)
    found = []
    while number != _BEGIN:
        found.append(number)
        number = before[number]
    return found
