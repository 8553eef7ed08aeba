"""Sibling operations as one wide operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from archir.ir.graph import Graph, Node, NodeId, Together
from archir.ir.types import TensorType
from archir.ir.verify import typed
from archir.ops.activation import Relu
from archir.ops.arithmetic import Concat
from archir.ops.conv import Conv
from archir.ops.norm import BatchNorm
from archir.ops.shape import Slice
from archir.passes.prune import prune

Group = tuple[NodeId, ...]
"""Nodes with the same operation, which become one."""


def batch(graph: Graph) -> Graph:
    """Convolutions that read the same and differ in their weights alone become one, and so do the convolutions, batch
    norms and ReLUs behind them.

    `%1 = conv(%0); %2 = conv(%0); %3 = relu(%1); %4 = relu(%2)` -> `%1 = conv(%0), twice as wide; %2 = relu(%1);
    %3 = slice(%2); %4 = slice(%2)`. With groups, the operand is repeated. Weights keep the names they had.
    """
    return _Batching(prune(graph)).result()


class _Batching:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.types: dict[NodeId, TensorType] = typed(graph)
        self.uses = Counter(graph[number].scope for number in graph)
        self.groups = [*self._groups()]
        self.home = {number: (index, i) for index, group in enumerate(self.groups) for i, number in enumerate(group)}
        self.out = graph.empty()
        self.single: dict[NodeId, NodeId] = {}
        self.wide: dict[int, NodeId] = {}

    def result(self) -> Graph:
        for number in self.graph:
            if number not in self.home:
                operands = [self._one(operand) for operand in self.graph.operands(number)]
                self.single[number] = self.out.add(self.graph[number], *operands)
            elif (index := self.home[number][0]) not in self.wide:
                self.wide[index] = self._together(self.groups[index])
        self.out.outputs = {name: self._one(number) for name, number in self.graph.outputs.items()}
        return self.out

    def _groups(self) -> Iterator[Group]:
        """Convolutions of the same tensor, then what reads each of a group's nodes alike."""
        found: dict[tuple[NodeId, Conv], list[NodeId]] = {}
        for number in self.graph:
            op = self.graph[number].op
            if isinstance(op, Conv):
                found.setdefault((self.graph.operands(number)[0], op), []).append(number)
        waiting = [(*numbers,) for numbers in found.values() if self._can_join(numbers)]
        taken = {number for group in waiting for number in group}
        while waiting:
            group = waiting.pop(0)
            yield group
            behind = [self._readers(number) for number in group]
            for op in behind[0]:
                members = [readers.get(op, []) for readers in behind]
                following = tuple(numbers[0] for numbers in members if len(numbers) == 1)
                if len(following) == len(group) and not taken & {*following} and self._can_join(following):
                    taken |= {*following}
                    waiting.append(following)

    def _readers(self, number: NodeId) -> dict[Conv | BatchNorm | Relu, list[NodeId]]:
        found: dict[Conv | BatchNorm | Relu, list[NodeId]] = {}
        for reader in self.graph.consumers(number):
            op = self.graph[reader].op
            if isinstance(op, Conv | BatchNorm | Relu):
                found.setdefault(op, []).append(reader)
        return found

    def _can_join(self, numbers: list[NodeId] | Group) -> bool:
        """Whether there are several, each with weights of its own, which no other node shares."""
        scopes = [self.graph[number].scope for number in numbers]
        if any(self.graph[number].op.varied or self.types[number].varied for number in numbers):
            return False
        if isinstance(self.graph[numbers[0]].op, Relu):
            return True  # behind a group
        alone = all(self.uses[scope] == 1 for scope in scopes) and not self.graph.together.keys() & {*scopes}
        return len(numbers) > 1 and alone and "" not in scopes

    def _together(self, group: Group) -> NodeId:
        first, many = self.graph[group[0]], len(group)
        operands = [self.graph.operands(number)[0] for number in group]
        op = first.op
        if operands[0] != operands[1]:
            x = self.wide[self.home[operands[0]][0]]
            repeats = many
        else:
            x = self._one(operands[0])
            repeats = many if isinstance(op, Conv) and op.groups > 1 else 1
            if repeats > 1:
                x = self.out.add(Node(Concat(), first.span), *[x] * many)
        if isinstance(op, Conv):
            op = replace(op, channels=many * op.channels, groups=repeats * op.groups)
        if not isinstance(op, Relu):
            self.out.together[first.scope] = Together(tuple(self.graph[number].scope for number in group))
        return self.out.add(Node(op, first.span, first.scope), x)

    def _one(self, number: NodeId) -> NodeId:
        """The node of the new graph that stands for one of the old: a part of a wide one, where it is in a group."""
        if number not in self.single:
            index, i = self.home[number]
            width = self.types[number].channels
            part = Node(Slice(i * width, (i + 1) * width), self.graph[number].span)
            self.single[number] = self.out.add(part, self.wide[index])
        return self.single[number]
