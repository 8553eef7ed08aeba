"""A module's graph with what it writes out in several operators as the one that it is."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, fx

from archir_torch.importing.patterns.attention import attention
from archir_torch.importing.patterns.einsums import products
from archir_torch.importing.patterns.experts import unsorted
from archir_torch.importing.patterns.matching import name_of, numbered
from archir_torch.importing.patterns.written_out import simplified


def recognised(module: fx.GraphModule, constants: Mapping[str, Tensor]) -> fx.Graph:
    """The module's graph, with the idioms in it as one operator each; `constants` are stored, by the name of a node."""
    graph = module.graph
    for node in list(graph.nodes):
        if name_of(node).startswith("_assert"):  # reads what a pattern takes for its own
            graph.erase_node(node)
    graph.eliminate_dead_code()
    numbered(graph, constants)
    products(graph)
    graph.eliminate_dead_code()
    for node in list(graph.nodes):
        if name_of(node) in ("softmax", "_softmax"):
            attention(graph, node)
    graph.eliminate_dead_code()
    unsorted(graph)
    graph.eliminate_dead_code()
    simplified(graph)
    graph.eliminate_dead_code()
    return graph
