"""Cell call cache: copies the nodes of an equivalent earlier call instead of evaluating the body again.

A cell makes its choices once per net. Calls with arguments of the same types and equal static values therefore produce
the same nodes, except for operands and scope. The cache makes building networks of stacked cells several times as fast.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from archir.diagrams.diagram import Diagram, Value, leaves, make_diagram, value_key, varies
from archir.diagrams.lifting import lift
from archir.ir.graph import Node, NodeId
from archir.language.elaboration.context import COPY_WORK
from archir.language.elaboration.module import Block
from archir.language.elaboration.network import GraphBuilder
from archir.language.elaboration.values import Items, Tensor

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Recording:
    """Nodes that a cell call added: those numbered `start` to `stop - 1`, below `scope`, with the argument nodes
    `arguments`."""

    start: NodeId
    stop: NodeId
    scope: str
    arguments: tuple[NodeId, ...]
    blocks: tuple[tuple[str, str], ...]
    """Block calls inside the cell call: (path relative to the scope, block name)."""
    selected: Mapping[NodeId, Diagram]
    """Maps each recorded select node to the choice-dependent value that it implements."""
    result: Value


def call_key(network: GraphBuilder, block: Block, arguments: Mapping[str, Value]) -> Hashable | None:
    """Return the cache key of a cell call.

    Keys are equal for calls with equal static arguments and tensors of equal types, even if the tensors themselves
    differ.
    """
    positions: dict[NodeId, int] = {}
    for position, node in enumerate(tensors(arguments)):
        positions.setdefault(node, position)

    def like(value: Value) -> Hashable:
        if isinstance(value, Tensor):
            return network.types[value.node], positions[value.node]
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

    def __init__(self, network: GraphBuilder, scope: str, arguments: Mapping[str, Value]) -> None:
        self.network, self.scope, self.arguments = network, scope, tensors(arguments)
        self.start, self.called, self.selected = (
            len(network.graph),
            len(network.graph.blocks),
            len(network.select_nodes),
        )

    def recording(self, result: Value) -> Recording | None:
        """Return the nodes added since construction, or None if they cannot be copied.

        They cannot be copied if they read nodes other than the arguments, or if `result` holds anything but tensors.
        """
        graph, arguments = self.network.graph, {*self.arguments}
        added = range(self.start, len(graph))
        is_closed = all(
            operand in added or operand in arguments for number in added for operand in graph.operands(number)
        )
        if not (is_closed and _copyable(result)):
            return None
        blocks = [(path[len(self.scope) :], name) for path, name in _entries_since(graph.blocks, self.called)]
        selected = {number: value for value, number in _entries_since(self.network.select_nodes, self.selected)}
        return Recording(self.start, len(graph), self.scope, self.arguments, tuple(blocks), selected, result)


def _entries_since(entries: dict[_Key, _Value], count: int) -> list[tuple[_Key, _Value]]:
    """Return the entries added to a dictionary since it had `count` entries."""
    return [*islice(reversed(entries.items()), len(entries) - count)][::-1]


def replay(network: GraphBuilder, recording: Recording, scope: str, arguments: tuple[NodeId, ...]) -> Value:
    """Append copies of the recorded nodes below `scope`, and return the result of the call.

    The copies read `arguments` in place of the recorded call's arguments.
    """
    graph = network.graph
    mapping = _NodeMapping(dict(zip(recording.arguments, arguments, strict=True)))
    prefix = len(recording.scope)
    for number in range(recording.start, recording.stop):
        node = graph[number]
        value = mapping.of(recording.selected[number]) if number in recording.selected else None
        if value in network.select_nodes:
            mapping.nodes[number] = network.select_nodes[value]
            continue
        if value is None:  # select nodes are named by their choice
            node = Node(node.op, node.span, scope + node.scope[prefix:])
        operands = tuple([mapping.nodes[operand] for operand in graph.operands(number)])
        copy = mapping.nodes[number] = network.append(node, operands, graph.creation_conditions[number], COPY_WORK)
        network.types.alias(copy, network.types, number)
        if number in network.valid_if_required:
            network.valid_if_required.add(copy)
        if value is not None:
            network.select_nodes[value] = copy
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
