"""A module's graph with what it writes out in several operators as the one that it is."""

from __future__ import annotations

from torch import fx

from archir_torch.importing.patterns.attention import attention
from archir_torch.importing.patterns.matching import name_of
from archir_torch.importing.patterns.written_out import simplified


def recognised(module: fx.GraphModule) -> fx.Graph:
    """The module's graph, with the idioms in it as one operator each."""
    graph = module.graph
    for node in list(graph.nodes):
        if name_of(node) in ("softmax", "_softmax"):
            attention(graph, node)
    graph.eliminate_dead_code()
    simplified(graph)
    graph.eliminate_dead_code()
    return graph
