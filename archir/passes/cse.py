"""Common subexpression elimination, and merging of equal batch norms in several alternatives of a mixture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from archir.ir.graph import Graph, MergedScopes, Node, NodeId, rebuild
from archir.ir.reachability import reachability_conditions
from archir.ir.verify import checked_types, has_parameters
from archir.ops.norm import BatchNorm
from archir.passes.prune import prune


def cse(graph: Graph) -> Graph:
    """Merge nodes that apply the same operation, with the same weights, to the same operands.

    `%1 = relu(%0); %2 = relu(%0); %3 = add(%1, %2)` -> `%1 = relu(%0); %2 = add(%1, %1)`. Two kinds of operations are
    never merged, even if their scopes are equal because a block is called repeatedly: random operations, because each
    samples its own numbers, and batch norms, because each call updates the running statistics.
    """
    graph = prune(graph)
    types, needed = checked_types(graph), reachability_conditions(graph)
    visited = iter(graph)
    merged: dict[Hashable, NodeId] = {}

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        number = next(visited)
        if node.op.random or isinstance(node.op, BatchNorm):
            return out.add(node, *operands)
        operand_types = [types[operand] for operand in graph.operands(number)]
        scope = node.scope if has_parameters(node.op, operand_types, needed.get(number, True)) else ""
        key = (node.op, tuple(sorted(operands)) if node.op.commutative else operands, scope)
        if key not in merged:
            merged[key] = out.add(node, *operands)
        return merged[key]

    return rebuild(graph, step)


def merge_siblings(graph: Graph) -> Graph:
    """Merge equal siblings: nodes that `cse` merges, and batch norms on one tensor without trainable weights.

    `%1 = batch_norm(%0); %2 = batch_norm(%0)` -> one norm, which replaces both. If all alternatives run in every step,
    such norms see the same batches and so have equal statistics, which are saved under the name of each original norm.
    If not all alternatives run in every step, statistics differ; use `cse` in that case.
    """
    graph = cse(graph)
    types = checked_types(graph)
    merged: dict[Hashable, NodeId] = {}
    scopes: dict[NodeId, list[str]] = {}
    scope_counts = Counter(graph[number].scope for number in graph)
    visited = iter(graph)

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        weights = node.op.weights(*(types[operand] for operand in graph.operands(next(visited))))
        statistics = weights and all(weight.buffer for weight in weights.values())
        if not statistics or scope_counts[node.scope] > 1:
            return out.add(node, *operands)
        key = (node.op, operands)
        if key not in merged:
            merged[key] = out.add(node, *operands)
            scopes[merged[key]] = []
        if node.scope not in scopes[merged[key]]:
            scopes[merged[key]].append(node.scope)
        return merged[key]

    result = rebuild(graph, step)
    result.merged_scopes |= {
        members[0]: MergedScopes((*members,), is_shared=True) for members in scopes.values() if len(members) > 1
    }
    return cse(result)
