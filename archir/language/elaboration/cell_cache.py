"""Cell call cache: copies the nodes of an equivalent earlier call instead of evaluating the body again.

A cell makes its choices once per net. Calls with arguments of the same types and equal static values therefore produce
the same nodes, except for operands and scope. The cache makes building networks of stacked cells several times as fast.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from archir.diagrams.diagram import Diagram, Value, leaves, make_diagram, value_key, varies
from archir.diagrams.lifting import lift
from archir.ir.graph import Node, NodeId
from archir.language.elaboration.context import COPY_WORK, Context
from archir.language.elaboration.frame import Recording
from archir.language.elaboration.module import Block
from archir.language.elaboration.network import append_node
from archir.language.elaboration.values import Items, Tensor

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def call_key(context: Context, block: Block, arguments: Mapping[str, Value]) -> Hashable | None:
    """Return the cache key of a cell call.

    Keys are equal for calls with equal static arguments and tensors of equal types, even if the tensors themselves
    differ.
    """
    positions: dict[NodeId, int] = {}
    for position, node in enumerate(tensors(arguments)):
        positions.setdefault(node, position)

    def like(value: Value) -> Hashable:
        if isinstance(value, Tensor):
            return context.types[value.node], positions[value.node]
        if isinstance(value, Items):
            return (Items, *map(like, value))
        result: Hashable = lift(like, value) if varies(value) else value_key(value)
        return result

    return (block, *zip(arguments, map(like, arguments.values()), strict=True))


def tensors(arguments: Mapping[str, Value]) -> tuple[NodeId, ...]:
    """Return the nodes of all tensors in the arguments, including those in lists and in choice-dependent values."""
    return tuple(node for value in arguments.values() for node in _nodes(value))


def _nodes(value: Value) -> Iterator[NodeId]:
    if isinstance(value, Tensor):
        yield value.node
    elif isinstance(value, Items) or varies(value):
        inside = value if isinstance(value, Items) else leaves(value)
        for item in inside:
            yield from _nodes(item)


def _copyable(result: Value) -> bool:
    """Return True if a result consists of tensors only, so that `replay` can map it to copied nodes."""
    return all(
        isinstance(leaf, Tensor) or (isinstance(leaf, Items) and all(map(_copyable, leaf))) for leaf in leaves(result)
    )


class Recorder:
    """Records the nodes added to a graph since the recorder was constructed."""

    def __init__(self, context: Context, scope: str, arguments: Mapping[str, Value]) -> None:
        self.context, self.scope, self.arguments = context, scope, tensors(arguments)
        self.start, self.called, self.selected = (
            len(context.graph),
            len(context.graph.blocks),
            len(context.select_nodes),
        )

    def recording(self, result: Value) -> Recording | None:
        """Return the nodes added since construction, or None if they cannot be copied.

        They cannot be copied if they read nodes other than the arguments, or if `result` holds anything but tensors.
        """
        graph, arguments = self.context.graph, {*self.arguments}
        added = range(self.start, len(graph))
        is_closed = all(
            operand in added or operand in arguments for number in added for operand in graph.operands(number)
        )
        if not (is_closed and _copyable(result)):
            return None
        blocks = [(path[len(self.scope) :], name) for path, name in _entries_since(graph.blocks, self.called)]
        selected = {number: value for value, number in _entries_since(self.context.select_nodes, self.selected)}
        return Recording(self.start, len(graph), self.scope, self.arguments, tuple(blocks), selected, result)


def _entries_since(entries: dict[_Key, _Value], count: int) -> list[tuple[_Key, _Value]]:
    """Return the entries added to a dictionary since it had `count` entries."""
    return [*islice(reversed(entries.items()), len(entries) - count)][::-1]


def replay(context: Context, recording: Recording, scope: str, arguments: tuple[NodeId, ...]) -> Value:
    """Append copies of the recorded nodes below `scope`, and return the result of the call.

    The copies read `arguments` in place of the recorded call's arguments.
    """
    graph = context.graph
    mapping = _NodeMapping(dict(zip(recording.arguments, arguments, strict=True)))
    prefix = len(recording.scope)
    for number in range(recording.start, recording.stop):
        node = graph[number]
        value = mapping.of(recording.selected[number]) if number in recording.selected else None
        if value in context.select_nodes:
            mapping.nodes[number] = context.select_nodes[value]
            continue
        if value is None:  # select nodes are named by their choice
            node = Node(node.op, node.span, scope + node.scope[prefix:])
        operands = tuple([mapping.nodes[operand] for operand in graph.operands(number)])
        copy = mapping.nodes[number] = append_node(
            context, node, operands, graph.creation_conditions[number], COPY_WORK
        )
        context.types.alias(copy, context.types, number)
        if number in context.valid_if_required:
            context.valid_if_required.add(copy)
        if value is not None:
            context.select_nodes[value] = copy
    graph.blocks.update((scope + below, name) for below, name in recording.blocks)
    return mapping.of(recording.result)


class _NodeMapping:
    """Maps recorded values to the corresponding values of the copy, by replacing nodes with their copies."""

    def __init__(self, nodes: dict[NodeId, NodeId]) -> None:
        self.nodes = nodes
        self._memo: dict[Diagram, Value] = {}

    def of(self, value: Value) -> Value:
        if isinstance(value, Tensor):
            return Tensor(self.nodes[value.node])
        if isinstance(value, Items):
            return Items(map(self.of, value))
        if not varies(value):
            return value
        if value not in self._memo:
            self._memo[value] = make_diagram(value.choice, map(self.of, value.branches))
        return self._memo[value]
