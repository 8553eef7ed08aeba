"""Normalisations that alternatives of a mixture have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from archir.ir.graph import Graph, Node, NodeId, Together, rebuild
from archir.ir.verify import typed
from archir.passes.cse import cse


def share(graph: Graph) -> Graph:
    """Merge what siblings compute alike: `cse`, and norms that have statistics, but no weights to train.

    `%1 = batch_norm(%0); %2 = batch_norm(%0)` -> one norm, which stands for both. In a network whose alternatives all
    run, all the time, such norms see the same batches, so they have the same statistics; each keeps them under its
    own name. Where alternatives run at times only, statistics differ: `cse` is what such networks can have.
    """
    graph = cse(graph)
    types = typed(graph)
    seen: dict[Hashable, NodeId] = {}
    scopes: dict[NodeId, list[str]] = {}
    uses = Counter(graph[number].scope for number in graph)
    visited = iter(graph)

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        weights = node.op.weights(*(types[operand] for operand in graph.operands(next(visited))))
        statistics = weights and all(weight.buffer for weight in weights.values())
        if not statistics or uses[node.scope] > 1:
            return out.add(node, *operands)
        key = (node.op, operands)
        if key not in seen:
            seen[key] = out.add(node, *operands)
            scopes[seen[key]] = []
        if node.scope not in scopes[seen[key]]:
            scopes[seen[key]].append(node.scope)
        return seen[key]

    result = rebuild(graph, step)
    result.together |= {found[0]: Together((*found,), same=True) for found in scopes.values() if len(found) > 1}
    return cse(result)
