"""Calls of a cell that are like an earlier one: the nodes are copied, rather than worked out again.

A cell decides its choices once per net, so where it is called again with arguments of the same types and the same
static values, it makes the same nodes on other operands and under another scope. Stacked cells are built several times
as fast like that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from archir.ir.choices.cases import Value, key, leaves, varies
from archir.ir.choices.lifting import lift
from archir.ir.graph import Node, NodeId
from archir.ir.structure import Select
from archir.language.elaboration.expressions.values import Block, Items, Tensor
from archir.language.elaboration.network import Network


@dataclass(frozen=True)
class Recording:
    """What a call added: the nodes from `start` to before `stop`, under `scope`, reading `arguments`."""

    start: NodeId
    stop: NodeId
    scope: str
    arguments: tuple[NodeId, ...]
    blocks: tuple[tuple[str, str], ...]
    """The calls inside: where below the scope, and of what."""
    result: Value


def likeness(network: Network, block: Block, arguments: Mapping[str, Value]) -> Hashable | None:
    """Equal for calls that only differ in which tensors they are given; None if that cannot be told."""
    given = [*arguments.values()]
    if any(_varies(value) for value in given):
        return None
    nodes = tensors(arguments)
    places = {node: nodes.index(node) for node in nodes}

    def like(value: Value) -> Hashable:
        if isinstance(value, Tensor):
            return network.types[value.node], places[value.node]
        return (Items, *map(like, value)) if isinstance(value, Items) else key(value)

    return (block, *zip(arguments, map(like, given), strict=True))


def _varies(value: Value) -> bool:
    return varies(value) or (isinstance(value, Items) and any(map(_varies, value)))


def tensors(arguments: Mapping[str, Value]) -> tuple[NodeId, ...]:
    """The nodes among a call's arguments, those in lists too."""
    return tuple(node for value in arguments.values() for node in _nodes(value))


def _nodes(value: Value) -> Iterator[NodeId]:
    if isinstance(value, Tensor):
        yield value.node
    elif isinstance(value, Items):
        for item in value:
            yield from _nodes(item)


def copyable(result: Value) -> bool:
    """Whether a result is made of tensors alone, so that it can be told what stands for it in a copy."""
    return all(
        isinstance(leaf, Tensor) or (isinstance(leaf, Items) and all(map(copyable, leaf))) for leaf in leaves(result)
    )


def replay(network: Network, recording: Recording, scope: str, arguments: tuple[NodeId, ...]) -> Value:
    """Add the recorded nodes once more, under another scope and reading other arguments; the call's result."""
    graph = network.graph
    moved = dict(zip(recording.arguments, arguments, strict=True))
    before = len(recording.scope)
    for number in range(recording.start, recording.stop):
        node = graph[number]
        if not isinstance(node.op, Select):  # those are named by their choice
            node = Node(node.op, node.span, scope + node.scope[before:])
        operands = tuple([moved[operand] for operand in graph.operands(number)])
        moved[number] = network.append(node, operands, graph.made[number])
        network.types.like(moved[number], network.types, number)
        if number in network.excused:
            network.excused.add(moved[number])
    graph.blocks.update((scope + below, name) for below, name in recording.blocks)
    return _moved(recording.result, moved)


def _moved(value: Value, moved: Mapping[NodeId, NodeId]) -> Value:
    def one(leaf: Value) -> Value:
        return Tensor(moved[leaf.node]) if isinstance(leaf, Tensor) else Items(_moved(item, moved) for item in leaf)

    return lift(one, value)
