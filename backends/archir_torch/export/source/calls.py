"""Assignment of a graph's nodes to the block calls that contain them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from archir.ir.graph import Graph, NodeId, scope_path
from archir.ir.structure import Input
from archir.ir.typing import Types
from archir_torch.export.source.holes import literal
from archir_torch.lowering.layers import Argument

MAX_INLINED = 4
"""Maximum number of operations in a call without weights for it to be inlined into its caller."""


@dataclass
class Call:
    """One call of a block: the values it reads (`inputs`) and returns (`outputs`), its nodes and nested calls."""

    scope: str
    name: str
    inputs: list[NodeId] = field(default_factory=list)
    outputs: list[NodeId] = field(default_factory=list)
    items: list[Call | NodeId] = field(default_factory=list)
    class_name: str = ""
    arguments: list[Argument] = field(default_factory=list)

    def nodes(self) -> list[NodeId]:
        """Return all nodes in the call, including those of nested calls."""
        return [n for item in self.items for n in (item.nodes() if isinstance(item, Call) else [item])]

    @property
    def constructor(self) -> str:
        """Python expression that constructs the module of the call."""
        return f"{self.class_name}({', '.join(literal(argument.value) for argument in self.arguments)})"

    def calls(self) -> Iterator[Call]:
        """Yield the calls nested directly in this one."""
        return (item for item in self.items if isinstance(item, Call))

    def everything(self) -> list[Call]:
        """Return the call and all calls nested in it, at any depth."""
        return [self, *(inner for call in self.calls() for inner in call.everything())]


def call_tree(graph: Graph, types: Types, preserved: str = "") -> Call:
    """Return the tree of a graph's block calls, with the net as its root.

    Small calls without weights are inlined, except those of the block `preserved`.
    """
    root = Call("", graph.name)
    calls_by_scope = {"": root}
    for number in graph:
        if not isinstance(graph[number].op, Input):
            _owner(graph, graph[number].scope, calls_by_scope).items.append(number)
    _inline_small(root, graph, types, preserved)
    for call in reversed(root.everything()):
        inside = set(call.nodes())
        read = {operand for item in call.items if not isinstance(item, Call) for operand in graph.operands(item)}
        read |= {number for inner in call.calls() for number in inner.inputs}
        # a call without inputs still needs the batch size
        call.inputs = sorted(read - inside) or [*graph.inputs.values()][:1]
        used = {n for n in inside if any(c not in inside for c in graph.consumers(n))} | set(graph.outputs.values())
        call.outputs = [n for n in call.nodes() if n in used]
    root.inputs = list(graph.inputs.values())
    root.outputs = list(graph.outputs.values())
    return root


def _owner(graph: Graph, scope: str, calls: dict[str, Call]) -> Call:
    """Return the innermost call that contains nodes of a scope, creating it on first use."""
    parts = scope_path(scope)
    owner = calls[""]
    for end in range(1, len(parts) + 1):
        prefix = scope_of(parts[:end])
        if prefix in graph.blocks:
            if prefix not in calls:
                calls[prefix] = Call(prefix, graph.blocks[prefix])
                owner.items.append(calls[prefix])
            owner = calls[prefix]
    return owner


def _inline_small(call: Call, graph: Graph, types: Types, preserved: str) -> None:
    """Inline small calls without weights into their callers."""
    items: list[Call | NodeId] = []
    for item in call.items:
        if isinstance(item, Call):
            _inline_small(item, graph, types, preserved)
            is_weightless = all(
                not isinstance(inner, Call) and not has_weights(graph, types, inner) for inner in item.items
            )
            is_small = is_weightless and len(item.items) <= MAX_INLINED and item.name != preserved
            items += item.items if is_small else [item]
        else:
            items.append(item)
    call.items = items


def has_weights(graph: Graph, types: Types, number: NodeId) -> bool:
    """Return whether a node has weights."""
    return bool(graph[number].op.weights(*(types[o] for o in graph.operands(number))))


def scope_of(parts: Sequence[str]) -> str:
    """Join components to a scope."""
    return re.sub(r"\.(\d+)", r"[\1]", ".".join(parts))
