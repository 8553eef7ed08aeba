"""Application of all pattern fusions to a traced module's graph."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, fx

from archir_torch.importing.patterns.attention import fuse_attention
from archir_torch.importing.patterns.decomposed_layers import fuse_layers
from archir_torch.importing.patterns.einsums import rewrite_einsums
from archir_torch.importing.patterns.experts import remove_sorting
from archir_torch.importing.patterns.matching import name_of, record_scalars


def fuse_patterns(module: fx.GraphModule, constants: Mapping[str, Tensor]) -> fx.Graph:
    """Fuse all patterns in a module's graph. `constants` are stored tensors by node name."""
    graph = module.graph
    for node in list(graph.nodes):
        if name_of(node).startswith("_assert"):  # an assertion would be a second consumer of a pattern's values
            graph.erase_node(node)
    graph.eliminate_dead_code()
    record_scalars(graph, constants)
    rewrite_einsums(graph)
    graph.eliminate_dead_code()
    for node in list(graph.nodes):
        if name_of(node) in ("softmax", "_softmax"):
            fuse_attention(graph, node)
    graph.eliminate_dead_code()
    remove_sorting(graph)
    graph.eliminate_dead_code()
    fuse_layers(graph)
    graph.eliminate_dead_code()
    return graph
