"""Exposure of inner nodes as outputs, for objectives that need activations that the net does not return."""

from __future__ import annotations

from collections.abc import Mapping

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, NodeId, copy_node, rebuild
from archir.ops.pool import GlobalAvgPool, GlobalMaxPool
from archir.passes.dominators import ROOT, immediate_dominators
from archir.passes.prune import prune


def expose(graph: Graph, outputs: Mapping[str, NodeId]) -> Graph:
    """Replace the outputs of a graph by the nodes `outputs`, by name, and drop the nodes that are no longer needed.

    `output y = linear(%7)` and `features: 7` -> `output features = %7`. All choices are kept, even those that no longer
    have an effect.
    """
    copy = rebuild(graph, copy_node)
    copy.outputs = dict(outputs)
    return prune(copy)


def features(graph: Graph) -> NodeId:
    """Return the features before the final global pooling, i.e. the operand of this pooling.

    The final global pooling is the last one that lies on every path from an input to the first output. Raises ArchError
    (A1902) if there is none, for example because the pooling is one alternative of a choice.
    """
    name, number = next(iter(graph.outputs.items()))
    dominators, node = immediate_dominators(graph), number
    while node != ROOT:
        if isinstance(graph[node].op, GlobalAvgPool | GlobalMaxPool):
            (pooled,) = graph.operands(node)
            return pooled
        node = dominators[node]
    text = f"`{graph.name}` has no global pooling on every path to `{name}`"
    raise fail("A1902", text, graph[number].span, 'make the map an output of the net, and name it: output = "features"')
