"""Which nodes of a graph belong to which call of which block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Input
from archir.ir.typing import Types
from archir_torch.export.source.holes import literal
from archir_torch.lowering.layers import Argument

DISSOLVED = 4
"""Operations up to which a call without weights is written where it is called."""


@dataclass
class Call:
    """One call of a block: what it reads and gives, and what is in it: nodes and further calls."""

    scope: str
    name: str
    inputs: list[NodeId] = field(default_factory=list)
    outputs: list[NodeId] = field(default_factory=list)
    items: list[Call | NodeId] = field(default_factory=list)
    class_name: str = ""
    arguments: list[Argument] = field(default_factory=list)

    def nodes(self) -> list[NodeId]:
        """All nodes inside."""
        return [n for item in self.items for n in (item.nodes() if isinstance(item, Call) else [item])]

    @property
    def constructor(self) -> str:
        """How the module of the call is made."""
        return f"{self.class_name}({', '.join(literal(argument.value) for argument in self.arguments)})"

    def calls(self) -> Iterator[Call]:
        """The calls right in it."""
        return (item for item in self.items if isinstance(item, Call))

    def everything(self) -> list[Call]:
        """The call and all below it."""
        return [self, *(inner for call in self.calls() for inner in call.everything())]


def tree(graph: Graph, types: Types, kept: str = "") -> Call:
    """The calls of a graph in the one that is the net itself; those of the block `kept` stay, however small."""
    root = Call("", graph.name)
    known = {"": root}
    for number in graph:
        if not isinstance(graph[number].op, Input):
            _home(graph, graph[number].scope, known).items.append(number)
    _dissolve(root, graph, types, kept)
    for call in reversed(root.everything()):
        inside = set(call.nodes())
        read = {operand for item in call.items if not isinstance(item, Call) for operand in graph.operands(item)}
        read |= {number for inner in call.calls() for number in inner.inputs}
        # what reads nothing still has to know how large the batch is
        call.inputs = sorted(read - inside) or [*graph.inputs.values()][:1]
        used = {n for n in inside if any(c not in inside for c in graph.consumers(n))} | set(graph.outputs.values())
        call.outputs = [n for n in call.nodes() if n in used]
    root.inputs = list(graph.inputs.values())
    root.outputs = list(graph.outputs.values())
    return root


def _home(graph: Graph, scope: str, known: dict[str, Call]) -> Call:
    """The innermost call that a node of this scope belongs to, made if it is new."""
    parts = parts_of(scope)
    home = known[""]
    for end in range(1, len(parts) + 1):
        prefix = scope_of(parts[:end])
        if prefix in graph.blocks:
            if prefix not in known:
                known[prefix] = Call(prefix, graph.blocks[prefix])
                home.items.append(known[prefix])
            home = known[prefix]
    return home


def _dissolve(call: Call, graph: Graph, types: Types, kept: str) -> None:
    """Put the operations of small calls without weights in the place of these calls."""
    items: list[Call | NodeId] = []
    for item in call.items:
        if isinstance(item, Call):
            _dissolve(item, graph, types, kept)
            bare = all(not isinstance(inner, Call) and not has_weights(graph, types, inner) for inner in item.items)
            small = bare and len(item.items) <= DISSOLVED and item.name != kept
            items += item.items if small else [item]
        else:
            items.append(item)
    call.items = items


def has_weights(graph: Graph, types: Types, number: NodeId) -> bool:
    """Whether a node has weights."""
    return bool(graph[number].op.weights(*(types[o] for o in graph.operands(number))))


def parts_of(scope: str) -> list[str]:
    """The components of a scope."""
    return re.findall(r"[^.\[\]]+", scope)


def scope_of(parts: list[str]) -> str:
    """The scope of these components."""
    return re.sub(r"\.(\d+)", r"[\1]", ".".join(parts))
