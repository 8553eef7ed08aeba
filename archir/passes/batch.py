"""Batching of sibling operations: several narrow convolutions of one tensor run as one wide convolution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from archir.ir.graph import Graph, MergedScopes, Node, NodeId
from archir.ir.verify import checked_types
from archir.ops.activation import Relu
from archir.ops.arithmetic import Concat
from archir.ops.conv import Conv
from archir.ops.norm import BatchNorm
from archir.ops.shape import Slice
from archir.passes.prune import prune

Group = tuple[NodeId, ...]
"""Siblings: nodes with equal operations, which one wide node replaces."""


def batch(graph: Graph) -> Graph:
    """Merge sibling operations into wide ones: convolutions of the same tensor that differ only in their weights.

    Convolutions, batch norms and ReLUs that read all of these convolutions in the same way are merged, too.
    `%1 = conv(%0); %2 = conv(%0); %3 = relu(%1); %4 = relu(%2)` -> `%1 = conv(%0), twice as wide; %2 = relu(%1);
    %3 = slice(%2); %4 = slice(%2)`. The operand of merged grouped convolutions is repeated. Weights keep their names.
    """
    return _Batching(prune(graph)).result()


class _Batching:
    """One run of `batch`: the old graph, its groups of siblings, and the new graph under construction.

    `home` maps a node to its group's index and its position in the group, `copies` maps nodes to their copies in the
    new graph, and `wide` maps a group's index to its wide node.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.types = checked_types(graph)
        self.scope_counts = Counter(graph[number].scope for number in graph)
        self.groups = [*self._groups()]
        self.home = {number: (index, i) for index, group in enumerate(self.groups) for i, number in enumerate(group)}
        self.out = graph.empty_copy()
        self.copies: dict[NodeId, NodeId] = {}
        self.wide: dict[int, NodeId] = {}

    def result(self) -> Graph:
        """Return the graph with merged siblings."""
        for number in self.graph:
            if number not in self.home:
                operands = [self._copy(operand) for operand in self.graph.operands(number)]
                self.copies[number] = self.out.add(self.graph[number], *operands)
            elif (index := self.home[number][0]) not in self.wide:
                self.wide[index] = self._add_wide(self.groups[index])
        self.out.outputs = {name: self._copy(number) for name, number in self.graph.outputs.items()}
        return self.out

    def _groups(self) -> Iterator[Group]:
        """Yield the groups of siblings.

        The first groups are convolutions of the same tensor. The following ones are convolutions, batch norms and ReLUs
        that apply the same operation to each node of an earlier group.
        """
        by_operand: dict[tuple[NodeId, Conv], list[NodeId]] = {}
        for number in self.graph:
            op = self.graph[number].op
            if isinstance(op, Conv):
                by_operand.setdefault((self.graph.operands(number)[0], op), []).append(number)
        queue = [(*numbers,) for numbers in by_operand.values() if self._can_join(numbers)]
        grouped = {number for group in queue for number in group}
        while queue:
            group = queue.pop(0)
            yield group
            readers_by_op = [self._mergeable_readers(number) for number in group]
            for op in readers_by_op[0]:
                members = [readers.get(op, []) for readers in readers_by_op]
                following = tuple(numbers[0] for numbers in members if len(numbers) == 1)
                if len(following) == len(group) and not grouped & {*following} and self._can_join(following):
                    grouped |= {*following}
                    queue.append(following)

    def _mergeable_readers(self, number: NodeId) -> dict[Conv | BatchNorm | Relu, list[NodeId]]:
        """Return the nodes that read a node and that may be merged (convolutions, batch norms, ReLUs), by operation."""
        readers: dict[Conv | BatchNorm | Relu, list[NodeId]] = {}
        for reader in self.graph.consumers(number):
            op = self.graph[reader].op
            if isinstance(op, Conv | BatchNorm | Relu):
                readers.setdefault(op, []).append(reader)
        return readers

    def _can_join(self, numbers: list[NodeId] | Group) -> bool:
        """Return whether these nodes can be merged.

        There must be several nodes, operations and types must not depend on choices, and no other node may share the
        nodes' weights. ReLUs, which have no weights, can always be merged.
        """
        scopes = [self.graph[number].scope for number in numbers]
        if any(self.graph[number].op.varying_attributes or self.types[number].is_varying for number in numbers):
            return False
        if isinstance(self.graph[numbers[0]].op, Relu):
            return True  # ReLUs are only asked about after a group
        unshared = all(self.scope_counts[scope] == 1 for scope in scopes) and not self.graph.merged_scopes.keys() & {
            *scopes
        }
        return len(numbers) > 1 and unshared and "" not in scopes

    def _add_wide(self, group: Group) -> NodeId:
        """Append the wide node that replaces a group of siblings."""
        first, count = self.graph[group[0]], len(group)
        operands = [self.graph.operands(number)[0] for number in group]
        op = first.op
        if operands[0] != operands[1]:
            x = self.wide[self.home[operands[0]][0]]
            repeats = count
        else:
            x = self._copy(operands[0])
            repeats = count if isinstance(op, Conv) and op.groups > 1 else 1
            if repeats > 1:
                x = self.out.add(Node(Concat(), first.span), *[x] * count)
        if isinstance(op, Conv):
            op = replace(op, channels=count * op.channels, groups=repeats * op.groups)
        if not isinstance(op, Relu):
            self.out.merged_scopes[first.scope] = MergedScopes(tuple(self.graph[number].scope for number in group))
        return self.out.add(Node(op, first.span, first.scope), x)

    def _copy(self, number: NodeId) -> NodeId:
        """Return the new graph's node for an old node.

        For a member of a group, this is a slice of the group's wide node.
        """
        if number not in self.copies:
            index, i = self.home[number]
            width = self.types[number].channels
            slice_ = Node(Slice(i * width, (i + 1) * width), self.graph[number].span)
            self.copies[number] = self.out.add(slice_, self.wide[index])
        return self.copies[number]
