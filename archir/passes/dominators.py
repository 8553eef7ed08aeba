"""Dominators: the nodes that lie on every path from an input to a node."""

from __future__ import annotations

from archir.ir.graph import Graph, NodeId

ROOT = -1
"""Artificial root of the dominator tree: predecessor of all nodes without operands."""


def immediate_dominators(graph: Graph) -> dict[NodeId, NodeId]:
    """Return, for each node, the last other node on every path from an input to it; ROOT if there is none."""
    import networkx as nx

    flow: nx.DiGraph[NodeId] = nx.DiGraph()
    for number in graph:
        flow.add_edges_from((operand, number) for operand in graph.operands(number) or (ROOT,))
    return dict(nx.immediate_dominators(flow, ROOT))
