"""Calls of a cell that are like an earlier one: the nodes are copied, rather than worked out again.

A cell decides its choices once per net, so where it is called again with arguments of the same types and the same
static values, it makes the same nodes on other operands and under another scope. Stacked cells are built several times
as fast like that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from archir.diagrams.cases import Case, Value, case, key, leaves, varies
from archir.diagrams.lifting import lift
from archir.ir.graph import Node, NodeId
from archir.language.elaboration.context import A_COPY
from archir.language.elaboration.network import Network
from archir.language.elaboration.values import Block, Items, Tensor

_Key = TypeVar("_Key")
_Known = TypeVar("_Known")


@dataclass(frozen=True)
class Recording:
    """What a call added: the nodes from `start` to before `stop`, under `scope`, reading `arguments`."""

    start: NodeId
    stop: NodeId
    scope: str
    arguments: tuple[NodeId, ...]
    blocks: tuple[tuple[str, str], ...]
    """The calls inside: where below the scope, and of what."""
    selected: Mapping[NodeId, Case]
    """What the select nodes among them stand for."""
    result: Value


def likeness(network: Network, block: Block, arguments: Mapping[str, Value]) -> Hashable | None:
    """Equal for calls that only differ in which tensors they are given; None if that cannot be told."""
    places: dict[NodeId, int] = {}
    for place, node in enumerate(tensors(arguments)):
        places.setdefault(node, place)

    def like(value: Value) -> Hashable:
        if isinstance(value, Tensor):
            return network.types[value.node], places[value.node]
        if isinstance(value, Items):
            return (Items, *map(like, value))
        found: Hashable = lift(like, value) if varies(value) else key(value)
        return found

    return (block, *zip(arguments, map(like, arguments.values()), strict=True))


def tensors(arguments: Mapping[str, Value]) -> tuple[NodeId, ...]:
    """The nodes among a call's arguments, those in lists and in what depends on choices too."""
    return tuple(node for value in arguments.values() for node in _nodes(value))


def _nodes(value: Value) -> Iterator[NodeId]:
    if isinstance(value, Tensor):
        yield value.node
    elif isinstance(value, Items) or varies(value):
        inside = value if isinstance(value, Items) else leaves(value)
        for item in inside:
            yield from _nodes(item)


def _copyable(result: Value) -> bool:
    """Whether a result is made of tensors alone, so that it can be told what stands for it in a copy."""
    return all(
        isinstance(leaf, Tensor) or (isinstance(leaf, Items) and all(map(_copyable, leaf))) for leaf in leaves(result)
    )


class Recorder:
    """Takes down what a call adds, from when it is made on."""

    def __init__(self, network: Network, scope: str, arguments: Mapping[str, Value]) -> None:
        self.network, self.scope, self.arguments = network, scope, tensors(arguments)
        self.start, self.called, self.selected = len(network.graph), len(network.graph.blocks), len(network.selected)

    def recording(self, result: Value) -> Recording | None:
        """What was added since; None if it cannot be copied."""
        graph, known = self.network.graph, {*self.arguments}
        added = range(self.start, len(graph))
        alone = all(operand in added or operand in known for number in added for operand in graph.operands(number))
        if not (alone and _copyable(result)):
            return None
        blocks = [(path[len(self.scope) :], name) for path, name in _latest(graph.blocks, self.called)]
        selected = {number: stood for stood, number in _latest(self.network.selected, self.selected)}
        return Recording(self.start, len(graph), self.scope, self.arguments, tuple(blocks), selected, result)


def _latest(known: dict[_Key, _Known], before: int) -> list[tuple[_Key, _Known]]:
    """What was put into a dictionary since it held so many."""
    return [*islice(reversed(known.items()), len(known) - before)][::-1]


def replay(network: Network, recording: Recording, scope: str, arguments: tuple[NodeId, ...]) -> Value:
    """Add the recorded nodes once more, under another scope and reading other arguments; the call's result."""
    graph = network.graph
    moved = _Moved(dict(zip(recording.arguments, arguments, strict=True)))
    before = len(recording.scope)
    for number in range(recording.start, recording.stop):
        node = graph[number]
        stood = moved.of(recording.selected[number]) if number in recording.selected else None
        if stood in network.selected:
            moved.nodes[number] = network.selected[stood]
            continue
        if stood is None:  # select nodes are named by their choice
            node = Node(node.op, node.span, scope + node.scope[before:])
        operands = tuple([moved.nodes[operand] for operand in graph.operands(number)])
        made = moved.nodes[number] = network.append(node, operands, graph.made[number], A_COPY)
        network.types.like(made, network.types, number)
        if number in network.excused:
            network.excused.add(made)
        if stood is not None:
            network.selected[stood] = made
    graph.blocks.update((scope + below, name) for below, name in recording.blocks)
    return moved.of(recording.result)


class _Moved:
    """Values made of the nodes of a recording, made of those of its copy."""

    def __init__(self, nodes: dict[NodeId, NodeId]) -> None:
        self.nodes = nodes
        self._known: dict[Case, Value] = {}

    def of(self, value: Value) -> Value:
        if isinstance(value, Tensor):
            return Tensor(self.nodes[value.node])
        if isinstance(value, Items):
            return Items(map(self.of, value))
        if not varies(value):
            return value
        if value not in self._known:
            self._known[value] = case(value.choice, map(self.of, value.branches))
        return self._known[value]
