"""Recurrent layers, which are written out step by step, as calls of the library's blocks: what these are made of is
compared node by node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import MISSING
from functools import lru_cache
from typing import Any

from archir.ir.graph import Graph, NodeId
from archir.ir.typing import Types
from archir.language.decompiler.outline import Item, Step
from archir.language.elaboration.elaborate import elaborate
from archir.ops.arithmetic import Concat
from archir.ops.conv import Linear

PLAIN = {"bias": True, "reverse": False}
RECURRENT: dict[str, dict[str, Any]] = {
    "lstm": {"width": MISSING, **PLAIN, "recurrent_bias": False},
    "gru": {"width": MISSING, **PLAIN, "recurrent_bias": True},
    "rnn": {"width": MISSING, **PLAIN, "recurrent_bias": False},
}
"""The blocks, and what they take."""
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
"""Parts of what they map tokens and states to."""
NEAR = 64
"""Nodes before a first state that are looked at."""


@lru_cache(maxsize=16)
def layer(
    name: str, tokens: int, features: int, width: int, bias: bool = True, recurrent_bias: bool = True,
    reverse: bool = False,
) -> Graph:  # fmt: skip
    """A net of one block of std.recurrent, on tokens f32[tokens, features]: `lstm`, `gru` or `rnn`."""
    flags = {"bias": bias, "recurrent_bias": recurrent_bias, "reverse": reverse}
    given = ", ".join([str(width), *(f"{key}={str(flag).lower()}" for key, flag in flags.items())])
    text = f"import std.recurrent\nnet layer {{\n    input x: f32[{tokens}, {features}]\n"
    return elaborate(f"{text}    output y = x |> {name}({given})\n}}\n", name)


def recurrent(items: Sequence[Item], outputs: Iterable[int], graph: Graph, types: Types) -> list[Item]:
    """The same statements, with calls of recurrent layers."""
    own = {item.writes[0]: item for item in items if isinstance(item, Step) and len(item.writes) == 1}
    gone: set[NodeId] = set()
    calls: dict[NodeId, Step] = {}
    users: dict[NodeId, set[NodeId]] = {}
    for number, item in own.items():
        if not isinstance(graph[number].op, Concat) or types[number].rank != 2:
            continue
        found = _layer(graph, types, number)
        if found is None:
            continue
        name, source, given, nodes = found
        if not users:
            for user in graph:
                for operand in graph.operands(user):
                    users.setdefault(operand, set()).add(user)
        inside = nodes - {number}
        if inside <= own.keys() and not inside & {*outputs} and all(users[one] <= nodes for one in inside):
            gone |= inside
            calls[number] = Step(name, (source,), item.writes, given, "", name)
    return [
        calls.get(item.writes[0], item) if isinstance(item, Step) else item
        for item in items
        if not isinstance(item, Step) or item.writes[0] not in gone
    ]


def _layer(graph: Graph, types: Types, root: NodeId) -> tuple[str, NodeId, dict[str, Any], set[NodeId]] | None:
    """The block whose states are side by side here, what it reads, its arguments, and its nodes."""
    states = graph.operands(root)
    tokens, width = types[root].shape
    if len(states) != tokens:
        return None
    for place in (0, -1):  # the one after the first token has no other before it
        maps = {n: op for n in _before(graph, states[place]) if isinstance(op := graph[n].op, Linear)}
        inputs = next((n for n in maps if types[n].shape[0] == tokens), None)
        again = next((n for n in maps if types[n].shape[0] == 1 != tokens), None)
        if inputs is None or again is None:
            continue
        for name, gates in GATES.items():
            if types[inputs].shape[-1] == types[again].shape[-1] == gates * width:
                (source,) = graph.operands(inputs)
                flags = {"bias": maps[inputs].bias, "recurrent_bias": maps[again].bias, "reverse": place == -1}
                wanted = layer(name, tokens, types[source].shape[-1], width, **flags)
                nodes = _alike(wanted, graph, root, source)
                if nodes is not None:
                    return name, source, {**RECURRENT[name], "width": width, **flags}, nodes
    return None


def _before(graph: Graph, number: NodeId) -> list[NodeId]:
    """What a node is computed of, the nearest first."""
    found = [number]
    for one in found:
        found += [operand for operand in graph.operands(one) if operand not in found]
        if len(found) > NEAR:
            break
    return found


def _alike(wanted: Graph, graph: Graph, root: NodeId, source: NodeId) -> set[NodeId] | None:
    """The nodes that make `root` of `source`, if they are those of the other graph, with weights shared alike."""
    (result,), (start,) = wanted.outputs.values(), wanted.inputs.values()
    stack, known = [(result, root)], {start: source}
    scopes: dict[str, str] = {}
    while stack:
        one, other = stack.pop()
        if known.setdefault(one, other) != other:
            return None
        if one == start:
            continue
        mine, theirs = wanted[one], graph[other]
        weights = isinstance(mine.op, Linear)
        if mine.op != theirs.op or (weights and scopes.setdefault(mine.scope, theirs.scope) != theirs.scope):
            return None
        pairs = list(zip(wanted.operands(one), graph.operands(other), strict=True))
        stack += [pair for pair in pairs if pair[0] not in known or known[pair[0]] != pair[1]]
    return {*known.values()} - {source}
