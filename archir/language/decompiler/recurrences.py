"""Recognises recurrent layers that the source unrolled over time steps.

The nodes of such a layer are compared one by one with those of a block of std.recurrent, and replaced by a call of the
block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import MISSING
from functools import lru_cache
from typing import Any

from archir.ir.graph import Graph, NodeId
from archir.ir.typing import Types
from archir.language.decompiler.program_tree import Item, Step
from archir.language.elaboration.elaborate import elaborate
from archir.ops.arithmetic import Concat
from archir.ops.conv import Linear

SHARED_DEFAULTS = {"bias": True, "reverse": False}
"""Parameters that all recurrent blocks have with the same default."""
RECURRENT: dict[str, dict[str, Any]] = {
    "lstm": {"width": MISSING, **SHARED_DEFAULTS, "recurrent_bias": False},
    "gru": {"width": MISSING, **SHARED_DEFAULTS, "recurrent_bias": True},
    "rnn": {"width": MISSING, **SHARED_DEFAULTS, "recurrent_bias": False},
}
"""Maps each recurrent library block to the defaults of its parameters; MISSING marks a required parameter."""
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
"""Number of gates of each recurrent block.

For states of size `width`, the block's linear maps have `gates * width` output features.
"""
MAX_ANCESTORS = 64
"""Approximate maximum number of ancestors of a state that are searched for the linear maps of the layer."""


@lru_cache(maxsize=16)
def recurrent_net(
    name: str, tokens: int, features: int, width: int, bias: bool = True, recurrent_bias: bool = True,
    reverse: bool = False,
) -> Graph:  # fmt: skip
    """Elaborate a net that applies one block of std.recurrent (`lstm`, `gru` or `rnn`) to f32[tokens, features]."""
    flags = {"bias": bias, "recurrent_bias": recurrent_bias, "reverse": reverse}
    arguments = ", ".join([str(width), *(f"{key}={str(flag).lower()}" for key, flag in flags.items())])
    text = f"import std.recurrent\nnet layer {{\n    input x: f32[{tokens}, {features}]\n"
    return elaborate(f"{text}    output y = x |> {name}({arguments})\n}}\n", name)


def fuse_recurrent_layers(items: Sequence[Item], outputs: Iterable[int], graph: Graph, types: Types) -> list[Item]:
    """Replace unrolled recurrent layers by calls of recurrent library blocks; return the new statements."""
    step_by_value = {item.writes[0]: item for item in items if isinstance(item, Step) and len(item.writes) == 1}
    removed: set[NodeId] = set()
    calls: dict[NodeId, Step] = {}
    users: dict[NodeId, set[NodeId]] = {}
    for number, item in step_by_value.items():
        if not isinstance(graph[number].op, Concat) or types[number].rank != 2:
            continue
        match = _match_layer(graph, types, number)
        if match is None:
            continue
        name, source, arguments, nodes = match
        if not users:
            for user in graph:
                for operand in graph.operands(user):
                    users.setdefault(operand, set()).add(user)
        inside = nodes - {number}
        if inside <= step_by_value.keys() and not inside & {*outputs} and all(users[node] <= nodes for node in inside):
            removed |= inside
            calls[number] = Step(name, (source,), item.writes, arguments, "", name)
    return [
        calls.get(item.writes[0], item) if isinstance(item, Step) else item
        for item in items
        if not isinstance(item, Step) or item.writes[0] not in removed
    ]


def _match_layer(graph: Graph, types: Types, root: NodeId) -> tuple[str, NodeId, dict[str, Any], set[NodeId]] | None:
    """Recognise the recurrent layer whose states are joined by the concatenation `root`.

    Returns the block name, the input, the arguments and the matched nodes, or None if there is no such layer.
    """
    states = graph.operands(root)
    tokens, width = types[root].shape
    if len(states) != tokens:
        return None
    for place in (0, -1):  # the state of the first token that is processed has no state before it
        maps = {n: op for n in _ancestors(graph, states[place]) if isinstance(op := graph[n].op, Linear)}
        inputs = next((n for n in maps if types[n].shape[0] == tokens), None)
        recurrent_map = next((n for n in maps if types[n].shape[0] == 1 != tokens), None)
        if inputs is None or recurrent_map is None:
            continue
        for name, gates in GATES.items():
            if types[inputs].shape[-1] == types[recurrent_map].shape[-1] == gates * width:
                (source,) = graph.operands(inputs)
                flags = {"bias": maps[inputs].bias, "recurrent_bias": maps[recurrent_map].bias, "reverse": place == -1}
                expected = recurrent_net(name, tokens, types[source].shape[-1], width, **flags)
                nodes = _match_nodes(expected, graph, root, source)
                if nodes is not None:
                    return name, source, {**RECURRENT[name], "width": width, **flags}, nodes
    return None


def _ancestors(graph: Graph, number: NodeId) -> list[NodeId]:
    """Return a node and its ancestors, breadth-first, stopping soon after MAX_ANCESTORS nodes."""
    ancestors = [number]
    for node in ancestors:
        ancestors += [operand for operand in graph.operands(node) if operand not in ancestors]
        if len(ancestors) > MAX_ANCESTORS:
            break
    return ancestors


def _match_nodes(expected: Graph, graph: Graph, root: NodeId, source: NodeId) -> set[NodeId] | None:
    """Match the nodes between `source` and `root` with those of `expected`.

    Returns the matched nodes, or None if the two differ. The nodes must also share weights in the same way.
    """
    (result,), (start,) = expected.outputs.values(), expected.inputs.values()
    stack, matched = [(result, root)], {start: source}
    scopes: dict[str, str] = {}
    while stack:
        node, other = stack.pop()
        if matched.setdefault(node, other) != other:
            return None
        if node == start:
            continue
        expected_node, actual_node = expected[node], graph[other]
        weights = isinstance(expected_node.op, Linear)
        if expected_node.op != actual_node.op or (
            weights and scopes.setdefault(expected_node.scope, actual_node.scope) != actual_node.scope
        ):
            return None
        pairs = list(zip(expected.operands(node), graph.operands(other), strict=True))
        stack += [pair for pair in pairs if pair[0] not in matched or matched[pair[0]] != pair[1]]
    return {*matched.values()} - {source}
