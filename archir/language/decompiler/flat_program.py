"""Writes graphs without choices as flat `.arch` programs, with one statement per node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import MISSING, fields

from archir.diagnostics.errors import require
from archir.ir.graph import Graph, NodeId
from archir.ir.names import require_names
from archir.ir.op import Op
from archir.ir.structure import Input
from archir.ir.typing import Types, infer
from archir.language.decompiler.spelling import snake
from archir.language.formatter import canonical
from archir.language.literals import literal


def to_source(graph: Graph) -> str:
    """Write a graph as a program with one net that elaborates to an equal graph, with one assignment per node.

    Variables are named after scopes. Weights get other names than in the original program, because the scopes of
    blocks are lost. Raises RuleError if the graph has choices, ArchError (A0908) if a name is not valid in
    programs.
    """
    require_names(graph)
    for op in (graph[number].op for number in graph):
        internal = op.internal and not isinstance(op, Input)
        require(not internal and not op.varying_attributes, f"`{graph.name}` has choices that are not made")
    shared = shared_weights(graph, infer(graph))
    names = _Names()
    variables: dict[NodeId, str] = {}
    lines = []
    for label, number in graph.inputs.items():
        op = graph[number].op
        assert isinstance(op, Input)
        variables[number] = names.new(label)
        lines.append(f"input {variables[number]}: {op.dtype}[{', '.join(map(str, op.dims))}]")
    reserved = set(graph.outputs)
    for number in graph:
        op = graph[number].op
        if isinstance(op, Input):
            continue
        call = _call(op, [variables[operand] for operand in graph.operands(number)], shared.get(number))
        variables[number] = names.new(_variable_name(graph[number].scope, op), reserved)
        lines.append(f"{variables[number]} = {call}")
    lines += [f"output {label} = {variables[number]}" for label, number in graph.outputs.items()]
    body = "\n".join(f"    {line}" for line in lines)
    return canonical(f"net {graph.name} {{\n{body}\n}}\n", graph.name)


def shared_weights(graph: Graph, types: Types) -> dict[NodeId, str]:
    """Map each node whose weights are used by several nodes to a unique name for these shared weights."""
    with_weights = [n for n in graph if graph[n].op.weights(*(types[o] for o in graph.operands(n)))]
    uses = Counter(graph[number].scope for number in with_weights)
    names = _Names()
    repeated = [scope for scope, count in uses.items() if count > 1]
    shared = {scope: names.new(f"shared_{snake(scope.rpartition('.')[2])}") for scope in repeated}
    return {number: shared[graph[number].scope] for number in with_weights if graph[number].scope in shared}


class _Names:
    """Allocator of unique names."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def new(self, wanted: str, reserved: Iterable[str] = ()) -> str:
        """Return `wanted`, with `_2`, `_3`, ... appended if it is taken or reserved; the name is then taken."""
        name, number = wanted, 1
        while name in self.taken or name in reserved:
            number += 1
            name = f"{wanted}_{number}"
        self.taken.add(name)
        return name


def _variable_name(scope: str, op: Op) -> str:
    """Return the variable name of a node: `stage[0].layer[1].conv_2` -> `stage_0_layer_1_conv_2_out`.

    The suffix `_out` avoids clashes with keywords and operations.
    """
    words = re.sub(r"\W+", "_", scope).strip("_")
    return f"{words or op.name}_out"


def _call(op: Op, operands: list[str], shared: str | None) -> str:
    """Return the text of a call of an operation: operands, attributes that differ from their defaults, and the name of
    its weights if it shares them."""
    attributes = []
    for field in fields(op):
        value = getattr(op, field.name)
        if field.default is MISSING or value != field.default or type(value) is not type(field.default):
            attributes.append(f"{field.name}={literal(value)}")
    if shared:
        attributes.append(f'weights="{shared}"')
    return f"{op.name}({', '.join([*operands, *attributes])})"
